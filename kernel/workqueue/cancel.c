// SPDX-License-Identifier: GPL-2.0
/* Cancel, disable, enable. */
#include <linux/export.h>

#include "data.h"
#include "flush.h"
#include "running.h"

/* cancel @work if it is pending, and change its disable depth */
static bool work_cancel(struct work_struct *work, u32 cflags, int disable_delta)
{
	unsigned long irq_flags;
	bool was_pending = work_grab_pending(work, cflags, &irq_flags);

	work_clear_pending(work, disable_delta);
	local_irq_restore(irq_flags);
	return was_pending;
}

static bool work_disable_sync(struct work_struct *work, u32 cflags)
{
	bool was_pending = work_cancel(work, cflags, 1);

	/* waiting for a BH item spins */
	if (work_data(work) & WORK_OFFQ_BH)
		WARN_ON_ONCE(in_hardirq());
	else
		might_sleep();

	/* before there are workers nothing can be running */
	if (wq_online)
		__flush_work(work, true);
	return was_pending;
}

/* cancel and wait; meanwhile the item is disabled, so nobody can queue it */
static bool work_cancel_sync(struct work_struct *work, u32 cflags)
{
	bool was_pending = work_disable_sync(work, cflags);

	enable_work(work);
	return was_pending;
}

/**
 * cancel_work - take an item off its queue
 * @work: the item
 *
 * It may still be running.  If it is part of a delayed_work whose timer is pending, this spins
 * until the timer expires, perhaps for ever with interrupts off: use cancel_delayed_work().
 *
 * Context: any but NMI.
 * Return: true if it was pending.
 */
bool cancel_work(struct work_struct *work)
{
	return work_cancel(work, 0, 0);
}
EXPORT_SYMBOL(cancel_work);

/**
 * cancel_work_sync - take an item off its queue and wait if it is running
 * @work: the item; if it is part of a delayed_work, see cancel_work()
 *
 * During the call nobody can queue the item on any workqueue, not even the item itself.
 * So the item is idle on return, until somebody queues it again.
 *
 * Context: may sleep.  Also in softirqs, if the item was last queued on a BH workqueue.  Not
 * from the item itself, nor with a lock held that it takes.
 * Return: true if it was pending.
 */
bool cancel_work_sync(struct work_struct *work)
{
	return work_cancel_sync(work, 0);
}
EXPORT_SYMBOL_GPL(cancel_work_sync);

/**
 * cancel_delayed_work - stop an item's timer or take it off its queue
 * @dwork: the item
 *
 * It may still be running, and may queue itself again.
 *
 * Context: any but NMI.
 * Return: true if it was pending.
 */
bool cancel_delayed_work(struct delayed_work *dwork)
{
	return work_cancel(&dwork->work, WORK_CANCEL_DELAYED, 0);
}
EXPORT_SYMBOL(cancel_delayed_work);

/**
 * cancel_delayed_work_sync - cancel_work_sync() for a delayed item
 * @dwork: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	return work_cancel_sync(&dwork->work, WORK_CANCEL_DELAYED);
}
EXPORT_SYMBOL(cancel_delayed_work_sync);

/**
 * disable_work - cancel an item and refuse to queue it
 * @work: the item
 *
 * Each call needs one enable_work().  The count has %WORK_OFFQ_DISABLE_BITS bits.  The
 * item may still be running.
 *
 * Context: any but NMI.
 * Return: true if it was pending.
 */
bool disable_work(struct work_struct *work)
{
	return work_cancel(work, 0, 1);
}
EXPORT_SYMBOL_GPL(disable_work);

/**
 * disable_work_sync - disable_work(), and wait if the item is running
 * @work: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool disable_work_sync(struct work_struct *work)
{
	return work_disable_sync(work, 0);
}
EXPORT_SYMBOL_GPL(disable_work_sync);

/**
 * enable_work - undo one disable_work()
 * @work: the item
 *
 * Context: any but NMI.
 * Return: true if the item can be queued again.
 */
bool enable_work(struct work_struct *work)
{
	unsigned long irq_flags;
	bool enabled;

	work_grab_pending(work, 0, &irq_flags);
	/* we own PENDING, so nobody else changes the depth */
	enabled = (work_data(work) & WORK_OFFQ_DISABLE_MASK) <= 1UL << WORK_OFFQ_DISABLE_SHIFT;
	work_clear_pending(work, -1);
	local_irq_restore(irq_flags);
	return enabled;
}
EXPORT_SYMBOL_GPL(enable_work);

/**
 * disable_delayed_work - disable_work() for a delayed item
 * @dwork: the item
 *
 * Context: any but NMI.
 * Return: true if it was pending.
 */
bool disable_delayed_work(struct delayed_work *dwork)
{
	return work_cancel(&dwork->work, WORK_CANCEL_DELAYED, 1);
}
EXPORT_SYMBOL_GPL(disable_delayed_work);

/**
 * disable_delayed_work_sync - disable_work_sync() for a delayed item
 * @dwork: the item
 *
 * Context: as cancel_work_sync().
 * Return: true if it was pending.
 */
bool disable_delayed_work_sync(struct delayed_work *dwork)
{
	return work_disable_sync(&dwork->work, WORK_CANCEL_DELAYED);
}
EXPORT_SYMBOL_GPL(disable_delayed_work_sync);

/**
 * enable_delayed_work - enable_work() for a delayed item
 * @dwork: the item
 *
 * Context: any but NMI.
 * Return: true if the item can be queued again.
 */
bool enable_delayed_work(struct delayed_work *dwork)
{
	return enable_work(&dwork->work);
}
EXPORT_SYMBOL_GPL(enable_delayed_work);
