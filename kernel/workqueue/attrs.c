// SPDX-License-Identifier: GPL-2.0
/*
 * Attributes: those of workqueues, which users set, and those of pools.  The scopes that they
 * name, and the pods of each, which affinity.c builds.
 */
#include <linux/jhash.h>
#include <linux/slab.h>

#include "attrs.h"

const char * const wq_affn_names[WQ_AFFN_NR_TYPES] = {
	[WQ_AFFN_SYSTEM]	= "system",
	[WQ_AFFN_NUMA]		= "numa",
	[WQ_AFFN_CACHE_SHARD]	= "cache_shard",
	[WQ_AFFN_CACHE]		= "cache",
	[WQ_AFFN_SMT]		= "smt",
	[WQ_AFFN_CPU]		= "cpu",
	[WQ_AFFN_DFL]		= "default",
};

/* P: only WQ_AFFN_SYSTEM has pods before workqueue_init_topology() */
struct wq_pod_type wq_pod_types[WQ_AFFN_NR_TYPES];
unsigned int wq_pods_gen;

enum wq_affn_scope wq_affn_dfl = WQ_AFFN_CACHE_SHARD;	/* PO */

bool wq_topo_initialized __read_mostly;

/**
 * free_workqueue_attrs - free attributes
 * @attrs: from alloc_workqueue_attrs(), or %NULL
 */
void free_workqueue_attrs(struct workqueue_attrs *attrs)
{
	if (!attrs)
		return;
	free_cpumask_var(attrs->__pod_cpumask);
	free_cpumask_var(attrs->cpumask);
	kfree(attrs);
}

/**
 * alloc_workqueue_attrs - allocate attributes with default values
 *
 * They are nice 0, every possible CPU, the default scope, not strict.
 *
 * Context: may sleep.
 * Return: the attributes, to be freed by free_workqueue_attrs(), or %NULL.
 */
struct workqueue_attrs *alloc_workqueue_attrs_noprof(void)
{
	struct workqueue_attrs *attrs = kzalloc_noprof(sizeof(*attrs), GFP_KERNEL);

	if (!attrs)
		return NULL;
	if (!zalloc_cpumask_var(&attrs->cpumask, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&attrs->__pod_cpumask, GFP_KERNEL)) {
		free_workqueue_attrs(attrs);
		return NULL;
	}
	cpumask_copy(attrs->cpumask, cpu_possible_mask);
	attrs->affn_scope = WQ_AFFN_DFL;
	return attrs;
}

void copy_workqueue_attrs(struct workqueue_attrs *to, const struct workqueue_attrs *from)
{
	cpumask_copy(to->__pod_cpumask, from->__pod_cpumask);
	cpumask_copy(to->cpumask, from->cpumask);
	to->affn_scope = from->affn_scope;
	to->affn_strict = from->affn_strict;
	to->ordered = from->ordered;
	to->nice = from->nice;
}

/*
 * Drop what does not matter to a pool: workers of a strict one never leave the pod, whatever else
 * @cpumask allows.
 */
void wqattrs_clear_for_pool(struct workqueue_attrs *attrs)
{
	attrs->ordered = false;
	attrs->affn_scope = WQ_AFFN_NR_TYPES;
	if (attrs->affn_strict)
		cpumask_copy(attrs->cpumask, cpu_possible_mask);
}

/* equal for attributes that wqattrs_equal() calls equal */
u32 wqattrs_hash(const struct workqueue_attrs *attrs)
{
	u32 hash = jhash_2words(attrs->affn_strict, attrs->nice, 0);

	/* not of cpumask: few pools share a pod, and wqattrs_equal() compares it anyway */
	return jhash(cpumask_bits(attrs->__pod_cpumask),
		     BITS_TO_LONGS(nr_cpumask_bits) * sizeof(long), hash);
}

/* can one pool serve both: may workers run in the same places, with the same nice level? */
bool wqattrs_equal(const struct workqueue_attrs *a, const struct workqueue_attrs *b)
{
	/* most pools differ in their pod */
	return a->affn_strict == b->affn_strict && a->nice == b->nice &&
	       cpumask_equal(a->__pod_cpumask, b->__pod_cpumask) &&
	       (a->affn_strict || cpumask_equal(a->cpumask, b->cpumask));
}

/*
 * Reduce attributes to the CPUs that unbound work may use; they get all of these if no CPU is
 * left.
 */
void wqattrs_actualize_cpumask(struct workqueue_attrs *attrs, const struct cpumask *unbound)
{
	if (!cpumask_and(attrs->cpumask, attrs->cpumask, unbound))
		cpumask_copy(attrs->cpumask, unbound);
}

/*
 * Set __pod_cpumask for one pod.  If no CPU of it is both wanted and online, this becomes the
 * whole mask, and the default pwq serves the pod: return false.  P.
 */
bool attrs_set_pod(struct workqueue_attrs *attrs, const struct cpumask *pod)
{
	cpumask_and(attrs->__pod_cpumask, pod, attrs->cpumask);
	if (cpumask_intersects(attrs->__pod_cpumask, wq_online_cpumask))
		return true;
	cpumask_copy(attrs->__pod_cpumask, attrs->cpumask);
	return false;
}

/* the pods of the scope of attributes; one of all CPUs until the topology is known.  P */
const struct wq_pod_type *wqattrs_pod_type(const struct workqueue_attrs *attrs)
{
	enum wq_affn_scope scope = attrs->affn_scope;

	lockdep_assert_held(&wq_pool_mutex);

	if (scope == WQ_AFFN_DFL)
		scope = wq_affn_dfl;
	if (WARN_ON_ONCE(scope >= WQ_AFFN_NR_TYPES) || !wq_pod_types[scope].nr_pods)
		scope = WQ_AFFN_SYSTEM;
	return &wq_pod_types[scope];
}
