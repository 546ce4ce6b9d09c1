// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/workqueue/: what was counted, for those who have no debug information.
 *
 * Each file has a line of column names, then lines of words.  Blanks, and all that is not printable
 * ASCII, are octal escapes.  Each pwq is read under its own lock, so a file is not one picture.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/seq_file.h>
#include <linux/string_helpers.h>

#include "active.h"
#include "flush.h"
#include "latency.h"
#include "running.h"
#include "workqueues.h"

#define NAME_WIDTH	24

/* the columns of a workqueue; flush barriers are not counted, unlike in pwq->stats */
struct wq_sum {
	struct wq_counts counts;	/* barriers included */
	u64 in_flight;
	u64 held_back;
	u64 running_barriers;
};

/* what of @pwq runs just now?  Ticks do not see an item that sleeps, so look here as well. */
static void pwq_look_at_runs(struct pool_workqueue *pwq, struct wq_sum *sum)
{
	struct worker *worker;
	unsigned long ran;
	int bucket;

	hash_for_each(pwq->pool->busy_hash, bucket, worker, hentry) {
		if (worker->current_pwq != pwq)
			continue;
		if (worker->current_func == wq_barrier_func ||
		    worker->current_func == own_marker_fn) {
			sum->running_barriers++;
			continue;
		}
		ran = jiffies - worker->current_start;
		/* data_race(): a tick on another CPU may do the same */
		data_race(pwq->longest_run = max(pwq->longest_run, ran));
	}
}

static void pwq_add(struct pool_workqueue *pwq, struct wq_sum *sum)
{
	u64 in_flight;

	guard(raw_spinlock_irq)(&pwq->pool->lock);

	if (pwq->stats[PWQ_STAT_STARTED] != pwq->stats[PWQ_STAT_COMPLETED])
		pwq_look_at_runs(pwq, sum);
	wq_counts_add(&sum->counts, pwq);

	in_flight = pwq_nr_unfinished(pwq) -
		    (pwq->stats[PWQ_STAT_BARRIERS] - pwq->stats[PWQ_STAT_BARRIERS_DONE]);
	sum->in_flight += in_flight;
	/* an item that gives up its slot just now is no longer active, but still in flight */
	if (!list_empty(&pwq->inactive_works))
		sum->held_back += in_flight - pwq->nr_active;
}

static void wq_add_up(struct workqueue_struct *wq, struct wq_sum *sum)
{
	struct pool_workqueue *pwq;

	guard(mutex)(&wq->mutex);

	*sum = (struct wq_sum) { .counts = wq->gone };
	for_each_pwq(pwq, wq)
		pwq_add(pwq, sum);
}

static const char *wq_type(struct workqueue_struct *wq)
{
	unsigned int flags = READ_ONCE(wq->flags);

	if (flags & WQ_BH)
		return "bh";
	if (wq_is_ordered(flags))
		return "ordered";
	return flags & WQ_UNBOUND ? "unbound" : "percpu";
}

/* a name in a column of its own */
static void show_name(struct seq_file *m, const char *name)
{
	char text[4 * WQ_NAME_LEN + 1];
	int len = string_escape_mem(name, strlen(name), text, sizeof(text) - 1,
				    ESCAPE_OCTAL | ESCAPE_NAP | ESCAPE_APPEND, " \\");

	text[len] = '\0';
	seq_printf(m, "%-*s", NAME_WIDTH, text);
}

/* the list of workqueues, its head first, for the line of column names */
static void *workqueues_start(struct seq_file *m, loff_t *pos)
{
	mutex_lock(&wq_pool_mutex);
	return seq_list_start_head(&workqueues, *pos);
}

static void *workqueues_next(struct seq_file *m, void *entry, loff_t *pos)
{
	return seq_list_next(entry, &workqueues, pos);
}

static void workqueues_stop(struct seq_file *m, void *entry)
{
	mutex_unlock(&wq_pool_mutex);
}

static int workqueues_show(struct seq_file *m, void *entry)
{
	struct workqueue_struct *wq = list_entry(entry, struct workqueue_struct, list);
	u64 completed, cancelled, barriers;
	struct wq_sum sum;
	const u64 *stats = sum.counts.stats;

	if (entry == &workqueues) {
		seq_printf(m, "%-*s %-7s %7s %9s %9s %9s %9s %9s %9s %11s %10s %13s %9s %11s %9s %9s\n",
			   NAME_WIDTH, "workqueue", "type", "reclaim", "queued", "started",
			   "completed", "cancelled", "in_flight", "held_back", "cpu_time_us",
			   "longest_ms", "cpu_intensive", "cm_wakeup", "repatriated", "mayday",
			   "rescued");
		return 0;
	}

	wq_add_up(wq, &sum);
	barriers = stats[PWQ_STAT_BARRIERS_DONE];
	completed = stats[PWQ_STAT_COMPLETED] - barriers;
	cancelled = stats[PWQ_STAT_CANCELLED];

	show_name(m, wq->name);
	seq_printf(m, " %-7s %7d", wq_type(wq), !!(READ_ONCE(wq->flags) & WQ_MEM_RECLAIM));
	/* nothing counts what was queued: an item is in flight, or has left in one of two ways */
	seq_printf(m, " %9llu %9llu %9llu %9llu %9llu %9llu", completed + cancelled + sum.in_flight,
		   stats[PWQ_STAT_STARTED] - barriers - sum.running_barriers, completed, cancelled,
		   sum.in_flight, sum.held_back);
	seq_printf(m, " %11llu %10u %13llu %9llu %11llu %9llu %9llu\n", stats[PWQ_STAT_CPU_TIME],
		   jiffies_to_msecs(sum.counts.longest_run), stats[PWQ_STAT_CPU_INTENSIVE],
		   stats[PWQ_STAT_CM_WAKEUP], stats[PWQ_STAT_REPATRIATED], stats[PWQ_STAT_MAYDAY],
		   stats[PWQ_STAT_RESCUED]);
	return 0;
}

static const struct seq_operations workqueues_sops = {
	.start	= workqueues_start,
	.next	= workqueues_next,
	.stop	= workqueues_stop,
	.show	= workqueues_show,
};
DEFINE_SEQ_ATTRIBUTE(workqueues);

/* a line of latency: pairs of the least time in a bucket, in us, and the number of its items */
static void show_hist(struct seq_file *m, const char *name, const char *kind,
		      const struct wq_hist *hist, u64 missed)
{
	u64 items = 0;
	int i;

	for (i = 0; i < WQ_HIST_BUCKETS; i++)
		items += hist->items[i];
	if (!items && !missed)
		return;

	show_name(m, name);
	seq_printf(m, " %-4s %9llu %9llu %10llu", kind, items, missed, hist->longest_us);
	for (i = 0; i < WQ_HIST_BUCKETS; i++)
		if (hist->items[i])
			seq_printf(m, " %lu:%llu", i ? BIT(i - 1) : 0, hist->items[i]);
	seq_putc(m, '\n');
}

static int latency_show(struct seq_file *m, void *entry)
{
	struct workqueue_struct *wq = list_entry(entry, struct workqueue_struct, list);
	struct wq_latency sum;

	if (entry == &workqueues) {
		seq_printf(m, "%-*s %-4s %9s %9s %10s %s\n", NAME_WIDTH, "workqueue", "kind",
			   "items", "missed", "longest_us", "from_us:items");
		return 0;
	}
	if (wq_latency_sum(wq, &sum)) {
		show_hist(m, wq->name, "wait", &sum.wait, sum.missed);
		show_hist(m, wq->name, "run", &sum.run, 0);
	}
	return 0;
}

static const struct seq_operations latency_sops = {
	.start	= workqueues_start,
	.next	= workqueues_next,
	.stop	= workqueues_stop,
	.show	= latency_show,
};
DEFINE_SEQ_ATTRIBUTE(latency);

static int latency_enable_get(void *unused, u64 *on)
{
	*on = static_key_enabled(&wq_latency_on);
	return 0;
}

static int latency_enable_set(void *unused, u64 on)
{
	return on > 1 ? -EINVAL : wq_latency_switch(on);
}
DEFINE_DEBUGFS_ATTRIBUTE(latency_enable_fops, latency_enable_get, latency_enable_set, "%llu\n");

static int functions_show(struct seq_file *m, void *unused)
{
	struct wq_hog hog;
	unsigned int nr;

	seq_printf(m, "%-*s %9s %11s %10s %s\n", NAME_WIDTH, "workqueue", "times", "cpu_time_us",
		   "longest_us", "function");
	for (nr = 0; wq_get_hog(nr, &hog); nr++) {
		show_name(m, hog.wq_name);
		seq_printf(m, " %9llu %11llu %10llu %ps\n", hog.times, hog.cpu_us, hog.longest_us,
			   hog.func);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(functions);

static int __init wq_debugfs_init(void)
{
	struct dentry *folder = debugfs_create_dir("workqueue", NULL);

	debugfs_create_file("workqueues", 0400, folder, NULL, &workqueues_fops);
	debugfs_create_file("functions", 0400, folder, NULL, &functions_fops);
	debugfs_create_file("latency", 0400, folder, NULL, &latency_fops);
	debugfs_create_file_unsafe("latency_enable", 0600, folder, NULL, &latency_enable_fops);
	return 0;
}
late_initcall(wq_debugfs_init);
