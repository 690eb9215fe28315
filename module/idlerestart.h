/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Computes what tcp_cwnd_restart() leaves of a congestion window. The function uses only values,
 * so that KUnit can test it.
 */
#ifndef _TCPLAT_IDLERESTART_H
#define _TCPLAT_IDLERESTART_H

#include <linux/minmax.h>
#include <linux/types.h>

/*
 * The window after an idle time of @idle jiffies: halved for each retransmission timeout of @rto
 * jiffies, but not below @initial, the window that a connection begins with.
 */
static __always_inline u32 tcplat_cwnd_after(u32 cwnd, u32 initial, s32 idle, u32 rto)
{
	u32 least = min(initial, cwnd);

	while ((idle -= rto) > 0 && cwnd > least)
		cwnd >>= 1;
	return max(cwnd, least);
}

#endif /* _TCPLAT_IDLERESTART_H */
