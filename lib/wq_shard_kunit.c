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
#include <linux/cpumask.h>
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
#define TEXT_SIZE	128

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
 * Layouts as text: "8+7*4" for one shard of 8 cores and four of 7
 */

static void put_run(char *text, unsigned int len, unsigned int times)
{
	size_t used = strlen(text);

	if (!times)
		return;
	used += scnprintf(text + used, TEXT_SIZE - used, "%s%u",
			  used && text[used - 1] != ' ' ? "+" : "", len);
	if (times > 1)
		scnprintf(text + used, TEXT_SIZE - used, "*%u", times);
}

static void describe_llc(const struct topo *t, int llc, char *text)
{
	unsigned int len = 0, times = 0;
	int cpu, shard = -1;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (!heads_core(t, cpu, llc) || t->shard[cpu] == shard)
			continue;
		shard = t->shard[cpu];
		if (t->tally[shard] != len) {
			put_run(text, len, times);
			len = t->tally[shard];
			times = 0;
		}
		times++;
	}
	put_run(text, len, times);
}

/* All LLCs, separated by spaces; needs what check_shards() counted and found right. */
static void describe(const struct topo *t, char *text)
{
	int cpu;

	text[0] = '\0';
	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (!heads_llc(t, cpu))
			continue;
		if (text[0])
			strlcat(text, " ", TEXT_SIZE);
		describe_llc(t, t->llc[cpu], text);
	}
}

/*
 * The arithmetic alone
 */

struct layout_case {
	unsigned int nr_cores;
	unsigned int size;
	const char *layout;
};

static const struct layout_case layout_cases[] = {
	/* the default size */
	{ 36, 8, "8+7*4" },
	{ 20, 8, "7*2+6" },
	{ 72, 8, "8*9" },
	{ 11, 8, "6+5" },
	{ 1, 8, "1" },
	{ 2, 8, "2" },
	{ 7, 8, "7" },
	{ 8, 8, "8" },
	{ 9, 8, "5+4" },
	{ 16, 8, "8*2" },
	{ 17, 8, "6*2+5" },
	{ 0, 8, "" },
	/* 0 means 1 */
	{ 36, 0, "1*36" },
	{ 1, 0, "1" },
	{ 0, 0, "" },
	{ 36, 1, "1*36" },
	{ 20, 1, "1*20" },
	{ 1, 1, "1" },
	/* the sizes that people sweep */
	{ 36, 4, "4*9" },
	{ 20, 4, "4*5" },
	{ 72, 4, "4*18" },
	{ 11, 4, "4*2+3" },
	{ 36, 16, "12*3" },
	{ 20, 16, "10*2" },
	{ 72, 16, "15*2+14*3" },
	{ 11, 16, "11" },
	{ 36, 32, "18*2" },
	{ 20, 32, "20" },
	{ 72, 32, "24*3" },
	{ 33, 32, "17+16" },
	/* about the size of the LLC, and more */
	{ 36, 36, "36" },
	{ 36, 35, "18*2" },
	{ 72, UINT_MAX, "72" },
	{ 72, UINT_MAX - 1, "72" },
	{ 72, (unsigned int)INT_MAX + 1, "72" },
	{ 0, UINT_MAX, "" },
};

static void layout_desc(const struct layout_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u cores by %u", c->nr_cores, c->size);
}

KUNIT_ARRAY_PARAM(layout, layout_cases, layout_desc);

static void wq_shard_layout_test(struct kunit *test)
{
	const struct layout_case *c = test->param_value;
	unsigned int core, shard, last = 0, len = 0, run_len = 0, times = 0;
	char text[TEXT_SIZE] = "";

	for (core = 0; core <= c->nr_cores; core++) {
		/* one step beyond the last core, to close the last shard */
		shard = core < c->nr_cores ?
			wq_core_shard(core, c->nr_cores, c->size) :
			wq_nr_shards(c->nr_cores, c->size);
		if (shard != last) {
			KUNIT_ASSERT_EQ(test, shard, last + 1);
			if (len != run_len) {
				put_run(text, run_len, times);
				run_len = len;
				times = 0;
			}
			times++;
			last = shard;
			len = 0;
		}
		len++;
	}
	put_run(text, run_len, times);

	KUNIT_EXPECT_STREQ(test, text, c->layout);
}

/* Nothing overflows, and nothing is divided by zero, at the ends of the range. */
static void wq_shard_limits_test(struct kunit *test)
{
	const unsigned int top = UINT_MAX, half = top / 2;

	KUNIT_EXPECT_EQ(test, wq_nr_shards(0, 0), 0);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(0, top), 0);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(1, top), 1);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, 0), top);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, 1), top);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, 2), half + 1);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, half), 3);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, half + 1), 2);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, top - 1), 2);
	KUNIT_EXPECT_EQ(test, wq_nr_shards(top, top), 1);

	KUNIT_EXPECT_EQ(test, wq_core_shard(0, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, wq_core_shard(0, 1, top), 0);
	KUNIT_EXPECT_EQ(test, wq_core_shard(top - 1, top, 0), top - 1);
	KUNIT_EXPECT_EQ(test, wq_core_shard(top - 1, top, 1), top - 1);
	KUNIT_EXPECT_EQ(test, wq_core_shard(top - 1, top, top), 0);

	/* two shards, half + 1 cores and half */
	KUNIT_EXPECT_EQ(test, wq_core_shard(0, top, top - 1), 0);
	KUNIT_EXPECT_EQ(test, wq_core_shard(half, top, top - 1), 0);
	KUNIT_EXPECT_EQ(test, wq_core_shard(half + 1, top, top - 1), 1);
	KUNIT_EXPECT_EQ(test, wq_core_shard(top - 1, top, top - 1), 1);
}

/*
 * Small topologies CPU by CPU. One character per CPU: equal letters are one core
 * (LLC), '.' is an absent CPU, and the pods expected are 0..9, a..z.
 */

struct map_case {
	const char *name;
	const char *core;
	const char *llc;
	unsigned int size;
	const char *pods;
};

static const struct map_case map_cases[] = {
	{ "one CPU", "a", "x", 8, "0" },
	{ "one CPU, size 0", "a", "x", 0, "0" },
	{ "one CPU, huge size", "a", "x", UINT_MAX, "0" },
	{ "one CPU that is not number 0", "...a", "...x", 8, "...0" },
	{ "no CPU at all", "....", "....", 8, "...." },
	{ "no CPU numbers", "", "", 8, "" },
	{ "no SMT", "abcdefgh", "xxxxxxxx", 4, "00001111" },
	{ "no SMT, uneven", "abcdefghijk", "xxxxxxxxxxx", 8, "00000011111" },
	{ "siblings adjacent", "aabbccdd", "xxxxxxxx", 2, "00001111" },
	{ "siblings adjacent, size 1", "aabbccdd", "xxxxxxxx", 1, "00112233" },
	{ "siblings adjacent, size 0", "aabbccdd", "xxxxxxxx", 0, "00112233" },
	{ "siblings far apart", "abcdabcd", "xxxxxxxx", 3, "00110011" },
	{ "siblings far apart, uneven", "abcdeabcde", "xxxxxxxxxx", 2, "0011200112" },
	{ "four threads a core", "aaaabbbbcccc", "xxxxxxxxxxxx", 2, "000000001111" },
	{ "SMT on the first cores", "aabbcdef", "xxxxxxxx", 3, "00000111" },
	{ "SMT on the last cores", "abcdeeff", "xxxxxxxx", 2, "00112222" },
	{ "SMT here and there", "abcadcefe", "xxxxxxxxx", 2, "001011222" },
	{ "two LLCs in a row", "abcdef", "xxxyyy", 2, "001223" },
	{ "two LLCs interleaved", "abcdef", "xyxyxy", 2, "010123" },
	{ "two LLCs, SMT across numbers", "abcdabcd", "xxyyxxyy", 1, "01230123" },
	{ "LLCs of 1, 2, 3 and 5 cores", "abcdefghijk", "wxxyyyzzzzz", 2, "01122344556" },
	{ "a core per LLC", "abcd", "wxyz", 8, "0123" },
	{ "one core", "aaaa", "xxxx", 8, "0000" },
	{ "one core, size 0", "aaaa", "xxxx", 0, "0000" },
	{ "absent CPUs at the end", "abcd....", "xxxx....", 2, "0011...." },
	{ "absent CPUs at the front", "..abcd", "..xxxx", 2, "..0011" },
	{ "absent CPUs between", "a.b.c..d", "x.x.x..x", 2, "0.0.1..1" },
	{ "absent siblings", "aab.cc.d", "xxx.xx.x", 2, "000.11.1" },
	{ "absent first siblings", "..cdabcd", "..xxxxxx", 2, "..001100" },
	/* a CPU that has not been up yet is known to share nothing */
	{ "offline CPUs", "aabCDbee", "xxxYZxxx", 2, "00012033" },
	{ "offline CPUs only", "ABCD", "WXYZ", 8, "0123" },
	{ "huge size", "aabbcdef", "xxxxxyyy", UINT_MAX, "00000111" },
	/* such firmware is wrong: a core counts for the LLC of its first CPU */
	{ "a core in two LLCs", "aabb", "xyxy", 8, "0000" },
	{ "a core in two LLCs, size 1", "aabb", "xyxy", 1, "0011" },
	{ "a core in two LLCs of others", "abbc", "xxyy", 8, "0001" },
	{ "a core in two LLCs, size 2", "abcbdeaf", "xxxyyyyy", 2, "00102203" },
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

static void print_pods(const struct topo *t, const int *pod, char *text)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	int cpu;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		if (pod[cpu] == -1)
			text[cpu] = '.';
		else if (pod[cpu] >= 0 && pod[cpu] < strlen(digits))
			text[cpu] = digits[pod[cpu]];
		else
			text[cpu] = '?';
	}
	text[t->nr_cpus] = '\0';
}

static void wq_shard_map_test(struct kunit *test)
{
	const struct map_case *c = test->param_value;
	struct topo *t = test->priv;
	char text[TEXT_SIZE];

	KUNIT_ASSERT_EQ(test, strlen(c->core), strlen(c->llc));
	KUNIT_ASSERT_LT(test, strlen(c->core), sizeof(text));
	label_cpus(t, c->core, c->llc);

	expect_right(test, run_and_check(t, c->size));
	print_pods(t, t->shard, text);
	KUNIT_EXPECT_STREQ(test, text, c->pods);
}

struct group_case {
	const char *label;
	const char *pods;
};

static const struct group_case group_cases[] = {
	{ "", "" },
	{ ".", "." },
	{ "a", "0" },
	{ ".a", ".0" },
	{ "aaaa", "0000" },
	{ "abcd", "0123" },
	{ "dcba", "0123" },
	{ "baab", "0110" },
	{ "abcabc", "012012" },
	{ "c.a..cba.", "0.1..021." },
};

KUNIT_ARRAY_PARAM_DESC(group, group_cases, label);

static void wq_shard_group_test(struct kunit *test)
{
	const struct group_case *c = test->param_value;
	struct topo *t = test->priv;
	char text[TEXT_SIZE];
	int nr_pods;

	label_cpus(t, c->label, c->label);
	nr_pods = run_group(t, t->llc, t->llc_pod);
	expect_right(test, check_groups(t, t->llc, t->llc_pod, nr_pods));
	print_pods(t, t->llc_pod, text);
	KUNIT_EXPECT_STREQ(test, text, c->pods);
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
	char text[TEXT_SIZE];
	int nr_pods;

	label_cpus(t, "aaaa.aaa", "aaaa.aaa");
	poison(t, t->llc_pod);
	nr_pods = wq_group_cpus(t->possible, t->nr_cpus, share, NULL, t->llc_pod);
	expect_right(test, check_numbers(t, t->llc_pod, nr_pods));
	print_pods(t, t->llc_pod, text);
	KUNIT_EXPECT_STREQ(test, text, pods);
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
	char text[TEXT_SIZE];

	label_cpus(t, "abcdeedd", "xxxxxxxx");
	t->nr_llc_pods = run_group(t, t->llc, t->llc_pod);
	t->nr_core_pods = run_group(t, t->core, t->core_pod);
	t->llc_pod[1] = -1;
	t->llc_pod[4] = -1;
	run_shards(t, 8);
	expect_right(test, check_numbers(t, t->shard, t->nr_shards));
	print_pods(t, t->shard, text);
	KUNIT_EXPECT_STREQ(test, text, "01002200");
}

/*
 * Whole machines. The division of an LLC must depend neither on SMT nor on how CPUs
 * are numbered, so each machine is tried in all such forms.
 */

struct shape {
	unsigned int cores[MAX_LLCS];	/* per LLC, a 0 ends the list */
	unsigned int threads;		/* most threads that a core has */
	unsigned int mix;		/* not 0: cores have 1 to @threads threads */
	unsigned int order;		/* index into orders[] */
	unsigned int gap;		/* absent CPUs in front of each CPU */
};

enum { BY_LLC, BY_CORE, BY_THREAD, NR_DIMS };

/* The order in which CPUs are numbered; the last one changes fastest. */
static const u8 orders[][NR_DIMS] = {
	{ BY_LLC, BY_CORE, BY_THREAD },
	{ BY_LLC, BY_THREAD, BY_CORE },
	{ BY_CORE, BY_LLC, BY_THREAD },
	{ BY_CORE, BY_THREAD, BY_LLC },
	{ BY_THREAD, BY_LLC, BY_CORE },
	{ BY_THREAD, BY_CORE, BY_LLC },
};

static unsigned int nr_threads(const struct shape *s, const unsigned int *at)
{
	if (!s->mix)
		return s->threads;

	return 1 + (at[BY_CORE] * 5 + at[BY_LLC] * 3 + s->mix) % s->threads;
}

static void add_cpu(struct topo *t, const struct shape *s, const unsigned int *at)
{
	int cpu;

	if (at[BY_CORE] >= s->cores[at[BY_LLC]] || at[BY_THREAD] >= nr_threads(s, at))
		return;

	cpu = t->nr_cpus + s->gap;
	if (cpu >= MAX_CPUS)
		return;
	__set_bit(cpu, t->possible);
	t->llc[cpu] = at[BY_LLC];
	t->core[cpu] = at[BY_LLC] * MAX_CPUS + at[BY_CORE];
	t->nr_cpus = cpu + 1;
}

static void build(struct topo *t, const struct shape *s)
{
	const u8 *dim = orders[s->order];
	unsigned int nr[NR_DIMS] = {}, at[NR_DIMS];

	nr[BY_THREAD] = s->threads;
	while (nr[BY_LLC] < MAX_LLCS && s->cores[nr[BY_LLC]]) {
		nr[BY_CORE] = max(nr[BY_CORE], s->cores[nr[BY_LLC]]);
		nr[BY_LLC]++;
	}

	t->nr_cpus = 0;
	bitmap_zero(t->possible, MAX_CPUS);
	memset(t->llc, 0xff, sizeof(t->llc));
	memset(t->core, 0xff, sizeof(t->core));
	for (at[dim[0]] = 0; at[dim[0]] < nr[dim[0]]; at[dim[0]]++)
		for (at[dim[1]] = 0; at[dim[1]] < nr[dim[1]]; at[dim[1]]++)
			for (at[dim[2]] = 0; at[dim[2]] < nr[dim[2]]; at[dim[2]]++)
				add_cpu(t, s, at);
}

struct machine_case {
	unsigned int cores[MAX_LLCS];
	unsigned int size;
	const char *layout;
};

static const struct machine_case machine_cases[] = {
	{ { 36 }, 8, "8+7*4" },
	{ { 20 }, 8, "7*2+6" },
	{ { 72 }, 8, "8*9" },
	{ { 11 }, 8, "6+5" },
	{ { 8 }, 8, "8" },
	{ { 1 }, 8, "1" },
	{ { 36 }, 0, "1*36" },
	{ { 36 }, 1, "1*36" },
	{ { 36 }, 4, "4*9" },
	{ { 36 }, 16, "12*3" },
	{ { 36 }, 32, "18*2" },
	{ { 36 }, UINT_MAX, "36" },
	{ { 72 }, 16, "15*2+14*3" },
	{ { 72 }, 32, "24*3" },
	{ { 1 }, 0, "1" },
	{ { 1 }, UINT_MAX, "1" },
	{ { 36, 36 }, 8, "8+7*4 8+7*4" },
	{ { 36, 20, 11, 1 }, 8, "8+7*4 7*2+6 6+5 1" },
	{ { 1, 11, 20, 36 }, 8, "1 6+5 7*2+6 8+7*4" },
	{ { 8, 9, 16, 17 }, 8, "8 5+4 8*2 6*2+5" },
	{ { 4, 4, 4, 4, 4, 4, 4, 4 }, 8, "4 4 4 4 4 4 4 4" },
	{ { 6, 2, 6, 2 }, 4, "3*2 2 3*2 2" },
	{ { 3, 1, 2 }, 0, "1*3 1 1*2" },
	{ { 36, 20, 72 }, UINT_MAX, "36 20 72" },
};

static void machine_desc(const struct machine_case *c, char *desc)
{
	int i, used = 0;

	for (i = 0; i < MAX_LLCS && c->cores[i]; i++)
		used += scnprintf(desc + used, KUNIT_PARAM_DESC_SIZE - used, "%s%u",
				  i ? ", " : "", c->cores[i]);
	scnprintf(desc + used, KUNIT_PARAM_DESC_SIZE - used, " cores by %u", c->size);
}

KUNIT_ARRAY_PARAM(machine, machine_cases, machine_desc);

static void try_machine(struct kunit *test, const struct machine_case *c,
			const struct shape *s)
{
	struct topo *t = test->priv;
	char text[TEXT_SIZE] = "";
	const char *wrong;

	build(t, s);
	wrong = run_and_check(t, c->size);
	if (!wrong)
		describe(t, text);
	KUNIT_EXPECT_TRUE_MSG(test, !wrong && !strcmp(text, c->layout),
			      "%s: %s instead of %s (threads %u mix %u order %u gap %u)",
			      wrong ? wrong : "wrong layout", text, c->layout,
			      s->threads, s->mix, s->order, s->gap);
}

static void wq_shard_machine_test(struct kunit *test)
{
	const struct machine_case *c = test->param_value;
	struct shape s = {};

	memcpy(s.cores, c->cores, sizeof(s.cores));
	for (s.threads = 1; s.threads <= 4; s.threads++)
		for (s.mix = 0; s.mix < s.threads; s.mix++)
			for (s.order = 0; s.order < ARRAY_SIZE(orders); s.order++)
				for (s.gap = 0; s.gap < 3; s.gap++)
					try_machine(test, c, &s);
}

/*
 * Random topologies, including real machines and wrong firmware
 */

/* How many of the random topologies had each property; none may stay 0. */
struct seen {
	unsigned int smt, mixed_smt, absent, offline, split_core, empty;
	unsigned int shuffled, several_llcs, several_shards, uneven, one_shard;
};

static unsigned int roll(struct rnd_state *rnd, unsigned int sides)
{
	return prandom_u32_state(rnd) % sides;
}

static void shuffle_cpus(struct topo *t, struct rnd_state *rnd)
{
	int a, b;

	for (a = t->nr_cpus - 1; a > 0; a--) {
		b = roll(rnd, a + 1);
		swap(t->llc[a], t->llc[b]);
		swap(t->core[a], t->core[b]);
	}
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
			t->core[cpu] = MAX_LLCS * MAX_CPUS + cpu;
		}
		if (roll(rnd, 100) < absent)
			__clear_bit(cpu, t->possible);
	}
}

static unsigned int random_size(struct rnd_state *rnd)
{
	static const unsigned int sizes[] = { 0, 1, 2, 3, 4, 8, 16, 32, UINT_MAX };
	unsigned int pick = roll(rnd, ARRAY_SIZE(sizes) + 2);

	return pick < ARRAY_SIZE(sizes) ? sizes[pick] : roll(rnd, 64);
}

static void random_topo(struct topo *t, struct rnd_state *rnd, struct seen *seen)
{
	unsigned int i, nr_llcs = 1 + roll(rnd, MAX_LLCS), most = 1 + roll(rnd, 40);
	struct shape s = {
		.threads = 1 + roll(rnd, 4),
		.mix = roll(rnd, 4),
		.order = roll(rnd, ARRAY_SIZE(orders)),
	};

	for (i = 0; i < nr_llcs; i++)
		s.cores[i] = 1 + roll(rnd, most);
	build(t, &s);
	seen->smt += s.threads > 1;
	seen->mixed_smt += s.threads > 1 && s.mix;
	seen->several_llcs += nr_llcs > 1;
	if (!roll(rnd, 3)) {
		seen->shuffled++;
		shuffle_cpus(t, rnd);
	}
	spoil_cpus(t, rnd);
}

static void note_result(const struct topo *t, struct seen *seen)
{
	bool offline = false, split = false, uneven = false, several = false;
	int cpu, home;

	for_each_set_bit(cpu, t->possible, t->nr_cpus) {
		home = t->first[cpu];
		offline |= t->llc[cpu] >= MAX_LLCS;
		split |= t->llc[cpu] != t->llc[home];
		/* a CPU that is not possible is in no shard */
		if (!test_bit(0, t->possible))
			continue;
		several |= t->llc[cpu] == t->llc[0] && t->shard[cpu] != t->shard[0];
		uneven |= t->tally[t->shard[cpu]] != t->tally[t->shard[0]];
	}
	seen->absent += !bitmap_full(t->possible, t->nr_cpus);
	seen->empty += bitmap_empty(t->possible, t->nr_cpus);
	seen->offline += offline;
	seen->split_core += split;
	seen->uneven += uneven;
	seen->several_shards += several;
	seen->one_shard += t->nr_shards == 1;
}

static void expect_all_seen(struct kunit *test, const struct seen *seen)
{
	KUNIT_EXPECT_GT(test, seen->smt, 0);
	KUNIT_EXPECT_GT(test, seen->mixed_smt, 0);
	KUNIT_EXPECT_GT(test, seen->absent, 0);
	KUNIT_EXPECT_GT(test, seen->offline, 0);
	KUNIT_EXPECT_GT(test, seen->split_core, 0);
	KUNIT_EXPECT_GT(test, seen->empty, 0);
	KUNIT_EXPECT_GT(test, seen->shuffled, 0);
	KUNIT_EXPECT_GT(test, seen->several_llcs, 0);
	KUNIT_EXPECT_GT(test, seen->several_shards, 0);
	KUNIT_EXPECT_GT(test, seen->uneven, 0);
	KUNIT_EXPECT_GT(test, seen->one_shard, 0);
}

static void wq_shard_random_test(struct kunit *test)
{
	unsigned int round, size;
	u32 start = seed ? seed : get_random_u32_inclusive(1, S32_MAX);
	struct topo *t = test->priv;
	struct seen seen = {};
	struct rnd_state rnd;
	const char *wrong;

	KUNIT_ASSERT_GT_MSG(test, rounds, 0, "rounds=0 leaves nothing to check");
	kunit_info(test, "seed=%u rounds=%u", start, rounds);

	for (round = 0; round < rounds; round++) {
		prandom_seed_state(&rnd, start + round);
		random_topo(t, &rnd, &seen);
		size = random_size(&rnd);
		wrong = run_and_check(t, size);
		KUNIT_ASSERT_NULL_MSG(test, wrong,
				      "%s: size %u, %d CPU numbers; again with seed=%u rounds=1",
				      wrong, size, t->nr_cpus, start + round);
		note_result(t, &seen);
		cond_resched();
	}

	/* With few rounds, a property may be missing; with the default number, none is. */
	if (rounds >= 1000)
		expect_all_seen(test, &seen);
}

/*
 * The machine's size
 */

/*
 * At 4096 CPUs a quadratic walk takes some 10 ms, and many times that under emulation
 * or with sanitizers. A cubic one takes a minute at full speed.
 */
static void wq_shard_scale_test(struct kunit *test)
{
	const s64 limit_ms = 20 * MSEC_PER_SEC;
	struct topo *t = test->priv;
	ktime_t start, grouped, sharded;
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
	grouped = ktime_get();
	KUNIT_EXPECT_LE(test, t->calls, MAX_CPUS * (MAX_CPUS - 1UL) / 2);
	cond_resched();

	sharded = ktime_get();
	run_shards(t, 1);
	kunit_info(test, "%d cores: grouped in %lld us, sharded in %lld us", MAX_CPUS,
		   ktime_us_delta(grouped, start), ktime_us_delta(ktime_get(), sharded));
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), limit_ms);

	KUNIT_EXPECT_EQ(test, t->nr_llc_pods, MAX_CPUS / 2);
	KUNIT_EXPECT_EQ(test, t->nr_core_pods, MAX_CPUS);
	expect_right(test, check_numbers(t, t->shard, t->nr_shards));
	KUNIT_EXPECT_EQ(test, t->nr_shards, MAX_CPUS);

	run_shards(t, UINT_MAX);
	expect_right(test, check_numbers(t, t->shard, t->nr_shards));
	KUNIT_EXPECT_EQ(test, t->nr_shards, MAX_CPUS / 2);
}

/* The interface itself, on as many CPU numbers as this kernel has. */

static bool share_never(int cpu0, int cpu1, void *arg)
{
	return false;
}

static bool share_always(int cpu0, int cpu1, void *arg)
{
	return true;
}

static void try_mask(struct kunit *test, const struct cpumask *mask)
{
	unsigned int nr = cpumask_weight(mask), rank = 0, cpu;
	const unsigned long *bits = cpumask_bits(mask);
	struct topo *t = test->priv;

	t->nr_cpus = nr_cpu_ids;
	bitmap_copy(t->possible, bits, nr_cpu_ids);

	poison(t, t->llc_pod);
	KUNIT_EXPECT_EQ(test, wq_group_cpus(bits, nr_cpu_ids, share_always, NULL, t->llc_pod),
			!!nr);
	expect_right(test, check_numbers(t, t->llc_pod, !!nr));

	poison(t, t->core_pod);
	KUNIT_EXPECT_EQ(test, wq_group_cpus(bits, nr_cpu_ids, share_never, NULL, t->core_pod),
			nr);
	expect_right(test, check_numbers(t, t->core_pod, nr));

	poison(t, t->shard);
	KUNIT_EXPECT_EQ(test, wq_shard_cpus(bits, nr_cpu_ids, t->llc_pod, t->core_pod, 2, t->shard),
			(nr + 1) / 2);
	expect_right(test, check_numbers(t, t->shard, (nr + 1) / 2));
	/* shards of two, and of one at the end where the number is odd */
	for_each_cpu(cpu, mask)
		KUNIT_EXPECT_EQ(test, t->shard[cpu], rank++ / 2);
}

static void wq_shard_kernel_mask_test(struct kunit *test)
{
	struct cpumask *mask = kunit_kzalloc(test, sizeof(*mask), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mask);
	KUNIT_ASSERT_LE(test, nr_cpu_ids, MAX_CPUS);

	try_mask(test, mask);
	try_mask(test, cpu_possible_mask);
	try_mask(test, cpu_online_mask);
	cpumask_copy(mask, cpu_possible_mask);
	cpumask_clear_cpu(cpumask_first(mask), mask);
	try_mask(test, mask);
	cpumask_clear(mask);
	cpumask_set_cpu(nr_cpu_ids - 1, mask);
	try_mask(test, mask);
}

static int wq_shard_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct topo), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static struct kunit_case wq_shard_cases[] = {
	KUNIT_CASE_PARAM(wq_shard_layout_test, layout_gen_params),
	KUNIT_CASE(wq_shard_limits_test),
	KUNIT_CASE_PARAM(wq_shard_group_test, group_gen_params),
	KUNIT_CASE(wq_shard_bad_share_test),
	KUNIT_CASE_PARAM(wq_shard_map_test, map_gen_params),
	KUNIT_CASE(wq_shard_no_llc_test),
	KUNIT_CASE_PARAM(wq_shard_machine_test, machine_gen_params),
	KUNIT_CASE(wq_shard_random_test),
	KUNIT_CASE_SLOW(wq_shard_scale_test),
	KUNIT_CASE(wq_shard_kernel_mask_test),
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
