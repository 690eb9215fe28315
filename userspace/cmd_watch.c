// SPDX-License-Identifier: GPL-2.0
/* tcplat watch: what the counters gain, second by second. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "draw.h"
#include "report.h"
#include "snap.h"
#include "text.h"

#define INTERVAL_MIN	0.1
#define INTERVAL_MAX	86400.0

static double interval = 1;
static uint64_t rounds;		/* 0: for ever */

/* A column of plain lines, or a row on a terminal. */
struct column {
	char *name;		/* GROUP/FILE */
	char *value;		/* what it is now, per second if it is a rate */
	char *human;
	char *total;
};

struct columns {
	struct column *list;
	size_t nr;
};

static void columns_free(struct columns *columns)
{
	for (size_t i = 0; i < columns->nr; i++) {
		free(columns->list[i].name);
		free(columns->list[i].value);
		free(columns->list[i].human);
		free(columns->list[i].total);
	}
	free(columns->list);
	memset(columns, 0, sizeof(*columns));
}

static bool shown(const struct group *group, const struct file *file)
{
	return group->state != STATE_UNAVAILABLE &&
	       (file->kind == KIND_COUNTER || file->kind == KIND_GAUGE);
}

static bool number_of(struct snap *snap, const char *group, const char *file,
		      uint64_t *value)
{
	struct group *g = tree_group(&snap->tree, group);

	return g && group_number(g, file, value);
}

/* A rate of a time is a share of the time: so many ms in each second. */
static char *human_rate(long double rate, const struct file *file,
			uint64_t tick_ns)
{
	const long double ns[] = {
		[UNIT_NONE] = 0,
		[UNIT_NS] = 1,
		[UNIT_US] = 1000,
		[UNIT_JIFFIES] = tick_ns,
	};
	char *time, *s;

	if (!ns[file->unit])
		return NULL;
	time = draw_time(rate * ns[file->unit]);
	s = xasprintf("%s per s", time);
	free(time);
	return s;
}

static void set_rate(struct column *c, const struct file *file,
		     long double rate, uint64_t tick_ns)
{
	c->value = draw_number(rate);
	c->human = human_rate(rate, file, tick_ns);
}

/*
 * What each counter of @now gained a second since @before; - where that is not
 * known: before the first interval is over, when the counters began anew, for
 * what is switched off or cannot be read.
 */
static void columns_fill(struct columns *columns, struct snap *now,
			 struct snap *before)
{
	bool known = before && !snap_restarted(now, before) &&
		     now->time_ns > before->time_ns;

	for (size_t i = 0; i < now->tree.nr_groups; i++) {
		struct group *group = &now->tree.groups[i];

		for (size_t j = 0; j < group->nr_files; j++) {
			struct file *file = &group->files[j];
			struct column *c;
			uint64_t value, old;
			bool good;

			if (!shown(group, file))
				continue;
			columns->list = xreallocarray(columns->list,
						      columns->nr + 1,
						      sizeof(*c));
			c = &columns->list[columns->nr++];
			memset(c, 0, sizeof(*c));
			c->name = xasprintf("%s/%s", group->name, file->name);
			good = group_value(group, file, &value);
			c->total = good ? xasprintf("%" PRIu64, value) :
					  xasprintf("?");
			if (good && file->kind == KIND_GAUGE) {
				c->value = xasprintf("%" PRIu64, value);
				continue;
			}
			if (!good || !known || group->state != STATE_ARMED ||
			    !number_of(before, group->name, file->name, &old)) {
				c->value = xasprintf("-");
				continue;
			}
			set_rate(c, file, (long double)(value - old) * 1e9L /
				 (now->time_ns - before->time_ns), now->tick_ns);
		}
	}
}

static bool same_columns(const struct columns *a, const struct columns *b)
{
	if (a->nr != b->nr)
		return false;
	for (size_t i = 0; i < a->nr; i++)
		if (strcmp(a->list[i].name, b->list[i].name))
			return false;
	return true;
}

/* One line, as wide as its heading, which is printed when it changes. */
static void print_line(const struct columns *columns, bool heading)
{
	for (size_t i = 0; heading && i < columns->nr; i++)
		printf("%s%s", i ? " " : "", columns->list[i].name);
	if (heading)
		putchar('\n');
	for (size_t i = 0; i < columns->nr; i++)
		printf("%s%*s", i ? " " : "",
		       (int)strlen(columns->list[i].name),
		       columns->list[i].value);
	putchar('\n');
}

/* The window as it is now: somebody may have drawn at its corner. */
static struct winsize window(void)
{
	struct winsize ws = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || ws.ws_row < 5)
		ws.ws_row = 24;
	if (!ws.ws_col)
		ws.ws_col = 80;
	return ws;
}

/* A screenful: home, a row for each counter, and nothing below them. */
static void print_screen(const struct columns *columns, uint64_t ns, bool loaded)
{
	struct winsize ws = window();
	struct table table = {
		.nr_columns = 4,
		/* A line that goes on below would push the first ones out. */
		.width = ws.ws_col,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT, ALIGN_RIGHT },
	};
	/* The line above, the heading, what is left out, and the cursor's. */
	size_t room = ws.ws_row - 4;
	char *time = draw_time(ns);
	char *text;

	printf("\033[H");
	if (!loaded)
		text = xasprintf("tcplat: the module is not loaded now");
	else if (ns)
		text = xasprintf("tcplat: per second, over %s", time);
	else
		text = xasprintf("tcplat: wait for the first interval");
	draw_line(text, ws.ws_col);
	free(text);
	free(time);
	table_row(&table, NULL, xasprintf("per second"), NULL,
		  xasprintf("in all"));
	for (size_t i = 0; i < columns->nr && i < room; i++) {
		const struct column *c = &columns->list[i];

		table_row(&table, xasprintf("%s", c->name),
			  xasprintf("%s", c->value),
			  c->human ? xasprintf("%s", c->human) : NULL,
			  xasprintf("%s", c->total));
	}
	table_print(&table);
	if (columns->nr > room) {
		text = xasprintf("  %zu more: make the window larger, or name groups",
				 columns->nr - room);
		draw_line(text, ws.ws_col);
		free(text);
	}
	printf("\033[J");
}

static bool has_screen(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb");
}

/* Print what lies between the two; either may not be there (NULL). */
static void print_round(struct columns *columns, struct snap *now,
			struct snap *before, bool screen)
{
	static bool heading = true;
	struct columns next = { 0 };

	if (!now) {
		/* The same columns, with nothing known. */
		for (size_t i = 0; i < columns->nr; i++) {
			struct column *c = &columns->list[i];

			free(c->value);
			free(c->human);
			c->value = xasprintf("-");
			c->human = NULL;
		}
	} else {
		columns_fill(&next, now, before);
		heading |= !same_columns(&next, columns);
		columns_free(columns);
		*columns = next;
	}
	if (screen)
		print_screen(columns, now && before ?
			     now->time_ns - before->time_ns : 0, now);
	else
		print_line(columns, heading);
	heading = false;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct columns columns = { 0 };
	bool screen = has_screen();
	struct snap before, now;
	bool had, has;

	if (!snap_take(&before, place, argc, argv))
		return;
	had = true;
	columns_fill(&columns, &before, NULL);
	if (screen) {
		/* A screenful in one piece. */
		setvbuf(stdout, NULL, _IOFBF, 1 << 16);
		print_screen(&columns, 0, true);
		fflush(stdout);
	}
	for (uint64_t i = 0; !rounds || i < rounds; i++) {
		snap_sleep(interval);
		/* What is wrong was said at first; it stays visible as -. */
		report_mute(true);
		has = snap_there(place) && snap_take(&now, place, argc, argv);
		report_mute(false);
		print_round(&columns, has ? &now : NULL, had ? &before : NULL,
			    screen);
		if (had)
			snap_free(&before);
		had = has;
		if (has)
			before = now;
		/* main() says why. */
		if (fflush(stdout))
			break;
	}
	if (had)
		snap_free(&before);
	else
		report(STATUS_FAULT, "the module is not loaded any more");
	columns_free(&columns);
}

static const struct argp_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "Time between two lines (1)", 0 },
	{ "count", 'n', "COUNT", 0, "End after so many lines", 0 },
	{ 0 },
};

static int option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'i':
		if (parse_seconds(arg, INTERVAL_MIN, INTERVAL_MAX, &interval))
			return 0;
		argp_error(state, "-i '%s' is not a number of seconds from 0.1 to 86400",
			   arg);
		return EINVAL;
	case 'n':
		if (parse_number(arg, &rounds) && rounds)
			return 0;
		argp_error(state, "-n '%s' is not a number from 1", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct cmd cmd_watch = {
	.name = "watch",
	.args = "[GROUP...]",
	.brief = "Print what is counted per second, again and again",
	.doc = "On a terminal it redraws a table; elsewhere it prints a line each time. - stands for what is not known: the group is off, or the counters began anew.",
	.max_args = -1,
	.options = options,
	.option = option,
	.run = run,
};
