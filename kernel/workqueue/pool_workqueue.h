/* SPDX-License-Identifier: GPL-2.0 */
/* A pool_workqueue (pwq), which ties a workqueue to a pool, and the slots that pwqs share. */
#ifndef _KERNEL_WORKQUEUE_POOL_WORKQUEUE_H
#define _KERNEL_WORKQUEUE_POOL_WORKQUEUE_H

#include <linux/list.h>
#include <linux/llist.h>

#include "warn.h"
#include "worker_pool.h"

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
	bool marker_released;			/* not held back any more; LO of the old pwq */
	int nr_granted;				/* L: slots that its oldest held-back items have */
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

/* pwq.c */
struct pool_workqueue *pwq_make(struct workqueue_struct *wq, struct worker_pool *pool);
void pwq_free_unused(struct pool_workqueue *pwq);
void link_pwq(struct pool_workqueue *pwq);
void put_pwq_unlocked(struct pool_workqueue *pwq);
void pwq_cache_init(void);
extern struct llist_head dead_pwqs;
void pwq_set_unlinker(struct kthread_worker *unlinker, struct kthread_work *work);
void pwq_die(struct pool_workqueue *pwq);
void pwq_flushed(struct pool_workqueue *pwq);

/* mayday.c: the rescuer of the workqueue of a pwq */
void send_mayday(struct pool_workqueue *pwq);
void rescuer_follows_slot(struct pool_workqueue *pwq);
void pool_mayday_timeout(struct timer_list *timer);
void pool_mayday_arm(struct worker_pool *pool);

/* take a reference to a live pwq; L */
static inline void get_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);
	WQ_WARN_ON_ONCE(pwq->refcnt <= 0);
	pwq->refcnt++;
}

/* drop a reference; L */
static inline void put_pwq(struct pool_workqueue *pwq)
{
	lockdep_assert_held(&pwq->pool->lock);

	if (!--pwq->refcnt)
		pwq_die(pwq);
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

#endif /* _KERNEL_WORKQUEUE_POOL_WORKQUEUE_H */
