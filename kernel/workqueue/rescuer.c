// SPDX-License-Identifier: GPL-2.0
/*
 * Rescuers: progress for WQ_MEM_RECLAIM workqueues when no worker can be made.
 *
 * mayday.c calls it.  The rescuer joins one pool after the other and runs items of
 * its own workqueue only, one at a time, so that a worker that turns up after all finds
 * the others on the worklist.  It calls itself to pools where it leaves something
 * behind or gives away a slot.
 */
#include <linux/kthread.h>
#include <linux/slab.h>

#include "internal.h"

/* does the pool still need help, as far as one can tell? */
static bool pwq_wants_rescue(struct pool_workqueue *pwq)
{
	struct worker_pool *pool = pwq->pool;

	if (pool_lacks_worker(pool))
		return true;

	/*
	 * A worker may be idle only for want of concurrency, and block next.  As
	 * long as there is a manager at work memory is short: better go on than be
	 * called again, unless others call.
	 */
	return (pool->flags & POOL_MANAGER_ACTIVE) && list_empty_careful(&pwq->wq->maydays);
}

/* take the first item of @pwq; false if there is none */
static bool rescuer_take_item(struct worker *rescuer, struct pool_workqueue *pwq)
{
	struct work_struct *work, *next;

	list_for_each_entry_safe(work, next, &pwq->pool->worklist, entry) {
		/* a barrier goes with the item before it */
		while (&next->entry != &pwq->pool->worklist &&
		       (work_data(list_prev_entry(next, entry)) & WORK_STRUCT_LINKED))
			next = list_next_entry(next, entry);

		if (work_pwq(work) == pwq && worker_take_item(rescuer, work)) {
			pwq->stats[PWQ_STAT_RESCUED]++;
			return true;
		}
	}
	return false;
}

/*
 * The rescuer is about to leave the pool, and calls itself for what its workqueue has
 * left there: items after a turn's worth, or those of another of its pwqs.
 */
static void rescuer_comes_back(struct worker *rescuer)
{
	struct worker_pool *pool = rescuer->pool;
	struct work_struct *work;

	if (!pool_lacks_worker(pool))
		return;
	list_for_each_entry(work, &pool->worklist, entry) {
		if (work_pwq(work)->wq == rescuer->rescue_wq) {
			guard(raw_spinlock)(&wq_mayday_lock);
			pwq_call_rescuer(work_pwq(work));
		}
	}
}

/* run items of @pwq, but no more than a turn's worth while other pwqs wait */
static void rescuer_serve(struct worker *rescuer, struct pool_workqueue *pwq)
{
	struct worker_pool *pool = pwq->pool;
	int done = 0;

	raw_spin_lock_irq(&pool->lock);
	WQ_WARN_ON_ONCE(!list_empty(&rescuer->scheduled));

	while (pwq_wants_rescue(pwq) && rescuer_take_item(rescuer, pwq)) {
		worker_run_scheduled(rescuer);

		if (++done >= RESCUER_BATCH && pool_lacks_worker(pool) &&
		    !list_empty_careful(&pwq->wq->maydays))
			break;
	}

	rescuer_comes_back(rescuer);
	/* items may be left, and nobody awake who knows of them */
	pool_unlock_wake_irq(pool, pool_kick(pool));
}

static struct pool_workqueue *wq_next_mayday(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	guard(raw_spinlock_irq)(&wq_mayday_lock);
	pwq = list_first_entry_or_null(&wq->maydays, struct pool_workqueue, mayday_node);
	if (pwq)
		list_del_init(&pwq->mayday_node);
	return pwq;
}

static int rescuer_thread(void *data)
{
	struct worker *rescuer = data;
	struct workqueue_struct *wq = rescuer->rescue_wq;
	bool stop;

	set_user_nice(current, RESCUER_NICE_LEVEL);
	/* WORKER_PREP stays set: a rescuer never counts in nr_running */
	worker_mark_task(true);

	do {
		struct pool_workqueue *pwq;

		/*
		 * Set the state before looking: a call that comes later wakes us.
		 * The same for the order to stop, which is obeyed only after all
		 * calls were answered: they hold references.
		 */
		set_current_state(TASK_IDLE);
		stop = kthread_should_stop();

		while ((pwq = wq_next_mayday(wq))) {
			__set_current_state(TASK_RUNNING);
			worker_attach(rescuer, pwq->pool);
			rescuer_serve(rescuer, pwq);
			worker_detach(rescuer);
			/* the pool may be gone after this */
			pwq_put_unlocked(pwq);
		}

		if (!stop)
			schedule();
	} while (!stop);

	__set_current_state(TASK_RUNNING);
	worker_mark_task(false);
	return 0;
}

/**
 * rescuer_create - give a workqueue its rescuer
 * @wq: the workqueue; nothing happens without WQ_MEM_RECLAIM
 *
 * Context: may sleep; wq_pool_mutex held.
 * Return: 0 or a negative error.
 */
int rescuer_create(struct workqueue_struct *wq)
{
	const struct cpumask *cpus = wq_unbound_cpumask;
	char name[WORKER_ID_LEN];
	struct worker *rescuer;
	int ret;

	lockdep_assert_held(&wq_pool_mutex);

	if (!(wq->flags & WQ_MEM_RECLAIM))
		return 0;

	rescuer = worker_alloc(NUMA_NO_NODE);
	if (!rescuer)
		return -ENOMEM;

	rescuer->rescue_wq = wq;
	worker_format_id(name, sizeof(name), rescuer, NULL);
	rescuer->task = kthread_create(rescuer_thread, rescuer, "%s", name);
	if (IS_ERR(rescuer->task)) {
		ret = PTR_ERR(rescuer->task);
		pr_err("workqueue: cannot make a rescuer for %s: %pe\n",
		       wq->name, rescuer->task);
		kfree(rescuer);
		return ret;
	}

	/* as worker_unbind() leaves it between two calls */
	if (!cpumask_intersects(cpus, cpu_active_mask))
		cpus = cpu_possible_mask;
	kthread_bind_mask(rescuer->task, cpus);

	wq->rescuer = rescuer;
	wake_up_process(rescuer->task);
	return 0;
}

/**
 * rescuer_destroy - take a drained workqueue's rescuer away
 * @wq: the workqueue
 *
 * Context: may sleep.
 */
void rescuer_destroy(struct workqueue_struct *wq)
{
	struct worker *rescuer = wq->rescuer;
	struct pool_workqueue *pwq;

	if (!rescuer)
		return;

	/* a barrier that nobody waits for may be left: no calls from here on */
	scoped_guard(raw_spinlock_irq, &wq_mayday_lock)
		wq->rescuer = NULL;

	/* answers the calls that came before, if it ever ran: else nobody did */
	kthread_stop(rescuer->task);
	while ((pwq = wq_next_mayday(wq)))
		pwq_put_unlocked(pwq);
	kfree(rescuer);
}
