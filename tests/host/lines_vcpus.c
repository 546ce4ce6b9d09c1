// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for QEMU: drives scripts/wqlab/bench/lines/plugin.c from a script.
 *
 *   lines_vcpus CPUS ARGUMENT... <SCRIPT
 *
 * ARGUMENTs are those of the plugin. Rows of the script: "queue CPU", "switch CPU", "item CPU",
 * "other CPU" (a function of a module that is no item), "read CPU ADDRESS SIZE",
 * "write CPU ADDRESS SIZE", "device CPU ADDRESS SIZE".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_plugin.h"

#define DIRECT_MAP	0xffff888000000000ULL

struct qemu_plugin_insn {
	uint64_t pc;
	qemu_plugin_insn_cb mark;
	void *mark_data;
	qemu_plugin_mem_cb mem;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn insn[1];
};

struct qemu_plugin_hwaddr {
	uint64_t address;
	bool io;
};

extern int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static qemu_plugin_tb_cb translated;
static struct qemu_plugin_hwaddr hwaddr;
static bool store;
static unsigned int size_shift;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_cb cb)
{
	(void)id;
	translated = cb;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_insn_cb cb,
					    enum qemu_plugin_cb_flags flags, void *data)
{
	(void)flags;
	insn->mark = cb;
	insn->mark_data = data;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_cb cb,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
				      void *data)
{
	(void)flags;
	(void)rw;
	(void)data;
	insn->mem = cb;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return 1;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t number)
{
	return (struct qemu_plugin_insn *)&tb->insn[number];
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->pc;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	(void)info;
	return store;
}

unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
	(void)info;
	return size_shift;
}

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
	(void)info;
	hwaddr.address = vaddr - DIRECT_MAP;
	return &hwaddr;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address)
{
	return address->io;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address)
{
	return address->address;
}

/* An instruction at this address is translated and executed. */
static void execute(unsigned int cpu, uint64_t pc)
{
	struct qemu_plugin_tb tb = { .insn = { { .pc = pc } } };

	translated(0, &tb);
	if (tb.insn[0].mark)
		tb.insn[0].mark(cpu, tb.insn[0].mark_data);
}

static void access(const char *how, unsigned int cpu, uint64_t vaddr, unsigned int size)
{
	struct qemu_plugin_tb tb = { .insn = { { .pc = DIRECT_MAP } } };

	translated(0, &tb);
	hwaddr.io = !strcmp(how, "device");
	store = strcmp(how, "read");
	size_shift = __builtin_ctz(size);
	tb.insn[0].mem(cpu, 0, vaddr, NULL);
}

int main(int argc, char **argv)
{
	static const char * const marks[] = { "queue", "switch", "item", "other" };
	qemu_info_t info = { .system_emulation = true, .system.max_vcpus = atoi(argv[1]) };
	unsigned long long address;
	unsigned int cpu, size;
	char how[16];

	if (qemu_plugin_install(0, &info, argc - 2, argv + 2))
		return 1;
	while (scanf("%15s %u", how, &cpu) == 2) {
		bool marked = false;

		for (unsigned int i = 0; i < 4; i++) {
			/* tests/host/test_lines.py knows these addresses. */
			if (strcmp(how, marks[i]))
				continue;
			execute(cpu, i < 2 ? 0xffffffff81000000ULL + i : 0xffffffffa0000000ULL + i);
			marked = true;
		}
		if (!marked && scanf("%llx %u", &address, &size) == 2)
			access(how, cpu, address, size);
	}
	return 0;
}
