/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the BPF programs: maps, and the kernel's types with the members that the programs use.
 * libbpf finds the offsets of the members in the running kernel.
 */
#ifndef ORACLE_KERNEL_BPF_H
#define ORACLE_KERNEL_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define SOL_TCP		6
#define TCP_QUICKACK	12

/* Index into the array of a route's metrics. */
#define RTAX_QUICKACK	15

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
	TCP_NEW_SYN_RECV,
};

/* A map of one value; one for each socket or task, which is freed with it; one by address. */
#define ONE(name, kind, what)				\
struct {						\
	__uint(type, BPF_MAP_TYPE_##kind);		\
	__uint(max_entries, 1);				\
	__type(key, __u32);				\
	__type(value, what);				\
} name SEC(".maps")

#define PER(name, kind, what)				\
struct {						\
	__uint(type, BPF_MAP_TYPE_##kind##_STORAGE);	\
	__uint(map_flags, BPF_F_NO_PREALLOC);		\
	__type(key, int);				\
	__type(value, what);				\
} name SEC(".maps")

#define BY_ADDRESS(name, kind, entries, what)		\
struct {						\
	__uint(type, BPF_MAP_TYPE_##kind);		\
	__uint(max_entries, entries);			\
	__type(key, __u64);				\
	__type(value, what);				\
} name SEC(".maps")

char _license[] SEC("license") = "GPL";

static const __u32 zero;

/* Atomic although some maps are per CPU: another program may interrupt and count the same. */
#define add(what, n) __sync_fetch_and_add(&(what), n)

static inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

#define KERNEL __attribute__((preserve_access_index))

struct netns_ipv4 {
	__u8 sysctl_tcp_pingpong_thresh;
} KERNEL;

struct net {
	struct netns_ipv4 ipv4;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct sock_common {
	volatile unsigned char skc_state;
	possible_net_t skc_net;
} KERNEL;

struct dst_entry {
	unsigned long _metrics;
} KERNEL;

struct sk_buff {
	char cb[48];
} KERNEL;

struct tcp_skb_cb {
	__u32 end_seq;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	struct {
		int owned;
	} sk_lock;
} KERNEL;

struct inet_connection_sock {
	struct {
		__u8 quick;
		__u8 pingpong;
		__u32 ato;
	} icsk_ack;
} KERNEL;

struct tcp_sock {
	struct {
		struct {
			__u32 v;
		} s[3];
	} rtt_min;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_cwnd;
	__u32 snd_sml;
	__u32 snd_wnd;
	__u32 write_seq;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
} KERNEL;

#endif
