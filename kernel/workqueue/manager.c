// SPDX-License-Identifier: GPL-2.0
/*
 * The worker threads of a pool, and how one of them makes more.
 *
 * A pool always keeps an idle worker in reserve while it runs items.  If a worker is
 * about to run items and no other one is idle, it first becomes the manager and makes
 * another.  The manager may sleep for memory; rescuer.c helps out then.
 */
#include <linux/kthread.h>
#include <linux/slab.h>

#include "internal.h"
#include "worker.h"

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

/* the pool has no manager any more */
static void pool_resign_manager(struct worker_pool *pool)
{
	lockdep_assert_held(&pool->lock);

	pool->manager = NULL;
	pool->flags &= ~POOL_MANAGER_ACTIVE;
	/* the timer walks the worklist no more */
	list_del_init(&pool->mayday_cursor.entry);
	rcuwait_wake_up(&manager_wait);
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
	pool_resign_manager(pool);
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
	task = kthread_create_on_node(worker_thread, worker, pool_mem_node(pool),
				      "%s", name);
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

/**
 * create_worker - add a worker to a pool
 * @pool: the pool
 *
 * The new worker is idle.
 *
 * Context: may sleep; allocates with GFP_KERNEL.
 * Return: the worker, or %NULL if there is no memory or no task can be made.
 */
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
