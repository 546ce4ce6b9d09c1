/* SPDX-License-Identifier: GPL-2.0 */
/* Who runs the per-CPU work of an isolated CPU. */
#ifndef _KERNEL_WORKQUEUE_DEPUTY_H
#define _KERNEL_WORKQUEUE_DEPUTY_H

#include <linux/jump_label.h>
#include <linux/percpu.h>

/*
 * wq_deputy: the CPU that runs per-CPU work of this CPU, while workqueue.offload_isolated is set;
 * this CPU itself unless it is isolated.  Written under P, read elsewhere with READ_ONCE().
 */
DECLARE_PER_CPU_READ_MOSTLY(int, wq_deputy);
DECLARE_STATIC_KEY_FALSE(wq_offload_isolated);
void deputies_update(void);

#endif /* _KERNEL_WORKQUEUE_DEPUTY_H */
