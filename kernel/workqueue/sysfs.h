/* SPDX-License-Identifier: GPL-2.0 */
/* Files in sysfs. */
#ifndef _KERNEL_WORKQUEUE_SYSFS_H
#define _KERNEL_WORKQUEUE_SYSFS_H

struct workqueue_struct;

#ifdef CONFIG_SYSFS
void workqueue_sysfs_unregister(struct workqueue_struct *wq);
#else
static inline void workqueue_sysfs_unregister(struct workqueue_struct *wq) { }
#endif

#endif /* _KERNEL_WORKQUEUE_SYSFS_H */
