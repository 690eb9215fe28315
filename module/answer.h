/* SPDX-License-Identifier: GPL-2.0 */
/* What is an answer, and how late it is. */
#ifndef _TCPLAT_ANSWER_H
#define _TCPLAT_ANSWER_H

#include <net/tcp.h>

#include "jiffies.h"

/* Whose answer was late: values of the field kind of the tracepoint late_answer. */
enum tcplat_answer {
	TCPLAT_ANSWER_OWN,
	TCPLAT_ANSWER_PEER,
};

/**
 * struct tcplat_exchange - the values that tell who has to answer
 * @received: data was ever received
 * @ack_scheduled: data has been received since this host last sent a segment
 * @received_ago: jiffies since data was last received
 * @sent_ago: jiffies since data was last sent
 * @in_flight: data has been sent that is not acknowledged
 * @data_segs_out: number of segments sent with data
 * @data_last: what the peer sent last is data, not an ACK
 * @sent_us: when a segment was last sent
 * @acked_us: when the last data that is acknowledged was sent
 * @fin_sent: @in_flight, @sent_us and @acked_us may tell of a FIN
 */
struct tcplat_exchange {
	bool received;
	bool ack_scheduled;
	u32 received_ago;
	u32 sent_ago;
	bool in_flight;
	u32 data_segs_out;
	bool data_last;
	u64 sent_us;
	u64 acked_us;
	bool fin_sent;
};

/*
 * Whether a write is the first one since data was received. With TCP Fast Open the ACK of the
 * handshake counts as sent data, and comes after the request. In one jiffy, what the peer sent last
 * tells: after an answer it was the ACK of that. If it sent an ACK after its request, too, a late
 * answer is missed, but none is invented.
 */
static __always_inline bool tcplat_is_answer(struct tcplat_exchange x)
{
	if (!x.received)
		return false;
	if (x.ack_scheduled || !x.data_segs_out || x.received_ago < x.sent_ago)
		return true;
	return x.received_ago == x.sent_ago && !x.in_flight && x.data_last;
}

/*
 * Whether data that is being received is the first one since this host sent data. In one jiffy, the
 * last segment sent tells: either it had data that is in flight or that is what the peer
 * acknowledged last, or it was an ACK of data. After a FIN or a keepalive probe it does not tell.
 */
static __always_inline bool tcplat_is_answered(struct tcplat_exchange x)
{
	if (x.ack_scheduled || !x.data_segs_out || x.sent_ago > x.received_ago)
		return false;
	return x.sent_ago != x.received_ago ||
	       (!x.fin_sent && (x.in_flight || x.sent_us <= x.acked_us));
}

/* Whether a write may be a late answer: last data was received long ago. */
static __always_inline bool tcplat_answer_looks_at_push(const struct sock *sk)
{
	return tcplat_may_be_late(tcplat_jiffies32_since(tcp_jiffies32,
							 inet_csk(sk)->icsk_ack.lrcvtime));
}

/*
 * Whether data that is being received may be a late answer: this host sent data after it last
 * received any, and long ago.
 */
static __always_inline bool tcplat_answer_looks_at_received(const struct sock *sk)
{
	u32 now = tcp_jiffies32, sent_ago = tcplat_jiffies32_since(now, tcp_sk(sk)->lsndtime);

	return tcplat_may_be_late(sent_ago) &&
	       sent_ago <= tcplat_jiffies32_since(now, inet_csk(sk)->icsk_ack.lrcvtime);
}

/*
 * How long an answer took, in ns: @ns, or, if that is not the time since the data before it was
 * sent or received, @ticks jiffies ago, these jiffies. An ACK or a keepalive probe between the two
 * changes only the kernel's finer clock.
 */
static __always_inline u64 tcplat_answer_time(u64 ns, u32 ticks)
{
	u64 least = tcplat_jiffies_to_ns(ticks ? ticks - 1 : 0);
	u64 most = tcplat_jiffies_to_ns(ticks + 1ULL);

	return ns >= least && ns <= most ? ns : tcplat_jiffies_to_ns(ticks);
}

/* By how many ns an answer took longer than a round trip of @rtt_us, which is ~0 if unknown. */
static __always_inline u64 tcplat_beyond_rtt(u64 ns, u32 rtt_us)
{
	u64 rtt = rtt_us == ~0U ? 0 : (u64)rtt_us * NSEC_PER_USEC;

	return ns > rtt ? ns - rtt : 0;
}

void tcplat_answer_push(struct sock *sk, unsigned long arg1, unsigned long arg2);
void tcplat_answer_received(struct sock *sk, unsigned long arg1, unsigned long arg2);

#endif /* _TCPLAT_ANSWER_H */
