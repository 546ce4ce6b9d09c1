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
 * Two CPUs may use PENDING while they share no other lock:
 *
 *   runs the item: work_release()      queues it again: work_claim_idle()
 *
 *   finish all use of the word         write what the item is to see
 *   release: clear PENDING             test_and_set_bit(PENDING), a full
 *   smp_mb()                           barrier also when it fails
 *   run the function
 *
 * The release pairs with test_and_set_bit(): if the bit was clear, the queueing CPU sees
 * everything that was written to the item, its last pool included.  smp_mb() pairs with it, too:
 * if the bit was still set, queueing is refused, and the function that is about to run sees what
 * was written before the attempt to queue.
 */
#include "data.h"
#include "pool_workqueue.h"

/*
 * The pool an item is on, or was on last, unless that is gone; under RCU, with interrupts off, or
 * P.
 */
struct worker_pool *get_work_pool(struct work_struct *work)
{
	unsigned long data = work_data(work);
	struct pool_workqueue *pwq = data_pwq(data);
	int id;

	if (pwq)
		return pwq->pool;

	id = data >> WORK_OFFQ_POOL_SHIFT;
	return id == WORK_OFFQ_POOL_NONE ? NULL : idr_find(&worker_pool_idr, id);
}

/*
 * Give up the ownership of an item that is off queue, and add @disable_delta, which is -1, 0 or 1,
 * to its depth.  The depth saturates with a warning.
 */
void work_clear_pending(struct work_struct *work, int disable_delta)
{
	const unsigned long one = 1UL << WORK_OFFQ_DISABLE_SHIFT;
	unsigned long data = work_data(work) & ~(unsigned long)WORK_STRUCT_PENDING;
	unsigned long depth = data & WORK_OFFQ_DISABLE_MASK;

	if (disable_delta > 0 && !WQ_WARN_ONCE(depth == WORK_OFFQ_DISABLE_MASK,
					       "workqueue: work disable count overflowed\n"))
		data += one;
	else if (disable_delta < 0 && !WQ_WARN_ONCE(!depth,
						    "workqueue: work disable count underflowed\n"))
		data -= one;

	work_release(work, data);
}
