// SPDX-License-Identifier: GPL-2.0
/*
 * Where the cache lines are, and what it costs to fetch one
 *
 * Caches are infinite. A line is owned by one CPU, which may write it, or shared by several, which
 * may read it. `arrival` is when the last writer has it: nobody gets it earlier. So those who want
 * to write a line follow each other, a transfer apart, however the host runs them.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>

#include "sim.h"

#define BITS		21
#define SIZE		(1UL << BITS)
#define NOT_SHARED	0
#define MAX_WORDS	(MAX_CPUS / 64)

struct line {
	uint64_t key;		/* number of the line + 1; 0: free */
	ps_t arrival;
	uint64_t writer;	/* the instruction that wrote it */
	uint32_t owner;		/* the CPU that wrote it, or touched it first */
	uint32_t shared;	/* by the CPUs of the bitmap */
	uint64_t sharers[];
};

static ps_t later(ps_t a, ps_t b)
{
	return a > b ? a : b;
}

static char *table;
static size_t stride, nr_words;
uint64_t nr_untracked;

bool lines_init(void)
{
	nr_words = (machine.cpus + 63) / 64;
	stride = sizeof(struct line) + nr_words * sizeof(uint64_t);
	table = mmap(NULL, SIZE * stride, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return table != MAP_FAILED;
}

void lines_forget(void)
{
	madvise(table, SIZE * stride, MADV_DONTNEED);
	nr_untracked = 0;
}

static struct line *find(uint64_t number)
{
	uint64_t slot = number * 0x9e3779b97f4a7c15ULL >> (64 - BITS);

	for (int tries = 0; tries < 64; tries++, slot++) {
		struct line *line = (struct line *)(table + slot % SIZE * stride);

		if (line->key == number + 1 || !line->key)
			return line;
	}
	nr_untracked++;
	return NULL;
}

static bool has(const struct line *line, unsigned int cpu)
{
	return line->shared ? line->sharers[cpu / 64] >> cpu % 64 & 1 : line->owner == cpu;
}

static void share(struct line *line, unsigned int cpu)
{
	if (!line->shared) {
		for (size_t i = 0; i < nr_words; i++)
			line->sharers[i] = 0;
		line->sharers[line->owner / 64] = 1ULL << line->owner % 64;
		line->shared = 1;
	}
	line->sharers[cpu / 64] |= 1ULL << cpu % 64;
}

/* The rule of distance: a line comes from the same core, cache, socket, or from far away. */
static ps_t distance(unsigned int a, unsigned int b)
{
	if (a / machine.threads == b / machine.threads)
		return machine.core_line;
	if (a / machine.llc_cpus == b / machine.llc_cpus)
		return machine.llc_line;
	if (a / machine.socket_cpus == b / machine.socket_cpus)
		return machine.socket_line;
	return machine.far_line;
}

/*
 * The rule of queues: a line for which CPUs stand in line moves more slowly. There is no queue if
 * only its last move is not over yet, as when two CPUs send each other a line.
 */
static ps_t move(const struct line *line, ps_t start, ps_t cost)
{
	if (line->arrival > start + cost)
		cost += cost * machine.queue / 1000;
	return later(line->arrival, start) + cost;
}

/* A CPU loses the line, so its LDXR has lost what it watches, and its WFE ends. */
static void take_from(const struct line *line, unsigned int cpu, ps_t when)
{
	struct vcpu *vcpu = &vcpus[cpu];

	if (vcpu->monitor != line->key)
		return;
	if (vcpu->asleep && when > vcpu->clock)
		stalls_add(vcpu->site, line->writer, 0, when - vcpu->clock);
	vcpu->monitor = 0;
	vcpu->event = true;
	baton_wake_sleeper(cpu, when);
}

/* The line becomes this CPU's alone, once the farthest CPU that has it has given it up. */
static void own(struct line *line, unsigned int cpu, ps_t start, uint64_t pc)
{
	ps_t cost = line->owner == cpu ? 0 : distance(cpu, line->owner);
	uint64_t sharers[MAX_WORDS] = { 0 };

	for (size_t i = 0; line->shared && i < nr_words; i++) {
		for (uint64_t rest = sharers[i] = line->sharers[i]; rest; rest &= rest - 1) {
			unsigned int other = i * 64 + __builtin_ctzll(rest);

			if (other != cpu && distance(cpu, other) > cost)
				cost = distance(cpu, other);
		}
	}
	if (!line->shared)
		sharers[line->owner / 64] = 1ULL << line->owner % 64;

	line->arrival = move(line, start, cost);
	line->writer = pc;
	line->owner = cpu;
	line->shared = NOT_SHARED;
	for (size_t i = 0; i < nr_words; i++) {
		for (uint64_t rest = sharers[i]; rest; rest &= rest - 1) {
			unsigned int other = i * 64 + __builtin_ctzll(rest);

			if (other != cpu)
				take_from(line, other, line->arrival);
		}
	}
}

/*
 * The rule of hold: a CPU that fetched a line goes on for a while. Then those have their turn whose
 * clocks are behind: they may want the same line. What it fetches meanwhile makes that no longer,
 * or it would go through a critical section ahead of them all.
 */
static void fetched(struct vcpu *vcpu, ps_t begin, struct insn *insn)
{
	insn->contended = true;
	if (begin >= vcpu->grace)
		vcpu->grace = vcpu->clock + machine.hold;
	vcpu->limit = 0;
}

/* The rule of reads: all that read a line get it at the same time, after its last write. */
static void read_line(struct line *line, unsigned int cpu, struct insn *insn)
{
	struct vcpu *vcpu = &vcpus[cpu];
	ps_t begin = vcpu->clock;

	if (has(line, cpu))
		return;
	vcpu->clock = move(line, begin, distance(cpu, line->owner));
	stalls_add(vcpu->site, line->writer, 1, vcpu->clock - begin);
	share(line, cpu);
	fetched(vcpu, begin, insn);
}

/* The rule of atomics: one transfer of the line, for which the CPU waits. Those before are done. */
static void atomic_line(struct line *line, unsigned int cpu, struct insn *insn)
{
	struct vcpu *vcpu = &vcpus[cpu];
	ps_t begin = vcpu->clock;
	uint64_t writer = line->writer;

	if (line->owner == cpu && !line->shared) {
		vcpu->clock = line->arrival = later(line->arrival, begin);
		line->writer = vcpu->site.pc;
		return;
	}
	own(line, cpu, begin, vcpu->site.pc);
	vcpu->clock = line->arrival;
	stalls_add(vcpu->site, writer, 1, vcpu->clock - begin);
	fetched(vcpu, begin, insn);
}

/*
 * The rule of stores: the store buffer takes them, and the CPU goes on. It waits if the buffer is
 * too far behind, or a barrier or an atomic instruction follows.
 */
static void write_line(struct line *line, unsigned int cpu, ps_t start, struct insn *insn)
{
	struct vcpu *vcpu = &vcpus[cpu];
	uint64_t writer = line->writer;
	ps_t begin = vcpu->clock;

	if (line->owner == cpu && !line->shared) {
		line->arrival = later(line->arrival, start);
		line->writer = vcpu->site.pc;
		return;
	}
	own(line, cpu, start, vcpu->site.pc);
	stalls_add(vcpu->site, writer, 1, 0);
	if (line->arrival > vcpu->drained) {
		vcpu->drained = line->arrival;
		vcpu->slow = vcpu->site;
		vcpu->slow_writer = writer;
	}
	if (vcpu->drained > vcpu->clock + machine.buffer) {
		stalls_add(vcpu->slow, vcpu->slow_writer, 0,
			   vcpu->drained - machine.buffer - vcpu->clock);
		vcpu->clock = vcpu->drained - machine.buffer;
	}
	fetched(vcpu, begin, insn);
}

/* All stores of this CPU are done. */
void lines_drain(struct vcpu *vcpu)
{
	if (vcpu->drained <= vcpu->clock)
		return;
	stalls_add(vcpu->slow, vcpu->slow_writer, 0, vcpu->drained - vcpu->clock);
	vcpu->clock = vcpu->drained;
}

/* The rule of first touches: the line comes from memory or from a cache that nobody looked at. */
static void first_touch(struct line *line, uint64_t number, unsigned int cpu)
{
	line->key = number + 1;
	line->owner = cpu;
	vcpus[cpu].clock += machine.first;
	line->arrival = vcpus[cpu].clock;
}

void lines_access(unsigned int cpu, uint64_t number, enum access access, struct insn *insn)
{
	struct vcpu *vcpu = &vcpus[cpu];
	struct line *line = find(number);

	if (!line)
		return;
	if (!line->key)
		first_touch(line, number, cpu);
	switch (access) {
	case READ_AND_WATCH:
		vcpu->monitor = line->key;
		/* fall through */
	case READ:
		read_line(line, cpu, insn);
		break;
	case WRITE:
		write_line(line, cpu, vcpu->clock, insn);
		break;
	case RELEASE:
		write_line(line, cpu, later(vcpu->drained, vcpu->clock), insn);
		break;
	case ATOMIC:
		lines_drain(vcpu);
		atomic_line(line, cpu, insn);
		break;
	}
}
