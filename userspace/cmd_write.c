// SPDX-License-Identifier: GPL-2.0
/* tcplat reset, enable, disable: write to the tree. */
#include <errno.h>
#include <stdlib.h>

#include "report.h"
#include "tcplat.h"
#include "text.h"
#include "tree.h"

static void run_reset(const struct place *place, int argc, char **argv)
{
	struct tree tree;
	char *path;
	int err;

	(void)argc;
	(void)argv;
	if (!tree_open(&tree, place->root))
		return;
	path = xasprintf("%s/reset", tree.path);
	err = write_text(tree.fd, "reset", "1\n");
	if (err)
		report_write(path, err, "reset");
	free(path);
	tree_close(&tree);
}

static void switch_group(struct group *group, const char *text,
			 const char *what)
{
	int err = write_text(group->fd, "enabled", text);
	char *path;

	if (!err)
		return;
	path = xasprintf("%s/enabled", group->path);
	group_load(group);
	if (err == ENODEV && group->state == STATE_UNAVAILABLE)
		report(STATUS_FAULT, "this kernel does not support group '%s': %s",
		       group->name, group->status);
	else
		report_write(path, err, what);
	free(path);
}

static void switch_groups(const struct place *place, int argc, char **argv,
			  const char *text, const char *what)
{
	struct tree tree;

	if (!tree_open(&tree, place->root))
		return;
	/* Check all names before writing anything. */
	if (tree_scan(&tree) && tree_check_names(&tree, false, argc, argv))
		for (int i = 0; i < argc; i++)
			switch_group(tree_group(&tree, argv[i]), text, what);
	tree_close(&tree);
}

static void run_enable(const struct place *place, int argc, char **argv)
{
	switch_groups(place, argc, argv, "1\n", "enable");
}

static void run_disable(const struct place *place, int argc, char **argv)
{
	switch_groups(place, argc, argv, "0\n", "disable");
}

const struct cmd cmd_reset = {
	.name = "reset",
	.brief = "Zero all counters and histograms (as root)",
	.run = run_reset,
};

const struct cmd cmd_enable = {
	.name = "enable",
	.args = "GROUP...",
	.brief = "Enable groups (as root)",
	.min_args = 1,
	.max_args = -1,
	.run = run_enable,
};

const struct cmd cmd_disable = {
	.name = "disable",
	.args = "GROUP...",
	.brief = "Disable groups (as root)",
	.doc = "A disabled group has no probes in the kernel. Its counters keep their values.",
	.min_args = 1,
	.max_args = -1,
	.run = run_disable,
};
