/* SPDX-License-Identifier: GPL-2.0 */
/* Conversions of times. */
#ifndef _TCPLAT_JIFFIES_H
#define _TCPLAT_JIFFIES_H

#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/time64.h>

/*
 * Exact to the microsecond for any sum: at HZ=300 a tick is 3333.33 us, so convert the whole
 * sum and round down once, not tick by tick.
 */
static __always_inline u64 tcplat_jiffies_to_us(u64 j)
{
	u32 ticks;
	u64 secs = div_u64_rem(j, HZ, &ticks);

	return secs * USEC_PER_SEC + div_u64((u64)ticks * USEC_PER_SEC, HZ);
}

static __always_inline u64 tcplat_jiffies_to_ns(u64 j)
{
	return tcplat_jiffies_to_us(j) * NSEC_PER_USEC;
}

/* Ticks from @then to @now on the 32-bit TCP clock, which wraps. */
static __always_inline u32 tcplat_jiffies32_since(u32 now, u32 then)
{
	return now - then;
}

/* Nanoseconds from @then to @now, both in us; 0 if @then is later, as with pacing. */
static __always_inline u64 tcplat_us_to_ns_since(u64 now, u64 then)
{
	return now > then ? (now - then) * NSEC_PER_USEC : 0;
}

/* A wait that is as long as this is late, at every HZ. */
#define TCPLAT_LATE_NS		(10 * NSEC_PER_MSEC)

/* Whether a wait of @ticks jiffies, rounded either way, can be late. */
static __always_inline bool tcplat_may_be_late(u32 ticks)
{
	return ticks >= HZ / 100;
}

#endif /* _TCPLAT_JIFFIES_H */
