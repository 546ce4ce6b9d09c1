// SPDX-License-Identifier: GPL-2.0
/*
 * Torture test for workqueues: parameters, threads, begin and end.
 *
 * The test starts when the module is loaded. It ends after "duration" seconds, or when
 * the module is unloaded; then the last line in the log is the verdict. Each thread and
 * each interrupt source has its own random sequence, which the seed determines. A second
 * run with the same seed repeats what each of them does, but not when.
 */
#define pr_fmt(fmt) "wqtorture: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqtorture.h"

unsigned int wqt_seed;
module_param_named(seed, wqt_seed, uint, 0444);
MODULE_PARM_DESC(seed, "seed of all random choices, 0: pick one (default 0)");

static int duration;
module_param(duration, int, 0444);
MODULE_PARM_DESC(duration, "of the test in seconds, 0: until unloaded (default 0)");

static int nwriters;
module_param(nwriters, int, 0444);
MODULE_PARM_DESC(nwriters, "threads that use the API, 0: four for each CPU (default 0)");

static int nsoftirq = 1;
module_param(nsoftirq, int, 0444);
MODULE_PARM_DESC(nsoftirq, "timers that use the API from softirq (default 1)");

static int nhardirq = 1;
module_param(nhardirq, int, 0444);
MODULE_PARM_DESC(nhardirq, "timers that use the API from hardirq (default 1)");

int wqt_attrs_ms = 20;
module_param_named(attrs_ms, wqt_attrs_ms, int, 0444);
MODULE_PARM_DESC(attrs_ms, "ms between changes of attributes, masks and limits, 0: none (default 20)");

int wqt_onoff_ms = 200;
module_param_named(onoff_ms, wqt_onoff_ms, int, 0444);
MODULE_PARM_DESC(onoff_ms, "ms between taking CPUs down and up, 0: never (default 200)");

int wqt_famine_ms = 3000;
module_param_named(famine_ms, wqt_famine_ms, int, 0444);
MODULE_PARM_DESC(famine_ms, "ms between times when no thread can be created, 0: none (default 3000)");

int wqt_slow_ms = 4000;
module_param_named(slow_ms, wqt_slow_ms, int, 0444);
MODULE_PARM_DESC(slow_ms, "ms between times when creating a thread takes long, 0: none (default 4000)");

int wqt_storm_ms = 3000;
module_param_named(storm_ms, wqt_storm_ms, int, 0444);
MODULE_PARM_DESC(storm_ms, "ms between storms of softirqs on one CPU, 0: none (default 3000)");

int wqt_lost_ms = 6000;
module_param_named(lost_ms, wqt_lost_ms, int, 0444);
MODULE_PARM_DESC(lost_ms, "ms between times when a busy loop keeps a CPU for about a second, 0: none (default 6000)");

int wqt_stuck;
module_param_named(stuck, wqt_stuck, int, 0444);
MODULE_PARM_DESC(stuck, "seconds: set the watchdog's threshold to this and let one item exceed it, which the log must report, 0: no (default 0)");

int wqt_squeeze_ms;
module_param_named(squeeze_ms, wqt_squeeze_ms, int, 0444);
MODULE_PARM_DESC(squeeze_ms, "ms between times when memory is short, 0: none (default 0)");

int wqt_freeze_ms;
module_param_named(freeze_ms, wqt_freeze_ms, int, 0444);
MODULE_PARM_DESC(freeze_ms, "ms between times when everything freezable is frozen, 0: none (default 0)");

#ifdef CONFIG_WORKQUEUE_CMWQ
bool wqt_flush_older = true;
#else
bool wqt_flush_older;
#endif
module_param_named(flush_older, wqt_flush_older, bool, 0444);
MODULE_PARM_DESC(flush_older, "flush_work() must wait for an older run, too, if the queueing it waits for is cancelled (default: off on the base kernel)");

int wqt_stall = 30;
module_param_named(stall, wqt_stall, int, 0444);
MODULE_PARM_DESC(stall, "seconds without progress after which a violation is reported (default 30)");

static int stat_interval = 10;
module_param(stat_interval, int, 0444);
MODULE_PARM_DESC(stat_interval, "seconds between statistics, 0: only at the end (default 10)");

static int stutter = 2;
module_param(stutter, int, 0444);
MODULE_PARM_DESC(stutter, "seconds to run and to pause in turn, 0: no pause (default 2)");

static int shuffle_interval = 3;
module_param(shuffle_interval, int, 0444);
MODULE_PARM_DESC(shuffle_interval, "seconds between changes of the CPU that the threads are kept off, 0: never (default 3)");

static int shutdown_secs;
module_param(shutdown_secs, int, 0444);
MODULE_PARM_DESC(shutdown_secs, "seconds until the machine is switched off, 0: never (default 0)");

static int verbose;
module_param(verbose, int, 0444);
MODULE_PARM_DESC(verbose, "1: report threads that start and end (default 0)");

DECLARE_RWSEM(wqt_famine_sem);
bool wqt_resting;		/* the writers pause, and so should interrupts */
bool wqt_started;		/* set at the end of init by WRITE_ONCE(), read by READ_ONCE() */

static struct wqt_actor *actors;
static int nr_actors;
static atomic_t nr_active;	/* actors that have not ended */
static struct wqt_actor finisher = { .name = "finisher" };
static struct task_struct *monitor_task, *ender_task;
static bool over;
static DEFINE_MUTEX(finish_lock);
static bool finished;

bool wqt_over(void)
{
	return READ_ONCE(over);
}

void wqt_actor_init(struct wqt_actor *actor, const char *name, int nr)
{
	scnprintf(actor->name, sizeof(actor->name), "%s/%d", name, nr);
	prandom_seed_state(&actor->rnd, ((u64)wqt_seed << 32) + 0x10000 + nr);
}

void wqt_visit_actors(void (*fn)(struct wqt_actor *actor))
{
	int i;

	for (i = 0; i < nr_actors; i++)
		fn(&actors[i]);
	fn(&finisher);
}

/* Sleeps for about @ms; false when it is time to end. */
bool wqt_actor_naps(struct wqt_actor *actor, int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms / 2 + wqt_rnd(&actor->rnd, ms + 1));

	while (!wqt_over() && !wqt_must_stop()) {
		if (time_after_eq(jiffies, end))
			return true;
		schedule_timeout_interruptible(min_t(long, end - jiffies, HZ / 10));
	}
	return false;
}

/* A thread must not return before it is stopped. */
int wqt_actor_ends(struct wqt_actor *actor)
{
	wqt_at(actor, NULL, NULL);
	atomic_dec(&nr_active);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 20);
	return 0;
}

/*
 * The end: all actors stop, each workqueue is drained and checked, and the verdict is
 * printed. Whatever hangs is left alone.
 */
static void finish(void)
{
	unsigned long end;

	mutex_lock(&finish_lock);
	if (finished)
		goto out;
	finished = true;
	WRITE_ONCE(over, true);
	wqt_irq_stop();
	end = jiffies + 2 * wqt_stall * HZ;
	while (atomic_read(&nr_active) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(HZ / 20);
	if (atomic_read(&nr_active))
		wqt_wrong(WQT_STALL, NULL, "%d threads do not end", atomic_read(&nr_active));
	else
		wqt_slots_finish(&finisher);
	wqt_tokens_reap(true);
	wqt_print_stats();
	wqt_print_end();
out:
	mutex_unlock(&finish_lock);
}

static int ender(void *arg)
{
	unsigned long end = jiffies + duration * HZ;

	while (!kthread_should_stop() && time_before(jiffies, end))
		schedule_timeout_interruptible(HZ / 5);
	if (!kthread_should_stop())
		finish();
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 5);
	return 0;
}

static int start_actor(int (*fn)(void *arg), char *name, int nr)
{
	struct wqt_actor *actor = &actors[nr_actors];
	int ret;

	wqt_actor_init(actor, name, nr);
	atomic_inc(&nr_active);
	ret = wqt_start_thread(fn, actor, actor->name, &actor->task);
	if (ret) {
		atomic_dec(&nr_active);
		return ret;
	}
	get_task_struct(actor->task);
	nr_actors++;
	return 0;
}

static int start_actors(void)
{
	int i, ret = 0;

	for (i = 0; i < nwriters && !ret; i++)
		ret = start_actor(wqt_writer, "wqt_writer", i);
	if (!ret)
		ret = start_actor(wqt_reader_thread, "wqt_reader", 1000);
	if (!ret && wqt_attrs_ms)
		ret = start_actor(wqt_attrs_thread, "wqt_attrs", 1001);
	if (!ret && wqt_onoff_ms && IS_ENABLED(CONFIG_HOTPLUG_CPU))
		ret = start_actor(wqt_onoff_thread, "wqt_onoff", 1002);
	if (!ret && wqt_famine_ms)
		ret = start_actor(wqt_famine_thread, "wqt_famine", 1003);
	if (!ret && wqt_squeeze_ms)
		ret = start_actor(wqt_squeeze_thread, "wqt_squeeze", 1004);
	if (!ret && wqt_freeze_ms)
		ret = start_actor(wqt_freeze_thread, "wqt_freeze", 1005);
	if (!ret && wqt_slow_ms)
		ret = start_actor(wqt_slow_thread, "wqt_slow", 1006);
	if (!ret && wqt_storm_ms)
		ret = start_actor(wqt_storm_thread, "wqt_storm", 1007);
	if (!ret && wqt_lost_ms)
		ret = start_actor(wqt_lost_thread, "wqt_lost", 1008);
	if (!ret && wqt_stuck)
		ret = start_actor(wqt_stuck_thread, "wqt_stuck", 1009);
	if (!ret)
		ret = wqt_irq_init(nsoftirq, nhardirq, 2000);
	return ret;
}

static int start_monitor(void)
{
	monitor_task = kthread_run(wqt_monitor, &stat_interval, "wqt_monitor");
	return PTR_ERR_OR_ZERO(monitor_task);
}

static int start_ender(void)
{
	if (!duration)
		return 0;
	ender_task = kthread_run(ender, NULL, "wqt_ender");
	return PTR_ERR_OR_ZERO(ender_task);
}

static void stop_thread(struct task_struct **task)
{
	if (!IS_ERR_OR_NULL(*task))
		kthread_stop(*task);
	*task = NULL;
}

static void stop_actors(void)
{
	int i;

	for (i = 0; i < nr_actors; i++)
		kthread_stop(actors[i].task);
}

/*
 * The caller has stopped the actors. The monitor may still log their tasks, so it stops before
 * the references are put.
 */
static void take_down(void)
{
	int i;

	stop_thread(&monitor_task);
	for (i = 0; i < nr_actors; i++)
		put_task_struct(actors[i].task);
	wqt_slots_exit();
	wqt_tokens_exit();
	wqt_freeze_exit();
	wqt_chaos_exit();
	wqt_files_exit();
	kfree(actors);
	actors = NULL;
	nr_actors = 0;
}

static void wqtorture_cleanup(void)
{
	if (wqt_conduct_stop())
		return;
	finish();
	stop_actors();
	stop_thread(&ender_task);
	take_down();
	wqt_conduct_end();
}

static int prepare(void)
{
	int ret;

	if (nwriters <= 0)
		nwriters = 4 * num_online_cpus();
	if (!wqt_seed)
		wqt_seed = get_random_u32();
	actors = kcalloc(nwriters + 10, sizeof(*actors), GFP_KERNEL);
	if (!actors)
		return -ENOMEM;
	wqt_actor_init(&finisher, "finisher", 3000);
	if (wqt_files_init())
		pr_alert("no /sys or /proc: attributes stay as they are\n");
	ret = wqt_chaos_init();
	if (!ret)
		ret = wqt_freeze_init();
	if (!ret)
		ret = wqt_tokens_init();
	if (!ret)
		ret = wqt_slots_init();
	return ret;
}

static void announce(void)
{
	pr_alert("--- Start of test: seed=%u duration=%d nwriters=%d nsoftirq=%d nhardirq=%d attrs_ms=%d onoff_ms=%d famine_ms=%d slow_ms=%d storm_ms=%d lost_ms=%d squeeze_ms=%d freeze_ms=%d stuck=%d stall=%d stutter=%d shuffle_interval=%d\n",
		 wqt_seed, duration, nwriters, nsoftirq, nhardirq, wqt_attrs_ms,
		 IS_ENABLED(CONFIG_HOTPLUG_CPU) ? wqt_onoff_ms : 0, wqt_famine_ms,
		 wqt_slow_ms, wqt_storm_ms, wqt_lost_ms,
		 wqt_squeeze_ms, wqt_freeze_ms, wqt_stuck, wqt_stall, stutter, shuffle_interval);
	if (wqt_conduct_missing())
		pr_alert("without CONFIG_TORTURE_TEST: no stutter, shuffle or shutdown\n");
}

/*
 * The actors that did start have queued items. These finish before anything is freed, however
 * long threads are scarce. The ender stops first, since finish() does the same things.
 */
static void give_up(int error)
{
	pr_alert("cannot start: error %d\n", error);
	stop_thread(&ender_task);
	WRITE_ONCE(over, true);
	wqt_conduct_stop();
	wqt_irq_stop();
	stop_actors();
	if (nr_actors && !finished) {
		wqt_slots_finish(&finisher);
		wqt_tokens_reap(true);
	}
	take_down();
	wqt_conduct_end();
}

static int __init wqtorture_init(void)
{
	int ret, later;

	if (!wqt_conduct_begin("wqtorture", verbose))
		return -EBUSY;
	ret = prepare();
	if (!ret) {
		announce();
		ret = start_monitor();
	}
	if (!ret)
		ret = start_actors();
	/* after the actors: finish() must not overtake their start */
	if (!ret)
		ret = start_ender();
	later = wqt_conduct_start(ret ? 0 : stutter, ret ? 0 : shuffle_interval,
				  ret ? 0 : shutdown_secs, wqtorture_cleanup);
	ret = ret ?: later;
	if (ret)
		give_up(ret);
	else
		WRITE_ONCE(wqt_started, true);
	return ret;
}

module_init(wqtorture_init);
module_exit(wqtorture_cleanup);

MODULE_DESCRIPTION("Torture test for workqueues");
MODULE_LICENSE("GPL");
MODULE_VERSION(WQ_RELEASE);
