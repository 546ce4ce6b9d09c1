// SPDX-License-Identifier: GPL-2.0
/*
 * Delayed items, all of which name the same CPU
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/wait.h>

#include "wqhelp.h"

#define WQH_DELAYED		16

struct wqh_delayed {
	struct delayed_work	dwork;
	struct wqh_queue	*queue;
	int			due;		/* runs, by what the calls returned */
	atomic_t		owed;		/* those of them that have not begun */
};

static void wqh_delayed_fn(struct work_struct *work)
{
	struct wqh_delayed *delayed = container_of(work, struct wqh_delayed, dwork.work);

	wq_tally_ran(&delayed->owed);
	wqh_account_start(delayed->queue);
}

/* Only the caller queues the item, so each return value is exact. */
static void wqh_delay_once(struct wqh_delayed *delayed, unsigned int kind, int cpu,
			   unsigned long delay)
{
	struct workqueue_struct *wq = delayed->queue->wq;
	int more;

	if (kind < 2)
		more = queue_delayed_work_on(cpu, wq, &delayed->dwork, delay);
	else if (kind == 2)
		more = !mod_delayed_work_on(cpu, wq, &delayed->dwork, delay);
	else
		more = -cancel_delayed_work_sync(&delayed->dwork);
	delayed->due += more;
	atomic_add(more, &delayed->owed);
}

static bool wqh_all_ran(struct wqh_delayed *delayed)
{
	int i;

	for (i = 0; i < WQH_DELAYED; i++)
		if (wq_tally_lost(&delayed[i].owed))
			return false;
	return true;
}

static void wqh_delay_all(struct wqh_queue *q, struct wqh_delayed *delayed,
			  unsigned int calls, unsigned long delay, int cpu)
{
	unsigned int call;
	int i;

	for (call = 0; call < calls; call++) {
		i = call % WQH_DELAYED;
		if (!i)
			fsleep(get_random_u32_below(10000));
		wqh_delay_once(&delayed[i], call / WQH_DELAYED % 4, cpu, 1 + call % delay);
	}
	wait_event_timeout(q->ran_wait, wqh_all_ran(delayed), WQH_SETTLE);

	for (i = 0; i < WQH_DELAYED; i++) {
		/* before the count: the last function may not have returned yet */
		cancel_delayed_work_sync(&delayed[i].dwork);
		atomic64_add(delayed[i].due, &q->counters[WQH_QUEUED]);
		atomic64_add(wq_tally_excess(&delayed[i].owed), &q->counters[WQH_TWICE]);
		atomic64_add(wq_tally_lost(&delayed[i].owed), &q->counters[WQH_LOST]);
	}
}

int wqh_write_delay(struct wqh_queue *q, char *input)
{
	unsigned int calls = 0, ms = 0, cpu = nr_cpu_ids;
	struct wqh_delayed *delayed;
	int i, ret;

	ret = wqh_numbers(input, { "calls", &calls }, { "ms", &ms }, { "cpu", &cpu });
	if (ret)
		return ret;
	if (!calls || !ms || cpu >= nr_cpu_ids)
		return -ERANGE;

	delayed = kcalloc(WQH_DELAYED, sizeof(*delayed), GFP_KERNEL);
	if (!delayed)
		return -ENOMEM;
	for (i = 0; i < WQH_DELAYED; i++) {
		delayed[i].queue = q;
		wqh_init_work(q, &delayed[i].dwork.work, wqh_delayed_fn);
		timer_setup(&delayed[i].dwork.timer, delayed_work_timer_fn, TIMER_IRQSAFE);
	}
	wqh_delay_all(q, delayed, calls, msecs_to_jiffies(ms), cpu);
	kfree(delayed);
	return 0;
}
