/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of stalls: the times at which data counts as released by a late ACK, and the table of
 * late ACKs, with sockets that exist only in memory.
 */
#include "tcplat-kunit.h"

/*
 * The upper bound is the minimum round trip plus the deviation, clamped to between an eighth and
 * a half of the round trip, plus 1 ms. Without a timestamp there is a lower bound, too. Both
 * bounds are inclusive.
 */
static void stalls_by_time(struct kunit *test)
{
	static const struct {
		u32 min_rtt, mdev4;
		bool echoed;
		u64 least_us, most_us;
	} rows[] = {
		{ 1, 0, false, 0, 1001 },
		{ 50, 200, false, 0, 1075 },
		{ 1000, 0, false, 0, 2125 },
		{ 1200, 0, false, 50, 2350 },
		{ 20000, 0, true, 0, 23500 },
		{ 20000, 0, false, 16500, 23500 },
		{ 20000, 5000, false, 16500, 26000 },
		{ 20000, 40000, false, 16500, 31000 },
		{ 300000, 1000, false, 261500, 338500 },
		{ U32_MAX - 1, U32_MAX, false, 3758096384ULL - 1000 - 1, 6442450941ULL + 1000 },
		/* The kernel has not measured: its initial timeout. */
		{ U32_MAX, 4000000, false, 0, 1000000 },
		{ U32_MAX, 0, true, 0, 1000000 },
	};

	for_each_row() {
		struct tcplat_window window = tcplat_stall_window(row->min_rtt, row->mdev4,
								  row->echoed);
		u64 least = row->least_us * NSEC_PER_USEC, most = row->most_us * NSEC_PER_USEC;

		KUNIT_EXPECT_ROW(test, window.least, row->least_us);
		KUNIT_EXPECT_ROW(test, window.most, row->most_us);
		KUNIT_EXPECT_ROW(test, tcplat_stalled(least, window), true);
		KUNIT_EXPECT_ROW(test, tcplat_stalled(most, window), true);
		/* If there is no lower bound, this wraps. */
		KUNIT_EXPECT_ROW(test, tcplat_stalled(least - 1, window), false);
		KUNIT_EXPECT_ROW(test, tcplat_stalled(most + 1, window), false);
		KUNIT_EXPECT_ROW(test, tcplat_stalled(U64_MAX, window), false);
	}
}

/* In both units, with the tolerance of 1 ms, and when 32 bits wrap. */
static void stalls_echoes(struct kunit *test)
{
	static const u64 rows[] = {
		5 * NSEC_PER_MSEC, 1000 * NSEC_PER_MSEC + 999999,
		(1ULL << 32) * NSEC_PER_USEC, (1ULL << 32) * NSEC_PER_MSEC,
		((1ULL << 31) + 7) * NSEC_PER_MSEC,
	};

	for_each_row() {
		u32 ms = *row / NSEC_PER_MSEC, us = *row / NSEC_PER_USEC;

		KUNIT_EXPECT_TRUE(test, tcplat_echoes(ms, *row, false));
		KUNIT_EXPECT_TRUE(test, tcplat_echoes(ms - 1, *row, false));
		KUNIT_EXPECT_TRUE(test, tcplat_echoes(ms + 1000000, *row, false));
		KUNIT_EXPECT_FALSE(test, tcplat_echoes(ms - 2, *row, false));
		KUNIT_EXPECT_TRUE(test, tcplat_echoes(us, *row, true));
		KUNIT_EXPECT_TRUE(test, tcplat_echoes(us - 1000, *row, true));
		KUNIT_EXPECT_FALSE(test, tcplat_echoes(us - 1001, *row, true));
		KUNIT_EXPECT_FALSE(test, tcplat_echoes(us - 1000000, *row, true));
	}
}

static struct sock *stalls_sock(struct kunit *test)
{
	struct tcp_sock *tp = tcp_sk(kunit_sock(test));

	tp->rcv_nxt = 1000;
	tp->rx_opt.tstamp_ok = 1;
	/* A round trip of 200 ms, so that the test may take a while. */
	minmax_reset(&tp->rtt_min, 0, 200000);
	return (struct sock *)tp;
}

/* Data of 100 bytes is received, with the timestamp that the peer echoes now or 20 ms ago. */
static bool stalls_data(struct sock *sk, struct sk_buff *skb, u32 ms_ago)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool stall;
	u32 delay;

	tp->rx_opt.rcv_tsecr = div_u64(ktime_get_mono_fast_ns(), NSEC_PER_MSEC) - ms_ago;
	TCP_SKB_CB(skb)->seq = tp->rcv_nxt;
	tp->rcv_nxt += 100;
	TCP_SKB_CB(skb)->end_seq = tp->rcv_nxt;
	KUNIT_HANDLE(stall = tcplat_stall_end(sk, skb, &delay));
	return stall && delay == 7;
}

/*
 * Data counts as one stall if nothing but the late ACK was sent before it, if it is received in
 * time, and if its timestamp shows that the peer had received the ACK.
 */
static void stalls_by_event(struct kunit *test)
{
	static const struct {
		/* t: timer, s: a segment is sent, r: data (R: an old echo), x: time passes */
		const char *events;
		unsigned int stalls;
	} rows[] = {
		{ "tsr", 1 }, { "tsrr", 1 }, { "tssr", 0 }, { "tr", 0 }, { "ts", 0 }, { "sr", 0 },
		{ "r", 0 }, { "tsR", 0 }, { "tsxr", 0 }, { "tsrtsr", 2 }, { "tsrsr", 1 },
		{ "tsRr", 0 }, { "tssrtsr", 1 }, { "tstsr", 1 },
	};
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	const char *event;
	unsigned int way, n;

	for_each_row() {
		struct sock *sk = stalls_sock(test);
		struct tcplat_late_set *set = tcplat_late_set_of(sk);

		for (event = row->events, n = 0; *event; event++) {
			if (*event == 't')
				KUNIT_HANDLE(tcplat_stall_begin(sk, 7));
			else if (*event == 's')
				tcp_sk(sk)->segs_out++;
			else if (*event == 'r' || *event == 'R')
				n += stalls_data(sk, skb, *event == 'R' ? 20 : 0);
			for (way = 0; *event == 'x' && way < TCPLAT_LATE_WAYS; way++)
				if (set->keys[way] == (unsigned long)sk)
					late_of(set, way)->since -= 302 * NSEC_PER_MSEC;
		}
		KUNIT_EXPECT_EQ_MSG(test, n, row->stalls, "%s", row->events);
		stalls_data(sk, skb, 0);
		KUNIT_EXPECT_FALSE(test, tcplat_is_late(sk));
	}
}

/*
 * The peer's timestamp tells only on a connection that has timestamps, and if the peer had
 * acknowledged all data before the late ACK. Otherwise the lower bound of the time tells, which is
 * 0 if no round trip was measured.
 */
static void stalls_without_an_echo(struct kunit *test)
{
	static const struct {
		bool tstamp_ok, unacked;
		u32 min_rtt, ms_ago;
		bool stall;
	} rows[] = {
		{ true, false, 200000, 0, true }, { true, false, U32_MAX, 20, false },
		{ false, false, 200000, 0, false }, { false, false, U32_MAX, 20, true },
		{ true, true, 200000, 0, false }, { true, true, U32_MAX, 20, true },
	};
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));

	for_each_row() {
		struct sock *sk = stalls_sock(test);
		struct tcp_sock *tp = tcp_sk(sk);

		tp->rx_opt.tstamp_ok = row->tstamp_ok;
		tp->snd_nxt = row->unacked;
		minmax_reset(&tp->rtt_min, 0, row->min_rtt);
		KUNIT_HANDLE(tcplat_stall_begin(sk, 7));
		tp->segs_out++;
		KUNIT_EXPECT_ROW(test, stalls_data(sk, skb, row->ms_ago), row->stall);
	}
}

/* Data that does not contain the byte after the late ACK is that of another connection. */
static void stalls_of_another_connection(struct kunit *test)
{
	static const s32 rows[] = { -101, -100, -99, 0, 1, 1000000 };
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));

	for_each_row() {
		struct sock *sk = stalls_sock(test);

		KUNIT_HANDLE(tcplat_stall_begin(sk, 7));
		tcp_sk(sk)->segs_out++;
		tcp_sk(sk)->rcv_nxt += *row;
		KUNIT_EXPECT_ROW(test, stalls_data(sk, skb, 0), *row == 0 || *row == -99);
	}
}

/* A new late ACK of the socket goes into this slot of its set; @kept: nothing was forgotten. */
static void stalls_go_into(struct kunit *test, struct sock *sk, unsigned int way, bool kept)
{
	KUNIT_EXPECT_EQ(test, tcplat_stall_begin(sk, 7), kept);
	KUNIT_EXPECT_EQ(test, tcplat_late_set_of(sk)->keys[way], (unsigned long)sk);
	KUNIT_EXPECT_TRUE(test, tcplat_is_late(sk));
}

/* A full set forgets its oldest late ACK, and tells if data of that one may still come. */
static void stalls_evictions(struct kunit *test)
{
	struct sock *sk = stalls_sock(test);
	struct tcplat_late_set *set = tcplat_late_set_of(sk);
	struct tcplat_late_set saved = *set;
	u64 now = ktime_get_mono_fast_ns();
	unsigned int way;

	for (way = 0; way < TCPLAT_LATE_WAYS; way++) {
		set->keys[way] = 0xffff000000001000 + 64 * way;
		late_of(set, way)->since = now - way * NSEC_PER_MSEC;
		late_of(set, way)->most = USEC_PER_SEC;
	}
	/* One that is busy is not replaced, however old it is. */
	late_of(set, 2)->since = 0;
	set->keys[2] |= BUSY;
	preempt_disable();
	stalls_go_into(test, sk, TCPLAT_LATE_WAYS - 1, false);
	/* The socket's own is replaced, and nothing is lost. */
	stalls_go_into(test, sk, TCPLAT_LATE_WAYS - 1, true);

	/* Too old for any data to come. */
	set->keys[TCPLAT_LATE_WAYS - 1] = 0xffff000000002000;
	late_of(set, 4)->since = now - 20 * NSEC_PER_MSEC;
	late_of(set, 4)->most = 10 * USEC_PER_MSEC;
	stalls_go_into(test, sk, 4, true);

	/* A free one comes first. */
	set->keys[4] = 0xffff000000003000;
	set->keys[0] = 0;
	stalls_go_into(test, sk, 0, true);

	for (way = 0; way < TCPLAT_LATE_WAYS; way++)
		set->keys[way] |= BUSY;
	KUNIT_EXPECT_FALSE(test, tcplat_stall_begin(sk, 7));
	preempt_enable();
	*set = saved;
}

TCPLAT_SUITE(stalls,
	     KUNIT_CASE(stalls_by_time),
	     KUNIT_CASE(stalls_echoes),
	     KUNIT_CASE(stalls_by_event),
	     KUNIT_CASE(stalls_without_an_echo),
	     KUNIT_CASE(stalls_of_another_connection),
	     KUNIT_CASE(stalls_evictions));
