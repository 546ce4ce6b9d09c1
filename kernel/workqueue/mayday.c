// SPDX-License-Identifier: GPL-2.0
/*
 * Calls for rescuers, which rescuer.c answers.
 *
 * While a manager tries to make a worker, pool->mayday_timer ticks.  If the pool still
 * has no worker to spare at a tick, the timer goes through the worklist: for each
 * workqueue with items there, it puts the pwq on wq->maydays and wakes the rescuer.  A
 * tick walks the worklist in strides and drops the lock between them, see cursor.c.  It
 * passes 16384 entries at most; if the worklist is longer, the next jiffy goes on.
 */
#include "cursor.h"
#include "data.h"
#include "workqueue_struct.h"

#define MAYDAY_INITIAL_TIMEOUT	max(HZ / 100, 2)	/* 10 ms */
#define MAYDAY_INTERVAL		(HZ / 10)		/* 100 ms */
#define MAYDAY_STRIDES		64			/* in one tick */

/*
 * Ask for the rescuer of a pwq's workqueue, if it has one.  The callers are the timer and rescuers
 * that call themselves.  So nobody but the timer wakes a rescuer under the pool's lock.  L and M.
 */
void send_mayday(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	lockdep_assert_held(&wq_mayday_lock);

	if (!wq->rescuer || !list_empty(&pwq->mayday_node))
		return;

	/* before the rescuer comes, all items may be done and the entries may name another pwq */
	get_pwq(pwq);
	list_add_tail(&pwq->mayday_node, &wq->maydays);
	pwq->stats[PWQ_STAT_MAYDAY]++;
	wake_up_process(wq->rescuer->task);
}

/* cursor_stop_fn: call the rescuer of @work's workqueue, and go on */
static bool call_for_item(struct work_struct *work, void *unused)
{
	struct pool_workqueue *pwq = get_work_pwq(work);

	if (READ_ONCE(pwq->wq->flags) & WQ_MEM_RECLAIM) {
		guard(raw_spinlock)(&wq_mayday_lock);
		send_mayday(pwq);
	}
	return false;
}

/* pool->mayday_timer: making a worker takes long */
void pool_mayday_timeout(struct timer_list *timer)
{
	struct worker_pool *pool = timer_container_of(pool, timer, mayday_timer);
	unsigned int budget, strides = 0;

	do {
		guard(raw_spinlock_irq)(&pool->lock);

		budget = CURSOR_STRIDE;
		if (need_to_create_worker(pool))
			cursor_advance(&pool->mayday_cursor, &pool->worklist,
				       call_for_item, NULL, &budget);
		/* the next tick goes on where this one stopped, or starts from the head */
		if (budget)
			list_del_init(&pool->mayday_cursor.entry);
		cursor_borrow_pwq(&pool->mayday_cursor);
		mod_timer(timer, jiffies + (budget ? MAYDAY_INTERVAL : 1));
	} while (!budget && ++strides < MAYDAY_STRIDES);
}

/*
 * On which CPU the timer of @pool is to run.  A CPU that does no unbound work may queue on an
 * unbound pool, but must not be interrupted for that later.  L, so an online CPU stays online.
 * But pool_mayday_hasten() may bring the timer to such a CPU, if the CPU gives an item a slot.
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
	list_del_init(&pool->mayday_cursor.entry);

	pool->mayday_timer.expires = jiffies + MAYDAY_INITIAL_TIMEOUT;
	if (cpu == smp_processor_id())
		add_timer_global(&pool->mayday_timer);	/* it may have been pinned before */
	else
		add_timer_on(&pool->mayday_timer, cpu);
}

/* call the rescuers soon, if the timer would call them later */
static void pool_mayday_hasten(struct worker_pool *pool)
{
	unsigned long soon = jiffies + MAYDAY_INITIAL_TIMEOUT;

	lockdep_assert_held(&pool->lock);

	/* without a manager no timer is armed; the next manager arms it */
	if (time_after(pool->mayday_timer.expires, soon))
		mod_timer_pending(&pool->mayday_timer, soon);
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
	struct worker *worker = current_wq_worker();

	lockdep_assert_held(&pwq->pool->lock);

	if (!(READ_ONCE(pwq->wq->flags) & WQ_MEM_RECLAIM) || !need_to_create_worker(pwq->pool))
		return;
	if (worker && worker->rescue_wq == pwq->wq && worker->rescue_pwq != pwq) {
		guard(raw_spinlock)(&wq_mayday_lock);
		send_mayday(pwq);
		return;
	}
	/*
	 * A caller that serves this pool has just finished an item and looks for the next
	 * one.  If it is inside an item that cancels another, the next tick does this.
	 */
	if (!worker || worker->pool != pwq->pool)
		pool_mayday_hasten(pwq->pool);
}
