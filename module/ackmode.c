// SPDX-License-Identifier: GPL-2.0
/*
 * ackmode: how often sockets change between delayed ACKs, quick ACKs and pingpong.
 *
 * What changes the mode is inlined all over TCP, so its writers cannot be watched.
 * Instead each socket's mode is read wherever ACKs are decided, and compared with
 * what was seen there last, which the socket table remembers.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/log2.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/tcp.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include <net/tcp.h>

#include "ackmode.h"
#include "delack.h"
#include "sndhold.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

#define SOCKETS_MIN	1024
#define SOCKETS_MAX	(16 * 1024 * 1024)

static unsigned int sockets = 65536;

static int sockets_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;

	if (kstrtouint(val, 0, &n) || n < SOCKETS_MIN || n > SOCKETS_MAX) {
		pr_err("sockets=%s: takes a number from %d to %d\n",
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
MODULE_PARM_DESC(sockets, "How many sockets ackmode can follow at once, rounded up to a power of two (1024 to 16777216, default 65536; 24 bytes each)");

enum {
	HITS_DESTROY,
	HITS_BIRTH,
	HITS_TIMER,
	HITS_SETSOCKOPT,
	HITS_SET_QUICKACK,
	SETSOCKOPT,
	INSERTED,
	REMOVED,
	BORN,
	ADOPTED,
	EVICTED = ADOPTED + TCPLAT_MODES,
	FORGOTTEN = EVICTED + TCPLAT_MODES,
	DIED = FORGOTTEN + TCPLAT_MODES,
	CHANGED = DIED + TCPLAT_MODES,
	NR_COUNTERS = CHANGED + TCPLAT_MODES * TCPLAT_MODES * TCPLAT_CAUSES,
};

static struct tcplat_socktab table __read_mostly;

/*
 * For each slot of the table what is known of its socket's last delayed-ACK timeout. Only
 * who holds that socket's lock writes it or goes by it. Where the table is too small and
 * gives the slot to another socket meanwhile, that one's next stall may be misjudged.
 */
static struct tcplat_late *late __read_mostly;

static unsigned int changed(enum tcplat_mode from, enum tcplat_mode to,
			    enum tcplat_cause cause)
{
	return CHANGED + (from * TCPLAT_MODES + to) * TCPLAT_CAUSES + cause;
}

static __always_inline u64 sock_key(const struct sock *sk)
{
	return (unsigned long)sk;
}

/* The socket was last seen in @state and is in mode @to now. */
static __always_inline void count_change(struct sock *sk, unsigned int state,
					 enum tcplat_mode to)
{
	enum tcplat_mode from = state & TCPLAT_STATE_MODE;
	enum tcplat_cause cause;

	if (from == to)
		return;
	cause = tcplat_cause(state, to);
	tcplat_inc(&tcplat_ackmode, changed(from, to, cause));
	trace_ack_mode(sk, from, to, cause);
}

static void insert(u64 word)
{
	u64 out = tcplat_socktab_insert(&table, word);

	tcplat_inc(&tcplat_ackmode, INSERTED);
	if (out) {
		tcplat_inc(&tcplat_ackmode, REMOVED);
		tcplat_inc(&tcplat_ackmode, EVICTED + (out & TCPLAT_STATE_MODE));
	}
}

NOKPROBE_SYMBOL(insert);

/* A late ACK is about to go out for the socket, which is locked, in @slot. */
static void remember(const struct sock *sk, const u64 *slot)
{
	late[slot - table.slots] = (struct tcplat_late){
		.since = READ_ONCE(tcplat_delack.armed) ? ktime_get_mono_fast_ns() : 0,
		.delay = tcplat_ack_delay(sk),
	};
}

NOKPROBE_SYMBOL(remember);

/* Data has come in, the first that happens to the socket since its late ACK. */
static void judge(const struct sock *sk, const struct tcplat_late *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ack->since || !READ_ONCE(tcplat_delack.armed))
		return;
	/* Without timestamps there is no telling when the peer sent it. */
	if (tp->rx_opt.tstamp_ok &&
	    !tcplat_echoes(tp->rx_opt.rcv_tsecr, ack->since, tcplat_usec_ts(tp)))
		return;
	if (tcplat_stalled(tcplat_ns_since(ack->since), tp->srtt_us >> 3))
		tcplat_delack_stall(ack->delay);
}

NOKPROBE_SYMBOL(judge);

/*
 * A socket that is not in the table lived before the group was enabled, or was
 * evicted: its mode is no change. Before the handshake is over it is not born yet,
 * and a closed one is not going to come back.
 */
static void adopt(struct sock *sk, u64 word)
{
	const int unborn = TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT |
			   TCPF_SYN_RECV | TCPF_NEW_SYN_RECV;

	if ((1 << sk->sk_state) & unborn)
		return;
	tcplat_inc(&tcplat_ackmode, ADOPTED + (word & TCPLAT_STATE_MODE));
	insert(word);
}

NOKPROBE_SYMBOL(adopt);

/* Something changed: @happened now, or before, or the mode; or the socket is not at home. */
static noinline void note(struct sock *sk, enum tcplat_mode mode, enum tcplat_event event,
			  unsigned int happened, bool locked)
{
	u64 key = sock_key(sk);
	struct tcplat_late ack;
	bool answered;
	u64 word, new;
	u64 *slot;

	/* If it is in the table, that is the connection it had before. */
	if (sk->sk_state == TCP_SYN_SENT)
		return;

	do {
		slot = tcplat_socktab_find(&table, key, &word);
		if (!slot) {
			if (locked)
				adopt(sk, key | mode | happened);
			if (happened & TCPLAT_STATE_TIMEOUT) {
				slot = tcplat_socktab_find(&table, key, &word);
				if (slot)
					remember(sk, slot);
			}
			return;
		}
		if (!happened && (word ^ key) == mode)
			return;
		new = key | mode | happened | tcplat_state_late(word ^ key, event);
		answered = event == TCPLAT_RECEIVED && (word ^ key) & TCPLAT_STATE_LATE;
		if (answered)
			ack = late[slot - table.slots];
	} while (!tcplat_socktab_change(slot, word, new));

	if (happened & TCPLAT_STATE_TIMEOUT)
		remember(sk, slot);
	count_change(sk, word ^ key, mode);
	if (answered)
		judge(sk, &ack);
}

NOKPROBE_SYMBOL(note);

/* An event of a socket. The usual one finds the mode as it was, and writes nothing. */
static __always_inline void observe(struct sock *sk, enum tcplat_event event,
				    unsigned int happened, bool locked)
{
	enum tcplat_mode mode = tcplat_sock_mode(sk);
	u64 key = sock_key(sk);

	if (!happened && READ_ONCE(*tcplat_socktab_home(&table, key)) == (key | mode))
		return;
	note(sk, mode, event, happened, locked);
}

/* Takes the socket out of the table. Its state there, or -1 if it was not in. */
static int take_out(struct sock *sk)
{
	u64 key = sock_key(sk);
	u64 *slot;
	u64 word;

	do {
		slot = tcplat_socktab_find(&table, key, &word);
		if (!slot)
			return -1;
	} while (!tcplat_socktab_change(slot, word, 0));

	tcplat_inc(&tcplat_ackmode, REMOVED);
	return word ^ key;
}

NOKPROBE_SYMBOL(take_out);

/* Entry of __tcp_transmit_skb(sk, ...), socket locked. */
static void sent_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	observe(sk, TCPLAT_SENT, 0, true);
}

NOKPROBE_SYMBOL(sent_entry);

static noinline void sent_held(struct sock *sk, unsigned long skb, unsigned long clone_it)
{
	tcplat_sndhold_sent(sk, skb, clone_it);
	observe(sk, TCPLAT_SENT, 0, true);
}

NOKPROBE_SYMBOL(sent_held);

/* The same for the probes of ackmode and sndhold. */
static void sent_with_sndhold(struct sock *sk, unsigned long skb, unsigned long clone_it)
{
	if (tcplat_may_hold(sk))
		sent_held(sk, skb, clone_it);
	else
		observe(sk, TCPLAT_SENT, 0, true);
}

NOKPROBE_SYMBOL(sent_with_sndhold);

/* Entry of tcp_event_data_recv(sk, ...), or of tcp_rcv_established(sk, ...), socket locked. */
static void received_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	observe(sk, TCPLAT_RECEIVED, 0, true);
}

NOKPROBE_SYMBOL(received_entry);

/* Entry of tcp_delack_timer_handler(sk), socket locked. */
static void timer_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_TIMER);
	observe(sk, TCPLAT_OTHER, tcplat_delack_sends_ack(sk) ? TCPLAT_STATE_TIMEOUT : 0, true);
}

NOKPROBE_SYMBOL(timer_entry);

/* TCP_QUICKACK is about to be set. The socket is not locked: it must not be inserted here. */
static __always_inline void set_quickack(struct sock *sk)
{
	tcplat_inc(&tcplat_ackmode, SETSOCKOPT);
	observe(sk, TCPLAT_OTHER, TCPLAT_STATE_SETSOCKOPT, false);
}

/*
 * Entry of do_tcp_setsockopt(sk, level, optname, ...), or tcp_setsockopt() which has
 * the same first arguments.
 */
static void setsockopt_entry(struct sock *sk, unsigned long level, unsigned long optname)
{
	tcplat_inc(&tcplat_ackmode, HITS_SETSOCKOPT);
	/* Both are int: what the registers have above them is anything. */
	if ((int)level == SOL_TCP && (int)optname == TCP_QUICKACK)
		set_quickack(sk);
}

NOKPROBE_SYMBOL(setsockopt_entry);

/* Entry of tcp_sock_set_quickack(sk, val), for the kernel's own users. */
static void set_quickack_entry(struct sock *sk, unsigned long val, unsigned long arg2)
{
	tcplat_inc(&tcplat_ackmode, HITS_SET_QUICKACK);
	set_quickack(sk);
}

NOKPROBE_SYMBOL(set_quickack_entry);

/*
 * Entry of tcp_init_transfer(sk, ...), socket locked: a connection begins, in mode
 * delayed. If the socket is in the table it had another connection before, which
 * ended when tcp_disconnect() wiped its mode.
 */
static void birth_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	int state;

	tcplat_inc(&tcplat_ackmode, HITS_BIRTH);
	if (!tcplat_socktab_nobody(&table, sock_key(sk))) {
		state = take_out(sk);
		if (state >= 0)
			tcplat_inc(&tcplat_ackmode, DIED + (state & TCPLAT_STATE_MODE));
	}
	tcplat_inc(&tcplat_ackmode, BORN);
	insert(sock_key(sk) | TCPLAT_DELAYED);
}

NOKPROBE_SYMBOL(birth_entry);

/* Entry of tcp_v4_destroy_sock(sk), which IPv6 uses too: nobody else uses the socket. */
static void destroy_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	enum tcplat_mode mode = tcplat_sock_mode(sk);
	int state;

	tcplat_inc(&tcplat_ackmode, HITS_DESTROY);
	state = take_out(sk);
	if (state < 0)
		return;
	count_change(sk, state, mode);
	tcplat_inc(&tcplat_ackmode, DIED + mode);
}

NOKPROBE_SYMBOL(destroy_entry);

/* Which of the probes sees what comes in. */
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
};

/**
 * tcplat_ackmode_sees_data() - whether ackmode sees data come in after a late ACK
 *
 * Not from tcp_rcv_established(): it is called for ACKs alone, too, and before the
 * kernel has read the timestamp of what came.
 *
 * Context: any, once the probes' functions have been looked for.
 * Return: true if delack can count stalls
 */
bool tcplat_ackmode_sees_data(void)
{
	const struct tcplat_probe *probe = &ackmode_probes[RECEIVED];

	return !tcplat_ackmode.lost && probe->found == probe->symbol;
}

/* Changes from @from to @to by @cause; TCPLAT_MODES and TCPLAT_CAUSES stand for any. */
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
					sum += tcplat_sum(&tcplat_ackmode, changed(f, t, c));
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
CHANGES(pingpong_exits_timeout, PINGPONG, MODES, CAUSE_TIMEOUT)
CHANGES(pingpong_exits_setsockopt, PINGPONG, MODES, CAUSE_SETSOCKOPT)
CHANGES(quickack_enters_setsockopt, MODES, QUICKACK, CAUSE_SETSOCKOPT)
CHANGES(pingpong_enters_setsockopt, MODES, PINGPONG, CAUSE_SETSOCKOPT)

/*
 * Between two readings of the leavers that are the same, it is how many there were at a
 * moment. Where sockets go all the time there may be none such, and a reader that is held
 * up misses who left meanwhile; more than the table has there never are.
 */
static u64 tracked(const struct tcplat_group *group)
{
	u64 removed = tcplat_total(group, REMOVED);
	unsigned int tries = 8;
	u64 inserted, before;

	do {
		before = removed;
		/* The leavers first: whoever has left has come. */
		smp_rmb();
		inserted = tcplat_total(group, INSERTED);
		/* And again after all who have come. */
		smp_rmb();
		removed = tcplat_total(group, REMOVED);
	} while (removed != before && --tries);

	if (inserted < before)
		return 0;
	return min_t(u64, inserted - before, tcplat_socktab_slots(&table));
}

static u64 evictions(const struct tcplat_group *group)
{
	unsigned int mode;
	u64 sum = 0;

	for (mode = 0; mode < TCPLAT_MODES; mode++)
		sum += tcplat_sum(group, EVICTED + mode);
	return sum;
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
	TCPLAT_SUM("setsockopt", SETSOCKOPT),
	TCPLAT_VALUE("tracked", tracked),
	TCPLAT_VALUE("evictions", evictions),
};

static const char * const mode_names[] = { "delayed", "quickack", "pingpong" };
static const char * const cause_names[] = { "none", "timeout", "setsockopt" };

static void modes_show(struct seq_file *seq, const char *what, unsigned int first)
{
	unsigned int mode;

	for (mode = 0; mode < TCPLAT_MODES; mode++)
		seq_printf(seq, "%s %s %llu\n", what, mode_names[mode],
			   tcplat_sum(&tcplat_ackmode, first + mode));
}

static void live_show(struct seq_file *seq)
{
	u64 live[TCPLAT_STATE_MODE + 1] = {};
	unsigned long i;

	for (i = 0; i < tcplat_socktab_slots(&table); i++) {
		u64 word = READ_ONCE(table.slots[i]);

		if (word)
			live[word & TCPLAT_STATE_MODE]++;
		if (!(i % 4096))
			cond_resched();
	}
	for (i = 0; i < TCPLAT_MODES; i++)
		seq_printf(seq, "live %s %llu\n", mode_names[i], live[i]);
}

static int transitions_show(struct seq_file *seq, void *unused)
{
	unsigned int from, to, cause;

	seq_puts(seq, "# from to cause count\n");
	for (from = 0; from < TCPLAT_MODES; from++)
		for (to = 0; to < TCPLAT_MODES; to++)
			for (cause = 0; from != to && cause < TCPLAT_CAUSES; cause++)
				seq_printf(seq, "%s %s %s %llu\n", mode_names[from],
					   mode_names[to], cause_names[cause],
					   sum_changes(from, to, cause));
	seq_puts(seq, "# sockets by mode: born + adopted + enters = exits + died + evicted + forgotten + live\n");
	seq_printf(seq, "born delayed %llu\n", tcplat_sum(&tcplat_ackmode, BORN));
	modes_show(seq, "adopted", ADOPTED);
	modes_show(seq, "died", DIED);
	modes_show(seq, "evicted", EVICTED);
	modes_show(seq, "forgotten", FORGOTTEN);
	live_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(transitions);

static const struct tcplat_debug ackmode_debug[] = {
	{ "transitions", &transitions_fops },
};

static int ackmode_init(struct tcplat_group *group)
{
	int err = tcplat_socktab_alloc(&table, sockets);

	if (!err) {
		late = tcplat_table_alloc(sockets, sizeof(*late));
		if (late)
			return 0;
		tcplat_socktab_free(&table);
		err = -ENOMEM;
	}
	pr_err("no memory for sockets=%u, %lu bytes\n", sockets,
	       (unsigned long)sockets * (sizeof(*table.slots) + sizeof(*late)));
	return err;
}

static void ackmode_exit(struct tcplat_group *group)
{
	vfree(late);
	late = NULL;
	tcplat_socktab_free(&table);
}

/* What happens to sockets while nobody looks is unknown: forget them all. */
static void ackmode_stop(struct tcplat_group *group)
{
	unsigned long i;
	u64 word;

	for (i = 0; i < tcplat_socktab_slots(&table); i++) {
		word = table.slots[i];
		table.slots[i] = 0;
		if (word) {
			tcplat_inc(group, FORGOTTEN + (word & TCPLAT_STATE_MODE));
			tcplat_inc(group, REMOVED);
		}
		if (!(i % 4096))
			cond_resched();
	}
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
