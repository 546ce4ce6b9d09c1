# SPDX-License-Identifier: GPL-2.0
"""What follows from the rounds.

Each figure of a setting is compared with that of the default setting in the same round: a gain of
more than 1 is better. Each turn has one value, which is the geometric mean of its two rounds. Turns
that follow each other may share the state of the machine. So intervals are bootstrapped over blocks
of turns, and over the turns in each block, as run-bench.sh does it with boots and repeats.

The best of many noisy figures is best by luck. So half of the turns choose the setting, and the other half
measure what it gains.

A difference counts if the interval lacks 1, and if it is larger than the margin: the threshold, or
by how much the default setting may differ from itself, measured in the same rounds.
"""
import math
from statistics import geometric_mean, median
from typing import Any

from wqlab.advise import pods
from wqlab.advise.measure import LOADS, Figure
from wqlab.measure import stats

BLOCK = 3               # turns
FEWEST = 4              # turns in each half
THRESHOLD = 0.05        # smaller differences do not count
TOO_NOISY = 0.25        # with a larger margin, a figure says nothing
BETTER, WORSE, SAME, UNCLEAR = 'better', 'worse', 'same', 'unclear'
# The verdicts: all settings have the same pods; there are too few turns; too much noise; one setting is better and
# costs nothing; some are better here and worse there; none is better.
ALIKE, SHORT, NOISY, CHOOSE, TRADE, LEAVE = 'alike', 'short', 'noisy', 'choose', 'trade', 'leave'
PICK, PROVE = 'pick', 'prove'       # the halves of the turns
Row = dict[str, Any]
Turns = list[list[dict[str, Any]]]


def gain_of(turn: list[dict[str, Any]], load: str, figure: Figure, name: str) -> float:
    """Return the gain of a setting in a turn."""
    ratios = [max(found[load][name][figure.metric], 1) / max(found[load][pods.DEFAULT][figure.metric], 1)
              for found in turn]
    mean = geometric_mean(ratios)
    return mean if figure.more else 1 / mean


def gain(turns: Turns, load: str, figure: Figure, name: str) -> dict[str, float]:
    """Return the median gain with its 95% confidence interval."""
    values = [gain_of(turn, load, figure, name) for turn in turns]
    blocks = [values[at:at + BLOCK] for at in range(0, len(values), BLOCK)]
    low, high = stats.interval(blocks)
    return {'median': median(map(median, blocks)), 'low': low, 'high': high}


def class_of(stat: dict[str, float], margin: float) -> str:
    if stat['low'] > 1 and stat['median'] >= 1 + margin:
        return BETTER
    if stat['high'] < 1 and stat['median'] <= 1 / (1 + margin):
        return WORSE
    if stat['low'] >= 1 / (1 + margin) and stat['high'] <= 1 + margin:
        return SAME
    return UNCLEAR


def may_harm(row: Row, half: str) -> bool:
    """Return True if the setting is worse, or looks so but that is not certain."""
    kind = row[f'{half}_class']
    return kind == WORSE or kind == UNCLEAR and row[half]['median'] < 1 / (1 + row['margin'])


def rows_of(record: dict[str, Any]) -> list[Row]:
    """Return a row for each figure and setting, the repeated default included, if there are enough turns."""
    turns, rows = record['turns'], []
    if len(turns) < 2 * FEWEST:
        return rows
    for load, figure in [(name, figure) for name in record['items'] for figure in LOADS[name].figures]:
        again = gain(turns, load, figure, pods.AGAIN)
        margin = max(THRESHOLD, again['high'] - 1, 1 / again['low'] - 1)
        for name in (pods.AGAIN, *record['settings']):
            halves = {half: gain(turns[first::2], load, figure, name) for first, half in enumerate((PICK, PROVE))}
            rows.append({'setting': name, 'load': load, 'key': f'{load} {figure.name}', 'gain': figure.gain,
                         'margin': margin, **halves,
                         **{f'{half}_class': class_of(stat, margin) for half, stat in halves.items()}})
    return rows


def saved_ns(record: dict[str, Any], name: str) -> float:
    """Return how much of a thread's time a short item costs less than with the default setting, where that is most."""
    def cost(load: str, setting: str) -> float:
        runs = [found[load][setting] for turn in record['turns'] for found in turn]
        return median(run['threads'] * 1e9 / max(run['items_per_s'], 1) for run in runs)
    loads = [load for load in ('latency', 'batch') if load in record['items']]
    return max((cost(load, pods.DEFAULT) - cost(load, name) for load in loads), default=0)


def harmless(rows: list[Row], half: str) -> bool:
    """Return True if a setting is better somewhere and worse nowhere, in one half."""
    return any(row[f'{half}_class'] == BETTER for row in rows) and not any(may_harm(row, half) for row in rows)


def trades(by_name: dict[str, list[Row]]) -> list[dict[str, Any]]:
    """Return for each figure the setting that is best for it, if both halves agree that it is better, and its price."""
    rows = [row for found in by_name.values() for row in found if row[f'{PICK}_class'] == BETTER]
    best = {row['key']: row for row in sorted(rows, key=lambda row: row[PICK]['median'])}
    return [{'gain': row, 'prices': [one for one in by_name[row['setting']] if may_harm(one, PICK)
                                     or may_harm(one, PROVE)]}
            for row in best.values() if row[f'{PROVE}_class'] == BETTER]


def decide(record: dict[str, Any]) -> dict[str, Any]:
    """Return the advice: its verdict, and what speaks for it."""
    rows = record['rows']
    if not rows:
        return {'verdict': SHORT if record['settings'] else ALIKE}
    figures = {row['key'] for row in rows}
    noisy = {row['key'] for row in rows if row['margin'] > TOO_NOISY}
    if 2 * len(noisy) > len(figures):
        return {'verdict': NOISY, 'noisy': len(noisy), 'figures': len(figures)}
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        if row['key'] not in noisy and row['setting'] != pods.AGAIN:
            by_name.setdefault(row['setting'], []).append(row)
    clean = sorted((name for name, found in by_name.items() if harmless(found, PICK)), reverse=True,
                   key=lambda name: sum(math.log(row[PICK]['median']) for row in by_name[name]))
    name = next((name for name in clean if harmless(by_name[name], PROVE)), None)
    if name:
        return {'verdict': CHOOSE, 'setting': name, 'saved_ns': saved_ns(record, name),
                'gains': [row for row in by_name[name] if row[f'{PROVE}_class'] == BETTER]}
    found = trades(by_name)
    return {'verdict': TRADE, 'trades': found} if found else {'verdict': LEAVE}
