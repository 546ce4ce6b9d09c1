# SPDX-License-Identifier: GPL-2.0
"""wq_dump.py --stalls and --work without a kernel: what they blame, and the text that they print."""
import pytest

import wqtools_machines as machines
from wqtools import item, program, stalls


def snapshot_of(pools, workqueues=()):
    snapshot = machines.machine([4])
    snapshot.pools = pools
    snapshot.workqueues = list(workqueues)
    return snapshot


def stuck_pool(*workers, waiting=3, secs=45, **more):
    """Make pool 2, of CPU 0, with these workers and with waiting items."""
    return machines.pool(2, workers=list(workers), waiting=[machines.item('late_fn')] * waiting,
                         no_progress_for=secs if waiting else None, **more)


def only_stall(snapshot, threshold=30):
    found = stalls.find(snapshot, threshold)
    assert len(found) == 1
    return found[0]


def blamed(stall):
    return [(blame.worker.pid if blame.worker else f'CPU {blame.cpu}') for blame in stall.blamed]


HOG = machines.worker(11, 'hog_fn', 46, state='R')
IDLE = machines.worker(12)
SLEEPER = machines.worker(13, 'sleep_fn', 50, state='D')


def test_nothing_waits_or_it_has_not_waited_for_long():
    assert stalls.find(snapshot_of([stuck_pool(HOG, IDLE, waiting=0)]), 30) == []
    assert stalls.find(snapshot_of([stuck_pool(HOG, IDLE, secs=29)]), 30) == []
    assert len(stalls.find(snapshot_of([stuck_pool(HOG, IDLE, secs=30)]), 30)) == 1


def test_a_running_worker_hogs_its_cpu():
    stall = only_stall(snapshot_of([stuck_pool(SLEEPER, HOG, IDLE, nr_running=1, mayday=['wq_a', 'wq_b'])]))
    assert blamed(stall) == [11]
    assert stall.title == 'pool 2 (CPU 0): 3 items waiting, nothing started for 45s'
    assert 'without sleeping' in stall.blamed[0].why and 'only when that one sleeps' in stall.verdict
    assert stall.facts == ['waiting: 3 late_fn of test',
                           'in flight: kworker/13 (pid 13) runs sleep_fn of test for 50s, asleep',
                           'in flight: kworker/11 (pid 11) runs hog_fn of test for 46s, on CPU 0',
                           'workers: 3, of these 1 idle, 1 counted as running',
                           'called to the rescue: the rescuers of wq_a, wq_b']


@pytest.mark.parametrize('flag', ['CPU_INTENSIVE', 'REBOUND', 'UNBOUND', 'PREP'])
def test_a_running_worker_that_does_not_count_is_not_the_reason(flag):
    runner = machines.worker(11, 'busy_fn', 46, state='R', flags=[flag])
    stall = only_stall(snapshot_of([stuck_pool(runner, IDLE)]))
    assert blamed(stall) == [12] and 'lost wake-up' in stall.verdict


def test_a_worker_counts_as_running_that_is_not():
    stall = only_stall(snapshot_of([stuck_pool(SLEEPER, IDLE, nr_running=1)]))
    assert blamed(stall) == ['CPU 0'] and 'counted as running, yet none is' in stall.verdict


def test_no_worker_is_left_and_making_one_takes_long():
    manager = machines.worker(14, flags=['PREP'], state='D')
    stall = only_stall(snapshot_of([stuck_pool(SLEEPER, manager, nr_idle=0, manager=14)]))
    assert blamed(stall) == [14, 13] and 'making another one fails or takes long' in stall.verdict
    assert 'manager: pid 14 is creating workers' in stall.facts
    stall = only_stall(snapshot_of([stuck_pool(SLEEPER, manager, nr_idle=0, manager=14, mayday=['wq_a'])]))
    assert 'rescuers that were called do not help' in stall.verdict
    rescuer = machines.worker(15, 'slow_fn', 40, rescuer='wq_a', state='D')
    stall = only_stall(snapshot_of([stuck_pool(SLEEPER, rescuer, nr_idle=0)]))
    assert blamed(stall) == [13, 15] and 'none is creating another' in stall.verdict
    assert 'at work: the rescuer of wq_a' in stall.facts


def test_a_woken_worker_does_not_get_the_cpu():
    woken = machines.worker(16, state='R', cpu=0)
    stall = only_stall(snapshot_of([stuck_pool(woken)]))
    assert blamed(stall) == ['CPU 0']
    assert 'kworker/16 (pid 16) was woken but does not get to run on CPU 0' in stall.verdict


def test_nobody_was_woken():
    stall = only_stall(snapshot_of([stuck_pool(IDLE, SLEEPER)]))
    assert blamed(stall) == [12] and 'lost wake-up' in stall.verdict


def test_a_softirq_does_not_return_or_does_not_come():
    softirq = machines.worker(None, 'hog_fn', 46, comm='', state='', cpu=0)
    stall = only_stall(snapshot_of([stuck_pool(softirq, kind='bh')]))
    assert stall.blamed[0].worker is softirq and 'does not return' in stall.verdict
    assert 'in flight: the softirq of CPU 0 runs hog_fn of test for 46s' in stall.facts
    stall = only_stall(snapshot_of([stuck_pool(kind='bh', nice=-20)]))
    assert blamed(stall) == ['CPU 0'] and stall.title.startswith('pool 2 (CPU 0, BH highpri): ')


def test_an_unbound_pool_blames_those_that_run_longest():
    sleepers = [machines.worker(20 + number, 'slow_fn', 40 + number, state='D') for number in range(9)]
    stall = only_stall(snapshot_of([stuck_pool(*sleepers, kind='unbound', cpus=[0, 1, 2, 3], nice=-5)]))
    assert blamed(stall) == [28, 27, 26] and stall.title.startswith('pool 2 (CPUs 0-3, unbound, nice -5): ')


def test_an_offline_cpu_counts_no_worker_as_running():
    stall = only_stall(snapshot_of([stuck_pool(HOG, flag_names=['DISASSOCIATED'], nr_idle=0)]))
    assert 'all workers are busy' in stall.verdict


def limited(type='percpu', held=2, nodes=(0, 1), workers=((), ()), **more):
    """Make a workqueue with pools 10 and 11. It holds items back in pool 10."""
    pools = [machines.pool(10 + number, 'unbound' if type != 'percpu' else 'percpu', cpu=number,
                           cpus=[2 * number, 2 * number + 1] if type != 'percpu' else None, node=nodes[number],
                           workers=[*workers[number], IDLE], waiting=more.pop(f'waiting{number}', []),
                           no_progress_for=more.pop(f'stuck{number}', None)) for number in (0, 1)]
    pwqs = [machines.pwq(10, [machines.item('held_fn')] * held, more.pop('active', 1),
                         plugged=more.pop('plugged', False)),
            machines.pwq(11)]
    return snapshot_of(pools, [machines.workqueue('test', type, pwqs, more.pop('max_active', 1), **more)])


LONG, LONGER, SHORT = (machines.worker(30 + number, 'slow_fn', secs, state='D')
                       for number, secs in enumerate((40, 50, 2)))


def test_held_back_behind_items_that_run_for_long():
    stall = only_stall(limited(max_active=2, workers=[[LONG, LONGER], []]))
    assert stall.kind == 'held back' and stall.seconds == 40 and blamed(stall) == [31, 30]
    assert stall.title == 'workqueue test on pool 10 (CPU 0): 2 items held back for at least 40s'
    assert stall.verdict == '2 items may be active at a time, and none of those ends'
    assert stall.facts[0] == 'held back: 2 held_fn of test'
    assert stalls.find(limited(max_active=2, workers=[[LONG, LONGER], []]), 41) == []


@pytest.mark.parametrize('workers', [[[LONG, SHORT], []], [[], [LONG]], [[], []]])
def test_held_back_for_a_moment_only(workers):
    assert stalls.find(limited(max_active=2, workers=workers), 30) == []


def test_another_workqueue_holds_no_slot():
    assert stalls.find(limited(workers=[[machines.worker(33, 'slow_fn', 40, workqueue='other')], []]), 30) == []


def test_an_unbound_limit_is_that_of_the_node():
    share = [machines.model.NodeActive(0, 2, 2), machines.model.NodeActive(1, 1, 2)]
    stall = only_stall(limited('unbound', max_active=4, active=2, node_active=share,
                               workers=[[LONG, LONGER], [SHORT]]))
    assert stall.title.startswith('workqueue test on node 0: ')
    assert stall.verdict == "2 items may be active at a time (this node's share of max_active 4), " \
                            'and none of those ends'
    stall = only_stall(limited('unbound', nodes=(0, 0), active=2, node_active=share, workers=[[], [LONG]]))
    assert blamed(stall) == [30]


def test_an_item_that_is_not_next_to_start_waits_for_no_slot():
    share = [machines.model.NodeActive(0, 2, 512)]
    found = stalls.find(limited('unbound', max_active=512, active=2, node_active=share, workers=[[LONG], []],
                                waiting0=[machines.item('late_fn')], stuck0=55), 30)
    assert [stall.kind for stall in found] == ['pool'] and 'held back: 2 held_fn of test' in found[0].facts


def test_the_longest_comes_first():
    pools = [machines.pool(number, workers=[HOG, IDLE], waiting=[machines.item()], no_progress_for=secs)
             for number, secs in ((2, 40), (6, 90), (10, 60))]
    assert [stall.seconds for stall in stalls.find(snapshot_of(pools), 30)] == [90, 60, 40]


def test_an_ordered_workqueue_waits_for_its_head_wherever_that_runs():
    stall = only_stall(limited('ordered', workers=[[], [LONG]]))
    assert stall.title.startswith('workqueue test: 2 items held back') and 'ordered' in stall.verdict
    stall = only_stall(limited('ordered', plugged=True, workers=[[], [LONG]]))
    assert 'items on the new pool wait until those on the old one are done' in stall.verdict


def test_a_cpu_that_got_its_own_pool_waits_for_that_of_its_pod():
    stall = only_stall(limited('unbound', nodes=(0, 0), plugged=True, workers=[[], [LONG]]))
    assert 'a CPU got its own pwq: items there wait' in stall.verdict


def test_slots_held_by_items_in_a_stuck_pool():
    found = stalls.find(limited(workers=[[machines.worker(34, 'hog_fn', 60, state='R', workqueue='other')], []],
                                waiting0=[machines.item('late_fn')], stuck0=55), 30)
    assert [stall.kind for stall in found] == ['pool', 'held back']
    assert found[1].seconds == 55 and not found[1].blamed and 'see the pool above' in found[1].verdict
    assert 'late_fn, waiting in pool 10 (CPU 0), which makes no progress' in found[1].facts[1]


def test_a_kernel_that_does_not_say_since_when():
    stall = only_stall(limited(max_active=2, workers=[[machines.worker(35, 'slow_fn', None, state='D'), LONG], []]))
    assert stall.seconds is None and stall.title.endswith('2 items held back (this kernel does not say for how long)')


def test_report_names_the_blamed_with_their_stacks(monkeypatch):
    monkeypatch.setattr(stalls, '_who_and_stack', lambda prog, snapshot, blame: (
        f'{stalls.worker_name(blame.worker)} {blame.why}', ('#0  slow_fn', '#1  kthread')))
    lines = stalls.report(None, limited(max_active=2, workers=[[LONG, LONGER], []]), 30)
    assert lines[-5:] == ['  blamed: kworker/31 (pid 31) holds a slot', '    #0  slow_fn', '    #1  kthread',
                          '  blamed: kworker/30 (pid 30) holds a slot', '    (the stack of kworker/31)']
    quiet = stalls.report(None, limited(), 30)
    assert len(quiet) == 1 and quiet[0].startswith('no stalls')


@pytest.mark.parametrize('kernel, threshold', [({'wq_watchdog_thresh': 10}, 10), ({'wq_watchdog_thresh': 0}, 30),
                                               ({}, 30)])
def test_the_threshold_is_that_of_the_kernel(kernel, threshold):
    class Value(int):
        def value_(self):
            return int(self)

    assert stalls.default_threshold({name: Value(value) for name, value in kernel.items()}) == threshold


# The state of one item


def facts(where, **more):
    base = {'address': '0xffff888000001000', 'symbol': None, 'function': 'foo_fn', 'kind': 'work', 'where': where,
            'running': [], 'waiters': [], 'disabled': 0, 'cancelling': False, 'bh': False, 'last_pool': 14,
            'last_pool_serves': 'CPU 3', 'workqueue': 'events', 'pool': 14, 'pool_serves': 'CPU 3', 'position': 2,
            'of': 5, 'active': 4, 'max_active': 4, 'node_active': None, 'plugged': False, 'mayday': False,
            'worker': None}
    return {**base, **more}


RUNNER = {'pid': 7, 'comm': 'kworker/3:1', 'cpu': 3, 'pool': 14, 'function': 'foo_fn', 'workqueue': 'events',
          'running_for': 12.0, 'waiters': []}
WAITER = {'pid': 8, 'comm': 'sync'}
TIMER = {'expires_in': 2.5, 'cpu': 1, 'workqueue': 'events', 'for_cpu': None}


@pytest.mark.parametrize('state, said', [
    (facts('idle'), 'idle: not queued; was last on pool 14 (CPU 3)'),
    (facts('idle', last_pool_serves=None), 'was last on pool 14 (which is gone)'),
    (facts('idle', last_pool=None), 'idle: not queued, and never was'),
    (facts('idle', disabled=3), 'disabled 3 deep: queueing it is refused'),
    (facts('idle', bh=True), 'runs in softirq'),
    (facts('timer', timer=TIMER),
     'pending on its timer, which expires in 2.5s on CPU 1 and queues it on workqueue events'),
    (facts('timer', timer={**TIMER, 'expires_in': -0.2, 'for_cpu': 5}),
     'should have expired 0.2s ago on CPU 1 and queues it on workqueue events on CPU 5'),
    (facts('claimed'), 'claimed (pending, but neither queued nor on a timer)'),
    (facts('grace period', kind='rcu_work'),
     'waits for an RCU grace period, after which it is queued on workqueue events'),
    (facts('worklist'),
     'queued on workqueue events: waits for a worker of pool 14 (CPU 3), number 2 of 5 on its worklist'),
    (facts('worklist', mayday=True), 'the rescuer of events has been called'),
    (facts('worklist', waiters=[WAITER]), 'sync (pid 8) waits for it to finish'),
    (facts('held back'), 'held back as number 2 of 5 on pool 14 (CPU 3): 4 of 4 items are active (max_active)'),
    (facts('held back', node_active=[1, 2, 2]), 'CPU 3): 2 of 2 items of node 1 are active (max_active 4)'),
    (facts('held back', node_active=[1, 2, 4]), 'an earlier one has yet to start; 2 of 4 items of node 1 are active'),
    (facts('held back', node_active=[-1, 2, 2]), '2 of 2 items across nodes are active'),
    (facts('held back', plugged=True), 'older items in another pwq come first'),
    (facts('held back', max_active=0), 'the workqueue is frozen'),
    (facts('scheduled', worker=RUNNER, running=[{**RUNNER, 'running_for': 12.1}]),
     'given to kworker/3:1 (pid 7) of pool 14 (CPU 3), which runs it now'),
    (facts('scheduled', worker=RUNNER, running=[RUNNER]),
     'also running for 12s on kworker/3:1 (pid 7), CPU 3, pool 14'),
    (facts('scheduled', worker=RUNNER, kind='barrier', waits=WAITER), 'sync (pid 8) sleeps until it runs'),
    (facts('running', running=[RUNNER]), 'running for 12s on kworker/3:1 (pid 7), CPU 3, pool 14, workqueue events'),
    (facts('running', running=[{**RUNNER, 'running_for': None}]), 'running on kworker/3:1 (pid 7), CPU 3'),
    (facts('running', running=[{**RUNNER, 'pid': None, 'comm': None}]), 'running for 12s on the softirq, CPU 3'),
    (facts('running', running=[{**RUNNER, 'function': 'old_fn'}]), 'as old_fn: it was initialised again since'),
    (facts('running', running=[{**RUNNER, 'waiters': [WAITER]}]), 'sync (pid 8) waits for this run to finish'),
    (facts('freed', running=[RUNNER]), 'the function freed it'),
])
def test_an_item_in_words(state, said):
    text = '\n'.join(item.words(state))
    assert said in text
    assert ('not running' in text) == (not state['running'])


class Symbols:
    """Has the one method of drgn.Program that resolve() uses."""

    def symbols(self, name):
        class Symbol:
            def __init__(self, address):
                self.address = address
        return [Symbol(address) for address in {'one': [0x1000], 'two': [0x3000, 0x2000]}.get(name, [])]


@pytest.mark.parametrize('text, address', [(0x4000, 0x4000), ('0x4000', 0x4000), (' 0x4000+8', 0x4008),
                                           ('16384', 0x4000), ('one', 0x1000), ('one+0x18', 0x1018)])
def test_an_item_by_address_or_symbol(text, address):
    assert item.resolve(Symbols(), text) == address


@pytest.mark.parametrize('text, complaint', [('none', 'no such symbol'), ('two', '0x2000, 0x3000'),
                                             ('0xzz', 'does not name a work'), ('one+x', 'does not name a work'),
                                             ('', 'no such symbol')])
def test_an_item_that_nothing_names(text, complaint):
    with pytest.raises(program.Trouble, match=complaint):
        item.resolve(Symbols(), text)
