# SPDX-License-Identifier: GPL-2.0
"""Whose data race KCSAN reports.

A report shows the stack of each access. The race is ours if our code made one of the two
accesses, or if the access was made on its behalf: a race inside mod_timer() may well be on
a timer of ours. So every frame counts, with two exceptions. What an interrupt or a softirq
does is not done for those whom it interrupted. And what a function of ours called without
our objects naming it was called through a pointer, as a work item of another subsystem is.
(Kernels with KCSAN are built without tail calls, which would hide who called whom.)

What cannot be told, like a report that is cut off, is ours.
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
# Pairs that race on a local variable of the first, so that the caller has no part in it.
THEIR_OWN = {
    # whether the timer of a task that sleeps has woken it
    frozenset(('schedule_hrtimeout_range_clock', 'hrtimer_wakeup')),
}


@dataclasses.dataclass
class Report:
    line: str               # the title as it is in the log
    functions: list[str]    # those that the title names
    stacks: list[list[str]]     # functions, the one that made the access first


@dataclasses.dataclass(frozen=True)
class Symbols:
    own: frozenset[str]     # functions in our objects
    called: frozenset[str]  # what our objects refer to


def plain(function):
    """The name without what the compiler adds, like .isra.0, without the offset and the module."""
    return re.split(r'[ .+]', function.strip())[0]


@functools.cache
def symbols(folder):
    """Those of our objects in a kernel that was built in `folder`."""
    objects = [path for home in HOMES for path in sorted(Path(folder).glob(home))]
    if not objects:
        return Symbols(frozenset(), frozenset())
    listed = subprocess.run(['nm', *objects], capture_output=True, text=True, check=True).stdout
    own = re.findall(r'^[0-9a-f]+ [tTwW] (\S+)$', listed, re.M)
    called = re.findall(r'^ +U (\S+)$', listed, re.M)
    return Symbols(frozenset(map(plain, own)), frozenset(map(plain, called)))


def reports(log):
    """All reports in a kernel log."""
    found, stack = [], None
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
    """Whether a function of ours made the access, or called by name what led to it."""
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
    """The titles, as they are in the log, of reports that do not concern us."""
    known = symbols(folder)
    mine = {report.line for report in reports(log) if is_ours(report, known)}
    return {report.line for report in reports(log)} - mine
