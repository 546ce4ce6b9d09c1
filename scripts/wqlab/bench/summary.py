# SPDX-License-Identifier: GPL-2.0
"""The summary of a run as text: two tables, and what they mean."""

from wqlab.bench import stats, waits


def lines(rows, instructions=False, names=stats.NAMES):
    if not rows:
        return ['no runs']
    second = waits.table(rows, instructions, names)
    text = stats.table(rows, instructions, names) + ([''] if second else []) + second
    return text + ['', *stats.legend(rows, names)] + waits.legend(rows)
