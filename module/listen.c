// SPDX-License-Identifier: GPL-2.0
/* listen: accept queues that were full, and connections that waited in them for accept(). */
#include <linux/if_ether.h>
#include <linux/minmax.h>
#include <linux/skbuff.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include "jiffies.h"
#include "tcplat.h"
#include "trace.h"

enum {
	OVERFLOWS,
	ACCEPT,
	HITS_SYN = ACCEPT + TCPLAT_TIMED_COUNTERS,
	HITS_ACK,
	HITS_ACK6,
	HITS_ACCEPTED,
	NR_COUNTERS,
};

static void __kprobes count_overflow(struct sock *sk)
{
	tcplat_inc_before_mib(&tcplat_listen, OVERFLOWS);
	trace_listen_overflow(sk);
}

/*
 * Whether tcp_conn_request() drops a SYN and counts it in LINUX_MIB_LISTENOVERFLOWS. If the queue
 * of requests is full too, and no SYN cookie can be sent, the kernel counts the drop elsewhere.
 */
static __always_inline bool tcplat_syn_overflows(bool full, bool requests_full, bool cookies)
{
	return full && (cookies || !requests_full);
}

/* Entry of tcp_conn_request(rsk_ops, af_ops, sk, skb), called for a SYN; nothing is locked. */
static void __kprobes syn_entry(struct sock *rsk_ops, unsigned long af_ops, unsigned long arg2)
{
	struct sock *sk = (struct sock *)arg2;

	tcplat_inc(&tcplat_listen, HITS_SYN);
	if (tcplat_syn_overflows(sk_acceptq_is_full(sk), inet_csk_reqsk_queue_is_full(sk),
				 IS_ENABLED(CONFIG_SYN_COOKIES) &&
				 READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_syncookies)))
		count_overflow(sk);
}

/*
 * Entry of tcp_v4_syn_recv_sock(sk, skb, ...), called for the ACK that ends a handshake; nothing
 * is locked.
 */
static void __kprobes ack_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_listen, HITS_ACK);
	if (sk_acceptq_is_full(sk))
		count_overflow(sk);
}

/* Entry of tcp_v6_syn_recv_sock(sk, skb, ...), which calls the other one for IPv4 packets. */
static void __kprobes ack6_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_listen, HITS_ACK6);
	if (((const struct sk_buff *)arg1)->protocol != htons(ETH_P_IP) && sk_acceptq_is_full(sk))
		count_overflow(sk);
}

/*
 * How long a connection has lain in the accept queue, in ns: @since_us before @now_us, but not
 * longer than @ticks jiffies allow, since the kernel sets the two times one after the other.
 */
static __always_inline u64 tcplat_accept_wait(u64 now_us, u64 since_us, u32 ticks)
{
	return min_t(u64, tcplat_us_to_ns_since(now_us, since_us), (ticks + 1ULL) * TICK_NSEC);
}

/* A connection is taken from the queue that may have lain there for too long. */
static noinline void __kprobes check_wait(struct sock *sk, u32 ticks)
{
	u64 ns = tcplat_accept_wait(tcplat_now_us(), tcp_sk(sk)->rcvq_space.time, ticks);

	if (ns < TCPLAT_LATE_NS)
		return;
	tcplat_count_timed(&tcplat_listen, ACCEPT, ns);
	trace_accept_wait(sk, ns);
}

/*
 * Entry of security_sock_graft(sk, parent), socket locked, when accept() has taken @sk. The
 * socket was created at lsndtime, which only sent data changes, and with TCP Fast Open the end of
 * the handshake, and initialized at rcvq_space.time, which only reading changes. inet_csk_accept()
 * would be too early: a caller that blocks enters it before there is a connection. Sockets of other
 * families come here, too.
 */
static void __kprobes accepted_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u32 ticks;

	tcplat_inc(&tcplat_listen, HITS_ACCEPTED);
	if (sk->sk_protocol != IPPROTO_TCP ||
	    (sk->sk_family != AF_INET && sk->sk_family != AF_INET6))
		return;
	ticks = tcplat_jiffies32_since(tcp_jiffies32, tcp_sk(sk)->lsndtime);
	if (tcplat_may_be_late(ticks))
		check_wait(sk, ticks);
}

static struct tcplat_probe listen_probes[] = {
	{
		.symbol = "tcp_conn_request",
		.entry = syn_entry,
		.hits = HITS_SYN,
	},
	{
		.symbol = "tcp_v4_syn_recv_sock",
		.entry = ack_entry,
		.hits = HITS_ACK,
	},
	{
		/* Missing on kernels without IPv6. */
		.symbol = "tcp_v6_syn_recv_sock",
		.entry = ack6_entry,
		.optional = true,
		.hits = HITS_ACK6,
	},
	{
		/* Missing on kernels without CONFIG_SECURITY_NETWORK. */
		.symbol = "security_sock_graft",
		.entry = accepted_entry,
		.optional = true,
		.hits = HITS_ACCEPTED,
	},
};

static bool accept_is_available(void)
{
	return listen_probes[ARRAY_SIZE(listen_probes) - 1].found;
}

static const struct tcplat_file listen_files[] = {
	TCPLAT_SUM("overflows", OVERFLOWS),
	TCPLAT_UNSEEN("overflows_unseen", OVERFLOWS, LINUX_MIB_LISTENOVERFLOWS),
	TCPLAT_TIMED_FILES("accept", ACCEPT, .available = accept_is_available),
};

struct tcplat_group tcplat_listen = {
	TCPLAT_TABLES(listen),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/listen-kunit.h"
#endif
