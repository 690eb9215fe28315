// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat: counts causes of TCP latency that the kernel does not break out.
 *
 * Each group of counters is one file, and one line in groups.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>

#include "tcplat.h"

/* Not in sysfs, where it would always be false. */
static bool off;
module_param(off, bool, 0);
MODULE_PARM_DESC(off, "Refuse to load. tcplat.off=1 on the kernel command line keeps modprobe from loading the module at boot; insmod does not read the command line");

struct tcplat_group * const tcplat_groups[] = {
#define TCPLAT_GROUP_POINTERS
#include "groups.h"
};

const unsigned int tcplat_nr_groups = ARRAY_SIZE(tcplat_groups);

/* Serialises arming, disarming and reset; readers of counters do not take it. */
DEFINE_MUTEX(tcplat_control);

/**
 * tcplat_group_enable() - arm a group; its counters keep their values
 * @group: the group
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, also if the group was armed already; -ENODEV if it is unavailable; or the error of
 * registering its probes, in which case the group is disarmed
 */
int tcplat_group_enable(struct tcplat_group *group)
{
	const char *symbol;
	int err;

	if (group->missing_symbol)
		return -ENODEV;
	if (group->armed)
		return 0;
	err = tcplat_probes_arm(group, &symbol);
	if (err) {
		pr_warn("%s: cannot probe %s: error %d\n", group->name, symbol, err);
		if (group->stop)
			group->stop(group);
		return err;
	}
	if (group->start)
		group->start(group);
	WRITE_ONCE(group->armed, true);
	return 0;
}

/**
 * tcplat_group_disable() - disarm a group; its counters keep their values
 * @group: the group
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_group_disable(struct tcplat_group *group)
{
	if (!group->armed)
		return;
	if (group->pause)
		group->pause(group);
	tcplat_probes_disarm(&group, 1);
	if (group->stop)
		group->stop(group);
	WRITE_ONCE(group->armed, false);
}

/**
 * tcplat_group_counts() - whether all probes of a group receive hits
 * @group: the group
 *
 * Context: process; without tcplat_control the result may be out of date.
 * Return: false if the group is disarmed, or if the kernel has disarmed one of its probes
 */
bool tcplat_group_counts(const struct tcplat_group *group)
{
	unsigned int i;

	if (!READ_ONCE(group->armed))
		return false;
	for (i = 0; i < group->nr_probes; i++)
		if (group->probes[i].found && !tcplat_probe_is_live(&group->probes[i]))
			return false;
	return true;
}

/**
 * tcplat_reset() - make every counter, histogram and maximum read zero
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_reset(void)
{
	struct tcplat_group *group;
	unsigned int i, j;

	tcplat_for_each_group(group, i) {
		for (j = 0; j < group->nr_files; j++)
			tcplat_file_refresh(&group->files[j]);
		tcplat_counters_reset(group);
		for (j = 0; j < group->nr_probes; j++)
			tcplat_probe_missed_reset(&group->probes[j]);
	}
}

static void groups_exit(unsigned int n)
{
	while (n--) {
		struct tcplat_group *group = tcplat_groups[n];

		if (group->exit)
			group->exit(group);
		tcplat_counters_free(group);
	}
}

static int groups_init(void)
{
	struct tcplat_group *group;
	unsigned int i;
	int err;

	tcplat_for_each_group(group, i) {
		err = tcplat_counters_alloc(group);
		if (err)
			goto undo;
		if (!group->init)
			continue;
		err = group->init(group);
		if (err) {
			tcplat_counters_free(group);
			goto undo;
		}
	}
	return 0;

undo:
	groups_exit(i);
	return err;
}

static void groups_disarm(void)
{
	struct tcplat_group *group;
	unsigned int i;

	tcplat_for_each_group(group, i)
		if (group->pause)
			group->pause(group);
	tcplat_probes_disarm(tcplat_groups, tcplat_nr_groups);
	tcplat_for_each_group(group, i)
		WRITE_ONCE(group->armed, false);
}

static int groups_arm(void)
{
	struct tcplat_group *group;
	unsigned int armed = 0;
	unsigned int i;
	int err;

	tcplat_probes_prepare(tcplat_groups, tcplat_nr_groups);
	tcplat_for_each_group(group, i) {
		if (group->missing_symbol) {
			pr_warn("%s is unavailable: this kernel has no %s to probe\n",
				group->name, group->missing_symbol);
			continue;
		}
		err = tcplat_group_enable(group);
		if (err == -ENOMEM) {
			groups_disarm();
			return err;
		}
		/* On other errors the group stays off; its status shows that. */
		if (!err)
			armed++;
	}
	if (!armed) {
		pr_err("none of the groups can be armed on this kernel, not loading\n");
		return -ENOENT;
	}
	return 0;
}

static int __init tcplat_init(void)
{
	int err;

	if (off) {
		pr_notice("not loading: off=1 was given\n");
		return -ENODEV;
	}

	err = groups_init();
	if (err)
		return err;

	err = tcplat_probes_init();
	if (err)
		goto free_groups;

	mutex_lock(&tcplat_control);
	err = groups_arm();
	mutex_unlock(&tcplat_control);
	if (err)
		goto free_probes;

	err = tcplat_sysfs_create();
	if (err)
		goto disarm;

	tcplat_debugfs_create();
	return 0;

disarm:
	mutex_lock(&tcplat_control);
	groups_disarm();
	mutex_unlock(&tcplat_control);
free_probes:
	tcplat_probes_exit();
free_groups:
	groups_exit(tcplat_nr_groups);
	return err;
}

static void __exit tcplat_exit(void)
{
	tcplat_debugfs_remove();
	tcplat_sysfs_remove();
	mutex_lock(&tcplat_control);
	groups_disarm();
	mutex_unlock(&tcplat_control);
	tcplat_probes_exit();
	groups_exit(tcplat_nr_groups);
}

module_init(tcplat_init);
module_exit(tcplat_exit);

MODULE_DESCRIPTION("Causes of TCP latency: delayed ACKs, ACK modes, port searches");
MODULE_LICENSE("GPL");
MODULE_VERSION(TCPLAT_VERSION);
