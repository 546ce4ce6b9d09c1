/* SPDX-License-Identifier: GPL-2.0 */
/* Own pools and pwqs of a CPU. */
#ifndef _KERNEL_WORKQUEUE_OWN_H
#define _KERNEL_WORKQUEUE_OWN_H

#include <linux/workqueue.h>

extern struct work_struct own_pools_work;	/* gives the CPUs that ask their own pools */
void own_pwqs_forget(struct workqueue_struct *wq);

#endif /* _KERNEL_WORKQUEUE_OWN_H */
