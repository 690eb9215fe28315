// SPDX-License-Identifier: GPL-2.0
/*
 * Watches returns of functions, and entries that ftrace does not watch, with kretprobes and
 * kprobes.
 *
 * On x86-64, ftrace handles a kprobe on the ftrace site at the start of a function. A kprobe
 * right after the site, where the arguments are still in their registers, can be optimised to a
 * jump, which costs a third less. It is tried first, and kept only if the kernel can optimise
 * it: as a breakpoint it would cost more than the kprobe on the site.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#ifdef CONFIG_X86_64
#include <asm/text-patching.h>
#endif

#include "probe.h"

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

/**
 * tcplat_kprobe_init() - prepare for registering and unregistering kprobes
 * @nr_probes: number of probes of all groups
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM; the caller must call tcplat_kprobe_exit() in both cases
 */
int tcplat_kprobe_init(unsigned int nr_probes)
{
	batch.kps = kcalloc(nr_probes, sizeof(*batch.kps), GFP_KERNEL);
	batch.rps = kcalloc(nr_probes, sizeof(*batch.rps), GFP_KERNEL);
	if (!batch.kps || !batch.rps)
		return -ENOMEM;
	all_disarmed = tcplat_data_symbol("kprobes_all_disarmed");
	ftrace_on = tcplat_data_symbol("ftrace_enabled");
	return 0;
}

/**
 * tcplat_kprobe_exit() - free what tcplat_kprobe_init() allocated
 *
 * Context: process, may sleep; every group must be off, and no probe @kept.
 */
void tcplat_kprobe_exit(void)
{
	kfree(batch.rps);
	kfree(batch.kps);
	batch.rps = NULL;
	batch.kps = NULL;
}

static int on_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	const struct tcplat_probe *probe = container_of(kp, struct tcplat_probe, kp);

	if (probe->entry5)
		probe->entry5(tcplat_arg(regs, 0), (unsigned long)tcplat_arg(regs, 1),
			      (unsigned long)tcplat_arg(regs, 2),
			      (unsigned long)tcplat_arg(regs, 3),
			      (unsigned long)tcplat_arg(regs, 4));
	else
		probe->entry(tcplat_arg(regs, 0), (unsigned long)tcplat_arg(regs, 1),
			     (unsigned long)tcplat_arg(regs, 2));
	return 0;
}

NOKPROBE_SYMBOL(on_kprobe);

static int ignore_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	return 0;
}

NOKPROBE_SYMBOL(ignore_kprobe);

static int ignore_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 1;
}

NOKPROBE_SYMBOL(ignore_entry);

static int ignore_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

NOKPROBE_SYMBOL(ignore_return);

/* Connects a registered probe to the group's handlers, or to none. */
static void set_handlers(struct tcplat_probe *probe, bool on)
{
	if (tcplat_probe_is_return(probe)) {
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

#if defined(CONFIG_X86_64) && defined(CONFIG_OPTPROBES)
static bool arm_after_fentry(struct tcplat_probe *probe)
{
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
	return false;
}
#else
static bool arm_after_fentry(struct tcplat_probe *probe)
{
	return false;
}
#endif

static int arm_entry(struct tcplat_probe *probe)
{
	if (arm_after_fentry(probe))
		return 0;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = probe->found;
	probe->kp.pre_handler = on_kprobe;
	return register_kprobe(&probe->kp);
}

/**
 * tcplat_kprobe_arm() - register a probe, or reconnect a @kept one to its handlers
 * @probe: the probe, not armed, whose function was found
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, or the error of registering the probe
 */
int tcplat_kprobe_arm(struct tcplat_probe *probe)
{
	if (probe->kept) {
		/* The kernel's count was not restarted: do not count its hits twice. */
		probe->missed_before -= tcplat_kprobe_missed(probe);
		probe->kept = false;
		set_handlers(probe, true);
		return 0;
	}
	return tcplat_probe_is_return(probe) ? arm_return(probe) : arm_entry(probe);
}

/**
 * tcplat_kprobe_disable() - disable a probe and add it to the batch to be unregistered
 * @probe: the probe, registered
 *
 * If a probe cannot be disabled, for example because ftrace fails, unregistering it would leave
 * the kernel with pointers to freed memory. Such a probe is @kept: it stays registered and calls
 * no handler.
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: false if the probe is @kept; handlers may run until a grace period has passed
 */
bool tcplat_kprobe_disable(struct tcplat_probe *probe)
{
	/* For a return probe this is rp.kp, its first member. */
	int err = disable_kprobe(&probe->kp);

	probe->kept = err;
	if (err) {
		pr_err_once("cannot disable the probe on %s: error %d\n", probe->found, err);
		set_handlers(probe, false);
	} else if (tcplat_probe_is_return(probe)) {
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
}

static DECLARE_WORK(unregister_work, unregister_batch);

/**
 * tcplat_kprobe_unregister_begin() - unregister the disabled probes, in the background
 *
 * Context: process, under tcplat_control, which the caller must hold until
 * tcplat_kprobe_unregister_end() has returned.
 */
void tcplat_kprobe_unregister_begin(void)
{
	schedule_work(&unregister_work);
}

/**
 * tcplat_kprobe_unregister_end() - wait until the disabled probes are unregistered
 *
 * On return none of their handlers is running.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_kprobe_unregister_end(void)
{
	flush_work(&unregister_work);
	batch.nr_kps = 0;
	batch.nr_rps = 0;
}

/**
 * tcplat_kprobe_missed() - hits of a probe that kprobes could not deliver
 * @probe: the probe, registered
 *
 * Context: any.
 * Return: the number of missed hits since the probe was registered
 */
u64 tcplat_kprobe_missed(const struct tcplat_probe *probe)
{
	u64 missed = READ_ONCE(probe->kp.nmissed);

	if (tcplat_probe_is_return(probe))
		missed += READ_ONCE(probe->rp.nmissed);
	return missed;
}

/**
 * tcplat_kprobe_kind() - how an armed probe is attached, read from the kernel's code
 * @probe: the probe
 *
 * The kernel optimises a probe some time after it was armed, and optimisation can be switched
 * off and on, so the result can change at any time.
 *
 * Context: process.
 * Return: "kprobe:jump", "kprobe:ftrace" or "kprobe:breakpoint"
 */
const char *tcplat_kprobe_kind(const struct tcplat_probe *probe)
{
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
 * tcplat_kprobe_is_live() - whether the kernel has not disarmed an armed probe
 * @probe: the probe
 *
 * The debugfs file kprobes/enabled disarms all kprobes, and the sysctl kernel.ftrace_enabled
 * those on ftrace sites. Neither notifies the probe's owner.
 *
 * Context: any.
 * Return: false if the probe is disarmed; true also if the kernel's variables were not found
 */
bool tcplat_kprobe_is_live(const struct tcplat_probe *probe)
{
	if (is_set(all_disarmed, sizeof(bool), false))
		return false;
	return !kprobe_ftrace((struct kprobe *)&probe->kp) || is_set(ftrace_on, sizeof(int), true);
}
