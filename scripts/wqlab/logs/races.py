# SPDX-License-Identifier: GPL-2.0
"""Decide whether a data race that KCSAN reports concerns our code.

A report shows the stack of each access. The race is ours if our code made one of the two
accesses, or if an access was made for our code: a race inside mod_timer() may be on one of
our timers. So all frames of a stack are checked, with two exceptions. Code of an interrupt
or a softirq does not run for the code that it interrupted. And our code calls functions
through pointers, such as work items of other subsystems. Their names do not appear in our
objects, and their races are not ours. (Kernels with KCSAN are built without tail calls,
since these would hide callers.)

If a report does not tell, for example because it is cut off, the race counts as ours.
"""
import dataclasses
import functools
import itertools
import re
import subprocess
from pathlib import Path

from wqlab.logs import check

HOMES = ('kernel/workqueue/*.o', 'kernel/workqueue.o', 'lib/cmwq/*.o')
TITLE = re.compile(r'BUG: KCSAN: (?:data-race|assert: race) in (.+)')
ACCESS = re.compile(r'(?:^|with )(?:read|write|read-write|assert no \w+)(?: \([a-z, ]+\))? '
                    r'to 0x[0-9a-f]+ of \d+ bytes by .+ on cpu \d+:$')
FRAME = re.compile(r'^ +(\S+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\S+\])?$')
INTERRUPT = re.compile(r'asm_|handle_softirqs$')
END = 'Reported by Kernel Concurrency Sanitizer on:'
# Pairs of functions that race on data which is not that of their callers.
THEIR_OWN = {
    # the flag that tells whether the timer has woken the sleeping task, a local variable
    frozenset(('schedule_hrtimeout_range_clock', 'hrtimer_wakeup')),
    # the flags of any task: the freezer looks at two bits, and only another one is set in those of a new kthread
    frozenset(('freezing_slow_path', 'kthread_bind_mask')),
    # whether an interrupt that the scheduler sends to a CPU for a wake-up is still on its way
    frozenset(('__flush_smp_call_function_queue', 'smp_call_function_single_async')),
    # the time of day: who reads it while it is written sees that by the sequence count, and reads again
    frozenset(('ktime_get', 'timekeeping_update_from_shadow')),
}


@dataclasses.dataclass
class Report:
    line: str               # the title line of the log
    functions: list[str]    # the functions in the title
    stacks: list[list[str]]     # functions of each stack; the one that made the access comes first


@dataclasses.dataclass(frozen=True)
class Symbols:
    own: frozenset[str]     # functions in our objects
    called: frozenset[str]  # undefined symbols that our objects use


def plain(function):
    """Remove compiler suffixes such as .isra.0, the offset, and the module from a name."""
    return re.split(r'[ .+]', function.strip())[0]


@functools.cache
def symbols(folder):
    """Return the symbols of our objects in the kernel's build folder."""
    objects = [path for home in HOMES for path in sorted(Path(folder).glob(home))]
    if not objects:
        return Symbols(frozenset(), frozenset())
    listed = subprocess.run(['nm', *objects], capture_output=True, text=True, check=True).stdout
    own = re.findall(r'^[0-9a-f]+ [tTwW] (\S+)$', listed, re.M)
    called = re.findall(r'^ +U (\S+)$', listed, re.M)
    return Symbols(frozenset(map(plain, own)), frozenset(map(plain, called)))


def reports(log):
    """Return all reports in a kernel log."""
    found: list[Report] = []
    stack: list[str] | None = None
    for line in log.splitlines():
        text = check.without_stamp(line)
        title, frame = TITLE.search(text), FRAME.match(text)
        if title:
            found.append(Report(line.strip(), [plain(name) for name in title[1].split(' / ')], []))
            stack = None
        elif found and ACCESS.search(text):
            stack = []
            found[-1].stacks.append(stack)
        elif END in text:
            stack = None
        elif frame and stack is not None:
            stack.append(plain(frame[1]))
    return found


def ours_made_it(stack, known):
    """Return True if our function made the access, or called by name a function that led to it."""
    stack = list(itertools.takewhile(lambda function: not INTERRUPT.match(function), stack))
    return not stack or stack[0] in known.own or any(caller in known.own and callee in known.called - known.own
                                        for callee, caller in itertools.pairwise(stack))


def is_ours(report, known):
    if not known.own or known.own.intersection(report.functions):
        return True
    if frozenset(report.functions) in THEIR_OWN:
        return False
    if len(report.stacks) < len(report.functions) or not all(report.stacks):
        return True
    return any(ours_made_it(stack, known) for stack in report.stacks)


def elsewhere(log, folder):
    """Return the title lines of the reports that do not concern our code."""
    known = symbols(folder)
    mine = {report.line for report in reports(log) if is_ours(report, known)}
    return {report.line for report in reports(log)} - mine
