// SPDX-License-Identifier: GPL-2.0
/* tcplat top: show who loses how much time and why, worst first; now, or when record ran. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "snap.h"

#define INTERVAL	2	/* seconds */

/* Keys to group by, and the fields of the tracepoints and members of records that hold them. */
static const struct key {
	const char *name;
	const char *title;
	const char *fields;	/* NULL: the process, where the event knows it; "": none */
	const char *member;
} keys[] = {
	{ "peer", "PEER", "peer", "peer" },
	{ "port", "LOCAL PORT", "sport", NULL },
	{ "socket", "CONNECTION", "sport,peer,dport", NULL },
	{ "netns", "NETWORK NAMESPACE", "netns", NULL },
	{ "cgroup", "CGROUP OR POD", "cgroup", NULL },
	{ "comm", "PROCESS", NULL, NULL },
	{ "cause", "CAUSE", "", "" },
	{ "owner", "OWNER", "", "name" },
	{ "pod", "POD OR CGROUP", "", "pod" },
};

static const struct key *key = &keys[0];
static const char *key_name = "peer", *sort_name, *from, *since, *until;
static double interval;		/* 0: option not given */
static uint64_t rounds, limit;	/* 0: no limit */
static bool batch, as_json;
static struct selection selection;

static const char *keys_of(const struct source *source)
{
	if (key->fields)
		return key->fields;
	return source->owner == OWNER_UNKNOWN ? NULL :
	       source->owner == OWNER_FIELDS ? "comm,pid" : "common_pid.execname";
}

/* Narrow columns: an IPv4 address must fit in a line of 80 characters. */
static char *number(double value)
{
	if (!value)
		return xstrdup("-");
	if (value < 0.05)
		return xstrdup("<0.1");
	return xasprintf("%.*f", value < 9999.95, value);
}

/* What is printed at once. */
struct span {
	time_t first;		/* 0: it ends now */
	uint64_t last_ns;
	double seconds;		/* without those of which nothing is known */
	double unseen;
	uint64_t dropped;
};

static void span_add(struct span *span, uint64_t first, uint64_t last)
{
	if (first < (uint64_t)span->first)
		span->first = first;
	if (last * NSEC_PER_SEC > span->last_ns)
		span->last_ns = last * NSEC_PER_SEC;
}

/* In local time, to be freed. */
static char *span_text(const struct span *span)
{
	char *first __free = span->first ? draw_clock(span->first, "%F %T to ") : xstrdup("");
	char *last __free = draw_clock(span->last_ns / NSEC_PER_SEC,
				       span->first ? "%F %T" : "%T");

	return xasprintf("%s%s", first, last);
}

static void print_table(const struct place *place, struct loss **list, size_t nr,
			const struct span *span, bool screen)
{
	char *when __free = span_text(span);
	FILE *page = screen_page();
	struct table table = { .columns = 2, .out = page };
	bool any[COLUMNS] = { false }, causes = key->member && !*key->member;
	double seconds = span->seconds;
	unsigned int width = 10;

	fprintf(page, "tcplat top: %s, ms lost in each second, over %.1f s, by %s: %zu", when,
		seconds, key->name, nr);
	if (span->dropped)
		fprintf(page, "; table full, %" PRIu64 " events left out", span->dropped);
	fputc('\n', page);
	for (size_t c = 0; c < nr_sources; c++) {
		for (size_t i = 0; i < nr; i++)
			any[c] |= list[i]->count[c] && !(causes && sources[c].time);
		table.columns += any[c];
		width += any[c] ? 9 : 0;
	}
	table_cell(&table, xstrdup("SUM"));
	for (size_t c = 0; c < nr_sources; c++)
		if (any[c])
			table_cell(&table, xstrdup(sources[c].title));
	table_cell(&table, xstrdup(key->title));
	for (size_t i = 0; i < nr && !(limit && i >= limit); i++) {
		char *name __free = who_text(place, &list[i]->who, true);
		size_t room = draw_width() > width + 20 ? draw_width() - width : 20;
		size_t len = strlen(name), cut = len > room ? len - room + 3 : 0;

		/* Not inside a character. */
		while ((name[cut] & 0xc0) == 0x80)
			cut++;
		table_cell(&table, number(list[i]->sum_ns / 1e6 / seconds));
		for (size_t c = 0; c < nr_sources; c++)
			if (any[c])
				table_cell(&table, number((sources[c].time ? list[i]->ns[c] / 1e6 :
							   list[i]->count[c]) / seconds));
		/* The tail of a path says more than its head. */
		table_cell(&table, screen && len > room && *name == '/' ?
			   xasprintf("...%s", name + cut) : xstrdup(name));
	}
	table_print(&table);
	if (!screen)
		putchar('\n');
}

static void print_json(const struct place *place, struct loss **list, size_t nr,
		       const struct span *span)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_u64(&json, "schema", 2);
	json_u64(&json, "time_unix_ns", span->last_ns);
	json_number(&json, "seconds", "%.9g", span->seconds);
	json_number(&json, "unseen_seconds", "%.9g", span->unseen);
	json_text(&json, "key", key->name);
	json_u64(&json, "dropped", span->dropped);
	json_open(&json, "losses", '[');
	for (size_t i = 0; i < nr && !(limit && i >= limit); i++) {
		json_open(&json, NULL, '{');
		who_json(place, &json, &list[i]->who);
		loss_json(&json, list[i], true);
		json_close(&json, "}");
	}
	json_close(&json, "]}");
}

static void print(const struct place *place, struct loss **list, size_t nr,
		  const struct span *span, bool screen)
{
	if (as_json)
		print_json(place, list, nr, span);
	else
		print_table(place, list, nr, span, screen);
	free(list);
}

static void run_rounds(const struct place *place, bool screen)
{
	struct rows before __cleanup(rows_free) = { 0 }, now;
	double t0 = now_seconds(), t1;

	rows_read(&before);
	if (screen) {
		fprintf(screen_page(), "tcplat top: waiting for the first interval; q quits\n\n");
		screen_show();
	}
	for (uint64_t i = 0; !rounds || i < rounds; i++) {
		struct loss **list;
		struct span span;
		size_t nr;

		screen_wait(interval ? interval : INTERVAL);
		if (stopped())
			break;
		if (!snap_there(place)) {
			/* Not on the screen, which is gone with the command. */
			screen_close();
			report(STATUS_FAULT, "the module is no longer loaded");
			break;
		}
		if (!rows_read(&now)) {
			rows_free(&now);
			continue;
		}
		t1 = now_seconds();
		list = losses(&now, &before, key == keys ? FOLD_ALL : FOLD_NOT, &nr);
		span = (struct span){ 0, now_ns(CLOCK_REALTIME), t1 - t0, 0,
				      now.dropped - before.dropped };
		print(place, list, nr, &span, screen);
		rows_free(&before);
		before = now;
		t0 = t1;
		if (!screen_show())
			break;
	}
}

#define BAD_TIME	"'%s': not a time such as 2026-11-26T03:12:00Z, 03:12 or -1h"
/* Nanoseconds have 64 bits. */
#define SECONDS_MAX	(UINT64_MAX / NSEC_PER_SEC)

/* A line of a record. Its owners become rows behind those of other lines. */
struct record {
	struct rows *rows;
	uint64_t schema, start, end, dropped;
	double seconds, unseen;
	size_t owner;		/* that of the last row */
};

/* Parse a time: RFC 3339; HH:MM of today; or -N with one of smhd, so long ago. */
static bool parse_time(const char *text, uint64_t *seconds)
{
	static const unsigned int lengths[] = { 1, 60, 3600, 86400 };
	static const char units[] = "smhd";
	time_t now = now_ns(CLOCK_REALTIME) / NSEC_PER_SEC, at;
	const char *hour, *end;
	struct tm day, date = { 0 }, utc;
	unsigned int ago;
	int len = 0;
	char unit;

	localtime_r(&now, &day);
	day.tm_sec = 0;
	/* Summer time may begin or end today. */
	day.tm_isdst = -1;
	hour = strptime(text, "%H:%M", &day);
	end = strptime(text, "%FT%T%z", &date);
	utc = date;
	if (text[0] == '-' && isdigit((unsigned char)text[1]) &&
	    sscanf(text, "-%8u%c%n", &ago, &unit, &len) == 2 && !text[len] && strchr(units, unit))
		at = now - (time_t)ago * lengths[strchr(units, unit) - units];
	else if (hour && !*hour)
		at = mktime(&day);
	else if (end && !*end && date.tm_year >= 0)
		/* timegm() changes the offset. */
		at = timegm(&utc) - date.tm_gmtoff;
	else
		return false;
	/* No line is from before 1970. */
	*seconds = at < 0 ? 0 : at;
	/* Another day: this one is not in its month. */
	return utc.tm_mday == date.tm_mday;
}

static bool on_member(struct record *record, size_t owner, const char *name, const char *text)
{
	struct loss *row;
	uint64_t number;

	if (owner != record->owner)
		rows_add(record->rows, (struct who){ .label = owner ? NULL : xstrdup("(others)") });
	record->owner = owner;
	row = &record->rows->list[record->rows->nr - 1];
	/* By cause, the rows are those of the members below. */
	if (!strcmp(name, "time_ns"))
		return parse_number(text, *key->member ? &row->sum_ns : &number);
	/* The name of a cgroup stands for that of a pod, which comes after it. */
	if (!strcmp(name, key->member) ||
	    (!strcmp(key->member, "pod") && !strcmp(name, "cgroup"))) {
		free(row->who.label);
		row->who.label = xstrdup(text);
	}
	for (size_t c = 0; c < nr_sources; c++) {
		size_t len = strlen(sources[c].name);

		if (strncmp(name, sources[c].name, len) || name[len] != '/')
			continue;
		if (!parse_number(text, &number))
			return false;
		/* By cause, each number is a row. */
		if (!*key->member)
			row = rows_add(record->rows,
				       (struct who){ .label = xstrdup(sources[c].name) });
		if (!strcmp(name + len, "/count")) {
			row->total[c] = number;
		} else {
			row->total_ns[c] = number;
			row->sum_ns = *key->member ? row->sum_ns : number;
		}
	}
	return true;
}

static bool on_value(void *arg, const char *path, const char *text)
{
	struct record *record = arg;
	const struct {
		const char *path;
		uint64_t *number;
	} members[] = {
		{ "/schema", &record->schema }, { "/dropped", &record->dropped },
		{ "/start", &record->start }, { "/end", &record->end },
	};
	double *length = !strcmp(path, "/seconds") ? &record->seconds :
			 !strcmp(path, "/unseen_seconds") ? &record->unseen : NULL;
	unsigned int owner = 0;
	int len = strncmp(path, "/other/", 7) ? 0 : 7;

	for (size_t i = 0; i < ARRAY_SIZE(members) && text; i++)
		if (!strcmp(path, members[i].path))
			return parse_number(text, members[i].number) ||
			       parse_time(text, members[i].number);
	if (length && text) {
		*length = strtod(text, NULL);
		return *length >= 0 && *length <= SECONDS_MAX;
	}
	if (!len)
		sscanf(path, "/owners/%u/%n", &owner, &len);
	/* No owner has the number of a new record, SIZE_MAX. */
	return !len || !text || on_member(record, len == 7 && path[2] == 't' ? 0 : owner + 1UL,
					  path + len, text);
}

/* Report that none of the lines, of all of this time, has the time that was asked for. */
static void report_none(const struct span *all)
{
	char *when __free = span_text(all);

	if (all->last_ns && (since || until))
		report(STATUS_FAULT, "%s: no lines of this time; it has %s", from, when);
	else
		report(STATUS_FAULT, "%s: no lines of tcplat record", from);
}

/* Show the sum of the lines that overlap the time from @low to @high. */
static void read_records(const struct place *place, uint64_t low, uint64_t high)
{
	char *line __free = NULL;
	FILE *in __cleanup(file_close) = strcmp(from, "-") ? fopen(from, "re") : stdin;
	struct rows rows __cleanup(rows_free) = { 0 }, nothing = { 0 };
	struct span span = { .first = high }, all = { .first = INT64_MAX };
	uint64_t none = 0, most = 4096;
	struct loss **list;
	size_t room = 0, nr;

	while (in && getline(&line, &room, in) > 0) {
		struct record r = { .rows = &rows, .owner = SIZE_MAX, .seconds = -1 };
		const char *json = strchr(line, '{');
		size_t old = rows.nr;
		bool ok = json && json_parse(json, on_value, &r) && r.schema == 2 && r.start &&
			  r.end && r.seconds >= 0;
		/* The clock may have been set back meanwhile. */
		uint64_t first = r.start < r.end ? r.start : r.end, last = r.start + r.end - first;

		ok = ok && last <= SECONDS_MAX;
		none += !ok;
		if (ok)
			span_add(&all, first, last);
		if (!ok || first >= high || last <= low) {
			while (rows.nr > old)
				who_free(&rows.list[--rows.nr].who);
			continue;
		}
		span_add(&span, first, last);
		span.seconds += r.seconds - r.unseen;
		span.unseen += r.unseen;
		span.dropped += r.dropped;
		if (rows.nr > most) {
			rows_merge(&rows);
			most = 2 * rows.nr + 4096;
		}
	}
	if (!in || ferror(in))
		report(errno == EACCES ? STATUS_DENIED : STATUS_USAGE, "%s: %s", from,
		       strerror(errno));
	else if (!(span.seconds + span.unseen > 0))
		report_none(&all);
	rows_merge(&rows);
	if (none)
		report(STATUS_OK, "%s: skipped %" PRIu64 " lines that are not of tcplat record",
		       from, none);
	if (span.unseen > 0)
		report(span.seconds > 0 ? STATUS_OK : STATUS_FAULT,
		       "nothing is known of %.1f s, in which no group was watched", span.unseen);
	if (span.seconds > 0) {
		list = losses(&rows, &nothing, FOLD_DONE, &nr);
		print(place, list, nr, &span, false);
	}
}

static void run_live(const struct place *place)
{
	struct snap snap __cleanup(snap_free) = { 0 };

	if (!selection_check(place, &selection) || !snap_take(&snap, place))
		return;
	if (instance_need(place, "top")) {
		if (columns_set(place, &snap, &selection, keys_of)) {
			run_rounds(place, !batch && !as_json && screen_open());
			screen_close();
		}
		instance_close();
	}
	columns_free();
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	uint64_t low = 0, high = INT64_MAX;
	static const struct selection all;

	(void)argc, (void)argv, (void)command;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].name, key_name))
			key = &keys[i];
	if (sort_name && !losses_by(sort_name))
		report(STATUS_USAGE, "--sort '%s': no such column; see the members of --json",
		       sort_name);
	else if (from ? !key->member : key->fields && !*key->fields)
		report(STATUS_USAGE, "--key %s: not with%s --from", key->name, from ? "" : "out");
	else if (from ? memcmp(&selection, &all, sizeof(all)) : since || until)
		report(STATUS_USAGE, from ? "--from: a record has no events to select; see --key" :
		       "--since and --until: only with --from");
	else if (from && (interval || rounds || batch))
		report(STATUS_USAGE, "--interval, --count and --batch: not with --from");
	else if (since && !parse_time(since, &low))
		report(STATUS_USAGE, BAD_TIME, since);
	else if (until && !parse_time(until, &high))
		report(STATUS_USAGE, BAD_TIME, until);
	else if (from)
		read_records(place, low, high);
	else
		run_live(place);
	names_forget();
}

#define TABLE_COMMAND_top
#include "tables.inc"
