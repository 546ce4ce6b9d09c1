# SPDX-License-Identifier: GPL-2.0
"""Network namespaces of this run: two, joined by a pair of veth devices."""
import contextlib
import ctypes
import dataclasses
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from wqlab.steps import Failure
from wqlab.workload import machine
from wqlab.workload.cases import Lacking

FOLDER = Path('/run/netns')
OURS = Path('/proc/thread-self/ns/net')
CABLE = 'wqlab-veth'
ADDRESSES = ('198.51.100.1', '198.51.100.2')        # reserved for documentation: they are nobody's
CLONE_NEWNET = 0x40000000


def move_thread(namespace: int) -> None:
    """Move the calling thread to another network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise Failure(f'cannot enter a network namespace: {os.strerror(number)}')


@dataclasses.dataclass(frozen=True)
class Namespace:
    name: str

    def ip(self, *words: object) -> str:
        return machine.run('ip', '-n', self.name, *words)

    def batch(self, lines: Iterable[str]) -> None:
        """Give ip many commands at once."""
        with tempfile.NamedTemporaryFile('w') as file:
            file.write(''.join(f'{line}\n' for line in lines))
            file.flush()
            self.ip('-batch', file.name)

    def command(self, *words: object) -> list[str]:
        """Return the command that runs a program in the namespace."""
        return ['ip', 'netns', 'exec', self.name, *map(str, words)]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Let the calling thread be in the namespace. A socket that it makes there stays there."""
        with open(OURS) as before, open(FOLDER / self.name) as there:
            move_thread(there.fileno())
            try:
                yield
            finally:
                move_thread(before.fileno())


def remove_leftovers() -> None:
    """Remove the namespaces of runs that were killed. The name contains the number of the process."""
    for path in FOLDER.glob('wqlab-*'):
        owner = re.fullmatch(r'wqlab-(\d+)-\w+', path.name)
        if owner and not Path('/proc', owner[1]).exists():
            machine.run('ip', 'netns', 'del', path.name)


@contextlib.contextmanager
def made(side: str) -> Iterator[Namespace]:
    name = f'wqlab-{os.getpid()}-{side}'
    try:
        machine.run('ip', 'netns', 'add', name)
        yield Namespace(name)
    finally:
        if (FOLDER / name).exists():
            machine.run('ip', 'netns', 'del', name)


def need_device(place: Namespace, kind: str) -> None:
    """Raise Lacking unless the kernel has network devices of this kind."""
    machine.load(kind)
    try:
        place.ip('link', 'add', 'wqlab-try', 'type', kind)
        place.ip('link', 'del', 'wqlab-try')
    except Failure as error:
        raise Lacking(f'the kernel has no {kind} device: {error}') from None


@contextlib.contextmanager
def joined() -> Iterator[tuple[Namespace, Namespace]]:
    """Yield two namespaces. They are removed at the end, with all devices in them."""
    if not OURS.exists():
        raise Lacking('the kernel has no network namespaces')
    remove_leftovers()
    with made('left') as left, made('right') as right:
        need_device(left, 'veth')
        left.ip('link', 'add', CABLE, 'type', 'veth', 'peer', 'name', CABLE, 'netns', right.name)
        for place, address in zip((left, right), ADDRESSES):
            place.batch([f'address add {address}/24 dev {CABLE}', f'link set {CABLE} up'])
        yield left, right
