// SPDX-License-Identifier: GPL-2.0
/*
 * Items that are queued once, by one caller, and free themselves. Nobody else queues,
 * cancels or moves them, so it is known beforehand where and when each has to run. The
 * prediction is stored in the item, and its function checks it.
 *
 * A freed item goes back to its slab at once, where KASAN watches it. Or it is poisoned
 * and kept for a while, to see whether somebody still writes to it.
 */
#include <linux/delay.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wqtorture.h"

#define ALIVE		0x600d1dea
#define POISON		0x6b
#define KEPT_AT_MOST	4096
#define OFFLOAD		"module/workqueue/parameters/offload_isolated"

enum stage {
	STAGE_PLAIN,
	STAGE_DELAYED,
	STAGE_RCU,
};

struct wqt_token {
	union {
		struct work_struct work;	/* the first member of the others, too */
		struct delayed_work dwork;
		struct rcu_work rwork;
	};
	u32 alive;
	enum stage stage;
	struct wqt_slot *slot;
	struct workqueue_struct *wq;	/* for as long as this is queued or runs */
	struct rnd_state rnd;
	atomic_t *left;			/* the caller's counter, if it waits */
	int chain;			/* how often it queues itself again */
	int cpu;			/* bound: runs there; unbound: in its pod; -1: unknown */
	unsigned long cpu_epoch;
	unsigned long topology_epoch;
	unsigned int attrs_epoch;
	u64 ticket;			/* its turn in an ordered workqueue */
	unsigned long due;		/* must not run before, in jiffies */
	unsigned int reader;		/* must not run before this reader has ended, if odd */
	unsigned int freeze;		/* must not run during this freeze, if not 0 */

	struct llist_node kept;		/* not poisoned from here on */
};

static unsigned int reader_seq;		/* odd while wqt_reader_thread() reads */
static bool offload;			/* set once: isolated CPUs give their items away */
static struct kmem_cache *cache;
static LLIST_HEAD(kept);
static atomic_t nr_kept;

static void token_free(struct wqt_token *token)
{
	bool keep = wqt_one_in(&token->rnd, 4) && atomic_read(&nr_kept) < KEPT_AT_MOST;

	if (!keep) {
		token->alive = 0;
		kmem_cache_free(cache, token);
		return;
	}
	memset(token, POISON, offsetof(struct wqt_token, kept));
	atomic_inc(&nr_kept);
	llist_add(&token->kept, &kept);
}

/* Frees what was kept, and checks that nobody wrote to it. */
void wqt_tokens_reap(bool all)
{
	struct llist_node *list;
	struct wqt_token *token, *next;
	const u8 *wrong;

	if (!all && atomic_read(&nr_kept) < KEPT_AT_MOST / 4)
		return;
	list = llist_del_all(&kept);
	llist_for_each_entry_safe(token, next, list, kept) {
		wrong = memchr_inv(token, POISON, offsetof(struct wqt_token, kept));
		if (wrong)
			wqt_wrong(WQT_TOUCHED, NULL, "byte %zu of a freed item became %#x",
				  wrong - (u8 *)token, *wrong);
		atomic_dec(&nr_kept);
		kmem_cache_free(cache, token);
	}
}

/*
 * The run
 */

static void check_place(struct wqt_token *token)
{
	struct wqt_slot *slot = token->slot;
	int ran = raw_smp_processor_id();

	if (token->cpu < 0)
		return;
	if (slot->bound) {
		if (!wqt_cpu_unmoved(token->cpu, token->cpu_epoch))
			return;
		wqt_count(WQT_CPU_CHECKED);
		if (ran != token->cpu)
			wqt_wrong(WQT_WRONG_CPU, slot, "queued on CPU %d, runs on %d",
				  token->cpu, ran);
	} else if (slot->unbound_attrs && !(token->attrs_epoch & 1)) {
		bool inside = wqt_in_pod(slot, token->cpu, ran);

		smp_rmb();	/* check the epochs after using the attributes */
		if (!wqt_topology_whole() ||
		    wqt_topology_epoch() != token->topology_epoch ||
		    wqt_attrs_epoch(slot) != token->attrs_epoch)
			return;
		wqt_count(WQT_POD_CHECKED);
		if (!inside)
			wqt_wrong(WQT_OUT_OF_POD, slot,
				  "queued on CPU %d, runs on %d, scope %d, mask %*pbl%s",
				  token->cpu, ran, slot->scope, cpumask_pr_args(slot->allowed),
				  slot->strict ? ", strict" : "");
	}
}

static void check_time(struct wqt_token *token)
{
	if (token->stage == STAGE_DELAYED && time_before(jiffies, token->due))
		wqt_wrong(WQT_EARLY, token->slot, "%u ms early",
			  jiffies_to_msecs(token->due - jiffies));
	if (token->stage != STAGE_RCU || !(token->reader & 1))
		return;
	wqt_count(WQT_RCU_CHECKED);
	if (READ_ONCE(reader_seq) == token->reader)
		wqt_wrong(WQT_RCU_EARLY, token->slot, "an older reader has not ended");
}

static void check_order(struct wqt_token *token)
{
	struct wqt_slot *slot = token->slot;

	if (!token->ticket)
		return;
	wqt_count(WQT_ORDER_CHECKED);
	if (token->ticket != slot->served + 1)
		wqt_wrong(WQT_ORDER, slot, "%llu runs after %llu", token->ticket, slot->served);
	slot->served = token->ticket;
}

static void check_freeze(struct wqt_token *token)
{
	if (!token->freeze)
		return;
	wqt_count(WQT_FROZEN_CHECKED);
	if (wqt_still_frozen(token->freeze))
		wqt_wrong(WQT_FROZEN_RAN, token->slot, "queued while frozen, and runs");
}

/* True if it was queued again and is no longer ours. */
static bool queued_again(struct wqt_token *token)
{
	if (!token->chain)
		return false;
	token->chain--;
	token->cpu = -1;
	token->ticket = 0;
	token->freeze = 0;
	token->stage = STAGE_PLAIN;
	if (queue_work(token->wq, &token->work))
		return true;
	wqt_wrong(WQT_BAD_RETURN, token->slot, "an item cannot queue itself");
	return false;
}

static void pass_time(struct wqt_token *token)
{
	switch (wqt_rnd(&token->rnd, 8)) {
	case 0:
		udelay(wqt_rnd(&token->rnd, 20));
		break;
	case 1:
		if (!token->slot->bh)
			usleep_range(1, 100);
		break;
	}
}

static void token_fn(struct work_struct *work)
{
	struct wqt_token *token = container_of(work, struct wqt_token, work);
	struct wqt_slot *slot = token->slot;
	struct wqt_inside *inside;
	atomic_t *left;

	if (token->alive != ALIVE) {
		wqt_wrong(WQT_TOUCHED, NULL, "an item runs that was freed");
		return;
	}
	inside = wqt_slot_enter(slot);
	wqt_count(slot->bh ? WQT_RUN_BH : WQT_RUN);
	if (slot->bh != !!in_serving_softirq())
		wqt_wrong(WQT_WRONG_CONTEXT, slot, "an item that is queued once");
	if (token->stage != STAGE_PLAIN)
		atomic_dec(&slot->late);
	check_order(token);
	check_place(token);
	check_time(token);
	check_freeze(token);
	pass_time(token);
	wqt_slot_leave(inside);
	if (queued_again(token))
		return;
	left = token->left;
	token_free(token);
	if (left)
		atomic_dec(left);
	atomic_dec(&slot->tokens);
}

/*
 * Queueing
 */

static void foresee(struct wqt_token *token, struct wqt_slot *slot, int cpu)
{
	token->cpu = cpu;
	token->attrs_epoch = wqt_attrs_epoch(slot);
	token->topology_epoch = wqt_topology_epoch();
	if (cpu >= 0)
		token->cpu_epoch = wqt_cpu_epoch(cpu);
	if (!wqt_topology_whole())
		token->attrs_epoch = 1;
	smp_mb();	/* read the state before the call that queues */
}

/* The lock makes the order of queueing known. */
static bool queue_in_order(struct wqt_token *token, struct wqt_slot *slot, int cpu)
{
	unsigned long flags;
	bool queued;

	spin_lock_irqsave(&slot->order_lock, flags);
	token->ticket = ++slot->ticket;
	queued = queue_work_on(cpu, token->wq, &token->work);
	spin_unlock_irqrestore(&slot->order_lock, flags);
	return queued;
}

/* @cpu may be offline, but not for softirq work; see queue_somewhere(). */
static bool queue_on(struct wqt_token *token, struct wqt_slot *slot, struct rnd_state *rnd)
{
	bool queued;
	int cpu;

	preempt_disable();
	cpu = slot->bh ? wqt_online_cpu(rnd) : wqt_any_cpu(rnd);
	foresee(token, slot, cpu);
	queued = queue_work_on(cpu, token->wq, &token->work);
	wqt_count_cpu(cpu);
	preempt_enable();
	return queued;
}

/* does what this CPU queues on a per-CPU workqueue run elsewhere? */
static bool gives_away(int cpu)
{
	return offload && !(housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN) &&
			    housekeeping_test_cpu(cpu, HK_TYPE_TICK));
}

/*
 * Bound: the item runs here, unless this CPU gives it away. Unbound: not known, as the CPUs in the
 * global mask may take turns.
 */
static bool queue_here(struct wqt_token *token, struct wqt_slot *slot)
{
	bool queued, known;

	preempt_disable();
	known = slot->bound && !gives_away(smp_processor_id());
	foresee(token, slot, known ? smp_processor_id() : -1);
	queued = queue_work(token->wq, &token->work);
	preempt_enable();
	return queued;
}

static bool queue_plain(struct wqt_token *token, struct wqt_slot *slot, struct rnd_state *rnd)
{
	INIT_WORK(&token->work, token_fn);
	wqt_lock_class(&token->work, slot->bh);
	/* Not in softirqs: a draining workqueue takes only what its own threads queue. */
	if (!slot->bh && wqt_one_in(rnd, 4))
		token->chain = wqt_rnd(rnd, 4);
	if (slot->kind->ordered)
		return queue_in_order(token, slot, wqt_any_cpu(rnd));
	return wqt_one_in(rnd, 2) ? queue_on(token, slot, rnd) : queue_here(token, slot);
}

static bool queue_delayed(struct wqt_token *token, struct wqt_slot *slot, struct rnd_state *rnd)
{
	unsigned long delay = 1 + wqt_rnd(rnd, 4);
	bool queued;
	int cpu;

	INIT_DELAYED_WORK(&token->dwork, token_fn);
	wqt_lock_class(&token->work, slot->bh);
	token->due = jiffies + delay;
	if (slot->bh)
		return queue_delayed_work(token->wq, &token->dwork, delay);
	preempt_disable();
	cpu = wqt_online_cpu(rnd);
	foresee(token, slot, slot->bound ? cpu : -1);
	queued = queue_delayed_work_on(cpu, token->wq, &token->dwork, delay);
	preempt_enable();
	return queued;
}

static bool queue_after_gp(struct wqt_token *token, struct wqt_slot *slot)
{
	INIT_RCU_WORK(&token->rwork, token_fn);
	wqt_lock_class(&token->work, slot->bh);
	token->reader = READ_ONCE(reader_seq);
	smp_mb();	/* the reader began before the call; pairs with wqt_reader_thread() */
	wqt_count(WQT_RCU);
	return queue_rcu_work(token->wq, &token->rwork);
}

static bool queue_it(struct wqt_token *token, struct wqt_slot *slot, struct rnd_state *rnd)
{
	token->cpu = -1;
	if (slot->kind->flags & WQ_FREEZABLE)
		token->freeze = wqt_freeze_epoch();
	if (token->stage == STAGE_PLAIN)
		return queue_plain(token, slot, rnd);
	atomic_inc(&slot->late);
	if (token->stage == STAGE_DELAYED)
		return queue_delayed(token, slot, rnd);
	return queue_after_gp(token, slot);
}

/* Queues one token. @left, if not NULL, becomes zero when all of its tokens have ended. */
int wqt_token_queue(struct wqt_slot *slot, struct workqueue_struct *wq,
		    struct rnd_state *rnd, gfp_t gfp, atomic_t *left)
{
	struct wqt_token *token = kmem_cache_zalloc(cache, gfp | __GFP_NOWARN);
	u32 dice = wqt_rnd(rnd, 16);

	if (!token)
		return -ENOMEM;
	token->alive = ALIVE;
	token->slot = slot;
	token->wq = wq;
	token->left = left;
	prandom_seed_state(&token->rnd, prandom_u32_state(rnd));
	token->stage = dice == 0 ? STAGE_RCU : dice < 3 ? STAGE_DELAYED : STAGE_PLAIN;
	if (left)
		atomic_inc(left);
	atomic_inc(&slot->tokens);
	wqt_count(WQT_TOKEN);
	if (!queue_it(token, slot, rnd))
		wqt_wrong(WQT_BAD_RETURN, slot, "a new item is refused");
	return 0;
}

/* An RCU reader that others can see: a grace period has to wait for it. */
int wqt_reader_thread(void *arg)
{
	struct wqt_actor *actor = arg;

	set_user_nice(current, MIN_NICE);	/* otherwise it would hardly ever read */
	while (!wqt_over() && !wqt_must_stop()) {
		rcu_read_lock();
		WRITE_ONCE(reader_seq, reader_seq + 1);
		smp_mb();	/* odd only inside; pairs with queue_after_gp() */
		udelay(wqt_rnd(&actor->rnd, 1000));
		WRITE_ONCE(reader_seq, reader_seq + 1);
		rcu_read_unlock();
		usleep_range(500, 2000);
	}
	return wqt_actor_ends(actor);
}

static bool param_is_on(const char *name)
{
	char text[8] = "";

	return !wqt_sys_read(name, text, sizeof(text)) && text[0] == 'Y';
}

int wqt_tokens_init(void)
{
	offload = param_is_on(OFFLOAD);
	/* on its own, so that nothing but items reuses the memory of items */
	cache = kmem_cache_create("wqtorture_token", sizeof(struct wqt_token), 0,
				  SLAB_NO_MERGE, NULL);
	return cache ? 0 : -ENOMEM;
}

void wqt_tokens_exit(void)
{
	if (!cache)
		return;
	rcu_barrier();
	kmem_cache_destroy(cache);
	cache = NULL;
}
