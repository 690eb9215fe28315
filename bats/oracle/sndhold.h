/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the BPF program counts, for the program and for the one that loads it.
 */
#ifndef ORACLE_SNDHOLD_H
#define ORACLE_SNDHOLD_H

#include <linux/types.h>

enum cause { NAGLE, CORK, CAUSES };

struct totals {
	__u64 holds[CAUSES];
	__u64 time[CAUSES];
	__u64 longest[CAUSES];
	__u64 timeouts;		/* corks that the probe timer ended */
	__u64 peer_delays;
	__u64 peer_delay;
	__u64 purged;
	__u64 pushes;
	__u64 left;		/* pushes that left data for another reason */
	__u64 errors;		/* of the program itself: what it says is not true then */
	__s64 live;		/* last, for it outlives a reset */
};

#endif
