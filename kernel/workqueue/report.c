// SPDX-License-Identifier: GPL-2.0
/*
 * Reports: dumps of workqueues and pools for sysrq-t and the watchdog, and what a worker is
 * doing for stack dumps and ps.
 *
 * Scripts read the dumps, so their format stays.  The dumps print under pool->lock.
 * A console driver may queue work while it holds a lock that it takes again to print,
 * so what is printed under pool->lock is deferred.  Much may be printed with interrupts
 * off, hence the touches of the hard lockup detector.
 */
#include <linux/nmi.h>
#include <linux/pid.h>
#include <linux/uaccess.h>

#include "flush.h"
#include "running.h"
#include "worklist.h"
#include "workqueues.h"

static const char *bh_name(const struct worker_pool *pool)
{
	return pool->attrs->nice < 0 ? "bh-hi" : "bh";
}

static unsigned int secs_since(unsigned long stamp)
{
	return jiffies_to_msecs(jiffies - stamp) / MSEC_PER_SEC;
}

/* the kind of a pool, to be printed after its CPUs in all reports */
const char *pool_desc(char buf[POOL_DESC_LEN], const struct worker_pool *pool)
{
	int len = 0;

	if (pool->node != NUMA_NO_NODE)
		len += scnprintf(buf, POOL_DESC_LEN, " node=%d", pool->node);
	len += scnprintf(buf + len, POOL_DESC_LEN - len, " flags=0x%x", pool->flags);
	if (pool->flags & POOL_BH)
		scnprintf(buf + len, POOL_DESC_LEN - len, " %s", bh_name(pool));
	else
		len += scnprintf(buf + len, POOL_DESC_LEN - len, " nice=%d", pool->attrs->nice);
	if (pool->own_cpu >= 0)
		scnprintf(buf + len, POOL_DESC_LEN - len, " own=%d", pool->own_cpu);
	return buf;
}

/*
 * The line that is being put together.  It is logged in one piece, so that messages of
 * other CPUs do not tear it apart.  There is only one such line.  It is static and not on
 * the stack, since a dump may run in an interrupt that came when the stack was nearly full.
 */
static DEFINE_RAW_SPINLOCK(line_lock);		/* nests in pool->lock */
static char line[1000];				/* line_lock; fits a log record */
static size_t line_len;				/* line_lock */

static void line_end(void)
{
	if (line_len)
		pr_info("%.*s\n", (int)line_len, line);
	line_len = 0;
}

/* text that does not fit in the line starts a new one */
static __printf(1, 2) void line_add(const char *fmt, ...)
{
	size_t room = sizeof(line) - line_len;
	va_list args, again;
	size_t len;

	lockdep_assert_held(&line_lock);

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(line + line_len, room, fmt, args);
	if (len >= room) {
		line_end();
		len = vscnprintf(line, sizeof(line), fmt, again);
	}
	line_len += len;
	va_end(again);
	va_end(args);
}

#define WORKER_NAME_LEN	24

static const char *worker_name(char buf[WORKER_NAME_LEN], const struct worker *worker)
{
	if (worker->pool->flags & POOL_BH)
		return bh_name(worker->pool);
	scnprintf(buf, WORKER_NAME_LEN, "%d%s", task_pid_nr(worker->task),
		  worker->rescue_wq ? "(RESCUER)" : "");
	return buf;
}

/*
 * Consecutive items with the same function, which print as one: "3*foo".  An item that
 * is linked to the one before it prints alone and without a comma.
 */
struct item_run {
	work_func_t func;
	unsigned long nr;
	const char *comma;
};

static void add_run(struct item_run *run)
{
	if (run->nr > 1)
		line_add("%s %lu*%ps", run->comma, run->nr, run->func);
	else if (run->nr)
		line_add("%s %ps", run->comma, run->func);
	run->nr = 0;
}

static void add_item(struct item_run *run, struct work_struct *work, bool alone)
{
	const char *comma = alone ? "" : ",";

	if (run->nr && !alone && work->func == run->func) {
		run->nr++;
		return;
	}

	add_run(run);
	if (work->func == wq_barrier_func) {
		struct wq_barrier *barr = container_of(work, struct wq_barrier, work);

		line_add("%s BAR(%d)", comma, task_pid_nr(barr->task));
		return;
	}
	*run = (struct item_run){ .func = work->func, .nr = 1, .comma = comma };
}

/* print those items of a list that belong to @pwq, if any */
static void show_items(const char *what, struct list_head *items, struct pool_workqueue *pwq)
{
	struct item_run run = {};
	struct work_struct *work;
	bool linked = true;

	guard(raw_spinlock)(&line_lock);

	list_for_each_entry(work, items, entry) {
		unsigned long data = work_data(work);

		if (data_pwq(data) != pwq || work_is_cursor(work))
			continue;
		if (!line_len)
			line_add("    %s:", what);
		add_item(&run, work, linked);
		linked = data & WORK_STRUCT_LINKED;
	}
	add_run(&run);
	line_end();
}

/* print the workers that run items of @pwq, if any, and what waits for each */
static void show_running(struct pool_workqueue *pwq)
{
	const char *before = "    in-flight: ";
	char name[WORKER_NAME_LEN];
	struct work_struct *work;
	struct worker *worker;
	int bkt;

	guard(raw_spinlock)(&line_lock);

	hash_for_each(pwq->pool->busy_hash, bkt, worker, hentry) {
		struct item_run run = {};

		if (worker->current_pwq != pwq)
			continue;

		line_add("%s%s:%ps for %us", before, worker_name(name, worker),
			 worker->current_func, secs_since(worker->current_start));
		list_for_each_entry(work, &worker->scheduled, entry)
			add_item(&run, work, true);
		add_run(&run);
		before = " ,";
	}
	line_end();
}

/* log what is in flight, pending and held back in a pwq; L */
void show_pwq(struct pool_workqueue *pwq)
{
	struct worker_pool *pool = pwq->pool;
	char desc[POOL_DESC_LEN];

	lockdep_assert_held(&pool->lock);

	guard(printk_deferred)();
	pr_info("  pwq %d: cpus=%*pbl%s active=%d refcnt=%d%s\n", pool->id,
		cpumask_pr_args(pool->attrs->cpumask), pool_desc(desc, pool),
		pwq->nr_active, pwq->refcnt, list_empty(&pwq->mayday_node) ? "" : " MAYDAY");
	show_running(pwq);
	show_items("pending", &pool->worklist, pwq);
	show_items("inactive", &pwq->inactive_works, pwq);
}

static bool wq_is_idle(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	for_each_pwq(pwq, wq)
		/* the answer is a snapshot, with or without the lock */
		if (!data_race(pwq_is_empty(pwq)))
			return false;
	return true;
}

/**
 * show_one_workqueue - log a workqueue's items if it has any
 * @wq: the workqueue, which must not go away meanwhile
 *
 * Context: any but NMI.
 */
void show_one_workqueue(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;

	guard(rcu)();

	if (wq_is_idle(wq))
		return;

	pr_info("workqueue %s: flags=0x%x\n", wq->name, READ_ONCE(wq->flags));

	for_each_pwq(pwq, wq) {
		scoped_guard(raw_spinlock_irqsave, &pwq->pool->lock)
			if (!pwq_is_empty(pwq))
				show_pwq(pwq);
		touch_nmi_watchdog();
	}
}

static void show_workers(struct worker_pool *pool)
{
	const char *before = " idle: ";
	char name[WORKER_NAME_LEN];
	char desc[POOL_DESC_LEN];
	struct worker *worker;
	unsigned int hung = 0;

	/* how long the first item has been waiting for a worker */
	if (!list_empty(&pool->worklist))
		hung = secs_since(pool->last_progress_ts);

	guard(raw_spinlock)(&line_lock);

	line_add("pool %d: cpus=%*pbl%s hung=%us workers=%d", pool->id,
		 cpumask_pr_args(pool->attrs->cpumask), pool_desc(desc, pool),
		 hung, pool->nr_workers);
	if (pool->manager)
		line_add(" manager: %d", task_pid_nr(pool->manager->task));
	list_for_each_entry(worker, &pool->idle_list, entry) {
		line_add("%s%s", before, worker_name(name, worker));
		before = " ";
	}
	line_end();
}

/* log a pool's workers, unless all are idle or none is needed */
static void show_one_worker_pool(struct worker_pool *pool)
{
	scoped_guard(raw_spinlock_irqsave, &pool->lock) {
		guard(printk_deferred)();
		if (pool->nr_idle != pool->nr_workers ||
		    (!pool->nr_workers && need_more_worker(pool)))
			show_workers(pool);
	}
	touch_nmi_watchdog();
}

/**
 * show_all_workqueues - log every workqueue and pool with something to do
 *
 * Context: any but NMI; sysrq-t and the watchdog call this from interrupts.
 */
void show_all_workqueues(void)
{
	struct workqueue_struct *wq;
	struct worker_pool *pool;
	int id;

	guard(rcu)();

	pr_info("Showing busy workqueues and worker pools:\n");
	list_for_each_entry_rcu(wq, &workqueues, list)
		show_one_workqueue(wq);
	for_each_pool(pool, id)
		show_one_worker_pool(pool);
}

/**
 * show_freezable_workqueues - log the freezable workqueues that are not idle yet
 *
 * Context: any but NMI; the freezer calls this when freezing takes too long.
 */
void show_freezable_workqueues(void)
{
	struct workqueue_struct *wq;

	guard(rcu)();

	pr_info("Showing freezable workqueues that are still busy:\n");
	list_for_each_entry_rcu(wq, &workqueues, list)
		if (READ_ONCE(wq->flags) & WQ_FREEZABLE)
			show_one_workqueue(wq);
}

/**
 * print_worker_info - log which item a task runs, if it is a worker
 * @log_lvl: KERN_* level
 * @task: the task; only its task_struct need be valid
 *
 * This takes no lock and trusts no pointer.  What cannot be read stays empty, and what
 * changes during the read may come out garbled.  The strings end within bounds.
 *
 * Context: any; for stack dumps of tasks in any state.
 */
void print_worker_info(const char *log_lvl, struct task_struct *task)
{
	struct pool_workqueue *pwq = NULL;
	char desc[WORKER_DESC_LEN] = {};
	struct workqueue_struct *wq;
	char name[WQ_NAME_LEN] = {};
	work_func_t func = NULL;
	struct worker *worker;

	if (!(task->flags & PF_WQ_WORKER))
		return;
	worker = kthread_probe_data(task);
	if (!worker)
		return;

	copy_from_kernel_nofault(desc, worker->desc, sizeof(desc) - 1);
	copy_from_kernel_nofault(&func, &worker->current_func, sizeof(func));
	copy_from_kernel_nofault(&pwq, &worker->current_pwq, sizeof(pwq));
	if (pwq && !copy_from_kernel_nofault(&wq, &pwq->wq, sizeof(wq)))
		copy_from_kernel_nofault(name, wq->name, sizeof(name) - 1);

	if (!func && !*name && !*desc)
		return;

	/*
	 * By default the description is the name of the workqueue: print that once.
	 * The level must be in the format, where printk() looks for it.
	 */
	if (strcmp(desc, name))
		_printk("%sWorkqueue: %s %ps (%s)\n", log_lvl, name, func, desc);
	else
		_printk("%sWorkqueue: %s %ps\n", log_lvl, name, func);
}

/**
 * wq_worker_comm - the name by which /proc shows a worker
 * @buf: where to write it
 * @size: room in @buf
 * @task: a task that was a worker when the caller looked
 *
 * This is the name of the kthread, followed by the description of the latest item after
 * "+" while the item runs, or after "-" when it has finished.
 *
 * Context: may sleep.
 */
void wq_worker_comm(char *buf, size_t size, struct task_struct *task)
{
	struct worker *worker;
	int len;

	/* while we hold this, a worker stays a worker and stays with its pool */
	guard(mutex)(&wq_pool_attach_mutex);

	if (!(task->flags & PF_WQ_WORKER)) {
		strscpy(buf, task->comm, size);
		return;
	}

	worker = kthread_data(task);
	len = format_worker_id(buf, size, worker, worker->pool);
	if (!worker->pool)
		return;

	guard(raw_spinlock_irq)(&worker->pool->lock);
	if (*worker->desc)
		scnprintf(buf + len, size - len, "%c%s",
			  worker->current_work ? '+' : '-', worker->desc);
}
