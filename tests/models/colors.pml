/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The colours of flush_workqueue(): kernel/workqueue/flush.c
 *
 * A workqueue with two pwqs and three colours.  Some tasks flush it, and items are queued
 * on either pwq, each once.  With three colours, two flushes may go on; others wait in
 * flusher_overflow and share the next colour that gets free.
 *
 * Each d_step block is what one task does under the lock of one pool.  What a flusher does
 * under wq->mutex without such a lock is seen by flushers only, but for first_flusher and
 * nr_pwqs_to_flush, and is atomic.
 *
 * Holds:
 * - When flush_workqueue() returns, no item is in flight that was when it was called.
 * - It returns.
 * - No item has the colour that new items get.
 * - Nobody completes a flusher that has returned.
 * - In the end no colour but that of new items is in use.
 *
 * Mutations, each of which must break it:
 * - NO_PAINT: a lone flush does not give new items the next colour.
 * - PAINT_LATE: it does so after it has counted the items, and dropped the lock.
 * - NO_COUNT: the flusher has no count of its own while it arms the pwqs.
 * - NO_ARM: pwqs with items of the colour are counted, and do not know what is waited for.
 * - KEEP_COLOR: a lone flush that finds no item leaves its colour in use.
 * - KEEP_FIRST: and stays on the list.
 * - NO_OVERFLOW: a flush takes the next colour though it is in use.
 * - RETIRE_ALL: the first flusher completes those of later colours, too.
 * - NO_ASSIGN: those that wait for a colour get none when one is free.
 * - WORK_COLOR: the workqueue does not take the colour that its pwqs got.
 */
#define COLORS		3
#define PWQS		2
#define FLUSHERS	3

#define NONE		7
#define NEXT(color)	((color + 1) % COLORS)

/* the workqueue */
bool mutex;
byte work_color, flush_color;
byte count;			/* wq->nr_pwqs_to_flush */
byte first;			/* wq->first_flusher */
chan flushers = [FLUSHERS] of { byte };
chan overflow = [FLUSHERS] of { byte };

/* pwqs */
byte pwq_color[PWQS];		/* pwq->work_color */
byte armed[PWQS] = NONE;	/* pwq->flush_color */
byte in_flight[PWQS * COLORS];	/* pwq->nr_in_flight */
#define NR(p, color)	in_flight[(p) * COLORS + (color)]

/* flushers */
byte color[FLUSHERS];
bool done[FLUSHERS], finished[FLUSHERS], returned[FLUSHERS];

byte unfinished;		/* a bit for each item that is queued or runs */

hidden byte x;			/* used within one atomic or d_step only */

/* queue_work_on() chooses a pwq; later the item runs, pwq_dec_nr_in_flight() */
proctype item(byte me)
{
	byte p, mine;
	bool last;

	if
	:: p = 0
	:: p = 1
	fi;
	d_step {
		mine = pwq_color[p];
		NR(p, mine)++;
		unfinished = unfinished | (1 << me)
	}
	d_step {
		unfinished = unfinished & ~(1 << me);
		NR(p, mine)--;
		if
		:: NR(p, mine) == 0 && armed[p] == mine ->
			armed[p] = NONE;
			count--;
			last = count == 0
		:: else
		fi
	}
	/* pwq_flushed() reads first_flusher after it has counted */
	if
	:: last -> d_step { assert(!returned[first]); done[first] = true }
	:: else
	fi
}

/* wq_arm(): waits becomes false if there is nothing to wait for */
inline arm()
{
	atomic {
		flushers?<first>;
#ifdef NO_COUNT
		count = 0;
#else
		count = 1;
#endif
		p = 0
	}
	do
	:: p < PWQS ->
		d_step {
#ifndef NO_PAINT
#ifndef PAINT_LATE
			pwq_color[p] = work_color;
#endif
#endif
			if
			:: NR(p, flush_color) > 0 ->
#ifndef NO_ARM
				armed[p] = flush_color;
#endif
				count++
			:: else
			fi;
#ifndef PAINT_LATE
			p++
#endif
		}
#ifdef PAINT_LATE
		d_step { pwq_color[p] = work_color; p++ }
#endif
	:: else -> break
	od;
	atomic {
#ifndef NO_COUNT
		count--;
#endif
		waits = count != 0;
		p = 0
	}
}

/* wq_assign_color() */
inline assign_color()
{
	if
	:: empty(overflow)
#ifndef NO_OVERFLOW
	:: NEXT(work_color) == flush_color
	:: nempty(overflow) && NEXT(work_color) != flush_color ->
#else
	:: nempty(overflow) ->
#endif
		atomic {
			do
			:: nempty(overflow) -> overflow?x; color[x] = work_color; flushers!x
			:: empty(overflow) -> break
			od;
			p = 0
		}
		do
		:: p < PWQS ->
			d_step {
				assert(NR(p, NEXT(work_color)) == 0);
				pwq_color[p] = NEXT(work_color);
				p++
			}
		:: else -> break
		od;
		atomic {
#ifndef WORK_COLOR
			work_color = NEXT(work_color);
#endif
			p = 0
		}
	fi
}

/* wq_retire_color() */
inline retire_color()
{
	atomic {
		do
		:: empty(flushers) -> break
		:: nempty(flushers) ->
			flushers?<x>;
#ifndef RETIRE_ALL
			if
			:: color[x] != flush_color -> break
			:: else
			fi;
#endif
			flushers?x;
			finished[x] = true;
			done[x] = true
		od;
		flush_color = NEXT(flush_color)
	}
#ifndef NO_ASSIGN
	assign_color()
#endif
}

/* __flush_workqueue() */
proctype flusher(byte me)
{
	byte before, p;
	bool waits = true;

	before = unfinished;
	atomic { !mutex -> mutex = true }
	if
	:: empty(flushers) ->
		/* wq_flush_alone() */
		atomic {
			assert(empty(overflow) && flush_color == work_color);
			color[me] = work_color;
			flushers!me;
			work_color = NEXT(work_color);
			assert(NR(0, work_color) == 0 && NR(1, work_color) == 0)
		}
		arm();
		atomic {
			if
			:: !waits ->
#ifndef KEEP_FIRST
				flushers?x;
				assert(x == me);
#endif
#ifndef KEEP_COLOR
				flush_color = work_color
#endif
			:: else
			fi
		}
	:: nempty(flushers) ->
		overflow!me;
		assign_color()
	fi;
	mutex = false;

	if
	:: waits ->
		done[me];
		if
		:: finished[me]
		:: else ->
			atomic { !mutex -> mutex = true }
			do
			:: retire_color();
				if
				:: empty(flushers) -> break
				:: nempty(flushers) ->
					arm();
					if
					:: waits -> break
					:: else
					fi
				fi
			od;
			mutex = false
		fi
	:: else
	fi;
	d_step { assert((unfinished & before) == 0); returned[me] = true }
}

init {
	atomic {
		run item(0);
		run item(1);
		run flusher(0);
		run flusher(1);
		run flusher(2)
	}
	/* nothing can move any more */
	timeout ->
	assert(_nr_pr == 1);
	assert(!mutex && empty(flushers) && empty(overflow) && flush_color == work_color)
}
