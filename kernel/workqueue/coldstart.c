// SPDX-License-Identifier: GPL-2.0
/*
 * The first worker of a pool that has none.
 *
 * With workqueue.pool_per_cpu, there is a pool for each CPU of each pod, and most are never
 * used.  Such a pool is cold: it is made without a worker, and its last idle one ends like
 * any other.  So there are no more threads than the CPUs that submit need.
 *
 * Workers make workers, see manager.c, but a cold pool has none.  Whoever queues on one, or
 * finds work left on it, appoints the starter to be its manager.  This thread makes the
 * first worker, and resigns.  What holds for other managers holds for it as well:
 *
 * - Whoever appoints it sets POOL_MANAGER_ACTIVE.  So it is appointed once, and the pool is
 *   not freed before it has resigned, or pool_cancel_start() did that for it.
 * - It resigns under the lock, and only if a worker is idle, or nothing is to be done.  The
 *   worker that it made may have begun an item.  As there was a manager, that worker made no
 *   other, and who queued meanwhile appointed nobody.
 * - While it tries, the mayday timer calls rescuers.  The timer is armed when the starter is
 *   appointed, and each time it goes on, and is deleted before it resigns.  No worker arms it
 *   meanwhile, as none is the manager.
 *
 * One thread serves all pools.  If it could not make a worker for a pool, it goes on to the
 * others and tries again later.  But an attempt may take long, if there is no memory for a
 * thread, or kthreadd does not run.  The others wait for it then, or are served by rescuers.
 * What the starter does is pool_start_fn() in manager.c.
 */
#include "internal.h"

static struct kthread_worker *pool_starter __ro_after_init;

/**
 * pool_start_soon - have the starter make a worker
 * @pool: the pool, locked, of which the starter is the manager
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
 * pool_start_later - have the starter try again, which may have failed for now
 * @pool: the pool, of which the starter is the manager; the mayday timer is armed
 * @delay: when, in jiffies
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
 * Without homes no pool is cold, and before the CPUs' topology is known there are none.
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
