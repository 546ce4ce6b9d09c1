/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who is woken, and when: kernel/workqueue/kick.c, manager.c, concurrency.c
 *
 * One pool with as many workers as items.  Another CPU queues the items; some end at
 * once, others sleep until all have started.  As it is, the pool is a per-CPU one,
 * whose workers count in nr_running; with UNBOUND they do not, and start each other
 * in a chain.
 *
 * Holds: no item waits for ever while a worker is idle.
 *
 * pool_kick() names a worker under the lock and leaves it on the idle list; it is
 * woken after the unlock.  Two kicks may name the same one.
 *
 * Mutations, each of which must break it: NO_KICK_QUEUE, NO_KICK_SLEEP,
 * NO_LOOK_BACK (a worker goes idle without a look at the list), STATE_LATE (it says
 * that it sleeps after it dropped the lock), SLEEP_UNLOCKED (the sleeping hook tests
 * and counts without the lock).  With UNBOUND: NO_KICK_QUEUE, STATE_LATE, NO_CHAIN
 * (a worker that starts an item does not kick for the next).
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

/* pool_kick(): which of the idle ones is left open */
inline kick(who)
{
	who = NOBODY;
	if
	:: NEEDS_WORKER && idle[0] -> who = 0
	:: NEEDS_WORKER && idle[1] -> who = 1
	:: NEEDS_WORKER && ITEMS > 2 && idle[ITEMS - 1] -> who = ITEMS - 1
	:: !(NEEDS_WORKER && (idle[0] || idle[1] || idle[ITEMS - 1]))
	fi
}

inline wake(who)
{
	if
	:: who != NOBODY -> asleep[who] = false
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

	/* as worker_create() leaves it */
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
