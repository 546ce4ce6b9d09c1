/* SPDX-License-Identifier: GPL-2.0 */
/* References to a pwq.  See pwq.c. */
#ifndef _KERNEL_WORKQUEUE_PWQ_H
#define _KERNEL_WORKQUEUE_PWQ_H

#include "workqueue_struct.h"

struct pool_workqueue *pwq_make(struct workqueue_struct *wq,
				struct worker_pool *pool);
void pwq_free_unused(struct pool_workqueue *pwq);
void link_pwq(struct pool_workqueue *pwq);
void put_pwq_unlocked(struct pool_workqueue *pwq);
void pwq_cache_init(void);
extern struct llist_head dead_pwqs;
void pwq_set_unlinker(struct kthread_worker *unlinker, struct kthread_work *work);
void pwq_die(struct pool_workqueue *pwq);
void pwq_flushed(struct pool_workqueue *pwq);

/* drop a reference; L */
static inline void put_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (!--pwq->refcnt)
		pwq_die(pwq);
}

#endif /* _KERNEL_WORKQUEUE_PWQ_H */
