/* SPDX-License-Identifier: GPL-2.0 */
/* Whether the peer's window held data back, and for how long. */
#ifndef _TCPLAT_PEERWND_H
#define _TCPLAT_PEERWND_H

#include <net/tcp.h>

#include "jiffies.h"

/*
 * Whether the peer's window may have held back the segment that is about to be sent. The kernel
 * notes when it begins to hold back data, and that it does until a later run of its output sends
 * all that is left.
 */
static __always_inline bool tcplat_peerwnd_looks_at_sent(const struct sock *sk)
{
	return tcp_sk(sk)->chrono_type == TCP_CHRONO_RWND_LIMITED;
}

/*
 * For how many jiffies data has been held back: since @start, when the kernel began to hold it
 * back, or since data was last sent, if that was later.
 */
static __always_inline u32 tcplat_peerwnd_wait(u32 now, u32 start, u32 lsndtime)
{
	return min(tcplat_jiffies32_since(now, start), tcplat_jiffies32_since(now, lsndtime));
}

/* Whether tcp_send_probe0() sends a probe, and not data that fits in the window. */
static __always_inline bool tcplat_peerwnd_probes(int state, bool queued, u32 seq, u32 wnd_end)
{
	return state != TCP_CLOSE && !(queued && before(seq, wnd_end));
}

void tcplat_peerwnd_sent(struct sock *sk, unsigned long segment, unsigned long arg2);

#endif /* _TCPLAT_PEERWND_H */
