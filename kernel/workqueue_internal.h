/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the scheduler, async and fork-time code see of the workqueue: the worker
 * behind a kworker task, and the hooks that tell us when it sleeps or runs.
 */
#ifndef _KERNEL_WORKQUEUE_INTERNAL_H
#define _KERNEL_WORKQUEUE_INTERNAL_H

#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

struct pool_workqueue;
struct worker_pool;

/*
 * struct worker - one execution context of a pool, or a rescuer
 *
 * A worker is a kthread that runs the work items of its pool.  In a BH pool it stands
 * for the softirq of that CPU, and @task is %NULL.
 *
 * Guards, as in kernel/workqueue/state.h:
 *   L     pool->lock
 *   A     wq_pool_attach_mutex
 *   I     set before the worker is visible, constant afterwards
 *   OWN+L written by the worker itself under pool->lock; the worker, an
 *         interrupt on top of it, and holders of pool->lock may read it
 *
 * The worker writes nearly all of it for each item.  In pools that CPUs share, others read it
 * when they look for a worker to wake, or for the run of an item.
 */
struct worker {
	struct task_struct *task;		/* I */
	struct worker_pool *pool;		/* A; rescuer: NULL while detached */
	struct work_struct *current_work;	/* OWN+L: key in pool->busy_hash */
	struct pool_workqueue *current_pwq;	/* OWN+L */
	work_func_t current_func;		/* OWN+L */
	unsigned long current_start;		/* OWN+L: jiffies */
	/*
	 * CPU time (ns) when the last item started or went on after a sleep, or when the worker
	 * last found no item.  OWN+L, but create_worker() writes it as well.  wq_worker_running()
	 * needs no lock: the worker is not idle then, and others read this of idle workers only.
	 */
	u64 current_at;
	unsigned int current_color;		/* OWN+L: flush colour */

	/* L: the worker's place in pool->busy_hash while it runs an item ... */
	struct hlist_node hentry;
	/* ... and in pool->idle_list, or a list of dying workers, otherwise */
	struct list_head entry;

	/* L: items that only this worker may run, in order; empty while idle */
	struct list_head scheduled;

	/*
	 * L for writes by others; the worker and its scheduler hooks read it
	 * on the worker's CPU.
	 */
	unsigned int flags;

	/*
	 * Set by wq_worker_sleeping(), cleared by wq_worker_running(), both in
	 * the context of @task, so that each sleep is counted exactly once.
	 */
	int sleeping;

	work_func_t last_func;			/* OWN+L: psi asks for this */
	unsigned long last_active;		/* L: jiffies when it went idle */
#ifdef CONFIG_DEBUG_FS
	u64 latency_start;			/* OWN+L: ns; perhaps of an older item: latency.c */
#endif
	int id;					/* I: number within the pool */
	struct list_head node;			/* A: pool->workers */
	struct workqueue_struct *rescue_wq;	/* I: rescuers only */
	struct pool_workqueue *rescue_pwq;	/* the rescuer's own: the pwq that it serves */
	char desc[WORKER_DESC_LEN];		/* written by the worker; shown by ps */
};

/**
 * current_wq_worker - the worker of the calling task
 *
 * Context: any; in interrupts the interrupted worker does not count.
 * Return: the worker, or %NULL if the caller is not a worker.  BH workers are not found
 * either: current_worker() of kernel/workqueue finds them, too.
 */
static inline struct worker *current_wq_worker(void)
{
	bool is_worker = in_task() && (current->flags & PF_WQ_WORKER);

	return is_worker ? kthread_data(current) : NULL;
}

/* The scheduler tells us about a worker's sleep, wake-up and ticks. */
void wq_worker_tick(struct task_struct *task);
void wq_worker_sleeping(struct task_struct *task);
void wq_worker_running(struct task_struct *task);
/* psi asks what a worker ran last */
work_func_t wq_worker_last_func(struct task_struct *task);

#endif /* _KERNEL_WORKQUEUE_INTERNAL_H */
