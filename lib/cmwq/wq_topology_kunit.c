// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite for kernel/workqueue/topology.c: made-up machines whose CPUs come, go
 * and are moved to other places.  Like wq_shard_kunit.c, the suite compiles its own copy
 * of the code that it tests.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/string.h>

/* The copy must not clash with the kernel's own where both are built in. */
#define wq_topology_init	wq_topology_kunit_init
#define wq_topology_learn	wq_topology_kunit_learn

#include "../../kernel/workqueue/topology.c"

#define MAX_CPUS	16
#define MAX_LLCS	3
#define MAX_CORES	3	/* of each LLC */

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "Seed of the first random machine; 0 picks one");

/* A machine, and what topology.c has learned about it. */
struct machine {
	struct wq_topology topo;
	char core[MAX_CPUS + 1];	/* labels: equal ones mean the same place */
	char llc[MAX_CPUS + 1];
	bool knows_caches;
	int core_of[MAX_CPUS];
	int llc_of[MAX_CPUS];
	int core_before[MAX_CPUS];
	int llc_before[MAX_CPUS];
	DECLARE_BITMAP(learned, MAX_CPUS);
	DECLARE_BITMAP(online, MAX_CPUS);
	DECLARE_BITMAP(seen, MAX_CPUS);	/* was online once */
	bool bad_question;
	unsigned int nr_left;		/* CPUs that left a group with others in it */
};

/* the callbacks get CPU numbers only, so there is one machine at a time */
static struct machine *now;

static bool may_ask(int cpu0, int cpu1)
{
	if (test_bit(cpu0, now->online) && test_bit(cpu1, now->online))
		return true;
	now->bad_question = true;
	return false;
}

static bool label_same_core(int cpu0, int cpu1)
{
	return may_ask(cpu0, cpu1) && now->core[cpu0] == now->core[cpu1];
}

static bool label_same_cache(int cpu0, int cpu1)
{
	return may_ask(cpu0, cpu1) && now->knows_caches && now->llc[cpu0] == now->llc[cpu1];
}

static void machine_init(struct machine *m, int nr_cpus, bool knows_caches)
{
	m->knows_caches = knows_caches;
	m->topo = (struct wq_topology) {
		.nr_cpus = nr_cpus,
		.core_of = m->core_of,
		.llc_of = m->llc_of,
		.learned = m->learned,
		.same_core = label_same_core,
		.same_cache = label_same_cache,
	};
	bitmap_fill(m->learned, MAX_CPUS);
	wq_topology_init(&m->topo);
	bitmap_zero(m->online, MAX_CPUS);
	bitmap_zero(m->seen, MAX_CPUS);
	m->bad_question = false;
	now = m;
}

/* Checks: each returns NULL or what is wrong. */

/* a group's number is that of its lowest CPU; a CPU that was never online has none */
static const char *check_numbers(const struct machine *m, const int *of)
{
	int cpu, lower;

	for (cpu = 0; cpu < m->topo.nr_cpus; cpu++) {
		if (!test_bit(cpu, m->seen)) {
			if (of[cpu] != -1)
				return "a CPU that was never online is in a group";
			continue;
		}
		for (lower = 0; of[lower] != of[cpu]; lower++)
			;
		if (of[cpu] != lower)
			return "a group is not named after its lowest CPU";
	}
	return NULL;
}

/* online CPUs are in one group if, and only if, they share; a core is in one LLC */
static const char *check_pairs(const struct machine *m)
{
	const struct wq_topology *t = &m->topo;
	bool core, llc, same_core, same_llc;
	int a, b;

	for (a = 0; a < t->nr_cpus; a++) {
		for (b = 0; b < a; b++) {
			if (!test_bit(a, m->seen) || !test_bit(b, m->seen))
				continue;
			core = t->core_of[a] == t->core_of[b];
			llc = t->llc_of[a] == t->llc_of[b];
			if (core && !llc)
				return "a core is in two LLCs";
			if (!test_bit(a, m->online) || !test_bit(b, m->online))
				continue;
			same_core = m->core[a] == m->core[b];
			same_llc = m->knows_caches ? m->llc[a] == m->llc[b] : same_core;
			if (core != same_core)
				return "a core is wrong";
			if (llc != same_llc)
				return "an LLC is wrong";
		}
	}
	return NULL;
}

/* no CPU but @cpu leaves a group */
static const char *check_others(struct machine *m, int cpu, const int *before, const int *of)
{
	bool left = false;
	int a, b;

	for (a = 0; a < m->topo.nr_cpus; a++) {
		for (b = 0; b < a; b++) {
			if (before[a] < 0 || before[a] != before[b] || of[a] == of[b])
				continue;
			if (a != cpu && b != cpu)
				return "a group was divided";
			left = true;
		}
	}
	m->nr_left += left;
	return NULL;
}

static const char *come_up(struct machine *m, int cpu)
{
	size_t size = m->topo.nr_cpus * sizeof(int);
	bool said, changed;

	memcpy(m->core_before, m->core_of, size);
	memcpy(m->llc_before, m->llc_of, size);
	__set_bit(cpu, m->online);
	__set_bit(cpu, m->seen);
	said = wq_topology_learn(&m->topo, cpu);
	changed = memcmp(m->core_before, m->core_of, size) ||
		  memcmp(m->llc_before, m->llc_of, size);

	if (m->bad_question)
		return "an offline CPU was asked about";
	if (said != changed)
		return said ? "a change is reported without one" : "a change is not reported";
	return check_numbers(m, m->core_of) ?:
	       check_numbers(m, m->llc_of) ?:
	       check_pairs(m) ?:
	       check_others(m, cpu, m->core_before, m->core_of) ?:
	       check_others(m, cpu, m->llc_before, m->llc_of);
}

static void go_down(struct machine *m, int cpu)
{
	__clear_bit(cpu, m->topo.learned);
	__clear_bit(cpu, m->online);
}

/* Cases in a table */

struct story {
	const char *name;
	const char *core;	/* a letter for each CPU's core, and one for its LLC */
	const char *llc;
	/*
	 * "+3" and "-3": CPU 3 comes up and goes down.  "3cy": it is removed and
	 * added to core c in LLC y.
	 */
	const char *events;
	/* the number of each CPU's group at the end, '.' for none */
	const char *core_of;
	const char *llc_of;
	bool no_caches;		/* as with SCHED_MC=n */
};

static const struct story stories[] = {
	{ "never online", "abcd", "xxxx", "", "....", "...." },
	{ "one by one", "aabbccdd", "xxxxyyyy", "+0+1+2+3+4+5+6+7", "00224466", "00004444" },
	{ "downwards", "aabbccdd", "xxxxyyyy", "+7+6+5+4+3+2+1+0", "00224466", "00004444" },
	{ "threads apart", "abcdabcd", "xxyyxxyy", "+0+1+2+3+4+5+6+7", "01230123", "00220022" },
	{ "some stay away", "aabbccdd", "xxxxyyyy", "+0+3+4", "0..34...", "0..04..." },
	{ "kept while offline", "aabb", "xxxx", "+0+1+2+3-0-1-2", "0022", "0000" },
	{ "never online together", "aa", "xx", "+0-0+1", "01", "01" },
	{ "joined by a third", "abc", "xxx", "+0-0+1+2+0", "012", "000" },
	{ "the rest was away", "abcd", "xxxx", "+1+3-1+2-2+0", "0123", "0000" },
	{ "all back in place", "aabb", "xxyy", "+0+1+2+3-0-1-2-3+3+2+1+0", "0022", "0022" },

	{ "no caches known", "aabbcc", "xxxxxx", "+0+1+2+3+4+5", "002244", "002244", true },
	{ "none, threads apart", "abcabc", "xxxxxx", "+5+4+3+2+1+0", "012012", "012012", true },

	{ "moved to another LLC", "abcd", "xxyy", "+0+1+2+3-1 1dy+1", "0121", "0111" },
	{ "an LLC's first moved", "abcde", "xxxyy", "+0+1+2+3+4-0 0gy+0", "01234", "01100" },
	{ "moved to another core", "aabb", "xxxx", "+0+1+2+3-1 1bx+1", "0111", "0000" },
	{ "moved to a place of its own", "aabb", "xxxx", "+0+1+2+3-2 2cz+2", "0023", "0020" },
	{ "two moved", "aabb", "xxyy", "+0+1+2+3-1-2 1by2ax+1+2", "0101", "0101" },
	{ "moved and back", "abcd", "xxyy", "+0+1+2+3-0 0ey+0-0 0ax+0", "0123", "0022" },
	{ "moved, no caches known", "aabb", "xxxx", "+0+1+2+3-1 1bx+1", "0111", "0111", true },
	/* no online CPU contradicts before CPU 1 comes up */
	{ "moved, its core was away", "aab", "xxy", "+0+1+2-1-0 0by+0", "000", "000" },
	{ "its core comes back", "aab", "xxy", "+0+1+2-1-0 0by+0+1", "010", "010" },
	{ "two of a core come back", "aaab", "xxxy", "+0+1+2+3-1-2-0 0by+0+2+1", "0110", "0110" },
};

KUNIT_ARRAY_PARAM_DESC(story, stories, name);

static const char *tell(struct machine *m, const char *event)
{
	const char *wrong = NULL;

	while (!wrong && *event) {
		if (*event == '+') {
			wrong = come_up(m, event[1] - '0');
			event += 2;
		} else if (*event == '-') {
			go_down(m, event[1] - '0');
			event += 2;
		} else if (isdigit(*event)) {
			m->core[*event - '0'] = event[1];
			m->llc[*event - '0'] = event[2];
			event += 3;
		} else {
			event++;
		}
	}
	return wrong;
}

static const char *as_text(const struct machine *m, const int *of, char *text)
{
	int cpu;

	for (cpu = 0; cpu < m->topo.nr_cpus; cpu++)
		text[cpu] = of[cpu] < 0 ? '.' : '0' + of[cpu];
	text[cpu] = '\0';
	return text;
}

static void wq_topology_story_test(struct kunit *test)
{
	const struct story *story = test->param_value;
	struct machine *m = test->priv;
	char text[MAX_CPUS + 1];
	const char *wrong;

	machine_init(m, strlen(story->core), !story->no_caches);
	strscpy(m->core, story->core);
	strscpy(m->llc, story->llc);
	wrong = tell(m, story->events);

	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_STREQ(test, as_text(m, m->core_of, text), story->core_of);
	KUNIT_EXPECT_STREQ(test, as_text(m, m->llc_of, text), story->llc_of);
}

/* Random machines */

static unsigned int roll(struct rnd_state *rnd, unsigned int sides)
{
	return prandom_u32_state(rnd) % sides;
}

static void place(struct machine *m, int cpu, struct rnd_state *rnd)
{
	unsigned int llc = roll(rnd, MAX_LLCS);

	m->llc[cpu] = 'a' + llc;
	m->core[cpu] = 'a' + llc * MAX_CORES + roll(rnd, MAX_CORES);
}

static const char *random_life(struct machine *m, struct rnd_state *rnd)
{
	const char *wrong = NULL;
	int cpu, i;

	machine_init(m, 2 + roll(rnd, MAX_CPUS - 1), roll(rnd, 4));
	for (cpu = 0; cpu < m->topo.nr_cpus; cpu++)
		place(m, cpu, rnd);

	for (i = 0; !wrong && i < 100; i++) {
		cpu = roll(rnd, m->topo.nr_cpus);
		if (test_bit(cpu, m->online)) {
			go_down(m, cpu);
		} else {
			if (!roll(rnd, 4))
				place(m, cpu, rnd);
			wrong = come_up(m, cpu);
		}
	}
	return wrong;
}

static void wq_topology_random_test(struct kunit *test)
{
	u32 start = seed ? seed : get_random_u32_inclusive(1, S32_MAX);
	struct machine *m = test->priv;
	struct rnd_state rnd;
	const char *wrong;
	int round;

	kunit_info(test, "seed=%u", start);
	for (round = 0; round < 1000; round++) {
		prandom_seed_state(&rnd, start + round);
		wrong = random_life(m, &rnd);
		KUNIT_ASSERT_NULL_MSG(test, wrong, "%s: again with seed=%u", wrong, start + round);
		cond_resched();
	}
	KUNIT_EXPECT_GT(test, m->nr_left, 0);
}

static int wq_topology_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct machine), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static struct kunit_case wq_topology_cases[] = {
	KUNIT_CASE_PARAM(wq_topology_story_test, story_gen_params),
	KUNIT_CASE(wq_topology_random_test),
	{}
};

static struct kunit_suite wq_topology_suite = {
	.name = "wq_topology",
	.init = wq_topology_test_init,
	.test_cases = wq_topology_cases,
};

kunit_test_suite(wq_topology_suite);

MODULE_DESCRIPTION("KUnit suite for what the workqueue learns about the places of CPUs");
MODULE_LICENSE("GPL");
