/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The benchmark module, test_workqueue: what its files share
 *
 * test_workqueue.c	the entry: passes: all scopes, all repeats
 * wqbench_params.c	parameters, and the plan of a pass
 * wqbench_setup.c	what lives as long as a pass
 * wqbench_scope.c	files in sysfs, the scope of the workqueue
 * wqbench_pod.c	where items may run
 * wqbench_run.c	one run
 * wqbench_thread.c	the threads that submit
 * wqbench_item.c	items, and the loop that queues them: what is timed
 * wqbench_floor.c	the same without a workqueue
 * wqbench_burn.c	items that use a CPU for a given time
 * wqbench_life.c	making, flushing, changing and destroying workqueues
 * wqbench_clock.c	ticks and nanoseconds
 * wqbench_report.c	the output
 */
#ifndef _LIB_WQBENCH_H
#define _LIB_WQBENCH_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/rcuwait.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "wq_compat.h"
#include "wq_hist.h"
#include "wq_tally.h"
#include "wq_ticker.h"

#define BENCH_WQ_NAME		"test_workqueue"
#define BENCH_WQ_DIR		"/sys/bus/workqueue/devices/" BENCH_WQ_NAME "/"
#define BENCH_WQ_PARAMS		"/sys/module/workqueue/parameters/"

#define BENCH_PROBE_NS		NSEC_PER_MSEC	/* between two items of a probe */

/* printk() cuts lines at about 1,000 characters. */
#define BENCH_LINE		900

/* The scope of the workqueue or, in the mode floor, how a thread and its partner exchange items. */
enum bench_scope {
	BENCH_SCOPE_DEFAULT,
	BENCH_SCOPE_CPU,
	BENCH_SCOPE_SMT,
	BENCH_SCOPE_CACHE,
	BENCH_SCOPE_CACHE_SHARD,
	BENCH_SCOPE_NUMA,
	BENCH_SCOPE_SYSTEM,
	BENCH_FLOOR_SAME,	/* both sleep, on the same CPU */
	BENCH_FLOOR_OTHER,	/* both sleep, on different CPUs */
	BENCH_FLOOR_LINE,	/* both spin, on different CPUs */
	NR_BENCH_SCOPES,
	NR_AFFN_SCOPES = BENCH_FLOOR_SAME,
};

enum bench_kind {
	BENCH_UNBOUND,
	BENCH_UNBOUND_HIGHPRI,
	BENCH_PERCPU,
	BENCH_RECLAIM,
	BENCH_HIGHPRI,
	BENCH_BH,
	BENCH_ORDERED,
	BENCH_NO_WQ,	/* the mode floor */
	NR_BENCH_KINDS,
};

enum bench_mode {
	BENCH_LATENCY,
	BENCH_BATCH,
	BENCH_BURST,
	BENCH_SPREAD,
	BENCH_MIXED,
	BENCH_ROAM,
	BENCH_LIMIT,
	BENCH_FLOOR,
	BENCH_LIFE,
	NR_BENCH_MODES,
};

/* What one pass does: the parameters, checked and copied when it starts. */
struct bench_plan {
	unsigned int	threads;	/* 0: one for each usable CPU */
	unsigned int	items;		/* per thread and run */
	unsigned int	in_flight;	/* per thread; in the mode life, workqueues */
	unsigned int	repeats;
	unsigned int	warmup;		/* per thread */
	unsigned int	max_active;
	unsigned int	timeout;	/* in seconds */
	unsigned int	sample;		/* the wait of one in this many items is recorded */
	unsigned int	burn_us;	/* time of an item that burns or sleeps */
	enum bench_kind	kind;
	enum bench_mode	mode;
	bool		strict;
	bool		quiet;		/* results do not go to the log */
	bool		leave;		/* the next pass frees the memory of this one */
	bool		in_rounds;	/* queue a round at once, measure rounds */
	bool		all_scopes;	/* no scope was asked for by name */
	unsigned int	nr_scopes;
	enum bench_scope scopes[NR_BENCH_SCOPES];
};

/* The pids of the kworkers seen in a run: a hash table with open addressing. */
#define WORKER_SET_BITS		13

struct worker_set {
	atomic_t	nr;
	atomic_t	pid[BIT(WORKER_SET_BITS)];
};

/* Durations. Each thread has a histogram for each duration that the mode measures. */
enum bench_figure {
	BENCH_CALL,	/* of queue_work(), for each item */
	BENCH_START,	/* from queueing until the item starts */
	BENCH_DONE,	/* from its start until the submitter knows that the whole round ran */
	BENCH_MAKESPAN,	/* of a round: from before the first queueing until all ran */
	BENCH_PROBE,	/* from queueing until an item of the probe starts */
	BENCH_CREATE,	/* of alloc_workqueue(); this and all below: mode life */
	BENCH_FLUSH,	/* of flush_workqueue(), while nothing is queued */
	BENCH_CHANGE,	/* of writing "nice" of a workqueue */
	BENCH_DESTROY,	/* of destroy_workqueue() */
	NR_BENCH_FIGURES,
};

/*
 * An item has a cache line of its own, which its worker writes anyway. Recording times there
 * touches no other line. The submitter reads @started after the item ran, and does the sums.
 */
struct bench_item {
	struct work_struct	work;
	struct bench_thread	*owner;
	atomic_t		owed;		/* set to 1 just before queue_work() */
	int			cpu;		/* where it started, if recorded */
	u64			queued_at;	/* in ticks; 0: the wait is not recorded */
	u64			started;	/* in ticks, written by the item if so */
} ____cacheline_aligned_in_smp;

/* What a thread and its partner share. Both write the line that begins at @token. */
struct bench_floor {
	struct task_struct	*partner;
	unsigned int		cpu;		/* of the partner */
	struct bench_item	*token ____cacheline_aligned_in_smp;	/* the item to run */
	unsigned int		word;		/* whose turn it is: see wqbench_floor.c */
	u64			started;	/* in ticks, if recorded */
};

struct bench_thread {
	struct bench		*bench;
	struct task_struct	*task;
	unsigned int		cpu;
	unsigned int		nr_items;	/* two sets of in_flight */
	struct wq_hist		*hist[NR_BENCH_FIGURES];

	/* Where its items may run; set before a run that is judged. */
	bool			bad_pod;
	struct cpumask		pod;
	struct cpumask		seen;
	struct work_struct	pod_work;
	struct completion	pod_seen;

	/* Written by the thread, read by the pass once the thread is gone. */
	u64			begin ____cacheline_aligned_in_smp;
	u64			end;
	unsigned int		refused;
	unsigned int		next_sample;	/* items until the next whose wait is recorded */
	unsigned int		at;		/* the CPU where it is, if it roams */
	unsigned int		moves;
	u64			nr_rounds;	/* whole rounds, whose time is recorded */
	u64			round_cpus;	/* CPUs where items started, summed over them */

	/* The pass reads @rounds now and then to detect a stuck thread. */
	unsigned int		rounds;		/* written by the thread */
	unsigned int		seen_rounds;
	unsigned int		seen_in_flight;
	unsigned int		stuck;		/* seconds without progress */
	unsigned int		lost;

	struct cpumask		in_round;	/* where the items of the last round started */
	struct cpumask		used;		/* and those of all rounds */

	/* Written by the workers. */
	atomic_t		in_flight ____cacheline_aligned_in_smp;
	atomic_t		twice;
	atomic_t		outside;
	struct rcuwait		idle;		/* for in_flight to reach zero */

	struct wq_ticker	probe ____cacheline_aligned_in_smp;	/* while it submits */
	struct bench_floor	floor;
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
	unsigned int	hotplug;	/* CPUs that came or went; if any, pods are not judged */
	unsigned int	cpus;		/* where items started in any round */
	u64		nr_rounds;
	u64		round_cpus;	/* CPUs of each round, summed up */
	u64		moves;
	u64		probes;
	u64		late;		/* ticks of a probe whose item still waited */
};

/* What a run in the mode life has found, beside durations. */
struct bench_life {
	unsigned int	count;		/* workqueues that existed at the same time */
	u64		bytes;		/* that each of them keeps */
};

/* Everything that lives as long as a pass. */
struct bench {
	struct bench_plan	plan;
	struct workqueue_struct	*wq;
	struct workqueue_struct	*probe_wq;
	unsigned long		burn_turns;	/* of the loop, that take burn_us */
	enum bench_scope	scope;		/* of this run */
	unsigned int		nr_threads;	/* in this run */
	unsigned int		max_threads;	/* in any run */
	struct bench_thread	**threads;
	struct wq_hist		*hist[NR_BENCH_FIGURES];	/* merged, for the report */
	char			line[BENCH_LINE];		/* of the report */
	unsigned int		line_len;
	struct worker_set	workers;

	cpumask_var_t		allowed;	/* CPUs that unbound items may use */
	cpumask_var_t		online;		/* when the run began */
	cpumask_var_t		usable;		/* in both masks above */
	cpumask_var_t		scratch;

	bool			judge;		/* check where items run */
	bool			stop;		/* set once, by the pass: leave soon */
	atomic_t		warming;	/* threads not at the gate yet, and 1 */
	atomic_t		active;		/* threads that still submit */
	wait_queue_head_t	gate;		/* for warming to reach zero */
	wait_queue_head_t	done;		/* for active to reach zero */

	unsigned int		nr_runs;
	u64			violations;
	unsigned long		passed_over;	/* bits of enum bench_scope */
};

/*
 * Clock
 *
 * The clock of user-mode Linux moves in steps of 256 ns, which is about as long as
 * the calls to be timed. UML can read the host's time stamp counter, like any
 * other user process, so it is used there. Elsewhere the clock in nanoseconds is used.
 */
#if defined(CONFIG_UML) && defined(__x86_64__)

#define BENCH_CLOCK		"tsc"

static inline u64 bench_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#else

#define BENCH_CLOCK		"ktime"

static inline u64 bench_ticks(void)
{
	return ktime_get_ns();
}

#endif

#define BENCH_TICK_SHIFT	20

extern u64 bench_tick_mult;	/* ns per tick << BENCH_TICK_SHIFT */

int bench_calibrate(void);

static inline u64 bench_ticks_to_ns(u64 before, u64 after)
{
	/* The cap is far beyond any call's duration, and lets the product fit. */
	u64 ticks = after > before ? min(after - before, BIT_ULL(42)) : 0;

	return ticks * bench_tick_mult >> BENCH_TICK_SHIFT;
}

extern bool bench_keep;
extern const char * const bench_scope_names[NR_BENCH_SCOPES];
extern const char * const bench_kind_names[NR_BENCH_KINDS];
extern const char * const bench_mode_names[NR_BENCH_MODES];
extern atomic_t bench_hotplug_events;

int bench_make_plan(struct bench_plan *plan);

static inline bool bench_has_wq(const struct bench_plan *plan)
{
	return plan->kind != BENCH_NO_WQ;
}

/* Workqueues of other kinds have no scopes: they are measured once, as "default". */
static inline bool bench_has_scopes(const struct bench_plan *plan)
{
	return plan->kind == BENCH_UNBOUND || plan->kind == BENCH_UNBOUND_HIGHPRI;
}

/* The next usable CPU; after the last one, the first. */
static inline unsigned int bench_next_cpu(const struct bench *bench, unsigned int cpu)
{
	cpu = cpumask_next(cpu, bench->usable);
	return cpu < nr_cpu_ids ? cpu : cpumask_first(bench->usable);
}

/* A figure that is not measured has no histogram. */
static inline bool bench_measures(const struct bench_plan *plan, enum bench_figure figure)
{
	if (plan->mode == BENCH_LIFE)
		return figure >= BENCH_CREATE &&
		       (figure != BENCH_CHANGE || bench_has_scopes(plan));
	if (figure == BENCH_MAKESPAN)
		return plan->in_rounds;
	if (figure >= BENCH_CREATE)
		return false;
	return figure != BENCH_PROBE || plan->mode == BENCH_MIXED;
}

/* An item runs on the CPU that queues it. */
static inline bool bench_is_percpu(const struct bench_plan *plan)
{
	return plan->kind == BENCH_PERCPU || plan->kind == BENCH_RECLAIM ||
	       plan->kind == BENCH_HIGHPRI || plan->kind == BENCH_BH;
}

int bench_read_text(const char *path, char *buf, size_t size);
int bench_read_file(const char *path, char *buf, size_t size);
int bench_write_file(const char *path, const char *text);
int bench_scope_by_name(const char *name);
int bench_enter_scope(enum bench_scope scope, enum bench_scope *actual);
int bench_set_strict(bool on);

void bench_pod_fn(struct work_struct *work);
int bench_find_pod(struct bench_thread *thread, enum bench_scope scope);
bool bench_can_judge(const struct bench_plan *plan);

void *bench_zalloc(size_t size);
struct workqueue_struct *bench_alloc_wq(const struct bench_plan *plan, unsigned int more);
int bench_setup(struct bench *bench);
void bench_close(struct bench *bench);

void bench_burn(unsigned long turns);
int bench_calibrate_burn(struct bench *bench);

/* Runs an item in place of a workqueue. */
static inline void bench_run_item(struct bench_item *item)
{
	item->work.func(&item->work);
}

bool bench_enter_floor(struct bench *bench, enum bench_scope scope);
void bench_place_partners(struct bench *bench);
int bench_create_partner(struct bench_thread *thread, unsigned int nr);
void bench_stop_partner(struct bench_thread *thread);
unsigned int bench_hand_over(struct bench_thread *thread, struct bench_item *item,
			     unsigned int next, bool timed);
bool bench_line_rounds(struct bench_thread *thread, unsigned int nr, bool timed);

work_func_t bench_item_function(const struct bench_plan *plan, unsigned int nr);
bool bench_rounds(struct bench_thread *thread, unsigned int nr, bool timed);

int bench_run_threads(struct bench *bench);
int bench_measure(struct bench *bench, enum bench_scope actual, struct bench_result *result);

int bench_life(struct bench *bench, struct bench_life *life);

u64 bench_violations(const struct bench_result *result);
void bench_report(struct bench *bench, enum bench_scope scope, enum bench_scope actual,
		  unsigned int repeat, const struct bench_result *result);
void bench_report_life(struct bench *bench, enum bench_scope actual, unsigned int repeat,
		       const struct bench_life *life);
void bench_pass_over(struct bench *bench, enum bench_scope scope);
void bench_forget(void);
int bench_show_last(char *buffer);
void bench_conclude(struct bench *bench, int error);

#endif /* _LIB_WQBENCH_H */
