// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a workqueue without items: making it, flushing it, changing its attributes,
 * destroying it, and the memory that it keeps
 *
 * As many workqueues as "batch" says exist at the same time. They have the default scope,
 * which can be changed in /sys/module/workqueue/parameters/default_affinity_scope.
 * Memory is counted for the second half of them, since the first ones may get what was
 * free in slabs and pages anyway.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "wqbench.h"

#define LIFE_CHANGES	32	/* of one workqueue */
#define LIFE_SETTLE_MS	200
#define LIFE_SETTLE_MAX	50	/* looks until memory has settled */

static void life_add(struct bench *bench, enum bench_figure figure, u64 before)
{
	wq_hist_add(bench->hist[figure], bench_ticks_to_ns(before, bench_ticks()));
	cond_resched();
}

/*
 * Memory
 */

/*
 * The bytes of all slabs that cannot be reclaimed, and of the kernel's stacks. Per-CPU memory is
 * left out: it comes in pages for each CPU, and a workqueue needs only a pointer there.
 */
static int life_memory(u64 *bytes)
{
	static const char * const names[] = { "\nSUnreclaim:", "\nKernelStack:" };
	char *buf = kmalloc(PAGE_SIZE, GFP_KERNEL);
	int ret;

	if (!buf)
		return -ENOMEM;
	/* Each CPU keeps a count of its own and adds it to the sum now and then: force that. */
	bench_write_file("/proc/sys/vm/stat_refresh", "1");
	ret = bench_read_text("/proc/meminfo", buf, PAGE_SIZE);
	*bytes = 0;
	for (unsigned int i = 0; !ret && i < ARRAY_SIZE(names); i++) {
		const char *at = strstr(buf, names[i]);
		u64 kib;

		if (at && sscanf(at + strlen(names[i]), "%llu", &kib) == 1)
			*bytes += kib * 1024;
	}
	kfree(buf);
	if (ret)
		pr_err("cannot read /proc/meminfo: %pe\n", ERR_PTR(ret));
	return ret;
}

/* Wait until other threads have freed what was destroyed, which they do after grace periods. */
static int life_settle(void)
{
	u64 before, now;
	int ret = life_memory(&now);

	for (unsigned int i = 0; !ret && i < LIFE_SETTLE_MAX; i++) {
		before = now;
		rcu_barrier();
		if (msleep_interruptible(LIFE_SETTLE_MS))
			return -EINTR;
		ret = life_memory(&now);
		if (now == before)
			break;
	}
	return ret;
}

/*
 * The steps
 */

static int life_create(struct bench *bench, struct workqueue_struct **wqs, unsigned int from,
		       unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		u64 before = bench_ticks();

		wqs[i] = bench_alloc_wq(&bench->plan, 0);
		if (!wqs[i])
			return -ENOMEM;
		life_add(bench, BENCH_CREATE, before);
		if (signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void life_flush(struct bench *bench, struct workqueue_struct **wqs)
{
	for (unsigned int i = 0; i < bench->plan.in_flight; i++) {
		u64 before = bench_ticks();

		flush_workqueue(wqs[i]);
		life_add(bench, BENCH_FLUSH, before);
	}
}

/* Changes the workqueue to the other priority and back, again and again, by its file "nice". */
static int life_write_nice(struct bench *bench, struct file *file)
{
	bool highpri = bench->plan.kind == BENCH_UNBOUND_HIGHPRI;
	int ret = 0;

	for (unsigned int i = 0; i < LIFE_CHANGES && ret >= 0; i++) {
		const char *nice = (highpri = !highpri) ? "-20" : "0";
		u64 before = bench_ticks();
		loff_t pos = 0;

		ret = kernel_write(file, nice, strlen(nice), &pos);
		life_add(bench, BENCH_CHANGE, before);
	}
	return min(ret, 0);
}

/* @keeper and the workqueues made before keep the pools of both priorities alive. */
static int life_change(struct bench *bench)
{
	bool highpri = bench->plan.kind == BENCH_UNBOUND_HIGHPRI;
	struct workqueue_struct *keeper;
	struct file *file;
	int ret;

	if (!bench_has_scopes(&bench->plan))
		return 0;
	keeper = alloc_workqueue(BENCH_WQ_NAME "_keeper",
				 WQ_UNBOUND | (highpri ? 0 : WQ_HIGHPRI), 0);
	if (!keeper)
		return -ENOMEM;
	file = filp_open(BENCH_WQ_DIR "nice", O_WRONLY, 0);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
	} else {
		ret = life_write_nice(bench, file);
		filp_close(file, NULL);
	}
	if (ret)
		pr_err("cannot write " BENCH_WQ_DIR "nice: %pe\n", ERR_PTR(ret));
	destroy_workqueue(keeper);
	return ret;
}

static void life_destroy(struct bench *bench, struct workqueue_struct **wqs)
{
	for (unsigned int i = 0; i < bench->plan.in_flight && wqs[i]; i++) {
		u64 before = bench_ticks();

		destroy_workqueue(wqs[i]);
		life_add(bench, BENCH_DESTROY, before);
		wqs[i] = NULL;
	}
}

/* The first workqueues get pages from the allocator, and later ones reuse that memory. */
static int life_warm_up(struct bench *bench, struct workqueue_struct **wqs)
{
	int ret = life_create(bench, wqs, 0, bench->plan.in_flight);

	life_destroy(bench, wqs);
	for (unsigned int i = BENCH_CREATE; i < NR_BENCH_FIGURES; i++) {
		if (bench->hist[i])
			memset(bench->hist[i], 0, sizeof(*bench->hist[i]));
	}
	return ret ?: life_settle();
}

static int life_steps(struct bench *bench, struct workqueue_struct **wqs, struct bench_life *life)
{
	unsigned int half = bench->plan.in_flight / 2;
	u64 before, after;
	int ret;

	life->count = bench->plan.in_flight;
	ret = life_warm_up(bench, wqs);
	if (!ret)
		ret = life_create(bench, wqs, 0, half);
	if (!ret)
		ret = life_memory(&before);
	if (!ret)
		ret = life_create(bench, wqs, half, life->count);
	if (!ret)
		ret = life_memory(&after);
	if (ret)
		return ret;
	life->bytes = after > before ? div_u64(after - before, life->count - half) : 0;

	life_flush(bench, wqs);
	return life_change(bench);
}

int bench_life(struct bench *bench, struct bench_life *life)
{
	struct workqueue_struct **wqs;
	int ret;

	wqs = bench_zalloc(array_size(bench->plan.in_flight, sizeof(*wqs)));
	if (!wqs)
		return -ENOMEM;
	ret = life_steps(bench, wqs, life);
	life_destroy(bench, wqs);
	kvfree(wqs);
	return ret;
}
