// SPDX-License-Identifier: GPL-2.0
/*
 * fail: makes calls of a kernel function by tcplat, which is loaded after this module, fail:
 *
 *	echo "FUNCTION NTH COUNT RESULT" >/sys/module/fail/parameters/plan
 *
 * From tcplat's NTH call on, COUNT calls (0: all) only return RESULT. An empty line ends the
 * plan. Reading the file returns the number of calls since then, and the number that failed.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#ifndef CONFIG_X86_64
#error "only x86-64 is supported: the handler reads the return address from the stack"
#endif

static struct module *caller;

static struct {
	char function[64];
	unsigned int nth;
	unsigned int count;
	long result;
} plan;

static bool planned;
static atomic_t calls;
static atomic_t failed;

/* Called instead of the function. */
static noinline notrace long fail(void)
{
	return READ_ONCE(plan.result);
}

static int on_call(struct kprobe *kp, struct pt_regs *regs)
{
	const struct module *mod = READ_ONCE(caller);
	unsigned int n;

	if (!mod || !within_module(*(unsigned long *)regs->sp, mod))
		return 0;
	n = atomic_inc_return(&calls);
	if (n < plan.nth || (plan.count && n - plan.nth >= plan.count))
		return 0;
	atomic_inc(&failed);
	instruction_pointer_set(regs, (unsigned long)fail);
	return 1;
}

NOKPROBE_SYMBOL(on_call);

/* A post handler keeps the probe from being optimised: a jump could not redirect the call. */
static void after_call(struct kprobe *kp, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe;

static void end(void)
{
	if (planned)
		unregister_kprobe(&probe);
	planned = false;
}

static int plan_set(const char *val, const struct kernel_param *kp)
{
	int err;

	end();
	if (sysfs_streq(val, ""))
		return 0;
	atomic_set(&calls, 0);
	atomic_set(&failed, 0);
	if (sscanf(val, "%63s %u %u %ld", plan.function, &plan.nth, &plan.count, &plan.result) != 4)
		return -EINVAL;
	probe = (struct kprobe){
		.symbol_name = plan.function,
		.pre_handler = on_call,
		.post_handler = after_call,
	};
	err = register_kprobe(&probe);
	planned = !err;
	return err;
}

static int plan_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d %d\n", atomic_read(&calls), atomic_read(&failed));
}

static const struct kernel_param_ops plan_ops = {
	.set = plan_set,
	.get = plan_get,
};

module_param_cb(plan, &plan_ops, NULL, 0600);
MODULE_PARM_DESC(plan, "FUNCTION NTH COUNT RESULT");

static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (strcmp(mod->name, "tcplat"))
		return NOTIFY_OK;
	if (state == MODULE_STATE_COMING)
		WRITE_ONCE(caller, mod);
	else if (state == MODULE_STATE_GOING)
		WRITE_ONCE(caller, NULL);
	return NOTIFY_OK;
}

static struct notifier_block on_modules = {
	.notifier_call = on_module,
};

static int __init fail_init(void)
{
	return register_module_notifier(&on_modules);
}

static void __exit fail_exit(void)
{
	end();
	unregister_module_notifier(&on_modules);
}

module_init(fail_init);
module_exit(fail_exit);

MODULE_DESCRIPTION("Makes calls by tcplat fail");
MODULE_LICENSE("GPL");
