// SPDX-License-Identifier: GPL-2.0
/* What is woken when work waits: choose a worker, or raise a softirq. */
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>

#include "data.h"
#include "kick.h"
#include "pool_workqueue.h"

/* raises the softirq of a BH pool on its CPU */
static DEFINE_PER_CPU_SHARED_ALIGNED(struct irq_work [NR_STD_WORKER_POOLS], bh_pool_irq_works);

static void bh_pool_kick_normal(struct irq_work *unused)
{
	raise_softirq(TASKLET_SOFTIRQ);
}

static void bh_pool_kick_highpri(struct irq_work *unused)
{
	raise_softirq(HI_SOFTIRQ);
}

/* boot: make a per-CPU pool a BH pool */
void __init bh_pool_init(struct worker_pool *pool, int highpri)
{
	pool->flags |= POOL_BH;
	pool->offq_data |= WORK_OFFQ_BH;
	init_irq_work(&per_cpu(bh_pool_irq_works, pool->cpu)[highpri],
		      highpri ? bh_pool_kick_highpri : bh_pool_kick_normal);
}

/*
 * Raise the softirq that serves @pool; L.  For a dead CPU's pool, do so on the CPU that drains it.
 * Raised softirqs run when an interrupt ends, and when a task enables BH.  In any other
 * context ksoftirqd has to be woken: return it.
 */
static struct task_struct *kick_bh_pool(struct worker_pool *pool)
{
	bool highpri = bh_is_highpri(pool);

	if (IS_ENABLED(CONFIG_SMP) && pool->cpu != smp_processor_id() &&
	    !(pool->flags & POOL_BH_DRAINING)) {
		irq_work_queue_on(&per_cpu(bh_pool_irq_works, pool->cpu)[highpri], pool->cpu);
		return NULL;
	}
	__raise_softirq_irqoff(highpri ? HI_SOFTIRQ : TASKLET_SOFTIRQ);
	return in_interrupt() ? NULL : this_cpu_ksoftirqd();
}

#ifdef CONFIG_SMP
/* any CPU of @pod that is up, or %nr_cpu_ids */
static unsigned int pool_any_cpu(const struct cpumask *pod)
{
	/* data_race(): the mask may change */
	unsigned int cpu = data_race(cpumask_any_and_distribute(pod, cpu_active_mask));

	if (cpu >= nr_cpu_ids || !cpu_dying(cpu))
		return cpu;
	/* data_race(): as above; one CPU at a time goes down, and this finds the next one */
	return data_race(cpumask_any_and_distribute(pod, cpu_active_mask));
}

/* is nothing on @cpu but, if that is where we are, the current task? */
static bool pool_cpu_has_room(unsigned int cpu)
{
	return idle_cpu(cpu) || (cpu == smp_processor_id() && single_task_running());
}

/*
 * May a worker of @pool, which belongs to CPU @own, be brought there from CPU @from?  It stays
 * where the scheduler has put it, behind another cache or, if it is highpri, anywhere, while there
 * is more to do than one worker does on @own.
 */
static bool pool_may_fetch(const struct worker_pool *pool, unsigned int own, unsigned int from)
{
	/* a CPU that goes down stays active for a moment */
	if (!cpumask_test_cpu(own, pool->attrs->__pod_cpumask) || !cpu_active(own) ||
	    cpu_dying(own))
		return false;
	return (pool->attrs->nice >= 0 && cpus_share_cache(own, from)) ||
	       (pool->nr_idle == pool->nr_workers && pool_cpu_has_room(own));
}

/*
 * Where should a worker of @pool wake up that slept on CPU @from?  Return @from if it makes no
 * difference.
 *
 * An own pool wakes its workers on the CPU that queues there: what an item touches is in its
 * caches, and its scheduler domains need not be searched.  Other pools only bring back a worker
 * that the scheduler has moved out of the pod.
 */
static unsigned int pool_wake_cpu(const struct worker_pool *pool, unsigned int from)
{
	const struct workqueue_attrs *attrs = pool->attrs;
	int own = pool->own_cpu;

	if (own == from)
		return from;
	if (own >= 0 && pool_may_fetch(pool, own, from))
		return own;
	if (attrs->affn_strict || cpumask_test_cpu(from, attrs->__pod_cpumask))
		return from;
	return pool_any_cpu(attrs->__pod_cpumask);
}

/*
 * Choose where @worker wakes up: moving it is cheapest now.  One that is still on a run queue
 * went idle only just now, or the scheduler has delayed its dequeueing.  It normally stays on
 * that CPU, whatever wake_cpu says, so leave wake_cpu alone.  Return its task.
 */
static struct task_struct *worker_repatriate(struct worker_pool *pool, struct worker *worker)
{
	struct task_struct *task = worker->task;
	unsigned int from, to;

	if (READ_ONCE(task->on_rq))
		return task;

	from = READ_ONCE(task->wake_cpu);
	to = pool_wake_cpu(pool, from);
	if (likely(to == from) || to >= nr_cpu_ids)
		return task;

	WRITE_ONCE(task->wake_cpu, to);
	if (!cpumask_test_cpu(from, pool->attrs->__pod_cpumask)) {
		struct work_struct *work = list_first_entry(&pool->worklist, struct work_struct,
							    entry);

		get_work_pwq(work)->stats[PWQ_STAT_REPATRIATED]++;
	}
	return task;
}
#else
static struct task_struct *worker_repatriate(struct worker_pool *pool, struct worker *worker)
{
	return worker->task;
}
#endif

/*
 * Has idle @worker been woken?  L.  It stored TASK_IDLE in the critical section in which it
 * went idle, so if it is TASK_RUNNING, it was woken since, and if it is TASK_WAKING, somebody
 * is about to put it on a run queue.  It takes the lock before it goes idle again, and will
 * see what is on the worklist now, unless it is told to end first.  A new worker, which has
 * not yet gone idle itself, likewise takes the lock before it first sleeps for want of work.
 * A worker that is about to sleep is not awake in this sense, and is woken.
 *
 * From that store until schedule() has switched the task out, no sleeping lock may be taken:
 * on PREEMPT_RT it would set the state to TASK_RUNNING for a moment, without anyone having
 * woken the worker.
 */
static bool worker_is_awake(struct worker *worker)
{
	unsigned int state = READ_ONCE(worker->task->__state);

	return state == TASK_RUNNING || state == TASK_WAKING;
}

/*
 * Choose the worker that kick_pool() wakes.  If the pool has idle workers, choose the one that
 * went idle last: its stack and its CPU's caches are still warm.  If it was woken before and has
 * not yet taken the lock, as when many items are queued in a row, it need not be woken again.  The
 * softirq of a BH pool is raised at once.  L.
 */
struct task_struct *pool_pick_worker(struct worker_pool *pool)
{
	struct worker *worker;

	if (list_empty(&pool->idle_list))
		return NULL;
	worker = list_first_entry(&pool->idle_list, struct worker, entry);
	if (pool->flags & POOL_BH)
		return kick_bh_pool(pool);

	pool->last_woken_worker = worker;
	return worker_is_awake(worker) ? NULL : worker_repatriate(pool, worker);
}
