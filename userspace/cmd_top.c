// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat top: show who loses how much time and why, worst first. The kernel sums up the
 * events in hist triggers of the tracepoints; each interval is the difference of two readings.
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

/* Causes of lost time, one column each. */
static const struct column {
	const char *name;	/* in JSON */
	const char *title;
	const char *group;
	const char *event;
	const char *time;	/* NULL: events have no duration */
	const char *filter;	/* NULL: all events */
	bool apart;		/* not part of the sum: another column has the cost */
} columns[] = {
	{ "stall", "STALL", "delack", "ack_stall", "stall_us", NULL, false },
	/* Includes the stalls; nobody is known to have waited for the other ACKs. */
	{ "ack", "ACK", "delack", "delack_timeout", "delay_us", NULL, true },
	{ "nagle", "NAGLE", "sndhold", "snd_hold", "time_ns", "cause == 1", false },
	{ "cork", "CORK", "sndhold", "snd_hold", "time_ns", "cause == 2", false },
	{ "port", "PORT", "portsearch", "port_search", "time_ns", NULL, false },
	{ "send", "SEND", "sndwait", "snd_wait", "time_ns", "kind == 0", false },
	{ "again", "EAGAIN", "sndwait", "snd_wait", "time_ns", "kind != 0", false },
	{ "idle", "IDLE/s", "idlerestart", "idle_restart", NULL, NULL, false },
};

#define COLUMNS	ARRAY_SIZE(columns)

/* The initial size; the table grows. */
#define ROWS	4096

/* Keys to group by, and the fields of the tracepoints that hold them. */
static const struct key {
	const char *name;
	const char *title;
	const char *fields;	/* NULL: not known */
	const char *of_hold;	/* of snd_hold, which names the writer */
	const char *of_call;	/* of events in the caller's context */
} keys[] = {
	{ "peer", "PEER", "peer", "peer", "peer" },
	{ "port", "LOCAL PORT", "sport", "sport", "sport" },
	{ "socket", "CONNECTION", "sport,peer,dport", "sport,peer,dport", "sport,peer,dport" },
	{ "netns", "NETWORK NAMESPACE", "netns", "netns", "netns" },
	{ "cgroup", "CGROUP", "cgroup", "cgroup", "cgroup" },
	{ "comm", "TASK", NULL, "comm,pid", "common_pid.execname" },
};

/* What was counted for one key since the start. */
struct row {
	uint64_t count[COLUMNS];
	uint64_t ns[COLUMNS];
	char key[];		/* from trigger_read() */
};

struct rows {
	struct lh_table *table;	/* of struct row, by its key */
	uint64_t drops;		/* events of keys that did not fit */
};

/* What one key lost in an interval. */
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
static uint64_t rounds;		/* 0: no limit */
static bool batch, as_json;

/* ---- the kernel's histograms ---- */

/* Return the fields for the current key in the events of @c; NULL if there are none. */
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

/* The argument of add_entry(). */
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

/* ---- losses ---- */

static int compare_losses(const void *a, const void *b)
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
	round->drops = now->drops - before->drops;
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
	qsort(round->losses, round->nr, sizeof(*round->losses), compare_losses);
}

/* Narrow columns: an IPv4 address must fit in a line of 80 characters. */
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
		fputs("tcplat top: waiting for the first interval; q quits", page);
	if (round && round->drops)
		fprintf(page, "; table full, %" PRIu64 " events left out", round->drops);
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
	json_object_object_add(object, "schema", json_object_new_int(1));
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

/* Print a table. @round is NULL before the first interval ends. */
static void print_table(const struct place *place, const struct round *round, bool screen)
{
	FILE *page = screen_page();

	print_heading(page, round);
	for (size_t i = 0; round && i < round->nr; i++)
		print_loss(page, place, &round->losses[i], round->seconds);
	if (!screen)
		putchar('\n');
}

static void run_rounds(const struct place *place, const struct tree *tree, bool screen)
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
		if (!tree_is_there(tree)) {
			report(STATUS_FAULT, UNLOADED);
			break;
		}
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

/* Why @c cannot have events; NULL if it can. To be freed. */
static char *why_empty(struct tree *tree, const struct column *c)
{
	struct group *group = tree_group(tree, c->group);
	struct group *ackmode = tree_group(tree, "ackmode");
	uint64_t stalls;

	if (group->state != STATE_ARMED)
		return xasprintf("%s is not armed", group->name);
	if (strcmp(c->name, "stall"))
		return NULL;
	/* Stalls need the probes of ackmode. */
	if (!group_number(group, "stalls", &stalls))
		return xstrdup("the module does not count stalls");
	if (!ackmode || ackmode->state != STATE_ARMED)
		return xstrdup("ackmode is not armed");
	return NULL;
}

static bool set_triggers(struct tree *tree)
{
	bool any = false;

	for (size_t i = 0; i < COLUMNS; i++) {
		struct group *group = tree_group(tree, columns[i].group);
		struct trigger trigger = trigger_of(&columns[i]);
		char *why;
		int err;

		if (!group || !trigger.keys)
			continue;
		why = why_empty(tree, &columns[i]);
		if (why) {
			report(STATUS_OK, "%s: %s stays empty", why, columns[i].title);
			free(why);
			continue;
		}
		err = trigger_set(&trigger);
		if (err)
			report(STATUS_FAULT, "cannot set up a histogram of tracepoint tcplat:%s: %s",
			       columns[i].event, strerror(err));
		any |= !err;
	}
	if (!any)
		report(STATUS_FAULT, "no events to read");
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
	if (set_triggers(&tree)) {
		run_rounds(place, &tree, !batch && !as_json && screen_open());
		screen_close();
	}
	instance_close();
out:
	tree_close(&tree);
}

static const struct argp_option options[] = {
	{ "key", 'k', "peer|port|socket|netns|cgroup|comm", 0, "Group by key (default: peer)", 0 },
	{ "interval", 'i', "SECONDS", 0, "Time between tables (default: 2)", 0 },
	{ "count", 'n', "COUNT", 0, "Stop after COUNT tables", 0 },
	{ "batch", 'b', NULL, 0,
	  "Print one table after another, as without a terminal", 0 },
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
	argp_error(state, "-k '%s' is not one of peer, port, socket, netns, cgroup, comm",
		   arg);
	return EINVAL;
}

const struct cmd cmd_top = {
	.name = "top",
	.brief = "Show who loses how much time, and why",
	.doc = "Needs root. Times are in milliseconds per second. STALL: data that peers held back until a late ACK from this host arrived. ACK: all data that this host acknowledged late, including the stalls. NAGLE, CORK: data that this host held back. PORT: port searches by connect(). SEND: calls that waited for room in the send buffer. EAGAIN: non-blocking senders that waited for it. IDLE/s: congestion windows cut per second. ms/s is the sum of all times except ACK; lines are sorted by it. With -k comm, only what runs in the context of the process is known. q quits.",
	.max_args = 0,
	.options = options,
	.settings = settings,
	.option = option,
	.run = run,
};
