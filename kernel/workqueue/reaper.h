/* SPDX-License-Identifier: GPL-2.0 */
/* The end of a pwq. */
#ifndef _KERNEL_WORKQUEUE_REAPER_H
#define _KERNEL_WORKQUEUE_REAPER_H

struct pool_workqueue;
struct wq_counts;

void wq_counts_add(struct wq_counts *sum, struct pool_workqueue *pwq);
void pwq_reaper_start(void);

#endif /* _KERNEL_WORKQUEUE_REAPER_H */
