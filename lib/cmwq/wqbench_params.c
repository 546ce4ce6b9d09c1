// SPDX-License-Identifier: GPL-2.0
/*
 * The parameters of the benchmark, and the plan of a pass that is made of them
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wqbench.h"

static int threads;
module_param(threads, int, 0644);
MODULE_PARM_DESC(threads, "submitting threads, 0: one for each usable CPU, or just one in burst and spread (default 0)");

static int items = 50000;
module_param(items, int, 0644);
MODULE_PARM_DESC(items, "items that each thread queues in a run (default 50000)");

static char *scopes;
module_param(scopes, charp, 0644);
MODULE_PARM_DESC(scopes, "comma separated affinity scopes, or same, other, line in floor, empty: all (default)");

static char *wq;
module_param(wq, charp, 0644);
MODULE_PARM_DESC(wq, "kind of workqueue: unbound (default), unbound_highpri, percpu, reclaim, highpri, bh, ordered; none in floor");

static char *mode;
module_param(mode, charp, 0644);
MODULE_PARM_DESC(mode, "latency (default), batch, burst, spread, mixed, roam, limit, floor or life: see bench_mode_names");

static int batch = 32;
module_param(batch, int, 0644);
MODULE_PARM_DESC(batch, "items in flight per thread, except in latency and floor; workqueues in life (default 32)");

static int burn_us = 100;
module_param(burn_us, int, 0644);
MODULE_PARM_DESC(burn_us, "microseconds that an item takes in spread and mixed (default 100)");

static int repeats = 1;
module_param(repeats, int, 0644);
MODULE_PARM_DESC(repeats, "runs of each scope (default 1)");

static int warmup = 100;
module_param(warmup, int, 0644);
MODULE_PARM_DESC(warmup, "untimed items that each thread queues first (default 100)");

static int sample = 17;
module_param(sample, int, 0644);
MODULE_PARM_DESC(sample, "in latency, batch, roam, limit and floor: record the wait of one in this many items (default 17)");

static int max_active;
module_param(max_active, int, 0644);
MODULE_PARM_DESC(max_active, "of the workqueue, 0: the kernel's default, or a quarter of batch in limit (default 0)");

static int timeout = 30;
module_param(timeout, int, 0644);
MODULE_PARM_DESC(timeout, "seconds without any progress after which items count as lost (default 30)");

static bool strict;
module_param(strict, bool, 0644);
MODULE_PARM_DESC(strict, "make the scopes strict and check where items run (default N)");

static bool quiet;
module_param(quiet, bool, 0644);
MODULE_PARM_DESC(quiet, "print no results to the log, only errors: read them from \"run\" (default N)");

bool bench_keep;
module_param_named(keep, bench_keep, bool, 0444);
MODULE_PARM_DESC(keep, "stay loaded, for further passes through \"run\" (default N)");

static bool leave;
module_param(leave, bool, 0644);
MODULE_PARM_DESC(leave, "leave the workqueue and items of a pass in memory until the next one (default N)");

const char * const bench_scope_names[NR_BENCH_SCOPES] = {
	[BENCH_SCOPE_DEFAULT]		= "default",
	[BENCH_SCOPE_CPU]		= "cpu",
	[BENCH_SCOPE_SMT]		= "smt",
	[BENCH_SCOPE_CACHE]		= "cache",
	[BENCH_SCOPE_CACHE_SHARD]	= "cache_shard",
	[BENCH_SCOPE_NUMA]		= "numa",
	[BENCH_SCOPE_SYSTEM]		= "system",
	[BENCH_FLOOR_SAME]		= "same",
	[BENCH_FLOOR_OTHER]		= "other",
	[BENCH_FLOOR_LINE]		= "line",
};

const char * const bench_kind_names[NR_BENCH_KINDS] = {
	[BENCH_UNBOUND]		= "unbound",
	[BENCH_UNBOUND_HIGHPRI]	= "unbound_highpri",
	[BENCH_PERCPU]		= "percpu",
	[BENCH_RECLAIM]		= "reclaim",
	[BENCH_HIGHPRI]		= "highpri",
	[BENCH_BH]		= "bh",
	[BENCH_ORDERED]		= "ordered",
	[BENCH_NO_WQ]		= "none",
};

/*
 * What a thread does. It queues, waits until everything that it queued ran, and begins again.
 *
 * latency	has one item in flight
 * batch	has several
 * burst	queues several at once, and measures how long each waits and how long all take
 * spread	the same with items that burn: are all CPUs used?
 * mixed	every second item sleeps, the others burn; beside them, a probe of high priority
 * roam		queues the same items from one CPU after the other
 * limit	has more in flight than max_active
 * floor	uses no workqueue: another thread, its partner, runs its only item
 * life		has no items: workqueues are made, flushed, changed and destroyed
 */
const char * const bench_mode_names[NR_BENCH_MODES] = {
	[BENCH_LATENCY]	= "latency",
	[BENCH_BATCH]	= "batch",
	[BENCH_BURST]	= "burst",
	[BENCH_SPREAD]	= "spread",
	[BENCH_MIXED]	= "mixed",
	[BENCH_ROAM]	= "roam",
	[BENCH_LIMIT]	= "limit",
	[BENCH_FLOOR]	= "floor",
	[BENCH_LIFE]	= "life",
};

static bool bench_in_range(const char *name, int value, int min, int max)
{
	if (value >= min && value <= max)
		return true;

	pr_err("%s=%d is not between %d and %d\n", name, value, min, max);
	return false;
}

int bench_scope_by_name(const char *name)
{
	return match_string(bench_scope_names, NR_BENCH_SCOPES, name);
}

static bool bench_mode_has(const struct bench_plan *plan, int scope)
{
	bool floor = scope >= NR_AFFN_SCOPES;

	return scope >= 0 && floor == !bench_has_wq(plan);
}

static int bench_plan_scopes(struct bench_plan *plan, char *list)
{
	unsigned long seen = 0;
	char *name;

	if (plan->mode == BENCH_LIFE && *list && strcmp(list, "default")) {
		pr_err("scopes=%s: mode=life has the kernel's default scope\n", list);
		return -EINVAL;
	}
	if (plan->mode == BENCH_LIFE || (!bench_has_scopes(plan) && bench_has_wq(plan))) {
		if (*list && strcmp(list, "default")) {
			pr_err("scopes=%s: a workqueue that is %s has none\n", list,
			       bench_kind_names[plan->kind]);
			return -EINVAL;
		}
		plan->scopes[plan->nr_scopes++] = BENCH_SCOPE_DEFAULT;
		return 0;
	}

	plan->all_scopes = !*list;
	if (plan->all_scopes) {
		for (int scope = BENCH_SCOPE_CPU; scope < NR_BENCH_SCOPES; scope++) {
			if (bench_mode_has(plan, scope))
				plan->scopes[plan->nr_scopes++] = scope;
		}
		return 0;
	}

	while ((name = strsep(&list, ","))) {
		int scope = bench_scope_by_name(name);

		if (!bench_mode_has(plan, scope)) {
			pr_err("scopes: \"%s\" is not %s\n", name,
			       bench_has_wq(plan) ? "an affinity scope" :
						    "same, other or line");
			return -EINVAL;
		}
		if (seen & BIT(scope)) {
			pr_err("scopes: \"%s\" is listed twice\n", name);
			return -EINVAL;
		}
		seen |= BIT(scope);
		plan->scopes[plan->nr_scopes++] = scope;
	}
	return 0;
}

/* echo ends a charp parameter with a newline: drop it. */
static char *bench_copy_param(const char *value)
{
	char *copy = kstrdup(value ?: "", GFP_KERNEL);

	if (copy)
		copy[strcspn(copy, "\n")] = '\0';
	return copy;
}

static int bench_plan_limit(struct bench_plan *plan)
{
	if (!plan->max_active && plan->kind != BENCH_ORDERED)
		plan->max_active = max(plan->in_flight / 4, 1U);
	if (max(plan->max_active, 1U) < plan->in_flight)
		return 0;
	pr_err("mode=limit: max_active=%u is not below batch=%u\n", plan->max_active,
	       plan->in_flight);
	return -EINVAL;
}

static int bench_plan_mode(struct bench_plan *plan, char *how)
{
	int mode = *how ? match_string(bench_mode_names, NR_BENCH_MODES, how) : BENCH_LATENCY;
	bool floor = mode == BENCH_FLOOR;

	if (mode < 0) {
		pr_err("mode=\"%s\" is no mode\n", how);
		return -EINVAL;
	}
	if (plan->kind == BENCH_BH && (mode == BENCH_MIXED || mode == BENCH_LIMIT)) {
		pr_err("mode=%s: BH items cannot %s\n", how,
		       mode == BENCH_MIXED ? "sleep" : "be limited");
		return -EINVAL;
	}

	if (floor == bench_has_wq(plan)) {
		pr_err("mode=%s: it has %s workqueue: choose another wq\n",
		       bench_mode_names[mode], floor ? "no" : "a");
		return -EINVAL;
	}

	plan->mode = mode;
	plan->in_flight = mode == BENCH_LATENCY || floor ? 1 : batch;
	plan->in_rounds = mode == BENCH_BURST || mode == BENCH_SPREAD;
	if (plan->in_rounds && !plan->threads)
		plan->threads = 1;
	if (plan->in_rounds || mode == BENCH_MIXED)
		plan->sample = 1;
	return mode == BENCH_LIMIT ? bench_plan_limit(plan) : 0;
}

static bool bench_has_limit(const struct bench_plan *plan)
{
	return plan->kind != BENCH_BH && plan->kind != BENCH_ORDERED &&
	       bench_has_wq(plan);
}

static int bench_plan_kind(struct bench_plan *plan, char *name, char *how)
{
	int kind = strcmp(how, "floor") ? BENCH_UNBOUND : BENCH_NO_WQ;

	if (*name)
		kind = match_string(bench_kind_names, NR_BENCH_KINDS, name);
	if (kind < 0) {
		pr_err("wq=\"%s\" is not a kind of workqueue\n", name);
		return -EINVAL;
	}
	plan->kind = kind;
#ifdef WQ_COMPAT_NO_BH
	if (kind == BENCH_BH) {
		pr_err("wq=bh: this kernel has no BH workqueues\n");
		return -EOPNOTSUPP;
	}
#endif
	if (plan->strict && !bench_has_scopes(plan)) {
		pr_err("strict=1: wq=%s has no scopes\n", bench_kind_names[kind]);
		return -EINVAL;
	}
	if (plan->max_active && !bench_has_limit(plan)) {
		pr_err("max_active=%u: wq=%s has its own or none\n", plan->max_active,
		       bench_kind_names[kind]);
		return -EINVAL;
	}
	return 0;
}

/* The kind decides which modes and scopes there are. */
static int bench_plan_strings(struct bench_plan *plan)
{
	char *list = bench_copy_param(scopes);
	char *how = bench_copy_param(mode);
	char *kind = bench_copy_param(wq);
	int ret = -ENOMEM;

	if (list && how && kind)
		ret = bench_plan_kind(plan, kind, how);
	if (!ret)
		ret = bench_plan_mode(plan, how);
	if (!ret)
		ret = bench_plan_scopes(plan, list);
	kfree(kind);
	kfree(how);
	kfree(list);
	return ret;
}

/* The caller holds the parameter lock, so no string changes here. */
int bench_make_plan(struct bench_plan *plan)
{
	/* With these limits no sum or product in here overflows 64 bits. */
	if (!bench_in_range("threads", threads, 0, 1024) ||
	    !bench_in_range("items", items, 1, 10000000) ||
	    !bench_in_range("batch", batch, 1, 65536) ||
	    !bench_in_range("burn_us", burn_us, 1, 100000) ||
	    !bench_in_range("repeats", repeats, 1, 1000) ||
	    !bench_in_range("warmup", warmup, 0, 1000000) ||
	    !bench_in_range("sample", sample, 1, 1000000) ||
	    !bench_in_range("max_active", max_active, 0, WQ_MAX_ACTIVE) ||
	    !bench_in_range("timeout", timeout, 1, 3600))
		return -EINVAL;

	*plan = (struct bench_plan) {
		.threads	= threads,
		.items		= items,
		.repeats	= repeats,
		.warmup		= warmup,
		.max_active	= max_active,
		.timeout	= timeout,
		.sample		= sample,
		.burn_us	= burn_us,
		.strict		= strict,
		.quiet		= quiet,
		.leave		= leave,
	};

	return bench_plan_strings(plan);
}
