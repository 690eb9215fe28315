// SPDX-License-Identifier: GPL-2.0
/*
 * sndhold: data that waited in the send queue because of Nagle's algorithm, TCP_CORK or
 * MSG_MORE, and writes that autocorking delayed.
 *
 * A hold begins at the entry of tcp_push(): the handler makes the kernel's test on the values
 * that the kernel is about to use. It ends when a segment with the held bytes enters
 * __tcp_transmit_skb(). The socket is locked in both functions.
 *
 * The result of the test is valid if the push sends all data ahead of the held bytes. The push
 * may stop earlier: it may wait for room for a larger burst, pacing may delay it, or the device
 * queue may hold enough of the socket's packets. Data ahead of the held bytes is then sent after
 * the push, and the hold is dropped.
 */
#include <linux/atomic.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <net/tcp.h>

#include "sndhold.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

/*
 * Maximum number of concurrent holds; a socket has at most one. This is enough for 200,000
 * Nagle holds of 40 ms per second.
 */
#define HOLDS_AT_ONCE	8192

enum {
	HITS_PROBE,
	NAGLE,
	PEER_DELAYS = NAGLE + TCPLAT_TIMED_COUNTERS,
	PEER_DELAY_NS,
	CORK,
	CORK_TIMEOUTS = CORK + TCPLAT_TIMED_COUNTERS,
	AUTOCORK,
	BEGUN,
	PURGED,
	BLOCKED,
	STALE,
	FORGOTTEN,
	OVERFLOWS,
	NR_COUNTERS,
};

/**
 * struct hold - a hold in progress
 * @since: when the hold began, in ns
 * @end_seq: the end of the held bytes
 * @bytes: number of bytes held at the beginning
 * @retransmitted: the socket's count of retransmitted segments at the beginning
 * @cause: the cause of the hold, or TCPLAT_HOLD_NONE if there is no hold
 * @pid: the process that wrote the bytes, 0 if unknown
 * @comm: the name of the thread that wrote the bytes, or empty
 */
struct hold {
	u64 since;
	u32 end_seq;
	u32 bytes;
	u32 retransmitted;
	enum tcplat_hold cause;
	pid_t pid;
	char comm[TASK_COMM_LEN];
};

/**
 * struct record - a socket with a hold
 * @now: the hold
 * @next: the hold that the last push begins once it has sent the bytes of @now
 * @push: identifies the segments that the last push sends
 * @probe_clock: the socket's time when its probe timer last began to send, 0 if it did not
 */
struct record {
	struct hold now;
	struct hold next;
	struct tcplat_push_mark push;
	u64 probe_clock;
};

atomic_t tcplat_sndhold_held[1 << TCPLAT_HELD_BITS];

/* Sockets with a hold, with a struct record for each slot. */
static struct tcplat_socktab table = {
	.record = sizeof(struct record),
	.held = tcplat_sndhold_held,
};

static __always_inline struct record *record_of(const u64 *slot)
{
	return (struct record *)table.records + (slot - table.slots);
}

static __kprobes struct record *find_record(const struct sock *sk)
{
	u64 *slot, word;

	if (!tcplat_socktab_may_have(tcplat_sndhold_held, sk))
		return NULL;
	slot = tcplat_socktab_find(&table, tcplat_sock_key(sk), &word);
	return slot ? record_of(slot) : NULL;
}

static void __kprobes remove_record(const struct sock *sk)
{
	tcplat_socktab_remove(&table, tcplat_sock_key(sk));
}

/* Counts a hold whose bytes are being sent. */
static void __kprobes count_hold(struct sock *sk, const struct record *record)
{
	const struct hold *hold = &record->now;
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 ns = tcplat_ns_since(hold->since);
	u64 delay;

	if (hold->cause == TCPLAT_HOLD_NAGLE) {
		tcplat_count_timed(&tcplat_sndhold, NAGLE, ns);
		delay = tcplat_peer_delay(ns, tcp_min_rtt(tp),
					  tp->total_retrans != hold->retransmitted ||
					  tcplat_probes_loss(sk));
		if (delay) {
			tcplat_inc(&tcplat_sndhold, PEER_DELAYS);
			tcplat_add(&tcplat_sndhold, PEER_DELAY_NS, delay);
		}
	} else {
		tcplat_count_timed(&tcplat_sndhold, CORK, ns);
		if (tcplat_probing(record->probe_clock, tp))
			tcplat_inc(&tcplat_sndhold, CORK_TIMEOUTS);
	}
	trace_snd_hold(sk, hold->cause, ns, hold->bytes, hold->pid, hold->comm);
}

/* Removes a hold that did not end by being sent, and counts why. */
static void __kprobes drop_hold(const struct sock *sk, unsigned int counter)
{
	tcplat_inc(&tcplat_sndhold, counter);
	remove_record(sk);
}

static void __kprobes begin_hold(struct hold *hold, const struct sock *sk,
				 const struct tcplat_push *push, enum tcplat_hold cause)
{
	*hold = (struct hold){
		.since = ktime_get_mono_fast_ns(),
		.end_seq = push->end_seq,
		.bytes = tcplat_push_partial(push),
		.retransmitted = tcp_sk(sk)->total_retrans,
		.cause = cause,
	};
	/* MPTCP may also push in a softirq, where the current task is not the writer. */
	if (!in_serving_softirq()) {
		hold->pid = current->tgid;
		memcpy(hold->comm, current->comm, TASK_COMM_LEN);
	}
}

/* Start of the held bytes when the hold began. */
static __always_inline u32 start_of_hold(const struct hold *hold)
{
	return hold->end_seq - hold->bytes;
}

/* Whether the socket's hold continues at a later push. If not, drops the hold. */
static bool __kprobes hold_continues(const struct sock *sk, const struct hold *hold)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool lasts = tcplat_hold_lasts(hold->end_seq, tp->snd_nxt, tp->write_seq);

	if (lasts && !before(tp->snd_nxt, start_of_hold(hold)))
		return true;
	drop_hold(sk, lasts ? BLOCKED : STALE);
	return false;
}

/* Same test as tcp_should_autocork(), and as the kernel's test for counting it. */
static __always_inline bool push_autocorks(const struct sock *sk, const struct sk_buff *skb,
					   int size_goal)
{
	return skb->len < size_goal &&
	       READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_autocorking) &&
	       !tcp_rtx_queue_empty(sk) &&
	       refcount_read(&sk->sk_wmem_alloc) > skb->truesize &&
	       !tcplat_eor_prevents_autocork(skb) &&
	       !test_bit(TSQ_THROTTLED, &sk->sk_tsq_flags);
}

/*
 * The buffers that a push looks at, from the last one back. A queue is only longer if a device or
 * pacing holds it back; most of its buffers are then full.
 */
#define BUFFERS_MOST	8

/*
 * Adds up the segments of up to @most buffers before @skb, each of which ends with its own, unless
 * their bytes alone show that the partial segment is blocked.
 */
static void __kprobes look_ahead(struct tcplat_push *push, const struct sk_buff_head *queue,
				 const struct sk_buff *skb, unsigned int most)
{
	u32 start = TCP_SKB_CB(skb)->seq, partial = tcplat_push_partial(push), ahead = 0;

	if (!partial)
		return;
	push->ahead = (start - push->snd_nxt) / push->mss;
	if (tcplat_push_blocked(push, partial))
		return;
	for (; most && !skb_queue_is_first(queue, skb); most--) {
		skb = skb->prev;
		start = TCP_SKB_CB(skb)->seq;
		ahead += DIV_ROUND_UP(skb->len, push->mss);
		push->small_ahead |= skb->len % push->mss;
	}
	push->ahead = ahead + (start - push->snd_nxt) / push->mss;
}

static noinline void __kprobes check_push(struct sock *sk, int flags, int mss, int nonagle,
					  int size_goal)
{
	const struct sk_buff_head *queue = &sk->sk_write_queue;
	const struct sk_buff *skb = queue->prev, *first = skb;
	const struct tcp_sock *tp = tcp_sk(sk);
	unsigned int left = BUFFERS_MOST;
	struct tcplat_push push;
	enum tcplat_hold cause;
	struct record *record;
	u32 start;
	u64 *slot;

	if (skb == (const struct sk_buff *)queue)
		return;
	if (push_autocorks(sk, skb, size_goal))
		tcplat_inc_before_mib(&tcplat_sndhold, AUTOCORK);
	/* These become one buffer; if there are many, all do. */
	while (left && !skb_queue_is_first(queue, first) && tcplat_skb_grows(first->prev, first)) {
		first = first->prev;
		left--;
	}
	start = left ? TCP_SKB_CB(first)->seq : tp->snd_nxt;

	push = (struct tcplat_push){
		.flags = flags,
		.nonagle = nonagle,
		.mss = mss,
		.len = TCP_SKB_CB(skb)->end_seq - start,
		.end_seq = TCP_SKB_CB(skb)->end_seq,
		.wnd_end = tcp_wnd_end(tp),
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.snd_sml = tp->snd_sml,
		.snd_up = tp->snd_up,
		.in_flight = tcp_packets_in_flight(tp),
		.cwnd = tp->snd_cwnd,
		.fin = TCP_SKB_CB(skb)->tcp_flags & TCPHDR_FIN,
		.repair = tp->repair,
	};
	if (left)
		look_ahead(&push, queue, first, left);
	cause = tcplat_hold(&push);
	record = find_record(sk);
	/* The previous push has ended. */
	if (record)
		record->next.cause = TCPLAT_HOLD_NONE;
	if (cause == TCPLAT_HOLD_NONE)
		return;
	if (record && !hold_continues(sk, &record->now))
		record = NULL;
	if (record) {
		if (!tcplat_hold_outgrown(&push, record->now.end_seq))
			return;
		begin_hold(&record->next, sk, &push, cause);
	} else {
		slot = tcplat_socktab_insert(&table, tcplat_sock_key(sk));
		if (!slot) {
			tcplat_inc(&tcplat_sndhold, OVERFLOWS);
			return;
		}
		record = record_of(slot);
		begin_hold(&record->now, sk, &push, cause);
		record->next.cause = TCPLAT_HOLD_NONE;
		record->probe_clock = 0;
		tcplat_inc(&tcplat_sndhold, BEGUN);
	}
	record->push = tcplat_mark_push(tp);
}

/**
 * tcplat_sndhold_push() - handler at the entry of tcp_push()
 * @sk: the socket, locked
 * @flags: MSG_* flags of the write, an int
 * @mss: bytes in a full segment, an int
 * @nonagle: TCP_NAGLE_* flags of the push, an int
 * @size_goal: bytes that the kernel would like to have in a buffer, an int
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_sndhold_push(struct sock *sk, unsigned long flags, unsigned long mss,
				   unsigned long nonagle, unsigned long size_goal)
{
	if (tcplat_sndhold_looks(sk, flags, nonagle))
		check_push(sk, flags, mss, nonagle, size_goal);
}

/* Ends the hold. A segment that ends at @seg_end contains the last of the held bytes. */
static void __kprobes end_hold(struct sock *sk, struct record *record, bool pushed, u32 seg_end)
{
	const struct hold *next = &record->next;

	count_hold(sk, record);
	if (next->cause == TCPLAT_HOLD_NONE || !pushed ||
	    after(seg_end, start_of_hold(next))) {
		remove_record(sk);
		return;
	}
	record->now = *next;
	record->next.cause = TCPLAT_HOLD_NONE;
	tcplat_inc(&tcplat_sndhold, BEGUN);
}

/**
 * tcplat_sndhold_sent() - handler at the entry of __tcp_transmit_skb(): may end a hold
 * @sk: the socket, locked
 * @segment: the struct sk_buff that is about to be sent
 * @clone_it: an int, 0 for an ACK, which is not kept for retransmission
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_sndhold_sent(struct sock *sk, unsigned long segment, unsigned long clone_it)
{
	const struct tcp_skb_cb *cb = TCP_SKB_CB((struct sk_buff *)segment);
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct hold *now;
	struct record *record;
	bool pushed, ends;

	if (!(int)clone_it)
		return;
	record = find_record(sk);
	if (!record)
		return;
	now = &record->now;
	if (!tcplat_hold_lasts(now->end_seq, tp->snd_nxt, tp->write_seq)) {
		drop_hold(sk, STALE);
		return;
	}
	if (before(cb->seq, tp->snd_nxt))
		return;
	pushed = tcplat_pushed(&record->push, tp);
	ends = !before(cb->end_seq, now->end_seq);
	if (before(cb->seq, start_of_hold(now)) && (ends || !pushed))
		drop_hold(sk, BLOCKED);
	else if (ends)
		end_hold(sk, record, pushed, cb->end_seq);
}

/* Entry of tcp_send_probe0(sk), socket locked: the probe timer sends corked data, if it can. */
static void __kprobes probe_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	struct record *record = find_record(sk);

	tcplat_inc(&tcplat_sndhold, HITS_PROBE);
	if (record)
		record->probe_clock = tcp_sk(sk)->tcp_clock_cache;
}

/**
 * tcplat_sndhold_gone() - handler at the entries of tcp_disconnect() and tcp_v4_destroy_sock()
 * @sk: the socket, locked or without other users; it may be used again after tcp_disconnect()
 * @arg1: not used
 * @arg2: not used
 *
 * The held bytes are never sent, so their hold is not counted as ended.
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_sndhold_gone(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	if (!tcplat_stays_connected(sk) && find_record(sk))
		drop_hold(sk, PURGED);
}

static struct tcplat_probe sndhold_probes[] = {
	{
		.symbol = "tcp_push",
		.entry5 = tcplat_sndhold_push,
		.hot = TCPLAT_HOT_PUSH,
	},
	{
		.symbol = "__tcp_transmit_skb",
		.entry = tcplat_sndhold_sent,
		.hot = TCPLAT_HOT_SENT,
	},
	{
		.symbol = "tcp_send_probe0",
		.entry = probe_entry,
		.hits = HITS_PROBE,
	},
	{
		.symbol = "tcp_disconnect",
		.entry = tcplat_sndhold_gone,
		.hits = TCPLAT_NO_HITS,
	},
	{
		.symbol = "tcp_v4_destroy_sock",
		.entry = tcplat_sndhold_gone,
		.hot = TCPLAT_HOT_DESTROY,
	},
};

static const struct tcplat_file sndhold_files[] = {
	TCPLAT_TIMED_FILES("nagle", NAGLE),
	TCPLAT_SUM("peer_delays", PEER_DELAYS),
	TCPLAT_SUM("peer_delay_ns", PEER_DELAY_NS),
	TCPLAT_TIMED_FILES("cork", CORK),
	TCPLAT_SUM("cork_timeouts", CORK_TIMEOUTS),
	TCPLAT_SUM("autocork", AUTOCORK),
	TCPLAT_UNSEEN("autocork_unseen", AUTOCORK, LINUX_MIB_TCPAUTOCORKING),
	TCPLAT_SUM("overflows", OVERFLOWS),
};

static void holds_show(struct seq_file *seq)
{
	seq_puts(seq, "# begun = nagle + cork + purged + blocked + stale + forgotten + live\n");
	seq_printf(seq, "begun %llu\n", tcplat_sum(&tcplat_sndhold, BEGUN));
	seq_printf(seq, "nagle %llu\n", tcplat_sum(&tcplat_sndhold, NAGLE));
	seq_printf(seq, "cork %llu\n", tcplat_sum(&tcplat_sndhold, CORK));
	seq_printf(seq, "purged %llu\n", tcplat_sum(&tcplat_sndhold, PURGED));
	seq_printf(seq, "blocked %llu\n", tcplat_sum(&tcplat_sndhold, BLOCKED));
	seq_printf(seq, "stale %llu\n", tcplat_sum(&tcplat_sndhold, STALE));
	seq_printf(seq, "forgotten %llu\n", tcplat_sum(&tcplat_sndhold, FORGOTTEN));
	mutex_lock(&tcplat_control);
	seq_printf(seq, "live %llu\n", tcplat_socktab_count(&table, NULL));
	mutex_unlock(&tcplat_control);
}

static int sndhold_alloc(struct tcplat_group *group)
{
	return tcplat_socktab_alloc(&table, HOLDS_AT_ONCE);
}

/* Ends of holds are not seen while the group is off, so forget all holds. */
static void sndhold_stop(struct tcplat_group *group)
{
	tcplat_add(group, FORGOTTEN, tcplat_socktab_count(&table, NULL));
	tcplat_socktab_free(&table);
}

struct tcplat_group tcplat_sndhold = {
	TCPLAT_TABLES(sndhold),
	.debug = "holds",
	.debug_show = holds_show,
	.alloc = sndhold_alloc,
	.stop = sndhold_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/sndhold-kunit.h"
#endif
