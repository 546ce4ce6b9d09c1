/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cursors on a worklist: kernel/workqueue/cursor.c, rescuer.c, mayday.c
 *
 * One worklist has items of two pwqs, "ours" and another one.  The rescuer takes our
 * items.  The mayday timer looks at all items.  Each of them drops the lock after STRIDE
 * entries and leaves a cursor on the list.  Meanwhile others append items, append held-back
 * items with a barrier, take items from the head, cancel items in the middle, and put a
 * barrier behind an item.  In the end our pwq may die while the other one has items.
 *
 * Each atomic or d_step block is what one task does under pool->lock.  Between two
 * blocks, all other tasks may move.
 *
 * Holds:
 * - The rescuer finds all of our items that are on the list when its walk ends.
 * - The timer calls for each pwq that has an item on the list when its walk ends.
 * - No walk passes an entry twice, so each walk ends.
 * - No entry is taken twice, and each is taken in the end.
 * - Nobody takes a cursor for an item.
 * - A dead pwq has no cursor on the list, and the timer's cursor does not name it.
 *
 * Mutations, each of which must break it:
 * - NO_DROP_TAKE, NO_DROP_CANCEL: whoever takes or cancels an item does not call
 *   worklist_drop_cursors(), so a cursor comes first.
 * - NO_SKIP: cursor_advance() shows a cursor to the stop function.
 * - SPLIT: a stride may end between an item and its barrier.
 * - AT_HEAD: a cursor that has passed nothing is put in front of the first entry.
 * - NO_PLACE: each walk starts from the head again after it dropped the lock.
 * - STOP_EARLY: the rescuer takes the end of a stride for the end of the list.
 * - TAKE_LATE: the rescuer drops the lock between finding an item and taking it.
 * - ADD_FIRST: new items go to the head of the list.
 * - STAY_DEAD: put_pwq() leaves the cursor of a dead pwq on the list.
 * - KEEP_NAME: put_pwq() leaves the timer's cursor alone.
 */
#ifndef ITEMS
#define ITEMS	3
#endif
#define FIRST		2	/* items that are there at the beginning */
#define BARRIERS	1
#define STRIDE		2	/* CURSOR_STRIDE */

/* entries: first the items, then the barriers, then the cursors */
#define CURSORS		(ITEMS + BARRIERS)
#define RESCUER		CURSORS		/* pwq->mayday_cursor of our pwq */
#define TIMER		(CURSORS + 1)	/* pool->mayday_cursor */
#define NONE		(CURSORS + 2)
#define IS_CURSOR(e)	(e >= CURSORS)
#define BY(cursor, e)	((cursor - CURSORS) * CURSORS + e)

byte list[NONE];		/* pool->worklist */
byte length;
bool linked[CURSORS];		/* WORK_STRUCT_LINKED */
bool ours[CURSORS];		/* get_work_pwq() is our pwq */
bool taken[CURSORS];		/* by a worker, the rescuer or a canceller */
byte nr_barriers;		/* used so far */

byte nr_ours;			/* references to our pwq: its items on the list, */
bool rescuing = true;		/* the call for the rescuer, */
bool current = true;		/* and its entries, until a change of attributes */

bool passed[2 * CURSORS];	/* by the rescuer, by the timer */
bool called[2];			/* pwqs that the timer has called for; 1: ours */
bool borrowed;			/* the timer's cursor names our pwq, if it is on the list */
bool dead;			/* our pwq */

hidden byte at, shift, entry, more;	/* used within one d_step only */

inline find(which)
{
	at = 0;
	do
	:: at < length && list[at] != which -> at++
	:: else -> break
	od
}

inline remove_at()
{
	shift = at;
	length--;
	do
	:: shift < length -> list[shift] = list[shift + 1]; shift++
	:: else -> break
	od;
	list[length] = 0
}

inline insert_at(which)
{
	shift = length;
	length++;
	do
	:: shift > at -> list[shift] = list[shift - 1]; shift--
	:: else -> break
	od;
	list[at] = which
}

inline append(which)
{
	at = length;
	insert_at(which);
	nr_ours = nr_ours + ours[which]
}

inline append_barrier(item)
{
	ours[ITEMS + nr_barriers] = ours[item];
	append(ITEMS + nr_barriers);
	nr_barriers++
}

/* list_del_init() of a cursor */
inline take_off(cursor)
{
	find(cursor);
	if
	:: at < length -> remove_at()
	:: else
	fi
}

/* cursor_borrow_pwq() */
inline borrow()
{
	find(TIMER);
	borrowed = false;
	if
	:: at < length ->
		entry = list[at - 1];
		borrowed = (IS_CURSOR(entry) -> true : ours[entry])
	:: else
	fi;
	assert(!(dead && borrowed))
}

inline drop_cursors()
{
	at = 0;
	do
	:: length > 0 && IS_CURSOR(list[0]) -> remove_at()
	:: else -> break
	od
}

/* take the entry at a place off the list for good */
inline take_at()
{
	assert(at < length);
	entry = list[at];
	assert(!IS_CURSOR(entry));
	assert(!taken[entry]);
	taken[entry] = true;
	nr_ours = nr_ours - ours[entry];
	more = linked[entry];
	linked[entry] = false;
	remove_at()
}

/* move_linked_works() from the worklist to a worker */
inline take_with_barriers(which)
{
	find(which);
	do
	:: take_at();
		if
		:: more
		:: else -> break
		fi
	od
}

/* assign_work(), for whichever worker */
inline take_item(which)
{
	take_with_barriers(which);
#ifndef NO_DROP_TAKE
	drop_cursors()
#endif
}

/* the stop functions is_item_of() and call_for_item() */
inline stop_at(cursor)
{
	assert(!IS_CURSOR(entry));
	if
	:: cursor == RESCUER && ours[entry] -> found = entry
	:: cursor == TIMER -> called[ours[entry]] = true
	:: else
	fi
}

/* cursor_advance() */
inline advance(cursor)
{
	found = NONE;
	find(cursor);
	if
	:: at < length ->
		remove_at();
#ifdef NO_PLACE
		at = 0
#endif
	:: else -> at = 0
	fi;

	do
	:: at < length ->
		entry = list[at];
#ifndef NO_SKIP
		if
		:: !IS_CURSOR(entry) -> stop_at(cursor)
		:: else
		fi;
#else
		stop_at(cursor);
#endif
		if
		:: found != NONE -> break
		:: else
		fi;
		at++;
		budget = (budget > 0 -> budget - 1 : 0);
		more = false;
		if
		:: !IS_CURSOR(entry) ->
			assert(!passed[BY(cursor, entry)]);
			passed[BY(cursor, entry)] = true;
			more = linked[entry]
		:: else
		fi;
#ifdef SPLIT
		more = false;
#endif
		if
		:: budget == 0 && !more -> break
		:: else
		fi
	:: else -> break
	od;

#ifdef AT_HEAD
	insert_at(cursor)
#else
	if
	:: at > 0 -> insert_at(cursor)
	:: else
	fi
#endif
}

/* assign_rescuer_work(); gives up at any time, since workers come and go */
proctype rescuer()
{
	byte found, budget;

	budget = STRIDE;
	do
	:: true -> break		/* !pwq_wants_rescue() */
	:: atomic {
			d_step { advance(RESCUER); more = false }
			if
#ifdef STOP_EARLY
			:: found == NONE ->
#else
			:: found == NONE && budget > 0 ->
#endif
				assert(nr_ours == 0);
				break
			:: found == NONE && budget == 0
			:: found != NONE
			fi;
#ifdef TAKE_LATE
		}
		atomic {
#endif
			if
			:: found == NONE -> budget = STRIDE
			:: else ->
				d_step { take_item(found); found = 0; more = false }
				if
				:: budget = STRIDE	/* run it */
				:: true			/* another worker runs it */
				fi
			fi
		}
	od;
	atomic { rescuing = false; budget = 0; found = 0 }
}

/* pool_mayday_arm(), then pool_mayday_timeout() */
proctype timer()
{
	byte n, found, budget;

	for (n : 1 .. 2) {
		d_step {
			take_off(TIMER);
			called[0] = false;
			called[1] = false;
			for (at : 0 .. CURSORS - 1) {
				passed[BY(TIMER, at)] = false
			}
		}
		do
		:: true -> break		/* the manager has made a worker */
		:: d_step { take_off(TIMER); more = false } -> break	/* !need_to_create_worker() */
		:: atomic {
				budget = STRIDE;
				d_step { advance(TIMER); borrow(); more = false }
				if
				:: budget > 0 ->
					d_step {
						take_off(TIMER);
						for (at : 1 .. length) {
							entry = list[at - 1];
							assert(IS_CURSOR(entry) || called[ours[entry]])
						}
					}
					break
				:: else
				fi
			}
		od
	}
}

/* an item comes alone, or with what was behind it while it was held back */
inline queue(n)
{
	if
	:: ours[n] = true
	:: true
	fi;
	if
	:: d_step {
#ifdef ADD_FIRST
			at = 0;
			insert_at(n);
			nr_ours = nr_ours + ours[n];
#else
			append(n);
#endif
			more = false
		}
	:: d_step {	/* pwq_activate_next() */
			nr_barriers < BARRIERS ->
			append(n);
			linked[n] = true;
			append_barrier(n)
		}
	:: d_step {	/* work_leave_barriers(): the item was cancelled before */
			nr_barriers < BARRIERS ->
			taken[n] = true;
			append_barrier(n)
		}
	fi
}

proctype queuer()
{
	byte n;

	for (n : FIRST .. ITEMS - 1) {
		atomic { queue(n) }
	}
	current = false
}

/* worker_run_next() */
proctype worker()
{
end:	do
	:: d_step { length > 0 -> take_item(list[0]); more = false }
	od
}

inline cancel_drops_cursors()
{
#ifndef NO_DROP_CANCEL
	drop_cursors();
#endif
	more = false
}

inline any_item(n)
{
	n = 0;
	do
	:: n < ITEMS - 1 -> n++
	:: break
	od
}

/* work_dequeue() */
proctype canceller()
{
	byte n;

	atomic {
		any_item(n);
		if
		:: d_step {		/* its barriers stay */
				find(n);
				if
				:: at < length ->
					linked[n] = false;
					take_at()
				:: else
				fi;
				cancel_drops_cursors()
			}
		:: d_step {		/* it is running, too: they go to that worker */
				find(n);
				if
				:: at < length -> take_with_barriers(n)
				:: else
				fi;
				cancel_drops_cursors()
			}
		fi;
		n = 0
	}
}

/* insert_wq_barrier() */
proctype flusher()
{
	byte n;

	atomic {
		any_item(n);
		d_step {
			find(n);
			if
			:: at < length && nr_barriers < BARRIERS ->
				ours[ITEMS + nr_barriers] = ours[n];
				linked[ITEMS + nr_barriers] = linked[n];
				linked[n] = true;
				at++;
				insert_at(ITEMS + nr_barriers);
				nr_ours = nr_ours + ours[n];
				nr_barriers++
			:: else
			fi;
			n = 0
		}
	}
}

/* put_pwq() of the last reference */
proctype last_put()
{
end:	d_step {
		!current && nr_ours == 0 && !rescuing ->
#ifndef STAY_DEAD
		take_off(RESCUER);
#endif
		find(RESCUER);
		assert(at == length);
		dead = true;
#ifndef KEEP_NAME
		borrow();
#endif
		find(TIMER);
		assert(at == length || !borrowed)
	}
}

init {
	byte n;

	atomic {
		for (n : 0 .. FIRST - 1) {
			queue(n)
		}
		run queuer();
		run worker();
		run canceller();
		run flusher();
		run rescuer();
		run timer();
		run last_put()
	}
	/* nothing can move any more */
	timeout ->
	assert(length == 0);
	for (n : 0 .. ITEMS + nr_barriers - 1) {
		assert(taken[n])
	}
}
