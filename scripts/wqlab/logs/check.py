# SPDX-License-Identifier: GPL-2.0
"""What a kernel log says that it should not say.

A test that provokes a report announces it in the log itself, by a line
"wq_selftest: expect: REGEX"; "wq_selftest: expect end" closes it. In between,
lines that the expression finds are allowed, and one at least must come.
"""
import re

BAD = re.compile('|'.join((
    r'\bWARNING: ',
    r'\bBUG: ',
    r'\bkernel BUG at ',
    r'-\[ cut here \]-',
    r'\bOops: ',
    r'Kernel panic - ',
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
    r'held lock freed',
    r'lock held when returning to user space',
    r'MAX_LOCK(?:DEP_\w+|_DEPTH) too low',
    # stalls
    r'INFO: task .* blocked for more than',
    r'INFO: task .* blocked on ',
    r'rcu: INFO: ',
    r'INFO: rcu_',
    r'rcu_\w+ (?:kthread starved|self-detected stall)',
    r'soft lockup',
    r'hard LOCKUP',
    r'workqueue lockup',
    # memory and contexts
    r'sleeping function called from invalid context',
    r'scheduling while atomic',
    r'leaked (?:atomic|lock|RCU)',
    r'refcount_t: ',
    r'list_(?:add|del) corruption',
    r'[Rr]edzone overwritten',
    r'Object already free',
    r'unreferenced object 0x',
    r'page allocation failure',
    r'Out of memory: ',
)))
EXPECT = re.compile(r'wq_selftest: expect: (.+)')
EXPECT_END = 'wq_selftest: expect end'
STAMP = re.compile(r'^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?')


def without_stamp(line):
    """A log line without the time and the caller that printk puts before it."""
    return STAMP.sub('', line, count=1)


def problems(log):
    """The lines of the log that nobody announced, and what was announced in vain."""
    found, expected, seen = [], None, False
    for number, line in enumerate(log.splitlines(), 1):
        announced = EXPECT.search(line)
        if announced or EXPECT_END in line:
            if expected and not seen:
                found.append(f'line {number}: nothing came of: expect: {expected.pattern}')
            expected, seen = re.compile(announced[1]) if announced else None, False
        elif expected and expected.search(line):
            seen = True
        elif BAD.search(line):
            found.append(f'line {number}: {line.strip()}')
    if expected and not seen:
        found.append(f'at the end: nothing came of: expect: {expected.pattern}')
    return found
