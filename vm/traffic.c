// SPDX-License-Identifier: GPL-2.0
/*
 * traffic: TCP workloads with known effects on the kernel's ACK machinery.
 *
 * Tests, demos and measurements use it to drive the kernel. It produces the
 * same segments every time, checks every byte count, and ends only when it
 * succeeded, failed or ran out of time. By default it forks: the child is the
 * server, the parent the client. --server and --connect run one side alone, so
 * that the sides can be in different network namespaces; both must then be
 * given the same workload, -n, -c, -s and --reply, since the connection carries
 * only the workload's own bytes.
 *
 * A workload is a pair of functions and one line in workloads[]. The program is
 * linked statically and uses no resolver, so it runs in a guest without a libc.
 */

#include <argp.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "program.h"

#define NSEC_PER_MSEC	1000000ULL

/* Up to 2^10 ns, 2^11 ns, ..., 2^30 ns, and more, like tcplat's time histograms. */
#define HIST_BUCKETS	22

/* Room for an HTTP header, or for one read of anything else. */
#define SCRATCH		65536

enum direction { UP, DOWN, BOTH };
#define NOT_SET	ULONG_MAX

enum again { LEVEL, EDGE, TWICE, URING, LEAVE };

struct options {
	const struct workload *w;
	union address addr;		/* to listen on, or to connect to */
	socklen_t addrlen;
	unsigned long port;
	unsigned long n;
	unsigned long connections;
	unsigned long size;
	unsigned long reply;
	unsigned long writes;
	unsigned long interval_ms;
	unsigned long hold_ms;
	unsigned long timeout_s;
	unsigned long slow_ms, slower_ms;
	unsigned long rcvbuf;
	unsigned long sndbuf;
	unsigned long rcvlowat;
	unsigned long backlog;
	unsigned long direction, again;	/* of the enums */
	unsigned long quickack;		/* NOT_SET: do not set */
	const char *bind, *connect;
	bool ipv4, ipv6;
	bool server;
	bool quickack_once;
	bool defer_accept;
	bool nodelay;
	bool cork;
	bool settle;
	bool forever;			/* no timeout; serve any number of connections */
};

/* One side of a connection; owned by one thread. */
struct conn {
	const struct options *o;
	int fd;
	unsigned long index;		/* of the thread, from 0 */
	uint64_t received;
	uint64_t *samples;		/* ns, room for o->n */
	unsigned long nsamples;
	char *scratch;
};

struct workload {
	const char *name;
	void (*client)(struct conn *c);
	void (*server)(struct conn *c);
	struct options o;		/* the defaults that are not those of all */
	unsigned long max_size;		/* 0: no limit */
	bool until_acked, paced;	/* for send_messages(), read_messages() */
	/* a thread on each side sets TCP_QUICKACK continuously */
	bool storm;
	/* client() opens n connections itself; server() is called for each */
	bool reconnects;
	/* a server without a client does not end */
	bool forever;
	const char *help;
};

static char zeroes[SCRATCH];

static void sleep_ms(unsigned long ms)
{
	usleep((useconds_t)ms * 1000);
}

/* ---- bytes ---- */

static void send_bytes(struct conn *c, const void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t r = send(c->fd, (const char *)data + done, len - done, MSG_NOSIGNAL);

		if (r == -1)
			err(1, "send");
		done += (size_t)r;
	}
}

/* Workloads rely on this being one write(2) for any len up to SCRATCH. */
static void send_exactly(struct conn *c, unsigned long len)
{
	while (len) {
		size_t chunk = len < sizeof(zeroes) ? len : sizeof(zeroes);

		send_bytes(c, zeroes, chunk);
		len -= chunk;
	}
}

static void set_int(int fd, int level, int name, int value, const char *what)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) == -1)
		err(1, "setsockopt(%s, %d)", what, value);
}

/* Takes neither the socket's lock nor its data. */
static void wait_readable(struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	if (poll(&p, 1, -1) == -1)
		err(1, "poll");
}

/* Returns 0 at end of file. */
static size_t recv_some(struct conn *c, void *buf, size_t room)
{
	ssize_t r;

	if (c->o->quickack != NOT_SET && !(c->o->quickack_once && c->received))
		set_int(c->fd, IPPROTO_TCP, TCP_QUICKACK, (int)c->o->quickack, "TCP_QUICKACK");
	/* SO_RCVLOWAT would not wake a recv() that has already taken some of the data. */
	if (c->o->rcvlowat)
		wait_readable(c);
	r = recv(c->fd, buf, room, 0);
	if (r == -1)
		err(1, "recv, after %" PRIu64 " bytes", c->received);
	c->received += (uint64_t)r;
	return (size_t)r;
}

static void recv_exactly(struct conn *c, unsigned long len)
{
	unsigned long left = len;

	while (left) {
		size_t room = left < SCRATCH ? left : SCRATCH;
		size_t r = recv_some(c, c->scratch, room);

		if (!r)
			errx(1, "the peer closed %lu bytes before the end of a message of %lu",
			     left, len);
		left -= r;
	}
}

static void expect_eof(struct conn *c)
{
	if (recv_some(c, c->scratch, SCRATCH))
		errx(1, "the peer sent more bytes than this workload has");
}

/* Sends and receives at the same time in one thread. */
static void pump(struct conn *c, uint64_t out, uint64_t in)
{
	while (out || in) {
		struct pollfd p = {
			.fd = c->fd,
			.events = (short)((out ? POLLOUT : 0) | (in ? POLLIN : 0)),
		};

		if (poll(&p, 1, -1) == -1)
			err(1, "poll");
		if (in && (p.revents & (POLLIN | POLLHUP | POLLERR))) {
			size_t room = in < SCRATCH ? (size_t)in : SCRATCH;
			size_t r = recv_some(c, c->scratch, room);

			if (!r)
				errx(1, "the peer closed %" PRIu64 " bytes early", in);
			in -= r;
		}
		if (out && (p.revents & (POLLOUT | POLLERR))) {
			size_t len = out < c->o->size ? (size_t)out : c->o->size;
			ssize_t r;

			if (len > sizeof(zeroes))
				len = sizeof(zeroes);
			r = send(c->fd, zeroes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (r == -1 && errno != EAGAIN)
				err(1, "send");
			if (r > 0)
				out -= (uint64_t)r;
		}
	}
}

static void sample(struct conn *c, uint64_t start)
{
	if (c->nsamples >= c->o->n)
		errx(1, "more samples than transactions");
	c->samples[c->nsamples++] = now_ns() - start;
}

/* ---- sockets ---- */

/* Set buffer sizes before connect and listen: they determine the window scale. */
static int new_socket(const struct options *o)
{
	int fd = socket(o->addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		err(1, "socket");
	if (o->rcvbuf)
		set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)o->rcvbuf, "SO_RCVBUF");
	if (o->sndbuf)
		set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)o->sndbuf, "SO_SNDBUF");
	if (o->rcvlowat)
		set_int(fd, SOL_SOCKET, SO_RCVLOWAT, (int)o->rcvlowat, "SO_RCVLOWAT");
	/* On a client this delays the ACK that completes the handshake. */
	if (o->defer_accept)
		set_int(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5, "TCP_DEFER_ACCEPT");
	return fd;
}

static int do_listen(struct options *o)
{
	int fd = new_socket(o);

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (o->addr.sa.sa_family == AF_INET6)
		set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
	if (bind(fd, &o->addr.sa, o->addrlen) == -1)
		err(1, "bind to port %lu", o->port);
	if (listen(fd, (int)o->backlog) == -1)
		err(1, "listen");
	if (getsockname(fd, &o->addr.sa, &o->addrlen) == -1)
		err(1, "getsockname");
	o->port = ntohs(o->addr.in.sin_port);
	return fd;
}

static void conn_open(struct conn *c)
{
	const struct options *o = c->o;

	c->fd = new_socket(o);
	if (o->nodelay)
		set_int(c->fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	if (connect(c->fd, &o->addr.sa, o->addrlen) == -1)
		err(1, "connect to port %lu", o->port);
}

static void conn_accept(struct conn *c, int listener)
{
	do {
		c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	} while (c->fd == -1 && errno == ECONNABORTED);
	if (c->fd == -1)
		err(1, "accept");
	if (c->o->nodelay)
		set_int(c->fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
}

static void conn_close(struct conn *c)
{
	if (close(c->fd) == -1)
		err(1, "close");
	c->fd = -1;
}

/* ---- the workloads ---- */

static void pause_between(struct conn *c, unsigned long i)
{
	if (c->o->interval_ms && i + 1 < c->o->n)
		sleep_ms(c->o->interval_ms);
}

/* Sends a request in so many writes, with a pause of hold_ms after the first. */
static void send_request(struct conn *c, unsigned long writes)
{
	const struct options *o = c->o;

	for (unsigned long i = 0; i < writes; i++) {
		send_exactly(c, o->size * (i + 1) / writes - o->size * i / writes);
		if (!i && writes > 1)
			sleep_ms(o->hold_ms);
	}
}

static void exchange(struct conn *c, unsigned long writes)
{
	for (unsigned long i = 0; i < c->o->n; i++) {
		uint64_t start = now_ns();

		send_request(c, writes);
		recv_exactly(c, c->o->reply);
		sample(c, start);
		pause_between(c, i);
	}
}

static void rr_client(struct conn *c)
{
	exchange(c, c->o->writes);
}

static void rr_server(struct conn *c)
{
	unsigned long n = c->o->w->reconnects ? 1 : c->o->n;

	for (unsigned long i = 0; i < n; i++) {
		recv_exactly(c, c->o->size);
		send_exactly(c, c->o->reply);
	}
}

/* Toggles TCP_QUICKACK continuously from another thread while the socket's owner talks. */
struct storm {
	int fd;
	atomic_bool over;
};

static void *storm_thread(void *arg)
{
	struct storm *storm = arg;

	for (int on = 1; !atomic_load(&storm->over); on = !on)
		set_int(storm->fd, IPPROTO_TCP, TCP_QUICKACK, on, "TCP_QUICKACK");
	return NULL;
}

/* One side of the workload. */
static void talk(struct conn *c, void (*side)(struct conn *c))
{
	struct storm storm = { .fd = c->fd };
	pthread_t thread = 0;

	if (c->o->w->storm)
		thread = start_thread(storm_thread, &storm);
	side(c);
	if (c->o->w->storm) {
		atomic_store(&storm.over, true);
		pthread_join(thread, NULL);
	}
}

/* Polls until the peer has acknowledged everything; a socket is not woken for that. */
static void wait_acked(struct conn *c)
{
	int left;

	for (;;) {
		if (ioctl(c->fd, SIOCOUTQ, &left) == -1)
			err(1, "ioctl(SIOCOUTQ)");
		if (!left)
			return;
		usleep(500);
	}
}

/*
 * Measures send(), or the time from a message's first byte until all of it is acknowledged
 * (until_acked). If paced, sleeps after the last message too, so that its ACK is as late as the
 * others'.
 */
static void send_messages(struct conn *c)
{
	for (unsigned long i = 0; i < c->o->n; i++) {
		uint64_t start = now_ns();

		send_request(c, c->o->writes);
		if (c->o->w->until_acked)
			wait_acked(c);
		sample(c, start);
		if (c->o->w->paced)
			sleep_ms(c->o->interval_ms);
	}
}

/*
 * Reading a small message makes the kernel acknowledge it, outside of pingpong
 * mode. Only messages left unread are acknowledged by the timer.
 */
static void read_messages(struct conn *c)
{
	unsigned long unread_ms = c->o->w->until_acked ? c->o->interval_ms : c->o->hold_ms;

	for (unsigned long i = 0; i < c->o->n; i++) {
		if (unread_ms) {
			wait_readable(c);
			sleep_ms(unread_ms);
		}
		recv_exactly(c, c->o->size);
	}
}

/*
 * The last side to have received everything confirms with one byte. A client that
 * only sends would otherwise measure how fast it fills its own send buffer.
 */
static void bulk_client(struct conn *c)
{
	uint64_t total = (uint64_t)c->o->n * c->o->size;
	uint64_t start = now_ns();

	pump(c, c->o->direction != DOWN ? total : 0, c->o->direction != UP ? total : 0);
	recv_exactly(c, 1);
	sample(c, start);
}

static void bulk_server(struct conn *c)
{
	uint64_t total = (uint64_t)c->o->n * c->o->size;

	pump(c, c->o->direction != UP ? total : 0, c->o->direction != DOWN ? total : 0);
	send_exactly(c, 1);
}

static void read_in_parts(struct conn *c, unsigned long parts, unsigned long pause_ms)
{
	for (unsigned long i = 0; i < parts; i++) {
		sleep_ms(pause_ms);
		recv_exactly(c, (c->o->n * (i + 1) / parts - c->o->n * i / parts) * c->o->size);
	}
}

static void slowreader_server(struct conn *c)
{
	read_in_parts(c, c->o->n, c->o->interval_ms);
}

/*
 * Reads fast, except for a pause of --hold before each tenth of the data: most send()
 * calls take no time, and those that find the buffer full wait for nearly all of it.
 */
static void stream_server(struct conn *c)
{
	read_in_parts(c, 10, c->o->hold_ms);
}

/*
 * The server reads only after --hold without new data. Measures the n send() calls that
 * time out after --interval (SO_SNDTIMEO), having sent some of their bytes or none.
 */
static void full_client(struct conn *c)
{
	struct timeval limit = {
		.tv_sec = (time_t)(c->o->interval_ms / 1000),
		.tv_usec = (suseconds_t)(c->o->interval_ms % 1000 * 1000),
	};
	unsigned long left = c->o->n;

	if (setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == -1)
		err(1, "setsockopt(SO_SNDTIMEO)");
	while (left) {
		uint64_t start = now_ns();
		ssize_t r = send(c->fd, zeroes, c->o->size, MSG_NOSIGNAL);

		if (r == -1 && errno != EAGAIN)
			err(1, "send");
		if (r == (ssize_t)c->o->size)
			continue;
		sample(c, start);
		left--;
	}
}

/*
 * Waits until the receive queue has not grown for --hold. A sender that fills its buffer
 * slowly would otherwise meet a server that already reads, and never time out.
 */
static void full_server(struct conn *c)
{
	int before, queued = -1;

	do {
		before = queued;
		sleep_ms(c->o->hold_ms);
		if (ioctl(c->fd, FIONREAD, &queued) == -1)
			err(1, "ioctl(FIONREAD)");
	} while (!queued || queued != before);
	while (recv_some(c, c->scratch, SCRATCH))
		;
}

/* An io_uring for one request at a time: its only entry is that of every slot. */
struct uring {
	int fd;
	struct io_uring_params p;
	struct io_uring_sqe *sqe;
	char *rings;
};

/* The rings of one request, and its entry, take less than a page each. */
static void *uring_map(int fd, uint64_t what)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		       (off_t)what);

	if (p == MAP_FAILED)
		err(1, "mmap of an io_uring");
	return p;
}

static void uring_open(struct uring *u)
{
	u->fd = (int)syscall(SYS_io_uring_setup, 1, &u->p);
	if (u->fd == -1)
		err(1, "io_uring_setup");
	/* Both rings are in one mapping since Linux 5.4. */
	u->rings = uring_map(u->fd, IORING_OFF_SQ_RING);
	u->sqe = uring_map(u->fd, IORING_OFF_SQES);
}

/* Sends one request and waits for it: where a program would poll, the kernel waits. */
static ssize_t uring_send(struct uring *u, int fd, size_t len)
{
	uint32_t *tail = (uint32_t *)(u->rings + u->p.sq_off.tail);
	uint32_t *head = (uint32_t *)(u->rings + u->p.cq_off.head);
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(u->rings + u->p.cq_off.cqes);
	int result;

	*u->sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_SEND,
		.fd = fd,
		.addr = (uintptr_t)zeroes,
		.len = (uint32_t)len,
		.msg_flags = MSG_NOSIGNAL,
	};
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, u->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == -1)
		err(1, "io_uring_enter");
	result = cqes[*head % u->p.cq_entries].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	if (result < 0)
		errx(1, "send by io_uring: %s", strerror(-result));
	return result;
}

static bool writable(int epoll, int timeout_ms)
{
	struct epoll_event event;
	int r = epoll_wait(epoll, &event, 1, timeout_ms);

	if (r == -1)
		err(1, "epoll_wait");
	if (r && event.events != EPOLLOUT)
		errx(1, "epoll_wait: events %#x", event.events);
	return r;
}

/*
 * Waits for room, as seen by a program that does not block. unsure counts sends that took
 * some bytes during a wait: it may have been two waits, or two such waits one.
 */
struct again_seen {
	unsigned long waits, refused, gave_up, unsure;
	uint64_t since, sum, max;	/* ns; since: 0 while there is room */
};

static void again_refused(struct again_seen *seen, uint64_t at)
{
	seen->refused++;
	if (!seen->since)
		seen->since = at;
}

static void again_over(struct again_seen *seen, uint64_t at)
{
	uint64_t took = at - seen->since;

	seen->waits++;
	seen->sum += took;
	if (took > seen->max)
		seen->max = took;
	seen->since = 0;
}

/*
 * A send() that does not block and takes less than it was given has found no room. --again
 * selects what follows: epoll_wait() until there is room (level, edge), the same after two more
 * attempts at once (twice), an immediate attempt with io_uring, which waits by itself (uring),
 * or the end after --hold without room (leave). A later attempt may find a little room or be
 * the first to find much; the two cases cannot be told apart.
 */
static void again_client(struct conn *c)
{
	const struct options *o = c->o;
	struct epoll_event event = { .events = EPOLLOUT | (o->again == EDGE ? EPOLLET : 0) };
	int patience = o->again == LEAVE ? (int)o->hold_ms : o->again == URING ? 0 : -1;
	int tries = 0;
	uint64_t left = (uint64_t)o->n * o->size;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct again_seen seen = { 0 };
	uint64_t start = now_ns();
	struct uring uring = { .fd = -1 };

	if (epoll == -1 || epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) == -1)
		err(1, "epoll");
	if (o->again == URING)
		uring_open(&uring);
	/* Consume the initial event: a new connection has room. */
	if (!writable(epoll, -1))
		errx(1, "a new connection is not writable");
	while (left) {
		size_t len = left < o->size ? (size_t)left : o->size;
		uint64_t at = now_ns();
		ssize_t r = send(c->fd, zeroes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r == -1 && errno != EAGAIN)
			err(1, "send");
		if (r > 0) {
			seen.unsure += !!seen.since;
			left -= (uint64_t)r;
		}
		if (r == (ssize_t)len)
			continue;
		again_refused(&seen, at);
		if (o->again == TWICE && ++tries % 3)
			continue;
		while (seen.since && left) {
			if (writable(epoll, patience)) {
				again_over(&seen, now_ns());
				break;
			}
			if (o->again != URING)
				break;
			len = left < o->size ? (size_t)left : o->size;
			seen.refused++;
			r = uring_send(&uring, c->fd, len);
			at = now_ns();
			left -= (uint64_t)r;
			again_over(&seen, at);
			if (r < (ssize_t)len) {
				seen.unsure++;
				again_refused(&seen, at);
			}
		}
		if (seen.since && o->again == LEAVE)
			break;
	}
	seen.gave_up = !!seen.since;
	/* One call, so that the lines of two threads do not mix. */
	printf("again waits=%lu refused=%lu gave_up=%lu unsure=%lu sum_ns=%" PRIu64
	       " max_ns=%" PRIu64 "\n", seen.waits, seen.refused, seen.gave_up, seen.unsure,
	       seen.sum, seen.max);
	sample(c, start);
}

/* Reads until end of file: the sender may stop early. */
static void again_server(struct conn *c)
{
	do {
		sleep_ms(c->o->interval_ms);
	} while (recv_some(c, c->scratch, c->o->size));
}

/* Gets the congestion window and the number of unacknowledged packets. */
static void sender_state(struct conn *c, uint32_t *cwnd, uint32_t *unacked)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == -1)
		err(1, "getsockopt(TCP_INFO)");
	*cwnd = info.tcpi_snd_cwnd;
	*unacked = info.tcpi_unacked;
}

/*
 * Sends a request of size bytes, which grows the congestion window, a request of one byte,
 * nothing for --interval, and one more byte, before which the kernel may cut the window. The
 * loss is certain while that last byte is not acknowledged. The idle time between the last two
 * bytes is at least from send() to send() and at most from call to return.
 */
static void idle_client(struct conn *c)
{
	for (unsigned long i = 0; i < c->o->n; i++) {
		uint32_t before, after, unacked;
		uint64_t start, first, second, last;

		start = now_ns();
		send_exactly(c, c->o->size);
		recv_exactly(c, 1);
		sample(c, start);
		start = now_ns();
		send_exactly(c, 1);
		first = now_ns();
		recv_exactly(c, 1);
		sleep_ms(c->o->interval_ms);
		sender_state(c, &before, &unacked);
		if (unacked)
			errx(1, "a segment is not acknowledged after %lu ms of silence",
			     c->o->interval_ms);
		second = now_ns();
		send_exactly(c, 1);
		last = now_ns();
		sender_state(c, &after, &unacked);
		/* One call, as in again_client(). */
		printf("idle cwnd_before=%u cwnd_after=%u sure=%d idle_min_us=%" PRIu64
		       " idle_max_us=%" PRIu64 "\n", before, after, unacked == 1,
		       (second - first) / 1000, (last - start) / 1000);
		recv_exactly(c, 1);
	}
}

static void idle_server(struct conn *c)
{
	for (unsigned long i = 0; i < c->o->n; i++) {
		recv_exactly(c, c->o->size);
		send_exactly(c, 1);
		recv_exactly(c, 1);
		send_exactly(c, 1);
		recv_exactly(c, 1);
		send_exactly(c, 1);
	}
}

static void crr_client(struct conn *c)
{
	for (unsigned long i = 0; i < c->o->n; i++) {
		uint64_t start = now_ns();

		conn_open(c);
		send_exactly(c, c->o->size);
		recv_exactly(c, c->o->reply);
		conn_close(c);
		sample(c, start);
		pause_between(c, i);
	}
}

/* Both have the same server, which answers a complete request however it was split. */
static void parallel_client(struct conn *c)
{
	exchange(c, c->index % 2 ? c->o->writes : 1);
}

/*
 * One request and reply, silence, then the client's FIN alone. The server stays
 * idle for another hold_ms, so that only the delayed-ACK timer can acknowledge
 * the FIN.
 */
static void halfclose_client(struct conn *c)
{
	rr_client(c);
	sleep_ms(c->o->interval_ms);
	if (shutdown(c->fd, SHUT_WR) == -1)
		err(1, "shutdown");
	expect_eof(c);
}

static void halfclose_server(struct conn *c)
{
	rr_server(c);
	sleep_ms(c->o->interval_ms + c->o->hold_ms);
}

/*
 * Makes the receiver own its socket while the delayed-ACK timer fires: recv()
 * holds the socket's lock while it copies, and the copy faults on a page that
 * a second thread fills only hold_ms later (userfaultfd).
 */
struct late_page {
	const struct options *o;
	int uffd;
	void *page;
	size_t size;
};

static void *late_page_fill(void *arg)
{
	struct late_page *lp = arg;

	for (unsigned long i = 0; i < lp->o->n; i++) {
		struct uffdio_zeropage zero = {
			.range = { .start = (uintptr_t)lp->page, .len = lp->size },
		};
		struct uffd_msg msg;

		if (read(lp->uffd, &msg, sizeof(msg)) != (ssize_t)sizeof(msg) ||
		    msg.event != UFFD_EVENT_PAGEFAULT)
			errx(1, "userfaultfd: no page fault to answer");
		sleep_ms(lp->o->hold_ms);
		if (ioctl(lp->uffd, UFFDIO_ZEROPAGE, &zero) == -1)
			err(1, "UFFDIO_ZEROPAGE");
	}
	return NULL;
}

/* The first exchange is not delayed: until it ends the server is not known to be ready. */
static void owned_client(struct conn *c)
{
	send_exactly(c, c->o->size);
	recv_exactly(c, c->o->reply);
	rr_client(c);
}

static void owned_server(struct conn *c)
{
	struct late_page lp = {
		.o = c->o,
		.size = (size_t)sysconf(_SC_PAGESIZE),
	};
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t filler;

	lp.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (lp.uffd == -1)
		err(1, "userfaultfd, which needs root and CONFIG_USERFAULTFD");
	lp.page = mmap(NULL, lp.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (lp.page == MAP_FAILED)
		err(1, "mmap");
	reg.range.start = (uintptr_t)lp.page;
	reg.range.len = lp.size;
	if (ioctl(lp.uffd, UFFDIO_API, &api) == -1 ||
	    ioctl(lp.uffd, UFFDIO_REGISTER, &reg) == -1)
		err(1, "userfaultfd");
	filler = start_thread(late_page_fill, &lp);

	/*
	 * Set pingpong mode, or the connection's first ACKs would be sent at
	 * once (quickack) without the timer. A timeout ends pingpong mode, so
	 * it is set again each time.
	 */
	recv_exactly(c, c->o->size);
	set_int(c->fd, IPPROTO_TCP, TCP_QUICKACK, 0, "TCP_QUICKACK");
	send_exactly(c, c->o->reply);
	for (unsigned long i = 0; i < c->o->n; i++) {
		wait_readable(c);
		if (recv_some(c, lp.page, c->o->size) != c->o->size)
			errx(1, "a message came in pieces");
		if (madvise(lp.page, lp.size, MADV_DONTNEED) == -1)
			err(1, "madvise");
		set_int(c->fd, IPPROTO_TCP, TCP_QUICKACK, 0, "TCP_QUICKACK");
		send_exactly(c, c->o->reply);
	}
	pthread_join(filler, NULL);
}

/*
 * Reads a request into the scratch buffer; false if the peer closed instead. No client sends
 * another one before it has the answer.
 */
static bool http_request(struct conn *c)
{
	size_t used = 0;

	do {
		size_t r = recv_some(c, c->scratch + used, SCRATCH - 1 - used);

		if (!r && used)
			errx(1, "not the end of an HTTP request after %zu bytes", used);
		if (!r)
			return false;
		used += r;
		c->scratch[used] = '\0';
	} while (!strstr(c->scratch, "\r\n\r\n"));
	return true;
}

static void http_header(const struct conn *c, char (*header)[256], bool keep)
{
	snprintf(*header, sizeof(*header),
		 "HTTP/1.0 200 OK\r\n"
		 "Content-Type: application/octet-stream\r\n"
		 "Content-Length: %lu\r\n"
		 "Connection: %s\r\n\r\n", c->o->size, keep ? "keep-alive" : "close");
}

/*
 * Writes each answer in two small writes, header and body. Without TCP_NODELAY the
 * body waits for the header's ACK.
 */
static void http_server(struct conn *c)
{
	bool keep = true;
	char header[256];

	while (keep && http_request(c)) {
		keep = strcasestr(c->scratch, "\r\nConnection: keep-alive\r\n");
		http_header(c, &header, keep);
		sleep_ms(c->o->hold_ms);
		if (c->o->cork)
			set_int(c->fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");
		send_bytes(c, header, strlen(header));
		send_exactly(c, c->o->size);
		if (c->o->cork)
			set_int(c->fd, IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK");
	}
	if (!keep && shutdown(c->fd, SHUT_WR) == -1 && errno != ENOTCONN)
		err(1, "shutdown");
}

static void http_client(struct conn *c)
{
	static const char get[] = "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
	char header[256];

	http_header(c, &header, true);
	for (unsigned long i = 0; i < c->o->n; i++) {
		uint64_t start = now_ns();

		send_bytes(c, get, sizeof(get) - 1);
		recv_exactly(c, strlen(header) + c->o->size);
		sample(c, start);
		pause_between(c, i);
	}
}

static const struct workload workloads[] = {
	{ "wwr", rr_client, rr_server, { .n = 50, .size = 200, .reply = 100, .writes = 2 },
	  .help = "write, write, read: header, pause of --hold, body, then read the reply" },
	{ "rr", rr_client, rr_server, { .n = 1000, .size = 16, .reply = 16 },
	  .help = "request/response: one write each way" },
	{ "storm", rr_client, rr_server, { .n = 1000, .size = 16, .reply = 16 }, .storm = true,
	  .help = "rr while a thread on each side sets TCP_QUICKACK to 1 and 0 continuously" },
	{ "oneway", send_messages, read_messages, { .n = 20, .size = 100, .interval_ms = 100 },
	  .paced = true,
	  .help = "a small message every --interval, read after --hold" },
	{ "upload", send_messages, read_messages, { .n = 50, .size = 200, .writes = 2 },
	  .paced = true, .until_acked = true,
	  .help = "write, --hold, write, wait for the ACK, --interval; read after --interval" },
	{ "bulk", bulk_client, bulk_server, { .n = 256, .size = 65536 },
	  .help = "n x size bytes at full speed (--direction up, down or both)" },
	{ "slowreader", send_messages, slowreader_server,
	  { .n = 100, .size = 4096, .interval_ms = 20, .rcvbuf = 16384 },
	  .help = "the server reads size bytes every --interval; the window fills" },
	{ "stream", send_messages, stream_server,
	  { .n = 10000, .size = 256, .hold_ms = 50, .rcvbuf = 65536 },
	  .help = "messages at full speed; the reader pauses ten times for --hold" },
	{ "full", full_client, full_server,
	  { .n = 3, .size = 4096, .interval_ms = 100, .hold_ms = 1000, .rcvbuf = 4096 },
	  .help = "n send() time out after --interval; read after --hold without data" },
	{ "again", again_client, again_server,
	  { .n = 40, .size = 16384, .interval_ms = 20, .hold_ms = 5, .rcvbuf = 16384 },
	  .max_size = SCRATCH,
	  .help = "slowreader, sender does not block (--again); prints the waits it saw" },
	{ "idle", idle_client, idle_server, { .n = 3, .size = 500000, .interval_ms = 1500 },
	  .help = "size bytes, silence for --interval, one byte; prints cwnd before and after" },
	{ "crr", crr_client, rr_server, { .n = 100, .size = 16, .reply = 16 }, .reconnects = true,
	  .help = "connect, request, response, close: n connections one after another" },
	{ "parallel", parallel_client, rr_server,
	  { .n = 10, .connections = 200, .size = 200, .reply = 100, .writes = 2 },
	  .help = "many connections at the same time, half of them rr, half wwr" },
	{ "halfclose", halfclose_client, halfclose_server,
	  { .n = 1, .size = 16, .reply = 16, .interval_ms = 3000, .hold_ms = 1000 },
	  .help = "rr once, silence for --interval, client's FIN; server idle for --hold" },
	{ "owned", owned_client, owned_server, { .n = 20, .size = 16, .reply = 16, .hold_ms = 100 },
	  .max_size = 4096,
	  .help = "the server's recv() holds the socket lock for --hold (userfaultfd)" },
	{ "http", http_client, http_server, { .n = 50, .size = 100 }, .forever = true,
	  .help = "keep-alive HTTP: the server waits --hold, writes a header, then size bytes" },
};

#define NWORKLOADS	ARRAY_SIZE(workloads)

/* ---- running them ---- */

static pthread_barrier_t all_connected;

struct thread {
	pthread_t id;
	struct conn c;
	int listener;
};

static void *client_thread(void *arg)
{
	struct conn *c = &((struct thread *)arg)->c;

	if (!c->o->w->reconnects)
		conn_open(c);
	pthread_barrier_wait(&all_connected);
	talk(c, c->o->w->client);
	if (!c->o->w->reconnects)
		conn_close(c);
	return NULL;
}

static void *server_thread(void *arg)
{
	struct thread *t = arg;
	struct conn *c = &t->c;
	const struct options *o = c->o;
	unsigned long rounds = o->w->reconnects ? o->n : 1;

	for (unsigned long i = 0; o->forever || i < rounds; i++) {
		conn_accept(c, t->listener);
		talk(c, o->w->server);
		expect_eof(c);
		conn_close(c);
	}
	return NULL;
}

/* Runs a side of all connections to its end. */
static struct thread *run(const struct options *o, void *(*fn)(void *), int listener)
{
	struct thread *threads = xcalloc(o->connections, sizeof(*threads));

	for (unsigned long i = 0; i < o->connections; i++) {
		struct thread *t = &threads[i];

		t->c = (struct conn){ .o = o, .fd = -1, .index = i };
		t->c.scratch = xcalloc(1, SCRATCH);
		if (fn == client_thread)
			t->c.samples = xcalloc(o->n, sizeof(uint64_t));
		t->listener = listener;
		t->id = start_thread(fn, t);
	}
	for (unsigned long i = 0; i < o->connections; i++)
		pthread_join(threads[i].id, NULL);
	return threads;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double ms(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_MSEC;
}

static void report(const struct thread *threads, const struct options *o, uint64_t elapsed)
{
	uint64_t sum = 0, slow_sum = 0, *all = NULL;
	unsigned long hist[HIST_BUCKETS] = { 0 };
	size_t n = 0, slow = 0, slower = 0;

	for (unsigned long i = 0; i < o->connections; i++) {
		const struct conn *c = &threads[i].c;

		all = realloc(all, (n + c->nsamples + 1) * sizeof(*all));
		if (!all)
			err(1, "realloc");
		memcpy(all + n, c->samples, c->nsamples * sizeof(*all));
		n += c->nsamples;
	}
	if (!n)
		errx(1, "the workload measured nothing");
	qsort(all, n, sizeof(*all), compare_u64);
	for (size_t i = 0; i < n; i++) {
		size_t bucket = 0;

		while (bucket < HIST_BUCKETS - 1 && all[i] > (uint64_t)1024 << bucket)
			bucket++;
		hist[bucket]++;
		if (all[i] >= o->slow_ms * NSEC_PER_MSEC) {
			slow++;
			slow_sum += all[i];
		}
		slower += all[i] >= o->slower_ms * NSEC_PER_MSEC;
		sum += all[i];
	}
	printf("workload=%s samples=%zu elapsed_ms=%.3f median_ms=%.3f median_ns=%" PRIu64,
	       o->w->name, n, ms(elapsed), ms(all[(n - 1) / 2]), all[(n - 1) / 2]);
	printf(" sum_ns=%" PRIu64 " max_ns=%" PRIu64 " hist_ns=", sum, all[n - 1]);
	for (size_t i = 0; i < HIST_BUCKETS; i++)
		printf("%s%lu", i ? "," : "", hist[i]);
	printf(" slow=%zu slower=%zu slow_ns=%" PRIu64 "\n", slow, slower, slow_sum);
}

/* True while this port has a socket in any state other than TIME_WAIT. */
static bool port_busy(const char *path, unsigned long port)
{
	unsigned long local, remote, state;
	FILE *f = fopen(path, "re");
	bool busy = false;
	char line[512];

	/* A kernel without IPv6 has no tcp6. */
	if (!f)
		return false;
	while (!busy && fgets(line, sizeof(line), f))
		busy = sscanf(line, " %*u: %*[0-9A-Fa-f]:%lx %*[0-9A-Fa-f]:%lx %lx",
			      &local, &remote, &state) == 3 &&
		       (local == port || remote == port) && state != 6;
	fclose(f);
	return busy;
}

/* Polls, since the last segments of closed connections take time. */
static void settle(const struct options *o)
{
	while (o->settle && (port_busy("/proc/self/net/tcp", o->port) ||
			     port_busy("/proc/self/net/tcp6", o->port)))
		sleep_ms(20);
}

static void serve(const struct options *o, int listener)
{
	run(o, server_thread, listener);
	close(listener);
}

static void run_client(const struct options *o, pid_t server)
{
	struct thread *threads;
	uint64_t start;
	int status = 0;

	errno = pthread_barrier_init(&all_connected, NULL, (unsigned int)o->connections);
	if (errno)
		err(1, "cannot create a barrier for %lu threads", o->connections);
	start = now_ns();
	threads = run(o, client_thread, -1);
	start = now_ns() - start;
	if (server && waitpid(server, &status, 0) == -1)
		err(1, "waitpid");
	if (status)
		errx(1, "the server failed");
	settle(o);
	report(threads, o, start);
}

static void run_forked(const struct options *o, int listener)
{
	pid_t parent = getpid();
	pid_t child = fork();

	if (child == -1)
		err(1, "fork");
	if (!child) {
		program_invocation_short_name = "traffic's server";
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		alarm((unsigned int)o->timeout_s);
		serve(o, listener);
		_exit(0);
	}
	close(listener);
	run_client(o, child);
}

/* ---- options ---- */

static const char *const directions[] = { [UP] = "up", "down", "both", NULL };
static const char *const agains[] = { [LEVEL] = "level", "edge", "twice", "uring", "leave", NULL };

/*
 * Each sets a member of struct options: without arg to true, with words to the index of one of
 * these, with max to a number, else to the text.
 */
static const struct setting {
	const char *name, *arg, *help;
	size_t at;
	unsigned long min, max;
	const char *const *words;
} settings[] = {
#define AT(member) .at = offsetof(struct options, member)
	{ "-4", NULL, "use the IPv4 loopback address (default)", AT(ipv4) },
	{ "-6", NULL, "use the IPv6 loopback address", AT(ipv6) },
	{ "-n", "N", "transactions, messages or chunks per connection", AT(n), 1, 100000000 },
	{ "-c", "N", "number of concurrent connections, one thread each",
	  AT(connections), 1, 100000 },
	{ "-s", "BYTES", "size of a request, message, chunk or body", AT(size), 1, 1UL << 30 },
	{ "--reply", "BYTES", "size of a reply", AT(reply), 1, 1UL << 30 },
	{ "--writes", "N", "wwr, upload: number of writes per request (default 2)",
	  AT(writes), 1, 1000 },
	{ "--interval", "MS", "pause between transactions; see the workload",
	  AT(interval_ms), 0, 3600000 },
	{ "--hold", "MS", "see the workload", AT(hold_ms), 0, 3600000 },
	{ "--again", "HOW", "again: level (epoll, default), edge, twice, uring, leave",
	  AT(again), .words = agains },
	{ "--direction", "D", "bulk: up (client to server, default), down, both",
	  AT(direction), .words = directions },
	{ "--nodelay", NULL, "set TCP_NODELAY", AT(nodelay) },
	{ "--cork", NULL, "http: the server sets TCP_CORK until it has written the body",
	  AT(cork) },
	{ "--quickack", "N", "set TCP_QUICKACK to N before each recv(), on both sides",
	  AT(quickack), 0, 2 },
	{ "--quickack-once", NULL, "set it only before the first recv()", AT(quickack_once) },
	{ "--defer-accept", NULL, "set TCP_DEFER_ACCEPT on both sides", AT(defer_accept) },
	{ "--rcvbuf", "BYTES", "set SO_RCVBUF", AT(rcvbuf), 1, 1UL << 30 },
	{ "--sndbuf", "BYTES", "set SO_SNDBUF", AT(sndbuf), 1, 1UL << 30 },
	{ "--rcvlowat", "N", "set SO_RCVLOWAT: wake up only for at least N bytes",
	  AT(rcvlowat), 1, 1UL << 30 },
	{ "--backlog", "N", "length of the server's accept queue (default 4096)",
	  AT(backlog), 1, 65535 },
	{ "--port", "N", "the server's port (default: a free one)", AT(port), 1, 65535 },
	{ "--server", NULL, "run only the server; prints 'port=N' when it listens", AT(server) },
	{ "--bind", "ADDR", "with --server: listen on ADDR (default: loopback)", AT(bind) },
	{ "--connect", "ADDR", "run only the client; needs --port", AT(connect) },
	{ "--settle", NULL, "at the end wait until this port has no socket left in this "
	  "network namespace, except in TIME_WAIT", AT(settle) },
	{ "--slow", "MS", "count measurements of at least MS as slow", AT(slow_ms), 0, 3600000 },
	{ "--slower", "MS", "count measurements of at least MS as slower",
	  AT(slower_ms), 0, 3600000 },
	{ "--timeout", "S", "end by SIGALRM after S seconds (default 120)",
	  AT(timeout_s), 1, 86400 },
#undef AT
};

#define NSETTINGS	ARRAY_SIZE(settings)

static unsigned long number(const char *text, const struct setting *s, struct argp_state *state)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || value < s->min || value > s->max)
		argp_error(state, "%s takes a number from %lu to %lu, not '%s'", s->name, s->min,
			   s->max, text);
	return value;
}

static unsigned long index_of(const char *text, const struct setting *s, struct argp_state *state)
{
	for (unsigned long i = 0; s->words[i]; i++)
		if (!strcmp(text, s->words[i]))
			return i;
	argp_error(state, "%s has no '%s'", s->name, text);
	return 0;
}

static void set(struct options *o, const struct setting *s, const char *text,
		struct argp_state *state)
{
	void *member = (char *)o + s->at;

	if (!o->w)
		argp_error(state, "name a workload first");
	if (!s->arg)
		*(bool *)member = true;
	else if (s->words)
		*(unsigned long *)member = index_of(text, s, state);
	else if (s->max)
		*(unsigned long *)member = number(text, s, state);
	else
		*(const char **)member = text;
}

static void set_workload(struct options *o, const char *name, struct argp_state *state)
{
	const struct workload *w = NULL;

	for (size_t i = 0; i < NWORKLOADS; i++)
		if (!strcmp(name, workloads[i].name))
			w = &workloads[i];
	if (o->w || !w)
		argp_error(state, "unexpected word or unknown workload '%s'", name);
	*o = w->o;
	o->w = w;
	o->connections += !o->connections;
	o->writes += !o->writes;
	o->backlog = 4096;
	o->quickack = NOT_SET;
	o->timeout_s = 120;
}

static void set_address(struct options *o, struct argp_state *state)
{
	const char *text = o->connect ? o->connect : o->bind;

	if (!text)
		text = o->ipv6 ? "::1" : "127.0.0.1";
	if (inet_pton(AF_INET, text, &o->addr.in.sin_addr) == 1) {
		o->addr.sa.sa_family = AF_INET;
		o->addrlen = sizeof(o->addr.in);
	} else if (inet_pton(AF_INET6, text, &o->addr.in6.sin6_addr) == 1) {
		o->addr.sa.sa_family = AF_INET6;
		o->addrlen = sizeof(o->addr.in6);
	} else {
		argp_error(state, "'%s' is not an IPv4 or IPv6 address", text);
	}
	o->addr.in.sin_port = htons((uint16_t)o->port);
}

/* Options of one letter have it as their key, others their number behind 256. */
static int key_of(size_t i)
{
	return settings[i].name[1] == '-' ? 256 + (int)i : settings[i].name[1];
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	for (size_t i = 0; i < NSETTINGS; i++)
		if (key == key_of(i)) {
			set(o, &settings[i], arg, state);
			return 0;
		}
	switch (key) {
	case ARGP_KEY_ARG:
		set_workload(o, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (!o->w)
			argp_error(state, "name a workload");
		if (o->size < o->writes || (o->w->max_size && o->size > o->w->max_size))
			argp_error(state, "%s cannot do -s %lu", o->w->name, o->size);
		if (o->connect && (o->server || o->bind || !o->port))
			argp_error(state, "--connect needs --port and excludes --server and --bind");
		if (o->bind && !o->server)
			argp_error(state, "--bind needs --server");
		set_address(o, state);
		o->forever = o->w->forever && o->server;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	struct argp_option known[NWORKLOADS + NSETTINGS + 3] = { { .doc = "Workloads:" } };
	const struct argp argp = {
		.options = known,
		.parser = parse,
		.args_doc = "WORKLOAD",
		.doc = "TCP workloads for tests and demos of tcplat.\v"
		       "Exit status: 0 if all bytes arrived as planned, 2 for wrong usage, else 1. "
		       "The last line of output has 'key=value' pairs, times in milliseconds; "
		       "hist_ns has counts of measurements in powers of two: up to 2^10 ns, ..., "
		       "up to 2^30 ns, more.",
	};
	struct argp_option *next = &known[1];
	struct options o = { 0 };
	int listener;

	for (size_t i = 0; i < NWORKLOADS; i++)
		*next++ = (struct argp_option){
			.name = workloads[i].name,
			.flags = OPTION_DOC,
			.doc = workloads[i].help,
		};
	*next++ = (struct argp_option){ .doc = "Options:" };
	for (size_t i = 0; i < NSETTINGS; i++)
		*next++ = (struct argp_option){
			.name = settings[i].name[1] == '-' ? settings[i].name + 2 : NULL,
			.key = key_of(i),
			.arg = settings[i].arg,
			.doc = settings[i].help,
		};
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	raise_file_limit();
	if (!o.forever)
		alarm((unsigned int)o.timeout_s);

	if (o.connect) {
		run_client(&o, 0);
	} else {
		listener = do_listen(&o);
		if (o.server) {
			printf("port=%lu\n", o.port);
			fflush(stdout);
			serve(&o, listener);
			settle(&o);
		} else {
			run_forked(&o, listener);
		}
	}
	if (fflush(stdout) || ferror(stdout))
		errx(1, "cannot write the report");
	return 0;
}
