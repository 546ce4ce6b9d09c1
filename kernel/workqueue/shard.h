/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which CPUs belong together: arithmetic only, no kernel state, no locks and no
 * memory of its own. See shard.c.
 */
#ifndef _KERNEL_WORKQUEUE_SHARD_H
#define _KERNEL_WORKQUEUE_SHARD_H

#include <linux/types.h>

/* do @cpu0 and @cpu1, which is higher, belong to one pod?  The answer must not change. */
typedef bool (*wq_share_fn)(int cpu0, int cpu1, void *arg);

unsigned int wq_nr_shards(unsigned int nr_cores, unsigned int size);
unsigned int wq_core_shard(unsigned int core, unsigned int nr_cores, unsigned int size);
int wq_group_cpus(const unsigned long *possible, int nr_cpus, wq_share_fn share, void *arg,
		  int *cpu_pod);
int wq_shard_cpus(const unsigned long *possible, int nr_cpus, const int *llc_pod,
		  const int *core_pod, unsigned int size, int *cpu_pod);

#endif /* _KERNEL_WORKQUEUE_SHARD_H */
