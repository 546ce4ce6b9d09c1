// SPDX-License-Identifier: GPL-2.0
/* What instructions cost: QEMU calls these functions when a vCPU executes them. */
#include <stddef.h>

#include "costs.h"
#include "sim.h"

#define KERNEL		(1ULL << 63)

uint64_t nr_ipis;

/* The rule of siblings: an instruction takes longer while the other thread of the core runs. */
static ps_t insn_cost(unsigned int cpu)
{
	unsigned int first = cpu / machine.threads * machine.threads;

	for (unsigned int other = first; other < first + machine.threads; other++) {
		if (other != cpu && !is_idle(&vcpus[other]))
			return machine.insn + machine.smt;
	}
	return machine.insn;
}

/* A block of instructions begins. */
void cost_block(unsigned int cpu, void *data)
{
	uint64_t insns = (uint32_t)(uintptr_t)data, atomics = (uintptr_t)data >> 32;
	struct vcpu *vcpu = &vcpus[cpu];

	if (vcpu->halted) {
		vcpu->halted = false;
		add_idle(vcpu, vcpu->woken);
		if (vcpu->woken > vcpu->clock)
			vcpu->clock = vcpu->woken;
		nr_wakes++;
	}
	vcpu->insns += insns;
	if (simulated)
		vcpu->clock += insns * insn_cost(cpu) + atomics * machine.atomic;
	else
		vcpu->clock += insns * machine.insn;
	if (vcpu->clock >= vcpu->limit && vcpu->clock >= vcpu->grace)
		baton_yield(cpu, vcpu->clock);
}

void cost_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct insn *insn = data;
	enum access access = insn->access;

	if (!simulated)
		return;
	if (!(vaddr & KERNEL)) {
		struct qemu_plugin_hwaddr *hwaddr = qemu_plugin_get_hwaddr(info, vaddr);

		if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
			return;
		vaddr = qemu_plugin_hwaddr_phys_addr(hwaddr);
	}
	if (access == READ && qemu_plugin_mem_is_store(info))
		access = WRITE;
	stalls_set_site(&vcpus[cpu], vaddr, insn->pc, access);
	lines_access(cpu, vaddr >> LINE_SHIFT, access, insn);
}

/*
 * The rule of order: an atomic instruction whose line others want, too, is executed after those of
 * CPUs that are behind. Else it would take a lock that is another one's turn.
 */
void cost_before_atomic(unsigned int cpu, void *data)
{
	const struct vcpu *vcpu = &vcpus[cpu];
	const struct insn *insn = data;

	if (simulated && insn->contended && vcpu->clock > vcpu->next && vcpu->clock >= vcpu->grace)
		baton_yield(cpu, vcpu->clock);
}

static void barrier(unsigned int cpu, void *data)
{
	(void)data;
	if (simulated)
		lines_drain(&vcpus[cpu]);
}

/* A loop that polls makes a turn. What it waits for may happen before the next one. */
static void yield(unsigned int cpu, void *data)
{
	(void)data;
	vcpus[cpu].clock += simulated ? machine.relax : machine.coarse / 50;
	vcpus[cpu].limit = 0;
}

static void sevl(unsigned int cpu, void *data)
{
	(void)data;
	vcpus[cpu].event = true;
}

/* The rule of WFE: a CPU sleeps until what LDXR watches is written, or an interrupt comes. */
static void wfe(unsigned int cpu, void *data)
{
	struct vcpu *vcpu = &vcpus[cpu];

	(void)data;
	if (vcpu->event) {
		vcpu->event = false;
	} else if (!simulated) {
		yield(cpu, NULL);
	} else {
		vcpu->asleep = true;
		baton_yield(cpu, vcpu->clock + machine.events);
		vcpu->asleep = false;
		vcpu->event = false;
	}
}

static void send_ipi(unsigned int cpu, void *data)
{
	(void)data;
	if (!simulated)
		return;
	vcpus[cpu].clock += machine.ipi;
	nr_ipis++;
}

static void take_irq(unsigned int cpu, void *data)
{
	(void)data;
	if (simulated)
		vcpus[cpu].clock += machine.irq;
}

const qemu_plugin_insn_cb cost_actions[] = {
	[BARRIER] = barrier, [YIELD] = yield, [WFE] = wfe, [SEVL] = sevl, [SEND_IPI] = send_ipi,
	[TAKE_IRQ] = take_irq,
	[PREFETCH_TO_WRITE] = NULL,	/* the last kind */
};
