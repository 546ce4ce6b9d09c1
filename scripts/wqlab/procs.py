# SPDX-License-Identifier: GPL-2.0
"""Child processes that end with this one, however it ends."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

ENDING_S = 30       # a process that was killed is gone by then, unless its disk or the kernel hangs
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# $0 is the descriptor of the pipe. The read ends when the pipe has no writer left.
KEEPER = """(
	trap "" HUP INT QUIT TERM TSTP
	read -r _ </proc/self/fd/$0
	kill -KILL 0
) >/dev/null 2>&1 &
exec "$@"
"""


def end_on_signals() -> None:
    """
    From now on SIGTERM and SIGHUP end this process by way of what ends its guests and deletes its files.
    SIGINT does so by default, as KeyboardInterrupt. A signal that is ignored (nohup) stays ignored.
    """
    def leave(number: int, _: FrameType | None) -> None:
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)     # a second one would interrupt the cleaning up
        sys.exit(128 + number)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)


@contextlib.contextmanager
def kept(command: Sequence[object], *, pass_fds: Sequence[int] = (), **options: Any) -> Iterator[subprocess.Popen]:
    """
    A command in a process group of its own, which is killed at the end, and also when this process is gone
    for whatever reason. The options are those of subprocess.Popen().

    A second process of the group, the keeper, reads from a pipe that only this process can write to. When that
    ends, the keeper kills the group and itself. It also keeps the group's number from passing to somebody else's
    processes. The command leads the group: a UML that does not would leave it by setsid().
    """
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(['/bin/sh', '-c', KEEPER, str(reading), *map(str, command)], process_group=0,
                                 pass_fds=(*pass_fds, reading), **options)
        try:
            yield child
        finally:
            kill_group(child)
    finally:
        os.close(reading)
        os.close(writing)


def kill_group(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    wait_for(child, ENDING_S)


def end_gently(child: subprocess.Popen, seconds: float) -> None:
    """Ask a child to end, which lets it clean up."""
    child.terminate()
    wait_for(child, seconds)


def wait_for(child: subprocess.Popen, seconds: float) -> None:
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f'process {child.pid} did not end within {seconds:g} s', file=sys.stderr)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Delete what killed processes left behind: the first number in each name is that of the process."""
    for place in folder.glob(pattern):
        owner = re.search(r'\d+', place.name)
        if owner and not Path('/proc', owner[0]).exists():
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)
