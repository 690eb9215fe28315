// SPDX-License-Identifier: GPL-2.0
/* Print a group as a table, with figures derived from its counters. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "hist.h"
#include "report.h"
#include "show.h"
#include "tcplat.h"
#include "text.h"
#include "words.h"

/* @value as a table cell, ? if not @good. To be freed. */
char *show_cell(bool good, uint64_t value)
{
	return good ? xasprintf("%" PRIu64, value) : xasprintf("?");
}

/* @value of @file with a unit; NULL if it has none or another file has it. To be freed. */
static char *with_unit(struct group *group, const struct file *file,
		       uint64_t value, uint64_t tick_ns)
{
	/* Use the module's own conversion if there is one. */
	if (file->unit == UNIT_JIFFIES && group_same_in_us(group, file))
		return NULL;
	return draw_value(value, file->unit, tick_ns);
}

static void show_counters(struct group *group, uint64_t tick_ns, bool gains)
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

		if (file->kind == KIND_CONTROL || file->kind == KIND_HIST ||
		    file->kind == KIND_BOUNDS)
			continue;
		good = group_value(group, file, &value);
		if (gains && good && !value)
			continue;
		table_row(&table, xstrdup(file->name),
			  show_cell(good, value),
			  good ? with_unit(group, file, value, tick_ns) : NULL,
			  words ? xstrdup(words) : NULL);
	}
	table_print(&table);
	if (!group_file(group, "missed"))
		report(STATUS_FAULT, "%s/missed: missing", group->path);
}

static void show_figure(struct group *group, const struct figure *figure)
{
	uint64_t part, whole, less = 0, ns = unit_ns(words_unit(figure->part), 0);
	char *value;

	if (!group_number(group, figure->part, &part) ||
	    !group_number(group, figure->whole, &whole))
		return;
	if (figure->less && !group_number(group, figure->less, &less))
		return;
	/* Counters that change while they are read can be inconsistent. */
	if (whole <= less ||
	    (figure->share && part > whole - less))
		return;
	whole -= less;

	if (figure->share)
		value = draw_percent(part, whole);
	else if (ns)
		value = draw_time((long double)part * ns / whole);
	else
		value = draw_number((long double)part / whole);
	if (figure->less)
		printf("  %s: %s (%s / (%s - %s))\n", figure->label, value,
		       figure->part, figure->whole, figure->less);
	else
		printf("  %s: %s (%s / %s)\n", figure->label, value,
		       figure->part, figure->whole);
	free(value);
}

/* Print one line: the largest bucket. */
static void show_histogram(struct group *group, struct file *file, bool gains)
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
		printf("  %s: %" PRIu64 " of %s %s", file->name, hist.max, total,
		       bucket);
		if (!gains)
			printf(" ('tcplat hist %s' draws it)", group->name);
		putchar('\n');
		free(total);
		free(bucket);
	}
}

/* Print why @group is off. If it is enabled, all kprobes of the kernel are disarmed. */
static void show_off_reason(const struct group *group)
{
	char *enabled = NULL;

	if (!read_text(group->fd, "enabled", &enabled) && !strcmp(enabled, "1"))
		puts("  counts are incomplete: the kernel's kprobes are disarmed\n"
		     "  to re-arm them: echo 1 > /sys/kernel/debug/kprobes/enabled,\n"
		     "  or sysctl kernel.ftrace_enabled=1, whichever is 0");
	else
		printf("  not counting now: the values below do not change\n"
		       "  to enable it: echo 1 > %s/enabled\n", group->path);
	free(enabled);
}

/**
 * show_group - print a group that was loaded
 * @group: the group
 * @tick_ns: length of a jiffy; 0: unknown
 * @gains: the counters are differences; omit zeros
 */
void show_group(struct group *group, uint64_t tick_ns, bool gains)
{
	const char *words = words_group(group->name);

	printf("%s%s%s [%s]\n", group->name, words ? ": " : "",
	       words ? words : "", group->status ? group->status : "?");
	if (group->state == STATE_UNAVAILABLE) {
		puts("  this kernel lacks what the group needs: nothing is counted");
		return;
	}
	if (group->state == STATE_OFF && !gains)
		show_off_reason(group);

	show_counters(group, tick_ns, gains);
	for (size_t i = 0; i < words_nr_figures; i++)
		if (!strcmp(words_figures[i].group, group->name))
			show_figure(group, &words_figures[i]);
	for (size_t i = 0; i < group->nr_files; i++)
		if (group->files[i].kind == KIND_HIST)
			show_histogram(group, &group->files[i], gains);
}
