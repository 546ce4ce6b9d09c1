/* SPDX-License-Identifier: GPL-2.0 */
/* A workqueue, and the pwqs that it has. */
#ifndef _KERNEL_WORKQUEUE_WORKQUEUE_STRUCT_H
#define _KERNEL_WORKQUEUE_WORKQUEUE_STRUCT_H

#include <linux/completion.h>
#include <linux/nodemask.h>
#include <linux/rculist.h>

#include "pool_workqueue.h"
#include "state.h"

enum { WQ_NAME_LEN = 32 };

/* what is kept of pwqs that are gone */
struct wq_counts {
	u64 stats[PWQ_NR_STATS];
	unsigned long longest_run;		/* jiffies */
};

/* a task in flush_workqueue(), on its stack */
struct wq_flusher {
	struct list_head list;		/* W: wq->flushers or flusher_overflow */
	int flush_color;		/* W: what it waits for */
	struct completion done;		/* finished, or it is first and its items are done */
	bool finished;			/* W, then ordered by @done */
};

struct wq_device;
struct wq_latency;

/* struct workqueue_struct - where users queue */
struct workqueue_struct {
	/* one line of 64 bytes: read whenever an item is queued or starts, written seldom */
	unsigned int flags;			/* WO: __WQ_*; I: WQ_* */
	int max_active;				/* WO: in force; 0 when frozen */
	struct pool_workqueue __rcu * __percpu *cpu_pwq; /* entries: see dfl_pwq */
	/* P and W for writes; either or RCU for reads; NULL for per-CPU ones */
	struct pool_workqueue __rcu *dfl_pwq;
	char name[WQ_NAME_LEN];			/* I */
	union {
		struct workqueue_attrs *unbound_attrs;	/* P and W: as the user asked */
		struct workqueue_attrs *attrs;	/* the name that some debuggers read */
	};

	/* written by whoever flushes, changes or destroys the workqueue, or makes a pwq */
	struct mutex mutex;
	struct list_head pwqs;			/* WR: every linked pwq */
	struct list_head list;			/* PR: workqueues */

	int min_active;				/* WO: in force */
	int saved_max_active;			/* WO: as the user asked */
	int saved_min_active;			/* W: as the user asked */

	/* flush.c explains these */
	int work_color;				/* W: colour of new items */
	int flush_color;			/* W: oldest colour still flushed */
	atomic_t nr_pwqs_to_flush;		/* pwqs with items of flush_color */
	int nr_drainers;			/* W */
	struct wq_flusher *first_flusher;	/* W; fixed while pwqs are armed, else stale */
	struct list_head flushers;		/* W: have a colour, oldest first */
	struct list_head flusher_overflow;	/* W: wait for a free colour */

	struct worker *rescuer;			/* P and M for writes; either for reads */
	struct list_head maydays;		/* M: pwqs that need the rescuer */

#ifdef CONFIG_DEBUG_FS
	struct wq_counts gone;			/* W: sum over the pwqs that were unlinked */
	struct wq_latency __percpu *latency;	/* P for writes: see latency.h */
#endif
#ifdef CONFIG_SYSFS
	struct wq_device *wq_dev;		/* for its creator and destroyer only */
#endif
#ifdef CONFIG_LOCKDEP
	char *lock_name;			/* I: NULL if the map is the caller's */
	struct lock_class_key key;
	struct lockdep_map __lockdep_map;
	struct lockdep_map *lockdep_map;	/* I */
#endif
	struct rcu_head rcu;
	struct wq_node_nr_active *node_nr_active[]; /* I: by node, then NO_NODE */
};

static inline struct list_head *wq_pwqs(struct workqueue_struct *wq)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held() && !lockdep_is_held(&wq->mutex),
			 "neither wq->mutex nor RCU protects wq->pwqs");
	return &wq->pwqs;
}

/* pwqs of a workqueue; W or RCU, as wq_pwqs() checks */
#define for_each_pwq(pwq, wq)						\
	list_for_each_entry_rcu(pwq, wq_pwqs(wq), pwqs_node, true)

/*
 * Does a workqueue with these flags queue in one place only, the default pwq?  Some callers give a
 * per-CPU workqueue __WQ_ORDERED.  Nobody may change its limit, but its CPUs queue as usual.
 */
static inline bool wq_is_ordered(unsigned int flags)
{
	return unlikely(flags & __WQ_ORDERED) && (flags & WQ_UNBOUND);
}

/* the slots of an unbound workqueue for pools of @node, or for those that span nodes */
static inline struct wq_node_nr_active *wq_node_nr_active(struct workqueue_struct *wq, int node)
{
	return wq->node_nr_active[node == NUMA_NO_NODE ? nr_node_ids : node];
}

/* where a workqueue keeps the pwq of a possible CPU, or for -1 the default pwq */
static inline struct pool_workqueue __rcu **wq_pwq_ptr(struct workqueue_struct *wq, int cpu)
{
	return cpu < 0 ? &wq->dfl_pwq : per_cpu_ptr(wq->cpu_pwq, cpu);
}

/* the pwq of a CPU, or for -1 the default one; NULL if there never was one; P or W */
static inline struct pool_workqueue *wq_pwq(struct workqueue_struct *wq, int cpu)
{
	return rcu_dereference_protected(*wq_pwq_ptr(wq, cpu), lockdep_is_held(&wq_pool_mutex) ||
					 lockdep_is_held(&wq->mutex));
}

#endif /* _KERNEL_WORKQUEUE_WORKQUEUE_STRUCT_H */
