// SPDX-License-Identifier: GPL-2.0
/* Who waited for whose write: stalls by line, instruction that waited, and that which wrote */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define BITS	18
#define SIZE	(1UL << BITS)

struct stall {
	uint64_t line, pc, writer;
	uint64_t nr;		/* 0: free */
	ps_t time;
};

static struct stall *table;
static uint64_t nr_lost;

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

void stalls_add(uint64_t line, uint64_t pc, uint64_t writer, ps_t time)
{
	uint64_t slot = (line * 31 + pc * 7 + writer) * 0x9e3779b97f4a7c15ULL >> (64 - BITS);

	for (int tries = 0; tries < 64; tries++, slot++) {
		struct stall *stall = &table[slot % SIZE];

		if (!stall->nr) {
			stall->line = line;
			stall->pc = pc;
			stall->writer = writer;
		} else if (stall->line != line || stall->pc != pc || stall->writer != writer) {
			continue;
		}
		stall->nr++;
		stall->time += time;
		return;
	}
	nr_lost++;
}

void stalls_write(FILE *file)
{
	for (uint64_t i = 0; i < SIZE; i++) {
		if (table[i].nr)
			fprintf(file, "stall %lx %lx %lx %lu %lu\n", table[i].line << LINE_SHIFT,
				table[i].pc, table[i].writer, table[i].nr, table[i].time);
	}
	fprintf(file, "lost %lu\n", nr_lost);
}
