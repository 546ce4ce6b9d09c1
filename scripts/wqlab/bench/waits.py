# SPDX-License-Identifier: GPL-2.0
"""The second table: how long items wait."""

from wqlab.bench import by_scope
from wqlab.measure import stats
from wqlab.measure.stats import NAMES, ORDER

# (metric, what the head says)
START = [('start_p50_ns', 'start p50'), ('start_p99_ns', 'start p99'), ('start_p999_ns', 'start p99.9')]
DONE = [('done_p50_ns', 'done p50'), ('done_p99_ns', 'done p99')]
MAKESPAN = [('makespan_p50_ns', 'makespan p50'), ('cpus_mean', 'CPUs')]
PROBE = [('probe_p50_ns', 'probe p50'), ('probe_p99_ns', 'probe p99'), ('probe_p999_ns', 'probe p99.9')]
WITH_RATIO = ('start_p50_ns', 'makespan_p50_ns', 'probe_p50_ns')
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
    if all(has(row, 'makespan_p50_ns') for row in rows):
        return START + MAKESPAN
    if all(has(row, 'probe_p50_ns') for row in rows):
        return START[:-1] + PROBE
    return START + DONE


def table(rows, unit=None, names=NAMES):
    """Return the table as lines."""
    unit, text = (unit, stats.number) if unit else ('us', microseconds)
    columns = []
    for metric, what in columns_of(rows):
        timed = metric.endswith('_ns')
        columns.append(by_scope.pair(rows, names, f'{what}, {unit}\n' if timed else f'{what}\n', metric,
                                     text if timed else '{:.2f}'.format))
        columns += by_scope.ratio(rows, names, metric) if metric in WITH_RATIO else []
    return by_scope.drawn(rows, columns)


def legend(rows):
    """Return lines that explain the table."""
    shown = [metric for metric, _ in columns_of(rows)]
    return [text for metric, text in MEANING.items() if metric in shown]
