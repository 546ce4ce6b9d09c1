// SPDX-License-Identifier: GPL-2.0
/*
 * The exact value of max_active: never do more items run, and never do fewer while work
 * waits, not even after the limit was raised. Each round has a workqueue of its own, whose items
 * wait to be released.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/nodemask.h>
#include <linux/slab.h>

#include "wqtorture.h"

#define MOST		24
#define PASSING		16
#define SURE_SHARE	8	/* no node has less of an unbound workqueue */

struct limit_round {
	struct workqueue_struct *wq;
	struct completion gate;
	atomic_t inside;
	atomic_t runs;
	int limit;
	bool unbound;
	unsigned int masks;		/* epoch; while it stays the same, so do the pools */
	unsigned long topology;
	struct work_struct passing[PASSING];
};

struct gated {
	struct work_struct work;
	struct limit_round *round;
};

/* Has the unbound workqueue kept its pools? After a change its share may differ. */
static bool has_one_share(const struct limit_round *round)
{
	return !round->unbound ||
	       (wqt_topology_whole() && !(round->masks & 1) &&
		round->masks == wqt_masks_epoch() &&
		round->topology == wqt_topology_epoch());
}

static void gated_fn(struct work_struct *work)
{
	struct limit_round *round = container_of(work, struct gated, work)->round;
	int inside = atomic_inc_return(&round->inside);

	if (inside > READ_ONCE(round->limit) && has_one_share(round))
		wqt_wrong(WQT_OVER_LIMIT, NULL, "%d run in a round's own workqueue, limit %d",
			  inside, READ_ONCE(round->limit));
	atomic_inc(&round->runs);
	wqt_count(WQT_RUN);
	wait_for_completion(&round->gate);
	atomic_dec(&round->inside);
}

/*
 * Items that end at once, on random CPUs, while others come in.  If a CPU kept the slots that
 * its items used, these slots might be missing afterwards.
 */
static void passing_fn(struct work_struct *work)
{
	wqt_count(WQT_RUN);
}

static void queue_passing(struct limit_round *round, struct rnd_state *rnd)
{
	int i, nr = wqt_one_in(rnd, 2) ? PASSING : 0;

	for (i = 0; i < nr; i++) {
		INIT_WORK(&round->passing[i], passing_fn);
		queue_work_on(wqt_any_cpu(rnd), round->wq, &round->passing[i]);
	}
	if (wqt_one_in(rnd, 2))
		udelay(wqt_rnd(rnd, 50));
}

static void expect_inside(struct limit_round *round, int nr, const char *when)
{
	unsigned long end = jiffies + wqt_stall * HZ;

	while (atomic_read(&round->inside) < nr) {
		if (time_after(jiffies, end)) {
			wqt_wrong(WQT_UNDER_LIMIT, NULL, "%d of %d run %s",
				  atomic_read(&round->inside), nr, when);
			wqt_show_state();
			return;
		}
		usleep_range(100, 500);
	}
}

/* Queues up to MOST items on one CPU. Then raises the limit in up to two steps. */
static void fill_and_raise(struct limit_round *round, struct gated *items,
			   struct rnd_state *rnd, int nr)
{
	int cpu = wqt_any_cpu(rnd);
	int i, limit;

	queue_passing(round, rnd);
	for (i = 0; i < nr; i++)
		if (!queue_work_on(cpu, round->wq, &items[i].work))
			wqt_wrong(WQT_BAD_RETURN, NULL, "a gated item is refused");
	expect_inside(round, min(nr, round->limit), "at first");
	for (i = wqt_rnd(rnd, 3); i; i--) {
		limit = round->limit + 1 + wqt_rnd(rnd, 5);
		if (round->unbound)
			limit = min(limit, SURE_SHARE);
		WRITE_ONCE(round->limit, limit);
		workqueue_set_max_active(round->wq, limit);
		expect_inside(round, min(nr, limit), "after raising max_active");
	}
	complete_all(&round->gate);
	flush_workqueue(round->wq);
	if (atomic_read(&round->runs) != nr || atomic_read(&round->inside))
		wqt_wrong(WQT_LOST, NULL, "%d of %d gated items ran, %d still run",
			  atomic_read(&round->runs), nr, atomic_read(&round->inside));
}

/* The limit of an unbound workqueue is known exactly only if there is one node. */
static unsigned int pick_flags(struct rnd_state *rnd)
{
	static const unsigned int flags[] = {
		WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI, WQ_PERCPU | WQ_CPU_INTENSIVE,
		WQ_PERCPU | WQ_MEM_RECLAIM, WQ_UNBOUND, WQ_UNBOUND | WQ_MEM_RECLAIM,
	};

	return flags[wqt_rnd(rnd, num_online_nodes() == 1 ? ARRAY_SIZE(flags) : 4)];
}

static void gated_round(struct limit_round *round, struct gated *items, struct rnd_state *rnd)
{
	int i, nr = 1 + wqt_rnd(rnd, MOST);
	unsigned int flags = pick_flags(rnd);

	init_completion(&round->gate);
	round->limit = 1 + wqt_rnd(rnd, SURE_SHARE);
	round->unbound = flags & WQ_UNBOUND;
	round->masks = wqt_masks_epoch();
	round->topology = wqt_topology_epoch();
	round->wq = alloc_workqueue("wqt_limit", flags, round->limit);
	if (!round->wq)
		return;
	for (i = 0; i < nr; i++) {
		INIT_WORK(&items[i].work, gated_fn);
		items[i].round = round;
	}
	fill_and_raise(round, items, rnd, nr);
	destroy_workqueue(round->wq);
	wqt_count(WQT_LIMIT);
}

/* Skipped while threads are scarce or slow to create: fewer items run then, which is right. */
void wqt_limit_round(struct wqt_actor *actor)
{
	struct limit_round *round = kzalloc(sizeof(*round), GFP_KERNEL);
	struct gated *items = kcalloc(MOST, sizeof(*items), GFP_KERNEL);

	if (round && items && down_read_trylock(&wqt_famine_sem)) {
		wqt_at(actor, "a round of max_active", NULL);
		gated_round(round, items, &actor->rnd);
		up_read(&wqt_famine_sem);
	}
	kfree(items);
	kfree(round);
}
