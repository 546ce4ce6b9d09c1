// SPDX-License-Identifier: GPL-2.0
/*
 * Cancel many items before they run, then run some
 *
 * What pairs the tracepoints of a work item by its address has an entry for each of the first.
 * See reproduce.sh.
 */
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static unsigned int cancelled = 20000;
module_param(cancelled, uint, 0444);
static unsigned int run = 1000;
module_param(run, uint, 0444);

static DECLARE_COMPLETION(go_on);

static void wait_fn(struct work_struct *work)
{
	wait_for_completion(&go_on);
}

static void nop_fn(struct work_struct *work)
{
}

static DECLARE_WORK(holder, wait_fn);

/* All items are held back behind the first one, so each is cancelled before it runs. */
static unsigned int queue_and_cancel(struct workqueue_struct *wq, struct work_struct *items)
{
	unsigned int i, count = 0;

	queue_work(wq, &holder);
	for (i = 0; i < cancelled; i++)
		queue_work(wq, &items[i]);
	for (i = 0; i < cancelled; i++)
		count += cancel_work(&items[i]);
	complete(&go_on);
	flush_workqueue(wq);
	return count;
}

static int __init wqcancel_init(void)
{
	unsigned int i, count;
	struct work_struct *items = vcalloc(cancelled + run, sizeof(*items));
	struct workqueue_struct *wq = alloc_workqueue("wqcancel", WQ_UNBOUND, 1);

	if (!items || !wq) {
		if (wq)
			destroy_workqueue(wq);
		vfree(items);
		return -ENOMEM;
	}
	for (i = 0; i < cancelled + run; i++)
		INIT_WORK(&items[i], nop_fn);
	count = queue_and_cancel(wq, items);
	for (i = cancelled; i < cancelled + run; i++)
		queue_work(wq, &items[i]);
	destroy_workqueue(wq);
	vfree(items);
	pr_info("wqcancel: %u items were cancelled, then %u ran\n", count, run);
	return 0;
}

/* Without this, it could not be removed. */
static void __exit wqcancel_exit(void)
{
}

module_init(wqcancel_init);
module_exit(wqcancel_exit);
MODULE_DESCRIPTION("Cancel many work items, then run some");
MODULE_LICENSE("GPL");
