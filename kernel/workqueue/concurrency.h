/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that ran for long. */
#ifndef _KERNEL_WORKQUEUE_CONCURRENCY_H
#define _KERNEL_WORKQUEUE_CONCURRENCY_H

#include "workqueue_struct.h"

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

#endif /* _KERNEL_WORKQUEUE_CONCURRENCY_H */
