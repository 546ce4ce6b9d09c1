/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the choice of a worker and its wake-up: kernel/workqueue/kick.c, pool.c, worker.c
 *
 * kick_pool() picks the first idle worker under the lock, and leaves it on the idle list.  The
 * worker is woken after the unlock, if it is not awake.  Others may wake it first.  When this
 * wake-up comes, the worker may be idle again, or may have been told to end.  Then it is woken
 * for nothing.
 *
 * Up to ITEMS items are queued, each by another CPU.  Some end at once, the others sleep until
 * all have started.  CULLS times an idle worker may be told to end, as if its time were up.  The
 * pool is unbound and begins with one to three idle workers.  With PERCPU it belongs to a CPU,
 * and its workers count in nr_running.
 *
 * What is done under the lock until it is dropped is one step.  Without the lock, others wake
 * tasks and raise nr_running.  They might as well do that before or after the step.
 *
 * Holds: no item waits for ever, whoever was picked, woken for nothing or told to end.  So no
 * worker ends while an item depends on it.
 *
 * Mutations, each of which must break it:
 * - NO_LOOK_BACK: a worker goes idle after an item without another look at the worklist.
 * - LOOK_EARLY: it drops the lock between this look and going idle.
 * - STATE_LATE: it goes idle, and sets its task's state after it dropped the lock.
 * - CULL_FIRST: the first idle worker is told to end, not the last one.
 * - CULL_BLIND: whether too many are idle is looked at only before the lock is taken.
 * - KEEP_NONE: the last two idle workers are told to end, too.
 * - KEEP_LISTED: a worker that was told to end stays on the idle list until it has ended.
 */
#define ITEMS	3
#define CULLS	1
#define THREADS	(ITEMS + 1 + CULLS)	/* one for each item, one in reserve, and those that end */
#define NOBODY	THREADS

byte items, queued;		/* to be queued in all, and so far */
byte waiting;			/* on pool->worklist */
byte started;
byte nr_running;
bool manager;			/* POOL_MANAGER_ACTIVE */
bool managing;			/* pool->manager: the manager is a worker */
chan idle_list = [THREADS] of { byte };	/* in reverse: who went idle first comes first */
byte made;			/* threads */
bool awake[THREADS];		/* the task's state */
bool die[THREADS];		/* WORKER_DIE */

mtype = { IDLE, LATE, MANAGE, RUN, SLEEP };	/* what a worker does without the lock */

#define NR_IDLE		len(idle_list)
#define NEEDS_WORKER	(waiting > 0 && nr_running == 0)
#define LACKS_WORKER	(NEEDS_WORKER && NR_IDLE == 0)

#ifdef PERCPU
#define COUNT(n)	nr_running = nr_running + n
#else
#define COUNT(n)	skip
#endif

/* too_many_workers(); how many are busy does not matter, as they are few */
#ifdef KEEP_NONE
#define KEPT		0
#else
#define KEPT		2
#endif
#define TOO_MANY	(NR_IDLE > 0 && NR_IDLE + managing > KEPT)

/* the first idle worker, which comes last here; a whole turn leaves the list as it is */
inline find_first()
{
	for (n : 1 .. NR_IDLE) {
		idle_list?who;
		idle_list!who
	}
	n = 0
}

/* kick_pool() */
inline pick()
{
	if
	:: NEEDS_WORKER && NR_IDLE > 0 ->
		find_first();
		if
		:: awake[who] -> who = NOBODY
		:: else
		fi
	:: else
	fi
}

/* wake_up_process(): nothing happens if the task is awake, or has ended */
inline wake()
{
	if
	:: who != NOBODY -> d_step { awake[who] = true; who = NOBODY }
	:: else
	fi
}

/* create_worker() */
inline create()
{
	atomic {
		assert(made < THREADS);
		who = made;
		made++;
		run worker(who);
		idle_list!who
	}
	wake()
}

/* take an item, up to the unlock in process_one_work(); it may end at once, or sleep */
inline take()
{
	waiting--;
	started++;
	pick();
	if
	:: doing = RUN
	:: doing = SLEEP
	fi
}

inline go_idle()
{
#ifdef LOOK_EARLY
	doing = LATE
#else
	idle_list!me;
#ifdef STATE_LATE
	doing = LATE
#else
	awake[me] = false;
	doing = IDLE
#endif
#endif
}

/* worker_serve(), up to the unlock */
inline serve()
{
	if
	:: !NEEDS_WORKER -> go_idle()
	:: LACKS_WORKER && !manager ->
		manager = true;
		managing = true;
		doing = MANAGE
	:: NEEDS_WORKER && (NR_IDLE > 0 || manager) ->
		COUNT(1);
		take()
	fi
}

/* after an item: keep_working() */
inline look_back()
{
	atomic {
		if
#ifndef NO_LOOK_BACK
		:: waiting > 0 && nr_running <= 1 -> take()
#endif
		:: else -> COUNT(-1); go_idle()
		fi
	}
}

/* worker_thread() */
proctype worker(byte me)
{
	mtype doing = IDLE;
	byte who = NOBODY, n;

end:	do
	:: atomic { doing == IDLE && awake[me] ->
			if
			:: die[me] -> break
			:: else -> idle_list??eval(me); serve()
			fi
		}
	:: doing == MANAGE ->
		create();
		atomic {
			if
			:: LACKS_WORKER
			:: else ->
				managing = false;
				manager = false;
				serve()
			fi
		}
	:: doing == RUN ->
		wake();
		look_back()
	:: doing == SLEEP ->
		wake();
#ifdef PERCPU
		/* wq_worker_sleeping() */
		atomic { COUNT(-1); pick() }
		wake();
#endif
		started == items;
		COUNT(1);
		look_back()
	/* with LOOK_EARLY and STATE_LATE only */
	:: atomic { doing == LATE ->
#ifdef LOOK_EARLY
			idle_list!me;
#endif
			awake[me] = false;
			doing = IDLE
		}
	od;
#ifdef KEEP_LISTED
	idle_list??eval(me)
#endif
}

/* queue_work(); the CPUs are alike, so they come one after the other */
proctype queuer()
{
	byte who = NOBODY, n;

	atomic {
		queued++;
		if
		:: queued < items -> run queuer()
		:: else
		fi;
		waiting++;
		pick()
	}
	wake()
}

/* idle_cull_fn(), for one worker; reap_dying_workers() wakes it */
proctype culler()
{
	byte who = NOBODY, n;

#ifdef CULL_BLIND
end:	TOO_MANY;
end2:	atomic { NR_IDLE > 0 ->
#else
end:	atomic { TOO_MANY ->
#endif
#ifdef CULL_FIRST
		find_first();
#else
		idle_list?<who>;
#endif
#ifndef KEEP_LISTED
		idle_list??eval(who);
#endif
		die[who] = true
	}
	wake()
}

init {
	byte n;

	atomic {
		select(items : 1 .. ITEMS);
		run queuer();
		for (n : 1 .. CULLS) {
			run culler()
		}
		select(made : 1 .. 3);
		for (n : 0 .. made - 1) {
			idle_list!n;
			run worker(n)
		}
	}
	/* nothing can move any more */
	timeout ->
	assert(waiting == 0 && started == items);
	assert(nr_running == 0 && !manager)
}
