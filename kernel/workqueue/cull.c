// SPDX-License-Identifier: GPL-2.0
/*
 * How workers end: those that are idle for too long, and all workers of an unused pool.
 */
#include <linux/kthread.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "internal.h"

/* stop counting an idle worker in its pool and move it to @dying; L and A */
static void set_worker_dying(struct worker *worker, struct list_head *dying)
{
	struct worker_pool *pool = worker->pool;

	lockdep_assert_held(&wq_pool_attach_mutex);
	lockdep_assert_held(&pool->lock);

	WQ_WARN_ON(worker->current_work || !list_empty(&worker->scheduled));

	pool->nr_idle--;
	pool->nr_workers--;
	if (pool->last_woken_worker == worker)
		pool->last_woken_worker = NULL;
	worker->flags |= WORKER_DIE;
	list_move(&worker->entry, dying);
	/* the task may see WORKER_DIE and exit before it is told to */
	get_task_struct(worker->task);
}

/* drop the locks that set_worker_dying() needed, and end the workers */
static void reap_dying_workers(struct worker_pool *pool, struct list_head *dying)
	__releases(&pool->lock)
{
	struct worker *worker, *next;

	raw_spin_unlock_irq(&pool->lock);
	list_for_each_entry(worker, dying, entry)
		detach_worker(worker);
	mutex_unlock(&wq_pool_attach_mutex);

	list_for_each_entry_safe(worker, next, dying, entry) {
		kthread_stop_put(worker->task);
		ida_free(&pool->worker_ida, worker->id);
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

	/* wait for a manager that began to make a worker while there was work */
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
		set_worker_dying(list_first_entry(&pool->idle_list, struct worker, entry),
				 &dying);
	WQ_WARN_ON(pool->nr_workers || pool->nr_idle);
	reap_dying_workers(pool, &dying);
}

/* has a worker been idle for too long?  If one is going to be, look again then.  L */
static bool pool_should_cull(struct worker_pool *pool)
{
	unsigned long expiry;

	if (!too_many_workers(pool))
		return false;
	expiry = list_last_entry(&pool->idle_list, struct worker, entry)->last_active +
		 IDLE_WORKER_TIMEOUT;
	if (time_before_eq(expiry, jiffies))
		return true;
	mod_timer(&pool->idle_timer, expiry);
	return false;
}

/**
 * idle_worker_timeout - pool->idle_timer: check whether idle workers should end
 * @timer: the timer
 *
 * Ending a worker takes a mutex, so idle_cull_fn() does it.
 */
void idle_worker_timeout(struct timer_list *timer)
{
	struct worker_pool *pool = timer_container_of(pool, timer, idle_timer);
	bool cull;

	if (work_pending(&pool->idle_cull_work))
		return;

	scoped_guard(raw_spinlock_irqsave, &pool->lock)
		cull = pool_should_cull(pool);
	if (cull)
		queue_work(system_dfl_wq, &pool->idle_cull_work);
}

/**
 * idle_cull_fn - pool->idle_cull_work: end workers idle for too long
 * @work: the item
 */
void idle_cull_fn(struct work_struct *work)
{
	struct worker_pool *pool = container_of(work, struct worker_pool, idle_cull_work);
	LIST_HEAD(dying);

	/*
	 * The mutex keeps a doomed worker from passing set_pf_worker(false)
	 * before it has left the pool.
	 */
	mutex_lock(&wq_pool_attach_mutex);
	raw_spin_lock_irq(&pool->lock);
	while (pool_should_cull(pool))
		set_worker_dying(list_last_entry(&pool->idle_list, struct worker, entry),
				 &dying);
	reap_dying_workers(pool, &dying);
}
