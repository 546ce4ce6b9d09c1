# SPDX-License-Identifier: GPL-2.0
"""Draw the results of a workload run."""
import textwrap
from pathlib import Path
from typing import Any

from wqlab.measure import plot
from wqlab.measure.plot import COLOURS, error_bars
from wqlab.measure.stats import NAMES, in_order
from wqlab.workload import options, workloads
from wqlab.workload.cases import Workload

INCHES = 0.26       # for each case
LABEL_CHARS = 90


def title(record: dict[str, Any]) -> str:
    params = record['parameters']
    topology = ', '.join(f'{count} {what}' for what, count in record['topology'].items())
    return (f"{options.heading(params)}{plot.engine(record)}: {topology}; {params['pairs']} boots of each, "
            f"{params['seconds']:g} s for each case")


def draw_ratios(axes: Any, rows: list[dict], metric: str, label: str) -> None:
    """Draw ours / base of each case. Whiskers go from minimum to maximum."""
    shown = [(place, row['ratio'][metric]) for place, row in enumerate(rows)
             if (row.get('ratio') or {}).get(metric)]
    axes.barh([place for place, _ in shown], [stat['median'] - 1 for _, stat in shown], left=1,
              xerr=error_bars([stat for _, stat in shown]), capsize=2,
              color=COLOURS['cmwq'], edgecolor='black', linewidth=0.5)
    axes.axvline(1, color='black', linewidth=1)
    axes.set_xlabel(label)


def draw_rates(axes: Any, rows: list[dict], metric: str, label: str) -> None:
    """Draw the figure of each case for each variant."""
    plot.bars(axes, rows, metric, NAMES, lying=True)
    axes.set_xscale('log')
    axes.legend()
    axes.set_xlabel(label)


def panels(rows: list[dict], workload: Workload) -> list[tuple]:
    """Return (function, metric, label) of the panels."""
    if all(row.get('ratio') for row in rows):
        first, words = draw_ratios, 'ours / base'
    else:
        first, words = draw_rates, 'median'
    return [(first, 'rate', f'rate, {words} (higher is better)'),
            (first, 'p99_us', textwrap.fill(f'p99, {words} (lower is better): {workload.latency}', LABEL_CHARS))]


def draw(record: dict[str, Any]) -> Any:
    rows = record['summary']
    known = workloads.described(record['parameters'])
    names = in_order(row['workload'] for row in rows)
    groups = [[row for row in rows if row['workload'] == name] for name in names]
    heights = [2 + INCHES * len(group) for group in groups]
    figure, axes = plot.plotting().subplots(
        len(names), 2, figsize=(15, sum(heights)), layout='constrained', squeeze=False, sharey='row',
        gridspec_kw={'height_ratios': heights})
    for line, name, group in zip(axes, names, groups):
        for one, (paint, metric, label) in zip(line, panels(group, known[name])):
            paint(one, group, metric, label)
            one.grid(axis='x', alpha=0.3)
        line[0].set_yticks(range(len(group)), [row['name'] for row in group])
        line[0].invert_yaxis()
        line[0].set_title(name, loc='left')
    figure.suptitle(title(record))
    return figure


def write(record: dict[str, Any], folder: Path) -> None:
    if record['summary']:       # some case has figures
        plot.write(record, folder, draw)
