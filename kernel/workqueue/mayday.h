/* SPDX-License-Identifier: GPL-2.0 */
/* Calling a rescuer. */
#ifndef _KERNEL_WORKQUEUE_MAYDAY_H
#define _KERNEL_WORKQUEUE_MAYDAY_H

struct pool_workqueue;
struct timer_list;
struct worker_pool;

void send_mayday(struct pool_workqueue *pwq);
void rescuer_follows_slot(struct pool_workqueue *pwq);
void pool_mayday_timeout(struct timer_list *timer);
void pool_mayday_arm(struct worker_pool *pool);

#endif /* _KERNEL_WORKQUEUE_MAYDAY_H */
