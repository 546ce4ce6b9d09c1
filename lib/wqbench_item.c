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

/*
 * The xchg() lets exactly one execution of each submission through, and only that
 * one counts down. A second run therefore cannot hide a lost item.
 */
void bench_item_fn(struct work_struct *work)
{
	struct bench_item *item = container_of(work, struct bench_item, work);
	struct bench_thread *thread = item->owner;
	struct bench *bench = thread->bench;

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

static void bench_submit(struct bench_thread *thread, struct bench_item *item, bool timed)
{
	u64 before, after;
	bool queued;

	/* Seen by the item's function: a successful queue_work() is a full barrier. */
	WRITE_ONCE(item->state, ITEM_QUEUED);

	before = bench_ticks();
	queued = queue_work(thread->bench->wq, &item->work);
	after = bench_ticks();

	if (timed)
		wq_hist_add(thread->hist, bench_ticks_to_ns(before, after));
	if (queued)
		return;

	/* Its last run began before the submitter was woken: it cannot be pending. */
	thread->refused++;
	WRITE_ONCE(item->state, ITEM_IDLE);
	atomic_dec(&thread->in_flight);
}

/*
 * Rounds alternate between two sets of items. An item that has just run may not
 * have returned from its function yet, and an item never runs twice at a time. If
 * it were queued again at once, it would have to wait for that worker.
 */
static bool bench_round(struct bench_thread *thread, unsigned int nr, bool timed)
{
	struct bench *bench = thread->bench;
	unsigned int first = thread->rounds % 2 * bench->plan.in_flight;

	atomic_set(&thread->in_flight, nr);
	for (unsigned int i = 0; i < nr && !READ_ONCE(bench->stop); i++) {
		bench_submit(thread, &thread->items[first + i], timed);
		cond_resched();
	}

	/* No timer here: it would cost as much as some of what is timed. */
	rcuwait_wait_event(&thread->idle,
			   !atomic_read(&thread->in_flight) || READ_ONCE(bench->stop),
			   TASK_IDLE);
	WRITE_ONCE(thread->rounds, thread->rounds + 1);
	return !READ_ONCE(bench->stop);
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
