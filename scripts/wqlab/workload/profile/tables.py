# SPDX-License-Identifier: GPL-2.0
"""The tables of a profile: ours and base side by side. Each boot counts once."""
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wqlab import tables
from wqlab.bench.stats import BASE, NAMES, OURS, both, in_order, spread
from wqlab.workload.profile import CYCLES, WAITS
from wqlab.workload.profile.stacks import CLASSES
from wqlab.workload.stats import short

SHARE_SHOWN = 0.01      # a workqueue with fewer items of a case is left out of the table, not of the record
WAIT_COLUMNS = {'items': 'items', 'wait_p50_us': 'p50 µs', 'wait_p99_us': 'p99 µs', 'wait_p999_us': 'p99.9 µs',
                'wait_max_us': 'max µs', 'elsewhere_percent': 'other CPU %', 'held_percent': 'held back %'}
RUN_COLUMNS = {'run_p50_us': 'p50 µs', 'run_p99_us': 'p99 µs', 'run_p999_us': 'p99.9 µs', 'run_max_us': 'max µs'}
WAIT_NOTES = ['other CPU: the items that another CPU ran than the one that queued them; held back: by max_active',
              f'left out: workqueues with less than {100 * SHARE_SHOWN:g}% of the items of their case']
CYCLE_NOTES = ['lock: a pool\'s lock is taken, or waited for; waking: of a worker; queueing: the rest of queue_work();',
               'item: functions of items; rest: workers, flush, cancel; other: no workqueue']
# perf's timer, where the CPU counts no cycles
TIMER = 'cpu-clock'
TIMER_NOTE = ('samples are of a timer that waits while interrupts are off, as under the lock of a pool: '
              'queueing and rest contain that time')
Row = dict[str, Any]
Profile = tuple[dict, dict]     # a boot, and one of its profiles


def of_kind(boots: Iterable[dict], kind: str) -> list[Profile]:
    return [(boot, one) for boot in boots for one in boot.get('profiles', []) if one['profile'] == kind]


def summarise(found: list[Profile], figures: Callable[[dict], dict[tuple, dict[str, float]]]) -> list[Row]:
    """Return a row for each key that `figures` finds in a profile, with a spread over the boots for each figure."""
    values: dict[tuple, dict[str, dict[str, list[float]]]] = {}
    for boot, one in found:
        for key, numbers in figures(one).items():
            mine = values.setdefault((boot['workload'], *key), {}).setdefault(boot['variant'], {})
            for metric, number in numbers.items():
                mine.setdefault(metric, []).append(number)
    return [{'key': key, **{variant: {metric: spread(numbers) for metric, numbers in metrics.items()}
                            for variant, metrics in variants.items()}} for key, variants in values.items()]


def queues(one: dict) -> dict[tuple, dict[str, float]]:
    return {(one['name'], name): figures for name, figures in one['queues'].items() if figures['items']}


def shares(one: dict) -> dict[tuple, dict[str, float]]:
    return {(one['name'],): {**one['shares'], 'samples': one['samples']}}


def items(row: Row) -> float:
    return max(row[variant]['items']['median'] for variant in (OURS, BASE) if variant in row)


def busy(rows: list[Row]) -> Iterator[Row]:
    """Yield the rows of the workqueues that have many of the items of their case, the busiest first."""
    for case in in_order(row['key'][:2] for row in rows):
        mine = sorted((row for row in rows if row['key'][:2] == case), key=items, reverse=True)
        least = SHARE_SHOWN * sum(map(items, mine))
        yield from (row for row in mine if items(row) >= least)


def table(rows: list[Row], names: list[str], columns: dict[str, str]) -> list[str]:
    variants = [variant for variant in (OURS, BASE) if any(variant in row for row in rows)]
    pair = ' / '.join(NAMES[variant] for variant in variants)
    for row in rows:
        for variant in variants:
            row.setdefault(variant, {})
    body = [[*row['key'][1:], *(both(row, metric, short) for metric in columns)] for row in rows]
    return tables.lines([*names, *(f'{title}\n{pair}' for title in columns.values())], body,
                        range(len(names), len(names) + len(columns)))


def wait_lines(found: list[Profile], describe: Callable[[dict], str]) -> Iterator[str]:
    rows = list(busy(summarise(found, queues)))
    for workload in in_order(row['key'][0] for row in rows):
        mine = [row for row in rows if row['key'][0] == workload]
        yield f'{workload}: how long items waited, from their queueing to their start'
        yield from table(mine, ['case', 'workqueue'], WAIT_COLUMNS)
        yield f'{workload}: how long items ran'
        yield from table(mine, ['case', 'workqueue'], RUN_COLUMNS)
    yield from WAIT_NOTES
    for boot, one in found:
        if one['lost']:
            yield (f"{describe(boot)}, {one['name']}: {one['lost']:,} events did not fit into the trace buffer; "
                   f"the figures are of the first {one['seconds']:g} s")


def cycle_lines(found: list[Profile], describe: Callable[[dict], str]) -> Iterator[str]:
    rows = summarise(found, shares)
    for workload in in_order(row['key'][0] for row in rows):
        yield f"{workload}: where the CPUs' time goes, in % of the time in which they were not idle"
        yield from table([row for row in rows if row['key'][0] == workload], ['case'],
                         {**{name: name for name in CLASSES}, 'samples': 'samples'})
    yield from CYCLE_NOTES
    if any(one['event'].partition(':')[0] == TIMER for _, one in found):
        yield TIMER_NOTE
    for boot, one in found:
        if one['lost']:
            yield f"{describe(boot)}, {one['name']}: perf lost {one['lost']:,} samples"


def lines(boots: list[dict], describe: Callable[[dict], str]) -> list[str]:
    """Return all tables with what has to be known to read them. `describe` names a boot."""
    text: list[str] = []
    for kind, shown in ((WAITS, wait_lines), (CYCLES, cycle_lines)):
        found = of_kind(boots, kind)
        if found:
            text += [*shown(found, describe), '']
    return text[:-1] or ['no case has a profile']
