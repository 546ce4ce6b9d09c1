# SPDX-License-Identifier: GPL-2.0
"""NFS to this machine itself: fio reads and writes 512 bytes at a time, in files that the server has in memory.

The name of a case is ENGINE/JOBS/DIRECTION/SCOPE. Each request is a remote procedure call, which
the client's workqueues rpciod and xprtiod carry out: fio bypasses the page cache.
Each job has a file for itself.
"""
import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wqlab.workload import cases, disks, fio, nfsserver, scopes
from wqlab.workload.cases import Lacking

# of fio: how many requests each job has in flight. The synchronous ones have one.
ENGINES = {'psync': 1, 'sync': 1, 'vsync': 1, 'libaio': 8, 'io_uring': 8, 'posixaio': 8}
MANY = 200
DIRECTIONS = ('write', 'read')
SCOPES = ('default', 'system', 'cache', 'cache_shard')
QUEUES = '[nrx]*iod'        # nfsiod, rpciod and xprtiod
BLOCK = 512
LEAST_BLOCKS, ALL_BLOCKS = 16, 512     # of each job, of all jobs together
SIZE_MIB = 64
OPTIONS = f'vers=4.2,proto=tcp,port={nfsserver.PORT},addr={nfsserver.ADDRESS},clientaddr={nfsserver.ADDRESS},sec=sys'
BYPASS = Path('/sys/module/nfs/parameters/localio_enabled')


def counts(cpus: int) -> dict[str, int]:
    """Return the numbers of jobs, each once."""
    found = {'1': 1, 'cpus': cpus, str(MANY): MANY}
    return {name: jobs for name, jobs in found.items() if name != 'cpus' or jobs not in (1, MANY)}


def names(cpus: int) -> list[str]:
    return ['/'.join(parts) for parts in itertools.product(ENGINES, counts(cpus), DIRECTIONS, SCOPES)]


def notes(cpus: int) -> list[str]:
    same = f'{cpus} CPUs: the cases */cpus/* are left out, since they are the same as */{cpus}/*'
    return [] if 'cpus' in counts(cpus) else [same]


def blocks(jobs: int) -> int:
    """Return how many blocks the file of each job has."""
    return max(LEAST_BLOCKS, ALL_BLOCKS // jobs)


def job_of(engine: str, jobs: int, how: str, folder: Path) -> fio.Job:
    return fio.Job({'directory': folder, 'rw': how, 'bs': BLOCK, 'size': blocks(jobs) * BLOCK, 'direct': 1,
                    'ioengine': engine, 'iodepth': ENGINES[engine], 'verify': 'crc32c'}, jobs)


@contextlib.contextmanager
def without_bypass() -> Iterator[None]:
    """Meanwhile, a client that finds its server on the same machine does not bypass the network (NFS_LOCALIO)."""
    if not BYPASS.exists():
        yield
        return
    with scopes.changed(BYPASS, 'N'):
        yield


class Mounted(disks.Mount):
    """The client's view of the exported folder, with files that fio can verify."""

    def __init__(self, place: Path, there: tuple[str, ...], cpus: int):
        super().__init__(place, *there, 'mount', '-i', '-t', 'nfs4', '-o', OPTIONS, f'{nfsserver.ADDRESS}:/')
        self.cpus = cpus

    def folder(self, count: str, direction: str) -> Path:
        """Return the folder of the files for this many jobs, with data if they will only be read."""
        folder = self.place / count
        new = not folder.exists()
        folder.mkdir(exist_ok=True)
        if new and direction == 'read':
            fio.run(job_of('psync', counts(self.cpus)[count], 'write', folder))
        return folder

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        engine, count, direction, scope = case.split('/')
        job = job_of(engine, counts(self.cpus)[count], f'rand{direction}', self.folder(count, direction))
        with scopes.of_workqueue(QUEUES, scope):
            found = fio.figures(*fio.repeated(job, seconds), direction)
        return 'IOPS', {**found, 'rate': found['iops']}


@contextlib.contextmanager
def opened(group: str, cpus: int, spoil: str | None) -> Iterator[Mounted]:
    if spoil:
        raise Lacking('its files are on no disk that can be spoilt')
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
        export = stack.enter_context(nfsserver.mounted(folder / 'export', 'mount', '-t', 'tmpfs', '-o',
                                                       f'size={SIZE_MIB}m', 'tmpfs'))
        there = stack.enter_context(nfsserver.serving(folder, export))
        stack.enter_context(without_bypass())
        place = folder / 'files'
        place.mkdir()
        client = Mounted(place, there, cpus)
        client.mount()
        stack.callback(client.unmount)
        yield client


WORKLOAD = cases.Workload(
    name='nfs', what='an NFS client and server on the same machine, 512 bytes at a time by fio',
    latency='one request, from its submission to its completion',
    columns=(cases.CPU, cases.P50, cases.P99, cases.P999),
    names=names, opened=opened, notes=notes,
    sets={'quick': ('psync/200/write/system', 'psync/200/write/cache_shard'),
          'default': ('psync/200/write/cache', '*/cpus/write/default', 'psync/cpus/read/default')})
