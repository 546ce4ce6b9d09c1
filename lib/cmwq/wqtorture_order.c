// SPDX-License-Identifier: GPL-2.0
/*
 * Items that one thread queues one after the other on one CPU of a per-CPU workqueue
 * start in that order. The order can be checked where one item runs at a time: with a
 * max_active of 1, and in softirq. With a higher max_active, two workers may each have
 * taken an item, and one that is preempted starts its item later. That is counted, but it
 * is no violation.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/preempt.h>
#include <linux/slab.h>

#include "wqtorture.h"

#define MOST	48

struct row {
	atomic_t started;
	bool one_by_one;
};

struct ranked {
	struct work_struct work;
	struct row *row;
	int rank;
};

static void ranked_fn(struct work_struct *work)
{
	struct ranked *item = container_of(work, struct ranked, work);
	int rank = atomic_inc_return(&item->row->started);

	wqt_count(in_serving_softirq() ? WQT_RUN_BH : WQT_RUN);
	if (item->row->one_by_one)
		wqt_count(WQT_START_CHECKED);
	if (item->rank % 4 == 1 && !in_serving_softirq())
		usleep_range(10, 100);
	if (rank == item->rank)
		return;
	if (item->row->one_by_one)
		wqt_wrong(WQT_START_ORDER, NULL, "item %d starts as number %d",
			  item->rank, rank);
	else
		wqt_count(WQT_START_SWAPPED);
}

/* Softirqs need an online CPU. It stays online while preemption is disabled. */
static int queue_row(struct workqueue_struct *wq, struct ranked *items, struct row *row,
		     struct rnd_state *rnd, bool bh)
{
	int i, nr = 2 + wqt_rnd(rnd, MOST - 1), cpu = wqt_any_cpu(rnd);
	bool queued;

	for (i = 0; i < nr; i++) {
		INIT_WORK(&items[i].work, ranked_fn);
		wqt_lock_class(&items[i].work, bh);
		items[i].row = row;
		items[i].rank = i + 1;
		preempt_disable();
		if (bh && !cpu_online(cpu))
			nr = i;
		queued = i == nr || queue_work_on(cpu, wq, &items[i].work);
		preempt_enable();
		if (!queued)
			wqt_wrong(WQT_BAD_RETURN, NULL, "a new item is refused");
	}
	return nr;
}

static void order_round(struct ranked *items, struct rnd_state *rnd)
{
	static const struct wqt_kind kinds[] = {
		{ "", WQ_PERCPU, 1 },
		{ "", WQ_PERCPU | WQ_HIGHPRI, 1 },
		{ "", WQ_PERCPU | WQ_MEM_RECLAIM, 1 },
		{ "", WQ_PERCPU | WQ_CPU_INTENSIVE, 1 },
		{ "", WQ_COMPAT_BH },
		{ "", WQ_COMPAT_BH | WQ_HIGHPRI },
		{ "", WQ_PERCPU, 4 },
	};
	const struct wqt_kind *kind = &kinds[wqt_rnd(rnd, ARRAY_SIZE(kinds))];
	bool bh = kind->flags & WQ_BH;
	struct workqueue_struct *wq;
	struct row row;
	int nr;

	wq = alloc_workqueue("wqt_order", kind->flags, kind->max_active);
	if (!wq)
		return;
	atomic_set(&row.started, 0);
	row.one_by_one = bh || kind->max_active == 1;
	nr = queue_row(wq, items, &row, rnd, bh);
	destroy_workqueue(wq);
	if (atomic_read(&row.started) != nr)
		wqt_wrong(WQT_LOST, NULL, "%d of %d items in a row started",
			  atomic_read(&row.started), nr);
}

void wqt_order_round(struct wqt_actor *actor)
{
	struct ranked *items = kcalloc(MOST, sizeof(*items), GFP_KERNEL);

	wqt_at(actor, "a row of items", NULL);
	if (items)
		order_round(items, &actor->rnd);
	kfree(items);
}
