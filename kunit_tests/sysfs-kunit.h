/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of reading and writing each file in /sys/kernel/tcplat, and of parsing and printing.
 */
#include "tcplat-kunit.h"

static const char * const sysfs_invalid[] = {
	"", "\n", " ", "2", "2\n", "-1", "+1\n", "01", "001", "111", "1 ", " 1\n", "\n1\n", "1\n\n",
	"0\n\n", "1  ", "1 1", "1.0", "0x1", "y", "n", "on", "yes", "off\n", "true\n", "1 apple",
	"4294967297", "18446744073709551617",
};

/* A file that all groups have. */
struct sysfs_file {
	struct tcplat_group *group;
	const struct kobj_attribute *attr;
};

static struct sysfs_file sysfs_attr(struct tcplat_group *group, const char *name)
{
	struct sysfs_file file = { .group = group };
	int i;

	for (i = 0; i < ARRAY_SIZE(common_attrs); i++)
		if (!strcmp(common_attrs[i].attr.name, name))
			file.attr = &common_attrs[i];
	return file;
}

static ssize_t sysfs_write(struct sysfs_file *file, const char *text)
{
	return file->attr->store(&file->group->kobj, NULL, text, strlen(text));
}

static ssize_t sysfs_read(struct sysfs_file *file, char *page)
{
	return file->attr->show(&file->group->kobj, NULL, page);
}

/* A group without probes: nothing can fail. */
static void sysfs_enabled_and_status(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct sysfs_file enabled = sysfs_attr(group, "enabled");
	struct sysfs_file status = sysfs_attr(group, "status");
	char *page = kunit_page(test);
	static const struct {
		const char *text;
		bool armed;
	} rows[] = {
		{ "1", true }, { "1\n", true }, { "0\n", false }, { "0", false }, { "1\n", true },
		{ "0", false },
	};
	const char *text;
	int i;

	KUNIT_EXPECT_SHOWS(test, sysfs_read(&enabled, page), page, "0\n");
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, "off\n");
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, rows[i].text), strlen(rows[i].text));
		KUNIT_EXPECT_EQ(test, group->armed, rows[i].armed);
		text = rows[i].armed ? "1\n" : "0\n";
		KUNIT_EXPECT_SHOWS(test, sysfs_read(&enabled, page), page, text);
		text = rows[i].armed ? "armed\n" : "off\n";
		KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, text);
	}
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

/* A group's callbacks are called once per switch, and in this order. */
static void sysfs_enabled_switches_once(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct sysfs_file enabled = sysfs_attr(group, "enabled");
	static const char * const texts[] = { "0", "1", "1", "0", "0" };
	int i;

	switched[0] = '\0';
	group->start = note_start;
	group->pause = note_pause;
	group->stop = note_stop;
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, texts[i]), 1);
	KUNIT_EXPECT_STREQ(test, switched, "+p-");
}

/* The status of an armed group is off if one of its probes receives no hits. */
static void sysfs_status_of_a_dead_probe(struct kunit *test)
{
	struct tcplat_probe *probe = kunit_new(test, sizeof(*probe));
	struct tcplat_group *group = kunit_group(test, 1);
	struct sysfs_file enabled = sysfs_attr(group, "enabled");
	struct sysfs_file status = sysfs_attr(group, "status");
	char *page = kunit_page(test);

	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "1"), 1);
	group->probes = probe;
	group->nr_probes = 1;
	/* The kernel lacks an optional function. */
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, "armed\n");
	probe->found = "tcp_none_such";
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, "off\n");
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&enabled, page), page, "1\n");
	probe->armed = true;
	probe->by_ftrace = true;
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, "armed\n");
	group->nr_probes = 0;
	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "0"), 1);
}

static void sysfs_enabled_refuses(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct sysfs_file enabled = sysfs_attr(group, "enabled");
	int armed, i;

	for (armed = 0; armed < 2; armed++) {
		KUNIT_ASSERT_EQ(test, sysfs_write(&enabled, armed ? "1" : "0"), 1);
		for (i = 0; i < ARRAY_SIZE(sysfs_invalid); i++) {
			KUNIT_EXPECT_EQ_MSG(test, sysfs_write(&enabled, sysfs_invalid[i]), -EINVAL,
					    "'%s'", sysfs_invalid[i]);
			KUNIT_EXPECT_EQ(test, group->armed, armed);
		}
	}
	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "0"), 1);
}

static void sysfs_unavailable(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct sysfs_file enabled = sysfs_attr(group, "enabled");
	struct sysfs_file status = sysfs_attr(group, "status");
	char *page = kunit_page(test);

	group->missing_symbol = "tcp_none_such";
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&status, page), page, "unavailable: tcp_none_such\n");
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&enabled, page), page, "0\n");
	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "1"), -ENODEV);
	KUNIT_EXPECT_FALSE(test, group->armed);
	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "0"), 1);
	KUNIT_EXPECT_EQ(test, sysfs_write(&enabled, "x"), -EINVAL);
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
	struct sysfs_file missed = sysfs_attr(group, "missed");
	struct tcplat_probe *probes = kunit_new(test, 2 * sizeof(*probes));
	char *page = kunit_page(test);

	KUNIT_EXPECT_SHOWS(test, sysfs_read(&missed, page), page, "0\n");
	group->probes = probes;
	group->nr_probes = 2;
	probes[0].missed_before = 5;
	probes[1].missed_before = 40;
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&missed, page), page, "45\n");
	tcplat_probe_missed_reset(&probes[0]);
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&missed, page), page, "40\n");
	probes[0].missed_before += 2;
	KUNIT_EXPECT_SHOWS(test, sysfs_read(&missed, page), page, "42\n");
}

static u64 sysfs_missed_of(struct tcplat_group *group, char *page)
{
	struct sysfs_file missed = sysfs_attr(group, "missed");
	u64 value = U64_MAX;

	sysfs_read(&missed, page);
	return kstrtou64(page, 10, &value) ? U64_MAX : value;
}

/* Resets one counter of each group, which is not updated meanwhile: its probes are off. */
static void sysfs_reset(struct kunit *test)
{
	char *page = kunit_page(test);
	struct tcplat_group *group;
	bool armed[16] = {};
	unsigned int i, k;

	KUNIT_ASSERT_LE(test, tcplat_nr_groups, ARRAY_SIZE(armed));
	mutex_lock(&tcplat_control);
	tcplat_for_each_group(group, i) {
		armed[i] = group->armed;
		tcplat_group_disable(group);
	}
	mutex_unlock(&tcplat_control);

	for (k = 0; k < 2; k++) {
		const char *text = k ? "1\n" : "1";

		tcplat_for_each_group(group, i) {
			tcplat_add(group, 0, 17);
			group->probes[0].missed_before += 3;
			KUNIT_EXPECT_GE(test, sysfs_missed_of(group, page), 3);
		}
		KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, text, strlen(text)),
				strlen(text));
		tcplat_for_each_group(group, i) {
			KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(group, 0), 0, "%s", group->name);
			KUNIT_EXPECT_EQ_MSG(test, sysfs_missed_of(group, page), 0, "%s",
					    group->name);
		}
	}

	tcplat_for_each_group(group, i)
		tcplat_add(group, 0, 17);
	for (k = 0; k < ARRAY_SIZE(sysfs_invalid); k++)
		KUNIT_EXPECT_EQ_MSG(test, reset_store(NULL, &reset_attr, sysfs_invalid[k],
						      strlen(sysfs_invalid[k])), -EINVAL,
				    "'%s'", sysfs_invalid[k]);
	/* Writing 0 has no meaning. */
	KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, "0", 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, "0\n", 2), -EINVAL);
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
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "enabled").attr->attr.mode, 0644);
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "status").attr->attr.mode, 0444);
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "missed").attr->attr.mode, 0444);
	KUNIT_EXPECT_NULL(test, sysfs_attr(NULL, "status").attr->store);
	KUNIT_EXPECT_NULL(test, sysfs_attr(NULL, "missed").attr->store);
	KUNIT_EXPECT_NULL(test, reset_attr.show);
	KUNIT_EXPECT_EQ(test, reset_attr.attr.mode, 0200);
}

static void parse_refuses(struct kunit *test, const char *buf, size_t count)
{
	bool value = true;

	KUNIT_ASSERT_EQ_MSG(test, parse_bool(buf, count, &value), -EINVAL,
			    "%zu bytes of '%s'", count, buf);
	KUNIT_ASSERT_TRUE(test, value);
	value = false;
	KUNIT_ASSERT_EQ(test, parse_bool(buf, count, &value), -EINVAL);
	KUNIT_ASSERT_FALSE(test, value);
}

/* All texts of up to two bytes. */
static void parse_refuses_all_other_short_texts(struct kunit *test)
{
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
}

static struct kunit_case sysfs_cases[] = {
	KUNIT_CASE(sysfs_enabled_and_status),
	KUNIT_CASE(sysfs_enabled_switches_once),
	KUNIT_CASE(sysfs_status_of_a_dead_probe),
	KUNIT_CASE(sysfs_enabled_refuses),
	KUNIT_CASE(sysfs_unavailable),
	KUNIT_CASE(sysfs_folder_of_an_unavailable_group),
	KUNIT_CASE(sysfs_missed),
	KUNIT_CASE(sysfs_reset),
	KUNIT_CASE(sysfs_modes),
	KUNIT_CASE_SLOW(parse_refuses_all_other_short_texts),
	{}
};

TCPLAT_SUITE(sysfs);

/* ---- printing ---- */

static const u64 format_le[] = { 5, 1000, U64_MAX - 1 };

static ssize_t format(struct tcplat_group *group, const struct tcplat_file *file, char *page)
{
	return tcplat_file_show(&group->kobj, (struct kobj_attribute *)&file->attr, page);
}

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
	char *page = kunit_page(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		kunit_count(group, 2, 0, rows[i].value);
		KUNIT_EXPECT_SHOWS(test, format(group, &sum, page), page, rows[i].text);
	}

	KUNIT_EXPECT_SHOWS(test, format(group, &max, page), page, "0\n");
	group->epoch = 77;
	kunit_note_max(group, 3, 12345);
	KUNIT_EXPECT_SHOWS(test, format(group, &max, page), page, "12345\n");
	kunit_note_max(group, 3, U64_MAX);
	KUNIT_EXPECT_SHOWS(test, format(group, &max, page), page, "281474976710655\n");
	tcplat_counters_reset(group);
	KUNIT_EXPECT_SHOWS(test, format(group, &max, page), page, "0\n");
}

/* The sum over all CPUs is converted, not the value of each CPU. */
static void format_jiffies_in_us(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 5);
	const struct tcplat_file us = TCPLAT_JIFFIES_US("us", 4);
	char *page = kunit_page(test);
	int cpu;

	KUNIT_EXPECT_SHOWS(test, format(group, &us, page), page, "0\n");
	kunit_count(group, 4, 0, 7 * HZ);
	KUNIT_EXPECT_SHOWS(test, format(group, &us, page), page, "7000000\n");
	if (num_possible_cpus() < 2)
		return;
	cpu = cpumask_next(0, cpu_possible_mask);
	kunit_count(group, 4, 0, HZ - 1);
	kunit_count(group, 4, cpu, 1);
	KUNIT_EXPECT_SHOWS(test, format(group, &us, page), page, "1000000\n");
}

static void format_histograms(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 6);
	const struct tcplat_file files[] = { TCPLAT_HIST("hist", "_us", format_le, 1) };
	char *page = kunit_page(test);
	int i;

	KUNIT_EXPECT_STREQ(test, files[0].attr.attr.name, "hist");
	KUNIT_EXPECT_STREQ(test, files[1].attr.attr.name, "hist_le_us");
	KUNIT_EXPECT_SHOWS(test, format(group, &files[0], page), page, "0 0 0 0\n");
	/* Counters next to the histogram do not belong to it. */
	for (i = 0; i < 6; i++)
		kunit_count(group, i, 0, 100 + i);
	KUNIT_EXPECT_SHOWS(test, format(group, &files[0], page), page, "101 102 103 104\n");
	for (i = 0; i < 6; i++)
		kunit_count(group, i, 0, U64_MAX);
	KUNIT_EXPECT_SHOWS(test, format(group, &files[0], page), page,
			   "18446744073709551615 18446744073709551615 18446744073709551615 18446744073709551615\n");
	KUNIT_EXPECT_SHOWS(test, format(group, &files[1], page), page,
			   "5 1000 18446744073709551614 +Inf\n");
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

static struct kunit_case format_cases[] = {
	KUNIT_CASE(format_counters),
	KUNIT_CASE(format_jiffies_in_us),
	KUNIT_CASE(format_histograms),
	KUNIT_CASE(format_longest_lines_fit_a_page),
	{}
};

TCPLAT_SUITE(format);
