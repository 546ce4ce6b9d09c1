# SPDX-License-Identifier: GPL-2.0
"""The command line of advise.sh."""
import argparse
import os
from collections.abc import Iterator
from typing import Any

from wqlab.advise import loads
from wqlab.bench.options import memory_for
from wqlab.kernels.kinds import TREE, VARIANTS
from wqlab.measure.options import (
    Useless,
    add_guest,
    names_of,
    number,
    number_list,
    refuse,
    resolve_cpus,
)
from wqlab.scopes import SCOPES

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

loads:
{chr(10).join(f'  {load.name:9}{load.what}' for load in loads.LOADS.values())}

It builds test_workqueue.ko for the running kernel (6.5 or later, headers installed; KDIR= names
another place), loads it, and lets a workqueue of its own run each load in each scope, again and
again, in short slices. This uses all CPUs. No other workqueue changes, and the module is removed at the end.

With --shard-sizes, the size of shards is changed for one slice at a time, and set back after each.
This changes the pods of all workqueues that use shards. Their items run as before. The kernel must be
able to change the size while it runs, as ours can. Without this option, no setting of the system is
changed. However this program ends, even if it is killed, the size is set back and the module is removed.

Results: build/advise/<UTC time>/results.json.
Exit status: 0 there is advice, which may be to leave everything as it is; 1 something failed; 2 wrong options;
130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='advise.sh', formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description='Measure, within ten minutes, which affinity scope this machine wants, what it gains over the '
                    'present default, and whether that matters.')
    what = parser.add_argument_group('what')
    what.add_argument('--loads', type=names_of(tuple(loads.LOADS), 'a load'), metavar='A,B,...',
                      help='see below (default: all)')
    what.add_argument('--scopes', type=names_of(SCOPES, 'an affinity scope'), metavar='A,B,...',
                      help='affinity scopes to compare with the default (default: all that the kernel has)')
    sizes = ','.join(map(str, SIZES))
    what.add_argument('--shard-sizes', type=number_list(1, 65536), nargs='?', const=list(SIZES),
                      metavar='N,...', help=f'also try these sizes of shards (without a list: {sizes}), if the kernel '
                      'can change them while it runs')
    how = parser.add_argument_group('how')
    how.add_argument('--minutes', type=number(0.01, MOST_MINUTES, float), default=MINUTES, metavar='N',
                     help=f'how long to measure (default {MINUTES}); building and first runs take about a minute more')
    how.add_argument('--slice-ms', type=number(1, 5000), default=SLICE_MS, metavar='N',
                     help=f'how long a run takes in the default scope (default {SLICE_MS})')
    how.add_argument('--threshold', type=number(1, 100), default=THRESHOLD, metavar='PERCENT',
                     help=f'smaller differences do not count (default {THRESHOLD})')
    where = parser.add_argument_group('where')
    where.add_argument('--module', metavar='FILE', help='use this test_workqueue.ko, and build none')
    where.add_argument('--engine', choices=('uml', 'qemu'), help='advise for a guest, not for this machine')
    add_guest(where, '2', '512M')
    where.add_argument('--variant', choices=VARIANTS,
                       help="of the guest's kernel: cmwq is ours (the default), base is the base kernel's")
    where.add_argument('--no-build', action='store_true', help='use what is built, do not build')
    return parser


def useless(args: argparse.Namespace) -> Iterator[Useless]:
    """Yield (whether it applies, options, why they have no effect then)."""
    yield not args.engine, OF_GUESTS, 'this machine is advised without --engine'
    yield args.engine, ['module'], 'a guest has the module of its kernel'
    yield args.variant == 'base', ['shard_sizes'], 'the base kernel can change the size of shards only at boot'


def refuse_variables(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    for name in ('KDIR',) if args.engine else TREE:
        if os.environ.get(name):
            parser.error(f'{name}= is for ' + ('this machine: leave --engine out' if args.engine else
                                               'guests: add --engine'))


def of_guest(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what wqlab.bench.seat wants to know of a guest."""
    resolve_cpus(parser, args)
    if args.loads and not any(loads.LOADS[name].cpus <= args.cpus for name in args.loads):
        parser.error(f'--loads {",".join(args.loads)}: needs more CPUs than {args.cpus}')
    args.mem = args.mem or memory_for(args.cpus)
    args.variant = args.variant or VARIANTS[0]
    args.icount, args.accel = False, None       # the accelerator is determined after the kernel is built
    args.boot_timeout = round(60 * args.minutes) + SPARE_S


def parse_args(argv: list[str]) -> tuple[dict[str, Any], bool]:
    """Return the parameters, and whether to build."""
    parser = build_parser()
    args = parser.parse_args(argv)
    refuse(parser, args, useless(args))
    refuse_variables(parser, args)
    if args.engine:
        of_guest(args, parser)
    params = vars(args)
    return params, not params.pop('no_build')
