// SPDX-License-Identifier: GPL-2.0
/*
 * The threads that submit
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/topology.h>
#include <linux/wait.h>

#include "wqbench.h"

/*
 * No thread starts the clock before all have warmed up or given up.  CPUs that contend may ask for
 * pools of their own meanwhile, and get them one after the other: give each CPU 250 us for that.
 */
static void bench_pass_gate(struct bench *bench)
{
	if (atomic_dec_return(&bench->warming) == 1) {
		schedule_timeout_idle(msecs_to_jiffies(bench->nr_threads / 4));
		atomic_dec(&bench->warming);
		wake_up_all(&bench->gate);
	}
	wait_event_idle(bench->gate,
			!atomic_read(&bench->warming) || READ_ONCE(bench->stop));
}

static int bench_thread_fn(void *data)
{
	struct bench_thread *thread = data;
	struct bench *bench = thread->bench;
	bool warm;

	warm = bench_rounds(thread, bench->plan.warmup, false);
	bench_pass_gate(bench);

	if (bench->probe_wq)
		wq_ticker_start(&thread->probe, 0);
	thread->begin = ktime_get_ns();
	if (warm)
		bench_rounds(thread, bench->plan.items, true);
	thread->end = ktime_get_ns();
	if (bench->probe_wq)
		hrtimer_cancel(&thread->probe.timer);

	if (atomic_dec_and_test(&bench->active))
		wake_up(&bench->done);
	return 0;
}

/* The reference allows kthread_stop() on a thread that has already ended. */
static int bench_create_threads(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];
		struct task_struct *task;

		task = kthread_create_on_node(bench_thread_fn, thread,
					      cpu_to_node(thread->cpu),
					      "wq_bench/%u", i);
		if (IS_ERR(task)) {
			if (PTR_ERR(task) != -EINTR)
				pr_err("cannot create a thread: %pe\n", task);
			return PTR_ERR(task);
		}
		kthread_bind(task, thread->cpu);
		thread->task = get_task_struct(task);
		if (!bench_has_wq(&bench->plan)) {
			int ret = bench_create_partner(thread, i);

			if (ret)
				return ret;
		}
	}
	return 0;
}

static void bench_stop_threads(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		if (!thread->task)
			continue;
		kthread_stop(thread->task);
		put_task_struct(thread->task);
		thread->task = NULL;
		if (thread->floor.partner)
			bench_stop_partner(thread);
	}
}

static void bench_give_up(struct bench *bench)
{
	WRITE_ONCE(bench->stop, true);
	wake_up_all(&bench->gate);
	for (unsigned int i = 0; i < bench->nr_threads; i++)
		rcuwait_wake_up(&bench->threads[i]->idle);
}

/* Called once a second: true when items of this thread must be given up on. */
static bool bench_is_stuck(struct bench_thread *thread)
{
	unsigned int rounds = READ_ONCE(thread->rounds);
	unsigned int in_flight = atomic_read(&thread->in_flight);

	if (!in_flight || rounds != thread->seen_rounds ||
	    in_flight != thread->seen_in_flight) {
		thread->seen_rounds = rounds;
		thread->seen_in_flight = in_flight;
		thread->stuck = 0;
		return false;
	}
	return ++thread->stuck >= thread->bench->plan.timeout;
}

static bool bench_find_lost(struct bench *bench)
{
	bool found = false;

	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		if (!bench_is_stuck(thread))
			continue;
		found = true;
		thread->lost = atomic_read(&thread->in_flight);
		pr_err("%u items queued on CPU %u did not run in %u s\n",
		       thread->lost, thread->cpu, bench->plan.timeout);
	}
	return found;
}

/* Returns 0 also when items got lost, since that is a result. */
static int bench_wait_for_threads(struct bench *bench)
{
	int ret;

	do {
		ret = wait_event_interruptible_timeout(bench->done,
						       !atomic_read(&bench->active), HZ);
	} while (!ret && !bench_find_lost(bench));

	if (ret <= 0)
		bench_give_up(bench);
	return ret < 0 ? -EINTR : 0;
}

int bench_run_threads(struct bench *bench)
{
	int ret;

	atomic_set(&bench->warming, bench->nr_threads + 1);
	atomic_set(&bench->active, bench->nr_threads);

	ret = bench_create_threads(bench);
	if (!ret) {
		for (unsigned int i = 0; i < bench->nr_threads; i++)
			wake_up_process(bench->threads[i]->task);
		ret = bench_wait_for_threads(bench);
	}
	bench_stop_threads(bench);
	return ret;
}
