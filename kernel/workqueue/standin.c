// SPDX-License-Identifier: GPL-2.0
/*
 * Stand-ins: other CPUs take what a CPU without a pool, or an isolated CPU, queues.
 *
 * With workqueue.pool_per_cpu, a CPU without a pool queues on the pool of another CPU nearby.
 * That CPU stays the same while no CPU comes or goes.  If CPUs took turns, the items of one
 * submitter would be spread over pools that know no order between them.
 *
 * If the pod of such a CPU has online CPUs that the workqueue may use, the CPU is a lodger: its
 * entry names the pool of one of these.  See attrs_home_of().  If not, its entry names the
 * default pool, which may span nodes, and all such CPUs would meet there.  So a CPU outside the
 * global mask has a stand-in inside the mask, and queues through the entry of the stand-in.
 *
 * With workqueue.offload_isolated, an isolated CPU has a deputy, which runs what the CPU queues
 * on per-CPU workqueues without naming a CPU.
 */
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>

#include "internal.h"

DEFINE_PER_CPU_READ_MOSTLY(int, wq_stand_in);
DEFINE_PER_CPU_READ_MOSTLY(int, wq_node_rank);
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

/**
 * nearest_cpu - choose a CPU of a set that is as near as possible to another CPU
 * @cpu: possible CPU, not in @cpus
 * @cpus: online CPUs
 *
 * CPUs that are equally near are divided among the online CPUs that are not in @cpus.  So the
 * choice may change if one of the latter comes or goes, even though the chosen CPU stays.  If
 * all possible CPUs were counted instead, offline SMT siblings could take every second place,
 * and the online CPUs would share half of @cpus.
 *
 * Context: wq_pool_mutex held, or early boot.
 * Return: the CPU, or @cpu if @cpus is empty.
 */
int nearest_cpu(int cpu, const struct cpumask *cpus)
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

/* how many online CPUs of its node precede a CPU; 0 until the nodes are known */
static int node_rank(int cpu)
{
	const struct wq_pod_type *nodes = &wq_pod_types[WQ_AFFN_NUMA];

	if (!nodes->nr_pods)
		return 0;
	return rank_of(cpu, nodes->pod_cpus[nodes->cpu_pod[cpu]], wq_online_cpumask);
}

/*
 * Choose the deputies.  A CPU is isolated if isolcpus=domain or a cpuset took it out of the
 * scheduler's domains, or if nohz_full= or isolcpus=nohz stops its tick.  If no online CPU is
 * free of both, all are their own deputies.
 */
static void deputies_update(void)
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

/**
 * stand_ins_update - choose the stand-ins and the deputies anew
 *
 * Call this after a change of wq_unbound_cpumask, of wq_isolated_cpumask, of wq_online_cpumask
 * or of the pods.
 * Until then a CPU keeps its stand-in, even if that is offline or outside the mask by now:
 * each possible CPU has an entry in each workqueue.  No CPU may stand in before it has pools,
 * so call this after the workqueues have got these.  When a CPU goes, the order does not
 * matter: those that are left have their pools.
 *
 * Context: wq_pool_mutex held, or early boot.
 */
void stand_ins_update(void)
{
	static struct cpumask inside;		/* P: the online CPUs of the mask */
	int cpu;

	deputies_update();
	if (!wq_pool_per_cpu)
		return;

	cpumask_and(&inside, wq_online_cpumask, wq_unbound_cpumask);
	for_each_possible_cpu(cpu) {
		int stand_in = cpu;

		if (!cpumask_test_cpu(cpu, wq_unbound_cpumask))
			stand_in = nearest_cpu(cpu, &inside);
		WRITE_ONCE(per_cpu(wq_stand_in, cpu), stand_in);
		WRITE_ONCE(per_cpu(wq_node_rank, cpu), node_rank(cpu));
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
