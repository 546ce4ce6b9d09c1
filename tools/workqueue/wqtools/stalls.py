# SPDX-License-Identifier: GPL-2.0
"""Finds work that makes no progress, and what is to blame.

find() needs only a Snapshot.  It finds pools whose first item has not changed for long, and
items that max_active holds back behind others that have been running for long.  report()
adds the stacks of those to blame, which needs the kernel.
"""
import collections
import dataclasses
from typing import Optional

from .model import Worker, cpulist
from .picture import held_items, plural, pool_name, queued, seconds

DEFAULT_THRESHOLD = 30      # seconds; the default of the kernel's watchdog
UNCOUNTED = {'CPU_INTENSIVE', 'UNBOUND', 'PREP', 'REBOUND'}     # flags that take a worker out of nr_running
MANY = 3                    # at most this many of a kind are blamed


@dataclasses.dataclass
class Blame:
    """What to look at: a worker, or whatever the CPU runs now."""
    why: str
    worker: Optional[Worker] = None
    cpu: Optional[int] = None


@dataclasses.dataclass
class Stall:
    kind: str                   # "pool" or "held back"
    title: str
    seconds: Optional[float]    # how long it has lasted; None: the kernel does not record it
    facts: list                 # what waits, what runs and so on, a line each
    verdict: str                # why that is so
    blamed: list                # of Blame


def find(snapshot, threshold):
    """All stalls of at least threshold seconds or of unknown length: first stuck pools, each kind longest first."""
    found = [_stuck_pool(snapshot, pool) for pool in snapshot.pools
             if pool.waiting and (pool.no_progress_for or 0) >= threshold]
    for wq in snapshot.workqueues:
        found += [_held_back(snapshot, wq, group, pwqs) for group, pwqs in _limit_groups(snapshot, wq)]
    return sorted((stall for stall in found if stall and (stall.seconds is None or stall.seconds >= threshold)),
                  key=lambda stall: (stall.kind != 'pool', -(stall.seconds or 0)))


def worker_name(worker):
    if worker.pid is None:
        return f'the softirq of CPU {worker.cpu}'
    return f'{worker.comm} (pid {worker.pid})'


def _pool_words(pool):
    name = pool_name(pool).strip()
    where = f'CPU {pool.cpu}' if pool.cpu is not None else f'CPUs {cpulist(pool.pod_cpus or pool.cpus)}, unbound'
    where += f', own={pool.own_cpu}' if pool.own_cpu is not None else ''
    return f'pool {pool.id} ({where}{", " + name if name and name != "normal" else ""})'


def _doing(worker):
    since = f' for {seconds(worker.running_for)}' if worker.running_for is not None else ''
    return f'runs {worker.function} of {worker.workqueue}{since}'


# pools


def _stuck_pool(snapshot, pool):
    verdict, blamed = _blame_pool(pool)
    title = f'{_pool_words(pool)}: {plural(len(pool.waiting), "item")} waiting, nothing started for ' \
            f'{seconds(pool.no_progress_for)}'
    return Stall('pool', title, pool.no_progress_for, _pool_facts(snapshot, pool), verdict, blamed)


def _pool_facts(snapshot, pool):
    facts = [f'waiting: {_by_workqueue(pool.waiting)}']
    facts += [f'in flight: {worker_name(worker)} {_doing(worker)}{_is(worker)}' for worker in
              sorted(pool.busy, key=lambda worker: -(worker.running_for or 0))]
    held = held_items(snapshot, pool)
    if held:
        facts.append(f'held back: {_by_workqueue(held)}')
    workers = f'workers: {pool.nr_workers}, of these {pool.nr_idle} idle'
    if pool.kind == 'percpu':
        workers += f', {pool.nr_running} counted as running'
    facts.append(workers)
    if pool.manager is not None:
        facts.append(f'manager: pid {pool.manager} is creating workers')
    if pool.mayday:
        facts.append(f'called to the rescue: the rescuers of {", ".join(pool.mayday)}')
    facts += [f'at work: the rescuer of {worker.rescuer}' for worker in pool.workers if worker.rescuer]
    return facts


def _by_workqueue(items):
    parts = collections.defaultdict(list)
    for item in items:
        parts[item.workqueue].append(item)
    barriers = sum(item.barrier for item in items)
    words = [f'{queued(found)} of {name}' for name, found in parts.items() if queued(found)]
    return ', '.join(words + ([plural(barriers, 'flush barrier')] if barriers else []))


def _is(worker):
    """What the scheduler says about a worker."""
    if worker.state == 'R':
        uncounted = UNCOUNTED & {*worker.flags} - {'UNBOUND'}
        return f', on CPU {worker.cpu}' + ', not counted as running' * bool(uncounted)
    return ', asleep' if worker.pid is not None else ''


def _blame_pool(pool):
    """Why a pool makes no progress, and what is to blame."""
    if pool.kind == 'bh':
        return _blame_softirq(pool)
    if pool.kind == 'percpu' and 'DISASSOCIATED' not in pool.flag_names:
        hogs = [worker for worker in pool.busy if worker.state == 'R' and not UNCOUNTED & {*worker.flags}]
        if hogs:
            why = f'has been running on CPU {pool.cpu} without sleeping'
            return ('one worker at a time runs here, and the next may start only when that one sleeps or ends',
                    [Blame(why, worker) for worker in hogs[:MANY]])
        if pool.nr_running > 0:
            return (f'{plural(pool.nr_running, "worker")} counted as running, yet none is: one is just being woken '
                    'or the count is wrong', [Blame(f'is what CPU {pool.cpu} runs', cpu=pool.cpu)])
    return _blame_no_worker(pool) if not pool.nr_idle else _blame_no_show(pool)


def _blame_softirq(pool):
    running = pool.busy
    if running:
        return ('the softirq runs one item after the other, and this one does not return',
                [Blame('has not returned', worker) for worker in running])
    return (f'the softirq of CPU {pool.cpu} does not get to run',
            [Blame(f'is what CPU {pool.cpu} runs', cpu=pool.cpu)])


def _blame_no_worker(pool):
    """No worker is left to take the next item."""
    longest = sorted(pool.busy, key=lambda worker: -(worker.running_for or 0))[:MANY]
    blamed = [Blame('occupies a worker', worker) for worker in longest]
    manager = next((worker for worker in pool.workers if worker.pid == pool.manager), None)
    rescue = ' and the rescuers that were called do not help' if pool.mayday else ''
    if pool.manager is None:
        return 'all workers are busy, and none is creating another', blamed
    why = 'all workers are busy, and making another one fails or takes long (memory is short?)' + rescue
    return why, [Blame('is the one that creates workers', manager)] + blamed if manager else blamed


def _blame_no_show(pool):
    """There is an idle worker. It should have been woken and should have taken the item."""
    woken = [worker for worker in pool.workers if worker.item is None and worker.state == 'R']
    cpus = f'CPU {pool.cpu}' if pool.cpu is not None else f'CPUs {cpulist(pool.pod_cpus or pool.cpus)}'
    if not woken:
        idle = [worker for worker in pool.workers if worker.item is None and worker.rescuer is None][:1]
        return ('an idle worker should have been woken and was not: a lost wake-up',
                [Blame('is idle and would be next', worker) for worker in idle])
    busy_cpus = sorted({worker.cpu for worker in woken if worker.cpu is not None})
    return (f'{worker_name(woken[0])} was woken but does not get to run on {cpus}: something else keeps the CPU',
            [Blame(f'is what CPU {cpu} runs', cpu=cpu) for cpu in busy_cpus[:MANY]])


# max_active


def _limit_groups(snapshot, wq):
    """
    The pwqs that share one limit and have at least one item held back: (where, pwqs).
    In a per-CPU workqueue each CPU has its own limit, in an unbound one each node.
    """
    nodes = {pool.id: pool.node for pool in snapshot.pools}
    groups = collections.defaultdict(list)
    for pwq in wq.pwqs:
        groups[nodes.get(pwq.pool, -1) if wq.type == 'unbound' else 0 if wq.type == 'ordered' else pwq.pool].append(pwq)
    return [(key, pwqs) for key, pwqs in groups.items() if any(pwq.inactive for pwq in pwqs)]


def _held_back(snapshot, wq, key, pwqs):
    """Return the stall of items that a limit holds back, or None if no slot is taken, or if some are free."""
    # an unbound item may also be held back until an earlier one of its pwq has started
    if wq.type == 'unbound' and not any(pwq.plugged for pwq in pwqs if pwq.inactive) and \
            sum(pwq.nr_active for pwq in pwqs) < _limit(wq, key):
        return None
    ids = {pwq.pool for pwq in pwqs}
    pools = [pool for pool in snapshot.pools if pool.id in ids]
    holders = [worker for pool in pools for worker in pool.busy if worker.workqueue == wq.name]
    stuck_in = [pool for pool in pools if any(item.workqueue == wq.name and not item.barrier for item in pool.waiting)]
    times = [worker.running_for for worker in holders] + [pool.no_progress_for for pool in stuck_in]
    if not times:
        return None
    # 6.12 does not record when a worker started its item
    least = None if None in times else min(times)
    lasts = '(this kernel does not say for how long)' if least is None else f'for at least {seconds(least)}'
    longest = sorted(holders, key=lambda worker: -(worker.running_for or 0))

    held = [item for pwq in pwqs for item in pwq.inactive]
    facts = [f'held back: {_by_workqueue(held)}']
    facts += [f'holds a slot: {worker_name(worker)} {_doing(worker)}{_is(worker)}' for worker in longest]
    facts += [f'holds a slot: {queued([item for item in pool.waiting if item.workqueue == wq.name])}, waiting in '
              f'{_pool_words(pool)}, which makes no progress' for pool in stuck_in]
    node = f' on node {key}' if key >= 0 else ''
    where = {'ordered': '', 'unbound': node}.get(wq.type, f' on {_pool_words(pools[0])}')
    title = f'workqueue {wq.name}{where}: {plural(len(held), "item")} held back {lasts}'
    return Stall('held back', title, least, facts, _limit_words(wq, key, pwqs, holders, stuck_in),
                 [Blame('holds a slot', worker) for worker in longest[:MANY]])


def _limit(wq, key):
    if wq.type == 'unbound':
        for active in wq.node_active:
            if active.node == key:
                return active.max
    return wq.max_active


def _limit_words(wq, key, pwqs, holders, stuck_in):
    if wq.type == 'ordered' and any(pwq.plugged for pwq in pwqs):
        return 'the workqueue is ordered and its attributes changed: items on the new pool wait until those on ' \
               'the old one are done'
    if all(pwq.plugged for pwq in pwqs if pwq.inactive):
        return 'a CPU got its own pwq: items there wait until its older ones have started'
    if wq.type == 'ordered':
        return 'the workqueue is ordered, so all wait until the one that runs is done'
    limit = _limit(wq, key)
    share = f' (this node\'s share of max_active {wq.max_active})' if limit != wq.max_active else ''
    if stuck_in and not holders:
        return f'max_active leaves {plural(limit, "slot")}{share}, taken by what waits itself: see the pool above'
    return f'{plural(limit, "item")} may be active at a time{share}, and none of those ends'


# with the kernel at hand


def default_threshold(prog):
    """Seconds after which the kernel's watchdog would report a stall, 30 if it is off."""
    try:
        return prog['wq_watchdog_thresh'].value_() or DEFAULT_THRESHOLD
    except LookupError:
        return DEFAULT_THRESHOLD


def report(prog, snapshot, threshold=None):
    """What makes no progress, why, and the stacks of those to blame, as a list of lines."""
    threshold = default_threshold(prog) if threshold is None else threshold
    stalls = find(snapshot, threshold)
    if not stalls:
        return [f'no stalls: every pool with work made progress within {seconds(threshold)}, and no item is held back '
                'behind others that run for longer than that']
    lines = []
    for stall in stalls:
        lines += [stall.title] + [f'  {fact}' for fact in stall.facts] + [f'  why: {stall.verdict}']
        shown = {}
        for blame in stall.blamed:
            who, stack = _who_and_stack(prog, snapshot, blame)
            lines.append(f'  blamed: {who}')
            lines.append(f'    (the stack of {shown[stack]})') if stack in shown else lines.extend(
                f'    {line}' for line in stack)
            shown.setdefault(stack, who.split(' (pid')[0])
        lines.append('')
    return lines[:-1]


def _who_and_stack(prog, snapshot, blame):
    """What to look at and why, as text, and the stack frames, as a tuple of lines."""
    from drgn.helpers.linux.pid import find_task
    from drgn.helpers.linux.sched import cpu_curr
    worker = blame.worker
    if worker is not None and worker.pid is not None:
        task, name = find_task(prog, worker.pid), worker_name(worker)
        if not task:
            return f'{name} {blame.why}; it has ended meanwhile', ()
    else:
        task = cpu_curr(prog, blame.cpu if worker is None else worker.cpu)
        name = f'{task.comm.string_().decode(errors="replace")} (pid {task.pid.value_()})'
        if worker is not None:
            name = f'{worker_name(worker)}, in {name},'
    return f'{name} {blame.why}', tuple(_stack(prog, task, snapshot.kernel.source))


def _stack(prog, task, source):
    """A line for each stack frame of a task, or why there are none."""
    from drgn import FaultError
    try:
        frames = str(prog.stack_trace(task)).splitlines()
    except (ValueError, LookupError, FaultError) as error:
        if source == 'live' and 'running' in str(error):
            return ['(it is running, and the stack of a running task can be read only in a dump; to make the kernel '
                    'log it: echo l >/proc/sysrq-trigger)']
        return [f'(no stack: {error})']
    return frames or ['(no stack: it is in user space or just starting)']
