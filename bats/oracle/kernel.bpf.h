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

struct timer_list {
	unsigned long expires;
} KERNEL;

struct linux_mib {
	unsigned long mibs[1];
} KERNEL;

struct local_ports {
	int range[2];
} KERNEL;

struct local_ports___packed {
	__u32 range;
} KERNEL;

struct netns_ipv4 {
	struct local_ports ip_local_ports;
	__u32 sysctl_ip_local_port_step_width;
	__u8 sysctl_tcp_pingpong_thresh;
	__u8 sysctl_tcp_autocorking;
	__u8 sysctl_tcp_syncookies;
} KERNEL;

struct netns_mib {
	struct linux_mib *net_statistics;
} KERNEL;

struct net {
	struct netns_mib mib;
	struct netns_ipv4 ipv4;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct sock_common {
	__u16 skc_num;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	unsigned long skc_flags;
} KERNEL;

struct dst_entry {
	unsigned long _metrics;
} KERNEL;

struct sk_buff {
	struct sk_buff *prev;
	unsigned int len;
	__be16 protocol;
	unsigned int truesize;
	char cb[48];
} KERNEL;

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
} KERNEL;

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u8 tcp_flags;
} KERNEL;

struct rb_root {
	struct rb_node *rb_node;
} KERNEL;

struct refcount {
	int counter;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	struct {
		int owned;
	} sk_lock;
	struct sk_buff_head sk_write_queue;
	struct rb_root tcp_rtx_queue;
	unsigned long sk_tsq_flags;
	struct {
		struct refcount refs;
	} sk_wmem_alloc;
	__u32 sk_pacing_status;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	__u8 sk_shutdown;
	int sk_rcvlowat;
} KERNEL;

struct minmax_sample {
	__u32 v;
} KERNEL;

struct minmax {
	struct minmax_sample s[3];
} KERNEL;

struct inet_sock {
	struct {
		__u16 lo;
		__u16 hi;
	} local_port_range;
} KERNEL;

struct inet_sock___packed {
	__u32 local_port_range;
} KERNEL;

struct request_sock_queue {
	struct {
		int counter;
	} qlen;
} KERNEL;

struct inet_connection_sock {
	struct request_sock_queue icsk_accept_queue;
	struct timer_list icsk_delack_timer;
	struct {
		__u8 pending;
		__u8 quick;
		__u8 pingpong;
		__u32 ato;
		unsigned long timeout;
		__u32 lrcvtime;
	} icsk_ack;
} KERNEL;

struct tcp_options_received {
	__u32 rcv_tsecr;
	__u16 tstamp_ok:1;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_received;
	__u32 data_segs_out;
	__u32 lsndtime;
	__u32 chrono_start;
	__u8 chrono_type:2;
	__u64 tcp_mstamp;
	__u64 tcp_wstamp_ns;
	struct {
		__u64 mstamp;
	} rack;
	struct {
		__u64 time;
	} rcvq_space;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 mdev_us;
	struct minmax rtt_min;
	__u32 copied_seq;
	__u32 rcv_nxt;
	__u32 rcv_wup;
	__u32 rcv_tstamp;
	__u32 snd_cwnd;
	__u32 snd_sml;
	__u32 snd_up;
	__u32 snd_wnd;
	__u32 write_seq;
	__u32 packets_out;
	__u64 tcp_clock_cache;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u8 compressed_ack;
	__u8 tcp_usec_ts:1;
	struct tcp_options_received rx_opt;
} KERNEL;

struct inet_timewait_death_row;

extern int LINUX_KERNEL_VERSION __kconfig;

/* Since 6.2. */
void *bpf_rdonly_cast(void *obj, __u32 btf_id) __ksym __weak;

/* Kernel data; only its address is available. */
extern const void table_perturb __ksym __weak;
extern const void __per_cpu_offset __ksym;

#endif
