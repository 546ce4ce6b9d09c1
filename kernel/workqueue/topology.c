// SPDX-License-Identifier: GPL-2.0
/*
 * Learning which CPUs share a core or a cache.
 *
 * The architecture knows this only of online CPUs.  So each CPU, when it has come up, is
 * compared with those that were learned before it.  A CPU that goes offline stays in its
 * groups, since it is likely to return to them.
 *
 * It may also return elsewhere: not all architectures announce the removal of a socket.  Then the
 * online CPUs of its groups no longer share with it, and it leaves them.  If no CPU of the group is
 * online, nothing contradicts, and each of them is checked when it comes up.  So two online CPUs
 * are in one group if and only if the architecture says that they share.
 */
#include <linux/bitmap.h>
#include <linux/minmax.h>

#include "topology.h"

typedef bool (*share_fn)(const struct wq_topology *topo, int cpu0, int cpu1);

static bool share_core(const struct wq_topology *topo, int cpu0, int cpu1)
{
	return topo->same_core(cpu0, cpu1);
}

/* with SCHED_MC=n the architecture knows no caches, but a core has only one */
static bool share_llc(const struct wq_topology *topo, int cpu0, int cpu1)
{
	return topo->same_core(cpu0, cpu1) || topo->same_cache(cpu0, cpu1);
}

/* true if CPUs of @cpu's group are online, and @cpu shares with none of them */
static bool is_contradicted(const struct wq_topology *topo, const int *of, int cpu, share_fn share)
{
	bool contradicted = false;
	int other;

	for_each_set_bit(other, topo->learned, topo->nr_cpus) {
		if (of[other] != of[cpu])
			continue;
		if (share(topo, cpu, other))
			return false;
		contradicted = true;
	}
	return contradicted;
}

/* @cpu becomes a group of its own; the lowest of the others heads the old one */
static void leave_group(const struct wq_topology *topo, int *of, int cpu)
{
	int old = of[cpu], head = -1, other;

	for (other = 0; other < topo->nr_cpus; other++) {
		if (other == cpu || of[other] != old)
			continue;
		if (head < 0)
			head = other;
		of[other] = head;
	}
	of[cpu] = cpu;
}

/* merge two groups, including their offline CPUs; false if they are one already */
static bool join_groups(const struct wq_topology *topo, int *of, int cpu0, int cpu1)
{
	int head = min(of[cpu0], of[cpu1]), old = max(of[cpu0], of[cpu1]);
	int cpu;

	if (head == old)
		return false;
	for (cpu = 0; cpu < topo->nr_cpus; cpu++)
		if (of[cpu] == old)
			of[cpu] = head;
	return true;
}

/*
 * Start with nothing known about any CPU; all but the content of the arrays and the bitmap is set.
 */
void wq_topology_init(struct wq_topology *topo)
{
	memset(topo->core_of, -1, topo->nr_cpus * sizeof(*topo->core_of));
	memset(topo->llc_of, -1, topo->nr_cpus * sizeof(*topo->llc_of));
	bitmap_zero(topo->learned, topo->nr_cpus);
}

/*
 * Find the place of a CPU that came up; true if any group has changed.  The CPU leaves both its
 * core and its cache if either is contradicted.  So a core is never in two caches.  Time is the
 * number of CPUs times the number of groups that become one.
 */
bool wq_topology_learn(struct wq_topology *topo, int cpu)
{
	bool changed = false;
	int other;

	if (topo->core_of[cpu] < 0) {
		topo->core_of[cpu] = cpu;
		topo->llc_of[cpu] = cpu;
		changed = true;
	} else if (is_contradicted(topo, topo->core_of, cpu, share_core) ||
		   is_contradicted(topo, topo->llc_of, cpu, share_llc)) {
		leave_group(topo, topo->core_of, cpu);
		leave_group(topo, topo->llc_of, cpu);
		changed = true;
	}

	for_each_set_bit(other, topo->learned, topo->nr_cpus) {
		if (share_core(topo, cpu, other))
			changed |= join_groups(topo, topo->core_of, cpu, other);
		if (share_llc(topo, cpu, other))
			changed |= join_groups(topo, topo->llc_of, cpu, other);
	}
	__set_bit(cpu, topo->learned);
	return changed;
}
