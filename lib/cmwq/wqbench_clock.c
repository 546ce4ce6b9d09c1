// SPDX-License-Identifier: GPL-2.0
/*
 * How long is a tick of the clock?  wqbench.h says which clock is read.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "wqbench.h"

u64 bench_tick_mult = BIT_ULL(BENCH_TICK_SHIFT);

int bench_calibrate(void)
{
	u64 ns, ticks;

	if (!strcmp(BENCH_CLOCK, "ktime"))
		return 0;

	ns = ktime_get_ns();
	ticks = bench_ticks();
	fsleep(20 * USEC_PER_MSEC);
	ns = ktime_get_ns() - ns;
	ticks = bench_ticks() - ticks;

	bench_tick_mult = ticks ? div64_u64(ns << BENCH_TICK_SHIFT, ticks) : 0;
	if (bench_tick_mult)
		return 0;
	pr_err("the time stamp counter is no clock on this machine\n");
	return -ENODEV;
}
