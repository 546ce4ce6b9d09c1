// SPDX-License-Identifier: GPL-2.0
/*
 * Items, and the loop that queues them
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/rcuwait.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "wqbench.h"

static void bench_note_worker(struct worker_set *set, pid_t pid)
{
	unsigned int slot = hash_32(pid, WORKER_SET_BITS);

	/* A full table, far beyond any max_active, stops counting. */
	for (unsigned int tries = 0; tries < ARRAY_SIZE(set->pid); tries++) {
		int there = atomic_read(&set->pid[slot]);

		if (!there) {
			there = atomic_cmpxchg(&set->pid[slot], 0, pid);
			if (!there) {
				atomic_inc(&set->nr);
				return;
			}
		}
		if (there == pid)
			return;
		slot = (slot + 1) % ARRAY_SIZE(set->pid);
	}
}

/* To be called first by the function of an item. */
static struct bench_item *bench_start_item(struct work_struct *work)
{
	struct bench_item *item = container_of(work, struct bench_item, work);

	if (READ_ONCE(item->queued_at)) {
		WRITE_ONCE(item->started, bench_ticks());
		WRITE_ONCE(item->cpu, raw_smp_processor_id());
	}
	return item;
}

/*
 * Exactly one execution of each submission is owed, and only that one counts down. A
 * second run therefore cannot hide a lost item.
 *
 * Inline, because a call would be 1% of what an item in batch mode costs.
 */
static __always_inline void bench_end_item(struct bench_item *item)
{
	struct bench_thread *thread = item->owner;
	struct bench *bench = thread->bench;

	/* A BH item has no worker: it interrupts whoever runs. */
	if (bench->plan.kind != BENCH_BH)
		bench_note_worker(&bench->workers, current->pid);
	if (bench->judge && !cpumask_test_cpu(raw_smp_processor_id(), &thread->pod))
		atomic_inc(&thread->outside);

	if (!wq_tally_ran(&item->owed)) {
		atomic_inc(&thread->twice);
		return;
	}
	if (atomic_dec_and_test(&thread->in_flight))
		rcuwait_wake_up(&thread->idle);
}

static void bench_item_fn(struct work_struct *work)
{
	bench_end_item(bench_start_item(work));
}

static void bench_burn_fn(struct work_struct *work)
{
	struct bench_item *item = bench_start_item(work);

	bench_burn(item->owner->bench->burn_turns);
	bench_end_item(item);
}

static void bench_sleep_fn(struct work_struct *work)
{
	struct bench_item *item = bench_start_item(work);
	unsigned int us = item->owner->bench->plan.burn_us;

	usleep_range(us, us + us / 4 + 1);
	bench_end_item(item);
}

/* What the item with this number does. */
work_func_t bench_item_function(const struct bench_plan *plan, unsigned int nr)
{
	if (plan->mode == BENCH_SPREAD || (plan->mode == BENCH_MIXED && nr % 2 == 0))
		return bench_burn_fn;
	return plan->mode == BENCH_MIXED ? bench_sleep_fn : bench_item_fn;
}

static __always_inline void bench_submit(struct bench_thread *thread, struct bench_item *item,
					 bool timed, bool sampled)
{
	u64 before, after;
	bool queued;

	/* Seen by the item's function: a successful queue_work() is a full barrier. */
	atomic_set(&item->owed, 1);

	before = bench_ticks();
	if (sampled)
		WRITE_ONCE(item->queued_at, before);
	queued = queue_work(thread->bench->wq, &item->work);
	after = bench_ticks();

	if (timed)
		wq_hist_add(thread->hist[BENCH_CALL], bench_ticks_to_ns(before, after));
	if (queued)
		return;

	/* It is not pending, since its last run began before the submitter was woken. */
	thread->refused++;
	atomic_set(&item->owed, 0);
	if (sampled)
		WRITE_ONCE(item->queued_at, 0);
	atomic_dec(&thread->in_flight);
}

/*
 * Queues a round. Item @next and every plan.sample-th item after it are samples. An inner loop
 * queues all others, so sampling costs them nothing.
 */
static unsigned int bench_submit_round(struct bench_thread *thread, struct bench_item *items,
				       unsigned int nr, unsigned int next, bool timed)
{
	struct bench *bench = thread->bench;
	unsigned int i = 0;

	while (i < nr && !READ_ONCE(bench->stop)) {
		unsigned int end = min(nr, next);

		for (; i < end && !READ_ONCE(bench->stop); i++) {
			bench_submit(thread, &items[i], timed, false);
			cond_resched();
		}
		if (i < nr && i == next) {
			bench_submit(thread, &items[i++], timed, true);
			next += bench->plan.sample;
			if (!bench->plan.in_rounds)
				cond_resched();
		}
	}
	return next;
}

/* All items of the round ran. Records the waits of those that are samples. */
static void bench_note_waits(struct bench_thread *thread, struct bench_item *items,
			     unsigned int first, unsigned int nr, u64 now)
{
	for (unsigned int i = first; i < nr; i += thread->bench->plan.sample) {
		u64 queued_at = READ_ONCE(items[i].queued_at);
		u64 started = READ_ONCE(items[i].started);

		if (!queued_at)
			continue;	/* refused */
		wq_hist_add(thread->hist[BENCH_START], bench_ticks_to_ns(queued_at, started));
		wq_hist_add(thread->hist[BENCH_DONE], bench_ticks_to_ns(started, now));
		WRITE_ONCE(items[i].queued_at, 0);
	}
}

/* Records how long a whole round took, and how many CPUs it used. */
static void bench_note_round(struct bench_thread *thread, const struct bench_item *items,
			     u64 begin, u64 now)
{
	cpumask_clear(&thread->in_round);
	for (unsigned int i = 0; i < thread->bench->plan.in_flight; i++) {
		if (READ_ONCE(items[i].queued_at))
			cpumask_set_cpu(READ_ONCE(items[i].cpu), &thread->in_round);
	}
	cpumask_or(&thread->used, &thread->used, &thread->in_round);
	thread->round_cpus += cpumask_weight(&thread->in_round);
	thread->nr_rounds++;
	wq_hist_add(thread->hist[BENCH_MAKESPAN], bench_ticks_to_ns(begin, now));
}

static void bench_note(struct bench_thread *thread, struct bench_item *items,
		       unsigned int first, unsigned int nr, u64 begin)
{
	const struct bench_plan *plan = &thread->bench->plan;
	u64 now = bench_ticks();

	if (plan->in_rounds && nr == plan->in_flight)
		bench_note_round(thread, items, begin, now);
	bench_note_waits(thread, items, first, nr, now);
}

/*
 * There are two sets of items. So if the thread moves before every second round, each item is
 * queued from another CPU each time.
 */
static void bench_roam(struct bench_thread *thread)
{
	if (thread->rounds % 2)
		return;
	thread->at = bench_next_cpu(thread->bench, thread->at);
	/* This fails if the CPU has gone meanwhile. */
	if (!set_cpus_allowed_ptr(current, cpumask_of(thread->at)))
		thread->moves++;
}

static void bench_wait_for_items(struct bench_thread *thread)
{
	/* No timer here: it would cost as much as some of what is timed. */
	rcuwait_wait_event(&thread->idle,
			   !atomic_read(&thread->in_flight) || READ_ONCE(thread->bench->stop),
			   TASK_IDLE);
	WRITE_ONCE(thread->rounds, thread->rounds + 1);
}

/*
 * Rounds alternate between two sets of items. An item that has just run may not
 * have returned from its function yet, and an item never runs twice at a time. If
 * it were queued again at once, it would have to wait for that worker.
 */
static bool bench_round(struct bench_thread *thread, unsigned int nr, bool timed)
{
	struct bench *bench = thread->bench;
	struct bench_item *items = &thread->items[thread->rounds % 2 * bench->plan.in_flight];
	unsigned int first = timed ? thread->next_sample : nr;
	unsigned int next;
	u64 begin = 0;

	if (bench->plan.mode == BENCH_ROAM)
		bench_roam(thread);
	if (bench->plan.in_rounds)
		begin = bench_ticks();
	atomic_set(&thread->in_flight, nr);
	if (!bench_has_wq(&bench->plan))
		next = bench_hand_over(thread, items, first, timed);
	else
		next = bench_submit_round(thread, items, nr, first, timed);
	bench_wait_for_items(thread);
	if (READ_ONCE(bench->stop))
		return false;

	if (first < nr)
		bench_note(thread, items, first, nr, begin);
	if (timed)
		thread->next_sample = next - nr;
	return true;
}

bool bench_rounds(struct bench_thread *thread, unsigned int nr, bool timed)
{
	if (thread->bench->scope == BENCH_FLOOR_LINE)
		return bench_line_rounds(thread, nr, timed);
	while (nr) {
		unsigned int now = min(nr, thread->bench->plan.in_flight);

		if (!bench_round(thread, now, timed))
			return false;
		nr -= now;
	}
	return true;
}
