/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Markers and freezing: kernel/workqueue/freezer.c, active.c, own.c
 *
 * Two CPUs queue items on the pwq of their pod.  At any time before the system freezes, each may
 * get an own pwq, which is plugged until its marker has run.  The CPUs share a pod with two slots,
 * or with THREE.  With NODES, each is in a pod of its own, on a node with two slots.
 *
 * The freezer begins, and asks whether anything is busy until nothing is.  Then it thaws.  It may
 * also give up.  Meanwhile the CPUs go on queueing.
 *
 * Each atomic block is what one task does under the lock of one pool.  The next item of a pwq asks
 * for a slot when the last ready one starts.  A freed slot goes to any pwq that is parked: what
 * must run does not depend on turns.
 *
 * With LATE, a slot is free for a while before it is handed over, so that others may take it.
 * With CANCEL, one item that is held back may be cancelled.
 *
 * Left out: a pwq that parks meanwhile, which slots.pml has; spare slots, which spare.pml has; an
 * entry that changes while an item is queued, which own.pml has; items that are cancelled when
 * they have become active.
 *
 * Holds:
 * - The items of a CPU start in the order in which it queued them.
 * - When nothing is busy, all items have run that were queued before the freeze, unless as many
 *   others have got slots as were free when it began.
 * - An item that is queued after the freeze has begun does not start before the thaw, and once
 *   nothing is busy, no item does.
 * - The freezer does not ask for ever: when nothing else can move, nothing is busy.
 * - After the thaw all items start, and in the end nothing is plugged.
 *
 * Mutations, each of which must break it:
 * - NO_GRANT: no slots are taken for what fits, but waits for a marker.
 * - GRANT_ONE: only one is.
 * - GRANT_HELD: slots are taken although the marker waits for an item that does not fit.
 * - GRANT_LOST: own pwqs do not use the slots that were taken for them.
 * - NO_FILL: what fits, but is not next to start, does not become active before the freeze.
 * - FILL_SHORT: a pwq is filled in as many steps as there are slots, though a slot that is granted
 *   takes a second step if the marker runs meanwhile.
 * - OWN_FIRST: own pwqs are filled before those whose markers unplug them.
 * - WAIT: the limit stays until markers have run.
 * - UNPLUG: a freeze unplugs own pwqs, and so need not take slots for them.
 * - KEEP_PLUGGED: a marker that runs while the system is frozen does not unplug.
 * - NO_PARK: an own pwq that is unplugged does not ask for a slot.
 * - NO_ACTIVE: freeze_workqueues_busy() does not look for active items.
 * - NO_THAW: the thaw hands out no slots.
 * - CANCEL_KEEP: the slot that a cancelled item was granted is left to the next one.
 */
#define CPUS	2
#define ITEMS_OF(c) (3 - 2 * c)		/* to keep the number of states low */
#ifdef THREE
#define MAX	3
#else
#define MAX	2
#endif
#ifdef NODES
#define NR_NODES 2
#define POD(c)	(c)
#define NODE(p)	(p & 1)
#else
#define NR_NODES 1
#define POD(c)	0
#define NODE(p)	0
#endif
#define OWN(c)	(NR_NODES + c)		/* the own pwq of a CPU */
#define PWQS	(NR_NODES + CPUS)
#define ITEM(c, i) (8 * c + i)
#define MARKER	16			/* + the pwq that it unplugs */

byte nr[NR_NODES], max[NR_NODES];	/* slots->nr, slots->max */
byte entry[CPUS];
chan worklist[PWQS] = [6] of { byte };
chan inactive[PWQS] = [6] of { byte };
byte nr_active[PWQS];			/* on the worklist or running */
byte ready[PWQS];			/* pwq->nr_ready: on the worklist */
bool parked[PWQS];			/* on slots->pending_pwqs */
bool plugged[PWQS];
bool released[PWQS];			/* the marker that unplugs it is not held back any more */
bool unplugs[PWQS];			/* that marker has started */
byte granted[PWQS];			/* pwq->nr_granted */
byte owed[NR_NODES];			/* slots that are free, and not handed over yet */
byte queued[CPUS];			/* items */
byte last[CPUS];			/* items up to this one have started, or are cancelled */
byte gone;				/* the item that was cancelled */

bool freezing;				/* workqueue_freezing */
bool frozen;				/* wq->max_active is 0 */
bool begun;				/* freeze_workqueues_begin() has returned */
byte late[CPUS];			/* items that were queued before that */
bool complete;				/* nothing is busy */
byte older[CPUS];			/* items that were queued before the freeze */
byte fits[NR_NODES];			/* slots that were free then, and not taken since */

/* pwq_release_markers() */
inline release(p)
{
	do
	:: len(inactive[p]) == 0 -> break
	:: else ->
		inactive[p]?<next>;
		if
		:: next < MARKER -> break
		:: else ->
			inactive[p]?next;
			worklist[p]!next;
			released[next - MARKER] = true
		fi
	od
}

inline take_slot(p)
{
	nr[NODE(p)]++;
	fits[NODE(p)] = fits[NODE(p)] - (fits[NODE(p)] > 0)
}

/* pwq_activate_next(): it has a slot */
inline activate_next(p)
{
	nr_active[p]++;
	ready[p]++;
	inactive[p]?next;
	worklist[p]!next;
	release(p)
}

inline activate(p)
{
	take_slot(p);
	activate_next(p)
}

/* pwq_activate_first_inactive(): ok if an item became active */
inline activate_first(p, ok)
{
	ok = false;
	if
	:: len(inactive[p]) == 0 || plugged[p]
	:: len(inactive[p]) > 0 && !plugged[p] ->
		if
#ifndef GRANT_LOST
		/* pwq_use_granted() */
		:: granted[p] > 0 ->
			granted[p]--;
			activate_next(p);
			ok = true
		:: granted[p] == 0 && nr[NODE(p)] < max[NODE(p)] ->
#else
		:: nr[NODE(p)] < max[NODE(p)] ->
#endif
			activate(p);
			ok = true
		:: else -> parked[p] = true
		fi
	fi
}

#define WAITS(p, n)	(parked[p] && NODE(p) == n)

/* a free slot goes to any parked pwq that needs one: slots_take_for_parked(), pwq_use_slot() */
inline hand_over(n, ok)
{
	ok = false;
	do
	:: !ok && nr[n] < max[n] &&
	   (WAITS(0, n) || WAITS(1, n) || WAITS(2, n) || WAITS(PWQS - 1, n)) ->
		if
		:: WAITS(0, n) -> q = 0
		:: WAITS(1, n) -> q = 1
		:: WAITS(2, n) -> q = 2
		:: WAITS(PWQS - 1, n) -> q = PWQS - 1
		fi;
		if
		:: len(inactive[q]) > 0 && ready[q] == 0 ->
			activate(q);
			ok = true
		:: else
		fi;
		parked[q] = ok && len(inactive[q]) > 0
	:: else -> break
	od;
	q = 0
}

/* pwq_give_slot() */
inline give_slot(n, ok)
{
	nr[n]--;
#ifdef LATE
	owed[n]++
#else
	hand_over(n, ok)
#endif
}

inline skip_gone(c)
{
	last[c] = last[c] + (gone == ITEM(c, last[c] + 1))
}

/* queue_work() on a CPU, and own_pwq_install() for it */
proctype cpu(byte c)
{
	byte next, p;
	bool ok;

end:	do
	:: atomic { queued[c] < ITEMS_OF(c) ->
			p = entry[c];
			queued[c]++;
			inactive[p]!ITEM(c, queued[c]);
			if
			:: len(inactive[p]) == 1 && ready[p] == 0 -> activate_first(p, ok)
			/* a pwq with few slots need not wait: pwq_reserve_active() */
			:: len(inactive[p]) == 1 && ready[p] > 0 &&
			   nr[NODE(p)] < max[NODE(p)] -> activate(p)
			:: len(inactive[p]) > 1 || ready[p] > 0
			fi;
			p = 0;
			next = 0;
			ok = false
		}
	:: atomic { entry[c] == POD(c) && !freezing ->
			entry[c] = OWN(c);
			plugged[OWN(c)] = true;
			inactive[POD(c)]!(MARKER + OWN(c));
			release(POD(c));
			next = 0
		}
	od
}

/* the workers for a pwq: there are always enough, in whatever pool */
proctype workers(byte p)
{
	byte next, q, c;
	bool ok;

end:	do
	/* pwq_assign_work() */
	:: atomic { worklist[p]?next ->
			if
			:: next >= MARKER -> unplugs[next - MARKER] = true
			:: else ->
				assert(!complete);
				c = next / 8;
				last[c]++;
				assert(next == ITEM(c, last[c]));
				assert(!begun || last[c] <= late[c]);
				skip_gone(c);
				ready[p]--
			fi;
			if
			:: len(inactive[p]) > 0 && ready[p] == 0 && !parked[p] ->
				activate_first(p, ok)
			:: else
			fi;
			next = 0;
			c = 0;
			ok = false
		}
	/* pwq_dec_nr_active() */
	:: atomic { nr_active[p] > ready[p] ->
			nr_active[p]--;
			give_slot(NODE(p), ok);
			next = 0;
			ok = false
		}
#ifdef LATE
	:: atomic { owed[NODE(p)] > 0 ->
			owed[NODE(p)]--;
			hand_over(NODE(p), ok);
			next = 0;
			ok = false
		}
#endif
#ifdef CANCEL
	/* work_dequeue() of any item that is held back */
	:: atomic { !gone && len(inactive[p]) > 0 ->
			for (c : 1 .. len(inactive[p]) + (gone > 0)) {
				inactive[p]?next;
				if
				:: !gone && next < MARKER ->
					gone = next;
					ok = c <= granted[p]
				:: inactive[p]!next
				fi
			}
			c = gone / 8;
			skip_gone(c);
			release(p);
#ifndef CANCEL_KEEP
			/* pwq_ungrant(), pwq_give_slot() */
			if
			:: ok ->
				granted[p]--;
				give_slot(NODE(p), ok)
			:: else
			fi;
#endif
			next = 0;
			c = 0;
			ok = false
		}
#endif
	/* own_marker_fn() */
	:: atomic { unplugs[p] ->
			unplugs[p] = false;
#ifdef KEEP_PLUGGED
			plugged[p] = frozen;
#else
			plugged[p] = false;
#endif
#ifdef NO_PARK
			if
			:: granted[p] > 0 -> activate_first(p, ok)
			:: else
			fi;
#else
			activate_first(p, ok);
#endif
			next = 0;
			ok = false
		}
	od
}

/* pwq_grant_slots(), which may also take several at a time: ok if it has taken one */
inline grant(p, ok)
{
	ok = false;
	if
#ifdef GRANT_HELD
	:: plugged[p] &&
#else
	:: plugged[p] && released[p] &&
#endif
#ifdef GRANT_ONE
	   granted[p] == 0 &&
#endif
	   granted[p] < len(inactive[p]) && nr[NODE(p)] < max[NODE(p)] ->
		take_slot(p);
		granted[p]++;
		ok = true
	:: else
	fi
}

/* wq_fill() */
inline fill()
{
	for (left : 0 .. PWQS - 1) {
#ifdef OWN_FIRST
		p = PWQS - 1 - left;
#else
		p = left;
#endif
#ifdef FILL_SHORT
		tries = MAX;
#else
		tries = 2 * MAX;
#endif
		do
		:: tries == 0 -> break
		:: else ->
			atomic {
#ifdef UNPLUG
				plugged[p] = false;
#endif
#ifndef NO_GRANT
				grant(p, ok);
#endif
				if
				:: ok
				:: else -> activate_first(p, ok)
				fi;
				tries = (ok -> tries - 1 : 0);
				next = 0;
				ok = false
			}
		od
	}
	left = 0
}

/* wq_adjust_max_active() */
inline adjust()
{
	if
	:: freezing && !frozen ->
#ifndef NO_FILL
		fill();
#endif
#ifdef WAIT
		waits = plugged[OWN(0)] && released[OWN(0)];
#endif
		if
		:: waits
		:: else ->
			frozen = true;
			for (p : 0 .. NR_NODES - 1) { max[p] = 0 }
		fi
	:: !freezing && frozen ->
		frozen = false;
		for (p : 0 .. NR_NODES - 1) { max[p] = MAX }
#ifndef NO_THAW
		/* slots_fill() */
		for (p : 0 .. NR_NODES - 1) {
			left = MAX;
			do
			:: left == 0 -> break
			:: else ->
				atomic {
					hand_over(p, ok);
					left = (ok -> left - 1 : 0);
					next = 0;
					ok = false
				}
			od
		}
#endif
	:: else
	fi;
	waits = false;
	p = 0
}

/* freeze_workqueues_busy() */
inline ask_busy()
{
#ifdef WAIT
	adjust();
#endif
	busy = !frozen;
#ifndef NO_ACTIVE
	for (p : 0 .. PWQS - 1) { busy = busy || nr_active[p] > 0 }
	for (p : 0 .. NR_NODES - 1) { busy = busy || nr[p] > 0 }
#endif
	p = 0
}

init {
	byte p, q, next, left, tries;
	bool ok, waits, busy = true;

	atomic {
		for (p : 0 .. NR_NODES - 1) { max[p] = MAX }
		for (p : 0 .. CPUS - 1) {
			entry[p] = POD(p);
			run cpu(p)
		}
		for (p : 0 .. PWQS - 1) { run workers(p) }
		p = 0
	}

	/* freeze_workqueues_begin() */
	atomic {
		freezing = true;
		for (p : 0 .. CPUS - 1) { older[p] = queued[p] }
		for (p : 0 .. NR_NODES - 1) { fits[p] = MAX - nr[p] }
		p = 0
	}
	adjust();
	atomic {
		begun = true;
		for (p : 0 .. CPUS - 1) { late[p] = queued[p] }
		p = 0
	}
	do
	:: busy -> ask_busy()
	:: busy ->
		/* nothing else can move any more */
		timeout ->
		ask_busy();
		assert(!busy)
	/* gives up */
	:: busy -> break
	:: !busy ->
		atomic {
			complete = true;
			for (p : 0 .. CPUS - 1) {
				assert(last[p] >= older[p] || fits[NODE(POD(p))] == 0)
			}
			p = 0
		}
		break
	od;

	/* thaw_workqueues() */
	atomic {
		complete = false;
		begun = false;
		freezing = false
	}
	adjust();
	/* nothing can move any more */
	timeout ->
	for (p : 0 .. CPUS - 1) {
		assert(last[p] == ITEMS_OF(p) && !plugged[OWN(p)])
	}
}
