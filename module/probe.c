// SPDX-License-Identifier: GPL-2.0
/*
 * The probe engine. A group names functions and handlers; this decides, for all groups, what
 * watches each function.
 *
 * Entries are watched by ftrace where the kernel's ftrace hands over arguments, else by a
 * kprobe. Kprobes would do on every kernel, but a CPU serves one kprobe at a time: when a
 * timer interrupts a handler and TCP's timers hit probes of their own, these hits are lost. A
 * busy host loses one in a hundred delayed-ACK timeouts that way.
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

static unsigned int nr_probes(void)
{
	struct tcplat_group *group;
	unsigned int i, n = 0;

	tcplat_for_each_group(group, i)
		n += group->nr_probes;
	return n;
}

/* Whether the kernel may still call the module's code although no group is armed. */
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
 * Keeps the module from being unloaded while is_held(). That has no effect once unloading has
 * begun: then tcplat_probes_exit() waits.
 */
static void hold_module(void)
{
	static bool holding;

	if (is_held() == holding)
		return;
	holding = !holding;
	if (holding) {
		__module_get(THIS_MODULE);
		pr_err("the kernel still calls the module, which stays in memory for that\n");
	} else {
		pr_notice("the kernel no longer calls the module, which can be unloaded again\n");
		module_put(THIS_MODULE);
	}
}

/**
 * tcplat_probes_init() - find the functions that all groups' probes name
 *
 * A group whose symbol is missing, or cannot be probed, gets it in @missing_symbol.
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
 * tcplat_probes_exit() - give back what tcplat_probes_init() took
 *
 * Does not return while the kernel still calls the module's code. The caller's next step is
 * module_exit() or a failed module_init() returning, and nothing keeps the kernel from freeing
 * the code then: it looked at the references before, and takes no error from module_exit().
 * If ftrace gave up, the task sleeps until the machine reboots, and cannot be killed.
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
 * tcplat_probes_prepare() - have the kernel watch what groups are about to arm
 * @groups: the groups, all disarmed; unavailable ones may be among them
 * @n: how many
 *
 * Not needed, but each time that ftrace is told of another function it goes through all that it
 * could watch, tens of thousands: this does it once for all groups.
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

	tcplat_probes_prepare(&group, 1);
	/* In reverse: groups list what begins something, or inserts a socket, before its end. */
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
 * tcplat_probes_disarm() - take groups' probes off, waiting once for all of them
 * @groups: the groups; those that are off already may be among them
 * @n: how many
 *
 * On return no handler runs any more and none will. Kprobes and ftrace both wait for
 * grace periods: at the same time.
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
			/* Disabled here: the work would have to wait for ftrace's lock. */
			if (probe->by_ftrace)
				WRITE_ONCE(probe->armed, false);
			else if (!tcplat_kprobe_disable(probe))
				any_kept = true;
		}
	}
	tcplat_kprobe_unregister_begin();
	tcplat_ftrace_disarm(groups, n);
	tcplat_kprobe_unregister_end();
	/* Handlers that a kept probe was calling when it lost them. */
	if (any_kept)
		synchronize_rcu();
	hold_module();

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed)
				continue;
			/* Registering again starts the kernel's own count at zero. */
			probe->missed_before += missed_while_armed(probe);
			WRITE_ONCE(probe->armed, false);
		}
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
 * tcplat_probe_kind() - how a probe is attached now
 * @probe: the probe
 *
 * Context: process.
 * Return: "ftrace", what tcplat_kprobe_kind() returns, or "-" while the probe is off
 */
const char *tcplat_probe_kind(const struct tcplat_probe *probe)
{
	if (!probe->armed)
		return "-";
	return probe->by_ftrace ? "ftrace" : tcplat_kprobe_kind(probe);
}

/**
 * tcplat_probe_is_live() - whether an armed probe gets its hits
 * @probe: the probe
 *
 * The sysctl kernel.ftrace_enabled cannot be cleared while a probe is by_ftrace.
 *
 * Context: any.
 * Return: false for one that is not armed, too
 */
bool tcplat_probe_is_live(const struct tcplat_probe *probe)
{
	return READ_ONCE(probe->armed) &&
	       (probe->by_ftrace || tcplat_kprobe_is_live(probe));
}
