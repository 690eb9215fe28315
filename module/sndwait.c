// SPDX-License-Identifier: GPL-2.0
/*
 * sndwait: how long senders waited for room in the send buffer. Covers senders that slept in
 * send() and non-blocking senders that got EAGAIN.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/errno.h>
#include <linux/module.h>
#include <linux/timekeeping.h>
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
	HITS_DISCONNECT,
	HITS_DESTROY,
	NR_COUNTERS,
};

static const struct tcplat_hist time_hist = TCPLAT_TIMES(TIME);
static const struct tcplat_hist again_hist = TCPLAT_TIMES_NAMED("again_hist", AGAIN_TIME);

/* The sockets whose sender got EAGAIN, with the time of the EAGAIN in ns for each slot. */
static struct tcplat_socktab again;

static __always_inline u64 *again_since(const u64 *slot)
{
	return (u64 *)again.records + (slot - again.slots);
}

/**
 * struct wait - a sender that sleeps
 * @sk: its socket, which the sender holds
 * @since: when the wait began, in ns
 */
struct wait {
	struct sock *sk;
	u64 since;
};

static bool again_is_available(void);

static __always_inline struct tcplat_room room_of(const struct sock *sk)
{
	return (struct tcplat_room){
		.kernel = sk->sk_kern_sock,
		.tcp = sk->sk_protocol == IPPROTO_TCP &&
		       (sk->sk_family == AF_INET || sk->sk_family == AF_INET6),
		.dead = sk->sk_err || (sk->sk_shutdown & SEND_SHUTDOWN),
		.orphan = !sk->sk_socket,
	};
}

/*
 * The slot of a socket that waits, or NULL. The socket is locked or has no other users. Usually
 * no socket waits, so the table's count is read first; a socket is counted before it is stored.
 */
static __always_inline u64 *again_slot(const struct sock *sk)
{
	u64 word;

	if (!tcplat_socktab_used(&again))
		return NULL;
	return tcplat_socktab_find(&again, (unsigned long)sk, &word);
}

/* The socket, which is locked, has no room. A wait in progress keeps its start time. */
static noinline void again_begin(struct sock *sk)
{
	u64 *slot;

	if (!again_is_available() || !tcplat_again_begins(room_of(sk)) || again_slot(sk))
		return;
	slot = tcplat_socktab_insert(&again, (unsigned long)sk);
	if (slot)
		*again_since(slot) = ktime_get_mono_fast_ns();
	else
		tcplat_inc(&tcplat_sndwait, AGAIN_UNTRACKED);
}

NOKPROBE_SYMBOL(again_begin);

/* Ends the wait of the socket in @slot. The socket is locked or has no other users. */
static noinline void again_end(struct sock *sk, const u64 *slot, enum tcplat_wait how)
{
	const struct tcplat_group *group = &tcplat_sndwait;
	u64 ns = tcplat_ns_since(*again_since(slot));
	u64 word;

	if (!tcplat_socktab_remove(&again, (unsigned long)sk, &word))
		return;
	tcplat_inc(group, AGAIN);
	if (how == TCPLAT_WAIT_GAVE_UP)
		tcplat_inc(group, AGAIN_GAVE_UP);
	else
		tcplat_add_time(group, AGAIN_TIME, ns);
	trace_snd_wait(sk, ns, -EAGAIN, how);
}

NOKPROBE_SYMBOL(again_end);

/*
 * Entry of sk_stream_write_space(sk), socket locked. The kernel calls it when there may be room
 * again, and the function itself checks for room, so the handler must check, too.
 */
static void write_space_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	struct tcplat_room room;
	enum tcplat_wait how;
	u64 *slot;

	tcplat_inc(&tcplat_sndwait, HITS_WRITE_SPACE);
	slot = again_slot(sk);
	if (!slot)
		return;
	room = room_of(sk);
	room.writable = __sk_stream_is_writeable(sk, 1);
	if (tcplat_again_ends(room, &how))
		again_end(sk, slot, how);
}

NOKPROBE_SYMBOL(write_space_entry);

/* Ends a wait because the connection ends. */
static __always_inline void again_give_up(struct sock *sk)
{
	u64 *slot = again_slot(sk);

	if (slot)
		again_end(sk, slot, TCPLAT_WAIT_GAVE_UP);
}

/* Entry of tcp_disconnect(sk, flags), socket locked. The socket may be reused afterwards. */
static void disconnect_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_sndwait, HITS_DISCONNECT);
	again_give_up(sk);
}

NOKPROBE_SYMBOL(disconnect_entry);

/* Entry of tcp_v4_destroy_sock(sk), which IPv6 uses too. The socket has no other users. */
static void destroy_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
	tcplat_inc(&tcplat_sndwait, HITS_DESTROY);
	again_give_up(sk);
}

NOKPROBE_SYMBOL(destroy_entry);

/*
 * Entry of sk_stream_wait_memory(sk, timeo), socket locked, may sleep. *timeo is 0 only for
 * callers that do not block: a caller whose timeout has expired does not call again.
 */
static int wait_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct wait *wait = (struct wait *)ri->data;
	struct sock *sk = tcplat_arg(regs, 0);

	if (!*(const long *)tcplat_arg(regs, 1)) {
		again_begin(sk);
		return 1;
	}
	wait->sk = sk;
	wait->since = ktime_get_mono_fast_ns();
	return 0;
}

NOKPROBE_SYMBOL(wait_entry);

static int wait_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_sndwait;
	const struct wait *wait = (const struct wait *)ri->data;
	u64 ns = tcplat_ns_since(wait->since);
	int err = regs_return_value(regs);

	tcplat_inc(group, WAITS);
	if (err == -EAGAIN)
		tcplat_inc(group, TIMEOUTS);
	tcplat_add_time(group, TIME, ns);
	trace_snd_wait(wait->sk, ns, err, TCPLAT_WAIT_SLEPT);
	return 0;
}

NOKPROBE_SYMBOL(wait_return);

/* Armed from the last to the first: probes that end waits before the probe that begins them. */
static struct tcplat_probe sndwait_probes[] = {
	{
		.symbol = "sk_stream_wait_memory",
		.entry_ret = wait_entry,
		.ret = wait_return,
		.data_size = sizeof(struct wait),
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
		.entry = disconnect_entry,
		.optional = true,
		.hits = HITS_DISCONNECT,
	},
	{
		.symbol = "tcp_v4_destroy_sock",
		.entry = destroy_entry,
		.optional = true,
		.hits = HITS_DESTROY,
	},
};

/* Whether the probes can see all ends of waits. */
static bool again_is_available(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sndwait_probes); i++)
		if (!sndwait_probes[i].found)
			return false;
	return true;
}

NOKPROBE_SYMBOL(again_is_available);

static const struct tcplat_file sndwait_files[] = {
	TCPLAT_SUM("waits", WAITS),
	TCPLAT_SUM("timeouts", TIMEOUTS),
	TCPLAT_SUM("time_ns", TIME),
	TCPLAT_MAX("time_max_ns", TIME + TCPLAT_TIME_MAX),
	TCPLAT_HIST("time_hist", &time_hist),
	TCPLAT_HIST_LE("time_hist_le_ns", &time_hist),
	TCPLAT_SUM_IF("again", AGAIN, again_is_available),
	TCPLAT_SUM_IF("again_gave_up", AGAIN_GAVE_UP, again_is_available),
	TCPLAT_SUM_IF("again_untracked", AGAIN_UNTRACKED, again_is_available),
	TCPLAT_SUM_IF("again_time_ns", AGAIN_TIME, again_is_available),
	TCPLAT_MAX_IF("again_time_max_ns", AGAIN_TIME + TCPLAT_TIME_MAX, again_is_available),
	TCPLAT_HIST_IF("again_hist", &again_hist, again_is_available),
	TCPLAT_HIST_LE_IF("again_hist_le_ns", &again_hist, again_is_available),
};

static const struct tcplat_hist * const sndwait_hists[] = {
	&time_hist,
	&again_hist,
};

static int sndwait_init(struct tcplat_group *group)
{
	int err = tcplat_socktab_alloc(&again, AGAIN_AT_ONCE, sizeof(u64));

	if (err)
		pr_err("sndwait: cannot allocate the table of %d sockets\n", AGAIN_AT_ONCE);
	return err;
}

static void sndwait_exit(struct tcplat_group *group)
{
	tcplat_socktab_free(&again);
}

/* Ends of waits are not seen while the group is off, so forget all waits. */
static void sndwait_stop(struct tcplat_group *group)
{
	tcplat_socktab_clear(&again);
}

struct tcplat_group tcplat_sndwait = {
	.name = "sndwait",
	.probes = sndwait_probes,
	.nr_probes = ARRAY_SIZE(sndwait_probes),
	.nr_counters = NR_COUNTERS,
	.files = sndwait_files,
	.nr_files = ARRAY_SIZE(sndwait_files),
	.hists = sndwait_hists,
	.nr_hists = ARRAY_SIZE(sndwait_hists),
	.init = sndwait_init,
	.exit = sndwait_exit,
	.stop = sndwait_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/sndwait-kunit.h"
#endif
