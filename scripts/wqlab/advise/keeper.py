# SPDX-License-Identifier: GPL-2.0
"""Puts back what advise.sh changes on a running machine, however advise.sh ends.

The keeper is a process that waits until the pipe from advise.sh is closed. The kernel closes it
when advise.sh ends, even by SIGKILL. Then the keeper writes the former size of shards, and removes
the module. A run that ends normally leaves this to the keeper, too. So each run tests the keeper.
"""
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wqlab.steps import Failure

ENDING_S = 30
# $0 is the folder of the module in sysfs. $@ has pairs of words: a file, and its former content. rmmod fails while a
# pass is running. The signal that has ended advise.sh soon ends this pass, too.
KEEPER = '''
trap "" HUP INT PIPE QUIT TERM TSTP
read -r _
while [ $# -gt 1 ]; do
	[ "$(cat "$1")" = "$2" ] || echo "$2" >"$1" || bad=1
	shift 2
done
tries=0
while [ -d "$0" ] && ! rmmod "${0##*/}" 2>/dev/null; do
	[ $((tries += 1)) -lt 200 ] || exit 1
	sleep 0.1
done
exit ${bad:-0}
'''


class Keeper:
    """The process, as long as the block runs."""

    def __init__(self, module: Path, files: Sequence[Path]):
        self.module = module        # its folder in sysfs
        self.before = {path: path.read_text().strip() for path in files}

    def __enter__(self) -> 'Keeper':
        words = [str(word) for pair in self.before.items() for word in pair]
        path = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
        reading, writing = os.pipe()
        try:
            self.child = subprocess.Popen(['/bin/sh', '-c', KEEPER, str(self.module), *words], stdin=reading,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                                          text=True, env={**os.environ, 'PATH': path})
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self.writing = writing
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.writing)
        try:
            said = str(self.child.communicate(timeout=ENDING_S)[1]).strip()
        except subprocess.TimeoutExpired:
            said = ''
        for path, text in self.before.items():
            now = path.read_text().strip()
            if now != text:
                raise Failure(f'{path} is {now}, and could not be set back to {text}: write {text} to it by hand'
                              f'{f" ({said})" if said else ""}')
        if self.module.exists():
            raise Failure(f'{self.module.name} could not be removed: run rmmod {self.module.name}')
