/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is done with work->data for each item.  data.c has the rest, and explains what the word
 * means.
 */
#ifndef _KERNEL_WORKQUEUE_DATA_H
#define _KERNEL_WORKQUEUE_DATA_H

#include "worker_pool.h"

struct worker_pool *get_work_pool(struct work_struct *work);
void work_clear_pending(struct work_struct *work, int disable_delta);

static inline unsigned long work_data(struct work_struct *work)
{
	return atomic_long_read(&work->data);
}

static inline int get_work_color(unsigned long data)
{
	return (data >> WORK_STRUCT_COLOR_SHIFT) & (WORK_NR_COLORS - 1);
}

static inline unsigned long work_color_to_flags(int color)
{
	return (unsigned long)color << WORK_STRUCT_COLOR_SHIFT;
}

static inline int work_next_color(int color)
{
	return (color + 1) % WORK_NR_COLORS;
}

/* the bits that never change during an item's life */
static inline unsigned long data_static_bits(struct work_struct *work)
{
	return WORK_STRUCT_STATIC ? work_data(work) & WORK_STRUCT_STATIC : 0;
}

/* the pwq that the word of a queued item names */
static inline struct pool_workqueue *work_struct_pwq(unsigned long data)
{
	return (struct pool_workqueue *)(data & WORK_STRUCT_PWQ_MASK);
}

/* the pwq that a word names, or NULL if it says that the item is off queue */
static inline struct pool_workqueue *data_pwq(unsigned long data)
{
	return data & WORK_STRUCT_PWQ ? work_struct_pwq(data) : NULL;
}

/* the pwq an item is queued on, NULL if it is not queued */
static inline struct pool_workqueue *get_work_pwq(struct work_struct *work)
{
	return data_pwq(work_data(work));
}

/*
 * The pool an item was on last, unless that is @pool, on which its owner is about to queue it, or
 * gone.  Most items go where they were last: for those, nothing is looked up.  Under RCU or with
 * interrupts off.
 */
static inline struct worker_pool *work_other_pool(struct work_struct *work,
						  struct worker_pool *pool)
{
	struct worker_pool *last;

	if (likely(work_data(work) >> WORK_OFFQ_POOL_SHIFT == pool->id))
		return NULL;
	last = get_work_pool(work);
	return last == pool ? NULL : last;
}

/* say that an item is queued; its owner has locked the pool */
static inline void set_work_pwq(struct work_struct *work, struct pool_workqueue *pwq,
				unsigned long flags)
{
	atomic_long_set(&work->data, (unsigned long)pwq | flags | WORK_STRUCT_PWQ |
			WORK_STRUCT_PENDING | data_static_bits(work));
}

/* the word of an item that left @pool; a queued item cannot have been disabled */
static inline unsigned long data_off_pool(struct work_struct *work, struct worker_pool *pool)
{
	return pool->offq_data | data_static_bits(work);
}

/* clear PENDING; whoever sets it next owns the item */
static inline void work_release(struct work_struct *work, unsigned long data)
{
	/* both pair with test_and_set_bit() in work_claim_idle(): see data.c */
	atomic_long_set_release(&work->data, data);
	smp_mb();	/* the function reads only after this */
}

#endif /* _KERNEL_WORKQUEUE_DATA_H */
