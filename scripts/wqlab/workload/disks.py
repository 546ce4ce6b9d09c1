# SPDX-License-Identifier: GPL-2.0
"""Disks that live in memory, and a layer that makes them lose or change data."""
import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wqlab.steps import Failure
from wqlab.workload import machine
from wqlab.workload.cases import Wrong

RAM_DISK = Path('/dev/ram0')
MIB = 384               # the size of a disk; XFS needs 300
SPOILT = 'wqlab-spoilt'
PIECE = 1 << 20
# Tables of dm-flakey: its seconds of good and of bad behaviour, and what is bad then.
GOOD = '1 0'
SPOIL = {'corrupt': '0 1 2 random_write_corrupt 20000000',      # a random byte in one of 50 writes
         'stale': '0 1 1 drop_writes'}                          # blocks keep what they had


def parameters() -> str:
    """Return the parameters with which a kernel that has the RAM disk built in makes the one that we need."""
    return f'brd.rd_nr=1 brd.rd_size={MIB << 10}'


def mebibytes(device: Path) -> int:
    return int(Path('/sys/class/block', device.resolve().name, 'size').read_text()) >> 11


def sectors(device: Path) -> str:
    return machine.run('blockdev', '--getsz', device).strip()


def check_unused(device: Path) -> None:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        why = 'it is in use' if error.errno == errno.EBUSY else str(error)
        raise Failure(f'{device} cannot be used as a test disk: {why}') from None


@contextlib.contextmanager
def ram_disk() -> Iterator[Path]:
    """Yield an empty disk in memory."""
    loaded = not RAM_DISK.exists() and machine.load('brd', 'rd_nr=1', f'rd_size={MIB << 10}')
    with machine.removed_at_the_end('brd', loaded):
        if not RAM_DISK.exists() or mebibytes(RAM_DISK) < MIB:
            raise Failure(f'this kernel has no RAM disk of {MIB} MiB: boot it with {parameters()}')
        check_unused(RAM_DISK)
        machine.run('blkdiscard', RAM_DISK)
        try:
            yield RAM_DISK
        finally:
            machine.run('blkdiscard', '--force', RAM_DISK)      # give the memory back


@contextlib.contextmanager
def spoilt(device: Path, how: str | None) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the disk, and a function after whose call it loses or changes data. Without `how` it never does."""
    if not how:
        yield device, lambda: None
        return
    machine.need_target('flakey')
    size = sectors(device)
    machine.run('dmsetup', 'create', SPOILT, '--table', f'0 {size} flakey {device} 0 {GOOD}')

    def begin() -> None:
        machine.run('dmsetup', 'load', SPOILT, '--table', f'0 {size} flakey {device} 0 {SPOIL[how]}')
        machine.run('dmsetup', 'resume', SPOILT)
    try:
        yield Path('/dev/mapper', SPOILT), begin
    finally:
        machine.run('dmsetup', 'remove', '--retry', SPOILT)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob('*') if path.is_file())


def digest(paths: Iterable[Path], most: int | None = None) -> str:
    """Return a checksum of the names and contents of files, or of the first bytes of a disk."""
    found = hashlib.sha512()
    for path in paths:
        found.update(f'{path}\n'.encode())
        with open(path, 'rb') as file:
            left = os.fstat(file.fileno()).st_size if most is None else most
            while left > 0 and (piece := file.read(min(left, PIECE))):
                found.update(piece)
                left -= len(piece)
        if left > 0:
            raise OSError(errno.EIO, 'shorter than before', str(path))
    return found.hexdigest()


class Mount:
    """A place where a file system can be mounted, and the command that does it, without the place."""

    def __init__(self, place: Path, *command: object):
        self.place, self.command = place, command

    def mount(self) -> None:
        machine.run(*self.command, self.place)

    def unmount(self) -> None:
        if self.place.is_mount():
            machine.run('umount', '-i', self.place)

    def check_again(self) -> None:
        """Compare all files that fio has verified with what is there after the file system was mounted again."""
        check_same(lambda: digest(files(self.place)), [self.unmount, self.mount])


def check_same(checksum: Callable[[], str], renew: Iterable[Callable[[], None]]) -> None:
    """Raise Wrong unless the data is the same before and after these steps, or if it cannot be read any more."""
    try:
        before = checksum()
        for step in renew:
            step()
        after = checksum()
    except (OSError, Failure) as error:
        raise Wrong(f'the data cannot be read again: {error}') from None
    if before != after:
        raise Wrong('after the disk or the file system was closed and opened again, it has other data')
