# SPDX-License-Identifier: GPL-2.0
"""What scripts/run-workload.sh runs: see --help. The modules are listed in __init__.py."""
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wqlab import procs
from wqlab.bench import record as bench_record
from wqlab.bench import turns
from wqlab.bench.boot import BootError, Build
from wqlab.bench.options import VARIANTS
from wqlab.bench.record import RecordError
from wqlab.paths import ROOT
from wqlab.simulated import root
from wqlab.steps import locked
from wqlab.workload import engines, options, plot, stats, workloads
from wqlab.workload import record as workload_record

RESULTS = ROOT / 'build' / 'workload'
Builds = dict[str, Build]


def describe_boot(boot: dict, params: dict) -> str:
    return f"pair {boot['pair']} of {params['pairs']}, {boot['workload']}, {boot['variant']}"


def stem(boot: dict) -> str:
    return f"{boot['pair']:03d}-{boot['workload']}-{boot['variant']}"


def outline(entry: dict) -> str:
    words = [f"{len(entry['runs'])} cases", *([f"{len(entry['skipped'])} skipped"] if entry['skipped'] else []),
             *(['WRONG DATA'] if entry['wrong'] else [])]
    return ', '.join(words)


PROGRAM = turns.Program('run-workload', 'scripts/lab workload-plot', describe_boot, stem, stem, outline,
                        stats.summarise, plot.write)
say, shown = PROGRAM.say, turns.shown


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


def install(params: dict[str, Any]) -> None:
    """Install what the workloads need: here, or in a simulated guest."""
    more = {'ENGINE': 'arm64'} if params.get('machine') else {'CONFIG': 'workload'}
    environment = {**os.environ, **more}
    if procs.run([ROOT / 'scripts/deps.sh'], env=environment):
        raise BootError('could not install what the workloads need: see the lines above')


def prepare_builds(params: dict[str, Any], build: bool, held: contextlib.ExitStack) -> Builds:
    """Return the kernels of a run. With --here there are none."""
    if build:
        install(params)
        if params.get('machine'):
            root.programs()
    if params['engine'] == 'here':
        return {}
    variants = [params['variant']] if params['variant'] else VARIANTS
    builds = {variant: Build(ROOT, params['engine'], variant, 'workload', module=None) for variant in variants}
    return turns.prepare(PROGRAM, builds, build, held)


def check_running(record: dict[str, Any]) -> None:
    """With --here: note the running kernel in the record, or raise RecordError if it cannot continue the record."""
    if os.geteuid():
        raise RecordError('--here needs root: it makes disks and mounts file systems')
    variant, kernel = engines.running_variant(), engines.running_kernel()
    if record['parameters']['variant'] not in (None, variant):
        raise RecordError(f"the running kernel is {variant}, not {record['parameters']['variant']}: "
                          'leave --variant out, or boot another kernel')
    if record['kernels'].setdefault(variant, kernel) != kernel:
        raise RecordError(f'this run has measured another {variant} kernel: start a new run')


def begin(params: dict[str, Any], build: bool, held: contextlib.ExitStack) -> tuple[turns.Results, Builds]:
    builds = prepare_builds(params, build, held)
    if builds:
        params['accel'] = engines.accelerator(params, next(iter(builds.values())))
    record = bench_record.new_record(params, ROOT, builds)
    if params['engine'] == 'here':
        check_running(record)
    folder = bench_record.new_folder(RESULTS)
    bench_record.save(record, folder)
    return turns.Results(PROGRAM, record, folder), builds


def load(folder: Path) -> dict[str, Any]:
    return bench_record.load(folder, *workload_record.SHAPES)


def resume(where: str, held: contextlib.ExitStack) -> tuple[turns.Results, Builds]:
    folder = Path(where) if where else bench_record.find_unfinished(RESULTS, load)
    record = load(folder)
    if record['complete']:
        raise RecordError(f'{folder} is complete: there is nothing to resume')
    bench_record.check_same_machine(record['parameters'])
    builds = prepare_builds(record['parameters'], False, held)
    bench_record.check_same_kernels(record, builds)
    if record['parameters']['engine'] == 'here':
        check_running(record)
    return turns.Results(PROGRAM, record, folder), builds


def once(params: dict[str, Any], builds: Builds) -> turns.Once:
    """Return the function that makes one boot."""
    def make(boots: list[dict], logs: list[Path], tick: Callable[[float, str], None]) -> list[dict]:
        return [engines.run_boot(builds.get(boot['variant']), params, boot, log, tick)
                for boot, log in zip(boots, logs, strict=True)]
    return make


def possible(record: dict[str, Any]) -> list[dict]:
    """Return the boots that are left and that the running kernel can make."""
    left = boots_left(record)
    if record['parameters']['engine'] != 'here':
        return left
    variant = engines.running_variant()
    return [boot for boot in left if boot['variant'] == variant]


def measure(results: turns.Results, builds: Builds) -> int:
    """Make the remaining boots. Return the exit status."""
    params = results.record['parameters']
    for line in options.notes(params):
        say(f'note: {line}')
    say(f'results go to {shown(results.folder)}/')
    status = turns.make(results, possible(results.record), once(params, builds), builds)
    if not status and not boots_left(results.record):
        results.complete()
    return status


def skipped(record: dict[str, Any]) -> list[str]:
    """Return a line for each reason for which cases were not run."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for boot in record['boots']:
        for one in boot['skipped']:
            names = found.setdefault((boot['workload'], boot['variant'], one['why']), [])
            names += [one['name']] * (one['name'] not in names)
    return [f'{workload}, {variant}: skipped {len(names)} cases, for example {names[0]}: {why}'
            for (workload, variant, why), names in found.items()]


def complaints(record: dict[str, Any]) -> list[str]:
    """Return a line for each place with wrong data, and for each boot with kernel warnings or no results."""
    lines = [f"{describe_boot(boot, record['parameters'])}: WRONG DATA in {one['name']}: {one['why']}"
             for boot in record['boots'] for one in boot['wrong']]
    return lines + turns.failures(PROGRAM, record)


def report(record: dict[str, Any]) -> bool:
    """Print the tables and what went wrong. Return True if nothing did."""
    params = record['parameters']
    known, heading = workloads.described(params), options.heading(params)
    print('\n'.join(stats.format_summary(record['summary'], known, heading)), flush=True)
    for line in skipped(record):
        say(line)
    bad = complaints(record)
    for line in bad:
        say(f'FAILED: {line}')
    return not bad


def finish(results: turns.Results, status: int) -> int:
    good = report(results.record) if results.record['boots'] else True
    waiting = results.record['parameters']['engine'] == 'here' and not possible(results.record)
    if not waiting or results.record['complete']:
        return turns.finish(results, status, good)
    other, = {boot['variant'] for boot in boots_left(results.record)}
    say(f'to compare it with the {other} kernel, boot that and run: '
        f'scripts/run-workload.sh --resume {shown(results.folder)}')
    return status or (0 if results.draw() and good and not results.unsaved else 1)


def main(argv: list[str]) -> int:
    params, args = options.parse_args(argv)
    if args.list:
        print('\n'.join(options.list_cases(params)))
        return 0
    signal.signal(signal.SIGTERM, turns.on_term)
    try:
        # computed figures do not depend on what else runs
        with locked('measurement', shared=bool(params.get('machine'))), contextlib.ExitStack() as held:
            results, builds = resume(args.resume, held) if args.resume is not None else \
                begin(params, not args.no_build, held)
            status = measure(results, builds)
    except (BootError, RecordError) as error:
        say(f'{error}')
        return 1
    except KeyboardInterrupt:
        say('interrupted')
        return 130
    return finish(results, status)
