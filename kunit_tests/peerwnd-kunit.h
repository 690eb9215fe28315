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
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_ROW(test, i, tcplat_peerwnd_wait(rows[i].now, rows[i].start,
							      rows[i].lsndtime), rows[i].ticks);
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

static void peerwnd_counts_new_data(struct kunit *test)
{
	struct tcp_sock *tp = kunit_new(test, sizeof(*tp));
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	static const struct {
		u8 type;
		u32 len, seq, waited;
		bool counts;
	} rows[] = {
		{ TCP_CHRONO_RWND_LIMITED, 100, 7, 5, true },
		{ TCP_CHRONO_BUSY, 100, 7, 5, false },
		{ TCP_CHRONO_SNDBUF_LIMITED, 100, 7, 5, false },
		{ TCP_CHRONO_RWND_LIMITED, 0, 7, 5, false },
		{ TCP_CHRONO_RWND_LIMITED, 100, 6, 5, false },
		{ TCP_CHRONO_RWND_LIMITED, 100, 7, 0, false },
	};
	u64 waits = 0, ns;
	int i;

	tp->snd_nxt = 7;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		skb->len = rows[i].len;
		TCP_SKB_CB(skb)->seq = rows[i].seq;
		tp->chrono_type = rows[i].type;
		preempt_disable();
		tp->lsndtime = tcp_jiffies32 - 100 * HZ;
		tp->chrono_start = tcp_jiffies32 - rows[i].waited * HZ;
		/* A tick here would make a wait of the row that has none. */
		if (!rows[i].waited)
			tp->chrono_start += HZ / 10 + 1;
		tcplat_peerwnd_sent((struct sock *)tp, (unsigned long)skb, 1);
		preempt_enable();
		if (rows[i].counts)
			waits++;
		if (rows[i].waited)
			KUNIT_EXPECT_ROW(test, i, tcplat_sum(&tcplat_peerwnd, WAIT), waits);
	}
	ns = tcplat_max(&tcplat_peerwnd, WAIT + 1 + TCPLAT_TIME_MAX);
	KUNIT_EXPECT_GE(test, ns, 5 * NSEC_PER_SEC);
}

static struct kunit_case peerwnd_cases[] = {
	KUNIT_CASE(peerwnd_waits),
	KUNIT_CASE(peerwnd_probe_or_data),
	KUNIT_CASE(peerwnd_counts_new_data),
	{}
};

TCPLAT_GROUP_SUITE(peerwnd);
