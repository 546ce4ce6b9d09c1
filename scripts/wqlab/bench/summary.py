# SPDX-License-Identifier: GPL-2.0
"""The summary of a run as text: its tables, and what they mean."""

from wqlab.bench import by_scope, floor, machine, options, waits
from wqlab.measure.stats import NAMES


def summarise(boots):
    """Return the rows of all tables."""
    rows = by_scope.summarise(boots)
    floor.add(rows, boots)
    return rows


def lines(rows, params, names=NAMES):
    """Return the text. `params` are those of the run."""
    if not rows:
        return ['no runs']
    unit = options.unit(params)
    tables = [by_scope.table(rows, unit, names), waits.table(rows, unit, names), floor.table(rows, unit, names)]
    text = [line for table in tables if table for line in (*machine.heading(params), *table, '')]
    return text + by_scope.legend(rows, names) + waits.legend(rows) + floor.legend(rows) \
        + ([options.IDLE_TOO] if unit == 'ns' else [])
