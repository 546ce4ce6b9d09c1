/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Torture test for workqueues: what its files share.
 *
 *   wqtorture_main.c	parameters, threads, begin and end
 *   wqtorture_slot.c	the workqueues, one of each kind; destroys and recreates them
 *   wqtorture_item.c	items that all actors share, and their accounts
 *   wqtorture_token.c	items that are queued once and free themselves
 *   wqtorture_ops.c	the writers: operations that the API allows, at random
 *   wqtorture_irq.c	random operations from softirq and hardirq
 *   wqtorture_limit.c	checks of the exact value of max_active
 *   wqtorture_order.c	checks of the order in which items of a CPU start
 *   wqtorture_chaos.c	attributes, masks, CPUs, memory
 *   wqtorture_threads.c	failing and slow creation of threads
 *   wqtorture_hold.c	softirq storms, lost CPUs, a stuck item
 *   wqtorture_freeze.c	freezing
 *   wqtorture_file.c	small files in sysfs and procfs
 *   wqtorture_report.c	violations, statistics, stuck actors
 *
 * The test keeps its own counts and time stamps. It never asks the workqueue for them.
 */
#ifndef _LIB_WQTORTURE_H
#define _LIB_WQTORTURE_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "wq_compat.h"
#include "wq_tally.h"
#include "wqtorture_conduct.h"

#define WQT_ITEMS	16	/* shared items of each workqueue */

/* What is counted. */
enum wqt_stat {
	WQT_QUEUE,		/* calls of queue_work() or queue_work_on() that returned true */
	WQT_REFUSED,		/* calls of these or of delayed variants that returned false */
	WQT_DELAYED,
	WQT_MOD,
	WQT_CANCEL,
	WQT_CANCEL_SYNC,
	WQT_DISABLE,
	WQT_FLUSH_WORK,
	WQT_FLUSH_WQ,
	WQT_DRAIN,
	WQT_DESTROY,
	WQT_TOKEN,		/* items that are queued once */
	WQT_RCU,
	WQT_STACK,
	WQT_MOVED,		/* timers moved by their owner */
	WQT_LIMIT,		/* rounds of wqtorture_limit.c */
	WQT_SOFTIRQ,
	WQT_HARDIRQ,
	WQT_RUN,		/* functions that ran in threads */
	WQT_RUN_BH,		/* ... in softirqs */
	WQT_CPU_CHECKED,	/* runs whose CPU was predicted */
	WQT_POD_CHECKED,
	WQT_ORDER_CHECKED,
	WQT_RCU_CHECKED,
	WQT_ATTRS,		/* successful changes */
	WQT_ATTRS_FAILED,
	WQT_MASK,
	WQT_SHARD,
	WQT_MAX_ACTIVE,
	WQT_CPU_DOWN,
	WQT_CPU_UP,
	WQT_FAMINE,		/* periods in which no thread could be created */
	WQT_RESCUED,		/* items that ran in these periods */
	WQT_SLOW,		/* periods in which creating a thread took long */
	WQT_SLOW_MS,		/* ... total time without a new thread */
	WQT_SLOW_RESCUED,	/* items that ran before a thread was created */
	WQT_SLOW_VAIN,		/* periods that prove nothing, see rescue_while_slow() */
	WQT_SQUEEZE,
	WQT_FREEZE,
	WQT_FROZEN_CHECKED,	/* runs of items that were queued while frozen */
	WQT_STORM,
	WQT_STORM_TASKLET,
	WQT_LOST_CPU,
	WQT_LOST_MS,
	WQT_HELD,		/* items delayed by a storm, a lost CPU or a stuck item */
	WQT_STUCK,
	WQT_ON_DYING,		/* queued for a CPU that is going down */
	WQT_ON_OFFLINE,
	WQT_START_CHECKED,
	WQT_START_SWAPPED,	/* started out of order where several may start at once */
	WQT_NR_STATS,
};

/* What must not happen. */
enum wqt_wrong {
	WQT_LOST,		/* queued, but neither run nor cancelled */
	WQT_EXTRA,		/* run without having been queued */
	WQT_OVERLAP,		/* two runs of one item at once */
	WQT_WRONG_CONTEXT,
	WQT_WRONG_CPU,
	WQT_OUT_OF_POD,
	WQT_ORDER,
	WQT_OVER_LIMIT,		/* more than max_active ran */
	WQT_UNDER_LIMIT,	/* fewer, with work waiting */
	WQT_FLUSH_EARLY,	/* flush_work() */
	WQT_FLUSH_WQ_EARLY,	/* flush_workqueue(), drain and destroy */
	WQT_CANCEL_EARLY,
	WQT_DISABLED_RAN,
	WQT_BAD_RETURN,		/* a call returned the wrong value */
	WQT_EARLY,		/* ran before the delay was over */
	WQT_RCU_EARLY,
	WQT_TOUCHED,		/* a freed item was used */
	WQT_HALF_APPLIED,	/* attributes changed by a call that failed */
	WQT_NO_RESCUE,
	WQT_HELD_UP,		/* did not run in time after a hardship, or during a storm */
	WQT_FROZEN_RAN,
	WQT_START_ORDER,
	WQT_STALL,		/* no progress */
	WQT_NR_WRONGS,
};

struct wqt_kind {
	const char *name;
	unsigned int flags;
	int max_active;
	bool ordered;
};

enum wqt_scope {
	WQT_SCOPE_DEFAULT,
	WQT_SCOPE_CPU,
	WQT_SCOPE_SMT,
	WQT_SCOPE_CACHE,
	WQT_SCOPE_CACHE_SHARD,
	WQT_SCOPE_NUMA,
	WQT_SCOPE_SYSTEM,
	WQT_NR_SCOPES,
};

/* Number of items running on one CPU, or in total for unbound and ordered workqueues. */
struct wqt_inside {
	atomic_t nr;
};

/*
 * One shared item. Each successful queueing is consumed by one run or by one
 * successful cancellation. A call is counted as begun before it is made, and the count
 * is taken back if the call returns false. A reader that reads "begun" last therefore
 * has an upper bound, and one that reads "known" first has a lower bound.
 */
struct wqt_item {
	struct delayed_work dwork;
	struct wqt_slot *slot;
	struct rnd_state rnd;		/* used only by its runs */
	int nr;
	bool delayed;			/* queued only through the timer */
	atomic_t inside;
	atomic_long_t queue_begun;
	atomic_long_t queue_known;
	atomic_long_t queue_maybe;	/* of those begun: either queued or refused */
	atomic_long_t cancel_begun;
	atomic_long_t cancel_known;
	atomic_long_t started;
	atomic_long_t finished;
	atomic_long_t disable_begun;	/* levels of disabling, counted before the call */
	atomic_long_t enable_done;	/* ... levels taken back, counted after the call */
	atomic_long_t move_begun;	/* calls that delete the timer for a moment */
	atomic_long_t move_done;
};

/*
 * One workqueue and what belongs to it. Users of @wq are in an SRCU read-side section or
 * hold @attrs_lock. wqt_slot_settle() removes @wq, waits, and checks the accounts.
 */
struct wqt_slot {
	const struct wqt_kind *kind;
	struct workqueue_struct __rcu *wq;
	struct srcu_struct srcu;
	struct wqt_item *items;
	bool bh;
	bool bound;			/* to CPUs, or BH */
	bool unbound_attrs;		/* has files for its attributes */

	/* @limit items may run, @inside do; @limit is raised before a change, lowered after it */
	int limit;
	int max_active;			/* as last set */
	struct wqt_inside __percpu *inside;

	/* tokens */
	atomic_t tokens;		/* queued and not finished */
	atomic_t late;			/* ... that still wait for a timer or RCU */
	spinlock_t order_lock;		/* tickets are given in the order of queueing */
	u64 ticket;			/* last given out, under @order_lock */
	u64 served;			/* ticket that ran last; ordered: no two run at once */

	/* attributes; @seq is odd while they change */
	struct mutex attrs_lock;
	unsigned int seq;
	enum wqt_scope scope;
	bool strict;
	cpumask_var_t mask;		/* as asked for */
	cpumask_var_t allowed;		/* as in effect */
};

/* A thread or an interrupt source that makes random choices. */
struct wqt_actor {
	char name[16];
	struct rnd_state rnd;
	struct task_struct *task;
	const char *op;			/* what it is doing, NULL: nothing */
	const struct wqt_slot *slot;
	unsigned long since;
	bool reported;
	bool process;			/* may sleep */
};

struct wqt_token;

/* wqtorture_main.c */
extern int wqt_stall, wqt_attrs_ms, wqt_onoff_ms, wqt_famine_ms, wqt_squeeze_ms, wqt_freeze_ms;
extern int wqt_slow_ms, wqt_storm_ms, wqt_lost_ms, wqt_stuck;
extern unsigned int wqt_seed;
extern bool wqt_flush_older;
extern struct rw_semaphore wqt_famine_sem;	/* held for writing: threads fail or come slowly */
extern bool wqt_resting;
extern bool wqt_started;
bool wqt_over(void);
void wqt_actor_init(struct wqt_actor *actor, const char *name, int nr);
bool wqt_actor_naps(struct wqt_actor *actor, int ms);
int wqt_actor_ends(struct wqt_actor *actor);
void wqt_visit_actors(void (*fn)(struct wqt_actor *actor));

static inline u32 wqt_rnd(struct rnd_state *rnd, u32 below)
{
	return prandom_u32_state(rnd) % below;
}

static inline bool wqt_one_in(struct rnd_state *rnd, u32 n)
{
	return wqt_rnd(rnd, n) == 0;
}

static inline void wqt_at(struct wqt_actor *actor, const char *op,
			  const struct wqt_slot *slot)
{
	WRITE_ONCE(actor->slot, slot);
	WRITE_ONCE(actor->since, jiffies);
	WRITE_ONCE(actor->op, op);
}

/* wqtorture_slot.c */
extern struct wqt_slot *wqt_slots;
extern int wqt_nr_slots;
int wqt_slots_init(void);
void wqt_slots_finish(struct wqt_actor *actor);
void wqt_slots_exit(void);
struct wqt_slot *wqt_slot_pick(struct rnd_state *rnd);
void wqt_slot_settle(struct wqt_slot *slot, struct wqt_actor *actor, bool reopen);
bool wqt_wait_for_zero(const atomic_t *nr, unsigned long ticks);
struct wqt_inside *wqt_slot_enter(struct wqt_slot *slot);
void wqt_slot_leave(struct wqt_inside *inside);

/* wqtorture_item.c */
void wqt_item_init(struct wqt_item *item, struct wqt_slot *slot, int nr);
void wqt_item_settled(struct wqt_item *item);
bool wqt_item_queue(struct wqt_item *item, struct workqueue_struct *wq,
		    struct rnd_state *rnd);
void wqt_item_mod(struct wqt_item *item, struct workqueue_struct *wq,
		  struct rnd_state *rnd);
void wqt_item_cancel(struct wqt_item *item, bool sync);
void wqt_item_disable(struct wqt_item *item, struct workqueue_struct *wq,
		      struct rnd_state *rnd, bool sync);
void wqt_item_flush(struct wqt_item *item);
void wqt_flush_wq(struct wqt_slot *slot, struct workqueue_struct *wq);
void wqt_lock_class(struct work_struct *work, bool bh);

/* wqtorture_token.c */
int wqt_tokens_init(void);
void wqt_tokens_reap(bool all);
void wqt_tokens_exit(void);
int wqt_reader_thread(void *arg);
int wqt_token_queue(struct wqt_slot *slot, struct workqueue_struct *wq,
		    struct rnd_state *rnd, gfp_t gfp, atomic_t *left);

/* wqtorture_ops.c */
int wqt_writer(void *arg);
void wqt_quick_op(struct wqt_actor *actor);

/* wqtorture_irq.c */
int wqt_irq_init(int softirqs, int hardirqs, int base);
void wqt_irq_stop(void);

/* wqtorture_limit.c */
void wqt_limit_round(struct wqt_actor *actor);

/* wqtorture_order.c */
void wqt_order_round(struct wqt_actor *actor);

/* wqtorture_chaos.c */
int wqt_chaos_init(void);
void wqt_chaos_exit(void);
int wqt_attrs_thread(void *arg);
int wqt_onoff_thread(void *arg);
int wqt_squeeze_thread(void *arg);
void wqt_forget_attrs(struct wqt_slot *slot);
int wqt_any_cpu(struct rnd_state *rnd);
int wqt_online_cpu(struct rnd_state *rnd);
void wqt_count_cpu(int cpu);
unsigned long wqt_cpu_epoch(int cpu);
unsigned long wqt_topology_epoch(void);
bool wqt_cpu_unmoved(int cpu, unsigned long epoch);
bool wqt_topology_whole(void);
unsigned int wqt_masks_epoch(void);
unsigned int wqt_attrs_epoch(const struct wqt_slot *slot);
bool wqt_in_pod(const struct wqt_slot *slot, int from, int ran);

/* wqtorture_threads.c */
int wqt_famine_thread(void *arg);
int wqt_slow_thread(void *arg);

/* wqtorture_hold.c */
int wqt_storm_thread(void *arg);
int wqt_lost_thread(void *arg);
int wqt_stuck_thread(void *arg);

/* wqtorture_freeze.c */
int wqt_freeze_init(void);
void wqt_freeze_exit(void);
int wqt_freeze_thread(void *arg);
unsigned int wqt_freeze_epoch(void);
bool wqt_still_frozen(unsigned int epoch);

/* wqtorture_file.c */
int wqt_files_init(void);
void wqt_files_exit(void);
int wqt_sys_write(const char *name, const char *text);
int wqt_sys_read(const char *name, char *buf, size_t size);
int wqt_proc_write(const char *name, const char *text);
int wqt_proc_read(const char *name, char *buf, size_t size);

/* wqtorture_report.c */
void wqt_count(enum wqt_stat stat);
void wqt_add(enum wqt_stat stat, unsigned long nr);
unsigned long wqt_sum(enum wqt_stat stat);
unsigned long wqt_wrongs(void);
void wqt_show_state(void);
__printf(3, 4)
void wqt_wrong(enum wqt_wrong what, const struct wqt_slot *slot, const char *fmt, ...);
int wqt_monitor(void *arg);
void wqt_print_stats(void);
void wqt_print_end(void);

#endif /* _LIB_WQTORTURE_H */
