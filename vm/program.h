/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the programs that drive the kernel: traffic, ports, bats/fuzz/sockets, bench/calls.
 */
#ifndef TCPLAT_PROGRAM_H
#define TCPLAT_PROGRAM_H

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_SEC	1000000000ULL
#define MOST_FILES	1048576

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE	51
#endif

/* The port is at the same place in both. */
union address {
	struct sockaddr_in6 in6;
	struct sockaddr_in in;
	struct sockaddr sa;
};

static inline socklen_t loopback(union address *addr, int family, unsigned int port)
{
	*addr = (union address){ .in6.sin6_family = (sa_family_t)family };
	addr->in.sin_port = htons((uint16_t)port);
	if (family == AF_INET6) {
		addr->in6.sin6_addr = in6addr_loopback;
		return sizeof(addr->in6);
	}
	addr->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sizeof(addr->in);
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		err(1, "calloc");
	return p;
}

static inline pthread_t start_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	/* Small, so that thousands of threads fit in a small guest; no frame here is large. */
	pthread_attr_setstacksize(&attr, 128 * 1024);
	errno = pthread_create(&id, &attr, fn, arg);
	if (errno)
		err(1, "cannot create a thread");
	pthread_attr_destroy(&attr);
	return id;
}

static inline void raise_file_limit(void)
{
	struct rlimit most = { MOST_FILES, MOST_FILES };

	if (setrlimit(RLIMIT_NOFILE, &most) && !getrlimit(RLIMIT_NOFILE, &most)) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
}

#endif
