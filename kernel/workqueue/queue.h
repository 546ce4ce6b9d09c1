/* SPDX-License-Identifier: GPL-2.0 */
/* What queueing notices for own pools. */
#ifndef _KERNEL_WORKQUEUE_QUEUE_H
#define _KERNEL_WORKQUEUE_QUEUE_H

#include <linux/percpu.h>
#include <linux/workqueue.h>

enum { OWN_PWQ, OWN_POOL, OWN_NR_KINDS };

extern unsigned int wq_own_pools;
DECLARE_PER_CPU(struct workqueue_struct * [OWN_NR_KINDS], wq_wants_own);
DECLARE_PER_CPU(struct workqueue_struct *, wq_sharing_timed);	/* for KUnit */

void wq_set_own_work(struct work_struct *work);

#endif /* _KERNEL_WORKQUEUE_QUEUE_H */
