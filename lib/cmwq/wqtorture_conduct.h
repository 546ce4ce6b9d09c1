/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Distributions do not build kernel/torture.c. Without it the test runs, but has no
 * stutter, shuffle or shutdown. wqt_conduct_missing() then returns true.
 */
#ifndef _LIB_WQTORTURE_CONDUCT_H
#define _LIB_WQTORTURE_CONDUCT_H

#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/torture.h>

#if IS_REACHABLE(CONFIG_TORTURE_TEST)
static inline bool wqt_conduct_missing(void)
{
	return false;
}

static inline bool wqt_conduct_begin(char *name, int verbose)
{
	return torture_init_begin(name, verbose);
}

/* Start the threads of kernel/torture.c. After torture_init_end() the cleanup may stop them. */
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

#endif /* _LIB_WQTORTURE_CONDUCT_H */
