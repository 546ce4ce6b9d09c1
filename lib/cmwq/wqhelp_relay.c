// SPDX-License-Identifier: GPL-2.0
/*
 * Relays: a slot that becomes free belongs to the item that waits for it.  With a
 * max_active of 1, the first item of a round holds the slot on one CPU, and the second is
 * held back on another.  While the first ends, others are queued behind the second.  None
 * of them may overtake it.
 */
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "wqhelp.h"

#define WQH_RUNNERS		16

struct wqh_relay {
	struct wqh_queue	*queue;
	unsigned int		rounds;
	unsigned int		from;
	unsigned int		to;
	atomic_t		started;	/* items of this round that began */
	bool			go;		/* the first one may end */
	struct wqh_runner {
		struct work_struct	work;
		struct wqh_relay	*relay;
		int			place;	/* in which it has to start */
	} runners[WQH_RUNNERS];
};

static void wqh_runner_fn(struct work_struct *work)
{
	struct wqh_runner *runner = container_of(work, struct wqh_runner, work);
	struct wqh_relay *relay = runner->relay;

	if (atomic_inc_return(&relay->started) != runner->place)
		wqh_count(relay->queue, WQH_MISORDERED);
	wqh_account_start(relay->queue);
	while (runner->place == 1 && !READ_ONCE(relay->go))
		cpu_relax();
}

static bool wqh_wait_ran(struct wqh_queue *q, s64 n)
{
	return wait_event_timeout(q->ran_wait, atomic64_read(&q->counters[WQH_RAN]) >= n,
				  WQH_SETTLE);
}

static bool wqh_relay_round(struct wqh_relay *relay)
{
	struct wqh_queue *q = relay->queue;
	s64 ran = atomic64_read(&q->counters[WQH_RAN]);
	unsigned int i;

	atomic_set(&relay->started, 0);
	relay->go = false;
	atomic64_add(WQH_RUNNERS, &q->counters[WQH_QUEUED]);

	queue_work_on(relay->from, q->wq, &relay->runners[0].work);
	if (!wqh_wait_ran(q, ran + 1))
		return false;

	preempt_disable();
	queue_work_on(relay->to, q->wq, &relay->runners[1].work);
	WRITE_ONCE(relay->go, true);
	for (i = 2; i < WQH_RUNNERS; i++)
		queue_work_on(relay->to, q->wq, &relay->runners[i].work);
	preempt_enable();
	return wqh_wait_ran(q, ran + WQH_RUNNERS);
}

/* Not on the CPU of the first item: that item could not end there while this queues. */
static long wqh_relay_run(void *arg)
{
	struct wqh_relay *relay = arg;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < WQH_RUNNERS; i++) {
		INIT_WORK(&relay->runners[i].work, wqh_runner_fn);
		relay->runners[i].relay = relay;
		relay->runners[i].place = i + 1;
	}
	for (i = 0; i < relay->rounds && !ret; i++)
		ret = wqh_relay_round(relay) ? 0 : -ETIMEDOUT;

	WRITE_ONCE(relay->go, true);
	for (i = 0; i < WQH_RUNNERS; i++)
		cancel_work_sync(&relay->runners[i].work);
	return ret;
}

int wqh_write_relay(struct wqh_queue *q, char *input)
{
	struct wqh_relay *relay __free(kfree) = kzalloc(sizeof(*relay), GFP_KERNEL);
	int ret;

	if (!relay)
		return -ENOMEM;
	relay->queue = q;
	ret = wqh_numbers(input, { "rounds", &relay->rounds }, { "from", &relay->from },
			  { "to", &relay->to });
	if (ret)
		return ret;
	if (relay->from >= nr_cpu_ids || relay->to >= nr_cpu_ids || relay->from == relay->to)
		return -ERANGE;
	if (!(q->flags & WQ_UNBOUND))
		return -EINVAL;

	/* during a relay, only the relay uses the counter of items that ran */
	guard(mutex)(&q->load_mutex);
	if (q->threads)
		return -EBUSY;
	guard(cpus_read_lock)();
	if (!cpu_online(relay->from) || !cpu_online(relay->to))
		return -ERANGE;
	return work_on_cpu(relay->to, wqh_relay_run, relay);
}
