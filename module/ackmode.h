/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mode a socket's ACKs are in, and what a change of mode was caused by.
 * Values in, values out, and no kernel objects but at the end: KUnit goes through
 * all of them. Handlers call these functions: always inlined, so that no probe can be put on
 * them.
 */
#ifndef _TCPLAT_ACKMODE_H
#define _TCPLAT_ACKMODE_H

#include <linux/types.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include "compat.h"

enum tcplat_mode {
	TCPLAT_DELAYED,
	TCPLAT_QUICKACK,
	TCPLAT_PINGPONG,
	TCPLAT_ROUTE,
	TCPLAT_MODES,
};

/* Documentation/ackmode.md: where the kernel does what. */
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
	TCPLAT_CAUSE_ANSWER,		/* data was sent soon after data had come */
	TCPLAT_CAUSE_FIN,
	TCPLAT_CAUSE_WINDOW,		/* the window was raised, or the buffer is half full */
	TCPLAT_CAUSE_ROUTE,
	TCPLAT_CAUSE_DISCONNECT,
	TCPLAT_CAUSES,
};

/* A socket's state in the socket table: the mode last seen, and what happened since. */
#define TCPLAT_STATE_MODE	0x3
#define TCPLAT_STATE_SETSOCKOPT	0x4	/* TCP_QUICKACK was set */
#define TCPLAT_STATE_TIMEOUT	0x8	/* the delayed-ACK timer sent an ACK */
#define TCPLAT_STATE_LATE	0x10	/* that ACK went out, and nothing since */
#define TCPLAT_STATE_EXPECTED	0x20	/* the slot's record has the cause of the next change */

/* What happens to a socket, as far as it matters to a peer that waits for an ACK. */
enum tcplat_event {
	TCPLAT_OTHER,
	TCPLAT_SENT,		/* data */
	TCPLAT_SENT_ACK,	/* a segment without data */
	TCPLAT_RECEIVED,
};

/* TCPLAT_STATE_LATE or 0, after @event on a socket of state @state. */
static __always_inline unsigned int tcplat_state_late(unsigned int state,
						      enum tcplat_event event)
{
	switch (event) {
	case TCPLAT_SENT:
	case TCPLAT_SENT_ACK:
		return state & TCPLAT_STATE_TIMEOUT ? TCPLAT_STATE_LATE : 0;
	case TCPLAT_RECEIVED:
		return 0;
	default:
		return state & TCPLAT_STATE_LATE;
	}
}

/*
 * As the kernel's own helpers define the modes; @route: the route says quickack 1;
 * @quick: quick ACKs left to send.
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
 * TCPLAT_STATE_SETSOCKOPT or 0, after @event. A TCP_QUICKACK that is even but not 0 has an ACK
 * sent before it begins pingpong, and an ACK may go out before the caller gets the lock.
 */
static __always_inline unsigned int tcplat_state_setsockopt(unsigned int state,
							    enum tcplat_event event)
{
	return event == TCPLAT_SENT_ACK ? state & TCPLAT_STATE_SETSOCKOPT : 0;
}

/*
 * Whether @cause can change the mode from @from to @to. A change from or to pingpong is put down
 * to what ended or began pingpong, another one to what gave or took the quick ACKs. Those that
 * came with the end of pingpong may be gone before the socket is seen again.
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
 * The cause of a change to mode @to, seen on a socket of state @state for which @expected was the
 * next cause. What is expected came after what the state says.
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
 * struct tcplat_ack - what the kernel decides by, at the entry of a function
 * @mode: the socket's own mode: not TCPLAT_ROUTE
 * @quick: quick ACKs left
 * @ato: ACK timeout, in jiffies; 0 until data has come
 * @since: jiffies since data came last
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
 * What tcp_event_data_recv() changes the mode by, if it does. @rto: in jiffies; @ecn: the
 * segment's ECN bits call for quick ACKs. The kernel looks at them after the rest.
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
 * What __tcp_transmit_skb() changes the mode by, if it does. @data: the segment has some;
 * @packets: in it; @scheduled: an ACK is due; @last: one more answer begins pingpong. The kernel
 * chooses the window first, then counts the ACK, which may shorten the ATO, then the data.
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

/**
 * struct tcplat_queued - a segment that tcp_data_queue() is called with
 * @seq: where it begins
 * @end_seq: where it ends, its FIN included
 * @rcv_nxt: what is waited for
 * @window: bytes that the peer may send
 * @ecn: its ECN bits call for quick ACKs
 * @over: what is in the receive buffer exceeds it
 */
struct tcplat_queued {
	u32 seq;
	u32 end_seq;
	u32 rcv_nxt;
	u32 window;
	bool ecn;
	bool over;
};

/*
 * What tcp_data_queue() changes the mode by before it calls tcp_event_data_recv() or tcp_fin(),
 * if it does; of data out of order, all that it does. Newer kernels take a FIN alone while the
 * window is shut, but then they call tcp_fin().
 */
static __always_inline enum tcplat_cause
tcplat_expect_queued(const struct tcplat_ack *ack, const struct tcplat_queued *q)
{
	if (q->seq == q->end_seq)
		return TCPLAT_CAUSE_NONE;
	if (!q->window || !after(q->end_seq, q->rcv_nxt) ||
	    !before(q->seq, q->rcv_nxt + q->window))
		return ack->mode == TCPLAT_QUICKACK ? TCPLAT_CAUSE_NONE : TCPLAT_CAUSE_DUPLICATE;
	if (ack->mode == TCPLAT_QUICKACK)
		return q->over ? TCPLAT_CAUSE_WINDOW : TCPLAT_CAUSE_NONE;
	if (!after(q->seq, q->rcv_nxt))
		return TCPLAT_CAUSE_NONE;
	if (q->ecn)
		return TCPLAT_CAUSE_ECN;
	return ack->mode == TCPLAT_DELAYED && ack->may_grow ? TCPLAT_CAUSE_WINDOW :
							      TCPLAT_CAUSE_NONE;
}

static __always_inline enum tcplat_mode tcplat_sock_mode(struct sock *sk)
{
	return tcplat_mode(tcplat_route_is_quickack(sk), inet_csk_in_pingpong_mode(sk),
			   inet_csk(sk)->icsk_ack.quick);
}

/* The mode if the route does not say quickack 1. */
static __always_inline enum tcplat_mode tcplat_sock_own_mode(struct sock *sk)
{
	return tcplat_mode(false, inet_csk_in_pingpong_mode(sk), inet_csk(sk)->icsk_ack.quick);
}

bool tcplat_ackmode_sees_data(void);

#endif /* _TCPLAT_ACKMODE_H */
