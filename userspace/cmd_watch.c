// SPDX-License-Identifier: GPL-2.0
/* tcplat watch: show the rates of the counters, once per interval. */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "draw.h"
#include "report.h"
#include "screen.h"
#include "snap.h"
#include "text.h"

static double interval = 1;
static uint64_t rounds;		/* 0: no limit */
static bool zeros;

/* A counter or a gauge. */
struct row {
	long double rate;	/* per second, or the value of a gauge; NAN: unknown */
	long double value;	/* NAN: unknown */
	long double lost;	/* time gained since the start, in ns */
	uint64_t ns;		/* per unit; 0: not a time */
	char *name;		/* GROUP/FILE */
	size_t at;		/* position in the tree */
	bool gauge;
	bool moved;		/* in this interval */
	bool changed;		/* since the start */
};

struct rows {
	struct row *list;
	size_t nr;
	bool known;		/* any rate is known */
};

static void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->nr; i++)
		free(rows->list[i].name);
	free(rows->list);
	memset(rows, 0, sizeof(*rows));
}

static bool shown(struct group *group, const struct file *file)
{
	if (group->state == STATE_UNAVAILABLE ||
	    (file->kind != KIND_COUNTER && file->kind != KIND_GAUGE))
		return false;
	return zeros || file->unit != UNIT_JIFFIES || !group_same_in_us(group, file);
}

/* Compare with @before, NULL if there is nothing to compare with. */
static void fill_row(struct row *row, struct snap *now, struct group *group,
		     struct file *file, struct snap *before)
{
	struct group *other = before ? tree_group(&before->tree, group->name) : NULL;
	uint64_t value, old;

	row->gauge = file->kind == KIND_GAUGE;
	row->ns = unit_ns(file->unit, now->tick_ns);
	row->rate = NAN;
	row->value = NAN;
	if (!group_value(group, file, &value))
		return;
	row->value = value;
	if (row->gauge)
		row->rate = value;
	if (!other || !group_number(other, file->name, &old))
		return;
	if (!row->gauge && group->state == STATE_ARMED) {
		row->rate = (value - old) * 1e9L / (now->time_ns - before->time_ns);
		row->lost += (long double)(value - old) * row->ns;
	}
	row->moved = value != old;
	row->changed |= row->moved;
}

/* Fill in the changes between two snapshots, either of which may be NULL. */
static void rows_fill(struct rows *rows, struct snap *now, struct snap *before)
{
	struct rows last = *rows;

	memset(rows, 0, sizeof(*rows));
	if (now && before && snap_restarted(now, before))
		before = NULL;
	for (size_t i = 0; now && i < now->tree.nr_groups; i++) {
		struct group *group = &now->tree.groups[i];

		for (size_t j = 0; j < group->nr_files; j++) {
			struct row *row;

			if (!shown(group, &group->files[j]))
				continue;
			rows->list = xreallocarray(rows->list, rows->nr + 1, sizeof(*row));
			row = &rows->list[rows->nr];
			*row = (struct row){
				.name = xasprintf("%s/%s", group->name, group->files[j].name),
				.at = rows->nr++,
			};
			for (size_t k = 0; k < last.nr; k++) {
				if (strcmp(last.list[k].name, row->name))
					continue;
				row->changed = last.list[k].changed;
				row->lost = last.list[k].lost;
			}
			fill_row(row, now, group, &group->files[j], before);
			rows->known |= !row->gauge && !isnan(row->rate);
		}
	}
	rows_free(&last);
}

/* ---- lines for files and pipes ---- */

/* The local time with its UTC offset, in ISO 8601. To be freed. */
static char *wall_clock(void)
{
	char date[32], zone[8];
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	strftime(date, sizeof(date), "%FT%T", &tm);
	strftime(zone, sizeof(zone), "%z", &tm);
	return xasprintf("%s.%03ld%.3s:%s", date, ts.tv_nsec / 1000000, zone, zone + 3);
}

/* The column is as wide as the longest name. */
#define LINE	"%s  %-38s  %s\n"

static void print_lines(const struct rows *rows)
{
	char *clock = wall_clock();
	size_t lines = 0;

	for (size_t i = 0; i < rows->nr; i++) {
		const struct row *row = &rows->list[i];
		char *rate;

		if (!zeros && !row->moved)
			continue;
		rate = isnan(row->rate) ? xasprintf("-") : draw_number(row->rate);
		printf(LINE, clock, row->name, rate);
		free(rate);
		lines++;
	}
	if (!lines)
		printf(LINE, clock, "all", rows->known ? "0" : "-");
	free(clock);
}

/* ---- the table on a screen ---- */

/* Most time first, then other changed rows, then the rest, each in the order of the tree. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->lost != y->lost)
		return x->lost < y->lost ? 1 : -1;
	if (x->changed != y->changed)
		return x->changed ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* Format @value, as a time if a unit is @ns long. To be freed. */
static char *format_value(long double value, uint64_t ns, const char *unknown)
{
	if (isnan(value))
		return xstrdup(unknown);
	return ns && value ? draw_time(value * ns) : draw_number(value);
}

/* @over_ns is the length of the interval; 0: none yet. */
static void print_table(struct rows *rows, uint64_t over_ns, bool loaded)
{
	struct table table = {
		.nr_columns = 3,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT },
		.out = screen_page(),
	};
	char *clock = wall_clock();
	size_t lines = 0;

	fprintf(table.out, "tcplat watch: %.8s, ", clock + strlen("2026-11-23T"));
	free(clock);
	if (!loaded)
		fputs("the module is not loaded", table.out);
	else if (!over_ns)
		fputs("waiting for the first interval", table.out);
	else if (!rows->known)
		fputs("rates unknown, the counters restarted", table.out);
	else
		fprintf(table.out, "per second over %.1f s", over_ns / 1e9);
	fputs("; q quits\n", table.out);

	if (rows->nr)
		qsort(rows->list, rows->nr, sizeof(*rows->list), compare_rows);
	table_row(&table, NULL, xasprintf("per second"), xasprintf("total"));
	for (size_t i = 0; i < rows->nr; i++) {
		const struct row *row = &rows->list[i];

		if (!zeros && !row->changed)
			continue;
		table_row(&table, xstrdup(row->name),
			  row->gauge ? NULL : format_value(row->rate, row->ns, "-"),
			  format_value(row->value, row->ns, "?"));
		lines++;
	}
	table_print(&table);
	if (!lines && loaded)
		fputs("  nothing has changed; -z shows all\n", table.out);
}

/* ---- the command ---- */

#define HINT		" (see 'tcplat watch --help')"

/* Remove SECONDS and COUNT, if given, from the end. Return whether they are valid. */
static bool take_numbers(int *argc, char **argv)
{
	int nr = *argc, n = 0;

	while (n < nr && !isdigit((unsigned char)argv[n][0]))
		n++;
	*argc = n;
	if (n < nr && !parse_seconds(argv[n], &interval))
		report(STATUS_USAGE, NO_SECONDS HINT, argv[n]);
	else if (n + 1 < nr && !parse_count(argv[n + 1], &rounds))
		report(STATUS_USAGE, NO_COUNT HINT, argv[n + 1]);
	else if (n + 2 < nr)
		report(STATUS_USAGE, "watch: unexpected argument '%s'" HINT, argv[n + 2]);
	else
		return true;
	return false;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct rows rows = { 0 };
	struct snap before, now;
	bool screen, had, has;

	if (!take_numbers(&argc, argv) || !snap_take(&before, place, argc, argv))
		return;
	had = true;
	rows_fill(&rows, &before, NULL);
	screen = screen_open();
	if (screen) {
		print_table(&rows, 0, true);
		screen_show();
	}
	for (uint64_t i = 0; !rounds || i < rounds; i++) {
		if (screen)
			screen_wait(interval);
		else
			snap_sleep(interval);
		if (stopped())
			break;
		/* Errors were reported at the first reading, and show as - here. */
		report_mute(true);
		has = snap_there(place) && snap_take(&now, place, argc, argv);
		report_mute(false);
		rows_fill(&rows, has ? &now : NULL, had ? &before : NULL);
		if (screen)
			print_table(&rows, had && has ? now.time_ns - before.time_ns : 0, has);
		else
			print_lines(&rows);
		if (had)
			snap_free(&before);
		had = has;
		if (has)
			before = now;
		if (!screen_show())
			break;
	}
	screen_close();
	if (had)
		snap_free(&before);
	else
		report(STATUS_FAULT, UNLOADED);
	rows_free(&rows);
}

static const struct argp_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "Time between readings (default: 1)", 0 },
	{ "count", 'n', "COUNT", 0, "Stop after COUNT intervals", 0 },
	{ "zeros", 'z', NULL, 0, "Also show what does not change", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'i', .seconds = &interval },
	{ 'n', .count = &rounds },
	{ 'z', .flag = &zeros },
	{ 0 },
};

const struct cmd cmd_watch = {
	.name = "watch",
	.args = "[GROUP...] [SECS [N]]",
	.brief = "Show what changes, per second",
	.doc = "Reads the counters every SECS seconds (default: 1), N times or until stopped. On a terminal it redraws a table, largest times first, until q. Elsewhere it prints a line for each counter that changed: the time, the name and the change per second. - means unknown: the group is off, or the counters restarted.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.run = run,
};
