/* SPDX-License-Identifier: GPL-2.0 */
/*
 * References to a pwq.  See pwq.c.
 */
#ifndef _KERNEL_WORKQUEUE_PWQ_H
#define _KERNEL_WORKQUEUE_PWQ_H

#include "internal.h"

void pwq_die(struct pool_workqueue *pwq);
void pwq_flushed(struct pool_workqueue *pwq);

/**
 * put_pwq - drop a reference
 * @pwq: the pwq, its pool locked
 */
static inline void put_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (!--pwq->refcnt)
		pwq_die(pwq);
}

#endif /* _KERNEL_WORKQUEUE_PWQ_H */
