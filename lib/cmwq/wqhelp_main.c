// SPDX-License-Identifier: GPL-2.0
/*
 * Known work for the workqueue selftests
 *
 * The scripts under tools/testing/selftests/workqueue need workqueues of all
 * kinds, work that they can start, hold and stop, and counters that show whether
 * the workqueue kept its promises.  They drive all of it through
 * /sys/kernel/debug/wq_test:
 *
 *	create		"NAME [FLAG...] [max_active=N]" makes a workqueue
 *	destroy		"NAME" stops its load, releases its items, destroys it
 *	occupy		"cpu=N ms=N" keeps a CPU busy; only interrupts get through.
 *			New threads start elsewhere, but may have to wait for this CPU.
 *			"leave" ends that, and fails if the time was over already
 *	console		"cpu=N" makes a console that queues an item on that CPU's
 *			pool for each line it is given; "off" removes it
 *	console_lines	number of lines that this console was given
 *	NAME/load	"threads=N depth=N spin_us=N sleep_us=N local=0|1 from=CPU"
 *			starts submitters, "stop" ends them and completes the
 *			counters.  With from=, they stay on that CPU, name none, and
 *			the items of each have to start in their order
 *	NAME/queue	"nop|block|hog|ride|roam|linger|pin [cpu=N] [n=N] [ms=N]"
 *			queues single items
 *	NAME/delay	"calls=N ms=N cpu=N" queues, moves and cancels delayed items that
 *			name the CPU, and waits until those that were not cancelled ran
 *	NAME/cancel	"N" queues N items, then cancels them; fails if one of them has run
 *	NAME/misuse	"listed|reclaim|console|busy [cpu=N]" does what the workqueue
 *			may warn of: queues an item that is on a list, flushes one on
 *			behalf of memory reclaim, queues the item of the console, or
 *			takes a reference and keeps it, but not on the base kernel
 *	NAME/relay	"rounds=N from=CPU to=CPU" passes the only slot from an item
 *			on one CPU to the next on the other, while others try to
 *			take it
 *	NAME/release	lets all blocked and hogging items return
 *	NAME/wait	"N MS" waits until N items ran, at most MS milliseconds
 *	NAME/flush	flushes the workqueue
 *	NAME/pods	CPU lists, one for each pod that a strict load must keep
 *	NAME/stats	the counters; any write resets them
 *	NAME/order	"CPU N" for each series of N nops and hogs queued on that CPU, in
 *			order of their start, from the last reset of the counters on
 *	NAME/held	the blocked and hogging items: which worker runs them, where
 *	NAME/map	queues from each online CPU and shows which worker ran the item
 *	NAME/map_on	the same with queue_work_on()
 *	NAME/map_node	the same with queue_work_node(), naming the next node
 *	NAME/map_far	as map; then each worker seems to have slept in another package
 *	NAME/map_delayed, map_delayed_on, map_rcu
 *			the same with queue_delayed_work(), queue_delayed_work_on()
 *			and queue_rcu_work()
 *
 * Every workqueue made here has WQ_SYSFS, where its kind allows that, unless a flag is "nosysfs".
 * With "devm", a device owns it.  With "killed", the writer gets SIGKILL just before it is made.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqhelp.h"

#define WQH_MAX_INPUT		4096

static struct dentry *wqh_root;

static char *wqh_read_input(const char __user *ubuf, size_t len)
{
	return len > WQH_MAX_INPUT ? ERR_PTR(-E2BIG) : memdup_user_nul(ubuf, len);
}

/* Files of a workqueue */

struct wqh_file {
	const char	*name;
	int		(*write)(struct wqh_queue *q, char *input);
	int		(*show)(struct seq_file *s, struct wqh_queue *q);
};

static int wqh_write_flush(struct wqh_queue *q, char *input)
{
	flush_workqueue(q->wq);
	return 0;
}

static const struct wqh_file wqh_files[] = {
	{ "load",	wqh_write_load },
	{ "queue",	wqh_write_queue },
	{ "delay",	wqh_write_delay },
	{ "cancel",	wqh_write_cancel },
	{ "misuse",	wqh_write_misuse },
	{ "relay",	wqh_write_relay },
	{ "release",	wqh_write_release },
	{ "wait",	wqh_write_wait },
	{ "flush",	wqh_write_flush },
	{ "pods",	wqh_write_pods },
	{ "stats",	wqh_write_stats, wqh_show_stats },
	{ "order",	NULL, wqh_show_order },
	{ "held",	NULL, wqh_show_held },
#ifdef CONFIG_WORKQUEUE_CMWQ
	/* how many there are in the system */
	{ "workqueues",	NULL, wqh_show_workqueues },
#endif
	{ "map",	NULL, wqh_show_map },
	{ "map_on",	NULL, wqh_show_map },
	{ "map_node",	NULL, wqh_show_map },
	{ "map_far",	NULL, wqh_show_map },
	{ "map_delayed", NULL, wqh_show_map },
	{ "map_delayed_on", NULL, wqh_show_map },
	{ "map_rcu",	NULL, wqh_show_map },
};

/* the entry of an open file */
static const struct wqh_file *wqh_file_of(const struct file *file)
{
	const struct wqh_file *wf = wqh_files;

	while (strcmp(wf->name, file_dentry(file)->d_name.name))
		wf++;
	return wf;
}

static int wqh_file_show(struct seq_file *s, void *unused)
{
	return wqh_file_of(s->file)->show(s, s->private);
}

static int wqh_file_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, wqh_file_show, inode->i_private, SZ_64K);
}

static ssize_t wqh_file_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	char *input = wqh_read_input(ubuf, len);
	int ret;

	if (IS_ERR(input))
		return PTR_ERR(input);
	ret = wqh_file_of(file)->write(file_inode(file)->i_private, input);
	kfree(input);
	return ret ?: len;
}

static const struct file_operations wqh_file_fops = {
	.owner		= THIS_MODULE,
	.open		= wqh_file_open,
	.read		= seq_read,
	.write		= wqh_file_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

void wqh_create_files(struct wqh_queue *q)
{
	unsigned int i;

	q->dir = debugfs_create_dir(q->name, wqh_root);
	for (i = 0; i < ARRAY_SIZE(wqh_files); i++) {
		const struct wqh_file *wf = &wqh_files[i];
		umode_t mode = (wf->write ? 0200 : 0) | (wf->show ? 0400 : 0);

		debugfs_create_file(wf->name, mode, q->dir, q, &wqh_file_fops);
	}
}

/* Files of the module */

static const struct {
	const char	*name;
	int		(*write)(char *input);
} wqh_root_files[] = {
	{ "create",	wqh_create },
	{ "destroy",	wqh_destroy },
	{ "occupy",	wqh_occupy },
	{ "console",	wqh_console },
};

static ssize_t wqh_root_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	int (*write)(char *input) = file_inode(file)->i_private;
	char *input = wqh_read_input(ubuf, len);
	int ret;

	if (IS_ERR(input))
		return PTR_ERR(input);
	ret = write(input);
	kfree(input);
	return ret ?: len;
}

static const struct file_operations wqh_root_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= wqh_root_write,
};

static int wqh_create_root(void)
{
	unsigned int i;

	wqh_root = debugfs_create_dir("wq_test", NULL);
	if (IS_ERR(wqh_root))
		return PTR_ERR(wqh_root);
	for (i = 0; i < ARRAY_SIZE(wqh_root_files); i++)
		debugfs_create_file(wqh_root_files[i].name, 0200, wqh_root,
				    wqh_root_files[i].write, &wqh_root_fops);
	debugfs_create_u32("console_lines", 0400, wqh_root, &wqh_console_lines);
	return 0;
}

static int __init wqh_init(void)
{
	int ret;

	ret = wqh_load_init();
	if (ret)
		return ret;
	ret = wqh_rider_init();
	if (ret)
		goto load_exit;
	ret = wqh_create_root();
	if (!ret)
		return 0;

	wqh_rider_exit();
load_exit:
	wqh_load_exit();
	return ret;
}

static void __exit wqh_exit(void)
{
	unsigned int i;

	/* Remove these files first, so that no queue is made or destroyed any more. */
	for (i = 0; i < ARRAY_SIZE(wqh_root_files); i++)
		debugfs_lookup_and_remove(wqh_root_files[i].name, wqh_root);
	wqh_console_exit();
	wqh_destroy_all();
	debugfs_remove_recursive(wqh_root);
	wqh_rider_exit();
	wqh_load_exit();
}

module_init(wqh_init);
module_exit(wqh_exit);
MODULE_DESCRIPTION("Known work for the workqueue selftests");
MODULE_LICENSE("GPL");
