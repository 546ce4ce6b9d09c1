# SPDX-License-Identifier: GPL-2.0
"""Statistics over the recorded boots, and the table of results.

Each boot counts once. The repeats inside one boot are not independent, since they share its
memory layout and the state of the machine at that time. So they are reduced to their median
first. The two runs of one repeat in a pair of boots follow each other at once. So their ratio
is taken first, then the median over the repeats, then that over the pairs.
"""
from statistics import median

from wqlab import tables
from wqlab.bench import parse
from wqlab.measure.stats import (
    BASE,
    NAMES,
    OURS,
    both,
    in_order,
    interval,
    ratio_text,
    spread,
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
    if metric == 'ns_per_item' and run.keys() >= {'items', 'elapsed_ns'}:
        return run['elapsed_ns'] / run['items']
    return run.get(metric)


def boot_value(boot, scope, metric):
    """Return the figure of a boot for a scope, or None if the boot did not measure that."""
    values = [run_metric(run, metric) for run in boot['runs'] if run['scope'] == scope]
    return median(values) if values and None not in values else None


def boot_values(boots, scope, metric):
    """Return the figures of the boots that measured the scope."""
    values = [boot_value(boot, scope, metric) for boot in boots]
    return [value for value in values if value is not None]


def by_repeat(boots, scope, metric):
    """Return {(pair, repeat): figure}."""
    return {(boot['pair'], run['repeat']): run_metric(run, metric)
            for boot in boots for run in boot['runs'] if run['scope'] == scope}


def ratios_by_pair(ours, base, scope, metric):
    """Return a list for each pair, with ours / base of each repeat that both boots have."""
    mine, theirs = by_repeat(ours, scope, metric), by_repeat(base, scope, metric)
    pairs = {}
    for key in mine:
        if theirs.get(key) and mine[key] is not None:
            pairs.setdefault(key[0], []).append(mine[key] / theirs[key])
    return list(pairs.values())


def ratio(ours, base, scope, metric):
    """Return the spread of ours / base with its interval, or None if no pair has both."""
    pairs = ratios_by_pair(ours, base, scope, metric)
    if not pairs:
        return None
    low, high = interval(pairs)
    return {**spread(map(median, pairs)), 'low': low, 'high': high}


def summarise(boots):
    """Return a row for each number of CPUs and each scope, in the order in which they were run."""
    rows = []
    for cpus in in_order(boot.get('cpus') for boot in boots):
        group = [boot for boot in boots if boot.get('cpus') == cpus]
        scopes = in_order(run['scope'] for boot in group for run in boot['runs'])
        rows += [{'cpus': cpus, **summary_row(group, scope)} for scope in scopes]
    return rows


def summary_row(boots, scope):
    row = {'scope': scope}
    of = {variant: [boot for boot in boots if boot['variant'] == variant]
          for variant in in_order(boot['variant'] for boot in boots)}
    for variant, mine in of.items():
        values = {metric: boot_values(mine, scope, metric) for metric in METRICS}
        row[variant] = {metric: spread(found) for metric, found in values.items() if found}
    if row.get(OURS) and row.get(BASE):
        row['ratio'] = {metric: ratio(of[OURS], of[BASE], scope, metric) for metric in RATIOS}
    return row


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
