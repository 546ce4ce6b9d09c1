/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Warnings where a lock is held that printing may need: the text goes to the log at once, and to
 * the consoles when interrupts are on again.  See "Printing" in state.h.
 */
#ifndef _KERNEL_WORKQUEUE_WARN_H
#define _KERNEL_WORKQUEUE_WARN_H

#include <linux/bug.h>
#include <linux/cleanup.h>
#include <linux/printk.h>

DEFINE_LOCK_GUARD_0(printk_deferred, printk_deferred_enter(), printk_deferred_exit())

/* If @condition, do @warn and defer what it prints. */
#define WQ_WARN(condition, warn)		\
({						\
	bool __bad = !!(condition);		\
						\
	if (unlikely(__bad)) {			\
		guard(printk_deferred)();	\
		warn;				\
	}					\
	unlikely(__bad);			\
})
#define WQ_WARN_ON(condition)		WQ_WARN(condition, WARN_ON(true))
#define WQ_WARN_ON_ONCE(condition)	WQ_WARN(condition, WARN_ON_ONCE(true))
#define WQ_WARN_ONCE(condition, fmt...)	WQ_WARN(condition, WARN_ONCE(true, fmt))

#endif /* _KERNEL_WORKQUEUE_WARN_H */
