// SPDX-License-Identifier: GPL-2.0
/* A snapshot as text: tables of counters, means, and histograms. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "snap.h"

/* With more buckets than this, omit the empty ones at both ends. */
#define BUCKETS_ALL	16
#define BAR_MIN		10

/* A mean or a share: part / (whole - less), in the unit of part. */
static const struct figure {
	const char *group;
	const char *part, *whole;
	const char *less;	/* NULL: nothing to subtract */
	bool share;		/* in percent */
	const char *label;
} figures[] = {
#define TABLE_FIGURES
#include "tables.inc"
};

/* Whether another row has the same value in microseconds. */
bool print_twice(const struct snap *snap, const struct row *row)
{
	char *name __free = xasprintf("%.*s_us", (int)words_stem(row->name), row->name);

	return row->unit == UNIT_JIFFIES && snap_row(snap, row->group->name, name);
}

static bool is_zero(const struct snap *snap, const struct row *row)
{
	const uint64_t *values = row_values(snap, row);

	for (size_t i = 0; values && i < row->nr; i++)
		if (values[i])
			return false;
	/* What could not be read is shown. */
	return values || (snap->seconds && row->kind == KIND_MAX);
}

static void add_row(struct table *table, const struct snap *snap, const struct row *row)
{
	char *rate __free = draw_number(row->rate);
	const uint64_t *value = row_values(snap, row);
	const char *words = words_file(row->group->name, row->name);

	table_cell(table, xstrdup(row->name));
	if (!value)
		table_cell(table, xstrdup("?"));
	else if (row->kind == KIND_SIGNED)
		table_cell(table, xasprintf("%" PRId64, (int64_t)*value));
	else
		table_cell(table, xasprintf("%" PRIu64, *value));
	table_cell(table, value && row->gains ? xasprintf("%s/s", rate) : NULL);
	/* The module's own conversion has more digits than a jiffy has. */
	table_cell(table, value && row->ns && !print_twice(snap, row) ?
		   draw_time((long double)*value * row->ns) : NULL);
	table_cell(table, words ? xstrdup(words) : NULL);
}

static void print_figure(FILE *out, const struct snap *snap, const struct figure *figure)
{
	const struct row *row = snap_row(snap, figure->group, figure->part);
	const uint64_t *of_part = snap_value(snap, figure->group, figure->part);
	const uint64_t *of_whole = snap_value(snap, figure->group, figure->whole), zero = 0;
	const uint64_t *of_less = figure->less ?
				  snap_value(snap, figure->group, figure->less) : &zero;
	char *value __free = NULL;
	uint64_t part, whole;

	/* Counters that change while they are read can be inconsistent. */
	if (!of_part || !of_whole || !of_less || *of_whole <= *of_less ||
	    (figure->share && *of_part > *of_whole - *of_less))
		return;
	part = *of_part;
	whole = *of_whole - *of_less;
	if (figure->share)
		value = draw_percent(part, whole);
	else if (row->ns)
		value = draw_time((long double)part * row->ns / whole);
	else
		value = draw_number((long double)part / whole);
	fprintf(out, "  %s: %s (%s / %s%s%s%s%s)\n", figure->label, value, figure->part,
		figure->less ? "(" : "", figure->whole, figure->less ? " - " : "",
		figure->less ? figure->less : "", figure->less ? ")" : "");
}

/* The upper bound of bucket @i, with its unit. To be freed. */
static char *bound(const struct row *hist, size_t i)
{
	if (i == hist->nr - 1)
		return xstrdup("more");
	if (hist->ns)
		return draw_time((long double)hist->bounds[i] * hist->ns);
	return xasprintf("%" PRIu64, hist->bounds[i]);
}

/* Whether @row is about the values of @hist: delay, delay_max or delay_time for delay_hist. */
bool row_belongs(const struct row *row, const struct row *hist)
{
	size_t len = strlen(hist->name) - strlen("_hist"), stem = words_stem(row->name);

	if (row->kind == KIND_MAX)
		stem -= strlen("_max");
	return row->good && row->group == hist->group && !row->unit == !hist->unit &&
	       !strncmp(row->name, hist->name, len) &&
	       (stem == len || (stem == len + 5 && !strncmp(row->name + len, "_time", 5)));
}

/*
 * Print one line. A histogram gives only an upper bound of a percentile: that of its bucket, or the
 * maximum if it is smaller.
 */
static void print_percentiles(FILE *out, const struct snap *snap, const struct row *hist,
			      const uint64_t *counts, u128 total)
{
	static const unsigned int percents[] = { 50, 90, 99 };
	u128 unit = hist->ns ? hist->ns : 1, most = 0;

	for (size_t i = 0; i < snap->nr_rows && !snap->seconds; i++)
		if (snap->rows[i].kind == KIND_MAX && row_belongs(&snap->rows[i], hist))
			most = (u128)*snap->rows[i].values * (hist->ns ? snap->rows[i].ns : 1);
	fprintf(out, "  %s:", hist->name);
	for (size_t i = 0; i <= ARRAY_SIZE(percents); i++) {
		char *text __free = NULL;
		bool max = i == ARRAY_SIZE(percents), beyond;
		u128 need = total * percents[max ? 0 : i], below = counts[0], limit;
		size_t at = 0;

		while (at < hist->nr - 1 && below * 100 < need)
			below += counts[++at];
		beyond = at == hist->nr - 1;
		limit = beyond ? most : hist->bounds[at] * unit;
		if (max || (most && most < limit))
			limit = most;
		if (!limit && (max || !at))
			continue;
		text = !limit ? bound(hist, at - 1) :
		       hist->ns ? draw_time(limit) : draw_decimal(limit, 0);
		if (max)
			fprintf(out, ", max %s", text);
		else
			fprintf(out, "%s p%u %s %s", i ? "," : "", percents[i],
				!limit ? ">" : utf8_locale() ? "≤" : "<=", text);
	}
	fputc('\n', out);
}

static void draw_hist(FILE *out, const struct row *hist, const uint64_t *counts, u128 total)
{
	struct table table = { .columns = 4, .out = out };
	unsigned int used = 4 * 2 + strlen("percent");
	unsigned int label = strlen("up to"), number = strlen("count");
	unsigned int width = draw_width();
	size_t first = 0, last = hist->nr - 1;
	uint64_t most = 0;

	while (hist->nr > BUCKETS_ALL && !counts[first])
		first++;
	while (hist->nr > BUCKETS_ALL && !counts[last])
		last--;
	for (size_t i = first; i <= last; i++) {
		char *text __free = bound(hist, i);

		label = draw_columns(text) > label ? draw_columns(text) : label;
		most = counts[i] > most ? counts[i] : most;
	}
	if ((unsigned int)snprintf(NULL, 0, "%" PRIu64, most) > number)
		number = snprintf(NULL, 0, "%" PRIu64, most);
	used += label + number;
	width = width > used + BAR_MIN ? width - used : BAR_MIN;
	table_cell(&table, xstrdup("up to"));
	table_cell(&table, xstrdup("count"));
	table_cell(&table, xstrdup("percent"));
	table_cell(&table, NULL);
	for (size_t i = first; i <= last; i++) {
		table_cell(&table, bound(hist, i));
		table_cell(&table, xasprintf("%" PRIu64, counts[i]));
		table_cell(&table, draw_percent(counts[i], total));
		table_cell(&table, draw_bar(counts[i], most, width));
	}
	table_print(&table);
}

static void print_hist(FILE *out, const struct snap *snap, const struct row *hist,
		       const struct printing *how)
{
	const uint64_t *counts = row_values(snap, hist);
	u128 total = counts ? row_sum(snap, hist) : 0;

	if (!counts) {
		fprintf(out, "  %s: ?\n", hist->name);
	} else if (!total) {
		if (how->zeros || how->bars)
			fprintf(out, "  %s: empty\n", hist->name);
	} else {
		print_percentiles(out, snap, hist, counts, total);
		if (how->bars)
			draw_hist(out, hist, counts, total);
	}
}

/* Whether @group counted anything, or what it counted is not known. */
static bool has_counted(const struct snap *snap, const struct group *group)
{
	for (size_t i = 0; i < snap->nr_rows; i++) {
		const struct row *row = &snap->rows[i];

		if (row->group == group && row_grows(row) && !is_zero(snap, row))
			return true;
	}
	return false;
}

/* Print why @group is off. If it is enabled, all kprobes of the kernel are disarmed. */
static void print_off_reason(FILE *out, const struct place *place, const struct group *group)
{
	char *path __free = xasprintf("%s/kernel/tcplat/%s/enabled", place->root, group->name);
	char *safe __free = shown(xstrdup(path)), *enabled __free = NULL;

	if (!read_text(AT_FDCWD, path, &enabled) && !strcmp(enabled, "1"))
		fputs("  counts are incomplete: the kernel's kprobes are disarmed\n"
		      "  to re-arm them: echo 1 > /sys/kernel/debug/kprobes/enabled,\n"
		      "  or sysctl kernel.ftrace_enabled=1, whichever is 0\n", out);
	else
		fprintf(out, "  not counting now: the values below do not change\n"
		       "  to enable it: echo 1 > %s\n", safe);
}

static void print_group(FILE *out, const struct place *place, const struct snap *snap,
			const struct group *group, const struct printing *how)
{
	struct table table = { .columns = 5, .right = "lrrll", .out = out };
	const char *words = words_group(group->name);

	fprintf(out, "%s%s%s", group->name, words ? ": " : "", words ? words : "");
	if (group->state != STATE_NONE)
		fprintf(out, " [%s]", group->status ? group->status : "?");
	fputc('\n', out);
	if (group->state == STATE_UNAVAILABLE) {
		fputs("  this kernel lacks what the group needs: nothing is counted\n", out);
		return;
	}
	if (group->state == STATE_OFF && !snap->seconds && place)
		print_off_reason(out, place, group);
	for (size_t i = 0; i < snap->nr_rows; i++) {
		const struct row *row = &snap->rows[i];

		if (row->group == group && row->kind != KIND_HIST &&
		    !(snap->seconds && row->kind == KIND_MAX) &&
		    (how->zeros || (!is_zero(snap, row) && !print_twice(snap, row))))
			add_row(&table, snap, row);
	}
	if (!table.nr && !has_counted(snap, group))
		fputs("  all zero\n", out);
	table_print(&table);
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		if (!strcmp(figures[i].group, group->name))
			print_figure(out, snap, &figures[i]);
	for (size_t i = 0; i < snap->nr_rows; i++)
		if (snap->rows[i].group == group && snap->rows[i].kind == KIND_HIST)
			print_hist(out, snap, &snap->rows[i], how);
}

/*
 * Print all groups that counted something, or were named; one line has the others. @place is NULL
 * if @snap is of another time or host.
 */
void snap_print(FILE *out, const struct place *place, const struct snap *snap,
		const struct printing *how)
{
	char *others __free = NULL;
	bool any = false;

	for (size_t i = 0; i < snap->nr_groups; i++) {
		const struct group *group = snap->groups[i];
		bool clock = group->state == STATE_NONE;

		if (!group->wanted)
			continue;
		if (how->zeros || (how->named && !snap->seconds) || has_counted(snap, group)) {
			if (any)
				fputc('\n', out);
			any = true;
			print_group(out, place, snap, group, how);
		} else if (!clock) {
			others = xappend(others, "%s %s", others ? "," : "", group->name);
			if (group->state != STATE_ARMED)
				others = xappend(others, " (%s)", group->status ? group->status : "?");
		}
	}
	if (others && any)
		fputc('\n', out);
	if (others)
		print_wrapped(out, "Nothing counted:", others + 1, 2);
}
