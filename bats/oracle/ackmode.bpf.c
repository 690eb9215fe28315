// SPDX-License-Identifier: GPL-2.0
/*
 * The modes of sockets' ACKs, watched by BPF: what the module's ackmode group is
 * compared with. It follows the definition of a transition and knows nothing of
 * the module: what it has seen of a socket is in that socket's BPF storage, and
 * a timeout is an ACK that was sent while the timer's handler ran.
 *
 * A BPF program that is interrupted does not run again on the same CPU: what happens
 * to other sockets meanwhile passes it by. Hence each function has the same program
 * twice. Only one of them can be what was interrupted, and to see an event twice is
 * the same as to see it once.
 *
 * Kernel types are declared here as far as they are used; libbpf finds out where
 * their members are in the kernel that runs.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "ackmode.h"
#include "totals.bpf.h"

#define SOL_TCP		6
#define TCP_QUICKACK	12

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
};

#define KERNEL __attribute__((preserve_access_index))

struct netns_ipv4 {
	__u8 sysctl_tcp_pingpong_thresh;
} KERNEL;

struct net {
	struct netns_ipv4 ipv4;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct sock_common {
	volatile unsigned char skc_state;
	possible_net_t skc_net;
} KERNEL;

struct dst_entry {
	unsigned long _metrics;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	struct {
		int owned;
	} sk_lock;
} KERNEL;

struct inet_connection_sock {
	struct {
		__u8 quick;
		__u8 pingpong;
	} icsk_ack;
} KERNEL;

/* Of the array that a route's metrics are in. */
#define RTAX_QUICKACK	15

/*
 * What was seen of a socket at its last event, in one word, for TCP_QUICKACK is set
 * without the socket's lock: its mode, what that event may turn out to have caused, and
 * how many events there were.
 */
#define SEEN(mode, last, n)	((mode) | (__u64)(last) << 8 | (__u64)(n) << 16)
#define seen_mode(seen)		((enum mode)((seen) & 0xff))
#define seen_last(seen)		((seen) >> 8 & 0xff)
#define seen_events(seen)	((seen) >> 16)

/* As what was last, besides the causes: the socket has just been born. */
#define FRESH	CAUSES

/*
 * Kernels before 5.12 give such programs neither a socket's storage nor a word that is
 * replaced in one go. There what was seen is found by the socket's address, and two
 * events of a socket at the very same time could be taken for one.
 */
#ifdef BEFORE_5_12
/* The one for functions' entries refuses it: an argument is a struct. */
#define ON_SETSOCKOPT(...)	SEC("kprobe/tcp_setsockopt") int BPF_KPROBE(__VA_ARGS__)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} sockets SEC(".maps");

static __u64 *find(struct sock *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&sockets, &key);
}

static __u64 *make(struct sock *sk)
{
	__u64 key = (__u64)sk, nothing = 0;

	bpf_map_update_elem(&sockets, &key, &nothing, BPF_ANY);
	return bpf_map_lookup_elem(&sockets, &key);
}

static long forget(struct sock *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_delete_elem(&sockets, &key);
}

static bool replace(__u64 *seen, __u64 old, __u64 now)
{
	*(volatile __u64 *)seen = now;
	return true;
}
#else
#define ON_SETSOCKOPT(...)	SEC("fentry/do_tcp_setsockopt") int BPF_PROG(__VA_ARGS__)

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} sockets SEC(".maps");

/* The verifier follows these only where they are part of their callers. */
static __always_inline __u64 *find(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

static __always_inline __u64 *make(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline long forget(struct sock *sk)
{
	return bpf_sk_storage_delete(&sockets, sk);
}

static __always_inline bool replace(__u64 *seen, __u64 old, __u64 now)
{
	return __sync_val_compare_and_swap(seen, old, now) == old;
}
#endif

/* The socket whose delayed-ACK timer is being handled on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} in_timer SEC(".maps");

/* The route itself, not what newer kernels keep of it in the socket. */
static bool route_is_quickack(struct sock *sk)
{
	struct dst_entry *dst = BPF_CORE_READ(sk, sk_dst_cache);
	__u32 *metrics, quickack = 0;

	if (!dst)
		return false;
	/* The lowest bits are flags. */
	metrics = (__u32 *)(BPF_CORE_READ(dst, _metrics) & ~3UL);
	bpf_probe_read_kernel(&quickack, sizeof(quickack), metrics + RTAX_QUICKACK - 1);
	return quickack;
}

static enum mode mode_of(struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;
	__u8 threshold = 1;

	if (bpf_core_field_exists(struct netns_ipv4, sysctl_tcp_pingpong_thresh))
		threshold = BPF_CORE_READ(sk, __sk_common.skc_net.net,
					  ipv4.sysctl_tcp_pingpong_thresh);
	if (route_is_quickack(sk))
		return ROUTE;
	if (BPF_CORE_READ(icsk, icsk_ack.pingpong) >= threshold)
		return PINGPONG;
	return BPF_CORE_READ(icsk, icsk_ack.quick) ? QUICKACK : DELAYED;
}

static void change(struct totals *t, __u64 seen, enum mode to)
{
	enum mode from = seen_mode(seen);
	enum cause cause = NONE;

	if (from == to || from >= MODES || to >= MODES)
		return;
	if (seen_last(seen) == TIMEOUT && from == PINGPONG)
		cause = TIMEOUT;
	/* TCP_QUICKACK writes pingpong and nothing else. */
	if (seen_last(seen) == SETSOCKOPT && (from == PINGPONG || to == PINGPONG))
		cause = SETSOCKOPT;
	add(t->changes[from][to][cause], 1);
	add(t->live[from], -1);
	add(t->live[to], 1);
}

/*
 * One more event: replaces what was seen by what is seen now, and returns the former. The
 * mode is read in between, so that none that is older than the last event's gets in.
 */
static __u64 see(struct totals *t, struct sock *sk, __u64 *seen, __u64 last)
{
	for (int i = 0; i < 16; i++) {
		__u64 old = *(volatile __u64 *)seen;
		enum mode mode = last == TIMEOUT ? seen_mode(old) : mode_of(sk);

		if (replace(seen, old, SEEN(mode, last, seen_events(old) + 1))) {
			change(t, old, mode);
			return old;
		}
	}
	add(t->errors, 1);
	return 0;
}

static void begin(struct totals *t, struct sock *sk, enum mode mode, __u64 last)
{
	__u64 *seen = make(sk);

	if (!seen) {
		add(t->errors, 1);
		return;
	}
	*seen = SEEN(mode, last, 0);
	add(t->live[mode], 1);
}

static void adopt(struct totals *t, struct sock *sk)
{
	enum mode mode;

	switch (BPF_CORE_READ(sk, __sk_common.skc_state)) {
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
		mode = mode_of(sk);
		if (mode < MODES) {
			begin(t, sk, mode, NONE);
			add(t->adopted[mode], 1);
		}
	}
}

/*
 * TCP_QUICKACK is set without the socket's lock. Whoever has the lock may change the mode
 * between the module's look at it and this program's, and then they rightly differ. So
 * the socket is looked at before both and after both.
 */
struct look {
	__u64 seen;
	enum mode mode;
	bool busy;
};

#ifdef BEFORE_5_12
static void look_for_races(struct totals *t, struct sock *sk, __u64 *seen)
{
}
#else
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct look);
} callers SEC(".maps");

static __always_inline void look_at(struct look *look, struct sock *sk, __u64 *seen)
{
	__u32 spinlock = 0;

	look->seen = *(volatile __u64 *)seen;
	look->mode = mode_of(sk);
	/* The spinlock comes first; on PREEMPT_RT it is another thing. */
	bpf_probe_read_kernel(&spinlock, sizeof(spinlock), &sk->sk_lock);
	look->busy = spinlock || BPF_CORE_READ(sk, sk_lock.owned);
}

SEC("fentry/tcp_setsockopt")
int BPF_PROG(before_both, struct sock *sk, int level, int optname)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct look look = {};
	__u64 *seen = find(sk);

	if (!seen || level != SOL_TCP || optname != TCP_QUICKACK)
		return 0;
	look_at(&look, sk, seen);
	bpf_map_update_elem(&callers, &task, &look, BPF_ANY);
	return 0;
}

static __always_inline void look_for_races(struct totals *t, struct sock *sk, __u64 *seen)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct look *before = bpf_map_lookup_elem(&callers, &task);
	struct look now = {};

	look_at(&now, sk, seen);
	if (!before || before->busy || now.busy || before->seen != now.seen ||
	    before->mode != now.mode)
		add(t->raced, 1);
}
#endif

static void observe(struct sock *sk, enum event what, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 *seen;

	if (!t)
		return;
	if (first)
		add(t->events[what], 1);
	/* Not born yet, or between two connections. */
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_SYN_SENT)
		return;
	seen = find(sk);
	if (!seen) {
		/* Nobody holds the socket's lock where TCP_QUICKACK is set. */
		if (what != SET)
			adopt(t, sk);
		return;
	}
	if (what == SET)
		look_for_races(t, sk, seen);
	see(t, sk, seen, what == SET ? SETSOCKOPT : NONE);
}

static void end(struct totals *t, struct sock *sk, enum mode mode)
{
	if (mode < MODES) {
		add(t->died[mode], 1);
		add(t->live[mode], -1);
	}
	if (forget(sk))
		add(t->errors, 1);
}

#define TWICE(function, handler)				\
SEC("fentry/" #function)				\
int BPF_PROG(handler##_1, struct sock *sk)		\
{							\
	handler(sk, true);				\
	return 0;					\
}							\
							\
SEC("fentry/" #function)				\
int BPF_PROG(handler##_2, struct sock *sk)		\
{							\
	handler(sk, false);				\
	return 0;					\
}

static void birth(struct sock *sk, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 *seen = find(sk);

	if (!t)
		return;
	if (first)
		add(t->events[BIRTH], 1);
	if (seen) {
		if (seen_last(*seen) == FRESH)
			return;
		/* A second connection of the same socket. */
		end(t, sk, seen_mode(*seen));
	}
	add(t->born, 1);
	begin(t, sk, DELAYED, FRESH);
}

TWICE(tcp_init_transfer, birth)

static void transmit(struct sock *sk, bool first)
{
	observe(sk, TRANSMIT, first);
}

TWICE(__tcp_transmit_skb, transmit)

static void receive(struct sock *sk, bool first)
{
	observe(sk, RECEIVE, first);
}

TWICE(tcp_event_data_recv, receive)

static void timer(struct sock *sk, bool first)
{
	__u64 *running = bpf_map_lookup_elem(&in_timer, &zero);

	observe(sk, TIMER, first);
	if (running)
		*running = (__u64)sk;
}

TWICE(tcp_delack_timer_handler, timer)

/* Softirqs are off in there: no other socket's timer comes in between. */
SEC("fexit/tcp_delack_timer_handler")
int BPF_PROG(timer_end, struct sock *sk)
{
	__u64 *running = bpf_map_lookup_elem(&in_timer, &zero);

	if (running)
		*running = 0;
	return 0;
}

static void send_ack(struct sock *sk, bool first)
{
	__u64 *running = bpf_map_lookup_elem(&in_timer, &zero);
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 *seen;

	if (!t || !running || *running != (__u64)sk)
		return;
	seen = find(sk);
	if (seen)
		see(t, sk, seen, TIMEOUT);
}

TWICE(tcp_send_ack, send_ack)

/* TCP_QUICKACK is set by tasks and never within a softirq: once will do. */
static void set(struct sock *sk)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);

	if (t)
		add(t->set, 1);
	observe(sk, SET, true);
}

ON_SETSOCKOPT(setsockopt, struct sock *sk, int level, int optname)
{
	if (level == SOL_TCP && optname == TCP_QUICKACK)
		set(sk);
	return 0;
}

SEC("fentry/tcp_sock_set_quickack")
int BPF_PROG(set_quickack, struct sock *sk)
{
	set(sk);
	return 0;
}

static void death(struct sock *sk, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	__u64 *seen = find(sk);

	if (!t)
		return;
	if (first)
		add(t->events[DEATH], 1);
	if (seen) {
		enum mode mode = mode_of(sk);

		change(t, *seen, mode);
		end(t, sk, mode);
	}
}

TWICE(tcp_v4_destroy_sock, death)
