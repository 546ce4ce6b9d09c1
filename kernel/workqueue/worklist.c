// SPDX-License-Identifier: GPL-2.0
/*
 * The lists that items are on.  All code that links an item is here and in worklist.h.
 *
 * A queued item is on one of three lists, each guarded by the lock of its pool:
 *
 *   pwq->inactive_works	held back by max_active, or until it is next to start
 *   pool->worklist		ready to run
 *   worker->scheduled		given to one worker, after the item that it runs
 *
 * A flush barrier is linked right behind the item it waits for and moves with it.
 *
 * A cursor is the place of a rescuer on the worklist.  Whoever walks the list takes each entry for
 * an item, so a cursor has the type of one and names a pwq.  But it is never run.  Two rules keep
 * it out of everybody's way:
 *
 * - It is never the first entry when the lock is dropped: whoever takes an entry off the list also
 *   drops the cursors that would then come first.  A place that is on no list means the head.
 *
 * - It is never between an item and its barriers.  A rescuer puts it in front of the item that it
 *   takes, its first one, so what comes before belongs to another pwq.  A later barrier comes
 *   right behind its item.
 *
 * This file is below all others that handle items.  It decides nothing and wakes nobody.  It
 * counts references, and where the items are that have a slot.
 */
#include <linux/kasan.h>

#include "workqueue_struct.h"

#define CREATE_TRACE_POINTS
#include "worklist.h"

/* lock @pool and return the worker if it is running @work for @wq, else NULL; interrupts are off */
struct worker *pool_lock_runner(struct worker_pool *pool, struct work_struct *work,
				struct workqueue_struct *wq)
{
	struct worker *worker;

	raw_spin_lock(&pool->lock);
	worker = find_worker_executing_work(pool, work);
	if (worker && worker->current_pwq->wq == wq)
		return worker;
	raw_spin_unlock(&pool->lock);
	return NULL;
}

/*
 * The worker that runs @work on an older pwq than @pwq, on which it is queued, its pool locked, or
 * NULL.  A change of attributes gives an ordered workqueue a new pwq, which is plugged as long as
 * the older ones have items.  Interrupts off, under RCU, no pool locked.
 */
struct worker *pwq_lock_older_runner(struct pool_workqueue *pwq, struct work_struct *work)
{
	struct pool_workqueue *older;

	for_each_pwq(older, pwq->wq) {
		struct worker *runner;

		if (older == pwq)
			break;
		runner = pool_lock_runner(older->pool, work, pwq->wq);
		if (runner)
			return runner;
	}
	return NULL;
}

/* append an item to a list of its pool, with the flush barriers behind it; L */
void move_linked_works(struct work_struct *work, struct list_head *to)
{
	bool more;

	do {
		struct work_struct *next = list_next_entry(work, entry);

		more = work_data(work) & WORK_STRUCT_LINKED;
		list_move_tail(&work->entry, to);
		work = next;
	} while (more);
}

/* is @work, which has a slot, on the worklist of @pool?  If not, a worker has it.  L */
static bool work_is_ready(struct work_struct *work, struct worker_pool *pool)
{
	struct work_struct *ready;

	list_for_each_entry(ready, &pool->worklist, entry)
		if (ready == work)
			return true;
	return false;
}

/* an item of @pwq is about to be dequeued; L */
void work_uncount(struct work_struct *work, struct pool_workqueue *pwq)
{
	if (!work_has_slot(work, pwq))
		return;
	/* The walk is rare: an item of @pwq waits for its own run, and another one is ready. */
	if (unlikely(pwq->nr_scheduled) && (!pwq->nr_ready || !work_is_ready(work, pwq->pool)))
		pwq->nr_scheduled--;
	else
		pwq->nr_ready--;
}

/*
 * Move the barriers behind an item that is being dequeued to where they can complete without it.
 * @work moves along; the caller takes it off the list.  If an ordered item runs on an older pwq of
 * another pool, these barriers do not wait for that run.  flush_work() has put a barrier behind
 * that run, too.  If a BH item runs on the pool of a dead CPU, the worker of @pool is busy with
 * that run, so the barriers come after it.  L.
 */
void work_leave_barriers(struct work_struct *work, struct worker_pool *pool)
{
	unsigned long data = work_data(work);
	struct worker *runner = NULL;

	/* it may be running, too: its waiters wait for that run as well */
	if (data & WORK_STRUCT_LINKED)
		runner = find_worker_executing_work(pool, work);

	if (runner) {
		move_linked_works(work, &runner->scheduled);
	} else if (data & WORK_STRUCT_INACTIVE) {
		/* without it they would be stuck; they need no slot, so they may run */
		pool_stamp_first(pool);
		move_linked_works(work, &pool->worklist);
	}
	/* if the item was ready to run, the barriers are in the right place */
}

/* marks a cursor; tools know it by this name */
void mayday_cursor_func(struct work_struct *unused)
{
	WARN_ON_ONCE(true);
}
