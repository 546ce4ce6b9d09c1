/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What our modules use and some kernels from 6.5 on lack. Kbuild reads the kernel's headers
 * and sets WQ_COMPAT_NO_*, since versions do not tell: distributions backport features.
 * In the kernel's own tree, Makefile does that.
 */
#ifndef _LIB_WQ_COMPAT_H
#define _LIB_WQ_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/workqueue.h>

#define WQ_RELEASE	"1.0"	/* the newest of CHANGELOG.md */

#ifdef WQ_COMPAT_NO_PERCPU
/* a kernel without the flag: there a workqueue that is not unbound is per CPU */
#define WQ_PERCPU	0
#endif

/* How to ask for a BH workqueue. */
#ifdef WQ_COMPAT_NO_BH
/* before 6.9 */
#define WQ_COMPAT_BH	0
#else
/* 6.12 has WQ_PERCPU by now, but refuses it for a BH workqueue. */
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
