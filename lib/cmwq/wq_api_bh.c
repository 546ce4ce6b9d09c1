// SPDX-License-Identifier: GPL-2.0
/*
 * BH workqueues: where their items run, and calls from contexts that may not sleep. The
 * other suites test what BH workqueues share with the rest: their parameters include "bh"
 * and "bh_highpri".
 *
 * A thread with bottom halves disabled is a reliable blocker: nothing that it queues on
 * its own CPU runs before it enables them again.
 */
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/timer.h>

#include "wq_api.h"

#define BH_ITEMS	16
#define BH_ROUNDS	40

static WQ_API_GENERATOR(bh_kinds)
{
	const struct wq_api_kind *kind = prev;

	do {
		kind = wq_api_next_kind(kind, desc);
	} while (kind && !(kind->flags & WQ_BH));
	return kind;
}

static void softirq_body(struct wq_api_item *item)
{
	if (!in_serving_softirq() || in_hardirq())
		item->gave_up = true;
}

/* Items run in the softirq of the CPU that queued them, in order, and once each. */
static void bh_runs_in_softirq(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, BH_ITEMS);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	int i, ran, cpu;

	for (i = 0; i < BH_ITEMS; i++)
		items[i].body = softirq_body;
	local_bh_disable();
	cpu = smp_processor_id();
	for (i = 0; i < BH_ITEMS; i++)
		queue_work(wq, wq_api_work(&items[i]));
	for (i = 0, ran = 0; i < BH_ITEMS; i++)
		ran += atomic_read(&items[i].runs);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, ran, 0);

	for (i = 0; i < BH_ITEMS; i++) {
		wq_api_wait(test, &items[i].finished, "a BH item runs");
		KUNIT_EXPECT_EQ(test, items[i].cpu, cpu);
		KUNIT_EXPECT_FALSE(test, items[i].gave_up);
		if (i)
			KUNIT_EXPECT_GT(test, items[i].start, items[i - 1].end);
	}
}

static void sync_without_sleep(struct kunit *test, bool disable)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct work_struct *work = wq_api_work(item);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	bool pending, again, refused;

	local_bh_disable();
	queue_work(wq, work);
	pending = disable ? disable_work_sync(work) : cancel_work_sync(work);
	again = disable ? disable_work_sync(work) : cancel_work_sync(work);
	refused = disable && !queue_work(wq, work);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, pending);
	KUNIT_EXPECT_FALSE(test, again);
	KUNIT_EXPECT_EQ(test, refused, disable);
	if (disable) {
		KUNIT_EXPECT_FALSE(test, enable_work(work));
		KUNIT_EXPECT_TRUE(test, enable_work(work));
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 0);

	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, queue_work(wq, work));
	local_bh_enable();
	wq_api_wait(test, &item->finished, "a BH item runs");
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

/* cancel_work_sync() and disable_work_sync() with bottom halves disabled. */
static void bh_cancel_sync_in_atomic(struct kunit *test)
{
	sync_without_sleep(test, false);
}

static void bh_disable_sync_in_atomic(struct kunit *test)
{
	sync_without_sleep(test, true);
}

struct bh_spin {
	struct work_struct work;
	unsigned int us;
	bool started;
	bool ended;
};

static void bh_spin_fn(struct work_struct *work)
{
	struct bh_spin *spin = container_of(work, struct bh_spin, work);

	WRITE_ONCE(spin->started, true);
	wq_api_burn(spin->us);
	WRITE_ONCE(spin->ended, true);
}

/*
 * Waiting for a BH item that runs on another CPU spins: fails if the call returns while
 * the function is still running, or if the call sleeps (the debug configuration reports
 * that).
 */
static void bh_sync_waits_for_other_cpu(struct kunit *test)
{
	struct bh_spin *spin = wq_api_zalloc(test, sizeof(*spin));
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	unsigned long give_up = jiffies + WQ_API_TIMEOUT;
	bool ended, inactive;
	int i, in_time = 0;
	u64 end;

	if (num_online_cpus() < 2)
		kunit_skip(test, "one CPU cannot run two items at once");

	INIT_WORK(&spin->work, bh_spin_fn);
	/*
	 * On a busy host this vCPU may be stopped while the item runs. So go on with items
	 * that outlast the host's time slices.
	 */
	for (i = 0; i < BH_ROUNDS || (!in_time && time_before(jiffies, give_up)); i++) {
		spin->us = 1000 << min(i / BH_ROUNDS, 6);
		spin->started = false;
		spin->ended = false;
		preempt_disable();
		queue_work_on(wq_api_cpu(smp_processor_id() == wq_api_cpu(0)), wq,
			      &spin->work);
		end = ktime_get_ns() + 100 * NSEC_PER_MSEC;
		while (!READ_ONCE(spin->started) && ktime_get_ns() < end)
			cpu_relax();
		in_time += READ_ONCE(spin->started) && !READ_ONCE(spin->ended);
		if (i % 2)
			disable_work_sync(&spin->work);
		else
			cancel_work_sync(&spin->work);
		ended = READ_ONCE(spin->ended) || !READ_ONCE(spin->started);
		inactive = !work_busy(&spin->work);
		preempt_enable();
		KUNIT_EXPECT_TRUE(test, ended);
		KUNIT_EXPECT_TRUE(test, inactive);
		if (i % 2)
			KUNIT_EXPECT_TRUE(test, enable_work(&spin->work));
		cond_resched();
	}
	KUNIT_EXPECT_GT_MSG(test, in_time, 0, "no round met the item while it ran");
}

/* A thread calls flush_work() for a BH item that is pending or idle. */
static void bh_flush_work(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *flusher;
	int i;

	KUNIT_EXPECT_FALSE(test, flush_work(wq_api_work(item)));
	for (i = 1; i <= BH_ROUNDS; i++) {
		queue_work_on(wq_api_cpu(i), wq, wq_api_work(item));
		flusher = wq_api_call(test, -1, wq_api_flush_work_fn, wq_api_work(item));
		wq_api_call_result(test, flusher);
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i);
	}
	KUNIT_EXPECT_FALSE(test, flush_work(wq_api_work(item)));
}

struct bh_caller {
	struct work_struct work;	/* what it manages, on @wq */
	struct work_struct self;	/* the BH item that manages it */
	struct timer_list timer;
	struct workqueue_struct *wq;
	struct completion done;
	atomic_t runs;
	bool queued, pending, again, disabled, refused, enabled;
};

static void bh_count_fn(struct work_struct *work)
{
	atomic_inc(&container_of(work, struct bh_caller, work)->runs);
}

static void bh_manage(struct bh_caller *caller)
{
	caller->queued = queue_work(caller->wq, &caller->work);
	caller->pending = cancel_work_sync(&caller->work);
	caller->again = cancel_work_sync(&caller->work);
	queue_work(caller->wq, &caller->work);
	caller->disabled = disable_work_sync(&caller->work);
	caller->refused = !queue_work(caller->wq, &caller->work);
	caller->enabled = enable_and_queue_work(caller->wq, &caller->work);
	complete(&caller->done);
}

static void bh_manage_fn(struct work_struct *self)
{
	bh_manage(container_of(self, struct bh_caller, self));
}

static void bh_timer_fn(struct timer_list *timer)
{
	struct bh_caller *caller = container_of(timer, struct bh_caller, timer);

	bh_manage(caller);
}

static void expect_managed(struct kunit *test, struct bh_caller *caller, int runs)
{
	wq_api_wait(test, &caller->done, "the softirq runs");
	KUNIT_EXPECT_TRUE(test, caller->queued);
	KUNIT_EXPECT_TRUE(test, caller->pending);
	KUNIT_EXPECT_FALSE(test, caller->again);
	KUNIT_EXPECT_TRUE(test, caller->disabled);
	KUNIT_EXPECT_TRUE(test, caller->refused);
	KUNIT_EXPECT_TRUE(test, caller->enabled);
	wq_api_until(test, atomic_read(&caller->runs) == runs);
	KUNIT_EXPECT_EQ(test, atomic_read(&caller->runs), runs);
}

/* A BH item, and a softirq timer, queue, cancel and disable another BH item. */
static void bh_managed_from_softirq(struct kunit *test)
{
	struct bh_caller *caller = wq_api_zalloc(test, sizeof(*caller));

	caller->wq = wq_api_wq_kind(test);
	INIT_WORK(&caller->work, bh_count_fn);
	INIT_WORK(&caller->self, bh_manage_fn);
	init_completion(&caller->done);
	timer_setup(&caller->timer, bh_timer_fn, 0);

	queue_work(caller->wq, &caller->self);
	expect_managed(test, caller, 1);
	cancel_work_sync(&caller->self);

	mod_timer(&caller->timer, jiffies);
	wq_api_until(test, completion_done(&caller->done));
	timer_delete_sync(&caller->timer);
	expect_managed(test, caller, 2);
}

struct bh_chain {
	struct wq_api_item *items;	/* the first queues the second */
	struct workqueue_struct *wq;
	struct task_struct *drainer;	/* set when the first item is queued */
	int cpu;			/* where the items run */
};

static int bh_drain_fn(void *arg)
{
	struct bh_chain *chain = arg;

	queue_work_on(chain->cpu, chain->wq, wq_api_work(&chain->items[0]));
	WRITE_ONCE(chain->drainer, current);
	drain_workqueue(chain->wq);
	return 0;
}

/* Wait, in the softirq, until the drainer sleeps. Then queue the next item. */
static void bh_chain_body(struct wq_api_item *item)
{
	u64 end = ktime_get_ns() + 10ULL * NSEC_PER_SEC;
	struct bh_chain *chain = item->arg;
	struct task_struct *drainer;

	do {
		cpu_relax();
		drainer = READ_ONCE(chain->drainer);
		item->gave_up = ktime_get_ns() > end;
	} while (!item->gave_up &&
		 (!drainer || READ_ONCE(drainer->__state) != TASK_UNINTERRUPTIBLE));
	queue_work(chain->wq, wq_api_work(&chain->items[1]));
}

/* "Allowed only from its own items (chained)": fails if a BH item does not count as one. */
static void bh_drain_includes_chained(struct kunit *test)
{
	struct bh_chain *chain = wq_api_zalloc(test, sizeof(*chain));

	wq_api_skip_on_base(test, "the base kernel refuses it");
	if (num_online_cpus() < 2)
		kunit_skip(test, "one CPU cannot run an item and the drainer at once");

	chain->items = wq_api_items(test, 2);
	chain->wq = wq_api_wq_kind(test);
	chain->cpu = wq_api_cpu(1);
	chain->items[0].body = bh_chain_body;
	chain->items[0].arg = chain;
	wq_api_call_result(test, wq_api_call(test, wq_api_cpu(0), bh_drain_fn, chain));
	KUNIT_EXPECT_FALSE(test, chain->items[0].gave_up);
	KUNIT_EXPECT_EQ(test, atomic_read(&chain->items[0].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&chain->items[1].runs), 1);
}

struct bh_asker {
	struct irq_work irq;
	struct timer_list timer;
	struct work_struct *in_item, *in_irq, *in_timer;
	bool was_in_irq;
	struct completion timed_out;
};

static void bh_ask_in_irq(struct irq_work *irq)
{
	struct bh_asker *asker = container_of(irq, struct bh_asker, irq);

	asker->in_irq = current_work();
	/* without an interrupt of its own, irq_work waits for the tick */
	smp_store_release(&asker->was_in_irq, in_hardirq());
}

static void bh_ask_in_timer(struct timer_list *timer)
{
	struct bh_asker *asker = container_of(timer, struct bh_asker, timer);

	asker->in_timer = current_work();
	complete(&asker->timed_out);
}

static void bh_ask_body(struct wq_api_item *item)
{
	u64 end = ktime_get_ns() + NSEC_PER_SEC;
	struct bh_asker *asker = item->arg;

	asker->in_item = current_work();
	irq_work_queue(&asker->irq);
	/* pairs with the release in bh_ask_in_irq() */
	while (!smp_load_acquire(&asker->was_in_irq) && ktime_get_ns() < end)
		cpu_relax();
}

/* current_work() is the BH item, but neither in an interrupt on top of it nor in other softirqs. */
static void bh_item_is_current(struct kunit *test)
{
	struct bh_asker *asker = wq_api_zalloc(test, sizeof(*asker));
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	wq_api_skip_on_base(test, "the base kernel returns NULL");

	asker->irq = IRQ_WORK_INIT_HARD(bh_ask_in_irq);
	timer_setup(&asker->timer, bh_ask_in_timer, 0);
	init_completion(&asker->timed_out);
	/* values that are wrong */
	asker->in_irq = wq_api_work(item);
	asker->in_timer = wq_api_work(item);
	item->body = bh_ask_body;
	item->arg = asker;

	queue_work(wq, wq_api_work(item));
	flush_work(wq_api_work(item));
	irq_work_sync(&asker->irq);
	mod_timer(&asker->timer, jiffies);
	wq_api_wait(test, &asker->timed_out, "the timer expires");
	timer_delete_sync(&asker->timer);

	KUNIT_EXPECT_TRUE(test, asker->was_in_irq);
	KUNIT_EXPECT_PTR_EQ(test, asker->in_item, wq_api_work(item));
	KUNIT_EXPECT_NULL(test, asker->in_irq);
	KUNIT_EXPECT_NULL(test, asker->in_timer);
}

/* An item may be queued on a BH workqueue and on one with threads in turn. */
static void bh_and_threads_mix(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *bh = wq_api_wq_kind(test);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);

	/* the item may change over while it is idle */
	wq_api_items_are_for(test, WQ_BH);
	KUNIT_EXPECT_TRUE(test, queue_work(bh, wq_api_work(item)));
	flush_work(wq_api_work(item));
	wq_api_items_are_for(test, WQ_PERCPU);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(item)));
	flush_work(wq_api_work(item));
	wq_api_items_are_for(test, WQ_BH);
	KUNIT_EXPECT_TRUE(test, queue_work(bh, wq_api_work(item)));
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(wq_api_work(item)) &&
			   atomic_read(&item->runs) == 3);
	cancel_work_sync(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(item)), 0);
}

/* The system's own BH workqueues serve everybody. */
static void bh_system_workqueues(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	int cpu;

	wq_api_items_are_for(test, WQ_BH);
	item->body = softirq_body;
	for_each_online_cpu(cpu) {
		KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, system_bh_wq, wq_api_work(item)));
		wq_api_wait(test, &item->finished, "a BH item runs");
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, item->cpu, cpu);
		KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, system_bh_highpri_wq,
						      wq_api_work(item)));
		wq_api_wait(test, &item->finished, "a BH item runs");
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, item->cpu, cpu);
	}
	KUNIT_EXPECT_FALSE(test, item->gave_up);
}

/* Flags and limits that a BH workqueue cannot have are refused with a warning. */
static void bh_bad_flags(struct kunit *test)
{
	struct workqueue_struct *wq, *unbound = NULL, *reclaim = NULL, *limited = NULL;
	int warnings = 0;

	wq_api_will_warn(test);
	kunit_warning_suppress(test) {
		unbound = alloc_workqueue("wq_api", WQ_BH | WQ_UNBOUND, 0);
		reclaim = alloc_workqueue("wq_api", WQ_BH | WQ_PERCPU | WQ_MEM_RECLAIM, 0);
		limited = alloc_workqueue("wq_api", WQ_BH | WQ_PERCPU, 1);
		warnings = KUNIT_SUPPRESSED_WARNING_COUNT();
	}
	if (IS_ENABLED(CONFIG_GENERIC_BUG))
		KUNIT_EXPECT_EQ(test, warnings, 3);
	KUNIT_EXPECT_NULL(test, unbound);
	KUNIT_EXPECT_NULL(test, reclaim);
	KUNIT_EXPECT_NULL(test, limited);

	wq = wq_api_wq(test, WQ_BH | WQ_PERCPU, 0);
	kunit_warning_suppress(test) {
		workqueue_set_max_active(wq, 3);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(bh_runs_in_softirq, bh_kinds),
	KUNIT_CASE_PARAM(bh_cancel_sync_in_atomic, bh_kinds),
	KUNIT_CASE_PARAM(bh_disable_sync_in_atomic, bh_kinds),
	KUNIT_CASE_PARAM(bh_sync_waits_for_other_cpu, bh_kinds),
	KUNIT_CASE_PARAM(bh_flush_work, bh_kinds),
	KUNIT_CASE_PARAM(bh_managed_from_softirq, bh_kinds),
	KUNIT_CASE_PARAM(bh_drain_includes_chained, bh_kinds),
	KUNIT_CASE_PARAM(bh_item_is_current, bh_kinds),
	KUNIT_CASE_PARAM(bh_and_threads_mix, bh_kinds),
	KUNIT_CASE(bh_system_workqueues),
	KUNIT_CASE(bh_bad_flags),
	{}
};

struct kunit_suite wq_api_bh_suite = {
	.name = "wq_api_bh",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
