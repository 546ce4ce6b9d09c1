// SPDX-License-Identifier: GPL-2.0
/*
 * Workers: how an item runs, and how workers come and go.
 *
 * A pool always keeps an idle worker in reserve while it runs items.  The worker
 * that would take the last one becomes the manager first and makes another.  The
 * manager may sleep for memory; rescuer.c helps out then.
 */
#include <linux/debug_locks.h>
#include <linux/hashtable.h>
#include <linux/kthread.h>
#include <linux/sched/debug.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <trace/events/workqueue.h>

#include "internal.h"

#define IDLE_WORKER_TIMEOUT	(300 * HZ)
#define CREATE_COOLDOWN		HZ	/* after a failure to make a worker */

/* Tells pool_kill_workers() that a manager is done; one waiter, due to P. */
static struct rcuwait manager_wait = __RCUWAIT_INITIALIZER(manager_wait);

/**
 * worker_alloc - allocate a worker
 * @node: NUMA node or NUMA_NO_NODE
 *
 * Return: a worker that belongs to no pool and counts as not running, or %NULL.
 */
struct worker *worker_alloc(int node)
{
	struct worker *worker = kzalloc_node(sizeof(*worker), GFP_KERNEL, node);

	if (!worker)
		return NULL;
	INIT_LIST_HEAD(&worker->scheduled);
	INIT_LIST_HEAD(&worker->entry);
	INIT_LIST_HEAD(&worker->node);
	worker->flags = WORKER_PREP;
	return worker;
}

/**
 * worker_format_id - the name by which users know a worker
 * @buf: where to
 * @size: its size in bytes
 * @worker: the worker
 * @pool: its pool, %NULL if it has left that
 *
 * Return: length of the name.
 */
int worker_format_id(char *buf, size_t size, const struct worker *worker,
		     const struct worker_pool *pool)
{
	const char *highpri = pool && pool->attrs->nice < 0 ? "H" : "";

	if (worker->rescue_wq)
		return scnprintf(buf, size, "kworker/R-%s", worker->rescue_wq->name);
	if (!pool)
		return scnprintf(buf, size, "kworker/dying");
	if (!pool_is_percpu(pool))
		return scnprintf(buf, size, "kworker/u%d:%d", pool->id, worker->id);
	return scnprintf(buf, size, "kworker/%d:%d%s", pool->cpu, worker->id, highpri);
}

/**
 * worker_unbind - let a worker run wherever unbound work may
 * @worker: the worker
 *
 * Context: wq_pool_attach_mutex held.
 */
void worker_unbind(struct worker *worker)
{
	const struct cpumask *cpus = wq_unbound_cpumask;

	lockdep_assert_held(&wq_pool_attach_mutex);

	if (!cpumask_intersects(cpus, cpu_active_mask))
		cpus = cpu_possible_mask;
	kthread_set_per_cpu(worker->task, -1);
	WARN_ON_ONCE(set_cpus_allowed_ptr(worker->task, cpus));
}

/**
 * worker_attach - make a worker serve a pool
 * @worker: new worker, or detached rescuer
 * @pool: the pool
 *
 * From here on hotplug keeps its flags and its CPUs in step with the pool.
 *
 * Context: may sleep.
 */
void worker_attach(struct worker *worker, struct worker_pool *pool)
{
	guard(mutex)(&wq_pool_attach_mutex);

	if (pool->flags & POOL_DISASSOCIATED)
		worker->flags |= WORKER_UNBOUND;
	else
		kthread_set_per_cpu(worker->task, pool->cpu);

	/* an ordinary worker got its CPUs when its task was made */
	if (worker->rescue_wq)
		set_cpus_allowed_ptr(worker->task, pool_allowed_cpus(pool));

	worker->pool = pool;
	list_add_tail(&worker->node, &pool->workers);
}

static void worker_leave_pool(struct worker *worker)
{
	worker_unbind(worker);
	list_del_init(&worker->node);
}

/**
 * worker_detach - take a rescuer out of the pool it helped
 * @worker: the rescuer
 *
 * Context: may sleep.
 */
void worker_detach(struct worker *worker)
{
	scoped_guard(mutex, &wq_pool_attach_mutex) {
		worker_leave_pool(worker);
		worker->pool = NULL;
	}
	/* nobody else knows the worker now */
	worker->flags &= ~(WORKER_REBOUND | WORKER_UNBOUND);
}

/**
 * worker_mark_task - tell scheduler and procfs whether current is a worker
 * @is_worker: true at its start, false before its end
 *
 * The mutex makes the mark and the worker's existence one for wq_worker_comm().
 */
void worker_mark_task(bool is_worker)
{
	guard(mutex)(&wq_pool_attach_mutex);

	if (is_worker)
		current->flags |= PF_WQ_WORKER;
	else
		current->flags &= ~PF_WQ_WORKER;
}

/* more than two idle workers should be in proportion to the busy ones */
static bool pool_has_too_many_idle(const struct worker_pool *pool)
{
	/* the manager will be idle again soon */
	int idle = pool->nr_idle + !!(pool->flags & POOL_MANAGER_ACTIVE);
	int busy = pool->nr_workers - idle;

	return idle > 2 && 4 * (idle - 2) >= busy;
}

/**
 * worker_enter_idle - put a worker on the idle list
 * @worker: a worker without work
 *
 * Context: pool->lock held.
 */
void worker_enter_idle(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	if (WARN_ON_ONCE((worker->flags & WORKER_IDLE) || !list_empty(&worker->entry)))
		return;

	/* nr_running is not concerned: PREP is set */
	worker->flags |= WORKER_IDLE;
	worker->last_active = jiffies;
	pool->nr_idle++;
	list_add(&worker->entry, &pool->idle_list);

	/* all are idle: then none is running */
	WARN_ON_ONCE(pool->nr_running && pool->nr_idle == pool->nr_workers);

	if (!timer_pending(&pool->idle_timer) && pool_has_too_many_idle(pool))
		mod_timer(&pool->idle_timer, jiffies + IDLE_WORKER_TIMEOUT);
}

/**
 * worker_leave_idle - take a worker off the idle list
 * @worker: the idle worker
 *
 * Context: pool->lock held.
 */
void worker_leave_idle(struct worker *worker)
{
	if (WARN_ON_ONCE(!(worker->flags & WORKER_IDLE)))
		return;
	worker_clr_flags(worker, WORKER_IDLE);
	worker->pool->nr_idle--;
	list_del_init(&worker->entry);
}

/* @work is @worker's from here on; PENDING still keeps others away from it */
static void worker_begin_item(struct worker *worker, struct work_struct *work,
			      struct pool_workqueue *pwq, unsigned long data)
{
	debug_work_deactivate(work);
	list_del_init(&work->entry);

	worker->current_func = work->func;
	worker->current_pwq = pwq;
	worker->current_color = data_color(data);
	worker->current_start = jiffies;
	if (worker->task)
		worker->current_at = READ_ONCE(worker->task->se.sum_exec_runtime);
	worker->current_work = work;
	hash_add(worker->pool->busy, &worker->busy_node, (unsigned long)work);

	/* for ps; the function may say more by set_worker_desc() */
	strscpy(worker->desc, pwq->wq->name);

	/* out of the count, so that pool_kick() finds the next one a worker */
	if (pwq->wq->flags & WQ_CPU_INTENSIVE)
		worker_set_flags(worker, WORKER_CPU_INTENSIVE);
}

/* the function must leave what it found */
static void worker_check_leaks(struct worker *worker, int locks, int rcu)
{
	bool atomic = worker->task && in_atomic();

	if (likely(!atomic && lockdep_depth(current) == locks &&
		   rcu_preempt_depth() == rcu))
		return;

	pr_err("BUG: workqueue leaked atomic, lock or RCU: %s[%d]\n"
	       "     preempt=0x%08x lock=%d->%d RCU=%d->%d workfn=%ps\n",
	       current->comm, task_pid_nr(current), preempt_count(), locks,
	       lockdep_depth(current), rcu, rcu_preempt_depth(), worker->current_func);
	debug_show_held_locks(current);
	dump_stack();
}

/*
 * Call the function.  @work may be gone as soon as it runs and serves as an address
 * only; @item_map is a copy of its lockdep map for the same reason.
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

	/* a dead CPU's BH item runs inside one of this CPU, see bh.c */
	if (!nested)
		lock_map_acquire(wq_map);
	lock_map_acquire(item_map);
	/*
	 * The item starts from a clean slate as far as completions go: what is
	 * held here is the same for each item.  Otherwise each completion that
	 * one item waits for and another completes would look like a cycle.
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

	pwq->stats[PWQ_STAT_COMPLETED]++;

	/* set above, or by a tick */
	worker_clr_flags(worker, WORKER_CPU_INTENSIVE);

	hash_del(&worker->busy_node);
	worker->last_func = worker->current_func;
	worker->current_work = NULL;
	worker->current_func = NULL;
	worker->current_pwq = NULL;
	worker->current_color = WORK_NR_COLORS;

	pwq_item_done(pwq, data);
}

/* run one item; drops and retakes pool->lock */
static void worker_run_item(struct worker *worker, struct work_struct *work)
	__must_hold(&worker->pool->lock)
{
	struct worker_pool *pool = worker->pool;
	unsigned long data = work_data(work);
	struct pool_workqueue *pwq = data_pwq(data);
	bool nested = pool->flags & POOL_BH_DRAINING;
	struct lockdep_map item_map = { };
	struct task_struct *wake;

#ifdef CONFIG_LOCKDEP
	lockdep_copy_map(&item_map, &work->lockdep_map);
#endif
	WARN_ON_ONCE(!(pool->flags & POOL_DISASSOCIATED) &&
		     raw_smp_processor_id() != pool->cpu);

	worker_begin_item(worker, work, pwq, data);
	pwq->stats[PWQ_STAT_STARTED]++;

	/*
	 * Chain: a worker that does not count sees to it that the next item gets
	 * one.  In a per-CPU pool this worker counts, and nobody is woken.
	 */
	wake = pool_kick(pool);

	/* the last that is done to the item */
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

/**
 * worker_run_scheduled - run all that a worker has been given
 * @worker: the calling worker
 *
 * Context: pool->lock held; dropped and retaken.
 */
void worker_run_scheduled(struct worker *worker)
{
	struct work_struct *work;

	if (!list_empty(&worker->scheduled))
		worker->pool->last_progress_ts = jiffies;

	while ((work = list_first_entry_or_null(&worker->scheduled,
						struct work_struct, entry)))
		worker_run_item(worker, work);
}

/**
 * worker_run_next - take the first item of the worklist and run it
 * @worker: the calling worker
 *
 * Context: pool->lock held; dropped and retaken; the worklist is not empty.
 */
void worker_run_next(struct worker *worker)
{
	struct work_struct *work = list_first_entry(&worker->pool->worklist,
						    struct work_struct, entry);

	if (worker_take_item(worker, work))
		worker_run_scheduled(worker);
}

/* pool_lacks_worker() without the lock, which the caller checks with it again */
static bool pool_seems_short(struct worker_pool *pool)
{
	/* as good as outdated anyway */
	return data_race(pool_lacks_worker(pool));
}

/*
 * Make workers until the pool has an idle one, or work to do no more.  Drops and
 * retakes pool->lock.
 */
static void pool_make_worker(struct worker_pool *pool)
	__must_hold(&pool->lock)
{
	do {
		/* if this takes long, rescuers are called */
		pool_mayday_arm(pool);
		raw_spin_unlock_irq(&pool->lock);

		while (!worker_create(pool) && pool_seems_short(pool)) {
			schedule_timeout_interruptible(CREATE_COOLDOWN);
			if (!pool_seems_short(pool))
				break;
		}
		timer_delete_sync(&pool->mayday_timer);

		raw_spin_lock_irq(&pool->lock);
		/* the new worker may have gone busy meanwhile */
	} while (pool_lacks_worker(pool));
}

/*
 * Be the manager, if there is none.  Return true if the lock was dropped, and the
 * pool has to be looked at again.
 */
static bool worker_manage(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	if (pool->flags & POOL_MANAGER_ACTIVE)
		return false;

	pool->flags |= POOL_MANAGER_ACTIVE;
	pool->manager = worker;
	pool_make_worker(pool);
	pool->manager = NULL;
	pool->flags &= ~POOL_MANAGER_ACTIVE;
	rcuwait_wake_up(&manager_wait);
	return true;
}

/* run items for as long as the pool wants this worker to */
static void worker_serve(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	/* never start on an item with no worker in reserve, but for a manager */
	do {
		if (!pool_needs_worker(pool))
			return;
	} while (!pool->nr_idle && worker_manage(worker));

	WARN_ON_ONCE(!list_empty(&worker->scheduled));

	/* from here on the worker counts, also if it was bound again */
	worker_clr_flags(worker, WORKER_PREP | WORKER_REBOUND);
	do {
		worker_run_next(worker);
	} while (pool_keep_working(pool));
	worker_set_flags(worker, WORKER_PREP);
}

static int worker_thread(void *data)
{
	struct worker *worker = data;
	struct worker_pool *pool = worker->pool;

	worker_mark_task(true);

	raw_spin_lock_irq(&pool->lock);
	while (!(worker->flags & WORKER_DIE)) {
		worker_leave_idle(worker);
		worker_serve(worker);
		worker_enter_idle(worker);
		/*
		 * Wakers choose from the idle list under the lock, after this, so
		 * that their wake-up finds the state set.
		 */
		__set_current_state(TASK_IDLE);
		raw_spin_unlock_irq(&pool->lock);
		schedule();
		raw_spin_lock_irq(&pool->lock);
	}
	raw_spin_unlock_irq(&pool->lock);

	/* workers_bury() does the rest: a thread that is stopped early never comes here */
	worker_mark_task(false);
	return 0;
}

/* make the task of a new worker; BH workers have none */
static int worker_make_task(struct worker *worker, struct worker_pool *pool)
{
	char name[WORKER_ID_LEN];
	struct task_struct *task;

	if (pool->flags & POOL_BH)
		return 0;

	worker_format_id(name, sizeof(name), worker, pool);
	task = kthread_create_on_node(worker_thread, worker, pool->node, "%s", name);
	if (IS_ERR(task)) {
		/* -EINTR is a user's doing, anything else repeats */
		if (PTR_ERR(task) == -EINTR)
			pr_err("workqueue: interrupted while making worker %s\n", name);
		else
			pr_err_once("workqueue: cannot make a worker thread: %pe\n", task);
		return PTR_ERR(task);
	}

	worker->task = task;
	set_user_nice(task, pool->attrs->nice);
	kthread_bind_mask(task, pool_allowed_cpus(pool));
	return 0;
}

/**
 * worker_create - add a worker to a pool
 * @pool: the pool
 *
 * The new worker is idle.
 *
 * Context: may sleep; allocates with GFP_KERNEL.
 * Return: the worker, or %NULL if there is no memory or no task to be had.
 */
struct worker *worker_create(struct worker_pool *pool)
{
	struct worker *worker;
	int id;

	id = ida_alloc(&pool->worker_ida, GFP_KERNEL);
	if (id < 0) {
		pr_err_once("workqueue: no id for a new worker: %pe\n", ERR_PTR(id));
		return NULL;
	}

	worker = worker_alloc(pool->node);
	if (!worker)
		goto free_id;
	worker->id = id;
	if (worker_make_task(worker, pool))
		goto free_worker;

	worker_attach(worker, pool);

	raw_spin_lock_irq(&pool->lock);
	pool->nr_workers++;
	worker_enter_idle(worker);
	/* it waits for its first wake-up, whether there is work or not */
	pool_unlock_wake_irq(pool, worker->task);
	return worker;

free_worker:
	kfree(worker);
free_id:
	ida_free(&pool->worker_ida, id);
	return NULL;
}

/* take an idle worker out of the pool's books; L and A */
static void worker_doom(struct worker *worker, struct list_head *dying)
{
	struct worker_pool *pool = worker->pool;

	lockdep_assert_held(&wq_pool_attach_mutex);
	lockdep_assert_held(&pool->lock);

	WARN_ON(worker->current_work || !list_empty(&worker->scheduled));

	pool->nr_idle--;
	pool->nr_workers--;
	if (pool->last_woken_worker == worker)
		pool->last_woken_worker = NULL;
	worker->flags |= WORKER_DIE;
	list_move(&worker->entry, dying);
	/* the task may see WORKER_DIE and exit before it is told to */
	get_task_struct(worker->task);
}

static void workers_leave_pool(struct list_head *dying)
{
	struct worker *worker;

	list_for_each_entry(worker, dying, entry)
		worker_leave_pool(worker);
}

static void workers_bury(struct list_head *dying)
{
	struct worker *worker, *next;

	list_for_each_entry_safe(worker, next, dying, entry) {
		kthread_stop_put(worker->task);
		ida_free(&worker->pool->worker_ida, worker->id);
		kfree(worker);
	}
}

/**
 * pool_kill_workers - end all workers of an unused unbound pool
 * @pool: the pool; its manager flag stays set
 *
 * Context: may sleep; wq_pool_mutex held.
 */
void pool_kill_workers(struct worker_pool *pool)
{
	LIST_HEAD(dying);

	lockdep_assert_held(&wq_pool_mutex);

	/* a manager that went to make a worker while there was work */
	for (;;) {
		/* the flag is checked again under the lock */
		rcuwait_wait_event(&manager_wait,
				   !(READ_ONCE(pool->flags) & POOL_MANAGER_ACTIVE),
				   TASK_UNINTERRUPTIBLE);
		mutex_lock(&wq_pool_attach_mutex);
		raw_spin_lock_irq(&pool->lock);
		if (!(pool->flags & POOL_MANAGER_ACTIVE))
			break;
		raw_spin_unlock_irq(&pool->lock);
		mutex_unlock(&wq_pool_attach_mutex);
	}

	pool->flags |= POOL_MANAGER_ACTIVE;
	while (!list_empty(&pool->idle_list))
		worker_doom(list_first_entry(&pool->idle_list, struct worker, entry),
			    &dying);
	WARN_ON(pool->nr_workers || pool->nr_idle);
	raw_spin_unlock_irq(&pool->lock);
	workers_leave_pool(&dying);
	mutex_unlock(&wq_pool_attach_mutex);

	workers_bury(&dying);
}

/* jiffies until the worker that has been idle longest may go; <= 0: now */
static long pool_next_expiry(const struct worker_pool *pool)
{
	struct worker *oldest = list_last_entry(&pool->idle_list, struct worker, entry);

	return oldest->last_active + IDLE_WORKER_TIMEOUT - jiffies;
}

/**
 * pool_idle_timeout - pool->idle_timer: see whether idle workers should go
 * @timer: the timer
 *
 * Ending a worker needs a mutex, so that is left to pool_idle_cull_fn().
 */
void pool_idle_timeout(struct timer_list *timer)
{
	struct worker_pool *pool = timer_container_of(pool, timer, idle_timer);
	bool cull = false;

	if (work_pending(&pool->idle_cull_work))
		return;

	scoped_guard(raw_spinlock_irqsave, &pool->lock) {
		if (pool_has_too_many_idle(pool)) {
			long left = pool_next_expiry(pool);

			cull = left <= 0;
			if (!cull)
				mod_timer(&pool->idle_timer, jiffies + left);
		}
	}

	if (cull)
		queue_work(system_dfl_wq, &pool->idle_cull_work);
}

/**
 * pool_idle_cull_fn - pool->idle_cull_work: end workers idle for too long
 * @work: the item
 */
void pool_idle_cull_fn(struct work_struct *work)
{
	struct worker_pool *pool = container_of(work, struct worker_pool, idle_cull_work);
	LIST_HEAD(dying);

	/*
	 * The mutex keeps a doomed worker from passing worker_mark_task(false)
	 * before it has left the pool.
	 */
	mutex_lock(&wq_pool_attach_mutex);
	raw_spin_lock_irq(&pool->lock);
	while (pool_has_too_many_idle(pool)) {
		long left = pool_next_expiry(pool);

		if (left > 0) {
			mod_timer(&pool->idle_timer, jiffies + left);
			break;
		}
		worker_doom(list_last_entry(&pool->idle_list, struct worker, entry),
			    &dying);
	}
	raw_spin_unlock_irq(&pool->lock);
	workers_leave_pool(&dying);
	mutex_unlock(&wq_pool_attach_mutex);

	workers_bury(&dying);
}
