/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What waiters put on lists: flushers of a workqueue, and barriers behind an item.
 */
#ifndef _KERNEL_WORKQUEUE_FLUSH_H
#define _KERNEL_WORKQUEUE_FLUSH_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct task_struct;

/**
 * struct wq_barrier - an item that tells a flusher that its wait is over
 *
 * It lives on the flusher's stack, so @task exists for as long as the barrier can be
 * found on a list.
 *
 * @work: the item; dumps recognise it by its function, wq_barrier_func()
 * @done: completed by that function
 * @task: the task that waits, for dumps only
 */
struct wq_barrier {
	struct work_struct work;
	struct completion done;
	struct task_struct *task;
};

/* a task in flush_workqueue(), on its stack */
struct wq_flusher {
	struct list_head list;		/* W: wq->flushers or flusher_overflow */
	int flush_color;		/* W: what it waits for */
	struct completion done;		/* finished, or it is first and its items are done */
	bool finished;			/* W, then ordered by @done */
};

void wq_barrier_func(struct work_struct *work);

#endif /* _KERNEL_WORKQUEUE_FLUSH_H */
