/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between kernels that tcplat knows lives here. The
 * TCPLAT_HAVE_* names come from Kbuild, which looks into the headers of the
 * kernel it builds for: distributions backport, so a version says little.
 */
#ifndef _TCPLAT_COMPAT_H
#define _TCPLAT_COMPAT_H

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/uaccess.h>
#include <net/dst.h>
#include <net/inet_connection_sock.h>
#include <net/inet_ecn.h>
#include <net/inet_hashtables.h>
#include <net/inet_sock.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

#include "ports.h"

#ifndef CONFIG_64BIT
#error "tcplat needs a 64-bit kernel: its counters are u64 without locks"
#endif

#ifndef CONFIG_KPROBES
#error "tcplat needs a kernel with CONFIG_KPROBES=y"
#endif

#ifndef CONFIG_KRETPROBES
#error "tcplat needs a kernel with CONFIG_KRETPROBES=y"
#endif

/*
 * Entries by ftrace: cheap where the kernel saves only the arguments. Older kernels save all
 * registers, and guard a callback against recursion unless its flags say that it cannot recurse.
 * TCPLAT_FTRACE is not defined where ftrace does neither.
 */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#define TCPLAT_FTRACE
#define TCPLAT_FTRACE_FLAGS	FTRACE_OPS_FL_PERMANENT
#define TCPLAT_FTRACE_REGS	struct ftrace_regs
#if defined(ftrace_regs_get_argument) || defined(CONFIG_ARM64)
#define tcplat_ftrace_arg(regs, n)	ftrace_regs_get_argument(regs, n)
#else
#define tcplat_ftrace_arg(regs, n)	regs_get_kernel_argument(&(regs)->regs, n)
#endif
#elif defined(CONFIG_ARM64) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS)
#define TCPLAT_FTRACE
#define TCPLAT_FTRACE_FLAGS	(FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_SAVE_REGS)
#define TCPLAT_FTRACE_REGS	struct ftrace_regs
#define tcplat_ftrace_arg(regs, n)	regs_get_kernel_argument(ftrace_get_regs(regs), n)
#elif defined(CONFIG_X86_64) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS)
#define TCPLAT_FTRACE
#define TCPLAT_FTRACE_FLAGS	(FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_SAVE_REGS | \
				 FTRACE_OPS_FL_RECURSION_SAFE)
#define TCPLAT_FTRACE_REGS	struct pt_regs
#define tcplat_ftrace_arg(regs, n)	regs_get_kernel_argument(regs, n)
#endif

/*
 * Whether the ftrace site at @ip is that of the function at @addr. On x86 kprobes give the
 * site's address; elsewhere one or two instructions of the function come before the site.
 */
#define TCPLAT_FTRACE_REACH	16

static __always_inline bool tcplat_ftrace_is_at(unsigned long ip, unsigned long addr)
{
	return IS_ENABLED(CONFIG_KPROBES_ON_FTRACE) ? ip == addr :
						      ip - addr < TCPLAT_FTRACE_REACH;
}

/*
 * Removing the last function of a filter frees the filter, unless the kernel has no memory for
 * the smaller copy. Kernels that do not export ftrace_free_filter() leak a little then.
 */
static inline void tcplat_ftrace_free_filter(struct ftrace_ops *ops)
{
#ifdef TCPLAT_HAVE_FTRACE_FREE_FILTER
	ftrace_free_filter(ops);
#endif
}

/* 7.x keeps the expiry in the timer alone. */
static __always_inline unsigned long tcplat_delack_timeout(const struct inet_connection_sock *icsk)
{
#ifdef TCPLAT_HAVE_ICSK_DELACK_TIMEOUT
	return icsk_delack_timeout(icsk);
#else
	return icsk->icsk_ack.timeout;
#endif
}

/*
 * With compressed SACKs waiting, kernels that have this function call it from the
 * delayed-ACK timer and return before the ACK that LINUX_MIB_DELAYEDACKS counts.
 */
static __always_inline bool tcplat_delack_flushes_sacks(const struct tcp_sock *tp)
{
#ifdef TCPLAT_HAVE_TCP_SACK_COMPRESS_SEND_ACK
	return tp->compressed_ack;
#else
	return false;
#endif
}

/*
 * Whether the route says quickack 1: the kernel then acknowledges at once, whatever the
 * socket's own mode is. Newer kernels keep that in the socket. The caller holds the
 * socket's lock or has preemption off; either keeps the route from being freed.
 */
static __always_inline bool tcplat_route_is_quickack(const struct sock *sk)
{
#ifdef TCPLAT_HAVE_DST_QUICK_ACK
	return inet_csk(sk)->icsk_ack.dst_quick_ack;
#else
	const struct dst_entry *dst = rcu_dereference_raw(sk->sk_dst_cache);

	return dst && dst_metric_raw(dst, RTAX_QUICKACK);
#endif
}

/*
 * Whether a push moves bytes of @next into @skb, the buffer before it, until that ends with a
 * full segment: tcp_grow_skb(), of Linux 6.10 and later.
 */
static __always_inline bool tcplat_skb_grows(const struct sk_buff *skb, const struct sk_buff *next)
{
#ifdef TCPLAT_HAVE_GROW_SKB
	return tcp_skb_can_collapse(skb, next) && !skb_headlen(next) &&
	       !((skb_shinfo(skb)->flags | skb_shinfo(next)->flags) & SKBFL_ZEROCOPY_ENABLE);
#else
	return false;
#endif
}

/* Whether one more answer brings the socket, which is not in pingpong mode, into it. */
static __always_inline bool tcplat_last_answer(const struct sock *sk)
{
#if defined(TCPLAT_HAVE_PINGPONG_THRESH)
	return inet_csk(sk)->icsk_ack.pingpong + 1 >=
	       READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_pingpong_thresh);
#elif defined(TCPLAT_HAVE_PINGPONG_COUNT)
	return inet_csk(sk)->icsk_ack.pingpong + 1 >= TCP_PINGPONG_THRESH;
#else
	return true;
#endif
}

/* Whether the kernel looks at the ECN bits of the socket's segments. */
static __always_inline bool tcplat_ecn_is_on(const struct tcp_sock *tp)
{
#ifdef TCPLAT_HAVE_ECN_MODES
	return !tcp_ecn_disabled(tp);
#else
	return tp->ecn_flags & TCP_ECN_OK;
#endif
}

/*
 * Whether they call for quick ACKs. Congestion controls with an ECN of their own see a CE packet
 * first, and DCTCP keeps it from doing so.
 */
static __always_inline bool tcplat_ecn_calls(const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!tcplat_ecn_is_on(tp))
		return false;
	switch (TCP_SKB_CB(skb)->ip_dsfield & INET_ECN_MASK) {
	case INET_ECN_NOT_ECT:
		return tp->ecn_flags & TCP_ECN_SEEN;
	case INET_ECN_CE:
#ifdef TCPLAT_HAVE_ECN_MODES
		if (!tcp_ecn_mode_rfc3168(tp))
			return false;
#endif
		return !(tp->ecn_flags & TCP_ECN_DEMAND_CWR) && !tcp_ca_needs_ecn(sk);
	default:
		return false;
	}
}

/* Whether tcp_grow_window() has room to raise the window, as far as is known before. */
static __always_inline bool tcplat_may_grow(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->window_clamp > tp->rcv_ssthresh && tcp_space(sk) > (int)tp->rcv_ssthresh;
}

/*
 * Whether less than half of the receive buffer is free, for which a segment that is sent takes
 * the quick ACKs. Newer kernels do not look when they have no memory at all.
 */
static __always_inline bool tcplat_buffer_is_full(const struct sock *sk)
{
	int used = atomic_read(&sk->sk_rmem_alloc) + READ_ONCE(sk->sk_backlog.len);

	/* Bytes of data are a share of these bytes: what follows would find room, at more cost. */
	if (used <= READ_ONCE(sk->sk_rcvbuf) / 4)
		return false;
#ifdef TCPLAT_HAVE_ACK_NOMEM
	if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_NOMEM)
		return false;
#endif
	return tcp_space(sk) < min_t(int, tcp_sk(sk)->window_clamp, tcp_full_space(sk)) >> 1;
}

/* The kernel's own table of sockets, of the initial network namespace. */
static inline const struct inet_hashinfo *tcplat_tcp_hashinfo(void)
{
#ifdef TCPLAT_HAVE_DEATH_ROW_POINTER
	return init_net.ipv4.tcp_death_row->hashinfo;
#else
	return init_net.ipv4.tcp_death_row.hashinfo;
#endif
}

/* Whether the connection's timestamps are in microseconds; in milliseconds otherwise. */
static __always_inline bool tcplat_usec_ts(const struct tcp_sock *tp)
{
#ifdef TCPLAT_HAVE_TCP_USEC_TS
	return tp->tcp_usec_ts;
#else
	return false;
#endif
}

/*
 * Slots of table_perturb. Kernels before this setting had tables of other sizes and
 * kinds, which nothing in their headers tells: 0.
 */
#ifdef CONFIG_INET_TABLE_PERTURB_ORDER
#define TCPLAT_PERTURB_SLOTS	BIT(CONFIG_INET_TABLE_PERTURB_ORDER)
#else
#define TCPLAT_PERTURB_SLOTS	0UL
#endif

/*
 * Reads a variable whose address was found by tcplat_data_symbol() and could be read
 * before: copy_from_kernel_nofault() without the call, where the kernel has it inline.
 */
static __always_inline bool tcplat_read_u32(const u32 *from, u32 *value)
{
#ifdef __get_kernel_nofault
	pagefault_disable();
	__get_kernel_nofault(value, from, u32, fault);
	pagefault_enable();
	return true;
fault:
	pagefault_enable();
	return false;
#else
	return !copy_from_kernel_nofault(value, from, sizeof(*value));
#endif
}

/* Whether other CPUs see a CPU's stores in the order that it made them in. */
static __always_inline bool tcplat_stores_in_order(void)
{
	return IS_ENABLED(CONFIG_X86);
}

/*
 * Whether all that ran with bottom halves off when get_state_synchronize_rcu() returned
 * @cookie has ended. Kernels that cannot tell never say so.
 */
static __always_inline bool tcplat_grace_over(unsigned long cookie)
{
#ifdef TCPLAT_HAVE_POLL_RCU
	return poll_state_synchronize_rcu(cookie);
#else
	return false;
#endif
}

/*
 * The ports that a search for @sk's port goes through now. Some kernels keep the two ends of
 * the range under a seqlock. They are read without it: a handler must not wait for a writer.
 * The caller reads the range again later, and so notices a change.
 */
static __always_inline void tcplat_sk_ports(const struct sock *sk, struct tcplat_ports *ports)
{
	const struct netns_ipv4 *ipv4 = &sock_net(sk)->ipv4;
#ifdef TCPLAT_HAVE_PORT_RANGE_PACKED
	u32 range = READ_ONCE(ipv4->ip_local_ports.range);

	ports->low = range & 0xffff;
	ports->high = range >> 16;
#else
	ports->low = READ_ONCE(ipv4->ip_local_ports.range[0]);
	ports->high = READ_ONCE(ipv4->ip_local_ports.range[1]);
#endif
	ports->step = 2;
	ports->scattered = false;
#ifdef TCPLAT_HAVE_PORT_STEP_WIDTH
	ports->scattered = READ_ONCE(ipv4->sysctl_ip_local_port_step_width);
#endif

#ifdef TCPLAT_HAVE_SK_PORT_RANGE
	{
#ifdef TCPLAT_HAVE_SK_PORT_RANGE_PACKED
		u32 own = READ_ONCE(inet_sk(sk)->local_port_range);
		u32 low = own & 0xffff;
		u32 high = own >> 16;
#else
		u32 low = READ_ONCE(inet_sk(sk)->local_port_range.lo);
		u32 high = READ_ONCE(inet_sk(sk)->local_port_range.hi);
#endif

		tcplat_ports_narrow(ports, low, high);
#ifdef TCPLAT_HAVE_SK_PORT_RANGE_STEP
		if (low || high)
			ports->step = 1;
#endif
	}
#endif
}

#endif /* _TCPLAT_COMPAT_H */
