// SPDX-License-Identifier: GPL-2.0
/*
 * A thread that keeps a CPU busy
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/string.h>

#include "wqhelp.h"

/* one occupant at a time: it moves kthreadd away and back */
static atomic_t wqh_occupied;

struct wqh_occupation {
	struct completion	begun;
	unsigned int		cpu;
	unsigned int		ms;
};

/* how the occupation ends; the first one to end it sets this */
enum { WQH_STAYS, WQH_IS_OVER, WQH_LEAVES };
static atomic_t wqh_occupant_end = ATOMIC_INIT(WQH_IS_OVER);

static struct task_struct *wqh_get_kthreadd(void)
{
	guard(rcu)();
	return get_task_struct(rcu_dereference(current->real_parent));
}

/*
 * A new thread starts on a CPU on which kthreadd may run, and its creator waits until
 * it has started.  So keep kthreadd off the occupied CPU.
 */
static int wqh_occupant(void *arg)
{
	struct wqh_occupation *occupation = arg;
	struct task_struct *kthreadd = wqh_get_kthreadd();
	unsigned int ms = occupation->ms;
	static struct cpumask before, away;	/* ours alone: wqh_occupied */

	cpumask_copy(&before, kthreadd->cpus_ptr);
	if (cpumask_andnot(&away, &before, cpumask_of(occupation->cpu)))
		set_cpus_allowed_ptr(kthreadd, &away);

	sched_set_fifo(current);
	atomic_set(&wqh_occupant_end, WQH_STAYS);
	preempt_disable();
	complete(&occupation->begun);
	while (ms-- && atomic_read(&wqh_occupant_end) == WQH_STAYS)
		wqh_spin_us(1000);
	/* before anybody else gets the CPU */
	atomic_cmpxchg(&wqh_occupant_end, WQH_STAYS, WQH_IS_OVER);
	preempt_enable();

	set_cpus_allowed_ptr(kthreadd, &before);
	put_task_struct(kthreadd);
	atomic_set(&wqh_occupied, 0);
	module_put_and_kthread_exit(0);
}

static int wqh_leave(void)
{
	int end = atomic_cmpxchg(&wqh_occupant_end, WQH_STAYS, WQH_LEAVES);

	return end == WQH_STAYS ? 0 : -ENOENT;
}

int wqh_occupy(char *input)
{
	struct wqh_occupation occupation = { .ms = 100 };
	struct task_struct *task;
	int ret;

	input = strim(input);
	if (!strcmp(input, "leave"))
		return wqh_leave();

	ret = wqh_numbers(input, { "cpu", &occupation.cpu }, { "ms", &occupation.ms });
	if (ret)
		return ret;
	guard(cpus_read_lock)();
	/* keep the watchdogs quiet */
	if (occupation.cpu >= nr_cpu_ids || !cpu_online(occupation.cpu) || occupation.ms > 5000)
		return -ERANGE;
	if (atomic_xchg(&wqh_occupied, 1))
		return -EBUSY;
	init_completion(&occupation.begun);

	__module_get(THIS_MODULE);
	task = kthread_create_on_cpu(wqh_occupant, &occupation, occupation.cpu, "wqt/%u");
	if (IS_ERR(task)) {
		atomic_set(&wqh_occupied, 0);
		module_put(THIS_MODULE);
		return PTR_ERR(task);
	}
	wake_up_process(task);
	wait_for_completion(&occupation.begun);
	return 0;
}
