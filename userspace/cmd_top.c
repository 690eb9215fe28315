// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat top: who loses how much time by what, worst first. The kernel adds up, in histograms
 * of the tracepoints; each interval this reads what they have gained.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"
#include "instance.h"
#include "json.h"
#include "report.h"
#include "screen.h"
#include "snap.h"
#include "text.h"
#include "tree.h"
#include "trigger.h"
#include "who.h"

/* By what the time is lost: a column for each. */
static const struct column {
	const char *name;	/* in JSON, with _ms_per_s if it is a time */
	const char *title;
	const char *group;
	const char *event;
	const char *time;	/* NULL: how often is all there is */
	const char *filter;	/* NULL: all of the event's */
	bool apart;		/* not summed up: what it costs is in another column */
} columns[] = {
	{ "stall", "STALL", "delack", "ack_stall", "stall_us", NULL, false },
	/* The stalls are a part of these; nobody is known to have waited for the others. */
	{ "ack", "ACK", "delack", "delack_timeout", "delay_us", NULL, true },
	{ "nagle", "NAGLE", "sndhold", "snd_hold", "time_ns", "cause == 1", false },
	{ "cork", "CORK", "sndhold", "snd_hold", "time_ns", "cause == 2", false },
	{ "port", "PORT", "portsearch", "port_search", "time_ns", NULL, false },
	{ "send", "SEND", "sndwait", "snd_wait", "time_ns", "kind == 0", false },
	{ "again", "EAGAIN", "sndwait", "snd_wait", "time_ns", "kind != 0", false },
	{ "idle", "IDLE/s", "idlerestart", "idle_restart", NULL, NULL, false },
};

#define COLUMNS	ARRAY_SIZE(columns)

/* Room for rows at first; the table grows. */
#define ROWS	4096

/* By whom: the fields of the tracepoints that tell them apart. */
static const struct key {
	const char *name;
	const char *title;
	const char *fields;
	/* Where the event runs in the caller's context, or has the writer; NULL: nowhere. */
	const char *of_hold;
	const char *of_call;
} keys[] = {
	{ "peer", "PEER", "peer", "peer", "peer" },
	{ "port", "LOCAL PORT", "sport", "sport", "sport" },
	{ "socket", "CONNECTION", "sport,peer,dport", "sport,peer,dport", "sport,peer,dport" },
	{ "netns", "NETWORK NAMESPACE", "netns", "netns", "netns" },
	{ "cgroup", "CGROUP", "cgroup", "cgroup", "cgroup" },
	{ "comm", "PROCESS", NULL, "comm,pid", "common_pid.execname" },
};

/* What was counted for one key since the beginning. */
struct row {
	uint64_t count[COLUMNS];
	uint64_t ns[COLUMNS];
	char key[];		/* as the kernel prints it */
};

struct rows {
	struct lh_table *table;	/* of struct row, by its key */
	uint64_t drops;		/* events of keys for which there was no room */
};

/* What one of them lost in an interval. */
struct loss {
	const struct row *row;
	uint64_t count[COLUMNS];
	uint64_t ns[COLUMNS];
	uint64_t total_ns;
	uint64_t apart_ns;
};

/* An interval. */
struct round {
	struct loss *losses;
	size_t nr;
	double seconds;
	uint64_t drops;
};

static const struct key *key = &keys[0];
static double interval = 2;
static uint64_t rounds;		/* 0: for ever */
static bool batch, as_json;

/* ---- the kernel's histograms ---- */

/* The fields that @key has in the events of @c; NULL if it has none. */
static const char *fields_of(const struct column *c)
{
	if (!strcmp(c->group, "sndhold"))
		return key->of_hold;
	if (!strcmp(c->name, "port") || !strcmp(c->name, "send"))
		return key->of_call;
	return key->fields;
}

static struct trigger trigger_of(const struct column *c)
{
	return (struct trigger){
		.event = c->event,
		.keys = fields_of(c),
		.value = c->time,
		.filter = c->filter,
	};
}

static void free_row(struct lh_entry *entry)
{
	free(lh_entry_v(entry));
}

static struct row *make_row(struct lh_table *table, const char *name)
{
	void *found;
	struct row *row;

	if (lh_table_lookup_ex(table, name, &found))
		return found;
	row = xreallocarray(NULL, 1, sizeof(*row) + strlen(name) + 1);
	*row = (struct row){ 0 };
	strcpy(row->key, name);
	lh_table_insert(table, row->key, row);
	return row;
}

/* What is added up meanwhile. */
struct reading {
	struct lh_table *table;
	size_t column;
};

static void add_entry(const struct trigger *trigger, const char *name, uint64_t count,
		      uint64_t ns, void *arg)
{
	const struct reading *reading = arg;
	struct row *row = make_row(reading->table, name);

	(void)trigger;
	row->count[reading->column] += count;
	row->ns[reading->column] += ns;
}

static void read_all(struct rows *rows)
{
	rows->table = lh_kchar_table_new(ROWS, free_row);
	rows->drops = 0;
	for (size_t i = 0; i < COLUMNS; i++) {
		struct reading reading = { .table = rows->table, .column = i };
		struct trigger trigger = trigger_of(&columns[i]);

		if (trigger.keys)
			rows->drops += trigger_read(&trigger, add_entry, &reading);
	}
}

/* ---- what was lost ---- */

static int by_loss(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->apart_ns != y->apart_ns)
		return x->apart_ns < y->apart_ns ? 1 : -1;
	return strcmp(x->row->key, y->row->key);
}

static void compare(struct round *round, const struct rows *now, const struct rows *before)
{
	static const struct row nothing;
	struct lh_entry *entry;

	round->losses = xreallocarray(NULL, lh_table_length(now->table) + 1,
				      sizeof(*round->losses));
	round->nr = 0;
	round->drops = now->drops;
	lh_foreach(now->table, entry) {
		const struct row *row = lh_entry_v(entry), *old = &nothing;
		struct loss loss = { .row = row };
		bool any = false;
		void *found;

		if (lh_table_lookup_ex(before->table, row->key, &found))
			old = found;
		for (size_t c = 0; c < COLUMNS; c++) {
			loss.count[c] = row->count[c] - old->count[c];
			loss.ns[c] = row->ns[c] - old->ns[c];
			if (columns[c].apart)
				loss.apart_ns += loss.ns[c];
			else
				loss.total_ns += loss.ns[c];
			any |= loss.count[c];
		}
		if (any)
			round->losses[round->nr++] = loss;
	}
	qsort(round->losses, round->nr, sizeof(*round->losses), by_loss);
}

/* In columns that leave room for an IPv4 address in a line of 80 characters. */
static void print_number(FILE *page, double value)
{
	if (!value)
		fprintf(page, " %6s", "-");
	else if (value < 0.05)
		fprintf(page, " %6s", "<0.1");
	else
		fprintf(page, " %6.*f", value < 9999.95, value);
}

static void print_heading(FILE *page, const struct round *round)
{
	char clock[16];
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%T", &tm);
	if (round)
		fprintf(page, "tcplat top: %s, lost per second over %.1f s, by %s: %zu", clock,
			round->seconds, key->name, round->nr);
	else
		fputs("tcplat top: wait for the first interval; q ends it", page);
	if (round && round->drops)
		fprintf(page, "; no room for others, of %" PRIu64 " events", round->drops);
	fprintf(page, "\n %6s", "ms/s");
	for (size_t c = 0; c < COLUMNS; c++)
		fprintf(page, " %6s", columns[c].title);
	fprintf(page, "  %s\n", key->title);
}

static void print_loss(FILE *page, const struct place *place, const struct loss *loss,
		       double seconds)
{
	char *name = who_key(place, key->of_hold, loss->row->key);

	print_number(page, loss->total_ns / 1e6 / seconds);
	for (size_t c = 0; c < COLUMNS; c++)
		print_number(page, (columns[c].time ? loss->ns[c] / 1e6 : loss->count[c]) /
			     seconds);
	fprintf(page, "  %s\n", name);
	free(name);
}

static void print_json(const struct place *place, const struct round *round)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	json_object_object_add(object, "time_unix_ns",
			       json_object_new_int64(ts.tv_sec * 1000000000LL + ts.tv_nsec));
	json_object_object_add(object, "seconds", json_object_new_double(round->seconds));
	json_object_object_add(object, "key", json_text(key->name));
	json_object_object_add(object, "dropped", json_object_new_uint64(round->drops));
	for (size_t i = 0; i < round->nr; i++) {
		const struct loss *loss = &round->losses[i];
		struct json_object *one = json_object_new_object();
		char *name = who_key(place, key->of_hold, loss->row->key);

		json_object_object_add(one, "name", json_text(name));
		json_object_object_add(one, "time_ns", json_object_new_uint64(loss->total_ns));
		for (size_t c = 0; c < COLUMNS; c++) {
			struct json_object *cell = json_object_new_object();

			json_object_object_add(cell, "count",
					       json_object_new_uint64(loss->count[c]));
			if (columns[c].time)
				json_object_object_add(cell, "time_ns",
						       json_object_new_uint64(loss->ns[c]));
			json_object_object_add(one, columns[c].name, cell);
		}
		json_object_array_add(list, one);
		free(name);
	}
	json_object_object_add(object, "losses", list);
	json_print(object, false);
}

/* A table; @round is NULL before the first interval is over. */
static void print_table(const struct place *place, const struct round *round, bool screen)
{
	FILE *page = screen_page();

	print_heading(page, round);
	for (size_t i = 0; round && i < round->nr; i++)
		print_loss(page, place, &round->losses[i], round->seconds);
	if (!screen)
		putchar('\n');
}

static void go_round(const struct place *place, bool screen)
{
	struct rows before, now;
	double t0, t1;

	read_all(&before);
	t0 = now_seconds();
	if (screen) {
		print_table(place, NULL, screen);
		screen_show();
	}
	for (uint64_t i = 0; !rounds || i < rounds; i++) {
		struct round round;

		screen_wait(interval);
		if (stopped())
			break;
		read_all(&now);
		t1 = now_seconds();
		round.seconds = t1 - t0;
		compare(&round, &now, &before);
		if (as_json)
			print_json(place, &round);
		else
			print_table(place, &round, screen);
		free(round.losses);
		lh_table_free(before.table);
		before = now;
		t0 = t1;
		if (!screen_show())
			break;
	}
	lh_table_free(before.table);
}

/* Why no event of @c can come; NULL if it can. To be freed. */
static char *silent(struct tree *tree, const struct column *c)
{
	struct group *group = tree_group(tree, c->group);
	struct group *ackmode = tree_group(tree, "ackmode");
	uint64_t stalls;

	if (group->state != STATE_ARMED)
		return xasprintf("%s is not armed", group->name);
	if (strcmp(c->name, "stall"))
		return NULL;
	/* Which ACKs were waited for is known from what ackmode sees. */
	if (!group_number(group, "stalls", &stalls))
		return xstrdup("the module does not count stalls");
	if (!ackmode || ackmode->state != STATE_ARMED)
		return xstrdup("ackmode is not armed");
	return NULL;
}

static bool listen_to_groups(struct tree *tree)
{
	bool any = false;

	for (size_t i = 0; i < COLUMNS; i++) {
		struct group *group = tree_group(tree, columns[i].group);
		struct trigger trigger = trigger_of(&columns[i]);
		char *why;
		int err;

		if (!group || !trigger.keys)
			continue;
		why = silent(tree, &columns[i]);
		if (why) {
			report(STATUS_OK, "%s: %s stays empty", why, columns[i].title);
			free(why);
			continue;
		}
		err = trigger_set(&trigger);
		if (err)
			report(STATUS_FAULT, "the tracepoint tcplat:%s has no histogram: %s",
			       columns[i].event, strerror(err));
		any |= !err;
	}
	if (!any)
		report(STATUS_FAULT, "there is nothing to listen to");
	return any;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct tree tree;

	(void)argc;
	(void)argv;
	if (!tree_open(&tree, place->root))
		return;
	if (!tree_scan(&tree))
		goto out;
	for (size_t i = 0; i < tree.nr_groups; i++)
		group_load(&tree.groups[i]);
	if (!instance_need(tree.root_fd, "top"))
		goto out;
	if (listen_to_groups(&tree)) {
		go_round(place, !batch && !as_json && screen_open());
		screen_close();
	}
	instance_close();
out:
	tree_close(&tree);
}

static const struct argp_option options[] = {
	{ "key", 'k', "peer|port|socket|netns|cgroup|comm", 0, "Whose time (peer's)", 0 },
	{ "interval", 'i', "SECONDS", 0, "Time between two tables (2)", 0 },
	{ "count", 'n', "COUNT", 0, "End after so many tables", 0 },
	{ "batch", 'b', NULL, 0,
	  "Print tables one after the other, as where there is no terminal", 0 },
	{ "json", 'j', NULL, 0, "Print a JSON object for each interval", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'i', .seconds = &interval },
	{ 'n', .count = &rounds },
	{ 'b', .flag = &batch },
	{ 'j', .flag = &as_json },
	{ 0 },
};

static int option(int c, char *arg, struct argp_state *state)
{
	if (c != 'k')
		return ARGP_ERR_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!strcmp(keys[i].name, arg)) {
			key = &keys[i];
			return 0;
		}
	}
	argp_error(state, "-k '%s' is none of peer, port, socket, netns, cgroup and comm",
		   arg);
	return EINVAL;
}

const struct cmd cmd_top = {
	.name = "top",
	.brief = "Show who loses how much time by what",
	.doc = "Needs root. STALL: data that peers held back until a late ACK of this host came; ACK: all data that this host acknowledged late, which includes the stalls; NAGLE, CORK: data that was held back; PORT: searches for a port; SEND: calls that waited for room, EAGAIN: senders that do not block; all in milliseconds per second, IDLE/s: congestion windows cut. ms/s is the sum of all times but ACK, and lines are sorted by it. Of a process only what runs in its own context is known. q ends it.",
	.max_args = 0,
	.options = options,
	.settings = settings,
	.option = option,
	.run = run,
};
