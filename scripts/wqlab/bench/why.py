# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --machine: what CPUs waited for in each scope. wqlab/simulated/explain.py makes the figures."""
from pathlib import Path
from typing import Any

from wqlab import files
from wqlab.bench import machine, options
from wqlab.measure import stats
from wqlab.simulated import explain, flames

TEXT = 'why.txt'


def case_of(boot: dict[str, Any], run: dict[str, Any]) -> tuple[str, str]:
    """Return the name of a case, for people and for a file."""
    words = [f"scope {run['scope']}", *([f"{boot['cpus']} CPUs"] if boot.get('cpus') else [])]
    return ', '.join(words), '-'.join(words).replace(' ', '-').removeprefix('scope-')


def cases(record: dict[str, Any]) -> dict[tuple[str, str], explain.Kernels]:
    """Return what was explained, the base kernel first. More boots and repeats would say the same."""
    found: dict[tuple[str, str], dict[str, explain.Explained]] = {}
    for boot in record['boots']:
        for run in boot['runs']:
            if 'why' in run:
                found.setdefault(case_of(boot, run), {}).setdefault(boot['variant'], run['why'])
    names = options.names(record['parameters'])
    return {case: [(names[variant], each[variant]) for variant in reversed(stats.ORDER) if variant in each]
            for case, each in found.items()}


def short(kernels: explain.Kernels) -> list[str]:
    """Return how kernels differ, or what a single one waited for."""
    (first, base), *others = kernels
    text = [line for name, found in others for line in ('', *explain.differences(base, found, (first, name)))]
    return [*explain.summary(kernels), *(text or ['', *explain.lines(base)])]


def lines(record: dict[str, Any]) -> list[str]:
    """Return what is printed below the tables of the benchmark."""
    text = []
    for (title, _), kernels in cases(record).items():
        text += ['', f'{title}: what CPUs waited for', *short(kernels)]
    return [*text, '', *explain.LEGEND, f'{TEXT} and why-*.svg say who waited for whose write'] if text else []


def write(record: dict[str, Any], folder: Path) -> None:
    """Write all tables, and a picture of each case."""
    text, heading = [], machine.heading(record['parameters'])
    for (title, stem), kernels in cases(record).items():
        text += ['', title, *explain.summary(kernels)]
        for name, found in kernels:
            text += ['', f'{title}, {name}', *explain.lines(found)]
        files.write(folder / f'why-{stem}.svg', flames.picture('; '.join([*heading, title]), kernels))
    if text:
        files.write(folder / TEXT, '\n'.join([*heading, *text, '', *explain.LEGEND]) + '\n')
