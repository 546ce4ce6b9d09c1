// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for the workqueue API suites.
 *
 * A case that fails must neither hang nor take the machine down. So every wait has a
 * limit, and any call that could block runs in a thread of its own. After the case,
 * whatever it created is taken down in this order: gates opened, threads joined,
 * workqueues destroyed, memory freed. If one of these steps hangs, the rest is left
 * alone, and the module stays loaded because threads may still run in it.
 */
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "wq_api.h"

static bool base_bugs;
module_param(base_bugs, bool, 0444);
MODULE_PARM_DESC(base_bugs, "On the base kernel, also run cases that it is known to fail (default N)");

struct wq_api_block {
	struct list_head node;
	u64 data[];
};

struct wq_api_array {
	struct list_head node;
	struct wq_api_item *items;
	int nr;
};

static const struct wq_api_kind kinds[] = {
	{ "percpu", WQ_PERCPU, .few = true },
	{ "percpu_highpri", WQ_PERCPU | WQ_HIGHPRI },
	{ "percpu_cpu_intensive", WQ_PERCPU | WQ_CPU_INTENSIVE },
	{ "percpu_mem_reclaim", WQ_PERCPU | WQ_MEM_RECLAIM },
	{ "percpu_ordered", WQ_PERCPU | __WQ_ORDERED },
	{ "power_efficient", WQ_PERCPU | WQ_POWER_EFFICIENT },
	{ "unbound", WQ_UNBOUND, .few = true },
	{ "unbound_highpri", WQ_UNBOUND | WQ_HIGHPRI },
	{ "unbound_mem_reclaim", WQ_UNBOUND | WQ_MEM_RECLAIM },
	{ "freezable", WQ_UNBOUND | WQ_FREEZABLE },
	{ "ordered", 0, .ordered = true },
	{ "ordered_mem_reclaim", WQ_MEM_RECLAIM, .ordered = true, .few = true },
	/* the kinds above run in threads, those below in the softirq */
	{ "bh", WQ_PERCPU | WQ_BH },
	{ "bh_highpri", WQ_PERCPU | WQ_BH | WQ_HIGHPRI },
};

/* skip a case that the base kernel fails, unless the user wants to see it fail */
void wq_api_skip_on_base(struct kunit *test, const char *why)
{
#ifndef CONFIG_WORKQUEUE_CMWQ
	if (!base_bugs)
		kunit_skip(test, "%s", why);
#endif
}

/* skip a case that is about warnings if this kernel's KUnit cannot suppress them */
void wq_api_will_warn(struct kunit *test)
{
	if (!WQ_API_CAN_SUPPRESS)
		kunit_skip(test, "this KUnit cannot suppress warnings");
}

const struct wq_api_kind *wq_api_next_kind(const struct wq_api_kind *prev, char *desc)
{
	const struct wq_api_kind *kind = prev ? prev + 1 : kinds;

	if (kind == kinds + ARRAY_SIZE(kinds))
		return NULL;
	strscpy(desc, kind->name, KUNIT_PARAM_DESC_SIZE);
	return kind;
}

WQ_API_GENERATOR(wq_api_all_kinds)
{
	return wq_api_next_kind(prev, desc);
}

WQ_API_GENERATOR(wq_api_thread_kinds)
{
	const struct wq_api_kind *kind = wq_api_next_kind(prev, desc);

	return kind && !(kind->flags & WQ_BH) ? kind : NULL;
}

WQ_API_GENERATOR(wq_api_few_kinds)
{
	const struct wq_api_kind *kind = prev;

	do {
		kind = wq_api_next_kind(kind, desc);
	} while (kind && !kind->few);
	return kind;
}

int wq_api_init(struct kunit *test)
{
	struct wq_api_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	INIT_LIST_HEAD(&ctx->blocks);
	INIT_LIST_HEAD(&ctx->calls);
	INIT_LIST_HEAD(&ctx->arrays);
	test->priv = ctx;
	return 0;
}

static void open_gates(struct wq_api_ctx *ctx)
{
	struct wq_api_array *array;
	int i;

	list_for_each_entry(array, &ctx->arrays, node)
		for (i = 0; i < array->nr; i++)
			complete_all(&array->items[i].gate);
}

static bool join_calls(struct wq_api_ctx *ctx)
{
	struct wq_api_call *call, *tmp;

	list_for_each_entry_safe(call, tmp, &ctx->calls, node) {
		if (!wait_for_completion_timeout(&call->done, WQ_API_TIMEOUT))
			return false;
		kthread_stop(call->task);
		list_del(&call->node);
		kfree(call);
	}
	return true;
}

static int destroy_fn(void *wq)
{
	destroy_workqueue(wq);
	return 0;
}

/* Stop the timers first: destroying a workqueue does not, and then they would queue on it. */
static int take_down_fn(void *arg)
{
	struct wq_api_ctx *ctx = arg;
	struct wq_api_array *array;
	int i;

	list_for_each_entry(array, &ctx->arrays, node)
		for (i = 0; i < array->nr; i++)
			cancel_delayed_work_sync(&array->items[i].dwork);
	for (i = 0; i < WQ_API_MAX_WQS; i++)
		if (ctx->wqs[i])
			destroy_workqueue(ctx->wqs[i]);
	return 0;
}

/* Keep the code and the data while a thread hangs in the code. */
static void leave_behind(struct kunit *test, const char *what)
{
	kunit_err(test, "%s hangs; what it uses stays allocated\n", what);
	__module_get(THIS_MODULE);
}

void wq_api_exit(struct kunit *test)
{
	struct wq_api_ctx *ctx = test->priv;
	struct wq_api_block *block, *tmp;

	if (!ctx)
		return;
	open_gates(ctx);
	if (!join_calls(ctx))
		return leave_behind(test, "a helper thread");
	wq_api_call(test, -1, take_down_fn, ctx);
	if (!join_calls(ctx))
		return leave_behind(test, "cancelling or destroying");
	list_for_each_entry_safe(block, tmp, &ctx->blocks, node)
		kvfree(block);
	kfree(ctx);
	test->priv = NULL;
}

/* Fail the case with @what and end it; never returns. */
void wq_api_stuck(struct kunit *test, const char *what)
{
	KUNIT_FAIL_AND_ABORT(test, "%s", what);
}

void *wq_api_zalloc(struct kunit *test, size_t size)
{
	struct wq_api_ctx *ctx = test->priv;
	struct wq_api_block *block = kvzalloc(sizeof(*block) + size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, block);
	list_add(&block->node, &ctx->blocks);
	return block->data;
}

static struct workqueue_struct *track(struct kunit *test,
				      struct workqueue_struct *wq)
{
	struct wq_api_ctx *ctx = test->priv;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	for (i = 0; i < WQ_API_MAX_WQS; i++) {
		if (!ctx->wqs[i]) {
			ctx->wqs[i] = wq;
			return wq;
		}
	}
	destroy_workqueue(wq);
	KUNIT_FAIL_AND_ABORT(test, "more workqueues than WQ_API_MAX_WQS");
	return NULL;
}

static void set_class(struct work_struct *work, bool bh)
{
#ifdef CONFIG_LOCKDEP
	static struct lock_class_key bh_key, thread_key;

	lockdep_init_map(&work->lockdep_map, bh ? "wq_api_bh_item" : "wq_api_item",
			 bh ? &bh_key : &thread_key, 0);
#endif
}

/*
 * Each place that initialises items is one lock class. Items that run in softirq need
 * a different class from those in threads, or lockdep mixes up the two. If a case runs
 * with all kinds, call this for its item after its workqueue was made.
 */
void wq_api_set_class(struct kunit *test, struct work_struct *work)
{
	struct wq_api_ctx *ctx = test->priv;

	set_class(work, ctx->bh);
}

static void array_set_class(struct wq_api_array *array, bool bh)
{
	int i;

	for (i = 0; i < array->nr; i++)
		set_class(wq_api_work(&array->items[i]), bh);
}

/* From now on the case's items, all idle, are for a workqueue with @flags. */
void wq_api_items_are_for(struct kunit *test, unsigned int flags)
{
	struct wq_api_ctx *ctx = test->priv;
	struct wq_api_array *array;
	bool bh = flags & WQ_BH;

	if (ctx->bh == bh)
		return;
	ctx->bh = bh;
	list_for_each_entry(array, &ctx->arrays, node)
		array_set_class(array, bh);
}

/* A workqueue that is destroyed when the case is over. */
struct workqueue_struct *wq_api_wq(struct kunit *test, unsigned int flags,
				   int max_active)
{
	wq_api_items_are_for(test, flags);
	return track(test, alloc_workqueue("wq_api", flags, max_active));
}

/* A workqueue of the kind that is the case's parameter. */
struct workqueue_struct *wq_api_wq_kind(struct kunit *test)
{
	const struct wq_api_kind *kind = test->param_value;

	/* a flag for internal use, which some drivers take nevertheless */
	if (kind->flags & __WQ_ORDERED)
		wq_api_skip_on_base(test, "the base kernel may run its items twice at a time");
	wq_api_items_are_for(test, kind->flags);
	if (kind->ordered)
		return track(test, alloc_ordered_workqueue("wq_api_%s", kind->flags,
							   kind->name));
	return track(test, alloc_workqueue("wq_api_%s", kind->flags, 0, kind->name));
}

/* Do not destroy @wq after the case: the case does that itself. */
void wq_api_forget(struct kunit *test, struct workqueue_struct *wq)
{
	struct wq_api_ctx *ctx = test->priv;
	int i;

	for (i = 0; i < WQ_API_MAX_WQS; i++)
		if (ctx->wqs[i] == wq)
			ctx->wqs[i] = NULL;
}

void wq_api_destroy(struct kunit *test, struct workqueue_struct *wq)
{
	wq_api_forget(test, wq);
	wq_api_call_result(test, wq_api_call(test, -1, destroy_fn, wq));
}

int wq_api_stamp(struct wq_api_ctx *ctx)
{
	return atomic_inc_return(&ctx->clock);
}

void wq_api_burn(unsigned int us)
{
	u64 end = ktime_get_ns() + us * NSEC_PER_USEC;

	while (ktime_get_ns() < end)
		cpu_relax();
}

static void enter(struct wq_api_item *item)
{
	struct wq_api_ctx *ctx = item->ctx;
	int now = atomic_inc_return(&ctx->inside);
	int peak = atomic_read(&ctx->peak);

	while (now > peak && !atomic_try_cmpxchg(&ctx->peak, &peak, now))
		;
	if (!wq_tally_begins(&item->inside))
		WRITE_ONCE(item->reentered, true);
}

static void item_fn(struct work_struct *work)
{
	struct wq_api_item *item = to_wq_api_item(work);
	struct wq_api_ctx *ctx = item->ctx;
	u64 charged = current->se.sum_exec_runtime;
	u64 began = ktime_get_ns();

	enter(item);
	item->cpu = raw_smp_processor_id();
	item->nice = task_nice(current);
	item->worker = current;
	item->start_jiffies = jiffies;
	item->start = wq_api_stamp(ctx);
	atomic_inc(&item->runs);
	complete(&item->started);

	if (item->body)
		item->body(item);
	item->busy_ns = ktime_get_ns() - began;
	item->charged_ns = current->se.sum_exec_runtime - charged;
	if (item->gated) {
		item->sleep = wq_api_stamp(ctx);
		if (!wait_for_completion_timeout(&item->gate, 2 * WQ_API_TIMEOUT))
			item->gave_up = true;
	}

	wq_tally_ends(&item->inside);
	atomic_dec(&ctx->inside);
	item->end = wq_api_stamp(ctx);
	complete(&item->finished);
}

/* Items of the case, freed after its workqueues are gone. */
struct wq_api_item *wq_api_items(struct kunit *test, int nr)
{
	struct wq_api_array *array = wq_api_zalloc(test, sizeof(*array));
	struct wq_api_ctx *ctx = test->priv;
	struct wq_api_item *items = wq_api_zalloc(test, nr * sizeof(*items));
	int i;

	for (i = 0; i < nr; i++) {
		items[i].ctx = ctx;
		INIT_DELAYED_WORK(&items[i].dwork, item_fn);
		init_completion(&items[i].gate);
		init_completion(&items[i].started);
		init_completion(&items[i].finished);
	}
	array->items = items;
	array->nr = nr;
	array_set_class(array, ctx->bh);
	list_add(&array->node, &ctx->arrays);
	return items;
}

/* Make finished items ready for another round. */
void wq_api_rearm(struct wq_api_item *items, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		/* the item has finished, but its function may not have returned yet */
		flush_work(wq_api_work(&items[i]));
		reinit_completion(&items[i].gate);
		reinit_completion(&items[i].started);
		reinit_completion(&items[i].finished);
		items[i].start = 0;
		items[i].sleep = 0;
		items[i].end = 0;
	}
}

bool wq_api_was_quiet(const struct wq_api_item *items, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		if (items[i].busy_ns > WQ_API_QUIET_NS ||
		    items[i].charged_ns > WQ_API_QUIET_NS)
			return false;
	return true;
}

void wq_api_wait(struct kunit *test, struct completion *done, const char *what)
{
	if (!wait_for_completion_timeout(done, WQ_API_TIMEOUT))
		wq_api_stuck(test, what);
}

/* The first item holds @cpu's only slot until its gate opens. The second waits for the slot. */
void wq_api_congests(struct kunit *test, struct workqueue_struct *wq, int cpu,
		     struct wq_api_item *items)
{
	items[0].gated = true;
	queue_work_on(cpu, wq, wq_api_work(&items[0]));
	wq_api_wait(test, &items[0].started, "the blocker starts");
	KUNIT_EXPECT_FALSE(test, workqueue_congested(cpu, wq));
	queue_work_on(cpu, wq, wq_api_work(&items[1]));
	KUNIT_EXPECT_TRUE(test, workqueue_congested(cpu, wq));
}

static int call_thread(void *arg)
{
	struct wq_api_call *call = arg;

	WRITE_ONCE(call->entered, true);
	call->ret = call->fn(call->arg);
	complete_all(&call->done);

	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Run @fn(@arg) in a thread, on @cpu unless that is negative. */
struct wq_api_call *wq_api_call(struct kunit *test, int cpu,
				int (*fn)(void *arg), void *arg)
{
	struct wq_api_ctx *ctx = test->priv;
	struct wq_api_call *call = kzalloc(sizeof(*call), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, call);
	call->fn = fn;
	call->arg = arg;
	init_completion(&call->done);
	call->task = kthread_create(call_thread, call, "wq_api_call");
	if (IS_ERR(call->task)) {
		kfree(call);
		KUNIT_FAIL_AND_ABORT(test, "no helper thread");
	}
	if (cpu >= 0)
		kthread_bind(call->task, cpu);
	list_add_tail(&call->node, &ctx->calls);
	wake_up_process(call->task);
	return call;
}

/*
 * Wait until the thread sleeps in the function that it calls. None of these functions
 * sleeps before it has taken effect. So after this, a flusher waits, and a drainer has
 * made the workqueue refuse items of others.
 */
void wq_api_call_blocks(struct kunit *test, struct wq_api_call *call)
{
	wq_api_until(test, completion_done(&call->done) ||
		     (READ_ONCE(call->entered) &&
		      READ_ONCE(call->task->__state) == TASK_UNINTERRUPTIBLE));
	KUNIT_ASSERT_FALSE_MSG(test, completion_done(&call->done),
			       "%ps returned without waiting", call->fn);
}

int wq_api_call_result(struct kunit *test, struct wq_api_call *call)
{
	if (!wait_for_completion_timeout(&call->done, WQ_API_TIMEOUT))
		KUNIT_FAIL_AND_ABORT(test, "%ps does not return", call->fn);
	return call->ret;
}

int wq_api_flush_fn(void *wq)
{
	__flush_workqueue(wq);
	return 0;
}

int wq_api_flush_work_fn(void *work)
{
	return flush_work(work);
}

/* Call @fn on @cpu in hard interrupt context, or at least with interrupts off. */
void wq_api_on_cpu(int cpu, void (*fn)(void *arg), void *arg)
{
	smp_call_function_single(cpu, fn, arg, true);
}

struct batch {
	struct workqueue_struct *wq;
	struct wq_api_item *items;
	int nr;
};

static void queue_batch(void *arg)
{
	struct batch *batch = arg;
	int i;

	for (i = 0; i < batch->nr; i++)
		queue_work(batch->wq, wq_api_work(&batch->items[i]));
}

/* Queue all items on @cpu, in order, before any of them can start there. */
void wq_api_queue_batch(int cpu, struct workqueue_struct *wq,
			struct wq_api_item *items, int nr)
{
	struct batch batch = { wq, items, nr };

	wq_api_on_cpu(cpu, queue_batch, &batch);
}

/* The nth online CPU; starts again from the first if there are fewer. */
int wq_api_cpu(int nth)
{
	return cpumask_nth(nth % num_online_cpus(), cpu_online_mask);
}

struct fence {
	struct work_struct work;
	struct completion done;
};

static void fence_fn(struct work_struct *work)
{
	complete(&container_of(work, struct fence, work)->done);
}

/*
 * When this returns, all items that were on the worklist of @cpu's normal pool, or of
 * the unbound pool that serves @cpu by default, have started: pools start items in
 * order, and those of the fence were queued last. The fence is queued twice, since a
 * worker takes an item off the list a moment before the item stamps its start.
 */
void wq_api_fence(struct kunit *test, int cpu)
{
	struct fence *fence = wq_api_zalloc(test, 4 * sizeof(*fence));
	int i;

	for (i = 0; i < 4; i++) {
		INIT_WORK(&fence[i].work, fence_fn);
		init_completion(&fence[i].done);
		queue_work_on(cpu, i & 1 ? system_dfl_wq : system_percpu_wq,
			      &fence[i].work);
		wq_api_wait(test, &fence[i].done, "the pool comes to the fence");
	}
	/* the items are freed after the case, so their functions have to return first */
	for (i = 0; i < 4; i++)
		flush_work(&fence[i].work);
}

kunit_test_suites(&wq_api_item_suite, &wq_api_delayed_suite,
		  &wq_api_active_suite, &wq_api_flush_suite,
		  &wq_api_cancel_suite, &wq_api_bh_suite, &wq_api_misc_suite);

MODULE_DESCRIPTION("KUnit tests for the workqueue interface");
MODULE_LICENSE("GPL");
