// SPDX-License-Identifier: GPL-2.0
/* Snapshots of the whole tree, and the difference between two. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "snap.h"
#include "text.h"

static void read_clock(struct snap *snap)
{
	snap->has_clock = tree_subdir(&snap->tree, "clock", &snap->clock);
	if (!snap->has_clock)
		return;
	group_number(&snap->clock, "hz", &snap->hz);
	group_number(&snap->clock, "tick_ns", &snap->tick_ns);
}

/* Read all values of @group. Errors are reported. */
static void read_group(struct group *group)
{
	group_load(group);
	for (size_t i = 0; i < group->nr_files; i++)
		if (group->files[i].kind != KIND_CONTROL)
			group_read(group, &group->files[i]);
}

static void drop_unwanted(struct tree *tree, int argc, char **argv)
{
	size_t kept = 0;

	for (size_t i = 0; i < tree->nr_groups; i++) {
		if (name_wanted(tree->groups[i].name, argc, argv))
			tree->groups[kept++] = tree->groups[i];
		else
			group_close(&tree->groups[i]);
	}
	tree->nr_groups = kept;
}

/**
 * snap_take - read the tree
 * @snap: filled in; call snap_free() if true is returned
 * @place: where the tree is
 * @argc: number of groups wanted; 0: all
 * @argv: their names
 *
 * Return: whether there is a tree with these groups. Errors have been reported, also those
 * of single files that could not be read.
 */
bool snap_take(struct snap *snap, const struct place *place, int argc,
	       char **argv)
{
	struct timespec now;
	struct stat st;

	memset(snap, 0, sizeof(*snap));
	if (!tree_open(&snap->tree, place->root))
		return false;
	if (!tree_scan(&snap->tree) ||
	    !tree_check_names(&snap->tree, false, argc, argv)) {
		tree_close(&snap->tree);
		return false;
	}
	drop_unwanted(&snap->tree, argc, argv);
	if (!fstat(snap->tree.fd, &st))
		snap->ino = st.st_ino;
	snap->boot = place_sysctl(place, "kernel.random.boot_id");
	read_clock(snap);
	clock_gettime(CLOCK_MONOTONIC, &now);
	snap->wall_s = time(NULL);
	snap->time_ns = now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
	for (size_t i = 0; i < snap->tree.nr_groups; i++)
		read_group(&snap->tree.groups[i]);
	return true;
}

void snap_free(struct snap *snap)
{
	if (snap->has_clock)
		group_close(&snap->clock);
	tree_close(&snap->tree);
	free(snap->boot);
	memset(snap, 0, sizeof(*snap));
}

/* Return whether the module is loaded. Reports nothing. */
bool snap_there(const struct place *place)
{
	char *path = xasprintf("%s/kernel/tcplat/abi", place->root);
	bool there = !access(path, F_OK);

	free(path);
	return there;
}

static bool grows(const struct file *file)
{
	return file->kind == KIND_COUNTER || file->kind == KIND_HIST;
}

static struct file *same_file(struct snap *snap, const struct group *group,
			      const struct file *file)
{
	struct group *other = tree_group(&snap->tree, group->name);

	return other ? group_file(other, file->name) : NULL;
}

static bool fell(struct snap *before, const struct group *group, const struct file *file)
{
	const struct file *old = same_file(before, group, file);

	if (!old || !old->good || !file->good || old->nr != file->nr ||
	    !(grows(file) || file->kind == KIND_MAX))
		return false;
	for (size_t i = 0; i < file->nr; i++)
		if (file->values[i] < old->values[i])
			return true;
	return false;
}

/*
 * Return whether the counters restarted between two snapshots: a reboot, a module
 * reload, or a reset after which a value is lower. A reset is not detected if all
 * values have grown past the old ones; the difference is then too small.
 */
bool snap_restarted(struct snap *now, struct snap *before)
{
	if (now->ino && before->ino && now->ino != before->ino)
		return true;
	if (now->boot && before->boot && strcmp(now->boot, before->boot))
		return true;
	for (size_t i = 0; i < now->tree.nr_groups; i++) {
		struct group *group = &now->tree.groups[i];

		for (size_t j = 0; j < group->nr_files; j++)
			if (fell(before, group, &group->files[j]))
				return true;
	}
	return false;
}

/* Seconds from @before to @now; 0 or less if @now is not later. */
double snap_seconds(const struct snap *now, const struct snap *before)
{
	/* Files of older versions have only the wall-clock time. */
	if (!now->time_ns || !before->time_ns)
		return (double)now->wall_s - before->wall_s;
	return ((double)now->time_ns - before->time_ns) / 1e9;
}

/* Replace the values of @file by the difference to @old, which may be NULL. */
static void subtract(struct file *file, const struct file *old)
{
	file->good = file->good && old && old->good && old->nr == file->nr;
	for (size_t i = 0; file->good && i < file->nr; i++)
		file->values[i] -= old->values[i];
}

/**
 * snap_subtract - replace the counters in @now by the difference to @before
 * @now: the later snapshot
 * @before: the earlier snapshot of the same counters (not snap_restarted())
 *
 * Maxima and gauges are removed: the maximum of an interval is unknown.
 */
void snap_subtract(struct snap *now, struct snap *before)
{
	for (size_t i = 0; i < now->tree.nr_groups; i++) {
		struct group *group = &now->tree.groups[i];
		size_t kept = 0;

		for (size_t j = 0; j < group->nr_files; j++) {
			struct file *file = &group->files[j];

			if (file->kind == KIND_MAX ||
			    file->kind == KIND_GAUGE) {
				file_free(file);
				continue;
			}
			if (grows(file))
				subtract(file,
					 same_file(before, group, file));
			group->files[kept++] = *file;
		}
		group->nr_files = kept;
	}
}

/* Sleep, resuming after signals. */
void snap_sleep(double seconds)
{
	struct timespec left = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (time_t)seconds) * 1e9),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		continue;
}
