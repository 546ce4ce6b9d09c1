# SPDX-License-Identifier: GPL-2.0
"""Find lines of a kernel log that report that something is wrong."""
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
STAMP = re.compile(r'^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?')


def without_stamp(line):
    """Remove the time and the caller that printk puts at the start of a line."""
    return STAMP.sub('', line, count=1)


def bad_lines(log):
    """Return the bad lines of a log, each once. No test may have announced any."""
    return list(dict.fromkeys(line.strip() for line in log.splitlines() if BAD.search(line)))
