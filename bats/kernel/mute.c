// SPDX-License-Identifier: GPL-2.0
/*
 * mute: while loaded, the handler of another module's kprobe is not called, as if the compiler had
 * inlined all calls of the function. To find that kprobe, this module registers one at the same
 * place: the kernel links the two.
 */
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static char *function = "";
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "Name of the function");

static unsigned int offset;
module_param(offset, uint, 0444);
MODULE_PARM_DESC(offset, "Offset of the kprobe in the function");

static unsigned int calls;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "Number of calls that the kprobe did not see");

static struct kprobe *other;
static kprobe_pre_handler_t handler;

static int on_call(struct kprobe *kp, struct pt_regs *regs)
{
	calls++;
	return 0;
}

NOKPROBE_SYMBOL(on_call);

static int ignore_call(struct kprobe *kp, struct pt_regs *regs)
{
	return 0;
}

NOKPROBE_SYMBOL(ignore_call);

static struct kprobe probe = {
	.pre_handler = on_call,
};

static int __init mute_init(void)
{
	int err;

	probe.symbol_name = function;
	probe.offset = offset;
	err = register_kprobe(&probe);
	if (err)
		return err;
	/* The newest kprobe is the first in the list. */
	other = list_next_entry(&probe, list);
	if (probe.list.next == probe.list.prev || other->addr != probe.addr) {
		unregister_kprobe(&probe);
		return -ENOENT;
	}
	handler = other->pre_handler;
	WRITE_ONCE(other->pre_handler, ignore_call);
	return 0;
}

static void __exit mute_exit(void)
{
	WRITE_ONCE(other->pre_handler, handler);
	unregister_kprobe(&probe);
}

module_init(mute_init);
module_exit(mute_exit);

MODULE_DESCRIPTION("Hides the calls of a function from another module's kprobe");
MODULE_LICENSE("GPL");
