/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of holds. The prediction is tested against a table written by hand, the handlers on
 * sockets that exist only in memory.
 */
#include "tcplat-kunit.h"

#define NONE	TCPLAT_HOLD_NONE
#define BY_NAGLE	TCPLAT_HOLD_NAGLE
#define BY_CORK	TCPLAT_HOLD_CORK

/* 100 bytes after a small segment in flight: Nagle's algorithm holds them. */
static struct tcplat_push sndhold_nagle(void)
{
	return (struct tcplat_push){
		.mss = 1000,
		.len = 100,
		.snd_una = 5000,
		.snd_sml = 5200,
		.snd_up = 5000,
		.snd_nxt = 5200,
		.end_seq = 5300,
		.wnd_end = 15000,
		.in_flight = 1,
		.cwnd = 10,
	};
}

/*
 * Each row changes fields of that push: the low bytes of the value are copied to the field.
 * Sequence numbers wrap.
 */
static void sndhold_predicate(struct kunit *test)
{
#define ROW(_text, _cause, ...)	{ .text = _text, .cause = _cause, .change = { __VA_ARGS__ } }
#define SET(_member, _value) \
	{ offsetof(struct tcplat_push, _member), sizeof_field(struct tcplat_push, _member), _value }
	static const struct {
		const char *text;
		enum tcplat_hold cause;
		struct { size_t at, size; u32 value; } change[4];
	} rows[] = {
		ROW("a small segment is in flight", BY_NAGLE),
		ROW("TCP_NODELAY", NONE, SET(nonagle, TCP_NAGLE_OFF)),
		ROW("the push is to send all", NONE, SET(nonagle, TCP_NAGLE_PUSH)),
		ROW("TCP_CORK", BY_CORK, SET(nonagle, TCP_NAGLE_CORK)),
		ROW("TCP_CORK is stronger than TCP_NODELAY", BY_CORK,
		    SET(nonagle, TCP_NAGLE_CORK | TCP_NAGLE_OFF)),
		ROW("TCP_CORK taken off", BY_NAGLE, SET(nonagle, 0)),
		ROW("TCP_CORK taken off with TCP_NODELAY set", NONE,
		    SET(nonagle, TCP_NAGLE_OFF | TCP_NAGLE_PUSH)),
		ROW("MSG_MORE", BY_CORK, SET(flags, MSG_MORE)),
		ROW("MSG_MORE with nothing in flight", BY_CORK, SET(flags, MSG_MORE),
		    SET(snd_sml, 5000), SET(in_flight, 0)),
		ROW("MSG_MORE is stronger than a push of all", BY_CORK, SET(flags, MSG_MORE),
		    SET(nonagle, TCP_NAGLE_PUSH)),
		ROW("urgent data in flight", NONE, SET(snd_up, 5100)),
		ROW("urgent data is written", NONE, SET(flags, MSG_OOB)),
		ROW("urgent data under TCP_CORK", NONE, SET(flags, MSG_OOB),
		    SET(nonagle, TCP_NAGLE_CORK)),
		ROW("the small segment is acknowledged", NONE, SET(snd_sml, 5000)),
		ROW("the small segment is of 4 GB ago", NONE, SET(snd_sml, 5201)),
		ROW("a full segment", NONE, SET(len, 1000), SET(end_seq, 6200)),
		ROW("two full segments", NONE, SET(len, 2000), SET(end_seq, 7200)),
		ROW("two full segments and a byte", BY_NAGLE, SET(len, 2001), SET(end_seq, 7201)),
		ROW("nothing", NONE, SET(len, 0)),
		ROW("no segment size", NONE, SET(mss, 0), SET(len, 0)),
		ROW("no window", NONE, SET(wnd_end, 5200)),
		ROW("a window that is a byte too small", NONE, SET(wnd_end, 5299)),
		ROW("a window that just does", BY_NAGLE, SET(wnd_end, 5300)),
		ROW("no window, under TCP_CORK", NONE, SET(wnd_end, 5200),
		    SET(nonagle, TCP_NAGLE_CORK)),
		ROW("no congestion window", NONE, SET(cwnd, 1)),
		ROW("the congestion window ends before the last segment", NONE, SET(cwnd, 3),
		    SET(len, 2001), SET(end_seq, 7201)),
		ROW("the congestion window just does", BY_NAGLE, SET(cwnd, 4), SET(len, 2001),
		    SET(end_seq, 7201)),
		ROW("a FIN", NONE, SET(fin, true)),
		ROW("a FIN under TCP_CORK", NONE, SET(fin, true), SET(nonagle, TCP_NAGLE_CORK)),
		ROW("repair mode", NONE, SET(repair, true)),
		ROW("nothing in flight", NONE, SET(snd_una, 5200), SET(snd_up, 5200),
		    SET(in_flight, 0)),
		ROW("a small segment that will be in flight", BY_NAGLE, SET(snd_una, 5200),
		    SET(snd_up, 5200), SET(in_flight, 0), SET(small_ahead, true)),
		ROW("the congestion window ends after the buffers ahead", NONE, SET(cwnd, 3),
		    SET(ahead, 2)),
		ROW("the congestion window has room after them", BY_NAGLE, SET(cwnd, 4),
		    SET(ahead, 2)),
	};
#undef SET
#undef ROW
	u32 base;
	int i;

	for_each_row() {
		struct tcplat_push push = sndhold_nagle();

		for (i = 0; i < ARRAY_SIZE(row->change); i++)
			memcpy((char *)&push + row->change[i].at, &row->change[i].value,
			       row->change[i].size);
		for (base = -20000; base != 100; base += 100) {
			struct tcplat_push moved = push;

			moved.snd_una += base;
			moved.snd_up += base;
			moved.snd_sml += base;
			moved.snd_nxt += base;
			moved.end_seq += base;
			moved.wnd_end += base;
			KUNIT_EXPECT_EQ_MSG(test, tcplat_hold(&moved), row->cause, "%s", row->text);
		}
	}
}

static void sndhold_ends(struct kunit *test)
{
	struct tcplat_push push = sndhold_nagle();

	KUNIT_EXPECT_TRUE(test, tcplat_hold_lasts(5300, 5200, 5300));
	KUNIT_EXPECT_TRUE(test, tcplat_hold_lasts(5300, 5200, 6000));
	/* Sent, and purged. */
	KUNIT_EXPECT_FALSE(test, tcplat_hold_lasts(5300, 5300, 5300));
	KUNIT_EXPECT_FALSE(test, tcplat_hold_lasts(5300, 5200, 5200));

	/* A later write extended the held bytes, within a segment and beyond it. */
	push.len = 900;
	push.end_seq = 6100;
	KUNIT_EXPECT_FALSE(test, tcplat_hold_outgrown(&push, 5300));
	push.len = 1050;
	push.end_seq = 6250;
	KUNIT_EXPECT_TRUE(test, tcplat_hold_outgrown(&push, 5300));
	KUNIT_EXPECT_TRUE(test, tcplat_hold_outgrown(&push, 6200));
	KUNIT_EXPECT_FALSE(test, tcplat_hold_outgrown(&push, 6201));
}

static void sndhold_peer_delays(struct kunit *test)
{
	const u64 ms = NSEC_PER_MSEC;

	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(44 * ms, 4000, false), 40 * ms);
	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(14 * ms, 4000, false), 10 * ms);
	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(14 * ms - 1, 4000, false), 0ULL);
	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(0, 0, false), 0ULL);
	/* The small segment was lost; no round trip has been measured. */
	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(44 * ms, 4000, true), 0ULL);
	KUNIT_EXPECT_EQ(test, tcplat_peer_delay(44 * ms, ~0U, false), 0ULL);
}

/* ---- handlers ---- */

struct sndhold_queue {
	struct tcp_sock *tp;
	struct sock *sk;
	struct sk_buff *skb;
};

/* A socket with a small segment in flight, and 100 bytes queued after it. */
static struct sndhold_queue sndhold_sock(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);
	struct sndhold_queue q = {
		.sk = sk, .tp = tcp_sk(sk), .skb = kunit_new(test, sizeof(*q.skb)),
	};

	q.tp->snd_una = 5000;
	q.tp->snd_up = 5000;
	q.tp->snd_sml = 5200;
	q.tp->snd_nxt = 5200;
	q.tp->write_seq = 5300;
	q.tp->snd_wnd = 10000;
	q.tp->snd_cwnd = 10;
	q.tp->packets_out = 1;
	TCP_SKB_CB(q.skb)->seq = 5200;
	TCP_SKB_CB(q.skb)->end_seq = 5300;
	q.skb->len = 100;
	__skb_queue_head_init(&q.sk->sk_write_queue);
	__skb_queue_tail(&q.sk->sk_write_queue, q.skb);
	return q;
}

static void sndhold_push(struct sndhold_queue *q, int flags, int nonagle)
{
	tcplat_sndhold_push(q->sk, flags, 1000, nonagle, 0);
}

static void sndhold_send(struct sndhold_queue *q, u32 seq, u32 end_seq)
{
	struct sk_buff *skb = q->skb;
	struct tcp_skb_cb cb = *TCP_SKB_CB(skb);

	TCP_SKB_CB(skb)->seq = seq;
	TCP_SKB_CB(skb)->end_seq = end_seq;
	tcplat_sndhold_sent(q->sk, (unsigned long)skb, 1);
	*TCP_SKB_CB(skb) = cb;
}

/* A write extends the queue up to @end_seq. */
static void sndhold_write(struct sndhold_queue *q, u32 end_seq)
{
	q->skb->len = end_seq - q->tp->snd_nxt;
	TCP_SKB_CB(q->skb)->seq = q->tp->snd_nxt;
	TCP_SKB_CB(q->skb)->end_seq = end_seq;
	q->tp->write_seq = end_seq;
	sndhold_push(q, 0, 0);
}

#define EXPECT_COUNTS(test, _begun, _nagle, _cork, _purged, _stale, _blocked)		\
	KUNIT_EXPECT_SUMS(test, { BEGUN, _begun }, { NAGLE, _nagle }, { CORK, _cork },	\
			  { PURGED, _purged }, { STALE, _stale }, { BLOCKED, _blocked })

static void sndhold_begins_and_ends(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	sndhold_push(&q, 0, 0);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	/* A later write does not begin another hold. */
	sndhold_write(&q, 5400);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	/* A retransmission of the segment in flight, and an ACK, which is not cloned. */
	sndhold_send(&q, 5000, 5200);
	tcplat_sndhold_sent(q.sk, (unsigned long)q.skb, 0);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
	sndhold_send(&q, 5200, 5400);
	EXPECT_COUNTS(test, 1, 1, 0, 0, 0, 0);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
	/* The held segment is retransmitted. */
	q.tp->snd_nxt = 5400;
	sndhold_send(&q, 5200, 5400);
	EXPECT_COUNTS(test, 1, 1, 0, 0, 0, 0);
}

/* With nothing in flight, only TCP_CORK and MSG_MORE hold data. */
static void sndhold_timer(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	q.tp->packets_out = 0;
	q.tp->snd_una = 5200;
	q.tp->snd_up = 5200;
	sndhold_push(&q, 0, 0);
	sndhold_send(&q, 5200, 5300);
	EXPECT_COUNTS(test, 0, 0, 0, 0, 0, 0);
	/* The upper halves of the registers are undefined. */
	tcplat_sndhold_push(q.sk, 1UL << 40, 1000 | 1UL << 40, 1UL << 40, 0);
	EXPECT_COUNTS(test, 0, 0, 0, 0, 0, 0);

	/* The timer ends a hold. */
	q.tp->tcp_clock_cache = 1000;
	sndhold_push(&q, MSG_MORE, 0);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	q.tp->tcp_clock_cache = 2000;
	probe_entry(q.sk, 0, 0);
	sndhold_send(&q, 5200, 5300);
	EXPECT_COUNTS(test, 1, 0, 1, 0, 0, 0);
	KUNIT_EXPECT_SUMS(test, { CORK_TIMEOUTS, 1 });

	/* The next hold in the same record, which an ACK ends; it has cleared the timer. */
	sndhold_push(&q, MSG_MORE, 0);
	sndhold_send(&q, 5200, 5300);
	EXPECT_COUNTS(test, 2, 0, 2, 0, 0, 0);
	KUNIT_EXPECT_SUMS(test, { CORK_TIMEOUTS, 1 });

	/* The timer sent a probe and no data; a later ACK opens the window. */
	sndhold_push(&q, 0, TCP_NAGLE_CORK);
	probe_entry(q.sk, 0, 0);
	q.tp->tcp_clock_cache = 3000;
	sndhold_send(&q, 5200, 5300);
	EXPECT_COUNTS(test, 3, 0, 3, 0, 0, 0);
	KUNIT_EXPECT_SUMS(test, { CORK_TIMEOUTS, 1 });

	/* A socket without a hold. */
	probe_entry(q.sk, 0, 0);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
}

/* Of the buffers before the last, which are not merged with it, each ends with a segment. */
static void sndhold_buffers_ahead(struct kunit *test)
{
	static const struct {
		u32 len[BUFFERS_MOST + 1];
		u32 cwnd;
		bool held;
	} rows[] = {
		{ { }, 10, false }, { { 1000, 2000 }, 10, false },
		{ { 1 }, 10, true }, { { 1, 1000, 1000 }, 10, true },
		{ { 1, 1 }, 4, true }, { { 1, 1 }, 3, false },
		{ { 1, 999 }, 3, false }, { { 1001, 1 }, 5, true },
		{ { 1001, 1 }, 4, false },
		/* The first ones of many are counted by their bytes. */
		{ { 1, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000 }, 20, false },
		{ { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1 }, 11, true },
		{ { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1 }, 10, false },
	};
	struct sndhold_queue q;
	struct sk_buff *skb;
	u64 held;
	u32 seq;
	int i;

	for_each_row() {
		q = sndhold_sock(test);
		q.tp->snd_sml = 5000;
		q.tp->snd_cwnd = row->cwnd;
		held = tcplat_sum(&tcplat_sndhold, BEGUN);
		seq = q.tp->snd_nxt;
		for (i = 0; i < ARRAY_SIZE(row->len); i++) {
			if (!row->len[i])
				continue;
			skb = kunit_new(test, sizeof(*skb));
			skb->len = row->len[i];
			TCP_SKB_CB(skb)->seq = seq;
			seq += skb->len;
			TCP_SKB_CB(skb)->end_seq = seq;
			TCP_SKB_CB(skb)->eor = 1;
			__skb_queue_before(&q.sk->sk_write_queue, q.skb, skb);
		}
		TCP_SKB_CB(q.skb)->seq = seq;
		TCP_SKB_CB(q.skb)->end_seq = seq + 100;
		q.tp->write_seq = seq + 100;
		q.tp->snd_wnd = 100000;
		sndhold_push(&q, 0, 0);
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_sndhold, BEGUN) - held,
				 (u64)row->held);
		tcplat_sndhold_gone(q.sk, 0, 0);
	}
}

/* A hold whose end was missed is dropped at the next event. */
static void sndhold_stale(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	sndhold_push(&q, 0, 0);
	q.tp->snd_nxt = 5300;
	q.tp->write_seq = 5400;
	sndhold_send(&q, 5300, 5400);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 1, 0);

	q = sndhold_sock(test);
	sndhold_push(&q, 0, 0);
	q.tp->snd_una = 900000;
	q.tp->snd_up = 900000;
	q.tp->snd_sml = 900100;
	q.tp->snd_nxt = 900100;
	sndhold_write(&q, 900200);
	EXPECT_COUNTS(test, 3, 0, 0, 0, 2, 0);
	sndhold_send(&q, 900100, 900200);
	EXPECT_COUNTS(test, 3, 1, 0, 0, 2, 0);
}

/*
 * 100 bytes are held; a write fills their segment and leaves a remainder, which begins a new hold,
 * unless TCP_NODELAY is set before the held segment is sent.
 */
static void sndhold_outgrown(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	sndhold_push(&q, 0, 0);
	sndhold_write(&q, 6300);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	sndhold_send(&q, 5200, 6200);
	EXPECT_COUNTS(test, 2, 1, 0, 0, 0, 0);
	q.tp->snd_nxt = 6200;
	sndhold_send(&q, 6200, 6300);
	EXPECT_COUNTS(test, 2, 2, 0, 0, 0, 0);

	q = sndhold_sock(test);
	sndhold_push(&q, 0, 0);
	sndhold_write(&q, 6300);
	sndhold_push(&q, 0, TCP_NAGLE_OFF);
	sndhold_send(&q, 5200, 6200);
	EXPECT_COUNTS(test, 3, 3, 0, 0, 0, 0);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
}

/* Two segments and a remainder, of which the first 100 bytes are held or not. */
static struct sndhold_queue sndhold_burst(struct kunit *test, bool held)
{
	struct sndhold_queue q = sndhold_sock(test);

	if (held)
		sndhold_push(&q, 0, 0);
	sndhold_write(&q, 7300);
	return q;
}

/* Data that the push did not reach is not held by Nagle's algorithm. */
static void sndhold_blocked(struct kunit *test)
{
	struct sndhold_queue q = sndhold_burst(test, false);

	/* The push sends all data ahead of the remainder, in two runs of one call. */
	q.tp->tcp_clock_cache = 100;
	sndhold_send(&q, 5200, 6200);
	q.tp->snd_nxt = 6200;
	sndhold_send(&q, 6200, 7200);
	q.tp->snd_nxt = 7200;
	/* Later, by an ACK. */
	q.tp->tcp_clock_cache = 200;
	q.tp->delivered = 1;
	sndhold_send(&q, 7200, 7300);
	EXPECT_COUNTS(test, 1, 1, 0, 0, 0, 0);

	/* An ACK, not the push, sends the first segment. */
	q = sndhold_burst(test, false);
	q.tp->delivered = 1;
	sndhold_send(&q, 5200, 6200);
	EXPECT_COUNTS(test, 2, 1, 0, 0, 0, 1);

	/* The push sends one segment, a later event the other one. */
	q = sndhold_burst(test, false);
	q.tp->tcp_clock_cache = 100;
	sndhold_send(&q, 5200, 6200);
	q.tp->snd_nxt = 6200;
	EXPECT_COUNTS(test, 3, 1, 0, 0, 0, 1);
	q.tp->tcp_clock_cache = 200;
	sndhold_send(&q, 6200, 7200);
	EXPECT_COUNTS(test, 3, 1, 0, 0, 0, 2);

	/* The next write sends the data ahead, or its push finds the data unsent. */
	q = sndhold_burst(test, false);
	q.tp->write_seq = 7400;
	sndhold_send(&q, 5200, 6200);
	EXPECT_COUNTS(test, 4, 1, 0, 0, 0, 3);
	q = sndhold_burst(test, false);
	sndhold_push(&q, 0, 0);
	EXPECT_COUNTS(test, 6, 1, 0, 0, 0, 4);
	tcplat_sndhold_gone(q.sk, 0, 0);

	/* All of it is sent as one segment. */
	q = sndhold_burst(test, false);
	sndhold_send(&q, 5200, 7300);
	EXPECT_COUNTS(test, 7, 1, 0, 1, 0, 5);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
}

/* A hold ends when its bytes are sent, not at the push that should have sent them. */
static void sndhold_outgrown_blocked(struct kunit *test)
{
	struct sndhold_queue q = sndhold_burst(test, true);

	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
	/* A push without a remainder: the hold that the previous push would begin is cancelled. */
	sndhold_write(&q, 8200);
	q.tp->delivered = 1;
	sndhold_send(&q, 5200, 7200);
	EXPECT_COUNTS(test, 1, 1, 0, 0, 0, 0);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));

	/* An ACK sends both segments. */
	q = sndhold_burst(test, true);
	q.tp->delivered = 1;
	sndhold_send(&q, 5200, 7200);
	EXPECT_COUNTS(test, 2, 2, 0, 0, 0, 0);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
}

static void sndhold_probes_loss(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	kunit_set_rto_timeout(sk, jiffies);
	KUNIT_EXPECT_FALSE(test, tcplat_probes_loss(sk));
	inet_csk(sk)->icsk_pending = ICSK_TIME_LOSS_PROBE;
	KUNIT_EXPECT_TRUE(test, tcplat_probes_loss(sk));
	/* A write sends what was held, and the probe follows after it. */
	set_bit(TCP_WRITE_TIMER_DEFERRED, &sk->sk_tsq_flags);
	KUNIT_EXPECT_FALSE(test, tcplat_probes_loss(sk));
	clear_bit(TCP_WRITE_TIMER_DEFERRED, &sk->sk_tsq_flags);
	kunit_set_rto_timeout(sk, jiffies + HZ);
	KUNIT_EXPECT_FALSE(test, tcplat_probes_loss(sk));
	kunit_set_rto_timeout(sk, jiffies);
	inet_csk(sk)->icsk_pending = ICSK_TIME_RETRANS;
	KUNIT_EXPECT_FALSE(test, tcplat_probes_loss(sk));
}

static void sndhold_forgets(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	sndhold_push(&q, 0, 0);
	sndhold_stop(&tcplat_sndhold);
	KUNIT_EXPECT_SUMS(test, { FORGOTTEN, 1 });
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
	KUNIT_ASSERT_EQ(test, sndhold_alloc(&tcplat_sndhold), 0);
	sndhold_send(&q, 5200, 5300);
	EXPECT_COUNTS(test, 1, 0, 0, 0, 0, 0);
}

/* A hold that finds no room is counted, and leaves nothing else behind. */
static void sndhold_no_room(struct kunit *test)
{
	struct sndhold_queue q = sndhold_sock(test);

	kunit_fill_sets(&table, q.sk, true);
	sndhold_push(&q, 0, 0);
	kunit_fill_sets(&table, q.sk, false);
	KUNIT_EXPECT_SUMS(test, { OVERFLOWS, 1 });
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndhold_held, q.sk));
	EXPECT_COUNTS(test, 0, 0, 0, 0, 0, 0);
}

TCPLAT_GROUP_SUITE(sndhold,
		   KUNIT_CASE(sndhold_predicate),
		   KUNIT_CASE(sndhold_ends),
		   KUNIT_CASE(sndhold_peer_delays),
		   KUNIT_CASE(sndhold_begins_and_ends),
		   KUNIT_CASE(sndhold_timer),
		   KUNIT_CASE(sndhold_buffers_ahead),
		   KUNIT_CASE(sndhold_stale),
		   KUNIT_CASE(sndhold_outgrown),
		   KUNIT_CASE(sndhold_blocked),
		   KUNIT_CASE(sndhold_outgrown_blocked),
		   KUNIT_CASE(sndhold_probes_loss),
		   KUNIT_CASE(sndhold_forgets),
		   KUNIT_CASE(sndhold_no_room));
