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
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE	51
#endif

#define BACKLOG		4096
#define NSEC_PER_SEC	1000000000ULL

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- sockets ---- */

static int family = AF_INET;
static unsigned int server_port = 7000;
static int listener = -1;
static uint32_t own_range;

/* Sockets kept open until "close". */
static int *held;
static size_t nheld, held_room;

static void hold(int fd)
{
	if (nheld == held_room) {
		held_room = held_room ? 2 * held_room : 1024;
		held = realloc(held, held_room * sizeof(*held));
		if (!held)
			err(1, "out of memory");
	}
	held[nheld++] = fd;
}

/* The port is at the same place in both. */
union address {
	struct sockaddr_in6 in6;
	struct sockaddr_in in;
	struct sockaddr sa;
};

static socklen_t loopback(union address *addr, unsigned int port)
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
	socklen_t len = loopback(&addr, port);
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
	uint64_t ns, min_ns, max_ns;
};

static void count_ns(struct tally *t, uint64_t ns, uint64_t min_ns, uint64_t max_ns)
{
	t->ns += ns;
	if (!t->min_ns || min_ns < t->min_ns)
		t->min_ns = min_ns;
	if (max_ns > t->max_ns)
		t->max_ns = max_ns;
}

/* Returns a connected socket, or -1 if no port is free. */
static int connect_one(struct tally *t, unsigned int from)
{
	union address addr;
	socklen_t len;
	uint64_t ns;
	int fd = new_socket();
	bool connected;

	if (own_range &&
	    setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &own_range, sizeof(own_range)))
		err(1, "IP_LOCAL_PORT_RANGE");
	if (from) {
		len = loopback(&addr, from);
		if (bind(fd, &addr.sa, len))
			err(1, "bind to port %u", from);
	}
	len = loopback(&addr, server_port);
	ns = now_ns();
	connected = !connect(fd, &addr.sa, len);
	ns = now_ns() - ns;
	count_ns(t, ns, ns, ns);
	if (connected) {
		t->connected++;
		return fd;
	}
	if (errno != EADDRNOTAVAIL)
		err(1, "connect");
	t->exhausted++;
	close(fd);
	return -1;
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

static void print_tally(const struct tally *t)
{
	printf("connected=%lu exhausted=%lu ns=%" PRIu64 " min_ns=%" PRIu64 " max_ns=%" PRIu64 "\n",
	       t->connected, t->exhausted, t->ns, t->min_ns, t->max_ns);
}

static void do_connect(unsigned long n, enum fate fate)
{
	struct tally t = { 0 };

	while (n--) {
		int fd = connect_one(&t, 0);

		if (fd >= 0)
			settle_fate(fd, fate);
	}
	print_tally(&t);
}

/* Kernels before 6.3 may not have a port range per socket. */
static bool has_own_range(void)
{
	uint32_t none = 0;
	int fd = new_socket();
	bool has = !setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &none, sizeof(none));

	close(fd);
	return has;
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

/*
 * Opens one connection from each of these ports, with the port chosen by connect(): sets a
 * range of a single port, of the socket if the kernel has that, else of the whole namespace.
 */
static void do_fill(unsigned long first, unsigned long last, unsigned long stride)
{
	struct tally t = { 0 };
	uint32_t before = own_range;
	bool own = has_own_range();
	unsigned long low, high;
	FILE *f = open_range("r");

	if (fscanf(f, "%lu %lu", &low, &high) != 2)
		errx(1, "ip_local_port_range: not two numbers");
	fclose(f);
	for (unsigned long port = first; port <= last; port += stride) {
		int fd;

		if (own)
			own_range = (uint32_t)(port << 16 | port);
		else
			set_range(port, port);
		fd = connect_one(&t, 0);
		if (fd < 0 || local_port(fd) != port)
			errx(1, "port %lu is not free", port);
		settle_fate(fd, HOLD);
	}
	own_range = before;
	if (!own)
		set_range(low, high);
	print_tally(&t);
}

/* Pending connect() calls, which have a port but no answer yet. */
static int *flying;
static unsigned long nflying;

static void do_launch(unsigned long n)
{
	union address addr;
	socklen_t len = loopback(&addr, server_port);
	struct tally t = { 0 };

	free(flying);
	flying = calloc(n, sizeof(*flying));
	if (!flying)
		err(1, "out of memory");
	for (nflying = 0; n--; ) {
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
	print_tally(&t);
}

static void do_land(void)
{
	unsigned long n;

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

static void do_from(unsigned long port)
{
	struct tally t = { 0 };

	settle_fate(connect_one(&t, (unsigned int)port), RESET);
	print_tally(&t);
}

/* ---- concurrent calls ---- */

struct racer {
	pthread_t id;
	unsigned long n;
	void (*once)(struct tally *t);
	struct tally t;
};

static pthread_barrier_t start;

static pthread_t start_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	errno = pthread_create(&id, &attr, fn, arg);
	if (errno)
		err(1, "cannot create a thread");
	pthread_attr_destroy(&attr);
	return id;
}

static void *race(void *arg)
{
	struct racer *racer = arg;

	pthread_barrier_wait(&start);
	for (unsigned long i = 0; i < racer->n; i++)
		racer->once(&racer->t);
	return NULL;
}

static void connect_once(struct tally *t)
{
	int fd = connect_one(t, 0);

	if (fd >= 0)
		reset(fd);
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
static void do_race(unsigned long threads, unsigned long n, void (*once)(struct tally *t))
{
	struct racer *racers = calloc(threads, sizeof(*racers));
	struct tally t = { 0 };

	if (!racers)
		err(1, "out of memory");
	pthread_barrier_init(&start, NULL, (unsigned int)threads);
	for (unsigned long i = 0; i < threads; i++) {
		racers[i].n = n;
		racers[i].once = once;
		racers[i].id = start_thread(race, &racers[i]);
	}
	for (unsigned long i = 0; i < threads; i++) {
		pthread_join(racers[i].id, NULL);
		t.connected += racers[i].t.connected;
		t.exhausted += racers[i].t.exhausted;
		count_ns(&t, racers[i].t.ns, racers[i].t.min_ns, racers[i].t.max_ns);
	}
	drain_listener(50);
	pthread_barrier_destroy(&start);
	free(racers);
	print_tally(&t);
}

/* ---- blocked senders ---- */

/* A socket whose send buffer is full, and the threads that are blocked in send() on it. */
static int full = -1;
static pthread_t *senders;
static unsigned long nsenders;

/* Sends until there is no room and no ACK in flight can make room. */
static void do_stuff(void)
{
	struct tally t = { 0 };
	char bytes[4096] = { 0 };
	int room = 4096;
	bool sent;

	full = connect_one(&t, 0);
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

static void do_send(unsigned long threads)
{
	if (full < 0)
		errx(2, "nothing is stuffed");
	senders = realloc(senders, (nsenders + threads) * sizeof(*senders));
	if (!senders)
		err(1, "out of memory");
	for (unsigned long i = 0; i < threads; i++)
		senders[nsenders++] = start_thread(wait_to_send, NULL);
	printf("senders=%lu\n", nsenders);
}

static void do_unstuff(void)
{
	shutdown(full, SHUT_RDWR);
	full = -1;
	printf("ended=%lu\n", nsenders);
	while (nsenders)
		pthread_join(senders[--nsenders], NULL);
}

/* ---- bind() and listen() ---- */

static void do_bind(unsigned long first, unsigned long last, unsigned long stride)
{
	unsigned long n = 0;

	for (unsigned long port = first; port <= last; port += stride, n++) {
		union address addr;
		socklen_t len = loopback(&addr, (unsigned int)port);
		int fd = new_socket();

		if (bind(fd, &addr.sa, len))
			err(1, "bind to port %lu", port);
		hold(fd);
	}
	printf("bound=%lu\n", n);
}

/*
 * Lets the kernel choose a port, by bind() to port 0 or by listen() without bind(). Returns
 * the socket, or -1 if no port is free.
 */
static int autobind_one(struct tally *t, bool by_listen)
{
	union address addr;
	socklen_t len = loopback(&addr, 0);
	int fd = new_socket();
	uint64_t ns = now_ns();
	bool bound = !(by_listen ? listen(fd, 1) : bind(fd, &addr.sa, len));

	ns = now_ns() - ns;
	count_ns(t, ns, ns, ns);
	if (bound) {
		t->connected++;
		return fd;
	}
	if (errno != EADDRINUSE)
		err(1, "%s", by_listen ? "listen" : "bind");
	t->exhausted++;
	close(fd);
	return -1;
}

static void do_autobind(unsigned long n, bool by_listen)
{
	struct tally t = { 0 };

	while (n--) {
		int fd = autobind_one(&t, by_listen);

		if (fd >= 0)
			hold(fd);
	}
	printf("bound=%lu exhausted=%lu ns=%" PRIu64 " max_ns=%" PRIu64 "\n",
	       t.connected, t.exhausted, t.ns, t.max_ns);
}

static void bind_once(struct tally *t)
{
	int fd = autobind_one(t, false);

	if (fd >= 0)
		close(fd);
}

static void do_close(void)
{
	printf("closed=%zu\n", nheld);
	while (nheld)
		reset(held[--nheld]);
	drain_listener(0);
}

/* Sends a byte from every held socket (by 1), or from every second one (by 2). */
static void do_touch(size_t by)
{
	size_t touched = 0;

	for (size_t i = 0; i < nheld; i += by, touched++)
		if (send(held[i], "", 1, MSG_NOSIGNAL) != 1)
			err(1, "send");
	printf("touched=%zu\n", touched);
}

/* ---- commands ---- */

static const char usage_text[] =
	"Usage: ports [-4 | -6] [-p PORT] [COMMAND]...\n"
	"Connects to itself over loopback. Takes one command per argument, or, without\n"
	"arguments, one per line of stdin:\n"
	"  connect N FATE      open N connections, one after another; FATE of each: hold,\n"
	"                      reset (its port is free at once) or timewait\n"
	"  fill FIRST LAST BY  open and hold a connection from each of these ports, as if\n"
	"                      connect() had chosen it\n"
	"  from PORT           bind() to PORT, connect, reset\n"
	"  launch N            call connect() N times without waiting for answers\n"
	"  land                wait for these answers and hold the connections\n"
	"  race THREADS N      in each of THREADS open N connections and reset each\n"
	"  race0 THREADS N     in each of THREADS bind() N times to port 0\n"
	"  range LOW HIGH      set IP_LOCAL_PORT_RANGE on later connections; 0 0: none\n"
	"  to PORT             listen on PORT, and connect to it from now on\n"
	"  bind FIRST LAST BY  bind() to each of these ports, and hold the sockets\n"
	"  bind0 N             bind() to port 0 N times, and hold the sockets\n"
	"  listen0 N           listen() without bind() N times, and hold the sockets\n"
	"  touch               send a byte from both ends of held connections\n"
	"  touch connecting    send a byte only from the connecting ends\n"
	"  stuff               open and hold a connection, and fill its send buffer\n"
	"  send N              start N more threads that block in send() on it\n"
	"  unstuff             shut that connection down, which wakes its senders\n"
	"  close               reset all held sockets, and those that nobody accepted\n";

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

static enum fate fate(const char *text)
{
	if (!strcmp(text, "hold"))
		return HOLD;
	if (!strcmp(text, "reset"))
		return RESET;
	if (!strcmp(text, "timewait"))
		return TIMEWAIT;
	errx(2, "'%s' is not hold, reset or timewait", text);
}

static void run(char *line)
{
	const char *word[5] = { 0 };
	char *rest = line;
	int n = 0;

	while (n < 5 && (word[n] = strtok_r(rest, " \t\n", &rest)))
		n++;
	if (!n)
		return;
	if (!strcmp(word[0], "connect") && n == 3) {
		do_connect(number(word[1]), fate(word[2]));
	} else if (!strcmp(word[0], "fill") && n == 4 && number(word[3])) {
		do_fill(number(word[1]), number(word[2]), number(word[3]));
	} else if (!strcmp(word[0], "from") && n == 2) {
		do_from(number(word[1]));
	} else if (!strcmp(word[0], "race") && n == 3 && number(word[1])) {
		if (number(word[1]) * number(word[2]) > BACKLOG)
			errx(2, "race can do %d connections", BACKLOG);
		do_race(number(word[1]), number(word[2]), connect_once);
	} else if (!strcmp(word[0], "race0") && n == 3 && number(word[1])) {
		do_race(number(word[1]), number(word[2]), bind_once);
	} else if (!strcmp(word[0], "launch") && n == 2) {
		if (number(word[1]) > BACKLOG)
			errx(2, "launch can do %d connections", BACKLOG);
		do_launch(number(word[1]));
	} else if (!strcmp(word[0], "land") && n == 1) {
		do_land();
	} else if (!strcmp(word[0], "range") && n == 3) {
		own_range = (uint32_t)(number(word[2]) << 16 | number(word[1]));
		printf("range=%lu-%lu\n", number(word[1]), number(word[2]));
	} else if (!strcmp(word[0], "to") && n == 2) {
		connect_to((unsigned int)number(word[1]));
		printf("to=%u\n", server_port);
	} else if (!strcmp(word[0], "bind") && n == 4 && number(word[3])) {
		do_bind(number(word[1]), number(word[2]), number(word[3]));
	} else if (!strcmp(word[0], "bind0") && n == 2) {
		do_autobind(number(word[1]), false);
	} else if (!strcmp(word[0], "listen0") && n == 2) {
		do_autobind(number(word[1]), true);
	} else if (!strcmp(word[0], "touch") && n == 1) {
		do_touch(1);
	} else if (!strcmp(word[0], "touch") && n == 2 && !strcmp(word[1], "connecting")) {
		do_touch(2);
	} else if (!strcmp(word[0], "stuff") && n == 1) {
		do_stuff();
	} else if (!strcmp(word[0], "send") && n == 2) {
		do_send(number(word[1]));
	} else if (!strcmp(word[0], "unstuff") && n == 1) {
		do_unstuff();
	} else if (!strcmp(word[0], "close") && n == 1) {
		do_close();
	} else {
		errx(2, "cannot parse command '%s'; see ports -h", word[0]);
	}
	if (fflush(stdout))
		err(1, "cannot write an answer");
}

static void raise_file_limit(void)
{
	struct rlimit most = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_NOFILE, &most) && !getrlimit(RLIMIT_NOFILE, &most)) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;
	int opt;

	while ((opt = getopt(argc, argv, "46p:h")) != -1) {
		switch (opt) {
		case '4':
			family = AF_INET;
			break;
		case '6':
			family = AF_INET6;
			break;
		case 'p':
			server_port = (unsigned int)number(optarg);
			break;
		case 'h':
			fputs(usage_text, stdout);
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
