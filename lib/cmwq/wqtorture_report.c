// SPDX-License-Identifier: GPL-2.0
/*
 * What wqtorture prints: violations when they happen, statistics now and then, and the
 * verdict. The monitor also detects what makes no progress.
 */
#define pr_fmt(fmt) "wqtorture: " fmt

#include <linux/delay.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sysrq.h>

#include "wqtorture.h"

#define REPORTS_OF_A_KIND	5

static DEFINE_PER_CPU(unsigned long [WQT_NR_STATS], counts);
static atomic_long_t wrongs[WQT_NR_WRONGS];

static const char * const stat_names[WQT_NR_STATS] = {
	[WQT_QUEUE]		= "queued",
	[WQT_REFUSED]		= "refused",
	[WQT_DELAYED]		= "delayed",
	[WQT_MOD]		= "mod",
	[WQT_CANCEL]		= "cancel",
	[WQT_CANCEL_SYNC]	= "cancel_sync",
	[WQT_DISABLE]		= "disable",
	[WQT_FLUSH_WORK]	= "flush_work",
	[WQT_FLUSH_WQ]		= "flush_wq",
	[WQT_DRAIN]		= "drain",
	[WQT_DESTROY]		= "destroy",
	[WQT_TOKEN]		= "token",
	[WQT_RCU]		= "rcu",
	[WQT_STACK]		= "stack",
	[WQT_MOVED]		= "moved",
	[WQT_LIMIT]		= "limit",
	[WQT_SOFTIRQ]		= "softirq",
	[WQT_HARDIRQ]		= "hardirq",
	[WQT_RUN]		= "runs",
	[WQT_RUN_BH]		= "runs_bh",
	[WQT_CPU_CHECKED]	= "cpu_checked",
	[WQT_POD_CHECKED]	= "pod_checked",
	[WQT_ORDER_CHECKED]	= "order_checked",
	[WQT_RCU_CHECKED]	= "rcu_checked",
	[WQT_ATTRS]		= "attrs",
	[WQT_ATTRS_FAILED]	= "attrs_failed",
	[WQT_MASK]		= "mask",
	[WQT_SHARD]		= "shard",
	[WQT_MAX_ACTIVE]	= "max_active",
	[WQT_CPU_DOWN]		= "cpu_down",
	[WQT_CPU_UP]		= "cpu_up",
	[WQT_FAMINE]		= "famine",
	[WQT_RESCUED]		= "rescued",
	[WQT_SLOW]		= "slow",
	[WQT_SLOW_MS]		= "slow_ms",
	[WQT_SLOW_RESCUED]	= "slow_rescued",
	[WQT_SLOW_VAIN]		= "slow_vain",
	[WQT_SQUEEZE]		= "squeeze",
	[WQT_FREEZE]		= "freeze",
	[WQT_FROZEN_CHECKED]	= "frozen_checked",
	[WQT_STORM]		= "storm",
	[WQT_STORM_TASKLET]	= "storm_tasklet",
	[WQT_LOST_CPU]		= "lost_cpu",
	[WQT_LOST_MS]		= "lost_ms",
	[WQT_HELD]		= "held",
	[WQT_STUCK]		= "stuck",
	[WQT_ON_DYING]		= "on_dying",
	[WQT_ON_OFFLINE]	= "on_offline",
	[WQT_START_CHECKED]	= "start_checked",
	[WQT_START_SWAPPED]	= "start_swapped",
};

static const char * const wrong_names[WQT_NR_WRONGS] = {
	[WQT_LOST]		= "lost",
	[WQT_EXTRA]		= "extra_run",
	[WQT_OVERLAP]		= "overlap",
	[WQT_WRONG_CONTEXT]	= "wrong_context",
	[WQT_WRONG_CPU]		= "wrong_cpu",
	[WQT_OUT_OF_POD]	= "out_of_pod",
	[WQT_ORDER]		= "order",
	[WQT_OVER_LIMIT]	= "over_max_active",
	[WQT_UNDER_LIMIT]	= "under_max_active",
	[WQT_FLUSH_EARLY]	= "flush_early",
	[WQT_FLUSH_WQ_EARLY]	= "flush_wq_early",
	[WQT_CANCEL_EARLY]	= "cancel_early",
	[WQT_DISABLED_RAN]	= "disabled_ran",
	[WQT_BAD_RETURN]	= "bad_return",
	[WQT_EARLY]		= "early",
	[WQT_RCU_EARLY]		= "rcu_early",
	[WQT_TOUCHED]		= "touched_freed",
	[WQT_HALF_APPLIED]	= "half_applied",
	[WQT_NO_RESCUE]		= "no_rescue",
	[WQT_HELD_UP]		= "held_up",
	[WQT_FROZEN_RAN]	= "frozen_ran",
	[WQT_START_ORDER]	= "start_order",
	[WQT_STALL]		= "stall",
};

void wqt_count(enum wqt_stat stat)
{
	this_cpu_inc(counts[stat]);
}

void wqt_add(enum wqt_stat stat, unsigned long nr)
{
	this_cpu_add(counts[stat], nr);
}

unsigned long wqt_sum(enum wqt_stat stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(counts, cpu)[stat]);
	return sum;
}

unsigned long wqt_wrongs(void)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < WQT_NR_WRONGS; i++)
		sum += atomic_long_read(&wrongs[i]);
	return sum;
}

/* Counts a violation, and describes the first ones of its kind. */
void wqt_wrong(enum wqt_wrong what, const struct wqt_slot *slot, const char *fmt, ...)
{
	struct va_format text;
	va_list args;

	if (atomic_long_inc_return(&wrongs[what]) > REPORTS_OF_A_KIND)
		return;
	va_start(args, fmt);
	text.fmt = fmt;
	text.va = &args;
	pr_alert("!!! %s: %s: %pV (cpu %d, %s/%d)\n", wrong_names[what],
		 slot ? slot->kind->name : "-", &text, raw_smp_processor_id(),
		 current->comm, current->pid);
	va_end(args);
}

/*
 * Something makes no progress. The first time this happens, log all tasks, workqueues and
 * pools while it lasts.
 */
void wqt_show_state(void)
{
	static atomic_t shown;

	if (!atomic_xchg(&shown, 1))
		handle_sysrq('t');
}

/* Prints names and values of all counters that are not zero, in lines of limited length. */
static void print_counts(const char *head, const char * const *names, int nr,
			 unsigned long (*value)(int i))
{
	char line[200];
	int i, len = 0;

	for (i = 0; i < nr; i++) {
		if (!value(i))
			continue;
		len += scnprintf(line + len, sizeof(line) - len, " %s=%lu", names[i], value(i));
		if (len > 140) {
			pr_info("%s%s\n", head, line);
			len = 0;
		}
	}
	if (len)
		pr_info("%s%s\n", head, line);
}

static unsigned long stat_value(int i)
{
	return wqt_sum(i);
}

static unsigned long wrong_value(int i)
{
	return atomic_long_read(&wrongs[i]);
}

void wqt_print_stats(void)
{
	print_counts("stats", stat_names, WQT_NR_STATS, stat_value);
	print_counts("!!! violations", wrong_names, WQT_NR_WRONGS, wrong_value);
}

/* The number of operations, without those that were refused. */
static unsigned long operations(void)
{
	static const enum wqt_stat ops[] = {
		WQT_QUEUE, WQT_DELAYED, WQT_MOD, WQT_CANCEL, WQT_CANCEL_SYNC,
		WQT_DISABLE, WQT_FLUSH_WORK, WQT_FLUSH_WQ, WQT_DRAIN, WQT_DESTROY,
		WQT_TOKEN, WQT_STACK, WQT_MOVED, WQT_LIMIT,
	};
	unsigned long sum = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		sum += wqt_sum(ops[i]);
	return sum;
}

void wqt_print_end(void)
{
	unsigned long bad = wqt_wrongs();

	pr_alert("--- End of test: %s: seed=%u operations=%lu runs=%lu attrs=%lu masks=%lu hotplug=%lu violations=%lu\n",
		 bad ? "FAILURE" : "SUCCESS", wqt_seed, operations(),
		 wqt_sum(WQT_RUN) + wqt_sum(WQT_RUN_BH), wqt_sum(WQT_ATTRS), wqt_sum(WQT_MASK),
		 wqt_sum(WQT_CPU_DOWN), bad);
}

static void look_at(struct wqt_actor *actor)
{
	const char *op = READ_ONCE(actor->op);
	unsigned long since = READ_ONCE(actor->since);

	if (!op || READ_ONCE(actor->reported) ||
	    time_before(jiffies, since + wqt_stall * HZ))
		return;
	WRITE_ONCE(actor->reported, true);
	wqt_wrong(WQT_STALL, READ_ONCE(actor->slot), "%s has been at %s for %u ms",
		  actor->name, op, jiffies_to_msecs(jiffies - since));
	if (actor->task)
		sched_show_task(actor->task);
	wqt_show_state();
}

/* Prints statistics, frees the tokens that were kept, and reports who makes no progress. */
int wqt_monitor(void *arg)
{
	int *interval = arg;
	unsigned long next = jiffies + *interval * HZ;

	while (!kthread_should_stop()) {
		schedule_timeout_interruptible(HZ / 5);
		wqt_tokens_reap(false);
		wqt_visit_actors(look_at);
		if (!*interval || time_before(jiffies, next) || wqt_over())
			continue;
		wqt_print_stats();
		next = jiffies + *interval * HZ;
	}
	return 0;
}
