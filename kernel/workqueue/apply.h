/* SPDX-License-Identifier: GPL-2.0 */
/* Changing attributes. */
#ifndef _KERNEL_WORKQUEUE_APPLY_H
#define _KERNEL_WORKQUEUE_APPLY_H

#include <linux/workqueue.h>

int apply_workqueue_attrs_locked(struct workqueue_struct *wq,
				 const struct workqueue_attrs *attrs);
int wqs_reapply_attrs(bool (*match)(struct workqueue_struct *wq),
		      const struct cpumask *unbound_cpumask);
void unbound_wq_update_pwq(struct workqueue_struct *wq, int cpu);
int workqueue_set_unbound_cpumask(const struct cpumask *cpumask);
int wq_follow_housekeeping(const struct cpumask *hk);
void apply_init_early(void);

#endif /* _KERNEL_WORKQUEUE_APPLY_H */
