// SPDX-License-Identifier: GPL-2.0
/*
 * max_active: how many items of a workqueue may be on a worklist or running.
 *
 * Per-CPU workqueues count in each pwq: nr_active < wq->max_active.
 *
 * Unbound ones have one limit for the system.  Counting it in one place would make
 * every CPU write to one cache line, so it is divided among the NUMA nodes by
 * their online CPUs, and each node has slots (wq_node_nr_active).  A pwq that
 * cannot get a slot for an item holds the item back and parks on pending_pwqs of
 * its node.  Whoever frees a slot hands it to the pwq that has been parked longest,
 * even if that pwq belongs to another pool.
 *
 * A hand-over takes the slots' lock and the other pool's lock.  Usually it also wakes a worker
 * on another CPU, while the worker that frees the slot goes idle.  So a pwq that was handed a
 * slot has a turn: for a short time an item that ends leaves its slot to the next one of its pwq,
 * unless that pwq has a ready item, see below.  If such a pwq runs one item at a time, it writes
 * nothing that other pools use during its turn, until its last held-back item starts.  Pwqs whose
 * items take longer than a turn take turns item by item.
 *
 * An unbound item takes a slot when it is next to start.  While an item of a pwq is ready, which
 * means that it is on the worklist and has a slot, the next ones are held back and ask for nothing,
 * unless the pwq has fewer slots than it may keep as spare ones: see spare.c.  When a worker takes
 * the last ready item, the next one asks for a slot.  So beyond that number, a pwq takes slots for
 * what it runs and for one item more, no matter how many are queued.
 *
 * Invariant, seen under pool->lock: an unbound pwq with held-back items is parked or has a ready
 * item, unless it is plugged.
 *
 * At the limit nobody needs to write nr: whoever is done with a slot hands it over as it is.  A
 * slot that is freed, since no pwq is parked, and a parking pwq must not miss each other:
 *
 *   item done: pwq_give_slot()         item comes in: slots_take_or_park()
 *
 *   decrement nr                       park on pending_pwqs
 *   full barrier                       smp_mb()
 *   is pending_pwqs empty?             try for a slot once more
 *
 * The barriers pair: either the left side sees the parked pwq, or the right one the free slot.
 * On the left it is that of atomic_dec_return(), which saves arm64 a barrier instruction.
 */
#include <linux/export.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "active.h"
#include "attrs.h"
#include "kick.h"

/* how long a turn lasts, in ns: an item that begins in it may use a slot again */
#define SLOT_TURN	(50 * NSEC_PER_USEC)

/*
 * Let markers run that are behind no held-back item: they need no slot, see own.c.  L; the caller
 * kicks the pool.
 */
void pwq_release_markers(struct pool_workqueue *pwq)
{
	struct work_struct *work, *next;

	list_for_each_entry_safe(work, next, &pwq->inactive_works, entry) {
		if (work->func != own_marker_fn)
			return;
		trace_workqueue_activate_work(work);
		pool_stamp_first(pwq->pool);
		move_linked_works(work, &pwq->pool->worklist);
		/* pwq_grant_slots() looks */
		WRITE_ONCE(container_of(work, struct pool_workqueue, own_marker)->marker_released,
			   true);
	}
	pwq->holds_marker = false;
}

/* make the oldest item that @pwq holds back ready to run, and count it: the limit allows it.  L */
static void pwq_activate_next(struct pool_workqueue *pwq)
{
	struct work_struct *work = list_first_entry(&pwq->inactive_works, typeof(*work), entry);

	pwq->nr_active++;
	trace_workqueue_activate_work(work);
	pool_stamp_first(pwq->pool);
	move_linked_works(work, &pwq->pool->worklist);
	pwq->nr_ready += !!pwq->slots;
	clear_bit(WORK_STRUCT_INACTIVE_BIT, work_data_bits(work));
	if (unlikely(pwq->holds_marker))
		pwq_release_markers(pwq);
}

static bool tryinc_node_nr_active(struct wq_node_nr_active *slots)
{
	int nr = atomic_read(&slots->nr);

	do {
		if (nr >= READ_ONCE(slots->max))
			return false;
	} while (!atomic_try_cmpxchg_relaxed(&slots->nr, &nr, nr + 1));
	return true;
}

/* take a slot, which may be a spare one of any pwq; N */
static bool slots_take(struct wq_node_nr_active *slots)
{
	do {
		if (tryinc_node_nr_active(slots))
			return true;
	} while (slots_free_spares(slots));
	return false;
}

/*
 * Take a slot for @pwq, or park @pwq.  @pwq may be parked already: wq_fill() asks, or nobody has
 * noticed yet that its held-back items were cancelled or filled in.  Not inline, as most unbound
 * items find a spare slot.
 */
static noinline bool slots_take_or_park(struct wq_node_nr_active *slots, struct pool_workqueue *pwq)
{
	if (tryinc_node_nr_active(slots))
		return true;

	guard(raw_spinlock)(&slots->lock);
	if (list_empty(&pwq->pending_node))
		list_add_tail(&pwq->pending_node, &slots->pending_pwqs);
	smp_mb();	/* pairs with atomic_dec_return() in pwq_give_slot() */
	if (!slots_take(slots))
		return false;
	list_del_init(&pwq->pending_node);
	return true;
}

/*
 * Use a slot that @pwq, which is unplugged by now, was granted.  As long as it has any, it needs no
 * others and does not park: so it has no more of them than held-back items.  L
 */
static bool pwq_use_granted(struct pool_workqueue *pwq)
{
	if (likely(!pwq->nr_granted))
		return false;
	pwq->nr_granted--;
	return true;
}

/* get a slot for one more item of @pwq; without one, an unbound @pwq is parked unless plugged */
static bool pwq_reserve_slot(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	if (!slots)
		return pwq->nr_active < READ_ONCE(pwq->wq->max_active);
	return !pwq->plugged &&
	       (pwq_use_granted(pwq) || pwq_take_spare(pwq, slots) ||
		slots_take_or_park(slots, pwq));
}

/*
 * May one more item of @pwq become active?  If so, it is counted; if not, the caller must hold it
 * back before it drops the lock.  pwq_reserve_own() has failed.  L.
 */
bool pwq_reserve_active(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	lockdep_assert_held(&pwq->pool->lock);

	/* first come, first served, also among items of one pwq */
	if (!list_empty(&pwq->inactive_works))
		return false;
	if (slots && pwq->nr_ready) {
		/* not next to start: it may have a slot that will then be a spare one */
		if (pwq->nr_active >= pwq_max_spare(pwq, slots) || !tryinc_node_nr_active(slots))
			return false;
	} else if (!pwq_reserve_slot(pwq)) {
		return false;
	}
	pwq->nr_active++;
	return true;
}

/*
 * Activate the oldest held-back item if the limit allows it; the caller then kicks the pool.  If
 * it does not, an unbound pwq with held-back items is parked, unless it is plugged.  L.
 */
bool pwq_activate_first_inactive(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (list_empty(&pwq->inactive_works) || !pwq_reserve_slot(pwq))
		return false;
	pwq_activate_next(pwq);
	return true;
}

/*
 * Take a slot for the pwq that has been parked longest: a free one, or the one that the caller
 * has.  That pwq goes to the back, but not if it is alone: list_move_tail() would empty the list
 * for a moment, and pwq_give_slot() reads it without the lock.
 */
static struct pool_workqueue *slots_take_for_parked(struct wq_node_nr_active *slots, bool has_slot)
{
	struct pool_workqueue *pwq;

	guard(raw_spinlock)(&slots->lock);
	pwq = list_first_entry_or_null(&slots->pending_pwqs, struct pool_workqueue, pending_node);
	if (!pwq || !(has_slot || tryinc_node_nr_active(slots)))
		return NULL;
	if (!list_is_last(&pwq->pending_node, &slots->pending_pwqs))
		list_move_tail(&pwq->pending_node, &slots->pending_pwqs);
	return pwq;
}

static void pwq_leave_parked(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	guard(raw_spinlock)(&slots->lock);
	list_del_init(&pwq->pending_node);
}

/*
 * Use the slot that slots_take_for_parked() took for @pwq, whose pool is locked.  If @pwq does not
 * need it now, unpark @pwq, free the slot and return false.  That is so if no item is held back any
 * more, or if another item is ready: the next one asks when that one starts.  The caller must then
 * look for other pwqs that may have been refused this slot.
 */
static bool pwq_use_slot(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	bool used = !list_empty(&pwq->inactive_works) && !pwq->nr_ready;

	lockdep_assert_held(&pwq->pool->lock);

	if (used) {
		pwq->turn_ts = ktime_get_mono_fast_ns();
		pwq_activate_next(pwq);
		rescuer_follows_slot(pwq);
	} else {
		atomic_dec(&slots->nr);
	}
	if (!used || list_empty(&pwq->inactive_works))
		pwq_leave_parked(pwq, slots);
	return used;
}

/* pwq_use_slot() without the pool's lock; disabled interrupts keep the pwq in memory */
static bool pwq_use_slot_unlocked(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	struct worker_pool *pool = pwq->pool;
	bool used;

	lockdep_assert_irqs_disabled();

	raw_spin_lock(&pool->lock);
	used = pwq_use_slot(pwq, slots);
	pool_unlock_wake(pool, kick_pool(pool));
	return used;
}

/*
 * A slot was freed, or the caller has one: activate one item of the pwq that has been parked
 * longest.  This wakes nobody in the caller's own pool: if the caller is a worker of that pool,
 * it goes on to the next item; any other caller kicks the pool.  Return true if the caller still
 * has its slot.
 */
static bool node_activate_pending_pwq(struct wq_node_nr_active *slots, struct worker_pool *own,
				      bool has_slot)
{
	struct pool_workqueue *pwq;
	bool used = false;

	lockdep_assert_held(&own->lock);

	/*
	 * One that does not need the slot leaves the list.  To be met here again, it must have
	 * parked again: so this ends after one round, if nobody else is that fast.
	 */
	while (!used && (pwq = slots_take_for_parked(slots, has_slot))) {
		has_slot = false;	/* if it is not used, it is free */
		if (pwq->pool == own) {
			used = pwq_use_slot(pwq, slots);
		} else {
			raw_spin_unlock(&own->lock);
			used = pwq_use_slot_unlocked(pwq, slots);
			raw_spin_lock(&own->lock);
		}
	}
	return has_slot;
}

/*
 * May a slot be used again?  Not if more slots are taken than a lowered limit allows.  A limit
 * that is lowered right now may be missed, as in tryinc_node_nr_active().
 */
static bool slots_are_within_max(struct wq_node_nr_active *slots)
{
	return atomic_read(&slots->nr) <= READ_ONCE(slots->max);
}

/*
 * Give the slot of an item that is done or was cancelled to the next held-back item; false if it is
 * the turn of other pwqs, or another item is ready.  L.
 */
bool pwq_reuse_slot(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	pwq_ready_next(pwq);	/* the only ready item may have been cancelled */
	/* a turn that seems to begin later is over */
	if (pwq->nr_ready || ktime_get_mono_fast_ns() - pwq->turn_ts >= SLOT_TURN ||
	    !slots_are_within_max(slots))
		return false;
	pwq_activate_next(pwq);
	rescuer_follows_slot(pwq);
	if (list_empty(&pwq->inactive_works))
		pwq_leave_parked(pwq, slots);
	return true;
}

/* hand a slot of @pwq to a parked pwq, or free it.  L, which may be dropped and retaken */
void pwq_give_slot(struct pool_workqueue *pwq, struct wq_node_nr_active *slots)
{
	if (!list_empty(&slots->pending_pwqs) && slots_are_within_max(slots) &&
	    !node_activate_pending_pwq(slots, pwq->pool, true))
		return;
	(void)atomic_dec_return(&slots->nr);	/* pairs with smp_mb() in slots_take_or_park() */
	if (!list_empty(&slots->pending_pwqs))
		node_activate_pending_pwq(slots, pwq->pool, false);
}

/*
 * Hand all free slots to parked pwqs.  Each needs at most one: the next item asks later.  No
 * more than slots->max are free when this begins.  Whoever frees one later hands it over, so that
 * one may be left alone.  Without a bound, busy pools could keep us here.
 */
static void slots_fill(struct wq_node_nr_active *slots)
{
	int left = READ_ONCE(slots->max);

	while (left > 0) {
		struct pool_workqueue *pwq;

		/* interrupts are off for one item at a time: there may be thousands */
		guard(irqsave)();
		pwq = slots_take_for_parked(slots, false);
		if (!pwq)
			return;
		/* a slot that was not needed is free again */
		if (pwq_use_slot_unlocked(pwq, slots))
			left--;
	}
}

/* how many CPUs of @allowed are online on a node, whose mask may have one that never comes up */
static int node_weight(const struct cpumask *allowed, int node)
{
	const unsigned long *cpus = cpumask_bits(cpumask_of_node(node));
	const unsigned long *online = cpumask_bits(wq_online_cpumask);
	int i, nr = 0;

	for (i = 0; i < BITS_TO_LONGS(nr_cpumask_bits); i++) {
		/* may miss a change, like the sum in wq_divide_max() */
		nr += hweight_long(data_race(cpumask_bits(allowed)[i] & cpus[i] & online[i]));
	}
	return nr;
}

static void wq_divide_max(struct workqueue_struct *wq)
{
	/* the CPUs that @wq may use now */
	const struct cpumask *allowed = wq_pwq(wq, -1)->pool->attrs->__pod_cpumask;
	int max = READ_ONCE(wq->max_active), min = READ_ONCE(wq->min_active);
	int node, total;

	/* if this misses a change, whoever made the change has yet to call us */
	total = data_race(cpumask_weight_and(allowed, wq_online_cpumask));

	/* a node that has lost its CPUs may still have items: let them go on */
	min = max(min, !!max);

	for_each_node(node) {
		int nr = node_weight(allowed, node);
		int share;

		share = total ? DIV_ROUND_UP(max * nr, total) : min;
		slots_set_max(wq_node_nr_active(wq, node), clamp(share, min, max), nr);
	}
}

/*
 * Divide max_active among the nodes: in proportion to the online CPUs that @wq may use, rounded up
 * and at least min_active.  Pools that span nodes may use all of it.  Whoever changes
 * wq_online_cpumask calls this afterwards; that call corrects the shares if a CPU comes or goes
 * during this one.  W.
 */
void wq_update_node_max_active(struct workqueue_struct *wq)
{
	int node;

	lockdep_assert_held(&wq->mutex);

	/* until the nodes are known, all pools span them */
	if (wq_topo_initialized)
		wq_divide_max(wq);
	slots_set_max(wq_node_nr_active(wq, NUMA_NO_NODE), READ_ONCE(wq->max_active),
		      num_online_cpus());

	for_each_node(node)
		slots_fill(wq_node_nr_active(wq, node));
	slots_fill(wq_node_nr_active(wq, NUMA_NO_NODE));
}

static bool slots_any_taken(struct wq_node_nr_active *slots)
{
	guard(raw_spinlock_irq)(&slots->lock);
	while (slots_free_spares(slots))
		;
	return atomic_read(&slots->nr);
}

/*
 * Is any slot of an unbound workqueue in use?  Its spare slots are freed.  The answer stays false
 * once a limit of 0 is in force and the lock of each pool has been taken since: nobody uses the
 * old limit after that.
 */
bool wq_has_slots_taken(struct workqueue_struct *wq)
{
	int node;

	for_each_node(node)
		if (slots_any_taken(wq_node_nr_active(wq, node)))
			return true;
	return slots_any_taken(wq_node_nr_active(wq, NUMA_NO_NODE));
}

/*
 * How many items does @pwq hold back before @end?  Count @max at most, and no barriers: each goes
 * with the item that is linked to it.  L
 */
static int pwq_nr_held_before(struct pool_workqueue *pwq, struct work_struct *end, int max)
{
	struct work_struct *work;
	bool linked = false;
	int nr = 0;

	list_for_each_entry(work, &pwq->inactive_works, entry) {
		if (work == end || nr == max)
			break;
		nr += !linked;
		linked = work_data(work) & WORK_STRUCT_LINKED;
	}
	return nr;
}

/* how many slots a plugged pwq takes at a time: each time, it counts those again that it has */
#define GRANT_AT_ONCE	16

/*
 * A plugged own pwq cannot activate what it holds back.  Take slots for items that fit under the
 * limit; false if no more do.  None do while its marker is held back: they come after some that do
 * not fit.  When @pwq is unplugged, each item uses one when it is next to start.  L
 */
static bool pwq_grant_slots(struct pool_workqueue *pwq)
{
	int before = pwq->nr_granted, nr;

	if (!pwq_waits_for_marker(pwq) || !READ_ONCE(pwq->marker_released))
		return false;

	nr = pwq_nr_held_before(pwq, NULL, before + GRANT_AT_ONCE);
	guard(raw_spinlock)(&pwq->slots->lock);
	while (pwq->nr_granted < nr && slots_take(pwq->slots))
		pwq->nr_granted++;
	return pwq->nr_granted > before;
}

/*
 * @work is about to be dequeued.  If it was granted a slot, return true: the caller gives the slot
 * back when @work is off the list.  The next items must not use it.  They may have been queued when
 * the system was frozen already.  L
 */
bool pwq_ungrant(struct pool_workqueue *pwq, struct work_struct *work)
{
	if (pwq_nr_held_before(pwq, work, pwq->nr_granted) == pwq->nr_granted)
		return false;
	pwq->nr_granted--;
	return true;
}

/*
 * Unplug @pwq if @unplug; activate its oldest held-back item if the limit allows that.  While it is
 * plugged, grant it slots instead.
 */
static bool pwq_fill_one(struct pool_workqueue *pwq, bool unplug)
{
	struct worker_pool *pool = pwq->pool;
	struct task_struct *wake = NULL;
	bool filled;

	guard(irqsave)();
	raw_spin_lock(&pool->lock);
	if (unplug)
		WRITE_ONCE(pwq->plugged, false);	/* own_pwq_sharing() looks */
	filled = pwq_grant_slots(pwq) || pwq_activate_first_inactive(pwq);
	if (filled) {
		if (pwq->slots)
			rescuer_follows_slot(pwq);
		wake = kick_pool(pool);
	}
	pool_unlock_wake(pool, wake);
	return filled;
}

/* let the items of a plugged pwq become active, one after the other; no pool locked */
void pwq_unplug(struct pool_workqueue *pwq)
{
	pwq_fill_one(pwq, true);
}

/* a marker runs: all items that were queued before a CPU got an own pwq have started, see own.c */
void own_marker_fn(struct work_struct *marker)
{
	struct pool_workqueue *own = container_of(marker, struct pool_workqueue, own_marker);

	pwq_unplug(own);
	put_pwq_unlocked(own);
}

/* activate what the limit allows; a marker is on an older pwq than that which it unplugs */
static void wq_fill(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	for_each_pwq(pwq, wq) {
		/* a slot may first be granted, and then used, as the marker has run meanwhile */
		int left = 2 * READ_ONCE(wq->max_active);

		/* as in slots_fill(), the lock is dropped now and then, and there is a bound */
		while (left-- > 0 && pwq_fill_one(pwq, false))
			;
	}
}

static void wq_enforce_limits(struct workqueue_struct *wq, int max, int min)
{
	lockdep_assert_held(&wq->mutex);

	if (wq->max_active == max && wq->min_active == min)
		return;

	WRITE_ONCE(wq->max_active, max);
	WRITE_ONCE(wq->min_active, min);

	if (wq->flags & WQ_UNBOUND)
		wq_update_node_max_active(wq);
	else
		wq_fill(wq);
}

/*
 * Put the saved limits in force, or zero while frozen.  Items over a lowered limit finish.  So do
 * those that fit under the limit when @wq is frozen.  Whoever changes workqueue_freezing calls this
 * afterwards; that call corrects the limits if the value changes during this one.  W.
 */
void wq_adjust_max_active(struct workqueue_struct *wq)
{
	bool frozen = (wq->flags & WQ_FREEZABLE) && READ_ONCE(workqueue_freezing);
	int max = wq->saved_max_active, min = wq->saved_min_active;

	lockdep_assert_held(&wq->mutex);

	if (frozen) {
		/* whoever has lowered the limit just now may be here before the freezer */
		wq_enforce_limits(wq, min(wq->max_active, max), min(wq->min_active, min));
		/* an unbound item that fits may be held back: it is not next to start */
		wq_fill(wq);
		max = 0;
		min = 0;
	}
	wq_enforce_limits(wq, max, min);
}

/* clamp a limit to its range, and warn if it was outside */
int wq_clamp_max_active(int max_active, const char *name)
{
	int clamped = clamp(max_active, 1, WQ_MAX_ACTIVE);

	if (clamped != max_active)
		pr_warn("workqueue: max_active %d requested for %s is out of range, clamping between %d and %d\n",
			max_active, name, 1, WQ_MAX_ACTIVE);
	return clamped;
}

/**
 * workqueue_set_max_active - change how many items may be active
 * @wq: workqueue that is neither ordered nor a BH one
 * @max_active: the new limit, 1 to %WQ_MAX_ACTIVE; other values are clamped
 *
 * When the limit rises, items that were held back start in order.  When it falls,
 * active items are left to finish, and min_active falls with it.
 *
 * Context: may sleep.
 */
void workqueue_set_max_active(struct workqueue_struct *wq, int max_active)
{
	if (WARN_ON(READ_ONCE(wq->flags) & (WQ_BH | __WQ_ORDERED)))
		return;

	max_active = wq_clamp_max_active(max_active, wq->name);

	/* not wq_pool_mutex: memory reclaim may depend on items that call this */
	guard(mutex)(&wq->mutex);
	WRITE_ONCE(wq->saved_max_active, max_active);
	if (wq->flags & WQ_UNBOUND)
		wq->saved_min_active = min(wq->saved_min_active, max_active);
	wq_adjust_max_active(wq);
}
EXPORT_SYMBOL_GPL(workqueue_set_max_active);

/**
 * workqueue_set_min_active - change how many items each node may have active
 * @wq: unbound workqueue that is not ordered
 * @min_active: the new minimum per NUMA node, 0 to max_active; other values are clamped
 *
 * A node's share of max_active is never smaller than this.  Raise the minimum if
 * %WQ_DFL_MIN_ACTIVE or more items may wait for others of the same workqueue at the same time.
 *
 * Context: may sleep.
 */
void workqueue_set_min_active(struct workqueue_struct *wq, int min_active)
{
	if (WARN_ON((READ_ONCE(wq->flags) & (WQ_UNBOUND | WQ_BH | __WQ_ORDERED)) != WQ_UNBOUND))
		return;

	guard(mutex)(&wq->mutex);
	wq->saved_min_active = clamp(min_active, 0, wq->saved_max_active);
	wq_adjust_max_active(wq);
}

/* free the slots of an unbound workqueue, of which some may be missing */
void wq_free_slots(struct workqueue_struct *wq)
{
	int i;

	for (i = 0; i <= nr_node_ids; i++)
		kfree(wq->node_nr_active[i]);
}

/*
 * Allocate the slots of an unbound workqueue, those of a node in its memory.  None can be taken
 * before wq_update_node_max_active().  Return 0 or -ENOMEM; wq_free_slots() frees them.
 */
int wq_alloc_slots(struct workqueue_struct *wq)
{
	int i;

	for (i = 0; i <= nr_node_ids; i++) {
		bool on_node = i < nr_node_ids && node_online(i);
		struct wq_node_nr_active *slots;

		if (i < nr_node_ids && !node_possible(i))
			continue;
		slots = kzalloc_node(sizeof(*slots), GFP_KERNEL, on_node ? i : NUMA_NO_NODE);
		if (!slots)
			return -ENOMEM;
		raw_spin_lock_init(&slots->lock);
		INIT_LIST_HEAD(&slots->pending_pwqs);
		INIT_LIST_HEAD(&slots->spare_pwqs);
		wq->node_nr_active[i] = slots;
	}
	return 0;
}
