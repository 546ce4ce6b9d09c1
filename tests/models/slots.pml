/* SPDX-License-Identifier: GPL-2.0 */
/*
 * max_active of an unbound workqueue: kernel/workqueue/active.c
 *
 * One node has MAX slots.  Each of POOLS pools has one pwq.  Items are queued on each
 * pool and run.  Some are cancelled while they are held back or ready.  Meanwhile the workqueue is
 * frozen (max = 0) and thawed.  With KICKS, a worker sleeps until it is woken.  With TWO there are
 * two slots, so that an item may be ready while another one of its pwq runs.
 *
 * Left out: spare slots, which spare.pml has; that items which fit become active before a freeze;
 * items that wait for their own run.
 *
 * Holds:
 * - No more than MAX items are active at any time.
 * - When nothing can move any more, no item is held back, none waits for a worker, and no slot is
 *   taken.
 * - While no pool is locked, a pwq with held-back items is parked or has a ready item.
 * - Once the limit was lowered and the lock of each pool was taken since, nobody keeps a
 *   slot for the next item.
 *
 * Mutations, each of which must break it:
 * - NO_MB_FREE, NO_MB_PARK: the barriers of pwq_give_slot() and slots_take_or_park() are left out.
 * - NO_RETRY: a pwq that has parked does not try for a slot once more.
 * - NO_GO_ON: if the items of the first parked pwq were cancelled, its slot is offered to
 *   no other pwq.
 * - NO_FILL: thawing does not hand slots to the parked pwqs.
 * - FILL_TRIES: thawing also counts slots for which no item was left.
 * - PARK_LATE: the pwq is parked after pool->lock was dropped.
 * - KEEP_FROZEN: a pwq keeps its slot whatever the limit is.
 * - HAND_FROZEN: a slot is handed over whatever the limit is.
 * - HAND_LOSES: a slot that nobody was parked for is taken as handed over.
 * - NO_NEXT: when the last ready item of a pwq is taken, the next one asks for no slot.
 * - NO_HEIR: when the only ready item is cancelled, the next one does not get its slot.
 * - NO_KICK: whoever hands a slot to another pool wakes no worker there.
 */
#ifndef POOLS
#define POOLS	2
#endif
#ifdef KICKS
#define ITEMS	2		/* of the first pool; each further one has one */
#else
#define ITEMS	3
#endif
#ifdef TWO
#define MAX	2
#else
#define MAX	1
#endif

#include "slots.h"

#ifdef KICKS
bool awake[POOLS];		/* its worker looks for items */
#endif
bool in_force;			/* max is 0, and each lock was taken since */

#ifdef KICKS
#define LOOKS(p)	(awake[p])
#define KICK(p)		awake[p] = awake[p] || nr_active[p] > 0;	/* kick_pool() */
#define SLEEP(p)	awake[p] = false
#else
#define LOOKS(p)	(nr_active[p] > 0)
#define KICK(p)
#define SLEEP(p)	skip
#endif

/* slots_take_or_park(); pool_lock[p] held */
inline take_slot_or_park(p, ok)
{
	take_slot(ok);
	if
	:: ok
	:: else ->
		LOCK(slots_lock);
#ifdef NO_MB_PARK
		/* the second look at nr is done before others see the parked pwq */
		take_slot(ok);
		parked[p] = !ok;
#else
		parked[p] = true;
#ifndef NO_RETRY
		take_slot(ok);
		parked[p] = !ok;
#endif
#endif
		UNLOCK(slots_lock)
	fi
}

/* pwq_ready_next(); pool_lock[p] held */
inline ready_next(p)
{
	if
	:: inactive[p] > 0 && ready[p] == 0 && !parked[p] ->
		take_slot_or_park(p, ok);
		if
		:: ok -> activate(p, 1)
		:: else
		fi
	:: else
	fi
}

inline next_pending(q, ok, has_slot)
{
	LOCK(slots_lock);
	take_for_parked(q, ok, has_slot);
	UNLOCK(slots_lock)
}

/* pwq_reuse_slot(), for a turn of any length; pool_lock[q] held */
inline reuse_slot(q, ok)
{
#ifndef NO_HEIR
	ready_next(q);
#endif
	ok = false;
	if
	:: inactive[q] == 0 || ready[q] > 0
	:: inactive[q] > 0 && ready[q] == 0 ->
		if
#ifdef KEEP_FROZEN
		:: ok = true
#else
		:: nr <= max -> ok = true
#endif
		:: true
		fi;
		if
		:: ok ->
			activate(q, 1);
			assert(!in_force);
			if
			:: inactive[q] > 0
			:: else -> leave_parked(q)
			fi
		:: else
		fi
	fi
}

/* pwq_use_slot_unlocked() */
inline use_slot_elsewhere(q, used)
{
	LOCK(pool_lock[q]);
	use_slot(q, used);
#ifndef NO_KICK
	KICK(q)
#endif
	UNLOCK_POOL(q)
}

/* an item comes in: pwq_enqueue() */
proctype queuer(byte p)
{
	byte limit, n;
	bool ok;

	for (n : 1 .. (p == 0 -> ITEMS : 1)) {
		LOCK(pool_lock[p]);
#ifdef PARK_LATE
		if
		:: inactive[p] > 0 || ready[p] > 0 -> ok = false
		:: else -> take_slot(ok)
		fi;
#else
		if
		:: inactive[p] > 0 || ready[p] > 0 -> ok = false
		:: else -> take_slot_or_park(p, ok)
		fi;
#endif
		if
		:: ok -> activate(p, 0)
		:: else -> inactive[p]++
		fi;
		KICK(p)
		UNLOCK_POOL(p);
#ifdef PARK_LATE
		if
		:: !ok ->
			LOCK(slots_lock);
			parked[p] = true;
			UNLOCK(slots_lock)
		:: else
		fi
#endif
	}
}

/* node_activate_pending_pwq(), if some pwq is parked; pool_lock[p] held */
inline activate_pending(p)
{
	used = !some;
	do
	:: used -> break
	:: else ->
		next_pending(q, ok, has_slot);
		if
		:: !ok -> break
		:: ok && q == p ->
			has_slot = false;
			use_slot(q, used)
		:: ok && q != p ->
			has_slot = false;
			UNLOCK_POOL(p);
			use_slot_elsewhere(q, used);
			LOCK(pool_lock[p])
		fi;
#ifdef NO_GO_ON
		break
#endif
	od
}

/* an item is done or cancelled: pwq_dec_nr_active(), pwq_give_slot(); pool_lock[p] held */
inline item_done(p)
{
	nr_active[p]--;
	reuse_slot(p, ok);
	if
	:: ok
	:: else ->
		has_slot = true;
		some = ANY_PARKED;
#ifndef HAND_FROZEN
		some = some && nr <= max;
#endif
		assert(!some || !in_force);
		activate_pending(p);
#ifdef HAND_LOSES
		has_slot = has_slot && !some;
#endif
		if
		:: has_slot ->
			has_slot = false;
#ifdef NO_MB_FREE
			/* the look at the list may be done before others see the slot */
			if
			:: some = ANY_PARKED; nr--
			:: nr--; some = ANY_PARKED
			fi;
#else
			nr--;
			some = ANY_PARKED;
#endif
			activate_pending(p)
		:: else
		fi
	fi
}

/* a worker of pool p, or several: takes an item, or is done with one that it took */
proctype worker(byte p)
{
	byte limit, q;
	bool ok, used, some, has_slot;

end:	do
	:: LOOKS(p) ->
		LOCK(pool_lock[p]);
		if
		/* the last one was cancelled, or it has to be woken for the next */
		:: nr_active[p] == 0 -> SLEEP(p)
		/* pwq_assign_work() */
		:: ready[p] > 0 ->
#ifndef NO_NEXT
			ready[p]--;
			ready_next(p)
#else
			ready[p]--
#endif
		:: nr_active[p] > ready[p] -> item_done(p)
		fi;
		UNLOCK_POOL(p)
	od
}

/* takes one item back, which is held back or ready; the pwq stays parked */
proctype canceller(byte p)
{
	byte limit, q;
	bool ok, used, some, has_slot;

	LOCK(pool_lock[p]);
	if
	:: inactive[p] > 0 -> inactive[p]--
	:: ready[p] > 0 -> ready[p]--; item_done(p)
	:: inactive[p] == 0 && ready[p] == 0
	fi;
	KICK(p)
	UNLOCK_POOL(p)
}

/* freeze, thaw, slots_fill() */
proctype freezer()
{
	byte limit, q, left;
	bool ok, used;

	max = 0;
	for (q : 0 .. POOLS - 1) {
		LOCK(pool_lock[q]);
		UNLOCK_POOL(q)
	}
	in_force = true;
	in_force = false;
	max = MAX;
#ifndef NO_FILL
	left = max;
	do
	:: left == 0 -> break
	:: left > 0 ->
		next_pending(q, ok, false);
		if
		:: ok ->
			use_slot_elsewhere(q, used);
#ifdef FILL_TRIES
			left--
#else
			left = left - used
#endif
		:: else -> break
		fi
	od
#endif
}

init {
	byte p;

	atomic {
		for (p : 0 .. POOLS - 1) {
			run queuer(p);
			run worker(p)
		}
		run canceller(0);
#ifndef TWO			/* to keep the number of states low */
		run freezer()
#endif
	}
	/* nothing can move any more */
	timeout ->
	for (p : 0 .. POOLS - 1) {
		assert(inactive[p] == 0);
		assert(nr_active[p] == 0)
	}
	assert(nr == 0)
}
