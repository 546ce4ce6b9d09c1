// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues that the scripts make
 */
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqhelp.h"

static DEFINE_MUTEX(wqh_lock);
static LIST_HEAD(wqh_queues);	/* wqh_lock */

static const struct {
	const char	*name;
	unsigned int	flag;
} wqh_flags[] = {
	{ "percpu",		WQ_PERCPU },
	{ "unbound",		WQ_UNBOUND },
	{ "bh",			WQ_BH | WQ_PERCPU },
	{ "highpri",		WQ_HIGHPRI },
	{ "mem_reclaim",	WQ_MEM_RECLAIM },
	{ "freezable",		WQ_FREEZABLE },
	{ "cpu_intensive",	WQ_CPU_INTENSIVE },
	{ "power_efficient",	WQ_POWER_EFFICIENT | WQ_PERCPU },
	{ "ordered_flag",	__WQ_ORDERED },	/* "ordered" is WQ_UNBOUND, too */
};

/* Two INIT_WORK(), so that lockdep tells items of softirqs from others. */
void wqh_init_work(const struct wqh_queue *q, struct work_struct *work, work_func_t func)
{
	if (q->flags & WQ_BH)
		INIT_WORK(work, func);
	else
		INIT_WORK(work, func);
}

static bool *wqh_option(struct wqh_queue *q, const char *word)
{
	if (!strcmp(word, "nosysfs"))
		return &q->no_sysfs;
	if (!strcmp(word, "devm"))
		return &q->devm;
	return strcmp(word, "killed") ? NULL : &q->killed;
}

static int wqh_parse_flag(struct wqh_queue *q, const char *word)
{
	unsigned int i;
	bool *option;

	if (!strcmp(word, "ordered")) {
		q->ordered = true;
		q->flags |= WQ_UNBOUND;
		return 0;
	}
	option = wqh_option(q, word);
	if (option) {
		*option = true;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(wqh_flags); i++) {
		if (!strcmp(word, wqh_flags[i].name)) {
			q->flags |= wqh_flags[i].flag;
			return 0;
		}
	}
	return -EINVAL;
}

static void wqh_free(struct wqh_queue *q)
{
	kfree(q->inflight);
	kfree(q->pods);
	kfree(q);
}

static struct wqh_queue *wqh_alloc(void)
{
	struct wqh_queue *q = kzalloc(sizeof(*q), GFP_KERNEL);

	if (!q)
		return NULL;
	q->inflight = kcalloc(nr_cpu_ids, sizeof(*q->inflight), GFP_KERNEL);
	if (!q->inflight) {
		kfree(q);
		return NULL;
	}

	mutex_init(&q->load_mutex);
	spin_lock_init(&q->held_lock);
	spin_lock_init(&q->order_lock);
	INIT_LIST_HEAD(&q->held);
	init_waitqueue_head(&q->ran_wait);
	init_waitqueue_head(&q->release_wait);
	q->from = nr_cpu_ids;
	return q;
}

static struct wqh_queue *wqh_find(const char *name)
{
	struct wqh_queue *q;

	lockdep_assert_held(&wqh_lock);

	list_for_each_entry(q, &wqh_queues, node)
		if (!strcmp(q->name, name))
			return q;
	return NULL;
}

static int wqh_parse_queue(struct wqh_queue *q, char *input, unsigned int *max_active)
{
	const struct wqh_number numbers[] = { { "max_active", max_active }, {} };
	char *word = wqh_next_word(&input);
	int ret = 0;

	/* The name becomes a directory. */
	if (!word || strchr(word, '/') || strscpy(q->name, word) < 0)
		return -EINVAL;
	while (!ret && (word = wqh_next_word(&input)))
		ret = strchr(word, '=') ? wqh_read_number(word, numbers) : wqh_parse_flag(q, word);
	if (!ret && !(q->flags & WQ_PERCPU) == !(q->flags & WQ_UNBOUND))
		ret = -EINVAL;
	if (!ret && !(q->flags & WQ_BH) && !q->no_sysfs)
		q->flags |= WQ_SYSFS;
	return ret;
}

static int wqh_make_devm(struct wqh_queue *q, unsigned int max_active)
{
	q->dev = root_device_register(q->name);
	if (IS_ERR(q->dev))
		return PTR_ERR(q->dev);
	if (q->ordered)
		q->wq = devm_alloc_ordered_workqueue(q->dev, "%s", q->flags & ~WQ_UNBOUND,
						     q->name);
	else
		q->wq = devm_alloc_workqueue(q->dev, "%s", q->flags, max_active, q->name);
	if (q->wq)
		return 0;
	root_device_unregister(q->dev);
	return -ENOMEM;
}

static int wqh_make(struct wqh_queue *q, unsigned int max_active)
{
	if (q->killed)
		send_sig(SIGKILL, current, 1);
	if (q->devm)
		return wqh_make_devm(q, max_active);
	if (q->ordered)
		q->wq = alloc_ordered_workqueue("%s", q->flags & ~WQ_UNBOUND, q->name);
	else
		q->wq = alloc_workqueue("%s", q->flags, max_active, q->name);
	return q->wq ? 0 : -ENOMEM;
}

static int wqh_publish(struct wqh_queue *q, unsigned int max_active)
{
	int ret;

	guard(mutex)(&wqh_lock);

	if (wqh_find(q->name))
		return -EEXIST;

	ret = wqh_make(q, max_active);
	if (ret)
		return ret;

	wqh_create_files(q);
	list_add_tail(&q->node, &wqh_queues);
	return 0;
}

int wqh_create(char *input)
{
	unsigned int max_active = 0;
	struct wqh_queue *q = wqh_alloc();
	int ret;

	if (!q)
		return -ENOMEM;

	ret = wqh_parse_queue(q, input, &max_active);
	if (!ret)
		ret = wqh_publish(q, max_active);
	if (ret)
		wqh_free(q);
	return ret;
}

static void wqh_destroy_one(struct wqh_queue *q)
{
	lockdep_assert_held(&wqh_lock);

	list_del(&q->node);
	/* Afterwards nobody uses the files. */
	debugfs_remove_recursive(q->dir);
	wqh_write_release(q, NULL);
	mutex_lock(&q->load_mutex);
	wqh_load_stop(q);
	mutex_unlock(&q->load_mutex);
	if (q->devm)
		root_device_unregister(q->dev);
	else
		destroy_workqueue(q->wq);
	wqh_free(q);
}

int wqh_destroy(char *input)
{
	struct wqh_queue *q;

	guard(mutex)(&wqh_lock);
	q = wqh_find(strim(input));
	if (!q)
		return -ENOENT;
	wqh_destroy_one(q);
	return 0;
}

void wqh_destroy_all(void)
{
	struct wqh_queue *q, *tmp;

	guard(mutex)(&wqh_lock);
	list_for_each_entry_safe(q, tmp, &wqh_queues, node)
		wqh_destroy_one(q);
}
