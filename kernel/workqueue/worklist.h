/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How items are linked and unlinked on their way.  What is rare is in worklist.c, which also
 * tells what lists there are.
 */
#ifndef _KERNEL_WORKQUEUE_WORKLIST_H
#define _KERNEL_WORKQUEUE_WORKLIST_H

#include <linux/kasan.h>
#include <trace/events/workqueue.h>

#include "data.h"
#include "debugobjects.h"
#include "workqueue_struct.h"

struct worker *pool_lock_runner(struct worker_pool *pool, struct work_struct *work,
				struct workqueue_struct *wq);
struct worker *pwq_lock_older_runner(struct pool_workqueue *pwq, struct work_struct *work);
void move_linked_works(struct work_struct *work, struct list_head *to);
void work_uncount(struct work_struct *work, struct pool_workqueue *pwq);
void work_leave_barriers(struct work_struct *work, struct worker_pool *pool);
void mayday_cursor_func(struct work_struct *unused);

static inline bool work_is_cursor(const struct work_struct *work)
{
	return work->func == mayday_cursor_func;
}

/* call this after taking an entry off a worklist: no cursor may come first */
static inline void worklist_drop_cursors(struct list_head *worklist)
{
	struct work_struct *first;

	while ((first = list_first_entry_or_null(worklist, struct work_struct, entry)) &&
	       unlikely(work_is_cursor(first)))
		list_del_init(&first->entry);
}

/*
 * The worker that is running @work, or NULL.  The function of an item may have freed it, and its
 * memory may since serve as another item.  So the function must match, too.  Two items that share
 * both address and function cannot be told apart, and serialising them does no harm.  L.
 */
static inline struct worker *find_worker_executing_work(struct worker_pool *pool,
							struct work_struct *work)
{
	struct worker *worker;

	lockdep_assert_held(&pool->lock);

	hash_for_each_possible(pool->busy_hash, worker, hentry, (unsigned long)work) {
		if (worker->current_work != work)
			continue;
		/* do not read it earlier: a caller may know no more than its address */
		if (worker->current_func == work->func)
			return worker;
	}
	return NULL;
}

/* put an item on a list of a pwq or its pool; @pwq gets a reference for it.  L */
static inline void insert_work(struct pool_workqueue *pwq, struct work_struct *work,
			       struct list_head *before, unsigned long flags)
{
	debug_work_activate(work);
	/* a use after free will tell who queued the item */
	kasan_record_aux_stack(work);

	get_pwq(pwq);
	set_work_pwq(work, pwq, flags);
	list_add_tail(&work->entry, before);
}

/* the watchdog counts from the moment when there is something to do */
static inline void pool_stamp_first(struct worker_pool *pool)
{
	if (list_empty(&pool->worklist))
		pool->last_progress_ts = jiffies;
}

/* put an item, which is counted as active, on the worklist; L */
static inline void pwq_insert_ready(struct pool_workqueue *pwq, struct work_struct *work,
				    unsigned long flags)
{
	trace_workqueue_activate_work(work);
	pool_stamp_first(pwq->pool);
	pwq->nr_ready += !!pwq->slots;
	insert_work(pwq, work, &pwq->pool->worklist, flags);
}

/* has a queued item of @pwq a slot?  Per-CPU pwqs have none, nor do barriers.  L */
static inline bool work_has_slot(struct work_struct *work, struct pool_workqueue *pwq)
{
	return pwq->slots && !(work_data(work) & WORK_STRUCT_INACTIVE);
}

/*
 * Let @worker have an item of its pool's worklist, and its barriers; false if another worker is
 * running the item.  Then that one gets this run, too: an item never runs twice at a time.  This
 * is why queueing has kept the item on this pool.  L.
 */
static inline bool assign_work(struct work_struct *work, struct worker *worker)
{
	struct worker *other = find_worker_executing_work(worker->pool, work);
	struct pool_workqueue *pwq = get_work_pwq(work);
	bool has_slot = work_has_slot(work, pwq);

	pwq->nr_ready -= has_slot;
	if (unlikely(other)) {
		pwq->nr_scheduled += has_slot;
		move_linked_works(work, &other->scheduled);
	} else {
		struct work_struct *next = list_next_entry(work, entry);

		list_del_init(&work->entry);
		if (unlikely(work_data(work) & WORK_STRUCT_LINKED))
			move_linked_works(next, &worker->scheduled);
	}
	worklist_drop_cursors(&worker->pool->worklist);
	return !other;
}

/* the next item or barrier that a worker was given, or NULL; L */
static inline struct work_struct *worker_next_scheduled(struct worker *worker)
{
	struct work_struct *work = list_first_entry_or_null(&worker->scheduled,
							    struct work_struct, entry);
	struct pool_workqueue *pwq;

	if (likely(!work))
		return NULL;
	list_del_init(&work->entry);
	pwq = get_work_pwq(work);
	pwq->nr_scheduled -= work_has_slot(work, pwq);
	return work;
}

#endif /* _KERNEL_WORKQUEUE_WORKLIST_H */
