# SPDX-License-Identifier: GPL-2.0
"""Child processes that end when this process ends."""
import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

ENDING_S = 30       # by then a killed process is gone, unless the disk or the kernel hangs
GROUP_S = 2         # limit for waiting for the others of its group
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# $0 is the file descriptor of the pipe. The read returns when no process has the pipe open for writing.
KEEPER = """(
	trap "" HUP INT QUIT TERM TSTP
	read -r _ </proc/self/fd/$0
	kill -KILL 0
) >/dev/null 2>&1 &
exec "$@"
"""


def end_on_signals() -> None:
    """
    From now on SIGTERM and SIGHUP raise SystemExit, so that cleanup code ends the guests and deletes files.
    SIGINT already does that by raising KeyboardInterrupt. A signal that is ignored (nohup) stays ignored.
    """
    def leave(number: int, _: FrameType | None) -> None:
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)     # a second signal must not interrupt the cleanup
        sys.exit(128 + number)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)


@contextlib.contextmanager
def kept(command: Sequence[object], *, pass_fds: Sequence[int] = (), new_session: bool = False,
         **options: Any) -> Iterator[subprocess.Popen]:
    """
    Run a command in a process group of its own, or in a session of its own. The group is killed when the block
    ends, and also when this process ends for any other reason. The options are those of subprocess.Popen().

    A second process in the group, the keeper, reads from a pipe. Only this process holds the writing end. When this
    process ends, the read returns, and the keeper kills the group and itself. As long as the keeper exists, the
    kernel cannot give the number of the group to other processes. The command is the leader of the group. Otherwise
    UML would leave the group by calling setsid().
    """
    reading, writing = os.pipe()
    try:
        try:
            child = subprocess.Popen(['/bin/sh', '-c', KEEPER, str(reading), *map(str, command)],
                                     process_group=None if new_session else 0, start_new_session=new_session,
                                     pass_fds=(*pass_fds, reading), **options)
        finally:
            os.close(reading)
        try:
            yield child
        finally:
            kill_group(child)
            wait_for_readers(writing, GROUP_S)
    finally:
        os.close(writing)


def run(command: Sequence[object], **options: Any) -> int:
    """
    Run a command that reports its own progress. Return its status.

    If this process is told to end, the command is told so, too, and is waited for: it may have to end others, delete
    files, or complete an installation. A second Ctrl-C ends the waiting. Unlike with kept(), the command goes on if
    this process is killed.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *ENDING_SIGNALS))
    unblock = functools.partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    child = subprocess.Popen(list(map(str, command)), preexec_fn=unblock, **options)
    try:
        unblock()       # a signal that came since then finds that the child is known
        return child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise


def set_priority(child: subprocess.Popen, nice: int) -> None:
    """
    Set the priority of the child's session, if this process may. Where sessions share the CPU time (autogroup),
    the nice values of processes have no effect.
    """
    with contextlib.suppress(OSError):
        Path(f'/proc/{child.pid}/autogroup').write_text(str(nice))


def kill_group(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    wait_for(child, ENDING_S)


def wait_for_readers(writing: int, seconds: float) -> None:
    """
    Wait until no process has a pipe open for reading. After kill_group() this waits for the keeper and for processes
    that the command has started: they are not our children.
    """
    poll = select.poll()
    poll.register(writing, 0)       # POLLERR is always reported
    poll.poll(seconds * 1000)


def end_gently(child: subprocess.Popen, seconds: float) -> None:
    """Send SIGTERM to a child, so that it can clean up, and wait."""
    child.terminate()
    wait_for(child, seconds)


def wait_for(child: subprocess.Popen, seconds: float) -> None:
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f'process {child.pid} did not end within {seconds:g} s', file=sys.stderr)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Delete the files of processes that no longer exist. The first number in a file name is the process ID."""
    for place in folder.glob(pattern):
        owner = re.search(r'\d+', place.name)
        if owner and not Path('/proc', owner[0]).exists():
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)
