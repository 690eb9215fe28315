/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether a hit of one of the busiest functions needs a handler: each segment of a
 * request/response enters some of them, each connection the others. Each group's part is a
 * necessary condition: the group's handler decides for itself.
 */
#ifndef _TCPLAT_HOT_H
#define _TCPLAT_HOT_H

#include "ackmode.h"
#include "answer.h"
#include "delack.h"
#include "peerwnd.h"
#include "sndhold.h"
#include "sndwait.h"
#include "tcplat.h"

/* Entry of __tcp_transmit_skb(sk, ...). */
static __always_inline bool tcplat_hot_sent(struct sock *sk)
{
	u64 hash = tcplat_sock_hash(sk);

	return (static_branch_likely(&tcplat_sndhold.on) &&
		tcplat_socktab_may_have(tcplat_sndhold_held, sk)) ||
	       (static_branch_likely(&tcplat_peerwnd.on) && tcplat_peerwnd_looks_at_sent(sk)) ||
	       (static_branch_likely(&tcplat_ackmode.on) &&
		(!inet_csk_in_pingpong_mode(sk) || !tcplat_ackmode_saw_pingpong(sk, hash)));
}

/*
 * Entry of tcp_event_data_recv(sk, skb), or of tcp_rcv_established(sk, skb). A late ACK ends
 * pingpong mode, and only an answer, a FIN or a program that sets TCP_QUICKACK to 0 begins it
 * again before more data is received. An answer and a FIN are sent, so the data ends no stall;
 * with the program, a stall is missed.
 */
static __always_inline bool tcplat_hot_received(struct sock *sk, const struct sk_buff *skb)
{
	u64 hash = tcplat_sock_hash(sk);

	if ((static_branch_likely(&tcplat_delack.on) && tcplat_delack_owes(sk)) ||
	    (static_branch_likely(&tcplat_answer.on) && tcplat_answer_looks_at_received(sk)))
		return true;
	if (inet_csk_in_pingpong_mode(sk))
		return static_branch_likely(&tcplat_ackmode.on) &&
		       (!tcplat_ackmode_saw_pingpong(sk, hash) || tcplat_route_is_quickack(sk) ||
			tcplat_ecn_calls(sk, skb));
	return static_branch_likely(&tcplat_ackmode.on) ||
	       (static_branch_likely(&tcplat_delack.on) && tcplat_is_late(sk));
}

/* Entry of tcp_push(sk, flags, mss_now, nonagle, size_goal). */
static __always_inline bool tcplat_hot_push(const struct sock *sk, int flags, int nonagle)
{
	return (static_branch_likely(&tcplat_sndhold.on) &&
		tcplat_sndhold_looks(sk, flags, nonagle)) ||
	       (static_branch_likely(&tcplat_answer.on) && tcplat_answer_looks_at_push(sk));
}

/* Entry of tcp_data_queue(sk, skb): only data in quickack mode, or that is not in order. */
static __always_inline bool tcplat_hot_queue(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = TCP_SKB_CB(skb);

	return static_branch_likely(&tcplat_ackmode.on) && cb->seq != cb->end_seq &&
	       (cb->seq != tcp_sk(sk)->rcv_nxt || !tcp_receive_window(tcp_sk(sk)) ||
		(!inet_csk_in_pingpong_mode(sk) && inet_csk(sk)->icsk_ack.quick));
}

/* Entry of tcp_v4_destroy_sock(sk). */
static __always_inline bool tcplat_hot_destroy(const struct sock *sk)
{
	return static_branch_likely(&tcplat_ackmode.on) ||
	       (static_branch_likely(&tcplat_sndhold.on) &&
		tcplat_socktab_may_have(tcplat_sndhold_held, sk)) ||
	       (static_branch_likely(&tcplat_sndwait.on) &&
		tcplat_socktab_may_have(tcplat_sndwait_held, sk));
}

#endif /* _TCPLAT_HOT_H */
