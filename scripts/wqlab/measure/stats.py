# SPDX-License-Identifier: GPL-2.0
"""Statistics over the recorded boots, and cells of tables. Each boot counts once."""
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


def in_order(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def variants_of(rows: Sequence[Row]) -> list[str]:
    return [variant for variant in ORDER if any(row.get(variant) for row in rows)]


# Cells

def number(value: float) -> str:
    return f'{value:,.0f}'


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
