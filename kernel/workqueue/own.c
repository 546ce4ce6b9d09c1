// SPDX-License-Identifier: GPL-2.0
/*
 * Own pools: a CPU that has to share the pool of its pod gets one of its own while that costs
 * something.
 *
 * At first all CPUs of a pod queue on one pool.  So few threads serve many CPUs, and a CPU that
 * queues a lot is helped by workers anywhere in the pod.  But if many CPUs queue a lot, most of
 * their time goes to the lock and the other lines of that pool.  wq_note_sharing() in queue.c
 * notices that.  The CPU then gets a pwq of its own, on a pool that only this CPU uses.  That
 * pool has the attributes of the pod's pool: its workers may run wherever the workers of the pod
 * may, and its items take the same slots.  Workqueues share own pools as they share others.
 *
 * The items of a CPU must start in the order in which the CPU queued them, and nobody asked for
 * the change.  So the own pwq is plugged at first: what is queued on it is held back.  In the
 * critical section in which the entry of the CPU changes to the own pwq, a marker is queued on
 * the old one.  When it runs, all older items have started, and it unplugs the own pwq.  Like a
 * barrier it needs no slot, or flushing a frozen workqueue without items would wait for it.  If
 * items are held back, it is an ordinary item behind them.  A CPU that has read the entry before
 * sees the change when it has got the lock of the old pool, see pwq_find_and_lock(), and goes to
 * the own pwq.
 *
 * Once an own pwq has not been used for a while, the entry names the pwq of the pod again, which
 * was kept.  No marker is needed then: the entry changes under the lock of the own pool, which has
 * no items of the workqueue.  A change of attributes or pods replaces own pwqs, as it does all
 * others.  It keeps no order, and nor does an item that is still running: it goes where it runs.
 *
 * Only one CPU queues on an own pool, unless others name that CPU or queue an item that runs
 * there.  Nothing waits for own_pools_work: it may take long if memory is short.  Its workqueue is
 * ordered, and so has no own pools that it would keep in use itself.
 */
#include <linux/slab.h>

#include "internal.h"
#include "worklist.h"

#define OWN_UNUSED	(5 * HZ)	/* look this often which own pwqs are used */
#define OWN_FEW		64		/* it is not used if fewer items have started since */
#define OWN_NEW		U64_MAX		/* own_started before the first look */

struct workqueue_struct *own_pools_wq __ro_after_init;

static LIST_HEAD(own_pwqs);		/* P: own pwqs that entries name */

static void own_pools_look(struct work_struct *unused);
static DECLARE_DELAYED_WORK(own_pools_look_work, own_pools_look);

/* all items that were queued before the change have started */
static void own_marker_fn(struct work_struct *marker)
{
	struct pool_workqueue *own = container_of(marker, struct pool_workqueue, own_marker);

	pwq_unplug(own);
	put_pwq_unlocked(own);
}

/* let @cpu queue on @to, which has a reference for that, instead of @from; P, W and L of @from */
static void own_entry_switch(int cpu, struct pool_workqueue *from, struct pool_workqueue *to)
{
	lockdep_assert_held(&from->pool->lock);
	lockdep_assert_held(&from->wq->mutex);

	rcu_assign_pointer(*wq_pwq_ptr(from->wq, cpu), to);
	pwq_add_entries(from, -1);
	pwq_add_entries(to, 1);
}

/* queue the marker of @own behind what is on @pod; L of @pod.  Return the task to wake. */
static struct task_struct *own_marker_queue(struct pool_workqueue *own, struct pool_workqueue *pod)
{
	struct work_struct *marker = &own->own_marker;

	if (!list_empty(&pod->inactive_works))
		return pwq_enqueue(pod, marker);

	pod->stats[PWQ_STAT_BARRIERS]++;
	pod->nr_in_flight[pod->work_color]++;
	pwq_insert_ready(pod, marker, work_color_to_flags(pod->work_color) | WORK_STRUCT_INACTIVE);
	return kick_pool(pod->pool);
}

/* let @cpu queue on @own, which nobody else knows yet; P and W */
static void own_pwq_install(int cpu, struct pool_workqueue *own)
{
	struct pool_workqueue *pod = wq_pwq(own->wq, cpu);

	own->pod = pod;		/* takes over the reference of the entry */
	pwq_add_entries(pod, 1);
	own->plugged = true;
	own->refcnt++;		/* the marker's */
	INIT_WORK(&own->own_marker, own_marker_fn);
	__set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&own->own_marker));
	own->own_started = OWN_NEW;
	link_pwq(own);
	list_add(&own->own_node, &own_pwqs);

	raw_spin_lock_irq(&pod->pool->lock);
	own_entry_switch(cpu, pod, own);
	pool_unlock_wake_irq(pod->pool, own_marker_queue(own, pod));
}

/* may CPUs have pools of their own for @wq as its parameters are now? */
static bool wq_allows_own_pools(struct workqueue_struct *wq)
{
	if (READ_ONCE(wq->flags) & __WQ_DESTROYING)
		return false;
	/* many rely on the order of items that run one by one, whoever has queued them */
	return READ_ONCE(wq_own_pools) > 1 ||
	       (READ_ONCE(wq_own_pools) && READ_ONCE(wq->saved_max_active) > 1);
}

/*
 * The pool that @cpu shares with others when it queues on @wq, or %NULL if it does not or has to.
 * @wq may be gone.  P
 */
static struct worker_pool *own_pool_shared(struct workqueue_struct *wq, int cpu)
{
	struct workqueue_struct *each;

	list_for_each_entry(each, &workqueues, list) {
		struct worker_pool *pool;

		if (each != wq)
			continue;
		if (wq_is_ordered(READ_ONCE(wq->flags)) || !wq_allows_own_pools(wq) ||
		    !READ_ONCE(wq->max_active))
			return NULL;
		pool = wq_pwq(wq, cpu)->pool;
		return pool_can_be_shared(pool) ? pool : NULL;
	}
	return NULL;
}

/*
 * Let @cpu use @pool for @wq.  P.  Return 0, -EAGAIN if things have changed, or -ENOMEM; the
 * caller then keeps the reference to @pool.
 */
static int own_pool_use(struct workqueue_struct *wq, int cpu, struct worker_pool *pool)
{
	struct worker_pool *shared = own_pool_shared(wq, cpu);
	struct pool_workqueue *own;

	if (!shared || shared->node != pool->node || !wqattrs_equal(shared->attrs, pool->attrs))
		return -EAGAIN;

	own = pwq_make(wq, pool);
	if (!own)
		return -ENOMEM;

	guard(mutex)(&wq->mutex);
	if (!wq_allows_own_pools(wq) || !wq->max_active) {
		/* the marker might come after the drain, or wait until the workqueue is thawed */
		pwq_free_unused(own);
		return -EAGAIN;
	}
	own_pwq_install(cpu, own);
	return 0;
}

/* give @cpu a pool of its own for @wq; false if that failed for want of memory or threads */
static bool own_pool_give(struct workqueue_struct *wq, int cpu)
{
	struct worker_pool *pool;
	int ret = 0;

	scoped_guard(mutex, &wq_pool_mutex) {
		struct worker_pool *shared = own_pool_shared(wq, cpu);

		if (!shared)
			return true;
		pool = get_own_pool(shared, cpu);
		if (!pool)
			return false;
	}

	/*
	 * One for an item that waits for a second one, one for that, and one in reserve.  Nobody
	 * may be able to make more then: the pod's pool, which is older, has more.  If the pool
	 * is in use already, the first one may be busy.  Without the mutex, as this may take long.
	 */
	if (READ_ONCE(pool->nr_workers))
		ret = READ_ONCE(pool->nr_idle) > 1 ? 0 : -EAGAIN;
	else if (!create_worker(pool) || !create_worker(pool) || !create_worker(pool))
		ret = -ENOMEM;

	guard(mutex)(&wq_pool_mutex);
	if (!ret)
		ret = own_pool_use(wq, cpu, pool);
	if (ret)
		put_unbound_pool(pool);
	return ret != -ENOMEM;
}

static void own_pools_fn(struct work_struct *unused)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct workqueue_struct **wants = per_cpu_ptr(&wq_wants_own, cpu);
		struct workqueue_struct *wq = READ_ONCE(*wants);

		/* after a failure, the CPU may not ask again before the next look */
		if (wq && own_pool_give(wq, cpu))
			WRITE_ONCE(*wants, NULL);
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
	return !wq_allows_own_pools(own->wq) ||
	       (before != OWN_NEW && started - before < OWN_FEW);
}

/* let the CPU share the pool of its pod again, unless it has used @own in the meantime */
static void own_pwq_take_back(struct pool_workqueue *own)
{
	struct pool_workqueue *pod = own->pod;

	guard(mutex)(&own->wq->mutex);

	scoped_guard(raw_spinlock_irq, &pod->pool->lock)
		get_pwq(pod);
	scoped_guard(raw_spinlock_irq, &own->pool->lock) {
		if (pwq_is_empty(own)) {
			own_entry_switch(own->pool->own_cpu, own, pod);
			list_del_init(&own->own_node);
			pod = own;
		}
	}
	put_pwq_unlocked(pod);
}

static void own_pools_look(struct work_struct *unused)
{
	struct pool_workqueue *own, *next;
	int cpu;

	/* whoever asks just now has to ask again */
	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(wq_wants_own, cpu), NULL);

	guard(mutex)(&wq_pool_mutex);

	list_for_each_entry_safe(own, next, &own_pwqs, own_node)
		if (own_pwq_is_unused(own))
			own_pwq_take_back(own);
	if (!list_empty(&own_pwqs))
		queue_delayed_work(own_pools_wq, &own_pools_look_work, OWN_UNUSED);
}

/**
 * own_pwqs_forget - a workqueue is destroyed
 * @wq: the workqueue, which is on the list of workqueues no more
 *
 * Context: wq_pool_mutex held.
 */
void own_pwqs_forget(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	lockdep_assert_held(&wq_pool_mutex);

	guard(rcu)();
	for_each_pwq(pwq, wq)
		list_del_init(&pwq->own_node);
}
