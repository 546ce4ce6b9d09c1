// SPDX-License-Identifier: GPL-2.0
/*
 * Cursors: how to walk a long worklist a few entries at a time.
 *
 * The rescuer looks for the items of one pwq and runs them one by one.  They stand
 * among items of other pwqs, which nobody runs meanwhile.  The mayday timer looks for
 * workqueues to help.  Neither may keep interrupts off for a whole worklist, nor start
 * from its head again and again.  So each leaves a cursor in the list when it drops the
 * lock:
 *
 *	worklist: other, other, [cursor], item, other, item
 *
 * A cursor has the type of a work item, because whoever walks the list takes each entry
 * for an item.  Debuggers do so, too, and follow the data word to the pwq.  So a cursor on
 * a list names a pwq: the rescuer's names the one that is served, and the timer's that of
 * the entry before it.  But a cursor is never run.  Two rules keep it out of everybody's way:
 *
 * - It is never the first entry.  Whoever takes an entry off the list also drops the
 *   cursors that would then come first.  All entries that those cursors had passed are
 *   gone, so a cursor that is on no list stands before the first entry.  Hence a
 *   worklist with no items is empty, and the first entry is always an item.
 *
 * - It is never between an item and the flush barriers linked behind that item: they
 *   move together.
 *
 * Items are appended to the worklist.  Only barriers go into the middle, behind
 * their item.  So only barriers can appear among the entries that a cursor has passed.
 */
#include <linux/bug.h>

#include "cursor.h"

/* the word of a cursor that names the same pwq as the word @data of a queued item */
static unsigned long cursor_data(unsigned long data)
{
	/* not active: it has no slot */
	return (data & WORK_STRUCT_PWQ_MASK) | WORK_STRUCT_PWQ | WORK_STRUCT_PENDING |
	       WORK_STRUCT_INACTIVE;
}

/**
 * mayday_cursor_func - marks a cursor; tools know it by this name
 * @unused: the cursor
 */
void mayday_cursor_func(struct work_struct *unused)
{
	WARN_ON_ONCE(true);
}

/**
 * cursor_init - set up a cursor
 * @cursor: on no list from here on, so it stands before the first entry
 * @pwq: the pwq to which the cursor belongs, or %NULL: see cursor_borrow_pwq()
 */
void cursor_init(struct work_struct *cursor, struct pool_workqueue *pwq)
{
	/* not INIT_WORK(): it is no item for debugobjects and lockdep */
	atomic_long_set(&cursor->data,
			pwq ? cursor_data((unsigned long)pwq) : WORK_STRUCT_NO_POOL);
	INIT_LIST_HEAD(&cursor->entry);
	cursor->func = mayday_cursor_func;
}

/**
 * cursor_advance - move a cursor on
 * @cursor: the cursor
 * @worklist: the list it is for
 * @stop_at: tells where to stop
 * @arg: for @stop_at
 * @budget: how many entries to pass; what is left of it on return.  Barriers behind
 *	    the last item are passed, too.
 *
 * Context: the lock of the list held.
 * Return: the entry at which the cursor has stopped, or %NULL.  If %NULL, the cursor is
 * at the end, unless @budget is used up.  In that case call this again, at once or
 * after dropping the lock.
 */
struct work_struct *cursor_advance(struct work_struct *cursor, struct list_head *worklist,
				   cursor_stop_fn stop_at, void *arg, unsigned int *budget)
{
	struct list_head *passed = worklist;	/* the last entry before the cursor */
	struct work_struct *found = NULL;

	if (!list_empty(&cursor->entry)) {
		passed = cursor->entry.prev;
		list_del_init(&cursor->entry);
	}

	while (!list_is_last(passed, worklist)) {
		struct work_struct *work = list_entry(passed->next, struct work_struct, entry);

		if (!work_is_cursor(work) && stop_at(work, arg)) {
			found = work;
			break;
		}
		passed = passed->next;
		if (*budget)
			--*budget;
		if (!*budget && !(atomic_long_read(&work->data) & WORK_STRUCT_LINKED))
			break;
	}

	if (passed != worklist)
		list_add(&cursor->entry, passed);
	return found;
}

/**
 * cursor_borrow_pwq - let a cursor name the pwq of the entry before it
 * @cursor: a cursor that belongs to no pwq
 *
 * Call this when the cursor has moved, and when a pwq dies that it may name: that pwq has no
 * entry on the list any more.
 *
 * Context: the lock of the list held.
 */
void cursor_borrow_pwq(struct work_struct *cursor)
{
	unsigned long data = WORK_STRUCT_NO_POOL;

	/* it is never the first entry */
	if (!list_empty(&cursor->entry))
		data = cursor_data(atomic_long_read(&list_prev_entry(cursor, entry)->data));
	atomic_long_set(&cursor->data, data);
}
