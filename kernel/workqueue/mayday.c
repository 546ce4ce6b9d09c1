// SPDX-License-Identifier: GPL-2.0
/*
 * Calls for rescuers, which rescuer.c answers.
 *
 * While a manager tries to make a worker, pool->mayday_timer ticks.  If the pool still
 * has no worker to spare at a tick, the timer goes through the worklist: for each
 * workqueue with items there, it puts the pwq on wq->maydays and wakes the rescuer.
 */
#include "data.h"
#include "workqueue_struct.h"

#define MAYDAY_INITIAL_TIMEOUT	max(HZ / 100, 2)	/* 10 ms */
#define MAYDAY_INTERVAL		(HZ / 10)		/* 100 ms */

/*
 * Ask for the rescuer of a pwq's workqueue, if it has one.  The callers are the timer and rescuers
 * that call themselves.  So nobody but the timer wakes a rescuer under the pool's lock.  L.
 */
void send_mayday(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	guard(raw_spinlock)(&wq_mayday_lock);

	if (!wq->rescuer || !list_empty(&pwq->mayday_node))
		return;

	/* before the rescuer comes, all items may be done and the entries may name another pwq */
	get_pwq(pwq);
	list_add_tail(&pwq->mayday_node, &wq->maydays);
	pwq->stats[PWQ_STAT_MAYDAY]++;
	wake_up_process(wq->rescuer->task);
}

/* pool->mayday_timer: making a worker takes long */
void pool_mayday_timeout(struct timer_list *timer)
{
	struct worker_pool *pool = timer_container_of(pool, timer, mayday_timer);
	struct work_struct *work;

	guard(raw_spinlock_irq)(&pool->lock);
	mod_timer(timer, jiffies + MAYDAY_INTERVAL);
	if (!need_to_create_worker(pool))
		return;

	list_for_each_entry(work, &pool->worklist, entry) {
		struct pool_workqueue *pwq = get_work_pwq(work);

		/* most items need no rescuer: do not take the lock of all rescuers for them */
		if (READ_ONCE(pwq->wq->flags) & WQ_MEM_RECLAIM)
			send_mayday(pwq);
	}
}

/*
 * On which CPU the timer of @pool is to run.  A CPU that does no unbound work may queue on an
 * unbound pool, but must not be interrupted for that later.  L, so an online CPU stays online.
 * But rescuer_follows_slot() may bring the timer to such a CPU, if the CPU gives an item a slot.
 */
static int pool_mayday_cpu(const struct worker_pool *pool)
{
	int this = smp_processor_id(), cpu;

	if (pool->cpu >= 0 || cpumask_test_cpu(this, wq_unbound_cpumask))
		return this;
	/* data_race(): the mask may change */
	cpu = data_race(cpumask_any_and(wq_unbound_cpumask, cpu_online_mask));
	return cpu < nr_cpu_ids ? cpu : this;
}

/* call rescuers if it takes long to make a worker: delete the timer when that is done.  L */
void pool_mayday_arm(struct worker_pool *pool)
{
	int cpu = pool_mayday_cpu(pool);

	lockdep_assert_held(&pool->lock);

	pool->mayday_timer.expires = jiffies + MAYDAY_INITIAL_TIMEOUT;
	if (cpu == smp_processor_id())
		add_timer_global(&pool->mayday_timer);	/* it may have been pinned before */
	else
		add_timer_on(&pool->mayday_timer, cpu);
}

/*
 * An item of @pwq, which is unbound, got a slot and may need the rescuer.  The next tick of the
 * pool's timer may be 100 ms away.  If slots go from pool to pool, each item may have to wait that
 * long.  So a rescuer that gave the slot to its own workqueue goes to this pool itself, after the
 * pools that called earlier.  For any other caller, this brings the timer forward, unless the
 * caller is a worker of the pool.  L.
 */
void rescuer_follows_slot(struct pool_workqueue *pwq)
{
	struct timer_list *timer = &pwq->pool->mayday_timer;
	unsigned long soon = jiffies + MAYDAY_INITIAL_TIMEOUT;
	struct worker *worker = current_wq_worker();

	lockdep_assert_held(&pwq->pool->lock);

	if (!(READ_ONCE(pwq->wq->flags) & WQ_MEM_RECLAIM) || !need_to_create_worker(pwq->pool))
		return;
	/*
	 * A caller that serves this pool has just finished an item and looks for the next
	 * one.  If it is inside an item that cancels another, the next tick does this.
	 * Without a manager no timer is armed; the next manager arms it.
	 */
	if (worker && worker->rescue_wq == pwq->wq && worker->rescue_pwq != pwq)
		send_mayday(pwq);
	else if ((!worker || worker->pool != pwq->pool) && time_after(timer->expires, soon))
		mod_timer_pending(timer, soon);
}
