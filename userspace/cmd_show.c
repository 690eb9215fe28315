// SPDX-License-Identifier: GPL-2.0
/* tcplat show: print the clock and every group as tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "matrix.h"
#include "report.h"
#include "show.h"
#include "tcplat.h"
#include "text.h"
#include "tree.h"
#include "words.h"

/* Print the versions of the module and of its ABI. */
static void show_version(struct tree *tree)
{
	char *text = tree_version(tree);

	/* tree_open() accepts no other ABI. */
	printf("tcplat %.40s, ABI 1\n", text ? text : "?");
	free(text);
}

/* Print a row for each constant: jiffies, and ms from the file in microseconds. */
static void show_constants(struct group *clock)
{
	struct table table = {
		.nr_columns = 3,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT },
	};

	table_row(&table, NULL, xasprintf("jiffies"), xasprintf("ms"));
	for (size_t i = 0; i < clock->nr_files; i++) {
		struct file *file = &clock->files[i];
		struct file *us;
		uint64_t value = 0;
		char *ms = NULL;
		bool good;

		if (!strcmp(file->name, "hz") || file->unit != UNIT_NONE)
			continue;
		us = group_same_in_us(clock, file);

		good = group_value(clock, file, &value);
		if (us) {
			uint64_t value_us;

			ms = group_value(clock, us, &value_us) ?
			     draw_decimal(value_us, 3) : xasprintf("?");
		}
		table_row(&table, xstrdup(file->name),
			  show_cell(good, value), ms);
	}
	table_print(&table);
}

/* Print the clock if @print. @tick_ns is set to the length of a jiffy, 0: unknown. */
static void show_clock(struct tree *tree, bool print, uint64_t *tick_ns)
{
	struct group clock;
	uint64_t hz = 0;
	char *hz_text;
	char *tick;
	bool good;

	*tick_ns = 0;
	if (!tree_subdir(tree, "clock", &clock))
		return;
	group_number(&clock, "tick_ns", tick_ns);
	if (!print)
		goto out;

	for (size_t i = 0; words_clock[i]; i++)
		if (!group_file(&clock, words_clock[i]))
			report(STATUS_FAULT, "%s/%s: missing", clock.path,
			       words_clock[i]);

	good = group_number(&clock, "hz", &hz);
	hz_text = show_cell(good, hz);
	tick = *tick_ns ? draw_decimal(*tick_ns, 6) : xasprintf("?");
	printf("clock: HZ %s, a jiffy (timer tick) is %s ms\n", hz_text, tick);
	free(hz_text);
	free(tick);
	show_constants(&clock);
out:
	group_close(&clock);
}

static void run(const struct place *place, int argc, char **argv)
{
	bool clock = name_wanted("clock", argc, argv);
	bool first = true;
	uint64_t tick_ns;
	struct tree tree;

	if (!tree_open(&tree, place->root))
		return;
	if (!tree_scan(&tree) || !tree_check_names(&tree, true, argc, argv))
		goto out;

	if (!argc) {
		show_version(&tree);
		putchar('\n');
	}
	show_clock(&tree, clock, &tick_ns);
	first = !clock;
	for (size_t i = 0; i < tree.nr_groups; i++) {
		if (!name_wanted(tree.groups[i].name, argc, argv))
			continue;
		if (!first)
			putchar('\n');
		first = false;
		group_load(&tree.groups[i]);
		show_group(&tree.groups[i], tick_ns, false);
		if (!strcmp(tree.groups[i].name, "ackmode") &&
		    tree.groups[i].state != STATE_UNAVAILABLE)
			matrix_show(&tree);
	}
out:
	tree_close(&tree);
}

const struct cmd cmd_show = {
	.name = "show",
	.args = "[clock] [GROUP...]",
	.brief = "Print the clock and the groups (the default)",
	.doc = "With arguments, prints only what they name: groups, such as delack, or clock.",
	.max_args = -1,
	.run = run,
};
