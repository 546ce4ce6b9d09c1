# SPDX-License-Identifier: GPL-2.0
"""dm-crypt on a disk in memory: kcryptd en- and decrypts each request in a work item.

The name of a case is CIPHER/ram/PATH/JOB/SCOPE. The jobs 32k-* are the three scenarios of the
base kernel's Documentation/core-api/workqueue.rst, with as many issuers as CPUs, a third and
a sixth. Each issuer has a part of the disk for itself: if two wrote the same block, neither
could verify it.
"""
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wqlab.workload import cases, disks, fio, machine
from wqlab.workload.scopes import SCOPES, of_workqueue

NAME = 'wqlab-crypt'
DEVICE = Path('/dev/mapper', NAME)
CIPHERS = {'aes': ('aes-xts-plain64', 512), 'null': ('cipher_null-ecb', 256)}
# kcryptd, or what replaces it. `highpri` is not an option of Debian 12's cryptsetup.
PATHS = {'queue': [], 'no-queue': ['--perf-no_read_workqueue', '--perf-no_write_workqueue'],
         'same-cpu': ['--perf-same_cpu_crypt'], 'highpri': []}
SHARES = {'32k-all': 1, '32k-third': 3, '32k-sixth': 6}
BIG = {'bs': '32k', 'verify': 'sha256'}
SMALL = {'bs': '4k', 'verify': 'crc32c'}
DIRECT = {'filename': DEVICE, 'direct': 1, 'ioengine': 'libaio'}
SINGLES = {f'4k-{direction}-{depth}': (direction, depth) for direction in ('read', 'write') for depth in (1, 32)}


def areas(cpus: int) -> tuple[int, int]:
    """Return the sizes in MiB of the area of 32k blocks, with which the disk begins, and of the area of 4k blocks."""
    # An issuer on each CPU needs more blocks than it has requests in flight.
    return min(max(16, 4 * cpus), disks.MIB // 2), min(max(8, cpus), disks.MIB // 4)


def issuers(share: int, cpus: int) -> int:
    return max(1, cpus // share)


def scenarios(cpus: int) -> list[str]:
    """Return the scenarios that differ: on few CPUs, a third and a sixth of them are both one."""
    counts = {issuers(share, cpus): name for name, share in reversed(SHARES.items())}
    return [name for name in SHARES if name in counts.values()]


def names(cpus: int) -> list[str]:
    jobs = [*scenarios(cpus), 'buffered', *SINGLES]
    return ['/'.join(parts) for parts in itertools.product(CIPHERS, ['ram'], PATHS, jobs, SCOPES)
            if parts[2] in ('queue', 'highpri') or parts[4] == 'default']


def notes(cpus: int) -> list[str]:
    left = [name for name in SHARES if name not in scenarios(cpus)]
    same = f'{cpus} CPUs: {", ".join(left)} left out, since another scenario has the same number of issuers'
    return [same] if left else []


def split(start_mib: int, mib: int, jobs: int, block: int) -> dict[str, int]:
    """Give each job an equal part of an area, in whole blocks."""
    each = (mib << 20) // jobs // block * block
    return {'offset': start_mib << 20, 'size': each, 'offset_increment': each}


def job_of(name: str, cpus: int) -> tuple[fio.Job, str]:
    """Return what fio does for a job of this name, and the direction whose figures count."""
    big, small = areas(cpus)
    if name in SHARES:
        jobs = issuers(SHARES[name], cpus)
        return fio.Job({**DIRECT, **BIG, 'rw': 'randrw', 'iodepth': 64, **split(0, big, jobs, 32 << 10)}, jobs), 'read'
    if name == 'buffered':
        return fio.Job({**DIRECT, **SMALL, 'direct': 0, 'ioengine': 'io_uring', 'rw': 'randrw', 'iodepth': 64,
                        **split(big, small, cpus, 4 << 10)}, cpus), 'read'
    direction, depth = SINGLES[name]
    return fio.Job({**DIRECT, **SMALL, 'rw': f'rand{direction}', 'iodepth': depth,
                    **split(big, small, 1, 4 << 10)}), direction


@contextlib.contextmanager
def key() -> Iterator[Path]:
    """Yield a file with a new key, which is long enough for each cipher."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(64))
        file.flush()
        yield Path(file.name)


class Mapping:
    """An open dm-crypt device, filled with blocks that fio can verify."""

    def __init__(self, disk: Path, cipher: str, path: str, key: Path, cpus: int):
        self.disk, self.cipher, self.path, self.key, self.cpus = disk, cipher, path, key, cpus

    def open(self) -> None:
        cipher, bits = CIPHERS[self.cipher]
        machine.run('cryptsetup', 'open', '--type', 'plain', '--cipher', cipher, '--key-size', bits, '--key-file',
                    self.key, *PATHS[self.path], self.disk, NAME)
        if self.path == 'highpri':
            table = machine.run('dmsetup', 'table', '--showkeys', NAME).strip()
            machine.run('dmsetup', 'load', NAME, '--table', f'{table} 1 high_priority')
            machine.run('dmsetup', 'resume', NAME)

    def close(self) -> None:
        if DEVICE.exists():     # `cryptsetup close` refuses tables with high_priority
            machine.run('dmsetup', 'remove', '--retry', NAME)

    def fill(self) -> None:
        big, small = areas(self.cpus)
        for start, mib, block in ((0, big, BIG), (big, small, SMALL)):
            fio.run(fio.Job({**DIRECT, **block, 'rw': 'write', 'iodepth': 16, **split(start, mib, 1, 32 << 10)}))

    def queue(self) -> str:
        """Return a pattern of the names of kcryptd in sysfs, not of kcryptd_io. A suffix counts the tables."""
        number = os.stat(DEVICE).st_rdev
        return f'kcryptd[-!]{os.major(number)}:{os.minor(number)}*'

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        *_, name, scope = case.split('/')
        job, direction = job_of(name, self.cpus)
        with of_workqueue(self.queue(), scope):
            report, cpu = fio.repeated(job, seconds)
        return 'MiB/s', fio.figures(report, cpu, direction)

    def check_again(self) -> None:
        """Compare all that fio has verified with what is there after the disk was closed and opened."""
        used = sum(areas(self.cpus)) << 20
        disks.check_same(lambda: disks.digest([DEVICE], used), [self.close, self.open])


@contextlib.contextmanager
def opened(group: str, cpus: int, spoil: str | None) -> Iterator[Mapping]:
    machine.need_target('crypt')
    cipher, _, path = group.split('/')
    with contextlib.ExitStack() as stack:
        lower, spoil_it = stack.enter_context(disks.spoilt(stack.enter_context(disks.ram_disk()), spoil))
        mapping = Mapping(lower, cipher, path, stack.enter_context(key()), cpus)
        mapping.open()
        stack.callback(mapping.close)
        mapping.fill()
        spoil_it()
        yield mapping


WORKLOAD = cases.Workload(
    name='dm-crypt', what='an encrypted disk in memory, read and written by fio',
    latency='one request, from its submission to its completion',
    columns=(cases.IOPS, cases.CPU, cases.P50, cases.P99, cases.P999),
    names=names, opened=opened, parts=3, notes=notes,
    sets={'quick': ('aes/ram/queue/32k-all/system', 'aes/ram/queue/32k-all/cache_shard',
                    'aes/ram/queue/4k-*-32/default'),
          'default': ('aes/ram/queue/32k-all/*', 'aes/ram/queue/32k-*/system',
                      'aes/ram/queue/32k-*/cache_shard', 'aes/ram/queue/4k-*/default',
                      'aes/ram/queue/buffered/default', 'null/ram/queue/4k-write-32/system',
                      'null/ram/queue/4k-write-32/cache_shard',
                      'aes/ram/*/32k-all/default', 'aes/ram/no-queue/4k-*/default')})
