// SPDX-License-Identifier: GPL-2.0
/*
 * Names of network namespaces, cgroups, pods and processes, which the kernel reports as numbers,
 * and the one place that makes text of whose an event is. Processes choose most of these names.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "events.h"

/* The type of a file handle with a kernfs ID; see FILEID_KERNFS in exportfs.h of the kernel. */
#define FILEID_KERNFS	0xfe
/* A line of /proc/net/tcp: local port, state and inode. */
#define LINE_OF_TCP	" %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %" SCNu64
#define LISTEN		10	/* a state there */

/* A network namespace or a socket, and what its inode belongs to. */
struct entry {
	uint64_t inode;
	uint64_t pid;		/* of a namespace the lowest; 0: it has a name */
	char *name;		/* from ip-netns(8) */
};

/* All of them, from one pass. Numbers are used again, so a map is made anew after a while. */
struct map {
	struct entry *list;
	size_t nr;
	double since;
};

#define EXPIRES		10	/* seconds; unknown inodes: 1 */

static struct map namespaces, sockets;

const char *const cgroup_mounts[] = { "fs/cgroup", "fs/cgroup/unified", NULL };

#define CGROUPS_MOST	65536

static struct cgroup {
	struct cgroup *next;
	uint64_t id;
	char *path, *pod;
} *cgroups[1024];
static size_t nr_cgroups;

static void map_free(struct map *map)
{
	for (size_t i = 0; i < map->nr; i++)
		free(map->list[i].name);
	free(map->list);
	*map = (struct map){ 0 };
}

void names_forget(void)
{
	map_free(&namespaces);
	map_free(&sockets);
	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++)
		for (struct cgroup *cgroup; (cgroup = cgroups[i]); free(cgroup)) {
			cgroups[i] = cgroup->next;
			free(cgroup->path);
			free(cgroup->pod);
		}
	nr_cgroups = 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return compare_u64(x->inode, y->inode) ?: compare_u64(x->pid, y->pid);
}

static void map_add(struct map *map, uint64_t inode, uint64_t pid, const char *name)
{
	if (!(map->nr & (map->nr - 1)))
		map->list = xreallocarray(map->list, 2 * map->nr + 1, sizeof(*map->list));
	map->list[map->nr++] = (struct entry){ inode, pid, name ? xstrdup(name) : NULL };
}

/* Return 0 if there is no such file, or it is a directory. */
static uint64_t inode_of(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, 0) || S_ISDIR(st.st_mode) ? 0 : st.st_ino;
}

/* Add the namespace that ip-netns(8) @named, or that of a process. */
static void add_netns(int dir, const char *name, void *named)
{
	char *path __free = xasprintf("%s%s", name, named ? "" : "/ns/net");
	uint64_t inode = inode_of(dir, path), pid = 0;

	if ((named || parse_number(name, &pid)) && inode)
		map_add(&namespaces, inode, pid, named ? name : NULL);
}

static void add_socket(int dir, const char *name, void *pid)
{
	char target[64];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	uint64_t inode;

	target[n < 0 ? 0 : n] = '\0';
	if (sscanf(target, "socket:[%" SCNu64, &inode) == 1)
		map_add(&sockets, inode, *(uint64_t *)pid, NULL);
}

static void add_sockets(int dir, const char *name, void *unused)
{
	char *path __free = xasprintf("%s/fd", name);
	uint64_t pid;

	(void)unused;
	if (parse_number(name, &pid))
		each_entry(dir, path, add_socket, &pid);
}

/* Return the entry of @inode; NULL if there is none. */
static const struct entry *map_find(const struct place *place, struct map *map, uint64_t inode)
{
	char *named __free = xasprintf("%s/run/netns", place->top);
	char *proc __free = xasprintf("%s/proc", place->top);
	const struct entry *found = NULL;

	for (int try = 0; try < 2 && !found; try++) {
		double age = now_seconds() - map->since;

		if (!map->since || age > (try ? 1 : EXPIRES)) {
			map_free(map);
			map->since = now_seconds();
			if (map == &namespaces)
				each_entry(AT_FDCWD, named, add_netns, map);
			each_entry(AT_FDCWD, proc, map == &namespaces ? add_netns : add_sockets,
				   NULL);
			if (map->nr)
				qsort(map->list, map->nr, sizeof(*map->list), compare_entries);
		}
		for (size_t low = 0, high = map->nr; low < high && !found; ) {
			size_t middle = (low + high) / 2;

			if (map->list[middle].inode < inode)
				low = middle + 1;
			else
				high = middle;
			if (low == high && low < map->nr && map->list[low].inode == inode)
				found = &map->list[low];
		}
	}
	return found;
}

/* The name of a thread or process, to be freed; NULL if it has ended. Not escaped. */
char *name_comm(const struct place *place, uint64_t pid)
{
	char *path __free = xasprintf("%s/proc/%" PRIu64 "/comm", place->top, pid), *comm = NULL;

	read_text(AT_FDCWD, path, &comm);
	return comm;
}

/* Return the number of the caller's namespace; 0 if unknown. */
static uint64_t own_netns(const struct place *place)
{
	char *path __free = xasprintf("%s/proc/self/ns/net", place->top);

	return inode_of(AT_FDCWD, path);
}

/*
 * The name of a network namespace: from ip-netns(8), or "of COMM (PID)" with its first process, or
 * its number; NULL if it is the caller's. To be freed, not escaped.
 */
char *name_netns(const struct place *place, uint64_t inode)
{
	char *comm __free = NULL;
	const struct entry *entry;

	if (!inode || own_netns(place) == inode)
		return NULL;
	entry = map_find(place, &namespaces, inode);
	if (!entry)
		return xasprintf("%" PRIu64, inode);
	if (entry->name)
		return xstrdup(entry->name);
	comm = name_comm(place, entry->pid);
	return xasprintf("of %s (%" PRIu64 ")", comm ? comm : "?", entry->pid);
}

/*
 * Set @inode to the number of the namespace @name: an ip-netns(8) name, which may be a number, the
 * ID of a process in it, or the number itself, which is larger than any process ID.
 */
bool netns_inode(const struct place *place, const char *name, uint64_t *inode)
{
	char *process __free = xasprintf("%s/proc/%s/ns/net", place->top, name);
	char *named __free = xasprintf("%s/run/netns/%s", place->top, name);
	uint64_t number;

	*inode = strchr(name, '/') ? 0 : inode_of(AT_FDCWD, named);
	if (!*inode && parse_number(name, &number))
		*inode = number > 1U << 22 ? number : inode_of(AT_FDCWD, process);
	return *inode;
}

/* The value of sysctl @name in a namespace, 0 for the caller's; NULL if unknown. To be freed. */
char *netns_sysctl(const struct place *place, uint64_t inode, const char *name)
{
	char *path __free = NULL, *value;
	int own __close = -1, other __close = -1;
	bool elsewhere = inode && inode != own_netns(place);
	const struct entry *entry = elsewhere ? map_find(place, &namespaces, inode) : NULL;

	if (!elsewhere || !entry)
		return elsewhere ? NULL : place_sysctl(place, name);
	path = entry->name ? xasprintf("%s/run/netns/%s", place->top, entry->name) :
			     xasprintf("%s/proc/%" PRIu64 "/ns/net", place->top, entry->pid);
	other = open(path, O_RDONLY | O_CLOEXEC);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	/* /proc/sys/net is that of the namespace of the process that opens the file. */
	if (own < 0 || other < 0 || setns(other, CLONE_NEWNET))
		return NULL;
	value = place_sysctl(place, name);
	if (setns(own, CLONE_NEWNET)) {
		report(STATUS_FAULT, "cannot return to the network namespace: %s", strerror(errno));
		exit(STATUS_FAULT);
	}
	return value;
}

/* The path of a cgroup v2 below its mount point, to be freed; NULL if it is gone. */
static char *path_of(const struct place *place, uint64_t id)
{
	struct {
		struct file_handle handle;
		uint64_t id;
	} h = {
		.handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS },
	};
	char link[64], target[4096], *path = NULL;

	memcpy(h.handle.f_handle, &id, sizeof(id));
	for (size_t i = 0; id && cgroup_mounts[i] && !path; i++) {
		char *given __free = xasprintf("%s/%s", place->root, cgroup_mounts[i]);
		char *mount __free = realpath(given, NULL);	/* as the link has it */
		int top __close = open(given, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd __close = -1;
		ssize_t n;

		if (top >= 0)
			fd = open_by_handle_at(top, &h.handle, O_PATH | O_CLOEXEC);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = fd < 0 ? -1 : readlink(link, target, sizeof(target) - 1);
		if (mount && n >= (ssize_t)strlen(mount)) {
			target[n] = '\0';
			path = xstrdup(target[strlen(mount)] ? target + strlen(mount) : "/");
		}
	}
	return path;
}

/*
 * The only entry of the directory /var/log/@name that ends in @end, without that, to be freed; NULL
 * if there is none, or several.
 */
static char *entry_of(const struct place *place, const char *name, const char *end)
{
	char *path __free = xasprintf("%s/var/log/%s", place->top, name), *found = NULL;
	DIR *dir = opendir(path);
	size_t matches = 0;

	for (struct dirent *entry; dir && (entry = readdir(dir)); ) {
		size_t len = strlen(entry->d_name), most = strlen(end);

		if (*entry->d_name == '.' || len <= most || strcmp(entry->d_name + len - most, end))
			continue;
		free(found);
		found = matches++ ? NULL : xasprintf("%.*s", (int)(len - most), entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/*
 * The name of a Kubernetes pod as NAMESPACE/POD/CONTAINER, to be freed; NULL if @cgroup is not
 * one's. The kubelet has directories of logs, pods/NAMESPACE_POD_UID/CONTAINER, and links to them,
 * containers/POD_NAMESPACE_CONTAINER-ID.log.
 */
static char *pod_of(const struct place *place, const char *cgroup)
{
	char *uid __free = NULL, *link __free = NULL, *logs __free = NULL;
	char *container __free = NULL, *pod;
	/* Users choose names in their slice. */
	const char *at = strncmp(cgroup, "/user.slice/", 12) ? strstr(cgroup, "kubepods") : NULL;
	const char *id, *name;
	size_t len = 0;

	/* kubepods/.../podUID/ID, or kubepods-...-podUID.slice/RUNTIME-ID.scope with _ for -. */
	while (at && (at = strstr(at, "pod")) &&
	       (len = strspn(at + 3, "0123456789abcdef_-")) != 36 && len != 32)
		at++;
	if (!at)
		return NULL;
	uid = xasprintf("_%.*s", (int)len, at + 3);
	for (char *p = uid; (p = strchr(p + 1, '_')); )
		*p = '-';
	pod = entry_of(place, "pods", uid);
	at = strchr(at, '/');
	if (pod && at) {
		len = strcspn(at + 1, "/.") + 1;
		id = memrchr(at, '-', len);
		id = id ? id + 1 : at + 1;
		link = xasprintf("-%.*s.log", (int)(at + len - id), id);
		logs = xasprintf("pods/%s%s", pod, uid);
		container = entry_of(place, "containers", link);
		if (!container)
			container = entry_of(place, logs, "");
		name = container ? strrchr(container, '_') : NULL;
		if (container)
			pod = xappend(pod, "/%s", name ? name + 1 : container);
	}
	if (pod && strchr(pod, '_'))
		*strchr(pod, '_') = '/';
	return pod;
}

/*
 * The path of a cgroup below its mount point, and its pod's name; NULL if unknown. Not escaped.
 * They are remembered, since the cgroup and its pod may be gone when they are next asked for.
 */
const char *name_cgroup(const struct place *place, uint64_t id, const char **pod)
{
	struct cgroup **at = &cgroups[id % ARRAY_SIZE(cgroups)];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (!*at && nr_cgroups >= CGROUPS_MOST) {
		names_forget();
		at = &cgroups[id % ARRAY_SIZE(cgroups)];
	}
	if (!*at) {
		*at = xreallocarray(NULL, 1, sizeof(**at));
		**at = (struct cgroup){ .id = id, .path = path_of(place, id) };
		(*at)->pod = (*at)->path ? pod_of(place, (*at)->path) : NULL;
		nr_cgroups++;
	}
	*pod = (*at)->pod;
	return (*at)->path;
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

int who_compare(const struct who *a, const struct who *b)
{
	const uint64_t x[] = { a->pid, a->sport, a->dport, a->netns, a->cgroup };
	const uint64_t y[] = { b->pid, b->sport, b->dport, b->netns, b->cgroup };

	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		if (x[i] != y[i])
			return compare_u64(x[i], y[i]);
	return compare_texts(a->comm, b->comm) ?: compare_texts(a->peer, b->peer) ?:
	       compare_texts(a->label, b->label);
}

/* 1, or 2 for IPv6: the peer is on this host, by way of loopback. */
unsigned int who_loopback(const struct who *who)
{
	const char *peer = who->peer ? who->peer : "";

	return !strncmp(peer, "127.", 4) ? 1 : 2 * !strcmp(peer, "::1");
}

/* The process that has a socket; if others have it, too, not PID 1, which opens it for them. */
static const struct entry *holder_of(const struct place *place, uint64_t inode)
{
	const struct entry *entry = map_find(place, &sockets, inode);

	return entry && entry->pid == 1 && entry + 1 < sockets.list + sockets.nr &&
	       entry[1].inode == inode ? entry + 1 : entry;
}

/* Set @who to the process that has a socket. Return false if it was set to another program. */
static bool set_holder(const struct place *place, struct who *who, uint64_t inode)
{
	char *comm __free = NULL;
	const struct entry *holder = holder_of(place, inode);

	if (!holder)
		return true;
	comm = name_comm(place, holder->pid);
	if (who->pid)
		return !compare_texts(who->comm, comm);
	who->pid = holder->pid;
	who->comm = comm;
	comm = NULL;
	return true;
}

/*
 * Find the process that has the socket with the local port, the listening one if there are many;
 * none if programs of different names listen on the port, at different addresses.
 */
void who_find_owner(const struct place *place, struct who *who)
{
	char *line __free = NULL;
	bool elsewhere = who->netns && who->netns != own_netns(place), one = true;
	const struct entry *entry = elsewhere ? map_find(place, &namespaces, who->netns) : NULL;
	uint64_t inode, other = 0;
	unsigned int port, state;
	size_t room = 0;

	if (who->pid || !who->sport || (elsewhere && !entry))
		return;
	/* A name has no process; any process will do, and they are next. */
	while (entry && entry->name && entry + 1 < namespaces.list + namespaces.nr &&
	       entry[1].inode == who->netns)
		entry++;
	for (int v6 = 0; v6 < 2; v6++) {
		char *process __free = entry ? xasprintf("%" PRIu64, entry->pid) : xstrdup("self");
		char *path __free = xasprintf("%s/proc/%s/net/tcp%s", place->top, process,
					      v6 ? "6" : "");
		FILE *in __cleanup(file_close) = fopen(path, "re");

		while (in && getline(&line, &room, in) > 0) {
			if (sscanf(line, LINE_OF_TCP, &port, &state, &inode) != 3 ||
			    port != who->sport || !inode)
				continue;
			if (state == LISTEN)
				one &= set_holder(place, who, inode);
			else
				other = other ?: inode;
		}
	}
	if (!who->pid && other)
		set_holder(place, who, other);
	if (!one) {
		free(who->comm);
		who->comm = NULL;
		who->pid = 0;
	}
}

void who_free(struct who *who)
{
	free(who->comm);
	free(who->peer);
	free(who->label);
}

/*
 * The names as text, to be freed: COMM (PID) PORT > PEER:PORT, the namespace, the cgroup or pod.
 * Brief: as the cell of a table.
 */
static char *text_of(const struct place *place, const struct who *who, bool brief)
{
	char *netns __free = name_netns(place, who->netns), *text __free = NULL;
	const char *pod, *cgroup = name_cgroup(place, who->cgroup, &pod);

	if (who->label)
		text = xasprintf(" %s", who->label);
	if (who->comm || who->pid)
		text = xasprintf(" %s", who->comm ? who->comm : "?");
	if (who->pid)
		text = xappend(text, " (%" PRIu64 ")", who->pid);
	if (who->sport)
		text = xappend(text, who->peer ? " %" PRIu64 " >" : " :%" PRIu64, who->sport);
	if (who->peer)
		text = xappend(text, who->dport && strchr(who->peer, ':') ? " [%s]" : " %s",
			       who->peer);
	if (who->dport)
		text = xappend(text, ":%" PRIu64, who->dport);
	if (netns)
		text = xappend(text, "%s %s", brief ? "" : " in netns", netns);
	if (pod)
		text = xappend(text, "%s %s", brief ? "" : " in pod", pod);
	else if (cgroup && (brief || strcmp(cgroup, "/")))
		text = xappend(text, "%s %s", brief ? "" : " in cgroup", cgroup);
	else if (!cgroup && who->cgroup)
		text = xappend(text, " cgroup %" PRIu64, who->cgroup);
	return xstrdup(text ? text + 1 : who->netns ? "(own)" : "?");
}

/* The same, escaped. */
char *who_text(const struct place *place, const struct who *who, bool brief)
{
	return shown(text_of(place, who, brief));
}

/* The same as members of an object. What is not known is left out. */
void who_json(const struct place *place, struct json *json, const struct who *who)
{
	char *netns __free = name_netns(place, who->netns);
	char *text __free = text_of(place, who, false);
	const char *pod, *cgroup = name_cgroup(place, who->cgroup, &pod);
	const struct {
		const char *name, *text;
		uint64_t number;
	} members[] = {
		{ "name", text, 0 }, { "comm", who->comm, 0 }, { "pid", NULL, who->pid },
		{ "local_port", NULL, who->sport }, { "peer", who->peer, 0 },
		{ "peer_port", NULL, who->dport }, { "netns", netns, 0 },
		{ "netns_inode", NULL, who->netns }, { "cgroup", cgroup, 0 },
		{ "cgroup_id", NULL, who->cgroup }, { "pod", pod, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (members[i].text)
			json_text(json, members[i].name, members[i].text);
		else if (members[i].number)
			json_u64(json, members[i].name, members[i].number);
	}
}
