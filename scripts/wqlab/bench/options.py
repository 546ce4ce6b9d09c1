# SPDX-License-Identifier: GPL-2.0
"""Command line of the benchmark: parsing, checking, and what follows from it."""

import argparse
import os

from wqlab.guest import GuestError, topology

SCOPES = ('default', 'cpu', 'smt', 'cache', 'cache_shard', 'numa', 'system')
VARIANTS = ('cmwq', 'base')
# Emulation is slower by an order of magnitude; fewer items give the same figures.
ITEMS = {'uml': 50000, 'qemu': 10000}
REPEATS = {'uml': 2, 'qemu': 1}
BATCH = 32
# Seconds to boot and items per second of the slowest guest that does not hang.
SLOWEST = {'uml': (60, 5000), 'qemu': (180, 500)}

EXAMPLES = """\
examples:
  scripts/run-bench.sh                                  UML, 2 CPUs, 5 pairs of boots
  scripts/run-bench.sh --mode batch --scopes cpu,cache,system
  scripts/run-bench.sh --engine qemu --topology sockets=1,cores=8,threads=2,llcs=2,nodes=1 --pairs 2
  scripts/run-bench.sh --engine qemu --cpus 16 --shard-size 4,8,16 --pairs 2
  scripts/run-bench.sh --icount                         instructions per item, free of noise
  scripts/run-bench.sh --resume                         go on with the newest unfinished run

p50 and p99 time the call of queue_work(), not how long an item waits before it runs.

Results: build/bench/<UTC time>/results.json, plot.png, plot.svg, logs/.
Exit status: 0 clean, 1 a promise was broken, a kernel complained or something
failed, 2 bad options, 130 interrupted.
"""


def number(low, high):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f'"{text}" is not a number') from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f'{value} is not between {low} and {high}')
        return value
    return parse


def number_list(low, high):
    parse_one = number(low, high)

    def parse(text):
        values = [parse_one(part) for part in text.split(',')]
        if len(set(values)) != len(values):
            raise argparse.ArgumentTypeError(f'"{text}" holds a value twice')
        return values
    return parse


def scope_list(text):
    names = text.split(',')
    for name in names:
        if name not in SCOPES:
            raise argparse.ArgumentTypeError(
                f'"{name}" is not an affinity scope: choose from {", ".join(SCOPES)}')
    if len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f'"{text}" holds a scope twice')
    return names


def understood_by(parse):
    """An option's type that is what a guest understands."""
    def checked(text):
        try:
            return parse(text)
        except GuestError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return checked


def memory(text):
    topology.megabytes(text)
    return text


def build_parser():
    parser = argparse.ArgumentParser(
        prog='run-bench.sh', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Boot our workqueue and the base kernel\'s in turn and compare them, '
                    'scope by scope.', epilog=EXAMPLES)
    where = parser.add_argument_group('where')
    where.add_argument('--engine', choices=('uml', 'qemu'),
                       help='uml: native speed, no cache topology; qemu: x86_64 with a '
                            'topology (default uml)')
    where.add_argument('--cpus', type=number(1, 512), metavar='N',
                       help='CPUs of the guest (default 2, or those of --topology)')
    where.add_argument('--topology', type=understood_by(topology.parse), metavar='KEY=N,...',
                       help='qemu only; `scripts/lab guest --help` explains it')
    where.add_argument('--mem', type=understood_by(memory), metavar='SIZE', default='512M',
                       help='guest memory (default 512M)')
    where.add_argument('--icount', action='store_true',
                       help='qemu with one CPU that counts instructions as nanoseconds')
    what = parser.add_argument_group('what')
    what.add_argument('--variant', choices=VARIANTS,
                      help='only this one: cmwq is ours, base the kernel\'s own (default both)')
    what.add_argument('--mode', choices=('latency', 'batch'), default='latency',
                      help='latency: one item in flight per thread; batch: --batch of them '
                           '(default latency)')
    what.add_argument('--batch', type=number(1, 65536), metavar='N',
                      help=f'items in flight per thread in batch mode (default {BATCH})')
    what.add_argument('--scopes', type=scope_list, metavar='A,B,...',
                      help='affinity scopes (default: all, or cache_shard with --shard-size)')
    what.add_argument('--strict', action='store_true',
                      help='strict scopes; where each item runs is checked')
    what.add_argument('--shard-size', type=number_list(1, 65536), metavar='N,...',
                      help='boot with each of these cache_shard sizes; qemu only')
    what.add_argument('--threads', type=number(0, 1024), default=0, metavar='N',
                      help='submitting threads (default 0: one per CPU)')
    how = parser.add_argument_group('how much')
    how.add_argument('--pairs', type=number(1, 1000), default=5, metavar='N',
                     help='boots of each variant and shard size (default 5)')
    how.add_argument('--items', type=number(1, 10000000), metavar='N',
                     help='items per thread and run (default uml 50000, qemu 10000)')
    how.add_argument('--repeats', type=number(1, 1000), metavar='N',
                     help='runs of each scope in one boot (default uml 2, qemu 1)')
    how.add_argument('--boot-timeout', type=number(10, 86400), metavar='S',
                     help='seconds for one boot with all its runs (default: from the items)')
    rest = parser.add_argument_group('other')
    rest.add_argument('--no-build', action='store_true', help='take the kernels as they are built')
    rest.add_argument('--resume', nargs='?', const='', metavar='DIR',
                      help='go on with an interrupted run, with its options (default: the newest)')
    return parser


def refuse_nonsense(parser, args):
    """Options that would change nothing, or something else than the record would say."""
    if args.batch and args.mode != 'batch':
        parser.error('--batch needs --mode batch')
    args.batch = args.batch or BATCH
    if args.icount and args.shard_size:
        parser.error('--icount has one CPU, which is one shard whatever --shard-size is')
    if args.shard_size and args.scopes and not {'default', 'cache_shard'}.intersection(args.scopes):
        parser.error('--shard-size changes nothing in these --scopes: add cache_shard')
    if args.engine == 'qemu' or args.icount:
        return
    if args.shard_size:
        parser.error('--shard-size needs --engine qemu: on UML each CPU is a shard, whatever the size')
    host = len(os.sched_getaffinity(0))
    if args.cpus and args.cpus > host:
        parser.error(f'--cpus {args.cpus}: UML has no more CPUs than this machine, {host}; use --engine qemu')
    if not args.topology:
        args.cpus = args.cpus or min(2, host)


def resolve(parser, args):
    """Fill in what other options imply, and refuse what does not go together."""
    if args.icount:
        if args.engine == 'uml' or args.topology or args.cpus not in (None, 1):
            parser.error('--icount is QEMU with one CPU: leave --engine, --cpus and --topology out')
        args.engine, args.cpus = 'qemu', 1
    args.engine = args.engine or 'uml'
    if args.topology and args.engine == 'uml':
        parser.error('--topology needs --engine qemu: UML has none')
    try:
        args.cpus = topology.complete(args.topology or {}, args.cpus).cpus
    except GuestError as error:
        parser.error(str(error))
    args.scopes = args.scopes or (['cache_shard'] if args.shard_size else None)
    args.items = args.items or ITEMS[args.engine]
    args.repeats = args.repeats or REPEATS[args.engine]
    args.boot_timeout = args.boot_timeout or default_timeout(args)


def default_timeout(args):
    boot, rate = SLOWEST[args.engine]
    runs = args.repeats * len(args.scopes or SCOPES)
    return boot + runs * args.items * (args.threads or args.cpus) // rate


def warnings(params):
    """What the user may not expect from these parameters."""
    cores = os.cpu_count() or 1
    if params['cpus'] > cores:
        yield (f"{params['cpus']} guest CPUs on {cores} cores: figures say more about the "
               f"host's scheduler than about the workqueue")
    load = os.getloadavg()[0]
    if load > 2 * cores and not params['icount']:
        yield (f'this machine is busy (load {load:.0f}, {cores} cores): figures will vary; '
               '--icount does not mind')


def parse_args(argv):
    """(parameters, resume, build): resume is None, '' for the newest, or a folder."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.resume is not None:
        expected = parser.parse_args([])
        expected.resume = args.resume
        if args != expected:
            parser.error('--resume goes on with the options of that run: give no others')
    else:
        refuse_nonsense(parser, args)
        resolve(parser, args)
    params = vars(args)
    params['accel'] = None      # found out once the kernels are built
    resume, build = params.pop('resume'), not params.pop('no_build')
    return params, resume, build
