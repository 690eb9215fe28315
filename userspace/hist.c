// SPDX-License-Identifier: GPL-2.0
/* Histograms: a file of counts, and a file of their bounds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hist.h"
#include "report.h"
#include "tcplat.h"
#include "text.h"

#define BOUNDS_END	"_le"

/* With more buckets than this, omit the empty ones at both ends. */
#define BUCKETS_ALL	16

/* Minimum width of a bar. */
#define BAR_MIN		10

/* Return the file with the bounds of @counts, or NULL. Its name ends in the unit. */
static struct file *find_bounds(struct group *group, const struct file *counts)
{
	size_t len = strlen(counts->name);

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		if (file->kind == KIND_BOUNDS &&
		    words_stem(file->name) == len + strlen(BOUNDS_END) &&
		    !strncmp(file->name, counts->name, len))
			return file;
	}
	return NULL;
}

/**
 * hist_read - read a histogram
 * @group: its group
 * @file: its file of counts
 * @hist: filled in; valid as long as @group
 *
 * Return: whether it could be read. Errors have been reported.
 */
bool hist_read(struct group *group, struct file *file, struct hist *hist)
{
	struct file *le = find_bounds(group, file);

	memset(hist, 0, sizeof(*hist));
	if (le)
		hist->unit = le->unit;
	else
		report(STATUS_FAULT, "%s/%s: bounds missing (%s" BOUNDS_END "*)",
		       group->path, file->name, file->name);
	if (!group_read(group, file) || !le || !group_read(group, le))
		return false;

	for (size_t i = 1; i < le->nr; i++) {
		if (le->values[i] <= le->values[i - 1]) {
			report(STATUS_FAULT, "%s/%s: bounds not in ascending order",
			       group->path, le->name);
			return false;
		}
	}
	if (le->nr + 1 != file->nr) {
		report(STATUS_FAULT, "%s/%s: %zu counts for %zu bounds",
		       group->path, file->name, file->nr, le->nr + 1);
		return false;
	}

	hist->nr = file->nr;
	hist->counts = file->values;
	hist->bounds = le->values;
	for (size_t i = 0; i < hist->nr; i++) {
		hist->total += hist->counts[i];
		if (hist->counts[i] > hist->max) {
			hist->max = hist->counts[i];
			hist->max_at = i;
		}
	}
	return true;
}

/* The upper bound of bucket @i, with its unit. To be freed. */
char *hist_bound(const struct hist *hist, size_t i)
{
	uint64_t bound;
	char *number;
	char *s;

	if (i == hist->nr - 1)
		return xasprintf("+Inf");

	bound = hist->bounds[i];
	switch (hist->unit) {
	case UNIT_US:
		/* Always milliseconds, so that a column has one unit. */
		number = draw_decimal(bound, 3);
		s = xasprintf("%s ms", number);
		free(number);
		return s;
	case UNIT_NS:
		return draw_time(bound);
	case UNIT_NONE:
	case UNIT_JIFFIES:
	default:
		return xasprintf("%" PRIu64, bound);
	}
}

/* Return the bucket of a percentile. @hist must not be empty. */
size_t hist_percentile(const struct hist *hist, unsigned int percent)
{
	u128 below = 0;
	size_t i;

	for (i = 0; i < hist->nr - 1; i++) {
		below += hist->counts[i];
		if (below * 100 >= hist->total * percent)
			break;
	}
	return i;
}

/* Return the bucket of @value, in @unit; hist->nr if the units cannot be compared. */
size_t hist_bucket_of(const struct hist *hist, uint64_t value, enum unit unit,
		      uint64_t tick_ns)
{
	u128 own = unit ? unit_ns(unit, tick_ns) : 1;
	u128 others = hist->unit ? unit_ns(hist->unit, tick_ns) : 1;
	size_t i = 0;

	if (!unit != !hist->unit || !own || !others)
		return hist->nr;
	while (i < hist->nr - 1 && value * own > hist->bounds[i] * others)
		i++;
	return i;
}

/*
 * Return whether the first @stem characters of @file's name match the histogram @hist:
 * delay or delay_time match delay_hist.
 */
static bool belongs(const struct file *file, size_t stem, const struct file *hist)
{
	size_t len = strlen(hist->name) - strlen("_hist");

	return !strncmp(file->name, hist->name, len) &&
	       (stem == len || (stem == len + strlen("_time") &&
				!strncmp(file->name + len, "_time", strlen("_time"))));
}

/* Return the file with the maximum of the values in histogram @file, or NULL. */
struct file *hist_max(struct group *group, const struct file *file)
{
	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *max = &group->files[i];

		if (max->kind == KIND_MAX &&
		    belongs(max, words_stem(max->name) - strlen("_max"), file))
			return max;
	}
	return NULL;
}

/*
 * Return the histogram whose values @file sums up, or NULL. Both have a unit or neither
 * has: a file without a unit beside a histogram of times is a number of events.
 */
struct file *hist_of_sum(struct group *group, const struct file *file)
{
	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *hist = &group->files[i];
		const struct file *bounds;

		if (hist->kind != KIND_HIST || !belongs(file, words_stem(file->name), hist))
			continue;
		bounds = find_bounds(group, hist);
		if (!bounds || !bounds->unit == !file->unit)
			return hist;
	}
	return NULL;
}

/* The range of bucket @i, in words. To be freed. */
char *hist_bucket(const struct hist *hist, size_t i)
{
	char *low = i ? hist_bound(hist, i - 1) : NULL;
	char *high = i < hist->nr - 1 ? hist_bound(hist, i) : NULL;
	char *s;

	if (low && high)
		s = xasprintf("over %s up to %s", low, high);
	else if (low)
		s = xasprintf("over %s", low);
	else if (high)
		s = xasprintf("up to %s", high);
	else
		s = xasprintf("of any size");
	free(low);
	free(high);
	return s;
}

static void print_omitted(const char *side, const struct hist *hist, size_t i)
{
	char *bound = hist_bound(hist, i);

	printf("  nothing %s %s\n", side, bound);
	free(bound);
}

/* Print one line per bucket, as wide as the terminal. @hist must not be empty. */
void hist_draw(const struct hist *hist)
{
	struct table table = {
		.nr_columns = 4,
		.align = { ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT },
	};
	size_t first = 0;
	size_t last = hist->nr - 1;
	unsigned int labels = strlen("up to");
	unsigned int digits = snprintf(NULL, 0, "%" PRIu64, hist->max);
	unsigned int used;
	unsigned int width = draw_width();

	if (hist->nr > BUCKETS_ALL) {
		while (!hist->counts[first])
			first++;
		while (!hist->counts[last])
			last--;
	}

	for (size_t i = first; i <= last; i++) {
		char *bound = hist_bound(hist, i);

		/* One column too many for a micro sign, which is harmless. */
		if (strlen(bound) > labels)
			labels = strlen(bound);
		free(bound);
	}
	/* There are two blanks before each of the four columns. */
	used = 4 * 2 + labels + strlen("percent");
	used += digits > strlen("count") ? digits : strlen("count");
	width = width > used + BAR_MIN ? width - used : BAR_MIN;

	table_row(&table, xasprintf("up to"), xasprintf("count"),
		  xasprintf("percent"), NULL);
	for (size_t i = first; i <= last; i++) {
		uint64_t count = hist->counts[i];

		table_row(&table, hist_bound(hist, i),
			  xasprintf("%" PRIu64, count),
			  draw_percent(count, hist->total),
			  draw_bar(count, hist->max, width));
	}
	table_print(&table);

	if (first > 0)
		print_omitted("up to", hist, first - 1);
	if (last < hist->nr - 1)
		print_omitted("over", hist, last);
}
