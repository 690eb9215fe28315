/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counts of rival.bpf.c, shared by the program and its loader.
 */
#ifndef RIVAL_H
#define RIVAL_H

enum mode { DELAYED, QUICKACK, PINGPONG, ROUTE, MODES };
enum cause { NONE, TIMEOUT, SETSOCKOPT, CAUSES };

/* Bounds 2^10 ns, 2^11 ns and so on to 2^30 ns, and +Inf, as in tcplat. */
#define TIME_FIRST	10
#define TIME_BUCKETS	22
/* Bounds 1 port, 2, 4 and so on to 65536, and +Inf. */
#define PORT_BUCKETS	18
/* One per jiffy: ACKs are delayed by at most 200 ms, and HZ is at most 1000. */
#define DELAY_BUCKETS	256

/* What has a time: the names of its files are in rival.c. */
enum timed {
	PORTSEARCH, SNDWAIT, NAGLE, CORK, ACCEPT, WINDOW, OWN, PEER, TIMED
};

struct times {
	__u64 n;
	__u64 sum;
	__u64 max;
	__u64 hist[TIME_BUCKETS];
};

/* Per CPU. */
struct counts {
	struct {
		__u64 timeouts;
		__u64 timeouts_pingpong;
		__u64 timeouts_unread;
		__u64 deferred;
		__u64 delay;		/* all in jiffies */
		__u64 delay_max;
		__u64 stalls;
		__u64 stall;
		__u64 hist[DELAY_BUCKETS];
	} delack;
	struct {
		__u64 changes[MODES][MODES][CAUSES];
		__u64 setsockopt;
		__u64 errors;		/* sockets that could not be tracked for want of memory */
	} ackmode;
	struct times timed[TIMED];
	struct {
		__u64 iterations;
		__u64 iterations_max;
		__u64 exhausted;
		__u64 unverified;
		__u64 hist[PORT_BUCKETS];
	} portsearch;
	struct {
		__u64 timeouts;
	} sndwait;
	struct {
		__u64 peer_delays;
		__u64 peer_delay;
		__u64 cork_timeouts;
		__u64 autocork;
		__u64 errors;
	} sndhold;
	struct {
		__u64 overflows;
	} listen;
	struct {
		__u64 probes;
	} peerwnd;
};

#endif
