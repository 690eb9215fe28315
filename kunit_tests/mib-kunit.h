/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the kernel's counts and their differences to a group's counters, with a count that no
 * traffic of a test changes.
 */
#include <linux/completion.h>
#include <linux/kthread.h>

#include "tcplat-kunit.h"

#define QUIET_ITEM	LINUX_MIB_ARPFILTER

static const struct tcplat_file mib_files[] = {
	TCPLAT_MIB("kernel", QUIET_ITEM),
	TCPLAT_UNSEEN("unseen", 0, QUIET_ITEM),
};

static struct tcplat_group *mib_group(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(mib_files); i++)
		*mib_files[i].mib = (struct tcplat_mib){ .item = QUIET_ITEM };
	group->files = mib_files;
	group->nr_files = ARRAY_SIZE(mib_files);
	tcplat_mib_update(group, TCPLAT_MIB_START);
	return group;
}

static void mib_event(struct tcplat_group *group, unsigned int kernel, unsigned int seen)
{
	NET_ADD_STATS(&init_net, QUIET_ITEM, kernel);
	tcplat_add(group, 0, seen);
}

#define KUNIT_EXPECT_MIBS(test, group, kernel, unseen)			\
do {									\
	KUNIT_EXPECT_EQ(test, tcplat_mib_read(group, &mib_files[0]), (s64)(kernel)); \
	KUNIT_EXPECT_EQ(test, tcplat_mib_read(group, &mib_files[1]), (s64)(unseen)); \
} while (0)

static void mib_counts_what_was_not_seen(struct kunit *test)
{
	struct tcplat_group *group = mib_group(test);

	KUNIT_EXPECT_MIBS(test, group, 0, 0);
	mib_event(group, 1000, 1000);
	KUNIT_EXPECT_MIBS(test, group, 1000, 0);
	mib_event(group, 2, 0);
	KUNIT_EXPECT_MIBS(test, group, 1002, 2);
	/* The kernel has not counted the last of these yet. */
	mib_event(group, 0, 3);
	KUNIT_EXPECT_MIBS(test, group, 1002, -1);
	mib_event(group, 1, 0);
	KUNIT_EXPECT_MIBS(test, group, 1003, 0);
}

static void mib_stands_still_while_the_group_is_off(struct kunit *test)
{
	struct tcplat_group *group = mib_group(test);

	mib_event(group, 5, 4);
	tcplat_mib_update(group, TCPLAT_MIB_STOP);
	KUNIT_EXPECT_MIBS(test, group, 5, 1);
	mib_event(group, 100, 0);
	KUNIT_EXPECT_MIBS(test, group, 5, 1);
	tcplat_mib_update(group, TCPLAT_MIB_START);
	KUNIT_EXPECT_MIBS(test, group, 5, 1);
	mib_event(group, 20, 18);
	KUNIT_EXPECT_MIBS(test, group, 25, 3);
}

/* What the kernel counted before a reset is not counted after it, read or not. */
static void mib_reset(struct kunit *test)
{
	struct tcplat_group *group = mib_group(test);

	mib_event(group, 7, 1);
	tcplat_mib_update(group, TCPLAT_MIB_RESET);
	tcplat_counters_reset(group);
	KUNIT_EXPECT_MIBS(test, group, 0, 0);
	mib_event(group, 3, 2);
	KUNIT_EXPECT_MIBS(test, group, 3, 1);
	tcplat_mib_update(group, TCPLAT_MIB_STOP);
	mib_event(group, 9, 0);
	tcplat_mib_update(group, TCPLAT_MIB_RESET);
	KUNIT_EXPECT_MIBS(test, group, 0, 0);
}

static int mib_end_event(void *ended)
{
	NET_INC_STATS(&init_net, QUIET_ITEM);
	complete(ended);
	return 0;
}

/*
 * An event that the kernel has not counted yet ends while the difference is being read, or during
 * a reset, after events that nobody has read.
 */
static void mib_event_that_ends(struct kunit *test)
{
	struct tcplat_group *group = mib_group(test);
	struct completion ended;
	unsigned int i;

	/* The other thread does not run before this one sleeps. */
	sched_set_fifo(current);
	for (i = 0; i < 40; i++) {
		bool reset = i % 2;

		tcplat_mib_update(group, TCPLAT_MIB_RESET);
		mib_event(group, reset ? 5 : 0, 1);
		init_completion(&ended);
		kthread_run(mib_end_event, &ended, "tcplat_event");
		if (reset)
			tcplat_mib_update(group, TCPLAT_MIB_RESET);
		else
			tcplat_mib_read(group, &mib_files[1]);
		wait_for_completion(&ended);
		KUNIT_EXPECT_MIBS(test, group, !reset, 0);
	}
	sched_set_normal(current, 0);
}

/* The counts of all namespaces that go. */
static void mib_namespaces_that_are_gone(struct kunit *test)
{
	struct tcplat_mib mib = { .item = QUIET_ITEM };
	s64 one;

	NET_INC_STATS(&init_net, QUIET_ITEM);
	add_gone(&init_net, &mib);
	one = mib.gone;
	KUNIT_EXPECT_GT(test, one, 0);
	add_gone(&init_net, &mib);
	KUNIT_EXPECT_EQ(test, mib.gone, 2 * one);
}

/* The sum of all CPUs. */
static void mib_cpus(struct kunit *test)
{
	struct tcplat_group *group = mib_group(test);
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu_ptr(init_net.mib.net_statistics, cpu)->mibs[QUIET_ITEM] += 10;
	for_each_possible_cpu(cpu)
		kunit_count(group, 0, cpu, 10);
	mib_event(group, 1, 0);
	tcplat_mib_update(group, TCPLAT_MIB_STOP);
	KUNIT_EXPECT_EQ(test, mib_files[0].mib->value, 10 * num_possible_cpus() + 1);
	KUNIT_EXPECT_EQ(test, mib_files[1].mib->value, 1);
}

TCPLAT_SUITE(mib,
	     KUNIT_CASE(mib_counts_what_was_not_seen),
	     KUNIT_CASE(mib_stands_still_while_the_group_is_off),
	     KUNIT_CASE(mib_reset),
	     KUNIT_CASE(mib_event_that_ends),
	     KUNIT_CASE(mib_namespaces_that_are_gone),
	     KUNIT_CASE(mib_cpus));
