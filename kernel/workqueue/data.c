// SPDX-License-Identifier: GPL-2.0
/*
 * work->data: the word that says where an item is.
 *
 *   queued:    [ pwq                           | colour | flags | PWQ=1 ]
 *   off queue: [ last pool's id | disable depth | BH    | flags | PWQ=0 ]
 *
 * PENDING, one of the flags, is a lock.  Whoever sets it owns the item until the item
 * is on a list, or until PENDING is cleared.  While the item is on a list, the word
 * changes only under the lock of the pool that the item is on.
 *
 * Two CPUs meet in PENDING without any other lock:
 *
 *   CPU that runs the item             CPU that queues it again
 *
 *   finish all with the word           write what the item shall see
 *   (1) release: clear PENDING         (2) test_and_set_bit(PENDING), a full
 *   (3) smp_mb()                           barrier also when it fails
 *   run the function
 *
 * (1) pairs with (2): if the bit was clear, the queueing CPU sees everything that was
 * written to the item, its last pool included.  (3) pairs with (2): if the bit was
 * still set, queueing is refused, and the function that is about to run sees what was
 * written before the attempt to queue.
 */
#include "internal.h"

/* the bits that never change during an item's life */
static unsigned long data_static_bits(struct work_struct *work)
{
	return work_data(work) & WORK_STRUCT_STATIC;
}

/**
 * data_pwq - the pool_workqueue that a data word names
 * @data: value of work->data
 *
 * Return: the pwq, or %NULL when the word says that the item is off queue.
 */
struct pool_workqueue *data_pwq(unsigned long data)
{
	if (!(data & WORK_STRUCT_PWQ))
		return NULL;
	return (struct pool_workqueue *)(data & WORK_STRUCT_PWQ_MASK);
}

/**
 * work_last_pool - the pool an item is on, or was on last
 * @work: any initialised item
 *
 * Context: under RCU, which keeps the pool, or under wq_pool_mutex.
 * Return: the pool, or %NULL if the item was never on one or the pool is gone.
 */
struct worker_pool *work_last_pool(struct work_struct *work)
{
	unsigned long data = work_data(work);
	struct pool_workqueue *pwq = data_pwq(data);
	int id;

	if (pwq)
		return pwq->pool;

	id = data >> WORK_OFFQ_POOL_SHIFT;
	return id == WORK_OFFQ_POOL_NONE ? NULL : idr_find(&worker_pool_idr, id);
}

/**
 * work_other_pool - the pool an item was on last, unless it is the given one
 * @work: item that is off queue, owned by the caller through PENDING
 * @pool: the pool on which the caller is about to queue
 *
 * Most items go where they were last.  For them this looks nothing up.
 *
 * Context: under RCU, which keeps the pool.
 * Return: the pool, or %NULL if it is @pool, if there was none, or if it is gone.
 */
struct worker_pool *work_other_pool(struct work_struct *work, struct worker_pool *pool)
{
	struct worker_pool *last;

	if (likely(work_data(work) >> WORK_OFFQ_POOL_SHIFT == pool->id))
		return NULL;
	last = work_last_pool(work);
	return last == pool ? NULL : last;
}

/**
 * work_set_pwq - say that an item is queued
 * @work: item, owned by the caller through PENDING
 * @pwq: where it is being queued; its pool is locked
 * @flags: WORK_STRUCT_* flags and colour
 */
void work_set_pwq(struct work_struct *work, struct pool_workqueue *pwq,
		  unsigned long flags)
{
	atomic_long_set(&work->data, (unsigned long)pwq | flags |
			WORK_STRUCT_PWQ | WORK_STRUCT_PENDING |
			data_static_bits(work));
}

/* the word of an item that left @pool; a queued item cannot have been disabled */
static unsigned long data_off_pool(struct work_struct *work, struct worker_pool *pool)
{
	unsigned long data = (unsigned long)pool->id << WORK_OFFQ_POOL_SHIFT;

	/* the caller may hold another pool's lock, but POOL_BH is set at boot only */
	if (data_race(pool->flags) & POOL_BH)
		data |= WORK_OFFQ_BH;
	return data | data_static_bits(work);
}

/**
 * work_set_offq_pending - take an item off its queue and keep PENDING
 * @work: queued item, whose pool is locked
 * @pool: the pool on which the item runs, or, if it does not run, the one it is on
 */
void work_set_offq_pending(struct work_struct *work, struct worker_pool *pool)
{
	atomic_long_set(&work->data, data_off_pool(work, pool) | WORK_STRUCT_PENDING);
}

static void work_release(struct work_struct *work, unsigned long data)
{
	/* (1) in the head comment */
	atomic_long_set_release(&work->data, data);
	/* (3) in the head comment: the function reads only after this */
	smp_mb();
}

/**
 * work_release_to_pool - clear PENDING of an item that is about to run
 * @work: item on @pool; must not be touched afterwards
 * @pool: its pool, locked
 */
void work_release_to_pool(struct work_struct *work, struct worker_pool *pool)
{
	work_release(work, data_off_pool(work, pool));
}

/**
 * work_clear_pending - give up an item that is off queue
 * @work: item, owned by the caller through PENDING
 * @disable_delta: what to add to its disable depth: -1, 0 or 1
 *
 * The depth saturates with a warning.  The last pool and the BH mark stay.
 */
void work_clear_pending(struct work_struct *work, int disable_delta)
{
	const unsigned long one = 1UL << WORK_OFFQ_DISABLE_SHIFT;
	unsigned long data = work_data(work) & ~(unsigned long)WORK_STRUCT_PENDING;
	unsigned long depth = data & WORK_OFFQ_DISABLE_MASK;

	if (disable_delta > 0 && !WQ_WARN_ONCE(depth == WORK_OFFQ_DISABLE_MASK,
					       "workqueue: %ps disabled too often\n",
					       work->func))
		data += one;
	else if (disable_delta < 0 && !WQ_WARN_ONCE(!depth,
						    "workqueue: %ps enabled more often than disabled\n",
						    work->func))
		data -= one;

	work_release(work, data);
}
