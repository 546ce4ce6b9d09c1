// SPDX-License-Identifier: GPL-2.0
/*
 * A console that queues work when it is called, like drivers that draw in a work item.
 * If the item is pending, the console moves it.  So it takes the pool's lock each time.
 */
#include <linux/console.h>
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "wqhelp.h"

static void wqh_console_fn(struct work_struct *work)
{
}

DECLARE_DELAYED_WORK(wqh_console_work, wqh_console_fn);

u32 wqh_console_lines;				/* by the console's owner */

static DEFINE_MUTEX(wqh_console_lock);
static struct workqueue_struct *wqh_console_wq;	/* wqh_console_lock; set: registered */
static unsigned int wqh_console_cpu;		/* constant while registered */

static void wqh_console_write(struct console *console, const char *text, unsigned int len)
{
	mod_delayed_work_on(wqh_console_cpu, wqh_console_wq, &wqh_console_work, 0);
	WRITE_ONCE(wqh_console_lines, wqh_console_lines + 1);
}

static struct console wqh_con = {
	.name	= "wqt",
	.write	= wqh_console_write,
};

static int wqh_console_on(unsigned int cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ERANGE;
	if (wqh_console_wq)
		return -EBUSY;

	/* a separate workqueue, on the normal pool of the CPU */
	wqh_console_wq = alloc_workqueue("wqt_console", WQ_PERCPU, 0);
	if (!wqh_console_wq)
		return -ENOMEM;
	wqh_console_cpu = cpu;
	/* unregistering changes these */
	wqh_con.flags = CON_ENABLED | CON_ANYTIME;
	wqh_con.index = -1;
	register_console(&wqh_con);
	return 0;
}

static void wqh_console_off(void)
{
	if (!wqh_console_wq)
		return;
	unregister_console(&wqh_con);
	cancel_delayed_work_sync(&wqh_console_work);
	destroy_workqueue(wqh_console_wq);
	wqh_console_wq = NULL;
}

void wqh_console_exit(void)
{
	guard(mutex)(&wqh_console_lock);
	wqh_console_off();
}

int wqh_console(char *input)
{
	unsigned int cpu;

	guard(mutex)(&wqh_console_lock);
	input = strim(input);
	if (!strcmp(input, "off")) {
		wqh_console_off();
		return 0;
	}
	return sscanf(input, "cpu=%u", &cpu) == 1 ? wqh_console_on(cpu) : -EINVAL;
}
