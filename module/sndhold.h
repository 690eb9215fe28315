/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether the kernel is about to hold back the last segment of a send queue, and what a
 * hold that has ended was. Values in, values out: KUnit goes through all of them.
 */
#ifndef _TCPLAT_SNDHOLD_H
#define _TCPLAT_SNDHOLD_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/socket.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <net/tcp.h>

enum tcplat_hold {
	TCPLAT_HOLD_NONE,
	TCPLAT_HOLD_NAGLE,
	TCPLAT_HOLD_CORK,
};

/**
 * struct tcplat_push - what decides whether a push sends the last segment
 * @flags: of the write, MSG_*
 * @nonagle: the push's, TCP_NAGLE_*
 * @mss: bytes in a full segment
 * @len: bytes in the last buffer of the send queue, or in all of it if the push packs them into
 *	full segments
 * @end_seq: the end of that buffer
 * @wnd_end: the end of the peer's window
 * @snd_una: the first byte in flight
 * @snd_nxt: the first byte not sent yet
 * @snd_sml: the end of the last small segment sent
 * @snd_up: the end of the urgent data
 * @in_flight: segments in flight
 * @cwnd: segments that may be
 * @small_ahead: the buffer before the last does not end with a full segment
 * @fin: the buffer carries a FIN
 * @repair: the socket is being restored, and sends nothing
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
 * The congestion window or the peer's window ends before the partial segment. The kernel
 * checks both before Nagle's rule.
 */
static __always_inline bool tcplat_push_blocked(const struct tcplat_push *push, u32 partial)
{
	u32 ahead = push->end_seq - partial - push->snd_nxt;

	if (ahead)
		ahead /= push->mss;
	return push->in_flight + ahead >= push->cwnd || after(push->end_seq, push->wnd_end);
}

/* What is going to hold back the partial segment, once all before it has been sent. */
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

/* The held bytes that end at @end_seq have grown to full segments: this push sends them. */
static __always_inline bool tcplat_hold_outgrown(const struct tcplat_push *push, u32 end_seq)
{
	return !after(end_seq, push->end_seq - tcplat_push_partial(push));
}

/* The bytes that end at @end_seq are in the send queue and have not been sent. */
static __always_inline bool tcplat_hold_lasts(u32 end_seq, u32 snd_nxt, u32 write_seq)
{
	return after(end_seq, snd_nxt) && !after(end_seq, write_seq);
}

/**
 * struct tcplat_push_mark - what tells the segments that a push sends from later ones
 * @clock: the socket's time at the first of them, which the kernel sets once in each run
 *	that sends; 0 if none was sent yet
 * @write_seq: the end of what had been written
 * @delivered: what the peer had acknowledged
 * @softirq: MPTCP pushes in a softirq
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
 * Whether it is the marked push that is sending. If that sent nothing, what is sent later
 * is taken for its doing if no ACK came, nothing was written and the writer itself sends:
 * when it sets an option or releases a socket that a device made wait.
 */
static __always_inline bool tcplat_pushed(struct tcplat_push_mark *mark, const struct tcp_sock *tp)
{
	if (!mark->clock)
		mark->clock = tp->tcp_clock_cache;
	return mark->clock == tp->tcp_clock_cache && mark->write_seq == tp->write_seq &&
	       mark->delivered == tp->delivered && mark->softirq == !!in_serving_softirq();
}

/* A hold longer than a round trip by this much is the peer's doing. */
#define TCPLAT_PEER_DELAY_MIN_NS	(10 * NSEC_PER_MSEC)

/*
 * How much longer than a round trip of @rtt_us a hold by Nagle's rule lasted, in ns; 0 if
 * that is no more than a round trip may vary, if the kernel has not measured one (~0), or
 * if the small segment was lost.
 */
static __always_inline u64 tcplat_peer_delay(u64 ns, u32 rtt_us, bool retransmitted)
{
	u64 rtt = (u64)rtt_us * NSEC_PER_USEC;

	if (retransmitted || ns < rtt + TCPLAT_PEER_DELAY_MIN_NS)
		return 0;
	return ns - rtt;
}

/*
 * How many of the sockets with this hash have a hold. A segment of a socket without one
 * usually finds 0 here, and need not search the table.
 */
#define TCPLAT_HELD_BITS	12

extern atomic_t tcplat_held[1 << TCPLAT_HELD_BITS];

static __always_inline atomic_t *tcplat_held_of(const struct sock *sk)
{
	u64 key = (unsigned long)sk;

	return &tcplat_held[key * GOLDEN_RATIO_64 >> (64 - TCPLAT_HELD_BITS)];
}

static __always_inline bool tcplat_may_hold(const struct sock *sk)
{
	return atomic_read(tcplat_held_of(sk));
}

void tcplat_sndhold_sent(struct sock *sk, unsigned long segment, unsigned long clone_it);

#endif /* _TCPLAT_SNDHOLD_H */
