/* SPDX-License-Identifier: GPL-2.0 */
/* Work items as debugobjects sees them. */
#ifndef _KERNEL_WORKQUEUE_DEBUGOBJECTS_H
#define _KERNEL_WORKQUEUE_DEBUGOBJECTS_H

#include <linux/workqueue.h>

#ifdef CONFIG_DEBUG_OBJECTS_WORK
void debug_work_init(bool (*cancel)(struct work_struct *work));
void debug_work_activate(struct work_struct *work);
void debug_work_deactivate(struct work_struct *work);
#else
static inline void debug_work_init(bool (*cancel)(struct work_struct *work)) { }
static inline void debug_work_activate(struct work_struct *work) { }
static inline void debug_work_deactivate(struct work_struct *work) { }
#endif

#endif /* _KERNEL_WORKQUEUE_DEBUGOBJECTS_H */
