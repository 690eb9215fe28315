// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the same as tcplat with BPF, as cheaply as possible; `make bench` compares tcplat with
 * it. It uses tcplat's definitions and probes the same functions, but for those of the groups
 * loss, idlerestart and bindsearch, which no call that is measured reaches. One program serves
 * both groups that watch the delayed-ACK timer.
 *
 * The costs in BPF that determined the design:
 *
 * - A trampoline for entry or exit is the cheapest kind of probe. It is most of the cost of a
 *   program that finds no change, and the program cannot make it cheaper.
 * - Types that the verifier knows are read with plain loads, while BPF_CORE_READ() calls a helper
 *   for each read. One helper converts the socket to a tcp_sock, which has all members; newer
 *   kernels have a cast instead, which takes no instruction.
 * - The state of a socket is in its socket storage, whose lookup needs no hash, no lock and no
 *   key. It is freed with the socket and never evicted. The usual state is also in a global array,
 *   which needs no helper. A hash map of sockets would reduce the cost that the programs add to
 *   connecting and closing by 5%, but it can fill up.
 * - Counters are looked up only when there is something to count.
 *
 * A program does not run while it is already running on the same CPU, so events of another socket
 * in a softirq that interrupts it are missed. The loader shows how many.
 */
#include <linux/errno.h>
#include <linux/if_ether.h>
#include <linux/version.h>
#include <bpf/bpf_endian.h>

#include "../../bats/oracle/kernel.bpf.h"

/* The distance of a search is computed by the same code as in the module. */
typedef __u32 u32;
#include "../../module/ports.h"

#include "rival.h"

#define ICSK_ACK_SCHED	1
#define ICSK_ACK_TIMER	2

#define SOCK_DONE	1

/* Why a socket cannot send now. */
#define TCP_CHRONO_RWND_LIMITED	2

/* LINUX_MIB_DELAYEDACKLOCKED and HZ, which depend on the kernel; set by the loader. */
SEC(".rodata.loader") const volatile __u32 delayedacklocked;
SEC(".rodata.loader") const volatile __u32 hz;

/* Slots of the kernel's table_perturb, with Debian's configuration. */
#define PERTURB_SLOTS	65536

/* ---- state ---- */

/* The state of a socket at its last event, in one word; 0 if there was none. */
#define SEEN_MODE	0x03
#define SEEN_SETSOCKOPT	0x04	/* TCP_QUICKACK was set then */
#define SEEN_TIMEOUT	0x08	/* the delayed-ACK timer sent an ACK then */
#define SEEN_LATE	0x10	/* that ACK was sent, and is the last segment */
#define SEEN		0x20

struct seen {
	__u64 last;
	__u64 late_since;	/* when that ACK was sent, in ns */
	__u32 late_delay;	/* delay of that ACK, in jiffies */
	bool late_echoed;	/* data released by it echoes its timestamp */
	bool owed;		/* the next two members are valid */
	__u32 owed_wup;		/* rcv_wup when the unacknowledged data was received */
	__u32 owed_since;	/* when the oldest of it was received, in jiffies */
	__u32 answered;		/* rcv_nxt at the last late answer, plus 1 */
};

PER(sockets, SK, struct seen);

/*
 * The tracked call that a task is in; tracked calls are never nested. They sleep, so they are
 * stored per task, not per CPU, and not per socket, since two tasks can wait on one socket.
 */
struct call {
	__u64 since;		/* 0: not tracked */
	struct tcplat_ports ports;
	__u32 value;
	__u32 found;
	bool readable;
};

PER(calls, TASK, struct call);
ONE(counts, PERCPU_ARRAY, struct counts);

/* The delayed-ACK timer on this CPU: address and previous value of its count of deferrals. */
struct timer {
	const unsigned long *locked;
	unsigned long before;
};

ONE(timers, PERCPU_ARRAY, struct timer);

static __always_inline void count_at(__u64 offset)
{
	void *c = bpf_map_lookup_elem(&counts, &zero);

	if (c)
		add(*(__u64 *)(c + offset), 1);
}

#define count(member)	count_at(offsetof(struct counts, member))

static __always_inline void note_max(__u64 *max, __u64 value)
{
	__u64 old = *max;

	for (int i = 0; i < 4 && value > old; i++) {
		__u64 now = __sync_val_compare_and_swap(max, old, value);

		if (now == old)
			break;
		old = now;
	}
}

/* The verifier must see the bounds check on the same register as the index. */
static __always_inline void bump(__u64 *hist, __u64 buckets, __u64 bucket)
{
	barrier_var(bucket);
	if (bucket >= buckets)
		bucket = buckets - 1;
	add(hist[bucket], 1);
}

/* The smallest n for which value <= 2^n. */
static __always_inline __u32 log2_up(__u64 value)
{
	__u32 n = 0;

	if (value <= 1)
		return 0;
	value--;
	for (int bits = 32; bits; bits >>= 1)
		if (value >> bits) {
			value >>= bits;
			n += bits;
		}
	return n + 1;
}

static __always_inline void add_time(struct times *times, __u64 ns)
{
	__u32 n = log2_up(ns);

	add(times->n, 1);
	add(times->sum, ns);
	note_max(&times->max, ns);
	bump(times->hist, TIME_BUCKETS, n > TIME_FIRST ? n - TIME_FIRST : 0);
}

static __always_inline __u64 ns_since(__u64 since)
{
	__u64 now = bpf_ktime_get_ns();

	return now > since ? now - since : 0;
}

/* The cast needs no call, and is safe: these functions are only called for TCP sockets. */
static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	if (&bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

static __always_inline __u32 jiffies32_since(__u32 then)
{
	return (__u32)bpf_jiffies64() - then;
}

static __always_inline void count_timed(enum timed which, __u64 ns)
{
	struct counts *c = bpf_map_lookup_elem(&counts, &zero);

	if (c)
		add_time(&c->timed[which], ns);
}

/* ---- delack ---- */

static __always_inline bool sends_ack(const struct tcp_sock *tp, const struct sock *sk)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	__u8 state = sk->__sk_common.skc_state;
	__u8 pending = icsk->icsk_ack.pending;
	unsigned long timeout;

	if (state == TCP_CLOSE || state == TCP_LISTEN || tp->compressed_ack ||
	    !(pending & ICSK_ACK_TIMER) || !(pending & ICSK_ACK_SCHED))
		return false;
	if (bpf_core_field_exists(icsk->icsk_ack.timeout))
		timeout = icsk->icsk_ack.timeout;
	else
		timeout = icsk->icsk_delack_timer.expires;
	return (long)(bpf_jiffies64() - timeout) >= 0;
}

/* When data is received: whether data of an earlier jiffy is not acknowledged yet. */
static __always_inline bool owes(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER &&
	       tp->inet_conn.icsk_ack.lrcvtime != (__u32)bpf_jiffies64();
}

static __always_inline bool is_owed(const struct tcp_sock *tp, const struct seen *seen)
{
	return seen && seen->owed && seen->owed_wup == tp->rcv_wup;
}

/* For the case of a FIN without data see ack_delay() in module/delack.c. */
static __always_inline __u32 ack_delay(const struct tcp_sock *tp, const struct sock *sk,
				       const struct seen *seen)
{
	__u32 since = tp->inet_conn.icsk_ack.lrcvtime;

	if (sk->__sk_common.skc_flags & 1 << SOCK_DONE && tp->rcv_nxt - tp->rcv_wup == 1) {
		since = tp->rcv_tstamp;
	} else if (is_owed(tp, seen)) {
		since = seen->owed_since;
		/* The verifier does not allow one load from either pointer. */
		barrier_var(since);
	}
	return jiffies32_since(since);
}

/* Whether a program is behind with reading; it then does not miss what the peer holds back. */
static __always_inline bool is_unread(const struct tcp_sock *tp, struct sock *sk)
{
	int unread = tp->rcv_nxt - tp->copied_seq;

	if (unread && sk->__sk_common.skc_flags & 1 << SOCK_DONE)
		unread--;
	return unread >= BPF_CORE_READ(sk, sk_rcvlowat);
}

static __always_inline void timed_out(struct counts *c, bool pingpong, __u32 delay)
{
	add(c->delack.timeouts, 1);
	if (pingpong)
		add(c->delack.timeouts_pingpong, 1);
	add(c->delack.delay, delay);
	note_max(&c->delack.delay_max, delay);
	bump(c->delack.hist, DELAY_BUCKETS, delay);
}

/* Data was received, the first event of the socket since its late ACK. */
static __always_inline void judge(struct counts *c, const struct tcp_sock *tp,
				  const struct seen *seen)
{
	__u64 rtt = tp->rtt_min.s[0].v, mdev = tp->mdev_us, least = 0, most, us;
	bool usec = false;
	__u32 sent;

	if (!seen->late_since)
		return;
	if (seen->late_echoed) {
		if (bpf_core_field_exists(tp->tcp_usec_ts))
			usec = BPF_CORE_READ_BITFIELD_PROBED(tp, tcp_usec_ts);
		sent = usec ? seen->late_since / 1000 - 1000 : seen->late_since / 1000000 - 1;
		if ((__s32)(tp->rx_opt.rcv_tsecr - sent) < 0)
			return;
	}
	if (rtt == ~0U) {
		most = 1000000;
	} else {
		if (mdev < rtt / 8)
			mdev = rtt / 8;
		if (mdev > rtt / 2)
			mdev = rtt / 2;
		most = rtt + mdev + 1000;
		if (!seen->late_echoed && rtt - rtt / 8 > 1000)
			least = rtt - rtt / 8 - 1000;
	}
	us = ns_since(seen->late_since);
	if (us >= least * 1000 && us <= most * 1000) {
		add(c->delack.stalls, 1);
		add(c->delack.stall, seen->late_delay);
	}
}

/*
 * At entry it is unknown whether the timer will find the socket in use, and at return the socket
 * may have been freed. So the kernel's count on this CPU is compared.
 */
SEC("fentry/tcp_delack_timer")
int BPF_PROG(delack_timer, void *t)
{
	struct sock *sk = t - bpf_core_field_offset(struct inet_connection_sock, icsk_delack_timer);
	struct linux_mib *mib = BPF_CORE_READ(sk, __sk_common.skc_net.net, mib.net_statistics);
	struct timer *timer = bpf_map_lookup_elem(&timers, &zero);
	const unsigned long *offsets = &__per_cpu_offset;
	unsigned long offset = 0;

	if (!timer)
		return 0;
	bpf_probe_read_kernel(&offset, sizeof(offset), &offsets[bpf_get_smp_processor_id()]);
	timer->locked = (void *)mib + offset + sizeof(long) * delayedacklocked;
	bpf_probe_read_kernel(&timer->before, sizeof(timer->before), timer->locked);
	return 0;
}

SEC("fexit/tcp_delack_timer")
int BPF_PROG(delack_timer_end)
{
	struct timer *timer = bpf_map_lookup_elem(&timers, &zero);
	struct counts *c;
	unsigned long now;

	if (!timer || bpf_probe_read_kernel(&now, sizeof(now), timer->locked) ||
	    now == timer->before)
		return 0;
	c = bpf_map_lookup_elem(&counts, &zero);
	if (c)
		add(c->delack.deferred, now - timer->before);
	return 0;
}

/* ---- ackmode ---- */

static __always_inline enum mode mode_of(const struct tcp_sock *tp, const struct sock *sk)
{
	__u8 threshold = 1;

	if (bpf_core_field_exists(struct netns_ipv4, sysctl_tcp_pingpong_thresh))
		threshold = sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_pingpong_thresh;
	if (tp->inet_conn.icsk_ack.pingpong >= threshold)
		return PINGPONG;
	return tp->inet_conn.icsk_ack.quick ? QUICKACK : DELAYED;
}

static __always_inline bool route_is_quickack(const struct sock *sk)
{
	struct dst_entry *dst = sk->sk_dst_cache;
	__u32 *metrics, quickack = 0;

	if (!dst)
		return false;
	metrics = (__u32 *)(BPF_CORE_READ(dst, _metrics) & ~3UL);
	bpf_probe_read_kernel(&quickack, sizeof(quickack), metrics + RTAX_QUICKACK - 1);
	return quickack;
}

static __always_inline void count_change(struct counts *c, __u64 last, enum mode to)
{
	enum mode from = last & SEEN_MODE;
	enum cause cause = NONE;

	if (from == to || from >= MODES || to >= MODES)
		return;
	if (from == ROUTE || to == ROUTE)
		;
	else if (last & SEEN_TIMEOUT && from == PINGPONG)
		cause = TIMEOUT;
	else if (last & SEEN_SETSOCKOPT && (from == PINGPONG || to == PINGPONG))
		cause = SETSOCKOPT;
	add(c->ackmode.changes[from][to][cause], 1);
}

/* A socket without state existed before: its mode does not count as a change. */
static __always_inline struct seen *adopt(struct counts *c, struct tcp_sock *tp,
					  const struct sock *sk)
{
	struct seen *seen;

	switch (sk->__sk_common.skc_state) {
	case TCP_CLOSE:
	case TCP_LISTEN:
	case TCP_SYN_SENT:
	case TCP_SYN_RECV:
	case TCP_NEW_SYN_RECV:
		return NULL;
	}
	seen = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!seen)
		add(c->ackmode.errors, 1);
	return seen;
}

/*
 * A cache of sockets whose state is only a mode, which is the usual case. A lookup in the socket
 * storage costs three times as much as a lookup here, and is only needed if the socket is not
 * found here. A socket's word is the sum of its mode and of its address relative to the cache's
 * address, since the verifier does not allow the multiplication of an address.
 */
#define CACHE_BITS	16

static __u64 cache[1 << CACHE_BITS];

static __always_inline __u64 key_of(struct sock *sk)
{
	return (void *)sk - (void *)cache;
}

static __always_inline __u64 *cached(__u64 key)
{
	return &cache[key * 0x61c8864680b583ebULL >> (64 - CACHE_BITS)];
}

/* Events of a socket besides SEEN_SETSOCKOPT and SEEN_TIMEOUT. */
#define SENT		0x100
#define RECEIVED	0x200
#define OWES		0x400	/* there is older unacknowledged data */

/*
 * Slow path: there was an event with a flag, the mode has changed, or the socket is not in the
 * cache. TCP_QUICKACK is set without the socket's lock: the CPU that replaces the word counts the
 * change, so that no change is counted twice, and a word that is stored in the cache is removed
 * again if the state has changed meanwhile.
 *
 * Not inlined, so that callers need not save registers.
 */
static __noinline int note(struct sock *sk, __u64 what)
{
	__u64 happened = what & (SEEN_SETSOCKOPT | SEEN_TIMEOUT);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u64 key = key_of(sk), last = 0, now;
	__u64 *slot = cached(key);
	struct counts *c;
	struct seen *seen;
	enum mode mode;
	__u32 delay = 0;
	bool unread;

	if (!tp)
		return 0;
	seen = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (seen && what & OWES && !is_owed(tp, seen)) {
		seen->owed = true;
		seen->owed_wup = tp->rcv_wup;
		seen->owed_since = tp->inet_conn.icsk_ack.lrcvtime;
	}
	mode = route_is_quickack(sk) ? ROUTE : mode_of(tp, sk);
	if (seen && !happened && seen->last == (SEEN | mode)) {
		__sync_lock_test_and_set(slot, key + mode);
		if (*(volatile __u64 *)&seen->last != (SEEN | mode))
			*slot = 0;
		return 0;
	}

	c = bpf_map_lookup_elem(&counts, &zero);
	/* If the socket has state, it is that of its previous connection. */
	if (!c || sk->__sk_common.skc_state == TCP_SYN_SENT)
		return 0;
	if (happened & SEEN_TIMEOUT) {
		delay = ack_delay(tp, sk, seen);
		timed_out(c, mode == PINGPONG, delay);
	}
	if (!seen || !seen->last) {
		/* The socket's lock is not held there. */
		if (happened & SEEN_SETSOCKOPT)
			return 0;
		seen = adopt(c, tp, sk);
		if (!seen)
			return 0;
	}

	/* Read the mode after the word, and again if the word has changed. */
	for (int i = 0; i < 8; i++) {
		last = *(volatile __u64 *)&seen->last;
		mode = route_is_quickack(sk) ? ROUTE : mode_of(tp, sk);
		now = SEEN | mode | happened;
		if (what & SENT && last & SEEN_TIMEOUT)
			now |= SEEN_LATE;
		else if (!(what & (SENT | RECEIVED)))
			now |= last & SEEN_LATE;
		if (__sync_val_compare_and_swap(&seen->last, last, now) == last)
			break;
	}
	*slot = 0;
	if (what & RECEIVED && last & SEEN_LATE)
		judge(c, tp, seen);
	if (happened & SEEN_TIMEOUT) {
		unread = is_unread(tp, sk);
		if (unread)
			add(c->delack.timeouts_unread, 1);
		seen->late_since = unread || is_owed(tp, seen) ? 0 : bpf_ktime_get_ns();
		seen->late_delay = delay;
		seen->late_echoed = BPF_CORE_READ_BITFIELD_PROBED(tp, rx_opt.tstamp_ok) &&
				    tp->snd_una == tp->snd_nxt;
	}
	if (last)
		count_change(c, last, mode);
	return 0;
}

/* An event of a socket. Usually the mode is unchanged, and nothing is written. */
static __always_inline int observe(struct sock *sk, const struct tcp_sock *tp, __u64 what)
{
	__u64 key = key_of(sk);

	if (what == RECEIVED && owes(tp))
		return note(sk, what | OWES);
	return *cached(key) != key + mode_of(tp, sk) ||
	       (what == RECEIVED && route_is_quickack(sk)) ? note(sk, what) : 0;
}

/* ---- sndhold ---- */

#define MSG_OOB		1
#define MSG_MORE	0x8000
#define NAGLE_CORK	2
#define NAGLE_PUSH	4
#define FIN		1
#define THROTTLED	0

struct hold {
	__u64 since;		/* 0: none */
	__u32 end_seq;
	__u32 retrans;
	bool corked;
	__u64 probe_clock;	/* the socket's time when its probe timer began to send */
};

PER(holds, SK, struct hold);

/* For each hash value, the number of sockets with a hold. If 0, skip the storage. */
#define HELD_BITS	12

static __u32 held[1 << HELD_BITS];

static __always_inline __u32 *held_of(struct sock *sk)
{
	return &held[key_of(sk) * 0x61c8864680b583ebULL >> (64 - HELD_BITS)];
}

static __always_inline void end_hold(struct sock *sk, const struct tcp_sock *tp, struct hold *hold)
{
	struct counts *c = bpf_map_lookup_elem(&counts, &zero);
	__u64 ns = ns_since(hold->since), rtt;

	hold->since = 0;
	add(*held_of(sk), -1);
	if (!c)
		return;
	if (hold->corked) {
		add_time(&c->timed[CORK], ns);
		if (hold->probe_clock == tp->tcp_clock_cache)
			add(c->sndhold.cork_timeouts, 1);
		return;
	}
	add_time(&c->timed[NAGLE], ns);
	rtt = tp->rtt_min.s[0].v * 1000ULL;
	if (tp->total_retrans == hold->retrans && ns >= rtt + 10000000) {
		add(c->sndhold.peer_delays, 1);
		add(c->sndhold.peer_delay, ns - rtt);
	}
}

/* The hold of a socket, or NULL if it has none or if the hold has ended. */
static __always_inline struct hold *find_hold(struct sock *sk, struct tcp_sock *tp)
{
	struct hold *hold;

	if (!*held_of(sk))
		return NULL;
	hold = bpf_sk_storage_get(&holds, tp, 0, 0);
	if (!hold || !hold->since)
		return NULL;
	if (!before(tp->snd_nxt, hold->end_seq) || before(tp->write_seq, hold->end_seq)) {
		hold->since = 0;
		add(*held_of(sk), -1);
		return NULL;
	}
	return hold;
}

static __noinline int look(struct sock *sk, int flags, __u32 mss, int nonagle, __u32 size_goal)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct sk_buff *skb, *ahead;
	struct tcp_skb_cb *cb;
	struct hold *hold;
	__u32 end_seq, partial, len, before_it;
	bool corked;

	if (!tp || tp->write_seq == tp->snd_nxt)
		return 0;
	skb = BPF_CORE_READ(sk, sk_write_queue.prev);
	len = BPF_CORE_READ(skb, len);
	if (len < size_goal &&
	    BPF_CORE_READ(sk, __sk_common.skc_net.net, ipv4.sysctl_tcp_autocorking) &&
	    BPF_CORE_READ(sk, tcp_rtx_queue.rb_node) &&
	    (__u32)BPF_CORE_READ(sk, sk_wmem_alloc.refs.counter) > BPF_CORE_READ(skb, truesize) &&
	    !(BPF_CORE_READ(sk, sk_tsq_flags) & 1 << THROTTLED))
		count(sndhold.autocork);

	if (flags & MSG_MORE)
		nonagle = NAGLE_CORK;
	if (!mss || nonagle & NAGLE_PUSH || flags & MSG_OOB || tp->snd_una != tp->snd_up)
		return 0;
	partial = len % mss;
	cb = (void *)__builtin_preserve_access_index(&skb->cb);
	end_seq = BPF_CORE_READ(cb, end_seq);
	if (!partial || BPF_CORE_READ(cb, tcp_flags) & FIN)
		return 0;
	before_it = (end_seq - partial - tp->snd_nxt) / mss;
	if (tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out + before_it >=
	    tp->snd_cwnd || before(tp->snd_una + tp->snd_wnd, end_seq))
		return 0;
	corked = nonagle & NAGLE_CORK;
	if (!corked) {
		if (nonagle)
			return 0;
		if (!before(tp->snd_una, tp->snd_sml) || before(tp->snd_nxt, tp->snd_sml)) {
			ahead = BPF_CORE_READ(skb, prev);
			if ((void *)ahead ==
			    (void *)__builtin_preserve_access_index(&sk->sk_write_queue) ||
			    !(BPF_CORE_READ(ahead, len) % mss))
				return 0;
		}
	}

	hold = find_hold(sk, tp);
	if (hold) {
		if (before(end_seq - partial, hold->end_seq))
			return 0;
		end_hold(sk, tp, hold);
	} else {
		hold = bpf_sk_storage_get(&holds, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	}
	if (!hold) {
		count(sndhold.errors);
		return 0;
	}
	add(*held_of(sk), 1);
	hold->since = bpf_ktime_get_ns();
	hold->end_seq = end_seq;
	hold->retrans = tp->total_retrans;
	hold->corked = corked;
	hold->probe_clock = 0;
	return 0;
}

/* ---- answer ---- */

#define SEND_SHUTDOWN	2

static __always_inline __u64 jiffies_to_ns(__u64 jiffies)
{
	return (jiffies / hz * 1000000 + jiffies % hz * 1000000 / hz) * 1000;
}

static __always_inline __u64 us_to_ns_since(__u64 now, __u64 then)
{
	return now > then ? (now - then) * 1000 : 0;
}

/* Data is written (own) or received after a pause: whether it is an answer, and how late. */
static __noinline int answer(struct sock *sk, __u64 own)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u32 sent, received, ticks;
	__u64 since, now, ns, rtt;
	bool scheduled, flight, fin;
	struct seen *seen;

	if (!tp)
		return 0;
	sent = jiffies32_since(tp->lsndtime);
	received = jiffies32_since(tp->inet_conn.icsk_ack.lrcvtime);
	fin = sk->__sk_common.skc_flags & 1 << SOCK_DONE;
	scheduled = tp->inet_conn.icsk_ack.pending & ICSK_ACK_SCHED &&
		    !(fin && tp->rcv_nxt - tp->rcv_wup == 1);
	flight = tp->packets_out;
	since = tp->tcp_wstamp_ns / 1000;
	if (own) {
		if (tp->bytes_received <= fin)
			return 0;
		if (!scheduled && received >= sent &&
		    (received != sent || flight ||
		     (tp->data_segs_out &&
		      (BPF_CORE_READ(sk, sk_pacing_status) || since <= tp->rack.mstamp))))
			return 0;
		ticks = received;
		now = bpf_ktime_get_ns() / 1000;
		if (scheduled)
			since = tp->tcp_mstamp;
	} else {
		if (scheduled || !tp->data_segs_out || sent > received)
			return 0;
		if (sent == received &&
		    (BPF_CORE_READ(sk, sk_shutdown) & SEND_SHUTDOWN ||
		     (!flight && since > tp->rack.mstamp)))
			return 0;
		ticks = sent;
		now = tp->tcp_mstamp;
	}
	ns = us_to_ns_since(now, since);
	if (ns < jiffies_to_ns(ticks ? ticks - 1 : 0) || ns > jiffies_to_ns(ticks + 1ULL))
		ns = jiffies_to_ns(ticks);
	if (!own && tp->rtt_min.s[0].v != ~0U) {
		rtt = tp->rtt_min.s[0].v * 1000ULL;
		ns = ns > rtt ? ns - rtt : 0;
	}
	if (ns < 10000000)
		return 0;
	if (own) {
		seen = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!seen || seen->answered == tp->rcv_nxt + 1)
			return 0;
		seen->answered = tp->rcv_nxt + 1;
	}
	count_timed(own ? OWN : PEER, ns);
	return 0;
}

static __always_inline bool is_late(__u32 ticks)
{
	return ticks >= hz / 100;
}

SEC("fentry/tcp_push")
int BPF_PROG(push, struct sock *sk, int flags, int mss, int nonagle, int size_goal)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (!tp)
		return 0;
	if (is_late(jiffies32_since(tp->inet_conn.icsk_ack.lrcvtime)))
		answer(sk, true);
	if (tp->packets_out || flags & MSG_MORE || nonagle & NAGLE_CORK ||
	    sk->sk_write_queue.next != sk->sk_write_queue.prev)
		look(sk, flags, mss, nonagle, size_goal);
	return 0;
}

SEC("fentry/tcp_push_one")
int BPF_PROG(push_one, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (tp && is_late(jiffies32_since(tp->inet_conn.icsk_ack.lrcvtime)))
		answer(sk, true);
	return 0;
}

static __noinline int sent_held(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_skb_cb *cb;
	struct hold *hold;

	if (!tp)
		return 0;
	hold = find_hold(sk, tp);
	if (!hold)
		return 0;
	cb = (void *)__builtin_preserve_access_index(&skb->cb);
	if (!before(BPF_CORE_READ(cb, end_seq), hold->end_seq))
		end_hold(sk, tp, hold);
	return 0;
}

/* Data that the window held back is sent, or a probe of the window. */
static __noinline int sent_waiting(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u32 ticks, since;
	struct tcp_skb_cb *cb;

	cb = (void *)__builtin_preserve_access_index(&skb->cb);
	if (!tp || !BPF_CORE_READ(skb, len) || BPF_CORE_READ(cb, seq) != tp->snd_nxt)
		return 0;
	ticks = jiffies32_since(tp->chrono_start);
	since = jiffies32_since(tp->lsndtime);
	if (since < ticks)
		ticks = since;
	if (ticks)
		count_timed(WINDOW, jiffies_to_ns(ticks));
	return 0;
}

SEC("fentry/tcp_send_probe0")
int BPF_PROG(probe, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct hold *hold = tp ? find_hold(sk, tp) : NULL;
	struct tcp_skb_cb *cb;
	struct sk_buff *head;

	if (hold)
		hold->probe_clock = tp->tcp_clock_cache;
	if (!tp || sk->__sk_common.skc_state == TCP_CLOSE)
		return 0;
	head = BPF_CORE_READ(sk, sk_write_queue.next);
	cb = (void *)__builtin_preserve_access_index(&head->cb);
	if ((void *)head != (void *)__builtin_preserve_access_index(&sk->sk_write_queue) &&
	    before(BPF_CORE_READ(cb, seq), tp->snd_una + tp->snd_wnd))
		return 0;
	count(peerwnd.probes);
	return 0;
}

/* Purged data was never sent. */
SEC("fentry/tcp_write_queue_purge")
int BPF_PROG(purge, struct sock *sk)
{
	struct tcp_sock *tp;
	struct hold *hold;

	if (!*held_of(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	hold = tp ? bpf_sk_storage_get(&holds, tp, 0, 0) : NULL;
	if (hold && hold->since) {
		hold->since = 0;
		add(*held_of(sk), -1);
	}
	return 0;
}

SEC("fentry/__tcp_transmit_skb")
int BPF_PROG(sent, struct sock *sk, struct sk_buff *skb, int clone_it)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (!tp)
		return 0;
	if (*held_of(sk) && clone_it)
		sent_held(sk, skb);
	if (BPF_CORE_READ_BITFIELD(tp, chrono_type) == TCP_CHRONO_RWND_LIMITED)
		sent_waiting(sk, skb);
	return observe(sk, tp, SENT);
}

SEC("fentry/tcp_event_data_recv")
int BPF_PROG(received, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	__u32 sent;

	if (!tp)
		return 0;
	sent = jiffies32_since(tp->lsndtime);
	if (is_late(sent) && sent <= jiffies32_since(tp->inet_conn.icsk_ack.lrcvtime))
		answer(sk, false);
	return observe(sk, tp, RECEIVED);
}

/* Called by the timer, or by the user that it was deferred for. */
SEC("fentry/tcp_delack_timer_handler")
int BPF_PROG(timer, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return 0;
	return sends_ack(tp, sk) ? note(sk, SEEN_TIMEOUT) : observe(sk, tp, 0);
}

static __always_inline int set(struct sock *sk)
{
	count(ackmode.setsockopt);
	return note(sk, SEEN_SETSOCKOPT);
}

SEC("fentry/do_tcp_setsockopt")
int BPF_PROG(setsockopt, struct sock *sk, int level, int optname)
{
	return level == SOL_TCP && optname == TCP_QUICKACK ? set(sk) : 0;
}

/* Called by kernel users. */
SEC("fentry/tcp_sock_set_quickack")
int BPF_PROG(set_quickack, struct sock *sk)
{
	return set(sk);
}

/* A connection begins; the state of the socket's earlier connection ends. */
SEC("fentry/tcp_init_transfer")
int BPF_PROG(birth, struct sock *sk)
{
	struct seen *seen = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	*cached(key_of(sk)) = 0;
	if (seen)
		seen->last = SEEN | DELAYED;
	else
		count(ackmode.errors);
	return 0;
}

/* The storage is freed with the socket; clear the cache for a new socket at its address. */
SEC("fentry/tcp_v4_destroy_sock")
int BPF_PROG(death, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct counts *c;
	struct seen *seen;
	enum mode mode;

	if (!tp)
		return 0;
	*cached(key_of(sk)) = 0;
	seen = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (!seen || !seen->last)
		return 0;
	mode = route_is_quickack(sk) ? ROUTE : mode_of(tp, sk);
	if (mode == (seen->last & SEEN_MODE))
		return 0;
	c = bpf_map_lookup_elem(&counts, &zero);
	if (c)
		count_change(c, seen->last, mode);
	return 0;
}

/* ---- calls that sleep ---- */

static __always_inline struct call *begin(void)
{
	struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0,
						 BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (call)
		call->since = bpf_ktime_get_ns();
	return call;
}

/* The call that returns, or NULL if it is not tracked. */
static __always_inline struct call *end(__u64 *ns)
{
	struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);

	if (!call || !call->since)
		return NULL;
	*ns = ns_since(call->since);
	call->since = 0;
	return call;
}

/* ---- portsearch ---- */

/*
 * Searches by slots of table_perturb, several of which share an entry: number of searches that
 * found a port (upper half) and of searches in flight (lower half). With other searches in flight,
 * it is unknown which one wrote to the slot, so a search is unverified. tcplat only requires that
 * no other search has written, for which it sees each write.
 */
#define COMPANIES	1024
#define FOUND		0x100000000ULL

static __u64 companies[COMPANIES];

static __always_inline bool read_slot(__u32 slot, __u32 *value)
{
	const __u32 *table;

	return &table_perturb &&
	       !bpf_probe_read_kernel(&table, sizeof(table), &table_perturb) &&
	       !bpf_probe_read_kernel(value, sizeof(*value), &table[slot]);
}

static __always_inline void read_ports(struct sock *sk, struct tcplat_ports *ports)
{
	const struct netns_ipv4 *ipv4 = &sk->__sk_common.skc_net.net->ipv4;
	const struct inet_sock *inet = (void *)sk;
	__u32 low = 0, high = 0;

	if (bpf_core_field_exists(ipv4->ip_local_ports.range)) {
		ports->low = ipv4->ip_local_ports.range[0];
		ports->high = ipv4->ip_local_ports.range[1];
	} else {
		struct local_ports___packed *packed = (void *)&ipv4->ip_local_ports;
		__u32 range = BPF_CORE_READ(packed, range);

		ports->low = range & 0xffff;
		ports->high = range >> 16;
	}
	ports->step = 2;
	ports->scattered = false;
	if (bpf_core_field_exists(ipv4->sysctl_ip_local_port_step_width))
		ports->scattered = ipv4->sysctl_ip_local_port_step_width;

	if (bpf_core_field_exists(inet->local_port_range)) {
		low = BPF_CORE_READ(inet, local_port_range.lo);
		high = BPF_CORE_READ(inet, local_port_range.hi);
	} else if (bpf_core_field_exists(struct inet_sock___packed, local_port_range)) {
		__u32 own = BPF_CORE_READ((struct inet_sock___packed *)inet, local_port_range);

		low = own & 0xffff;
		high = own >> 16;
	}
	tcplat_ports_narrow(ports, low, high);
	if ((low || high) && LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 9, 0))
		ports->step = 1;
}

SEC("fentry/__inet_hash_connect")
int BPF_PROG(search, struct inet_timewait_death_row *row, struct sock *sk, __u64 offset)
{
	struct call *call;
	__u64 company;

	/* The socket is bound already: no search. */
	if (sk->__sk_common.skc_num)
		return 0;
	call = begin();
	if (!call)
		return 0;
	read_ports(sk, &call->ports);
	company = __sync_fetch_and_add(&companies[offset % COMPANIES], 1);
	call->found = company >> 32;
	/* The slot is read last, as close to the kernel's own read as possible. */
	call->readable = read_slot(offset % PERTURB_SLOTS, &call->value);
	return 0;
}

static __always_inline __u32 ports_tried(const struct call *call, struct sock *sk, __u64 offset,
					 int err)
{
	struct tcplat_ports now;
	bool alone, found = !err;
	__u64 company;
	__u32 value;

	/* Read the slot before the entry: searches that begin after this write later. */
	alone = read_slot(offset % PERTURB_SLOTS, &value) && call->readable;
	company = __sync_fetch_and_add(&companies[offset % COMPANIES],
				       (found ? FOUND : 0) - 1);
	alone = alone && (__u32)company == 1 && company >> 32 == call->found;

	read_ports(sk, &now);
	if (!&table_perturb || !tcplat_ports_same(&now, &call->ports))
		return 0;
	if (err == -EADDRNOTAVAIL)
		return tcplat_ports_all(&now);
	if (err || !alone)
		return 0;
	return tcplat_ports_tried(&now, call->value + (offset >> 32), value - call->value,
				  sk->__sk_common.skc_num);
}

/* bpf_get_func_ret(), since the number of arguments depends on the kernel. */
SEC("fexit/__inet_hash_connect")
int BPF_PROG(search_end, struct inet_timewait_death_row *row, struct sock *sk, __u64 offset)
{
	__u32 tried;
	struct counts *c;
	struct call *call;
	__u64 ret, ns;
	int err;

	call = end(&ns);
	if (!call)
		return 0;
	bpf_get_func_ret(ctx, &ret);
	err = ret;
	tried = ports_tried(call, sk, offset, err);
	c = bpf_map_lookup_elem(&counts, &zero);
	if (!c)
		return 0;
	if (err == -EADDRNOTAVAIL)
		add(c->portsearch.exhausted, 1);
	if (tried) {
		add(c->portsearch.iterations, tried);
		note_max(&c->portsearch.iterations_max, tried);
		bump(c->portsearch.hist, PORT_BUCKETS, log2_up(tried));
	} else {
		add(c->portsearch.unverified, 1);
	}
	add_time(&c->timed[PORTSEARCH], ns);
	return 0;
}

/* ---- sndwait ---- */

/* *timeo is 0 only for senders that do not block: skip them. */
SEC("fentry/sk_stream_wait_memory")
int BPF_PROG(wait_memory, struct sock *sk, long *timeo)
{
	long left = 0;

	bpf_probe_read_kernel(&left, sizeof(left), timeo);
	if (left)
		begin();
	return 0;
}

SEC("fexit/sk_stream_wait_memory")
int BPF_PROG(wait_memory_end, struct sock *sk, long *timeo, int ret)
{
	struct counts *c;
	__u64 ns;

	if (!end(&ns))
		return 0;
	c = bpf_map_lookup_elem(&counts, &zero);
	if (!c)
		return 0;
	if (ret == -EAGAIN)
		add(c->sndwait.timeouts, 1);
	add_time(&c->timed[SNDWAIT], ns);
	return 0;
}

/* ---- listen ---- */

static __always_inline bool is_full(const struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_ack_backlog) > BPF_CORE_READ(sk, sk_max_ack_backlog);
}

static __always_inline int overflow(void)
{
	count(listen.overflows);
	return 0;
}

SEC("fentry/tcp_conn_request")
int BPF_PROG(request, void *rsk_ops, void *af_ops, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || !is_full(sk))
		return 0;
	/* Without cookies, the kernel counts a full queue of requests elsewhere. */
	if (!sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_syncookies &&
	    (__u32)tp->inet_conn.icsk_accept_queue.qlen.counter >= sk->sk_max_ack_backlog)
		return 0;
	return overflow();
}

/* Kprobes, since a trampoline does not take seven arguments, as late releases of 6.1 have. */
SEC("kprobe/tcp_v4_syn_recv_sock")
int BPF_KPROBE(last_ack, const struct sock *sk)
{
	return is_full(sk) ? overflow() : 0;
}

SEC("kprobe/tcp_v6_syn_recv_sock")
int BPF_KPROBE(last_ack6, const struct sock *sk, struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, protocol) != bpf_htons(ETH_P_IP) && is_full(sk) ? overflow() : 0;
}

SEC("fentry/security_sock_graft")
int BPF_PROG(accepted, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u64 ns, most;
	__u32 ticks;

	if (!tp)
		return 0;
	ticks = jiffies32_since(tp->lsndtime);
	if (!is_late(ticks))
		return 0;
	ns = us_to_ns_since(bpf_ktime_get_ns() / 1000, tp->rcvq_space.time);
	most = (ticks + 1ULL) * (1000000000 / hz);
	if (ns > most)
		ns = most;
	if (ns >= 10000000)
		count_timed(ACCEPT, ns);
	return 0;
}
