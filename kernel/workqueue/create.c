// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues: how they are made and destroyed.
 *
 * Once a workqueue is destroyed, the end of its last pwq frees it: see reaper.c.
 */
#include <linux/device.h>
#include <linux/export.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "active.h"
#include "latency.h"
#include "pools.h"
#include "running.h"
#include "workqueues.h"

/* what each item reads of its workqueue fills exactly one cache line */
static_assert(!IS_ENABLED(CONFIG_64BIT) || offsetof(struct workqueue_struct, mutex) == 64);

/* make WQ_POWER_EFFICIENT workqueues unbound */
bool wq_power_efficient = IS_ENABLED(CONFIG_WQ_POWER_EFFICIENT_DEFAULT);
module_param_named(power_efficient, wq_power_efficient, bool, 0444);

#ifdef CONFIG_LOCKDEP
/* set up the map under which the items of @wq run: @map, or one of its own */
static void wq_init_lockdep(struct workqueue_struct *wq, struct lockdep_map *map)
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

static void wq_unregister_lockdep(struct workqueue_struct *wq)
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
static void wq_init_lockdep(struct workqueue_struct *wq, struct lockdep_map *map) { }
static void wq_unregister_lockdep(struct workqueue_struct *wq) { }
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
		WARN_ONCE(!IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS),
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

/* free a workqueue without pwqs that nobody else can see */
static void wq_free(struct workqueue_struct *wq)
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

/* free a workqueue that has lost its last pwq */
void wq_release(struct workqueue_struct *wq)
{
	wq_unregister_lockdep(wq);
	/* dumps walk the list of workqueues under RCU */
	call_rcu(&wq->rcu, rcu_free_wq);
}

/* allocate a workqueue, but not yet its pwqs and its rescuer */
__printf(1, 0)
static struct workqueue_struct *wq_alloc(const char *fmt, unsigned int flags, int max_active,
					 va_list args)
{
	bool unbound = flags & WQ_UNBOUND;
	struct workqueue_struct *wq;

	wq = kzalloc_noprof(struct_size(wq, node_nr_active, unbound ? nr_node_ids + 1 : 0),
			    GFP_KERNEL);
	if (!wq)
		return NULL;

	if (vsnprintf(wq->name, sizeof(wq->name), fmt, args) >= sizeof(wq->name))
		pr_warn_once("workqueue: name exceeds WQ_NAME_LEN. Truncating to: %s\n", wq->name);
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

static struct worker_pool *get_percpu_pool(struct workqueue_struct *wq, int cpu)
{
	bool highpri = wq->flags & WQ_HIGHPRI;

	return wq->flags & WQ_BH ? bh_pool(cpu, highpri) : cpu_pool(cpu, highpri);
}

static int alloc_and_link_percpu_pwqs(struct workqueue_struct *wq)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct pool_workqueue *pwq = pwq_make(wq, get_percpu_pool(wq, cpu));

		if (!pwq)
			goto nomem;
		pwq->nr_entries = 1;
		/* not link_pwq(): nobody reads the list yet, and all colours are 0 */
		list_add_tail(&pwq->pwqs_node, &wq->pwqs);
		rcu_assign_pointer(*wq_pwq_ptr(wq, cpu), pwq);
	}
	return 0;

nomem:
	for_each_possible_cpu(cpu)
		if (wq_pwq(wq, cpu))
			pwq_free_unused(wq_pwq(wq, cpu));
	return -ENOMEM;
}

static int wq_make_unbound_pwqs(struct workqueue_struct *wq)
{
	/* the attributes are as they were allocated, and nobody else has seen the workqueue */
	if (wq->flags & WQ_HIGHPRI)
		wq->unbound_attrs->nice = HIGHPRI_NICE_LEVEL;
	return apply_workqueue_attrs_locked(wq, wq->unbound_attrs);
}

/* make the pwqs and put the workqueue where others see it */
static int wq_publish(struct workqueue_struct *wq)
{
	int ret;

	guard(mutex)(&wq_pool_mutex);

	ret = wq->flags & WQ_UNBOUND ? wq_make_unbound_pwqs(wq) : alloc_and_link_percpu_pwqs(wq);
	if (ret)
		return ret;

	/* the system may be frozen while the workqueue is created */
	scoped_guard(mutex, &wq->mutex)
		wq_adjust_max_active(wq);
	wq_latency_attach(wq);
	list_add_tail_rcu(&wq->list, &workqueues);
	return 0;
}

/* alloc_workqueue() for callers that have a va_list, or a lockdep map */
__printf(1, 0)
static struct workqueue_struct *__alloc_workqueue(const char *fmt, unsigned int flags,
						  int max_active, va_list args,
						  struct lockdep_map *map)
{
	struct workqueue_struct *wq;

	if ((flags & WQ_BH) &&
	    (WARN_ON_ONCE(flags & ~__WQ_BH_ALLOWS) || WARN_ON_ONCE(max_active)))
		return NULL;
	if ((flags & WQ_POWER_EFFICIENT) && wq_power_efficient)
		flags = (flags | WQ_UNBOUND) & ~WQ_PERCPU;

	wq = wq_alloc(fmt, flags, max_active, args);
	if (!wq)
		return NULL;
	wq_init_lockdep(wq, map);

	if (wq_publish(wq)) {
		/* dead pwqs of a failed plan still point to @wq; pwq_unlink() passes over them */
		wq_unregister_lockdep(wq);
		wq_free(wq);
		return NULL;
	}

	/* before kthreads can be made, rescuers are left to workqueue_init() */
	if ((wq_online && init_rescuer(wq)) ||
	    ((wq->flags & WQ_SYSFS) && workqueue_sysfs_register(wq))) {
		destroy_workqueue(wq);
		return NULL;
	}
	return wq;
}

/**
 * alloc_workqueue - make a workqueue
 * @fmt: printf format of its name, which also becomes part of the rescuer thread's name
 * @flags: &enum wq_flags, with either %WQ_PERCPU or %WQ_UNBOUND
 * @max_active: how many items may run at once, up to %WQ_MAX_ACTIVE; 0 for
 *	%WQ_DFL_ACTIVE, which is right unless something needs throttling
 * @...: arguments of @fmt
 *
 * On a per-CPU workqueue, @max_active counts for each CPU by itself.
 *
 * On an unbound one, it counts for the whole system, and is split between the
 * NUMA nodes in proportion to their online CPUs. Rounding and hotplug can leave
 * a node with a small share, but items that wait for each other need more than
 * one slot. So no node gets less than %WQ_DFL_MIN_ACTIVE (or @max_active, if
 * smaller), and the shares may add up to more than @max_active.
 * workqueue_set_min_active() changes that minimum.
 *
 * Context: Process context. May sleep.
 * Return: The workqueue, to be given to destroy_workqueue(); %NULL on failure.
 */
struct workqueue_struct *alloc_workqueue_noprof(const char *fmt, unsigned int flags,
						int max_active, ...)
{
	struct workqueue_struct *made;
	va_list args;

	va_start(args, max_active);
	made = __alloc_workqueue(fmt, flags, max_active, args, NULL);
	va_end(args);
	return made;
}
EXPORT_SYMBOL_GPL(alloc_workqueue_noprof);

#ifdef CONFIG_LOCKDEP
/**
 * alloc_workqueue_lockdep_map - alloc_workqueue() with a lock class of the caller's
 * @fmt: printf format of the name
 * @flags: see alloc_workqueue()
 * @max_active: see alloc_workqueue()
 * @lockdep_map: stands for the workqueue in lockdep, and outlives it
 * @...: arguments of @fmt
 *
 * Use this if you make and destroy many workqueues for one purpose.  Lockdep sees
 * them as one and does not run out of classes.
 *
 * Context: Process context. May sleep.
 * Return: The workqueue, %NULL on failure.
 */
struct workqueue_struct *alloc_workqueue_lockdep_map(const char *fmt, unsigned int flags,
						     int max_active,
						     struct lockdep_map *lockdep_map, ...)
{
	struct workqueue_struct *made;
	va_list args;

	va_start(args, lockdep_map);
	made = __alloc_workqueue(fmt, flags, max_active, args, lockdep_map);
	va_end(args);
	return made;
}
EXPORT_SYMBOL_GPL(alloc_workqueue_lockdep_map);
#endif

/* is anything left of a drained pwq? */
static bool pwq_busy(struct pool_workqueue *pwq)
{
	/* wq->mutex does not suffice: a change of entries drops references after its unlock */
	lockdep_assert_held(&wq_pool_mutex);
	lockdep_assert_held(&pwq->wq->mutex);
	lockdep_assert_held(&pwq->pool->lock);

	return pwq->refcnt > pwq->nr_entries || pwq->nr_active || !pwq_is_empty(pwq);
}

/* report it and return true if a drained workqueue is still in use */
static bool wq_is_busy(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	guard(mutex)(&wq->mutex);

	for_each_pwq(pwq, wq) {
		/* hold one lock at a time, and search nothing: there may be a pwq for each CPU */
		guard(raw_spinlock_irq)(&pwq->pool->lock);
		if (WQ_WARN_ON(pwq_busy(pwq))) {
			guard(printk_deferred)();
			pr_warn("%s: %s has the following busy pwq\n",
				"destroy_workqueue", wq->name);
			show_pwq(pwq);
			return true;
		}
	}
	return false;
}

/**
 * destroy_workqueue - drain a workqueue and free it
 * @wq: the workqueue; nobody but its own items may queue on it any more
 *
 * See drain_workqueue().  Delayed items whose timer still runs cannot be found from
 * here.  Cancel them first, or their timers queue on a freed workqueue.
 *
 * Context: may sleep; not from an item of @wq.
 */
void destroy_workqueue(struct workqueue_struct *wq)
{
	int cpu;

	/* do this first, so that the name is free again even if @wq is leaked */
	workqueue_sysfs_unregister(wq);

	scoped_guard(mutex, &wq->mutex)
		WRITE_ONCE(wq->flags, wq->flags | __WQ_DESTROYING);
	drain_workqueue(wq);

	rescuer_destroy(wq);

	scoped_guard(mutex, &wq_pool_mutex) {
		/* a leak is better than a use after free */
		if (wq_is_busy(wq))
			return;
		list_del_rcu(&wq->list);
		own_pwqs_forget(wq);
	}

	/*
	 * Nobody changes the pwqs now.  The end of the last pwq frees the workqueue,
	 * but not before this RCU reader ends.
	 */
	guard(rcu)();
	/* a caller that queues even now must not find a dead pwq without a successor */
	put_pwq_unlocked(rcu_replace_pointer(wq->dfl_pwq, NULL, true));
	for_each_possible_cpu(cpu)
		put_pwq_unlocked(rcu_replace_pointer(*wq_pwq_ptr(wq, cpu), NULL, true));
}
EXPORT_SYMBOL_GPL(destroy_workqueue);

static void devres_destroy_wq(void *wq)
{
	destroy_workqueue(wq);
}

/* make @dev the owner of @wq, which may be %NULL; if that fails, @wq is destroyed */
static struct workqueue_struct *devm_own_wq(struct device *dev, struct workqueue_struct *wq)
{
	return wq && !devm_add_action_or_reset(dev, devres_destroy_wq, wq) ? wq : NULL;
}

/**
 * devm_alloc_workqueue - allocate a workqueue that a device owns
 * @dev: the device; the workqueue is destroyed when its driver detaches
 * @fmt: printf format of the name
 * @flags: as for alloc_workqueue()
 * @max_active: as for alloc_workqueue()
 * @...: arguments of @fmt
 *
 * The driver has to cancel its delayed items before the workqueue is destroyed, for
 * instance in devres actions that it adds after this call.
 *
 * Context: may sleep.
 * Return: the workqueue, or %NULL if there is no memory for it or for the devres entry.
 */
struct workqueue_struct *devm_alloc_workqueue_noprof(struct device *dev, const char *fmt,
						     unsigned int flags, int max_active, ...)
{
	struct workqueue_struct *owned;
	va_list args;

	va_start(args, max_active);
	owned = devm_own_wq(dev, __alloc_workqueue(fmt, flags, max_active, args, NULL));
	va_end(args);
	return owned;
}
EXPORT_SYMBOL_GPL(devm_alloc_workqueue_noprof);
