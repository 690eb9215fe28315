// SPDX-License-Identifier: GPL-2.0
/* tcplat new: print what was counted since this user's last tcplat new. */
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

/* The file that keeps the last run, to be freed. NULL, which is reported: none. */
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
	report(STATUS_USAGE, "HOME is not set; set TCPLAT_HISTORY to the file that keeps the last run");
	return NULL;
}

/* Make the parent directories of @path. */
static void make_dirs(const char *path)
{
	char *copy = xstrdup(path);

	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		/* Errors show up when the file is written. */
		mkdir(copy, 0700);
		*p = '/';
	}
	free(copy);
}

static void write_json(FILE *out, void *arg)
{
	json_write(out, arg, false);
}

/* Return whether a pattern matches @file as GROUP, GROUP/FILE or FILE. Mark it in @used. */
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

static void print_difference(struct snap *snap, double seconds, int argc, char **argv)
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
			report(STATUS_USAGE, "no counter matches '%s'", argv[i]);
	free(used);
}

/*
 * Subtract the last run from @now and print the interval. @seconds is set to its length, 0 if
 * unknown. Return false if there was a last run that could not be read.
 */
static bool subtract_last(struct snap *now, const char *path, double *seconds)
{
	struct snap last;
	char *time;

	*seconds = 0;
	if (access(path, F_OK) && errno == ENOENT) {
		puts("since the counters started");
		return true;
	}
	if (!saved_load(&last, path))
		return false;
	if (snap_restarted(now, &last)) {
		puts("since the counters restarted, which was after the last run");
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
	if (subtract_last(&now, path, &seconds))
		print_difference(&now, seconds, argc, argv);
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
	{ "keep", 's', NULL, 0, "Do not record this run; the next starts where this one did", 0 },
	{ "zeros", 'z', NULL, 0, "Also print counters that did not change", 0 },
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
	.doc = "PATTERN is a shell pattern that matches a group, a counter or both: delack, '*_ns', 'sndhold/peer*'. No counter is reset. Each user has their own last run, kept in ~/.local/state/tcplat/new.json or in the file that TCPLAT_HISTORY names.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.run = run,
};
