// SPDX-License-Identifier: GPL-2.0
/* tcplat json: everything, for programs. tcplat.schema.json describes it. */
#include <argp.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <time.h>

#include "hist.h"
#include "json.h"
#include "report.h"
#include "snap.h"
#include "text.h"

#define SCHEMA	1

static bool pretty;

static struct json_object *number(struct group *group, struct file *file)
{
	uint64_t value;

	/* null: it is there and could not be read. */
	return group_value(group, file, &value) ?
	       json_object_new_uint64(value) : NULL;
}

static struct json_object *histogram(struct group *group, struct file *file)
{
	struct json_object *object, *counts, *bounds;
	struct hist hist;

	if (!hist_read(group, file, &hist))
		return NULL;
	object = json_object_new_object();
	counts = json_object_new_array();
	bounds = json_object_new_array();
	for (size_t i = 0; i < hist.nr; i++) {
		json_object_array_add(counts,
				      json_object_new_uint64(hist.counts[i]));
		/* null: no bound. */
		json_object_array_add(bounds, i == hist.nr - 1 ? NULL :
				      json_object_new_uint64(hist.bounds[i]));
	}
	json_object_object_add(object, "unit", hist.unit == UNIT_NONE ? NULL :
			       json_object_new_string(hist.unit == UNIT_NS ?
						      "ns" : "us"));
	json_object_object_add(object, "le", bounds);
	json_object_object_add(object, "counts", counts);
	return object;
}

/* The files of @group that are @kind, by name. */
static struct json_object *files(struct group *group, enum kind kind)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];

		if (file->kind == kind)
			json_object_object_add(object, file->name,
					       kind == KIND_HIST ?
					       histogram(group, file) :
					       number(group, file));
	}
	return object;
}

static struct json_object *group_object(struct group *group)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "status", json_text(group->status));
	json_object_object_add(object, "available",
			       group->state == STATE_UNKNOWN ? NULL :
			       json_object_new_boolean(group->state !=
						       STATE_UNAVAILABLE));
	json_object_object_add(object, "enabled",
			       group->state == STATE_UNKNOWN ? NULL :
			       json_object_new_boolean(group->state ==
						       STATE_ARMED));
	if (group->state == STATE_UNAVAILABLE)
		return object;
	json_object_object_add(object, "counters", files(group, KIND_COUNTER));
	json_object_object_add(object, "gauges", files(group, KIND_GAUGE));
	json_object_object_add(object, "maxima", files(group, KIND_MAX));
	json_object_object_add(object, "histograms", files(group, KIND_HIST));
	return object;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct json_object *object, *groups;
	struct timespec now;
	char *version, *release;
	struct snap snap;

	if (!snap_take(&snap, place, argc, argv))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	version = tree_version(&snap.tree);
	release = place_release(place);

	object = json_object_new_object();
	json_object_object_add(object, "schema", json_object_new_int(SCHEMA));
	json_object_object_add(object, "time",
			       json_object_new_int64(now.tv_sec));
	json_object_object_add(object, "kernel", json_text(release));
	json_object_object_add(object, "version", json_text(version));
	json_object_object_add(object, "abi", json_object_new_int(1));
	json_object_object_add(object, "clock", snap.has_clock ?
			       files(&snap.clock, KIND_GAUGE) : NULL);
	groups = json_object_new_object();
	for (size_t i = 0; i < snap.tree.nr_groups; i++)
		json_object_object_add(groups, snap.tree.groups[i].name,
				       group_object(&snap.tree.groups[i]));
	json_object_object_add(object, "groups", groups);
	json_print(object, pretty);
	free(version);
	free(release);
	snap_free(&snap);
}

static const struct argp_option options[] = {
	{ "pretty", 'p', NULL, 0, "Indent it for people", 0 },
	{ 0 },
};

static int option(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	(void)state;
	if (key != 'p')
		return ARGP_ERR_UNKNOWN;
	pretty = true;
	return 0;
}

const struct cmd cmd_json = {
	.name = "json",
	.args = "[GROUP...]",
	.brief = "Print everything as JSON",
	.doc = "The schema is in tcplat.schema.json. null stands for what is there and could not be read.",
	.max_args = -1,
	.options = options,
	.option = option,
	.run = run,
};
