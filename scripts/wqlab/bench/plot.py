# SPDX-License-Identifier: GPL-2.0
"""Draw the results of a benchmark."""

from wqlab.bench import by_scope, floor, machine, sweep, why
from wqlab.bench import options as bench_options
from wqlab.measure import plot
from wqlab.measure.stats import variants_of

LINE = 'line'       # of the floor: so much faster than all else that it has no bar


def load(params):
    text = 'one item in flight per thread' if params['mode'] == 'latency' else \
        f"{params['mode']}, {params['batch']} items in flight per thread"
    if params.get('wq', 'unbound') != 'unbound':
        text += f", {params['wq']} workqueue"
    if params['mode'] in ('spread', 'mixed'):
        text += f", items of {params['burn_us']} us"
    return text


def title(record):
    params = record['parameters']
    topology = ', '.join(f'{count} {what}' for what, count in record['topology'].items())
    items = [f"{params['items']:,} items"] if params['items'] else []
    lines = [*(machine.heading(params) or [f'{plot.engine(record)}: {topology}']),
             ', '.join([load(params), *items, f"{params['pairs']} boots of each"])]
    fast = [floor.pooled(row, 'items_per_s') for row in record['summary'] if row['scope'] == LINE]
    if fast:
        lines.append(f'two threads that spin on one word: {max(fast):,.0f} round trips/s')
    return '\n'.join(lines)


def draw_bars(axes, rows, metric, label, names):
    plot.bars(axes, rows, metric, names)
    axes.set_xticks(range(len(rows)), [by_scope.label(row['scope']) for row in rows], rotation=20)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(axis='y', alpha=0.3)


def panels(record):
    """Return (metric, label) of each panel."""
    calls = [bench_options.rate(record['parameters']), ('p50_ns', 'queue_work() call, p50, ns'),
             ('p99_ns', 'queue_work() call, p99, ns')]
    waits = [('start_p50_ns', 'queueing to start, p50, ns'), ('start_p99_ns', 'queueing to start, p99, ns'),
             ('done_p50_ns', 'start to the submitter knowing, p50, ns')]
    more = [('makespan_p50_ns', 'makespan of a round, p50, ns'), ('probe_p99_ns', 'probe of high priority, p99, ns')]
    found = [panel for panel in waits + more
             if all(panel[0] in row[variant] for row in record['summary'] for variant in variants_of([row]))]
    return [*calls, *found[:2], found[-1]]


def draw(record):
    pyplot = plot.plotting()
    if record['parameters'].get('sweep'):
        return sweep.draw(record, pyplot)
    rows = [row for row in record['summary'] if row['scope'] != LINE]
    shown, names = panels(record), bench_options.names(record['parameters'])
    figure, grid = pyplot.subplots(2, 3, figsize=(15, 10), layout='constrained')
    for axes, (metric, label) in zip(grid.flat, shown, strict=True):
        draw_bars(axes, rows, metric, label, names)
    grid[0, 0].legend()
    figure.suptitle(title(record))
    return figure


def write(record, folder):
    plot.write(record, folder, draw)
    why.write(record, folder)
