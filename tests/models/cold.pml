/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first worker of a pool that has none: kernel/workqueue/coldstart.c, manager.c, cull.c
 *
 * A pool starts without workers.  Two items are queued, and the first to run sleeps until the
 * other is done.  One of them may be cancelled, or run by a rescuer.  When nothing is left to do,
 * idle workers may end.  FAILS times no worker can be made; who tried makes another attempt.  At
 * last the pool is destroyed.  Who destroys it cancels what the starter has to do.
 *
 * Holds:
 * - Both items are done.
 * - While the starter tries to make a worker for work, the mayday timer is armed.  When a
 *   manager resigns, it is not.
 * - When the pool is freed it has no worker and no manager, and nobody touches it later.
 *
 * Mutations, each of which must break it:
 * - NO_KICK: queueing on a pool without workers appoints nobody.
 * - TWICE: who queues appoints the starter although it is the manager already.
 * - CULL_WORK: idle workers may end although work waits.
 * - RESIGN_BLIND: the starter resigns without a look at the pool.
 * - RESIGN_EARLY: it looks before it takes the lock.
 * - RESIGN_SHORT: it only looks for work that waits, not whether its worker has a reserve.
 * - NO_TIMER: the timer is not armed for the starter.
 * - TIMER_LATE: it is deleted after the starter has resigned.
 * - NO_WAIT: destroying does not wait for the manager.
 * - CANCEL_RUNNING: who cancels does not wait for the starter while it makes a worker.
 * - CANCEL_KEEPS: who cancels does not resign for the starter.
 * - CANCEL_ANY: who cancels resigns for a manager that is a worker, too.
 * - CANCEL_TIMER: who cancels does not delete the timer.
 */
#define ITEMS	2
#define FAILS	1
#define THREADS	4		/* workers that may be made in all */

byte lock;			/* pool->lock */
bool manager;			/* POOL_MANAGER_ACTIVE */
bool by_worker;			/* pool->manager is set */
bool queued;			/* pool->start_work */
bool starting;			/* pool_start_fn() runs */
bool canceling;			/* pool->start_work cannot be queued */
bool timer;			/* pool->mayday_timer is armed */
byte waiting;			/* items on pool->worklist */
byte nr_workers, nr_idle;
bool idle[THREADS], awake[THREADS], die[THREADS];
byte made, gone, failed;
byte begun, done;		/* items */
bool freed, culled;

#define LOCK	atomic { lock == 0 -> lock = 1; assert(!freed) }
#define UNLOCK	lock = 0
#define LACKS	(waiting > 0 && nr_idle == 0)
#ifdef TWICE
#define MAY_APPOINT	true
#else
#define MAY_APPOINT	!manager
#endif
#ifdef RESIGN_SHORT
#define NEEDED	LACKS
#else
#define NEEDED	(nr_idle == 0 && (nr_workers > 0 || waiting > 0))	/* pool_needs_starter() */
#endif
#ifdef CULL_WORK
#define MAY_CULL	(nr_idle > 0)
#else
#define MAY_CULL	(nr_idle > 0 && nr_idle == nr_workers && waiting == 0)
#endif

/* pool_start_soon(); lock held */
inline start_soon()
{
	assert(!queued);
#ifndef NO_TIMER
	timer = true;
#endif
	atomic { queued = !canceling }
}

/* kick_pool(), up to the wake-up; lock held */
inline kick()
{
	if
	:: waiting > 0 && nr_idle > 0 ->
		if
		:: idle[0] -> awake[0] = true
		:: idle[1] -> awake[1] = true
		:: idle[2] -> awake[2] = true
		:: idle[3] -> awake[3] = true
		fi
#ifndef NO_KICK
	:: waiting > 0 && nr_idle == 0 && nr_workers == 0 && MAY_APPOINT ->
		manager = true;
		start_soon()
#endif
	:: else
	fi
}

/* create_worker(); the new worker is idle and awake */
inline create(ok)
{
	if
	:: failed < FAILS -> failed++; ok = false
	:: made < THREADS ->
		LOCK;
		nr_workers++;
		nr_idle++;
		idle[made] = true;
		awake[made] = true;
		run worker(made);
		made++;
		UNLOCK;
		ok = true
	fi
}

/* maybe_create_worker(); lock held, dropped meanwhile */
inline make_worker(ok)
{
	do
	:: timer = true;
		UNLOCK;
		do
		:: create(ok);
			if
			:: ok || !LACKS -> break
			:: else
			fi
		od;
		timer = false;
		LOCK;
		if
		:: !LACKS -> break
		:: else
		fi
	od
}

proctype worker(byte me)
{
	bool ok, last;

	do
	:: awake[me] ->
		LOCK;
		if
		:: die[me] -> UNLOCK; break
		:: else
		fi;
		idle[me] = false;
		awake[me] = false;
		nr_idle--;
		do
		:: waiting == 0 -> break
		:: waiting > 0 && nr_idle == 0 && !manager ->
			manager = true;
			by_worker = true;
			make_worker(ok);
			assert(!timer && manager);
			by_worker = false;
			manager = false
		:: waiting > 0 && (nr_idle > 0 || manager) ->
			waiting--;
			begun++;
			last = (begun == ITEMS);
			kick();
			UNLOCK;
			(last || done > 0);
			LOCK;
			done++
		od;
		idle[me] = true;
		nr_idle++;
		UNLOCK
	od;
	gone++
}

active proctype submitter()
{
	byte n;

	for (n : 1 .. ITEMS) {
		LOCK;
		waiting++;
		kick();
		UNLOCK
	}
}

/* pool_start_fn() */
active proctype starter()
{
	bool ok, needed;

end:	do
	:: atomic { queued -> queued = false; starting = true };
		assert(!freed);
		assert(!LACKS || timer);
		if
		:: NEEDED ->
			create(ok);
			if
			:: !ok && NEEDED ->
				/* pool_start_later() */
				atomic { queued = !canceling; starting = false }
				goto end
			:: else
			fi
		:: else
		fi;
#ifndef TIMER_LATE
		timer = false;
#endif
#ifdef RESIGN_EARLY
		needed = NEEDED;
		LOCK;
#else
		LOCK;
		needed = NEEDED;
#endif
#ifdef RESIGN_BLIND
		needed = false;
#endif
		if
		:: needed -> start_soon()
		:: !needed ->
#ifndef TIMER_LATE
			assert(!timer);
#endif
			assert(manager);
			manager = false
		fi;
		UNLOCK;
#ifdef TIMER_LATE
		timer = false;
#endif
		starting = false
	od
}

/* cancels an item that waits, or runs it as the rescuer does */
active proctype taker()
{
	bool last;

	do
	:: atomic { lock == 0 && waiting > 0 -> lock = 1; assert(!freed) };
		waiting--;
		begun++;
		last = (begun == ITEMS);
		if
		:: true
		:: kick();
			UNLOCK;
			(last || done > 0);
			LOCK
		fi;
		done++;
		kick();
		UNLOCK;
		break
	:: true -> break		/* nobody cancels, and there is no rescuer */
	od
}

/* set_worker_dying() and reap_dying_workers(), for one that is idle; lock held */
inline doom()
{
	if
	:: idle[0] -> idle[0] = false; die[0] = true; awake[0] = true
	:: idle[1] -> idle[1] = false; die[1] = true; awake[1] = true
	:: idle[2] -> idle[2] = false; die[2] = true; awake[2] = true
	:: idle[3] -> idle[3] = false; die[3] = true; awake[3] = true
	fi;
	nr_idle--;
	nr_workers--
}

/* idle_cull_fn(); only pools that may be cold lose their last worker */
active proctype culler()
{
	byte n;

	for (n : 1 .. 2) {
		LOCK;
		if
		:: MAY_CULL -> doom()
		:: else
		fi;
		UNLOCK
	}
	culled = true
}

/* put_unbound_pool(), when no item refers to the pool any more */
active proctype destroyer()
{
	done == ITEMS;
	/* pool_cancel_start() */
	atomic { queued = false; canceling = starting };
#ifndef CANCEL_RUNNING
	!starting;
#endif
	canceling = false;
#ifndef CANCEL_TIMER
	timer = false;
#endif
	LOCK;
	if
#ifdef CANCEL_ANY
	:: manager -> manager = false
#else
#ifndef CANCEL_KEEPS
	:: manager && !by_worker -> assert(!timer); manager = false
#endif
#endif
	:: else
	fi;
	UNLOCK;
	do
	::
#ifndef NO_WAIT
		!manager;
#endif
		LOCK;
		if
#ifdef NO_WAIT
		:: break
#else
		:: !manager -> break
		:: else -> UNLOCK
#endif
		fi
	od;
	manager = true;
	do
	:: nr_idle > 0 -> doom()
	:: nr_idle == 0 -> break
	od;
	assert(nr_workers == 0);
	UNLOCK;
	gone == made;
	timer = false;
	culled;				/* cancel_work_sync() */
	atomic { lock == 0 -> freed = true }
}
