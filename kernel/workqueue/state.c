// SPDX-License-Identifier: GPL-2.0
/* What all share: the locks, the lists and tables, and the masks.  Files above fill them. */
#include <linux/export.h>

#include "state.h"
#include "workqueue_struct.h"

DEFINE_MUTEX(wq_pool_mutex);		/* P in state.h */
DEFINE_MUTEX(wq_pool_attach_mutex);	/* A */
DEFINE_RAW_SPINLOCK(wq_mayday_lock);	/* M */

LIST_HEAD(workqueues);
bool wq_online;
bool workqueue_freezing;

struct idr worker_pool_idr = IDR_INIT(worker_pool_idr);
DEFINE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], cpu_worker_pools);
DEFINE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], bh_worker_pools);

cpumask_var_t wq_online_cpumask;
cpumask_var_t wq_unbound_cpumask;
cpumask_var_t wq_requested_unbound_cpumask;
cpumask_var_t wq_isolated_cpumask;

/* made at boot by system.c */
struct workqueue_struct *system_percpu_wq __ro_after_init;
EXPORT_SYMBOL(system_percpu_wq);
struct workqueue_struct *system_highpri_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_highpri_wq);
struct workqueue_struct *system_long_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_long_wq);
struct workqueue_struct *system_dfl_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_dfl_wq);
struct workqueue_struct *system_dfl_long_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_dfl_long_wq);
struct workqueue_struct *system_freezable_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_freezable_wq);
struct workqueue_struct *system_power_efficient_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_power_efficient_wq);
struct workqueue_struct *system_freezable_power_efficient_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_freezable_power_efficient_wq);
struct workqueue_struct *system_bh_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_bh_wq);
struct workqueue_struct *system_bh_highpri_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_bh_highpri_wq);
/* deprecated names of the percpu and dfl ones */
struct workqueue_struct *system_wq __ro_after_init;
EXPORT_SYMBOL(system_wq);
struct workqueue_struct *system_unbound_wq __ro_after_init;
EXPORT_SYMBOL_GPL(system_unbound_wq);
struct workqueue_struct *own_pools_wq __ro_after_init;
