// SPDX-License-Identifier: GPL-2.0
/*
 * The benchmark module on a workqueue that breaks its promises on purpose.
 *
 * tests/guest/test_bench_faults.py builds this with the other files of the module, loads it
 * with each fault in turn and expects the benchmark to count what was done to it: exactly,
 * where the fault strikes an exact number of times.
 */
#include <linux/cpumask.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/workqueue.h>

static bool faulty_queue_work(struct workqueue_struct *wq, struct work_struct *work);
static bool faulty_queue_probe(struct workqueue_struct *wq, struct work_struct *work);

/* the probe's timer, of which each file has its own copy: this one is that of wqbench_setup.c */
#define queue_work faulty_queue_probe
#include "wq_ticker.h"
#undef queue_work
#include "wqbench_setup.c"

#define queue_work faulty_queue_work
#include "wqbench_item.c"
#undef queue_work

static void faulty_run_item(struct bench_item *item);

#define bench_run_item faulty_run_item
#include "wqbench_floor.c"
#undef bench_run_item

static char *fault = "none";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "lose, twice, outside, refuse, probe or none");

static int every = 1000;
module_param(every, int, 0444);
MODULE_PARM_DESC(every, "strike at one in this many calls");

static atomic_t faulty_calls = ATOMIC_INIT(0);

static bool faulty_outside(struct workqueue_struct *wq, struct work_struct *work)
{
	unsigned int other = cpumask_next(raw_smp_processor_id(), cpu_online_mask);

	if (other >= nr_cpu_ids)
		other = cpumask_first(cpu_online_mask);
	return queue_work_on(other, wq, work);
}

static bool faulty_queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	bool ret;

	/*
	 * If an item is queued while it still runs, the same worker runs it again. After a run
	 * on a wrong CPU, later runs would then be there, too. So wait until the run has ended.
	 */
	if (!strcmp(fault, "outside"))
		flush_work(work);

	if (atomic_inc_return(&faulty_calls) % every)
		return queue_work(wq, work);

	if (!strcmp(fault, "lose"))
		return true;
	if (!strcmp(fault, "refuse"))
		return false;
	if (!strcmp(fault, "outside"))
		return faulty_outside(wq, work);

	ret = queue_work(wq, work);
	if (!strcmp(fault, "twice")) {
		flush_work(work);
		queue_work(wq, work);
		flush_work(work);
	}
	return ret;
}

/* Called by a partner. */
static void faulty_run_item(struct bench_item *item)
{
	bool strikes = atomic_inc_return(&faulty_calls) % every == 0;

	if (strikes && !strcmp(fault, "lose"))
		return;
	/* In this order, the thread does not go on before both runs are over. */
	if (strikes && !strcmp(fault, "twice")) {
		atomic_set(&item->owed, 0);
		bench_run_item(item);
		atomic_set(&item->owed, 1);
	}
	bench_run_item(item);
}

/* Called by a timer. */
static bool faulty_queue_probe(struct workqueue_struct *wq, struct work_struct *work)
{
	return !strcmp(fault, "probe") || queue_work(wq, work);
}
