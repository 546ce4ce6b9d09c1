// SPDX-License-Identifier: GPL-2.0
/*
 * pool_workqueues: what ties a workqueue to the pools that serve it.
 *
 * Each CPU of a workqueue has a slot that names the pwq to queue on; unbound
 * workqueues have one more for the default pwq.  CPUs of one pod share a pwq.
 * Changing the slots lets the old pwq finish what it has; with the last item its
 * reference count drops to zero under pool->lock.  The rest needs to sleep and is
 * done by two kthreads, which depend on no pool.  The first unlinks the pwq from its
 * workqueue and lets an ordered one go on: memory may depend on that, so it takes
 * wq->mutex only, under which nobody allocates.  The second drops the pool, and
 * after destroy_workqueue() the workqueue.
 */
#include <linux/kthread.h>
#include <linux/slab.h>

#include "internal.h"

static struct kmem_cache *pwq_cache __ro_after_init;

/* dead pwqs by what is to be done next, and who does it */
static LLIST_HEAD(dead_pwqs);
static LLIST_HEAD(unlinked_pwqs);
static struct kthread_worker *pwq_unlinker __ro_after_init;
static struct kthread_worker *pwq_reaper __ro_after_init;

/**
 * pwq_alloc - make a pwq
 * @wq: the workqueue
 * @pool: its pool; the pwq takes over the caller's reference to an unbound one
 *
 * Context: may sleep.
 * Return: an unlinked pwq with one reference, or %NULL.
 */
struct pool_workqueue *pwq_alloc(struct workqueue_struct *wq,
				 struct worker_pool *pool)
{
	struct pool_workqueue *pwq;

	pwq = kmem_cache_alloc_node(pwq_cache, GFP_KERNEL | __GFP_ZERO, pool->node);
	if (!pwq)
		return NULL;
	if (WARN_ON_ONCE((unsigned long)pwq & ~WORK_STRUCT_PWQ_MASK)) {
		kmem_cache_free(pwq_cache, pwq);
		return NULL;
	}

	pwq->pool = pool;
	pwq->wq = wq;
	pwq->refcnt = 1;
	pwq->flush_color = -1;
	INIT_LIST_HEAD(&pwq->inactive_works);
	INIT_LIST_HEAD(&pwq->pwqs_node);
	INIT_LIST_HEAD(&pwq->pending_node);
	INIT_LIST_HEAD(&pwq->mayday_node);
	return pwq;
}

/**
 * pwq_free_unused - free a pwq that nobody ever saw
 * @pwq: pwq that was not published; may be linked
 *
 * The pool's reference is the caller's again.
 */
void pwq_free_unused(struct pool_workqueue *pwq)
{
	if (!list_empty(&pwq->pwqs_node))
		list_del(&pwq->pwqs_node);
	kmem_cache_free(pwq_cache, pwq);
}

/**
 * pwq_link - make a pwq one of its workqueue's
 * @pwq: the pwq; nothing happens if it is linked already
 *
 * From here on flushing sees it.
 *
 * Context: wq->mutex held.
 */
void pwq_link(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	lockdep_assert_held(&wq->mutex);

	if (list_empty(&pwq->pwqs_node)) {
		pwq->work_color = wq->work_color;
		list_add_tail_rcu(&pwq->pwqs_node, &wq->pwqs);
	}
}

/*
 * The next pwq of an ordered workqueue may start once all items of the older ones
 * are done.
 */
static void wq_unplug_oldest(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	struct task_struct *wake;

	lockdep_assert_held(&wq->mutex);

	pwq = list_first_entry_or_null(&wq->pwqs, struct pool_workqueue, pwqs_node);
	if (!pwq)
		return;

	raw_spin_lock_irq(&pwq->pool->lock);
	if (pwq->plugged) {
		pwq->plugged = false;
		if (pwq_activate_first(pwq))
			rescuer_follows_slot(pwq);
	}
	wake = pool_kick(pwq->pool);
	pool_unlock_wake_irq(pwq->pool, wake);
}

/* the first stage */
static void pwq_unlink(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	/* never linked: @wq may be gone already */
	if (list_empty(&pwq->pwqs_node))
		return;

	/* parked for items that were cancelled since */
	if (!list_empty_careful(&pwq->pending_node)) {
		struct wq_node_nr_active *nna = wq_nna(wq, pwq->pool->node);

		guard(raw_spinlock_irq)(&nna->lock);
		list_del_init(&pwq->pending_node);
	}

	guard(mutex)(&wq->mutex);
	list_del_rcu(&pwq->pwqs_node);
	pwq->was_last = list_empty(&wq->pwqs);
	if (wq->flags & __WQ_ORDERED)
		wq_unplug_oldest(wq);
}

/* the second stage */
static void pwq_bury(struct pool_workqueue *pwq)
{
	if (!pool_is_percpu(pwq->pool)) {
		guard(mutex)(&wq_pool_mutex);
		unbound_pool_put(pwq->pool);
	}

	/* the workqueue is destroyed, and nobody is left who could use it */
	if (pwq->was_last)
		wq_release(pwq->wq);

	/* pwq_use_slot_unlocked() and slot readers may still look at it */
	kfree_rcu(pwq, rcu);
}

static void pwq_bury_fn(struct kthread_work *unused)
{
	struct pool_workqueue *pwq, *next;

	llist_for_each_entry_safe(pwq, next, llist_del_all(&unlinked_pwqs), release_node)
		pwq_bury(pwq);
}

static DEFINE_KTHREAD_WORK(pwq_bury_work, pwq_bury_fn);

static void pwq_unlink_fn(struct kthread_work *unused)
{
	struct pool_workqueue *pwq, *next;

	llist_for_each_entry_safe(pwq, next, llist_del_all(&dead_pwqs), release_node) {
		pwq_unlink(pwq);
		llist_add(&pwq->release_node, &unlinked_pwqs);
	}
	kthread_queue_work(pwq_reaper, &pwq_bury_work);
}

static DEFINE_KTHREAD_WORK(pwq_unlink_work, pwq_unlink_fn);

/**
 * pwq_put - drop a reference
 * @pwq: the pwq, its pool locked
 */
void pwq_put(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (--pwq->refcnt)
		return;

	/* before there are kthreads, their start takes care of the list */
	if (llist_add(&pwq->release_node, &dead_pwqs) && pwq_unlinker)
		kthread_queue_work(pwq_unlinker, &pwq_unlink_work);
}

/**
 * pwq_put_unlocked - drop a reference without holding the lock
 * @pwq: the pwq or %NULL
 */
void pwq_put_unlocked(struct pool_workqueue *pwq)
{
	struct worker_pool *pool;

	if (!pwq)
		return;

	/*
	 * The pwq, and with it the pool, may be gone as soon as the reference is.
	 * Interrupts off is an RCU reader: the unlock is safe.
	 */
	pool = pwq->pool;
	raw_spin_lock_irq(&pool->lock);
	pwq_put(pwq);
	raw_spin_unlock_irq(&pool->lock);
}

/**
 * wq_pwq_slot - where a workqueue names its pwq
 * @wq: the workqueue
 * @cpu: a possible CPU, or -1 for the default pwq
 *
 * Return: the slot.
 */
struct pool_workqueue __rcu **wq_pwq_slot(struct workqueue_struct *wq, int cpu)
{
	return cpu < 0 ? &wq->dfl_pwq : per_cpu_ptr(wq->cpu_pwq, cpu);
}

/**
 * wq_slot_pwq - the pwq in a slot, for those who may change it
 * @wq: the workqueue
 * @cpu: a possible CPU, or -1 for the default pwq
 *
 * Context: wq_pool_mutex or wq->mutex held.
 * Return: the pwq, %NULL if the slot was never filled.
 */
struct pool_workqueue *wq_slot_pwq(struct workqueue_struct *wq, int cpu)
{
	return rcu_dereference_protected(*wq_pwq_slot(wq, cpu),
					 lockdep_is_held(&wq_pool_mutex) ||
					 lockdep_is_held(&wq->mutex));
}

/**
 * pwq_cache_init - early boot: be able to allocate pwqs
 */
void __init pwq_cache_init(void)
{
	pwq_cache = KMEM_CACHE(pool_workqueue, SLAB_PANIC);
}

/**
 * pwq_reaper_start - start those who take care of dead pwqs, once there are kthreads
 */
void __init pwq_reaper_start(void)
{
	pwq_reaper = kthread_run_worker(0, "pool_workqueue_release");
	pwq_unlinker = kthread_run_worker(0, "pool_workqueue_unlink");
	wq_boot_needs(!IS_ERR(pwq_reaper) && !IS_ERR(pwq_unlinker));
	kthread_queue_work(pwq_unlinker, &pwq_unlink_work);
}

/**
 * pwq_reaper_flush - wait until all pwqs that are dead now are buried
 *
 * Before there are kthreads, nothing is waited for.
 *
 * Context: may sleep; none of wq_pool_mutex, wq->mutex held.
 */
void pwq_reaper_flush(void)
{
	if (!pwq_unlinker)
		return;
	kthread_flush_worker(pwq_unlinker);
	kthread_flush_worker(pwq_reaper);
}
