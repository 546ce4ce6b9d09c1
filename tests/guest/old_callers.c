// SPDX-License-Identifier: GPL-2.0
/*
 * A module as it would be written for Linux 6.12: it uses the names of that time, and those
 * that came later.  With FLUSH it flushes a system workqueue, which the compiler has to
 * notice.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/workqueue.h>

static atomic_t runs;

static void count_fn(struct work_struct *work)
{
	atomic_inc(&runs);
}

static DECLARE_WORK(declared, count_fn);
static DECLARE_DELAYED_WORK(declared_later, count_fn);
static struct delayed_work later;
static struct work_struct work;
static struct rcu_work after_readers;

static int expected;

/* queue the item on a workqueue, and wait for it */
static void run_on(struct workqueue_struct *wq)
{
	expected += queue_work(wq, &work);
	flush_work(&work);
}

static void run_and_destroy(struct workqueue_struct *wq)
{
	if (!wq)
		return;
	run_on(wq);
	expected += queue_delayed_work(wq, &later, 3600 * HZ);
	expected += !mod_delayed_work(wq, &later, 1);
	flush_delayed_work(&later);
	expected += queue_rcu_work(wq, &after_readers);
	flush_rcu_work(&after_readers);
	flush_workqueue(wq);
	drain_workqueue(wq);
	destroy_workqueue(wq);
}

static long answer(void *arg)
{
	return 42;
}

static int __init old_callers_init(void)
{
	INIT_WORK(&work, count_fn);
	INIT_DELAYED_WORK(&later, count_fn);
	INIT_RCU_WORK(&after_readers, count_fn);

	/* the old names and the new ones */
	run_on(system_wq);
	run_on(system_percpu_wq);
	run_on(system_unbound_wq);
	run_on(system_dfl_wq);
	run_on(system_highpri_wq);
	run_on(system_long_wq);
	run_on(system_freezable_wq);
	run_on(system_power_efficient_wq);
	run_on(system_freezable_power_efficient_wq);

	expected += schedule_work(&declared);
	flush_work(&declared);
	expected += schedule_delayed_work(&declared_later, 1);
	flush_delayed_work(&declared_later);

	run_and_destroy(alloc_workqueue("old_percpu", PERCPU, 0));
	run_and_destroy(alloc_workqueue("old_reclaim", PERCPU | WQ_MEM_RECLAIM, 1));
	run_and_destroy(alloc_workqueue("new_percpu", WQ_PERCPU, 0));
	run_and_destroy(alloc_workqueue("old_unbound_%d", WQ_UNBOUND | WQ_SYSFS, 4, 1));
	run_and_destroy(alloc_ordered_workqueue("old_ordered", WQ_FREEZABLE));
	run_and_destroy(create_workqueue("old_create"));
	run_and_destroy(create_singlethread_workqueue("old_single"));
	run_and_destroy(create_freezable_workqueue("old_freezable"));

#ifdef FLUSH
	flush_workqueue(FLUSH);
#endif
	pr_info("old_callers: %d of %d, system_wq %s, system_unbound_wq %s, cpu %ld\n",
		atomic_read(&runs), expected,
		system_wq == system_percpu_wq ? "same" : "other",
		system_unbound_wq == system_dfl_wq ? "same" : "other",
		work_on_cpu(0, answer, NULL));
#ifdef ON_CPU_SAFE
	pr_info("old_callers: safe: cpu %ld, gone %ld\n", work_on_cpu_safe(0, answer, NULL),
		work_on_cpu_safe(ON_CPU_SAFE, answer, NULL));
#endif
	return 0;
}

static void __exit old_callers_exit(void)
{
}

module_init(old_callers_init);
module_exit(old_callers_exit);
MODULE_DESCRIPTION("Uses the workqueue as modules for Linux 6.12 do");
MODULE_LICENSE("GPL");
