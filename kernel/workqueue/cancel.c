// SPDX-License-Identifier: GPL-2.0
/*
 * Taking items back: cancel, disable, enable.
 */
#include <linux/cpumask.h>
#include <linux/export.h>

#include "internal.h"

/*
 * An ordered item that was queued while it runs may be on a plugged pwq, and so on
 * another pool than the worker that has it.  Make its word name that one again: those
 * who wait for the item go by it.
 */
static void work_name_runner(struct work_struct *work, struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	struct worker *worker;

	for_each_pwq(pwq, wq) {
		struct worker_pool *pool = pwq->pool;

		guard(raw_spinlock)(&pool->lock);
		worker = pool_find_busy(pool, work);
		if (worker && worker->current_pwq->wq == wq) {
			work_set_offq_pending(work, pool);
			return;
		}
	}
}

/*
 * Take @work off the pool it is queued on, which is locked, and unlock that.  RCU
 * keeps the workqueue.
 */
static void work_dequeue(struct work_struct *work, struct pool_workqueue *pwq)
	__releases(&pwq->pool->lock)
{
	struct workqueue_struct *wq = pwq->wq;
	struct worker_pool *pool = pwq->pool;
	unsigned long data = work_data(work);
	bool plugged = pwq->plugged;
	struct task_struct *wake = NULL;

	debug_work_deactivate(work);

	work_leave_barriers(work, pool);
	list_del_init(&work->entry);
	work_set_offq_pending(work, pool);

	pwq_item_done(pwq, data);
	/*
	 * Barriers, or an item that gets the slot, may find all workers asleep.  What
	 * a CPU left in its BH pools on its way down is workqueue_softirq_dead()'s;
	 * interrupts are off, so that the CPU does not go between test and kick.
	 */
	if (!(pool->flags & POOL_BH) || cpu_online(pool->cpu))
		wake = pool_kick(pool);
	pool_unlock_wake(pool, wake);

	if (plugged)
		work_name_runner(work, wq);
}

/* off a queue: true.  It may have moved since @pool was looked up: false. */
static bool work_steal(struct work_struct *work, struct worker_pool *pool)
{
	struct pool_workqueue *pwq;

	raw_spin_lock(&pool->lock);
	/*
	 * The word of a queued item changes under the lock of its pool only.  If
	 * it names this pool's pwq, the item is queued, and stays so.
	 */
	pwq = work_pwq(work);
	if (pwq && pwq->pool == pool) {
		work_dequeue(work, pwq);
		return true;
	}
	raw_spin_unlock(&pool->lock);
	return false;
}

/*
 * Try to own @work through PENDING.  Return 1 if it was pending, 0 if it was idle,
 * -EAGAIN if somebody else owns it for a moment.
 */
static int work_try_grab(struct work_struct *work, unsigned int how)
{
	struct worker_pool *pool;

	/* a timer that is not there is expired, or being armed by an owner */
	if ((how & WORK_GRAB_DELAYED) && timer_delete(&to_delayed_work(work)->timer))
		return 1;

	if (!test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)))
		return 0;

	guard(rcu)();
	pool = work_last_pool(work);
	return pool && work_steal(work, pool) ? 1 : -EAGAIN;
}

/**
 * work_grab - own an item through PENDING, wherever it is
 * @work: the item
 * @how: WORK_GRAB_DELAYED if it is part of a delayed_work
 * @irq_flags: interrupt state to restore when done
 *
 * Spins while another owner is between taking PENDING and finishing, which is
 * short: owners keep interrupts off.
 *
 * Context: any; interrupts are off on return.
 * Return: true if the item was pending.
 */
bool work_grab(struct work_struct *work, unsigned int how, unsigned long *irq_flags)
{
	for (;;) {
		int ret;

		local_irq_save(*irq_flags);
		ret = work_try_grab(work, how);
		if (ret >= 0)
			return ret;
		local_irq_restore(*irq_flags);
		cpu_relax();
	}
}

/* take @work off wherever it is pending, and change its disable depth */
static bool work_take_back(struct work_struct *work, unsigned int how, int disable_delta)
{
	unsigned long irq_flags;
	bool was_pending;

	was_pending = work_grab(work, how, &irq_flags);
	work_clear_pending(work, disable_delta);
	local_irq_restore(irq_flags);
	return was_pending;
}

static bool work_disable_sync(struct work_struct *work, unsigned int how)
{
	bool was_pending = work_take_back(work, how, 1);

	/* BH items are waited for by spinning */
	if (work_data(work) & WORK_OFFQ_BH)
		WARN_ON_ONCE(in_hardirq());
	else
		might_sleep();

	/* before there are workers nothing can be running */
	if (wq_online)
		work_flush(work, true);
	return was_pending;
}

/* disabled meanwhile, however hard others queue the item */
static bool work_cancel_sync(struct work_struct *work, unsigned int how)
{
	bool was_pending = work_disable_sync(work, how);

	enable_work(work);
	return was_pending;
}

/**
 * cancel_work - take an item off its queue
 * @work: the item
 *
 * It may still be running.  A delayed_work's timer is not looked at.
 *
 * Context: any.
 * Return: true if it was pending.
 */
bool cancel_work(struct work_struct *work)
{
	return work_take_back(work, 0, 0);
}
EXPORT_SYMBOL(cancel_work);

/**
 * cancel_work_sync - take an item off its queue and wait if it is running
 * @work: the item
 *
 * On return it is neither pending nor running, even if others try to queue it or
 * it queues itself; calls that come after may queue it again.
 *
 * Context: may sleep; for an item last queued on a BH workqueue, any but hard
 * interrupts and the item itself.
 * Return: true if it was pending.
 */
bool cancel_work_sync(struct work_struct *work)
{
	return work_cancel_sync(work, 0);
}
EXPORT_SYMBOL_GPL(cancel_work_sync);

/**
 * cancel_delayed_work - stop an item's timer or take it off its queue
 * @dwork: the item
 *
 * It may still be running.
 *
 * Context: any.
 * Return: true if it was pending.
 */
bool cancel_delayed_work(struct delayed_work *dwork)
{
	return work_take_back(&dwork->work, WORK_GRAB_DELAYED, 0);
}
EXPORT_SYMBOL(cancel_delayed_work);

/**
 * cancel_delayed_work_sync - as cancel_work_sync(), with the timer
 * @dwork: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	return work_cancel_sync(&dwork->work, WORK_GRAB_DELAYED);
}
EXPORT_SYMBOL(cancel_delayed_work_sync);

/**
 * disable_work - cancel an item and refuse to queue it
 * @work: the item
 *
 * Each call needs one enable_work().  The item may still be running.
 *
 * Context: any.
 * Return: true if it was pending.
 */
bool disable_work(struct work_struct *work)
{
	return work_take_back(work, 0, 1);
}
EXPORT_SYMBOL_GPL(disable_work);

/**
 * disable_work_sync - as disable_work(), and wait if the item is running
 * @work: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool disable_work_sync(struct work_struct *work)
{
	return work_disable_sync(work, 0);
}
EXPORT_SYMBOL_GPL(disable_work_sync);

/**
 * enable_work - undo one disable_work()
 * @work: the item
 *
 * Context: any.
 * Return: true if the item can be queued again.
 */
bool enable_work(struct work_struct *work)
{
	unsigned long irq_flags;
	bool enabled;

	work_grab(work, 0, &irq_flags);
	/* by PENDING, nobody else changes the depth */
	enabled = (work_data(work) & WORK_OFFQ_DISABLE_MASK) <= 1UL << WORK_OFFQ_DISABLE_SHIFT;
	work_clear_pending(work, -1);
	local_irq_restore(irq_flags);
	return enabled;
}
EXPORT_SYMBOL_GPL(enable_work);

/**
 * disable_delayed_work - cancel a delayed item and refuse to queue it
 * @dwork: the item
 *
 * Context: any.
 * Return: true if it was pending.
 */
bool disable_delayed_work(struct delayed_work *dwork)
{
	return work_take_back(&dwork->work, WORK_GRAB_DELAYED, 1);
}
EXPORT_SYMBOL_GPL(disable_delayed_work);

/**
 * disable_delayed_work_sync - as disable_delayed_work(), and wait if it is running
 * @dwork: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool disable_delayed_work_sync(struct delayed_work *dwork)
{
	return work_disable_sync(&dwork->work, WORK_GRAB_DELAYED);
}
EXPORT_SYMBOL_GPL(disable_delayed_work_sync);

/**
 * enable_delayed_work - undo one disable_delayed_work()
 * @dwork: the item
 *
 * Context: any.
 * Return: true if the item can be queued again.
 */
bool enable_delayed_work(struct delayed_work *dwork)
{
	return enable_work(&dwork->work);
}
EXPORT_SYMBOL_GPL(enable_delayed_work);
