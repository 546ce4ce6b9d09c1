// SPDX-License-Identifier: GPL-2.0
/*
 * Claiming an item, which may be idle or pending: becoming its owner through PENDING.
 *
 * A claimed item must not stay claimed for long, since others spin for it.  Its owner keeps
 * interrupts off until it has queued the item, armed its timer or called work_clear_pending().
 * Only queue_rcu_work() owns its item for longer, for a grace period.
 */
#include "active.h"
#include "kick.h"
#include "latency.h"
#include "running.h"

/*
 * Take @work off the list of its pool, which the caller has locked, and unlock the pool.
 * The data word of @work names @home from then on.
 */
static void work_dequeue(struct work_struct *work, struct pool_workqueue *pwq,
			 struct worker_pool *home)
	__releases(&pwq->pool->lock)
{
	struct worker_pool *pool = pwq->pool;
	unsigned long data = work_data(work);
	bool granted = unlikely(pwq->nr_granted) && pwq_ungrant(pwq, work);
	struct task_struct *wake = NULL;

	debug_work_deactivate(work);
	if (latency_wanted())
		latency_note_cancelled(work);

	work_uncount(work, pwq);
	work_leave_barriers(work, pool);
	list_del_init(&work->entry);
	if (unlikely(pwq->holds_marker))
		pwq_release_markers(pwq);
	worklist_drop_cursors(&pool->worklist);
	atomic_long_set(&work->data, data_off_pool(work, home) | WORK_STRUCT_PENDING);

	/* this may drop the lock, and @work still keeps @pwq */
	if (unlikely(granted))
		pwq_give_slot(pwq, pwq->slots);
	pwq_dec_nr_in_flight(pwq, data, PWQ_STAT_CANCELLED);
	/*
	 * Barriers, or an item that gets the slot, may find all workers asleep.  If
	 * the CPU of a BH pool is down, workqueue_softirq_dead() runs what is left
	 * there.  Interrupts are off, so the CPU cannot go down between test and kick.
	 */
	if (!(pool->flags & POOL_BH) || cpu_online(pool->cpu))
		wake = kick_pool(pool);
	pool_unlock_wake(pool, wake);
}

/*
 * The pool that the data word of @work should name once @work is off @pwq.  Waiting for @work
 * and queueing it use the word to find a run of @work, which may be on another pool:
 *
 * - An ordered item on a plugged pwq may still run on an older pwq.
 * - A BH item may still run on @drained, a dead CPU's pool that the worker of @pwq's pool serves.
 *   It was queued on @pwq because nothing is queued on @drained, see pwq_find_and_lock().
 *
 * The run can end before the caller locks @pwq's pool again.  But no other run of @work can
 * begin while the pwq is plugged, or while its pool's worker is busy with @drained.
 */
static struct worker_pool *work_home(struct work_struct *work, struct pool_workqueue *pwq,
				     struct worker_pool *drained)
{
	struct worker_pool *home;
	struct worker *runner;

	if (drained)
		runner = pool_lock_runner(drained, work, pwq->wq);
	else
		runner = pwq_lock_older_runner(pwq, work);
	if (!runner)
		return pwq->pool;
	home = runner->pool;
	raw_spin_unlock(&home->lock);
	return home;
}

/*
 * Dequeue @work if it is queued on @pool, and return true if it was.  @work may have moved
 * since the caller looked the pool up.  RCU keeps the item's pwq in memory.
 */
static bool work_try_dequeue(struct work_struct *work, struct worker_pool *pool)
{
	struct worker_pool *home = pool, *drained;
	struct pool_workqueue *pwq;

	raw_spin_lock(&pool->lock);
	/*
	 * The word of a queued item changes only under the lock of its pool.  If it
	 * names this pool's pwq, the item is queued, and stays so under the lock.
	 */
	pwq = get_work_pwq(work);
	if (!pwq || pwq->pool != pool)
		goto moved;

	drained = pool->drained;
	/* what is queued on a plugged own pwq, which has @pod, runs on no other pool: see own.c */
	if (unlikely((pwq->plugged && !pwq->pod) || drained)) {
		raw_spin_unlock(&pool->lock);
		home = work_home(work, pwq, drained);
		raw_spin_lock(&pool->lock);
		if (get_work_pwq(work) != pwq)
			goto moved;
		/* unplugged, or drained, in the meantime: if the item runs, it runs here */
		if (!pwq->plugged && pool->drained != home)
			home = pool;
	}
	work_dequeue(work, pwq, home);
	return true;

moved:
	raw_spin_unlock(&pool->lock);
	return false;
}

/*
 * Try to claim @work.  Return 1 if it was pending, 0 if it was idle,
 * -EAGAIN if somebody else has it for a moment.
 */
static int try_to_grab_pending(struct work_struct *work, u32 cflags)
{
	struct worker_pool *pool;

	/* if this fails, the timer was not armed, has expired, or is about to be armed */
	if ((cflags & WORK_CANCEL_DELAYED) && timer_delete(&to_delayed_work(work)->timer))
		return 1;

	if (!test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)))
		return 0;

	guard(rcu)();
	pool = get_work_pool(work);
	return pool && work_try_dequeue(work, pool) ? 1 : -EAGAIN;
}

/*
 * Claim an item, idle or pending; true if it was pending.  Interrupts are off on return.  This
 * spins while another owner has PENDING: long, if an rcu_work waits for RCU, or a timer is pending
 * and @cflags lacks WORK_CANCEL_DELAYED.
 */
bool work_grab_pending(struct work_struct *work, u32 cflags, unsigned long *irq_flags)
{
	for (;;) {
		int ret;

		local_irq_save(*irq_flags);
		ret = try_to_grab_pending(work, cflags);
		if (ret >= 0)
			return ret;
		local_irq_restore(*irq_flags);
		cpu_relax();
	}
}
