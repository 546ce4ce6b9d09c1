# SPDX-License-Identifier: GPL-2.0
"""Statistics over the recorded boots, and the tables of results. Each boot counts once."""
from typing import Any

from wqlab import tables
from wqlab.measure.stats import BASE, NAMES, OURS, Values, both, compared, in_order, ratio_text, short, with_spread
from wqlab.workload import workloads
from wqlab.workload.cases import Workload


def figures_of(boots: list[dict], name: str, metric: str) -> Values:
    """Return the figures of the boots that have the figure. Each boot runs a case once."""
    return {(boot['pair'], 1): run['figures'][metric] for boot in boots for run in boot['runs']
            if run['name'] == name and metric in run['figures']}


def summarise(boots: list[dict]) -> list[dict[str, Any]]:
    """Return a row for each case, in the order in which they were run."""
    rows = []
    for workload in in_order(boot['workload'] for boot in boots):
        group = [boot for boot in boots if boot['workload'] == workload]
        runs = {run['name']: run for boot in group for run in boot['runs']}
        rows += [summary_row(group, workload, run) for run in runs.values()]
    return rows


def summary_row(boots: list[dict], workload: str, run: dict) -> dict[str, Any]:
    values = {variant: {metric: figures_of([boot for boot in boots if boot['variant'] == variant], run['name'], metric)
                        for metric in run['figures']}
              for variant in in_order(boot['variant'] for boot in boots)}
    return {'workload': workload, 'name': run['name'], 'unit': run['unit'], **compared(values, run['figures'])}


def table(rows: list[dict[str, Any]], workload: Workload) -> list[str]:
    """Return the table of one workload as lines."""
    rows = [row for row in rows if row['workload'] == workload.name]
    variants = [variant for variant in (OURS, BASE) if any(variant in row for row in rows)]
    pair = ' / '.join(NAMES[variant] for variant in variants)
    columns = workload.columns
    head = ['case', 'rate in', *(NAMES[variant] for variant in variants)]
    head += ['ours/base\n(min-max)'] if len(variants) == 2 else []
    head += [f'{title}\n{pair}' for _, title in columns]
    lines = []
    for row in rows:
        line = [row['name'], row['unit']]
        line += [with_spread(row.get(variant, {}).get('rate'), short) for variant in variants]
        if len(variants) == 2:
            line.append(ratio_text((row.get('ratio') or {}).get('rate'), 'min', 'max'))
        lines.append(line + [both(row, metric, short) for metric, _ in columns])
    return tables.lines(head, lines, range(2, len(head)))


def format_summary(rows: list[dict[str, Any]], known: dict[str, Workload] = workloads.ALL,
                   heading: str = '') -> list[str]:
    """Return all tables, each with a line that says what it shows, after the heading."""
    if not rows:
        return ['no case has figures']
    text: list[str] = []
    for workload in in_order(row['workload'] for row in rows):
        one = known[workload]
        text += [f'{heading}{workload}: {one.what}', *table(rows, one), f'{one.quantiles}: {one.latency}', '']
    text.append('±: half the interquartile range over the boots')
    if any('ratio' in row for row in rows):
        text.append('ours/base: the median over pairs of boots, with the extremes')
    return text
