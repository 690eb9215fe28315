// SPDX-License-Identifier: GPL-2.0
/*
 * The processes whose data Nagle's algorithm held back, from a histogram of the tracepoint
 * tcplat:snd_hold.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "instance.h"
#include "report.h"
#include "writers.h"

/* cause is 1 for Nagle's algorithm: Documentation/tracepoints.md. */
#define TRIGGER	"hist:keys=comm,pid,cookie:vals=time_ns:size=16384 if cause == 1"
#define EVENT	"events/tcplat/snd_hold"

/* The sockets of one process that are looked at. */
#define COOKIES_MAX	64

/* One line of the histogram: one socket of one process. */
struct line {
	char comm[64];
	uint64_t pid;
	uint64_t cookie;
	uint64_t ns;
};

static bool watching;

/**
 * writers_watch - begin to watch who writes what is held back
 * @root_fd: what stands for /sys; it must stay open until writers_end()
 *
 * Without the permission to use tracefs, or without the tracepoint, nobody is found.
 */
void writers_watch(int root_fd)
{
	if (instance_open(root_fd, "doctor"))
		return;
	instance_hold_signals(true);
	watching = !instance_write(EVENT "/trigger", TRIGGER);
	if (!watching)
		instance_close();
	instance_hold_signals(false);
}

/* { comm: NAME , pid: N, cookie: N } hitcount: N  time_ns: N */
static bool parse_line(char *text, struct line *line)
{
	char *comm = strstr(text, "comm: "), *end = NULL;
	const char *ns = strstr(text, "} hitcount:");

	/* A name may hold anything, what follows it too. */
	for (char *p = comm; p && (p = strstr(p, ", pid:")); p++)
		end = p;
	if (!comm || !end || !ns ||
	    sscanf(end, ", pid: %" SCNu64 ", cookie: %" SCNu64, &line->pid, &line->cookie) != 2)
		return false;
	ns = strstr(ns, "time_ns:");
	if (!ns || sscanf(ns, "time_ns: %" SCNu64, &line->ns) != 1)
		return false;
	comm += strlen("comm: ");
	while (end > comm && end[-1] == ' ')
		end--;
	*end = '\0';
	snprintf(line->comm, sizeof(line->comm), "%s", comm);
	return true;
}

static size_t read_lines(struct line **lines)
{
	int fd = instance_file(EVENT "/hist", O_RDONLY);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	char *text = NULL;
	size_t room = 0, n = 0;
	struct line line;

	while (in && getline(&text, &room, in) > 0) {
		if (!parse_line(text, &line))
			continue;
		*lines = xreallocarray(*lines, n + 1, sizeof(**lines));
		(*lines)[n++] = line;
	}
	free(text);
	if (in)
		fclose(in);
	return n;
}

static int by_pid(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Whether @fd of the process is a socket among @lines; then what is set on it. */
static enum nodelay socket_nodelay(int pidfd, int fd, const struct line *lines, size_t n)
{
	int copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	enum nodelay nodelay = NODELAY_UNKNOWN;
	uint64_t cookie;
	socklen_t len = sizeof(cookie);
	int value;

	if (copy < 0)
		return nodelay;
	if (!getsockopt(copy, SOL_SOCKET, SO_COOKIE, &cookie, &len)) {
		for (size_t i = 0; i < n; i++) {
			len = sizeof(value);
			if (lines[i].cookie == cookie &&
			    !getsockopt(copy, IPPROTO_TCP, TCP_NODELAY, &value, &len))
				nodelay = value ? NODELAY_SET : NODELAY_UNSET;
		}
	}
	close(copy);
	return nodelay;
}

/* @lines: sockets of process @pid. */
static enum nodelay process_nodelay(uint64_t pid, const struct line *lines, size_t n)
{
	int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	enum nodelay all = NODELAY_UNKNOWN;
	char path[64], target[16];
	struct dirent *entry;
	DIR *dir;

	if (pidfd < 0)
		return all;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd", pid);
	dir = opendir(path);
	while (all != NODELAY_UNSET && dir && (entry = readdir(dir))) {
		enum nodelay one;

		/* Devices must not be opened a second time. */
		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target)) < 8 ||
		    strncmp(target, "socket:[", 8))
			continue;
		one = socket_nodelay(pidfd, atoi(entry->d_name), lines, n);
		if (one != NODELAY_UNKNOWN)
			all = one;
	}
	if (dir)
		closedir(dir);
	close(pidfd);
	return all;
}

/**
 * writers_end - stop watching, and leave nothing behind
 * @writer: who wrote most of what was held back
 */
void writers_end(struct writer *writer)
{
	struct line *lines = NULL;
	uint64_t most = 0;
	size_t n, top = 0, nr_top = 0;

	memset(writer, 0, sizeof(*writer));
	if (!watching)
		return;
	instance_hold_signals(true);
	n = read_lines(&lines);
	instance_close();
	instance_hold_signals(false);
	if (n)
		qsort(lines, n, sizeof(*lines), by_pid);
	for (size_t i = 0, end; i < n; i = end) {
		uint64_t ns = 0;

		for (end = i; end < n && lines[end].pid == lines[i].pid; end++)
			ns += lines[end].ns;
		if (ns <= most)
			continue;
		most = ns;
		top = i;
		nr_top = end - i;
	}
	if (nr_top) {
		snprintf(writer->comm, sizeof(writer->comm), "%s", lines[top].comm);
		writer->pid = lines[top].pid;
		if (nr_top > COOKIES_MAX)
			nr_top = COOKIES_MAX;
		writer->nodelay = process_nodelay(writer->pid, lines + top, nr_top);
	}
	free(lines);
}
