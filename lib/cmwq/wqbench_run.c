// SPDX-License-Identifier: GPL-2.0
/*
 * One run: one scope, once
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wqbench.h"

static bool bench_needs_cpus(const struct bench *bench)
{
	return bench->plan.mode == BENCH_ROAM || bench->scope == BENCH_FLOOR_OTHER ||
	       bench->scope == BENCH_FLOOR_LINE;
}

/* Submitters use only CPUs that unbound items may use, which spares isolated ones. */
static int bench_place_threads(struct bench *bench)
{
	unsigned int cpu;

	cpus_read_lock();
	cpumask_copy(bench->online, cpu_online_mask);
	cpus_read_unlock();

	if (!cpumask_and(bench->usable, bench->online, bench->allowed)) {
		pr_err("no online CPU may run unbound items\n");
		return -ENXIO;
	}
	if (bench_needs_cpus(bench) && cpumask_weight(bench->usable) < 2) {
		pr_err("mode=%s: there is only one CPU\n", bench_mode_names[bench->plan.mode]);
		return -ENXIO;
	}

	bench->nr_threads = bench->max_threads;
	if (!bench_has_wq(&bench->plan)) {
		bench_place_partners(bench);
		return 0;
	}

	cpu = cpumask_first(bench->usable);
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		bench->threads[i]->cpu = cpu;
		cpu = bench_next_cpu(bench, cpu);
	}
	return 0;
}

static void bench_clear_hists(struct wq_hist *hists[])
{
	for (unsigned int i = 0; i < NR_BENCH_FIGURES; i++) {
		if (hists[i])
			memset(hists[i], 0, sizeof(*hists[i]));
	}
}

static void bench_reset_thread(struct bench *bench, struct bench_thread *thread)
{
	thread->rounds = 0;
	thread->seen_rounds = 0;
	thread->seen_in_flight = 0;
	thread->stuck = 0;
	thread->lost = 0;
	thread->refused = 0;
	thread->next_sample = 0;
	thread->at = thread->cpu;
	thread->floor.token = NULL;
	thread->floor.word = 0;
	thread->moves = 0;
	thread->nr_rounds = 0;
	thread->round_cpus = 0;
	thread->bad_pod = false;
	cpumask_clear(&thread->used);
	atomic_set(&thread->twice, 0);
	atomic_set(&thread->outside, 0);
	bench_clear_hists(thread->hist);
	wq_ticker_reset(&thread->probe, bench->probe_wq, BENCH_PROBE_NS);
	for (unsigned int i = 0; i < thread->nr_items; i++) {
		atomic_set(&thread->items[i].owed, 0);
		thread->items[i].queued_at = 0;
	}
}

static void bench_reset(struct bench *bench)
{
	memset(&bench->workers, 0, sizeof(bench->workers));
	bench_clear_hists(bench->hist);

	for (unsigned int i = 0; i < bench->nr_threads; i++)
		bench_reset_thread(bench, bench->threads[i]);
}

/* After a flush, an item that did not run is lost. Items given up on are counted already. */
static unsigned int bench_count_lost(const struct bench_thread *thread)
{
	unsigned int lost = thread->lost;

	if (lost)
		return lost;
	for (unsigned int i = 0; i < thread->nr_items; i++)
		lost += wq_tally_lost(&thread->items[i].owed);
	return lost;
}

static void bench_collect_more(struct bench *bench, struct bench_thread *thread,
			       struct bench_result *result)
{
	const struct wq_ticker *probe = &thread->probe;

	for (unsigned int i = 0; i < NR_BENCH_FIGURES; i++) {
		if (bench->hist[i])
			wq_hist_merge(bench->hist[i], thread->hist[i]);
	}
	cpumask_or(bench->scratch, bench->scratch, &thread->used);
	result->nr_rounds += thread->nr_rounds;
	result->round_cpus += thread->round_cpus;
	result->moves += thread->moves;

	result->probes += probe->ran;
	result->late += probe->late;
	result->refused += probe->refused;
	result->lost += wq_tally_lost(&probe->owed);
	result->twice += wq_tally_excess(&probe->owed);
}

static void bench_collect(struct bench *bench, struct bench_result *result)
{
	u64 begin = U64_MAX, end = 0;

	cpumask_clear(bench->scratch);
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		begin = min(begin, thread->begin);
		end = max(end, thread->end);
		result->lost += bench_count_lost(thread);
		result->refused += thread->refused;
		result->twice += atomic_read(&thread->twice);
		result->outside += atomic_read(&thread->outside);
		result->bad_pods += thread->bad_pod;
		bench_collect_more(bench, thread, result);
	}
	result->elapsed = max_t(u64, end - begin, 1);
	result->items = bench->hist[BENCH_CALL]->total;
	result->cpus = cpumask_weight(bench->scratch);
	result->nr_threads = bench->nr_threads;
	if (bench->wq)
		result->nr_workers = atomic_read(&bench->workers.nr);
}

/*
 * A CPU that comes or goes changes the pods during a run and moves submitters.
 * That is not the workqueue's fault, so the pods of such a run are not checked.
 * The callback runs before the scheduler moves anything off a CPU. A CPU on its
 * way up is in the online mask before the callback runs.
 */
static void bench_check_hotplug(struct bench *bench, struct bench_result *result,
				int events_before)
{
	result->hotplug = atomic_read(&bench_hotplug_events) - events_before;
	if (!result->hotplug && !cpumask_equal(bench->online, cpu_online_mask))
		result->hotplug = 1;
	if (result->hotplug) {
		result->outside = 0;
		result->bad_pods = 0;
	}
}

/* A pass that is interrupted does not wait for whole batches. */
static void bench_take_back(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		for (unsigned int j = 0; j < thread->nr_items; j++)
			cancel_work_sync(&thread->items[j].work);
	}
}

int bench_measure(struct bench *bench, enum bench_scope actual, struct bench_result *result)
{
	int events = atomic_read(&bench_hotplug_events);
	int ret;

	bench->scope = actual;
	ret = bench_place_threads(bench);
	if (ret)
		return ret;
	bench_reset(bench);

	for (unsigned int i = 0; bench->judge && i < bench->nr_threads; i++) {
		ret = bench_find_pod(bench->threads[i], actual);
		if (ret)
			return ret;
	}

	ret = bench_run_threads(bench);
	if (ret)
		bench_take_back(bench);
	/* Late and repeated runs happen before this returns, and are counted. */
	if (bench->wq)
		flush_workqueue(bench->wq);
	if (bench->probe_wq)
		flush_workqueue(bench->probe_wq);
	if (ret)
		return ret;

	bench_collect(bench, result);
	bench_check_hotplug(bench, result, events);
	return 0;
}
