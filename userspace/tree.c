// SPDX-License-Identifier: GPL-2.0
/*
 * Read /sys/kernel/tcplat, or a tree of the same layout.
 *
 * The tree is untrusted: it may belong to a newer module, be a modified copy, or
 * disappear while it is being read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "tcplat.h"
#include "text.h"
#include "tree.h"
#include "words.h"

/* Replace everything but printable ASCII, since the text goes to the terminal. */
static char *make_plain(char *text)
{
	for (char *p = text; p && *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return text;
}

/* Names go to the terminal: accept only characters that the module would use. */
static bool valid_name(const char *name)
{
	return name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_-.")] == '\0';
}

typedef void (*entry_fn)(const char *name, const struct stat *st, void *arg);

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Call @fn for each entry of directory @fd, whose path is @path. */
static bool walk_entries(int fd, const char *path, entry_fn fn, void *arg)
{
	struct dirent **entries;
	int nr = scandirat(fd, ".", &entries, not_hidden, NULL);

	if (nr < 0) {
		report_read(path, errno);
		return false;
	}
	for (int i = 0; i < nr; i++) {
		const char *name = entries[i]->d_name;
		struct stat st;

		/* Errors show up when the file is read. */
		if (fstatat(fd, name, &st, 0))
			memset(&st, 0, sizeof(st));
		if (valid_name(name))
			fn(name, &st, arg);
		else
			report(STATUS_FAULT, "%s/%s: invalid name, ignored", path, name);
		free(entries[i]);
	}
	free(entries);
	return true;
}

/* Add a file to @group, not read yet. Takes ownership of @name. */
struct file *group_add_file(struct group *group, char *name, enum kind kind)
{
	struct file *file;

	group->files = xreallocarray(group->files, group->nr_files + 1,
				     sizeof(*group->files));
	file = &group->files[group->nr_files++];
	*file = (struct file){ .name = name, .kind = kind, .unit = words_unit(name) };
	return file;
}

static void add_file(const char *name, const struct stat *st, void *arg)
{
	struct group *group = arg;

	if (S_ISDIR(st->st_mode))
		return;
	/* Write-only files are controls, not counters. */
	if ((st->st_mode & 0222) && !(st->st_mode & 0444))
		return;

	group_add_file(group, xstrdup(name), words_kind(group->name, name));
}

static int compare_files(const void *a, const void *b, void *arg)
{
	const struct group *group = arg;
	const struct file *fa = a;
	const struct file *fb = b;
	unsigned int ra = words_file_rank(group->name, fa->name);
	unsigned int rb = words_file_rank(group->name, fb->name);

	if (ra != rb)
		return ra < rb ? -1 : 1;
	return strcmp(fa->name, fb->name);
}

static int compare_groups(const void *a, const void *b)
{
	const struct group *ga = a;
	const struct group *gb = b;
	unsigned int ra = words_group_rank(ga->name);
	unsigned int rb = words_group_rank(gb->name);

	if (ra != rb)
		return ra < rb ? -1 : 1;
	return strcmp(ga->name, gb->name);
}

static bool open_dir(const struct tree *tree, const char *name,
		     struct group *dir)
{
	memset(dir, 0, sizeof(*dir));
	dir->name = xstrdup(name);
	dir->path = xasprintf("%s/%s", tree->path, name);
	dir->fd = openat(tree->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd < 0) {
		report_read(dir->path, errno);
		group_close(dir);
		return false;
	}
	return true;
}

static void list_files(struct group *dir)
{
	walk_entries(dir->fd, dir->path, add_file, dir);
	/* qsort_r() must not get a NULL pointer. */
	if (dir->nr_files)
		qsort_r(dir->files, dir->nr_files, sizeof(*dir->files),
			compare_files, dir);
}

/* Parse the text of a status file. */
enum state tree_state(const char *status)
{
	static const struct {
		const char *word;
		enum state state;
	} states[] = {
		{ "armed", STATE_ARMED },
		{ "off", STATE_OFF },
		{ "unavailable", STATE_UNAVAILABLE },
	};
	size_t len = strcspn(status, " :");

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (strlen(states[i].word) == len &&
		    !strncmp(status, states[i].word, len))
			return states[i].state;
	return STATE_UNKNOWN;
}

static void read_status(struct group *group)
{
	char *path;
	int err;

	group->state = STATE_UNKNOWN;
	path = xasprintf("%s/status", group->path);
	err = read_text(group->fd, "status", &group->status);
	if (err) {
		group->status = NULL;
		report_read(path, err);
		free(path);
		return;
	}

	make_plain(group->status);
	group->state = tree_state(group->status);
	if (group->state == STATE_UNKNOWN) {
		report(STATUS_FAULT,
		       "%s: '%.40s' is not one of armed, off, unavailable",
		       path, group->status);
		free(group->status);
		group->status = NULL;
	}
	free(path);
}

static void add_group(const char *name, const struct stat *st, void *arg)
{
	struct tree *tree = arg;
	struct group group;
	char *status;
	bool other;

	if (!S_ISDIR(st->st_mode))
		return;
	status = xasprintf("%s/status", name);
	other = faccessat(tree->fd, status, F_OK, 0) && errno == ENOENT;
	free(status);
	if (other || !open_dir(tree, name, &group))
		return;
	tree->groups = xreallocarray(tree->groups, tree->nr_groups + 1,
				     sizeof(*tree->groups));
	tree->groups[tree->nr_groups++] = group;
}

/* Reject other ABIs, in which the same names may have other meanings. */
static bool check_abi(struct tree *tree)
{
	char *path = xasprintf("%s/abi", tree->path);
	uint64_t abi = 0;
	char *text = NULL;
	bool ok = false;
	int err;

	err = read_text(tree->fd, "abi", &text);
	if (err)
		report_read(path, err);
	else if (!parse_number(text, &abi))
		report_not_number(path, text);
	else if (abi != 1)
		report(STATUS_FAULT,
		       "%s: the module has ABI %.20s, this tcplat supports ABI 1; use the tcplat built with the module",
		       path, text);
	else
		ok = true;
	free(text);
	free(path);
	return ok;
}

/**
 * tree_open - open the module's tree
 * @tree: filled in; call tree_close() if true is returned
 * @root: the sysfs root
 *
 * Return: whether there is a tree with a supported ABI. Errors have been reported.
 */
bool tree_open(struct tree *tree, const char *root)
{
	memset(tree, 0, sizeof(*tree));
	tree->fd = -1;
	tree->root = xstrdup(root);
	tree->path = xasprintf("%s/kernel/tcplat", tree->root);

	tree->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->root_fd < 0) {
		report(errno == EACCES ? STATUS_DENIED : STATUS_USAGE,
		       "%s: %s; name a directory with the layout of /sys",
		       tree->root, strerror(errno));
		goto fail;
	}
	tree->fd = openat(tree->root_fd, "kernel/tcplat",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->fd < 0) {
		if (errno == ENOENT)
			report(STATUS_FAULT,
			       "not loaded; run modprobe tcplat as root, or make load in the source tree (no %s)",
			       tree->path);
		else
			report_read(tree->path, errno);
		goto fail;
	}
	if (!check_abi(tree))
		goto fail;
	return true;

fail:
	tree_close(tree);
	return false;
}

/*
 * Return whether the module that @tree was opened from is still loaded. If it was loaded again
 * meanwhile, it is another one, and triggers and events of the first are gone.
 */
bool tree_is_there(const struct tree *tree)
{
	return !faccessat(tree->fd, "abi", F_OK, 0);
}

void tree_close(struct tree *tree)
{
	for (size_t i = 0; i < tree->nr_groups; i++)
		group_close(&tree->groups[i]);
	free(tree->groups);
	free(tree->path);
	free(tree->root);
	if (tree->fd >= 0)
		close(tree->fd);
	if (tree->root_fd >= 0)
		close(tree->root_fd);
}

/* The module's version, to be freed; NULL, which is reported, if it cannot be read. */
char *tree_version(struct tree *tree)
{
	char *path = xasprintf("%s/version", tree->path);
	char *text = NULL;
	int err;

	err = read_text(tree->fd, "version", &text);
	if (err) {
		text = NULL;
		report_read(path, err);
	}
	free(path);
	return make_plain(text);
}

/* The value of sysctl @name; NULL if unknown. To be freed. */
char *place_sysctl(const struct place *place, const char *name)
{
	char *path;
	char *text = NULL;

	if (!place->proc)
		return NULL;
	path = xasprintf("%s/sys/%s", place->proc, name);
	for (char *p = path + strlen(path) - strlen(name); *p; p++)
		if (*p == '.')
			*p = '/';
	/* The kernel may not have it, or it may not be readable. */
	if (read_text(AT_FDCWD, path, &text))
		text = NULL;
	free(path);
	for (char *p = text; p && *p; p++)
		if (*p == '\t')
			*p = ' ';
	return make_plain(text);
}

/* The running kernel's release; NULL if unknown. To be freed. */
char *place_release(const struct place *place)
{
	return place_sysctl(place, "kernel.osrelease");
}

/* Find the groups: directories with a status file. */
bool tree_scan(struct tree *tree)
{
	if (!walk_entries(tree->fd, tree->path, add_group, tree))
		return false;
	if (!tree->nr_groups) {
		report(STATUS_FAULT, "%s: no groups found", tree->path);
		return false;
	}
	qsort(tree->groups, tree->nr_groups, sizeof(*tree->groups),
	      compare_groups);
	return true;
}

/* Open a directory that is not a group. Call group_close() if true is returned. */
bool tree_subdir(struct tree *tree, const char *name, struct group *dir)
{
	if (!open_dir(tree, name, dir))
		return false;
	list_files(dir);
	return true;
}

struct group *tree_group(struct tree *tree, const char *name)
{
	for (size_t i = 0; i < tree->nr_groups; i++)
		if (!strcmp(tree->groups[i].name, name))
			return &tree->groups[i];
	return NULL;
}

/* The names of the groups, for a message. To be freed. */
char *tree_group_names(const struct tree *tree)
{
	char *names = xstrdup("");

	for (size_t i = 0; i < tree->nr_groups; i++)
		names = xappend(names, "%s%s", i ? " " : "", tree->groups[i].name);
	return names;
}

/* Return whether @name is in @argv. An empty @argv means all. */
bool name_wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return !argc;
}

/* Check that each name is a group, or "clock" if @clock. Errors are reported. */
bool tree_check_names(struct tree *tree, bool clock, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *names;

		if ((clock && !strcmp(argv[i], "clock")) ||
		    tree_group(tree, argv[i]))
			continue;
		names = tree_group_names(tree);
		report(STATUS_USAGE, "unknown group '%s'; available: %s%s",
		       argv[i], clock ? "clock " : "", names);
		free(names);
		return false;
	}
	return true;
}

/* Read the status of a group and list its files. */
void group_load(struct group *group)
{
	read_status(group);
	list_files(group);
}

void file_free(struct file *file)
{
	free(file->name);
	free(file->values);
}

void group_close(struct group *group)
{
	for (size_t i = 0; i < group->nr_files; i++)
		file_free(&group->files[i]);
	free(group->files);
	free(group->name);
	free(group->path);
	free(group->status);
	if (group->fd >= 0)
		close(group->fd);
}

struct file *group_file(struct group *group, const char *name)
{
	for (size_t i = 0; i < group->nr_files; i++)
		if (!strcmp(group->files[i].name, name))
			return &group->files[i];
	return NULL;
}

/* Return the file with the same value as @file in microseconds, or NULL. */
struct file *group_same_in_us(struct group *group, const struct file *file)
{
	char *name = xasprintf("%.*s_us", (int)words_stem(file->name),
			       file->name);
	struct file *us = group_file(group, name);

	free(name);
	return us == file ? NULL : us;
}

static bool parse_file(struct file *file, const char *text)
{
	switch (file->kind) {
	case KIND_HIST:
		file->nr = parse_list(text, NULL, &file->values);
		return file->nr;
	case KIND_BOUNDS:
		file->nr = parse_list(text, "+Inf", &file->values);
		return file->nr || !strcmp(text, "+Inf");
	case KIND_COUNTER:
	case KIND_GAUGE:
	case KIND_MAX:
	case KIND_CONTROL:
	default:
		file->nr = 1;
		file->values = xreallocarray(NULL, 1, sizeof(*file->values));
		return parse_number(text, file->values);
	}
}

static void report_unparsed(const char *path, enum kind kind, const char *text)
{
	if (kind == KIND_HIST)
		report(STATUS_FAULT, "%s: not a list of numbers from 0 to 2^64-1", path);
	else if (kind == KIND_BOUNDS)
		report(STATUS_FAULT, "%s: not a list of numbers that ends in +Inf", path);
	else
		report_not_number(path, text);
}

/* Read @file unless already done. Return whether it is valid. Errors are reported once. */
bool group_read(struct group *group, struct file *file)
{
	char *path, *text = NULL;
	int err;

	if (file->tried)
		return file->good;
	file->tried = true;
	path = xasprintf("%s/%s", group->path, file->name);
	err = read_text(group->fd, file->name, &text);
	if (err) {
		report_read(path, err);
	} else {
		file->good = parse_file(file, text);
		if (!file->good)
			report_unparsed(path, file->kind, text);
		free(text);
	}
	free(path);
	return file->good;
}

/* Get the number in @file. Errors are reported once. */
bool group_value(struct group *group, struct file *file, uint64_t *value)
{
	if (!group_read(group, file))
		return false;
	*value = file->values[0];
	return true;
}

/* Get the number in the file @name. A missing file is not an error. */
bool group_number(struct group *group, const char *name, uint64_t *value)
{
	struct file *file = group_file(group, name);

	return file && group_value(group, file, value);
}
