// SPDX-License-Identifier: GPL-2.0
/*
 * Cancelling work, and keeping it from being queued: cancel_*(), disable_*() and
 * enable_*().
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/irq_work.h>
#include <linux/slab.h>
#include <linux/umh.h>

#include "wq_api.h"

#define CANCEL_ROUNDS	60
#define QUEUERS		3
#define DEPTH		20

static int cancel_sync_fn(void *work)
{
	return cancel_work_sync(work);
}

static int disable_sync_fn(void *work)
{
	return disable_work_sync(work);
}

static int disable_delayed_sync_fn(void *dwork)
{
	return disable_delayed_work_sync(dwork);
}

/* A workqueue that does nothing until the gate of @blocker is opened. */
static struct workqueue_struct *blocked_wq(struct kunit *test,
					   struct wq_api_item *blocker,
					   unsigned int flags)
{
	struct workqueue_struct *wq = wq_api_wq(test, flags, 1);

	blocker->gated = true;
	queue_work_on(wq_api_cpu(0), wq, wq_api_work(blocker));
	wq_api_wait(test, &blocker->started, "the blocker starts");
	return wq;
}

/*
 * "cancel_work[_sync](): true if it was pending": idle, pending and running items. Fails
 * on a wrong return value, or if a cancelled item runs.
 */
static void cancel_returns(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = blocked_wq(test, &items[0], WQ_PERCPU);
	struct work_struct *work = wq_api_work(&items[1]);
	int cpu = wq_api_cpu(0);

	KUNIT_EXPECT_FALSE(test, cancel_work(work));
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(work));
	queue_work_on(cpu, wq, work);
	KUNIT_EXPECT_TRUE(test, cancel_work(work));
	KUNIT_EXPECT_FALSE(test, work_pending(work));
	KUNIT_EXPECT_FALSE(test, cancel_work(work));
	KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, work));
	KUNIT_EXPECT_TRUE(test, cancel_work_sync(work));

	/* running: not pending, until it is queued again */
	KUNIT_EXPECT_FALSE(test, cancel_work(wq_api_work(&items[0])));
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	KUNIT_EXPECT_TRUE(test, cancel_work(wq_api_work(&items[0])));
	complete_all(&items[0].gate);
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(wq_api_work(&items[0])));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
}

/* An item that max_active holds back can be cancelled without upsetting it. */
static void cancel_held_back(struct kunit *test)
{
	static const unsigned int flags[] = { WQ_PERCPU, WQ_UNBOUND };
	struct workqueue_struct *wq;
	struct wq_api_item *items;
	int i, n;

	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		items = wq_api_items(test, 8);
		wq = blocked_wq(test, &items[0], flags[n]);
		for (i = 1; i < 8; i++)
			queue_work_on(wq_api_cpu(0), wq, wq_api_work(&items[i]));
		for (i = 1; i < 8; i += 2)
			KUNIT_EXPECT_TRUE(test, cancel_work_sync(wq_api_work(&items[i])));
		complete_all(&items[0].gate);
		wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, wq));
		for (i = 1; i < 8; i++)
			KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), !(i & 1));
	}
}

/*
 * Cancelling hands the item's slot to the next item, which then needs a worker: fails if
 * all workers stay asleep. The cancelled item is not on the pool's list: it waits for the
 * worker that is in its function. So no worker was woken for it. The case uses the
 * highpri pool, where nothing else comes by and wakes a worker.
 */
static void cancel_wakes_successor(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 3);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU | WQ_HIGHPRI, 2);
	struct workqueue_struct *other = wq_api_wq(test, WQ_PERCPU | WQ_HIGHPRI, 0);
	int cpu = wq_api_cpu(0);

	wq_api_skip_on_base(test, "the base kernel stalls here");

	items[0].gated = true;
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the first run starts");
	KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, wq_api_work(&items[0])));

	/* when the pool runs this, it has dealt with the item above */
	queue_work_on(cpu, other, wq_api_work(&items[1]));
	wq_api_wait(test, &items[1].finished, "the pool comes to another item");

	/* both slots are taken: held back */
	queue_work_on(cpu, wq, wq_api_work(&items[2]));
	KUNIT_EXPECT_TRUE(test, cancel_work(wq_api_work(&items[0])));
	wq_api_wait(test, &items[2].started, "the successor starts");
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].inside), 1);
}

/*
 * Write the mask of CPUs for unbound work, which moves every unbound workqueue. A shell
 * does it, since kernel threads do not see the mounts of user space.
 */
static void set_unbound_cpus(struct kunit *test, const struct cpumask *cpus)
{
	char *argv[4] = { }, *envp[2] = { };
	int ret = -ENOMEM;

	envp[0] = "PATH=/bin:/sbin:/usr/bin";
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = kasprintf(GFP_KERNEL, "echo %*pb >/sys/devices/virtual/workqueue/cpumask",
			    cpumask_pr_args(cpus));
	if (argv[2])
		ret = call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC);
	kfree(argv[2]);
	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "/bin/sh could not write the cpumask");
}

/*
 * An ordered item that was queued again after its workqueue had moved to other pools: it
 * waits on one pool and runs on another, until its gate is opened.
 */
static struct wq_api_item *item_on_two_pools(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND | __WQ_ORDERED, 1);
	struct work_struct *work = wq_api_work(item);

	if (num_online_cpus() < 2)
		kunit_skip(test, "one CPU is one pool");

	item->gated = true;
	queue_work(wq, work);
	wq_api_wait(test, &item->started, "the item starts");

	set_unbound_cpus(test, cpumask_of(wq_api_cpu(0)));
	KUNIT_EXPECT_TRUE(test, queue_work(wq, work));
	set_unbound_cpus(test, cpu_possible_mask);
	return item;
}

/*
 * "After _sync it is neither pending nor running", even if the item is on two pools.
 * Fails if the run is overlooked.
 */
static void cancel_sync_finds_older_run(struct kunit *test)
{
	struct wq_api_call *canceller;
	struct wq_api_item *item;

	wq_api_skip_on_base(test, "the base kernel overlooks it");

	item = item_on_two_pools(test);
	canceller = wq_api_call(test, -1, cancel_sync_fn, wq_api_work(item));
	wq_api_call_blocks(test, canceller);
	complete_all(&item->gate);
	KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, canceller));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->inside), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

#ifdef CONFIG_WORKQUEUE_CMWQ
/* How many workers run the item after the flush; negative if there was nothing to flush. */
static int flush_and_look_fn(void *item)
{
	if (!flush_work(wq_api_work(item)))
		return -ENOENT;
	return atomic_read(&((struct wq_api_item *)item)->inside);
}

/*
 * "flush_work(): the last queueing has finished", and no older run is left. The item is on
 * two pools, and the later queueing is cancelled during the flush. Fails if the flush
 * then returns before the older run has ended, as in the base kernel.
 */
static void flush_finds_older_run(struct kunit *test)
{
	struct wq_api_call *flusher;
	struct wq_api_item *item;

	item = item_on_two_pools(test);
	flusher = wq_api_call(test, -1, flush_and_look_fn, item);
	wq_api_call_blocks(test, flusher);
	KUNIT_EXPECT_TRUE(test, cancel_work(wq_api_work(item)));
	/* give the flush time to return too early */
	msleep(100);
	complete_all(&item->gate);
	KUNIT_EXPECT_EQ(test, wq_api_call_result(test, flusher), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}
#endif

/* A flusher does not wait for ever if somebody cancels the item meanwhile. */
static void cancel_lets_flusher_go(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = blocked_wq(test, &items[0], WQ_PERCPU);
	struct work_struct *work = wq_api_work(&items[1]);
	struct wq_api_call *flusher;

	queue_work_on(wq_api_cpu(0), wq, work);
	flusher = wq_api_call(test, -1, wq_api_flush_work_fn, work);
	wq_api_call_blocks(test, flusher);
	KUNIT_EXPECT_TRUE(test, cancel_work(work));
	complete_all(&items[0].gate);
	wq_api_call_result(test, flusher);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
}

/* "After _sync it is not running": the call waits for the function. */
static void cancel_sync_waits(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *canceller;

	item->gated = true;
	queue_work(wq, wq_api_work(item));
	wq_api_wait(test, &item->started, "the item starts");
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
	canceller = wq_api_call(test, -1, cancel_sync_fn, wq_api_work(item));
	wq_api_call_blocks(test, canceller);
	/* queueing is refused while the call waits, or it might never end */
	KUNIT_EXPECT_FALSE(test, queue_work(wq, wq_api_work(item)));
	complete_all(&item->gate);
	KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, canceller));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->inside), 0);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 2);
}

struct siege {
	struct work_struct work;
	struct delayed_work dwork;
	struct workqueue_struct *wq;
	atomic_t inside;
	atomic_t runs;
	bool delayed;
	bool quiet;		/* the item no longer queues itself */
	bool stop;
	int bad;
};

static void siege_run(struct siege *siege)
{
	atomic_inc(&siege->inside);
	atomic_inc(&siege->runs);
	wq_api_burn(2);
	atomic_dec(&siege->inside);
}

/* The item queues itself, too; cancelling has to overcome that as well. */
static void siege_fn(struct work_struct *work)
{
	struct siege *siege = container_of(work, struct siege, work);

	siege_run(siege);
	if (!READ_ONCE(siege->quiet))
		queue_work(siege->wq, work);
}

static void siege_delayed_fn(struct work_struct *work)
{
	struct siege *siege = container_of(to_delayed_work(work), struct siege, dwork);

	siege_run(siege);
	if (!READ_ONCE(siege->quiet))
		queue_delayed_work(siege->wq, &siege->dwork, 0);
}

static int queuer_fn(void *arg)
{
	struct siege *siege = arg;
	unsigned int i;

	for (i = 0; !READ_ONCE(siege->stop); i++) {
		if (!siege->delayed)
			queue_work_on(wq_api_cpu(i), siege->wq, &siege->work);
		else if (i % 2)
			queue_delayed_work(siege->wq, &siege->dwork, i % 3);
		else
			mod_delayed_work(siege->wq, &siege->dwork, i % 3);
		if (i % 8 == 0)
			usleep_range(1, 20);
		cond_resched();
	}
	return 0;
}

static int besieged_disable(struct siege *siege)
{
	int runs;

	if (siege->delayed)
		disable_delayed_work_sync(&siege->dwork);
	else
		disable_work_sync(&siege->work);
	/*
	 * While the item is disabled, it does not run, though the queuers go on.
	 * (It may look pending while one of them is about to be refused.)
	 */
	runs = atomic_read(&siege->runs);
	if (atomic_read(&siege->inside))
		siege->bad++;
	usleep_range(20, 50);
	if (atomic_read(&siege->inside) || atomic_read(&siege->runs) != runs)
		siege->bad++;
	if (siege->delayed)
		return enable_delayed_work(&siege->dwork);
	return enable_work(&siege->work);
}

static int besieged_fn(void *arg)
{
	struct siege *siege = arg;
	int i;

	for (i = 0; i < CANCEL_ROUNDS; i++) {
		if (i % 2) {
			if (!besieged_disable(siege))
				siege->bad++;
		} else if (siege->delayed) {
			cancel_delayed_work_sync(&siege->dwork);
		} else {
			cancel_work_sync(&siege->work);
		}
	}
	return 0;
}

/*
 * "However hard others queue it": cancelling and disabling come to an end, and a
 * disabled item does not run, while threads and the item itself queue it. Then the
 * queuers stop, and after one more cancel nothing runs.
 */
static void siege(struct kunit *test, bool delayed)
{
	struct siege *siege = wq_api_zalloc(test, sizeof(*siege));
	struct wq_api_call *queuers[QUEUERS], *besieged;
	int i;

	siege->wq = wq_api_wq_kind(test);
	siege->delayed = delayed;
	INIT_WORK(&siege->work, siege_fn);
	INIT_DELAYED_WORK(&siege->dwork, siege_delayed_fn);
	wq_api_set_class(test, &siege->work);
	wq_api_set_class(test, &siege->dwork.work);
	for (i = 0; i < QUEUERS; i++)
		queuers[i] = wq_api_call(test, wq_api_cpu(i), queuer_fn, siege);
	besieged = wq_api_call(test, -1, besieged_fn, siege);
	wait_for_completion_timeout(&besieged->done, WQ_API_TIMEOUT);
	WRITE_ONCE(siege->stop, true);
	for (i = 0; i < QUEUERS; i++)
		wq_api_call_result(test, queuers[i]);
	WRITE_ONCE(siege->quiet, true);
	KUNIT_EXPECT_TRUE_MSG(test, completion_done(&besieged->done),
			      "queuers can starve a cancel");
	wq_api_call_result(test, besieged);
	KUNIT_EXPECT_EQ(test, siege->bad, 0);
	cancel_work_sync(&siege->work);
	cancel_delayed_work_sync(&siege->dwork);
	KUNIT_EXPECT_EQ(test, atomic_read(&siege->inside), 0);
	KUNIT_EXPECT_EQ(test, work_busy(&siege->work), 0);
	KUNIT_EXPECT_EQ(test, work_busy(&siege->dwork.work), 0);
}

static void cancel_beats_queuers(struct kunit *test)
{
	siege(test, false);
}

static void cancel_delayed_beats_queuers(struct kunit *test)
{
	siege(test, true);
}

struct cancel_race {
	struct work_struct *work;
	atomic_t cancelled;
};

static int cancel_race_fn(void *arg)
{
	struct cancel_race *race = arg;

	if (cancel_work_sync(race->work))
		atomic_inc(&race->cancelled);
	return 0;
}

/* If several threads cancel one pending item, all return and one of them gets true. */
static void one_canceller_wins(struct kunit *test)
{
	struct cancel_race *race = wq_api_zalloc(test, sizeof(*race));
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = blocked_wq(test, &items[0], WQ_UNBOUND);
	struct wq_api_call *calls[4];
	int i, round;

	race->work = wq_api_work(&items[1]);
	for (round = 1; round <= 10; round++) {
		/* on the node whose only slot is taken */
		queue_work_on(wq_api_cpu(0), wq, race->work);
		for (i = 0; i < ARRAY_SIZE(calls); i++)
			calls[i] = wq_api_call(test, wq_api_cpu(i), cancel_race_fn, race);
		for (i = 0; i < ARRAY_SIZE(calls); i++)
			wq_api_call_result(test, calls[i]);
		KUNIT_EXPECT_EQ(test, atomic_read(&race->cancelled), round);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
}

/*
 * "disable_*()/enable_*() nest; a disabled item refuses queueing": fails if queueing is
 * possible before the last enable, or not possible after it, or if a refused item runs.
 */
static void disable_nests(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct work_struct *work = wq_api_work(item);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	int i;

	for (i = 0; i < DEPTH; i++) {
		KUNIT_EXPECT_FALSE(test, i % 2 ? disable_work(work) :
						 disable_work_sync(work));
		KUNIT_EXPECT_FALSE(test, queue_work(wq, work));
		KUNIT_EXPECT_FALSE(test, work_pending(work));
	}
	for (i = 1; i < DEPTH; i++) {
		KUNIT_EXPECT_FALSE(test, enable_work(work));
		KUNIT_EXPECT_FALSE(test, queue_work_on(wq_api_cpu(i), wq, work));
	}
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(work));
	KUNIT_EXPECT_FALSE(test, flush_work(work));
	KUNIT_EXPECT_TRUE(test, enable_work(work));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 0);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, work));
	flush_work(work);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* enable_and_queue_work() queues at depth 0 only. */
static void enable_and_queue(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct work_struct *work = wq_api_work(item);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	disable_work(work);
	disable_work(work);
	KUNIT_EXPECT_FALSE(test, enable_and_queue_work(wq, work));
	KUNIT_EXPECT_FALSE(test, work_pending(work));
	KUNIT_EXPECT_TRUE(test, enable_and_queue_work(wq, work));
	flush_work(work);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* Disabling cancels a pending item and returns true; _sync waits for a running one. */
static void disable_cancels(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = blocked_wq(test, &items[0], WQ_PERCPU);
	struct work_struct *work = wq_api_work(&items[1]);
	struct wq_api_call *disabler;
	int cpu = wq_api_cpu(0);

	queue_work_on(cpu, wq, work);
	KUNIT_EXPECT_TRUE(test, disable_work(work));
	KUNIT_EXPECT_FALSE(test, work_pending(work));
	KUNIT_EXPECT_TRUE(test, enable_work(work));
	queue_work_on(cpu, wq, work);
	KUNIT_EXPECT_TRUE(test, disable_work_sync(work));

	/* a running item: disable_work() does not wait, disable_work_sync() does */
	KUNIT_EXPECT_FALSE(test, disable_work(wq_api_work(&items[0])));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].inside), 1);
	disabler = wq_api_call(test, -1, disable_sync_fn, wq_api_work(&items[0]));
	wq_api_call_blocks(test, disabler);
	complete_all(&items[0].gate);
	KUNIT_EXPECT_FALSE(test, wq_api_call_result(test, disabler));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].inside), 0);
	KUNIT_EXPECT_FALSE(test, enable_work(wq_api_work(&items[0])));
	KUNIT_EXPECT_TRUE(test, enable_work(wq_api_work(&items[0])));
	KUNIT_EXPECT_TRUE(test, enable_work(work));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
}

/* The depth counter does not go below zero: enable_work() warns, and the item stays usable. */
static void enable_underflow(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);

	kunit_warning_suppress(test) {
		KUNIT_EXPECT_TRUE(test, enable_work(wq_api_work(item)));
		wq_api_expect_warn_once(test, KUNIT_SUPPRESSED_WARNING_COUNT(), 1);
	}
	KUNIT_EXPECT_FALSE(test, disable_work(wq_api_work(item)));
	KUNIT_EXPECT_FALSE(test, queue_work(wq, wq_api_work(item)));
	KUNIT_EXPECT_TRUE(test, enable_and_queue_work(wq, wq_api_work(item)));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* Delayed items: the timer is cancelled, and none is started while disabled. */
static void disable_delayed(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct delayed_work *dwork = &item->dwork;
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	queue_delayed_work(wq, dwork, WQ_API_NEVER);
	KUNIT_EXPECT_TRUE(test, disable_delayed_work(dwork));
	KUNIT_EXPECT_FALSE(test, timer_pending(&dwork->timer));
	KUNIT_EXPECT_FALSE(test, queue_delayed_work(wq, dwork, 0));
	KUNIT_EXPECT_FALSE(test, queue_delayed_work(wq, dwork, 1));
	KUNIT_EXPECT_FALSE(test, mod_delayed_work(wq, dwork, 1));
	KUNIT_EXPECT_FALSE(test, mod_delayed_work(wq, dwork, 0));
	KUNIT_EXPECT_FALSE(test, timer_pending(&dwork->timer));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(dwork));
	KUNIT_EXPECT_FALSE(test, flush_delayed_work(dwork));
	KUNIT_EXPECT_FALSE(test, disable_delayed_work_sync(dwork));
	KUNIT_EXPECT_FALSE(test, enable_delayed_work(dwork));
	KUNIT_EXPECT_TRUE(test, enable_delayed_work(dwork));

	queue_delayed_work(wq, dwork, WQ_API_NEVER);
	KUNIT_EXPECT_TRUE(test, disable_delayed_work_sync(dwork));
	KUNIT_EXPECT_TRUE(test, enable_delayed_work(dwork));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 0);
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, dwork, 1));
	KUNIT_EXPECT_TRUE(test, flush_delayed_work(dwork) ||
			  atomic_read(&item->runs));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* The same while the item runs: _sync waits, and queueing is refused meanwhile. */
static void disable_delayed_running(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *disabler;

	item->gated = true;
	queue_delayed_work(wq, &item->dwork, 0);
	wq_api_wait(test, &item->started, "the item starts");
	queue_delayed_work(wq, &item->dwork, WQ_API_NEVER);
	disabler = wq_api_call(test, -1, disable_delayed_sync_fn, &item->dwork);
	wq_api_call_blocks(test, disabler);
	KUNIT_EXPECT_FALSE(test, timer_pending(&item->dwork.timer));
	KUNIT_EXPECT_FALSE(test, queue_delayed_work(wq, &item->dwork, 0));
	complete_all(&item->gate);
	KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, disabler));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->inside), 0);
	KUNIT_EXPECT_TRUE(test, enable_delayed_work(&item->dwork));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

struct irq_probe {
	struct irq_work irq_work;
	struct work_struct *work;
	struct workqueue_struct *wq;
	struct completion done;
	bool queued, again, cancelled, disabled, refused, enabled, last;
};

static void irq_probe_fn(struct irq_work *work)
{
	struct irq_probe *probe = container_of(work, struct irq_probe, irq_work);

	probe->queued = queue_work_on(wq_api_cpu(0), probe->wq, probe->work);
	probe->again = queue_work_on(wq_api_cpu(0), probe->wq, probe->work);
	probe->cancelled = cancel_work(probe->work);
	queue_work_on(wq_api_cpu(0), probe->wq, probe->work);
	probe->disabled = disable_work(probe->work);
	probe->refused = !queue_work_on(wq_api_cpu(0), probe->wq, probe->work);
	probe->enabled = enable_work(probe->work);
	probe->last = queue_work_on(wq_api_cpu(0), probe->wq, probe->work);
	complete(&probe->done);
}

/* Queue, cancel, disable and enable an item, all from a hard interrupt. */
static void everything_from_hardirq(struct kunit *test)
{
	struct irq_probe *probe = wq_api_zalloc(test, sizeof(*probe));
	struct wq_api_item *items = wq_api_items(test, 2);

	probe->wq = blocked_wq(test, &items[0], WQ_PERCPU);
	probe->work = wq_api_work(&items[1]);
	init_completion(&probe->done);
	probe->irq_work = IRQ_WORK_INIT_HARD(irq_probe_fn);
	irq_work_queue(&probe->irq_work);
	wq_api_wait(test, &probe->done, "the irq_work runs");
	irq_work_sync(&probe->irq_work);
	KUNIT_EXPECT_TRUE(test, probe->queued);
	KUNIT_EXPECT_FALSE(test, probe->again);
	KUNIT_EXPECT_TRUE(test, probe->cancelled);
	KUNIT_EXPECT_TRUE(test, probe->disabled);
	KUNIT_EXPECT_TRUE(test, probe->refused);
	KUNIT_EXPECT_TRUE(test, probe->enabled);
	KUNIT_EXPECT_TRUE(test, probe->last);
	complete_all(&items[0].gate);
	wq_api_wait(test, &items[1].finished, "the last queueing runs");
	flush_work(wq_api_work(&items[1]));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cancel_returns),
	KUNIT_CASE(cancel_held_back),
	KUNIT_CASE(cancel_wakes_successor),
	KUNIT_CASE(cancel_sync_finds_older_run),
#ifdef CONFIG_WORKQUEUE_CMWQ
	KUNIT_CASE(flush_finds_older_run),
#endif
	KUNIT_CASE(cancel_lets_flusher_go),
	KUNIT_CASE_PARAM(cancel_sync_waits, wq_api_thread_kinds),
	KUNIT_CASE_PARAM(cancel_beats_queuers, wq_api_all_kinds),
	KUNIT_CASE_PARAM(cancel_delayed_beats_queuers, wq_api_all_kinds),
	KUNIT_CASE(one_canceller_wins),
	KUNIT_CASE_PARAM(disable_nests, wq_api_all_kinds),
	KUNIT_CASE_PARAM(enable_and_queue, wq_api_all_kinds),
	KUNIT_CASE(disable_cancels),
	KUNIT_CASE(enable_underflow),
	KUNIT_CASE_PARAM(disable_delayed, wq_api_all_kinds),
	KUNIT_CASE_PARAM(disable_delayed_running, wq_api_thread_kinds),
	KUNIT_CASE(everything_from_hardirq),
	{}
};

struct kunit_suite wq_api_cancel_suite = {
	.name = "wq_api_cancel",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
