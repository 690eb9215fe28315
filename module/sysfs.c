// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/tcplat, built from the tables of the groups.
 *
 * A group that is unavailable on this kernel has no counter files: a counter that reads 0
 * because nothing counts would be misleading.
 */
#include <linux/capability.h>
#include <linux/completion.h>
#include <linux/kobject.h>
#include <linux/sysfs.h>

#include "tcplat.h"

static struct kobject *tcplat_kobj;

static struct tcplat_group *group_of(struct kobject *kobj)
{
	return container_of(kobj, struct tcplat_group, kobj);
}

/**
 * tcplat_file_show() - print a file of a group's table
 * @kobj: of the group
 * @attr: of the file
 * @buf: a page
 *
 * Context: process, may sleep.
 * Return: number of bytes printed
 */
ssize_t tcplat_file_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tcplat_group *group = group_of(kobj);
	const struct tcplat_file *file = container_of(attr, struct tcplat_file, attr);
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
	return sysfs_emit(buf, "%d\n", READ_ONCE(group_of(kobj)->armed));
}

/*
 * Accepts only "0" and "1", with or without one newline. kstrtobool() also accepts "yes", "off"
 * and "1 apple", which would hide mistakes in scripts.
 */
static int parse_control(const char *buf, size_t count, bool *value)
{
	/*
	 * File modes alone would be enough on the host. But the root user of a container may be
	 * user 0 of the host and so own these files, with or without a user namespace.
	 */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (count == 2 && buf[1] == '\n')
		count--;
	if (count != 1 || (buf[0] != '0' && buf[0] != '1'))
		return -EINVAL;
	*value = buf[0] == '1';
	return 0;
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	struct tcplat_group *group = group_of(kobj);
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
	const struct tcplat_group *group = group_of(kobj);

	if (group->missing_symbol)
		return sysfs_emit(buf, "unavailable: %s\n", group->missing_symbol);
	return sysfs_emit(buf, "%s\n", tcplat_group_counts(group) ? "armed" : "off");
}

static ssize_t missed_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tcplat_group *group = group_of(kobj);
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

static DECLARE_COMPLETION(dir_released);

static void dir_release(struct kobject *kobj)
{
	complete(&dir_released);
}

static const struct kobj_type dir_type = {
	.sysfs_ops = &kobj_sysfs_ops,
	.release = dir_release,
};

/* Creates a group's directory, or clock/. After an error, dir_remove() removes what there is. */
static int dir_create(struct tcplat_group *group)
{
	bool available = !group->missing_symbol;
	unsigned int common = group == &tcplat_clock ? 0 :
			      available ? ARRAY_SIZE(common_attrs) : NR_COMMON_IF_UNAVAILABLE;
	unsigned int files = available ? group->nr_files : 0;
	const struct tcplat_file *file;
	unsigned int i;
	int err;

	/* Older kernels declare the type as not const, but do not change it. */
	err = kobject_init_and_add(&group->kobj, (void *)&dir_type, tcplat_kobj, "%s", group->name);
	for (i = 0; !err && i < common; i++)
		err = sysfs_create_file(&group->kobj, &common_attrs[i].attr);
	for (file = group->files; !err && file < group->files + files; file++)
		if (!file->available || file->available())
			err = sysfs_create_file(&group->kobj, &file->attr.attr);
	return err;
}

static void dir_remove(struct tcplat_group *group)
{
	if (group->kobj.state_initialized)
		kobject_put(&group->kobj);
}

/* Kernels with CONFIG_DEBUG_KOBJECT_RELEASE release a directory seconds after it was removed. */
static void dir_wait(struct tcplat_group *group)
{
	if (group->kobj.state_initialized)
		wait_for_completion(&dir_released);
}

/**
 * tcplat_sysfs_create() - create /sys/kernel/tcplat
 *
 * Context: process, may sleep; the groups' availability must be known.
 * Return: 0, or -ENOMEM or the error of sysfs, with nothing created
 */
int tcplat_sysfs_create(void)
{
	struct tcplat_group *group;
	unsigned int i;
	int err = 0;

	tcplat_kobj = kobject_create_and_add("tcplat", kernel_kobj);
	if (!tcplat_kobj)
		return -ENOMEM;
	tcplat_for_each_group(group, i)
		err = err ?: dir_create(group);
	err = err ?: dir_create(&tcplat_clock);
	err = err ?: sysfs_create_group(tcplat_kobj, &root_group);
	if (err)
		tcplat_sysfs_remove();
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
	struct tcplat_group *group;
	unsigned int i;

	tcplat_for_each_group(group, i)
		dir_remove(group);
	dir_remove(&tcplat_clock);
	tcplat_for_each_group(group, i)
		dir_wait(group);
	dir_wait(&tcplat_clock);
	kobject_del(tcplat_kobj);
	kobject_put(tcplat_kobj);
}

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/sysfs-kunit.h"
#endif
