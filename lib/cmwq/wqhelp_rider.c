// SPDX-License-Identifier: GPL-2.0
/*
 * Riders are BH items that queue themselves again and again.  A CPU that goes down
 * therefore has them in its pool.  Once the CPU is dead, but before that pool is cleared,
 * the first rider is cancelled.  The others end when they run.  On its way down the CPU
 * may complain about pending softirqs, since it no longer has a ksoftirqd.
 */
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "wqhelp.h"

static LIST_HEAD(wqh_riders);			/* wqh_riders_lock */
static DEFINE_SPINLOCK(wqh_riders_lock);	/* also taken by BH items */
static int wqh_hp_dead;

/* one at a time; set when it is queued, cleared by its canceller */
static struct wqh_single *wqh_lingerer;

static void wqh_unlist_rider(struct wqh_single *rider)
{
	guard(spinlock_bh)(&wqh_riders_lock);
	list_del(&rider->node);
}

void wqh_ride_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);

	if (!wqh_released(single) && !READ_ONCE(single->arrived)) {
		queue_work(single->queue->wq, work);
		return;
	}
	wqh_account_start(single->queue);
	wqh_unlist_rider(single);
	kfree(single);
}

static void wqh_cancel_lingerer(struct work_struct *work)
{
	struct wqh_single *single = READ_ONCE(wqh_lingerer);

	if (READ_ONCE(single->running))
		wqh_count(single->queue, WQH_CAUGHT);
	cancel_work_sync(&single->work);
	if (READ_ONCE(single->running))
		wqh_count(single->queue, WQH_EARLY);
	WRITE_ONCE(single->cancelled, true);
	/* pairs with the release in wqh_linger_fn() */
	while (smp_load_acquire(&single->running))
		msleep(20);
	WRITE_ONCE(wqh_lingerer, NULL);
	kfree(single);
}

static DECLARE_WORK(wqh_canceller, wqh_cancel_lingerer);

/*
 * A lingerer is a rider that queues itself for the last time once its CPU is dead.  It then
 * runs until another CPU has cancelled it, but no longer than 0.3 s.
 */
void wqh_linger_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);
	struct wqh_queue *q = single->queue;
	unsigned int cpu;
	int ms = 300;

	if (!wqh_released(single) && !READ_ONCE(single->arrived)) {
		queue_work(q->wq, work);
		return;
	}
	/* this second run occurs if the canceller is late */
	if (single->lingered)
		return;
	single->lingered = true;

	wqh_account_start(q);
	wqh_unlist_rider(single);
	WRITE_ONCE(single->running, true);
	/* not if it was only released: its workqueue may be about to be destroyed */
	if (READ_ONCE(single->arrived))
		queue_work(q->wq, work);
	cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	/* without another CPU, the canceller comes too late to see anything */
	queue_work_on(cpu < nr_cpu_ids ? cpu : smp_processor_id(), system_percpu_wq,
		      &wqh_canceller);
	while (ms-- && !READ_ONCE(single->cancelled))
		wqh_spin_us(1000);
	/* after this the canceller may free the item */
	smp_store_release(&single->running, false);
}

int wqh_add_rider(struct wqh_single *rider)
{
	if (rider->kind == WQH_LINGER && cmpxchg(&wqh_lingerer, NULL, rider))
		return -EBUSY;
	guard(spinlock_bh)(&wqh_riders_lock);
	list_add_tail(&rider->node, &wqh_riders);
	return 0;
}

/* It was not queued. */
void wqh_drop_rider(struct wqh_single *rider)
{
	wqh_unlist_rider(rider);
	if (rider->kind == WQH_LINGER)
		WRITE_ONCE(wqh_lingerer, NULL);
}

static int wqh_cpu_dead(unsigned int cpu)
{
	struct wqh_single *single, *next;
	bool cancelled = false;

	guard(spinlock_bh)(&wqh_riders_lock);
	list_for_each_entry_safe(single, next, &wqh_riders, node) {
		if (single->cpu != cpu)
			continue;
		WRITE_ONCE(single->arrived, true);
		if (single->kind != WQH_RIDE || cancelled || !cancel_work(&single->work))
			continue;
		cancelled = true;
		list_del(&single->node);
		kfree(single);
	}
	return 0;
}

/* A dead CPU's pools are cleared at a lower state: later, on the way down. */
int wqh_rider_init(void)
{
	wqh_hp_dead = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "lib/wq_test:dead",
					NULL, wqh_cpu_dead);
	return min(wqh_hp_dead, 0);
}

void wqh_rider_exit(void)
{
	flush_work(&wqh_canceller);
	cpuhp_remove_state(wqh_hp_dead);
}
