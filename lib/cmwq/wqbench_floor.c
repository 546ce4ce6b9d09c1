// SPDX-License-Identifier: GPL-2.0
/*
 * The floor: what an exchange with another thread costs if there is no workqueue
 *
 * Each thread has a partner, which runs its items. The rest is as in the mode latency: the
 * same items, the same waiting, the same measuring. So the price of the workqueue is what a
 * round trip through it costs on top of this.
 *
 * same		both sleep while they wait, on one CPU
 * other	the same on two CPUs
 * line		both spin on one word, on two CPUs that nobody else uses; there are no items,
 *		so this is what it costs to move one cache line there and back
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/topology.h>

#include "wqbench.h"

#define SPIN_TURNS		1024	/* between two looks whether to leave */

/* What the word says. */
enum {
	LINE_ANSWERED,		/* it is the thread's turn */
	LINE_ASKED,		/* it is the partner's */
	LINE_ASKED_WHEN,	/* the partner's, and the partner writes the time */
};

/*
 * Where threads and partners are
 */

/* Returns false if the scope needs a second CPU and there is none. */
bool bench_enter_floor(struct bench *bench, enum bench_scope scope)
{
	return scope == BENCH_FLOOR_SAME ||
	       cpumask_weight_and(cpu_online_mask, bench->allowed) > 1;
}

/*
 * Threads that spin have their CPUs to themselves. There is one pair, unless more were asked
 * for: in a guest, a pair may have to wait until the host runs both its CPUs.
 */
void bench_place_partners(struct bench *bench)
{
	unsigned int pairs = cpumask_weight(bench->usable) / 2;
	unsigned int cpu = cpumask_first(bench->usable);
	bool alone = bench->scope == BENCH_FLOOR_LINE;

	if (alone)
		bench->nr_threads = clamp(bench->plan.threads, 1U, pairs);

	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];
		unsigned int next = bench_next_cpu(bench, cpu);

		thread->cpu = cpu;
		thread->floor.cpu = bench->scope == BENCH_FLOOR_SAME ? cpu : next;
		cpu = alone ? bench_next_cpu(bench, next) : next;
	}
}

/*
 * Sleeping
 */

unsigned int bench_hand_over(struct bench_thread *thread, struct bench_item *item,
			     unsigned int next, bool timed)
{
	struct bench *bench = thread->bench;
	bool sampled = !next;
	u64 before, after;

	if (READ_ONCE(bench->stop))
		return next;
	atomic_set(&item->owed, 1);

	before = bench_ticks();
	if (sampled)
		WRITE_ONCE(item->queued_at, before);
	/* Pairs with the acquire by the partner. */
	smp_store_release(&thread->floor.token, item);
	wake_up_process(thread->floor.partner);
	after = bench_ticks();

	if (timed)
		wq_hist_add(thread->hist[BENCH_CALL], bench_ticks_to_ns(before, after));
	cond_resched();
	return sampled ? bench->plan.sample : next;
}

/* The thread hands over the next item only after the last one has ended. */
static void bench_serve_sleeping(struct bench_thread *thread)
{
	struct bench_item *item;

	while (true) {
		set_current_state(TASK_IDLE);
		/* Pairs with the release by the thread. */
		item = smp_load_acquire(&thread->floor.token);
		if (item) {
			__set_current_state(TASK_RUNNING);
			WRITE_ONCE(thread->floor.token, NULL);
			bench_run_item(item);
		} else if (!kthread_should_stop()) {
			schedule();
		} else {
			break;
		}
	}
	__set_current_state(TASK_RUNNING);
}

/*
 * Spinning
 */

/* Returns what the word says when it is the turn of the caller, or -1 if there is no more to do. */
static int bench_spin(struct bench_thread *thread, bool partner)
{
	for (unsigned int turn = 1; ; turn++) {
		/* Pairs with the release by the other side. */
		unsigned int word = smp_load_acquire(&thread->floor.word);

		bool answered = word == LINE_ANSWERED;

		if (answered != partner)
			return word;
		cpu_relax();
		if (turn % SPIN_TURNS)
			continue;
		if (READ_ONCE(thread->bench->stop) || (partner && kthread_should_stop()))
			return -1;
		cond_resched();
	}
}

static void bench_serve_spinning(struct bench_thread *thread)
{
	int word;

	while ((word = bench_spin(thread, true)) >= 0) {
		if (word == LINE_ASKED_WHEN)
			thread->floor.started = bench_ticks();
		/* Pairs with the acquire by the thread. */
		smp_store_release(&thread->floor.word, LINE_ANSWERED);
	}
}

static bool bench_line_round(struct bench_thread *thread, bool timed)
{
	bool sampled = timed && !thread->next_sample;
	u64 before, after, now;

	before = bench_ticks();
	/* Pairs with the acquire by the partner. */
	smp_store_release(&thread->floor.word, sampled ? LINE_ASKED_WHEN : LINE_ASKED);
	after = bench_ticks();
	if (bench_spin(thread, false) < 0)
		return false;

	WRITE_ONCE(thread->rounds, thread->rounds + 1);
	if (!timed)
		return true;
	wq_hist_add(thread->hist[BENCH_CALL], bench_ticks_to_ns(before, after));
	if (sampled) {
		u64 started = thread->floor.started;

		now = bench_ticks();
		wq_hist_add(thread->hist[BENCH_START], bench_ticks_to_ns(before, started));
		wq_hist_add(thread->hist[BENCH_DONE], bench_ticks_to_ns(started, now));
		thread->next_sample = thread->bench->plan.sample;
	}
	thread->next_sample--;
	return true;
}

/* For bench_is_stuck(), one item is in flight all the time. */
bool bench_line_rounds(struct bench_thread *thread, unsigned int nr, bool timed)
{
	bool all = true;

	atomic_set(&thread->in_flight, 1);
	while (nr-- && all)
		all = bench_line_round(thread, timed);
	if (all)
		atomic_set(&thread->in_flight, 0);
	return all;
}

/*
 * The partner
 */

static int bench_partner_fn(void *data)
{
	struct bench_thread *thread = data;

	if (thread->bench->scope == BENCH_FLOOR_LINE)
		bench_serve_spinning(thread);
	else
		bench_serve_sleeping(thread);

	return 0;
}

int bench_create_partner(struct bench_thread *thread, unsigned int nr)
{
	struct task_struct *task;

	task = kthread_create_on_node(bench_partner_fn, thread, cpu_to_node(thread->floor.cpu),
				      "wq_partner/%u", nr);
	if (IS_ERR(task)) {
		if (PTR_ERR(task) != -EINTR)
			pr_err("cannot create a partner: %pe\n", task);
		return PTR_ERR(task);
	}
	kthread_bind(task, thread->floor.cpu);
	thread->floor.partner = get_task_struct(task);
	wake_up_process(task);
	return 0;
}

void bench_stop_partner(struct bench_thread *thread)
{
	kthread_stop(thread->floor.partner);
	put_task_struct(thread->floor.partner);
	thread->floor.partner = NULL;
}
