/* SPDX-License-Identifier: GPL-2.0 */
/* Names of workers, the pool of each, and where it may run. */
#ifndef _KERNEL_WORKQUEUE_ATTACH_H
#define _KERNEL_WORKQUEUE_ATTACH_H

#include "workqueue_struct.h"

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

#endif /* _KERNEL_WORKQUEUE_ATTACH_H */
