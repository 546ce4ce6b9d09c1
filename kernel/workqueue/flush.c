// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for one item, for a workqueue, or until a workqueue stays empty.
 *
 * flush_work() inserts a barrier, which is an item of its own, behind the item that it
 * waits for.  The two are linked and move together.  An ordered item that is queued on
 * a new pwq while it runs on an old one gets a barrier in each place.
 *
 * flush_workqueue() uses colours.  New items of a workqueue have its work_color.
 * A flusher takes that colour and moves the workqueue on to the next one.  Then it waits
 * until no item of its colour or an older colour is in flight.  Colours finish one
 * after the other:
 *
 *       flush_color                                work_color
 *            |                                          |
 *     [ 3: flushers A B ] [ 4: flusher C ] [ 5: D ] [ 6: new items ]
 *            |
 *       armed: pwqs with items of colour 3 count in nr_pwqs_to_flush
 *
 * A is first_flusher.  When the count reaches zero, A is woken.  It completes B, moves
 * flush_color on and arms colour 4 on behalf of C, which is then first.  While all
 * colours are in use, flushers wait in flusher_overflow and share the next free colour.
 */
#include <linux/export.h>

#include "flush.h"
#include "running.h"
#include "worklist.h"

/* the function of a barrier; tools know it by this name */
void wq_barrier_func(struct work_struct *work)
{
	complete(&container_of(work, struct wq_barrier, work)->done);
}

/*
 * An item that memory reclaim depends on must not wait for an item that may itself need
 * memory.  Legacy workqueues do not count: they have WQ_MEM_RECLAIM without needing it.
 */
static void check_flush_dependency(struct workqueue_struct *target, work_func_t func)
{
	struct worker *worker = current_wq_worker();
	struct pool_workqueue *pwq = worker ? worker->current_pwq : NULL;
	unsigned int flags = pwq ? READ_ONCE(pwq->wq->flags) : 0;

	if (READ_ONCE(target->flags) & WQ_MEM_RECLAIM)
		return;

	WARN_ONCE(current->flags & PF_MEMALLOC,
		  "workqueue: PF_MEMALLOC task %d(%s) is flushing !WQ_MEM_RECLAIM %s:%ps",
		  current->pid, current->comm, target->name, func);
	WARN_ONCE((flags & (WQ_MEM_RECLAIM | __WQ_LEGACY)) == WQ_MEM_RECLAIM,
		  "workqueue: WQ_MEM_RECLAIM %s:%ps is flushing !WQ_MEM_RECLAIM %s:%ps",
		  pwq->wq->name, worker->current_func, target->name, func);
}

#ifdef CONFIG_LOCKDEP
/* tell lockdep that the caller waits for what @map stands for */
static void lockdep_touch(struct workqueue_struct *wq, struct lockdep_map *map)
{
	bool bh = READ_ONCE(wq->flags) & WQ_BH;

	if (bh)
		local_bh_disable();
	lock_map_acquire(map);
	lock_map_release(map);
	if (bh)
		local_bh_enable();
}

static void touch_wq_lockdep_map(struct workqueue_struct *wq)
{
	lockdep_touch(wq, wq->lockdep_map);
}

static void touch_work_lockdep_map(struct work_struct *work, struct workqueue_struct *wq)
{
	lockdep_touch(wq, &work->lockdep_map);
}
#else
static void touch_wq_lockdep_map(struct workqueue_struct *wq) { }
static void touch_work_lockdep_map(struct work_struct *work, struct workqueue_struct *wq) { }
#endif

static void barrier_init(struct wq_barrier *barrier, struct workqueue_struct *wq)
{
	/* with one key for both, lockdep would mix up softirq and task context */
	static __maybe_unused struct lock_class_key bh_key, task_key;

	/*
	 * INIT_WORK_ONSTACK_KEY() may be called under a raw lock, since this item never
	 * needs a fix-up.  If debugobjects complains, its message has to be deferred.
	 */
	scoped_guard(printk_deferred)
		INIT_WORK_ONSTACK_KEY(&barrier->work, wq_barrier_func,
				      READ_ONCE(wq->flags) & WQ_BH ? &bh_key : &task_key);
	__set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&barrier->work));
	init_completion(&barrier->done);
	barrier->task = current;
}

/*
 * Let @barrier run right after @target: on the @worker that is running @target, or
 * behind @target in its list.  The barrier has the colour of @target, so that
 * flush_workqueue() does not overlook it.  It takes no slot under max_active.
 */
static void insert_wq_barrier(struct pool_workqueue *pwq, struct wq_barrier *barrier,
			      struct work_struct *target, struct worker *worker)
{
	unsigned long flags = WORK_STRUCT_INACTIVE;
	struct list_head *before;
	int color;

	barrier_init(barrier, pwq->wq);

	if (worker) {
		before = worker->scheduled.next;
		color = worker->current_color;
	} else {
		unsigned long data = work_data(target);

		/* older barriers of @target stay behind this one */
		flags |= data & WORK_STRUCT_LINKED;
		set_bit(WORK_STRUCT_LINKED_BIT, work_data_bits(target));
		before = target->entry.next;
		color = get_work_color(data);
	}

	pwq->stats[PWQ_STAT_BARRIERS]++;
	pwq->nr_in_flight[color]++;
	insert_work(pwq, &barrier->work, before, flags | work_color_to_flags(color));
}

/*
 * Put @barrier behind @work, which is queued or runs on @pool.  Return the pwq that
 * counts the barrier, or NULL if the item is not there; @moved then says whether the item
 * left for another pool.  This is decided under the lock, without which nobody can queue the
 * item on @pool again.
 */
static struct pool_workqueue *pool_insert_barrier(struct worker_pool *pool,
						  struct work_struct *work,
						  struct wq_barrier *barrier, bool *moved)
{
	struct worker *worker = NULL;
	struct pool_workqueue *pwq;

	guard(raw_spinlock_irq)(&pool->lock);

	pwq = get_work_pwq(work);
	/* an ordered item, or one of a dead CPU, may run here and be queued elsewhere */
	if (!pwq || pwq->pool != pool) {
		worker = find_worker_executing_work(pool, work);
		if (!worker) {
			*moved = get_work_pool(work) != pool;
			return NULL;
		}
		pwq = worker->current_pwq;
	}
	insert_wq_barrier(pwq, barrier, work, worker);
	return pwq;
}

/*
 * @work is ordered and queued on @pwq, and may still run on an older pwq.  In that case
 * put @barrier there, since the barrier behind the queued item no longer waits for that
 * run if the item is cancelled.  Return false if @work does not run there.
 */
static bool older_insert_barrier(struct pool_workqueue *pwq, struct work_struct *work,
				 struct wq_barrier *barrier)
{
	struct worker *runner;

	guard(irq)();
	runner = pwq_lock_older_runner(pwq, work);
	if (!runner)
		return false;
	insert_wq_barrier(runner->current_pwq, barrier, work, runner);
	raw_spin_unlock(&runner->pool->lock);
	return true;
}

/*
 * Put one barrier behind @work in each place where it is queued or running; return the
 * number of barriers.
 */
static int start_flush_work(struct work_struct *work, struct wq_barrier barriers[2],
			    bool from_cancel)
{
	work_func_t func = work->func;
	struct workqueue_struct *wq;
	struct pool_workqueue *pwq;
	struct worker_pool *pool;
	bool moved;
	int nr = 1;

	guard(rcu)();
	do {
		pool = get_work_pool(work);
		if (!pool)
			return 0;
		pwq = pool_insert_barrier(pool, work, &barriers[0], &moved);
		/* if it has moved, it runs or is queued elsewhere: look there */
	} while (!pwq && moved);
	if (!pwq)
		return 0;

	wq = pwq->wq;
	if (!from_cancel) {
		/* a cancelled item is running already, or will not run */
		check_flush_dependency(wq, func);
		if (wq_is_ordered(READ_ONCE(wq->flags)))
			nr += older_insert_barrier(pwq, work, &barriers[1]);
	}

	touch_work_lockdep_map(work, wq);
	/*
	 * An item that waits for another item of the same workqueue needs a second
	 * worker.  There is none with a limit of one, or if only the rescuer runs.
	 */
	if (!from_cancel && (READ_ONCE(wq->saved_max_active) == 1 ||
			     (READ_ONCE(wq->flags) & WQ_MEM_RECLAIM)))
		touch_wq_lockdep_map(wq);
	return nr;
}

/* wait, without sleeping, for a BH item that runs on another CPU */
static void barrier_spin(struct work_struct *work, struct wq_barrier *barrier)
{
	while (!try_wait_for_completion(&barrier->done)) {
		if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
			struct worker_pool *pool;

			/* this task may have preempted the softirq: lend it priority */
			guard(rcu)();
			pool = get_work_pool(work);
			if (pool)
				bh_wait_running(pool);
		} else {
			cpu_relax();
		}
	}
}

/*
 * Wait until an item has run; true if there was something to wait for.  @from_cancel: it is
 * disabled, so it may run but is not queued.
 */
bool __flush_work(struct work_struct *work, bool from_cancel)
{
	struct wq_barrier barriers[2];
	int i, nr;

	if (WARN_ON(!wq_online) || WARN_ON(!work->func))
		return false;
	nr = start_flush_work(work, barriers, from_cancel);

	for (i = 0; i < nr; i++) {
		/* the item is off queue, so its word tells whether it runs in a BH pool */
		if (from_cancel && !WARN_ON_ONCE(work_data(work) & WORK_STRUCT_PWQ) &&
		    (work_data(work) & WORK_OFFQ_BH))
			barrier_spin(work, &barriers[i]);
		else
			wait_for_completion(&barriers[i].done);
		destroy_work_on_stack(&barriers[i].work);
	}
	return nr;
}

/**
 * flush_work - wait until the last queued run of an item has ended
 * @work: the item
 *
 * If the item is running and queued again, this waits for both runs.  It waits for the
 * first run even if the second is cancelled meanwhile.  The item is idle on return, unless
 * somebody queued it after the call began.  This does not wait for an item whose timer is
 * still running: see flush_delayed_work().
 *
 * Context: may sleep; not from the item itself, nor with a lock held that it takes.
 * Return: true if it waited, false if the item was idle.
 */
bool flush_work(struct work_struct *work)
{
	might_sleep();
	return __flush_work(work, false);
}
EXPORT_SYMBOL_GPL(flush_work);

/**
 * flush_delayed_work - end the delay of a delayed item and wait until it has run
 * @dwork: the item
 *
 * Context: as flush_work().
 * Return: true if it waited, false if the item was idle.
 */
bool flush_delayed_work(struct delayed_work *dwork)
{
	scoped_guard(irq) {
		if (timer_delete_sync(&dwork->timer))
			delayed_work_timer_fn(&dwork->timer);
	}
	return flush_work(&dwork->work);
}
EXPORT_SYMBOL(flush_delayed_work);

/**
 * flush_rcu_work - wait for the grace period and the run of an rcu_work
 * @rwork: the item
 *
 * Context: as flush_work().
 * Return: true if it waited, false if the item was idle.
 */
bool flush_rcu_work(struct rcu_work *rwork)
{
	bool pending = work_pending(&rwork->work);

	/* a pending item may still wait for the grace period */
	if (pending)
		rcu_barrier();
	return flush_work(&rwork->work) || pending;
}
EXPORT_SYMBOL(flush_rcu_work);

/*
 * If the next colour is free, give the colour of new items to the flushers that wait
 * for one, and let new items have the next colour.
 */
static void wq_assign_color(struct workqueue_struct *wq)
{
	int next = work_next_color(wq->work_color);
	struct wq_flusher *flusher;
	struct pool_workqueue *pwq;

	if (list_empty(&wq->flusher_overflow) || next == wq->flush_color)
		return;

	list_for_each_entry(flusher, &wq->flusher_overflow, list)
		flusher->flush_color = wq->work_color;
	list_splice_tail_init(&wq->flusher_overflow, &wq->flushers);

	for_each_pwq(pwq, wq) {
		guard(raw_spinlock_irq)(&pwq->pool->lock);
		pwq->work_color = next;
	}
	wq->work_color = next;
}

/*
 * Count the pwqs with items of the oldest colour; the first flusher waits for them.  Let
 * new items have the workqueue's colour.  Return false if no pwq has items to wait for.
 */
static bool wq_arm(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	wq->first_flusher = list_first_entry(&wq->flushers, struct wq_flusher, list);

	/* this function holds one count, so the sum cannot reach 0 before all pwqs are armed */
	atomic_set(&wq->nr_pwqs_to_flush, 1);
	for_each_pwq(pwq, wq) {
		guard(raw_spinlock_irq)(&pwq->pool->lock);
		pwq->work_color = wq->work_color;
		if (pwq->nr_in_flight[wq->flush_color]) {
			pwq->flush_color = wq->flush_color;
			atomic_inc(&wq->nr_pwqs_to_flush);
		}
	}
	return !atomic_dec_and_test(&wq->nr_pwqs_to_flush);
}

/* all items of flush_color are done: complete its flushers and move on */
static void wq_retire_color(struct workqueue_struct *wq)
{
	struct wq_flusher *flusher, *next;

	list_for_each_entry_safe(flusher, next, &wq->flushers, list) {
		if (flusher->flush_color != wq->flush_color)
			break;
		list_del(&flusher->list);
		flusher->finished = true;
		/* its stack may be gone after this */
		complete(&flusher->done);
	}
	wq->flush_color = work_next_color(wq->flush_color);
	wq_assign_color(wq);
}

/*
 * Flush for @flusher, the only one.  One pass over the pwqs is enough: all colours but that of
 * new items are free, and nobody waits for one.  Return false if there is no item to wait for.
 */
static bool wq_flush_alone(struct workqueue_struct *wq, struct wq_flusher *flusher)
{
	flusher->flush_color = wq->work_color;
	list_add(&flusher->list, &wq->flushers);
	wq->work_color = work_next_color(wq->work_color);
	if (wq_arm(wq))
		return true;

	list_del(&flusher->list);
	wq->flush_color = wq->work_color;
	return false;
}

/**
 * __flush_workqueue - wait until all that is queued has run
 * @wq: the workqueue
 *
 * Items queued after the call do not delay it.
 *
 * Context: may sleep.
 */
void __flush_workqueue(struct workqueue_struct *wq)
{
	struct wq_flusher self = {
		.done = COMPLETION_INITIALIZER_ONSTACK(self.done),
	};
	bool wait = true;

	if (WARN_ON(!wq_online))
		return;

	touch_wq_lockdep_map(wq);

	mutex_lock(&wq->mutex);
	check_flush_dependency(wq, NULL);
	if (list_empty(&wq->flushers)) {
		wait = wq_flush_alone(wq, &self);
	} else {
		list_add_tail(&self.list, &wq->flusher_overflow);
		wq_assign_color(wq);
	}
	mutex_unlock(&wq->mutex);
	if (!wait)
		return;

	wait_for_completion(&self.done);
	if (self.finished)
		return;

	/* this was the first flusher of its colour, which is done now */
	mutex_lock(&wq->mutex);
	do {
		wq_retire_color(wq);
	} while (!list_empty(&wq->flushers) && !wq_arm(wq));
	mutex_unlock(&wq->mutex);
}
EXPORT_SYMBOL(__flush_workqueue);

/* is each pwq of @wq empty when we come by?  If so, @started counts the items they have started */
static bool wq_looks_empty(struct workqueue_struct *wq, u64 *started)
{
	struct pool_workqueue *pwq;

	*started = 0;
	for_each_pwq(pwq, wq) {
		guard(raw_spinlock_irq)(&pwq->pool->lock);
		if (!pwq_is_empty(pwq))
			return false;
		*started += pwq->stats[PWQ_STAT_STARTED];
	}
	return true;
}

/*
 * Is @wq empty?  It may look so although a chain goes on: an item queues the next one on a pwq
 * that we have passed, and ends before we come to its own.  So look twice.  If all pwqs were empty
 * both times and none has started an item since, nothing ran between the two looks, so no chain
 * can go on.
 */
static bool wq_is_empty(struct workqueue_struct *wq)
{
	u64 before, after;

	return wq_looks_empty(wq, &before) && wq_looks_empty(wq, &after) && before == after;
}

/**
 * drain_workqueue - wait until a workqueue is empty
 * @wq: the workqueue
 *
 * Meanwhile only its own items may queue on it.  If anybody else tries to, that warns
 * and leaves the item idle.  If its items keep queueing for ten rounds, the log says so.
 *
 * Context: may sleep; not from an item of @wq.
 */
void drain_workqueue(struct workqueue_struct *wq)
{
	unsigned int rounds = 0;

	/* queueing reads the flags anyway, so a flag tells it that there are drainers */
	scoped_guard(mutex, &wq->mutex) {
		if (!wq->nr_drainers++)
			WRITE_ONCE(wq->flags, wq->flags | __WQ_DRAINING);
	}

	for (;;) {
		__flush_workqueue(wq);

		guard(mutex)(&wq->mutex);
		if (wq_is_empty(wq)) {
			if (!--wq->nr_drainers)
				WRITE_ONCE(wq->flags, wq->flags & ~__WQ_DRAINING);
			return;
		}

		rounds++;
		if (rounds == 10 || (rounds <= 1000 && !(rounds % 100)))
			pr_warn("workqueue %s: %s() isn't complete after %u tries\n",
				wq->name, __func__, rounds);
	}
}
EXPORT_SYMBOL_GPL(drain_workqueue);

/**
 * __warn_flushing_systemwide_wq - complain about the flush of a shared workqueue
 *
 * Code that flushes one of the system's workqueues calls this.  The items on it belong
 * to anyone, and so do the locks that they take.
 */
void __warn_flushing_systemwide_wq(void)
{
	pr_warn("WARNING: Flushing system-wide workqueues will be prohibited in near future.\n");
	dump_stack();
}
EXPORT_SYMBOL(__warn_flushing_systemwide_wq);
