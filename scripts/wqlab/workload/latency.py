# SPDX-License-Identifier: GPL-2.0
"""How long a work item waits while a load keeps the machine busy.

The name of a case is LOAD/PROBE. The load runs alone first, which warms up and shows how
long it takes. Then it runs again, for a little longer than the probe, which starts later and
ends earlier.
"""
import contextlib
import itertools
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from wqlab.paths import BUILD
from wqlab.steps import Failure
from wqlab.workload import cases, dmcrypt, fio, machine, writeback
from wqlab.workload.cases import Lacking, Place, Wrong

LEAD_S = 0.25       # by how much the load starts before the probe, and is meant to end after it
PERIOD_US = 1000
ITEMS = Path('/sys/module/wq_probe/parameters/run')
# name -> what wq_probe calls it
PROBES = {f'item-{kind.replace("_", "-")}': kind for kind in ('percpu', 'highpri', 'unbound', 'unbound_highpri')}
Figures = dict[str, float]


def of_items(line: str) -> Figures:
    """Return the figures of a result of wq_probe. Raise Wrong if an item never ran, or ran twice."""
    fields = dict(word.split('=', 1) for word in line.split())
    if fields['queued'] != fields['ran']:
        raise Wrong(f"{fields['queued']} work items were queued, but {fields['ran']} ran")
    probes = int(fields['ran']) + int(fields['late'])
    return {'probes': probes, **({f'{name}_us': int(fields[f'{name}_ns']) / 1000
                                  for name in ('p50', 'p99', 'p999', 'max')} if probes else {})}


def load_items() -> None:
    """Load wq_probe: that of the kernel, or that which `make module` has built for it."""
    machine.load('wq-probe')
    ours = BUILD / f'module-{platform.release()}/wq_probe.ko'
    if not ITEMS.exists() and ours.exists():
        machine.run('insmod', ours)
    if not ITEMS.exists():
        raise Lacking('the kernel has no wq_probe: build it by `make module`')


@contextlib.contextmanager
def probing(kind: str) -> Iterator[Figures]:
    """A timer on each CPU queues an item, which notes how long it has waited. The figures are there afterwards."""
    figures: Figures = {}
    load_items()
    ITEMS.with_name('period_us').write_text(str(PERIOD_US))
    ITEMS.write_text(kind)
    try:
        yield figures
    finally:
        ITEMS.write_text('stop')
    figures.update(of_items(ITEMS.read_text()))


class Loaded:
    """A load and the place in which it runs."""

    def __init__(self, place: Place, job: fio.Job, unit: str, rate_of: Callable[[dict], float]):
        self.place, self.job, self.unit, self.rate_of = place, job, unit, rate_of
        self.check_again = place.check_again
        self.first: dict = {}

    def run(self, seconds: float) -> float:
        """Run the load for about this long and verify its data. Return the rate."""
        return self.rate_of(fio.run(self.job, loops=fio.loops_for(self.first, self.job.jobs, seconds)))

    def measure(self, case: str, seconds: float) -> tuple[str, Figures]:
        self.first = self.first or fio.run(self.job)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.run, seconds + 2 * LEAD_S)
            wait([running], LEAD_S)
            with machine.CpuUse() as use, probing(PROBES[case.split('/')[1]]) as figures:
                wait([running], seconds)
            rate = running.result()
        if not figures['probes']:
            raise Failure('the load ended before the probe began: choose more --seconds')
        return self.unit, {'rate': rate, 'cpu_percent': use.percent, **figures}


@contextlib.contextmanager
def crypt(path: str, cpus: int, spoil: str | None) -> Iterator[Loaded]:
    """dm-crypt, as busy as in the first scenario of that workload."""
    job, direction = dmcrypt.job_of('32k-all', cpus)
    with dmcrypt.opened(f'aes/ram/{path}', cpus, spoil) as mapping:
        yield Loaded(mapping, job, 'MiB/s', lambda report: fio.figures(report, 0, direction)['rate'])


@contextlib.contextmanager
def synced(system: str, cpus: int, spoil: str | None) -> Iterator[Loaded]:
    """A file system with the job `fsync` of the workload writeback."""
    with writeback.opened(system, cpus, spoil) as mounted:
        yield Loaded(mounted, writeback.overwriting(mounted.place, mounted.threads), 'fsyncs/s',
                     lambda report: fio.sync_figures(report, 0)['rate'])


@contextlib.contextmanager
def buffered(system: str, cpus: int, spoil: str | None) -> Iterator[Loaded]:
    """A file system with the job `buffered` of the workload writeback."""
    with writeback.opened(system, cpus, spoil) as mounted:
        yield Loaded(mounted, writeback.buffered(mounted.place, mounted.threads), 'MiB/s',
                     lambda report: fio.figures(report, 0, 'write')['rate'])


FILE_SYSTEMS = ('ext4', 'btrfs', 'btrfs-zstd')
LOADS: dict[str, Callable[[int, str | None], contextlib.AbstractContextManager[Loaded]]] = {
    'dm-crypt': partial(crypt, 'queue'),
    'dm-crypt-highpri': partial(crypt, 'highpri'),
    'dm-crypt-no-queue': partial(crypt, 'no-queue'),
    **{f'{system}-fsync': partial(synced, system) for system in FILE_SYSTEMS},
    **{f'{system}-buffered': partial(buffered, system) for system in FILE_SYSTEMS},
}


def names(cpus: int) -> list[str]:
    return ['/'.join(parts) for parts in itertools.product(LOADS, PROBES)]


def notes(cpus: int) -> list[str]:
    return ['in a guest, a probe also waits for what else the host does: compare the variants, not with other '
            'machines']


WORKLOAD = cases.Workload(
    name='latency', what='how late work items start beside dm-crypt and file systems',
    latency='of an item, from queueing until it starts',
    columns=(cases.CPU, cases.P50, cases.P99, cases.P999, cases.MAX),
    names=names, opened=lambda group, cpus, spoil: LOADS[group](cpus, spoil), notes=notes,
    sets={'quick': ('dm-crypt/item-highpri',),
          'default': ('dm-crypt/item-percpu', 'dm-crypt/item-unbound', 'dm-crypt-highpri/item-highpri',
                      'ext4-fsync/item-unbound', 'btrfs-buffered/item-unbound')})
