/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a worker does for each item: its flags, its place on the idle list, the next item.  How
 * the item runs is in worker.c, what scheduler and tick do with the flags in concurrency.c.
 */
#ifndef _KERNEL_WORKQUEUE_WORKER_H
#define _KERNEL_WORKQUEUE_WORKER_H

#include <linux/rcuwait.h>

#include "active.h"
#include "worklist.h"

/* Warn if @list is not empty.  Without CONFIG_DEBUG_LIST this costs an item nothing. */
#define WQ_WARN_ON_LIST(list)			\
	WQ_WARN_ON_ONCE(IS_ENABLED(CONFIG_DEBUG_LIST) && !list_empty(list))

extern struct rcuwait manager_wait;	/* pool_kill_workers() waits for managers */
struct worker *create_worker(struct worker_pool *pool);
void process_one_work(struct worker *worker, struct work_struct *work);

/**
 * worker_set_flags - set flags and adjust nr_running
 * @worker: the calling worker, or the one a tick interrupted
 * @flags: flags to set
 *
 * Context: pool->lock held, on the worker's CPU.
 */
static inline void worker_set_flags(struct worker *worker, unsigned int flags)
{
	bool counted = !(worker->flags & WORKER_NOT_RUNNING);

	lockdep_assert_held(&worker->pool->lock);

	worker->flags |= flags;
	if (counted && (flags & WORKER_NOT_RUNNING))
		worker->pool->nr_running--;
}

/**
 * worker_clr_flags - clear flags and adjust nr_running
 * @worker: the calling worker
 * @flags: flags to clear
 *
 * Context: pool->lock held, on the worker's CPU.
 */
static inline void worker_clr_flags(struct worker *worker, unsigned int flags)
{
	bool counted = !(worker->flags & WORKER_NOT_RUNNING);

	lockdep_assert_held(&worker->pool->lock);

	worker->flags &= ~flags;
	if (!counted && !(worker->flags & WORKER_NOT_RUNNING))
		worker->pool->nr_running++;
}

/**
 * worker_enter_idle - put a worker on the idle list
 * @worker: a worker without work
 *
 * Context: pool->lock held.
 */
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

/**
 * worker_leave_idle - take a worker off the idle list
 * @worker: the idle worker
 *
 * Context: pool->lock held.
 */
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

/**
 * process_scheduled_works - run an item, and all else that the worker has been given
 * @worker: the calling worker
 * @work: item that pwq_assign_work() took for it
 *
 * Context: pool->lock held; dropped and retaken.
 */
static inline void process_scheduled_works(struct worker *worker, struct work_struct *work)
{
	worker->pool->last_progress_ts = jiffies;

	do {
		process_one_work(worker, work);
	} while ((work = worker_next_scheduled(worker)));
}

/**
 * worker_run_next - take the first item of the worklist and run it
 * @worker: the calling worker
 *
 * Context: pool->lock held; dropped and retaken; the worklist is not empty.
 */
static inline void worker_run_next(struct worker *worker)
{
	struct work_struct *work = list_first_entry(&worker->pool->worklist,
						    struct work_struct, entry);

	if (pwq_assign_work(work, worker))
		process_scheduled_works(worker, work);
}

#endif /* _KERNEL_WORKQUEUE_WORKER_H */
