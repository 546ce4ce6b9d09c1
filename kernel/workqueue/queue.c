// SPDX-License-Identifier: GPL-2.0
/* Queueing: from queue_work() to a pool's worklist. */
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/moduleparam.h>
#include <linux/sched/clock.h>
#include <linux/sched/isolation.h>

#include "active.h"
#include "kick.h"
#include "latency.h"
#include "running.h"

/*
 * Start unbound work from a CPU other than the queueing one.  This finds callers whose
 * work relies on running where it was queued.
 */
static bool wq_debug_force_rr_cpu = IS_ENABLED(CONFIG_DEBUG_WQ_FORCE_RR_CPU);
module_param_named(debug_force_rr_cpu, wq_debug_force_rr_cpu, bool, 0644);

/* the CPU to which this CPU last sent unbound work; interrupts off */
static DEFINE_PER_CPU(int, wq_rr_cpu_last);

static const char wq_rr_warning[] =
	"workqueue: round-robin CPU selection forced, expect performance impact\n";

/*
 * Put an item on the worklist, or hold it back; return the task to wake, see kick_pool().  Another
 * policy for either would go here.  L.
 */
static struct task_struct *pwq_enqueue(struct pool_workqueue *pwq, struct work_struct *work)
{
	unsigned long flags = work_color_to_flags(pwq->work_color);

	if (latency_wanted())
		latency_note_queued(work);
	pwq->nr_in_flight[pwq->work_color]++;

	if (!pwq_reserve_own(pwq) && !pwq_reserve_active(pwq)) {
		insert_work(pwq, work, &pwq->inactive_works, flags | WORK_STRUCT_INACTIVE);
		return NULL;
	}
	pwq_insert_ready(pwq, work, flags);
	return kick_pool(pwq->pool);
}

/* is the caller an item of @wq? */
static bool is_chained_work(struct workqueue_struct *wq)
{
	struct worker *worker = current_worker();

	return worker && worker->current_pwq && worker->current_pwq->wq == wq;
}

/* flags of workqueues that wq_refuses() looks at */
#define WQ_ASK_FIRST	(__WQ_DEPRECATED | __WQ_DRAINING | __WQ_DESTROYING)

/* a workqueue that is being drained takes only what its own items queue */
static noinline bool wq_refuses(struct workqueue_struct *wq, unsigned int flags,
				struct work_struct *work)
{
	WQ_WARN(flags & __WQ_DEPRECATED,
		pr_warn_once("workqueue: work func %ps enqueued on deprecated workqueue. Use system_{percpu|dfl}_wq instead.\n",
			     work->func));

	return (flags & (__WQ_DRAINING | __WQ_DESTROYING)) &&
	       WQ_WARN_ONCE(!is_chained_work(wq), "workqueue: cannot queue %ps on wq %s\n",
			    work->func, wq->name);
}

/*
 * The CPU whose pod gets an item queued on @cpu, which is the calling CPU.  This is @cpu
 * itself if it may do unbound work, else each CPU that may, in turn.
 */
static int wq_select_unbound_cpu(int cpu)
{
	int next;

	if (likely(!READ_ONCE(wq_debug_force_rr_cpu)) &&
	    likely(cpumask_test_cpu(cpu, wq_unbound_cpumask)))
		return cpu;

	WQ_WARN(READ_ONCE(wq_debug_force_rr_cpu), pr_warn_once("%s", wq_rr_warning));

	next = cpumask_next_and_wrap(__this_cpu_read(wq_rr_cpu_last),
				     wq_unbound_cpumask, cpu_online_mask);
	if (next >= nr_cpu_ids)
		return cpu;
	__this_cpu_write(wq_rr_cpu_last, next);
	return next;
}

/*
 * The CPU that runs what @cpu, which is the calling CPU, queues on a per-CPU workqueue without
 * naming a CPU.  Interrupts are off, so a deputy that is online here stays so until they are on.
 */
static inline int wq_percpu_cpu(int cpu)
{
	int deputy;

	if (!static_branch_unlikely(&wq_offload_isolated))
		return cpu;
	deputy = READ_ONCE(per_cpu(wq_deputy, cpu));
	return cpu_online(deputy) ? deputy : cpu;
}

/* the entry of @wq that names the pwq for @req_cpu; interrupts are off */
static struct pool_workqueue __rcu **wq_entry_for(struct workqueue_struct *wq,
						  unsigned int flags, int req_cpu)
{
	int cpu = req_cpu;

	/*
	 * At any time all CPUs must queue on the same pwq, or items could overtake.  A test of
	 * wq_is_ordered() would cost others more.  A per-CPU workqueue has no default pwq.
	 */
	if (unlikely(flags & __WQ_ORDERED) && rcu_access_pointer(wq->dfl_pwq))
		return &wq->dfl_pwq;

	if (likely(cpu == WORK_CPU_UNBOUND)) {
		cpu = raw_smp_processor_id();
		cpu = flags & WQ_UNBOUND ? wq_select_unbound_cpu(cpu) : wq_percpu_cpu(cpu);
	} else if (unlikely(flags & WQ_BH) && !cpu_online(cpu)) {
		/*
		 * The softirq of a dead CPU never comes.  If the CPU is online, it stays
		 * so until interrupts are on here, and what is queued is drained later.
		 */
		cpu = raw_smp_processor_id();
	}
	return per_cpu_ptr(wq->cpu_pwq, cpu);
}

/*
 * Find the pwq to queue on and lock its pool.  Only flags that never change are tested in @flags.
 *
 * An item that still runs on another pool goes back there, where the same worker will run it
 * again: it never runs twice at a time.  Ordered workqueues need no such care, and must queue on
 * the newest pwq to keep the order.
 *
 * An item that runs on a dead CPU's pool goes to the CPU that drains it, or an item that always
 * queues itself would keep the drain from ending.  The only BH worker there is busy with the
 * drain.  Whoever takes the item off that pool makes its word name the dead pool again: see
 * work_home().
 *
 * A CPU that may do no unbound work uses the entries of those that may, in turn.  Its items must
 * not go to their own pwqs, or they could overtake.  An own pwq has a reference to that of the
 * pod.
 *
 * If the entry names another pwq by the time that the lock is taken, go to that one: the old one
 * may be dead, and what is queued there may be overtaken.  While the entry names a pwq, the pwq is
 * alive; disabled interrupts keep it and its pool in memory, as RCU does.
 */
static struct pool_workqueue *pwq_find_and_lock(struct workqueue_struct *wq, unsigned int flags,
						int req_cpu, struct work_struct *work)
{
	for (;;) {
		struct pool_workqueue __rcu **entry = wq_entry_for(wq, flags, req_cpu);
		struct pool_workqueue *named = rcu_dereference_sched(*entry), *pwq = named;
		struct worker_pool *last;

		if (unlikely(!named))
			break;
		if (unlikely(named->own_cpu >= 0 && named->own_cpu != raw_smp_processor_id()) &&
		    req_cpu == WORK_CPU_UNBOUND)
			pwq = named->pod;

		last = work_other_pool(work, pwq->pool);
		if (unlikely(last) && !wq_is_ordered(flags)) {
			struct worker *runner = pool_lock_runner(last, work, wq);

			if (runner) {
				if (likely(!(last->flags & POOL_BH_DRAINING)))
					return runner->current_pwq;
				entry = per_cpu_ptr(wq->cpu_pwq, last->drain_cpu);
				pwq = rcu_dereference_sched(*entry);
				named = pwq;
				raw_spin_unlock(&last->lock);
			}
		}

		raw_spin_lock(&pwq->pool->lock);
		if (likely(rcu_access_pointer(*entry) == named))
			return pwq;
		raw_spin_unlock(&pwq->pool->lock);
		cpu_relax();
	}
	WQ_WARN_ONCE(true, "workqueue: %ps is queued on destroyed %s\n", work->func, wq->name);
	return NULL;
}

/* note which CPU queues on a pod's @pool; was the last item queued by another one?  L */
static inline bool pool_note_cpu(struct worker_pool *pool)
{
	int cpu = raw_smp_processor_id();

	if (pool->last_cpu < 0)
		return false;
	if (likely(pool->last_cpu == cpu))
		return unlikely(pool->count_alone);
	pool->last_cpu = cpu;
	return true;
}

/* is the item, just queued, held back in a pwq in which those of other CPUs may be, too?  L */
static inline bool pwq_holds_back(struct pool_workqueue *pwq, struct work_struct *work)
{
	return unlikely(work_data(work) & WORK_STRUCT_INACTIVE) && pwq->own_cpu < 0 &&
	       pwq->pool->last_cpu >= 0 && !list_empty(&pwq->pending_node);
}

/*
 * When to give a CPU a pwq or pool of its own: 0: never; 1: when sharing costs something; 2: as
 * soon as it shares, which is for tests.
 */
unsigned int wq_own_pools __read_mostly = 1;
module_param_named(own_pools, wq_own_pools, uint, 0644);

/*
 * When does a CPU need a pool of its own?  An item that it queues for itself counts if the last
 * one on the pool came from another CPU.  After a CPU has got a pool, all items count, until one
 * gives up its own pwq, so that the last one of many is not left there.  Nothing else ends that: a
 * CPU that queues alone later may get a pool, and gives that up.  After each SHARING_SAMPLE of them
 * it is measured how long the CPU takes to get the lock.  It asks for a pool if all SHARING_ITEMS
 * would take more than 1/SHARING_SHARE of the time in which they came, or if they came in less than
 * SHARING_FAST: then handing them to other CPUs costs too much.  Else most time goes to the items.
 *
 * A CPU that had SHARING_HELD items held back meanwhile asks for a pwq: the items of other CPUs
 * must not wait behind all of them.
 */
#define SHARING_SAMPLE	8
#define SHARING_ITEMS	(8 * SHARING_SAMPLE)
#define SHARING_SHARE	4
#define SHARING_FAST	(2 * NSEC_PER_MSEC)	/* SHARING_ITEMS in less than this are many */
#define SHARING_HELD	(SHARING_ITEMS / 2)
#define SHARING_KEPT	(10 * NSEC_PER_MSEC)	/* from another pwq with the same hash */
#define SHARING_AGAIN	(10 * NSEC_PER_MSEC)	/* who was refused may ask after this time */

/* what a CPU counts for one of its pwqs */
struct wq_sharing {
	struct pool_workqueue *pwq;	/* only compared: may be gone */
	unsigned int items;
	unsigned int held;		/* back, since it asked for a pwq */
	unsigned int timed;
	u64 took;			/* ns, for those that were timed */
	u64 since;			/* local_clock() */
};

/* its CPU only, interrupts off; by hash of the pwq */
static DEFINE_PER_CPU(struct wq_sharing [4], wq_sharings);

/*
 * The workqueue for which a CPU needs a pwq or pool of its own, if any: set by this CPU with
 * interrupts off, cleared by own.c.  The workqueue may be gone.
 */
DEFINE_PER_CPU(struct workqueue_struct * [OWN_NR_KINDS], wq_wants_own);

/* when it asked last, by local_clock(); its CPU only, interrupts off */
static DEFINE_PER_CPU(u64 [OWN_NR_KINDS], wq_asked_for_own);

/* looks who asks; own.c, which is above this file, has it */
static struct work_struct *own_work __ro_after_init;

/* boot: name the item that gives the CPUs that ask their own pools */
void __init wq_set_own_work(struct work_struct *work)
{
	own_work = work;
}

/* ask for one of this CPU's own, unless it queues on @wq elsewhere, or is waiting for one */
static void wq_ask_for_own(struct workqueue_struct *wq, struct pool_workqueue *pwq, int kind)
{
	struct workqueue_struct **wants = this_cpu_ptr(wq_wants_own) + kind;
	u64 *asked = this_cpu_ptr(wq_asked_for_own) + kind, now = local_clock();

	if (READ_ONCE(*wants) || rcu_access_pointer(*this_cpu_ptr(wq->cpu_pwq)) != pwq ||
	    !cpumask_test_cpu(raw_smp_processor_id(), wq_unbound_cpumask) ||
	    READ_ONCE(wq_debug_force_rr_cpu))
		return;
	if (READ_ONCE(wq_own_pools) == 1 && now - *asked < SHARING_AGAIN)
		return;
	*asked = now;
	WRITE_ONCE(*wants, wq);
	queue_work(own_pools_wq, own_work);
}

/* the workqueue whose next item is timed; only compared: may be gone.  Its CPU, interrupts off. */
DEFINE_PER_CPU(struct workqueue_struct *, wq_sharing_timed);

/* what this CPU counts for @pwq, or %NULL if another pwq has its place */
static struct wq_sharing *wq_sharing_of(struct pool_workqueue *pwq)
{
	struct wq_sharing *sharing = this_cpu_ptr(wq_sharings) +
				     hash_ptr(pwq, ilog2(ARRAY_SIZE(wq_sharings)));
	u64 now;

	if (sharing->pwq == pwq)
		return sharing;
	/* two that take turns must not keep each other from being counted */
	now = local_clock();
	if (sharing->pwq && now - sharing->since < SHARING_KEPT)
		return NULL;
	*sharing = (struct wq_sharing){ .pwq = pwq, .since = now };
	return sharing;
}

/*
 * An item was queued on @pwq: after another CPU's if @shared.  Getting the lock @took ns, or < 0 if
 * that was not timed.  Is it @held back?
 */
static noinline void wq_note_sharing(struct workqueue_struct *wq, struct pool_workqueue *pwq,
				     bool shared, s64 took, bool held)
{
	unsigned int when = READ_ONCE(wq_own_pools);
	struct wq_sharing *sharing;
	u64 elapsed;

	if (when != 1) {
		if (when)
			wq_ask_for_own(wq, pwq, held ? OWN_PWQ : OWN_POOL);
		return;
	}

	sharing = wq_sharing_of(pwq);
	/* wq_allows_own_pools() would refuse a limit of 1, but each time only after a wake-up */
	if (!sharing || READ_ONCE(wq->max_active) <= 1)
		return;
	if (held && ++sharing->held >= SHARING_HELD) {
		wq_ask_for_own(wq, pwq, OWN_PWQ);
		sharing->held = 0;
	}
	if (!shared)
		return;
	if (took >= 0) {
		sharing->timed++;
		sharing->took += took;
	}
	if (!(++sharing->items % SHARING_SAMPLE))
		__this_cpu_write(wq_sharing_timed, wq);
	if (sharing->items < SHARING_ITEMS)
		return;

	elapsed = local_clock() - sharing->since;
	/* other workqueues may have been timed instead */
	if (elapsed < SHARING_FAST ||
	    sharing->took * SHARING_ITEMS * SHARING_SHARE > elapsed * sharing->timed)
		wq_ask_for_own(wq, pwq, OWN_POOL);
	sharing->pwq = NULL;
}

/*
 * Queue @work, which the caller owns through PENDING.  Interrupts are off.  Not inline: probes
 * and filters of stacks know this name.
 */
static noinline void __queue_work(int req_cpu, struct workqueue_struct *wq,
				  struct work_struct *work)
{
	unsigned int flags = READ_ONCE(wq->flags);
	struct task_struct *wake = NULL;
	struct pool_workqueue *pwq;
	bool shared = false, held = false, timed;
	s64 took = -1;

	lockdep_assert_irqs_disabled();

	if (unlikely(flags & WQ_ASK_FIRST) && wq_refuses(wq, flags, work)) {
		work_clear_pending(work, 0);
		return;
	}

	timed = __this_cpu_read(wq_sharing_timed) == wq;
	if (unlikely(timed)) {
		__this_cpu_write(wq_sharing_timed, NULL);
		took = -local_clock();
	}
	pwq = pwq_find_and_lock(wq, flags, req_cpu, work);
	if (unlikely(timed))
		took += local_clock();
	if (unlikely(!pwq)) {
		work_clear_pending(work, 0);
		return;
	}

	trace_workqueue_queue_work(req_cpu, pwq, work);
	if (!WQ_WARN_ON(!list_empty(&work->entry)))
		wake = pwq_enqueue(pwq, work);
	if (likely(!(flags & __WQ_ORDERED))) {
		shared = pool_note_cpu(pwq->pool);
		held = pwq_holds_back(pwq, work);
	}
	pool_unlock_wake(pwq->pool, wake);
	if (unlikely(shared || held) &&
	    (req_cpu == WORK_CPU_UNBOUND || req_cpu == raw_smp_processor_id()))
		wq_note_sharing(wq, pwq, shared, took, held);
}

/* claim an item to queue it; false if it is pending or disabled */
static bool work_claim_idle(struct work_struct *work)
{
	unsigned long data;

	if (test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)))
		return false;

	data = work_data(work);
	if (likely((data & WORK_STRUCT_PWQ) || !(data & WORK_OFFQ_DISABLE_MASK)))
		return true;
	work_clear_pending(work, 0);
	return false;
}

/**
 * queue_work_on - queue an item, naming the CPU
 * @cpu: possible CPU, or %WORK_CPU_UNBOUND for the calling one
 * @wq: the workqueue
 * @work: the item
 *
 * On a per-CPU workqueue the item runs on @cpu, which the caller keeps online, for
 * instance by cpus_read_lock(); the item runs elsewhere if @cpu goes offline.  On an
 * unbound workqueue it starts in the pod of @cpu.
 *
 * Context: any but NMI.
 * Return: true if the item was queued, false if it was pending or is disabled.
 */
bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	guard(irqsave)();

	if (!work_claim_idle(work))
		return false;
	__queue_work(cpu, wq, work);
	return true;
}
EXPORT_SYMBOL(queue_work_on);

/* an online CPU of the node, preferably this one; WORK_CPU_UNBOUND if there is none */
static int select_numa_node_cpu(int node)
{
	unsigned int cpu;

	if (node < 0 || node >= MAX_NUMNODES || !node_online(node))
		return WORK_CPU_UNBOUND;
	if (numa_node_id() == node)
		return raw_smp_processor_id();

	cpu = cpumask_any_and(cpumask_of_node(node), cpu_online_mask);
	return cpu >= nr_cpu_ids ? WORK_CPU_UNBOUND : cpu;
}

/**
 * queue_work_node - queue an item near a NUMA node
 * @node: the node, or %NUMA_NO_NODE
 * @wq: unbound workqueue
 * @work: the item
 *
 * The item starts in the pod of a CPU of @node: the calling one if it is there.  If no
 * CPU of @node is online, this is queue_work().
 *
 * Context: any but NMI.
 * Return: true if the item was queued, false if it was pending or is disabled.
 */
bool queue_work_node(int node, struct workqueue_struct *wq, struct work_struct *work)
{
	/* a per-CPU item would run on the chosen CPU, which nobody keeps online */
	WARN_ON_ONCE(!(READ_ONCE(wq->flags) & WQ_UNBOUND));

	guard(irqsave)();
	return queue_work_on(select_numa_node_cpu(node), wq, work);
}
EXPORT_SYMBOL_GPL(queue_work_node);

/**
 * delayed_work_timer_fn - timer function of each delayed_work
 * @timer: its timer
 *
 * Context: the timer is IRQSAFE: interrupts are off.
 */
void delayed_work_timer_fn(struct timer_list *timer)
{
	struct delayed_work *dwork = timer_container_of(dwork, timer, timer);

	__queue_work(dwork->cpu, dwork->wq, &dwork->work);
}
EXPORT_SYMBOL(delayed_work_timer_fn);

static void dwork_start_timer(struct delayed_work *dwork, int cpu)
{
	struct timer_list *timer = &dwork->timer;

	if (!housekeeping_enabled(HK_TYPE_TIMER)) {
		/*
		 * The timer may migrate if nobody asked for a CPU.  On an offline CPU it would
		 * wait until the CPU comes back.  An online CPU goes offline inside
		 * stop_machine(), which waits until interrupts are on here, and its timers are
		 * moved after that.
		 */
		if (cpu == WORK_CPU_UNBOUND || !cpu_online(cpu))
			add_timer_global(timer);
		else
			add_timer_on(timer, cpu);
		return;
	}

	/* a timer never expires on an isolated CPU, even if the caller named it */
	cpu = smp_processor_id();
	if (!housekeeping_test_cpu(cpu, HK_TYPE_TIMER))
		cpu = housekeeping_any_cpu(HK_TYPE_TIMER);
	add_timer_on(timer, cpu);
}

/* like __queue_work(), but @delay jiffies from now */
static void __queue_delayed_work(int cpu, struct workqueue_struct *wq,
				 struct delayed_work *dwork, unsigned long delay)
{
	WQ_WARN_ON_ONCE(dwork->timer.function != delayed_work_timer_fn);
	WQ_WARN_ON_ONCE(timer_pending(&dwork->timer) || !list_empty(&dwork->work.entry));

	/* callers expect that 0 does not wait for the next tick */
	if (!delay) {
		__queue_work(cpu, wq, &dwork->work);
		return;
	}

	dwork->cpu = cpu;
	dwork->wq = wq;
	dwork->timer.expires = jiffies + delay;
	dwork_start_timer(dwork, cpu);
}

/**
 * queue_delayed_work_on - queue an item after a delay, naming the CPU
 * @cpu: as for queue_work_on()
 * @wq: the workqueue
 * @dwork: the item
 * @delay: in jiffies; 0 queues at once
 *
 * The timer runs on @cpu, too.  If the system isolates CPUs from timers, it runs on any
 * CPU that is not isolated.  If @cpu is offline, or goes offline later, the timer runs
 * elsewhere.  When it expires, the item goes where queue_work_on() would put it then.
 *
 * Context: any but NMI.
 * Return: true if the item was idle, false if it was pending or is disabled.
 */
bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
			   struct delayed_work *dwork, unsigned long delay)
{
	guard(irqsave)();

	if (!work_claim_idle(&dwork->work))
		return false;
	__queue_delayed_work(cpu, wq, dwork, delay);
	return true;
}
EXPORT_SYMBOL(queue_delayed_work_on);

/**
 * mod_delayed_work_on - queue an item after a new delay, even if it is pending
 * @cpu: as for queue_delayed_work_on()
 * @wq: the workqueue
 * @dwork: the item
 * @delay: in jiffies from now; 0 queues at once
 *
 * If the timer is running, it is set again.  If the item is queued already, it is taken
 * off the queue and waits again.  If the item is idle, it is queued, unless it is disabled.
 * If several callers do this at once, one of them wins.
 *
 * Context: any but NMI.
 * Return: true if the item was pending, false if it was idle.
 */
bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
			 struct delayed_work *dwork, unsigned long delay)
{
	struct work_struct *work = &dwork->work;
	unsigned long flags;
	bool was_pending;

	was_pending = work_grab_pending(work, WORK_CANCEL_DELAYED, &flags);
	if (work_data(work) & WORK_OFFQ_DISABLE_MASK)
		work_clear_pending(work, 0);
	else
		__queue_delayed_work(cpu, wq, dwork, delay);
	local_irq_restore(flags);
	return was_pending;
}
EXPORT_SYMBOL_GPL(mod_delayed_work_on);

static void rcu_work_rcufn(struct rcu_head *rcu)
{
	struct rcu_work *rwork = container_of(rcu, struct rcu_work, rcu);

	guard(irqsave)();
	__queue_work(WORK_CPU_UNBOUND, rwork->wq, &rwork->work);
}

/**
 * queue_rcu_work - queue an item after an RCU grace period
 * @wq: the workqueue
 * @rwork: the item
 *
 * Context: any but NMI.
 * Return: true if the item was idle: it runs after a full grace period from now.  False
 * if it was pending or is disabled.  A pending item runs, but its grace period may have
 * begun before this call.
 */
bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *rwork)
{
	struct work_struct *work = &rwork->work;

	if (test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)))
		return false;

	/* there is no way to disable an rcu_work but through its work_struct */
	if (work_data(work) & WORK_OFFQ_DISABLE_MASK) {
		work_clear_pending(work, 0);
		WARN_ON_ONCE(true);
		return false;
	}

	rwork->wq = wq;
	call_rcu_hurry(&rwork->rcu, rcu_work_rcufn);
	return true;
}
EXPORT_SYMBOL(queue_rcu_work);
