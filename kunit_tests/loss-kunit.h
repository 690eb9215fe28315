/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of what retransmission timers count, and of times since segments were sent.
 */
#include "tcplat-kunit.h"

/* Each state and each condition of tcp_retransmit_timer(). */
static void loss_of_timer(struct kunit *test)
{
	static const struct {
		int state;
		u32 snd_wnd;
		u32 packets_out;
		enum tcplat_loss loss;
		bool orphan;
		bool fastopen;
	} rows[] = {
		{ TCP_ESTABLISHED, 1000, 1, TCPLAT_LOSS_RTO },
		{ TCP_ESTABLISHED, 1000, U32_MAX, TCPLAT_LOSS_RTO },
		{ TCP_ESTABLISHED, 1000, 0, TCPLAT_LOSS_NONE },
		{ TCP_ESTABLISHED, 0, 1, TCPLAT_LOSS_NONE },
		{ TCP_ESTABLISHED, 1, 1, TCPLAT_LOSS_RTO },
		{ TCP_FIN_WAIT1, 0, 1, TCPLAT_LOSS_NONE },
		{ TCP_FIN_WAIT1, 0, 1, TCPLAT_LOSS_RTO, .orphan = true },
		{ TCP_FIN_WAIT1, 0, 0, TCPLAT_LOSS_NONE, .orphan = true },
		{ TCP_LAST_ACK, 1000, 1, TCPLAT_LOSS_RTO, .orphan = true },
		{ TCP_CLOSE_WAIT, 1000, 1, TCPLAT_LOSS_RTO },
		{ TCP_SYN_SENT, 0, 1, TCPLAT_LOSS_SYN },
		{ TCP_SYN_SENT, 0, 2, TCPLAT_LOSS_SYN },
		{ TCP_SYN_SENT, 0, 0, TCPLAT_LOSS_NONE },
		{ TCP_SYN_RECV, 1000, 1, TCPLAT_LOSS_SYN },
		{ TCP_SYN_RECV, 0, 1, TCPLAT_LOSS_SYN },
		{ TCP_SYN_RECV, 1000, 1, TCPLAT_LOSS_NONE, .fastopen = true },
		{ TCP_FIN_WAIT1, 1000, 1, TCPLAT_LOSS_NONE, .fastopen = true },
	};
	struct sock *sk = kunit_sock(test);

	for_each_row() {
		sk->sk_state = row->state;
		sock_valbool_flag(sk, SOCK_DEAD, row->orphan);
		tcp_sk(sk)->snd_wnd = row->snd_wnd;
		tcp_sk(sk)->packets_out = row->packets_out;
		RCU_INIT_POINTER(tcp_sk(sk)->fastopen_rsk, row->fastopen ? (void *)sk : NULL);
		KUNIT_EXPECT_ROW(test, tcplat_rto_loss(sk), row->loss);
	}
}

/* Jiffies wrap; a timer that has not expired is not late. */
static void loss_late(struct kunit *test)
{
	static const struct {
		unsigned long now, expiry;
		u32 late;
	} rows[] = {
		{ 100, 100, 0 }, { 101, 100, 1 }, { 99, 100, 0 }, { 0, ULONG_MAX, 1 },
		{ 5, ULONG_MAX - 4, 10 }, { ULONG_MAX, 0, 0 }, { ULONG_MAX, 3, 0 },
		{ 1000 * HZ, 0, 1000 * HZ },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_rto_late(row->now, row->expiry), row->late);
}

/*
 * Only if nothing was sent meanwhile, the time since the timer was set; not if a queue dropped what
 * was sent.
 */
static void loss_time_of_timer(struct kunit *test)
{
	const u64 tick = TICK_NSEC;
	const u32 probe = TCP_RESOURCE_PROBE_INTERVAL;

	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(100 * tick, false, 10, 40), 100 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(100 * tick, true, 10, 40), 50 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(52 * tick, true, 10, 40), 52 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(52 * tick + 1, true, 10, 40), 50 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(49 * tick, true, 10, 40), 49 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns((probe + 12) * tick, true, 10, 40),
			(probe + 12) * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns((probe + 12) * tick + 1, true, 10, 40), 50 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns((probe + 8) * tick, true, 10, 40), (probe + 8) * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns((probe + 8) * tick - 1, true, 10, 40), 50 * tick);
	KUNIT_EXPECT_EQ(test, tcplat_rto_ns(U64_MAX, true, 0, U32_MAX), U32_MAX * tick);
}

/* Each timer is twice as long as the one before, up to TCP_USER_TIMEOUT. */
static void loss_timer_is_cut_short(struct kunit *test)
{
	static const struct {
		u32 rto;
		u8 backoff, retransmits;
		unsigned long limit;
		u32 set;
	} rows[] = {
		{ 100, 0, 0, 0, 100 }, { 100, 0, 0, 50, 50 }, { 800, 3, 3, 0, 800 },
		{ 800, 3, 3, 2000, 800 }, { 800, 3, 3, 1500, 800 }, { 800, 3, 3, 1499, 799 },
		{ 800, 3, 3, 1000, 300 }, { 800, 3, 3, 701, 1 }, { 800, 3, 3, 700, 1 },
		{ 800, 3, 3, 10, 1 }, { 800, 3, 0, 1499, 799 }, { 100, 255, 255, 0, 100 },
		{ 100, 255, 255, ULONG_MAX, 100 },
		/* The first ones were as long as each other. */
		{ 1000, 0, 2, 2500, 500 }, { 1000, 0, 1, 2000, 1000 }, { 4000, 2, 4, 6000, 1000 },
		{ 1000, 0, 3, 3000, 1 },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_rto_set(row->rto, row->backoff, row->retransmits,
						      row->limit), row->set);
}

/* Only the first SYN-ACK has a time stamp; the others were sent when the timer was set. */
static void loss_time_of_synack(struct kunit *test)
{
	const u64 second = (u64)HZ * TICK_NSEC;
	const unsigned long now = ULONG_MAX - HZ;

	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(12345, false, now, now, HZ), 12345);
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(second + 1, false, now, now, HZ), second + 1);
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(3 * second + 1, true, now, now, 2 * HZ),
			2 * second);
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(3 * second + 1, true, now + 2, now, 2 * HZ),
			2 * second + 2 * TICK_NSEC);
	/* Another SYN comes before the timer expires, and after jiffies have wrapped. */
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(5 * second, true, now + 3 * HZ, now + 4 * HZ,
					       2 * HZ), second);
	/* Never longer than since the first SYN-ACK, which may be unknown, never negative. */
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(U64_MAX, true, now, now, HZ), second);
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(999, true, now, now - HZ, HZ), 999);
	KUNIT_EXPECT_EQ(test, tcplat_synack_ns(999, true, now, now + 2 * HZ, HZ), 0);
}

static struct request_sock *loss_request(struct kunit *test)
{
	struct request_sock *req = kunit_new(test, sizeof(struct tcp_request_sock));

#ifdef TCPLAT_HAVE_TCP_REQSK_TIMEOUT
	req->rsk_listener = kunit_new(test, sizeof(struct tcp_sock));
	inet_csk(req->rsk_listener)->icsk_rto_max = TCP_RTO_MAX;
#endif
	return req;
}

/* The timer is set to twice the time after each timeout, up to the maximum. */
static void loss_timeout_of_synack(struct kunit *test)
{
	struct request_sock *req = loss_request(test);

	req->timeout = TCP_TIMEOUT_INIT;
	KUNIT_EXPECT_EQ(test, tcplat_synack_timeout(req), TCP_TIMEOUT_INIT);
	req->num_timeout = 3;
	KUNIT_EXPECT_EQ(test, tcplat_synack_timeout(req), TCP_TIMEOUT_INIT << 3);
	req->num_timeout = 127;
	req->timeout = 1;
	KUNIT_EXPECT_EQ(test, tcplat_synack_timeout(req), TCP_RTO_MAX);
	req->num_timeout = 10;
	req->timeout = TCP_TIMEOUT_INIT;
	KUNIT_EXPECT_EQ(test, tcplat_synack_timeout(req), TCP_RTO_MAX);
}

/*
 * First sent 500 ms ago; the request's timer was set 200 ms ago, a child's 100 ms ago, or 300 ms if
 * it has expired before. For another SYN right now, the request's would be set, not a child's.
 */
static void loss_counts_synacks(struct kunit *test)
{
	static const struct {
		int state;
		bool known, again;
		u64 ms;
		bool acked;
		u8 defer;
		bool full;
		u8 timeouts;
		bool another;
	} rows[] = {
		{ TCP_LISTEN, true, false, 500 }, { TCP_LISTEN, true, true, 200 },
		{ TCP_LISTEN, true, false, 0, .acked = true, .defer = 1 },
		{ TCP_LISTEN, true, false, 500, .acked = true },
		{ TCP_LISTEN, true, false, 500, .defer = 1 },
		{ TCP_LISTEN, true, false, 500, .acked = true, .defer = 1, .full = true },
		{ TCP_LISTEN, false, false, 200 },
		{ TCP_LISTEN, true, false, 500, .timeouts = 1 },
		{ TCP_SYN_RECV, true, true, 100 }, { TCP_SYN_RECV, true, false, 500 },
		{ TCP_SYN_RECV, true, false, 300, .timeouts = 1 },
		{ TCP_SYN_RECV, true, true, 0, .another = true },
		/* The request's timer was never set. */
		{ TCP_SYN_RECV, true, true, 300, .timeouts = 1, .another = true },
	};
	struct request_sock *req = loss_request(test);
	struct sock *sk = kunit_sock(test);
	u64 ns;

	req->timeout = HZ / 5;
	for_each_row() {
		tcplat_counters_reset(&tcplat_loss);
		preempt_disable();
		sk->sk_state = row->state;
		tcp_rsk(req)->snt_synack = row->known ? tcplat_now_us() - 500 * USEC_PER_MSEC : 0;
		req->num_retrans = row->again;
		req->num_timeout = row->timeouts;
		inet_rsk(req)->acked = row->acked;
		sk->sk_ack_backlog = row->full;
		inet_csk(sk)->icsk_accept_queue.rskq_defer_accept = row->defer;
		req->rsk_timer.expires = jiffies + (row->another ? HZ / 5 : 0);
		kunit_set_rto_timeout(sk, jiffies + HZ / 10);
		synack_entry(sk, (unsigned long)req, 0);
		preempt_enable();
		ns = tcplat_sum(&tcplat_loss, LOSS(SYNACK) + 1);
		/* 200 ms are 60 ticks of 3333333 ns at 300 Hz. */
		KUNIT_EXPECT_ROW(test, DIV_ROUND_CLOSEST_ULL(ns, 100 * NSEC_PER_MSEC),
				 row->ms / 100);
	}
}

/* Runs the timer, and expects these sums. */
static void loss_timer(struct kunit *test, struct sock *sk, u64 rto, u64 syn, u64 late)
{
	KUNIT_HANDLE(timer_entry(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { LOSS(RTO), rto }, { LOSS(SYN), syn }, { RTO_LATE_JIFFIES, late });
}

/* The handler counts the lateness of the timer of data only. */
static void loss_counts_timers(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	tcp_sk(sk)->snd_wnd = 1;
	loss_timer(test, sk, 0, 0, 0);
	tcp_sk(sk)->packets_out = 1;
	kunit_set_rto_timeout(sk, jiffies + HZ);
	loss_timer(test, sk, 1, 0, 0);
	sk->sk_state = TCP_SYN_SENT;
	loss_timer(test, sk, 1, 1, 0);
	kunit_set_rto_timeout(sk, jiffies - HZ);
	loss_timer(test, sk, 1, 2, 0);
	sk->sk_state = TCP_ESTABLISHED;
	KUNIT_HANDLE(timer_entry(sk, 0, 0));
	KUNIT_EXPECT_GE(test, tcplat_sum(&tcplat_loss, RTO_LATE_JIFFIES), HZ);
}

/* Two segments in flight: timer and recovery send the first one again, a probe the last one. */
static void loss_sent_segments(struct kunit *test, struct tcp_sock *tp)
{
	struct sk_buff *skbs = kunit_new(test, 2 * sizeof(*skbs));
	struct rb_root *queue = &((struct sock *)tp)->tcp_rtx_queue;

	tp->tcp_mstamp = 10 * USEC_PER_MSEC;
	skbs[0].skb_mstamp_ns = 6 * NSEC_PER_MSEC;
	skbs[1].skb_mstamp_ns = 9 * NSEC_PER_MSEC;
	rb_link_node(&skbs[0].rbnode, NULL, &queue->rb_node);
	rb_insert_color(&skbs[0].rbnode, queue);
	rb_link_node(&skbs[1].rbnode, &skbs[0].rbnode, &skbs[0].rbnode.rb_right);
	rb_insert_color(&skbs[1].rbnode, queue);
}

static void loss_times(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);

	loss_sent_segments(test, tp);
	tp->snd_wnd = 1;
	tp->packets_out = 2;
	preempt_disable();
	timer_entry(sk, 0, 0);
	recovery_entry(sk, 0, 0);
	KUNIT_EXPECT_SUMS(test, { LOSS(RTO) + 1, 4 * NSEC_PER_MSEC },
			  { LOSS(FAST) + 1, 4 * NSEC_PER_MSEC });
	preempt_enable();
}

/* What was sent again counts since then, also if SACKs have set the timer again meanwhile. */
static void loss_after_retransmission(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);

	loss_sent_segments(test, tp);
	tp->tcp_mstamp = 1006 * USEC_PER_MSEC;
	tp->snd_wnd = 1;
	tp->packets_out = 2;
	inet_csk(sk)->icsk_retransmits = 1;
	inet_csk(sk)->icsk_rto = HZ / 4;
	kunit_set_rto_timeout(sk, jiffies);
	TCP_SKB_CB(tcp_rtx_queue_head(sk))->sacked = TCPCB_SACKED_RETRANS;
	KUNIT_HANDLE(timer_entry(sk, 0, 0));
	KUNIT_EXPECT_SUMS(test, { LOSS(RTO) + 1, NSEC_PER_SEC });
	/* Nothing could be sent, and TCP_USER_TIMEOUT left 100 ms after the first timer's 250. */
	tcplat_counters_reset(&tcplat_loss);
	inet_csk(sk)->icsk_user_timeout = 350;
	TCP_SKB_CB(tcp_rtx_queue_head(sk))->sacked = 0;
	kunit_set_rto_timeout(sk, jiffies);
	KUNIT_HANDLE(timer_entry(sk, 0, 0));
	KUNIT_EXPECT_EQ(test, DIV_ROUND_CLOSEST_ULL(tcplat_sum(&tcplat_loss, LOSS(RTO) + 1),
						    100 * NSEC_PER_MSEC), 1);
}

/* The timer is still set, to twice what the kernel sets icsk_rto to before it sends. */
static void loss_after_icmp(struct kunit *test)
{
	static const struct {
		u32 rto, left, limit_ms;
		u64 tenths;
	} rows[] = {
		{ HZ / 2, HZ / 4, 0, 7 }, { HZ / 2, HZ * 3 / 4, 0, 2 },
		{ HZ / 2, HZ / 4, 1300, 5 }, { TCP_RTO_MAX, HZ / 4, 0, 1197 },
		{ TCP_RTO_MAX / 2, HZ / 4, 0, 1197 },
	};
	struct sock *sk = kunit_sock(test);
	struct inet_connection_sock *icsk = inet_csk(sk);

	loss_sent_segments(test, tcp_sk(sk));
	tcp_sk(sk)->tcp_mstamp = 200 * USEC_PER_SEC;
	tcp_sk(sk)->snd_wnd = 1;
	tcp_sk(sk)->packets_out = 2;
	icsk->icsk_retransmits = 1;
	icsk->icsk_pending = ICSK_TIME_RETRANS;
#ifdef TCPLAT_HAVE_TCP_RTO_MAX
	icsk->icsk_rto_max = TCP_RTO_MAX;
#endif
	for_each_row() {
		tcplat_counters_reset(&tcplat_loss);
		icsk->icsk_rto = row->rto;
		icsk->icsk_user_timeout = row->limit_ms;
		kunit_set_rto_timeout(sk, jiffies + row->left);
		KUNIT_HANDLE(timer_entry(sk, 0, 0));
		KUNIT_EXPECT_ROW(test, div64_u64(tcplat_sum(&tcplat_loss, LOSS(RTO) + 1),
						 100 * NSEC_PER_MSEC), row->tenths);
	}
}

/* A call that sends no probe changes nothing. */
static void loss_counts_probes(struct kunit *test)
{
	static const struct {
		bool unacked, new_data, noted;
		u64 probes;
	} rows[] = {
		{ false, false, false, 0 }, { false, false, true, 1 }, { false, true, true, 1 },
		{ false, true, false, 1 }, { true, false, true, 0 }, { true, true, true, 1 },
	};
	struct kretprobe_instance *ri = kunit_new(test, sizeof(*ri) + sizeof(struct probe));
	struct tcp_sock *tp = tcp_sk(kunit_sock(test));
	struct pt_regs regs;

	loss_sent_segments(test, tp);
	/* Whichever register has the first argument. */
	memset64((u64 *)&regs, (unsigned long)tp, sizeof(regs) / sizeof(u64));
	tp->tlp_retrans = 1;
	for_each_row() {
		tcplat_counters_reset(&tcplat_loss);
		preempt_disable();
		tp->tlp_high_seq = row->unacked;
		probe_entry(ri, &regs);
		tp->snd_nxt += row->new_data;
		tp->tlp_high_seq = row->noted;
		probe_return(ri, &regs);
		preempt_enable();
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_loss, LOSS(TLP)), row->probes);
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_loss, LOSS(TLP) + 1),
				 row->probes * NSEC_PER_MSEC);
	}
}

TCPLAT_GROUP_SUITE(loss,
		   KUNIT_CASE(loss_of_timer),
		   KUNIT_CASE(loss_late),
		   KUNIT_CASE(loss_time_of_timer),
		   KUNIT_CASE(loss_timer_is_cut_short),
		   KUNIT_CASE(loss_time_of_synack),
		   KUNIT_CASE(loss_timeout_of_synack),
		   KUNIT_CASE(loss_counts_synacks),
		   KUNIT_CASE(loss_counts_timers),
		   KUNIT_CASE(loss_times),
		   KUNIT_CASE(loss_after_retransmission),
		   KUNIT_CASE(loss_after_icmp),
		   KUNIT_CASE(loss_counts_probes));
