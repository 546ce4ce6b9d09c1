// SPDX-License-Identifier: GPL-2.0
/*
 * What a run has found, for people and for scripts
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/string.h>

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

static const struct {
	const char	*name, *key;
	unsigned int	per_mille;
} bench_quantiles[] = {
	{ "p50", "p50", 500 },
	{ "p90", "p90", 900 },
	{ "p95", "p95", 950 },
	{ "p99", "p99", 990 },
	{ "p99.9", "p999", 999 },
};

/* What the keys of a figure begin with, and its name for people. */
static const struct {
	const char	*key, *name;
} bench_figures[NR_BENCH_FIGURES] = {
	[BENCH_CALL]	= { "", "queueing" },
	[BENCH_START]	= { "start_", "start" },
	[BENCH_DONE]	= { "done_", "done" },
	[BENCH_MAKESPAN] = { "makespan_", "makespan" },
	[BENCH_PROBE]	= { "probe_", "probe" },
	[BENCH_CREATE]	= { "create_", "create" },
	[BENCH_FLUSH]	= { "flush_", "flush" },
	[BENCH_CHANGE]	= { "change_", "change" },
	[BENCH_DESTROY]	= { "destroy_", "destroy" },
};

/* What "run" contains: the last run, and how its pass ended. Guarded by bench_lock. */
static struct {
	unsigned int	len;
	char		text[2 * BENCH_LINE + 128];
} bench_last;

static_assert(sizeof(bench_last.text) <= PAGE_SIZE);	/* a file in sysfs has no more */

void bench_forget(void)
{
	bench_last.len = 0;
}

int bench_show_last(char *buffer)
{
	memcpy(buffer, bench_last.text, bench_last.len);
	return bench_last.len;
}

/* A line for scripts. */
static void bench_tell(const struct bench *bench, const char *kind, const char *line)
{
	if (!bench->plan.quiet)
		pr_info("%s %s\n", kind, line);
	bench_last.len += scnprintf(bench_last.text + bench_last.len,
				    sizeof(bench_last.text) - bench_last.len, "%s %s\n", kind,
				    line);
}

static void bench_begin_line(struct bench *bench)
{
	bench->line_len = 0;
}

static __printf(2, 3) void bench_append(struct bench *bench, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	bench->line_len += vscnprintf(bench->line + bench->line_len,
				      sizeof(bench->line) - bench->line_len, format, args);
	va_end(args);
}

/* For people: " start p50 1 p90 2 ... max 3 ns" */
static void bench_append_words(struct bench *bench, enum bench_figure figure)
{
	const struct wq_hist *hist = bench->hist[figure];

	bench_append(bench, " %s", bench_figures[figure].name);
	for (unsigned int i = 0; i < ARRAY_SIZE(bench_quantiles); i++)
		bench_append(bench, " %s %llu", bench_quantiles[i].name,
			     wq_hist_quantile(hist, bench_quantiles[i].per_mille));
	bench_append(bench, " max %llu ns", hist->max);
}

/* For scripts: " start_p50_ns=1 start_p90_ns=2 ... start_max_ns=3" */
static void bench_append_keys(struct bench *bench, enum bench_figure figure)
{
	const struct wq_hist *hist = bench->hist[figure];
	const char *key = bench_figures[figure].key;

	for (unsigned int i = 0; i < ARRAY_SIZE(bench_quantiles); i++)
		bench_append(bench, " %s%s_ns=%llu", key, bench_quantiles[i].key,
			     wq_hist_quantile(hist, bench_quantiles[i].per_mille));
	bench_append(bench, " %smax_ns=%llu", key, hist->max);
}

static void bench_report_to_people(struct bench *bench, enum bench_scope scope, u64 rate,
				   const struct bench_result *result)
{
	bench_begin_line(bench);
	bench_append_words(bench, BENCH_CALL);
	pr_info("%-11s %9llu items/s;%s; %u kworkers\n", bench_scope_names[scope], rate,
		bench->line, result->nr_workers);

	bench_begin_line(bench);
	bench_append_words(bench, BENCH_START);
	bench_append(bench, ";");
	bench_append_words(bench, BENCH_DONE);
	pr_info("%-11s wait:%s\n", bench_scope_names[scope], bench->line);

	for (unsigned int figure = BENCH_MAKESPAN; figure < NR_BENCH_FIGURES; figure++) {
		if (!bench->hist[figure])
			continue;
		bench_begin_line(bench);
		bench_append_words(bench, figure);
		pr_info("%-11s also:%s\n", bench_scope_names[scope], bench->line);
	}
}

/* The keys are read by scripts/wqlab/bench/parse.py: add some, never rename one. */
static void bench_report_result(struct bench *bench, enum bench_scope scope,
				enum bench_scope actual, unsigned int repeat, u64 rate,
				const struct bench_result *result)
{
	const struct bench_plan *plan = &bench->plan;
	const struct wq_hist *calls = bench->hist[BENCH_CALL];

	bench_begin_line(bench);
	bench_append(bench, "scope=%s actual=%s repeat=%u wq=%s mode=%s strict=%d",
		     bench_scope_names[scope], bench_scope_names[actual], repeat,
		     bench_kind_names[plan->kind], bench_mode_names[plan->mode], plan->strict);
	bench_append(bench, " threads=%u in_flight=%u max_active=%u burn_us=%u",
		     result->nr_threads, plan->in_flight, plan->max_active, plan->burn_us);
	bench_append(bench, " items=%llu elapsed_ns=%llu items_per_s=%llu mean_ns=%llu",
		     result->items, result->elapsed, rate,
		     div64_u64(calls->sum, max_t(u64, calls->total, 1)));
	bench_append_keys(bench, BENCH_CALL);
	bench_append(bench, " kworkers=%u lost=%u twice=%u outside=%u refused=%u bad_pods=%u",
		     result->nr_workers, result->lost, result->twice, result->outside,
		     result->refused, result->bad_pods);
	bench_append(bench, " judged=%s hotplug=%u clock=%s", bench_judged(bench, result),
		     result->hotplug, BENCH_CLOCK);
	bench_tell(bench, "result", bench->line);
}

/* The second line of a result, with the same scope and repeat. */
static void bench_report_wait(struct bench *bench, enum bench_scope scope, unsigned int repeat,
			      const struct bench_result *result)
{
	const struct bench_plan *plan = &bench->plan;
	u64 cpus = div64_u64(100 * result->round_cpus, max_t(u64, result->nr_rounds, 1));

	bench_begin_line(bench);
	bench_append(bench, "scope=%s repeat=%u mode=%s sample=%u waits=%llu",
		     bench_scope_names[scope], repeat, bench_mode_names[plan->mode], plan->sample,
		     bench->hist[BENCH_START]->total);
	for (unsigned int figure = BENCH_START; figure < NR_BENCH_FIGURES; figure++) {
		if (bench->hist[figure])
			bench_append_keys(bench, figure);
	}
	if (plan->in_rounds)
		bench_append(bench, " rounds=%llu cpus=%u cpus_mean=%llu.%02llu", result->nr_rounds,
			     result->cpus, cpus / 100, cpus % 100);
	if (plan->mode == BENCH_MIXED)
		bench_append(bench, " probes=%llu late=%llu", result->probes, result->late);
	if (plan->mode == BENCH_ROAM)
		bench_append(bench, " moves=%llu", result->moves);
	bench_tell(bench, "wait", bench->line);
}

void bench_report(struct bench *bench, enum bench_scope scope, enum bench_scope actual,
		  unsigned int repeat, const struct bench_result *result)
{
	u64 rate = div64_u64(result->items * NSEC_PER_SEC, result->elapsed);

	bench_forget();
	if (!bench->plan.quiet)
		bench_report_to_people(bench, scope, rate, result);
	bench_report_result(bench, scope, actual, repeat, rate, result);
	bench_report_wait(bench, scope, repeat, result);
	if (bench_violations(result))
		pr_err("%s, repeat %u: %u items lost, %u ran twice, %u ran outside their pod, %u refused, %u pods wrong\n",
		       bench_scope_names[scope], repeat, result->lost,
		       result->twice, result->outside, result->refused,
		       result->bad_pods);
}

/* The only line of a run in the mode life. */
void bench_report_life(struct bench *bench, enum bench_scope actual, unsigned int repeat,
		       const struct bench_life *life)
{
	const struct bench_plan *plan = &bench->plan;

	bench_forget();
	bench_begin_line(bench);
	bench_append(bench, "scope=default actual=%s repeat=%u wq=%s mode=%s count=%u bytes=%llu",
		     bench_scope_names[actual], repeat, bench_kind_names[plan->kind],
		     bench_mode_names[plan->mode], life->count, life->bytes);
	for (unsigned int figure = BENCH_CREATE; figure < NR_BENCH_FIGURES; figure++) {
		const struct wq_hist *hist = bench->hist[figure];
		const char *key = bench_figures[figure].key;

		if (!hist)
			continue;
		bench_append(bench, " %sp25_ns=%llu %sp50_ns=%llu", key,
			     wq_hist_quantile(hist, 250), key, wq_hist_quantile(hist, 500));
		bench_append(bench, " %smean_ns=%llu %smax_ns=%llu", key,
			     div64_u64(hist->sum, max_t(u64, hist->total, 1)), key, hist->max);
	}
	bench_append(bench, " clock=%s", BENCH_CLOCK);
	bench_tell(bench, "life", bench->line);
}

void bench_pass_over(struct bench *bench, enum bench_scope scope)
{
	if (bench->passed_over & BIT(scope))
		return;
	bench->passed_over |= BIT(scope);
	if (bench->plan.quiet)
		return;
	if (!bench_has_wq(&bench->plan))
		pr_info("there is only one CPU, so no floor %s: passed over\n",
			bench_scope_names[scope]);
	else
		pr_info("this kernel has no scope %s: passed over\n", bench_scope_names[scope]);
}

void bench_conclude(struct bench *bench, int error)
{
	const char *status = "ok";

	if (error == -EINTR)
		status = "interrupted";
	else if (bench->violations)
		status = "violated";
	else if (error)
		status = "failed";

	bench_begin_line(bench);
	bench_append(bench, "status=%s runs=%u violations=%llu error=%d", status, bench->nr_runs,
		     bench->violations, error);
	bench_tell(bench, "done", bench->line);
}
