// SPDX-License-Identifier: GPL-2.0
/*
 * Items that max_active holds back while nothing moves.
 *
 * If all items that may run wait for one that is held back, they wait for ever.  No pool is
 * stuck then: its worklist is empty, and its workers sleep.  So with each look at the pools, the
 * watchdog also looks for limits that hold items back.  It reports a limit if all items under it
 * have slept for workqueue.watchdog_thresh seconds without a break, as nobody does who works,
 * polls or waits for a device again and again.  An unbound workqueue has a limit for each node,
 * which several pwqs share, and a per-CPU one has a limit for each pwq.
 *
 * What is reported may be legal, since a single sleep may take longer than the threshold.  So
 * there is no panic, and the report comes once, until something moves.
 */
#include <linux/nmi.h>
#include <linux/sched/debug.h>

#include "active.h"
#include "flush.h"
#include "workqueues.h"

/* a report shows no more stacks than this: max_active may be in the thousands */
#define HELD_MOST_STACKS	8

static struct wq_held_watch *pwq_held_watch(struct pool_workqueue *pwq)
{
	return pwq->slots ? &pwq->slots->watch : &pwq->watch;
}

/*
 * Two pwqs of one workqueue.  If the attributes of an ordered one have changed, its pwqs may use
 * slots of different nodes, and yet the newer one waits for the items of the older one.
 */
static bool share_limit(struct pool_workqueue *a, struct pool_workqueue *b)
{
	return wq_is_ordered(READ_ONCE(a->wq->flags)) || pwq_held_watch(a) == pwq_held_watch(b);
}

/* how often the workers that run items of @pwq have left a CPU; L */
static unsigned long pwq_nr_switches(struct pool_workqueue *pwq)
{
	struct worker *worker;
	unsigned long nr = 0;
	int bkt;

	hash_for_each(pwq->pool->busy_hash, bkt, worker, hentry)
		if (worker->current_pwq == pwq)
			/* the scheduler counts without L: what this misses, the next look finds */
			nr += data_race(worker->task->nvcsw + worker->task->nivcsw);
	return nr;
}

/* this changes if an item under the limit of @pwq starts, finishes, or sleeps once more */
static unsigned long limit_nr_moves(struct pool_workqueue *pwq)
{
	struct pool_workqueue *other;
	unsigned long nr = 0;

	for_each_pwq(other, pwq->wq) {
		if (!share_limit(other, pwq))
			continue;
		guard(raw_spinlock_irqsave)(&other->pool->lock);
		nr += other->stats[PWQ_STAT_STARTED] + other->stats[PWQ_STAT_COMPLETED] +
		      pwq_nr_switches(other);
	}
	return nr;
}

/*
 * The items of @pwq that sleep in a worker, or that a sleeping worker will run after what it runs
 * now; L
 */
static int pwq_nr_asleep(struct pool_workqueue *pwq)
{
	struct work_struct *work;
	struct worker *worker;
	int bkt, nr = 0;

	hash_for_each(pwq->pool->busy_hash, bkt, worker, hentry) {
		if (task_is_running(worker->task))
			continue;
		if (worker->current_pwq == pwq && worker->current_func != wq_barrier_func)
			nr++;
		list_for_each_entry(work, &worker->scheduled, entry)
			if (get_work_pwq(work) == pwq && work->func != wq_barrier_func)
				nr++;
	}
	return nr;
}

/*
 * Does an item that the limit of @pwq allows to run compute, or wait for a CPU or a worker?  Then
 * the limit is not to blame.  If the pool gets stuck, that is reported.
 */
static bool limit_lets_move(struct pool_workqueue *pwq)
{
	struct pool_workqueue *other;

	for_each_pwq(other, pwq->wq) {
		if (!share_limit(other, pwq))
			continue;
		guard(raw_spinlock_irqsave)(&other->pool->lock);
		if (pwq_nr_asleep(other) < other->nr_active)
			return true;
	}
	return false;
}

/* show what the workers do that run items of @pwq, but at most @left; return how many are left */
static int show_stacks(struct pool_workqueue *pwq, int left)
{
	struct worker *worker;
	int bkt;

	guard(raw_spinlock_irqsave)(&pwq->pool->lock);
	/* for the same reason as in report.c */
	guard(printk_deferred)();
	hash_for_each(pwq->pool->busy_hash, bkt, worker, hentry) {
		if (worker->current_pwq != pwq || !left)
			continue;
		sched_show_task(worker->task);
		left--;
	}
	return left;
}

static void report_held(struct pool_workqueue *pwq, unsigned int secs)
{
	struct pool_workqueue *other;
	int left = HELD_MOST_STACKS;

	pr_warn("workqueue %s: max_active holds items back, and none has started or finished for %us\n",
		pwq->wq->name, secs);
	show_one_workqueue(pwq->wq);
	pr_info("Showing backtraces of workers that run its items:\n");
	for_each_pwq(other, pwq->wq) {
		if (share_limit(other, pwq))
			left = show_stacks(other, left);
		touch_nmi_watchdog();
	}
}

/*
 * @pwq holds items back.  If this is the first of the looks in a row that find its limit so, or
 * if something has moved since the last one, start to count.  Return the jiffies since then.
 */
static unsigned long limit_still_for(struct pool_workqueue *pwq, struct wq_held_watch *watch,
				     const struct wq_look *look)
{
	unsigned long moves = limit_nr_moves(pwq);

	if (look->now - watch->looked > look->period || moves != watch->moves) {
		watch->moves = moves;
		watch->since = look->now;
		watch->reported = false;
	}
	watch->looked = look->now;
	return look->now - watch->since;
}

/* return true if the limit of @pwq, which holds items back, may have to be reported later */
static bool look_at_held(struct pool_workqueue *pwq, const struct wq_look *look)
{
	struct wq_held_watch *watch = pwq_held_watch(pwq);
	unsigned long still;

	/* another pwq with this limit was looked at */
	if (watch->looked == look->now)
		return !watch->reported;
	still = limit_still_for(pwq, watch, look);
	if (watch->reported)
		return false;
	if (still <= look->thresh || limit_lets_move(pwq))
		return true;
	watch->reported = true;
	report_held(pwq, jiffies_to_msecs(still) / MSEC_PER_SEC);
	return false;
}

bool wq_look_for_held(const struct wq_look *look)
{
	struct workqueue_struct *wq;
	struct pool_workqueue *pwq;
	bool held = false;

	guard(rcu)();

	list_for_each_entry_rcu(wq, &workqueues, list) {
		/* a frozen workqueue has to stand still */
		if (!READ_ONCE(wq->max_active))
			continue;
		for_each_pwq(pwq, wq) {
			/* a plugged own pwq waits for its marker, which no limit holds back */
			if (pwq_waits_for_marker(pwq))
				continue;
			if (!list_empty(&pwq->inactive_works))
				held |= look_at_held(pwq, look);
		}
	}
	return held;
}
