// SPDX-License-Identifier: GPL-2.0
/*
 * How long items wait and run: a histogram for each workqueue, while somebody wants them.
 *
 * An item waits from the moment it is queued until its function is called.  The delay of a
 * delayed_work and the grace period of an rcu_work do not count; being held back does.  It runs
 * until its function has returned.  Flush barriers are left out.
 *
 * A work_struct has no room for a time stamp, so a table has those of queued items, by address.
 * Who sets or removes one owns PENDING and holds the lock of the pool.  If its bucket is full, an
 * item gets none, and its wait is counted as missed.
 */
#include <linux/hash.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "latency.h"
#include "workqueue_struct.h"

#define STAMP_BUCKETS_ORDER	13
#define STAMPS_PER_BUCKET	8

struct stamp {
	struct work_struct *work;	/* NULL: free; claimed by cmpxchg() */
	u64 ns;				/* for the owner of @work */
};

struct stamp_table {
	u64 since;			/* I: ns */
	struct stamp buckets[1 << STAMP_BUCKETS_ORDER][STAMPS_PER_BUCKET];
};

DEFINE_STATIC_KEY_FALSE(wq_latency_on);
static DEFINE_MUTEX(latency_switch_mutex);	/* outside of cpus_read_lock */
static struct stamp_table __rcu *wq_stamps;	/* P for writes, RCU for reads */

/* usable under any lock, as it takes none; on another CPU it may be slightly behind */
static u64 now_ns(void)
{
	return ktime_get_mono_fast_ns();
}

static struct stamp *stamp_bucket(struct stamp_table *table, struct work_struct *work)
{
	return table->buckets[hash_ptr(work, STAMP_BUCKETS_ORDER)];
}

/* remove the stamp of @work; return 0 if it has none */
static u64 stamp_remove(struct stamp_table *table, struct work_struct *work)
{
	struct stamp *bucket = stamp_bucket(table, work);
	u64 ns = 0;
	int i;

	for (i = 0; i < STAMPS_PER_BUCKET; i++) {
		if (READ_ONCE(bucket[i].work) != work)
			continue;
		ns = bucket[i].ns;
		/* pairs with the cmpxchg() of whoever claims it */
		smp_store_release(&bucket[i].work, NULL);
	}
	return ns;
}

static void stamp_set(struct stamp_table *table, struct work_struct *work)
{
	struct stamp *bucket = stamp_bucket(table, work);
	int i;

	for (i = 0; i < STAMPS_PER_BUCKET; i++) {
		if (READ_ONCE(bucket[i].work) || cmpxchg(&bucket[i].work, NULL, work))
			continue;
		bucket[i].ns = now_ns();
		return;
	}
}

/* count a time in a histogram of this CPU; interrupts are off */
static void hist_add(struct wq_hist *hist, u64 from, u64 to)
{
	u64 us = to > from ? div_u64(to - from, NSEC_PER_USEC) : 0;
	int bucket = min(fls64(us), WQ_HIST_BUCKETS - 1);

	WRITE_ONCE(hist->items[bucket], hist->items[bucket] + 1);
	if (us > hist->longest_us)
		WRITE_ONCE(hist->longest_us, us);
}

/* an item is being queued; L */
void latency_note_queued(struct work_struct *work)
{
	struct stamp_table *table = rcu_dereference_sched(wq_stamps);

	if (!table)
		return;
	/* while the switch was thrown, its last stamp may have been missed */
	stamp_remove(table, work);
	stamp_set(table, work);
}

/* a queued item will not run; L */
void latency_note_cancelled(struct work_struct *work)
{
	struct stamp_table *table = rcu_dereference_sched(wq_stamps);

	if (table)
		stamp_remove(table, work);
}

/* a worker is about to call the function of an item, which is still owned through PENDING; L */
void latency_note_start(struct worker *worker, struct work_struct *work, unsigned long data)
{
	struct stamp_table *table = rcu_dereference_sched(wq_stamps);
	struct wq_latency __percpu *latency;
	struct wq_latency *here;
	u64 queued;

	if (!table || (data & WORK_STRUCT_INACTIVE))
		return;

	worker->latency_start = now_ns();
	queued = stamp_remove(table, work);
	latency = READ_ONCE(worker->current_pwq->wq->latency);
	if (!latency)
		return;

	here = this_cpu_ptr(latency);
	if (queued)
		hist_add(&here->wait, queued, worker->latency_start);
	else
		WRITE_ONCE(here->missed, here->missed + 1);
}

/* the function of an item has returned; L */
void latency_note_end(struct worker *worker, unsigned long data)
{
	struct stamp_table *table = rcu_dereference_sched(wq_stamps);
	struct wq_latency __percpu *latency = READ_ONCE(worker->current_pwq->wq->latency);

	/* of items that began before the measurement nobody knows when */
	if (table && latency && !(data & WORK_STRUCT_INACTIVE) &&
	    worker->latency_start >= table->since)
		hist_add(&this_cpu_ptr(latency)->run, worker->latency_start, now_ns());
}

static int wq_latency_alloc(struct workqueue_struct *wq)
{
	struct wq_latency __percpu *latency = alloc_percpu(struct wq_latency);

	if (!latency)
		return -ENOMEM;
	smp_store_release(&wq->latency, latency);	/* pairs as latency.h says */
	return 0;
}

/* measure a new workqueue, too, if others are measured and there is memory; P */
void wq_latency_attach(struct workqueue_struct *wq)
{
	lockdep_assert_held(&wq_pool_mutex);

	if (rcu_access_pointer(wq_stamps))
		wq_latency_alloc(wq);
}

/* free the histograms of a workqueue that has no items */
void wq_latency_free(struct workqueue_struct *wq)
{
	free_percpu(wq->latency);
}

/* the end of the measurement, or of a failed attempt; nobody uses the memory any more */
static void latency_free_all(void)
{
	struct workqueue_struct *wq;

	guard(mutex)(&wq_pool_mutex);

	vfree(rcu_dereference_protected(wq_stamps, true));
	RCU_INIT_POINTER(wq_stamps, NULL);
	list_for_each_entry(wq, &workqueues, list) {
		free_percpu(wq->latency);
		wq->latency = NULL;
	}
}

static int latency_alloc_all(void)
{
	struct stamp_table *table = vzalloc(sizeof(*table));
	struct workqueue_struct *wq;

	if (!table)
		return -ENOMEM;
	table->since = now_ns();

	guard(mutex)(&wq_pool_mutex);

	/* from here on new workqueues get their own */
	rcu_assign_pointer(wq_stamps, table);
	list_for_each_entry(wq, &workqueues, list)
		if (wq_latency_alloc(wq))
			return -ENOMEM;
	return 0;
}

/*
 * Begin the measurement, with empty histograms unless they exist already, or end it; 0 or -ENOMEM.
 */
int wq_latency_switch(bool on)
{
	int ret;

	guard(mutex)(&latency_switch_mutex);

	if (on == static_key_enabled(&wq_latency_on))
		return 0;
	if (on) {
		ret = latency_alloc_all();
		if (ret)
			latency_free_all();
		else
			static_branch_enable(&wq_latency_on);
		return ret;
	}
	static_branch_disable(&wq_latency_on);
	/* those that found the switch on hold a pool->lock */
	synchronize_rcu();
	latency_free_all();
	return 0;
}

/* add up the histograms of all CPUs; false if @wq is not measured.  P */
bool wq_latency_sum(struct workqueue_struct *wq, struct wq_latency *sum)
{
	int cpu, i;

	lockdep_assert_held(&wq_pool_mutex);

	memset(sum, 0, sizeof(*sum));
	if (!wq->latency)
		return false;

	for_each_possible_cpu(cpu) {
		struct wq_latency *one = per_cpu_ptr(wq->latency, cpu);

		for (i = 0; i < WQ_HIST_BUCKETS; i++) {
			sum->wait.items[i] += READ_ONCE(one->wait.items[i]);
			sum->run.items[i] += READ_ONCE(one->run.items[i]);
		}
		sum->wait.longest_us = max(sum->wait.longest_us, READ_ONCE(one->wait.longest_us));
		sum->run.longest_us = max(sum->run.longest_us, READ_ONCE(one->run.longest_us));
		sum->missed += READ_ONCE(one->missed);
	}
	return true;
}
