// SPDX-License-Identifier: GPL-2.0
/*
 * A copy of the guest's memory when a stretch ends, so that its addresses can be named later
 *
 * The guest must not wait for whoever does this, since what happens on the host must not have an
 * influence on it. Its memory consists of files (memory-backend-memfd), one for each node.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "sim.h"

#define MOST_FILES	1024
#define HEAD		(1 << 20)	/* room for the header of an ELF core */

static const char *prefix;
static unsigned int nr_copies;

bool memory_prefix(const char *path)
{
	prefix = strdup(path);
	return prefix;
}

/* Pages that the guest has not touched stay holes. */
static bool copy_pages(int from, int to, off_t at)
{
	off_t hole = 0;

	for (;;) {
		off_t data = lseek(from, hole, SEEK_DATA);

		if (data < 0)
			return true;
		hole = lseek(from, data, SEEK_HOLE);
		if (lseek(to, at + data, SEEK_SET) < 0)
			return false;
		while (data < hole) {
			if (sendfile(to, from, &data, hole - data) <= 0)
				return false;
		}
	}
}

/* QEMU has opened the memory of its nodes in their order. */
static int open_memory(int fd)
{
	char path[32], target[PATH_MAX] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, target, sizeof(target) - 1) < 0 ||
	    !strstr(target, "memfd:memory-backend-memfd"))
		return -1;
	return open(path, O_RDONLY);
}

static bool copy_all(int to)
{
	off_t at = HEAD;
	bool good = true;

	for (int fd = 0; good && fd < MOST_FILES; fd++) {
		int from = open_memory(fd);

		if (from < 0)
			continue;
		good = copy_pages(from, to, at);
		at += lseek(from, 0, SEEK_END);
		close(from);
	}
	return good && !ftruncate(to, at);
}

/* A copy that is not whole would give wrong names, so there is none. */
void memory_copy(void)
{
	char path[PATH_MAX];
	int to;

	if (!prefix)
		return;
	snprintf(path, sizeof(path), "%s.%u", prefix, nr_copies++);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (to < 0 || !copy_all(to)) {
		perror(path);
		unlink(path);
	}
	if (to >= 0)
		close(to);
}
