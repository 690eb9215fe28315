// SPDX-License-Identifier: GPL-2.0
/* tcplat trace: print a line for each event of the module's tracepoints. */
#include <argp.h>
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tracefs.h>
#include <unistd.h>

#include "draw.h"
#include "instance.h"
#include "json.h"
#include "report.h"
#include "screen.h"
#include "snap.h"
#include "text.h"
#include "tree.h"
#include "who.h"

#define NSEC_PER_SEC	1000000000LL

/* Seconds between reads of the kernel's buffer. */
#define ROUND		0.1

/*
 * The tracepoints. A line of output names the group, and also the event unless it is the
 * first tracepoint of its group.
 */
static const struct source {
	const char *group;
	const char *event;
	const char *time;	/* field with the duration; NULL: none */
	uint64_t ns;		/* per unit of @time */
	const char *fields;	/* other fields to print */
} sources[] = {
	{ "delack", "delack_timeout", "delay_us", 1000, "mode asked_jiffies late_jiffies" },
	{ "delack", "ack_stall", "stall_us", 1000, "stall_jiffies" },
	{ "ackmode", "ack_mode", NULL, 0, "from mode cause" },
	{ "portsearch", "port_search", "time_ns", 1, "iterations error" },
	{ "sndwait", "snd_wait", "time_ns", 1, "kind error" },
	{ "sndhold", "snd_hold", "time_ns", 1, "cause bytes" },
	{ "idlerestart", "idle_restart", "idle_us", 1000, "cwnd_before cwnd" },
};

/* Names of the values of a field; Documentation/tracepoints.md defines them. */
static const struct value_names {
	const char *group;	/* NULL: any */
	const char *field;
	const char *names[14];
} value_names[] = {
	{ NULL, "mode", { "delayed", "quickack", "pingpong", "route" } },
	{ NULL, "from", { "delayed", "quickack", "pingpong", "route" } },
	{ "ackmode", "cause", { "none", "timeout", "setsockopt", "first", "gap", "duplicate",
				"ecn", "handshake", "budget", "answer", "fin", "window",
				"route", "disconnect" } },
	{ "sndhold", "cause", { NULL, "nagle", "cork" } },
	{ "sndwait", "kind", { "slept", "again", "gave_up" } },
};

struct trace {
	const struct place *place;
	struct tep_handle *tep;
	int ids[ARRAY_SIZE(sources)];	/* of the events; -1: not traced */
	int64_t wall_ns;		/* wall-clock time at 0 of the trace clock */
	uint64_t events;
	uint64_t lost;
	bool uncounted;			/* more were lost */
};

static char peer[INET6_ADDRSTRLEN];
static const char *netns, *output;
static uint64_t port, least_ms, most_events;
static double most_seconds;
static bool as_json;

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* The first tracepoint of @group; NULL if it has none. */
static const struct source *source_of(const char *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (!strcmp(sources[i].group, group))
			return &sources[i];
	return NULL;
}

/* ---- filters ---- */

/*
 * Set @peer to an address in the form that the events have, or to a pattern. Filters have no
 * escapes, so accept only characters of addresses in patterns.
 */
static bool parse_peer(const char *text)
{
	struct in6_addr a6;
	struct in_addr a4;

	if (strlen(text) >= sizeof(peer))
		return false;
	if (inet_pton(AF_INET, text, &a4) == 1)
		return inet_ntop(AF_INET, &a4, peer, sizeof(peer));
	if (inet_pton(AF_INET6, text, &a6) == 1)
		return inet_ntop(AF_INET6, &a6, peer, sizeof(peer));
	for (size_t i = 0; i <= strlen(text); i++)
		peer[i] = (char)tolower((unsigned char)text[i]);
	return strchr(peer, '*') && strspn(peer, "0123456789abcdef.:*") == strlen(peer);
}

/* An IPv6 socket's peer may have an IPv4 address: ::ffff:10.0.0.1. To be freed. */
static char *peer_filter(void)
{
	const char *is = strchr(peer, '*') ? "~" : "==";

	if (strchr(peer, ':'))
		return xasprintf("peer %s \"%s\"", is, peer);
	return xasprintf("(peer %s \"%s\" || peer %s \"::ffff:%s\")", is, peer, is, peer);
}

/* The kernel's filter for the events of @source; NULL: none. To be freed. */
static char *filter_of(const struct source *source, uint64_t netns_inode)
{
	char *filter = *peer ? peer_filter() : NULL;

	if (port)
		filter = xappend(filter, "%s(sport == %" PRIu64 " || dport == %" PRIu64 ")",
				 filter ? " && " : "", port, port);
	if (netns)
		filter = xappend(filter, "%snetns == %" PRIu64, filter ? " && " : "", netns_inode);
	if (least_ms)
		filter = xappend(filter, "%s%s >= %" PRIu64, filter ? " && " : "", source->time,
				 least_ms * 1000000 / source->ns);
	return filter;
}

/* ---- lines ---- */

static uint64_t value_of(struct tep_event *event, const char *name, struct tep_record *record)
{
	struct tep_format_field *field = tep_find_any_field(event, name);
	unsigned long long value = 0;

	if (!field || tep_read_number_field(field, record->data, &value))
		return 0;
	/* tep_read_number_field() does not sign-extend. */
	return field->flags & TEP_FIELD_IS_SIGNED && field->size == 4 ?
	       (uint64_t)(int32_t)value : value;
}

static const char *text_of(struct tep_event *event, const char *name, struct tep_record *record)
{
	struct tep_format_field *field = tep_find_field(event, name);

	return field ? (const char *)record->data + field->offset : "";
}

/* Format a struct sockaddr_in or sockaddr_in6 as ADDRESS:PORT. */
static void format_address(struct tep_event *event, const char *name, struct tep_record *record,
			   char *text, size_t size)
{
	struct tep_format_field *field = tep_find_field(event, name);
	char ip[INET6_ADDRSTRLEN];
	struct sockaddr_in6 a6;
	struct sockaddr_in a4;

	snprintf(text, size, "-");
	if (!field || (size_t)field->size < sizeof(a6))
		return;
	memcpy(&a4, (const char *)record->data + field->offset, sizeof(a4));
	memcpy(&a6, (const char *)record->data + field->offset, sizeof(a6));
	if (a4.sin_family == AF_INET)
		snprintf(text, size, "%s:%u", inet_ntop(AF_INET, &a4.sin_addr, ip, sizeof(ip)),
			 ntohs(a4.sin_port));
	else if (a4.sin_family == AF_INET6)
		snprintf(text, size, "[%s]:%u", inet_ntop(AF_INET6, &a6.sin6_addr, ip, sizeof(ip)),
			 ntohs(a6.sin6_port));
}

static const char *value_name(const struct source *source, const char *field, uint64_t value)
{
	for (size_t i = 0; i < ARRAY_SIZE(value_names); i++) {
		const struct value_names *m = &value_names[i];

		if (!strcmp(m->field, field) && (!m->group || !strcmp(m->group, source->group)))
			return value < ARRAY_SIZE(m->names) ? m->names[value] : NULL;
	}
	return NULL;
}

/*
 * The task responsible: the writer of held data, or the caller if the event runs in its
 * context. NULL if unknown. To be freed.
 */
static char *task_of(const struct trace *trace, const struct source *source,
		     struct tep_event *event, struct tep_record *record)
{
	char comm[32];
	uint64_t pid;

	if (!strcmp(source->group, "sndhold")) {
		pid = value_of(event, "pid", record);
		snprintf(comm, sizeof(comm), "%.16s", text_of(event, "comm", record));
		return pid ? xasprintf("%s(%" PRIu64 ")", comm, pid) : NULL;
	}
	if (strcmp(source->group, "portsearch") &&
	    (strcmp(source->group, "sndwait") || value_of(event, "kind", record)))
		return NULL;
	return who_task(trace->place->proc, value_of(event, "common_pid", record));
}

/* What a line of text or a JSON object is made of. */
struct line {
	const struct source *source;
	int64_t wall_ns;
	char saddr[64];
	char daddr[64];
	bool timed;
	uint64_t time_ns;
	char *netns;
	char *cgroup;
	char *task;
	uint64_t cookie;
};

static void print_text(const struct line *line, struct tep_event *event, struct tep_record *record)
{
	char *fields = xstrdup(line->source->fields), *save = NULL;
	char *time = line->timed ? draw_time(line->time_ns) : xasprintf("-");
	time_t seconds = line->wall_ns / NSEC_PER_SEC;
	char clock[16];
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(clock, sizeof(clock), "%T", &tm);
	printf("%s.%06d %-11s %s > %s %s", clock, (int)(line->wall_ns % NSEC_PER_SEC / 1000),
	       line->source->group, line->saddr, line->daddr, time);
	if (line->source != source_of(line->source->group))
		printf(" event=%s", line->source->event);
	for (char *f = strtok_r(fields, " ", &save); f; f = strtok_r(NULL, " ", &save)) {
		uint64_t value = value_of(event, f, record);
		const char *name = value_name(line->source, f, value);

		if (name)
			printf(" %s=%s", f, name);
		else
			printf(" %s=%" PRId64, f, (int64_t)value);
	}
	if (line->task)
		printf(" task=%s", line->task);
	if (line->netns)
		printf(" netns=%s", line->netns);
	if (line->cgroup)
		printf(" cgroup=%s", line->cgroup);
	putchar('\n');
	free(time);
	free(fields);
}

static void print_json(const struct line *line, struct tep_event *event, struct tep_record *record)
{
	struct json_object *object = json_object_new_object();
	char *fields = xstrdup(line->source->fields), *save = NULL;

	json_object_object_add(object, "time_unix_ns", json_object_new_int64(line->wall_ns));
	json_object_object_add(object, "group", json_text(line->source->group));
	json_object_object_add(object, "event", json_text(line->source->event));
	json_object_object_add(object, "saddr", json_text(line->saddr));
	json_object_object_add(object, "daddr", json_text(line->daddr));
	json_object_object_add(object, "time_ns", line->timed ?
			       json_object_new_uint64(line->time_ns) : NULL);
	for (char *f = strtok_r(fields, " ", &save); f; f = strtok_r(NULL, " ", &save)) {
		uint64_t value = value_of(event, f, record);
		const char *name = value_name(line->source, f, value);

		json_object_object_add(object, f, name ? json_text(name) :
				       json_object_new_int64((int64_t)value));
	}
	json_object_object_add(object, "task", json_text(line->task));
	json_object_object_add(object, "netns", json_text(line->netns));
	json_object_object_add(object, "cgroup", json_text(line->cgroup));
	json_object_object_add(object, "cookie", json_object_new_uint64(line->cookie));
	json_print(object, false);
	free(fields);
}

static int show(struct tep_event *event, struct tep_record *record, int cpu, void *context)
{
	struct trace *trace = context;
	struct line line = { 0 };
	uint64_t cgroup;

	(void)cpu;
	/* -1: there was no room to store how many. */
	trace->uncounted |= record->missed_events < 0;
	trace->lost += record->missed_events < 0 ? 1 : record->missed_events;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (trace->ids[i] == event->id)
			line.source = &sources[i];
	if (!line.source || (most_events && trace->events >= most_events))
		return 0;
	trace->events++;
	line.wall_ns = (int64_t)record->ts + trace->wall_ns;
	format_address(event, "saddr", record, line.saddr, sizeof(line.saddr));
	format_address(event, "daddr", record, line.daddr, sizeof(line.daddr));
	line.timed = line.source->time;
	if (line.timed)
		line.time_ns = value_of(event, line.source->time, record) * line.source->ns;
	line.netns = who_netns(trace->place->proc, value_of(event, "netns", record));
	/* ID 1 is the root cgroup: not in a container. */
	cgroup = value_of(event, "cgroup", record);
	line.cgroup = cgroup > 1 ? who_cgroup(trace->place->root, cgroup) : NULL;
	line.task = task_of(trace, line.source, event, record);
	line.cookie = value_of(event, "cookie", record);
	if (as_json)
		print_json(&line, event, record);
	else
		print_text(&line, event, record);
	free(line.netns);
	free(line.cgroup);
	free(line.task);
	return 0;
}

/* ---- tracing ---- */

/* Enable tracepoint @i. Return false, which is reported, if that fails. */
static bool enable_event(struct trace *trace, size_t i, uint64_t netns_inode)
{
	char *filter = filter_of(&sources[i], netns_inode);
	char *file = xasprintf("events/tcplat/%s/filter", sources[i].event);
	struct tep_event *event = tep_find_event_by_name(trace->tep, "tcplat", sources[i].event);
	int err = event ? 0 : ENOENT;

	if (!err && filter)
		err = instance_write(file, filter);
	free(file);
	if (!err) {
		file = xasprintf("events/tcplat/%s/enable", sources[i].event);
		err = instance_write(file, "1");
		free(file);
	}
	if (err)
		report(STATUS_FAULT, "cannot use tracepoint tcplat:%s: %s",
		       sources[i].event, strerror(err));
	else
		trace->ids[i] = event->id;
	free(filter);
	return !err;
}

static void follow(struct trace *trace, const struct tree *tree,
		   struct tracefs_instance *instance)
{
	int64_t end = most_seconds ? clock_ns(CLOCK_MONOTONIC) +
				     (int64_t)(most_seconds * NSEC_PER_SEC) : 0;

	while (!stopped() && (!most_events || trace->events < most_events)) {
		bool last = end && clock_ns(CLOCK_MONOTONIC) >= end;

		trace->wall_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
		tracefs_iterate_raw_events(trace->tep, instance, NULL, 0, show, trace);
		if (!flush_output() || last)
			break;
		if (!tree_is_there(tree)) {
			report(STATUS_FAULT, UNLOADED);
			break;
		}
		snap_sleep(ROUND);
	}
}

/* Check that the named groups have tracepoints, and durations if -m needs them. */
static bool check_groups(struct tree *tree, int argc, char **argv)
{
	if (!tree_check_names(tree, false, argc, argv))
		return false;
	for (int i = 0; i < argc; i++) {
		const struct source *source = source_of(argv[i]);

		if (!source) {
			report(STATUS_USAGE, "%s has no tracepoint", argv[i]);
			return false;
		}
		if (least_ms && !source->time) {
			report(STATUS_USAGE, "-m does not apply to %s, whose events have no duration",
			       argv[i]);
			return false;
		}
	}
	return true;
}

/*
 * Load the formats of the events in tracing directory @dir. To be freed with tep_free().
 * tracefs_local_events_system() would also read all of /proc/kallsyms.
 */
static struct tep_handle *load_formats(const char *dir)
{
	struct tracefs_instance *top = tracefs_instance_alloc(dir, NULL);
	struct tep_handle *tep = tep_alloc();
	int size;
	char *text;

	text = top ? tracefs_instance_file_read(top, "events/header_page", &size) : NULL;
	if (!tep || !text || tep_parse_header_page(tep, text, size, sizeof(long))) {
		if (tep)
			tep_free(tep);
		tep = NULL;
	}
	free(text);
	for (size_t i = 0; tep && i < ARRAY_SIZE(sources); i++) {
		text = tracefs_event_file_read(top, "tcplat", sources[i].event, "format", &size);
		if (text)
			tep_parse_event(tep, text, size, "tcplat");
		free(text);
	}
	if (top)
		tracefs_instance_free(top);
	return tep;
}

static void trace_groups(struct trace *trace, struct tree *tree, int argc, char **argv)
{
	struct tracefs_instance *instance;
	uint64_t inode = 0;
	char *tracing;
	size_t wanted = 0;

	if (netns && (!trace->place->proc || !who_netns_inode(trace->place->proc, netns, &inode))) {
		report(STATUS_USAGE, "no network namespace '%s'; give a name from 'ip netns', or the ID of a process in it",
		       netns);
		return;
	}
	tracing = xasprintf("%s/%s", tree->root, instance_tracing());
	trace->tep = load_formats(tracing);
	instance = tracefs_instance_alloc(tracing, instance_name());
	if (!trace->tep || !instance || instance_write("trace_clock", "mono")) {
		report(STATUS_FAULT, "%s: cannot use the tcplat tracepoints", tracing);
		goto out;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct group *group = tree_group(tree, sources[i].group);

		if (!group || !name_wanted(sources[i].group, argc, argv) ||
		    (least_ms && !sources[i].time))
			continue;
		if (group->state != STATE_ARMED) {
			if (&sources[i] == source_of(group->name))
				report(STATUS_OK, "%s is not armed and has no events", group->name);
		} else if (enable_event(trace, i, inode)) {
			wanted++;
		}
	}
	if (wanted)
		follow(trace, tree, instance);
	else
		report(STATUS_FAULT, "no events to read");
	if (trace->lost)
		report(STATUS_FAULT, "%s%" PRIu64 " events were lost because they came too fast; name groups or use a filter",
		       trace->uncounted ? "at least " : "", trace->lost);
out:
	if (instance)
		tracefs_instance_free(instance);
	if (trace->tep)
		tep_free(trace->tep);
	free(tracing);
}

static void run(const struct place *place, int argc, char **argv)
{
	struct trace trace = { .place = place };
	struct tree tree;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		trace.ids[i] = -1;
	if (!tree_open(&tree, place->root))
		return;
	if (!tree_scan(&tree) || !check_groups(&tree, argc, argv))
		goto out;
	for (size_t i = 0; i < tree.nr_groups; i++)
		group_load(&tree.groups[i]);
	if (!instance_need(tree.root_fd, "trace"))
		goto out;
	if (output && !freopen(output, "w", stdout))
		report(STATUS_FAULT, "%s: %s", output, strerror(errno));
	else
		trace_groups(&trace, &tree, argc, argv);
	instance_close();
out:
	tree_close(&tree);
}

static const struct argp_option options[] = {
	{ "peer", 'p', "ADDRESS", 0,
	  "Only events of this peer; * matches any characters. An IPv4 address also matches as ::ffff:ADDRESS",
	  0 },
	{ "port", 'P', "PORT", 0, "Only events of connections with this port at either end", 0 },
	{ "netns", 'N', "NETNS", 0,
	  "Only events in this network namespace: a name from 'ip netns', or a process ID", 0 },
	{ "min-ms", 'm', "MS", 0, "Only events that took at least MS milliseconds", 0 },
	{ "count", 'n', "COUNT", 0, "Stop after COUNT events", 0 },
	{ "time", 't', "SECONDS", 0, "Stop after SECONDS seconds", 0 },
	{ "output", 'o', "FILE", 0, "Write to FILE", 0 },
	{ "json", 'j', NULL, 0, "Print a JSON object for each event", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'N', .text = &netns },
	{ 'n', .count = &most_events },
	{ 't', .seconds = &most_seconds },
	{ 'o', .text = &output },
	{ 'j', .flag = &as_json },
	{ 0 },
};

static int option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		if (parse_peer(arg))
			return 0;
		argp_error(state, "-p '%s' is not an address or an address pattern", arg);
		return EINVAL;
	case 'P':
		if (parse_count(arg, &port) && port <= 65535)
			return 0;
		argp_error(state, "-P '%s' is not a port from 1 to 65535", arg);
		return EINVAL;
	case 'm':
		if (parse_count(arg, &least_ms) && least_ms <= 86400000)
			return 0;
		argp_error(state, "-m '%s' is not a number of milliseconds from 1 to 86400000",
			   arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct cmd cmd_trace = {
	.name = "trace",
	.args = "[GROUP...]",
	.brief = "Print events as they happen",
	.doc = "Needs root. A line has the time of day, the group, the local and the peer address, the duration, the fields of the tracepoint, the network namespace if it is not the current one, and the cgroup. An interrupt (Ctrl-C) also ends it.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.option = option,
	.run = run,
};
