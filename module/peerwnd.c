// SPDX-License-Identifier: GPL-2.0
/* peerwnd: data that waited for the peer to open its window, and probes of closed windows. */
#include <net/tcp.h>

#include "jiffies.h"
#include "peerwnd.h"
#include "tcplat.h"
#include "trace.h"

enum {
	WAIT,
	PROBES = WAIT + TCPLAT_TIMED_COUNTERS,
	NR_COUNTERS,
};

/**
 * tcplat_peerwnd_sent() - handler at the entry of __tcp_transmit_skb(): may end a wait
 * @sk: the socket, locked
 * @segment: the struct sk_buff that is about to be sent
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_peerwnd_sent(struct sock *sk, unsigned long segment, unsigned long arg2)
{
	const struct sk_buff *skb = (const struct sk_buff *)segment;
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 ticks;
	u64 ns;

	/* Neither an ACK nor a segment that is sent again. */
	if (!tcplat_peerwnd_looks_at_sent(sk) || !skb->len ||
	    TCP_SKB_CB(skb)->seq != tp->snd_nxt)
		return;
	ticks = tcplat_peerwnd_wait(tcp_jiffies32, tp->chrono_start, tp->lsndtime);
	if (!ticks)
		return;
	ns = tcplat_jiffies_to_ns(ticks);
	tcplat_count_timed(&tcplat_peerwnd, WAIT, ns);
	trace_window_wait(sk, ns);
}

/* Entry of tcp_send_probe0(sk), socket locked, called by the timer. */
static void __kprobes probe_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct sk_buff *head = tcp_send_head(sk);

	if (tcplat_peerwnd_probes(sk->sk_state, head, head ? TCP_SKB_CB(head)->seq : 0,
				  tcp_wnd_end(tcp_sk(sk))))
		tcplat_inc(&tcplat_peerwnd, PROBES);
}

static struct tcplat_probe peerwnd_probes[] = {
	{
		.symbol = "__tcp_transmit_skb",
		.entry = tcplat_peerwnd_sent,
		.hot = TCPLAT_HOT_SENT,
	},
	{
		.symbol = "tcp_send_probe0",
		.entry = probe_entry,
		.hits = PROBES,
	},
};

static const struct tcplat_file peerwnd_files[] = {
	TCPLAT_TIMED_FILES("wait", WAIT),
	TCPLAT_SUM("probes", PROBES),
};

struct tcplat_group tcplat_peerwnd = {
	TCPLAT_TABLES(peerwnd),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/peerwnd-kunit.h"
#endif
