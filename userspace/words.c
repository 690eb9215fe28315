// SPDX-License-Identifier: GPL-2.0
/*
 * Order and descriptions of known names. Output depends on the tree alone: names that are missing
 * here are shown last and without a description.
 */
#include <limits.h>
#include <string.h>

#include "snap.h"

static const struct {
	const char *name;
	const char *text;
} groups[] = {
#define TABLE_GROUPS
#include "tables.inc"
};

/* Names have no unit: delay is delay_jiffies and delay_us. */
static const struct {
	const char *group;
	const char *name;
	const char *text;
} files[] = {
#define TABLE_FILES
#include "tables.inc"
};

/* The position of @group; unknown groups come last. */
unsigned int words_group_rank(const char *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!strcmp(groups[i].name, group))
			return i;
	return UINT_MAX;
}

const char *const words_units[] = {
	[UNIT_NONE] = "",
	[UNIT_NS] = "_ns",
	[UNIT_US] = "_us",
	[UNIT_JIFFIES] = "_jiffies",
};

/* Test if @stem, of @len characters, ends in @end and is longer than @end. */
static bool stem_ends(const char *stem, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !strncmp(stem + len - n, end, n);
}

enum unit words_unit(const char *file)
{
	enum unit unit = UNIT_JIFFIES;

	while (unit != UNIT_NONE && !stem_ends(file, strlen(file), words_units[unit]))
		unit--;
	return unit;
}

/* The length of the name @file without its unit. */
size_t words_stem(const char *file)
{
	return strlen(file) - strlen(words_units[words_unit(file)]);
}

static size_t find_file(const char *group, const char *file)
{
	size_t stem = words_stem(file);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].group, group) &&
		    strlen(files[i].name) == stem &&
		    !strncmp(files[i].name, file, stem))
			return i;
	return SIZE_MAX;
}

/*
 * The kind follows from the name, so that new groups need no entry here. All files of clock are
 * gauges.
 */
enum kind words_kind(const char *group, const char *file)
{
	size_t stem = words_stem(file);

	if (!strcmp(group, "clock") || !strcmp(file, "tracked"))
		return KIND_GAUGE;
	if (stem_ends(file, strlen(file), "_unseen"))
		return KIND_SIGNED;
	if (stem_ends(file, strlen(file), "_hist"))
		return KIND_HIST;
	if (stem_ends(file, stem, "_hist_le"))
		return KIND_BOUNDS;
	return stem_ends(file, stem, "_max") ? KIND_MAX : KIND_COUNTER;
}

/* The position of @file in its group: unknown files come late, missed last. */
unsigned int words_file_rank(const char *group, const char *file)
{
	size_t i = find_file(group, file);

	if (i != SIZE_MAX)
		return i;
	return strcmp(file, "missed") ? UINT_MAX - 1 : UINT_MAX;
}

const char *words_group(const char *group)
{
	unsigned int rank = words_group_rank(group);

	return rank == UINT_MAX ? NULL : groups[rank].text;
}

const char *words_file(const char *group, const char *file)
{
	size_t i = find_file(group, file);

	if (i != SIZE_MAX)
		return files[i].text;
	return strcmp(file, "missed") ? NULL : "probe hits the kernel could not deliver";
}

/* What the file status says, which may add why; STATE_UNKNOWN if that is no state of a group. */
enum state words_state(const char *status)
{
	static const char *const words[] = {
		[STATE_ARMED] = "armed", [STATE_OFF] = "off", [STATE_UNAVAILABLE] = "unavailable",
	};
	size_t len = strcspn(status, " :");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == len && !strncmp(status, words[i], len))
			return i;
	return STATE_UNKNOWN;
}
