/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the files in debugfs.
 */
#include "tcplat-kunit.h"

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

TCPLAT_SUITE(debugfs,
	     KUNIT_CASE(debugfs_probes));
