/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a pwq does for each item that is done: it frees the item's slot, counts the item out, and
 * drops its reference.
 */
#ifndef _KERNEL_WORKQUEUE_PWQ_H
#define _KERNEL_WORKQUEUE_PWQ_H

#include "active.h"
#include "internal.h"

void pwq_die(struct pool_workqueue *pwq);
void pwq_flushed(struct pool_workqueue *pwq);

/**
 * put_pwq - drop a reference
 * @pwq: the pwq, its pool locked
 */
static inline void put_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (!--pwq->refcnt)
		pwq_die(pwq);
}

/**
 * pwq_dec_nr_in_flight - an item has run, or was dequeued
 * @pwq: the pwq it was queued on
 * @data: value of work->data while it was queued
 * @how: %PWQ_STAT_COMPLETED or %PWQ_STAT_CANCELLED
 *
 * The item's slot goes to the next item.  The item's reference, which keeps the
 * workqueue and the pool, is dropped last.
 *
 * Context: lock of the pool held; it may be dropped and retaken, but interrupts stay off
 * throughout.
 */
static inline void pwq_dec_nr_in_flight(struct pool_workqueue *pwq, unsigned long data,
					enum pool_workqueue_stats how)
{
	int color = get_work_color(data);

	lockdep_assert_held(&pwq->pool->lock);

	/* flush barriers and items that were held back have no slot */
	if (!(data & WORK_STRUCT_INACTIVE))
		pwq_dec_nr_active(pwq);
	else if (how == PWQ_STAT_COMPLETED)
		pwq->stats[PWQ_STAT_BARRIERS_DONE]++;

	/* after the lock may have been dropped, so that nobody sees only one of these changes */
	pwq->stats[how]++;
	if (!--pwq->nr_in_flight[color] && unlikely(pwq->flush_color == color))
		pwq_flushed(pwq);
	put_pwq(pwq);
}

#endif /* _KERNEL_WORKQUEUE_PWQ_H */
