// SPDX-License-Identifier: GPL-2.0
/*
 * Worker pools: those of each CPU, and the unbound ones that come and go with the attributes in
 * use.  How their workers end: those that are idle for too long, and all of an unused pool.
 */
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "attrs.h"
#include "pools.h"
#include "running.h"
#include "worker.h"

enum { UNBOUND_POOL_HASH_ORDER = 6 };

/* P: unbound pools by wqattrs_hash() */
static DEFINE_HASHTABLE(unbound_pool_hash, UNBOUND_POOL_HASH_ORDER);

/* stop counting an idle worker in its pool and move it to @dying; L and A */
static void set_worker_dying(struct worker *worker, struct list_head *dying)
{
	struct worker_pool *pool = worker->pool;

	lockdep_assert_held(&wq_pool_attach_mutex);
	lockdep_assert_held(&pool->lock);

	WQ_WARN_ON(worker->current_work || !list_empty(&worker->scheduled));

	pool->nr_idle--;
	pool->nr_workers--;
	if (pool->last_woken_worker == worker)
		pool->last_woken_worker = NULL;
	worker->flags |= WORKER_DIE;
	list_move(&worker->entry, dying);
	/* the task may see WORKER_DIE and exit before it is told to */
	get_task_struct(worker->task);
}

/* drop the locks that set_worker_dying() needed, and end the workers */
static void reap_dying_workers(struct worker_pool *pool, struct list_head *dying)
	__releases(&pool->lock)
{
	struct worker *worker, *next;

	raw_spin_unlock_irq(&pool->lock);
	list_for_each_entry(worker, dying, entry)
		detach_worker(worker);
	mutex_unlock(&wq_pool_attach_mutex);

	list_for_each_entry_safe(worker, next, dying, entry) {
		kthread_stop_put(worker->task);
		ida_free(&pool->worker_ida, worker->id);
		kfree(worker);
	}
}

/* end all workers of an unused unbound pool, whose manager flag stays set; P */
static void pool_kill_workers(struct worker_pool *pool)
{
	LIST_HEAD(dying);

	lockdep_assert_held(&wq_pool_mutex);

	/* wait for a manager that began to make a worker while there was work */
	for (;;) {
		/* the flag is checked again under the lock */
		rcuwait_wait_event(&manager_wait, !(READ_ONCE(pool->flags) & POOL_MANAGER_ACTIVE),
				   TASK_UNINTERRUPTIBLE);
		mutex_lock(&wq_pool_attach_mutex);
		raw_spin_lock_irq(&pool->lock);
		if (!(pool->flags & POOL_MANAGER_ACTIVE))
			break;
		raw_spin_unlock_irq(&pool->lock);
		mutex_unlock(&wq_pool_attach_mutex);
	}

	pool->flags |= POOL_MANAGER_ACTIVE;
	while (!list_empty(&pool->idle_list))
		set_worker_dying(list_first_entry(&pool->idle_list, struct worker, entry), &dying);
	WQ_WARN_ON(pool->nr_workers || pool->nr_idle);
	reap_dying_workers(pool, &dying);
}

/* has a worker been idle for too long?  If one is going to be, look again then.  L */
static bool pool_should_cull(struct worker_pool *pool)
{
	unsigned long expiry;

	if (!too_many_workers(pool))
		return false;
	expiry = list_last_entry(&pool->idle_list, struct worker, entry)->last_active +
		 IDLE_WORKER_TIMEOUT;
	if (time_before_eq(expiry, jiffies))
		return true;
	mod_timer(&pool->idle_timer, expiry);
	return false;
}

/* pool->idle_timer: should idle workers end?  That takes a mutex, so idle_cull_fn() does it. */
static void idle_worker_timeout(struct timer_list *timer)
{
	struct worker_pool *pool = timer_container_of(pool, timer, idle_timer);
	bool cull;

	if (work_pending(&pool->idle_cull_work))
		return;

	scoped_guard(raw_spinlock_irqsave, &pool->lock)
		cull = pool_should_cull(pool);
	if (cull)
		queue_work(system_dfl_wq, &pool->idle_cull_work);
}

/* pool->idle_cull_work: end workers that are idle for too long */
static void idle_cull_fn(struct work_struct *work)
{
	struct worker_pool *pool = container_of(work, struct worker_pool, idle_cull_work);
	LIST_HEAD(dying);

	/*
	 * The mutex keeps a doomed worker from passing set_pf_worker(false)
	 * before it has left the pool.
	 */
	mutex_lock(&wq_pool_attach_mutex);
	raw_spin_lock_irq(&pool->lock);
	while (pool_should_cull(pool))
		set_worker_dying(list_last_entry(&pool->idle_list, struct worker, entry), &dying);
	reap_dying_workers(pool, &dying);
}

/* set up a zeroed pool: disassociated, without workers, of no CPU or node.  0 or -ENOMEM */
int init_worker_pool(struct worker_pool *pool)
{
	raw_spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->worklist);
	INIT_LIST_HEAD(&pool->idle_list);
	INIT_LIST_HEAD(&pool->workers);
	INIT_HLIST_NODE(&pool->hash_node);
	hash_init(pool->busy_hash);
	ida_init(&pool->worker_ida);
	timer_setup(&pool->idle_timer, idle_worker_timeout, TIMER_DEFERRABLE);
	timer_setup(&pool->mayday_timer, pool_mayday_timeout, 0);
	INIT_WORK(&pool->idle_cull_work, idle_cull_fn);
#ifdef CONFIG_PREEMPT_RT
	spin_lock_init(&pool->cb_lock);
#endif
	pool->id = -1;
	pool->cpu = -1;
	pool->own_cpu = -1;
	pool->last_cpu = -1;
	pool->node = NUMA_NO_NODE;
	pool->refcnt = 1;
	pool->flags = POOL_DISASSOCIATED;
	pool->last_progress_ts = jiffies;

	pool->attrs = alloc_workqueue_attrs();
	return pool->attrs ? 0 : -ENOMEM;
}

/* enter a pool in worker_pool_idr; P */
int worker_pool_assign_id(struct worker_pool *pool)
{
	int id;

	lockdep_assert_held(&wq_pool_mutex);

	/* the highest id says "no pool" in work->data */
	id = idr_alloc(&worker_pool_idr, pool, 0, WORK_OFFQ_POOL_NONE, GFP_KERNEL);
	if (id < 0)
		return id;
	pool->id = id;
	pool->offq_data = (unsigned long)id << WORK_OFFQ_POOL_SHIFT;
	return 0;
}

static void rcu_free_pool(struct rcu_head *rcu)
{
	struct worker_pool *pool = container_of(rcu, struct worker_pool, rcu);

	free_workqueue_attrs(pool->attrs);
	ida_destroy(&pool->worker_ida);
	kfree(pool);
}

/* drop a reference to an unbound pool; the last one ends its workers.  P */
void put_unbound_pool(struct worker_pool *pool)
{
	lockdep_assert_held(&wq_pool_mutex);

	if (--pool->refcnt)
		return;
	if (WARN_ON(is_percpu_pool(pool) || !list_empty(&pool->worklist)))
		return;

	if (pool->id >= 0)
		idr_remove(&worker_pool_idr, pool->id);
	hash_del(&pool->hash_node);

	pool_kill_workers(pool);

	/* no worker is left to arm these again */
	timer_delete_sync(&pool->mayday_timer);
	timer_delete_sync(&pool->idle_timer);
	cancel_work_sync(&pool->idle_cull_work);

	/* flushing finds the last pool of an item under RCU, queueing with interrupts off */
	call_rcu(&pool->rcu, rcu_free_pool);
}

/* the NUMA node that holds all CPUs of @cpus */
static int node_of_cpus(const struct cpumask *cpus)
{
	const struct wq_pod_type *numa = &wq_pod_types[WQ_AFFN_NUMA];
	int pod;

	for (pod = 0; pod < numa->nr_pods; pod++)
		if (cpumask_subset(cpus, numa->pod_cpus[pod]))
			return numa->pod_node[pod];
	return NUMA_NO_NODE;
}

/*
 * If the CPUs of a pod were removed and added on another node, the pod needs a new pool,
 * since items on the old pool take the old node's slots.  A pool made before the nodes
 * were known may still be used.
 */
static bool pool_is_on_its_node(struct worker_pool *pool)
{
	/* skip the search: nodes change seldom, but each new workqueue asks this for each pod */
	if (pool->pods_gen == wq_pods_gen)
		return true;
	if (pool->node != NUMA_NO_NODE && pool->node != node_of_cpus(pool->attrs->__pod_cpumask))
		return false;
	pool->pods_gen = wq_pods_gen;
	return true;
}

/* the key of a pool in unbound_pool_hash */
static u32 pool_hash(const struct workqueue_attrs *attrs, int own_cpu)
{
	return wqattrs_hash(attrs) + own_cpu + 1;
}

static struct worker_pool *unbound_pool_create(const struct workqueue_attrs *attrs, int node,
					       int own_cpu)
{
	struct worker_pool *pool;

	pool = kzalloc_node(sizeof(*pool), GFP_KERNEL, own_cpu < 0 ? node : cpu_to_node(own_cpu));
	if (!pool)
		return NULL;
	if (init_worker_pool(pool))
		goto fail;

	pool->node = node;
	pool->own_cpu = own_cpu;
	pool->pods_gen = wq_pods_gen;
	copy_workqueue_attrs(pool->attrs, attrs);
	wqattrs_clear_for_pool(pool->attrs);
	if (pool_can_be_shared(pool))
		pool->last_cpu = 0;

	if (worker_pool_assign_id(pool))
		goto fail;
	if (wq_online && own_cpu < 0 && !create_worker(pool))
		goto fail;

	hash_add(unbound_pool_hash, &pool->hash_node, pool_hash(pool->attrs, own_cpu));
	return pool;

fail:
	put_unbound_pool(pool);
	return NULL;
}

static struct worker_pool *unbound_pool_find(const struct workqueue_attrs *attrs, int own_cpu)
{
	struct worker_pool *pool;

	hash_for_each_possible(unbound_pool_hash, pool, hash_node, pool_hash(attrs, own_cpu))
		if (pool->own_cpu == own_cpu && wqattrs_equal(pool->attrs, attrs) &&
		    pool_is_on_its_node(pool))
			return pool;
	return NULL;
}

/*
 * Find or make the pool for some attributes, with a reference for the caller, or NULL.  It has a
 * worker once kthreads can be made.  P.
 */
struct worker_pool *get_unbound_pool(const struct workqueue_attrs *attrs)
{
	struct worker_pool *pool;

	lockdep_assert_held(&wq_pool_mutex);

	pool = unbound_pool_find(attrs, -1);
	if (!pool)
		return unbound_pool_create(attrs, node_of_cpus(attrs->__pod_cpumask), -1);
	pool->refcnt++;
	return pool;
}

/*
 * Find or make the own pool of @cpu, which uses @shared now, with a reference for the caller, or
 * NULL.  Its items take the same slots.  A new one has no worker.  P.
 */
struct worker_pool *get_own_pool(struct worker_pool *shared, int cpu)
{
	struct worker_pool *pool;

	lockdep_assert_held(&wq_pool_mutex);

	pool = unbound_pool_find(shared->attrs, cpu);
	if (!pool)
		return unbound_pool_create(shared->attrs, shared->node, cpu);
	/* nodes became known between the making of the two */
	if (pool->node != shared->node)
		return NULL;
	pool->refcnt++;
	return pool;
}

/* boot: give a worker to each unbound pool made before kthreads */
int __init unbound_pools_start(void)
{
	struct worker_pool *pool;
	int bkt;

	/* the reaper runs already, and may free pools; items of the first pools may make others */
	guard(mutex)(&wq_pool_mutex);

	hash_for_each(unbound_pool_hash, bkt, pool, hash_node)
		if (!create_worker(pool))
			return -ENOMEM;
	return 0;
}
