// SPDX-License-Identifier: GPL-2.0
/*
 * Actors in softirq and hardirq: timers that start themselves again.
 */
#include <linux/hrtimer.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include "wqtorture.h"

#define NAP_NS	(5 * NSEC_PER_MSEC)

struct irq_source {
	struct wqt_actor actor;
	struct timer_list soft;
	struct hrtimer hard;
	bool is_hard;
};

static struct irq_source *sources;
static int nr_sources;
static bool stop;

static void one_round(struct irq_source *source, enum wqt_stat stat)
{
	if (READ_ONCE(wqt_resting))
		return;
	wqt_quick_op(&source->actor);
	wqt_count(stat);
}

static void soft_fn(struct timer_list *timer)
{
	struct irq_source *source = container_of(timer, struct irq_source, soft);

	one_round(source, WQT_SOFTIRQ);
	if (!READ_ONCE(stop))
		mod_timer(timer, jiffies + wqt_rnd(&source->actor.rnd, 3));
}

static enum hrtimer_restart hard_fn(struct hrtimer *timer)
{
	struct irq_source *source = container_of(timer, struct irq_source, hard);
	u64 ns = READ_ONCE(wqt_resting) ? NAP_NS :
		 (100 + wqt_rnd(&source->actor.rnd, 2000)) * NSEC_PER_USEC;

	one_round(source, WQT_HARDIRQ);
	if (READ_ONCE(stop))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(ns));
	return HRTIMER_RESTART;
}

int wqt_irq_init(int softirqs, int hardirqs, int base)
{
	int i;

	sources = kcalloc(softirqs + hardirqs, sizeof(*sources), GFP_KERNEL);
	if (!sources)
		return -ENOMEM;
	WRITE_ONCE(stop, false);
	nr_sources = softirqs + hardirqs;
	for (i = 0; i < nr_sources; i++) {
		struct irq_source *source = &sources[i];

		source->is_hard = i >= softirqs;
		wqt_actor_init(&source->actor, source->is_hard ? "hardirq" : "softirq", base + i);
		timer_setup(&source->soft, soft_fn, 0);
		hrtimer_setup(&source->hard, hard_fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
		if (source->is_hard)
			hrtimer_start(&source->hard, ns_to_ktime(NAP_NS), HRTIMER_MODE_REL_HARD);
		else
			mod_timer(&source->soft, jiffies + 1);
	}
	return 0;
}

void wqt_irq_stop(void)
{
	int i;

	WRITE_ONCE(stop, true);
	for (i = 0; i < nr_sources; i++) {
		hrtimer_cancel(&sources[i].hard);
		timer_delete_sync(&sources[i].soft);
	}
	kfree(sources);
	sources = NULL;
	nr_sources = 0;
}
