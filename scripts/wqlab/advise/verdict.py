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
from statistics import median
from typing import Any

from wqlab.advise import loads, pods
from wqlab.measure import stats

BLOCK = 3               # turns
FEWEST = 4              # turns in each half
TOO_NOISY = 0.25        # with a larger margin, a figure says nothing
UNKNOWN = 1000.0        # the margin of a figure that is missing
BETTER, WORSE, SAME, UNCLEAR = 'better', 'worse', 'same', 'unclear'
# The verdicts: all settings have the same pods; there are too few turns; too much noise; one setting is better and
# costs nothing; some are better here and worse there; none is better.
ALIKE, SHORT, NOISY, CHOOSE, TRADE, LEAVE = 'alike', 'short', 'noisy', 'choose', 'trade', 'leave'
DECIDED = (CHOOSE, TRADE, LEAVE)
Row = dict[str, Any]
PICK, PROVE = 'pick', 'prove'       # the halves of the turns


def gain_of(turn: dict[str, Any], load: str, figure: loads.Figure, name: str) -> float | None:
    """Return the gain of a setting in a turn, or None if a figure is missing."""
    logs = []
    for found in turn['rounds']:
        runs = found[load]
        mine, default = (runs.get(one, {}).get(figure.metric) for one in (name, pods.DEFAULT.name))
        if not mine or not default:
            return None
        logs.append(math.log(mine / default))
    mean = math.exp(sum(logs) / len(logs))
    return mean if figure.more else 1 / mean


def gain(turns: list[dict[str, Any]], load: str, figure: loads.Figure, name: str) -> dict[str, Any] | None:
    """Return the median gain with its 95% confidence interval."""
    values = [gain_of(turn, load, figure, name) for turn in turns]
    known = [value for value in values if value is not None]
    if not known:
        return None
    blocks = [known[at:at + BLOCK] for at in range(0, len(known), BLOCK)]
    low, high = stats.interval(blocks)
    return {'median': median(map(median, blocks)), 'low': low, 'high': high, 'turns': len(known)}


def margin_of(again: dict[str, Any] | None, threshold: float) -> float:
    """Return how large a difference must be to count."""
    return max(threshold, again['high'] - 1, 1 / again['low'] - 1) if again else UNKNOWN


def class_of(stat: dict[str, Any] | None, margin: float) -> str:
    if not stat:
        return UNCLEAR
    if stat['low'] > 1 and stat['median'] >= 1 + margin:
        return BETTER
    if stat['high'] < 1 and stat['median'] <= 1 / (1 + margin):
        return WORSE
    if stat['low'] >= 1 / (1 + margin) and stat['high'] <= 1 + margin:
        return SAME
    return UNCLEAR


def may_harm(row: Row, half: str) -> bool:
    """Return True if the setting is worse, or looks so but that is not certain."""
    stat = row[half]
    return row[f'{half}_class'] == WORSE or \
        bool(stat) and row[f'{half}_class'] == UNCLEAR and stat['median'] < 1 / (1 + row['margin'])


def rows_of(record: dict[str, Any]) -> list[Row]:
    """Return a row for each figure and setting, the repeated default included."""
    turns, threshold = record['turns'], record['parameters']['threshold'] / 100
    names = [pods.Setting(**one).name for one in record['settings']]
    rows = []
    for load, figure in loads.figures_of(list(record['items'])):
        again = gain(turns, load.name, figure, pods.AGAIN)
        margin = margin_of(again, threshold)
        for name in (pods.AGAIN, *names):
            halves = {half: gain(turns[first::2], load.name, figure, name) for first, half in enumerate((PICK, PROVE))}
            rows.append({'setting': name, 'load': load.name, 'figure': figure.name, 'key': loads.key(load, figure),
                         'margin': margin, **halves,
                         **{f'{half}_class': class_of(stat, margin) for half, stat in halves.items()},
                         'kworkers': middle(turns, load.name, name, 'kworkers')})
    return rows


def middle(turns: list[dict[str, Any]], load: str, name: str, metric: str) -> float | None:
    """Return the median of a metric over all rounds."""
    values = [found[load][name][metric] for turn in turns for found in turn['rounds'] if metric in found[load][name]]
    return median(values) if values else None


def saved_ns(turns: list[dict[str, Any]], load: str, name: str) -> float | None:
    """Return how much of a thread's time an item costs less than with the default setting."""
    def cost(setting: str) -> float | None:
        rate, threads = (middle(turns, load, setting, metric) for metric in ('items_per_s', 'threads'))
        return threads * 1e9 / rate if rate and threads else None
    mine, default = cost(name), cost(pods.DEFAULT.name)
    return default - mine if mine and default else None


def score(rows: list[Row]) -> float:
    return sum(math.log(row[PICK]['median']) for row in rows if row[PICK])


def picked(by_name: dict[str, list[Row]]) -> list[str]:
    """Return the settings that are better somewhere and worse nowhere, in one half. What gains most comes first."""
    clean = [name for name, rows in by_name.items()
             if any(row[f'{PICK}_class'] == BETTER for row in rows) and not any(may_harm(row, PICK) for row in rows)]
    return sorted(clean, key=lambda name: -score(by_name[name]))


def proven(rows: list[Row]) -> bool:
    """Return True if the other half agrees."""
    return any(row[f'{PROVE}_class'] == BETTER for row in rows) and not any(may_harm(row, PROVE) for row in rows)


def best_for(key: str, by_name: dict[str, list[Row]]) -> Row | None:
    """Return the row of the setting that is best for a figure, if both halves agree that it is better."""
    rows = [row for found in by_name.values() for row in found if row['key'] == key and row[f'{PICK}_class'] == BETTER]
    best = max(rows, key=lambda row: row[PICK]['median'], default=None)
    return best if best and best[f'{PROVE}_class'] == BETTER else None


def prices(rows: list[Row]) -> list[Row]:
    """Return the figures in which a setting is worse, or may be."""
    return [row for row in rows if may_harm(row, PICK) or may_harm(row, PROVE)]


def resolution(rows: list[Row]) -> float:
    """Return how large a difference would have been noticed, in the middle."""
    return median(math.sqrt(row[PROVE]['high'] / row[PROVE]['low']) - 1 for row in rows if row[PROVE])


def decide(record: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """Return the advice: its verdict, the setting if there is one, and the rows that speak for and against it."""
    if not record['settings']:
        return {'verdict': ALIKE}
    if len(record['turns']) < 2 * FEWEST:
        return {'verdict': SHORT, 'turns': len(record['turns']), 'needed': 2 * FEWEST}
    noisy = list(dict.fromkeys(row['key'] for row in rows if row['margin'] > TOO_NOISY))
    judged = [row for row in rows if row['key'] not in noisy and row['setting'] != pods.AGAIN]
    figures = {row['key'] for row in rows}
    if 2 * len(noisy) > len(figures):
        return {'verdict': NOISY, 'noisy': noisy, 'figures': len(figures)}
    by_name = {name: [row for row in judged if row['setting'] == name]
               for name in dict.fromkeys(row['setting'] for row in judged)}
    found: dict[str, Any] = {'noisy': noisy, 'resolution': resolution(judged), 'verdict': LEAVE,
                             'figures': len(figures)}
    clean = picked(by_name)
    name = next((name for name in clean if proven(by_name[name])), None)
    if name:
        found.update(verdict=CHOOSE, setting=name, gains=of_class(by_name[name], BETTER),
                     open=of_class(by_name[name], UNCLEAR),
                     saved_ns={load: saved_ns(record['turns'], load, name)
                               for load in ('latency', 'batch') if load in record['items']})
    elif clean:
        found['unconfirmed'] = clean[0]
    best = [best_for(key, by_name) for key in dict.fromkeys(row['key'] for row in judged)]
    trades = [{'gain': row, 'prices': prices(by_name[row['setting']])} for row in best
              if row and row['setting'] != found.get('setting')]
    found['trades'] = trades
    if trades and found['verdict'] == LEAVE:
        found['verdict'] = TRADE
    return found


def of_class(rows: list[Row], wanted: str) -> list[Row]:
    return [row for row in rows if row[f'{PROVE}_class'] == wanted]
