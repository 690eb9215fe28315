// SPDX-License-Identifier: GPL-2.0
/*
 * delack: ACKs that waited for the delayed-ACK timer, and their delays.
 */
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "ackmode.h"
#include "delack.h"
#include "jiffies.h"
#include "socktab.h"
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
	DEFERRED,
	DEFERRED_GONE,	/* the part of network namespaces that were removed */
	DEFERRED_SEEN,	/* the kernel's count when it was last read */
	DELAY_JIFFIES,
	DELAY_MAX_JIFFIES,
	LATE_JIFFIES,
	LATE_MAX_JIFFIES,
	STALLS,
	STALL_JIFFIES,
	DELAY_EVICTIONS,
	DELAY_HIST,
	DELAY_JIFFY = DELAY_HIST + ARRAY_SIZE(delay_le_us) + 1,
	NR_COUNTERS = DELAY_JIFFY + DELAY_JIFFY_BUCKETS,
};

static const struct tcplat_hist delay_hist = {
	.name = "delay_hist",
	.unit = "_us",
	.le = delay_le_us,
	.buckets = ARRAY_SIZE(delay_le_us) + 1,
	.first = DELAY_HIST,
};

/*
 * The table of the times when a socket's oldest unacknowledged data was received. The kernel
 * stores the time of the last data only, so the time of the first data is stored here once data
 * is received in a later jiffy. If a socket has no word in the table, all of its unacknowledged
 * data was received in the jiffy lrcvtime.
 *
 * A word consists of a tag of the socket's address (16 bits), rcv_wup (32 bits), and the low 16
 * bits of the jiffy. Each ACK of new data changes rcv_wup, which invalidates the word, so the
 * table need not see sockets being created or destroyed. Another socket's word matches with a
 * probability of 2^-48. An old word of the same socket, or of an earlier socket at the same
 * address, matches if rcv_wup is the same by chance: 2^-32. A false match makes one delay wrong.
 * 16 bits of a jiffy are enough because the timer was set when the oldest data was received: its
 * expiry is at most HZ/2 jiffies later, whatever else delays the ACK.
 *
 * A word is in use for at most as long as an ACK is delayed, 40 to 200 ms. With 4,096 of the
 * 16,384 words in use (2 in a set of 8 on average), 2 in 10,000 sets are too small. This allows
 * for 20,000 to 100,000 such ACKs per second. A full set evicts its oldest word, which is most
 * likely unused; evictions of words that may be in use are counted in delay_evictions.
 */
#define OWED_SETS_SHIFT		11
#define OWED_SET_WORDS		(L1_CACHE_BYTES / sizeof(u64))

/* The kernel sets the timer at most this many jiffies ahead. */
#define OWED_MAX_AGE		(HZ / 2)

struct owed_set {
	u64 words[OWED_SET_WORDS];
};

static struct owed_set *owed __read_mostly;

static __always_inline struct owed_set *owed_set_of(u64 hash)
{
	return &owed[hash >> (64 - OWED_SETS_SHIFT)];
}

/* The word of a socket; the low 16 bits, for the jiffy, are 0. */
static __always_inline u64 owed_word(const struct sock *sk, u64 hash)
{
	return hash >> (48 - OWED_SETS_SHIFT) << 48 | (u64)tcp_sk(sk)->rcv_wup << 16;
}

static __always_inline u64 owed_hash(const struct sock *sk)
{
	return (unsigned long)sk * GOLDEN_RATIO_64;
}

/**
 * tcplat_delack_keep_oldest() - store the time of the oldest unacknowledged data
 * @sk: the socket, locked; tcplat_delack_owes() is true for it
 *
 * Context: any.
 */
void tcplat_delack_keep_oldest(const struct sock *sk)
{
	u64 hash = owed_hash(sk), new = owed_word(sk, hash);
	u16 now = tcp_jiffies32;
	u64 *words = owed_set_of(hash)->words;
	u64 word, old, *slot;
	unsigned int i;
	u32 age, max_age;

	new |= (u16)inet_csk(sk)->icsk_ack.lrcvtime;
	do {
		slot = NULL;
		for (i = 0; i < OWED_SET_WORDS; i++) {
			word = READ_ONCE(words[i]);
			if (!((word ^ new) >> 16))
				return;
			/* Replace this socket's old word, else a free one, else the oldest. */
			age = !((word ^ new) >> 48) ? U16_MAX + 2 :
			      !word ? U16_MAX + 1 : (u16)(now - (u16)word);
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

NOKPROBE_SYMBOL(tcplat_delack_keep_oldest);

/* Whether @sk has a word; if so, *@since is set to the jiffy of its oldest data. */
static bool owed_since(const struct sock *sk, u32 *since)
{
	u64 hash = owed_hash(sk), own = owed_word(sk, hash);
	const u64 *words = owed_set_of(hash)->words;
	u32 expiry = tcplat_delack_timeout(inet_csk(sk));
	unsigned int i;
	u64 word;

	for (i = 0; i < OWED_SET_WORDS; i++) {
		word = READ_ONCE(words[i]);
		if (!((word ^ own) >> 16)) {
			*since = expiry - (u16)(expiry - (u16)word);
			return true;
		}
	}
	return false;
}

NOKPROBE_SYMBOL(owed_since);

/*
 * How long the oldest data has waited until @now for the ACK that the timer is about to send, in
 * jiffies. A FIN takes a sequence number and gets a delayed ACK like data, but the kernel does
 * not store its time. If only a FIN is to be acknowledged, the last data may be hours old; use
 * the time of the last segment, which is no earlier than that of the FIN.
 */
static u32 ack_delay(const struct sock *sk, unsigned long now)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 since;

	if (sock_flag(sk, SOCK_DONE) && tp->rcv_nxt - tp->rcv_wup == 1)
		since = tp->rcv_tstamp;
	else if (!owed_since(sk, &since))
		since = inet_csk(sk)->icsk_ack.lrcvtime;
	return tcplat_jiffies32_since(now, since);
}

NOKPROBE_SYMBOL(ack_delay);

/*
 * Entry of tcp_event_data_recv(sk, ...), socket locked. While ackmode is armed too, its joint
 * handler received_with_delack() is called instead.
 */
static void data_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	if (tcplat_delack_owes(sk))
		tcplat_delack_keep_oldest(sk);
}

NOKPROBE_SYMBOL(data_entry);

/* Entry of tcp_delack_timer_handler(sk), called by the timer or tcp_release_cb(), socket locked. */
static void expiry_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcplat_group *group = &tcplat_delack;
	unsigned long now;
	u32 delay, late;
	u64 delay_us;

	tcplat_inc(group, HITS_EXPIRY);
	if (!tcplat_delack_sends_ack(sk))
		return;

	/* Read once: after a tick between two reads, delay and late would not match. */
	now = jiffies;
	delay = ack_delay(sk, now);
	late = tcplat_delack_lateness(now, tcplat_delack_timeout(inet_csk(sk)), delay);
	delay_us = tcplat_jiffies_to_us(delay);
	tcplat_inc(group, TIMEOUTS);
	if (inet_csk_in_pingpong_mode(sk))
		tcplat_inc(group, TIMEOUTS_PINGPONG);
	tcplat_add(group, DELAY_JIFFIES, delay);
	tcplat_note_max(group, DELAY_MAX_JIFFIES, delay);
	tcplat_add(group, LATE_JIFFIES, late);
	tcplat_note_max(group, LATE_MAX_JIFFIES, late);
	tcplat_inc(group, DELAY_HIST + tcplat_bucket(delay_le_us, delay_hist.buckets, delay_us));
	tcplat_inc(group, DELAY_JIFFY + min_t(u32, delay, DELAY_JIFFY_BUCKETS - 1));
	trace_delack_timeout(sk, delay, late);
}

NOKPROBE_SYMBOL(expiry_entry);

/*
 * Deferred expiries are counted by the kernel, in LINUX_MIB_DELAYEDACKLOCKED; its count is
 * copied when the file is read. No probe could count them all. The timer calls no function when
 * it defers an expiry; a return probe misses hits; and the handler that tcp_release_cb() calls
 * later runs once for any number of expiries, and also for deferred compressed SACKs.
 */

/* A network namespace whose count is part of the sum. */
struct counted_net {
	struct list_head list;
	const struct net *net;
};

/*
 * All network namespaces. The kernel's list does not have those that are being dismantled;
 * without them the sum would decrease.
 */
static LIST_HEAD(counted_nets);
static unsigned int counted_net_id;

/* Protects counted_nets, the three DEFERRED counters of every CPU, and counting_deferred. */
static DEFINE_MUTEX(deferred_lock);
static bool counting_deferred;

static u64 deferred_in(const struct net *net, int cpu)
{
	return READ_ONCE(per_cpu_ptr(net->mib.net_statistics, cpu)
			 ->mibs[LINUX_MIB_DELAYEDACKLOCKED]);
}

/* Called under deferred_lock. No handler writes these counters, so any CPU may write them. */
static void update_deferred(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		u64 *counter = per_cpu_ptr(tcplat_delack.counters, cpu);
		u64 now = counter[DEFERRED_GONE];
		const struct counted_net *counted;

		list_for_each_entry(counted, &counted_nets, list)
			now += deferred_in(counted->net, cpu);
		if (counting_deferred)
			WRITE_ONCE(counter[DEFERRED],
				   counter[DEFERRED] + now - counter[DEFERRED_SEEN]);
		counter[DEFERRED_SEEN] = now;
		cond_resched();
	}
}

static void refresh_deferred(void)
{
	mutex_lock(&deferred_lock);
	update_deferred();
	mutex_unlock(&deferred_lock);
}

static void set_counting_deferred(bool on)
{
	mutex_lock(&deferred_lock);
	update_deferred();
	counting_deferred = on;
	mutex_unlock(&deferred_lock);
}

static void delack_start(struct tcplat_group *group)
{
	set_counting_deferred(true);
}

static void delack_stop(struct tcplat_group *group)
{
	set_counting_deferred(false);
}

static int __net_init deferred_net_init(struct net *net)
{
	struct counted_net *counted = net_generic(net, counted_net_id);

	counted->net = net;
	mutex_lock(&deferred_lock);
	list_add(&counted->list, &counted_nets);
	mutex_unlock(&deferred_lock);
	return 0;
}

/* No socket of a process is left in the namespace. At unload, called for every namespace. */
static void __net_exit deferred_net_exit(struct net *net)
{
	struct counted_net *counted = net_generic(net, counted_net_id);
	int cpu;

	mutex_lock(&deferred_lock);
	for_each_possible_cpu(cpu)
		per_cpu_ptr(tcplat_delack.counters, cpu)[DEFERRED_GONE] += deferred_in(net, cpu);
	list_del(&counted->list);
	mutex_unlock(&deferred_lock);
}

static struct pernet_operations deferred_ops = {
	.init = deferred_net_init,
	.exit = deferred_net_exit,
	.id = &counted_net_id,
	.size = sizeof(struct counted_net),
};

/**
 * tcplat_delack_record_timeout() - record that a late ACK is about to be sent
 * @sk: the socket, locked, whose delayed-ACK timer is about to send the ACK
 * @record: where to record it
 *
 * If the data since the last ACK was received at different times, the peer sent the later data
 * without waiting for an ACK of the earlier data, so it does not wait for this ACK either. All
 * of this data fits in one full segment, or an ACK would have been sent at once, and Nagle's
 * algorithm does not allow two smaller segments in flight.
 *
 * The peer echoes the timestamp of an ACK only if it has acknowledged all data before the ACK.
 *
 * Context: any.
 */
void tcplat_delack_record_timeout(const struct sock *sk, struct tcplat_delack_record *record)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 since;

	record->since = 0;
	if (!READ_ONCE(tcplat_delack.armed) || owed_since(sk, &since))
		return;
	record->since = ktime_get_mono_fast_ns();
	record->delay = ack_delay(sk, jiffies);
	record->echoed = tp->rx_opt.tstamp_ok && tp->snd_una == tp->snd_nxt;
}

NOKPROBE_SYMBOL(tcplat_delack_record_timeout);

/**
 * tcplat_delack_check_stall() - count a stall if a late ACK may have released incoming data
 * @sk: the socket, locked; the data is its first event since the late ACK
 * @record: the record of that ACK, from tcplat_delack_record_timeout()
 *
 * Called by ackmode, whose probes see all segments. The kernel sends no segment of its own in
 * between: the ACK that DCTCP sends when the CE mark changes needs a pending delayed-ACK timer,
 * and so data since the late ACK.
 *
 * Context: any.
 */
void tcplat_delack_check_stall(struct sock *sk, const struct tcplat_delack_record *record)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!record->since || !READ_ONCE(tcplat_delack.armed))
		return;
	if (record->echoed &&
	    !tcplat_echoes(tp->rx_opt.rcv_tsecr, record->since, tcplat_usec_ts(tp)))
		return;
	if (!tcplat_stalled(tcplat_ns_since(record->since),
			    tcplat_stall_window(tcp_min_rtt(tp), tp->mdev_us, record->echoed)))
		return;
	tcplat_inc(&tcplat_delack, STALLS);
	tcplat_add(&tcplat_delack, STALL_JIFFIES, record->delay);
	trace_ack_stall(sk, record->delay);
}

NOKPROBE_SYMBOL(tcplat_delack_check_stall);

static struct tcplat_probe delack_probes[] = {
	{
		.symbol = "tcp_event_data_recv",
		/* Called for each segment of an established connection, but in no other state. */
		.fallback = "tcp_rcv_established",
		.entry = data_entry,
		.hits = TCPLAT_NO_HITS,
	},
	{
		.symbol = "tcp_delack_timer_handler",
		.entry = expiry_entry,
		.hits = HITS_EXPIRY,
	},
};

static const struct tcplat_file delack_files[] = {
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_SUM("timeouts_pingpong", TIMEOUTS_PINGPONG),
	TCPLAT_SUM_REFRESHED("deferred", DEFERRED, refresh_deferred),
	TCPLAT_SUM("delay_jiffies", DELAY_JIFFIES),
	TCPLAT_JIFFIES_US("delay_us", DELAY_JIFFIES),
	TCPLAT_MAX("delay_max_jiffies", DELAY_MAX_JIFFIES),
	TCPLAT_SUM("late_jiffies", LATE_JIFFIES),
	TCPLAT_JIFFIES_US("late_us", LATE_JIFFIES),
	TCPLAT_MAX("late_max_jiffies", LATE_MAX_JIFFIES),
	TCPLAT_SUM("delay_evictions", DELAY_EVICTIONS),
	TCPLAT_SUM_IF("stalls", STALLS, tcplat_ackmode_sees_data),
	TCPLAT_JIFFIES_US_IF("stall_us", STALL_JIFFIES, tcplat_ackmode_sees_data),
	TCPLAT_HIST("delay_hist", &delay_hist),
	TCPLAT_HIST_LE("delay_hist_le_us", &delay_hist),
};

static const struct tcplat_hist * const delack_hists[] = {
	&delay_hist,
};

static int delay_jiffies_show(struct seq_file *seq, void *unused)
{
	unsigned int i;

	seq_puts(seq, "# jiffies count; the last line counts all longer delays\n");
	for (i = 0; i < DELAY_JIFFY_BUCKETS; i++)
		seq_printf(seq, "%s%u %llu\n", i < DELAY_JIFFY_BUCKETS - 1 ? "" : ">",
			   i < DELAY_JIFFY_BUCKETS - 1 ? i : i - 1,
			   tcplat_sum(&tcplat_delack, DELAY_JIFFY + i));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(delay_jiffies);

static const struct tcplat_debug delack_debug[] = {
	{ "delay_jiffies", &delay_jiffies_fops },
};

static int delack_init(struct tcplat_group *group)
{
	int err;

	owed = tcplat_table_alloc(1UL << OWED_SETS_SHIFT, sizeof(*owed));
	if (!owed)
		return -ENOMEM;
	err = register_pernet_subsys(&deferred_ops);
	if (err) {
		vfree(owed);
		owed = NULL;
	}
	return err;
}

static void delack_exit(struct tcplat_group *group)
{
	unregister_pernet_subsys(&deferred_ops);
	vfree(owed);
	owed = NULL;
}

struct tcplat_group tcplat_delack = {
	.name = "delack",
	.probes = delack_probes,
	.nr_probes = ARRAY_SIZE(delack_probes),
	.nr_counters = NR_COUNTERS,
	.files = delack_files,
	.nr_files = ARRAY_SIZE(delack_files),
	.hists = delack_hists,
	.nr_hists = ARRAY_SIZE(delack_hists),
	.debug = delack_debug,
	.nr_debug = ARRAY_SIZE(delack_debug),
	.init = delack_init,
	.exit = delack_exit,
	.start = delack_start,
	.stop = delack_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/delack-kunit.h"
#endif
