/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all files share: the locks, the list of workqueues, the masks of CPUs.
 *
 * Locks, outermost first:
 *
 *   cpus_read_lock
 *     wq_pool_mutex            lists and hashes of pools and workqueues, pods
 *       wq->mutex              one workqueue's pwqs, flushing, limits
 *       wq_pool_attach_mutex   which worker serves which pool, and where
 *         pool->lock           worklist, workers, pwqs of the pool; IRQ safe
 *           slots->lock        pwqs that wait for an active slot of a node
 *           wq_mayday_lock     pwqs that call for the rescuer
 *           kthread_worker->lock   the lists of those that free pwqs
 *
 * Two pool locks are never held together.  No worker is woken under pool->lock: kick_pool()
 * returns the task, and the caller wakes it after the unlock.  Some tasks are woken under it:
 * rescuers, the unlinker, flushers, and whoever waits for a manager to resign.
 *
 * Guards named beside the fields:
 *   I    constant once the object is visible
 *   L    pool->lock
 *   N    slots->lock, a node's share of max_active
 *   M    wq_mayday_lock
 *   W    wq->mutex
 *   P    wq_pool_mutex
 *   A    wq_pool_attach_mutex
 *   xR   written under x, read under x or RCU; interrupts off are as good as RCU
 *   xO   written under x with WRITE_ONCE(), read anywhere with READ_ONCE()
 * A comment on a function that ends with such a letter says what the caller holds.
 *
 * Printing: a console driver may queue work or modify an item, and spin on what the code that
 * prints holds: pool->lock, slots->lock, wq_mayday_lock, or PENDING.  Such code prints with
 * WQ_WARN*() or between printk_deferred_enter() and printk_deferred_exit().  Tracepoints are not
 * deferred: booted with tp_printk, the kernel prints each enabled event at once.
 */
#ifndef _KERNEL_WORKQUEUE_STATE_H
#define _KERNEL_WORKQUEUE_STATE_H

#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

extern struct mutex wq_pool_mutex;
extern struct mutex wq_pool_attach_mutex;
extern raw_spinlock_t wq_mayday_lock;
extern struct list_head workqueues;		/* PR */
extern bool wq_online;				/* I after boot: kthreads exist */
extern bool workqueue_freezing;			/* PO */
extern struct workqueue_struct *own_pools_wq;	/* I after boot: runs own_pools_work */
/* P; active.c reads it without P, so writers call wq_update_node_max_active() afterwards */
extern cpumask_var_t wq_online_cpumask;
/* P and A for writes, either for reads; queue.c and mayday.c may see a change half done */
extern cpumask_var_t wq_unbound_cpumask;
extern cpumask_var_t wq_requested_unbound_cpumask; /* P: as the user asked */
extern cpumask_var_t wq_isolated_cpumask;	/* P: to be kept free of unbound work */

/*
 * deputy.c: the CPU that runs per-CPU work of this CPU, while workqueue.offload_isolated is set;
 * this CPU itself unless it is isolated.  PO
 */
DECLARE_PER_CPU_READ_MOSTLY(int, wq_deputy);
DECLARE_STATIC_KEY_FALSE(wq_offload_isolated);
void deputies_update(void);

/* boot cannot go on if this fails */
static inline void __init wq_boot_needs(bool ok)
{
	if (!ok)
		panic("workqueue: not enough memory to boot\n");
}

#endif /* _KERNEL_WORKQUEUE_STATE_H */
