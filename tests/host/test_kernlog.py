# SPDX-License-Identifier: GPL-2.0
"""The log checker finds bad lines."""
import pytest

import kernlog
from wqlab.logs import check

# One for each kind of line that check.BAD knows
BAD = '''\
WARNING: kernel/workqueue/queue.c:99 at queue_work_on+0x4/0x8, CPU#1: kworker/1:0/22
workqueue: WQ_MEM_RECLAIM a:b is flushing !WQ_MEM_RECLAIM c:d: WARNING: CPU: 0 PID: 7
------------[ cut here ]------------
BUG: kernel NULL pointer dereference, address: 0000000000000008
BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!
APIC timer disabled due to verification failure
tsc: PIT calibration deviates from HPET: 169803 2593424
kernel BUG at kernel/workqueue/pool.c:33!
Oops: 0002 [#1] SMP
UBSAN: array-index-out-of-bounds in kernel/workqueue/pool.c:12:3
ODEBUG: free active (active state 0) object: 0000000060a81d2e object type: work_struct
DEBUG_LOCKS_WARN_ON(lock->magic != lock)
INFO: task kworker/u8:1:32 blocked for more than 60 seconds.
INFO: task insmod:90 <writer> blocked on an rw-semaphore likely last held by task kworker:3
INFO: trying to register non-static key.
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
INFO: rcu_tasks detected stalls on tasks:
watchdog: Watchdog detected hard LOCKUP on cpu 2
refcount_t: underflow; use-after-free.
list_add corruption. prev->next should be next (ffff888100000000), but was 0.
Kernel panic - not syncing: Fatal exception
kmemleak: unreferenced object 0xffff888003c42e00 (size 192):
unreferenced object (percpu) 0x607f8320 (size 32):
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
INFO: task kworker/u8:1:32 blocked in I/O wait for more than 60 seconds.
INFO: lockdep is turned off.
list_del corruption. next->prev should be 0, but was 1
rcu: rcu_preempt kthread starved for 2100 jiffies! g1081 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1
BUG kmalloc-64 (Not tainted): Right Redzone overwritten
BUG kmalloc-64 (Not tainted): Object already free
kworker/u8:2: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_ZERO), nodemask=(null)
Out of memory: Killed process 93 (sh) total-vm:3024kB, anon-rss:100kB
'''.splitlines()

HARMLESS = '''\
Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
kasan: KernelAddressSanitizer initialized (generic)
Running RCU self tests
workqueue: wqh_hog_fn [wq_test_helper] hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND
workqueue: round-robin CPU selection forced, expect performance impact
Workqueue: wqt_stuck wqh_hog_fn [wq_test_helper]
Call Trace:
rcu: Hierarchical RCU implementation.
Kernel command line: panic=-1 workqueue.panic_on_stall=1 oops=panic
ok 3 warning count
'''.splitlines()


def stamped(text):
    return f'[   12.345678] {text}\n'


@pytest.mark.parametrize('line', BAD)
def test_bad_line(line):
    log = stamped('quiet') + stamped(line) + stamped('quiet')
    assert kernlog.problems(log) == [f'line 2: {stamped(line).strip()}']


def test_bad_lines_once_each():
    """The log of a bench or of torture, without announcements."""
    assert check.bad_lines(''.join(map(stamped, [*BAD, *HARMLESS, *BAD]))) == [stamped(line).strip() for line in BAD]


@pytest.mark.parametrize('line', HARMLESS)
def test_harmless_line(line):
    assert kernlog.problems(stamped(line)) == []


LOCKUP = stamped('BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 3s!')
EXPECT = stamped('wq_selftest: expect: BUG: workqueue lockup - pool cpus=1 ')
END = stamped('wq_selftest: expect end')


def test_announced_report_is_allowed():
    assert kernlog.problems(EXPECT + LOCKUP + LOCKUP + END) == []


def test_report_before_or_after_the_announcement():
    assert len(kernlog.problems(LOCKUP + EXPECT + LOCKUP + END + LOCKUP)) == 2


def test_other_report_within_the_announcement():
    other = stamped('WARNING: suspicious RCU usage')
    assert kernlog.problems(EXPECT + LOCKUP + other + END) == [f'line 3: {other.strip()}']


def test_report_of_another_cpu_within_the_announcement():
    assert len(kernlog.problems(EXPECT + LOCKUP + LOCKUP.replace('cpus=1 ', 'cpus=10 ') + END)) == 1


@pytest.mark.parametrize('tail', ['', END, EXPECT + LOCKUP + END])
def test_announced_in_vain(tail):
    found = kernlog.problems(EXPECT + tail)
    assert len(found) == 1 and 'a test announced a line that did not come: ' in found[0]


def test_lines_around_a_finding():
    """Each line once, with its number. What is further away is left out."""
    lines = [f'quiet {number}' for number in range(1, 201)]
    lines[99] = lines[101] = 'WARNING: suspicious RCU usage'
    near = range(100 - kernlog.LINES_BEFORE, 102 + kernlog.LINES_AFTER + 1)
    shown = [f'{number}| {lines[number - 1]}' for number in near]
    found = [f'line {number}: {lines[99]}' for number in (100, 102)]
    assert kernlog.report('\n'.join(lines)).splitlines() == found + shown
    assert kernlog.report('\n'.join(lines[:99])) == ''


def test_log_that_ends_in_an_announced_panic():
    log = stamped('wq_selftest: expect: Kernel panic - not syncing: workqueue: ')
    assert kernlog.problems(log + stamped('Kernel panic - not syncing: workqueue: 1 stall(s)')) == []


@pytest.mark.parametrize('line', ['[    1.000000] x', '[    1.000000][  T12] x', '<4>[1.5] x', 'x'])
def test_without_stamp(line):
    assert check.without_stamp(line) == 'x'


def test_without_stamp_keeps_the_indentation():
    assert check.without_stamp('[    1.000000]     ok 1 a') == '    ok 1 a'
