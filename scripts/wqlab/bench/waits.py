# SPDX-License-Identifier: GPL-2.0
"""The second table: how long items wait."""

from wqlab import tables
from wqlab.bench import by_scope
from wqlab.measure import stats
from wqlab.measure.stats import NAMES, ORDER

# (metric, what the head says); RATIO: that of the metric in the column before
RATIO = (None, '')
START = [('start_p50_ns', 'start p50'), RATIO, ('start_p99_ns', 'start p99'), ('start_p999_ns', 'start p99.9')]
DONE = [('done_p50_ns', 'done p50'), ('done_p99_ns', 'done p99')]
MAKESPAN = [('makespan_p50_ns', 'makespan p50'), RATIO, ('cpus_mean', 'CPUs')]
PROBE = [('probe_p50_ns', 'probe p50'), RATIO, ('probe_p99_ns', 'probe p99'), ('probe_p999_ns', 'probe p99.9')]
MEANING = {
    'start_p50_ns': 'start: from queueing until the item starts',
    'done_p50_ns': 'done: from the start of an item until its submitter knows that all items of the round ran',
    'makespan_p50_ns': 'makespan: from before the first item of a round is queued until all of them ran; '
                       'CPUs: on how many they started, mean over the rounds',
    'probe_p50_ns': 'probe: the same as start, but of a probe item: every ms, a timer on each submitter\'s CPU queues '
                    'one on a workqueue of high priority',
}


def microseconds(ns):
    return f'{ns / 1000:,.0f}' if ns >= 100_000 else f'{ns / 1000:.2f}'


def has(row, metric):
    return any(metric in row.get(variant, {}) for variant in ORDER)


def columns_of(rows):
    """Return the columns: what the mode is about, and as much of the rest as there is room for."""
    columns = START + DONE
    if all(has(row, 'makespan_p50_ns') for row in rows):
        columns = START + MAKESPAN
    elif all(has(row, 'probe_p50_ns') for row in rows):
        columns = START[:-1] + PROBE
    return columns if any('ratio' in row for row in rows) else [column for column in columns if column != RATIO]


def head(columns, rows, unit, names):
    pair = ' / '.join(names[variant] for variant in stats.variants_of(rows))
    ratio = ''.join(f'{text}\n(95%)' for text in by_scope.ratio_head(rows, names))
    units = {metric: f'{what}, {unit}' if metric and metric.endswith('_ns') else what for metric, what in columns}
    return [f'{units[metric]}\n{pair}' if metric else ratio for metric, _ in columns]


def cells(row, columns, text):
    found, last = [], ''
    for metric, _ in columns:
        if metric:
            found.append(stats.both(row, metric, text if metric.endswith('_ns') else '{:.2f}'.format))
        else:
            found.append(stats.ratio_text((row.get('ratio') or {}).get(last)))
        last = metric
    return found


def table(rows, unit=None, names=NAMES):
    """Return the table as lines."""
    unit, text = (unit, stats.number) if unit else ('us', microseconds)
    columns, first = columns_of(rows), by_scope.begin(rows)
    body = [by_scope.begin(rows, row) + cells(row, columns, text) for row in rows]
    return tables.lines(first + head(columns, rows, unit, names), body, by_scope.numbers(first + [''] * len(columns)))


def legend(rows):
    """Return lines that explain the table."""
    shown = [metric for metric, _ in columns_of(rows)]
    return [text for metric, text in MEANING.items() if metric in shown]
