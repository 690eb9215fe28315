// SPDX-License-Identifier: GPL-2.0
/*
 * Tells where in its structures this kernel keeps what tests let tracefs read.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/stddef.h>
#include <net/inet_sock.h>

/* The local port of a socket: 0 as long as it has none. */
static unsigned int port = offsetof(struct inet_sock, inet_num);
module_param(port, uint, 0444);
MODULE_PARM_DESC(port, "Offset of inet_num in struct inet_sock, in bytes");

static int __init offsets_init(void)
{
	return 0;
}

static void __exit offsets_exit(void)
{
}

module_init(offsets_init);
module_exit(offsets_exit);

MODULE_DESCRIPTION("Offsets of members of the kernel's structures");
MODULE_LICENSE("GPL");
