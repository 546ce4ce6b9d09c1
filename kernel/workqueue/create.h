/* SPDX-License-Identifier: GPL-2.0 */
/* Making a workqueue. */
#ifndef _KERNEL_WORKQUEUE_CREATE_H
#define _KERNEL_WORKQUEUE_CREATE_H

#include <linux/workqueue.h>

__printf(1, 0)
struct workqueue_struct *__alloc_workqueue(const char *fmt, unsigned int flags,
					   int max_active, va_list args,
					   struct lockdep_map *map);
void wq_release(struct workqueue_struct *wq);
extern bool wq_power_efficient;			/* I after boot */

#endif /* _KERNEL_WORKQUEUE_CREATE_H */
