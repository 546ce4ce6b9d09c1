// SPDX-License-Identifier: GPL-2.0
/*
 * Misuse: what the workqueue warns of
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqhelp.h"
#ifdef CONFIG_WORKQUEUE_CMWQ
#include "../../kernel/workqueue/workqueue_struct.h"
#endif

/* An item that is on somebody's list is not queued, and stays pending. */
static int wqh_misuse_listed(struct wqh_queue *q, struct work_struct *work, int cpu)
{
	LIST_HEAD(list);

	list_add(&work->entry, &list);
	queue_work_on(cpu, q->wq, work);
	list_del(&work->entry);
	return 0;
}

/* A workqueue without a rescuer may need the memory that the caller has to free. */
static int wqh_misuse_reclaim(struct wqh_queue *q, struct work_struct *work, int cpu)
{
	unsigned int flags = memalloc_noreclaim_save();

	queue_work_on(cpu, q->wq, work);
	flush_work(work);
	memalloc_noreclaim_restore(flags);
	return 0;
}

#ifdef CONFIG_WORKQUEUE_CMWQ
/* The holder of a reference may still use the workqueue, so it is never freed. */
static int wqh_misuse_busy(struct wqh_queue *q, struct work_struct *work, int cpu)
{
	struct pool_workqueue *pwq;

	guard(rcu)();
	pwq = rcu_dereference(*per_cpu_ptr(q->wq->cpu_pwq, cpu));
	guard(raw_spinlock_irq)(&pwq->pool->lock);
	pwq->refcnt++;
	return 0;
}
#endif

/* Queue the console's own item: a line printed meanwhile finds the item claimed. */
static int wqh_misuse_console(struct wqh_queue *q, struct work_struct *work, int cpu)
{
	mod_delayed_work(q->wq, &wqh_console_work, 0);
	return 0;
}

static void wqh_misused_fn(struct work_struct *work)
{
	msleep(100);	/* so that the flush finds something to wait for */
}

int wqh_write_misuse(struct wqh_queue *q, char *input)
{
	static const char * const kinds[] = {
		"listed", "reclaim", "console",
#ifdef CONFIG_WORKQUEUE_CMWQ
		"busy",
#endif
	};
	static int (* const functions[])(struct wqh_queue *q, struct work_struct *work,
					 int cpu) = {
		wqh_misuse_listed, wqh_misuse_reclaim, wqh_misuse_console,
#ifdef CONFIG_WORKQUEUE_CMWQ
		wqh_misuse_busy,
#endif
	};
	struct work_struct *work __free(kfree) = kzalloc(sizeof(*work), GFP_KERNEL);
	unsigned int cpu = 0;
	int kind, ret;

	if (!work)
		return -ENOMEM;
	kind = wqh_read_kind(&input, kinds, ARRAY_SIZE(kinds));
	if (kind < 0)
		return kind;
	ret = wqh_numbers(input, { "cpu", &cpu });
	if (ret)
		return ret;
	if (q->flags & WQ_BH)
		return -EINVAL;
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return -ERANGE;

	INIT_WORK(work, wqh_misused_fn);
	return functions[kind](q, work, cpu);
}
