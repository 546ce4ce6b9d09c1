# SPDX-License-Identifier: GPL-2.0
"""ext4 on dm-crypt, while all settings of the workqueues change and CPUs come and go. changes.py makes the changes.

fio writes in rounds, with direct I/O, through the page cache, and with fsync() after each
block, and reads back what it has written. It reads once more before it overwrites a block in
the next round. Each round writes in another order, so that a block of an earlier round has
another number.
"""
import contextlib
import dataclasses
import itertools
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wqlab.steps import Failure
from wqlab.workload import cases, changes, disks, dmcrypt, fio, lines, machine, writeback
from wqlab.workload.cases import Wrong

NAME = 'ext4-on-crypt'
EXT4 = writeback.FILE_SYSTEMS['ext4']
WRITES = {'rw': 'randwrite', 'verify': 'crc32c'}
MOST_JOBS = 64      # each needs some blocks of its own
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of a round: what fio does, and how much it writes."""
    name: str
    options: dict[str, Any]
    block: int
    mib: int


PIECES = (Piece('direct', {'ioengine': 'libaio', 'direct': 1, 'iodepth': 16}, 16 << 10, 24),
          Piece('buffered', {'ioengine': 'io_uring', 'iodepth': 16, 'end_fsync': 1}, 64 << 10, 24),
          Piece('fsync', {'ioengine': 'psync', 'fsync': 1}, 4 << 10, 2))
ALL_MIB = sum(piece.mib for piece in PIECES)


def size_each(piece: Piece, jobs: int) -> int:
    return piece.mib * MIB // jobs // piece.block * piece.block


def check_file_system(disk: Path) -> None:
    """Raise Wrong unless the file system, which is not in use, is clean."""
    try:
        machine.run('e2fsck', '-f', '-n', disk)
    except Failure as error:
        raise Wrong(f'ext4 is damaged: {error}') from None


class Stack:
    """A file system on an encrypted disk."""

    def __init__(self, mapping: dmcrypt.Mapping, mounted: writeback.Mounted, cpus: int):
        self.mapping, self.mounted, self.jobs = mapping, mounted, min(max(2, cpus), MOST_JOBS)
        self.seeds: dict[str, int] = {}     # of what each piece has written last

    def open(self, new: bool) -> None:
        """Take it into use. If it is `new`, it has no data yet."""
        self.mapping.open()
        if new:
            self.mounted.make()
        else:
            check_file_system(self.mounted.disk)
        self.mounted.mount()

    def close(self) -> None:
        self.mounted.unmount()
        self.mapping.close()

    def digest(self) -> str:
        """Return a checksum of all that fio has written."""
        return disks.digest(sorted(self.mounted.place.glob('*.*')))

    def fio(self, piece: Piece, **more: object) -> int:
        """Let fio write a piece and verify it, or only verify it. Return how many bytes it has verified."""
        job = fio.Job({**WRITES, **piece.options, 'bs': piece.block, 'randseed': self.seeds[piece.name],
                       'directory': self.mounted.place, 'filename_format': f'{piece.name}.$jobnum',
                       'size': size_each(piece, self.jobs)}, self.jobs)
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
        """Compare and verify all data after the file system was unmounted, checked, and mounted again."""
        disks.check_same(self.digest, [self.close, lambda: self.open(new=False)])
        for piece in PIECES:
            self.verify(piece)


class Group(cases.Members):
    @contextlib.contextmanager
    def opened(self, spoil: str | None) -> Iterator[Stack]:
        machine.need_target('crypt')
        machine.need_file_system('ext4')
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
            key = stack.enter_context(dmcrypt.key())
            disk, spoil_it = stack.enter_context(disks.spoilt(stack.enter_context(disks.ram_disk()), spoil))
            endured = Stack(dmcrypt.Mapping(disk, 'aes', 'queue', key, self.cpus),
                            writeback.Mounted(EXT4, dmcrypt.DEVICE, folder, self.cpus), self.cpus)
            stack.callback(endured.close)
            endured.open(new=True)
            spoil_it()
            yield endured


def names(cpus: int) -> list[str]:
    return [NAME]


def groups(members: Sequence[str], cpus: int) -> list[Group]:
    return [Group(NAME, list(members), cpus)] if members else []


def notes(cpus: int) -> list[str]:
    return ['one CPU: it cannot go offline'] if cpus == 1 else []


WORKLOAD = cases.Workload(
    name='endure', what='ext4 on dm-crypt while attributes, scopes and CPUs change (only if named)',
    latency='one change', only_if_named=True,
    columns=(('verified_mib', 'verified MiB'), ('changes', 'changes'), *((name, name) for name in changes.NAMES),
             cases.P50, cases.P99),
    names=names, groups=groups, notes=notes, sets={'quick': ('*',), 'default': ('*',)})
