// SPDX-License-Identifier: GPL-2.0
/*
 * The first worker of a pool that has none.
 *
 * With workqueue.pool_per_cpu, there is a pool for each CPU of each pod, and most are never
 * used.  Such a pool may be cold: it is made without a worker, and even its last worker ends
 * if idle for too long.  So there are no more threads than the submitting CPUs need.
 *
 * Workers make workers, see manager.c, but a cold pool has none.  A caller that queues on a
 * cold pool, or finds work left on it, appoints the starter as its manager.  The starter is a
 * thread that makes the first worker and then resigns.  As with any manager:
 *
 * - Its appointment sets POOL_MANAGER_ACTIVE.  So it is appointed only once, and the pool is
 *   not freed before the starter has resigned, or pool_cancel_start() has resigned for it.
 * - It resigns under the lock, and only if a worker is idle, or if there is neither work nor a
 *   worker.  The worker that it made may have begun an item.  As there was a manager, that
 *   worker made no other, and callers that queued meanwhile appointed nobody.  So the starter
 *   goes on.
 * - While it tries, the mayday timer calls rescuers.  The timer is armed when the starter is
 *   appointed and each time the starter goes on.  It is deleted before the starter resigns.
 *   No worker arms the timer meanwhile, as no worker is the manager.
 *
 * One thread serves all pools.  If it cannot make a worker for a pool, it goes on to the
 * others and tries again later.  But an attempt may take long, if there is no memory for a
 * thread, or if kthreadd does not run.  Then the other pools wait, or rescuers serve them.
 * The function of the starter is pool_start_fn() in manager.c.
 */
#include "internal.h"

static struct kthread_worker *pool_starter __ro_after_init;

/**
 * pool_start_soon - have the starter make a worker
 * @pool: the pool, locked; the starter is its manager
 *
 * Context: any but NMI.
 */
void pool_start_soon(struct worker_pool *pool)
{
	lockdep_assert_held(&pool->lock);

	pool_mayday_arm(pool);
	kthread_queue_delayed_work(pool_starter, &pool->start_work, 0);
}

/**
 * pool_start_later - have the starter try again after a failure
 * @pool: the pool; the starter is its manager, and the mayday timer is armed
 * @delay: jiffies from now
 *
 * Context: called by the starter.
 */
void pool_start_later(struct worker_pool *pool, unsigned long delay)
{
	kthread_queue_delayed_work(pool_starter, &pool->start_work, delay);
}

/**
 * pool_warm_up - see to it that a cold pool gets a worker for its work
 * @pool: the pool, locked, which has no workers
 *
 * Context: any but NMI.
 */
void pool_warm_up(struct worker_pool *pool)
{
	lockdep_assert_held(&pool->lock);

	if (pool->flags & POOL_MANAGER_ACTIVE)
		return;
	pool->flags |= POOL_MANAGER_ACTIVE;
	pool_start_soon(pool);
}

/**
 * pool_starter_run - boot: start the thread that makes the first workers of pools
 *
 * Only pools with a home can be cold, and no pool has a home before the topology is known.
 *
 * Context: may sleep.
 */
void __init pool_starter_run(void)
{
	if (!wq_pool_per_cpu)
		return;
	pool_starter = kthread_run_worker(0, "pool_starter");
	wq_boot_needs(!IS_ERR(pool_starter));
	set_user_nice(pool_starter->task, HIGHPRI_NICE_LEVEL);
}
