# SPDX-License-Identifier: GPL-2.0
"""Run the cases of one workload on this machine, and print a line for each: see lines.py.

run-workload.sh calls this in its guests, and here with --here. It needs root, and uses
/dev/ram0, a loop device, the device mapper, nfsd and network namespaces.
"""
import argparse
import errno
import os
import platform
import tempfile
from contextlib import AbstractContextManager

from wqlab.guest.engines.engine import folder_for_memory
from wqlab.steps import Failure
from wqlab.workload import cases, disks, lines, machine, workloads
from wqlab.workload.cases import Lacking, Place, Wrong

# What a file system says after it has noticed that its disk is wrong: an error, or that it cannot be written any more.
DAMAGED = (errno.EIO, errno.EUCLEAN, errno.EROFS)


def run_case(place: Place, case: str, seconds: float) -> int:
    """Run a case. Return how many have figures: 1 or 0."""
    try:
        unit, figures = place.measure(case, seconds)
    except Lacking as error:
        lines.emit('skip', name=case, why=str(error))
        return 0
    except Wrong as error:
        raise Wrong(f'{case}: {error}') from None
    lines.emit('case', name=case, unit=unit, figures={key: round(value, 3) for key, value in figures.items()})
    return 1


def run_group(name: str, members: list[str], opened: AbstractContextManager[Place], seconds: float) -> int:
    """Run the cases of a group. Wrong data ends the group. Return how many have figures."""
    done = 0
    try:
        with opened as place:
            for case in members:
                done += run_case(place, case, seconds)
            place.check_again()
    except Lacking as error:
        for case in members:
            lines.emit('skip', name=case, why=str(error))
    except Wrong as error:
        lines.emit('wrong', name=name, why=str(error))
    except OSError as error:
        if error.errno not in DAMAGED:
            raise Failure(str(error)) from None
        lines.emit('wrong', name=name, why=f'its files cannot be used: {error}')
    return done


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('workload', choices=tuple(workloads.ALL))
    parser.add_argument('--set', choices=cases.SETS, default='default')
    parser.add_argument('--cases', action='append', default=[], metavar='PATTERN')
    parser.add_argument('--seconds', type=float, default=1.0, help='how long each case runs, about')
    parser.add_argument('--spoil', choices=tuple(disks.SPOIL),
                        help='make disks change data or keep older data')
    return parser


def main(argv: list[str]) -> int:
    args = options().parse_args(argv)
    if os.geteuid():
        raise Failure('workloads need root: they make disks and mount file systems')
    tempfile.tempdir = folder_for_memory()
    workload, cpus = workloads.ALL[args.workload], len(os.sched_getaffinity(0))
    chosen = cases.chosen_cases(workload, workload.names(cpus), args.set, args.cases)
    log = machine.KernelLog()
    lines.emit('begin', release=platform.release(), cpus=cpus, cases=chosen)
    done = sum(run_group(name, members, workload.opened(name, cpus, args.spoil), args.seconds)
               for name, members in cases.by_prefix(chosen, workload.parts))
    lines.emit('trouble', lines=log.complaints())
    lines.emit('end', cases=done)
    return 0
