// SPDX-License-Identifier: GPL-2.0
/*
 * The probe engine. A group names functions and handlers; where and how these
 * get attached is decided here, once for all groups.
 *
 * Entries are watched by ftrace where the kernel's ftrace hands over arguments.
 * Kprobes would do on every kernel, but a CPU serves one kprobe at a time: when a
 * timer interrupts a handler and TCP's timers hit probes of their own, these hits
 * are lost. A busy host loses one in a hundred delayed-ACK timeouts that way.
 * Ftrace keeps apart what runs in a task, in a softirq and in an interrupt.
 *
 * Where ftrace does not do, a kprobe. On x86-64 one on the ftrace site that opens a
 * function is served by ftrace after all, and one right behind it, where the
 * arguments are still in their registers, can be turned into a jump, which costs a
 * third less. The second is tried first and kept only if the kernel can optimise it:
 * as a breakpoint it would cost more than the first.
 *
 * Returns are watched by kretprobes.
 *
 * An address is only ever taken from a probe that kprobes themselves accepted.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#ifdef CONFIG_X86_64
#include <asm/text-patching.h>
#endif

#include "tcplat.h"

static bool use_ftrace = true;

static int attach_set(const char *val, const struct kernel_param *kp)
{
	if (!sysfs_streq(val, "ftrace") && !sysfs_streq(val, "kprobe")) {
		pr_err("attach=%s: takes ftrace or kprobe\n", val);
		return -EINVAL;
	}
	use_ftrace = sysfs_streq(val, "ftrace");
	return 0;
}

static int attach_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", use_ftrace ? "ftrace" : "kprobe");
}

static const struct kernel_param_ops attach_ops = {
	.set = attach_set,
	.get = attach_get,
};

module_param_cb(attach, &attach_ops, NULL, 0444);
MODULE_PARM_DESC(attach, "How to watch functions' entries: ftrace (default; kprobes where the kernel's ftrace does not do), or kprobe");

static char *hide[8];
static unsigned int nr_hidden;

module_param_array(hide, charp, &nr_hidden, 0444);
MODULE_PARM_DESC(hide, "For tests: symbols of the kernel to take for missing, up to 8, separated by commas");

static bool hidden(const char *symbol)
{
	unsigned int i;

	for (i = 0; i < nr_hidden; i++)
		if (!strcmp(symbol, hide[i]))
			return true;
	return false;
}

/* For one grace period per batch: unregister_kprobes() takes an array of pointers. */
static struct kprobe **batch_kps;
static struct kretprobe **batch_rps;

static bool is_return(const struct tcplat_probe *probe)
{
	return probe->ret;
}

/* Register disabled: tells whether and where, and changes no code. */
static int resolve_symbol(struct tcplat_probe *probe, const char *symbol)
{
	int err;

	if (hidden(symbol))
		return -ENOENT;
	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = symbol;
	probe->kp.flags = KPROBE_FLAG_DISABLED;
	err = register_kprobe(&probe->kp);
	if (err)
		return err;
	probe->found = symbol;
	probe->addr = probe->kp.addr;
	probe->on_ftrace = kprobe_ftrace(&probe->kp);
	return 0;
}

static int resolve(struct tcplat_probe *probe)
{
	int err = resolve_symbol(probe, probe->symbol);

	if (err && err != -ENOMEM && probe->fallback)
		err = resolve_symbol(probe, probe->fallback);
	return err;
}

/**
 * tcplat_probes_init() - find the functions that all groups' probes name
 *
 * A group whose symbol is missing, or cannot be probed, gets it in @lost.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM, or -EOPNOTSUPP on a kernel whose kprobes are unusable
 */
int tcplat_probes_init(void)
{
	struct tcplat_group *group;
	unsigned int i, j, n = 0;
	int err = 0;

	tcplat_for_each_group(group, i)
		n += group->nr_probes;
	batch_kps = kcalloc(n, sizeof(*batch_kps), GFP_KERNEL);
	batch_rps = kcalloc(n, sizeof(*batch_rps), GFP_KERNEL);
	if (!batch_kps || !batch_rps) {
		err = -ENOMEM;
		goto out;
	}

	n = 0;
	tcplat_for_each_group(group, i) {
		for (j = 0; j < group->nr_probes; j++) {
			struct tcplat_probe *probe = &group->probes[j];

			err = resolve(probe);
			if (err == -ENOMEM || err == -EOPNOTSUPP)
				goto unregister;
			if (!err)
				batch_kps[n++] = &probe->kp;
			else if (!probe->optional && !group->lost)
				group->lost = probe->symbol;
		}
	}
	err = 0;

unregister:
	unregister_kprobes(batch_kps, n);
out:
	if (err)
		tcplat_probes_exit();
	return err;
}

/**
 * tcplat_probes_exit() - give back what tcplat_probes_init() took
 *
 * Context: process; every probe must be off.
 */
void tcplat_probes_exit(void)
{
	kfree(batch_rps);
	kfree(batch_kps);
	batch_rps = NULL;
	batch_kps = NULL;
}

static int arm_return(struct tcplat_probe *probe)
{
	memset(&probe->rp, 0, sizeof(probe->rp));
	probe->rp.kp.symbol_name = probe->found;
	probe->rp.entry_handler = probe->entry_ret;
	probe->rp.handler = probe->ret;
	probe->rp.data_size = probe->data_size;
	probe->rp.maxactive = probe->maxactive;
	return register_kretprobe(&probe->rp);
}

static int on_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	const struct tcplat_probe *probe = container_of(kp, struct tcplat_probe, kp);

	probe->entry(tcplat_arg(regs, 0), (unsigned long)tcplat_arg(regs, 1),
		     (unsigned long)tcplat_arg(regs, 2));
	return 0;
}

NOKPROBE_SYMBOL(on_kprobe);

#if defined(CONFIG_X86_64) && defined(CONFIG_OPTPROBES)
static bool arm_behind(struct tcplat_probe *probe)
{
	if (!probe->on_ftrace)
		return false;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.addr = probe->addr + MCOUNT_INSN_SIZE;
	probe->kp.pre_handler = on_kprobe;
	if (register_kprobe(&probe->kp))
		return false;

	/* A probe that can be optimised hangs below one that kprobes made for it. */
	if (!list_empty(&probe->kp.list))
		return true;

	unregister_kprobe(&probe->kp);
	return false;
}
#else
static bool arm_behind(struct tcplat_probe *probe)
{
	return false;
}
#endif

static int arm_entry(struct tcplat_probe *probe)
{
	probe->behind = arm_behind(probe);
	if (probe->behind)
		return 0;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = probe->found;
	probe->kp.pre_handler = on_kprobe;
	return register_kprobe(&probe->kp);
}

#ifdef TCPLAT_FTRACE
static bool takes_ftrace(const struct tcplat_probe *probe)
{
	return probe->found && !is_return(probe) && probe->on_ftrace;
}

/*
 * Called for the functions in the group's filter, and these are among its probes.
 * What the handlers call never comes back here: they are no part of TCP.
 */
static void notrace on_ftrace(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	const struct tcplat_group *group = container_of(ops, struct tcplat_group, ops);
	const struct tcplat_probe *probe = group->probes;
	const struct tcplat_probe *end = probe + group->nr_probes;

	for (; probe < end; probe++) {
		if ((unsigned long)probe->addr != ip)
			continue;
		probe->entry((struct sock *)tcplat_ftrace_arg(regs, 0),
			     tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2));
		return;
	}
}

NOKPROBE_SYMBOL(on_ftrace);

/* Puts a group's entries into its filter, or takes them out. An empty filter is all functions. */
static int set_filter(struct tcplat_group *group, bool remove)
{
	unsigned int i;
	int err;

	for (i = 0; i < group->nr_probes; i++) {
		struct tcplat_probe *probe = &group->probes[i];

		if (remove ? !probe->by_ftrace : !takes_ftrace(probe))
			continue;
		err = ftrace_set_filter_ip(&group->ops, (unsigned long)probe->addr, remove, 0);
		if (err)
			return err;
		probe->by_ftrace = !remove;
	}
	return 0;
}

static void disarm_ftrace(struct tcplat_group *group)
{
	if (!group->ops.func)
		return;
	unregister_ftrace_function(&group->ops);
	set_filter(group, true);
	group->ops.func = NULL;
}

/* On any error the entries are left to kprobes. */
static void arm_ftrace(struct tcplat_group *group)
{
	unsigned int i, n = 0;

	for (i = 0; i < group->nr_probes; i++)
		n += takes_ftrace(&group->probes[i]);
	if (!n || !use_ftrace)
		return;

	memset(&group->ops, 0, sizeof(group->ops));
	group->ops.flags = TCPLAT_FTRACE_FLAGS;
	if (set_filter(group, false))
		goto undo;
	group->ops.func = on_ftrace;
	if (!register_ftrace_function(&group->ops))
		return;
	group->ops.func = NULL;
undo:
	set_filter(group, true);
}
#else
static void disarm_ftrace(struct tcplat_group *group)
{
}

static void arm_ftrace(struct tcplat_group *group)
{
}
#endif

static int arm(struct tcplat_probe *probe)
{
	if (probe->by_ftrace)
		return 0;
	return is_return(probe) ? arm_return(probe) : arm_entry(probe);
}

/**
 * tcplat_probes_arm() - put a group's probes on, all or none
 * @group: the group, available and disarmed
 * @symbol: where to say, on error, which function could not be probed
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, or the error of the first probe that could not be registered
 */
int tcplat_probes_arm(struct tcplat_group *group, const char **symbol)
{
	unsigned int i;
	int err;

	arm_ftrace(group);
	/* The busiest last: who watches sockets come must not miss that they go. */
	for (i = group->nr_probes; i--; ) {
		struct tcplat_probe *probe = &group->probes[i];

		if (!probe->found)
			continue;
		err = arm(probe);
		if (err) {
			*symbol = probe->found;
			tcplat_probes_disarm(&group, 1);
			return err;
		}
		probe->armed = true;
	}
	return 0;
}

static u64 missed_while_armed(const struct tcplat_probe *probe)
{
	u64 missed;

	if (probe->by_ftrace)
		return 0;
	missed = READ_ONCE(probe->kp.nmissed);
	if (is_return(probe))
		missed += READ_ONCE(probe->rp.nmissed);
	return missed;
}

/**
 * tcplat_probes_disarm() - take groups' probes off, waiting once for all of them
 * @groups: the groups; those that are off already may be among them
 * @n: how many
 *
 * On return no handler runs any more and none will.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_probes_disarm(struct tcplat_group * const *groups, unsigned int n)
{
	unsigned int kps = 0, rps = 0;
	unsigned int i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed || probe->by_ftrace)
				continue;
			if (is_return(probe))
				batch_rps[rps++] = &probe->rp;
			else
				batch_kps[kps++] = &probe->kp;
		}
	}
	if (kps)
		unregister_kprobes(batch_kps, kps);
	if (rps)
		unregister_kretprobes(batch_rps, rps);

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed)
				continue;
			/* Registering again starts the kernel's own count at zero. */
			probe->missed_before += missed_while_armed(probe);
			probe->armed = false;
		}
		disarm_ftrace(groups[i]);
	}
}

static u64 missed_in_all(const struct tcplat_probe *probe)
{
	u64 missed = probe->missed_before;

	if (probe->armed)
		missed += missed_while_armed(probe);
	return missed;
}

/**
 * tcplat_probe_missed() - hits of a probe that the kernel could not deliver
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 * Return: how many since the last reset
 */
u64 tcplat_probe_missed(const struct tcplat_probe *probe)
{
	return missed_in_all(probe) - probe->missed_base;
}

/**
 * tcplat_probe_missed_reset() - make a probe's missed hits read zero
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 */
void tcplat_probe_missed_reset(struct tcplat_probe *probe)
{
	probe->missed_base = missed_in_all(probe);
}

/**
 * tcplat_probe_kind() - how a probe is attached, read off the kernel's code
 * @probe: the probe
 *
 * Optimising is the kernel's own business and happens a little after arming; it
 * can also be switched off and on, so look at what is there now.
 *
 * Context: process.
 * Return: "ftrace", "kprobe:jump", "kprobe:ftrace", "kprobe:breakpoint", or "-" while
 * the probe is off
 */
const char *tcplat_probe_kind(const struct tcplat_probe *probe)
{
	if (!probe->armed)
		return "-";
	if (probe->by_ftrace)
		return "ftrace";
	if (kprobe_ftrace((struct kprobe *)&probe->kp))
		return "kprobe:ftrace";
#ifdef CONFIG_X86_64
	{
		u8 opcode;

		if (!copy_from_kernel_nofault(&opcode, probe->kp.addr, 1) &&
		    opcode == JMP32_INSN_OPCODE)
			return "kprobe:jump";
	}
#endif
	return "kprobe:breakpoint";
}

/**
 * tcplat_data_symbol() - where the kernel keeps a variable that it does not export
 * @name: the variable's name
 *
 * register_kprobe() looks the name up, leaves the address behind, and then refuses it
 * because it is not code. A function's address is not given away: calling what was
 * found this way would crash kernels that check the targets of indirect calls.
 *
 * The variable is only to be read, with copy_from_kernel_nofault(), and what is read
 * to be doubted: that the name means today what it meant yesterday is not certain.
 *
 * Context: process, may sleep.
 * Return: the address, or NULL if the kernel knows no such variable
 */
const void *tcplat_data_symbol(const char *name)
{
	struct kprobe kp = {
		.symbol_name = name,
		.flags = KPROBE_FLAG_DISABLED,
	};
	char found[KSYM_SYMBOL_LEN];
	size_t len = strlen(name);
	int err;

	if (hidden(name))
		return NULL;
	err = register_kprobe(&kp);
	if (!err)
		unregister_kprobe(&kp);
	if (err != -EINVAL || IS_ERR_OR_NULL(kp.addr))
		return NULL;

	/* Kprobes may have moved the address, as they do for functions. */
	sprint_symbol(found, (unsigned long)kp.addr);
	if (strncmp(found, name, len) || strncmp(found + len, "+0x0/", 5))
		return NULL;
	return kp.addr;
}
