/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel is about to send again, and how long ago it was sent. */
#ifndef _TCPLAT_LOSS_H
#define _TCPLAT_LOSS_H

#include <net/tcp.h>

/* How a loss was found: values of the field kind of the tracepoint loss. */
enum tcplat_loss {
	TCPLAT_LOSS_RTO,	/* the retransmission timer, after the handshake */
	TCPLAT_LOSS_TLP,	/* a tail loss probe */
	TCPLAT_LOSS_FAST,	/* duplicate ACKs, SACKs or RACK */
	TCPLAT_LOSS_SYN,	/* the retransmission timer, before the SYN was acknowledged */
	TCPLAT_LOSS_SYNACK,	/* the timer of a connection request, or another SYN */
	TCPLAT_LOSS_NONE,
};

/*
 * The loss that tcp_retransmit_timer() is about to count in LINUX_MIB_TCPTIMEOUTS. The timer of a
 * child of a request with TCP Fast Open is that of the SYN-ACK. If the peer's window is 0, the
 * retransmission is a probe of the window, unless no process has the socket open any more.
 */
static __always_inline enum tcplat_loss tcplat_rto_loss(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (rcu_access_pointer(tp->fastopen_rsk) || !tp->packets_out)
		return TCPLAT_LOSS_NONE;
	if (sk->sk_state == TCP_SYN_SENT || sk->sk_state == TCP_SYN_RECV)
		return TCPLAT_LOSS_SYN;
	return tp->snd_wnd || sock_flag(sk, SOCK_DEAD) ? TCPLAT_LOSS_RTO : TCPLAT_LOSS_NONE;
}

/* Jiffies from @expiry to @now; 0 if the kernel did not wait for the timer, as after ICMP. */
static __always_inline u32 tcplat_rto_late(unsigned long now, unsigned long expiry)
{
	return (long)(now - expiry) > 0 ? now - expiry : 0;
}

/*
 * The jiffies to which the timer was set when nothing could be sent: @rto, but the kernel lets it
 * expire when @limit, TCP_USER_TIMEOUT, is over; 0 is none. Of the @retransmits timers before it,
 * @backoff were half as long, a quarter, and so on; those before them, of SYNs with linear timeouts
 * and of thin streams, as long as the first of these.
 */
static __always_inline u32 tcplat_rto_set(u32 rto, unsigned int backoff, unsigned int retransmits,
					  unsigned long limit)
{
	unsigned long first = rto >> min(backoff, 31U), before = rto - first;

	if (retransmits > backoff)
		before += (retransmits - backoff) * first;
	if (!limit)
		return rto;
	return limit > before ? min_t(unsigned long, rto, limit - before) : 1;
}

/*
 * The time to count for the retransmission timer, which was due @late jiffies ago: @ns, since the
 * segment was last sent. If the timer @failed before, since nothing could be sent, it was set to
 * @rto jiffies then, and the time until then has been counted; or if a queue of this host dropped
 * what was sent, to TCP_RESOURCE_PROBE_INTERVAL.
 */
static __always_inline u64 tcplat_rto_ns(u64 ns, bool failed, u32 late, u32 rto)
{
	u64 set = (u64)(late + rto) * TICK_NSEC;
	u64 dropped = (u64)(late + TCP_RESOURCE_PROBE_INTERVAL) * TICK_NSEC;

	/* All are exact to a jiffy. */
	if (!failed || ns <= set + 2 * TICK_NSEC ||
	    (ns + 2 * TICK_NSEC >= dropped && ns <= dropped + 2 * TICK_NSEC))
		return ns;
	return set;
}

/*
 * Nanoseconds since a SYN-ACK was last sent. The kernel only stores when it was sent first,
 * @first_ns ago, and each time @expiry, which is @timeout jiffies later.
 */
static __always_inline u64 tcplat_synack_ns(u64 first_ns, bool again, unsigned long now,
					    unsigned long expiry, unsigned long timeout)
{
	u64 ns = (u64)tcplat_rto_late(now, expiry - timeout) * TICK_NSEC;

	return again && ns < first_ns ? ns : first_ns;
}

#endif /* _TCPLAT_LOSS_H */
