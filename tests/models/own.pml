/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A CPU gets its own pwq, then its own pool, and shares again: kernel/workqueue/own.c, queue.c,
 * active.c
 *
 * One CPU queues ITEMS items on a workqueue whose limit is one or two slots, one after the other.
 * Each is queued on the pwq that the CPU's entry names.  Between its look at the entry and the lock
 * of the pool, all others may move.  Meanwhile the CPU is given an own pwq, then a second one, and
 * the one that it has is taken back if it is empty.  Another CPU may queue one item on the pwq of the pod, too, which has no
 * order with the others.
 *
 * A pwq holds back items for which there is no slot, and all of them while it is plugged.  A
 * marker is held back behind the items that are, but needs no slot.  A freed slot goes to any pwq that holds back items: what
 * each needs does not depend on turns.
 *
 * Each atomic block is what one task does under the lock of one pool.  An item starts when a worker
 * takes it off the worklist.  A slot is free again when its item ends.
 *
 * Holds:
 * - The items of the CPU start in the order in which it queued them.
 * - All items start, and so do the markers, after which nothing is plugged.
 *
 * Mutations, each of which must break it:
 * - NO_MARKER: no marker is queued, and the own pwq is not plugged.
 * - NO_PLUG: the own pwq is not plugged.
 * - NO_UNPLUG: the marker does not unplug it.
 * - NO_PARK: when the own pwq is unplugged, nobody looks for free slots.
 * - NO_RECHECK: whoever has got the lock does not look at the entry again.
 * - MARKER_FIRST: the marker is queued before the critical section that changes the entry.
 * - TAKE_FULL: an own pwq is taken back although it has items.
 * - TAKE_UNLOCKED: whether it has any is looked at before the lock is taken.
 * - MOVE_PLUGGED: the CPU gets the second own pwq although the first is plugged.
 */
#define ITEMS	3
#define OTHER	10		/* the item of the other CPU */
#define MARKER	11		/* + the pwq that it unplugs */
#define POD	0
#define PWQS	3		/* own ones: 1 and 2 */

byte entry = POD;		/* of the CPU */
bool plugged[PWQS];
byte slots;			/* free */
chan worklist[PWQS] = [ITEMS + 2] of { byte };
chan inactive[PWQS] = [ITEMS + 2] of { byte };
byte running[PWQS];		/* items that have started, but not ended */
byte last;			/* the item of the CPU that started last */
byte left = ITEMS + 1;		/* have not started */

bool parked[PWQS];		/* on slots->pending_pwqs */

#define IS_EMPTY(p)	(len(worklist[p]) == 0 && len(inactive[p]) == 0 && running[p] == 0)
#define PARKED(p)	(parked[p] && len(inactive[p]) > 0)

/* pwq_enqueue() */
inline enqueue(p, item)
{
	if
	:: !plugged[p] && slots > 0 && len(inactive[p]) == 0 ->
		slots--;
		worklist[p]!item
	:: else ->
		inactive[p]!item;
		parked[p] = !plugged[p]
	fi
}

/* pwq_release_markers() */
inline release(p)
{
	do
	:: len(inactive[p]) > 0 ->
		inactive[p]?<next>;
		if
		:: next > MARKER -> inactive[p]?next; worklist[p]!next
		:: else -> break
		fi
	:: else -> break
	od
}

/* pwq_activate_next() */
inline activate(p)
{
	slots--;
	inactive[p]?next;
	worklist[p]!next;
	release(p)
}

/* hands free slots to pwqs that are parked; any of them may be first */
inline fill()
{
	do
	:: slots > 0 && PARKED(POD) -> activate(POD)
	:: slots > 0 && PARKED(1) -> activate(1)
	:: slots > 0 && PARKED(2) -> activate(2)
	:: !(slots > 0 && (PARKED(POD) || PARKED(1) || PARKED(2))) -> break
	od
}

/* queue_work() on the CPU, whose interrupts are off */
proctype queuer()
{
	byte item = 1, pwq;

	do
	:: item > ITEMS -> break
	:: else ->
		pwq = entry;
		atomic {
			if
#ifndef NO_RECHECK
			:: pwq != entry		/* once more */
#endif
			:: else ->
				enqueue(pwq, item);
				item++
			fi
		}
	od
}

proctype other()
{
	atomic { enqueue(POD, OTHER) }
}

/* the workers for a pwq: there are always enough, in whatever pool */
proctype worker(byte pool)
{
	byte item, next, own;
	bool again = true;

end:	do
	:: atomic { worklist[pool]?item ->
			running[pool]++;
			if
			:: item <= ITEMS ->
				assert(item == last + 1);
				last = item;
				left--
			:: item == OTHER -> left--
			:: item > MARKER
			fi
		}
		if
		:: item > MARKER ->
			own = item - MARKER;
			/* pwq_unplug(): one item each time that it has the lock */
			do
			:: atomic {
#ifdef NO_UNPLUG
				true -> break
#else
				plugged[own] = false;
				if
				:: slots > 0 && len(inactive[own]) > 0 ->
					activate(own)
				:: else -> again = false
				fi;
#ifndef NO_PARK
				parked[own] = len(inactive[own]) > 0
#endif
#endif
			   }
			   if
			   :: again
			   :: else -> break
			   fi
			od;
			again = true
		:: else
		fi;
		atomic {
			running[pool]--;
			slots = slots + (item < MARKER);
			fill()
		}
	od
}

/* own_pwq_install() */
inline install(old, own)
{
#ifndef NO_MARKER
#ifndef NO_PLUG
	plugged[own] = true;
#endif
#ifdef MARKER_FIRST
	atomic { inactive[old]!(MARKER + own); release(old) }
#endif
#endif
	atomic {
		entry = own;
#ifndef NO_MARKER
#ifndef MARKER_FIRST
		inactive[old]!(MARKER + own);
		release(old)
#endif
#endif
	}
}

/* own_pools_fn(), and own_pwq_take_back() some time later */
proctype mover()
{
	bool unused;
	byte next;

	install(POD, 1);
	if
#ifdef MOVE_PLUGGED
	:: install(1, 2)
#else
	:: atomic { !plugged[1] -> skip } install(1, 2)
#endif
	:: true
	fi;

	do
	:: atomic {
#ifdef TAKE_UNLOCKED
			unused = IS_EMPTY(entry) && !plugged[entry]
		}
		atomic {
#else
			unused = IS_EMPTY(entry) && !plugged[entry];
#endif
			if
#ifdef TAKE_FULL
			:: true -> entry = POD; break
#endif
			:: unused -> entry = POD; break
			:: else
			fi
		}
	:: true -> break		/* it is in use */
	od
}

init {
	atomic {
		select(slots : 1 .. 2);
		run worker(POD);
		run worker(POD);
		run worker(1);
		run worker(2);
		run queuer();
		run other();
		run mover()
	}
	/* nothing can move any more */
	timeout ->
	assert(left == 0 && !plugged[1] && !plugged[2])
}
