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


# The table

def ratio_head(rows, names):
    """Return the head of the ratio, in a list that is empty if no row has one."""
    return [f'{names[OURS]}/{names[BASE]}'] if any('ratio' in row for row in rows) else []


def label(scope):
    return parse.FLOOR.get(scope, scope)


def begin(rows, row=None):
    """Return the first cells of a row, or of the head."""
    cells = ['CPUs', 'scope'] if row is None else [str(row['cpus']), label(row['scope'])]
    return cells if any(one.get('cpus') for one in rows) else cells[1:]


def numbers(head):
    """Return the columns of a table that contain numbers."""
    return [column for column, text in enumerate(head) if text != 'scope']


def table(rows, unit=None, names=NAMES):
    """Return the summary as lines: items/s, or units per item, then the duration of a queue_work() call."""
    rate, what = ('ns_per_item', f'{unit}/item') if unit else ('items_per_s', 'items/s')
    variants = variants_of(rows)
    pair = ' / '.join(names[variant] for variant in variants)
    ratios = ratio_head(rows, names)

    head = begin(rows)
    head += [f'{names[variant]}\n{what}' for variant in variants]
    head += [f'{text}\n(95%)' for text in ratios]
    head += [f'queue_work() call\np50 ns, {pair}', f'queue_work() call\np99 ns, {pair}', f'kworkers\n{pair}']

    cells = []
    for row in rows:
        line = begin(rows, row)
        line += [with_spread(row.get(variant, {}).get(rate)) for variant in variants]
        line += [ratio_text(row.get('ratio', {}).get(rate)) for _ in ratios]
        line += [both(row, metric) for metric in ('p50_ns', 'p99_ns', 'kworkers')]
        cells.append(line)
    return tables.lines(head, cells, numbers(head))


def legend(rows, names=NAMES):
    """Return lines that explain the table."""
    lines = ['±: half the interquartile range over the boots']
    lines += [f'{text}: the median over pairs of boots, with its 95% confidence interval'
              for text in ratio_head(rows, names)]
    return lines + [CALL_TIME]


def gate(rows, metric):
    """Return a line that says whether the ratios of a kernel to itself are 1, as precisely as they should be."""
    off = [f"{row['scope']} {row['ratio'][metric]['low']:.3f}-{row['ratio'][metric]['high']:.3f}" for row in rows
           if not 1 - GATE <= row['ratio'][metric]['low'] <= 1 <= row['ratio'][metric]['high'] <= 1 + GATE]
    if off:
        return (f'gate: NOT passed: these intervals do not contain 1, or reach more than {GATE:.0%} away from it: '
                f'{", ".join(off)}')
    return f'gate: passed: each interval contains 1, and reaches at most {GATE:.0%} away from it'
