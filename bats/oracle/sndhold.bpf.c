// SPDX-License-Identifier: GPL-2.0
/*
 * Watches data that a push leaves in the send queue, as an oracle for the module's group sndhold.
 * The module predicts at the entry of tcp_push() which data will be held; this program reads
 * which data is left when tcp_push() has returned.
 */
#include "kernel.bpf.h"
#include "sndhold.h"

#define MSG_MORE	0x8000
#define CORKED		2

ONE(totals, ARRAY, struct totals);

struct hold {
	__u64 since;
	__u32 end_seq;
	__u32 retrans;
	__u32 cause;
	__u32 pad;
};

BY_ADDRESS(holds, HASH, 65536, struct hold);

/*
 * When the push of a socket began. A hold counts from there, as in the module: on a busy machine a
 * push may take longer than the difference that tests allow.
 */
BY_ADDRESS(pushing, HASH, 65536, __u64);

/* The socket whose probe timer is sending on this CPU. */
ONE(in_probe, PERCPU_ARRAY, __u64);
/* The same for a tail loss probe. */
ONE(in_loss_probe, PERCPU_ARRAY, __u64);

SEC("fentry/tcp_push")
int BPF_PROG(push, struct sock *sk)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 key = (__u64)sk, now = bpf_ktime_get_ns();

	if (t && bpf_map_update_elem(&pushing, &key, &now, BPF_ANY))
		add(t->errors, 1);
	return 0;
}

SEC("fexit/tcp_push")
int BPF_PROG(pushed, struct sock *sk, int flags, int mss, int nonagle, int size_goal)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct tcp_sock *tp = (void *)sk;
	__u64 key = (__u64)sk;
	__u64 *began = bpf_map_lookup_elem(&pushing, &key);
	struct hold hold = { 0 };
	__u32 end, una, nxt, sml, left;

	/* The push began before this program was attached, or an interrupt hid its beginning. */
	if (!t || !began)
		return 0;
	hold.since = *began;
	bpf_map_delete_elem(&pushing, &key);
	end = BPF_CORE_READ(tp, write_seq);
	nxt = BPF_CORE_READ(tp, snd_nxt);
	una = BPF_CORE_READ(tp, snd_una);
	sml = BPF_CORE_READ(tp, snd_sml);
	left = end - nxt;
	if (!left || bpf_map_lookup_elem(&holds, &key))
		return 0;
	if (flags & MSG_MORE || nonagle & CORKED) {
		hold.cause = CORK;
	} else if (!nonagle && before(una, sml) && !before(nxt, sml)) {
		hold.cause = NAGLE;
	} else {
		add(t->left, 1);
		return 0;
	}
	if (left >= (__u32)mss ||
	    BPF_CORE_READ(tp, packets_out) + BPF_CORE_READ(tp, retrans_out) -
	    BPF_CORE_READ(tp, sacked_out) - BPF_CORE_READ(tp, lost_out) >=
	    BPF_CORE_READ(tp, snd_cwnd) ||
	    before(una + BPF_CORE_READ(tp, snd_wnd), end)) {
		add(t->left, 1);
		return 0;
	}
	hold.end_seq = end;
	hold.retrans = BPF_CORE_READ(tp, total_retrans);
	if (bpf_map_update_elem(&holds, &key, &hold, BPF_ANY))
		add(t->errors, 1);
	return 0;
}

SEC("fentry/__tcp_transmit_skb")
int BPF_PROG(transmit, struct sock *sk, struct sk_buff *skb, int clone_it)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct tcp_skb_cb *cb;
	struct tcp_sock *tp = (void *)sk;
	__u64 key = (__u64)sk, ns, rtt;
	struct hold *hold;
	__u64 *probing;
	__u32 cause;

	if (!clone_it || !t)
		return 0;
	hold = bpf_map_lookup_elem(&holds, &key);
	if (!hold)
		return 0;
	cb = (void *)__builtin_preserve_access_index(&skb->cb);
	if (before(BPF_CORE_READ(cb, end_seq), hold->end_seq))
		return 0;
	ns = bpf_ktime_get_ns() - hold->since;
	cause = hold->cause;
	if (cause >= CAUSES)
		return 0;
	add(t->holds[cause], 1);
	add(t->time[cause], ns);
	if (ns > t->longest[cause])
		t->longest[cause] = ns;
	if (cause == CORK) {
		probing = bpf_map_lookup_elem(&in_probe, &zero);
		if (probing && *probing == key)
			add(t->timeouts, 1);
	} else {
		rtt = BPF_CORE_READ(tp, rtt_min.s[0].v) * 1000ULL;
		probing = bpf_map_lookup_elem(&in_loss_probe, &zero);
		if (BPF_CORE_READ(tp, total_retrans) == hold->retrans && ns >= rtt + 10000000 &&
		    probing && *probing != key) {
			add(t->peer_delays, 1);
			add(t->peer_delay, ns - rtt);
		}
	}
	bpf_map_delete_elem(&holds, &key);
	return 0;
}

/* Note in @map which socket's timer is sending on this CPU, NULL: none. */
static __always_inline int note(void *map, struct sock *sk)
{
	__u64 *probing = bpf_map_lookup_elem(map, &zero);

	if (probing)
		*probing = (__u64)sk;
	return 0;
}

SEC("fentry/tcp_send_probe0")
int BPF_PROG(probe, struct sock *sk)
{
	return note(&in_probe, sk);
}

SEC("fexit/tcp_send_probe0")
int BPF_PROG(probe_end)
{
	return note(&in_probe, NULL);
}

SEC("fentry/tcp_send_loss_probe")
int BPF_PROG(loss_probe, struct sock *sk)
{
	return note(&in_loss_probe, sk);
}

SEC("fexit/tcp_send_loss_probe")
int BPF_PROG(loss_probe_end)
{
	return note(&in_loss_probe, NULL);
}

SEC("fentry/tcp_write_queue_purge")
int BPF_PROG(purge, struct sock *sk)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 key = (__u64)sk;

	if (t && !bpf_map_delete_elem(&holds, &key))
		add(t->purged, 1);
	return 0;
}
