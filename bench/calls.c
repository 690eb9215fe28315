// SPDX-License-Identifier: GPL-2.0
/*
 * Measures calls that hit one or two probes. Prints "NAME INSTRUCTIONS" lines; the machine must
 * take one nanosecond per instruction. Each result is the minimum of many calls, so that it
 * contains no timer interrupt. No call runs the delayed-ACK timer; its result is the time by which
 * each timer prolongs a fixed amount of other work.
 */
#include <netinet/tcp.h>

#include "../vm/program.h"

#define REPEAT	50
#define TIMERS	200
#define PORT	7500

static int listener;
static struct sockaddr_in server = { .sin_family = AF_INET };

/* The clock of this thread, so that waiting does not count. */
static uint64_t now(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts))
		err(1, "clock_gettime");
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		err(1, "setsockopt");
}

struct pair {
	int client, server;
};

static struct pair connected(void)
{
	struct pair pair;

	pair.client = socket(AF_INET, SOCK_STREAM, 0);
	if (pair.client < 0 ||
	    connect(pair.client, (struct sockaddr *)&server, sizeof(server)))
		err(1, "connect");
	pair.server = accept(listener, NULL, NULL);
	if (pair.server < 0)
		err(1, "accept");
	set(pair.client, SOL_TCP, TCP_NODELAY, 1);
	return pair;
}

/* Closes with a reset, which leaves no state behind. */
static void reset(int fd)
{
	struct linger linger = { .l_onoff = 1 };

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) || close(fd))
		err(1, "close");
}

static void disconnect(struct pair pair)
{
	reset(pair.client);
	close(pair.server);
}

static void send_byte(int fd)
{
	if (send(fd, "", 1, 0) != 1)
		err(1, "send");
}

static void receive_byte(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, 0) != 1)
		err(1, "recv");
}

/* ---- each function returns the cost of one call ---- */

static uint64_t option(int value_of)
{
	struct pair pair = connected();
	uint64_t begin;

	set(pair.client, SOL_TCP, value_of, 1);
	begin = now();
	set(pair.client, SOL_TCP, value_of, 1);
	begin = now() - begin;
	disconnect(pair);
	return begin;
}

static uint64_t bind_any(int unused)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t begin = now();

	(void)unused;
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)))
		err(1, "bind");
	begin = now() - begin;
	close(fd);
	return begin;
}

/* After the peer's reset, close() sends nothing. */
static uint64_t destroy(int unused)
{
	struct pair pair = connected();
	uint64_t begin;

	(void)unused;
	reset(pair.client);
	begin = now();
	close(pair.server);
	return now() - begin;
}

static uint64_t send_after(int ms)
{
	struct pair pair = connected();
	uint64_t begin;
	int i;

	/* Grow the congestion window, so that a restart can cut it. */
	for (i = 0; i < 20; i++) {
		send_byte(pair.client);
		receive_byte(pair.server);
	}
	usleep(ms * 1000);
	begin = now();
	send_byte(pair.client);
	begin = now() - begin;
	disconnect(pair);
	return begin;
}

/* The send buffer is full and stays full. */
static uint64_t send_full(int unused)
{
	static char buffer[65536];
	struct timeval timeout = { .tv_usec = 20000 };
	struct pair pair = connected();
	uint64_t begin;

	(void)unused;
	while (send(pair.client, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		;
	if (setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)))
		err(1, "SO_SNDTIMEO");
	begin = now();
	if (send(pair.client, buffer, 1, 0) != -1 || errno != EAGAIN)
		errx(1, "there was room to send");
	begin = now() - begin;
	disconnect(pair);
	return begin;
}

static void work(void)
{
	volatile uint32_t i;

	for (i = 0; i < 30000000; i++)
		;
}

static uint64_t timers(int unused)
{
	static struct pair pair[TIMERS];
	uint64_t begin;
	int i;

	(void)unused;
	for (i = 0; i < TIMERS; i++) {
		pair[i] = connected();
		/* Begins pingpong mode: ACKs are delayed. */
		set(pair[i].server, SOL_TCP, TCP_QUICKACK, 0);
	}
	usleep(500000);
	for (i = 0; i < TIMERS; i++)
		send_byte(pair[i].client);
	begin = now_ns();
	work();
	begin = now_ns() - begin;
	for (i = 0; i < TIMERS; i++)
		disconnect(pair[i]);
	return begin / TIMERS;
}

static const struct {
	const char *name;
	uint64_t (*call)(int arg);
	int arg;
	unsigned int repeat;
} calls[] = {
	{ "nodelay", option, TCP_NODELAY, REPEAT },
	{ "quickack", option, TCP_QUICKACK, REPEAT },
	{ "bind", bind_any, 0, REPEAT },
	{ "destroy", destroy, 0, REPEAT },
	{ "send", send_after, 1, REPEAT },
	{ "restart", send_after, 1500, REPEAT },
	{ "wait", send_full, 0, REPEAT },
	{ "timer", timers, 0, 5 },
};

int main(void)
{
	size_t i;
	unsigned int k;

	server.sin_port = htons(PORT);
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0)
		err(1, "socket");
	set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(listener, (struct sockaddr *)&server, sizeof(server)) || listen(listener, 1))
		err(1, "listen");
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		uint64_t least = UINT64_MAX;

		for (k = 0; k < calls[i].repeat; k++) {
			uint64_t took = calls[i].call(calls[i].arg);

			if (took < least)
				least = took;
		}
		printf("%s %llu\n", calls[i].name, (unsigned long long)least);
	}
	return 0;
}
