# SPDX-License-Identifier: GPL-2.0
"""The benchmark that scripts/run-bench.sh runs: see --help.

options.py  the command line          parse.py    the output of a boot
boot.py     builds and boots          stats.py    medians, ratios, the first table
seat.py     guests in turn            waits.py    the table of waits
record.py   results.json, resuming    summary.py  both tables, and what they mean
turns.py    groups of boots, shared   floor.py    the table of what is above the floor
            with run-workload.sh      plot.py     the plots
machine.py  --machine, its options    simulated.py  and its guests
why.py      what CPUs waited for      sweep.py    the plots over numbers of CPUs
life.py     --mode life
"""

import contextlib
import os
import signal
from pathlib import Path

from wqlab import procs
from wqlab.bench import boot as bench_boot
from wqlab.bench import options as bench_options
from wqlab.bench import parse as bench_parse
from wqlab.bench import plot as bench_plot
from wqlab.bench import record as bench_record
from wqlab.bench import seat, simulated, turns, why
from wqlab.bench import stats as bench_stats
from wqlab.bench import summary as bench_summary
from wqlab.paths import ROOT
from wqlab.steps import locked

RESULTS = ROOT / 'build' / 'bench'


def prepare_builds(params, build, held):
    builds = {place: bench_boot.Build(ROOT, params['engine'], variant)
              for place, variant in bench_options.places(params).items()}
    if build and procs.run([ROOT / 'scripts/deps.sh'], env={**os.environ, 'ENGINE': params['engine']}):
        raise bench_boot.BootError('could not install what the benchmark needs: see the lines above')
    return turns.prepare(PROGRAM, builds, build, held)


def begin(params, build, held):
    builds = prepare_builds(params, build, held)
    params['accel'] = bench_boot.accelerator(params, next(iter(builds.values())))
    record = bench_record.new_record(params, ROOT, builds)
    folder = bench_record.new_folder(RESULTS)
    bench_record.save(record, folder)
    return turns.Results(PROGRAM, record, folder), builds


def resume(where, held):
    folder = Path(where) if where else bench_record.find_unfinished(RESULTS)
    record = bench_record.load(folder, bench_record.BENCH, bench_record.RESUMED)
    if record['complete']:
        raise bench_record.RecordError(f'{folder} is complete: there is nothing to resume')
    bench_record.check_same_machine(record['parameters'])
    builds = prepare_builds(record['parameters'], False, held)
    bench_record.check_same_kernels(record, builds)
    return turns.Results(PROGRAM, record, folder), builds


def describe_boot(boot, params):
    size = '' if boot['shard_size'] is None else f", shard size {boot['shard_size']}"
    size += f", {boot['cpus']} CPUs" if boot.get('cpus') else ''
    return f"pair {boot['pair']} of {params['pairs']}, {boot['variant']}{size}"


def stem(boot):
    size = '' if boot['shard_size'] is None else f"-shard{boot['shard_size']}"
    size += f"-cpus{boot['cpus']}" if boot.get('cpus') else ''
    return f"{boot['pair']:03d}-{boot['variant']}{size}"


def outline(entry):
    return seat.outline([run for run in entry['runs'] if run['repeat'] == 1])


def group(boot):
    return boot['pair'], boot['shard_size'], boot.get('cpus')


PROGRAM = turns.Program('run-bench', 'scripts/lab plot', describe_boot, group, stem, outline, bench_summary.summarise,
                        bench_plot.write)
say, shown = PROGRAM.say, turns.shown


def once(results, builds):
    """Return the function that makes the boots of a group."""
    params = results.record['parameters']

    def make(boots, logs, tick):
        if params.get('machine'):
            return simulated.play(ROOT, builds, params, boots, logs, tick)
        if not params['icount']:
            return seat.play(ROOT, builds, params, boots, logs, tick)
        # With icount, a guest that waits for orders does not sleep but uses a whole CPU. So boot them one by one.
        return [entry for boot, log in zip(boots, logs, strict=True)
                for entry in seat.play(ROOT, builds, params, [boot], [log], tick)]
    return make


def lacking_scopes(record):
    """Return a line for each scope that a kernel does not have."""
    lacking = {(boot['variant'], scope) for boot in record['boots']
               for scope in boot['passed_over']}
    return [f'the {variant} kernel has no scope {scope}: it was skipped'
            for variant, scope in sorted(lacking)]


def complaints(record):
    """Return a line for each boot with violations, kernel warnings, or no results."""
    lines = []
    for boot in record['boots']:
        if boot['violations']:
            kinds = {key: sum(run[key] for run in boot['runs']) for key in bench_parse.VIOLATIONS}
            text = ', '.join(f'{count} {key}' for key, count in kinds.items() if count)
            lines.append(f"{describe_boot(boot, record['parameters'])}: the contract was broken: {text}")
    return lines + turns.failures(PROGRAM, record)


def report(record):
    """Print the table and what went wrong. Return True if nothing did."""
    params, names = record['parameters'], bench_options.names(record['parameters'])
    print('\n'.join(bench_summary.lines(record['summary'], params, names) + why.lines(record)), flush=True)
    if params.get('gate') and not params.get('append_cmwq') and all(row.get('ratio') for row in record['summary']):
        say(bench_stats.gate(record['summary'], 'items_per_s'))
    for line in lacking_scopes(record):
        say(line)
    bad = complaints(record)
    for line in bad:
        say(f'FAILED: {line}')
    return not bad


def measure(results, builds):
    """Run the remaining boots. Return the exit status."""
    for line in bench_options.warnings(results.record['parameters']):
        say(f'note: {line}')
    say(f'results go to {shown(results.folder)}/')
    status = turns.make(results, bench_record.boots_left(results.record), once(results, builds), builds)
    if not status:
        results.complete()
    return status


def main(argv):
    params, where, build = bench_options.parse_args(argv)
    signal.signal(signal.SIGTERM, turns.on_term)
    try:
        # computed figures do not depend on what else runs
        with locked('measurement', shared=bool((params or {}).get('machine'))), contextlib.ExitStack() as held:
            results, builds = begin(params, build, held) if where is None else resume(where, held)
            status = measure(results, builds)
    except (bench_boot.BootError, bench_record.RecordError) as error:
        say(f'{error}')
        return 1
    except KeyboardInterrupt:
        say('interrupted')
        return 130
    good = report(results.record) if results.record['boots'] else True
    return turns.finish(results, status, good)
