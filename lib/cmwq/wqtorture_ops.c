// SPDX-License-Identifier: GPL-2.0
/*
 * The writers: threads that do everything that the API allows, at random.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "wqtorture.h"

/* The slot's workqueue; it stays while the caller is in the read-side section. */
static struct workqueue_struct *slot_use(struct wqt_slot *slot, int *at)
{
	*at = srcu_read_lock(&slot->srcu);
	return srcu_dereference(slot->wq, &slot->srcu);
}

static void tokens(struct wqt_slot *slot, struct workqueue_struct *wq,
		   struct rnd_state *rnd, int most, gfp_t gfp)
{
	int n = 1 + wqt_rnd(rnd, most);

	while (n--)
		if (wqt_token_queue(slot, wq, rnd, gfp, NULL))
			break;
}

/* Operations that are allowed in any context. */
static void quick_op(struct wqt_slot *slot, struct workqueue_struct *wq, struct rnd_state *rnd)
{
	struct wqt_item *item = &slot->items[wqt_rnd(rnd, WQT_ITEMS)];

	switch (wqt_rnd(rnd, 16)) {
	case 0:
		wqt_item_cancel(item, false);
		break;
	case 1:
		wqt_item_disable(item, wq, rnd, false);
		break;
	case 2:
	case 3:
		wqt_item_mod(item, wq, rnd);
		break;
	case 4:
	case 5:
		/* with PREEMPT_RT, a hard interrupt must not allocate */
		if (!in_hardirq()) {
			tokens(slot, wq, rnd, 4, GFP_ATOMIC);
			break;
		}
		fallthrough;
	default:
		wqt_item_queue(item, wq, rnd);
	}
}

/* One such operation; an interrupt has no time for more. */
void wqt_quick_op(struct wqt_actor *actor)
{
	struct wqt_slot *slot = wqt_slot_pick(&actor->rnd);
	struct workqueue_struct *wq;
	int at;

	wqt_at(actor, "an operation in interrupt", slot);
	wq = slot_use(slot, &at);
	if (wq)
		quick_op(slot, wq, &actor->rnd);
	srcu_read_unlock(&slot->srcu, at);
	wqt_at(actor, NULL, NULL);
}

struct owned {
	struct delayed_work dwork;
	unsigned long ran;		/* time of the last run, in jiffies */
	atomic_t runs;
};

static void owned_fn(struct work_struct *work)
{
	struct owned *owned = container_of(work, struct owned, dwork.work);

	WRITE_ONCE(owned->ran, jiffies);
	atomic_inc(&owned->runs);
}

/* An item on the stack: nobody may look at it after flush_work(). */
static void stack_op(struct wqt_slot *slot, struct workqueue_struct *wq)
{
	struct owned owned = { };

	INIT_WORK_ONSTACK(&owned.dwork.work, owned_fn);
	wqt_lock_class(&owned.dwork.work, slot->bh);
	if (!queue_work(wq, &owned.dwork.work))
		wqt_wrong(WQT_BAD_RETURN, slot, "a new item on the stack is refused");
	flush_work(&owned.dwork.work);
	if (atomic_read(&owned.runs) != 1)
		wqt_wrong(WQT_FLUSH_EARLY, slot, "an item on the stack ran %d times",
			  atomic_read(&owned.runs));
	destroy_work_on_stack(&owned.dwork.work);
	wqt_count(WQT_STACK);
}

static bool wait_for_runs(struct owned *owned, int runs)
{
	unsigned long end = jiffies + wqt_stall * HZ;

	while (atomic_read(&owned->runs) < runs) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(200, 2000);
	}
	return true;
}

/*
 * A timer that only this caller moves. If mod_delayed_work() returns true, the item had not
 * started, and there will be exactly one run, no earlier than the new time.
 */
static void move_timer(struct owned *owned, struct wqt_slot *slot,
		       struct workqueue_struct *wq, struct rnd_state *rnd)
{
	unsigned long first = wqt_one_in(rnd, 2) ? 1000 * HZ : 1 + wqt_rnd(rnd, 3);
	unsigned long second = wqt_rnd(rnd, 6);
	unsigned long now, due;
	int runs = 1;

	atomic_set(&owned->runs, 0);
	if (!queue_delayed_work(wq, &owned->dwork, first))
		wqt_wrong(WQT_BAD_RETURN, slot, "a new delayed item is refused");
	if (wqt_one_in(rnd, 2))
		usleep_range(1, 20000);
	now = jiffies;
	if (!mod_delayed_work(wq, &owned->dwork, second)) {
		runs = 2;
		if (first == 1000 * HZ)
			wqt_wrong(WQT_BAD_RETURN, slot, "mod_delayed_work() overlooks a timer");
	}
	due = now + second;
	if (!wait_for_runs(owned, runs))
		wqt_wrong(WQT_LOST, slot, "%d runs of %d after moving a timer",
			  atomic_read(&owned->runs), runs);
	else if (time_before(READ_ONCE(owned->ran), due))
		wqt_wrong(WQT_EARLY, slot, "%lu jiffies before the time it was moved to",
			  due - READ_ONCE(owned->ran));
	if (cancel_delayed_work_sync(&owned->dwork) || atomic_read(&owned->runs) > runs)
		wqt_wrong(WQT_EXTRA, slot, "%d runs of %d after moving a timer",
			  atomic_read(&owned->runs), runs);
	wqt_count(WQT_MOVED);
}

static void move_op(struct wqt_slot *slot, struct workqueue_struct *wq, struct rnd_state *rnd)
{
	struct owned *owned = kzalloc(sizeof(*owned), GFP_KERNEL);

	if (!owned)
		return;
	INIT_DELAYED_WORK(&owned->dwork, owned_fn);
	wqt_lock_class(&owned->dwork.work, slot->bh);
	move_timer(owned, slot, wq, rnd);
	kfree(owned);
}

/* Operations that may sleep. */
static void slow_op(struct wqt_actor *actor, struct wqt_slot *slot, struct workqueue_struct *wq)
{
	struct rnd_state *rnd = &actor->rnd;
	struct wqt_item *item = &slot->items[wqt_rnd(rnd, WQT_ITEMS)];

	switch (wqt_rnd(rnd, 16)) {
	case 0 ... 3:
		wqt_at(actor, "flush_work", slot);
		wqt_item_flush(item);
		break;
	case 4 ... 7:
		wqt_at(actor, "cancel_sync", slot);
		wqt_item_cancel(item, true);
		break;
	case 8 ... 9:
		wqt_at(actor, "disable_sync", slot);
		wqt_item_disable(item, wq, rnd, true);
		break;
	case 10:
		wqt_at(actor, "flush_workqueue", slot);
		wqt_flush_wq(slot, wq);
		break;
	case 11:
		wqt_at(actor, "moving a timer", slot);
		move_op(slot, wq, rnd);
		break;
	case 12:
		wqt_at(actor, "an item on the stack", slot);
		stack_op(slot, wq);
		break;
	default:
		wqt_at(actor, "a burst", slot);
		tokens(slot, wq, rnd, 40, GFP_KERNEL);
	}
}

static void settle_op(struct wqt_actor *actor, struct wqt_slot *slot)
{
	if (!mutex_trylock(&slot->attrs_lock))
		return;
	wqt_slot_settle(slot, actor, true);
	mutex_unlock(&slot->attrs_lock);
}

static void writer_op(struct wqt_actor *actor)
{
	struct wqt_slot *slot = wqt_slot_pick(&actor->rnd);
	u32 dice = wqt_rnd(&actor->rnd, 1000);
	struct workqueue_struct *wq;
	int at;

	if (dice < 3) {
		settle_op(actor, slot);
		return;
	}
	if (dice < 5) {
		wqt_limit_round(actor);
		return;
	}
	if (dice < 8) {
		wqt_order_round(actor);
		return;
	}
	wq = slot_use(slot, &at);
	if (wq && dice < 800) {
		wqt_at(actor, "an operation", slot);
		quick_op(slot, wq, &actor->rnd);
	} else if (wq) {
		slow_op(actor, slot, wq);
	}
	srcu_read_unlock(&slot->srcu, at);
}

int wqt_writer(void *arg)
{
	struct wqt_actor *actor = arg;

	while (!wqt_over() && !wqt_must_stop()) {
		writer_op(actor);
		wqt_at(actor, NULL, NULL);
		if (wqt_one_in(&actor->rnd, 64))
			usleep_range(1, 500);
		cond_resched();
		WRITE_ONCE(wqt_resting, true);
		wqt_pause("wqt_writer");
		WRITE_ONCE(wqt_resting, false);
	}
	return wqt_actor_ends(actor);
}
