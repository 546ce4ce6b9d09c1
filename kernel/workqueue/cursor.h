/* SPDX-License-Identifier: GPL-2.0 */
/* A place in a worklist that is kept while the lock is dropped.  See cursor.c. */
#ifndef _KERNEL_WORKQUEUE_CURSOR_H
#define _KERNEL_WORKQUEUE_CURSOR_H

#include <linux/list.h>
#include <linux/workqueue.h>

struct pool_workqueue;

/* how many entries to pass while interrupts are off */
#define CURSOR_STRIDE	256

/* does a cursor stop before @work, which is no cursor? */
typedef bool (*cursor_stop_fn)(struct work_struct *work, void *arg);

void cursor_init(struct work_struct *cursor, struct pool_workqueue *pwq);
void cursor_borrow_pwq(struct work_struct *cursor);
struct work_struct *cursor_advance(struct work_struct *cursor, struct list_head *worklist,
				   cursor_stop_fn stop_at, void *arg, unsigned int *budget);
void mayday_cursor_func(struct work_struct *unused);

static inline bool work_is_cursor(const struct work_struct *work)
{
	return work->func == mayday_cursor_func;
}

/* Call this after taking an entry off a worklist: no cursor may come first. */
static inline void worklist_drop_cursors(struct list_head *worklist)
{
	struct work_struct *first;

	while ((first = list_first_entry_or_null(worklist, struct work_struct, entry)) &&
	       unlikely(work_is_cursor(first)))
		list_del_init(&first->entry);
}

#endif /* _KERNEL_WORKQUEUE_CURSOR_H */
