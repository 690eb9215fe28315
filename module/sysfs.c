// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/tcplat, built from the tables of the groups.
 *
 * A group that is unavailable on this kernel has no counter files: a counter that reads 0
 * because nothing counts would be misleading.
 */
#include <linux/capability.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "tcplat.h"

static struct kobject *tcplat_kobj;

/* One file in a group's directory; @file is NULL for the files that all groups have. */
struct group_attr {
	struct kobj_attribute attr;
	struct tcplat_group *group;
	const struct tcplat_file *file;
};

/* A group's directory; @list has the attributes of @attrs. */
struct group_dir {
	struct attribute_group group;
	struct group_attr *attrs;
	struct attribute **list;
};

static struct group_dir *dirs;
static const struct attribute_group **dir_list;

static struct group_attr *to_group_attr(struct kobj_attribute *attr)
{
	return container_of(attr, struct group_attr, attr);
}

static ssize_t file_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tcplat_group *group = to_group_attr(attr)->group;
	const struct tcplat_file *file = to_group_attr(attr)->file;
	unsigned int i;
	int len = 0;

	if (file->mib)
		return sysfs_emit(buf, "%lld\n", tcplat_mib_read(group, file));
	if (!file->buckets)
		return sysfs_emit(buf, "%llu\n", file->read(group, file->index));
	for (i = 0; i < file->buckets - 1; i++)
		len += sysfs_emit_at(buf, len, "%llu ",
				     file->read ? file->read(group, file->index + i) : file->le[i]);
	if (!file->read)
		return len + sysfs_emit_at(buf, len, "+Inf\n");
	return len + sysfs_emit_at(buf, len, "%llu\n", file->read(group, file->index + i));
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_group_attr(attr)->group->armed));
}

/*
 * Accepts only "0" and "1", with or without one newline. kstrtobool() also accepts "yes", "off"
 * and "1 apple", which would hide mistakes in scripts.
 */
static int parse_bool(const char *buf, size_t count, bool *value)
{
	if (count == 2 && buf[1] == '\n')
		count--;
	if (count != 1 || (buf[0] != '0' && buf[0] != '1'))
		return -EINVAL;
	*value = buf[0] == '1';
	return 0;
}

/*
 * File modes alone would be enough on the host. But the root user of a container may be user 0
 * of the host and so own these files, with or without a user namespace.
 */
static int parse_control(const char *buf, size_t count, bool *value)
{
	return capable(CAP_SYS_ADMIN) ? parse_bool(buf, count, value) : -EPERM;
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	struct tcplat_group *group = to_group_attr(attr)->group;
	bool enable;
	int err;

	err = parse_control(buf, count, &enable);
	if (err)
		return err;

	mutex_lock(&tcplat_control);
	if (enable)
		err = tcplat_group_enable(group);
	else
		tcplat_group_disable(group);
	mutex_unlock(&tcplat_control);
	return err ? err : count;
}

static ssize_t status_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tcplat_group *group = to_group_attr(attr)->group;

	if (group->missing_symbol)
		return sysfs_emit(buf, "unavailable: %s\n", group->missing_symbol);
	return sysfs_emit(buf, "%s\n", tcplat_group_counts(group) ? "armed" : "off");
}

static ssize_t missed_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tcplat_group *group = to_group_attr(attr)->group;
	const struct tcplat_probe *probe;
	u64 missed = 0;

	mutex_lock(&tcplat_control);
	tcplat_for_each_probe(group, probe)
		missed += tcplat_probe_missed(probe);
	mutex_unlock(&tcplat_control);
	return sysfs_emit(buf, "%llu\n", missed);
}

/* The files that every group has; an unavailable group has only the first two. */
static const struct kobj_attribute common_attrs[] = {
	__ATTR(enabled, 0644, enabled_show, enabled_store),
	__ATTR(status, 0444, status_show, NULL),
	__ATTR(missed, 0444, missed_show, NULL),
};

#define NR_COMMON_IF_UNAVAILABLE	2

static ssize_t abi_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", TCPLAT_ABI);
}

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", TCPLAT_VERSION);
}

static ssize_t reset_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	bool reset;
	int err;

	err = parse_control(buf, count, &reset);
	if (err)
		return err;
	if (!reset)
		return -EINVAL;

	mutex_lock(&tcplat_control);
	tcplat_reset();
	mutex_unlock(&tcplat_control);
	return count;
}

static struct kobj_attribute abi_attr = __ATTR_RO(abi);
static struct kobj_attribute version_attr = __ATTR_RO(version);
static struct kobj_attribute reset_attr = __ATTR(reset, 0200, NULL, reset_store);

static struct attribute *root_attrs[] = {
	&abi_attr.attr,
	&version_attr.attr,
	&reset_attr.attr,
	NULL
};

static const struct attribute_group root_group = {
	.attrs = root_attrs,
};

static void dir_add(struct group_dir *dir, unsigned int n, struct tcplat_group *group,
		    const struct kobj_attribute *attr, const struct tcplat_file *file)
{
	struct group_attr *ga = &dir->attrs[n];

	ga->attr = *attr;
	ga->group = group;
	ga->file = file;
	sysfs_attr_init(&ga->attr.attr);
	dir->list[n] = &ga->attr.attr;
}

static int dir_build(struct group_dir *dir, struct tcplat_group *group)
{
	bool available = !group->missing_symbol;
	unsigned int common = group == &tcplat_clock ? 0 :
			      available ? ARRAY_SIZE(common_attrs) : NR_COMMON_IF_UNAVAILABLE;
	unsigned int files = available ? group->nr_files : 0;
	unsigned int i, n = 0;

	dir->attrs = kcalloc(common + files, sizeof(*dir->attrs), GFP_KERNEL);
	dir->list = kcalloc(common + files + 1, sizeof(*dir->list), GFP_KERNEL);
	if (!dir->attrs || !dir->list)
		return -ENOMEM;

	for (i = 0; i < common; i++)
		dir_add(dir, n++, group, &common_attrs[i], NULL);
	for (i = 0; i < files; i++) {
		const struct tcplat_file *file = &group->files[i];
		struct kobj_attribute attr = {
			.attr = { .name = file->name, .mode = 0444 },
			.show = file_show,
		};

		if (!file->available || file->available())
			dir_add(dir, n++, group, &attr, file);
	}
	dir->group.name = group->name;
	dir->group.attrs = dir->list;
	return 0;
}

static void dirs_free(void)
{
	unsigned int i;

	for (i = 0; dirs && i <= tcplat_nr_groups; i++) {
		kfree(dirs[i].list);
		kfree(dirs[i].attrs);
	}
	kfree(dir_list);
	kfree(dirs);
	dirs = NULL;
	dir_list = NULL;
}

/* Builds the directories of the groups, and clock/, and adds the files of the root. */
static int dirs_build(void)
{
	unsigned int i;
	int err;

	dirs = kcalloc(tcplat_nr_groups + 1, sizeof(*dirs), GFP_KERNEL);
	dir_list = kcalloc(tcplat_nr_groups + 3, sizeof(*dir_list), GFP_KERNEL);
	if (!dirs || !dir_list)
		return -ENOMEM;

	for (i = 0; i <= tcplat_nr_groups; i++) {
		err = dir_build(&dirs[i], i < tcplat_nr_groups ? tcplat_groups[i] : &tcplat_clock);
		if (err)
			return err;
		dir_list[i] = &dirs[i].group;
	}
	dir_list[i] = &root_group;
	return 0;
}

/**
 * tcplat_sysfs_create() - create /sys/kernel/tcplat
 *
 * Context: process, may sleep; the groups' availability must be known.
 * Return: 0, or -ENOMEM or the error of sysfs, with nothing created
 */
int tcplat_sysfs_create(void)
{
	int err;

	err = dirs_build();
	if (err)
		goto free;

	tcplat_kobj = kobject_create_and_add("tcplat", kernel_kobj);
	if (!tcplat_kobj) {
		err = -ENOMEM;
		goto free;
	}

	err = sysfs_create_groups(tcplat_kobj, dir_list);
	if (err)
		goto put;
	return 0;

put:
	kobject_put(tcplat_kobj);
free:
	dirs_free();
	return err;
}

/**
 * tcplat_sysfs_remove() - remove /sys/kernel/tcplat
 *
 * Waits for reads and writes in progress. There are none after the return.
 *
 * Context: process, may sleep, not under tcplat_control, which a store may hold.
 */
void tcplat_sysfs_remove(void)
{
	sysfs_remove_groups(tcplat_kobj, dir_list);
	kobject_put(tcplat_kobj);
	dirs_free();
}

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/sysfs-kunit.h"
#endif
