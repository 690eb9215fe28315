// SPDX-License-Identifier: GPL-2.0
/*
 * sndwait: how long send() slept because the send buffer was full.
 */
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#include "tcplat.h"
#include "trace.h"

/*
 * Senders that may sleep at once, and not be missed: a thread each, and for as long
 * as their peers do not read. Memory as for TCPLAT_SEARCHES_AT_ONCE.
 */
#define WAITS_AT_ONCE	4095

enum {
	WAITS,
	TIMEOUTS,
	TIME,
	NR_COUNTERS = TIME + TCPLAT_TIME_COUNTERS,
};

static const struct tcplat_hist time_hist = TCPLAT_TIMES(TIME);

/**
 * struct wait - a sender that waits
 * @sk: its socket, which it holds
 * @since: when it began, in ns
 */
struct wait {
	struct sock *sk;
	u64 since;
};

/*
 * Entry of sk_stream_wait_memory(sk, timeo), socket locked, sleeps. A sender that does
 * not block comes here too, to be told so at once: no time left means that it had none
 * to begin with, for a call whose time runs out here is not made again.
 */
static int wait_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct wait *wait = (struct wait *)ri->data;

	if (!*(const long *)tcplat_arg(regs, 1))
		return 1;
	wait->sk = tcplat_arg(regs, 0);
	wait->since = ktime_get_mono_fast_ns();
	return 0;
}

NOKPROBE_SYMBOL(wait_entry);

static int wait_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_sndwait;
	const struct wait *wait = (const struct wait *)ri->data;
	u64 ns = tcplat_ns_since(wait->since);
	int err = regs_return_value(regs);

	tcplat_inc(group, WAITS);
	if (err == -EAGAIN)
		tcplat_inc(group, TIMEOUTS);
	tcplat_add_time(group, TIME, ns);
	trace_snd_wait(wait->sk, ns, err);
	return 0;
}

NOKPROBE_SYMBOL(wait_return);

static struct tcplat_probe sndwait_probes[] = {
	{
		.symbol = "sk_stream_wait_memory",
		.entry_ret = wait_entry,
		.ret = wait_return,
		.data_size = sizeof(struct wait),
		.maxactive = WAITS_AT_ONCE,
		.hits = WAITS,
	},
};

static const struct tcplat_file sndwait_files[] = {
	TCPLAT_SUM("waits", WAITS),
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_SUM("time_ns", TIME),
	TCPLAT_MAX("time_max_ns", TIME + TCPLAT_TIME_MAX),
	TCPLAT_HIST("time_hist", &time_hist),
	TCPLAT_HIST_LE("time_hist_le_ns", &time_hist),
};

static const struct tcplat_hist * const sndwait_hists[] = {
	&time_hist,
};

struct tcplat_group tcplat_sndwait = {
	.name = "sndwait",
	.probes = sndwait_probes,
	.nr_probes = ARRAY_SIZE(sndwait_probes),
	.nr_counters = NR_COUNTERS,
	.files = sndwait_files,
	.nr_files = ARRAY_SIZE(sndwait_files),
	.hists = sndwait_hists,
	.nr_hists = ARRAY_SIZE(sndwait_hists),
};
