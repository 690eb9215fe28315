// SPDX-License-Identifier: GPL-2.0
/*
 * Snapshots of /sys/kernel/tcplat: from the files, from JSON, and the difference between two. The
 * module may be newer than the reader, and may be unloaded while it is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snap.h"

#define ABI	2
#define SCHEMA	2

/* Return the group @name, which is added if it is new. */
static struct group *group_of(struct snap *snap, const char *name)
{
	struct group *group = snap_group(snap, name);

	if (group)
		return group;
	group = xreallocarray(NULL, 1, sizeof(*group));
	*group = (struct group){
		.name = xstrdup(name), .wanted = true,
		.state = strcmp(name, "clock") ? STATE_UNKNOWN : STATE_NONE,
	};
	snap->groups = xreallocarray(snap->groups, snap->nr_groups + 1, sizeof(*snap->groups));
	snap->groups[snap->nr_groups++] = group;
	return group;
}

/* Return the row of the file @name, which is added if it is new. */
static struct row *row_of(struct snap *snap, struct group *group, const char *name)
{
	struct row *row = snap_row(snap, group->name, name);

	if (row)
		return row;
	snap->rows = xreallocarray(snap->rows, snap->nr_rows + 1, sizeof(*snap->rows));
	row = &snap->rows[snap->nr_rows++];
	*row = (struct row){
		.group = group, .name = xstrdup(name),
		.path = xasprintf("%s/%s", group->name, name),
		.kind = words_kind(group->name, name), .unit = words_unit(name),
	};
	return row;
}

static void row_free(struct row *row)
{
	free(row->name);
	free(row->path);
	free(row->values);
	free(row->gains);
	free(row->bounds);
}

static void set_status(struct group *group, const char *text)
{
	enum state state = words_state(text);

	group->state = state != STATE_UNKNOWN ? state : group->state;
	free(group->status);
	group->status = group->state != STATE_UNKNOWN ? shown(xstrdup(text)) : NULL;
}

/* Add a number to those of @row. Return whether @text is one; the last bound is none. */
static bool add_value(struct row *row, const char *text)
{
	bool minus = *text == '-' && row->kind == KIND_SIGNED;
	uint64_t value;

	if (row->kind == KIND_BOUNDS && row->nr && !strcmp(text, "+Inf"))
		return true;
	row->good = parse_number(text + minus, &value) &&
		    (!row->nr || row->kind == KIND_HIST || row->kind == KIND_BOUNDS);
	if (!row->good)
		return false;
	row->values = xreallocarray(row->values, row->nr + 1, sizeof(*row->values));
	row->values[row->nr++] = minus ? -value : value;
	return true;
}

/* Whether the module would give this name: it goes to the terminal. */
static bool valid_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";

	return *name && *name != '.' && !name[strspn(name, allowed)];
}

/* Report why @path, or the file @name in it, could not be read. */
static void report_read(const char *path, const char *name, int err)
{
	report(err == EACCES || err == EPERM ? STATUS_DENIED : STATUS_FAULT, "%s%s%s: %s", path,
	       name ? "/" : "", name ? name : "", err == ENOENT || err == ENODEV ?
	       "missing, or removed while being read (was the module unloaded?)" :
	       err == ENODATA ? "empty" : err == EBADMSG ? "not a text file" : strerror(err));
}

static char *read_file(int dir, const char *path, const char *name)
{
	char *text = NULL;
	int err = read_text(dir, name, &text);

	if (err)
		report_read(path, name, err);
	return err ? NULL : text;
}

/* Where files are read from and to. */
struct reading {
	struct snap *snap;
	const char *path;
	struct group *group;
};

/* Read a file into a row: a number, or numbers separated by one blank. */
static void read_row(int dir, const char *name, void *arg)
{
	char *text __free = NULL, *rest, *word;
	const struct reading *to = arg;
	struct stat st;
	struct row *row;

	/* Files that can only be written are controls, as enabled is. */
	if (!valid_name(name) || !strcmp(name, "status") || !strcmp(name, "enabled") ||
	    (!fstatat(dir, name, &st, 0) && (S_ISDIR(st.st_mode) || !(st.st_mode & 0444))))
		return;
	text = read_file(dir, to->path, name);
	rest = text;
	row = row_of(to->snap, to->group, name);
	while (rest && (word = strsep(&rest, " "))) {
		if (add_value(row, word) &&
		    (row->kind != KIND_BOUNDS || rest || !strcmp(word, "+Inf")))
			continue;
		report(STATUS_FAULT, "%s/%s: '%.40s' is not a number from 0 to 2^64-1", to->path,
		       name, word);
		row->good = false;
		break;
	}
}

/* Read the files of a directory of the tree, unless it is neither a group nor the clock. */
static void read_dir(int tree, const char *name, void *arg)
{
	char *path __free = NULL, *text __free = NULL;
	int dir __close = -1;
	struct reading to = *(struct reading *)arg;
	struct stat st;

	if (!valid_name(name) || (!fstatat(tree, name, &st, 0) && !S_ISDIR(st.st_mode)))
		return;
	path = xasprintf("%s/%s", to.path, name);
	dir = openat(tree, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		report_read(path, NULL, errno);
	if (dir < 0 || (fstatat(dir, "status", &st, 0) && strcmp(name, "clock")))
		return;
	to.path = path;
	to.group = group_of(to.snap, name);
	text = to.group->state == STATE_NONE ? NULL : read_file(dir, path, "status");
	if (text)
		set_status(to.group, text);
	if (text && to.group->state == STATE_UNKNOWN)
		report(STATUS_FAULT, "%s/status: '%.40s' is not one of armed, off, unavailable",
		       path, text);
	each_entry(dir, ".", read_row, &to);
}

static int compare_names(const char *gx, const char *x, const char *gy, const char *y)
{
	return compare_u64(words_group_rank(gx), words_group_rank(gy)) ?: strcmp(gx, gy) ?:
	       compare_u64(words_file_rank(gx, x), words_file_rank(gy, y)) ?: strcmp(x, y);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return compare_names(x->group->name, x->name, y->group->name, y->name);
}

static int compare_groups(const void *a, const void *b)
{
	const struct group *const *x = a, *const *y = b;

	return compare_names((*x)->name, "", (*y)->name, "");
}

/* Give the histogram @hist its bounds, a row of their own until now. */
static void take_bounds(struct snap *snap, struct row *hist)
{
	size_t len = strlen(hist->name);

	for (size_t i = 0; i < snap->nr_rows; i++) {
		struct row *le = &snap->rows[i];
		bool fits = hist->good && le->good && le->nr + 1 == hist->nr;

		if (le->kind != KIND_BOUNDS || le->group != hist->group ||
		    strncmp(le->name, hist->name, len) ||
		    words_stem(le->name) != len + strlen("_le"))
			continue;
		hist->unit = le->unit;
		for (size_t j = 1; j < le->nr; j++)
			fits &= le->values[j - 1] < le->values[j];
		if (fits && !hist->bounds) {
			hist->bounds = le->values;
			le->values = NULL;
		}
	}
	if (hist->good && !hist->bounds)
		report(STATUS_FAULT, "%s: no bounds that fit the counts", hist->path);
	hist->good = hist->bounds;
}

/* The value of a file, or its gain; NULL if unknown. */
const uint64_t *snap_value(const struct snap *snap, const char *group, const char *name)
{
	const struct row *row = snap_row(snap, group, name);

	return row ? row_values(snap, row) : NULL;
}

/* The value of a row that is known, or the sum of its histogram. */
u128 row_sum(const struct snap *snap, const struct row *row)
{
	const uint64_t *values = row_values(snap, row);
	u128 sum = 0;

	for (size_t i = 0; i < row->nr; i++)
		sum += values[i];
	return sum;
}

static uint64_t clock_value(const struct snap *snap, const char *name)
{
	const uint64_t *value = snap_value(snap, "clock", name);

	return value ? *value : 0;
}

/* Sort the rows, and look up what is needed of the clock. */
static void finish(struct snap *snap)
{
	size_t kept = 0;

	for (size_t i = 0; i < snap->nr_rows; i++)
		if (snap->rows[i].kind == KIND_HIST)
			take_bounds(snap, &snap->rows[i]);
	snap->hz = clock_value(snap, "hz");
	snap->tick_ns = clock_value(snap, "tick_ns");
	for (size_t i = 0; i < snap->nr_rows; i++) {
		struct row *row = &snap->rows[i];
		const uint64_t ns[] = { 0, 1, 1000, snap->tick_ns };

		row->ns = ns[row->unit];
		if (row->kind == KIND_BOUNDS)
			row_free(row);
		else
			snap->rows[kept++] = *row;
	}
	snap->nr_rows = kept;
	if (kept)
		qsort(snap->rows, kept, sizeof(*snap->rows), compare_rows);
	if (snap->nr_groups)
		qsort(snap->groups, snap->nr_groups, sizeof(*snap->groups), compare_groups);
}

/* The number of the module's tree, another one after a reload; 0 if not loaded. Reports nothing. */
uint64_t snap_there(const struct place *place)
{
	char *path __free = xasprintf("%s/kernel/tcplat/abi", place->root);
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

/* Reject other ABIs, in which the same names may have other meanings. */
static bool check_abi(int tree, const char *path)
{
	char *text __free = read_file(tree, path, "abi");
	uint64_t abi;
	bool ok = text && parse_number(text, &abi) && abi == ABI;

	if (text && !ok)
		report(STATUS_FAULT, "%s/abi: the module has ABI %.20s, this tcplat supports ABI %d; use the tcplat built with the module",
		       path, text, ABI);
	return ok;
}

/*
 * Read the files into @snap, which must be freed. Return whether there is a tree; if it has another
 * ABI, @snap only has its version. Errors have been reported, also those of single files.
 */
bool snap_take(struct snap *snap, const struct place *place)
{
	char *path __free = xasprintf("%s/kernel/tcplat", place->root);
	int tree __close = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct reading to = { .snap = snap, .path = path };
	struct stat st;

	memset(snap, 0, sizeof(*snap));
	if (tree < 0 && errno == ENOENT)
		report(STATUS_FAULT, "not loaded; run modprobe tcplat as root, or make load in the source tree (no %s)",
		       path);
	else if (tree < 0)
		report_read(path, NULL, errno);
	if (tree < 0)
		return false;
	snap->version = shown(read_file(tree, path, "version"));
	if (!check_abi(tree, path))
		return false;
	if (!fstat(tree, &st))
		snap->ino = st.st_ino;
	snap->boot = place_sysctl(place, "kernel.random.boot_id");
	snap->kernel = place_sysctl(place, "kernel.osrelease");
	snap->time_ns = now_ns(CLOCK_MONOTONIC);
	snap->wall_s = now_ns(CLOCK_REALTIME) / NSEC_PER_SEC;
	each_entry(tree, ".", read_dir, &to);
	finish(snap);
	if (snap->nr_rows)
		return true;
	report_read(path, NULL, ENOENT);
	snap_free(snap);
	return false;
}

void snap_free(struct snap *snap)
{
	for (size_t i = 0; i < snap->nr_rows + snap->nr_removed; i++)
		row_free(&snap->rows[i]);
	for (size_t i = 0; i < snap->nr_groups; i++) {
		free(snap->groups[i]->name);
		free(snap->groups[i]->status);
		free(snap->groups[i]);
	}
	free(snap->rows);
	free(snap->groups);
	free(snap->boot);
	free(snap->kernel);
	free(snap->version);
	memset(snap, 0, sizeof(*snap));
}

static void write_list(struct json *json, const char *name, const uint64_t *values, size_t nr,
		       bool bounds)
{
	json_open(json, name, '[');
	for (size_t i = 0; i < nr; i++)
		json_u64(json, NULL, values[i]);
	if (bounds)
		json_text(json, NULL, "+Inf");
	json_close(json, "]");
}

static void write_row(struct json *json, const struct snap *snap, const struct row *row)
{
	const uint64_t *values = row_values(snap, row);

	if (!values) {
		json_text(json, row->name, NULL);
	} else if (row->kind == KIND_HIST) {
		char *name __free = xasprintf("%s_le%s", row->name, words_units[row->unit]);

		write_list(json, row->name, values, row->nr, false);
		write_list(json, name, row->bounds, row->nr - 1, true);
	} else if (row->kind == KIND_SIGNED) {
		json_number(json, row->name, "%" PRId64, (int64_t)*values);
	} else {
		json_u64(json, row->name, *values);
	}
}

void snap_write_json(FILE *out, const struct snap *snap)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_u64(&json, "schema", SCHEMA);
	json_u64(&json, "time", snap->wall_s);
	json_u64(&json, "monotonic_ns", snap->time_ns);
	if (snap->seconds)
		json_number(&json, "seconds", "%.9g", snap->seconds);
	json_text(&json, "boot_id", snap->boot);
	json_u64(&json, "tree", snap->ino);
	json_text(&json, "kernel", snap->kernel);
	json_text(&json, "version", snap->version);
	json_u64(&json, "abi", ABI);
	json_open(&json, "groups", '{');
	for (size_t i = 0; i < snap->nr_groups; i++) {
		const struct group *group = snap->groups[i];

		if (!group->wanted)
			continue;
		json_open(&json, group->name, '{');
		if (group->state != STATE_NONE)
			json_text(&json, "status", group->status);
		for (size_t j = 0; j < snap->nr_rows; j++)
			if (snap->rows[j].group == group &&
			    !(snap->seconds && snap->rows[j].kind == KIND_MAX))
				write_row(&json, snap, &snap->rows[j]);
		json_close(&json, "}");
	}
	json_close(&json, "}}");
}

struct loading {
	struct snap *snap;
	uint64_t schema;
	bool interval;
};

static bool load_value(void *arg, const char *path, const char *text)
{
	struct loading *loading = arg;
	struct snap *snap = loading->snap;
	const struct {
		const char *path;
		char **text;
		uint64_t *number;
	} members[] = {
		{ "/boot_id", &snap->boot, NULL }, { "/kernel", &snap->kernel, NULL },
		{ "/version", &snap->version, NULL }, { "/time", NULL, &snap->wall_s },
		{ "/monotonic_ns", NULL, &snap->time_ns }, { "/tree", NULL, &snap->ino },
		{ "/schema", NULL, &loading->schema },
	};
	char *copy __free = xstrdup(path + !!*path), *rest = copy;
	const char *top = strsep(&rest, "/"), *name = strsep(&rest, "/");
	const char *file = strsep(&rest, "/");
	struct group *group;
	uint64_t element;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (strcmp(members[i].path, path) || !text)
			continue;
		if (members[i].number)
			ok = parse_number(text, members[i].number);
		else if (!*members[i].text)
			*members[i].text = shown(xstrdup(text));
	}
	loading->interval |= !strcmp(path, "/seconds");
	if (!file || strcmp(top, "groups"))
		return ok;
	if (!valid_name(name) || !valid_name(file) || (rest && !parse_number(rest, &element)))
		return false;
	group = group_of(snap, name);
	/* null: could not be read. */
	if (strcmp(file, "status"))
		return text ? add_value(row_of(snap, group, file), text) :
			      !!row_of(snap, group, file);
	if (text)
		set_status(group, text);
	return true;
}

/* Whether depmod knows a module for the running kernel. */
static bool module_installed(const struct place *place, const char *kernel)
{
	char *path __free = xasprintf("%s/lib/modules/%s/modules.dep", place->top, kernel);
	char *line __free = NULL;
	FILE *list __cleanup(file_close) = fopen(path, "re");
	size_t room = 0;

	while (list && getline(&line, &room, list) > 0)
		if (strstr(line, "tcplat.ko"))
			return true;
	return false;
}

/*
 * Read the files into @snap, or set why there are none. It is an error if they cannot be read, not
 * that the module is not loaded.
 */
void snap_try(struct snap *snap, const struct place *place)
{
	char *path __free = xasprintf("%s/kernel/tcplat", place->root);
	bool there = !access(path, F_OK) || errno != ENOENT;

	if (!there || !snap_take(snap, place))
		snap->kernel = place_sysctl(place, "kernel.osrelease");
	if (there)
		snap->why = report_status() ? "unreadable" : NULL;
	else
		snap->why = snap->kernel && module_installed(place, snap->kernel) ? "not loaded" :
			    "no module for this kernel";
}

/* Load @snap from a file or pipe with the output of 'tcplat show --json'. */
bool snap_load(struct snap *snap, const char *path)
{
	FILE *in __cleanup(file_close) = fopen(path, "re");
	char *text __free = in ? read_stream(in) : NULL;
	struct loading loading = { .snap = snap };

	memset(snap, 0, sizeof(*snap));
	if (!text) {
		report(errno == EACCES ? STATUS_DENIED : STATUS_USAGE, "%s: %s", path,
		       strerror(errno));
		return false;
	}
	if (json_parse(text, load_value, &loading) && loading.schema == SCHEMA && snap->nr_rows) {
		if (!loading.interval) {
			finish(snap);
			return true;
		}
		report(STATUS_USAGE, "%s: the counts of an interval; totals are needed", path);
	} else {
		report(STATUS_USAGE, "%s: not the output of 'tcplat show --json'", path);
	}
	snap_free(snap);
	return false;
}

struct row *snap_row(const struct snap *snap, const char *group, const char *name)
{
	for (size_t i = 0; i < snap->nr_rows; i++)
		if (!strcmp(snap->rows[i].name, name) && !strcmp(snap->rows[i].group->name, group))
			return &snap->rows[i];
	return NULL;
}

struct group *snap_group(const struct snap *snap, const char *name)
{
	for (size_t i = 0; i < snap->nr_groups; i++)
		if (!strcmp(snap->groups[i]->name, name))
			return snap->groups[i];
	return NULL;
}

/* The row of @before that can be compared with @row, or NULL. */
static const struct row *old_row(const struct snap *before, const struct row *row)
{
	const struct row *old = snap_row(before, row->group->name, row->name);

	return old && old->good && row->good && old->nr == row->nr ? old : NULL;
}

/*
 * Return whether the counters restarted between two snapshots: a reboot, a module reload, or a
 * reset after which a value is lower. A reset is not detected if all values have grown past the
 * old ones.
 */
static bool other_tree(const struct snap *now, const struct snap *before)
{
	return (now->ino && before->ino && now->ino != before->ino) ||
	       (now->boot && before->boot && strcmp(now->boot, before->boot));
}

static bool restarted(const struct snap *now, const struct snap *before)
{
	if (other_tree(now, before))
		return true;
	for (size_t i = 0; i < now->nr_rows; i++) {
		const struct row *row = &now->rows[i], *old = old_row(before, row);

		if (!old || !(row_grows(row) || row->kind == KIND_MAX))
			continue;
		for (size_t j = 0; j < row->nr; j++)
			if (row->values[j] < old->values[j])
				return true;
	}
	return false;
}

static double seconds_between(const struct snap *now, const struct snap *before)
{
	return now->time_ns && before->time_ns ? ((double)now->time_ns - before->time_ns) / 1e9 :
						 (double)now->wall_s - before->wall_s;
}

/*
 * Set the gains of all but gauges and maxima, unless @rates_only, and the rates. Return false if
 * the counters restarted between the two snapshots.
 */
bool snap_compare(struct snap *now, const struct snap *before, bool rates_only)
{
	double seconds = seconds_between(now, before);

	if (restarted(now, before))
		return false;
	if (!rates_only)
		now->seconds = seconds;
	for (size_t i = 0; i < now->nr_groups; i++) {
		const struct group *old = snap_group(before, now->groups[i]->name);

		now->groups[i]->was_off = old && old->state == STATE_OFF;
	}
	for (size_t i = 0; i < now->nr_rows; i++) {
		struct row *row = &now->rows[i];
		bool minus = row->kind == KIND_SIGNED;
		const struct row *old = minus || row_grows(row) ? old_row(before, row) : NULL;
		uint64_t gain;

		if (!old)
			continue;
		gain = *row->values - *old->values;
		row->rate = (minus ? (double)(int64_t)gain : gain) / seconds;
		if (rates_only)
			continue;
		row->gains = xreallocarray(row->gains, row->nr, sizeof(*row->gains));
		for (size_t j = 0; j < row->nr; j++)
			row->gains[j] = row->values[j] - old->values[j];
	}
	return true;
}

/* The same for readings that the user names, or took. If they cannot be compared, report why. */
bool snap_between(struct snap *now, const struct snap *before, const char *from, const char *to,
		  const char *hint)
{
	bool same = snap_compare(now, before, false), later = seconds_between(now, before) > 0;

	if (!same && (later || other_tree(now, before)))
		report(STATUS_FAULT, "the counters restarted between the two readings (reset, module reload or reboot)%s",
		       hint);
	else if (!later)
		report(STATUS_USAGE, "%s is not earlier than %s", from, to ? to : "now");
	return same && later;
}

/* Whether a shell pattern of @argv matches any of @names; those that do are marked in @used. */
bool match_any(int argc, char **argv, bool *used, const char *const names[3])
{
	bool any = false;

	for (int i = 0; i < argc; i++)
		for (size_t j = 0; j < 3 && names[j]; j++)
			if (!fnmatch(argv[i], names[j], 0)) {
				used[i] = true;
				any = true;
			}
	return any;
}

/* Whether each of @argv is in @used, which is freed. What is not is reported as "no @what". */
bool all_matched(int argc, char **argv, bool *used, const char *what)
{
	bool ok = true;

	for (int i = 0; i < argc; i++) {
		if (!used[i])
			report(STATUS_USAGE, "no %s matches '%s'", what, argv[i]);
		ok &= used[i];
	}
	free(used);
	return ok;
}

/*
 * Keep the groups and rows that a shell pattern matches as GROUP, GROUP/FILE or FILE; without
 * patterns all, also those that were removed before. Return false, which is reported, if a pattern
 * matches nothing.
 */
bool snap_keep(struct snap *snap, int argc, char **argv)
{
	size_t all = snap->nr_rows + snap->nr_removed, kept = 0, nr = 0;
	struct row *removed = xreallocarray(NULL, all, sizeof(*removed));
	bool *used = xreallocarray(NULL, argc, sizeof(*used));

	memset(used, 0, argc * sizeof(*used));
	for (size_t i = 0; i < snap->nr_groups; i++) {
		const char *const names[3] = { snap->groups[i]->name };

		snap->groups[i]->wanted = !argc || match_any(argc, argv, used, names);
	}
	qsort(snap->rows, all, sizeof(*snap->rows), compare_rows);
	for (size_t i = 0; i < all; i++) {
		struct row *row = &snap->rows[i];
		const char *const names[3] = { row->path, row->name, row->group->name };
		bool wanted = !argc || match_any(argc, argv, used, names);

		row->group->wanted |= wanted;
		if (wanted)
			snap->rows[kept++] = *row;
		else
			removed[nr++] = *row;
	}
	memcpy(snap->rows + kept, removed, nr * sizeof(*removed));
	snap->nr_rows = kept;
	snap->nr_removed = nr;
	free(removed);
	return all_matched(argc, argv, used, "group and no counter");
}
