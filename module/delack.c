// SPDX-License-Identifier: GPL-2.0
/*
 * delack: ACKs that waited for the delayed-ACK timer, and for how long.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "ackmode.h"
#include "delack.h"
#include "jiffies.h"
#include "tcplat.h"
#include "trace.h"

/* Microseconds; the same on every HZ, so that hosts' histograms can be added up. */
static const u64 delay_le_us[] = {
	1000, 2000, 4000, 8000, 10000, 20000, 30000, 40000, 50000, 60000,
	80000, 100000, 120000, 160000, 200000,
};

/* One bucket a jiffy, as far as the kernel ever delays an ACK, and one beyond. */
#define DELAY_JIFFY_BUCKETS	(HZ / 5 + 2)

enum {
	HITS_EXPIRY,
	TIMEOUTS,
	TIMEOUTS_PINGPONG,
	DEFERRED,
	DEFERRED_GONE,	/* in namespaces that are no more */
	DEFERRED_SEEN,	/* of the kernel's count, how much has been taken over */
	DELAY_JIFFIES,
	DELAY_MAX_JIFFIES,
	STALLS,
	STALL_JIFFIES,
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

/* Entry of tcp_delack_timer_handler(sk): socket lock held, by the timer or the releasing user. */
static void expiry_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	const struct tcplat_group *group = &tcplat_delack;
	u64 delay_us;
	u32 delay;

	tcplat_inc(group, HITS_EXPIRY);
	if (!tcplat_delack_sends_ack(sk))
		return;

	delay = tcplat_ack_delay(sk);
	delay_us = tcplat_jiffies_to_us(delay);
	tcplat_inc(group, TIMEOUTS);
	if (inet_csk_in_pingpong_mode(sk))
		tcplat_inc(group, TIMEOUTS_PINGPONG);
	tcplat_add(group, DELAY_JIFFIES, delay);
	tcplat_note_max(group, DELAY_MAX_JIFFIES, delay);
	tcplat_inc(group, DELAY_HIST + tcplat_bucket(delay_le_us, delay_hist.buckets, delay_us));
	tcplat_inc(group, DELAY_JIFFY + min_t(u32, delay, DELAY_JIFFY_BUCKETS - 1));
	trace_delack_timeout(sk, delay);
}

NOKPROBE_SYMBOL(expiry_entry);

/*
 * Deferred expiries are the kernel's count, LINUX_MIB_DELAYEDACKLOCKED, taken over when it is
 * read. No probe sees them all. The timer decides under the socket's spinlock and calls no
 * function in that branch; a return probe loses hits, and the handler that tcp_release_cb()
 * calls later runs once for any number of expiries, and for deferred compressed SACKs too.
 */

/* A network namespace whose counts go into those of the group. */
struct counted_net {
	struct list_head list;
	const struct net *net;
};

/*
 * All network namespaces. The kernel's own list lacks those that are being dismantled, and a
 * count that went down with one of them would go backwards.
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

/* Under deferred_lock. No handler writes these counters, so another CPU's may be written. */
static void take_deferred(void)
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
	}
}

static void refresh_deferred(void)
{
	mutex_lock(&deferred_lock);
	take_deferred();
	mutex_unlock(&deferred_lock);
}

static void count_deferred(bool on)
{
	mutex_lock(&deferred_lock);
	take_deferred();
	counting_deferred = on;
	mutex_unlock(&deferred_lock);
}

static void delack_start(struct tcplat_group *group)
{
	count_deferred(true);
}

static void delack_stop(struct tcplat_group *group)
{
	count_deferred(false);
}

static int __net_init net_begins(struct net *net)
{
	struct counted_net *counted = net_generic(net, counted_net_id);

	counted->net = net;
	mutex_lock(&deferred_lock);
	list_add(&counted->list, &counted_nets);
	mutex_unlock(&deferred_lock);
	return 0;
}

/* No process has a socket there any more. Called for all of them on unloading, too. */
static void __net_exit net_ends(struct net *net)
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
	.init = net_begins,
	.exit = net_ends,
	.id = &counted_net_id,
	.size = sizeof(struct counted_net),
};

static int delack_init(struct tcplat_group *group)
{
	return register_pernet_subsys(&deferred_ops);
}

static void delack_exit(struct tcplat_group *group)
{
	unregister_pernet_subsys(&deferred_ops);
}

/**
 * tcplat_delack_stall() - count a timeout whose late ACK released data
 * @delay: how long that ACK was delayed, in jiffies
 *
 * What comes after a timeout is seen by ackmode alone, whose probes watch all segments.
 *
 * Context: any.
 */
void tcplat_delack_stall(u32 delay)
{
	tcplat_inc(&tcplat_delack, STALLS);
	tcplat_add(&tcplat_delack, STALL_JIFFIES, delay);
}

NOKPROBE_SYMBOL(tcplat_delack_stall);

static struct tcplat_probe delack_probes[] = {
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

	seq_puts(seq, "# jiffies count; the last line counts all that were longer\n");
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
