# SPDX-License-Identifier: GPL-2.0
"""The command line of run-workload.sh."""
import argparse
import os
from collections.abc import Iterable, Iterator
from typing import Any

from wqlab.kernels.kinds import TREE
from wqlab.measure.options import (
    Useless,
    add_guest,
    add_rest,
    add_variant,
    number,
    refuse,
    refuse_more,
    resolve_cpus,
    warnings,
)
from wqlab.simulated import machines
from wqlab.steps import Failure
from wqlab.workload import cases, disks, engines, simulated, workloads

# of a set: (pairs of boots, seconds for each case)
AMOUNT = {'quick': (2, 0.5), 'default': (3, 1.0)}
SHORTEST, SHORTEST_REAL = 0.005, 0.1        # seconds; the second one if time is measured
EPILOG = """\
workloads:
{workloads}

Documentation/core-api/workqueue-workloads.rst has examples, and says what is run and how to read the tables.
Results: build/workload/<UTC time>/results.json, plot.png, plot.svg, logs/.
Exit status: 0 success; 1 data was wrong, a kernel reported a problem, or something failed;
2 wrong options; 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    listed = '\n'.join(f'  {one.name:12}{one.what}' for one in workloads.ALL.values())
    parser = argparse.ArgumentParser(
        prog='run-workload.sh', formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run real programs on our workqueue and the base kernel's in turn, verify their data, and "
                    'compare them, case by case.', epilog=EPILOG.format(workloads=listed))
    parser.add_argument('workloads', nargs='*', metavar='NAME', help='workloads (default: all but endure)')
    where = parser.add_argument_group('where')
    where.add_argument('--engine', choices=('uml', 'qemu'),
                       help='uml: native speed, no caches; qemu: x86_64 with a topology (default uml)')
    where.add_argument('--machine', metavar='NAME',
                       help=f'simulate the time of this machine: {", ".join(machines.known())}, or a file.toml; the '
                            'figures do not depend on this computer')
    where.add_argument('--here', action='store_true', help='this machine, with the kernel that runs now; needs root')
    add_guest(where, '2, or those of --topology', '1536M')
    what = parser.add_argument_group('what')
    add_variant(what)
    what.add_argument('--quick', action='store_true', help='fewer and shorter cases')
    what.add_argument('--cases', action='append', default=[], metavar='PATTERN',
                      help='run the cases whose names match this shell pattern, of all that --list prints; may be '
                           'repeated')
    what.add_argument('--append-cmwq', metavar='ARGS', default='',
                      help='more kernel parameters for the guests of our workqueue')
    what.add_argument('--list', action='store_true', help='print the names of all cases and which sets have them')
    how = parser.add_argument_group('how much')
    how.add_argument('--pairs', type=number(1, 1000), metavar='N',
                     help='boots of each variant and workload (default 3, quick 2)')
    how.add_argument('--seconds', type=number(SHORTEST, 3600, float), metavar='S',
                     help='time for each case, about (default 1, quick 0.5)')
    rest = parser.add_argument_group('other')
    rest.add_argument('--spoil', choices=tuple(disks.SPOIL),
                      help='make disks change bytes (corrupt) or keep older data (stale): the run has to fail')
    add_rest(rest)
    return parser


def check_names(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    known = workloads.known(vars(args))
    for name in args.workloads:
        if name not in known:
            parser.error(f'there is no workload "{name}"{" on a simulated machine" * bool(args.machine)}: '
                         f'choose from {", ".join(known)}')
    if len(set(args.workloads)) != len(args.workloads):
        parser.error('a workload is named twice')


def resolve_machine(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Fill in what follows from the machine. Its constants are kept, since its file may change."""
    try:
        args.machine = machines.described(args.machine)
    except Failure as error:
        parser.error(str(error))
    args.engine, args.cpus = 'arm64', args.machine['constants']['cpus']
    args.mem = args.mem or f'{2048 + 24 * args.cpus}M'
    args.pairs, args.seconds = args.pairs or 1, args.seconds or simulated.SECONDS


def useless(args: argparse.Namespace) -> Iterator[Useless]:
    """Yield (whether it applies, options, why they have no effect then)."""
    yield (args.machine, ('engine', 'here', 'cpus', 'topology', 'spoil'),
           '--machine says what there is, and measures nothing')
    yield (args.here, ('engine', 'cpus', 'topology', 'mem', 'append_cmwq'),
           '--here uses this machine as it is, with the kernel that runs')
    yield args.variant == 'base', ['append_cmwq'], '--variant base has no guest of our workqueue'


def resolve(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Fill in the engine, the CPUs and the memory, and refuse conflicting options."""
    refuse(parser, args, useless(args))
    if args.machine:
        return resolve_machine(parser, args)
    if args.seconds and args.seconds < SHORTEST_REAL:
        parser.error(f'--seconds {args.seconds:g}: must be at least {SHORTEST_REAL:g} without --machine')
    if args.here:
        for name in filter(os.environ.get, TREE):
            parser.error(f'--here uses the running kernel: leave {name}= out')
        args.engine, args.cpus = 'here', len(os.sched_getaffinity(0))
        return
    args.engine, args.mem = args.engine or 'uml', args.mem or '1536M'
    resolve_cpus(parser, args)


def with_cases(parser: argparse.ArgumentParser, params: dict[str, Any], unnamed: Iterable[str]) -> list[str]:
    """Return the workloads of a run: those named, or else `unnamed`. Refuse one without cases: it measures nothing."""
    found = [name for name in params['workloads'] or unnamed if engines.chosen(params, name)]
    for name in params['workloads'] or ['any workload'] * (not found):
        if name not in found:
            parser.error(f'no case of {name} matches {" ".join(params["cases"])}: --list prints their names')
    return found


def list_cases(params: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each case: its name, the smallest set that has it, and whether its workload has to be named."""
    for name in params['workloads']:
        one = workloads.known(params)[name]
        every = one.names(params['cpus'])
        sets = {case: chosen for chosen in reversed(cases.SETS) for case in cases.of_set(one, every, chosen)}
        shown = cases.matching(every, params['cases'] or ['*'])
        named = ', only if named' if one.only_if_named else ''
        yield from (f'{name:12}{case:44}{sets.get(case, "-")}{named}' for case in shown)


def params_of(args: argparse.Namespace) -> dict[str, Any]:
    chosen = 'quick' if args.quick else 'default'
    pairs, each = AMOUNT[chosen]
    left_out = ('quick', 'list', 'here', 'resume', 'no_build')
    return {**{name: value for name, value in vars(args).items() if name not in left_out}, 'set': chosen,
            'pairs': args.pairs or pairs, 'seconds': args.seconds or each,
            'accel': None}      # determined after the kernels are built


def parse_args(argv: list[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """Return the parameters of a run, and what to do: resume (None, a folder, or '' for the latest), list, no_build."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.resume is not None:
        refuse_more(parser, args)
    check_names(parser, args)
    resolve(parser, args)
    params = params_of(args)
    known = workloads.known(params)
    params['workloads'] = with_cases(parser, params, known if args.list else
                                     [name for name in known if name in workloads.UNNAMED])
    return params, args


def heading(params: dict[str, Any]) -> str:
    """Return what stands before each heading, or nothing if time was measured."""
    return f"simulated, {params['machine']['about']}: " if params.get('machine') else ''


def notes(params: dict[str, Any]) -> list[str]:
    """Return what these parameters cannot show, and what may spoil the figures."""
    found = engines.limits(params)
    if params.get('append_cmwq'):
        found.append(f"ours is booted with {params['append_cmwq']}")
    if params['engine'] == 'here' or params.get('machine'):
        return found
    return [*found, *warnings(params)]
