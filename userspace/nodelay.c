// SPDX-License-Identifier: GPL-2.0
/* Whether a process has set TCP_NODELAY on its sockets. */
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nodelay.h"

/* Check @fd of the process, if it is one of the sockets. */
static enum nodelay socket_nodelay(int pidfd, int fd, const uint64_t *cookies, size_t n)
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
			if (cookies[i] == cookie &&
			    !getsockopt(copy, IPPROTO_TCP, TCP_NODELAY, &value, &len))
				nodelay = value ? NODELAY_SET : NODELAY_UNSET;
		}
	}
	close(copy);
	return nodelay;
}

/**
 * process_nodelay - whether TCP_NODELAY is set on sockets of a process
 * @pid: the process
 * @cookies: the cookies of the sockets
 * @n: the number of cookies
 *
 * Return: the current setting; NODELAY_UNKNOWN if the caller may not use pidfd_getfd(2)
 */
enum nodelay process_nodelay(uint64_t pid, const uint64_t *cookies, size_t n)
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

		/* Only sockets: do not duplicate descriptors of devices. */
		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target)) < 8 ||
		    strncmp(target, "socket:[", 8))
			continue;
		one = socket_nodelay(pidfd, atoi(entry->d_name), cookies, n);
		if (one != NODELAY_UNKNOWN)
			all = one;
	}
	if (dir)
		closedir(dir);
	close(pidfd);
	return all;
}
