/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of modes, causes and transitions. The pure functions are tested against tables written
 * by hand, the handlers on sockets that exist only in memory.
 */
#include "tcplat-kunit.h"

#define D	TCPLAT_DELAYED
#define Q	TCPLAT_QUICKACK
#define P	TCPLAT_PINGPONG
#define R	TCPLAT_ROUTE
#define TIMEOUT		TCPLAT_STATE_TIMEOUT
#define SETSOCK		TCPLAT_STATE_SETSOCKOPT
#define BY(cause)	TCPLAT_CAUSE_##cause

/* A segment without data, for which the handler expects no cause. */
static unsigned long ackmode_ack(void)
{
	static struct sk_buff skb;

	return (unsigned long)&skb;
}

/* Each cause, with the changes that it can explain, as pairs of letters: from, to. */
static void ackmode_explains(struct kunit *test)
{
	static const char names[] = "DQPR";
	static const char * const rows[TCPLAT_CAUSES] = {
		[BY(NONE)] = "", [BY(TIMEOUT)] = "PD PQ", [BY(SETSOCKOPT)] = "PD PQ DP QP",
		[BY(FIRST)] = "DQ", [BY(GAP)] = "DQ", [BY(HANDSHAKE)] = "DQ",
		[BY(DUPLICATE)] = "DQ PQ PD", [BY(ECN)] = "DQ PQ PD", [BY(BUDGET)] = "QD",
		[BY(ANSWER)] = "DP QP", [BY(FIN)] = "DP QP", [BY(WINDOW)] = "DQ QD",
		[BY(ROUTE)] = "DR QR PR RD RQ RP", [BY(DISCONNECT)] = "QD PD",
	};
	unsigned int i;

	for (i = 0; i < TCPLAT_CAUSES * TCPLAT_MODES * TCPLAT_MODES; i++) {
		unsigned int cause = i / 16, from = i / 4 % 4, to = i % 4;
		const char pair[] = { names[from], names[to], 0 };
		bool want = strstr(rows[cause], pair);
		enum tcplat_cause by = want ? cause : BY(NONE);

		KUNIT_EXPECT_EQ_MSG(test, tcplat_explains(cause, from, to), want, "%s by %u",
				    pair, cause);
		/* Of a change of the route, whatever is expected. */
		if (from != to && (from == R || to == R))
			by = BY(ROUTE);
		KUNIT_EXPECT_EQ_MSG(test, tcplat_cause(from, cause, to), by, "%s by %u",
				    pair, cause);
		/* The expected cause takes precedence over flags in the state. */
		if (by)
			KUNIT_EXPECT_EQ_MSG(test, tcplat_cause(from | SETSOCK | TIMEOUT, cause, to),
					    by, "%s by %u", pair, cause);
	}
}

#define ATO	TCP_ATO_MIN

/* The change that tcp_event_data_recv() makes for each mode, ATO, gap, ECN and window. */
static void ackmode_expects_of_data_received(struct kunit *test)
{
	static const struct {
		struct tcplat_ack ack;
		u32 rto;
		bool ecn;
		enum tcplat_cause next;
	} rows[] = {
		{ { D, 0, 0, 0 }, HZ, false, BY(FIRST) },
		{ { D, 0, 0, 0, false, true }, HZ, true, BY(FIRST) },
		{ { D, 0, ATO, 0 }, HZ, false, BY(NONE) },
		{ { D, 0, ATO, HZ }, HZ, false, BY(NONE) },
		{ { D, 0, ATO, HZ + 1 }, HZ, false, BY(GAP) },
		{ { D, 0, ATO, HZ + 1 }, HZ, true, BY(GAP) },
		/* Data within the ATO is not after a gap, whatever the RTO is. */
		{ { D, 0, 2 * ATO, 2 * ATO - 1 }, ATO, false, BY(NONE) },
		{ { D, 0, 2 * ATO, 2 * ATO }, ATO, false, BY(GAP) },
		{ { D, 0, ATO / 2, ATO / 2 }, 0, false, BY(NONE) },
		{ { D, 0, ATO, 0 }, HZ, true, BY(ECN) },
		{ { D, 0, ATO, 0, false, true }, HZ, true, BY(ECN) },
		{ { D, 0, ATO, 0, false, true }, HZ, false, BY(WINDOW) },
		{ { D, 0, ATO, HZ + 1, false, true }, HZ, false, BY(GAP) },
		{ { Q, 3, 0, 0 }, HZ, false, BY(NONE) },
		{ { Q, 3, ATO, HZ + 1, false, true }, HZ, true, BY(NONE) },
		{ { Q, 3, ATO, 0, true, true }, HZ, true, BY(WINDOW) },
		{ { P, 3, 0, HZ + 1, true, true }, HZ, false, BY(NONE) },
		{ { P, 0, 0, 0 }, HZ, true, BY(ECN) },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_expect_received(&row->ack, row->rto, row->ecn),
				 row->next);
}

static void ackmode_expects_of_segments_sent(struct kunit *test)
{
	static const struct {
		struct tcplat_ack ack;
		bool data;
		u32 packets;
		bool scheduled, last;
		enum tcplat_cause next;
	} rows[] = {
		{ { D, 0, ATO, 0 }, false, 1, true, true, BY(NONE) },
		{ { D, 0, ATO, ATO - 1 }, true, 1, true, true, BY(ANSWER) },
		{ { D, 0, ATO, ATO }, true, 1, true, true, BY(NONE) },
		{ { D, 0, 0, 0 }, true, 1, true, true, BY(NONE) },
		/* Newer kernels may need more than one answer. */
		{ { D, 0, ATO, 0 }, true, 1, true, false, BY(NONE) },
		{ { Q, 2, ATO, 0 }, true, 1, true, true, BY(ANSWER) },
		{ { Q, 1, ATO, 0 }, true, 1, true, false, BY(BUDGET) },
		{ { Q, 1, ATO, 0 }, false, 1, true, true, BY(BUDGET) },
		{ { Q, 2, ATO, 0 }, false, 1, true, true, BY(NONE) },
		{ { Q, 2, ATO, 0 }, false, 2, true, true, BY(BUDGET) },
		/* The last quick ACK shortens the ATO before the data is accounted for. */
		{ { Q, 1, 3 * ATO, 2 * ATO }, true, 1, true, true, BY(BUDGET) },
		{ { Q, 1, 3 * ATO, 2 * ATO }, true, 1, false, true, BY(ANSWER) },
		{ { Q, 2, 3 * ATO, 2 * ATO }, true, 1, true, true, BY(ANSWER) },
		{ { Q, 1, 3 * ATO, 2 * ATO, true }, true, 1, true, true, BY(ANSWER) },
		{ { Q, 1, ATO, 0, true }, false, 1, true, true, BY(WINDOW) },
		{ { Q, 9, ATO, 0, true }, false, 1, true, true, BY(WINDOW) },
		{ { P, 1, ATO, 0, true }, true, 1, true, true, BY(NONE) },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_expect_sent(&row->ack, row->data, row->packets,
							  row->scheduled, row->last), row->next);
}

/* 1000 is expected next, the window is 500 bytes, and sequence numbers wrap. */
static void ackmode_expects_of_data_queued(struct kunit *test)
{
	static const struct {
		enum tcplat_mode mode;
		u32 seq, end_seq, window;
		bool may_grow;
		enum tcplat_cause next;
		bool ecn, over;
	} rows[] = {
		{ D, 1000, 1000, 500, true, BY(NONE) },
		{ D, 1000, 1000, 0, true, BY(NONE) },
		/* In order: handled by tcp_event_data_recv() and tcp_fin(). */
		{ D, 1000, 1100, 500, true, BY(NONE), .ecn = true },
		{ P, 1000, 1100, 500, true, BY(NONE), .ecn = true },
		{ Q, 1000, 1100, 500, true, BY(WINDOW), .ecn = true, .over = true },
		{ Q, 1000, 1100, 500, true, BY(NONE), .ecn = true },
		/* The window is closed. */
		{ D, 1000, 1100, 0, true, BY(DUPLICATE) },
		{ P, 1000, 1001, 0, false, BY(DUPLICATE) },
		{ Q, 1000, 1100, 0, true, BY(NONE), .over = true },
		/* Old data, all of it or a part. */
		{ D, 900, 1000, 500, true, BY(DUPLICATE) },
		{ P, 900, 999, 500, false, BY(DUPLICATE) },
		{ Q, 900, 1000, 500, false, BY(NONE) },
		{ D, 900, 1001, 500, true, BY(NONE), .ecn = true },
		{ D, 900, 1001, 0, true, BY(DUPLICATE) },
		/* Beyond the window. */
		{ D, 1500, 1600, 500, true, BY(DUPLICATE) },
		{ D, 1499, 1500, 500, false, BY(NONE) },
		/* Out of order. */
		{ D, 1200, 1300, 500, true, BY(WINDOW) },
		{ D, 1200, 1300, 500, true, BY(ECN), .ecn = true },
		{ P, 1200, 1300, 500, true, BY(ECN), .ecn = true },
		{ P, 1200, 1300, 500, true, BY(NONE) },
		{ Q, 1200, 1300, 500, true, BY(NONE), .ecn = true },
		{ Q, 1200, 1300, 500, true, BY(WINDOW), .ecn = true, .over = true },
	};
	static const u32 bases[] = { 0, -1000U, -1100U, -1001U, 0x7fffffff - 1000 };
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	struct sock *sk = kunit_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	int i;

	for_each_row() {
		struct tcplat_ack ack = { .mode = row->mode, .may_grow = row->may_grow };

		tp->rcv_wnd = row->window;
		tp->ecn_flags = row->ecn ? TCP_ECN_OK | TCP_ECN_SEEN : 0;
		atomic_set(&sk->sk_rmem_alloc, row->over);
		for (i = 0; i < ARRAY_SIZE(bases); i++) {
			TCP_SKB_CB(skb)->seq = row->seq + bases[i];
			TCP_SKB_CB(skb)->end_seq = row->end_seq + bases[i];
			tp->rcv_nxt = 1000 + bases[i];
			tp->rcv_wup = tp->rcv_nxt;
			KUNIT_EXPECT_ROW(test, tcplat_expect_queued(&ack, sk, skb), row->next);
		}
	}
}

/* ---- on sockets ---- */

static struct sock *ackmode_sock(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	/* Data was received just now. */
	tcp_sk(sk)->rcv_nxt = 1000;
	inet_csk(sk)->icsk_ack.ato = ATO;
	inet_csk(sk)->icsk_ack.lrcvtime = tcp_jiffies32;
	inet_csk(sk)->icsk_rto = TCP_TIMEOUT_INIT;
	return sk;
}

/* Sets the quickack attribute of the socket's route. */
static void ackmode_set_route(struct sock *sk, bool quickack)
{
#ifdef TCPLAT_HAVE_DST_QUICK_ACK
	inet_csk(sk)->icsk_ack.dst_quick_ack = quickack;
#else
	static u32 metrics[RTAX_MAX] = { [RTAX_QUICKACK - 1] = 1 };
	static struct dst_entry dst;

	dst_init_metrics(&dst, metrics, true);
	RCU_INIT_POINTER(sk->sk_dst_cache, quickack ? &dst : NULL);
#endif
}

/* Sets the mode with the kernel's functions, which leave other fields as TCP leaves them. */
static void ackmode_set(struct sock *sk, enum tcplat_mode mode)
{
	inet_csk_exit_pingpong_mode(sk);
	inet_csk(sk)->icsk_ack.quick = mode == D ? 0 : 3;
	if (mode == P)
		inet_csk_enter_pingpong_mode(sk);
	ackmode_set_route(sk, mode == R);
}

/* TCPLAT_MODES and TCPLAT_CAUSES mean any. */
static u64 ackmode_sum(unsigned int from, unsigned int to, unsigned int cause)
{
	return read_changes(&tcplat_ackmode, CHANGES(from, to, cause));
}

/* The number of changes of all kinds since the last reset. */
static u64 ackmode_all(void)
{
	return ackmode_sum(TCPLAT_MODES, TCPLAT_MODES, TCPLAT_CAUSES);
}

/* Expects exactly @n changes since the last reset, all of this kind. */
static void ackmode_expect_only(struct kunit *test, enum tcplat_mode from, enum tcplat_mode to,
				enum tcplat_cause cause, u64 n)
{
	KUNIT_EXPECT_EQ_MSG(test, ackmode_sum(from, to, cause), n, "%s to %s by %s",
			    mode_names[from].name, mode_names[to].name, cause_names[cause].name);
	KUNIT_EXPECT_EQ_MSG(test, ackmode_all(), n, "%s to %s by %s", mode_names[from].name,
			    mode_names[to].name, cause_names[cause].name);
}

/*
 * Removes the socket from the table, which must not have it once its memory is freed. Returns its
 * state, or -1 if it was not there.
 */
static int ackmode_bury(struct sock *sk)
{
	u64 word = tcplat_socktab_remove(&tcplat_ackmode_table, tcplat_sock_key(sk));

	return word ? word & TCPLAT_STATE_MASK : -1;
}

/* An event that can only change the mode if a flag @happened. */
static void ackmode_observe(struct sock *sk, unsigned int happened)
{
	if (happened || !tcplat_ackmode_saw(sk, tcplat_sock_own_mode(sk)))
		note_event(sk, false, happened, BY(NONE));
}

/* Returns a socket last seen in @mode, with all counters 0. */
static struct sock *ackmode_seen(struct kunit *test, enum tcplat_mode mode)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	ackmode_set(sk, mode);
	ackmode_observe(sk, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	return sk;
}

/* Changes the mode to @to. Expects one change, by @cause, and no flags left in the state. */
static void ackmode_becomes(struct kunit *test, struct sock *sk, enum tcplat_mode from,
			    enum tcplat_mode to, enum tcplat_cause cause)
{
	ackmode_set(sk, to);
	ackmode_observe(sk, 0);
	ackmode_expect_only(test, from, to, cause, from != to);
	KUNIT_EXPECT_EQ(test, ackmode_bury(sk), to);
}

/* Each change of mode, and its cause after each combination of flags that may be set before it. */
static void ackmode_every_change(struct kunit *test)
{
	static const unsigned int flags[] = { 0, SETSOCK, TIMEOUT, SETSOCK | TIMEOUT };
	static const struct {
		enum tcplat_mode from, to;
		enum tcplat_cause after[ARRAY_SIZE(flags)];
	} rows[] = {
		{ D, Q, { BY(NONE), BY(NONE), BY(NONE), BY(NONE) } },
		{ D, P, { BY(NONE), BY(SETSOCKOPT), BY(NONE), BY(SETSOCKOPT) } },
		{ Q, D, { BY(NONE), BY(NONE), BY(NONE), BY(NONE) } },
		{ Q, P, { BY(NONE), BY(SETSOCKOPT), BY(NONE), BY(SETSOCKOPT) } },
		{ P, D, { BY(NONE), BY(SETSOCKOPT), BY(TIMEOUT), BY(TIMEOUT) } },
		{ P, Q, { BY(NONE), BY(SETSOCKOPT), BY(TIMEOUT), BY(TIMEOUT) } },
	};
	int i, j;

	for_each_row() {
		for (i = 0; i < ARRAY_SIZE(flags); i++) {
			struct sock *sk = ackmode_seen(test, row->from);

			ackmode_observe(sk, flags[i]);
			ackmode_set(sk, row->to);
			/* The same mode again is not a change. */
			for (j = 0; j < 2; j++) {
				tcplat_ackmode_sent(sk, ackmode_ack(), 0);
				ackmode_expect_only(test, row->from, row->to, row->after[i], 1);
			}
			ackmode_bury(sk);
		}
	}
}

static void ackmode_only_the_living_are_adopted(struct kunit *test)
{
	int state;

	for (state = TCP_ESTABLISHED; state < TCP_MAX_STATES; state++) {
		struct sock *sk = ackmode_sock(test);
		bool dead = state == TCP_CLOSE || state == TCP_LISTEN || state == TCP_SYN_SENT ||
			    state == TCP_SYN_RECV;

		sk->sk_state = state;
		ackmode_observe(sk, 0);
		KUNIT_EXPECT_EQ_MSG(test, ackmode_bury(sk) < 0, dead, "TCP state %d", state);
	}
}

/* Without the socket's lock, another CPU may be inserting the socket. */
static void ackmode_setsockopt_inserts_nothing(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	setsockopt_entry(sk, SOL_TCP, TCP_QUICKACK);
	KUNIT_EXPECT_LT(test, ackmode_bury(sk), 0);
	/* Other options and levels are ignored. */
	setsockopt_entry(sk, SOL_TCP, TCP_NODELAY);
	setsockopt_entry(sk, SOL_SOCKET, TCP_QUICKACK);
	KUNIT_EXPECT_SUMS(test, { SETSOCKOPT, 1 }, { HITS_SETSOCKOPT, 3 });
	/* The upper halves of the registers are undefined. */
	setsockopt_entry(sk, SOL_TCP | 0xdeadULL << 32, TCP_QUICKACK | 0xbeefULL << 32);
	KUNIT_EXPECT_SUMS(test, { SETSOCKOPT, 2 });
}

/* ---- two CPUs that observe a socket at the same time ---- */

/* Each of these runs once, between two reads of the other observer. */
static void ackmode_there_and_back(struct sock *sk)
{
	between_reads = NULL;
	ackmode_set(sk, P);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_set(sk, D);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
}

static void ackmode_there_and_back_second(struct sock *sk)
{
	between_reads = ackmode_there_and_back;
}

static void ackmode_pingpong_ends(struct sock *sk)
{
	between_reads = NULL;
	observe_unlocked(sk);
	ackmode_set(sk, D);
}

/*
 * The caller that sets TCP_QUICKACK is delayed while the owner of the lock sees pingpong mode
 * begin and end: before it reads the mode, and after it has read pingpong.
 */
static void ackmode_unlocked_observer_is_late(struct kunit *test)
{
	static void (* const when[])(struct sock *sk) = {
		ackmode_there_and_back, ackmode_there_and_back_second,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(when); i++) {
		struct sock *sk = ackmode_sock(test);

		birth_entry(sk, 0, 0);
		tcplat_counters_reset(&tcplat_ackmode);
		ackmode_set(sk, P);
		between_reads = when[i];
		observe_unlocked(sk);
		KUNIT_EXPECT_PTR_EQ(test, between_reads, NULL);
		KUNIT_EXPECT_EQ(test, ackmode_sum(D, P, BY(NONE)), 1);
		KUNIT_EXPECT_EQ(test, ackmode_sum(P, D, BY(NONE)), 1);
		KUNIT_EXPECT_EQ(test, ackmode_all(), 2);
		/* The flag that TCP_QUICKACK was set is kept. */
		ackmode_set(sk, P);
		tcplat_ackmode_sent(sk, ackmode_ack(), 0);
		KUNIT_EXPECT_EQ(test, ackmode_sum(D, P, BY(SETSOCKOPT)), 1);
		ackmode_bury(sk);
	}
}

/* The owner of the lock is delayed while TCP_QUICKACK is set, so its reads are stale. */
static void ackmode_locked_observer_is_late(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_set(sk, P);
	between_reads = ackmode_pingpong_ends;
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_PTR_EQ(test, between_reads, NULL);
	ackmode_expect_only(test, D, P, BY(NONE), 1);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_sum(P, D, BY(SETSOCKOPT)), 1);
	KUNIT_EXPECT_EQ(test, ackmode_all(), 2);
	/* The ACK may have been sent before the option was set. */
	KUNIT_EXPECT_EQ(test, ackmode_bury(sk), D | SETSOCK);
}

/* ---- expected causes ---- */

static unsigned long ackmode_skb(struct kunit *test, u32 seq, u32 end_seq)
{
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));

	skb->len = end_seq - seq;
	TCP_SKB_CB(skb)->seq = seq;
	TCP_SKB_CB(skb)->end_seq = end_seq;
	TCP_SKB_CB(skb)->tcp_gso_segs = 1;
	return (unsigned long)skb;
}

/* With the handlers: a change is attributed to the function that makes it. */
static void ackmode_each_function_is_a_cause(struct kunit *test)
{
	static const struct {
		enum tcplat_mode from, to;
		enum tcplat_cause cause;
		void (*handler)(struct sock *sk, unsigned long skb, unsigned long arg2);
		/* Of 100 bytes; 1000 is expected next. */
		u32 seq;
		bool first, gap, fin_wait;
		u8 quick;
	} rows[] = {
		{ D, Q, BY(FIRST), tcplat_ackmode_received, 1000, .first = true },
		{ D, Q, BY(GAP), tcplat_ackmode_received, 1000, .gap = true },
		{ D, P, BY(ANSWER), tcplat_ackmode_sent, 1000 },
		{ Q, P, BY(ANSWER), tcplat_ackmode_sent, 900, .quick = 1 },
		{ D, P, BY(FIN), fin_entry },
		/* Only the first FIN begins pingpong mode. */
		{ D, P, BY(NONE), fin_entry, .fin_wait = true },
		{ P, Q, BY(DUPLICATE), dupack_entry, 900 },
		/* Not before rcv_nxt: the kernel only sends an ACK. */
		{ P, Q, BY(NONE), dupack_entry, 1000 },
		{ D, Q, BY(DUPLICATE), tcplat_ackmode_queue, 900 },
	};
	struct sock *sk;

	for_each_row() {
		sk = ackmode_seen(test, row->from);
		tcp_sk(sk)->rcv_wup = 1000;
		tcp_sk(sk)->rcv_wnd = 500;
		if (row->first)
			inet_csk(sk)->icsk_ack.ato = 0;
		if (row->gap)
			inet_csk(sk)->icsk_ack.lrcvtime -= TCP_TIMEOUT_INIT + 1;
		if (row->fin_wait)
			sk->sk_state = TCP_FIN_WAIT2;
		if (row->quick)
			inet_csk(sk)->icsk_ack.quick = row->quick;
		row->handler(sk, ackmode_skb(test, row->seq, row->seq + 100), 0);
		ackmode_becomes(test, sk, row->from, row->to, row->cause);
	}

	/* What makes one change is expected at the event that sees another one. */
	sk = ackmode_seen(test, D);
	ackmode_set(sk, Q);
	tcplat_ackmode_sent(sk, ackmode_skb(test, 1000, 1100), 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_becomes(test, sk, Q, P, BY(ANSWER));

	/* tcp_disconnect() clears these, too. */
	sk = ackmode_seen(test, P);
	ackmode_set(sk, D);
	inet_csk(sk)->icsk_ack.quick = 0;
	inet_csk(sk)->icsk_ack.lrcvtime = 0;
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_only(test, P, D, BY(DISCONNECT), 1);
}

/* At the end of the handshake, the client's ACK waits for data or because of an option. */
static void ackmode_handshake_waits(struct kunit *test)
{
	int server;

	for (server = 0; server < 2; server++) {
		struct sock *sk = ackmode_sock(test);

		sk->sk_write_pending = 1;
		/* A server's socket is not established yet. */
		sk->sk_state = server ? TCP_SYN_RECV : TCP_ESTABLISHED;
		birth_entry(sk, 0, 0);
		sk->sk_state = TCP_ESTABLISHED;
		tcplat_counters_reset(&tcplat_ackmode);
		ackmode_becomes(test, sk, D, Q, server ? BY(NONE) : BY(HANDSHAKE));
	}
}

/* Of two causes between two events, the last one that changes the mode counts. */
static void ackmode_the_last_cause_counts(struct kunit *test)
{
	unsigned long old = ackmode_skb(test, 900, 1000);
	struct sock *sk = ackmode_seen(test, D);

	inet_csk(sk)->icsk_ack.ato = 0;
	tcplat_ackmode_received(sk, ackmode_skb(test, 1000, 1100), 0);
	ackmode_set(sk, Q);
	fin_entry(sk, 0, 0);
	ackmode_becomes(test, sk, D, P, BY(FIN));

	/* Quick ACKs were used up and granted again: no change, and no cause is kept. */
	sk = ackmode_seen(test, Q);
	ackmode_set(sk, D);
	dupack_entry(sk, old, 0);
	ackmode_becomes(test, sk, Q, Q, BY(NONE));

	/* TCP_QUICKACK ended pingpong mode, not the segment that grants quick ACKs then. */
	sk = ackmode_seen(test, P);
	observe_unlocked(sk);
	ackmode_set(sk, D);
	dupack_entry(sk, old, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_becomes(test, sk, P, Q, BY(SETSOCKOPT));
}

/* TCP_QUICKACK is set before the expected change: the change is not attributed to it. */
static void ackmode_unlocked_observer_keeps_what_is_expected(struct kunit *test)
{
	struct sock *sk = ackmode_seen(test, D);

	tcplat_ackmode_sent(sk, ackmode_skb(test, 0, 1), 0);
	observe_unlocked(sk);
	ackmode_becomes(test, sk, D, P, BY(ANSWER));

	/* If the mode has changed already, the caller of TCP_QUICKACK counts it. */
	sk = ackmode_seen(test, D);
	tcplat_ackmode_sent(sk, ackmode_skb(test, 0, 1), 0);
	ackmode_set(sk, P);
	observe_unlocked(sk);
	ackmode_expect_only(test, D, P, BY(ANSWER), 1);
	KUNIT_EXPECT_EQ(test, ackmode_bury(sk), P | SETSOCK);
}

static void ackmode_fin_comes(struct sock *sk)
{
	between_reads = NULL;
	fin_entry(sk, 0, 0);
	ackmode_set(sk, P);
}

/* The owner expects another cause and changes the mode after the caller claimed the slot. */
static void ackmode_unlocked_observer_reads_no_old_cause(struct kunit *test)
{
	struct sock *sk = ackmode_seen(test, D);

	inet_csk(sk)->icsk_ack.ato = 0;
	tcplat_ackmode_received(sk, ackmode_skb(test, 1000, 1100), 0);
	between_reads = ackmode_fin_comes;
	observe_unlocked(sk);
	KUNIT_EXPECT_PTR_EQ(test, between_reads, NULL);
	ackmode_expect_only(test, D, P, BY(FIN), 1);
	ackmode_bury(sk);
}

/* ---- full table ---- */

static void ackmode_no_room(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);
	u64 word;

	kunit_fill_sets(&tcplat_ackmode_table, sk, true);
	birth_entry(sk, 0, 0);
	KUNIT_EXPECT_SUMS(test, { UNTRACKED, 1 }, { UNTRACKED_EVENTS, 1 });
	ackmode_set(sk, P);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_observe(sk, TIMEOUT);
	setsockopt_entry(sk, SOL_TCP, TCP_QUICKACK);
	KUNIT_EXPECT_SUMS(test, { UNTRACKED, 1 }, { UNTRACKED_EVENTS, 3 });
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(&tcplat_ackmode_table, tcplat_sock_key(sk),
						    &word));
	KUNIT_EXPECT_EQ(test, ackmode_all(), 0);

	/* A slot has become free. */
	kunit_fill_sets(&tcplat_ackmode_table, sk, false);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_SUMS(test, { ADOPTED + P, 1 }, { UNTRACKED_EVENTS, 3 });
	KUNIT_EXPECT_EQ(test, ackmode_all(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_bury(sk), P);
}

/* ---- route with quickack 1 ---- */

static void ackmode_route_is_seen_when_data_comes(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_set_route(sk, true);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_all(), 0);
	tcplat_ackmode_received(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, R, BY(ROUTE), 1);
	/* From then on each event reads the route, whatever the socket's own mode is. */
	inet_csk_enter_pingpong_mode(sk);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	tcplat_ackmode_received(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, R, BY(ROUTE), 1);
	ackmode_set(sk, P);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_sum(R, P, BY(ROUTE)), 1);
	ackmode_bury(sk);
}

static void ackmode_death_is_a_last_look(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	ackmode_set(sk, Q);
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_only(test, D, Q, BY(NONE), 1);
	KUNIT_EXPECT_SUMS(test, { DIED + Q, 1 });
	KUNIT_EXPECT_LT(test, ackmode_bury(sk), 0);

	/* The address is reused by another socket: nothing is left of the first one. */
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_set(sk, P);
	birth_entry(sk, 0, 0);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, P, BY(SETSOCKOPT), 1);
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_only(test, D, P, BY(SETSOCKOPT), 1);

	/* A socket that was not in the table is not counted. */
	tcplat_counters_reset(&tcplat_ackmode);
	tcplat_ackmode_destroy(sk, 0, 0);
	KUNIT_EXPECT_EQ(test, ackmode_all(), 0);
	KUNIT_EXPECT_SUMS(test, { DIED + P, 0 });
}

/* For each mode, sockets that entered it minus sockets that left it are those in it. */
static void ackmode_sockets_add_up(struct kunit *test)
{
	struct rnd_state rnd = kunit_random();
	struct sock *sk[8];
	u64 in[TCPLAT_MODES], out[TCPLAT_MODES], tracked_before = read_tracked(&tcplat_ackmode, 0);
	unsigned int mode;
	int i, state;

	for (i = 0; i < ARRAY_SIZE(sk); i++)
		sk[i] = ackmode_sock(test);
	for (i = 0; i < 20000; i++) {
		u32 r = prandom_u32_state(&rnd);
		struct sock *one = sk[r % ARRAY_SIZE(sk)];

		ackmode_set(one, (r >> 8) % TCPLAT_MODES);
		r = (r >> 16) % 8;
		if (r == 0)
			birth_entry(one, 0, 0);
		else if (r == 1)
			tcplat_ackmode_destroy(one, 0, 0);
		else if (r == 2)
			observe_unlocked(one);
		else if (r == 3)
			ackmode_observe(one, TIMEOUT);
		else
			tcplat_ackmode_sent(one, ackmode_ack(), 0);
	}
	for (mode = 0; mode < TCPLAT_MODES; mode++) {
		in[mode] = tcplat_sum(&tcplat_ackmode, ADOPTED + mode) +
			   ackmode_sum(TCPLAT_MODES, mode, TCPLAT_CAUSES);
		out[mode] = tcplat_sum(&tcplat_ackmode, DIED + mode) +
			    ackmode_sum(mode, TCPLAT_MODES, TCPLAT_CAUSES);
	}
	in[D] += tcplat_sum(&tcplat_ackmode, BORN);
	for (i = 0; i < ARRAY_SIZE(sk); i++) {
		state = ackmode_bury(sk[i]);
		if (state >= 0)
			out[state & TCPLAT_STATE_MODE]++;
	}
	for (mode = 0; mode < TCPLAT_MODES; mode++) {
		KUNIT_EXPECT_GT(test, in[mode], 100);
		KUNIT_EXPECT_EQ(test, in[mode], out[mode]);
	}
	KUNIT_EXPECT_EQ(test, read_tracked(&tcplat_ackmode, 0), tracked_before);
}

/* When the group is disabled, each socket is forgotten, in the mode last seen. */
static void ackmode_forgets(struct kunit *test)
{
	static const unsigned int sockets_in[] = { [D] = 1, [Q] = 2, [P] = 3, [R] = 4 };
	struct sock *sk[10];
	unsigned int mode, i, n = 0;

	for (mode = 0; mode < TCPLAT_MODES; mode++) {
		for (i = 0; i < sockets_in[mode]; i++) {
			sk[n] = ackmode_sock(test);
			ackmode_set(sk[n], mode);
			ackmode_observe(sk[n++], 0);
		}
	}
	KUNIT_EXPECT_EQ(test, read_tracked(&tcplat_ackmode, 0), ARRAY_SIZE(sk));
	ackmode_stop(&tcplat_ackmode);
	KUNIT_EXPECT_EQ(test, read_tracked(&tcplat_ackmode, 0), 0);
	for (mode = 0; mode < TCPLAT_MODES; mode++)
		KUNIT_EXPECT_SUMS(test, { FORGOTTEN + mode, sockets_in[mode] }, { DIED + mode, 0 });
	KUNIT_ASSERT_EQ(test, ackmode_alloc(&tcplat_ackmode), 0);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, ackmode_bury(sk[i]), -1);
}

/* ---- files ---- */

/* The name of the file consists of two parts. */
static void ackmode_file_shows(struct kunit *test, const char *first, const char *second, u64 n)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%s", first, second);
	KUNIT_EXPECT_EQ_MSG(test, kunit_file(test, &tcplat_ackmode, name), n, "%s", name);
}

/* A change is in the file of its cause and in no other cause's, and in those of its modes. */
static void ackmode_each_change_has_its_files(struct kunit *test)
{
	u64 by[TCPLAT_CAUSES] = {}, enters[TCPLAT_MODES] = {}, exits[TCPLAT_MODES] = {};
	struct rnd_state rnd = kunit_random();
	unsigned int i;

	for (i = 0; i < TCPLAT_CAUSES * TCPLAT_MODES * TCPLAT_MODES; i++) {
		u32 n = prandom_u32_state(&rnd);

		tcplat_add(&tcplat_ackmode, CHANGED + i, n);
		by[i % TCPLAT_CAUSES] += n;
		enters[i / TCPLAT_CAUSES % TCPLAT_MODES] += n;
		exits[i / TCPLAT_CAUSES / TCPLAT_MODES] += n;
	}
	ackmode_file_shows(test, "unexplained", "", by[0]);
	for (i = 1; i < TCPLAT_CAUSES; i++)
		ackmode_file_shows(test, "cause_", cause_names[i].name, by[i]);
	for (i = Q; i < TCPLAT_MODES; i++) {
		ackmode_file_shows(test, mode_names[i].name, "_enters", enters[i]);
		ackmode_file_shows(test, mode_names[i].name, "_exits", exits[i]);
	}
}

TCPLAT_GROUP_SUITE(ackmode,
		   KUNIT_CASE(ackmode_explains),
		   KUNIT_CASE(ackmode_expects_of_data_received),
		   KUNIT_CASE(ackmode_expects_of_segments_sent),
		   KUNIT_CASE(ackmode_expects_of_data_queued),
		   KUNIT_CASE(ackmode_each_function_is_a_cause),
		   KUNIT_CASE(ackmode_handshake_waits),
		   KUNIT_CASE(ackmode_the_last_cause_counts),
		   KUNIT_CASE(ackmode_unlocked_observer_keeps_what_is_expected),
		   KUNIT_CASE(ackmode_unlocked_observer_reads_no_old_cause),
		   KUNIT_CASE(ackmode_every_change),
		   KUNIT_CASE(ackmode_only_the_living_are_adopted),
		   KUNIT_CASE(ackmode_setsockopt_inserts_nothing),
		   KUNIT_CASE(ackmode_unlocked_observer_is_late),
		   KUNIT_CASE(ackmode_locked_observer_is_late),
		   KUNIT_CASE(ackmode_no_room),
		   KUNIT_CASE(ackmode_route_is_seen_when_data_comes),
		   KUNIT_CASE(ackmode_death_is_a_last_look),
		   KUNIT_CASE(ackmode_sockets_add_up),
		   KUNIT_CASE(ackmode_forgets),
		   KUNIT_CASE(ackmode_each_change_has_its_files));
