// SPDX-License-Identifier: GPL-2.0
/* Names of network namespaces, cgroups and tasks, which the kernel reports as numbers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "report.h"
#include "screen.h"
#include "text.h"
#include "who.h"

/* Where ip-netns(8) keeps named namespaces. */
#define NETNS_DIR	"/run/netns"

/* The type of a file handle with a kernfs ID; see FILEID_KERNFS in exportfs.h of the kernel. */
#define FILEID_KERNFS	0xfe

/*
 * Names found in the last second, by number: a lookup may read all of /proc. Older ones are
 * forgotten, since the kernel reuses numbers.
 */
struct names {
	struct json_object *by_number;
	double since;
};

/* Set @name, to be freed, to the name of @number, which may be NULL. Return false if unknown. */
static bool recall(struct names *names, uint64_t number, char **name)
{
	char *key = xasprintf("%" PRIu64, number);
	struct json_object *found = NULL;
	bool known;

	if (!names->by_number || now_seconds() - names->since >= 1) {
		json_object_put(names->by_number);
		names->by_number = json_object_new_object();
		names->since = now_seconds();
	}
	known = json_object_object_get_ex(names->by_number, key, &found);
	*name = found ? xstrdup(json_object_get_string(found)) : NULL;
	free(key);
	return known;
}

/* Remember @name, which may be NULL. Return it. */
static char *remember(struct names *names, uint64_t number, char *name)
{
	char *key = xasprintf("%" PRIu64, number);

	json_object_object_add(names->by_number, key, json_text(name));
	free(key);
	return name;
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
 * @proc: the procfs root, or NULL
 * @inode: its number
 *
 * Return: its ip-netns(8) name, or "of COMM(PID)" with its first process, or the
 * number; NULL if it is the caller's namespace. To be freed.
 */
char *who_netns(const char *proc, uint64_t inode)
{
	static struct names names;
	uint64_t own;
	char *path, *name;

	if (!proc)
		return xasprintf("%" PRIu64, inode);
	if (recall(&names, inode, &name))
		return name;
	path = xasprintf("%s/self/ns/net", proc);
	if (!inode_of(path, &own) || own != inode) {
		name = netns_by_ip(inode);
		if (!name)
			name = netns_by_process(proc, inode);
		if (!name)
			name = xasprintf("%" PRIu64, inode);
	}
	free(path);
	return remember(&names, inode, name);
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

/* The path of open file @fd; NULL if unknown. To be freed. */
static char *path_of(int fd)
{
	char *link = xasprintf("/proc/self/fd/%d", fd);
	char target[4096];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	free(link);
	if (n < 0)
		return NULL;
	target[n] = '\0';
	return xstrdup(target);
}

/* The path of @file below @dir, "/" if they are the same; NULL if it is elsewhere. To be freed. */
static char *path_below(int dir, int file)
{
	char *top = path_of(dir), *path = path_of(file), *rest = NULL;

	if (top && path && !strncmp(path, top, strlen(top)))
		rest = xstrdup(path[strlen(top)] ? path + strlen(top) : "/");
	free(top);
	free(path);
	return rest;
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
	static struct names names;
	char *mount, *path;
	int at, fd;

	if (recall(&names, id, &path))
		return path;
	memcpy(h.handle.f_handle, &id, sizeof(id));
	for (size_t i = 0; i < ARRAY_SIZE(mounts) && !path; i++) {
		mount = xasprintf("%s/%s", root, mounts[i]);
		at = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd = at < 0 ? -1 : open_by_handle_at(at, &h.handle, O_PATH | O_CLOEXEC);
		if (fd >= 0) {
			path = path_below(at, fd);
			close(fd);
		}
		if (at >= 0)
			close(at);
		free(mount);
	}
	return remember(&names, id, path);
}

/**
 * who_task - get the name of a thread or process
 * @proc: the procfs root, or NULL
 * @pid: its ID
 *
 * Return: COMM(PID), or ?(PID) if its name is not known. To be freed.
 */
char *who_task(const char *proc, uint64_t pid)
{
	char *path = proc ? xasprintf("%s/%" PRIu64 "/comm", proc, pid) : NULL;
	char *comm = NULL, *name;

	if (!path || read_text(AT_FDCWD, path, &comm))
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
	if (!strcmp(field, "netns") && parse_number(text, &number))
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
