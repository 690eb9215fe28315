/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens at a full accept queue, and how long connections lay in it. These functions use no
 * kernel objects, so that KUnit can test them.
 */
#ifndef _TCPLAT_LISTEN_H
#define _TCPLAT_LISTEN_H

#include <linux/minmax.h>
#include <linux/types.h>

#include "jiffies.h"

/*
 * Whether tcp_conn_request() drops a SYN and counts it in LINUX_MIB_LISTENOVERFLOWS. If the queue
 * of requests is full too, and no SYN cookie can be sent, the kernel counts the drop elsewhere.
 */
static __always_inline bool tcplat_syn_overflows(bool full, bool requests_full, bool cookies)
{
	return full && (cookies || !requests_full);
}

/*
 * How long a connection has lain in the accept queue, in ns: @since_us before @now_us, but not
 * longer than @ticks jiffies allow, since the kernel sets the two times one after the other.
 */
static __always_inline u64 tcplat_accept_wait(u64 now_us, u64 since_us, u32 ticks)
{
	return min_t(u64, tcplat_us_to_ns_since(now_us, since_us), (ticks + 1ULL) * TICK_NSEC);
}

#endif /* _TCPLAT_LISTEN_H */
