// SPDX-License-Identifier: GPL-2.0
/*
 * What a run has found, for people and for scripts
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/math64.h>

#include "wqbench.h"

u64 bench_violations(const struct bench_result *result)
{
	return (u64)result->lost + result->twice + result->outside +
	       result->refused + result->bad_pods;
}

static const char *bench_judged(const struct bench *bench,
				const struct bench_result *result)
{
	if (!bench->judge)
		return "no";
	return result->hotplug ? "hotplug" : "yes";
}

/* The keys are read by scripts/wqlab/bench/parse.py: add some, never rename one. */
void bench_report(const struct bench *bench, enum bench_scope scope,
		  enum bench_scope actual, unsigned int repeat,
		  const struct bench_result *result)
{
	const struct bench_plan *plan = &bench->plan;
	u64 rate = div64_u64(result->items * NSEC_PER_SEC, result->elapsed);
	u64 p50 = wq_hist_quantile(bench->hist, 500);
	u64 p90 = wq_hist_quantile(bench->hist, 900);
	u64 p95 = wq_hist_quantile(bench->hist, 950);
	u64 p99 = wq_hist_quantile(bench->hist, 990);
	u64 mean = div64_u64(bench->hist->sum, max_t(u64, bench->hist->total, 1));
	u64 max = bench->hist->max;

	pr_info("%-11s %9llu items/s; queueing p50 %llu p90 %llu p95 %llu p99 %llu max %llu ns; %u kworkers\n",
		bench_scope_names[scope], rate, p50, p90, p95, p99, max,
		result->nr_workers);
	pr_info("result scope=%s actual=%s repeat=%u mode=%s strict=%d threads=%u in_flight=%u items=%llu elapsed_ns=%llu items_per_s=%llu mean_ns=%llu p50_ns=%llu p90_ns=%llu p95_ns=%llu p99_ns=%llu max_ns=%llu kworkers=%u lost=%u twice=%u outside=%u refused=%u bad_pods=%u judged=%s hotplug=%u clock=%s\n",
		bench_scope_names[scope], bench_scope_names[actual], repeat,
		plan->batch ? "batch" : "latency", plan->strict,
		result->nr_threads, plan->in_flight, result->items,
		result->elapsed, rate, mean, p50, p90, p95, p99, max,
		result->nr_workers, result->lost, result->twice,
		result->outside, result->refused, result->bad_pods,
		bench_judged(bench, result), result->hotplug, BENCH_CLOCK);

	if (bench_violations(result))
		pr_err("%s, repeat %u: %u items lost, %u ran twice, %u ran outside their pod, %u refused, %u pods wrong\n",
		       bench_scope_names[scope], repeat, result->lost,
		       result->twice, result->outside, result->refused,
		       result->bad_pods);
}

void bench_pass_over(struct bench *bench, enum bench_scope scope)
{
	if (bench->passed_over & BIT(scope))
		return;
	bench->passed_over |= BIT(scope);
	pr_info("this kernel has no scope %s: passed over\n", bench_scope_names[scope]);
}

void bench_conclude(const struct bench *bench, int error)
{
	const char *status = "ok";

	if (error == -EINTR)
		status = "interrupted";
	else if (bench->violations)
		status = "violated";
	else if (error)
		status = "failed";

	pr_info("done status=%s runs=%u violations=%llu error=%d\n", status,
		bench->nr_runs, bench->violations, error);
}
