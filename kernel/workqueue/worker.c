// SPDX-License-Identifier: GPL-2.0
/*
 * The loop of a worker, and how it runs an item.
 *
 * A pool always keeps an idle worker in reserve while it runs items.  If a worker is about to run
 * items and no other one is idle, it first becomes the manager and makes another.  The manager may
 * sleep for memory; rescuer.c helps out then.  BH workers and rescuers have loops of their own, but
 * their items run as those of all others: process_one_work().
 */
#include <linux/debug_locks.h>
#include <linux/pid.h>
#include <linux/sched/debug.h>
#include <linux/slab.h>

#include "kick.h"
#include "latency.h"
#include "running.h"
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

/*
 * Run one item, which is on no list; L, which is dropped and retaken.  Not inline: probes and
 * filters of stacks know this name.
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
	WQ_WARN_ON_ONCE(!(pool->flags & POOL_DISASSOCIATED) && raw_smp_processor_id() != pool->cpu);

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
	work_release(work, data_off_pool(work, pool));
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

#define CREATE_COOLDOWN		HZ	/* after a failure to make a worker */

struct rcuwait manager_wait = __RCUWAIT_INITIALIZER(manager_wait);

/* need_to_create_worker() without the lock; the caller checks again with it */
static bool pool_seems_short(struct worker_pool *pool)
{
	/* the answer may be outdated at once, with or without the lock */
	return data_race(need_to_create_worker(pool));
}

/*
 * Make workers until the pool has an idle one, or has no more work.  Drops and retakes
 * pool->lock.
 */
static void maybe_create_worker(struct worker_pool *pool)
	__must_hold(&pool->lock)
{
	do {
		/* if this takes long, the timer calls the rescuers */
		pool_mayday_arm(pool);
		raw_spin_unlock_irq(&pool->lock);

		while (!create_worker(pool) && pool_seems_short(pool)) {
			schedule_timeout_interruptible(CREATE_COOLDOWN);
			if (!pool_seems_short(pool))
				break;
		}
		timer_delete_sync(&pool->mayday_timer);

		raw_spin_lock_irq(&pool->lock);
		/* the new worker may have gone busy meanwhile */
	} while (need_to_create_worker(pool));
}

/*
 * Become the manager if there is none.  Return true if the lock was dropped: the caller
 * then has to look at the pool again.
 */
static bool manage_workers(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	if (pool->flags & POOL_MANAGER_ACTIVE)
		return false;

	pool->manager = worker;
	pool->flags |= POOL_MANAGER_ACTIVE;
	maybe_create_worker(pool);

	pool->manager = NULL;
	pool->flags &= ~POOL_MANAGER_ACTIVE;
	rcuwait_wake_up(&manager_wait);
	return true;
}

/* run items for as long as the pool wants this worker to */
static void worker_serve(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	/* start an item only with a worker in reserve, or a manager that makes one */
	do {
		if (!need_more_worker(pool))
			return;
	} while (!pool->nr_idle && manage_workers(worker));

	WQ_WARN_ON_LIST(&worker->scheduled);

	/* from here on the worker counts, even if it was bound again meanwhile */
	worker_clr_flags(worker, WORKER_PREP | WORKER_REBOUND);
	do {
		worker_run_next(worker);
	} while (keep_working(pool));
	worker_set_flags(worker, WORKER_PREP);
}

static int worker_thread(void *data)
{
	struct worker *worker = data;
	struct worker_pool *pool = worker->pool;

	set_pf_worker(true);

	raw_spin_lock_irq(&pool->lock);
	while (!(worker->flags & WORKER_DIE)) {
		worker_leave_idle(worker);
		worker_serve(worker);
		worker_enter_idle(worker);
		/*
		 * Wakers choose from the idle list under the lock, so they come after
		 * this store, and their wake-up finds the state set.  Nor does
		 * worker_is_awake() take a worker for awake that is about to sleep.
		 */
		__set_current_state(TASK_IDLE);
		raw_spin_unlock_irq(&pool->lock);
		schedule();
		raw_spin_lock_irq(&pool->lock);
	}
	raw_spin_unlock_irq(&pool->lock);

	/* reap_dying_workers() does the rest: a thread that is stopped early never gets here */
	set_pf_worker(false);
	return 0;
}

/* make the task of a new worker; BH workers have none */
static int worker_make_task(struct worker *worker, struct worker_pool *pool)
{
	char name[WORKER_ID_LEN];
	struct task_struct *task;

	if (pool->flags & POOL_BH)
		return 0;

	format_worker_id(name, sizeof(name), worker, pool);
	task = kthread_create_on_node(worker_thread, worker, pool_mem_node(pool), "%s", name);
	if (IS_ERR(task)) {
		/* a user's signal causes -EINTR; any other error will come again */
		if (PTR_ERR(task) == -EINTR)
			pr_err("workqueue: Interrupted when creating a worker thread \"%s\"\n",
			       name);
		else
			pr_err_once("workqueue: Failed to create a worker thread: %pe\n", task);
		return PTR_ERR(task);
	}

	worker->task = task;
	set_user_nice(task, pool->attrs->nice);
	kthread_bind_mask(task, pool_allowed_cpus(pool));
	return 0;
}

/* add an idle worker to a pool, or return NULL */
struct worker *create_worker(struct worker_pool *pool)
{
	int id = ida_alloc(&pool->worker_ida, GFP_KERNEL);
	struct worker *worker;

	if (id < 0) {
		pr_err_once("workqueue: Failed to allocate a worker ID: %pe\n", ERR_PTR(id));
		return NULL;
	}

	worker = alloc_worker(pool_mem_node(pool));
	if (!worker)
		goto free_id;
	worker->id = id;
	if (worker_make_task(worker, pool))
		goto free_worker;

	worker_attach_to_pool(worker, pool);

	raw_spin_lock_irq(&pool->lock);
	pool->nr_workers++;
	worker_enter_idle(worker);
	/* the thread waits for its first wake-up, whether there is work or not */
	pool_unlock_wake_irq(pool, worker->task);
	return worker;

free_worker:
	kfree(worker);
free_id:
	ida_free(&pool->worker_ida, id);
	return NULL;
}
