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

struct times {
	__u64 sum;
	__u64 max;
	__u64 hist[TIME_BUCKETS];
};

/* Per CPU. */
struct counts {
	struct {
		__u64 timeouts;
		__u64 timeouts_pingpong;
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
	struct {
		__u64 searches;
		__u64 iterations;
		__u64 iterations_max;
		__u64 exhausted;
		__u64 unverified;
		__u64 hist[PORT_BUCKETS];
		struct times times;
	} portsearch;
	struct {
		__u64 searches;
		__u64 exhausted;
		struct times times;
	} bindsearch;
	struct {
		__u64 waits;
		__u64 timeouts;
		struct times times;
	} sndwait;
	struct {
		__u64 nagle;
		struct times nagle_times;
		__u64 peer_delays;
		__u64 peer_delay;
		__u64 cork;
		struct times cork_times;
		__u64 cork_timeouts;
		__u64 autocork;
		__u64 errors;
	} sndhold;
	struct {
		__u64 restarts;
		__u64 cwnd_lost;
		__u64 idle;
	} idlerestart;
};

#endif
