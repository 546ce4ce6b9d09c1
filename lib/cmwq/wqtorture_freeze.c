// SPDX-License-Identifier: GPL-2.0
/*
 * Freezing, by the test mode of suspend: tasks and freezable workqueues stop for a second
 * and go on. The machine stays up, and the writers keep running.
 *
 * A freezable thread is the witness. It only sleeps, so it is frozen only by the loop that
 * comes after freezable workqueues were stopped. What is queued while the witness is frozen
 * is therefore held back. The request to freeze the witness is withdrawn before workqueues
 * are thawed. As long as the request stands, the workqueues are therefore stopped.
 */
#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "wqtorture.h"

static struct task_struct *witness;	/* exists before the first actor, and after the last */
/* Counts freezes that began, so that none is taken for another. Written by the freeze thread. */
static unsigned int freezes;
static DECLARE_WAIT_QUEUE_HEAD(nothing);

static int witness_fn(void *arg)
{
	set_freezable();
	while (!kthread_should_stop())
		wait_event_freezable(nothing, kthread_should_stop());
	return 0;
}

/* The freeze in which all freezable workqueues are surely stopped; 0 if none is known. */
unsigned int wqt_freeze_epoch(void)
{
	unsigned int epoch = READ_ONCE(freezes);

	smp_rmb();	/* do not read the state of a later freeze; pairs with freeze_and_thaw() */
	return witness && (READ_ONCE(witness->__state) & TASK_FROZEN) ? epoch : 0;
}

/* Is it still the same freeze? */
bool wqt_still_frozen(unsigned int epoch)
{
	bool asked = freezing(witness);

	smp_rmb();	/* a later request comes with its epoch; pairs with freeze_and_thaw() */
	return asked && READ_ONCE(freezes) == epoch;
}

static int freeze_and_thaw(void)
{
	int ret = wqt_sys_write("power/pm_test", "freezer");

	wqt_sys_write("module/suspend/parameters/pm_test_delay", "1");
	WRITE_ONCE(freezes, freezes + 1);
	smp_wmb();	/* before anything freezes; pairs with both above */
	if (!ret)
		ret = wqt_sys_write("power/state", "freeze");
	return ret;
}

int wqt_freeze_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	while (wqt_actor_naps(actor, wqt_freeze_ms)) {
		wqt_at(actor, "freezing", NULL);
		if (!freeze_and_thaw())
			wqt_count(WQT_FREEZE);
		wqt_at(actor, NULL, NULL);
	}
	return wqt_actor_ends(actor);
}

int wqt_freeze_init(void)
{
	struct task_struct *task;

	if (!wqt_freeze_ms)
		return 0;
	task = kthread_run(witness_fn, NULL, "wqt_witness");
	if (IS_ERR(task))
		return PTR_ERR(task);
	witness = task;
	return 0;
}

/* Nobody uses the witness any more. */
void wqt_freeze_exit(void)
{
	if (witness)
		kthread_stop(witness);
	witness = NULL;
}
