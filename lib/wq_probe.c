// SPDX-License-Identifier: GPL-2.0
/*
 * How long does a work item wait until it starts?
 *
 * On each CPU, a timer queues an item now and then, from interrupt context like the driver
 * of a device. The item notes how long it has waited. The probe is next to no load, so it shows
 * how long a driver's items wait beside the load of others:
 *
 *	# cd /sys/module/wq_probe/parameters
 *	# echo highpri >run; sleep 10; echo stop >run; cat run
 *	kind=highpri period_us=1000 queued=20003 ran=20003 late=41 p50_ns=... p99_ns=...
 *	p999_ns=... max_ns=...
 *
 * The result is a single line. The kinds of items are those of probe_kinds.
 * `period_us` is the time between two items of a CPU, for the next run.
 *
 * An item that still waits at the next tick is not queued again. `late` counts such ticks.
 * If only items counted, a wait of one second would be one sample. But every item that was
 * due in that second would have waited as well. So each of these ticks is a sample, too: the
 * time from the tick to the start of the item.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wq_compat.h"
#include "wq_hist.h"

#define PROBE_TIMER_MODE	HRTIMER_MODE_REL_PINNED_HARD
#define PROBE_MIN_US		50
#define PROBE_MAX_US		USEC_PER_SEC

static unsigned int period_us = 1000;
module_param(period_us, uint, 0644);
MODULE_PARM_DESC(period_us, "microseconds between two items of a CPU, 50 to 1000000 (default 1000)");

static const char * const probe_kinds[] = {
	"percpu", "highpri", "unbound", "unbound_highpri",
};

static const unsigned int probe_flags[ARRAY_SIZE(probe_kinds)] = {
	WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI, WQ_UNBOUND, WQ_UNBOUND | WQ_HIGHPRI,
};

/* What one CPU queues: one item. A tick queues it only if its last run has ended. */
struct probe {
	struct hrtimer		timer;
	struct work_struct	work;
	bool			waiting;	/* set by the tick, cleared by the item */
	u64			queued_at;	/* ns; the item may read it while @waiting */
	u64			queued;		/* written by the tick */
	u64			late;		/* written by the tick */
	u64			ran;		/* written by the item */
	struct wq_hist		hist;		/* written by the item */
};

/* All are guarded by the lock that is held while a parameter is read or written. */
static struct probe *probes;			/* by CPU; NULL: nothing runs */
static struct workqueue_struct *probe_wq;
static unsigned int probe_kind;
static u64 probe_period;			/* in ns, constant while probes run */
static char probe_result[256] = "none\n";

static enum hrtimer_restart probe_tick(struct hrtimer *timer)
{
	struct probe *probe = container_of(timer, struct probe, timer);

	/* Pairs with the release by the item: it no longer reads what is written here. */
	if (smp_load_acquire(&probe->waiting)) {
		probe->late++;
	} else {
		probe->queued++;
		WRITE_ONCE(probe->waiting, true);
		probe->queued_at = ktime_get_ns();
		queue_work(probe_wq, &probe->work);
	}
	hrtimer_forward_now(timer, ns_to_ktime(probe_period));
	return HRTIMER_RESTART;
}

static void probe_work_fn(struct work_struct *work)
{
	struct probe *probe = container_of(work, struct probe, work);

	wq_hist_add_missed(&probe->hist, ktime_get_ns() - probe->queued_at, probe_period);
	probe->ran++;
	/* Pairs with the acquire by the tick. */
	smp_store_release(&probe->waiting, false);
}

/* The ticks of the CPUs are spread over a period. */
static void probe_start_timer(void *info)
{
	struct probe *probe = info;
	u64 offset = div_u64(probe_period * smp_processor_id(), nr_cpu_ids);

	hrtimer_start(&probe->timer, ns_to_ktime(probe_period + offset), PROBE_TIMER_MODE);
}

static int probe_start(unsigned int kind)
{
	unsigned int cpu;

	if (period_us < PROBE_MIN_US || period_us > PROBE_MAX_US)
		return -ERANGE;

	probes = kvcalloc(nr_cpu_ids, sizeof(*probes), GFP_KERNEL);
	probe_wq = probes ? alloc_workqueue("wq_probe", probe_flags[kind], 0) : NULL;
	if (!probe_wq) {
		kvfree(probes);
		probes = NULL;
		return -ENOMEM;
	}

	probe_kind = kind;
	probe_period = (u64)period_us * NSEC_PER_USEC;
	for_each_possible_cpu(cpu) {
		INIT_WORK(&probes[cpu].work, probe_work_fn);
		hrtimer_setup(&probes[cpu].timer, probe_tick, CLOCK_MONOTONIC, PROBE_TIMER_MODE);
	}

	cpus_read_lock();
	for_each_online_cpu(cpu)
		smp_call_function_single(cpu, probe_start_timer, &probes[cpu], true);
	cpus_read_unlock();
	return 0;
}

/* Adds all probes up in the first one. */
static const struct probe *probe_sum(void)
{
	struct probe *sum = &probes[cpumask_first(cpu_possible_mask)];
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		const struct probe *probe = &probes[cpu];

		if (probe == sum)
			continue;
		sum->queued += probe->queued;
		sum->late += probe->late;
		sum->ran += probe->ran;
		wq_hist_merge(&sum->hist, &probe->hist);
	}
	return sum;
}

/* A reader of the result may rely on the keys: add some, never rename one. */
static void probe_stop(void)
{
	const struct probe *sum;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		hrtimer_cancel(&probes[cpu].timer);
	destroy_workqueue(probe_wq);

	sum = probe_sum();
	scnprintf(probe_result, sizeof(probe_result),
		  "kind=%s period_us=%llu queued=%llu ran=%llu late=%llu p50_ns=%llu p99_ns=%llu p999_ns=%llu max_ns=%llu\n",
		  probe_kinds[probe_kind], div_u64(probe_period, NSEC_PER_USEC),
		  sum->queued, sum->ran, sum->late, wq_hist_quantile(&sum->hist, 500),
		  wq_hist_quantile(&sum->hist, 990), wq_hist_quantile(&sum->hist, 999),
		  sum->hist.max);
	kvfree(probes);
	probes = NULL;
}

/* While probes run, the module cannot be unloaded. */
static int probe_set_run(const char *val, const struct kernel_param *kp)
{
	int kind, ret;

	if (sysfs_streq(val, "stop")) {
		if (!probes)
			return -ENODATA;
		probe_stop();
		module_put(THIS_MODULE);
		return 0;
	}

	kind = sysfs_match_string(probe_kinds, val);
	if (kind < 0)
		return kind;
	if (probes)
		return -EBUSY;
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	ret = probe_start(kind);
	if (ret)
		module_put(THIS_MODULE);
	return ret;
}

static int probe_get_run(char *buffer, const struct kernel_param *kp)
{
	return strscpy(buffer, probes ? "running\n" : probe_result, PAGE_SIZE);
}

static const struct kernel_param_ops probe_run_ops = {
	.set = probe_set_run,
	.get = probe_get_run,
};

module_param_cb(run, &probe_run_ops, NULL, 0644);
MODULE_PARM_DESC(run, "write percpu, highpri, unbound or unbound_highpri to start, and stop to end; read the result");

MODULE_DESCRIPTION("Probe of how long work items wait until they start");
MODULE_LICENSE("GPL");
