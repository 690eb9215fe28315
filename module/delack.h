/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the delayed-ACK timer is about to do, and what a stall is.
 */
#ifndef _TCPLAT_DELACK_H
#define _TCPLAT_DELACK_H

#include <linux/jiffies.h>
#include <net/tcp.h>

#include "compat.h"
#include "jiffies.h"

/*
 * Whether tcp_delack_timer_handler(), about to run with the socket's lock held, is
 * going to send an ACK, and to count it in LINUX_MIB_DELAYEDACKS. The handler looks
 * at jiffies once more; a tick in the few instructions between would matter only to
 * a timer that runs a jiffy early, which it does not.
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
 * Whether data that has come before is not acknowledged yet and is older than this jiffy. For
 * the entry of tcp_event_data_recv(), socket locked, where lrcvtime is still the time of the
 * data before: in a request/response nothing is owed there.
 */
static __always_inline bool tcplat_delack_owes(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return unlikely(icsk->icsk_ack.pending & ICSK_ACK_TIMER) &&
	       icsk->icsk_ack.lrcvtime != tcp_jiffies32;
}

/*
 * How much of @delay, in jiffies at @now, lies after @expiry, which the timer was set to. The
 * rest was asked for: the kernel sets the expiry with the oldest data, and later data moves it
 * ahead but never back. All of the delay if the data that it counts from came after @expiry.
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
 * @delay: how long it had been delayed, in jiffies
 * @echoed: data that the peer sends after it has this ACK echoes the ACK's timestamp
 *
 * ackmode keeps one for each socket, beside a byte of its own: 16 bytes in all.
 */
struct tcplat_delack_record {
	u64 since;
	u32 delay:31;
	u32 echoed:1;
} __packed __aligned(4);

/*
 * Whether the timestamp @tsecr that the peer echoes, with this side's offset taken off,
 * is that of an ACK sent at @since (in ns) or a later one. A millisecond of grace: the
 * clock was read by other means, and nothing was sent for longer than that before.
 */
static __always_inline bool tcplat_echoes(u32 tsecr, u64 since, bool usec)
{
	u32 sent = usec ? div_u64(since, NSEC_PER_USEC) - USEC_PER_MSEC :
		   div_u64(since, NSEC_PER_MSEC) - 1;

	return (s32)(tsecr - sent) >= 0;
}

/* A kernel answers an ACK sooner than a program, and now and then a little later. */
#define TCPLAT_STALL_SLACK_US	1000

/**
 * struct tcplat_window - when data comes that a late ACK has released
 * @least: not before, in us after the ACK
 * @most: not later
 */
struct tcplat_window {
	u64 least;
	u64 most;
};

/*
 * From what the kernel knows of the round trip, in us: the least one of the last minutes
 * (~0U if there was none) and four times the mean deviation. The least one is what the smoothed
 * estimate is not: free of the delays of the peer's own ACKs. @echoed: no lower bound is needed.
 */
static __always_inline struct tcplat_window tcplat_stall_window(u32 min_rtt, u32 mdev4,
								bool echoed)
{
	struct tcplat_window window = {};
	u64 rtt = min_rtt;

	if (min_rtt == ~0U) {
		/* What TCP itself assumes as long as it has not measured. */
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
