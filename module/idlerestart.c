// SPDX-License-Identifier: GPL-2.0
/* idlerestart: congestion windows that were cut because their connections had been idle. */
#include <linux/minmax.h>
#include <net/dst.h>
#include <net/tcp.h>

#include "tcplat.h"
#include "trace.h"

enum {
	RESTARTS,
	CWND_LOST,
	IDLE_JIFFIES,
	NR_COUNTERS,
};

/* The window that a connection begins with, as tcp_init_cwnd() computes it. */
static u32 __kprobes initial_cwnd(const struct sock *sk)
{
	const struct dst_entry *dst = rcu_dereference_raw(sk->sk_dst_cache);
	u32 cwnd = dst ? dst_metric_raw(dst, RTAX_INITCWND) : 0;

	return min_t(u32, cwnd ?: TCP_INIT_CWND, tcp_sk(sk)->snd_cwnd_clamp);
}

/*
 * The window that tcp_cwnd_restart() leaves after an idle time of @idle jiffies: halved for each
 * retransmission timeout of @rto jiffies, but not below @initial.
 */
static __always_inline u32 tcplat_cwnd_after(u32 cwnd, u32 initial, s32 idle, u32 rto)
{
	u32 least = min(initial, cwnd);

	while ((idle -= rto) > 0 && cwnd > least)
		cwnd >>= 1;
	return max(cwnd, least);
}

/*
 * Entry of tcp_cwnd_restart(sk, delta), socket locked, called by a sender or for an ACK. @delta is
 * the time since the socket last sent data, an s32 that 2^31 jiffies make negative: then the kernel
 * leaves the window. The congestion control is told first; no kernel's own changes the window then.
 */
static void __kprobes restart_entry(struct sock *sk, unsigned long delta, unsigned long arg2)
{
	const struct tcplat_group *group = &tcplat_idlerestart;
	u32 before = tcp_sk(sk)->snd_cwnd;
	u32 idle = delta;
	u32 cwnd = tcplat_cwnd_after(before, initial_cwnd(sk), idle, inet_csk(sk)->icsk_rto);

	tcplat_inc(group, RESTARTS);
	tcplat_add(group, CWND_LOST, before - cwnd);
	tcplat_add(group, IDLE_JIFFIES, idle);
	trace_idle_restart(sk, before, cwnd, idle);
}

static struct tcplat_probe idlerestart_probes[] = {
	{
		.symbol = "tcp_cwnd_restart",
		.entry = restart_entry,
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
	TCPLAT_TABLES(idlerestart),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/idlerestart-kunit.h"
#endif
