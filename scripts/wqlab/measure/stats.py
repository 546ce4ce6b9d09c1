# SPDX-License-Identifier: GPL-2.0
"""Statistics over the recorded boots, and cells of tables.

Each boot counts once. The repeats inside one boot are not independent, since they share its
memory layout and the state of the machine at that time. So they are reduced to their median
first. The two runs of one repeat in a pair of boots follow each other at once. So their ratio
is taken first, then the median over the repeats, then that over the pairs.
"""
import random
from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles
from typing import Any

OURS, BASE = 'cmwq', 'base'
NAMES = {OURS: 'ours', BASE: 'base'}
ORDER = (OURS, BASE)
RESAMPLES = 1000
Stat = dict[str, Any]
Row = dict[str, Any]
Values = dict[tuple[int, int], float]     # {(pair, repeat): figure}


def spread(values: Iterable[float]) -> Stat:
    """Return the median, the extremes, and half the interquartile range in % of the median."""
    values = sorted(values)
    mid = median(values)
    if len(values) > 1 and mid:
        low, _, high = quantiles(values, n=4, method='inclusive')
        percent = 100 * (high - low) / 2 / mid
    else:
        percent = 0.0
    return {'median': mid, 'min': values[0], 'max': values[-1],
            'spread_percent': round(percent, 2), 'boots': len(values)}


def interval(pairs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the 95% confidence interval of the median over pairs, by bootstrap: of pairs, and of repeats in each."""
    chance = random.Random(1)       # the same table each time
    found = sorted(median(median(chance.choices(pair, k=len(pair))) for pair in chance.choices(pairs, k=len(pairs)))
                   for _ in range(RESAMPLES))
    return found[RESAMPLES // 40], found[-1 - RESAMPLES // 40]


def by_pair(values: Values) -> list[list[float]]:
    """Return a list of figures for each pair."""
    pairs: dict[int, list[float]] = {}
    for (pair, _), value in values.items():
        pairs.setdefault(pair, []).append(value)
    return list(pairs.values())


def ratio(ours: Values, base: Values) -> Stat | None:
    """Return the spread of ours / base with its interval, or None if no pair has both."""
    pairs = by_pair({key: value / base[key] for key, value in ours.items() if base.get(key)})
    if not pairs:
        return None
    low, high = interval(pairs)
    return {**spread(map(median, pairs)), 'low': low, 'high': high}


def compared(values: dict[str, dict[str, Values]], ratios: Iterable[str]) -> Row:
    """Return the row of a table, of the figures of each variant and metric, with ratios of some metrics."""
    row: Row = {variant: {metric: spread(map(median, by_pair(found))) for metric, found in mine.items() if found}
                for variant, mine in values.items()}
    if row.get(OURS) and row.get(BASE):
        row['ratio'] = {metric: ratio(values[OURS][metric], values[BASE][metric]) for metric in ratios}
    return row


def in_order(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def variants_of(rows: Sequence[Row]) -> list[str]:
    return [variant for variant in ORDER if any(row.get(variant) for row in rows)]


# Cells

def number(value: float) -> str:
    return f'{value:,.0f}'


def short(value: float) -> str:
    """Return a number with three digits, or more if it is large."""
    return number(value) if value >= 100 else f'{value:.3g}'


def with_spread(stat: Stat | None, text: Callable[[float], str] = number) -> str:
    if not stat:
        return '-'
    if stat['boots'] < 2:
        return text(stat['median'])
    return f"{text(stat['median'])} ±{stat['spread_percent']:.1f}%"


def ratio_text(stat: Stat | None, low: str = 'low', high: str = 'high') -> str:
    """Return a ratio with its interval, or between other limits."""
    if not stat:
        return '-'
    if stat[low] == stat[high]:
        return f"{stat['median']:.2f}"
    return f"{stat['median']:.2f} ({stat[low]:.2f}-{stat[high]:.2f})"


def both(row: Row, metric: str, text: Callable[[float], str] = number) -> str:
    """Return 'ours / base', or only one if the other was not measured."""
    texts = [text(row[variant][metric]['median']) if row[variant].get(metric) else '-'
             for variant in ORDER if variant in row]
    return ' / '.join(texts)
