/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between kernels that tcplat knows lives here. The
 * TCPLAT_HAVE_* names come from Kbuild, which looks into the headers of the
 * kernel it builds for: distributions backport, so a version number says little.
 */
#ifndef _TCPLAT_COMPAT_H
#define _TCPLAT_COMPAT_H

#include <linux/kprobes.h>
#include <linux/version.h>
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
 * Newer kernels flush compressed SACKs from the delayed-ACK timer and return
 * before the ACK that LINUX_MIB_DELAYEDACKS counts; no header shows it.
 */
static inline bool tcplat_delack_flushes_sacks(const struct tcp_sock *tp)
{
	return LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0) &&
	       tp->compressed_ack;
}

#endif /* _TCPLAT_COMPAT_H */
