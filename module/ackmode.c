// SPDX-License-Identifier: GPL-2.0
/*
 * ackmode: how often sockets change between delayed ACKs, quick ACKs and pingpong.
 *
 * The functions that change the mode are inlined in many places, so they cannot be probed.
 * Instead, handlers read a socket's mode at each event that involves ACKs, and compare it with
 * the mode last seen, which is stored in the socket table.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "ackmode.h"
#include "delack.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

#define SOCKETS_MIN	1024
#define SOCKETS_MAX	(16 * 1024 * 1024)
#define SOCKETS_DEFAULT	65536

/* If the parameter is not given, ackmode_alloc() sets the default. */
static unsigned int sockets;

static int sockets_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;

	if (kstrtouint(val, 0, &n) || n < SOCKETS_MIN || n > SOCKETS_MAX) {
		pr_err("sockets=%s: expected a number from %d to %d\n",
		       val, SOCKETS_MIN, SOCKETS_MAX);
		return -EINVAL;
	}
	sockets = roundup_pow_of_two(n);
	return 0;
}

static const struct kernel_param_ops sockets_ops = {
	.set = sockets_set,
	.get = param_get_uint,
};

module_param_cb(sockets, &sockets_ops, &sockets, 0444);
MODULE_PARM_DESC(sockets, "Number of sockets that ackmode can track, rounded up to a power of two (1024 to 16777216, 18 bytes each; default: number of buckets of the kernel's table of established sockets, at least 65536)");

enum {
	HITS_BIRTH,
	HITS_TIMER,
	HITS_SETSOCKOPT,
	HITS_SET_QUICKACK,
	HITS_DUPACK,
	HITS_FIN,
	SETSOCKOPT,
	UNTRACKED,
	UNTRACKED_EVENTS,
	BORN,
	ADOPTED,
	FORGOTTEN = ADOPTED + TCPLAT_MODES,
	DIED = FORGOTTEN + TCPLAT_MODES,
	CHANGED = DIED + TCPLAT_MODES,
	NR_COUNTERS = CHANGED + TCPLAT_MODES * TCPLAT_MODES * TCPLAT_CAUSES,
};

/* The record of a socket is the cause expected next, an enum tcplat_cause. */
struct tcplat_socktab tcplat_ackmode_table = {
	.record = sizeof(u8),
};

/* The description of the parameter sockets says 18 bytes each; a socket takes two slots. */
static_assert(2 * (sizeof(u64) + sizeof(u8)) == 18);

#ifdef TCPLAT_KUNIT
static void (*between_reads)(struct sock *sk);
#endif

/* For tests: called between reads of the slot and of the mode. */
static __always_inline void test_between_reads(struct sock *sk)
{
#ifdef TCPLAT_KUNIT
	if (between_reads)
		between_reads(sk);
#endif
}

static __always_inline u8 *record_of(const u64 *slot)
{
	return (u8 *)tcplat_ackmode_table.records + (slot - tcplat_ackmode_table.slots);
}

static __always_inline unsigned int change_index(enum tcplat_mode from, enum tcplat_mode to,
						 enum tcplat_cause cause)
{
	return CHANGED + (from * TCPLAT_MODES + to) * TCPLAT_CAUSES + cause;
}

/* The cause expected next for the socket in @slot, which is in @state. */
static __always_inline enum tcplat_cause expected_of(const u64 *slot, unsigned int state)
{
	return state & TCPLAT_STATE_EXPECTED ? READ_ONCE(*record_of(slot)) :
					       TCPLAT_CAUSE_NONE;
}

static noinline void __kprobes count_change(struct sock *sk, unsigned int state,
					    enum tcplat_cause expected, enum tcplat_mode to)
{
	enum tcplat_cause cause = tcplat_cause(state, expected, to);
	enum tcplat_mode from = state & TCPLAT_STATE_MODE;

	tcplat_inc(&tcplat_ackmode, change_index(from, to, cause));
	trace_ack_mode(sk, from, to, cause);
}

/* Counts a change if the mode in @state, the state last seen, is not @to, the mode now. */
static __always_inline void compare_mode(struct sock *sk, unsigned int state,
					 enum tcplat_cause expected, enum tcplat_mode to)
{
	if ((state & TCPLAT_STATE_MODE) != to)
		count_change(sk, state, expected, to);
}

/* Changes flags in @slot, and removes the token of a CPU that is in observe_unlocked(). */
static __always_inline void change_state(u64 *slot, u64 key, unsigned int clear, unsigned int set)
{
	u64 word;

	do {
		word = READ_ONCE(*slot);
	} while (!tcplat_socktab_change(slot, word, ((word & ~TCPLAT_TOKEN_MASK & ~(u64)clear) |
						     (key & TCPLAT_TOKEN_MASK) | set)));
}

/*
 * Stores the cause of the change of mode that the kernel is about to make, or may make. The
 * socket is locked.
 *
 * observe_unlocked() reads the record without the lock, so the record is only written while
 * TCPLAT_STATE_EXPECTED is clear. An observer that had claimed the slot loses its claim.
 */
static noinline void __kprobes set_expected(u64 *slot, u64 key, enum tcplat_cause cause)
{
	if (READ_ONCE(*slot) & TCPLAT_STATE_EXPECTED)
		change_state(slot, key, TCPLAT_STATE_EXPECTED, 0);
	WRITE_ONCE(*record_of(slot), cause);
	change_state(slot, key, 0, TCPLAT_STATE_EXPECTED);
}

/*
 * Like set_expected(), for a function that is not an event and changes the socket's own mode from
 * @mode to @to. If pingpong mode has ended since the mode was last seen, it had another cause.
 */
static noinline void __kprobes expect_cause(struct sock *sk, enum tcplat_cause cause,
					    enum tcplat_mode mode, enum tcplat_mode to)
{
	u64 key = tcplat_sock_key(sk);
	enum tcplat_mode seen;
	u64 word, *slot;

	if (sk->sk_state == TCP_SYN_SENT)
		return;
	slot = tcplat_socktab_find(&tcplat_ackmode_table, key, &word);
	if (!slot)
		return;
	seen = word & TCPLAT_STATE_MODE;
	if (tcplat_explains(cause, seen, to) &&
	    (seen != TCPLAT_PINGPONG || mode == TCPLAT_PINGPONG))
		set_expected(slot, key, cause);
}

/*
 * Inserts the socket, which is locked. The state needs the low bits of its address, which the
 * slab's alignment leaves free. Returns its slot, or NULL.
 */
static __kprobes u64 *insert_sock(const struct sock *sk, unsigned int state)
{
	u64 *slot = NULL;

	if (!(tcplat_sock_key(sk) & TCPLAT_STATE_MASK))
		slot = tcplat_socktab_insert(&tcplat_ackmode_table, tcplat_sock_key(sk) | state);
	if (!slot)
		tcplat_inc(&tcplat_ackmode, UNTRACKED_EVENTS);
	return slot;
}

/*
 * Inserts a socket that existed before the group was enabled, or that found no room earlier.
 * Its mode does not count as a change. Returns its slot, or NULL.
 */
static __kprobes u64 *adopt_sock(struct sock *sk, unsigned int state)
{
	u64 *slot;

	if ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_RECV))
		return NULL;
	slot = insert_sock(sk, state);
	if (slot)
		tcplat_inc(&tcplat_ackmode, ADOPTED + (state & TCPLAT_STATE_MODE));
	return slot;
}

/*
 * Slow path: the mode has changed, or @next is about to change it; a flag is pending or
 * @happened now; or the socket is not in the table. The socket is locked.
 *
 * The mode is read after the slot, and again if the slot has changed. A mode older than the slot
 * would count two changes that never happened.
 *
 * TCPLAT_STATE_SETSOCKOPT survives an ACK: an even non-zero TCP_QUICKACK sends an ACK before it
 * enters pingpong mode, and an ACK may be sent before the caller of setsockopt() gets the
 * socket's lock.
 */
static noinline void __kprobes note_event(struct sock *sk, bool sent_ack, unsigned int happened,
					  enum tcplat_cause next)
{
	u64 key = tcplat_sock_key(sk);
	enum tcplat_mode mode;
	unsigned int state;
	u64 word, new;
	u64 *slot;

	/* If the socket is in the table, its slot belongs to its previous connection. */
	if (sk->sk_state == TCP_SYN_SENT)
		return;

	do {
		slot = tcplat_socktab_find(&tcplat_ackmode_table, key, &word);
		/* Pairs with the cmpxchg of observe_unlocked(). */
		smp_rmb();
		test_between_reads(sk);
		mode = tcplat_sock_mode(sk);
		if (!slot) {
			slot = adopt_sock(sk, mode | happened);
			if (slot && next && mode != TCPLAT_ROUTE)
				set_expected(slot, key, next);
			return;
		}
		if (!happened && word == (key | mode)) {
			if (next && mode != TCPLAT_ROUTE)
				set_expected(slot, key, next);
			return;
		}
		state = word & TCPLAT_STATE_MASK;
		new = key | mode | happened | (sent_ack ? state & TCPLAT_STATE_SETSOCKOPT : 0);
	} while (!tcplat_socktab_change(slot, word, new));

	compare_mode(sk, state, expected_of(slot, state), mode);
	if (next && mode != TCPLAT_ROUTE)
		set_expected(slot, key, next);
}

/**
 * tcplat_ackmode_sent() - handler at the entry of __tcp_transmit_skb(sk, skb, ...)
 * @sk: the socket, locked
 * @arg1: the struct sk_buff that is about to be sent
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_ackmode_sent(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct sk_buff *skb = (const struct sk_buff *)arg1;
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	enum tcplat_cause next = TCPLAT_CAUSE_NONE;

	/* As in note_event(). */
	if (sk->sk_state == TCP_SYN_SENT)
		return;
	if (mode == TCPLAT_QUICKACK ||
	    (mode == TCPLAT_DELAYED && skb->len && tcplat_is_early(sk))) {
		struct tcplat_ack ack;

		tcplat_read_ack(sk, mode, &ack);
		next = tcplat_expect_sent(&ack, skb->len, tcp_skb_pcount(skb),
					  inet_csk_ack_scheduled(sk), tcplat_last_answer(sk));
	}
	if (next || !tcplat_ackmode_saw(sk, mode))
		note_event(sk, !skb->len, 0, next);
}

static bool sees_data(void);

/**
 * tcplat_ackmode_received() - handler at the entry of tcp_event_data_recv(sk, skb), or, if this
 * kernel lacks it, of tcp_rcv_established(sk, skb)
 * @sk: the socket, locked
 * @arg1: the struct sk_buff that was received
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_ackmode_received(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct sk_buff *skb = (const struct sk_buff *)arg1;
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	enum tcplat_cause next = TCPLAT_CAUSE_NONE;
	struct tcplat_ack ack;

	/* The entry of tcp_rcv_established() is too early for this. */
	if (sees_data()) {
		tcplat_read_ack(sk, mode, &ack);
		ack.may_grow = mode == TCPLAT_DELAYED && skb->len >= 128 && tcplat_may_grow(sk);
		next = tcplat_expect_received(&ack, inet_csk(sk)->icsk_rto,
					      tcplat_ecn_calls(sk, skb));
	}
	if (next || tcplat_route_is_quickack(sk) || !tcplat_ackmode_saw(sk, mode))
		note_event(sk, false, 0, next);
}

/*
 * TCP_QUICKACK is about to be set, by a caller that does not hold the socket's lock yet. So the
 * socket must not be inserted here, and the owner of the lock may observe it at the same time.
 *
 * The slot is claimed with this CPU's token before the mode is read; preemption is off.
 * An observer that holds the lock overwrites the token. The mode that was read is then
 * discarded, since it may be older than the slot. A slot that has changed and changed back is
 * not mistaken for the claimed one: no other of 239 CPUs writes this token, and no address has it,
 * not even with a tag of KASAN in hardware, 0xf0 or more.
 * If two CPUs with one token set the option of one socket at once, the later of them stores the
 * mode; at worst, a change is counted twice, with the change back.
 */
static noinline void __kprobes observe_unlocked(struct sock *sk)
{
	u64 token = (u64)(raw_smp_processor_id() % 239 + 1) << TCPLAT_TOKEN_SHIFT;
	enum tcplat_cause expected;
	enum tcplat_mode mode;
	u64 word, claim, new;
	unsigned int state;
	u64 *slot;

	tcplat_inc(&tcplat_ackmode, SETSOCKOPT);
	if (sk->sk_state == TCP_SYN_SENT)
		return;

	do {
		do {
			slot = tcplat_socktab_find(&tcplat_ackmode_table, tcplat_sock_key(sk),
						   &word);
			if (!slot)
				return;
			claim = (word & ~TCPLAT_TOKEN_MASK) | token;
		} while (!tcplat_socktab_change(slot, word, claim));
		state = word & TCPLAT_STATE_MASK;
		expected = expected_of(slot, state);
		test_between_reads(sk);
		mode = tcplat_sock_mode(sk);
		test_between_reads(sk);
		new = (claim & ~TCPLAT_STATE_MASK) | mode | TCPLAT_STATE_SETSOCKOPT;
		/* The change that the owner of the lock expects may be yet to come. */
		if (mode == (state & TCPLAT_STATE_MODE))
			new |= state & TCPLAT_STATE_EXPECTED;
	} while (!tcplat_socktab_change(slot, claim, new));
	compare_mode(sk, state, expected, mode);
}

/**
 * tcplat_ackmode_queue() - handler at the entry of tcp_data_queue(sk, skb)
 * @sk: the socket, locked
 * @arg1: the struct sk_buff, a segment that header prediction does not handle
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_ackmode_queue(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct sk_buff *skb = (const struct sk_buff *)arg1;
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	enum tcplat_cause next;
	struct tcplat_ack ack;

	tcplat_read_ack(sk, mode, &ack);
	ack.may_grow = mode == TCPLAT_DELAYED && tcp_is_sack(tcp_sk(sk)) &&
		       tcplat_may_grow(sk);
	next = tcplat_expect_queued(&ack, sk, skb);
	if (next)
		expect_cause(sk, next, mode,
			     mode == TCPLAT_QUICKACK ? TCPLAT_DELAYED : TCPLAT_QUICKACK);
}

/* Entry of tcp_send_dupack(sk, skb), socket locked. */
static void __kprobes dupack_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcp_skb_cb *cb = TCP_SKB_CB((const struct sk_buff *)arg1);
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);

	tcplat_inc(&tcplat_ackmode, HITS_DUPACK);
	if (cb->end_seq != cb->seq && before(cb->seq, tcp_sk(sk)->rcv_nxt) &&
	    mode != TCPLAT_QUICKACK)
		expect_cause(sk, TCPLAT_CAUSE_DUPLICATE, mode, TCPLAT_QUICKACK);
}

/* Entry of tcp_fin(sk), socket locked. */
static void __kprobes fin_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);

	tcplat_inc(&tcplat_ackmode, HITS_FIN);
	if (mode != TCPLAT_PINGPONG &&
	    ((1 << sk->sk_state) & (TCPF_SYN_RECV | TCPF_ESTABLISHED)))
		expect_cause(sk, TCPLAT_CAUSE_FIN, mode, TCPLAT_PINGPONG);
}

/* Entry of tcp_delack_timer_handler(sk), socket locked. */
static void __kprobes timer_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_TIMER);
	if (tcplat_delack_sends_ack(sk))
		note_event(sk, false, TCPLAT_STATE_TIMEOUT, TCPLAT_CAUSE_NONE);
	else if (!tcplat_ackmode_saw(sk, tcplat_sock_own_mode(sk)))
		note_event(sk, false, 0, TCPLAT_CAUSE_NONE);
}

/* Entry of do_tcp_setsockopt(sk, level, optname, ...), or of tcp_setsockopt(). */
static void __kprobes setsockopt_entry(struct sock *sk, unsigned long level, unsigned long optname)
{
	tcplat_inc(&tcplat_ackmode, HITS_SETSOCKOPT);
	/* Both are int: the upper halves of the registers are undefined. */
	if ((int)level == SOL_TCP && (int)optname == TCP_QUICKACK)
		observe_unlocked(sk);
}

/* Entry of tcp_sock_set_quickack(sk, val), which kernel users call. */
static void __kprobes set_quickack_entry(struct sock *sk, unsigned long val, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_SET_QUICKACK);
	observe_unlocked(sk);
}

/*
 * Entry of tcp_init_transfer(sk, ...), socket locked: a connection begins, in mode delayed. If
 * the socket is in the table, it had another connection before, which ended when
 * tcp_disconnect() reset its mode. If it is in pingpong mode already, TCP_QUICKACK 0 was set,
 * perhaps on the listener.
 */
static void __kprobes birth_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u64 key = tcplat_sock_key(sk);
	u64 word = 0, *slot;

	tcplat_inc(&tcplat_ackmode, HITS_BIRTH);
	if (!tcplat_socktab_sets_are_empty(&tcplat_ackmode_table, key))
		word = tcplat_socktab_remove(&tcplat_ackmode_table, key);
	if (word)
		tcplat_inc(&tcplat_ackmode, DIED + (word & TCPLAT_STATE_MODE));
	tcplat_inc(&tcplat_ackmode, BORN);
	slot = insert_sock(sk, TCPLAT_DELAYED |
			       (inet_csk_in_pingpong_mode(sk) ? TCPLAT_STATE_SETSOCKOPT : 0));
	if (!slot)
		tcplat_inc(&tcplat_ackmode, UNTRACKED);
	else if (tcplat_handshake_waits(sk))
		set_expected(slot, key, TCPLAT_CAUSE_HANDSHAKE);
}

/**
 * tcplat_ackmode_destroy() - handler at the entry of tcp_v4_destroy_sock(sk)
 * @sk: the socket, of IPv4 or IPv6, which has no other users
 * @arg1: not used
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_ackmode_destroy(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	enum tcplat_mode mode = tcplat_sock_mode(sk);
	enum tcplat_cause expected;
	unsigned int state;
	u64 word, *slot;

	slot = tcplat_socktab_find(&tcplat_ackmode_table, tcplat_sock_key(sk), &word);
	if (!slot)
		return;
	/* Only tcp_disconnect() sets this to 0. */
	expected = !inet_csk(sk)->icsk_ack.lrcvtime ? TCPLAT_CAUSE_DISCONNECT :
						      expected_of(slot, word);
	word = tcplat_socktab_remove_at(&tcplat_ackmode_table, tcplat_sock_key(sk), slot);
	state = word & TCPLAT_STATE_MASK;
	compare_mode(sk, state, expected, mode);
	tcplat_inc(&tcplat_ackmode, DIED + mode);
}

/* Index of the probe that sees incoming data. */
#define RECEIVED	3

static struct tcplat_probe ackmode_probes[] = {
	{
		.symbol = "tcp_init_transfer",
		.entry = birth_entry,
		.hits = HITS_BIRTH,
	},
	{
		.symbol = "tcp_delack_timer_handler",
		.entry = timer_entry,
		.hits = HITS_TIMER,
	},
	{
		.symbol = "__tcp_transmit_skb",
		.entry = tcplat_ackmode_sent,
		.hot = TCPLAT_HOT_SENT,
	},
	[RECEIVED] = {
		.symbol = "tcp_event_data_recv",
		.fallback = "tcp_rcv_established",
		.entry = tcplat_ackmode_received,
		.hot = TCPLAT_HOT_RECEIVED,
	},
	{
		.symbol = "tcp_v4_destroy_sock",
		.entry = tcplat_ackmode_destroy,
		.hot = TCPLAT_HOT_DESTROY,
	},
	{
		.symbol = "do_tcp_setsockopt",
		.fallback = "tcp_setsockopt",
		.entry = setsockopt_entry,
		.hits = HITS_SETSOCKOPT,
	},
	{
		/* Kernel users without this function call tcp_setsockopt(). */
		.symbol = "tcp_sock_set_quickack",
		.entry = set_quickack_entry,
		.optional = !__is_defined(TCPLAT_HAVE_SOCK_SET_QUICKACK),
		.hits = HITS_SET_QUICKACK,
	},
	/* Without one of these, changes whose cause it would tell are counted as unexplained. */
	{
		.symbol = "tcp_data_queue",
		.entry = tcplat_ackmode_queue,
		.hot = TCPLAT_HOT_QUEUE,
		.optional = true,
	},
	{
		.symbol = "tcp_fin",
		.entry = fin_entry,
		.optional = true,
		.hits = HITS_FIN,
	},
	{
		.symbol = "tcp_send_dupack",
		.entry = dupack_entry,
		.optional = true,
		.hits = HITS_DUPACK,
	},
};

static bool __kprobes sees_data(void)
{
	return ackmode_probes[RECEIVED].found == ackmode_probes[RECEIVED].symbol;
}

/*
 * The index of a file that shows how often the mode changed from @from to @to because of @cause.
 * TCPLAT_MODES and TCPLAT_CAUSES mean any.
 */
#define CHANGES(from, to, cause)	((from) << 16 | (to) << 8 | (cause))

static u64 read_changes(const struct tcplat_group *group, unsigned int index)
{
	unsigned int from = index >> 16, to = index >> 8 & 0xff, cause = index & 0xff;
	unsigned int f, t, c;
	u64 sum = 0;

	for (f = 0; f < TCPLAT_MODES; f++)
		for (t = 0; t < TCPLAT_MODES; t++)
			for (c = 0; c < TCPLAT_CAUSES; c++)
				if ((from == f || from == TCPLAT_MODES) &&
				    (to == t || to == TCPLAT_MODES) &&
				    (cause == c || cause == TCPLAT_CAUSES))
					sum += tcplat_sum(group, change_index(f, t, c));
	return sum;
}

/* Adds the number of tracked sockets in each mode, as last seen. Returns the number of them. */
static u64 count_modes(u64 *by_mode)
{
	u64 n;

	BUILD_BUG_ON(TCPLAT_STATE_MODE + 1 != TCPLAT_MODES);
	mutex_lock(&tcplat_control);
	n = tcplat_socktab_count(&tcplat_ackmode_table, by_mode);
	mutex_unlock(&tcplat_control);
	return n;
}

static u64 read_tracked(const struct tcplat_group *group, unsigned int index)
{
	return count_modes(NULL);
}

#define CHANGES_FILE(_name, _from, _to, _cause) \
	TCPLAT_FILE(_name, read_changes, CHANGES(TCPLAT_##_from, TCPLAT_##_to, TCPLAT_##_cause))

static const struct tcplat_file ackmode_files[] = {
	CHANGES_FILE("quickack_enters", MODES, QUICKACK, CAUSES),
	CHANGES_FILE("quickack_exits", QUICKACK, MODES, CAUSES),
	CHANGES_FILE("pingpong_enters", MODES, PINGPONG, CAUSES),
	CHANGES_FILE("pingpong_exits", PINGPONG, MODES, CAUSES),
	CHANGES_FILE("route_enters", MODES, ROUTE, CAUSES),
	CHANGES_FILE("route_exits", ROUTE, MODES, CAUSES),
	CHANGES_FILE("cause_timeout", MODES, MODES, CAUSE_TIMEOUT),
	CHANGES_FILE("cause_setsockopt", MODES, MODES, CAUSE_SETSOCKOPT),
	CHANGES_FILE("cause_first", MODES, MODES, CAUSE_FIRST),
	CHANGES_FILE("cause_gap", MODES, MODES, CAUSE_GAP),
	CHANGES_FILE("cause_duplicate", MODES, MODES, CAUSE_DUPLICATE),
	CHANGES_FILE("cause_ecn", MODES, MODES, CAUSE_ECN),
	CHANGES_FILE("cause_handshake", MODES, MODES, CAUSE_HANDSHAKE),
	CHANGES_FILE("cause_budget", MODES, MODES, CAUSE_BUDGET),
	CHANGES_FILE("cause_answer", MODES, MODES, CAUSE_ANSWER),
	CHANGES_FILE("cause_fin", MODES, MODES, CAUSE_FIN),
	CHANGES_FILE("cause_window", MODES, MODES, CAUSE_WINDOW),
	CHANGES_FILE("cause_route", MODES, MODES, CAUSE_ROUTE),
	CHANGES_FILE("cause_disconnect", MODES, MODES, CAUSE_DISCONNECT),
	CHANGES_FILE("unexplained", MODES, MODES, CAUSE_NONE),
	TCPLAT_SUM("setsockopt", SETSOCKOPT),
	TCPLAT_FILE("tracked", read_tracked, 0),
	TCPLAT_SUM("untracked", UNTRACKED),
	TCPLAT_SUM("untracked_events", UNTRACKED_EVENTS),
};

/* trace.h has defined EM() for tables of this type. The values are the indices. */
static const struct trace_print_flags mode_names[] = { TCPLAT_MODE_NAMES };
static const struct trace_print_flags cause_names[] = { TCPLAT_CAUSE_NAMES };

static void modes_show(struct seq_file *seq, const char *what, unsigned int first)
{
	unsigned int mode;

	for (mode = 0; mode < TCPLAT_MODES; mode++)
		seq_printf(seq, "%s %s %llu\n", what, mode_names[mode].name,
			   tcplat_sum(&tcplat_ackmode, first + mode));
}

static void transitions_show(struct seq_file *seq)
{
	u64 live[TCPLAT_MODES] = {};
	unsigned int from, to, cause;

	BUILD_BUG_ON(ARRAY_SIZE(cause_names) != TCPLAT_CAUSES);
	seq_puts(seq, "# from to cause count\n");
	for (from = 0; from < TCPLAT_MODES; from++)
		for (to = 0; to < TCPLAT_MODES; to++)
			for (cause = 0; from != to && cause < TCPLAT_CAUSES; cause++)
				if (!cause || tcplat_explains(cause, from, to))
					seq_printf(seq, "%s %s %s %llu\n", mode_names[from].name,
						   mode_names[to].name, cause_names[cause].name,
						   tcplat_sum(&tcplat_ackmode,
							      change_index(from, to, cause)));
	seq_puts(seq, "# sockets by mode: born - untracked + adopted + enters = exits + died + forgotten + live\n");
	seq_printf(seq, "born delayed %llu\n", tcplat_sum(&tcplat_ackmode, BORN));
	modes_show(seq, "adopted", ADOPTED);
	modes_show(seq, "died", DIED);
	modes_show(seq, "forgotten", FORGOTTEN);
	count_modes(live);
	for (from = 0; from < TCPLAT_MODES; from++)
		seq_printf(seq, "live %s %llu\n", mode_names[from].name, live[from]);
}

static int ackmode_alloc(struct tcplat_group *group)
{
	int err;

	/* The kernel has one bucket for each 128 KiB of the machine's memory, at most 524,288. */
	if (!sockets)
		sockets = clamp_t(unsigned int, tcplat_tcp_hashinfo()->ehash_mask + 1UL,
				  SOCKETS_DEFAULT, SOCKETS_MAX);
	err = tcplat_socktab_alloc(&tcplat_ackmode_table, sockets);
	if (err)
		pr_err("sockets=%u: cannot allocate %lu bytes\n", sockets, 18UL * sockets);
	return err;
}

/* Changes while the group is off are not seen, so forget all sockets. */
static void ackmode_stop(struct tcplat_group *group)
{
	u64 forgotten[TCPLAT_MODES] = {};
	unsigned int mode;

	tcplat_socktab_count(&tcplat_ackmode_table, forgotten);
	for (mode = 0; mode < TCPLAT_MODES; mode++)
		tcplat_add(group, FORGOTTEN + mode, forgotten[mode]);
	tcplat_socktab_free(&tcplat_ackmode_table);
}

struct tcplat_group tcplat_ackmode = {
	TCPLAT_TABLES(ackmode),
	.debug = "transitions",
	.debug_show = transitions_show,
	.alloc = ackmode_alloc,
	.stop = ackmode_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/ackmode-kunit.h"
#endif
