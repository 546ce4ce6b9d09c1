// SPDX-License-Identifier: GPL-2.0
/*
 * Counters, and the order in which items started
 */
#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "wqhelp.h"

static const char * const wqh_counter_names[WQH_NR_COUNTERS] = {
	[WQH_QUEUED]		= "queued",
	[WQH_RAN]		= "ran",
	[WQH_LOST]		= "lost",
	[WQH_TWICE]		= "twice",
	[WQH_REENTERED]		= "reentered",
	[WQH_REFUSED]		= "refused",
	[WQH_EARLY]		= "early",
	[WQH_CAUGHT]		= "caught",
	[WQH_PLACED]		= "placed",
	[WQH_OUTSIDE]		= "outside",
	[WQH_WRONG_CPU]		= "wrong_cpu",
	[WQH_MISORDERED]	= "misordered",
	[WQH_RESCUED]		= "rescued",
	[WQH_PEAK]		= "peak",
	[WQH_GAP_MS]		= "gap_ms",
};

void wqh_count(struct wqh_queue *q, enum wqh_counter which)
{
	atomic64_inc(&q->counters[which]);
}

void wqh_record_max(struct wqh_queue *q, enum wqh_counter which, s64 val)
{
	s64 old = atomic64_read(&q->counters[which]);

	while (old < val &&
	       !atomic64_try_cmpxchg(&q->counters[which], &old, val))
		;
}

static bool wqh_in_rescuer(void)
{
	return in_task() && str_has_prefix(current->comm, "kworker/R-");
}

/* Counts an execution, of a load or of a single item. */
void wqh_account_start(struct wqh_queue *q)
{
	s64 now = ktime_get_ns();
	s64 last = atomic64_xchg(&q->last_start, now);

	if (last)
		wqh_record_max(q, WQH_GAP_MS, (now - last) / NSEC_PER_MSEC);
	if (wqh_in_rescuer())
		wqh_count(q, WQH_RESCUED);
	wqh_count(q, WQH_RAN);
	if (wq_has_sleeper(&q->ran_wait))
		wake_up_all(&q->ran_wait);
}

/* Once the table is full, no new series is recorded. */
void wqh_record_order(struct wqh_queue *q, int cpu)
{
	struct wqh_series *last;

	guard(spinlock_bh)(&q->order_lock);
	last = q->nr_series ? &q->order[q->nr_series - 1] : NULL;
	if (last && last->cpu == cpu)
		last->n++;
	else if (q->nr_series < WQH_MAX_SERIES)
		q->order[q->nr_series++] = (struct wqh_series){ cpu, 1 };
}

int wqh_write_wait(struct wqh_queue *q, char *input)
{
	unsigned int n, ms;
	long left;

	if (sscanf(input, "%u %u", &n, &ms) != 2)
		return -EINVAL;

	left = wait_event_interruptible_timeout(q->ran_wait,
						atomic64_read(&q->counters[WQH_RAN]) >= n,
						msecs_to_jiffies(ms));
	if (left < 0)
		return left;
	return left ? 0 : -ETIMEDOUT;
}

int wqh_write_stats(struct wqh_queue *q, char *input)
{
	unsigned int i;

	guard(mutex)(&q->load_mutex);
	for (i = 0; i < WQH_NR_COUNTERS; i++)
		atomic64_set(&q->counters[i], 0);
	atomic64_set(&q->last_start, 0);

	guard(spinlock_bh)(&q->order_lock);
	q->nr_series = 0;
	return 0;
}

int wqh_show_order(struct seq_file *s, struct wqh_queue *q)
{
	unsigned int i;

	guard(spinlock_bh)(&q->order_lock);
	for (i = 0; i < q->nr_series; i++)
		seq_printf(s, "%d %u\n", q->order[i].cpu, q->order[i].n);
	return 0;
}

int wqh_show_stats(struct seq_file *s, struct wqh_queue *q)
{
	unsigned int i;

	for (i = 0; i < WQH_NR_COUNTERS; i++)
		seq_printf(s, "%s %lld\n", wqh_counter_names[i],
			   atomic64_read(&q->counters[i]));
	return 0;
}
