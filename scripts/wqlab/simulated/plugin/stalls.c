// SPDX-License-Identifier: GPL-2.0
/*
 * Who waited for whose write: stalls by address, instruction that waited, and that which wrote
 *
 * The kernel's functions for locks are called from everywhere, and where they wait is a queue. So
 * what they do counts as their caller's access to the lock. They lie together: locks=FIRST-END.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define BITS	18
#define SIZE	(1UL << BITS)

struct stall {
	struct access_site site;
	uint64_t writer;
	bool used;
	uint64_t moves;		/* of the line */
	ps_t time;
};

static struct stall *table;
static uint64_t nr_lost;
static uint64_t locks, locks_end;

bool stalls_init(void)
{
	table = calloc(SIZE, sizeof(*table));
	return table;
}

void stalls_forget(void)
{
	memset(table, 0, SIZE * sizeof(*table));
	nr_lost = 0;
}

/*
 * Functions for locks
 */

bool stalls_locks(const char *range)
{
	return sscanf(range, "%lx-%lx", &locks, &locks_end) == 2;
}

static bool is_of_lock(uint64_t pc)
{
	return pc >= locks && pc < locks_end;
}

/* B and BL have 26 bits of distance, in instructions. */
bool stalls_is_call_of_lock(uint64_t pc, uint32_t code)
{
	int64_t distance = (int32_t)(code << 6) >> 4;

	return (code & 0x7c000000) == 0x14000000 && is_of_lock(pc + distance) && !is_of_lock(pc);
}

void stalls_call_lock(unsigned int cpu, void *pc)
{
	vcpus[cpu].caller = (uintptr_t)pc;
	vcpus[cpu].lock = 0;
}

/* The lock is what a function for locks changes first by an atomic instruction. */
void stalls_set_site(struct vcpu *vcpu, uint64_t address, uint64_t pc, enum access access)
{
	bool of_lock = is_of_lock(pc) && vcpu->caller;

	if (of_lock && !vcpu->lock && access == ATOMIC)
		vcpu->lock = address;
	vcpu->site.address = of_lock && vcpu->lock ? vcpu->lock : address;
	vcpu->site.pc = of_lock ? vcpu->caller : pc;
}

/*
 * The table
 */

void stalls_add(struct access_site site, uint64_t writer, unsigned int moves, ps_t time)
{
	uint64_t hash = (site.address * 31 + site.pc * 7 + writer) * 0x9e3779b97f4a7c15ULL;

	for (uint64_t tries = 0; tries < 64; tries++) {
		struct stall *stall = &table[((hash >> (64 - BITS)) + tries) % SIZE];

		if (!stall->used) {
			stall->site = site;
			stall->writer = writer;
			stall->used = true;
		} else if (stall->site.address != site.address || stall->site.pc != site.pc ||
			   stall->writer != writer) {
			continue;
		}
		stall->moves += moves;
		stall->time += time;
		return;
	}
	nr_lost++;
}

void stalls_write(FILE *file)
{
	for (uint64_t i = 0; i < SIZE; i++) {
		if (table[i].used)
			fprintf(file, "stall %lx %lx %lx %lu %lu\n", table[i].site.address,
				table[i].site.pc, table[i].writer, table[i].moves, table[i].time);
	}
	fprintf(file, "lost %lu\n", nr_lost);
}
