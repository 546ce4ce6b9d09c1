// SPDX-License-Identifier: GPL-2.0
/* Questions: what an item can ask and tell about itself, and hints about items and workqueues. */
#include <linux/export.h>

#include "worklist.h"

/**
 * set_worker_desc - describe what the running item is about
 * @fmt: printf format
 * @...: its arguments
 *
 * Stack dumps of the worker show the first %WORKER_DESC_LEN - 1 bytes while the item
 * runs.  ps shows them until the worker takes its next item.  The default is the name of
 * the workqueue.
 *
 * Context: a work function; elsewhere, and in BH items, this has no effect.
 */
void set_worker_desc(const char *fmt, ...)
{
	struct worker *self = current_wq_worker();
	va_list args;

	if (!self)
		return;
	va_start(args, fmt);
	vscnprintf(self->desc, WORKER_DESC_LEN, fmt, args);
	va_end(args);
}
EXPORT_SYMBOL_GPL(set_worker_desc);

/*
 * Are items of @pwq, which holds some back, over the limit?  An unbound one may also hold items
 * back since another is to start first.  A guess: barriers and spare slots count, too.
 */
static bool pwq_is_congested(struct pool_workqueue *pwq)
{
	struct wq_node_nr_active *slots = pwq->slots;

	return !slots || pwq->plugged || !list_empty(&pwq->pending_node) ||
	       atomic_read(&slots->nr) + pwq_nr_unfinished(pwq) - pwq->nr_active > slots->max;
}

/**
 * workqueue_congested - are items held back by max_active?
 * @cpu: the CPU to ask about, %WORK_CPU_UNBOUND for the calling one
 * @wq: the workqueue
 *
 * The answer may be outdated on return and is only a hint.  Each CPU of a per-CPU
 * workqueue is congested independently, and so are the CPUs of an unbound one that queue on
 * different pwqs.
 *
 * Context: any.
 * Return: true if items queued from @cpu wait for others to finish.
 */
bool workqueue_congested(int cpu, struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	guard(rcu)();

	if (cpu == WORK_CPU_UNBOUND)
		cpu = raw_smp_processor_id();
	pwq = rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, cpu));
	/* data_race(): a hint */
	return !list_empty(&pwq->inactive_works) && data_race(pwq_is_congested(pwq));
}
EXPORT_SYMBOL_GPL(workqueue_congested);

/**
 * work_busy - is an item pending or running?
 * @work: the item
 *
 * The answer may be outdated on return and is only a hint.  If an item runs on one pool
 * and is queued on another, this does not find it running.  That happens when it has
 * moved to another workqueue, is ordered and the attributes have changed, or is a BH item
 * that another CPU runs for a dead one.
 *
 * Context: any but NMI.
 * Return: %WORK_BUSY_PENDING, %WORK_BUSY_RUNNING, both or 0.
 */
unsigned int work_busy(struct work_struct *work)
{
	unsigned int busy = work_pending(work) ? WORK_BUSY_PENDING : 0;
	struct worker_pool *pool;

	guard(rcu)();

	pool = get_work_pool(work);
	if (pool) {
		guard(raw_spinlock_irqsave)(&pool->lock);
		if (find_worker_executing_work(pool, work))
			busy |= WORK_BUSY_RUNNING;
	}
	return busy;
}
EXPORT_SYMBOL_GPL(work_busy);

/**
 * current_work - the item that is calling
 *
 * Context: any; for an interrupt on top of an item there is none.
 * Return: the item, which its function may have freed, or %NULL.
 */
struct work_struct *current_work(void)
{
	const struct worker *self = current_worker();

	return self ? self->current_work : NULL;
}
EXPORT_SYMBOL(current_work);

/**
 * current_is_workqueue_rescuer - is the calling task a rescuer?
 *
 * Context: any.
 * Return: true in an item that a rescuer runs.  Memory is tight then, and other items wait.
 */
bool current_is_workqueue_rescuer(void)
{
	const struct worker *self = current_wq_worker();

	return self && self->rescue_wq;
}

/**
 * current_is_workqueue_mem_reclaim - may memory reclaim wait for the calling task?
 *
 * If memory reclaim may wait for an item, that item must not wait for a workqueue without
 * a rescuer.  Code that is called from both kinds of items can use this to decide whether
 * another workqueue has to do such waiting.
 *
 * Context: any.
 * Return: true in an item of a %WQ_MEM_RECLAIM workqueue.  Workqueues made by
 * create_workqueue() and its variants do not count: they have the flag by tradition.
 */
bool current_is_workqueue_mem_reclaim(void)
{
	const struct worker *self = current_wq_worker();
	unsigned int flags;

	if (!self || !self->current_pwq)
		return false;
	flags = READ_ONCE(self->current_pwq->wq->flags);
	return (flags & WQ_MEM_RECLAIM) && !(flags & __WQ_LEGACY);
}
EXPORT_SYMBOL_GPL(current_is_workqueue_mem_reclaim);
