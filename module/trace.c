// SPDX-License-Identifier: GPL-2.0
/* The fields that all tracepoints have. */
#include <linux/build_bug.h>
#include <linux/cgroup.h>
#include <linux/inet.h>
#include <linux/kprobes.h>
#include <linux/module.h>
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
 * tcplat_trace_reg() - keep the module from being unloaded while a tracepoint is used
 *
 * Called before the first user of each tracepoint. Without this, rmmod removes the tracepoints
 * while a trigger, for example of a killed reader, is set on them, and the kernel warns.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENODEV if the module is being unloaded
 */
int tcplat_trace_reg(void)
{
	return try_module_get(THIS_MODULE) ? 0 : -ENODEV;
}

/**
 * tcplat_trace_unreg() - let the module be unloaded again
 *
 * Called after the last user of each tracepoint. The caller still uses the tracepoint, which is
 * in the module's memory, after the return. It holds event_mutex or its own reference, and
 * unloading the module waits for either.
 *
 * Context: process, may sleep.
 */
void tcplat_trace_unreg(void)
{
	module_put(THIS_MODULE);
}

/**
 * tcplat_trace_comm() - copy a thread's name, with '?' in place of unprintable bytes
 * @to: buffer of TASK_COMM_LEN bytes
 * @comm: the name, in a buffer of TASK_COMM_LEN bytes
 *
 * A process chooses its own name. Terminals act on escape sequences in it, newlines and tabs
 * break the lines of the trace and of histograms, and invalid UTF-8 breaks JSON.
 *
 * Context: any.
 */
void __kprobes tcplat_trace_comm(char *to, const char *comm)
{
	unsigned int i;

	for (i = 0; i < TASK_COMM_LEN; i++)
		to[i] = !comm[i] || (comm[i] >= ' ' && comm[i] <= '~') ? comm[i] : '?';
}

/**
 * tcplat_trace_cookie() - get a socket's cookie, as shown by ss -e and SO_COOKIE
 * @sk: the socket, held by the caller; a cookie is assigned if it has none yet
 *
 * Context: any.
 * Return: the cookie
 */
u64 __kprobes tcplat_trace_cookie(struct sock *sk)
{
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	return (u64)cookie[1] << 32 | cookie[0];
}

/**
 * tcplat_trace_cgroup() - get the cgroup that a socket belongs to
 * @sk: the socket, held by the caller; a connection request belongs to its listener's cgroup
 *
 * In the hierarchy of version 2, a socket belongs to the cgroup of the process that created it,
 * and an accepted socket to the cgroup of its listener.
 *
 * Context: any.
 * Return: the cgroup's ID, which is the inode of its directory; 0 if the kernel does not store it
 */
u64 __kprobes tcplat_trace_cgroup(struct sock *sk)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	sk = sk_to_full_sk(sk);
	return sk ? cgroup_id(sock_cgroup_ptr(&sk->sk_cgrp_data)) : 0;
#else
	return 0;
#endif
}

/**
 * tcplat_trace_addresses() - get the addresses and ports of both ends of a socket
 * @sk: the socket or connection request, held by the caller
 * @saddr: buffer of TCPLAT_ADDR_LEN zero bytes for the socket's own address
 * @daddr: buffer of TCPLAT_ADDR_LEN zero bytes for the peer's address
 *
 * Both remain zero if the socket is neither AF_INET nor AF_INET6.
 *
 * Context: any.
 */
void __kprobes tcplat_trace_addresses(const struct sock *sk, u8 *saddr, u8 *daddr)
{
	struct sockaddr_in *s = (struct sockaddr_in *)saddr, *d = (struct sockaddr_in *)daddr;

	if (sk->sk_family == AF_INET) {
		s->sin_addr.s_addr = sk->sk_rcv_saddr;
		d->sin_addr.s_addr = sk->sk_daddr;
#if IS_ENABLED(CONFIG_IPV6)
	} else if (sk->sk_family == AF_INET6) {
		struct sockaddr_in6 *s6 = (struct sockaddr_in6 *)saddr;
		struct sockaddr_in6 *d6 = (struct sockaddr_in6 *)daddr;

		s6->sin6_addr = sk->sk_v6_rcv_saddr;
		d6->sin6_addr = sk->sk_v6_daddr;
		/* While the socket connects to an IPv4 address, only sk_rcv_saddr is set. */
		if (ipv6_addr_v4mapped(&d6->sin6_addr))
			ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, &s6->sin6_addr);
#endif
	} else {
		return;
	}
	/* A struct sockaddr_in6 has these in the same place. */
	s->sin_family = sk->sk_family;
	s->sin_port = htons(sk->sk_num);
	d->sin_family = sk->sk_family;
	d->sin_port = sk->sk_dport;
}
