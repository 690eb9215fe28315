// SPDX-License-Identifier: GPL-2.0
/* tcplat hist: draw the histograms of a group. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "hist.h"
#include "report.h"
#include "tcplat.h"
#include "tree.h"
#include "words.h"

/* The length of a jiffy in ns; 0: unknown. */
static uint64_t tick_ns(struct tree *tree)
{
	struct group clock;
	uint64_t ns = 0;

	if (!tree_subdir(tree, "clock", &clock))
		return 0;
	group_number(&clock, "tick_ns", &ns);
	group_close(&clock);
	return ns;
}

/*
 * A histogram gives only an upper bound of a percentile: the bound of its bucket, or
 * the maximum if that lies in the same bucket.
 */
static void print_percentiles(struct tree *tree, struct group *group,
			      const struct file *file, const struct hist *hist)
{
	static const unsigned int percents[] = { 50, 90, 99 };
	struct file *max = hist_max(group, file);
	char *most = NULL;
	size_t top = hist->nr;
	uint64_t value;

	if (max && group_value(group, max, &value)) {
		uint64_t tick = max->unit == UNIT_JIFFIES ? tick_ns(tree) : 0;

		most = draw_value(value, max->unit, tick);
		if (!most)
			most = xasprintf("%" PRIu64 "%s", value,
					 max->unit == UNIT_JIFFIES ? " jiffies" : "");
		top = hist_bucket_of(hist, value, max->unit, tick);
	}
	for (size_t i = 0; i < ARRAY_SIZE(percents); i++) {
		size_t bucket = hist_percentile(hist, percents[i]);
		bool beyond = bucket == hist->nr - 1;
		char *bound = NULL;

		if (bucket == top)
			bound = xstrdup(most);
		else if (!beyond)
			bound = hist_bound(hist, bucket);
		else if (bucket)
			bound = hist_bound(hist, bucket - 1);
		printf("%sp%u %s %s", i ? ", " : "  ", percents[i],
		       !beyond || bucket == top ? draw_utf8() ? "≤" : "<=" : ">",
		       bound ? bound : "?");
		free(bound);
	}
	if (most)
		printf(", max %s", most);
	putchar('\n');
	free(most);
}

static void draw(struct tree *tree, struct group *group, struct file *file)
{
	const char *words = words_file(group->name, file->name);
	struct hist hist;
	char *total;

	if (!hist_read(group, file, &hist))
		return;
	total = draw_u128(hist.total);
	printf("%s/%s: %s%s%s counted%s\n", group->name, file->name,
	       words ? words : "", words ? "; " : "", total,
	       group->state == STATE_OFF ? " (off: not counting now)" :
					   "");
	if (hist.total) {
		hist_draw(&hist);
		print_percentiles(tree, group, file, &hist);
	} else {
		puts("  empty: nothing counted yet");
	}
	free(total);
}

/* Draw all of @group's histograms, or the one called @only. */
static void draw_group(struct tree *tree, struct group *group, const char *only)
{
	unsigned int found = 0;

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		if (file->kind != KIND_HIST || (only && strcmp(file->name, only)))
			continue;
		if (found++)
			putchar('\n');
		draw(tree, group, file);
	}
	if (!found && only)
		report(STATUS_USAGE, "group '%s' has no histogram '%s'",
		       group->name, only);
	else if (!found)
		report(STATUS_USAGE, "group '%s' has no histogram",
		       group->name);
}

static void run(const struct place *place, int argc, char **argv)
{
	struct group *group;
	struct tree tree;
	char *name;
	char *only;

	(void)argc;
	if (!tree_open(&tree, place->root))
		return;
	name = xstrdup(argv[0]);
	only = strchr(name, '/');
	if (only)
		*only++ = '\0';
	if (!tree_scan(&tree))
		goto out;

	group = tree_group(&tree, name);
	if (group)
		group_load(group);
	if (!group) {
		char *names = tree_group_names(&tree);

		report(STATUS_USAGE, "unknown group '%s'; available: %s", name,
		       names);
		free(names);
	} else if (group->state == STATE_UNAVAILABLE) {
		report(STATUS_FAULT, "this kernel does not support group '%s': %s",
		       name, group->status);
	} else {
		draw_group(&tree, group, only);
	}
out:
	free(name);
	tree_close(&tree);
}

const struct cmd cmd_hist = {
	.name = "hist",
	.args = "NAME",
	.brief = "Draw the histograms of a group",
	.doc = "NAME is a group, such as delack, or one of its histograms, such as portsearch/time_hist.",
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
