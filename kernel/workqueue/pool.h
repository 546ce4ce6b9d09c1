/* SPDX-License-Identifier: GPL-2.0 */
/* Making, finding and releasing pools. */
#ifndef _KERNEL_WORKQUEUE_POOL_H
#define _KERNEL_WORKQUEUE_POOL_H

#include <linux/workqueue.h>

struct worker_pool;

int init_worker_pool(struct worker_pool *pool);
int worker_pool_assign_id(struct worker_pool *pool);
struct worker_pool *get_unbound_pool(const struct workqueue_attrs *attrs);
struct worker_pool *get_own_pool(struct worker_pool *shared, int cpu);
void put_unbound_pool(struct worker_pool *pool);
int unbound_pools_start(void);

#endif /* _KERNEL_WORKQUEUE_POOL_H */
