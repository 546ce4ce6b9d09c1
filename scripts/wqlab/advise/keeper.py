# SPDX-License-Identifier: GPL-2.0
"""Puts back what advise.sh changes on a running machine, however advise.sh ends.

The keeper is a process that waits until the pipe from advise.sh is closed. The kernel closes it
when advise.sh ends, even by SIGKILL. Then the keeper writes the former size of shards, and removes
the module. A run that ends normally leaves this to the keeper, too. So each run tests the keeper.
"""
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wqlab.steps import Failure

ENDING_S = 30
# $0 is the folder of the module in sysfs, $1 the file with the size, if it is changed, and $2 the former size. rmmod
# fails while a pass is running. The signal that has ended advise.sh soon ends this pass, too.
KEEPER = '''
trap "" HUP INT PIPE QUIT TERM TSTP
read -r _
[ ! "$1" ] || [ "$(cat "$1")" = "$2" ] || echo "$2" >"$1"
tries=0
while [ -d "$0" ] && ! rmmod "${0##*/}" && [ $((tries += 1)) -lt 200 ]; do
	sleep 0.1
done
'''


def with_sbin() -> dict[str, str]:
    """Return an environment in which insmod and rmmod are found."""
    return {**os.environ, 'PATH': f'{os.environ["PATH"]}:/usr/sbin:/sbin'}


@contextlib.contextmanager
def kept(module: Path, size: Path | None) -> Iterator[None]:
    """Put back the size, and remove the module, when the block or this process ends."""
    before = size.read_text().strip() if size else ''
    reading, writing = os.pipe()
    child = subprocess.Popen(['/bin/sh', '-c', KEEPER, module, size or '', before], stdin=reading, env=with_sbin(),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(ENDING_S)
        if size and size.read_text().strip() != before:
            raise Failure(f'{size} could not be set back: write {before} to it by hand')
        if module.exists():
            raise Failure(f'{module.name} could not be removed: run rmmod {module.name}')
