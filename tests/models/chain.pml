/* SPDX-License-Identifier: GPL-2.0 */
/*
 * drain_workqueue() of a workqueue with a chain: kernel/workqueue/flush.c
 *
 * Two pwqs.  A chain of items goes on: each item queues the next one on either pwq, or ends the
 * chain.  Meanwhile somebody may cancel an item that waits.  A drainer looks at one pwq after
 * the other, each under the lock of its pool, which is one step here.
 *
 * Holds: when drain_workqueue() returns, no item waits or runs, and none comes later.
 *
 * Mutations, each of which must break it:
 * - ONE_LOOK: the drainer looks at each pwq only once.
 * - NO_COUNT: it looks twice, and does not compare how many items have started.
 */
#ifndef ITEMS
#define ITEMS	5		/* in the chain */
#endif

byte waiting[2], running[2];	/* pwq->nr_in_flight */
byte started[2];		/* pwq->stats[PWQ_STAT_STARTED] */
byte left = ITEMS;		/* of the chain */
bool returned;

#define EMPTY(p)	(!waiting[p] && !running[p])

inline queue(p)
{
	atomic {
		assert(!returned);
		left--;
		waiting[p]++
	}
}

/* the worker of a pool */
proctype worker(byte p)
{
end:	do
	:: atomic {
		waiting[p] > 0 ->
		assert(!returned);
		waiting[p]--;
		running[p]++;
		started[p]++
	   }
	   if
	   :: left > 0 -> queue(0)
	   :: left > 0 -> queue(1)
	   :: true
	   fi;
	   running[p]--
	od
}

proctype canceller()
{
	do
	:: atomic { waiting[0] > 0 -> waiting[0]--; break }
	:: atomic { waiting[1] > 0 -> waiting[1]--; break }
	:: break
	od
}

/* wq_looks_empty() */
inline look(gone, sum)
{
	gone = false;
	sum = 0;
	if
	:: atomic { EMPTY(0) -> sum = started[0] };
		if
		:: atomic { EMPTY(1) -> sum = sum + started[1]; gone = true }
		:: atomic { !EMPTY(1) -> skip }
		fi
	:: atomic { !EMPTY(0) -> skip }
	fi
}

proctype drainer()
{
	byte before, after;
	bool gone;

	do
	:: look(gone, before);
#ifndef ONE_LOOK
	   if
	   :: gone ->
		look(gone, after);
#ifndef NO_COUNT
		gone = gone && before == after
#endif
	   :: else
	   fi;
#endif
	   if
	   :: gone -> break
	   :: else
	   fi
	od;
	returned = true;
	assert(EMPTY(0) && EMPTY(1))
}

init {
	atomic {
		waiting[0] = 1;
		left--;
		run worker(0);
		run worker(1);
		run canceller();
		run drainer()
	}
}
