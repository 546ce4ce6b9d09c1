// SPDX-License-Identifier: GPL-2.0
/* Workers: their names, the pool that each one serves, and the CPUs on which it may run. */
#include <linux/slab.h>

#include "running.h"

/* a worker that belongs to no pool and counts as not running, or NULL */
struct worker *alloc_worker(int node)
{
	struct worker *worker = kzalloc_node(sizeof(*worker), GFP_KERNEL, node);

	if (!worker)
		return NULL;
	INIT_LIST_HEAD(&worker->scheduled);
	INIT_LIST_HEAD(&worker->entry);
	INIT_LIST_HEAD(&worker->node);
	worker->flags = WORKER_PREP;
	return worker;
}

/* the name by which users know a worker; @pool is ignored for a rescuer */
int format_worker_id(char *buf, size_t size, const struct worker *worker,
		     const struct worker_pool *pool)
{
	if (worker->rescue_wq)
		return scnprintf(buf, size, "kworker/R-%s", worker->rescue_wq->name);
	if (!is_percpu_pool(pool))
		return scnprintf(buf, size, "kworker/u%d:%d", pool->id, worker->id);
	return scnprintf(buf, size, "kworker/%d:%d%s", pool->cpu, worker->id,
			 pool->attrs->nice < 0 ? "H" : "");
}

/* which of @cpus are up, and not on their way down? */
static bool worker_cpus_that_stay(struct cpumask *staying, const struct cpumask *cpus)
{
	/* data_race(): CPUs come and go */
	return data_race(cpumask_and(staying, cpus, cpu_active_mask) &&
			 cpumask_andnot(staying, staying, cpu_dying_mask));
}

/*
 * Let @worker run on @cpus only; false if all are offline or turn it away.  A CPU on its way down
 * takes no threads but those that are bound to it.  If the scheduler chooses such a CPU, the
 * worker stays where it may not run, and nobody is told.  So if the worker has to move, first let
 * the scheduler choose only among CPUs that stay up.  Nevertheless one of these may begin to go
 * down just then.  If the worker is current, it looks where it is, and tries again.  If not, it is
 * about to sleep or to end, or hotplug waits for the caller.  A worker that need not move is not
 * moved: whoever moves a thread that has disabled migration waits until it enables migration, and
 * that may need another worker.  A.
 */
bool worker_set_cpus(struct worker *worker, const struct cpumask *cpus)
{
	static struct cpumask staying;		/* A */
	struct task_struct *task = worker->task;
	bool some, done;

	lockdep_assert_held(&wq_pool_attach_mutex);

	for (;;) {
		some = worker_cpus_that_stay(&staying, cpus);
		if (some && !cpumask_test_cpu(task_cpu(task), cpus))
			set_cpus_allowed_ptr(task, &staying);
		done = !set_cpus_allowed_ptr(task, cpus);
		if (done && (task != current || cpumask_test_cpu(task_cpu(current), cpus)))
			return true;
		if (!some)
			return false;
		/* this moves nobody; without it, setting the same CPUs again would do nothing */
		set_cpus_allowed_ptr(task, cpu_possible_mask);
	}
}

/* let a worker run wherever unbound work may run; A */
void unbind_worker(struct worker *worker)
{
	const struct cpumask *cpus = wq_unbound_cpumask;

	lockdep_assert_held(&wq_pool_attach_mutex);

	/* data_race(): CPUs come and go */
	if (!data_race(cpumask_intersects(cpus, cpu_active_mask)))
		cpus = cpu_possible_mask;
	kthread_set_per_cpu(worker->task, -1);
	if (!worker_set_cpus(worker, cpus))
		WARN_ON_ONCE(!worker_set_cpus(worker, cpu_possible_mask));
}

/* make a worker serve a pool: from here on, hotplug keeps its flags and CPUs in step */
void worker_attach_to_pool(struct worker *worker, struct worker_pool *pool)
{
	guard(mutex)(&wq_pool_attach_mutex);

	if (pool->flags & POOL_DISASSOCIATED)
		worker->flags |= WORKER_UNBOUND;
	else
		kthread_set_per_cpu(worker->task, pool->cpu);

	/* an ordinary worker got its CPUs when its task was made */
	if (worker->rescue_wq && !worker_set_cpus(worker, pool_allowed_cpus(pool)))
		unbind_worker(worker);

	worker->pool = pool;
	list_add_tail(&worker->node, &pool->workers);
}

/* detach a worker that is going to end; A */
void detach_worker(struct worker *worker)
{
	unbind_worker(worker);
	list_del_init(&worker->node);
}

/* take a rescuer out of the pool it helped */
void worker_detach_from_pool(struct worker *worker)
{
	scoped_guard(mutex, &wq_pool_attach_mutex) {
		detach_worker(worker);
		worker->pool = NULL;
	}
	/* nobody else knows the worker now */
	worker->flags &= ~(WORKER_REBOUND | WORKER_UNBOUND);
}

/* tell scheduler and procfs, under A, whether current is a worker */
void set_pf_worker(bool is_worker)
{
	unsigned int flags;

	guard(mutex)(&wq_pool_attach_mutex);

	flags = current->flags & ~PF_WQ_WORKER;
	if (is_worker)
		flags |= PF_WQ_WORKER;
	/* data_race(): the tick may see either; a softirq puts back what it changes */
	data_race(current->flags = flags);
}
