// SPDX-License-Identifier: GPL-2.0
/*
 * answer: answers that came 10 ms or more after the data before them, by whose they were: a
 * program's on this host, or the peer's.
 */
#include <net/tcp.h>

#include "answer.h"
#include "delack.h"
#include "jiffies.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

/* The counters of a kind of answer begin at index kind * TCPLAT_TIMED_COUNTERS. */
#define ANSWER(kind)	(TCPLAT_ANSWER_##kind * TCPLAT_TIMED_COUNTERS)

enum {
	NR_COUNTERS = 2 * TCPLAT_TIMED_COUNTERS,
};

/*
 * The last late answers of programs: rcv_nxt below part of the socket's hash. What a cork, Nagle's
 * algorithm or the window holds back may be written in many pieces before anything is sent. Two
 * sockets that take turns in one place count such pieces.
 */
#define LAST_BITS	8

static u64 last_answers[1 << LAST_BITS];

static bool __kprobes is_counted(const struct sock *sk)
{
	u64 hash = tcplat_sock_hash(sk);
	u64 *last = &last_answers[hash >> (64 - LAST_BITS)];
	u64 word = (hash & ~(u64)U32_MAX) | tcp_sk(sk)->rcv_nxt;

	if (READ_ONCE(*last) == word)
		return true;
	WRITE_ONCE(*last, word);
	return false;
}

static void __kprobes count_answer(struct sock *sk, enum tcplat_answer kind, u64 ns)
{
	if (ns < TCPLAT_LATE_NS || (kind == TCPLAT_ANSWER_OWN && is_counted(sk)))
		return;
	tcplat_count_timed(&tcplat_answer, kind * TCPLAT_TIMED_COUNTERS, ns);
	trace_late_answer(sk, kind, ns);
}

static __always_inline struct tcplat_exchange exchange_of(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 now = tcp_jiffies32;

	/* A FIN counts as a byte and has its ACK scheduled, but is no data to answer. */
	return (struct tcplat_exchange){
		.received = tp->bytes_received > sock_flag(sk, SOCK_DONE),
		.ack_scheduled = inet_csk_ack_scheduled(sk) && !tcplat_owes_only_fin(sk),
		.received_ago = tcplat_jiffies32_since(now, inet_csk(sk)->icsk_ack.lrcvtime),
		.sent_ago = tcplat_jiffies32_since(now, tp->lsndtime),
		.in_flight = tp->packets_out,
		.data_segs_out = tp->data_segs_out,
		/* snd_wl1: where the last segment began that was more than a repetition. */
		.data_last = (s32)(tp->rcv_nxt - tp->snd_wl1) > sock_flag(sk, SOCK_DONE),
		.sent_us = div_u64(tp->tcp_wstamp_ns, NSEC_PER_USEC),
		.acked_us = tp->rack.mstamp,
		.fin_sent = sk->sk_shutdown & SEND_SHUTDOWN,
	};
}

/**
 * tcplat_answer_push() - handler at the entry of tcp_push() and tcp_push_one(): a program writes
 * @sk: the socket, locked
 * @arg1: not used
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_answer_push(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	struct tcplat_exchange exchange;
	u64 ns;

	if (!tcplat_answer_looks_at_push(sk))
		return;
	/* MPTCP pushes for an ACK or from its worker, too: then no program writes. */
	if (sk_is_mptcp(sk) && (in_serving_softirq() || current->flags & PF_KTHREAD))
		return;
	exchange = exchange_of(sk);
	if (!tcplat_is_answer(exchange))
		return;
	/*
	 * While an ACK is scheduled, tcp_mstamp is when data came, or when it was read. After that,
	 * the last segment is the ACK, which was sent at once, or later.
	 */
	ns = tcplat_us_to_ns_since(tcplat_now_us(), exchange.ack_scheduled ?
				   tcp_sk(sk)->tcp_mstamp : exchange.sent_us);
	count_answer(sk, TCPLAT_ANSWER_OWN, tcplat_answer_time(ns, exchange.received_ago));
}

/**
 * tcplat_answer_received() - handler at the entry of tcp_event_data_recv(): data was received
 * @sk: the socket, locked
 * @arg1: not used
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_answer_received(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct tcplat_exchange exchange;
	u64 ns;

	if (!tcplat_answer_looks_at_received(sk))
		return;
	exchange = exchange_of(sk);
	if (!tcplat_is_answered(exchange))
		return;
	ns = tcplat_us_to_ns_since(tp->tcp_mstamp, exchange.sent_us);
	ns = tcplat_answer_time(ns, exchange.sent_ago);
	count_answer(sk, TCPLAT_ANSWER_PEER, tcplat_beyond_rtt(ns, tcp_min_rtt(tp)));
}

static struct tcplat_probe answer_probes[] = {
	{
		.symbol = "tcp_push",
		.entry = tcplat_answer_push,
		.hot = TCPLAT_HOT_PUSH,
	},
	{
		/* A write of more than a segment offload holds sends the first part here. */
		.symbol = "tcp_push_one",
		.entry = tcplat_answer_push,
		.hits = TCPLAT_NO_HITS,
	},
	{
		.symbol = "tcp_event_data_recv",
		.entry = tcplat_answer_received,
		.hot = TCPLAT_HOT_RECEIVED,
	},
};

static const struct tcplat_file answer_files[] = {
	TCPLAT_TIMED_FILES("own", ANSWER(OWN)),
	TCPLAT_TIMED_FILES("peer", ANSWER(PEER)),
};

struct tcplat_group tcplat_answer = {
	TCPLAT_TABLES(answer),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/answer-kunit.h"
#endif
