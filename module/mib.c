// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own counts, summed over all network namespaces, and what they have grown by more
 * than a group's counter of the same events. The difference is what the group's probes missed.
 *
 * A seen event increments the group's counter in the handler, and soon afterwards, on the same
 * CPU, the kernel's count. So it does not change the difference, no matter when each CPU is read,
 * unless it is read in between: then the difference is too small. Reading again tells, except for
 * a task that was preempted there.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "tcplat.h"

#define SAMPLES	8

/* A network namespace whose counts are part of the sums. */
struct counted_net {
	struct list_head list;
	const struct net *net;
};

/*
 * All network namespaces. The kernel's list does not have those that are being dismantled;
 * without them the sums would decrease.
 */
static LIST_HEAD(counted_nets);
static unsigned int counted_net_id;

/* Protects every struct tcplat_mib, but for what nets_lock protects. */
static DEFINE_MUTEX(mib_lock);

/*
 * Protects counted_nets and gone. Who creates or removes a namespace takes it, so a reader holds it
 * for one sample only; readers wait for each other at mib_lock.
 */
static DEFINE_MUTEX(nets_lock);

static u64 count_in(const struct net *net, unsigned int item, int cpu)
{
	return READ_ONCE(per_cpu_ptr(net->mib.net_statistics, cpu)->mibs[item]);
}

/* The kernel's count, less the group's. */
static s64 sample(const struct tcplat_group *group, const struct tcplat_file *file)
{
	const struct tcplat_mib *mib = file->mib;
	const struct counted_net *counted;
	s64 sum;
	int cpu;

	mutex_lock(&nets_lock);
	sum = mib->gone;
	for_each_possible_cpu(cpu) {
		list_for_each_entry(counted, &counted_nets, list)
			sum += count_in(counted->net, mib->item, cpu);
		/*
		 * The kernel's count first, so that no event makes the difference too large. Pairs
		 * with smp_wmb() in tcplat_inc_before_mib().
		 */
		smp_rmb();
		if (file->index != TCPLAT_NO_COUNTER)
			sum -= READ_ONCE(per_cpu_ptr(group->counters, cpu)[file->index]);
		cond_resched();
	}
	mutex_unlock(&nets_lock);
	return sum;
}

/* Takes samples until one is @enough. Called under mib_lock. */
static void read_mib(const struct tcplat_group *group, const struct tcplat_file *file, s64 enough)
{
	struct tcplat_mib *mib = file->mib;
	s64 largest = sample(group, file);
	unsigned int i;

	for (i = 1; i < SAMPLES && largest < enough; i++) {
		usleep_range(20, 40);
		largest = max(largest, sample(group, file));
	}
	if (mib->counting)
		mib->value += largest - mib->last;
	mib->last = largest;
}

/**
 * tcplat_mib_update() - note what the kernel has counted until now
 * @group: the group; its probes are armed unless @action is TCPLAT_MIB_RESET
 * @action: count from now on, count no more, or make the files read zero
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_mib_update(const struct tcplat_group *group, enum tcplat_mib_action action)
{
	unsigned int i;

	mutex_lock(&mib_lock);
	for (i = 0; i < group->nr_files; i++) {
		struct tcplat_mib *mib = group->files[i].mib;

		if (!mib)
			continue;
		/* An error here would last, so take all samples. */
		read_mib(group, &group->files[i], S64_MAX);
		if (action == TCPLAT_MIB_RESET)
			mib->value = 0;
		else
			mib->counting = action == TCPLAT_MIB_START;
	}
	mutex_unlock(&mib_lock);
}

/**
 * tcplat_mib_read() - a count of the kernel's, or its difference to the group's
 * @group: the group
 * @file: its @mib tells which
 *
 * Context: process, may sleep.
 * Return: the growth while the group was armed, since the last reset
 */
s64 tcplat_mib_read(const struct tcplat_group *group, const struct tcplat_file *file)
{
	s64 value;

	mutex_lock(&mib_lock);
	read_mib(group, file, file->mib->last);
	value = file->mib->value;
	mutex_unlock(&mib_lock);
	return value;
}

static int __net_init counted_net_init(struct net *net)
{
	struct counted_net *counted = net_generic(net, counted_net_id);

	counted->net = net;
	mutex_lock(&nets_lock);
	list_add(&counted->list, &counted_nets);
	mutex_unlock(&nets_lock);
	return 0;
}

static void add_gone(const struct net *net, struct tcplat_mib *mib)
{
	int cpu;

	for_each_possible_cpu(cpu)
		mib->gone += count_in(net, mib->item, cpu);
}

/* No socket of a process is left in the namespace. At unload, called for every namespace. */
static void __net_exit counted_net_exit(struct net *net)
{
	struct counted_net *counted = net_generic(net, counted_net_id);
	struct tcplat_group *group;
	unsigned int i, j;

	mutex_lock(&nets_lock);
	tcplat_for_each_group(group, i)
		for (j = 0; j < group->nr_files; j++)
			if (group->files[j].mib)
				add_gone(net, group->files[j].mib);
	list_del(&counted->list);
	mutex_unlock(&nets_lock);
}

struct pernet_operations tcplat_mib_net_ops = {
	.init = counted_net_init,
	.exit = counted_net_exit,
	.id = &counted_net_id,
	.size = sizeof(struct counted_net),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/mib-kunit.h"
#endif
