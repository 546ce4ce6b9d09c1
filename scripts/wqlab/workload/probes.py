# SPDX-License-Identifier: GPL-2.0
"""Probes: a task that is woken, or a work item that is queued, now and then. Both say how late they start.

Each is a context manager. While the block runs, the probe measures. Afterwards, what it has
yielded contains the figures.
"""
import contextlib
import json
import platform
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from wqlab import procs
from wqlab.paths import BUILD
from wqlab.steps import Failure, first_match, plain_environment
from wqlab.workload import machine
from wqlab.workload.cases import Lacking, Wrong

Figures = dict[str, float]
PERIOD_US = 1000
STARTING_S = ENDING_S = 30
# Of audio servers, 80 is about the highest priority. They lock their memory, too.
REAL_TIME = ('--smp', '--policy=fifo', '--priority=80', '--mlockall')
# As programs do it: the scheduler chooses the CPU.
ORDINARY = ('--threads', '--policy=other')
LONGEST_US = 50_000         # what waits longer is only counted
QUANTILES = {'p50_us': 500, 'p99_us': 990, 'p999_us': 999}     # in thousandths
ITEMS = Path('/sys/module/wq_probe/parameters/run')


def quantiles(counts: Mapping[int, int], total: int, largest: float) -> Figures:
    """
    Return the figures of a histogram {µs: count}. If the counts are fewer than @total, the samples that are missing
    were longer than all that the histogram has.
    """
    found: Figures = {'probes': total}
    if not total:
        return found
    for name, per_mille in QUANTILES.items():
        rank, below = -(-total * per_mille // 1000), 0
        for value, count in sorted(counts.items()):
            below += count
            if below >= rank:
                found[name] = value
                break
        else:
            found[name] = largest
    return {**found, 'max_us': largest}


def of_cyclictest(report: dict) -> Figures:
    """Return the figures of a report of cyclictest, all threads together.

    A task that wakes late does not wake for the times that have passed meanwhile. Each of
    these is a sample, too, as it is for wq_probe: see there.
    """
    counts: Counter[int] = Counter()
    beyond = 0
    threads = report['thread'].values()
    for thread in threads:
        found = {int(value): count for value, count in thread['histogram'].items()}
        beyond += thread['cycles'] - sum(found.values())
        for value, count in found.items():
            counts[value] += count
            counts.update(dict.fromkeys(range(value - PERIOD_US, 0, -PERIOD_US), count))
    return quantiles(counts, counts.total() + beyond, max(thread['max'] for thread in threads))


def wait_for_threads(process: subprocess.Popen) -> None:
    """Wait until cyclictest measures. Before, it does not catch SIGTERM, which makes it write its report."""
    status, limit = Path('/proc', str(process.pid), 'status'), time.monotonic() + STARTING_S
    while process.poll() is None and 'Threads:\t1\n' in status.read_text() and time.monotonic() < limit:
        time.sleep(0.002)


@contextlib.contextmanager
def cyclictest(*policy: str) -> Iterator[Figures]:
    """As many threads as CPUs sleep until a time, and note how much later they run."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, 'report')
        words = ['cyclictest', *policy, f'--interval={PERIOD_US}', f'--histogram={LONGEST_US}', '--quiet', '--laptop',
                 f'--json={report}']
        with procs.kept(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                        env=plain_environment(**machine.environment())) as process:
            wait_for_threads(process)
            yield figures
            process.send_signal(signal.SIGTERM)
            try:
                said = process.communicate(timeout=ENDING_S)[1]
            except subprocess.TimeoutExpired:
                raise Failure(f'cyclictest did not end within {ENDING_S} s of SIGTERM') from None
        if process.returncode == 127:
            raise Failure('cyclictest is not installed: run CONFIG=workload scripts/deps.sh as root')
        if process.returncode or not report.exists():
            raise Failure(f'cyclictest failed with status {process.returncode}: '
                          f'{first_match(said, "error", "fail", "cannot", "unable")}')
        # The average of a thread that has not woken yet is no number of JSON.
        figures.update(of_cyclictest(json.loads(re.sub(r'": -?nan\b', '": 0', report.read_text()))))


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
def items(kind: str) -> Iterator[Figures]:
    """A timer on each CPU queues an item, which notes how long it has waited."""
    figures: Figures = {}
    load_items()
    ITEMS.with_name('period_us').write_text(str(PERIOD_US))
    ITEMS.write_text(kind)
    try:
        yield figures
    finally:
        ITEMS.write_text('stop')
    figures.update(of_items(ITEMS.read_text()))


PROBES: dict[str, Callable[[], AbstractContextManager[Figures]]] = {
    'task-fifo': lambda: cyclictest(*REAL_TIME),
    'task-other': lambda: cyclictest(*ORDINARY),
    'item-percpu': lambda: items('percpu'),
    'item-highpri': lambda: items('highpri'),
    'item-unbound': lambda: items('unbound'),
    'item-unbound-highpri': lambda: items('unbound_highpri'),
}
