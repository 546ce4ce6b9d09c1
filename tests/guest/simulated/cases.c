// SPDX-License-Identifier: GPL-2.0
/*
 * What CPUs do to each other, in a few instructions each, without a kernel
 *
 * QEMU puts the number of the case, the number of CPUs and that of turns at PARAMETERS. CPU 0
 * starts the others. All begin a case at the same time. Then each says how long it needed, in ns.
 * test_simulated.py knows the answers.
 */
#include <stdint.h>

#define UART		0x09000000
#define GICD		0x08000000
#define GICR(cpu)	(0x080a0000 + 0x20000 * (cpu))
#define PARAMETERS	0x48000000

struct parameters {
	uint32_t what, cpus, turns;
};

struct line {
	uint64_t word;
} __attribute__((aligned(64)));

#define MAX_CPUS	16

char stacks[MAX_CPUS + 1][4096] __attribute__((aligned(4096)));
static volatile uint64_t begin_at;
static volatile uint32_t waiting;
static struct line a, b, c;
static struct line answers[MAX_CPUS];
static struct line many[256];

void toggle(void);

#define par		((volatile struct parameters *)PARAMETERS)
#define poke(at, value)	(*(volatile uint32_t *)(uintptr_t)(at) = (value))
#define peek(at)	(*(volatile uint32_t *)(uintptr_t)(at))

/*
 * Instructions
 */

static uint64_t now(void)
{
	uint64_t ns;

	asm volatile("isb; mrs %0, cntvct_el0; isb" : "=r" (ns) :: "memory");
	return ns;
}

static void relax(void)
{
	asm volatile("yield" ::: "memory");
}

static void dmb(void)
{
	asm volatile("dmb ish" ::: "memory");
}

static uint64_t add(struct line *line, uint64_t by)
{
	uint64_t old;

	asm volatile("ldadd %2, %0, %1" : "=&r" (old), "+Q" (line->word) : "r" (by));
	return old;
}

static uint64_t add_exclusive(struct line *line)
{
	uint64_t value;
	uint32_t failed;

	asm volatile("1: ldxr %0, %2; add %0, %0, #1; stxr %w1, %0, %2; cbnz %w1, 1b"
		     : "=&r" (value), "=&r" (failed), "+Q" (line->word));
	return value;
}

static uint64_t cas(struct line *line, uint64_t old, uint64_t new)
{
	asm volatile("cas %0, %2, %1" : "+r" (old), "+Q" (line->word) : "r" (new));
	return old;
}

static uint64_t load(struct line *line)
{
	return *(volatile uint64_t *)&line->word;
}

static void store(struct line *line, uint64_t value)
{
	*(volatile uint64_t *)&line->word = value;
}

static void release(struct line *line, uint64_t value)
{
	asm volatile("stlr %1, %0" : "=Q" (line->word) : "r" (value));
}

static void count_to(uint32_t turns)
{
	asm volatile("1: subs %w0, %w0, #1; b.ne 1b" : "+r" (turns));
}

/* As the kernel's smp_cond_load_acquire() does */
static void wait_for(struct line *line, uint64_t value)
{
	while (load(line) != value) {
		uint64_t seen, differs;

		asm volatile("sevl; wfe; ldxr %0, %2; eor %1, %0, %3; cbz %1, 1f; wfe; 1:"
			     : "=&r" (seen), "=&r" (differs) : "Q" (line->word), "r" (value));
	}
}

/*
 * CPUs
 */

static void cpu_on(uint64_t cpu)
{
	extern char _start[];
	register uint64_t x0 asm("x0") = 0xc4000003;
	register uint64_t x1 asm("x1") = cpu;
	register uint64_t x2 asm("x2") = (uintptr_t)_start;
	register uint64_t x3 asm("x3") = 0;

	asm volatile("hvc #0" : "+r" (x0), "+r" (x1), "+r" (x2), "+r" (x3) :: "memory");
}

static void __attribute__((noreturn)) power_off(void)
{
	register uint64_t x0 asm("x0") = 0x84000008;

	asm volatile("hvc #0" : "+r" (x0) :: "memory");
	for (;;)
		;
}

static void enable_interrupts(unsigned int cpu)
{
	poke(GICD, 0x12);
	poke(GICR(cpu) + 0x14, 0);
	while (peek(GICR(cpu) + 0x14) & 4)
		;
	poke(GICR(cpu) + 0x10080, ~0u);
	poke(GICR(cpu) + 0x10100, ~0u);
	asm volatile("msr s3_0_c12_c12_5, %0; isb; msr s3_0_c4_c6_0, %1; msr s3_0_c12_c12_7, %2; isb"
		     :: "r" (7UL), "r" (0xffUL), "r" (1UL));
}

static void interrupt(unsigned int cpu)
{
	asm volatile("msr s3_0_c12_c11_5, %0; isb" :: "r" (1UL << cpu));
}

static void take_interrupt(void)
{
	uint64_t number;

	asm volatile("mrs %0, s3_0_c12_c12_0; msr s3_0_c12_c12_1, %0; isb" : "=r" (number));
}

static void __attribute__((noreturn)) halt(void)
{
	for (;;)
		asm volatile("wfi");
}

/*
 * Cases. Each returns how often it failed.
 */

/* All add to one line, 1 ns after they got it. */
static uint64_t bounce(unsigned int cpu, uint32_t turns)
{
	(void)cpu;
	for (uint32_t i = 0; i < turns; i++) {
		add(&a, 1);
		count_to(500);
	}
	return 0;
}

/* The same, by LDXR and STXR */
static uint64_t bounce_exclusive(unsigned int cpu, uint32_t turns)
{
	(void)cpu;
	for (uint32_t i = 0; i < turns; i++) {
		add_exclusive(&a);
		relax();
	}
	return 0;
}

/* All but CPU 0 take a ticket, wait for their turn, and add to a line. */
static uint64_t lock(unsigned int cpu, uint32_t turns)
{
	(void)turns;
	if (!cpu)
		return 0;
	wait_for(&b, add(&a, 1));
	add(&c, 1);
	release(&b, load(&b) + 1);
	return 0;
}

/* All take a lock by compare-and-swap, now and then, and add to a line. */
static uint64_t spinlock(unsigned int cpu, uint32_t turns)
{
	uint32_t random = cpu;

	for (uint32_t i = 0; i < turns; i++) {
		random = random * 1103515245 + 12345;
		count_to(600 + (random >> 16) % 1300);
		while (cas(&b, 0, 1)) {
			while (load(&b))
				relax();
		}
		add(&c, 1);
		release(&b, 0);
	}
	return 0;
}

/* CPU 0 has written a line, and all others read it. */
static uint64_t readers(unsigned int cpu, uint32_t turns)
{
	(void)turns;
	if (cpu)
		load(&a);
	return 0;
}

/* Two CPUs send each other a number through one line. */
static uint64_t ping(unsigned int cpu, uint32_t turns)
{
	for (uint32_t i = 0; i < turns; i++) {
		wait_for(&a, 2 * i + cpu);
		release(&a, 2 * i + cpu + 1);
	}
	if (!cpu)
		wait_for(&a, 2 * turns);
	return 0;
}

/* The same, but who waits polls. */
static uint64_t poll(unsigned int cpu, uint32_t turns)
{
	for (uint32_t i = 0; i < turns; i++) {
		while (load(&a) != 2 * i + cpu)
			relax();
		release(&a, 2 * i + cpu + 1);
	}
	while (!cpu && load(&a) != 2 * turns)
		relax();
	return 0;
}

/* CPU 1 halts, and CPU 0 wakes it after a while. */
static uint64_t wake(unsigned int cpu, uint32_t turns)
{
	if (cpu) {
		asm volatile("wfi; isb");
		return 0;
	}
	while (turns--)
		relax();
	interrupt(1);
	return 0;
}

/* The same, but CPU 1 takes the interrupt. */
static uint64_t wake_and_take(unsigned int cpu, uint32_t turns)
{
	wake(cpu, turns);
	if (cpu)
		take_interrupt();
	return 0;
}

/* All count. */
static uint64_t count(unsigned int cpu, uint32_t turns)
{
	(void)cpu;
	count_to(turns);
	return 0;
}

/* CPU 0 counts while CPU 1 is halted. */
static uint64_t count_alone(unsigned int cpu, uint32_t turns)
{
	if (cpu) {
		asm volatile("wfi; isb");
		return 0;
	}
	count_to(turns);
	interrupt(1);
	return 0;
}

/* CPU 1 writes what CPU 0 has written. */
static uint64_t write(unsigned int cpu, uint32_t turns)
{
	(void)turns;
	if (cpu)
		store(&a, 1);
	return 0;
}

/* A barrier makes it wait until the line is there. */
static uint64_t write_and_wait(unsigned int cpu, uint32_t turns)
{
	write(cpu, turns);
	dmb();
	return 0;
}

/* The same, but an atomic instruction on another line of CPU 0 follows. */
static uint64_t write_and_add(unsigned int cpu, uint32_t turns)
{
	write(cpu, turns);
	if (cpu)
		add(&b, 1);
	return 0;
}

/* CPU 1 writes what CPU 0 has written, and says so in a line for which CPU 0 waits. */
static uint64_t write_and_release(unsigned int cpu, uint32_t turns)
{
	write(cpu, turns);
	if (cpu)
		release(&b, 1);
	else
		wait_for(&b, 1);
	return 0;
}

/* All look at a number and then add 1 to it, unless it has changed. */
static uint64_t load_and_cas(unsigned int cpu, uint32_t turns)
{
	uint64_t failed = 0;

	(void)cpu;
	for (uint32_t i = 0; i < turns; i++) {
		uint64_t old = load(&a);

		while (cas(&a, old, old + 1) != old) {
			failed++;
			old = load(&a);
		}
		relax();
	}
	return failed;
}

/* CPU 1 adds to three lines. Meanwhile, CPU 2 adds to the last one. */
static uint64_t chain(unsigned int cpu, uint32_t turns)
{
	if (cpu == 1) {
		add(&a, 1);
		count_to(2);
		add(&b, 1);
		count_to(2);
	}
	while (cpu == 2 && turns--)
		relax();
	if (cpu)
		add(&c, 1);
	return 0;
}

static uint64_t touch(unsigned int cpu, uint32_t turns)
{
	(void)cpu;
	for (uint32_t i = 0; i < turns; i++)
		load(&many[i]);
	return 0;
}

/* All add to a line, and flush all TLBs: for that, QEMU stops all other CPUs. */
static uint64_t flush(unsigned int cpu, uint32_t turns)
{
	(void)cpu;
	for (uint32_t i = 0; i < turns; i++) {
		add(&a, 1);
		asm volatile("tlbi vmalle1is; dsb ish; isb" ::: "memory");
	}
	return 0;
}

static uint64_t (*const cases[])(unsigned int cpu, uint32_t turns) = {
	bounce, bounce_exclusive, lock, readers, ping, poll, wake, wake_and_take, count,
	count_alone, write, write_and_wait, write_and_add, write_and_release, load_and_cas, touch, flush,
	spinlock, chain,
};

/*
 * All together
 */

static void say(uint64_t number, char end)
{
	char digits[24];
	int n = 0;

	do
		digits[n++] = '0' + number % 10;
	while (number /= 10);
	while (n--)
		poke(UART, digits[n]);
	poke(UART, end);
}

/* All go on when all are here, at one time. What they wrote meanwhile has arrived. */
static void meet(unsigned int cpu, uint32_t cpus)
{
	uint64_t begin;

	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
	while (waiting < cpus)
		relax();
	if (!cpu)
		begin_at = now() + 5000;
	while (!begin_at)
		relax();
	begin = begin_at;
	while (now() < begin)
		relax();
	dmb();
}

void main(unsigned int cpu)
{
	uint64_t (*run)(unsigned int cpu, uint32_t turns) = cases[par->what];
	uint32_t turns = par->turns, cpus = par->cpus;
	uint64_t begin, failed, end;

	enable_interrupts(cpu);
	for (unsigned int other = 1; !cpu && other < cpus; other++)
		cpu_on(other);
	if (!cpu) {
		while (waiting < cpus - 1)
			relax();
		toggle();
		add(&a, 0);
		add(&b, 0);
		add(&c, 0);
	}
	meet(cpu, cpus);
	begin = now();
	failed = run(cpu, turns);
	end = now();
	answers[cpu].word = (end - begin) << 16 | failed;
	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
	if (cpu)
		halt();
	while (waiting < 2 * cpus)
		relax();
	toggle();
	for (unsigned int one = 0; one < cpus; one++) {
		say(answers[one].word >> 16, ' ');
		say(answers[one].word & 0xffff, '\n');
	}
	power_off();
}
