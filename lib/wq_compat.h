/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kernels from 6.5 on lack that our modules use. lib/Kbuild reads the kernel's headers
 * and sets WQ_COMPAT_NO_*, since versions do not tell: distributions backport features.
 * In the kernel's own tree, lib/Makefile does.
 */
#ifndef _LIB_WQ_COMPAT_H
#define _LIB_WQ_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/workqueue.h>

#ifdef WQ_COMPAT_NO_PERCPU
/* before 6.18: a workqueue that is not unbound was per CPU without saying so */
#define WQ_PERCPU	0
#endif

/* How to ask for a BH workqueue. */
#ifdef WQ_COMPAT_NO_BH
/* before 6.9 */
#define WQ_COMPAT_BH	0
#else
/* 6.12 has got WQ_PERCPU meanwhile, but refuses it here. */
#define WQ_COMPAT_BH	(WQ_BH | (WQ_PERCPU & __WQ_BH_ALLOWS))
#endif

#ifdef WQ_COMPAT_NO_HRTIMER_SETUP
/* before 6.13 */
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* _LIB_WQ_COMPAT_H */
