/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_TREE_H
#define TCPLAT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcplat.h"
#include "words.h"

enum state {
	STATE_ARMED,
	STATE_OFF,
	STATE_UNAVAILABLE,
	STATE_UNKNOWN,
};

/* A file of the tree, read and parsed once, on first use. */
struct file {
	char *name;
	enum kind kind;
	enum unit unit;
	bool tried;
	bool good;		/* the values are valid */
	uint64_t *values;	/* one, or a list for KIND_HIST and KIND_BOUNDS */
	size_t nr;
};

/* A directory of the tree: a group, which has a status, or clock. */
struct group {
	char *name;
	char *path;
	char *status;		/* NULL: not loaded, unusable, or not a group */
	enum state state;
	int fd;
	struct file *files;	/* in display order */
	size_t nr_files;
};

struct tree {
	char *root;
	char *path;		/* ROOT/kernel/tcplat */
	int root_fd;
	int fd;
	struct group *groups;	/* in display order */
	size_t nr_groups;
};

bool tree_open(struct tree *tree, const char *root);
bool tree_is_there(const struct tree *tree);
void tree_close(struct tree *tree);
bool tree_scan(struct tree *tree);
bool tree_subdir(struct tree *tree, const char *name, struct group *dir);
enum state tree_state(const char *status);
struct group *tree_group(struct tree *tree, const char *name);
char *tree_group_names(const struct tree *tree);
char *tree_version(struct tree *tree);
char *place_sysctl(const struct place *place, const char *name);
char *place_release(const struct place *place);
bool tree_check_names(struct tree *tree, bool clock, int argc, char **argv);
bool name_wanted(const char *name, int argc, char **argv);
struct file *group_add_file(struct group *group, char *name, enum kind kind);
void file_free(struct file *file);

void group_load(struct group *group);
void group_close(struct group *group);
struct file *group_file(struct group *group, const char *name);
struct file *group_same_in_us(struct group *group, const struct file *file);
bool group_read(struct group *group, struct file *file);
bool group_value(struct group *group, struct file *file, uint64_t *value);
bool group_number(struct group *group, const char *name, uint64_t *value);

#endif
