// SPDX-License-Identifier: GPL-2.0
/*
 * Own pools and pwqs: a CPU that has to share those of its pod gets one of its own while that costs
 * something.  "Own pools" in Documentation/core-api/workqueue-cmwq-internals.rst explains the
 * protocol, by which the items of the CPU start in the order in which it queued them.
 */
#include <linux/slab.h>

#include "attrs.h"
#include "kick.h"
#include "pools.h"
#include "running.h"
#include "worker.h"

#define OWN_UNUSED	(5 * HZ)	/* look this often which own pwqs are used */
#define OWN_FEW		64		/* it is not used if fewer items have started since */
#define OWN_NEW		U64_MAX		/* own_started before the first look */

static LIST_HEAD(own_pwqs);		/* P: own pwqs that entries name */

static void own_pools_look(struct work_struct *unused);
static DECLARE_DELAYED_WORK(own_pools_look_work, own_pools_look);

/* let @cpu queue on @to, which has a reference for that, instead of @from; P, W and L of @from */
static void own_entry_switch(int cpu, struct pool_workqueue *from, struct pool_workqueue *to)
{
	lockdep_assert_held(&from->pool->lock);
	lockdep_assert_held(&from->wq->mutex);

	rcu_assign_pointer(*wq_pwq_ptr(from->wq, cpu), to);
	pwq_add_entries(from, -1);
	pwq_add_entries(to, 1);
}

/* queue the marker of @own behind what is on @old; L of @old.  Return the task to wake. */
static struct task_struct *own_marker_queue(struct pool_workqueue *own, struct pool_workqueue *old)
{
	old->stats[PWQ_STAT_BARRIERS]++;
	old->nr_in_flight[old->work_color]++;
	insert_work(old, &own->own_marker, &old->inactive_works,
		    work_color_to_flags(old->work_color) | WORK_STRUCT_INACTIVE);
	old->holds_marker = true;
	pwq_release_markers(old);
	return kick_pool(old->pool);
}

/* let @cpu queue on @own, which nobody else knows yet; P and W */
static void own_pwq_install(int cpu, struct pool_workqueue *own)
{
	struct pool_workqueue *old = wq_pwq(own->wq, cpu);
	struct task_struct *wake;

	own->own_cpu = cpu;
	own->pod = old->pod ?: old;
	pwq_add_entries(own->pod, 1);
	own->plugged = true;
	own->refcnt++;		/* the marker's */
	INIT_WORK(&own->own_marker, own_marker_fn);
	__set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&own->own_marker));
	own->own_started = OWN_NEW;
	link_pwq(own);
	list_add(&own->own_node, &own_pwqs);

	raw_spin_lock_irq(&old->pool->lock);
	own_entry_switch(cpu, old, own);
	wake = own_marker_queue(own, old);
	/* whoever is left there with nobody to share with may need a pool as much */
	if (own->pool != old->pool)
		old->pool->count_alone = true;
	/* @own gets the reference of the entry, or one to the pod's pwq on the same pool */
	if (old->pod) {
		list_del_init(&old->own_node);
		get_pwq(old->pod);
		put_pwq(old);
	}
	pool_unlock_wake_irq(old->pool, wake);
}

/* may CPUs have pools or pwqs of their own for @wq as its parameters are now? */
static bool wq_allows_own_pools(struct workqueue_struct *wq)
{
	if (READ_ONCE(wq->flags) & __WQ_DESTROYING)
		return false;
	/* many rely on the order of items that run one by one, whoever has queued them */
	return READ_ONCE(wq_own_pools) > 1 ||
	       (READ_ONCE(wq_own_pools) && READ_ONCE(wq->saved_max_active) > 1);
}

/*
 * The pwq of @cpu for @wq if @cpu may have one of its own instead: that is so if the pool of this
 * one is shared.  Else %NULL.  @wq may be gone.  P
 */
static struct pool_workqueue *own_pwq_sharing(struct workqueue_struct *wq, int cpu)
{
	struct workqueue_struct *each;

	list_for_each_entry(each, &workqueues, list) {
		struct pool_workqueue *pwq;

		if (each != wq)
			continue;
		if (wq_is_ordered(READ_ONCE(wq->flags)) || !wq_allows_own_pools(wq) ||
		    workqueue_freezing || !cpumask_test_cpu(cpu, wq_unbound_cpumask))
			return NULL;
		pwq = wq_pwq(wq, cpu);
		/* older items may be elsewhere until it is unplugged: a marker would not wait */
		return pool_can_be_shared(pwq->pool) && !READ_ONCE(pwq->plugged) ? pwq : NULL;
	}
	return NULL;
}

/*
 * Let @cpu use @pool for @wq.  P.  Return 0, -EAGAIN if things have changed, or -ENOMEM; the
 * caller then keeps the reference to @pool.
 */
static int own_pwq_use(struct workqueue_struct *wq, int cpu, struct worker_pool *pool)
{
	struct pool_workqueue *own, *old = own_pwq_sharing(wq, cpu);

	if (!old || old->pool->node != pool->node || !wqattrs_equal(old->pool->attrs, pool->attrs))
		return -EAGAIN;

	own = pwq_make(wq, pool);
	if (!own)
		return -ENOMEM;

	guard(mutex)(&wq->mutex);
	if (!wq_allows_own_pools(wq)) {
		/* the marker might come after the drain */
		pwq_free_unused(own);
		return -EAGAIN;
	}
	own_pwq_install(cpu, own);
	return 0;
}

/* give @cpu a pwq of its own for @wq; false if memory runs out */
static bool own_pwq_give(struct workqueue_struct *wq, int cpu)
{
	struct pool_workqueue *old;
	int ret;

	guard(mutex)(&wq_pool_mutex);

	old = own_pwq_sharing(wq, cpu);
	if (!old || old->pod)
		return true;
	old->pool->refcnt++;
	ret = own_pwq_use(wq, cpu, old->pool);
	if (ret)
		put_unbound_pool(old->pool);
	return ret != -ENOMEM;
}

/* give @cpu a pool of its own for @wq; false if that failed for want of memory or threads */
static bool own_pool_give(struct workqueue_struct *wq, int cpu)
{
	struct worker_pool *pool;
	int missing, ret = 0;

	scoped_guard(mutex, &wq_pool_mutex) {
		struct pool_workqueue *old = own_pwq_sharing(wq, cpu);

		if (!old)
			return true;
		pool = get_own_pool(old->pool, cpu);
		if (!pool)
			return false;
	}

	/*
	 * One worker for an item that waits for a second one, one for that, and one in reserve:
	 * when they are needed, it may be impossible to make any.  If the pool is in use already,
	 * the first one may be busy.  Without the mutex, as this may take long.
	 */
	missing = (READ_ONCE(pool->nr_workers) ? 2 : 3) - READ_ONCE(pool->nr_idle);
	while (missing-- > 0 && !ret)
		ret = create_worker(pool) ? 0 : -ENOMEM;

	guard(mutex)(&wq_pool_mutex);
	if (!ret)
		ret = own_pwq_use(wq, cpu, pool);
	if (ret)
		put_unbound_pool(pool);
	return ret != -ENOMEM;
}

static void own_give(int cpu, int kind)
{
	struct workqueue_struct **wants = per_cpu_ptr(wq_wants_own, cpu) + kind;
	struct workqueue_struct *wq = READ_ONCE(*wants);

	/* after a failure, try again when somebody asks, and let the CPU ask after the next look */
	if (wq && (kind == OWN_PWQ ? own_pwq_give(wq, cpu) : own_pool_give(wq, cpu)))
		WRITE_ONCE(*wants, NULL);
}

static void own_pools_fn(struct work_struct *unused)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		own_give(cpu, OWN_PWQ);
		own_give(cpu, OWN_POOL);
	}
	queue_delayed_work(own_pools_wq, &own_pools_look_work, OWN_UNUSED);
}

DECLARE_WORK(own_pools_work, own_pools_fn);

/* is the pwq not needed any more? */
static bool own_pwq_is_unused(struct pool_workqueue *own)
{
	u64 started, before = own->own_started;

	guard(raw_spinlock_irq)(&own->pool->lock);
	started = own->stats[PWQ_STAT_STARTED];
	own->own_started = started;
	if (!pwq_is_empty(own) || own->plugged)
		return false;
	return !wq_allows_own_pools(own->wq) || (before != OWN_NEW && started - before < OWN_FEW);
}

/* let the CPU share the pwq of its pod again, unless it has used @own in the meantime */
static void own_pwq_take_back(struct pool_workqueue *own)
{
	struct pool_workqueue *pod = own->pod, *left = pod;

	guard(mutex)(&own->wq->mutex);

	scoped_guard(raw_spinlock_irq, &pod->pool->lock)
		get_pwq(pod);
	scoped_guard(raw_spinlock_irq, &own->pool->lock) {
		if (pwq_is_empty(own)) {
			own_entry_switch(own->own_cpu, own, pod);
			list_del_init(&own->own_node);
			left = own;
		}
	}
	if (left == own) {
		guard(raw_spinlock_irq)(&pod->pool->lock);
		pod->pool->count_alone = false;
	}
	put_pwq_unlocked(left);
}

static void own_pools_look(struct work_struct *unused)
{
	struct pool_workqueue *own, *next;
	int cpu;

	/* whoever asks just now has to ask again */
	for_each_possible_cpu(cpu) {
		WRITE_ONCE(per_cpu(wq_wants_own, cpu)[OWN_PWQ], NULL);
		WRITE_ONCE(per_cpu(wq_wants_own, cpu)[OWN_POOL], NULL);
	}

	guard(mutex)(&wq_pool_mutex);

	list_for_each_entry_safe(own, next, &own_pwqs, own_node)
		if (own_pwq_is_unused(own))
			own_pwq_take_back(own);
	if (!list_empty(&own_pwqs))
		queue_delayed_work(own_pools_wq, &own_pools_look_work, OWN_UNUSED);
}

/* a workqueue is destroyed, and on the list of workqueues no more; P */
void own_pwqs_forget(struct workqueue_struct *wq)
{
	struct pool_workqueue *own, *next;

	lockdep_assert_held(&wq_pool_mutex);

	list_for_each_entry_safe(own, next, &own_pwqs, own_node)
		if (own->wq == wq)
			list_del_init(&own->own_node);
}
