// SPDX-License-Identifier: GPL-2.0
/*
 * Measures how fast, and how correctly, a workqueue serves its submitters.
 *
 * Kernel threads, each bound to one CPU, queue items on a workqueue and wait until
 * they ran: see bench_mode_names. If the workqueue is unbound, its affinity scope is
 * changed between runs the way an administrator would do it: through its own file
 * under /sys/bus/workqueue/devices/. The output is a table for people, and for
 * scripts two lines for each run, "result key=value ..." and "wait key=value ...".
 * They show three things:
 *
 * - items per second, and percentiles of the time that queue_work() itself
 *   took. Every call is counted in a histogram: see wq_hist.h.
 * - percentiles of the time from queueing to the start of an item, and from its start
 *   until its submitter knows that the whole round ran. Every item is recorded, or
 *   every 17th in the modes where recording would change the rate.
 * - how often the workqueue broke its promises. Each submission carries a state
 *   that only its first execution may advance. This shows an item that never ran
 *   as well as one that ran twice.
 *
 * In the mode floor there is no workqueue: another thread runs the items. This is the
 * least that handing items to a thread can cost. In the mode life there are no items, and
 * a run has one line, "life key=value ...": see wqbench_life.c.
 *
 * As a module it does its work at load time and then refuses to stay, with
 * -ECANCELED after a clean pass and -EPROTO when a promise was broken. Load it
 * with kmod's insmod: busybox's insmod tries again when loading fails, and so
 * makes the pass twice. With keep=1, or built in, it stays and starts a pass
 * whenever something is written to its "run" parameter. The lines of the last run
 * can be read from there, so with quiet=1 many passes leave the log alone. A built-in
 * benchmark cannot start by itself: /sys is not mounted during initcalls.
 *
 * With keep=1 leave=1, the workqueue and the items of a pass stay until the next one, so that
 * a program which reads the memory finds whose each address was.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpuhotplug.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "wqbench.h"

static DEFINE_MUTEX(bench_lock);	/* held during a pass; guards what it reported */
static struct bench *bench_left;	/* by the last pass; guarded by bench_lock */
static bool bench_ready;		/* "run" may be written */

atomic_t bench_hotplug_events = ATOMIC_INIT(0);

static int bench_one_run(struct bench *bench, enum bench_scope scope, unsigned int repeat)
{
	struct bench_result result = {};
	struct bench_life life = {};
	enum bench_scope actual;
	int ret;

	if (!bench_has_wq(&bench->plan)) {
		actual = scope;
		ret = bench_enter_floor(bench, scope);
	} else {
		ret = bench_enter_scope(scope, &actual);
	}
	if (ret < 0)
		return ret;
	if (!ret) {
		bench_pass_over(bench, scope);
		return 0;
	}

	if (bench->plan.mode == BENCH_LIFE)
		ret = bench_life(bench, &life);
	else
		ret = bench_measure(bench, actual, &result);
	if (ret == -EINTR)
		pr_info("interrupted in scope %s, repeat %u\n",
			bench_scope_names[scope], repeat);
	if (ret)
		return ret;

	bench->nr_runs++;
	if (bench->plan.mode == BENCH_LIFE) {
		bench_report_life(bench, actual, repeat, &life);
		return 0;
	}
	bench->violations += bench_violations(&result);
	bench_report(bench, scope, actual, repeat, &result);
	/* Once items are lost, further runs would only wait for more lost ones. */
	return result.lost ? -EPROTO : 0;
}

/* Scopes alternate inside a repeat, so a drift of the machine affects all of them. */
static int bench_all_runs(struct bench *bench)
{
	const struct bench_plan *plan = &bench->plan;
	int ret;

	for (unsigned int repeat = 1; repeat <= plan->repeats; repeat++) {
		unsigned int nr_runs = bench->nr_runs;

		for (unsigned int i = 0; i < plan->nr_scopes; i++) {
			ret = bench_one_run(bench, plan->scopes[i], repeat);
			if (ret)
				return ret;
		}
		if (bench->nr_runs > nr_runs)
			continue;
		if (!plan->all_scopes) {
			pr_err("this kernel has none of the scopes asked for\n");
			return -EOPNOTSUPP;
		}
		ret = bench_one_run(bench, BENCH_SCOPE_DEFAULT, repeat);
		if (ret)
			return ret;
	}
	return 0;
}

static int bench_count_hotplug(unsigned int cpu)
{
	atomic_inc(&bench_hotplug_events);
	return 0;
}

static void bench_close_left(void)
{
	if (bench_left)
		bench_close(bench_left);
	bench_left = NULL;
}

/* Returns 0, -EPROTO for a broken promise, or why the pass ended early. */
static int bench_pass(const struct bench_plan *plan)
{
	struct bench *bench;
	int state, ret;

	bench_forget();
	bench_close_left();
	state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "test/workqueue:online",
					  bench_count_hotplug, bench_count_hotplug);
	if (state < 0)
		return state;

	ret = -ENOMEM;
	bench = bench_zalloc(sizeof(*bench));
	if (!bench)
		goto out;

	bench->plan = *plan;
	ret = bench_setup(bench);
	if (!ret)
		ret = bench_all_runs(bench);
	bench_conclude(bench, ret);
	if (!ret && bench->violations)
		ret = -EPROTO;
	bench_left = bench;
	if (!plan->leave)
		bench_close_left();
out:
	if (ret == -ENOMEM)
		pr_err("not enough memory\n");
	cpuhp_remove_state_nocalls(state);
	return ret;
}

/*
 * All built-in code shares one parameter lock, and a pass takes long. The lock is
 * therefore dropped once the parameters are copied. The reference keeps the module
 * loaded until the pass is over.
 */
static int bench_set_run(const char *val, const struct kernel_param *kp)
{
	struct bench_plan plan;
	int ret;

	if (!READ_ONCE(bench_ready) || !mutex_trylock(&bench_lock))
		return -EBUSY;

	ret = -ENODEV;
	if (!try_module_get(THIS_MODULE))
		goto out;
	ret = bench_make_plan(&plan);
	if (!ret) {
		kernel_param_unlock(THIS_MODULE);
		ret = bench_pass(&plan);
		kernel_param_lock(THIS_MODULE);
	}
	module_put(THIS_MODULE);
out:
	mutex_unlock(&bench_lock);
	return ret;
}

/* A pass holds only bench_lock, so that others can use the parameters meanwhile. */
static int bench_get_run(char *buffer, const struct kernel_param *kp)
{
	int len;

	if (!mutex_trylock(&bench_lock))
		return strscpy(buffer, "running\n", PAGE_SIZE);
	len = bench_show_last(buffer);
	mutex_unlock(&bench_lock);
	return len;
}

static const struct kernel_param_ops bench_run_ops = {
	.set = bench_set_run,
	.get = bench_get_run,
};

module_param_cb(run, &bench_run_ops, NULL, 0644);
MODULE_PARM_DESC(run, "write anything to start a pass (built in, or with keep=1); read the last result");

static int bench_first_pass(void)
{
	struct bench_plan plan;
	int ret;

	kernel_param_lock(THIS_MODULE);
	ret = bench_make_plan(&plan);
	kernel_param_unlock(THIS_MODULE);
	if (ret)
		return ret;

	mutex_lock(&bench_lock);
	ret = bench_pass(&plan);
	mutex_unlock(&bench_lock);
	return ret;
}

static int __init bench_init(void)
{
	if (__is_defined(MODULE)) {
		int ret = bench_first_pass();

		/* Broken promises are a result, and with keep=1 the module stays. */
		if (!bench_keep || (ret && ret != -EPROTO)) {
			bench_close_left();
			return ret ?: -ECANCELED;
		}
	}
	WRITE_ONCE(bench_ready, true);
	return 0;
}
late_initcall(bench_init);

static void __exit bench_exit(void)
{
	bench_close_left();
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Benchmark and contract check of workqueues");
MODULE_LICENSE("GPL");
MODULE_VERSION(WQ_RELEASE);
