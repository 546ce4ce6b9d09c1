/* SPDX-License-Identifier: GPL-2.0 */
/* The watchdog. */
#ifndef _KERNEL_WORKQUEUE_WATCHDOG_H
#define _KERNEL_WORKQUEUE_WATCHDOG_H

#ifdef CONFIG_WQ_WATCHDOG
void wq_watchdog_init(void);
#else
static inline void wq_watchdog_init(void) { }
#endif

#endif /* _KERNEL_WORKQUEUE_WATCHDOG_H */
