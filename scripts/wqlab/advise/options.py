# SPDX-License-Identifier: GPL-2.0
"""The command line of advise.sh."""
import argparse
import os
from typing import Any

from wqlab.advise import loads, pods
from wqlab.bench import options as bench_options
from wqlab.guest import GuestError, topology
from wqlab.kernels.kinds import TREE

MINUTES, SLICE_MS, THRESHOLD = 8, 150, 5
SIZES = (2, 4, 8, 16, 32)
MOST_MINUTES = 120
SPARE_S = 900       # for a guest to boot, and for the first runs
OF_GUESTS = ('cpus', 'topology', 'mem', 'variant')

EPILOG = f"""\
examples:
  scripts/advise.sh                                  advise for this machine (root; loads a module)
  scripts/advise.sh --loads batch,spread             only what you care for
  scripts/advise.sh --shard-sizes 2,4,16             try sizes of shards, too: see below
  scripts/advise.sh --engine uml                     try it in a guest
  scripts/advise.sh --engine qemu --topology sockets=2,cores=4,nodes=2
  scripts/advise.sh --resume                         continue the latest unfinished run

loads:
{chr(10).join(f'  {load.name:9}{load.what}' for load in loads.LOADS.values())}

It builds test_workqueue.ko for the running kernel (6.5 or later, headers installed; KDIR= names
another place), loads it, and lets a workqueue of its own run each load in each scope, again and
again, in short slices. This uses all CPUs. No other workqueue changes, and the module is removed at the end.

With --shard-sizes, the size of shards is changed for one slice at a time, and set back after each.
This changes the pods of all workqueues that use shards. Their items run as before. The kernel must be
able to change the size while it runs, as ours can. Without this option, no setting of the system is
changed. However this program ends, even if it is killed, the size is set back and the module is removed.

Results: build/advise/<UTC time>/results.json, plot.png, plot.svg.
Exit status: 0 there is advice, which may be to leave everything as it is; 1 something failed; 2 wrong options;
130 interrupted.
"""


def minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number') from None
    if not 0.01 <= value <= MOST_MINUTES:
        raise argparse.ArgumentTypeError(f'{text} is not between 0.01 and {MOST_MINUTES}')
    return value


def names_of(known: tuple[str, ...], what: str) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(',')
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f'"{name}" is not {what}: choose from {", ".join(known)}')
        if len(set(names)) != len(names):
            raise argparse.ArgumentTypeError(f'"{text}" contains a name twice')
        return [name for name in known if name in names]
    return parse


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='advise.sh', formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description='Measure, within ten minutes, which affinity scope this machine wants, what it gains over the '
                    'present default, and whether that matters.')
    what = parser.add_argument_group('what')
    what.add_argument('--loads', type=names_of(tuple(loads.LOADS), 'a load'), metavar='A,B,...',
                      help='see below (default: all)')
    what.add_argument('--scopes', type=names_of(pods.SCOPES, 'an affinity scope'), metavar='A,B,...',
                      help='affinity scopes to compare with the default (default: all that the kernel has)')
    sizes = ','.join(map(str, SIZES))
    what.add_argument('--shard-sizes', type=bench_options.number_list(1, 65536), nargs='?', const=list(SIZES),
                      metavar='N,...', help=f'also try these sizes of shards (without a list: {sizes}), if the kernel '
                      'can change them while it runs')
    how = parser.add_argument_group('how')
    how.add_argument('--minutes', type=minutes, default=MINUTES, metavar='N',
                     help=f'how long to measure (default {MINUTES}); building and first runs take about a minute more')
    how.add_argument('--slice-ms', type=bench_options.number(1, 5000), default=SLICE_MS, metavar='N',
                     help=f'how long a run takes in the default scope (default {SLICE_MS})')
    how.add_argument('--threshold', type=bench_options.number(1, 100), default=THRESHOLD, metavar='PERCENT',
                     help=f'smaller differences do not count (default {THRESHOLD})')
    where = parser.add_argument_group('where')
    where.add_argument('--module', metavar='FILE', help='use this test_workqueue.ko, and build none')
    where.add_argument('--engine', choices=('uml', 'qemu'), help='advise for a guest, not for this machine')
    where.add_argument('--cpus', type=bench_options.number(1, 512), metavar='N', help='CPUs of the guest (default 2)')
    where.add_argument('--topology', type=bench_options.understood_by(topology.parse), metavar='KEY=N,...',
                       help='qemu only; `scripts/lab guest --help` explains it')
    where.add_argument('--mem', type=bench_options.understood_by(bench_options.memory), metavar='SIZE',
                       help='memory of the guest (default 512M)')
    where.add_argument('--variant', choices=bench_options.VARIANTS,
                       help="of the guest's kernel: cmwq is ours (the default), base is the base kernel's")
    where.add_argument('--no-build', action='store_true', help='use the kernel or module that is there, build none')
    rest = parser.add_argument_group('other')
    rest.add_argument('--resume', nargs='?', const='', metavar='DIR',
                      help='continue an interrupted run with its options (default: the latest)')
    rest.add_argument('--report', metavar='DIR', help='print the advice of an earlier run again, and draw its plots')
    return parser


def refuse_nonsense(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    given = [name for name in OF_GUESTS if getattr(args, name)]
    if given and not args.engine:
        parser.error(f'--{given[0]} is for guests: add --engine')
    if args.module and args.engine:
        parser.error('--module is for this machine: a guest has the module of its kernel')
    if args.topology and args.engine == 'uml':
        parser.error('--topology needs --engine qemu: UML has no topology')
    if args.shard_sizes and args.variant == 'base':
        parser.error('--shard-sizes: the base kernel can change the size only at boot')
    for name in ('KDIR',) if args.engine else TREE:
        if os.environ.get(name) and args.resume is None and args.report is None:
            parser.error(f'{name}= is for ' + ('this machine: leave --engine out' if args.engine else
                                               'guests: add --engine'))
    host = len(os.sched_getaffinity(0))
    if args.engine == 'uml' and (args.cpus or 1) > host:
        parser.error(f'--cpus {args.cpus}: UML cannot have more CPUs than this machine ({host}): use --engine qemu')


def refuse_more(parser: argparse.ArgumentParser, args: argparse.Namespace, option: str) -> None:
    """Refuse options beside one that takes those of an earlier run."""
    expected = parser.parse_args([])
    setattr(expected, option, getattr(args, option))
    if args != expected:
        parser.error(f'--{option} uses the options of that run: give no other options')


def of_guest(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what wqlab.bench.seat wants to know of a guest."""
    if args.engine == 'uml':
        args.cpus = args.cpus or min(2, len(os.sched_getaffinity(0)))
    try:
        args.cpus = topology.complete(args.topology or {}, args.cpus).cpus
    except GuestError as error:
        parser.error(str(error))
    if args.loads and not any(loads.LOADS[name].cpus <= args.cpus for name in args.loads):
        parser.error(f'--loads {",".join(args.loads)}: needs more CPUs than {args.cpus}')
    args.mem = args.mem or bench_options.memory_for(args.cpus)
    args.variant = args.variant or bench_options.VARIANTS[0]
    args.icount, args.accel = False, None       # the accelerator is determined after the kernel is built
    args.boot_timeout = round(60 * args.minutes) + SPARE_S


def parse_args(argv: list[str]) -> tuple[dict[str, Any], str | None, str | None, bool]:
    """Return (parameters, folder to resume or '' for the latest, folder to report, build)."""
    parser = build_parser()
    args = parser.parse_args(argv)
    for option in ('resume', 'report'):
        if getattr(args, option) is not None:
            refuse_more(parser, args, option)
    refuse_nonsense(parser, args)
    if args.engine:
        of_guest(args, parser)
    params = vars(args)
    return params, params.pop('resume'), params.pop('report'), not params.pop('no_build')
