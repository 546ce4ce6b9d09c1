# SPDX-License-Identifier: GPL-2.0
"""The tables of --lines: lines that move per item, and whose they are."""

from wqlab import tables
from wqlab.bench import stats

FIRST = 10              # rows of the workqueue that are printed
OTHERS = 5              # and of all else
FIELDS = 4              # that are named of a line
# Figures of one run: of the workqueue's objects, of all other memory of the kernel.
METRICS = ('moves', 'observed', 'moves_else', 'observed_else')
LEGEND = ('moves: lines that move between CPUs, at most, per item: does not depend on how the CPUs take turns',
          'observed: in the order in which the emulated CPUs came, which depends on the host',
          'objects of the workqueue: pools, pwqs, workers, workqueues, attributes, work items, its variables')


def summarise(boots):
    """Return a row for each shard size and scope, in the order in which they were run."""
    keys = stats.in_order((boot['shard_size'], run['scope']) for boot in boots for run in boot['runs'])
    return [summary_row(boots, size, scope) for size, scope in keys]


def summary_row(boots, size, scope):
    row = {'scope': scope, 'shard_size': size}
    for variant in stats.in_order(boot['variant'] for boot in boots):
        found = [run['lines'] for boot in boots if (boot['variant'], boot['shard_size']) == (variant, size)
                 for run in boot['runs'] if run['scope'] == scope]
        if found:
            row[variant] = {metric: stats.spread([one[metric] for one in found]) for metric in METRICS}
            row[variant]['rows'] = mean_rows(found)
    return row


def mean_rows(found):
    """Return the rows of all runs as one list: the mean of each, 0 where a run has none."""
    merged = {}
    for one in found:
        for row in one['rows']:
            mine = merged.setdefault((row['what'], row['workqueue']),
                                     {'what': row['what'], 'workqueue': row['workqueue'], 'moves': 0, 'observed': 0,
                                      'fields': {}})
            for key in ('moves', 'observed'):
                mine[key] += row[key] / len(found)
            for name, moves in row['fields'].items():
                mine['fields'][name] = mine['fields'].get(name, 0) + moves / len(found)
    return sorted(merged.values(), key=lambda row: -row['moves'])


# Text

def figure(value):
    return f'{value:.2f}'


def table(rows, names):
    """Return the figures of all scopes."""
    variants = stats.variants_of(rows)
    pair = ' / '.join(names[variant] for variant in variants)
    first = stats.begin(rows)
    heads = {'moves': 'the workqueue:\nmoves', 'observed': '\nobserved', 'moves_else': 'all else:\nmoves',
             'observed_else': '\nobserved'}
    head = first + [f'{text}, {pair}' for text in heads.values()]
    body = [stats.begin(rows, row) + [stats.both(row, metric, figure) for metric in METRICS] for row in rows]
    return tables.lines(head, body, range(1, len(head)))


def named_fields(row):
    """Return the fields that would move most if each had a line of its own."""
    fields = sorted(row['fields'].items(), key=lambda pair: -pair[1])
    return ', '.join(f'{name} {figure(moves)}' if moves >= 0.005 else name for name, moves in fields[:FIELDS])


def detail(rows):
    """Return whose lines move, those of the workqueue first."""
    mine = [row for row in rows if row['workqueue'] and row['moves'] >= 0.005][:FIRST]
    others = [row for row in rows if not row['workqueue'] and row['moves'] >= 0.005][:OTHERS]
    body = [[figure(row['moves']), figure(row['observed']), row['what'] if row['workqueue'] else f"({row['what']})",
             named_fields(row)] for row in mine + others]
    return tables.lines(['moves', 'observed', 'line', 'fields, as if each had a line'], body, (0, 1))


def lines(rows, names):
    """Return the summary as text."""
    if not rows:
        return ['no runs']
    text = [*table(rows, names), '', *LEGEND]
    for row in rows:
        for variant in stats.variants_of([row]):
            size = '' if row['shard_size'] is None else f", shard size {row['shard_size']}"
            text += ['', f"{names[variant]}, scope {row['scope']}{size}", *detail(row[variant]['rows'])]
    return [*text, '', '+N: where the line begins in an object that is larger',
            'fields without a number only share the line', '(...): not an object of the workqueue']


def outline(entry):
    shown = [f"{run['scope']} {figure(run['lines']['moves'])}" for run in entry['runs'] if run['repeat'] == 1]
    return f"lines per item: {', '.join(shown)}"
