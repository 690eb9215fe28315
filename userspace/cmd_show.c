// SPDX-License-Identifier: GPL-2.0
/* tcplat show: the clock and every group, as tables. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "hist.h"
#include "matrix.h"
#include "report.h"
#include "tcplat.h"
#include "tree.h"
#include "words.h"

static bool ends_in(const char *s, const char *end)
{
	size_t len = strlen(s);

	return len >= strlen(end) && !strcmp(s + len - strlen(end), end);
}

/* Module and ABI, in one line. */
static void show_version(struct tree *tree)
{
	char *path = xasprintf("%s/version", tree->path);
	char *text = NULL;
	int err;

	err = read_text(tree->fd, "version", &text);
	if (err) {
		text = NULL;
		report_read(path, err);
	}
	for (char *p = text; p && *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	/* tree_open() let no other ABI through. */
	printf("tcplat %.40s, ABI 1\n", text ? text : "?");
	free(text);
	free(path);
}

static char *value_cell(bool good, uint64_t value)
{
	return good ? xasprintf("%" PRIu64, value) : xasprintf("?");
}

/* A row for each constant in jiffies, its microseconds as ms beside it. */
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
		char *name;
		char *ms = NULL;
		bool good;

		if (!strcmp(file->name, "hz") ||
		    !strcmp(file->name, "tick_ns") ||
		    ends_in(file->name, "_us"))
			continue;
		name = xasprintf("%s_us", file->name);
		us = group_file(clock, name);
		free(name);

		good = group_value(clock, file, &value);
		if (us) {
			uint64_t value_us;

			ms = group_value(clock, us, &value_us) ?
			     draw_ms(value_us) : xasprintf("?");
		}
		table_row(&table, xasprintf("%s", file->name),
			  value_cell(good, value), ms);
	}
	table_print(&table);
}

/* @tick_ns is for the groups; 0 when it is not known. */
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
	if (!group_number(&clock, "tick_ns", tick_ns))
		*tick_ns = 0;
	if (!print)
		goto out;

	for (size_t i = 0; words_clock[i]; i++)
		if (!group_file(&clock, words_clock[i]))
			report(STATUS_FAULT, "%s/%s: is missing", clock.path,
			       words_clock[i]);

	good = group_number(&clock, "hz", &hz);
	hz_text = value_cell(good, hz);
	tick = *tick_ns ? draw_tick(*tick_ns) : xasprintf("?");
	printf("clock: HZ %s, a jiffy (timer tick) is %s ms\n", hz_text, tick);
	free(hz_text);
	free(tick);
	show_constants(&clock);
out:
	group_close(&clock);
}

/* What @value of the file @name is for people; NULL where it says it all. */
static char *human(struct group *group, const char *name, uint64_t value,
		   uint64_t tick_ns)
{
	static const char jiffies[] = "_jiffies";
	struct file *us;
	char *sibling;

	if (ends_in(name, "_us"))
		return draw_time((long double)value * 1000);
	if (ends_in(name, "_ns"))
		return draw_time(value);
	if (!ends_in(name, jiffies) || !tick_ns)
		return NULL;

	/* The module's own conversion, where there is one, is the better. */
	sibling = xasprintf("%.*s_us", (int)(strlen(name) - strlen(jiffies)),
			    name);
	us = group_file(group, sibling);
	free(sibling);
	return us ? NULL : draw_time((long double)value * tick_ns);
}

static void show_counters(struct group *group, uint64_t tick_ns)
{
	struct table table = {
		.nr_columns = 4,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT, ALIGN_LEFT },
	};

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];
		const char *words = words_file(group->name, file->name);
		uint64_t value = 0;
		bool good;

		if (!strcmp(file->name, "status") ||
		    !strcmp(file->name, "enabled") ||
		    hist_is(file->name) || hist_is_bounds(file->name))
			continue;
		good = group_value(group, file, &value);
		table_row(&table, xasprintf("%s", file->name),
			  value_cell(good, value),
			  good ? human(group, file->name, value, tick_ns) : NULL,
			  words ? xasprintf("%s", words) : NULL);
	}
	table_print(&table);
	if (!group_file(group, "missed"))
		report(STATUS_FAULT, "%s/missed: is missing", group->path);
}

static void show_figure(struct group *group, const struct figure *figure)
{
	uint64_t part, whole, less = 0;
	char *value;

	if (!group_number(group, figure->part, &part) ||
	    !group_number(group, figure->whole, &whole))
		return;
	if (figure->less && !group_number(group, figure->less, &less))
		return;
	/* Counters that run on while we read may not fit together. */
	if (whole <= less ||
	    (figure->kind == FIGURE_SHARE && part > whole - less))
		return;
	whole -= less;

	switch (figure->kind) {
	case FIGURE_MEAN_US:
		value = draw_time((long double)part * 1000 / whole);
		break;
	case FIGURE_MEAN_NS:
		value = draw_time((long double)part / whole);
		break;
	case FIGURE_SHARE:
		value = draw_percent(part, whole);
		break;
	default:
		value = draw_number((long double)part / whole);
	}
	if (figure->less)
		printf("  %s: %s (%s / (%s - %s))\n", figure->label, value,
		       figure->part, figure->whole, figure->less);
	else
		printf("  %s: %s (%s / %s)\n", figure->label, value,
		       figure->part, figure->whole);
	free(value);
}

/* A line a histogram: where most of it lies. */
static void show_histogram(struct group *group, struct file *file)
{
	struct hist hist;
	char *total, *bucket;

	if (!hist_read(group, file, &hist)) {
		printf("  %s: ?\n", file->name);
		return;
	}
	if (!hist.total) {
		printf("  %s: empty\n", file->name);
	} else {
		total = draw_u128(hist.total);
		bucket = hist_bucket(&hist, hist.max_at);
		printf("  %s: %" PRIu64 " of %s %s ('tcplat hist %s' draws it)\n",
		       file->name, hist.max, total, bucket, group->name);
		free(total);
		free(bucket);
	}
	hist_free(&hist);
}

static void show_group(struct tree *tree, struct group *group,
		       uint64_t tick_ns)
{
	const char *words = words_group(group->name);

	group_load(group);
	printf("%s%s%s [%s]\n", group->name, words ? ": " : "",
	       words ? words : "", group->status ? group->status : "?");
	if (group->state == STATE_UNAVAILABLE) {
		puts("  this kernel lacks what the group needs: nothing is counted");
		return;
	}
	if (group->state == STATE_OFF)
		printf("  not counting now: what follows stands still\n"
		       "  to switch it on: echo 1 > %s/enabled\n", group->path);

	show_counters(group, tick_ns);
	for (size_t i = 0; i < words_nr_figures; i++)
		if (!strcmp(words_figures[i].group, group->name))
			show_figure(group, &words_figures[i]);
	for (size_t i = 0; i < group->nr_files; i++)
		if (hist_is(group->files[i].name))
			show_histogram(group, &group->files[i]);
	if (!strcmp(group->name, "ackmode"))
		matrix_show(tree);
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return !argc;
}

/* All names are checked before anything is printed. */
static bool check_names(struct tree *tree, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *names;

		if (!strcmp(argv[i], "clock") || tree_group(tree, argv[i]))
			continue;
		names = tree_group_names(tree);
		report(STATUS_USAGE, "there is no group '%s', but: clock %s",
		       argv[i], names);
		free(names);
		return false;
	}
	return true;
}

static void run(const char *root, int argc, char **argv)
{
	bool clock = wanted("clock", argc, argv);
	bool first = true;
	uint64_t tick_ns;
	struct tree tree;

	if (!tree_open(&tree, root))
		return;
	if (!tree_scan(&tree) || !check_names(&tree, argc, argv))
		goto out;

	if (!argc) {
		show_version(&tree);
		putchar('\n');
	}
	show_clock(&tree, clock, &tick_ns);
	first = !clock;
	for (size_t i = 0; i < tree.nr_groups; i++) {
		if (!wanted(tree.groups[i].name, argc, argv))
			continue;
		if (!first)
			putchar('\n');
		first = false;
		show_group(&tree, &tree.groups[i], tick_ns);
	}
out:
	tree_close(&tree);
}

const struct cmd cmd_show = {
	.name = "show",
	.args = "[GROUP...]",
	.brief = "Print the clock and the groups (also without a word)",
	.doc = "Prints only what is named: groups, such as delack, or clock.",
	.max_args = -1,
	.run = run,
};
