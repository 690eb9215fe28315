// SPDX-License-Identifier: GPL-2.0
/*
 * The probe engine chooses the kernel mechanism that watches each function. Entries are watched
 * by ftrace if it passes a function's arguments, else by a kprobe, and returns by kretprobes.
 * Kprobes work on every kernel, but a CPU handles one at a time: if a timer interrupts a handler,
 * the probes that TCP's timers hit are missed. A busy host misses one in a hundred delayed-ACK
 * timeouts that way.
 *
 * On x86-64, ftrace handles a kprobe on the ftrace site at the start of a function. A kprobe
 * right after the site, where the arguments are still in their registers, can be optimised to a
 * jump, which costs a third less. It is tried first, and kept only if the kernel can optimise
 * it: as a breakpoint it would cost more than the kprobe on the site.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#ifdef CONFIG_X86_64
#include <asm/text-patching.h>
#endif

#include "tcplat.h"

static bool use_ftrace = true;

static int attach_set(const char *val, const struct kernel_param *kp)
{
	if (!sysfs_streq(val, "ftrace") && !sysfs_streq(val, "kprobe")) {
		pr_err("attach=%s: expected ftrace or kprobe\n", val);
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
MODULE_PARM_DESC(attach, "How to probe function entries: ftrace (default; falls back to kprobes where ftrace cannot be used) or kprobe");

/* The kernel's variables bool kprobes_all_disarmed and int ftrace_enabled, or NULL. */
static const void *all_disarmed;
static const void *ftrace_on;

/* Disabled probes, to be unregistered in one call, since each call waits for a grace period. */
static struct {
	struct kprobe **kps;
	struct kretprobe **rps;
	unsigned int nr_kps;
	unsigned int nr_rps;
} batch;

static int __kprobes on_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	const struct tcplat_probe *probe = container_of(kp, struct tcplat_probe, kp);
	struct sock *sk = (struct sock *)tcplat_arg(regs, 0);

	if (probe->entry5)
		probe->entry5(sk, tcplat_arg(regs, 1), tcplat_arg(regs, 2), tcplat_arg(regs, 3),
			      tcplat_arg(regs, 4));
	else
		probe->entry(sk, tcplat_arg(regs, 1), tcplat_arg(regs, 2));
	return 0;
}

static int __kprobes ignore_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	return 0;
}

static int __kprobes ignore_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 1;
}

static int __kprobes ignore_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

/* Connects a registered probe to the group's handlers, or to none. */
static void set_handlers(struct tcplat_probe *probe, bool on)
{
	if (probe->ret) {
		WRITE_ONCE(probe->rp.entry_handler, on ? probe->entry_ret : ignore_entry);
		WRITE_ONCE(probe->rp.handler, on ? probe->ret : ignore_return);
	} else {
		WRITE_ONCE(probe->kp.pre_handler, on ? on_kprobe : ignore_kprobe);
	}
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

static bool arm_after_fentry(struct tcplat_probe *probe)
{
#if defined(CONFIG_X86_64) && defined(CONFIG_OPTPROBES) && defined(CONFIG_KPROBES_ON_FTRACE)
	if (!probe->on_ftrace)
		return false;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.addr = probe->addr + MCOUNT_INSN_SIZE;
	probe->kp.pre_handler = on_kprobe;
	if (register_kprobe(&probe->kp))
		return false;

	/* Kprobes put a probe that can be optimised on the list of an aggregator probe. */
	if (!list_empty(&probe->kp.list))
		return true;

	unregister_kprobe(&probe->kp);
#endif
	return false;
}

static int arm_entry(struct tcplat_probe *probe)
{
	if (arm_after_fentry(probe))
		return 0;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = probe->found;
	probe->kp.pre_handler = on_kprobe;
	return register_kprobe(&probe->kp);
}

/* Hits since the probe was registered that the kernel could not deliver. */
static u64 missed_while_armed(const struct tcplat_probe *probe)
{
	u64 missed;

	if (probe->by_ftrace)
		return 0;
	missed = READ_ONCE(probe->kp.nmissed);
	if (probe->ret)
		missed += READ_ONCE(probe->rp.nmissed);
	return missed;
}

/* Registers a probe that ftrace does not watch, or reconnects a @kept one to its handlers. */
static int arm_kprobe(struct tcplat_probe *probe)
{
	if (probe->kept) {
		/* The kernel's count was not restarted: do not count its hits twice. */
		probe->missed_before -= missed_while_armed(probe);
		probe->kept = false;
		set_handlers(probe, true);
		return 0;
	}
	return probe->ret ? arm_return(probe) : arm_entry(probe);
}

/*
 * Disables a registered probe, and adds it to the batch to be unregistered. If it cannot be
 * disabled, for example because ftrace fails, unregistering it would leave the kernel with pointers
 * to freed memory. Such a probe is @kept: it stays registered and calls no handler. Returns false
 * in that case; handlers may run until a grace period has passed.
 */
static bool disable_probe(struct tcplat_probe *probe)
{
	/* For a return probe this is rp.kp, its first member. */
	int err = disable_kprobe(&probe->kp);

	probe->kept = err;
	if (err) {
		pr_err_once("cannot disable the probe on %s: error %d\n", probe->found, err);
		set_handlers(probe, false);
	} else if (probe->ret) {
		batch.rps[batch.nr_rps++] = &probe->rp;
	} else {
		batch.kps[batch.nr_kps++] = &probe->kp;
	}
	return !err;
}

static void unregister_batch(struct work_struct *work)
{
	if (batch.nr_kps)
		unregister_kprobes(batch.kps, batch.nr_kps);
	if (batch.nr_rps)
		unregister_kretprobes(batch.rps, batch.nr_rps);
	batch.nr_kps = 0;
	batch.nr_rps = 0;
}

static DECLARE_WORK(unregister_work, unregister_batch);

/* Whether the kernel may still call the module for a probe that could not be removed. */
static bool is_held(void)
{
	const struct tcplat_probe *probe;
	struct tcplat_group *group;
	unsigned int i;

	if (TCPLAT_HAS_FTRACE && tcplat_ftrace_is_stuck())
		return true;
	tcplat_for_each_group(group, i)
		tcplat_for_each_probe(group, probe)
			if (probe->kept)
				return true;
	return false;
}

/*
 * Keeps the module from being unloaded while is_held(). This has no effect once unloading has
 * begun; tcplat_probes_exit() waits in that case.
 */
static void hold_module(void)
{
	static bool holding;

	if (is_held() == holding)
		return;
	holding = !holding;
	if (holding) {
		__module_get(THIS_MODULE);
		pr_err("the kernel still calls the module, so it cannot be unloaded\n");
	} else {
		pr_notice("the kernel no longer calls the module, so it can be unloaded again\n");
		module_put(THIS_MODULE);
	}
}

/**
 * tcplat_probes_init() - find the functions that all groups' probes name
 *
 * If a function is missing or cannot be probed, the group's @missing_symbol is set to its name.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM, or -EOPNOTSUPP on a kernel whose kprobes are unusable
 */
int tcplat_probes_init(void)
{
	struct tcplat_group *group;
	unsigned int i, n = 0;
	int err = -ENOMEM;

	tcplat_for_each_group(group, i)
		n += group->nr_probes;
	batch.kps = kcalloc(n, sizeof(*batch.kps), GFP_KERNEL);
	batch.rps = kcalloc(n, sizeof(*batch.rps), GFP_KERNEL);
	all_disarmed = tcplat_data_symbol("kprobes_all_disarmed");
	ftrace_on = tcplat_data_symbol("ftrace_enabled");
	if (batch.kps && batch.rps)
		/* The kprobes that find the functions are unregistered in one call, too. */
		err = tcplat_symbols_find(batch.kps);
	if (err)
		tcplat_probes_exit();
	else if (TCPLAT_HAS_FTRACE)
		tcplat_ftrace_init();
	return err;
}

/**
 * tcplat_probes_exit() - release what tcplat_probes_init() allocated
 *
 * Does not return while the kernel may still call the module: after module_exit() or a failed
 * module_init() the kernel frees the module's code, whatever its reference count is. If ftrace
 * has shut itself down, the task sleeps until the machine reboots and cannot be killed.
 *
 * Context: process, may sleep; every group must be off.
 */
void tcplat_probes_exit(void)
{
	if (is_held())
		pr_err("unloading waits until the kernel no longer calls the module\n");
	while (is_held()) {
		schedule_timeout_idle(HZ);
		mutex_lock(&tcplat_control);
		tcplat_probes_disarm(tcplat_groups, tcplat_nr_groups);
		mutex_unlock(&tcplat_control);
	}
	if (TCPLAT_HAS_FTRACE)
		tcplat_ftrace_exit();
	kfree(batch.rps);
	kfree(batch.kps);
}

/**
 * tcplat_probes_prepare() - register the functions of several groups with ftrace
 * @groups: the groups, all disarmed; unavailable ones may be among them
 * @n: number of @groups
 *
 * This is optional: arming a group does the same for that group. But ftrace walks tens of
 * thousands of functions each time its filter changes; this call changes it once for all groups.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_probes_prepare(struct tcplat_group * const *groups, unsigned int n)
{
	if (TCPLAT_HAS_FTRACE && use_ftrace)
		tcplat_ftrace_arm(groups, n);
}

/**
 * tcplat_probes_arm() - arm all probes of a group, or none
 * @group: the group, available and disarmed
 * @symbol: on error, set to the name of the function that could not be probed
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, or the error of the first probe that could not be registered
 */
int tcplat_probes_arm(struct tcplat_group *group, const char **symbol)
{
	struct tcplat_probe *probe;
	unsigned int i, hot = 0;
	int err;

	tcplat_probes_prepare(&group, 1);
	tcplat_for_each_probe(group, probe)
		hot += probe->hot && probe->by_ftrace;
	/*
	 * In reverse: a probe that begins or inserts something is listed before its counterpart.
	 * Those of hot.h begin together, where the first one of them is listed.
	 */
	for (i = group->nr_probes; i--; ) {
		probe = &group->probes[i];
		if (!probe->found)
			continue;
		err = probe->by_ftrace ? 0 : arm_kprobe(probe);
		if (err) {
			*symbol = probe->found;
			tcplat_probes_disarm(&group, 1);
			return err;
		}
		/* A hit that sees this also sees what the group has allocated. */
		smp_store_release(&probe->armed, true);
		if (!TCPLAT_HAS_FTRACE || !probe->by_ftrace)
			continue;
		tcplat_ftrace_update_calls();
		if (probe->hot && !--hot)
			static_branch_enable(&group->on);
	}
	hold_module();
	return 0;
}

/**
 * tcplat_probes_disarm() - disarm the probes of several groups, waiting once for all of them
 * @groups: the groups; disarmed ones may be among them
 * @n: number of @groups
 *
 * On return no handler of these groups runs. Kprobes and ftrace both wait for grace periods;
 * the two waits overlap.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_probes_disarm(struct tcplat_group * const *groups, unsigned int n)
{
	struct tcplat_probe *probe;
	bool any_kept = false;
	unsigned int i;

	for (i = 0; i < n; i++) {
		tcplat_for_each_probe(groups[i], probe) {
			if (!probe->armed && !probe->kept)
				continue;
			/* Disable kprobes here: the work would have to wait for ftrace's lock. */
			if (probe->by_ftrace)
				WRITE_ONCE(probe->armed, false);
			else if (!disable_probe(probe))
				any_kept = true;
		}
		static_branch_disable(&groups[i]->on);
	}
	/* In the background, since it waits, too. */
	schedule_work(&unregister_work);
	if (TCPLAT_HAS_FTRACE)
		tcplat_ftrace_disarm(groups, n);
	flush_work(&unregister_work);
	/* Wait for handlers that a kept probe called before they were disconnected. */
	if (any_kept)
		synchronize_rcu();
	hold_module();

	for (i = 0; i < n; i++) {
		tcplat_for_each_probe(groups[i], probe) {
			if (!probe->armed)
				continue;
			/* The kernel's count starts at zero when the probe is registered again. */
			probe->missed_before += missed_while_armed(probe);
			WRITE_ONCE(probe->armed, false);
		}
	}
}

/**
 * tcplat_probe_missed() - hits of a probe that the kernel could not deliver
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 * Return: the number of missed hits since the last reset
 */
u64 tcplat_probe_missed(const struct tcplat_probe *probe)
{
	u64 missed = probe->missed_before;

	if (probe->armed)
		missed += missed_while_armed(probe);
	return missed;
}

/**
 * tcplat_probe_missed_reset() - make a probe's missed hits read zero
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 */
void tcplat_probe_missed_reset(struct tcplat_probe *probe)
{
	probe->missed_before -= tcplat_probe_missed(probe);
}

/**
 * tcplat_probe_kind() - how a probe is attached now
 * @probe: the probe
 *
 * The kernel optimises a kprobe some time after it was armed, and optimisation can be switched
 * off and on, so the result can change at any time. It is read from the kernel's code.
 *
 * Context: process, under tcplat_control.
 * Return: "ftrace", "kprobe:jump", "kprobe:ftrace", "kprobe:breakpoint", or "-" if the probe is not
 * armed
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

/* Whether a variable is non-zero; @fallback if it cannot be read. */
static bool is_set(const void *variable, size_t size, bool fallback)
{
	unsigned int value = 0;

	if (!variable || copy_from_kernel_nofault(&value, variable, size))
		return fallback;
	return value;
}

/**
 * tcplat_probe_is_live() - whether a probe is armed and receives hits
 * @probe: the probe
 *
 * The debugfs file kprobes/enabled disarms all kprobes, and the sysctl kernel.ftrace_enabled
 * those on ftrace sites. Neither notifies the probe's owner. The sysctl cannot be cleared while a
 * probe is by_ftrace.
 *
 * Context: any.
 * Return: true if the probe is armed and the kernel has not disarmed it, as far as the kernel's
 * variables were found
 */
bool tcplat_probe_is_live(const struct tcplat_probe *probe)
{
	if (!READ_ONCE(probe->armed))
		return false;
	if (probe->by_ftrace)
		return true;
	if (is_set(all_disarmed, sizeof(bool), false))
		return false;
	return !kprobe_ftrace((struct kprobe *)&probe->kp) || is_set(ftrace_on, sizeof(int), true);
}
