/* SPDX-License-Identifier: GPL-2.0 */
/* Attributes, and the pods of the scopes that they name. */
#ifndef _KERNEL_WORKQUEUE_ATTRS_H
#define _KERNEL_WORKQUEUE_ATTRS_H

#include "state.h"

/*
 * struct wq_pod_type - how one affinity scope divides the possible CPUs
 *
 * All guarded by P.
 */
struct wq_pod_type {
	int nr_pods;
	int *cpu_pod;				/* CPU to pod; -1: not possible */
	int *pod_node;				/* pod to node, or NUMA_NO_NODE */
	cpumask_var_t *pod_cpus;		/* pod to CPUs */
};

extern struct wq_pod_type wq_pod_types[WQ_AFFN_NR_TYPES];
extern unsigned int wq_pods_gen;		/* P: changes when pods are replaced */
extern enum wq_affn_scope wq_affn_dfl;		/* PO */
extern const char * const wq_affn_names[WQ_AFFN_NR_TYPES];
extern bool wq_topo_initialized;			/* I after boot */
void copy_workqueue_attrs(struct workqueue_attrs *to, const struct workqueue_attrs *from);
void wqattrs_clear_for_pool(struct workqueue_attrs *attrs);
u32 wqattrs_hash(const struct workqueue_attrs *attrs);
bool wqattrs_equal(const struct workqueue_attrs *a, const struct workqueue_attrs *b);
void wqattrs_actualize_cpumask(struct workqueue_attrs *attrs, const struct cpumask *unbound);
bool attrs_set_pod(struct workqueue_attrs *attrs, const struct cpumask *pod);
const struct wq_pod_type *wqattrs_pod_type(const struct workqueue_attrs *attrs);

#endif /* _KERNEL_WORKQUEUE_ATTRS_H */
