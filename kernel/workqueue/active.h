/* SPDX-License-Identifier: GPL-2.0 */
/*
 * May an item become active, and who gets its slot afterwards?  This file has what most items
 * need.  active.c has the rest.
 */
#ifndef _KERNEL_WORKQUEUE_ACTIVE_H
#define _KERNEL_WORKQUEUE_ACTIVE_H

#include "spare.h"
#include "worklist.h"

int wq_clamp_max_active(int max_active, const char *name);
void wq_adjust_max_active(struct workqueue_struct *wq);
void wq_update_node_max_active(struct workqueue_struct *wq);
bool wq_has_slots_taken(struct workqueue_struct *wq);
int wq_alloc_slots(struct workqueue_struct *wq);
void wq_free_slots(struct workqueue_struct *wq);
void pwq_unplug(struct pool_workqueue *pwq);
bool pwq_reserve_active(struct pool_workqueue *pwq);
bool pwq_activate_first_inactive(struct pool_workqueue *pwq);
bool pwq_ungrant(struct pool_workqueue *pwq, struct work_struct *work);
bool pwq_reuse_slot(struct pool_workqueue *pwq, struct wq_node_nr_active *slots);
void own_marker_fn(struct work_struct *marker);
void pwq_release_markers(struct pool_workqueue *pwq);
void pwq_give_slot(struct pool_workqueue *pwq, struct wq_node_nr_active *slots);

/* the last ready item of an unbound pwq may be gone: then the next one asks for a slot; L */
static inline void pwq_ready_next(struct pool_workqueue *pwq)
{
	/* If it is parked, it has asked.  It may move on the list now, but not leave it. */
	if (pwq->slots && !pwq->nr_ready && list_empty(&pwq->pending_node))
		pwq_activate_first_inactive(pwq);
}

/*
 * Make an item active if @pwq need not ask others; it is then counted.  Else pwq_reserve_active()
 * decides.  A pwq of a per-CPU workqueue has a limit of its own.  An unbound one may have spare
 * slots; a plugged one has none, since none of its items has been active.  L.
 */
static inline bool pwq_reserve_own(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	/* first come, first served, also among items of one pwq */
	if (!list_empty(&pwq->inactive_works))
		return false;
	if (slots ? !pwq_take_spare(pwq, slots) : pwq->nr_active >= READ_ONCE(pwq->wq->max_active))
		return false;
	pwq->nr_active++;
	return true;
}

/* is @pwq an own one that is plugged?  May be outdated without the lock of its pool: see own.c. */
static inline bool pwq_waits_for_marker(struct pool_workqueue *pwq)
{
	return pwq->pod && READ_ONCE(pwq->plugged);
}

/*
 * An item of @pwq is no longer active.  The slot goes to the next item of @pwq or to the pwq that
 * has been parked longest.  If there is neither, it becomes a spare one, or free.  L, which may be
 * dropped and retaken.
 */
static inline void pwq_dec_nr_active(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	lockdep_assert_held(&pwq->pool->lock);

	pwq->nr_active--;
	if (!slots) {
		if (!list_empty(&pwq->inactive_works))
			pwq_activate_first_inactive(pwq);
		return;
	}
	if (unlikely(!list_empty(&pwq->inactive_works)) && pwq_reuse_slot(pwq, slots))
		return;

	if (unlikely(!pwq_make_spare(pwq, slots)))
		pwq_give_slot(pwq, slots);
}

/* assign_work(), and get the next item of the pwq ready */
static inline bool pwq_assign_work(struct work_struct *work, struct worker *worker)
{
	struct pool_workqueue *pwq = get_work_pwq(work);
	bool assigned = assign_work(work, worker);

	if (unlikely(!list_empty(&pwq->inactive_works)))
		pwq_ready_next(pwq);
	return assigned;
}

/*
 * An item or barrier has run, or was dequeued; @data is its word from the time when it was
 * queued.  Its reference, which keeps the workqueue and the pool, is dropped last.  L, which may
 * be dropped and retaken.
 */
static inline void pwq_dec_nr_in_flight(struct pool_workqueue *pwq, unsigned long data,
					enum pool_workqueue_stats how)
{
	int color = get_work_color(data);

	lockdep_assert_held(&pwq->pool->lock);

	/* flush barriers and items that were held back have no slot */
	if (!(data & WORK_STRUCT_INACTIVE))
		pwq_dec_nr_active(pwq);
	else if (how == PWQ_STAT_COMPLETED)
		pwq->stats[PWQ_STAT_BARRIERS_DONE]++;

	/* after the lock may have been dropped, so that nobody sees only one of these changes */
	pwq->stats[how]++;
	if (!--pwq->nr_in_flight[color] && unlikely(pwq->flush_color == color))
		pwq_flushed(pwq);
	put_pwq(pwq);
}

#endif /* _KERNEL_WORKQUEUE_ACTIVE_H */
