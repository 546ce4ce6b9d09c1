// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a pool_workqueue that has lost its last reference.
 *
 * The last reference is dropped under pool->lock, but the rest needs to sleep.  Two
 * kthreads do that, which depend on no pool.  The first unlinks the pwq from its
 * workqueue and lets an ordered workqueue go on.  Memory reclaim may depend on this, so
 * this thread takes no mutex but wq->mutex, under which nobody allocates.  The second
 * thread drops the pool and, after destroy_workqueue(), the workqueue.
 */
#include <linux/slab.h>

#include "active.h"
#include "pools.h"
#include "workqueues.h"

static LLIST_HEAD(unlinked_pwqs);
static struct kthread_worker *pwq_release_worker __ro_after_init;

/*
 * The next pwq of an ordered workqueue may start once all items of the older ones
 * are done.
 */
static void unplug_oldest_pwq(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	lockdep_assert_held(&wq->mutex);

	pwq = list_first_entry_or_null(&wq->pwqs, struct pool_workqueue, pwqs_node);
	/* nobody else unplugs it */
	if (pwq && pwq->plugged)
		pwq_unplug(pwq);
}

#ifdef CONFIG_DEBUG_FS
/* add what @pwq has counted to @sum */
void wq_counts_add(struct wq_counts *sum, struct pool_workqueue *pwq)
{
	int i;

	for (i = 0; i < PWQ_NR_STATS; i++) {
		/* data_race(): a tick may change what it counts */
		sum->stats[i] += data_race(pwq->stats[i]);
	}
	/* data_race(): as above */
	sum->longest_run = max(sum->longest_run, data_race(pwq->longest_run));
}

/* add what a pwq that is being unlinked has counted to what its workqueue keeps */
static void pwq_keep_counts(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->wq->mutex);

	wq_counts_add(&pwq->wq->gone, pwq);
}
#else
static void pwq_keep_counts(struct pool_workqueue *pwq) { }
#endif

/* the first stage */
static void pwq_unlink(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	/* never linked: @wq may be gone already */
	if (list_empty(&pwq->pwqs_node))
		return;

	pwq_leave_slots(pwq);

	guard(mutex)(&wq->mutex);
	list_del_rcu(&pwq->pwqs_node);
	pwq_keep_counts(pwq);
	pwq->was_last = list_empty(&wq->pwqs);
	/* an own pwq has kept the one that it stands for: see own.c */
	if (pwq->pod) {
		pwq_add_entries(pwq->pod, -1);
		put_pwq_unlocked(pwq->pod);
	}
	if (wq_is_ordered(READ_ONCE(wq->flags)))
		unplug_oldest_pwq(wq);
}

/* the second stage */
static void pwq_bury(struct pool_workqueue *pwq)
{
	if (!is_percpu_pool(pwq->pool)) {
		guard(mutex)(&wq_pool_mutex);
		put_unbound_pool(pwq->pool);
	}

	/* the workqueue was destroyed, and nobody can use it any longer */
	if (pwq->was_last)
		wq_release(pwq->wq);

	/* pwq_use_slot_unlocked() and readers of the entries may still look at it */
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
	kthread_queue_work(pwq_release_worker, &pwq_bury_work);
}

static DEFINE_KTHREAD_WORK(pwq_unlink_work, pwq_unlink_fn);

/* boot: start the threads that take care of dead pwqs */
void __init pwq_reaper_start(void)
{
	struct kthread_worker *unlinker;

	pwq_release_worker = kthread_run_worker(0, "pool_workqueue_release");
	unlinker = kthread_run_worker(0, "pool_workqueue_unlink");
	wq_boot_needs(!IS_ERR(pwq_release_worker) && !IS_ERR(unlinker));
	pwq_set_unlinker(unlinker, &pwq_unlink_work);
}
