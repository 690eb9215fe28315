// SPDX-License-Identifier: GPL-2.0
/*
 * bindsearch: how long bind() to port 0, and listen() without bind(), searched for a port. The
 * kernel starts at a random port and does not store it, so the number of ports tried is unknown.
 */
#include "tcplat.h"
#include "trace.h"

enum {
	SEARCHES,
	EXHAUSTED,
	TIME,
	NR_COUNTERS = TIME + TCPLAT_TIME_COUNTERS,
};

/* Entry of inet_csk_get_port(sk, snum): socket lock held, may sleep. */
static int __kprobes get_port_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct tcplat_call *call = (struct tcplat_call *)ri->data;

	/* An unsigned short: the upper bits of the register are undefined. */
	if ((u16)tcplat_arg(regs, 1))
		return 1;
	call->sk = (struct sock *)tcplat_arg(regs, 0);
	call->since = ktime_get_mono_fast_ns();
	return 0;
}

/*
 * A failed search returns 1 or -EADDRINUSE, depending on the kernel. A search that found a port
 * but could not allocate its bucket returns the same; that is rare.
 */
static int __kprobes get_port_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_bindsearch;
	const struct tcplat_call *call = (const struct tcplat_call *)ri->data;
	int err = (int)regs_return_value(regs) ? -EADDRINUSE : 0;
	u64 ns = tcplat_ns_since(call->since);

	tcplat_inc(group, SEARCHES);
	if (err)
		tcplat_inc(group, EXHAUSTED);
	tcplat_add_time(group, TIME, ns);
	trace_bind_search(call->sk, ns, err);
	return 0;
}

static struct tcplat_probe bindsearch_probes[] = {
	{
		.symbol = "inet_csk_get_port",
		.entry_ret = get_port_entry,
		.ret = get_port_return,
		.data_size = sizeof(struct tcplat_call),
		.maxactive = TCPLAT_SEARCHES_AT_ONCE,
		.hits = SEARCHES,
	},
};

static const struct tcplat_file bindsearch_files[] = {
	TCPLAT_SUM("searches", SEARCHES),
	TCPLAT_SUM("exhausted", EXHAUSTED),
	TCPLAT_TIME_FILES("time", "time_hist", TIME),
};

struct tcplat_group tcplat_bindsearch = {
	TCPLAT_TABLES(bindsearch),
};
