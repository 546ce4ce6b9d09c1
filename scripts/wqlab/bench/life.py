# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --mode life: what making, flushing, changing and destroying a workqueue takes, and what memory it keeps.

There are no items. A row is a kind of workqueue, or for an unbound one its scope.
"""

import re

from wqlab import tables
from wqlab.bench import by_scope, parse
from wqlab.measure import stats
from wqlab.measure.boot import read_text

KINDS = ('percpu', 'reclaim', 'ordered')
DEFAULT_SCOPE = '/sys/module/workqueue/parameters/default_affinity_scope'
# Slabs keep up to a thousand freed objects of a size. So a pass makes more workqueues than that, but no more than fit
# into memory if each has a pwq for each CPU. A rescuer is a thread with a stack, and the number of threads is limited.
PWQS = 65536
FEWEST, MOST, RESCUERS = 2048, 8192, 512
BOOTED = re.compile(r'^\[ *([0-9]+)\.([0-9]{6})\] Run /init as init process', re.M)
LEGEND = ('create: alloc_workqueue(); flush: flush_workqueue() while it is idle; destroy: destroy_workqueue()',
          'times: the lower quartile of all calls, since some calls are interrupted or have to refill slabs',
          'change: writing "nice" of an unbound one in sysfs, where both priorities have pools already',
          'memory: what a workqueue keeps in slabs and in the stack of its rescuer, the mean of many')
INSNS = 'insns: instructions of all CPUs during the call, without those of threads that free memory later'
TIME = 'ns: how long the call lasts'


def count(kind, cpus):
    """Return how many workqueues are made."""
    if kind == 'reclaim':
        return RESCUERS
    return MOST if kind == 'ordered' else min(max(PWQS // cpus, FEWEST), MOST)


def order(row, cpus):
    """Return the parameters of the pass for a row."""
    kind = row if row in KINDS else 'unbound'
    scope = {} if kind == row else {DEFAULT_SCOPE: row}
    return {**scope, 'mode': 'life', 'wq': kind, 'scopes': 'default', 'batch': count(kind, cpus),
            'strict': 0, 'max_active': 0}


def boot_us(log):
    """Return when the first program was started, in microseconds since boot, or None."""
    found = BOOTED.search(read_text(log))
    return int(found[1]) * 1_000_000 + int(found[2]) if found else None


def add(rows, boots):
    """Add to the first row of each number of CPUs how long boots took: {variant: microseconds}."""
    seen = set()
    for row in rows:
        if row.get('cpus') in seen:
            continue
        seen.add(row.get('cpus'))
        mine = [boot for boot in boots if boot.get('cpus') == row.get('cpus')]
        found = {variant: [boot['boot_us'] for boot in mine if boot['variant'] == variant and boot.get('boot_us')]
                 for variant in stats.ORDER}
        row['boot_us'] = {variant: stats.spread(times) for variant, times in found.items() if times}


def outline(runs):
    return 'create / destroy, ns: ' + ', '.join(
        f"{run['scope']} {run['create_p25_ns']:,} / {run['destroy_p25_ns']:,}" for run in runs)


def panels(unit):
    return [('create_p25_ns', f'alloc_workqueue(), {unit}'), ('destroy_p25_ns', f'destroy_workqueue(), {unit}'),
            ('bytes', 'bytes that a workqueue keeps')]


def cell(row, metric, ratios):
    """Return 'ours / base  ours/base' of a row, or nothing if no variant has that."""
    if not any(row.get(variant, {}).get(metric) for variant in stats.ORDER):
        return ''
    found = [(row.get(name) or {}).get(metric) for name in ratios]
    return '  '.join([stats.both(row, metric), *(f"{one['median']:.2f}" if one else '-' for one in found)])


def table(rows, unit, names):
    ratios = by_scope.ratios_of(rows, names)
    pair = ' / '.join(names[variant] for variant in stats.variants_of(rows))
    metrics = {**{f'{step}_p25_ns': f'{step}, {unit}' for step in parse.LIFE}, 'bytes': 'memory, bytes'}
    head = by_scope.begin(rows)
    head += ['\n'.join([title, '  '.join([pair, *ratios.values()])]) for title in metrics.values()]
    body = [by_scope.begin(rows, row) + [cell(row, metric, ratios) for metric in metrics] for row in rows]
    return tables.lines(head, body, by_scope.numbers(head))


def boots(rows, names):
    """Return a line for each number of CPUs: when the first program was started."""
    lines = []
    for row in (row for row in rows if row.get('boot_us')):
        cpus = f"{row['cpus']} CPUs: " if row.get('cpus') else ''
        times = ', '.join(f"{names[variant]} {time['median'] / 1000:,.1f} ms"
                          for variant, time in row['boot_us'].items())
        lines.append(f'boot until the first program, {cpus}{times}')
    return lines


def lines(rows, unit, names):
    """Return the text."""
    return [*table(rows, unit or 'ns', names), '', *boots(rows, names), *LEGEND, INSNS if unit else TIME]
