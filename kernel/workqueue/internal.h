/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Concurrency-managed workqueue: the objects and who may touch them.
 *
 * A work item enters through queue.c, which finds the pool_workqueue (pwq) of
 * its workqueue on this CPU.  active.c says whether the item may run already, and
 * worklist.c links it.  kick.c chooses the worker to wake, run.c runs the item, and
 * concurrency.c keeps per-CPU pools at one running worker.  flush.c and cancel.c
 * wait for items, and claim.c takes items off their queues.  manager.c makes workers,
 * and cull.c ends them.  When no worker can be made, mayday.c calls a rescuer, rescuer.c runs
 * it, and cursor.c marks how far each has got on a worklist.  The hot parts of a file are in its
 * header: active.h for active.c, and so on.  attrs.c and affinity.c decide which pools serve an
 * unbound workqueue, and apply.c puts that into effect; own.c gives a CPU a pool of its own while
 * sharing costs something.  pwq.c ties workqueue and pool together.
 *
 * Files call only downwards; the Makefile lists them from the bottom up.  What a header has
 * inline counts as part of the file that calls it.  There are exceptions:
 * any file may call the optional ones, timers and items may have functions of a higher file,
 * and low files reach cancel.c through the fix-ups of debugobjects.c.
 *
 * Locks, outermost first:
 *
 *   cpus_read_lock
 *     wq_pool_mutex            lists and hashes of pools and workqueues, pods
 *       wq->mutex              one workqueue's pwqs, flushing, limits
 *       wq_pool_attach_mutex   which worker serves which pool, and where
 *         pool->lock           worklist, workers, pwqs of the pool; IRQ safe
 *           slots->lock        pwqs that wait for an active slot of a node
 *           wq_mayday_lock     pwqs that call for the rescuer
 *           kthread_worker->lock   the lists of those that free pwqs
 *
 * Two pool locks are never held together.  No worker is woken under pool->lock: kick_pool()
 * returns the task, and the caller wakes it after the unlock.  Some tasks are woken under it:
 * rescuers, the unlinker, flushers, and whoever waits for a manager to resign.
 *
 * Guards named beside the fields:
 *   I    constant once the object is visible
 *   L    pool->lock
 *   N    slots->lock, a node's share of max_active
 *   M    wq_mayday_lock
 *   W    wq->mutex
 *   P    wq_pool_mutex
 *   A    wq_pool_attach_mutex
 *   xR   written under x, read under x or RCU; interrupts off are as good as RCU
 *   xO   written under x with WRITE_ONCE(), read anywhere with READ_ONCE()
 *
 * Printing: printk() may call console drivers before it returns, and some of them
 * queue work.  If such a driver is called with pool->lock, slots->lock or wq_mayday_lock
 * held, it spins on that lock for ever.  A driver that modifies an item also spins for ever
 * if the code that prints owns PENDING of that item.  In such places, code therefore defers
 * its output with printk_deferred_enter() or WQ_WARN*().  The text goes to the log at once,
 * and to the consoles when interrupts are on again.  Tracepoints are not deferred: booted with
 * tp_printk, the kernel prints each enabled event at once.  workqueue_queue_work and
 * workqueue_activate_work are emitted with pool->lock held.  So are the events of
 * kthread workers, when a pwq dies.
 */
#ifndef _KERNEL_WORKQUEUE_CMWQ_H
#define _KERNEL_WORKQUEUE_CMWQ_H

#include <linux/bug.h>
#include <linux/cleanup.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/panic.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/rcuwait.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

#include "../workqueue_internal.h"
#include "compat.h"
#include "cursor.h"

/* what is printed is deferred: see "Printing" above */
DEFINE_LOCK_GUARD_0(printk_deferred, printk_deferred_enter(), printk_deferred_exit())

/* If @condition, do @warn and defer what it prints. */
#define WQ_WARN(condition, warn)		\
({						\
	bool __bad = !!(condition);		\
						\
	if (unlikely(__bad)) {			\
		guard(printk_deferred)();	\
		warn;				\
	}					\
	unlikely(__bad);			\
})
#define WQ_WARN_ON(condition)		WQ_WARN(condition, WARN_ON(true))
#define WQ_WARN_ON_ONCE(condition)	WQ_WARN(condition, WARN_ON_ONCE(true))
#define WQ_WARN_ONCE(condition, fmt...)	WQ_WARN(condition, WARN_ONCE(true, fmt))

enum worker_pool_flags {
	POOL_BH			= 1 << 0,	/* served by softirq */
	POOL_MANAGER_ACTIVE	= 1 << 1,	/* a worker makes workers */
	/*
	 * The pool's CPU cannot serve it: workers run elsewhere and are not
	 * concurrency managed.  Always set for unbound and BH pools.  Changed
	 * under both A and L, so either of them keeps it stable.
	 */
	POOL_DISASSOCIATED	= 1 << 2,
	POOL_BH_DRAINING	= 1 << 3,	/* a live CPU runs a dead one's items */
};

enum worker_flags {
	/* scripts for crash and gdb use these numbers */
	WORKER_REBOUND		= 0x100,	/* bound again since it last began to serve */
	WORKER_UNBOUND		= 0x080,	/* its pool is POOL_DISASSOCIATED */
	WORKER_CPU_INTENSIVE	= 0x040,	/* by flag, or it has run for long */
	WORKER_PREP		= 0x008,	/* between items */
	WORKER_IDLE		= 0x004,
	WORKER_DIE		= 0x002,

	/* any of these takes the worker out of pool->nr_running */
	WORKER_NOT_RUNNING	= WORKER_REBOUND | WORKER_UNBOUND |
				  WORKER_CPU_INTENSIVE | WORKER_PREP,
};

enum {
	NR_STD_WORKER_POOLS	= 2,		/* normal and highpri */
	HIGHPRI_NICE_LEVEL	= MIN_NICE,
	RESCUER_NICE_LEVEL	= MIN_NICE,
	RESCUER_BATCH		= 16,		/* items before other pools get a turn */
	UNBOUND_POOL_HASH_ORDER	= 6,
	BUSY_WORKER_HASH_ORDER	= 6,
	WQ_NAME_LEN		= 32,
	WORKER_ID_LEN		= WQ_NAME_LEN + sizeof("kworker/R-"),
	IDLE_WORKER_TIMEOUT	= 300 * HZ,
};

/*
 * struct worker_pool - a worklist and the workers that serve it
 *
 * Per-CPU pools are static and live for ever.  Unbound ones are hashed by
 * their attributes, counted by @refcnt and freed after a grace period, so that
 * a work item's last pool can be looked up by id under RCU.
 */
struct worker_pool {
	/* alone in its line: those who wait for it take the line away from whoever has it */
	raw_spinlock_t lock;

	/* one line: written for each item, by several CPUs if they share the pool */
	struct list_head worklist ____cacheline_aligned_in_smp; /* L: items ready, in order */
	unsigned short flags;			/* L; POOL_DISASSOCIATED: see there */
	short last_cpu;				/* L: queued last; or -1 */

	/*
	 * Workers of a per-CPU pool that run and are concurrency managed.
	 * Changed on the pool's CPU only: raised with preemption off, lowered
	 * under L.  Holders of L on any CPU may test it for zero, because whoever
	 * lowers it to zero takes L to do so.  That test uses READ_ONCE(), and
	 * wq_worker_running(), which raises it without L, uses WRITE_ONCE().
	 */
	int nr_running;

	int nr_idle;				/* L */
	int count_alone;			/* L: items that count as shared: see own.c */
	unsigned long last_progress_ts;		/* L: jiffies; the watchdog peeks */
	struct worker *last_woken_worker;	/* L: for dumps only */
	struct list_head idle_list;		/* L: the last to go idle comes first */
	/* L: workers that run an item, keyed by current_work */
	DECLARE_HASHTABLE(busy_hash, BUSY_WORKER_HASH_ORDER);

	/* read for each item, written seldom */
	int nr_workers;				/* L: rescuers not included; hotplug peeks */
	int cpu;				/* I: -1 for unbound pools */
	int own_cpu;				/* I: the only CPU that uses it, or -1: see own.c */
	int node;				/* I after boot: NUMA_NO_NODE if several */
	int id;					/* I: worker_pool_idr */
	unsigned long offq_data;		/* I: work->data of an item that left the pool */
	int refcnt;				/* P: pwqs of unbound pools */
	unsigned int pods_gen;			/* P: wq_pods_gen when @node was last found right */
	struct workqueue_attrs *attrs;		/* I */
	struct worker *manager;			/* L */
	struct hlist_node hash_node;		/* P: unbound_pool_hash */

	struct list_head workers;		/* A: rescuers at work included */
	struct ida worker_ida;			/* own lock */

	struct timer_list mayday_timer;		/* armed, moved: L; deleted: worker.c, pool.c */
	struct work_struct mayday_cursor;	/* L: how far the timer got on the worklist */
	struct timer_list idle_timer;		/* armed under L */
	struct work_struct idle_cull_work;

	struct rcu_head rcu;
	int drain_cpu;				/* L: the live CPU, if POOL_BH_DRAINING */
	struct worker_pool *drained;		/* L: BH: dead CPU's pool that the worker runs */

	/* used by the watchdog only */
	unsigned long seen_progress_ts;		/* last_progress_ts at its last look */
	unsigned long still_since;		/* no progress since, on its clock */
	bool cpu_stall;
#ifdef CONFIG_PREEMPT_RT
	spinlock_t cb_lock;			/* held while the BH worker runs items */
	struct task_struct *cb_owner;		/* who runs them; others only compare it */
#endif
} ____cacheline_aligned_in_smp;			/* a CPU's two pools are one array */

/* What is counted per pwq; tools/workqueue/wq_monitor.py shows it. */
enum pool_workqueue_stats {
	PWQ_STAT_STARTED,	/* items that began to run */
	PWQ_STAT_COMPLETED,	/* items whose function returned */
	PWQ_STAT_CPU_TIME,	/* us of CPU time, by tick */
	PWQ_STAT_CPU_INTENSIVE,	/* items found to hog their CPU */
	PWQ_STAT_CM_WAKEUP,	/* workers woken because another slept */
	PWQ_STAT_REPATRIATED,	/* workers woken back into their pod */
	PWQ_STAT_MAYDAY,	/* calls for the rescuer */
	PWQ_STAT_RESCUED,	/* items the rescuer took */
	PWQ_STAT_CANCELLED,	/* items taken off before they ran */
	PWQ_STAT_BARRIERS,	/* flush barriers queued; they start and complete, too */
	PWQ_STAT_BARRIERS_DONE,	/* those of them that completed */

	PWQ_NR_STATS,
};

/* what the watchdog knows of a limit that holds items back; only held.c uses it */
struct wq_held_watch {
	unsigned long moves;	/* what limit_nr_moves() said at its last look */
	unsigned long since;	/* the same since, on its clock */
	unsigned long looked;	/* when it last found items held back */
	bool reported;
};

/*
 * struct pool_workqueue - one workqueue's share of one pool
 *
 * work->data of a queued item points here; the low WORK_STRUCT_PWQ_SHIFT bits
 * hold flags and colour, hence the alignment.
 *
 * @refcnt counts the entries of workqueue_struct that name the pwq (one for each
 * CPU, one for the default), every item from queueing to completion, a call for the
 * rescuer, the own pwqs whose @pod it is, and the marker that unplugs it.  At zero
 * the pwq is dead, and queueing looks for its successor.
 *
 * For each item, submitters and workers may write the fields marked L, and read those marked I.
 */
struct pool_workqueue {
	/* one line: read for each item, also without L, and written seldom */
	struct worker_pool *pool;		/* I */
	struct workqueue_struct *wq;		/* I */
	struct wq_node_nr_active *slots;	/* I: that its items use; NULL unless unbound */
	struct pool_workqueue *pod;		/* I once linked: of own ones, with a reference */
	short own_cpu;				/* I once linked: who queues, or -1: see own.c */
	short nr_entries;			/* WO: that name it, or own ones for it */

	/* one line: written for each item, by several CPUs if they share the pwq */
	struct list_head inactive_works ____cacheline_aligned_in_smp; /* L: held back, in order */
	int refcnt;				/* L */
	int nr_active;				/* L: items with a slot, running ones, too */
	s8 work_color;				/* L: colour of new items */
	s8 flush_color;				/* L: colour a flusher waits for, or -1 */
	/*
	 * L: nothing may become active yet.  If the workqueue is ordered, items of an older pwq
	 * are unfinished.  If not, older items of this CPU may not have started: see own.c, which
	 * also looks without L, as it never becomes true again.
	 */
	bool plugged;
	bool holds_marker;			/* L: some may be on @inactive_works: see own.c */
	int nr_ready;				/* L: items with a slot on the worklist */
	/* L: unfinished items by colour; if nobody flushes, all have the first one */
	int nr_in_flight[WORK_NR_COLORS];

	/* written if there are spare slots, or if items are held back */
	atomic_t nr_spare;			/* spare slots: see spare.c; L or N */
	int nr_scheduled;			/* L: items with a slot on worker->scheduled */
	u64 turn_ts;				/* L: when the turn began, in ns: see active.c */

	struct list_head pwqs_node;		/* WR: wq->pwqs, oldest first */
	struct list_head pending_node;		/* N: slots->pending_pwqs; L: whether listed */
	struct list_head spare_node;		/* N: slots->spare_pwqs; L, too, to add */
	struct list_head mayday_node;		/* M: wq->maydays */
	struct work_struct mayday_cursor;	/* L: on the worklist, before the pwq's items */

	/* of a CPU's own pwq: see own.c */
	struct list_head own_node;		/* P: own_pwqs, while an entry names the pwq */
	struct work_struct own_marker;		/* unplugs the pwq */
	bool marker_released;			/* it is not held back any more; L of the old pwq */
	int nr_granted;				/* L: slots for what it holds back while plugged */
	u64 own_started;			/* P: items that had started at the last look */

	u64 stats[PWQ_NR_STATS];		/* L, but CPU_TIME: racy on purpose */
	struct wq_held_watch watch;		/* unless it has slots */
	unsigned long longest_run;		/* jiffies; under L, and by ticks as CPU_TIME */

	/* for a dead pwq: see reaper.c */
	struct llist_node release_node;
	bool was_last;				/* no other pwq was linked; cold, so not above */
	struct rcu_head rcu;
} __aligned(1 << WORK_STRUCT_PWQ_SHIFT);

/*
 * struct wq_node_nr_active - an unbound workqueue's active items on one node
 *
 * See active.c for the protocol between @nr and @pending_pwqs.  Each item reads the first line,
 * which is written seldom, and @nr.
 */
struct wq_node_nr_active {
	int max;				/* WO: number of slots */
	int max_spare;				/* WO: limit on the spare ones of each CPU */
	struct wq_held_watch watch;

	atomic_t nr ____cacheline_aligned_in_smp; /* slots in use, and spare ones */

	raw_spinlock_t lock ____cacheline_aligned_in_smp; /* nests in pool->lock */
	struct list_head pending_pwqs;		/* N: parked pwqs: see active.c */
	struct list_head spare_pwqs;		/* N: pwqs with spare slots: see spare.c */
} ____cacheline_aligned_in_smp;			/* for which the allocator must not split a line */

/* what is kept of pwqs that are gone */
struct wq_counts {
	u64 stats[PWQ_NR_STATS];
	unsigned long longest_run;		/* jiffies */
};

struct wq_flusher;
struct wq_device;
struct wq_latency;

/*
 * struct workqueue_struct - where users queue
 */
struct workqueue_struct {
	/* one line of 64 bytes: read whenever an item is queued or starts, written seldom */
	unsigned int flags;			/* WO: __WQ_*; I: WQ_* */
	int max_active;				/* WO: in force; 0 when frozen */
	struct pool_workqueue __rcu * __percpu *cpu_pwq; /* entries: see dfl_pwq */
	/* P and W for writes; either or RCU for reads; NULL for per-CPU ones */
	struct pool_workqueue __rcu *dfl_pwq;
	char name[WQ_NAME_LEN];			/* I */
	union {
		struct workqueue_attrs *unbound_attrs;	/* P and W: as the user asked */
		struct workqueue_attrs *attrs;	/* the name that some debuggers read */
	};

	/* written by whoever flushes, changes or destroys the workqueue, or makes a pwq */
	struct mutex mutex;
	struct list_head pwqs;			/* WR: every linked pwq */
	struct list_head list;			/* PR: workqueues */

	int min_active;				/* WO: in force */
	int saved_max_active;			/* WO: as the user asked */
	int saved_min_active;			/* W: as the user asked */

	/* flush.c explains these */
	int work_color;				/* W: colour of new items */
	int flush_color;			/* W: oldest colour still flushed */
	atomic_t nr_pwqs_to_flush;		/* pwqs with items of flush_color */
	int nr_drainers;			/* W */
	struct wq_flusher *first_flusher;	/* W; fixed while pwqs are armed, else stale */
	struct list_head flushers;		/* W: have a colour, oldest first */
	struct list_head flusher_overflow;	/* W: wait for a free colour */

	struct worker *rescuer;			/* P and M for writes; either for reads */
	struct list_head maydays;		/* M: pwqs that need the rescuer */

#ifdef CONFIG_DEBUG_FS
	struct wq_counts gone;			/* W: sum over the pwqs that were unlinked */
	struct wq_latency __percpu *latency;	/* P for writes: see latency.h */
#endif
#ifdef CONFIG_SYSFS
	struct wq_device *wq_dev;		/* for its creator and destroyer only */
#endif
#ifdef CONFIG_LOCKDEP
	char *lock_name;			/* I: NULL if the map is the caller's */
	struct lock_class_key key;
	struct lockdep_map __lockdep_map;
	struct lockdep_map *lockdep_map;	/* I */
#endif
	struct rcu_head rcu;
	struct wq_node_nr_active *node_nr_active[]; /* I: by node, then NO_NODE */
};

/*
 * struct wq_pod_type - how one affinity scope divides the possible CPUs
 *
 * All guarded by P.
 */
struct wq_pod_type {
	int nr_pods;
	int *cpu_pod;				/* CPU to pod; -1: not possible */
	int *pod_node;				/* pod to node, or NUMA_NO_NODE */
	cpumask_var_t *pod_cpus;		/* pod to CPUs */
};

/* state.c */
extern struct mutex wq_pool_mutex;
extern struct mutex wq_pool_attach_mutex;
extern raw_spinlock_t wq_mayday_lock;
extern struct list_head workqueues;		/* PR */
extern bool wq_online;				/* I after boot: kthreads exist */
extern bool workqueue_freezing;			/* PO */
extern struct workqueue_struct *own_pools_wq;	/* I after boot: runs own_pools_work */
/* P; active.c reads it without P, so writers call wq_update_node_max_active() afterwards */
extern cpumask_var_t wq_online_cpumask;
/* P and A for writes, either for reads; queue.c and mayday.c may see a change half done */
extern cpumask_var_t wq_unbound_cpumask;
extern cpumask_var_t wq_requested_unbound_cpumask; /* P: as the user asked */
extern cpumask_var_t wq_isolated_cpumask;	/* P: to be kept free of unbound work */

#include "data.h"

/* boot cannot go on if this fails */
static inline void __init wq_boot_needs(bool ok)
{
	if (!ok)
		panic("workqueue: not enough memory to boot\n");
}

/* debugobjects.c */
#ifdef CONFIG_DEBUG_OBJECTS_WORK
void debug_work_init(bool (*cancel)(struct work_struct *work));
void debug_work_activate(struct work_struct *work);
void debug_work_deactivate(struct work_struct *work);
#else
static inline void debug_work_init(bool (*cancel)(struct work_struct *work)) { }
static inline void debug_work_activate(struct work_struct *work) { }
static inline void debug_work_deactivate(struct work_struct *work) { }
#endif

/* kick.c */
struct task_struct *pool_pick_worker(struct worker_pool *pool);
void bh_pool_init(struct worker_pool *pool, int highpri);

/* mayday.c */
void send_mayday(struct pool_workqueue *pwq);
void rescuer_follows_slot(struct pool_workqueue *pwq);
void pool_mayday_timeout(struct timer_list *timer);
void pool_mayday_arm(struct worker_pool *pool);

/* pool.c */
extern struct idr worker_pool_idr;		/* PR */
DECLARE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], cpu_worker_pools);
DECLARE_PER_CPU_SHARED_ALIGNED(struct worker_pool [NR_STD_WORKER_POOLS], bh_worker_pools);
int init_worker_pool(struct worker_pool *pool);
int worker_pool_assign_id(struct worker_pool *pool);
struct worker_pool *get_unbound_pool(const struct workqueue_attrs *attrs);
struct worker_pool *get_own_pool(struct worker_pool *shared, int cpu);
void put_unbound_pool(struct worker_pool *pool);
int unbound_pools_start(void);

static inline bool is_percpu_pool(const struct worker_pool *pool)
{
	return pool->cpu >= 0;
}

static inline bool bh_is_highpri(const struct worker_pool *pool)
{
	return pool->attrs->nice == HIGHPRI_NICE_LEVEL;
}

/* work waits and no managed worker is running; L */
static inline bool need_more_worker(const struct worker_pool *pool)
{
	/* a waking worker raises nr_running without L: at worst we wake one too many */
	return !list_empty(&pool->worklist) && !READ_ONCE(pool->nr_running);
}

/**
 * kick_pool - see to it that waiting work gets a worker
 * @pool: the pool, locked
 *
 * Return: the task to wake after dropping the lock with interrupts still off,
 * see pool_unlock_wake(), or %NULL.
 */
static inline struct task_struct *kick_pool(struct worker_pool *pool)
{
	lockdep_assert_held(&pool->lock);

	return need_more_worker(pool) ? pool_pick_worker(pool) : NULL;
}

/* a worker that has just run an item should go on; L */
static inline bool keep_working(const struct worker_pool *pool)
{
	return !list_empty(&pool->worklist) && pool->nr_running <= 1;
}

/* work waits and there is nobody to wake; L */
static inline bool need_to_create_worker(const struct worker_pool *pool)
{
	return need_more_worker(pool) && !pool->nr_idle;
}

/* are more than two workers idle, and too many compared with the busy ones?  L */
static inline bool too_many_workers(const struct worker_pool *pool)
{
	int idle = pool->nr_idle + !!pool->manager;	/* the manager will be idle again soon */
	int busy = pool->nr_workers - idle;

	return idle > 2 && 4 * (idle - 2) >= busy;
}

/* may several CPUs queue on the pool as a matter of course? */
static inline bool pool_can_be_shared(const struct worker_pool *pool)
{
	return !is_percpu_pool(pool) && pool->own_cpu < 0 &&
	       cpumask_weight(pool->attrs->__pod_cpumask) > 1;
}

/* the node for the memory of a pool */
static inline int pool_mem_node(const struct worker_pool *pool)
{
	return pool->own_cpu < 0 ? pool->node : cpu_to_node(pool->own_cpu);
}

/* the CPUs on which the pool's workers may run */
static inline const struct cpumask *pool_allowed_cpus(const struct worker_pool *pool)
{
	if (!is_percpu_pool(pool) && pool->attrs->affn_strict)
		return pool->attrs->__pod_cpumask;
	return pool->attrs->cpumask;
}

/*
 * Drop the lock first, then wake the task that kick_pool() returned.  Interrupts stay off
 * in between, so no preemption delays the wake-up, and RCU keeps the task in memory.
 */
static inline void pool_unlock_wake(struct worker_pool *pool,
				    struct task_struct *task)
	__releases(&pool->lock)
{
	raw_spin_unlock(&pool->lock);
	if (task)
		wake_up_process(task);
}

static inline void pool_unlock_wake_irq(struct worker_pool *pool,
					struct task_struct *task)
	__releases(&pool->lock)
{
	if (!task) {
		raw_spin_unlock_irq(&pool->lock);
		return;
	}
	/* enabling interrupts does not reschedule, but enabling preemption does */
	preempt_disable();
	pool_unlock_wake(pool, task);
	local_irq_enable();
	preempt_enable();
}

/* the normal (0) or highpri (1) pools of a possible CPU */
static inline struct worker_pool *cpu_pool(int cpu, int highpri)
{
	return per_cpu_ptr(cpu_worker_pools, cpu) + highpri;
}

static inline struct worker_pool *bh_pool(int cpu, int highpri)
{
	return per_cpu_ptr(bh_worker_pools, cpu) + highpri;
}

/*
 * Is the calling softirq the one that serves a pool of this CPU, if any does?  Softirqs of a CPU
 * never run inside each other, but with PREEMPT_RT they are tasks that preempt each other.
 */
static inline bool bh_is_served_here(const struct worker_pool *pool)
{
#ifdef CONFIG_PREEMPT_RT
	return READ_ONCE(pool->cb_owner) == current;
#else
	return true;
#endif
}

/**
 * current_worker - the worker whose item is calling
 *
 * A softirq has no task of its own: the worker is that of a BH pool of this CPU, or of the dead
 * CPU's pool that this CPU drains.  An interrupt on top of an item is not the item, be it one of
 * a thread or of a softirq.
 *
 * Context: any.
 * Return: the worker, or %NULL.
 */
static inline struct worker *current_worker(void)
{
	int i;

	if (in_nmi() || in_hardirq() || !in_serving_softirq())
		return current_wq_worker();

	for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
		struct worker_pool *pool = bh_pool(raw_smp_processor_id(), i);
		struct worker *worker;

		if (!bh_is_served_here(pool))
			continue;
		/* only the softirq itself changes this, and the worker's item */
		if (pool->drained)
			pool = pool->drained;
		worker = list_first_entry_or_null(&pool->workers, struct worker, node);
		if (worker && worker->current_work)
			return worker;
	}
	return NULL;
}

/* all pools; P or RCU */
#define for_each_pool(pool, id)						\
	idr_for_each_entry(&worker_pool_idr, pool, id)

/* workers attached to a pool; A */
#define for_each_pool_worker(worker, pool)				\
	list_for_each_entry(worker, &(pool)->workers, node)

static inline struct list_head *wq_pwqs(struct workqueue_struct *wq)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held() && !lockdep_is_held(&wq->mutex),
			 "neither wq->mutex nor RCU protects wq->pwqs");
	return &wq->pwqs;
}

/* pwqs of a workqueue; W or RCU, as wq_pwqs() checks */
#define for_each_pwq(pwq, wq)						\
	list_for_each_entry_rcu(pwq, wq_pwqs(wq), pwqs_node, true)

/* attach.c */
struct worker *alloc_worker(int node);
void worker_attach_to_pool(struct worker *worker, struct worker_pool *pool);
void detach_worker(struct worker *worker);
void worker_detach_from_pool(struct worker *worker);
bool worker_set_cpus(struct worker *worker, const struct cpumask *cpus);
void unbind_worker(struct worker *worker);
void set_pf_worker(bool is_worker);
int format_worker_id(char *buf, size_t size, const struct worker *worker,
		     const struct worker_pool *pool);

/* worker.c */
extern struct rcuwait manager_wait;	/* pool_kill_workers() waits for managers */
struct worker *create_worker(struct worker_pool *pool);

/* concurrency.c */
/* a function that ran for long */
struct wq_hog {
	work_func_t func;
	u64 times;
	u64 cpu_us;
	u64 longest_us;				/* without a sleep */
	char wq_name[WQ_NAME_LEN];		/* where it did so last */
};

bool wq_get_hog(unsigned int nr, struct wq_hog *copy);
void wq_cpu_intensive_thresh_init(void);

/* active.c */
int wq_clamp_max_active(int max_active, const char *name);
void wq_adjust_max_active(struct workqueue_struct *wq);
void wq_update_node_max_active(struct workqueue_struct *wq);
bool wq_has_slots_taken(struct workqueue_struct *wq);
int wq_alloc_slots(struct workqueue_struct *wq);
void wq_free_slots(struct workqueue_struct *wq);
void pwq_unplug(struct pool_workqueue *pwq);

/* spare.c */
void pwq_leave_slots(struct pool_workqueue *pwq);

/* pwq.c */
struct pool_workqueue *pwq_make(struct workqueue_struct *wq,
				struct worker_pool *pool);
void pwq_free_unused(struct pool_workqueue *pwq);
void link_pwq(struct pool_workqueue *pwq);
void put_pwq_unlocked(struct pool_workqueue *pwq);
void pwq_cache_init(void);
extern struct llist_head dead_pwqs;
void pwq_set_unlinker(struct kthread_worker *unlinker, struct kthread_work *work);

/* reaper.c */
void wq_counts_add(struct wq_counts *sum, struct pool_workqueue *pwq);
void pwq_reaper_start(void);

/*
 * Does a workqueue with these flags queue in one place only, the default pwq?  Some callers give a
 * per-CPU workqueue __WQ_ORDERED.  Nobody may change its limit, but its CPUs queue as usual.
 */
static inline bool wq_is_ordered(unsigned int flags)
{
	return unlikely(flags & __WQ_ORDERED) && (flags & WQ_UNBOUND);
}

/* the slots of an unbound workqueue for pools of @node, or for those that span nodes */
static inline struct wq_node_nr_active *wq_node_nr_active(struct workqueue_struct *wq, int node)
{
	return wq->node_nr_active[node == NUMA_NO_NODE ? nr_node_ids : node];
}

/* where a workqueue keeps the pwq of a possible CPU, or for -1 the default pwq */
static inline struct pool_workqueue __rcu **
wq_pwq_ptr(struct workqueue_struct *wq, int cpu)
{
	return cpu < 0 ? &wq->dfl_pwq : per_cpu_ptr(wq->cpu_pwq, cpu);
}

/* the pwq of a CPU, or for -1 the default one; NULL if there never was one; P or W */
static inline struct pool_workqueue *wq_pwq(struct workqueue_struct *wq, int cpu)
{
	return rcu_dereference_protected(*wq_pwq_ptr(wq, cpu),
					 lockdep_is_held(&wq_pool_mutex) ||
					 lockdep_is_held(&wq->mutex));
}

/* take a reference to a live pwq; L */
static inline void get_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);
	WQ_WARN_ON_ONCE(pwq->refcnt <= 0);
	pwq->refcnt++;
}

/* @nr more entries, or entries of own pwqs, name the pwq; W */
static inline void pwq_add_entries(struct pool_workqueue *pwq, int nr)
{
	WRITE_ONCE(pwq->nr_entries, pwq->nr_entries + nr);
}

/* how many items and barriers are queued, held back or running; L */
static inline int pwq_nr_unfinished(const struct pool_workqueue *pwq)
{
	int color, nr = 0;

	for (color = 0; color < WORK_NR_COLORS; color++)
		nr += pwq->nr_in_flight[color];
	return nr;
}

static inline bool pwq_is_empty(const struct pool_workqueue *pwq)
{
	return !pwq_nr_unfinished(pwq);
}

/* queue.c */
void wq_set_own_work(struct work_struct *work);
extern unsigned int wq_own_pools;
enum { OWN_PWQ, OWN_POOL, OWN_NR_KINDS };
DECLARE_PER_CPU(struct workqueue_struct * [OWN_NR_KINDS], wq_wants_own);
DECLARE_PER_CPU(struct workqueue_struct *, wq_sharing_timed);	/* for KUnit */

/* claim.c */
#define WORK_CANCEL_DELAYED	1		/* may sit on a delayed_work's timer */
bool work_grab_pending(struct work_struct *work, u32 cflags, unsigned long *irq_flags);

/* flush.c */
bool __flush_work(struct work_struct *work, bool from_cancel);

/* rescuer.c */
int init_rescuer(struct workqueue_struct *wq);
void rescuer_destroy(struct workqueue_struct *wq);

/* bh.c */
void bh_wait_running(struct worker_pool *pool);

/* attrs.c */
extern struct wq_pod_type wq_pod_types[WQ_AFFN_NR_TYPES];
extern unsigned int wq_pods_gen;		/* P: changes when pods are replaced */
extern enum wq_affn_scope wq_affn_dfl;		/* PO */
extern const char * const wq_affn_names[WQ_AFFN_NR_TYPES];
extern bool wq_topo_initialized;			/* I after boot */
int parse_affn_scope(const char *name);
void copy_workqueue_attrs(struct workqueue_attrs *to, const struct workqueue_attrs *from);
void wqattrs_clear_for_pool(struct workqueue_attrs *attrs);
u32 wqattrs_hash(const struct workqueue_attrs *attrs);
bool wqattrs_equal(const struct workqueue_attrs *a, const struct workqueue_attrs *b);
void wqattrs_actualize_cpumask(struct workqueue_attrs *attrs, const struct cpumask *unbound);
bool attrs_set_pod(struct workqueue_attrs *attrs, const struct cpumask *pod);
const struct wq_pod_type *wqattrs_pod_type(const struct workqueue_attrs *attrs);

/* deputy.c */
/*
 * wq_deputy: the CPU that runs per-CPU work of this CPU, while workqueue.offload_isolated is set;
 * this CPU itself unless it is isolated.  Written under P, read elsewhere with READ_ONCE().
 */
DECLARE_PER_CPU_READ_MOSTLY(int, wq_deputy);
DECLARE_STATIC_KEY_FALSE(wq_offload_isolated);
void deputies_update(void);

/* apply.c */
int apply_workqueue_attrs_locked(struct workqueue_struct *wq,
				 const struct workqueue_attrs *attrs);
int wqs_reapply_attrs(bool (*match)(struct workqueue_struct *wq),
		      const struct cpumask *unbound_cpumask);
void unbound_wq_update_pwq(struct workqueue_struct *wq, int cpu);
int workqueue_set_unbound_cpumask(const struct cpumask *cpumask);
int wq_follow_housekeeping(const struct cpumask *hk);
void apply_init_early(void);

/* own.c */
extern struct work_struct own_pools_work;	/* gives the CPUs that ask their own pools */
void own_pwqs_forget(struct workqueue_struct *wq);

/* affinity.c */
extern unsigned int wq_cache_shard_size;	/* P: cores */
void affinity_init_early(void);
void affinity_cpu_online(void);
int affinity_reshard(unsigned int size);
void affinity_cpu_offline(int cpu);

/* create.c */
__printf(1, 0)
struct workqueue_struct *__alloc_workqueue(const char *fmt, unsigned int flags,
					   int max_active, va_list args,
					   struct lockdep_map *map);
void wq_release(struct workqueue_struct *wq);
extern bool wq_power_efficient;			/* I after boot */

/* sysfs.c */
#ifdef CONFIG_SYSFS
void workqueue_sysfs_unregister(struct workqueue_struct *wq);
#else
static inline void workqueue_sysfs_unregister(struct workqueue_struct *wq) { }
#endif

/* report.c */
void show_pwq(struct pool_workqueue *pwq);		/* L */

/* watchdog.c */
#ifdef CONFIG_WQ_WATCHDOG
void wq_watchdog_init(void);
#else
static inline void wq_watchdog_init(void) { }
#endif

#endif /* _KERNEL_WORKQUEUE_CMWQ_H */
