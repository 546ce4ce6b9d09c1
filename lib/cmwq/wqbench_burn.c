// SPDX-License-Identifier: GPL-2.0
/*
 * Items that use a CPU for a given time
 *
 * They do a fixed amount of work, measured once for each pass. If they looked at a clock
 * instead, two items that share a CPU would both end in time, and a workqueue that leaves
 * other CPUs idle would look as good as any.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/sched.h>

#include "wqbench.h"

#define BURN_TRY_TURNS		BIT(16)
#define BURN_TRIES		40

noinline void bench_burn(unsigned long turns)
{
	while (turns--)
		barrier();
}

/* The shortest of many tries is one that nothing interrupted. */
int bench_calibrate_burn(struct bench *bench)
{
	u64 best = U64_MAX, before;

	for (unsigned int i = 0; i < BURN_TRIES; i++) {
		before = bench_ticks();
		bench_burn(BURN_TRY_TURNS);
		best = min(best, bench_ticks_to_ns(before, bench_ticks()));
		cond_resched();
	}
	if (!best) {
		pr_err("the clock is too coarse to tell how long a loop takes\n");
		return -ENODEV;
	}
	bench->burn_turns = div64_u64((u64)bench->plan.burn_us * NSEC_PER_USEC * BURN_TRY_TURNS,
				      best);
	return 0;
}
