// SPDX-License-Identifier: GPL-2.0
/*
 * How many items run at once.
 *
 * No case waits for a while to prove that something has not happened. Instead, stamps
 * of one clock show which of two events was first. To check that max_active holds an
 * item back, a case uses a fence: if the item were not held back, the pool would have
 * served it before the fence.
 */
#include <linux/cpumask.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/tick.h>
#include <linux/topology.h>

#include "wq_api.h"

#define BURN_NS		(100 * NSEC_PER_USEC)
#define COURTESY_NS	(3 * NSEC_PER_MSEC)	/* less than WQ_API_QUIET_NS */
#define QUIET_ROUNDS	15
#define QUIET_TRIES	400
#define BURNERS		4
#define SLEEPERS	16
#define HELD		12

/* Run for @ns. @give_way lets others have the CPU without sleeping. */
static void run_for(u64 ns, void (*give_way)(void))
{
	u64 end = ktime_get_ns() + ns;

	do {
		give_way();
	} while (ktime_get_ns() < end);
}

static void burn_body(struct wq_api_item *item)
{
	run_for(BURN_NS, yield);
}

/*
 * Run rounds until enough of them were quiet, and let @check look at those. One of
 * them may be wrong: a tick may be charged to an item just before it takes its first
 * stamp. The item then counts as a hog, and the stamps do not show it.
 */
static void quiet_rounds(struct kunit *test, struct wq_api_item *items, int nr,
			 void (*round)(struct kunit *test, struct wq_api_item *items),
			 bool (*check)(struct kunit *test, struct wq_api_item *items))
{
	int tries, quiet = 0, wrong = 0;

	for (tries = 0; quiet < QUIET_ROUNDS; tries++) {
		if (tries == QUIET_TRIES)
			wq_api_stuck(test, "this machine is too busy for this case");
		wq_api_rearm(items, nr);
		round(test, items);
		if (!wq_api_was_quiet(items, nr))
			continue;
		quiet++;
		wrong += !check(test, items);
	}
	KUNIT_EXPECT_LE_MSG(test, wrong, 1, "%pS found that many of %d rounds wrong",
			    check, quiet);
}

static void wait_all(struct kunit *test, struct wq_api_item *items, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		wq_api_wait(test, &items[i].finished, "an item runs");
}

static void one_burner_round(struct kunit *test, struct wq_api_item *items)
{
	wq_api_queue_batch(wq_api_cpu(0), items[0].wq, items, BURNERS);
	wait_all(test, items, BURNERS);
}

static bool one_burner_check(struct kunit *test, struct wq_api_item *items)
{
	int i;

	for (i = 1; i < BURNERS; i++)
		if (items[i].start < items[i - 1].end)
			return false;
	return true;
}

/*
 * "A pool has one running worker as long as none sleeps": fails if an item
 * starts while the one before it burns.
 */
static void one_runs_until_it_sleeps(struct kunit *test)
{
	static const unsigned int flags[] = { WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI };
	struct wq_api_item *items = wq_api_items(test, BURNERS);
	struct workqueue_struct *wq;
	int i, n;

	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		wq = wq_api_wq(test, flags[n], 0);
		for (i = 0; i < BURNERS; i++) {
			items[i].body = burn_body;
			items[i].wq = wq;
		}
		quiet_rounds(test, items, BURNERS, one_burner_round, one_burner_check);
	}
}

/*
 * "Starts another at once when the last one blocks while work waits": fails with a
 * time-out if any of the items does not start while those before it block.
 */
static void next_starts_when_one_blocks(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, SLEEPERS);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);
	int cpu, i;

	for (i = 0; i < SLEEPERS; i++)
		items[i].gated = true;
	for_each_online_cpu(cpu) {
		wq_api_rearm(items, SLEEPERS);
		wq_api_queue_batch(cpu, wq, items, SLEEPERS);
		for (i = 0; i < SLEEPERS; i++)
			wq_api_wait(test, &items[i].started,
				    "all items start while the others block");
		KUNIT_EXPECT_EQ(test, atomic_read(&items[0].ctx->inside), SLEEPERS);
		for (i = 0; i < SLEEPERS; i++) {
			KUNIT_EXPECT_EQ(test, items[i].cpu, cpu);
			complete_all(&items[i].gate);
		}
		wait_all(test, items, SLEEPERS);
	}
}

/*
 * Run until the item in @item->arg has started, but no longer than @max_ns. @give_way
 * lets others have the CPU without sleeping.
 */
static void run_until_started(struct wq_api_item *item, u64 max_ns,
			      void (*give_way)(void))
{
	struct wq_api_item *other = item->arg;
	u64 end = ktime_get_ns() + max_ns;

	while (!READ_ONCE(other->start) && ktime_get_ns() < end)
		give_way();
}

static void courteous_body(struct wq_api_item *item)
{
	run_until_started(item, COURTESY_NS, yield);
}

static void patient_body(struct wq_api_item *item)
{
	run_until_started(item, 20ULL * NSEC_PER_SEC, yield);
}

/* items[0] gives way to items[1], which follows on the same CPU. */
static void courteous_round(struct kunit *test, struct wq_api_item *items)
{
	int cpu = wq_api_cpu(1);

	queue_work_on(cpu, items[0].wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the first item starts");
	queue_work_on(cpu, items[1].wq, wq_api_work(&items[1]));
	wait_all(test, items, 2);
}

static void courteous_pair(struct kunit *test, struct wq_api_item *items,
			   unsigned int flags0, unsigned int flags1)
{
	items[0].body = courteous_body;
	items[0].arg = &items[1];
	items[0].wq = wq_api_wq(test, flags0, 0);
	items[1].wq = wq_api_wq(test, flags1, 0);
}

/* Does the second item start, in some round, while the first one still burns? */
static bool starts_beside(struct kunit *test, struct wq_api_item *items)
{
	int tries;

	for (tries = 0; tries < QUIET_TRIES; tries++) {
		wq_api_rearm(items, 2);
		courteous_round(test, items);
		/* a hog does not count either, so the first item must not be one */
		if (wq_api_was_quiet(items, 2) && items[1].start < items[0].end)
			return true;
	}
	return false;
}

static bool second_waits_check(struct kunit *test, struct wq_api_item *items)
{
	return items[1].start > items[0].end;
}

/*
 * The reference for the next cases: an item that runs, even if it is not always on the
 * CPU, holds up another item of the same pool. The workqueue of the other item does not
 * matter, even if it is CPU-intensive: only a running CPU-intensive item does not count.
 */
static void preempted_is_not_sleeping(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);

	courteous_pair(test, items, WQ_PERCPU, WQ_PERCPU);
	quiet_rounds(test, items, 2, courteous_round, second_waits_check);
	courteous_pair(test, items, WQ_PERCPU, WQ_PERCPU | WQ_CPU_INTENSIVE);
	quiet_rounds(test, items, 2, courteous_round, second_waits_check);
}

/* "WQ_CPU_INTENSIVE items do not count": fails if one holds up the next. */
static void cpu_intensive_does_not_count(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);

	courteous_pair(test, items, WQ_PERCPU | WQ_CPU_INTENSIVE, WQ_PERCPU);
	KUNIT_EXPECT_TRUE(test, starts_beside(test, items));
	courteous_pair(test, items, WQ_PERCPU | WQ_CPU_INTENSIVE,
		       WQ_PERCPU | WQ_CPU_INTENSIVE);
	KUNIT_EXPECT_TRUE(test, starts_beside(test, items));
}

/* The pools of one CPU do not hold each other up. */
static void highpri_is_a_pool_apart(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);

	courteous_pair(test, items, WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI);
	KUNIT_EXPECT_TRUE(test, starts_beside(test, items));
	KUNIT_EXPECT_EQ(test, items[0].nice, 0);
	KUNIT_EXPECT_EQ(test, items[1].nice, MIN_NICE);
}

/*
 * "Items that ran longer than workqueue.cpu_intensive_thresh_us without sleeping
 * do not count": fails if one that never sleeps holds up the next for ever.
 */
static void hog_stops_counting(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);
	int cpu = wq_api_cpu(1);

	/* the tick finds such an item, and a CPU stops its tick while it has one task to run */
	if (tick_nohz_full_cpu(cpu))
		kunit_skip(test, "the CPUs have no tick");

	items[0].body = patient_body;
	items[0].arg = &items[1];
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the hog starts");
	queue_work_on(cpu, wq, wq_api_work(&items[1]));
	wait_all(test, items, 2);
	KUNIT_EXPECT_LT(test, items[1].start, items[0].end);
}

/*
 * "Unbound pools start work as soon as a worker is free": fails if an item that only
 * burns holds up another one, as it would in a per-CPU pool.
 */
static void unbound_does_not_hold_up(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);

	courteous_pair(test, items, WQ_UNBOUND, WQ_UNBOUND);
	KUNIT_EXPECT_TRUE(test, starts_beside(test, items));

	/* and "wake the next worker in a chain" */
	items = wq_api_items(test, SLEEPERS);
	for (int i = 0; i < SLEEPERS; i++)
		items[i].gated = true;
	wq_api_queue_batch(wq_api_cpu(0), wq, items, SLEEPERS);
	KUNIT_EXPECT_FALSE(test, workqueue_congested(wq_api_cpu(0), wq));
	for (int i = 0; i < SLEEPERS; i++)
		wq_api_wait(test, &items[i].started, "every item starts");
}

/* max_active */

struct limit {
	unsigned int flags;
	int max_active;
};

static const struct limit limits[] = {
	{ WQ_PERCPU, 1 }, { WQ_PERCPU, 2 }, { WQ_PERCPU, 5 },
	{ WQ_PERCPU | WQ_CPU_INTENSIVE, 3 }, { WQ_PERCPU | WQ_MEM_RECLAIM, 1 },
	{ WQ_UNBOUND, 1 }, { WQ_UNBOUND, 2 }, { WQ_UNBOUND, 5 },
	{ WQ_UNBOUND | WQ_MEM_RECLAIM, 3 },
};

static void limit_desc(const struct limit *limit, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s_%d_flags_%x",
		 limit->flags & WQ_UNBOUND ? "unbound" : "percpu",
		 limit->max_active, limit->flags);
}

KUNIT_ARRAY_PARAM(limit, limits, limit_desc);

static struct wq_api_item *gated_items(struct kunit *test, int nr)
{
	struct wq_api_item *items = wq_api_items(test, nr);
	int i;

	for (i = 0; i < nr; i++)
		items[i].gated = true;
	return items;
}

/* Items [0, @active) have started and no other has. */
static void started_first(struct kunit *test, struct wq_api_item *items, int nr,
			  int active, int cpu)
{
	int i;

	for (i = 0; i < active; i++)
		wq_api_until(test, atomic_read(&items[i].runs));
	wq_api_fence(test, cpu);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&items[i].runs), i < active,
				    "item %d of %d that should run", i, active);
}

static void release(struct kunit *test, struct wq_api_item *item)
{
	complete_all(&item->gate);
	wq_api_wait(test, &item->finished, "a released item ends");
	flush_work(wq_api_work(item));
}

/*
 * "Limits hold exactly", "what was held back starts in order": fails if more or fewer
 * items than max_active are active, or if the next one to start is not the oldest.
 */
static void limit_is_exact(struct kunit *test)
{
	const struct limit *limit = test->param_value;
	struct wq_api_item *items = gated_items(test, HELD);
	struct workqueue_struct *wq = wq_api_wq(test, limit->flags, limit->max_active);
	int cpu = wq_api_cpu(0), i;

	wq_api_queue_batch(cpu, wq, items, HELD);
	KUNIT_EXPECT_TRUE(test, workqueue_congested(cpu, wq));
	for (i = 0; i < HELD; i++) {
		started_first(test, items, HELD, min(i + limit->max_active, HELD), cpu);
		release(test, &items[i]);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].ctx->peak), limit->max_active);
	KUNIT_EXPECT_FALSE(test, workqueue_congested(cpu, wq));
}

/* "max_active: per CPU for bound workqueues": each CPU has its own. */
static void limit_is_per_cpu(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 2);
	struct wq_api_item *items[4];
	int cpus = min_t(int, num_online_cpus(), ARRAY_SIZE(items)), i;

	for (i = 0; i < cpus; i++) {
		items[i] = gated_items(test, 3);
		wq_api_queue_batch(wq_api_cpu(i), wq, items[i], 3);
	}
	for (i = 0; i < cpus; i++)
		started_first(test, items[i], 3, 2, wq_api_cpu(i));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0]->ctx->peak), 2 * cpus);
}

/* The share of one node: by its online CPUs, never below @min_active. */
static int node_share(int node, int max_active, int min_active)
{
	int cpu, here = 0;

	for_each_online_cpu(cpu)
		here += cpu_to_node(cpu) == node;
	return clamp(DIV_ROUND_UP(max_active * here, (int)num_online_cpus()),
		     min_active, max_active);
}

/*
 * "For unbound ones a system-wide number, spread over NUMA nodes by online CPUs,
 * never below min(max_active, min_active) per node": queue from every CPU and count
 * the items that start. Fails if they are more or fewer than the sum of the shares.
 */
static void unbound_limit(struct kunit *test, int max_active)
{
	const int each = max_active + 1;
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, max_active);
	struct wq_api_ctx *ctx = test->priv;
	int expect = 0, cpu, node, i, n = 0;
	struct wq_api_item *items;

	for_each_online_node(node)
		if (cpumask_intersects(cpumask_of_node(node), cpu_online_mask))
			expect += node_share(node, max_active, min(max_active, 8));
	items = gated_items(test, each * num_online_cpus());
	for (i = 0; i < each; i++)
		for_each_online_cpu(cpu)
			queue_work_on(cpu, wq, wq_api_work(&items[n++]));
	wq_api_until(test, atomic_read(&ctx->inside) >= expect);
	for_each_online_cpu(cpu)
		wq_api_fence(test, cpu);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->inside), expect);
	for (i = 0; i < n; i++)
		complete_all(&items[i].gate);
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, wq));
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->peak), expect);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), 1);
}

static void unbound_limit_is_system_wide(struct kunit *test)
{
	unbound_limit(test, 3);
}

/* Above WQ_DFL_MIN_ACTIVE, where a node gets only a part of max_active. */
static void unbound_limit_is_shared_by_nodes(struct kunit *test)
{
	unbound_limit(test, 20);
}

/* the max_active that lets @want items start near @cpu */
static int limit_for(const struct limit *limit, int cpu, int want)
{
	int max_active = want;

	/* min_active was 1 at the start, and stays */
	if (limit->flags & WQ_UNBOUND)
		while (node_share(cpu_to_node(cpu), max_active, 1) < want)
			max_active++;
	return max_active;
}

static const struct limit adjustables[] = {
	{ WQ_PERCPU, 1 }, { WQ_UNBOUND, 1 }, { WQ_PERCPU | WQ_HIGHPRI, 1 },
};

KUNIT_ARRAY_PARAM(adjustable, adjustables, limit_desc);

/*
 * "Adjustable at run time, and what was held back starts in order when they
 * rise": fails if a higher limit starts too few, too many or the wrong items, or if
 * under a lower limit an item starts before enough others have ended.
 */
static void limit_is_adjustable(struct kunit *test)
{
	const struct limit *limit = test->param_value;
	struct wq_api_item *items = gated_items(test, HELD);
	struct workqueue_struct *wq = wq_api_wq(test, limit->flags, limit->max_active);
	int cpu = wq_api_cpu(0), i;

	wq_api_queue_batch(cpu, wq, items, HELD);
	started_first(test, items, HELD, 1, cpu);
	workqueue_set_max_active(wq, limit_for(limit, cpu, 4));
	for (i = 1; i < 4; i++)
		wq_api_wait(test, &items[i].started, "a higher limit starts more");
	started_first(test, items, HELD, 4, cpu);

	workqueue_set_max_active(wq, limit_for(limit, cpu, 2));
	started_first(test, items, HELD, 4, cpu);
	release(test, &items[0]);
	started_first(test, items, HELD, 4, cpu);
	release(test, &items[1]);
	started_first(test, items, HELD, 4, cpu);
	release(test, &items[2]);
	started_first(test, items, HELD, 5, cpu);

	/* held-back items stay in front of items queued later */
	workqueue_set_max_active(wq, limit_for(limit, cpu, HELD));
	for (i = 5; i < HELD; i++)
		wq_api_wait(test, &items[i].started, "a higher limit starts more");
	for (i = 3; i < HELD; i++)
		release(test, &items[i]);
	for (i = 1; i < HELD; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), 1);
}

static int raise_and_lower(void *arg)
{
	struct workqueue_struct *wq = arg;
	int i;

	for (i = 0; i < 60; i++) {
		workqueue_set_max_active(wq, 1 + i % 7);
		usleep_range(10, 100);
	}
	return 0;
}

/* Changing the limit while items come in neither loses nor duplicates any. */
static void adjusting_loses_nothing(struct kunit *test)
{
	const struct limit *limit = test->param_value;
	struct workqueue_struct *wq = wq_api_wq(test, limit->flags, limit->max_active);
	struct wq_api_item *items = wq_api_items(test, 64);
	struct wq_api_call *call = wq_api_call(test, -1, raise_and_lower, wq);
	int queued[64] = {}, i = 0;

	while (!completion_done(&call->done)) {
		queued[i % 64] += queue_work_on(wq_api_cpu(i), wq,
						wq_api_work(&items[i % 64]));
		if (!(++i % 16))
			usleep_range(5, 20);
	}
	wq_api_call_result(test, call);
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, wq));
	for (i = 0; i < 64; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), queued[i]);
}

/* The documentation's example: w0, w1 and w2 burn, then sleep. */

struct scenario {
	const char *name;
	int max_active;
	bool intensive;		/* w1 and w2 in a CPU-intensive workqueue */
};

static const struct scenario scenarios[] = {
	{ "max_active_1", 1 }, { "max_active_2", 2 }, { "max_active_3", 3 },
	{ "max_active_default", 0 }, { "cpu_intensive", 0, true },
};

static void scenario_desc(const struct scenario *scenario, char *desc)
{
	strscpy(desc, scenario->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(scenario, scenarios, scenario_desc);

struct scene {
	struct workqueue_struct *q0, *q1;
	struct wq_api_item *w;
};

static void queue_scene(void *arg)
{
	struct scene *scene = arg;

	queue_work(scene->q0, wq_api_work(&scene->w[0]));
	queue_work(scene->q1, wq_api_work(&scene->w[1]));
	queue_work(scene->q1, wq_api_work(&scene->w[2]));
}

/* Let each item sleep until all that may run beside it have started; wake them in turn. */
static void scenario_round(struct kunit *test, struct wq_api_item *w)
{
	const struct scenario *scenario = test->param_value;
	int limit = scenario->max_active ?: 3, i, first = 0;
	struct scene scene = { w[0].wq, w[1].wq, w };

	wq_api_on_cpu(wq_api_cpu(1), queue_scene, &scene);
	for (i = 0; i < 3; i++) {
		/* as many items as the limit allows */
		for (; first < min(i + limit, 3); first++)
			wq_api_until(test, READ_ONCE(w[first].start));
		complete_all(&w[i].gate);
		wq_api_wait(test, &w[i].finished, "the item that was woken ends");
	}
}

static bool scenario_check(struct kunit *test, struct wq_api_item *w)
{
	const struct scenario *scenario = test->param_value;
	int limit = scenario->max_active ?: 3, i;

	for (i = 1; i < 3; i++) {
		if (w[i].start < w[0].sleep || w[i].end < w[i - 1].end)
			return false;
		/* beside a CPU-intensive w1, w2 may burn and even get ahead of it */
		if (!scenario->intensive && w[i].start < w[i - 1].sleep)
			return false;
		if (i < limit ? w[i].start > w[0].end : w[i].start < w[i - limit].end)
			return false;
	}
	return true;
}

/*
 * An item that waits for its own run must not keep others waiting behind it, nor may it count
 * once it was cancelled: each time, three items are queued after it, and end before that run.
 */
static void next_starts_behind_a_collision(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 4);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);
	int cpu = wq_api_cpu(0), i;

	items[0].gated = true;
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the first run starts");
	for (i = 0; i < 3; i++) {
		wq_api_queue_batch(cpu, wq, items, 4);
		wait_all(test, items + 1, 3);
		wq_api_rearm(items + 1, 3);
		KUNIT_EXPECT_TRUE(test, cancel_work(wq_api_work(&items[0])));
	}
	complete_all(&items[0].gate);
	flush_work(wq_api_work(&items[0]));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].runs), 1);
}

struct few {
	struct workqueue_struct *wq;
	struct wq_api_item *items;
	bool cancelled;
};

static void queue_few_cancel_first(void *arg)
{
	struct few *few = arg;
	int i;

	for (i = 0; i < 3; i++)
		queue_work(few->wq, wq_api_work(&few->items[i]));
	few->cancelled = cancel_work(wq_api_work(&few->items[0]));
}

/* An item that is cancelled before it starts leaves nobody waiting behind it. */
static void next_starts_when_one_is_cancelled(struct kunit *test)
{
	struct few few = { .items = wq_api_items(test, 3) };
	int i, runs = 0;

	few.wq = wq_api_wq(test, WQ_UNBOUND, 0);
	for (i = 0; i < 20; i++) {
		wq_api_on_cpu(wq_api_cpu(i), queue_few_cancel_first, &few);
		wait_all(test, few.items + 1, 2);
		flush_workqueue(few.wq);
		runs += !few.cancelled;
		KUNIT_EXPECT_EQ(test, atomic_read(&few.items[0].runs), runs);
		wq_api_rearm(few.items, 3);
	}
}

/*
 * "The scenarios of the documentation hold": fails if an item starts before the one in
 * front of it sleeps or, if max_active holds it back, before a slot is free. Also fails
 * if an item that may start does not, or if the CPU-intensive w2 never burns beside w1.
 */
static void documented_scenarios(struct kunit *test)
{
	const struct scenario *scenario = test->param_value;
	struct wq_api_item *w = gated_items(test, 3);
	int i, tries;

	w[0].wq = wq_api_wq(test, WQ_PERCPU, scenario->max_active);
	w[1].wq = scenario->intensive ?
		  wq_api_wq(test, WQ_PERCPU | WQ_CPU_INTENSIVE, 0) : w[0].wq;
	w[2].wq = w[1].wq;
	for (i = 0; i < 3; i++)
		w[i].body = burn_body;
	if (scenario->intensive) {
		w[1].body = courteous_body;
		w[1].arg = &w[2];
	}
	quiet_rounds(test, w, 3, scenario_round, scenario_check);
	if (!scenario->intensive)
		return;

	for (tries = 0; tries < QUIET_TRIES; tries++) {
		wq_api_rearm(w, 3);
		scenario_round(test, w);
		if (wq_api_was_quiet(w, 3) && w[2].start < w[1].sleep)
			return;
	}
	KUNIT_FAIL(test, "w1 and w2 never burn at the same time");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(one_runs_until_it_sleeps),
	KUNIT_CASE(next_starts_when_one_blocks),
	KUNIT_CASE(preempted_is_not_sleeping),
	KUNIT_CASE(cpu_intensive_does_not_count),
	KUNIT_CASE(highpri_is_a_pool_apart),
	KUNIT_CASE(hog_stops_counting),
	KUNIT_CASE(unbound_does_not_hold_up),
	KUNIT_CASE_PARAM(limit_is_exact, limit_gen_params),
	KUNIT_CASE(limit_is_per_cpu),
	KUNIT_CASE(unbound_limit_is_system_wide),
	KUNIT_CASE(unbound_limit_is_shared_by_nodes),
	KUNIT_CASE_PARAM(limit_is_adjustable, adjustable_gen_params),
	KUNIT_CASE_PARAM(adjusting_loses_nothing, adjustable_gen_params),
	KUNIT_CASE(next_starts_behind_a_collision),
	KUNIT_CASE(next_starts_when_one_is_cancelled),
	KUNIT_CASE_PARAM(documented_scenarios, scenario_gen_params),
	{}
};

struct kunit_suite wq_api_active_suite = {
	.name = "wq_api_active",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
