// SPDX-License-Identifier: GPL-2.0
/* Freezing: WQ_FREEZABLE workqueues start no item while the system is suspended. */
#include <linux/freezer.h>

#include "active.h"

static void wqs_apply_max_active(void)
{
	struct workqueue_struct *wq;

	list_for_each_entry(wq, &workqueues, list) {
		guard(mutex)(&wq->mutex);
		wq_adjust_max_active(wq);
	}
}

/**
 * freeze_workqueues_begin - start no more items of freezable workqueues
 *
 * Those that are queued now and fit under the limit still run.
 *
 * Context: may sleep.
 */
void freeze_workqueues_begin(void)
{
	guard(mutex)(&wq_pool_mutex);

	WARN_ON_ONCE(workqueue_freezing);
	WRITE_ONCE(workqueue_freezing, true);
	wqs_apply_max_active();
}

/*
 * Somebody may have taken a slot under the old limit while this runs or just before.  If
 * that happened under pool->lock, nr_active counts it by now.  If it happened under
 * slots->lock, the slot is still taken, though the item may not be active yet.
 */
static bool wq_has_active(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	guard(rcu)();
	for_each_pwq(pwq, wq) {
		guard(raw_spinlock_irq)(&pwq->pool->lock);
		WQ_WARN_ON_ONCE(pwq->nr_active < 0);
		if (pwq->nr_active)
			return true;
	}
	return (READ_ONCE(wq->flags) & WQ_UNBOUND) && wq_has_slots_taken(wq);
}

/**
 * freeze_workqueues_busy - is anything on a freezable workqueue still running?
 *
 * Context: may sleep; between freeze_workqueues_begin() and thaw_workqueues().
 * Return: true if so.
 */
bool freeze_workqueues_busy(void)
{
	struct workqueue_struct *wq;

	guard(mutex)(&wq_pool_mutex);

	WARN_ON_ONCE(!workqueue_freezing);
	list_for_each_entry(wq, &workqueues, list)
		if ((READ_ONCE(wq->flags) & WQ_FREEZABLE) && wq_has_active(wq))
			return true;
	return false;
}

/**
 * thaw_workqueues - start the items that were held back
 *
 * Context: may sleep.
 */
void thaw_workqueues(void)
{
	guard(mutex)(&wq_pool_mutex);

	if (!workqueue_freezing)
		return;
	WRITE_ONCE(workqueue_freezing, false);
	wqs_apply_max_active();
}
