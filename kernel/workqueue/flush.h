/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting for an item: what is put behind it. */
#ifndef _KERNEL_WORKQUEUE_FLUSH_H
#define _KERNEL_WORKQUEUE_FLUSH_H

#include <linux/completion.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct task_struct;

/*
 * An item that tells a flusher that its wait is over, on its stack: so @task exists for as long as
 * it is on a list.
 */
struct wq_barrier {
	struct work_struct work;
	struct completion done;
	struct task_struct *task;
};

void wq_barrier_func(struct work_struct *work);
bool __flush_work(struct work_struct *work, bool from_cancel);

#endif /* _KERNEL_WORKQUEUE_FLUSH_H */
