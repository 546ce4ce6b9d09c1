/* SPDX-License-Identifier: GPL-2.0 */
/* Workqueues, and the system around them. */
#ifndef _KERNEL_WORKQUEUE_WORKQUEUES_H
#define _KERNEL_WORKQUEUE_WORKQUEUES_H

#include <linux/workqueue.h>

struct pool_workqueue;
struct worker_pool;
struct wq_counts;

/* report.c: the parts of the dumps that others use, too */
#define POOL_DESC_LEN	64
const char *pool_desc(char buf[POOL_DESC_LEN], const struct worker_pool *pool);
void show_pwq(struct pool_workqueue *pwq);		/* L */

/* sysfs.c */
#ifdef CONFIG_SYSFS
void workqueue_sysfs_unregister(struct workqueue_struct *wq);
#else
static inline void workqueue_sysfs_unregister(struct workqueue_struct *wq) { }
#endif

/* held.c: one look of the watchdog, in jiffies of its clock */
struct wq_look {
	unsigned long now;
	unsigned long period;		/* since the look before */
	unsigned long thresh;		/* report what stands still for longer */
};

bool wq_look_for_held(const struct wq_look *look);

/* watchdog.c */
#ifdef CONFIG_WQ_WATCHDOG
void wq_watchdog_init(void);
#else
static inline void wq_watchdog_init(void) { }
#endif

/* create.c */
void wq_release(struct workqueue_struct *wq);
extern bool wq_power_efficient;			/* I after boot */

/* reaper.c */
void wq_counts_add(struct wq_counts *sum, struct pool_workqueue *pwq);
void pwq_reaper_start(void);

#endif /* _KERNEL_WORKQUEUE_WORKQUEUES_H */
