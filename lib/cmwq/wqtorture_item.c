// SPDX-License-Identifier: GPL-2.0
/*
 * Items that all actors queue, move, cancel, disable and flush at once, and the accounts
 * that show whether each queueing ended exactly once. struct wqt_item says how the
 * accounts are read while others write them.
 */
#include <linux/delay.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "wqtorture.h"

/* INIT_WORK() makes one lock class for each call site, but softirq and threads need two. */
void wqt_lock_class(struct work_struct *work, bool bh)
{
	static struct lock_class_key bh_key, thread_key;

	lockdep_init_map(&work->lockdep_map, bh ? "wqt_bh_item" : "wqt_item",
			 bh ? &bh_key : &thread_key, 0);
}

/*
 * The run
 */

static void run_begins(struct wqt_item *item)
{
	long cancelled = atomic_long_read(&item->cancel_known);
	long started = atomic_long_inc_return(&item->started);
	long begun = atomic_long_read(&item->queue_begun);

	if (started + cancelled > begun)
		wqt_wrong(WQT_EXTRA, item->slot,
			  "item %d: %ld runs and %ld cancelled of %ld queued",
			  item->nr, started, cancelled, begun);
	if (!wq_tally_begins(&item->inside))
		wqt_wrong(WQT_OVERLAP, item->slot, "item %d runs twice", item->nr);
	if (item->slot->bh != !!in_serving_softirq())
		wqt_wrong(WQT_WRONG_CONTEXT, item->slot, "item %d", item->nr);
	wqt_count(item->slot->bh ? WQT_RUN_BH : WQT_RUN);
}

/* The last action of a run: whoever waited for it may look now. */
static void run_ends(struct wqt_item *item)
{
	wq_tally_ends(&item->inside);
	atomic_long_inc(&item->finished);
}

/* Queue, move, cancel or disable this item or another. */
static void run_touches_others(struct wqt_item *item)
{
	struct rnd_state *rnd = &item->rnd;
	struct wqt_slot *slot = wqt_one_in(rnd, 3) ? wqt_slot_pick(rnd) : item->slot;
	int at = srcu_read_lock(&slot->srcu);
	struct workqueue_struct *wq = srcu_dereference(slot->wq, &slot->srcu);
	struct wqt_item *other;

	if (wq) {
		other = wqt_one_in(rnd, 2) && slot == item->slot ? item :
			&slot->items[wqt_rnd(rnd, WQT_ITEMS)];
		switch (wqt_rnd(rnd, 8)) {
		case 0:
			wqt_item_cancel(other, false);
			break;
		case 1:
			wqt_item_disable(other, wq, rnd, false);
			break;
		case 2:
			wqt_item_mod(other, wq, rnd);
			break;
		default:
			wqt_item_queue(other, wq, rnd);
		}
	}
	srcu_read_unlock(&slot->srcu, at);
}

static void run_takes_time(struct wqt_item *item)
{
	struct rnd_state *rnd = &item->rnd;
	bool sleeps = !item->slot->bh;

	switch (wqt_rnd(rnd, 16)) {
	case 0:
	case 1:
		udelay(wqt_rnd(rnd, 50));
		break;
	case 2:
	case 3:
		if (sleeps)
			usleep_range(1, 1 + wqt_rnd(rnd, 200));
		break;
	case 4:
		if (sleeps)
			cond_resched();
		break;
	case 5:
		if (sleeps && wqt_one_in(rnd, 8))
			msleep(wqt_rnd(rnd, 20));
		break;
	}
}

static void item_fn(struct work_struct *work)
{
	struct wqt_item *item = container_of(work, struct wqt_item, dwork.work);
	struct wqt_inside *inside = wqt_slot_enter(item->slot);

	run_begins(item);
	if (wqt_one_in(&item->rnd, 4))
		run_touches_others(item);
	run_takes_time(item);
	if (wqt_one_in(&item->rnd, 8))
		run_touches_others(item);
	wqt_slot_leave(inside);
	run_ends(item);
}

/*
 * The calls
 */

/*
 * queue_work_on() may name an offline CPU if that CPU has workers. Timers need an online
 * CPU. So does softirq work, also when its timer expires. With preemption off no CPU goes
 * offline.
 */
static bool queue_somewhere(struct wqt_item *item, struct workqueue_struct *wq,
			    struct rnd_state *rnd)
{
	struct work_struct *work = &item->dwork.work;
	bool queued;

	if (wqt_one_in(rnd, 2))
		return queue_work(wq, work);
	if (!item->slot->bh && wqt_one_in(rnd, 2))
		return queue_work_on(wqt_any_cpu(rnd), wq, work);
	preempt_disable();
	queued = queue_work_on(wqt_online_cpu(rnd), wq, work);
	preempt_enable();
	return queued;
}

static bool delay_somewhere(struct wqt_item *item, struct workqueue_struct *wq,
			    struct rnd_state *rnd)
{
	unsigned long delay = wqt_one_in(rnd, 2) ? 0 : wqt_rnd(rnd, 4);
	bool queued;

	if (item->slot->bh || !wqt_one_in(rnd, 4))
		return queue_delayed_work(wq, &item->dwork, delay);
	preempt_disable();
	queued = queue_delayed_work_on(wqt_online_cpu(rnd), wq, &item->dwork, delay);
	preempt_enable();
	return queued;
}

bool wqt_item_queue(struct wqt_item *item, struct workqueue_struct *wq,
		    struct rnd_state *rnd)
{
	bool queued;

	atomic_long_inc(&item->queue_begun);
	/* Account for the call before it takes effect; pairs with run_begins(). */
	smp_mb__after_atomic();
	queued = item->delayed ? delay_somewhere(item, wq, rnd) :
				 queue_somewhere(item, wq, rnd);
	if (queued)
		atomic_long_inc(&item->queue_known);
	else
		atomic_long_dec(&item->queue_begun);
	wqt_count(!queued ? WQT_REFUSED : item->delayed ? WQT_DELAYED : WQT_QUEUE);
	return queued;
}

static bool is_surely_enabled(struct wqt_item *item, long *disables)
{
	*disables = atomic_long_read(&item->disable_begun);
	smp_rmb();	/* read enable_done first; see disable_ends() */
	return atomic_long_read(&item->enable_done) == *disables;
}

/*
 * mod_delayed_work() returns false if the item was idle and is now queued, or if it is
 * disabled. The two cannot be told apart if somebody disables the item in the meantime.
 */
void wqt_item_mod(struct wqt_item *item, struct workqueue_struct *wq,
		  struct rnd_state *rnd)
{
	unsigned long delay = wqt_one_in(rnd, 3) ? 0 : wqt_rnd(rnd, 5);
	long disables, later;
	bool enabled;

	if (!item->delayed)
		return;
	enabled = is_surely_enabled(item, &disables);
	atomic_long_inc(&item->move_begun);
	atomic_long_inc(&item->queue_begun);
	smp_mb__after_atomic();		/* pairs with run_begins() */
	if (mod_delayed_work(wq, &item->dwork, delay)) {
		atomic_long_dec(&item->queue_begun);
	} else {
		smp_rmb();		/* after the call; pairs with disable_begins() */
		later = atomic_long_read(&item->disable_begun);
		if (enabled && later == disables)
			atomic_long_inc(&item->queue_known);
		else
			atomic_long_inc(&item->queue_maybe);
	}
	smp_mb__before_atomic();	/* the move ends here; pairs with is_unmoved() */
	atomic_long_inc(&item->move_done);
	wqt_count(WQT_MOD);
}

/*
 * What an observer can check after a flush or a synchronous cancel: each queueing before
 * the call has been consumed, and each run that started before the call has ended.
 */
struct snapshot {
	long queued;
	long started;
	long moves;
	long cancels;
	bool unmoved;
	bool uncancelled;
};

static void snapshot_take(struct wqt_item *item, struct snapshot *snap)
{
	snap->queued = atomic_long_read(&item->queue_known);
	snap->started = atomic_long_read(&item->started);
	snap->moves = atomic_long_read(&item->move_begun);
	smp_rmb();	/* a move counted as done was counted as begun before */
	snap->unmoved = atomic_long_read(&item->move_done) == snap->moves;
	snap->cancels = atomic_long_read(&item->cancel_begun);
	snap->uncancelled = atomic_long_read(&item->cancel_known) == snap->cancels;
	smp_mb();	/* take the snapshot before the call that follows */
}

/* True if nobody else was moving the timer: during a move the item looks idle. */
static bool is_unmoved(struct wqt_item *item, const struct snapshot *snap, int own)
{
	return snap->unmoved &&
	       atomic_long_read(&item->move_begun) == snap->moves + own;
}

/*
 * If an item runs and is queued again, a task that flushes the item waits for the newer
 * queueing. If that queueing is cancelled or moved, the base kernel lets the task return
 * while the older run goes on. This counts as a violation only with flush_older=1.
 */
static bool may_overlook_run(struct wqt_item *item, const struct snapshot *snap,
			     enum wqt_wrong what, bool unmoved)
{
	if (what != WQT_FLUSH_EARLY || wqt_flush_older)
		return false;
	return !unmoved || !snap->uncancelled ||
	       atomic_long_read(&item->cancel_begun) != snap->cancels;
}

static void snapshot_check(struct wqt_item *item, const struct snapshot *snap,
			   enum wqt_wrong what, const char *call, int own_moves)
{
	bool unmoved, overlook;
	long finished, gone;

	smp_mb();	/* the preceding call has ended */
	unmoved = is_unmoved(item, snap, own_moves);
	finished = atomic_long_read(&item->finished);
	smp_rmb();	/* also see a late cancellation */
	gone = finished + atomic_long_read(&item->cancel_begun);
	overlook = may_overlook_run(item, snap, what, unmoved);
	if (finished + overlook < snap->started)
		wqt_wrong(what, item->slot, "%s(item %d): %ld started before, %ld finished",
			  call, item->nr, snap->started, finished);
	else if (unmoved && gone + overlook < snap->queued)
		wqt_wrong(what, item->slot, "%s(item %d): %ld queued before, %ld gone",
			  call, item->nr, snap->queued, gone);
}

void wqt_item_flush(struct wqt_item *item)
{
	struct snapshot snap;

	snapshot_take(item, &snap);
	if (item->delayed) {
		atomic_long_inc(&item->move_begun);
		smp_mb__after_atomic();		/* pairs with is_unmoved() */
		flush_delayed_work(&item->dwork);
		smp_mb__before_atomic();	/* pairs with is_unmoved() */
		atomic_long_inc(&item->move_done);
	} else {
		flush_work(&item->dwork.work);
	}
	snapshot_check(item, &snap, WQT_FLUSH_EARLY, "flush_work", item->delayed);
	wqt_count(WQT_FLUSH_WORK);
}

/* From here to disable_ends(), queueing may be refused. */
static void disable_begins(struct wqt_item *item)
{
	atomic_long_inc(&item->disable_begun);
	smp_mb__after_atomic();		/* counts before the call; pairs with wqt_item_mod() */
}

static void disable_ends(struct wqt_item *item)
{
	smp_mb__before_atomic();	/* enable first, then count; see is_surely_enabled() */
	atomic_long_inc(&item->enable_done);
}

static bool cancel(struct wqt_item *item, bool sync)
{
	bool was;

	if (!sync)
		return item->delayed ? cancel_delayed_work(&item->dwork) :
				       cancel_work(&item->dwork.work);
	disable_begins(item);		/* the item refuses queueing while this waits */
	was = item->delayed ? cancel_delayed_work_sync(&item->dwork) :
			      cancel_work_sync(&item->dwork.work);
	disable_ends(item);
	return was;
}

void wqt_item_cancel(struct wqt_item *item, bool sync)
{
	struct snapshot snap;

	snapshot_take(item, &snap);
	atomic_long_inc(&item->cancel_begun);
	smp_mb__after_atomic();		/* pairs with snapshot_check() */
	if (cancel(item, sync))
		atomic_long_inc(&item->cancel_known);
	else
		atomic_long_dec(&item->cancel_begun);
	if (sync)
		snapshot_check(item, &snap, WQT_CANCEL_EARLY, "cancel_sync", 0);
	wqt_count(sync ? WQT_CANCEL_SYNC : WQT_CANCEL);
}

/* The caller has disabled the item, so queueing is refused. With @sync, no run goes on either. */
static void check_disabled(struct wqt_item *item, struct workqueue_struct *wq,
			   struct rnd_state *rnd, bool sync)
{
	long started = atomic_long_read(&item->started);
	long finished = atomic_long_read(&item->finished);
	long later;

	if (sync && finished != started)
		wqt_wrong(WQT_DISABLED_RAN, item->slot, "item %d: %ld started, %ld finished",
			  item->nr, started, finished);
	if (wqt_item_queue(item, wq, rnd))
		wqt_wrong(WQT_BAD_RETURN, item->slot, "item %d is queued though disabled",
			  item->nr);
	udelay(wqt_rnd(rnd, 20));
	later = atomic_long_read(&item->started);
	if (sync && later != started)
		wqt_wrong(WQT_DISABLED_RAN, item->slot, "item %d: %ld runs, %ld before",
			  item->nr, later, started);
}

static bool disable(struct wqt_item *item, bool sync)
{
	if (item->delayed)
		return sync ? disable_delayed_work_sync(&item->dwork) :
			      disable_delayed_work(&item->dwork);
	return sync ? disable_work_sync(&item->dwork.work) :
		      disable_work(&item->dwork.work);
}

void wqt_item_disable(struct wqt_item *item, struct workqueue_struct *wq,
		      struct rnd_state *rnd, bool sync)
{
	struct snapshot snap;

	snapshot_take(item, &snap);
	disable_begins(item);
	atomic_long_inc(&item->cancel_begun);
	smp_mb__after_atomic();		/* pairs with snapshot_check() */
	if (disable(item, sync))
		atomic_long_inc(&item->cancel_known);
	else
		atomic_long_dec(&item->cancel_begun);
	if (sync)
		snapshot_check(item, &snap, WQT_CANCEL_EARLY, "disable_sync", 0);
	check_disabled(item, wq, rnd, sync);
	if (item->delayed)
		enable_delayed_work(&item->dwork);
	else
		enable_work(&item->dwork.work);
	disable_ends(item);
	wqt_count(WQT_DISABLE);
}

/* Items queued on @wq before the call must finish. An item whose timer runs is not queued yet. */
void wqt_flush_wq(struct wqt_slot *slot, struct workqueue_struct *wq)
{
	struct snapshot snaps[WQT_ITEMS];
	int i;

	for (i = 0; i < WQT_ITEMS; i++)
		snapshot_take(&slot->items[i], &snaps[i]);
	flush_workqueue(wq);
	for (i = 0; i < WQT_ITEMS; i++)
		if (!slot->items[i].delayed)
			snapshot_check(&slot->items[i], &snaps[i], WQT_FLUSH_WQ_EARLY,
				       "flush_workqueue", 0);
	wqt_count(WQT_FLUSH_WQ);
}

/*
 * Begin and end
 */

static void accounts_open(struct wqt_item *item)
{
	atomic_long_set(&item->queue_begun, 0);
	atomic_long_set(&item->queue_known, 0);
	atomic_long_set(&item->queue_maybe, 0);
	atomic_long_set(&item->cancel_begun, 0);
	atomic_long_set(&item->cancel_known, 0);
	atomic_long_set(&item->started, 0);
	atomic_long_set(&item->finished, 0);
	atomic_long_set(&item->disable_begun, 0);
	atomic_long_set(&item->enable_done, 0);
	atomic_long_set(&item->move_begun, 0);
	atomic_long_set(&item->move_done, 0);
}

void wqt_item_init(struct wqt_item *item, struct wqt_slot *slot, int nr)
{
	item->slot = slot;
	item->nr = nr;
	item->delayed = nr % 2;
	prandom_seed_state(&item->rnd,
			   ((u64)wqt_seed << 32) + (slot - wqt_slots) * WQT_ITEMS + nr);
	INIT_DELAYED_WORK(&item->dwork, item_fn);
	wqt_lock_class(&item->dwork.work, slot->bh);
	accounts_open(item);
}

/* With no other users, the effects of disabling, enabling and cancelling are exact. */
static void check_switches(struct wqt_item *item)
{
	if (disable_work(&item->dwork.work))
		wqt_wrong(WQT_BAD_RETURN, item->slot, "disabling cancels item %d, which is idle",
			  item->nr);
	if (!enable_work(&item->dwork.work))
		wqt_wrong(WQT_BAD_RETURN, item->slot, "item %d stays disabled", item->nr);
	if (!item->delayed)
		return;
	if (!schedule_delayed_work(&item->dwork, 3600 * HZ))
		wqt_wrong(WQT_BAD_RETURN, item->slot, "item %d is idle, but refused", item->nr);
	else if (!cancel_delayed_work(&item->dwork))
		wqt_wrong(WQT_BAD_RETURN, item->slot, "the timer of item %d is not cancelled",
			  item->nr);
}

/* Nobody uses the item any more and no call is in progress: the accounts must agree. */
void wqt_item_settled(struct wqt_item *item)
{
	long begun = atomic_long_read(&item->queue_begun);
	long maybe = atomic_long_read(&item->queue_maybe);
	long started = atomic_long_read(&item->started);
	long finished = atomic_long_read(&item->finished);
	long cancelled = atomic_long_read(&item->cancel_known);

	if (finished != started)
		wqt_wrong(WQT_FLUSH_WQ_EARLY, item->slot, "item %d: %ld started, %ld finished",
			  item->nr, started, finished);
	if (started + cancelled < begun - maybe)
		wqt_wrong(WQT_LOST, item->slot,
			  "item %d: %ld to %ld queued, %ld runs, %ld cancelled",
			  item->nr, begun - maybe, begun, started, cancelled);
	if (started + cancelled > begun)
		wqt_wrong(WQT_EXTRA, item->slot, "item %d: %ld queued, %ld runs, %ld cancelled",
			  item->nr, begun, started, cancelled);
	check_switches(item);
	if (work_busy(&item->dwork.work))
		wqt_wrong(WQT_LOST, item->slot, "item %d is busy", item->nr);
	accounts_open(item);
}
