/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the watchdog that looks at held-back items. */
#ifndef _KERNEL_WORKQUEUE_HELD_H
#define _KERNEL_WORKQUEUE_HELD_H

/* one look of the watchdog, in jiffies of its clock */
struct wq_look {
	unsigned long now;
	unsigned long period;		/* since the look before */
	unsigned long thresh;		/* report what stands still for longer */
};

bool wq_look_for_held(const struct wq_look *look);

#endif /* _KERNEL_WORKQUEUE_HELD_H */
