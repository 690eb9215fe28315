// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat openmetrics: print everything in the OpenMetrics format.
 *
 * A metric is named after its file, with the unit converted to a base unit:
 * delack/stall_us becomes tcplat_delack_stall_seconds. A counter that is the sum
 * of a histogram is exported as the _sum of that histogram.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "hist.h"
#include "replace.h"
#include "report.h"
#include "snap.h"
#include "words.h"

#define NANO	1000000000

static const char *output;	/* NULL: standard output */
static bool text_format;	/* Prometheus's text format, which predates OpenMetrics */

/*
 * Write the metadata of a family. A counter's family is named like its sample in
 * Prometheus's text format, and without _total in OpenMetrics.
 */
static void family_begin(FILE *out, const char *name, const char *type, const char *unit,
			 const char *help)
{
	const char *end = "";

	if (text_format && !strcmp(type, "counter"))
		end = "_total";
	if (text_format && !strcmp(type, "info")) {
		end = "_info";
		type = "gauge";
	}
	fprintf(out, "# HELP %s%s %s\n", name, end, help);
	fprintf(out, "# TYPE %s%s %s\n", name, end, type);
	if (unit && !text_format)
		fprintf(out, "# UNIT %s %s\n", name, unit);
}

static char *metric_name(const struct group *group, const char *file,
			 size_t stem, enum unit unit)
{
	char *name = xasprintf("tcplat_%s_%.*s%s", group->name, (int)stem, file,
			       unit == UNIT_NONE ? "" : "_seconds");

	for (char *p = name; *p; p++)
		if (*p == '-' || *p == '.')
			*p = '_';
	return name;
}

/* Convert @value to base units, exactly. NULL if HZ is needed and unknown. */
static char *base_value(uint64_t value, enum unit unit, uint64_t hz)
{
	switch (unit) {
	case UNIT_NS:
		return draw_decimal(value, 9);
	case UNIT_US:
		return draw_decimal(value, 6);
	case UNIT_JIFFIES:
		return hz ? draw_decimal((u128)value * NANO / hz, 9) : NULL;
	case UNIT_NONE:
	default:
		return xasprintf("%" PRIu64, value);
	}
}

/* Make a sentence of the text in words.c. To be freed. */
static char *help_text(const char *group, const char *file)
{
	const char *words = words_file(group, file);

	return words ? xasprintf("%c%s.", toupper(*words), words + 1) :
		       xasprintf("The file %s/%s of the tcplat module.", group, file);
}

/* Return the file with the sum of the values in @hist, or NULL. */
static struct file *sum_of(struct group *group, const struct file *hist)
{
	struct file *sum = NULL;

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		if (file->kind != KIND_COUNTER ||
		    hist_of_sum(group, file) != hist)
			continue;
		/* Prefer the sum that the module converted from jiffies. */
		if (!sum || sum->unit == UNIT_JIFFIES)
			sum = file;
	}
	return sum;
}

static void write_value(FILE *out, struct group *group, struct file *file,
			uint64_t hz)
{
	bool counter = file->kind == KIND_COUNTER;
	char *name, *value, *help;
	uint64_t number;

	if (file->unit == UNIT_JIFFIES && group_same_in_us(group, file))
		return;
	if (counter && hist_of_sum(group, file))
		return;
	if (!group_value(group, file, &number))
		return;
	value = base_value(number, file->unit, hz);
	if (!value)
		return;
	name = metric_name(group, file->name, words_stem(file->name), file->unit);
	help = help_text(group->name, file->name);
	family_begin(out, name, counter ? "counter" : "gauge",
		     file->unit == UNIT_NONE ? NULL : "seconds", help);
	fprintf(out, "%s%s %s\n", name, counter ? "_total" : "", value);
	free(value);
	free(help);
	free(name);
}

/* A bound with a decimal point, since readers compare bounds as text. To be freed. */
static char *bound_label(const struct hist *hist, size_t i)
{
	char *number, *s;

	if (i == hist->nr - 1)
		return xasprintf("+Inf");
	number = base_value(hist->bounds[i], hist->unit, 0);
	s = strchr(number, '.') ? xstrdup(number) :
				  xasprintf("%s.0", number);
	free(number);
	return s;
}

static void write_hist(FILE *out, struct group *group, struct file *file,
		       uint64_t hz)
{
	struct file *sum = sum_of(group, file);
	char *name, *help, *total, *value = NULL;
	struct hist hist;
	uint64_t number;
	u128 below = 0;

	if (!hist_read(group, file, &hist))
		return;
	if (sum && group_value(group, sum, &number))
		value = base_value(number, sum->unit, hz);

	name = metric_name(group, file->name, strlen(file->name) - strlen("_hist"), hist.unit);
	help = help_text(group->name, file->name);
	family_begin(out, name, "histogram",
		     hist.unit == UNIT_NONE ? NULL : "seconds", help);
	for (size_t i = 0; i < hist.nr; i++) {
		char *bound = bound_label(&hist, i);
		char *count;

		below += hist.counts[i];
		count = draw_u128(below);
		fprintf(out, "%s_bucket{le=\"%s\"} %s\n", name, bound, count);
		free(bound);
		free(count);
	}
	total = draw_u128(hist.total);
	if (value)
		fprintf(out, "%s_sum %s\n", name, value);
	/* OpenMetrics has no _count without a _sum. */
	if (value || text_format)
		fprintf(out, "%s_count %s\n", name, total);
	free(total);
	free(value);
	free(help);
	free(name);
}

static void write_group(FILE *out, struct group *group, uint64_t hz)
{
	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		switch (file->kind) {
		case KIND_COUNTER:
		case KIND_GAUGE:
		case KIND_MAX:
			if (!strcmp(file->name, "missed"))
				break;
			/* Export only the times of clock, not its jiffies. */
			if (file->unit != UNIT_NONE ||
			    strcmp(group->name, "clock"))
				write_value(out, group, file, hz);
			break;
		case KIND_HIST:
			write_hist(out, group, file, hz);
			break;
		case KIND_BOUNDS:
		case KIND_CONTROL:
		default:
			break;
		}
	}
}

/* Replace the characters that need escaping in a label. */
static char *label_value(char *text)
{
	for (char *p = text; p && *p; p++)
		if (*p == '"' || *p == '\\' || *p == '\n')
			*p = '?';
	return text;
}

static void write_info(FILE *out, struct snap *snap, const struct place *place)
{
	char *version = label_value(tree_version(&snap->tree));
	char *release = label_value(place_release(place));

	family_begin(out, "tcplat", "info", NULL, "Versions of the module and of the kernel.");
	fprintf(out, "tcplat_info{version=\"%s\",hz=\"%" PRIu64 "\",kernel=\"%s\"} 1\n",
		version ? version : "", snap->hz, release ? release : "");
	free(version);
	free(release);
}

static void write_states(FILE *out, struct snap *snap, const char *metric,
			 const char *help, enum state wanted, bool is)
{
	family_begin(out, metric, "gauge", NULL, help);
	for (size_t i = 0; i < snap->tree.nr_groups; i++) {
		struct group *group = &snap->tree.groups[i];

		if (group->state != STATE_UNKNOWN)
			fprintf(out, "%s{group=\"%s\"} %d\n", metric, group->name,
				(group->state == wanted) == is);
	}
}

/* One family for all groups, so that one rule can watch them all. */
static void write_missed(FILE *out, struct snap *snap)
{
	char *help = help_text("", "missed");
	uint64_t missed;

	family_begin(out, "tcplat_missed", "counter", NULL, help);
	for (size_t i = 0; i < snap->tree.nr_groups; i++) {
		struct group *group = &snap->tree.groups[i];

		if (group->state != STATE_UNAVAILABLE &&
		    group_number(group, "missed", &missed))
			fprintf(out, "tcplat_missed_total{group=\"%s\"} %" PRIu64 "\n",
				group->name, missed);
	}
	free(help);
}

static void write_all(FILE *out, struct snap *snap, const struct place *place)
{
	write_info(out, snap, place);
	write_states(out, snap, "tcplat_group_available",
		     "Whether this kernel has what the group needs.",
		     STATE_UNAVAILABLE, false);
	write_states(out, snap, "tcplat_group_enabled",
		     "Whether the group counts.", STATE_ARMED, true);
	write_missed(out, snap);
	if (snap->has_clock)
		write_group(out, &snap->clock, snap->hz);
	for (size_t i = 0; i < snap->tree.nr_groups; i++)
		if (snap->tree.groups[i].state != STATE_UNAVAILABLE)
			write_group(out, &snap->tree.groups[i], snap->hz);
	if (!text_format)
		fputs("# EOF\n", out);
}

/* The argument of write_export(). */
struct export {
	struct snap *snap;
	const struct place *place;
};

static void write_export(FILE *out, void *arg)
{
	const struct export *export = arg;

	write_all(out, export->snap, export->place);
}

static void run(const struct place *place, int argc, char **argv)
{
	struct snap snap;

	if (output && !replaceable(output))
		return;
	if (!snap_take(&snap, place, argc, argv))
		return;
	if (output)
		replace_file(output, write_export, &(struct export){ &snap, place });
	else
		write_all(stdout, &snap, place);
	snap_free(&snap);
}

#define KEY_PROMETHEUS	300

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0,
	  "Replace FILE once everything is written; keep it on errors", 0 },
	{ "prometheus", KEY_PROMETHEUS, NULL, 0,
	  "Use Prometheus's text format, which node_exporter's textfile collector reads", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ KEY_PROMETHEUS, .flag = &text_format },
	{ 0 },
};

static int option(int key, char *arg, struct argp_state *state)
{
	if (key != 'o')
		return ARGP_ERR_UNKNOWN;
	if (!*arg) {
		argp_error(state, "--output needs a file");
		return EINVAL;
	}
	output = arg;
	return 0;
}

const struct cmd cmd_openmetrics = {
	.name = "openmetrics",
	.args = "[GROUP...]",
	.brief = "Print everything in the OpenMetrics format",
	.doc = "Times are in seconds. Counters have 64 bits in the module; readers of this format convert them to floating-point numbers, which are exact up to 2^53.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.option = option,
	.run = run,
};
