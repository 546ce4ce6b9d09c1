# SPDX-License-Identifier: GPL-2.0
"""Workloads on a simulated machine: what its guest runs, and what its reports mean.

The guest has no interpreter, which would take minutes to start. So the host writes a script for its shell, with the
jobs that the workloads define. steady.sh has the functions that it calls. Jobs run for ever. Only a stretch of each
is simulated, and only its second part counts. Afterwards, all data that was written is verified.
"""
import dataclasses
import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from wqlab.workload import disks, dmcrypt, fio, nfs, nfsserver, writeback
from wqlab.workload.cases import CPU, Workload, by_prefix
from wqlab.workload.scopes import SCOPES

STEADY_SH = Path(__file__).with_name('steady.sh')
SECONDS = 0.02
DEPTH, IN_FLIGHT = 8, 576       # most requests of 32k from each issuer, and from all
# Two writes of one block at the same time would leave parts of both. The log has the ms of each completion.
STEADY = {'time_based': 1, 'runtime': '1d', 'do_verify': 0, 'serialize_overlap': 1, 'write_lat_log': 'log',
          'log_unix_epoch': 1, 'per_job_logs': 0, 'log_entries': 1 << 17, 'disable_lat': 1, 'disable_slat': 1}
KEY = hashlib.sha512(b'any key does').hexdigest()
# as dmcrypt.PATHS: options of the table
TABLES = {'queue': '', 'no-queue': '2 no_read_workqueue no_write_workqueue', 'same-cpu': '1 same_cpu_crypt',
          'highpri': '1 high_priority'}
TICKS_PER_S = 100       # of /proc/stat
QUANTILES = {'p50_us': 0.5, 'p99_us': 0.99, 'p999_us': 0.999}
FILES, EXPORT = Path('/mnt'), Path('/srv')


def line(*words: object) -> str:
    """Return a line of a shell's script."""
    return shlex.join(map(str, words))


def run_fio(job: fio.Job, **more: object) -> list[str]:
    return [*job.words(**more), '--eta=never']


def steady(name: str, job: fio.Job, counter: str, amount: int, seconds: float) -> str:
    """Return the call of steady(). What is only read is not verified meanwhile, as on other engines."""
    more = {**STEADY, 'verify': 0} if job.options['rw'] == 'randread' else STEADY
    return line('steady', name, counter, amount, f'{seconds / 2:g}', f'{seconds:g}',
                *run_fio(job, **more))


# dm-crypt

def crypt_areas(members: Sequence[str], cpus: int) -> list[fio.Job]:
    """Return a job for each part of the disk that the cases use. It covers the whole part."""
    big, small = dmcrypt.areas(cpus)
    jobs = {name.split('/')[3] for name in members}
    places = [(0, big, dmcrypt.BIG, 32 << 10)] * bool(jobs & {*dmcrypt.SHARES}) + \
             [(big, small, dmcrypt.SMALL, 4 << 10)] * bool(jobs - {*dmcrypt.SHARES})
    return [fio.Job({**dmcrypt.DIRECT, **how, 'iodepth': 16, **dmcrypt.split(start, mib, 1, block)})
            for start, mib, how, block in places]


def crypt_job(name: str, cpus: int) -> fio.Job:
    """
    As dmcrypt.job_of(), but so few requests are in flight that most end in the time that is simulated.
    And as a buffered job never ends, all blocks would soon be in the page cache: so write them back.
    """
    job, _ = dmcrypt.job_of(name, cpus)
    if name in dmcrypt.SHARES:
        return fio.Job({**job.options, 'iodepth': max(1, min(DEPTH, IN_FLIGHT // job.jobs))}, job.jobs)
    if job.options['direct']:
        return job
    how = {'rw': 'randwrite', 'ioengine': 'psync', 'iodepth': 1, 'fdatasync': 32}
    return fio.Job({**job.options, **how}, job.jobs)


def crypt_group(name: str, members: Sequence[str], cpus: int, seconds: float) -> Iterator[str]:
    cipher, _, path = name.split('/')
    mode, bits = dmcrypt.CIPHERS[cipher]
    # The null cipher has no key.
    table = ('open_crypt', mode, KEY[:bits // 4] if cipher != 'null' else '-', TABLES[path])
    yield line(*table)
    for area in crypt_areas(members, cpus):
        yield line('quiet', 'fio', *run_fio(area, rw='write', do_verify=0))
    for case in members:
        *_, job_name, scope = case.split('/')
        job = crypt_job(job_name, cpus)
        yield line('scope', *SCOPES[scope], 'kcryptd[-!]*')
        yield steady(case, job, 'crypt_requests', job.jobs * job.options['iodepth'], seconds)
    yield line('close_crypt')
    yield line(*table)
    for area in crypt_areas(members, cpus):
        yield line('verify', name, *run_fio(area, rw='read'))
    yield line('close_crypt')


# File systems

def sync_group(name: str, members: Sequence[str], cpus: int, seconds: float) -> Iterator[str]:
    system = writeback.FILE_SYSTEMS[name]
    job = writeback.overwriting(FILES, cpus)
    mount = line('quiet', 'mount', '-t', system.kind, '-o', system.mount, disks.RAM_DISK, FILES)
    yield line('quiet', *system.make, disks.RAM_DISK)
    yield mount
    yield line('quiet', 'fio', *run_fio(job, rw='write', do_verify=0, fsync=0, end_fsync=1))
    for case in members:
        yield steady(case, job, 'kib_written', 64 * cpus, seconds)
    yield line('quiet', 'umount', FILES)
    yield mount
    yield line('verify', name, *run_fio(job, rw='read', fsync=0))
    yield line('quiet', 'umount', FILES)


def sync_names(cpus: int) -> list[str]:
    """Return those cases that can go on for ever."""
    return [name for name in writeback.names(cpus) if name.endswith('/fsync')]


# NFS

def nfs_group(name: str, members: Sequence[str], cpus: int, seconds: float) -> Iterator[str]:
    mount = line('quiet', 'mount', '-i', '-t', 'nfs4', '-o', nfs.OPTIONS, f'{nfsserver.ADDRESS}:/', FILES)
    for file, answer in nfsserver.answers(EXPORT).items():
        yield line('tell', f'/proc/net/rpc/{file}/channel', answer.rstrip())
    for file, text in (('versions', nfsserver.VERSIONS), ('portlist', f'tcp {nfsserver.PORT}'),
                       ('threads', nfsserver.THREADS)):
        yield line('tell', f'/proc/fs/nfsd/{file}', str(text).rstrip())
    yield mount
    jobs = [nfs_job(case, cpus) for case in members]
    for job in {job.jobs: job for job in jobs}.values():
        yield line('mkdir', job.options['directory'])
        yield line('quiet', 'fio', *run_fio(job, rw='write', do_verify=0))
    for case, job in zip(members, jobs, strict=True):
        yield line('scope', *SCOPES[case.split('/')[-1]], nfs.QUEUES)
        yield steady(case, job, 'calls', 4 * job.jobs * job.options['iodepth'], seconds)
    yield line('quiet', 'umount', FILES)
    yield mount
    for job in {job.jobs: job for job in jobs}.values():
        yield line('verify', name, *run_fio(job, rw='read'))
    yield line('quiet', 'umount', FILES)


def nfs_job(case: str, cpus: int) -> fio.Job:
    engine, count, direction, _ = case.split('/')
    jobs = nfs.counts(cpus)[count]
    return nfs.job_of(engine, jobs, f'rand{direction}', FILES / count)


@dataclasses.dataclass(frozen=True)
class Simulated:
    """How a workload is run in a simulated guest."""
    workload: Workload              # with the cases that can be simulated
    unit: str                       # of their rates
    group: Callable[[str, Sequence[str], int, float], Iterator[str]]
    prepare: str = ''               # a function of steady.sh


CRYPT = dataclasses.replace(
    dmcrypt.WORKLOAD,
    sets={'quick': ('aes/ram/queue/32k-sixth/system', 'aes/ram/queue/32k-sixth/cache',
                    'null/ram/queue/4k-write-32/system'),
          'default': ('aes/ram/queue/32k-*/system', 'aes/ram/queue/32k-*/cache', 'aes/ram/queue/32k-*/cache-strict',
                      'aes/ram/queue/buffered/default', 'null/ram/queue/4k-write-*/system',
                      'null/ram/queue/4k-write-32/cache_shard')})
SYNC = dataclasses.replace(
    writeback.WORKLOAD, names=sync_names, what='fsync() on ext4, XFS and btrfs on a disk in memory',
    latency='a write() with its fsync()', quantiles='mean', columns=(CPU, ('mean_us', 'mean µs')),
    sets={'quick': ('ext4/fsync',), 'default': ('ext4/fsync', 'xfs/fsync', 'btrfs/fsync')})
NFS = dataclasses.replace(
    nfs.WORKLOAD, sets={'quick': ('psync/cpus/write/system',),
                        'default': ('psync/cpus/*/system', 'psync/cpus/*/cache_shard')})
ALL = {one.workload.name: one for one in (
    Simulated(CRYPT, 'MiB/s', crypt_group), Simulated(SYNC, 'fsyncs/s', sync_group),
    Simulated(NFS, 'IOPS', nfs_group, 'prepare_nfs'))}
WORKLOADS = {name: one.workload for name, one in ALL.items()}


def script(name: str, cases: Sequence[str], cpus: int, seconds: float) -> str:
    """Return what the guest's shell runs."""
    one = ALL[name]
    rows = ['. /steady.sh', line('begin', cpus, json.dumps(list(cases))), *([one.prepare] if one.prepare else [])]
    for group, members in by_prefix(cases, one.workload.parts):
        rows += one.group(group, members, cpus, seconds)
    return '\n'.join([*rows, 'finish', ''])


def figures(name: str, cpus: int, stretch: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a case, of what a guest has reported of it."""
    ns, seconds = sorted(stretch['ns']), stretch['ms'] / 1000
    idle = [sum(map(int, row.split()[4:6])) for row in stretch['cpu']]
    ticks = stretch['elapsed_ns'] / 1e9 * TICKS_PER_S * cpus
    busy = max(0.0, 100 * (1 - (idle[1] - idle[0]) / ticks))
    found = {'rate': len(ns) / seconds, 'cpu_percent': busy, 'ios': len(ns)}
    if ns and name == SYNC.name:
        return {**found, 'mean_us': cpus * seconds * 1e6 / len(ns)}
    if name == CRYPT.name:
        found |= {'iops': found['rate'], 'rate': found['rate'] * kib(stretch['name']) / 1024}
    return {**found, **{key: ns[ceil(part * len(ns)) - 1] / 1000 for key, part in QUANTILES.items() if ns}}


def kib(case: str) -> int:
    """Return how large the requests of a case of dm-crypt are."""
    return int(crypt_job(case.split('/')[3], 1).options['bs'].removesuffix('k'))


def with_figures(found: list[dict[str, Any]], workload: str, cpus: int) -> list[dict[str, Any]]:
    """Return what a guest has reported, with figures of each stretch."""
    return [one if one['kind'] != 'stretch' else
            {'kind': 'case', 'name': one['name'], 'unit': ALL[workload].unit,
             'figures': figures(workload, cpus, one)}
            for one in found]
