/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mode a socket's ACKs are in, and what a change of mode was caused by.
 * Values in, values out, and no kernel objects but at the end: KUnit goes through
 * all of them.
 */
#ifndef _TCPLAT_ACKMODE_H
#define _TCPLAT_ACKMODE_H

#include <linux/types.h>
#include <net/inet_connection_sock.h>

#include "compat.h"

enum tcplat_mode {
	TCPLAT_DELAYED,
	TCPLAT_QUICKACK,
	TCPLAT_PINGPONG,
	TCPLAT_ROUTE,
	TCPLAT_MODES,
};

enum tcplat_cause {
	TCPLAT_CAUSE_NONE,
	TCPLAT_CAUSE_TIMEOUT,
	TCPLAT_CAUSE_SETSOCKOPT,
	TCPLAT_CAUSES,
};

/* A socket's state in the socket table: the mode last seen, and what happened since. */
#define TCPLAT_STATE_MODE	0x3
#define TCPLAT_STATE_SETSOCKOPT	0x4	/* TCP_QUICKACK was set */
#define TCPLAT_STATE_TIMEOUT	0x8	/* the delayed-ACK timer sent an ACK */
#define TCPLAT_STATE_LATE	0x10	/* that ACK went out, and nothing since */

/* What happens to a socket, as far as it matters to a peer that waits for an ACK. */
enum tcplat_event {
	TCPLAT_OTHER,
	TCPLAT_SENT,
	TCPLAT_RECEIVED,
};

/* TCPLAT_STATE_LATE or 0, after @event on a socket of state @state. */
static __always_inline unsigned int tcplat_state_late(unsigned int state,
						      enum tcplat_event event)
{
	switch (event) {
	case TCPLAT_SENT:
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
 * The cause of a change to mode @to, seen on a socket of state @state. Only the
 * changes that an event makes itself are put down to it: the timer ends pingpong,
 * TCP_QUICKACK ends or begins pingpong and may uncover quick ACKs.
 */
static __always_inline enum tcplat_cause tcplat_cause(unsigned int state, enum tcplat_mode to)
{
	bool exits = (state & TCPLAT_STATE_MODE) == TCPLAT_PINGPONG;

	/* Neither the timer nor TCP_QUICKACK changes the route. */
	if (to == TCPLAT_ROUTE || (state & TCPLAT_STATE_MODE) == TCPLAT_ROUTE)
		return TCPLAT_CAUSE_NONE;

	if ((state & TCPLAT_STATE_TIMEOUT) && exits)
		return TCPLAT_CAUSE_TIMEOUT;
	if ((state & TCPLAT_STATE_SETSOCKOPT) && (exits || to == TCPLAT_PINGPONG))
		return TCPLAT_CAUSE_SETSOCKOPT;
	return TCPLAT_CAUSE_NONE;
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
