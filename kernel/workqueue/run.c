// SPDX-License-Identifier: GPL-2.0
/*
 * How an item runs on any worker: a worker of the pool, the softirq, or a rescuer.
 */
#include <linux/debug_locks.h>
#include <linux/hashtable.h>
#include <linux/sched/debug.h>
#include <trace/events/workqueue.h>

#include "active.h"
#include "internal.h"
#include "latency.h"
#include "worker.h"

/* from here on @work belongs to @worker; PENDING still keeps others away from it */
static void worker_begin_item(struct worker *worker, struct work_struct *work,
			      struct pool_workqueue *pwq, unsigned long data)
{
	debug_work_deactivate(work);

	worker->current_func = work->func;
	worker->current_pwq = pwq;
	worker->current_color = get_work_color(data);
	worker->current_start = jiffies;
	if (worker->task)		/* BH workers have none */
		worker->current_at = READ_ONCE(worker->task->se.sum_exec_runtime);
	worker->current_work = work;
	hash_add(worker->pool->busy_hash, &worker->hentry, (unsigned long)work);

	/*
	 * For ps; the function may replace this by set_worker_desc().  A copy of fixed
	 * length needs no loop.
	 */
	static_assert(sizeof(worker->desc) == sizeof(pwq->wq->name));
	memcpy(worker->desc, pwq->wq->name, sizeof(worker->desc));

	/* leave nr_running, so that kick_pool() finds a worker for the next item */
	if (READ_ONCE(pwq->wq->flags) & WQ_CPU_INTENSIVE)
		worker_set_flags(worker, WORKER_CPU_INTENSIVE);
}

static noinline void worker_report_leak(struct worker *worker, int locks, int rcu)
{
	pr_err("BUG: workqueue leaked atomic, lock or RCU: %s[%d]\n"
	       "     preempt=0x%08x lock=%d->%d RCU=%d->%d workfn=%ps\n",
	       current->comm, task_pid_nr(current), preempt_count(), locks,
	       lockdep_depth(current), rcu, rcu_preempt_depth(), worker->current_func);
	debug_show_held_locks(current);
	dump_stack();
}

/* the function must leave locks, RCU and preemption as it found them */
static void worker_check_leaks(struct worker *worker, int locks, int rcu)
{
	bool atomic = in_atomic() && worker->task;

	if (unlikely(atomic || lockdep_depth(current) != locks || rcu_preempt_depth() != rcu))
		worker_report_leak(worker, locks, rcu);
}

/*
 * Call the function.  Once the function runs, @work may be gone and is used only as an
 * address.  For the same reason @item_map is a copy of its lockdep map.
 */
static void worker_call(struct worker *worker, struct work_struct *work,
			struct lockdep_map *item_map, bool nested)
{
#ifdef CONFIG_LOCKDEP
	struct lockdep_map *wq_map = worker->current_pwq->wq->lockdep_map;
#else
	struct lockdep_map *wq_map __maybe_unused = NULL;
#endif
	int locks = lockdep_depth(current);
	int rcu = rcu_preempt_depth();

	/* a dead CPU's BH item runs inside an item of this CPU, see bh.c */
	if (!nested)
		lock_map_acquire(wq_map);
	lock_map_acquire(item_map);
	/*
	 * The locks held here are the same for each item, so lockdep must not
	 * relate them to completions.  Otherwise each completion that one item
	 * waits for and another item completes would look like a cycle.
	 */
	lockdep_invariant_state(true);

	trace_workqueue_execute_start(work);
	worker->current_func(work);
	trace_workqueue_execute_end(work, worker->current_func);

	lock_map_release(item_map);
	if (!nested)
		lock_map_release(wq_map);

	worker_check_leaks(worker, locks, rcu);
}

static void worker_end_item(struct worker *worker, unsigned long data)
{
	struct pool_workqueue *pwq = worker->current_pwq;

	if (latency_wanted())
		latency_note_end(worker, data);

	/* worker_begin_item() or a tick has set this */
	if (unlikely(worker->flags & WORKER_CPU_INTENSIVE))
		worker_clr_flags(worker, WORKER_CPU_INTENSIVE);

	/* not hash_del(): nobody asks whether the worker is hashed */
	__hlist_del(&worker->hentry);
	worker->last_func = worker->current_func;
	worker->current_work = NULL;
	worker->current_func = NULL;
	worker->current_pwq = NULL;
	worker->current_color = WORK_NR_COLORS;

	pwq_dec_nr_in_flight(pwq, data, PWQ_STAT_COMPLETED);
}

/**
 * process_one_work - run one item
 * @worker: the calling worker
 * @work: the item, which is on no list
 *
 * Not inline: probes and filters of stacks know this name.
 *
 * Context: pool->lock held; dropped and retaken.
 */
noinline void process_one_work(struct worker *worker, struct work_struct *work)
	__must_hold(&worker->pool->lock)
{
	struct worker_pool *pool = worker->pool;
	unsigned long data = work_data(work);
	struct pool_workqueue *pwq = work_struct_pwq(data);
	bool nested = pool->flags & POOL_BH_DRAINING;
	struct lockdep_map item_map = { };
	struct task_struct *wake;

#ifdef CONFIG_LOCKDEP
	lockdep_copy_map(&item_map, &work->lockdep_map);
#endif
	WQ_WARN_ON_ONCE(!(pool->flags & POOL_DISASSOCIATED) &&
			raw_smp_processor_id() != pool->cpu);

	worker_begin_item(worker, work, pwq, data);
	pwq->stats[PWQ_STAT_STARTED]++;
	if (latency_wanted())
		latency_note_start(worker, work, data);

	/*
	 * Chain: if this worker does not count, it wakes a worker for the next
	 * item.  In a per-CPU pool this worker counts, and nobody is woken.
	 */
	wake = kick_pool(pool);

	/* after this only a tracepoint touches the item: it reads the function before the call */
	work_release_to_pool(work, pool);
	pool_unlock_wake_irq(pool, wake);

	worker_call(worker, work, &item_map, nested);

	/*
	 * An item that queues itself over and over must let stop_machine() and
	 * RCU have the CPU where the kernel is not preemptible.
	 */
	if (worker->task)
		cond_resched();

	raw_spin_lock_irq(&pool->lock);
	worker_end_item(worker, data);
}
