// SPDX-License-Identifier: GPL-2.0
/*
 * Pods: sorting CPUs into groups, and cutting big groups into shards.
 *
 * Every result is an array with one entry per CPU number. It is made in place,
 * without any other memory, in two steps:
 *
 *  1. Linking. The entry of a CPU is the number of a lower CPU of the same pod,
 *     which is linked in turn, or the CPU's own number where it is the first
 *     one of its pod.
 *  2. Numbering. One walk upwards gives each first CPU the next pod number. Every
 *     other CPU takes the number that the CPU it links to has got by then.
 *
 * For example, six CPUs, two per core, cut into shards of two cores:
 *
 *     CPU                  0  1  2  3  4  5
 *     core_pod             0  0  1  1  2  2
 *     linked by core       0  0  2  2  4  4
 *     linked by shard      0  0  0  2  4  4     CPU 2 now leads to 0, 3 still to 2
 *     numbered             0  0  0  0  1  1
 *
 * Time is the number of CPUs times the number of pods, or of cores for shards.
 */
#include <linux/bitops.h>
#include <linux/minmax.h>

#include "shard.h"

/* What an entry holds while it is neither a link nor a pod number. */
enum {
	NO_POD		= -1,	/* not a possible CPU: stays so */
	UNLINKED	= -2,
};

/*
 * The smallest number of shards for the cores of an LLC if none has more than @size cores; a size
 * of 0 means 1.
 */
unsigned int wq_nr_shards(unsigned int nr_cores, unsigned int size)
{
	size = max(size, 1U);

	/* The usual way to round up, adding size - 1, overflows for huge sizes. */
	return nr_cores / size + !!(nr_cores % size);
}

/*
 * The shard of @core, both counted from 0 within the LLC.  Neighbouring cores stay together.  If
 * the cores cannot be dealt out evenly, the first shards have one more than the others.
 */
unsigned int wq_core_shard(unsigned int core, unsigned int nr_cores, unsigned int size)
{
	unsigned int nr_shards = wq_nr_shards(nr_cores, size);
	unsigned int small = nr_cores / nr_shards;
	unsigned int nr_large = nr_cores % nr_shards;
	unsigned int in_large = nr_large * (small + 1);

	if (core < in_large)
		return core / (small + 1);

	return nr_large + (core - in_large) / small;
}

/* Step 1 for groups: link each CPU to the first one that it shares a pod with. */
static __always_inline void link_cpus(const unsigned long *possible, int nr_cpus,
				      wq_share_fn share, void *arg, int *cpu_pod)
{
	int first, cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++)
		cpu_pod[cpu] = test_bit(cpu, possible) ? UNLINKED : NO_POD;

	for (first = 0; first < nr_cpus; first++) {
		if (cpu_pod[first] != UNLINKED)
			continue;

		cpu_pod[first] = first;
		for (cpu = first + 1; cpu < nr_cpus; cpu++)
			if (cpu_pod[cpu] == UNLINKED && share(first, cpu, arg))
				cpu_pod[cpu] = first;
	}
}

/*
 * Step 1 for shards; the CPUs are linked by core already. Link the first CPU of
 * each core of one LLC to the first CPU of its shard.
 */
static void link_shards(int llc, const int *llc_pod, unsigned int size, int nr_cpus, int *cpu_pod)
{
	unsigned int nr_cores = 0, core = 0, shard, last_shard = 0;
	int cpu, first = -1;

	for (cpu = 0; cpu < nr_cpus; cpu++)
		if (cpu_pod[cpu] == cpu && llc_pod[cpu] == llc)
			nr_cores++;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		if (cpu_pod[cpu] != cpu || llc_pod[cpu] != llc)
			continue;

		shard = wq_core_shard(core++, nr_cores, size);
		if (first < 0 || shard != last_shard)
			first = cpu;
		last_shard = shard;
		cpu_pod[cpu] = first;
	}
}

/* Step 2: links become pod numbers. Returns how many. */
static int number_pods(int nr_cpus, int *cpu_pod)
{
	int cpu, nr_pods = 0;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		if (cpu_pod[cpu] == NO_POD)
			continue;

		/* Links point down, so the entry that one leads to is a number already. */
		if (cpu_pod[cpu] == cpu)
			cpu_pod[cpu] = nr_pods++;
		else
			cpu_pod[cpu] = cpu_pod[cpu_pod[cpu]];
	}

	return nr_pods;
}

static bool same_core(int cpu0, int cpu1, void *arg)
{
	const int *core_pod = arg;

	return core_pod[cpu0] == core_pod[cpu1];
}

/*
 * Sort the CPUs of the bitmap @possible into the pods of a scope, and return how many there are.
 * The @nr_cpus entries of @cpu_pod become pods, numbered in the order of their first CPUs, or -1.
 *
 * A CPU joins the first pod whose first CPU it shares with, or opens one.  So each CPU has exactly
 * one pod even if firmware makes @share give answers that are no equivalence relation.  @share is
 * called at most once for each pair of first CPU and later CPU.
 */
int wq_group_cpus(const unsigned long *possible, int nr_cpus, wq_share_fn share, void *arg,
		  int *cpu_pod)
{
	link_cpus(possible, nr_cpus, share, arg, cpu_pod);

	return number_pods(nr_cpus, cpu_pod);
}

/*
 * Cut every LLC into as few shards of whole cores as @size allows, and return how many there are.
 * @llc_pod and @core_pod are results of wq_group_cpus(), and @cpu_pod gets the same form.
 *
 * A core belongs to the LLC of its first CPU, and so stays whole even if firmware claims that its
 * CPUs are in different LLCs.  A core without an LLC (-1) is a shard of its own.  Quadratic in the
 * number of CPUs at worst: 10 ms for 4096.
 */
int wq_shard_cpus(const unsigned long *possible, int nr_cpus, const int *llc_pod,
		  const int *core_pod, unsigned int size, int *cpu_pod)
{
	int cpu, llc, last_llc = -1;

	link_cpus(possible, nr_cpus, same_core, (void *)core_pod, cpu_pod);

	for (cpu = 0; cpu < nr_cpus; cpu++)
		last_llc = max(last_llc, llc_pod[cpu]);

	for (llc = 0; llc <= last_llc; llc++)
		link_shards(llc, llc_pod, size, nr_cpus, cpu_pod);

	return number_pods(nr_cpus, cpu_pod);
}
