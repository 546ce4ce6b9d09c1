// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues: how they are made and destroyed.
 */
#include <linux/export.h>
#include <linux/moduleparam.h>

#include "internal.h"
#include "latency.h"

/* make WQ_POWER_EFFICIENT workqueues unbound */
bool wq_power_efficient = IS_ENABLED(CONFIG_WQ_POWER_EFFICIENT_DEFAULT);
module_param_named(power_efficient, wq_power_efficient, bool, 0444);

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

/**
 * __alloc_workqueue - alloc_workqueue() for callers that have a va_list
 * @fmt: format of the name
 * @flags: WQ_*
 * @max_active: as for alloc_workqueue()
 * @args: for @fmt
 * @map: the lockdep map, or %NULL for one of its own
 *
 * Context: may sleep.
 * Return: the workqueue or %NULL.
 */
struct workqueue_struct *__alloc_workqueue(const char *fmt, unsigned int flags,
					   int max_active, va_list args,
					   struct lockdep_map *map)
{
	struct workqueue_struct *wq;

	if (flags & WQ_BH) {
		if (WARN_ON_ONCE(flags & ~__WQ_BH_ALLOWS) || WARN_ON_ONCE(max_active))
			return NULL;
	}
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
