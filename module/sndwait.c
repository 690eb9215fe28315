// SPDX-License-Identifier: GPL-2.0
/*
 * sndwait: how long senders waited for room in the send buffer. Covers senders that slept in
 * send() and non-blocking senders that got EAGAIN.
 */
#include <linux/errno.h>
#include <net/sock.h>

#include "sndwait.h"
#include "socktab.h"
#include "tcplat.h"
#include "trace.h"

/*
 * Maximum number of senders that sleep at the same time without a miss. Each of them is a
 * thread, and sleeps for as long as its peer does not read. For the memory used, see
 * TCPLAT_SEARCHES_AT_ONCE.
 */
#define WAITS_AT_ONCE	4095

/* Maximum number of sockets that got EAGAIN and are not writable yet, 32 bytes each. */
#define AGAIN_AT_ONCE	8192

enum {
	WAITS,
	TIMEOUTS,
	TIME,
	AGAIN = TIME + TCPLAT_TIME_COUNTERS,
	AGAIN_GAVE_UP,
	AGAIN_UNTRACKED,
	AGAIN_TIME,
	HITS_WRITE_SPACE = AGAIN_TIME + TCPLAT_TIME_COUNTERS,
	NR_COUNTERS,
};

/* The sockets whose sender got EAGAIN, with the time of the EAGAIN in ns for each slot. */
atomic_t tcplat_sndwait_held[1 << TCPLAT_HELD_BITS];
static struct tcplat_socktab again = {
	.record = sizeof(u64),
	.held = tcplat_sndwait_held,
};

static __always_inline u64 *again_since(const u64 *slot)
{
	return (u64 *)again.records + (slot - again.slots);
}

static bool again_is_available(void);

/*
 * Whether the socket belongs to a part of the kernel: such a part stores its own data here. That of
 * sockmap and reuseport, whose sockets belong to programs, is tagged. kTLS, MPTCP and espintcp use
 * icsk_ulp_data.
 */
static __always_inline bool is_kernels(const struct sock *sk)
{
	return sk->sk_kern_sock || (sk->sk_user_data && !sk_user_data_is_nocopy(sk));
}

/* Whether the socket has an error, or its sending side is shut down. */
static __always_inline bool is_dead(const struct sock *sk)
{
	return sk->sk_err || (sk->sk_shutdown & SEND_SHUTDOWN);
}

/*
 * Whether a non-blocking caller begins to wait because it is refused for want of room. The
 * kernel checks for errors first. Sockets that the kernel uses for itself often have a write_space
 * callback that does not call sk_stream_write_space(), and sockets of other protocols are not
 * destroyed by tcp_v4_destroy_sock(), so the end of their waits would be missed.
 */
static __always_inline bool again_begins(const struct sock *sk)
{
	return !is_kernels(sk) && sk->sk_protocol == IPPROTO_TCP &&
	       (sk->sk_family == AF_INET || sk->sk_family == AF_INET6) && !is_dead(sk);
}

/*
 * Whether sk_stream_write_space() ends a wait. If the sender can still send, poll() reports the
 * socket as writable at the same moment. Otherwise the sender has given up before.
 */
static __always_inline bool again_ends(const struct sock *sk)
{
	return __sk_stream_is_writeable(sk, 1) && sk->sk_socket;
}

/* The slot of a socket that waits, or NULL. The socket is locked or has no other users. */
static __always_inline u64 *again_slot(const struct sock *sk)
{
	u64 word;

	if (!tcplat_socktab_may_have(tcplat_sndwait_held, sk))
		return NULL;
	return tcplat_socktab_find(&again, tcplat_sock_key(sk), &word);
}

/* The socket, which is locked, has no room. A wait in progress keeps its start time. */
static noinline void __kprobes again_begin(struct sock *sk)
{
	u64 *slot;

	if (!again_is_available() || !again_begins(sk) || again_slot(sk))
		return;
	slot = tcplat_socktab_insert(&again, tcplat_sock_key(sk));
	if (slot)
		*again_since(slot) = ktime_get_mono_fast_ns();
	else
		tcplat_inc(&tcplat_sndwait, AGAIN_UNTRACKED);
}

/* Ends the wait of the socket in @slot. The socket is locked or has no other users. */
static noinline void __kprobes again_end(struct sock *sk, const u64 *slot, enum tcplat_wait how)
{
	const struct tcplat_group *group = &tcplat_sndwait;
	u64 ns = tcplat_ns_since(*again_since(slot));

	if (!tcplat_socktab_remove(&again, tcplat_sock_key(sk)))
		return;
	tcplat_inc(group, AGAIN);
	if (how == TCPLAT_WAIT_GAVE_UP)
		tcplat_inc(group, AGAIN_GAVE_UP);
	else
		tcplat_add_time(group, AGAIN_TIME, ns);
	trace_snd_wait(sk, ns, -EAGAIN, how);
}

/*
 * Entry of sk_stream_write_space(sk), socket locked. The kernel calls it when there may be room
 * again, and the function itself checks for room, so the handler must check, too.
 */
static void __kprobes write_space_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u64 *slot = again_slot(sk);

	tcplat_inc(&tcplat_sndwait, HITS_WRITE_SPACE);
	if (slot && again_ends(sk))
		again_end(sk, slot, is_dead(sk) ? TCPLAT_WAIT_GAVE_UP : TCPLAT_WAIT_AGAIN);
}

/**
 * tcplat_sndwait_gone() - handler at the entries of tcp_disconnect() and tcp_v4_destroy_sock()
 * @sk: the socket, locked or without other users; it may be used again after tcp_disconnect()
 * @arg1: not used
 * @arg2: not used
 *
 * Ends a wait because the connection ends.
 *
 * Context: any, preemption off.
 */
void __kprobes tcplat_sndwait_gone(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	u64 *slot = again_slot(sk);

	if (slot && !tcplat_stays_connected(sk))
		again_end(sk, slot, TCPLAT_WAIT_GAVE_UP);
}

/*
 * Entry of sk_stream_wait_memory(sk, timeo), socket locked, may sleep. *timeo is 0 only for
 * callers that do not block: a caller whose timeout has expired does not call again.
 */
static int __kprobes wait_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct tcplat_call *wait = (struct tcplat_call *)ri->data;
	struct sock *sk = (struct sock *)tcplat_arg(regs, 0);

	if (!*(const long *)tcplat_arg(regs, 1)) {
		again_begin(sk);
		return 1;
	}
	wait->sk = sk;
	wait->since = ktime_get_mono_fast_ns();
	return 0;
}

static int __kprobes wait_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_sndwait;
	const struct tcplat_call *wait = (const struct tcplat_call *)ri->data;
	u64 ns = tcplat_ns_since(wait->since);
	int err = regs_return_value(regs);

	tcplat_inc(group, WAITS);
	if (err == -EAGAIN)
		tcplat_inc(group, TIMEOUTS);
	tcplat_add_time(group, TIME, ns);
	trace_snd_wait(wait->sk, ns, err, TCPLAT_WAIT_SLEPT);
	return 0;
}

static struct tcplat_probe sndwait_probes[] = {
	{
		.symbol = "sk_stream_wait_memory",
		.entry_ret = wait_entry,
		.ret = wait_return,
		.data_size = sizeof(struct tcplat_call),
		.maxactive = WAITS_AT_ONCE,
		.hits = WAITS,
	},
	{
		.symbol = "sk_stream_write_space",
		.entry = write_space_entry,
		.optional = true,
		.hits = HITS_WRITE_SPACE,
	},
	{
		.symbol = "tcp_disconnect",
		.entry = tcplat_sndwait_gone,
		.optional = true,
		.hits = TCPLAT_NO_HITS,
	},
	{
		.symbol = "tcp_v4_destroy_sock",
		.entry = tcplat_sndwait_gone,
		.hot = TCPLAT_HOT_DESTROY,
		.optional = true,
	},
};

/* Whether the probes can see all ends of waits. */
static bool __kprobes again_is_available(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sndwait_probes); i++)
		if (!sndwait_probes[i].found)
			return false;
	return true;
}

static const struct tcplat_file sndwait_files[] = {
	TCPLAT_SUM("waits", WAITS),
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_TIME_FILES("time", "time_hist", TIME),
	TCPLAT_SUM("again", AGAIN, .available = again_is_available),
	TCPLAT_SUM("again_gave_up", AGAIN_GAVE_UP, .available = again_is_available),
	TCPLAT_SUM("again_untracked", AGAIN_UNTRACKED, .available = again_is_available),
	TCPLAT_TIME_FILES("again_time", "again_hist", AGAIN_TIME, .available = again_is_available),
};

static int sndwait_alloc(struct tcplat_group *group)
{
	return tcplat_socktab_alloc(&again, AGAIN_AT_ONCE);
}

/* Ends of waits are not seen while the group is off, so forget all waits. */
static void sndwait_stop(struct tcplat_group *group)
{
	tcplat_socktab_free(&again);
}

struct tcplat_group tcplat_sndwait = {
	TCPLAT_TABLES(sndwait),
	.alloc = sndwait_alloc,
	.stop = sndwait_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/sndwait-kunit.h"
#endif
