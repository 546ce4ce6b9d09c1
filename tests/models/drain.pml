/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A BH item of a dead CPU: kernel/workqueue/bh.c, queue.c, claim.c
 *
 * CPU X runs what is left in pool D of a dead CPU.  It does so from an item of its own pool PX,
 * which runs nothing else meanwhile.  Our item is on D at first.  CPU Y queues it again and
 * again, CPU Z cancels it: first once, then for good, which waits for its run.
 *
 * Y queues on its own pool PY.  X may queue, too, by an interrupt, but then the item goes where Y
 * sends one that runs on D.  X may serve D in several rounds; between them nothing runs there.
 *
 * Nothing is queued on D.  An item that still runs there is queued on PX, so its word names PX
 * although its run is elsewhere.
 *
 * Holds:
 * - The item never runs twice at a time.
 * - When it is cancelled for good, it does not run, and never does again.
 *
 * Mutations, each of which must break it:
 * - NO_HOME: who takes the item off PX does not look whether it runs on D.
 * - HOME_STALE: what was found there counts although D has been served since.
 * - SET_LATE: X says that it serves D only after it has begun.
 * - CLEAR_EARLY: X says that it does no more before the run has ended.
 */
#ifndef TIMES
#define TIMES	3		/* queueings */
#endif
#define D	0
#define PX	1
#define PY	2

byte lock[3];			/* pool->lock */
bool pending = true;		/* WORK_STRUCT_PENDING */
byte word = D;			/* the pool that work->data names */
bool listed[3];			/* on pool->worklist, so the word names a pwq of it */
bool busy[3];			/* worker->current_work */
bool drained;			/* PX->drained */
bool draining;			/* POOL_BH_DRAINING of D */
bool dead;			/* cancelled for good */
byte running;

#define LOCK(l)		atomic { lock[l] == 0 -> lock[l] = 1 }
#define UNLOCK(l)	lock[l] = 0

/* lock held at first and at last: run the item, which is off the list */
inline serve(p)
{
	busy[p] = true;
	atomic { word = p; pending = false };
	UNLOCK(p);
	running++;
	assert(running == 1);
	running--;
	LOCK(p);
	busy[p] = false
}

/* the softirq of X */
active proctype x()
{
	/* drain_dead_softirq_workfn() */
#ifndef SET_LATE
	LOCK(PX); drained = true; UNLOCK(PX);
#endif
	LOCK(D);
	draining = true;
	if
	:: listed[D] ->
		listed[D] = false;
		busy[D] = true;
		atomic { word = D; pending = false };
		UNLOCK(D);
		running++;
		assert(running == 1);
#ifdef SET_LATE
		LOCK(PX); drained = true; UNLOCK(PX);
#endif
#ifdef CLEAR_EARLY
		LOCK(PX); drained = false; UNLOCK(PX);
#endif
		running--;
		LOCK(D);
		busy[D] = false
	:: else
	fi;
	draining = false;
	UNLOCK(D);
	LOCK(PX); drained = false; UNLOCK(PX);

end:	do
	:: listed[PX] ->
		LOCK(PX);
		if
		:: listed[PX] -> listed[PX] = false; serve(PX)
		:: else
		fi;
		UNLOCK(PX)
	od
}

/* the softirq of Y */
active proctype y_softirq()
{
end:	do
	:: listed[PY] ->
		LOCK(PY);
		if
		:: listed[PY] -> listed[PY] = false; serve(PY)
		:: else
		fi;
		UNLOCK(PY)
	od
}

/* a task on Y: pwq_find_and_lock() */
active proctype y()
{
	byte n, last, to;
	bool refused;

	for (n : 1 .. TIMES) {
		atomic { refused = pending || dead; pending = pending || !refused };
		if
		:: refused
		:: else ->
			last = word;
			to = PY;
			if
			:: last != PY ->
				LOCK(last);
				if
				:: busy[last] && last == D -> assert(draining); to = PX
				:: busy[last] && last == PX -> to = PX
				:: else
				fi;
				if
				:: to == last -> listed[to] = true
				:: else
				fi;
				UNLOCK(last)
			:: else
			fi;
			if
			:: to == last && to == PX
			:: else ->
				LOCK(to);
				atomic { word = to; listed[to] = true };
				UNLOCK(to)
			fi
		fi
	}
}

/* work_grab_pending(); the item is pending and off all lists afterwards */
inline claim()
{
	do
	:: atomic { !pending -> pending = true }; break
	:: pending ->
		p = word;
		LOCK(p);
		if
		:: listed[p] ->
			home = p;
			if
			:: p == PX && drained ->
				UNLOCK(PX);
#ifndef NO_HOME
				LOCK(D);
				if
				:: busy[D] -> home = D
				:: else
				fi;
				UNLOCK(D);
#endif
				LOCK(PX)
			:: else
			fi;
			if
			:: listed[p] ->
#ifndef HOME_STALE
				if
				:: p == PX && !drained -> home = PX
				:: else
				fi;
#endif
				listed[p] = false;
				word = home;
				UNLOCK(p);
				break
			:: else -> UNLOCK(p)
			fi
		:: else -> UNLOCK(p)
		fi
	od
}

/* a task on Z */
active proctype z()
{
	byte p, home;

	/* cancel_work() */
	claim();
	pending = false;

	/* cancel_work_sync(): disable, then wait for a run */
	claim();
	dead = true;
	pending = false;
	p = word;
	LOCK(p);
	UNLOCK(p);
	!busy[p];
	assert(running == 0)
}

init {
	listed[D] = true
}
