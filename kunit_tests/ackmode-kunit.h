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
#define BY_NONE		TCPLAT_CAUSE_NONE
#define BY_TIMEOUT	TCPLAT_CAUSE_TIMEOUT
#define BY_SETSOCK	TCPLAT_CAUSE_SETSOCKOPT
#define BY_ROUTE	TCPLAT_CAUSE_ROUTE
#define BY(cause)	TCPLAT_CAUSE_##cause
#define EXPECTED	TCPLAT_STATE_EXPECTED

/* A segment without data, for which the handler expects no cause. */
static unsigned long ackmode_ack(void)
{
	static struct sk_buff skb;

	return (unsigned long)&skb;
}

/* Each change of mode, and its cause after each combination of flags that may be set before it. */
static const struct cause_row {
	enum tcplat_mode from, to;
	enum tcplat_cause after_none, after_setsock, after_timeout, after_both;
} cause_rows[] = {
	{ D, Q, BY_NONE, BY_NONE, BY_NONE, BY_NONE },
	{ D, P, BY_NONE, BY_SETSOCK, BY_NONE, BY_SETSOCK },
	{ Q, D, BY_NONE, BY_NONE, BY_NONE, BY_NONE },
	{ Q, P, BY_NONE, BY_SETSOCK, BY_NONE, BY_SETSOCK },
	{ P, D, BY_NONE, BY_SETSOCK, BY_TIMEOUT, BY_TIMEOUT },
	{ P, Q, BY_NONE, BY_SETSOCK, BY_TIMEOUT, BY_TIMEOUT },
};

static void ackmode_modes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, false, 0), D);
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, false, 1), Q);
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, false, 255), Q);
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, true, 0), P);
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, true, 1), P);
	KUNIT_EXPECT_EQ(test, tcplat_mode(false, true, 255), P);
	KUNIT_EXPECT_EQ(test, tcplat_mode(true, false, 0), R);
	KUNIT_EXPECT_EQ(test, tcplat_mode(true, false, 1), R);
	KUNIT_EXPECT_EQ(test, tcplat_mode(true, true, 0), R);
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
	unsigned int cause, from, to;

	for (cause = 0; cause < TCPLAT_CAUSES; cause++) {
		for (from = 0; from < TCPLAT_MODES; from++) {
			for (to = 0; to < TCPLAT_MODES; to++) {
				const char pair[] = { names[from], names[to], 0 };
				bool want = strstr(rows[cause], pair);
				enum tcplat_cause by = want ? cause : BY_NONE;

				KUNIT_EXPECT_EQ_MSG(test, tcplat_explains(cause, from, to), want,
						    "%s by %s", pair, cause_names[cause].name);
				/* Of a change of the route, whatever is expected. */
				if (from != to && (from == R || to == R))
					by = BY_ROUTE;
				KUNIT_EXPECT_EQ_MSG(test, tcplat_cause(from, cause, to), by,
						    "%s by %s", pair, cause_names[cause].name);
				/* The expected cause takes precedence over flags in the state. */
				if (by)
					KUNIT_EXPECT_EQ_MSG(test,
							    tcplat_cause(from | SETSOCK | TIMEOUT,
									 cause, to),
							    by, "%s by %s", pair,
							    cause_names[cause].name);
			}
		}
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
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_ROW(test, i, tcplat_expect_received(&rows[i].ack, rows[i].rto,
								 rows[i].ecn), rows[i].next);
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
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_ROW(test, i, tcplat_expect_sent(&rows[i].ack, rows[i].data,
							     rows[i].packets, rows[i].scheduled,
							     rows[i].last), rows[i].next);
}

/* 1000 is expected next, the window is 500 bytes, and sequence numbers wrap. */
static void ackmode_expects_of_data_queued(struct kunit *test)
{
	static const struct {
		enum tcplat_mode mode;
		struct {
			u32 seq, end_seq, rcv_nxt, window;
			bool ecn, over;
		} q;
		bool may_grow;
		enum tcplat_cause next;
	} rows[] = {
		{ D, { 1000, 1000, 1000, 500 }, true, BY(NONE) },
		{ D, { 1000, 1000, 1000, 0 }, true, BY(NONE) },
		/* In order: handled by tcp_event_data_recv() and tcp_fin(). */
		{ D, { 1000, 1100, 1000, 500, true }, true, BY(NONE) },
		{ P, { 1000, 1100, 1000, 500, true }, true, BY(NONE) },
		{ Q, { 1000, 1100, 1000, 500, true, true }, true, BY(WINDOW) },
		{ Q, { 1000, 1100, 1000, 500, true, false }, true, BY(NONE) },
		/* The window is closed. */
		{ D, { 1000, 1100, 1000, 0 }, true, BY(DUPLICATE) },
		{ P, { 1000, 1001, 1000, 0 }, false, BY(DUPLICATE) },
		{ Q, { 1000, 1100, 1000, 0, false, true }, true, BY(NONE) },
		/* Old data, all of it or a part. */
		{ D, { 900, 1000, 1000, 500 }, true, BY(DUPLICATE) },
		{ P, { 900, 999, 1000, 500 }, false, BY(DUPLICATE) },
		{ Q, { 900, 1000, 1000, 500 }, false, BY(NONE) },
		{ D, { 900, 1001, 1000, 500, true }, true, BY(NONE) },
		{ D, { 900, 1001, 1000, 0 }, true, BY(DUPLICATE) },
		/* Beyond the window. */
		{ D, { 1500, 1600, 1000, 500 }, true, BY(DUPLICATE) },
		{ D, { 1499, 1500, 1000, 500 }, false, BY(NONE) },
		/* Out of order. */
		{ D, { 1200, 1300, 1000, 500 }, true, BY(WINDOW) },
		{ D, { 1200, 1300, 1000, 500, true }, true, BY(ECN) },
		{ P, { 1200, 1300, 1000, 500, true }, true, BY(ECN) },
		{ P, { 1200, 1300, 1000, 500 }, true, BY(NONE) },
		{ Q, { 1200, 1300, 1000, 500, true }, true, BY(NONE) },
		{ Q, { 1200, 1300, 1000, 500, true, true }, true, BY(WINDOW) },
	};
	static const u32 bases[] = { 0, -1000U, -1100U, -1001U, 0x7fffffff - 1000 };
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	struct sock *sk = kunit_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	int i, j;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (j = 0; j < ARRAY_SIZE(bases); j++) {
			struct tcplat_ack ack = { .mode = rows[i].mode,
						  .may_grow = rows[i].may_grow };

			TCP_SKB_CB(skb)->seq = rows[i].q.seq + bases[j];
			TCP_SKB_CB(skb)->end_seq = rows[i].q.end_seq + bases[j];
			tp->rcv_nxt = rows[i].q.rcv_nxt + bases[j];
			tp->rcv_wup = tp->rcv_nxt;
			tp->rcv_wnd = rows[i].q.window;
			tp->ecn_flags = rows[i].q.ecn ? TCP_ECN_OK | TCP_ECN_SEEN : 0;
			atomic_set(&sk->sk_rmem_alloc, rows[i].q.over);
			KUNIT_EXPECT_EQ_MSG(test, tcplat_expect_queued(&ack, sk, skb),
					    rows[i].next,
					    "row %d, base %d", i, j);
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

static u64 ackmode_counted(enum tcplat_mode from, enum tcplat_mode to, enum tcplat_cause cause)
{
	return tcplat_sum(&tcplat_ackmode, change_index(from, to, cause));
}

/* TCPLAT_MODES and TCPLAT_CAUSES mean any. */
static u64 ackmode_sum(unsigned int from, unsigned int to, unsigned int cause)
{
	return read_changes(&tcplat_ackmode, CHANGES(from, to, cause));
}

/* @counter: ADOPTED, FORGOTTEN or DIED */
static u64 sum_in_mode(unsigned int counter, unsigned int mode)
{
	return tcplat_sum(&tcplat_ackmode, counter + mode);
}

/* Expects exactly @n changes since the last reset, all of this kind. */
static void ackmode_expect_only(struct kunit *test, enum tcplat_mode from, enum tcplat_mode to,
				enum tcplat_cause cause, u64 n)
{
	KUNIT_EXPECT_EQ_MSG(test, ackmode_counted(from, to, cause), n, "%s to %s by %s",
			    mode_names[from].name, mode_names[to].name, cause_names[cause].name);
	KUNIT_EXPECT_EQ_MSG(test, ackmode_sum(TCPLAT_MODES, TCPLAT_MODES, TCPLAT_CAUSES), n,
			    "%s to %s by %s", mode_names[from].name, mode_names[to].name,
			    cause_names[cause].name);
}

static void ackmode_expect_nothing(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ackmode_sum(TCPLAT_MODES, TCPLAT_MODES, TCPLAT_CAUSES), 0);
}

/* Removes the socket from the table, which must not have it once its memory is freed. */
static void ackmode_bury(struct sock *sk)
{
	tcplat_socktab_remove(&tcplat_ackmode_table, tcplat_sock_key(sk));
}

/* Removes the socket from the table. Returns its state, or -1 if it was not there. */
static int ackmode_state(struct sock *sk)
{
	u64 word = tcplat_socktab_remove(&tcplat_ackmode_table, tcplat_sock_key(sk));

	return word ? word & TCPLAT_STATE_MASK : -1;
}

/* An event that can only change the mode if a flag @happened. */
static void ackmode_observe(struct sock *sk, unsigned int happened)
{
	if (happened || !tcplat_ackmode_saw(sk, tcplat_sock_own_mode(sk)))
		note_event(sk, false, happened, BY_NONE);
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
	KUNIT_EXPECT_EQ(test, ackmode_state(sk), to);
}

static void ackmode_changes(struct kunit *test, const struct cause_row *row,
			    unsigned int happened, enum tcplat_cause cause)
{
	struct sock *sk = ackmode_seen(test, row->from);

	ackmode_observe(sk, happened);
	ackmode_set(sk, row->to);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, row->from, row->to, cause, 1);
	/* The same mode again is not a change. */
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, row->from, row->to, cause, 1);
	ackmode_bury(sk);
}

static void ackmode_every_change(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(cause_rows); i++) {
		const struct cause_row *row = &cause_rows[i];

		ackmode_changes(test, row, 0, row->after_none);
		ackmode_changes(test, row, SETSOCK, row->after_setsock);
		ackmode_changes(test, row, TIMEOUT, row->after_timeout);
		ackmode_changes(test, row, SETSOCK | TIMEOUT, row->after_both);
	}
}

static void ackmode_only_the_living_are_adopted(struct kunit *test)
{
	static const struct {
		unsigned char state;
		bool adopted;
	} rows[] = {
		{ TCP_ESTABLISHED, true }, { TCP_SYN_SENT, false }, { TCP_SYN_RECV, false },
		{ TCP_FIN_WAIT1, true }, { TCP_FIN_WAIT2, true }, { TCP_CLOSE, false },
		{ TCP_CLOSE_WAIT, true }, { TCP_LAST_ACK, true }, { TCP_LISTEN, false },
		{ TCP_CLOSING, true },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sock *sk = ackmode_sock(test);

		sk->sk_state = rows[i].state;
		ackmode_observe(sk, 0);
		KUNIT_EXPECT_EQ_MSG(test, ackmode_state(sk) >= 0, rows[i].adopted,
				    "TCP state %d", rows[i].state);
	}
}

/* Without the socket's lock, another CPU may be inserting the socket. */
static void ackmode_setsockopt_inserts_nothing(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	setsockopt_entry(sk, SOL_TCP, TCP_QUICKACK);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, SETSOCKOPT), 1);
	KUNIT_EXPECT_LT(test, ackmode_state(sk), 0);

	/* Other options and levels are ignored. */
	setsockopt_entry(sk, SOL_TCP, TCP_NODELAY);
	setsockopt_entry(sk, SOL_SOCKET, TCP_QUICKACK);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, SETSOCKOPT), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, HITS_SETSOCKOPT), 3);

	/* The upper halves of the registers are undefined. */
	setsockopt_entry(sk, SOL_TCP | 0xdeadULL << 32, TCP_QUICKACK | 0xbeefULL << 32);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, SETSOCKOPT), 2);
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
		KUNIT_EXPECT_EQ(test, ackmode_counted(D, P, BY_NONE), 1);
		KUNIT_EXPECT_EQ(test, ackmode_counted(P, D, BY_NONE), 1);
		KUNIT_EXPECT_EQ(test, ackmode_sum(TCPLAT_MODES, TCPLAT_MODES, TCPLAT_CAUSES), 2);
		/* The flag that TCP_QUICKACK was set is kept. */
		ackmode_set(sk, P);
		tcplat_ackmode_sent(sk, ackmode_ack(), 0);
		KUNIT_EXPECT_EQ(test, ackmode_counted(D, P, BY_SETSOCK), 1);
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
	ackmode_expect_only(test, D, P, BY_NONE, 1);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_counted(P, D, BY_SETSOCK), 1);
	KUNIT_EXPECT_EQ(test, ackmode_sum(TCPLAT_MODES, TCPLAT_MODES, TCPLAT_CAUSES), 2);
	/* The ACK may have been sent before the option was set. */
	KUNIT_EXPECT_EQ(test, ackmode_state(sk), D | SETSOCK);
}

/* ---- expected causes ---- */

static struct sk_buff *ackmode_skb(struct kunit *test, u32 seq, u32 end_seq)
{
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));

	skb->len = end_seq - seq;
	TCP_SKB_CB(skb)->seq = seq;
	TCP_SKB_CB(skb)->end_seq = end_seq;
	TCP_SKB_CB(skb)->tcp_gso_segs = 1;
	return skb;
}

/* With the handlers: a change is attributed to the function that makes it. */
static void ackmode_each_function_is_a_cause(struct kunit *test)
{
	unsigned long data = (unsigned long)ackmode_skb(test, 1000, 1100);
	unsigned long old = (unsigned long)ackmode_skb(test, 900, 1000);
	struct sock *sk;

	sk = ackmode_seen(test, D);
	inet_csk(sk)->icsk_ack.ato = 0;
	tcplat_ackmode_received(sk, data, 0);
	ackmode_becomes(test, sk, D, Q, BY(FIRST));

	sk = ackmode_seen(test, D);
	inet_csk(sk)->icsk_ack.lrcvtime -= TCP_TIMEOUT_INIT + 1;
	tcplat_ackmode_received(sk, data, 0);
	ackmode_becomes(test, sk, D, Q, BY(GAP));

	sk = ackmode_seen(test, D);
	tcplat_ackmode_sent(sk, data, 0);
	ackmode_becomes(test, sk, D, P, BY(ANSWER));

	sk = ackmode_seen(test, Q);
	inet_csk(sk)->icsk_ack.quick = 1;
	tcplat_ackmode_sent(sk, old, 0);
	ackmode_becomes(test, sk, Q, P, BY(ANSWER));

	sk = ackmode_seen(test, D);
	fin_entry(sk, 0, 0);
	ackmode_becomes(test, sk, D, P, BY(FIN));

	/* Only the first FIN begins pingpong mode. */
	sk = ackmode_seen(test, D);
	sk->sk_state = TCP_FIN_WAIT2;
	fin_entry(sk, 0, 0);
	ackmode_becomes(test, sk, D, P, BY_NONE);

	sk = ackmode_seen(test, P);
	dupack_entry(sk, old, 0);
	ackmode_becomes(test, sk, P, Q, BY(DUPLICATE));

	/* Not before rcv_nxt: the kernel only sends an ACK. */
	sk = ackmode_seen(test, P);
	dupack_entry(sk, data, 0);
	ackmode_becomes(test, sk, P, Q, BY_NONE);

	sk = ackmode_seen(test, D);
	tcp_sk(sk)->rcv_wup = 1000;
	tcp_sk(sk)->rcv_wnd = 500;
	tcplat_ackmode_queue(sk, old, 0);
	ackmode_becomes(test, sk, D, Q, BY(DUPLICATE));

	/* What makes one change is expected at the event that sees another one. */
	sk = ackmode_seen(test, D);
	ackmode_set(sk, Q);
	tcplat_ackmode_sent(sk, data, 0);
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
	struct sock *sk = ackmode_sock(test);

	sk->sk_write_pending = 1;
	birth_entry(sk, 0, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_becomes(test, sk, D, Q, BY(HANDSHAKE));

	/* A server's socket is not established yet. */
	sk = ackmode_sock(test);
	sk->sk_write_pending = 1;
	sk->sk_state = TCP_SYN_RECV;
	birth_entry(sk, 0, 0);
	sk->sk_state = TCP_ESTABLISHED;
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_becomes(test, sk, D, Q, BY_NONE);
}

/* Of two causes between two events, the last one that changes the mode counts. */
static void ackmode_the_last_cause_counts(struct kunit *test)
{
	unsigned long data = (unsigned long)ackmode_skb(test, 1000, 1100);
	unsigned long old = (unsigned long)ackmode_skb(test, 900, 1000);
	struct sock *sk = ackmode_seen(test, D);

	inet_csk(sk)->icsk_ack.ato = 0;
	tcplat_ackmode_received(sk, data, 0);
	ackmode_set(sk, Q);
	fin_entry(sk, 0, 0);
	ackmode_becomes(test, sk, D, P, BY(FIN));

	/* Quick ACKs were used up and granted again: no change, and no cause is kept. */
	sk = ackmode_seen(test, Q);
	ackmode_set(sk, D);
	dupack_entry(sk, old, 0);
	ackmode_becomes(test, sk, Q, Q, BY_NONE);

	/* TCP_QUICKACK ended pingpong mode, not the segment that grants quick ACKs then. */
	sk = ackmode_seen(test, P);
	observe_unlocked(sk);
	ackmode_set(sk, D);
	dupack_entry(sk, old, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_becomes(test, sk, P, Q, BY_SETSOCK);
}

/* TCP_QUICKACK is set before the expected change: the change is not attributed to it. */
static void ackmode_unlocked_observer_keeps_what_is_expected(struct kunit *test)
{
	struct sock *sk = ackmode_seen(test, D);

	tcplat_ackmode_sent(sk, (unsigned long)ackmode_skb(test, 0, 1), 0);
	observe_unlocked(sk);
	ackmode_becomes(test, sk, D, P, BY(ANSWER));

	/* If the mode has changed already, the caller of TCP_QUICKACK counts it. */
	sk = ackmode_seen(test, D);
	tcplat_ackmode_sent(sk, (unsigned long)ackmode_skb(test, 0, 1), 0);
	ackmode_set(sk, P);
	observe_unlocked(sk);
	ackmode_expect_only(test, D, P, BY(ANSWER), 1);
	KUNIT_EXPECT_EQ(test, ackmode_state(sk), P | SETSOCK);
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
	tcplat_ackmode_received(sk, (unsigned long)ackmode_skb(test, 1000, 1100), 0);
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
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, UNTRACKED), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, UNTRACKED_EVENTS), 1);
	ackmode_set(sk, P);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_observe(sk, TIMEOUT);
	setsockopt_entry(sk, SOL_TCP, TCP_QUICKACK);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, UNTRACKED), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, UNTRACKED_EVENTS), 3);
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(&tcplat_ackmode_table, tcplat_sock_key(sk),
						    &word));
	ackmode_expect_nothing(test);

	/* A slot has become free. */
	kunit_fill_sets(&tcplat_ackmode_table, sk, false);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, sum_in_mode(ADOPTED, P), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_ackmode, UNTRACKED_EVENTS), 3);
	ackmode_expect_nothing(test);
	KUNIT_EXPECT_EQ(test, ackmode_state(sk), P);
}

/* ---- route with quickack 1 ---- */

static void ackmode_route_is_seen_when_data_comes(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_set_route(sk, true);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_expect_nothing(test);
	tcplat_ackmode_received(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, R, BY_ROUTE, 1);
	/* From then on each event reads the route, whatever the socket's own mode is. */
	inet_csk_enter_pingpong_mode(sk);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	tcplat_ackmode_received(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, R, BY_ROUTE, 1);
	ackmode_set(sk, P);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	KUNIT_EXPECT_EQ(test, ackmode_counted(R, P, BY_ROUTE), 1);
	ackmode_bury(sk);
}

static void ackmode_death_is_a_last_look(struct kunit *test)
{
	struct sock *sk = ackmode_sock(test);

	birth_entry(sk, 0, 0);
	ackmode_set(sk, Q);
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_only(test, D, Q, BY_NONE, 1);
	KUNIT_EXPECT_EQ(test, sum_in_mode(DIED, Q), 1);
	KUNIT_EXPECT_LT(test, ackmode_state(sk), 0);

	/* The address is reused by another socket: nothing is left of the first one. */
	tcplat_counters_reset(&tcplat_ackmode);
	ackmode_set(sk, P);
	birth_entry(sk, 0, 0);
	tcplat_ackmode_sent(sk, ackmode_ack(), 0);
	ackmode_expect_only(test, D, P, BY_SETSOCK, 1);
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_only(test, D, P, BY_SETSOCK, 1);

	/* A socket that was not in the table is not counted. */
	tcplat_counters_reset(&tcplat_ackmode);
	tcplat_ackmode_destroy(sk, 0, 0);
	ackmode_expect_nothing(test);
	KUNIT_EXPECT_EQ(test, sum_in_mode(DIED, P), 0);
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
		switch ((r >> 16) % 8) {
		case 0:
			birth_entry(one, 0, 0);
			break;
		case 1:
			tcplat_ackmode_destroy(one, 0, 0);
			break;
		case 2:
			observe_unlocked(one);
			break;
		case 3:
			ackmode_observe(one, TIMEOUT);
			break;
		default:
			tcplat_ackmode_sent(one, ackmode_ack(), 0);
		}
	}
	for (mode = 0; mode < TCPLAT_MODES; mode++) {
		in[mode] = sum_in_mode(ADOPTED, mode) +
			   ackmode_sum(TCPLAT_MODES, mode, TCPLAT_CAUSES);
		out[mode] = sum_in_mode(DIED, mode) +
			    ackmode_sum(mode, TCPLAT_MODES, TCPLAT_CAUSES);
	}
	in[D] += tcplat_sum(&tcplat_ackmode, BORN);
	for (i = 0; i < ARRAY_SIZE(sk); i++) {
		state = ackmode_state(sk[i]);
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
	for (mode = 0; mode < TCPLAT_MODES; mode++) {
		KUNIT_EXPECT_EQ(test, sum_in_mode(FORGOTTEN, mode), sockets_in[mode]);
		KUNIT_EXPECT_EQ(test, sum_in_mode(DIED, mode), 0);
	}
	KUNIT_ASSERT_EQ(test, ackmode_alloc(&tcplat_ackmode), 0);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, ackmode_state(sk[i]), -1);
}

/* ---- files ---- */

static u64 ackmode_file(struct kunit *test, const char *name)
{
	return kunit_file(test, &tcplat_ackmode, name);
}

/* A change is in the file of its cause and in no other cause's, and in those of its modes. */
static void ackmode_each_change_has_its_files(struct kunit *test)
{
	unsigned int from, to, cause, other;
	char name[32];

	for (cause = 0; cause < TCPLAT_CAUSES; cause++) {
		tcplat_counters_reset(&tcplat_ackmode);
		tcplat_add(&tcplat_ackmode, change_index(P, Q, cause), 3);
		tcplat_add(&tcplat_ackmode, change_index(Q, R, cause), 4);
		KUNIT_EXPECT_EQ(test, ackmode_file(test, "unexplained"), cause ? 0 : 7);
		for (other = 1; other < TCPLAT_CAUSES; other++) {
			snprintf(name, sizeof(name), "cause_%s", cause_names[other].name);
			KUNIT_EXPECT_EQ_MSG(test, ackmode_file(test, name), cause == other ? 7 : 0,
					    "%s by %s", name, cause_names[cause].name);
		}
	}
	for (from = 0; from < TCPLAT_MODES; from++) {
		for (to = 0; to < TCPLAT_MODES; to++) {
			tcplat_counters_reset(&tcplat_ackmode);
			tcplat_add(&tcplat_ackmode, change_index(from, to, BY_NONE), 5);
			for (other = Q; other < TCPLAT_MODES; other++) {
				snprintf(name, sizeof(name), "%s_enters", mode_names[other].name);
				KUNIT_EXPECT_EQ_MSG(test, ackmode_file(test, name),
						    to == other ? 5 : 0, "%s", name);
				snprintf(name, sizeof(name), "%s_exits", mode_names[other].name);
				KUNIT_EXPECT_EQ_MSG(test, ackmode_file(test, name),
						    from == other ? 5 : 0, "%s", name);
			}
		}
	}
}

/* ---- the module parameter sockets ---- */

static struct kunit_case ackmode_cases[] = {
	KUNIT_CASE(ackmode_modes),
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
	KUNIT_CASE(ackmode_each_change_has_its_files),
	{}
};

TCPLAT_GROUP_SUITE(ackmode);
