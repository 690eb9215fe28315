// SPDX-License-Identifier: GPL-2.0
/*
 * giveup: while it is loaded, ftrace is as it is after ftrace_bug(): it refuses every call with
 * -ENODEV and leaves all code as it is. The kernel has no way back from there; this has.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int *disabled;

static int __init giveup_init(void)
{
	/* Refused, for it is no code, and the address stays behind. */
	struct kprobe kp = {
		.symbol_name = "ftrace_disabled",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int err = register_kprobe(&kp);

	if (!err)
		unregister_kprobe(&kp);
	if (err != -EINVAL || !kp.addr || *(int *)kp.addr)
		return -ENODEV;
	disabled = (int *)kp.addr;
	WRITE_ONCE(*disabled, 1);
	return 0;
}

static void __exit giveup_exit(void)
{
	WRITE_ONCE(*disabled, 0);
}

module_init(giveup_init);
module_exit(giveup_exit);

MODULE_DESCRIPTION("Makes ftrace refuse every call");
MODULE_LICENSE("GPL");
