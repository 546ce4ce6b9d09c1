# SPDX-License-Identifier: GPL-2.0
"""The state of one work item: where it is, what it waits for, who runs it.

All of it follows from the word work->data, and from the lists and workers to which
that refers. kernel/workqueue/data.c describes the word.

    resolve(prog, text)     the address that a person named by number, symbol or symbol+offset
    state(prog, address)    a dict of plain values, ready for JSON:
        address ("0x..."), symbol, function, kind ("work", "delayed_work", "rcu_work" or "barrier")
        where       "idle", "running" (and not queued again), "timer", "grace period", "claimed", "worklist",
                    "held back", "scheduled" or "freed"
        off queue:  last_pool, last_pool_serves, disabled, cancelling, bh
        queued:     workqueue, pool, pool_serves, position, of, waiters, bh; worker (of "scheduled");
                    active, max_active, node_active ([node, active, limit] or None),
                    plugged, mayday
        timer:      expires_in, cpu, workqueue, for_cpu (None: any)
        waits       of a barrier: who waits for it
        running     the workers that run it, usually none or one: pid and comm (None: a softirq),
                    cpu, pool, function, workqueue, running_for, waiters
    words(facts)            the same as text, a list of lines
    describe(prog, address) both
"""
from drgn import FaultError, Object, container_of
from drgn.helpers.linux.idr import idr_find
from drgn.helpers.linux.sched import task_cpu

from . import program, structs
from .model import cpulist
from .picture import seconds

TRIES = 5               # on a live kernel an item may move while it is read
TIMER_CPU = 0x3ffff     # TIMER_CPUMASK: in timer->flags, the CPU that has the timer
BARRIER = 'wq_barrier_func'
RCU_FUNCTION = 'rcu_work_rcufn'


class _NoItem(Exception):
    """The memory does not look like a work item, for the given reason."""


def resolve(prog, text):
    if isinstance(text, int):
        text = hex(text)
    name, _, offset = text.strip().partition('+')
    try:
        if name[:1].isdigit():
            return (int(name, 0) + (int(offset, 0) if offset else 0)) % (1 << 64)
        extra = int(offset, 0) if offset else 0
    except ValueError:
        raise program.Trouble(f'{text} does not name a work item: give 0xADDRESS, SYMBOL or SYMBOL+0xOFFSET') from None
    return _symbol(prog, name) + extra


def _symbol(prog, name):
    found = sorted({symbol.address for symbol in prog.symbols(name)})
    if not found:
        raise program.Trouble(f'{name}: this kernel has no such symbol; give the address of the work item, 0x...')
    if len(found) > 1:
        raise program.Trouble(f'{name}: there are {len(found)} of that name; give an address: '
                              + ', '.join(map(hex, found)))
    return found[0]


def state(prog, address):
    address = resolve(prog, address)
    for _ in range(TRIES):
        try:
            return _read(prog, address)
        except _NoItem as error:
            problem = f'there is no work item at {address:#x}: {error}'
        except (FaultError, OverflowError):
            problem = f'there is no work item at {address:#x}: no such memory'
        except structs.Broken as error:
            problem = f'the work item at {address:#x} cannot be followed: {error}; try again'
        if program.source(prog) != 'live':
            break
    raise program.Trouble(problem)


def describe(prog, address):
    return words(state(prog, address))


# reading


def _read(prog, address):
    work = Object(prog, 'struct work_struct', address=address)
    facts = {'address': f'{address:#x}', 'symbol': _variable(prog, address), 'kind': 'work',
             'running': _runners(prog, address)}
    problem = _why_no_item(work)
    if problem and facts['running'] and all(_why_no_item(work) for _ in range(TRIES)):
        # It is not just moving between lists. Its function may have freed it, so do not report an error.
        return {**facts, 'where': 'freed', 'function': facts['running'][0]['function']}
    if problem:
        raise _NoItem(problem)

    facts['function'] = structs.function(prog, work.func.value_())
    pwq = structs.work_pwq(work)
    facts.update(_queued(work, pwq) if pwq is not None else _off_queue(work))
    _read_container(work, facts)
    if facts['where'] == 'idle' and facts['running']:
        facts['where'] = 'running'
    return facts


def _variable(prog, address):
    """The static variable that is or contains the item."""
    try:
        symbol = prog.symbol(address)
    except LookupError:
        return None
    offset = address - symbol.address
    return f'{symbol.name}+{offset:#x}' if offset else symbol.name


def _why_no_item(work):
    """Why there can be no work item at this place, None if there can be."""
    prog, entry = work.prog_, work.entry
    if work.address_ % 8:
        return 'the address is not a multiple of 8'
    try:
        function, here = work.func.value_(), entry.address_of_().value_()
    except FaultError:
        return 'no such memory'
    try:
        if entry.next.prev.value_() != here or entry.prev.next.value_() != here:
            return 'its list links do not match'
        prog.read(function, 1)
        pwq = structs.work_pwq(work)
        sound = bool(function) and (_last_pool(work) is None or _last_pool(work) < structs.LIMIT if pwq is None else
                                    bool(_pool_by_id(prog, pwq.pool.id.value_()) == pwq.pool))
    except FaultError:
        return 'it would point to where there is no memory'
    return None if sound else f'its data word would be {structs.work_data(work):#x}'


def _bit(work, name):
    number = structs.constant(work.prog_, name)
    return number is not None and bool(structs.work_data(work) >> number & 1)


def _last_pool(work):
    """Number of the pool that had the item last, None if it never was on one."""
    prog = work.prog_
    number = structs.work_data(work) >> structs.constant(prog, 'WORK_OFFQ_POOL_SHIFT')
    return None if number >= (1 << structs.constant(prog, 'WORK_OFFQ_POOL_BITS')) - 1 else number


def _pool_by_id(prog, number):
    return idr_find(prog['worker_pool_idr'].address_of_(), number)


def _off_queue(work):
    prog, pool = work.prog_, _last_pool(work)
    shift, bits = (structs.constant(prog, f'WORK_OFFQ_DISABLE_{what}') for what in ('SHIFT', 'BITS'))
    disabled = structs.work_data(work) >> shift & (1 << bits) - 1 if bits else 0
    found = _pool_by_id(prog, pool) if pool is not None else None
    return {'where': 'claimed' if _bit(work, 'WORK_STRUCT_PENDING_BIT') else 'idle', 'last_pool': pool,
            'last_pool_serves': _serves(Object(prog, 'struct worker_pool *', found)) if found else None,
            'disabled': disabled, 'cancelling': _bit(work, 'WORK_OFFQ_CANCELING_BIT'),
            'bh': _bit(work, 'WORK_OFFQ_BH_BIT')}


def _serves(pool):
    """What a pool serves: "CPU 3, highpri", "CPUs 0-7", "CPU 1, BH"."""
    kind, nice = structs.pool_kind(pool), pool.attrs.nice.value_()
    if kind == 'unbound':
        pod = structs.field(pool.attrs, '__pod_cpumask', 'cpumask')
        own = structs.own_cpu(pool)
        return f'CPUs {cpulist(structs.cpus(pod))}, unbound' + (f', own={own}' if own is not None else '') \
            + (f', nice {nice}' if nice else '')
    return f'CPU {pool.cpu.value_()}' + ', BH' * (kind == 'bh') + ', highpri' * (nice < 0)


def _queued(work, pwq):
    pool = pwq.pool
    facts = {'workqueue': structs.wq_name(pwq.wq), 'pool': pool.id.value_(), 'pool_serves': _serves(pool),
             'bh': structs.pool_kind(pool) == 'bh', 'active': pwq.nr_active.value_(),
             'max_active': pwq.wq.max_active.value_(), 'node_active': _node_active(pwq),
             'plugged': bool(structs.field(pwq, 'plugged')), 'worker': None,
             'mayday': any(one.value_() == pwq.value_() for one in structs.maydays(pwq.wq))}
    for where, items, worker in _lists(pwq):
        found = _find(list(items), work.address_)
        if found:
            return {**facts, **found, 'where': where, 'worker': worker}
    raise _NoItem('its data word says that it is queued, but it is on none of the lists')


def _node_active(pwq):
    """[node, active, limit] of an unbound workqueue, which has a limit for each node."""
    if not pwq.wq.flags.value_() & structs.constant(pwq.prog_, 'WQ_UNBOUND'):
        return None
    node = pwq.pool.node.value_()
    found = structs.node_active(pwq.wq, node)
    return [node, found.nr.counter.value_(), found.max.value_()] if found is not None else None


def _lists(pwq):
    """All lists that an item of this pwq may be on, as (where, items, worker)."""
    yield 'worklist', structs.waiting(pwq.pool), None
    yield 'held back', structs.inactive(pwq), None
    for worker in _workers(pwq.pool):
        yield 'scheduled', structs.scheduled(worker), _worker_facts(worker)


def _workers(pool):
    bh_worker = structs.bh_worker(pool)
    return [bh_worker] if bh_worker is not None else list(structs.pool_workers(pool))


def _is_barrier(work):
    return structs.function(work.prog_, work.func.value_()) == BARRIER


def _find(items, address):
    """Return the position of an item in a list, and who waits for it. Flush barriers are not counted.

    Return None if the item is not in the list.
    """
    index = next((index for index, one in enumerate(items) if one.value_() == address), None)
    if index is None:
        return None
    real = [one.value_() for one in items if not _is_barrier(one) or one.value_() == address]
    last = index
    while _bit(items[last], 'WORK_STRUCT_LINKED_BIT') and last + 1 < len(items):
        last += 1
    return {'position': real.index(address) + 1, 'of': len(real), 'waiters': _waiters(items[index + 1:last + 1])}


def _waiters(items):
    return [_waiter(work) for work in items if _is_barrier(work)]


def _waiter(work):
    """The task that sleeps until a barrier runs."""
    task = Object(work.prog_, 'struct wq_barrier *', work.value_()).task
    return {'pid': task.pid.value_(), 'comm': structs.string(task.comm)}


def _runners(prog, address):
    """Return the workers that run the item. They are found by its address: the item may have been freed."""
    return [facts for pool in structs.pools(prog) for facts in _runners_in(pool, address)] if address else []


def _runners_in(pool, address):
    """On a live kernel, workers come and go. If reading fails several times, leave the pool out."""
    for _ in range(TRIES):
        try:
            return [_worker_facts(worker) for worker in _workers(pool) if worker.current_work.value_() == address]
        except (FaultError, structs.Broken):
            if program.source(pool.prog_) != 'live':
                raise
    return []


def _worker_facts(worker):
    prog, pool, task = worker.prog_, worker.pool, worker.task
    start = structs.field(worker, 'current_start')
    pwq = worker.current_pwq
    return {'pid': task.pid.value_() if task else None,
            'comm': structs.string(task.comm) if task else None,
            'cpu': task_cpu(task) if task else pool.cpu.value_(), 'pool': pool.id.value_(),
            'function': structs.function(prog, worker.current_func.value_()) if worker.current_func else None,
            'workqueue': structs.wq_name(pwq.wq) if pwq else None,
            'running_for': structs.since(prog, start.value_()) if start is not None and worker.current_work else None,
            'waiters': _waiters(_leading_barriers(worker)) if worker.current_work else []}


def _leading_barriers(worker):
    """Yield the barriers of the running item. They come first on the worker's own list."""
    for work in structs.scheduled(worker):
        if not _is_barrier(work):
            return
        yield work


def _read_container(work, facts):
    """A work item is often the first part of a delayed_work or rcu_work: look at what follows it."""
    prog = work.prog_
    if facts['function'] == BARRIER:
        facts.update(kind='barrier', waits=_waiter(work.address_of_()))
        return
    try:
        delayed = container_of(work.address_of_(), 'struct delayed_work', 'work')
        if structs.function(prog, delayed.timer.function.value_()) == 'delayed_work_timer_fn':
            facts['kind'] = 'delayed_work'
            _read_timer(delayed, facts)
            return
        rcu = container_of(work.address_of_(), 'struct rcu_work', 'work')
        if structs.function(prog, rcu.rcu.func.value_()) == RCU_FUNCTION:
            facts['kind'] = 'rcu_work'
            if facts['where'] == 'claimed':
                facts.update(where='grace period', workqueue=structs.wq_name(rcu.wq))
    except FaultError:
        pass        # a plain work item at the end of memory


def _read_timer(delayed, facts):
    if not delayed.timer.entry.pprev:
        return
    prog, cpu = delayed.prog_, delayed.cpu.value_()
    ticks = (delayed.timer.expires.value_() - structs.jiffies(prog)) & (1 << 64) - 1
    ticks -= (ticks >> 63) << 64        # in the past
    facts['timer'] = {'expires_in': ticks / structs.hz(prog), 'cpu': delayed.timer.flags.value_() & TIMER_CPU,
                      'workqueue': structs.wq_name(delayed.wq),
                      'for_cpu': None if cpu == structs.constant(prog, 'WORK_CPU_UNBOUND') else cpu}
    if facts['where'] == 'claimed':
        facts['where'] = 'timer'


# describing


def words(facts):
    kind = {'work': 'a work item', 'delayed_work': 'a delayed work item', 'rcu_work': 'an RCU work item',
            'barrier': 'a flush barrier'}[facts['kind']]
    name = f' ({facts["symbol"]})' if facts['symbol'] else ''
    lines = [f'{facts["address"]}{name}: {kind} that runs {facts["function"]}']
    queue, runs = _WHERE[facts['where']](facts), []
    for worker in facts['running']:
        runs += _running_words(facts, worker)
    lines += runs + queue if facts['where'] == 'running' else queue + (runs or ['  not running'])
    return lines + _remarks(facts)


def _idle_words(facts):
    if facts['last_pool'] is None:
        return ['  idle: not queued, and never was since it was initialised']
    serves = facts['last_pool_serves']
    return [f'  idle: not queued; was last on pool {facts["last_pool"]} '
            + (f'({serves})' if serves else '(which is gone)')]


def _not_queued_words(facts):
    return ['  not queued again']


def _timer_words(facts):
    timer = facts['timer']
    left = timer['expires_in']
    when = f'expires in {seconds(left)}' if left >= 0 else f'should have expired {seconds(-left)} ago'
    target = f'workqueue {timer["workqueue"]}' + ('' if timer['for_cpu'] is None else f' on CPU {timer["for_cpu"]}')
    return [f'  pending on its timer, which {when} on CPU {timer["cpu"]} and queues it on {target}']


def _claimed_words(facts):
    return ['  claimed (pending, but neither queued nor on a timer): somebody is queueing, cancelling, disabling or '
            'enabling it right now']


def _grace_words(facts):
    return [f'  waits for an RCU grace period, after which it is queued on workqueue {facts["workqueue"]}']


def _place(facts):
    return f'pool {facts["pool"]} ({facts["pool_serves"]})'


def _worklist_words(facts):
    return [f'  queued on workqueue {facts["workqueue"]}: waits for a worker of {_place(facts)}, '
            f'{_position(facts)} on its worklist']


def _position(facts):
    return f'number {facts["position"]} of {facts["of"]}'


def _held_words(facts):
    text = f'  queued on workqueue {facts["workqueue"]}, held back as {_position(facts)} on {_place(facts)}: '
    if facts['plugged']:
        return [text + 'older items in another pwq come first']
    if not facts['max_active']:
        return [text + 'max_active is 0, the workqueue is frozen']
    if facts['node_active']:
        node, active, limit = facts['node_active']
        where = f'of node {node}' if node >= 0 else 'across nodes'
        if active < limit:
            text += 'an earlier one has yet to start; '
        return [text + f'{active} of {limit} items {where} are active (max_active {facts["max_active"]})']
    return [text + f'{facts["active"]} of {facts["max_active"]} items are active (max_active)']


def _scheduled_words(facts):
    worker = facts['worker']
    is_runner = any((one['pid'], one['pool']) == (worker['pid'], worker['pool']) for one in facts['running'])
    reason = 'which runs it now and so gets it again' if is_runner else 'which runs it next'
    if facts['kind'] == 'barrier':
        reason = 'which runs it next'
    return [f'  queued on workqueue {facts["workqueue"]} and given to {_worker_name(worker)} of {_place(facts)}, '
            f'{reason}; {_position(facts)} there']


def _freed_words(facts):
    return ['  its memory holds something else by now: the function freed it']


_WHERE = {'idle': _idle_words, 'running': _not_queued_words, 'timer': _timer_words, 'claimed': _claimed_words,
          'grace period': _grace_words, 'worklist': _worklist_words, 'held back': _held_words,
          'scheduled': _scheduled_words, 'freed': _freed_words}


def _worker_name(worker):
    return 'the softirq' if worker['pid'] is None else f'{worker["comm"]} (pid {worker["pid"]})'


def _running_words(facts, worker):
    queued = facts['where'] in ('worklist', 'held back', 'scheduled', 'timer', 'grace period')
    since = '' if worker['running_for'] is None else f' for {seconds(worker["running_for"])}'
    text = f'  {"also " * queued}running{since} on {_worker_name(worker)}, CPU {worker["cpu"]}, ' \
           f'pool {worker["pool"]}, workqueue {worker["workqueue"]}'
    if worker['function'] != facts['function']:
        text += f'; as {worker["function"]}: it was initialised again since'
    return [text + ('; it runs again after that' if queued else '')] + _waiter_words(worker['waiters'], 'this run')


def _waiter_words(waiters, what):
    return [f'    {waiter["comm"]} (pid {waiter["pid"]}) waits for {what} to finish' for waiter in waiters]


def _remarks(facts):
    lines = _waiter_words(facts.get('waiters', ()), 'it')
    if facts.get('mayday'):
        lines.append(f'  the rescuer of {facts["workqueue"]} has been called')
    if facts.get('disabled'):
        lines.append(f'  disabled {facts["disabled"]} deep: queueing it is refused (disable_work(), or '
                     'cancel_work_sync() while it waits)')
    if facts.get('cancelling'):
        lines.append('  being cancelled: queueing it is refused')
    if facts.get('waits'):
        lines.append(f'  {facts["waits"]["comm"]} (pid {facts["waits"]["pid"]}) sleeps until it runs')
    if facts.get('bh'):
        lines.append('  runs in softirq (a BH workqueue)')
    return lines
