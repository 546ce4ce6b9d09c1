// SPDX-License-Identifier: GPL-2.0
/*
 * Delayed and RCU work: when it runs, and changing, flushing and cancelling a delay.
 *
 * A delay is either WQ_API_NEVER, so that the timer cannot have started an item that
 * runs, or it is short. For short delays the cases check only that the item runs, and
 * that it does not run too early.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/timer.h>

#include "wq_api.h"
#include "wq_compat.h"

#define MOD_ROUNDS	60
#define MOD_PERIOD	ms_to_ktime(1)	/* leaves time for other tasks on a slow machine */

static void wait_run(struct kunit *test, struct wq_api_item *item, int runs)
{
	wq_api_wait(test, &item->finished, "the delayed item runs");
	flush_work(wq_api_work(item));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), runs);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&item->dwork));
}

/* "delay 0 queues at once": fails if the timer is used, or the item is lost. */
static void no_delay_no_timer(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	bool ret, timer;

	/* with interrupts off, a timer cannot fire in between */
	local_irq_disable();
	ret = queue_delayed_work(wq, &item->dwork, 0);
	timer = timer_pending(&item->dwork.timer);
	local_irq_enable();
	KUNIT_EXPECT_TRUE(test, ret);
	KUNIT_EXPECT_FALSE(test, timer);
	wait_run(test, item, 1);

	local_irq_disable();
	ret = mod_delayed_work(wq, &item->dwork, 0);
	timer = timer_pending(&item->dwork.timer);
	local_irq_enable();
	KUNIT_EXPECT_FALSE(test, ret);
	KUNIT_EXPECT_FALSE(test, timer);
	wait_run(test, item, 2);
}

/*
 * A delayed item is pending while its timer runs, takes no second queueing,
 * runs once, and not before its time.
 */
static void delay_is_kept(struct kunit *test)
{
	static const unsigned long delays[] = { 1, 2, 5 };
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	bool first, again, pending, timer;
	unsigned long due;
	int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		local_irq_disable();
		due = jiffies + delays[i];
		first = queue_delayed_work(wq, &item->dwork, delays[i]);
		pending = delayed_work_pending(&item->dwork);
		timer = timer_pending(&item->dwork.timer);
		again = queue_delayed_work(wq, &item->dwork, 0) ||
			queue_work(wq, wq_api_work(item));
		local_irq_enable();
		KUNIT_EXPECT_TRUE(test, first);
		KUNIT_EXPECT_TRUE(test, pending);
		KUNIT_EXPECT_TRUE(test, timer);
		KUNIT_EXPECT_FALSE(test, again);
		wait_run(test, item, i + 1);
		KUNIT_EXPECT_TRUE(test, time_after_eq(item->start_jiffies, due));
	}
}

/*
 * "The timer runs on the given or a housekeeping CPU", and the item on the given
 * one: fails if either is elsewhere.
 */
static void delay_on_cpu(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);
	int cpu, timer_cpu, runs = 0;

	for_each_online_cpu(cpu) {
		KUNIT_EXPECT_TRUE(test, queue_delayed_work_on(cpu, wq, &item->dwork,
							      WQ_API_NEVER));
		timer_cpu = item->dwork.timer.flags & TIMER_CPUMASK;
		if (housekeeping_enabled(HK_TYPE_TIMER))
			KUNIT_EXPECT_TRUE(test, housekeeping_test_cpu(timer_cpu,
								      HK_TYPE_TIMER));
		else
			KUNIT_EXPECT_EQ(test, timer_cpu, cpu);
		KUNIT_EXPECT_TRUE(test, mod_delayed_work_on(cpu, wq, &item->dwork, 1));
		wait_run(test, item, ++runs);
		KUNIT_EXPECT_EQ(test, item->cpu, cpu);
	}
}

/* "Works on an idle item": false, and it is queued. */
static void mod_idle(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	KUNIT_EXPECT_FALSE(test, mod_delayed_work(wq, &item->dwork, WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, timer_pending(&item->dwork.timer));
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&item->dwork));
	KUNIT_EXPECT_FALSE(test, mod_delayed_work(wq, &item->dwork, 1));
	wait_run(test, item, 1);
}

/* "mod_delayed_work() moves the timer": to later, to sooner, and to now. */
static void mod_moves_timer(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	unsigned long first;

	queue_delayed_work(wq, &item->dwork, WQ_API_NEVER);
	first = item->dwork.timer.expires;
	KUNIT_EXPECT_TRUE(test, mod_delayed_work(wq, &item->dwork, 2 * WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, time_after_eq(item->dwork.timer.expires,
					      first + WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, mod_delayed_work(wq, &item->dwork, 1));
	wait_run(test, item, 1);

	queue_delayed_work(wq, &item->dwork, WQ_API_NEVER);
	KUNIT_EXPECT_TRUE(test, mod_delayed_work(wq, &item->dwork, 0));
	wait_run(test, item, 2);
}

/* A running item is not pending: this returns false, and the item runs once more later. */
static void mod_running(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	item->gated = true;
	queue_delayed_work(wq, &item->dwork, 0);
	wq_api_wait(test, &item->started, "the item starts");
	KUNIT_EXPECT_FALSE(test, mod_delayed_work(wq, &item->dwork, WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, mod_delayed_work(wq, &item->dwork, 0));
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&item->dwork));
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
	complete_all(&item->gate);
	wq_api_wait(test, &item->finished, "the first run ends");
	wait_run(test, item, 2);
	KUNIT_EXPECT_FALSE(test, item->reentered);
}

/*
 * An item that max_active holds back moves to the timer: fails if the flush that follows
 * still finds it.
 */
static void mod_queued(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 3);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	struct wq_api_call *flusher;
	int cpu = wq_api_cpu(0);

	items[0].gated = true;
	queue_delayed_work_on(cpu, wq, &items[0].dwork, 0);
	wq_api_wait(test, &items[0].started, "the blocker starts");
	queue_delayed_work_on(cpu, wq, &items[1].dwork, 0);
	queue_delayed_work_on(cpu, wq, &items[2].dwork, 0);
	KUNIT_EXPECT_TRUE(test, mod_delayed_work_on(cpu, wq, &items[1].dwork,
						    WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, timer_pending(&items[1].dwork.timer));

	flusher = wq_api_call(test, -1, wq_api_flush_fn, wq);
	wq_api_call_blocks(test, flusher);
	complete_all(&items[0].gate);
	wq_api_call_result(test, flusher);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[2].runs), 1);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&items[1].dwork));
}

/* @item is queued on @wq; hard interrupts modify and cancel it. */
struct from_irq {
	struct wq_api_item *item;
	struct workqueue_struct *wq;
	struct hrtimer timer;
	struct irq_work irq_work;
	struct completion done;
	int left;
	bool in_hardirq;
	bool was_pending;
	int cancels;
};

static enum hrtimer_restart from_hrtimer(struct hrtimer *timer)
{
	struct from_irq *irq = container_of(timer, struct from_irq, timer);
	int left = --irq->left;

	irq->in_hardirq &= !!in_hardirq();
	if (left % 3 == 0)
		irq->cancels += cancel_delayed_work(&irq->item->dwork);
	else
		mod_delayed_work(irq->wq, &irq->item->dwork, left % 3 - 1);
	if (left > 0) {
		hrtimer_forward_now(timer, MOD_PERIOD);
		return HRTIMER_RESTART;
	}
	mod_delayed_work(irq->wq, &irq->item->dwork, 0);
	complete(&irq->done);
	return HRTIMER_NORESTART;
}

static struct from_irq *new_from_irq(struct kunit *test, struct workqueue_struct *wq)
{
	struct from_irq *irq = wq_api_zalloc(test, sizeof(*irq));

	irq->item = wq_api_items(test, 1);
	irq->wq = wq;
	irq->in_hardirq = true;
	init_completion(&irq->done);
	return irq;
}

/*
 * "From any context": a hard interrupt modifies and cancels while a thread does the
 * same. Fails if an item gets lost: if the last call queued it, it must run.
 */
static void mod_from_hrtimer(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct from_irq *irq = new_from_irq(test, wq);
	int runs;

	irq->left = MOD_ROUNDS;
	hrtimer_setup(&irq->timer, from_hrtimer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&irq->timer, MOD_PERIOD, HRTIMER_MODE_REL_HARD);
	while (READ_ONCE(irq->left) > 0) {
		mod_delayed_work(wq, &irq->item->dwork, 1);
		queue_delayed_work(wq, &irq->item->dwork, 0);
		cancel_delayed_work(&irq->item->dwork);
		usleep_range(1, 20);
	}
	hrtimer_cancel(&irq->timer);
	KUNIT_EXPECT_TRUE(test, irq->in_hardirq);
	cancel_delayed_work_sync(&irq->item->dwork);

	runs = atomic_read(&irq->item->runs);
	irq->left = 1;
	reinit_completion(&irq->done);
	hrtimer_start(&irq->timer, 0, HRTIMER_MODE_REL_HARD);
	wq_api_wait(test, &irq->done, "the timer fires");
	wq_api_until(test, atomic_read(&irq->item->runs) == runs + 1);
	hrtimer_cancel(&irq->timer);
	KUNIT_EXPECT_FALSE(test, irq->item->reentered);
}

static void from_irq_work(struct irq_work *work)
{
	struct from_irq *irq = container_of(work, struct from_irq, irq_work);

	irq->in_hardirq = in_hardirq();
	irq->was_pending = mod_delayed_work(irq->wq, &irq->item->dwork, 0);
	complete(&irq->done);
}

/* The same from irq_work, on an idle and on a pending item. */
static void mod_from_irq_work(struct kunit *test)
{
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct from_irq *irq = new_from_irq(test, wq);

	irq->irq_work = IRQ_WORK_INIT_HARD(from_irq_work);
	irq_work_queue(&irq->irq_work);
	wq_api_wait(test, &irq->done, "the irq_work runs");
	irq_work_sync(&irq->irq_work);
	KUNIT_EXPECT_TRUE(test, irq->in_hardirq);
	KUNIT_EXPECT_FALSE(test, irq->was_pending);
	wait_run(test, irq->item, 1);

	queue_delayed_work(wq, &irq->item->dwork, WQ_API_NEVER);
	irq_work_queue(&irq->irq_work);
	wq_api_wait(test, &irq->done, "the irq_work runs");
	irq_work_sync(&irq->irq_work);
	KUNIT_EXPECT_TRUE(test, irq->was_pending);
	wait_run(test, irq->item, 2);
}

/* "cancel_delayed_work[_sync](): true if it was pending". */
static void cancel_delayed(struct kunit *test)
{
	struct wq_api_item *items = wq_api_items(test, 2);
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 1);
	int cpu = wq_api_cpu(0);

	/* idle */
	KUNIT_EXPECT_FALSE(test, cancel_delayed_work(&items[0].dwork));
	KUNIT_EXPECT_FALSE(test, cancel_delayed_work_sync(&items[0].dwork));
	/* on the timer */
	queue_delayed_work_on(cpu, wq, &items[0].dwork, WQ_API_NEVER);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work(&items[0].dwork));
	KUNIT_EXPECT_FALSE(test, timer_pending(&items[0].dwork.timer));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&items[0].dwork));
	queue_delayed_work_on(cpu, wq, &items[0].dwork, WQ_API_NEVER);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&items[0].dwork));
	KUNIT_EXPECT_FALSE(test, cancel_delayed_work_sync(&items[0].dwork));
	/* running, and queued behind it */
	items[0].gated = true;
	queue_delayed_work_on(cpu, wq, &items[0].dwork, 0);
	wq_api_wait(test, &items[0].started, "the blocker starts");
	KUNIT_EXPECT_FALSE(test, cancel_delayed_work(&items[0].dwork));
	queue_delayed_work_on(cpu, wq, &items[1].dwork, 0);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work(&items[1].dwork));
	queue_delayed_work_on(cpu, wq, &items[1].dwork, 0);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&items[1].dwork));
	complete_all(&items[0].gate);
	KUNIT_EXPECT_FALSE(test, cancel_delayed_work_sync(&items[0].dwork));
	KUNIT_EXPECT_EQ(test, atomic_read(&items[0].runs), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&items[1].runs), 0);
}

static int flush_delayed_fn(void *dwork)
{
	return flush_delayed_work(dwork);
}

static bool flush_item(struct kunit *test, struct wq_api_item *item)
{
	return wq_api_call_result(test, wq_api_call(test, -1, flush_delayed_fn,
						    &item->dwork));
}

/*
 * A flush does not wait for the delay to end: it runs the item now and returns true
 * (unless a BH item has finished before the flush looks).
 */
static void flush_delayed(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);
	struct wq_api_call *flusher;

	item->gated = !(kind->flags & WQ_BH);
	KUNIT_EXPECT_FALSE(test, flush_item(test, item));
	queue_delayed_work(wq, &item->dwork, WQ_API_NEVER);
	flusher = wq_api_call(test, -1, flush_delayed_fn, &item->dwork);
	wq_api_wait(test, &item->started, "a flush starts the delayed item");
	KUNIT_EXPECT_FALSE(test, timer_pending(&item->dwork.timer));
	if (item->gated) {
		wq_api_call_blocks(test, flusher);
		complete_all(&item->gate);
		KUNIT_EXPECT_TRUE(test, wq_api_call_result(test, flusher));
		KUNIT_EXPECT_EQ(test, atomic_read(&item->inside), 0);
	}
	wait_run(test, item, 1);
	KUNIT_EXPECT_FALSE(test, flush_item(test, item));
}

static void note_run(struct work_struct *work)
{
	struct wq_api_item *item = container_of(to_delayed_work(work),
						struct wq_api_item, dwork);

	atomic_inc(&item->runs);
}

/* A deferrable timer may wait for an idle CPU to wake, but a flush must not. */
static void deferrable(struct kunit *test)
{
	struct wq_api_item *item = wq_api_items(test, 1);
	struct workqueue_struct *wq = wq_api_wq_kind(test);

	INIT_DEFERRABLE_WORK(&item->dwork, note_run);
	wq_api_set_class(test, &item->dwork.work);
	KUNIT_EXPECT_TRUE(test, queue_delayed_work(wq, &item->dwork, WQ_API_NEVER));
	KUNIT_EXPECT_TRUE(test, item->dwork.timer.flags & TIMER_DEFERRABLE);
	flush_item(test, item);
	KUNIT_EXPECT_EQ(test, atomic_read(&item->runs), 1);
}

struct rcu_probe {
	struct rcu_work rwork;
	struct workqueue_struct *wq;
	struct completion ran;
	atomic_t runs;
	bool reading;
	bool too_early;
};

static void rcu_probe_fn(struct work_struct *work)
{
	struct rcu_probe *probe = container_of(to_rcu_work(work), struct rcu_probe, rwork);

	if (READ_ONCE(probe->reading))
		probe->too_early = true;
	atomic_inc(&probe->runs);
	complete(&probe->ran);
}

static int flush_rcu_fn(void *rwork)
{
	return flush_rcu_work(rwork);
}

static bool flush_probe(struct kunit *test, struct rcu_probe *probe)
{
	return wq_api_call_result(test, wq_api_call(test, -1, flush_rcu_fn,
						    &probe->rwork));
}

/*
 * "Queues after a grace period; flush_rcu_work() waits for both": fails if the
 * function runs while a reader from before the queueing still reads, if a second
 * queueing is accepted, or if a flush returns before the run.
 */
static void rcu_work_waits_for_readers(struct kunit *test)
{
	struct rcu_probe *probe = wq_api_zalloc(test, sizeof(*probe));
	bool first, again, pending;
	int i;

	probe->wq = wq_api_wq_kind(test);
	INIT_RCU_WORK(&probe->rwork, rcu_probe_fn);
	wq_api_set_class(test, &probe->rwork.work);
	init_completion(&probe->ran);
	KUNIT_EXPECT_FALSE(test, flush_probe(test, probe));

	for (i = 1; i <= 2; i++) {
		rcu_read_lock();
		WRITE_ONCE(probe->reading, true);
		first = queue_rcu_work(probe->wq, &probe->rwork);
		again = queue_rcu_work(probe->wq, &probe->rwork);
		mdelay(10);
		pending = work_pending(&probe->rwork.work);
		WRITE_ONCE(probe->reading, false);
		rcu_read_unlock();

		KUNIT_EXPECT_TRUE(test, first);
		KUNIT_EXPECT_FALSE(test, again);
		KUNIT_EXPECT_TRUE(test, pending);
		flush_probe(test, probe);
		KUNIT_EXPECT_EQ(test, atomic_read(&probe->runs), i);
		KUNIT_EXPECT_FALSE(test, probe->too_early);
		KUNIT_EXPECT_FALSE(test, work_pending(&probe->rwork.work));
	}

	/* it also runs without a flush */
	reinit_completion(&probe->ran);
	KUNIT_EXPECT_TRUE(test, queue_rcu_work(probe->wq, &probe->rwork));
	wq_api_wait(test, &probe->ran, "the RCU work runs");
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(no_delay_no_timer, wq_api_all_kinds),
	KUNIT_CASE_PARAM(delay_is_kept, wq_api_all_kinds),
	KUNIT_CASE(delay_on_cpu),
	KUNIT_CASE_PARAM(mod_idle, wq_api_all_kinds),
	KUNIT_CASE_PARAM(mod_moves_timer, wq_api_all_kinds),
	KUNIT_CASE_PARAM(mod_running, wq_api_thread_kinds),
	KUNIT_CASE(mod_queued),
	KUNIT_CASE_PARAM(mod_from_hrtimer, wq_api_all_kinds),
	KUNIT_CASE_PARAM(mod_from_irq_work, wq_api_all_kinds),
	KUNIT_CASE(cancel_delayed),
	KUNIT_CASE_PARAM(flush_delayed, wq_api_all_kinds),
	KUNIT_CASE_PARAM(deferrable, wq_api_all_kinds),
	KUNIT_CASE_PARAM(rcu_work_waits_for_readers, wq_api_few_kinds),
	{}
};

struct kunit_suite wq_api_delayed_suite = {
	.name = "wq_api_delayed",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};
