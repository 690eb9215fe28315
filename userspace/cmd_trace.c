// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat trace: print a line for each event of the module's tracepoints. The kernel's own text of
 * an event has all of its fields, whatever the module's version, and needs no library.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "events.h"
#include "snap.h"

/* Seconds between reads of the kernel's buffer. */
#define ROUND		0.1
#define FIELDS_MAX	32
/* Fields that have a place of their own, or are not printed. */
#define COMMON		"netns|family|saddr|daddr|cookie|cgroup|comm|pid"

static struct selection selection;
static double most_seconds;
static uint64_t most_events;
static bool as_json;

static uint64_t events, lost;
static bool uncounted;		/* more were lost */

/* An event: its line is cut into names and values. */
struct line {
	char event[64];
	char *comm;		/* of the current thread; NULL: unknown */
	uint64_t pid;
	int64_t wall_ns;
	size_t nr;
	char *names[FIELDS_MAX];
	char *values[FIELDS_MAX];
};

/* The event's source; NULL for one that this reader does not know. */
static const struct source *source_of(const char *event)
{
	for (size_t i = 0; i < nr_sources; i++)
		if (!strcmp(sources[i].event, event))
			return &sources[i];
	return NULL;
}

static const char *value_of(const struct line *line, const char *name)
{
	for (size_t i = 0; i < line->nr; i++)
		if (!strcmp(line->names[i], name))
			return line->values[i];
	return NULL;
}

static uint64_t number_of(const struct line *line, const char *name)
{
	const char *value = value_of(line, name);
	uint64_t number = 0;

	if (value)
		parse_number(value, &number);
	return number;
}

/* Units in ns. Jiffies are printed as they are. */
static const uint64_t unit_ns[] = { [UNIT_NS] = 1, [UNIT_US] = 1000, [UNIT_JIFFIES] = 0 };

/* The field with the event's duration; NULL: it has none. */
static const char *time_field(const struct line *line)
{
	for (size_t i = 0; i < line->nr; i++)
		if (unit_ns[words_unit(line->names[i])])
			return line->names[i];
	return NULL;
}

/*
 * Cut a line of trace_pipe into its parts:
 *   COMM-PID   [CPU] FLAGS SECONDS.MICROS: EVENT: NAME=VALUE NAME=VALUE ... comm=TEXT
 * or, with the option record-tgid, COMM-PID (TGID) [CPU] and so on.
 * A process chooses its name, which has at most 15 bytes: what follows the first [CPU] that looks
 * like one is the kernel's, and so is all before the last comm=. The first of two equal names
 * counts.
 */
static bool parse_line(char *text, struct line *line)
{
	char *at = text, *rest, *end = NULL, *pid, *tgid, *comm;
	unsigned int cpu, micros;
	int seconds_len = 0;
	uint64_t seconds;
	char flags[16];

	memset(line, 0, sizeof(*line));
	while ((at = strstr(at, " [")) &&
	       !(sscanf(at, " [%u] %15s %" SCNu64 ".%6u: %63[a-z0-9_]: netns=%n", &cpu, flags,
			&seconds, &micros, line->event, &seconds_len) == 5 && seconds_len))
		at++;
	if (!at)
		return false;
	rest = at + seconds_len - strlen("netns=");
	while (at > text && at[-1] == ' ')
		at--;
	*at = '\0';
	tgid = at > text && at[-1] == ')' ? strrchr(text, '(') : NULL;
	while (tgid && tgid > text && tgid[-1] == ' ')
		*--tgid = '\0';
	pid = strrchr(text, '-');
	if (!pid || !parse_number(pid + 1, &line->pid))
		return false;
	*pid = '\0';
	text += strspn(text, " ");
	line->comm = *text && strcmp(text, "<...>") ? text : NULL;
	line->wall_ns = seconds * (int64_t)NSEC_PER_SEC + micros * 1000LL;
	comm = strstr(rest, " comm=");
	while (*rest && line->nr < FIELDS_MAX) {
		char *equals = strchr(rest, '=');

		if (!equals)
			break;
		*equals = '\0';
		line->names[line->nr] = rest;
		line->values[line->nr++] = equals + 1;
		if (comm && rest == comm + 1)
			break;
		end = strchr(equals + 1, ' ');
		if (!end)
			break;
		*end = '\0';
		rest = end + 1;
	}
	return true;
}

/* Whose event it is: the writer, or the caller if the event runs in its context. */
static void find_who(const struct place *place, const struct line *line, struct who *who)
{
	const struct source *source = source_of(line->event);
	const char *comm = value_of(line, "comm"), *kind = value_of(line, "kind");
	bool calls = source && source->owner == OWNER_CALLER &&
		     !(kind && !strcmp(source->group, "sndwait") && strcmp(kind, "slept")) &&
		     !(kind && !strcmp(kind, "peer"));

	*who = (struct who){
		.netns = number_of(line, "netns"), .cgroup = number_of(line, "cgroup"),
	};
	if (value_of(line, "pid")) {
		who->pid = number_of(line, "pid");
		who->comm = comm && who->pid ? xstrdup(comm) : NULL;
	} else if (calls) {
		who->pid = line->pid;
		who->comm = line->comm ? xstrdup(line->comm) : name_comm(place, line->pid);
	}
	/* ID 1 is the root cgroup: not in a container. */
	if (who->cgroup == 1)
		who->cgroup = 0;
}

static void print_text(const struct place *place, const struct line *line, const struct who *who)
{
	char *clock __free = draw_clock(line->wall_ns / (int64_t)NSEC_PER_SEC, "%T");
	char *name __free = who_text(place, who, false), *time __free = NULL, *text __free = NULL;
	const char *field = time_field(line), *saddr = value_of(line, "saddr");
	const char *daddr = value_of(line, "daddr");
	bool known = strcmp(name, "?") && strcmp(name, "(own)");

	if (field)
		time = draw_time((long double)number_of(line, field) * unit_ns[words_unit(field)]);
	text = xasprintf("%s > %s %s", saddr ? saddr : "-", daddr ? daddr : "-", time ? time : "-");
	for (size_t i = 0; i < line->nr; i++)
		if (!has_word(COMMON, line->names[i]) && line->names[i] != field)
			text = xappend(text, " %s=%s", line->names[i], line->values[i]);
	text = shown(text);
	printf("%s.%06d %-14s %s%s%s\n", clock, (int)(line->wall_ns % (int64_t)NSEC_PER_SEC / 1000),
	       line->event, text, known ? " " : "", known ? name : "");
}

static void print_json(const struct place *place, const struct line *line, const struct who *who)
{
	const struct source *source = source_of(line->event);
	const char *field = time_field(line);
	const char *cookie = value_of(line, "cookie");
	struct json json = { .out = stdout };
	uint64_t number;

	json_open(&json, NULL, '{');
	json_u64(&json, "time_unix_ns", line->wall_ns);
	json_text(&json, "group", source ? source->group : NULL);
	json_text(&json, "event", line->event);
	json_text(&json, "saddr", value_of(line, "saddr"));
	json_text(&json, "daddr", value_of(line, "daddr"));
	if (field)
		json_u64(&json, "time_ns", number_of(line, field) * unit_ns[words_unit(field)]);
	for (size_t i = 0; i < line->nr; i++) {
		const char *value = line->values[i];

		if (has_word(COMMON, line->names[i]) || line->names[i] == field)
			continue;
		if (parse_number(value, &number))
			json_u64(&json, line->names[i], number);
		else if (*value == '-' && parse_number(value + 1, &number))
			json_number(&json, line->names[i], "%" PRId64, -(int64_t)number);
		else
			json_text(&json, line->names[i], value);
	}
	json_u64(&json, "cookie", cookie ? strtoull(cookie, NULL, 16) : 0);
	json_open(&json, "who", '{');
	who_json(place, &json, who);
	json_close(&json, "}}");
}

/*
 * Return how far the wall clock is from CLOCK_MONOTONIC: a lower bound, which only rises until the
 * clock is set, so that no event precedes an earlier one where reading the clocks took long.
 */
static int64_t wall_offset(void)
{
	int64_t before = now_ns(CLOCK_MONOTONIC), wall = now_ns(CLOCK_REALTIME);
	int64_t least = wall - now_ns(CLOCK_MONOTONIC), most = wall - before;
	static int64_t low, high = -1;
	bool set = least > high || most < low;

	low = set || least > low ? least : low;
	high = set || most < high ? most : high;
	return low;
}

/* Handle a line of trace_pipe, whose clock is CLOCK_MONOTONIC. */
static void handle_line(const struct place *place, char *text)
{
	struct who who __cleanup(who_free) = { 0 };
	struct line line;
	uint64_t count;
	int len = 0;

	/* A process chooses its name, with which other lines begin. */
	if (sscanf(text, "CPU:%*u [LOST %" SCNu64 " EVENTS]%n", &count, &len) == 1 && len &&
	    !text[len])
		lost += count;
	else if (sscanf(text, "CPU:%*u [LOST EVENTS]%n", &len) == 0 && len && !text[len])
		uncounted = true;
	if (parse_line(text, &line) && (!most_events || events < most_events)) {
		events++;
		line.wall_ns += wall_offset();
		find_who(place, &line, &who);
		if (as_json)
			print_json(place, &line, &who);
		else
			print_text(place, &line, &who);
	}
}

/*
 * The kernel adds lines to a page until it has as much as was asked for. Those from 5.13 on that
 * lack a fix of 6.1, such as Enterprise Linux 9.0 and 9.2, give a warning in their log if a line
 * does not fit. So ask for half a page.
 */
#define READ_MAX	2048

/* Handle what is in the buffer, for 5 s at most: events may come faster than they are printed. */
static void drain(const struct place *place, int fd)
{
	static char buffer[16384];
	static size_t len;
	double last = now_seconds() + 5;
	char *start, *end;
	ssize_t n;

	while (!(most_events && events >= most_events) && now_seconds() < last &&
	       (n = read(fd, buffer + len, READ_MAX)) > 0) {
		/* A line may come in two parts. */
		len += n;
		buffer[len] = '\0';
		start = buffer;
		while ((end = memchr(start, '\n', buffer + len - start))) {
			*end = '\0';
			handle_line(place, start);
			start = end + 1;
		}
		len -= start - buffer;
		memmove(buffer, start, len);
		if (len > sizeof(buffer) - 1 - READ_MAX)
			len = 0;
	}
}

/*
 * Enable tracepoint @event unless the user filters for what it does not have. Clear *@ok if there
 * was an error, which is reported.
 */
static bool enable(const struct place *place, const char *event, bool named, bool *ok)
{
	char *switch_file __free = xasprintf("events/tcplat/%s/enable", event);
	char *filter_file __free = xasprintf("events/tcplat/%s/filter", event);
	char *filter __free = NULL;
	const struct source *known = source_of(event);
	struct source source = known ? *known : (struct source){ .event = event };
	bool possible;
	int err = 0;

	/* Sources of an event differ in their kinds, and all are wanted, but for a process. */
	if (!(selection.comm || selection.pid) || source.owner != OWNER_CALLER ||
	    (source.filter && strncmp(source.filter, "kind", 4)))
		source.filter = NULL;
	filter = selection_filter(place, &selection, &source, &possible);
	if (!possible) {
		if (named)
			report(STATUS_USAGE, "%s: its events have no %s", event,
			       selection.least_ms && !source.time ? "duration" : "process");
		*ok &= !named;
		return false;
	}
	if (filter)
		err = instance_write(filter_file, filter);
	if (!err)
		err = instance_write(switch_file, "1");
	if (err)
		report(STATUS_FAULT, "cannot use tracepoint tcplat:%s: %s", event, strerror(err));
	*ok &= !err;
	return !err;
}

/* Enable the tracepoints that are wanted. Return whether there is any. */
static bool enable_all(const struct place *place, const struct snap *snap, int argc, char **argv)
{
	bool *used = xreallocarray(NULL, argc, sizeof(*used)), any = false, ok = true;
	DIR *dir = fdopendir(instance_file("events/tcplat", O_RDONLY | O_DIRECTORY));
	struct dirent *entry;

	memset(used, 0, argc * sizeof(*used));
	while (dir && (entry = readdir(dir))) {
		const struct source *source = source_of(entry->d_name);
		const struct group *group = source ? snap_group(snap, source->group) : NULL;
		const char *const names[3] = { entry->d_name, source ? source->group : NULL };

		/* The files enable of this and of the parent directory are all events. */
		if (entry->d_name[0] == '.' || !instance_has(entry->d_name))
			continue;
		/* Half of all events are changes of the ACK mode, which cost no time. */
		if (!(argc ? match_any(argc, argv, used, names) : strcmp(names[0], "ack_mode")))
			continue;
		if (group && group->state != STATE_ARMED)
			report(STATUS_OK, "%s is not armed: no events of %s", group->name,
			       entry->d_name);
		else
			any |= enable(place, entry->d_name, argc, &ok);
	}
	if (dir)
		closedir(dir);
	ok &= all_matched(argc, argv, used, "tracepoint");
	if (!any && ok)
		report(STATUS_FAULT, "no events to read");
	return any && ok;
}

static void follow(const struct place *place)
{
	int fd __close = instance_file("trace_pipe", O_RDONLY | O_NONBLOCK);
	double end = now_seconds() + most_seconds;

	if (fd < 0) {
		report(STATUS_FAULT, "cannot open trace_pipe: %s", strerror(errno));
		return;
	}
	while (!stopped() && !(most_events && events >= most_events)) {
		bool last = most_seconds && now_seconds() >= end;

		drain(place, fd);
		if (!flush_output() || last)
			break;
		if (!snap_there(place)) {
			report(STATUS_FAULT, "the module is no longer loaded");
			break;
		}
		screen_wait(ROUND);
	}
	/* What happened before a signal is printed. */
	if (stopped())
		drain(place, fd);
	if (lost || uncounted)
		report(STATUS_FAULT, "%" PRIu64 "%s events were lost because they came too fast; name events or use a filter",
		       lost, uncounted ? " or more" : "");
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	/* What an instance inherits. Not record-tgid, whose change is one for all instances. */
	static const char *const plain[] = {
		"context-info", "irq-info", "nolatency-format", "noraw", "nohex", "nobin", "nofields",
	};
	struct snap snap __cleanup(snap_free) = { 0 };
	int err;

	(void)command;
	if (!selection_check(place, &selection) || !snap_take(&snap, place))
		return;
	if (instance_need(place, "trace")) {
		/* Not every kernel has all. */
		for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
			instance_write("trace_options", plain[i]);
		err = instance_write("trace_clock", "mono");
		if (err)
			report(STATUS_FAULT, "cannot set the clock of tracefs: %s", strerror(err));
		else if (enable_all(place, &snap, argc, argv))
			follow(place);
		instance_close();
	}
	names_forget();
}

#define TABLE_COMMAND_trace
#include "tables.inc"
