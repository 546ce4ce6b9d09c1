// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting: flush_workqueue(), flush_work(), drain_workqueue() and destroy_workqueue().
 *
 * Each flusher is a thread of its own. If the thread sleeps, the flush waits. The stamp
 * that the thread takes on return shows what the flush waited for.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>

#include "wq_api.h"
#include "wq_compat.h"

#define FLUSHERS	8	/* each with a colour of its own */
#define MANY_FLUSHERS	34	/* more than there are colours */
#define FLUSH_ITEMS	48
#define STRESS_ROUNDS	25

struct flusher {
	struct workqueue_struct *wq;
	struct work_struct *work;	/* flush this item; if NULL, flush @wq */
	struct wq_api_ctx *ctx;
	struct wq_api_call *call;
	int back;			/* when the flush returned */
};

static int flusher_fn(void *arg)
{
	struct flusher *flusher = arg;
	int ret = 0;

	if (flusher->work)
		ret = flush_work(flusher->work);
	else
		__flush_workqueue(flusher->wq);
	flusher->back = wq_api_stamp(flusher->ctx);
	return ret;
}

static struct flusher *start_flusher(struct kunit *test, struct workqueue_struct *wq,
				     struct work_struct *work)
{
	struct flusher *flusher = wq_api_zalloc(test, sizeof(*flusher));

	flusher->wq = wq;
	flusher->work = work;
	flusher->ctx = test->priv;
	flusher->call = wq_api_call(test, -1, flusher_fn, flusher);
	return flusher;
}

static void run_flush(struct kunit *test, struct workqueue_struct *wq)
{
	wq_api_call_result(test, start_flusher(test, wq, NULL)->call);
}

/* Queue an item that may not end yet. */
static void queue_gated(struct kunit *test, struct workqueue_struct *wq,
			struct wq_api_item *item)
{
	item->gated = true;
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
}

/* "All items queued before the call have finished at return", for items on every CPU. */
static void flush_waits_for_all(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, FLUSH_ITEMS);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct flusher *flusher;
	int i, round;

	run_flush(test, wq);	/* the workqueue is empty */
	for (round = 1; round <= 3; round++) {
		for (i = 0; i < FLUSH_ITEMS; i++)
			KUNIT_EXPECT_TRUE(test, queue_work_on(wq_api_cpu(i), wq,
							      wq_api_work(&items[i])));
		flusher = start_flusher(test, wq, NULL);
		wq_api_call_result(test, flusher->call);
		for (i = 0; i < FLUSH_ITEMS; i++) {
			KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), round);
			KUNIT_EXPECT_LT(test, items[i].end, flusher->back);
		}
	}
}

/*
 * "Any number of flushers at once; items queued later do not delay it": flusher
 * k starts between the queueing of items k and k + 1. Fails if it returns before item k
 * has ended, or if it does not return while item k + 1 is still there.
 */
static void flushers_wait_for_their_own(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, FLUSHERS + 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct flusher *flushers[FLUSHERS];
	int i;

	for (i = 0; i < FLUSHERS; i++) {
		queue_gated(test, wq, &items[i]);
		flushers[i] = start_flusher(test, wq, NULL);
		wq_api_call_blocks(test, flushers[i]->call);
	}
	queue_gated(test, wq, &items[FLUSHERS]);
	for (i = 0; i < FLUSHERS; i++) {
		complete_all(&items[i].gate);
		wq_api_call_result(test, flushers[i]->call);
		KUNIT_EXPECT_LT(test, items[i].end, flushers[i]->back);
		KUNIT_EXPECT_EQ(test, items[i + 1].end, 0);
	}
}

/*
 * The same with more flushers than colours. Those that share a colour may wait
 * for a later item, but none may return early, hang, or get lost.
 */
static void more_flushers_than_colours(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, MANY_FLUSHERS);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct flusher *flushers[MANY_FLUSHERS];
	int i;

	BUILD_BUG_ON(MANY_FLUSHERS <= 2 * WORK_NR_COLORS);
	for (i = 0; i < MANY_FLUSHERS; i++) {
		queue_gated(test, wq, &items[i]);
		flushers[i] = start_flusher(test, wq, NULL);
		wq_api_call_blocks(test, flushers[i]->call);
	}
	for (i = 0; i < MANY_FLUSHERS; i++) {
		KUNIT_EXPECT_FALSE(test, completion_done(&flushers[i]->call->done));
		complete_all(&items[i].gate);
		wq_api_wait(test, &items[i].finished, "a released item ends");
	}
	for (i = 0; i < MANY_FLUSHERS; i++) {
		wq_api_call_result(test, flushers[i]->call);
		KUNIT_EXPECT_LT(test, items[i].end, flushers[i]->back);
	}
	/* all colours can be used again */
	for (i = 0; i < 2 * WORK_NR_COLORS; i++)
		run_flush(test, wq);
}

static void forever_body(struct wq_api_item *item)
{
	if (!READ_ONCE(item->arg))
		queue_work(item->wq, wq_api_work(item));
}

/* An item that keeps queueing itself must not hold up a flush for ever. */
static void flush_outruns_requeuer(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	int i;

	item->body = forever_body;
	item->wq = wq;
	queue_work(wq, wq_api_work(item));
	for (i = 0; i < 5; i++) {
		run_flush(test, wq);
		wq_api_call_result(test, start_flusher(test, wq, wq_api_work(item))->call);
	}
	WRITE_ONCE(item->arg, item);
	wq_api_until(test, !work_busy(wq_api_work(item)));
	KUNIT_EXPECT_FALSE(test, item->reentered);
}

struct flush_stress {
	struct workqueue_struct *wq;
	struct wq_api_item *items;
};

/*
 * If a thread queues an item and then flushes, the item has run. This is not so if the
 * thread found the item pending: another thread may still be queueing it.
 */
static int flush_stress_fn(void *arg)
{
	struct flush_stress *stress = arg;
	int i, before, bad = 0;
	bool queued;

	for (i = 0; i < STRESS_ROUNDS; i++) {
		struct wq_api_item *item = &stress->items[i % 7];

		before = atomic_read(&item->runs);
		queued = queue_work_on(wq_api_cpu(i), stress->wq, wq_api_work(item));
		if (i % 4)
			__flush_workqueue(stress->wq);
		else
			flush_work(wq_api_work(item));
		bad += queued && atomic_read(&item->runs) == before;
	}
	return bad;
}

/* Flushers and queuers on all CPUs: no flush returns before the item has run. */
static void flush_stress(struct kunit *test)
{
	struct flush_stress *stress = wq_api_zalloc(test, sizeof(*stress));
	struct wq_api_call *calls[4];
	int i;

	stress->items = wq_api_items(test, 7);
	stress->wq = wq_api_wq_kind(test);
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = wq_api_call(test, wq_api_cpu(i), flush_stress_fn, stress);
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		KUNIT_EXPECT_EQ(test, wq_api_call_result(test, calls[i]), 0);
	for (i = 0; i < 7; i++)
		KUNIT_EXPECT_FALSE(test, stress->items[i].reentered);
}

/*
 * "flush_work(): the last queueing has finished; true if it waited": idle,
 * pending, running.
 */
static void flush_work_says_if_it_waited(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	struct flusher *flushers[2], *idle;
	int cpu = wq_api_cpu(0), i;

	idle = start_flusher(test, wq, wq_api_work(&items[0]));
	KUNIT_EXPECT_FALSE(test, wq_api_call_result(test, idle->call));

	for (i = 0; i < 2; i++) {
		items[i].gated = true;
		queue_work_on(cpu, wq, wq_api_work(&items[i]));
	}
	wq_api_wait(test, &items[0].started, "the first item starts");
	for (i = 0; i < 2; i++) {	/* running; held back */
		flushers[i] = start_flusher(test, wq, wq_api_work(&items[i]));
		wq_api_call_blocks(test, flushers[i]->call);
	}
	for (i = 0; i < 2; i++) {
		complete_all(&items[i].gate);
		KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, flushers[i]->call));
		KUNIT_EXPECT_GT(test, flushers[i]->back, items[i].end);
	}
	/* the flush of the first did not wait for the second */
	KUNIT_EXPECT_LT(test, flushers[0]->back, items[1].end);
	idle = start_flusher(test, wq, wq_api_work(&items[0]));
	KUNIT_EXPECT_FALSE(test, wq_api_call_result(test, idle->call));
}

/*
 * An item runs and is queued again: a flush waits for the second run. It does not wait for
 * a third run, which is queued after the flush began.
 */
static void flush_work_waits_for_last_queueing(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct flusher *flusher;

	item->gated = true;
	queue_work(wq, wq_api_work(item));
	wq_api_wait(test, &item->started, "the item starts");
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
	flusher = start_flusher(test, wq, wq_api_work(item));
	wq_api_call_blocks(test, flusher->call);

	complete(&item->gate);		/* for the first run only */
	wq_api_wait(test, &item->started, "the second run starts");
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 2);
	KUNIT_EXPECT_FALSE(test, completion_done(&flusher->call->done));
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));

	complete(&item->gate);
	KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, flusher->call));
	wq_api_wait(test, &item->started, "the third run starts");
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 3);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->inside), 1);
	KUNIT_EXPECT_FALSE(test, item->reentered);
}

/* Have a worker look at each worklist that workqueues of this kind use. */
static void run_one_on_each_cpu(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;
	struct wq_api_item *items = wq_api_items(test, nr_cpu_ids);
	struct workqueue_struct *wq = kind->ordered ? wq_api_wq_kind(test) :
						      wq_api_wq(test, kind->flags, 0);
	int cpu;

	for_each_online_cpu(cpu)
		KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, wq_api_work(&items[cpu])));
	flush_workqueue(wq);
}

/*
 * The same, but the second queueing is cancelled: the flush still has to wait for the
 * run that was going on when the flush began.
 */
static void flush_work_waits_for_run_after_cancel(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;
	struct wq_api_item *item = wq_api_items(test, 1);
	/* a limit of 1 holds it back; else the worker would already have it and its barriers */
	struct workqueue_struct *wq = kind->ordered ? wq_api_wq_kind(test) :
						      wq_api_wq(test, kind->flags, 1);
	struct flusher *flushers[2];
	int i;

	wq_api_skip_on_base(test, "the base kernel returns early");

	queue_gated(test, wq, item);
	wq_api_wait(test, &item->started, "the item starts");
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
	for (i = 0; i < 2; i++) {
		flushers[i] = start_flusher(test, wq, wq_api_work(item));
		wq_api_call_blocks(test, flushers[i]->call);
	}
	KUNIT_EXPECT_TRUE(test, cancel_work(wq_api_work(item)));
	/* a flush that returns early needs a worker and a moment for that */
	run_one_on_each_cpu(test);
	msleep(20);
	for (i = 0; i < 2; i++)
		wq_api_call_blocks(test, flushers[i]->call);

	complete_all(&item->gate);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, flushers[i]->call));
		KUNIT_EXPECT_GT(test, flushers[i]->back, item->end);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* Several threads flush one pending item, and each of them waits. */
static void many_flush_one_item(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 1);
	struct flusher *flushers[FLUSHERS];
	int i;

	queue_gated(test, wq, &items[0]);
	wq_api_wait(test, &items[0].started, "the blocker starts");
	queue_gated(test, wq, &items[1]);
	for (i = 0; i < FLUSHERS; i++) {
		flushers[i] = start_flusher(test, wq, wq_api_work(&items[1]));
		wq_api_call_blocks(test, flushers[i]->call);
	}
	complete_all(&items[0].gate);
	wq_api_wait(test, &items[1].started, "the item starts");
	for (i = 0; i < FLUSHERS; i++)
		KUNIT_EXPECT_FALSE(test, completion_done(&flushers[i]->call->done));
	complete_all(&items[1].gate);
	for (i = 0; i < FLUSHERS; i++) {
		KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, flushers[i]->call));
		KUNIT_EXPECT_GT(test, flushers[i]->back, items[1].end);
	}
}

#define CHAIN	6

static void chain_body(struct wq_api_item *item)
{
	struct wq_api_item *next = item->arg;

	/* so slow that a flush of only the first few items returns before the last one */
	usleep_range(1000, 2000);
	if (next)
		queue_work(item->wq, wq_api_work(next));
}

static int drain_fn(void *wq)
{
	drain_workqueue(wq);
	return 0;
}

static struct wq_api_item *queue_chain(struct kunit *test, struct workqueue_struct *wq)
{
	struct wq_api_item *items = wq_api_items(test, CHAIN);
	int i;

	for (i = 0; i < CHAIN; i++) {
		items[i].body = chain_body;
		items[i].wq = wq;
		items[i].arg = i + 1 < CHAIN ? &items[i + 1] : NULL;
	}
	queue_work(wq, wq_api_work(&items[0]));
	return items;
}

/* "drain_workqueue(): empty, chained items included", with two drainers at once. */
static void drain_includes_chained(struct kunit *test)
{
	struct wq_api_item *blocker = wq_api_items(test, 1), *items;
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *drainers[2];
	int i;

	queue_gated(test, wq, blocker);
	items = queue_chain(test, wq);
	for (i = 0; i < 2; i++) {
		drainers[i] = wq_api_call(test, -1, drain_fn, wq);
		wq_api_call_blocks(test, drainers[i]);
	}
	complete_all(&blocker->gate);
	for (i = 0; i < 2; i++)
		wq_api_call_result(test, drainers[i]);
	for (i = 0; i < CHAIN; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), 1);
		KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[i])), 0);
	}
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(blocker)));
	run_flush(test, wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&blocker->runs), 2);
}

#define HOPS		8	/* drain_workqueue() complains after ten rounds */
#define HOP_DELAYS	10000
#define HOP_TIME	(5 * HZ)

/* Two items queue each other, each on a CPU of its own, while interrupts delay a drainer. */
struct hops {
	struct work_struct items[2];
	struct workqueue_struct *wq;
	struct hrtimer timer;
	int delays;
	int left;
};

static void hop(struct hops *hops, int to)
{
	queue_work_on(wq_api_cpu(to), hops->wq, &hops->items[to]);
}

static void hop_there_fn(struct work_struct *work)
{
	struct hops *hops = container_of(work, struct hops, items[0]);

	if (--hops->left)
		hop(hops, 1);
}

static void hop_back_fn(struct work_struct *work)
{
	struct hops *hops = container_of(work, struct hops, items[1]);

	if (--hops->left)
		hop(hops, 0);
}

static enum hrtimer_restart hops_delay(struct hrtimer *timer)
{
	struct hops *hops = container_of(timer, struct hops, timer);
	int left = hops->delays - 1;

	/* of all lengths, so as not to keep step with the chain */
	udelay(left % 41);
	hrtimer_forward_now(timer, ns_to_ktime((10 + left % 17) * NSEC_PER_USEC));
	WRITE_ONCE(hops->delays, left);
	return left ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static int hops_fn(void *arg)
{
	unsigned long end = jiffies + HOP_TIME;
	struct hops *hops = arg;
	int bad = 0;

	hops->delays = HOP_DELAYS;
	hrtimer_start(&hops->timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
	while (READ_ONCE(hops->delays) && time_before(jiffies, end)) {
		hops->left = HOPS;
		hop(hops, 0);
		drain_workqueue(hops->wq);
		if (!READ_ONCE(hops->left))
			continue;
		bad++;
		while (READ_ONCE(hops->left))
			usleep_range(10, 20);
		drain_workqueue(hops->wq);
	}
	hrtimer_cancel(&hops->timer);
	return bad;
}

/*
 * A chain that goes from pwq to pwq must not slip past a drainer, which looks at one pwq after
 * the other. The drainer runs on either CPU, since the order of the pwqs is not known.
 */
static void drain_follows_chain(struct kunit *test)
{
	struct hops *hops = wq_api_zalloc(test, sizeof(*hops));
	int i;

	wq_api_skip_on_base(test, "the base kernel returns early");
	INIT_WORK(&hops->items[0], hop_there_fn);
	INIT_WORK(&hops->items[1], hop_back_fn);
	hrtimer_setup(&hops->timer, hops_delay, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; i < 4; i++) {
		struct wq_api_call *call;

		hops->wq = wq_api_wq(test, i / 2 ? WQ_UNBOUND : WQ_PERCPU, 0);
		call = wq_api_call(test, wq_api_cpu(i % 2), hops_fn, hops);
		KUNIT_EXPECT_EQ(test, wq_api_call_result(test, call), 0);
	}
}

/* "destroy_workqueue() drains first": items of every kind, chained and held back. */
static void destroy_drains(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_item *items = NULL, *more = wq_api_items(test, FLUSH_ITEMS);
	int i;

	/* a BH item cannot chain: in softirq, the caller is not known to be an item */
	if (!(kind->flags & WQ_BH))
		items = queue_chain(test, wq);
	for (i = 0; i < FLUSH_ITEMS; i++)
		queue_work_on(wq_api_cpu(i), wq, wq_api_work(&more[i]));
	wq_api_destroy(test, wq);
	for (i = 0; items && i < CHAIN; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), 1);
	for (i = 0; i < FLUSH_ITEMS; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&more[i].runs), 1);
}

/* Create and destroy many workqueues, used or not. */
static void create_and_destroy(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq;
	int i;

	for (i = 1; i <= 4; i++) {
		wq = wq_api_wq_kind(test);
		wq_api_destroy(test, wq);
		wq = wq_api_wq_kind(test);
		queue_work(wq, wq_api_work(item));
		wq_api_destroy(test, wq);
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i);
	}
}

/*
 * An item may flush another workqueue, or another item of its own workqueue if that
 * allows more than one item at a time.
 */
struct nested {
	struct work_struct outer, inner;
	struct workqueue_struct *inner_wq;
	struct completion done;
	bool inner_ran;
	bool waited;
	bool ran_in_time;
};

static void inner_fn(struct work_struct *work)
{
	struct nested *nested = container_of(work, struct nested, inner);

	usleep_range(100, 200);
	WRITE_ONCE(nested->inner_ran, true);
}

static void outer_fn(struct work_struct *work)
{
	struct nested *nested = container_of(work, struct nested, outer);

	queue_work(nested->inner_wq, &nested->inner);
	flush_work(&nested->inner);
	nested->ran_in_time = READ_ONCE(nested->inner_ran);
	complete(&nested->done);
}

static void flush_inside_an_item(struct kunit *test)
{
	struct nested *nested = wq_api_zalloc(test, sizeof(*nested));
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);

	INIT_WORK(&nested->outer, outer_fn);
	INIT_WORK(&nested->inner, inner_fn);
	init_completion(&nested->done);
	nested->inner_wq = wq;
	queue_work(wq, &nested->outer);
	wq_api_wait(test, &nested->done, "an item flushes another of its workqueue");
	KUNIT_EXPECT_TRUE(test, nested->ran_in_time);

	nested->inner_wq = wq_api_wq(test, WQ_UNBOUND, 1);
	nested->inner_ran = false;
	queue_work(wq, &nested->outer);
	wq_api_wait(test, &nested->done, "an item flushes one of another workqueue");
	KUNIT_EXPECT_TRUE(test, nested->ran_in_time);
}

/*
 * "And a WQ_MEM_RECLAIM item waiting for one that is not": must cause a warning, here
 * because a reclaim worker waits. There is none the other way round.
 */
struct reclaim_probe {
	struct work_struct outer, inner;
	struct workqueue_struct *inner_wq;
	struct kunit *test;
	struct completion done;
	int warnings;
	bool is_reclaim;
};

static void quick_fn(struct work_struct *work)
{
	usleep_range(1000, 1100);
}

static void reclaim_fn(struct work_struct *work)
{
	struct reclaim_probe *probe = container_of(work, struct reclaim_probe, outer);

	probe->is_reclaim = current_is_workqueue_mem_reclaim();
	kunit_warning_suppress(probe->test) {
		queue_work(probe->inner_wq, &probe->inner);
		flush_work(&probe->inner);
		probe->warnings = KUNIT_SUPPRESSED_WARNING_COUNT();
	}
	complete(&probe->done);
}

static void reclaim_dependency_is_reported(struct kunit *test)
{
	struct reclaim_probe *probe = wq_api_zalloc(test, sizeof(*probe));
	struct workqueue_struct *reclaim = wq_api_wq(test, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct workqueue_struct *reclaim2 = wq_api_wq(test, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct workqueue_struct *other = wq_api_wq(test, WQ_UNBOUND, 0);

	INIT_WORK(&probe->inner, quick_fn);
	init_completion(&probe->done);
	probe->test = test;
	KUNIT_EXPECT_FALSE(test, current_is_workqueue_mem_reclaim());

	/* each INIT_WORK() is a class: to lockdep, one class on both workqueues is a cycle */
	INIT_WORK(&probe->outer, reclaim_fn);
	probe->inner_wq = reclaim2;
	queue_work(reclaim, &probe->outer);
	wq_api_wait(test, &probe->done, "a reclaim item flushes a reclaim item");
	KUNIT_EXPECT_TRUE(test, probe->is_reclaim);
	KUNIT_EXPECT_EQ(test, probe->warnings, 0);
	flush_work(&probe->outer);

	INIT_WORK(&probe->outer, reclaim_fn);
	probe->inner_wq = reclaim;
	queue_work(other, &probe->outer);
	wq_api_wait(test, &probe->done, "another item flushes a reclaim item");
	KUNIT_EXPECT_FALSE(test, probe->is_reclaim);
	KUNIT_EXPECT_EQ(test, probe->warnings, 0);
	flush_work(&probe->outer);

	INIT_WORK(&probe->outer, reclaim_fn);
	probe->inner_wq = other;
	queue_work(reclaim, &probe->outer);
	wq_api_wait(test, &probe->done, "a reclaim item flushes another item");
	wq_api_expect_warn_once(test, probe->warnings, 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(flush_waits_for_all, wq_api_all_kinds),
	KUNIT_CASE_PARAM(flushers_wait_for_their_own, wq_api_few_kinds),
	KUNIT_CASE_PARAM(more_flushers_than_colours, wq_api_few_kinds),
	KUNIT_CASE_PARAM(flush_outruns_requeuer, wq_api_all_kinds),
	KUNIT_CASE_PARAM(flush_stress, wq_api_all_kinds),
	KUNIT_CASE(flush_work_says_if_it_waited),
	KUNIT_CASE_PARAM(flush_work_waits_for_last_queueing, wq_api_thread_kinds),
	KUNIT_CASE_PARAM(flush_work_waits_for_run_after_cancel, wq_api_thread_kinds),
	KUNIT_CASE(many_flush_one_item),
	KUNIT_CASE_PARAM(drain_includes_chained, wq_api_few_kinds),
	KUNIT_CASE_SLOW(drain_follows_chain),
	KUNIT_CASE_PARAM(destroy_drains, wq_api_all_kinds),
	KUNIT_CASE_PARAM(create_and_destroy, wq_api_all_kinds),
	KUNIT_CASE(flush_inside_an_item),
	KUNIT_CASE(reclaim_dependency_is_reported),
	{}
};

struct kunit_suite wq_api_flush_suite = {
	.name = "wq_api_flush",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
