// SPDX-License-Identifier: GPL-2.0
/*
 * Spare slots: what keeps CPUs that are far from max_active off each other's cache lines.
 *
 * active.c counts the active items of a node in one place.  Each item would write to it twice, and
 * so would move its cache line between all CPUs of the node.  When an item is done, its pwq
 * therefore keeps the slot as a spare one, for its next item.  Spare slots count as taken, so
 * there are never more than max active items.  Once a pwq has as many slots as it needs, its items
 * write to lines of that pwq only.
 *
 * Spare slots must not keep others waiting.  A pwq that has some is listed on spare_pwqs.  A pwq
 * that gets no slot parks, and takes pwqs off that list and frees what they have, until it gets a
 * slot or the list is empty.  So if a pwq is parked, none is listed, and none gets listed.  Making
 * a spare slot and parking must not miss each other:
 *
 *   item done: pwq_make_spare()        item comes in: slots_take_or_park()
 *
 *   increment nr_spare                 park
 *   full barrier                       take the pwq off the list
 *   is the pwq listed?                 full barrier
 *                                      free its spare slots
 *
 * If the pwq is found listed, its spare slot is seen, now or by whoever takes it off later.  If
 * not, slots->lock decides: the pwq gets listed, or it finds the other parked and gives the slot
 * up.  The barriers are those of atomic_inc_return() and, in pwq_free_spares(), atomic_xchg().
 *
 * A pwq stays listed until somebody gets no slot.  That is rare: each entry that names a pwq, or
 * an own pwq of its pod, lets it keep max / 2 divided by the online CPUs, but at most SPARE_SLOTS,
 * and a pwq keeps no more than half of the slots.  With fewer than two slots for each CPU, it
 * keeps none.
 *
 * No spare slot is used while more slots are taken than a lowered max, or a freezer, allows.
 */
#include "spare.h"

/* how many a pwq may have at most for each CPU that queues on it */
#define SPARE_SLOTS	32

/*
 * Set how many slots there are, and how many a pwq may keep as spare ones if @cpus online CPUs
 * share them; W.
 */
void slots_set_max(struct wq_node_nr_active *slots, int max, int cpus)
{
	WRITE_ONCE(slots->max, max);
	WRITE_ONCE(slots->max_spare, cpus ? min(max / (2 * cpus), SPARE_SLOTS) : 0);
}

/*
 * Let whoever parks find the slot that @pwq, which is not listed, has just made a spare one; false
 * if another pwq is parked and the caller has to free the slot.  L.
 */
bool slots_list_spares(struct wq_node_nr_active *slots, struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	guard(raw_spinlock)(&slots->lock);
	if (list_empty(&slots->pending_pwqs)) {
		list_add_tail(&pwq->spare_node, &slots->spare_pwqs);
		return true;
	}
	/* whoever took @pwq off the list just now may have freed the slot */
	return atomic_dec_if_positive(&pwq->nr_spare) < 0;
}

/* free the spare slots of @pwq, which gets off the list; slots->lock held */
static bool pwq_free_spares(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	int nr;

	list_del_init(&pwq->spare_node);
	nr = atomic_xchg(&pwq->nr_spare, 0);	/* pairs with pwq_make_spare() */
	if (nr)
		atomic_sub(nr, &slots->nr);
	return nr;
}

/* free the spare slots of the pwq that was listed first and has some; false if none has any.  N */
bool slots_free_spares(struct wq_node_nr_active *slots)
{
	struct pool_workqueue *pwq, *next;

	lockdep_assert_held(&slots->lock);

	list_for_each_entry_safe(pwq, next, &slots->spare_pwqs, spare_node)
		if (pwq_free_spares(pwq, slots))
			return true;
	return false;
}

/*
 * A dead pwq waits for no slot and has none.  No pwq stays parked because @pwq has spare slots:
 * whoever parks frees them.
 */
void pwq_leave_slots(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	if (!slots)
		return;

	guard(raw_spinlock_irq)(&slots->lock);
	/* it was parked for items that were cancelled since */
	list_del_init(&pwq->pending_node);
	pwq_free_spares(pwq, slots);
}
