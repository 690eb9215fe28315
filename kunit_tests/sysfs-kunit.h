/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of reading and writing each file in /sys/kernel/tcplat, and of parsing and printing.
 */
#include "tcplat-kunit.h"

static const struct kobj_attribute *sysfs_attr(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(common_attrs); i++)
		if (!strcmp(common_attrs[i].attr.name, name))
			return &common_attrs[i];
	return NULL;
}

static ssize_t sysfs_enable(struct tcplat_group *group, const char *text)
{
	return sysfs_attr("enabled")->store(&group->kobj, NULL, text, strlen(text));
}

/* Expects that a file of the group shows @text. */
static void sysfs_shows(struct kunit *test, struct tcplat_group *group,
			const struct kobj_attribute *attr, const char *text)
{
	/* sysfs_emit() warns if the page is not aligned. */
	char *page = kunit_new(test, PAGE_SIZE);

	KUNIT_EXPECT_EQ(test, attr->show(&group->kobj, (void *)attr, page), strlen(text));
	KUNIT_EXPECT_STREQ_MSG(test, page, text, "%s", attr->attr.name);
}

/* The same for a file that all groups have. */
static void sysfs_common_shows(struct kunit *test, struct tcplat_group *group, const char *name,
			       const char *text)
{
	sysfs_shows(test, group, sysfs_attr(name), text);
}

static char switched[8];

static void note_start(struct tcplat_group *group)
{
	strcat(switched, "+");
}

static void note_pause(struct tcplat_group *group)
{
	strcat(switched, "p");
}

static void note_stop(struct tcplat_group *group)
{
	strcat(switched, "-");
}

/* A group without probes: nothing can fail. Its callbacks are called once per switch. */
static void sysfs_enabled_and_status(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	static const struct {
		const char *text;
		bool armed, invalid;
	} rows[] = {
		{ "x", false, true }, { "1", true }, { "1\n", true }, { "11", true, true },
		{ "0\n", false }, { "0", false }, { "1\n", true }, { "0", false },
	};

	switched[0] = '\0';
	group->start = note_start;
	group->pause = note_pause;
	group->stop = note_stop;
	for_each_row() {
		KUNIT_EXPECT_ROW(test, sysfs_enable(group, row->text),
				 row->invalid ? -EINVAL : (ssize_t)strlen(row->text));
		KUNIT_EXPECT_ROW(test, group->armed, row->armed);
		sysfs_common_shows(test, group, "enabled", row->armed ? "1\n" : "0\n");
		sysfs_common_shows(test, group, "status", row->armed ? "armed\n" : "off\n");
	}
	KUNIT_EXPECT_STREQ(test, switched, "+p-+p-");
}

/* The status of an armed group is off if one of its probes receives no hits. */
static void sysfs_status_of_a_dead_probe(struct kunit *test)
{
	struct tcplat_probe *probe = kunit_new(test, sizeof(*probe));
	struct tcplat_group *group = kunit_group(test, 1);

	KUNIT_EXPECT_EQ(test, sysfs_enable(group, "1"), 1);
	group->probes = probe;
	group->nr_probes = 1;
	/* The kernel lacks an optional function. */
	sysfs_common_shows(test, group, "status", "armed\n");
	probe->found = "tcp_none_such";
	sysfs_common_shows(test, group, "status", "off\n");
	sysfs_common_shows(test, group, "enabled", "1\n");
	probe->armed = true;
	probe->by_ftrace = true;
	sysfs_common_shows(test, group, "status", "armed\n");
	group->nr_probes = 0;
	KUNIT_EXPECT_EQ(test, sysfs_enable(group, "0"), 1);
}

static void sysfs_unavailable(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);

	group->missing_symbol = "tcp_none_such";
	sysfs_common_shows(test, group, "status", "unavailable: tcp_none_such\n");
	sysfs_common_shows(test, group, "enabled", "0\n");
	KUNIT_EXPECT_EQ(test, sysfs_enable(group, "1"), -ENODEV);
	KUNIT_EXPECT_FALSE(test, group->armed);
	KUNIT_EXPECT_EQ(test, sysfs_enable(group, "0"), 1);
	KUNIT_EXPECT_EQ(test, sysfs_enable(group, "x"), -EINVAL);
}

/* The directory of an unavailable group has no file that looks like a count. */
static void sysfs_folder_of_an_unavailable_group(struct kunit *test)
{
	static const struct tcplat_file files[] = { TCPLAT_SUM("count", 0) };
	struct tcplat_group *group = kunit_group(test, 1);
	static const char * const names[] = { "enabled", "status", "missed", "count" };
	struct kernfs_node *kn;
	int lost, i, n;

	group->files = files;
	group->nr_files = ARRAY_SIZE(files);
	for (lost = 0; lost < 2; lost++) {
		group->missing_symbol = lost ? "tcp_none_such" : NULL;
		n = lost ? 2 : ARRAY_SIZE(names);
		KUNIT_EXPECT_EQ(test, dir_create(group), 0);
		for (i = 0; i < ARRAY_SIZE(names); i++) {
			kn = sysfs_get_dirent(group->kobj.sd, names[i]);
			KUNIT_EXPECT_EQ_MSG(test, !!kn, i < n, "%s", names[i]);
			sysfs_put(kn);
		}
		dir_remove(group);
		dir_wait(group);
		memset(&group->kobj, 0, sizeof(group->kobj));
	}
}

static void sysfs_missed(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct tcplat_probe *probes = kunit_new(test, 2 * sizeof(*probes));

	sysfs_common_shows(test, group, "missed", "0\n");
	group->probes = probes;
	group->nr_probes = 2;
	probes[0].missed_before = 5;
	probes[1].missed_before = 40;
	sysfs_common_shows(test, group, "missed", "45\n");
	tcplat_probe_missed_reset(&probes[0]);
	sysfs_common_shows(test, group, "missed", "40\n");
	probes[0].missed_before += 2;
	sysfs_common_shows(test, group, "missed", "42\n");
}

/* Resets one counter of each group, which is not updated meanwhile: its probes are off. */
static void sysfs_reset(struct kunit *test)
{
	static const char * const refused[] = { "", "x", "11", "0", "0\n" };
	struct tcplat_group *group;
	bool armed[16] = {};
	unsigned int i;

	KUNIT_ASSERT_LE(test, tcplat_nr_groups, ARRAY_SIZE(armed));
	mutex_lock(&tcplat_control);
	tcplat_for_each_group(group, i) {
		armed[i] = group->armed;
		tcplat_group_disable(group);
		tcplat_add(group, 0, 17);
		group->probes[0].missed_before += 3;
	}
	mutex_unlock(&tcplat_control);
	KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, "1\n", 2), 2);
	tcplat_for_each_group(group, i) {
		KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(group, 0), 0, "%s", group->name);
		sysfs_common_shows(test, group, "missed", "0\n");
		tcplat_add(group, 0, 17);
	}
	for (i = 0; i < ARRAY_SIZE(refused); i++)
		KUNIT_EXPECT_EQ_MSG(test, reset_store(NULL, &reset_attr, refused[i],
						      strlen(refused[i])),
				    -EINVAL, "'%s'", refused[i]);
	tcplat_for_each_group(group, i)
		KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(group, 0), 17, "%s", group->name);

	KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, "1", 1), 1);
	mutex_lock(&tcplat_control);
	tcplat_for_each_group(group, i)
		if (armed[i])
			KUNIT_EXPECT_EQ_MSG(test, tcplat_group_enable(group), 0, "%s", group->name);
	mutex_unlock(&tcplat_control);
}

static void sysfs_modes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ARRAY_SIZE(common_attrs), 3);
	KUNIT_EXPECT_EQ(test, sysfs_attr("enabled")->attr.mode, 0644);
	KUNIT_EXPECT_EQ(test, sysfs_attr("status")->attr.mode, 0444);
	KUNIT_EXPECT_EQ(test, sysfs_attr("missed")->attr.mode, 0444);
	KUNIT_EXPECT_NULL(test, sysfs_attr("status")->store);
	KUNIT_EXPECT_NULL(test, sysfs_attr("missed")->store);
	KUNIT_EXPECT_NULL(test, reset_attr.show);
	KUNIT_EXPECT_EQ(test, reset_attr.attr.mode, 0200);
}

static void parse_refuses(struct kunit *test, const char *buf, size_t count)
{
	bool value;
	int i;

	for (i = 0; i < 2; i++) {
		value = i;
		KUNIT_ASSERT_EQ_MSG(test, parse_control(buf, count, &value), -EINVAL,
				    "%zu bytes of '%s'", count, buf);
		KUNIT_ASSERT_EQ(test, value, i);
	}
}

/* All other texts of up to two bytes, and longer ones. */
static void parse_refuses_all_other_texts(struct kunit *test)
{
	static const char * const longer[] = {
		"001", "111", " 1\n", "\n1\n", "+1\n", "1\n\n", "0\n\n", "1  ", "1 1", "1.0", "0x1",
		"yes", "off\n", "true\n", "1 apple", "4294967297", "18446744073709551617",
	};
	char buf[3] = "";
	int a, b;

	parse_refuses(test, "", 0);
	for (a = 0; a < 256; a++) {
		buf[0] = a;
		buf[1] = '\0';
		if (a != '0' && a != '1')
			parse_refuses(test, buf, 1);
		for (b = 0; b < 256; b++) {
			buf[1] = b;
			if ((a != '0' && a != '1') || b != '\n')
				parse_refuses(test, buf, 2);
		}
	}
	for (a = 0; a < ARRAY_SIZE(longer); a++)
		parse_refuses(test, longer[a], strlen(longer[a]));
}

TCPLAT_SUITE(sysfs,
	     KUNIT_CASE(sysfs_enabled_and_status),
	     KUNIT_CASE(sysfs_status_of_a_dead_probe),
	     KUNIT_CASE(sysfs_unavailable),
	     KUNIT_CASE(sysfs_folder_of_an_unavailable_group),
	     KUNIT_CASE(sysfs_missed),
	     KUNIT_CASE(sysfs_reset),
	     KUNIT_CASE(sysfs_modes),
	     KUNIT_CASE_SLOW(parse_refuses_all_other_texts));

/* ---- printing ---- */

static const u64 format_le[] = { 5, 1000, U64_MAX - 1 };

static void format_counters(struct kunit *test)
{
	static const struct {
		u64 value;
		const char *text;
	} rows[] = {
		{ 0, "0\n" }, { 1, "1\n" }, { 10, "10\n" },
		{ 4294967296, "4294967296\n" }, { 9223372036854775808ULL, "9223372036854775808\n" },
		{ U64_MAX, "18446744073709551615\n" },
	};
	struct tcplat_group *group = kunit_group(test, 5);
	const struct tcplat_file sum = TCPLAT_SUM("sum", 2);
	const struct tcplat_file max = TCPLAT_MAX("max", 3);

	for_each_row() {
		kunit_count(group, 2, 0, row->value);
		sysfs_shows(test, group, &sum.attr, row->text);
	}

	sysfs_shows(test, group, &max.attr, "0\n");
	group->epoch = 77;
	kunit_note_max(group, 3, 12345);
	sysfs_shows(test, group, &max.attr, "12345\n");
	kunit_note_max(group, 3, U64_MAX);
	sysfs_shows(test, group, &max.attr, "281474976710655\n");
	tcplat_counters_reset(group);
	sysfs_shows(test, group, &max.attr, "0\n");
}

/* The sum over all CPUs is converted, not the value of each CPU. */
static void format_jiffies_in_us(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 5);
	const struct tcplat_file us = TCPLAT_JIFFIES_US("us", 4);
	int cpu;

	sysfs_shows(test, group, &us.attr, "0\n");
	kunit_count(group, 4, 0, 7 * HZ);
	sysfs_shows(test, group, &us.attr, "7000000\n");
	if (num_possible_cpus() < 2)
		return;
	cpu = cpumask_next(0, cpu_possible_mask);
	kunit_count(group, 4, 0, HZ - 1);
	kunit_count(group, 4, cpu, 1);
	sysfs_shows(test, group, &us.attr, "1000000\n");
}

static void format_histograms(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 6);
	const struct tcplat_file files[] = { TCPLAT_HIST("hist", "_us", format_le, 1) };
	int i;

	KUNIT_EXPECT_STREQ(test, files[0].attr.attr.name, "hist");
	KUNIT_EXPECT_STREQ(test, files[1].attr.attr.name, "hist_le_us");
	sysfs_shows(test, group, &files[0].attr, "0 0 0 0\n");
	/* Counters next to the histogram do not belong to it. */
	for (i = 0; i < 6; i++)
		kunit_count(group, i, 0, 100 + i);
	sysfs_shows(test, group, &files[0].attr, "101 102 103 104\n");
	for (i = 0; i < 6; i++)
		kunit_count(group, i, 0, U64_MAX);
	sysfs_shows(test, group, &files[0].attr,
		    "18446744073709551615 18446744073709551615 18446744073709551615 18446744073709551615\n");
	sysfs_shows(test, group, &files[1].attr, "5 1000 18446744073709551614 +Inf\n");
}

/* sysfs truncates output at a page: the longest line of each histogram must fit. */
static void format_longest_lines_fit_a_page(struct kunit *test)
{
	struct tcplat_group *group;
	unsigned int i, j;

	tcplat_for_each_group(group, i)
		for (j = 0; j < group->nr_files; j++)
			KUNIT_EXPECT_LT(test, group->files[j].buckets * 21, PAGE_SIZE);
}

TCPLAT_SUITE(format,
	     KUNIT_CASE(format_counters),
	     KUNIT_CASE(format_jiffies_in_us),
	     KUNIT_CASE(format_histograms),
	     KUNIT_CASE(format_longest_lines_fit_a_page));
