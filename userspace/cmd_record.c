// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat record: write who lost time and why, a line of JSON for each interval, for as long as the
 * host runs. The module may come and go meanwhile, the output may be full, the clock may be set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "events.h"
#include "snap.h"

/* Seconds between looks for new owners, whose names may be gone at the end of the interval. */
#define LOOK		2
/* The journal splits lines of 48 KiB. */
#define LINE_MOST	40000
#define METRIC		"tcplat_owner_lost_seconds_total"

static double interval = 60;
static uint64_t rounds, worst = 20;
static const char *metrics;	/* the file for Prometheus; NULL: none */

static uint32_t watched;	/* the columns that have triggers; 0: there is no instance */
static uint64_t tree;		/* the module's, when there was one last */
static struct rows before;

/* The interval so far. */
static uint64_t start_ns;
static double start, unseen, unseen_since;	/* unseen_since is 0 while something is counted */
static uint32_t counted;	/* the columns whose groups were armed all the time */
static const char *state;	/* of the module, the last one; NULL: always loaded */

static const char *keys_of(const struct source *source)
{
	if (!strcmp(source->event, "listen_overflow"))
		return "sport,netns,cgroup";
	return source->owner == OWNER_UNKNOWN ? "cgroup,netns,peer" :
	       source->owner == OWNER_FIELDS ? "comm,cgroup,peer" :
					       "common_pid.execname,cgroup,peer";
}

static void stop_watching(void)
{
	instance_close();
	columns_free();
	rows_free(&before);
	/* Nothing of what came since then is written. */
	if (watched) {
		unseen_since = start;
		unseen = 0;
	}
	watched = 0;
	counted = 0;
}

/* The columns whose groups are armed. */
static uint32_t armed_now(const struct place *place)
{
	uint32_t armed = 0;

	for (size_t i = 0; i < nr_sources; i++) {
		char *path __free = xasprintf("%s/kernel/tcplat/%s/status", place->root,
					      sources[i].group);
		char *status __free = NULL;

		armed |= (uint32_t)(!read_text(AT_FDCWD, path, &status) &&
				    words_state(status) == STATE_ARMED) << i;
	}
	return armed;
}

/* What is off by @now is not counted, although its triggers are there. */
static void see(const struct place *place, double now)
{
	uint32_t armed = watched & armed_now(place);

	counted &= armed;
	if (watched && !armed)
		state = snap_there(place) ? "off" : "absent";
	if (unseen_since)
		unseen += now - unseen_since;
	unseen_since = armed ? 0 : now;
}

/* Watch the events of all groups that are armed. If there are none, do not keep the module. */
static void watch(const struct place *place)
{
	static const struct selection all;
	struct snap snap __cleanup(snap_free) = { 0 };
	uint64_t now = snap_there(place);
	static uint64_t last;
	uint32_t armed;
	bool there;

	/* Each module's errors once. */
	report_mute(now == last);
	last = now;
	there = now && snap_take(&snap, place);
	armed = there ? armed_now(place) : 0;
	if (watched && (armed != watched || counted != watched || now != tree || before.crowded))
		stop_watching();
	if (!watched && armed && instance_need(place, "record") &&
	    columns_set(place, &snap, &all, keys_of)) {
		unseen += now_seconds() - unseen_since;
		unseen_since = 0;
		state = tree && tree != now ? "reloaded" : state;
		tree = now;
		watched = armed;
		counted = armed;
	}
	report_mute(state);
	if (!watched) {
		stop_watching();
		report(STATUS_OK, armed ? "nothing to record: the events cannot be read" :
		       there ? "nothing to record until a group is armed" :
		       "nothing to record until the module is loaded");
		state = there ? "off" : "absent";
	}
	report_mute(false);
}

/*
 * The rest, and up to @worst pods and cgroups that have series in the file. label: their name, as
 * NAMESPACE/POD/CONTAINER or /CGROUP, escaped, so that it is unique. total_ns: what they lost.
 * count: the same when the file was written. ns: what the file has. sum_ns: what they lost lately,
 * halved every 44 intervals.
 */
static struct rows owners;

/* Return the owner @name, or the rest. */
static struct loss *owner_of(const char *name)
{
	size_t i = owners.nr;

	while (--i && strcmp(owners.list[i].who.label, name))
		continue;
	return &owners.list[i];
}

/*
 * Let @name, which lost @ns, have series. If there is no room, it takes the place of the owner that
 * lost least lately, and less than half as much, so that series do not come and go.
 */
static void admit(const char *name, uint64_t ns)
{
	struct loss *least = owners.nr > worst ? &owners.list[1] : NULL;

	for (size_t i = 2; least && i < owners.nr; i++)
		least = owners.list[i].sum_ns < least->sum_ns ? &owners.list[i] : least;
	if (!least)
		least = rows_add(&owners, (struct who){ 0 });
	else if (least->sum_ns >= ns / 2)
		return;
	/* Its series end, and what they did not have yet is the rest's. */
	for (size_t c = 0; c < nr_sources; c++)
		owners.list->total_ns[c] += least->total_ns[c] - least->ns[c];
	who_free(&least->who);
	*least = (struct loss){ .who = { .label = xstrdup(name) }, .sum_ns = ns };
}

/* Add what each pod or cgroup lost in an interval, with all of its peers and processes. */
static void add_up(const struct place *place, struct rows *now)
{
	struct rows rows __cleanup(rows_free) = { 0 }, none = { 0 };
	struct loss **list, **sums;
	size_t nr;

	list = losses(now, &before, FOLD_ALL, &nr);
	for (size_t i = 0; i < nr; i++) {
		const char *pod, *cgroup = name_cgroup(place, list[i]->who.cgroup, &pod);
		char *name = escaped(pod ? pod : cgroup ? cgroup : "", true);
		struct loss *row = rows_add(&rows, (struct who){ .label = name });

		memcpy(row->total, list[i]->count, sizeof(row->total));
		memcpy(row->total_ns, list[i]->ns, sizeof(row->total_ns));
		row->sum_ns = list[i]->sum_ns;
	}
	rows_merge(&rows);
	sums = losses(&rows, &none, FOLD_DONE, &nr);
	for (size_t i = 0; i < owners.nr; i++)
		owners.list[i].sum_ns -= owners.list[i].sum_ns / 64;
	for (size_t i = 0; i < nr; i++)
		owner_of(sums[i]->who.label)->sum_ns += sums[i]->sum_ns;
	/* The worst come first, so none loses its place after its time was added. */
	for (size_t i = 0; i < nr; i++) {
		const char *name = sums[i]->who.label;

		if (*name && sums[i]->sum_ns && owner_of(name) == owners.list)
			admit(name, sums[i]->sum_ns);
		for (size_t c = 0; c < nr_sources; c++)
			owner_of(name)->total_ns[c] += sums[i]->ns[c];
	}
	free(list);
	free(sums);
}

/*
 * Write the series. An owner has one for each cause that it lost time to, which begins with 0, so
 * that rates include its first interval. The rest has all from the start.
 */
static void write_owners(FILE *out, const struct snap *unused)
{
	static const char *const labels[] = { "cgroup", "namespace", "pod", "container" };

	(void)unused;
	fputs("# HELP " METRIC " Time that connections of a pod or cgroup waited while tcplat record ran, by cause: a column of tcplat top.\n"
	      "# TYPE " METRIC " counter\n", out);
	for (size_t i = 0; i < owners.nr * nr_sources; i++) {
		char *value __free = NULL, *copy __free = NULL, *left;
		struct loss *owner = &owners.list[i / nr_sources];
		size_t c = i % nr_sources, label = i >= nr_sources && *owner->who.label != '/';

		owner->ns[c] = i < nr_sources || owner->count[c] ? owner->total_ns[c] : 0;
		owner->count[c] = owner->total_ns[c];
		if (!sources[c].time || sources[c].apart || (i >= nr_sources && !owner->count[c]))
			continue;
		copy = xstrdup(owner->who.label);
		left = copy;
		fprintf(out, METRIC "{cause=\"%s\"", sources[c].name);
		do {
			fprintf(out, ",%s=", labels[label]);
			write_quoted(out, label % 3 ? strsep(&left, "/") : left);
		} while (label % 3 && left && ++label);
		value = draw_decimal(owner->ns[c], 9);
		fprintf(out, "} %s\n", value);
	}
}

/* The line with the @most worst of @list, to be freed. */
static char *line(const struct place *place, struct loss **list, size_t nr, size_t most,
		  uint64_t dropped, uint64_t end_ns, double end)
{
	char *from __free = draw_clock(start_ns / NSEC_PER_SEC, "%FT%TZ");
	char *to __free = draw_clock(end_ns / NSEC_PER_SEC, "%FT%TZ"), *text = NULL;
	struct loss other = { 0 };
	size_t size;
	struct json json = { .out = xmemstream(&text, &size) };

	json_open(&json, NULL, '{');
	json_u64(&json, "schema", 2);
	json_text(&json, "start", from);
	json_text(&json, "end", to);
	json_number(&json, "seconds", "%.9g", end - start);
	json_text(&json, "module", state ? state : "loaded");
	json_number(&json, "unseen_seconds", "%.9g", unseen);
	json_open(&json, "not_counted", '[');
	for (size_t i = 0; i < nr_sources; i++)
		if (!(counted >> i & 1) &&
		    (!i || strcmp(sources[i].group, sources[i - 1].group)))
			json_text(&json, NULL, sources[i].group);
	json_close(&json, "]");
	json_u64(&json, "dropped", dropped);
	json_open(&json, "owners", '[');
	for (size_t i = 0; i < nr; i++) {
		if (i < most) {
			json_open(&json, NULL, '{');
			who_json(place, &json, &list[i]->who);
			loss_json(&json, list[i], false);
			json_close(&json, "}");
			continue;
		}
		other.sum_ns += list[i]->sum_ns;
		for (size_t c = 0; c < nr_sources; c++) {
			other.count[c] += list[i]->count[c];
			other.ns[c] += list[i]->ns[c];
		}
	}
	json_close(&json, "]");
	json_open(&json, "other", '{');
	json_u64(&json, "owners", nr > most ? nr - most : 0);
	loss_json(&json, &other, false);
	json_close(&json, "}}");
	fclose(json.out);
	return text;
}

/*
 * Write the line of the interval, and begin the next. If that fails, or a histogram cannot be read,
 * the interval goes on, so that nothing is lost. Return false if nobody reads the output any more.
 */
static bool end_interval(const struct place *place)
{
	char *text __free = NULL;
	uint64_t end_ns = now_ns(CLOCK_REALTIME);
	static bool torn;	/* the end of a line may be missing */
	double end = now_seconds();
	struct loss **list;
	struct rows now;
	size_t nr;

	if (!rows_read(&now)) {
		rows_free(&now);
		return true;
	}
	list = losses(&now, &before, FOLD_ALL, &nr);
	see(place, end);
	for (size_t most = worst; !text || (strlen(text) > LINE_MOST && most); most /= 2) {
		free(text);
		text = line(place, list, nr, most, now.dropped - before.dropped, end_ns, end);
	}
	printf("%s%s", torn ? "\n" : "", text);
	free(list);
	torn = !flush_output();
	if (torn) {
		bool read = errno != EPIPE;

		rows_free(&now);
		return read;
	}
	if (metrics) {
		add_up(place, &now);
		replace_file(metrics, write_owners, NULL);
	}
	rows_free(&before);
	before = now;
	start_ns = end_ns;
	start = end;
	unseen = 0;
	state = watched ? NULL : state;
	return true;
}

/* Learn the names of new owners while they are there, and what is off. */
static void look(const struct place *place)
{
	struct rows rows __cleanup(rows_free) = { 0 };
	const char *pod;

	see(place, now_seconds());
	rows_read(&rows);
	for (size_t i = 0; i < rows.nr; i++)
		name_cgroup(place, rows.list[i].who.cgroup, &pod);
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	static char buffer[2 * LINE_MOST];
	bool read = true;

	(void)argc, (void)argv, (void)command;
	/* Without permission or tracefs, waiting for the module is in vain. */
	if (!instance_need(place, "record"))
		return;
	instance_close();
	if (metrics) {
		admit("other", 0);
		if (!replace_file(metrics, write_owners, NULL))
			return;
	}
	/* All of a line is written by flush_output(). */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	watch(place);
	start_ns = now_ns(CLOCK_REALTIME);
	start = now_seconds();
	unseen_since = watched ? 0 : start;
	unseen = 0;
	for (uint64_t i = 0; read && !stopped() && (!rounds || i < rounds); i++) {
		double end = now_seconds() + interval, left;

		while (!stopped() && (left = end - now_seconds()) > 0.000001) {
			screen_wait(left < LOOK ? left : LOOK);
			if (!watched)
				watch(place);
			else if (left > LOOK)
				look(place);
		}
		read = end_interval(place);
		watch(place);
	}
	stop_watching();
	/* Otherwise the counters of what no longer runs would be exported for ever. */
	if (metrics)
		unlink(metrics);
	rows_free(&owners);
	names_forget();
}

#define TABLE_COMMAND_record
#include "tables.inc"
