/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a worker does for each item: its flags, its place on the idle list, the next item.  How
 * the item runs is in worker.c, what scheduler and tick do with the flags in concurrency.c.
 */
#ifndef _KERNEL_WORKQUEUE_WORKER_H
#define _KERNEL_WORKQUEUE_WORKER_H

#include <linux/rcuwait.h>

#include "active.h"

/* Warn if @list is not empty.  Without CONFIG_DEBUG_LIST this costs an item nothing. */
#define WQ_WARN_ON_LIST(list)			\
	WQ_WARN_ON_ONCE(IS_ENABLED(CONFIG_DEBUG_LIST) && !list_empty(list))

extern struct rcuwait manager_wait;	/* pool_kill_workers() waits for managers */
struct worker *create_worker(struct worker_pool *pool);
void process_one_work(struct worker *worker, struct work_struct *work);

/* set flags of a worker, on its CPU, and adjust nr_running; L */
static inline void worker_set_flags(struct worker *worker, unsigned int flags)
{
	bool counted = !(worker->flags & WORKER_NOT_RUNNING);

	lockdep_assert_held(&worker->pool->lock);

	worker->flags |= flags;
	if (counted && (flags & WORKER_NOT_RUNNING))
		worker->pool->nr_running--;
}

/* clear flags of the calling worker, and adjust nr_running; L */
static inline void worker_clr_flags(struct worker *worker, unsigned int flags)
{
	bool counted = !(worker->flags & WORKER_NOT_RUNNING);

	lockdep_assert_held(&worker->pool->lock);

	worker->flags &= ~flags;
	if (!counted && !(worker->flags & WORKER_NOT_RUNNING))
		worker->pool->nr_running++;
}

/* put a worker without work on the idle list; L */
static inline void worker_enter_idle(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	lockdep_assert_held(&pool->lock);

	if (WQ_WARN_ON_ONCE(worker->flags & WORKER_IDLE) || WQ_WARN_ON_LIST(&worker->entry))
		return;

	/* nr_running does not change, since PREP is set */
	worker->flags |= WORKER_IDLE;
	worker->last_active = jiffies;
	pool->nr_idle++;
	list_add(&worker->entry, &pool->idle_list);

	/* if all are idle, none is running */
	WQ_WARN_ON_ONCE(pool->nr_running && pool->nr_idle == pool->nr_workers);

	if (!timer_pending(&pool->idle_timer) && too_many_workers(pool))
		mod_timer(&pool->idle_timer, jiffies + IDLE_WORKER_TIMEOUT);
}

/* take a worker off the idle list; L */
static inline void worker_leave_idle(struct worker *worker)
{
	lockdep_assert_held(&worker->pool->lock);

	if (WQ_WARN_ON_ONCE(!(worker->flags & WORKER_IDLE)))
		return;
	worker->pool->nr_idle--;
	list_del_init(&worker->entry);
	/* PREP is set here, too */
	worker->flags &= ~WORKER_IDLE;
}

/* run @work, assigned to the caller, and all else that it was given; L, dropped and retaken */
static inline void process_scheduled_works(struct worker *worker, struct work_struct *work)
{
	worker->pool->last_progress_ts = jiffies;

	do {
		process_one_work(worker, work);
	} while ((work = worker_next_scheduled(worker)));
}

/* run the first item of the worklist, which is not empty; L, dropped and retaken */
static inline void worker_run_next(struct worker *worker)
{
	struct work_struct *work = list_first_entry(&worker->pool->worklist,
						    struct work_struct, entry);

	if (pwq_assign_work(work, worker))
		process_scheduled_works(worker, work);
}

#endif /* _KERNEL_WORKQUEUE_WORKER_H */
