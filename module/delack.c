// SPDX-License-Identifier: GPL-2.0
/* delack: ACKs that waited for the delayed-ACK timer, and their delays. */
#include <linux/atomic.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>
#include <net/tcp.h>

#include "delack.h"
#include "jiffies.h"
#include "tcplat.h"
#include "trace.h"

/* In microseconds, the same at every HZ, so that histograms of several hosts can be added. */
static const u64 delay_le_us[] = {
	1000, 2000, 4000, 8000, 10000, 20000, 30000, 40000, 50000, 60000,
	80000, 100000, 120000, 160000, 200000,
};

/* One bucket per jiffy up to the longest delay that the kernel asks for, and one beyond. */
#define DELAY_JIFFY_BUCKETS	(HZ / 5 + 2)

enum {
	HITS_EXPIRY,
	TIMEOUTS,
	TIMEOUTS_PINGPONG,
	TIMEOUTS_UNREAD,
	DELAY_JIFFIES,
	DELAY_MAX_JIFFIES,
	LATE_JIFFIES,
	LATE_MAX_JIFFIES,
	STALLS,
	STALL_JIFFIES,
	STALL_EVICTIONS,
	DELAY_EVICTIONS,
	DELAY_HIST,
	DELAY_JIFFY = DELAY_HIST + ARRAY_SIZE(delay_le_us) + 1,
	NR_COUNTERS = DELAY_JIFFY + DELAY_JIFFY_BUCKETS,
};

/*
 * The table of the times when a socket's oldest unacknowledged data was received. The kernel
 * stores the time of the last data only, so the time of the first data is stored here once data
 * is received in a later jiffy. If a socket has no word in the table, all of its unacknowledged
 * data was received in the jiffy lrcvtime.
 *
 * A word consists of a tag of the socket's address (14 bits), rcv_wup (32 bits), and the low 18
 * bits of the jiffy. Each ACK of new data changes rcv_wup, which invalidates the word, so the
 * table need not see sockets being created or destroyed. Another socket's word matches with a
 * probability of 2^-46. An old word of the same socket, or of an earlier socket at the same
 * address, matches if rcv_wup is the same by chance: 2^-32. A false match makes one delay wrong.
 * 18 bits of a jiffy are enough because the timer was set when the oldest data was received: its
 * expiry is at most HZ/2 jiffies later, whatever else delays the ACK. Only if the kernel has no
 * memory for the ACK, it sets the timer again, up to TCP_RTO_MAX (120 s) ahead. The data may also
 * be later than the expiry: an ACK of DCTCP for earlier data changes rcv_wup, but leaves the timer.
 * So the distance is signed: at 1000 Hz the delay is right up to 131 s.
 *
 * A word is in use for as long as an ACK is delayed, 40 to 200 ms unless memory runs out. With
 * 4,096 of the 16,384 words in use (2 in a set of 8 on average), 2 in 10,000 sets are too small.
 * This allows for 20,000 to 100,000 such ACKs per second. A full set evicts its oldest word, which
 * is most likely unused; evictions of words that may be in use are counted in delay_evictions.
 */
#define OWED_SETS_SHIFT		11
#define OWED_SET_WORDS		(L1_CACHE_BYTES / sizeof(u64))

#define OWED_JIFFY_MASK		(BIT(18) - 1)
#define OWED_WUP_SHIFT		18
#define OWED_TAG_SHIFT		(OWED_WUP_SHIFT + 32)

/* The kernel sets the timer at most this many jiffies ahead, unless memory runs out. */
#define OWED_MAX_AGE		(HZ / 2)

struct owed_set {
	u64 words[OWED_SET_WORDS];
};

static struct owed_set *owed __read_mostly;

static __always_inline struct owed_set *owed_set_of(u64 hash)
{
	return &owed[hash >> (64 - OWED_SETS_SHIFT)];
}

/* The word of a socket; the bits for the jiffy are 0. */
static __always_inline u64 owed_word(const struct sock *sk, u64 hash)
{
	return hash >> (OWED_TAG_SHIFT - OWED_SETS_SHIFT) << OWED_TAG_SHIFT |
	       (u64)tcp_sk(sk)->rcv_wup << OWED_WUP_SHIFT;
}

/*
 * Stores the time of the oldest unacknowledged data. tcplat_delack_owes() is true for the socket,
 * which is locked.
 */
static void __kprobes keep_oldest(const struct sock *sk)
{
	u64 hash = tcplat_sock_hash(sk), new = owed_word(sk, hash);
	u32 now = tcp_jiffies32;
	u64 *words = owed_set_of(hash)->words;
	u64 word, old, *slot;
	unsigned int i;
	u32 age, max_age;

	new |= inet_csk(sk)->icsk_ack.lrcvtime & OWED_JIFFY_MASK;
	do {
		slot = NULL;
		for (i = 0; i < OWED_SET_WORDS; i++) {
			word = READ_ONCE(words[i]);
			if (!((word ^ new) >> OWED_WUP_SHIFT))
				return;
			/* Replace this socket's old word, else a free one, else the oldest. */
			age = !((word ^ new) >> OWED_TAG_SHIFT) ? OWED_JIFFY_MASK + 2 :
			      !word ? OWED_JIFFY_MASK + 1 : (now - word) & OWED_JIFFY_MASK;
			if (!slot || age > max_age) {
				slot = &words[i];
				old = word;
				max_age = age;
			}
		}
	} while (cmpxchg(slot, old, new) != old);
	if (max_age <= OWED_MAX_AGE)
		tcplat_inc(&tcplat_delack, DELAY_EVICTIONS);
}

/* Whether @sk has a word; if so, *@since is set to the jiffy of its oldest data. */
static bool __kprobes owed_since(const struct sock *sk, u32 *since)
{
	u64 hash = tcplat_sock_hash(sk), own = owed_word(sk, hash);
	const u64 *words = owed_set_of(hash)->words;
	u32 expiry = tcplat_delack_timeout(inet_csk(sk));
	unsigned int i;
	u64 word;

	for (i = 0; i < OWED_SET_WORDS; i++) {
		word = READ_ONCE(words[i]);
		if (!((word ^ own) >> OWED_WUP_SHIFT)) {
			*since = expiry - sign_extend32(expiry - word, OWED_WUP_SHIFT - 1);
			return true;
		}
	}
	return false;
}

/*
 * How long the oldest data has waited until @now for the ACK that the timer is about to send, in
 * jiffies. *@pieces tells whether data was received at different times. If only a FIN is to be
 * acknowledged, the last data may be hours old; use the time of the last segment, which is no
 * earlier than that of the FIN.
 */
static u32 __kprobes ack_delay(const struct sock *sk, unsigned long now, bool *pieces)
{
	u32 since;

	*pieces = owed_since(sk, &since);
	if (tcplat_owes_nothing(sk)) {
		/* No data follows that the peer held back. */
		*pieces = true;
		return 0;
	}
	if (tcplat_owes_only_fin(sk))
		since = tcp_sk(sk)->rcv_tstamp;
	else if (!*pieces)
		since = inet_csk(sk)->icsk_ack.lrcvtime;
	return tcplat_jiffies32_since(now, since);
}

static bool sees_data(void);

/**
 * tcplat_delack_received() - handler at the entry of tcp_event_data_recv(sk, skb), or, if this
 * kernel lacks it, of tcp_rcv_established(sk, skb)
 * @sk: the socket, locked
 * @arg1: the struct sk_buff that was received
 * @arg2: not used
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_delack_received(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u32 delay;

	if (tcplat_delack_owes(sk))
		keep_oldest(sk);
	if (!tcplat_is_late(sk) || !sees_data() ||
	    !tcplat_stall_end(sk, (const struct sk_buff *)arg1, &delay))
		return;
	tcplat_inc(&tcplat_delack, STALLS);
	tcplat_add(&tcplat_delack, STALL_JIFFIES, delay);
	trace_ack_stall(sk, delay);
}

/*
 * A late ACK is about to be sent. If the data since the last ACK was received at different times,
 * the peer sent the later data without waiting for an ACK of the earlier data, so it does not
 * wait for this ACK either. All of this data fits in one full segment, or an ACK would have been
 * sent at once, and Nagle's algorithm does not allow two smaller segments in flight.
 */
static void __kprobes note_late_ack(struct sock *sk, u32 delay, bool pieces, bool unread)
{
	if (unread)
		tcplat_inc(&tcplat_delack, TIMEOUTS_UNREAD);
	else if (!pieces && sees_data() && !tcplat_stall_begin(sk, delay))
		tcplat_inc(&tcplat_delack, STALL_EVICTIONS);
}

/* Entry of tcp_delack_timer_handler(sk), called by the timer or tcp_release_cb(), socket locked. */
static void __kprobes expiry_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcplat_group *group = &tcplat_delack;
	unsigned long now;
	u32 delay, late;
	u64 delay_us;
	bool pieces, unread;

	tcplat_inc(group, HITS_EXPIRY);
	if (!tcplat_delack_sends_ack(sk))
		return;

	/* Read once: after a tick between two reads, delay and late would not match. */
	now = jiffies;
	delay = ack_delay(sk, now, &pieces);
	late = tcplat_delack_lateness(now, tcplat_delack_timeout(inet_csk(sk)), delay);
	delay_us = tcplat_jiffies_to_us(delay);
	tcplat_inc_before_mib(group, TIMEOUTS);
	if (inet_csk_in_pingpong_mode(sk))
		tcplat_inc(group, TIMEOUTS_PINGPONG);
	tcplat_add(group, DELAY_JIFFIES, delay);
	tcplat_note_max(group, DELAY_MAX_JIFFIES, delay);
	tcplat_add(group, LATE_JIFFIES, late);
	tcplat_note_max(group, LATE_MAX_JIFFIES, late);
	tcplat_inc(group, DELAY_HIST +
		   tcplat_bucket(delay_le_us, ARRAY_SIZE(delay_le_us) + 1, delay_us));
	tcplat_inc(group, DELAY_JIFFY + min_t(u32, delay, DELAY_JIFFY_BUCKETS - 1));
	unread = tcplat_delack_unread(sk);
	note_late_ack(sk, delay, pieces, unread);
	trace_delack_timeout(sk, delay, late, unread);
}

static struct tcplat_probe delack_probes[] = {
	{
		.symbol = "tcp_event_data_recv",
		/* Called for each segment of an established connection, but in no other state. */
		.fallback = "tcp_rcv_established",
		.entry = tcplat_delack_received,
		.hot = TCPLAT_HOT_RECEIVED,
	},
	{
		.symbol = "tcp_delack_timer_handler",
		.entry = expiry_entry,
		.hits = HITS_EXPIRY,
	},
};

/*
 * Whether the probe sees the data that follows a late ACK. The entry of tcp_rcv_established() is
 * not enough: the kernel also calls it for segments without data, and before it has parsed the
 * segment's timestamp.
 */
static bool __kprobes sees_data(void)
{
	return delack_probes[0].found == delack_probes[0].symbol;
}

static const struct tcplat_file delack_files[] = {
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_SUM("timeouts_pingpong", TIMEOUTS_PINGPONG),
	TCPLAT_SUM("timeouts_unread", TIMEOUTS_UNREAD),
	TCPLAT_UNSEEN("timeouts_unseen", TIMEOUTS, LINUX_MIB_DELAYEDACKS),
	/*
	 * No probe could count them all. The timer calls no function when it defers an expiry; a
	 * return probe misses hits; and the handler that tcp_release_cb() calls later runs once for
	 * any number of expiries, and also for deferred compressed SACKs.
	 */
	TCPLAT_MIB("deferred", LINUX_MIB_DELAYEDACKLOCKED),
	TCPLAT_SUM("delay_jiffies", DELAY_JIFFIES),
	TCPLAT_JIFFIES_US("delay_us", DELAY_JIFFIES),
	TCPLAT_MAX("delay_max_jiffies", DELAY_MAX_JIFFIES),
	TCPLAT_SUM("late_jiffies", LATE_JIFFIES),
	TCPLAT_JIFFIES_US("late_us", LATE_JIFFIES),
	TCPLAT_MAX("late_max_jiffies", LATE_MAX_JIFFIES),
	TCPLAT_SUM("delay_evictions", DELAY_EVICTIONS),
	TCPLAT_SUM("stalls", STALLS, .available = sees_data),
	TCPLAT_JIFFIES_US("stall_us", STALL_JIFFIES, .available = sees_data),
	TCPLAT_SUM("stall_evictions", STALL_EVICTIONS, .available = sees_data),
	TCPLAT_HIST("delay_hist", "_us", delay_le_us, DELAY_HIST),
};

static void delay_jiffies_show(struct seq_file *seq)
{
	unsigned int i;

	seq_puts(seq, "# jiffies count; the last line counts all longer delays\n");
	for (i = 0; i < DELAY_JIFFY_BUCKETS; i++)
		seq_printf(seq, "%s%u %llu\n", i < DELAY_JIFFY_BUCKETS - 1 ? "" : ">",
			   i < DELAY_JIFFY_BUCKETS - 1 ? i : i - 1,
			   tcplat_sum(&tcplat_delack, DELAY_JIFFY + i));
}

static int delack_alloc(struct tcplat_group *group)
{
	owed = tcplat_table_alloc(1UL << OWED_SETS_SHIFT, sizeof(*owed));
	return owed ? tcplat_stalls_alloc() : -ENOMEM;
}

static void delack_stop(struct tcplat_group *group)
{
	tcplat_stalls_free();
	vfree(owed);
	owed = NULL;
}

struct tcplat_group tcplat_delack = {
	TCPLAT_TABLES(delack),
	.debug = "delay_jiffies",
	.debug_show = delay_jiffies_show,
	.alloc = delack_alloc,
	.stop = delack_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/delack-kunit.h"
#endif
