/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counts of the BPF program, shared by the program and its loader.
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
	__u64 left;		/* pushes that left data for another reason */
	__u64 errors;		/* errors of the program itself, which invalidate the counts */
};

#endif
