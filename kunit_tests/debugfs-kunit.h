/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the files in debugfs.
 */
#include "tcplat-kunit.h"

static const u64 debugfs_le[] = { 10, 200000 };

static const struct tcplat_hist debugfs_hist = {
	.name = "delays",
	.unit = "_us",
	.le = debugfs_le,
	.buckets = 3,
	.first = 1,
};

/* A line ends with its bar, after a space. */
#define NO_BAR	" "
#define BAR_50	"##################################################"

static void debugfs_histogram(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 4);
	struct seq_file *seq = kunit_seq(test);

	hist_show(seq, group, &debugfs_hist);
	KUNIT_EXPECT_STREQ(test, seq->buf,
			   "test/delays (le_us)\n"
			   "          10            0" NO_BAR "\n"
			   "      200000            0" NO_BAR "\n"
			   "        +Inf            0" NO_BAR "\n");

	memset(seq->buf, 0, seq->size);
	seq->count = 0;
	kunit_count(group, 1, 0, 1);
	kunit_count(group, 2, 0, 1000);
	kunit_count(group, 3, 0, 21);
	hist_show(seq, group, &debugfs_hist);
	/* Lengths are rounded up, so that each count that is not 0 has a bar. */
	KUNIT_EXPECT_STREQ(test, seq->buf,
			   "test/delays (le_us)\n"
			   "          10            1 #\n"
			   "      200000         1000 " BAR_50 "\n"
			   "        +Inf           21 ##\n");
}

static void debugfs_bars(struct kunit *test)
{
	static const struct {
		u64 count, most;
		unsigned int width;
	} rows[] = {
		{ 0, 0, 0 }, { 0, 1, 0 }, { 1, 1, 50 }, { 1, 50, 1 }, { 2, 50, 2 },
		{ 1, 1000000, 1 }, { 999999, 1000000, 50 }, { 500000, 1000000, 25 },
		{ 500001, 1000000, 26 }, { 1ULL << 50, 1ULL << 51, 25 },
	};
	struct seq_file *seq = kunit_seq(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		seq->count = 0;
		print_bar(seq, rows[i].count, rows[i].most);
		KUNIT_EXPECT_EQ_MSG(test, seq->count, rows[i].width, "%llu of %llu",
				    rows[i].count, rows[i].most);
	}
}

static void debugfs_percpu(struct kunit *test)
{
	struct seq_file *seq = kunit_seq(test);
	struct tcplat_group *group;
	unsigned int i, j, lines = 0, sums = 0, words, longest = 0;
	char *line, *rest;

	KUNIT_ASSERT_EQ(test, percpu_show(seq, NULL), 0);
	KUNIT_ASSERT_FALSE(test, seq_has_overflowed(seq));
	tcplat_for_each_group(group, i)
		for (j = 0; !group->missing_symbol && j < group->nr_files; j++)
			sums += group->files[j].show == tcplat_show_sum;
	rest = seq->buf;
	while ((line = strsep(&rest, "\n")) && *line) {
		lines++;
		if (*line == '#')
			continue;
		for (words = 1; (line = strchr(line, ' ')); line++)
			words++;
		KUNIT_EXPECT_EQ(test, words, 1 + num_possible_cpus());
		longest = max(longest, words);
	}
	KUNIT_EXPECT_EQ(test, lines, 2 + sums);
	KUNIT_EXPECT_GT(test, longest, 1);
}

/* One line per probe, with as many words as the heading. */
static void debugfs_probes(struct kunit *test)
{
	struct seq_file *seq = kunit_seq(test);
	struct tcplat_group *group;
	unsigned int i, lines = 0, probes = 0, heading = 0, words;
	char *line, *rest;

	KUNIT_ASSERT_EQ(test, probes_show(seq, NULL), 0);
	KUNIT_ASSERT_FALSE(test, seq_has_overflowed(seq));
	tcplat_for_each_group(group, i)
		probes += group->nr_probes;
	rest = seq->buf;
	while ((line = strsep(&rest, "\n")) && *line) {
		/* No field is empty. */
		KUNIT_EXPECT_NULL_MSG(test, strstr(line, "  "), "%s", line);
		/* A symbol of a module is followed by the module's name in brackets. */
		for (words = 1; (line = strchr(line, ' ')); line++)
			words += line[1] != '[';
		if (!lines++)
			heading = words - 1;
		else
			KUNIT_EXPECT_EQ(test, words, heading);
	}
	KUNIT_EXPECT_EQ(test, lines, 1 + probes);
}

static struct kunit_case debugfs_cases[] = {
	KUNIT_CASE(debugfs_histogram),
	KUNIT_CASE(debugfs_bars),
	KUNIT_CASE(debugfs_percpu),
	KUNIT_CASE(debugfs_probes),
	{}
};

static struct kunit_suite debugfs_suite = {
	.name = "tcplat_debugfs",
	.test_cases = debugfs_cases,
};

kunit_test_suite(debugfs_suite);
