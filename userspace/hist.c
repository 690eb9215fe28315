// SPDX-License-Identifier: GPL-2.0
/* Histograms: a line of counts, and beside it the file of their bounds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hist.h"
#include "report.h"
#include "tcplat.h"
#include "text.h"

#define BOUNDS_END	"_le"

/* With more buckets than this the empty ones at both ends are left out. */
#define BUCKETS_ALL	16

/* A bar as narrow as this still says something. */
#define BAR_MIN		10

/* The file of the bounds of @counts, or NULL; the unit is in its name. */
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
 * @hist: to be filled; it lasts for as long as the group
 *
 * Return: whether it could be read; if not, why not has been reported.
 */
bool hist_read(struct group *group, struct file *file, struct hist *hist)
{
	struct file *le = find_bounds(group, file);

	memset(hist, 0, sizeof(*hist));
	if (le)
		hist->unit = le->unit;
	else
		report(STATUS_FAULT, "%s/%s: its bounds are missing (%s" BOUNDS_END "*)",
		       group->path, file->name, file->name);
	if (!group_read(group, file) || !le || !group_read(group, le))
		return false;

	for (size_t i = 1; i < le->nr; i++) {
		if (le->values[i] <= le->values[i - 1]) {
			report(STATUS_FAULT, "%s/%s: its bounds do not rise",
			       group->path, le->name);
			return false;
		}
	}
	if (le->nr + 1 != file->nr) {
		report(STATUS_FAULT, "%s/%s: has %zu counts for %zu bounds",
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
		/* Milliseconds throughout, so that a column can be compared. */
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

/*
 * The bucket that the @percent smallest of a hundred values reach into: they
 * are not larger than its bound. Not for an empty histogram.
 */
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

/* The bucket of @value, which is of @unit; hist->nr if it cannot be compared. */
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
 * Whether the @stem characters of @file's name are those of the histogram @hist:
 * delay or delay_time for delay_hist.
 */
static bool belongs(const struct file *file, size_t stem, const struct file *hist)
{
	size_t len = strlen(hist->name) - strlen("_hist");

	return !strncmp(file->name, hist->name, len) &&
	       (stem == len || (stem == len + strlen("_time") &&
				!strncmp(file->name + len, "_time", strlen("_time"))));
}

/* The file of the largest value that the histogram @file counts, or NULL. */
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
 * The histogram whose values @file is the sum of, or NULL. The bounds have a unit if the
 * sum has one: a file without one, beside a histogram of times, is their number.
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

/* What bucket @i holds, in words. To be freed. */
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

static void print_left_out(const char *side, const struct hist *hist, size_t i)
{
	char *bound = hist_bound(hist, i);

	printf("  nothing %s %s\n", side, bound);
	free(bound);
}

/* One line a bucket, as wide as the terminal. Not for an empty histogram. */
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

		/* A micro sign makes this a column too many, no harm. */
		if (strlen(bound) > labels)
			labels = strlen(bound);
		free(bound);
	}
	/* Two blanks before each of the four columns. */
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
		print_left_out("up to", hist, first - 1);
	if (last < hist->nr - 1)
		print_left_out("over", hist, last);
}
