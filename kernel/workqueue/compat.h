/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Linux 7.3 has and an older base lacks, under the names of 7.3.
 *
 * Version numbers say little, because distributions backport features.  So if a name is a
 * macro in newer kernels, its absence shows that the kernel is older.  The patches for an older
 * base set CONFIG_WORKQUEUE_OLD_CALLERS, which says what no header shows.  With 7.3 nothing
 * here has any effect.  old_callers.c has the functions that only they use.
 */
#ifndef _KERNEL_WORKQUEUE_COMPAT_H
#define _KERNEL_WORKQUEUE_COMPAT_H

#include <linux/cpumask.h>
#include <linux/kasan.h>
#include <linux/kconfig.h>
#include <linux/kthread.h>
#include <linux/sched/isolation.h>
#include <linux/timer.h>
#include <linux/topology.h>

/*
 * Callers that name neither WQ_PERCPU nor WQ_UNBOUND mean WQ_PERCPU, and system_wq and
 * system_unbound_wq are the names that most of them use.
 */
#define WQ_OLD_CALLERS		IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS)

/* before 6.14 */
#ifndef kthread_run_worker
/* the old function also woke the thread */
#define kthread_run_worker	kthread_create_worker
/* the old kasan_record_aux_stack() allocated memory, which a raw lock's holder must not do */
#define kasan_record_aux_stack	kasan_record_aux_stack_noalloc
/* nohz_full= also keeps unbound work off its CPUs */
#define wq_nohz_housekeeping()	housekeeping_cpumask(HK_TYPE_WQ)
#else
#define wq_nohz_housekeeping()	((const struct cpumask *)NULL)
#endif

/* before 6.16; the CPU mask function came one release earlier */
#ifndef timer_container_of
#define timer_container_of	from_timer
#define timer_destroy_on_stack	destroy_timer_on_stack

#define cpumask_next_and_wrap	wq_next_cpu_and_wrap
static inline unsigned int wq_next_cpu_and_wrap(int cpu, const struct cpumask *a,
						const struct cpumask *b)
{
	unsigned int next = cpumask_next_and(cpu, a, b);

	return next < nr_cpu_ids ? next : cpumask_first_and(a, b);
}
#endif

/* older kernels have it only with SMT; without SMT, newer ones define it like this */
#ifndef CONFIG_SCHED_SMT
#define cpu_smt_mask		cpumask_of
#endif

/* before 7.0 */
#ifndef CONFIG_BOOTPARAM_WQ_STALL_PANIC
#define CONFIG_BOOTPARAM_WQ_STALL_PANIC	0
#endif

#endif /* _KERNEL_WORKQUEUE_COMPAT_H */
