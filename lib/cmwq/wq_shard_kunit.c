// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite for kernel/workqueue/shard.c: shard arithmetic and pod building on
 * made-up topologies. It runs on any machine and with either workqueue.
 *
 * The suite compiles its own copy of shard.c, for two reasons. It calls the static
 * functions that take the number of CPUs as an argument, so it can try 4096 CPUs on
 * a machine with one. And it does not need shard.c in the kernel.
 *
 * A topology is a set of labels: two CPUs are in one LLC (core) if their LLC (core)
 * labels are equal. The checkers judge results by the labels and use nothing of
 * shard.c.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/string.h>

/* The copy must not clash with the kernel's own where both are built in. */
#define wq_nr_shards	wq_shard_kunit_nr_shards
#define wq_core_shard	wq_shard_kunit_core_shard
#define wq_group_cpus	wq_shard_kunit_group_cpus
#define wq_shard_cpus	wq_shard_kunit_shard_cpus

#include "../../kernel/workqueue/shard.c"

#define MAX_CPUS	4096
#define MAX_LLCS	8
#define NR_GUARDS	4
#define POISON		0x5a5a5a5a
#define TEXT_SIZE	32

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "Seed of the first random topology; 0 picks one");

static unsigned int rounds = 1000;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "Random topologies to try");

/* One topology, and what shard.c made of it. */
struct topo {
	int nr_cpus;				/* CPU numbers, absent CPUs included */
	DECLARE_BITMAP(possible, MAX_CPUS);
	int llc[MAX_CPUS];			/* labels */
	int core[MAX_CPUS];

	int nr_llc_pods, nr_core_pods, nr_shards;
	int llc_pod[MAX_CPUS + NR_GUARDS];
	int core_pod[MAX_CPUS + NR_GUARDS];
	int shard[MAX_CPUS + NR_GUARDS];

	int first[MAX_CPUS];			/* the first CPU of each CPU's core */
	int tally[MAX_CPUS];			/* cores in each shard */
	const int *label;			/* what same_label() looks at */
	unsigned long calls;			/* of same_label() */
	bool bad_call;				/* its arguments were wrong */
};

/*
 * Running shard.c on a topology
 */

static bool same_label(int cpu0, int cpu1, void *arg)
{
	struct topo *t = arg;

	t->calls++;
	if (cpu0 < 0 || cpu0 >= cpu1 || cpu1 >= t->nr_cpus ||
	    !test_bit(cpu0, t->possible) || !test_bit(cpu1, t->possible)) {
		t->bad_call = true;
		return false;
	}

	return t->label[cpu0] == t->label[cpu1];
}

static void poison(const struct topo *t, int *pod)
{
	int i;

	for (i = 0; i < t->nr_cpus + NR_GUARDS; i++)
		pod[i] = POISON;
}

static int run_group(struct topo *t, const int *label, int *pod)
{
	poison(t, pod);
	t->label = label;
	t->calls = 0;
	t->bad_call = false;

	return wq_group_cpus(t->possible, t->nr_cpus, same_label, t, pod);
}

static void run_shards(struct topo *t, unsigned int size)
{
	poison(t, t->shard);
	t->nr_shards = wq_shard_cpus(t->possible, t->nr_cpus, t->llc_pod,
				     t->core_pod, size, t->shard);
}

/*
 * Judging the result: each checker returns NULL or what is wrong.
 */

static void expect_right(struct kunit *test, const char *wrong)
{
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
}

/*
 * Each possible CPU has a pod, and no other CPU has one. Pods are numbered without a
 * gap in the order of their first CPUs. Nothing is written behind the last CPU.
 */
static const char *check_numbers(const struct topo *t, const int *pod, int nr_pods)
{
	int cpu, i, next = 0;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (!test_bit(cpu, t->possible)) {
			if (pod[cpu] != -1)
				return "an absent CPU has a pod";
			continue;
		}
		if (pod[cpu] < 0)
			return "a possible CPU has no pod";
		if (pod[cpu] > next)
			return "pods are not numbered by their first CPUs";
		if (pod[cpu] == next)
			next++;
	}
	if (next != nr_pods)
		return "the number of pods is wrong";

	for (i = 0; i < NR_GUARDS; i++)
		if (pod[t->nr_cpus + i] != POISON)
			return "an entry behind the last CPU was written";

	return NULL;
}

/* Two CPUs share a pod if, and only if, their labels are equal. */
static const char *check_groups(const struct topo *t, const int *label,
				const int *pod, int nr_pods)
{
	const char *wrong = check_numbers(t, pod, nr_pods);
	bool equal, together;
	int a, b;

	if (wrong)
		return wrong;
	if (t->bad_call)
		return "share() was asked about an absent CPU or in wrong order";
	if (t->calls > (unsigned long)t->nr_cpus * nr_pods)
		return "share() was called more often than CPUs times pods";

	for (a = 0; a < t->nr_cpus; a++) {
		for (b = a + 1; b < t->nr_cpus; b++) {
			if (pod[a] == -1 || pod[b] == -1)
				continue;
			equal = label[a] == label[b];
			together = pod[a] == pod[b];
			if (equal != together)
				return "a pod is not a group of equals";
		}
	}

	return NULL;
}

static void find_first_cpus(struct topo *t)
{
	int cpu, lower;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		t->first[cpu] = -1;
		if (!test_bit(cpu, t->possible))
			continue;
		for (lower = 0; t->first[cpu] < 0; lower++)
			if (test_bit(lower, t->possible) &&
			    t->core[lower] == t->core[cpu])
				t->first[cpu] = lower;
	}
}

/* Is @cpu the first one of a core that counts for the LLC labelled @llc? */
static bool heads_core(const struct topo *t, int cpu, int llc)
{
	return t->first[cpu] == cpu && t->llc[cpu] == llc;
}

/* Is @cpu the first CPU of the first core of an LLC? */
static bool heads_llc(const struct topo *t, int cpu)
{
	int lower;

	if (t->first[cpu] != cpu)
		return false;
	for (lower = 0; lower < cpu; lower++)
		if (heads_core(t, lower, t->llc[cpu]))
			return false;

	return true;
}

/*
 * The cores of one LLC fill shard after shard, in the order of their first CPUs. There
 * are as few shards as @limit allows. Their sizes differ by one at most, larger first.
 */
static const char *check_llc(const struct topo *t, int llc, unsigned int limit)
{
	int cpu, shard = -1, left = 0, last = 0, largest = 0;
	u64 nr_cores = 0, nr_shards = 0;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (!heads_core(t, cpu, llc))
			continue;
		nr_cores++;
		if (!left) {
			shard = t->shard[cpu];
			left = t->tally[shard];
			if (left > limit)
				return "a shard has too many cores";
			if (nr_shards && left > last)
				return "a smaller shard comes before a larger one";
			largest = max(largest, left);
			if (left + 1 < largest)
				return "two shards differ by more than one core";
			last = left;
			nr_shards++;
		}
		if (t->shard[cpu] != shard)
			return "a shard is no run of cores of one LLC";
		left--;
	}
	if (left)
		return "a shard has cores of several LLCs";
	if ((nr_shards - 1) * limit >= nr_cores)
		return "there are more shards than needed";

	return NULL;
}

static const char *check_shards(struct topo *t, unsigned int size)
{
	const char *wrong = check_numbers(t, t->shard, t->nr_shards);
	int cpu;

	if (wrong)
		return wrong;

	find_first_cpus(t);
	memset(t->tally, 0, sizeof(t->tally));
	for_each_set_bit(cpu, t->possible, t->nr_cpus) {
		if (t->shard[cpu] != t->shard[t->first[cpu]])
			return "SMT siblings are parted";
		if (t->first[cpu] == cpu)
			t->tally[t->shard[cpu]]++;
	}

	for_each_set_bit(cpu, t->possible, t->nr_cpus) {
		if (!heads_llc(t, cpu))
			continue;
		wrong = check_llc(t, t->llc[cpu], size ? size : 1);
		if (wrong)
			return wrong;
	}

	return NULL;
}

/* Runs all checks on one topology. */
static const char *run_and_check(struct topo *t, unsigned int size)
{
	const char *wrong;

	t->nr_llc_pods = run_group(t, t->llc, t->llc_pod);
	wrong = check_groups(t, t->llc, t->llc_pod, t->nr_llc_pods);
	if (wrong)
		return wrong;

	t->nr_core_pods = run_group(t, t->core, t->core_pod);
	wrong = check_groups(t, t->core, t->core_pod, t->nr_core_pods);
	if (wrong)
		return wrong;

	run_shards(t, size);

	return check_shards(t, size);
}

/*
 * Small topologies CPU by CPU, as examples of the rules. One character per CPU: equal
 * letters are one core (LLC), '.' is an absent CPU, and the pods expected are digits.
 */

struct map_case {
	const char *name;
	const char *core;
	const char *llc;
	unsigned int size;
	const char *pods;
};

static const struct map_case map_cases[] = {
	{ "no CPU numbers", "", "", 8, "" },
	{ "one CPU that is not number 0", "...a", "...x", 8, "...0" },
	{ "no SMT, uneven", "abcdefghijk", "xxxxxxxxxxx", 8, "00000011111" },
	{ "siblings adjacent, size 0", "aabbccdd", "xxxxxxxx", 0, "00112233" },
	{ "siblings far apart, uneven", "abcdeabcde", "xxxxxxxxxx", 2, "0011200112" },
	{ "SMT here and there", "abcadcefe", "xxxxxxxxx", 2, "001011222" },
	{ "two LLCs interleaved", "abcdef", "xyxyxy", 2, "010123" },
	{ "LLCs of 1, 2, 3 and 5 cores", "abcdefghijk", "wxxyyyzzzzz", 2, "01122344556" },
	{ "absent first siblings", "..cdabcd", "..xxxxxx", 2, "..001100" },
	/* a CPU that has not been up yet is known to share nothing */
	{ "offline CPUs", "aabCDbee", "xxxYZxxx", 2, "00012033" },
	{ "huge size", "aabbcdef", "xxxxxyyy", UINT_MAX, "00000111" },
	/* such firmware is wrong: a core counts for the LLC of its first CPU */
	{ "a core in two LLCs", "abcbdeaf", "xxxyyyyy", 2, "00102203" },
};

KUNIT_ARRAY_PARAM_DESC(map, map_cases, name);

static void label_cpus(struct topo *t, const char *core, const char *llc)
{
	int cpu;

	t->nr_cpus = strlen(core);
	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		__assign_bit(cpu, t->possible, core[cpu] != '.');
		t->core[cpu] = core[cpu];
		t->llc[cpu] = llc[cpu];
	}
}

static void expect_pods(struct kunit *test, const int *pod, const char *pods)
{
	struct topo *t = test->priv;
	char text[TEXT_SIZE] = "";
	int cpu;

	for (cpu = 0; cpu < t->nr_cpus; cpu++)
		text[cpu] = pod[cpu] < 0 ? '.' : '0' + pod[cpu];
	KUNIT_EXPECT_STREQ(test, text, pods);
}

static void wq_shard_map_test(struct kunit *test)
{
	const struct map_case *c = test->param_value;
	struct topo *t = test->priv;

	label_cpus(t, c->core, c->llc);
	expect_right(test, run_and_check(t, c->size));
	expect_pods(test, t->shard, c->pods);
}

/* If the answers are no equivalence relation, the lowest first CPU wins. */

static bool share_neighbours(int cpu0, int cpu1, void *arg)
{
	return cpu1 - cpu0 == 1;
}

static bool share_strangers(int cpu0, int cpu1, void *arg)
{
	return cpu1 - cpu0 != 1;
}

static void try_share(struct kunit *test, wq_share_fn share, const char *pods)
{
	struct topo *t = test->priv;
	int nr_pods;

	label_cpus(t, "aaaa.aaa", "aaaa.aaa");
	poison(t, t->llc_pod);
	nr_pods = wq_group_cpus(t->possible, t->nr_cpus, share, NULL, t->llc_pod);
	expect_right(test, check_numbers(t, t->llc_pod, nr_pods));
	expect_pods(test, t->llc_pod, pods);
}

static void wq_shard_bad_share_test(struct kunit *test)
{
	try_share(test, share_neighbours, "0011.223");
	try_share(test, share_strangers, "0100.000");
}

/* A core without a known LLC is a shard by itself. */
static void wq_shard_no_llc_test(struct kunit *test)
{
	struct topo *t = test->priv;

	label_cpus(t, "abcdeedd", "xxxxxxxx");
	t->nr_llc_pods = run_group(t, t->llc, t->llc_pod);
	t->nr_core_pods = run_group(t, t->core, t->core_pod);
	t->llc_pod[1] = -1;
	t->llc_pod[4] = -1;
	run_shards(t, 8);
	expect_right(test, check_numbers(t, t->shard, t->nr_shards));
	expect_pods(test, t->shard, "01002200");
}

/*
 * Random topologies, including real machines and wrong firmware
 */

enum {
	SEEN_SMT, SEEN_ABSENT, SEEN_OFFLINE, SEEN_SPLIT_CORE, SEEN_EMPTY, SEEN_SEVERAL_SHARDS,
	SEEN_UNEVEN, SEEN_ONE_SHARD, NR_SEEN
};

static unsigned int roll(struct rnd_state *rnd, unsigned int sides)
{
	return prandom_u32_state(rnd) % sides;
}

/* Turn some CPUs into absent ones, offline ones, or ones in a wrong LLC. */
static void spoil_cpus(struct topo *t, struct rnd_state *rnd)
{
	static const u8 percent[] = { 0, 0, 0, 3, 30, 100 };
	unsigned int absent = percent[roll(rnd, ARRAY_SIZE(percent))];
	unsigned int offline = percent[roll(rnd, ARRAY_SIZE(percent))];
	unsigned int moved = percent[roll(rnd, ARRAY_SIZE(percent))];
	int cpu;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (roll(rnd, 100) < moved)
			t->llc[cpu] = roll(rnd, MAX_LLCS);
		if (roll(rnd, 100) < offline) {
			/* labels that no other CPU has */
			t->llc[cpu] = MAX_LLCS + cpu;
			t->core[cpu] = MAX_CPUS + cpu;
		}
		__assign_bit(cpu, t->possible, roll(rnd, 100) >= absent);
	}
}

static void random_topo(struct topo *t, struct rnd_state *rnd)
{
	int threads = 1 + roll(rnd, 4), nr_llcs = 1 + roll(rnd, MAX_LLCS);
	unsigned int numbering = roll(rnd, 3), interleaved = roll(rnd, 2);
	int cpu, core, nr_cores, per_llc;

	t->nr_cpus = 1 + roll(rnd, 1 + roll(rnd, 300));
	nr_cores = DIV_ROUND_UP(t->nr_cpus, threads);
	per_llc = DIV_ROUND_UP(nr_cores, nr_llcs);
	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (numbering == 0)
			core = cpu / threads;
		else if (numbering == 1)
			core = cpu % nr_cores;
		else
			core = roll(rnd, nr_cores);
		t->core[cpu] = core;
		t->llc[cpu] = interleaved ? core % nr_llcs : core / per_llc;
	}
	spoil_cpus(t, rnd);
}

static unsigned int random_size(struct rnd_state *rnd)
{
	static const unsigned int sizes[] = { 0, 1, 2, 3, 4, 8, 16, 32, UINT_MAX };
	unsigned int pick = roll(rnd, ARRAY_SIZE(sizes) + 2);

	return pick < ARRAY_SIZE(sizes) ? sizes[pick] : roll(rnd, 64);
}

/* What the topology and its shards have been an example of. */
static unsigned long examples(const struct topo *t)
{
	int cpu, home, first = find_first_bit(t->possible, t->nr_cpus);
	unsigned long seen = 0;

	for_each_set_bit(cpu, t->possible, t->nr_cpus) {
		home = t->first[cpu];
		if (home != cpu)
			seen |= BIT(SEEN_SMT);
		if (t->llc[cpu] >= MAX_LLCS)
			seen |= BIT(SEEN_OFFLINE);
		if (t->llc[cpu] != t->llc[home])
			seen |= BIT(SEEN_SPLIT_CORE);
		if (t->llc[home] != t->llc[first] || t->shard[cpu] == t->shard[first])
			continue;
		seen |= BIT(SEEN_SEVERAL_SHARDS);
		if (t->tally[t->shard[cpu]] != t->tally[t->shard[first]])
			seen |= BIT(SEEN_UNEVEN);
	}
	if (!bitmap_full(t->possible, t->nr_cpus))
		seen |= BIT(SEEN_ABSENT);
	if (bitmap_empty(t->possible, t->nr_cpus))
		seen |= BIT(SEEN_EMPTY);
	if (t->nr_shards == 1)
		seen |= BIT(SEEN_ONE_SHARD);
	return seen;
}

static void wq_shard_random_test(struct kunit *test)
{
	unsigned int round, size;
	u32 start = seed ? seed : get_random_u32_inclusive(1, S32_MAX);
	struct topo *t = test->priv;
	unsigned long seen = 0;
	struct rnd_state rnd;
	const char *wrong;

	KUNIT_ASSERT_GT_MSG(test, rounds, 0, "rounds=0 leaves nothing to check");
	kunit_info(test, "seed=%u rounds=%u", start, rounds);

	for (round = 0; round < rounds; round++) {
		prandom_seed_state(&rnd, start + round);
		random_topo(t, &rnd);
		size = random_size(&rnd);
		wrong = run_and_check(t, size);
		KUNIT_ASSERT_NULL_MSG(test, wrong,
				      "%s: size %u, %d CPU numbers; again with seed=%u rounds=1",
				      wrong, size, t->nr_cpus, start + round);
		seen |= examples(t);
		cond_resched();
	}

	/* With few rounds, an example may be missing; with the default number, none is. */
	if (rounds >= 1000)
		KUNIT_EXPECT_EQ(test, seen, BIT(NR_SEEN) - 1);
}

/*
 * At 4096 CPUs a quadratic walk takes some 10 ms, and many times that under emulation
 * or with sanitizers. A cubic one takes a minute at full speed.
 */
static void wq_shard_scale_test(struct kunit *test)
{
	const s64 limit_ms = 20 * MSEC_PER_SEC;
	struct topo *t = test->priv;
	ktime_t start;
	int cpu;

	t->nr_cpus = MAX_CPUS;
	bitmap_fill(t->possible, MAX_CPUS);
	for (cpu = 0; cpu < MAX_CPUS; cpu++) {
		t->core[cpu] = cpu;
		t->llc[cpu] = cpu / 2;
	}
	t->nr_llc_pods = run_group(t, t->llc, t->llc_pod);
	cond_resched();

	start = ktime_get();
	t->nr_core_pods = run_group(t, t->core, t->core_pod);
	run_shards(t, 1);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), limit_ms);
	KUNIT_EXPECT_EQ(test, t->nr_core_pods, MAX_CPUS);
	KUNIT_EXPECT_EQ(test, t->nr_shards, MAX_CPUS);
}

/* No machine has so many cores, but nothing overflows, or is divided by 0. */
static void wq_shard_limits_test(struct kunit *test)
{
	const unsigned int top = UINT_MAX, half = top / 2;

	KUNIT_EXPECT_EQ(test, wq_nr_shards(0, top), 0);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, 0), top);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, 2), half + 1);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, top - 1), 2);
	KUNIT_EXPECT_EQ(test, wq_core_shard(top - 1, top, 0), top - 1);
	KUNIT_EXPECT_EQ(test, wq_core_shard(half, top, top - 1), 0);
	KUNIT_EXPECT_EQ(test, wq_core_shard(half + 1, top, top - 1), 1);
}

static int wq_shard_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct topo), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static struct kunit_case wq_shard_cases[] = {
	KUNIT_CASE(wq_shard_limits_test),
	KUNIT_CASE(wq_shard_bad_share_test),
	KUNIT_CASE_PARAM(wq_shard_map_test, map_gen_params),
	KUNIT_CASE(wq_shard_no_llc_test),
	KUNIT_CASE(wq_shard_random_test),
	KUNIT_CASE_SLOW(wq_shard_scale_test),
	{}
};

static struct kunit_suite wq_shard_suite = {
	.name = "wq_shard",
	.init = wq_shard_init,
	.test_cases = wq_shard_cases,
};

kunit_test_suite(wq_shard_suite);

MODULE_DESCRIPTION("KUnit suite for the workqueue's shard arithmetic and pod building");
MODULE_LICENSE("GPL");
