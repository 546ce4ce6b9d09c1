// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin for QEMU: an arm64 machine in simulated time
 *
 *   LD_PRELOAD=plugin.so qemu-system-aarch64 -accel tcg,thread=multi ... \
 *       -plugin plugin.so,out=FILE,toggle=ADDRESS,CONSTANT=NUMBER,...
 *
 * The guest runs as always. Its time is computed: each vCPU has a clock, which instructions, cache
 * lines and interrupts move on, and its counter and timers follow this clock. The vCPU whose clock
 * is behind runs: see baton.c. What instructions cost is in costs.c, what lines cost in lines.c.
 *
 * Until an instruction at ADDRESS is executed, and again after the next time, only the instructions
 * themselves cost time, and a vCPU may be far ahead of others: so a guest boots quickly. Each time
 * that simulation ends, the figures of this stretch are appended to FILE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "sim.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t toggle_pc;
static FILE *out;

ps_t begun;

/*
 * Begin and end
 */

/* The same seed is the same run. Another one is one more run, in which CPUs begin elsewhere. */
static void spread_clocks(void)
{
	uint64_t random = machine.seed;

	for (unsigned int cpu = 0; machine.seed && cpu < machine.cpus; cpu++) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		vcpus[cpu].clock += (random >> 54) * PS_PER_NS;	/* up to 1 us */
	}
}

static void begin(unsigned int cpu)
{
	lines_forget();
	stalls_forget();
	nr_wakes = nr_ipis = 0;
	for (unsigned int i = 0; i < machine.cpus; i++)
		vcpus[i].insns = vcpus[i].idle = 0;
	spread_clocks();
	begun = vcpus[cpu].clock;
	simulated = true;
}

static void end(unsigned int cpu)
{
	uint64_t insns = 0;
	ps_t idle = 0;

	simulated = false;
	for (unsigned int i = 0; i < machine.cpus; i++) {
		if (vcpus[i].halted)
			add_idle(&vcpus[i], vcpus[cpu].clock);
		insns += vcpus[i].insns;
		idle += vcpus[i].idle;
	}
	fprintf(out, "cpus %lu\nidle %lu\ntime %lu\ninstructions %lu\nwakes %lu\nipis %lu\nuntracked %lu\n",
		machine.cpus, idle, vcpus[cpu].clock - begun, insns, nr_wakes, nr_ipis, nr_untracked);
	stalls_write(out);
	memory_copy();
	fputs("end\n", out);
	fflush(out);
}

static void toggle(unsigned int cpu, void *data)
{
	(void)data;
	if (simulated)
		end(cpu);
	else
		begin(cpu);
	baton_new_quantum();
}

/*
 * Translation
 */

static void idle(qemu_plugin_id_t id, unsigned int cpu)
{
	(void)id;
	baton_halt(cpu);
}

static uint32_t code_of(const struct qemu_plugin_insn *insn)
{
	uint32_t code;

	memcpy(&code, qemu_plugin_insn_data(insn), sizeof(code));
	return code;
}

/* Does a store follow the LDXR, or did a prefetch say that one will? */
static bool is_atomic(const struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		enum kind kind = kind_of(code_of(qemu_plugin_tb_get_insn(tb, i)));

		if (kind == STXR || kind == PREFETCH_TO_WRITE)
			return true;
	}
	return false;
}

/* It is never freed: QEMU does not say when it throws blocks away, which is rare. */
static struct insn *new_insn(uint64_t pc, enum access access)
{
	struct insn *insn = calloc(1, sizeof(*insn));

	if (!insn)
		abort();
	insn->pc = pc;
	insn->access = access;
	return insn;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t nr = qemu_plugin_tb_n_insns(tb), atomics = 0;
	bool atomic = is_atomic(tb);

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		enum kind kind = kind_of(code_of(insn));
		struct insn *data = new_insn(pc, access_of(kind, atomic));

		atomics += kind == LSE || kind == STXR;
		if (cost_actions[kind])
			qemu_plugin_register_vcpu_insn_exec_cb(insn, cost_actions[kind],
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (data->access == ATOMIC && kind != STXR)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, cost_before_atomic,
							       QEMU_PLUGIN_CB_NO_REGS, data);
		if (stalls_is_call_of_lock(pc, code_of(insn)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, stalls_call_lock,
							       QEMU_PLUGIN_CB_NO_REGS, (void *)pc);
		if (pc == toggle_pc)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, toggle,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, cost_access, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, data);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, cost_block, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)(atomics << 32 | nr));
}

/*
 * Start
 */

static bool read_argument(char *argument)
{
	char *value = strchr(argument, '=');

	if (!value)
		return false;
	*value++ = 0;
	if (!strcmp(argument, "toggle")) {
		toggle_pc = strtoull(value, NULL, 16);
		return true;
	}
	if (!strcmp(argument, "locks"))
		return stalls_locks(value);
	if (!strcmp(argument, "memory"))
		return memory_prefix(value);
	if (!strcmp(argument, "out")) {
		out = fopen(value, "w");
		return out;
	}
	return machine_argument(argument, value);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	const char *missing;

	for (int i = 0; i < argc; i++) {
		if (!read_argument(argv[i])) {
			fprintf(stderr, "plugin: what is %s?\n", argv[i]);
			return 1;
		}
	}
	missing = !out ? "out" : !toggle_pc ? "toggle" : machine_missing();
	if (missing) {
		fprintf(stderr, "plugin: needs %s\n", missing);
		return 1;
	}
	if (info->system.max_vcpus != (int)machine.cpus) {
		fprintf(stderr, "plugin: cpus=%lu, but QEMU has %d\n", machine.cpus,
			info->system.max_vcpus);
		return 1;
	}
	if (!lines_init() || !stalls_init()) {
		fprintf(stderr, "plugin: not enough memory\n");
		return 1;
	}
	baton_start();
	qemu_plugin_register_vcpu_idle_cb(id, idle);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
