// SPDX-License-Identifier: GPL-2.0
/*
 * What delays a CPU: a storm of softirqs, interrupts that stay disabled, an item that
 * does not end. The items that are queued there must run exactly once: in a storm while it
 * lasts, otherwise at the latest when the CPU is free again.
 */
#define pr_fmt(fmt) "wqtorture: " fmt

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/nmi.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "wqtorture.h"

#define MARKS		8	/* of each kind of pool */
#define STORM_MS	300
#define LOST_MS		1000
#define WATCHDOG	"module/workqueue/parameters/watchdog_thresh"

/* The kinds of pool that a CPU has. */
static const unsigned int pools[] = {
	WQ_PERCPU, WQ_PERCPU | WQ_HIGHPRI, WQ_COMPAT_BH,
};

struct mark {
	struct work_struct work;
	struct held *held;
};

/* Items that wait for a CPU, some in each of its pools. */
struct held {
	struct workqueue_struct *wqs[ARRAY_SIZE(pools)];
	struct mark marks[ARRAY_SIZE(pools)][MARKS];
	atomic_t left;
	atomic_t runs;
};

static void mark_fn(struct work_struct *work)
{
	struct held *held = container_of(work, struct mark, work)->held;

	atomic_inc(&held->runs);
	atomic_dec(&held->left);
}

static struct held *held_make(void)
{
	struct held *held = kzalloc(sizeof(*held), GFP_KERNEL);
	int i;

	for (i = 0; held && i < ARRAY_SIZE(pools); i++)
		held->wqs[i] = alloc_workqueue("wqt_held", pools[i], 0);
	return held;
}

static void held_free(struct held *held)
{
	int i;

	for (i = 0; held && i < ARRAY_SIZE(pools); i++)
		if (held->wqs[i])
			destroy_workqueue(held->wqs[i]);
	kfree(held);
}

/* Queues on this CPU. The caller must not move to another. */
static void held_queue(struct held *held)
{
	struct mark *mark;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(pools); i++) {
		for (j = 0; held->wqs[i] && j < MARKS; j++) {
			mark = &held->marks[i][j];
			INIT_WORK(&mark->work, mark_fn);
			wqt_lock_class(&mark->work, pools[i] & WQ_BH);
			mark->held = held;
			atomic_inc(&held->left);
			if (!queue_work_on(smp_processor_id(), held->wqs[i], &mark->work))
				wqt_wrong(WQT_BAD_RETURN, NULL, "a new item is refused");
		}
	}
}

static int held_queued(const struct held *held)
{
	int i, queued = 0;

	for (i = 0; i < ARRAY_SIZE(pools); i++)
		queued += held->wqs[i] ? MARKS : 0;
	return queued;
}

/* All have to run within half of the time after which a stall is reported. */
static void held_wait(struct held *held, const char *when)
{
	if (wqt_wait_for_zero(&held->left, wqt_stall * HZ / 2))
		return;
	wqt_wrong(WQT_HELD_UP, NULL, "%d of %d items have not run %s",
		  atomic_read(&held->left), held_queued(held), when);
	wqt_show_state();
}

/* Call this when nothing delays the items any more: flushing would wait for that, too. */
static void held_check(struct held *held, const char *when)
{
	int i, queued = held_queued(held);

	for (i = 0; i < ARRAY_SIZE(pools); i++)
		if (held->wqs[i])
			flush_workqueue(held->wqs[i]);
	if (atomic_read(&held->runs) != queued)
		wqt_wrong(WQT_LOST, NULL, "%d runs of %d items %s",
			  atomic_read(&held->runs), queued, when);
	wqt_add(WQT_HELD, queued);
}

static void held_expect(struct held *held, const char *when)
{
	held_wait(held, when);
	held_check(held, when);
}

/*
 * Storm: a tasklet schedules itself on one CPU for as long as the storm lasts. It also
 * queues items. BH work shares the softirq vectors with tasklets and has to get its turn.
 */

struct storm {
	struct tasklet_struct tasklet;
	struct wqt_actor actor;
	struct held *held;
	struct completion begun;
	bool over;
};

static void storm_fn(struct tasklet_struct *tasklet)
{
	struct storm *storm = container_of(tasklet, struct storm, tasklet);

	if (!completion_done(&storm->begun)) {
		held_queue(storm->held);
		complete_all(&storm->begun);
	}
	udelay(20 + wqt_rnd(&storm->actor.rnd, 80));
	if (wqt_one_in(&storm->actor.rnd, 4))
		wqt_quick_op(&storm->actor);
	wqt_count(WQT_STORM_TASKLET);
	if (!READ_ONCE(storm->over))
		tasklet_schedule(tasklet);
}

/* Go to some CPU if it is up. The lock: a CPU on its way down would turn this thread away. */
static void go_to_some_cpu(struct rnd_state *rnd)
{
	guard(cpus_read_lock)();
	set_cpus_allowed_ptr(current, cpumask_of(wqt_any_cpu(rnd)));
}

static void go_anywhere(void)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* The storm ends when the marks have run, or when that takes too long: they must run in it. */
static void storm_round(struct wqt_actor *actor, struct storm *storm)
{
	wqt_actor_init(&storm->actor, "softirqs", wqt_rnd(&actor->rnd, 1 << 20));
	init_completion(&storm->begun);
	tasklet_setup(&storm->tasklet, storm_fn);
	go_to_some_cpu(&actor->rnd);
	tasklet_schedule(&storm->tasklet);
	go_anywhere();
	wait_for_completion(&storm->begun);
	msleep(STORM_MS);
	held_wait(storm->held, "in a storm of softirqs");
	WRITE_ONCE(storm->over, true);
	tasklet_kill(&storm->tasklet);
	held_check(storm->held, "in a storm of softirqs");
	wqt_count(WQT_STORM);
}

int wqt_storm_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	while (wqt_actor_naps(actor, wqt_storm_ms)) {
		struct storm *one = kzalloc(sizeof(*one), GFP_KERNEL);

		wqt_at(actor, "a storm of softirqs", NULL);
		if (one)
			one->held = held_make();
		if (one && one->held)
			storm_round(actor, one);
		if (one)
			held_free(one->held);
		kfree(one);
		wqt_at(actor, NULL, NULL);
	}
	return wqt_actor_ends(actor);
}

/*
 * A CPU that serves nobody for a while. Either its interrupts are disabled, or only
 * preemption is, and then the CPU still serves softirqs. Other CPUs go on queueing on it.
 */

static void lose_cpu(struct held *held, struct rnd_state *rnd)
{
	unsigned int i, ms = LOST_MS / 4 + wqt_rnd(rnd, LOST_MS);
	/* on a busy host, these ms may take 20 s, and RCU would report a stall */
	ktime_t end = ktime_add_ms(ktime_get(), 5 * ms);
	bool deaf = wqt_one_in(rnd, 2);
	unsigned long flags;

	preempt_disable();
	if (deaf)
		local_irq_save(flags);
	held_queue(held);
	for (i = 0; i < ms && ktime_before(ktime_get(), end); i++) {
		mdelay(1);
		/* the delay is intended; besides, clocks may drift under emulation */
		touch_softlockup_watchdog();
	}
	if (deaf)
		local_irq_restore(flags);
	preempt_enable();
	wqt_add(WQT_LOST_MS, i);
}

int wqt_lost_thread(void *arg)
{
	struct wqt_actor *actor = arg;
	struct held *held;

	while (wqt_actor_naps(actor, wqt_lost_ms)) {
		wqt_at(actor, "losing a CPU", NULL);
		/* not while a rescuer or the slow creation of a thread needs the CPU */
		down_read(&wqt_famine_sem);
		held = held_make();
		if (held) {
			go_to_some_cpu(&actor->rnd);
			lose_cpu(held, &actor->rnd);
			go_anywhere();
			held_expect(held, "after their CPU came back");
			wqt_count(WQT_LOST_CPU);
		}
		held_free(held);
		up_read(&wqt_famine_sem);
		wqt_at(actor, NULL, NULL);
	}
	return wqt_actor_ends(actor);
}

/*
 * An item keeps its CPU, and others wait behind it, until the workqueue watchdog must have
 * reported it. The watchdog looks once in each period of its threshold, by the clock of the
 * timers. Under emulation mdelay() goes by another clock, so the item counts jiffies.
 * test_torture.py checks that the log names the function.
 */

static void wqt_stuck_fn(struct work_struct *work)
{
	int seconds = 3 * wqt_stuck + 1;
	unsigned long end;

	pr_alert("stuck: %ps keeps CPU %d for %d s\n", work->func, raw_smp_processor_id(),
		 seconds);
	preempt_disable();
	end = jiffies + seconds * HZ;
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
	pr_alert("stuck: the CPU is free again\n");
}

static void stick(struct rnd_state *rnd)
{
	struct held *held = held_make();
	struct work_struct work;

	if (!held || !held->wqs[0])
		goto out;
	INIT_WORK_ONSTACK(&work, wqt_stuck_fn);
	go_to_some_cpu(rnd);
	preempt_disable();
	queue_work_on(smp_processor_id(), held->wqs[0], &work);
	held_queue(held);
	preempt_enable();
	go_anywhere();
	flush_work(&work);
	destroy_work_on_stack(&work);
	held_expect(held, "behind an item that was stuck");
	wqt_count(WQT_STUCK);
out:
	held_free(held);
}

/* Runs once and restores the threshold. */
int wqt_stuck_thread(void *arg)
{
	struct wqt_actor *actor = arg;
	char before[16], thresh[16];

	scnprintf(thresh, sizeof(thresh), "%d", wqt_stuck);
	if (wqt_sys_read(WATCHDOG, before, sizeof(before)) || wqt_sys_write(WATCHDOG, thresh)) {
		wqt_wrong(WQT_STALL, NULL, "the watchdog's threshold cannot be read or set");
		return wqt_actor_ends(actor);
	}
	wqt_at(actor, "getting stuck", NULL);
	stick(&actor->rnd);
	wqt_at(actor, NULL, NULL);
	wqt_sys_write(WATCHDOG, before);
	return wqt_actor_ends(actor);
}
