// SPDX-License-Identifier: GPL-2.0
/*
 * stores: writes random bytes to the writable files of tcplat.
 *
 * A model of the documented interface determines what the kernel must answer to each
 * write and what the files must contain afterwards. Resets are observed with a counter
 * that only this program increments: ackmode/setsockopt counts calls that set TCP_QUICKACK
 * while the group is enabled. This holds for a single writer. Concurrent writers know only
 * how each of their own writes must end; when they are done, the files must be consistent.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "random.h"

#define ROOT		"/sys/kernel/tcplat"
#define LONGEST		4097
#define WRITERS_MAX	64

/* In the module's order; delack is in every tree. */
static const char * const groups[] = {
	"delack", "ackmode", "portsearch", "bindsearch", "sndwait", "sndhold", "idlerestart", "loss",
	"listen", "peerwnd", "answer",
};

#define GROUPS		(sizeof(groups) / sizeof(groups[0]))
#define ACKMODE		1
#define RESET		GROUPS

struct shared {
	_Atomic uint64_t writes;
	_Atomic uint64_t taken;
	_Atomic uint64_t refused;
	_Atomic uint64_t empty;
	_Atomic uint64_t long_ones;
	_Atomic uint64_t resets;
	_Atomic uint64_t switched;
};

static struct shared *shared;
static uint64_t rng;
static uint64_t least;

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;

	fputs("stores: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t draw(void)
{
	return draw_from(&rng);
}

static unsigned int below(unsigned int n)
{
	return draw() % n;
}

/* ---- the model ---- */

/*
 * Documentation/ABI: enabled takes 0 or 1, reset takes only 1; a trailing newline is
 * allowed.
 */
static bool valid(unsigned int file, const char *bytes, size_t len)
{
	if (len == 2 && bytes[1] == '\n')
		len = 1;
	return len == 1 && (bytes[0] == '1' || (bytes[0] == '0' && file != RESET));
}

/* ---- the files ---- */

static void path_of(char *path, size_t size, unsigned int file)
{
	if (file == RESET)
		snprintf(path, size, ROOT "/reset");
	else
		snprintf(path, size, ROOT "/%s/enabled", groups[file]);
}

static void read_line(const char *name, const char *file, char *line, size_t size)
{
	char path[128];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), ROOT "/%s/%s", name, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	len = read(fd, line, size - 1);
	if (len < 1 || line[len - 1] != '\n')
		die("%s: no line", path);
	line[len - 1] = '\0';
	close(fd);
}

/* Returns whether the group is on; the two files that show it must agree. */
static bool is_on(unsigned int group)
{
	char enabled[16], status[64];

	read_line(groups[group], "enabled", enabled, sizeof(enabled));
	read_line(groups[group], "status", status, sizeof(status));
	if (!strcmp(enabled, "1") && !strcmp(status, "armed"))
		return true;
	if (strcmp(enabled, "0") || strcmp(status, "off"))
		die("%s: enabled is %s, status is %s", groups[group], enabled, status);
	return false;
}

static uint64_t count(void)
{
	char line[32];

	read_line("ackmode", "setsockopt", line, sizeof(line));
	return strtoull(line, NULL, 10);
}

/* ---- bytes to write ---- */

/* Makes valid, nearly valid or random bytes; returns their number. */
static size_t make_bytes(char *bytes)
{
	static const struct {
		const char *text;
		size_t len;
	} near[] = {
		{ "0", 1 }, { "1", 1 }, { "0\n", 2 }, { "1\n", 2 }, { "", 0 },
		{ "\n", 1 }, { "0\n\n", 3 }, { "1\n\n", 3 }, { "1\0", 2 }, { "1\0\n", 3 },
		{ "0\0\n", 3 }, { "\0", 1 }, { "\0001", 2 }, { " 1", 2 }, { "1 ", 2 },
		{ "1\x20\n", 3 }, { "01", 2 }, { "10", 2 }, { "11", 2 }, { "2", 1 },
		{ "-1", 2 }, { "+1", 2 }, { "0x1", 3 }, { "1\r\n", 3 }, { "1\r", 2 },
		{ "y", 1 }, { "n", 1 }, { "Y\n", 2 }, { "on", 2 }, { "off\n", 4 },
		{ "true", 4 }, { "1 apple", 7 }, { "\xb1", 1 }, { "1\n1\n", 4 }, { "\n1", 2 },
	};
	size_t i, len;

	switch (below(4)) {
	case 0:
		i = below(sizeof(near) / sizeof(near[0]));
		memcpy(bytes, near[i].text, near[i].len);
		return near[i].len;
	case 1:
		/* A single byte: over time every value is tried. */
		bytes[0] = draw();
		return 1;
	case 2:
		len = below(8);
		break;
	default:
		len = below(2) ? below(LONGEST + 1) : 4094 + below(4);
		break;
	}
	for (i = 0; i < len; i++)
		bytes[i] = draw();
	if (len && !below(4))
		bytes[0] = '0' + below(2);
	if (len > 1 && !below(4))
		bytes[1] = '\n';
	return len;
}

/* Writes with a randomly chosen system call; all of them must behave the same. */
static ssize_t write_bytes(int fd, const char *bytes, size_t len)
{
	size_t cut = len ? below(len + 1) : 0;
	struct iovec iov[3] = {
		{ (char *)bytes, cut },
		{ NULL, 0 },
		{ (char *)bytes + cut, len - cut },
	};

	switch (below(4)) {
	case 0:
		return pwrite(fd, bytes, len, draw() >> (24 + below(40)));
	case 1:
		return writev(fd, iov, 3);
	case 2:
		return pwritev(fd, iov, 3, below(8192));
	default:
		return write(fd, bytes, len);
	}
}

/* Writes random bytes to a file; exits if the result is not as the model says. */
static bool store(const int *fds, unsigned int file, char *bytes, size_t *len)
{
	bool good;
	ssize_t ret;

	*len = make_bytes(bytes);
	good = valid(file, bytes, *len);
	errno = 0;
	ret = write_bytes(fds[file], bytes, *len);
	shared->writes++;
	shared->long_ones += *len > 4096;
	if (!*len) {
		/* The kernel does not pass empty writes to the module. */
		if (ret)
			die("file %u: a write of nothing returned %zd", file, ret);
		shared->empty++;
	} else if (good) {
		if (ret != (ssize_t)*len)
			die("file %u: %zu bytes from %#x refused with %zd (%s)", file, *len,
			    (unsigned char)bytes[0], ret, strerror(errno));
		shared->taken++;
	} else {
		if (ret != -1 || errno != EINVAL)
			die("file %u: %zu bytes from %#x gave %zd (%s)", file, *len,
			    (unsigned char)bytes[0], ret, strerror(errno));
		shared->refused++;
	}
	return good;
}

static bool expired(const struct timespec *until)
{
	struct timespec now;

	/* Valid resets are rare: a thousand writes may not contain one. */
	if (shared->writes < least || (least && !shared->resets))
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > until->tv_sec ||
	       (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

static void open_all(int *fds)
{
	unsigned int file;
	char path[128];

	for (file = 0; file <= RESET; file++) {
		path_of(path, sizeof(path), file);
		fds[file] = open(path, O_WRONLY | O_CLOEXEC | (below(2) ? O_APPEND : 0) |
				 (below(2) ? O_TRUNC : 0));
		if (fds[file] < 0)
			die("%s: %s", path, strerror(errno));
	}
}

/* ---- a single writer, which knows the state of all files ---- */

static void alone(const struct timespec *until)
{
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool on[GROUPS];
	unsigned int i;
	char bytes[LONGEST];
	int fds[GROUPS + 1];
	uint64_t sets = 0;
	const int one = 1;

	if (sock < 0)
		die("socket: %s", strerror(errno));
	open_all(fds);
	for (i = 0; i < GROUPS; i++)
		on[i] = is_on(i);
	if (write(fds[RESET], "1", 1) != 1 || count())
		die("reset does not zero ackmode/setsockopt");
	while (!expired(until)) {
		unsigned int file = below(GROUPS + 1);
		size_t len;

		if (!below(4)) {
			if (setsockopt(sock, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one)))
				die("TCP_QUICKACK: %s", strerror(errno));
			sets += on[ACKMODE];
		}
		if (store(fds, file, bytes, &len)) {
			if (file == RESET) {
				sets = 0;
				shared->resets++;
			} else {
				shared->switched += on[file] != (bytes[0] == '1');
				on[file] = bytes[0] == '1';
			}
		}
		if (count() != sets)
			die("ackmode/setsockopt is %" PRIu64 " after %" PRIu64 " calls",
			    count(), sets);
		if (file != RESET && is_on(file) != on[file])
			die("%s is %s after %zu bytes from %#x", groups[file],
			    on[file] ? "off" : "on", len, (unsigned char)bytes[0]);
		/* No other group may have changed. */
		if (!below(50))
			for (i = 0; i < GROUPS; i++)
				if (is_on(i) != on[i])
					die("%s changed", groups[i]);
	}
}

/* ---- concurrent writers ---- */

static void together(const struct timespec *until)
{
	char bytes[LONGEST];
	int fds[GROUPS + 1];
	size_t len;

	open_all(fds);
	while (!expired(until)) {
		unsigned int file = below(GROUPS + 1);

		if (store(fds, file, bytes, &len) && file == RESET)
			shared->resets++;
	}
}

static void usage(FILE *to)
{
	fputs("usage: stores [--seed N] [--seconds S] [--least N] [--writers N]\n"
	      "\n"
	      "Writes random bytes to every writable file of " ROOT " and\n"
	      "compares the results with the documented interface.\n"
	      "\n"
	      "  --seed N     seed of all random choices (the clock); printed first\n"
	      "  --seconds S  run for S seconds (5)\n"
	      "  --least N    run longer, until there were N writes and one reset (0)\n"
	      "  --writers N  number of concurrent writers (1)\n"
	      "\n"
	      "Exit status: 0 if all results are as documented, 1 if not, 2 on wrong usage.\n", to);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "least", required_argument, NULL, 'l' },
		{ "writers", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	uint64_t seed, seconds = 5, writers = 1;
	struct timespec until;
	unsigned int i;
	int c, status, failed = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	seed = mix(until.tv_sec ^ (uint64_t)until.tv_nsec << 32) >> 32;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		bool good = true;

		switch (c) {
		case 's':
			good = number(optarg, 0, UINT64_MAX, &seed);
			break;
		case 't':
			good = number(optarg, 1, 1000000, &seconds);
			break;
		case 'l':
			good = number(optarg, 0, UINT64_MAX, &least);
			break;
		case 'w':
			good = number(optarg, 1, WRITERS_MAX, &writers);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
		if (!good) {
			fprintf(stderr,
				"stores: invalid value '%s'; see stores --help\n",
				optarg);
			return 2;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	printf("seed=%" PRIu64 " writers=%" PRIu64 "\n", seed, writers);
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	for (i = 0; i < writers; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			rng = mix(seed + i + 1);
			(writers == 1 ? alone : together)(&until);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= !!status;
	/* enabled and status of each group must agree. */
	for (i = 0; i < GROUPS; i++)
		is_on(i);
	printf("writes=%" PRIu64 " taken=%" PRIu64 " refused=%" PRIu64 " empty=%" PRIu64
	       " long=%" PRIu64 " resets=%" PRIu64 " switched=%" PRIu64 "\n",
	       (uint64_t)shared->writes, (uint64_t)shared->taken, (uint64_t)shared->refused,
	       (uint64_t)shared->empty, (uint64_t)shared->long_ones, (uint64_t)shared->resets,
	       (uint64_t)shared->switched);
	return failed;
}
