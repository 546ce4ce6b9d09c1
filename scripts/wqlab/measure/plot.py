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


def error_bars(found: Sequence[stats.Stat], low: str = 'min', high: str = 'max') -> list[list[float]]:
    """Return the distances from the median to the minimum and to the maximum, or to other limits."""
    return [[stat['median'] - stat[low] for stat in found], [stat[high] - stat['median'] for stat in found]]


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
