// SPDX-License-Identifier: GPL-2.0
/* tcplat new: what was counted since this user's last tcplat new. */
#include <argp.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "draw.h"
#include "json.h"
#include "replace.h"
#include "report.h"
#include "saved.h"
#include "snap.h"

static bool keep, zeros;

/* Where the last run is kept: TCPLAT_HISTORY, or in the user's state. NULL: nowhere. */
static char *history_path(void)
{
	const char *path = getenv("TCPLAT_HISTORY");
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (path && *path)
		return xstrdup(path);
	if (state && *state == '/')
		return xasprintf("%s/tcplat/new.json", state);
	if (home && *home == '/')
		return xasprintf("%s/.local/state/tcplat/new.json", home);
	report(STATUS_USAGE, "there is no HOME to keep this run in: name a file in TCPLAT_HISTORY");
	return NULL;
}

/* Make the directories that @path is in. */
static void make_dirs(const char *path)
{
	char *copy = xstrdup(path);

	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		/* What cannot be made is met again when the file is written. */
		mkdir(copy, 0700);
		*p = '/';
	}
	free(copy);
}

static void write_json(FILE *out, void *arg)
{
	json_write(out, arg, false);
}

/* Whether one of the patterns is for @file: GROUP, GROUP/FILE or FILE. */
static bool file_wanted(const struct group *group, const struct file *file, int argc,
			char **argv, bool *used)
{
	char *path = xasprintf("%s/%s", group->name, file->name);
	bool wanted = !argc;

	for (int i = 0; i < argc; i++) {
		if (fnmatch(argv[i], path, 0) && fnmatch(argv[i], group->name, 0) &&
		    fnmatch(argv[i], file->name, 0))
			continue;
		used[i] = true;
		wanted = true;
	}
	free(path);
	return wanted;
}

static void print_gains(struct snap *snap, double seconds, int argc, char **argv)
{
	struct table table = {
		.nr_columns = 4,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT },
	};
	bool *used = xreallocarray(NULL, argc + 1, sizeof(*used));

	memset(used, 0, (argc + 1) * sizeof(*used));
	for (size_t i = 0; i < snap->tree.nr_groups; i++) {
		struct group *group = &snap->tree.groups[i];

		for (size_t j = 0; j < group->nr_files; j++) {
			struct file *file = &group->files[j];
			uint64_t value;

			if (file->kind != KIND_COUNTER ||
			    !file_wanted(group, file, argc, argv, used) ||
			    !group_value(group, file, &value) || (!value && !zeros))
				continue;
			table_row(&table, xasprintf("%s/%s", group->name, file->name),
				  xasprintf("%" PRIu64, value),
				  seconds > 0 ? draw_number(value / seconds) : NULL,
				  draw_value(value, file->unit, snap->tick_ns));
		}
	}
	table_print(&table);
	for (int i = 0; i < argc; i++)
		if (!used[i])
			report(STATUS_USAGE, "no counter is like '%s'", argv[i]);
	free(used);
}

/*
 * Leave in @now what is new, and say since when. @seconds are 0 if not known. Return whether the
 * last run, if there was one, could be read.
 */
static bool take_off_last(struct snap *now, const char *path, double *seconds)
{
	struct snap last;
	char *time;

	*seconds = 0;
	if (access(path, F_OK) && errno == ENOENT) {
		puts("since the counters began");
		return true;
	}
	if (!saved_load(&last, path))
		return false;
	if (snap_restarted(now, &last)) {
		puts("since the counters began, which was after the last run");
	} else {
		*seconds = snap_seconds(now, &last);
		snap_subtract(now, &last);
		time = draw_time(*seconds * 1e9L);
		printf("since the last run, %s ago; per second\n", time);
		free(time);
	}
	snap_free(&last);
	return true;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct json_object *object;
	char *path = history_path();
	struct snap now;
	double seconds;

	if (!path)
		return;
	if ((!keep && !replaceable(path)) || !snap_take(&now, place, 0, NULL))
		goto out;
	object = saved_make(place, &now);
	if (take_off_last(&now, path, &seconds))
		print_gains(&now, seconds, argc, argv);
	if (!keep && !report_status()) {
		make_dirs(path);
		replace_file(path, write_json, object);
	}
	json_object_put(object);
	snap_free(&now);
out:
	free(path);
}

static const struct argp_option options[] = {
	{ "keep", 's', NULL, 0, "Let the next run begin where this one began", 0 },
	{ "zeros", 'z', NULL, 0, "Print counters that gained nothing, too", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 's', .flag = &keep },
	{ 'z', .flag = &zeros },
	{ 0 },
};

const struct cmd cmd_new = {
	.name = "new",
	.args = "[PATTERN...]",
	.brief = "Print what was counted since the last run",
	.doc = "A PATTERN, as a shell has them, is for a group, a counter or both: delack, '*_ns', 'sndhold/peer*'. No counter is changed: each user has a last run of their own, kept in ~/.local/state/tcplat/new.json or in the file that TCPLAT_HISTORY names.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.run = run,
};
