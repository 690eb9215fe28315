// SPDX-License-Identifier: GPL-2.0
/*
 * sockets: makes random system calls on TCP sockets over loopback.
 *
 * Workers are processes of two threads that share a pool of sockets. The seed, the worker
 * and the thread determine what a thread does in its n-th step; the results depend on the
 * other threads and on timing. New connections are made all the time, since earlier calls
 * soon leave few sockets that work. A fuzzer that gets only EINVAL tests nothing, so each
 * kind of call is counted together with its successes.
 *
 * No call may block for long: a thread that is found in the same step twice is interrupted.
 */
#include <argp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/if.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../../vm/program.h"

#define THREADS		2
#define SLOTS		48
#define WORKERS		4
#define NAMES_MAX	32
#define BUFFER		65536
#define AT_ONCE		(MSG_DONTWAIT | MSG_NOSIGNAL)

/* The C library's headers conflict with the kernel's. */
#define SOL_TCP		6
#define SOL_TLS_LEVEL	282

/* ---- reproducible random numbers ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* ---- statistics ---- */

enum kind {
	SOCKET, BIND, LISTEN, CONNECT, DISCONNECT, FASTOPEN, SELFCONNECT, ACCEPT,
	SEND, SENDMSG, RECV, RECVMSG, OOB, ERRQUEUE, ZEROCOPY, EFAULTS,
	SPLICE_IN, SPLICE_OUT, TEE, SENDFILE, ZEROCOPY_RECEIVE,
	SHUTDOWN, CLOSE, RESET, DESTROY, SETSOCKOPT, GETSOCKOPT, QUICKACK, REPAIR, IOCTL,
	DUP, PASS, FORK, SYSCTL, NETNS, PAUSE,
	KINDS
};

static const char * const kinds[] = {
	"socket", "bind", "listen", "connect", "disconnect", "fastopen", "selfconnect",
	"accept", "send", "sendmsg", "recv", "recvmsg", "oob", "errqueue", "zerocopy",
	"efault", "splice_in", "splice_out", "tee", "sendfile", "zerocopy_receive",
	"shutdown", "close", "reset", "destroy", "setsockopt", "getsockopt", "quickack",
	"repair", "ioctl", "dup", "pass", "fork", "sysctl", "netns", "pause",
};

struct shared {
	_Atomic bool stop;
	_Atomic uint64_t steps;
	_Atomic uint64_t calls[KINDS];
	_Atomic uint64_t succeeded[KINDS];
	_Atomic bool option_set[128];
};

static struct shared *shared;

/* Counts a call and returns its result. */
static long did(enum kind kind, long ret)
{
	shared->calls[kind]++;
	if (ret >= 0)
		shared->succeeded[kind]++;
	return ret;
}

/* ---- a thread's state ---- */

struct thread {
	uint64_t seed;
	uint64_t rng;
	pthread_t id;
	_Atomic uint64_t step;
	int pipe[2];
	int pipe2[2];
	int unix_pair[2];
	int file;
	/* Followed by a page that op_map() maps and unmaps. */
	char *buffer;
	char *nowhere;
};

static _Atomic int pool[SLOTS];
static struct thread threads[THREADS];
static bool with_netns = true;

static uint64_t draw(struct thread *t)
{
	t->rng += 0x9e3779b97f4a7c15ULL;
	return mix(t->rng);
}

static unsigned int below(struct thread *t, unsigned int n)
{
	return draw(t) % n;
}

static bool one_in(struct thread *t, unsigned int n)
{
	return !below(t, n);
}

/* Mostly small numbers; sometimes extreme ones. */
static int any_int(struct thread *t)
{
	switch (below(t, 8)) {
	case 0: return 0;
	case 1: return 1;
	case 2: return below(t, 16);
	case 3: return below(t, 4096);
	case 4: return below(t, 1 << 20);
	case 5: return -1;
	case 6: return INT_MAX - below(t, 2);
	default: return draw(t);
	}
}

static size_t any_size(struct thread *t)
{
	switch (below(t, 8)) {
	case 0: return below(t, 4);
	case 1: return below(t, BUFFER + 1);
	case 2: return below(t, 8000);
	default: return 1 + below(t, 300);
	}
}

/* ---- the pool ---- */

static int take(struct thread *t)
{
	return atomic_load(&pool[below(t, SLOTS)]);
}

/* Puts @fd into a random slot and closes the previous socket there. */
static void keep(struct thread *t, int fd)
{
	int old;

	if (fd < 0)
		return;
	old = atomic_exchange(&pool[below(t, SLOTS)], fd);
	if (old >= 0)
		did(CLOSE, close(old));
}

static socklen_t any_address(struct thread *t, union address *a, int family)
{
	socklen_t len = loopback(a, family, 0);

	switch (below(t, 8)) {
	case 0:
		a->in.sin_port = htons(1024 + below(t, 64000));
		break;
	case 1:
		if (family == AF_INET6)
			a->in6.sin6_addr = in6addr_any;
		else
			a->in.sin_addr.s_addr = htonl(INADDR_ANY);
		break;
	case 2:
		if (family == AF_INET6)
			inet_pton(AF_INET6, "::ffff:127.0.0.1", &a->in6.sin6_addr);
		else
			a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + below(t, 16));
		break;
	}
	return len;
}

/* The local address of a socket of the pool, or else an address without a listener. */
static socklen_t peer_address(struct thread *t, union address *a, int fd)
{
	socklen_t len = sizeof(*a);

	memset(a, 0, sizeof(*a));
	if (fd < 0 || getsockname(fd, &a->sa, &len) || a->sa.sa_family == AF_UNSPEC)
		return any_address(t, a, one_in(t, 2) ? AF_INET : AF_INET6);
	if (len > sizeof(*a))
		len = sizeof(*a);
	return len;
}

/* Blocking calls time out after 60 ms at most. */
static int new_socket(struct thread *t, int family, bool blocks)
{
	const struct timeval tv = { .tv_usec = 1000 * (1 + below(t, 60)) };
	int fd;

	fd = did(SOCKET, socket(family, SOCK_STREAM | SOCK_CLOEXEC |
				(blocks ? 0 : SOCK_NONBLOCK), 0));
	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return fd;
}

/* ---- options ---- */

enum value {
	INTS, FLAGS, SMALL, RATES, TIMES, LINGERS, NAMES, BYTES, MD5, REPAIRS, RANGES, KEYS, FILTERS
};

/* Options by level and kind of value. Some do not exist on all kernels or are read-only. */
static const struct {
	int level;
	enum value value;
	int names[20];
} rows[] = {
	{ SOL_SOCKET, FLAGS, {
		SO_DEBUG, SO_REUSEADDR, SO_REUSEPORT, SO_DONTROUTE, SO_KEEPALIVE, SO_OOBINLINE,
		SO_DETACH_FILTER, SO_TIMESTAMP, SO_ZEROCOPY, SO_TXREHASH, SO_BUF_LOCK,
	} },
	{ SOL_SOCKET, INTS, { SO_SNDBUF, SO_RCVBUF, SO_TIMESTAMPING, SO_ERROR } },
	{ SOL_SOCKET, SMALL, {
		SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_PRIORITY, SO_RCVLOWAT, SO_MARK, SO_BUSY_POLL,
		SO_INCOMING_CPU, SO_RESERVE_MEM,
	} },
	{ SOL_SOCKET, LINGERS, { SO_LINGER } },
	{ SOL_SOCKET, TIMES, { SO_RCVTIMEO, SO_SNDTIMEO } },
	{ SOL_SOCKET, NAMES, { SO_BINDTODEVICE } },
	{ SOL_SOCKET, FILTERS, { SO_ATTACH_FILTER } },
	{ SOL_SOCKET, RATES, { SO_MAX_PACING_RATE } },
	{ SOL_SOCKET, BYTES, { SO_MEMINFO, SO_COOKIE } },
	{ SOL_TCP, FLAGS, {
		TCP_NODELAY, TCP_CORK, TCP_THIN_LINEAR_TIMEOUTS, TCP_THIN_DUPACK, TCP_REPAIR,
		TCP_REPAIR_QUEUE, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE, TCP_SAVE_SYN,
		TCP_INQ,
	} },
	{ SOL_TCP, SMALL, {
		TCP_MAXSEG, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT, TCP_DEFER_ACCEPT,
		TCP_USER_TIMEOUT, TCP_FASTOPEN, TCP_NOTSENT_LOWAT, TCP_TX_DELAY,
	} },
	{ SOL_TCP, INTS, {
		TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_QUEUE_SEQ, TCP_TIMESTAMP,
	} },
	{ SOL_TCP, BYTES, { TCP_INFO, TCP_REPAIR_WINDOW, TCP_SAVED_SYN } },
	{ SOL_TCP, NAMES, { TCP_CONGESTION, TCP_ULP } },
	{ SOL_TCP, MD5, { TCP_MD5SIG } },
	{ SOL_TCP, REPAIRS, { TCP_REPAIR_OPTIONS } },
	{ SOL_TCP, KEYS, { TCP_FASTOPEN_KEY } },
	{ SOL_TLS_LEVEL, KEYS, { 1 } },
	{ IPPROTO_IP, SMALL, { IP_TOS, IP_TTL, IP_MINTTL } },
	{ IPPROTO_IP, BYTES, { IP_OPTIONS } },
	{ IPPROTO_IP, FLAGS, {
		IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTOS, IP_PKTINFO, IP_FREEBIND, IP_TRANSPARENT,
		IP_BIND_ADDRESS_NO_PORT,
	} },
	{ IPPROTO_IP, RANGES, { IP_LOCAL_PORT_RANGE } },
	{ IPPROTO_IPV6, FLAGS, {
		IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_RECVERR, IPV6_MTU_DISCOVER, IPV6_DONTFRAG,
		IPV6_AUTOFLOWLABEL, IPV6_ADDRFORM,
	} },
	{ IPPROTO_IPV6, SMALL, { IPV6_TCLASS, IPV6_UNICAST_HOPS } },
};

/* One entry for each name, filled in by main(). */
static struct option_of {
	int level;
	int name;
	enum value value;
} sockopts[ARRAY_SIZE(shared->option_set)];

static unsigned int nr_sockopts;

static void list_options(void)
{
	for (size_t row = 0; row < ARRAY_SIZE(rows); row++)
		for (const int *name = rows[row].names; *name; name++)
			sockopts[nr_sockopts++] =
				(struct option_of){ rows[row].level, *name, rows[row].value };
}

/* A string option; its length may exclude the terminating NUL. */
static socklen_t any_name(struct thread *t, int name, char *value)
{
	/* Rarely an unknown name: the kernel starts a process to load a module for each. */
	static const char * const congestion[] = { "reno", "cubic", "reno", "cubic", "" };
	const char *text;

	if (name == SO_BINDTODEVICE)
		text = one_in(t, 3) ? "lo" : one_in(t, 20) ? "nowhere0" : "";
	else if (name == TCP_ULP)
		text = "tls";
	else
		text = one_in(t, 500) ? "nobody" : congestion[below(t, ARRAY_SIZE(congestion))];
	strcpy(value, text);
	return strlen(text) + below(t, 2);
}

static socklen_t put(void *value, const void *what, socklen_t size)
{
	memcpy(value, what, size);
	return size;
}

#define PUT(value, type, ...)	put(value, &(type) { __VA_ARGS__ }, sizeof(type))

/* Makes a value that the kernel may accept; returns its length. */
static socklen_t any_value(struct thread *t, const struct option_of *o, void *value)
{
	static struct sock_filter accepts[] = { { BPF_RET | BPF_K, 0, 0, 0xffffffff } };
	uint64_t *words = value;
	unsigned int i;
	int number;

	for (i = 0; i < 32; i++)
		words[i] = draw(t);
	switch (o->value) {
	case INTS:
		number = any_int(t);
		break;
	case FLAGS:
		number = one_in(t, 10) ? any_int(t) : (int)below(t, 3);
		break;
	case SMALL:
		number = one_in(t, 10) ? any_int(t) : (int)below(t, one_in(t, 2) ? 200 : 5);
		break;
	case RATES:
		/* At a few bytes a second, a closed socket takes hours to send what it queued. */
		number = any_int(t) | 1 << 16;
		break;
	case TIMES:
		return PUT(value, struct timeval, one_in(t, 30) ? any_int(t) : 0,
			   one_in(t, 30) ? any_int(t) : (int)below(t, 50000));
	case LINGERS:
		return PUT(value, struct linger, below(t, 2), below(t, 3));
	case NAMES:
		return any_name(t, o->name, value);
	case MD5: {
		struct tcp_md5sig md5 = { .tcpm_keylen = below(t, 4) };
		union address a;

		loopback(&a, one_in(t, 2) ? AF_INET : AF_INET6, 0);
		memcpy(&md5.tcpm_addr, &a, sizeof(a));
		memcpy(md5.tcpm_key, "key", 3);
		return put(value, &md5, sizeof(md5));
	}
	case REPAIRS:
		return PUT(value, struct tcp_repair_opt, 2 + below(t, 7), below(t, 4000));
	case RANGES:
		number = (32768 + below(t, 100)) | (32768 + below(t, 1000)) << 16;
		break;
	case KEYS:
		return one_in(t, 2) ? 16 : 32;
	case FILTERS:
		return PUT(value, struct sock_fprog, 1, accepts);
	default:
		return below(t, 64);
	}
	return PUT(value, int, number);
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_option(struct thread *t, int fd, unsigned int i)
{
	const struct option_of *o = &sockopts[i];
	uint64_t value[64] = { 0 };
	socklen_t len = any_value(t, o, value);
	const void *where = value;
	enum kind kind = SETSOCKOPT;
	int name = o->name;

	if (one_in(t, 40))
		len = any_int(t);
	if (one_in(t, 40))
		where = t->nowhere;
	if (one_in(t, 60))
		name = below(t, 80);
	else if (o->level == SOL_TCP && name == TCP_QUICKACK)
		kind = QUICKACK;
	else if (o->level == SOL_TCP && name == TCP_REPAIR)
		kind = REPAIR;
	if (did(kind, setsockopt(fd, o->level, name, where, len)) >= 0 && name == o->name)
		shared->option_set[i] = true;
	/* Few calls work on a socket in repair mode. */
	if (kind == REPAIR && !one_in(t, 4))
		set(fd, SOL_TCP, TCP_REPAIR, one_in(t, 2) ? 0 : -1);
}

static void op_setsockopt(struct thread *t)
{
	set_option(t, take(t), below(t, nr_sockopts));
}

static void op_quickack(struct thread *t)
{
	did(QUICKACK, set(take(t), SOL_TCP, TCP_QUICKACK, below(t, 3)));
}

static void op_repair(struct thread *t)
{
	int fd = take(t);

	if (did(REPAIR, set(fd, SOL_TCP, TCP_REPAIR, 1)) < 0)
		return;
	set_option(t, fd, below(t, nr_sockopts));
	did(REPAIR, set(fd, SOL_TCP, TCP_REPAIR, one_in(t, 2) ? 0 : -1));
}

static void op_getsockopt(struct thread *t)
{
	unsigned int i = below(t, nr_sockopts);
	socklen_t len = one_in(t, 4) ? below(t, 4096) : 4 + below(t, 512);
	void *where = one_in(t, 40) ? t->nowhere : t->buffer;
	int name = one_in(t, 40) ? (int)below(t, 80) : sockopts[i].name;

	did(GETSOCKOPT, getsockopt(take(t), sockopts[i].level, name, where, &len));
}

/* ---- calls ---- */

static void op_socket(struct thread *t)
{
	keep(t, new_socket(t, one_in(t, 2) ? AF_INET : AF_INET6, one_in(t, 2)));
}

static void op_bind(struct thread *t)
{
	union address a;
	socklen_t len = any_address(t, &a, one_in(t, 2) ? AF_INET : AF_INET6);

	did(BIND, bind(take(t), &a.sa, one_in(t, 40) ? below(t, 40) : len));
}

static void op_listen(struct thread *t)
{
	did(LISTEN, listen(take(t), one_in(t, 8) ? any_int(t) : (int)below(t, 8)));
}

static void op_connect(struct thread *t)
{
	union address a;
	socklen_t len = peer_address(t, &a, take(t));

	did(CONNECT, connect(take(t), &a.sa, len));
}

static void op_disconnect(struct thread *t)
{
	const struct sockaddr sa = { .sa_family = AF_UNSPEC };

	did(DISCONNECT, connect(take(t), &sa, sizeof(sa)));
}

static void op_accept(struct thread *t)
{
	int fd = did(ACCEPT, accept4(take(t), NULL, NULL,
				     SOCK_CLOEXEC | (one_in(t, 2) ? SOCK_NONBLOCK : 0)));

	keep(t, fd);
}

static void op_selfconnect(struct thread *t)
{
	int family = one_in(t, 2) ? AF_INET : AF_INET6;
	int fd = new_socket(t, family, true);
	union address a;
	socklen_t len = loopback(&a, family, 0);

	if (fd < 0)
		return;
	if (!did(BIND, bind(fd, &a.sa, len)) && !getsockname(fd, &a.sa, &len))
		did(SELFCONNECT, connect(fd, &a.sa, len));
	keep(t, fd);
}

/* A new connection, with options set before it begins. Keeps both ends, sometimes the listener. */
static void op_pair(struct thread *t)
{
	int family = one_in(t, 2) ? AF_INET : AF_INET6;
	int listener = new_socket(t, family, true);
	int client = new_socket(t, family, one_in(t, 2));
	union address a;
	socklen_t len;

	if (listener < 0 || client < 0)
		goto out;
	len = loopback(&a, family, 0);
	while (one_in(t, 3))
		set_option(t, one_in(t, 2) ? listener : client, below(t, nr_sockopts));
	if (one_in(t, 4))
		set(listener, SOL_TCP, TCP_FASTOPEN, 8);
	if (!one_in(t, 8) && did(BIND, bind(listener, &a.sa, len)) < 0)
		goto out;
	if (did(LISTEN, listen(listener, below(t, 8))) < 0)
		goto out;
	len = sizeof(a);
	if (getsockname(listener, &a.sa, &len))
		goto out;
	if (one_in(t, 3))
		did(FASTOPEN, sendto(client, t->buffer, any_size(t),
				     MSG_FASTOPEN | MSG_NOSIGNAL, &a.sa, len));
	else
		did(CONNECT, connect(client, &a.sa, len));
	keep(t, did(ACCEPT, accept4(listener, NULL, NULL,
				    SOCK_CLOEXEC | (one_in(t, 2) ? SOCK_NONBLOCK : 0))));
	keep(t, client);
	client = -1;
	if (one_in(t, 4)) {
		keep(t, listener);
		return;
	}
out:
	if (client >= 0)
		did(CLOSE, close(client));
	if (listener >= 0)
		did(CLOSE, close(listener));
}

/* Sends more than fits, so that the sender must wait, mostly until it times out. */
static void op_fill(struct thread *t)
{
	int fd = take(t);

	set(fd, SOL_SOCKET, SO_SNDBUF, 4096);
	did(IOCTL, ioctl(fd, FIONBIO, &(int){ 0 }));
	did(SEND, send(fd, t->buffer, BUFFER, MSG_NOSIGNAL));
	did(SEND, send(fd, t->buffer, BUFFER, MSG_NOSIGNAL));
}

static int send_flags(struct thread *t)
{
	static const int flags[] = {
		MSG_OOB, MSG_DONTWAIT, MSG_MORE, MSG_EOR, MSG_ZEROCOPY, MSG_DONTROUTE,
		MSG_FASTOPEN, MSG_CONFIRM, MSG_PEEK, MSG_WAITALL,
	};
	int f = MSG_NOSIGNAL;

	while (one_in(t, 2))
		f |= flags[below(t, ARRAY_SIZE(flags))];
	return one_in(t, 200) ? any_int(t) | MSG_NOSIGNAL : f;
}

static int recv_flags(struct thread *t)
{
	static const int flags[] = {
		MSG_OOB, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC, MSG_ERRQUEUE,
		MSG_CMSG_CLOEXEC,
	};
	int f = one_in(t, 2) ? MSG_DONTWAIT : 0;

	while (one_in(t, 3))
		f |= flags[below(t, ARRAY_SIZE(flags))];
	return one_in(t, 200) ? any_int(t) : f;
}

/* Returns the kind under which the call is counted, given its flags. */
static enum kind send_kind(enum kind kind, int flags)
{
	return flags & MSG_ZEROCOPY ? ZEROCOPY : flags & MSG_OOB ? OOB : kind;
}

static enum kind recv_kind(enum kind kind, int flags)
{
	return flags & MSG_ERRQUEUE ? ERRQUEUE : flags & MSG_OOB ? OOB : kind;
}

static void op_send(struct thread *t)
{
	int flags = send_flags(t);

	did(send_kind(SEND, flags), send(take(t), t->buffer, any_size(t), flags));
}

static void op_recv(struct thread *t)
{
	int flags = recv_flags(t);

	did(recv_kind(RECV, flags), recv(take(t), t->buffer, any_size(t), flags));
}

/* Random pieces of the buffer; one of them may extend beyond its end. */
static size_t any_iov(struct thread *t, struct iovec *iov, size_t most)
{
	size_t i, n = 1 + below(t, most);

	for (i = 0; i < n; i++) {
		iov[i].iov_len = below(t, one_in(t, 4) ? 8000 : 200);
		iov[i].iov_base = t->buffer + below(t, BUFFER - 8000);
	}
	if (one_in(t, 20))
		iov[below(t, n)].iov_base = t->buffer + BUFFER - below(t, 200);
	return n;
}

static void op_sendmsg(struct thread *t)
{
	char control[CMSG_SPACE(sizeof(uint32_t))] = { 0 };
	struct iovec iov[8];
	struct msghdr msg = { .msg_iov = iov };
	int flags = send_flags(t);

	msg.msg_iovlen = any_iov(t, iov, ARRAY_SIZE(iov));
	if (one_in(t, 4)) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = one_in(t, 2) ? SO_TIMESTAMPING : SO_MARK;
		c->cmsg_len = one_in(t, 8) ? below(t, 40) : CMSG_LEN(sizeof(uint32_t));
		memcpy(CMSG_DATA(c), &(uint32_t){ below(t, 1024) }, sizeof(uint32_t));
	}
	did(send_kind(SENDMSG, flags), sendmsg(take(t), &msg, flags));
}

static void op_recvmsg(struct thread *t)
{
	char control[512];
	struct iovec iov[8];
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_control = control,
		.msg_controllen = below(t, sizeof(control)),
	};
	int flags = recv_flags(t);

	msg.msg_iovlen = any_iov(t, iov, ARRAY_SIZE(iov));
	did(recv_kind(RECVMSG, flags), recvmsg(take(t), &msg, flags));
}

/* Zerocopy send from a page that is modified before the kernel is done with it. */
static void op_zerocopy(struct thread *t)
{
	int fd = take(t);
	int i;

	set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	for (i = below(t, 4); i >= 0; i--)
		did(ZEROCOPY, send(fd, t->buffer, any_size(t), MSG_ZEROCOPY | AT_ONCE));
	t->buffer[below(t, BUFFER)]++;
	for (i = 0; i < 4; i++) {
		char control[256];
		struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };

		did(ERRQUEUE, recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT));
	}
}

/* Counted as a success if the kernel reports EFAULT, or part of the data was copied. */
static void op_efault(struct thread *t)
{
	char *where = one_in(t, 2) ? t->nowhere : t->buffer + BUFFER - below(t, 100);
	size_t size = 200 + below(t, 5000);
	int fd = take(t);
	long ret;

	if (one_in(t, 2))
		ret = send(fd, where, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	else
		ret = recv(fd, where, size, MSG_DONTWAIT);
	/* Data copied before the fault counts as sent. */
	did(EFAULTS, ret < 0 && errno != EFAULT ? -1 : 0);
}

/* Maps or unmaps the page behind the buffer while other threads access it. */
static void op_map(struct thread *t)
{
	int prot = one_in(t, 2) ? PROT_NONE : PROT_READ | PROT_WRITE;

	mmap(t->buffer + BUFFER, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void op_splice(struct thread *t)
{
	struct iovec iov = { .iov_base = t->buffer, .iov_len = 1 + below(t, 8000) };
	unsigned int flags = SPLICE_F_NONBLOCK | (one_in(t, 2) ? SPLICE_F_MORE : 0) |
			     (one_in(t, 4) ? SPLICE_F_MOVE : 0);

	switch (below(t, 4)) {
	case 0:
		did(SPLICE_IN, splice(take(t), NULL, t->pipe[1], NULL, any_size(t), flags));
		break;
	case 1:
		if (vmsplice(t->pipe[1], &iov, 1, SPLICE_F_NONBLOCK) > 0)
			did(TEE, tee(t->pipe[0], t->pipe2[1], any_size(t), SPLICE_F_NONBLOCK));
		did(SPLICE_OUT, splice(t->pipe[0], NULL, take(t), NULL, any_size(t), flags));
		break;
	case 2:
		did(SPLICE_OUT, splice(t->pipe2[0], NULL, take(t), NULL, any_size(t), flags));
		break;
	case 3:
		/* Make room. */
		while (read(t->pipe[0], t->buffer, BUFFER) > 0)
			;
		while (read(t->pipe2[0], t->buffer, BUFFER) > 0)
			;
		break;
	}
}

static void op_sendfile(struct thread *t)
{
	off_t offset = below(t, BUFFER);

	did(SENDFILE, sendfile(take(t), t->file, one_in(t, 2) ? &offset : NULL, any_size(t)));
	if (one_in(t, 4))
		lseek(t->file, below(t, BUFFER), SEEK_SET);
}

static void op_zerocopy_receive(struct thread *t)
{
	struct tcp_zerocopy_receive zc = { 0 };
	socklen_t len = sizeof(zc);
	size_t size = 4096 * (1 + below(t, 16));
	int fd = take(t);
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED) {
		did(ZEROCOPY_RECEIVE, -1);
		return;
	}
	zc.address = (uintptr_t)map;
	zc.length = one_in(t, 10) ? draw(t) : size;
	zc.copybuf_address = (uintptr_t)t->buffer;
	zc.copybuf_len = below(t, 8000);
	did(ZEROCOPY_RECEIVE, getsockopt(fd, SOL_TCP, TCP_ZEROCOPY_RECEIVE, &zc, &len));
	munmap(map, size);
}

static void op_shutdown(struct thread *t)
{
	did(SHUTDOWN, shutdown(take(t), below(t, one_in(t, 10) ? 5 : 3)));
}

static void op_close(struct thread *t)
{
	int fd = atomic_exchange(&pool[below(t, SLOTS)], -1);
	const struct linger linger = { .l_onoff = 1, .l_linger = one_in(t, 3) };
	enum kind kind = CLOSE;

	if (fd < 0)
		return;
	if (one_in(t, 2) && !setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) &&
	    !linger.l_linger)
		kind = RESET;
	did(kind, close(fd));
}

/* Destroys a socket through sock_diag, like `ss --kill`. */
static void op_destroy(struct thread *t)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} ask = {
		.nlh = {
			.nlmsg_len = sizeof(ask),
			.nlmsg_type = SOCK_DESTROY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
		.req = { .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0U },
	};
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr err;
	} answer;
	union address here = { 0 }, there = { 0 };
	socklen_t len = sizeof(here), len2 = sizeof(there);
	struct inet_diag_sockid *id = &ask.req.id;
	int fd = take(t);
	int nl;

	if (fd < 0 || getsockname(fd, &here.sa, &len) || getpeername(fd, &there.sa, &len2))
		return;
	ask.req.sdiag_family = here.sa.sa_family;
	id->idiag_sport = here.in.sin_port;
	id->idiag_dport = there.in.sin_port;
	if (here.sa.sa_family == AF_INET6) {
		memcpy(id->idiag_src, &here.in6.sin6_addr, 16);
		memcpy(id->idiag_dst, &there.in6.sin6_addr, 16);
	} else {
		memcpy(id->idiag_src, &here.in.sin_addr, 4);
		memcpy(id->idiag_dst, &there.in.sin_addr, 4);
	}
	id->idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (nl < 0)
		return;
	if (send(nl, &ask, sizeof(ask), 0) == sizeof(ask) &&
	    recv(nl, &answer, sizeof(answer), 0) >= (ssize_t)sizeof(answer.nlh) + 4)
		did(DESTROY, answer.err.error ? -1 : 0);
	close(nl);
}

static void op_ioctl(struct thread *t)
{
	static const unsigned long what[] = {
		SIOCINQ, SIOCOUTQ, SIOCATMARK, SIOCOUTQNSD, FIONBIO, FIOASYNC, SIOCGSTAMP_OLD,
	};
	/* SIOCGSTAMP has the largest result of these calls: two words. */
	long value[2] = { below(t, 2) };

	did(IOCTL, ioctl(take(t), what[below(t, ARRAY_SIZE(what))],
			 one_in(t, 40) ? (void *)t->nowhere : value));
}

static void op_dup(struct thread *t)
{
	keep(t, did(DUP, fcntl(take(t), F_DUPFD_CLOEXEC, 3)));
}

/* Passes a socket through a queue: meanwhile it is open but has no descriptor. */
static void op_pass(struct thread *t)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (one_in(t, 2)) {
		fd = take(t);
		control.align = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		did(PASS, sendmsg(t->unix_pair[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL));
	} else if (did(PASS, recvmsg(t->unix_pair[1], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) > 0 &&
		   control.align.cmsg_type == SCM_RIGHTS) {
		memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
		keep(t, fd);
	}
}

static void steps(struct thread *t, unsigned int n);

/* Enters a new network namespace; drops the sockets of the previous one. */
static int enter_own_netns(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	unsigned int i;
	int fd;

	if (unshare(CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr))
		return -1;
	for (i = 0; i < SLOTS; i++)
		atomic_store(&pool[i], -1);
	return 0;
}

/* Runs @n steps in a child, which exits without closing anything. */
static void in_child(struct thread *t, unsigned int n, bool own_netns)
{
	pid_t pid = fork();
	unsigned int i;

	if (pid < 0) {
		did(FORK, -1);
		return;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGALRM, SIG_DFL);
		alarm(5);
		did(FORK, 0);
		if (own_netns) {
			if (did(NETNS, enter_own_netns()))
				_exit(0);
			for (i = 0; i < 8; i++)
				op_pair(t);
		}
		steps(t, n);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void op_fork(struct thread *t)
{
	in_child(t, 1 + below(t, 30), false);
}

static void op_netns(struct thread *t)
{
	if (with_netns)
		in_child(t, 10 + below(t, 60), true);
}

/* Sysctls with their usual value, which is set most of the time, and others. */
static const struct {
	const char *name;
	const char *usual;
	const char *other[4];
} sysctls[] = {
	{ "tcp_timestamps", "1", { "0", "2" } },
	{ "tcp_sack", "1", { "0" } },
	{ "tcp_dsack", "1", { "0" } },
	{ "tcp_fack", "0", { "1" } },
	{ "tcp_window_scaling", "1", { "0" } },
	{ "tcp_ecn", "2", { "0", "1" } },
	{ "tcp_fastopen", "3", { "0", "1", "1027" } },
	{ "tcp_slow_start_after_idle", "1", { "0" } },
	{ "tcp_moderate_rcvbuf", "1", { "0" } },
	{ "tcp_wmem", "4096 16384 4194304", { "4096 4096 4096", "4096 65536 65536" } },
	{ "tcp_rmem", "4096 131072 6291456", { "4096 4096 4096", "4096 8192 65536" } },
	{ "tcp_tw_reuse", "2", { "0", "1" } },
	{ "tcp_syncookies", "1", { "0", "2" } },
	{ "tcp_abort_on_overflow", "0", { "1" } },
	{ "tcp_fin_timeout", "60", { "1", "5" } },
	{ "tcp_autocorking", "1", { "0" } },
	{ "tcp_no_metrics_save", "1", { "0" } },
	{ "tcp_notsent_lowat", "4294967295", { "1", "4096" } },
	{ "tcp_retries2", "15", { "3" } },
	{ "tcp_thin_linear_timeouts", "0", { "1" } },
	{ "tcp_min_tso_segs", "2", { "1", "40" } },
	{ "tcp_limit_output_bytes", "1048576", { "4096" } },
	{ "tcp_congestion_control", "cubic", { "reno" } },
	{ "tcp_adv_win_scale", "1", { "-2", "4" } },
	{ "tcp_app_win", "31", { "2" } },
	{ "tcp_recovery", "1", { "0", "7" } },
	{ "tcp_early_retrans", "3", { "0" } },
	{ "tcp_frto", "2", { "0" } },
	{ "tcp_reordering", "3", { "1", "100" } },
	{ "tcp_stdurg", "0", { "1" } },
	{ "tcp_rfc1337", "0", { "1" } },
	{ "tcp_comp_sack_nr", "44", { "0", "1" } },
	{ "tcp_pingpong_thresh", "1", { "2", "5", "255" } },
	{ "tcp_shrink_window", "0", { "1" } },
	{ "tcp_max_syn_backlog", "128", { "1" } },
	{ "tcp_keepalive_time", "7200", { "1" } },
	{ "ip_local_port_range", "32768 60999", { "32768 32775", "40000 40001", "1024 65535" } },
	{ "ip_local_reserved_ports", "", { "32768-40000", "32770,32772" } },
	{ "ip_local_port_step_width", "0", { "7" } },
	{ "ip_no_pmtu_disc", "0", { "1" } },
};

static int set_sysctl(const char *name, const char *value)
{
	char path[128] = "/proc/sys/net/ipv4/";
	int done, fd = open(strcat(path, name), O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	done = dprintf(fd, "%s\n", value);
	close(fd);
	return done;
}

static void op_sysctl(struct thread *t)
{
	unsigned int i = below(t, ARRAY_SIZE(sysctls));
	const char *other = sysctls[i].other[below(t, 4)];
	const char *value = one_in(t, 3) && other ? other : sysctls[i].usual;

	did(SYSCTL, set_sysctl(sysctls[i].name, value));
}

/* Pauses, so that timers fire in between. */
static void op_pause(struct thread *t)
{
	did(PAUSE, usleep(1000 * below(t, one_in(t, 10) ? 250 : 20)));
}

/* Requests and replies between sockets that may be the two ends of a connection. */
static void op_talk(struct thread *t)
{
	union address here = { 0 }, there = { 0 };
	unsigned int i, first = below(t, SLOTS);
	socklen_t len = sizeof(here);
	int a = atomic_load(&pool[first]);
	int b = -1;

	if (a < 0 || getpeername(a, &there.sa, &len))
		return;
	for (i = 1; i < SLOTS; i++) {
		b = atomic_load(&pool[(first + i) % SLOTS]);
		len = sizeof(here);
		if (b >= 0 && !getsockname(b, &here.sa, &len) &&
		    here.sa.sa_family == there.sa.sa_family &&
		    here.in.sin_port == there.in.sin_port)
			break;
		b = -1;
	}
	for (i = below(t, 6); b >= 0 && i--;) {
		did(SEND, send(a, t->buffer, 1 + below(t, 200), AT_ONCE));
		if (one_in(t, 4))
			did(SEND, send(a, t->buffer, 1 + below(t, 200), AT_ONCE));
		did(RECV, recv(b, t->buffer, BUFFER, MSG_DONTWAIT));
		if (one_in(t, 2))
			did(SEND, send(b, t->buffer, 1 + below(t, 200), AT_ONCE));
		did(RECV, recv(a, t->buffer, BUFFER, MSG_DONTWAIT));
	}
}

static const struct {
	void (*run)(struct thread *t);
	unsigned int weight;
} ops[] = {
	{ op_pair, 60 }, { op_talk, 80 }, { op_socket, 10 }, { op_bind, 15 },
	{ op_listen, 15 }, { op_connect, 30 }, { op_disconnect, 10 }, { op_accept, 20 },
	{ op_selfconnect, 6 }, { op_fill, 10 }, { op_send, 80 }, { op_recv, 80 },
	{ op_sendmsg, 50 }, { op_recvmsg, 50 }, { op_zerocopy, 15 }, { op_efault, 20 },
	{ op_map, 10 }, { op_splice, 50 }, { op_sendfile, 20 }, { op_zerocopy_receive, 15 },
	{ op_shutdown, 10 }, { op_close, 25 }, { op_destroy, 6 }, { op_setsockopt, 60 },
	{ op_quickack, 20 }, { op_getsockopt, 30 }, { op_ioctl, 15 },
	{ op_dup, 10 }, { op_pass, 10 }, { op_fork, 3 }, { op_netns, 2 },
	{ op_sysctl, 8 }, { op_pause, 6 }, { op_repair, 8 },
};

static void step(struct thread *t)
{
	unsigned int i, sum = 0;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		sum += ops[i].weight;
	sum = below(t, sum);
	for (i = 0; sum >= ops[i].weight; i++)
		sum -= ops[i].weight;
	ops[i].run(t);
	shared->steps++;
}

/* Steps of a child. Not nested: children must not fork without end. */
static void steps(struct thread *t, unsigned int n)
{
	static _Thread_local bool nested;

	if (nested)
		return;
	nested = true;
	while (n-- && !shared->stop)
		step(t);
}

/* ---- workers ---- */

static void make_thread(struct thread *t, uint64_t seed)
{
	char *map = mmap(NULL, BUFFER + 2 * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (map == MAP_FAILED || pipe2(t->pipe, O_NONBLOCK | O_CLOEXEC) ||
	    pipe2(t->pipe2, O_NONBLOCK | O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, t->unix_pair))
		exit(1);
	t->seed = seed;
	t->buffer = map;
	t->nowhere = map + BUFFER + 4096;
	t->file = memfd_create("sockets", MFD_CLOEXEC);
	for (i = 0; i < BUFFER; i++)
		t->buffer[i] = i;
	if (t->file < 0 || write(t->file, t->buffer, BUFFER) != BUFFER ||
	    lseek(t->file, 0, SEEK_SET) || mprotect(t->nowhere, 4096, PROT_NONE))
		exit(1);
	mprotect(t->buffer + BUFFER, 4096, PROT_NONE);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;

	while (!shared->stop) {
		t->rng = mix(t->seed ^ mix(t->step));
		step(t);
		t->step++;
	}
	return NULL;
}

static void interrupted(int sig)
{
	(void)sig;
}

static void worker(uint64_t seed)
{
	const struct sigaction wake = { .sa_handler = interrupted };
	uint64_t last[THREADS] = { 0 };
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGUSR1, &wake, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	signal(SIGURG, SIG_IGN);
	for (i = 0; i < SLOTS; i++)
		pool[i] = -1;
	for (i = 0; i < THREADS; i++)
		make_thread(&threads[i], mix(seed + i));
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]))
			exit(1);
	while (!shared->stop) {
		usleep(100000);
		for (i = 0; i < THREADS; i++) {
			if (threads[i].step == last[i])
				pthread_kill(threads[i].id, SIGUSR1);
			last[i] = threads[i].step;
		}
	}
	/* Interrupt threads until they have stopped: one may have entered another blocking call. */
	for (i = 0; i < THREADS; i++)
		while (pthread_tryjoin_np(threads[i].id, NULL)) {
			pthread_kill(threads[i].id, SIGUSR1);
			usleep(100000);
		}
	exit(0);
}

/* ---- all of it ---- */

static uint64_t seed, seconds = 10, least;
static const char *names[NAMES_MAX];
static unsigned int nr_names;

static const struct argp_option options[] = {
	{ .name = "seed", .key = 's', .arg = "N",
	  .doc = "seed of all random choices (the clock); printed first" },
	{ .name = "seconds", .key = 't', .arg = "S", .doc = "run for S seconds (10)" },
	{ .name = "least", .key = 'l', .arg = "N",
	  .doc = "run longer, until there were N steps (0): a busy machine makes few per second" },
	{ .name = "netns", .key = 'n', .arg = "NAME",
	  .doc = "distribute the workers over these namespaces of ip-netns(8), each named by such "
		 "an option (the current one)" },
	{ .name = "no-netns", .key = 'N', .doc = "do not create network namespaces" },
	{ }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	uint64_t *number = key == 's' ? &seed : key == 't' ? &seconds : &least;
	char *end;

	switch (key) {
	case 's':
	case 't':
	case 'l':
		*number = strtoull(arg, &end, 0);
		if (end == arg || *end)
			argp_error(state, "invalid number '%s'", arg);
		return 0;
	case 'n':
		if (nr_names == NAMES_MAX)
			argp_error(state, "too many namespaces");
		names[nr_names++] = arg;
		return 0;
	case 'N':
		with_netns = false;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void enter(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
}

static void report(void)
{
	unsigned int i, set = 0;

	for (i = 0; i < nr_sockopts; i++)
		set += shared->option_set[i];
	for (i = 0; i < KINDS; i++)
		printf("%s %" PRIu64 " %" PRIu64 "\n", kinds[i], (uint64_t)shared->calls[i],
		       (uint64_t)shared->succeeded[i]);
	printf("options set=%u of=%u\n", set, nr_sockopts);
	printf("steps=%" PRIu64 "\n", (uint64_t)shared->steps);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Makes random system calls on TCP sockets over loopback and prints for each "
		       "kind the number of calls and of successes.",
	};
	int status;

	seed = mix(time(NULL) ^ (uint64_t)getpid() << 32) >> 32;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	list_options();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(1, "mmap");
	printf("seed=%" PRIu64 " workers=%d threads=%d\n", seed, WORKERS, THREADS);
	fflush(stdout);
	/* They end with this process. */
	for (unsigned int i = 0; i < WORKERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			if (nr_names)
				enter(names[i % nr_names]);
			/* What an earlier run left may last: a slow machine sets few. */
			for (unsigned int j = 0; j < ARRAY_SIZE(sysctls); j++)
				set_sysctl(sysctls[j].name, sysctls[j].usual);
			worker(mix(seed) + i * THREADS);
		}
	}

	for (time_t end = time(NULL) + seconds; time(NULL) < end || shared->steps < least;) {
		if (waitpid(-1, &status, WNOHANG) > 0)
			errx(1, "a worker ended with status %#x", status);
		usleep(50000);
	}
	shared->stop = true;
	/* Longer than any child's alarm, even on a very slow machine. */
	alarm(120);
	while (waitpid(-1, &status, 0) > 0)
		if (status)
			errx(1, "a worker ended with status %#x", status);
	report();
	return 0;
}
