/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the delayed-ACK timer is about to do.
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

void tcplat_delack_keep(const struct sock *sk);
u32 tcplat_ack_delay(const struct sock *sk);

/**
 * struct tcplat_late - a delayed-ACK timeout
 * @since: when the ACK went out, in ns; 0 if delack did not count it
 * @delay: how long it had been delayed, in jiffies
 */
struct tcplat_late {
	u64 since;
	u32 delay;
};

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

/* On loopback a round trip is shorter than what a kernel takes for it now and then. */
#define TCPLAT_STALL_FLOOR_US	1000

/*
 * Whether data that came @ns after a late ACK may have waited for it, @rtt being
 * the kernel's estimate of a round trip, in us: half as long again, for queues.
 */
static __always_inline bool tcplat_stalled(u64 ns, u32 rtt)
{
	u64 most = (u64)rtt + rtt / 2 + TCPLAT_STALL_FLOOR_US;

	return ns <= most * NSEC_PER_USEC;
}

void tcplat_delack_stall(u32 delay);

#endif /* _TCPLAT_DELACK_H */
