/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_WORDS_H
#define TCPLAT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* The kind of a file determines how it is printed. */
enum kind {
	KIND_COUNTER,		/* only increases, until a reset */
	KIND_GAUGE,		/* a state: can decrease */
	KIND_MAX,		/* the largest so far, until a reset */
	KIND_HIST,		/* a histogram: a line of counters */
	KIND_BOUNDS,		/* the upper bounds of a histogram */
	KIND_CONTROL,		/* status and enabled */
};

/* The unit that a file's name ends in. */
enum unit {
	UNIT_NONE,
	UNIT_NS,
	UNIT_US,
	UNIT_JIFFIES,
};

/* A figure derived from a group's counters: part / (whole - less), in the unit of part. */
struct figure {
	const char *group;
	const char *label;
	const char *part;
	const char *whole;
	const char *less;	/* NULL: nothing to subtract */
	bool share;		/* of a whole, in percent */
};

extern const struct figure words_figures[];
extern const size_t words_nr_figures;

unsigned int words_group_rank(const char *group);
unsigned int words_file_rank(const char *group, const char *file);
enum kind words_kind(const char *group, const char *file);
enum unit words_unit(const char *file);
size_t words_stem(const char *file);
const char *words_group(const char *group);
const char *words_file(const char *group, const char *file);

extern const char *const words_clock[];	/* constants every module has */

#endif
