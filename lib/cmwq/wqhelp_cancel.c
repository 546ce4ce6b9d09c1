// SPDX-License-Identifier: GPL-2.0
/*
 * Items that are cancelled before they can run
 */
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqhelp.h"

#define WQH_MAX_CANCELLED	100000

static void wqh_cancelled_fn(struct work_struct *work)
{
}

int wqh_write_cancel(struct wqh_queue *q, char *input)
{
	struct work_struct *items;
	unsigned int i, n;
	int ret;

	ret = kstrtouint(strim(input), 0, &n);
	if (ret)
		return ret;
	if (!n || n > WQH_MAX_CANCELLED)
		return -ERANGE;
	items = kvcalloc(n, sizeof(*items), GFP_KERNEL);
	if (!items)
		return -ENOMEM;

	for (i = 0; i < n; i++) {
		wqh_init_work(q, &items[i], wqh_cancelled_fn);
		queue_work(q->wq, &items[i]);
	}
	for (i = 0; i < n; i++)
		if (!cancel_work_sync(&items[i]))
			ret = -EBUSY;
	kvfree(items);
	return ret;
}
