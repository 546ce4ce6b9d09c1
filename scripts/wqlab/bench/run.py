# SPDX-License-Identifier: GPL-2.0
"""The benchmark that scripts/run-bench.sh runs: see --help.

options.py  the command line          parse.py  the output of a boot
boot.py     builds and boots          stats.py  medians, ratios, the table
record.py   results.json, resuming    plot.py   the plots
"""

import signal
import subprocess
import sys
from pathlib import Path

from wqlab.bench import boot as bench_boot
from wqlab.bench import options as bench_options
from wqlab.bench import parse as bench_parse
from wqlab.bench import plot as bench_plot
from wqlab.bench import record as bench_record
from wqlab.bench import stats as bench_stats
from wqlab.paths import ROOT

RESULTS = ROOT / 'build' / 'bench'
# If a boot fails, it is tried again: it says nothing about speed. Each failure is reported and recorded.
ATTEMPTS = 2


def say(text):
    print(f'run-bench: {text}', file=sys.stderr, flush=True)


def shown(path):
    """Return a path relative to the repository if it lies inside, else unchanged."""
    path = Path(path).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def prepare_builds(params, build):
    variants = [params['variant']] if params['variant'] else bench_options.VARIANTS
    builds = {variant: bench_boot.Build(ROOT, params['engine'], variant) for variant in variants}
    if build and subprocess.run([str(ROOT / 'scripts/deps.sh')], check=False).returncode:
        raise bench_boot.BootError('could not install what the benchmark needs: see the lines above')
    for one in builds.values():
        if build:
            say(f'building the {one.variant} kernel for {one.engine}')
            one.make(ROOT)
        one.check()
    return builds


class Results:
    """The files of a run. If the disk is full, the remaining boots and the table are still made."""

    def __init__(self, record, folder):
        self.record, self.folder = record, folder
        self.record.setdefault('failed_boots', [])
        self.unsaved = None     # the error because of which results.json is not up to date

    def save(self):
        try:
            bench_record.save(self.record, self.folder)
        except OSError as error:
            if not self.unsaved:
                say(f'{shown(self.folder)}/results.json cannot be written ({error}): continuing without it')
            self.unsaved = error
        else:
            self.unsaved = None

    def draw(self):
        """Draw the plots. Return True if that succeeded."""
        folder = shown(self.folder)
        try:
            bench_plot.write(self.record, self.folder)
        except KeyboardInterrupt:
            say('interrupted: the plots were not drawn')
            return False
        except Exception as error:  # matplotlib may be missing, or raise anything
            say(f'FAILED: the plots could not be drawn ({type(error).__name__}: {error}); '
                f'to draw them later: scripts/lab plot {folder}')
            return False
        print(f'\nresults: {folder}/results.json, plot.png, plot.svg')
        return True


def begin(params, build):
    builds = prepare_builds(params, build)
    params['accel'] = bench_boot.accelerator(params, next(iter(builds.values())))
    record = bench_record.new_record(params, ROOT, builds)
    folder = bench_record.new_folder(RESULTS)
    bench_record.save(record, folder)
    return Results(record, folder), builds


def resume(where):
    folder = Path(where) if where else bench_record.find_unfinished(RESULTS)
    record = bench_record.load(folder)
    if record['complete']:
        raise bench_record.RecordError(f'{folder} is complete: there is nothing to resume')
    builds = prepare_builds(record['parameters'], build=False)
    bench_record.check_same_kernels(record, builds)
    return Results(record, folder), builds


def describe_boot(boot, params):
    size = '' if boot['shard_size'] is None else f", shard size {boot['shard_size']}"
    return f"pair {boot['pair']} of {params['pairs']}, {boot['variant']}{size}"


class Progress:
    """Reports which boot of how many runs, its results, and how much time is left."""

    def __init__(self, params, total):
        self.params, self.total, self.count, self.seconds = params, total, 0, 0.0
        self.label = ''

    def start(self, boot):
        self.count += 1
        left = ''
        if self.count > 1:
            rest = self.seconds / (self.count - 1) * (self.total - self.count + 1)
            left = f', about {rest:.0f} s left'
        self.label = f'[{self.count}/{self.total}] {describe_boot(boot, self.params)}'
        say(f'{self.label}: booting{left}')

    def run(self, seconds, run):
        newest = f", {run['scope']} {run['items_per_s']:,} items/s" if run else ''
        say(f'{self.label}: {seconds:.0f} s{newest}')

    def done(self, entry):
        self.seconds += entry['seconds']
        rates = ', '.join(f"{run['scope']} {run['items_per_s'] / 1000:,.0f}k"
                          for run in entry['runs'] if run['repeat'] == 1)
        say(f"{self.label}: {entry['seconds']:.0f} s; items/s: {rates}")


def log_path(folder, boot, attempt):
    size = '' if boot['shard_size'] is None else f"-shard{boot['shard_size']}"
    again = '' if attempt == 1 else f'-attempt{attempt}'
    return folder / 'logs' / f"{boot['pair']:03d}-{boot['variant']}{size}{again}.log"


def boot_with_retry(boot, results, builds, progress):
    params = results.record['parameters']
    for attempt in range(1, ATTEMPTS + 1):
        log = log_path(results.folder, boot, attempt)
        try:
            return bench_boot.run_boot(ROOT, builds[boot['variant']], params, boot, log,
                                       progress.run)
        except bench_boot.BootError as error:
            results.record['failed_boots'].append({**boot, 'attempt': attempt, 'error': str(error)})
            results.save()
            if attempt == ATTEMPTS:
                raise
            say(f'{progress.label}: {error}; trying once more')
    raise AssertionError('no attempt was made')


def run_boots(results, builds):
    record = results.record
    left = bench_record.boots_left(record)
    progress = Progress(record['parameters'], len(left))
    for boot in left:
        progress.start(boot)
        entry = boot_with_retry(boot, results, builds, progress)
        progress.done(entry)
        record['boots'].append(entry)
        record['summary'] = bench_stats.summarise(record['boots'])
        results.save()
    record['complete'] = True
    record['finished'] = bench_record.utc_now().isoformat(timespec='seconds')
    results.save()


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
        what = describe_boot(boot, record['parameters'])
        if boot['violations']:
            kinds = {key: sum(run[key] for run in boot['runs']) for key in bench_parse.VIOLATIONS}
            text = ', '.join(f'{count} {key}' for key, count in kinds.items() if count)
            lines.append(f'{what}: the contract was broken: {text}')
        if boot['trouble']:
            lines.append(f"{what}: the kernel reported problems ({len(boot['trouble'])} lines), first: "
                         f"{boot['trouble'][0]}")
    for boot in record['failed_boots']:
        lines.append(f"{describe_boot(boot, record['parameters'])}, attempt {boot['attempt']}: "
                     f"{boot['error']}")
    return lines


def report(record):
    """Print the table and what went wrong. Return True if nothing did."""
    print('\n'.join(bench_stats.format_summary(record['summary'], record['parameters']['icount'])), flush=True)
    for line in lacking_scopes(record):
        say(line)
    bad = complaints(record)
    for line in bad:
        say(f'FAILED: {line}')
    return not bad


def on_term(signum, frame):
    raise KeyboardInterrupt


def measure(results, builds):
    """Run the remaining boots. Return the exit status."""
    for line in bench_options.warnings(results.record['parameters']):
        say(f'note: {line}')
    say(f'results go to {shown(results.folder)}/')
    try:
        run_boots(results, builds)
    except (bench_boot.BootError, OSError) as error:
        say(f'{error}')
        return 1
    except KeyboardInterrupt:
        say('interrupted')
        return 130
    return 0


def main(argv):
    params, where, build = bench_options.parse_args(argv)
    signal.signal(signal.SIGTERM, on_term)
    try:
        results, builds = begin(params, build) if where is None else resume(where)
    except (bench_boot.BootError, bench_record.RecordError, OSError) as error:
        say(f'{error}')
        return 1
    except KeyboardInterrupt:
        say('interrupted')
        return 130
    status = measure(results, builds)
    record, folder = results.record, shown(results.folder)
    if record['boots'] and not report(record):
        status = status or 1
    if results.unsaved:
        say(f'FAILED: {folder}/results.json is not complete: {results.unsaved}')
        status = status or 1
    if not record['complete']:
        say(f'to continue: scripts/run-bench.sh --resume {folder}')
    elif not results.draw():
        status = status or 1
    return status
