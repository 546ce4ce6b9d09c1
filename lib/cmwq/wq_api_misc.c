// SPDX-License-Identifier: GPL-2.0
/*
 * The rest of the interface that modules may use: queries about items and workers,
 * functions that run on a CPU, and every kind of workqueue with its flags.
 */
#include <kunit/device.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/irq_work.h>
#include <linux/sched.h>

#include "wq_api.h"

/* work_busy(): pending, running, both, neither. */
static void work_busy_tells_states(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	int cpu = wq_api_cpu(0);

	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[0])), 0);
	items[0].gated = true;
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the item starts");
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[0])), WORK_BUSY_RUNNING);
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[0])),
			WORK_BUSY_RUNNING | WORK_BUSY_PENDING);
	queue_work_on(cpu, wq, wq_api_work(&items[1]));
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[1])), WORK_BUSY_PENDING);
	complete_all(&items[0].gate);
	flush_work(wq_api_work(&items[1]));
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[1])), 0);
	flush_work(wq_api_work(&items[0]));
	KUNIT_EXPECT_EQ(test, work_busy(wq_api_work(&items[0])), 0);
}

static void current_work_body(struct wq_api_item *item)
{
	if (current_work() != wq_api_work(item))
		item->gave_up = true;
	set_worker_desc("wq_api item %d of %s", atomic_read(&item->runs),
			"a description that is longer than there is room for");
	if (!(current->flags & PF_WQ_WORKER))
		item->gave_up = true;
}

/* current_work() and set_worker_desc(), inside an item and outside. */
static void current_work_is_the_item(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	int i;

	KUNIT_EXPECT_NULL(test, current_work());
	set_worker_desc("not a worker");
	item->body = current_work_body;
	for (i = 0; i < 5; i++) {
		queue_work(wq, wq_api_work(item));
		flush_work(wq_api_work(item));
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 5);
	KUNIT_EXPECT_FALSE(test, item->gave_up);
}

/* workqueue_congested(): true only where max_active holds an item back. */
static void congested_while_held_back(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	int cpu = wq_api_cpu(0), i;

	KUNIT_EXPECT_FALSE(test, workqueue_congested(cpu, wq));
	wq_api_congests(test, wq, cpu, items);
	for_each_online_cpu(i)
		if (i != cpu)
			KUNIT_EXPECT_FALSE(test, workqueue_congested(i, wq));
	complete_all(&items[0].gate);
	flush_work(wq_api_work(&items[1]));
	KUNIT_EXPECT_FALSE(test, workqueue_congested(cpu, wq));
}

static long where(void *arg)
{
	int *cpu = arg;

	*cpu = raw_smp_processor_id();
	usleep_range(500, 1000);
	return 1000 + *cpu;
}

/* work_on_cpu() runs the function on that CPU, lets it sleep, and returns its value. */
static void work_on_each_cpu(struct kunit *test)
{
	int cpu, here;

	for_each_online_cpu(cpu) {
		here = -1;
		KUNIT_EXPECT_EQ(test, work_on_cpu(cpu, where, &here), 1000 + cpu);
		KUNIT_EXPECT_EQ(test, here, cpu);
	}
}

struct context_probe {
	struct execute_work ew;
	struct irq_work irq_work;
	struct completion ran;
	struct completion called;
	int ret;
	bool in_task;
};

static void context_fn(struct work_struct *work)
{
	struct execute_work *ew = container_of(work, struct execute_work, work);
	struct context_probe *probe = container_of(ew, struct context_probe, ew);

	probe->in_task = in_task();
	complete(&probe->ran);
}

static void context_irq(struct irq_work *irq_work)
{
	struct context_probe *probe = container_of(irq_work, struct context_probe, irq_work);

	probe->ret = execute_in_process_context(context_fn, &probe->ew);
	complete(&probe->called);
}

/* execute_in_process_context(): at once if the caller may sleep, else in a worker. */
static void process_context_is_found(struct kunit *test)
{
	struct context_probe *probe = wq_api_zalloc(test, sizeof(*probe));

	init_completion(&probe->ran);
	init_completion(&probe->called);
	KUNIT_EXPECT_EQ(test, execute_in_process_context(context_fn, &probe->ew), 0);
	KUNIT_EXPECT_TRUE(test, completion_done(&probe->ran));
	KUNIT_EXPECT_TRUE(test, probe->in_task);

	reinit_completion(&probe->ran);
	probe->in_task = false;
	probe->irq_work = IRQ_WORK_INIT_HARD(context_irq);
	irq_work_queue(&probe->irq_work);
	wq_api_wait(test, &probe->called, "the irq_work runs");
	irq_work_sync(&probe->irq_work);
	KUNIT_EXPECT_EQ(test, probe->ret, 1);
	wq_api_wait(test, &probe->ran, "the function runs in a worker");
	flush_work(&probe->ew.work);
	KUNIT_EXPECT_TRUE(test, probe->in_task);
}

static void nobody_flushes(struct work_struct *work)
{
}

/* Highpri workers run at the nice level of highest priority, others at nice 0. */
static void nice_of_workers(struct kunit *test)
{
	static const unsigned int flags[] = {
		WQ_PERCPU, WQ_UNBOUND, WQ_PERCPU | WQ_MEM_RECLAIM, WQ_UNBOUND | WQ_FREEZABLE,
	};
	struct wq_api_item *item = wq_api_items(test, 1);
	int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		struct workqueue_struct *wq = wq_api_wq(test, flags[i], 0);

		queue_work(wq, wq_api_work(item));
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, item->nice, 0);
		wq = wq_api_wq(test, flags[i] | WQ_HIGHPRI, 0);
		queue_work(wq, wq_api_work(item));
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, item->nice, MIN_NICE);
	}
}

/* The system workqueues: the case flushes the items and not the workqueues. */
static void system_workqueues(struct kunit *test)
{
	struct workqueue_struct *wqs[] = {
		system_percpu_wq, system_highpri_wq, system_long_wq, system_dfl_wq,
		system_freezable_wq, system_power_efficient_wq,
		system_freezable_power_efficient_wq, system_dfl_long_wq,
	};
	struct wq_api_item *item = wq_api_items(test, 1);
	int i;

	for (i = 0; i < ARRAY_SIZE(wqs); i++) {
		KUNIT_ASSERT_NOT_NULL(test, wqs[i]);
		KUNIT_EXPECT_TRUE(test, queue_work(wqs[i], wq_api_work(item)));
		flush_work(wq_api_work(item));
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i + 1);
		KUNIT_EXPECT_TRUE(test, queue_delayed_work(wqs[i], &item->dwork, WQ_API_NEVER));
		KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&item->dwork));
	}
	KUNIT_EXPECT_TRUE(test, schedule_work(wq_api_work(item)));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_TRUE(test, schedule_work_on(wq_api_cpu(1), wq_api_work(item)));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, item->cpu, wq_api_cpu(1));
	KUNIT_EXPECT_TRUE(test, schedule_delayed_work(&item->dwork, 0));
	flush_delayed_work(&item->dwork);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i + 3);
}

/* On-stack items, which debugobjects treats differently. */
static void items_on_stack(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_UNBOUND, 0);
	struct delayed_work dwork;
	struct work_struct work;

	INIT_WORK_ONSTACK(&work, nobody_flushes);
	INIT_DELAYED_WORK_ONSTACK(&dwork, nobody_flushes);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, &work));
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, &dwork, WQ_API_NEVER));
	flush_work(&work);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&dwork));
	destroy_work_on_stack(&work);
	destroy_delayed_work_on_stack(&dwork);
}

static atomic_t declared_runs;

static void declared_fn(struct work_struct *work)
{
	atomic_inc(&declared_runs);
}

static DECLARE_WORK(declared_work, declared_fn);
static DECLARE_DELAYED_WORK(declared_dwork, declared_fn);
static DECLARE_DEFERRABLE_WORK(declared_deferrable, declared_fn);

/* Items from the static initialisers, never initialised at run time. */
static void items_declared(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);

	atomic_set(&declared_runs, 0);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, &declared_work));
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, &declared_dwork, WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, &declared_deferrable, WQ_API_NEVER));
	/* ignore the return values: the run may be over before the flush looks */
	flush_work(&declared_work);
	flush_delayed_work(&declared_dwork);
	flush_delayed_work(&declared_deferrable);
	KUNIT_EXPECT_EQ(test, atomic_read(&declared_runs), 3);
}

/* A managed workqueue is drained and destroyed together with its device. */
static void devm_goes_with_device(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq, *ordered;
	struct device *dev = kunit_device_register(test, "wq_api");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	wq = devm_alloc_workqueue(dev, "wq_api_%s", WQ_PERCPU, 0, dev_name(dev));
	KUNIT_ASSERT_NOT_NULL(test, wq);
	ordered = devm_alloc_ordered_workqueue(dev, "wq_api_%d", WQ_MEM_RECLAIM, 1);
	KUNIT_ASSERT_NOT_NULL(test, ordered);
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(&items[0])));
	KUNIT_EXPECT_TRUE(test, queue_work(ordered, wq_api_work(&items[1])));
	kunit_device_unregister(test, dev);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 1);
}

/* The old ways to make a workqueue, and workqueues with WQ_SYSFS. */
static void other_allocators(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wqs[5];
	int i;

	wqs[0] = create_workqueue("wq_api_old");
	wqs[1] = create_freezable_workqueue("wq_api_freezable");
	wqs[2] = create_singlethread_workqueue("wq_api_single");
	wqs[3] = alloc_workqueue("wq_api_sysfs", WQ_UNBOUND | WQ_SYSFS, 0);
	wqs[4] = alloc_workqueue("wq_api_sysfs_percpu", WQ_PERCPU | WQ_SYSFS, 0);
	for (i = 0; i < ARRAY_SIZE(wqs); i++) {
		KUNIT_EXPECT_NOT_NULL(test, wqs[i]);
		if (!wqs[i])
			continue;
		KUNIT_EXPECT_TRUE(test, queue_work(wqs[i], wq_api_work(item)));
		destroy_workqueue(wqs[i]);
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i + 1);
	}
}

/* Neither or both of WQ_PERCPU and WQ_UNBOUND: a warning, and a working workqueue. */
static void muddled_flags(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *neither = NULL, *both = NULL;
	int cpu = wq_api_cpu(1);

	wq_api_will_warn(test);
	kunit_warning_suppress(test) {
		neither = wq_api_wq(test, 0, 0);
		wq_api_expect_warn_once(test, KUNIT_SUPPRESSED_WARNING_COUNT(), 1);
	}
	kunit_warning_suppress(test) {
		both = wq_api_wq(test, WQ_PERCPU | WQ_UNBOUND, 0);
		wq_api_expect_warn_once(test, KUNIT_SUPPRESSED_WARNING_COUNT(), 1);
	}
	queue_work_on(cpu, neither, wq_api_work(item));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, item->cpu, cpu);
	KUNIT_EXPECT_TRUE(test, queue_work_on(cpu, both, wq_api_work(item)));
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 2);
}

/* What callers may ask for.  WQ_BH is the last, so that a batch has only BH workqueues or none. */
static const unsigned int flag_bits[] = {
	WQ_UNBOUND, WQ_PERCPU, WQ_FREEZABLE, WQ_MEM_RECLAIM, WQ_HIGHPRI, WQ_CPU_INTENSIVE,
	WQ_SYSFS, WQ_POWER_EFFICIENT, __WQ_ORDERED, __WQ_LEGACY, WQ_BH,
};

#define FLAG_BATCH	256	/* workqueues that exist at the same time */
#define FLAG_BATCHES	((1 << ARRAY_SIZE(flag_bits)) / FLAG_BATCH)

/* The parameter of the case. */
struct flag_maker {
	const char *name;
	int max_active;
	bool devm;
};

static const struct flag_maker flag_makers[] = {
	{ "default_limit", 0 }, { "limit_1", 1 }, { "limit_2", 2 }, { "devm", 1, true },
};

KUNIT_ARRAY_PARAM_DESC(flag_maker, flag_makers, name);

/* A workqueue, and an item for each way to queue. */
struct flag_trial {
	struct workqueue_struct *wq;
	unsigned int flags;
	struct wq_api_item *now, *on, *later;
	struct rcu_work rcu;
	atomic_t rcu_runs;
};

static void flag_rcu_fn(struct work_struct *work)
{
	atomic_inc(&container_of(to_rcu_work(work), struct flag_trial, rcu)->rcu_runs);
}

static struct flag_trial *flag_trials(struct kunit *test)
{
	struct flag_trial *trials = wq_api_zalloc(test, FLAG_BATCH * sizeof(*trials));
	struct wq_api_item *items = wq_api_items(test, FLAG_BATCH * 3);
	int i;

	for (i = 0; i < FLAG_BATCH; i++) {
		trials[i].now = items++;
		trials[i].on = items++;
		trials[i].later = items++;
	}
	return trials;
}

static unsigned int flags_of(unsigned int combination)
{
	unsigned int flags = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(flag_bits); i++)
		if (combination & BIT(i))
			flags |= flag_bits[i];
	return flags;
}

/* A BH workqueue takes few flags and no limit.  All else is accepted. */
static bool flags_are_refused(unsigned int flags, int max_active)
{
	return (flags & WQ_BH) && ((flags & ~__WQ_BH_ALLOWS) || max_active);
}

static bool flags_warn(unsigned int flags, int max_active)
{
	return flags_are_refused(flags, max_active) ||
	       !(flags & WQ_PERCPU) == !(flags & WQ_UNBOUND);
}

static struct workqueue_struct *flag_alloc(struct device *dev, unsigned int flags, int max_active)
{
	/* WQ_SYSFS needs a name of its own */
	static const char name[] = "wq_api_%x";
#ifdef CONFIG_LOCKDEP
	/* lockdep has no room for a class of each workqueue */
	static struct lockdep_map map = STATIC_LOCKDEP_MAP_INIT("wq_api_flags", &map);
	static struct lockdep_map bh_map = STATIC_LOCKDEP_MAP_INIT("wq_api_flags_bh", &bh_map);

	if (!dev)
		return alloc_workqueue_lockdep_map(name, flags, max_active,
						   flags & WQ_BH ? &bh_map : &map, flags);
#endif
	return dev ? devm_alloc_workqueue(dev, name, flags, max_active, flags) :
		     alloc_workqueue(name, flags, max_active, flags);
}

static void flag_make(struct kunit *test, struct flag_trial *trial, struct device *dev)
{
	const struct flag_maker *maker = test->param_value;
	bool refused = flags_are_refused(trial->flags, maker->max_active);

	trial->wq = NULL;
	if (!flags_warn(trial->flags, maker->max_active))
		trial->wq = flag_alloc(dev, trial->flags, maker->max_active);
	else if (WQ_API_CAN_SUPPRESS)
		kunit_warning_suppress(test)
			trial->wq = flag_alloc(dev, trial->flags, maker->max_active);
	else
		return;
	KUNIT_EXPECT_EQ_MSG(test, !trial->wq, refused, "flags 0x%x", trial->flags);
}

static void flag_queue(struct kunit *test, struct flag_trial *trial)
{
	struct workqueue_struct *wq = trial->wq;

	INIT_RCU_WORK(&trial->rcu, flag_rcu_fn);
	wq_api_set_class(test, &trial->rcu.work);
	atomic_set(&trial->rcu_runs, 0);
	atomic_set(&trial->now->runs, 0);
	atomic_set(&trial->on->runs, 0);
	atomic_set(&trial->later->runs, 0);
	if (!wq)
		return;
	KUNIT_EXPECT_TRUE(test, queue_work(wq, wq_api_work(trial->now)));
	KUNIT_EXPECT_TRUE(test, queue_work_on(wq_api_cpu(1), wq, wq_api_work(trial->on)));
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, &trial->later->dwork, 1));
	KUNIT_EXPECT_TRUE(test, queue_rcu_work(wq, &trial->rcu));
}

/* Each item has run once, or there is no workqueue. */
static bool flag_all_ran(struct flag_trial *trial)
{
	return !trial->wq ||
	       (atomic_read(&trial->now->runs) == 1 && atomic_read(&trial->on->runs) == 1 &&
		atomic_read(&trial->later->runs) == 1 && atomic_read(&trial->rcu_runs) == 1);
}

static bool flags_all_ran(struct flag_trial *trials)
{
	int i;

	for (i = 0; i < FLAG_BATCH; i++)
		if (!flag_all_ran(&trials[i]))
			return false;
	return true;
}

static void flag_check(struct kunit *test, struct flag_trial *trial)
{
	KUNIT_EXPECT_TRUE_MSG(test, flag_all_ran(trial),
			      "flags 0x%x: runs: %d, on a CPU %d, delayed %d, after RCU %d",
			      trial->flags, atomic_read(&trial->now->runs),
			      atomic_read(&trial->on->runs), atomic_read(&trial->later->runs),
			      atomic_read(&trial->rcu_runs));
	/* workqueue.power_efficient may have made it unbound */
	if (trial->wq && !(trial->flags & (WQ_UNBOUND | WQ_POWER_EFFICIENT)))
		KUNIT_EXPECT_EQ_MSG(test, trial->on->cpu, wq_api_cpu(1), "flags 0x%x",
				    trial->flags);
}

/* No item runs any more.  Destroy the workqueue, unless a device does. */
static void flag_end(struct flag_trial *trial, struct device *dev)
{
	if (!trial->wq)
		return;
	cancel_delayed_work_sync(&trial->later->dwork);
	flush_rcu_work(&trial->rcu);
	if (!dev)
		destroy_workqueue(trial->wq);
}

static bool flags_try_batch(struct kunit *test, struct flag_trial *trials, unsigned int first)
{
	const struct flag_maker *maker = test->param_value;
	unsigned long end = jiffies + WQ_API_TIMEOUT;
	struct device *dev = NULL;
	int i;

	if (maker->devm) {
		dev = kunit_device_register(test, "wq_api");
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	}
	wq_api_items_are_for(test, flags_of(first));
	for (i = 0; i < FLAG_BATCH; i++) {
		trials[i].flags = flags_of(first + i);
		flag_make(test, &trials[i], dev);
		flag_queue(test, &trials[i]);
	}
	while (!flags_all_ran(trials) && time_before(jiffies, end))
		usleep_range(50, 200);
	for (i = 0; i < FLAG_BATCH; i++)
		flag_end(&trials[i], dev);
	if (dev)
		kunit_device_unregister(test, dev);
	for (i = 0; i < FLAG_BATCH; i++)
		flag_check(test, &trials[i]);
	return flags_all_ran(trials);
}

/*
 * Every combination of flags, also those for which nobody has a use: either the workqueue is
 * refused, or each of its items runs once.  WQ_UNBOUND | __WQ_ORDERED with a limit of 1 is what
 * alloc_ordered_workqueue() asks for.
 */
static void any_flags(struct kunit *test)
{
	struct flag_trial *trials = flag_trials(test);
	int i;

	for (i = 0; i < FLAG_BATCHES; i++)
		if (!flags_try_batch(test, trials, i * FLAG_BATCH))
			break;
}

#ifdef CONFIG_LOCKDEP
/* Workqueues that share a lockdep map of their user. */
static void shared_lockdep_map(struct kunit *test)
{
	static struct lockdep_map map = STATIC_LOCKDEP_MAP_INIT("wq_api_map", &map);
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq;
	int i;

	for (i = 1; i <= 3; i++) {
		wq = alloc_workqueue_lockdep_map("wq_api_%d", WQ_UNBOUND, 0, &map, i);
		KUNIT_ASSERT_NOT_NULL(test, wq);
		queue_work(wq, wq_api_work(item));
		destroy_workqueue(wq);
		KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), i);
	}
	wq = alloc_ordered_workqueue_lockdep_map("wq_api_o%d", 0, &map, 1);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	queue_work(wq, wq_api_work(item));
	destroy_workqueue(wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 4);
}
#else
WQ_API_CANNOT_RUN(shared_lockdep_map, "this kernel has no lockdep")
#endif

static struct kunit_case cases[] = {
	KUNIT_CASE(work_busy_tells_states),
	KUNIT_CASE_PARAM(current_work_is_the_item, wq_api_thread_kinds),
	KUNIT_CASE(congested_while_held_back),
	KUNIT_CASE(work_on_each_cpu),
	KUNIT_CASE(process_context_is_found),
	KUNIT_CASE(nice_of_workers),
	KUNIT_CASE(system_workqueues),
	KUNIT_CASE(items_on_stack),
	KUNIT_CASE(items_declared),
	KUNIT_CASE(devm_goes_with_device),
	KUNIT_CASE(other_allocators),
	KUNIT_CASE(muddled_flags),
	KUNIT_CASE_PARAM(any_flags, flag_maker_gen_params),
	KUNIT_CASE(shared_lockdep_map),
	{}
};

struct kunit_suite wq_api_misc_suite = {
	.name = "wq_api_misc",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
