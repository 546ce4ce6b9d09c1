// SPDX-License-Identifier: GPL-2.0
/*
 * Rescuers: progress for WQ_MEM_RECLAIM workqueues when no worker can be made.
 *
 * mayday.c calls a rescuer.  The rescuer joins one pool after the other and runs only
 * items of its own workqueue.  It takes one item at a time, so that a worker that turns
 * up after all finds the others on the worklist.  The rescuer calls itself to pools
 * where it leaves items behind or to which it gives a slot.
 *
 * Its items stand among those of other workqueues, which nobody runs meanwhile.  In order not to
 * start from the head each time, it leaves a cursor in the list while it runs an item: see
 * worklist.c.
 *
 *	worklist: other, other, [cursor], item, other, item
 */
#include <linux/slab.h>

#include "kick.h"
#include "running.h"
#include "worker.h"

enum {
	RESCUER_NICE_LEVEL	= MIN_NICE,
	RESCUER_BATCH		= 16,		/* items before other pools get a turn */
};

/* does the pool still need help, as far as one can tell? */
static bool pwq_wants_rescue(struct pool_workqueue *pwq)
{
	struct worker_pool *pool = pwq->pool;

	if (need_to_create_worker(pool))
		return true;

	/*
	 * A worker may be idle only because concurrency management holds it back,
	 * and may block once it runs.  While a manager is at work, memory is short.
	 * So go on rather than be called again, unless other pools call.
	 */
	return (pool->flags & POOL_MANAGER_ACTIVE) && list_empty_careful(&pwq->wq->maydays);
}

/* the next item of @pwq from its place on, or NULL; L */
static struct work_struct *pwq_next_item(struct pool_workqueue *pwq)
{
	struct list_head *worklist = &pwq->pool->worklist;
	struct work_struct *work = &pwq->mayday_cursor;

	/* no place is kept: start from the head */
	if (list_empty(&work->entry))
		work = list_entry(worklist, struct work_struct, entry);
	list_for_each_entry_continue(work, worklist, entry)
		if (get_work_pwq(work) == pwq)
			return work;
	return NULL;
}

/* take the next item of @pwq, if @pwq still wants rescue; NULL if not, or if there is none; L */
static struct work_struct *assign_rescuer_work(struct pool_workqueue *pwq, struct worker *rescuer)
{
	struct work_struct *work;

	while (pwq_wants_rescue(pwq) && (work = pwq_next_item(pwq))) {
		list_move_tail(&pwq->mayday_cursor.entry, &work->entry);
		if (pwq_assign_work(work, rescuer)) {
			pwq->stats[PWQ_STAT_RESCUED]++;
			return work;
		}
	}
	return NULL;
}

/* run items of @pwq, but no more than RESCUER_BATCH while other pwqs wait */
static void rescuer_serve(struct worker *rescuer, struct pool_workqueue *pwq)
{
	struct worker_pool *pool = pwq->pool;
	struct work_struct *work;
	int done = 0;

	rescuer->rescue_pwq = pwq;
	raw_spin_lock_irq(&pool->lock);
	WQ_WARN_ON_ONCE(!list_empty(&rescuer->scheduled));

	while ((work = assign_rescuer_work(pwq, rescuer))) {
		process_scheduled_works(rescuer, work);

		if (++done >= RESCUER_BATCH && need_to_create_worker(pool) &&
		    !list_empty_careful(&pwq->wq->maydays)) {
			/* come back for the rest, if there is any */
			send_mayday(pwq);
			break;
		}
	}

	rescuer->rescue_pwq = NULL;
	/* if items are left, the next call goes on from here */
	if (pwq_is_empty(pwq))
		list_del_init(&pwq->mayday_cursor.entry);
	/* items may be left, and perhaps no worker that knows of them is awake */
	pool_unlock_wake_irq(pool, kick_pool(pool));
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
	set_pf_worker(true);

	do {
		struct pool_workqueue *pwq;

		/*
		 * Set the state before looking for calls: a call that comes later
		 * wakes us.  So does the order to stop.  We obey it only after all
		 * calls were answered, since they hold references.
		 */
		set_current_state(TASK_IDLE);
		stop = kthread_should_stop();

		while ((pwq = wq_next_mayday(wq))) {
			__set_current_state(TASK_RUNNING);
			worker_attach_to_pool(rescuer, pwq->pool);
			rescuer_serve(rescuer, pwq);
			worker_detach_from_pool(rescuer);
			/* the pool may be gone after this */
			put_pwq_unlocked(pwq);
		}

		if (!stop)
			schedule();
	} while (!stop);

	__set_current_state(TASK_RUNNING);
	set_pf_worker(false);
	return 0;
}

/* give a workqueue with WQ_MEM_RECLAIM its rescuer; not under P */
int init_rescuer(struct workqueue_struct *wq)
{
	const struct cpumask *cpus = wq_unbound_cpumask;
	char name[WORKER_ID_LEN];
	struct worker *rescuer;
	int ret;

	if (!(wq->flags & WQ_MEM_RECLAIM))
		return 0;

	rescuer = alloc_worker(NUMA_NO_NODE);
	if (!rescuer)
		return -ENOMEM;

	rescuer->rescue_wq = wq;
	format_worker_id(name, sizeof(name), rescuer, NULL);
	rescuer->task = kthread_create(rescuer_thread, rescuer, "%s", name);
	if (IS_ERR(rescuer->task)) {
		ret = PTR_ERR(rescuer->task);
		pr_err("workqueue: Failed to create a rescuer kthread for wq \"%s\": %pe\n",
		       wq->name, rescuer->task);
		kfree(rescuer);
		return ret;
	}

	/*
	 * Making the thread may take long when memory is short, so the mutex is taken only now.
	 * A change of the global cpumask comes before that, or it moves the thread.
	 */
	scoped_guard(mutex, &wq_pool_mutex) {
		/* as unbind_worker() leaves the thread between two calls; data_race(): as there */
		if (!data_race(cpumask_intersects(cpus, cpu_active_mask)))
			cpus = cpu_possible_mask;
		kthread_bind_mask(rescuer->task, cpus);

		guard(raw_spinlock_irq)(&wq_mayday_lock);
		wq->rescuer = rescuer;
	}
	wake_up_process(rescuer->task);
	return 0;
}

/* take a drained workqueue's rescuer away; not under P */
void rescuer_destroy(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	struct worker *rescuer;

	/*
	 * From here on only a pool that it serves knows the rescuer.  It gets no more calls,
	 * not even for a barrier that nobody waits for.  A change of the global cpumask no longer
	 * moves the thread.  The thread answers the calls that it already has, and ends.
	 */
	scoped_guard(mutex, &wq_pool_mutex) {
		guard(raw_spinlock_irq)(&wq_mayday_lock);
		rescuer = wq->rescuer;
		wq->rescuer = NULL;
	}
	if (!rescuer)
		return;

	/*
	 * The thread may have to wait for a CPU, so hold no mutex here that others need.
	 * It answers the calls that came before.  If it never ran, they are dropped here.
	 */
	kthread_stop(rescuer->task);
	while ((pwq = wq_next_mayday(wq)))
		put_pwq_unlocked(pwq);
	kfree(rescuer);
}
