# SPDX-License-Identifier: GPL-2.0
"""Small accessors that hide differences between kernels and cope with a live kernel that changes.

    field(obj, *names)              member by the first of its names that exists, else None
    walk(head, type, member)        objects of a list_head list; raises Broken when the list
                                    changes meanwhile, FaultError when memory is gone
    linked(obj, member), pool_exists(pool)  whether a live kernel still has it
    workqueues(prog), pools(prog)   every workqueue_struct *; every worker_pool *, by id
    pwqs(wq), maydays(wq)           pool_workqueue *: all linked; those that wait for the rescuer
    pool_workers(pool)              worker *: including active rescuers; none in a BH pool
    bh_worker(pool)                 the pseudo worker of a BH pool, else None
    waiting(pool), scheduled(worker), inactive(pwq)     work_struct *
    cpu_pwq(wq, cpu)                pool_workqueue * on which the CPU queues, or None
    node_active(wq, node)           wq_node_nr_active * of a node or -1, None if not unbound
    wq_attrs(wq)                    workqueue_attrs * (NULL for per-CPU ones), wq_name(wq)
    wq_type(wq)                     "percpu", "unbound", "ordered" or "bh"
    pool_kind(pool)                 "percpu", "unbound" or "bh"
    own_cpu(pool)                   the only CPU that queues on this unbound pool, None: all of its pod may
    work_data(work)                 work->data as a number
    work_pwq(work)                  pool_workqueue * that it is queued on, else None
    constant(prog, name)            an enumerator's value, None if this kernel has none
    enumerators(prog, type, prefix) {name without prefix: value} of an enum type
    flag_names(prog, type, prefix, flags)   names of the single bits set
    function(prog, address)         symbol, "symbol+0x10", else "0xffff..."
    string(obj)                     char array or char * as str, whatever is in it
    cpus(mask)                      a cpumask of any make (array, pointer, NULL) as a list
    possible_cpus(prog), online_cpus(prog), nodes(prog), possible_nodes(prog)
    node_cpus(prog)                 {possible node: its CPUs}, None without CONFIG_NUMA
    hz(prog), jiffies(prog), uptime(prog)   uptime in seconds
    since(prog, stamp)              seconds since the jiffies @stamp, never below 0
    stat_names(prog)                {"started": index into pwq->stats, ...} that this kernel has

This module imports drgn: import it in a main(), after program.get().
Objects are drgn Objects. A NULL pointer is returned as None where it says "or None".
"""
import drgn
from drgn import FaultError, Object, cast, container_of
from drgn.helpers.linux.idr import idr_find, idr_for_each
from drgn.helpers.linux.percpu import per_cpu_ptr

LIMIT = 1 << 20         # entries of one list; a longer one is taken to be endless


class Broken(Exception):
    """A list that is damaged or changed while it was read."""


def field(obj, *names):
    for name in names:
        try:
            return obj.member_(name)
        except LookupError:
            pass
    return None


def walk(head, type_, member):
    """
    The entries of the list at @head, an Object of struct list_head.

    On a live kernel an entry may move to another list while we look at it. The walk
    would continue there and never come back. It notices because the links of
    neighbours do not agree.
    """
    prog, start = head.prog_, head.address_of_().value_()
    node_type = prog.type('struct list_head *')
    entry_type = prog.type(type_)
    before, node = start, head.next.value_()
    seen = set()
    while node != start:
        if not node or node in seen or len(seen) > LIMIT:
            raise Broken(f'the list at {start:#x} does not end')
        seen.add(node)
        link = Object(prog, node_type, node)
        if link.prev.value_() != before:
            raise Broken(f'the list at {start:#x} changes or is damaged')
        following = link.next.value_()
        yield container_of(link, entry_type, member)
        before, node = node, following


def linked(obj, member):
    """Is the object, which may have been freed, still on the list to which its @member links it?"""
    try:
        node = obj.member_(member)
        address = node.address_of_().value_()
        return node.next.prev.value_() == address and node.prev.next.value_() == address
    except FaultError:
        return False


def pool_exists(pool):
    """An unbound pool is freed with its last user."""
    try:
        return idr_find(pool.prog_['worker_pool_idr'].address_of_(), pool.id).value_() == pool.value_()
    except FaultError:
        return False


def workqueues(prog):
    return walk(prog['workqueues'], 'struct workqueue_struct', 'list')


def pools(prog):
    for _, entry in idr_for_each(prog['worker_pool_idr']):
        if entry:
            yield cast('struct worker_pool *', entry)


def pwqs(wq):
    return walk(wq.pwqs, 'struct pool_workqueue', 'pwqs_node')


def maydays(wq):
    return walk(wq.maydays, 'struct pool_workqueue', 'mayday_node')


def pool_workers(pool):
    # Some kernels also link the pseudo worker of a BH pool here. bh_worker() returns it.
    return (worker for worker in walk(pool.workers, 'struct worker', 'node') if worker.task)


def bh_worker(pool):
    """A softirq has no kthread. It has a pseudo worker, which records what it runs."""
    if pool_kind(pool) != 'bh':
        return None
    for worker in walk(pool.workers, 'struct worker', 'node'):
        return worker
    return None


def waiting(pool):
    return _works(pool.worklist)


def scheduled(worker):
    return _works(worker.scheduled)


def inactive(pwq):
    return _works(pwq.inactive_works)


def _works(head):
    """Work items of a list, without the cursors of rescuers."""
    for work in walk(head, 'struct work_struct', 'entry'):
        if function(work.prog_, work.func.value_()) != 'mayday_cursor_func':
            yield work


def cpu_pwq(wq, cpu):
    return wq.cpu_pwq and per_cpu_ptr(wq.cpu_pwq, cpu)[0] or None


def node_active(wq, node):
    """Unbound workqueues count active items on each node; -1 is the entry behind the last node."""
    slots = field(wq, 'node_nr_active')
    if slots is None or not wq.flags.value_() & constant(wq.prog_, 'WQ_UNBOUND'):
        return None     # others have no array behind the structure
    return slots[node if node >= 0 else _nr_node_ids(wq.prog_)] or None


def _nr_node_ids(prog):
    try:
        return prog['nr_node_ids'].value_()
    except LookupError:
        return 1        # no CONFIG_NUMA


def wq_attrs(wq):
    return field(wq, 'unbound_attrs', 'attrs')


def wq_name(wq):
    return string(wq.name)


def wq_type(wq):
    prog, flags = wq.prog_, wq.flags.value_()
    if flags & (constant(prog, 'WQ_BH') or 0):
        return 'bh'
    if not flags & constant(prog, 'WQ_UNBOUND'):
        return 'percpu'
    return 'ordered' if flags & (constant(prog, '__WQ_ORDERED') or 0) else 'unbound'


def pool_kind(pool):
    if pool.flags.value_() & (constant(pool.prog_, 'POOL_BH') or 0):
        return 'bh'
    return 'percpu' if pool.cpu.value_() >= 0 else 'unbound'


def own_cpu(pool):
    """Not all kernels give CPUs pools of their own."""
    own = field(pool, 'own_cpu')
    return None if own is None or own.value_() < 0 else own.value_()


def work_data(work):
    return work.data.counter.value_() & (1 << 64) - 1


def work_pwq(work):
    """Only a queued item's data points to its pwq; see WORK_STRUCT_PWQ_BIT."""
    prog, data = work.prog_, work_data(work)
    if not data & 1 << constant(prog, 'WORK_STRUCT_PWQ_BIT'):
        return None
    shift = constant(prog, 'WORK_STRUCT_PWQ_SHIFT')
    if shift is None:
        shift = constant(prog, 'WORK_STRUCT_FLAG_BITS')
    return Object(prog, 'struct pool_workqueue *', data >> shift << shift)


def constant(prog, name):
    known = prog.cache.setdefault('wqtools.constants', {})
    if name not in known:
        try:
            known[name] = prog.constant(name).value_()
        except LookupError:
            known[name] = None
    return known[name]


def enumerators(prog, type_, prefix):
    try:
        found = prog.type(type_).enumerators or ()
    except LookupError:
        return {}
    return {one.name.removeprefix(prefix): one.value for one in found if one.name.startswith(prefix)}


def flag_names(prog, type_, prefix, flags):
    known = prog.cache.setdefault(('wqtools.flags', type_, prefix), {})
    if not known:
        # skip enumerators that combine several bits
        known.update((value, name) for name, value in enumerators(prog, type_, prefix).items()
                     if value > 0 and not value & (value - 1))
    return [name for value, name in sorted(known.items()) if flags & value]


def function(prog, address):
    names = prog.cache.setdefault('wqtools.functions', {})
    if address not in names:
        try:
            symbol = prog.symbol(address)
        except LookupError:
            return f'{address:#x}'      # not cached: the module may be found next time
        offset = address - symbol.address
        names[address] = f'{symbol.name}+{offset:#x}' if offset else symbol.name
    return names[address]


def string(obj):
    return obj.string_().decode(errors='replace')


def cpus(mask):
    """cpumask_var_t is a pointer or an array, depending on CONFIG_CPUMASK_OFFSTACK."""
    prog = mask.prog_
    if mask.type_.kind == drgn.TypeKind.TYPEDEF or mask.type_.kind == drgn.TypeKind.ARRAY:
        mask = mask + 0         # an array decays, a pointer stays
    if mask.type_.kind == drgn.TypeKind.STRUCT:
        mask = mask.address_of_()
    if not mask:
        return []
    return _bits(prog, mask.bits.address_of_().value_(), _nr_cpu_ids(prog))


def _nr_cpu_ids(prog):
    try:
        return prog['nr_cpu_ids'].value_()
    except LookupError:
        return 1        # a kernel for one CPU has a constant


def _bits(prog, address, count):
    """Numbers of the bits set in an array of unsigned long."""
    words = [prog.read_word(address + 8 * word) for word in range((count + 63) // 64)]
    return [bit for bit in range(count) if words[bit // 64] >> bit % 64 & 1]


def possible_cpus(prog):
    return cpus(prog['__cpu_possible_mask'])


def online_cpus(prog):
    return cpus(prog['__cpu_online_mask'])


def nodes(prog):
    """The online NUMA nodes; only node 0 without CONFIG_NUMA."""
    return _nodes_that_are(prog, 'N_ONLINE')


def possible_nodes(prog):
    """A node without CPUs and memory may be possible and yet never come online."""
    return _nodes_that_are(prog, 'N_POSSIBLE')


def _nodes_that_are(prog, state):
    try:
        states, wanted = prog['node_states'], prog.constant(state).value_()
    except LookupError:
        return [0]
    bits = states[wanted].bits
    return _bits(prog, bits.address_of_().value_(), min(_nr_node_ids(prog), 64 * len(bits)))


def node_cpus(prog):
    try:
        masks = prog['node_to_cpumask_map']
    except LookupError:
        return None
    return {node: cpus(masks[node]) for node in possible_nodes(prog)}


def hz(prog):
    """Ticks per second, from the length of one tick. HZ itself is not in memory."""
    if 'wqtools.hz' not in prog.cache:
        clock = prog['clocksource_jiffies']
        prog.cache['wqtools.hz'] = round(1e9 / (clock.mult.value_() / (1 << clock.shift.value_())))
    return prog.cache['wqtools.hz']


def jiffies(prog):
    return prog['jiffies'].value_()


def since(prog, stamp):
    """Seconds since @stamp; 0 if it is in the future, since the clock may tick meanwhile."""
    passed = (jiffies(prog) - int(stamp)) & (1 << 64) - 1
    return 0.0 if passed >> 63 else passed / hz(prog)


def uptime(prog):
    """Seconds since boot; jiffies start five minutes before a 32-bit wrap."""
    start = -300 * hz(prog) & (1 << 32) - 1
    return (prog['jiffies_64'].value_() - start) / hz(prog)


def stat_names(prog):
    """The counters of a pwq by name, in their order. Not all kernels have all of them."""
    found = enumerators(prog, 'enum pool_workqueue_stats', 'PWQ_STAT_')
    return {name.lower(): value for name, value in found.items()}
