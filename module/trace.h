/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints, which identify the connection: see Documentation/guide/tracepoints.md. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tcplat

#if !defined(_TCPLAT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TCPLAT_TRACE_H

#include <linux/in6.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <net/sock.h>

#include "ackmode.h"
#include "answer.h"
#include "jiffies.h"
#include "loss.h"
#include "sndhold.h"
#include "sndwait.h"

/*
 * Sizes of a struct sockaddr_in6 and of the longest address as text. These are literal numbers,
 * since the format files show them as written, and not every parser understands sizeof.
 */
#define TCPLAT_ADDR_LEN	28
#define TCPLAT_PEER_LEN	48

int tcplat_trace_reg(void);
void tcplat_trace_unreg(void);
void tcplat_trace_comm(char *to, const char *comm);
u64 tcplat_trace_cookie(struct sock *sk);
u64 tcplat_trace_cgroup(struct sock *sk);
void tcplat_trace_addresses(const struct sock *sk, u8 *saddr, u8 *daddr);

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

/* Neither padding nor the end of a text may have what the buffer's page had before. */
#define TCPLAT_SOCK_ASSIGN(sk)						\
	do {								\
		memset((u8 *)__entry + sizeof(__entry->ent), 0,		\
		       sizeof(*__entry) - sizeof(__entry->ent));	\
		__entry->cookie = tcplat_trace_cookie(sk);		\
		__entry->cgroup = tcplat_trace_cgroup(sk);		\
		__entry->netns = sock_net(sk)->ns.inum;			\
		__entry->family = (sk)->sk_family;			\
		tcplat_trace_addresses(sk, __entry->saddr, __entry->daddr); \
		__entry->sport = (sk)->sk_num;				\
		__entry->dport = ntohs((sk)->sk_dport);			\
		snprintf(__entry->peer, sizeof(__entry->peer), "%pISc", __entry->daddr); \
	} while (0)

#define TCPLAT_SOCK_FORMAT						\
	"netns=%u family=%s saddr=%pISpc daddr=%pISpc cookie=%llx cgroup=%llu "
#define TCPLAT_SOCK_ARGS						\
	__entry->netns,							\
	__print_symbolic(__entry->family, { AF_INET, "inet" }, { AF_INET6, "inet6" }), \
	__entry->saddr, __entry->daddr, __entry->cookie, __entry->cgroup

/*
 * The fields of an event besides those of the socket are listed once: A() is an argument after sk
 * and a field, D() a field derived from the arguments, C() a thread's name. The list becomes the
 * prototype, the arguments, the fields and the assignments.
 */
#define TCPLAT_A_PROTO(type, name)		, type name
#define TCPLAT_A_NAME(type, name)		, name
#define TCPLAT_A_FIELD(type, name)		__field(type, name)
#define TCPLAT_A_ASSIGN(type, name)		__entry->name = name;
#define TCPLAT_D_NONE(type, name, value)
#define TCPLAT_D_FIELD(type, name, value)	__field(type, name)
#define TCPLAT_D_ASSIGN(type, name, value)	__entry->name = value;
#define TCPLAT_C_PROTO(name)			, const char *name
#define TCPLAT_C_NAME(name)			, name
#define TCPLAT_C_FIELD(name)			__array(char, name, TASK_COMM_LEN)
#define TCPLAT_C_ASSIGN(name)			tcplat_trace_comm(__entry->name, name);

/* Describes the socket sk, and keeps the module loaded while anybody uses the tracepoint. */
#define TCPLAT_EVENT(name, list, format, ...)				\
	TRACE_EVENT_FN(name,						\
		TP_PROTO(struct sock *sk				\
			 list(TCPLAT_A_PROTO, TCPLAT_D_NONE, TCPLAT_C_PROTO)), \
		TP_ARGS(sk list(TCPLAT_A_NAME, TCPLAT_D_NONE, TCPLAT_C_NAME)), \
		TP_STRUCT__entry(TCPLAT_SOCK_FIELDS			\
			list(TCPLAT_A_FIELD, TCPLAT_D_FIELD, TCPLAT_C_FIELD)), \
		TP_fast_assign(TCPLAT_SOCK_ASSIGN(sk);			\
			list(TCPLAT_A_ASSIGN, TCPLAT_D_ASSIGN, TCPLAT_C_ASSIGN)), \
		TP_printk(TCPLAT_SOCK_FORMAT format, TCPLAT_SOCK_ARGS, __VA_ARGS__), \
		tcplat_trace_reg, tcplat_trace_unreg)

/* Values with names, as in the kernel's own headers: EM() for each, EMe() for the last. */
#define TCPLAT_MODE_NAMES					\
	EM(TCPLAT_DELAYED, "delayed") \
	EM(TCPLAT_QUICKACK, "quickack") \
	EM(TCPLAT_PINGPONG, "pingpong") \
	EMe(TCPLAT_ROUTE, "route")
#define TCPLAT_CAUSE_NAMES					\
	EM(TCPLAT_CAUSE_NONE, "none") \
	EM(TCPLAT_CAUSE_TIMEOUT, "timeout") \
	EM(TCPLAT_CAUSE_SETSOCKOPT, "setsockopt") \
	EM(TCPLAT_CAUSE_FIRST, "first") \
	EM(TCPLAT_CAUSE_GAP, "gap") \
	EM(TCPLAT_CAUSE_DUPLICATE, "duplicate") \
	EM(TCPLAT_CAUSE_ECN, "ecn") \
	EM(TCPLAT_CAUSE_HANDSHAKE, "handshake") \
	EM(TCPLAT_CAUSE_BUDGET, "budget") \
	EM(TCPLAT_CAUSE_ANSWER, "answer") \
	EM(TCPLAT_CAUSE_FIN, "fin") \
	EM(TCPLAT_CAUSE_WINDOW, "window") \
	EM(TCPLAT_CAUSE_ROUTE, "route") \
	EMe(TCPLAT_CAUSE_DISCONNECT, "disconnect")
#define TCPLAT_HOLD_NAMES					\
	EM(TCPLAT_HOLD_NAGLE, "nagle") \
	EMe(TCPLAT_HOLD_CORK, "cork")
#define TCPLAT_WAIT_NAMES					\
	EM(TCPLAT_WAIT_SLEPT, "slept") \
	EM(TCPLAT_WAIT_AGAIN, "again") \
	EMe(TCPLAT_WAIT_GAVE_UP, "gave_up")
#define TCPLAT_LOSS_NAMES					\
	EM(TCPLAT_LOSS_RTO, "rto") \
	EM(TCPLAT_LOSS_TLP, "tlp") \
	EM(TCPLAT_LOSS_FAST, "fast") \
	EM(TCPLAT_LOSS_SYN, "syn") \
	EMe(TCPLAT_LOSS_SYNACK, "synack")
#define TCPLAT_ANSWER_NAMES					\
	EM(TCPLAT_ANSWER_OWN, "own") \
	EMe(TCPLAT_ANSWER_PEER, "peer")

#undef EM
#undef EMe
#define EM(value, name)		TRACE_DEFINE_ENUM(value);
#define EMe(value, name)	TRACE_DEFINE_ENUM(value);

TCPLAT_MODE_NAMES
TCPLAT_CAUSE_NAMES
TCPLAT_HOLD_NAMES
TCPLAT_WAIT_NAMES
TCPLAT_LOSS_NAMES
TCPLAT_ANSWER_NAMES

#undef EM
#undef EMe
#define EM(value, name)		{ value, name },
#define EMe(value, name)	{ value, name }

#define TCPLAT_DELACK_TIMEOUT_FIELDS(A, D, C)				\
	D(u32, mode, tcplat_sock_mode(sk))				\
	A(u32, delay_jiffies)						\
	D(u64, delay_us, tcplat_jiffies_to_us(delay_jiffies))		\
	D(u32, asked_jiffies, delay_jiffies - late_jiffies)		\
	A(u32, late_jiffies)						\
	A(bool, unread)
TCPLAT_EVENT(delack_timeout, TCPLAT_DELACK_TIMEOUT_FIELDS,
	"mode=%s delay_jiffies=%u delay_us=%llu asked_jiffies=%u late_jiffies=%u unread=%d",
	__print_symbolic(__entry->mode, TCPLAT_MODE_NAMES),
	__entry->delay_jiffies, __entry->delay_us, __entry->asked_jiffies,
	__entry->late_jiffies, __entry->unread
);

#define TCPLAT_ACK_STALL_FIELDS(A, D, C)				\
	A(u32, stall_jiffies)						\
	D(u64, stall_us, tcplat_jiffies_to_us(stall_jiffies))
TCPLAT_EVENT(ack_stall, TCPLAT_ACK_STALL_FIELDS,
	"stall_jiffies=%u stall_us=%llu", __entry->stall_jiffies, __entry->stall_us);

#define TCPLAT_ACK_MODE_FIELDS(A, D, C) A(u32, from) A(u32, mode) A(u32, cause)
TCPLAT_EVENT(ack_mode, TCPLAT_ACK_MODE_FIELDS,
	"from=%s mode=%s cause=%s",
	__print_symbolic(__entry->from, TCPLAT_MODE_NAMES),
	__print_symbolic(__entry->mode, TCPLAT_MODE_NAMES),
	__print_symbolic(__entry->cause, TCPLAT_CAUSE_NAMES)
);

#define TCPLAT_PORT_SEARCH_FIELDS(A, D, C)				\
	A(u32, iterations)						\
	A(u64, time_ns)							\
	A(int, error)							\
	A(bool, bound)
TCPLAT_EVENT(port_search, TCPLAT_PORT_SEARCH_FIELDS,
	"iterations=%u time_ns=%llu error=%d bound=%d",
	__entry->iterations, __entry->time_ns, __entry->error, __entry->bound
);

#define TCPLAT_BIND_SEARCH_FIELDS(A, D, C) A(u64, time_ns) A(int, error)
TCPLAT_EVENT(bind_search, TCPLAT_BIND_SEARCH_FIELDS,
	"time_ns=%llu error=%d", __entry->time_ns, __entry->error);

#define TCPLAT_SND_WAIT_FIELDS(A, D, C) A(u64, time_ns) A(int, error) A(u32, kind)
TCPLAT_EVENT(snd_wait, TCPLAT_SND_WAIT_FIELDS,
	"time_ns=%llu error=%d kind=%s",
	__entry->time_ns, __entry->error,
	__print_symbolic(__entry->kind, TCPLAT_WAIT_NAMES)
);

#define TCPLAT_SND_HOLD_FIELDS(A, D, C)					\
	A(u32, cause)							\
	A(u64, time_ns)							\
	A(u32, bytes)							\
	A(pid_t, pid)							\
	C(comm)
TCPLAT_EVENT(snd_hold, TCPLAT_SND_HOLD_FIELDS,
	"cause=%s time_ns=%llu bytes=%u pid=%d comm=%s",
	__print_symbolic(__entry->cause, TCPLAT_HOLD_NAMES),
	__entry->time_ns, __entry->bytes, __entry->pid, __entry->comm
);

#define TCPLAT_IDLE_RESTART_FIELDS(A, D, C)				\
	A(u32, cwnd_before)						\
	A(u32, cwnd)							\
	A(u32, idle_jiffies)						\
	D(u64, idle_us, tcplat_jiffies_to_us(idle_jiffies))
TCPLAT_EVENT(idle_restart, TCPLAT_IDLE_RESTART_FIELDS,
	"cwnd_before=%u cwnd=%u idle_jiffies=%u idle_us=%llu",
	__entry->cwnd_before, __entry->cwnd, __entry->idle_jiffies, __entry->idle_us
);

#define TCPLAT_LOSS_FIELDS(A, D, C) A(u32, kind) A(u64, time_ns) A(u32, late_jiffies)
TCPLAT_EVENT(loss, TCPLAT_LOSS_FIELDS,
	"kind=%s time_ns=%llu late_jiffies=%u",
	__print_symbolic(__entry->kind, TCPLAT_LOSS_NAMES),
	__entry->time_ns, __entry->late_jiffies
);

#define TCPLAT_LISTEN_OVERFLOW_FIELDS(A, D, C) D(u32, backlog, sk->sk_max_ack_backlog)
TCPLAT_EVENT(listen_overflow, TCPLAT_LISTEN_OVERFLOW_FIELDS, "backlog=%u", __entry->backlog);

#define TCPLAT_WAIT_FIELDS(A, D, C) A(u64, time_ns)
TCPLAT_EVENT(accept_wait, TCPLAT_WAIT_FIELDS, "time_ns=%llu", __entry->time_ns);
TCPLAT_EVENT(window_wait, TCPLAT_WAIT_FIELDS, "time_ns=%llu", __entry->time_ns);

#define TCPLAT_LATE_ANSWER_FIELDS(A, D, C) A(u32, kind) A(u64, time_ns)
TCPLAT_EVENT(late_answer, TCPLAT_LATE_ANSWER_FIELDS,
	"kind=%s time_ns=%llu",
	__print_symbolic(__entry->kind, TCPLAT_ANSWER_NAMES),
	__entry->time_ns
);

#endif /* _TCPLAT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
