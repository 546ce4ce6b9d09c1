// SPDX-License-Identifier: GPL-2.0
/*
 * How long does a work item wait until it starts?
 *
 * On each CPU, a timer queues an item now and then: see wq_ticker.h. The probe is next to no
 * load, so it shows how long a driver's items wait beside the load of others:
 *
 *	# cd /sys/module/wq_probe/parameters
 *	# echo highpri >run; sleep 10; echo stop >run; cat run
 *	kind=highpri period_us=1000 queued=20003 ran=20003 late=41 p50_ns=... p99_ns=...
 *	p999_ns=... max_ns=...
 *
 * The result is a single line. The kinds of items are those of probe_kinds.
 * `period_us` is the time between two items of a CPU, for the next run.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wq_ticker.h"

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

struct probe {
	struct wq_ticker	ticker;
	struct wq_hist		hist;
};

/* All are guarded by the lock that is held while a parameter is read or written. */
static struct probe *probes;			/* by CPU; NULL: nothing runs */
static struct workqueue_struct *probe_wq;
static unsigned int probe_kind;
static u64 probe_period;			/* in ns, constant while probes run */
static char probe_result[256] = "none\n";

/* The ticks of the CPUs are spread over a period. */
static void probe_start_timer(void *info)
{
	struct probe *probe = info;
	u64 offset = div_u64(probe_period * smp_processor_id(), nr_cpu_ids);

	wq_ticker_start(&probe->ticker, offset);
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
		wq_ticker_init(&probes[cpu].ticker, &probes[cpu].hist);
		wq_ticker_reset(&probes[cpu].ticker, probe_wq, probe_period);
	}

	cpus_read_lock();
	for_each_online_cpu(cpu)
		smp_call_function_single(cpu, probe_start_timer, &probes[cpu], true);
	cpus_read_unlock();
	return 0;
}

/* A reader of the result may rely on the keys: add some, never rename one. */
static void probe_stop(void)
{
	struct wq_hist *hist = &probes[0].hist;
	u64 queued = 0, ran = 0, late = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		hrtimer_cancel(&probes[cpu].ticker.timer);
	destroy_workqueue(probe_wq);

	for_each_possible_cpu(cpu) {
		const struct wq_ticker *ticker = &probes[cpu].ticker;

		queued += ticker->ran + atomic_read(&ticker->owed) + ticker->refused;
		ran += ticker->ran;
		late += ticker->late;
		if (cpu)
			wq_hist_merge(hist, &probes[cpu].hist);
	}
	scnprintf(probe_result, sizeof(probe_result),
		  "kind=%s period_us=%llu queued=%llu ran=%llu late=%llu p50_ns=%llu p99_ns=%llu p999_ns=%llu max_ns=%llu\n",
		  probe_kinds[probe_kind], div_u64(probe_period, NSEC_PER_USEC),
		  queued, ran, late, wq_hist_quantile(hist, 500), wq_hist_quantile(hist, 990),
		  wq_hist_quantile(hist, 999), hist->max);
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
MODULE_VERSION(WQ_RELEASE);
