# SPDX-License-Identifier: GPL-2.0
"""Find lines of a kernel log that report that something is wrong.

A test that provokes such a line announces it in the log with the line
"wq_selftest: expect: REGEX". "wq_selftest: expect end" ends the announcement. In between,
lines that match the expression are allowed, and at least one must appear.
"""
import re

BAD = re.compile('|'.join((
    r'\bWARNING: ',
    r'\bBUG: ',
    r'\bkernel BUG at ',
    r'-\[ cut here \]-',
    r'\bOops\b',
    r'\bKernel panic\b',
    r'[Gg]eneral protection fault',
    r'[Uu]nable to handle ',
    r'\b(?:KASAN|UBSAN|ODEBUG|KFENCE): ',
    r'DEBUG_LOCKS_WARN_ON',
    # lockdep and RCU's own checks
    r'possible (?:circular|recursive) locking',
    r'possible irq lock inversion',
    r'possible deadlock',
    r'inconsistent lock state',
    r'-safe -> \S+-unsafe lock order',
    r'bad (?:unlock balance|contention) detected',
    r'suspicious RCU usage',
    r'\[ BUG:',
    r'INFO: trying to register non-static key',
    r'INFO: lockdep is turned off',
    r'held lock freed',
    r'lock held when returning to user space',
    r'MAX_LOCK(?:DEP_\w+|_DEPTH) too low',
    # stalls
    r'INFO: task .* blocked (?:in I/O wait )?(?:for more than|on) ',
    r'rcu: INFO: ',
    r'INFO: rcu_',
    r'rcu_\w+ kthread starved',
    r'detected (?:expedited )?stalls?\b',
    r'soft lockup',
    r'hard LOCKUP',
    r'workqueue lockup',
    r'max_active holds items back, and none has ',
    # the clock: ticks get lost from then on, and all that counts in jiffies is too slow
    r'APIC timer disabled due to verification failure',
    # the TSC: Linux goes by the value that deviates, so the clock runs too fast or too slowly
    r'PIT calibration deviates from',
    # memory and contexts
    r'sleeping function called from invalid context',
    r'scheduling while atomic',
    r'leaked (?:atomic|lock|RCU)',
    r'refcount_t: ',
    r'list_(?:add|del) corruption',
    r'[Rr]edzone overwritten',
    r'Object already free',
    r'unreferenced object(?: \(percpu\))? 0x',
    r'new suspected memory leaks',
    r'page allocation failure',
    r'Out of memory: ',
)))
EXPECT = re.compile(r'wq_selftest: expect: (.+)')
EXPECT_END = 'wq_selftest: expect end'
IN_VAIN = 'a test announced a line that did not come: '
# Before and after a finding. A report of a stall shows where each CPU and RCU's thread are.
LINES_BEFORE, LINES_AFTER = 10, 60
STAMP = re.compile(r'^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?')


def without_stamp(line):
    """Remove the time and the caller that printk puts at the start of a line."""
    return STAMP.sub('', line, count=1)


def bad_lines(log):
    """Return the bad lines of a log, each once. No test may have announced any."""
    return list(dict.fromkeys(line.strip() for line in log.splitlines() if BAD.search(line)))


def findings(log):
    """
    Return the bad lines that no test announced, and the announcements that no line matched. Each is the number of a
    line and a text.
    """
    found, expected, seen, number = [], None, False, 0
    for number, line in enumerate(log.splitlines(), 1):
        announced = EXPECT.search(line)
        if announced or EXPECT_END in line:
            if expected and not seen:
                found.append((number, IN_VAIN + expected.pattern))
            expected, seen = re.compile(announced[1]) if announced else None, False
        elif expected and expected.search(line):
            seen = True
        elif BAD.search(line):
            found.append((number, line.strip()))
    if expected and not seen:
        found.append((number, IN_VAIN + expected.pattern))
    return found


def problems(log):
    """Return the findings of a kernel log, as texts."""
    return [f'line {number}: {text}' for number, text in findings(log)]


def report(log):
    """Return the findings, and the lines of the log around each, for someone who does not have the log."""
    found, lines = findings(log), log.splitlines()
    shown = {near for number, _ in found for near in range(number - LINES_BEFORE, number + LINES_AFTER + 1)}
    around = [f'{number}| {line}' for number, line in enumerate(lines, 1) if number in shown]
    return '\n'.join(problems(log) + around)
