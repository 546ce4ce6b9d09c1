// SPDX-License-Identifier: GPL-2.0
/*
 * Who runs: one thread of QEMU at a time, the one whose clock is behind all others
 *
 * Each vCPU has a thread in QEMU, and so have QEMU's devices and timers (the main loop). The
 * thread that has the baton runs. It gives the baton away
 *
 *  - when its clock is more than a quantum ahead of the next one: baton_yield();
 *  - when it waits: for a condition variable, as a halted vCPU does, and one that wants to be
 *    alone (an "exclusive section" of QEMU); or for a file or a timer, as the main loop does.
 *
 * So nothing depends on how the host schedules threads, and two runs are the same to the bit. The
 * functions of libc in which QEMU waits come here: see libc.c. Threads of QEMU that do not take
 * part (RCU) use the functions of libc. They may wake a vCPU, but it finds nothing to do, and its
 * clock does not move.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

#define LOOP		0			/* the main loop's seat. That of vCPU n is n + 1 */
#define NR_SEATS	(machine.cpus + 1)
#define NOBODY		(-1)
#define START		1000000000000000ULL	/* the clocks begin here, at 1000 s */

struct seat {
	uint32_t turn;			/* futex: 1 if it may go on */
	pthread_cond_t *cond;		/* that it waits for */
	pthread_cond_t *halt_cond;	/* that a halted vCPU waits for */
};

struct vcpu vcpus[MAX_CPUS];
uint64_t nr_wakes;
bool simulated;

static struct seat seats[MAX_CPUS + 1];
static ps_t ready[MAX_CPUS + 1];	/* when a seat goes on; NEVER: it waits for another one */
static int holder = LOOP;
static __thread int me = NOBODY;
/*
 * Protects the seats, ready[] and holder. The fields of vCPUs belong to whoever has the baton. A
 * vCPU that takes its seat for the first time has not got it yet, and clears its own `woken`.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* of the main loop */
static ps_t loop_clock = START;
static struct pollfd *loop_files;	/* that it waits for; NULL: it does not */
static nfds_t nr_loop_files;

static ps_t now = START;		/* all clocks have reached this */

/*
 * Handing over
 */

static ps_t quantum(void)
{
	return simulated ? machine.quantum : machine.coarse;
}

static ps_t *clock_of(int seat)
{
	return seat == LOOP ? &loop_clock : &vcpus[seat - 1].clock;
}

/*
 * Somebody else wants a turn at that time. A thread that takes no part does not say so: the running
 * vCPU reads these fields without the mutex, and its turn would end at any time.
 */
static void shorten_turn(ps_t when)
{
	struct vcpu *vcpu = &vcpus[holder - 1];

	if (holder <= LOOP || me == NOBODY)
		return;
	if (when < vcpu->next)
		vcpu->next = when;
	if (when + quantum() < vcpu->limit)
		vcpu->limit = when + quantum();
}

/* The seat that is behind all others. With equal clocks, the order is fixed. */
static int find_first(ps_t *second)
{
	ps_t first = NEVER;
	int found = NOBODY;

	*second = NEVER;
	for (int i = LOOP; i < (int)NR_SEATS; i++) {
		if (ready[i] < first) {
			*second = first;
			first = ready[i];
			found = i;
		} else if (ready[i] < *second) {
			*second = ready[i];
		}
	}
	return found;
}

/* Has a vCPU changed a timer, or has the world something to say to the main loop? */
static bool are_files_ready(void)
{
	static const struct timespec no_time;

	return loop_files && ready[LOOP] > now &&
	       syscall(SYS_ppoll, loop_files, nr_loop_files, &no_time, NULL, 0) > 0;
}

/* Who is next, and for how long? If all are halted and no timer runs, only the world can go on. */
static int choose(void)
{
	ps_t second;
	int next = find_first(&second);

	if (next != NOBODY && ready[next] > now)
		now = ready[next];
	if (are_files_ready()) {
		ready[LOOP] = now;
		next = find_first(&second);
	}
	if (next == NOBODY && loop_files)
		next = LOOP;
	if (next > LOOP) {
		ps_t most = ready[next] + quantum();

		vcpus[next - 1].next = second;
		vcpus[next - 1].limit = second < most ? second + quantum() : most;
	}
	return next;
}

/* Pass the baton on, and drop the mutex first: the next thread may run at once, and need it soon. */
static void pass_on_and_unlock(void)
{
	uint32_t *turn = NULL;

	holder = choose();
	if (holder != NOBODY) {
		turn = &seats[holder].turn;
		__atomic_store_n(turn, 1, __ATOMIC_RELEASE);
	}
	if (holder == me)
		turn = NULL;
	pthread_mutex_unlock(&mutex);
	if (turn)
		syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A thread may have passed the baton on to itself. */
static void wait_for_turn(void)
{
	uint32_t *turn = &seats[me].turn;

	while (!__atomic_load_n(turn, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	*turn = 0;
}

/* The calling vCPU's clock goes on at `until`, after those that are behind it. */
void baton_yield(unsigned int cpu, ps_t until)
{
	struct vcpu *vcpu = &vcpus[cpu];

	pthread_mutex_lock(&mutex);
	ready[me] = until;
	pass_on_and_unlock();
	wait_for_turn();
	if (ready[me] > vcpu->clock)
		vcpu->clock = ready[me];
}

/* A vCPU in WFE goes on: what it watches was written, or there is an interrupt. */
static void wake_sleeper(unsigned int cpu, ps_t when)
{
	struct vcpu *vcpu = &vcpus[cpu];

	if (!vcpu->asleep)
		return;
	if (when < vcpu->clock)
		when = vcpu->clock;
	if (when < ready[cpu + 1])
		ready[cpu + 1] = when;
	shorten_turn(when);
}

void baton_wake_sleeper(unsigned int cpu, ps_t when)
{
	pthread_mutex_lock(&mutex);
	wake_sleeper(cpu, when);
	pthread_mutex_unlock(&mutex);
}

/*
 * Taking part
 */

/* The calling thread is the main loop. It has had the baton since the program began. */
void baton_start(void)
{
	for (unsigned int i = 0; i <= MAX_CPUS; i++)
		ready[i] = NEVER;
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		vcpus[cpu].clock = START;
		vcpus[cpu].halted = true;
	}
	me = LOOP;
}

/* The calling thread is that of a vCPU which halts, as each does before it starts. */
void baton_halt(unsigned int cpu)
{
	me = cpu + 1;
	vcpus[cpu].halted = true;
}

/* After `simulated` has changed */
void baton_new_quantum(void)
{
	pthread_mutex_lock(&mutex);
	shorten_turn(now);
	pthread_mutex_unlock(&mutex);
}

/*
 * Waiting
 */

bool baton_takes_part(void)
{
	return me != NOBODY;
}

bool baton_is_loop(void)
{
	return me == LOOP;
}

ps_t baton_clock(void)
{
	return me == NOBODY ? now : *clock_of(me);
}

/* As pthread_cond_wait() does, but the baton goes on */
void baton_wait(pthread_cond_t *cond, pthread_mutex_t *with)
{
	struct seat *seat = &seats[me];

	pthread_mutex_lock(&mutex);
	seat->cond = cond;
	ready[me] = NEVER;
	if (me > LOOP && vcpus[me - 1].halted) {
		seat->halt_cond = cond;
		vcpus[me - 1].woken = 0;
	}
	pthread_mutex_unlock(with);
	if (holder == me)
		pass_on_and_unlock();
	else
		pthread_mutex_unlock(&mutex);
	wait_for_turn();
	pthread_mutex_lock(with);
}

/*
 * The rule of wake-ups: a halted CPU needs time to start, from the first one who wakes it. If it
 * finds nothing to do, it halts again, and its clock stays where it was.
 */
static void wake_cpu(struct vcpu *vcpu, ps_t when)
{
	if (!vcpu->halted || vcpu->woken)
		return;
	vcpu->woken = when > vcpu->clock ? when : vcpu->clock;
	if (simulated)
		vcpu->woken += machine.wake;
}

static void wake_waiter(int seat)
{
	seats[seat].cond = NULL;
	ready[seat] = *clock_of(seat);
	if (seat > LOOP && vcpus[seat - 1].woken > ready[seat])
		ready[seat] = vcpus[seat - 1].woken;
	shorten_turn(ready[seat]);
}

/* A thread that takes no part may come at any time. What it does must not move a vCPU's clock. */
void baton_wake(pthread_cond_t *cond, bool all)
{
	pthread_mutex_lock(&mutex);
	for (int i = LOOP; i < (int)NR_SEATS; i++) {
		if (me != NOBODY && i > LOOP && seats[i].halt_cond == cond) {
			wake_cpu(&vcpus[i - 1], *clock_of(me));
			wake_sleeper(i - 1, *clock_of(me));
		}
		if (seats[i].cond != cond)
			continue;
		wake_waiter(i);
		if (!all)
			break;
	}
	if (holder == NOBODY)
		pass_on_and_unlock();
	else
		pthread_mutex_unlock(&mutex);
}

/* The main loop waits for files and its next timer. Returns false if it has to do so itself. */
bool baton_poll(struct pollfd *files, nfds_t nr, ps_t timeout)
{
	pthread_mutex_lock(&mutex);
	loop_files = files;
	nr_loop_files = nr;
	ready[LOOP] = timeout == NEVER ? NEVER : loop_clock + timeout;
	pass_on_and_unlock();
	wait_for_turn();
	loop_files = NULL;
	if (loop_clock < now)
		loop_clock = now;
	return ready[LOOP] != NEVER;
}
