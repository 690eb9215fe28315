// SPDX-License-Identifier: GPL-2.0
/*
 * What all tracepoints show of a socket.
 */
#include <linux/build_bug.h>
#include <linux/cgroup.h>
#include <linux/inet.h>
#include <linux/kprobes.h>
#include <linux/sock_diag.h>
#include <linux/string.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

static_assert(sizeof(struct sockaddr_in6) == TCPLAT_ADDR_LEN);
static_assert(TCPLAT_PEER_LEN >= INET6_ADDRSTRLEN);

/**
 * tcplat_trace_cookie() - a socket's cookie, as ss -e and SO_COOKIE show it
 * @sk: the socket, which somebody holds; it gets one if it has none yet
 *
 * Context: any.
 * Return: the cookie
 */
u64 tcplat_trace_cookie(struct sock *sk)
{
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	return (u64)cookie[1] << 32 | cookie[0];
}

NOKPROBE_SYMBOL(tcplat_trace_cookie);

/**
 * tcplat_trace_cgroup() - the cgroup that a socket belongs to
 * @sk: the socket, which somebody holds
 *
 * A socket belongs to the cgroup of the process that made it, an accepted one to its
 * listener's, in the hierarchy of version 2.
 *
 * Context: any.
 * Return: the cgroup's ID, the inode of its directory; 0 if the kernel does not keep it
 */
u64 tcplat_trace_cgroup(struct sock *sk)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	return cgroup_id(sock_cgroup_ptr(&sk->sk_cgrp_data));
#else
	return 0;
#endif
}

NOKPROBE_SYMBOL(tcplat_trace_cgroup);

static void addresses4(const struct inet_sock *inet, struct sockaddr_in *s,
		       struct sockaddr_in *d)
{
	s->sin_family = AF_INET;
	s->sin_addr.s_addr = inet->inet_rcv_saddr;
	s->sin_port = inet->inet_sport;
	d->sin_family = AF_INET;
	d->sin_addr.s_addr = inet->inet_daddr;
	d->sin_port = inet->inet_dport;
}

NOKPROBE_SYMBOL(addresses4);

#if IS_ENABLED(CONFIG_IPV6)
static void addresses6(const struct sock *sk, struct sockaddr_in6 *s, struct sockaddr_in6 *d)
{
	const struct inet_sock *inet = inet_sk(sk);

	s->sin6_family = AF_INET6;
	s->sin6_addr = sk->sk_v6_rcv_saddr;
	s->sin6_port = inet->inet_sport;
	d->sin6_family = AF_INET6;
	d->sin6_addr = sk->sk_v6_daddr;
	d->sin6_port = inet->inet_dport;
	/* While it connects to an IPv4 address only that one is known. */
	if (ipv6_addr_v4mapped(&d->sin6_addr))
		ipv6_addr_set_v4mapped(inet->inet_rcv_saddr, &s->sin6_addr);
}

NOKPROBE_SYMBOL(addresses6);
#endif

/**
 * tcplat_trace_addresses() - both ends of a socket, with their ports
 * @sk: the socket, which somebody holds
 * @saddr: where to put its own address, of TCPLAT_ADDR_LEN bytes
 * @daddr: the same for its peer's
 *
 * Of a socket that is neither AF_INET nor AF_INET6 both are zero.
 *
 * Context: any.
 */
void tcplat_trace_addresses(const struct sock *sk, u8 *saddr, u8 *daddr)
{
	memset(saddr, 0, TCPLAT_ADDR_LEN);
	memset(daddr, 0, TCPLAT_ADDR_LEN);
	if (sk->sk_family == AF_INET)
		addresses4(inet_sk(sk), (struct sockaddr_in *)saddr, (struct sockaddr_in *)daddr);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		addresses6(sk, (struct sockaddr_in6 *)saddr, (struct sockaddr_in6 *)daddr);
#endif
}

NOKPROBE_SYMBOL(tcplat_trace_addresses);

/**
 * tcplat_trace_port() - the port of an address
 * @addr: the address, of tcplat_trace_addresses(), of either family
 *
 * Context: any.
 * Return: the port, in the host's byte order
 */
u16 tcplat_trace_port(const u8 *addr)
{
	/* At the same place in both. */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

NOKPROBE_SYMBOL(tcplat_trace_port);
