# SPDX-License-Identifier: GPL-2.0
"""What a CPU did when perf took a sample of its stack.

The nearest function of the workqueue on the stack decides, and what it has called:

lock      it takes a lock, which is that of a pool in all but rare cases
waking    it wakes a worker
queueing  it queues an item, apart from both
item      it has called the function of an item
rest      it serves a pool, flushes or cancels, apart from lock and waking
other     there is none: programs, system calls, interrupts

The names are those of functions in kernel/workqueue/ and in the base kernel's workqueue.c. A
function that the compiler has inlined counts for the function that calls it.
"""
import re
from collections.abc import Sequence

LOCK, WAKING, QUEUEING, ITEM, REST, OTHER = CLASSES = ('lock', 'waking', 'queueing', 'item', 'rest', 'other')
IDLE, TRACING = 'idle', 'tracing'       # not counted: nothing runs; the profile itself

# Functions that others call, or with which a stack begins
QUEUES = frozenset('''
    queue_work_on queue_work_node queue_delayed_work_on mod_delayed_work_on queue_rcu_work
    delayed_work_timer_fn rcu_work_rcufn __queue_work __queue_delayed_work
    '''.split())
RUNS = frozenset('process_scheduled_works process_one_work worker_call bh_worker'.split())
SERVES = frozenset('''
    worker_thread rescuer_thread workqueue_softirq_action
    manage_workers maybe_create_worker pool_mayday_timeout idle_worker_timeout
    flush_work __flush_work __flush_workqueue flush_delayed_work flush_rcu_work drain_workqueue
    cancel_work cancel_work_sync cancel_delayed_work cancel_delayed_work_sync
    disable_work disable_work_sync disable_delayed_work disable_delayed_work_sync
    enable_work enable_delayed_work
    wq_worker_running wq_worker_sleeping wq_worker_tick wq_watchdog_timer_fn
    '''.split())
ROLES = QUEUES | RUNS | SERVES
WAKES = frozenset('kick_pool kick_pool_pick kick_bh_pool pool_pick_worker'.split())

# What lies between the functions above and what they call
HELPER = re.compile(r'(pwq|work|worker|pool|wq|slots)_\w+|__pwq_activate_work|__cancel_work(_sync)?|'
                    r'kick_(bh_)?pool(_pick)?|insert_work|insert_wq_barrier|move_linked_works|'
                    r'assign_work|find_worker_executing_work|first_idle_worker|start_flush_work|try_to_grab_pending|'
                    r'(get|put|set|init)_(work|pwq)(_\w+)?|node_activate_pending_pwq|try(inc|add)_node_nr_active|'
                    r'debug_work_\w+|(alloc|create|detach|unbind)_worker|check_flush_dependency|'
                    r'data_(pwq|off_pool|static_bits|color)|'
                    r'is_chained_work|clear_pending_if_disabled|flush_workqueue_prep_pwqs|need_(more|to_create)_worker|'
                    r'set_pf_worker|format_worker_id|link_pwq|unbound_effective_cpumask|keep_working|may_start_working|'
                    r'select_numa_node_cpu|wq_ask_for_own|dwork_start_timer|send_mayday|wci_find_\w+|'
                    r'hog_add|note_hog\w*')
LOCKS = re.compile(r'_raw_(spin|read|write)_(lock|trylock)\w*|\w*queued_spin_lock_slowpath|do_raw_spin_(lock|trylock)')
WAKE_UPS = re.compile(r'wake_up_process|try_to_wake_up|wake_up_state|irq_work_queue_on|__raise_softirq_irqoff')
# What a worker calls before and after the function of an item
NOT_ITEM = re.compile(r'_raw_spin_\w+|\w*cond_resched|\w*schedule|\w*strscpy|(un)?block_signals\w*|_?_?rcu_\w+|'
                      r'lock(dep)?_\w+|__fentry__|\w*_(return|indirect)_thunk\w*|cpumask_\w+|_find_\w+')
# The first function of an interrupt, or of what runs after interrupts
INTERRUPT = re.compile(r'asm_(sysvec|common_interrupt|exc)_?\w*|el[01]\w*_irq\w*|gic_handle_irq|'
                       r'sig_handler(_common)?|hard_handler|ipi_sig_handler|timer_alarm_handler|do_IRQ|'
                       r'handle_softirqs|__do_softirq')
IDLES = frozenset('default_idle_call cpuidle_enter cpuidle_enter_state cpu_idle_poll arch_cpu_idle'.split())
TRACES = re.compile(r'__traceiter_\w+|trace_event_raw_event_\w+|perf_trace_\w+|perf_tp_event')


def part(name: str) -> str:
    """Return a name without the suffixes that compilers append to parts and variants of a function."""
    return name.partition('.')[0]


def until_interrupt(stack: Sequence[str]) -> Sequence[str]:
    """Return what an interrupt does, without what it has interrupted."""
    return next((stack[:place] for place, name in enumerate(stack) if INTERRUPT.fullmatch(name)), stack)


def classify(names: Sequence[str]) -> str:
    """Return the class of a stack, whose innermost function comes first."""
    stack = until_interrupt([part(name) for name in names])
    if any(TRACES.fullmatch(name) for name in stack):
        return TRACING
    place = next((place for place, name in enumerate(stack) if name in ROLES), None)
    if place is not None:
        return of_workqueue(stack[place], stack[:place])
    return IDLE if len(stack) == len(names) and IDLES.intersection(stack) else OTHER


def of_workqueue(role: str, inner: Sequence[str]) -> str:
    """Return what a function of the workqueue does, by the functions inside it."""
    called = list(inner)
    while called and HELPER.fullmatch(called[-1]):
        if called.pop() in WAKES:
            return WAKING
    first = called[-1] if called else ''
    if LOCKS.fullmatch(first):
        return LOCK
    if WAKE_UPS.fullmatch(first):
        return WAKING
    if role in QUEUES:
        return QUEUEING
    if role in RUNS and first and not NOT_ITEM.fullmatch(first):
        return ITEM
    return REST
