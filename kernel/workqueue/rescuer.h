/* SPDX-License-Identifier: GPL-2.0 */
/* The rescuer of a workqueue. */
#ifndef _KERNEL_WORKQUEUE_RESCUER_H
#define _KERNEL_WORKQUEUE_RESCUER_H

struct workqueue_struct;

int init_rescuer(struct workqueue_struct *wq);
void rescuer_destroy(struct workqueue_struct *wq);

#endif /* _KERNEL_WORKQUEUE_RESCUER_H */
