// SPDX-License-Identifier: GPL-2.0
/*
 * pool_workqueues: what ties a workqueue to the pools that serve it.
 *
 * Each CPU of a workqueue has an entry that names the pwq to queue on; unbound
 * workqueues have one more for the default pwq.  CPUs of one pod share a pwq, unless own.c gave
 * one of them its own.
 * After a change of the entries the old pwq finishes the items that it has.  With the
 * last item, its reference count drops to zero under pool->lock; reaper.c does the rest.
 */
#include <linux/slab.h>

#include "worklist.h"

static struct kmem_cache *pwq_cache __ro_after_init;

/* dead pwqs, and the thread that takes care of them: see reaper.c */
LLIST_HEAD(dead_pwqs);
static struct kthread_worker *pwq_unlinker __ro_after_init;
static struct kthread_work *pwq_unlink_work __ro_after_init;

/* boot: let @unlinker do @work from now on when a pwq dies */
void __init pwq_set_unlinker(struct kthread_worker *unlinker, struct kthread_work *work)
{
	pwq_unlink_work = work;
	pwq_unlinker = unlinker;
	/* some may have died before */
	kthread_queue_work(unlinker, work);
}

/*
 * An unlinked pwq with one reference, or NULL; it takes over the caller's reference to an unbound
 * pool.
 */
struct pool_workqueue *pwq_make(struct workqueue_struct *wq, struct worker_pool *pool)
{
	struct pool_workqueue *pwq;

	pwq = kmem_cache_alloc_node(pwq_cache, GFP_KERNEL, pool_mem_node(pool));
	if (!pwq)
		return NULL;
	if (WARN_ON_ONCE((unsigned long)pwq & ~WORK_STRUCT_PWQ_MASK)) {
		kmem_cache_free(pwq_cache, pwq);
		return NULL;
	}

	/* zeroed here because the allocator does not know the size at compile time */
	memset(pwq, 0, sizeof(*pwq));
	pwq->pool = pool;
	pwq->wq = wq;
	if (READ_ONCE(wq->flags) & WQ_UNBOUND)
		pwq->slots = wq_node_nr_active(wq, pool->node);
	pwq->refcnt = 1;
	pwq->own_cpu = -1;
	pwq->flush_color = -1;
	INIT_LIST_HEAD(&pwq->inactive_works);
	INIT_LIST_HEAD(&pwq->pwqs_node);
	INIT_LIST_HEAD(&pwq->pending_node);
	INIT_LIST_HEAD(&pwq->spare_node);
	INIT_LIST_HEAD(&pwq->mayday_node);
	INIT_LIST_HEAD(&pwq->own_node);
	/* not INIT_WORK(): no item for debugobjects and lockdep; not active: it has no slot */
	INIT_LIST_HEAD(&pwq->mayday_cursor.entry);
	pwq->mayday_cursor.func = mayday_cursor_func;
	set_work_pwq(&pwq->mayday_cursor, pwq, WORK_STRUCT_INACTIVE);
	return pwq;
}

/*
 * Free a pwq that was not published; may be on a list of the caller's, who gets the reference to
 * the pool back.
 */
void pwq_free_unused(struct pool_workqueue *pwq)
{
	if (!list_empty(&pwq->pwqs_node))
		list_del(&pwq->pwqs_node);
	kmem_cache_free(pwq_cache, pwq);
}

/* add a pwq to the list of its workqueue, where flushing sees it; W */
void link_pwq(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	lockdep_assert_held(&wq->mutex);

	pwq->work_color = wq->work_color;
	list_add_tail_rcu(&pwq->pwqs_node, &wq->pwqs);
}

/* a pwq has lost its last reference; L */
void pwq_die(struct pool_workqueue *pwq)
{
	WQ_WARN_ON_ONCE(pwq->nr_ready || pwq->nr_scheduled || pwq->nr_granted);
	list_del_init(&pwq->mayday_cursor.entry);

	/* before there are kthreads, pwq_set_unlinker() takes care of the list */
	if (llist_add(&pwq->release_node, &dead_pwqs) && pwq_unlinker)
		kthread_queue_work(pwq_unlinker, pwq_unlink_work);
}

/* put_pwq() without the lock; @pwq may be NULL */
void put_pwq_unlocked(struct pool_workqueue *pwq)
{
	struct worker_pool *pool;

	if (!pwq)
		return;

	/*
	 * The pwq and its pool may be gone as soon as the reference is.  With
	 * interrupts off this is an RCU reader, so the unlock is safe.
	 */
	pool = pwq->pool;
	raw_spin_lock_irq(&pool->lock);
	put_pwq(pwq);
	raw_spin_unlock_irq(&pool->lock);
}

/* the last in-flight item of the flush colour of @pwq is done; L */
void pwq_flushed(struct pool_workqueue *pwq)
{
	struct workqueue_struct *wq = pwq->wq;

	pwq->flush_color = -1;
	/* wake first_flusher for the last pwq; nobody changes first_flusher before it wakes */
	if (atomic_dec_and_test(&wq->nr_pwqs_to_flush))
		complete(&wq->first_flusher->done);
}

/* early boot: make pwqs allocatable */
void __init pwq_cache_init(void)
{
	pwq_cache = KMEM_CACHE(pool_workqueue, SLAB_PANIC);
}
