# SPDX-License-Identifier: GPL-2.0
"""What an item costs above the floor: two threads that wake each other on one CPU, without a workqueue.

The time of a run divided by its number of items is the time of a round trip only if there is one thread, with one item
in flight. With --icount it is a number of instructions.
"""

from statistics import median

from wqlab.bench import by_scope, parse
from wqlab.measure import stats

SAME = 'same'
MEANING = 'above the floor: how much more a round trip costs than that of two threads that wake each other on one CPU'


def alone(boots):
    return all(run.get('threads') == 1 and run['in_flight'] == 1 for boot in boots for run in boot['runs'])


def ground_of(rows, row):
    """Return the row of the floor that belongs to this row, or None."""
    return next((one for one in rows if one['scope'] == SAME and one.get('cpus') == row.get('cpus')), None)


def add(rows, boots):
    """Add to each row what is above the floor: {variant: ns or instructions}, and its ratios to base."""
    if not alone(boots):
        return
    for row in rows:
        ground = ground_of(rows, row)
        if row['scope'] in parse.FLOOR or not ground:
            continue
        above = {variant: row[variant]['ns_per_item']['median'] - ground[variant]['ns_per_item']['median']
                 for variant in stats.ORDER if row.get(variant) and ground.get(variant)}
        base = above.get(stats.BASE)
        row['above'] = above
        row['above_ratio'] = {'ratio': above[stats.OURS] / base} if base and stats.OURS in above else {}


def table(rows, unit, names):
    """Return the table as lines. There is none if the floor was not measured."""
    shown = [row for row in rows if row.get('above')]
    if not shown:
        return []
    sources = {'round trip': lambda row, variant: row[variant]['ns_per_item']['median'],
               'floor': lambda row, variant: ground_of(rows, row)[variant]['ns_per_item']['median'],
               'above': lambda row, variant: row['above'][variant]}

    def column(what, variant):
        return (f"{names[variant]}\n{what}, {unit or 'ns'}",
                lambda row: stats.number(sources[what](row, variant)) if variant in row['above'] else '-')
    ratios = [(f'{names[stats.OURS]}/{names[stats.BASE]}\nabove',
               lambda row: ''.join(f'{ratio:.3f}' for ratio in row['above_ratio'].values()))]
    return by_scope.drawn(shown, [
        *(column(what, variant) for what in sources for variant in stats.variants_of(shown)),
        *(ratios if any('ratio' in row for row in shown) else [])])


def legend(rows):
    """Return lines that explain the rows of the floor."""
    lines = ['floor: the same items, run by another thread without a workqueue; one line: two threads that spin on one '
             'word'] if any(row['scope'] in parse.FLOOR for row in rows) else []
    return lines + ([MEANING] if any(row.get('above') for row in rows) else [])


def pooled(row, metric):
    """Return the figure of a row of the floor over all variants, which run the same code there."""
    found = [row[variant][metric]['median'] for variant in stats.ORDER if row.get(variant, {}).get(metric)]
    return median(found) if found else None
