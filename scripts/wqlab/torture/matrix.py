# SPDX-License-Identifier: GPL-2.0
"""Run the torture test in one configuration after another.

Each kernel is built if necessary and booted. Then the test runs for --duration seconds.
Each run is recorded in build/torture/runs.json, as are the runs of `make torture`. At the
end, a table of all runs is printed and written to build/torture/runs.rst. A configuration
that does not build or boot counts as failed.

A configuration is skipped if it has already passed for at least --duration seconds, and the
workqueue and the test have not changed since. So an interrupted matrix can be continued.

exit status: 0 if all passed, 1 if one failed, 2 if the command line is wrong.
"""
import argparse
import dataclasses
import fnmatch
import textwrap

from wqlab import files, tables
from wqlab.kernels.kinds import VARIANTS, asked_linux
from wqlab.measure.options import number
from wqlab.steps import Failure, sayer, told
from wqlab.torture import run as torture
from wqlab.torture import runs as torture_runs

say = sayer('matrix')
NUMA = 'sockets=2,cores=2,nodes=2'
# own pools as soon as a CPU shares its pool
OWN = 'workqueue.own_pools=2'
PROGRESS_S = 20
VERDICT_WIDTH = 60      # in the table; runs.json has the complete text
COLUMNS = ('configuration', 'hours', 'operations', 'runs', 'CPUs down', 'attributes', 'masks', 'violations',
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


MATRIX = (
    Entry('uml', 'uml'),
    Entry('uml-up', 'uml', 'up', cpus=1),
    Entry('uml-debug', 'uml', 'debug'),
    Entry('uml-own', 'uml', append=OWN),
    Entry('uml-debug-own', 'uml', 'debug', append=OWN),
    Entry('qemu', 'qemu'),
    Entry('qemu-numa', 'qemu', topology=NUMA),
    Entry('qemu-own', 'qemu', topology=NUMA, append=OWN),
    # pods that are smaller than the cache
    Entry('qemu-own-smt', 'qemu', topology='cores=2,threads=2', append=OWN),
    Entry('qemu-rt-own', 'qemu', 'rt', topology=NUMA, append=OWN),
    Entry('qemu-kcsan-own', 'qemu', 'kcsan', append=OWN),
    # CPUs without memory, and memory without CPUs
    Entry('qemu-memless', 'qemu', topology=f'{NUMA},memless=1,cpuless=1'),
    # the last CPU is in no scheduling domain, runs no unbound work and gives its per-CPU work away
    Entry('qemu-isolated', 'qemu', topology='cores=3', append='isolcpus=domain,2 workqueue.offload_isolated=1'),
    # the tick of all CPUs but one stops while they have a single task to run
    Entry('qemu-nohz', 'qemu', topology='cores=4', append='nohz_full=1-3'),
    Entry('qemu-threadirqs', 'qemu', append='threadirqs'),
    Entry('qemu-preempt', 'qemu', 'preempt'),
    Entry('qemu-rt', 'qemu', 'rt'),
    Entry('qemu-kcsan', 'qemu', 'kcsan'),
    Entry('qemu-debug', 'qemu', 'debug'),
    Entry('arm64', 'arm64', topology='cores=4,llcs=2'),
)


# The runs

def folder_of(entry, variant):
    return torture.ROOT / f'build/{entry.engine}-{variant}-{entry.config}-{asked_linux()}'


def words_of(entry, variant):
    return torture_runs.words(folder_of(entry, variant), None, entry.topology, entry.append)


def has_passed(entry, variant, duration):
    return any(run.ok and run.configuration == words_of(entry, variant) and run.seconds >= duration
               and run.source == torture_runs.source() for run in torture_runs.load(torture.KEPT))


def run_one(entry, variant, duration):
    """Run one configuration. Return the run."""
    words = words_of(entry, variant)
    try:
        folder = torture.build(entry.engine, variant, entry.config)
        outcome = torture.torture(folder, engine=entry.engine, duration=duration, cpus=entry.cpus,
                                  topology=entry.topology or None, append=entry.append, dump=True,
                                  show=torture.with_time(lambda line: say(f'{entry.name}: {line[:110]}'), PROGRESS_S))
    except (Failure, OSError) as error:
        say(f'{entry.name}: {told(error)}')
        return torture_runs.Run.missing(words, folder_of(entry, variant).name, told(error))
    torture.report(outcome, folder)
    return torture_runs.Run.made(words, folder.name, duration, outcome)


def run_all(entries, variant, duration, again):
    """Run and record all entries. Return True if all passed."""
    good = True
    for place, entry in enumerate(entries, 1):
        if not again and has_passed(entry, variant, duration):
            say(f'{place}/{len(entries)} {entry.name}: has passed before, skipped')
            continue
        say(f'{place}/{len(entries)} {entry.name}: {words_of(entry, variant)}, {duration} s')
        run = run_one(entry, variant, duration)
        torture_runs.add(torture.KEPT, run)
        good &= run.ok
    return good


# The table

def rows(runs):
    """Yield a row for each configuration. It sums up the runs with the latest source of that configuration."""
    now = torture_runs.source()
    newest = {run.configuration: run.source for run in sorted(runs, key=lambda run: run.source == now)}
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


def print_table():
    """Print all recorded runs."""
    text = tables.rst(COLUMNS, rows(torture_runs.load(torture.KEPT)), range(1, len(COLUMNS) - 1))
    if OLDER in text:
        text += f'\n{OLDER}: the workqueue or the test has changed since.\n'
    print(text, end='', flush=True)
    files.write(torture.KEPT / 'runs.rst', text)


def known(pattern):
    """Return the pattern if it matches an entry."""
    if not fnmatch.filter(names := [entry.name for entry in MATRIX], pattern):
        raise argparse.ArgumentTypeError(f'{pattern!r} matches none of: {" ".join(names)}')
    return pattern


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--duration', type=number(1, 1 << 20), default=60, metavar='S',
                        help='seconds for each configuration; default: %(default)s')
    parser.add_argument('--variant', choices=VARIANTS, default='cmwq', help='default: %(default)s')
    parser.add_argument('--again', action='store_true', help='also run configurations that have passed')
    parser.add_argument('only', nargs='*', metavar='NAME', type=known,
                        help=f"as qemu-rt 'uml*', of {', '.join(entry.name for entry in MATRIX)}; default: all")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_args(argv)
    entries = [entry for entry in MATRIX
               if not args.only or any(fnmatch.fnmatch(entry.name, pattern) for pattern in args.only)]
    try:
        good = run_all(entries, args.variant, args.duration, args.again)
    finally:
        print_table()
    return 0 if good else 1
