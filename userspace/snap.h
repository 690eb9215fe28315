/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_SNAP_H
#define TCPLAT_SNAP_H

#include "tcplat.h"

/* The kind of a file determines how it is printed. */
enum kind {
	KIND_COUNTER,		/* only increases, until a reset */
	KIND_GAUGE,		/* a state: can decrease */
	KIND_SIGNED,		/* a difference of counters: can be negative */
	KIND_MAX,		/* the largest so far, until a reset */
	KIND_HIST,		/* a histogram: a line of counters */
	KIND_BOUNDS,		/* the upper bounds of a histogram */
};

/* The unit that a file's name ends in. */
enum unit {
	UNIT_NONE,
	UNIT_NS,
	UNIT_US,
	UNIT_JIFFIES,
};

unsigned int words_group_rank(const char *group);
unsigned int words_file_rank(const char *group, const char *file);
enum kind words_kind(const char *group, const char *file);
extern const char *const words_units[];
enum unit words_unit(const char *file);
size_t words_stem(const char *file);
const char *words_group(const char *group);
const char *words_file(const char *group, const char *file);

enum state {
	STATE_ARMED,
	STATE_OFF,
	STATE_UNAVAILABLE,
	STATE_UNKNOWN,
	STATE_NONE,		/* clock, which is no group */
};

enum state words_state(const char *status);

struct group {
	char *name;
	char *status;		/* NULL: unknown */
	enum state state;
	bool was_off;		/* in the snapshot that it was compared with */
	bool wanted;		/* snap_keep() has not removed it */
};

/* A file with a counter, gauge, maximum or histogram. */
struct row {
	struct group *group;
	char *name;
	char *path;		/* GROUP/NAME */
	enum kind kind;
	enum unit unit;		/* of a histogram: of its bounds */
	bool good;		/* it could be read */
	size_t nr;
	uint64_t *values;	/* one, or the counts of a histogram */
	uint64_t *gains;	/* since the snapshot that it was compared with; NULL: unknown */
	double rate;		/* gain per second */
	uint64_t *bounds;	/* of a histogram: nr - 1 */
	uint64_t ns;		/* per unit; 0: not a time, or the length of a jiffy is unknown */
};

/* All files, read at about the same time. */
struct snap {
	struct group **groups;
	size_t nr_groups;
	struct row *rows;	/* in order of display, and then what snap_keep() removed */
	size_t nr_rows, nr_removed;
	uint64_t hz;		/* 0: unknown */
	uint64_t tick_ns;	/* 0: unknown */
	uint64_t time_ns;	/* CLOCK_MONOTONIC; 0: unknown */
	uint64_t wall_s;	/* since 1970 */
	uint64_t ino;		/* of the tree; changes with a reload; 0: unknown */
	char *boot;		/* the kernel's random/boot_id; NULL: unknown */
	char *kernel;		/* its release; NULL: unknown */
	char *version;		/* of the module; NULL: unknown */
	const char *why;	/* there are no rows; NULL: they were read */
	bool no_buckets;	/* for snap_write_prometheus() */
	double seconds;		/* since the snapshot that it was compared with; 0: none */
};

uint64_t snap_there(const struct place *place);
bool snap_take(struct snap *snap, const struct place *place);
void snap_try(struct snap *snap, const struct place *place);
bool snap_load(struct snap *snap, const char *path);
void snap_write_json(FILE *out, const struct snap *snap);
void snap_free(struct snap *snap);
bool snap_compare(struct snap *now, const struct snap *before, bool rates_only);
bool snap_between(struct snap *now, const struct snap *before, const char *from, const char *to,
		  const char *hint);
bool snap_keep(struct snap *snap, int argc, char **argv);
bool match_any(int argc, char **argv, bool *used, const char *const names[3]);
bool all_matched(int argc, char **argv, bool *used, const char *what);
struct row *snap_row(const struct snap *snap, const char *group, const char *name);
const uint64_t *snap_value(const struct snap *snap, const char *group, const char *name);
u128 row_sum(const struct snap *snap, const struct row *row);
struct group *snap_group(const struct snap *snap, const char *name);

/* What snap_print() prints. */
struct printing {
	bool zeros;		/* also what is 0, off or unavailable */
	bool bars;		/* draw histograms */
	bool named;		/* the user named groups or counters */
};

bool row_belongs(const struct row *row, const struct row *hist);
bool print_twice(const struct snap *snap, const struct row *row);
void snap_print(FILE *out, const struct place *place, const struct snap *snap,
		const struct printing *how);
void snap_write_prometheus(FILE *out, const struct snap *snap);

/* What to print of a row: the gains if the snapshots were compared, else the values. */
static inline const uint64_t *row_values(const struct snap *snap, const struct row *row)
{
	return snap->seconds && row->kind != KIND_GAUGE ? row->gains :
	       row->good ? row->values : NULL;
}

static inline bool row_grows(const struct row *row)
{
	return row->kind == KIND_COUNTER || row->kind == KIND_HIST;
}

#endif
