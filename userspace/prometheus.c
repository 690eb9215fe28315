// SPDX-License-Identifier: GPL-2.0
/*
 * Everything in Prometheus's text format.
 *
 * A metric is named after its file, with the unit converted to a base unit: delack/stall_us becomes
 * tcplat_delack_stall_seconds. A counter that is the sum of a histogram is exported as the _sum of
 * that histogram.
 */
#include <stdlib.h>
#include <string.h>

#include "rules.h"

/*
 * Return the histogram whose values @row sums up, or NULL. Both have a unit or neither has: a file
 * without a unit beside a histogram of times is a number of events.
 */
static const struct row *hist_of_sum(const struct snap *snap, const struct row *row)
{
	for (size_t i = 0; i < snap->nr_rows; i++)
		if (snap->rows[i].kind == KIND_HIST && row_belongs(row, &snap->rows[i]))
			return &snap->rows[i];
	return NULL;
}

static char *metric_name(const struct row *row, size_t stem, const char *end)
{
	char *name = xasprintf("tcplat_%s_%.*s%s%s", row->group->name, (int)stem, row->name,
			       row->unit == UNIT_NONE ? "" : "_seconds", end);

	for (char *p = name; *p; p++)
		if (*p == '-' || *p == '.')
			*p = '_';
	return name;
}

/* Write the metadata: the texts of the file and of its group, which make a sentence. */
static void begin(FILE *out, const char *name, const char *type, const char *group,
		  const char *file)
{
	const char *words = words_file(group, file), *about = words_group(group);

	fprintf(out, "# HELP %s ", name);
	if (words)
		/* toupper() depends on the locale. */
		fprintf(out, "%c%s", *words - ('a' <= *words && *words <= 'z' ? 'a' - 'A' : 0),
			words + 1);
	else
		fprintf(out, "The file %s/%s of the tcplat module", group, file);
	if (about)
		fprintf(out, " (%s: %s)", group, about);
	fprintf(out, ".\n# TYPE %s %s\n", name, type);
}

/* Convert @value to base units, exactly. NULL if HZ is needed and unknown. To be freed. */
static char *base_value(uint64_t value, enum unit unit, uint64_t hz)
{
	static const unsigned int digits[] = { [UNIT_NS] = 9, [UNIT_US] = 6, [UNIT_JIFFIES] = 9 };

	if (unit != UNIT_JIFFIES)
		return draw_decimal(value, digits[unit]);
	return hz ? draw_decimal((u128)value * NSEC_PER_SEC / hz, digits[unit]) : NULL;
}

static void write_value(FILE *out, const struct snap *snap, const struct row *row)
{
	char *name __free = NULL, *value __free = NULL;
	bool counter = row->kind == KIND_COUNTER;

	if (!row->good || print_twice(snap, row) || (counter && hist_of_sum(snap, row)))
		return;
	value = row->kind == KIND_SIGNED ? xasprintf("%" PRId64, (int64_t)*row->values) :
		base_value(*row->values, row->unit, snap->hz);
	if (!value)
		return;
	name = metric_name(row, words_stem(row->name), counter ? "_total" : "");
	begin(out, name, counter ? "counter" : "gauge", row->group->name, row->name);
	fprintf(out, "%s %s\n", name, value);
}

static void write_hist(FILE *out, const struct snap *snap, const struct row *hist)
{
	char *name __free = NULL, *sum __free = NULL, *total __free = NULL;
	u128 below = 0;

	if (!hist->good || (hist->unit == UNIT_JIFFIES && !snap->hz))
		return;
	for (size_t i = 0; i < snap->nr_rows; i++) {
		const struct row *row = &snap->rows[i];

		if (row->kind == KIND_COUNTER && row->good && !print_twice(snap, row) &&
		    hist_of_sum(snap, row) == hist && !sum)
			sum = base_value(*row->values, row->unit, snap->hz);
	}
	name = metric_name(hist, strlen(hist->name) - strlen("_hist"), "");
	begin(out, name, snap->no_buckets ? "summary" : "histogram", hist->group->name,
	      hist->name);
	for (size_t i = 0; i < hist->nr; i++) {
		char *bound __free = NULL, *count __free = NULL;

		below += hist->values[i];
		if (snap->no_buckets)
			continue;
		bound = i < hist->nr - 1 ? base_value(hist->bounds[i], hist->unit, snap->hz) :
					   xstrdup("+Inf");
		/* With a decimal point, since readers compare bounds as text. */
		if (i < hist->nr - 1 && !strchr(bound, '.'))
			bound = xappend(bound, ".0");
		count = draw_decimal(below, 0);
		fprintf(out, "%s_bucket{le=\"%s\"} %s\n", name, bound, count);
	}
	if (sum)
		fprintf(out, "%s_sum %s\n", name, sum);
	total = draw_decimal(below, 0);
	fprintf(out, "%s_count %s\n", name, total);
}

/* One family for all groups, so that one rule can watch them all. */
static void write_states(FILE *out, const struct snap *snap, const char *metric, const char *help,
			 bool counts)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", metric, help, metric);
	for (size_t i = 0; i < snap->nr_groups; i++) {
		const struct group *group = snap->groups[i];

		if (group->wanted && group->state != STATE_UNKNOWN && group->state != STATE_NONE)
			fprintf(out, "%s{group=\"%s\"} %d\n", metric, group->name, counts ?
				group->state == STATE_ARMED : group->state != STATE_UNAVAILABLE);
	}
}

/* What the rules of doctor take as lost time, or the events that lost it. */
static void write_lost(FILE *out, const struct snap *snap, const char *metric, const char *help,
		       bool times)
{
	struct exam exam = { .snap = snap };
	uint64_t count, ns;

	/* Patterns would leave a part of a sum. */
	if (snap->nr_removed)
		return;
	fprintf(out, "# HELP %s %s\n# TYPE %s counter\n", metric, help, metric);
	for (size_t i = 0; i < nr_rules; i++) {
		char *value __free = NULL;

		if (!exam_lost(&exam, &rules[i], &count, &ns))
			continue;
		value = draw_decimal(times ? ns : count, times ? 9 : 0);
		fprintf(out, "%s{cause=\"%s\"} %s\n", metric, rules[i].name, value);
	}
}

void snap_write_prometheus(FILE *out, const struct snap *snap)
{
	fprintf(out, "# HELP tcplat_up Whether the counters of the tcplat module could be read.\n"
		"# TYPE tcplat_up gauge\ntcplat_up %d\n", !snap->why);
	if (snap->why)
		fprintf(out, "# HELP tcplat_down_reason Why there are no counters of tcplat.\n"
			"# TYPE tcplat_down_reason gauge\n"
			"tcplat_down_reason{reason=\"%s\"} 1\n", snap->why);
	fputs("# HELP tcplat_info Versions of the tcplat module, of the reader and of the kernel.\n"
	      "# TYPE tcplat_info gauge\ntcplat_info{version=", out);
	write_quoted(out, snap->version);
	fprintf(out, ",reader=\"" TCPLAT_VERSION "\",hz=\"%" PRIu64 "\",kernel=", snap->hz);
	write_quoted(out, snap->kernel);
	fputs("} 1\n", out);
	if (snap->why)
		return;
	write_states(out, snap, "tcplat_group_available",
		     "Whether this kernel has what this group of tcplat needs.", false);
	write_states(out, snap, "tcplat_group_enabled", "Whether this group of tcplat counts.",
		     true);
	write_lost(out, snap, "tcplat_lost_seconds_total",
		   "Time that connections waited, by cause: a rule of tcplat doctor.", true);
	write_lost(out, snap, "tcplat_delays_total",
		   "Waits that tcplat_lost_seconds_total adds up.", false);
	begin(out, "tcplat_missed_total", "counter", "", "missed");
	for (size_t i = 0; i < snap->nr_rows; i++) {
		const struct row *row = &snap->rows[i];

		if (row->good && !strcmp(row->name, "missed") &&
		    row->group->state != STATE_UNAVAILABLE)
			fprintf(out, "tcplat_missed_total{group=\"%s\"} %" PRIu64 "\n",
				row->group->name, *row->values);
	}
	for (size_t i = 0; i < snap->nr_rows; i++) {
		const struct row *row = &snap->rows[i];

		/* Of clock export only the times, not the jiffies. */
		if (row->group->state == STATE_UNAVAILABLE || !strcmp(row->name, "missed") ||
		    (row->group->state == STATE_NONE && row->unit == UNIT_NONE))
			continue;
		if (row->kind == KIND_HIST)
			write_hist(out, snap, row);
		else
			write_value(out, snap, row);
	}
}
