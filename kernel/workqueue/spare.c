// SPDX-License-Identifier: GPL-2.0
/*
 * Spare slots: what keeps CPUs that are far from max_active off each other's cache lines.
 *
 * active.c counts the active items of a node in one place.  Each item would write to it twice,
 * and so would move its cache line between all CPUs of the node.  When an item is done, its pwq
 * therefore keeps the slot as a spare one, for its next item.  Spare slots count as taken, so
 * there are never more than max active items.  Once a pwq has as many slots as it has items in
 * flight, these items write to lines of that pwq only.
 *
 * Spare slots must not keep others waiting.  A pwq that gets no slot parks, and then frees the
 * spare ones of all pwqs of its node.  While a pwq is parked, no slot becomes a spare one.
 * Parking and making a spare slot must not miss each other:
 *
 *   item done                          item comes in
 *
 *   (6) increment nr_spare             park on pending_pwqs
 *   (7) full barrier                   (4) smp_mb()
 *   (8) pending_pwqs empty?            (9) free the spare slots, try for one once more
 *
 * (7) pairs with (4): either (8) sees the parked pwq or (9) sees the spare slot.  (6) and (7)
 * are one atomic_inc_return().  Parking and (9) are done under slots->lock, so what (9) frees
 * is not missed by another pwq that parks at the same time.  The left side is in spare.h and in
 * pwq_dec_nr_active(), the right one in slots_take_or_park().
 *
 * Freeing them looks at all pwqs of the workqueue.  That is rare for three reasons.  (9) looks
 * only if slots->has_spares says that there may be some.  After a look, no slot becomes a spare
 * one until the next tick.  And a pwq keeps only so many for each CPU that queues on it that the
 * online CPUs together keep half of the slots.  So they keep none if a node has fewer than two
 * slots for each CPU, as usual with kcryptd, whose max_active is the number of CPUs.  On top of
 * that, until the next look, come those of CPUs that have gone down, and those that the pwq of a
 * pod still has when its CPUs have got their own.
 *
 * The flag has_spares has an order of its own:
 *
 *   item done                          item comes in
 *
 *   (6) increment nr_spare             park on pending_pwqs
 *   (7) full barrier                   (4) smp_mb()
 *  (10) flag not set?  xchg() sets it  (11) xchg() clears the flag; was it set?
 *       if set: acquire                (9) free the spare slots
 *   (8) pending_pwqs empty?
 *
 * If (10) reads what was there before (11), then (7) pairs with (11): (9) sees the spare slot.
 * The same holds if (10) sets the flag before (11) clears it.  If (10) sets it after (11), then
 * (8) sees the parked pwq.  And if (10) finds that another pwq has set it after (11), that
 * pwq's xchg() and the acquire pass on what was done before (11): (8) sees the parked pwq, too.
 *
 * No spare slot is used while more slots are taken than a lowered max allows.  While a workqueue
 * is frozen, that is always the case.
 */
#include <linux/minmax.h>

#include "internal.h"
#include "spare.h"

/* how many a pwq may have at most for each CPU that queues on it */
#define SPARE_SLOTS	32

/**
 * slots_allow_spares - set how many spare slots a pwq may have for each of its CPUs
 * @slots: slots of a node, or of pools that span nodes
 * @max: how many slots there are
 * @cpus: online CPUs that share them
 *
 * Context: wq->mutex held.
 */
void slots_allow_spares(struct wq_node_nr_active *slots, int max, int cpus)
{
	WRITE_ONCE(slots->max_spare, cpus ? min(max / (2 * cpus), SPARE_SLOTS) : 0);
}

/**
 * pwq_take_back_spare - undo pwq_make_spare(), since another pwq is parked
 * @pwq: unbound pwq, its pool locked; it has just made a slot a spare one
 *
 * Return: true if the caller now has to free the slot.  False if somebody else has freed it.  In
 * that case the caller still has to look for pwqs that parked before that, and will see them.
 */
bool pwq_take_back_spare(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (atomic_dec_if_positive(&pwq->nr_spare) >= 0)
		return true;
	smp_mb();	/* pairs with the atomic_xchg() in pwq_free_spares() */
	return false;
}

/* slots->lock held */
static void pwq_free_spares(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	if (atomic_read(&pwq->nr_spare))	/* atomic_xchg() pairs with pwq_take_back_spare() */
		atomic_sub(atomic_xchg(&pwq->nr_spare, 0), &slots->nr);
}

/**
 * slots_free_spares - free the spare slots of all pwqs
 * @wq: unbound workqueue
 * @slots: slots of one of its nodes; slots->lock held
 *
 * New ones may be made meanwhile, unless the caller has parked a pwq before, with a full barrier
 * between.
 */
void slots_free_spares(struct workqueue_struct *wq, struct wq_node_nr_active *slots)
{
	struct pool_workqueue *pwq;

	lockdep_assert_held(&slots->lock);

	if (!xchg(&slots->has_spares, 0))	/* (11) pairs with (7) and (10) */
		return;
	for_each_pwq(pwq, wq)			/* (9) */
		if (pwq->slots == slots)
			pwq_free_spares(pwq, slots);
	WRITE_ONCE(slots->freed_ts, jiffies);
}

/**
 * pwq_leave_slots - a pwq that is dead waits for no slot and has none
 * @pwq: pwq without items, still linked
 *
 * No pwq stays parked because @pwq has spare slots: whoever parks frees them, and finds @pwq
 * as long as it has some.
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
