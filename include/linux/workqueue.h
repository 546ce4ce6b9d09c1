/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Concurrency managed workqueue: the interface.
 *
 * A caller embeds a work item in an object of its own, points it at a function
 * and queues it; a worker thread, or the softirq of a CPU, calls the function
 * later. From top to bottom, this file follows such a caller: the item, the
 * workqueue that it goes to, queueing, waiting, cancelling, and looking at the
 * state of things. The last section is only for the rest of the kernel: boot,
 * hotplug, freezer and softirq.
 *
 * Documentation/core-api/workqueue-cmwq.rst says when to use what.
 */
#ifndef _LINUX_WORKQUEUE_H
#define _LINUX_WORKQUEUE_H

#include <linux/workqueue_types.h>
#include <linux/alloc_tag.h>
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cpumask_types.h>
#include <linux/linkage.h>
#include <linux/lockdep.h>
#include <linux/rcupdate.h>
#include <linux/threads.h>
#include <linux/timer.h>

struct device;
struct task_struct;

/* ==== The item =========================================================== */

/**
 * struct delayed_work - an item that is queued when a timer expires
 * @work: the item itself; to_delayed_work() leads back from it
 * @timer: counts the delay down, then queues @work
 * @wq: where the timer queues @work; written by whoever owns PENDING of @work
 * @cpu: the CPU to queue @work on, %WORK_CPU_UNBOUND for any
 */
struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
	struct workqueue_struct *wq;
	int cpu;
};

/**
 * struct rcu_work - an item that is queued after an RCU grace period
 * @work: the item itself; to_rcu_work() leads back from it
 * @rcu: waits for the grace period, then queues @work
 * @wq: where @rcu queues @work; written by whoever owns PENDING of @work
 */
struct rcu_work {
	struct work_struct work;
	struct rcu_head rcu;
	struct workqueue_struct *wq;
};

/**
 * struct execute_work - storage that execute_in_process_context() may need
 * @work: the item that is queued when the caller cannot sleep
 */
struct execute_work {
	struct work_struct work;
};

/**
 * enum work_bits - where each part of &work_struct.data is
 * @WORK_STRUCT_PENDING_BIT: someone owns the item: it is queued, waits for its
 *	timer or grace period, or is being modified
 * @WORK_STRUCT_INACTIVE_BIT: queued, and held back by max_active
 * @WORK_STRUCT_PWQ_BIT: the upper bits hold a pool_workqueue
 * @WORK_STRUCT_LINKED_BIT: the next item on the list runs right after this one
 *	and on the same worker
 * @WORK_STRUCT_STATIC_BIT: initialised at compile time (debugobjects)
 * @WORK_STRUCT_FLAG_BITS: how many of the above bits exist
 * @WORK_STRUCT_COLOR_BITS: width of the flush colour
 * @WORK_STRUCT_COLOR_SHIFT: position of the flush colour
 * @WORK_STRUCT_PWQ_SHIFT: everything from here up is the pool_workqueue, which
 *	is aligned accordingly (to 256 bytes, or 512 with debugobjects)
 * @WORK_OFFQ_FLAG_SHIFT: position of the first flag of an idle item
 * @WORK_OFFQ_BH_BIT: the item was last on a BH workqueue
 * @WORK_OFFQ_FLAG_END: one past the last flag of an idle item
 * @WORK_OFFQ_FLAG_BITS: how many flags an idle item has
 * @WORK_OFFQ_DISABLE_SHIFT: position of the disable count
 * @WORK_OFFQ_DISABLE_BITS: width of the disable count
 * @WORK_OFFQ_POOL_SHIFT: position of the ID of the pool that ran the item last
 * @WORK_OFFQ_LEFT: bits that remain for that ID
 * @WORK_OFFQ_POOL_BITS: bits that the ID uses, 31 at most
 *
 * One word says where an item is. Scripts for drgn and crash decode it, so the
 * layout is fixed. From the lowest bit up::
 *
 *   queued:  flags (4 or 5) | colour (4)  | pool_workqueue (the rest)
 *   idle:    flags (4 or 5) | BH (1) | disable count (16) | pool ID (up to 31)
 *
 * @WORK_STRUCT_PWQ_BIT tells which of the two it is.
 */
enum work_bits {
	WORK_STRUCT_PENDING_BIT		= 0,
	WORK_STRUCT_INACTIVE_BIT	= 1,
	WORK_STRUCT_PWQ_BIT		= 2,
	WORK_STRUCT_LINKED_BIT		= 3,
#ifdef CONFIG_DEBUG_OBJECTS_WORK
	WORK_STRUCT_STATIC_BIT		= 4,
#endif
	WORK_STRUCT_FLAG_BITS,

	/* queued */
	WORK_STRUCT_COLOR_BITS		= 4,
	WORK_STRUCT_COLOR_SHIFT		= WORK_STRUCT_FLAG_BITS,
	WORK_STRUCT_PWQ_SHIFT		= WORK_STRUCT_FLAG_BITS + WORK_STRUCT_COLOR_BITS,

	/* idle */
	WORK_OFFQ_FLAG_BITS		= 1,
	WORK_OFFQ_DISABLE_BITS		= 16,
	WORK_OFFQ_FLAG_SHIFT		= WORK_STRUCT_FLAG_BITS,
	WORK_OFFQ_BH_BIT		= WORK_OFFQ_FLAG_SHIFT,
	WORK_OFFQ_FLAG_END		= WORK_OFFQ_FLAG_SHIFT + WORK_OFFQ_FLAG_BITS,
	WORK_OFFQ_DISABLE_SHIFT		= WORK_OFFQ_FLAG_END,
	WORK_OFFQ_POOL_SHIFT		= WORK_OFFQ_DISABLE_SHIFT + WORK_OFFQ_DISABLE_BITS,
	WORK_OFFQ_LEFT			= BITS_PER_LONG - WORK_OFFQ_POOL_SHIFT,
	WORK_OFFQ_POOL_BITS		= WORK_OFFQ_LEFT > 31 ? 31 : WORK_OFFQ_LEFT,
};

/**
 * enum work_flags - the flag bits of &work_struct.data as masks
 * @WORK_STRUCT_PENDING: see %WORK_STRUCT_PENDING_BIT
 * @WORK_STRUCT_INACTIVE: see %WORK_STRUCT_INACTIVE_BIT
 * @WORK_STRUCT_PWQ: see %WORK_STRUCT_PWQ_BIT
 * @WORK_STRUCT_LINKED: see %WORK_STRUCT_LINKED_BIT
 * @WORK_STRUCT_STATIC: see %WORK_STRUCT_STATIC_BIT; 0 without debugobjects
 */
enum work_flags {
	/* the last of the bits, if it exists */
	WORK_STRUCT_STATIC	= IS_ENABLED(CONFIG_DEBUG_OBJECTS_WORK) <<
				  (WORK_STRUCT_FLAG_BITS - 1),
	WORK_STRUCT_LINKED	= 1 << WORK_STRUCT_LINKED_BIT,
	WORK_STRUCT_PWQ		= 1 << WORK_STRUCT_PWQ_BIT,
	WORK_STRUCT_INACTIVE	= 1 << WORK_STRUCT_INACTIVE_BIT,
	WORK_STRUCT_PENDING	= 1 << WORK_STRUCT_PENDING_BIT,
};

/**
 * enum wq_misc_consts - numbers that callers use
 * @WORK_CPU_UNBOUND: a CPU argument that means "any, preferably this one"
 * @WORK_BUSY_PENDING: work_busy() found the item waiting to run
 * @WORK_BUSY_RUNNING: work_busy() found the item running
 * @WORK_NR_COLORS: number of flush colours
 * @WORKER_DESC_LEN: bytes that set_worker_desc() stores, final NUL included
 */
enum wq_misc_consts {
	WORK_CPU_UNBOUND	= CONFIG_NR_CPUS,	/* beyond every CPU number */
	WORK_BUSY_PENDING	= 1 << 0,
	WORK_BUSY_RUNNING	= 1 << 1,
	WORK_NR_COLORS		= 1 << WORK_STRUCT_COLOR_BITS,
	WORKER_DESC_LEN		= 32,
};

/*
 * Masks for the whole word. They are macros because they need all bits of an
 * unsigned long, which an enumerator may not have.
 */
#define WORK_OFFQ_BH		BIT(WORK_OFFQ_BH_BIT)
#define WORK_OFFQ_FLAG_MASK	((BIT(WORK_OFFQ_FLAG_BITS) - 1) << WORK_OFFQ_FLAG_SHIFT)
#define WORK_OFFQ_DISABLE_MASK	((BIT(WORK_OFFQ_DISABLE_BITS) - 1) << WORK_OFFQ_DISABLE_SHIFT)
#define WORK_OFFQ_POOL_NONE	(BIT(WORK_OFFQ_POOL_BITS) - 1)
#define WORK_STRUCT_NO_POOL	(WORK_OFFQ_POOL_NONE << WORK_OFFQ_POOL_SHIFT)
#define WORK_STRUCT_PWQ_MASK	(~(BIT(WORK_STRUCT_PWQ_SHIFT) - 1))

/**
 * work_data_bits - address of an item's word for the bit operations
 * @work: the item
 */
#define work_data_bits(work)	((unsigned long *)&(work)->data)

/**
 * work_pending - does an item wait to run?
 * @work: the item
 *
 * True from a successful queueing until the function is about to be called. Also
 * true while a timer or grace period runs that will queue the item, and while
 * another CPU cancels or modifies it. The answer may be outdated at once.
 *
 * Context: Any.
 */
#define work_pending(work)	test_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work))

/**
 * delayed_work_pending - does a delayed item wait for its timer or to run?
 * @w: the delayed item
 *
 * Context: Any.
 */
#define delayed_work_pending(w)	work_pending(&(w)->work)

/**
 * to_delayed_work - get the delayed item from the item passed to a function
 * @work: the &delayed_work.work of a delayed item
 *
 * Return: The delayed item.
 */
static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return container_of(work, struct delayed_work, work);
}

/**
 * to_rcu_work - get the RCU item from the item passed to a function
 * @work: the &rcu_work.work of an RCU item
 *
 * Return: The RCU item.
 */
static inline struct rcu_work *to_rcu_work(struct work_struct *work)
{
	return container_of(work, struct rcu_work, work);
}

/**
 * from_work - get the caller's object from the item passed to a function
 * @var: a pointer to the type of that object, often the one being assigned
 * @callback_work: the parameter of the function
 * @work_fieldname: name of the item within the object
 */
#define from_work(var, callback_work, work_fieldname) \
	container_of((callback_work), typeof(*(var)), work_fieldname)

/* Tell debugobjects about an item that is set up or goes away */
#ifdef CONFIG_DEBUG_OBJECTS_WORK
void __init_work(struct work_struct *work, int onstack);
void destroy_work_on_stack(struct work_struct *work);
void destroy_delayed_work_on_stack(struct delayed_work *work);
#else
static inline void __init_work(struct work_struct *work, int onstack)
{
}

static inline void destroy_work_on_stack(struct work_struct *work)
{
}

static inline void destroy_delayed_work_on_stack(struct delayed_work *work)
{
}
#endif

/* Non-zero for an item that a static initialiser set up; see debugobjects */
static inline unsigned int work_static(struct work_struct *work)
{
	return READ_ONCE(*work_data_bits(work)) & WORK_STRUCT_STATIC;
}

/* The word of an idle item that no pool has run yet */
#define WORK_DATA_INIT() \
	ATOMIC_LONG_INIT((unsigned long)WORK_STRUCT_NO_POOL)
#define WORK_DATA_STATIC_INIT() \
	ATOMIC_LONG_INIT((unsigned long)(WORK_STRUCT_STATIC | WORK_STRUCT_NO_POOL))

/*
 * A static item is its own lock class. The key must be named here. Otherwise lockdep
 * would use the address of the map, but a worker runs an item under a copy of its
 * map.
 */
#ifdef CONFIG_LOCKDEP
#define __WORK_INIT_LOCKDEP_MAP(n, k)	.lockdep_map = STATIC_LOCKDEP_MAP_INIT(n, k),
#else
#define __WORK_INIT_LOCKDEP_MAP(n, k)
#endif

#define __WORK_INITIALIZER(n, f) {					\
	__WORK_INIT_LOCKDEP_MAP(#n, &(n))				\
	.func = (f),							\
	.entry = LIST_HEAD_INIT((n).entry),				\
	.data = WORK_DATA_STATIC_INIT(),				\
}

#define __DELAYED_WORK_INITIALIZER(n, f, tflags) {			\
	.timer = __TIMER_INITIALIZER(delayed_work_timer_fn,		\
				     TIMER_IRQSAFE | (tflags)),		\
	.work = __WORK_INITIALIZER((n).work, (f)),			\
}

/**
 * DECLARE_WORK - define an item that is ready to be queued
 * @n: name of the variable
 * @f: its &work_func_t
 */
#define DECLARE_WORK(n, f) \
	struct work_struct n = __WORK_INITIALIZER(n, f)

/**
 * DECLARE_DELAYED_WORK - define a delayed item that is ready to be queued
 * @n: name of the variable
 * @f: its &work_func_t
 */
#define DECLARE_DELAYED_WORK(n, f) \
	struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, 0)

/**
 * DECLARE_DEFERRABLE_WORK - define a delayed item whose timer wakes no idle CPU
 * @n: name of the variable
 * @f: its &work_func_t
 */
#define DECLARE_DEFERRABLE_WORK(n, f) \
	struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, TIMER_DEFERRABLE)

/*
 * All INIT_*WORK*() end here. This is always inlined, so that the constants reach
 * the stores and @name vanishes without lockdep. Nobody else can see the item yet,
 * hence the plain assignment to an atomic.
 */
static __always_inline void __init_work_key(struct work_struct *work, work_func_t func,
					    int onstack, const char *name,
					    struct lock_class_key *key)
{
	__init_work(work, onstack);
	lockdep_init_map(&work->lockdep_map, name, key, 0);
	INIT_LIST_HEAD(&work->entry);
	work->data = (atomic_long_t)WORK_DATA_INIT();
	work->func = func;
}

#define __INIT_WORK_KEY(_work, _func, _onstack, _key) \
	__init_work_key((_work), (_func), (_onstack), "(work_completion)" #_work, (_key))

/* Each place that initialises items is one lock class. */
#define __INIT_WORK(_work, _func, _onstack)				\
do {									\
	static struct lock_class_key __key __maybe_unused;		\
									\
	__INIT_WORK_KEY(_work, _func, _onstack, &__key);		\
} while (0)

/**
 * INIT_WORK - set up an item
 * @_work: the item, neither queued nor running; it loses all state
 * @_func: the &work_func_t to call with @_work as its argument
 *
 * Call this once; after that the item may be queued again and again. An item
 * that was disabled is enabled again.
 *
 * Context: Any.
 */
#define INIT_WORK(_work, _func) \
	__INIT_WORK((_work), (_func), 0)

/**
 * INIT_RCU_WORK - set up an item for queue_rcu_work()
 * @_work: the &struct rcu_work
 * @_func: its &work_func_t, called with the address of &rcu_work.work
 */
#define INIT_RCU_WORK(_work, _func) \
	INIT_WORK(&(_work)->work, (_func))

#define __INIT_DELAYED_WORK(_work, _func, _tflags)			\
do {									\
	timer_setup(&(_work)->timer, delayed_work_timer_fn,		\
		    TIMER_IRQSAFE | (_tflags));				\
	INIT_WORK(&(_work)->work, (_func));				\
} while (0)

/**
 * INIT_DEFERRABLE_WORK - set up a delayed item whose timer wakes no idle CPU
 * @_work: the delayed item
 * @_func: its &work_func_t
 *
 * The delay becomes a lower bound: the item waits until its CPU is awake anyway.
 */
#define INIT_DEFERRABLE_WORK(_work, _func) \
	__INIT_DELAYED_WORK(_work, _func, TIMER_DEFERRABLE)

/**
 * INIT_DELAYED_WORK - set up a delayed item
 * @_work: the delayed item
 * @_func: its &work_func_t, called with the address of &delayed_work.work
 */
#define INIT_DELAYED_WORK(_work, _func) \
	__INIT_DELAYED_WORK(_work, _func, 0)

/* The same for items on the stack */

/**
 * INIT_WORK_ONSTACK_KEY - INIT_WORK_ONSTACK() with a lock class of the caller's
 * @_work: the item
 * @_func: its &work_func_t
 * @_key: a static &struct lock_class_key
 */
#define INIT_WORK_ONSTACK_KEY(_work, _func, _key) \
	__INIT_WORK_KEY((_work), (_func), 1, _key)

/**
 * INIT_WORK_ONSTACK - set up an item that lives on the stack
 * @_work: the item
 * @_func: its &work_func_t
 *
 * Before you return, wait for the item and call destroy_work_on_stack().
 */
#define INIT_WORK_ONSTACK(_work, _func) \
	__INIT_WORK((_work), (_func), 1)

/**
 * INIT_RCU_WORK_ONSTACK - INIT_RCU_WORK() for the stack
 * @_work: the &struct rcu_work
 * @_func: its &work_func_t
 */
#define INIT_RCU_WORK_ONSTACK(_work, _func) \
	INIT_WORK_ONSTACK(&(_work)->work, (_func))

#define __INIT_DELAYED_WORK_ONSTACK(_work, _func, _tflags)		\
do {									\
	timer_setup_on_stack(&(_work)->timer, delayed_work_timer_fn,	\
			     TIMER_IRQSAFE | (_tflags));		\
	INIT_WORK_ONSTACK(&(_work)->work, (_func));			\
} while (0)

/**
 * INIT_DEFERRABLE_WORK_ONSTACK - INIT_DEFERRABLE_WORK() for the stack
 * @_work: the delayed item
 * @_func: its &work_func_t
 */
#define INIT_DEFERRABLE_WORK_ONSTACK(_work, _func) \
	__INIT_DELAYED_WORK_ONSTACK(_work, _func, TIMER_DEFERRABLE)

/**
 * INIT_DELAYED_WORK_ONSTACK - set up a delayed item that lives on the stack
 * @_work: the delayed item
 * @_func: its &work_func_t
 *
 * Pair it with destroy_delayed_work_on_stack().
 */
#define INIT_DELAYED_WORK_ONSTACK(_work, _func) \
	__INIT_DELAYED_WORK_ONSTACK(_work, _func, 0)

/* ==== A workqueue and its properties ===================================== */

/**
 * enum wq_flags - properties of a workqueue, fixed when it is allocated
 * @WQ_PERCPU: an item runs on the CPU that it was queued on
 * @WQ_UNBOUND: workers belong to a pod of CPUs and not to a single one; see
 *	&enum wq_affn_scope. Give exactly one of this and %WQ_PERCPU.
 * @WQ_BH: items run in softirq context, may not sleep, and run one after the
 *	other on the CPU that queued them. Can be combined only with %WQ_PERCPU,
 *	%WQ_HIGHPRI and a max_active of 0.
 * @WQ_HIGHPRI: workers have a nice level of -20 and pools of their own; with
 *	%WQ_BH, items run in HI_SOFTIRQ instead of TASKLET_SOFTIRQ
 * @WQ_CPU_INTENSIVE: a running item does not keep others from starting on the
 *	same CPU. This has no effect on unbound workqueues, where no item ever does.
 * @WQ_MEM_RECLAIM: a rescuer thread is kept ready, so that one item at a time
 *	makes progress when there is no memory for a new worker. Set this if
 *	memory reclaim may wait for an item.
 * @WQ_FREEZABLE: nothing new starts while the system is frozen for suspend
 * @WQ_SYSFS: attributes and limits appear under /sys/devices/virtual/workqueue
 * @WQ_POWER_EFFICIENT: a %WQ_PERCPU workqueue that becomes %WQ_UNBOUND with
 *	workqueue.power_efficient. A per-CPU item has to run where it was queued,
 *	which may pull an idle CPU out of a deep sleep state. An unbound item runs
 *	where the scheduler finds it cheapest, at the price of some locality.
 * @__WQ_DESTROYING: internal, destroy_workqueue() has begun
 * @__WQ_DRAINING: internal, only items of the workqueue itself may queue
 * @__WQ_ORDERED: internal, one item at a time; see alloc_ordered_workqueue()
 * @__WQ_LEGACY: internal, made by a create_*workqueue() macro; lockdep then
 *	tolerates a dependency that %WQ_MEM_RECLAIM would forbid
 * @__WQ_DEPRECATED: internal, queueing warns once
 * @__WQ_BH_ALLOWS: internal, all flags that a %WQ_BH workqueue may have
 */
enum wq_flags {
	/* where items run */
	WQ_PERCPU		= 1 << 8,
	WQ_UNBOUND		= 1 << 1,
	WQ_BH			= 1 << 0,

	/* how they run */
	WQ_HIGHPRI		= 1 << 4,
	WQ_CPU_INTENSIVE	= 1 << 5,
	WQ_MEM_RECLAIM		= 1 << 3,
	WQ_FREEZABLE		= 1 << 2,
	WQ_SYSFS		= 1 << 6,
	WQ_POWER_EFFICIENT	= 1 << 7,

	/* not for callers */
	__WQ_DESTROYING		= 1 << 15,
	__WQ_DRAINING		= 1 << 16,
	__WQ_ORDERED		= 1 << 17,
	__WQ_LEGACY		= 1 << 18,
	__WQ_DEPRECATED		= 1 << 19,

	__WQ_BH_ALLOWS		= WQ_PERCPU | WQ_BH | WQ_HIGHPRI,
};

/**
 * enum wq_consts - limits on how many items of one workqueue run at once
 * @WQ_MAX_ACTIVE: the highest value of max_active
 * @WQ_UNBOUND_MAX_ACTIVE: the same; kept for old callers
 * @WQ_DFL_ACTIVE: what a max_active of 0 means
 * @WQ_DFL_MIN_ACTIVE: an unbound workqueue divides max_active among the NUMA
 *	nodes; each node gets at least this many, or max_active if that is less
 */
enum wq_consts {
	WQ_MAX_ACTIVE		= 2048,
	WQ_UNBOUND_MAX_ACTIVE	= WQ_MAX_ACTIVE,
	WQ_DFL_ACTIVE		= WQ_MAX_ACTIVE / 2,
	WQ_DFL_MIN_ACTIVE	= 8,
};

/**
 * enum wq_affn_scope - how an unbound workqueue groups CPUs into pods
 * @WQ_AFFN_DFL: whatever workqueue.default_affinity_scope says
 * @WQ_AFFN_CPU: every CPU is a pod
 * @WQ_AFFN_SMT: the hardware threads of one core are a pod
 * @WQ_AFFN_CACHE: the CPUs below one last-level cache are a pod
 * @WQ_AFFN_CACHE_SHARD: the CPUs below one last-level cache are cut into shards
 *	of whole cores, each of at most workqueue.cache_shard_size cores
 * @WQ_AFFN_NUMA: the CPUs of one NUMA node are a pod
 * @WQ_AFFN_SYSTEM: all CPUs are one pod
 * @WQ_AFFN_NR_TYPES: number of the above
 *
 * The CPU that queues an item is in one pod, and the workers of that pod serve
 * the item. Every possible CPU is in exactly one pod of each scope.
 */
enum wq_affn_scope {
	WQ_AFFN_DFL		= 0,
	WQ_AFFN_CPU		= 1,
	WQ_AFFN_SMT		= 2,
	WQ_AFFN_CACHE		= 3,
	WQ_AFFN_CACHE_SHARD	= 4,
	WQ_AFFN_NUMA		= 5,
	WQ_AFFN_SYSTEM		= 6,
	WQ_AFFN_NR_TYPES	= 7,
};

/**
 * struct workqueue_attrs - what can be changed about an unbound workqueue
 *
 * Allocate one with alloc_workqueue_attrs(), fill it in, and pass it to
 * apply_workqueue_attrs().
 */
struct workqueue_attrs {
	/**
	 * @nice: nice level of the workers, -20 to 19
	 */
	int nice;

	/**
	 * @cpumask: where items may run
	 *
	 * CPUs outside the global mask of unbound workqueues are left out. If
	 * no CPU remains, the global mask is used instead.
	 */
	cpumask_var_t cpumask;

	/**
	 * @__pod_cpumask: the part of @cpumask that lies in one pod
	 *
	 * Filled in for each pool when attributes are applied; callers leave it alone.
	 */
	cpumask_var_t __pod_cpumask;

	/**
	 * @affn_strict: workers never leave their pod
	 *
	 * If false, a worker that is woken is put back into its pod, after which
	 * the scheduler may move it anywhere in @cpumask.
	 */
	bool affn_strict;

	/*
	 * The members below decide which pools a workqueue gets. They are no
	 * properties of a pool, so the lookup of a pool does not compare or hash
	 * them. If @affn_strict is set, the lookup ignores @cpumask as well.
	 */

	/**
	 * @affn_scope: size of the pods
	 */
	enum wq_affn_scope affn_scope;

	/**
	 * @ordered: one item at a time, in the order of queueing
	 *
	 * Decided when the workqueue was allocated; applying attributes keeps it.
	 */
	bool ordered;
};

struct workqueue_attrs *alloc_workqueue_attrs_noprof(void);
#define alloc_workqueue_attrs(...) \
	alloc_hooks(alloc_workqueue_attrs_noprof(__VA_ARGS__))

void free_workqueue_attrs(struct workqueue_attrs *attrs);
int apply_workqueue_attrs(struct workqueue_struct *wq, const struct workqueue_attrs *attrs);
__printf(1, 4)
struct workqueue_struct *alloc_workqueue_noprof(const char *fmt, unsigned int flags,
						int max_active, ...);
#define alloc_workqueue(...) \
	alloc_hooks(alloc_workqueue_noprof(__VA_ARGS__))

/**
 * alloc_ordered_workqueue - make a workqueue that runs one item at a time
 * @fmt: printf format of its name
 * @flags: %WQ_FREEZABLE, %WQ_MEM_RECLAIM, %WQ_HIGHPRI, %WQ_SYSFS or 0
 * @args: arguments of @fmt
 *
 * Items start in the order of queueing, each after the end of the previous one,
 * system-wide. This also holds across changes of attributes and CPU masks. An
 * unbound workqueue with a max_active of 1 does not promise that.
 *
 * Context: Process context. May sleep.
 * Return: The workqueue, %NULL on failure.
 */
#define alloc_ordered_workqueue(fmt, flags, args...) \
	alloc_workqueue(fmt, (flags) | WQ_UNBOUND | __WQ_ORDERED, 1, ##args)

__printf(2, 5)
struct workqueue_struct *devm_alloc_workqueue_noprof(struct device *dev, const char *fmt,
						     unsigned int flags, int max_active, ...);
#define devm_alloc_workqueue(...) \
	alloc_hooks(devm_alloc_workqueue_noprof(__VA_ARGS__))

/**
 * devm_alloc_ordered_workqueue - devm_alloc_workqueue() for an ordered one
 * @dev: destroys the workqueue when its driver is unbound
 * @fmt: printf format of its name
 * @flags: see alloc_ordered_workqueue()
 * @args: arguments of @fmt
 *
 * Context: Process context. May sleep.
 * Return: The workqueue, %NULL on failure.
 */
#define devm_alloc_ordered_workqueue(dev, fmt, flags, args...) \
	devm_alloc_workqueue(dev, fmt, (flags) | WQ_UNBOUND | __WQ_ORDERED, 1, ##args)

#ifdef CONFIG_LOCKDEP
__printf(1, 5)
struct workqueue_struct *alloc_workqueue_lockdep_map(const char *fmt, unsigned int flags,
						     int max_active,
						     struct lockdep_map *lockdep_map, ...);

/**
 * alloc_ordered_workqueue_lockdep_map - alloc_workqueue_lockdep_map() for an ordered one
 * @fmt: printf format of the name
 * @flags: see alloc_ordered_workqueue()
 * @lockdep_map: stands for the workqueue in lockdep, and outlives it
 * @args: arguments of @fmt
 *
 * Context: Process context. May sleep.
 * Return: The workqueue, %NULL on failure.
 */
#define alloc_ordered_workqueue_lockdep_map(fmt, flags, lockdep_map, args...)	\
	alloc_hooks(alloc_workqueue_lockdep_map(				\
		fmt, (flags) | WQ_UNBOUND | __WQ_ORDERED, 1, lockdep_map, ##args))
#endif

/*
 * How workqueues were made before there were flags. New code calls
 * alloc_workqueue() with the flags that it needs.
 */
#define create_workqueue(name) \
	alloc_workqueue("%s", WQ_PERCPU | WQ_MEM_RECLAIM | __WQ_LEGACY, 1, (name))
#define create_singlethread_workqueue(name) \
	alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM | __WQ_LEGACY, name)
#define create_freezable_workqueue(name) \
	alloc_workqueue("%s", WQ_UNBOUND | WQ_FREEZABLE | WQ_MEM_RECLAIM | __WQ_LEGACY, 1, (name))

void destroy_workqueue(struct workqueue_struct *wq);
void workqueue_set_max_active(struct workqueue_struct *wq, int max_active);
void workqueue_set_min_active(struct workqueue_struct *wq, int min_active);

#ifdef CONFIG_SYSFS
int workqueue_sysfs_register(struct workqueue_struct *wq);
#else
static inline int workqueue_sysfs_register(struct workqueue_struct *wq)
{
	return 0;
}
#endif

/**
 * DOC: System workqueues
 *
 * They exist from early boot on, for users that need no limit, flag or flush of
 * their own. Everybody shares them, so do not flush them.
 *
 * ``system_percpu_wq``
 *   Per CPU. schedule_work() and its variants use it. Keep items short.
 *
 * ``system_highpri_wq``
 *   Per CPU, %WQ_HIGHPRI.
 *
 * ``system_long_wq``
 *   Per CPU, for items that take their time.
 *
 * ``system_dfl_wq``
 *   Unbound, with the highest possible max_active. The default choice when it does
 *   not matter which CPU does the work.
 *
 * ``system_dfl_long_wq``
 *   Unbound, for items that take their time.
 *
 * ``system_freezable_wq``
 *   Per CPU, %WQ_FREEZABLE.
 *
 * ``system_power_efficient_wq``
 *   Per CPU; unbound with workqueue.power_efficient.
 *
 * ``system_freezable_power_efficient_wq``
 *   Per CPU, %WQ_FREEZABLE; unbound with workqueue.power_efficient.
 *
 * ``system_bh_wq``, ``system_bh_highpri_wq``
 *   Softirq context, in place of tasklets.
 *
 * ``system_wq``, ``system_unbound_wq``
 *   Former names of ``system_percpu_wq`` and ``system_dfl_wq``. They still exist
 *   for modules; queueing on them warns. In kernels before 7.0 most callers use them:
 *   there the old and the new name mean the same workqueue, and nothing warns.
 */
extern struct workqueue_struct *system_percpu_wq;
extern struct workqueue_struct *system_highpri_wq;
extern struct workqueue_struct *system_long_wq;
extern struct workqueue_struct *system_dfl_wq;
extern struct workqueue_struct *system_dfl_long_wq;
extern struct workqueue_struct *system_freezable_wq;
extern struct workqueue_struct *system_power_efficient_wq;
extern struct workqueue_struct *system_freezable_power_efficient_wq;
extern struct workqueue_struct *system_bh_wq;
extern struct workqueue_struct *system_bh_highpri_wq;
extern struct workqueue_struct *system_wq;
extern struct workqueue_struct *system_unbound_wq;

/* ==== Queueing =========================================================== */

bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work);
bool queue_work_node(int node, struct workqueue_struct *wq, struct work_struct *work);

/**
 * queue_work - queue an item
 * @wq: the workqueue
 * @work: the item
 *
 * On a per-CPU workqueue, the item runs on this CPU, or on another one if this CPU
 * goes offline first.
 *
 * Memory ordering: this is a full barrier whatever it returns. If it queued
 * @work, the function sees all that was written before the call. If @work was
 * already pending, the function has not begun and will see these writes as well.
 * So if two CPUs write and then queue the same item, neither write is missed::
 *
 *   submitter                        function
 *   WRITE_ONCE(*p, 1);               b = READ_ONCE(*p);
 *   a = queue_work(wq, work);
 *
 * cannot end with a true and b zero.
 *
 * Context: Any.
 * Return: %true if @work is now queued, %false if it was already or is disabled.
 */
static inline bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return queue_work_on(WORK_CPU_UNBOUND, wq, work);
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
			   struct delayed_work *work, unsigned long delay);

/**
 * queue_delayed_work - queue an item after a delay
 * @wq: the workqueue
 * @dwork: the delayed item
 * @delay: in jiffies; 0 queues at once
 *
 * Does not change a delay that is already running; mod_delayed_work() does.
 *
 * Context: Any.
 * Return: %true if @dwork is now pending, %false if it was already or is disabled.
 */
static inline bool queue_delayed_work(struct workqueue_struct *wq,
				      struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work_on(WORK_CPU_UNBOUND, wq, dwork, delay);
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
			 struct delayed_work *dwork, unsigned long delay);

/**
 * mod_delayed_work - queue an item after a delay, or change its delay
 * @wq: the workqueue
 * @dwork: the delayed item
 * @delay: in jiffies; 0 queues at once
 *
 * See mod_delayed_work_on().
 *
 * Context: Any.
 * Return: %true if @dwork was pending and has been changed, %false if it was idle.
 */
static inline bool mod_delayed_work(struct workqueue_struct *wq,
				    struct delayed_work *dwork, unsigned long delay)
{
	return mod_delayed_work_on(WORK_CPU_UNBOUND, wq, dwork, delay);
}

bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *rwork);

/**
 * schedule_work - queue_work() on system_percpu_wq
 * @work: the item
 *
 * Orders memory as queue_work() does.
 *
 * Context: Any.
 * Return: %true if @work is now queued, %false if it was already or is disabled.
 */
static inline bool schedule_work(struct work_struct *work)
{
	return queue_work(system_percpu_wq, work);
}

/**
 * schedule_work_on - queue_work_on() on system_percpu_wq
 * @cpu: the CPU
 * @work: the item
 *
 * Context: Any.
 * Return: %true if @work is now queued, %false if it was already or is disabled.
 */
static inline bool schedule_work_on(int cpu, struct work_struct *work)
{
	return queue_work_on(cpu, system_percpu_wq, work);
}

/**
 * schedule_delayed_work - queue_delayed_work() on system_percpu_wq
 * @dwork: the delayed item
 * @delay: in jiffies; 0 queues at once
 *
 * Context: Any.
 * Return: %true if @dwork is now pending, %false if it was already or is disabled.
 */
static inline bool schedule_delayed_work(struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work(system_percpu_wq, dwork, delay);
}

/**
 * schedule_delayed_work_on - queue_delayed_work_on() on system_percpu_wq
 * @cpu: the CPU
 * @dwork: the delayed item
 * @delay: in jiffies; 0 queues at once
 *
 * Context: Any.
 * Return: %true if @dwork is now pending, %false if it was already or is disabled.
 */
static inline bool schedule_delayed_work_on(int cpu, struct delayed_work *dwork,
					    unsigned long delay)
{
	return queue_delayed_work_on(cpu, system_percpu_wq, dwork, delay);
}

int schedule_on_each_cpu(work_func_t func);
int execute_in_process_context(work_func_t fn, struct execute_work *ew);

#ifdef CONFIG_SMP
long work_on_cpu_key(int cpu, long (*fn)(void *arg), void *arg, struct lock_class_key *key);

/**
 * work_on_cpu - call a function on a CPU, in process context, and wait for it
 * @_cpu: the CPU, which the caller keeps online
 * @_fn: the function
 * @_arg: what to call it with
 *
 * Each place that uses this has a lock class of its own, so calls of unrelated
 * functions may nest.
 *
 * Context: Process context. May sleep.
 * Return: What @_fn returned.
 */
#define work_on_cpu(_cpu, _fn, _arg)				\
({								\
	static struct lock_class_key __key;			\
								\
	work_on_cpu_key((_cpu), (_fn), (_arg), &__key);		\
})
#else
/* There is only this one CPU. */
static inline long work_on_cpu(int cpu, long (*fn)(void *arg), void *arg)
{
	return fn(arg);
}

static inline long work_on_cpu_safe(int cpu, long (*fn)(void *arg), void *arg)
{
	return work_on_cpu(cpu, fn, arg);
}
#endif

/* ==== Waiting ============================================================ */

bool flush_work(struct work_struct *work);
bool flush_delayed_work(struct delayed_work *dwork);
bool flush_rcu_work(struct rcu_work *rwork);
void __flush_workqueue(struct workqueue_struct *wq);

/*
 * In a clean build no call of this function remains: the compiler warns wherever it
 * cannot drop one.
 */
__compiletime_warning("Do not flush a system workqueue: everybody's work is on it.")
void __warn_flushing_systemwide_wq(void);

/* True if the compiler can prove that both are the same workqueue */
static __always_inline bool __wq_known_same(const struct workqueue_struct *wq,
					    const struct workqueue_struct *system)
{
	bool same = wq == system;

	return __builtin_constant_p(same) && same;
}

/**
 * flush_workqueue - wait until all that is on a workqueue has run
 * @wq: the workqueue
 *
 * All items that were queued before the call have finished when it returns.
 * Items that are queued after it began do not prolong it. Any number of tasks
 * may flush at once. Delayed items whose timer still runs do not count.
 *
 * A system workqueue may hold items that wait for a lock of the caller. To flush it
 * is then a deadlock, which the caller cannot foresee. So flushing one causes a
 * warning at compile time. The former names of system workqueues cause none, so that modules
 * that use them still build with -Werror.
 *
 * Context: Process context. May sleep. Not from an item of @wq.
 */
static __always_inline void flush_workqueue(struct workqueue_struct *wq)
{
	/* before 7.0 the former names were the ones to use, and the new ones caused no warning */
	const bool old = IS_ENABLED(CONFIG_WORKQUEUE_OLD_CALLERS);

	if (__wq_known_same(wq, old ? system_wq : system_percpu_wq) ||
	    __wq_known_same(wq, old ? system_unbound_wq : system_dfl_wq) ||
	    __wq_known_same(wq, system_highpri_wq) ||
	    __wq_known_same(wq, system_long_wq) ||
	    __wq_known_same(wq, system_dfl_long_wq) ||
	    __wq_known_same(wq, system_freezable_wq) ||
	    __wq_known_same(wq, system_power_efficient_wq) ||
	    __wq_known_same(wq, system_freezable_power_efficient_wq))
		__warn_flushing_systemwide_wq();

	__flush_workqueue(wq);
}

/*
 * This waits for items of others, and so for locks that the caller cannot know. Any
 * use causes a warning at compile time. It stays for modules that still use it.
 */
static __always_inline void flush_scheduled_work(void)
{
	__warn_flushing_systemwide_wq();
	__flush_workqueue(system_percpu_wq);
}

void drain_workqueue(struct workqueue_struct *wq);

/* ==== Cancelling ========================================================= */

bool cancel_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
bool cancel_delayed_work(struct delayed_work *dwork);
bool cancel_delayed_work_sync(struct delayed_work *dwork);
bool disable_work(struct work_struct *work);
bool disable_work_sync(struct work_struct *work);
bool enable_work(struct work_struct *work);
bool disable_delayed_work(struct delayed_work *dwork);
bool disable_delayed_work_sync(struct delayed_work *dwork);
bool enable_delayed_work(struct delayed_work *dwork);

/**
 * enable_and_queue_work - enable_work(), and queue_work() if no disable is left
 * @wq: the workqueue
 * @work: the item
 *
 * This queues @work whether or not anyone tried to queue it while it was disabled.
 * If you want it queued only after such an attempt, remember the attempt and queue
 * @work after enable_work().
 *
 * Context: Any.
 * Return: %true if @work can be queued again; queue_work() was called then.
 */
static inline bool enable_and_queue_work(struct workqueue_struct *wq,
					 struct work_struct *work)
{
	bool enabled = enable_work(work);

	if (enabled)
		queue_work(wq, work);
	return enabled;
}

/* ==== Looking at it ====================================================== */

unsigned int work_busy(struct work_struct *work);
bool workqueue_congested(int cpu, struct workqueue_struct *wq);
struct work_struct *current_work(void);
bool current_is_workqueue_rescuer(void);
bool current_is_workqueue_mem_reclaim(void);
__printf(1, 2) void set_worker_desc(const char *fmt, ...);
void print_worker_info(const char *log_lvl, struct task_struct *task);
void show_all_workqueues(void);
void show_freezable_workqueues(void);
void show_one_workqueue(struct workqueue_struct *wq);
void wq_worker_comm(char *buf, size_t size, struct task_struct *task);

#ifdef CONFIG_WQ_WATCHDOG
void wq_watchdog_touch(int cpu);
#else
static inline void wq_watchdog_touch(int cpu)
{
}
#endif

/* ==== The rest of the kernel ============================================= */

/* Boot: data structures, then workers, then pods when the topology is known */
void __init workqueue_init_early(void);
void __init workqueue_init(void);
void __init workqueue_init_topology(void);

/* kernel/softirq.c: run what is queued in BH pools, here or for a dead CPU */
void workqueue_softirq_action(bool highpri);
void workqueue_softirq_dead(unsigned int cpu);

/* Isolated CPUs changed: @hk are those that unbound work may use */
int workqueue_unbound_housekeeping_update(const struct cpumask *hk);

#ifdef CONFIG_SMP
/* CPU hotplug states */
int workqueue_prepare_cpu(unsigned int cpu);
int workqueue_online_cpu(unsigned int cpu);
int workqueue_offline_cpu(unsigned int cpu);
#endif

#ifdef CONFIG_FREEZER
/* kernel/power: freeze freezable workqueues, poll until they are idle, thaw them */
void freeze_workqueues_begin(void);
bool freeze_workqueues_busy(void);
void thaw_workqueues(void);
#endif

#endif /* _LINUX_WORKQUEUE_H */
