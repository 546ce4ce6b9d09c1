/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All differences between kernels from 6.12 on that matter to wqtorture.
 * scripts/wqlab/kernels/module.py reads the kernel's headers and sets WQT_NO_*.
 */
#ifndef _LIB_WQTORTURE_COMPAT_H
#define _LIB_WQTORTURE_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/torture.h>
#include <linux/workqueue.h>

#ifdef WQT_NO_PERCPU_FLAG
/* before 6.18: a workqueue that is not unbound was per CPU without saying so */
#define WQ_PERCPU	0
#endif

enum {
	/* 6.12 has got the flag meanwhile, but refuses it here */
	WQT_BH_PERCPU = WQ_PERCPU & __WQ_BH_ALLOWS,
};

#ifdef WQT_NO_HRTIMER_SETUP
/* before 6.15 */
static inline void wqt_hrtimer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*fn)(struct hrtimer *))
{
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer->function = fn;
}
#else
static inline void wqt_hrtimer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*fn)(struct hrtimer *))
{
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
}
#endif

/* With CONFIG_FAILSLAB and its task-filter, allocations of this task may fail. */
static inline void wqt_fail_allocations(bool fail)
{
#ifdef CONFIG_FAULT_INJECTION
	current->make_it_fail = fail;
#endif
}

/*
 * Distributions do not build kernel/torture.c. The test runs without it, but has no
 * stutter, shuffle and shutdown then. wqt_conduct_missing says so.
 */
#if IS_REACHABLE(CONFIG_TORTURE_TEST)
static inline bool wqt_conduct_missing(void)
{
	return false;
}

static inline bool wqt_conduct_begin(char *name, int verbose)
{
	return torture_init_begin(name, verbose);
}

/* Start the helpers' threads. After torture_init_end() others may see them. */
static inline int wqt_conduct_start(int stutter, int shuffle, int shutdown, void (*hook)(void))
{
	int ret = 0;

	if (stutter)
		ret = torture_stutter_init(stutter * HZ, stutter * HZ);
	if (!ret && shuffle)
		ret = torture_shuffle_init(shuffle * HZ);
	if (!ret)
		ret = torture_shutdown_init(shutdown, hook);
	torture_init_end();
	return ret;
}

static inline bool wqt_conduct_stop(void)
{
	return torture_cleanup_begin();
}

static inline void wqt_conduct_end(void)
{
	torture_cleanup_end();
}

static inline int wqt_start_thread(int (*fn)(void *arg), void *arg, char *name,
				   struct task_struct **task)
{
	return _torture_create_kthread(fn, arg, name, name, name, task, NULL);
}

static inline bool wqt_must_stop(void)
{
	return torture_must_stop();
}

static inline void wqt_pause(const char *name)
{
	stutter_wait(name);
}
#else
static inline bool wqt_conduct_missing(void)
{
	return true;
}

static inline bool wqt_conduct_begin(char *name, int verbose)
{
	return true;
}

static inline int wqt_conduct_start(int stutter, int shuffle, int shutdown, void (*hook)(void))
{
	return 0;
}

static inline bool wqt_conduct_stop(void)
{
	return false;
}

static inline void wqt_conduct_end(void)
{
}

static inline int wqt_start_thread(int (*fn)(void *arg), void *arg, char *name,
				   struct task_struct **task)
{
	struct task_struct *made = kthread_run(fn, arg, "%s", name);

	*task = IS_ERR(made) ? NULL : made;
	return PTR_ERR_OR_ZERO(made);
}

static inline bool wqt_must_stop(void)
{
	return kthread_should_stop();
}

static inline void wqt_pause(const char *name)
{
}
#endif

#endif /* _LIB_WQTORTURE_COMPAT_H */
