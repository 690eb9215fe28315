/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Conversions between ticks and microseconds. Values in, values out, no kernel objects: KUnit runs
 * these at every HZ. Handlers call them: always inlined, so that no probe can be put on them.
 */
#ifndef _TCPLAT_JIFFIES_H
#define _TCPLAT_JIFFIES_H

#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/time64.h>

/*
 * Exact to the microsecond for any sum: at HZ=300 a tick is 3333.33 us, so a
 * sum is converted as a whole and rounded down once, never tick by tick.
 */
static __always_inline u64 tcplat_jiffies_to_us(u64 j)
{
	u32 rest;
	u64 secs = div_u64_rem(j, HZ, &rest);

	return secs * USEC_PER_SEC + div_u64((u64)rest * USEC_PER_SEC, HZ);
}

/* Ticks from @then to @now on the 32-bit TCP clock, which wraps. */
static __always_inline u32 tcplat_jiffies32_since(u32 now, u32 then)
{
	return now - then;
}

#endif /* _TCPLAT_JIFFIES_H */
