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
#include <linux/hashtable.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/slab.h>

#include "internal.h"
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
		next = pool_kick(pool);
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
	 * the count; pool_needs_worker() may read it on another one.
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

#ifdef CONFIG_WQ_CPU_INTENSIVE_REPORT

/* a function is reported at this many occurrences, then at each higher power of two; 0: never */
static unsigned int wq_cpu_intensive_warning_thresh = 4;
module_param_named(cpu_intensive_warning_thresh, wq_cpu_intensive_warning_thresh,
		   uint, 0644);

/*
 * The functions seen so far.  Entries are never removed.  They come from a static
 * table because this runs in the timer interrupt.  Once the table is full, new
 * offenders go unreported.
 */
#define NR_HOGS		128

struct hog {
	work_func_t func;		/* I */
	atomic64_t seen;
	struct hlist_node node;		/* hogs_lock for writes, RCU for reads */
};

static struct hog hogs[NR_HOGS];
static int nr_hogs;				/* hogs_lock */
static DEFINE_HASHTABLE(hog_table, 7);		/* hogs_lock for writes, RCU */
static DEFINE_RAW_SPINLOCK(hogs_lock);

static struct hog *hog_find(work_func_t func)
{
	struct hog *hog;

	hash_for_each_possible_rcu_notrace(hog_table, hog, node, (unsigned long)func)
		if (hog->func == func)
			return hog;
	return NULL;
}

static struct hog *hog_find_or_add(work_func_t func)
{
	struct hog *hog = hog_find(func);

	if (hog)
		return hog;

	guard(raw_spinlock)(&hogs_lock);
	hog = hog_find(func);
	if (!hog && nr_hogs < NR_HOGS) {
		hog = &hogs[nr_hogs++];
		hog->func = func;
		hash_add_rcu(hog_table, &hog->node, (unsigned long)func);
	}
	return hog;
}

static void report_hog(work_func_t func)
{
	unsigned int thresh = READ_ONCE(wq_cpu_intensive_warning_thresh);
	struct hog *hog = hog_find_or_add(func);
	u64 seen;

	if (!hog || !thresh)
		return;

	seen = atomic64_inc_return(&hog->seen);
	if (seen != thresh && (seen < thresh || !is_power_of_2(seen)))
		return;

	/* a console may take locks that must not be taken under pool->lock */
	printk_deferred_enter();
	pr_warn("workqueue: %ps hogged CPU for >%luus %llu times, consider switching to WQ_UNBOUND\n",
		func, READ_ONCE(wq_cpu_intensive_thresh_us), seen);
	printk_deferred_exit();
}

#else
static void report_hog(work_func_t func) { }
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

	return READ_ONCE(worker->task->se.sum_exec_runtime) - worker->current_at >=
		(u64)thresh * NSEC_PER_USEC;
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

	if (!pwq)
		return;
	/* read the pool only now: a rescuer without an item may be leaving its pool */
	pool = worker->pool;

	/* workers of an unbound pool meet here; a lost tick does no harm */
	data_race(pwq->stats[PWQ_STAT_CPU_TIME] += TICK_USEC);

	if (!worker_hogs_cpu(worker))
		return;

	raw_spin_lock(&pool->lock);
	worker_set_flags(worker, WORKER_CPU_INTENSIVE);
	report_hog(worker->current_func);
	pwq->stats[PWQ_STAT_CPU_INTENSIVE]++;
	next = pool_kick(pool);
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

/**
 * wq_cpu_intensive_init - choose the threshold unless the user did
 *
 * 10 ms is a very long time on a current machine, and just below what people notice.
 * Machines with less than 4000 BogoMIPS get more, up to a second.
 */
void __init wq_cpu_intensive_init(void)
{
	unsigned long bogomips = max(loops_per_jiffy / 500000 * HZ, 1UL);
	unsigned long us = 10 * USEC_PER_MSEC;

	if (wq_cpu_intensive_thresh_us != THRESH_BY_MACHINE)
		return;

	if (bogomips < 4000)
		us = min(us * 4000 / bogomips, (unsigned long)USEC_PER_SEC);
	wq_cpu_intensive_thresh_us = us;
}
