/* SPDX-License-Identifier: GPL-2.0 */
/* Claiming, queueing and running items.  worker.h has what a worker does for each. */
#ifndef _KERNEL_WORKQUEUE_RUNNING_H
#define _KERNEL_WORKQUEUE_RUNNING_H

#include "workqueue_struct.h"

/* claim.c */
#define WORK_CANCEL_DELAYED	1		/* may sit on a delayed_work's timer */
bool work_grab_pending(struct work_struct *work, u32 cflags, unsigned long *irq_flags);

/* queue.c: what queueing notices for own pools */
enum { OWN_PWQ, OWN_POOL, OWN_NR_KINDS };
extern unsigned int wq_own_pools;
DECLARE_PER_CPU(struct workqueue_struct * [OWN_NR_KINDS], wq_wants_own);
DECLARE_PER_CPU(struct workqueue_struct *, wq_sharing_timed);	/* for KUnit */
void wq_set_own_work(struct work_struct *work);

/* attach.c */
enum { WORKER_ID_LEN = WQ_NAME_LEN + sizeof("kworker/R-") };
struct worker *alloc_worker(int node);
void worker_attach_to_pool(struct worker *worker, struct worker_pool *pool);
void detach_worker(struct worker *worker);
void worker_detach_from_pool(struct worker *worker);
bool worker_set_cpus(struct worker *worker, const struct cpumask *cpus);
void unbind_worker(struct worker *worker);
void set_pf_worker(bool is_worker);
int format_worker_id(char *buf, size_t size, const struct worker *worker,
		     const struct worker_pool *pool);

/* concurrency.c: a function that ran for long */
struct wq_hog {
	work_func_t func;
	u64 times;
	u64 cpu_us;
	u64 longest_us;				/* without a sleep */
	char wq_name[WQ_NAME_LEN];		/* where it did so last */
};

bool wq_get_hog(unsigned int nr, struct wq_hog *copy);
void wq_cpu_intensive_thresh_init(void);

/* bh.c */
void bh_wait_running(struct worker_pool *pool);

/* rescuer.c */
int init_rescuer(struct workqueue_struct *wq);
void rescuer_destroy(struct workqueue_struct *wq);

#endif /* _KERNEL_WORKQUEUE_RUNNING_H */
