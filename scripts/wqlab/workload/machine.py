# SPDX-License-Identifier: GPL-2.0
"""The machine on which a workload runs: its programs, its CPUs and its kernel's log."""
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wqlab.logs import check
from wqlab.steps import Failure, first_match, plain_environment
from wqlab.workload.cases import Lacking


def run(*command: object) -> str:
    """Run a program and return its output, or raise Failure with what it said."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              env=plain_environment(**environment()))
    except FileNotFoundError:
        raise Failure(f'{words[0]} is not installed: run CONFIG=workload scripts/deps.sh as root') from None
    if done.returncode:
        said = first_match(done.stderr or done.stdout, 'error', 'fail', 'cannot')
        raise Failure(f'{" ".join(words[:3])} failed with status {done.returncode}: {said}')
    return done.stdout


def environment() -> dict[str, str]:
    """Where programs are, and how they make device nodes: without udev, they have to make them themselves."""
    udev = {} if Path('/run/udev/control').exists() else {'DM_DISABLE_UDEV': '1'}
    return {'PATH': f'{os.environ.get("PATH", "/usr/bin:/bin")}:/usr/sbin:/sbin', **udev}


def load(module: str, *parameters: str) -> bool:
    """Load a module. Return False if there is none, for example because it is built in."""
    try:
        run('modprobe', module, *parameters)
    except Failure:
        return False
    return Path('/sys/module', module.replace('-', '_'), 'initstate').exists()


def need_file_system(name: str) -> None:
    load(name)
    if name not in Path('/proc/filesystems').read_text().split():
        raise Lacking(f'the kernel has no {name}')


def need_target(name: str) -> None:
    """Raise Lacking unless the device mapper has this target."""
    load('dm-mod')
    load(f'dm-{name}')
    try:
        listed = run('dmsetup', 'targets')
    except Failure as error:
        raise Lacking(f'the device mapper cannot be used: {error}') from None
    if name not in listed.split():
        raise Lacking(f'the kernel has no dm-{name}')


class CpuUse:
    """The share of time in which the CPUs were not idle while the block ran."""

    def __init__(self, stat: Path = Path('/proc/stat')):
        self.stat, self.percent = stat, 0.0

    def times(self) -> tuple[int, int]:
        """Return the idle time and the time in all of all CPUs."""
        fields = [int(field) for field in self.stat.read_text().splitlines()[0].split()[1:9]]
        return fields[3] + fields[4], sum(fields)

    def __enter__(self) -> 'CpuUse':
        self.before = self.times()
        return self

    def __exit__(self, *_: object) -> None:
        idle, total = (now - before for now, before in zip(self.times(), self.before))
        self.percent = 100 * (1 - idle / total) if total else 0.0


class KernelLog:
    """The messages that the kernel logs from now on."""

    def __init__(self, device: str = '/dev/kmsg'):
        self.file = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def messages(self) -> Iterator[str]:
        while True:
            try:
                line = os.read(self.file, 8192).decode('utf-8', 'replace')
            except BlockingIOError:
                return
            except BrokenPipeError:     # older messages were overwritten before they were read
                continue
            if not line:
                return
            yield line.partition(';')[2].partition('\n')[0]

    def complaints(self) -> list[str]:
        return check.bad_lines('\n'.join(self.messages()))


@contextlib.contextmanager
def removed_at_the_end(module: str, loaded: bool) -> Iterator[None]:
    """Unload a module again if this run has loaded it."""
    try:
        yield
    finally:
        if loaded:
            with contextlib.suppress(Failure):
                run('modprobe', '-r', module)
