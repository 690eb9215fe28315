/* SPDX-License-Identifier: GPL-2.0 */
/* The mode of a socket's ACKs, and the causes of changes of mode. */
#ifndef _TCPLAT_ACKMODE_H
#define _TCPLAT_ACKMODE_H

#include <linux/types.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include "compat.h"
#include "socktab.h"

enum tcplat_mode {
	TCPLAT_DELAYED,
	TCPLAT_QUICKACK,
	TCPLAT_PINGPONG,
	TCPLAT_ROUTE,
	TCPLAT_MODES,
};

/* Documentation/design/ackmode.md lists the kernel functions behind each cause. */
enum tcplat_cause {
	TCPLAT_CAUSE_NONE,
	TCPLAT_CAUSE_TIMEOUT,
	TCPLAT_CAUSE_SETSOCKOPT,
	TCPLAT_CAUSE_FIRST,		/* the connection's first data */
	TCPLAT_CAUSE_GAP,		/* data after a gap longer than the RTO */
	TCPLAT_CAUSE_DUPLICATE,		/* old data, or data outside the window */
	TCPLAT_CAUSE_ECN,
	TCPLAT_CAUSE_HANDSHAKE,		/* the handshake's ACK waits for data */
	TCPLAT_CAUSE_BUDGET,		/* the last quick ACK was sent */
	TCPLAT_CAUSE_ANSWER,		/* data was sent soon after data was received */
	TCPLAT_CAUSE_FIN,
	TCPLAT_CAUSE_WINDOW,		/* the window was raised, or the buffer is half full */
	TCPLAT_CAUSE_ROUTE,
	TCPLAT_CAUSE_DISCONNECT,
	TCPLAT_CAUSES,
};

/* A socket's state in the socket table: the mode last seen, and what happened since. */
#define TCPLAT_STATE_MODE	0x3
#define TCPLAT_STATE_SETSOCKOPT	0x4	/* TCP_QUICKACK was set */
#define TCPLAT_STATE_TIMEOUT	0x8	/* the delayed-ACK timer is sending an ACK */
#define TCPLAT_STATE_EXPECTED	0x10	/* the slot's record has the cause of the next change */

/*
 * The mode, as the kernel's helpers define it. @route: the route has quickack 1; @quick: number
 * of quick ACKs left.
 */
static __always_inline enum tcplat_mode tcplat_mode(bool route, bool pingpong, unsigned int quick)
{
	if (route)
		return TCPLAT_ROUTE;
	if (pingpong)
		return TCPLAT_PINGPONG;
	return quick ? TCPLAT_QUICKACK : TCPLAT_DELAYED;
}

/*
 * Whether @cause can change the mode from @from to @to. The cause of a change from or to
 * pingpong is what ended or began pingpong mode. The cause of any other change is what granted
 * or used up the quick ACKs. Quick ACKs that were granted at the end of pingpong mode may be
 * used up before the next event of the socket.
 */
static __always_inline bool tcplat_explains(enum tcplat_cause cause, enum tcplat_mode from,
					    enum tcplat_mode to)
{
	if (from == to)
		return false;
	if (from == TCPLAT_ROUTE || to == TCPLAT_ROUTE)
		return cause == TCPLAT_CAUSE_ROUTE;
	switch (cause) {
	case TCPLAT_CAUSE_TIMEOUT:
		return from == TCPLAT_PINGPONG;
	case TCPLAT_CAUSE_SETSOCKOPT:
		return from == TCPLAT_PINGPONG || to == TCPLAT_PINGPONG;
	case TCPLAT_CAUSE_DUPLICATE:
	case TCPLAT_CAUSE_ECN:
		return from != TCPLAT_QUICKACK && to != TCPLAT_PINGPONG;
	case TCPLAT_CAUSE_FIRST:
	case TCPLAT_CAUSE_GAP:
	case TCPLAT_CAUSE_HANDSHAKE:
		return from == TCPLAT_DELAYED && to == TCPLAT_QUICKACK;
	case TCPLAT_CAUSE_BUDGET:
		return from == TCPLAT_QUICKACK && to == TCPLAT_DELAYED;
	case TCPLAT_CAUSE_WINDOW:
		return from != TCPLAT_PINGPONG && to != TCPLAT_PINGPONG;
	case TCPLAT_CAUSE_ANSWER:
	case TCPLAT_CAUSE_FIN:
		return to == TCPLAT_PINGPONG;
	case TCPLAT_CAUSE_DISCONNECT:
		return to == TCPLAT_DELAYED;
	default:
		return false;
	}
}

/*
 * The cause of a change to mode @to, seen on a socket in @state. @expected is the cause expected
 * next; it is newer than the flags in @state.
 */
static __always_inline enum tcplat_cause
tcplat_cause(unsigned int state, enum tcplat_cause expected, enum tcplat_mode to)
{
	enum tcplat_mode from = state & TCPLAT_STATE_MODE;

	if (tcplat_explains(TCPLAT_CAUSE_ROUTE, from, to))
		return TCPLAT_CAUSE_ROUTE;
	if (tcplat_explains(expected, from, to))
		return expected;
	if ((state & TCPLAT_STATE_TIMEOUT) && tcplat_explains(TCPLAT_CAUSE_TIMEOUT, from, to))
		return TCPLAT_CAUSE_TIMEOUT;
	if ((state & TCPLAT_STATE_SETSOCKOPT) &&
	    tcplat_explains(TCPLAT_CAUSE_SETSOCKOPT, from, to))
		return TCPLAT_CAUSE_SETSOCKOPT;
	return TCPLAT_CAUSE_NONE;
}

/**
 * struct tcplat_ack - inputs of the kernel's decisions, read at the entry of a function
 * @mode: the socket's own mode, not TCPLAT_ROUTE
 * @quick: number of quick ACKs left
 * @ato: ACK timeout, in jiffies; 0 until data was received
 * @since: time since data was last received, in jiffies
 * @full: less than half of the receive buffer is free
 * @may_grow: the window may be raised
 */
struct tcplat_ack {
	enum tcplat_mode mode;
	u32 quick;
	u32 ato;
	u32 since;
	bool full;
	bool may_grow;
};

/*
 * The cause if tcp_event_data_recv() changes the mode. @rto: retransmission timeout, in jiffies;
 * @ecn: the segment's ECN bits request quick ACKs, which the kernel checks last.
 */
static __always_inline enum tcplat_cause
tcplat_expect_received(const struct tcplat_ack *ack, u32 rto, bool ecn)
{
	switch (ack->mode) {
	case TCPLAT_DELAYED:
		if (!ack->ato)
			return TCPLAT_CAUSE_FIRST;
		if (ack->since > TCP_ATO_MIN / 2 && ack->since >= ack->ato && ack->since > rto)
			return TCPLAT_CAUSE_GAP;
		if (ecn)
			return TCPLAT_CAUSE_ECN;
		return ack->may_grow ? TCPLAT_CAUSE_WINDOW : TCPLAT_CAUSE_NONE;
	case TCPLAT_QUICKACK:
		return ack->full ? TCPLAT_CAUSE_WINDOW : TCPLAT_CAUSE_NONE;
	default:
		return ecn ? TCPLAT_CAUSE_ECN : TCPLAT_CAUSE_NONE;
	}
}

/*
 * The cause if __tcp_transmit_skb() changes the mode. @data: the segment has data; @packets:
 * number of packets in it; @scheduled: an ACK is scheduled; @last: one more answer begins
 * pingpong mode. The kernel selects the window first, then accounts for the ACK, which may
 * shorten the ATO, then for the data.
 */
static __always_inline enum tcplat_cause
tcplat_expect_sent(const struct tcplat_ack *ack, bool data, u32 packets, bool scheduled,
		   bool last)
{
	u32 ato = ack->ato;

	if (ack->mode == TCPLAT_PINGPONG)
		return TCPLAT_CAUSE_NONE;
	if (ack->quick == 1 && scheduled && !ack->full)
		ato = TCP_ATO_MIN;
	if (data && last && ack->since < ato)
		return TCPLAT_CAUSE_ANSWER;
	if (ack->mode == TCPLAT_DELAYED)
		return TCPLAT_CAUSE_NONE;
	if (ack->full)
		return TCPLAT_CAUSE_WINDOW;
	return ack->quick <= packets ? TCPLAT_CAUSE_BUDGET : TCPLAT_CAUSE_NONE;
}

/*
 * The cause if tcp_data_queue() changes the mode before it calls tcp_event_data_recv() or
 * tcp_fin(). For data out of order it calls neither. Newer kernels accept a FIN without data
 * while the window is closed, but then they call tcp_fin().
 */
static __always_inline enum tcplat_cause
tcplat_expect_queued(const struct tcplat_ack *ack, const struct sock *sk,
		     const struct sk_buff *skb)
{
	u32 window = tcp_receive_window(tcp_sk(sk)), rcv_nxt = tcp_sk(sk)->rcv_nxt;
	const struct tcp_skb_cb *cb = TCP_SKB_CB(skb);

	if (cb->seq == cb->end_seq)
		return TCPLAT_CAUSE_NONE;
	if (!window || !after(cb->end_seq, rcv_nxt) || !before(cb->seq, rcv_nxt + window))
		return ack->mode == TCPLAT_QUICKACK ? TCPLAT_CAUSE_NONE : TCPLAT_CAUSE_DUPLICATE;
	if (ack->mode == TCPLAT_QUICKACK)
		return atomic_read(&sk->sk_rmem_alloc) > sk->sk_rcvbuf ? TCPLAT_CAUSE_WINDOW :
									 TCPLAT_CAUSE_NONE;
	if (!after(cb->seq, rcv_nxt))
		return TCPLAT_CAUSE_NONE;
	if (tcplat_ecn_calls(sk, skb))
		return TCPLAT_CAUSE_ECN;
	return ack->mode == TCPLAT_DELAYED && ack->may_grow ? TCPLAT_CAUSE_WINDOW :
							      TCPLAT_CAUSE_NONE;
}

/* The socket's own mode, regardless of the route's quickack attribute. */
static __always_inline enum tcplat_mode tcplat_sock_own_mode(struct sock *sk)
{
	return tcplat_mode(false, inet_csk_in_pingpong_mode(sk), inet_csk(sk)->icsk_ack.quick);
}

static __always_inline enum tcplat_mode tcplat_sock_mode(struct sock *sk)
{
	return tcplat_route_is_quickack(sk) ? TCPLAT_ROUTE : tcplat_sock_own_mode(sk);
}

static __always_inline void tcplat_read_ack(const struct sock *sk, enum tcplat_mode mode,
					    struct tcplat_ack *ack)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	ack->mode = mode;
	ack->quick = icsk->icsk_ack.quick;
	ack->ato = icsk->icsk_ack.ato;
	ack->since = tcp_jiffies32 - icsk->icsk_ack.lrcvtime;
	ack->full = mode == TCPLAT_QUICKACK && tcplat_buffer_is_full(sk);
	ack->may_grow = false;
}

/* Whether data sent now is an answer. For delayed mode, where no quick ACK shortens the ATO. */
static __always_inline bool tcplat_is_early(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return tcp_jiffies32 - icsk->icsk_ack.lrcvtime < icsk->icsk_ack.ato;
}

/*
 * Whether tcp_rcv_synsent_state_process(), which is about to call tcp_init_transfer(), will hold
 * back the ACK of the handshake.
 */
static __always_inline bool tcplat_handshake_waits(struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED &&
	       (sk->sk_write_pending || inet_csk_in_pingpong_mode(sk) ||
		READ_ONCE(inet_csk(sk)->icsk_accept_queue.rskq_defer_accept));
}

extern struct tcplat_socktab tcplat_ackmode_table;

static __always_inline bool tcplat_ackmode_saw(const struct sock *sk, enum tcplat_mode mode)
{
	return tcplat_socktab_is(&tcplat_ackmode_table, tcplat_sock_key(sk), mode);
}

/*
 * Whether ackmode has seen the socket, whose hash is @hash, in pingpong mode. Also false if the
 * socket is not in its home slot.
 */
static __always_inline bool tcplat_ackmode_saw_pingpong(const struct sock *sk, u64 hash)
{
	u64 word = READ_ONCE(*tcplat_socktab_slot(&tcplat_ackmode_table, hash));

	return (word ^ tcplat_sock_key(sk)) == TCPLAT_PINGPONG;
}

void tcplat_ackmode_sent(struct sock *sk, unsigned long arg1, unsigned long arg2);
void tcplat_ackmode_received(struct sock *sk, unsigned long arg1, unsigned long arg2);
void tcplat_ackmode_queue(struct sock *sk, unsigned long arg1, unsigned long arg2);
void tcplat_ackmode_destroy(struct sock *sk, unsigned long arg1, unsigned long arg2);

#endif /* _TCPLAT_ACKMODE_H */
