// SPDX-License-Identifier: GPL-2.0
/*
 * The fields that all tracepoints have, which describe the socket.
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
 * tcplat_trace_cookie() - get a socket's cookie, as shown by ss -e and SO_COOKIE
 * @sk: the socket, held by the caller; a cookie is assigned if it has none yet
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
 * tcplat_trace_cgroup() - get the cgroup that a socket belongs to
 * @sk: the socket, held by the caller
 *
 * In the hierarchy of version 2, a socket belongs to the cgroup of the process that created it,
 * and an accepted socket to the cgroup of its listener.
 *
 * Context: any.
 * Return: the cgroup's ID, which is the inode of its directory; 0 if the kernel does not store it
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
	/* While the socket connects to an IPv4 address, only inet_rcv_saddr is set. */
	if (ipv6_addr_v4mapped(&d->sin6_addr))
		ipv6_addr_set_v4mapped(inet->inet_rcv_saddr, &s->sin6_addr);
}

NOKPROBE_SYMBOL(addresses6);
#endif

/**
 * tcplat_trace_addresses() - get the addresses and ports of both ends of a socket
 * @sk: the socket, held by the caller
 * @saddr: buffer of TCPLAT_ADDR_LEN bytes for the socket's own address
 * @daddr: buffer of TCPLAT_ADDR_LEN bytes for the peer's address
 *
 * Both are zero if the socket is neither AF_INET nor AF_INET6.
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
 * tcplat_trace_port() - get the port of an address
 * @addr: the address, from tcplat_trace_addresses(), of either family
 *
 * Context: any.
 * Return: the port, in host byte order
 */
u16 tcplat_trace_port(const u8 *addr)
{
	/* The port has the same offset in both families. */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

NOKPROBE_SYMBOL(tcplat_trace_port);
