// SPDX-License-Identifier: GPL-2.0
/*
 * Cursors: how to walk a long worklist a few entries at a time.
 *
 * The rescuer looks for the items of one pwq and runs them one by one.  They stand among items of
 * other pwqs, which nobody runs meanwhile.  The mayday timer looks for workqueues to help.
 * Neither may keep interrupts off for a whole worklist, nor start from its head again and again.
 * So each leaves a cursor in the list when it drops the lock:
 *
 *	worklist: other, other, [cursor], item, other, item
 *
 * A cursor has the type of a work item, because whoever walks the list takes each entry for one.
 * Debuggers follow its word to a pwq, so it names one.  But it is never run.  Two rules keep it
 * out of everybody's way:
 *
 * - It is never the first entry: whoever takes an entry off the list also drops the cursors that
 *   would then come first.  So a cursor that is on no list stands before the first entry, and a
 *   worklist with no items is empty.
 *
 * - It is never between an item and the flush barriers linked behind that item: they move
 *   together.  Only barriers go into the middle of the list, so only barriers can appear among the
 *   entries that a cursor has passed.
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

/* marks a cursor; tools know it by this name */
void mayday_cursor_func(struct work_struct *unused)
{
	WARN_ON_ONCE(true);
}

/* set up a cursor, which stands before the first entry; it belongs to @pwq, or borrows one */
void cursor_init(struct work_struct *cursor, struct pool_workqueue *pwq)
{
	/* not INIT_WORK(): it is no item for debugobjects and lockdep */
	atomic_long_set(&cursor->data, pwq ? cursor_data((unsigned long)pwq) : WORK_STRUCT_NO_POOL);
	INIT_LIST_HEAD(&cursor->entry);
	cursor->func = mayday_cursor_func;
}

/*
 * Move @cursor on until @stop_at says so; return that entry.  If NULL, it is at the end, unless
 * @budget, the number of entries to pass, is used up: then call this again, at once or after
 * dropping the lock.  Barriers behind the last item are passed, too.  L.
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

/*
 * Let @cursor name the pwq of the entry before it: when it has moved, and when a pwq dies that it
 * may name, of which no entry is on the list any more.  L.
 */
void cursor_borrow_pwq(struct work_struct *cursor)
{
	unsigned long data = WORK_STRUCT_NO_POOL;

	/* it is never the first entry */
	if (!list_empty(&cursor->entry))
		data = cursor_data(atomic_long_read(&list_prev_entry(cursor, entry)->data));
	atomic_long_set(&cursor->data, data);
}
