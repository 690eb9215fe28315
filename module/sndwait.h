/* SPDX-License-Identifier: GPL-2.0 */
/* Senders that wait for room in the send buffer. */
#ifndef _TCPLAT_SNDWAIT_H
#define _TCPLAT_SNDWAIT_H

#include <net/sock.h>

#include "socktab.h"

/* How a wait ended: values of the field kind of the tracepoint snd_wait. */
enum tcplat_wait {
	TCPLAT_WAIT_SLEPT,	/* the call slept */
	TCPLAT_WAIT_AGAIN,	/* the call returned EAGAIN; later the socket became writable */
	TCPLAT_WAIT_GAVE_UP,	/* the call returned EAGAIN; the connection ended before that */
};

/* Counts of sockets whose sender got EAGAIN, by hash. */
extern atomic_t tcplat_sndwait_held[1 << TCPLAT_HELD_BITS];

void tcplat_sndwait_gone(struct sock *sk, unsigned long arg1, unsigned long arg2);

#endif /* _TCPLAT_SNDWAIT_H */
