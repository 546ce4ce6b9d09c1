// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's Rust bindings initialise work items with a C function of their own.  It
 * is compiled here as well, which shows without a Rust compiler whether it works with
 * our header.
 */
#include <linux/lockdep.h>

#include "wq_api.h"

/* some versions of the file leave it to the includer to make the function static */
static void rust_helper_init_work_with_key(struct work_struct *work, work_func_t func,
					   bool onstack, const char *name,
					   struct lock_class_key *key);
#define __rust_helper	static
#include "../../rust/helpers/workqueue.c"

struct rust_item {
	struct work_struct work;
	int runs;
};

static void rust_item_fn(struct work_struct *work)
{
	container_of(work, struct rust_item, work)->runs++;
}

/* An item of the bindings is idle at first, and runs each time that it is queued. */
static void rust_item_runs(struct kunit *test)
{
	static struct lock_class_key key;
	struct rust_item *item = wq_api_zalloc(test, sizeof(*item));
	struct workqueue_struct *wq = wq_api_wq(test, WQ_PERCPU, 0);
	int i;

	rust_helper_init_work_with_key(&item->work, rust_item_fn, false, "wq_api_rust", &key);
	KUNIT_EXPECT_EQ(test, work_busy(&item->work), 0);
	for (i = 1; i <= 3; i++) {
		KUNIT_EXPECT_TRUE(test, queue_work(wq, &item->work));
		flush_work(&item->work);
		KUNIT_EXPECT_EQ(test, item->runs, i);
	}
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(&item->work));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rust_item_runs),
	{}
};

static struct kunit_suite wq_api_rust_suite = {
	.name = "wq_api_rust",
	.init = wq_api_init,
	.exit = wq_api_exit,
	.test_cases = cases,
};

kunit_test_suite(wq_api_rust_suite);
