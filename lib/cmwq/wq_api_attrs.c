// SPDX-License-Identifier: GPL-2.0
/*
 * Cases that need functions that are not exported to modules: attributes, the freezer's
 * calls, schedule_on_each_cpu(). So this suite exists only if the tests are built in.
 */
#ifndef MODULE

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <trace/events/sched.h>
#include <trace/events/workqueue.h>

#include "wq_api.h"

#ifdef CONFIG_WORKQUEUE_CMWQ
#include "../../kernel/workqueue/active.h"
#include "../../kernel/workqueue/attrs.h"
#include "../../kernel/workqueue/pools.h"
#include "../../kernel/workqueue/running.h"
#include "../../kernel/workqueue/workqueues.h"
#endif

#define ATTR_CHANGES	60
#define FITTING		16

static const enum wq_affn_scope scopes[] = {
	WQ_AFFN_CPU, WQ_AFFN_SMT, WQ_AFFN_CACHE, WQ_AFFN_CACHE_SHARD, WQ_AFFN_NUMA,
	WQ_AFFN_SYSTEM, WQ_AFFN_DFL,
};

static void free_attrs(void *attrs)
{
	free_workqueue_attrs(attrs);
}

static struct workqueue_attrs *new_attrs(struct kunit *test)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_attrs, attrs), 0);
	return attrs;
}

struct shaker {
	struct workqueue_struct *wq;
	struct workqueue_attrs *attrs;
	bool ordered;
};

/* Change the CPUs, the nice level and the scope in turn. */
static int shake_attrs(void *arg)
{
	struct shaker *shaker = arg;
	struct workqueue_attrs *attrs = shaker->attrs;
	int i, ret;

	for (i = 0; i < ATTR_CHANGES; i++) {
		if (i % 3)
			cpumask_copy(attrs->cpumask, cpu_possible_mask);
		else
			cpumask_copy(attrs->cpumask, cpumask_of(wq_api_cpu(i)));
		attrs->nice = i % 5 ? 0 : 5;
		attrs->affn_scope = scopes[i % ARRAY_SIZE(scopes)];
		attrs->affn_strict = i % 2;
		attrs->ordered = shaker->ordered;
		ret = apply_workqueue_attrs(shaker->wq, attrs);
		if (ret)
			return ret;
		usleep_range(100, 300);
	}
	return 0;
}

/*
 * "In queueing order, also across attribute and CPU-mask changes": fails on an
 * overlap, a swap or a loss while the attributes change.
 */
static void ordered_across_attr_changes(struct kunit *test)
{
	struct shaker shaker = { .attrs = new_attrs(test), .ordered = true };

	shaker.wq = alloc_ordered_workqueue("wq_api_ordered", 0);
	KUNIT_ASSERT_NOT_NULL(test, shaker.wq);
	wq_api_ordered_stress(test, shaker.wq, shake_attrs, &shaker);
	wq_api_destroy(test, shaker.wq);
}

/*
 * Non-reentrance and "no work lost" while an unbound workqueue with items moves
 * between pools.
 */
static void nothing_lost_across_attr_changes(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 32);
	struct shaker shaker = { .attrs = new_attrs(test) };
	struct wq_api_call *call;
	int queued[32] = {}, i = 0;

	shaker.wq = wq_api_wq(test, WQ_UNBOUND, 4);
	call = wq_api_call(test, -1, shake_attrs, &shaker);
	while (!completion_done(&call->done)) {
		queued[i % 32] += queue_work_on(wq_api_cpu(i), shaker.wq,
						wq_api_work(&items[i % 32]));
		if (!(++i % 16))
			usleep_range(5, 20);
	}
	KUNIT_EXPECT_EQ(test, wq_api_call_result(test, call), 0);
	wq_api_call_result(test, wq_api_call(test, -1, wq_api_flush_fn, shaker.wq));
	for (i = 0; i < 32; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&items[i].runs), queued[i]);
		KUNIT_EXPECT_FALSE(test, items[i].reentered);
	}
}

/*
 * "On an unbound one the CPU picks the pod": with one strict pod for each CPU, the item
 * runs on the CPU that the caller named, and a mask keeps it off the others.
 */
static void cpu_picks_the_pod(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_attrs *attrs = new_attrs(test);
	int cpu, i;

	attrs->affn_scope = WQ_AFFN_CPU;
	attrs->affn_strict = true;
	KUNIT_ASSERT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	for_each_online_cpu(cpu) {
		for (i = 0; i < 10; i++) {
			queue_work_on(cpu, wq, wq_api_work(item));
			flush_work(wq_api_work(item));
			KUNIT_EXPECT_EQ(test, item->cpu, cpu);
		}
	}

	attrs->nice = -5;
	cpumask_copy(attrs->cpumask, cpumask_of(wq_api_cpu(1)));
	KUNIT_ASSERT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	for_each_online_cpu(cpu) {
		queue_work_on(cpu, wq, wq_api_work(item));
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, item->cpu, wq_api_cpu(1));
		KUNIT_EXPECT_EQ(test, item->nice, -5);
	}
}

#ifdef CONFIG_WORKQUEUE_CMWQ
/* Apply @attrs as if the CPUs of @cpu's node were on no node; return the node of @cpu's pool. */
static int pool_node_after_move(struct kunit *test, struct workqueue_struct *wq,
				const struct workqueue_attrs *attrs, int cpu)
{
	struct wq_pod_type *numa = &wq_pod_types[WQ_AFFN_NUMA];
	int *pod_node, known, ret, node;

	scoped_guard(mutex, &wq_pool_mutex) {
		pod_node = &numa->pod_node[numa->cpu_pod[cpu]];
		known = *pod_node;
		*pod_node = NUMA_NO_NODE;
		wq_pods_gen++;
		ret = apply_workqueue_attrs_locked(wq, attrs);
		*pod_node = known;
		wq_pods_gen++;
		node = wq_pwq(wq, cpu)->pool->node;
	}
	KUNIT_EXPECT_EQ(test, ret, 0);
	return node;
}

/*
 * If the CPUs of a pod were removed and added on another node, the pod gets a pool of that
 * node, although the old pool has the same attributes.  Otherwise its items would count on
 * the old node.  No machine at hand moves CPUs, so the case changes what is known of them.
 */
static void moved_pod_gets_a_pool_of_its_node(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_attrs *attrs = new_attrs(test);
	int cpu = wq_api_cpu(0);

	attrs->affn_scope = WQ_AFFN_CPU;
	attrs->nice = 3;		/* nobody else's pool */
	KUNIT_ASSERT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	scoped_guard(mutex, &wq_pool_mutex)
		KUNIT_EXPECT_EQ(test, wq_pwq(wq, cpu)->pool->node, cpu_to_node(cpu));

	KUNIT_EXPECT_EQ(test, pool_node_after_move(test, wq, attrs, cpu), NUMA_NO_NODE);
	queue_work_on(cpu, wq, wq_api_work(item));
	wq_api_wait(test, &item->finished, "the item runs on the new pool");
	KUNIT_EXPECT_EQ(test, item->nice, 3);
}

/* wq_pods_gen shows that pods were replaced. Then the node of each pool is checked again. */
static void pods_are_not_replaced_in_silence(struct kunit *test)
{
	unsigned int gen;

	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);
	gen = wq_pods_gen;
	/* no assertions, which would leave the locks taken */
	KUNIT_EXPECT_EQ(test, affinity_reshard(wq_cache_shard_size), 0);
	KUNIT_EXPECT_NE(test, wq_pods_gen, gen);
}

static void set_global_mask(void *mask)
{
	workqueue_set_unbound_cpumask(mask);
}

/*
 * What a CPU outside the global mask queues may go to the default pool.  workqueue_congested()
 * has to look there, too.
 */
static void congested_outside_the_mask(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 1);
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_attrs *attrs = new_attrs(test);
	struct cpumask *all = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);
	int cpu = wq_api_cpu(1);

	KUNIT_ASSERT_NOT_NULL(test, all);
	cpumask_copy(all, wq_requested_unbound_cpumask);
	attrs->affn_scope = WQ_AFFN_CPU;
	KUNIT_ASSERT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	KUNIT_ASSERT_EQ(test, workqueue_set_unbound_cpumask(cpumask_of(wq_api_cpu(0))), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, set_global_mask, all), 0);

	wq_api_congests(test, wq, cpu, items);
	complete_all(&items[0].gate);
	wq_api_wait(test, &items[1].finished, "what was held back runs");
	KUNIT_EXPECT_FALSE(test, workqueue_congested(cpu, wq));
}
#endif

static atomic_t each_cpu_runs;
static cpumask_t each_cpu_seen;

static void each_cpu_fn(struct work_struct *work)
{
	cpumask_set_cpu(raw_smp_processor_id(), &each_cpu_seen);
	atomic_inc(&each_cpu_runs);
}

/* When schedule_on_each_cpu() returns, the function has run once on each CPU. */
static void on_each_cpu_once(struct kunit *test)
{
	atomic_set(&each_cpu_runs, 0);
	cpumask_clear(&each_cpu_seen);
	KUNIT_EXPECT_EQ(test, schedule_on_each_cpu(each_cpu_fn), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&each_cpu_runs), num_online_cpus());
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&each_cpu_seen, cpu_online_mask));
}

struct described {
	struct work_struct work;
	char comm[64];
};

static void described_fn(struct work_struct *work)
{
	struct described *described = container_of(work, struct described, work);

	set_worker_desc("wq_api_says_%d", 42);
	wq_worker_comm(described->comm, sizeof(described->comm), current);
}

/* The worker's name shows the description while the item runs. */
static void description_shows(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);
	struct described *described = wq_api_zalloc(test, sizeof(*described));

	INIT_WORK(&described->work, described_fn);
	queue_work(wq, &described->work);
	flush_work(&described->work);
	KUNIT_EXPECT_STREQ(test, strchrnul(described->comm, '+'), "+wq_api_says_42");
	KUNIT_EXPECT_EQ(test, strncmp(described->comm, "kworker/", 8), 0);
}

/* Only unbound workqueues have a min_active, and it is never above max_active. */
static void min_active_is_for_unbound(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 6);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 3);
	int cpu = wq_api_cpu(0), i;

	kunit_warning_suppress(test) {
		workqueue_set_min_active(wq_api_wq(test, WQ_PERCPU, 0), 4);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	workqueue_set_min_active(wq, 100);
	for (i = 0; i < 6; i++)
		items[i].gated = true;
	wq_api_queue_batch(cpu, wq, items, 6);
	for (i = 0; i < 3; i++)
		wq_api_wait(test, &items[i].started, "max_active items start");
	wq_api_fence(test, cpu);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].ctx->inside), 3);
}

#ifdef CONFIG_FREEZER
/*
 * "Freezing sets them to zero": a freezable workqueue starts nothing, running items are
 * reported as busy, and thawing starts the held-back items. Other workqueues go on.
 */
static void freezing_holds_back(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU | WQ_FREEZABLE, 0);
	struct workqueue_struct *other = wq_api_wq(test, WQ_PERCPU, 0);
	struct wq_api_item *items = wq_api_items(test, 3);
	bool busy, still_busy, other_ran;
	int cpu = wq_api_cpu(0), held;

	items[0].gated = true;
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the item starts");

	/* no assertion may end the case between begin and thaw */
	freeze_workqueues_begin();
	queue_work_on(cpu, wq, wq_api_work(&items[1]));
	queue_work_on(cpu, other, wq_api_work(&items[2]));
	other_ran = wait_for_completion_timeout(&items[2].finished, WQ_API_TIMEOUT);
	busy = freeze_workqueues_busy();
	complete_all(&items[0].gate);
	wait_for_completion_timeout(&items[0].finished, WQ_API_TIMEOUT);
	flush_work(wq_api_work(&items[0]));
	still_busy = freeze_workqueues_busy();
	held = !atomic_read(&items[1].runs);
	thaw_workqueues();

	KUNIT_EXPECT_TRUE(test, other_ran);
	KUNIT_EXPECT_TRUE(test, busy);
	KUNIT_EXPECT_FALSE(test, still_busy);
	KUNIT_EXPECT_TRUE(test, held);
	wq_api_wait(test, &items[1].finished, "thawing starts what was held back");
}

static void mdelay_body(struct wq_api_item *item)
{
	mdelay(5);
}

static void thaw(void *unused)
{
	thaw_workqueues();
}

/* What fits under the limit when the system is frozen runs, what comes later waits for the thaw. */
static void queued_before_the_freeze_runs(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, FITTING + 1);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND | WQ_FREEZABLE, 0);
	int i;

	for (i = 0; i < FITTING; i++)
		items[i].body = mdelay_body;
	wq_api_queue_batch(wq_api_cpu(0), wq, items, FITTING);
	freeze_workqueues_begin();
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, thaw, NULL), 0);
	queue_work(wq, wq_api_work(&items[FITTING]));
	for (i = 0; i < FITTING; i++)
		wq_api_wait(test, &items[i].finished, "what fits runs");
	msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[FITTING].runs), 0);
	kunit_release_action(test, thaw, NULL);
	wq_api_wait(test, &items[FITTING].finished, "it runs after the thaw");
}
#else
WQ_API_CANNOT_RUN(freezing_holds_back, "this kernel has no freezer")
WQ_API_CANNOT_RUN(queued_before_the_freeze_runs, "this kernel has no freezer")
#endif

#ifdef CONFIG_WORKQUEUE_CMWQ
#define SHARED_ROUNDS	20

static void restore_own_pools(void *own_pools)
{
	WRITE_ONCE(wq_own_pools, (unsigned long)own_pools);
}

static void set_own_pools(struct kunit *test, unsigned int value)
{
	unsigned long before = wq_own_pools;

	if (num_online_cpus() < 2)
		kunit_skip(test, "with one CPU there is nobody to share with");
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_own_pools, (void *)before),
			0);
	WRITE_ONCE(wq_own_pools, value);
}

/* all CPUs share a pool at first */
static struct workqueue_struct *shared_wq(struct kunit *test, unsigned int flags)
{
	struct workqueue_struct *wq = wq_api_wq(test, flags, 0);
	struct workqueue_attrs *attrs = new_attrs(test);

	attrs->affn_scope = WQ_AFFN_SYSTEM;
	KUNIT_ASSERT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	return wq;
}

static bool has_own_pwq(struct workqueue_struct *wq, int cpu)
{
	guard(rcu)();
	return rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, cpu))->own_cpu >= 0;
}

/* queue an item from each of two CPUs, and wait */
static void share(struct workqueue_struct *wq, struct wq_api_item *items, int cpu)
{
	wq_api_queue_batch(wq_api_cpu(1), wq, &items[1], 1);
	wq_api_queue_batch(cpu, wq, &items[0], 1);
	flush_work(wq_api_work(&items[0]));
	flush_work(wq_api_work(&items[1]));
}

/* If a CPU times how long it takes to queue on one workqueue, it does not time another one. */
static void another_queue_takes_no_sample(struct kunit *test)
{
	struct workqueue_struct *other = wq_api_wq(test, WQ_UNBOUND | __WQ_ORDERED, 1);
	struct workqueue_struct *wq = shared_wq(test, WQ_UNBOUND);
	struct wq_api_item *items = wq_api_items(test, 3);
	int cpu = wq_api_cpu(0), round;
	struct workqueue_struct **timed = per_cpu_ptr(&wq_sharing_timed, cpu);

	set_own_pools(test, 1);
	for (round = 0; round < SHARED_ROUNDS && READ_ONCE(*timed) != wq; round++)
		share(wq, items, cpu);
	KUNIT_ASSERT_PTR_EQ(test, READ_ONCE(*timed), wq);
	wq_api_queue_batch(cpu, other, &items[2], 1);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(*timed), wq);
	share(wq, items, cpu);
	KUNIT_EXPECT_PTR_NE(test, READ_ONCE(*timed), wq);
}

struct elsewhere {
	struct workqueue_struct *wq;
	struct wq_api_item *item;
};

static void queue_elsewhere(void *arg)
{
	struct elsewhere *elsewhere = arg;

	queue_work_on(wq_api_cpu(1), elsewhere->wq, wq_api_work(elsewhere->item));
}

#define ALONE_ROUNDS	100

/* queue on the first CPU's entry: this CPU then seems to share, but does not ask for anything */
static void queue_for_first(void *arg)
{
	struct elsewhere *elsewhere = arg;

	queue_work_on(wq_api_cpu(0), elsewhere->wq, wq_api_work(elsewhere->item));
}

/* Once a CPU has got a pool of its own, items of the one that is left count, too. */
static void who_is_left_counts_alone(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct elsewhere elsewhere = { shared_wq(test, WQ_UNBOUND), &items[1] };
	struct workqueue_struct *wq = elsewhere.wq;
	struct workqueue_struct **timed = per_cpu_ptr(&wq_sharing_timed, wq_api_cpu(1));
	int round;

	set_own_pools(test, 2);
	for (round = 0; round < ALONE_ROUNDS && !has_own_pwq(wq, wq_api_cpu(0)); round++) {
		wq_api_on_cpu(wq_api_cpu(1), queue_for_first, &elsewhere);
		wq_api_queue_batch(wq_api_cpu(0), wq, &items[0], 1);
		flush_workqueue(wq);
		usleep_range(1000, 2000);
	}
	KUNIT_ASSERT_TRUE(test, has_own_pwq(wq, wq_api_cpu(0)));

	WRITE_ONCE(wq_own_pools, 1);
	for (round = 0; round < 3 * ALONE_ROUNDS; round++) {
		if (round > 2 * ALONE_ROUNDS && READ_ONCE(*timed) == wq)
			break;
		wq_api_queue_batch(wq_api_cpu(1), wq, &items[1], 1);
		flush_workqueue(wq);
		/* so seldom that it does not ask for one, too */
		usleep_range(100, 200);
	}
	KUNIT_EXPECT_LT(test, round, 3 * ALONE_ROUNDS);
}

/* A CPU that names another one would not use a pool of its own. */
static void naming_a_cpu_gives_no_pool(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct elsewhere elsewhere = { shared_wq(test, WQ_UNBOUND), &items[0] };
	int round;

	set_own_pools(test, 2);
	for (round = 0; round < 20; round++) {
		wq_api_queue_batch(wq_api_cpu(1), elsewhere.wq, &items[1], 1);
		wq_api_on_cpu(wq_api_cpu(0), queue_elsewhere, &elsewhere);
		flush_work(wq_api_work(&items[0]));
		flush_work(wq_api_work(&items[1]));
		usleep_range(4000, 6000);
	}
	KUNIT_EXPECT_FALSE(test, has_own_pwq(elsewhere.wq, wq_api_cpu(0)));
}

/* until the gate of the blocker opens, nobody gets what it asks for, and nobody is refused it */
static struct wq_api_item *block_own_pools(struct kunit *test)
{
	struct wq_api_item *blocker = wq_api_items(test, 1);

	blocker->gated = true;
	queue_work(own_pools_wq, wq_api_work(blocker));
	wq_api_wait(test, &blocker->started, "the blocker starts");
	return blocker;
}

/*
 * A CPU that asks for a pool, and then leaves the global mask, does not get it.  Only the mask
 * changes here.  If the pools followed it, one of two CPUs would be left, and nobody would share.
 */
static void no_pool_outside_the_mask(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2), *blocker;
	struct workqueue_struct *wq = shared_wq(test, WQ_UNBOUND);
	int cpu = wq_api_cpu(0), round;
	struct workqueue_struct **wants = per_cpu_ptr(wq_wants_own, cpu) + OWN_POOL;

	set_own_pools(test, 2);
	blocker = block_own_pools(test);
	for (round = 0; round < SHARED_ROUNDS && READ_ONCE(*wants) != wq; round++) {
		/* it may have asked for another workqueue */
		WRITE_ONCE(*wants, NULL);
		share(wq, items, cpu);
	}
	KUNIT_ASSERT_PTR_EQ(test, READ_ONCE(*wants), wq);

	scoped_guard(mutex, &wq_pool_mutex)
		cpumask_clear_cpu(cpu, wq_unbound_cpumask);
	complete_all(&blocker->gate);
	flush_work(&own_pools_work);
	scoped_guard(mutex, &wq_pool_mutex)
		cpumask_set_cpu(cpu, wq_unbound_cpumask);
	KUNIT_EXPECT_FALSE(test, has_own_pwq(wq, cpu));
}

#define ENOUGH_HELD	40			/* more than SHARING_HELD */
#define ASK_AGAIN	(10 * NSEC_PER_MSEC)	/* SHARING_AGAIN */
#define ASK_ROUNDS	50

struct asker {
	struct workqueue_struct *wq;
	struct wq_api_item *items;
	bool asks[2];
	u64 took;
};

/* have enough items held back to ask for a pwq, refuse it, and do the same again */
static void ask_twice(void *arg)
{
	struct workqueue_struct **wants = this_cpu_ptr(wq_wants_own) + OWN_PWQ;
	struct asker *asker = arg;
	u64 begin = local_clock();
	int i, nth;

	for (nth = 0; nth < 2; nth++) {
		WRITE_ONCE(*wants, NULL);
		for (i = 0; i < ENOUGH_HELD; i++)
			queue_work(asker->wq, wq_api_work(asker->items++));
		asker->asks[nth] = READ_ONCE(*wants) == asker->wq;
	}
	WRITE_ONCE(*wants, NULL);
	asker->took = local_clock() - begin;
}

/* A CPU that was refused does not ask again at once.  If the time is over already, try again. */
static void refused_cpu_asks_later(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2 + 2 * ENOUGH_HELD);
	struct asker asker = { shared_wq(test, WQ_UNBOUND) };
	int cpu = wq_api_cpu(0), round, i;

	set_own_pools(test, 1);
	block_own_pools(test);
	workqueue_set_max_active(asker.wq, 2);
	for (i = 0; i < 2; i++) {
		items[i].gated = true;
		wq_api_queue_batch(cpu, asker.wq, &items[i], 1);
		wq_api_wait(test, &items[i].started, "the item takes a slot");
	}

	for (round = 0; round < ASK_ROUNDS; round++) {
		msleep(20);
		asker.items = &items[2];
		wq_api_on_cpu(cpu, ask_twice, &asker);
		for (i = 2; i < 2 + 2 * ENOUGH_HELD; i++)
			cancel_work_sync(wq_api_work(&items[i]));
		if (asker.asks[0] && asker.took < ASK_AGAIN)
			break;
	}
	KUNIT_ASSERT_LT(test, round, ASK_ROUNDS);
	KUNIT_EXPECT_FALSE(test, asker.asks[1]);
}

#ifdef CONFIG_FREEZER
#define MARKER_MS	50	/* how long a marker may be kept from running */
#define MARKER_ROUNDS	20

static bool marker_begun, marker_goes;
static struct workqueue_struct *marker_wq;

/* keep the worker of the first CPU's marker busy, so that the own pwq stays plugged */
static void keep_marker(void *unused, struct work_struct *work)
{
	struct pool_workqueue *own = container_of(work, struct pool_workqueue, own_marker);
	int ms;

	if (work->func != own_marker_fn || own->wq != READ_ONCE(marker_wq) ||
	    own->own_cpu != wq_api_cpu(0))
		return;
	WRITE_ONCE(marker_begun, true);
	for (ms = 0; ms < MARKER_MS && !READ_ONCE(marker_goes); ms++)
		mdelay(1);
}

static void stop_keeping(void *unused)
{
	unregister_trace_workqueue_execute_start(keep_marker, NULL);
	tracepoint_synchronize_unregister();
}

static void keep_markers(struct kunit *test)
{
	set_own_pools(test, 2);
	KUNIT_ASSERT_EQ(test, register_trace_workqueue_execute_start(keep_marker, NULL), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, stop_keeping, NULL), 0);
}

/* let the CPU get a pwq of its own, which is plugged; false if the marker has not begun to run */
static bool queue_on_plugged(struct workqueue_struct *wq, struct wq_api_item *items)
{
	bool begun;
	int ms;

	WRITE_ONCE(marker_begun, false);
	WRITE_ONCE(marker_goes, false);
	WRITE_ONCE(marker_wq, wq);
	wq_api_queue_batch(wq_api_cpu(1), wq, &items[0], 1);
	wq_api_queue_batch(wq_api_cpu(0), wq, &items[1], 1);
	for (ms = 0; ms < 500 && !READ_ONCE(marker_begun); ms++)
		usleep_range(500, 1000);
	begun = READ_ONCE(marker_begun);
	wq_api_queue_batch(wq_api_cpu(0), wq, &items[2], 3);
	return begun;
}

static bool is_plugged(struct workqueue_struct *wq)
{
	guard(rcu)();
	return READ_ONCE(rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, wq_api_cpu(0)))->plugged);
}

/* does debugfs, if there is one, show that two items of @wq have started? */
static bool shows_two_started(struct workqueue_struct *wq)
{
	int (*show)(struct seq_file *m, void *entry);
	char line[512] = "";
	struct seq_file m = { .buf = line, .size = sizeof(line) };
	int started;

	show = (void *)kallsyms_lookup_name("workqueues_show");
	if (!show)
		return true;
	show(&m, &wq->list);
	return sscanf(line, "%*s %*s %*d %*d %d", &started) == 1 && started == 2;
}

/* does the watchdog think that the limit holds items of @wq back?  It does not report them. */
static bool limit_is_blamed(struct workqueue_struct *wq)
{
	/* a time at which the timer does not look */
	const struct wq_look look = { .now = 1, .period = ULONG_MAX, .thresh = ULONG_MAX };

	if (IS_ENABLED(CONFIG_WQ_WATCHDOG))
		wq_look_for_held(&look);
	guard(rcu)();
	return rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, wq_api_cpu(0)))->slots->watch.looked ==
	       look.now;
}

/* freeze while the marker is kept, cancel an item that is behind it, and thaw */
static void freeze_behind_marker(struct kunit *test, struct workqueue_struct *wq,
				 struct wq_api_item *items)
{
	bool cancelled;
	int ms;

	freeze_workqueues_begin();
	/* too late, also if an item is cancelled that was not */
	wq_api_queue_batch(wq_api_cpu(0), wq, &items[5], 1);
	wq_api_queue_batch(wq_api_cpu(1), wq, &items[6], 1);
	cancelled = cancel_work(wq_api_work(&items[3]));
	msleep(20);
	WRITE_ONCE(marker_goes, true);
	for (ms = 0; ms < 2000 && freeze_workqueues_busy(); ms++)
		usleep_range(500, 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[2].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[3].runs), !cancelled);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[4].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[5].runs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[6].runs), 0);
	thaw_workqueues();
	wq_api_wait(test, &items[4].finished, "the last item behind the marker runs");
	wq_api_wait(test, &items[5].finished, "the item that was queued later runs");
	wq_api_wait(test, &items[6].finished, "so does that of the other CPU");
}

/*
 * What waits behind the marker of an own pwq when the freeze begins runs, too, but nothing that is
 * queued later does.  Before that, the marker is no item that has started, and it is not the limit
 * that holds the others back.
 */
static void queued_behind_a_marker_runs(struct kunit *test)
{
	int round, kept = 0;

	keep_markers(test);
	for (round = 0; round < MARKER_ROUNDS && kept < 3; round++) {
		struct workqueue_struct *wq = shared_wq(test, WQ_UNBOUND | WQ_FREEZABLE);
		struct wq_api_item *items = wq_api_items(test, 7);
		bool begun = queue_on_plugged(wq, items);
		bool two_started = shows_two_started(wq);
		bool blamed = limit_is_blamed(wq);
		bool plugged = is_plugged(wq);

		freeze_behind_marker(test, wq, items);
		if (begun && plugged) {
			kept++;
			KUNIT_EXPECT_TRUE(test, two_started);
			KUNIT_EXPECT_FALSE(test, blamed);
		}
		wq_api_destroy(test, wq);
	}
	KUNIT_EXPECT_GT(test, kept, 0);
}

/*
 * Lower the limit while the marker is kept, as if freeze_workqueues_begin() had begun, but not come
 * to @wq; then thaw.  Return false if the marker was not kept.
 */
static bool lower_behind_marker(struct kunit *test, struct workqueue_struct *wq,
				struct wq_api_item *items)
{
	bool plugged;

	/* they have given up their slots */
	flush_work(wq_api_work(&items[0]));
	flush_work(wq_api_work(&items[1]));
	scoped_guard(mutex, &wq_pool_mutex)
		WRITE_ONCE(workqueue_freezing, true);
	workqueue_set_max_active(wq, 1);
	plugged = is_plugged(wq);
	WRITE_ONCE(marker_goes, true);
	wait_for_completion_timeout(&items[2].finished, WQ_API_TIMEOUT);
	msleep(20);
	if (plugged)
		KUNIT_EXPECT_EQ(test, atomic_read(&items[3].runs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[2].runs), 1);
	thaw_workqueues();
	wq_api_wait(test, &items[4].finished, "the last item behind the marker runs");
	return plugged;
}

/* What fits only under a limit that is lowered while the freeze begins waits for the thaw. */
static void lowered_while_freezing(struct kunit *test)
{
	int round, kept = 0;

	keep_markers(test);
	for (round = 0; round < MARKER_ROUNDS && kept < 3; round++) {
		struct workqueue_struct *wq = shared_wq(test, WQ_UNBOUND | WQ_FREEZABLE);
		struct wq_api_item *items = wq_api_items(test, 5);
		bool begun = queue_on_plugged(wq, items);

		kept += lower_behind_marker(test, wq, items) && begun;
		wq_api_destroy(test, wq);
	}
	KUNIT_EXPECT_GT(test, kept, 0);
}
#else
WQ_API_CANNOT_RUN(queued_behind_a_marker_runs, "this kernel has no freezer")
WQ_API_CANNOT_RUN(lowered_while_freezing, "this kernel has no freezer")
#endif
#endif

/*
 * Boot: items that wait for the first workers make workqueues while workqueue_init() goes on.  Each
 * wake-up of a worker takes that task so long that the scheduler then prefers the items.
 */
#define EARLY_ITEMS	3
#define EARLY_WQS	6		/* that each item makes, of each kind */
#define EARLY_WAKE_MS	20

static bool early;
module_param(early, bool, 0444);
MODULE_PARM_DESC(early, "Make workqueues at boot for a case to look at (default N)");

struct early_item {
	struct work_struct work;
	struct workqueue_struct *reclaim[EARLY_WQS];	/* with a rescuer */
	struct workqueue_struct *own[EARLY_WQS];	/* with a pool of its own */
};

static struct early_item early_items[EARLY_ITEMS];
static bool early_seen;			/* an item has made its workqueues */

static struct workqueue_struct *early_make_own(int nice)
{
	struct workqueue_struct *wq = alloc_workqueue("own%d", WQ_UNBOUND, 0, nice);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	if (wq && attrs) {
		attrs->nice = nice;
		WARN_ON(apply_workqueue_attrs(wq, attrs));
	}
	free_workqueue_attrs(attrs);
	return wq;
}

static void early_fn(struct work_struct *work)
{
	struct early_item *item = container_of(work, struct early_item, work);
	int first = (item - early_items) * EARLY_WQS + 1;
	int i;

	for (i = 0; i < EARLY_WQS; i++) {
		item->reclaim[i] = alloc_workqueue("early%d", WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
						   first + i);
		item->own[i] = early_make_own(first + i);
	}
	WRITE_ONCE(early_seen, true);
}

/* interrupts are off, and the clock may count ticks yet */
static void early_wake(void *unused, struct task_struct *task)
{
	if (in_task() && is_global_init(current) && !READ_ONCE(early_seen))
		mdelay(EARLY_WAKE_MS);
}

/* of all initcalls, only those for consoles come before workqueue_init() */
static int __init early_queue(void)
{
	struct workqueue_struct *wqs[EARLY_ITEMS] = {
		system_percpu_wq, system_highpri_wq, system_dfl_wq,
	};
	int i;

	if (!early)
		return 0;
	WARN_ON(register_trace_sched_waking(early_wake, NULL));
	for (i = 0; i < EARLY_ITEMS; i++) {
		INIT_WORK(&early_items[i].work, early_fn);
		queue_work(wqs[i], &early_items[i].work);
	}
	return 0;
}
console_initcall(early_queue);

static int early_rescuers(void)
{
	struct task_struct *task;
	int nr = 0;

	guard(rcu)();
	for_each_process(task)
		nr += !strcmp(task->comm, "kworker/R-early");
	return nr;
}

static void early_try(struct kunit *test, struct workqueue_struct *wq, struct wq_api_item *item)
{
	KUNIT_ASSERT_NOT_NULL(test, wq);
	queue_work(wq, wq_api_work(item));
	/* without a worker, neither destroy_workqueue() nor the case would end */
	if (wait_for_completion_timeout(&item->finished, 5 * HZ))
		destroy_workqueue(wq);
	else
		KUNIT_FAIL(test, "an item never runs");
}

/* What items make while workers are started has its rescuer and its workers. */
static void made_while_workers_start(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, EARLY_ITEMS * EARLY_WQS * 2);
	int i, k;

	if (!early)
		kunit_skip(test, "wq_api_kunit.early is off");
	wq_api_skip_on_base(test, "the base kernel may give it no rescuer");
	early = false;
	unregister_trace_sched_waking(early_wake, NULL);

	for (i = 0; i < EARLY_ITEMS; i++)
		flush_work(&early_items[i].work);
	KUNIT_EXPECT_EQ(test, early_rescuers(), EARLY_ITEMS * EARLY_WQS);
	for (i = 0; i < EARLY_ITEMS; i++) {
		for (k = 0; k < EARLY_WQS; k++) {
			early_try(test, early_items[i].reclaim[k], items++);
			early_try(test, early_items[i].own[k], items++);
		}
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ordered_across_attr_changes),
	KUNIT_CASE(nothing_lost_across_attr_changes),
	KUNIT_CASE(cpu_picks_the_pod),
	KUNIT_CASE(on_each_cpu_once),
	KUNIT_CASE(description_shows),
	KUNIT_CASE(min_active_is_for_unbound),
	KUNIT_CASE(freezing_holds_back),
	KUNIT_CASE(queued_before_the_freeze_runs),
	KUNIT_CASE(made_while_workers_start),
#ifdef CONFIG_WORKQUEUE_CMWQ
	/* what the base kernel has not, or hides from tests */
	KUNIT_CASE(moved_pod_gets_a_pool_of_its_node),
	KUNIT_CASE(pods_are_not_replaced_in_silence),
	KUNIT_CASE(congested_outside_the_mask),
	KUNIT_CASE(queued_behind_a_marker_runs),
	KUNIT_CASE(lowered_while_freezing),
	KUNIT_CASE(another_queue_takes_no_sample),
	KUNIT_CASE(naming_a_cpu_gives_no_pool),
	KUNIT_CASE(who_is_left_counts_alone),
	KUNIT_CASE(no_pool_outside_the_mask),
	KUNIT_CASE(refused_cpu_asks_later),
#endif
	{}
};

static struct kunit_suite wq_api_attrs_suite = {
	.name = "wq_api_attrs",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};

kunit_test_suite(wq_api_attrs_suite);

#endif /* !MODULE */
