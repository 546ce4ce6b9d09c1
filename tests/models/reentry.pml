/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PENDING and non-reentrance: kernel/workqueue/data.c, queue.c, claim.c, worker.c
 *
 * Two CPUs queue one item again and again, each on the pool of its own pod.  Pool 0 has
 * two workers, pool 1 has one.
 *
 * Holds:
 * - The item never runs twice at a time.
 * - A CPU writes to the item and then queues it.  A run that starts afterwards sees what
 *   was written, even if queueing was refused because the item was pending.
 * - The item is idle in the end.
 *
 * Mutations, each of which must break it:
 * - NO_MB_RUN, NO_MB_QUEUE: the barriers of work_release() and work_claim_idle() are left out.
 * - NO_LAST_POOL: queueing does not look whether the item still runs on another pool.
 * - NO_COLLISION: a worker does not look whether another one runs the item.
 * - LAST_LATE: PENDING is cleared before the word names the last pool.
 * - BUSY_SHORT: the worker stops naming the item before the function returns.
 */
#ifndef TIMES
#define TIMES	2		/* queueings by each CPU */
#endif
#define NONE	3

bool pending;			/* WORK_STRUCT_PENDING */
byte last = NONE;		/* the pool that work->data names */
byte pool_lock[2];
bool listed[2];			/* on pool->worklist */
bool scheduled[3];		/* on worker->scheduled */
bool busy[3];			/* worker->current_work */
byte running;
byte written[2], seen[2];	/* by queueing CPU */

#define LOCK(l)		atomic { l == 0 -> l = 1 }
#define UNLOCK(l)	l = 0
#define BUSY(p)		((p == 0 && (busy[0] || busy[1])) || (p == 1 && busy[2]))

/* if the other worker runs the item, that worker gets this run, too */
inline collide(w, taken)
{
	taken = true;
#ifndef NO_COLLISION
	if
	:: w == 0 && busy[1] -> scheduled[1] = true; taken = false
	:: w == 1 && busy[0] -> scheduled[0] = true; taken = false
	:: else
	fi
#endif
}

inline read_input()
{
	early[0] = written[0];
	early[1] = written[1]
}

proctype worker(byte w; byte p)
{
	bool taken;
	byte early[2];

end:	do
	:: listed[p] || scheduled[w] ->
		LOCK(pool_lock[p]);
		taken = false;
		if
		:: scheduled[w] -> scheduled[w] = false; taken = true
		:: !scheduled[w] && listed[p] -> listed[p] = false; collide(w, taken)
		:: else
		fi;
		if
		:: taken
		:: !taken -> UNLOCK(pool_lock[p]); goto end
		fi;
		busy[w] = true;
#ifdef NO_MB_RUN
		/* the function's first reads are done before PENDING is seen clear */
		read_input();
#endif
#ifdef LAST_LATE
		pending = false;
		last = p;
#else
		atomic { last = p; pending = false }	/* one word */
#endif
		UNLOCK(pool_lock[p]);

#ifdef BUSY_SHORT
		busy[w] = false;
#endif
		running++;
		assert(running == 1);
#ifndef NO_MB_RUN
		read_input();
#endif
		seen[0] = early[0];
		seen[1] = early[1];
		running--;

		LOCK(pool_lock[p]);
		busy[w] = false;
		UNLOCK(pool_lock[p])
	od
}

proctype queuer(byte q)
{
	byte n, runs;
	bool refused, placed;

	for (n : 1 .. TIMES) {
#ifdef NO_MB_QUEUE
		/* a failed test_and_set_bit() orders nothing */
		if
		:: written[q] = n; atomic { refused = pending; pending = true }
		:: atomic { pending -> refused = true }; written[q] = n
		fi;
#else
		written[q] = n;
		atomic { refused = pending; pending = true };
#endif
		if
		:: refused
		:: else ->
			placed = false;
			runs = last;
#ifndef NO_LAST_POOL
			if
			:: runs != NONE && runs != q ->
				LOCK(pool_lock[runs]);
				if
				:: BUSY(runs) -> listed[runs] = true; placed = true
				:: else
				fi;
				UNLOCK(pool_lock[runs])
			:: else
			fi;
#endif
			if
			:: placed
			:: else ->
				LOCK(pool_lock[q]);
				listed[q] = true;
				UNLOCK(pool_lock[q])
			fi
		fi
	}
}

init {
	atomic {
		run worker(0, 0);
		run worker(1, 0);
		run worker(2, 1);
		run queuer(0);
		run queuer(1)
	}
	/* nothing can move any more */
	timeout ->
	assert(!pending && !listed[0] && !listed[1]);
	assert(seen[0] == TIMES && seen[1] == TIMES)
}
