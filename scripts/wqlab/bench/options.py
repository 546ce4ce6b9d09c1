# SPDX-License-Identifier: GPL-2.0
"""The command line of the benchmark: parse and check it, and derive other parameters from it."""

import argparse

from wqlab.bench import machine, parse
from wqlab.kernels.kinds import VARIANTS
from wqlab.measure import options as measure_options
from wqlab.measure import stats
from wqlab.measure.options import add_guest, add_rest, add_variant, names_of, number, number_list
from wqlab.scopes import FEW
from wqlab.scopes import SCOPES as KERNEL_SCOPES
from wqlab.simulated import machines

SCOPES = ('default', *KERNEL_SCOPES)
# Emulation is slower by an order of magnitude. Fewer items give the same figures.
ITEMS = {'uml': 50000, 'qemu': 10000, 'arm64': 10000}
REPEATS = {'uml': 8, 'qemu': 4, 'arm64': 4}
PAIRS = 5
BATCH = 32
MEMORY = {16: '512M', 256: '2G', 512: '4G'}     # that a guest with up to so many CPUs gets
FEWEST = 200            # items of a thread in a sweep
BURN_US = 100
BURNING = ('spread', 'mixed')
WARMUP = 100            # items that each thread queues before the clock starts
WITH_FLOOR = ('latency', 'batch')       # modes in which items are as short as a round trip of the floor
SLEEPING = ('mixed',)
IDLE_TOO = 'ns: of the guest, one for each instruction; it also has idle time, since items sleep'
BURN_TIME_US = 1_000_000    # of all items in a run, unless --items says how many there are
MOST_CPUS = 255         # x86 has no x2APIC if it is emulated, and the firmware of arm64 does not start with 512
# Of other kinds, the module refuses scopes. It also knows which kinds a mode can have.
WITH_SCOPES = ('unbound', 'unbound_highpri')
NEED_CPUS = ('roam', 'spread')     # with --icount, too: one of them runs at a time
# The slowest guest that does not hang: seconds to boot, and items per second.
SLOWEST = {'uml': (60, 5000), 'qemu': (180, 500), 'arm64': (300, 500)}

EPILOG = """\
modes: a thread queues items, waits until all of them ran, and begins anew
  latency  one item
  batch    --batch items; how long every 17th waits is recorded, as in latency, roam and limit
  burst    one thread queues --batch items at once; how long each waits is recorded, and the makespan
           of a round
  spread   as burst, but each item uses a CPU for --burn-us; the number of CPUs on which the items
           start is recorded, too
  mixed    every second item sleeps for --burn-us, the others use a CPU that long; a timer on the
           CPU of each thread queues a probe on a workqueue of high priority
  roam     --batch items, queued from another CPU each time; the rate includes the moves of the thread
  limit    --batch items, and --max-active of the workqueue is less, so that items wait for a slot

Documentation/core-api/workqueue-benchmark.rst has examples, and says how to read the tables.
Results: build/bench/<UTC time>/results.json, plot.png, plot.svg, logs/.
Exit status: 0 success; 1 a promise was broken, a kernel reported a problem, or something
failed; 2 wrong options; 130 interrupted.
"""


def places(params):
    """Return {place: variant}: the guests of a pair. With --gate, one variant takes both places."""
    if params.get('gate'):
        return dict.fromkeys(VARIANTS, params['variant'] or VARIANTS[0])
    return {variant: variant for variant in VARIANTS if params['variant'] in (None, variant)}


def names(params):
    """Return {place: its name in tables and plots}."""
    if not params.get('gate'):
        return stats.NAMES
    first, second = VARIANTS
    if params.get('append_cmwq'):
        return {first: 'with', second: 'without'}
    return {first: stats.NAMES[params['variant'] or first], second: 'again'}


def floor_of(params):
    """Return the rows of the floor. All but one need a second CPU."""
    if not params.get('floor'):
        return []
    return list(parse.FLOOR) if params['cpus'] > 1 else ['same']


def of_floor(params):
    """Return the parameters of a pass for a row of the floor."""
    return {**params, 'mode': 'floor', 'wq': 'none', 'strict': False, 'max_active': None}


def of_boot(params, boot):
    """Return the parameters of a boot, which depend on its CPUs if there is a sweep."""
    if not params.get('sweep'):
        return params
    mine = argparse.Namespace(**{**params, 'cpus': boot['cpus']})
    complete(mine)
    return vars(mine)


def warmup(params):
    if params['mode'] in BURNING:
        return params['batch']
    return machine.WARMUP if params.get('machine') else WARMUP


def unit(params):
    """Return what a nanosecond of the guest is with --icount, for the tables, or None."""
    if not params['icount']:
        return None
    return 'ns' if params['mode'] in SLEEPING else 'insns'


def rate(params):
    """Return (metric, label) of the panel that shows how fast items are."""
    if not params['icount']:
        return 'items_per_s', 'items/s (higher is better)'
    what = 'instructions' if unit(params) == 'insns' else 'ns of the guest'
    return 'ns_per_item', f'{what} per item (lower is better)'


def build_parser():
    parser = argparse.ArgumentParser(
        prog='run-bench.sh', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Boot our workqueue and the base kernel\'s in turn and compare them, '
                    'scope by scope.', epilog=EPILOG)
    where = parser.add_argument_group('where')
    where.add_argument('--engine', choices=tuple(ITEMS),
                       help='uml: native speed, no cache topology; qemu: x86_64 with a topology; arm64: the same for '
                            'arm64, emulated (default uml)')
    where.add_argument('--machine', metavar='NAME',
                       help=f'simulate the time of this machine: {", ".join(machines.known())}, or a file.toml; '
                            'workqueue-simulated.rst says how, and how far to trust it')
    add_guest(where, '2, or those of --topology or --machine', '512M, or more for more than 16 CPUs')
    where.add_argument('--sweep', type=number_list(1, 512), metavar='N,N,...',
                       help='compare both variants and the floor with each of these numbers of CPUs, all in one LLC, '
                            'or in as many LLCs of --machine as they fill')
    where.add_argument('--icount', action='store_true',
                       help='qemu or arm64 with one CPU, where an instruction counts as one nanosecond; in the modes '
                            f'roam and spread with up to {MOST_CPUS} CPUs, which take turns')
    what = parser.add_argument_group('what')
    add_variant(what)
    what.add_argument('--gate', action='store_true',
                      help='boot one variant (default cmwq) in both places, to see how far the ratios can be trusted')
    what.add_argument('--append-cmwq', metavar='ARGS', default='',
                      help='more kernel parameters for the guest of our workqueue; with --gate, for the first of the '
                           'two, to compare one kernel with and without them')
    what.add_argument('--floor', action='store_true',
                      help='also measure round trips of two threads without a workqueue (modes latency and batch; '
                           '--sweep does so by itself)')
    what.add_argument('--mode', choices=tuple(parse.MODES), default='latency', help='see below (default latency)')
    what.add_argument('--wq', choices=parse.KINDS, default='unbound',
                      help='kind of workqueue (default unbound); highpri is a per-CPU one; '
                           'only unbound and unbound_highpri have scopes')
    what.add_argument('--batch', type=number(1, 65536), metavar='N',
                      help=f'items in flight per thread, except in latency mode (default {BATCH}, in spread mode '
                           'at least 4 for each CPU)')
    what.add_argument('--burn-us', type=number(1, 100000), metavar='N',
                      help=f'microseconds that an item takes in the modes spread and mixed (default {BURN_US})')
    what.add_argument('--max-active', type=number(1, 65536), metavar='N',
                      help='of the workqueue (default: the kernel\'s, in limit mode a quarter of --batch)')
    what.add_argument('--scopes', type=names_of(SCOPES, 'an affinity scope'), metavar='A,B,...',
                      help='affinity scopes (default: all; cpu, cache_shard and system with --sweep)')
    what.add_argument('--strict', action='store_true',
                      help='make the scopes strict, and check where each item runs')
    what.add_argument('--threads', type=number(0, 1024), default=0, metavar='N',
                      help='submitting threads (default 0: one per CPU, or just one in the modes burst and spread)')
    how = parser.add_argument_group('how much')
    how.add_argument('--pairs', type=number(1, 1000), metavar='N',
                     help=f'boots of each variant and number of CPUs (default {PAIRS}, 2 with --sweep, '
                          '1 with --machine, where each pair has another seed)')
    how.add_argument('--items', type=number(1, 10000000), metavar='N',
                     help='items per thread and run (default uml 50000, qemu 10000; with --sweep, all '
                          'threads together queue twice as many; in the modes spread and mixed, as many as take about '
                          f'a second of CPU time; with --machine {machine.ITEMS} of all threads, or '
                          f'{machine.BURN_TIME_US // 1000} ms)')
    how.add_argument('--repeats', type=number(1, 1000), metavar='N',
                     help='runs of each scope in one boot (default uml 8, qemu 4, --icount and --machine 1)')
    add_rest(parser.add_argument_group('other'))
    return parser


def useless(args):
    """Yield (whether it applies, options, why they have no effect then)."""
    one_cpu = args.icount and args.mode not in NEED_CPUS
    yield (args.sweep, ['cpus', 'topology', *(['icount'] if one_cpu else [])],
           '--sweep sets the number of CPUs')
    yield (args.machine, ['topology', 'icount', *(['engine'] if args.engine != 'arm64' else [])],
           '--machine simulates an arm64 machine')
    yield args.variant == 'base', ['append_cmwq'], '--variant base has no guest of our workqueue'
    yield (one_cpu, ['topology', *(['cpus'] if args.cpus != 1 else [])],
           f'--icount has one CPU in --mode {args.mode}')
    yield args.icount and args.engine == 'uml', ['engine'], '--icount uses QEMU'


def resolve_cpus(parser, args):
    """Fill in the number of CPUs, and refuse what cannot be with it."""
    if args.icount and args.mode not in NEED_CPUS:
        args.cpus = 1
    if args.machine:
        machine.resolve(parser, args)
    if args.sweep:
        args.cpus = max(args.sweep)
    measure_options.resolve_cpus(parser, args, 'sweep' if args.sweep else 'cpus')
    if args.icount and args.cpus > MOST_CPUS:
        parser.error(f'--icount emulates a machine that has at most {MOST_CPUS} CPUs')
    if args.mode in NEED_CPUS and min(args.sweep or [args.cpus]) == 1:
        parser.error(f'--mode {args.mode} needs more than one CPU')


def resolve(parser, args):
    """Fill in defaults that depend on other options, and refuse conflicting options."""
    measure_options.refuse(parser, args, useless(args))
    args.engine = args.engine or ('qemu' if args.icount else 'uml')
    resolve_cpus(parser, args)
    args.floor = args.floor or bool(args.sweep and args.mode in WITH_FLOOR)
    args.mem = args.mem or memory_for(args.cpus)
    args.pairs = args.pairs or (1 if args.machine else 2 if args.sweep else PAIRS)
    args.scopes = args.scopes or (['default'] if args.wq not in WITH_SCOPES else list(FEW) if args.sweep else None)
    args.burn_us = args.burn_us or BURN_US
    # A second run of a scope would say the same where time does not depend on the host.
    args.repeats = args.repeats or (1 if args.icount or args.machine else REPEATS[args.engine])
    if not args.sweep:
        complete(args)
    args.boot_timeout = max(time_limit(argparse.Namespace(**of_boot(vars(args), {'cpus': cpus})))
                            for cpus in args.sweep or [args.cpus])


def memory_for(cpus):
    """Return how much memory a guest gets."""
    return next(mem for most, mem in MEMORY.items() if cpus <= most)


def complete(args):
    """Fill in defaults that depend on the number of CPUs. In a sweep, they differ from boot to boot."""
    args.batch = args.batch or (max(BATCH, 4 * args.cpus) if args.mode == 'spread' else BATCH)
    args.items = args.items or default_items(args)


def default_items(args):
    """Return how many items each thread queues. Those that burn are whole rounds, at least one."""
    if args.mode not in BURNING and args.machine:
        return machine.items(args.cpus)
    if args.mode not in BURNING:
        return max(2 * ITEMS[args.engine] // args.cpus, FEWEST) if args.sweep else ITEMS[args.engine]
    threads = args.threads or (1 if args.mode == 'spread' else args.cpus)
    rounds = (machine.BURN_TIME_US if args.machine else BURN_TIME_US) // (args.burn_us * args.batch * threads)
    return args.batch * max(rounds, 1)


def time_limit(args):
    """Return how many seconds a boot may take."""
    boot, rate = machine.SLOWEST if args.machine else SLOWEST[args.engine]
    if args.mode in BURNING:
        rate = min(rate, 1_000_000 // args.burn_us)
    guests = 1 if args.icount or args.machine else len(places(vars(args)))     # each waits for the others
    runs = args.repeats * len([*(args.scopes or SCOPES), *floor_of(vars(args))])
    return guests * (boot + runs * args.items * (args.threads or args.cpus) // rate)


def parse_args(argv):
    """Return (parameters, resume, build). resume is None, a folder, or '' for the latest run."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.resume is not None:
        measure_options.refuse_more(parser, args)
    else:
        resolve(parser, args)
    params = vars(args)
    params['accel'] = None      # determined after the kernels are built
    resume, build = params.pop('resume'), not params.pop('no_build')
    return params, resume, build
