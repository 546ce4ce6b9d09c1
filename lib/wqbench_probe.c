// SPDX-License-Identifier: GPL-2.0
/*
 * A probe beside the load of a run: how long does an item of high priority wait?
 *
 * While a thread submits, a timer on its CPU queues the probe's item on a separate workqueue.
 * It does so in interrupt context, so the load cannot delay the queueing. As in wq_probe.c, an
 * item that still waits at the next tick is not queued again, and such a tick is a sample as
 * well.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/workqueue.h>

#include "wqbench.h"

#define PROBE_TIMER_MODE	HRTIMER_MODE_REL_PINNED_HARD

static enum hrtimer_restart bench_probe_tick(struct hrtimer *timer)
{
	struct bench_probe *probe = container_of(timer, struct bench_probe, timer);

	/* Pairs with the release by the item: it no longer reads what is written here. */
	if (smp_load_acquire(&probe->waiting)) {
		probe->late++;
	} else {
		WRITE_ONCE(probe->waiting, true);
		probe->queued_at = bench_ticks();
		if (queue_work(probe->wq, &probe->work)) {
			probe->queued++;
		} else {
			probe->refused++;
			WRITE_ONCE(probe->waiting, false);
		}
	}
	hrtimer_forward_now(timer, ns_to_ktime(BENCH_PROBE_NS));
	return HRTIMER_RESTART;
}

static void bench_probe_fn(struct work_struct *work)
{
	struct bench_probe *probe = container_of(work, struct bench_probe, work);

	wq_hist_add_missed(probe->hist, bench_ticks_to_ns(probe->queued_at, bench_ticks()),
			   BENCH_PROBE_NS);
	probe->ran++;
	/* Pairs with the acquire by the tick. */
	smp_store_release(&probe->waiting, false);
}

void bench_probe_init(struct bench_probe *probe, struct wq_hist *hist)
{
	probe->hist = hist;
	INIT_WORK(&probe->work, bench_probe_fn);
	hrtimer_setup(&probe->timer, bench_probe_tick, CLOCK_MONOTONIC, PROBE_TIMER_MODE);
}

/* @waiting may still be set, if the item got lost in an earlier run. */
void bench_probe_reset(struct bench_probe *probe, struct workqueue_struct *wq)
{
	probe->wq = wq;
	probe->waiting = false;
	probe->queued = 0;
	probe->late = 0;
	probe->refused = 0;
	probe->ran = 0;
}

/* Called by the submitter: the timer stays on its CPU. */
void bench_probe_start(struct bench_probe *probe)
{
	hrtimer_start(&probe->timer, ns_to_ktime(BENCH_PROBE_NS), PROBE_TIMER_MODE);
}

void bench_probe_stop(struct bench_probe *probe)
{
	hrtimer_cancel(&probe->timer);
}
