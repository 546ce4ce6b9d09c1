# SPDX-License-Identifier: GPL-2.0
"""scripts/lab PROGRAM [ARGUMENT...]: the programs of this package, by name."""
import importlib
import os
import signal
import sys

from wqlab import procs
from wqlab.steps import Failure

PROGRAMS = {
    'base': ('kernels.base', 'get the base tree'),
    'tree': ('kernels.tree', 'lay the project over the base tree (make tree)'),
    'kernel': ('kernels.build', 'build one kernel (make kernel)'),
    'module': ('kernels.module', 'build the modules for another kernel (make module)'),
    'series': ('kernels.series', 'write patches for the base tree (make series)'),
    'check': ('kernels.check', 'run all checkers (make check)'),
    'clean': ('kernels.clean', 'remove what was built (make clean)'),
    'busybox': ('kernels.debian', 'get the one program of an arm64 guest'),
    'boot': ('guest.boot', 'a shell or a command in a kernel (make boot)'),
    'guest': ('guest.run', 'boot any kernel, run a command in it, keep its log'),
    'dump': ('guest.dump', 'look into a running guest from outside (dump-guest.sh)'),
    'pptt': ('guest.pptt', "write the ACPI table of an arm64 guest's caches"),
    'bench': ('bench.run', 'compare both variants (run-bench.sh)'),
    'plot': ('bench.plot', 'draw the pictures of a bench that was run'),
    'torture': ('torture.run', 'break the workqueues, or fail to (make torture)'),
    'basebugs': ('basebugs', 'show bugs of the base kernel that ours has not (make basebugs)'),
    'matrix': ('torture.matrix', 'torture in every configuration (make matrix)'),
}
USAGE = 'usage: scripts/lab PROGRAM [ARGUMENT...]\n\n' + '\n'.join(
    f'  {name:10}{what}' for name, (_, what) in PROGRAMS.items()) + '\n\n--help after a PROGRAM lists its arguments.'


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
    """main(), but quiet if the reader of our output has gone, as `head` does."""
    try:
        try:
            return main(argv)
        finally:
            print(end='', flush=True)
    except BrokenPipeError:
        # Python flushes once more on exit. Without this, that would fail with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == '__main__':
    sys.exit(run(sys.argv[1:]))
