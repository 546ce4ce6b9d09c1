/* SPDX-License-Identifier: GPL-2.0 */
/* The pods of each scope. */
#ifndef _KERNEL_WORKQUEUE_AFFINITY_H
#define _KERNEL_WORKQUEUE_AFFINITY_H

extern unsigned int wq_cache_shard_size;	/* P: cores */
void affinity_init_early(void);
void affinity_cpu_online(void);
int affinity_reshard(unsigned int size);
void affinity_cpu_offline(int cpu);

#endif /* _KERNEL_WORKQUEUE_AFFINITY_H */
