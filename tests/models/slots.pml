/* SPDX-License-Identifier: GPL-2.0 */
/*
 * max_active of an unbound workqueue: kernel/workqueue/active.c
 *
 * One node has MAX slots.  Each of POOLS pools has one pwq.  Items are queued on each
 * pool and run.  Some are cancelled while they are held back.  Meanwhile the workqueue is
 * frozen (max = 0) and thawed.  With KICKS, a worker sleeps until it is woken.
 *
 * Holds:
 * - No more than MAX items are active at any time.
 * - When nothing can move any more, no item is held back, none waits for a worker, and no slot is
 *   taken.
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
 * - KEEP_UNPARKS: a pwq that keeps its slot does not stay parked, though items are left.
 * - NO_KICK: whoever hands a slot to another pool wakes no worker there.
 */
#ifndef POOLS
#define POOLS	2
#endif
#ifndef ITEMS
#ifdef KICKS
#define ITEMS	2		/* of the first pool; each further one has one less */
#else
#define ITEMS	3
#endif
#endif
#define MAX	1

byte nr, max = MAX;		/* slots->nr, slots->max */
byte slots_lock;			/* slots->lock */
bool parked[POOLS];		/* pwq->pending_node is on slots->pending_pwqs */
byte pool_lock[POOLS];
byte inactive[POOLS];		/* pwq->inactive_works */
byte nr_active[POOLS];		/* on the worklist or running */
#ifdef KICKS
bool awake[POOLS];		/* its worker looks for items */
#endif
bool in_force;			/* max is 0, and each lock was taken since */

#define LOCK(l)		atomic { l == 0 -> l = 1 }
#define UNLOCK(l)	l = 0
#ifdef KICKS
#define LOOKS(p)	(awake[p])
#define KICK(p)		awake[p] = awake[p] || nr_active[p] > 0;	/* kick_pool() */
#else
#define LOOKS(p)	(nr_active[p] > 0)
#define KICK(p)
#endif
#define ANY_PARKED	(parked[0] || parked[1] || (POOLS > 2 && parked[POOLS - 1]))
#define TOTAL_ACTIVE	(nr_active[0] + nr_active[1] + (POOLS > 2 -> nr_active[POOLS - 1] : 0))

/* atomic_try_cmpxchg() against a limit that was read before */
inline take_slot(ok)
{
	limit = max;
	atomic {
		ok = nr < limit;
		nr = nr + ok
	}
}

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

/* slots_take_for_parked(), for any of the parked pwqs */
inline next_pending(q, ok, has_slot)
{
	LOCK(slots_lock);
	ok = false;
	if
	:: parked[0] -> q = 0; ok = true
	:: parked[1] -> q = 1; ok = true
#if POOLS > 2
	:: parked[2] -> q = 2; ok = true
#endif
	:: !ANY_PARKED
	fi;
	if
	:: ok && !has_slot -> take_slot(ok)
	:: else
	fi;
	UNLOCK(slots_lock)
}

/* pwq_leave_parked(); pool_lock[q] held */
inline leave_parked(q)
{
	if
	:: inactive[q] == 0 ->
		LOCK(slots_lock);
		parked[q] = false;
		UNLOCK(slots_lock)
	:: else
	fi
}

/* pwq_keeps_slot(), for a turn of any length; pool_lock[q] held */
inline keep_slot(q, ok)
{
	ok = false;
	if
#ifdef KEEP_FROZEN
	:: inactive[q] > 0 -> ok = true
#else
	:: inactive[q] > 0 && nr <= max -> ok = true
#endif
	:: true
	fi;
	if
	:: ok ->
		atomic { inactive[q]--; nr_active[q]++; assert(TOTAL_ACTIVE <= MAX) }
		assert(!in_force);
#ifdef KEEP_UNPARKS
		LOCK(slots_lock);
		parked[q] = false;
		UNLOCK(slots_lock)
#else
		leave_parked(q)
#endif
	:: else
	fi
}

/* pwq_use_slot(); pool_lock[q] held */
inline use_slot(q, used)
{
	if
	:: inactive[q] > 0 ->
		atomic { inactive[q]--; nr_active[q]++; used = true; assert(TOTAL_ACTIVE <= MAX) }
	:: else ->
		nr--;
		used = false
	fi;
	leave_parked(q)
}

/* pwq_use_slot_unlocked() */
inline use_slot_elsewhere(q, used)
{
	LOCK(pool_lock[q]);
	use_slot(q, used);
#ifndef NO_KICK
	KICK(q)
#endif
	UNLOCK(pool_lock[q])
}

/* an item comes in: pwq_enqueue() */
proctype queuer(byte p)
{
	byte limit, n;
	bool ok;

	for (n : 1 .. ITEMS - p) {
		LOCK(pool_lock[p]);
#ifdef PARK_LATE
		if
		:: inactive[p] > 0 -> ok = false
		:: else -> take_slot(ok)
		fi;
#else
		if
		:: inactive[p] > 0 -> ok = false
		:: else -> take_slot_or_park(p, ok)
		fi;
#endif
		if
		:: ok -> atomic { nr_active[p]++; assert(TOTAL_ACTIVE <= MAX) }
		:: else -> inactive[p]++
		fi;
		KICK(p)
		UNLOCK(pool_lock[p]);
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
			UNLOCK(pool_lock[p]);
			use_slot_elsewhere(q, used);
			LOCK(pool_lock[p])
		fi;
#ifdef NO_GO_ON
		break
#endif
	od
}

/* an item is done: pwq_dec_nr_active(), pwq_give_slot() */
proctype worker(byte p)
{
	byte limit, q;
	bool ok, used, some, has_slot;

end:	do
	:: LOOKS(p) ->
		LOCK(pool_lock[p]);
		if
#ifdef KICKS
		:: nr_active[p] == 0 -> awake[p] = false; ok = true
#endif
		:: nr_active[p] > 0 ->
			nr_active[p]--;
			keep_slot(p, ok)
		fi;
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
		fi;
		UNLOCK(pool_lock[p])
	od
}

/* takes one held-back item back; the pwq stays parked */
proctype canceller(byte p)
{
	LOCK(pool_lock[p]);
	if
	:: inactive[p] > 0 -> inactive[p]--
	:: else
	fi;
	UNLOCK(pool_lock[p])
}

/* freeze, thaw, slots_fill() */
proctype freezer()
{
	byte limit, q, left;
	bool ok, used;

	max = 0;
	for (q : 0 .. POOLS - 1) {
		LOCK(pool_lock[q]);
		UNLOCK(pool_lock[q])
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
		run freezer()
	}
	/* nothing can move any more */
	timeout ->
	for (p : 0 .. POOLS - 1) {
		assert(inactive[p] == 0);
		assert(nr_active[p] == 0)
	}
	assert(nr == 0)
}
