/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of waits for the peer's window, and of probes.
 */
#include "tcplat-kunit.h"

static void peerwnd_waits(struct kunit *test)
{
	static const struct {
		u32 now, start, lsndtime, ticks;
	} rows[] = {
		{ 100, 100, 100, 0 }, { 110, 100, 100, 10 }, { 110, 100, 105, 5 },
		{ 110, 105, 100, 5 }, { 110, 100, 110, 0 }, { 110, 110, 100, 0 },
		/* Jiffies wrap, and data may last have been sent days ago. */
		{ 4, U32_MAX, U32_MAX - 5, 5 }, { 4, U32_MAX - 5, 2, 2 },
		{ 10, 5, 0x80000000, 5 }, { 10, 5, 11, 5 },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_peerwnd_wait(row->now, row->start, row->lsndtime),
				 row->ticks);
}

static void peerwnd_probe_or_data(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, tcplat_peerwnd_probes(TCP_ESTABLISHED, true, 1000, 1000));
	KUNIT_EXPECT_TRUE(test, tcplat_peerwnd_probes(TCP_CLOSE_WAIT, true, 1001, 1000));
	KUNIT_EXPECT_FALSE(test, tcplat_peerwnd_probes(TCP_ESTABLISHED, true, 999, 1000));
	KUNIT_EXPECT_FALSE(test, tcplat_peerwnd_probes(TCP_ESTABLISHED, true, U32_MAX, 0));
	KUNIT_EXPECT_TRUE(test, tcplat_peerwnd_probes(TCP_ESTABLISHED, false, 0, 1000));
	KUNIT_EXPECT_FALSE(test, tcplat_peerwnd_probes(TCP_CLOSE, true, 1000, 1000));
}

/* Only new data that the window held back ends a wait, which began when data was last sent. */
static void peerwnd_counts_new_data(struct kunit *test)
{
	struct tcp_sock *tp = kunit_new(test, sizeof(*tp));
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	static const struct {
		u8 type;
		u32 len, seq, held_ago, sent_ago, waited;
	} rows[] = {
		{ TCP_CHRONO_RWND_LIMITED, 100, 7, 5, 100, 5 },
		{ TCP_CHRONO_RWND_LIMITED, 100, 7, 100, 5, 5 },
		{ TCP_CHRONO_BUSY, 100, 7, 5, 100, 0 },
		{ TCP_CHRONO_SNDBUF_LIMITED, 100, 7, 5, 100, 0 },
		{ TCP_CHRONO_RWND_LIMITED, 0, 7, 5, 100, 0 },
		{ TCP_CHRONO_RWND_LIMITED, 100, 6, 5, 100, 0 },
		{ TCP_CHRONO_RWND_LIMITED, 100, 7, 0, 100, 0 },
	};
	u32 now;
	u64 ns;

	tp->snd_nxt = 7;
	for_each_row() {
		skb->len = row->len;
		TCP_SKB_CB(skb)->seq = row->seq;
		tp->chrono_type = row->type;
		/* A tick meanwhile makes the wait longer. */
		do {
			tcplat_counters_reset(&tcplat_peerwnd);
			now = tcp_jiffies32;
			tp->lsndtime = now - row->sent_ago * HZ;
			tp->chrono_start = now - row->held_ago * HZ;
			KUNIT_HANDLE(tcplat_peerwnd_sent((struct sock *)tp, (unsigned long)skb, 1));
		} while (tcp_jiffies32 != now);
		ns = tcplat_sum(&tcplat_peerwnd, WAIT + 1);
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_peerwnd, WAIT), !!row->waited);
		KUNIT_EXPECT_ROW(test, ns, row->waited * NSEC_PER_SEC);
	}
}

/* The timer sends what fits in the window, a probe if that is nothing. */
static void peerwnd_counts_probes(struct kunit *test)
{
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	struct sock *sk = kunit_sock(test);

	tcp_sk(sk)->snd_una = U32_MAX;
	tcp_sk(sk)->snd_wnd = 10;
	__skb_queue_head_init(&sk->sk_write_queue);
	KUNIT_HANDLE(probe_entry(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { PROBES, 1 });
	__skb_queue_tail(&sk->sk_write_queue, skb);
	TCP_SKB_CB(skb)->seq = 8;
	KUNIT_HANDLE(probe_entry(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { PROBES, 1 });
	TCP_SKB_CB(skb)->seq = 9;
	KUNIT_HANDLE(probe_entry(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { PROBES, 2 });
}

TCPLAT_GROUP_SUITE(peerwnd,
		   KUNIT_CASE(peerwnd_waits),
		   KUNIT_CASE(peerwnd_probe_or_data),
		   KUNIT_CASE(peerwnd_counts_new_data),
		   KUNIT_CASE(peerwnd_counts_probes));
