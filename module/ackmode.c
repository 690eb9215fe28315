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
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "ackmode.h"
#include "delack.h"
#include "sndhold.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

#define SOCKETS_MIN	1024
#define SOCKETS_MAX	(16 * 1024 * 1024)
#define SOCKETS_DEFAULT	65536

/* If the parameter is not given, ackmode_init() sets the default. */
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
MODULE_PARM_DESC(sockets, "Maximum number of sockets that ackmode tracks, rounded up to a power of two (1024 to 16777216, 48 bytes each; default: number of buckets of the kernel's table of established sockets, at least 65536)");

enum {
	HITS_DESTROY,
	HITS_BIRTH,
	HITS_TIMER,
	HITS_SETSOCKOPT,
	HITS_SET_QUICKACK,
	HITS_QUEUE,
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

static struct tcplat_socktab table;

/* For tests: called between reads of the slot and of the mode. */
#ifdef TCPLAT_KUNIT
static void (*between_reads)(struct sock *sk);

static __always_inline void test_between_reads(struct sock *sk)
{
	if (between_reads)
		between_reads(sk);
}
#else
static __always_inline void test_between_reads(struct sock *sk)
{
}
#endif

/**
 * struct record - data about a socket besides its state
 * @timeout: the socket's last delayed-ACK timeout, for delack
 * @expected: the cause expected next, an enum tcplat_cause
 */
struct record {
	struct tcplat_delack_record timeout;
	u8 expected;
};

/* The description of the parameter sockets says 48 bytes each; a socket takes two slots. */
static_assert(2 * (sizeof(u64) + sizeof(struct record)) == 48);

static __always_inline struct record *record_of(const u64 *slot)
{
	return (struct record *)table.records + (slot - table.slots);
}

static __always_inline unsigned int change_index(enum tcplat_mode from, enum tcplat_mode to,
						 enum tcplat_cause cause)
{
	return CHANGED + (from * TCPLAT_MODES + to) * TCPLAT_CAUSES + cause;
}

static __always_inline u64 sock_key(const struct sock *sk)
{
	return (unsigned long)sk;
}

/* The cause expected next for the socket in @slot, which is in @state. */
static __always_inline enum tcplat_cause expected_of(const u64 *slot, unsigned int state)
{
	return state & TCPLAT_STATE_EXPECTED ? READ_ONCE(record_of(slot)->expected) :
					       TCPLAT_CAUSE_NONE;
}

static noinline void count_change(struct sock *sk, unsigned int state,
				  enum tcplat_cause expected, enum tcplat_mode to)
{
	enum tcplat_cause cause = tcplat_cause(state, expected, to);
	enum tcplat_mode from = state & TCPLAT_STATE_MODE;

	tcplat_inc(&tcplat_ackmode, change_index(from, to, cause));
	trace_ack_mode(sk, from, to, cause);
}

NOKPROBE_SYMBOL(count_change);

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
static noinline void set_expected(u64 *slot, u64 key, enum tcplat_cause cause)
{
	if (READ_ONCE(*slot) & TCPLAT_STATE_EXPECTED)
		change_state(slot, key, TCPLAT_STATE_EXPECTED, 0);
	WRITE_ONCE(record_of(slot)->expected, cause);
	change_state(slot, key, 0, TCPLAT_STATE_EXPECTED);
}

NOKPROBE_SYMBOL(set_expected);

/*
 * Like set_expected(), for a function that is not an event. @mode is the socket's own mode now;
 * @to is the mode after the function. If @to is the mode last seen, there is no change to
 * explain. If pingpong mode has ended since the mode was last seen, it had another cause.
 */
static noinline void expect_cause(struct sock *sk, enum tcplat_cause cause, enum tcplat_mode mode,
				  enum tcplat_mode to)
{
	u64 key = sock_key(sk);
	enum tcplat_mode seen;
	u64 word, *slot;

	if (sk->sk_state == TCP_SYN_SENT)
		return;
	slot = tcplat_socktab_find(&table, key, &word);
	if (!slot)
		return;
	seen = word & TCPLAT_STATE_MODE;
	if (tcplat_explains(cause, seen, to) &&
	    (seen != TCPLAT_PINGPONG || mode == TCPLAT_PINGPONG))
		set_expected(slot, key, cause);
}

NOKPROBE_SYMBOL(expect_cause);

/*
 * Inserts the socket, which is locked, into the table. The state needs the low bits of its
 * address, which the slab's alignment leaves free. Returns its slot, or NULL.
 */
static u64 *insert_sock(const struct sock *sk, unsigned int state)
{
	u64 *slot = NULL;

	if (!(sock_key(sk) & TCPLAT_STATE_MASK))
		slot = tcplat_socktab_insert(&table, sock_key(sk) | state);
	if (!slot)
		tcplat_inc(&tcplat_ackmode, UNTRACKED_EVENTS);
	return slot;
}

NOKPROBE_SYMBOL(insert_sock);

/*
 * Inserts a socket that existed before the group was enabled, or that found no room earlier.
 * Its mode does not count as a change. Sockets before the end of the handshake, and closed ones,
 * are not inserted. Returns its slot, or NULL.
 */
static u64 *adopt_sock(struct sock *sk, unsigned int state)
{
	const int ignored = TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT |
			    TCPF_SYN_RECV | TCPF_NEW_SYN_RECV;
	u64 *slot;

	if ((1 << sk->sk_state) & ignored)
		return NULL;
	slot = insert_sock(sk, state);
	if (slot)
		tcplat_inc(&tcplat_ackmode, ADOPTED + (state & TCPLAT_STATE_MODE));
	return slot;
}

NOKPROBE_SYMBOL(adopt_sock);

/*
 * Slow path: the mode has changed, or @next is about to change it; a flag is pending or
 * @happened now; or the socket is not in the table. The socket is locked.
 *
 * The mode is read after the slot, and again if the slot has changed. A mode older than the slot
 * would count two changes that never happened.
 */
static noinline void note_event(struct sock *sk, enum tcplat_event event, unsigned int happened,
				enum tcplat_cause next)
{
	u64 key = sock_key(sk);
	enum tcplat_mode mode;
	unsigned int state;
	u64 word, new;
	u64 *slot;

	/* If the socket is in the table, its slot belongs to its previous connection. */
	if (sk->sk_state == TCP_SYN_SENT)
		return;

	do {
		slot = tcplat_socktab_find(&table, key, &word);
		/* Pairs with the cmpxchg of observe_unlocked(). */
		smp_rmb();
		test_between_reads(sk);
		mode = tcplat_sock_mode(sk);
		if (!slot) {
			slot = adopt_sock(sk, mode | happened);
			if (slot && happened & TCPLAT_STATE_TIMEOUT)
				tcplat_delack_record_timeout(sk, &record_of(slot)->timeout);
			if (slot && next)
				set_expected(slot, key, next);
			return;
		}
		if (!happened && word == (key | mode)) {
			if (next && mode != TCPLAT_ROUTE)
				set_expected(slot, key, next);
			return;
		}
		state = word & TCPLAT_STATE_MASK;
		new = key | mode | happened | tcplat_state_late(state, event) |
		      tcplat_state_setsockopt(state, event);
	} while (!tcplat_socktab_change(slot, word, new));

	if (happened & TCPLAT_STATE_TIMEOUT)
		tcplat_delack_record_timeout(sk, &record_of(slot)->timeout);
	compare_mode(sk, state, expected_of(slot, state), mode);
	if (next && mode != TCPLAT_ROUTE)
		set_expected(slot, key, next);
	if (event == TCPLAT_RECEIVED && state & TCPLAT_STATE_LATE)
		tcplat_delack_check_stall(sk, &record_of(slot)->timeout);
}

NOKPROBE_SYMBOL(note_event);

static __always_inline bool was_seen_in(const struct sock *sk, enum tcplat_mode mode)
{
	return tcplat_socktab_is(&table, sock_key(sk), mode);
}

/*
 * The same for sockets in or next to their home slot, false for others. It calls no function, so
 * that the busiest handlers save no registers.
 */
static __always_inline bool was_seen_near_home(const struct sock *sk, enum tcplat_mode mode)
{
	return tcplat_socktab_is_near_home(&table, sock_key(sk), mode);
}

/* An event of a locked socket, which can only change the mode if a flag @happened. */
static __always_inline void observe(struct sock *sk, enum tcplat_event event,
				    unsigned int happened)
{
	if (happened || !was_seen_in(sk, tcplat_sock_own_mode(sk)))
		note_event(sk, event, happened, TCPLAT_CAUSE_NONE);
}

static __always_inline void read_ack(const struct sock *sk, enum tcplat_mode mode,
				     struct tcplat_ack *ack)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	ack->mode = mode;
	ack->quick = icsk->icsk_ack.quick;
	ack->ato = icsk->icsk_ack.ato;
	ack->since = tcp_jiffies32 - icsk->icsk_ack.lrcvtime;
	ack->full = mode == TCPLAT_QUICKACK && tcplat_buffer_is_full(sk);
	ack->may_grow = false;
}

/* Whether data sent now is an answer. For delayed mode, where no quick ACK shortens the ATO. */
static __always_inline bool is_answer(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return tcp_jiffies32 - icsk->icsk_ack.lrcvtime < icsk->icsk_ack.ato;
}

static noinline void note_sent(struct sock *sk, const struct sk_buff *skb)
{
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	enum tcplat_cause next = TCPLAT_CAUSE_NONE;
	struct tcplat_ack ack;

	if (mode == TCPLAT_QUICKACK || (mode == TCPLAT_DELAYED && skb->len && is_answer(sk))) {
		read_ack(sk, mode, &ack);
		next = tcplat_expect_sent(&ack, skb->len, tcp_skb_pcount(skb),
					  inet_csk_ack_scheduled(sk), tcplat_last_answer(sk));
	}
	if (next || !was_seen_in(sk, mode))
		note_event(sk, skb->len ? TCPLAT_SENT : TCPLAT_SENT_ACK, 0, next);
}

NOKPROBE_SYMBOL(note_sent);

/* Entry of __tcp_transmit_skb(sk, skb, ...), which does not end pingpong mode. */
static __always_inline void observe_sent(struct sock *sk, unsigned long skb)
{
	if (!inet_csk_in_pingpong_mode(sk) || !was_seen_near_home(sk, TCPLAT_PINGPONG))
		note_sent(sk, (const struct sk_buff *)skb);
}

static noinline void note_received(struct sock *sk, const struct sk_buff *skb)
{
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	enum tcplat_cause next = TCPLAT_CAUSE_NONE;
	struct tcplat_ack ack;

	/* The entry of tcp_rcv_established() is too early for this. */
	if (tcplat_ackmode_sees_data()) {
		read_ack(sk, mode, &ack);
		ack.may_grow = mode == TCPLAT_DELAYED && skb->len >= 128 && tcplat_may_grow(sk);
		next = tcplat_expect_received(&ack, inet_csk(sk)->icsk_rto,
					      tcplat_ecn_calls(sk, skb));
	}
	if (next || tcplat_route_is_quickack(sk) || !was_seen_in(sk, mode))
		note_event(sk, TCPLAT_RECEIVED, 0, next);
}

NOKPROBE_SYMBOL(note_received);

/*
 * Entry of tcp_event_data_recv(sk, skb), or of tcp_rcv_established(sk, skb). The route is read
 * when data is received, since it only matters then. In pingpong mode, only ECN can change the
 * mode here.
 */
static __always_inline void observe_received(struct sock *sk, unsigned long skb)
{
	if (!inet_csk_in_pingpong_mode(sk) || !was_seen_near_home(sk, TCPLAT_PINGPONG) ||
	    tcplat_route_is_quickack(sk) || tcplat_ecn_is_on(tcp_sk(sk)))
		note_received(sk, (const struct sk_buff *)skb);
}

/*
 * TCP_QUICKACK is about to be set, by a caller that does not hold the socket's lock yet. So the
 * socket must not be inserted here, and the owner of the lock may observe it at the same time.
 *
 * The slot is claimed with this CPU's token before the mode is read; preemption is off.
 * An observer that holds the lock overwrites the token. The mode that was read is then
 * discarded, since it may be older than the slot. A slot that has changed and changed back is
 * not mistaken for the claimed one, since no other CPU of the first 256 writes this token.
 */
static noinline void observe_unlocked(struct sock *sk)
{
	u64 token = (u64)raw_smp_processor_id() << TCPLAT_TOKEN_SHIFT;
	enum tcplat_cause expected;
	enum tcplat_mode mode;
	u64 word, claim, new;
	unsigned int state;
	u64 *slot;

	if (sk->sk_state == TCP_SYN_SENT)
		return;

	do {
		do {
			slot = tcplat_socktab_find(&table, sock_key(sk), &word);
			if (!slot)
				return;
			claim = (word & ~TCPLAT_TOKEN_MASK) | token;
		} while (!tcplat_socktab_change(slot, word, claim));
		state = word & TCPLAT_STATE_MASK;
		expected = expected_of(slot, state);
		test_between_reads(sk);
		mode = tcplat_sock_mode(sk);
		test_between_reads(sk);
		new = (claim & ~TCPLAT_STATE_MASK) | mode | TCPLAT_STATE_SETSOCKOPT |
		      tcplat_state_late(state, TCPLAT_OTHER);
		/* The change that the owner of the lock expects may be yet to come. */
		if (mode == (state & TCPLAT_STATE_MODE))
			new |= state & TCPLAT_STATE_EXPECTED;
	} while (!tcplat_socktab_change(slot, claim, new));
	compare_mode(sk, state, expected, mode);
}

NOKPROBE_SYMBOL(observe_unlocked);

/* Entry of __tcp_transmit_skb(sk, skb, clone_it, ...), socket locked. */
static void sent_entry(struct sock *sk, unsigned long skb, unsigned long clone_it)
{
	observe_sent(sk, skb);
}

NOKPROBE_SYMBOL(sent_entry);

static noinline void sent_held(struct sock *sk, unsigned long skb, unsigned long clone_it)
{
	tcplat_sndhold_sent(sk, skb, clone_it);
	observe_sent(sk, skb);
}

NOKPROBE_SYMBOL(sent_held);

/* The joint handler of the probes of ackmode and sndhold. */
static void sent_with_sndhold(struct sock *sk, unsigned long skb, unsigned long clone_it)
{
	if (tcplat_may_hold(sk))
		sent_held(sk, skb, clone_it);
	else
		observe_sent(sk, skb);
}

NOKPROBE_SYMBOL(sent_with_sndhold);

/* Entry of tcp_event_data_recv(sk, skb), or of tcp_rcv_established(sk, skb), socket locked. */
static void received_entry(struct sock *sk, unsigned long skb, unsigned long arg2)
{
	observe_received(sk, skb);
}

NOKPROBE_SYMBOL(received_entry);

static noinline void received_owing(struct sock *sk, unsigned long skb)
{
	tcplat_delack_keep_oldest(sk);
	observe_received(sk, skb);
}

NOKPROBE_SYMBOL(received_owing);

/* The joint handler of the probes of ackmode and delack. */
static void received_with_delack(struct sock *sk, unsigned long skb, unsigned long arg2)
{
	if (tcplat_delack_owes(sk))
		received_owing(sk, skb);
	else
		observe_received(sk, skb);
}

NOKPROBE_SYMBOL(received_with_delack);

static noinline void note_queued(struct sock *sk, const struct sk_buff *skb,
				 enum tcplat_mode mode)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	enum tcplat_cause next;
	struct tcplat_ack ack;
	struct tcplat_queued q = {
		.seq = TCP_SKB_CB(skb)->seq,
		.end_seq = TCP_SKB_CB(skb)->end_seq,
		.rcv_nxt = tp->rcv_nxt,
		.window = tcp_receive_window(tp),
		.ecn = tcplat_ecn_calls(sk, skb),
		.over = atomic_read(&sk->sk_rmem_alloc) > sk->sk_rcvbuf,
	};

	read_ack(sk, mode, &ack);
	ack.may_grow = mode == TCPLAT_DELAYED && tcp_is_sack(tp) && tcplat_may_grow(sk);
	next = tcplat_expect_queued(&ack, &q);
	if (next)
		expect_cause(sk, next, mode,
			     mode == TCPLAT_QUICKACK ? TCPLAT_DELAYED : TCPLAT_QUICKACK);
}

NOKPROBE_SYMBOL(note_queued);

/*
 * Entry of tcp_data_queue(sk, skb), socket locked: segments that header prediction does not
 * handle. This is not an event: it only stores the cause of a change before the next event.
 */
static void queue_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct sk_buff *skb = (const struct sk_buff *)arg1;
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	tcplat_inc(&tcplat_ackmode, HITS_QUEUE);
	/* Data in order, the usual case, can only change the budget of quick ACKs. */
	if (mode != TCPLAT_QUICKACK && TCP_SKB_CB(skb)->seq == tp->rcv_nxt &&
	    tcp_receive_window(tp))
		return;
	if (TCP_SKB_CB(skb)->seq != TCP_SKB_CB(skb)->end_seq)
		note_queued(sk, skb, mode);
}

NOKPROBE_SYMBOL(queue_entry);

/* Entry of tcp_send_dupack(sk, skb), socket locked. */
static void dupack_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcp_skb_cb *cb = TCP_SKB_CB((const struct sk_buff *)arg1);
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);

	tcplat_inc(&tcplat_ackmode, HITS_DUPACK);
	if (cb->end_seq != cb->seq && before(cb->seq, tcp_sk(sk)->rcv_nxt) &&
	    mode != TCPLAT_QUICKACK)
		expect_cause(sk, TCPLAT_CAUSE_DUPLICATE, mode, TCPLAT_QUICKACK);
}

NOKPROBE_SYMBOL(dupack_entry);

/* Entry of tcp_fin(sk), socket locked. */
static void fin_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	enum tcplat_mode mode = tcplat_sock_own_mode(sk);

	tcplat_inc(&tcplat_ackmode, HITS_FIN);
	if (mode != TCPLAT_PINGPONG &&
	    ((1 << sk->sk_state) & (TCPF_SYN_RECV | TCPF_ESTABLISHED)))
		expect_cause(sk, TCPLAT_CAUSE_FIN, mode, TCPLAT_PINGPONG);
}

NOKPROBE_SYMBOL(fin_entry);

/* Entry of tcp_delack_timer_handler(sk), socket locked. */
static void timer_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_TIMER);
	observe(sk, TCPLAT_OTHER, tcplat_delack_sends_ack(sk) ? TCPLAT_STATE_TIMEOUT : 0);
}

NOKPROBE_SYMBOL(timer_entry);

static __always_inline void set_quickack(struct sock *sk)
{
	tcplat_inc(&tcplat_ackmode, SETSOCKOPT);
	observe_unlocked(sk);
}

/*
 * Entry of do_tcp_setsockopt(sk, level, optname, ...), or tcp_setsockopt() which has
 * the same first arguments.
 */
static void setsockopt_entry(struct sock *sk, unsigned long level, unsigned long optname)
{
	tcplat_inc(&tcplat_ackmode, HITS_SETSOCKOPT);
	/* Both are int: the upper halves of the registers are undefined. */
	if ((int)level == SOL_TCP && (int)optname == TCP_QUICKACK)
		set_quickack(sk);
}

NOKPROBE_SYMBOL(setsockopt_entry);

/* Entry of tcp_sock_set_quickack(sk, val), which kernel users call. */
static void set_quickack_entry(struct sock *sk, unsigned long val, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_SET_QUICKACK);
	set_quickack(sk);
}

NOKPROBE_SYMBOL(set_quickack_entry);

/*
 * Whether tcp_rcv_synsent_state_process(), which is about to call tcp_init_transfer(), will hold
 * back the ACK of the handshake.
 */
static bool handshake_waits(struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED &&
	       (sk->sk_write_pending || inet_csk_in_pingpong_mode(sk) ||
		READ_ONCE(inet_csk(sk)->icsk_accept_queue.rskq_defer_accept));
}

/*
 * Entry of tcp_init_transfer(sk, ...), socket locked: a connection begins, in mode delayed. If
 * the socket is in the table, it had another connection before, which ended when
 * tcp_disconnect() reset its mode.
 *
 * If the socket is in pingpong mode already, TCP_QUICKACK 0 was set, perhaps on the listener.
 */
static void birth_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u64 key = sock_key(sk);
	u64 word, *slot;

	tcplat_inc(&tcplat_ackmode, HITS_BIRTH);
	if (!tcplat_socktab_sets_are_empty(&table, key) &&
	    tcplat_socktab_remove(&table, key, &word))
		tcplat_inc(&tcplat_ackmode, DIED + (word & TCPLAT_STATE_MODE));
	tcplat_inc(&tcplat_ackmode, BORN);
	slot = insert_sock(sk, TCPLAT_DELAYED |
			       (inet_csk_in_pingpong_mode(sk) ? TCPLAT_STATE_SETSOCKOPT : 0));
	if (!slot)
		tcplat_inc(&tcplat_ackmode, UNTRACKED);
	else if (handshake_waits(sk))
		set_expected(slot, key, TCPLAT_CAUSE_HANDSHAKE);
}

NOKPROBE_SYMBOL(birth_entry);

/* Entry of tcp_v4_destroy_sock(sk), which IPv6 uses too. The socket has no other users. */
static void destroy_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	enum tcplat_mode mode = tcplat_sock_mode(sk);
	enum tcplat_cause expected;
	unsigned int state;
	u64 word, *slot;

	tcplat_inc(&tcplat_ackmode, HITS_DESTROY);
	slot = tcplat_socktab_find(&table, sock_key(sk), &word);
	if (!slot)
		return;
	/* Only tcp_disconnect() sets this to 0. */
	expected = !inet_csk(sk)->icsk_ack.lrcvtime ? TCPLAT_CAUSE_DISCONNECT :
						      expected_of(slot, word);
	state = tcplat_socktab_remove_at(&table, slot) & TCPLAT_STATE_MASK;
	compare_mode(sk, state, expected, mode);
	tcplat_inc(&tcplat_ackmode, DIED + mode);
}

NOKPROBE_SYMBOL(destroy_entry);

/* Index of the probe that sees incoming data. */
#define RECEIVED	1

static struct tcplat_probe ackmode_probes[] = {
	{
		.symbol = "__tcp_transmit_skb",
		.entry = sent_entry,
		.joint = sent_with_sndhold,
		.hits = TCPLAT_NO_HITS,
	},
	[RECEIVED] = {
		.symbol = "tcp_event_data_recv",
		.fallback = "tcp_rcv_established",
		.entry = received_entry,
		.joint = received_with_delack,
		.hits = TCPLAT_NO_HITS,
	},
	{
		.symbol = "tcp_init_transfer",
		.entry = birth_entry,
		.hits = HITS_BIRTH,
	},
	{
		.symbol = "tcp_v4_destroy_sock",
		.entry = destroy_entry,
		.hits = HITS_DESTROY,
	},
	{
		.symbol = "tcp_delack_timer_handler",
		.entry = timer_entry,
		.hits = HITS_TIMER,
	},
	{
		.symbol = "do_tcp_setsockopt",
		.fallback = "tcp_setsockopt",
		.entry = setsockopt_entry,
		.hits = HITS_SETSOCKOPT,
	},
	{
		.symbol = "tcp_sock_set_quickack",
		.entry = set_quickack_entry,
		.hits = HITS_SET_QUICKACK,
	},
	/* Without one of these, changes whose cause it would tell are counted as unexplained. */
	{
		.symbol = "tcp_data_queue",
		.entry = queue_entry,
		.optional = true,
		.hits = HITS_QUEUE,
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

/**
 * tcplat_ackmode_sees_data() - whether ackmode sees the data that follows a late ACK
 *
 * The entry of tcp_rcv_established() is not enough: the kernel also calls it for segments
 * without data, and before it has parsed the segment's timestamp.
 *
 * Context: any, after tcplat_probes_init().
 * Return: true if delack can count stalls
 */
bool tcplat_ackmode_sees_data(void)
{
	const struct tcplat_probe *probe = &ackmode_probes[RECEIVED];

	return !tcplat_ackmode.missing_symbol && probe->found == probe->symbol;
}

/* Number of changes from @from to @to by @cause; TCPLAT_MODES and TCPLAT_CAUSES mean any. */
static u64 sum_changes(unsigned int from, unsigned int to, unsigned int cause)
{
	unsigned int f, t, c;
	u64 sum = 0;

	for (f = 0; f < TCPLAT_MODES; f++)
		for (t = 0; t < TCPLAT_MODES; t++)
			for (c = 0; c < TCPLAT_CAUSES; c++)
				if ((from == f || from == TCPLAT_MODES) &&
				    (to == t || to == TCPLAT_MODES) &&
				    (cause == c || cause == TCPLAT_CAUSES))
					sum += tcplat_sum(&tcplat_ackmode, change_index(f, t, c));
	return sum;
}

#define CHANGES(_name, _from, _to, _cause)				\
static u64 _name(const struct tcplat_group *group)			\
{									\
	return sum_changes(TCPLAT_##_from, TCPLAT_##_to, TCPLAT_##_cause); \
}

CHANGES(quickack_enters, MODES, QUICKACK, CAUSES)
CHANGES(quickack_exits, QUICKACK, MODES, CAUSES)
CHANGES(pingpong_enters, MODES, PINGPONG, CAUSES)
CHANGES(pingpong_exits, PINGPONG, MODES, CAUSES)
CHANGES(route_enters, MODES, ROUTE, CAUSES)
CHANGES(route_exits, ROUTE, MODES, CAUSES)
CHANGES(pingpong_exits_timeout, PINGPONG, MODES, CAUSE_TIMEOUT)
CHANGES(pingpong_exits_setsockopt, PINGPONG, MODES, CAUSE_SETSOCKOPT)
CHANGES(quickack_enters_setsockopt, MODES, QUICKACK, CAUSE_SETSOCKOPT)
CHANGES(pingpong_enters_setsockopt, MODES, PINGPONG, CAUSE_SETSOCKOPT)
CHANGES(unexplained, MODES, MODES, CAUSE_NONE)
CHANGES(cause_timeout, MODES, MODES, CAUSE_TIMEOUT)
CHANGES(cause_setsockopt, MODES, MODES, CAUSE_SETSOCKOPT)
CHANGES(cause_first, MODES, MODES, CAUSE_FIRST)
CHANGES(cause_gap, MODES, MODES, CAUSE_GAP)
CHANGES(cause_duplicate, MODES, MODES, CAUSE_DUPLICATE)
CHANGES(cause_ecn, MODES, MODES, CAUSE_ECN)
CHANGES(cause_handshake, MODES, MODES, CAUSE_HANDSHAKE)
CHANGES(cause_budget, MODES, MODES, CAUSE_BUDGET)
CHANGES(cause_answer, MODES, MODES, CAUSE_ANSWER)
CHANGES(cause_fin, MODES, MODES, CAUSE_FIN)
CHANGES(cause_window, MODES, MODES, CAUSE_WINDOW)
CHANGES(cause_route, MODES, MODES, CAUSE_ROUTE)
CHANGES(cause_disconnect, MODES, MODES, CAUSE_DISCONNECT)

static u64 tracked(const struct tcplat_group *group)
{
	return tcplat_socktab_used(&table);
}

/* Always 0, since the table evicts nothing any more; kept because it is part of ABI 1. */
static u64 evictions(const struct tcplat_group *group)
{
	return 0;
}

static const struct tcplat_file ackmode_files[] = {
	TCPLAT_VALUE("quickack_enters", quickack_enters),
	TCPLAT_VALUE("quickack_exits", quickack_exits),
	TCPLAT_VALUE("pingpong_enters", pingpong_enters),
	TCPLAT_VALUE("pingpong_exits", pingpong_exits),
	TCPLAT_VALUE("pingpong_exits_timeout", pingpong_exits_timeout),
	TCPLAT_VALUE("pingpong_exits_setsockopt", pingpong_exits_setsockopt),
	TCPLAT_VALUE("quickack_enters_setsockopt", quickack_enters_setsockopt),
	TCPLAT_VALUE("pingpong_enters_setsockopt", pingpong_enters_setsockopt),
	TCPLAT_VALUE("route_enters", route_enters),
	TCPLAT_VALUE("route_exits", route_exits),
	TCPLAT_VALUE("cause_timeout", cause_timeout),
	TCPLAT_VALUE("cause_setsockopt", cause_setsockopt),
	TCPLAT_VALUE("cause_first", cause_first),
	TCPLAT_VALUE("cause_gap", cause_gap),
	TCPLAT_VALUE("cause_duplicate", cause_duplicate),
	TCPLAT_VALUE("cause_ecn", cause_ecn),
	TCPLAT_VALUE("cause_handshake", cause_handshake),
	TCPLAT_VALUE("cause_budget", cause_budget),
	TCPLAT_VALUE("cause_answer", cause_answer),
	TCPLAT_VALUE("cause_fin", cause_fin),
	TCPLAT_VALUE("cause_window", cause_window),
	TCPLAT_VALUE("cause_route", cause_route),
	TCPLAT_VALUE("cause_disconnect", cause_disconnect),
	TCPLAT_VALUE("unexplained", unexplained),
	TCPLAT_SUM("setsockopt", SETSOCKOPT),
	TCPLAT_VALUE("tracked", tracked),
	TCPLAT_SUM("untracked", UNTRACKED),
	TCPLAT_SUM("untracked_events", UNTRACKED_EVENTS),
	TCPLAT_VALUE("evictions", evictions),
};

static const char * const mode_names[] = { "delayed", "quickack", "pingpong", "route" };
static const char * const cause_names[] = {
	"none", "timeout", "setsockopt", "first", "gap", "duplicate", "ecn", "handshake",
	"budget", "answer", "fin", "window", "route", "disconnect",
};

static void modes_show(struct seq_file *seq, const char *what, unsigned int first)
{
	unsigned int mode;

	for (mode = 0; mode < TCPLAT_MODES; mode++)
		seq_printf(seq, "%s %s %llu\n", what, mode_names[mode],
			   tcplat_sum(&tcplat_ackmode, first + mode));
}

/* Adds the number of sockets in the table in each mode, as last seen, to @by_mode. */
static void count_modes(u64 by_mode[TCPLAT_STATE_MODE + 1])
{
	unsigned long i;
	unsigned int j;
	u64 word;

	for (i = 0; i < tcplat_socktab_slots(&table); i += TCPLAT_SET_SLOTS) {
		if (!(i % 4096))
			cond_resched();
		if (tcplat_socktab_set_is_empty(&table.slots[i]))
			continue;
		for (j = 0; j < TCPLAT_SET_SLOTS; j++) {
			word = READ_ONCE(table.slots[i + j]);
			if (word)
				by_mode[word & TCPLAT_STATE_MODE]++;
		}
	}
}

static void live_show(struct seq_file *seq)
{
	u64 live[TCPLAT_STATE_MODE + 1] = {};
	unsigned int mode;

	count_modes(live);
	for (mode = 0; mode < TCPLAT_MODES; mode++)
		seq_printf(seq, "live %s %llu\n", mode_names[mode], live[mode]);
}

static int transitions_show(struct seq_file *seq, void *unused)
{
	unsigned int from, to, cause;

	BUILD_BUG_ON(ARRAY_SIZE(cause_names) != TCPLAT_CAUSES);
	seq_puts(seq, "# from to cause count\n");
	for (from = 0; from < TCPLAT_MODES; from++)
		for (to = 0; to < TCPLAT_MODES; to++)
			for (cause = 0; from != to && cause < TCPLAT_CAUSES; cause++)
				if (!cause || tcplat_explains(cause, from, to))
					seq_printf(seq, "%s %s %s %llu\n", mode_names[from],
						   mode_names[to], cause_names[cause],
						   sum_changes(from, to, cause));
	seq_puts(seq, "# sockets by mode: born + adopted + enters = exits + died + forgotten + live\n");
	seq_printf(seq, "born delayed %llu\n", tcplat_sum(&tcplat_ackmode, BORN));
	modes_show(seq, "adopted", ADOPTED);
	modes_show(seq, "died", DIED);
	modes_show(seq, "forgotten", FORGOTTEN);
	live_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(transitions);

static const struct tcplat_debug ackmode_debug[] = {
	{ "transitions", &transitions_fops },
};

/*
 * The kernel sizes its table of established sockets by the machine's memory: one bucket for
 * each 128 KiB, at most 524,288. With 64 GB or more, the tables here then take 25 MB.
 */
static unsigned int default_sockets(void)
{
	return clamp_t(unsigned int, tcplat_tcp_hashinfo()->ehash_mask + 1UL,
		       SOCKETS_DEFAULT, SOCKETS_MAX);
}

static int ackmode_init(struct tcplat_group *group)
{
	int err;

	if (!sockets)
		sockets = default_sockets();
	err = tcplat_socktab_alloc(&table, sockets, sizeof(struct record));
	if (err)
		pr_err("sockets=%u: cannot allocate %lu bytes\n", sockets,
		       tcplat_socktab_slots(&table) *
		       (sizeof(*table.slots) + sizeof(struct record)));
	return err;
}

static void ackmode_exit(struct tcplat_group *group)
{
	tcplat_socktab_free(&table);
}

/* Changes while the group is off are not seen, so forget all sockets. */
static void ackmode_stop(struct tcplat_group *group)
{
	u64 forgotten[TCPLAT_STATE_MODE + 1] = {};
	unsigned int mode;

	count_modes(forgotten);
	for (mode = 0; mode < TCPLAT_MODES; mode++)
		tcplat_add(group, FORGOTTEN + mode, forgotten[mode]);
	tcplat_socktab_clear(&table);
}

struct tcplat_group tcplat_ackmode = {
	.name = "ackmode",
	.probes = ackmode_probes,
	.nr_probes = ARRAY_SIZE(ackmode_probes),
	.nr_counters = NR_COUNTERS,
	.files = ackmode_files,
	.nr_files = ARRAY_SIZE(ackmode_files),
	.debug = ackmode_debug,
	.nr_debug = ARRAY_SIZE(ackmode_debug),
	.init = ackmode_init,
	.exit = ackmode_exit,
	.stop = ackmode_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/ackmode-kunit.h"
#endif
