// SPDX-License-Identifier: GPL-2.0
/*
 * Deputies: with workqueue.offload_isolated, another CPU runs what an isolated CPU queues on
 * per-CPU workqueues without naming a CPU.
 */
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/moduleparam.h>
#include <linux/sched/isolation.h>

#include "attrs.h"

DEFINE_PER_CPU_READ_MOSTLY(int, wq_deputy);

DEFINE_STATIC_KEY_FALSE(wq_offload_isolated);
static bool wq_offload;			/* what the parameter reads; under the lock of parameters */

static const enum wq_affn_scope near_to_far[] = {
	WQ_AFFN_CACHE, WQ_AFFN_NUMA, WQ_AFFN_SYSTEM
};

/* how many CPUs below @cpu are in both masks */
static unsigned int rank_of(int cpu, const struct cpumask *a, const struct cpumask *b)
{
	return bitmap_weight_and(cpumask_bits(a), cpumask_bits(b), cpu);
}

/*
 * Choose a CPU of @cpus, which are online, that is as near as possible to @cpu, which is not one
 * of them.  Return @cpu if there is none.
 *
 * CPUs that are equally near are divided among the online CPUs that are not in @cpus.  So the
 * choice may change if one of the latter comes or goes, even though the chosen CPU stays.  If
 * all possible CPUs were counted instead, offline SMT siblings could take every second place,
 * and the online CPUs would share half of @cpus.
 */
static int nearest_cpu(int cpu, const struct cpumask *cpus)
{
	static struct cpumask others;		/* P */
	int i;

	cpumask_andnot(&others, wq_online_cpumask, cpus);
	for (i = 0; i < ARRAY_SIZE(near_to_far); i++) {
		const struct wq_pod_type *pods = &wq_pod_types[near_to_far[i]];
		const struct cpumask *pod;
		unsigned int nr;

		if (!pods->nr_pods)
			continue;
		pod = pods->pod_cpus[pods->cpu_pod[cpu]];
		nr = cpumask_weight_and(pod, cpus);
		if (nr)
			return cpumask_nth_and(rank_of(cpu, pod, &others) % nr, pod, cpus);
	}
	return cpu;
}

/*
 * Choose the deputies anew, after a change of wq_isolated_cpumask, of wq_online_cpumask or of the
 * pods.  A CPU is isolated if isolcpus=domain or a cpuset took it out of the scheduler's domains,
 * or if nohz_full= or isolcpus=nohz stops its tick.  If no online CPU is free of both, all are
 * their own deputies.  P, or early boot.
 */
void deputies_update(void)
{
	static struct cpumask others;		/* P: the online CPUs that are not isolated */
	int cpu;

	cpumask_andnot(&others, wq_online_cpumask, wq_isolated_cpumask);
	cpumask_and(&others, &others, housekeeping_cpumask(HK_TYPE_TICK));

	for_each_possible_cpu(cpu) {
		int deputy = cpu;

		if (cpumask_test_cpu(cpu, wq_isolated_cpumask) ||
		    !housekeeping_test_cpu(cpu, HK_TYPE_TICK))
			deputy = nearest_cpu(cpu, &others);
		WRITE_ONCE(per_cpu(wq_deputy, cpu), deputy);
	}
}

static int wq_offload_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_bool(val, kp);

	if (ret)
		return ret;
	if (wq_offload)
		static_branch_enable(&wq_offload_isolated);
	else
		static_branch_disable(&wq_offload_isolated);
	return 0;
}

static const struct kernel_param_ops wq_offload_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.get = param_get_bool,
	.set = wq_offload_set,
};
module_param_cb(offload_isolated, &wq_offload_ops, &wq_offload, 0644);
