/* SPDX-License-Identifier: GPL-2.0 */
/* Defines when data that is received was released by the ACK before it. */
#ifndef _TCPLAT_STALLS_H
#define _TCPLAT_STALLS_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <net/tcp.h>

#include "socktab.h"

/*
 * Whether the timestamp @tsecr that the peer echoes, less this side's offset, is that of an ACK
 * sent at @since (in ns), or a later one. Timestamps up to 1 ms earlier are accepted, since they
 * come from another clock, and no segment was sent in the millisecond before the ACK.
 */
static __always_inline bool tcplat_echoes(u32 tsecr, u64 since, bool usec)
{
	u32 sent = usec ? div_u64(since, NSEC_PER_USEC) - USEC_PER_MSEC :
		   div_u64(since, NSEC_PER_MSEC) - 1;

	return (s32)(tsecr - sent) >= 0;
}

/* Slack in both directions: the peer's kernel may answer faster than a program, or later. */
#define TCPLAT_STALL_SLACK_US	1000

/**
 * struct tcplat_window - the time in which data that a late ACK released is received
 * @least: earliest time, in us after the ACK
 * @most: latest time, in us after the ACK
 */
struct tcplat_window {
	u64 least;
	u64 most;
};

/*
 * The window for the kernel's measurements of the round trip, in us: @min_rtt, the minimum of
 * the last minutes (~0U if not measured), and @mdev4, four times the mean deviation. Unlike the
 * smoothed estimate, the minimum does not include delays of the peer's own ACKs. @echoed: no
 * lower bound is needed.
 */
static __always_inline struct tcplat_window tcplat_stall_window(u32 min_rtt, u32 mdev4,
								bool echoed)
{
	struct tcplat_window window = {};
	u64 rtt = min_rtt;

	if (min_rtt == ~0U) {
		/* TCP's own initial estimate. */
		window.most = (u64)TCP_TIMEOUT_INIT * USEC_PER_SEC / HZ;
		return window;
	}
	window.most = rtt + clamp_t(u64, mdev4, rtt / 8, rtt / 2) + TCPLAT_STALL_SLACK_US;
	if (!echoed && rtt - rtt / 8 > TCPLAT_STALL_SLACK_US)
		window.least = rtt - rtt / 8 - TCPLAT_STALL_SLACK_US;
	return window;
}

static __always_inline bool tcplat_stalled(u64 ns, struct tcplat_window window)
{
	return ns >= window.least * NSEC_PER_USEC && ns <= window.most * NSEC_PER_USEC;
}

/* Sockets whose last segment sent may be a late ACK: sets of one cache line, by address. */
#define TCPLAT_LATE_SETS_SHIFT	9
#define TCPLAT_LATE_WAYS	TCPLAT_SET_SLOTS

struct tcplat_late_set {
	u64 keys[TCPLAT_LATE_WAYS];
};

extern struct tcplat_late_set *tcplat_late_sets;

static __always_inline struct tcplat_late_set *tcplat_late_set_of(const struct sock *sk)
{
	return &tcplat_late_sets[tcplat_sock_hash(sk) >> (64 - TCPLAT_LATE_SETS_SHIFT)];
}

/* Whether a late ACK of the socket is in the table. */
static __always_inline bool tcplat_is_late(const struct sock *sk)
{
	return tcplat_set_has(tcplat_late_set_of(sk)->keys, tcplat_sock_key(sk));
}

int tcplat_stalls_alloc(void);
void tcplat_stalls_free(void);
bool tcplat_stall_begin(const struct sock *sk, u32 delay);
bool tcplat_stall_end(const struct sock *sk, const struct sk_buff *skb, u32 *delay);

#endif /* _TCPLAT_STALLS_H */
