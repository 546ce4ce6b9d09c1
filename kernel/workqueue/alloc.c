// SPDX-License-Identifier: GPL-2.0
/*
 * Allocating a workqueue before it has pwqs, and freeing it after it has lost them.
 */
#include <linux/slab.h>

#include "internal.h"
#include "latency.h"

/* what each item reads of its workqueue fills exactly one cache line */
static_assert(!IS_ENABLED(CONFIG_64BIT) || offsetof(struct workqueue_struct, mutex) == 64);

#ifdef CONFIG_LOCKDEP
/**
 * wq_init_lockdep - set up the map under which the items of a workqueue run
 * @wq: the workqueue
 * @map: the caller's map, or %NULL for one of our own
 */
void wq_init_lockdep(struct workqueue_struct *wq, struct lockdep_map *map)
{
	char *name;

	wq->lockdep_map = map;
	if (map)
		return;

	lockdep_register_key(&wq->key);
	name = kasprintf(GFP_KERNEL, "(wq_completion)%s", wq->name);
	wq->lock_name = name ?: wq->name;
	lockdep_init_map(&wq->__lockdep_map, wq->lock_name, &wq->key, 0);
	wq->lockdep_map = &wq->__lockdep_map;
}

/**
 * wq_unregister_lockdep - undo wq_init_lockdep()
 * @wq: the workqueue
 *
 * Context: may sleep.
 */
void wq_unregister_lockdep(struct workqueue_struct *wq)
{
	if (wq->lock_name)
		lockdep_unregister_key(&wq->key);
}

static void wq_free_lockdep(struct workqueue_struct *wq)
{
	if (wq->lock_name != wq->name)
		kfree(wq->lock_name);
}
#else
static void wq_free_lockdep(struct workqueue_struct *wq) { }
#endif

static void wq_set_limits(struct workqueue_struct *wq, int max_active)
{
	/* BH items need no limit: the softirq runs one at a time, and any number may wait */
	if (wq->flags & WQ_BH)
		max_active = INT_MAX;
	else
		max_active = wq_clamp_max_active(max_active ?: WQ_DFL_ACTIVE, wq->name);

	wq->max_active = max_active;
	wq->saved_max_active = max_active;
	wq->min_active = min(max_active, WQ_DFL_MIN_ACTIVE);
	wq->saved_min_active = wq->min_active;
}

/* a workqueue is either per-CPU or unbound */
static unsigned int wq_fix_flags(unsigned int flags, const char *name)
{
	if (!(flags & (WQ_PERCPU | WQ_UNBOUND))) {
		WARN_ONCE(!WQ_OLD_CALLERS,
			  "workqueue: %s is using neither WQ_PERCPU or WQ_UNBOUND. Setting WQ_PERCPU.\n",
			  name);
		flags |= WQ_PERCPU;
	} else if ((flags & WQ_PERCPU) && (flags & WQ_UNBOUND)) {
		WARN_ONCE(1, "workqueue: %s uses both WQ_PERCPU and WQ_UNBOUND. Dropped WQ_PERCPU, keeping WQ_UNBOUND.\n",
			  name);
		flags &= ~WQ_PERCPU;
	}
	return flags;
}

/**
 * wq_free - free a workqueue that nobody else can see
 * @wq: the workqueue, without pwqs
 */
void wq_free(struct workqueue_struct *wq)
{
	if (wq->flags & WQ_UNBOUND)
		wq_free_slots(wq);
	wq_latency_free(wq);
	free_percpu(wq->cpu_pwq);
	free_workqueue_attrs(wq->unbound_attrs);
	wq_free_lockdep(wq);
	kfree(wq);
}

static void rcu_free_wq(struct rcu_head *rcu)
{
	wq_free(container_of(rcu, struct workqueue_struct, rcu));
}

/**
 * wq_release - free a workqueue that has lost its last pwq
 * @wq: the workqueue
 *
 * Context: may sleep; the reaper calls this.
 */
void wq_release(struct workqueue_struct *wq)
{
	wq_unregister_lockdep(wq);
	/* dumps walk the list of workqueues under RCU */
	call_rcu(&wq->rcu, rcu_free_wq);
}

/**
 * wq_alloc - allocate a workqueue, but not yet its pwqs and its rescuer
 * @fmt: format of the name
 * @flags: WQ_*
 * @max_active: as for alloc_workqueue()
 * @args: for @fmt
 *
 * Context: may sleep.
 * Return: a workqueue without pwqs, or %NULL.
 */
struct workqueue_struct *wq_alloc(const char *fmt, unsigned int flags,
				  int max_active, va_list args)
{
	bool unbound = flags & WQ_UNBOUND;
	struct workqueue_struct *wq;

	wq = kzalloc_noprof(struct_size(wq, node_nr_active, unbound ? nr_node_ids + 1 : 0),
			    GFP_KERNEL);
	if (!wq)
		return NULL;

	if (vsnprintf(wq->name, sizeof(wq->name), fmt, args) >= sizeof(wq->name))
		pr_warn_once("workqueue: name exceeds WQ_NAME_LEN. Truncating to: %s\n",
			     wq->name);
	wq->flags = wq_fix_flags(flags, wq->name);
	wq_set_limits(wq, max_active);

	mutex_init(&wq->mutex);
	INIT_LIST_HEAD(&wq->pwqs);
	INIT_LIST_HEAD(&wq->list);
	INIT_LIST_HEAD(&wq->flushers);
	INIT_LIST_HEAD(&wq->flusher_overflow);
	INIT_LIST_HEAD(&wq->maydays);

	wq->unbound_attrs = alloc_workqueue_attrs_noprof();
	wq->cpu_pwq = alloc_percpu(struct pool_workqueue __rcu *);
	if (!wq->unbound_attrs || !wq->cpu_pwq || (unbound && wq_alloc_slots(wq))) {
		wq_free(wq);
		return NULL;
	}
	return wq;
}
