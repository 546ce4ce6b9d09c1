// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues that go away with the device they serve.
 */
#include <linux/device.h>
#include <linux/export.h>

#include "internal.h"

static void devres_destroy_wq(void *wq)
{
	destroy_workqueue(wq);
}

/**
 * devm_alloc_workqueue - allocate a workqueue that a device owns
 * @dev: the device; the workqueue is destroyed when its driver detaches
 * @fmt: printf format of the name
 * @flags: as for alloc_workqueue()
 * @max_active: as for alloc_workqueue()
 * @...: arguments of @fmt
 *
 * The driver has to cancel its delayed items before the workqueue is destroyed, for
 * instance in devres actions that it adds after this call.
 *
 * Context: may sleep.
 * Return: the workqueue, or %NULL if there is no memory for it or for the devres entry.
 */
struct workqueue_struct *devm_alloc_workqueue_noprof(struct device *dev, const char *fmt,
						     unsigned int flags, int max_active, ...)
{
	struct workqueue_struct *wq;
	va_list args;

	va_start(args, max_active);
	wq = __alloc_workqueue(fmt, flags, max_active, args, NULL);
	va_end(args);

	/* if the action cannot be added, the workqueue has been destroyed already */
	if (wq && devm_add_action_or_reset(dev, devres_destroy_wq, wq))
		wq = NULL;
	return wq;
}
EXPORT_SYMBOL_GPL(devm_alloc_workqueue_noprof);
