/* SPDX-License-Identifier: GPL-2.0 */
/* Rules for when a sender waits for room in its send buffer. */
#ifndef _TCPLAT_SNDWAIT_H
#define _TCPLAT_SNDWAIT_H

#include <linux/errno.h>
#include <linux/types.h>
#include <net/sock.h>

#include "socktab.h"

/* How a wait ended: values of the field kind of the tracepoint snd_wait. */
enum tcplat_wait {
	TCPLAT_WAIT_SLEPT,	/* the call slept */
	TCPLAT_WAIT_AGAIN,	/* the call returned EAGAIN; later the socket became writable */
	TCPLAT_WAIT_GAVE_UP,	/* the call returned EAGAIN; the connection ended before that */
};

/**
 * struct tcplat_room - inputs of sk_stream_wait_memory() and sk_stream_write_space()
 * @kernel: the kernel uses the socket for itself
 * @tcp: the socket is destroyed by tcp_v4_destroy_sock()
 * @dead: the socket has an error, or its sending side is shut down
 * @orphan: no process has the socket open any more
 * @writable: poll() would report the socket as writable
 */
struct tcplat_room {
	bool kernel;
	bool tcp;
	bool dead;
	bool orphan;
	bool writable;
};

/*
 * Whether a non-blocking caller begins to wait because it is refused for want of room. The
 * kernel checks for errors first. Sockets that the kernel uses for itself often have a write_space
 * callback that does not call sk_stream_write_space(), so the end of their waits would be missed.
 */
static __always_inline bool tcplat_again_begins(struct tcplat_room room)
{
	return !room.kernel && room.tcp && !room.dead;
}

/*
 * Whether sk_stream_write_space() ends a wait, and how. If the sender can still send, poll()
 * reports the socket as writable at the same moment. Otherwise the sender has given up before.
 */
static __always_inline bool tcplat_again_ends(struct tcplat_room room, enum tcplat_wait *how)
{
	*how = room.dead ? TCPLAT_WAIT_GAVE_UP : TCPLAT_WAIT_AGAIN;
	return room.writable && !room.orphan;
}

/* Counts of sockets whose sender got EAGAIN, by hash. */
extern atomic_t tcplat_sndwait_held[1 << TCPLAT_HELD_BITS];

void tcplat_sndwait_gone(struct sock *sk, unsigned long arg1, unsigned long arg2);

#endif /* _TCPLAT_SNDWAIT_H */
