// SPDX-License-Identifier: GPL-2.0
/*
 * Work items as debugobjects sees them: active from queueing until the function
 * starts.  If an active item is initialised again or freed, debugobjects reports that,
 * and the fix-up cancels the item first.
 */
#include <linux/debugobjects.h>
#include <linux/export.h>

#include "data.h"
#include "debugobjects.h"
#include "warn.h"

static const struct debug_obj_descr work_debug_descr;

/* cancel_work_sync(), which is above this file; no item is active before it is set */
static bool (*work_debug_cancel)(struct work_struct *work) __ro_after_init;

/* boot: say how an active item is cancelled */
void __init debug_work_init(bool (*cancel)(struct work_struct *work))
{
	work_debug_cancel = cancel;
}

/* reports identify the item by its function */
static void *work_debug_hint(void *addr)
{
	const struct work_struct *work = addr;

	return work->func;
}

/* items made by DECLARE_WORK() were never passed to __init_work() */
static bool work_is_static_object(void *addr)
{
	return work_data(addr) & WORK_STRUCT_STATIC;
}

/* an active item must leave its lists before its memory is used for something else */
static bool cancel_if_active(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE || !work_debug_cancel)
		return false;
	work_debug_cancel(addr);
	return true;
}

static bool work_fixup_init(void *addr, enum debug_obj_state state)
{
	bool was_active = cancel_if_active(addr, state);

	if (was_active)
		debug_object_init(addr, &work_debug_descr);
	return was_active;
}

static bool work_fixup_free(void *addr, enum debug_obj_state state)
{
	bool was_active = cancel_if_active(addr, state);

	if (was_active)
		debug_object_free(addr, &work_debug_descr);
	return was_active;
}

static const struct debug_obj_descr work_debug_descr = {
	.name = "work_struct",
	.debug_hint = work_debug_hint,
	.is_static_object = work_is_static_object,
	.fixup_init = work_fixup_init,
	.fixup_free = work_fixup_free,
};

/* an item is being queued; L */
void debug_work_activate(struct work_struct *work)
{
	guard(printk_deferred)();
	debug_object_activate(work, &work_debug_descr);
}

/* an item is off its queue: it starts, or was cancelled; L */
void debug_work_deactivate(struct work_struct *work)
{
	guard(printk_deferred)();
	debug_object_deactivate(work, &work_debug_descr);
}

/**
 * __init_work - an item is being initialised
 * @work: the item
 * @onstack: nonzero if it lies on the stack
 */
void __init_work(struct work_struct *work, int onstack)
{
	void (*init)(void *addr, const struct debug_obj_descr *descr) =
		onstack ? debug_object_init_on_stack : debug_object_init;

	init(work, &work_debug_descr);
}
EXPORT_SYMBOL_GPL(__init_work);

/**
 * destroy_work_on_stack - tell debugobjects that an item leaves the stack
 * @work: idle item that INIT_WORK_ONSTACK() set up
 */
void destroy_work_on_stack(struct work_struct *work)
{
	debug_object_free(work, &work_debug_descr);
}
EXPORT_SYMBOL_GPL(destroy_work_on_stack);

/**
 * destroy_delayed_work_on_stack - tell debugobjects that a delayed item leaves the stack
 * @work: idle item that INIT_DELAYED_WORK_ONSTACK() set up
 */
void destroy_delayed_work_on_stack(struct delayed_work *work)
{
	destroy_work_on_stack(&work->work);
	timer_destroy_on_stack(&work->timer);
}
EXPORT_SYMBOL_GPL(destroy_delayed_work_on_stack);
