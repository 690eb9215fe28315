// SPDX-License-Identifier: GPL-2.0
/* Save a snapshot as JSON and load it. tcplat.schema.json describes the format. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "hist.h"
#include "json.h"
#include "report.h"
#include "saved.h"
#include "text.h"

#define SCHEMA	1

static struct json_object *number(struct group *group, struct file *file)
{
	uint64_t value;

	/* null: could not be read. */
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

/* The files of @group of type @kind, by name. */
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

/**
 * saved_make - convert a snapshot to JSON
 * @place: where it was taken
 * @snap: the snapshot, just taken
 *
 * Return: the object; the caller must json_object_put() it
 */
struct json_object *saved_make(const struct place *place, struct snap *snap)
{
	struct json_object *object = json_object_new_object();
	struct json_object *groups = json_object_new_object();
	char *version = tree_version(&snap->tree), *release = place_release(place);

	json_object_object_add(object, "schema", json_object_new_int(SCHEMA));
	json_object_object_add(object, "time", json_object_new_int64(snap->wall_s));
	json_object_object_add(object, "monotonic_ns", json_object_new_uint64(snap->time_ns));
	json_object_object_add(object, "boot_id", json_text(snap->boot));
	json_object_object_add(object, "tree", json_object_new_uint64(snap->ino));
	json_object_object_add(object, "kernel", json_text(release));
	json_object_object_add(object, "version", json_text(version));
	json_object_object_add(object, "abi", json_object_new_int(1));
	json_object_object_add(object, "clock", snap->has_clock ?
			       files(&snap->clock, KIND_GAUGE) : NULL);
	for (size_t i = 0; i < snap->tree.nr_groups; i++)
		json_object_object_add(groups, snap->tree.groups[i].name,
				       group_object(&snap->tree.groups[i]));
	json_object_object_add(object, "groups", groups);
	free(version);
	free(release);
	return object;
}

/* ---- loading ---- */

/* Return member @name if it has type @type, else NULL. */
static struct json_object *member(struct json_object *object, const char *name,
				  enum json_type type)
{
	struct json_object *value = NULL;

	if (!json_object_object_get_ex(object, name, &value) ||
	    !json_object_is_type(value, type))
		return NULL;
	return value;
}

static bool u64_of(struct json_object *value, uint64_t *number)
{
	/* json-c clamps negative and too large numbers; parse the text instead. */
	return json_object_is_type(value, json_type_int) &&
	       parse_number(json_object_get_string(value), number);
}

static uint64_t number_member(struct json_object *object, const char *name)
{
	uint64_t number = 0;

	u64_of(member(object, name, json_type_int), &number);
	return number;
}

/* Add a file that group_read() must not look for in a tree. */
static struct file *add_file(struct group *group, char *name, enum kind kind)
{
	struct file *file = group_add_file(group, name, kind);

	file->tried = true;
	return file;
}

/* Copy the numbers of @array. The last may be null and is left out. */
static bool fill_list(struct file *file, struct json_object *array)
{
	size_t nr = array ? json_object_array_length(array) : 0;

	file->values = xreallocarray(NULL, nr + 1, sizeof(*file->values));
	for (size_t i = 0; i < nr; i++) {
		struct json_object *value = json_object_array_get_idx(array, i);

		if (!value && i == nr - 1)
			break;
		if (!u64_of(value, &file->values[file->nr]))
			return false;
		file->nr++;
	}
	file->good = true;
	return true;
}

static bool load_histogram(struct group *group, const char *name, struct json_object *object)
{
	struct json_object *unit = member(object, "unit", json_type_string);
	const char *end = unit ? json_object_get_string(unit) : NULL;

	return fill_list(add_file(group, xstrdup(name), KIND_HIST),
			 member(object, "counts", json_type_array)) &&
	       fill_list(add_file(group, xasprintf("%s_le%s%s", name, end ? "_" : "",
						   end ? end : ""), KIND_BOUNDS),
			 member(object, "le", json_type_array));
}

static bool load_files(struct group *group, struct json_object *values, enum kind kind)
{
	json_object_object_foreach(values, name, value) {
		struct file *file;

		/* null: could not be read. */
		if (!value)
			continue;
		if (kind == KIND_HIST) {
			if (!json_object_is_type(value, json_type_object) ||
			    !load_histogram(group, name, value))
				return false;
			continue;
		}
		file = add_file(group, xstrdup(name), kind);
		file->nr = 1;
		file->values = xreallocarray(NULL, 1, sizeof(*file->values));
		file->good = u64_of(value, file->values);
		if (!file->good)
			return false;
	}
	return true;
}

static bool load_group(struct group *group, const char *name, struct json_object *object)
{
	static const struct {
		const char *name;
		enum kind kind;
	} sections[] = {
		{ "counters", KIND_COUNTER },
		{ "gauges", KIND_GAUGE },
		{ "maxima", KIND_MAX },
		{ "histograms", KIND_HIST },
	};
	struct json_object *status;

	*group = (struct group){ .name = xstrdup(name), .path = xstrdup(name), .fd = -1 };
	if (!json_object_is_type(object, json_type_object))
		return false;
	status = member(object, "status", json_type_string);
	group->status = status ? xstrdup(json_object_get_string(status)) : NULL;
	group->state = status ? tree_state(group->status) : STATE_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		struct json_object *values = member(object, sections[i].name, json_type_object);

		if (values && !load_files(group, values, sections[i].kind))
			return false;
	}
	return true;
}

static bool load(struct snap *snap, struct json_object *object)
{
	struct json_object *groups = member(object, "groups", json_type_object);
	struct json_object *clock = member(object, "clock", json_type_object);
	struct json_object *boot = member(object, "boot_id", json_type_string);
	struct tree *tree = &snap->tree;

	if (!groups || number_member(object, "schema") != SCHEMA)
		return false;
	snap->wall_s = number_member(object, "time");
	snap->time_ns = number_member(object, "monotonic_ns");
	snap->ino = number_member(object, "tree");
	snap->boot = boot ? xstrdup(json_object_get_string(boot)) : NULL;
	if (clock) {
		snap->hz = number_member(clock, "hz");
		snap->tick_ns = number_member(clock, "tick_ns");
	}
	json_object_object_foreach(groups, name, value) {
		tree->groups = xreallocarray(tree->groups, tree->nr_groups + 1,
					     sizeof(*tree->groups));
		if (!load_group(&tree->groups[tree->nr_groups++], name, value))
			return false;
	}
	return tree->nr_groups;
}

/**
 * saved_load - load a file written by 'tcplat json'
 * @snap: filled in; call snap_free() if true is returned
 * @path: the file
 *
 * Return: whether it could be read. Errors have been reported.
 */
bool saved_load(struct snap *snap, const char *path)
{
	struct json_object *object;
	char *text = NULL;
	bool ok;
	int err;

	memset(snap, 0, sizeof(*snap));
	snap->tree.fd = -1;
	snap->tree.root_fd = -1;
	err = read_text(AT_FDCWD, path, &text);
	if (err) {
		report(err == EACCES ? STATUS_DENIED : STATUS_USAGE, "%s: %s", path,
		       strerror(err));
		return false;
	}
	object = json_tokener_parse(text);
	free(text);
	ok = json_object_is_type(object, json_type_object) && load(snap, object);
	json_object_put(object);
	if (!ok) {
		report(STATUS_USAGE, "%s: not in the format of 'tcplat json'", path);
		snap_free(snap);
	}
	return ok;
}
