/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Predicts whether the kernel will hold back the last segment of a send queue, and classifies
 * holds that have ended.
 */
#ifndef _TCPLAT_SNDHOLD_H
#define _TCPLAT_SNDHOLD_H

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/socket.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <net/tcp.h>

#include "compat.h"
#include "jiffies.h"
#include "socktab.h"

enum tcplat_hold {
	TCPLAT_HOLD_NONE,
	TCPLAT_HOLD_NAGLE,
	TCPLAT_HOLD_CORK,
};

/**
 * struct tcplat_push - the values that decide whether a push sends the last segment
 * @flags: MSG_* flags of the write
 * @nonagle: TCP_NAGLE_* flags of the push
 * @mss: bytes in a full segment
 * @len: bytes in the last buffer of the send queue, and in those before it that the push merges
 *	with it
 * @end_seq: the end of that buffer
 * @wnd_end: the end of the peer's window
 * @snd_una: the first byte in flight
 * @snd_nxt: the first byte not sent yet
 * @snd_sml: the end of the last small segment sent
 * @snd_up: the end of the urgent data
 * @in_flight: number of segments in flight
 * @cwnd: congestion window, in segments
 * @ahead: segments of the buffers before the last
 * @small_ahead: one of these segments is not full
 * @fin: the buffer carries a FIN
 * @repair: the socket is in repair mode and sends nothing
 */
struct tcplat_push {
	int flags;
	int nonagle;
	u32 mss;
	u32 len;
	u32 end_seq;
	u32 wnd_end;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_sml;
	u32 snd_up;
	u32 in_flight;
	u32 cwnd;
	u32 ahead;
	bool small_ahead;
	bool fin;
	bool repair;
};

/* Bytes in the last, partial segment; 0 if the last one is full. */
static __always_inline u32 tcplat_push_partial(const struct tcplat_push *push)
{
	if (push->len < push->mss)
		return push->len;
	return push->mss ? push->len % push->mss : 0;
}

/*
 * Whether the congestion window or the peer's window holds back the partial segment. The kernel
 * checks both before Nagle's algorithm.
 */
static __always_inline bool tcplat_push_blocked(const struct tcplat_push *push, u32 partial)
{
	u32 full = push->len - partial;

	if (full)
		full /= push->mss;
	return push->in_flight + push->ahead + full >= push->cwnd ||
	       after(push->end_seq, push->wnd_end);
}

/* What will hold back the partial segment once all data before it has been sent. */
static __always_inline enum tcplat_hold tcplat_hold(const struct tcplat_push *push)
{
	int nonagle = push->flags & MSG_MORE ? TCP_NAGLE_CORK : push->nonagle;
	u32 partial = tcplat_push_partial(push);

	if (!partial || nonagle & TCP_NAGLE_PUSH || push->fin || push->repair)
		return TCPLAT_HOLD_NONE;
	/* The push marks the data of MSG_OOB as urgent before it sends. */
	if (push->flags & MSG_OOB || push->snd_una != push->snd_up)
		return TCPLAT_HOLD_NONE;
	if (tcplat_push_blocked(push, partial))
		return TCPLAT_HOLD_NONE;
	if (nonagle & TCP_NAGLE_CORK)
		return TCPLAT_HOLD_CORK;
	if (nonagle)
		return TCPLAT_HOLD_NONE;
	if (push->small_ahead ||
	    (after(push->snd_sml, push->snd_una) && !after(push->snd_sml, push->snd_nxt)))
		return TCPLAT_HOLD_NAGLE;
	return TCPLAT_HOLD_NONE;
}

/* Whether the held bytes that end at @end_seq are now in full segments, which this push sends. */
static __always_inline bool tcplat_hold_outgrown(const struct tcplat_push *push, u32 end_seq)
{
	return !after(end_seq, push->end_seq - tcplat_push_partial(push));
}

/* Whether the bytes that end at @end_seq are in the send queue and have not been sent. */
static __always_inline bool tcplat_hold_lasts(u32 end_seq, u32 snd_nxt, u32 write_seq)
{
	return after(end_seq, snd_nxt) && !after(end_seq, write_seq);
}

/**
 * struct tcplat_push_mark - distinguishes the segments that a push sends from later ones
 * @clock: the socket's time at the first of these segments, which the kernel sets once per run
 *	that sends; 0 if none was sent yet
 * @write_seq: end of the data written
 * @delivered: number of packets delivered to the peer
 * @softirq: the push runs in a softirq, as MPTCP's may
 */
struct tcplat_push_mark {
	u64 clock;
	u32 write_seq;
	u32 delivered;
	bool softirq;
};

static __always_inline struct tcplat_push_mark tcplat_mark_push(const struct tcp_sock *tp)
{
	return (struct tcplat_push_mark){
		.write_seq = tp->write_seq,
		.delivered = tp->delivered,
		.softirq = in_serving_softirq(),
	};
}

/*
 * Whether the marked push is sending. If it sent nothing, a later segment is attributed to it if
 * no ACK was received, nothing was written, and the writer itself is sending: this happens when
 * it sets an option, or releases a socket whose output a device queue had delayed.
 */
static __always_inline bool tcplat_pushed(struct tcplat_push_mark *mark, const struct tcp_sock *tp)
{
	if (!mark->clock)
		mark->clock = tp->tcp_clock_cache;
	return mark->clock == tp->tcp_clock_cache && mark->write_seq == tp->write_seq &&
	       mark->delivered == tp->delivered && mark->softirq == !!in_serving_softirq();
}

/*
 * Whether the probe timer, which began to send at @probe_clock of the socket's clock, is sending.
 * The kernel sets the clock before it calls the timer's handler, and again for each ACK and write.
 * The state of the timer would not do: an ACK also clears it before it sends.
 */
static __always_inline bool tcplat_probing(u64 probe_clock, const struct tcp_sock *tp)
{
	return probe_clock && probe_clock == tp->tcp_clock_cache;
}

/*
 * Whether a tail loss probe is being sent, which may be new data that was held: the small segment
 * was lost, but will be sent again later. The timer is put off while a process writes.
 */
static __always_inline bool tcplat_probes_loss(const struct sock *sk)
{
	return inet_csk(sk)->icsk_pending == ICSK_TIME_LOSS_PROBE &&
	       !time_after(tcplat_rto_timeout(sk), jiffies) &&
	       !test_bit(TCP_WRITE_TIMER_DEFERRED, &sk->sk_tsq_flags);
}

/*
 * By how many ns a hold by Nagle's algorithm exceeded a round trip of @rtt_us, which is the peer's
 * part; 0 if that is not late, if the kernel has not measured a round trip (~0), or if the small
 * segment was lost.
 */
static __always_inline u64 tcplat_peer_delay(u64 ns, u32 rtt_us, bool retransmitted)
{
	u64 rtt = (u64)rtt_us * NSEC_PER_USEC;

	if (retransmitted || ns < rtt + TCPLAT_LATE_NS)
		return 0;
	return ns - rtt;
}

/* Counts of sockets with a hold, by hash. */
extern atomic_t tcplat_sndhold_held[1 << TCPLAT_HELD_BITS];

/*
 * Whether a push may be held back. With nothing in flight and only one buffer queued, only
 * TCP_CORK or MSG_MORE can hold it back.
 */
static __always_inline bool tcplat_sndhold_looks(const struct sock *sk, int flags, int nonagle)
{
	const struct sk_buff_head *queue = &sk->sk_write_queue;

	return tcp_sk(sk)->packets_out || flags & MSG_MORE || nonagle & TCP_NAGLE_CORK ||
	       queue->next != queue->prev;
}

void tcplat_sndhold_gone(struct sock *sk, unsigned long arg1, unsigned long arg2);
void tcplat_sndhold_sent(struct sock *sk, unsigned long segment, unsigned long clone_it);
void tcplat_sndhold_push(struct sock *sk, unsigned long flags, unsigned long mss,
			 unsigned long nonagle, unsigned long size_goal);

#endif /* _TCPLAT_SNDHOLD_H */
