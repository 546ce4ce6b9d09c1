// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite for kernel/workqueue/cursor.c: cursors that keep their place in a worklist
 * while others change it.
 *
 * The suite compiles its own copy of cursor.c and uses its own lists, so that it can count
 * how many entries the code looks at.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>

/* The copy must not clash with the kernel's own where both are built in. */
#define mayday_cursor_func	wq_cursor_kunit_func
#define cursor_init		wq_cursor_kunit_init
#define cursor_advance		wq_cursor_kunit_advance
#define cursor_borrow_pwq	wq_cursor_kunit_borrow_pwq

#include "../../kernel/workqueue/cursor.c"

#define NR_OWNERS	3
#define NR_FEW		60		/* owners with few items each, which nobody seeks */
#define NR_OTHERS	5000
#define NR_OWN		500
#define NR_RANDOM	200
#define ROUNDS		20000

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "Seed of the random test; 0 picks one");

struct item {
	struct work_struct work;
	int owner;
	int barriers;			/* linked behind it; -1: it is one itself */
	unsigned int nr;		/* in order of arrival */
};

/* a walk in search of the items of one owner */
struct seeker {
	struct work_struct cursor;
	int owner;
	bool borrows;			/* the cursor belongs to no pwq */
	unsigned int looks;		/* at entries */
	unsigned int last_nr;		/* of the item it got last */
};

static struct item *item_of(struct work_struct *work)
{
	return container_of(work, struct item, work);
}

static void nothing(struct work_struct *unused)
{
}

/* The address of an owner's pwq, which does not exist. */
static struct pool_workqueue *pwq_of(int owner)
{
	return (struct pool_workqueue *)((owner + 1UL) << WORK_STRUCT_PWQ_SHIFT);
}

/* The owner that an entry of a list names; -1: none */
static int named_owner(struct work_struct *work)
{
	unsigned long data = atomic_long_read(&work->data);

	return data & WORK_STRUCT_PWQ ? (int)(data >> WORK_STRUCT_PWQ_SHIFT) - 1 : -1;
}

static void item_append(struct item *item, int owner, struct list_head *list)
{
	static unsigned int nr;

	atomic_long_set(&item->work.data, (unsigned long)pwq_of(owner) | WORK_STRUCT_PWQ |
			WORK_STRUCT_PENDING);
	item->work.func = nothing;
	item->owner = owner;
	item->nr = ++nr;
	list_add_tail(&item->work.entry, list);
}

static struct item *make_items(struct kunit *test, int nr)
{
	struct item *items = kunit_kcalloc(test, nr, sizeof(*items), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, items);
	return items;
}

static void seeker_init(struct seeker *seeker, int owner)
{
	memset(seeker, 0, sizeof(*seeker));
	cursor_init(&seeker->cursor, pwq_of(owner));
	seeker->owner = owner;
}

static bool is_sought(struct work_struct *work, void *arg)
{
	struct seeker *seeker = arg;

	seeker->looks++;
	return item_of(work)->owner == seeker->owner;
}

static struct item *seek(struct seeker *seeker, struct list_head *list, unsigned int *budget)
{
	struct work_struct *work;

	work = cursor_advance(&seeker->cursor, list, is_sought, seeker, budget);
	if (seeker->borrows)
		cursor_borrow_pwq(&seeker->cursor);
	return work ? item_of(work) : NULL;
}

/* Take an item off the list, with its barriers, which are the entries that follow it. */
static void item_take(struct item *item, struct list_head *list)
{
	while (item->barriers--)
		list_del_init(item->work.entry.next);
	list_del_init(&item->work.entry);
	worklist_drop_cursors(list);
}

/*
 * Like a rescuer of a workqueue that may have one active item: the next item arrives when
 * the last one has run.  Each entry is looked at once, however many are in front.
 */
static void wq_cursor_linear_test(struct kunit *test)
{
	struct item *others = make_items(test, NR_OTHERS), *own = make_items(test, NR_OWN);
	struct seeker seeker;
	LIST_HEAD(list);
	int i;

	seeker_init(&seeker, 1);
	for (i = 0; i < NR_OTHERS; i++)
		item_append(&others[i], 0, &list);

	for (i = 0; i < NR_OWN; i++) {
		unsigned int budget = NR_OTHERS + 1;

		item_append(&own[i], 1, &list);
		KUNIT_ASSERT_PTR_EQ(test, seek(&seeker, &list, &budget), &own[i]);
		item_take(&own[i], &list);
	}
	KUNIT_EXPECT_EQ(test, seeker.looks, NR_OTHERS + NR_OWN);
}

/* A call passes no more entries than its budget, and the next call continues there. */
static void wq_cursor_budget_test(struct kunit *test)
{
	struct item *items = make_items(test, NR_OTHERS);
	unsigned int budget = CURSOR_STRIDE, looks = 0, calls = 0;
	struct seeker seeker;
	LIST_HEAD(list);
	int i;

	seeker_init(&seeker, 1);
	for (i = 0; i < NR_OTHERS; i++)
		item_append(&items[i], 0, &list);
	items[NR_OTHERS - 1].owner = 1;

	while (!seek(&seeker, &list, &budget)) {
		KUNIT_ASSERT_EQ(test, budget, 0);
		KUNIT_ASSERT_EQ(test, seeker.looks - looks, CURSOR_STRIDE);
		KUNIT_ASSERT_LT(test, ++calls, NR_OTHERS);
		looks = seeker.looks;
		budget = CURSOR_STRIDE;
	}
	KUNIT_EXPECT_EQ(test, calls, (NR_OTHERS - 1) / CURSOR_STRIDE);

	/* the end of the list leaves budget, here all of it; a break leaves none */
	item_take(&items[NR_OTHERS - 1], &list);
	budget = CURSOR_STRIDE;
	KUNIT_EXPECT_NULL(test, seek(&seeker, &list, &budget));
	KUNIT_EXPECT_EQ(test, budget, CURSOR_STRIDE);
}

/* Taking an item leaves no cursor as the first entry. A dropped cursor starts again. */
static void wq_cursor_front_test(struct kunit *test)
{
	struct item *items = make_items(test, 4);
	struct seeker seekers[2];
	unsigned int budget;
	LIST_HEAD(list);
	int i;

	for (i = 0; i < 3; i++)
		item_append(&items[i], 0, &list);
	for (i = 0; i < 2; i++) {
		seeker_init(&seekers[i], 1);
		budget = 2;
		KUNIT_EXPECT_NULL(test, seek(&seekers[i], &list, &budget));
	}

	item_take(&items[0], &list);
	KUNIT_EXPECT_PTR_EQ(test, list.next, &items[1].work.entry);
	item_take(&items[1], &list);
	KUNIT_EXPECT_PTR_EQ(test, list.next, &items[2].work.entry);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&list));
	item_take(&items[2], &list);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));

	item_append(&items[3], 1, &list);
	for (i = 0; i < 2; i++) {
		budget = 2;
		KUNIT_EXPECT_PTR_EQ(test, seek(&seekers[i], &list, &budget), &items[3]);
	}
	KUNIT_EXPECT_TRUE(test, list_is_singular(&list));
}

/* A cursor does not come between an item and its barriers. */
static void wq_cursor_barrier_test(struct kunit *test)
{
	struct item *items = make_items(test, 6);
	struct seeker seeker;
	unsigned int budget;
	LIST_HEAD(list);
	int i;

	for (i = 0; i < 6; i++)
		item_append(&items[i], 0, &list);
	for (i = 1; i < 4; i++)
		set_bit(WORK_STRUCT_LINKED_BIT, work_data_bits(&items[i].work));

	for (budget = 1; budget < 6; budget++) {
		unsigned int left = budget;

		seeker_init(&seeker, 1);
		KUNIT_EXPECT_NULL(test, seek(&seeker, &list, &left));
		KUNIT_EXPECT_EQ(test, left, 0);
		KUNIT_EXPECT_EQ(test, seeker.looks, budget == 1 ? 1 : max(budget, 5));
		for (i = 1; i < 4; i++)
			KUNIT_EXPECT_PTR_EQ(test, items[i].work.entry.next,
					    &items[i + 1].work.entry);
		list_del_init(&seeker.cursor.entry);
	}
}

/* An owner lives as long as it has items on the list. */
static void find_living(struct list_head *list, bool lives[NR_OWNERS + NR_FEW])
{
	struct work_struct *work;

	memset(lives, 0, (NR_OWNERS + NR_FEW) * sizeof(*lives));
	list_for_each_entry(work, list, entry)
		if (!work_is_cursor(work))
			lives[item_of(work)->owner] = true;
}

/*
 * Takes the cursors of dead owners off the list. After that, whoever follows the word of an entry
 * gets to the pwq of an owner that lives.
 */
static void bury_and_check_names(struct kunit *test, struct list_head *list,
				 struct seeker *seekers)
{
	bool lives[NR_OWNERS + NR_FEW];
	struct work_struct *work;
	int i;

	find_living(list, lives);
	for (i = 0; i < NR_OWNERS; i++) {
		if (seekers[i].borrows)
			cursor_borrow_pwq(&seekers[i].cursor);
		else if (!lives[seekers[i].owner])
			list_del_init(&seekers[i].cursor.entry);
	}

	list_for_each_entry(work, list, entry) {
		int named = named_owner(work);

		KUNIT_ASSERT_GE(test, named, 0);
		KUNIT_ASSERT_LT(test, named, NR_OWNERS + NR_FEW);
		KUNIT_ASSERT_TRUE(test, lives[named]);
	}
}

/* Checks the rules, and that no item of its owner is in front of a cursor. */
static void check_list(struct kunit *test, struct list_head *list, struct seeker *seekers)
{
	struct work_struct *work;
	bool passed[NR_OWNERS] = { };
	bool linked = false, first = true;
	int i;

	list_for_each_entry_reverse(work, list, entry) {
		if (work_is_cursor(work)) {
			passed[container_of(work, struct seeker, cursor) - seekers] = true;
			continue;
		}
		for (i = 0; i < NR_OWNERS; i++)
			KUNIT_ASSERT_FALSE(test, passed[i] &&
					   item_of(work)->owner == seekers[i].owner);
	}

	list_for_each_entry(work, list, entry) {
		KUNIT_ASSERT_FALSE(test, work_is_cursor(work) && (first || linked));
		linked = atomic_long_read(&work->data) & WORK_STRUCT_LINKED;
		first = false;
	}
}

static bool is_pending(struct item *item)
{
	return item->work.entry.next && !list_empty(&item->work.entry);
}

/* Puts a barrier right behind its item, as flush_work() does. */
static void link_barrier(struct item *item, struct item *barrier)
{
	item_append(barrier, item->owner, &item->work.entry);
	list_move(&barrier->work.entry, &item->work.entry);
	barrier->barriers = -1;		/* is one */
	if (item->barriers++)
		set_bit(WORK_STRUCT_LINKED_BIT, work_data_bits(&barrier->work));
	set_bit(WORK_STRUCT_LINKED_BIT, work_data_bits(&item->work));
}

static void seek_and_take(struct kunit *test, struct seeker *seeker, struct list_head *list,
			  unsigned int budget)
{
	struct item *item = seek(seeker, list, &budget);

	if (!item)
		return;
	KUNIT_ASSERT_GE(test, item->barriers, 0);
	/* in order of arrival */
	KUNIT_ASSERT_GT(test, item->nr, seeker->last_nr);
	seeker->last_nr = item->nr;
	item_take(item, list);
}

/* An owner of its own, or one of the many that have few items each */
static int pick_owner(struct rnd_state *rnd)
{
	u32 random = prandom_u32_state(rnd);

	return random & 1 ? (random >> 1) % NR_OWNERS : NR_OWNERS + (random >> 1) % NR_FEW;
}

/* Items come, are taken from the front and out of the middle, and get barriers. */
static void wq_cursor_random_test(struct kunit *test)
{
	struct item *items = make_items(test, NR_RANDOM);
	struct seeker seekers[NR_OWNERS];
	u32 used = seed ?: get_random_u32();
	struct rnd_state rnd;
	LIST_HEAD(list);
	int i, round;

	kunit_info(test, "seed %u", used);
	prandom_seed_state(&rnd, used);
	for (i = 0; i < NR_OWNERS; i++)
		seeker_init(&seekers[i], i);
	/* the last one is like the mayday timer */
	cursor_init(&seekers[NR_OWNERS - 1].cursor, NULL);
	seekers[NR_OWNERS - 1].borrows = true;

	for (round = 0; round < ROUNDS; round++) {
		struct item *one = &items[prandom_u32_state(&rnd) % NR_RANDOM];
		struct item *other = &items[prandom_u32_state(&rnd) % NR_RANDOM];

		if (!is_pending(one)) {
			one->barriers = 0;
			item_append(one, pick_owner(&rnd), &list);
			continue;
		}

		switch (prandom_u32_state(&rnd) % 4) {
		case 0:
			item_take(item_of(list_first_entry(&list, struct work_struct, entry)),
				  &list);
			break;
		case 1:
			if (one->barriers >= 0)
				item_take(one, &list);
			break;
		case 2:
			if (one->barriers >= 0 && !is_pending(other))
				link_barrier(one, other);
			break;
		case 3:
			seek_and_take(test, &seekers[round % NR_OWNERS], &list,
				      1 + prandom_u32_state(&rnd) % 20);
			break;
		}
		bury_and_check_names(test, &list, seekers);
		check_list(test, &list, seekers);
	}
}

static struct kunit_case wq_cursor_cases[] = {
	KUNIT_CASE(wq_cursor_linear_test),
	KUNIT_CASE(wq_cursor_budget_test),
	KUNIT_CASE(wq_cursor_front_test),
	KUNIT_CASE(wq_cursor_barrier_test),
	KUNIT_CASE(wq_cursor_random_test),
	{}
};

static struct kunit_suite wq_cursor_suite = {
	.name = "wq_cursor",
	.test_cases = wq_cursor_cases,
};

kunit_test_suite(wq_cursor_suite);

MODULE_DESCRIPTION("KUnit suite for places kept in a workqueue's worklist");
MODULE_LICENSE("GPL");
