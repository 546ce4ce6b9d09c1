// SPDX-License-Identifier: GPL-2.0
/*
 * Single items
 */
#include <linux/cpu.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "wqhelp.h"

#define WQH_MAX_ITEMS		4096

bool wqh_released(const struct wqh_single *single)
{
	return READ_ONCE(single->queue->generation) != single->generation;
}

static void wqh_hog(struct wqh_single *single)
{
	unsigned long end = jiffies + msecs_to_jiffies(single->ms);

	/* Occupy the CPU without sleeping, but cause no soft lockup. */
	while (!wqh_released(single) && time_before(jiffies, end)) {
		cpu_relax();
		if (!(single->queue->flags & WQ_BH))
			cond_resched();
	}
}

static void wqh_hold(struct wqh_single *single)
{
	struct wqh_queue *q = single->queue;

	single->cpu = raw_smp_processor_id();
	single->task = current;
	scoped_guard(spinlock_bh, &q->held_lock)
		list_add_tail(&single->node, &q->held);

	if (single->kind == WQH_HOG)
		wqh_hog(single);
	else
		wait_event(q->release_wait, wqh_released(single));

	scoped_guard(spinlock_bh, &q->held_lock)
		list_del(&single->node);
}

/* A function for each kind, so that dumps and traces tell the kinds apart. */
static void wqh_nop_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);

	wqh_account_start(single->queue);
	wqh_record_order(single->queue, single->cpu);
	kfree(single);
}

static void wqh_block_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);

	wqh_account_start(single->queue);
	wqh_hold(single);
	kfree(single);
}

static void wqh_hog_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);

	wqh_account_start(single->queue);
	wqh_record_order(single->queue, single->cpu);
	wqh_hold(single);
	kfree(single);
}

/* Blocks with migration disabled, so its CPU cannot go down completely meanwhile. */
static void wqh_pin_fn(struct work_struct *work)
{
	migrate_disable();
	wqh_block_fn(work);
	migrate_enable();
}

/* A BH item that queues itself until it is released, whatever becomes of its CPU. */
static void wqh_roam_fn(struct work_struct *work)
{
	struct wqh_single *single = container_of(work, struct wqh_single, work);

	if (!wqh_released(single)) {
		queue_work(single->queue->wq, work);
		return;
	}
	wqh_account_start(single->queue);
	kfree(single);
}

static int wqh_queue_single(struct wqh_queue *q, enum wqh_kind kind, int cpu,
			    unsigned int ms)
{
	static const work_func_t functions[] = {
		[WQH_NOP]	= wqh_nop_fn,
		[WQH_BLOCK]	= wqh_block_fn,
		[WQH_HOG]	= wqh_hog_fn,
		[WQH_RIDE]	= wqh_ride_fn,
		[WQH_ROAM]	= wqh_roam_fn,
		[WQH_LINGER]	= wqh_linger_fn,
		[WQH_PIN]	= wqh_pin_fn,
	};
	bool rides = kind == WQH_RIDE || kind == WQH_LINGER;
	struct wqh_single *single = kzalloc(sizeof(*single), GFP_KERNEL);

	if (!single)
		return -ENOMEM;

	single->queue = q;
	single->kind = kind;
	single->cpu = cpu;
	single->ms = ms;
	single->generation = READ_ONCE(q->generation);
	wqh_init_work(q, &single->work, functions[kind]);
	if (rides && wqh_add_rider(single)) {
		kfree(single);
		return -EBUSY;
	}

	wqh_count(q, WQH_QUEUED);
	if (queue_work_on(cpu, q->wq, &single->work))
		return 0;

	wqh_count(q, WQH_REFUSED);
	if (rides)
		wqh_drop_rider(single);
	kfree(single);
	return -EIO;
}

/* Do not add riders for a CPU that is down: they would wait until it goes down again. */
static int wqh_queue_rider(struct wqh_queue *q, enum wqh_kind kind, int cpu)
{
	guard(cpus_read_lock)();
	return cpu_online(cpu) ? wqh_queue_single(q, kind, cpu, 0) : -EINVAL;
}

int wqh_write_queue(struct wqh_queue *q, char *input)
{
	static const char * const kinds[] = {
		"nop", "block", "hog", "ride", "roam", "linger", "pin"
	};
	unsigned int cpu = WORK_CPU_UNBOUND, n = 1, ms = 1000;
	int kind, ret;
	bool rides;

	kind = wqh_read_kind(&input, kinds, ARRAY_SIZE(kinds));
	if (kind < 0)
		return kind;
	ret = wqh_numbers(input, { "cpu", &cpu }, { "n", &n }, { "ms", &ms });
	if (ret)
		return ret;
	if (!n || n > WQH_MAX_ITEMS || (cpu != WORK_CPU_UNBOUND && cpu >= nr_cpu_ids))
		return -ERANGE;
	if ((kind == WQH_BLOCK || kind == WQH_PIN) && q->flags & WQ_BH)
		return -EINVAL;
	rides = kind == WQH_RIDE || kind == WQH_LINGER;
	if (rides && cpu == WORK_CPU_UNBOUND)
		return -EINVAL;
	if ((rides || kind == WQH_ROAM) && !(q->flags & WQ_BH))
		return -EINVAL;

	while (n-- && !ret) {
		if (rides)
			ret = wqh_queue_rider(q, kind, cpu);
		else
			ret = wqh_queue_single(q, kind, cpu, ms);
	}
	return ret;
}

int wqh_write_release(struct wqh_queue *q, char *input)
{
	scoped_guard(spinlock_bh, &q->held_lock)
		WRITE_ONCE(q->generation, q->generation + 1);
	wake_up_all(&q->release_wait);
	return 0;
}

int wqh_show_held(struct seq_file *s, struct wqh_queue *q)
{
	struct wqh_single *single;

	/* An item on the list has not finished, so its task exists. */
	guard(spinlock_bh)(&q->held_lock);
	list_for_each_entry(single, &q->held, node)
		seq_printf(s, "%s pid=%d cpu=%d\n",
			   single->kind == WQH_HOG ? "hog" : "block",
			   task_pid_nr(single->task), single->cpu);
	return 0;
}
