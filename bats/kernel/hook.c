// SPDX-License-Identifier: GPL-2.0
/*
 * hook: replaces functions that tcplat watches, as a livepatch does: an ftrace callback with
 * FTRACE_OPS_FL_IPMODIFY redirects the function. The replacement counts its calls, and calls the
 * replaced function unless rest=0.
 *
 * For emulators only: the replacement calls into the middle of a function, which fails on
 * processors that check the targets of indirect calls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

static bool rest = true;
module_param(rest, bool, 0444);
MODULE_PARM_DESC(rest, "Call the replaced function");

static char *functions[3];
static unsigned int nr_functions;
module_param_array(functions, charp, &nr_functions, 0444);
MODULE_PARM_DESC(functions, "Functions to replace");

/**
 * struct hook - a function that is replaced
 * @ops: calls on_entry() at the function's entry
 * @instead: the replacement, which takes all arguments that are in registers
 * @after_fentry: address after the call of ftrace; set before @instead is called
 * @entries: number of calls seen by ftrace
 * @hits: number of calls of @instead
 * @on: @ops is registered
 */
struct hook {
	struct ftrace_ops ops;
	unsigned long (*instead)(unsigned long a, unsigned long b, unsigned long c,
				 unsigned long d, unsigned long e, unsigned long f);
	unsigned long after_fentry;
	atomic64_t entries;
	atomic64_t hits;
	bool on;
};

static struct hook hooks[3];

#define INSTEAD(nr)							\
static unsigned long instead_##nr(unsigned long a, unsigned long b, unsigned long c, \
				  unsigned long d, unsigned long e, unsigned long f) \
{									\
	typeof(instead_##nr) *replaced = (void *)READ_ONCE(hooks[nr].after_fentry); \
									\
	atomic64_inc(&hooks[nr].hits);					\
	return rest ? replaced(a, b, c, d, e, f) : 0;			\
}

INSTEAD(0)
INSTEAD(1)
INSTEAD(2)

static struct hook hooks[3] = {
	{ .instead = instead_0 }, { .instead = instead_1 }, { .instead = instead_2 },
};

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
typedef struct ftrace_regs callback_regs_t;
#define pt_regs_of(regs)	ftrace_get_regs(regs)
#else
typedef struct pt_regs callback_regs_t;
#define pt_regs_of(regs)	(regs)
#endif

static void notrace on_entry(unsigned long ip, unsigned long parent_ip,
			     struct ftrace_ops *ops, callback_regs_t *regs)
{
	struct hook *hook = container_of(ops, struct hook, ops);

	atomic64_inc(&hook->entries);
	WRITE_ONCE(hook->after_fentry, ip + MCOUNT_INSN_SIZE);
	instruction_pointer_set(pt_regs_of(regs), (unsigned long)hook->instead);
}

static int hits_get(char *buf, const struct kernel_param *kp)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < nr_functions; i++)
		len += sysfs_emit_at(buf, len, "%s %lld\n%s %lld\n", functions[i],
				     atomic64_read(&hooks[i].entries), functions[i],
				     atomic64_read(&hooks[i].hits));
	return len;
}

static const struct kernel_param_ops hits_ops = {
	.get = hits_get,
};

module_param_cb(hits, &hits_ops, NULL, 0444);
MODULE_PARM_DESC(hits, "Two lines per function: calls that ftrace saw, calls of the replacement");

/* No task may sleep in a replaced function: it returns to code of this module. */
static void hook_exit(void)
{
	unsigned int i;

	for (i = 0; i < nr_functions; i++) {
		if (hooks[i].on)
			unregister_ftrace_function(&hooks[i].ops);
#ifdef HAVE_FTRACE_FREE_FILTER
		ftrace_free_filter(&hooks[i].ops);
#endif
	}
}

static int __init hook_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < nr_functions; i++) {
		struct hook *hook = &hooks[i];

		hook->ops.func = on_entry;
		hook->ops.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY;
		err = ftrace_set_filter(&hook->ops, functions[i], strlen(functions[i]), 1);
		if (!err)
			err = register_ftrace_function(&hook->ops);
		if (err) {
			pr_err("%s: error %d\n", functions[i], err);
			hook_exit();
			return err;
		}
		hook->on = true;
	}
	return 0;
}

module_init(hook_init);
module_exit(hook_exit);

MODULE_DESCRIPTION("Tests: replaces functions of TCP");
MODULE_LICENSE("GPL");
