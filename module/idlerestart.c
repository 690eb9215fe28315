// SPDX-License-Identifier: GPL-2.0
/*
 * idlerestart: congestion windows that were cut because their connections had been idle.
 */
#include <linux/module.h>
#include <linux/tcp.h>

#include "tcplat.h"
#include "trace.h"

enum {
	RESTARTS,
	CWND_LOST,
	IDLE_JIFFIES,
	NR_COUNTERS,
};

/**
 * struct restart - a restart in progress
 * @sk: the socket
 * @idle: time since the socket last sent data, in jiffies
 * @cwnd: congestion window before the restart, in packets
 */
struct restart {
	struct sock *sk;
	u32 idle;
	u32 cwnd;
};

/* Entry of tcp_cwnd_restart(sk, delta), socket locked, called by a sender or for an ACK. */
static int restart_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct restart *restart = (struct restart *)ri->data;

	restart->sk = tcplat_arg(regs, 0);
	/* A positive s32: the callers compare it with the retransmission timeout. */
	restart->idle = (u32)(unsigned long)tcplat_arg(regs, 1);
	restart->cwnd = tcp_sk(restart->sk)->snd_cwnd;
	return 0;
}

NOKPROBE_SYMBOL(restart_entry);

static int restart_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_idlerestart;
	const struct restart *restart = (struct restart *)ri->data;
	u32 cwnd = tcp_sk(restart->sk)->snd_cwnd;

	tcplat_inc(group, RESTARTS);
	/* The kernel never increases it here. */
	if (cwnd < restart->cwnd)
		tcplat_add(group, CWND_LOST, restart->cwnd - cwnd);
	tcplat_add(group, IDLE_JIFFIES, restart->idle);
	trace_idle_restart(restart->sk, restart->cwnd, cwnd, restart->idle);
	return 0;
}

NOKPROBE_SYMBOL(restart_return);

static struct tcplat_probe idlerestart_probes[] = {
	{
		.symbol = "tcp_cwnd_restart",
		.entry_ret = restart_entry,
		.ret = restart_return,
		.data_size = sizeof(struct restart),
		.hits = RESTARTS,
	},
};

static const struct tcplat_file idlerestart_files[] = {
	TCPLAT_SUM("restarts", RESTARTS),
	TCPLAT_SUM("cwnd_lost", CWND_LOST),
	TCPLAT_SUM("idle_jiffies", IDLE_JIFFIES),
	TCPLAT_JIFFIES_US("idle_us", IDLE_JIFFIES),
};

struct tcplat_group tcplat_idlerestart = {
	.name = "idlerestart",
	.probes = idlerestart_probes,
	.nr_probes = ARRAY_SIZE(idlerestart_probes),
	.nr_counters = NR_COUNTERS,
	.files = idlerestart_files,
	.nr_files = ARRAY_SIZE(idlerestart_files),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/idlerestart-kunit.h"
#endif
