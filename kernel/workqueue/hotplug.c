// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that come and go.
 *
 * When a CPU goes down, the workers of its pools are unbound: they finish their items on
 * other CPUs, without concurrency management.  When the CPU comes back, they are bound
 * again.  Unbound workqueues change their pwqs when a pod loses its last CPU or gets its
 * first one.
 */
#include <linux/cpu.h>

#include "kick.h"
#include "pools.h"
#include "running.h"
#include "worker.h"

/*
 * The CPU is going down, and this runs on it.  The scheduler hooks of its workers keep
 * preemption off, so they see nr_running and the flags change in one step.
 */
static void pool_unbind_workers(struct worker_pool *pool)
{
	struct task_struct *wake;
	struct worker *worker;

	guard(mutex)(&wq_pool_attach_mutex);

	raw_spin_lock_irq(&pool->lock);
	for_each_pool_worker(worker, pool)
		WRITE_ONCE(worker->flags, worker->flags | WORKER_UNBOUND);
	pool->flags |= POOL_DISASSOCIATED;
	pool->nr_running = 0;
	/* from now on a running worker does not hold the next one back */
	wake = kick_pool(pool);
	pool_unlock_wake_irq(pool, wake);

	for_each_pool_worker(worker, pool)
		unbind_worker(worker);
}

/* the CPU is back */
static void rebind_workers(struct worker_pool *pool)
{
	const struct cpumask *cpus = pool_allowed_cpus(pool);
	struct worker *worker;

	/* all must be back on the CPU before one of them counts in nr_running */
	for_each_pool_worker(worker, pool) {
		kthread_set_per_cpu(worker->task, pool->cpu);
		WARN_ON_ONCE(set_cpus_allowed_ptr(worker->task, cpus));
	}

	guard(raw_spinlock_irq)(&pool->lock);
	pool->flags &= ~POOL_DISASSOCIATED;
	for_each_pool_worker(worker, pool) {
		unsigned int flags = worker->flags & ~WORKER_UNBOUND;

		/*
		 * Only the worker itself may count it, not while serving: REBOUND keeps it out of
		 * the count until it next begins to serve.  This is one store because
		 * the scheduler hooks read the flags without the lock.
		 */
		WRITE_ONCE(worker->flags, flags | WORKER_REBOUND);
	}
}

/*
 * The scheduler lets a task run anywhere if its CPUs are all offline.  Bring the workers of an
 * unbound pool back.  If another CPU of it is online, they are right already, unless an attempt to
 * take the last CPU down was given up halfway.  So look before taking the locks of the scheduler.
 */
static void restore_unbound_workers_cpumask(struct worker_pool *pool, int cpu)
{
	const struct cpumask *allowed = pool_allowed_cpus(pool);
	struct worker *worker;
	bool first;

	if (!cpumask_test_cpu(cpu, allowed))
		return;
	first = cpumask_weight_and(allowed, wq_online_cpumask) == 1;
	for_each_pool_worker(worker, pool) {
		/* data_race(): the scheduler changes it, too, but only if no CPU of it is online */
		if (!first && data_race(cpumask_equal(&worker->task->cpus_mask, allowed)))
			continue;
		WARN_ON_ONCE(!worker_set_cpus(worker, allowed));
	}
}

/* let unbound workqueues follow a CPU that comes or goes */
static void wqs_follow_cpu(int cpu)
{
	struct workqueue_struct *wq;

	list_for_each_entry(wq, &workqueues, list) {
		if (!(READ_ONCE(wq->flags) & WQ_UNBOUND))
			continue;
		unbound_wq_update_pwq(wq, cpu);
		guard(mutex)(&wq->mutex);
		wq_update_node_max_active(wq);
	}
}

/**
 * workqueue_prepare_cpu - a CPU is about to come up
 * @cpu: the CPU
 *
 * Context: hotplug; may sleep.
 * Return: 0, or -ENOMEM if a pool of the CPU has no worker and none can be made.
 */
int workqueue_prepare_cpu(unsigned int cpu)
{
	int i;

	for (i = 0; i < NR_STD_WORKER_POOLS; i++) {
		struct worker_pool *pool = cpu_pool(cpu, i);

		/* without L: a per-CPU pool keeps a worker once it has had one */
		if (!READ_ONCE(pool->nr_workers) && !create_worker(pool))
			return -ENOMEM;
	}
	return 0;
}

/**
 * workqueue_online_cpu - a CPU is up
 * @cpu: the CPU
 *
 * Context: hotplug, on that CPU; may sleep.
 * Return: 0.
 */
int workqueue_online_cpu(unsigned int cpu)
{
	struct worker_pool *pool;
	int id;

	guard(mutex)(&wq_pool_mutex);

	cpumask_set_cpu(cpu, wq_online_cpumask);

	for_each_pool(pool, id) {
		/* BH pools have no threads to move */
		if (pool->flags & POOL_BH)
			continue;
		guard(mutex)(&wq_pool_attach_mutex);
		if (pool->cpu == cpu)
			rebind_workers(pool);
		else if (!is_percpu_pool(pool))
			restore_unbound_workers_cpumask(pool, cpu);
	}

	wqs_follow_cpu(cpu);
	deputies_update();
	affinity_cpu_online();
	return 0;
}

/**
 * workqueue_offline_cpu - a CPU is going down
 * @cpu: the CPU
 *
 * Context: hotplug, on that CPU; may sleep.
 * Return: 0, or -1 if called on another CPU.
 */
int workqueue_offline_cpu(unsigned int cpu)
{
	int i;

	if (WARN_ON(cpu != smp_processor_id()))
		return -1;

	for (i = 0; i < NR_STD_WORKER_POOLS; i++)
		pool_unbind_workers(cpu_pool(cpu, i));

	guard(mutex)(&wq_pool_mutex);
	cpumask_clear_cpu(cpu, wq_online_cpumask);
	deputies_update();
	wqs_follow_cpu(cpu);
	affinity_cpu_offline(cpu);
	return 0;
}
