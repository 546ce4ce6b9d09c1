// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that callers in older kernels use and newer kernels have dropped.  The patches
 * for an older kernel declare these functions beside ours in <linux/workqueue.h>.
 */
#include <linux/cpu.h>
#include <linux/export.h>

#include "pools.h"

/**
 * workqueue_unbound_exclude_cpumask - keep unbound work off isolated CPUs
 * @isolated: the isolated CPUs
 *
 * See workqueue_unbound_housekeeping_update().
 *
 * Context: may sleep; cpus_read_lock() held.
 * Return: 0, or -ENOMEM with nothing changed.
 */
int workqueue_unbound_exclude_cpumask(cpumask_var_t isolated)
{
	cpumask_var_t others __free(free_cpumask_var) = CPUMASK_VAR_NULL;

	if (!alloc_cpumask_var(&others, GFP_KERNEL))
		return -ENOMEM;
	cpumask_andnot(others, cpu_possible_mask, isolated);
	return wq_follow_housekeeping(others);
}

#ifdef CONFIG_SMP
/**
 * work_on_cpu_safe_key - work_on_cpu_key() if the CPU is online, and keep it so
 * @cpu: the CPU
 * @fn: the function
 * @arg: its argument
 * @key: lock class of the call
 *
 * Context: may sleep; takes cpus_read_lock().
 * Return: what @fn returns, -ENODEV if the CPU is offline.
 */
long work_on_cpu_safe_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key)
{
	guard(cpus_read_lock)();
	return cpu_online(cpu) ? work_on_cpu_key(cpu, fn, arg, key) : -ENODEV;
}
EXPORT_SYMBOL_GPL(work_on_cpu_safe_key);
#endif
