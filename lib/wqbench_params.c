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
MODULE_PARM_DESC(threads, "submitting threads, 0: one for each usable CPU (default 0)");

static int items = 50000;
module_param(items, int, 0644);
MODULE_PARM_DESC(items, "items that each thread queues in a run (default 50000)");

static char *scopes;
module_param(scopes, charp, 0644);
MODULE_PARM_DESC(scopes, "comma separated affinity scopes, empty: all (default)");

static char *wq;
module_param(wq, charp, 0644);
MODULE_PARM_DESC(wq, "kind of workqueue: unbound (default), unbound_highpri, percpu, highpri, bh, ordered");

static char *mode;
module_param(mode, charp, 0644);
MODULE_PARM_DESC(mode, "latency: one item in flight per thread (default); batch: several");

static int batch = 32;
module_param(batch, int, 0644);
MODULE_PARM_DESC(batch, "items in flight per thread in batch mode (default 32)");

static int repeats = 1;
module_param(repeats, int, 0644);
MODULE_PARM_DESC(repeats, "runs of each scope (default 1)");

static int warmup = 100;
module_param(warmup, int, 0644);
MODULE_PARM_DESC(warmup, "untimed items that each thread queues first (default 100)");

static int sample = 17;
module_param(sample, int, 0644);
MODULE_PARM_DESC(sample, "record the wait of every so manieth item, odd: see README (default 17)");

static int max_active;
module_param(max_active, int, 0644);
MODULE_PARM_DESC(max_active, "of the workqueue, 0: the kernel's default (default 0)");

static int timeout = 30;
module_param(timeout, int, 0644);
MODULE_PARM_DESC(timeout, "seconds without any progress after which items count as lost (default 30)");

static bool strict;
module_param(strict, bool, 0644);
MODULE_PARM_DESC(strict, "make the scopes strict and check where items run (default N)");

bool bench_keep;
module_param_named(keep, bench_keep, bool, 0444);
MODULE_PARM_DESC(keep, "stay loaded, for further passes through \"run\" (default N)");

const char * const bench_scope_names[NR_BENCH_SCOPES] = {
	[BENCH_SCOPE_DEFAULT]		= "default",
	[BENCH_SCOPE_CPU]		= "cpu",
	[BENCH_SCOPE_SMT]		= "smt",
	[BENCH_SCOPE_CACHE]		= "cache",
	[BENCH_SCOPE_CACHE_SHARD]	= "cache_shard",
	[BENCH_SCOPE_NUMA]		= "numa",
	[BENCH_SCOPE_SYSTEM]		= "system",
};

const char * const bench_kind_names[NR_BENCH_KINDS] = {
	[BENCH_UNBOUND]		= "unbound",
	[BENCH_UNBOUND_HIGHPRI]	= "unbound_highpri",
	[BENCH_PERCPU]		= "percpu",
	[BENCH_HIGHPRI]		= "highpri",
	[BENCH_BH]		= "bh",
	[BENCH_ORDERED]		= "ordered",
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

static int bench_plan_scopes(struct bench_plan *plan, char *list)
{
	unsigned long seen = 0;
	char *name;

	if (!bench_has_scopes(plan)) {
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
		for (int scope = BENCH_SCOPE_CPU; scope < NR_BENCH_SCOPES; scope++)
			plan->scopes[plan->nr_scopes++] = scope;
		return 0;
	}

	while ((name = strsep(&list, ","))) {
		int scope = bench_scope_by_name(name);

		if (scope < 0) {
			pr_err("scopes: \"%s\" is not an affinity scope\n", name);
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

static int bench_plan_mode(struct bench_plan *plan, char *how)
{
	plan->batch = !strcmp(how, "batch");
	if (plan->batch || !*how || !strcmp(how, "latency"))
		return 0;
	pr_err("mode=\"%s\" is neither latency nor batch\n", how);
	return -EINVAL;
}

static int bench_plan_kind(struct bench_plan *plan, char *name)
{
	int kind = *name ? match_string(bench_kind_names, NR_BENCH_KINDS, name) : BENCH_UNBOUND;

	if (kind < 0) {
		pr_err("wq=\"%s\" is not a kind of workqueue\n", name);
		return -EINVAL;
	}
	plan->kind = kind;
	if (kind == BENCH_BH && !BENCH_WQ_BH) {
		pr_err("wq=bh: this kernel has no BH workqueues\n");
		return -EOPNOTSUPP;
	}
	if (plan->strict && !bench_has_scopes(plan)) {
		pr_err("strict=1: a workqueue that is %s has no scopes\n", name);
		return -EINVAL;
	}
	if (plan->max_active && (kind == BENCH_BH || kind == BENCH_ORDERED)) {
		pr_err("max_active=%u: a workqueue that is %s has its own\n",
		       plan->max_active, name);
		return -EINVAL;
	}
	return 0;
}

static int bench_plan_strings(struct bench_plan *plan)
{
	char *list = bench_copy_param(scopes);
	char *how = bench_copy_param(mode);
	char *kind = bench_copy_param(wq);
	int ret = -ENOMEM;

	if (list && how && kind)
		ret = bench_plan_kind(plan, kind);
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
	int ret;

	/* With these limits no sum or product in here overflows 64 bits. */
	if (!bench_in_range("threads", threads, 0, 1024) ||
	    !bench_in_range("items", items, 1, 10000000) ||
	    !bench_in_range("batch", batch, 1, 65536) ||
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
		.strict		= strict,
	};

	ret = bench_plan_strings(plan);
	plan->in_flight = plan->batch ? batch : 1;
	return ret;
}
