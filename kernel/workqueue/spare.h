/* SPDX-License-Identifier: GPL-2.0 */
/* Spare slots: what each item does with them.  The rest, and why there are any, is in spare.c. */
#ifndef _KERNEL_WORKQUEUE_SPARE_H
#define _KERNEL_WORKQUEUE_SPARE_H

#include <linux/minmax.h>

#include "workqueue_struct.h"

void slots_set_max(struct wq_node_nr_active *slots, int max, int cpus);
bool slots_list_spares(struct wq_node_nr_active *slots, struct pool_workqueue *pwq);
bool slots_free_spares(struct wq_node_nr_active *slots);
void pwq_leave_slots(struct pool_workqueue *pwq);

/* use a spare slot, if there is one; L */
static inline bool pwq_take_spare(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	lockdep_assert_held(&pwq->pool->lock);

	/* if the limit was lowered, the slot may be one too many */
	return atomic_read(&slots->nr) <= READ_ONCE(slots->max) &&
	       atomic_dec_if_positive(&pwq->nr_spare) >= 0;
}

/* how many spare slots @pwq may have */
static inline int pwq_max_spare(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	return min(READ_ONCE(slots->max_spare) * READ_ONCE(pwq->nr_entries),
		   READ_ONCE(slots->max) / 2);
}

/* let a slot that @pwq needs no longer become a spare one; if not, the caller has to free it.  L */
static inline bool pwq_make_spare(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (atomic_read(&pwq->nr_spare) >= pwq_max_spare(pwq, slots) ||
	    unlikely(list_empty(&pwq->spare_node) && !list_empty(&slots->pending_pwqs)))
		return false;

	(void)atomic_inc_return(&pwq->nr_spare);	/* pairs with pwq_free_spares() */
	return likely(!list_empty(&pwq->spare_node)) || slots_list_spares(slots, pwq);
}

#endif /* _KERNEL_WORKQUEUE_SPARE_H */
