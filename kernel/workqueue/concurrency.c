// SPDX-License-Identifier: GPL-2.0
/*
 * Concurrency management of per-CPU pools.
 *
 * The scheduler tells us when a worker sleeps, runs again, or gets a tick.  From
 * this, pool->nr_running counts the workers that compete for the CPU.  While the
 * count is above zero, no worker is woken for waiting work.  When the last counted
 * worker sleeps, the next one is woken at once.  Workers with any WORKER_NOT_RUNNING
 * flag do not count; all unbound workers have one.
 */
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "kick.h"
#include "running.h"
#include "worker.h"

/* an item that uses this many us of CPU time without a sleep is CPU intensive; 0: no limit */
#define THRESH_BY_MACHINE	ULONG_MAX
static unsigned long wq_cpu_intensive_thresh_us = THRESH_BY_MACHINE;
module_param_named(cpu_intensive_thresh_us, wq_cpu_intensive_thresh_us, ulong, 0644);

/**
 * wq_worker_sleeping - a worker is about to sleep
 * @task: the worker's task, which is current
 *
 * Context: from schedule(), interrupts and preemption on.
 */
void wq_worker_sleeping(struct task_struct *task)
{
	struct worker *worker = kthread_data(task);
	struct task_struct *next = NULL;
	struct worker_pool *pool;

	/* a detached rescuer, which has no pool, also returns here */
	if (worker->flags & WORKER_NOT_RUNNING)
		return;

	/* preempted on the way to wq_worker_running(): already counted out */
	if (READ_ONCE(worker->sleeping))
		return;
	WRITE_ONCE(worker->sleeping, 1);

	pool = worker->pool;
	raw_spin_lock_irq(&pool->lock);
	/* pool_unbind_workers() may have come first and zeroed nr_running */
	if (!(worker->flags & WORKER_NOT_RUNNING)) {
		pool->nr_running--;
		next = kick_pool(pool);
		if (next)
			worker->current_pwq->stats[PWQ_STAT_CM_WAKEUP]++;
	}
	pool_unlock_wake_irq(pool, next);
}

/**
 * wq_worker_running - a worker runs again after a sleep
 * @task: the worker's task, which is current
 *
 * Context: from schedule(), on the way out.
 */
void wq_worker_running(struct task_struct *task)
{
	struct worker *worker = kthread_data(task);

	if (!READ_ONCE(worker->sleeping))
		return;

	/*
	 * Hotplug unbinds the CPU's pools on this very CPU.  With preemption off, it
	 * cannot come between the flag test and the count.  Only this CPU changes
	 * the count; need_more_worker() may read it on another one.
	 */
	scoped_guard(preempt) {
		struct worker_pool *pool = worker->pool;

		if (!(worker->flags & WORKER_NOT_RUNNING))
			WRITE_ONCE(pool->nr_running, pool->nr_running + 1);
	}

	/* only CPU time since the last sleep makes an item CPU intensive */
	worker->current_at = READ_ONCE(task->se.sum_exec_runtime);
	WRITE_ONCE(worker->sleeping, 0);
}

/* CPU time of the item that the tick interrupted, since it last slept */
static u64 worker_unslept_ns(struct worker *worker)
{
	return READ_ONCE(worker->task->se.sum_exec_runtime) - worker->current_at;
}

#if defined(CONFIG_WQ_CPU_INTENSIVE_REPORT) || defined(CONFIG_DEBUG_FS)

/*
 * The functions that ran for long.  Entries are never removed.  They come from a static
 * table because this runs in the timer interrupt.  Once the table is full, new
 * offenders go unnoticed.
 */
#define WCI_MAX_ENTS	128

struct wci_ent {
	work_func_t func;		/* I */
	atomic64_t times;
	atomic64_t cpu_us;
	u64 longest_us;			/* racy: the tick of another CPU may undo a rise */
	char wq_name[WQ_NAME_LEN];	/* wci_lock */
	struct hlist_node hash_node;		/* wci_lock for writes, RCU for reads */
};

static struct wci_ent wci_ents[WCI_MAX_ENTS];
static int wci_nr_ents;				/* wci_lock */
static DEFINE_HASHTABLE(wci_hash, 7);		/* wci_lock for writes, RCU */
static DEFINE_RAW_SPINLOCK(wci_lock);

static struct wci_ent *wci_find_ent(work_func_t func)
{
	struct wci_ent *hog;

	hash_for_each_possible_rcu_notrace(wci_hash, hog, hash_node, (unsigned long)func)
		if (hog->func == func)
			return hog;
	return NULL;
}

static struct wci_ent *wci_find_or_add(work_func_t func)
{
	struct wci_ent *hog = wci_find_ent(func);

	if (hog)
		return hog;

	guard(raw_spinlock)(&wci_lock);
	hog = wci_find_ent(func);
	if (!hog && wci_nr_ents < WCI_MAX_ENTS) {
		hog = &wci_ents[wci_nr_ents++];
		hog->func = func;
		hash_add_rcu(wci_hash, &hog->hash_node, (unsigned long)func);
	}
	return hog;
}

static void hog_add(struct wci_ent *hog, u64 more_us, u64 unslept_us)
{
	atomic64_add(more_us, &hog->cpu_us);
	if (unslept_us > READ_ONCE(hog->longest_us))
		WRITE_ONCE(hog->longest_us, unslept_us);
}

#ifdef CONFIG_WQ_CPU_INTENSIVE_REPORT

/* a function is reported at this many occurrences, then at each higher power of two; 0: never */
static unsigned int wq_cpu_intensive_warning_thresh = 4;
module_param_named(cpu_intensive_warning_thresh, wq_cpu_intensive_warning_thresh, uint, 0644);

static void wq_cpu_intensive_report(work_func_t func, u64 times)
{
	unsigned int thresh = READ_ONCE(wq_cpu_intensive_warning_thresh);

	if (!thresh || (times != thresh && (times < thresh || !is_power_of_2(times))))
		return;

	/* a console may take locks that must not be taken under pool->lock */
	guard(printk_deferred)();
	pr_warn("workqueue: %ps hogged CPU for >%luus %llu times, consider switching to WQ_UNBOUND\n",
		func, READ_ONCE(wq_cpu_intensive_thresh_us), times);
}

#else
static void wq_cpu_intensive_report(work_func_t func, u64 times) { }
#endif

/* the item that the tick interrupted was found to hog its CPU */
static void note_hog(struct worker *worker)
{
	u64 us = div_u64(worker_unslept_ns(worker), NSEC_PER_USEC);
	struct wci_ent *hog = wci_find_or_add(worker->current_func);

	if (!hog)
		return;
	scoped_guard(raw_spinlock, &wci_lock)
		memcpy(hog->wq_name, worker->current_pwq->wq->name, WQ_NAME_LEN);
	hog_add(hog, us, us);
	wq_cpu_intensive_report(hog->func, atomic64_inc_return(&hog->times));
}

/* one more tick of such an item, or of one whose workqueue has WQ_CPU_INTENSIVE */
static void note_hog_goes_on(struct worker *worker)
{
	struct wci_ent *hog = wci_find_ent(worker->current_func);

	if (hog)
		hog_add(hog, TICK_USEC, div_u64(worker_unslept_ns(worker), NSEC_PER_USEC));
}

/*
 * Copy what is known about the function number @nr that ran for long; false if there are not so
 * many.
 */
bool wq_get_hog(unsigned int nr, struct wq_hog *copy)
{
	struct wci_ent *hog;

	guard(raw_spinlock_irq)(&wci_lock);
	if (nr >= wci_nr_ents)
		return false;
	hog = &wci_ents[nr];
	copy->func = hog->func;
	copy->times = atomic64_read(&hog->times);
	copy->cpu_us = atomic64_read(&hog->cpu_us);
	copy->longest_us = READ_ONCE(hog->longest_us);
	memcpy(copy->wq_name, hog->wq_name, WQ_NAME_LEN);
	return true;
}

#else
static void note_hog(struct worker *worker) { }
static void note_hog_goes_on(struct worker *worker) { }
#endif

/* has the item that the tick interrupted had its CPU for too long? */
static bool worker_hogs_cpu(struct worker *worker)
{
	unsigned long thresh = READ_ONCE(wq_cpu_intensive_thresh_us);

	/*
	 * A worker on its way to sleep takes itself out of nr_running; doing so
	 * here as well would count it out twice.
	 */
	if (!thresh || (worker->flags & WORKER_NOT_RUNNING) || READ_ONCE(worker->sleeping))
		return false;

	return worker_unslept_ns(worker) >= (u64)thresh * NSEC_PER_USEC;
}

/**
 * wq_worker_tick - the scheduler's tick hit a worker
 * @task: the worker's task, which is current
 *
 * Context: hard interrupt.
 */
void wq_worker_tick(struct task_struct *task)
{
	struct worker *worker = kthread_data(task);
	struct pool_workqueue *pwq = worker->current_pwq;
	struct worker_pool *pool;
	struct task_struct *next;
	unsigned long ran;

	if (!pwq)
		return;
	/* read the pool only now: a rescuer without an item may be leaving its pool */
	pool = worker->pool;

	/* workers of an unbound pool meet here; what gets lost does no harm */
	data_race(pwq->stats[PWQ_STAT_CPU_TIME] += TICK_USEC);

	ran = jiffies - worker->current_start;
	/* data_race(): as above */
	data_race(pwq->longest_run = max(pwq->longest_run, ran));

	if (worker->flags & WORKER_CPU_INTENSIVE)
		note_hog_goes_on(worker);
	if (!worker_hogs_cpu(worker))
		return;

	raw_spin_lock(&pool->lock);
	worker_set_flags(worker, WORKER_CPU_INTENSIVE);
	note_hog(worker);
	pwq->stats[PWQ_STAT_CPU_INTENSIVE]++;
	next = kick_pool(pool);
	if (next)
		pwq->stats[PWQ_STAT_CM_WAKEUP]++;
	pool_unlock_wake(pool, next);
}

/**
 * wq_worker_last_func - what a worker ran last
 * @task: a worker's task
 *
 * Context: from the scheduler while it queues or dequeues @task, which runs no
 * item then; elsewhere the answer is outdated at once.
 * Return: the function, %NULL before the first one.
 */
work_func_t wq_worker_last_func(struct task_struct *task)
{
	struct worker *worker = kthread_data(task);

	return worker->last_func;
}

/*
 * Choose the threshold unless the user did.  10 ms is a very long time on a current machine, and
 * just below what people notice.  Machines with less than 4000 BogoMIPS get more, up to a second.
 */
void __init wq_cpu_intensive_thresh_init(void)
{
	unsigned long bogomips = max(loops_per_jiffy / 500000 * HZ, 1UL);
	unsigned long us = 10 * USEC_PER_MSEC;

	if (wq_cpu_intensive_thresh_us != THRESH_BY_MACHINE)
		return;

	if (bogomips < 4000)
		us = min(us * 4000 / bogomips, (unsigned long)USEC_PER_SEC);
	wq_cpu_intensive_thresh_us = us;
}
