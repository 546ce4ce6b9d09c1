# SPDX-License-Identifier: GPL-2.0
"""Torture the workqueues in one configuration after the other.

Each kernel is built if need be, booted, and tortured for --duration seconds. Each run
is noted in build/torture/runs.json, with those of `make torture`, and in the end a
table of them is printed and written to build/torture/runs.rst. A configuration that
does not build or boot is a failure like any other.

A configuration that has passed for at least as long, with the workqueue and the test as
they are now, is not run again. So an interrupted matrix goes on where it was.

exit status: 0 all passed; 1 one did not; 2 for a wrong call.
"""
import argparse
import dataclasses
import fnmatch
import sys
import textwrap
import time

from wqlab import files, tables
from wqlab.guest import run as guest
from wqlab.torture import run as torture
from wqlab.torture import runs as torture_runs

NUMA = 'sockets=2,cores=2,nodes=2'
PROGRESS_S = 20
VERDICT_WIDTH = 60      # of the table; runs.json has all of it
COLUMNS = ('configuration', 'hours', 'operations', 'runs', 'CPU down/up', 'attributes', 'masks', 'violations',
           'verdict')
OLDER = '(older)'


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    engine: str
    config: str = 'release'
    topology: str = ''
    cpus: int | None = None
    append: str = ''
    params: str = ''


MATRIX = (
    Entry('uml', 'uml'),
    Entry('uml-up', 'uml', 'up', cpus=1),
    Entry('uml-debug', 'uml', 'debug'),
    Entry('qemu', 'qemu'),
    Entry('qemu-numa', 'qemu', topology=NUMA),
    # CPUs without memory, and memory without CPUs
    Entry('qemu-memless', 'qemu', topology=f'{NUMA},memless=1,cpuless=1'),
    # the last CPU is in no scheduling domain, and unbound work keeps away from it
    Entry('qemu-isolated', 'qemu', topology='cores=3', append='isolcpus=domain,2'),
    Entry('qemu-threadirqs', 'qemu', append='threadirqs'),
    Entry('qemu-preempt', 'qemu', 'preempt'),
    Entry('qemu-rt', 'qemu', 'rt'),
    Entry('qemu-kcsan', 'qemu', 'kcsan'),
    Entry('qemu-debug', 'qemu', 'debug'),
    Entry('arm64', 'arm64', topology='cores=4,llcs=2'),
)


def say(text):
    print(f'matrix: {text}', file=sys.stderr, flush=True)


class Progress:
    """Prints a line every PROGRESS_S seconds, and each violation at once."""

    def __init__(self, name):
        self.name, self.begin, self.next = name, time.monotonic(), 0

    def write(self, line):
        now = time.monotonic()
        if '!!!' in line or now >= self.next and 'wqtorture: ' in line:
            say(f'{self.name}: {now - self.begin:.0f} s: {line.strip()[:110]}')
            self.next = now + PROGRESS_S

    def flush(self):
        pass


# The runs

def folder_of(entry, variant):
    return torture.ROOT / f'build/{entry.engine}-{variant}-{entry.config}-7.3'


def words_of(entry, variant):
    return torture_runs.words(folder_of(entry, variant), None, entry.topology, entry.append, entry.params)


def has_passed(entry, variant, duration):
    return any(run.ok and run.configuration == words_of(entry, variant) and run.seconds >= duration
               and run.source == torture_runs.source() for run in torture_runs.load(torture.KEPT))


def run_one(entry, variant, duration):
    """The run as it is noted; whether it could be."""
    words = words_of(entry, variant)
    try:
        folder = torture.build(entry.engine, variant, entry.config)
        outcome = torture.torture(folder, engine=entry.engine, duration=duration, cpus=entry.cpus,
                                  topology=entry.topology or None, append=entry.append, more=entry.params,
                                  stream=Progress(entry.name), dump=True)
    except (guest.GuestError, OSError) as error:
        say(f'{entry.name}: {error}')
        run = torture_runs.Run.missing(words, torture_runs.now(), folder_of(entry, variant).name, str(error))
    else:
        torture.report(outcome, folder)
        run = torture.made(outcome, folder, words, duration)
    return run, torture.note(run)


def run_all(entries, variant, duration, again, made):
    """True when nothing broke and all is noted; what is run is added to `made`."""
    good = True
    for number, entry in enumerate(entries, 1):
        if not again and has_passed(entry, variant, duration):
            say(f'{number}/{len(entries)} {entry.name}: has passed')
            continue
        say(f'{number}/{len(entries)} {entry.name}: {words_of(entry, variant)}, {duration} s')
        run, noted = run_one(entry, variant, duration)
        made.append(run)
        good &= run.ok and noted
    return good


# The table

def rows(runs):
    """A row for each configuration, of its runs with the newest source that it was run with."""
    newest = {run.configuration: run.source for run in runs if run.source == torture_runs.source()}
    for run in runs:
        if newest.get(run.configuration) != torture_runs.source():
            newest[run.configuration] = run.source
    for configuration in newest:
        yield row(configuration, [run for run in runs if run.configuration == configuration
                                  and run.source == newest[configuration]])


def row(configuration, runs):
    total = {name: sum(getattr(run, name) for run in runs) for name in ('seconds', *torture_runs.FIGURES)}
    bad = [run for run in runs if not run.ok]
    verdict = f'{len(bad)} of {len(runs)} failed: {bad[-1].verdict}' if bad else f'{len(runs)} passed'
    verdict = textwrap.shorten(verdict, VERDICT_WIDTH, placeholder=' ...')
    if runs[0].source != torture_runs.source():
        verdict += f' {OLDER}'
    counts = ('operations', 'runs', 'hotplug', 'attrs', 'masks', 'violations')
    return (configuration, f'{total["seconds"] / 3600:.2f}', *(f'{total[name]:,}' for name in counts), verdict)


def print_table(made=()):
    """All runs that are noted, and those made now that could not be; False if the table could not be written, too."""
    try:
        runs = torture_runs.load(torture.KEPT)
    except torture_runs.RunsError as error:
        say(error)
        runs = []
    runs += [run for run in made if run not in runs]
    if not runs:
        print('no run is noted')
        return True
    text = tables.rst(COLUMNS, rows(runs), range(1, len(COLUMNS) - 1))
    if OLDER in text:
        text += f'\n{OLDER}: the workqueue or the test has changed since.\n'
    print(text, end='', flush=True)
    try:
        files.write(torture.KEPT / 'runs.rst', text)
    except OSError as error:
        say(f'the table is not in {torture.short(torture.KEPT)}/runs.rst: {error}')
        return False
    return True


def picked(patterns):
    """The entries that are named; raises for a pattern that names none."""
    for pattern in patterns:
        if not any(fnmatch.fnmatch(entry.name, pattern) for entry in MATRIX):
            raise guest.GuestError(f'{pattern!r} is none of: {" ".join(entry.name for entry in MATRIX)}')
    return [entry for entry in MATRIX if not patterns or any(fnmatch.fnmatch(entry.name, p) for p in patterns)]


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--duration', type=torture.positive, default=60, metavar='S',
                        help='of each; default: %(default)s')
    parser.add_argument('--variant', choices=('cmwq', 'base'), default='cmwq', help='default: %(default)s')
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument('--again', action='store_true', help='also those that have passed')
    mode.add_argument('--list', action='store_true', help='print the configurations, and leave')
    mode.add_argument('--table', action='store_true', help='print the table of all runs so far, and leave')
    parser.add_argument('only', nargs='*', metavar='NAME', help="these, e.g. qemu-rt 'uml*'; default: all")
    args = parser.parse_args(argv)
    if args.table and args.only:
        parser.error('--table prints all runs: leave the names out')
    return args


def main(argv=None):
    args = parse_args(argv)
    made = []
    try:
        entries = picked(args.only)
        if args.list:
            for entry in entries:
                print(f'{entry.name:16} {words_of(entry, args.variant)}')
            return 0
        if args.table:
            return 0 if print_table() else 1
        good = run_all(entries, args.variant, args.duration, args.again, made)
    except (guest.GuestError, torture_runs.RunsError) as error:
        say(error)
        status = 2
    except (KeyboardInterrupt, SystemExit) as end:  # SIGTERM is the latter
        say('interrupted')
        status = end.code if isinstance(end, SystemExit) else 130
    else:
        return 0 if print_table(made) and good else 1
    if made:
        print_table(made)
    return status
