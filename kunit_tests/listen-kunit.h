/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of full accept queues and of waits in them.
 */
#include "tcplat-kunit.h"

/* With a limit of 1, queues of 2 are full. */
static void listen_counts_overflows(struct kunit *test)
{
	static const struct {
		u32 queued;
		int requests;
		bool cookies;
		u64 syn, ack;
	} rows[] = {
		{ 0, 0, false, 0, 0 }, { 0, 0, true, 0, 0 }, { 0, 2, false, 0, 0 },
		{ 0, 2, true, 0, 0 }, { 2, 0, false, 1, 1 }, { 2, 0, true, 1, 1 },
		{ 2, 2, false, 0, 1 }, { 2, 2, true, 1, 1 },
	};
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	struct net *net = kunit_new(test, sizeof(*net));
	struct sock *sk = kunit_sock(test);
	u64 sum = 0;

	sock_net_set(sk, net);
	sk->sk_max_ack_backlog = 1;
	for_each_row() {
		sk->sk_ack_backlog = row->queued;
		atomic_set(&inet_csk(sk)->icsk_accept_queue.qlen, row->requests);
		net->ipv4.sysctl_tcp_syncookies = row->cookies;
		KUNIT_HANDLE(syn_entry(NULL, 0, (unsigned long)sk));
		sum += row->syn;
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_listen, OVERFLOWS), sum);
		KUNIT_HANDLE(ack_entry(sk, (unsigned long)skb, 0));
		sum += row->ack;
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_listen, OVERFLOWS), sum);
		skb->protocol = htons(ETH_P_IPV6);
		KUNIT_HANDLE(ack6_entry(sk, (unsigned long)skb, 0));
		sum += row->ack;
		skb->protocol = htons(ETH_P_IP);
		KUNIT_HANDLE(ack6_entry(sk, (unsigned long)skb, 0));
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_listen, OVERFLOWS), sum);
	}
}

static void listen_waits(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(30000, 10000, HZ), 20 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(10000, 10000, HZ), 0);
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(10000, 10001, HZ), 0);
	/* Not initialized yet, or only by the listener. */
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(1ULL << 40, 0, 0), TICK_NSEC);
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(1ULL << 40, 0, 9), 10 * TICK_NSEC);
	KUNIT_EXPECT_EQ(test, tcplat_accept_wait(U64_MAX, U64_MAX - 1, U32_MAX), 1000);
}

static struct tcp_sock *listen_accepted(struct kunit *test, u32 waited_ms)
{
	struct tcp_sock *tp = tcp_sk(kunit_sock(test));

	tp->lsndtime = tcp_jiffies32 - msecs_to_jiffies(waited_ms);
	tp->inet_conn.icsk_ack.lrcvtime = tcp_jiffies32;
	tp->rcvq_space.time = tcplat_now_us() - waited_ms * 1000;
	return tp;
}

static void listen_accept(struct kunit *test, struct tcp_sock *tp, u64 expected)
{
	KUNIT_HANDLE(accepted_entry((struct sock *)tp, 0, 0));
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_listen, ACCEPT), expected);
}

/* Only sockets of TCP that were created at least 10 ms ago. */
static void listen_counts_late_accepts(struct kunit *test)
{
	struct tcp_sock *tp;
	u64 ns;

	listen_accept(test, listen_accepted(test, 0), 0);
	listen_accept(test, listen_accepted(test, 200), 1);
	ns = tcplat_sum(&tcplat_listen, ACCEPT + 1);
	KUNIT_EXPECT_GE(test, ns, 200 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LE(test, ns, 250 * NSEC_PER_MSEC);
	tp = listen_accepted(test, 200);
	((struct sock *)tp)->sk_family = AF_UNIX;
	listen_accept(test, tp, 1);
	((struct sock *)tp)->sk_family = AF_INET6;
	listen_accept(test, tp, 2);
	((struct sock *)tp)->sk_protocol = IPPROTO_MPTCP;
	listen_accept(test, tp, 2);
	/* Ticks have passed, but not 10 ms. */
	tp = listen_accepted(test, 200);
	tp->rcvq_space.time = tcplat_now_us() - 5000;
	listen_accept(test, tp, 2);
}

TCPLAT_GROUP_SUITE(listen,
		   KUNIT_CASE(listen_counts_overflows),
		   KUNIT_CASE(listen_waits),
		   KUNIT_CASE(listen_counts_late_accepts));
