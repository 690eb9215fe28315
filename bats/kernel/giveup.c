// SPDX-License-Identifier: GPL-2.0
/*
 * giveup: while loaded, puts ftrace into the state after ftrace_bug(): every call fails with
 * -ENODEV, and code stays as it is. The kernel cannot leave this state; unloading this module does.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int *disabled;

static int __init giveup_init(void)
{
	/* Registering fails, since the symbol is not code, but stores the address. */
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
