// SPDX-License-Identifier: GPL-2.0
/*
 * Watches the modes of sockets' ACKs, as an oracle for the module's group ackmode. It implements
 * the definition of a transition independently of the module: the state of a socket is stored in
 * the socket's BPF storage.
 *
 * The module predicts causes; this program observes them. It reads the socket at the entry and
 * the return of each function that changes the mode. A difference from the previous read was
 * caused by the innermost of the functions that are running.
 *
 * A BPF program that is interrupted does not run again on the same CPU, so it would miss events
 * of other sockets meanwhile. Hence each function has the same program twice: only one of the two
 * can have been interrupted, and seeing an event twice has the same result as seeing it once.
 */
#include "kernel.bpf.h"
#include "ackmode.h"

ONE(totals, ARRAY, struct totals);

/*
 * The state of a socket at its last event: its mode, whether its connection has just begun, and
 * the number of events. It is one word, since TCP_QUICKACK is set without the socket's lock.
 */
#define SEEN(mode, fresh, n)	((mode) | (__u64)(fresh) << 8 | (__u64)(n) << 16)
#define seen_mode(seen)		((enum mode)((seen) & 0xff))
#define seen_fresh(seen)	((seen) >> 8 & 0xff)
#define seen_events(seen)	((seen) >> 16)

/* The functions that change modes; callees precede their callers. */
enum function {
	SELECT_WINDOW, SEND, GROW_WINDOW, TAKE_FIN, CHECK_ECN, DATA_RECV, SEND_DUPACK,
	DATA_QUEUE, STATE_PROCESS, DELACK, TCP_DISCONNECT, SET_QUICKACK, FUNCTIONS
};

/*
 * The inputs of the mode when the socket was last read, in one word for the same reason: whether
 * pingpong had reached its threshold, whether quick ACKs were left, the cause of the last change
 * of each of these, whether the data being processed is the connection's first, and a bit for
 * each function that is running.
 */
#define IN_PINGPONG	1ULL
#define HAS_QUICK	2ULL
#define IS_FIRST	4ULL
#define PINGPONG_BY	8
#define QUICK_BY	16
#define RUNNING		32
#define LOOK_MASK	(IN_PINGPONG | HAS_QUICK)
#define by(look, shift)	((enum cause)((look) >> (shift) & 0xff))

struct known {
	__u64 seen;
	__u64 look;
};

/*
 * Before 6.1 fentry does not support functions with a struct among their arguments, and before
 * 5.12 programs have neither socket storage nor atomic compare and swap. On all of these kernels
 * the state is found by the socket's address, and two simultaneous events of a socket may be
 * counted as one.
 */
#ifdef BEFORE_6_1
#define ON_SETSOCKOPT(...)	SEC("kprobe/tcp_setsockopt") int BPF_KPROBE(__VA_ARGS__)

BY_ADDRESS(sockets, HASH, 65536, struct known);

static struct known *find(struct sock *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&sockets, &key);
}

static struct known *make(struct sock *sk)
{
	__u64 key = (__u64)sk;
	struct known nothing = {};

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

PER(sockets, SK, struct known);

/* The verifier accepts these only if they are inlined. */
static __always_inline struct known *find(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

static __always_inline struct known *make(struct sock *sk)
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

/*
 * Always 0, which the verifier does not know. It follows each path once for each value that is
 * known on it, on kernels from 6.12 on through millions of instructions, unless the value is ORed
 * with this where paths meet.
 */
static volatile __u64 no_bits;

/*
 * How many answers make pingpong mode: a constant of the kernel, where it is no sysctl. The loader
 * sets TCP_QUICKACK to 0 twice, and the first call has set the socket's count to it.
 */
static volatile __u8 threshold;

/* Reads the route itself, not the copy that newer kernels store in the socket. */
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

/* The bits of a look that determine the socket's own mode. */
static __u64 own_bits(struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;
	__u8 pingpong = BPF_CORE_READ(icsk, icsk_ack.pingpong), needed = threshold;
	__u64 bits = 0;

	if (bpf_core_field_exists(struct netns_ipv4, sysctl_tcp_pingpong_thresh))
		needed = BPF_CORE_READ(sk, __sk_common.skc_net.net,
				       ipv4.sysctl_tcp_pingpong_thresh);
	if (pingpong >= needed)
		bits |= IN_PINGPONG;
	if (BPF_CORE_READ(icsk, icsk_ack.quick))
		bits |= HAS_QUICK;
	return bits | no_bits;
}

static enum mode mode_of(struct sock *sk)
{
	__u64 bits = own_bits(sk), mode = DELAYED;

	if (route_is_quickack(sk))
		mode = ROUTE;
	else if (bits & IN_PINGPONG)
		mode = PINGPONG;
	else if (bits & HAS_QUICK)
		mode = QUICKACK;
	return mode | no_bits;
}

static bool ato_is_0(struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;

	/* A bit field on newer kernels. */
	return !BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ack.ato);
}

/*
 * Makes @x less than @n, a power of two. Old verifiers need the mask, a comparison is not enough;
 * the compiler must not see that it changes nothing.
 */
#define BOUND(x, n)	do { asm volatile("" : "+r"(x)); (x) &= (n) - 1; } while (0)

/* Causes, if the innermost running function has ended [0] or begun [1] pingpong mode. */
static const enum cause pingpong_causes[16][2] = {
	[SEND] = { NONE, ANSWER },
	[TAKE_FIN] = { NONE, FIN },
	[CHECK_ECN] = { ECN, NONE },
	[SEND_DUPACK] = { DUPLICATE, NONE },
	[DATA_QUEUE] = { DUPLICATE, NONE },
	[STATE_PROCESS] = { HANDSHAKE, NONE },
	[DELACK] = { TIMEOUT, NONE },
	[TCP_DISCONNECT] = { DISCONNECT, NONE },
	[SET_QUICKACK] = { SETSOCKOPT, SETSOCKOPT },
};

/* The same, if it has used up [0] or granted [1] quick ACKs. */
static const enum cause quick_causes[16][2] = {
	[SELECT_WINDOW] = { WINDOW, NONE },
	[SEND] = { BUDGET, NONE },
	[GROW_WINDOW] = { NONE, WINDOW },
	[CHECK_ECN] = { NONE, ECN },
	[DATA_RECV] = { NONE, GAP },
	[SEND_DUPACK] = { NONE, DUPLICATE },
	/* Callees that are inlined into it clamp the window. */
	[DATA_QUEUE] = { WINDOW, DUPLICATE },
	[STATE_PROCESS] = { NONE, HANDSHAKE },
	[TCP_DISCONNECT] = { DISCONNECT, NONE },
};

static __always_inline __u64 cause_of(const enum cause causes[16][2], __u64 look, bool began)
{
	__u64 running = look >> RUNNING, innermost = FUNCTIONS, cause;

#pragma unroll
	for (int f = 0; f < FUNCTIONS; f++)
		if (running & 1ULL << f) {
			innermost = f;
			break;
		}
	innermost |= no_bits;
	BOUND(innermost, 16);
	cause = causes[innermost][began];
	return cause == GAP && look & IS_FIRST ? FIRST : cause;
}

/* Reads the socket. @start and @end: bits of functions that start or end running. */
static __u64 look_again(struct totals *t, struct sock *sk, struct known *known, __u64 start,
			__u64 end)
{
	/* Unrolled, since newer verifiers reject loops whose counter is not in a register. */
#pragma unroll
	for (int i = 0; i < 3; i++) {
		__u64 old = *(volatile __u64 *)&known->look, look = old;
		__u64 bits = own_bits(sk), other = (old ^ bits) & LOOK_MASK;

		if (other & IN_PINGPONG) {
			look &= ~(0xffULL << PINGPONG_BY);
			look |= cause_of(pingpong_causes, old, bits & IN_PINGPONG) << PINGPONG_BY;
		}
		if (other & HAS_QUICK) {
			look &= ~(0xffULL << QUICK_BY);
			look |= cause_of(quick_causes, old, bits & HAS_QUICK) << QUICK_BY;
		}
		look = ((look & ~LOOK_MASK) | bits | start << RUNNING) & ~(end << RUNNING);
		if (start & 1ULL << DATA_RECV) {
			look &= ~IS_FIRST;
			look |= ato_is_0(sk) ? IS_FIRST : 0;
		}
		if (replace(&known->look, old, look))
			return look;
	}
	add(t->errors, 1);
	return 0;
}

static void change(struct totals *t, __u64 seen, enum mode to, __u64 look)
{
	__u64 f = seen_mode(seen), m = to, c;

	if (f == m)
		return;
	if (f == ROUTE || m == ROUTE)
		c = BY_ROUTE;
	else if (f == PINGPONG || m == PINGPONG)
		c = by(look, PINGPONG_BY);
	else
		c = by(look, QUICK_BY);
	BOUND(f, MODES);
	BOUND(m, MODES);
	BOUND(c, 16);
	if (c >= CAUSES)
		return;
	add(t->changes[f][m][c], 1);
	add(t->live[f], -1);
	add(t->live[m], 1);
}

/*
 * Handles an event: replaces the stored state by the current one. The mode is read between the
 * read and the replacement, so that it cannot be older than that of the last event.
 */
static void see(struct totals *t, struct sock *sk, struct known *known)
{
#pragma unroll
	for (int i = 0; i < 3; i++) {
		__u64 old = *(volatile __u64 *)&known->seen;
		__u64 look = look_again(t, sk, known, 0, 0);
		enum mode mode = mode_of(sk);

		if (replace(&known->seen, old, SEEN(mode, 0, seen_events(old) + 1))) {
			change(t, old, mode, look);
			return;
		}
	}
	add(t->errors, 1);
}

static void count_live(struct totals *t, __u64 mode, __s64 sockets)
{
	BOUND(mode, MODES);
	add(t->live[mode], sockets);
}

static void begin(struct totals *t, struct sock *sk, enum mode mode, bool fresh, __u64 running)
{
	struct known *known = make(sk);
	__u64 bits = own_bits(sk);

	if (!known) {
		add(t->errors, 1);
		return;
	}
	known->seen = SEEN(mode, fresh, 0);
	/* Before a connection begins, only TCP_QUICKACK can set pingpong mode. */
	known->look = bits | (bits & IN_PINGPONG ? (__u64)SETSOCKOPT << PINGPONG_BY : 0) |
		      running << RUNNING;
	count_live(t, mode, 1);
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
			begin(t, sk, mode, false, 0);
			add(t->adopted[mode], 1);
		}
	}
}

/*
 * TCP_QUICKACK is set without the socket's lock. The owner of the lock may change the mode between
 * the module's read and this program's, and then the two legitimately differ. So the socket is
 * read before both and after both.
 */
struct look {
	__u64 seen;
	enum mode mode;
	bool busy;
};

#ifdef BEFORE_6_1
static void look_for_races(struct totals *t, struct sock *sk, struct known *known)
{
}
#else
BY_ADDRESS(callers, LRU_HASH, 1024, struct look);

static __always_inline void look_at(struct look *look, struct sock *sk, struct known *known)
{
	__u32 spinlock = 0;

	look->seen = *(volatile __u64 *)&known->seen;
	look->mode = mode_of(sk);
	/* The spinlock is the first member; on PREEMPT_RT it has another type. */
	bpf_probe_read_kernel(&spinlock, sizeof(spinlock), &sk->sk_lock);
	look->busy = spinlock || BPF_CORE_READ(sk, sk_lock.owned);
}

SEC("fentry/tcp_setsockopt")
int BPF_PROG(before_both, struct sock *sk, int level, int optname)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct look look = {};
	struct known *known = find(sk);

	if (!known || level != SOL_TCP || optname != TCP_QUICKACK)
		return 0;
	look_at(&look, sk, known);
	bpf_map_update_elem(&callers, &task, &look, BPF_ANY);
	return 0;
}

static __always_inline void look_for_races(struct totals *t, struct sock *sk,
					   struct known *known)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct look *before = bpf_map_lookup_elem(&callers, &task);
	struct look now = {};

	look_at(&now, sk, known);
	if (!before || before->busy || now.busy || before->seen != now.seen ||
	    before->mode != now.mode)
		add(t->raced, 1);
}
#endif

static void observe(struct sock *sk, enum event what, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct known *known;

	if (!t)
		return;
	if (first)
		add(t->events[what], 1);
	/* The connection has not begun yet. */
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_SYN_SENT)
		return;
	known = find(sk);
	if (!known) {
		/* The socket's lock is not held where TCP_QUICKACK is set. */
		if (what != SET)
			adopt(t, sk);
		return;
	}
	if (what == SET)
		look_for_races(t, sk, known);
	see(t, sk, known);
}

static void mark(struct sock *sk, __u64 start, __u64 end)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct known *known = find(sk);

	if (t && known)
		look_again(t, sk, known, start, end);
}

#define enter(sk, function)	mark(sk, 1ULL << (function), 0)
#define leave(sk, function)	mark(sk, 0, 1ULL << (function))

static void end(struct totals *t, struct sock *sk, enum mode mode)
{
	if (mode < MODES) {
		add(t->died[mode], 1);
		count_live(t, mode, -1);
	}
	if (forget(sk))
		add(t->errors, 1);
}

#define PROGRAM(section, name, suffix, ...)		\
SEC(section)						\
int BPF_PROG(name##suffix, struct sock *sk)		\
{							\
	__VA_ARGS__;					\
	return 0;					\
}

#define TWICE(function, handler)			\
	PROGRAM("fentry/" #function, handler, _1, handler(sk, true)) \
	PROGRAM("fentry/" #function, handler, _2, handler(sk, false))

/*
 * Programs for the entry and the return of a function that changes modes. Functions named maybe_*
 * do not exist on all kernels.
 */
#define FUNCTION(function, name, number)		\
	PROGRAM("fentry/" #function, name, _1, enter(sk, number)) \
	PROGRAM("fentry/" #function, name, _2, enter(sk, number)) \
	PROGRAM("fexit/" #function, name, _3, leave(sk, number)) \
	PROGRAM("fexit/" #function, name, _4, leave(sk, number))

/* The same for one that is an event, too. */
#define EVENT(function, name, number, event)		\
	PROGRAM("fentry/" #function, name, _1, observe(sk, event, true); enter(sk, number)) \
	PROGRAM("fentry/" #function, name, _2, observe(sk, event, false); enter(sk, number)) \
	PROGRAM("fexit/" #function, name, _3, leave(sk, number)) \
	PROGRAM("fexit/" #function, name, _4, leave(sk, number))

static void birth(struct sock *sk, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct known *known = find(sk);

	if (!t)
		return;
	if (first)
		add(t->events[BIRTH], 1);
	if (known) {
		if (seen_fresh(known->seen))
			return;
		/* A second connection of the same socket. */
		end(t, sk, seen_mode(known->seen));
	}
	add(t->born, 1);
	/* The end of the handshake is processed in there, except with TCP Fast Open. */
	begin(t, sk, DELAYED, true, 1ULL << STATE_PROCESS);
}

TWICE(tcp_init_transfer, birth)

EVENT(__tcp_transmit_skb, transmit, SEND, TRANSMIT)
EVENT(tcp_event_data_recv, receive, DATA_RECV, RECEIVE)
EVENT(tcp_delack_timer_handler, timer, DELACK, TIMER)
FUNCTION(__tcp_select_window, select_window, SELECT_WINDOW)
FUNCTION(tcp_grow_window, grow_window, GROW_WINDOW)
FUNCTION(tcp_fin, take_fin, TAKE_FIN)
FUNCTION(__tcp_ecn_check_ce, maybe_check_ce, CHECK_ECN)
FUNCTION(tcp_data_ecn_check, maybe_check_ecn, CHECK_ECN)
FUNCTION(tcp_send_dupack, send_dupack, SEND_DUPACK)
FUNCTION(tcp_data_queue, data_queue, DATA_QUEUE)
FUNCTION(tcp_rcv_state_process, state_process, STATE_PROCESS)
FUNCTION(tcp_disconnect, disconnect, TCP_DISCONNECT)

/* Only tasks set TCP_QUICKACK, never a softirq, so one program is enough. */
static void set(struct sock *sk)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);

	if (t)
		add(t->set, 1);
	observe(sk, SET, true);
	enter(sk, SET_QUICKACK);
}

ON_SETSOCKOPT(setsockopt, struct sock *sk, int level, int optname)
{
	struct inet_connection_sock *icsk = (void *)sk;

	if (level != SOL_TCP || optname != TCP_QUICKACK)
		return 0;
	if (threshold)
		set(sk);
	else
		threshold = BPF_CORE_READ(icsk, icsk_ack.pingpong);
	return 0;
}

/* Before 6.1 no program gets the socket at the return: the call runs until the next event. */
#ifndef BEFORE_6_1
PROGRAM("fexit/do_tcp_setsockopt", setsockopt, _end, leave(sk, SET_QUICKACK))
#endif

/* Kernel users of Enterprise Linux 8 call tcp_setsockopt(). */
PROGRAM("fentry/tcp_sock_set_quickack", maybe_set, _quickack, set(sk))
PROGRAM("fexit/tcp_sock_set_quickack", maybe_set, _quickack_end, leave(sk, SET_QUICKACK))

static void death(struct sock *sk, bool first)
{
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	struct known *known = find(sk);

	if (!t)
		return;
	if (first)
		add(t->events[DEATH], 1);
	if (known) {
		__u64 look = look_again(t, sk, known, 0, 0);
		enum mode mode = mode_of(sk);

		change(t, known->seen, mode, look);
		end(t, sk, mode);
	}
}

TWICE(tcp_v4_destroy_sock, death)
