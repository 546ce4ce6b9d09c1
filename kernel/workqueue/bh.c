// SPDX-License-Identifier: GPL-2.0
/*
 * BH pools: work items in softirq context.
 *
 * Each CPU has two, served by the tasklet and high-priority tasklet softirqs.
 * The only worker of such a pool has no task: it stands for the softirq and is never
 * freed.  The pools count as disassociated: there is no concurrency to manage.
 */
#include <linux/bottom_half.h>

#include "kick.h"
#include "running.h"
#include "worker.h"

/* limits for one turn of the softirq, which is raised again if items are left */
#define BH_MAX_ITEMS	10
#define BH_MAX_MSECS	2

#ifdef CONFIG_PREEMPT_RT
/*
 * Softirqs are preemptible on RT.  cb_lock is held while items run, so that a task that
 * waits for an item can lend its priority instead of spinning.
 */
static void bh_lock_running(struct worker_pool *pool)
{
	/*
	 * A dead CPU's pool is served from within an item of a live CPU's pool.  The
	 * flag is stable while that lasts, and only lockdep looks at the depth.
	 */
	int depth = data_race(pool->flags) & POOL_BH_DRAINING ? SINGLE_DEPTH_NESTING : 0;

	spin_lock_nested(&pool->cb_lock, depth);
	WRITE_ONCE(pool->cb_owner, current);
}

static void bh_unlock_running(struct worker_pool *pool)
{
	WRITE_ONCE(pool->cb_owner, NULL);
	spin_unlock(&pool->cb_lock);
}

void bh_wait_running(struct worker_pool *pool)
{
	spin_lock(&pool->cb_lock);
	spin_unlock(&pool->cb_lock);
}
#else
static void bh_lock_running(struct worker_pool *pool) { }
static void bh_unlock_running(struct worker_pool *pool) { }
/* wait until a pool's softirq is out of its items; only PREEMPT_RT needs that */
void bh_wait_running(struct worker_pool *pool) { }
#endif

/* run items of the pool of BH @worker for a turn */
static void bh_worker(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;
	unsigned long end = jiffies + msecs_to_jiffies(BH_MAX_MSECS);
	int left = BH_MAX_ITEMS;

	bh_lock_running(pool);
	raw_spin_lock_irq(&pool->lock);
	worker_leave_idle(worker);

	if (need_more_worker(pool)) {
		worker_clr_flags(worker, WORKER_PREP);
		do {
			worker_run_next(worker);
		} while (keep_working(pool) && --left && time_before(jiffies, end));
		worker_set_flags(worker, WORKER_PREP);
	}

	worker_enter_idle(worker);
	/* the rest waits for the next turn; this wakes no task */
	kick_pool(pool);
	raw_spin_unlock_irq(&pool->lock);
	bh_unlock_running(pool);
}

/**
 * workqueue_softirq_action - serve this CPU's BH pool
 * @highpri: which one
 *
 * Context: softirq; called at each tasklet softirq, with or without work.
 */
void workqueue_softirq_action(bool highpri)
{
	struct worker_pool *pool = this_cpu_ptr(bh_worker_pools) + highpri;

	/*
	 * The softirq is raised after an item is queued, so this misses no item.  The
	 * worker is this softirq, so it is idle now.  In early boot there is no worker.  On
	 * PREEMPT_RT without its BH lock, this may have preempted a task that runs items: that
	 * task raises the softirq again if it leaves any.
	 */
	if (data_race(need_more_worker(pool) && pool->nr_idle))
		bh_worker(list_first_entry(&pool->workers, struct worker, node));
}

/* an item that serves a dead CPU's BH pool */
struct wq_drain_dead_softirq_work {
	struct work_struct work;
	struct worker_pool *pool;
	struct completion done;
};

static bool bh_queue_drain(struct wq_drain_dead_softirq_work *drain)
{
	return queue_work(bh_is_highpri(drain->pool) ? system_bh_highpri_wq : system_bh_wq,
			  &drain->work);
}

/* say which dead CPU's pool the worker of @own runs, see work_home() in claim.c */
static void bh_set_drained(struct worker_pool *own, struct worker_pool *drained)
{
	guard(raw_spinlock_irq)(&own->lock);
	own->drained = drained;
}

static void drain_dead_softirq_workfn(struct work_struct *work)
{
	struct wq_drain_dead_softirq_work *drain =
		container_of(work, struct wq_drain_dead_softirq_work, work);
	struct worker_pool *pool = drain->pool;
	struct worker_pool *own = bh_pool(smp_processor_id(), bh_is_highpri(pool));
	bool more;

	bh_set_drained(own, pool);
	scoped_guard(raw_spinlock_irq, &pool->lock) {
		pool->flags |= POOL_BH_DRAINING;
		pool->drain_cpu = smp_processor_id();
	}

	bh_worker(list_first_entry(&pool->workers, struct worker, node));

	scoped_guard(raw_spinlock_irq, &pool->lock) {
		pool->flags &= ~POOL_BH_DRAINING;
		more = need_more_worker(pool);
	}
	bh_set_drained(own, NULL);

	/* let this CPU's softirq do other work before the rest */
	if (more)
		bh_queue_drain(drain);
	else
		complete(&drain->done);
}

/**
 * workqueue_softirq_dead - run what a dead CPU left in its BH pools
 * @cpu: the CPU
 *
 * Context: may sleep; hotplug.
 */
void workqueue_softirq_dead(unsigned int cpu)
{
	int i;

	for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
		struct wq_drain_dead_softirq_work drain = { .pool = bh_pool(cpu, i) };

		/* nobody queues on a dead CPU */
		if (!data_race(need_more_worker(drain.pool)))
			continue;

		INIT_WORK_ONSTACK(&drain.work, drain_dead_softirq_workfn);
		init_completion(&drain.done);
		bh_queue_drain(&drain);
		wait_for_completion(&drain.done);
		destroy_work_on_stack(&drain.work);
	}
}
