// SPDX-License-Identifier: GPL-2.0
/*
 * Known work for the workqueue selftests
 *
 * The scripts under tools/testing/selftests/workqueue need workqueues of all
 * kinds, work that they can start, hold and stop, and counters that show whether
 * the workqueue kept its promises.  They drive all of it through
 * /sys/kernel/debug/wq_test:
 *
 *	create		"NAME [FLAG...] [max_active=N]" makes a workqueue
 *	destroy		"NAME" stops its load, releases its items, destroys it
 *	occupy		"cpu=N ms=N" keeps a CPU busy; only interrupts get through.
 *			New threads start elsewhere, but may have to wait for this CPU.
 *			"leave" ends that, and fails if the time was over already
 *	console		"cpu=N" makes a console that queues an item on that CPU's
 *			pool for each line it is given; "off" removes it
 *	console_lines	number of lines that this console was given
 *	NAME/load	"threads=N depth=N spin_us=N sleep_us=N local=0|1 from=CPU"
 *			starts submitters, "stop" ends them and completes the
 *			counters.  With from=, they stay on that CPU, name none, and
 *			the items of each have to start in their order
 *	NAME/queue	"nop|block|hog|ride|roam|linger|pin [cpu=N] [n=N] [ms=N]"
 *			queues single items
 *	NAME/delay	"calls=N ms=N cpu=N" queues, moves and cancels delayed items that
 *			name the CPU, and waits until those that were not cancelled ran
 *	NAME/cancel	"N" queues N items, then cancels them; fails if one of them has run
 *	NAME/misuse	"listed|reclaim|busy|console [cpu=N]" does what the workqueue
 *			may warn of: queues an item that is on a list, flushes one on
 *			behalf of memory reclaim, takes a reference and keeps it, or
 *			queues the item of the console
 *	NAME/relay	"rounds=N from=CPU to=CPU" passes the only slot from an item
 *			on one CPU to the next on the other, while others try to
 *			take it
 *	NAME/release	lets all blocked and hogging items return
 *	NAME/wait	"N MS" waits until N items ran, at most MS milliseconds
 *	NAME/flush	flushes the workqueue
 *	NAME/pods	CPU lists, one for each pod that a strict load must keep
 *	NAME/stats	the counters; any write resets them
 *	NAME/order	"CPU N" for each series of N nops and hogs queued on that CPU, in
 *			order of their start, from the last reset of the counters on
 *	NAME/held	the blocked and hogging items: which worker runs them, where
 *	NAME/map	queues from each online CPU and shows which worker ran the item
 *	NAME/map_on	the same with queue_work_on()
 *	NAME/map_node	the same with queue_work_node(), naming the next node
 *	NAME/map_far	as map; then each worker seems to have slept in another package
 *	NAME/workqueues	number of all workqueues of the system; not on the base kernel
 *	NAME/map_delayed, map_delayed_on, map_rcu
 *			the same with queue_delayed_work(), queue_delayed_work_on()
 *			and queue_rcu_work()
 *
 * Every workqueue made here has WQ_SYSFS, where its kind allows that, unless a flag is "nosysfs".
 * With "devm", a device owns it.  With "killed", the writer gets SIGKILL just before it is made.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/console.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#ifdef CONFIG_WORKQUEUE_CMWQ
#include "../../kernel/workqueue/workqueue_struct.h"
#endif

#define WQT_MAX_THREADS		64
#define WQT_MAX_DEPTH		1024
#define WQT_MAX_ITEMS		4096
#define WQT_MAX_CANCELLED	100000
#define WQT_MAX_INPUT		4096
#define WQT_MAX_SERIES		1024
#define WQT_NAME_LEN		24
#define WQT_SETTLE		(30 * HZ)

enum wqt_counter {
	WQT_QUEUED,		/* items handed to the workqueue */
	WQT_RAN,		/* executions that began */
	WQT_LOST,		/* queued and never run */
	WQT_TWICE,		/* ran more often than queued */
	WQT_REENTERED,		/* began while the same item still ran */
	WQT_REFUSED,		/* an idle item that queueing refused */
	WQT_EARLY,		/* still ran after the cancel had returned */
	WQT_CAUGHT,		/* ran when it was about to be cancelled */
	WQT_PLACED,		/* executions whose place was checked */
	WQT_OUTSIDE,		/* ran outside the pod of the queueing CPU */
	WQT_WRONG_CPU,		/* per-CPU item that left its online CPU */
	WQT_MISORDERED,		/* item that has to keep its order, but overtook another */
	WQT_RESCUED,		/* run by a rescuer */
	WQT_PEAK,		/* most that ran at once; per CPU if bound */
	WQT_GAP_MS,		/* longest time in which nothing began */
	WQT_NR_COUNTERS,
};

static const char * const wqt_counter_names[WQT_NR_COUNTERS] = {
	[WQT_QUEUED]		= "queued",
	[WQT_RAN]		= "ran",
	[WQT_LOST]		= "lost",
	[WQT_TWICE]		= "twice",
	[WQT_REENTERED]		= "reentered",
	[WQT_REFUSED]		= "refused",
	[WQT_EARLY]		= "early",
	[WQT_CAUGHT]		= "caught",
	[WQT_PLACED]		= "placed",
	[WQT_OUTSIDE]		= "outside",
	[WQT_WRONG_CPU]		= "wrong_cpu",
	[WQT_MISORDERED]	= "misordered",
	[WQT_RESCUED]		= "rescued",
	[WQT_PEAK]		= "peak",
	[WQT_GAP_MS]		= "gap_ms",
};

/* Nops and hogs that ran one after the other and were queued on the same CPU. */
struct wqt_series {
	int			cpu;
	unsigned int		n;
};

struct wqt_queue {
	struct list_head	node;		/* wqt_lock */
	struct workqueue_struct	*wq;
	struct dentry		*dir;
	unsigned int		flags;		/* constant */
	bool			ordered;	/* constant */
	bool			no_sysfs;	/* constant */
	bool			devm;		/* constant */
	bool			killed;		/* constant */
	struct device		*dev;		/* constant: owns @wq if @devm */
	char			name[WQT_NAME_LEN];

	/* Serialises load, pods and resets of the counters. */
	struct mutex		load_mutex;
	struct wqt_thread	*threads;	/* load_mutex */
	unsigned int		nr_threads;	/* load_mutex */
	unsigned int		spin_us;	/* constant while load runs */
	unsigned int		sleep_us;	/* constant while load runs */
	bool			local;		/* constant while load runs */
	unsigned int		from;		/* the same; nr_cpu_ids: any CPU */
	struct cpumask		*pods;		/* by CPU; constant while load runs */

	atomic64_t		counters[WQT_NR_COUNTERS];
	atomic64_t		last_start;	/* ns, 0 before the first */
	atomic_t		*inflight;	/* by CPU if bound, else [0] */
	wait_queue_head_t	ran_wait;

	spinlock_t		held_lock;	/* also taken by BH items */
	struct list_head	held;		/* held_lock */
	unsigned int		generation;	/* written under held_lock */
	wait_queue_head_t	release_wait;

	spinlock_t		order_lock;	/* also taken by BH items */
	unsigned int		nr_series;	/* order_lock */
	struct wqt_series	order[WQT_MAX_SERIES];	/* order_lock */
};

/* One item of a submitter; submitted again as soon as it has begun to run. */
struct wqt_item {
	struct work_struct	work;
	struct wqt_thread	*thread;
	atomic_t		idle;		/* 1: the submitter may queue it */
	atomic_t		running;
	atomic_t		balance;	/* queueings that have not run yet */
	bool			placed;		/* only @target decides where it runs */
	int			target;		/* the CPU it was queued on */
	unsigned int		epoch;		/* wqt_epoch of @target then */
	u64			seq;
};

struct wqt_thread {
	struct wqt_queue	*queue;
	struct task_struct	*task;
	struct wqt_item		*items;
	unsigned int		depth;
	u64			next_seq;	/* the submitter's own */
	u64			ran_seq;	/* items' own, if they keep their order */
	wait_queue_head_t	idle_wait;
};

enum wqt_kind { WQT_NOP, WQT_BLOCK, WQT_HOG, WQT_RIDE, WQT_ROAM, WQT_LINGER, WQT_PIN };

/* A single item; its function frees it, or its canceller if it is a lingerer. */
struct wqt_single {
	struct work_struct	work;
	struct wqt_queue	*queue;
	struct list_head	node;		/* queue->held_lock; rider: wqt_riders_lock */
	enum wqt_kind		kind;
	unsigned int		ms;
	unsigned int		generation;	/* released when the queue's differs */
	int			cpu;		/* where it was queued, runs, or rides */
	bool			arrived;	/* rider: its CPU is dead */
	bool			lingered;	/* lingerer: used by its function only */
	bool			running;	/* lingerer: written by its function */
	bool			cancelled;	/* lingerer: written by its canceller */
	struct task_struct	*task;		/* who runs it */
};

static DEFINE_MUTEX(wqt_lock);
static LIST_HEAD(wqt_queues);			/* wqt_lock */
static struct dentry *wqt_root;
static int wqt_hp_state, wqt_hp_dead;

/*
 * Odd while the CPU is certainly up: it becomes odd after the workqueue has bound the
 * CPU's workers, and becomes even again before the workqueue unbinds them.  If an item
 * sees the same odd value when it is queued and when it runs, its CPU was up all the time.
 */
static DEFINE_PER_CPU(unsigned int, wqt_epoch);

static int wqt_cpu_moved(unsigned int cpu)
{
	unsigned int *epoch = per_cpu_ptr(&wqt_epoch, cpu);

	WRITE_ONCE(*epoch, *epoch + 1);
	return 0;
}

static void wqt_count(struct wqt_queue *q, enum wqt_counter which)
{
	atomic64_inc(&q->counters[which]);
}

static void wqt_record_max(struct wqt_queue *q, enum wqt_counter which, s64 val)
{
	s64 old = atomic64_read(&q->counters[which]);

	while (old < val &&
	       !atomic64_try_cmpxchg(&q->counters[which], &old, val))
		;
}

static bool wqt_is_bound(const struct wqt_queue *q)
{
	/* workqueue.power_efficient decides whether a power-efficient one is bound. */
	return !(q->flags & (WQ_UNBOUND | WQ_POWER_EFFICIENT));
}

static atomic_t *wqt_inflight(struct wqt_queue *q, int cpu)
{
	return &q->inflight[wqt_is_bound(q) ? cpu : 0];
}

static bool wqt_in_rescuer(void)
{
	return in_task() && str_has_prefix(current->comm, "kworker/R-");
}

/* Counts an execution, of a load or of a single item. */
static void wqt_account_start(struct wqt_queue *q)
{
	s64 now = ktime_get_ns();
	s64 last = atomic64_xchg(&q->last_start, now);

	if (last)
		wqt_record_max(q, WQT_GAP_MS, (now - last) / NSEC_PER_MSEC);
	if (wqt_in_rescuer())
		wqt_count(q, WQT_RESCUED);
	wqt_count(q, WQT_RAN);
	if (wq_has_sleeper(&q->ran_wait))
		wake_up_all(&q->ran_wait);
}

static void wqt_spin_us(unsigned int us)
{
	ktime_t end = ktime_add_us(ktime_get(), us);

	while (ktime_before(ktime_get(), end))
		cpu_relax();
}

/*
 * Load: submitters that keep a number of items each in flight
 */

static void wqt_check_place(struct wqt_queue *q, const struct wqt_item *it)
{
	int cpu = raw_smp_processor_id();
	unsigned int epoch;

	if (!it->placed)
		return;
	wqt_count(q, WQT_PLACED);

	/* Read the CPU before the epoch: else a move in between looks like an error. */
	barrier();
	epoch = READ_ONCE(*per_cpu_ptr(&wqt_epoch, it->target));

	if (wqt_is_bound(q)) {
		if (cpu != it->target && epoch == it->epoch && epoch & 1)
			wqt_count(q, WQT_WRONG_CPU);
	} else if (q->pods && !cpumask_test_cpu(cpu, &q->pods[it->target])) {
		wqt_count(q, WQT_OUTSIDE);
	}
}

static void wqt_load_fn(struct work_struct *work)
{
	struct wqt_item *it = container_of(work, struct wqt_item, work);
	struct wqt_thread *th = it->thread;
	struct wqt_queue *q = th->queue;
	atomic_t *inflight = wqt_inflight(q, raw_smp_processor_id());

	wqt_record_max(q, WQT_PEAK, atomic_inc_return(inflight));
	if (atomic_xchg(&it->running, 1))
		wqt_count(q, WQT_REENTERED);
	if (atomic_dec_return(&it->balance) < 0)
		wqt_count(q, WQT_TWICE);
	wqt_check_place(q, it);
	if ((q->ordered || q->from < nr_cpu_ids) && it->seq != th->ran_seq++)
		wqt_count(q, WQT_MISORDERED);
	wqt_account_start(q);

	/*
	 * Make the item available again while it still runs, to test
	 * non-reentrance each time.  Pairs with the acquire in
	 * wqt_submit_idle(): the reads above come before the submitter's
	 * next writes to the item.
	 */
	atomic_set_release(&it->idle, 1);
	if (wq_has_sleeper(&th->idle_wait))
		wake_up(&th->idle_wait);

	wqt_spin_us(q->spin_us);
	if (q->sleep_us)
		usleep_range(q->sleep_us, 2 * q->sleep_us);

	atomic_dec(inflight);
	atomic_set(&it->running, 0);
}

static int wqt_pick_cpu(const struct wqt_queue *q, u32 random)
{
	unsigned int cpu;

	if (q->local)
		return raw_smp_processor_id();

	/* An online CPU may go at any time. Queueing has to cope with that. */
	cpu = cpumask_nth(reciprocal_scale(random, num_online_cpus()), cpu_online_mask);
	return cpu < nr_cpu_ids ? cpu : raw_smp_processor_id();
}

static void wqt_submit_item(struct wqt_thread *th, struct wqt_item *it)
{
	struct wqt_queue *q = th->queue;
	u32 random = get_random_u32();		/* takes a lock that may sleep on PREEMPT_RT */
	bool queued;

	/* Stay on this CPU until the item is queued. */
	preempt_disable();
	it->target = wqt_pick_cpu(q, random);
	it->epoch = READ_ONCE(*per_cpu_ptr(&wqt_epoch, it->target));
	/*
	 * While the item runs, it has to be queued where it runs.  With from=, the test
	 * knows where it should run.
	 */
	it->placed = q->from >= nr_cpu_ids && !work_busy(&it->work);
	it->seq = th->next_seq++;
	atomic_inc(&it->balance);
	wqt_count(q, WQT_QUEUED);
	if (q->local)
		queued = queue_work(q->wq, &it->work);
	else
		queued = queue_work_on(it->target, q->wq, &it->work);
	preempt_enable();

	if (!queued)
		wqt_count(q, WQT_REFUSED);
}

/* An item that still runs goes where it runs, which may be another pool: it has no order. */
static bool wqt_keeps_order(const struct wqt_queue *q, struct wqt_item *it)
{
	return wqt_is_bound(q) || !work_busy(&it->work);
}

/* Returns whether any item was idle. */
static bool wqt_submit_idle(struct wqt_thread *th)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < th->depth && !kthread_should_stop(); i++) {
		struct wqt_item *it = &th->items[i];

		/* Pairs with the release in wqt_load_fn(). */
		if (!atomic_read_acquire(&it->idle))
			continue;
		if (th->queue->from < nr_cpu_ids && !wqt_keeps_order(th->queue, it))
			continue;
		atomic_set(&it->idle, 0);
		wqt_submit_item(th, it);
		any = true;
	}
	return any;
}

static bool wqt_any_idle(struct wqt_thread *th)
{
	unsigned int i;

	for (i = 0; i < th->depth; i++)
		if (atomic_read(&th->items[i].idle))
			return true;
	return false;
}

static int wqt_submitter(void *arg)
{
	struct wqt_thread *th = arg;

	while (!kthread_should_stop()) {
		if (!wqt_submit_idle(th))
			wait_event_interruptible(th->idle_wait,
						 wqt_any_idle(th) ||
						 kthread_should_stop());
		cond_resched();
	}
	return 0;
}

/* Two INIT_WORK(), so that lockdep tells items of softirqs from others. */
static void wqt_init_work(const struct wqt_queue *q, struct work_struct *work,
			  work_func_t func)
{
	if (q->flags & WQ_BH)
		INIT_WORK(work, func);
	else
		INIT_WORK(work, func);
}

static int wqt_thread_init(struct wqt_thread *th, struct wqt_queue *q,
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
		wqt_init_work(q, &th->items[i].work, wqt_load_fn);
		th->items[i].thread = th;
		atomic_set(&th->items[i].idle, 1);
	}

	th->task = kthread_create(wqt_submitter, th, "wqt/%s", q->name);
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

static unsigned int wqt_outstanding(struct wqt_thread *th)
{
	unsigned int i, nr = 0;

	for (i = 0; i < th->depth; i++)
		nr += max(atomic_read(&th->items[i].balance), 0);
	return nr;
}

/*
 * Waits for the thread's items.  Returns true if all of them ran; those that did not
 * are counted as lost.
 */
static bool wqt_thread_settle(struct wqt_queue *q, struct wqt_thread *th)
{
	unsigned int missing;

	wait_event_timeout(th->idle_wait, !wqt_outstanding(th), WQT_SETTLE);
	missing = wqt_outstanding(th);
	if (missing)
		pr_err("%s: %u items never ran\n", q->name, missing);
	atomic64_add(missing, &q->counters[WQT_LOST]);
	return !missing;
}

static void wqt_load_stop(struct wqt_queue *q)
{
	bool settled = true;
	unsigned int i;

	lockdep_assert_held(&q->load_mutex);

	for (i = 0; i < q->nr_threads; i++)
		if (q->threads[i].task)
			kthread_stop(q->threads[i].task);
	for (i = 0; i < q->nr_threads; i++)
		if (q->threads[i].items)
			settled &= wqt_thread_settle(q, &q->threads[i]);

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

static int wqt_load_start(struct wqt_queue *q, unsigned int threads,
			  unsigned int depth)
{
	int ret = 0;

	lockdep_assert_held(&q->load_mutex);

	q->threads = kvcalloc(threads, sizeof(*q->threads), GFP_KERNEL);
	if (!q->threads)
		return -ENOMEM;

	atomic64_set(&q->last_start, 0);
	while (!ret && q->nr_threads < threads)
		ret = wqt_thread_init(&q->threads[q->nr_threads++], q, depth);
	if (ret)
		wqt_load_stop(q);
	return ret;
}

/*
 * Input: words, "key=number" among them
 */

static bool wqt_word_number(const char *word, const char *key, unsigned int *val,
			    int *err)
{
	size_t len = str_has_prefix(word, key);

	if (!len || word[len] != '=')
		return false;
	*err = kstrtouint(word + len + 1, 0, val);
	return true;
}

static char *wqt_next_word(char **input)
{
	char *word;

	do {
		word = strsep(input, " \t\n");
	} while (word && !*word);
	return word;
}

static int wqt_write_load(struct wqt_queue *q, char *input)
{
	unsigned int threads = 1, depth = 1, local = 0, spin_us = 0, sleep_us = 0;
	unsigned int from = nr_cpu_ids;
	bool stop = false;
	char *word;
	int ret = 0;

	while (!ret && (word = wqt_next_word(&input))) {
		if (!strcmp(word, "stop"))
			stop = true;
		else if (!wqt_word_number(word, "threads", &threads, &ret) &&
			 !wqt_word_number(word, "depth", &depth, &ret) &&
			 !wqt_word_number(word, "local", &local, &ret) &&
			 !wqt_word_number(word, "from", &from, &ret) &&
			 !wqt_word_number(word, "spin_us", &spin_us, &ret) &&
			 !wqt_word_number(word, "sleep_us", &sleep_us, &ret))
			ret = -EINVAL;
	}
	if (ret)
		return ret;
	if (!threads || threads > WQT_MAX_THREADS || !depth || depth > WQT_MAX_DEPTH)
		return -ERANGE;
	if (from > nr_cpu_ids || (from < nr_cpu_ids && !cpu_online(from)))
		return -ERANGE;
	if (sleep_us && q->flags & WQ_BH)
		return -EINVAL;

	guard(mutex)(&q->load_mutex);
	if (stop) {
		wqt_load_stop(q);
		return 0;
	}
	if (q->threads)
		return -EBUSY;

	q->spin_us = spin_us;
	q->sleep_us = sleep_us;
	q->local = local || from < nr_cpu_ids;
	q->from = from;
	return wqt_load_start(q, threads, depth);
}

static int wqt_parse_pods(struct cpumask *pods, char *input)
{
	cpumask_var_t pod;
	int cpu, ret = 0;
	char *word;

	if (!alloc_cpumask_var(&pod, GFP_KERNEL))
		return -ENOMEM;
	while (!ret && (word = wqt_next_word(&input))) {
		ret = cpulist_parse(word, pod);
		if (!ret)
			for_each_cpu(cpu, pod)
				cpumask_copy(&pods[cpu], pod);
	}
	free_cpumask_var(pod);
	return ret;
}

static int wqt_write_pods(struct wqt_queue *q, char *input)
{
	struct cpumask *pods = NULL;
	int ret = 0;

	/* Nothing but blanks: no pods to keep. */
	input = skip_spaces(input);
	if (*input) {
		pods = kcalloc(nr_cpu_ids, sizeof(*pods), GFP_KERNEL);
		if (!pods)
			return -ENOMEM;
		ret = wqt_parse_pods(pods, input);
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

/*
 * Single items
 */

static bool wqt_released(const struct wqt_single *single)
{
	return READ_ONCE(single->queue->generation) != single->generation;
}

static void wqt_hog(struct wqt_single *single)
{
	unsigned long end = jiffies + msecs_to_jiffies(single->ms);

	/* Occupy the CPU without sleeping, but cause no soft lockup. */
	while (!wqt_released(single) && time_before(jiffies, end)) {
		cpu_relax();
		if (!(single->queue->flags & WQ_BH))
			cond_resched();
	}
}

static void wqt_hold(struct wqt_single *single)
{
	struct wqt_queue *q = single->queue;

	single->cpu = raw_smp_processor_id();
	single->task = current;
	spin_lock_bh(&q->held_lock);
	list_add_tail(&single->node, &q->held);
	spin_unlock_bh(&q->held_lock);

	if (single->kind == WQT_HOG)
		wqt_hog(single);
	else
		wait_event(q->release_wait, wqt_released(single));

	spin_lock_bh(&q->held_lock);
	list_del(&single->node);
	spin_unlock_bh(&q->held_lock);
}

/* Once the table is full, no new series is recorded. */
static void wqt_record_order(struct wqt_queue *q, int cpu)
{
	struct wqt_series *last;

	guard(spinlock_bh)(&q->order_lock);
	last = q->nr_series ? &q->order[q->nr_series - 1] : NULL;
	if (last && last->cpu == cpu)
		last->n++;
	else if (q->nr_series < WQT_MAX_SERIES)
		q->order[q->nr_series++] = (struct wqt_series){ cpu, 1 };
}

/* A function for each kind, so that dumps and traces tell the kinds apart. */
static void wqt_nop_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);

	wqt_account_start(single->queue);
	wqt_record_order(single->queue, single->cpu);
	kfree(single);
}

static void wqt_block_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);

	wqt_account_start(single->queue);
	wqt_hold(single);
	kfree(single);
}

static void wqt_hog_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);

	wqt_account_start(single->queue);
	wqt_record_order(single->queue, single->cpu);
	wqt_hold(single);
	kfree(single);
}

/* Blocks with migration disabled, so its CPU cannot go down completely meanwhile. */
static void wqt_pin_fn(struct work_struct *work)
{
	migrate_disable();
	wqt_block_fn(work);
	migrate_enable();
}

/*
 * Riders are BH items that queue themselves again and again.  A CPU that goes down
 * therefore has them in its pool.  Once the CPU is dead, but before that pool is cleared,
 * the first rider is cancelled.  The others end when they run.  On its way down the CPU
 * may complain about pending softirqs, since it no longer has a ksoftirqd.
 */
static LIST_HEAD(wqt_riders);			/* wqt_riders_lock */
static DEFINE_SPINLOCK(wqt_riders_lock);	/* also taken by BH items */

static void wqt_list_rider(struct wqt_single *single, int cpu)
{
	single->cpu = cpu;
	spin_lock_bh(&wqt_riders_lock);
	list_add_tail(&single->node, &wqt_riders);
	spin_unlock_bh(&wqt_riders_lock);
}

static void wqt_unlist_rider(struct wqt_single *single)
{
	spin_lock_bh(&wqt_riders_lock);
	list_del(&single->node);
	spin_unlock_bh(&wqt_riders_lock);
}

static void wqt_ride_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);

	if (!wqt_released(single) && !READ_ONCE(single->arrived)) {
		queue_work(single->queue->wq, work);
		return;
	}
	wqt_account_start(single->queue);
	wqt_unlist_rider(single);
	kfree(single);
}

/* A BH item that queues itself until it is released, whatever becomes of its CPU. */
static void wqt_roam_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);

	if (!wqt_released(single)) {
		queue_work(single->queue->wq, work);
		return;
	}
	wqt_account_start(single->queue);
	kfree(single);
}

/* one at a time; set when it is queued, cleared by its canceller */
static struct wqt_single *wqt_lingerer;

static void wqt_cancel_lingerer(struct work_struct *work)
{
	struct wqt_single *single = READ_ONCE(wqt_lingerer);

	if (READ_ONCE(single->running))
		wqt_count(single->queue, WQT_CAUGHT);
	cancel_work_sync(&single->work);
	if (READ_ONCE(single->running))
		wqt_count(single->queue, WQT_EARLY);
	WRITE_ONCE(single->cancelled, true);
	/* pairs with the release in wqt_linger_fn() */
	while (smp_load_acquire(&single->running))
		msleep(20);
	WRITE_ONCE(wqt_lingerer, NULL);
	kfree(single);
}

static DECLARE_WORK(wqt_canceller, wqt_cancel_lingerer);

/*
 * A lingerer is a rider that queues itself for the last time once its CPU is dead.  It then
 * runs until another CPU has cancelled it, but no longer than 0.3 s.
 */
static void wqt_linger_fn(struct work_struct *work)
{
	struct wqt_single *single = container_of(work, struct wqt_single, work);
	struct wqt_queue *q = single->queue;
	unsigned int cpu;
	int ms = 300;

	if (!wqt_released(single) && !READ_ONCE(single->arrived)) {
		queue_work(q->wq, work);
		return;
	}
	/* this second run occurs if the canceller is late */
	if (single->lingered)
		return;
	single->lingered = true;

	wqt_account_start(q);
	wqt_unlist_rider(single);
	WRITE_ONCE(single->running, true);
	/* not if it was only released: its workqueue may be about to be destroyed */
	if (READ_ONCE(single->arrived))
		queue_work(q->wq, work);
	cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	/* without another CPU, the canceller comes too late to see anything */
	queue_work_on(cpu < nr_cpu_ids ? cpu : smp_processor_id(), system_percpu_wq,
		      &wqt_canceller);
	while (ms-- && !READ_ONCE(single->cancelled))
		wqt_spin_us(1000);
	/* after this the canceller may free the item */
	smp_store_release(&single->running, false);
}

static int wqt_cpu_dead(unsigned int cpu)
{
	struct wqt_single *single, *next;
	bool cancelled = false;

	spin_lock_bh(&wqt_riders_lock);
	list_for_each_entry_safe(single, next, &wqt_riders, node) {
		if (single->cpu != cpu)
			continue;
		WRITE_ONCE(single->arrived, true);
		if (single->kind != WQT_RIDE || cancelled || !cancel_work(&single->work))
			continue;
		cancelled = true;
		list_del(&single->node);
		kfree(single);
	}
	spin_unlock_bh(&wqt_riders_lock);
	return 0;
}

static int wqt_queue_single(struct wqt_queue *q, enum wqt_kind kind, int cpu,
			    unsigned int ms)
{
	static const work_func_t functions[] = {
		[WQT_NOP]	= wqt_nop_fn,
		[WQT_BLOCK]	= wqt_block_fn,
		[WQT_HOG]	= wqt_hog_fn,
		[WQT_RIDE]	= wqt_ride_fn,
		[WQT_ROAM]	= wqt_roam_fn,
		[WQT_LINGER]	= wqt_linger_fn,
		[WQT_PIN]	= wqt_pin_fn,
	};
	bool rides = kind == WQT_RIDE || kind == WQT_LINGER;
	struct wqt_single *single = kzalloc(sizeof(*single), GFP_KERNEL);

	if (!single)
		return -ENOMEM;

	single->queue = q;
	single->kind = kind;
	single->cpu = cpu;
	single->ms = ms;
	single->generation = READ_ONCE(q->generation);
	wqt_init_work(q, &single->work, functions[kind]);
	if (kind == WQT_LINGER && cmpxchg(&wqt_lingerer, NULL, single)) {
		kfree(single);
		return -EBUSY;
	}
	if (rides)
		wqt_list_rider(single, cpu);

	wqt_count(q, WQT_QUEUED);
	if (queue_work_on(cpu, q->wq, &single->work))
		return 0;

	wqt_count(q, WQT_REFUSED);
	if (rides)
		wqt_unlist_rider(single);
	if (kind == WQT_LINGER)
		WRITE_ONCE(wqt_lingerer, NULL);
	kfree(single);
	return -EIO;
}

/* Do not add riders for a CPU that is down: they would wait until it goes down again. */
static int wqt_queue_rider(struct wqt_queue *q, enum wqt_kind kind, int cpu)
{
	guard(cpus_read_lock)();
	return cpu_online(cpu) ? wqt_queue_single(q, kind, cpu, 0) : -EINVAL;
}

static int wqt_write_queue(struct wqt_queue *q, char *input)
{
	static const char * const kinds[] = {
		"nop", "block", "hog", "ride", "roam", "linger", "pin"
	};
	unsigned int cpu = WORK_CPU_UNBOUND, n = 1, ms = 1000;
	char *word = wqt_next_word(&input);
	int kind, ret = 0;
	bool rides;

	kind = word ? match_string(kinds, ARRAY_SIZE(kinds), word) : -EINVAL;
	if (kind < 0)
		return kind;
	while (!ret && (word = wqt_next_word(&input))) {
		if (!wqt_word_number(word, "cpu", &cpu, &ret) &&
		    !wqt_word_number(word, "n", &n, &ret) &&
		    !wqt_word_number(word, "ms", &ms, &ret))
			ret = -EINVAL;
	}
	if (ret)
		return ret;
	if (!n || n > WQT_MAX_ITEMS || (cpu != WORK_CPU_UNBOUND && cpu >= nr_cpu_ids))
		return -ERANGE;
	if ((kind == WQT_BLOCK || kind == WQT_PIN) && q->flags & WQ_BH)
		return -EINVAL;
	rides = kind == WQT_RIDE || kind == WQT_LINGER;
	if (rides && cpu == WORK_CPU_UNBOUND)
		return -EINVAL;
	if ((rides || kind == WQT_ROAM) && !(q->flags & WQ_BH))
		return -EINVAL;

	while (n-- && !ret) {
		if (rides)
			ret = wqt_queue_rider(q, kind, cpu);
		else
			ret = wqt_queue_single(q, kind, cpu, ms);
	}
	return ret;
}

static void wqt_cancelled_fn(struct work_struct *work)
{
}

static int wqt_write_cancel(struct wqt_queue *q, char *input)
{
	struct work_struct *items;
	unsigned int i, n;
	int ret;

	ret = kstrtouint(strim(input), 0, &n);
	if (ret)
		return ret;
	if (!n || n > WQT_MAX_CANCELLED)
		return -ERANGE;
	items = kvcalloc(n, sizeof(*items), GFP_KERNEL);
	if (!items)
		return -ENOMEM;

	for (i = 0; i < n; i++) {
		wqt_init_work(q, &items[i], wqt_cancelled_fn);
		queue_work(q->wq, &items[i]);
	}
	for (i = 0; i < n; i++)
		if (!cancel_work_sync(&items[i]))
			ret = -EBUSY;
	kvfree(items);
	return ret;
}

static int wqt_write_release(struct wqt_queue *q, char *input)
{
	spin_lock_bh(&q->held_lock);
	WRITE_ONCE(q->generation, q->generation + 1);
	spin_unlock_bh(&q->held_lock);
	wake_up_all(&q->release_wait);
	return 0;
}

static int wqt_write_wait(struct wqt_queue *q, char *input)
{
	unsigned int n, ms;
	long left;

	if (sscanf(input, "%u %u", &n, &ms) != 2)
		return -EINVAL;

	left = wait_event_interruptible_timeout(q->ran_wait,
						atomic64_read(&q->counters[WQT_RAN]) >= n,
						msecs_to_jiffies(ms));
	if (left < 0)
		return left;
	return left ? 0 : -ETIMEDOUT;
}

static int wqt_write_flush(struct wqt_queue *q, char *input)
{
	flush_workqueue(q->wq);
	return 0;
}

/*
 * Delayed items, all of which name the same CPU
 */
#define WQT_DELAYED		16

struct wqt_delayed {
	struct delayed_work	dwork;
	struct wqt_queue	*queue;
	int			due;		/* runs, by what the calls returned */
	atomic_t		ran;
};

static void wqt_delayed_fn(struct work_struct *work)
{
	struct wqt_delayed *delayed = container_of(work, struct wqt_delayed, dwork.work);

	atomic_inc(&delayed->ran);
	wqt_account_start(delayed->queue);
}

/* Only the caller queues the item, so each return value is exact. */
static void wqt_delay_once(struct wqt_delayed *delayed, unsigned int kind, int cpu,
			   unsigned long delay)
{
	struct workqueue_struct *wq = delayed->queue->wq;

	if (kind < 2)
		delayed->due += queue_delayed_work_on(cpu, wq, &delayed->dwork, delay);
	else if (kind == 2)
		delayed->due += !mod_delayed_work_on(cpu, wq, &delayed->dwork, delay);
	else
		delayed->due -= cancel_delayed_work_sync(&delayed->dwork);
}

static bool wqt_all_ran(struct wqt_delayed *delayed)
{
	int i;

	for (i = 0; i < WQT_DELAYED; i++)
		if (atomic_read(&delayed[i].ran) < delayed[i].due)
			return false;
	return true;
}

static void wqt_delay_all(struct wqt_queue *q, struct wqt_delayed *delayed,
			  unsigned int calls, unsigned long delay, int cpu)
{
	unsigned int call;
	int i;

	for (call = 0; call < calls; call++) {
		i = call % WQT_DELAYED;
		if (!i)
			fsleep(get_random_u32_below(10000));
		wqt_delay_once(&delayed[i], call / WQT_DELAYED % 4, cpu, 1 + call % delay);
	}
	wait_event_timeout(q->ran_wait, wqt_all_ran(delayed), WQT_SETTLE);

	for (i = 0; i < WQT_DELAYED; i++) {
		int more;

		/* before the count: the last function may not have returned yet */
		cancel_delayed_work_sync(&delayed[i].dwork);
		more = atomic_read(&delayed[i].ran) - delayed[i].due;
		atomic64_add(delayed[i].due, &q->counters[WQT_QUEUED]);
		atomic64_add(max(more, 0), &q->counters[WQT_TWICE]);
		atomic64_add(max(-more, 0), &q->counters[WQT_LOST]);
	}
}

static int wqt_write_delay(struct wqt_queue *q, char *input)
{
	unsigned int calls = 0, ms = 0, cpu = nr_cpu_ids;
	struct wqt_delayed *delayed;
	int i, ret = 0;
	char *word;

	while (!ret && (word = wqt_next_word(&input))) {
		if (!wqt_word_number(word, "calls", &calls, &ret) &&
		    !wqt_word_number(word, "ms", &ms, &ret) &&
		    !wqt_word_number(word, "cpu", &cpu, &ret))
			ret = -EINVAL;
	}
	if (ret)
		return ret;
	if (!calls || !ms || cpu >= nr_cpu_ids)
		return -ERANGE;

	delayed = kcalloc(WQT_DELAYED, sizeof(*delayed), GFP_KERNEL);
	if (!delayed)
		return -ENOMEM;
	for (i = 0; i < WQT_DELAYED; i++) {
		delayed[i].queue = q;
		wqt_init_work(q, &delayed[i].dwork.work, wqt_delayed_fn);
		timer_setup(&delayed[i].dwork.timer, delayed_work_timer_fn, TIMER_IRQSAFE);
	}
	wqt_delay_all(q, delayed, calls, msecs_to_jiffies(ms), cpu);
	kfree(delayed);
	return 0;
}

/*
 * Misuse: what the workqueue warns of
 */

static void wqt_console_fn(struct work_struct *work)
{
}

static DECLARE_DELAYED_WORK(wqt_console_work, wqt_console_fn);	/* see wqt_console_write() */

/* An item that is on somebody's list is not queued, and stays pending. */
static int wqt_misuse_listed(struct wqt_queue *q, struct work_struct *work, int cpu)
{
	LIST_HEAD(list);

	list_add(&work->entry, &list);
	queue_work_on(cpu, q->wq, work);
	list_del(&work->entry);
	return 0;
}

/* A workqueue without a rescuer may need the memory that the caller has to free. */
static int wqt_misuse_reclaim(struct wqt_queue *q, struct work_struct *work, int cpu)
{
	unsigned int flags = memalloc_noreclaim_save();

	queue_work_on(cpu, q->wq, work);
	flush_work(work);
	memalloc_noreclaim_restore(flags);
	return 0;
}

/* The holder of a reference may still use the workqueue, so it is never freed. */
static int wqt_misuse_busy(struct wqt_queue *q, struct work_struct *work, int cpu)
{
#ifdef CONFIG_WORKQUEUE_CMWQ
	struct pool_workqueue *pwq;

	guard(rcu)();
	pwq = rcu_dereference(*per_cpu_ptr(q->wq->cpu_pwq, cpu));
	guard(raw_spinlock_irq)(&pwq->pool->lock);
	pwq->refcnt++;
	return 0;
#else
	return -EOPNOTSUPP;
#endif
}

/* Queue the console's own item: a line printed meanwhile finds the item claimed. */
static int wqt_misuse_console(struct wqt_queue *q, struct work_struct *work, int cpu)
{
	mod_delayed_work(q->wq, &wqt_console_work, 0);
	return 0;
}

static void wqt_misused_fn(struct work_struct *work)
{
	msleep(100);	/* so that the flush finds something to wait for */
}

static int wqt_write_misuse(struct wqt_queue *q, char *input)
{
	static const char * const kinds[] = { "listed", "reclaim", "busy", "console" };
	static int (* const functions[])(struct wqt_queue *q, struct work_struct *work,
					 int cpu) = {
		wqt_misuse_listed, wqt_misuse_reclaim, wqt_misuse_busy, wqt_misuse_console,
	};
	struct work_struct *work __free(kfree) = kzalloc(sizeof(*work), GFP_KERNEL);
	char *word = wqt_next_word(&input);
	unsigned int cpu = 0;
	int kind, ret = 0;

	if (!work)
		return -ENOMEM;
	kind = word ? match_string(kinds, ARRAY_SIZE(kinds), word) : -EINVAL;
	if (kind < 0)
		return kind;
	while (!ret && (word = wqt_next_word(&input)))
		if (!wqt_word_number(word, "cpu", &cpu, &ret))
			ret = -EINVAL;
	if (ret)
		return ret;
	if (q->flags & WQ_BH)
		return -EINVAL;
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return -ERANGE;

	INIT_WORK(work, wqt_misused_fn);
	return functions[kind](q, work, cpu);
}

/*
 * Relays: a slot that becomes free belongs to the item that waits for it.  With a
 * max_active of 1, the first item of a round holds the slot on one CPU, and the second is
 * held back on another.  While the first ends, others are queued behind the second.  None
 * of them may overtake it.
 */
#define WQT_RUNNERS		16

struct wqt_relay {
	struct wqt_queue	*queue;
	unsigned int		rounds;
	unsigned int		from;
	unsigned int		to;
	atomic_t		started;	/* items of this round that began */
	bool			go;		/* the first one may end */
	struct wqt_runner {
		struct work_struct	work;
		struct wqt_relay	*relay;
		int			place;	/* in which it has to start */
	} runners[WQT_RUNNERS];
};

static void wqt_runner_fn(struct work_struct *work)
{
	struct wqt_runner *runner = container_of(work, struct wqt_runner, work);
	struct wqt_relay *relay = runner->relay;

	if (atomic_inc_return(&relay->started) != runner->place)
		wqt_count(relay->queue, WQT_MISORDERED);
	wqt_account_start(relay->queue);
	while (runner->place == 1 && !READ_ONCE(relay->go))
		cpu_relax();
}

static bool wqt_wait_ran(struct wqt_queue *q, s64 n)
{
	return wait_event_timeout(q->ran_wait, atomic64_read(&q->counters[WQT_RAN]) >= n,
				  WQT_SETTLE);
}

static bool wqt_relay_round(struct wqt_relay *relay)
{
	struct wqt_queue *q = relay->queue;
	s64 ran = atomic64_read(&q->counters[WQT_RAN]);
	unsigned int i;

	atomic_set(&relay->started, 0);
	relay->go = false;
	atomic64_add(WQT_RUNNERS, &q->counters[WQT_QUEUED]);

	queue_work_on(relay->from, q->wq, &relay->runners[0].work);
	if (!wqt_wait_ran(q, ran + 1))
		return false;

	preempt_disable();
	queue_work_on(relay->to, q->wq, &relay->runners[1].work);
	WRITE_ONCE(relay->go, true);
	for (i = 2; i < WQT_RUNNERS; i++)
		queue_work_on(relay->to, q->wq, &relay->runners[i].work);
	preempt_enable();
	return wqt_wait_ran(q, ran + WQT_RUNNERS);
}

/* Not on the CPU of the first item: that item could not end there while this queues. */
static long wqt_relay_run(void *arg)
{
	struct wqt_relay *relay = arg;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < WQT_RUNNERS; i++) {
		INIT_WORK(&relay->runners[i].work, wqt_runner_fn);
		relay->runners[i].relay = relay;
		relay->runners[i].place = i + 1;
	}
	for (i = 0; i < relay->rounds && !ret; i++)
		ret = wqt_relay_round(relay) ? 0 : -ETIMEDOUT;

	WRITE_ONCE(relay->go, true);
	for (i = 0; i < WQT_RUNNERS; i++)
		cancel_work_sync(&relay->runners[i].work);
	return ret;
}

static int wqt_write_relay(struct wqt_queue *q, char *input)
{
	struct wqt_relay *relay __free(kfree) = kzalloc(sizeof(*relay), GFP_KERNEL);
	char *word;
	int ret = 0;

	if (!relay)
		return -ENOMEM;
	relay->queue = q;
	while (!ret && (word = wqt_next_word(&input))) {
		if (!wqt_word_number(word, "rounds", &relay->rounds, &ret) &&
		    !wqt_word_number(word, "from", &relay->from, &ret) &&
		    !wqt_word_number(word, "to", &relay->to, &ret))
			ret = -EINVAL;
	}
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
	return work_on_cpu(relay->to, wqt_relay_run, relay);
}

/*
 * Showing what is going on
 */

static int wqt_write_stats(struct wqt_queue *q, char *input)
{
	unsigned int i;

	guard(mutex)(&q->load_mutex);
	for (i = 0; i < WQT_NR_COUNTERS; i++)
		atomic64_set(&q->counters[i], 0);
	atomic64_set(&q->last_start, 0);

	guard(spinlock_bh)(&q->order_lock);
	q->nr_series = 0;
	return 0;
}

static int wqt_show_order(struct seq_file *s, struct wqt_queue *q)
{
	unsigned int i;

	guard(spinlock_bh)(&q->order_lock);
	for (i = 0; i < q->nr_series; i++)
		seq_printf(s, "%d %u\n", q->order[i].cpu, q->order[i].n);
	return 0;
}

static int wqt_show_stats(struct seq_file *s, struct wqt_queue *q)
{
	unsigned int i;

	for (i = 0; i < WQT_NR_COUNTERS; i++)
		seq_printf(s, "%s %lld\n", wqt_counter_names[i],
			   atomic64_read(&q->counters[i]));
	return 0;
}

static int wqt_show_held(struct seq_file *s, struct wqt_queue *q)
{
	struct wqt_single *single;

	/* An item on the list has not finished, so its task exists. */
	spin_lock_bh(&q->held_lock);
	list_for_each_entry(single, &q->held, node)
		seq_printf(s, "%s pid=%d cpu=%d\n",
			   single->kind == WQT_HOG ? "hog" : "block",
			   task_pid_nr(single->task), single->cpu);
	spin_unlock_bh(&q->held_lock);
	return 0;
}

/* An item that records which worker ran it. */
struct wqt_probe {
	struct delayed_work	dwork;
	struct rcu_work		rwork;
	struct workqueue_struct	*wq;
	struct completion	ran;
	int			cpu;		/* the CPU that queues it, or is named */
	int			ran_on;
	pid_t			pid;
	char			comm[TASK_COMM_LEN];
	cpumask_var_t		allowed;
	bool			moves_worker;	/* to where map_far says */
};

/* let the scheduler wake this worker in another package than that of @cpu, if nobody objects */
static void wqt_move_worker(int cpu)
{
#ifdef CONFIG_SMP
	int far;

	for_each_online_cpu(far)
		if (topology_physical_package_id(far) != topology_physical_package_id(cpu))
			WRITE_ONCE(current->wake_cpu, far);
#endif
}

static void wqt_probe_ran(struct wqt_probe *probe)
{
	probe->ran_on = raw_smp_processor_id();
	probe->pid = task_pid_nr(current);
	get_task_comm(probe->comm, current);
	cpumask_copy(probe->allowed, current->cpus_ptr);
	if (probe->moves_worker)
		wqt_move_worker(probe->cpu);
	complete(&probe->ran);
}

static void wqt_probe_fn(struct work_struct *work)
{
	wqt_probe_ran(container_of(work, struct wqt_probe, dwork.work));
}

static void wqt_probe_rcu_fn(struct work_struct *work)
{
	wqt_probe_ran(container_of(work, struct wqt_probe, rwork.work));
}

/* how to queue a probe; those without a CPU's name are called on probe->cpu */

static void wqt_probe_on(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_work_on(probe->cpu, probe->wq, &probe->dwork.work);
}

static void wqt_probe_here(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_work(probe->wq, &probe->dwork.work);
}

static void wqt_probe_far(void *arg)
{
	struct wqt_probe *probe = arg;

	probe->moves_worker = true;
	wqt_probe_here(probe);
}

static void wqt_probe_next_node(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_work_node(next_node_in(numa_node_id(), node_online_map), probe->wq,
			&probe->dwork.work);
}

static void wqt_probe_delayed_on(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_delayed_work_on(probe->cpu, probe->wq, &probe->dwork, 1);
}

static void wqt_probe_delayed(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_delayed_work(probe->wq, &probe->dwork, 1);
}

static void wqt_probe_rcu(void *arg)
{
	struct wqt_probe *probe = arg;

	queue_rcu_work(probe->wq, &probe->rwork);
}

static struct wqt_probe *wqt_probe_alloc(struct wqt_queue *q)
{
	struct wqt_probe *probe = kzalloc(sizeof(*probe), GFP_KERNEL);

	if (!probe)
		return NULL;
	if (!alloc_cpumask_var(&probe->allowed, GFP_KERNEL)) {
		kfree(probe);
		return NULL;
	}
	probe->wq = q->wq;
	init_completion(&probe->ran);
	if (q->flags & WQ_BH) {
		INIT_DELAYED_WORK(&probe->dwork, wqt_probe_fn);
		INIT_RCU_WORK(&probe->rwork, wqt_probe_rcu_fn);
	} else {
		INIT_DELAYED_WORK(&probe->dwork, wqt_probe_fn);
		INIT_RCU_WORK(&probe->rwork, wqt_probe_rcu_fn);
	}
	return probe;
}

/* Queue a probe for each CPU, by @queue, which runs on that CPU unless it names the CPU. */
static int wqt_show_probes(struct seq_file *s, struct wqt_queue *q, smp_call_func_t queue,
			   bool names)
{
	struct wqt_probe *probe = wqt_probe_alloc(q);

	if (!probe)
		return -ENOMEM;

	for_each_online_cpu(probe->cpu) {
		if (names)
			queue(probe);
		else if (smp_call_function_single(probe->cpu, queue, probe, true))
			continue;	/* went down in the meantime */
		/* not freed: it may still run */
		if (!wait_for_completion_timeout(&probe->ran, WQT_SETTLE))
			return -ETIMEDOUT;
		flush_work(&probe->dwork.work);
		flush_work(&probe->rwork.work);
		seq_printf(s, "cpu=%d ran=%d pid=%d allowed=%*pbl comm=%s\n",
			   probe->cpu, probe->ran_on, probe->pid,
			   cpumask_pr_args(probe->allowed), probe->comm);
	}

	free_cpumask_var(probe->allowed);
	kfree(probe);
	return 0;
}

static int wqt_show_map(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_here, false);
}

static int wqt_show_map_far(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_far, false);
}

static int wqt_show_map_on(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_on, true);
}

static int wqt_show_map_node(struct seq_file *s, struct wqt_queue *q)
{
	if (!(q->flags & WQ_UNBOUND))
		return -EINVAL;
	return wqt_show_probes(s, q, wqt_probe_next_node, false);
}

static int wqt_show_map_delayed(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_delayed, false);
}

static int wqt_show_map_delayed_on(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_delayed_on, true);
}

static int wqt_show_map_rcu(struct seq_file *s, struct wqt_queue *q)
{
	return wqt_show_probes(s, q, wqt_probe_rcu, false);
}

#ifdef CONFIG_WORKQUEUE_CMWQ
/* The list is a ring: its head is not exported, but this workqueue stays on it. */
static int wqt_show_workqueues(struct seq_file *s, struct wqt_queue *q)
{
	struct list_head *node;
	unsigned int nr = 0;

	guard(rcu)();
	for (node = rcu_dereference(list_next_rcu(&q->wq->list)); node != &q->wq->list;
	     node = rcu_dereference(list_next_rcu(node)))
		nr++;
	seq_printf(s, "%u\n", nr);
	return 0;
}
#else
static int wqt_show_workqueues(struct seq_file *s, struct wqt_queue *q)
{
	return -EOPNOTSUPP;
}
#endif

/*
 * Files
 */

struct wqt_file {
	const char	*name;
	int		(*write)(struct wqt_queue *q, char *input);
	int		(*show)(struct seq_file *s, struct wqt_queue *q);
};

static const struct wqt_file wqt_files[] = {
	{ "load",	wqt_write_load,		NULL },
	{ "queue",	wqt_write_queue,	NULL },
	{ "delay",	wqt_write_delay,	NULL },
	{ "cancel",	wqt_write_cancel,	NULL },
	{ "misuse",	wqt_write_misuse,	NULL },
	{ "relay",	wqt_write_relay,	NULL },
	{ "release",	wqt_write_release,	NULL },
	{ "wait",	wqt_write_wait,		NULL },
	{ "flush",	wqt_write_flush,	NULL },
	{ "pods",	wqt_write_pods,		NULL },
	{ "stats",	wqt_write_stats,	wqt_show_stats },
	{ "order",	NULL,			wqt_show_order },
	{ "held",	NULL,			wqt_show_held },
	{ "map",	NULL,			wqt_show_map },
	{ "map_on",	NULL,			wqt_show_map_on },
	{ "map_node",	NULL,			wqt_show_map_node },
	{ "map_far",	NULL,			wqt_show_map_far },
	{ "workqueues",	NULL,			wqt_show_workqueues },
	{ "map_delayed", NULL,			wqt_show_map_delayed },
	{ "map_delayed_on", NULL,		wqt_show_map_delayed_on },
	{ "map_rcu",	NULL,			wqt_show_map_rcu },
};

/* the entry of an open file */
static const struct wqt_file *wqt_file_of(const struct file *file)
{
	const struct wqt_file *wf = wqt_files;

	while (strcmp(wf->name, file_dentry(file)->d_name.name))
		wf++;
	return wf;
}

static int wqt_file_show(struct seq_file *s, void *unused)
{
	return wqt_file_of(s->file)->show(s, s->private);
}

static int wqt_file_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, wqt_file_show, inode->i_private, SZ_64K);
}

static ssize_t wqt_file_write(struct file *file, const char __user *ubuf,
			      size_t len, loff_t *pos)
{
	char *input;
	int ret;

	if (len > WQT_MAX_INPUT)
		return -E2BIG;
	input = memdup_user_nul(ubuf, len);
	if (IS_ERR(input))
		return PTR_ERR(input);

	ret = wqt_file_of(file)->write(file_inode(file)->i_private, input);
	kfree(input);
	return ret ?: len;
}

static const struct file_operations wqt_file_fops = {
	.owner		= THIS_MODULE,
	.open		= wqt_file_open,
	.read		= seq_read,
	.write		= wqt_file_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static void wqt_create_files(struct wqt_queue *q)
{
	unsigned int i;

	q->dir = debugfs_create_dir(q->name, wqt_root);
	for (i = 0; i < ARRAY_SIZE(wqt_files); i++) {
		const struct wqt_file *wf = &wqt_files[i];
		umode_t mode = (wf->write ? 0200 : 0) | (wf->show ? 0400 : 0);

		debugfs_create_file(wf->name, mode, q->dir, q, &wqt_file_fops);
	}
}

/*
 * Workqueues
 */

static const struct {
	const char	*name;
	unsigned int	flag;
} wqt_flags[] = {
	{ "percpu",		WQ_PERCPU },
	{ "unbound",		WQ_UNBOUND },
	{ "bh",			WQ_BH | WQ_PERCPU },
	{ "highpri",		WQ_HIGHPRI },
	{ "mem_reclaim",	WQ_MEM_RECLAIM },
	{ "freezable",		WQ_FREEZABLE },
	{ "cpu_intensive",	WQ_CPU_INTENSIVE },
	{ "power_efficient",	WQ_POWER_EFFICIENT | WQ_PERCPU },
	{ "ordered_flag",	__WQ_ORDERED },	/* "ordered" is WQ_UNBOUND, too */
};

static bool *wqt_option(struct wqt_queue *q, const char *word)
{
	if (!strcmp(word, "nosysfs"))
		return &q->no_sysfs;
	if (!strcmp(word, "devm"))
		return &q->devm;
	return strcmp(word, "killed") ? NULL : &q->killed;
}

static int wqt_parse_flag(struct wqt_queue *q, const char *word)
{
	unsigned int i;
	bool *option;

	if (!strcmp(word, "ordered")) {
		q->ordered = true;
		q->flags |= WQ_UNBOUND;
		return 0;
	}
	option = wqt_option(q, word);
	if (option) {
		*option = true;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(wqt_flags); i++) {
		if (!strcmp(word, wqt_flags[i].name)) {
			q->flags |= wqt_flags[i].flag;
			return 0;
		}
	}
	return -EINVAL;
}

static void wqt_free(struct wqt_queue *q)
{
	kfree(q->inflight);
	kfree(q->pods);
	kfree(q);
}

static struct wqt_queue *wqt_alloc(void)
{
	struct wqt_queue *q = kzalloc(sizeof(*q), GFP_KERNEL);

	if (!q)
		return NULL;
	q->inflight = kcalloc(nr_cpu_ids, sizeof(*q->inflight), GFP_KERNEL);
	if (!q->inflight) {
		kfree(q);
		return NULL;
	}

	mutex_init(&q->load_mutex);
	spin_lock_init(&q->held_lock);
	spin_lock_init(&q->order_lock);
	INIT_LIST_HEAD(&q->held);
	init_waitqueue_head(&q->ran_wait);
	init_waitqueue_head(&q->release_wait);
	q->from = nr_cpu_ids;
	return q;
}

static struct wqt_queue *wqt_find(const char *name)
{
	struct wqt_queue *q;

	lockdep_assert_held(&wqt_lock);

	list_for_each_entry(q, &wqt_queues, node)
		if (!strcmp(q->name, name))
			return q;
	return NULL;
}

static int wqt_parse_queue(struct wqt_queue *q, char *input, unsigned int *max_active)
{
	char *word = wqt_next_word(&input);
	int ret = 0;

	/* The name becomes a directory. */
	if (!word || strchr(word, '/') || strscpy(q->name, word) < 0)
		return -EINVAL;
	while (!ret && (word = wqt_next_word(&input))) {
		if (!wqt_word_number(word, "max_active", max_active, &ret))
			ret = wqt_parse_flag(q, word);
	}
	if (!ret && !(q->flags & WQ_PERCPU) == !(q->flags & WQ_UNBOUND))
		ret = -EINVAL;
	if (!ret && !(q->flags & WQ_BH) && !q->no_sysfs)
		q->flags |= WQ_SYSFS;
	return ret;
}

static int wqt_make_devm(struct wqt_queue *q, unsigned int max_active)
{
	q->dev = root_device_register(q->name);
	if (IS_ERR(q->dev))
		return PTR_ERR(q->dev);
	if (q->ordered)
		q->wq = devm_alloc_ordered_workqueue(q->dev, "%s", q->flags & ~WQ_UNBOUND,
						     q->name);
	else
		q->wq = devm_alloc_workqueue(q->dev, "%s", q->flags, max_active, q->name);
	if (q->wq)
		return 0;
	root_device_unregister(q->dev);
	return -ENOMEM;
}

static int wqt_make(struct wqt_queue *q, unsigned int max_active)
{
	if (q->killed)
		send_sig(SIGKILL, current, 1);
	if (q->devm)
		return wqt_make_devm(q, max_active);
	if (q->ordered)
		q->wq = alloc_ordered_workqueue("%s", q->flags & ~WQ_UNBOUND, q->name);
	else
		q->wq = alloc_workqueue("%s", q->flags, max_active, q->name);
	return q->wq ? 0 : -ENOMEM;
}

static int wqt_publish(struct wqt_queue *q, unsigned int max_active)
{
	int ret;

	guard(mutex)(&wqt_lock);

	if (wqt_find(q->name))
		return -EEXIST;

	ret = wqt_make(q, max_active);
	if (ret)
		return ret;

	wqt_create_files(q);
	list_add_tail(&q->node, &wqt_queues);
	return 0;
}

static int wqt_create(char *input)
{
	unsigned int max_active = 0;
	struct wqt_queue *q = wqt_alloc();
	int ret;

	if (!q)
		return -ENOMEM;

	ret = wqt_parse_queue(q, input, &max_active);
	if (!ret)
		ret = wqt_publish(q, max_active);
	if (ret)
		wqt_free(q);
	return ret;
}

static void wqt_destroy(struct wqt_queue *q)
{
	lockdep_assert_held(&wqt_lock);

	list_del(&q->node);
	/* Afterwards nobody uses the files. */
	debugfs_remove_recursive(q->dir);
	wqt_write_release(q, NULL);
	mutex_lock(&q->load_mutex);
	wqt_load_stop(q);
	mutex_unlock(&q->load_mutex);
	if (q->devm)
		root_device_unregister(q->dev);
	else
		destroy_workqueue(q->wq);
	wqt_free(q);
}

static int wqt_destroy_name(char *input)
{
	struct wqt_queue *q;

	guard(mutex)(&wqt_lock);
	q = wqt_find(strim(input));
	if (!q)
		return -ENOENT;
	wqt_destroy(q);
	return 0;
}

/* one occupant at a time: it moves kthreadd away and back */
static atomic_t wqt_occupied;

struct wqt_occupation {
	struct completion	begun;
	unsigned int		cpu;
	unsigned int		ms;
};

/* how the occupation ends; the first one to end it sets this */
enum { WQT_STAYS, WQT_IS_OVER, WQT_LEAVES };
static atomic_t wqt_occupant_end = ATOMIC_INIT(WQT_IS_OVER);

static struct task_struct *wqt_get_kthreadd(void)
{
	guard(rcu)();
	return get_task_struct(rcu_dereference(current->real_parent));
}

/*
 * A new thread starts on a CPU on which kthreadd may run, and its creator waits until
 * it has started.  So keep kthreadd off the occupied CPU.
 */
static int wqt_occupant(void *arg)
{
	struct wqt_occupation *occupation = arg;
	struct task_struct *kthreadd = wqt_get_kthreadd();
	unsigned int ms = occupation->ms;
	static struct cpumask before, away;	/* ours alone: wqt_occupied */

	cpumask_copy(&before, kthreadd->cpus_ptr);
	if (cpumask_andnot(&away, &before, cpumask_of(occupation->cpu)))
		set_cpus_allowed_ptr(kthreadd, &away);

	sched_set_fifo(current);
	atomic_set(&wqt_occupant_end, WQT_STAYS);
	preempt_disable();
	complete(&occupation->begun);
	while (ms-- && atomic_read(&wqt_occupant_end) == WQT_STAYS)
		wqt_spin_us(1000);
	/* before anybody else gets the CPU */
	atomic_cmpxchg(&wqt_occupant_end, WQT_STAYS, WQT_IS_OVER);
	preempt_enable();

	set_cpus_allowed_ptr(kthreadd, &before);
	put_task_struct(kthreadd);
	atomic_set(&wqt_occupied, 0);
	module_put_and_kthread_exit(0);
}

static int wqt_leave(void)
{
	int end = atomic_cmpxchg(&wqt_occupant_end, WQT_STAYS, WQT_LEAVES);

	return end == WQT_STAYS ? 0 : -ENOENT;
}

static int wqt_occupy(char *input)
{
	struct wqt_occupation occupation = { .ms = 100 };
	struct task_struct *task;
	char *word;
	int ret = 0;

	if (!strcmp(strim(input), "leave"))
		return wqt_leave();

	while (!ret && (word = wqt_next_word(&input))) {
		if (!wqt_word_number(word, "cpu", &occupation.cpu, &ret) &&
		    !wqt_word_number(word, "ms", &occupation.ms, &ret))
			ret = -EINVAL;
	}
	if (ret)
		return ret;
	guard(cpus_read_lock)();
	/* keep the watchdogs quiet */
	if (occupation.cpu >= nr_cpu_ids || !cpu_online(occupation.cpu) || occupation.ms > 5000)
		return -ERANGE;
	if (atomic_xchg(&wqt_occupied, 1))
		return -EBUSY;
	init_completion(&occupation.begun);

	__module_get(THIS_MODULE);
	task = kthread_create_on_cpu(wqt_occupant, &occupation, occupation.cpu, "wqt/%u");
	if (IS_ERR(task)) {
		atomic_set(&wqt_occupied, 0);
		module_put(THIS_MODULE);
		return PTR_ERR(task);
	}
	wake_up_process(task);
	wait_for_completion(&occupation.begun);
	return 0;
}

/*
 * A console that queues work when it is called, like drivers that draw in a work item.
 * If the item is pending, the console moves it.  So it takes the pool's lock each time.
 */
static struct workqueue_struct *wqt_console_wq;	/* wqt_lock; set: registered */
static unsigned int wqt_console_cpu;		/* constant while registered */
static u32 wqt_console_lines;			/* by the console's owner */

static void wqt_console_write(struct console *console, const char *text, unsigned int len)
{
	mod_delayed_work_on(wqt_console_cpu, wqt_console_wq, &wqt_console_work, 0);
	WRITE_ONCE(wqt_console_lines, wqt_console_lines + 1);
}

static struct console wqt_console = {
	.name	= "wqt",
	.write	= wqt_console_write,
};

static int wqt_console_on(unsigned int cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ERANGE;
	if (wqt_console_wq)
		return -EBUSY;

	/* a separate workqueue, on the normal pool of the CPU */
	wqt_console_wq = alloc_workqueue("wqt_console", WQ_PERCPU, 0);
	if (!wqt_console_wq)
		return -ENOMEM;
	wqt_console_cpu = cpu;
	/* unregistering changes these */
	wqt_console.flags = CON_ENABLED | CON_ANYTIME;
	wqt_console.index = -1;
	register_console(&wqt_console);
	return 0;
}

static void wqt_console_off(void)
{
	if (!wqt_console_wq)
		return;
	unregister_console(&wqt_console);
	cancel_delayed_work_sync(&wqt_console_work);
	destroy_workqueue(wqt_console_wq);
	wqt_console_wq = NULL;
}

static int wqt_write_console(char *input)
{
	unsigned int cpu;

	guard(mutex)(&wqt_lock);
	input = strim(input);
	if (!strcmp(input, "off")) {
		wqt_console_off();
		return 0;
	}
	return sscanf(input, "cpu=%u", &cpu) == 1 ? wqt_console_on(cpu) : -EINVAL;
}

static ssize_t wqt_root_write(struct file *file, const char __user *ubuf,
			      size_t len, loff_t *pos)
{
	int (*handler)(char *input) = file_inode(file)->i_private;
	char *input;
	int ret;

	if (len > WQT_MAX_INPUT)
		return -E2BIG;
	input = memdup_user_nul(ubuf, len);
	if (IS_ERR(input))
		return PTR_ERR(input);

	ret = handler(input);
	kfree(input);
	return ret ?: len;
}

static const struct file_operations wqt_root_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= wqt_root_write,
};

static int __init wqt_init(void)
{
	wqt_hp_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "lib/wq_test:online",
					 wqt_cpu_moved, wqt_cpu_moved);
	if (wqt_hp_state < 0)
		return wqt_hp_state;

	/* a dead CPU's pools are cleared at a lower state: later, on the way down */
	wqt_hp_dead = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "lib/wq_test:dead",
					NULL, wqt_cpu_dead);
	if (wqt_hp_dead < 0) {
		cpuhp_remove_state(wqt_hp_state);
		return wqt_hp_dead;
	}

	wqt_root = debugfs_create_dir("wq_test", NULL);
	if (IS_ERR(wqt_root)) {
		cpuhp_remove_state(wqt_hp_dead);
		cpuhp_remove_state(wqt_hp_state);
		return PTR_ERR(wqt_root);
	}
	debugfs_create_file("create", 0200, wqt_root, wqt_create, &wqt_root_fops);
	debugfs_create_file("destroy", 0200, wqt_root, wqt_destroy_name,
			    &wqt_root_fops);
	debugfs_create_file("occupy", 0200, wqt_root, wqt_occupy, &wqt_root_fops);
	debugfs_create_file("console", 0200, wqt_root, wqt_write_console, &wqt_root_fops);
	debugfs_create_u32("console_lines", 0400, wqt_root, &wqt_console_lines);
	return 0;
}

static void __exit wqt_exit(void)
{
	struct wqt_queue *q, *tmp;

	/* Remove the files first, so that no queue is made or destroyed any more. */
	debugfs_lookup_and_remove("create", wqt_root);
	debugfs_lookup_and_remove("destroy", wqt_root);
	debugfs_lookup_and_remove("occupy", wqt_root);
	debugfs_lookup_and_remove("console", wqt_root);

	mutex_lock(&wqt_lock);
	wqt_console_off();
	list_for_each_entry_safe(q, tmp, &wqt_queues, node)
		wqt_destroy(q);
	mutex_unlock(&wqt_lock);
	flush_work(&wqt_canceller);

	debugfs_remove_recursive(wqt_root);
	cpuhp_remove_state(wqt_hp_dead);
	cpuhp_remove_state(wqt_hp_state);
}

module_init(wqt_init);
module_exit(wqt_exit);
MODULE_DESCRIPTION("Known work for the workqueue selftests");
MODULE_LICENSE("GPL");
