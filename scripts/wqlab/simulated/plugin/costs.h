/* SPDX-License-Identifier: GPL-2.0 */
/* What QEMU calls when a vCPU executes instructions */
#ifndef COSTS_H
#define COSTS_H

#include "qemu_plugin.h"

extern const qemu_plugin_insn_cb cost_actions[];	/* by enum kind */
extern uint64_t nr_ipis;

void cost_block(unsigned int cpu, void *data);
void cost_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *insn);
void cost_before_atomic(unsigned int cpu, void *insn);

#endif /* COSTS_H */
