/* SPDX-License-Identifier: GPL-2.0 */
/* Pools that a softirq serves. */
#ifndef _KERNEL_WORKQUEUE_BH_H
#define _KERNEL_WORKQUEUE_BH_H

struct worker_pool;

void bh_wait_running(struct worker_pool *pool);

#endif /* _KERNEL_WORKQUEUE_BH_H */
