/* SPDX-License-Identifier: GPL-2.0 */
/* All differences between kernels. Kbuild defines the TCPLAT_HAVE_* names. */
#ifndef _TCPLAT_COMPAT_H
#define _TCPLAT_COMPAT_H

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/overflow.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
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

/* Argument @n of the probed function, counted from 0. In a return probe, valid at entry only. */
static __always_inline unsigned long tcplat_arg(struct pt_regs *regs, unsigned int n)
{
#ifdef TCPLAT_HAVE_REGS_ARGUMENT
	return regs_get_kernel_argument(regs, n);
#else
	switch (n) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->cx;
	case 4:
		return regs->r8;
	default:
		return 0;
	}
#endif
}

/*
 * TCPLAT_FTRACE is defined if ftrace can pass a function's arguments. This is cheap on kernels
 * that save only the arguments. Older kernels save all registers, and guard a callback against
 * recursion unless its flags say that it cannot recurse.
 */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#define TCPLAT_FTRACE		1
#define TCPLAT_FTRACE_FLAGS	FTRACE_OPS_FL_PERMANENT
#define TCPLAT_FTRACE_REGS	struct ftrace_regs
#if defined(ftrace_regs_get_argument) || defined(CONFIG_ARM64)
#define tcplat_ftrace_arg(regs, n)	ftrace_regs_get_argument(regs, n)
#else
#define tcplat_ftrace_arg(regs, n)	tcplat_arg(&(regs)->regs, n)
#endif
#elif defined(CONFIG_ARM64) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS) && \
	defined(TCPLAT_HAVE_FTRACE_REGS)
#define TCPLAT_FTRACE		1
#define TCPLAT_FTRACE_FLAGS	(FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_SAVE_REGS)
#define TCPLAT_FTRACE_REGS	struct ftrace_regs
#define tcplat_ftrace_arg(regs, n)	tcplat_arg(ftrace_get_regs(regs), n)
#elif defined(CONFIG_X86_64) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS)
#define TCPLAT_FTRACE		1
#define TCPLAT_FTRACE_FLAGS	(FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_SAVE_REGS | \
				 FTRACE_OPS_FL_RECURSION_SAFE)
#define TCPLAT_FTRACE_REGS	struct pt_regs
#define tcplat_ftrace_arg(regs, n)	tcplat_arg(regs, n)
#endif

#define TCPLAT_HAS_FTRACE	__is_defined(TCPLAT_FTRACE)

/*
 * Whether the ftrace site at @ip is that of the function at @addr. On x86, kprobes report the
 * address of the site; elsewhere, one or two instructions of the function precede the site.
 */
#define TCPLAT_FTRACE_REACH	16

static __always_inline bool tcplat_ftrace_is_at(unsigned long ip, unsigned long addr)
{
	return IS_ENABLED(CONFIG_KPROBES_ON_FTRACE) ? ip == addr :
						      ip - addr < TCPLAT_FTRACE_REACH;
}

/*
 * Removing the last function from a filter frees the filter, unless the kernel has no memory
 * for the smaller copy. Kernels that do not export ftrace_free_filter() then leak the filter.
 */
static inline void tcplat_ftrace_free_filter(struct ftrace_ops *ops)
{
#ifdef TCPLAT_HAVE_FTRACE_FREE_FILTER
	ftrace_free_filter(ops);
#endif
}

/* Returns zeroed whole pages, or NULL without a warning in the log: callers report it. */
static inline void *tcplat_table_alloc(size_t n, size_t size)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;

#ifdef TCPLAT_HAVE_VMALLOC_PROT
	return __vmalloc(array_size(n, size), gfp, PAGE_KERNEL);
#else
	return __vmalloc(array_size(n, size), gfp);
#endif
}

/* Since 6.15 the expiry is stored only in the timer. */
static __always_inline unsigned long tcplat_delack_timeout(const struct inet_connection_sock *icsk)
{
#ifdef TCPLAT_HAVE_ICSK_DELACK_TIMEOUT
	return icsk_delack_timeout(icsk);
#else
	return icsk->icsk_ack.timeout;
#endif
}

/* When the retransmission timer expires, or did; before 6.15, the same as icsk_timeout. */
static __always_inline unsigned long tcplat_rto_timeout(const struct sock *sk)
{
#ifdef TCPLAT_HAVE_TCP_TIMEOUT_EXPIRES
	return tcp_timeout_expires(sk);
#else
	return inet_csk(sk)->icsk_retransmit_timer.expires;
#endif
}

/* The longest that the retransmission timer is set to, in jiffies; a constant before 6.15. */
static __always_inline u32 tcplat_rto_max(const struct sock *sk)
{
#ifdef TCPLAT_HAVE_TCP_RTO_MAX
	return tcp_rto_max(sk);
#else
	return TCP_RTO_MAX;
#endif
}

/*
 * The delay in jiffies to which the timer of a connection request was last set. The kernel shifts
 * by up to 127 bits, which its processors take modulo 64.
 */
static __always_inline unsigned long tcplat_synack_timeout(struct request_sock *req)
{
#if defined(TCPLAT_HAVE_TCP_REQSK_TIMEOUT)
	return tcp_reqsk_timeout(req);
#elif defined(TCPLAT_HAVE_REQ_TIMEOUT)
	return min_t(u64, (u64)req->timeout << req->num_timeout % 64, TCP_RTO_MAX);
#else
	return min_t(u64, (u64)TCP_TIMEOUT_INIT << req->num_timeout % 64, TCP_RTO_MAX);
#endif
}

/*
 * Whether the delayed-ACK timer sends compressed SACKs and no ACK that LINUX_MIB_DELAYEDACKS
 * counts: kernels with tcp_sack_compress_send_ack() call it first and then return.
 */
static __always_inline bool tcplat_delack_flushes_sacks(const struct tcp_sock *tp)
{
	return __is_defined(TCPLAT_HAVE_TCP_SACK_COMPRESS_SEND_ACK) && tp->compressed_ack;
}

/*
 * Whether the route has quickack 1: the kernel then acknowledges at once, whatever the
 * socket's own mode is. Newer kernels copy the attribute to the socket. The caller holds the
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

/* Whether tcp_should_autocork() sends @skb at once because MSG_EOR ends it. */
static __always_inline bool tcplat_eor_prevents_autocork(const struct sk_buff *skb)
{
	return __is_defined(TCPLAT_HAVE_AUTOCORK_EOR) && !tcp_skb_can_collapse_to(skb);
}

/*
 * Whether a push moves bytes from @next into the previous buffer @skb until @skb ends with a
 * full segment, as tcp_grow_skb() does since Linux 6.10.
 */
static __always_inline bool tcplat_skb_grows(const struct sk_buff *skb, const struct sk_buff *next)
{
#ifdef TCPLAT_HAVE_GROW_SKB
	const struct skb_shared_info *to = skb_shinfo(skb), *from = skb_shinfo(next);
	const skb_frag_t *frag = from->frags;

	return tcp_skb_can_collapse(skb, next) && !skb_headlen(next) &&
	       !((to->flags | from->flags) & SKBFL_ZEROCOPY_ENABLE) &&
	       to->nr_frags + from->nr_frags <= MAX_SKB_FRAGS +
	       skb_can_coalesce((struct sk_buff *)skb, to->nr_frags, skb_frag_page(frag),
				skb_frag_off(frag));
#else
	return false;
#endif
}

/* Whether one more answer puts the socket into pingpong mode. The socket is in another mode. */
static __always_inline bool tcplat_last_answer(const struct sock *sk)
{
#if defined(TCPLAT_HAVE_PINGPONG_THRESH)
	return inet_csk(sk)->icsk_ack.pingpong + 1 >=
	       READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_pingpong_thresh);
#elif defined(TCPLAT_HAVE_PINGPONG_COUNT)
	/* Only the first data sent after data was received is an answer. */
	return before(tcp_sk(sk)->lsndtime, inet_csk(sk)->icsk_ack.lrcvtime) &&
	       inet_csk(sk)->icsk_ack.pingpong + 1 >= TCP_PINGPONG_THRESH;
#else
	return true;
#endif
}

/* Whether the kernel reads the ECN bits of the socket's segments. */
static __always_inline bool tcplat_ecn_is_on(const struct tcp_sock *tp)
{
#ifdef TCPLAT_HAVE_ECN_MODES
	return !tcp_ecn_disabled(tp);
#else
	return tp->ecn_flags & TCP_ECN_OK;
#endif
}

/*
 * Whether the ECN bits of @skb make the kernel send quick ACKs. Congestion controls with their
 * own ECN handling see a CE packet first, and DCTCP prevents the quick ACKs.
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

/* Whether tcp_grow_window() has room to raise the window, as far as is known before the call. */
static __always_inline bool tcplat_may_grow(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->window_clamp > tp->rcv_ssthresh && tcp_space(sk) > (int)tp->rcv_ssthresh;
}

/*
 * Whether less than half of the receive buffer is free: sending a segment then ends quickack
 * mode. Newer kernels skip this test if memory for the receive buffer ran out.
 */
static __always_inline bool tcplat_buffer_is_full(const struct sock *sk)
{
	int used = atomic_read(&sk->sk_rmem_alloc) + READ_ONCE(sk->sk_backlog.len);

	/* Shortcut: the buffer holds no more data than this, so the test below would find room. */
	if (used <= READ_ONCE(sk->sk_rcvbuf) / 4)
		return false;
#ifdef TCPLAT_HAVE_ACK_NOMEM
	if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_NOMEM)
		return false;
#endif
	return tcp_space(sk) < min_t(int, tcp_sk(sk)->window_clamp, tcp_full_space(sk)) >> 1;
}

/* Whether tcp_disconnect() would fail. Some kernels let it while a thread sleeps on the socket. */
static __always_inline bool tcplat_stays_connected(const struct sock *sk)
{
#ifdef TCPLAT_HAVE_SK_WAIT_PENDING
	return sk->sk_wait_pending;
#else
	return false;
#endif
}

/* The kernel's table of sockets, of the initial network namespace. */
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
 * Number of slots of table_perturb, a pointer to an array of u32. It is 65,536 where it cannot be
 * configured. Kernels whose port_offset has only 32 bits have an array of another size, or none,
 * and choose the slot in another way: 0.
 */
#if defined(CONFIG_INET_TABLE_PERTURB_ORDER)
#define TCPLAT_PERTURB_SLOTS	BIT(CONFIG_INET_TABLE_PERTURB_ORDER)
#elif defined(TCPLAT_HAVE_PORT_OFFSET_U64)
#define TCPLAT_PERTURB_SLOTS	BIT(16)
#else
#define TCPLAT_PERTURB_SLOTS	0UL
#endif

/*
 * Reads a variable that was found by tcplat_data_symbol() and has been read before, like
 * copy_from_kernel_nofault(), but inline where the kernel allows that.
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

/*
 * Whether all sections that ran with bottom halves off when get_state_synchronize_rcu()
 * returned @cookie have ended. Always false on kernels that cannot tell.
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
 * Fills @ports with the range that a search for @sk's port uses now. Some kernels protect the
 * range with a seqlock. It is read without the seqlock, since a handler must not wait for a
 * writer. The caller reads the range again later to detect a change.
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
