// SPDX-License-Identifier: GPL-2.0
/*
 * loss: segments that were sent again because their ACKs did not come, and how long ago they had
 * been sent before.
 */
#include <linux/jiffies.h>
#include <net/tcp.h>

#include "jiffies.h"
#include "loss.h"
#include "tcplat.h"
#include "trace.h"

/* The counters of a kind of loss begin at index kind * TCPLAT_TIMED_COUNTERS. */
#define LOSS(kind)	(TCPLAT_LOSS_##kind * TCPLAT_TIMED_COUNTERS)

enum {
	RTO_LATE_JIFFIES = LOSS(NONE),
	HITS_TIMER,
	HITS_PROBE,
	NR_COUNTERS,
};

/* Nanoseconds since @skb was last sent. The kernel has just set tcp_mstamp to the current time. */
static u64 __kprobes sent_ago(const struct tcp_sock *tp, const struct sk_buff *skb)
{
	return skb ? tcplat_us_to_ns_since(tp->tcp_mstamp, tcp_skb_timestamp_us(skb)) : 0;
}

static void __kprobes count_loss(struct sock *sk, enum tcplat_loss kind, u64 ns, u32 late)
{
	tcplat_count_timed(&tcplat_loss, kind * TCPLAT_TIMED_COUNTERS, ns);
	trace_loss(sk, kind, ns, late);
}

/*
 * Entry of tcp_retransmit_timer(sk), socket locked, called by the timer, or when an ICMP error
 * shortens the timer's delay.
 */
static void __kprobes timer_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	unsigned long now = jiffies, expiry = tcplat_rto_timeout(sk);
	enum tcplat_loss kind = tcplat_rto_loss(sk);
	const struct sk_buff *head = tcp_rtx_queue_head(sk);
	bool sent = head && TCP_SKB_CB(head)->sacked & TCPCB_SACKED_RETRANS;
	u32 late = 0, rto = icsk->icsk_rto;
	/* Only at an ICMP error is the timer still set; its last backoff has been undone. */
	bool icmp = icsk->icsk_pending;
	u64 ns;

	tcplat_inc(&tcplat_loss, HITS_TIMER);
	if (kind == TCPLAT_LOSS_NONE)
		return;
	if (kind == TCPLAT_LOSS_RTO) {
		late = tcplat_rto_late(now, expiry);
		tcplat_add(&tcplat_loss, RTO_LATE_JIFFIES, late);
	}
	ns = sent_ago(tcp_sk(sk), head);
	if (icmp)
		rto = min(2 * rto, tcplat_rto_max(sk));
	rto = tcplat_rto_set(rto, icsk->icsk_backoff + icmp, icsk->icsk_retransmits,
			     msecs_to_jiffies(READ_ONCE(icsk->icsk_user_timeout)));
	ns = tcplat_rto_ns(ns, icsk->icsk_retransmits && !sent, now - expiry, rto);
	count_loss(sk, kind, ns, late);
}

/**
 * struct probe - a call of tcp_send_loss_probe()
 * @sk: the socket
 * @ns: time since the last segment in flight was sent
 * @snd_nxt: what would be sent next
 * @unacked: an earlier probe is not acknowledged
 */
struct probe {
	struct sock *sk;
	u64 ns;
	u32 snd_nxt;
	bool unacked;
};

/* Entry of tcp_send_loss_probe(sk), socket locked. It may send no probe. */
static int __kprobes probe_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct probe *probe = (struct probe *)ri->data;
	struct sock *sk = (struct sock *)tcplat_arg(regs, 0);
	const struct tcp_sock *tp = tcp_sk(sk);

	tcplat_inc(&tcplat_loss, HITS_PROBE);
	*probe = (struct probe){
		.sk = sk,
		.ns = sent_ago(tp, skb_rb_last(&sk->tcp_rtx_queue)),
		.snd_nxt = tp->snd_nxt,
		.unacked = tp->tlp_high_seq,
	};
	return 0;
}

/*
 * A probe has new data, or sets tlp_high_seq; Enterprise Linux 8 does not set it with new data, of
 * which it may send more while a probe is not acknowledged.
 */
static int __kprobes probe_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct probe *probe = (const struct probe *)ri->data;
	const struct tcp_sock *tp = tcp_sk(probe->sk);

	if (tp->snd_nxt != probe->snd_nxt || (tp->tlp_high_seq && !probe->unacked))
		count_loss(probe->sk, TCPLAT_LOSS_TLP, probe->ns, 0);
	return 0;
}

/* Entry of tcp_enter_recovery(sk, ece_ack), socket locked; the first segment is missing. */
static void __kprobes recovery_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	count_loss(sk, TCPLAT_LOSS_FAST, sent_ago(tcp_sk(sk), tcp_rtx_queue_head(sk)), 0);
}

/*
 * When the timer of the last SYN-ACK expires: that of @req, or with TCP Fast Open that of the child
 * @sk. For another SYN the kernel leaves the child's as it is, and only stores in @req when it
 * would expire; num_retrans, but not num_timeout, then counts the SYN-ACK.
 */
static __always_inline unsigned long synack_expiry(struct sock *sk, struct request_sock *req,
						   bool is_child)
{
	unsigned long expiry = req->rsk_timer.expires, timer;

	if (!is_child)
		return expiry;
	timer = tcplat_rto_timeout(sk);
	return req->num_retrans > req->num_timeout && time_after(expiry, timer) ? expiry : timer;
}

/*
 * Entry of tcp_rtx_synack(sk, req), called by the timer of the request, with TCP Fast Open by
 * that of its child @sk, or for another SYN. Nothing is locked, but only one CPU handles a
 * request's timer, and SYNs of one client rarely come at the same time.
 */
static void __kprobes synack_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	struct request_sock *req = (struct request_sock *)arg1;
	bool is_child = sk->sk_state != TCP_LISTEN;
	u64 first = tcp_rsk(req)->snt_synack;
	/* 0 if there was no memory for the first one: then only the timer tells. */
	u64 first_ns = first ? tcplat_us_to_ns_since(tcplat_now_us(), first) : U64_MAX;
	/*
	 * With TCP_DEFER_ACCEPT a client that has answered, and sent no data, waits for nothing. A
	 * full accept queue drops answers, too.
	 */
	bool waits = !inet_rsk(req)->acked || sk_acceptq_is_full(sk) ||
		     !READ_ONCE(inet_csk(sk)->icsk_accept_queue.rskq_defer_accept);
	/* A child has taken the request's cookie, and its timer goes on if nothing can be sent. */
	bool again = req->num_retrans || !first || (is_child && req->num_timeout);

	count_loss(is_child ? sk : req_to_sk(req), TCPLAT_LOSS_SYNACK, !waits ? 0 :
		   tcplat_synack_ns(first_ns, again, jiffies,
				    synack_expiry(sk, req, is_child),
				    tcplat_synack_timeout(req)), 0);
}

static struct tcplat_probe loss_probes[] = {
	{
		.symbol = "tcp_retransmit_timer",
		.entry = timer_entry,
		.hits = HITS_TIMER,
	},
	{
		.symbol = "tcp_send_loss_probe",
		.entry_ret = probe_entry,
		.ret = probe_return,
		.data_size = sizeof(struct probe),
		.hits = HITS_PROBE,
	},
	{
		.symbol = "tcp_enter_recovery",
		.entry = recovery_entry,
		.hits = LOSS(FAST),
	},
	{
		.symbol = "tcp_rtx_synack",
		.entry = synack_entry,
		.hits = LOSS(SYNACK),
	},
};

static const struct tcplat_file loss_files[] = {
	TCPLAT_TIMED_FILES("rto", LOSS(RTO)),
	TCPLAT_SUM("rto_late_jiffies", RTO_LATE_JIFFIES),
	TCPLAT_JIFFIES_US("rto_late_us", RTO_LATE_JIFFIES),
	TCPLAT_TIMED_FILES("tlp", LOSS(TLP)),
	TCPLAT_TIMED_FILES("fast", LOSS(FAST)),
	TCPLAT_TIMED_FILES("syn", LOSS(SYN)),
	TCPLAT_TIMED_FILES("synack", LOSS(SYNACK)),
};

struct tcplat_group tcplat_loss = {
	TCPLAT_TABLES(loss),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/loss-kunit.h"
#endif
