/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flush_work() and changes of attributes: kernel/workqueue/flush.c, claim.c, reaper.c
 *
 * One ordered workqueue with two items, X and Y.  Two changes of attributes give it three
 * pwqs in turn; the first and the last are on pool 0, the second one is on pool 1.  New
 * pwqs are plugged until no older one is left.  So X may run on one pwq and be queued on
 * another.  One task queues the items, one cancels X and may wait, and one flushes X.
 * max_active is one per pwq, as if each pwq took its slots from another node.
 *
 * Each atomic or d_step block is what one task does under the lock of one pool.  Between
 * two blocks, all other tasks may move.
 *
 * Holds:
 * - Items run one at a time, in the order in which they were queued.
 * - When flush_work() returns, X has run, or was cancelled, as often as it was queued
 *   before the call, and none of these runs goes on.
 * - When cancel_work_sync() returns, X does not run.
 * - Both return, and all items run that were not cancelled.
 *
 * Mutations, each of which must break it:
 * - NO_SECOND: flush_work() does not look for an older run of X.
 * - NO_PLUG: new pwqs are not plugged.
 * - NO_UNPLUG: the end of a pwq does not unplug the oldest one left.
 * - UNPLUG_NEXT: it unplugs the next pwq even if an older one is left.
 * - NO_REFCNT: queueing does not see that a pwq is dead.
 * - NO_MOVED: flush_work() gives up on an item that has moved to another pool.
 * - MOVED_LATE: flush_work() asks whether the item has moved after it dropped the lock.
 * - NO_HOME: after a cancel, the word of X names the pool of the pwq, not the one where
 *   X still runs.
 * - HOME_STALE: the canceller does not notice that the pwq was unplugged meanwhile.
 * - NO_RUNNER: the barriers of a cancelled item do not go to the worker that runs it.
 * - NO_LEAVE: the barriers of a cancelled item that was held back stay there.
 */
#ifndef TIMES
#define TIMES	3		/* queueings */
#endif
#define PWQS	3
#define POOL(p)	(p & 1)		/* pwq->pool */

#define X	0
#define Y	1
#define NONE	7

/* the word of X: QUEUED + pwq while it is queued, else its last pool */
#define QUEUED		4
#define IS_QUEUED	(word >= QUEUED)
#define WORD_PWQ	(word - QUEUED)
#define LAST_POOL	(IS_QUEUED -> POOL(WORD_PWQ) : word)
#define NO_POOL		2

byte word = NO_POOL;
bool pending[2];
bool disabled;			/* X */

byte dfl;			/* wq->dfl_pwq */
bool linked[PWQS];		/* on wq->pwqs */
bool plugged[PWQS];
byte refcnt[PWQS];
byte ready[PWQS] = NONE;	/* the one item that has the slot and waits for a worker */
bool slot[PWQS];		/* pwq->nr_active */
byte first[PWQS] = NONE, second[PWQS] = NONE;	/* pwq->inactive_works */

/* pool 0 has two workers, as two of its pwqs could make it run two items at a time */
#define WORKERS		3
#define WORKER_POOL(w)	(w == 2)
byte runs[WORKERS] = NONE;	/* worker->current_work */
byte runs_pwq[WORKERS];		/* worker->current_pwq */

/* barriers: 0 and 1 are those of the flusher, 2 is the canceller's */
#define UNUSED	0
#define BEHIND	1		/* linked behind X, which is queued */
#define READY	2		/* on the worklist, without an item before them */
#define GIVEN	3		/* + worker: on worker->scheduled */
#define DONE	7
byte barrier[3];
byte barrier_pwq[3];

byte tickets;			/* queueings so far, in order */
byte ticket[2];			/* of an item that is queued */
byte started;			/* ticket of the item that began last */
byte x_runs;			/* ticket of the run of X; 0: none */
bool mutex;			/* wq->mutex */
byte nr_done;			/* of the flusher and the canceller */

hidden byte i, w;		/* used within one d_step only */

/* find_worker_executing_work(): the worker that runs X, or WORKERS */
inline find_busy(pool)
{
	w = 0;
	do
	:: w < WORKERS && !(runs[w] == X && WORKER_POOL(w) == pool) -> w++
	:: else -> break
	od
}

/* pwq_activate_first_inactive() */
inline activate_first(p)
{
	if
	:: !slot[p] && !plugged[p] && first[p] != NONE ->
		slot[p] = true;
		ready[p] = first[p];
		first[p] = second[p];
		second[p] = NONE
	:: else
	fi
}

/* pwq_find_and_lock(), pwq_enqueue() */
proctype queuer()
{
	byte n, item, p;
	bool done;

	for (n : 1 .. TIMES) {
		atomic {
			if
			:: item = X; done = pending[X] || disabled
			:: item = Y; done = pending[Y]
			fi;
			if
			:: done
			:: else -> pending[item] = true; tickets++; p = dfl
			fi
		}
		do
		:: done -> break
		:: else ->
			d_step {
#ifdef NO_REFCNT
				done = true;
#else
				done = refcnt[p] > 0;
#endif
				if
				:: done ->
					refcnt[p]++;
					ticket[item] = tickets;
					if
					:: item == X -> word = QUEUED + p
					:: else
					fi;
					if
					:: first[p] == NONE -> first[p] = item
					:: else -> second[p] = item
					fi;
					activate_first(p);
					p = 0;
					item = 0
				:: else -> p = dfl
				fi
			}
		od
	}
}

/* process_one_work() up to the unlock: the item of a pwq begins */
inline begin(me, p)
{
	for (w : 0 .. WORKERS - 1) {
		assert(runs[w] == NONE)
	}
	i = ready[p];
	ready[p] = NONE;
	assert(ticket[i] > started);
	started = ticket[i];
	ticket[i] = 0;
	runs[me] = i;
	runs_pwq[me] = p;
	if
	:: i == X ->
		x_runs = started;
		word = POOL(p);
		for (w : 0 .. 2) {
			barrier[w] = (barrier[w] == BEHIND -> GIVEN + me : barrier[w])
		}
	:: else
	fi;
	pending[i] = false
}

/* worker_end_item() */
inline finish(me)
{
	x_runs = (runs[me] == X -> 0 : x_runs);
	runs[me] = NONE;
	slot[runs_pwq[me]] = false;
	activate_first(runs_pwq[me]);
	refcnt[runs_pwq[me]]--;
	runs_pwq[me] = 0
}

#define HAS_BARRIER(b, me)						\
	(barrier[b] == GIVEN + me ||					\
	 barrier[b] == READY && POOL(barrier_pwq[b]) == WORKER_POOL(me))
#define SCHEDULED(me)							\
	(barrier[0] == GIVEN + me || barrier[1] == GIVEN + me || barrier[2] == GIVEN + me)
/* the workers of pool 0 are alike, so the second one stays idle while the first one is */
#define MAY_BEGIN(me, p)						\
	(ready[p] != NONE && POOL(p) == WORKER_POOL(me) && !SCHEDULED(me) &&	\
	 (me != 1 || runs[0] != NONE || SCHEDULED(0)))

inline complete(b)
{
	barrier[b] = DONE;
	refcnt[barrier_pwq[b]]--
}

proctype worker(byte me)
{
end:	do
	:: runs[me] != NONE -> d_step { finish(me) }
	:: d_step { runs[me] == NONE && MAY_BEGIN(me, 0) -> begin(me, 0) }
	:: d_step { runs[me] == NONE && MAY_BEGIN(me, 1) -> begin(me, 1) }
	:: d_step { runs[me] == NONE && MAY_BEGIN(me, 2) -> begin(me, 2) }
	:: d_step { runs[me] == NONE && HAS_BARRIER(0, me) -> complete(0) }
	:: d_step { runs[me] == NONE && HAS_BARRIER(1, me) -> complete(1) }
	:: d_step { runs[me] == NONE && HAS_BARRIER(2, me) -> complete(2) }
	od
}

/* apply_wqattrs_prepare(), apply_wqattrs_commit(), apply_wqattrs_cleanup() */
proctype changer()
{
	byte p;

	for (p : 1 .. PWQS - 1) {
		d_step {
			!mutex ->
			mutex = true;
			refcnt[p] = 1;
#ifndef NO_PLUG
			plugged[p] = true;
#endif
			linked[p] = true
		}
		atomic { dfl = p; mutex = false }
		refcnt[p - 1]--
	}
}

#define DEAD(p)	(linked[p] && refcnt[p] == 0)

/* pwq_unlink(), unplug_oldest_pwq() */
proctype unlinker()
{
	byte p;

end:	do
	:: atomic {
			!mutex && (DEAD(0) || DEAD(1)) ->
			if
			:: DEAD(0) -> p = 0
			:: DEAD(1) -> p = 1
			fi;
			mutex = true;
			linked[p] = false
		}
		d_step {
#ifndef UNPLUG_NEXT
			p = 0;
#endif
			do
			:: !linked[p] -> p++
			:: else -> break
			od;
#ifndef NO_UNPLUG
			plugged[p] = false;
#endif
			activate_first(p);
			p = 0;
			mutex = false
		}
	od
}

inline give_barrier(b, p)
{
	barrier[b] = GIVEN + w;
	barrier_pwq[b] = p;
	refcnt[p]++
}

/* the loop in start_flush_work(); p becomes the pwq that counts the barrier, or NONE */
inline insert_barrier(b)
{
	moved = true;
	do
	:: moved ->
		pool = LAST_POOL;
		/* pool_insert_barrier() */
		d_step {
			find_busy(pool);
			p = NONE;
			moved = false;
			if
			:: pool == NO_POOL
			:: pool != NO_POOL && IS_QUEUED && POOL(WORD_PWQ) == pool ->
				p = WORD_PWQ;
				barrier[b] = BEHIND;
				barrier_pwq[b] = p;
				refcnt[p]++
			:: else ->
				if
				:: w < WORKERS -> p = runs_pwq[w]; give_barrier(b, p)
#ifndef NO_MOVED
				:: w == WORKERS -> moved = LAST_POOL != pool
#else
				:: else
#endif
				fi
			fi;
#ifndef MOVED_LATE
			pool = 0
#endif
		}
#ifdef MOVED_LATE
		atomic {
			moved = p == NONE && pool != NO_POOL && LAST_POOL != pool;
			pool = 0
		}
#endif
	:: else -> break
	od
}

/* flush_work(X) */
proctype flusher()
{
	byte p, o, pool, last;
	bool moved;

	last = (ticket[X] -> ticket[X] : x_runs);
	insert_barrier(0);
#ifndef NO_SECOND
	/* older_insert_barrier(): pwq_lock_older_runner() goes from pwq to pwq */
	o = 0;
	do
	:: p != NONE && o < p ->
		d_step {
			find_busy(POOL(o));
			if
			:: linked[o] && w < WORKERS -> give_barrier(1, runs_pwq[w]); o = p
			:: else -> o++
			fi
		}
	:: else -> break
	od;
#endif
	atomic { p = 0; o = 0 }
	(barrier[0] == UNUSED || barrier[0] == DONE) &&
	(barrier[1] == UNUSED || barrier[1] == DONE);

	assert(x_runs == 0 || x_runs > last);
	assert(ticket[X] == 0 || ticket[X] > last);
	nr_done++
}

/* work_leave_barriers() */
inline leave_barriers(p)
{
	find_busy(POOL(p));
#ifdef NO_RUNNER
	w = WORKERS;
#endif
	for (i : 0 .. 2) {
		if
		:: barrier[i] != BEHIND
		:: barrier[i] == BEHIND && w < WORKERS -> barrier[i] = GIVEN + w
#ifdef NO_LEAVE
		:: barrier[i] == BEHIND && w == WORKERS && ready[p] != X
#endif
		:: else -> barrier[i] = READY
		fi
	}
}

/* work_dequeue() */
inline dequeue(p, home)
{
	leave_barriers(p);
	if
	:: ready[p] == X ->
		ready[p] = NONE;
		slot[p] = false;
		activate_first(p)
	:: else ->
		first[p] = (first[p] == X -> second[p] : first[p]);
		second[p] = NONE
	fi;
	word = home;
	ticket[X] = 0;
	refcnt[p]--
}

/* cancel_work(X) or cancel_work_sync(X) */
proctype canceller()
{
	byte p, o, pool, home;
	bool moved;

	/* work_grab_pending() */
	do
	:: atomic { !pending[X] -> pending[X] = true } ; break
	:: atomic { pending[X] && LAST_POOL != NO_POOL -> pool = LAST_POOL; home = pool }
		/* work_try_dequeue() */
		d_step {
			p = NONE;
			if
			:: IS_QUEUED && POOL(WORD_PWQ) == pool ->
				if
				:: plugged[WORD_PWQ] -> p = WORD_PWQ
				:: else -> p = WORD_PWQ; dequeue(p, home); pool = NO_POOL
				fi
			:: else
			fi
		}
		if
		:: pool == NO_POOL -> break
		:: pool != NO_POOL && p == NONE
		:: pool != NO_POOL && p != NONE ->
			/* work_home() */
			o = 0;
#ifndef NO_HOME
			do
			:: o < p ->
				d_step {
					find_busy(POOL(o));
					if
					:: linked[o] && w < WORKERS -> home = POOL(o); o = p
					:: else -> o++
					fi
				}
			:: else -> break
			od;
#endif
			o = 0;
			d_step {
				if
				:: word == QUEUED + p ->
#ifndef HOME_STALE
					home = (plugged[p] -> home : pool);
#endif
					dequeue(p, home);
					pool = NO_POOL
				:: else
				fi
			}
			if
			:: pool == NO_POOL -> break
			:: else
			fi
		fi
	od;

	atomic { p = 0; pool = 0; home = 0 }
	if
	:: pending[X] = false		/* cancel_work() */
	:: atomic { disabled = true; pending[X] = false }
		insert_barrier(2);
		p = 0;
		barrier[2] == UNUSED || barrier[2] == DONE;
		assert(x_runs == 0);
		disabled = false
	fi;
	nr_done++
}

init {
	byte p;

	atomic {
		linked[0] = true;
		refcnt[0] = 1;
		run queuer();
		run worker(0);
		run worker(1);
		run worker(2);
		run changer();
		run unlinker();
		run flusher();
		run canceller()
	}
	/* nothing can move any more */
	timeout ->
	assert(nr_done == 2);
	assert(!pending[X] && !pending[Y]);
	for (p : 0 .. PWQS - 1) {
		assert(ready[p] == NONE && first[p] == NONE);
		assert(!(linked[p] && plugged[p]));
		assert(linked[p] == (p == PWQS - 1))
	}
}
