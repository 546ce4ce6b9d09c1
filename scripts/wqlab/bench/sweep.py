# SPDX-License-Identifier: GPL-2.0
"""Draw a sweep: both variants and the floor over the number of CPUs, a column for each scope."""

from wqlab.bench import floor, machine, options, parse
from wqlab.measure import plot, stats

STYLES = {'same': '--', 'other': '-.', 'line': ':'}


def panels(record):
    """Return (metric, label) of each row of the picture."""
    params = record['parameters']
    rate = options.rate(params)
    if params['mode'] in ('burst', 'spread') and not params['icount']:
        return [rate, ('makespan_p50_ns', 'makespan of a round, p50, ns')]
    if params['mode'] == 'mixed':
        return [rate, ('probe_p99_ns', 'probe of high priority, p99, ns')]
    return [rate, ('start_p50_ns', f'queueing to start, p50, {options.unit(params) or "ns"}')]


def points(rows, scope, figure):
    """Return the numbers of CPUs for which figure(row) is known, and the figures."""
    found = [(row['cpus'], figure(row)) for row in rows if row['scope'] == scope]
    return list(zip(*((cpus, value) for cpus, value in found if value is not None), strict=True)) or [(), ()]


def draw_variant(axes, rows, scope, variant, metric, **style):
    mine = [row for row in rows if row['scope'] == scope and row.get(variant, {}).get(metric)]
    found = [row[variant][metric] for row in mine]
    axes.errorbar([row['cpus'] for row in mine], [one['median'] for one in found], yerr=plot.error_bars(found),
                  fmt='o-', capsize=3, **style)


def draw_floor(axes, rows, metric):
    for scope, style in STYLES.items():
        cpus, values = points(rows, scope, lambda row: floor.pooled(row, metric))
        if cpus:
            axes.plot(cpus, values, style, marker='.', color='black', linewidth=1, label=parse.FLOOR[scope])


def scale(axes, sizes):
    axes.set_xscale('log', base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_yscale('log')
    axes.grid(alpha=0.3)


def title(record):
    params = record['parameters']
    where = ''.join(machine.heading(params)) or plot.engine(record)
    return f"{where}, {params['mode']}, {params['wq']} workqueue, {params['pairs']} boots of each"


def draw(record, pyplot):
    rows, names = record['summary'], options.names(record['parameters'])
    scopes = [scope for scope in stats.in_order(row['scope'] for row in rows) if scope not in parse.FLOOR]
    sizes, shown = sorted({row['cpus'] for row in rows}), panels(record)
    figure, grid = pyplot.subplots(len(shown), len(scopes), figsize=(5 * max(len(scopes), 2), 4.5 * len(shown)),
                                   layout='constrained', squeeze=False, sharex=True, sharey='row')
    for line, (metric, label) in zip(grid, shown, strict=True):
        line[0].set_ylabel(label)
        for axes, scope in zip(line, scopes, strict=True):
            for variant in stats.variants_of(rows):
                draw_variant(axes, rows, scope, variant, metric, color=plot.COLOURS[variant], label=names[variant])
            draw_floor(axes, rows, metric)
            scale(axes, sizes)
    for axes, scope in zip(grid[0], scopes, strict=True):
        axes.set_title(scope)
    for axes in grid[-1]:
        axes.set_xlabel('CPUs')
    # In a panel it would cover a line.
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc='outside lower center', ncols=6)
    figure.suptitle(title(record))
    return figure
