// SPDX-License-Identifier: GPL-2.0
/*
 * The probe engine. Groups name functions and handlers; the probe engine chooses the kernel
 * mechanism that watches each function.
 *
 * Entries are watched by ftrace if it passes a function's arguments, else by a kprobe. Kprobes
 * work on every kernel, but a CPU handles one kprobe at a time: if a timer interrupts a
 * handler, the probes that TCP's timers hit are missed. A busy host misses one in a hundred
 * delayed-ACK timeouts that way.
 *
 * Returns are watched by kretprobes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "probe.h"

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

static unsigned int nr_probes(void)
{
	struct tcplat_group *group;
	unsigned int i, n = 0;

	tcplat_for_each_group(group, i)
		n += group->nr_probes;
	return n;
}

/* Whether the kernel may still call the module for a probe that could not be removed. */
static bool is_held(void)
{
	struct tcplat_group *group;
	unsigned int i, j;

	if (tcplat_ftrace_is_stuck())
		return true;
	tcplat_for_each_group(group, i)
		for (j = 0; j < group->nr_probes; j++)
			if (group->probes[j].kept)
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
	int err;

	err = tcplat_kprobe_init(nr_probes());
	if (!err)
		err = tcplat_symbols_find(nr_probes());
	if (err)
		tcplat_probes_exit();
	else
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
	tcplat_ftrace_exit();
	tcplat_kprobe_exit();
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
	if (use_ftrace)
		tcplat_ftrace_arm(groups, n);
}

static int arm(struct tcplat_probe *probe)
{
	return probe->by_ftrace ? 0 : tcplat_kprobe_arm(probe);
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
	unsigned int i;
	int err;

	tcplat_probes_prepare(&group, 1);
	/* In reverse: a probe that begins or inserts something is listed before its counterpart. */
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
		WRITE_ONCE(probe->armed, true);
		tcplat_ftrace_update_calls();
	}
	hold_module();
	return 0;
}

static u64 missed_while_armed(const struct tcplat_probe *probe)
{
	return probe->by_ftrace ? 0 : tcplat_kprobe_missed(probe);
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
	bool any_kept = false;
	unsigned int i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed && !probe->kept)
				continue;
			/* Disable kprobes here: the work would have to wait for ftrace's lock. */
			if (probe->by_ftrace)
				WRITE_ONCE(probe->armed, false);
			else if (!tcplat_kprobe_disable(probe))
				any_kept = true;
		}
	}
	tcplat_kprobe_unregister_begin();
	tcplat_ftrace_disarm(groups, n);
	tcplat_kprobe_unregister_end();
	/* Wait for handlers that a kept probe called before they were disconnected. */
	if (any_kept)
		synchronize_rcu();
	hold_module();

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed)
				continue;
			/* The kernel's count starts at zero when the probe is registered again. */
			probe->missed_before += missed_while_armed(probe);
			WRITE_ONCE(probe->armed, false);
		}
	}
}

static u64 missed_total(const struct tcplat_probe *probe)
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
 * Return: the number of missed hits since the last reset
 */
u64 tcplat_probe_missed(const struct tcplat_probe *probe)
{
	return missed_total(probe) - probe->missed_base;
}

/**
 * tcplat_probe_missed_reset() - make a probe's missed hits read zero
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 */
void tcplat_probe_missed_reset(struct tcplat_probe *probe)
{
	probe->missed_base = missed_total(probe);
}

/**
 * tcplat_probe_kind() - how a probe is attached now
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 * Return: "ftrace", a value of tcplat_kprobe_kind(), or "-" if the probe is not armed
 */
const char *tcplat_probe_kind(const struct tcplat_probe *probe)
{
	if (!probe->armed)
		return "-";
	return probe->by_ftrace ? "ftrace" : tcplat_kprobe_kind(probe);
}

/**
 * tcplat_probe_is_live() - whether a probe is armed and receives hits
 * @probe: the probe
 *
 * The sysctl kernel.ftrace_enabled cannot be cleared while a probe is by_ftrace.
 *
 * Context: any.
 * Return: true if the probe is armed and the kernel has not disarmed it
 */
bool tcplat_probe_is_live(const struct tcplat_probe *probe)
{
	return READ_ONCE(probe->armed) &&
	       (probe->by_ftrace || tcplat_kprobe_is_live(probe));
}
