/* SPDX-License-Identifier: GPL-2.0 */
/* Predicts what the delayed-ACK timer is about to do. */
#ifndef _TCPLAT_DELACK_H
#define _TCPLAT_DELACK_H

#include <linux/jiffies.h>
#include <net/mptcp.h>
#include <net/tcp.h>

#include "compat.h"
#include "jiffies.h"
#include "stalls.h"

/*
 * Whether tcp_delack_timer_handler(), which is about to run with the socket's lock held, will
 * send an ACK and count it in LINUX_MIB_DELAYEDACKS. The handler reads jiffies again. The timer
 * does not run early, but tcp_release_cb() calls the handler at any time after an expiry that it
 * deferred, when the timer may have been set again: a tick between the two reads that is just this
 * new expiry makes the prediction wrong.
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
 * Whether a FIN is all that is to be acknowledged. It takes a sequence number and gets a delayed
 * ACK like data, but the kernel does not store its time.
 */
static __always_inline bool tcplat_owes_only_fin(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DONE) && tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->rcv_wup == 1;
}

/* Whether nothing is to be acknowledged: MPTCP repeats a subflow's third ACK by this timer. */
static __always_inline bool tcplat_owes_nothing(const struct sock *sk)
{
	return sk_is_mptcp(sk) && tcp_sk(sk)->rcv_nxt == tcp_sk(sk)->rcv_wup;
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

/*
 * Whether data is waiting that a program could have read: the late ACK is then no stall, since
 * the program does not miss the data that the peer holds back. A program that asked with
 * SO_RCVLOWAT to be woken up for more data is not behind.
 */
static __always_inline bool tcplat_delack_unread(struct sock *sk)
{
	return tcp_inq(sk) >= READ_ONCE(sk->sk_rcvlowat);
}

/* Whether tcplat_delack_received() has anything to do. */
static __always_inline bool tcplat_delack_looks(const struct sock *sk)
{
	return tcplat_delack_owes(sk) || tcplat_is_late(sk);
}

void tcplat_delack_received(struct sock *sk, unsigned long arg1, unsigned long arg2);

#endif /* _TCPLAT_DELACK_H */
