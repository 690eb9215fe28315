/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints, which identify the connection of each event. A disabled tracepoint costs a jump
 * that is not taken; fields are only filled in while it is enabled.
 *
 * Documentation/tracepoints.md describes the fields.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tcplat

#if !defined(_TCPLAT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TCPLAT_TRACE_H

#include <linux/in6.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <net/sock.h>

#include "ackmode.h"
#include "jiffies.h"
#include "sndhold.h"
#include "sndwait.h"

/*
 * Sizes of a struct sockaddr_in6 and of the longest address as text. These are literal numbers,
 * since the format files show them as written, and not every parser understands sizeof.
 */
#define TCPLAT_ADDR_LEN	28
#define TCPLAT_PEER_LEN	48

/*
 * The fields that all tracepoints have. The peer's address is also present as text, since a
 * histogram trigger's key can be a number or a string, but not an address.
 */
#define TCPLAT_SOCK_FIELDS						\
		__field(u64, cookie)					\
		__field(u64, cgroup)					\
		__field(u32, netns)					\
		__field(u16, family)					\
		__field(u16, sport)					\
		__field(u16, dport)					\
		__array(u8, saddr, TCPLAT_ADDR_LEN)			\
		__array(u8, daddr, TCPLAT_ADDR_LEN)			\
		__array(char, peer, TCPLAT_PEER_LEN)

#define TCPLAT_SOCK_ASSIGN(sk)						\
	do {								\
		__entry->cookie = tcplat_trace_cookie(sk);		\
		__entry->cgroup = tcplat_trace_cgroup(sk);		\
		__entry->netns = sock_net(sk)->ns.inum;			\
		__entry->family = (sk)->sk_family;			\
		tcplat_trace_addresses(sk, __entry->saddr, __entry->daddr); \
		__entry->sport = tcplat_trace_port(__entry->saddr);	\
		__entry->dport = tcplat_trace_port(__entry->daddr);	\
		snprintf(__entry->peer, sizeof(__entry->peer), "%pISc", __entry->daddr); \
	} while (0)

#define TCPLAT_SOCK_FORMAT						\
	"netns=%u family=%s saddr=%pISpc daddr=%pISpc cookie=%llx cgroup=%llu "
#define TCPLAT_SOCK_ARGS						\
	__entry->netns,							\
	__print_symbolic(__entry->family, { AF_INET, "inet" }, { AF_INET6, "inet6" }), \
	__entry->saddr, __entry->daddr, __entry->cookie, __entry->cgroup

TRACE_DEFINE_ENUM(TCPLAT_DELAYED);
TRACE_DEFINE_ENUM(TCPLAT_QUICKACK);
TRACE_DEFINE_ENUM(TCPLAT_PINGPONG);
TRACE_DEFINE_ENUM(TCPLAT_ROUTE);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_NONE);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_TIMEOUT);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_SETSOCKOPT);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_FIRST);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_GAP);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_DUPLICATE);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_ECN);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_HANDSHAKE);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_BUDGET);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_ANSWER);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_FIN);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_WINDOW);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_ROUTE);
TRACE_DEFINE_ENUM(TCPLAT_CAUSE_DISCONNECT);
TRACE_DEFINE_ENUM(TCPLAT_HOLD_NAGLE);
TRACE_DEFINE_ENUM(TCPLAT_HOLD_CORK);
TRACE_DEFINE_ENUM(TCPLAT_WAIT_SLEPT);
TRACE_DEFINE_ENUM(TCPLAT_WAIT_AGAIN);
TRACE_DEFINE_ENUM(TCPLAT_WAIT_GAVE_UP);

#define TCPLAT_MODE_NAME(mode)						\
	__print_symbolic(mode,						\
			 { TCPLAT_DELAYED, "delayed" },			\
			 { TCPLAT_QUICKACK, "quickack" },		\
			 { TCPLAT_PINGPONG, "pingpong" },		\
			 { TCPLAT_ROUTE, "route" })
#define TCPLAT_CAUSE_NAME(cause)					\
	__print_symbolic(cause,						\
			 { TCPLAT_CAUSE_NONE, "none" },			\
			 { TCPLAT_CAUSE_TIMEOUT, "timeout" },		\
			 { TCPLAT_CAUSE_SETSOCKOPT, "setsockopt" },	\
			 { TCPLAT_CAUSE_FIRST, "first" }, \
			 { TCPLAT_CAUSE_GAP, "gap" }, \
			 { TCPLAT_CAUSE_DUPLICATE, "duplicate" }, \
			 { TCPLAT_CAUSE_ECN, "ecn" }, \
			 { TCPLAT_CAUSE_HANDSHAKE, "handshake" }, \
			 { TCPLAT_CAUSE_BUDGET, "budget" }, \
			 { TCPLAT_CAUSE_ANSWER, "answer" }, \
			 { TCPLAT_CAUSE_FIN, "fin" }, \
			 { TCPLAT_CAUSE_WINDOW, "window" }, \
			 { TCPLAT_CAUSE_ROUTE, "route" }, \
			 { TCPLAT_CAUSE_DISCONNECT, "disconnect" })
#define TCPLAT_HOLD_NAME(cause)						\
	__print_symbolic(cause,						\
			 { TCPLAT_HOLD_NAGLE, "nagle" },		\
			 { TCPLAT_HOLD_CORK, "cork" })
#define TCPLAT_WAIT_NAME(kind)						\
	__print_symbolic(kind,						\
			 { TCPLAT_WAIT_SLEPT, "slept" },		\
			 { TCPLAT_WAIT_AGAIN, "again" },		\
			 { TCPLAT_WAIT_GAVE_UP, "gave_up" })

TRACE_EVENT(delack_timeout,
	TP_PROTO(struct sock *sk, u32 delay_jiffies, u32 late_jiffies),
	TP_ARGS(sk, delay_jiffies, late_jiffies),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, mode)
		__field(u32, delay_jiffies)
		__field(u64, delay_us)
		__field(u32, asked_jiffies)
		__field(u32, late_jiffies)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->mode = tcplat_sock_mode(sk);
		__entry->delay_jiffies = delay_jiffies;
		__entry->delay_us = tcplat_jiffies_to_us(delay_jiffies);
		__entry->asked_jiffies = delay_jiffies - late_jiffies;
		__entry->late_jiffies = late_jiffies;
	),
	TP_printk(TCPLAT_SOCK_FORMAT
		  "mode=%s delay_jiffies=%u delay_us=%llu asked_jiffies=%u late_jiffies=%u",
		  TCPLAT_SOCK_ARGS, TCPLAT_MODE_NAME(__entry->mode),
		  __entry->delay_jiffies, __entry->delay_us, __entry->asked_jiffies,
		  __entry->late_jiffies)
);

TRACE_EVENT(ack_stall,
	TP_PROTO(struct sock *sk, u32 stall_jiffies),
	TP_ARGS(sk, stall_jiffies),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, stall_jiffies)
		__field(u64, stall_us)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->stall_jiffies = stall_jiffies;
		__entry->stall_us = tcplat_jiffies_to_us(stall_jiffies);
	),
	TP_printk(TCPLAT_SOCK_FORMAT "stall_jiffies=%u stall_us=%llu",
		  TCPLAT_SOCK_ARGS, __entry->stall_jiffies, __entry->stall_us)
);

TRACE_EVENT(ack_mode,
	TP_PROTO(struct sock *sk, u32 from, u32 mode, u32 cause),
	TP_ARGS(sk, from, mode, cause),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, from)
		__field(u32, mode)
		__field(u32, cause)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->from = from;
		__entry->mode = mode;
		__entry->cause = cause;
	),
	TP_printk(TCPLAT_SOCK_FORMAT "from=%s mode=%s cause=%s",
		  TCPLAT_SOCK_ARGS, TCPLAT_MODE_NAME(__entry->from),
		  TCPLAT_MODE_NAME(__entry->mode), TCPLAT_CAUSE_NAME(__entry->cause))
);

TRACE_EVENT(port_search,
	TP_PROTO(struct sock *sk, u32 iterations, u64 time_ns, int error),
	TP_ARGS(sk, iterations, time_ns, error),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, iterations)
		__field(u64, time_ns)
		__field(int, error)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->iterations = iterations;
		__entry->time_ns = time_ns;
		__entry->error = error;
	),
	TP_printk(TCPLAT_SOCK_FORMAT "iterations=%u time_ns=%llu error=%d",
		  TCPLAT_SOCK_ARGS, __entry->iterations, __entry->time_ns, __entry->error)
);

TRACE_EVENT(snd_wait,
	TP_PROTO(struct sock *sk, u64 time_ns, int error, u32 kind),
	TP_ARGS(sk, time_ns, error, kind),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u64, time_ns)
		__field(int, error)
		__field(u32, kind)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->time_ns = time_ns;
		__entry->error = error;
		__entry->kind = kind;
	),
	TP_printk(TCPLAT_SOCK_FORMAT "time_ns=%llu error=%d kind=%s",
		  TCPLAT_SOCK_ARGS, __entry->time_ns, __entry->error,
		  TCPLAT_WAIT_NAME(__entry->kind))
);

TRACE_EVENT(snd_hold,
	TP_PROTO(struct sock *sk, u32 cause, u64 time_ns, u32 bytes, pid_t pid,
		 const char *comm),
	TP_ARGS(sk, cause, time_ns, bytes, pid, comm),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, cause)
		__field(u64, time_ns)
		__field(u32, bytes)
		__field(pid_t, pid)
		__array(char, comm, TASK_COMM_LEN)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->cause = cause;
		__entry->time_ns = time_ns;
		__entry->bytes = bytes;
		__entry->pid = pid;
		memcpy(__entry->comm, comm, TASK_COMM_LEN);
	),
	TP_printk(TCPLAT_SOCK_FORMAT "cause=%s time_ns=%llu bytes=%u pid=%d comm=%s",
		  TCPLAT_SOCK_ARGS, TCPLAT_HOLD_NAME(__entry->cause), __entry->time_ns,
		  __entry->bytes, __entry->pid, __entry->comm)
);

TRACE_EVENT(idle_restart,
	TP_PROTO(struct sock *sk, u32 cwnd_before, u32 cwnd, u32 idle_jiffies),
	TP_ARGS(sk, cwnd_before, cwnd, idle_jiffies),
	TP_STRUCT__entry(
		TCPLAT_SOCK_FIELDS
		__field(u32, cwnd_before)
		__field(u32, cwnd)
		__field(u32, idle_jiffies)
		__field(u64, idle_us)
	),
	TP_fast_assign(
		TCPLAT_SOCK_ASSIGN(sk);
		__entry->cwnd_before = cwnd_before;
		__entry->cwnd = cwnd;
		__entry->idle_jiffies = idle_jiffies;
		__entry->idle_us = tcplat_jiffies_to_us(idle_jiffies);
	),
	TP_printk(TCPLAT_SOCK_FORMAT "cwnd_before=%u cwnd=%u idle_jiffies=%u idle_us=%llu",
		  TCPLAT_SOCK_ARGS, __entry->cwnd_before, __entry->cwnd,
		  __entry->idle_jiffies, __entry->idle_us)
);

#endif /* _TCPLAT_TRACE_H */

#ifndef _TCPLAT_TRACE_SOCK
#define _TCPLAT_TRACE_SOCK
u64 tcplat_trace_cookie(struct sock *sk);
u64 tcplat_trace_cgroup(struct sock *sk);
void tcplat_trace_addresses(const struct sock *sk, u8 *saddr, u8 *daddr);
u16 tcplat_trace_port(const u8 *addr);
#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
