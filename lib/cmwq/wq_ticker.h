/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long does an item wait that an interrupt queues?
 *
 * A timer queues the item in interrupt context, like the driver of a device, so that load on the
 * CPU cannot delay the queueing.  The item notes how long it has waited.
 *
 * An item that still waits at the next tick is not queued again, and the tick is late.  If only
 * items counted, a wait of one second would be one sample.  But every item that was due in that
 * second would have waited as well.  So each of these ticks is a sample, too: the time from the
 * tick to the start of the item.
 */
#ifndef _LIB_WQ_TICKER_H
#define _LIB_WQ_TICKER_H

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/workqueue.h>

#include "wq_compat.h"
#include "wq_hist.h"
#include "wq_tally.h"

#define WQ_TICKER_MODE		HRTIMER_MODE_REL_PINNED_HARD

struct wq_ticker {
	struct hrtimer		timer;
	struct work_struct	work;
	struct workqueue_struct	*wq;
	u64			period;		/* ns */
	bool			waiting;	/* set by the tick, cleared by the item */
	u64			queued_at;	/* ns; the item may read it while @waiting */
	u64			late;		/* written by the tick, like the next one */
	u64			refused;
	atomic_t		owed;		/* runs: see wq_tally.h */
	u64			ran;		/* written by the item, like the histogram */
	struct wq_hist		*hist;
};

static inline enum hrtimer_restart wq_ticker_tick(struct hrtimer *timer)
{
	struct wq_ticker *ticker = container_of(timer, struct wq_ticker, timer);

	/* Pairs with the release by the item: it no longer reads what is written here. */
	if (smp_load_acquire(&ticker->waiting)) {
		ticker->late++;
	} else {
		WRITE_ONCE(ticker->waiting, true);
		atomic_inc(&ticker->owed);
		ticker->queued_at = ktime_get_ns();
		if (!queue_work(ticker->wq, &ticker->work)) {
			ticker->refused++;
			atomic_dec(&ticker->owed);
			WRITE_ONCE(ticker->waiting, false);
		}
	}
	hrtimer_forward_now(timer, ns_to_ktime(ticker->period));
	return HRTIMER_RESTART;
}

static inline void wq_ticker_fn(struct work_struct *work)
{
	struct wq_ticker *ticker = container_of(work, struct wq_ticker, work);

	wq_hist_add_missed(ticker->hist, ktime_get_ns() - ticker->queued_at, ticker->period);
	wq_tally_ran(&ticker->owed);
	ticker->ran++;
	/* Pairs with the acquire by the tick. */
	smp_store_release(&ticker->waiting, false);
}

static inline void wq_ticker_init(struct wq_ticker *ticker, struct wq_hist *hist)
{
	ticker->hist = hist;
	INIT_WORK(&ticker->work, wq_ticker_fn);
	hrtimer_setup(&ticker->timer, wq_ticker_tick, CLOCK_MONOTONIC, WQ_TICKER_MODE);
}

/* Starts anew, even if the item got lost in an earlier run. */
static inline void wq_ticker_reset(struct wq_ticker *ticker, struct workqueue_struct *wq,
				   u64 period)
{
	ticker->wq = wq;
	ticker->period = period;
	ticker->waiting = false;
	ticker->late = 0;
	ticker->refused = 0;
	ticker->ran = 0;
	atomic_set(&ticker->owed, 0);
}

/* The first tick comes after a period and @offset.  The timer stays on the CPU of the caller. */
static inline void wq_ticker_start(struct wq_ticker *ticker, u64 offset)
{
	hrtimer_start(&ticker->timer, ns_to_ktime(ticker->period + offset), WQ_TICKER_MODE);
}

#endif /* _LIB_WQ_TICKER_H */
