// SPDX-License-Identifier: GPL-2.0
/*
 * ports: many connect() and bind() calls, for tests, demos and measurements of port
 * searches.
 *
 * It listens on loopback and connects to itself. Commands are read from the command
 * line, or from stdin if there are none: its sockets stay open while the caller reads
 * counters and changes settings between commands. Each command is answered by one line
 * of 'key=value' pairs.
 */
#include <ctype.h>
#include <poll.h>

#include "program.h"

#define BACKLOG		4096

/* ---- sockets ---- */

static int family = AF_INET;
static unsigned int server_port = 7000;
static int listener = -1;
static uint32_t own_range;

/* Sockets kept open until "close". */
static int held[MOST_FILES];
static size_t nheld;

static void hold(int fd)
{
	held[nheld++] = fd;
}

static unsigned int local_port(int fd)
{
	union address addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, &addr.sa, &len))
		err(1, "getsockname");
	return ntohs(addr.in.sin_port);
}

static int new_socket(void)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "socket");
	return fd;
}

static void connect_to(unsigned int port)
{
	static int listeners[65536];
	union address addr;
	socklen_t len = loopback(&addr, family, port);
	int one = 1;

	if (!port || port > 65535)
		errx(2, "%u is not a port to listen on", port);
	server_port = port;
	listener = listeners[port];
	if (listener)
		return;
	listener = new_socket();
	listeners[port] = listener;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, &addr.sa, len) || listen(listener, BACKLOG))
		err(1, "cannot listen on port %u", port);
}

/* Closes without TIME_WAIT, so that the port is free at once. */
static void reset(int fd)
{
	struct linger linger = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

/* ---- connect() ---- */

enum fate { HOLD, RESET, TIMEWAIT };

struct tally {
	unsigned long connected, exhausted;
	uint64_t ns;
};

/*
 * Counts a call that the kernel chose a port for, with its result. Returns the socket, or -1 if
 * no port was free, for which the errno is none_free.
 */
static int counted(struct tally *t, int fd, int result, uint64_t since, int none_free,
		   const char *what)
{
	t->ns += now_ns() - since;
	if (!result) {
		t->connected++;
		return fd;
	}
	if (errno != none_free)
		err(1, "%s", what);
	t->exhausted++;
	close(fd);
	return -1;
}

static int connect_from(struct tally *t, unsigned int from)
{
	union address addr;
	socklen_t len;
	uint64_t since;
	int fd = new_socket();

	if (own_range &&
	    setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &own_range, sizeof(own_range)))
		err(1, "IP_LOCAL_PORT_RANGE");
	if (from) {
		len = loopback(&addr, family, from);
		if (bind(fd, &addr.sa, len))
			err(1, "bind to port %u", from);
	}
	len = loopback(&addr, family, server_port);
	since = now_ns();
	return counted(t, fd, connect(fd, &addr.sa, len), since, EADDRNOTAVAIL, "connect");
}

static int connect_one(struct tally *t)
{
	return connect_from(t, 0);
}

/* Sets *peer_port to the port at the other end, unless it is NULL. */
static int accept_one(unsigned int *peer_port)
{
	union address addr;
	socklen_t len = sizeof(addr);
	int fd = accept4(listener, &addr.sa, &len, SOCK_CLOEXEC);

	if (fd < 0)
		err(1, "accept");
	if (peer_port)
		*peer_port = ntohs(addr.in.sin_port);
	return fd;
}

/*
 * Accepts the connection from fd. In a flood, a softirq may process a client's first data only
 * after the connection was reset. If the kernel has used SYN cookies, it takes that for the end
 * of a handshake, and makes another connection, which nobody uses.
 */
static int accept_from(int fd)
{
	unsigned int port = local_port(fd), from;
	int peer;

	while (peer = accept_one(&from), from != port)
		reset(peer);
	return peer;
}

static void settle_fate(int fd, enum fate fate)
{
	int peer = accept_from(fd);
	char byte;

	switch (fate) {
	case HOLD:
		hold(fd);
		hold(peer);
		break;
	case RESET:
		reset(fd);
		reset(peer);
		break;
	case TIMEWAIT:
		/*
		 * The end of file shows that the peer's FIN has arrived, perhaps only after
		 * its close(): the socket is in TIME_WAIT now, not some time later.
		 */
		shutdown(fd, SHUT_WR);
		if (read(peer, &byte, 1))
			errx(1, "no end of file from a closed connection");
		close(peer);
		if (read(fd, &byte, 1))
			errx(1, "no end of file from the peer");
		close(fd);
		break;
	}
}

static void print_tally(const char *what, const struct tally *t)
{
	printf("%s=%lu exhausted=%lu ns=%" PRIu64 "\n", what, t->connected, t->exhausted, t->ns);
}

static void do_connect(const unsigned long *arg)
{
	struct tally t = { 0 };

	for (unsigned long n = arg[0]; n; n--) {
		int fd = connect_one(&t);

		if (fd >= 0)
			settle_fate(fd, (enum fate)arg[1]);
	}
	print_tally("connected", &t);
}

static FILE *open_range(const char *mode)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", mode);

	if (!f)
		err(1, "ip_local_port_range");
	return f;
}

static void set_range(unsigned long low, unsigned long high)
{
	FILE *f = open_range("w");

	fprintf(f, "%lu %lu\n", low, high);
	if (fclose(f))
		err(1, "ip_local_port_range");
}

/* Has connect() choose each of these ports: the namespace has no other meanwhile. */
static void do_fill(const unsigned long *arg)
{
	struct tally t = { 0 };
	unsigned long low, high;
	FILE *f = open_range("r");

	if (fscanf(f, "%lu %lu", &low, &high) != 2)
		errx(1, "ip_local_port_range: not two numbers");
	fclose(f);
	for (unsigned long port = arg[0]; port <= arg[1]; port += arg[2]) {
		int fd;

		set_range(port, port);
		fd = connect_one(&t);
		if (fd < 0 || local_port(fd) != port)
			errx(1, "port %lu is not free", port);
		settle_fate(fd, HOLD);
	}
	set_range(low, high);
	print_tally("connected", &t);
}

/* Pending connect() calls, which have a port but no answer yet. */
static int flying[BACKLOG];
static unsigned long nflying;

static void do_launch(const unsigned long *arg)
{
	union address addr;
	socklen_t len = loopback(&addr, family, server_port);
	struct tally t = { 0 };

	if (arg[0] > BACKLOG)
		errx(2, "launch can do %d connections", BACKLOG);
	nflying = 0;
	for (unsigned long n = arg[0]; n; n--) {
		int fd = new_socket();

		if (fcntl(fd, F_SETFL, O_NONBLOCK))
			err(1, "O_NONBLOCK");
		if (!connect(fd, &addr.sa, len) || errno == EINPROGRESS) {
			t.connected++;
			flying[nflying++] = fd;
		} else if (errno == EADDRNOTAVAIL) {
			t.exhausted++;
			close(fd);
		} else {
			err(1, "connect");
		}
	}
	print_tally("connected", &t);
}

static void do_land(const unsigned long *unused)
{
	unsigned long n;

	(void)unused;
	for (n = 0; n < nflying; n++) {
		struct pollfd ready = { .fd = flying[n], .events = POLLOUT };
		socklen_t len = sizeof(int);
		int error = 0;

		if (poll(&ready, 1, -1) != 1)
			err(1, "poll");
		if (getsockopt(flying[n], SOL_SOCKET, SO_ERROR, &error, &len) || error)
			errx(1, "connect %lu of %lu: %s", n + 1, nflying, strerror(error));
		/* Connections may arrive in any order. */
		hold(flying[n]);
		hold(accept_one(NULL));
	}
	nflying = 0;
	printf("landed=%lu\n", n);
}

static void do_from(const unsigned long *arg)
{
	struct tally t = { 0 };

	settle_fate(connect_from(&t, (unsigned int)arg[0]), RESET);
	print_tally("connected", &t);
}

/* ---- bind() and listen() ---- */

static void do_bind(const unsigned long *arg)
{
	unsigned long n = 0;

	for (unsigned long port = arg[0]; port <= arg[1]; port += arg[2], n++) {
		union address addr;
		socklen_t len = loopback(&addr, family, (unsigned int)port);
		int fd = new_socket();

		if (bind(fd, &addr.sa, len))
			err(1, "bind to port %lu", port);
		hold(fd);
	}
	printf("bound=%lu\n", n);
}

static int bind_one(struct tally *t)
{
	union address addr;
	socklen_t len = loopback(&addr, family, 0);
	int fd = new_socket();
	uint64_t since = now_ns();

	return counted(t, fd, bind(fd, &addr.sa, len), since, EADDRINUSE, "bind");
}

static int listen_one(struct tally *t)
{
	int fd = new_socket();
	uint64_t since = now_ns();

	return counted(t, fd, listen(fd, 1), since, EADDRINUSE, "listen");
}

/* The call that the current command repeats. */
static int (*once)(struct tally *t);

static void do_choose(const unsigned long *arg)
{
	struct tally t = { 0 };

	for (unsigned long n = arg[0]; n; n--) {
		int fd = once(&t);

		if (fd >= 0)
			hold(fd);
	}
	print_tally("bound", &t);
}

/* ---- concurrent calls ---- */

struct racer {
	pthread_t id;
	unsigned long n;
	struct tally t;
};

static pthread_barrier_t start;

static void *race(void *arg)
{
	struct racer *racer = arg;

	pthread_barrier_wait(&start);
	for (unsigned long i = 0; i < racer->n; i++) {
		int fd = once(&racer->t);

		if (fd >= 0)
			reset(fd);
	}
	return NULL;
}

/*
 * Accepts and resets all pending connections; waits for each at most this long. There may be fewer
 * than were made: a connection that another CPU reset at once may be gone before the listener
 * learns of it.
 */
static void drain_listener(int wait_ms)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };

	while (poll(&ready, 1, wait_ms) > 0)
		reset(accept_one(NULL));
}

/*
 * Accepts only at the end: a peer could not be matched to its connection, and closing one too
 * early would fail a connect() that has not returned yet.
 */
static void do_race(const unsigned long *arg)
{
	unsigned long threads = arg[0];
	struct racer *racers = xcalloc(threads, sizeof(*racers));
	struct tally t = { 0 };

	if (threads * arg[1] > BACKLOG)
		errx(2, "a race can have %d calls", BACKLOG);
	pthread_barrier_init(&start, NULL, (unsigned int)threads);
	for (unsigned long i = 0; i < threads; i++) {
		racers[i].n = arg[1];
		racers[i].id = start_thread(race, &racers[i]);
	}
	for (unsigned long i = 0; i < threads; i++) {
		pthread_join(racers[i].id, NULL);
		t.connected += racers[i].t.connected;
		t.exhausted += racers[i].t.exhausted;
		t.ns += racers[i].t.ns;
	}
	drain_listener(50);
	pthread_barrier_destroy(&start);
	free(racers);
	print_tally("connected", &t);
}

/* ---- blocked senders ---- */

/* A socket whose send buffer is full, and the threads that are blocked in send() on it. */
static int full = -1;
static pthread_t senders[MOST_FILES];
static unsigned long nsenders;

/* Sends until there is no room and no ACK in flight can make room. */
static void do_stuff(const unsigned long *unused)
{
	struct tally t = { 0 };
	char bytes[4096] = { 0 };
	int room = 4096;
	bool sent;

	(void)unused;
	full = connect_one(&t);
	if (full < 0)
		errx(1, "no port to send from");
	settle_fate(full, HOLD);
	/* A buffer size that is set explicitly does not grow. */
	if (setsockopt(full, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)))
		err(1, "SO_SNDBUF");
	do {
		sent = false;
		while (send(full, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
			sent = true;
		if (errno != EAGAIN)
			err(1, "send");
		usleep(500000);
	} while (sent);
	printf("stuffed=1\n");
}

static void *wait_to_send(void *unused)
{
	char bytes[4096] = { 0 };

	(void)unused;
	if (send(full, bytes, sizeof(bytes), MSG_NOSIGNAL) >= 0)
		errx(1, "send() succeeded: somebody has read");
	return NULL;
}

static void do_send(const unsigned long *arg)
{
	if (full < 0)
		errx(2, "nothing is stuffed");
	for (unsigned long i = 0; i < arg[0]; i++)
		senders[nsenders++] = start_thread(wait_to_send, NULL);
	printf("senders=%lu\n", nsenders);
}

static void do_unstuff(const unsigned long *unused)
{
	(void)unused;
	shutdown(full, SHUT_RDWR);
	full = -1;
	printf("ended=%lu\n", nsenders);
	while (nsenders)
		pthread_join(senders[--nsenders], NULL);
}

/* ---- other commands ---- */

static void do_range(const unsigned long *arg)
{
	own_range = (uint32_t)(arg[1] << 16 | arg[0]);
	printf("range=%lu-%lu\n", arg[0], arg[1]);
}

static void do_to(const unsigned long *arg)
{
	connect_to((unsigned int)arg[0]);
	printf("to=%u\n", server_port);
}

static void do_touch(const unsigned long *connecting)
{
	size_t touched = 0;

	for (size_t i = 0; i < nheld; i += *connecting ? 2 : 1, touched++)
		if (send(held[i], "", 1, MSG_NOSIGNAL) != 1)
			err(1, "send");
	printf("touched=%zu\n", touched);
}

static void do_close(const unsigned long *unused)
{
	(void)unused;
	printf("closed=%zu\n", nheld);
	while (nheld)
		reset(held[--nheld]);
	drain_listener(0);
}

/*
 * What the words in capitals stand for are the arguments of run(); a further word, if it is there,
 * is 1.
 */
static const struct command {
	const char *words, *help;
	void (*run)(const unsigned long *arg);
	int (*once)(struct tally *t);
} commands[] = {
	{ "connect N FATE", "open N connections, one after another; FATE of each: hold, "
	  "reset (its port is free at once) or timewait", .run = do_connect },
	{ "fill FIRST LAST BY", "open and hold a connection from each of these ports, as if "
	  "connect() had chosen it", .run = do_fill },
	{ "from PORT", "bind() to PORT, connect, reset", .run = do_from },
	{ "launch N", "call connect() N times without waiting for answers", .run = do_launch },
	{ "land", "wait for these answers and hold the connections", .run = do_land },
	{ "race THREADS N", "in each of THREADS open N connections and reset each",
	  .run = do_race, .once = connect_one },
	{ "race0 THREADS N", "in each of THREADS bind() N times to port 0",
	  .run = do_race, .once = bind_one },
	{ "range LOW HIGH", "set IP_LOCAL_PORT_RANGE on later connections; 0 0: none",
	  .run = do_range },
	{ "to PORT", "listen on PORT, and connect to it from now on", .run = do_to },
	{ "bind FIRST LAST BY", "bind() to each of these ports, and hold the sockets",
	  .run = do_bind },
	{ "bind0 N", "bind() to port 0 N times, and hold the sockets",
	  .run = do_choose, .once = bind_one },
	{ "listen0 N", "listen() without bind() N times, and hold the sockets",
	  .run = do_choose, .once = listen_one },
	{ "touch", "send a byte from both ends of held connections", .run = do_touch },
	{ "touch connecting", "send a byte only from the connecting ends", .run = do_touch },
	{ "stuff", "open and hold a connection, and fill its send buffer", .run = do_stuff },
	{ "send N", "start N more threads that block in send() on it", .run = do_send },
	{ "unstuff", "shut that connection down, which wakes its senders", .run = do_unstuff },
	{ "close", "reset all held sockets, and those that nobody accepted", .run = do_close },
};

static void usage(void)
{
	puts("Usage: ports [-4 | -6] [-p PORT] [COMMAND]...\n"
	     "Connects to itself over loopback. Takes one command per argument, or, without\n"
	     "arguments, one per line of stdin:");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %s\n        %s\n", commands[i].words, commands[i].help);
}

static unsigned long number(const char *text)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9')
		errx(2, "'%s' is not a number", text);
	return value;
}

static unsigned long fate(const char *text)
{
	static const char *const fates[] = {
		[HOLD] = "hold", [RESET] = "reset", [TIMEWAIT] = "timewait"
	};

	for (unsigned long i = 0; i < ARRAY_SIZE(fates); i++)
		if (!strcmp(text, fates[i]))
			return i;
	errx(2, "'%s' is not hold, reset or timewait", text);
}

/* Sets arg from the line; returns false if its words are not the command's. */
static bool fits(const char *words, const char *line, unsigned long *arg)
{
	char want[16], word[16];
	int a, b;

	for (int i = 0; sscanf(words, "%15s%n", want, &a) == 1; i++, words += a, line += b) {
		if (sscanf(line, "%15s%n", word, &b) != 1)
			return false;
		if (isupper(*want))
			*arg++ = strcmp(want, "FATE") ? number(word) : fate(word);
		else if (strcmp(want, word))
			return false;
		else if (i)
			*arg++ = 1;
	}
	return sscanf(line, "%1s", word) != 1;
}

static void run(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned long arg[3] = { 0 };

		if (!fits(commands[i].words, line, arg))
			continue;
		once = commands[i].once;
		commands[i].run(arg);
		if (fflush(stdout))
			err(1, "cannot write an answer");
		return;
	}
	errx(2, "cannot parse command '%s'; see ports -h", line);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;
	int opt;

	while ((opt = getopt(argc, argv, "46p:h")) != -1) {
		switch (opt) {
		case '4':
		case '6':
			family = opt == '4' ? AF_INET : AF_INET6;
			break;
		case 'p':
			server_port = (unsigned int)number(optarg);
			break;
		case 'h':
			usage();
			return 0;
		default:
			return 2;
		}
	}
	raise_file_limit();
	connect_to(server_port);

	if (optind == argc)
		while (getline(&line, &room, stdin) > 0)
			run(line);
	while (optind < argc)
		run(argv[optind++]);
	return 0;
}
