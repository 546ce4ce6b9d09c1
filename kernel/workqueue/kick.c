// SPDX-License-Identifier: GPL-2.0
/*
 * What is woken when work waits: choose a worker, or raise a softirq.
 */
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/topology.h>
#include <linux/topology.h>

#include "internal.h"

#define HOME_LOOKS	8	/* cores to look at near home, and as many elsewhere */

/*
 * A run of this much CPU time, in microseconds, is a long one: see pool_cpu_of_home().  0: no run
 * is long.
 */
static unsigned int wq_long_run_us __read_mostly = 50;
module_param_named(long_run_us, wq_long_run_us, uint, 0644);

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

/**
 * bh_pool_init - boot: make a per-CPU pool a BH pool
 * @pool: pool of a possible CPU
 * @highpri: 0 or 1
 */
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
/* is @cpu behind the same cache as @home? */
static bool pool_cpu_is_near(unsigned int home, unsigned int cpu)
{
	return cpumask_test_cpu(cpu, per_cpu(wq_cpus_near, home));
}

/* is @cpu up, and not on its way down?  A CPU that goes down stays active for a moment. */
static bool pool_cpu_is_up(unsigned int cpu)
{
	return cpu_active(cpu) && !cpu_dying(cpu);
}

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

/* may a worker of @pod wake up on @cpu, and does nothing run there? */
static bool pool_cpu_is_free(unsigned int cpu, const struct cpumask *pod)
{
	return cpumask_test_cpu(cpu, pod) && pool_cpu_is_up(cpu) && idle_cpu(cpu) &&
	       !vcpu_is_preempted(cpu);
}

/* does nothing run on any thread of the core of @cpu? */
static bool pool_core_is_free(unsigned int cpu)
{
	unsigned int thread;

	for_each_cpu(thread, cpu_smt_mask(cpu))
		if (!idle_cpu(thread))
			return false;
	return true;
}

/* is @cpu on a different core from @last, which was looked at before it? */
static bool pool_cpu_is_of_new_core(unsigned int cpu, unsigned int last)
{
	return last >= nr_cpu_ids || !cpumask_test_cpu(cpu, cpu_smt_mask(last));
}

/*
 * Find an idle CPU of @pod near home.  The best is @home, then one whose core is all idle, then
 * any other.  One that shares the core of @home comes last.  Return %nr_cpu_ids if none is
 * idle.
 *
 * Looking at a CPU reads what that CPU writes, so only a few are looked at.  The next thread of
 * a core costs little, and is not counted.  The loop ends at @home, which is in both masks.
 */
static unsigned int pool_idle_cpu_near(unsigned int home, const struct cpumask *pod)
{
	const struct cpumask *near = per_cpu(wq_cpus_near, home);
	unsigned int looks = HOME_LOOKS, found = nr_cpu_ids, last = nr_cpu_ids, cpu = home;

	do {
		if (!cpu_active(cpu))
			continue;
		if (pool_cpu_is_of_new_core(cpu, last) && !looks--)
			break;
		last = cpu;
		if (!pool_cpu_is_free(cpu, pod))
			continue;
		if (cpu == home || pool_core_is_free(cpu))
			return cpu;
		if (found >= nr_cpu_ids || cpumask_test_cpu(found, cpu_smt_mask(home)))
			found = cpu;
		/* data_race(): the mask may change */
	} while ((cpu = data_race(cpumask_next_and_wrap(cpu, near, pod))) < nr_cpu_ids &&
		 cpu != home);
	return found;
}

/* how many CPUs of @cpus come before @cpu */
static unsigned int pool_cpus_before(unsigned int cpu, const struct cpumask *cpus)
{
	return bitmap_weight(cpumask_bits(cpus), cpu);
}

/*
 * The CPU of @pod at which @home begins to look behind other caches, or %nr_cpu_ids if there is
 * none.  Homes that share a cache tend to be busy at the same time, so they begin at different
 * CPUs, if there are enough: the first of them at the next CPU that is not near, the second at
 * the one after that, and so on.
 */
static unsigned int pool_far_begin(unsigned int home, const struct cpumask *pod)
{
	const struct cpumask *near = per_cpu(wq_cpus_near, home);
	unsigned int nr = cpumask_weight_andnot(pod, near), ahead;

	if (!nr)
		return nr_cpu_ids;
	/* no CPU before the first of @near is in @near */
	ahead = pool_cpus_before(cpumask_first(near), pod) + pool_cpus_before(home, near);
	return cpumask_nth_and_andnot(ahead % nr, pod, pod, near);
}

/* find an idle CPU of @pod behind a different cache from @home; look at a few only */
static unsigned int pool_idle_cpu_far(unsigned int home, const struct cpumask *pod)
{
	unsigned int looks = HOME_LOOKS, last = nr_cpu_ids, cpu;
	/* data_race(): the mask may change */
	unsigned int begin = data_race(pool_far_begin(home, pod));

	if (begin >= nr_cpu_ids)
		return nr_cpu_ids;

	for_each_cpu_wrap(cpu, pod, begin) {
		if (!cpu_active(cpu) || pool_cpu_is_near(home, cpu))
			continue;
		if (pool_cpu_is_of_new_core(cpu, last) && !looks--)
			break;
		last = cpu;
		if (pool_cpu_is_free(cpu, pod))
			return cpu;
	}
	return nr_cpu_ids;
}

/*
 * Where to wake a worker that would wake up on @from, though its home is @home.
 *
 * After a short run: at home, where the data of the items is.  Another CPU costs more than it
 * gains.  If home is busy, the scheduler may find an idle CPU behind the same cache, but seldom
 * looks beyond.  So a worker that slept behind another cache stays there if that CPU is idle,
 * and none of the CPUs looked at near home is.
 *
 * After a long run: on the first of these that is idle: @from if it is near home, a CPU near
 * home, @from, a CPU behind another cache; else at home.  The scheduler is not asked first: the
 * busier the CPUs of a cache are, the fewer of them it looks at, and above some load none.
 */
static unsigned int pool_cpu_of_home(unsigned int home, unsigned int from,
				     const struct cpumask *pod, bool long_run)
{
	bool from_is_near = pool_cpu_is_near(home, from);
	bool from_is_free;
	unsigned int cpu;

	if (from_is_near && !long_run)
		return home;
	from_is_free = pool_cpu_is_free(from, pod);
	if (from_is_near && from_is_free)
		return from;
	if (!from_is_free && !long_run)
		return home;

	cpu = pool_idle_cpu_near(home, pod);
	if (cpu < nr_cpu_ids)
		return long_run ? cpu : home;
	if (from_is_free)
		return from;
	cpu = pool_idle_cpu_far(home, pod);
	return cpu < nr_cpu_ids ? cpu : home;
}

/*
 * The CPU on which to wake a worker that would wake up on @cpu.  @strayed says that the
 * scheduler has moved a worker of a non-strict pool out of its pod.  A pool with a home wakes
 * its workers there, or near it: the data of the items is there.  While the home CPU is down
 * or going down, they may wake up anywhere in the pod.
 */
static unsigned int pool_wake_cpu(struct worker_pool *pool, unsigned int cpu, bool strayed,
				  bool long_run)
{
	const struct workqueue_attrs *attrs = pool->attrs;
	int home = attrs->__home_cpu;

	if (home >= 0) {
		if (pool_cpu_is_up(home))
			return pool_cpu_of_home(home, cpu, attrs->__pod_cpumask, long_run);
		if (strayed || !pool_cpu_is_up(cpu))
			return pool_any_cpu(attrs->__pod_cpumask);
	}
	if (!strayed)
		return cpu;
	return pool_any_cpu(attrs->__pod_cpumask);
}

/* let @task, which would wake up on CPU @from, wake up where pool_wake_cpu() says; return it */
static noinline struct task_struct *worker_send_home(struct worker_pool *pool,
						     struct task_struct *task,
						     unsigned int from, bool strayed,
						     bool long_run)
{
	unsigned int to = pool_wake_cpu(pool, from, strayed, long_run);
	struct work_struct *work;

	if (to == from || to >= nr_cpu_ids)
		return task;

	WRITE_ONCE(task->wake_cpu, to);
	if (strayed) {
		work = list_first_entry(&pool->worklist, struct work_struct, entry);
		get_work_pwq(work)->stats[PWQ_STAT_REPATRIATED]++;
	}
	return task;
}

/*
 * Did idle @worker compute for long when it last ran?  L.  The clock of a task is brought up
 * to date when it sleeps, and now and then while it runs, at ticks for instance.  So this
 * covers the last item, and the items before it since the previous update.
 */
static bool worker_ran_long(struct worker *worker)
{
	u64 us = READ_ONCE(wq_long_run_us);

	/*
	 * data_race(): nothing orders this with the update of the clock.  A wrong answer
	 * misleads this wake-up only.
	 */
	return us && data_race(worker->task->se.sum_exec_runtime) - worker->current_at >=
		     us * NSEC_PER_USEC;
}

/*
 * Choose where @worker wakes up: moving it is cheapest now.  One that is still on a run queue
 * went idle only just now, or the scheduler has delayed its dequeueing.  It normally stays on
 * that CPU, whatever wake_cpu says, so leave wake_cpu alone.  Return its task.
 */
static struct task_struct *worker_repatriate(struct worker_pool *pool, struct worker *worker)
{
	const struct workqueue_attrs *attrs = pool->attrs;
	struct task_struct *task = worker->task;
	unsigned int from = READ_ONCE(task->wake_cpu);
	int home = attrs->__home_cpu;
	bool strayed, long_run;

	if (READ_ONCE(task->on_rq))
		return task;
	long_run = home >= 0 && worker_ran_long(worker);
	/* most workers slept where the next item comes from */
	if (home >= 0 && from == home && !long_run && pool_cpu_is_up(home))
		return task;
	strayed = !attrs->affn_strict && !cpumask_test_cpu(from, attrs->__pod_cpumask);
	if (home >= 0 || strayed)
		return worker_send_home(pool, task, from, strayed, long_run);
	return task;
}
#else
static struct task_struct *worker_repatriate(struct worker_pool *pool, struct worker *worker)
{
	return worker->task;
}
#endif

/* @pool has no idle worker: somebody else sees to that, unless the pool is cold; L */
static noinline void pool_warm_up_if_cold(struct worker_pool *pool)
{
	if (!pool->nr_workers && pool_may_be_cold(pool))
		pool_warm_up(pool);
}

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

/**
 * pool_pick_worker - choose the worker that kick_pool() wakes
 * @pool: the pool, locked, which needs one
 *
 * If the pool has idle workers, choose the one that went idle last: its
 * stack and its CPU's caches are still warm.  If it was woken before and has not yet taken the
 * lock, as when many items are queued in a row, it need not be woken again.  The softirq of a BH
 * pool is raised at once, and the thread that makes the first worker of a cold pool is woken
 * at once.
 *
 * The choice cannot get lost between the unlock and the wake-up.  If the worker is awake
 * by then, or asleep again, it looks at the worklist after the choice.  It may even have been
 * told to end.  Then others went idle in front of it: they saw the worklist empty, or another
 * worker running, or they are new and whoever made them wakes them.  If a manager was counted
 * as idle, too, it looks at the worklist afterwards.  Or the pool is one that may be cold, or
 * that nobody uses any more, and its worklist was empty: then all its workers may be told to
 * end.
 *
 * Return: the task to wake after dropping the lock with interrupts still off,
 * see pool_unlock_wake(), or %NULL.
 */
struct task_struct *pool_pick_worker(struct worker_pool *pool)
{
	struct worker *worker;

	if (list_empty(&pool->idle_list)) {
		pool_warm_up_if_cold(pool);
		return NULL;
	}
	worker = list_first_entry(&pool->idle_list, struct worker, entry);
	if (pool->flags & POOL_BH)
		return kick_bh_pool(pool);

	pool->last_woken_worker = worker;
	return worker_is_awake(worker) ? NULL : worker_repatriate(pool, worker);
}
