// SPDX-License-Identifier: GPL-2.0
/*
 * offsets: shows the offsets of structure members that tests read with tracefs.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/stddef.h>
#include <net/inet_connection_sock.h>
#include <net/inet_sock.h>

/* The local port of a socket, 0 if it has none. */
static unsigned int port = offsetof(struct inet_sock, inet_num);
module_param(port, uint, 0444);
MODULE_PARM_DESC(port, "Offset of inet_num in struct inet_sock, in bytes");

/* The expiry of the delayed-ACK timer. */
#ifdef EXPIRY_IN_TIMER
static unsigned int expiry = offsetof(struct inet_connection_sock, icsk_delack_timer.expires);
#else
static unsigned int expiry = offsetof(struct inet_connection_sock, icsk_ack.timeout);
#endif
module_param(expiry, uint, 0444);
MODULE_PARM_DESC(expiry, "Offset of the delayed-ACK timer's expiry, in bytes");

/* The expiry of the retransmission timer. */
#ifdef RTO_EXPIRY_IN_TIMER
static unsigned int rto_expiry = offsetof(struct sock, tcp_retransmit_timer.expires);
#else
static unsigned int rto_expiry =
	offsetof(struct inet_connection_sock, icsk_retransmit_timer.expires);
#endif
module_param(rto_expiry, uint, 0444);
MODULE_PARM_DESC(rto_expiry, "Offset of the retransmission timer's expiry, in bytes");

MODULE_DESCRIPTION("Offsets of members of the kernel's structures");
MODULE_LICENSE("GPL");
