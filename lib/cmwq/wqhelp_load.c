// SPDX-License-Identifier: GPL-2.0
/*
 * Load: submitters that keep a number of items each in flight
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "wqhelp.h"

#define WQH_MAX_THREADS		64
#define WQH_MAX_DEPTH		1024

/* One item of a submitter; submitted again as soon as it has begun to run. */
struct wqh_item {
	struct work_struct	work;
	struct wqh_thread	*thread;
	atomic_t		idle;		/* 1: the submitter may queue it */
	atomic_t		inside;
	atomic_t		owed;
	bool			placed;		/* only @target decides where it runs */
	int			target;		/* the CPU it was queued on */
	unsigned int		epoch;		/* wqh_epoch of @target then */
	u64			seq;
};

struct wqh_thread {
	struct wqh_queue	*queue;
	struct task_struct	*task;
	struct wqh_item		*items;
	unsigned int		depth;
	u64			next_seq;	/* the submitter's own */
	u64			ran_seq;	/* items' own, if they keep their order */
	wait_queue_head_t	idle_wait;
};

/*
 * Odd while the CPU is certainly up: it becomes odd after the workqueue has bound the
 * CPU's workers, and becomes even again before the workqueue unbinds them.  If an item
 * sees the same odd value when it is queued and when it runs, its CPU was up all the time.
 */
static DEFINE_PER_CPU(unsigned int, wqh_epoch);
static int wqh_hp_state;

static int wqh_cpu_moved(unsigned int cpu)
{
	unsigned int *epoch = per_cpu_ptr(&wqh_epoch, cpu);

	WRITE_ONCE(*epoch, *epoch + 1);
	return 0;
}

int wqh_load_init(void)
{
	wqh_hp_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "lib/wq_test:online",
					 wqh_cpu_moved, wqh_cpu_moved);
	return min(wqh_hp_state, 0);
}

void wqh_load_exit(void)
{
	cpuhp_remove_state(wqh_hp_state);
}

static bool wqh_is_bound(const struct wqh_queue *q)
{
	/* workqueue.power_efficient decides whether a power-efficient one is bound. */
	return !(q->flags & (WQ_UNBOUND | WQ_POWER_EFFICIENT));
}

static atomic_t *wqh_inflight(struct wqh_queue *q, int cpu)
{
	return &q->inflight[wqh_is_bound(q) ? cpu : 0];
}

static void wqh_check_place(struct wqh_queue *q, const struct wqh_item *it)
{
	int cpu = raw_smp_processor_id();
	unsigned int epoch;

	if (!it->placed)
		return;
	wqh_count(q, WQH_PLACED);

	/* Read the CPU before the epoch: else a move in between looks like an error. */
	barrier();
	epoch = READ_ONCE(*per_cpu_ptr(&wqh_epoch, it->target));

	if (wqh_is_bound(q)) {
		if (cpu != it->target && epoch == it->epoch && epoch & 1)
			wqh_count(q, WQH_WRONG_CPU);
	} else if (q->pods && !cpumask_test_cpu(cpu, &q->pods[it->target])) {
		wqh_count(q, WQH_OUTSIDE);
	}
}

static void wqh_load_fn(struct work_struct *work)
{
	struct wqh_item *it = container_of(work, struct wqh_item, work);
	struct wqh_thread *th = it->thread;
	struct wqh_queue *q = th->queue;
	atomic_t *inflight = wqh_inflight(q, raw_smp_processor_id());

	wqh_record_max(q, WQH_PEAK, atomic_inc_return(inflight));
	if (!wq_tally_begins(&it->inside))
		wqh_count(q, WQH_REENTERED);
	if (!wq_tally_ran(&it->owed))
		wqh_count(q, WQH_TWICE);
	wqh_check_place(q, it);
	if ((q->ordered || q->from < nr_cpu_ids) && it->seq != th->ran_seq++)
		wqh_count(q, WQH_MISORDERED);
	wqh_account_start(q);

	/*
	 * Make the item available again while it still runs, to test
	 * non-reentrance each time.  Pairs with the acquire in
	 * wqh_submit_idle(): the reads above come before the submitter's
	 * next writes to the item.
	 */
	atomic_set_release(&it->idle, 1);
	if (wq_has_sleeper(&th->idle_wait))
		wake_up(&th->idle_wait);

	wqh_spin_us(q->spin_us);
	if (q->sleep_us)
		usleep_range(q->sleep_us, 2 * q->sleep_us);

	atomic_dec(inflight);
	wq_tally_ends(&it->inside);
}

static int wqh_pick_cpu(const struct wqh_queue *q, u32 random)
{
	unsigned int cpu;

	if (q->local)
		return raw_smp_processor_id();

	/* An online CPU may go at any time. Queueing has to cope with that. */
	cpu = cpumask_nth(reciprocal_scale(random, num_online_cpus()), cpu_online_mask);
	return cpu < nr_cpu_ids ? cpu : raw_smp_processor_id();
}

static void wqh_submit_item(struct wqh_thread *th, struct wqh_item *it)
{
	struct wqh_queue *q = th->queue;
	u32 random = get_random_u32();		/* takes a lock that may sleep on PREEMPT_RT */
	bool queued;

	/* Stay on this CPU until the item is queued. */
	preempt_disable();
	it->target = wqh_pick_cpu(q, random);
	it->epoch = READ_ONCE(*per_cpu_ptr(&wqh_epoch, it->target));
	/*
	 * While the item runs, it has to be queued where it runs.  With from=, the test
	 * knows where it should run.
	 */
	it->placed = q->from >= nr_cpu_ids && !work_busy(&it->work);
	it->seq = th->next_seq++;
	atomic_inc(&it->owed);
	wqh_count(q, WQH_QUEUED);
	if (q->local)
		queued = queue_work(q->wq, &it->work);
	else
		queued = queue_work_on(it->target, q->wq, &it->work);
	preempt_enable();

	if (!queued)
		wqh_count(q, WQH_REFUSED);
}

/* An item that still runs goes where it runs, which may be another pool: it has no order. */
static bool wqh_keeps_order(const struct wqh_queue *q, struct wqh_item *it)
{
	return wqh_is_bound(q) || !work_busy(&it->work);
}

/* Returns whether any item was idle. */
static bool wqh_submit_idle(struct wqh_thread *th)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < th->depth && !kthread_should_stop(); i++) {
		struct wqh_item *it = &th->items[i];

		/* Pairs with the release in wqh_load_fn(). */
		if (!atomic_read_acquire(&it->idle))
			continue;
		if (th->queue->from < nr_cpu_ids && !wqh_keeps_order(th->queue, it))
			continue;
		atomic_set(&it->idle, 0);
		wqh_submit_item(th, it);
		any = true;
	}
	return any;
}

static bool wqh_any_idle(struct wqh_thread *th)
{
	unsigned int i;

	for (i = 0; i < th->depth; i++)
		if (atomic_read(&th->items[i].idle))
			return true;
	return false;
}

static int wqh_submitter(void *arg)
{
	struct wqh_thread *th = arg;

	while (!kthread_should_stop()) {
		if (!wqh_submit_idle(th))
			wait_event_interruptible(th->idle_wait,
						 wqh_any_idle(th) ||
						 kthread_should_stop());
		cond_resched();
	}
	return 0;
}

static int wqh_thread_init(struct wqh_thread *th, struct wqh_queue *q,
			   unsigned int depth)
{
	unsigned int i;

	th->items = kvcalloc(depth, sizeof(*th->items), GFP_KERNEL);
	if (!th->items)
		return -ENOMEM;

	th->queue = q;
	th->depth = depth;
	init_waitqueue_head(&th->idle_wait);
	for (i = 0; i < depth; i++) {
		wqh_init_work(q, &th->items[i].work, wqh_load_fn);
		th->items[i].thread = th;
		atomic_set(&th->items[i].idle, 1);
	}

	th->task = kthread_create(wqh_submitter, th, "wqt/%s", q->name);
	if (IS_ERR(th->task)) {
		int ret = PTR_ERR(th->task);

		th->task = NULL;
		return ret;
	}
	if (q->from < nr_cpu_ids)
		kthread_bind(th->task, q->from);
	wake_up_process(th->task);
	return 0;
}

static unsigned int wqh_outstanding(struct wqh_thread *th)
{
	unsigned int i, nr = 0;

	for (i = 0; i < th->depth; i++)
		nr += wq_tally_lost(&th->items[i].owed);
	return nr;
}

/*
 * Waits for the thread's items.  Returns true if all of them ran; those that did not
 * are counted as lost.
 */
static bool wqh_thread_settle(struct wqh_queue *q, struct wqh_thread *th)
{
	unsigned int missing;

	wait_event_timeout(th->idle_wait, !wqh_outstanding(th), WQH_SETTLE);
	missing = wqh_outstanding(th);
	if (missing)
		pr_err("%s: %u items never ran\n", q->name, missing);
	atomic64_add(missing, &q->counters[WQH_LOST]);
	return !missing;
}

void wqh_load_stop(struct wqh_queue *q)
{
	bool settled = true;
	unsigned int i;

	lockdep_assert_held(&q->load_mutex);

	for (i = 0; i < q->nr_threads; i++)
		if (q->threads[i].task)
			kthread_stop(q->threads[i].task);
	for (i = 0; i < q->nr_threads; i++)
		if (q->threads[i].items)
			settled &= wqh_thread_settle(q, &q->threads[i]);

	if (settled) {
		/* The last functions may not have returned yet. */
		flush_workqueue(q->wq);
		for (i = 0; i < q->nr_threads; i++)
			kvfree(q->threads[i].items);
		kvfree(q->threads);
	}
	/* A lost item may still run later: keep its memory. */
	q->threads = NULL;
	q->nr_threads = 0;
}

static int wqh_load_start(struct wqh_queue *q, unsigned int threads,
			  unsigned int depth)
{
	int ret = 0;

	lockdep_assert_held(&q->load_mutex);

	q->threads = kvcalloc(threads, sizeof(*q->threads), GFP_KERNEL);
	if (!q->threads)
		return -ENOMEM;

	atomic64_set(&q->last_start, 0);
	while (!ret && q->nr_threads < threads)
		ret = wqh_thread_init(&q->threads[q->nr_threads++], q, depth);
	if (ret)
		wqh_load_stop(q);
	return ret;
}

int wqh_write_load(struct wqh_queue *q, char *input)
{
	unsigned int threads = 1, depth = 1, local = 0, spin_us = 0, sleep_us = 0;
	unsigned int from = nr_cpu_ids;
	int ret;

	guard(mutex)(&q->load_mutex);
	input = strim(input);
	if (!strcmp(input, "stop")) {
		wqh_load_stop(q);
		return 0;
	}
	ret = wqh_numbers(input, { "threads", &threads }, { "depth", &depth },
			  { "local", &local }, { "from", &from },
			  { "spin_us", &spin_us }, { "sleep_us", &sleep_us });
	if (ret)
		return ret;
	if (!threads || threads > WQH_MAX_THREADS || !depth || depth > WQH_MAX_DEPTH)
		return -ERANGE;
	if (from > nr_cpu_ids || (from < nr_cpu_ids && !cpu_online(from)))
		return -ERANGE;
	if (sleep_us && q->flags & WQ_BH)
		return -EINVAL;
	if (q->threads)
		return -EBUSY;

	q->spin_us = spin_us;
	q->sleep_us = sleep_us;
	q->local = local || from < nr_cpu_ids;
	q->from = from;
	return wqh_load_start(q, threads, depth);
}

static int wqh_parse_pods(struct cpumask *pods, char *input)
{
	cpumask_var_t pod;
	int cpu, ret = 0;
	char *word;

	if (!alloc_cpumask_var(&pod, GFP_KERNEL))
		return -ENOMEM;
	while (!ret && (word = wqh_next_word(&input))) {
		ret = cpulist_parse(word, pod);
		if (!ret)
			for_each_cpu(cpu, pod)
				cpumask_copy(&pods[cpu], pod);
	}
	free_cpumask_var(pod);
	return ret;
}

int wqh_write_pods(struct wqh_queue *q, char *input)
{
	struct cpumask *pods = NULL;
	int ret = 0;

	/* Nothing but blanks: no pods to keep. */
	input = skip_spaces(input);
	if (*input) {
		pods = kcalloc(nr_cpu_ids, sizeof(*pods), GFP_KERNEL);
		if (!pods)
			return -ENOMEM;
		ret = wqh_parse_pods(pods, input);
	}

	mutex_lock(&q->load_mutex);
	if (!ret && q->threads)
		ret = -EBUSY;
	if (!ret)
		swap(q->pods, pods);
	mutex_unlock(&q->load_mutex);

	kfree(pods);
	return ret;
}
