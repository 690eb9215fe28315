/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a sender waits for room in its send buffer. Values in, values out: KUnit goes
 * through all of them.
 */
#ifndef _TCPLAT_SNDWAIT_H
#define _TCPLAT_SNDWAIT_H

#include <linux/errno.h>
#include <linux/types.h>

/* Values of the tracepoint snd_wait. */
enum tcplat_wait {
	TCPLAT_WAIT_SLEPT,	/* the call slept */
	TCPLAT_WAIT_AGAIN,	/* the call returned; later the socket was writable again */
	TCPLAT_WAIT_GAVE_UP,	/* the call returned; the connection ended before that */
};

/**
 * struct tcplat_room - what sk_stream_wait_memory() and sk_stream_write_space() go by
 * @kernel: a socket that the kernel made for itself
 * @tcp: a socket that tcp_v4_destroy_sock() ends
 * @dead: it has an error, or its sending side is shut down
 * @orphan: no process has it any more
 * @writable: poll() would say so
 */
struct tcplat_room {
	bool kernel;
	bool tcp;
	bool dead;
	bool orphan;
	bool writable;
};

/*
 * Whether a wait of a caller that does not block begins: it is told that there is no room.
 * The kernel looks for errors first. Sockets of the kernel's own often have a write_space
 * callback that does without sk_stream_write_space(): their waits would have no end.
 */
static __always_inline bool tcplat_again_begins(struct tcplat_room room)
{
	return !room.kernel && room.tcp && !room.dead;
}

/*
 * Whether sk_stream_write_space() ends a wait, and how. As long as the sender can still
 * send, poll() is told at the same moment; else it has given up before.
 */
static __always_inline bool tcplat_again_ends(struct tcplat_room room, enum tcplat_wait *how)
{
	*how = room.dead ? TCPLAT_WAIT_GAVE_UP : TCPLAT_WAIT_AGAIN;
	return room.writable && !room.orphan;
}

#endif /* _TCPLAT_SNDWAIT_H */
