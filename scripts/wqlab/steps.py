# SPDX-License-Identifier: GPL-2.0
"""Long commands with progress reports, locks between runs, and error messages."""
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from wqlab import procs
from wqlab.paths import BUILD, ROOT

EVERY_S = 10
GRACE_S = 10
MOST_LEFT = 1 << 20     # of a full disk
ADVICE = {
    errno.EACCES: 'change its permissions, or run this as another user',
    errno.EPERM: 'change its permissions, or run this as another user',
    errno.EROFS: 'mount it for writing, or use a clone of the project elsewhere',
    errno.ENOENT: 'check the path',
    errno.ENOTDIR: 'check the path',
    errno.EISDIR: 'give a file',
    errno.ENOSPC: 'free some space there and run this again',
}
Word = str | os.PathLike


class Failure(Exception):
    """An error. Its text is one line that tells the user what to do. The program ends with status 1."""


def need(*tools: str, engine: str = '', config: str = '') -> None:
    """Raise Failure if a program, or a file by its path, is missing."""
    for tool in tools:
        if not (shutil.which(tool) or '/' in tool and Path(tool).exists()):
            asked = (f'ENGINE={engine} ' if engine else '') + (f'CONFIG={config} ' if config else '')
            raise Failure(f'{tool} is missing: run {asked}scripts/deps.sh (as root) first')


def told(error: Exception) -> str:
    """Return an error as one line for the user. If it is one of the system, say what to do."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    names = ', '.join(shown(os.fsdecode(name)) for name in (error.filename, error.filename2)
                      if isinstance(name, (str, bytes, os.PathLike)))
    if error.errno == errno.ENOENT and names and '/' not in names and not shutil.which(names):
        return f'{names} does not exist; if it is a program, run scripts/deps.sh (as root) first'
    advice = ADVICE.get(error.errno, '')
    return ': '.join(filter(None, (names, error.strerror, advice)))


def sayer(name: str) -> Callable[[str], None]:
    """Return a function that prints a message to stderr after the program's name."""
    def say(text: str) -> None:
        print(f'{name}: {text}', file=sys.stderr, flush=True)
    return say


def shown(path: Word) -> str:
    """A path relative to the repository if it lies inside, else unchanged."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def plain_environment(**more: Word) -> dict[str, str]:
    """The environment of this process without make's own variables, and with English messages."""
    left = {name: value for name, value in os.environ.items() if name not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
    return {**left, 'LC_ALL': 'C', **{name: str(value) for name, value in more.items()}}


def first_match(text: str, *words: str) -> str:
    """The first line that contains one of @words (lower case), or else the last line."""
    lines = text.splitlines() or ['no message']
    return next((line for line in lines if any(word in line.lower() for word in words)), lines[-1])


class InUse(Failure):
    """Another process holds a lock."""


def holders(file: IO) -> list[int]:
    """Return the processes that hold a lock on an open file."""
    end = f':{os.fstat(file.fileno()).st_ino}'
    rows = map(str.split, Path('/proc/locks').read_text().splitlines())
    return [int(row[4]) for row in rows if row[1] == 'FLOCK' and row[5].endswith(end)]


def described(pid: int) -> str:
    try:
        words = Path(f'/proc/{pid}/cmdline').read_text(errors='replace').split('\0')
    except OSError:
        return f'process {pid}'
    return f'process {pid} ({" ".join([Path(words[0]).name, *words[1:]]).strip()[:60]})'


def ancestors() -> Iterator[int]:
    """Yield this process, its parent, and so on."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        pid = int(Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[1])


@contextlib.contextmanager
def locked(name: str, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """
    Hold a lock on @name, so that, for example, two makes do not write to one tree at the same time. A shared lock
    keeps out only those that want it for themselves. Raise InUse if it is not free and @wait is false, or if waiting
    would never end: a process that waits for this one holds it.
    """
    BUILD.mkdir(exist_ok=True)
    wanted = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with open(BUILD / f'.lock-{name}', 'a') as file:
        try:
            fcntl.flock(file, wanted | fcntl.LOCK_NB)
        except BlockingIOError:
            pids = holders(file)
            by = ' and '.join(map(described, pids)) or 'another run'
            if not wait or not set(pids).isdisjoint(ancestors()):
                raise InUse(f'{name} is in use by {by}: run this again after its end') from None
            sayer('lab')(f'{name} is in use by {by}: waiting for its end')
            fcntl.flock(file, wanted)
        yield


def is_in_use(name: str) -> bool:
    try:
        with locked(name, wait=False):
            return False
    except InUse:
        return True


def using(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Keep the kernel in this folder from being built again or removed, if it is one of ours."""
    folder = folder.absolute()
    if not folder.is_relative_to(BUILD):
        return contextlib.nullcontext()
    return locked(folder.relative_to(BUILD).parts[0], shared=True)


def watch(child: subprocess.Popen, log: Path, say: Callable[[str], None]) -> int:
    start = time.monotonic()
    while True:
        try:
            return child.wait(timeout=EVERY_S)
        except subprocess.TimeoutExpired:
            lines = log.read_text(errors='replace').splitlines()
            last = f', last: {lines[-1][:80]}' if lines else ''
            say(f'{time.monotonic() - start:.0f} s, {len(lines)} lines{last}')


def logged(log: Path, what: str, command: Sequence[Word], *, say: Callable[[str], None], cwd: Word | None = None,
           env: dict[str, str] | None = None) -> int:
    """Run a long command, write its output to a log, and report progress every 10 seconds. Return its status.

    When this function ends, even by an exception, every process that the command started has ended. So a lock that the
    caller holds covers all of them.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f'{what} (log: {shown(log)})')
    start = time.monotonic()
    with open(log, 'wb') as out, procs.kept(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                            cwd=cwd, env=env or plain_environment()) as child:
        try:
            status = watch(child, log, lambda now: say(f'{what}: {now}'))
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)        # let make delete unfinished files
            procs.wait_for(child, GRACE_S)
            raise
    if status and shutil.disk_usage(log.parent).free < MOST_LEFT:      # then the log does not say why
        raise Failure(f'the disk of {shown(log.parent)} is full: {ADVICE[errno.ENOSPC]}')
    if not status:
        say(f'{what}: done in {time.monotonic() - start:.0f} s')
    return status
