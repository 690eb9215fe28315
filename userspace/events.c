// SPDX-License-Identifier: GPL-2.0
/* The module's tracepoints, and filters for them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "events.h"

/* The kernel rejects longer filters. */
#define CGROUPS_MAX	64

const struct source sources[] = {
#define TABLE_COLUMNS
#include "tables.inc"
};

const size_t nr_sources = ARRAY_SIZE(sources);

/* An address as the events have it, or a pattern, to be freed; NULL if @text is neither. */
static char *peer_text(const char *text)
{
	static const int families[] = { AF_INET, AF_INET6 };
	char *peer = xreallocarray(NULL, strlen(text) + INET6_ADDRSTRLEN, 1);
	struct in6_addr address;

	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		if (inet_pton(families[i], text, &address) == 1) {
			inet_ntop(families[i], &address, peer, INET6_ADDRSTRLEN);
			return peer;
		}
	for (size_t i = 0; i <= strlen(text); i++)
		peer[i] = (char)tolower((unsigned char)text[i]);
	/* Filters have no escapes, so accept only characters of addresses in patterns. */
	if (strchr(peer, '*') && strspn(peer, "0123456789abcdef.:*") == strlen(peer))
		return peer;
	free(peer);
	return NULL;
}

/* A filter for a cgroup and all below it, @nr in all, to be freed; NULL: there is none. */
static char *cgroup_ids(const struct place *place, const char *name, unsigned int *nr)
{
	char *ids = NULL;

	*nr = 0;
	for (size_t i = 0; cgroup_mounts[i] && !ids; i++) {
		char *path __free = xasprintf("%s/%s/%s", place->root, cgroup_mounts[i], name);
		FTS *tree = fts_open((char *[]){ path, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
		const FTSENT *entry;

		while (tree && (entry = fts_read(tree)))
			if (entry->fts_info == FTS_D && (*nr)++ < CGROUPS_MAX)
				ids = xappend(ids, "%scgroup == %" PRIu64, ids ? " || " : "",
					      (uint64_t)entry->fts_statp->st_ino);
		if (tree)
			fts_close(tree);
	}
	return ids;
}

/* Check what the user selected, and find the cgroups. Errors are reported. */
bool selection_check(const struct place *place, struct selection *s)
{
	char *peer __free = s->peer ? peer_text(s->peer) : NULL;
	unsigned int nr = 0;
	uint64_t inode;

	if (s->cgroup)
		s->cgroup_ids = cgroup_ids(place, s->cgroup, &nr);
	if (s->peer && !peer)
		report(STATUS_USAGE, "--peer '%s': not an address, or a pattern such as 10.9.*",
		       s->peer);
	else if (s->port > 65535)
		report(STATUS_USAGE, "--port %" PRIu64 ": not a port", s->port);
	else if (s->least_ms > UINT64_MAX / 1000000)
		report(STATUS_USAGE, "--min-ms %" PRIu64 ": too long", s->least_ms);
	else if (s->netns && !netns_inode(place, s->netns, &inode))
		report(STATUS_USAGE, "no network namespace '%s'; give a name from 'ip netns', or the ID of a process in it",
		       s->netns);
	else if (s->comm && (strlen(s->comm) > 15 || strpbrk(s->comm, "\"\n")))
		report(STATUS_USAGE, "--comm '%s': not the name of a process, of up to 15 bytes",
		       s->comm);
	else if (s->cgroup && !s->cgroup_ids)
		report(STATUS_USAGE, "no cgroup '%s' below /sys/fs/cgroup", s->cgroup);
	else if (nr > CGROUPS_MAX)
		report(STATUS_USAGE, "cgroup '%s' and those below it are more than %d; name one below it",
		       s->cgroup, CGROUPS_MAX);
	else
		return true;
	return false;
}

/* Add the condition @part. Both are freed. */
static char *and(char *filter, char *part)
{
	char *condition __free = part;

	return xappend(filter, "%s(%s)", filter ? " && " : "", condition);
}

/*
 * The kernel's filter for the events of @source, to be freed; NULL: all events. @possible is set to
 * false if the user selected what these events do not have.
 */
char *selection_filter(const struct place *place, const struct selection *s,
		       const struct source *source, bool *possible)
{
	char *peer __free = s->peer ? peer_text(s->peer) : NULL;
	char *filter = source->filter ? and(NULL, xstrdup(source->filter)) : NULL;
	const char *is = peer && strchr(peer, '*') ? "~" : "==";
	uint64_t inode;

	*possible = !(s->least_ms && !source->time) &&
		    !((s->comm || s->pid) && source->owner == OWNER_UNKNOWN);
	/* An IPv6 socket's peer may have an IPv4 address: ::ffff:10.0.0.1. */
	if (peer && strchr(peer, ':'))
		filter = and(filter, xasprintf("peer %s \"%s\"", is, peer));
	else if (peer)
		filter = and(filter, xasprintf("peer %s \"%s\" || peer %s \"::ffff:%s\"", is, peer,
					       is, peer));
	if (s->port)
		filter = and(filter, xasprintf("sport == %" PRIu64 " || dport == %" PRIu64,
					       s->port, s->port));
	if (s->netns && netns_inode(place, s->netns, &inode))
		filter = and(filter, xasprintf("netns == %" PRIu64, inode));
	if (s->cgroup_ids)
		filter = and(filter, xstrdup(s->cgroup_ids));
	if (s->comm)
		filter = and(filter, xasprintf("comm == \"%s\"", s->comm));
	if (s->pid)
		filter = and(filter, xasprintf("%s == %" PRIu64, source->owner == OWNER_FIELDS ?
					       "pid" : "common_pid", s->pid));
	if (s->least_ms && source->time)
		filter = and(filter, xasprintf("%s >= %" PRIu64, source->time, s->least_ms *
					       (strstr(source->time, "_us") ? 1000 : 1000000)));
	return filter;
}
