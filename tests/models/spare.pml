/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spare slots of an unbound workqueue: kernel/workqueue/spare.c, spare.h and active.h
 *
 * One node has MAX slots.  Each of two pools, or with THREE of three, has one pwq, which may
 * have SPARE spare slots.  ITEMS_OF(p) items are queued on pool p.  An item may run for ever,
 * as if it waited for others.  With FROZEN, the limit is 0 for a while.  With DEAD, the first
 * pwq ends with its last item.
 *
 * Turns and cancelled items are left out: slots.pml has them.
 *
 * Holds:
 * - No more than MAX items are active at any time.
 * - When nothing can move any more, no item is held back while fewer than MAX are active.
 * - Each slot that is taken is an active item's or a spare one.  A dead pwq has none.
 * - Once the limit is 0 and the lock of each pool was taken since, no spare slot is used. If no
 *   item is active then, whoever asks finds no slot taken.
 *
 * Mutations, each of which must break it:
 * - NO_MB_SPARE: the look at the list may come before the slot is a spare one: no barrier (7).
 * - NO_MB_PARK: the spare slots may be freed before others see the parked pwq: no barrier (4).
 * - NO_MB_FLAG: the look at the list may come before the flag is set: no barrier in (10).
 * - NO_ACQUIRE: it may come before the flag is found set: no acquire in (10).
 * - CLEAR_LATE: the flag is cleared after the look for spare slots: no barrier in (11).
 * - EMPTIED: a pwq that is alone on the list is moved to its end, so the list is empty meanwhile.
 * - NO_FREE: a pwq that parks frees no spare slots.
 * - FREE_UNLOCKED: they are freed before slots->lock is taken.
 * - NO_LOOK: nobody looks for parked pwqs when a slot becomes a spare one.
 * - TAKE_ALL: whoever finds a parked pwq takes all its spare slots back, and hands one over.
 * - NO_HAND_OVER: if the spare slot has been freed, nobody hands it over.
 * - OVER_LIMIT: a spare slot is used whatever the limit is.
 * - FROZEN_KEEPS: whoever asks whether a slot is taken does not free the spare ones.
 * - FILL_SHORT: thawing hands out one slot less than there are.
 * - DEAD_KEEPS: a dead pwq keeps its spare slots.
 */
#ifdef THREE
#define POOLS	3
#define MOST	2
#else
#define POOLS	2
#ifdef FROZEN
#define MOST	2
#else
#define MOST	3
#endif
#endif
#define ITEMS_OF(p)	(MOST - (p > 0))	/* to keep the number of states low */
#define MAX	2
#define SPARE	2

byte nr, max = MAX;		/* slots->nr, slots->max */
byte slots_lock;			/* slots->lock */
bool parked[POOLS];		/* pwq->pending_node is on slots->pending_pwqs */
byte pool_lock[POOLS];
byte inactive[POOLS];		/* pwq->inactive_works */
byte nr_active[POOLS];		/* on the worklist or running */
byte nr_spare[POOLS];
bool has_spares;		/* slots->has_spares */
byte unended[POOLS];		/* items that have not been queued, or have not ended */
bool dead[POOLS];
byte carried;			/* slots on their way from a pool to the next; only for assertions */
bool in_force;			/* max is 0, and each lock was taken since */

#define LOCK(l)		atomic { l == 0 -> l = 1 }
#define UNLOCK(l)	l = 0
#define ANY_PARKED	(parked[0] || parked[1] || (POOLS > 2 && parked[POOLS - 1]))
#define TOTAL(a)	(a[0] + a[1] + (POOLS > 2 -> a[POOLS - 1] : 0))
/* nobody is about to make a slot a spare one, to free it, or to use it */
#define NONE_BETWEEN	(TOTAL(pool_lock) == 0 && carried == 0)
#define STARTED		assert(TOTAL(nr_active) <= MAX)

/* atomic_try_cmpxchg() against a limit that was read before */
inline take_slot(ok)
{
	limit = max;
	atomic {
		ok = nr < limit;
		nr = nr + ok
	}
}

/* pwq_free_spares() */
inline free_spares_of(q)
{
	atomic { n = nr_spare[q]; nr_spare[q] = 0 }
	nr = nr - n
}

/* slots_free_spares() */
inline free_spares()
{
#ifndef NO_FREE
	if
	:: has_spares ->
#ifndef CLEAR_LATE
		has_spares = false;
#endif
		free_spares_of(0);
		free_spares_of(1);
#if POOLS > 2
		free_spares_of(2);
#endif
#ifdef CLEAR_LATE
		has_spares = false
#endif
	:: else
	fi;
#endif
	skip
}

/* pwq_take_spare(); pool_lock[p] held */
inline take_spare(p, ok)
{
	ok = false;
	if
#ifdef OVER_LIMIT
	:: true ->
#else
	:: nr <= max ->
#endif
		atomic {
			ok = nr_spare[p] > 0;
			nr_spare[p] = nr_spare[p] - ok;
			assert(!ok || !in_force)
		}
	:: else
	fi
}

/* pwq_reserve_own(), slots_take_or_park(); pool_lock[p] held */
inline take_slot_or_park(p, ok)
{
	take_spare(p, ok);
	if
	:: !ok -> take_slot(ok)
	:: else
	fi;
	if
	:: ok
	:: else ->
#ifdef FREE_UNLOCKED
		parked[p] = true;
		free_spares();
#endif
		LOCK(slots_lock);
#ifdef NO_MB_PARK
		free_spares();
#endif
		parked[p] = true;
#ifndef NO_MB_PARK
#ifndef FREE_UNLOCKED
		free_spares();
#endif
#endif
		take_slot(ok);
		parked[p] = !ok;
		UNLOCK(slots_lock)
	fi
}

/* slots_take_for_parked(), for any of the parked pwqs */
inline next_pending(q, ok)
{
	LOCK(slots_lock);
	ok = false;
	if
	:: parked[0] -> q = 0; take_slot(ok)
	:: parked[1] -> q = 1; take_slot(ok)
#if POOLS > 2
	:: parked[2] -> q = 2; take_slot(ok)
#endif
	:: !ANY_PARKED
	fi;
#ifdef EMPTIED
	if
	:: ok && parked[0] + parked[1] + (POOLS > 2 -> parked[POOLS - 1] : 0) == 1 ->
		parked[q] = false;
		parked[q] = true
	:: else
	fi;
#endif
	UNLOCK(slots_lock)
}

/* pwq_use_slot(); pool_lock[q] held */
inline use_slot(q, used)
{
	if
	:: inactive[q] > 0 ->
		atomic { inactive[q]--; nr_active[q]++; used = true; STARTED }
	:: else ->
		nr--;
		used = false
	fi;
	if
	:: inactive[q] == 0 ->
		LOCK(slots_lock);
		parked[q] = false;
		UNLOCK(slots_lock)
	:: else
	fi
}

/*
 * pwq_make_spare(), the look (8), and pwq_take_back_spare(): made is false if the caller has to
 * free the slot, and some is false if there is nothing left to do; pool_lock[p] held
 */
inline make_spare(p, made)
{
	made = false;
	some = true;
	if
	:: nr_spare[p] < SPARE ->
		made = true;
#ifdef NO_MB_SPARE
		some = ANY_PARKED;
		nr_spare[p]++;
		has_spares = true;
#else
		nr_spare[p]++;
#ifdef NO_ACQUIRE
		some = ANY_PARKED;
#endif
#ifdef NO_MB_FLAG
		some = ANY_PARKED;
#endif
		if
		:: has_spares ->
#ifndef NO_ACQUIRE
			some = ANY_PARKED;
#endif
			skip
		:: else ->
			has_spares = true;
#ifndef NO_MB_FLAG
			some = ANY_PARKED;
#endif
			skip
		fi;
#endif
#ifdef NO_LOOK
		some = false;
#endif
		if
		:: some ->
#ifdef TAKE_ALL
			free_spares_of(p);
#else
			atomic {
				made = nr_spare[p] == 0;
				nr_spare[p] = nr_spare[p] - !made
			}
#endif
		:: else
		fi
	/* it has enough, or spare slots were freed within this tick: freed_ts */
	:: true
	fi
}

/* node_activate_pending_pwq(); pool_lock[p] held */
inline hand_over(p)
{
	used = false;
	do
	:: used -> break
	:: else ->
		next_pending(q, ok);
		if
		:: !ok -> break
		:: ok && q == p -> use_slot(q, used)
		:: ok && q != p ->
			atomic { carried++; UNLOCK(pool_lock[p]) }
			LOCK(pool_lock[q]);
			carried--;
			use_slot(q, used);
			UNLOCK(pool_lock[q]);
			LOCK(pool_lock[p])
		fi
	od
}

/* an item comes in: pwq_enqueue() */
proctype queuer(byte p)
{
	byte limit, n, i;
	bool ok;

	for (i : 1 .. ITEMS_OF(p)) {
		LOCK(pool_lock[p]);
		if
		:: inactive[p] > 0 -> ok = false
		:: else -> take_slot_or_park(p, ok)
		fi;
		if
		:: ok -> atomic { nr_active[p]++; STARTED }
		:: else -> inactive[p]++
		fi;
		UNLOCK(pool_lock[p])
	}
}

/* an item is done: pwq_dec_nr_active(), and pwq_leave_slots() after the last one */
proctype worker(byte p)
{
	byte limit, n, q;
	bool ok, used, some, made;

end:	do
	:: nr_active[p] > 0 ->
		LOCK(pool_lock[p]);
		nr_active[p]--;
		make_spare(p, made);
		/* pwq_give_slot() */
		if
		:: some ->
			if
			:: !made -> nr--
			:: else
			fi;
			some = ANY_PARKED;
#ifdef NO_HAND_OVER
			some = some && !made;
#endif
			if
			:: some -> hand_over(p)
			:: else
			fi
		:: else
		fi;
		unended[p]--;
		UNLOCK(pool_lock[p])
	/* the item at the head runs for ever */
	:: nr_active[p] > 0 -> break
#ifdef DEAD
	:: p == 0 && unended[p] == 0 ->
		LOCK(slots_lock);
		parked[p] = false;
#ifndef DEAD_KEEPS
		free_spares_of(p);
#endif
		dead[p] = true;
		UNLOCK(slots_lock);
		break
#endif
	od
}

/* freeze, wq_has_slots_taken(), thaw, slots_fill() */
proctype freezer()
{
	byte limit, n, q, left;
	bool ok, used;

	max = 0;
	for (q : 0 .. POOLS - 1) {
		LOCK(pool_lock[q]);
		UNLOCK(pool_lock[q])
	}
	in_force = true;
	/* the freezer asks again until nothing is active, or gives up */
	if
	:: TOTAL(nr_active) == 0 && NONE_BETWEEN -> ok = true
	:: true -> ok = false
	fi;
	LOCK(slots_lock);
#ifndef FROZEN_KEEPS
	free_spares();
#endif
	assert(!ok || nr == 0);
	UNLOCK(slots_lock);
	in_force = false;
	max = MAX;
#ifdef FILL_SHORT
	left = max - 1;
#else
	left = max;
#endif
	do
	:: left == 0 -> break
	:: left > 0 ->
		next_pending(q, ok);
		if
		:: ok ->
			LOCK(pool_lock[q]);
			use_slot(q, used);
			UNLOCK(pool_lock[q]);
			left = left - used
		:: else -> break
		fi
	od
}

init {
	byte p;

	atomic {
		for (p : 0 .. POOLS - 1) {
			unended[p] = ITEMS_OF(p);
			run queuer(p);
			run worker(p)
		}
#ifdef FROZEN
		run freezer()
#endif
	}
	/* nothing can move any more */
	timeout ->
	for (p : 0 .. POOLS - 1) {
		assert(inactive[p] == 0 || TOTAL(nr_active) == MAX);
		assert(!dead[p] || nr_spare[p] == 0)
	}
	assert(nr == TOTAL(nr_active) + TOTAL(nr_spare))
}
