/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spare slots: what each item does with them.  The rest, and why there are any, is in spare.c.
 */
#ifndef _KERNEL_WORKQUEUE_SPARE_H
#define _KERNEL_WORKQUEUE_SPARE_H

#include <linux/jiffies.h>

#include "internal.h"

void slots_allow_spares(struct wq_node_nr_active *slots, int max, int cpus);
void slots_free_spares(struct workqueue_struct *wq, struct wq_node_nr_active *slots);
bool pwq_take_back_spare(struct pool_workqueue *pwq);

/**
 * pwq_take_spare - use a spare slot
 * @pwq: unbound pwq, its pool locked
 * @slots: its slots
 *
 * Return: true if there was one.
 */
static inline bool pwq_take_spare(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	lockdep_assert_held(&pwq->pool->lock);

	/* if the limit was lowered, the slot may be one too many */
	return atomic_read(&slots->nr) <= READ_ONCE(slots->max) &&
	       atomic_dec_if_positive(&pwq->nr_spare) >= 0;
}

/**
 * pwq_make_spare - let a slot become a spare one
 * @pwq: unbound pwq, its pool locked
 * @slots: its slots; one is @pwq's and is needed no longer
 *
 * Return: true if the slot is a spare one.  The caller then looks for parked pwqs, and calls
 * pwq_take_back_spare() if there are any.  False if the caller has to free the slot.
 */
static inline bool pwq_make_spare(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	int nr = atomic_read(&pwq->nr_spare);

	lockdep_assert_held(&pwq->pool->lock);

	if (nr >= READ_ONCE(slots->max_spare) * READ_ONCE(pwq->nr_entries) ||
	    !(jiffies - READ_ONCE(slots->freed_ts)))
		return false;

	(void)atomic_inc_return(&pwq->nr_spare);	/* (6), (7) in spare.c */
	if (unlikely(!smp_load_acquire(&slots->has_spares)))	/* (10) pairs with (11) */
		xchg(&slots->has_spares, 1);
	return true;
}

#endif /* _KERNEL_WORKQUEUE_SPARE_H */
