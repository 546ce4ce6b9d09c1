// SPDX-License-Identifier: GPL-2.0
/*
 * Threads for workers: none can be created (a famine), or creating one takes long. In
 * both cases a workqueue with a rescuer must make progress, and afterwards all others must.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <uapi/linux/sched/types.h>

#include "wqtorture.h"

#define THREADS_MAX	"sys/kernel/threads-max"
#define HOGS		64

struct hog {
	struct work_struct work;
	struct completion *gate;
};

/* hogs that got a worker; one round at a time, because of wqt_famine_sem */
static atomic_t hogs_started;

static void hog_fn(struct work_struct *work)
{
	atomic_inc(&hogs_started);
	wait_for_completion(container_of(work, struct hog, work)->gate);
}

/* Occupy all workers of a CPU's pool or of unbound pools. */
static void hogs_queue(struct hog *hogs, struct workqueue_struct *wq, int cpu,
		       struct completion *gate)
{
	int i;

	atomic_set(&hogs_started, 0);
	for (i = 0; i < HOGS; i++) {
		INIT_WORK(&hogs[i].work, hog_fn);
		hogs[i].gate = gate;
		queue_work_on(cpu, wq, &hogs[i].work);
	}
}

static bool is_reclaim(const struct wqt_slot *slot)
{
	return slot->kind->flags & WQ_MEM_RECLAIM;
}

/* Queues some items on workqueues with a rescuer, or on those without. */
static int queue_some(struct rnd_state *rnd, bool reclaim, atomic_t *left)
{
	struct workqueue_struct *wq;
	struct wqt_slot *slot;
	int i, n = 0, at;

	for (i = 0; i < 20; i++) {
		slot = wqt_slot_pick(rnd);
		at = srcu_read_lock(&slot->srcu);
		wq = srcu_dereference(slot->wq, &slot->srcu);
		if (wq && is_reclaim(slot) == reclaim)
			n += !wqt_token_queue(slot, wq, rnd, GFP_KERNEL, left);
		srcu_read_unlock(&slot->srcu, at);
	}
	return n;
}

/* Each workqueue that has a rescuer must finish its items during the famine. */
static void expect_rescue(struct rnd_state *rnd)
{
	atomic_t left = ATOMIC_INIT(0);
	int n = queue_some(rnd, true, &left);

	if (!wqt_wait_for_zero(&left, wqt_stall * HZ / 2)) {
		wqt_wrong(WQT_NO_RESCUE, NULL, "%d of %d items wait for a thread",
			  atomic_read(&left), n);
		wqt_show_state();
	}
	wqt_add(WQT_RESCUED, n - atomic_read(&left));
	/* @left is on this stack. */
	while (atomic_read(&left))
		msleep(20);
}

static void famine(struct rnd_state *rnd, struct workqueue_struct *hog_wq, struct hog *hogs)
{
	DECLARE_COMPLETION_ONSTACK(gate);
	char before[16];

	if (wqt_proc_read(THREADS_MAX, before, sizeof(before)) ||
	    wqt_proc_write(THREADS_MAX, "20"))
		return;
	hogs_queue(hogs, hog_wq, wqt_any_cpu(rnd), &gate);
	msleep(20);
	expect_rescue(rnd);
	complete_all(&gate);
	wqt_proc_write(THREADS_MAX, before);
	flush_workqueue(hog_wq);
	wqt_count(WQT_FAMINE);
}

static void famine_round(struct wqt_actor *actor, struct hog *hogs)
{
	bool unbound = wqt_one_in(&actor->rnd, 2);
	struct workqueue_struct *wq;

	wq = alloc_workqueue("wqt_hog", unbound ? WQ_UNBOUND : WQ_PERCPU, 0);
	if (!wq)
		return;
	wqt_at(actor, "waiting for a famine", NULL);
	down_write(&wqt_famine_sem);
	wqt_at(actor, "a famine", NULL);
	famine(&actor->rnd, wq, hogs);
	up_write(&wqt_famine_sem);
	destroy_workqueue(wq);
	wqt_at(actor, NULL, NULL);
}

/* The main loop of a thread that runs @round about every @ms once the test has started. */
static int hog_thread(struct wqt_actor *actor, int ms,
		      void (*round)(struct wqt_actor *actor, struct hog *hogs))
{
	struct hog *hogs = kcalloc(HOGS, sizeof(*hogs), GFP_KERNEL);

	while (!READ_ONCE(wqt_started) && !wqt_over() && !wqt_must_stop())
		schedule_timeout_interruptible(HZ / 20);
	while (hogs && wqt_actor_naps(actor, ms))
		round(actor, hogs);
	kfree(hogs);
	return wqt_actor_ends(actor);
}

int wqt_famine_thread(void *arg)
{
	return hog_thread(arg, wqt_famine_ms, famine_round);
}

/*
 * Slow
 *
 * kthreadd, which creates all kernel threads, is bound to one CPU and runs there under
 * SCHED_IDLE. A thread spins beside it. Probers ask for one thread after the other until
 * kthreadd has used up its share of some seconds. From then on their requests wait, and later
 * ones wait behind them. Once a prober gets its thread, a worker may have got one, too.
 *
 * The spinner has the normal priority. Beside a spinner of nice -20, which weighs 87 times as
 * much, a worker that had used 30 ms more than its share would wait for 3 s.
 */

#define PROBERS		16
#define ENOUGH_LOOKS	50

struct slow {
	struct task_struct *kthreadd;
	struct sched_attr normal;	/* how kthreadd was scheduled before */
	struct task_struct *spinner;
	struct task_struct *probers[PROBERS];
	cpumask_var_t home;		/* where kthreadd might run before */
	atomic_t made;			/* threads that probers got */
	bool over;			/* ends probers; WRITE_ONCE() by the actor, read by them */
	/* the actor's own: when kthreadd became slow, and how many threads there were by then */
	unsigned long begin;
	int made_before;
};

static int spinner_fn(void *arg)
{
	while (!kthread_should_stop())
		cond_resched();
	return 0;
}

static int probe_fn(void *arg)
{
	return 0;
}

static bool make_a_thread(void)
{
	struct task_struct *made = kthread_create(probe_fn, NULL, "wqt_probe");

	if (IS_ERR(made))
		return false;
	kthread_stop(made);
	return true;
}

static int prober_fn(void *arg)
{
	struct slow *slow = arg;

	while (!READ_ONCE(slow->over)) {
		if (make_a_thread())
			atomic_inc(&slow->made);
		else
			schedule_timeout_interruptible(HZ / 20);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 20);
	return 0;
}

/* Records how kthreadd is scheduled, since an administrator may have changed that. */
static void slow_remember(struct slow *slow)
{
	struct task_struct *kthreadd = slow->kthreadd;

	slow->normal.sched_policy = kthreadd->policy;
	if (kthreadd->sched_reset_on_fork)
		slow->normal.sched_flags = SCHED_FLAG_RESET_ON_FORK;
	slow->normal.sched_nice = task_nice(kthreadd);
	slow->normal.sched_priority = kthreadd->rt_priority;
	cpumask_copy(slow->home, kthreadd->cpus_ptr);
}

/*
 * Create all threads before kthreadd, the parent of all kernel threads, becomes slow. This takes
 * a while on a busy machine, so each new thread counts as progress. In a famine this fails.
 */
static int slow_prepare(struct slow *slow, struct wqt_actor *actor)
{
	int i;

	if (!alloc_cpumask_var(&slow->home, GFP_KERNEL))
		return -ENOMEM;
	rcu_read_lock();
	slow->kthreadd = get_task_struct(rcu_dereference(current->real_parent));
	rcu_read_unlock();
	slow_remember(slow);
	atomic_set(&slow->made, 0);
	wqt_at(actor, "making threads", NULL);
	slow->spinner = kthread_create(spinner_fn, NULL, "wqt_spinner");
	if (IS_ERR(slow->spinner))
		return PTR_ERR(slow->spinner);
	for (i = 0; i < PROBERS; i++) {
		wqt_at(actor, "making threads", NULL);
		slow->probers[i] = kthread_create(prober_fn, slow, "wqt_prober");
		if (IS_ERR(slow->probers[i]))
			return PTR_ERR(slow->probers[i]);
	}
	return 0;
}

/* Has nobody got a thread since kthreadd became slow? */
static bool slow_lasts(const struct slow *slow)
{
	return atomic_read(&slow->made) == slow->made_before;
}

/* Waits, up to 3 s, until no prober has got a thread for 0.1 s: kthreadd is slow then. */
static void slow_sets_in(struct slow *slow)
{
	unsigned long end = jiffies + 3 * HZ;

	do {
		slow->made_before = atomic_read(&slow->made);
		msleep(100);
	} while (!slow_lasts(slow) && time_before(jiffies, end));
	slow->begin = jiffies;
}

static void slow_begin(struct slow *slow)
{
	static const struct sched_attr idle = { .sched_policy = SCHED_IDLE };
	int i, cpu;

	WARN_ON_ONCE(sched_setattr_nocheck(slow->kthreadd, &idle));
	/* the scheduler moves a task that waits for a CPU even to one that is just going down */
	scoped_guard(cpus_read_lock) {
		cpu = cpumask_any_distribute(cpu_online_mask);
		set_cpus_allowed_ptr(slow->kthreadd, cpumask_of(cpu));
	}
	kthread_bind(slow->spinner, cpu);
	wake_up_process(slow->spinner);
	for (i = 0; i < PROBERS; i++)
		wake_up_process(slow->probers[i]);
	slow_sets_in(slow);
}

/* The probers end when the threads that they have asked for have come. */
static void slow_end(struct slow *slow)
{
	int i;

	WRITE_ONCE(slow->over, true);
	WARN_ON_ONCE(sched_setattr_nocheck(slow->kthreadd, &slow->normal));
	set_cpus_allowed_ptr(slow->kthreadd, slow->home);
	kthread_stop(slow->spinner);
	slow->spinner = NULL;
	for (i = 0; i < PROBERS; i++)
		kthread_stop(slow->probers[i]);
	memset(slow->probers, 0, sizeof(slow->probers));
}

/* Threads that slow_end() did not stop never ran. */
static void slow_cleanup(struct slow *slow)
{
	int i;

	if (!IS_ERR_OR_NULL(slow->spinner))
		kthread_stop(slow->spinner);
	for (i = 0; i < PROBERS; i++)
		if (!IS_ERR_OR_NULL(slow->probers[i]))
			kthread_stop(slow->probers[i]);
	if (slow->kthreadd)
		put_task_struct(slow->kthreadd);
	free_cpumask_var(slow->home);
}

struct rescued {
	struct work_struct work;
	atomic_t *left;
};

static void rescued_fn(struct work_struct *work)
{
	atomic_dec(container_of(work, struct rescued, work)->left);
}

/*
 * Go to the CPU after @cpu, sleep there, and return that CPU. A rescuer wakes up on the CPU
 * where it ran last, and then goes to the pool's CPU. If the machine does not run one of these
 * CPUs, this thread gets stuck there, too.
 */
static int look_from_next(int cpu)
{
	/* data_race(): going to a CPU that is down fails */
	cpu = data_race(cpumask_next(cpu, cpu_online_mask));
	if (cpu >= nr_cpu_ids)
		cpu = 0;
	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	usleep_range(500, 2000);
	return cpu;
}

/*
 * Returns false if a thread was created first or the rescue takes very long. As long as
 * hogs start, the pool has workers and needs no rescuer. The hogs run before the items, and
 * they take turns with the spinner. @since returns when a hog last started, and @looks how
 * often this thread has run since then.
 */
static bool wait_for_rescue(const struct slow *slow, const atomic_t *left,
			    unsigned long *since, int *looks)
{
	unsigned long end = jiffies + wqt_stall * HZ / 2;
	int cpu = 0, started = -1;

	*since = jiffies;
	*looks = 0;
	while (atomic_read(left) && slow_lasts(slow) && time_before(jiffies, end) &&
	       time_before(jiffies, *since + wqt_stall * HZ / 10)) {
		if (atomic_read(&hogs_started) != started) {
			started = atomic_read(&hogs_started);
			*since = jiffies;
			*looks = 0;
		}
		cpu = look_from_next(cpu);
		++*looks;
	}
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	return !atomic_read(left);
}

/*
 * The pool needs a worker. If none comes for a good part of wqt_stall, the rescuer must have
 * run the items. The rescuer has a higher priority than this thread. If this thread has
 * hardly run either, the machine is too busy to tell.
 */
static void rescue_while_slow(struct slow *slow, struct workqueue_struct *wq, int cpu)
{
	atomic_t left = ATOMIC_INIT(4);
	struct rescued items[4];
	unsigned long since;
	int i, looks;
	bool in_time;

	for (i = 0; i < ARRAY_SIZE(items); i++) {
		INIT_WORK_ONSTACK(&items[i].work, rescued_fn);
		wqt_lock_class(&items[i].work, false);
		items[i].left = &left;
		queue_work_on(cpu, wq, &items[i].work);
	}
	in_time = wait_for_rescue(slow, &left, &since, &looks);
	if (in_time && slow_lasts(slow)) {
		wqt_add(WQT_SLOW_RESCUED, ARRAY_SIZE(items));
	} else if (!in_time && looks >= ENOUGH_LOOKS &&
		   time_after(jiffies, since + wqt_stall * HZ / 20)) {
		wqt_wrong(WQT_NO_RESCUE, NULL,
			  "%d items wait for %u ms and %d looks while threads are slow, %d hogs started",
			  atomic_read(&left), jiffies_to_msecs(jiffies - since), looks,
			  atomic_read(&hogs_started));
		wqt_show_state();
	} else {
		wqt_count(WQT_SLOW_VAIN);
	}
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		/* without a rescuer, they start only when the shortage ends */
		if (!in_time)
			cancel_work_sync(&items[i].work);
		flush_work(&items[i].work);
		destroy_work_on_stack(&items[i].work);
	}
}

static void slowness(struct slow *slow, struct wqt_actor *actor, struct hog *hogs,
		     struct workqueue_struct *hog_wq, struct workqueue_struct *wq)
{
	struct rnd_state *rnd = &actor->rnd;
	DECLARE_COMPLETION_ONSTACK(gate);
	atomic_t left = ATOMIC_INIT(0);
	int n, cpu = wqt_any_cpu(rnd);

	wqt_at(actor, "threads that are slow to make", NULL);
	slow_begin(slow);
	hogs_queue(hogs, hog_wq, cpu, &gate);
	rescue_while_slow(slow, wq, cpu);
	n = queue_some(rnd, false, &left);
	msleep(100 + wqt_rnd(rnd, 400));
	if (slow_lasts(slow))
		wqt_add(WQT_SLOW_MS, jiffies_to_msecs(jiffies - slow->begin));
	slow_end(slow);
	complete_all(&gate);
	wqt_count(WQT_SLOW);
	if (!wqt_wait_for_zero(&left, wqt_stall * HZ / 2)) {
		wqt_wrong(WQT_HELD_UP, NULL, "%d of %d items wait though threads are quick again",
			  atomic_read(&left), n);
		wqt_show_state();
	}
	/* @left is on this stack. */
	while (atomic_read(&left))
		msleep(20);
	flush_workqueue(hog_wq);
}

static void slow_round(struct wqt_actor *actor, struct hog *hogs)
{
	unsigned int flags = wqt_one_in(&actor->rnd, 2) ? WQ_UNBOUND : WQ_PERCPU;
	struct workqueue_struct *hog_wq = alloc_workqueue("wqt_hog", flags, 0);
	struct workqueue_struct *wq = alloc_workqueue("wqt_slow", flags | WQ_MEM_RECLAIM, 0);
	struct slow slow = { };

	if (hog_wq && wq && !slow_prepare(&slow, actor)) {
		wqt_at(actor, "waiting for threads to be slow", NULL);
		down_write(&wqt_famine_sem);
		slowness(&slow, actor, hogs, hog_wq, wq);
		up_write(&wqt_famine_sem);
	}
	slow_cleanup(&slow);
	if (wq)
		destroy_workqueue(wq);
	if (hog_wq)
		destroy_workqueue(hog_wq);
	wqt_at(actor, NULL, NULL);
}

int wqt_slow_thread(void *arg)
{
	return hog_thread(arg, wqt_slow_ms, slow_round);
}
