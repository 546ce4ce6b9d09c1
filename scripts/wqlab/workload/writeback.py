# SPDX-License-Identifier: GPL-2.0
"""File systems on a disk in memory: dirty pages are written by the workqueue `writeback`, and by their own.

The name of a case is FILESYSTEM/JOB. The jobs are:
fsync     each thread overwrites 4k blocks of a file at random and calls fsync() after each
buffered  each thread writes a file in random order, then calls fsync() once
"""
import contextlib
import dataclasses
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wqlab.workload import cases, disks, fio, machine


@dataclasses.dataclass(frozen=True)
class FileSystem:
    kind: str
    make: tuple[str, ...]
    mount: str = 'defaults'


FILE_SYSTEMS = {
    # Without lazy initialisation, which would go on while the cases run.
    'ext4': FileSystem('ext4', ('mkfs.ext4', '-q', '-F', '-E', 'lazy_itable_init=0,lazy_journal_init=0')),
    'xfs': FileSystem('xfs', ('mkfs.xfs', '-q', '-f')),
    'btrfs': FileSystem('btrfs', ('mkfs.btrfs', '-q', '-f')),
    'btrfs-zstd': FileSystem('btrfs', ('mkfs.btrfs', '-q', '-f'), 'compress=zstd'),
}
JOBS = ('fsync', 'buffered')
FSYNC_KIB, BUFFERED_MIB = 1024, 32
WRITES = {'ioengine': 'psync', 'verify': 'crc32c', 'buffer_compress_percentage': 50}


def names(cpus: int) -> list[str]:
    return ['/'.join(parts) for parts in itertools.product(FILE_SYSTEMS, JOBS)]


def overwriting(folder: Path, threads: int) -> fio.Job:
    return fio.Job({**WRITES, 'directory': folder, 'rw': 'randwrite', 'bs': '4k', 'size': f'{FSYNC_KIB}k', 'fsync': 1},
                   threads)


def buffered(folder: Path, threads: int) -> fio.Job:
    return fio.Job({**WRITES, 'directory': folder, 'rw': 'randwrite', 'bs': '64k', 'end_fsync': 1,
                    'size': f'{(BUFFERED_MIB << 10) // threads // 64 * 64}k'}, threads)


class Mounted(disks.Mount):
    """A file system on a disk."""

    def __init__(self, system: FileSystem, disk: Path, place: Path, cpus: int):
        super().__init__(place, 'mount', '-t', system.kind, '-o', system.mount, disk)
        self.system, self.disk, self.threads = system, disk, max(2, cpus)

    def make(self) -> None:
        machine.run(*self.system.make, self.disk)

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        job = case.split('/')[1]
        folder = self.place / job
        folder.mkdir()
        if job == 'fsync':
            return 'fsyncs/s', fio.sync_figures(*fio.repeated(overwriting(folder, self.threads), seconds))
        found = fio.figures(*fio.repeated(buffered(folder, self.threads), seconds), 'write')
        # The percentiles of copying into the page cache say nothing about how long writeback takes.
        return 'MiB/s', {name: found[name] for name in ('rate', 'cpu_percent', 'ios')}


@contextlib.contextmanager
def opened(group: str, cpus: int, spoil: str | None) -> Iterator[Mounted]:
    system = FILE_SYSTEMS[group]
    machine.need_file_system(system.kind)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
        disk, spoil_it = stack.enter_context(disks.spoilt(stack.enter_context(disks.ram_disk()), spoil))
        mounted = Mounted(system, disk, place, cpus)
        mounted.make()
        mounted.mount()
        stack.callback(mounted.unmount)
        spoil_it()
        yield mounted


WORKLOAD = cases.Workload(
    name='writeback', what='ext4, XFS and btrfs on a disk in memory: fsync(), writes in random order',
    latency='one call of fsync()', columns=(cases.CPU, cases.P50, cases.P99, cases.P999),
    names=names, opened=opened,
    sets={'quick': ('ext4/fsync', 'btrfs/fsync'), 'default': ('*',)})
