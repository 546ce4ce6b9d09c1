// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin for QEMU: which vCPU visits which cache line of kernel memory, and does it write?
 *
 *   qemu-system-x86_64 ... -plugin plugin.so,control=FILE,out=FILE,queue=ADDR,switch=ADDR
 *
 * plugin.py compiles it, and gives the orders. count.py explains what is counted, and makes
 * figures of it.
 *
 * A visit is a stretch of a vCPU's instructions. A new one begins when an item is queued (queue=:
 * queue_work_on), when the function of an item begins (control->item), and when the vCPU switches
 * to another task (switch=: __switch_to). However often a line is read in a visit, that counts
 * once. The same holds for each word of the line. The number of visits does not depend on what
 * other vCPUs do meanwhile.
 *
 * How often a line moved is counted as well, as if caches were infinite. That depends on how the
 * vCPUs take turns. Updates of these counters race, so a few moves may be missed.
 *
 * Each vCPU has a table of its own, of a fixed size. So no lock is needed, and a vCPU that is
 * inside mem() while another one writes the report can do no harm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>

#include "qemu_plugin.h"

#define MAX_CPUS	64
#define LINE_SHIFT	6
#define WORD		4		/* bytes; a field may be as small */
#define WORDS		16		/* in a line */
#define NR_LINES	(1UL << 28)	/* 16 GiB of guest memory */
#define TABLE_BITS	18
#define TABLE_SIZE	(1UL << TABLE_BITS)
#define MODULES		0xffffffffa0000000ULL	/* above all code of the kernel itself */
#define KERNEL		(1ULL << 63)
#define DONE_US		20000		/* delays the guest while the host fetches the result */
#define AHEAD		16		/* items that a submitter may be ahead of the slowest one */
#define AHEAD_US	500		/* delays it */

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* plugin.py knows this layout. */
enum state {
	IDLE,		/* set by the host */
	ARMED,		/* set by the host: count when all submitters are warm */
	COUNTING,	/* set by the plugin */
	DONE,		/* set by the plugin: the report is written */
	FAILED,		/* set by the plugin */
};

struct control {
	uint32_t state;
	uint32_t submitters;		/* vCPUs that queue items */
	uint64_t warmup;		/* counting begins when each of them has queued so many */
	uint64_t count;			/* and ends when one has queued so many more */
	uint64_t item;			/* address of the function of an item */
	uint64_t items;			/* queued while it counted */
	uint64_t ran;			/* whose function began meanwhile */
	uint64_t full;			/* lines that had no room in a table */
	uint64_t queued[MAX_CPUS];	/* since ARMED */
};

/* a line of the guest's memory */
struct line {
	uint64_t vaddr;		/* that the last vCPU used */
	uint64_t writers;	/* vCPUs */
	uint64_t touched_by;
	uint64_t sharers;	/* vCPUs that have it, if caches were infinite */
	uint64_t moves;
};

/* what one vCPU did with a line */
struct entry {
	uint64_t key;		/* number of the line + 1; 0: free */
	uint32_t visit;		/* the last one */
	uint16_t touched;	/* words, in this visit */
	uint16_t written;
	uint32_t reads;		/* visits that only read */
	uint32_t writes;	/* other visits */
	uint32_t word_reads[WORDS];
	uint32_t word_writes[WORDS];
};

struct vcpu {
	struct entry *table;
	uint32_t visit;
} __attribute__((aligned(128)));

static struct control *control;
static struct line *lines;
static struct vcpu vcpus[MAX_CPUS];
static uint64_t queue_pc, switch_pc;
static const char *out_path;
static uint64_t start[MAX_CPUS];	/* control->queued when counting began */
static bool counting;

static void *reserve(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/*
 * Accesses
 */

static struct entry *find(struct vcpu *vcpu, uint64_t line)
{
	uint64_t slot = line * 0x9e3779b97f4a7c15ULL >> (64 - TABLE_BITS);

	for (int tries = 0; tries < 64; tries++, slot++) {
		struct entry *entry = &vcpu->table[slot % TABLE_SIZE];

		if (entry->key == line + 1)
			return entry;
		if (!entry->key) {
			entry->key = line + 1;
			return entry;
		}
	}
	__atomic_fetch_add(&control->full, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The visit has ended: count it. */
static void end_visit(struct entry *entry)
{
	if (entry->written)
		entry->writes++;
	else if (entry->touched)
		entry->reads++;
	for (int word = 0; word < WORDS; word++) {
		if (entry->written >> word & 1)
			entry->word_writes[word]++;
		else if (entry->touched >> word & 1)
			entry->word_reads[word]++;
	}
	entry->touched = 0;
	entry->written = 0;
}

static void note_visit(struct vcpu *vcpu, uint64_t number, uint16_t words, bool store)
{
	struct entry *entry = find(vcpu, number);

	if (!entry)
		return;
	if (entry->visit != vcpu->visit) {
		end_visit(entry);
		entry->visit = vcpu->visit;
	}
	entry->touched |= words;
	if (store)
		entry->written |= words;
}

static void note_line(struct line *line, unsigned int cpu, uint64_t vaddr, bool store)
{
	uint64_t bit = 1ULL << cpu;

	line->vaddr = vaddr & ~((1ULL << LINE_SHIFT) - 1);
	if (!(line->touched_by & bit))
		__atomic_fetch_or(&line->touched_by, bit, __ATOMIC_RELAXED);
	if (store && !(line->writers & bit))
		__atomic_fetch_or(&line->writers, bit, __ATOMIC_RELAXED);
	if (store && line->sharers != bit) {
		line->moves++;
		line->sharers = bit;
	} else if (!store && !(line->sharers & bit)) {
		line->moves++;
		line->sharers |= bit;
	}
}

static void note(unsigned int cpu, uint64_t paddr, uint64_t vaddr, unsigned int size, bool store)
{
	uint64_t number = paddr >> LINE_SHIFT;
	unsigned int first = paddr / WORD % WORDS;
	unsigned int last = first + (paddr % WORD + size - 1) / WORD;
	uint16_t words = ((2U << last) - 1) & ~((1U << first) - 1);

	if (number >= NR_LINES) {
		__atomic_fetch_add(&control->full, 1, __ATOMIC_RELAXED);
		return;
	}
	note_visit(&vcpus[cpu], number, words, store);
	note_line(&lines[number], cpu, vaddr, store);
}

static void mem(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	unsigned int size, here;
	struct qemu_plugin_hwaddr *hwaddr;
	uint64_t paddr;
	bool store;

	(void)data;
	if (!__atomic_load_n(&counting, __ATOMIC_RELAXED) || !(vaddr & KERNEL))
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	paddr = qemu_plugin_hwaddr_phys_addr(hwaddr);
	store = qemu_plugin_mem_is_store(info);
	size = 1U << qemu_plugin_mem_size_shift(info);
	here = (1U << LINE_SHIFT) - paddr % (1U << LINE_SHIFT);
	if (size <= here) {
		note(cpu, paddr, vaddr, size, store);
		return;
	}
	note(cpu, paddr, vaddr, here, store);
	/* The next page may be anywhere. */
	if ((vaddr + here) % 4096)
		note(cpu, paddr + here, vaddr + here, size - here, store);
}

/*
 * The report: for each line that more than one vCPU touched and any wrote, and each of these
 * vCPUs, the visits that only read the line or its words, and those that wrote
 */

static void write_entry(FILE *file, unsigned int cpu, const struct entry *entry)
{
	fprintf(file, "cpu %u %u %u", cpu, entry->reads, entry->writes);
	for (int word = 0; word < WORDS; word++)
		fprintf(file, " %u %u", entry->word_reads[word], entry->word_writes[word]);
	fputc('\n', file);
}

static void write_line(FILE *file, const struct line *line, uint64_t number)
{
	fprintf(file, "line %llx %llu\n", (unsigned long long)line->vaddr,
		(unsigned long long)line->moves);
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		struct entry *entry;

		if (!(line->touched_by >> cpu & 1))
			continue;
		entry = find(&vcpus[cpu], number);
		if (!entry)
			continue;
		end_visit(entry);
		write_entry(file, cpu, entry);
	}
}

static bool is_shared(const struct line *line)
{
	return line->writers && (line->touched_by & (line->touched_by - 1));
}

/* A vCPU that touched a line has it in its table. A line is written with its first toucher. */
static void write_lines(FILE *file)
{
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		for (uint64_t slot = 0; vcpus[cpu].table && slot < TABLE_SIZE; slot++) {
			uint64_t key = vcpus[cpu].table[slot].key;
			const struct line *line = &lines[key - 1];

			if (key && is_shared(line) && __builtin_ctzll(line->touched_by) == (int)cpu)
				write_line(file, line, key - 1);
		}
	}
}

static bool write_report(void)
{
	FILE *file = fopen(out_path, "w");
	bool bad;

	if (!file)
		return false;
	write_lines(file);
	fputs("end\n", file);
	bad = ferror(file);
	return !fclose(file) && !bad;
}

/*
 * Begin and end
 */

static void forget(void)
{
	madvise(lines, NR_LINES * sizeof(*lines), MADV_DONTNEED);
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (vcpus[cpu].table)
			madvise(vcpus[cpu].table, TABLE_SIZE * sizeof(struct entry), MADV_DONTNEED);
	}
}

static bool all_warm(void)
{
	unsigned int warm = 0;

	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		warm += __atomic_load_n(&control->queued[cpu], __ATOMIC_RELAXED) >= control->warmup;
	return warm >= control->submitters;
}

/* Returns true for the one vCPU that makes this change of the state. */
static bool advance(uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&control->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static void begin_if_warm(void)
{
	if (!all_warm() || !advance(ARMED, COUNTING))
		return;
	forget();
	memcpy(start, control->queued, sizeof(start));
	control->items = 0;
	control->ran = 0;
	control->full = 0;
	__atomic_store_n(&counting, true, __ATOMIC_SEQ_CST);
}

static void end(void)
{
	if (!__atomic_exchange_n(&counting, false, __ATOMIC_SEQ_CST))
		return;
	advance(COUNTING, write_report() ? DONE : FAILED);
}

/*
 * On a few cores, an emulated CPU may be far ahead when others get their turn, and would have
 * no items left while those are counted. So it is slowed down. CPUs with less than half as many
 * items are not among the submitters: other code has queued something there.
 */
static void wait_for_others(uint64_t nr)
{
	uint64_t least = nr;

	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		uint64_t other = __atomic_load_n(&control->queued[cpu], __ATOMIC_RELAXED);

		if (other > nr / 2 && other < least)
			least = other;
	}
	if (nr > least + AHEAD)
		usleep(AHEAD_US);
}

static void item_is_queued(unsigned int cpu)
{
	uint32_t state = __atomic_load_n(&control->state, __ATOMIC_ACQUIRE);
	uint64_t nr;

	if (state == DONE)
		usleep(DONE_US);
	if (state != ARMED && state != COUNTING)
		return;
	nr = __atomic_add_fetch(&control->queued[cpu], 1, __ATOMIC_RELAXED);
	if (state == ARMED) {
		begin_if_warm();
	} else if (__atomic_load_n(&counting, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&control->items, 1, __ATOMIC_RELAXED);
		if (nr - start[cpu] >= control->count)
			end();
	}
	wait_for_others(nr);
}

/*
 * Instructions
 */

static void at_switch(unsigned int cpu, void *data)
{
	(void)data;
	vcpus[cpu].visit++;
}

static void at_queue(unsigned int cpu, void *data)
{
	(void)data;
	vcpus[cpu].visit++;
	item_is_queued(cpu);
}

/* Modules are loaded later, so the address of an item's function is not known yet. */
static void in_module(unsigned int cpu, void *data)
{
	if ((uint64_t)data != control->item)
		return;
	vcpus[cpu].visit++;
	if (__atomic_load_n(&counting, __ATOMIC_RELAXED))
		__atomic_fetch_add(&control->ran, 1, __ATOMIC_RELAXED);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		qemu_plugin_insn_cb mark = NULL;

		if (!(pc & KERNEL))
			continue;
		if (pc == queue_pc)
			mark = at_queue;
		else if (pc == switch_pc)
			mark = at_switch;
		else if (pc >= MODULES && !i)	/* a function is called by address */
			mark = in_module;
		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)pc);
		qemu_plugin_register_vcpu_mem_cb(insn, mem, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, NULL);
	}
}

/*
 * Start
 */

static struct control *map_control(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory;

	if (fd < 0)
		return NULL;
	memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

static bool read_argument(const char *argument)
{
	const char *value = strchr(argument, '=');

	if (!value++)
		return false;
	if (!strncmp(argument, "control=", value - argument))
		control = map_control(value);
	else if (!strncmp(argument, "out=", value - argument))
		out_path = strdup(value);
	else if (!strncmp(argument, "queue=", value - argument))
		queue_pc = strtoull(value, NULL, 16);
	else if (!strncmp(argument, "switch=", value - argument))
		switch_pc = strtoull(value, NULL, 16);
	else
		return false;
	return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!read_argument(argv[i])) {
			fprintf(stderr, "plugin: what is %s?\n", argv[i]);
			return 1;
		}
	}
	if (!control || !out_path || !queue_pc || !switch_pc ||
	    info->system.max_vcpus > MAX_CPUS) {
		fprintf(stderr, "plugin: needs control=, out=, queue=, switch=, up to %d CPUs\n",
			MAX_CPUS);
		return 1;
	}

	lines = reserve(NR_LINES * sizeof(*lines));
	for (int cpu = 0; lines && cpu < info->system.max_vcpus; cpu++) {
		vcpus[cpu].table = reserve(TABLE_SIZE * sizeof(struct entry));
		if (!vcpus[cpu].table)
			lines = NULL;
	}
	if (!lines) {
		fprintf(stderr, "plugin: not enough address space\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
