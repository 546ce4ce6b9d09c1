# SPDX-License-Identifier: GPL-2.0
"""Take samples of user-mode Linux from outside: its kernel is a process of this machine.

It has no perf events of its own. From outside there is more to see: where it has its interrupts
off, the timer of this machine still takes samples. perf unwinds the stacks of the process by
their debugging information, since the kernel has no frame pointers.

The guest only says when each case begins and ends, by its clock, which is that of this machine.
"""
import subprocess
from pathlib import Path

from wqlab.steps import Failure, first_match, plain_environment
from wqlab.workload.cases import Lacking
from wqlab.workload.profile import CYCLES, TIMES, cycles

EVENT = 'cpu-clock'
GUEST = 'linux,uml-userspace'     # the kernel, and the processes of its programs
STACK_BYTES = 4096      # of each stack: an item's is not deeper in most cases
OPTIONS = ('--event', EVENT, '--clockid', 'CLOCK_REALTIME', '--call-graph', f'dwarf,{STACK_BYTES}',
           '--mmap-pages', '1024')


def why_not() -> str | None:
    """Return why perf cannot be used on this machine, or None if it can."""
    try:
        done = subprocess.run([*cycles.record_words(Path('/dev/null'), '--event', EVENT), '--', 'true'],
                              capture_output=True, text=True, check=False, env=plain_environment())
    except FileNotFoundError:
        return 'perf is not installed: run CONFIG=workload scripts/deps.sh as root'
    return first_match(done.stderr, 'error', 'permi') if done.returncode else None


def sampled(command: list[str], data: Path) -> list[str]:
    """Return the command that runs this one and takes samples of it and of all that it starts."""
    return [*cycles.record_words(data, *OPTIONS), '--', *command]


def shares(data: Path, begin: float, end: float) -> dict:
    text = cycles.script(data, '--comms', GUEST, '--time', f'{begin:.6f},{end:.6f}')
    return cycles.result(cycles.samples(text), cycles.lost(text))


def fill(profiles: list[dict], data: Path) -> list[dict]:
    """Return the profiles with the shares of the time of each case in place of its begin and end."""
    filled = []
    for one in profiles:
        if one['profile'] == TIMES:
            try:
                found = shares(data, one['begin'], one['end'])
            except (Lacking, Failure) as error:
                raise Failure(f"{one['name']}: {error}") from None
            filled.append({'name': one['name'], 'profile': CYCLES, **found, 'event': f'{EVENT} outside'})
    return filled
