# SPDX-License-Identifier: GPL-2.0
"""The second table: how long items wait."""

from wqlab import tables
from wqlab.bench import stats
from wqlab.bench.stats import BASE, NAMES, OURS

# (metric, what the head says); RATIO: that of the metric in the column before
RATIO = None
COLUMNS = [('start_p50_ns', 'start p50'), (RATIO, ''), ('start_p99_ns', 'start p99'), ('start_p999_ns', 'start p99.9'),
           ('done_p50_ns', 'done p50'), ('done_p99_ns', 'done p99')]
MEANING = ('start: from queueing until the item starts; '
           'done: from there until its submitter knows that it ran, and all that it waits for')


def microseconds(ns):
    return f'{ns / 1000:,.0f}' if ns >= 100_000 else f'{ns / 1000:.2f}'


def has(row, metric):
    return any(metric in row.get(variant, {}) for variant in (OURS, BASE))


def head(columns, variants, unit, names):
    pair = ' / '.join(names[variant] for variant in variants)
    ratio = f'{"/".join(names.values())}\n(95%)'
    return [f'{what}, {unit}\n{pair}' if metric else ratio for metric, what in columns]


def cells(row, columns, text):
    found, last = [], ''
    for metric, _ in columns:
        if metric:
            found.append(stats.both(row, metric, text))
        else:
            found.append(stats.ratio_text((row.get('ratio') or {}).get(last)))
        last = metric
    return found


def table(rows, instructions=False, names=NAMES):
    """Return the table as lines. There is none if the waits were not recorded."""
    rows = [row for row in rows if has(row, 'start_p50_ns')]
    if not rows:
        return []
    unit, text = ('insns', stats.number) if instructions else ('us', microseconds)
    variants = stats.variants_of(rows)
    columns = [column for column in COLUMNS if column[0] or len(variants) == 2]
    first = stats.begin(rows)
    body = [stats.begin(rows, row) + cells(row, columns, text) for row in rows]
    return tables.lines(first + head(columns, variants, unit, names), body, range(1, len(first) + len(columns)))
