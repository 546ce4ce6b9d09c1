// SPDX-License-Identifier: GPL-2.0
/*
 * The workqueues: one of each kind, in a slot. Now and then an actor takes one out of its
 * slot, finishes everything on it, checks the accounts, and puts it or a new one back.
 */
#define pr_fmt(fmt) "wqtorture: " fmt

#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "wqtorture.h"

static const struct wqt_kind kinds[] = {
	{ "percpu",		WQ_PERCPU },
	{ "percpu_1",		WQ_PERCPU, 1 },
	{ "percpu_highpri",	WQ_PERCPU | WQ_HIGHPRI, 4 },
	{ "percpu_intensive",	WQ_PERCPU | WQ_CPU_INTENSIVE, 3 },
	{ "percpu_reclaim",	WQ_PERCPU | WQ_MEM_RECLAIM, 2 },
	{ "percpu_freezable",	WQ_PERCPU | WQ_FREEZABLE, 16 },
	{ "unbound",		WQ_UNBOUND | WQ_SYSFS },
	{ "unbound_1",		WQ_UNBOUND | WQ_SYSFS, 1 },
	{ "unbound_highpri",	WQ_UNBOUND | WQ_SYSFS | WQ_HIGHPRI, 3 },
	{ "unbound_reclaim",	WQ_UNBOUND | WQ_SYSFS | WQ_MEM_RECLAIM, 2 },
	{ "unbound_freezable",	WQ_UNBOUND | WQ_SYSFS | WQ_FREEZABLE, 8 },
	{ "ordered",		WQ_UNBOUND, 1, true },
	{ "ordered_reclaim",	WQ_UNBOUND | WQ_MEM_RECLAIM, 1, true },
	{ "ordered_freezable",	WQ_UNBOUND | WQ_FREEZABLE, 1, true },
	{ "bh",			WQ_COMPAT_BH },
	{ "bh_highpri",		WQ_COMPAT_BH | WQ_HIGHPRI },
};

struct wqt_slot *wqt_slots;
int wqt_nr_slots;

struct wqt_slot *wqt_slot_pick(struct rnd_state *rnd)
{
	return &wqt_slots[wqt_rnd(rnd, wqt_nr_slots)];
}

/*
 * How many items may run at once. Each node has a share of an unbound workqueue's limit, at
 * least min(limit, 8), and so do pools that span nodes. While attributes change, items of both
 * kinds of pool may run. wqtorture_limit.c checks more closely.
 */
static int ceiling(const struct wqt_slot *slot)
{
	int limit = READ_ONCE(slot->limit);

	if (slot->bound || slot->kind->ordered || limit > WQ_MAX_ACTIVE)
		return limit;
	return 2 * limit + (num_online_nodes() - 1) * min(limit, 8);
}

/*
 * The count that a run belongs to. An unbound workqueue has one. A bound one has one for each
 * CPU: that to which the worker is bound; NULL if it is bound to none, or not all CPUs are up.
 */
static struct wqt_inside *inside_of(struct wqt_slot *slot)
{
	if (!slot->bound)
		return per_cpu_ptr(slot->inside, cpumask_first(cpu_possible_mask));
	if (!wqt_topology_whole() || (!slot->bh && current->nr_cpus_allowed != 1))
		return NULL;
	return per_cpu_ptr(slot->inside, raw_smp_processor_id());
}

struct wqt_inside *wqt_slot_enter(struct wqt_slot *slot)
{
	struct wqt_inside *inside = inside_of(slot);
	int nr;

	if (!inside)
		return NULL;
	nr = atomic_inc_return(&inside->nr);
	if (nr > ceiling(slot))
		wqt_wrong(WQT_OVER_LIMIT, slot, "%d run at once, allowed are %d",
			  nr, ceiling(slot));
	return inside;
}

void wqt_slot_leave(struct wqt_inside *inside)
{
	if (inside)
		atomic_dec(&inside->nr);
}

static struct workqueue_struct *make_wq(const struct wqt_kind *kind)
{
	if (kind->ordered)
		return alloc_ordered_workqueue("wqt_%s", kind->flags, kind->name);
	return alloc_workqueue("wqt_%s", kind->flags, kind->max_active, kind->name);
}

/* Tries until it succeeds: memory may be short on purpose. */
static void open_slot(struct wqt_slot *slot, struct workqueue_struct *wq)
{
	while (!wq) {
		wq = make_wq(slot->kind);
		if (!wq)
			msleep(20);
	}
	rcu_assign_pointer(slot->wq, wq);
}

static void fresh_limits(struct wqt_slot *slot)
{
	slot->max_active = slot->kind->max_active;
	slot->limit = slot->bh ? 1 : slot->max_active ?: INT_MAX;
	slot->ticket = 0;
	slot->served = 0;
	wqt_forget_attrs(slot);
}

/* False: it takes longer than @ticks. */
bool wqt_wait_for_zero(const atomic_t *nr, unsigned long ticks)
{
	unsigned long end = jiffies + ticks;

	while (atomic_read(nr)) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(100, 1000);
	}
	return true;
}

/*
 * No timer may be left when the workqueue is destroyed. destroy_workqueue() waits for all
 * other items. Returns false if items are still on their way and may yet be queued.
 */
static bool bring_to_end(struct wqt_slot *slot, struct rnd_state *rnd)
{
	/* until the start is over, threads may be scarce for long; the monitor reports that */
	unsigned long limit = READ_ONCE(wqt_started) ? wqt_stall * HZ : MAX_JIFFY_OFFSET;
	int i;

	if (!wqt_wait_for_zero(&slot->late, limit)) {
		wqt_wrong(WQT_LOST, slot, "%d items are stuck between timer or RCU and queue",
			  atomic_read(&slot->late));
		return false;
	}
	for (i = 0; i < WQT_ITEMS; i++) {
		if (wqt_one_in(rnd, 2))
			wqt_item_cancel(&slot->items[i], true);
		else if (slot->items[i].delayed || wqt_one_in(rnd, 2))
			wqt_item_flush(&slot->items[i]);
	}
	return true;
}

static void check_accounts(struct wqt_slot *slot)
{
	int i;

	if (atomic_read(&slot->tokens))
		wqt_wrong(WQT_LOST, slot, "%d items that were queued once",
			  atomic_read(&slot->tokens));
	for (i = 0; i < WQT_ITEMS; i++)
		wqt_item_settled(&slot->items[i]);
}

/*
 * Take the workqueue out of its slot. After the grace period only its own items use it.
 * Only tokens still queue themselves again, a few times. Then check that everything has
 * finished. The caller holds @slot->attrs_lock.
 */
void wqt_slot_settle(struct wqt_slot *slot, struct wqt_actor *actor, bool reopen)
{
	struct workqueue_struct *wq;

	wq = rcu_dereference_protected(slot->wq, lockdep_is_held(&slot->attrs_lock));
	wqt_at(actor, "closing", slot);
	RCU_INIT_POINTER(slot->wq, NULL);
	synchronize_srcu(&slot->srcu);
	wqt_at(actor, "settling items", slot);
	if (!bring_to_end(slot, &actor->rnd)) {
		rcu_assign_pointer(slot->wq, wq);	/* late items still need it */
		return;
	}
	if (!reopen || wqt_one_in(&actor->rnd, 2)) {
		wqt_at(actor, "destroy_workqueue", slot);
		destroy_workqueue(wq);
		wq = NULL;
		wqt_count(WQT_DESTROY);
	} else {
		wqt_at(actor, "drain_workqueue", slot);
		drain_workqueue(wq);
		wqt_count(WQT_DRAIN);
	}
	check_accounts(slot);
	if (!wq)
		fresh_limits(slot);
	if (reopen)
		open_slot(slot, wq);
}

/* At the end, without other users. */
void wqt_slots_finish(struct wqt_actor *actor)
{
	int i;

	for (i = 0; i < wqt_nr_slots; i++) {
		mutex_lock(&wqt_slots[i].attrs_lock);
		wqt_slot_settle(&wqt_slots[i], actor, false);
		mutex_unlock(&wqt_slots[i].attrs_lock);
	}
	wqt_at(actor, NULL, NULL);
}

static int slot_init(struct wqt_slot *slot, const struct wqt_kind *kind)
{
	struct workqueue_struct *wq;
	int i;

	slot->kind = kind;
	slot->bh = kind->flags & WQ_BH;
	slot->bound = !(kind->flags & WQ_UNBOUND);
	slot->unbound_attrs = kind->flags & WQ_SYSFS;
	mutex_init(&slot->attrs_lock);
	spin_lock_init(&slot->order_lock);
	slot->items = kcalloc(WQT_ITEMS, sizeof(*slot->items), GFP_KERNEL);
	slot->inside = alloc_percpu(struct wqt_inside);
	if (!slot->items || !slot->inside ||
	    !zalloc_cpumask_var(&slot->mask, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&slot->allowed, GFP_KERNEL) ||
	    init_srcu_struct(&slot->srcu))
		return -ENOMEM;
	for (i = 0; i < WQT_ITEMS; i++)
		wqt_item_init(&slot->items[i], slot, i);
	fresh_limits(slot);
	wqt_nr_slots++;		/* complete: wqt_slots_exit() removes all of it */
	wq = make_wq(kind);
	if (!wq)
		return -ENOMEM;
	rcu_assign_pointer(slot->wq, wq);
	return 0;
}

static void slot_free(struct wqt_slot *slot)
{
	kfree(slot->items);
	free_percpu(slot->inside);
	free_cpumask_var(slot->mask);
	free_cpumask_var(slot->allowed);
}

int wqt_slots_init(void)
{
	int i, ret;

	wqt_slots = kcalloc(ARRAY_SIZE(kinds), sizeof(*wqt_slots), GFP_KERNEL);
	if (!wqt_slots)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		ret = slot_init(&wqt_slots[i], &kinds[i]);
		if (ret)
			return ret;
	}
	return 0;
}

/* Workqueues are left if the start failed early, an actor hangs or items are late. */
void wqt_slots_exit(void)
{
	int i;

	for (i = 0; wqt_slots && i < ARRAY_SIZE(kinds); i++) {
		if (i < wqt_nr_slots) {
			if (rcu_access_pointer(wqt_slots[i].wq))
				destroy_workqueue(rcu_dereference_protected(wqt_slots[i].wq, true));
			cleanup_srcu_struct(&wqt_slots[i].srcu);
		}
		slot_free(&wqt_slots[i]);
	}
	kfree(wqt_slots);
	wqt_slots = NULL;
	wqt_nr_slots = 0;
}
