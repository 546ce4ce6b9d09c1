# SPDX-License-Identifier: GPL-2.0
"""The table of --lockstat: lock contentions and acquisitions per item."""

from wqlab import tables
from wqlab.bench import stats
from wqlab.bench.locks import LOCKS

ALL, OTHERS = 'all', 'others'
FEW = 0.001     # acquisitions per item below which a lock has no row, if it was never contended


def figures(row, variant, name):
    """Return (contentions, acquisitions) per item, None where there is no figure."""
    if variant not in row:
        return None, None
    of = row[variant]
    if name == ALL:
        return of['contentions']['median'], of['acquisitions']['median']
    if name == OTHERS:
        return of['other_contentions']['median'], None
    return of['locks'].get(name, (None, None))


def text_of(value):
    return '-' if value is None else f'{value:.4f}'


def names_in(row, variants):
    """Return the locks that get a line: those that some variant takes now and then, or waits for."""
    found = {name: figures(row, variant, name) for variant in variants for name in row.get(variant, {}).get('locks', {})
             if max(figures(row, variant, name)[0], figures(row, variant, name)[1] - FEW) > 0}
    return [ALL, *sorted(found, key=LOCKS.index), OTHERS]


def table(rows, names):
    """Return the table as lines: for each scope the sum over all locks of the workqueue, then each of them."""
    variants = stats.variants_of(rows)
    head = stats.begin(rows)
    head += ['lock'] + [f'{names[variant]}\n{what}' for what in ('contentions/item', 'taken/item')
                        for variant in variants]
    cells = []
    for row in rows:
        for name in names_in(row, variants):
            begin = stats.begin(rows, row) if name == ALL else [''] * len(stats.begin(rows))
            cells.append([*begin, name] + [text_of(figures(row, variant, name)[part]) for part in (0, 1)
                                           for variant in variants])
    return tables.lines(head, cells, stats.numbers(head))


def legend():
    return [f'{ALL}: the locks of the workqueue; {OTHERS}: all other locks of the kernel, such as those of run queues',
            'contentions/item: how often somebody had to wait for the lock; medians over the boots',
            'lock_stat makes each lock slower, and so changes how often it is contended: there are no rates']
