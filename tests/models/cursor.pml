/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The place of a rescuer on a worklist: kernel/workqueue/rescuer.c, worklist.h
 *
 * One worklist has items of two pwqs, "ours" and another one.  The rescuer takes our
 * items.  While it runs one, it leaves a cursor on the list.  Meanwhile others append
 * items, append held-back items with a barrier, take items from the head, cancel items in
 * the middle, and put a barrier behind an item.  In the end our pwq may die while the
 * other one has items.
 *
 * Each atomic or d_step block is what one task does under pool->lock.  Between two
 * blocks, all other tasks may move.
 *
 * Holds:
 * - The rescuer finds all of our items that are on the list when its walk ends.
 * - It passes no entry twice before that.
 * - No entry is taken twice, and each is taken in the end.
 * - Nobody takes a cursor for an item.
 * - A dead pwq has no cursor on the list.
 *
 * Mutations, each of which must break it:
 * - NO_DROP_TAKE, NO_DROP_CANCEL: whoever takes or cancels an item does not call
 *   worklist_drop_cursors(), so a cursor comes first.
 * - BEHIND: the cursor comes behind the item that the rescuer takes.
 * - NO_PLACE: each walk starts from the head again.
 * - TAKE_LATE: the rescuer drops the lock between finding an item and taking it.
 * - ADD_FIRST: new items go to the head of the list.
 * - STAY_DEAD: put_pwq() leaves the cursor of a dead pwq on the list.
 */
#ifndef ITEMS
#define ITEMS	3
#endif
#define FIRST		2	/* items that are there at the beginning */
#define BARRIERS	1

/* entries: first the items, then the barriers, then pwq->mayday_cursor of our pwq */
#define CURSOR		(ITEMS + BARRIERS)
#define NONE		(CURSOR + 1)

byte list[NONE];		/* pool->worklist */
byte length;
bool linked[CURSOR];		/* WORK_STRUCT_LINKED */
bool ours[CURSOR];		/* get_work_pwq() is our pwq */
bool taken[CURSOR];		/* by a worker, the rescuer or a canceller */
byte nr_barriers;		/* used so far */

byte nr_ours;			/* references to our pwq: its items on the list, */
bool rescuing = true;		/* the call for the rescuer, */
bool current = true;		/* and its entries, until a change of attributes */

bool passed[CURSOR];		/* by the rescuer */

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

/* list_del_init() of the cursor */
inline take_off()
{
	find(CURSOR);
	if
	:: at < length -> remove_at()
	:: else
	fi
}

/* worklist_drop_cursors() */
inline drop_cursors()
{
	at = 0;
	do
	:: length > 0 && list[0] == CURSOR -> remove_at()
	:: else -> break
	od
}

/* take the entry at a place off the list for good */
inline take_at()
{
	assert(at < length);
	entry = list[at];
	assert(entry != CURSOR);
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

/* pwq_next_item(); if there is none, the cursor stays where it is */
inline next_item()
{
	found = NONE;
#ifdef NO_PLACE
	at = 0;
#else
	find(CURSOR);
	at = (at < length -> at + 1 : 0);
#endif
	do
	:: at < length && found == NONE ->
		entry = list[at];
		if
		:: entry == CURSOR
		:: entry != CURSOR && ours[entry] -> found = entry
		:: entry != CURSOR && !ours[entry] ->
			assert(!passed[entry]);
			passed[entry] = true
		fi;
		at++
	:: else -> break
	od
}

/* list_move_tail() */
inline move_cursor(which)
{
	take_off();
	find(which);
#ifdef BEHIND
	at++;
#endif
	insert_at(CURSOR)
}

/* assign_rescuer_work(); gives up at any time, since workers come and go */
proctype rescuer()
{
	byte found;

	do
	:: true -> break		/* !pwq_wants_rescue() */
	:: atomic {
			d_step { next_item(); more = false }
			if
			:: found == NONE -> assert(nr_ours == 0); break
			:: found != NONE
			fi;
#ifdef TAKE_LATE
		}
		atomic {
#endif
			d_step { move_cursor(found); take_item(found); found = 0; more = false }
			/* run it, or leave it to the worker that runs it */
		}
	od;
	atomic { rescuing = false; found = 0 }
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
		take_off();
#endif
		find(CURSOR);
		assert(at == length)
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
		run last_put()
	}
	/* nothing can move any more */
	timeout ->
	assert(length == 0);
	for (n : 0 .. ITEMS + nr_barriers - 1) {
		assert(taken[n])
	}
}
