/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between kernels that tcplat knows lives here. The
 * TCPLAT_HAVE_* names come from Kbuild, which looks into the headers of the
 * kernel it builds for: distributions backport, so a version says little.
 */
#ifndef _TCPLAT_COMPAT_H
#define _TCPLAT_COMPAT_H

#include <linux/kprobes.h>
#include <net/tcp.h>

#ifndef CONFIG_64BIT
#error "tcplat needs a 64-bit kernel: its counters are u64 without locks"
#endif

#ifndef CONFIG_KPROBES
#error "tcplat needs a kernel with CONFIG_KPROBES=y"
#endif

#ifndef CONFIG_KRETPROBES
#error "tcplat needs a kernel with CONFIG_KRETPROBES=y"
#endif

/* 7.x keeps the expiry in the timer alone. */
static inline unsigned long tcplat_delack_timeout(const struct inet_connection_sock *icsk)
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
static inline bool tcplat_delack_flushes_sacks(const struct tcp_sock *tp)
{
#ifdef TCPLAT_HAVE_TCP_SACK_COMPRESS_SEND_ACK
	return tp->compressed_ack;
#else
	return false;
#endif
}

#endif /* _TCPLAT_COMPAT_H */
