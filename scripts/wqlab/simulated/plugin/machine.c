// SPDX-License-Identifier: GPL-2.0
/* The constants of a machine, from the arguments of the plugin */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct machine machine;

static const struct {
	const char *name;
	uint64_t *value;
} constants[] = {
	{ "cpus", &machine.cpus }, { "threads", &machine.threads },
	{ "llc_cpus", &machine.llc_cpus }, { "socket_cpus", &machine.socket_cpus },
	{ "insn", &machine.insn }, { "smt", &machine.smt }, { "atomic", &machine.atomic },
	{ "core_line", &machine.core_line }, { "llc_line", &machine.llc_line },
	{ "socket_line", &machine.socket_line }, { "far_line", &machine.far_line },
	{ "queue", &machine.queue },
	{ "first", &machine.first }, { "hold", &machine.hold }, { "buffer", &machine.buffer },
	{ "wake", &machine.wake }, { "ipi", &machine.ipi }, { "irq", &machine.irq },
	{ "relax", &machine.relax }, { "events", &machine.events },
	{ "quantum", &machine.quantum }, { "coarse", &machine.coarse }, { "seed", &machine.seed },
};

#define NR_CONSTANTS	(sizeof(constants) / sizeof(constants[0]))

static bool given[NR_CONSTANTS];

bool machine_argument(const char *name, const char *value)
{
	for (size_t i = 0; i < NR_CONSTANTS; i++) {
		char *end;

		if (strcmp(constants[i].name, name))
			continue;
		*constants[i].value = strtoull(value, &end, 10);
		given[i] = true;
		return *value && !*end;
	}
	return false;
}

/* Returns what is wrong with the arguments. */
const char *machine_missing(void)
{
	for (size_t i = 0; i < NR_CONSTANTS; i++) {
		if (!given[i])
			return constants[i].name;
	}
	if (!machine.cpus || machine.cpus > MAX_CPUS)
		return "cpus between 1 and 512";
	if (!machine.threads || !machine.llc_cpus || !machine.socket_cpus)
		return "CPUs in each core, cache and socket";
	return NULL;
}
