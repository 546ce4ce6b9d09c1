# SPDX-License-Identifier: GPL-2.0
"""dm-crypt and ext4, one on top of the other, while all settings of the workqueues change and CPUs come and go.

The cases are ext4-on-crypt (an encrypted disk with a file system) and crypt-on-ext4 (an
encrypted disk in a file of a file system, by a loop device). changes.py makes the changes.

fio writes in rounds, with direct I/O, through the page cache, and with fsync() after each
block, and reads back what it has written. It reads once more before it overwrites a block in
the next round. Each round writes in another order, so that a block of an earlier round has
another number.
"""
import contextlib
import dataclasses
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from wqlab.steps import Failure
from wqlab.workload import cases, changes, disks, dmcrypt, fio, lines, machine, writeback
from wqlab.workload.cases import Wrong

EXT4 = writeback.FILE_SYSTEMS['ext4']
WRITES = {'rw': 'randwrite', 'verify': 'crc32c'}
MOST_JOBS = 64      # each needs some blocks of its own
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of a round: what fio does, how much it writes, and where on a disk."""
    name: str
    options: dict[str, Any]
    block: int
    start_mib: int
    mib: int


PIECES = (Piece('direct', {'ioengine': 'libaio', 'direct': 1, 'iodepth': 16}, 16 << 10, 0, 24),
          Piece('buffered', {'ioengine': 'io_uring', 'iodepth': 16, 'end_fsync': 1}, 64 << 10, 24, 24),
          Piece('fsync', {'ioengine': 'psync', 'fsync': 1}, 4 << 10, 48, 2))
ALL_MIB = sum(piece.mib for piece in PIECES)


def size_each(piece: Piece, jobs: int) -> int:
    return dmcrypt.split(piece.start_mib, piece.mib, jobs, piece.block)['size']


class Target(Protocol):
    """What fio writes to."""

    def options(self, piece: Piece, jobs: int) -> dict[str, Any]:
        """Return where fio writes a piece."""

    def digest(self) -> str:
        """Return a checksum of all that fio has written."""


@dataclasses.dataclass(frozen=True)
class Files:
    folder: Path

    def options(self, piece: Piece, jobs: int) -> dict[str, Any]:
        return {'directory': self.folder, 'filename_format': f'{piece.name}.$jobnum', 'size': size_each(piece, jobs)}

    def digest(self) -> str:
        return disks.digest(sorted(self.folder.glob('*.*')))


@dataclasses.dataclass(frozen=True)
class Disk:
    device: Path

    def options(self, piece: Piece, jobs: int) -> dict[str, Any]:
        return {'filename': self.device, **dmcrypt.split(piece.start_mib, piece.mib, jobs, piece.block)}

    def digest(self) -> str:
        return disks.digest([self.device], ALL_MIB * MIB)


class Layers:
    """How the layers are put on a disk. With `new`, they are made, and have no data yet."""

    def __init__(self, disk: Path, folder: Path, key: Path, cpus: int):
        self.disk, self.folder, self.key, self.cpus = disk, folder, key, cpus

    @contextlib.contextmanager
    def crypt(self, disk: Path) -> Iterator[Path]:
        mapping = dmcrypt.Mapping(disk, 'aes', 'queue', self.key, self.cpus)
        mapping.open()
        try:
            yield dmcrypt.DEVICE
        finally:
            mapping.close()

    @contextlib.contextmanager
    def ext4(self, disk: Path, new: bool) -> Iterator[Path]:
        mounted = writeback.Mounted(EXT4, disk, self.folder, self.cpus)
        if new:
            mounted.make()
        else:
            check_file_system(disk)
        mounted.mount()
        try:
            yield self.folder
        finally:
            mounted.unmount()

    @contextlib.contextmanager
    def ext4_on_crypt(self, new: bool) -> Iterator[Target]:
        with self.crypt(self.disk) as device, self.ext4(device, new) as folder:
            yield Files(folder)

    @contextlib.contextmanager
    def crypt_on_ext4(self, new: bool) -> Iterator[Target]:
        with self.ext4(self.disk, new) as folder:
            image = folder / 'image'
            if new:
                with open(image, 'wb') as file:
                    os.posix_fallocate(file.fileno(), 0, ALL_MIB * MIB)
            with disks.looped(image) as loop, self.crypt(loop) as device:
                yield Disk(device)


LAYOUTS: dict[str, Callable[[Layers, bool], AbstractContextManager[Target]]] = {
    'ext4-on-crypt': Layers.ext4_on_crypt, 'crypt-on-ext4': Layers.crypt_on_ext4}


def check_file_system(disk: Path) -> None:
    """Raise Wrong unless the file system, which is not in use, is clean."""
    try:
        machine.run('e2fsck', '-f', '-n', disk)
    except Failure as error:
        raise Wrong(f'ext4 is damaged: {error}') from None


class Stack:
    """Layers that are in use."""

    def __init__(self, layout: Callable[[bool], AbstractContextManager[Target]], cpus: int):
        self.layout, self.jobs = layout, min(max(2, cpus), MOST_JOBS)
        self.used = contextlib.ExitStack()
        self.seeds: dict[str, int] = {}     # of what each piece has written last

    def open(self, new: bool) -> None:
        self.target = self.used.enter_context(self.layout(new))

    def fio(self, piece: Piece, **more: object) -> int:
        """Let fio write a piece and verify it, or only verify it. Return how many bytes it has verified."""
        job = fio.Job({**WRITES, **piece.options, 'bs': piece.block, 'randseed': self.seeds[piece.name],
                       **self.target.options(piece, self.jobs)}, self.jobs)
        verified, expected = fio.run(job, **more)['read']['io_bytes'], self.jobs * size_each(piece, self.jobs)
        if verified != expected:
            raise Wrong(f'{piece.name}: fio has verified {verified} bytes instead of {expected}')
        return verified

    def verify(self, piece: Piece) -> int:
        """Let fio verify what a piece has written last, if it has written anything."""
        return self.fio(piece, verify_only=1) if piece.name in self.seeds else 0

    def write(self, piece: Piece, chance: random.Random) -> int:
        verified = self.verify(piece)
        self.seeds[piece.name] = chance.getrandbits(31)
        return verified + self.fio(piece)

    def rounds(self, case: str, chance: random.Random, changer: changes.Changer) -> Iterator[int]:
        """Write all pieces again and again. Yield after each round how many bytes were verified."""
        log = machine.KernelLog()       # which would overwrite its first messages in a long run
        for number in itertools.count(1):
            verified = 0
            for piece in PIECES:
                verified += self.write(piece, chance)
                changer.check()
                lines.emit('news', text=f'{case}: round {number}, {piece.name}, {changer.counts.total()} changes')
            if complaints := log.complaints():
                lines.emit('trouble', lines=complaints)
            yield verified

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        """Write for this long at least, and until each kind of change was made."""
        writing, changing = (random.Random(random.getrandbits(64)) for _ in range(2))
        started, verified, number = time.monotonic(), 0, 0
        with changes.Changer(changing, changes.PACE_S) as changer:
            for found in self.rounds(case, writing, changer):
                verified, number = verified + found, number + 1
                if time.monotonic() - started >= seconds and changer.complete:
                    break
            taken = time.monotonic() - started
        changer.check()
        return 'MiB/s', {'rate': verified / MIB / taken, 'verified_mib': verified / MIB, 'rounds': number,
                         **changer.figures()}

    def check_again(self) -> None:
        """Compare and verify all data after all layers were taken out of use, checked, and taken into use again."""
        try:
            before = self.target.digest()
            self.used.close()
            self.open(new=False)
            after = self.target.digest()
        except (OSError, Failure) as error:
            raise Wrong(f'the data cannot be read again: {error}') from None
        if before != after:
            raise Wrong('there is other data after the file system was mounted and the disk was opened again')
        for piece in PIECES:
            self.verify(piece)


class Group:
    def __init__(self, name: str, cpus: int):
        self.name, self.cases, self.cpus = name, [name], cpus

    @contextlib.contextmanager
    def opened(self, spoil: str | None) -> Iterator[Stack]:
        machine.need_target('crypt')
        machine.need_file_system('ext4')
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
            key = stack.enter_context(dmcrypt.key())
            disk, spoil_it = stack.enter_context(disks.spoilt(stack.enter_context(disks.ram_disk()), spoil))
            layers = Layers(disk, folder, key, self.cpus)
            endured = Stack(lambda new: LAYOUTS[self.name](layers, new), self.cpus)
            stack.callback(endured.used.close)
            endured.open(new=True)
            spoil_it()
            yield endured


def names(cpus: int) -> list[str]:
    return list(LAYOUTS)


def groups(members: Sequence[str], cpus: int) -> list[Group]:
    return [Group(name, cpus) for name in members]


def notes(cpus: int) -> list[str]:
    return ['one CPU: it cannot go offline'] if cpus == 1 else []


WORKLOAD = cases.Workload(
    name='endure', what='dm-crypt and ext4 while attributes, scopes and CPUs change (only if named)',
    latency='one change', only_if_named=True,
    columns=(('verified_mib', 'verified MiB'), ('changes', 'changes'), *((name, name) for name in changes.NAMES),
             cases.P50, cases.P99),
    names=names, groups=groups, notes=notes, sets={'quick': ('ext4-on-crypt',), 'default': ('*',)})
