// SPDX-License-Identifier: GPL-2.0
/*
 * Boot, and the system's workqueues.
 *
 * Boot takes three steps.  workqueue_init_early() makes it possible to create workqueues
 * and to queue.  workqueue_init() starts the workers.  workqueue_init_topology() divides
 * the CPUs into pods once they are all up.
 */
#include <linux/init.h>
#include <linux/sched/isolation.h>

#include "kick.h"
#include "pools.h"
#include "running.h"
#include "worker.h"
#include "workqueues.h"

struct system_wq_desc {
	struct workqueue_struct **wq;
	const char *name;
	unsigned int flags;
	int max_active;
};

static const struct system_wq_desc system_wqs[] __initconst = {
	{ &system_wq, "events", WQ_PERCPU | __WQ_DEPRECATED },
	{ &system_percpu_wq, "events", WQ_PERCPU },
	{ &system_highpri_wq, "events_highpri", WQ_PERCPU | WQ_HIGHPRI },
	{ &system_long_wq, "events_long", WQ_PERCPU },
	{ &system_unbound_wq, "events_unbound", WQ_UNBOUND | __WQ_DEPRECATED, WQ_MAX_ACTIVE },
	{ &system_dfl_wq, "events_unbound", WQ_UNBOUND, WQ_MAX_ACTIVE },
	{ &system_dfl_long_wq, "events_dfl_long", WQ_UNBOUND, WQ_MAX_ACTIVE },
	{ &system_freezable_wq, "events_freezable", WQ_PERCPU | WQ_FREEZABLE },
	{ &system_power_efficient_wq, "events_power_efficient", WQ_PERCPU | WQ_POWER_EFFICIENT },
	{ &system_freezable_power_efficient_wq, "events_freezable_pwr_efficient",
	  WQ_PERCPU | WQ_POWER_EFFICIENT | WQ_FREEZABLE },
	{ &system_bh_wq, "events_bh", WQ_PERCPU | WQ_BH },
	{ &system_bh_highpri_wq, "events_bh_highpri", WQ_PERCPU | WQ_BH | WQ_HIGHPRI },
};

static void __init percpu_pool_init(struct worker_pool *pool, int cpu, bool highpri)
{
	wq_boot_needs(!init_worker_pool(pool));
	pool->cpu = cpu;
	pool->attrs->nice = highpri ? HIGHPRI_NICE_LEVEL : 0;
	pool->attrs->affn_strict = true;
	cpumask_copy(pool->attrs->__pod_cpumask, cpumask_of(cpu));
	cpumask_copy(pool->attrs->cpumask, cpumask_of(cpu));

	guard(mutex)(&wq_pool_mutex);
	wq_boot_needs(!worker_pool_assign_id(pool));
}

/**
 * workqueue_init_early - boot: make queueing possible
 *
 * Context: one CPU, no scheduling yet.  Items wait until workqueue_init().
 */
void __init workqueue_init_early(void)
{
	const struct system_wq_desc *desc;
	int cpu, i;

	debug_work_init(cancel_work_sync);
	wq_set_own_work(&own_pools_work);
	affinity_init_early();
	apply_init_early();
	pwq_cache_init();

	/* with nohz_full, let as much as possible move to housekeeping CPUs */
	if (housekeeping_enabled(HK_TYPE_TICK))
		wq_power_efficient = true;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
			percpu_pool_init(bh_pool(cpu, i), cpu, i);
			bh_pool_init(bh_pool(cpu, i), i);
		}
		for (i = 0; i < NR_STD_WORKER_POOLS; i++)
			percpu_pool_init(cpu_pool(cpu, i), cpu, i);
	}

	for (desc = system_wqs; desc < system_wqs + ARRAY_SIZE(system_wqs); desc++) {
		if (IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS) && (desc->flags & __WQ_DEPRECATED))
			continue;
		*desc->wq = alloc_workqueue("%s", desc->flags, desc->max_active, desc->name);
		wq_boot_needs(*desc->wq);
	}

	own_pools_wq = alloc_ordered_workqueue("own_pools", 0);
	wq_boot_needs(own_pools_wq);

	/* where the old names are not deprecated, an old and a new name mean one workqueue */
	if (IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS)) {
		system_wq = system_percpu_wq;
		system_unbound_wq = system_dfl_wq;
	}
}

static void __init start_percpu_pools(int cpu)
{
	int i;

	for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
		struct worker_pool *bh = bh_pool(cpu, i);
		struct worker_pool *pool = cpu_pool(cpu, i);

		bh->node = cpu_to_node(cpu);
		pool->node = cpu_to_node(cpu);

		/* the softirq of a CPU needs no thread; kick it, as work may wait for it */
		wq_boot_needs(create_worker(bh));
		raw_spin_lock_irq(&bh->lock);
		pool_unlock_wake_irq(bh, kick_pool(bh));
		if (!cpu_online(cpu))
			continue;
		pool->flags &= ~POOL_DISASSOCIATED;
		wq_boot_needs(create_worker(pool));
	}
}

/**
 * workqueue_init - boot: start the workers
 *
 * Context: may sleep; the boot CPU is the only one.
 */
void __init workqueue_init(void)
{
	struct workqueue_struct *wq;
	int cpu;

	wq_cpu_intensive_thresh_init();
	pwq_reaper_start();

	/* without workers no item runs, so nobody else makes workqueues, and the list stays */
	list_for_each_entry(wq, &workqueues, list)
		WARN(init_rescuer(wq), "workqueue: failed to create early rescuer for %s\n",
		     wq->name);

	/*
	 * From here on items run.  What they make gets its rescuer and workers at once.  They make
	 * no pool before the older ones have got their workers.
	 */
	wq_online = true;
	wq_boot_needs(!unbound_pools_start());
	for_each_possible_cpu(cpu)
		start_percpu_pools(cpu);

	wq_watchdog_init();
}
