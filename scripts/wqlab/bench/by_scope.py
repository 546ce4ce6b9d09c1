# SPDX-License-Identifier: GPL-2.0
"""The rows of figures, and the table of rates."""

from wqlab import tables
from wqlab.bench import parse
from wqlab.measure.stats import (
    BASE,
    NAMES,
    OURS,
    both,
    compared,
    in_order,
    number,
    ratio_text,
    variants_of,
    with_spread,
)

METRICS = ('items_per_s', 'mean_ns', *parse.QUANTILES, *parse.WAITS, *parse.MAKESPAN, *parse.PROBE, 'cpus_mean',
           'kworkers', 'ns_per_item')
RATIOS = ('items_per_s', 'ns_per_item', 'mean_ns', 'p50_ns', 'p99_ns', 'start_p50_ns', 'start_p99_ns', 'start_p999_ns',
          'done_p50_ns', 'done_p99_ns', 'makespan_p50_ns', 'probe_p50_ns', 'probe_p99_ns', 'probe_p999_ns')
GATE = 0.02             # by how much ratios of a kernel to itself may be off
CALL_TIME = 'queue_work() call: how long a call takes, not how long the item waits to run'


def run_metric(run, metric):
    return run['elapsed_ns'] / run['items'] if metric == 'ns_per_item' else run.get(metric)


def summarise(boots):
    """Return a row for each number of CPUs and each scope, in the order in which they were run."""
    rows = []
    for cpus in in_order(boot.get('cpus') for boot in boots):
        group = [boot for boot in boots if boot.get('cpus') == cpus]
        scopes = in_order(run['scope'] for boot in group for run in boot['runs'])
        rows += [{'cpus': cpus, **summary_row(group, scope)} for scope in scopes]
    return rows


def summary_row(boots, scope):
    values = {}
    for boot in boots:
        mine = values.setdefault(boot['variant'], {metric: {} for metric in METRICS})
        for run in (run for run in boot['runs'] if run['scope'] == scope):
            for metric, found in mine.items():
                if (value := run_metric(run, metric)) is not None:
                    found[boot['pair'], run['repeat']] = value
    return {'scope': scope, **compared(values, RATIOS)}


# Tables. A column is its head, and the function that makes a cell of a row.

def ratio(rows, names, metric):
    """Return the column of a ratio, in a list that is empty if no row has one."""
    return [(f'{names[OURS]}/{names[BASE]}\n(95%)', lambda row: ratio_text(row.get('ratio', {}).get(metric)))] \
        if any('ratio' in row for row in rows) else []


def pair(rows, names, what, metric, text=number):
    """Return a column with the figures of both variants."""
    return what + ' / '.join(names[variant] for variant in variants_of(rows)), lambda row: both(row, metric, text)


def label(scope):
    return parse.FLOOR.get(scope, scope)


def drawn(rows, columns):
    """Return a table as lines."""
    columns = [*([('CPUs', lambda row: str(row['cpus']))] if any(row.get('cpus') for row in rows) else []),
               ('scope', lambda row: label(row['scope'])), *columns]
    head = [text for text, _ in columns]
    return tables.lines(head, [[cell(row) for _, cell in columns] for row in rows],
                        [place for place, text in enumerate(head) if text != 'scope'])


def table(rows, unit=None, names=NAMES):
    """Return the summary as lines: items/s, or units per item, then the duration of a queue_work() call."""
    rate, what = ('ns_per_item', f'{unit}/item') if unit else ('items_per_s', 'items/s')
    return drawn(rows, [*((f'{names[variant]}\n{what}',
                           lambda row, variant=variant: with_spread(row.get(variant, {}).get(rate)))
                          for variant in variants_of(rows)),
                        *ratio(rows, names, rate),
                        pair(rows, names, 'queue_work() call\np50 ns, ', 'p50_ns'),
                        pair(rows, names, 'queue_work() call\np99 ns, ', 'p99_ns'),
                        pair(rows, names, 'kworkers\n', 'kworkers')])


def legend(rows, names=NAMES):
    """Return lines that explain the table."""
    lines = ['±: half the interquartile range over the boots']
    lines += [f'{names[OURS]}/{names[BASE]}: the median over pairs of boots, with its 95% confidence interval'
              for _ in ratio(rows, names, '')]
    return lines + [CALL_TIME]


def gate(rows, metric):
    """Return a line that says whether the ratios of a kernel to itself are 1, as precisely as they should be."""
    off = [f"{row['scope']} {row['ratio'][metric]['low']:.3f}-{row['ratio'][metric]['high']:.3f}" for row in rows
           if not 1 - GATE <= row['ratio'][metric]['low'] <= 1 <= row['ratio'][metric]['high'] <= 1 + GATE]
    if off:
        return (f'gate: NOT passed: these intervals do not contain 1, or reach more than {GATE:.0%} away from it: '
                f'{", ".join(off)}')
    return f'gate: passed: each interval contains 1, and reaches at most {GATE:.0%} away from it'
