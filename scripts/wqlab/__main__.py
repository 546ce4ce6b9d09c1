# SPDX-License-Identifier: GPL-2.0
"""scripts/lab PROGRAM [ARGUMENT...]: the programs of this package, by name."""
import importlib
import os
import signal
import sys

from wqlab import procs
from wqlab.steps import Failure, told

PROGRAMS = {
    'new': ('new', 'add a machine, a workload, a base, a parameter or a scope'),
    'base': ('kernels.base', 'get the base kernel tree'),
    'tree': ('kernels.tree', 'put our files and patches into a copy of the base tree (make tree)'),
    'kernel': ('kernels.build', 'build one kernel (make kernel)'),
    'hooks': ('kernels.hooks', 'find the places where our patches do not fit a kernel tree'),
    'module': ('kernels.module', 'build our modules for another kernel (make module)'),
    'dkms': ('dkms.package', 'make a Debian package of our modules for any kernel (make dkms)'),
    'deb': ('kernels.deb', 'make Debian packages of a kernel with our workqueue (make deb)'),
    'series': ('series.write', 'write the project as patches for the base tree (make series)'),
    'check': ('kernels.check', 'run all checkers (make check)'),
    'clean': ('kernels.clean', 'remove what was built (make clean)'),
    'boot': ('guest.boot', 'boot a kernel and run a shell or a command in it (make boot)'),
    'guest': ('guest.run', 'boot any kernel in a small guest and run a command in it'),
    'dump': ('guest.dump', 'inspect the memory of a running guest (dump-guest.sh)'),
    'stalls': ('simulated.stalls', 'show who waited for which cache line on a simulated machine'),
    'bench': ('bench.run', 'compare the speed of both variants (run-bench.sh)'),
    'figures': ('figures', 'write the tables of figures in README.md and the documents from results/'),
    'workload': ('workload.run', 'run real programs on both variants and compare them (run-workload.sh)'),
    'workload-inside': ('workload.inside', 'run the cases of one workload on this machine'),
    'advise': ('advise.run', 'advise which affinity scope this machine wants (advise.sh)'),
    'torture': ('torture.run', 'use the interface at random and look for violations (make torture)'),
    'basebugs': ('basebugs', 'show bugs of the base kernel that ours does not have (make basebugs)'),
    'matrix': ('torture.matrix', 'run the torture test in every configuration (make matrix)'),
}
USAGE = 'usage: scripts/lab PROGRAM [ARGUMENT...]\n\n' + '\n'.join(
    f'  {name:17}{what}' for name, (_, what) in PROGRAMS.items()) + (
    '\n\n`scripts/lab PROGRAM --help` lists the arguments of a program.')


def main(argv: list[str]) -> int:
    if argv and argv[0] in PROGRAMS:
        procs.end_on_signals()
        sys.argv[0] = f'lab {argv[0]}'
        try:
            return importlib.import_module('wqlab.' + PROGRAMS[argv[0]][0]).main(argv[1:])
        except Failure as error:
            print(f'{argv[0]}: {error}', file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    wrong = argv != ['--help']
    print(USAGE, file=sys.stderr if wrong else sys.stdout)
    return 2 if wrong else 0


def run(argv: list[str]) -> int:
    """
    main(), but quiet if the reader of our output has gone, as `head` does. An error of the system, such as a full disk,
    is one line. Any other exception is a bug in the script, and Python prints where.
    """
    try:
        try:
            return main(argv)
        finally:
            print(end='', flush=True)
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE
    except OSError as error:
        print(f'{argv[0]}: {told(error)}', file=sys.stderr)
        status = 1
    # Python flushes once more on exit. Without this, that could fail with a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


if __name__ == '__main__':
    sys.exit(run(sys.argv[1:]))
