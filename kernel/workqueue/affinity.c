// SPDX-License-Identifier: GPL-2.0
/*
 * Affinity scopes: which CPUs form a pod.  At boot, also which CPUs unbound work may use.
 *
 * Pods are built from what topology.c has learned.  A CPU that was never online is a
 * pod of its own in the scopes below numa.  A CPU that comes up is learned after a
 * short delay, together with other CPUs that come up during the delay.  If that changes
 * a group, the pods are rebuilt and the workqueues follow.  Until then the existing pods
 * serve the CPU.
 */
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/moduleparam.h>
#include <linux/sched/isolation.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "active.h"
#include "attrs.h"
#include "pools.h"
#include "shard.h"
#include "topology.h"

/* how long a rebuild waits for more CPUs to come up, and for memory after a failure */
#define LEARN_DELAY	HZ
#define LEARN_RETRY	(10 * HZ)

unsigned int wq_cache_shard_size = 8;

/* the CPU mask from the command line */
static struct cpumask wq_cmdline_cpumask __initdata;

/*
 * The online CPUs behind @cpu's last-level cache.  The scheduler builds its domains from
 * the same mask, but knows nothing about CPUs outside all domains: according to
 * cpus_share_cache(), those CPUs all share one cache.
 */
static const struct cpumask *llc_cpus(int cpu)
{
#if defined(arch_llc_mask)
	return arch_llc_mask(cpu);
#elif defined(CONFIG_SCHED_MC)
	return cpu_coregroup_mask(cpu);
#else
	return cpumask_of(cpu);
#endif
}

static bool same_core(int cpu0, int cpu1)
{
	return cpumask_test_cpu(cpu1, cpu_smt_mask(cpu0));
}

static bool same_cache(int cpu0, int cpu1)
{
	return cpumask_test_cpu(cpu1, llc_cpus(cpu0));
}

/* P: changed only while CPUs are held online, or in hotplug */
static struct wq_topology wq_topology = {
	.same_core	= same_core,
	.same_cache	= same_cache,
};

static bool wq_pods_stale;	/* P: the topology has changed since the pods were built */

static void pods_free(struct wq_pod_type *pods)
{
	int pod;

	for (pod = 0; pods->pod_cpus && pod < pods->nr_pods; pod++)
		free_cpumask_var(pods->pod_cpus[pod]);
	kfree(pods->pod_cpus);
	kfree(pods->pod_node);
	kfree(pods->cpu_pod);
	memset(pods, 0, sizeof(*pods));
}

/* derive the rest of @pods from @pods->cpu_pod; on failure some of it may be missing */
static int pods_complete(struct wq_pod_type *pods, int nr_pods)
{
	int cpu, pod;

	pods->nr_pods = nr_pods;
	pods->pod_node = kcalloc(nr_pods, sizeof(*pods->pod_node), GFP_KERNEL);
	pods->pod_cpus = kcalloc(nr_pods, sizeof(*pods->pod_cpus), GFP_KERNEL);
	if (!pods->pod_node || !pods->pod_cpus)
		return -ENOMEM;

	for (pod = 0; pod < nr_pods; pod++)
		if (!zalloc_cpumask_var(&pods->pod_cpus[pod], GFP_KERNEL))
			return -ENOMEM;

	for_each_possible_cpu(cpu)
		cpumask_set_cpu(cpu, pods->pod_cpus[pods->cpu_pod[cpu]]);

	for (pod = 0; pod < nr_pods; pod++) {
		int node = cpu_to_node(cpumask_first(pods->pod_cpus[pod]));

		for_each_cpu(cpu, pods->pod_cpus[pod])
			if (cpu_to_node(cpu) != node)
				node = NUMA_NO_NODE;
		pods->pod_node[pod] = node;
	}
	return 0;
}

static bool share_nothing(int cpu0, int cpu1, void *unused)
{
	return false;
}

static bool share_all(int cpu0, int cpu1, void *unused)
{
	return true;
}

static bool share_node(int cpu0, int cpu1, void *unused)
{
	return cpu_to_node(cpu0) == cpu_to_node(cpu1);
}

/* @arg: core_of or llc_of of wq_topology */
static bool share_learned(int cpu0, int cpu1, void *arg)
{
	const int *of = arg;

	return of[cpu0] >= 0 && of[cpu0] == of[cpu1];
}

static int pods_build(struct wq_pod_type *pods, wq_share_fn share, void *arg)
{
	pods->cpu_pod = kcalloc(nr_cpu_ids, sizeof(*pods->cpu_pod), GFP_KERNEL);
	if (!pods->cpu_pod)
		return -ENOMEM;
	return pods_complete(pods, wq_group_cpus(cpumask_bits(cpu_possible_mask), nr_cpu_ids,
						 share, arg, pods->cpu_pod));
}

static int pods_build_shards(struct wq_pod_type *pods, const struct wq_pod_type *llcs,
			     const struct wq_pod_type *cores, unsigned int size)
{
	pods->cpu_pod = kcalloc(nr_cpu_ids, sizeof(*pods->cpu_pod), GFP_KERNEL);
	if (!pods->cpu_pod)
		return -ENOMEM;
	return pods_complete(pods, wq_shard_cpus(cpumask_bits(cpu_possible_mask), nr_cpu_ids,
						 llcs->cpu_pod, cores->cpu_pod, size,
						 pods->cpu_pod));
}

/* build the pods of every scope from what is known now; on failure some may be missing */
static int pods_build_all(struct wq_pod_type *types)
{
	return pods_build(&types[WQ_AFFN_SYSTEM], share_all, NULL) ?:
	       pods_build(&types[WQ_AFFN_NUMA], share_node, NULL) ?:
	       pods_build(&types[WQ_AFFN_CACHE], share_learned, wq_topology.llc_of) ?:
	       pods_build(&types[WQ_AFFN_SMT], share_learned, wq_topology.core_of) ?:
	       pods_build(&types[WQ_AFFN_CPU], share_nothing, NULL) ?:
	       pods_build_shards(&types[WQ_AFFN_CACHE_SHARD], &types[WQ_AFFN_CACHE],
				 &types[WQ_AFFN_SMT], wq_cache_shard_size);
}

/* exchange the pods of the scopes that @types has with those in use */
static void pods_swap(struct wq_pod_type *types)
{
	int scope;

	for (scope = 0; scope < WQ_AFFN_NR_TYPES; scope++)
		if (types[scope].nr_pods)
			swap(wq_pod_types[scope], types[scope]);
	/* also if these are the old ones again: pools may have been made or checked meanwhile */
	wq_pods_gen++;
}

/*
 * Install new pods in place of the old ones for the scopes that @types has, and let the
 * workqueues follow.  On failure, and if building the pods has failed and returned @ret, pods and
 * workqueues stay as they were.  Unused pods are freed.
 */
static int pods_install(struct wq_pod_type *types, int ret, unsigned long scopes)
{
	int scope;

	lockdep_assert_held(&wq_pool_mutex);

	if (!ret) {
		pods_swap(types);
		ret = wqs_reapply_attrs(scopes, wq_unbound_cpumask);
		/* @types holds the old ones now; nr_pods is 0 for a scope that had none */
		if (ret)
			pods_swap(types);
	}
	for (scope = 0; scope < WQ_AFFN_NR_TYPES; scope++)
		pods_free(&types[scope]);
	return ret;
}

/* was the CPU absent, or on another node, when the numa pods were built? */
static bool node_changed(int cpu)
{
	const struct wq_pod_type *pods = &wq_pod_types[WQ_AFFN_NUMA];

	return pods->nr_pods && pods->pod_node[pods->cpu_pod[cpu]] != cpu_to_node(cpu);
}

/*
 * Learn the CPUs that came up, and let pods and workqueues follow.  If memory runs
 * out, all pods and workqueues stay as they are until the next call.
 */
static int follow_topology(void)
{
	struct wq_pod_type types[WQ_AFFN_NR_TYPES] = { };
	int cpu, ret;

	lockdep_assert_cpus_held();
	lockdep_assert_held(&wq_pool_mutex);

	for_each_online_cpu(cpu) {
		if (test_bit(cpu, wq_topology.learned))
			continue;
		if (wq_topology_learn(&wq_topology, cpu) || node_changed(cpu))
			wq_pods_stale = true;
	}
	if (!wq_pods_stale)
		return 0;

	ret = pods_install(types, pods_build_all(types), BIT(WQ_AFFN_NR_TYPES) - 1);
	if (!ret) {
		wq_pods_stale = false;
		deputies_update();
	}
	return ret;
}

static void learn_fn(struct work_struct *work)
{
	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);
	if (follow_topology()) {
		pr_warn_once("workqueue: no memory to place new CPUs in their pods, trying again\n");
		queue_delayed_work(system_dfl_long_wq, to_delayed_work(work), LEARN_RETRY);
	}
}

static DECLARE_DELAYED_WORK(learn_work, learn_fn);

/*
 * A CPU came up: learn its place soon.  Many may come up in a row, and each rebuild goes through
 * all unbound workqueues, so the first one starts a delay, which later ones do not extend.  P.
 */
void affinity_cpu_online(void)
{
	if (wq_topo_initialized)
		queue_delayed_work(system_dfl_long_wq, &learn_work, LEARN_DELAY);
}

/* a CPU goes down, and may return in another place; P */
void affinity_cpu_offline(int cpu)
{
	__clear_bit(cpu, wq_topology.learned);
}

static int wq_affn_dfl_set(const char *val, const struct kernel_param *kp)
{
	int scope = sysfs_match_string(wq_affn_names, val), ret;
	enum wq_affn_scope old;

	if (scope < 0)
		return scope;
	if (scope == WQ_AFFN_DFL)
		return -EINVAL;

	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);
	old = wq_affn_dfl;
	WRITE_ONCE(wq_affn_dfl, scope);
	ret = wqs_reapply_attrs(BIT(WQ_AFFN_DFL), wq_unbound_cpumask);
	if (ret)
		WRITE_ONCE(wq_affn_dfl, old);
	return ret;
}

static int wq_affn_dfl_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", wq_affn_names[READ_ONCE(wq_affn_dfl)]);
}

static const struct kernel_param_ops wq_affn_dfl_ops = {
	.get = wq_affn_dfl_get,
	.set = wq_affn_dfl_set,
};
module_param_cb(default_affinity_scope, &wq_affn_dfl_ops, NULL, 0644);

/* divide the LLCs again; 0, or -ENOMEM with nothing changed.  P, and CPUs held online */
int affinity_reshard(unsigned int size)
{
	struct wq_pod_type types[WQ_AFFN_NR_TYPES] = { };
	unsigned long scopes = BIT(WQ_AFFN_CACHE_SHARD);
	int ret;

	if (wq_affn_dfl == WQ_AFFN_CACHE_SHARD)
		scopes |= BIT(WQ_AFFN_DFL);
	ret = pods_build_shards(&types[WQ_AFFN_CACHE_SHARD], &wq_pod_types[WQ_AFFN_CACHE],
				&wq_pod_types[WQ_AFFN_SMT], size);
	return pods_install(types, ret, scopes);
}

static int wq_shard_size_set(const char *val, const struct kernel_param *kp)
{
	unsigned int size;
	int ret = kstrtouint(val, 0, &size);

	if (ret)
		return ret;
	if (!size) {
		pr_warn("workqueue: cache_shard_size must be > 0, setting to 1\n");
		size = 1;
	}

	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);
	/* a boot parameter comes before the topology is known */
	if (wq_topo_initialized && size != wq_cache_shard_size)
		ret = affinity_reshard(size);
	if (!ret)
		WRITE_ONCE(wq_cache_shard_size, size);
	return ret;
}

static const struct kernel_param_ops wq_shard_size_ops = {
	.get = param_get_uint,
	.set = wq_shard_size_set,
};
module_param_cb(cache_shard_size, &wq_shard_size_ops, &wq_cache_shard_size, 0644);

static int __init workqueue_unbound_cpus_setup(char *str)
{
	if (cpulist_parse(str, &wq_cmdline_cpumask) < 0) {
		pr_warn("workqueue.unbound_cpus: incorrect CPU range, using default\n");
		cpumask_clear(&wq_cmdline_cpumask);
	}
	return 1;
}
__setup("workqueue.unbound_cpus=", workqueue_unbound_cpus_setup);

static void __init restrict_unbound_cpumask(const char *why, const struct cpumask *cpus)
{
	if (!cpumask_intersects(wq_unbound_cpumask, cpus)) {
		pr_warn("workqueue: Restricting unbound_cpumask (%*pb) with %s (%*pb) leaves no CPU, ignoring\n",
			cpumask_pr_args(wq_unbound_cpumask), why, cpumask_pr_args(cpus));
		return;
	}
	cpumask_and(wq_unbound_cpumask, wq_unbound_cpumask, cpus);
}

/* early boot: CPU masks, and one pod of all CPUs */
void __init affinity_init_early(void)
{
	const struct cpumask *housekeeping = housekeeping_cpumask(HK_TYPE_DOMAIN);

	wq_boot_needs(alloc_cpumask_var(&wq_online_cpumask, GFP_KERNEL));
	wq_boot_needs(alloc_cpumask_var(&wq_unbound_cpumask, GFP_KERNEL));
	wq_boot_needs(alloc_cpumask_var(&wq_isolated_cpumask, GFP_KERNEL));
	wq_boot_needs(alloc_cpumask_var(&wq_requested_unbound_cpumask, GFP_KERNEL));

	cpumask_copy(wq_online_cpumask, cpu_online_mask);
	cpumask_copy(wq_unbound_cpumask, cpu_possible_mask);
	restrict_unbound_cpumask("isolcpus", housekeeping);
	if (IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS))
		restrict_unbound_cpumask("nohz_full", housekeeping_cpumask(HK_TYPE_WQ));
	if (!cpumask_empty(&wq_cmdline_cpumask))
		restrict_unbound_cpumask("workqueue.unbound_cpus", &wq_cmdline_cpumask);
	cpumask_copy(wq_requested_unbound_cpumask, wq_unbound_cpumask);
	cpumask_andnot(wq_isolated_cpumask, cpu_possible_mask, housekeeping);

	wq_topology.nr_cpus = nr_cpu_ids;
	wq_topology.core_of = kcalloc(nr_cpu_ids, sizeof(int), GFP_KERNEL);
	wq_topology.llc_of = kcalloc(nr_cpu_ids, sizeof(int), GFP_KERNEL);
	wq_topology.learned = bitmap_zalloc(nr_cpu_ids, GFP_KERNEL);
	wq_boot_needs(wq_topology.core_of && wq_topology.llc_of && wq_topology.learned);
	wq_topology_init(&wq_topology);

	wq_boot_needs(!pods_build(&wq_pod_types[WQ_AFFN_SYSTEM], share_all, NULL));
	/* the CPUs of this pod may be on several nodes, which are not known yet */
	wq_pod_types[WQ_AFFN_SYSTEM].pod_node[0] = NUMA_NO_NODE;
	deputies_update();
}

/**
 * workqueue_init_topology - boot: divide the CPUs into pods
 *
 * Context: after the other CPUs and the scheduler's domains are up.
 */
void __init workqueue_init_topology(void)
{
	struct workqueue_struct *wq;

	guard(cpus_read_lock)();
	guard(mutex)(&wq_pool_mutex);

	wq_topo_initialized = true;
	wq_boot_needs(!follow_topology());

	/* follow_topology() skipped ordered workqueues, but they need limits for each node now */
	list_for_each_entry(wq, &workqueues, list) {
		guard(mutex)(&wq->mutex);
		if (wq->flags & WQ_UNBOUND)
			wq_update_node_max_active(wq);
	}
}
