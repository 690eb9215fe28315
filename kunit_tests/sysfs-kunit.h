/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of reading and writing each file in /sys/kernel/tcplat.
 */
#include <linux/ctype.h>

#include "tcplat-kunit.h"

static const char * const sysfs_invalid[] = {
	"", "\n", " ", "2", "2\n", "-1", "+1", "01", "1 ", " 1", "1\n\n", "0\n\n", "1 1", "0x1",
	"y", "n", "on", "off", "true", "text\n", "4294967297", "18446744073709551617",
};

static struct group_attr sysfs_attr(struct tcplat_group *group, const char *name)
{
	struct group_attr ga = { .group = group };
	int i;

	for (i = 0; i < ARRAY_SIZE(common_attrs); i++)
		if (!strcmp(common_attrs[i].attr.name, name))
			ga.attr = common_attrs[i];
	return ga;
}

static ssize_t sysfs_write(struct group_attr *ga, const char *text)
{
	return ga->attr.store(NULL, &ga->attr, text, strlen(text));
}

static ssize_t sysfs_read(struct group_attr *ga, char *page)
{
	return ga->attr.show(NULL, &ga->attr, page);
}

/* A group without probes: nothing can fail. */
static void sysfs_enabled_and_status(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct group_attr enabled = sysfs_attr(group, "enabled");
	struct group_attr status = sysfs_attr(group, "status");
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
	struct group_attr enabled = sysfs_attr(group, "enabled");
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
	struct tcplat_probe *probe = kunit_kzalloc(test, sizeof(*probe), GFP_KERNEL);
	struct tcplat_group *group = kunit_group(test, 1);
	struct group_attr enabled = sysfs_attr(group, "enabled");
	struct group_attr status = sysfs_attr(group, "status");
	char *page = kunit_page(test);

	KUNIT_ASSERT_NOT_NULL(test, probe);
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
	struct group_attr enabled = sysfs_attr(group, "enabled");
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
	struct group_attr enabled = sysfs_attr(group, "enabled");
	struct group_attr status = sysfs_attr(group, "status");
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
	struct group_dir dir = {};
	int lost, i, n;

	group->files = files;
	group->nr_files = ARRAY_SIZE(files);
	for (lost = 0; lost < 2; lost++) {
		group->missing_symbol = lost ? "tcp_none_such" : NULL;
		n = lost ? 2 : ARRAY_SIZE(names);
		KUNIT_ASSERT_EQ(test, dir_build(&dir, group), 0);
		for (i = 0; i < n; i++)
			KUNIT_EXPECT_STREQ(test, dir.list[i]->name, names[i]);
		KUNIT_EXPECT_NULL(test, dir.list[n]);
		kfree(dir.list);
		kfree(dir.attrs);
	}
}

static void sysfs_missed(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	struct group_attr missed = sysfs_attr(group, "missed");
	struct tcplat_probe *probes = kunit_kcalloc(test, 2, sizeof(*probes), GFP_KERNEL);
	char *page = kunit_page(test);

	KUNIT_ASSERT_NOT_NULL(test, probes);
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

/* Resets one counter of each group, which is not updated meanwhile: its probes are off. */
static void sysfs_reset(struct kunit *test)
{
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
			KUNIT_EXPECT_GE(test, tcplat_missed(group), 3);
		}
		KUNIT_EXPECT_EQ(test, reset_store(NULL, &reset_attr, text, strlen(text)),
				strlen(text));
		tcplat_for_each_group(group, i) {
			KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(group, 0), 0, "%s", group->name);
			KUNIT_EXPECT_EQ_MSG(test, tcplat_missed(group), 0, "%s", group->name);
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

static void sysfs_root_files(struct kunit *test)
{
	char *page = kunit_page(test);

	KUNIT_EXPECT_SHOWS(test, abi_show(NULL, &abi_attr, page), page, "1\n");
	KUNIT_EXPECT_SHOWS(test, version_show(NULL, &version_attr, page), page,
			   TCPLAT_VERSION "\n");
	KUNIT_EXPECT_NULL(test, reset_attr.show);
	KUNIT_EXPECT_EQ(test, reset_attr.attr.mode, 0200);
	KUNIT_EXPECT_EQ(test, abi_attr.attr.mode, 0444);
	KUNIT_EXPECT_EQ(test, version_attr.attr.mode, 0444);
}

static bool sysfs_is_number(const char *word)
{
	if (*word == '0')
		return !word[1];
	while (isdigit(*word))
		word++;
	return !*word;
}

/* Each file of each group is one line of numbers; the last word of _le files is +Inf. */
static void sysfs_every_file_of_every_group(struct kunit *test)
{
	char *page = kunit_page(test);
	struct tcplat_group *group;
	unsigned int i, j, words;
	char *line, *word;
	ssize_t len;
	bool le;

	tcplat_for_each_group(group, i) {
		KUNIT_EXPECT_GT(test, group->nr_files, 0);
		for (j = 0; j < group->nr_files; j++) {
			const struct tcplat_file *file = &group->files[j];
			struct group_attr ga = { .group = group, .file = file };

			memset(page, 0xff, PAGE_SIZE);
			len = file_show(NULL, &ga.attr, page);
			KUNIT_ASSERT_GT(test, len, 1);
			KUNIT_ASSERT_LT(test, len, PAGE_SIZE);
			KUNIT_EXPECT_EQ(test, strnlen(page, PAGE_SIZE), len);
			KUNIT_ASSERT_EQ(test, page[len - 1], '\n');
			page[len - 1] = '\0';
			KUNIT_EXPECT_NULL(test, strchr(page, '\n'));

			le = strstr(file->name, "_le");
			line = page;
			for (words = 0; (word = strsep(&line, " ")); words++) {
				if (le && !line)
					KUNIT_EXPECT_STREQ(test, word, "+Inf");
				else
					KUNIT_EXPECT_TRUE_MSG(test, sysfs_is_number(word),
							      "%s/%s: '%s'", group->name,
							      file->name, word);
			}
			KUNIT_EXPECT_EQ_MSG(test, words, file->hist ? file->hist->buckets : 1,
					    "%s/%s", group->name, file->name);
		}
	}
}

static void sysfs_modes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ARRAY_SIZE(common_attrs), 3);
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "enabled").attr.attr.mode, 0644);
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "status").attr.attr.mode, 0444);
	KUNIT_EXPECT_EQ(test, sysfs_attr(NULL, "missed").attr.attr.mode, 0444);
	KUNIT_EXPECT_NULL(test, sysfs_attr(NULL, "status").attr.store);
	KUNIT_EXPECT_NULL(test, sysfs_attr(NULL, "missed").attr.store);
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
	KUNIT_CASE(sysfs_root_files),
	KUNIT_CASE(sysfs_every_file_of_every_group),
	KUNIT_CASE(sysfs_modes),
	{}
};

static struct kunit_suite sysfs_suite = {
	.name = "tcplat_sysfs",
	.test_cases = sysfs_cases,
};

kunit_test_suite(sysfs_suite);
