/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the plugin share: see plugin.c. */
#ifndef SIM_H
#define SIM_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_CPUS	512
#define LINE_SHIFT	6
#define NEVER		UINT64_MAX
#define PS_PER_NS	1000

typedef uint64_t ps_t;		/* picoseconds of simulated time */

/*
 * machine.c: the constants. plugin.c explains the rules that use them.
 */

struct machine {
	uint64_t cpus, threads, llc_cpus, socket_cpus;	/* CPUs in all, a core, an LLC, a socket */
	ps_t insn, smt;			/* an instruction; what it costs more beside a busy sibling */
	ps_t atomic;			/* what an atomic instruction costs more than another one */
	ps_t core_line, llc_line, socket_line, far_line;	/* to fetch a line from there */
	uint64_t queue;			/* more of that, in per mille, for a line that others wait for */
	ps_t first;			/* the first touch of a line */
	ps_t hold;			/* a CPU keeps a line that it fetched for so long */
	ps_t buffer;			/* how far the store buffer may be behind */
	ps_t wake, ipi, irq;		/* a halted CPU starts; to send an interrupt; to take one */
	ps_t relax, events;		/* a turn of a loop that polls; WFE takes no longer than this */
	ps_t quantum, coarse;		/* how far a CPU may be ahead: while simulated, and else */
	uint64_t seed;
};

extern struct machine machine;

bool machine_argument(const char *name, const char *value);
const char *machine_missing(void);

/*
 * baton.c: who runs
 */

struct access_site {
	uint64_t address, pc;
};

struct vcpu {
	ps_t clock;
	ps_t next;		/* another thread wants its turn then */
	ps_t limit;		/* and gets it then, a quantum later */
	ps_t grace;		/* but not before this */
	ps_t drained;		/* the last line that a store needs arrives */
	ps_t woken;		/* a halted CPU goes on then; 0: nobody has woken it */
	uint64_t monitor;	/* the line that LDXR watches, + 1 */
	struct access_site slow;	/* of the store whose line arrives last */
	uint64_t slow_writer;
	struct access_site site;	/* of the last access */
	uint64_t caller, lock;	/* of the last function for locks; 0: it has touched no lock yet */
	uint64_t insns;
	ps_t idle;		/* how long it was halted */
	bool halted;		/* by WFI, or not started yet */
	bool asleep;		/* in WFE */
	bool event;		/* WFE does not wait */
} __attribute__((aligned(128)));

extern struct vcpu vcpus[MAX_CPUS];
extern uint64_t nr_wakes;
extern bool simulated;		/* else only instructions cost time */
extern ps_t begun;		/* the present stretch; written by whoever has the baton */

void baton_start(void);
void baton_halt(unsigned int cpu);
void baton_yield(unsigned int cpu, ps_t until);
void baton_wake_sleeper(unsigned int cpu, ps_t when);
void baton_new_quantum(void);
bool baton_takes_part(void);
bool baton_is_loop(void);
ps_t baton_clock(void);
void baton_wait(pthread_cond_t *cond, pthread_mutex_t *with);
void baton_wake(pthread_cond_t *cond, bool all);
bool baton_poll(struct pollfd *files, nfds_t nr, ps_t timeout);

/* It was halted until @until. */
static inline void add_idle(struct vcpu *vcpu, ps_t until)
{
	ps_t since = vcpu->clock > begun ? vcpu->clock : begun;

	if (until > since)
		vcpu->idle += until - since;
}

static inline bool is_idle(const struct vcpu *vcpu)
{
	return vcpu->halted || vcpu->asleep;
}

/*
 * lines.c: where the cache lines are
 */

enum access {
	READ,
	READ_AND_WATCH,		/* LDXR that no STXR follows */
	WRITE,
	RELEASE,		/* STLR */
	ATOMIC,			/* also LDXR and STXR */
};

struct insn {
	uint64_t pc;
	enum access access;
	bool contended;		/* it had to fetch a line */
};

bool lines_init(void);
void lines_forget(void);
void lines_access(unsigned int cpu, uint64_t line, enum access access, struct insn *insn);
void lines_drain(struct vcpu *vcpu);

extern uint64_t nr_untracked;

/*
 * insns.c: what an instruction does
 */

enum kind {
	ORDINARY,
	LSE,			/* an atomic instruction */
	LDXR,
	STXR,
	STLR,
	BARRIER,		/* that waits for stores */
	YIELD,
	WFE,
	SEVL,
	SEND_IPI,		/* a write to ICC_SGI1R_EL1 */
	TAKE_IRQ,		/* a read of ICC_IAR1_EL1 */
	PREFETCH_TO_WRITE,
};

enum kind kind_of(uint32_t code);
enum access access_of(enum kind kind, bool atomic);

/*
 * stalls.c: who waited for whose write
 */

bool stalls_init(void);
void stalls_forget(void);
bool stalls_locks(const char *range);
bool stalls_is_call_of_lock(uint64_t pc, uint32_t code);
void stalls_call_lock(unsigned int cpu, void *pc);
void stalls_set_site(struct vcpu *vcpu, uint64_t address, uint64_t pc, enum access access);
void stalls_add(struct access_site site, uint64_t writer, unsigned int moves, ps_t time);
void stalls_write(FILE *file);

/*
 * memory.c: what lies at the addresses
 */

bool memory_prefix(const char *path);
void memory_copy(void);

#endif /* SIM_H */
