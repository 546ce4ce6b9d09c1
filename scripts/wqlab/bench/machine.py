# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --machine: the options of a benchmark on a machine whose time is computed."""

from wqlab.simulated import machines
from wqlab.steps import Failure

# A simulated machine executes some 20 million instructions in a second of the host. So there are few items, all threads
# together.
ITEMS, FEWEST = 60000, 128
WARMUP = 300            # per thread; by then each CPU that needs a pool of its own has asked for it
BURN_TIME_US = 200_000
SLOWEST = 600, 20       # seconds to boot, and items per second


def resolve(parser, args):
    """Fill in what follows from the machine. The constants are kept, since its file may change."""
    args.engine = 'arm64'
    try:
        args.cpus = args.cpus or (max(args.sweep) if args.sweep else machines.load(args.machine).topology.cpus)
        for cpus in args.sweep or []:
            machines.load(args.machine, cpus)
        args.machine = machines.described(args.machine, args.cpus)
    except Failure as error:
        parser.error(str(error))


def items(cpus):
    """Return how many items each thread queues."""
    return max(ITEMS // cpus, FEWEST)


def heading(params):
    """Return the line that stands above each table and picture, or nothing if time was measured."""
    return [f"simulated: {params['machine']['about']}"] if params.get('machine') else []


def report(log):
    """Return where the guest says who waited for which line."""
    return log.with_suffix('.stalls')


def guest_options(params, boot, log, memory):
    """Return the options of `lab guest`. Each pair of boots has another seed."""
    return ['--machine', params['machine']['name'], '--report', str(report(log)), '--memory', str(memory),
            '--seed', str(boot['pair'] - 1)]
