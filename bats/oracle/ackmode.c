// SPDX-License-Identifier: GPL-2.0
/*
 * Loads ackmode.bpf.o and shows its counts in the format of the module's file `transitions`. A
 * reset keeps the state of the sockets.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ackmode.h"
#include "loader.h"

static const char * const modes[] = { "delayed", "quickack", "pingpong", "route" };
static const char * const causes[] = {
	"none", "timeout", "setsockopt", "first", "gap", "duplicate", "ecn", "handshake",
	"budget", "answer", "fin", "window", "route", "disconnect",
};

static const char * const events[] = {
	"birth", "transmit", "receive", "timer", "set", "death"
};

static void show(void)
{
	struct totals t;

	get(&t);
	for (int from = 0; from < MODES; from++)
		for (int to = 0; to < MODES; to++)
			for (int c = 0; from != to && c < CAUSES; c++)
				printf("%s %s %s %llu\n", modes[from], modes[to],
				       causes[c], t.changes[from][to][c]);
	printf("born delayed %llu\n", t.born);
	for (int m = 0; m < MODES; m++)
		printf("adopted %s %llu\n", modes[m], t.adopted[m]);
	for (int m = 0; m < MODES; m++)
		printf("died %s %llu\n", modes[m], t.died[m]);
	for (int m = 0; m < MODES; m++)
		printf("live %s %lld\n", modes[m], t.live[m]);
	printf("setsockopt %llu\n", t.set);
	for (int e = 0; e < EVENTS; e++)
		printf("events %s %llu\n", events[e], t.events[e]);
	printf("raced %llu\n", t.raced);
	printf("errors %llu\n", t.errors);
}

/* The programs learn the kernel's constant from these calls. */
static void show_threshold(void)
{
	int zero = 0, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &zero, sizeof(zero)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &zero, sizeof(zero)))
		die("TCP_QUICKACK", errno);
	close(fd);
}

int main(int argc, char **argv)
{
	load(argc, argv, offsetof(struct totals, live));
	show_threshold();
	return answer(show);
}
