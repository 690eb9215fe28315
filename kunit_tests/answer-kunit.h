/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of what is an answer, and whose.
 */
#include "tcplat-kunit.h"

/* Each condition, also after more than half of the time in which jiffies wrap. */
static void answer_or_not(struct kunit *test)
{
	static const struct {
		struct tcplat_exchange x;
		bool answer;
	} rows[] = {
		/* The program answers, or writes first. */
		{ { .received = true, .ack_scheduled = true, 7, 57 }, true },
		{ { .received = false, .ack_scheduled = true, 7, 57 }, false },
		{ { .received = true, .ack_scheduled = true, 57, 7 }, true },
		/* The ACK of the data has been sent. */
		{ { true, false, 7, 8, false, 1, false, 5, 5 }, true },
		{ { true, false, 7, 8, true, 1, false, 5, 5 }, true },
		{ { true, false, 7, 0x90000000, false, 1, false, 5, 5 }, true },
		{ { false, false, 7, 8, false, 1, false, 5, 5 }, false },
		/* Nothing has: the handshake ended after a request that came with the SYN. */
		{ { true, false, 8, 7, false, 0, false, 0, 0 }, true },
		{ { false, false, 8, 7, false, 0, false, 0, 0 }, false },
		/* Data has been sent since: more of the same answer. */
		{ { true, false, 8, 7, false, 1, false, 5, 5 }, false },
		{ { true, false, 0x90000000, 7, false, 1, false, 6, 5 }, false },
		/* Both in one jiffy. */
		{ { true, false, 7, 7, false, 0, false, 6, 0 }, true },
		{ { true, false, 7, 7, true, 0, false, 6, 0 }, true },
		{ { true, false, 7, 7, false, 1, false, 5, 5 }, false },
		{ { true, false, 7, 7, false, 1, false, 6, 5 }, false },
		{ { true, false, 7, 7, false, 1, true, 5, 5 }, true },
		{ { true, false, 7, 7, true, 1, true, 6, 5 }, false },
		{ { false, false, 7, 7, false, 0, true, 0, 0 }, false },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_is_answer(row->x), row->answer);
}

static void answer_of_peer_or_not(struct kunit *test)
{
	static const struct {
		struct tcplat_exchange x;
		bool answered;
	} rows[] = {
		{ { true, false, 8, 7, false, 1, false, 5, 5 }, true },
		{ { true, false, 8, 7, true, 1, false, 5, 4 }, true },
		{ { true, false, 0x90000000, 7, false, 1, false, 6, 5 }, true },
		{ { false, false, 8, 7, false, 1, false, 5, 5 }, true },
		{ { true, true, 8, 7, false, 1, false, 5, 5 }, false },
		{ { true, false, 8, 7, false, 0, false, 5, 5 }, false },
		{ { true, false, 7, 8, true, 1, false, 5, 5 }, false },
		{ { true, false, 7, 0x90000000, true, 1, false, 5, 5 }, false },
		/* Both in one jiffy: the request in flight, acknowledged, or followed by an ACK. */
		{ { true, false, 7, 7, true, 1, false, 6, 5 }, true },
		{ { true, false, 7, 7, false, 1, false, 5, 5 }, true },
		{ { true, false, 7, 7, false, 1, false, 6, 5 }, false },
		{ { true, true, 7, 7, true, 1, false, 6, 5 }, false },
		{ { true, false, 7, 7, true, 1, false, 6, 5, true }, false },
		{ { true, false, 7, 7, false, 1, false, 5, 5, true }, false },
		{ { true, false, 8, 7, true, 1, false, 6, 5, true }, true },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_is_answered(row->x), row->answered);
}

static void answer_beyond_rtt(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(30000000, 20000), 10000000);
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(20000000, 20000), 0);
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(19999999, 20000), 0);
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(30000000, 0), 30000000);
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(30000000, ~0U), 30000000);
	KUNIT_EXPECT_EQ(test, tcplat_beyond_rtt(U64_MAX, ~0U - 1),
			U64_MAX - (~0U - 1ULL) * NSEC_PER_USEC);
}

/* A socket that received and sent data so many tenths of a second ago: the kernel is young. */
static struct tcp_sock *answer_socket(struct kunit *test, u32 rcv_ago, u32 snd_ago)
{
	struct tcp_sock *tp = tcp_sk(kunit_sock(test));
	u64 now = tcplat_now_us();

	tp->inet_conn.icsk_ack.lrcvtime = tcp_jiffies32 - rcv_ago * HZ / 10;
	tp->lsndtime = tcp_jiffies32 - snd_ago * HZ / 10;
	tp->tcp_mstamp = now - rcv_ago * USEC_PER_SEC / 10;
	tp->tcp_wstamp_ns = (now - snd_ago * USEC_PER_SEC / 10) * NSEC_PER_USEC;
	tp->bytes_received = 1;
	tp->data_segs_out = 1;
	minmax_reset(&tp->rtt_min, tcp_jiffies32, ~0U);
	return tp;
}

typedef void (*answer_handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);

/* Calls a handler, and expects that so many late answers have been counted. */
static void answer_after(struct kunit *test, answer_handler handler, void *sk, u64 own, u64 peer)
{
	KUNIT_HANDLE(handler(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { ANSWER(OWN), own }, { ANSWER(PEER), peer });
}

/* The exact time, unless the data came more than a tick earlier or later. */
static void answer_time(struct kunit *test)
{
	const u64 tick = NSEC_PER_SEC / HZ;

	KUNIT_EXPECT_EQ(test, tcplat_answer_time(0, 0), 0);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(5, 0), 5);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(0, 1), 0);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(20 * tick, 20), 20 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(19 * tick, 20), 19 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(tcplat_jiffies_to_ns(21), 20),
			tcplat_jiffies_to_ns(21));
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(tcplat_jiffies_to_ns(21) + 1, 20),
			tcplat_jiffies_to_ns(20));
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(tick, 3 * HZ), 3 * NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, tcplat_answer_time(0, 3 * HZ), 3 * NSEC_PER_SEC);
}

/*
 * tcp_mstamp tells exactly when data came while its ACK is scheduled, after that the time of the
 * ACK: a third of a tick earlier and later than 100 ms ago.
 */
static void answer_since_data_or_its_ack(struct kunit *test)
{
	const u64 third = NSEC_PER_SEC / HZ / 3;
	struct tcp_sock *tp = answer_socket(test, 1, 3);
	struct sock *sk = (struct sock *)tp;

	preempt_disable();
	tp->tcp_mstamp = tcplat_now_us() - 100 * USEC_PER_MSEC - third / NSEC_PER_USEC;
	tp->tcp_wstamp_ns = tcplat_now_us() * NSEC_PER_USEC - 100 * NSEC_PER_MSEC + third;
	answer_after(test, tcplat_answer_push, sk, 1, 0);
	KUNIT_EXPECT_LT(test, tcplat_sum(&tcplat_answer, ANSWER(OWN) + 1), 100 * NSEC_PER_MSEC);
	tcplat_counters_reset(&tcplat_answer);
	tp->rcv_nxt++;
	inet_csk(sk)->icsk_ack.pending = ICSK_ACK_SCHED;
	tcplat_answer_push(sk, 0, 0);
	KUNIT_EXPECT_GT(test, tcplat_sum(&tcplat_answer, ANSWER(OWN) + 1), 100 * NSEC_PER_MSEC);
	preempt_enable();
}

/* What was sent may be acknowledged, and may be a FIN. */
static void answer_exchange(struct kunit *test)
{
	struct tcp_sock *tp = answer_socket(test, 1, 3);
	struct sock *sk = (struct sock *)tp;

	tp->rack.mstamp = 7;
	sk->sk_shutdown = RCV_SHUTDOWN;
	KUNIT_EXPECT_EQ(test, exchange_of(sk).acked_us, 7);
	KUNIT_EXPECT_FALSE(test, exchange_of(sk).in_flight);
	KUNIT_EXPECT_FALSE(test, exchange_of(sk).fin_sent);
	tp->packets_out = 1;
	sk->sk_shutdown = SEND_SHUTDOWN;
	KUNIT_EXPECT_TRUE(test, exchange_of(sk).in_flight);
	KUNIT_EXPECT_TRUE(test, exchange_of(sk).fin_sent);
}

/* The last segment was data, an ACK, data that came too early, or a FIN with data or without. */
static void answer_data_last(struct kunit *test)
{
	static const struct {
		u32 rcv_nxt, began;
		bool fin, data;
	} rows[] = {
		{ 1001, 1000, false, true }, { 1000, 1000, false, false },
		{ 1000, 1001, false, false }, { 1001, 1000, true, false },
		{ 1002, 1000, true, true }, { 1000, 1000, true, false },
		{ 9, U32_MAX, false, true }, { U32_MAX, 9, false, false },
	};
	struct tcp_sock *tp = answer_socket(test, 1, 3);
	struct sock *sk = (struct sock *)tp;

	for_each_row() {
		tp->rcv_nxt = row->rcv_nxt;
		tp->snd_wl1 = row->began;
		sock_valbool_flag(sk, SOCK_DONE, row->fin);
		KUNIT_EXPECT_ROW(test, exchange_of(sk).data_last, row->data);
	}
}

static u64 answer_place(const struct sock *sk)
{
	return tcplat_socktab_hash(tcplat_sock_key(sk)) >> (64 - LAST_BITS);
}

static void answer_counts_whose(struct kunit *test)
{
	struct sock *late = (struct sock *)answer_socket(test, 2, 3);
	struct sock *prompt = (struct sock *)answer_socket(test, 0, 3);
	struct sock *asked = (struct sock *)answer_socket(test, 4, 2);
	struct sock *sk;
	u64 ns;

	preempt_disable();
	/* Of an earlier run, whose sockets may have had the same addresses. */
	memset(last_answers, 0, sizeof(last_answers));
	/* Data came 200 ms ago. */
	sk = late;
	answer_after(test, tcplat_answer_push, sk, 1, 0);
	/* More of the same answer: nothing has been sent yet. */
	answer_after(test, tcplat_answer_push, sk, 1, 0);
	/*
	 * A FIN alone has its ACK scheduled, and is no request, neither as the first byte received
	 * nor after data that was answered; with data before it, it is.
	 */
	inet_csk(sk)->icsk_ack.pending = ICSK_ACK_SCHED;
	tcp_sk(sk)->rcv_nxt++;
	tcp_sk(sk)->lsndtime = tcp_jiffies32;
	sock_set_flag(sk, SOCK_DONE);
	tcp_sk(sk)->data_segs_out = 0;
	tcplat_answer_push(sk, 0, 0);
	tcp_sk(sk)->data_segs_out = 1;
	tcp_sk(sk)->bytes_received++;
	answer_after(test, tcplat_answer_push, sk, 1, 0);
	tcp_sk(sk)->rcv_nxt++;
	answer_after(test, tcplat_answer_push, sk, 2, 0);
	ns = tcplat_sum(&tcplat_answer, ANSWER(OWN) + 1);
	KUNIT_EXPECT_GE(test, ns, 400 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LE(test, ns, 500 * NSEC_PER_MSEC);
	answer_after(test, tcplat_answer_received, sk, 2, 0);
	/* Data came just now; the test does not take 10 ms until here. */
	sk = prompt;
	answer_after(test, tcplat_answer_push, sk, 2, 0);
	/* A request was sent 200 ms ago, and what comes is its answer. */
	sk = asked;
	answer_after(test, tcplat_answer_push, sk, 2, 0);
	tcp_sk(sk)->tcp_mstamp = tcplat_now_us();
	answer_after(test, tcplat_answer_received, sk, 2, 1);
	/* If this host answers it late in turn, that is another answer. */
	inet_csk(sk)->icsk_ack.lrcvtime = tcp_jiffies32 - HZ / 10;
	answer_after(test, tcplat_answer_push, sk, 3, 1);
	/* More of the first socket's answer: each has its own place, unless chance decides. */
	if (answer_place(late) != answer_place(asked))
		answer_after(test, tcplat_answer_push, late, 3, 1);
	tcplat_counters_reset(&tcplat_answer);
	inet_csk(sk)->icsk_ack.lrcvtime = tcp_jiffies32 - 4 * HZ / 10;
	/* Not if it comes a round trip of 300 ms later, nor without a request, nor after an ACK. */
	minmax_reset(&tcp_sk(sk)->rtt_min, tcp_jiffies32, 300 * USEC_PER_MSEC);
	tcplat_answer_received(sk, 0, 0);
	minmax_reset(&tcp_sk(sk)->rtt_min, tcp_jiffies32, 0);
	tcp_sk(sk)->data_segs_out = 0;
	tcplat_answer_received(sk, 0, 0);
	tcp_sk(sk)->data_segs_out = 1;
	inet_csk(sk)->icsk_ack.pending = ICSK_ACK_SCHED;
	answer_after(test, tcplat_answer_received, sk, 0, 0);
	preempt_enable();
}

TCPLAT_GROUP_SUITE(answer,
		   KUNIT_CASE(answer_or_not),
		   KUNIT_CASE(answer_of_peer_or_not),
		   KUNIT_CASE(answer_beyond_rtt),
		   KUNIT_CASE(answer_time),
		   KUNIT_CASE(answer_since_data_or_its_ack),
		   KUNIT_CASE(answer_exchange),
		   KUNIT_CASE(answer_data_last),
		   KUNIT_CASE(answer_counts_whose));
