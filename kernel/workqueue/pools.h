/* SPDX-License-Identifier: GPL-2.0 */
/* Pools, and who uses which. */
#ifndef _KERNEL_WORKQUEUE_POOLS_H
#define _KERNEL_WORKQUEUE_POOLS_H

#include <linux/workqueue.h>

struct worker_pool;

/* pool.c */
int init_worker_pool(struct worker_pool *pool);
int worker_pool_assign_id(struct worker_pool *pool);
struct worker_pool *get_unbound_pool(const struct workqueue_attrs *attrs);
struct worker_pool *get_own_pool(struct worker_pool *shared, int cpu);
void put_unbound_pool(struct worker_pool *pool);
int unbound_pools_start(void);

/* apply.c */
int apply_workqueue_attrs_locked(struct workqueue_struct *wq, const struct workqueue_attrs *attrs);
int wqs_reapply_attrs(unsigned long scopes, const struct cpumask *unbound_cpumask);
void unbound_wq_update_pwq(struct workqueue_struct *wq, int cpu);
int workqueue_set_unbound_cpumask(const struct cpumask *cpumask);
int wq_follow_housekeeping(const struct cpumask *hk);
void apply_init_early(void);

/* affinity.c */
extern unsigned int wq_cache_shard_size;	/* P: cores */
void affinity_init_early(void);
void affinity_cpu_online(void);
int affinity_reshard(unsigned int size);
void affinity_cpu_offline(int cpu);

/* own.c */
extern struct work_struct own_pools_work;	/* gives the CPUs that ask their own pools */
void own_pwqs_forget(struct workqueue_struct *wq);

#endif /* _KERNEL_WORKQUEUE_POOLS_H */
