# SPDX-License-Identifier: GPL-2.0
"""How plots are drawn and written: plot.png and plot.svg beside a results.json."""
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wqlab import files
from wqlab.measure import stats

Record = dict[str, Any]

COLOURS = {stats.OURS: '#1f77b4', stats.BASE: '#b0b0b0'}


def plotting() -> Any:
    """Load matplotlib and make it draw to files, not to a display."""
    import matplotlib
    matplotlib.use('Agg')
    matplotlib.rcParams['svg.hashsalt'] = 'bench'
    matplotlib.rcParams['svg.fonttype'] = 'none'    # text stays text, and the file small
    from matplotlib import pyplot
    return pyplot


def error_bars(found: Sequence[stats.Stat]) -> list[list[float]]:
    """Return the distances from the median to the minimum and to the maximum."""
    return [[stat['median'] - stat['min'] for stat in found], [stat['max'] - stat['median'] for stat in found]]


def bars(axes: Any, rows: Sequence[stats.Row], metric: str, names: dict[str, str], lying: bool = False) -> None:
    """Draw a group of bars for each row, one for each variant. Whiskers go from minimum to maximum."""
    variants = stats.variants_of(rows)
    width = 0.8 / len(variants)
    for position, variant in enumerate(variants):
        offset = (position - (len(variants) - 1) / 2) * width
        shown = [(place + offset, row[variant][metric]) for place, row in enumerate(rows)
                 if row.get(variant, {}).get(metric)]
        places, found = [place for place, _ in shown], [stat for _, stat in shown]
        errors = {'xerr' if lying else 'yerr': error_bars(found)}
        draw = axes.barh if lying else axes.bar
        draw(places, [stat['median'] for stat in found], width, label=names[variant], capsize=3,
             color=COLOURS[variant], edgecolor='black', linewidth=0.5, **errors)


def engine(record: Record) -> str:
    """Return the engine and its accelerator."""
    return '-'.join(filter(None, (record['engine'], record['parameters']['accel'])))


def write(record: Record, folder: Path, draw: Callable[[Record], Any]) -> None:
    """Write both plots, each atomically."""
    figure = draw(record)
    for kind in ('png', 'svg'):
        path = folder / f'plot.{kind}'
        with files.replacing(path) as temp:
            figure.savefig(temp, format=kind, dpi=120)
            if kind == 'svg':       # matplotlib leaves spaces at the ends of lines, which git complains about
                temp.write_text('\n'.join(line.rstrip() for line in temp.read_text().split('\n')))
    plotting().close(figure)
