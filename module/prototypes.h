/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The prototypes that the handlers assume. A kernel whose headers declare one of these functions
 * with other arguments stops the build here: its handler would read the wrong registers. Static
 * functions, which no header declares, are not checked.
 */
#ifndef _TCPLAT_PROTOTYPES_H
#define _TCPLAT_PROTOTYPES_H

#include <linux/security.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/sock.h>
#include <net/tcp.h>

#ifdef TCPLAT_HAVE_PORT_OFFSET_U64
#define TCPLAT_PORT_OFFSET	u64
#else
#define TCPLAT_PORT_OFFSET	u32
#endif

#ifdef TCPLAT_HAVE_OPTVAL_USER
#define TCPLAT_OPTVAL		char __user *
#else
#define TCPLAT_OPTVAL		sockptr_t
#endif

int __inet_hash_connect(struct inet_timewait_death_row *death_row, struct sock *sk,
			TCPLAT_PORT_OFFSET port_offset,
#ifdef TCPLAT_HAVE_HASH_PORT0
			u32 hash_port0,
			int (*check_established)(struct inet_timewait_death_row *, struct sock *,
						 __u16, struct inet_timewait_sock **,
						 bool rcu_lookup, u32 hash));
#else
			int (*check_established)(struct inet_timewait_death_row *, struct sock *,
						 __u16, struct inet_timewait_sock **));
#endif
int do_tcp_setsockopt(struct sock *sk, int level, int optname, TCPLAT_OPTVAL optval,
		      unsigned int optlen);
struct inet_bind2_bucket *inet_bind2_bucket_find(const struct inet_bind_hashbucket *head,
						 const struct net *net, unsigned short port,
						 int l3mdev, const struct sock *sk);
int inet_csk_get_port(struct sock *sk, unsigned short snum);
int sk_stream_wait_memory(struct sock *sk, long *timeo);
void sk_stream_write_space(struct sock *sk);
void tcp_cwnd_restart(struct sock *sk, s32 delta);
void tcp_delack_timer_handler(struct sock *sk);
int tcp_disconnect(struct sock *sk, int flags);
void tcp_fin(struct sock *sk);
void tcp_init_transfer(struct sock *sk, int bpf_op, struct sk_buff *skb);
void tcp_push(struct sock *sk, int flags, int mss, int nonagle, int size_goal);
void tcp_push_one(struct sock *sk, unsigned int mss_now);
void tcp_rcv_established(struct sock *sk, struct sk_buff *skb);
int tcp_setsockopt(struct sock *sk, int level, int optname, TCPLAT_OPTVAL optval,
		   unsigned int optlen);
void tcp_sock_set_quickack(struct sock *sk, int val);
void tcp_v4_destroy_sock(struct sock *sk);
int tcp_conn_request(struct request_sock_ops *rsk_ops, const struct tcp_request_sock_ops *af_ops,
		     struct sock *sk, struct sk_buff *skb);
void tcp_enter_recovery(struct sock *sk, bool ece_ack);
void tcp_retransmit_timer(struct sock *sk);
int tcp_rtx_synack(const struct sock *sk, struct request_sock *req);
void tcp_send_loss_probe(struct sock *sk);
void tcp_send_probe0(struct sock *sk);
struct sock *tcp_v4_syn_recv_sock(const struct sock *sk, struct sk_buff *skb,
				  struct request_sock *req, struct dst_entry *dst,
				  struct request_sock *req_unhash,
#ifdef TCPLAT_HAVE_OPT_CHILD_INIT
				  bool *own_req, void (*opt_child_init)(struct sock *newsk,
									const struct sock *sk));
#else
				  bool *own_req);
#endif
#ifdef CONFIG_SECURITY_NETWORK
void security_sock_graft(struct sock *sk, struct socket *parent);
#endif

#endif /* _TCPLAT_PROTOTYPES_H */
