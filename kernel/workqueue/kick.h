/* SPDX-License-Identifier: GPL-2.0 */
/* Waking a worker for what waits. */
#ifndef _KERNEL_WORKQUEUE_KICK_H
#define _KERNEL_WORKQUEUE_KICK_H

#include "worker_pool.h"

struct task_struct *pool_pick_worker(struct worker_pool *pool);
void bh_pool_init(struct worker_pool *pool, int highpri);

/*
 * See to it that waiting work gets a worker: return the task to wake by pool_unlock_wake(), or
 * NULL.  L.
 */
static inline struct task_struct *kick_pool(struct worker_pool *pool)
{
	lockdep_assert_held(&pool->lock);

	return need_more_worker(pool) ? pool_pick_worker(pool) : NULL;
}

/*
 * Drop the lock first, then wake the task that kick_pool() returned.  Interrupts stay off
 * in between, so no preemption delays the wake-up, and RCU keeps the task in memory.
 */
static inline void pool_unlock_wake(struct worker_pool *pool, struct task_struct *task)
	__releases(&pool->lock)
{
	raw_spin_unlock(&pool->lock);
	if (task)
		wake_up_process(task);
}

static inline void pool_unlock_wake_irq(struct worker_pool *pool, struct task_struct *task)
	__releases(&pool->lock)
{
	if (!task) {
		raw_spin_unlock_irq(&pool->lock);
		return;
	}
	/* enabling interrupts does not reschedule, but enabling preemption does */
	preempt_disable();
	pool_unlock_wake(pool, task);
	local_irq_enable();
	preempt_enable();
}

#endif /* _KERNEL_WORKQUEUE_KICK_H */
