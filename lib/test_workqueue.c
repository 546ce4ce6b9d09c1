// SPDX-License-Identifier: GPL-2.0
/*
 * Measures how fast, and how correctly, an unbound workqueue serves its submitters.
 *
 * Kernel threads, each bound to one CPU, queue items on an unbound WQ_SYSFS
 * workqueue and wait until they ran. Between runs the affinity scope of the
 * workqueue is changed the way an administrator would do it: through its own
 * file under /sys/bus/workqueue/devices/. The output is a table for people and
 * "result key=value ..." lines for scripts. They show two things:
 *
 * - items per second, and percentiles of the time that queue_work() itself
 *   took. Every call is counted in a histogram: see wq_hist.h.
 * - how often the workqueue broke its promises. Each submission carries a state
 *   that only its first execution may advance. This shows an item that never ran
 *   as well as one that ran twice.
 *
 * As a module it does its work at load time and then refuses to stay, with
 * -ECANCELED after a clean pass and -EPROTO when a promise was broken. Load it
 * with kmod's insmod: busybox's insmod tries again when loading fails, and so
 * makes the pass twice. With keep=1, or built in, it stays and starts a pass
 * whenever something is written to its "run" parameter. A built-in benchmark
 * cannot start by itself: /sys is not mounted during initcalls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rcuwait.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "wq_hist.h"

#define BENCH_WQ_NAME		"test_workqueue"
#define BENCH_WQ_DIR		"/sys/bus/workqueue/devices/" BENCH_WQ_NAME "/"
#define BENCH_WQ_PARAMS		"/sys/module/workqueue/parameters/"

/*
 * Parameters. All can be changed between passes when the module stays.
 */

static int threads;
module_param(threads, int, 0644);
MODULE_PARM_DESC(threads, "submitting threads, 0: one for each usable CPU (default 0)");

static int items = 50000;
module_param(items, int, 0644);
MODULE_PARM_DESC(items, "items that each thread queues in a run (default 50000)");

static char *scopes;
module_param(scopes, charp, 0644);
MODULE_PARM_DESC(scopes, "comma separated affinity scopes, empty: all (default)");

static char *mode;
module_param(mode, charp, 0644);
MODULE_PARM_DESC(mode, "latency: one item in flight per thread (default); batch: several");

static int batch = 32;
module_param(batch, int, 0644);
MODULE_PARM_DESC(batch, "items in flight per thread in batch mode (default 32)");

static int repeats = 1;
module_param(repeats, int, 0644);
MODULE_PARM_DESC(repeats, "runs of each scope (default 1)");

static int warmup = 100;
module_param(warmup, int, 0644);
MODULE_PARM_DESC(warmup, "untimed items that each thread queues first (default 100)");

static int max_active;
module_param(max_active, int, 0644);
MODULE_PARM_DESC(max_active, "of the workqueue, 0: the kernel's default (default 0)");

static int timeout = 30;
module_param(timeout, int, 0644);
MODULE_PARM_DESC(timeout, "seconds without any progress after which items count as lost (default 30)");

static bool strict;
module_param(strict, bool, 0644);
MODULE_PARM_DESC(strict, "make the scopes strict and check where items run (default N)");

static bool keep;
module_param(keep, bool, 0444);
MODULE_PARM_DESC(keep, "stay loaded, for further passes through \"run\" (default N)");

enum bench_scope {
	BENCH_SCOPE_DEFAULT,
	BENCH_SCOPE_CPU,
	BENCH_SCOPE_SMT,
	BENCH_SCOPE_CACHE,
	BENCH_SCOPE_CACHE_SHARD,
	BENCH_SCOPE_NUMA,
	BENCH_SCOPE_SYSTEM,
	NR_BENCH_SCOPES,
};

static const char * const bench_scope_names[NR_BENCH_SCOPES] = {
	[BENCH_SCOPE_DEFAULT]		= "default",
	[BENCH_SCOPE_CPU]		= "cpu",
	[BENCH_SCOPE_SMT]		= "smt",
	[BENCH_SCOPE_CACHE]		= "cache",
	[BENCH_SCOPE_CACHE_SHARD]	= "cache_shard",
	[BENCH_SCOPE_NUMA]		= "numa",
	[BENCH_SCOPE_SYSTEM]		= "system",
};

/* What one pass does: the parameters, checked and copied when it starts. */
struct bench_plan {
	unsigned int	threads;	/* 0: one for each usable CPU */
	unsigned int	items;		/* per thread and run */
	unsigned int	in_flight;	/* per thread */
	unsigned int	repeats;
	unsigned int	warmup;		/* per thread */
	unsigned int	max_active;
	unsigned int	timeout;	/* in seconds */
	bool		strict;
	bool		batch;
	bool		all_scopes;	/* none was asked for by name */
	unsigned int	nr_scopes;
	enum bench_scope scopes[NR_BENCH_SCOPES];
};

/* The kworkers seen in a run, an open-addressing table of their pids. */
#define WORKER_SET_BITS		13

struct worker_set {
	atomic_t	nr;
	atomic_t	pid[BIT(WORKER_SET_BITS)];
};

enum item_state {
	ITEM_IDLE,	/* not queued yet, or refused */
	ITEM_QUEUED,	/* set by the submitter, just before queue_work() */
	ITEM_RAN,	/* set by the item's function */
};

struct bench_item {
	struct work_struct	work;
	struct bench_thread	*owner;
	int			state;	/* enum item_state, moved by xchg() */
};

struct bench_thread {
	struct bench		*bench;
	struct task_struct	*task;
	unsigned int		cpu;
	unsigned int		nr_items;	/* two sets of in_flight */

	/* Written by the thread, read by the pass once the thread is gone. */
	u64			begin;
	u64			end;
	unsigned int		refused;
	struct wq_hist		*hist;

	/* The pass reads @rounds now and then to detect a stuck thread. */
	unsigned int		rounds;		/* written by the thread */
	unsigned int		seen_rounds;
	unsigned int		seen_in_flight;
	unsigned int		stuck;		/* seconds without progress */
	unsigned int		lost;

	/* Strict scopes only: where its items may run, set between runs. */
	bool			bad_pod;
	struct cpumask		pod;
	struct cpumask		seen;
	struct work_struct	probe;
	struct completion	probed;

	/* Written by the workers. */
	atomic_t		in_flight ____cacheline_aligned_in_smp;
	atomic_t		twice;
	atomic_t		outside;
	struct rcuwait		idle;		/* for in_flight to reach zero */

	struct bench_item	items[];
};

struct bench_result {
	u64		elapsed;	/* first queueing to last completion */
	u64		items;
	unsigned int	nr_threads;
	unsigned int	nr_workers;
	unsigned int	lost;
	unsigned int	twice;
	unsigned int	outside;
	unsigned int	refused;
	unsigned int	bad_pods;
	unsigned int	hotplug;	/* CPUs came or went: pods not judged */
};

/* Everything that lives as long as a pass. */
struct bench {
	struct bench_plan	plan;
	struct workqueue_struct	*wq;
	unsigned int		nr_threads;
	struct bench_thread	**threads;
	struct wq_hist		*hist;		/* merged, for the report */
	struct worker_set	workers;

	cpumask_var_t		allowed;	/* CPUs that unbound items may use */
	cpumask_var_t		online;		/* when the run began */
	cpumask_var_t		scratch;

	bool			judge;		/* check where items run */
	bool			stop;		/* set once, by the pass: leave soon */
	atomic_t		warming;	/* threads not at the gate yet */
	atomic_t		active;		/* threads that still submit */
	wait_queue_head_t	gate;		/* for warming to reach zero */
	wait_queue_head_t	done;		/* for active to reach zero */

	unsigned int		nr_runs;
	u64			violations;
	unsigned long		passed_over;	/* bits of enum bench_scope */
};

static DEFINE_MUTEX(bench_lock);	/* one pass at a time */
static bool bench_ready;		/* "run" may be written */
static atomic_t bench_hotplug_events = ATOMIC_INIT(0);

/*
 * Checking the parameters
 */

static bool bench_in_range(const char *name, int value, int min, int max)
{
	if (value >= min && value <= max)
		return true;

	pr_err("%s=%d is not between %d and %d\n", name, value, min, max);
	return false;
}

static int bench_scope_by_name(const char *name)
{
	return match_string(bench_scope_names, NR_BENCH_SCOPES, name);
}

static int bench_plan_scopes(struct bench_plan *plan, char *list)
{
	unsigned long seen = 0;
	char *name;

	plan->all_scopes = !*list;
	if (plan->all_scopes) {
		for (int scope = BENCH_SCOPE_CPU; scope < NR_BENCH_SCOPES; scope++)
			plan->scopes[plan->nr_scopes++] = scope;
		return 0;
	}

	while ((name = strsep(&list, ","))) {
		int scope = bench_scope_by_name(name);

		if (scope < 0) {
			pr_err("scopes: \"%s\" is not an affinity scope\n", name);
			return -EINVAL;
		}
		if (seen & BIT(scope)) {
			pr_err("scopes: \"%s\" is listed twice\n", name);
			return -EINVAL;
		}
		seen |= BIT(scope);
		plan->scopes[plan->nr_scopes++] = scope;
	}
	return 0;
}

/* echo ends a charp parameter with a newline: drop it. */
static char *bench_copy_param(const char *value)
{
	char *copy = kstrdup(value ?: "", GFP_KERNEL);

	if (copy)
		copy[strcspn(copy, "\n")] = '\0';
	return copy;
}

static int bench_plan_strings(struct bench_plan *plan)
{
	char *list = bench_copy_param(scopes);
	char *how = bench_copy_param(mode);
	int ret = -ENOMEM;

	if (!list || !how)
		goto out;

	ret = -EINVAL;
	plan->batch = !strcmp(how, "batch");
	if (plan->batch || !*how || !strcmp(how, "latency"))
		ret = bench_plan_scopes(plan, list);
	else
		pr_err("mode=\"%s\" is neither latency nor batch\n", how);
out:
	kfree(how);
	kfree(list);
	return ret;
}

/* The caller holds the parameter lock, so no string changes here. */
static int bench_make_plan(struct bench_plan *plan)
{
	int ret;

	/* With these limits no sum or product in here overflows 64 bits. */
	if (!bench_in_range("threads", threads, 0, 1024) ||
	    !bench_in_range("items", items, 1, 10000000) ||
	    !bench_in_range("batch", batch, 1, 65536) ||
	    !bench_in_range("repeats", repeats, 1, 1000) ||
	    !bench_in_range("warmup", warmup, 0, 1000000) ||
	    !bench_in_range("max_active", max_active, 0, WQ_MAX_ACTIVE) ||
	    !bench_in_range("timeout", timeout, 1, 3600))
		return -EINVAL;

	*plan = (struct bench_plan) {
		.threads	= threads,
		.items		= items,
		.repeats	= repeats,
		.warmup		= warmup,
		.max_active	= max_active,
		.timeout	= timeout,
		.strict		= strict,
	};

	ret = bench_plan_strings(plan);
	plan->in_flight = plan->batch ? batch : 1;
	return ret;
}

/*
 * Clock
 *
 * The clock of user-mode Linux moves in steps of 256 ns, which is about as long as
 * the calls to be timed. UML can read the host's time stamp counter, like any
 * other user process, and uses that. Elsewhere the clock in nanoseconds is used.
 */

#if defined(CONFIG_UML) && defined(__x86_64__)

static const char bench_clock[] = "tsc";

static u64 bench_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#else

static const char bench_clock[] = "ktime";

static u64 bench_ticks(void)
{
	return ktime_get_ns();
}

#endif

#define TICK_SHIFT		20

static u64 bench_tick_mult = BIT_ULL(TICK_SHIFT);	/* ns per tick << TICK_SHIFT */

static int bench_calibrate(void)
{
	u64 ns, ticks;

	if (!strcmp(bench_clock, "ktime"))
		return 0;

	ns = ktime_get_ns();
	ticks = bench_ticks();
	fsleep(20 * USEC_PER_MSEC);
	ns = ktime_get_ns() - ns;
	ticks = bench_ticks() - ticks;

	bench_tick_mult = ticks ? div64_u64(ns << TICK_SHIFT, ticks) : 0;
	if (bench_tick_mult)
		return 0;
	pr_err("the time stamp counter is no clock on this machine\n");
	return -ENODEV;
}

static u64 bench_ticks_to_ns(u64 before, u64 after)
{
	/* Far beyond any call's duration, and the product still fits. */
	u64 ticks = after > before ? min(after - before, BIT_ULL(42)) : 0;

	return ticks * bench_tick_mult >> TICK_SHIFT;
}

/*
 * Reading and writing small files in sysfs
 */

static int bench_read_file(const char *path, char *buf, size_t size)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t pos = 0;
	ssize_t len;

	if (IS_ERR(file))
		return PTR_ERR(file);

	len = kernel_read(file, buf, size - 1, &pos);
	filp_close(file, NULL);
	if (len < 0)
		return len;

	buf[len] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

static int bench_write_file(const char *path, const char *text)
{
	struct file *file = filp_open(path, O_WRONLY, 0);
	size_t size = strlen(text);
	loff_t pos = 0;
	ssize_t len;

	if (IS_ERR(file))
		return PTR_ERR(file);

	len = kernel_write(file, text, size, &pos);
	filp_close(file, NULL);
	if (len < 0)
		return len;
	return len == size ? 0 : -EIO;
}

/*
 * Switching the scope
 */

/* Returns the scope in force, NAME for "default (NAME)", or an error. */
static int bench_read_scope(bool *is_default)
{
	char buf[64], *name = buf;
	int ret;

	ret = bench_read_file(BENCH_WQ_DIR "affinity_scope", buf, sizeof(buf));
	if (ret)
		return ret;

	*is_default = str_has_prefix(buf, "default");
	if (*is_default) {
		name = strchr(buf, '(');
		if (!name)
			return BENCH_SCOPE_DEFAULT;
		name++;
		name[strcspn(name, ")")] = '\0';
	}
	return bench_scope_by_name(name);
}

/*
 * Returns 1 when the scope is in force, 0 when this kernel lacks it, an error
 * otherwise. Some kernels compare only the beginning and take "cache_shard" for
 * "cache", so the file is read back. Kernels before 6.6 have no scopes: the
 * workqueue is measured as it is, as "default".
 */
static int bench_enter_scope(enum bench_scope scope, enum bench_scope *actual)
{
	bool is_default;
	int ret;

	ret = bench_write_file(BENCH_WQ_DIR "affinity_scope", bench_scope_names[scope]);
	if (ret == -ENOENT && scope == BENCH_SCOPE_DEFAULT) {
		*actual = BENCH_SCOPE_DEFAULT;
		return 1;
	}
	if (ret == -EINVAL || ret == -ENOENT)
		return 0;
	if (ret) {
		pr_err("%s: cannot write affinity_scope: %pe\n",
		       bench_scope_names[scope], ERR_PTR(ret));
		return ret;
	}

	ret = bench_read_scope(&is_default);
	if (ret < 0) {
		pr_err("%s: cannot make sense of affinity_scope: %pe\n",
		       bench_scope_names[scope], ERR_PTR(ret));
		return ret;
	}
	if ((is_default ? BENCH_SCOPE_DEFAULT : ret) != scope)
		return 0;
	*actual = ret;
	return 1;
}

static int bench_set_strict(bool on)
{
	int ret = bench_write_file(BENCH_WQ_DIR "affinity_strict", on ? "1" : "0");

	if (ret == -ENOENT && !on)
		return 0;
	if (ret == -ENOENT) {
		pr_err("strict=1: this kernel has no affinity_strict\n");
		return -EOPNOTSUPP;
	}
	if (ret)
		pr_err("strict=%d: cannot write affinity_strict: %pe\n", on, ERR_PTR(ret));
	return ret;
}

/*
 * Where may an item run?
 *
 * The answer must not come from the code under test alone. For each submitting
 * CPU, a probe item reads which CPUs its worker is bound to. That mask must
 * contain the submitting CPU and must be part of what the topology gives for the
 * scope: the CPU, its SMT siblings, the CPUs that share its last cache level
 * according to sysfs, or its NUMA node. A shard must also consist of whole cores,
 * and of no more than workqueue.cache_shard_size. The intersection of both masks
 * is the pod. Each item checks that it runs in there.
 *
 * UML and some machines describe no caches: the node bounds the pod there.
 */

static bool bench_llc_mask(unsigned int cpu, struct cpumask *mask)
{
	static const char dir[] = "/sys/devices/system/cpu/cpu%u/cache/index%u/%s";
	unsigned int highest = 0;
	char path[96], *buf;

	/* A list of CPUs can be long: sysfs never shows more than a page. */
	buf = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!buf)
		return false;

	for (unsigned int index = 0; ; index++) {
		unsigned int level;

		snprintf(path, sizeof(path), dir, cpu, index, "level");
		if (bench_read_file(path, buf, PAGE_SIZE) || kstrtouint(buf, 10, &level))
			break;
		if (level < highest)
			continue;
		snprintf(path, sizeof(path), dir, cpu, index, "shared_cpu_list");
		if (!bench_read_file(path, buf, PAGE_SIZE) && !cpulist_parse(buf, mask))
			highest = level;
	}
	kfree(buf);
	return highest > 0;
}

static void bench_scope_bound(enum bench_scope scope, unsigned int cpu,
			      struct cpumask *mask)
{
	int node = cpu_to_node(cpu);

	switch (scope) {
	case BENCH_SCOPE_CPU:
		cpumask_copy(mask, cpumask_of(cpu));
		return;
	case BENCH_SCOPE_SMT:
		cpumask_copy(mask, topology_sibling_cpumask(cpu));
		return;
	case BENCH_SCOPE_CACHE:
	case BENCH_SCOPE_CACHE_SHARD:
		if (bench_llc_mask(cpu, mask))
			return;
		fallthrough;
	case BENCH_SCOPE_NUMA:
		if (node != NUMA_NO_NODE) {
			cpumask_copy(mask, cpumask_of_node(node));
			return;
		}
		fallthrough;
	default:
		cpumask_copy(mask, cpu_possible_mask);
	}
}

/* True if @pod is made of whole cores, no more than a shard may have. */
static bool bench_shard_fits(const struct cpumask *pod, const struct cpumask *usable)
{
	unsigned int size, cores = 0;
	unsigned int cpu;
	char buf[16];

	for_each_cpu(cpu, pod) {
		const struct cpumask *core = topology_sibling_cpumask(cpu);
		bool first = true;
		unsigned int other;

		for_each_cpu_and(other, core, usable) {
			if (!cpumask_test_cpu(other, pod))
				return false;
			if (other < cpu)
				first = false;
		}
		cores += first;
	}

	if (bench_read_file(BENCH_WQ_PARAMS "cache_shard_size", buf, sizeof(buf)) ||
	    kstrtouint(buf, 10, &size))
		return true;
	return cores <= max(size, 1U);
}

static void bench_probe_fn(struct work_struct *work)
{
	struct bench_thread *thread = container_of(work, struct bench_thread, probe);

	cpumask_copy(&thread->seen, current->cpus_ptr);
	complete(&thread->probed);
}

static int bench_find_pod(struct bench_thread *thread, enum bench_scope scope)
{
	struct bench *bench = thread->bench;
	struct cpumask *usable = bench->scratch;

	reinit_completion(&thread->probed);
	queue_work_on(thread->cpu, bench->wq, &thread->probe);
	if (!wait_for_completion_timeout(&thread->probed, bench->plan.timeout * HZ)) {
		pr_err("a single item queued on CPU %u did not run in %u s\n",
		       thread->cpu, bench->plan.timeout);
		return -ETIMEDOUT;
	}

	cpumask_and(usable, bench->online, bench->allowed);
	bench_scope_bound(scope, thread->cpu, &thread->pod);
	cpumask_and(&thread->seen, &thread->seen, usable);

	thread->bad_pod = !cpumask_test_cpu(thread->cpu, &thread->seen) ||
			  !cpumask_subset(&thread->seen, &thread->pod);
	if (scope == BENCH_SCOPE_CACHE_SHARD && !bench_shard_fits(&thread->seen, usable))
		thread->bad_pod = true;

	cpumask_and(&thread->pod, &thread->pod, &thread->seen);
	return 0;
}

/* All CPUs are allowed if scopes are not strict, or if debug_force_rr_cpu is on. */
static bool bench_can_judge(const struct bench_plan *plan)
{
	char buf[8];

	if (!plan->strict)
		return false;
	if (!bench_read_file(BENCH_WQ_PARAMS "debug_force_rr_cpu", buf, sizeof(buf)) &&
	    buf[0] == 'Y') {
		pr_warn("debug_force_rr_cpu is on: pods are not checked\n");
		return false;
	}
	return true;
}

/*
 * Items
 */

static void bench_note_worker(struct worker_set *set, pid_t pid)
{
	unsigned int slot = hash_32(pid, WORKER_SET_BITS);

	/* A full table, far beyond any max_active, stops counting. */
	for (unsigned int tries = 0; tries < ARRAY_SIZE(set->pid); tries++) {
		int there = atomic_read(&set->pid[slot]);

		if (!there) {
			there = atomic_cmpxchg(&set->pid[slot], 0, pid);
			if (!there) {
				atomic_inc(&set->nr);
				return;
			}
		}
		if (there == pid)
			return;
		slot = (slot + 1) % ARRAY_SIZE(set->pid);
	}
}

/*
 * The xchg() lets exactly one execution of each submission through, and only that
 * one counts down. A second run therefore cannot hide a lost item.
 */
static void bench_item_fn(struct work_struct *work)
{
	struct bench_item *item = container_of(work, struct bench_item, work);
	struct bench_thread *thread = item->owner;
	struct bench *bench = thread->bench;

	bench_note_worker(&bench->workers, current->pid);
	if (bench->judge && !cpumask_test_cpu(raw_smp_processor_id(), &thread->pod))
		atomic_inc(&thread->outside);

	if (xchg(&item->state, ITEM_RAN) != ITEM_QUEUED) {
		atomic_inc(&thread->twice);
		return;
	}
	if (atomic_dec_and_test(&thread->in_flight))
		rcuwait_wake_up(&thread->idle);
}

static void bench_submit(struct bench_thread *thread, struct bench_item *item, bool timed)
{
	u64 before, after;
	bool queued;

	/* Seen by the item's function: a successful queue_work() is a full barrier. */
	WRITE_ONCE(item->state, ITEM_QUEUED);

	before = bench_ticks();
	queued = queue_work(thread->bench->wq, &item->work);
	after = bench_ticks();

	if (timed)
		wq_hist_add(thread->hist, bench_ticks_to_ns(before, after));
	if (queued)
		return;

	/* Its last run began before the submitter was woken: it cannot be pending. */
	thread->refused++;
	WRITE_ONCE(item->state, ITEM_IDLE);
	atomic_dec(&thread->in_flight);
}

/*
 * Submitting threads
 */

/*
 * Rounds alternate between two sets of items. An item that has just run may not
 * have returned from its function yet, and an item never runs twice at a time. If
 * it were queued again at once, it would have to wait for that worker.
 */
static bool bench_round(struct bench_thread *thread, unsigned int nr, bool timed)
{
	struct bench *bench = thread->bench;
	unsigned int first = thread->rounds % 2 * bench->plan.in_flight;

	atomic_set(&thread->in_flight, nr);
	for (unsigned int i = 0; i < nr && !READ_ONCE(bench->stop); i++) {
		bench_submit(thread, &thread->items[first + i], timed);
		cond_resched();
	}

	/* No timer here: it would cost as much as some of what is timed. */
	rcuwait_wait_event(&thread->idle,
			   !atomic_read(&thread->in_flight) || READ_ONCE(bench->stop),
			   TASK_IDLE);
	WRITE_ONCE(thread->rounds, thread->rounds + 1);
	return !READ_ONCE(bench->stop);
}

static bool bench_rounds(struct bench_thread *thread, unsigned int nr, bool timed)
{
	while (nr) {
		unsigned int now = min(nr, thread->bench->plan.in_flight);

		if (!bench_round(thread, now, timed))
			return false;
		nr -= now;
	}
	return true;
}

/* No thread starts the clock before all have warmed up or given up. */
static void bench_pass_gate(struct bench *bench)
{
	if (atomic_dec_and_test(&bench->warming))
		wake_up_all(&bench->gate);
	wait_event_idle(bench->gate,
			!atomic_read(&bench->warming) || READ_ONCE(bench->stop));
}

static int bench_thread_fn(void *data)
{
	struct bench_thread *thread = data;
	struct bench *bench = thread->bench;
	bool warm;

	warm = bench_rounds(thread, bench->plan.warmup, false);
	bench_pass_gate(bench);

	thread->begin = ktime_get_ns();
	if (warm)
		bench_rounds(thread, bench->plan.items, true);
	thread->end = ktime_get_ns();

	if (atomic_dec_and_test(&bench->active))
		wake_up(&bench->done);
	return 0;
}

/* The reference allows kthread_stop() on a thread that has already ended. */
static int bench_create_threads(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];
		struct task_struct *task;

		task = kthread_create_on_node(bench_thread_fn, thread,
					      cpu_to_node(thread->cpu),
					      "wq_bench/%u", i);
		if (IS_ERR(task)) {
			if (PTR_ERR(task) != -EINTR)
				pr_err("cannot create a thread: %pe\n", task);
			return PTR_ERR(task);
		}
		kthread_bind(task, thread->cpu);
		thread->task = get_task_struct(task);
	}
	return 0;
}

static void bench_stop_threads(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		if (!thread->task)
			continue;
		kthread_stop(thread->task);
		put_task_struct(thread->task);
		thread->task = NULL;
	}
}

static void bench_give_up(struct bench *bench)
{
	WRITE_ONCE(bench->stop, true);
	wake_up_all(&bench->gate);
	for (unsigned int i = 0; i < bench->nr_threads; i++)
		rcuwait_wake_up(&bench->threads[i]->idle);
}

/* Called once a second: true when items of this thread must be given up on. */
static bool bench_is_stuck(struct bench_thread *thread)
{
	unsigned int rounds = READ_ONCE(thread->rounds);
	unsigned int in_flight = atomic_read(&thread->in_flight);

	if (!in_flight || rounds != thread->seen_rounds ||
	    in_flight != thread->seen_in_flight) {
		thread->seen_rounds = rounds;
		thread->seen_in_flight = in_flight;
		thread->stuck = 0;
		return false;
	}
	return ++thread->stuck >= thread->bench->plan.timeout;
}

static bool bench_find_lost(struct bench *bench)
{
	bool found = false;

	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		if (!bench_is_stuck(thread))
			continue;
		found = true;
		thread->lost = atomic_read(&thread->in_flight);
		pr_err("%u items queued on CPU %u did not run in %u s\n",
		       thread->lost, thread->cpu, bench->plan.timeout);
	}
	return found;
}

/* Returns 0 also when items got lost, since that is a result. */
static int bench_wait_for_threads(struct bench *bench)
{
	int ret;

	do {
		ret = wait_event_interruptible_timeout(bench->done,
						       !atomic_read(&bench->active), HZ);
	} while (!ret && !bench_find_lost(bench));

	if (ret <= 0)
		bench_give_up(bench);
	return ret < 0 ? -EINTR : 0;
}

static int bench_run_threads(struct bench *bench)
{
	int ret;

	atomic_set(&bench->warming, bench->nr_threads);
	atomic_set(&bench->active, bench->nr_threads);

	ret = bench_create_threads(bench);
	if (!ret) {
		for (unsigned int i = 0; i < bench->nr_threads; i++)
			wake_up_process(bench->threads[i]->task);
		ret = bench_wait_for_threads(bench);
	}
	bench_stop_threads(bench);
	return ret;
}

/*
 * One run: one scope, once
 */

/* Submitters use only CPUs that unbound items may use, which spares isolated ones. */
static int bench_place_threads(struct bench *bench)
{
	unsigned int cpu;

	cpus_read_lock();
	cpumask_copy(bench->online, cpu_online_mask);
	cpus_read_unlock();

	if (!cpumask_and(bench->scratch, bench->online, bench->allowed)) {
		pr_err("no online CPU may run unbound items\n");
		return -ENXIO;
	}

	cpu = cpumask_first(bench->scratch);
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		bench->threads[i]->cpu = cpu;
		cpu = cpumask_next(cpu, bench->scratch);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(bench->scratch);
	}
	return 0;
}

static void bench_reset(struct bench *bench)
{
	memset(&bench->workers, 0, sizeof(bench->workers));
	memset(bench->hist, 0, sizeof(*bench->hist));

	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		thread->rounds = 0;
		thread->seen_rounds = 0;
		thread->seen_in_flight = 0;
		thread->stuck = 0;
		thread->lost = 0;
		thread->refused = 0;
		thread->bad_pod = false;
		atomic_set(&thread->twice, 0);
		atomic_set(&thread->outside, 0);
		memset(thread->hist, 0, sizeof(*thread->hist));
		for (unsigned int j = 0; j < thread->nr_items; j++)
			thread->items[j].state = ITEM_IDLE;
	}
}

/* After a flush every item has run. Those given up on are counted already. */
static unsigned int bench_count_lost(const struct bench_thread *thread)
{
	unsigned int lost = thread->lost;

	if (lost)
		return lost;
	for (unsigned int i = 0; i < thread->nr_items; i++)
		lost += READ_ONCE(thread->items[i].state) == ITEM_QUEUED;
	return lost;
}

static void bench_collect(struct bench *bench, struct bench_result *result)
{
	u64 begin = U64_MAX, end = 0;

	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		begin = min(begin, thread->begin);
		end = max(end, thread->end);
		result->lost += bench_count_lost(thread);
		result->refused += thread->refused;
		result->twice += atomic_read(&thread->twice);
		result->outside += atomic_read(&thread->outside);
		result->bad_pods += thread->bad_pod;
		wq_hist_merge(bench->hist, thread->hist);
	}
	result->elapsed = max_t(u64, end - begin, 1);
	result->items = bench->hist->total;
	result->nr_threads = bench->nr_threads;
	result->nr_workers = atomic_read(&bench->workers.nr);
}

/*
 * A CPU that comes or goes changes the pods during a run and moves submitters.
 * That is not the workqueue's fault, so the pods of such a run are not checked.
 * The callback runs before the scheduler moves anything off a CPU. A CPU on its
 * way up is in the online mask before the callback runs.
 */
static void bench_check_hotplug(struct bench *bench, struct bench_result *result,
				int events_before)
{
	result->hotplug = atomic_read(&bench_hotplug_events) - events_before;
	if (!result->hotplug && !cpumask_equal(bench->online, cpu_online_mask))
		result->hotplug = 1;
	if (result->hotplug) {
		result->outside = 0;
		result->bad_pods = 0;
	}
}

/* A pass that is interrupted does not wait for whole batches. */
static void bench_take_back(struct bench *bench)
{
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		struct bench_thread *thread = bench->threads[i];

		for (unsigned int j = 0; j < thread->nr_items; j++)
			cancel_work_sync(&thread->items[j].work);
	}
}

static int bench_measure(struct bench *bench, enum bench_scope actual,
			 struct bench_result *result)
{
	int events = atomic_read(&bench_hotplug_events);
	int ret;

	bench_reset(bench);
	ret = bench_place_threads(bench);
	if (ret)
		return ret;

	for (unsigned int i = 0; bench->judge && i < bench->nr_threads; i++) {
		ret = bench_find_pod(bench->threads[i], actual);
		if (ret)
			return ret;
	}

	ret = bench_run_threads(bench);
	if (ret)
		bench_take_back(bench);
	/* Late and repeated runs happen before this returns, and are counted. */
	flush_workqueue(bench->wq);
	if (ret)
		return ret;

	bench_collect(bench, result);
	bench_check_hotplug(bench, result, events);
	return 0;
}

/*
 * Report
 */

static u64 bench_violations(const struct bench_result *result)
{
	return (u64)result->lost + result->twice + result->outside +
	       result->refused + result->bad_pods;
}

static const char *bench_judged(const struct bench *bench,
				const struct bench_result *result)
{
	if (!bench->judge)
		return "no";
	return result->hotplug ? "hotplug" : "yes";
}

/* The keys are read by scripts/wqlab/bench/parse.py: add some, never rename one. */
static void bench_report(const struct bench *bench, enum bench_scope scope,
			 enum bench_scope actual, unsigned int repeat,
			 const struct bench_result *result)
{
	const struct bench_plan *plan = &bench->plan;
	u64 rate = div64_u64(result->items * NSEC_PER_SEC, result->elapsed);
	u64 p50 = wq_hist_quantile(bench->hist, 500);
	u64 p90 = wq_hist_quantile(bench->hist, 900);
	u64 p95 = wq_hist_quantile(bench->hist, 950);
	u64 p99 = wq_hist_quantile(bench->hist, 990);
	u64 mean = div64_u64(bench->hist->sum, max_t(u64, bench->hist->total, 1));
	u64 max = bench->hist->max;

	pr_info("%-11s %9llu items/s; queueing p50 %llu p90 %llu p95 %llu p99 %llu max %llu ns; %u kworkers\n",
		bench_scope_names[scope], rate, p50, p90, p95, p99, max,
		result->nr_workers);
	pr_info("result scope=%s actual=%s repeat=%u mode=%s strict=%d threads=%u in_flight=%u items=%llu elapsed_ns=%llu items_per_s=%llu mean_ns=%llu p50_ns=%llu p90_ns=%llu p95_ns=%llu p99_ns=%llu max_ns=%llu kworkers=%u lost=%u twice=%u outside=%u refused=%u bad_pods=%u judged=%s hotplug=%u clock=%s\n",
		bench_scope_names[scope], bench_scope_names[actual], repeat,
		plan->batch ? "batch" : "latency", plan->strict,
		result->nr_threads, plan->in_flight, result->items,
		result->elapsed, rate, mean, p50, p90, p95, p99, max,
		result->nr_workers, result->lost, result->twice,
		result->outside, result->refused, result->bad_pods,
		bench_judged(bench, result), result->hotplug, bench_clock);

	if (bench_violations(result))
		pr_err("%s, repeat %u: %u items lost, %u ran twice, %u ran outside their pod, %u refused, %u pods wrong\n",
		       bench_scope_names[scope], repeat, result->lost,
		       result->twice, result->outside, result->refused,
		       result->bad_pods);
}

static void bench_pass_over(struct bench *bench, enum bench_scope scope)
{
	if (bench->passed_over & BIT(scope))
		return;
	bench->passed_over |= BIT(scope);
	pr_info("this kernel has no scope %s: passed over\n", bench_scope_names[scope]);
}

static void bench_conclude(const struct bench *bench, int error)
{
	const char *status = "ok";

	if (error == -EINTR)
		status = "interrupted";
	else if (bench->violations)
		status = "violated";
	else if (error)
		status = "failed";

	pr_info("done status=%s runs=%u violations=%llu error=%d\n", status,
		bench->nr_runs, bench->violations, error);
}

/*
 * A pass: all scopes, all repeats
 */

static int bench_one_run(struct bench *bench, enum bench_scope scope, unsigned int repeat)
{
	struct bench_result result = {};
	enum bench_scope actual;
	int ret;

	ret = bench_enter_scope(scope, &actual);
	if (ret < 0)
		return ret;
	if (!ret) {
		bench_pass_over(bench, scope);
		return 0;
	}

	ret = bench_measure(bench, actual, &result);
	if (ret == -EINTR)
		pr_info("interrupted in scope %s, repeat %u\n",
			bench_scope_names[scope], repeat);
	if (ret)
		return ret;

	bench->nr_runs++;
	bench->violations += bench_violations(&result);
	bench_report(bench, scope, actual, repeat, &result);
	/* Once items are lost, further runs would only wait for more lost ones. */
	return result.lost ? -EPROTO : 0;
}

/* Scopes alternate inside a repeat, so a drift of the machine affects all of them. */
static int bench_all_runs(struct bench *bench)
{
	const struct bench_plan *plan = &bench->plan;
	int ret;

	for (unsigned int repeat = 1; repeat <= plan->repeats; repeat++) {
		unsigned int nr_runs = bench->nr_runs;

		for (unsigned int i = 0; i < plan->nr_scopes; i++) {
			ret = bench_one_run(bench, plan->scopes[i], repeat);
			if (ret)
				return ret;
		}
		if (bench->nr_runs > nr_runs)
			continue;
		if (!plan->all_scopes) {
			pr_err("this kernel has none of the scopes asked for\n");
			return -EOPNOTSUPP;
		}
		ret = bench_one_run(bench, BENCH_SCOPE_DEFAULT, repeat);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Histograms and batches can be larger than the largest block of the page allocator. If
 * there is not enough memory, the benchmark gives up and does not wake the OOM killer.
 */
static void *bench_zalloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL | __GFP_RETRY_MAYFAIL);
}

static struct bench_thread *bench_alloc_thread(struct bench *bench)
{
	unsigned int nr = 2 * bench->plan.in_flight;
	struct bench_thread *thread;

	thread = bench_zalloc(struct_size(thread, items, nr));
	if (!thread)
		return NULL;
	thread->hist = bench_zalloc(sizeof(*thread->hist));
	if (!thread->hist) {
		kvfree(thread);
		return NULL;
	}

	thread->bench = bench;
	thread->nr_items = nr;
	rcuwait_init(&thread->idle);
	init_completion(&thread->probed);
	INIT_WORK(&thread->probe, bench_probe_fn);
	for (unsigned int i = 0; i < nr; i++) {
		thread->items[i].owner = thread;
		INIT_WORK(&thread->items[i].work, bench_item_fn);
	}
	return thread;
}

static void bench_close(struct bench *bench)
{
	if (bench->wq)
		destroy_workqueue(bench->wq);
	for (unsigned int i = 0; bench->threads && i < bench->nr_threads; i++) {
		if (!bench->threads[i])
			break;
		kvfree(bench->threads[i]->hist);
		kvfree(bench->threads[i]);
	}
	kvfree(bench->threads);
	kvfree(bench->hist);
	free_cpumask_var(bench->scratch);
	free_cpumask_var(bench->online);
	free_cpumask_var(bench->allowed);
	kvfree(bench);
}

static int bench_alloc_threads(struct bench *bench)
{
	bench->nr_threads = bench->plan.threads;
	if (!bench->nr_threads) {
		cpumask_and(bench->scratch, cpu_online_mask, bench->allowed);
		bench->nr_threads = max(cpumask_weight(bench->scratch), 1U);
	}

	bench->threads = bench_zalloc(array_size(bench->nr_threads, sizeof(*bench->threads)));
	if (!bench->threads)
		return -ENOMEM;
	for (unsigned int i = 0; i < bench->nr_threads; i++) {
		bench->threads[i] = bench_alloc_thread(bench);
		if (!bench->threads[i])
			return -ENOMEM;
		if (signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void bench_read_allowed(struct bench *bench)
{
	char *buf = kmalloc(PAGE_SIZE, GFP_KERNEL);

	if (!buf || bench_read_file("/sys/devices/virtual/workqueue/cpumask", buf, PAGE_SIZE) ||
	    cpumask_parse(buf, bench->allowed))
		cpumask_copy(bench->allowed, cpu_possible_mask);
	kfree(buf);
}

static int bench_open_workqueue(struct bench *bench)
{
	char buf[16];
	int ret;

	bench->wq = alloc_workqueue(BENCH_WQ_NAME, WQ_UNBOUND | WQ_SYSFS,
				    bench->plan.max_active);
	if (!bench->wq) {
		pr_err("cannot create the workqueue\n");
		return -ENOMEM;
	}

	ret = bench_read_file(BENCH_WQ_DIR "max_active", buf, sizeof(buf));
	if (ret) {
		pr_err("cannot read " BENCH_WQ_DIR ": %pe; is sysfs mounted on /sys?\n",
		       ERR_PTR(ret));
		return ret;
	}
	return bench_set_strict(bench->plan.strict);
}

static int bench_setup(struct bench *bench)
{
	int ret;

	if (!zalloc_cpumask_var(&bench->allowed, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&bench->online, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&bench->scratch, GFP_KERNEL))
		return -ENOMEM;

	bench->hist = bench_zalloc(sizeof(*bench->hist));
	if (!bench->hist)
		return -ENOMEM;

	ret = bench_calibrate();
	if (ret)
		return ret;

	init_waitqueue_head(&bench->gate);
	init_waitqueue_head(&bench->done);
	bench->judge = bench_can_judge(&bench->plan);
	bench_read_allowed(bench);
	ret = bench_alloc_threads(bench);
	if (ret)
		return ret;
	return bench_open_workqueue(bench);
}

static int bench_count_hotplug(unsigned int cpu)
{
	atomic_inc(&bench_hotplug_events);
	return 0;
}

/* Returns 0, -EPROTO for a broken promise, or why the pass ended early. */
static int bench_pass(const struct bench_plan *plan)
{
	struct bench *bench;
	int state, ret;

	state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "test/workqueue:online",
					  bench_count_hotplug, bench_count_hotplug);
	if (state < 0)
		return state;

	ret = -ENOMEM;
	bench = bench_zalloc(sizeof(*bench));
	if (!bench)
		goto out;

	bench->plan = *plan;
	ret = bench_setup(bench);
	if (!ret)
		ret = bench_all_runs(bench);
	bench_conclude(bench, ret);
	if (!ret && bench->violations)
		ret = -EPROTO;
	bench_close(bench);
out:
	if (ret == -ENOMEM)
		pr_err("not enough memory\n");
	cpuhp_remove_state_nocalls(state);
	return ret;
}

/*
 * Starting a pass
 */

/*
 * All built-in code shares one parameter lock, and a pass takes long. The lock is
 * therefore dropped once the parameters are copied. The reference keeps the module
 * loaded until the pass is over.
 */
static int bench_set_run(const char *val, const struct kernel_param *kp)
{
	struct bench_plan plan;
	int ret;

	if (!READ_ONCE(bench_ready) || !mutex_trylock(&bench_lock))
		return -EBUSY;

	ret = -ENODEV;
	if (!try_module_get(THIS_MODULE))
		goto out;
	ret = bench_make_plan(&plan);
	if (!ret) {
		kernel_param_unlock(THIS_MODULE);
		ret = bench_pass(&plan);
		kernel_param_lock(THIS_MODULE);
	}
	module_put(THIS_MODULE);
out:
	mutex_unlock(&bench_lock);
	return ret;
}

static const struct kernel_param_ops bench_run_ops = {
	.set = bench_set_run,
};

module_param_cb(run, &bench_run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "write anything to start a pass (built in, or with keep=1)");

static int bench_first_pass(void)
{
	struct bench_plan plan;
	int ret;

	kernel_param_lock(THIS_MODULE);
	ret = bench_make_plan(&plan);
	kernel_param_unlock(THIS_MODULE);
	if (ret)
		return ret;

	mutex_lock(&bench_lock);
	ret = bench_pass(&plan);
	mutex_unlock(&bench_lock);
	return ret;
}

static int __init bench_init(void)
{
	if (__is_defined(MODULE)) {
		int ret = bench_first_pass();

		if (!keep)
			return ret ?: -ECANCELED;
		/* Broken promises are a result, and the module stays. */
		if (ret && ret != -EPROTO)
			return ret;
	}
	WRITE_ONCE(bench_ready, true);
	return 0;
}
late_initcall(bench_init);

static void __exit bench_exit(void)
{
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Benchmark and contract check of unbound workqueues");
MODULE_LICENSE("GPL");
