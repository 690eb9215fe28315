/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the delayed-ACK timer is about to do.
 */
#ifndef _TCPLAT_DELACK_H
#define _TCPLAT_DELACK_H

#include <linux/jiffies.h>
#include <net/tcp.h>

#include "compat.h"

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

#endif /* _TCPLAT_DELACK_H */
