# SPDX-License-Identifier: GPL-2.0
"""What scripts/run-workload.sh runs: see --help. The modules are listed in __init__.py."""
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wqlab.kernels.kinds import VARIANTS
from wqlab.measure import turns
from wqlab.measure.boot import install, kernel
from wqlab.simulated import root
from wqlab.steps import Failure
from wqlab.workload import engines, options, plot, stats, workloads


def describe_boot(boot: dict, params: dict) -> str:
    return f"pair {boot['pair']} of {params['pairs']}, {boot['workload']}, {boot['variant']}"


def stem(boot: dict) -> str:
    return f"{boot['pair']:03d}-{boot['workload']}-{boot['variant']}"


def outline(entry: dict) -> str:
    words = [f"{len(entry['runs'])} cases", *([f"{len(entry['skipped'])} skipped"] if entry['skipped'] else []),
             *(['WRONG DATA'] if entry['wrong'] else [])]
    return ', '.join(words)


def boots_to_make(params: dict[str, Any]) -> list[dict]:
    """Return all boots in order. The two variants of a workload follow each other, and take turns at being first."""
    variants = [params['variant']] if params['variant'] else VARIANTS
    return [{'pair': pair, 'workload': workload, 'variant': variant}
            for pair in range(1, params['pairs'] + 1)
            for workload in params['workloads']
            for variant in variants[::1 if pair % 2 else -1]]


def boots_left(record: dict[str, Any]) -> list[dict]:
    made = [{key: boot[key] for key in ('pair', 'workload', 'variant')} for boot in record['boots']]
    return [boot for boot in boots_to_make(record['parameters']) if boot not in made]


def kernels(params: dict[str, Any], build: bool) -> turns.Kernels:
    """Return the kernels of a run. With --here there are none."""
    if build and params.get('machine'):
        install('a simulated guest', ENGINE='arm64')
        root.programs()
    elif build:
        install('a workload', CONFIG='workload')
    if params['engine'] == 'here':
        return {}
    variants = [params['variant']] if params['variant'] else VARIANTS
    return {variant: kernel(params['engine'], variant, 'workload') for variant in variants}


def check_running(record: dict[str, Any]) -> None:
    """With --here: note the running kernel in the record, or raise Failure if it cannot continue the record."""
    if record['parameters']['engine'] != 'here':
        return
    if os.geteuid():
        raise Failure('--here needs root: it makes disks and mounts file systems')
    variant, kernel = engines.running_variant(), engines.running_kernel()
    if record['parameters']['variant'] not in (None, variant):
        raise Failure(f"the running kernel is {variant}, not {record['parameters']['variant']}: "
                          'leave --variant out, or boot another kernel')
    if record['kernels'].setdefault(variant, kernel) != kernel:
        raise Failure(f'this run has measured another {variant} kernel: start a new run')


def once(params: dict[str, Any], kernels: turns.Kernels) -> turns.Once:
    """Return the function that makes one boot."""
    def make(boots: list[dict], logs: list[Path], tick: Callable[[float, str], None]) -> list[dict]:
        return [engines.run_boot(kernels.get(boot['variant']), params, boot, log, tick)
                for boot, log in zip(boots, logs, strict=True)]
    return make


def possible(record: dict[str, Any]) -> list[dict]:
    """Return the boots that are left and that the running kernel can make."""
    left = boots_left(record)
    if record['parameters']['engine'] != 'here':
        return left
    variant = engines.running_variant()
    return [boot for boot in left if boot['variant'] == variant]


def skipped(record: dict[str, Any]) -> list[str]:
    """Return a line for each reason for which cases were not run."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for boot in record['boots']:
        for one in boot['skipped']:
            names = found.setdefault((boot['workload'], boot['variant'], one['why']), [])
            names += [one['name']] * (one['name'] not in names)
    return [f'{workload}, {variant}: skipped {len(names)} cases, for example {names[0]}: {why}'
            for (workload, variant, why), names in found.items()]


def wrong_data(record: dict[str, Any]) -> list[str]:
    """Return a line for each place with wrong data."""
    return [f"{describe_boot(boot, record['parameters'])}: WRONG DATA in {one['name']}: {one['why']}"
            for boot in record['boots'] for one in boot['wrong']]


def report(record: dict[str, Any]) -> None:
    """Print the tables, and what is not in them."""
    params = record['parameters']
    known, heading = workloads.described(params), options.heading(params)
    print('\n'.join(stats.format_summary(record['summary'], known, heading)), flush=True)
    for line in skipped(record):
        PROGRAM.say(line)


PROGRAM = turns.Program(
    name='run-workload', results='workload',
    kernels=kernels, left=boots_left, possible=possible, once=once,
    describe=describe_boot, group=stem, stem=stem, outline=outline, notes=options.notes,
    summarise=stats.summarise, report=report, wrong=wrong_data, draw=plot.write,
    admit=check_running)


def main(argv: list[str]) -> int:
    params, args = options.parse_args(argv)
    if args.list:
        print('\n'.join(options.list_cases(params)))
        return 0
    return turns.run(PROGRAM, params, args.resume, not args.no_build)
