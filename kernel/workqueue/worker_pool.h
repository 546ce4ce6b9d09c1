/* SPDX-License-Identifier: GPL-2.0 */
/* A worker pool, and what its state says.  workqueue_internal.h has the worker. */
#ifndef _KERNEL_WORKQUEUE_WORKER_POOL_H
#define _KERNEL_WORKQUEUE_WORKER_POOL_H

#include <linux/cpumask.h>
#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/percpu.h>
#include <linux/sched/prio.h>
#include <linux/spinlock.h>
#include <linux/topology.h>

#include "../workqueue_internal.h"

enum worker_pool_flags {
	POOL_BH			= 1 << 0,	/* served by softirq */
	POOL_MANAGER_ACTIVE	= 1 << 1,	/* a worker makes workers */
	/*
	 * The pool's CPU cannot serve it: workers run elsewhere and are not
	 * concurrency managed.  Always set for unbound and BH pools.  Changed
	 * under both A and L, so either of them keeps it stable.
	 */
	POOL_DISASSOCIATED	= 1 << 2,
	POOL_BH_DRAINING	= 1 << 3,	/* a live CPU runs a dead one's items */
};

enum worker_flags {
	/* scripts for crash and gdb use these numbers */
	WORKER_REBOUND		= 0x100,	/* bound again since it last began to serve */
	WORKER_UNBOUND		= 0x080,	/* its pool is POOL_DISASSOCIATED */
	WORKER_CPU_INTENSIVE	= 0x040,	/* by flag, or it has run for long */
	WORKER_PREP		= 0x008,	/* between items */
	WORKER_IDLE		= 0x004,
	WORKER_DIE		= 0x002,

	/* any of these takes the worker out of pool->nr_running */
	WORKER_NOT_RUNNING	= WORKER_REBOUND | WORKER_UNBOUND |
				  WORKER_CPU_INTENSIVE | WORKER_PREP,
};

enum {
	NR_STD_WORKER_POOLS	= 2,		/* normal and highpri */
	HIGHPRI_NICE_LEVEL	= MIN_NICE,
	BUSY_WORKER_HASH_ORDER	= 6,
	IDLE_WORKER_TIMEOUT	= 300 * HZ,
};

/*
 * struct worker_pool - a worklist and the workers that serve it
 *
 * Per-CPU pools are static and live for ever.  Unbound ones are hashed by
 * their attributes, counted by @refcnt and freed after a grace period, so that
 * a work item's last pool can be looked up by id under RCU.
 */
struct worker_pool {
	/* alone in its line: those who wait for it take the line away from whoever has it */
	raw_spinlock_t lock;

	/* one line: written for each item, by several CPUs if they share the pool */
	struct list_head worklist ____cacheline_aligned_in_smp; /* L: items ready, in order */
	unsigned short flags;			/* L; POOL_DISASSOCIATED: see there */
	short last_cpu;				/* L: queued last; or -1 */

	/*
	 * Workers of a per-CPU pool that run and are concurrency managed.
	 * Changed on the pool's CPU only: raised with preemption off, lowered
	 * under L.  Holders of L on any CPU may test it for zero, because whoever
	 * lowers it to zero takes L to do so.  That test uses READ_ONCE(), and
	 * wq_worker_running(), which raises it without L, uses WRITE_ONCE().
	 */
	int nr_running;

	int nr_idle;				/* L */
	bool count_alone;			/* L: a CPU has left, and none came back */
	unsigned long last_progress_ts;		/* L: jiffies; the watchdog peeks */
	struct worker *last_woken_worker;	/* L: for dumps only */
	struct list_head idle_list;		/* L: the last to go idle comes first */
	/* L: workers that run an item, keyed by current_work */
	DECLARE_HASHTABLE(busy_hash, BUSY_WORKER_HASH_ORDER);

	/* read for each item, written seldom */
	int nr_workers;				/* L: rescuers not included; hotplug peeks */
	int cpu;				/* I: -1 for unbound pools */
	int own_cpu;				/* I: the only CPU that uses it, or -1: see own.c */
	int node;				/* I after boot: NUMA_NO_NODE if several */
	int id;					/* I: worker_pool_idr */
	unsigned long offq_data;		/* I: work->data of an item that left the pool */
	int refcnt;				/* P: pwqs of unbound pools */
	unsigned int pods_gen;			/* P: wq_pods_gen when @node was last found right */
	struct workqueue_attrs *attrs;		/* I */
	struct worker *manager;			/* L */
	struct hlist_node hash_node;		/* P: unbound_pool_hash */

	struct list_head workers;		/* A: rescuers at work included */
	struct ida worker_ida;			/* own lock */

	struct timer_list mayday_timer;		/* armed, moved: L; deleted: worker.c, pool.c */
	struct timer_list idle_timer;		/* armed under L */
	struct work_struct idle_cull_work;

	struct rcu_head rcu;
	int drain_cpu;				/* L: the live CPU, if POOL_BH_DRAINING */
	struct worker_pool *drained;		/* L: BH: dead CPU's pool that the worker runs */

	/* used by the watchdog only */
	unsigned long seen_progress_ts;		/* last_progress_ts at its last look */
	unsigned long still_since;		/* no progress since, on its clock */
	bool cpu_stall;
#ifdef CONFIG_PREEMPT_RT
	spinlock_t cb_lock;			/* held while the BH worker runs items */
	struct task_struct *cb_owner;		/* who runs them; others only compare it */
#endif
} ____cacheline_aligned_in_smp;			/* a CPU's two pools are one array */

extern struct idr worker_pool_idr;		/* PR */
DECLARE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], cpu_worker_pools);
DECLARE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], bh_worker_pools);

static inline bool is_percpu_pool(const struct worker_pool *pool)
{
	return pool->cpu >= 0;
}

static inline bool bh_is_highpri(const struct worker_pool *pool)
{
	return pool->attrs->nice == HIGHPRI_NICE_LEVEL;
}

/* work waits and no managed worker is running; L */
static inline bool need_more_worker(const struct worker_pool *pool)
{
	/* a waking worker raises nr_running without L: at worst we wake one too many */
	return !list_empty(&pool->worklist) && !READ_ONCE(pool->nr_running);
}

/* a worker that has just run an item should go on; L */
static inline bool keep_working(const struct worker_pool *pool)
{
	return !list_empty(&pool->worklist) && pool->nr_running <= 1;
}

/* work waits and there is nobody to wake; L */
static inline bool need_to_create_worker(const struct worker_pool *pool)
{
	return need_more_worker(pool) && !pool->nr_idle;
}

/* are more than two workers idle, and too many compared with the busy ones?  L */
static inline bool too_many_workers(const struct worker_pool *pool)
{
	int idle = pool->nr_idle + !!pool->manager;	/* the manager will be idle again soon */
	int busy = pool->nr_workers - idle;

	return idle > 2 && 4 * (idle - 2) >= busy;
}

/* may several CPUs queue on the pool as a matter of course? */
static inline bool pool_can_be_shared(const struct worker_pool *pool)
{
	return !is_percpu_pool(pool) && pool->own_cpu < 0 &&
	       cpumask_weight(pool->attrs->__pod_cpumask) > 1;
}

/* the node for the memory of a pool */
static inline int pool_mem_node(const struct worker_pool *pool)
{
	return pool->own_cpu < 0 ? pool->node : cpu_to_node(pool->own_cpu);
}

/* the CPUs on which the pool's workers may run */
static inline const struct cpumask *pool_allowed_cpus(const struct worker_pool *pool)
{
	if (!is_percpu_pool(pool) && pool->attrs->affn_strict)
		return pool->attrs->__pod_cpumask;
	return pool->attrs->cpumask;
}

/* the normal (0) or highpri (1) pools of a possible CPU */
static inline struct worker_pool *cpu_pool(int cpu, int highpri)
{
	return per_cpu_ptr(cpu_worker_pools, cpu) + highpri;
}

static inline struct worker_pool *bh_pool(int cpu, int highpri)
{
	return per_cpu_ptr(bh_worker_pools, cpu) + highpri;
}

/*
 * Is the calling softirq the one that serves a pool of this CPU, if any does?  Softirqs of a CPU
 * never run inside each other, but with PREEMPT_RT they are tasks that preempt each other.
 */
static inline bool bh_is_served_here(const struct worker_pool *pool)
{
#ifdef CONFIG_PREEMPT_RT
	return READ_ONCE(pool->cb_owner) == current;
#else
	return true;
#endif
}

/*
 * The worker whose item is calling, or NULL.  A softirq has no task of its own: the worker is that
 * of a BH pool of this CPU, or of the dead CPU's pool that this CPU drains.  An interrupt on top
 * of an item is not the item, be it one of a thread or of a softirq.
 */
static inline struct worker *current_worker(void)
{
	int i;

	if (in_nmi() || in_hardirq() || !in_serving_softirq())
		return current_wq_worker();

	for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
		struct worker_pool *pool = bh_pool(raw_smp_processor_id(), i);
		struct worker *worker;

		if (!bh_is_served_here(pool))
			continue;
		/* only the softirq itself changes this, and the worker's item */
		if (pool->drained)
			pool = pool->drained;
		worker = list_first_entry_or_null(&pool->workers, struct worker, node);
		if (worker && worker->current_work)
			return worker;
	}
	return NULL;
}

/* all pools; P or RCU */
#define for_each_pool(pool, id)						\
	idr_for_each_entry(&worker_pool_idr, pool, id)

/* workers attached to a pool; A */
#define for_each_pool_worker(worker, pool)				\
	list_for_each_entry(worker, &(pool)->workers, node)

#endif /* _KERNEL_WORKQUEUE_WORKER_POOL_H */
