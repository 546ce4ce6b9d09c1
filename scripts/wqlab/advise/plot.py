# SPDX-License-Identifier: GPL-2.0
"""Draw the gains: a panel for each figure, a line for each setting."""
import textwrap
from pathlib import Path
from typing import Any

from wqlab.advise import pods, verdict, words
from wqlab.advise.verdict import PROVE
from wqlab.measure import plot

COLOURS = {verdict.BETTER: '#2ca02c', verdict.WORSE: '#d62728', verdict.SAME: '#1f77b4', verdict.UNCLEAR: '#7f7f7f'}
TITLE_CHARS = 140
LEGEND = 'green: better; red: worse; blue: the same; grey: not settled; in the grey band, a difference does not count'


def title(record: dict[str, Any]) -> str:
    machine, params = record['machine'], record['parameters']
    where = f"a guest of {params['engine']}, " if params['engine'] else ''
    head = f"{where}{record['cpus']} CPUs, {machine['cpu']}, Linux {record['kernel']['release']}"
    return '\n'.join([head, *textwrap.wrap(words.paragraph(record), TITLE_CHARS), LEGEND])


def colour_of(row: verdict.Row) -> str:
    if row['setting'] == pods.AGAIN:
        return 'black'
    return COLOURS[verdict.UNCLEAR if row['margin'] > verdict.TOO_NOISY else row[f'{PROVE}_class']]


def draw_figure(axes: Any, rows: list[verdict.Row], names: list[str]) -> None:
    """Draw the gains of all settings in one figure. What does not count lies inside the grey band."""
    margin = rows[0]['margin']
    axes.axvspan(1 / (1 + margin), 1 + margin, color='#e8e8e8')
    axes.axvline(1, color='black', linewidth=1)
    for row in rows:
        stat = row[PROVE]
        if not stat:
            continue
        colour = colour_of(row)
        axes.errorbar([stat['median']], [names.index(row['setting'])], fmt='o', color=colour, capsize=4,
                      xerr=[[stat['median'] - stat['low']], [stat['high'] - stat['median']]])
    axes.set_title(rows[0]['key'])
    axes.grid(axis='x', alpha=0.3)


def draw(record: dict[str, Any]) -> Any:
    rows = record['rows']
    keys = list(dict.fromkeys(row['key'] for row in rows))
    names = list(dict.fromkeys(row['setting'] for row in rows))
    figure, grid = plot.plotting().subplots(
        1, max(len(keys), 1), figsize=(2.6 * max(len(keys), 4), 3 + 0.35 * len(names)), layout='constrained',
        squeeze=False, sharey=True)
    for axes, key in zip(grid[0], keys):
        draw_figure(axes, [row for row in rows if row['key'] == key], names)
    grid[0, 0].set_yticks(range(len(names)), names)
    grid[0, 0].invert_yaxis()
    grid[0, 0].set_xlabel('gain over the default (more is better)')
    figure.suptitle(title(record), fontsize=9)
    return figure


def write(record: dict[str, Any], folder: Path) -> list[Path]:
    return plot.write(record, folder, draw)


def has_plot(record: dict[str, Any]) -> bool:
    return bool(record['rows']) and any(row[PROVE] for row in record['rows'])
