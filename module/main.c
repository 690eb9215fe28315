// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat: counts causes of TCP latency that the kernel does not break out.
 *
 * Each group of counters is one file, and one line in groups.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <net/net_namespace.h>

#include "tcplat.h"

struct tcplat_group * const tcplat_groups[] = {
#define TCPLAT_GROUP_POINTERS
#include "groups.h"
};

const unsigned int tcplat_nr_groups = ARRAY_SIZE(tcplat_groups);

/* See tcplat.h. */
DEFINE_MUTEX(tcplat_control);

/**
 * tcplat_group_enable() - arm a group; its counters keep their values
 * @group: the group
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, also if the group was armed already; -ENODEV if it is unavailable; -ENOMEM; or the
 * error of registering its probes. On an error the group is disarmed.
 */
int tcplat_group_enable(struct tcplat_group *group)
{
	const char *symbol = NULL;
	int err = 0;

	if (group->missing_symbol)
		return -ENODEV;
	if (group->armed)
		return 0;
	if (group->alloc)
		err = group->alloc(group);
	if (!err)
		err = tcplat_probes_arm(group, &symbol);
	if (err) {
		if (symbol)
			pr_warn("%s: cannot probe %s: error %d\n", group->name, symbol, err);
		if (group->stop)
			group->stop(group);
		return err;
	}
	if (group->start)
		group->start(group);
	tcplat_mib_update(group, TCPLAT_MIB_START);
	WRITE_ONCE(group->armed, true);
	return 0;
}

static void groups_disarm(struct tcplat_group * const *groups, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (groups[i]->pause)
			groups[i]->pause(groups[i]);
	tcplat_probes_disarm(groups, n);
	for (i = 0; i < n; i++) {
		if (groups[i]->armed && groups[i]->stop)
			groups[i]->stop(groups[i]);
		WRITE_ONCE(groups[i]->armed, false);
	}
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
	tcplat_mib_update(group, TCPLAT_MIB_STOP);
	groups_disarm(&group, 1);
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
	const struct tcplat_probe *probe;

	if (!READ_ONCE(group->armed))
		return false;
	tcplat_for_each_probe(group, probe)
		if (probe->found && !tcplat_probe_is_live(probe))
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
	struct tcplat_probe *probe;
	struct tcplat_group *group;
	unsigned int i;

	tcplat_for_each_group(group, i) {
		tcplat_mib_update(group, TCPLAT_MIB_RESET);
		tcplat_counters_reset(group);
		tcplat_for_each_probe(group, probe)
			tcplat_probe_missed_reset(probe);
	}
}

static void counters_free(void)
{
	struct tcplat_group *group;
	unsigned int i;

	tcplat_for_each_group(group, i)
		free_percpu(group->counters);
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
		if (err == -ENOMEM)
			return err;
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

static void probes_stop(void)
{
	mutex_lock(&tcplat_control);
	groups_disarm(tcplat_groups, tcplat_nr_groups);
	mutex_unlock(&tcplat_control);
	tcplat_probes_exit();
}

static int __init tcplat_init(void)
{
	struct tcplat_group *group;
	unsigned int i;
	int err;

	err = register_pernet_subsys(&tcplat_mib_net_ops);
	if (err)
		return err;

	tcplat_for_each_group(group, i) {
		err = tcplat_counters_alloc(group);
		if (err)
			goto free_counters;
	}

	err = tcplat_probes_init();
	if (err)
		goto free_counters;

	mutex_lock(&tcplat_control);
	err = groups_arm();
	mutex_unlock(&tcplat_control);
	if (err)
		goto stop_probes;

	err = tcplat_sysfs_create();
	if (err)
		goto stop_probes;

	tcplat_debugfs_create();
	return 0;

stop_probes:
	probes_stop();
free_counters:
	counters_free();
	unregister_pernet_subsys(&tcplat_mib_net_ops);
	return err;
}

static void __exit tcplat_exit(void)
{
	tcplat_debugfs_remove();
	tcplat_sysfs_remove();
	probes_stop();
	counters_free();
	unregister_pernet_subsys(&tcplat_mib_net_ops);
}

module_init(tcplat_init);
module_exit(tcplat_exit);

MODULE_DESCRIPTION("Causes of TCP latency: delayed ACKs, ACK modes, loss, accept queues, port searches, send buffers, held data, idle restarts, peers' windows, late answers");
MODULE_LICENSE("GPL");
MODULE_VERSION(TCPLAT_VERSION);
