// SPDX-License-Identifier: GPL-2.0
/*
 * What changes around the workqueues: attributes and masks, CPUs that go and come,
 * shortage of memory. Each change of attributes, masks or CPUs advances an epoch. The
 * epochs tell a run whether the prediction for it is still valid.
 */
#define pr_fmt(fmt) "wqtorture: " fmt

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "wqtorture.h"

#define ATTRS_DIR	"devices/virtual/workqueue/"
#define SHARD_SIZE	"module/workqueue/parameters/cache_shard_size"
#define LATENCY_ENABLE	"kernel/debug/workqueue/latency_enable"
#define RESERVE_PAGES	((48UL << 20) >> PAGE_SHIFT)

/*
 * CPUs. The callbacks run after the workqueue's own on the way up, and before them on
 * the way down. An odd epoch therefore means that the CPU's workers are bound.
 */

static DEFINE_PER_CPU(unsigned long, cpu_epoch);
static cpumask_t cpus_seen;		/* those that were up at some time: they have workers */
static atomic_t cpus_down;
static atomic_long_t topology_epoch;
static int hotplug_state;

static int cpu_comes(unsigned int cpu)
{
	/* others read the mask, so write only what is new */
	if (cpumask_test_cpu(cpu, &cpus_seen))
		atomic_dec(&cpus_down);
	else
		cpumask_set_cpu(cpu, &cpus_seen);
	WRITE_ONCE(per_cpu(cpu_epoch, cpu), per_cpu(cpu_epoch, cpu) + 1);
	atomic_long_inc(&topology_epoch);
	return 0;
}

static int cpu_goes(unsigned int cpu)
{
	atomic_inc(&cpus_down);
	WRITE_ONCE(per_cpu(cpu_epoch, cpu), per_cpu(cpu_epoch, cpu) + 1);
	atomic_long_inc(&topology_epoch);
	smp_mb();	/* before the workers are unbound; pairs with wqt_cpu_unmoved() */
	return 0;
}

unsigned long wqt_cpu_epoch(int cpu)
{
	return READ_ONCE(per_cpu(cpu_epoch, cpu));
}

/* Has @cpu been up since @epoch was read? */
bool wqt_cpu_unmoved(int cpu, unsigned long epoch)
{
	smp_mb();	/* the caller first read on which CPU it runs; pairs with cpu_goes() */
	return (epoch & 1) && wqt_cpu_epoch(cpu) == epoch;
}

unsigned long wqt_topology_epoch(void)
{
	return atomic_long_read(&topology_epoch);
}

/*
 * A CPU that goes down is dying, then inactive, long before cpu_goes(). From then on the
 * scheduler puts only tasks there that are bound to this one CPU.
 */
bool wqt_topology_whole(void)
{
	if (atomic_read(&cpus_down))
		return false;
	/* data_race(): a CPU may go down right now as well as right afterwards */
	return data_race(cpumask_empty(cpu_dying_mask) &&
			 cpumask_subset(cpu_online_mask, cpu_active_mask));
}

/* A CPU that has workers and may be offline. */
int wqt_any_cpu(struct rnd_state *rnd)
{
	int cpu = cpumask_nth(wqt_rnd(rnd, cpumask_weight(&cpus_seen)), &cpus_seen);

	return cpu < nr_cpu_ids ? cpu : cpumask_first(&cpus_seen);
}

/* An item was queued on @cpu; the caller has preemption disabled. */
void wqt_count_cpu(int cpu)
{
	if (!cpu_online(cpu))
		wqt_count(WQT_ON_OFFLINE);
	else if (cpumask_test_cpu(cpu, cpu_dying_mask))
		wqt_count(WQT_ON_DYING);
}

/* The caller has preemption disabled: the CPU stays online. */
int wqt_online_cpu(struct rnd_state *rnd)
{
	int cpu = cpumask_nth(wqt_rnd(rnd, num_online_cpus()), cpu_online_mask);

	return cpu < nr_cpu_ids ? cpu : smp_processor_id();
}

static void bring_all_up(void)
{
	int cpu;

	for_each_cpu(cpu, &cpus_seen)
		if (!cpu_online(cpu) && !add_cpu(cpu))
			wqt_count(WQT_CPU_UP);
}

static void toggle_cpu(struct wqt_actor *actor)
{
	int cpu = wqt_any_cpu(&actor->rnd);

	if (!cpu_online(cpu)) {
		wqt_at(actor, "add_cpu", NULL);
		/* not in a famine: a pod that gets no worker rightly stays unused */
		down_read(&wqt_famine_sem);
		if (!add_cpu(cpu))
			wqt_count(WQT_CPU_UP);
		up_read(&wqt_famine_sem);
	} else if (num_online_cpus() > 1) {
		wqt_at(actor, "remove_cpu", NULL);
		if (!remove_cpu(cpu))
			wqt_count(WQT_CPU_DOWN);
	}
	wqt_at(actor, NULL, NULL);
}

int wqt_onoff_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	while (wqt_actor_naps(actor, wqt_onoff_ms))
		toggle_cpu(actor);
	bring_all_up();
	return wqt_actor_ends(actor);
}

/*
 * Attributes
 */

static const char * const scope_names[WQT_NR_SCOPES] = {
	[WQT_SCOPE_DEFAULT]	= "default",
	[WQT_SCOPE_CPU]		= "cpu",
	[WQT_SCOPE_SMT]		= "smt",
	[WQT_SCOPE_CACHE]	= "cache",
	[WQT_SCOPE_CACHE_SHARD]	= "cache_shard",
	[WQT_SCOPE_NUMA]	= "numa",
	[WQT_SCOPE_SYSTEM]	= "system",
};

static DEFINE_MUTEX(mask_lock);		/* global_mask and the slots' @allowed */
static cpumask_t global_mask;
static unsigned int global_seq;		/* odd while it changes */

/* The epoch of what concerns all unbound workqueues; odd while that changes. */
unsigned int wqt_masks_epoch(void)
{
	return READ_ONCE(global_seq);
}

/* The epoch of all that concerns @slot; odd while any of that changes. */
unsigned int wqt_attrs_epoch(const struct wqt_slot *slot)
{
	unsigned int own = READ_ONCE(slot->seq);
	unsigned int global = READ_ONCE(global_seq);

	return (own + global) * 2 + ((own | global) & 1);
}

static void seq_begin(unsigned int *seq)
{
	WRITE_ONCE(*seq, *seq + 1);
	smp_mb();	/* seen as odd before anything changes; pairs with foresee() */
}

static void seq_end(unsigned int *seq)
{
	smp_mb();	/* all changes come first; pairs with foresee() */
	WRITE_ONCE(*seq, *seq + 1);
}

static void update_allowed(struct wqt_slot *slot)
{
	lockdep_assert_held(&mask_lock);
	if (!cpumask_and(slot->allowed, slot->mask, &global_mask))
		cpumask_copy(slot->allowed, &global_mask);
}

/* @slot has a new workqueue. */
void wqt_forget_attrs(struct wqt_slot *slot)
{
	seq_begin(&slot->seq);
	slot->scope = WQT_SCOPE_DEFAULT;
	slot->strict = false;
	mutex_lock(&mask_lock);
	cpumask_copy(slot->mask, cpu_possible_mask);
	update_allowed(slot);
	mutex_unlock(&mask_lock);
	seq_end(&slot->seq);
}

/* The pod of @cpu, as far as a module can know. */
static const struct cpumask *pod_of(enum wqt_scope scope, int cpu)
{
	switch (scope) {
	case WQT_SCOPE_CPU:
		return cpumask_of(cpu);
	case WQT_SCOPE_SMT:
		return topology_sibling_cpumask(cpu);
	case WQT_SCOPE_NUMA:
		return cpumask_of_node(cpu_to_node(cpu));
	default:
		return cpu_possible_mask;
	}
}

/*
 * May an item that was queued on @from run on @ran? If the workqueue's mask and the pod
 * have no online CPU in common, the item may run anywhere in the mask.
 */
bool wqt_in_pod(const struct wqt_slot *slot, int from, int ran)
{
	const struct cpumask *pod = pod_of(READ_ONCE(slot->scope), from);
	int cpu;

	if (!cpumask_test_cpu(ran, slot->allowed))
		return false;
	if (!READ_ONCE(slot->strict) || cpumask_test_cpu(ran, pod))
		return true;
	for_each_cpu_and(cpu, pod, slot->allowed)
		if (cpu_online(cpu))
			return false;
	return true;
}

static void random_mask(struct rnd_state *rnd, struct cpumask *mask)
{
	int cpu;

	cpumask_clear(mask);
	for_each_cpu(cpu, &cpus_seen)
		if (wqt_one_in(rnd, 2))
			cpumask_set_cpu(cpu, mask);
	if (cpumask_empty(mask) || wqt_one_in(rnd, 4))
		cpumask_copy(mask, cpu_possible_mask);
}

/* With CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and their task-filter, this task may lack memory. */
static void fail_allocations(bool fail)
{
#ifdef CONFIG_FAULT_INJECTION
	current->make_it_fail = fail;
#endif
}

/*
 * Write one attribute. A write that fails must change nothing. Some fail on purpose.
 */
static bool write_attr(struct wqt_slot *slot, const char *attr, const char *text,
		       struct rnd_state *rnd)
{
	char name[96], before[128] = "", after[128] = "";
	bool readable;
	int ret;

	scnprintf(name, sizeof(name), ATTRS_DIR "wqt_%s/%s", slot->kind->name, attr);
	readable = !wqt_sys_read(name, before, sizeof(before));
	fail_allocations(wqt_one_in(rnd, 2));
	ret = wqt_sys_write(name, text);
	fail_allocations(false);
	wqt_count(ret ? WQT_ATTRS_FAILED : WQT_ATTRS);
	if (!ret)
		return true;
	if (readable && !wqt_sys_read(name, after, sizeof(after)) && strcmp(before, after))
		wqt_wrong(WQT_HALF_APPLIED, slot, "%s was %s, is %s after error %d of %s",
			  attr, before, after, ret, text);
	return false;
}

static void change_scope(struct wqt_slot *slot, struct rnd_state *rnd)
{
	enum wqt_scope scope = wqt_rnd(rnd, WQT_NR_SCOPES);

	if (write_attr(slot, "affinity_scope", scope_names[scope], rnd))
		WRITE_ONCE(slot->scope, scope);
}

static void change_strict(struct wqt_slot *slot, struct rnd_state *rnd)
{
	bool strict = wqt_one_in(rnd, 2);

	if (write_attr(slot, "affinity_strict", strict ? "1" : "0", rnd))
		WRITE_ONCE(slot->strict, strict);
}

static void change_mask(struct wqt_slot *slot, struct rnd_state *rnd)
{
	char text[128];
	cpumask_var_t mask;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL))
		return;
	random_mask(rnd, mask);
	scnprintf(text, sizeof(text), "%*pb", cpumask_pr_args(mask));
	if (write_attr(slot, "cpumask", text, rnd)) {
		mutex_lock(&mask_lock);
		cpumask_copy(slot->mask, mask);
		update_allowed(slot);
		mutex_unlock(&mask_lock);
	}
	free_cpumask_var(mask);
}

static void change_nice(struct wqt_slot *slot, struct rnd_state *rnd)
{
	char text[8];

	scnprintf(text, sizeof(text), "%d", (int)wqt_rnd(rnd, 40) - 20);
	write_attr(slot, "nice", text, rnd);
}

static void change_attrs(struct wqt_slot *slot, struct rnd_state *rnd)
{
	static void (* const changes[])(struct wqt_slot *slot, struct rnd_state *rnd) = {
		change_scope, change_scope, change_strict, change_mask, change_nice,
	};

	if (!slot->unbound_attrs || !mutex_trylock(&slot->attrs_lock))
		return;
	seq_begin(&slot->seq);
	changes[wqt_rnd(rnd, ARRAY_SIZE(changes))](slot, rnd);
	seq_end(&slot->seq);
	mutex_unlock(&slot->attrs_lock);
}

/* Write the mask of all unbound workqueues, including ordered ones. */
static void set_global_mask(const struct cpumask *mask)
{
	char text[128];
	int i;

	scnprintf(text, sizeof(text), "%*pb", cpumask_pr_args(mask));
	seq_begin(&global_seq);
	if (!wqt_sys_write(ATTRS_DIR "cpumask", text)) {
		wqt_count(WQT_MASK);
		mutex_lock(&mask_lock);
		cpumask_copy(&global_mask, mask);
		for (i = 0; i < wqt_nr_slots; i++)
			update_allowed(&wqt_slots[i]);
		mutex_unlock(&mask_lock);
	}
	seq_end(&global_seq);
}

static void change_global_mask(struct rnd_state *rnd)
{
	cpumask_var_t mask;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL))
		return;
	random_mask(rnd, mask);
	set_global_mask(mask);
	free_cpumask_var(mask);
}

/* Fails on a kernel where the shard size is only a boot parameter. */
static void change_shard_size(struct rnd_state *rnd)
{
	char text[8];

	scnprintf(text, sizeof(text), "%u", 1 + wqt_rnd(rnd, 8));
	seq_begin(&global_seq);
	if (!wqt_sys_write(SHARD_SIZE, text))
		wqt_count(WQT_SHARD);
	seq_end(&global_seq);
}

/* Fails on a kernel without these histograms. May fail for want of memory, on purpose. */
static void change_measurement(struct rnd_state *rnd)
{
	const char *on = wqt_one_in(rnd, 2) ? "1" : "0";

	fail_allocations(wqt_one_in(rnd, 4));
	wqt_sys_write(LATENCY_ENABLE, on);
	fail_allocations(false);
}

/*
 * Raise the limit before the call. Lower it once the items that the old limit admitted
 * have ended.
 */
static void change_max_active(struct wqt_slot *slot, struct rnd_state *rnd)
{
	int max_active = 1 + wqt_rnd(rnd, wqt_one_in(rnd, 4) ? 200 : 5);
	struct workqueue_struct *wq;

	if (slot->bh || slot->kind->ordered || !mutex_trylock(&slot->attrs_lock))
		return;
	wq = rcu_dereference_protected(slot->wq, lockdep_is_held(&slot->attrs_lock));
	WRITE_ONCE(slot->limit, max(max_active, slot->limit));
	smp_mb();	/* pairs with the full barrier of wqt_slot_enter() */
	workqueue_set_max_active(wq, max_active);
	flush_workqueue(wq);
	WRITE_ONCE(slot->limit, max_active);
	slot->max_active = max_active;
	wqt_count(WQT_MAX_ACTIVE);
	mutex_unlock(&slot->attrs_lock);
}

static void change_something(struct wqt_actor *actor)
{
	struct rnd_state *rnd = &actor->rnd;
	struct wqt_slot *slot = wqt_slot_pick(rnd);

	wqt_at(actor, "changing attributes", slot);
	switch (wqt_rnd(rnd, 10)) {
	case 0:
		change_global_mask(rnd);
		break;
	case 1:
		change_shard_size(rnd);
		break;
	case 2:
	case 3:
		change_max_active(slot, rnd);
		break;
	case 4:
		change_measurement(rnd);
		break;
	default:
		change_attrs(slot, rnd);
	}
	wqt_at(actor, NULL, NULL);
}

int wqt_attrs_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	while (wqt_actor_naps(actor, wqt_attrs_ms))
		change_something(actor);
	set_global_mask(cpu_possible_mask);
	wqt_sys_write(LATENCY_ENABLE, "0");
	return wqt_actor_ends(actor);
}

/*
 * No memory
 */

static void squeeze(struct wqt_actor *actor)
{
	LIST_HEAD(pages);
	struct page *page, *next;

	while (si_mem_available() > RESERVE_PAGES && !wqt_over()) {
		page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
		if (!page)
			break;
		list_add(&page->lru, &pages);
		cond_resched();
	}
	msleep(wqt_rnd(&actor->rnd, 200));
	list_for_each_entry_safe(page, next, &pages, lru)
		__free_page(page);
	wqt_count(WQT_SQUEEZE);
}

int wqt_squeeze_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	while (wqt_actor_naps(actor, wqt_squeeze_ms))
		squeeze(actor);
	return wqt_actor_ends(actor);
}

int wqt_chaos_init(void)
{
	int ret;

	cpumask_copy(&global_mask, cpu_possible_mask);
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "lib/wqtorture:online", cpu_comes, cpu_goes);
	if (ret < 0)
		return ret;
	hotplug_state = ret;
	return 0;
}

void wqt_chaos_exit(void)
{
	if (hotplug_state)
		cpuhp_remove_state_nocalls(hotplug_state);
	hotplug_state = 0;
}
