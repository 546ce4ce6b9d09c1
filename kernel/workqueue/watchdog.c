// SPDX-License-Identifier: GPL-2.0
/*
 * The watchdog reports pools that have work but make no progress.
 *
 * A pool makes progress when the first item on its worklist changes.  Progress stops when an item
 * of a per-CPU pool never leaves the CPU, when no worker can be made and no rescuer helps, or when
 * a wake-up got lost.  The watchdog looks several times in workqueue.watchdog_thresh seconds.
 *
 * A machine that does not run for a while, since its hypervisor pauses it, has no stall, but its
 * jiffies jump.  So the watchdog has a clock of its own, which advances by one period with each
 * look, however late the look is.  A real stall is reported even if every look is late.
 *
 * While nothing waits, its timer wakes no idle CPU.  As soon as a look finds something that waits,
 * another timer is used, or a stall on an idle machine would be reported far too late.
 */
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/nmi.h>
#include <linux/panic.h>
#include <linux/pid.h>
#include <linux/sched/debug.h>

#include "warn.h"
#include "worker_pool.h"
#include "workqueues.h"

/* a pool is stuck after this many seconds without progress; 0: do not look */
static unsigned long wq_watchdog_thresh = 30;

/* how often the watchdog looks in that time */
#define WQ_WATCHDOG_LOOKS	8

/* the watchdog's clock, in jiffies; only the timer's callback writes it */
static unsigned long wq_watchdog_clock;

/* when, on that clock, the watchdog was last touched: on each CPU, and on any */
static DEFINE_PER_CPU(unsigned long, wq_watchdog_touched_cpu);
static unsigned long wq_watchdog_touched;

/* for how long nobody has asked the watchdog to leave the pool alone */
static unsigned long pool_untouched_for(const struct worker_pool *pool)
{
	if (is_percpu_pool(pool))
		return wq_watchdog_clock - READ_ONCE(per_cpu(wq_watchdog_touched_cpu, pool->cpu));
	return wq_watchdog_clock - READ_ONCE(wq_watchdog_touched);
}

/*
 * For how long @pool has had work and made no progress.  This counts from the first look that
 * found it so.
 */
static unsigned long pool_still_for(struct worker_pool *pool)
{
	unsigned long progress = READ_ONCE(pool->last_progress_ts);

	if (list_empty(&pool->worklist) || progress != pool->seen_progress_ts) {
		pool->seen_progress_ts = progress;
		pool->still_since = wq_watchdog_clock;
	}
	return wq_watchdog_clock - pool->still_since;
}

/*
 * If @pool has work and has made no progress for more than @thresh, return for how long, else
 * 0.  The first look is without the lock, and finds nearly all pools well.  Under the lock, an
 * item seen on the worklist comes with the time stamp that its queueing wrote.
 */
static unsigned long pool_stuck_for(struct worker_pool *pool, unsigned long thresh)
{
	if (min(pool_still_for(pool), pool_untouched_for(pool)) <= thresh)
		return 0;

	guard(raw_spinlock_irqsave)(&pool->lock);
	return pool_still_for(pool);
}

/*
 * Mark the stuck pools and log each.  Returns the seconds of the longest stall, or
 * -1 if there is none.
 */
static int find_stuck_pools(unsigned long thresh)
{
	char desc[POOL_DESC_LEN];
	struct worker_pool *pool;
	int longest = -1;
	int id;

	guard(rcu)();

	for_each_pool(pool, id) {
		unsigned long stuck = pool_stuck_for(pool, thresh);
		unsigned int secs;

		pool->cpu_stall = stuck && is_percpu_pool(pool) && !(pool->flags & POOL_BH);
		if (!stuck)
			continue;

		secs = jiffies_to_msecs(stuck) / MSEC_PER_SEC;
		longest = max_t(int, longest, secs);

		pr_emerg("BUG: workqueue lockup - pool cpus=%*pbl%s stuck for %us!\n",
			 cpumask_pr_args(pool->attrs->cpumask), pool_desc(desc, pool), secs);
	}
	return longest;
}

/* show the workers that run on the CPU of @pool, or want to; return true if there are any; L */
static bool show_cpu_pool_busy_workers(struct worker_pool *pool)
{
	struct worker *worker;
	bool any = false;
	int bkt;

	hash_for_each(pool->busy_hash, bkt, worker, hentry) {
		if (!task_is_running(worker->task))
			continue;
		pr_info("pool %d:\n", pool->id);
		sched_show_task(worker->task);
		any = true;
	}
	return any;
}

/*
 * No busy worker wants the CPU, and yet none serves the pool.  So a worker that should
 * serve it never ran.  L, which also keeps last_woken_worker in memory.
 */
static void show_pool_no_running_worker(struct worker_pool *pool)
{
	pr_info("pool %d: no worker in running state, cpu=%d is %s (nr_workers=%d nr_idle=%d)\n",
		pool->id, pool->cpu, idle_cpu(pool->cpu) ? "idle" : "busy",
		pool->nr_workers, pool->nr_idle);
	pr_info("The pool might have trouble waking an idle worker.\n");

	if (!pool->last_woken_worker) {
		pr_info("Last woken worker empty\n");
		return;
	}
	pr_info("Backtrace of last woken worker:\n");
	sched_show_task(pool->last_woken_worker->task);
}

/* does @task run an item of @pool?  L */
static bool pool_has_busy_task(struct worker_pool *pool, struct task_struct *task)
{
	struct worker *worker;
	int bkt;

	hash_for_each(pool->busy_hash, bkt, worker, hentry)
		if (worker->task == task)
			return true;
	return false;
}

/*
 * Name the task that has the CPU of a stuck pool, and show what it does.  The caller holds RCU,
 * which keeps the task in memory, but no lock, since the CPU may be spinning on that.
 */
static void show_cpu_owner(int cpu, struct task_struct *task)
{
	static const char * const policies[] = {
		[SCHED_NORMAL] = "SCHED_OTHER", [SCHED_FIFO] = "SCHED_FIFO",
		[SCHED_RR] = "SCHED_RR", [SCHED_BATCH] = "SCHED_BATCH",
		[SCHED_IDLE] = "SCHED_IDLE", [SCHED_DEADLINE] = "SCHED_DEADLINE",
		[SCHED_EXT] = "SCHED_EXT",
	};
	unsigned int policy = READ_ONCE(task->policy);

	pr_info("cpu=%d runs %s[%d], policy=%s rt_priority=%u nice=%d\n", cpu, task->comm,
		task_pid_nr(task),
		policy < ARRAY_SIZE(policies) && policies[policy] ? policies[policy] : "unknown",
		READ_ONCE(task->rt_priority), task_nice(task));

	/* not all architectures can ask another CPU for its backtrace */
	if (!trigger_single_cpu_backtrace(cpu))
		sched_show_task(task);
}

/*
 * A worker that is ready to run may have been preempted.  So unless the task that has the CPU
 * is a busy worker, this task is to blame, or it shows why a worker is missing.
 */
static void show_stuck_pool(struct worker_pool *pool)
{
	struct task_struct *owner = cpu_curr_snapshot(pool->cpu);
	bool own;

	scoped_guard(raw_spinlock_irqsave, &pool->lock) {
		/* for the same reason as in report.c */
		guard(printk_deferred)();
		if (!show_cpu_pool_busy_workers(pool))
			show_pool_no_running_worker(pool);
		own = pool_has_busy_task(pool, owner);
	}

	/* an offline CPU would not answer */
	if (!own && cpu_online(pool->cpu))
		show_cpu_owner(pool->cpu, owner);
}

/* this skips unbound pools, which have no CPU, and BH pools, whose worker has no task */
static void show_cpu_pools_busy_workers(void)
{
	struct worker_pool *pool;
	bool any = false;
	int id;

	guard(rcu)();

	for_each_pool(pool, id) {
		if (!pool->cpu_stall)
			continue;
		if (!any)
			pr_info("Showing backtraces of busy workers in stalled worker pools:\n");
		any = true;
		show_stuck_pool(pool);
	}
}

/* panic after this many reports; 0: never */
static unsigned int wq_panic_on_stall = CONFIG_BOOTPARAM_WQ_STALL_PANIC;
module_param_named(panic_on_stall, wq_panic_on_stall, uint, 0644);

/* panic after a stall of this many seconds; 0: never */
static unsigned int wq_panic_on_stall_time;
module_param_named(panic_on_stall_time, wq_panic_on_stall_time, uint, 0644);
MODULE_PARM_DESC(panic_on_stall_time, "seconds a stall may last before panic (0: never panic)");

/* after a report: panic if there were too many, or the stall took too long */
static void panic_on_wq_watchdog(unsigned int secs)
{
	static unsigned int nr_reports;

	if (wq_panic_on_stall && ++nr_reports >= wq_panic_on_stall)
		panic("workqueue: %u stall(s) exceeded threshold %u\n",
		      nr_reports, wq_panic_on_stall);

	if (wq_panic_on_stall_time && secs >= wq_panic_on_stall_time)
		panic("workqueue: stall lasted %us, exceeding threshold %us\n",
		      secs, wq_panic_on_stall_time);
}

/* from now on treat all pools as healthy, so that a stall is reported again only as late */
static void wq_watchdog_reset_touched(void)
{
	unsigned long now = READ_ONCE(wq_watchdog_clock);
	int cpu;

	WRITE_ONCE(wq_watchdog_touched, now);
	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(wq_watchdog_touched_cpu, cpu), now);
}

/* does work wait in any pool?  It may be about to run. */
static bool any_pool_has_work(void)
{
	struct worker_pool *pool;
	int id;

	guard(rcu)();

	for_each_pool(pool, id)
		if (!list_empty(&pool->worklist))
			return true;
	return false;
}

/*
 * Each timer's callback arms one of the two, so never more than one is armed.  The wakeful one is
 * pinned: the only busy CPU, which would else run it for an idle one, may be the stuck one.
 */
static struct timer_list wq_watchdog_timer;		/* wakes no idle CPU */
static struct timer_list wq_watchdog_wakeful_timer;	/* if something waits */
static bool wq_watchdog_started;		/* boot has reached wq_watchdog_init() */

static void wq_watchdog_timer_fn(struct timer_list *timer)
{
	unsigned long thresh = READ_ONCE(wq_watchdog_thresh) * HZ;
	unsigned long period = thresh / WQ_WATCHDOG_LOOKS;
	unsigned long now = wq_watchdog_clock + period;
	bool waits;
	int secs;

	if (!thresh)
		return;

	WRITE_ONCE(wq_watchdog_clock, now);
	secs = find_stuck_pools(thresh);
	if (secs >= 0) {
		show_all_workqueues();
		show_cpu_pools_busy_workers();
		panic_on_wq_watchdog(secs);
		wq_watchdog_reset_touched();
	}
	waits = wq_look_for_held(&(struct wq_look){ now, period, thresh }) || any_pool_has_work();

	mod_timer(waits ? &wq_watchdog_wakeful_timer : &wq_watchdog_timer, jiffies + period);
}

/**
 * wq_watchdog_touch - leave the pools of a CPU alone for another period
 * @cpu: the CPU
 *
 * Code that touches the softlockup watchdog calls this.  It spares unbound pools, too:
 * they may wait for a worker that this CPU keeps from running.
 *
 * Context: any, NMIs included.
 */
notrace void wq_watchdog_touch(int cpu)
{
	unsigned long patience = READ_ONCE(wq_watchdog_thresh) * HZ / 4;
	unsigned long now = READ_ONCE(wq_watchdog_clock);

	if (!WARN_ONCE(cpu < 0, "%s should be called with valid CPU", __func__))
		WRITE_ONCE(per_cpu(wq_watchdog_touched_cpu, cpu), now);

	/* all CPUs share this one, and a coarse value is good enough */
	if (time_after(now, READ_ONCE(wq_watchdog_touched) + patience))
		WRITE_ONCE(wq_watchdog_touched, now);
}

/*
 * A timer callback that runs meanwhile may have read the old threshold and may arm a timer.
 * timer_delete_sync() waits for the callback and disarms its timer again.  If the callback of the
 * wakeful timer has armed the other one, that one finds the threshold 0 or is armed anew.
 */
static void wq_watchdog_set_thresh(unsigned long secs)
{
	WRITE_ONCE(wq_watchdog_thresh, 0);
	timer_delete_sync(&wq_watchdog_timer);
	timer_delete_sync(&wq_watchdog_wakeful_timer);
	if (!secs)
		return;

	wq_watchdog_reset_touched();
	WRITE_ONCE(wq_watchdog_thresh, secs);
	mod_timer(&wq_watchdog_timer, jiffies + secs * HZ / WQ_WATCHDOG_LOOKS);
}

static int wq_watchdog_param_set_thresh(const char *val, const struct kernel_param *kp)
{
	unsigned long secs;
	int ret = kstrtoul(val, 0, &secs);

	if (ret)
		return ret;
	if (secs > MAX_JIFFY_OFFSET / HZ)
		return -ERANGE;

	if (wq_watchdog_started)
		wq_watchdog_set_thresh(secs);
	else
		wq_watchdog_thresh = secs;
	return 0;
}

static const struct kernel_param_ops wq_watchdog_thresh_ops = {
	.set = wq_watchdog_param_set_thresh,
	.get = param_get_ulong,
};

module_param_cb(watchdog_thresh, &wq_watchdog_thresh_ops, &wq_watchdog_thresh, 0644);

/* boot, once the pools have workers: start to watch */
void __init wq_watchdog_init(void)
{
	/* a deferrable timer wakes no sleeping CPU just to find that all is well */
	timer_setup(&wq_watchdog_timer, wq_watchdog_timer_fn, TIMER_DEFERRABLE);
	timer_setup(&wq_watchdog_wakeful_timer, wq_watchdog_timer_fn, TIMER_PINNED);
	wq_watchdog_started = true;
	wq_watchdog_set_thresh(wq_watchdog_thresh);
}
