// SPDX-License-Identifier: GPL-2.0
/*
 * What lives as long as a pass
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "wqbench.h"

/*
 * Histograms and batches can be larger than the largest block of the page allocator. If
 * there is not enough memory, the benchmark gives up and does not wake the OOM killer.
 */
void *bench_zalloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL | __GFP_RETRY_MAYFAIL);
}

static bool bench_alloc_hists(const struct bench_plan *plan, struct wq_hist *hists[])
{
	for (unsigned int i = 0; i < NR_BENCH_FIGURES; i++) {
		if (!bench_measures(plan, i))
			continue;
		hists[i] = bench_zalloc(sizeof(*hists[i]));
		if (!hists[i])
			return false;
	}
	return true;
}

static void bench_free_hists(struct wq_hist *hists[])
{
	for (unsigned int i = 0; i < NR_BENCH_FIGURES; i++)
		kvfree(hists[i]);
}

static unsigned int bench_nr_items(struct bench *bench)
{
	return 2 * bench->plan.in_flight;
}

static struct bench_thread *bench_alloc_thread(struct bench *bench)
{
	unsigned int nr = bench_nr_items(bench);
	struct bench_thread *thread;

	thread = bench_zalloc(struct_size(thread, items, nr));
	if (!thread)
		return NULL;
	if (!bench_alloc_hists(&bench->plan, thread->hist)) {
		bench_free_hists(thread->hist);
		kvfree(thread);
		return NULL;
	}

	thread->bench = bench;
	thread->nr_items = nr;
	rcuwait_init(&thread->idle);
	init_completion(&thread->pod_seen);
	INIT_WORK(&thread->pod_work, bench_pod_fn);
	wq_ticker_init(&thread->probe, thread->hist[BENCH_PROBE]);
	for (unsigned int i = 0; i < nr; i++) {
		thread->items[i].owner = thread;
		INIT_WORK(&thread->items[i].work, bench_item_function(&bench->plan, i));
	}
	return thread;
}

void bench_close(struct bench *bench)
{
	if (bench->probe_wq)
		destroy_workqueue(bench->probe_wq);
	if (bench->wq)
		destroy_workqueue(bench->wq);
	for (unsigned int i = 0; bench->threads && i < bench->max_threads; i++) {
		if (!bench->threads[i])
			break;
		bench_free_hists(bench->threads[i]->hist);
		kvfree(bench->threads[i]);
	}
	kvfree(bench->threads);
	bench_free_hists(bench->hist);
	free_cpumask_var(bench->scratch);
	free_cpumask_var(bench->usable);
	free_cpumask_var(bench->online);
	free_cpumask_var(bench->allowed);
	kvfree(bench);
}

/* Does this leave a quarter of the memory?  If not, others could be killed for want of it. */
static bool bench_threads_fit(struct bench *bench)
{
	size_t size = struct_size_t(struct bench_thread, items, bench_nr_items(bench));
	size_t need = array_size(bench->max_threads, size);

	return need >> PAGE_SHIFT <= si_mem_available() / 4 * 3;
}

static int bench_alloc_threads(struct bench *bench)
{
	bench->max_threads = bench->plan.threads;
	if (!bench->max_threads) {
		cpumask_and(bench->scratch, cpu_online_mask, bench->allowed);
		bench->max_threads = max(cpumask_weight(bench->scratch), 1U);
	}

	if (!bench_threads_fit(bench))
		return -ENOMEM;
	bench->threads = bench_zalloc(array_size(bench->max_threads, sizeof(*bench->threads)));
	if (!bench->threads)
		return -ENOMEM;
	for (unsigned int i = 0; i < bench->max_threads; i++) {
		bench->threads[i] = bench_alloc_thread(bench);
		if (!bench->threads[i])
			return -ENOMEM;
		if (signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void bench_read_allowed(struct bench *bench)
{
	char *buf = kmalloc(PAGE_SIZE, GFP_KERNEL);

	if (!buf || bench_read_file("/sys/devices/virtual/workqueue/cpumask", buf, PAGE_SIZE) ||
	    cpumask_parse(buf, bench->allowed))
		cpumask_copy(bench->allowed, cpu_possible_mask);
	kfree(buf);
}

/* @more: flags beside those of the kind; an ordered workqueue ignores them */
struct workqueue_struct *bench_alloc_wq(const struct bench_plan *plan, unsigned int more)
{
	static const unsigned int flags[NR_BENCH_KINDS] = {
		[BENCH_UNBOUND]		= WQ_UNBOUND,
		[BENCH_UNBOUND_HIGHPRI]	= WQ_UNBOUND | WQ_HIGHPRI,
		[BENCH_PERCPU]		= WQ_PERCPU,
		[BENCH_RECLAIM]		= WQ_PERCPU | WQ_MEM_RECLAIM,
		[BENCH_HIGHPRI]		= WQ_PERCPU | WQ_HIGHPRI,
		[BENCH_BH]		= WQ_COMPAT_BH,
	};

	if (plan->kind == BENCH_ORDERED)
		return alloc_ordered_workqueue(BENCH_WQ_NAME, 0);
	return alloc_workqueue(BENCH_WQ_NAME, flags[plan->kind] | more, plan->max_active);
}

/* Like the measured workqueue, it has workers of a CPU or of a pod. */
static struct workqueue_struct *bench_alloc_probe_wq(const struct bench_plan *plan)
{
	unsigned int flags = bench_is_percpu(plan) ? WQ_PERCPU : WQ_UNBOUND;

	return alloc_workqueue(BENCH_WQ_NAME "_probe", flags | WQ_HIGHPRI, 0);
}

static int bench_open_workqueue(struct bench *bench)
{
	char buf[16];
	int ret;

	bench->wq = bench_alloc_wq(&bench->plan, bench_has_scopes(&bench->plan) ? WQ_SYSFS : 0);
	if (bench->wq && bench->plan.mode == BENCH_MIXED)
		bench->probe_wq = bench_alloc_probe_wq(&bench->plan);
	if (!bench->wq || (bench->plan.mode == BENCH_MIXED && !bench->probe_wq)) {
		pr_err("cannot create the workqueue\n");
		return -ENOMEM;
	}
	if (!bench_has_scopes(&bench->plan))
		return 0;

	ret = bench_read_file(BENCH_WQ_DIR "max_active", buf, sizeof(buf));
	if (ret) {
		pr_err("cannot read " BENCH_WQ_DIR ": %pe; is sysfs mounted on /sys?\n",
		       ERR_PTR(ret));
		return ret;
	}
	return bench_set_strict(bench->plan.strict);
}

int bench_setup(struct bench *bench)
{
	int ret;

	if (!zalloc_cpumask_var(&bench->allowed, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&bench->online, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&bench->usable, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&bench->scratch, GFP_KERNEL))
		return -ENOMEM;

	if (!bench_alloc_hists(&bench->plan, bench->hist))
		return -ENOMEM;

	ret = bench_calibrate();
	if (!ret && (bench->plan.mode == BENCH_SPREAD || bench->plan.mode == BENCH_MIXED))
		ret = bench_calibrate_burn(bench);
	if (ret)
		return ret;

	init_waitqueue_head(&bench->gate);
	init_waitqueue_head(&bench->done);
	bench->judge = bench_can_judge(&bench->plan);
	bench_read_allowed(bench);
	ret = bench->plan.mode == BENCH_LIFE ? 0 : bench_alloc_threads(bench);
	if (ret || !bench_has_wq(&bench->plan))
		return ret;
	return bench_open_workqueue(bench);
}
