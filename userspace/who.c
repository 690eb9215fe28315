// SPDX-License-Identifier: GPL-2.0
/* Names of network namespaces, cgroups and tasks, which the kernel reports as numbers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "text.h"
#include "who.h"

/* Where ip-netns(8) keeps named namespaces. */
#define NETNS_DIR	"/run/netns"

/* The type of a file handle with a kernfs ID; see FILEID_KERNFS in exportfs.h of the kernel. */
#define FILEID_KERNFS	0xfe

/* A cache of the last lookup, since events of one socket often follow each other. */
struct last_name {
	uint64_t number;
	char *name;
	bool known;
};

static char *copy_name(const struct last_name *last)
{
	return last->name ? xstrdup(last->name) : NULL;
}

static char *remember(struct last_name *last, uint64_t number, char *name)
{
	free(last->name);
	*last = (struct last_name){ .number = number, .name = name, .known = true };
	return copy_name(last);
}

static bool inode_of(const char *path, uint64_t *inode)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	*inode = st.st_ino;
	return true;
}

static char *netns_by_ip(uint64_t inode)
{
	DIR *dir = opendir(NETNS_DIR);
	struct dirent *entry;
	char *name = NULL;
	struct stat st;

	while (!name && dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && !fstatat(dirfd(dir), entry->d_name, &st, 0) &&
		    st.st_ino == inode)
			name = xstrdup(entry->d_name);
	if (dir)
		closedir(dir);
	return name;
}

/* Name it after its process with the lowest ID, usually the first of a container. */
static char *netns_by_process(const char *proc, uint64_t inode)
{
	DIR *dir = opendir(proc);
	struct dirent *entry;
	uint64_t pid, lowest = 0, found;
	char *path, *task, *name = NULL;

	while (dir && (entry = readdir(dir))) {
		if (!parse_number(entry->d_name, &pid) || (lowest && pid > lowest))
			continue;
		path = xasprintf("%s/%" PRIu64 "/ns/net", proc, pid);
		if (inode_of(path, &found) && found == inode)
			lowest = pid;
		free(path);
	}
	if (dir)
		closedir(dir);
	if (lowest) {
		task = who_task(proc, lowest);
		name = xasprintf("of %s", task);
		free(task);
	}
	return name;
}

/**
 * who_netns - get the name of a network namespace
 * @proc: the procfs root
 * @inode: its number
 *
 * Return: its ip-netns(8) name, or "of COMM(PID)" with its first process, or the
 * number; NULL if it is the caller's namespace. To be freed.
 */
char *who_netns(const char *proc, uint64_t inode)
{
	static struct last_name last;
	uint64_t own;
	char *path, *name = NULL;

	if (last.known && last.number == inode)
		return copy_name(&last);
	path = xasprintf("%s/self/ns/net", proc);
	if (!inode_of(path, &own) || own != inode) {
		name = netns_by_ip(inode);
		if (!name)
			name = netns_by_process(proc, inode);
		if (!name)
			name = xasprintf("%" PRIu64, inode);
	}
	free(path);
	return remember(&last, inode, name);
}

/**
 * who_netns_inode - get the number of a network namespace
 * @proc: the procfs root
 * @name: an ip-netns(8) name, the ID of a process in it, or the number itself
 * @inode: set to the number
 *
 * Namespace numbers are larger than any process ID.
 *
 * Return: whether there is such a namespace
 */
bool who_netns_inode(const char *proc, const char *name, uint64_t *inode)
{
	char *path;
	bool found;

	if (strchr(name, '/'))
		return false;
	if (parse_number(name, inode)) {
		if (*inode > 1U << 22)
			return true;
		path = xasprintf("%s/%s/ns/net", proc, name);
	} else {
		path = xasprintf(NETNS_DIR "/%s", name);
	}
	found = inode_of(path, inode);
	free(path);
	return found;
}

/**
 * who_cgroup - get the path of a cgroup v2
 * @root: the sysfs root
 * @id: its ID
 *
 * Return: the path below the mount point, or NULL if not found. To be freed.
 */
char *who_cgroup(const char *root, uint64_t id)
{
	static const char *const mounts[] = { "fs/cgroup", "fs/cgroup/unified" };
	struct {
		struct file_handle handle;
		uint64_t id;
	} h = {
		.handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS },
	};
	static struct last_name last;
	char target[4096], *mount, *link, *path = NULL;
	ssize_t n;
	int at, fd;

	if (last.known && last.number == id)
		return copy_name(&last);
	memcpy(h.handle.f_handle, &id, sizeof(id));
	for (size_t i = 0; i < ARRAY_SIZE(mounts) && !path; i++) {
		mount = xasprintf("%s/%s", root, mounts[i]);
		at = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd = at < 0 ? -1 : open_by_handle_at(at, &h.handle, O_PATH | O_CLOEXEC);
		if (fd >= 0) {
			link = xasprintf("/proc/self/fd/%d", fd);
			n = readlink(link, target, sizeof(target) - 1);
			free(link);
			if (n >= (ssize_t)strlen(mount) && !strncmp(target, mount, strlen(mount))) {
				target[n] = '\0';
				path = xstrdup(target[strlen(mount)] ?
					       target + strlen(mount) : "/");
			}
			close(fd);
		}
		if (at >= 0)
			close(at);
		free(mount);
	}
	return remember(&last, id, path);
}

/**
 * who_task - get the name of a thread or process
 * @proc: the procfs root
 * @pid: its ID
 *
 * Return: COMM(PID), or ?(PID) if it is gone. To be freed.
 */
char *who_task(const char *proc, uint64_t pid)
{
	char *path = xasprintf("%s/%" PRIu64 "/comm", proc, pid);
	char *comm = NULL, *name;

	if (read_text(AT_FDCWD, path, &comm))
		comm = NULL;
	name = xasprintf("%s(%" PRIu64 ")", comm ? comm : "?", pid);
	free(comm);
	free(path);
	return name;
}

/* Format value @text of @field; NULL to leave it out. To be freed. */
static char *who_field(const struct place *place, const char *field, const char *text,
		       const char *next)
{
	uint64_t number;
	char *name;

	if (!strcmp(field, "cookie"))
		return NULL;
	if (!strcmp(field, "pid"))
		return xasprintf("(%s)", text);
	if (!strcmp(field, "dport"))
		return xasprintf(":%s", text);
	if (!strcmp(field, "peer") && next && !strcmp(next, "dport") && strchr(text, ':'))
		return xasprintf("[%s]", text);
	if (!strcmp(field, "netns") && place->proc && parse_number(text, &number))
		return who_netns(place->proc, number);
	if (!strcmp(field, "cgroup") && parse_number(text, &number)) {
		name = who_cgroup(place->root, number);
		if (!name && number)
			name = xasprintf("cgroup %" PRIu64, number);
		return name;
	}
	return xstrdup(text);
}

/**
 * who_key - format the key of a histogram entry
 * @place: where to look up names
 * @fields: the fields of the key, comma-separated
 * @key: their values, tab-separated
 *
 * Return: for example COMM(PID), PORT > ADDRESS:PORT, a cgroup, a namespace unless it is
 * the caller's, separated by blanks. To be freed.
 */
char *who_key(const struct place *place, const char *fields, const char *key)
{
	/* A thread has two values. */
	static const char thread[] = "common_pid.execname";
	bool threads = !strncmp(fields, thread, strlen(thread));
	char *names = xasprintf("%s%s", threads ? "comm,pid" : "",
				threads ? fields + strlen(thread) : fields);
	char *values = xstrdup(key);
	char *save_name = NULL, *save_value = NULL, *all = xstrdup("");
	const char *field = strtok_r(names, ",", &save_name), *before = "";
	const char *value = strtok_r(values, "\t", &save_value);

	while (field && value) {
		const char *next = strtok_r(NULL, ",", &save_name);
		const char *between = " ";
		char *name = who_field(place, field, value, next);

		if (!*all || !strcmp(field, "pid") || !strcmp(field, "dport"))
			between = "";
		else if (!strcmp(before, "sport"))
			between = " > ";
		if (name)
			all = xappend(all, "%s%s", between, name);
		free(name);
		before = field;
		field = next;
		value = strtok_r(NULL, "\t", &save_value);
	}
	if (!*all) {
		free(all);
		all = xstrdup(strcmp(fields, "netns") ? key : "(own)");
	}
	free(names);
	free(values);
	return all;
}
