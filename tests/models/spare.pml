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
 * - While no pool is locked, a pwq with held-back items is parked or has a ready item.
 * - Each slot that is taken is an active item's or a spare one.  A dead pwq has none.
 * - Once the limit is 0 and the lock of each pool was taken since, no spare slot is used. If no
 *   item is active then, whoever asks finds no slot taken.
 *
 * Mutations, each of which must break it:
 * - NO_MB_SPARE: pwq_make_spare() looks whether the pwq is listed before the slot is a spare one.
 * - NO_MB_FREE: pwq_free_spares() takes the spare slots before the pwq is off the list.
 * - EMPTIED: a pwq that is alone on the list is moved to its end, so the list is empty meanwhile.
 * - NO_FREE: a pwq that parks frees no spare slots.
 * - FREE_ONE: it frees those of one pwq only, whether or not it then gets a slot.
 * - NO_LIST: a pwq with spare slots is not listed.
 * - NO_LOOK: a pwq gets listed although one is parked.
 * - TAKE_FREED: it gives its new spare slot up even if that has been freed.
 * - OVER_LIMIT: a spare slot is used whatever the limit is.
 * - FROZEN_KEEPS: whoever asks whether a slot is taken does not free the spare ones.
 * - FILL_SHORT: thawing hands out one slot less than there are.
 * - NO_NEXT: when the last ready item of a pwq is taken, the next one asks for no slot.
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

#include "slots.h"

byte stuck[POOLS];		/* items that run for ever */
byte nr_spare[POOLS];
bool listed[POOLS];		/* pwq->spare_node is on slots->spare_pwqs */
byte unended[POOLS];		/* items that have not been queued, or have not ended */
bool dead[POOLS];
byte carried;			/* slots on their way from a pool to the next; only for assertions */
bool in_force;			/* max is 0, and each lock was taken since */

/* nobody is about to make a slot a spare one, to free it, or to use it */
#define NONE_BETWEEN	(TOTAL(pool_lock) == 0 && carried == 0)

/* pwq_free_spares() */
inline free_spares_of(q)
{
#ifdef NO_MB_FREE
	atomic { n = nr_spare[q]; nr_spare[q] = 0 }
	listed[q] = false;
#else
	listed[q] = false;
	atomic { n = nr_spare[q]; nr_spare[q] = 0 }
#endif
	nr = nr - n
}

/* slots_free_spares(), for any of the listed pwqs; n: how many it has freed */
inline free_spares()
{
	n = 0;
#ifndef NO_FREE
	do
	:: n == 0 && listed[0] -> free_spares_of(0)
	:: n == 0 && listed[1] -> free_spares_of(1)
#if POOLS > 2
	:: n == 0 && listed[2] -> free_spares_of(2)
#endif
	:: n > 0 || !(listed[0] || listed[1] || (POOLS > 2 && listed[POOLS - 1])) -> break
	od;
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
		LOCK(slots_lock);
		parked[p] = true;
		take_slot(ok);
		do
		:: ok -> break
		:: !ok ->
			free_spares();
			if
			:: n > 0 -> take_slot(ok)
			:: else -> break
			fi;
#ifdef FREE_ONE
			break
#endif
		od;
		parked[p] = !ok;
		UNLOCK(slots_lock)
	fi
}

inline next_pending(q, ok, has_slot)
{
	LOCK(slots_lock);
	take_for_parked(q, ok, has_slot);
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

/* slots_list_spares(); pool_lock[p] held */
inline list_spares(p, made)
{
	LOCK(slots_lock);
	if
#ifdef NO_LOOK
	:: true ->
#else
	:: !ANY_PARKED ->
#endif
#ifndef NO_LIST
		listed[p] = true;
#endif
		made = true
#ifndef NO_LOOK
	:: else ->
#ifdef TAKE_FREED
		nr_spare[p]--;
		made = false
#else
		atomic {
			made = nr_spare[p] == 0;
			nr_spare[p] = nr_spare[p] - !made
		}
#endif
#endif
	fi;
	UNLOCK(slots_lock)
}

/* pwq_make_spare(): made is false if the caller has to free the slot; pool_lock[p] held */
inline make_spare(p, made)
{
	made = false;
	if
	:: nr_spare[p] < SPARE ->
#ifdef NO_MB_SPARE
		made = listed[p];
		nr_spare[p]++;
#else
		nr_spare[p]++;
		made = listed[p];
#endif
		if
		:: !made -> list_spares(p, made)
		:: else
		fi
	/* it has enough, or it is not listed and saw a parked pwq without the lock */
	:: true
	fi
}

/* node_activate_pending_pwq(), if some pwq is parked; pool_lock[p] held */
inline hand_over(p)
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
			atomic { carried++; UNLOCK_POOL(p) }
			LOCK(pool_lock[q]);
			carried--;
			use_slot(q, used);
			UNLOCK_POOL(q);
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
		:: inactive[p] == 0 && ready[p] > 0 ->
			take_spare(p, ok);
			if
			:: !ok && nr_active[p] < SPARE -> take_slot(ok)
			:: else
			fi
		:: inactive[p] == 0 && ready[p] == 0 -> take_slot_or_park(p, ok)
		fi;
		if
		:: ok -> activate(p, 0)
		:: else -> inactive[p]++
		fi;
		UNLOCK_POOL(p)
	}
}

/*
 * An item is taken: pwq_assign_work().  One is done: pwq_dec_nr_active(), and pwq_leave_slots()
 * after the last one.
 */
proctype worker(byte p)
{
	byte limit, n, q;
	bool ok, used, some, made, has_slot;

end:	do
	:: ready[p] > 0 ->
		LOCK(pool_lock[p]);
		ready[p]--;
		if
#ifndef NO_NEXT
		:: inactive[p] > 0 && ready[p] == 0 && !parked[p] ->
			take_slot_or_park(p, ok);
			if
			:: ok -> activate(p, 1)
			:: else
			fi
#endif
		:: else
		fi;
		UNLOCK_POOL(p)
	:: nr_active[p] > ready[p] + stuck[p] ->
		LOCK(pool_lock[p]);
		nr_active[p]--;
		make_spare(p, made);
		if
		:: made
		:: else ->
			/* pwq_give_slot() */
			has_slot = true;
			some = ANY_PARKED;
			some = some && nr <= max;
			hand_over(p);
			if
			:: has_slot ->
				has_slot = false;
				nr--;
				some = ANY_PARKED;
				hand_over(p)
			:: else
			fi
		fi;
		unended[p]--;
		UNLOCK_POOL(p)
	/* an item runs for ever */
	:: nr_active[p] > ready[p] + stuck[p] -> stuck[p]++
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
		UNLOCK_POOL(q)
	}
	in_force = true;
	/* the freezer asks again until nothing is active, or gives up */
	if
	:: TOTAL(nr_active) == 0 && NONE_BETWEEN -> ok = true
	:: true -> ok = false
	fi;
	LOCK(slots_lock);
#ifndef FROZEN_KEEPS
	n = 1;
	do
	:: n > 0 -> free_spares()
	:: n == 0 -> break
	od;
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
		next_pending(q, ok, false);
		if
		:: ok ->
			LOCK(pool_lock[q]);
			use_slot(q, used);
			UNLOCK_POOL(q);
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
