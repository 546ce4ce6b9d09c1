// SPDX-License-Identifier: GPL-2.0
/*
 * Which worker runs an item, and where
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "wqhelp.h"
#ifdef CONFIG_WORKQUEUE_CMWQ
#include "../../kernel/workqueue/workqueue_struct.h"
#endif

/* An item that records which worker ran it. */
struct wqh_probe {
	struct delayed_work	dwork;
	struct rcu_work		rwork;
	struct workqueue_struct	*wq;
	struct completion	ran;
	int			cpu;		/* the CPU that queues it, or is named */
	int			ran_on;
	pid_t			pid;
	char			comm[TASK_COMM_LEN];
	cpumask_var_t		allowed;
	bool			moves_worker;	/* to where map_far says */
};

/* let the scheduler wake this worker in another package than that of @cpu, if nobody objects */
static void wqh_move_worker(int cpu)
{
#ifdef CONFIG_SMP
	int far;

	for_each_online_cpu(far)
		if (topology_physical_package_id(far) != topology_physical_package_id(cpu))
			WRITE_ONCE(current->wake_cpu, far);
#endif
}

static void wqh_probe_ran(struct wqh_probe *probe)
{
	probe->ran_on = raw_smp_processor_id();
	probe->pid = task_pid_nr(current);
	get_task_comm(probe->comm, current);
	cpumask_copy(probe->allowed, current->cpus_ptr);
	if (probe->moves_worker)
		wqh_move_worker(probe->cpu);
	complete(&probe->ran);
}

static void wqh_probe_fn(struct work_struct *work)
{
	wqh_probe_ran(container_of(work, struct wqh_probe, dwork.work));
}

static void wqh_probe_rcu_fn(struct work_struct *work)
{
	wqh_probe_ran(container_of(work, struct wqh_probe, rwork.work));
}

static void wqh_probe_on(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_work_on(probe->cpu, probe->wq, &probe->dwork.work);
}

static void wqh_probe_here(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_work(probe->wq, &probe->dwork.work);
}

static void wqh_probe_far(void *arg)
{
	struct wqh_probe *probe = arg;

	probe->moves_worker = true;
	wqh_probe_here(probe);
}

static void wqh_probe_next_node(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_work_node(next_node_in(numa_node_id(), node_online_map), probe->wq,
			&probe->dwork.work);
}

static void wqh_probe_delayed_on(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_delayed_work_on(probe->cpu, probe->wq, &probe->dwork, 1);
}

static void wqh_probe_delayed(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_delayed_work(probe->wq, &probe->dwork, 1);
}

static void wqh_probe_rcu(void *arg)
{
	struct wqh_probe *probe = arg;

	queue_rcu_work(probe->wq, &probe->rwork);
}

/* @queue runs on the CPU of the probe, unless it @names that CPU. */
static const struct wqh_map {
	const char	*file;
	smp_call_func_t	queue;
	bool		names;
} wqh_maps[] = {
	{ "map",		wqh_probe_here },
	{ "map_on",		wqh_probe_on, true },
	{ "map_node",		wqh_probe_next_node },
	{ "map_far",		wqh_probe_far },
	{ "map_delayed",	wqh_probe_delayed },
	{ "map_delayed_on",	wqh_probe_delayed_on, true },
	{ "map_rcu",		wqh_probe_rcu },
};

static struct wqh_probe *wqh_probe_alloc(struct wqh_queue *q)
{
	struct wqh_probe *probe = kzalloc(sizeof(*probe), GFP_KERNEL);

	if (!probe)
		return NULL;
	if (!alloc_cpumask_var(&probe->allowed, GFP_KERNEL)) {
		kfree(probe);
		return NULL;
	}
	probe->wq = q->wq;
	init_completion(&probe->ran);
	if (q->flags & WQ_BH) {
		INIT_DELAYED_WORK(&probe->dwork, wqh_probe_fn);
		INIT_RCU_WORK(&probe->rwork, wqh_probe_rcu_fn);
	} else {
		INIT_DELAYED_WORK(&probe->dwork, wqh_probe_fn);
		INIT_RCU_WORK(&probe->rwork, wqh_probe_rcu_fn);
	}
	return probe;
}

/* Queue a probe for each CPU. */
static int wqh_show_probes(struct seq_file *s, struct wqh_queue *q, const struct wqh_map *map)
{
	struct wqh_probe *probe = wqh_probe_alloc(q);

	if (!probe)
		return -ENOMEM;

	for_each_online_cpu(probe->cpu) {
		if (map->names)
			map->queue(probe);
		else if (smp_call_function_single(probe->cpu, map->queue, probe, true))
			continue;	/* went down in the meantime */
		/* not freed: it may still run */
		if (!wait_for_completion_timeout(&probe->ran, WQH_SETTLE))
			return -ETIMEDOUT;
		flush_work(&probe->dwork.work);
		flush_work(&probe->rwork.work);
		seq_printf(s, "cpu=%d ran=%d pid=%d allowed=%*pbl comm=%s\n",
			   probe->cpu, probe->ran_on, probe->pid,
			   cpumask_pr_args(probe->allowed), probe->comm);
	}

	free_cpumask_var(probe->allowed);
	kfree(probe);
	return 0;
}

int wqh_show_map(struct seq_file *s, struct wqh_queue *q)
{
	const struct wqh_map *map = wqh_maps;

	while (strcmp(map->file, file_dentry(s->file)->d_name.name))
		map++;
	if (map->queue == wqh_probe_next_node && !(q->flags & WQ_UNBOUND))
		return -EINVAL;
	return wqh_show_probes(s, q, map);
}

#ifdef CONFIG_WORKQUEUE_CMWQ
/* The list is a ring: its head is not exported, but this workqueue stays on it. */
int wqh_show_workqueues(struct seq_file *s, struct wqh_queue *q)
{
	struct list_head *node;
	unsigned int nr = 0;

	guard(rcu)();
	for (node = rcu_dereference(list_next_rcu(&q->wq->list)); node != &q->wq->list;
	     node = rcu_dereference(list_next_rcu(node)))
		nr++;
	seq_printf(s, "%u\n", nr);
	return 0;
}
#endif
