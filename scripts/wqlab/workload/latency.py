# SPDX-License-Identifier: GPL-2.0
"""What a person feels: how late a task runs, or a work item starts, while a load keeps the machine busy.

The name of a case is LOAD/PROBE. The load runs alone first, which warms up and shows how
long it takes. Then it runs again, for a little longer than the probe, which starts later and
ends earlier.
"""
import contextlib
import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Protocol

from wqlab.steps import Failure
from wqlab.workload import cases, dmcrypt, fio, machine, stress, writeback
from wqlab.workload.cases import Place, by_prefix
from wqlab.workload.probes import PROBES

LEAD_S = 0.25       # by how much the load starts before the probe, and is meant to end after it

class Load(Protocol):
    """What runs beside the probe."""
    unit: str

    def warm_up(self) -> None:
        """Run once, so that run() knows how long it takes."""

    def run(self, seconds: float) -> float:
        """Run for about this long and verify the data. Return the rate."""


@dataclasses.dataclass
class Fio:
    job: fio.Job
    unit: str
    rate_of: Callable[[dict], float]
    first: dict | None = None

    def warm_up(self) -> None:
        self.first = self.first or fio.run(self.job)

    def run(self, seconds: float) -> float:
        assert self.first
        return self.rate_of(fio.run(self.job, loops=fio.loops_for(self.first, self.job.jobs, seconds)))


@dataclasses.dataclass
class Stress:
    name: str
    instances: int
    folder: Path
    unit: str = 'ops/s'

    def warm_up(self) -> None:
        """Stressors run for a fixed time."""

    def run(self, seconds: float) -> float:
        return stress.run(self.name, self.instances, seconds, self.folder)


def measured(figures: dict[str, float], rate: float, cpu_percent: float) -> dict[str, float]:
    """Return the figures of a probe, and what ran beside it."""
    if not figures['probes']:
        raise Failure('the load ended before the probe began: choose more --seconds')
    return {'rate': rate, 'cpu_percent': cpu_percent, **figures}


class Idle:
    """Nothing runs beside the probe."""

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        with machine.CpuUse() as use, PROBES[case.split('/')[1]]() as figures:
            time.sleep(seconds)
        return 'probes/s', measured(figures, figures['probes'] / seconds, use.percent)

    def check_again(self) -> None:
        """There is no data."""


@dataclasses.dataclass
class Loaded:
    """A load and the place in which it runs. `again` checks the data that it has written."""
    load: Load
    again: Callable[[], None]

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        probe = PROBES[case.split('/')[1]]()
        self.load.warm_up()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.load.run, seconds + 2 * LEAD_S)
            wait([running], LEAD_S)
            with machine.CpuUse() as use, probe as figures:
                wait([running], seconds)
            rate = running.result()
        return self.load.unit, measured(figures, rate, use.percent)

    def check_again(self) -> None:
        self.again()


def idle(cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    return Idle()


def crypt(path: str, cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    """dm-crypt, as busy as in the first scenario of that workload."""
    mapping = stack.enter_context(dmcrypt.Group(f'aes/ram/{path}', [], cpus).opened(spoil))
    job, direction = dmcrypt.job_of('32k-all', cpus)
    return Loaded(Fio(job, 'MiB/s', lambda report: fio.figures(report, 0, direction)['rate']), mapping.check_again)


def synced(system: str, cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    """A file system with the job `fsync` of the workload writeback."""
    mounted = stack.enter_context(writeback.Group(system, [], cpus).opened(spoil))
    job = writeback.overwriting(mounted.place, mounted.threads)
    return Loaded(Fio(job, 'fsyncs/s', lambda report: fio.sync_figures(report, 0)['rate']), mounted.check_again)


def buffered(system: str, cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    """A file system with the job `buffered` of the workload writeback."""
    mounted = stack.enter_context(writeback.Group(system, [], cpus).opened(spoil))
    job = writeback.buffered(mounted.place, mounted.threads)
    return Loaded(Fio(job, 'MiB/s', lambda report: fio.figures(report, 0, 'write')['rate']), mounted.check_again)


def stressed(name: str, cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    """Stressors that need no disk."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
    return Loaded(Stress(name, cpus, folder), lambda: None)


def stressed_files(cpus: int, spoil: str | None, stack: contextlib.ExitStack) -> Place:
    """Stressors of file systems. They delete their own files, so other files are there to be verified."""
    mounted = stack.enter_context(writeback.Group('ext4', [], cpus).opened(spoil))
    kept = mounted.place / 'kept'
    kept.mkdir()
    fio.run(writeback.buffered(kept, mounted.threads))
    return Loaded(Stress('filesystem', cpus, mounted.place), mounted.check_again)


FILE_SYSTEMS = ('ext4', 'btrfs', 'btrfs-zstd')
# name -> function that makes the place; what it enters is left when the place is no longer needed
LOADS: dict[str, Callable[[int, str | None, contextlib.ExitStack], Place]] = {
    'idle': idle,
    'dm-crypt': partial(crypt, 'queue'),
    'dm-crypt-highpri': partial(crypt, 'highpri'),
    'dm-crypt-no-queue': partial(crypt, 'no-queue'),
    **{f'{system}-fsync': partial(synced, system) for system in FILE_SYSTEMS},
    **{f'{system}-buffered': partial(buffered, system) for system in FILE_SYSTEMS},
    'stress-scheduler': partial(stressed, 'scheduler'),
    'stress-filesystem': stressed_files,
    'stress-vm': partial(stressed, 'vm'),
}


class Group(cases.Members):
    @contextlib.contextmanager
    def opened(self, spoil: str | None) -> Iterator[Place]:
        with contextlib.ExitStack() as stack:
            yield LOADS[self.name](self.cpus, spoil, stack)


def groups(members: Sequence[str], cpus: int) -> list[Group]:
    return [Group(name, found, cpus) for name, found in by_prefix(members, 1)]


def names(cpus: int) -> list[str]:
    return ['/'.join(parts) for parts in itertools.product(LOADS, PROBES)]


def notes(cpus: int) -> list[str]:
    return ['in a guest, a probe also waits for what else the host does: compare the variants, not with other '
            'machines']


WORKLOAD = cases.Workload(
    name='latency', what='how late tasks run and work items start, beside dm-crypt, file systems and stress-ng',
    latency='of a task, from when it should wake up until it runs; of an item, from queueing until it starts',
    columns=(cases.CPU, cases.P50, cases.P99, cases.P999, cases.MAX),
    names=names, groups=groups, notes=notes,
    sets={'quick': ('dm-crypt/task-fifo', 'dm-crypt/item-highpri'),
          'default': ('ext4-fsync/task-other', 'dm-crypt/item-percpu', 'dm-crypt/item-unbound',
                      'dm-crypt-highpri/task-fifo', 'btrfs-buffered/task-other', 'stress-scheduler/task-other')})
