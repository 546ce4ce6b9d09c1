/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who is woken, and when: kernel/workqueue/kick.c, worker.c, concurrency.c
 *
 * One pool has as many workers as there are items.  Another CPU queues the items.  Some
 * items end at once, the others sleep until all items have started.  Without UNBOUND,
 * this is a per-CPU pool, whose workers count in nr_running.  With UNBOUND, they do not
 * count, and each worker that starts an item wakes the next worker.
 *
 * kick_pool() chooses a worker under the lock and leaves it on the idle list.  The worker
 * is woken after the unlock.  So two kicks may choose the same worker.  One that is awake is
 * not woken again.
 *
 * Holds: no item waits for ever while a worker is idle.
 *
 * Mutations, each of which must break it:
 * - NO_KICK_QUEUE: queueing an item does not kick.
 * - NO_KICK_SLEEP: a worker whose item goes to sleep does not kick.
 * - NO_LOOK_BACK: a worker goes idle without another look at the worklist.
 * - STATE_LATE: a worker that goes idle sets its task's state after it dropped the lock.
 * - AWAKE_LATE: a worker counts as awake until its task has left the CPU.
 * - SLEEP_UNLOCKED: wq_worker_sleeping() tests the worklist and lowers nr_running without
 *   the lock.
 *
 * With UNBOUND, the mutations are NO_KICK_QUEUE, STATE_LATE, AWAKE_LATE and this one:
 * - NO_CHAIN: a worker that starts an item does not kick for the next one.
 */
#ifndef ITEMS
#define ITEMS	3
#endif
#define NOBODY	ITEMS

byte lock;			/* pool->lock */
byte waiting;			/* pool->worklist */
byte nr_running;
bool idle[ITEMS];		/* on pool->idle_list */
bool asleep[ITEMS];		/* the task's state */
bool waking[ITEMS];		/* TASK_WAKING: somebody puts it on a run queue */
#ifdef AWAKE_LATE
bool gone[ITEMS];		/* the task is off the CPU */
#define AWAKE(w)	(!gone[w])
#else
#define AWAKE(w)	(!asleep[w] || waking[w])	/* worker_is_awake() */
#endif
byte started;

#define LOCK(l)		atomic { l == 0 -> l = 1 }
#define UNLOCK(l)	l = 0
#define NEEDS_WORKER	(waiting > 0 && nr_running == 0)

#ifdef UNBOUND
#define COUNT(n)	skip
#else
/* by the pool's CPU only, hence one step */
#define COUNT(n)	nr_running = nr_running + n
#endif

/* kick_pool(), which may choose any idle worker; if that one is awake, nobody is woken */
inline kick(who)
{
	who = NOBODY;
	if
	:: NEEDS_WORKER && idle[0] -> who = 0
	:: NEEDS_WORKER && idle[1] -> who = 1
	:: NEEDS_WORKER && ITEMS > 2 && idle[ITEMS - 1] -> who = ITEMS - 1
	:: !(NEEDS_WORKER && (idle[0] || idle[1] || idle[ITEMS - 1]))
	fi;
	if
	:: who != NOBODY && AWAKE(who) -> who = NOBODY
	:: else
	fi
}

inline wake(who)
{
	if
	:: who != NOBODY ->
#ifdef AWAKE_LATE
		atomic { asleep[who] = false; gone[who] = false }
#else
		if
		:: true		/* still on a run queue, being woken by another, or woken in one step */
		:: atomic { asleep[who] && !waking[who] -> waking[who] = true }
		fi;
		atomic { asleep[who] = false; waking[who] = false }
#endif
	:: else
	fi
}

/* an item sleeps until all have started */
inline sleep(who)
{
	/* wq_worker_sleeping() */
#ifndef UNBOUND
#ifdef SLEEP_UNLOCKED
	/* the look at the list may be done before others see the count */
	atomic { kept = waiting > 0 && nr_running == 1; who = NOBODY };
	COUNT(-1);
	if
	:: kept -> LOCK(lock); kick(who); UNLOCK(lock)
	:: else
	fi;
#else
	LOCK(lock);
	COUNT(-1);
#ifdef NO_KICK_SLEEP
	who = NOBODY;
#else
	kick(who);
#endif
	UNLOCK(lock);
#endif
	wake(who);
#endif
	started == ITEMS;
	COUNT(1)		/* wq_worker_running() */
}

proctype worker(byte w)
{
	byte who;
	bool kept;

	/* as create_worker() leaves it */
	idle[w] = true;
end:	do
	:: !asleep[w] ->
		LOCK(lock);
		idle[w] = false;

		if
		:: NEEDS_WORKER ->
			COUNT(1);
			kept = true;
			do
			:: kept ->
				waiting--;
				started++;
#ifndef NO_CHAIN
				kick(who);
#else
				who = NOBODY;
#endif
				UNLOCK(lock);
				wake(who);

				if
				:: true		/* an item that does not sleep */
				:: true -> sleep(who)
				fi;

				LOCK(lock);
#ifdef NO_LOOK_BACK
				kept = false
#else
				kept = waiting > 0 && nr_running <= 1
#endif
			:: else -> break
			od;
			COUNT(-1)
		:: else
		fi;

		idle[w] = true;
#ifdef STATE_LATE
		UNLOCK(lock);
		asleep[w] = true
#else
		asleep[w] = true;
		UNLOCK(lock)
#endif
#ifdef AWAKE_LATE
		;
		gone[w] = asleep[w]
#endif
	od
}

proctype queuer()
{
	byte n, who;

	for (n : 1 .. ITEMS) {
		LOCK(lock);
		waiting++;
#ifdef NO_KICK_QUEUE
		who = NOBODY;
#else
		kick(who);
#endif
		UNLOCK(lock);
		wake(who)
	}
}

init {
	byte w;

	atomic {
		for (w : 0 .. ITEMS - 1) {
			run worker(w)
		}
		run queuer()
	}
	/* nothing can move any more */
	timeout ->
	assert(waiting == 0 && started == ITEMS);
	assert(nr_running == 0)
}
