/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counts of the BPF program, shared by the program and its loader.
 */
#ifndef ORACLE_ACKMODE_H
#define ORACLE_ACKMODE_H

#include <linux/types.h>

enum mode { DELAYED, QUICKACK, PINGPONG, ROUTE, MODES };
enum cause {
	NONE, TIMEOUT, SETSOCKOPT, FIRST, GAP, DUPLICATE, ECN, HANDSHAKE, BUDGET, ANSWER, FIN,
	WINDOW, BY_ROUTE, DISCONNECT, CAUSES
};

enum event { BIRTH, TRANSMIT, RECEIVE, TIMER, SET, DEATH, EVENTS };

struct totals {
	__u64 changes[MODES][MODES][CAUSES];
	__u64 born;
	__u64 adopted[MODES];
	__u64 died[MODES];
	__u64 set;
	__u64 raced;		/* part of set: the socket was in use meanwhile */
	__u64 events[EVENTS];
	__u64 errors;		/* errors of the program itself, which invalidate the counts */
	__s64 live[MODES];	/* last, since a reset keeps it */
};

#endif
