// SPDX-License-Identifier: GPL-2.0
/*
 * Where may an item run?
 *
 * The answer must not come from the code under test alone. For each submitting
 * CPU, a probe item reads which CPUs its worker is bound to. That mask must
 * contain the submitting CPU and must be part of what the topology gives for the
 * scope: the CPU, its SMT siblings, the CPUs that share its last cache level
 * according to sysfs, or its NUMA node. A shard must also consist of whole cores,
 * and of no more than workqueue.cache_shard_size. The intersection of both masks
 * is the pod. Each item checks that it runs in there.
 *
 * UML and some machines describe no caches: the node bounds the pod there.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "wqbench.h"

static bool bench_llc_mask(unsigned int cpu, struct cpumask *mask)
{
	static const char dir[] = "/sys/devices/system/cpu/cpu%u/cache/index%u/%s";
	unsigned int highest = 0;
	char path[96], *buf;

	/* A list of CPUs can be long: sysfs never shows more than a page. */
	buf = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!buf)
		return false;

	for (unsigned int index = 0; ; index++) {
		unsigned int level;

		snprintf(path, sizeof(path), dir, cpu, index, "level");
		if (bench_read_file(path, buf, PAGE_SIZE) || kstrtouint(buf, 10, &level))
			break;
		if (level < highest)
			continue;
		snprintf(path, sizeof(path), dir, cpu, index, "shared_cpu_list");
		if (!bench_read_file(path, buf, PAGE_SIZE) && !cpulist_parse(buf, mask))
			highest = level;
	}
	kfree(buf);
	return highest > 0;
}

static void bench_scope_bound(enum bench_scope scope, unsigned int cpu,
			      struct cpumask *mask)
{
	int node = cpu_to_node(cpu);

	switch (scope) {
	case BENCH_SCOPE_CPU:
		cpumask_copy(mask, cpumask_of(cpu));
		return;
	case BENCH_SCOPE_SMT:
		cpumask_copy(mask, topology_sibling_cpumask(cpu));
		return;
	case BENCH_SCOPE_CACHE:
	case BENCH_SCOPE_CACHE_SHARD:
		if (bench_llc_mask(cpu, mask))
			return;
		fallthrough;
	case BENCH_SCOPE_NUMA:
		if (node != NUMA_NO_NODE) {
			cpumask_copy(mask, cpumask_of_node(node));
			return;
		}
		fallthrough;
	default:
		cpumask_copy(mask, cpu_possible_mask);
	}
}

/* True if @pod consists of whole cores, and of no more than a shard may have. */
static bool bench_shard_fits(const struct cpumask *pod, const struct cpumask *usable)
{
	unsigned int size, cores = 0;
	unsigned int cpu;
	char buf[16];

	for_each_cpu(cpu, pod) {
		const struct cpumask *core = topology_sibling_cpumask(cpu);
		bool first = true;
		unsigned int other;

		for_each_cpu_and(other, core, usable) {
			if (!cpumask_test_cpu(other, pod))
				return false;
			if (other < cpu)
				first = false;
		}
		cores += first;
	}

	if (bench_read_file(BENCH_WQ_PARAMS "cache_shard_size", buf, sizeof(buf)) ||
	    kstrtouint(buf, 10, &size))
		return true;
	return cores <= max(size, 1U);
}

void bench_pod_fn(struct work_struct *work)
{
	struct bench_thread *thread = container_of(work, struct bench_thread, pod_work);

	cpumask_copy(&thread->seen, current->cpus_ptr);
	complete(&thread->pod_seen);
}

int bench_find_pod(struct bench_thread *thread, enum bench_scope scope)
{
	struct bench *bench = thread->bench;
	struct cpumask *usable = bench->scratch;

	if (bench_is_percpu(&bench->plan)) {
		cpumask_copy(&thread->pod, cpumask_of(thread->cpu));
		return 0;
	}

	reinit_completion(&thread->pod_seen);
	queue_work_on(thread->cpu, bench->wq, &thread->pod_work);
	if (!wait_for_completion_timeout(&thread->pod_seen, bench->plan.timeout * HZ)) {
		pr_err("a single item queued on CPU %u did not run in %u s\n",
		       thread->cpu, bench->plan.timeout);
		return -ETIMEDOUT;
	}

	cpumask_and(usable, bench->online, bench->allowed);
	bench_scope_bound(scope, thread->cpu, &thread->pod);
	cpumask_and(&thread->seen, &thread->seen, usable);

	thread->bad_pod = !cpumask_test_cpu(thread->cpu, &thread->seen) ||
			  !cpumask_subset(&thread->seen, &thread->pod);
	if (scope == BENCH_SCOPE_CACHE_SHARD && !bench_shard_fits(&thread->seen, usable))
		thread->bad_pod = true;

	cpumask_and(&thread->pod, &thread->pod, &thread->seen);
	return 0;
}

/*
 * Per-CPU items run where they are queued. Others run in pods, if these are strict.
 * All CPUs are allowed if scopes are not strict, or if debug_force_rr_cpu is on.
 */
bool bench_can_judge(const struct bench_plan *plan)
{
	char buf[8];

	/* An item that still runs is queued where it runs, and not where the submitter is. */
	if (plan->mode == BENCH_ROAM)
		return false;
	if (bench_is_percpu(plan))
		return true;
	if (!plan->strict)
		return false;
	if (!bench_read_file(BENCH_WQ_PARAMS "debug_force_rr_cpu", buf, sizeof(buf)) &&
	    buf[0] == 'Y') {
		pr_warn("debug_force_rr_cpu is on: pods are not checked\n");
		return false;
	}
	return true;
}
