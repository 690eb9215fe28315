// SPDX-License-Identifier: GPL-2.0
/*
 * delack: ACKs that waited for the delayed-ACK timer, and for how long.
 */
#include <linux/module.h>
#include <linux/seq_file.h>
#include <net/ip.h>
#include <net/net_namespace.h>
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
	HITS_TIMER,
	TIMEOUTS,
	TIMEOUTS_PINGPONG,
	DEFERRED,
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
 * The timer finds out under the socket's spinlock whether a user owns the socket,
 * which nobody can foresee at entry, and on return the socket may be gone. What is
 * left to see is the kernel's own count on this CPU: the timer runs with bottom
 * halves off, so that nothing else adds to it and the namespace stays.
 */
struct timer_data {
	const unsigned long *locked;
	unsigned long before;
};

static int timer_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct timer_data *data = (struct timer_data *)ri->data;
	struct inet_connection_sock *icsk;

	icsk = container_of((struct timer_list *)tcplat_arg(regs, 0),
			    struct inet_connection_sock, icsk_delack_timer);
	data->locked = this_cpu_ptr(&sock_net(&icsk->icsk_inet.sk)
		->mib.net_statistics->mibs[LINUX_MIB_DELAYEDACKLOCKED]);
	data->before = READ_ONCE(*data->locked);
	return 0;
}

NOKPROBE_SYMBOL(timer_entry);

static int timer_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct timer_data *data = (struct timer_data *)ri->data;

	tcplat_inc(&tcplat_delack, HITS_TIMER);
	tcplat_add(&tcplat_delack, DEFERRED, READ_ONCE(*data->locked) - data->before);
	return 0;
}

NOKPROBE_SYMBOL(timer_return);

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
	{
		.symbol = "tcp_delack_timer",
		.entry_ret = timer_entry,
		.ret = timer_return,
		.data_size = sizeof(struct timer_data),
		.hits = HITS_TIMER,
	},
};

static const struct tcplat_file delack_files[] = {
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_SUM("timeouts_pingpong", TIMEOUTS_PINGPONG),
	TCPLAT_SUM("deferred", DEFERRED),
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
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/delack-kunit.h"
#endif
