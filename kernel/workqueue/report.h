/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of the dumps that the watchdog uses, too. */
#ifndef _KERNEL_WORKQUEUE_REPORT_H
#define _KERNEL_WORKQUEUE_REPORT_H

struct pool_workqueue;
struct worker_pool;

#define POOL_DESC_LEN	64

const char *pool_desc(char buf[POOL_DESC_LEN], const struct worker_pool *pool);
void show_pwq(struct pool_workqueue *pwq);		/* L */

#endif /* _KERNEL_WORKQUEUE_REPORT_H */
