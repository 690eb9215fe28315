// SPDX-License-Identifier: GPL-2.0
/* tcplat hist: draw the histograms of a group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "hist.h"
#include "report.h"
#include "tcplat.h"
#include "tree.h"
#include "words.h"

static void draw(struct group *group, struct file *file)
{
	const char *words = words_file(group->name, file->name);
	struct hist hist;
	char *total;

	if (!hist_read(group, file, &hist))
		return;
	total = draw_u128(hist.total);
	printf("%s/%s: %s%s%s counted%s\n", group->name, file->name,
	       words ? words : "", words ? "; " : "", total,
	       group->state == STATE_OFF ? " (switched off: not counting now)" :
					   "");
	if (hist.total)
		hist_draw(&hist);
	else
		puts("  empty: nothing counted yet");
	free(total);
	hist_free(&hist);
}

/* Draw all of @group's histograms, or the one called @only. */
static void draw_group(struct group *group, const char *only)
{
	unsigned int found = 0;

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		if (!hist_is(file->name) || (only && strcmp(file->name, only)))
			continue;
		if (found++)
			putchar('\n');
		draw(group, file);
	}
	if (!found && only)
		report(STATUS_USAGE, "group '%s' has no histogram '%s'",
		       group->name, only);
	else if (!found)
		report(STATUS_USAGE, "group '%s' has no histogram",
		       group->name);
}

static void run(const char *root, int argc, char **argv)
{
	struct group *group;
	struct tree tree;
	char *name;
	char *only;

	(void)argc;
	if (!tree_open(&tree, root))
		return;
	name = xasprintf("%s", argv[0]);
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

		report(STATUS_USAGE, "there is no group '%s', but: %s", name,
		       names);
		free(names);
	} else if (group->state == STATE_UNAVAILABLE) {
		report(STATUS_FAULT, "this kernel cannot offer group '%s': %s",
		       name, group->status);
	} else {
		draw_group(group, only);
	}
out:
	free(name);
	tree_close(&tree);
}

const struct cmd cmd_hist = {
	.name = "hist",
	.args = "NAME",
	.brief = "Draw the histograms of a group",
	.doc = "NAME is a group, such as delack, or one histogram of it, such as portsearch/time_hist.",
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
