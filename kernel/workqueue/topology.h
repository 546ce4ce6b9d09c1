/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which CPUs share a core or a cache: what has been learned so far.  Arithmetic
 * only, without locks.  See topology.c.
 */
#ifndef _KERNEL_WORKQUEUE_TOPOLOGY_H
#define _KERNEL_WORKQUEUE_TOPOLOGY_H

#include <linux/types.h>

/*
 * struct wq_topology - what is known about the places of CPUs
 *
 * The caller provides the memory and serialises all access.
 */
struct wq_topology {
	int nr_cpus;			/* CPU numbers: entries of each array */
	/*
	 * By CPU: the lowest CPU known to share its core or cache; -1 if it was
	 * never online.  CPUs with equal numbers are in one core or cache.
	 */
	int *core_of;
	int *llc_of;
	/* the online CPUs whose places are known: clear the bit when a CPU goes offline */
	unsigned long *learned;

	/* what the architecture says of two online CPUs */
	bool (*same_core)(int cpu0, int cpu1);
	bool (*same_cache)(int cpu0, int cpu1);
};

void wq_topology_init(struct wq_topology *topo);
bool wq_topology_learn(struct wq_topology *topo, int cpu);

#endif /* _KERNEL_WORKQUEUE_TOPOLOGY_H */
