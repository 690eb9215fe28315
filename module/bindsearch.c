// SPDX-License-Identifier: GPL-2.0
/*
 * bindsearch: how long bind() to port 0, and listen() without bind(), searched for a port. The
 * kernel starts at a random port and does not store it, so the number of ports tried is unknown.
 */
#include <linux/module.h>
#include <linux/timekeeping.h>

#include "tcplat.h"

enum {
	SEARCHES,
	EXHAUSTED,
	TIME,
	NR_COUNTERS = TIME + TCPLAT_TIME_COUNTERS,
};

static const struct tcplat_hist time_hist = TCPLAT_TIMES(TIME);

/* Entry of inet_csk_get_port(sk, snum): socket lock held, may sleep. */
static int get_port_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	u64 *since = (u64 *)ri->data;

	/* An unsigned short: the upper bits of the register are undefined. */
	if ((u16)(unsigned long)tcplat_arg(regs, 1))
		return 1;
	*since = ktime_get_mono_fast_ns();
	return 0;
}

NOKPROBE_SYMBOL(get_port_entry);

/*
 * A failed search returns 1 or -EADDRINUSE, depending on the kernel. A search that found a port
 * but could not allocate its bucket returns the same; that is rare.
 */
static int get_port_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_bindsearch;
	u64 ns = tcplat_ns_since(*(const u64 *)ri->data);

	tcplat_inc(group, SEARCHES);
	if ((int)regs_return_value(regs))
		tcplat_inc(group, EXHAUSTED);
	tcplat_add_time(group, TIME, ns);
	return 0;
}

NOKPROBE_SYMBOL(get_port_return);

static struct tcplat_probe bindsearch_probes[] = {
	{
		.symbol = "inet_csk_get_port",
		.entry_ret = get_port_entry,
		.ret = get_port_return,
		.data_size = sizeof(u64),
		.maxactive = TCPLAT_SEARCHES_AT_ONCE,
		.hits = SEARCHES,
	},
};

static const struct tcplat_file bindsearch_files[] = {
	TCPLAT_SUM("searches", SEARCHES),
	TCPLAT_SUM("exhausted", EXHAUSTED),
	TCPLAT_SUM("time_ns", TIME),
	TCPLAT_MAX("time_max_ns", TIME + TCPLAT_TIME_MAX),
	TCPLAT_HIST("time_hist", &time_hist),
	TCPLAT_HIST_LE("time_hist_le_ns", &time_hist),
};

static const struct tcplat_hist * const bindsearch_hists[] = {
	&time_hist,
};

struct tcplat_group tcplat_bindsearch = {
	.name = "bindsearch",
	.probes = bindsearch_probes,
	.nr_probes = ARRAY_SIZE(bindsearch_probes),
	.nr_counters = NR_COUNTERS,
	.files = bindsearch_files,
	.nr_files = ARRAY_SIZE(bindsearch_files),
	.hists = bindsearch_hists,
	.nr_hists = ARRAY_SIZE(bindsearch_hists),
};
