/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Histograms of how long items wait and run: what items do for them on their way, which is nothing
 * unless they are wanted, and what debugfs.c shows.  latency.c has the rest.
 */
#ifndef _KERNEL_WORKQUEUE_LATENCY_H
#define _KERNEL_WORKQUEUE_LATENCY_H

#include <linux/jump_label.h>
#include <linux/workqueue.h>

struct worker;

/* below 1 us, then from 1, 2, 4 us and so on; the last one has no end and begins at 33 s */
#define WQ_HIST_BUCKETS		27

/* each is of one CPU, and written there only, with interrupts off; others use READ_ONCE() */
struct wq_hist {
	u64 items[WQ_HIST_BUCKETS];
	u64 longest_us;
};

/*
 * wq->latency is set under wq_pool_mutex with smp_store_release().  Who does not hold the mutex
 * reads it with READ_ONCE(), whose dependency pairs with that.  It is cleared, under the mutex,
 * only when no item uses it any more.
 */
struct wq_latency {
	struct wq_hist wait;
	struct wq_hist run;
	u64 missed;		/* items that started, but nobody knows when they were queued */
};

void latency_note_queued(struct work_struct *work);
void latency_note_cancelled(struct work_struct *work);
void latency_note_start(struct worker *worker, struct work_struct *work, unsigned long data);
void latency_note_end(struct worker *worker, unsigned long data);
int wq_latency_switch(bool on);
bool wq_latency_sum(struct workqueue_struct *wq, struct wq_latency *sum);

DECLARE_STATIC_KEY_FALSE(wq_latency_on);

/* does anybody want the latency_note_*() above? */
static inline bool latency_wanted(void)
{
	return IS_ENABLED(CONFIG_DEBUG_FS) && static_branch_unlikely(&wq_latency_on);
}

#ifdef CONFIG_DEBUG_FS
void wq_latency_attach(struct workqueue_struct *wq);
void wq_latency_free(struct workqueue_struct *wq);
#else
static inline void wq_latency_attach(struct workqueue_struct *wq) { }
static inline void wq_latency_free(struct workqueue_struct *wq) { }
#endif

#endif /* _KERNEL_WORKQUEUE_LATENCY_H */
