/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Predicts what the delayed-ACK timer is about to do, and defines a stall.
 */
#ifndef _TCPLAT_DELACK_H
#define _TCPLAT_DELACK_H

#include <linux/jiffies.h>
#include <net/tcp.h>

#include "compat.h"
#include "jiffies.h"

/*
 * Whether tcp_delack_timer_handler(), which is about to run with the socket's lock held, will
 * send an ACK and count it in LINUX_MIB_DELAYEDACKS. The handler reads jiffies again. A tick
 * between the two reads would only matter if the timer ran a jiffy early, which it does not.
 */
static __always_inline bool tcplat_delack_sends_ack(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return !((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN)) &&
	       !tcplat_delack_flushes_sacks(tcp_sk(sk)) &&
	       (icsk->icsk_ack.pending & ICSK_ACK_TIMER) &&
	       !time_after(tcplat_delack_timeout(icsk), jiffies) &&
	       inet_csk_ack_scheduled(sk);
}

/*
 * Whether the socket has not yet acknowledged earlier data, and that data was received before
 * this jiffy. Call this at the entry of tcp_event_data_recv(), with the socket locked, where
 * lrcvtime is still the time of the earlier data. A request/response exchange owes no ACK there.
 */
static __always_inline bool tcplat_delack_owes(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return unlikely(icsk->icsk_ack.pending & ICSK_ACK_TIMER) &&
	       icsk->icsk_ack.lrcvtime != tcp_jiffies32;
}

/*
 * The part of @delay, which ends at @now, that lies after the timer's @expiry; all in jiffies.
 * The kernel asked for the rest: it sets the expiry when the oldest data is received, and later
 * data can only make it earlier. If the delay began after @expiry, this is all of the delay.
 */
static __always_inline u32 tcplat_delack_lateness(unsigned long now, unsigned long expiry,
						  u32 delay)
{
	return time_after(now, expiry) ? min_t(unsigned long, now - expiry, delay) : 0;
}

void tcplat_delack_keep_oldest(const struct sock *sk);

/**
 * struct tcplat_delack_record - a delayed-ACK timeout whose ACK the peer may have waited for
 * @since: when the ACK was sent, in ns of CLOCK_MONOTONIC; 0 if the peer cannot have waited
 * @delay: delay of the ACK, in jiffies
 * @echoed: data that the peer sends after receiving this ACK echoes the ACK's timestamp
 *
 * ackmode stores one for each socket together with one more byte, 16 bytes in total.
 */
struct tcplat_delack_record {
	u64 since;
	u32 delay:31;
	u32 echoed:1;
} __packed __aligned(4);

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

void tcplat_delack_record_timeout(const struct sock *sk, struct tcplat_delack_record *record);
void tcplat_delack_check_stall(struct sock *sk, const struct tcplat_delack_record *record);

#endif /* _TCPLAT_DELACK_H */
