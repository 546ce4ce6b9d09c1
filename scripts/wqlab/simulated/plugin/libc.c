// SPDX-License-Identifier: GPL-2.0
/*
 * The functions of libc in which QEMU waits, and its clock
 *
 * The plugin is preloaded, too: so QEMU finds these first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

#define EXPORT		__attribute__((visibility("default")))
#define NS_PER_S	1000000000ULL

static int (*real_wait)(pthread_cond_t *cond, pthread_mutex_t *with);
static int (*real_signal)(pthread_cond_t *cond);
static int (*real_broadcast)(pthread_cond_t *cond);

/* Without the version, these would be the functions for programs of before glibc 2.3.2. */
__attribute__((constructor)) static void find_real_functions(void)
{
	real_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_signal = dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
	real_broadcast = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *with)
{
	if (!baton_takes_part())
		return real_wait(cond, with);
	baton_wait(cond, with);
	return 0;
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	baton_wake(cond, false);
	return real_signal(cond);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	baton_wake(cond, true);
	return real_broadcast(cond);
}

static ps_t ps_of(const struct timespec *time)
{
	return (time->tv_sec * NS_PER_S + time->tv_nsec) * PS_PER_NS;
}

EXPORT int ppoll(struct pollfd *files, nfds_t nr, const struct timespec *timeout,
		 const sigset_t *signals)
{
	static const struct timespec no_time;

	if (baton_is_loop())
		timeout = baton_poll(files, nr, timeout ? ps_of(timeout) : NEVER) ? &no_time : NULL;
	return syscall(SYS_ppoll, files, nr, timeout, signals, _NSIG / 8);
}

/* What a QEMU that was compiled with _FORTIFY_SOURCE calls */
EXPORT int __ppoll_chk(struct pollfd *files, nfds_t nr, const struct timespec *timeout,
		       const sigset_t *signals, size_t size)
{
	(void)size;
	return ppoll(files, nr, timeout, signals);
}

/* The guest's counter is read from this clock, and QEMU's timers fire by it. */
EXPORT int clock_gettime(clockid_t id, struct timespec *time)
{
	uint64_t ns = baton_clock() / PS_PER_NS;

	if (id != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, id, time);
	time->tv_sec = ns / NS_PER_S;
	time->tv_nsec = ns % NS_PER_S;
	return 0;
}
