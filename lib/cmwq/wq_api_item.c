// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a work item. wq_api_delayed.c has delayed and RCU work, and wq_api_attrs.c
 * has the cases that need symbols that are not exported.
 */
#include <linux/cpumask.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wq_api.h"

#define STRESS_THREADS	4
#define STRESS_ROUNDS	1000
#define MESSAGE_ROUNDS	1000
#define LULLABIES	3000
#define LULLABY_TIME	(5 * HZ)
#define ORDER_ITEMS	64
#define ORDERED_THREADS	3
#define ORDERED_EACH	200
#define SUICIDES	60

/*
 * "PENDING is a lock": a second caller gets false and changes nothing. Fails if a
 * pending item can be queued again, or runs twice for one queueing.
 */
static void pending_excludes(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	struct work_struct *work = wq_api_work(&items[1]);
	int cpu = wq_api_cpu(0), i;

	items[0].gated = true;
	KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, wq_api_work(&items[0])));
	wq_api_wait(test, &items[0].started, "the blocker starts");

	KUNIT_EXPECT_FALSE(test, work_pending(work));
	KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, work));
	for_each_online_cpu(i) {
		KUNIT_EXPECT_FALSE(test, queue_work_on(i, wq, work));
		KUNIT_EXPECT_FALSE(test, queue_work(system_dfl_wq, work));
	}
	KUNIT_EXPECT_FALSE(test, queue_delayed_work(wq, &items[1].dwork, 1));
	KUNIT_EXPECT_TRUE(test, work_pending(work));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);

	complete_all(&items[0].gate);
	wq_api_wait(test, &items[1].finished, "the item runs");
	flush_work(work);
	KUNIT_EXPECT_FALSE(test, work_pending(work));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 1);

	KUNIT_EXPECT_TRUE(test, queue_work(wq, work));
	wq_api_wait(test, &items[1].finished, "the item runs again");
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 2);
}

struct mailbox {
	struct work_struct work;
	struct workqueue_struct *wq;
	unsigned int posted;
	unsigned int seen;
};

static void mailbox_fn(struct work_struct *work)
{
	struct mailbox *box = container_of(work, struct mailbox, work);

	WRITE_ONCE(box->seen, READ_ONCE(box->posted));
}

/* The stores and loads here imply no barrier, so only queue_work() can order them. */
static int mailbox_thread(void *arg)
{
	struct mailbox *box = arg;
	unsigned int round, letter = 0;
	unsigned long end;

	for (round = 0; round < MESSAGE_ROUNDS; round++) {
		WRITE_ONCE(box->posted, ++letter);
		queue_work(box->wq, &box->work);
		ndelay(50 * (round % 128));
		/* this often returns false because the function is about to start */
		WRITE_ONCE(box->posted, ++letter);
		queue_work(box->wq, &box->work);

		end = jiffies + WQ_API_TIMEOUT;
		while (READ_ONCE(box->seen) != letter) {
			if (time_after(jiffies, end))
				return -ETIMEDOUT;
			if (num_online_cpus() == 1 || !(round % 16))
				usleep_range(1, 5);
			cond_resched();
		}
	}
	return 0;
}

/*
 * "The first one's effects happen after everything that the second caller did
 * before": fails with a lost update if the function can miss what was stored
 * before a queueing, successful or not.
 */
static void queueing_orders_memory(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *calls[2];
	struct mailbox *box;
	int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		box = wq_api_zalloc(test, sizeof(*box));
		INIT_WORK(&box->work, mailbox_fn);
		wq_api_set_class(test, &box->work);
		box->wq = wq;
		calls[i] = wq_api_call(test, wq_api_cpu(i), mailbox_thread, box);
	}
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		KUNIT_EXPECT_EQ(test, wq_api_call_result(test, calls[i]), 0);
}

static void requeue_body(struct wq_api_item *item)
{
	if (atomic_read(&item->runs) >= 200)
		return;
	/* PENDING is clear by now, so the first succeeds and the second does not */
	if (!queue_work(item->wq, wq_api_work(item)) ||
	    queue_work(item->wq, wq_api_work(item)))
		item->gave_up = true;
	wq_api_burn(2);
}

/*
 * "The function may queue its own item again; that run starts only after this
 * one returned": fails if PENDING is still set in the function, if a run is
 * lost, or if two overlap.
 */
static void requeue_from_function(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	item->body = requeue_body;
	item->wq = wq;
	queue_work(wq, wq_api_work(item));
	wq_api_until(test, atomic_read(&item->runs) == 200);
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 200);
	KUNIT_EXPECT_FALSE(test, item->reentered);
	KUNIT_EXPECT_FALSE(test, item->gave_up);
}

struct crowd {
	struct work_struct work;
	struct workqueue_struct *wq;
	bool may_sleep;
	atomic_t inside;
	atomic_t runs;
	atomic_t queued;
	atomic_t overlaps;
};

static void crowd_fn(struct work_struct *work)
{
	struct crowd *crowd = container_of(work, struct crowd, work);
	int runs = atomic_inc_return(&crowd->runs);

	if (!wq_tally_begins(&crowd->inside))
		atomic_inc(&crowd->overlaps);
	if (crowd->may_sleep && !(runs % 8))
		usleep_range(10, 30);
	else
		wq_api_burn(2);
	wq_tally_ends(&crowd->inside);
}

static int crowd_thread(void *arg)
{
	struct crowd *crowd = arg;
	int i, cpu;

	for (i = 0; i < STRESS_ROUNDS; i++) {
		cpu = i % 3 ? wq_api_cpu(i) : WORK_CPU_UNBOUND;
		if (queue_work_on(cpu, crowd->wq, &crowd->work))
			atomic_inc(&crowd->queued);
		if (!(i % 16))
			usleep_range(1, 20);
		cond_resched();
	}
	return 0;
}

/*
 * "Non-reentrance", from many CPUs, on every kind of workqueue: fails if two workers are
 * in the function at once, or if the item does not run once per successful queueing.
 */
static void one_worker_per_item(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;
	struct wq_api_call *calls[STRESS_THREADS];
	struct crowd *crowd = wq_api_zalloc(test, sizeof(*crowd));
	int i;

	INIT_WORK(&crowd->work, crowd_fn);
	crowd->wq = wq_api_wq_kind(test);
	wq_api_set_class(test, &crowd->work);
	crowd->may_sleep = !(kind->flags & WQ_BH);
	for (i = 0; i < STRESS_THREADS; i++)
		calls[i] = wq_api_call(test, wq_api_cpu(i), crowd_thread, crowd);
	for (i = 0; i < STRESS_THREADS; i++)
		wq_api_call_result(test, calls[i]);
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, crowd->wq));

	KUNIT_EXPECT_EQ(test, atomic_read(&crowd->overlaps), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&crowd->runs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&crowd->runs), atomic_read(&crowd->queued));
}

struct suicide_note {
	atomic_t died;
	atomic_t disturbed;
};

struct suicide {
	struct work_struct work;
	struct suicide_note *note;
};

/*
 * The item is overwritten before it is freed. So a late write shows even without KASAN;
 * a late read shows only with KASAN.
 */
static void suicide_fn(struct work_struct *work)
{
	struct suicide *item = container_of(work, struct suicide, work);
	struct suicide_note *note = item->note;

	memset(item, 0x5a, sizeof(*item));
	if (in_task())
		usleep_range(1, 10);
	else
		wq_api_burn(5);
	if (memchr_inv(item, 0x5a, sizeof(*item)))
		atomic_inc(&note->disturbed);
	kfree(item);
	atomic_inc(&note->died);
}

/* "The function may free the item: nothing touches it after the function started." */
static void free_in_function(struct kunit *test)
{
	struct suicide_note *note = wq_api_zalloc(test, sizeof(*note));
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct suicide *item;
	int i;

	for (i = 0; i < SUICIDES; i++) {
		item = kmalloc_obj(*item);
		KUNIT_ASSERT_NOT_NULL(test, item);
		INIT_WORK(&item->work, suicide_fn);
		wq_api_set_class(test, &item->work);
		item->note = note;
		queue_work_on(wq_api_cpu(i), wq, &item->work);
	}
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, wq));
	KUNIT_EXPECT_EQ(test, atomic_read(&note->died), SUICIDES);
	KUNIT_EXPECT_EQ(test, atomic_read(&note->disturbed), 0);
}

static void order_round(struct kunit *test, struct workqueue_struct *wq, int cpu,
			struct wq_api_item *items)
{
	int i;

	wq_api_rearm(items, ORDER_ITEMS);
	wq_api_queue_batch(cpu, wq, items, ORDER_ITEMS);
	for (i = 0; i < ORDER_ITEMS; i++)
		wq_api_wait(test, &items[i].finished, "a queued item runs");
}

/* Queues the item on another CPU just when the worker there has run it and goes to sleep. */
static int lullaby_thread(void *arg)
{
	unsigned long last = jiffies + LULLABY_TIME, end;
	struct mailbox *box = arg;
	unsigned int round;

	for (round = 1; round <= LULLABIES && time_before(jiffies, last); round++) {
		WRITE_ONCE(box->posted, round);
		queue_work_on(wq_api_cpu(1), box->wq, &box->work);

		end = jiffies + WQ_API_TIMEOUT / 2;
		while (READ_ONCE(box->seen) != round) {
			if (time_after(jiffies, end))
				return -ETIMEDOUT;
			cond_resched();
		}
		/* slow machines need longer to go to sleep */
		ndelay(20 * (round % 256) * (1 + round / 1024));
	}
	return 0;
}

/*
 * "The function runs after queueing": fails if an item stays behind because its worker is
 * going to sleep on another CPU when the item is queued. Other items on the same pool would
 * hide that, so the case can fail only on pools that nothing else uses meanwhile. With BH
 * workqueues, it tests that queueing raises the softirq of another CPU.
 */
static void sleepy_worker_is_woken(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct mailbox *box = wq_api_zalloc(test, sizeof(*box));
	struct wq_api_call *call;

	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU cannot queue while a worker goes to sleep");

	INIT_WORK(&box->work, mailbox_fn);
	wq_api_set_class(test, &box->work);
	box->wq = wq;
	call = wq_api_call(test, wq_api_cpu(0), lullaby_thread, box);
	KUNIT_EXPECT_EQ(test, wq_api_call_result(test, call), 0);
}

/*
 * "Items queued by one CPU on one workqueue start in the order they were
 * queued": fails if one overtakes another on a bound workqueue.
 */
static void start_in_order(struct kunit *test)
{
	static const struct { unsigned int flags; int max_active; } wqs[] = {
		{ WQ_PERCPU, 1 }, { WQ_PERCPU, 0 }, { WQ_PERCPU, 7 },
		{ WQ_PERCPU | WQ_HIGHPRI, 0 }, { WQ_PERCPU | WQ_BH, 0 },
	};
	struct wq_api_item *items = wq_api_items(test, ORDER_ITEMS);
	struct workqueue_struct *wq;
	int i, n, cpu, tries;

	for (n = 0; n < ARRAY_SIZE(wqs); n++) {
		/* the next kind may change their lock class, so none may run any more */
		wq_api_rearm(items, ORDER_ITEMS);
		wq = wq_api_wq(test, wqs[n].flags, wqs[n].max_active);
		for_each_online_cpu(cpu) {
			for (tries = 0; tries < 20; tries++) {
				order_round(test, wq, cpu, items);
				if (wq_api_was_quiet(items, ORDER_ITEMS))
					break;
			}
			for (i = 1; i < ORDER_ITEMS; i++)
				KUNIT_EXPECT_GT_MSG(test, items[i].start,
						    items[i - 1].start,
						    "item %d, workqueue %d, cpu %d",
						    i, n, cpu);
		}
	}
}

struct ordered_item {
	struct work_struct work;
	struct ordered_run *run;
	int ticket;
};

struct ordered_run {
	struct workqueue_struct *wq;
	spinlock_t lock;	/* makes taking a ticket and queueing one step */
	int tickets;
	int served;		/* needs no lock, as the workqueue is ordered */
	atomic_t inside;
	atomic_t overlaps;
	atomic_t misordered;
	struct ordered_item *items;
};

static void ordered_fn(struct work_struct *work)
{
	struct ordered_item *item = container_of(work, struct ordered_item, work);
	struct ordered_run *run = item->run;

	if (!wq_tally_begins(&run->inside))
		atomic_inc(&run->overlaps);
	if (item->ticket != READ_ONCE(run->served))
		atomic_inc(&run->misordered);
	WRITE_ONCE(run->served, item->ticket + 1);
	if (item->ticket % 32)
		wq_api_burn(1);
	else
		usleep_range(10, 50);
	wq_tally_ends(&run->inside);
}

static int ordered_thread(void *arg)
{
	struct ordered_run *run = arg;
	struct ordered_item *item;
	int i;

	for (i = 0; i < ORDERED_EACH; i++) {
		spin_lock_irq(&run->lock);
		item = &run->items[run->tickets];
		item->ticket = run->tickets++;
		queue_work(run->wq, &item->work);
		spin_unlock_irq(&run->lock);
		if (!(i % 8))
			usleep_range(1, 50);
	}
	return 0;
}

/*
 * Several threads queue items on @wq and give each one the number of its turn, while
 * @shake makes changes that must not disturb the order.
 */
void wq_api_ordered_stress(struct kunit *test, struct workqueue_struct *wq,
			   int (*shake)(void *arg), void *arg)
{
	const int nr = ORDERED_THREADS * ORDERED_EACH;
	struct ordered_run *run = wq_api_zalloc(test, sizeof(*run));
	struct wq_api_call *calls[ORDERED_THREADS], *shaker = NULL;
	int i;

	spin_lock_init(&run->lock);
	run->wq = wq;
	run->items = wq_api_zalloc(test, nr * sizeof(*run->items));
	for (i = 0; i < nr; i++) {
		INIT_WORK(&run->items[i].work, ordered_fn);
		run->items[i].run = run;
	}
	if (shake)
		shaker = wq_api_call(test, -1, shake, arg);
	for (i = 0; i < ORDERED_THREADS; i++)
		calls[i] = wq_api_call(test, wq_api_cpu(i), ordered_thread, run);
	for (i = 0; i < ORDERED_THREADS; i++)
		wq_api_call_result(test, calls[i]);
	if (shaker)
		KUNIT_EXPECT_EQ(test, wq_api_call_result(test, shaker), 0);
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, wq));

	KUNIT_EXPECT_EQ(test, run->served, nr);
	KUNIT_EXPECT_EQ(test, atomic_read(&run->overlaps), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&run->misordered), 0);
}

/*
 * "Ordered workqueues run one item at a time, system-wide, in queueing order":
 * fails if items overlap, swap or get lost, or if max_active can be raised.
 */
static void ordered_across_queuers(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	wq_api_ordered_stress(test, wq, NULL, NULL);
	kunit_warning_suppress(test) {
		workqueue_set_max_active(wq, 16);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	wq_api_ordered_stress(test, wq, NULL, NULL);
}

static WQ_API_GENERATOR(ordered_kinds)
{
	const struct wq_api_kind *kind = prev;

	do {
		kind = wq_api_next_kind(kind, desc);
	} while (kind && !kind->ordered);
	return kind;
}

/*
 * "queue_work_on(cpu) on a bound workqueue runs on that CPU while it is online": fails
 * if an item runs elsewhere. Without a given CPU, it must run on that of the caller.
 */
static void bound_runs_on_its_cpu(struct kunit *test)
{
	static const unsigned int flags[] = {
		WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI, WQ_PERCPU | WQ_CPU_INTENSIVE,
		WQ_PERCPU | WQ_BH,
	};
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq;
	int cpu, i, n;

	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		wq = wq_api_wq(test, flags[n], 0);
		for (i = 0; i < 20; i++) {
			for_each_online_cpu(cpu) {
				queue_work_on(cpu, wq, wq_api_work(item));
				wq_api_wait(test, &item->finished, "the item runs");
				flush_work(wq_api_work(item));
				KUNIT_EXPECT_EQ(test, item->cpu, cpu);

				wq_api_queue_batch(cpu, wq, item, 1);
				wq_api_wait(test, &item->finished, "the item runs");
				flush_work(wq_api_work(item));
				KUNIT_EXPECT_EQ(test, item->cpu, cpu);
			}
		}
	}
}

/* "On an unbound one the CPU picks the pod": any CPU and node is accepted. */
static void unbound_takes_any_cpu(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);
	int cpu, node, runs = 0;

	for_each_possible_cpu(cpu) {
		KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, wq, wq_api_work(item)));
		wq_api_wait(test, &item->finished, "the item runs");
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), ++runs);
	}
	for_each_online_node(node) {
		KUNIT_EXPECT_TRUE(test, queue_work_node(node, wq, wq_api_work(item)));
		wq_api_wait(test, &item->finished, "the item runs");
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), ++runs);
	}
	KUNIT_EXPECT_TRUE(test, queue_work_node(NUMA_NO_NODE, wq, wq_api_work(item)));
	wq_api_wait(test, &item->finished, "the item runs");
}

static void chain_body(struct wq_api_item *item)
{
	if (atomic_read(&item->runs) < 5)
		queue_work(item->wq, wq_api_work(item));
}

static int drain_fn(void *wq)
{
	drain_workqueue(wq);
	return 0;
}

static int destroy_fn(void *wq)
{
	destroy_workqueue(wq);
	return 0;
}

/* While a blocker runs and a drain waits for it, strangers are refused and stay idle. */
static void strangers_are_refused(struct kunit *test, struct workqueue_struct *wq)
{
	struct wq_api_item *stranger = wq_api_items(test, 1);

	kunit_warning_suppress(test) {
		queue_work(wq, wq_api_work(stranger));
		wq_api_expect_warn_once(test, KUNIT_SUPPRESSED_WARNING_COUNT(), 1);
		KUNIT_EXPECT_FALSE(test, work_pending(wq_api_work(stranger)));
		KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(stranger)), 0);
		/* the second attempt leaves the item idle, too */
		queue_work(wq, wq_api_work(stranger));
		wq_api_expect_warn_once(test, KUNIT_SUPPRESSED_WARNING_COUNT(), 2);
		KUNIT_EXPECT_FALSE(test, work_pending(wq_api_work(stranger)));
	}
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(wq_api_work(stranger)));
	KUNIT_EXPECT_EQ(test, atomic_read(&stranger->runs), 0);

	/* the refused item can still be queued elsewhere */
	KUNIT_EXPECT_TRUE(test, queue_work(system_dfl_wq, wq_api_work(stranger)));
	wq_api_wait(test, &stranger->finished, "the refused item runs elsewhere");
}

/*
 * "Queueing on a draining workqueue is allowed only from its own items": fails
 * if a stranger gets in or is left pending, if a chained item is turned away,
 * or if the workqueue does not open again.
 */
static void draining_takes_chained_only(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 3);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *drainer;

	items[0].gated = true;
	items[1].body = chain_body;
	items[1].wq = wq;
	queue_work(wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the blocker starts");
	queue_work(wq, wq_api_work(&items[1]));
	drainer = wq_api_call(test, -1, drain_fn, wq);
	wq_api_call_blocks(test, drainer);

	strangers_are_refused(test, wq);

	complete_all(&items[0].gate);
	wq_api_call_result(test, drainer);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 5);

	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(&items[2])));
	wq_api_wait(test, &items[2].finished, "a drained workqueue takes work again");
}

/* The same while it is being destroyed, which must drain it first. */
static void destroying_refuses(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *destroyer;

	items[0].gated = true;
	items[1].body = chain_body;
	items[1].wq = wq;
	queue_work(wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the blocker starts");
	queue_work(wq, wq_api_work(&items[1]));
	wq_api_forget(test, wq);
	destroyer = wq_api_call(test, -1, destroy_fn, wq);
	wq_api_call_blocks(test, destroyer);

	strangers_are_refused(test, wq);

	complete_all(&items[0].gate);
	wq_api_call_result(test, destroyer);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 5);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(pending_excludes),
	KUNIT_CASE_PARAM(queueing_orders_memory, wq_api_all_kinds),
	KUNIT_CASE_PARAM(sleepy_worker_is_woken, wq_api_all_kinds),
	KUNIT_CASE_PARAM(requeue_from_function, wq_api_all_kinds),
	KUNIT_CASE_PARAM(one_worker_per_item, wq_api_all_kinds),
	KUNIT_CASE_PARAM(free_in_function, wq_api_all_kinds),
	KUNIT_CASE(start_in_order),
	KUNIT_CASE_PARAM(ordered_across_queuers, ordered_kinds),
	KUNIT_CASE(bound_runs_on_its_cpu),
	KUNIT_CASE(unbound_takes_any_cpu),
	KUNIT_CASE_PARAM(draining_takes_chained_only, wq_api_few_kinds),
	KUNIT_CASE_PARAM(destroying_refuses, wq_api_few_kinds),
	{}
};

struct kunit_suite wq_api_item_suite = {
	.name = "wq_api_item",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
