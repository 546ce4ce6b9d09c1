/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workqueue API suites share: tracked workqueues and items, helper
 * threads, and waits with a time limit.  wq_api_util.c implements it.
 */
#ifndef _LIB_WQ_API_H
#define _LIB_WQ_API_H

#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/workqueue.h>

#include "wq_tally.h"

/* The head of a function that gives a case one parameter after another. */
#ifdef KUNIT_CASE_PARAM_WITH_INIT
#define WQ_API_GENERATOR(name)	\
	const void *(name)(struct kunit *test, const void *prev, char *desc)
#else
/* before 6.18 */
#define WQ_API_GENERATOR(name)	const void *(name)(const void *prev, char *desc)
#endif

#ifdef kunit_warning_suppress
#define WQ_API_CAN_SUPPRESS	true
#else
/* before 7.1: do not provoke warnings, which would be printed as if they were real ones */
#define WQ_API_CAN_SUPPRESS	false
#define kunit_warning_suppress(test)	for (; !(test);)
#define KUNIT_SUPPRESSED_WARNING_COUNT()	0
#define KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, expected)	\
	KUNIT_EXPECT_EQ(test, KUNIT_SUPPRESSED_WARNING_COUNT(), expected)
#endif

/* Long enough for a debug kernel on a busy emulator; reached only on failure. */
#define WQ_API_TIMEOUT		(30 * HZ)

/* A delay that cannot pass during a test. */
#define WQ_API_NEVER		(3600 * HZ)

/*
 * An item that runs for long without sleeping rightly counts as a CPU hog and leaves
 * concurrency management.  So a round says something about concurrency management only
 * if each of its items ran for less than this.  The scheduler's account must agree: if
 * it counts in ticks, a moment may cost a whole tick.
 */
#define WQ_API_QUIET_NS		(5 * NSEC_PER_MSEC)

#define WQ_API_MAX_WQS		8

/* Per test case; test->priv points to it. */
struct wq_api_ctx {
	atomic_t clock;			/* counts events, gives their order */
	atomic_t inside;		/* items between start and end */
	atomic_t peak;			/* highest value that @inside had */
	struct workqueue_struct *wqs[WQ_API_MAX_WQS];
	struct list_head blocks;	/* memory to free after the case */
	struct list_head calls;		/* helper threads */
	struct list_head arrays;	/* of items; after the case their gates are opened */
	bool bh;			/* the newest workqueue is a BH one */
};

/* A work item that records what happens to it. */
struct wq_api_item {
	struct delayed_work dwork;
	struct wq_api_ctx *ctx;
	void (*body)(struct wq_api_item *item);	/* optional */
	void *arg;				/* for @body */
	struct workqueue_struct *wq;		/* for @body */
	bool gated;				/* waits for @gate before it ends */
	struct completion gate;
	struct completion started;
	struct completion finished;
	atomic_t runs;
	atomic_t inside;
	bool reentered;
	bool gave_up;		/* nobody opened the gate */
	int cpu;		/* the CPU on which it started */
	int nice;
	struct task_struct *worker;	/* only compared, never dereferenced */
	unsigned long start_jiffies;
	u64 busy_ns;		/* from start to sleep or end, by the clock */
	u64 charged_ns;		/* ... and by what the scheduler charged */
	int start, sleep, end;	/* on the case's clock */
};

/* A function that runs in a thread of its own, since it may block. */
struct wq_api_call {
	struct list_head node;
	struct task_struct *task;
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool entered;
	struct completion done;
};

/* A kind of workqueue, the parameter of a case. */
struct wq_api_kind {
	const char *name;
	unsigned int flags;
	bool ordered;
	bool few;		/* used by slow cases, too */
};

int wq_api_init(struct kunit *test);
void wq_api_exit(struct kunit *test);
void wq_api_stuck(struct kunit *test, const char *what);

/* Define a case that this kernel cannot run, so that it is reported as skipped. */
#define WQ_API_CANNOT_RUN(name, why)			\
	static void name(struct kunit *test)		\
	{						\
		kunit_skip(test, "%s", why);		\
	}

void wq_api_skip_on_base(struct kunit *test, const char *why);
void wq_api_will_warn(struct kunit *test);

void *wq_api_zalloc(struct kunit *test, size_t size);
void wq_api_items_are_for(struct kunit *test, unsigned int flags);
void wq_api_set_class(struct kunit *test, struct work_struct *work);
struct workqueue_struct *wq_api_wq(struct kunit *test, unsigned int flags,
				   int max_active);
struct workqueue_struct *wq_api_wq_kind(struct kunit *test);
void wq_api_forget(struct kunit *test, struct workqueue_struct *wq);
void wq_api_destroy(struct kunit *test, struct workqueue_struct *wq);
struct wq_api_item *wq_api_items(struct kunit *test, int nr);
void wq_api_rearm(struct wq_api_item *items, int nr);
bool wq_api_was_quiet(const struct wq_api_item *items, int nr);

int wq_api_stamp(struct wq_api_ctx *ctx);
void wq_api_burn(unsigned int us);
void wq_api_wait(struct kunit *test, struct completion *done, const char *what);
void wq_api_congests(struct kunit *test, struct workqueue_struct *wq, int cpu,
		     struct wq_api_item *items);

struct wq_api_call *wq_api_call(struct kunit *test, int cpu,
				int (*fn)(void *arg), void *arg);
void wq_api_call_blocks(struct kunit *test, struct wq_api_call *call);
int wq_api_call_result(struct kunit *test, struct wq_api_call *call);
int wq_api_flush_fn(void *wq);
int wq_api_flush_work_fn(void *work);

void wq_api_on_cpu(int cpu, void (*fn)(void *arg), void *arg);
void wq_api_queue_batch(int cpu, struct workqueue_struct *wq,
			struct wq_api_item *items, int nr);
void wq_api_fence(struct kunit *test, int cpu);
int wq_api_cpu(int nth);

const struct wq_api_kind *wq_api_next_kind(const struct wq_api_kind *prev, char *desc);
WQ_API_GENERATOR(wq_api_thread_kinds);
WQ_API_GENERATOR(wq_api_few_kinds);
WQ_API_GENERATOR(wq_api_all_kinds);

static inline struct wq_api_item *to_wq_api_item(struct work_struct *work)
{
	return container_of(work, struct wq_api_item, dwork.work);
}

static inline struct work_struct *wq_api_work(struct wq_api_item *item)
{
	return &item->dwork.work;
}

/* Wait until @cond holds.  If it never does, end the case as failed. */
#define wq_api_until(test, cond)					\
	do {								\
		unsigned long __end = jiffies + WQ_API_TIMEOUT;		\
									\
		while (!(cond)) {					\
			if (time_after(jiffies, __end))			\
				wq_api_stuck(test, "never true: " #cond); \
			usleep_range(50, 200);				\
		}							\
	} while (0)

/*
 * Warnings that a case causes on purpose are suppressed and counted.  If WARN_ONCE() is
 * plain C code, as on arm64 and UML, a suppressed warning still uses up the "once", so a
 * suite that runs again in the same boot sees none.  If WARN_ONCE() is a trap that
 * knows its format, the suite sees each warning.
 */
static inline void wq_api_expect_warn_once(struct kunit *test, int count,
					   int times)
{
#ifdef HAVE_ARCH_BUG_FORMAT_ARGS
	KUNIT_EXPECT_EQ(test, count, times);
#else
	KUNIT_EXPECT_LE(test, count, 1);
#endif
}

extern struct kunit_suite wq_api_item_suite;
extern struct kunit_suite wq_api_delayed_suite;
extern struct kunit_suite wq_api_active_suite;
extern struct kunit_suite wq_api_flush_suite;
extern struct kunit_suite wq_api_cancel_suite;
extern struct kunit_suite wq_api_bh_suite;
extern struct kunit_suite wq_api_misc_suite;

/* Shared by the suites that order items across queuers. */
void wq_api_ordered_stress(struct kunit *test, struct workqueue_struct *wq,
			   int (*shake)(void *arg), void *arg);

#endif /* _LIB_WQ_API_H */
