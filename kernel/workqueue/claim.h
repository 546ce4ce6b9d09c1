/* SPDX-License-Identifier: GPL-2.0 */
/* Becoming the owner of an item. */
#ifndef _KERNEL_WORKQUEUE_CLAIM_H
#define _KERNEL_WORKQUEUE_CLAIM_H

#include <linux/workqueue.h>

#define WORK_CANCEL_DELAYED	1		/* may sit on a delayed_work's timer */
bool work_grab_pending(struct work_struct *work, u32 cflags, unsigned long *irq_flags);

#endif /* _KERNEL_WORKQUEUE_CLAIM_H */
