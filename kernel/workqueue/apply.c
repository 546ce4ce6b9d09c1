// SPDX-License-Identifier: GPL-2.0
/*
 * How a change of attributes is carried out.
 *
 * A change is planned first: the plan makes all pools and pwqs that the change needs.
 * Planning may fail and then changes nothing.  Committing the plan swaps the pwqs of the
 * workqueue and cannot fail.  The old pwqs finish the items that they have.  A new
 * global CPU mask needs plans for many workqueues; these are committed together or not
 * at all.
 */
#include <linux/cpu.h>
#include <linux/slab.h>

#include "active.h"
#include "attrs.h"
#include "pools.h"
#include "running.h"

/* P; kept: unbound_wq_update_pwq() may run when memory is short, and plans are frequent */
static struct workqueue_attrs *unbound_wq_update_pwq_attrs_buf;

/* a planned change: it holds the new pwqs before the commit, the old ones after it */
struct apply_wqattrs_ctx {
	struct list_head node;
	struct workqueue_struct *wq;
	struct workqueue_attrs *attrs;		/* what the user will read back */
	struct pool_workqueue *dfl_pwq;
	struct pool_workqueue *cpu_pwq[];
};

static void apply_wqattrs_cleanup(struct apply_wqattrs_ctx *plan)
{
	int cpu;

	/* pwqs may be missing: the plan has failed, or the workqueue was new */
	for_each_possible_cpu(cpu)
		put_pwq_unlocked(plan->cpu_pwq[cpu]);
	put_pwq_unlocked(plan->dfl_pwq);
	free_workqueue_attrs(plan->attrs);
	kfree(plan);
}

/* a pwq on the pool for @attrs */
static struct pool_workqueue *alloc_pwq(struct workqueue_struct *wq,
					const struct workqueue_attrs *attrs)
{
	struct worker_pool *pool = get_unbound_pool(attrs);
	struct pool_workqueue *pwq;

	if (!pool)
		return NULL;
	pwq = pwq_make(wq, pool);
	if (!pwq)
		put_unbound_pool(pool);
	return pwq;
}

/*
 * Plan the entries of a pod, whose CPUs share a pwq, which nobody else knows yet.  All CPUs queue
 * on the default pwq if @attrs, which are scratch, are ordered.
 */
static bool plan_pod(struct apply_wqattrs_ctx *plan, struct workqueue_attrs *attrs,
		     const struct cpumask *pod)
{
	struct pool_workqueue *pwq = plan->dfl_pwq;
	int cpu;

	if (!attrs->ordered && attrs_set_pod(attrs, pod)) {
		pwq = alloc_pwq(plan->wq, attrs);
		if (!pwq)
			return false;
		/* the entries have all references */
		pwq->refcnt = 0;
	}
	for_each_cpu(cpu, pod) {
		pwq->refcnt++;
		plan->cpu_pwq[cpu] = pwq;
	}
	return true;
}

/* plan the pwqs of all CPUs and the default one; @attrs is scratch */
static bool plan_entries(struct apply_wqattrs_ctx *plan, struct workqueue_attrs *attrs,
			 const struct cpumask *unbound)
{
	const struct wq_pod_type *pods = wqattrs_pod_type(attrs);
	int pod;

	wqattrs_actualize_cpumask(attrs, unbound);
	cpumask_copy(attrs->__pod_cpumask, attrs->cpumask);
	plan->dfl_pwq = alloc_pwq(plan->wq, attrs);
	if (!plan->dfl_pwq)
		return false;

	/*
	 * Items of an ordered workqueue must not overtake older ones, which may
	 * still be on another pwq: see unplug_oldest_pwq().
	 */
	plan->dfl_pwq->plugged = attrs->ordered && !list_empty(&plan->wq->pwqs);

	for (pod = 0; pod < pods->nr_pods; pod++)
		if (!plan_pod(plan, attrs, pods->pod_cpus[pod]))
			return false;
	return true;
}

/* plan a change; return NULL if memory runs out */
static struct apply_wqattrs_ctx *apply_wqattrs_prepare(struct workqueue_struct *wq,
						       const struct workqueue_attrs *attrs,
						       const struct cpumask *unbound)
{
	struct workqueue_attrs *scratch = unbound_wq_update_pwq_attrs_buf;
	struct apply_wqattrs_ctx *plan;

	lockdep_assert_held(&wq_pool_mutex);

	plan = kzalloc(struct_size(plan, cpu_pwq, nr_cpu_ids), GFP_KERNEL);
	if (!plan)
		return NULL;
	plan->wq = wq;
	plan->attrs = alloc_workqueue_attrs();
	if (!plan->attrs)
		goto fail;

	/* the caller's attributes cannot change whether a workqueue is ordered */
	copy_workqueue_attrs(plan->attrs, attrs);
	plan->attrs->ordered = READ_ONCE(wq->flags) & __WQ_ORDERED;
	cpumask_and(plan->attrs->cpumask, plan->attrs->cpumask, cpu_possible_mask);
	cpumask_copy(plan->attrs->__pod_cpumask, plan->attrs->cpumask);

	copy_workqueue_attrs(scratch, plan->attrs);
	if (plan_entries(plan, scratch, unbound))
		return plan;
fail:
	apply_wqattrs_cleanup(plan);
	return NULL;
}

/* make @pwq the pwq of @cpu and return the previous one; inline for a loop over all CPUs */
static __always_inline struct pool_workqueue *
install_unbound_pwq(struct workqueue_struct *wq, int cpu, struct pool_workqueue *pwq)
{
	struct pool_workqueue *old = wq_pwq(wq, cpu);

	lockdep_assert_held(&wq_pool_mutex);
	lockdep_assert_held(&wq->mutex);

	if (list_empty(&pwq->pwqs_node))
		link_pwq(pwq);
	rcu_assign_pointer(*wq_pwq_ptr(wq, cpu), pwq);
	pwq_add_entries(pwq, 1);
	if (old) {
		pwq_add_entries(old, -1);
		/* if it was one CPU's own, no other entry names it */
		list_del_init(&old->own_node);
	}
	return old;
}

static void apply_wqattrs_commit(struct apply_wqattrs_ctx *plan)
{
	struct workqueue_struct *wq = plan->wq;
	int cpu;

	scoped_guard(mutex, &wq->mutex) {
		copy_workqueue_attrs(wq->unbound_attrs, plan->attrs);
		plan->dfl_pwq = install_unbound_pwq(wq, -1, plan->dfl_pwq);
		for_each_possible_cpu(cpu)
			plan->cpu_pwq[cpu] = install_unbound_pwq(wq, cpu, plan->cpu_pwq[cpu]);
		wq_update_node_max_active(wq);
	}
	apply_wqattrs_cleanup(plan);
}

/* apply_workqueue_attrs() with P held */
int apply_workqueue_attrs_locked(struct workqueue_struct *wq, const struct workqueue_attrs *attrs)
{
	struct apply_wqattrs_ctx *plan;

	if (WARN_ON(!(READ_ONCE(wq->flags) & WQ_UNBOUND)) ||
	    WARN_ON((unsigned int)attrs->affn_scope >= WQ_AFFN_NR_TYPES))
		return -EINVAL;

	plan = apply_wqattrs_prepare(wq, attrs, wq_unbound_cpumask);
	if (!plan)
		return -ENOMEM;
	apply_wqattrs_commit(plan);
	return 0;
}

/**
 * apply_workqueue_attrs - change the attributes of a workqueue while it is in use
 * @wq: unbound workqueue
 * @attrs: from alloc_workqueue_attrs(); copied, so the caller may free them afterwards
 *
 * Items queued from now on go to pools that match @attrs.  Items queued earlier finish
 * where they are.  So old and new items may run at the same time, except on an ordered
 * workqueue, which finishes the old ones first.
 *
 * Context: may sleep.
 * Return: 0, or -EINVAL or -ENOMEM with nothing changed.
 */
int apply_workqueue_attrs(struct workqueue_struct *wq, const struct workqueue_attrs *attrs)
{
	guard(mutex)(&wq_pool_mutex);
	return apply_workqueue_attrs_locked(wq, attrs);
}

static int plans_make(struct list_head *plans, unsigned long scopes, const struct cpumask *unbound)
{
	struct workqueue_struct *wq;

	list_for_each_entry(wq, &workqueues, list) {
		unsigned int flags = READ_ONCE(wq->flags);
		enum wq_affn_scope scope = wq->unbound_attrs->affn_scope;
		struct apply_wqattrs_ctx *plan;

		if (!(flags & WQ_UNBOUND) || (flags & __WQ_DESTROYING) ||
		    !(scopes & BIT(wq_is_ordered(flags) ? WQ_AFFN_NR_TYPES : scope)))
			continue;
		plan = apply_wqattrs_prepare(wq, wq->unbound_attrs, unbound);
		if (!plan)
			return -ENOMEM;
		list_add_tail(&plan->node, plans);
	}
	return 0;
}

/*
 * Adapt the unbound workqueues whose scope is in the mask @scopes to new pods or a new global mask.
 * BIT(WQ_AFFN_NR_TYPES) stands for ordered ones: their only pwq depends on no pods.  Return 0, or
 * -ENOMEM with none changed.  P.
 */
int wqs_reapply_attrs(unsigned long scopes, const struct cpumask *unbound)
{
	struct apply_wqattrs_ctx *plan, *next;
	LIST_HEAD(plans);
	int ret;

	lockdep_assert_held(&wq_pool_mutex);

	ret = plans_make(&plans, scopes, unbound);
	list_for_each_entry_safe(plan, next, &plans, node) {
		if (ret)
			apply_wqattrs_cleanup(plan);
		else
			apply_wqattrs_commit(plan);
	}
	return ret;
}

/* let @cpus queue on @pwq */
static void wq_set_pwqs(struct workqueue_struct *wq, const struct cpumask *cpus,
			struct pool_workqueue *pwq)
{
	int cpu;

	for_each_cpu(cpu, cpus) {
		struct pool_workqueue *old = wq_pwq(wq, cpu);

		/* as before: then what an own pwq has must keep its order */
		if ((old->pod ?: old) == pwq)
			continue;
		scoped_guard(raw_spinlock_irq, &pwq->pool->lock)
			get_pwq(pwq);
		put_pwq_unlocked(install_unbound_pwq(wq, cpu, pwq));
	}
}

/*
 * Let @wq follow @cpu, which has gone up or down, as wq_online_cpumask says.  All CPUs of the pod
 * change, or none.  If memory runs out, the default pwq serves the pod.  P.
 */
void unbound_wq_update_pwq(struct workqueue_struct *wq, int cpu)
{
	struct workqueue_attrs *attrs = unbound_wq_update_pwq_attrs_buf;
	struct pool_workqueue *pwq = NULL;
	const struct wq_pod_type *pods;
	const struct cpumask *pod;

	lockdep_assert_held(&wq_pool_mutex);

	if (!(READ_ONCE(wq->flags) & WQ_UNBOUND) || wq->unbound_attrs->ordered)
		return;

	copy_workqueue_attrs(attrs, wq->unbound_attrs);
	wqattrs_actualize_cpumask(attrs, wq_unbound_cpumask);
	pods = wqattrs_pod_type(attrs);
	pod = pods->pod_cpus[pods->cpu_pod[cpu]];
	if (attrs_set_pod(attrs, pod)) {
		/* if the default pool served the pod, its attributes may be the same */
		if (wqattrs_equal(attrs, wq_pwq(wq, cpu)->pool->attrs))
			return;
		pwq = alloc_pwq(wq, attrs);
		if (!pwq)
			pr_warn("workqueue: no memory for a pod of %s, using its default pool\n",
				wq->name);
	}

	scoped_guard(mutex, &wq->mutex) {
		wq_set_pwqs(wq, pod, pwq ?: wq_pwq(wq, -1));
		/* the entries have references of their own */
		put_pwq_unlocked(pwq);
	}
}

/* move the workers that are not bound to the CPUs of a pool: they follow the global mask */
static void unbound_cpumask_changed(const struct cpumask *cpumask)
{
	struct workqueue_struct *wq;
	struct worker_pool *pool;
	struct worker *worker;
	int id;

	/* workers may run meanwhile, so no CPU may go down: see worker_set_cpus() */
	lockdep_assert_cpus_held();
	guard(mutex)(&wq_pool_attach_mutex);

	cpumask_copy(wq_unbound_cpumask, cpumask);

	list_for_each_entry(wq, &workqueues, list)
		if (wq->rescuer && !wq->rescuer->pool)
			unbind_worker(wq->rescuer);

	for_each_pool(pool, id) {
		/* per-CPU pools whose CPU is down */
		if (!is_percpu_pool(pool) ||
		    (pool->flags & (POOL_BH | POOL_DISASSOCIATED)) != POOL_DISASSOCIATED)
			continue;
		for_each_pool_worker(worker, pool)
			unbind_worker(worker);
	}
}

static int workqueue_apply_unbound_cpumask(const struct cpumask *cpumask)
{
	int ret;

	lockdep_assert_held(&wq_pool_mutex);

	if (cpumask_equal(cpumask, wq_unbound_cpumask))
		return 0;
	ret = wqs_reapply_attrs(ULONG_MAX, cpumask);
	if (!ret)
		unbound_cpumask_changed(cpumask);
	return ret;
}

/*
 * Set the CPUs for unbound work, as the user asks; they may include isolated ones.  Return 0, or
 * -EINVAL if none is possible, or -ENOMEM, with nothing changed.
 */
int workqueue_set_unbound_cpumask(const struct cpumask *cpumask)
{
	static struct cpumask possible;		/* P */
	int ret;

	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);

	if (!cpumask_and(&possible, cpumask, cpu_possible_mask))
		return -EINVAL;
	ret = workqueue_apply_unbound_cpumask(&possible);
	if (!ret)
		cpumask_copy(wq_requested_unbound_cpumask, &possible);
	return ret;
}

/* workqueue_unbound_housekeeping_update() with CPUs held online: a caller in 6.12 holds them */
int wq_follow_housekeeping(const struct cpumask *hk)
{
	static struct cpumask cpumask;		/* P */
	int ret;

	guard(mutex)(&wq_pool_mutex);

	if (!cpumask_and(&cpumask, hk, wq_requested_unbound_cpumask))
		cpumask_copy(&cpumask, wq_requested_unbound_cpumask);
	ret = workqueue_apply_unbound_cpumask(&cpumask);
	if (!ret) {
		cpumask_andnot(wq_isolated_cpumask, cpu_possible_mask, hk);
		deputies_update();
	}
	return ret;
}

/**
 * workqueue_unbound_housekeeping_update - keep unbound work off isolated CPUs
 * @hk: the CPUs that are not isolated
 *
 * Unbound work runs on the CPUs that the user asked for, minus the isolated ones.  If
 * no CPU is left, it runs on all CPUs that the user asked for.
 *
 * Context: may sleep; takes cpus_read_lock().
 * Return: 0, or -ENOMEM with nothing changed.
 */
int workqueue_unbound_housekeeping_update(const struct cpumask *hk)
{
	guard(cpus_read_lock)();
	return wq_follow_housekeeping(hk);
}

/* early boot: allocate the scratch attributes */
void __init apply_init_early(void)
{
	unbound_wq_update_pwq_attrs_buf = alloc_workqueue_attrs();
	wq_boot_needs(unbound_wq_update_pwq_attrs_buf);
}
