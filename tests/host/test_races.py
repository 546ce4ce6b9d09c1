# SPDX-License-Identifier: GPL-2.0
"""Races that concern the workqueue are distinguished from others."""
import subprocess

import pytest

from wqlab.logs import races

KNOWN = races.Symbols(
    own=frozenset({'__queue_work', 'queue_work_on', 'worker_thread', 'process_one_work', 'worker_call',
                   'pool_call_mayday', 'pool_enqueue', 'wqt_item_fn', 'workqueue_softirq_action', 'create_worker',
                   'pwq_die', 'destroy_workqueue'}),
    called=frozenset({'mod_timer', '__list_add_valid_or_report', 'usleep_range_state', '_raw_spin_unlock_irqrestore',
                      '__queue_work', 'kthread_should_stop', 'kthread_bind_mask', 'kthread_queue_work'}))
HEAD = '=================================================================='
TAIL = '''
value changed: 0x00000000fffb8a2c -> 0x00000000fffb8a2e

Reported by Kernel Concurrency Sanitizer on:
CPU: 1 UID: 0 PID: 62 Comm: kworker/1:2 Not tainted 7.3.0-cmwq #1 PREEMPT(lazy)
Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2-debian-1.16.2-1 04/01/2014
Workqueue: events vmstat_update
'''
WORKER = 'worker_call+0x1c1/0x4f0 process_one_work+0x2a5/0x5d0 worker_thread+0x3f7/0x6e0 kthread+0x1d2/0x200 ' \
         'ret_from_fork+0x3d/0x50 ret_from_fork_asm+0x1a/0x30'
TICK = 'update_process_times+0x9f/0xe0 tick_nohz_handler+0xb2/0x1a0 __hrtimer_run_queues+0x1b5/0x3c0 ' \
       'hrtimer_interrupt+0x1d5/0x3f0 __sysvec_apic_timer_interrupt+0x7a/0x1a0 sysvec_apic_timer_interrupt+0x6c/0x80 ' \
       'asm_sysvec_apic_timer_interrupt+0x1a/0x20'
SOFTIRQ = 'run_timer_softirq+0x31/0x60 handle_softirqs+0xd6/0x300 __irq_exit_rcu+0x6a/0xb0 ' \
          'sysvec_apic_timer_interrupt+0x6c/0x80 asm_sysvec_apic_timer_interrupt+0x1a/0x20'
IDLE = 'default_idle+0xf/0x20 default_idle_call+0x33/0xe0 do_idle+0xe9/0x130 cpu_startup_entry+0x2b/0x30'


def stamped(lines):
    return ''.join(f'[   19.{593000 + i}]{"[   T62]" if i % 2 else ""} {line}\n' for i, line in enumerate(lines))


def access(what, who, frames):
    return [f'{what} to 0xffff88803ec1d760 of 8 bytes by {who}:', *(f' {frame}' for frame in frames.split()), '']


def report(title, one, other):
    """Return a report as kernel/kcsan/report.c prints it."""
    return stamped([HEAD, f'BUG: KCSAN: data-race in {title}', '', *access('write', 'interrupt on cpu 0', one),
                    *access('read', 'task 62 on cpu 1', other), *TAIL.splitlines()[1:], HEAD])


def names(*frames):
    return ' / '.join(sorted(frame.partition('+')[0] for frame in frames))


def between(one, other):
    """A report of two stacks."""
    return report(names(one, other), one, other)


def is_ours(monkeypatch, log):
    monkeypatch.setattr(races, 'symbols', lambda folder: KNOWN)
    titles = {line for line in log.splitlines() if 'BUG: KCSAN' in line}
    assert titles
    theirs = races.elsewhere(log, 'a folder')
    assert theirs in (set(), titles)
    return not theirs


EXPIRE = f'expire_timers+0x8e/0x1f0 __run_timers+0x256/0x360 {SOFTIRQ} {IDLE}'
OURS = {
    'ours made one access': between(f'__queue_work+0x9c/0x3f0 queue_work_on+0x7b/0x90 flush_it+0x11/0x20 {WORKER}',
                                    EXPIRE),
    # the title alone would not show that these are ours
    'a timer of ours': between(
        f'__mod_timer+0x1a9/0x5f0 mod_timer+0x20/0x30 pool_call_mayday+0x9d/0xc0 {WORKER}', EXPIRE),
    'a list of ours': between(
        f'__list_add_valid_or_report+0x35/0xf0 pool_enqueue+0x6a/0x120 __queue_work+0x2b1/0x3f0 '
        f'queue_work_on+0x7b/0x90 vmstat_shepherd+0x7e/0xb0 {WORKER}',
        f'__list_del_entry_valid+0x2a/0x90 list_lru_add+0x52/0xb0 {WORKER}'),
    'our caller is in the other stack': between(
        EXPIRE, f'__mod_timer+0x1a9/0x5f0 mod_timer+0x20/0x30 pool_call_mayday+0x9d/0xc0 {WORKER}'),
    'an interrupt that queues': between(
        f'__mod_timer+0x1a9/0x5f0 mod_timer+0x20/0x30 __queue_work+0x2b1/0x3f0 delayed_fn+0x11/0x20 {SOFTIRQ} {IDLE}',
        f'get_next_timer_interrupt+0x7d/0x1d0 {IDLE}'),
    'the compiler has split ours': between(f'__queue_work.constprop.0+0x9c/0x3f0 {WORKER}', EXPIRE),
    'the test module': stamped([
        HEAD, 'BUG: KCSAN: data-race in hrtimer_wakeup / wqt_item_fn [wqtorture]', '',
        *access('read', 'task 62 on cpu 1', f'hrtimer_wakeup+0x10/0x60 {TICK} {IDLE}'),
        *access('write (marked)', 'task 62 on cpu 0',
                'wqt_item_fn+0x10/0x20 [wqtorture]'.replace(' ', '\0') + f' {WORKER}'),
    ]).replace('\0', ' '),
    'nobody knows with whom': stamped([
        HEAD, 'BUG: KCSAN: assert: race in __mod_timer+0x1a9/0x5f0', '',
        'race at unknown origin, with read to 0xffff88803ec1d760 of 8 bytes by task 62 on cpu 1:',
        ' __mod_timer+0x1a9/0x5f0', ' mod_timer+0x20/0x30', ' pool_call_mayday+0x9d/0xc0', ' kthread+0x1d2/0x200', '',
        *TAIL.splitlines()[1:]]),
    'a report without its second stack': stamped(
        [HEAD, 'BUG: KCSAN: data-race in hrtimer_wakeup / do_nanosleep', '',
         *access('write', 'interrupt on cpu 0', EXPIRE)]),
    'a report without stacks': stamped([HEAD, 'BUG: KCSAN: data-race in hrtimer_wakeup / do_nanosleep', '']),
}
THEIRS = {
    'the base kernel': between(f'lapic_cal_handler+0xcc/0x140 {TICK} {IDLE}',
                               'setup_boot_APIC_clock+0x3a1/0x860 native_smp_prepare_cpus+0x5b/0xc0 '
                               'kernel_init+0x1f/0x1b0'),
    'a work item of another subsystem': between(
        f'refresh_cpu_vm_stats+0xd1/0x2f0 vmstat_update+0x18/0x70 {WORKER}', EXPIRE),
    'an interrupt of what ours called': between(
        f'tick_do_update_jiffies64+0x6b/0x160 {TICK} _raw_spin_unlock_irqrestore+0x3c/0x50 '
        f'__queue_work+0x9c/0x3f0 {WORKER}',
        f'tick_nohz_next_event+0x5b/0x220 {IDLE}'),
    'a softirq of ours': between(
        f'rcu_core+0x11c/0x4a0 handle_softirqs+0xd6/0x300 do_softirq.part.0+0x35/0x50 __local_bh_enable_ip+0x5b/0x60 '
        f'__queue_work+0x9c/0x3f0 {WORKER}', 'rcu_gp_init+0x1c2/0x6d0 rcu_gp_kthread+0x13d/0x1d0 kthread+0x1d2/0x200'),
    'the sleep of our test': between(
        f'hrtimer_wakeup+0x2e/0x40 {TICK} {IDLE}',
        f'schedule_hrtimeout_range_clock+0x136/0x1a0 usleep_range_state+0xb2/0xf0 wqt_item_fn+0x10/0x20 {WORKER}'),
}


@pytest.mark.parametrize('log', OURS.values(), ids=OURS)
def test_ours(monkeypatch, log):
    assert is_ours(monkeypatch, log)


@pytest.mark.parametrize('log', THEIRS.values(), ids=THEIRS)
def test_theirs(monkeypatch, log):
    assert not is_ours(monkeypatch, log)


def test_each_report_of_a_log_is_judged(monkeypatch):
    """A stack belongs to its report, even if other lines are printed in between."""
    monkeypatch.setattr(races, 'symbols', lambda folder: KNOWN)
    theirs, ours = THEIRS['a work item of another subsystem'], OURS['a timer of ours']
    noise = stamped([' __queue_work+0x9c/0x3f0', 'wqtorture: stats: queue=7',
                     'BUG: KASAN: slab-use-after-free in __queue_work'])
    found = races.elsewhere(noise + theirs + noise + ours + noise, 'a folder')
    assert [line.partition('in ')[2] for line in found] == ['expire_timers / refresh_cpu_vm_stats']


def test_one_of_two_reports_with_one_title(monkeypatch):
    """Without time stamps the two lines are the same: neither is dismissed."""
    monkeypatch.setattr(races, 'symbols', lambda folder: KNOWN)
    both = ''.join(races.check.without_stamp(line) + '\n' for line in (
        between(f'__mod_timer+0x1/0x2 mod_timer+0x1/0x2 other_fn+0x1/0x2 {WORKER}', EXPIRE)
        + between(f'__mod_timer+0x1/0x2 mod_timer+0x1/0x2 pool_call_mayday+0x1/0x2 {WORKER}', EXPIRE)).splitlines())
    assert races.elsewhere(both, 'a folder') == set()


def test_without_objects_all_are_ours(tmp_path):
    assert not races.symbols(tmp_path).own
    assert races.elsewhere(THEIRS['the base kernel'], tmp_path) == set()


def test_symbols_come_from_the_objects(tmp_path):
    for name, text in (('kernel/workqueue/a', 'static void __attribute__((used)) mine(void) {} int no_function;'),
                       ('lib/cmwq/b', 'void theirs(void); void ours(void) { theirs(); }'),
                       ('kernel/time/c', 'void other(void); void theirs(void) { other(); }')):
        source = tmp_path / f'{name}.c'
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        subprocess.run(['gcc', '-c', '-o', source.with_suffix('.o'), source], check=True)
    known = races.symbols(tmp_path)
    assert known.own == {'mine', 'ours'} and known.called - {'_GLOBAL_OFFSET_TABLE_'} == {'theirs'}
