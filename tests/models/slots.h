/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The slots of one node, and the pwqs that wait for them: what slots.pml and spare.pml have in common.
 * They define POOLS and MAX.
 */
byte nr, max = MAX;		/* slots->nr, slots->max */
byte slots_lock;			/* slots->lock */
bool parked[POOLS];		/* pwq->pending_node is on slots->pending_pwqs */
byte pool_lock[POOLS];
byte inactive[POOLS];		/* pwq->inactive_works */
byte nr_active[POOLS];		/* on the worklist or running */
byte ready[POOLS];		/* pwq->nr_ready: on the worklist */

#define LOCK(l)		atomic { l == 0 -> l = 1 }
#define UNLOCK(l)	l = 0
#define UNLOCK_POOL(p)	assert(inactive[p] == 0 || ready[p] > 0 || parked[p]); UNLOCK(pool_lock[p])
#define ANY_PARKED	(parked[0] || parked[1] || (POOLS > 2 && parked[POOLS - 1]))
#define TOTAL(a)	(a[0] + a[1] + (POOLS > 2 -> a[POOLS - 1] : 0))

/* atomic_try_cmpxchg() against a limit that was read before */
inline take_slot(ok)
{
	limit = max;
	atomic {
		ok = nr < limit;
		nr = nr + ok
	}
}

/* an item gets a slot, held back or just queued; pool_lock[p] held */
inline activate(p, was_held)
{
	atomic {
		inactive[p] = inactive[p] - was_held;
		nr_active[p]++;
		ready[p]++;
		assert(TOTAL(nr_active) <= MAX)
	}
}

/* slots_take_for_parked(), for any of the parked pwqs; slots_lock held */
inline take_for_parked(q, ok, has_slot)
{
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
	fi
}

/* pwq_leave_parked(); pool_lock[q] held */
inline leave_parked(q)
{
	LOCK(slots_lock);
	parked[q] = false;
	UNLOCK(slots_lock)
}

/* pwq_use_slot(); pool_lock[q] held */
inline use_slot(q, used)
{
	used = inactive[q] > 0 && ready[q] == 0;
	if
	:: used -> activate(q, 1)
	:: else -> nr--
	fi;
	if
	:: used && inactive[q] > 0
	:: else -> leave_parked(q)
	fi
}
