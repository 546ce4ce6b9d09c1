// SPDX-License-Identifier: GPL-2.0
/*
 * Items, and the loop that queues them
 */
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

	if (READ_ONCE(item->queued_at))
		WRITE_ONCE(item->started, bench_ticks());
	return item;
}

/*
 * The xchg() lets exactly one execution of each submission through, and only that
 * one counts down. A second run therefore cannot hide a lost item.
 */
static void bench_end_item(struct bench_item *item)
{
	struct bench_thread *thread = item->owner;
	struct bench *bench = thread->bench;

	/* A BH item has no worker: it interrupts whoever runs. */
	if (bench->plan.kind != BENCH_BH)
		bench_note_worker(&bench->workers, current->pid);
	if (bench->judge && !cpumask_test_cpu(raw_smp_processor_id(), &thread->pod))
		atomic_inc(&thread->outside);

	if (xchg(&item->state, ITEM_RAN) != ITEM_QUEUED) {
		atomic_inc(&thread->twice);
		return;
	}
	if (atomic_dec_and_test(&thread->in_flight))
		rcuwait_wake_up(&thread->idle);
}

void bench_item_fn(struct work_struct *work)
{
	bench_end_item(bench_start_item(work));
}

static __always_inline void bench_submit(struct bench_thread *thread, struct bench_item *item,
					 bool timed, bool sampled)
{
	u64 before, after;
	bool queued;

	/* Seen by the item's function: a successful queue_work() is a full barrier. */
	WRITE_ONCE(item->state, ITEM_QUEUED);

	before = bench_ticks();
	if (sampled)
		WRITE_ONCE(item->queued_at, before);
	queued = queue_work(thread->bench->wq, &item->work);
	after = bench_ticks();

	if (timed)
		wq_hist_add(thread->hist[BENCH_CALL], bench_ticks_to_ns(before, after));
	if (queued)
		return;

	/* Its last run began before the submitter was woken: it cannot be pending. */
	thread->refused++;
	WRITE_ONCE(item->state, ITEM_IDLE);
	if (sampled)
		WRITE_ONCE(item->queued_at, 0);
	atomic_dec(&thread->in_flight);
}

/*
 * The wait of the item with number @next is recorded, and of each so manieth after it.
 * For all others this is a loop of its own, to which that adds nothing.
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
			cond_resched();
		}
	}
	return next;
}

/* All items of the round ran. Of each sample, add up how long what took. */
static void bench_note_waits(struct bench_thread *thread, struct bench_item *items,
			     unsigned int first, unsigned int nr)
{
	u64 now = bench_ticks();

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

	atomic_set(&thread->in_flight, nr);
	next = bench_submit_round(thread, items, nr, first, timed);

	/* No timer here: it would cost as much as some of what is timed. */
	rcuwait_wait_event(&thread->idle,
			   !atomic_read(&thread->in_flight) || READ_ONCE(bench->stop),
			   TASK_IDLE);
	WRITE_ONCE(thread->rounds, thread->rounds + 1);
	if (READ_ONCE(bench->stop))
		return false;

	if (first < nr)
		bench_note_waits(thread, items, first, nr);
	if (timed)
		thread->next_sample = next - nr;
	return true;
}

bool bench_rounds(struct bench_thread *thread, unsigned int nr, bool timed)
{
	while (nr) {
		unsigned int now = min(nr, thread->bench->plan.in_flight);

		if (!bench_round(thread, now, timed))
			return false;
		nr -= now;
	}
	return true;
}
