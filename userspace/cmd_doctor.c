// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat doctor: apply the rules to what was counted in a while, find out whose it was, and print
 * the findings, worst first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules.h"

#define INTERVAL	10	/* seconds */
/* Number of owners that a finding names. */
#define WORST		3
/* Exit status of a process that a signal ended. */
#define STATUS_SIGNAL	130

static double interval;		/* 0: option not given */
static bool total, as_json, exit_code;
static const char *from, *to;	/* NULL: option not given */

/* Why it is not known whose the waits are; NULL if it is. */
static const char *nobody;

static struct finding findings[RULES_MAX];

static int compare_losses(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return compare_u64(*y->total_ns, *x->total_ns) ?: compare_u64(*y->total, *x->total);
}

/* Let the kernel sum up the events by whose they are. */
static void ask(const struct place *place)
{
	int err;

	stop_on_signals();
	err = instance_open(place, "doctor");
	nobody = !err ? "without tracepoints" : err == EACCES || err == EPERM ? "without root" :
		 "without tracefs";
	for (size_t i = 0; i < nr_rules && !err; i++) {
		const struct trigger *whose = &rules[i].whose;

		/* Fails if this module does not have the event or a field of it. */
		if (!whose->keys || !instance_has(whose->event))
			continue;
		findings[i].asked = !trigger_set(whose);
		if (findings[i].asked)
			nobody = NULL;
		else if (nobody)
			nobody = "the kernel takes no hist triggers";
	}
}

static void read_answers(const struct place *place)
{
	for (size_t i = 0; i < nr_rules; i++) {
		struct finding *f = &findings[i];

		/* Without any, what was found is other events than was asked for. */
		f->asked = f->asked && trigger_read(&rules[i].whose, &f->whose, 0) &&
			   (f->whose.nr || f->whose.dropped);
		rows_merge(&f->whose);
		f->local = f->whose.nr && !f->whose.dropped;
		for (size_t j = 0; j < f->whose.nr; j++)
			f->local &= !!who_loopback(&f->whose.list[j].who);
		if (f->whose.nr)
			qsort(f->whose.list, f->whose.nr, sizeof(struct loss), compare_losses);
		for (; f->whose.nr > WORST; f->more++)
			who_free(&f->whose.list[--f->whose.nr].who);
		/* There may be thousands for each rule. */
		f->whose.list = xreallocarray(f->whose.list, f->whose.nr, sizeof(struct loss));
		for (size_t j = 0; j < f->whose.nr; j++)
			who_find_owner(place, &f->whose.list[j].who);
	}
}

/* Why a rule was not examined whose group was. */
static const char unknown[] = "counters not known", missed[] = "not all was counted";

/* Why rule @i was not examined; NULL if it was. */
static const char *lacks(const struct exam *exam, size_t i)
{
	const struct finding *f = &findings[i];
	const struct group *group = snap_group(exam->snap, rules[i].group);
	const char *why = exam_lacks(exam, rules[i].group);

	if (why || !rules[i].cause)
		return why;
	/* Totals have what was counted while the group was on; that rules nothing out. */
	if (f->verdict == RULED_OUT && group->state == STATE_OFF)
		return group->status;
	return f->verdict != FOUND && !f->known ? unknown :
	       f->verdict == RULED_OUT && f->missed ? missed : NULL;
}

static bool is_of_rule(const char *why)
{
	return why == unknown || why == missed;
}

/*
 * The same, but NULL if another rule names the same group. @what is the group, or the rule if only
 * that was not examined.
 */
static const char *not_examined(const struct exam *exam, size_t i, const char **what)
{
	const char *why = lacks(exam, i);
	bool alone = is_of_rule(why);

	*what = alone ? rules[i].name : rules[i].group;
	for (size_t j = 0; why && j < (alone ? nr_rules : i); j++) {
		const char *other = strcmp(rules[j].group, rules[i].group) ? NULL : lacks(exam, j);

		if (other && !is_of_rule(other))
			return NULL;
	}
	return why;
}

/* Whether rule @i was examined, and its cause is one with @verdict. */
static bool came_to(const struct exam *exam, size_t i, enum verdict verdict)
{
	return rules[i].cause && findings[i].verdict == verdict && !lacks(exam, i);
}

static void print_whose(const struct exam *exam, const struct finding *f)
{
	char *all __free = NULL;

	for (size_t i = 0; i < f->whose.nr; i++) {
		char *who __free = who_text(exam->place, &f->whose.list[i].who, false);
		char *time __free = NULL;
		uint64_t count = *f->whose.list[i].total, ns = *f->whose.list[i].total_ns;

		if (ns)
			time = draw_time(ns);
		all = xappend(all, "%s%s: %s%s%" PRIu64 " time%s", all ? "; " : "", who,
			      time ? time : "", time ? ", " : "", count, count == 1 ? "" : "s");
	}
	if (f->more)
		all = xappend(all, "; and %zu more", f->more);
	if (f->whose.dropped)
		all = xappend(all, "%sothers, for which there was no room: %" PRIu64,
			      all ? "; " : "", f->whose.dropped);
	if (all)
		print_wrapped(stdout, "   Whose:", all, 5);
}

static void print_settings(const struct exam *exam, const struct finding *f)
{
	char *safe __free = NULL, *all __free = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(f->rule->sysctls) && f->rule->sysctls[i]; i++) {
		char *value __free = exam_sysctl(exam, f, f->rule->sysctls[i]);

		if (value)
			all = xappend(all, "%s%s = %s", all ? "; " : "", f->rule->sysctls[i],
				      value);
	}
	if (!all)
		return;
	if (f->whose.nr)
		safe = shown(name_netns(exam->place, f->whose.list[0].who.netns));
	else
		all = xappend(all, " (in the network namespace of this command)");
	if (safe)
		all = xappend(all, " (in netns %s)", safe);
	print_wrapped(stdout, "   Settings:", all, 5);
}

/* Commands are not wrapped, so that they can be copied. */
static void print_finding(const struct exam *exam, const struct finding *f, size_t number)
{
	char *head __free = xasprintf("%zu. %s%s:", number, f->rule->name,
				      f->rule->note ? " (note)" : "");

	print_wrapped(stdout, head, f->what, 5);
	print_whose(exam, f);
	print_wrapped(stdout, "   Remedy:", f->remedy, 5);
	print_wrapped(stdout, "   Caveat:", f->caveat, 5);
	print_settings(exam, f);
	if (f->event)
		printf("   Each event, as root: tcplat trace %s\n", f->event);
	putchar('\n');
}

/* Append to @text what was there, and is no finding. */
static char *add_seen(char *text, const struct finding *f)
{
	char *time __free = f->ns ? draw_time(f->ns) : NULL;

	return xappend(text, "%s%s (%" PRIu64 " time%s%s%s)", text ? ", " : "", f->rule->cause,
		       f->count, f->count == 1 ? "" : "s", time ? ", " : "", time ? time : "");
}

/* Append to @text the rules that were not examined for @reason, one of those of single rules. */
static char *add_rules(char *text, const struct exam *exam, const char *reason)
{
	char *those __free = NULL;

	for (size_t i = 0; i < nr_rules; i++)
		if (lacks(exam, i) == reason)
			those = xappend(those, "%s%s", those ? ", " : "", rules[i].name);
	return those ? xappend(text, "%s%s (%s)", text ? ", " : "", those, reason) : text;
}

static void print_text(const struct exam *exam, const struct finding **order, size_t nr)
{
	char *seen __free = NULL, *out __free = NULL, *not __free = NULL;
	char *time __free = draw_time(exam->snap->seconds * 1e9L);

	for (size_t i = 0; i < nr; i++)
		print_finding(exam, order[i], i + 1);
	for (size_t i = 0; i < nr_rules; i++) {
		const char *what, *why;

		why = not_examined(exam, i, &what);
		if (came_to(exam, i, RULED_OUT))
			out = xappend(out, "%s%s", out ? ", " : "", rules[i].cause);
		if (came_to(exam, i, SEEN))
			seen = add_seen(seen, &findings[i]);
		if (why && !is_of_rule(why))
			not = xappend(not, "%s%s (%s)", not ? ", " : "", what, why);
	}
	not = add_rules(not, exam, unknown);
	not = add_rules(not, exam, missed);
	if (!nr && exam->snap->seconds)
		printf("Nothing found in %s.\n", time);
	else if (!nr)
		puts("Nothing found since the counters started.");
	if (seen)
		print_wrapped(stdout, !nr ? "Seen, but too little for a finding:" :
			      "Also seen, too little for a finding or part of another:", seen, 2);
	if (out)
		print_wrapped(stdout, "Ruled out:", out, 2);
	if (nobody)
		not = xappend(not, "%swhose it is (%s)", not ? ", " : "", nobody);
	if (out)
		not = xappend(not, "%slosses and windows on the way here (run doctor at the sender)",
			      not ? ", " : "");
	if (not)
		print_wrapped(stdout, "Not examined:", not, 2);
}

static void write_finding(const struct exam *exam, struct json *json, const struct finding *f)
{
	json_open(json, NULL, '{');
	json_text(json, "rule", f->rule->name);
	json_text(json, "severity", f->rule->note ? "note" : "hurts");
	json_text(json, "what", f->what);
	json_open(json, "counters", '{');
	for (size_t i = 0; i < f->nr_counters; i++)
		json_u64(json, f->counters[i]->path, row_sum(exam->snap, f->counters[i]));
	json_close(json, "}");
	if (f->rule->time)
		json_u64(json, "lost_ns", f->ns);
	/* Absent: unknown. */
	if (f->asked)
		json_open(json, "whose", '[');
	for (size_t i = 0; i < f->whose.nr; i++) {
		json_open(json, NULL, '{');
		who_json(exam->place, json, &f->whose.list[i].who);
		json_u64(json, "count", *f->whose.list[i].total);
		if (f->rule->whose.value)
			json_u64(json, "time_ns", *f->whose.list[i].total_ns);
		json_close(json, "}");
	}
	if (f->asked) {
		json_close(json, "]");
		json_u64(json, "whose_dropped", f->whose.dropped);
	}
	json_text(json, "remedy", f->remedy);
	json_text(json, "caveat", f->caveat);
	json_text(json, "event", f->event);
	json_open(json, "settings", '{');
	for (size_t i = 0; i < ARRAY_SIZE(f->rule->sysctls) && f->rule->sysctls[i]; i++) {
		char *value __free = exam_sysctl(exam, f, f->rule->sysctls[i]);

		if (value)
			json_text(json, f->rule->sysctls[i], value);
	}
	json_close(json, "}}");
}

static void print_json(const struct exam *exam, const struct finding **order, size_t nr)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_u64(&json, "schema", 2);
	if (exam->snap->seconds)
		json_number(&json, "seconds", "%.9g", exam->snap->seconds);
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < nr; i++)
		write_finding(exam, &json, order[i]);
	json_close(&json, "]");
	json_open(&json, "seen", '[');
	for (size_t i = 0; i < nr_rules; i++) {
		if (!came_to(exam, i, SEEN))
			continue;
		json_open(&json, NULL, '{');
		json_text(&json, "rule", rules[i].name);
		json_u64(&json, "count", findings[i].count);
		if (rules[i].time)
			json_u64(&json, "lost_ns", findings[i].ns);
		json_close(&json, "}");
	}
	json_close(&json, "]");
	json_open(&json, "ruled_out", '[');
	for (size_t i = 0; i < nr_rules; i++)
		if (came_to(exam, i, RULED_OUT))
			json_text(&json, NULL, rules[i].name);
	json_close(&json, "]");
	json_open(&json, "not_examined", '{');
	for (size_t i = 0; i < nr_rules; i++) {
		const char *what, *why = not_examined(exam, i, &what);

		if (why)
			json_text(&json, what, why);
	}
	if (nobody)
		json_text(&json, "whose", nobody);
	json_close(&json, "}}");
}

static void examine(const struct exam *exam)
{
	const struct finding *order[RULES_MAX];
	size_t nr = exam_all(exam, findings, order);

	for (size_t i = 0; i < nr && exit_code; i++)
		if (!order[i]->rule->note)
			report_final(STATUS_HURTS);
	if (as_json)
		print_json(exam, order, nr);
	else
		print_text(exam, order, nr);
}

/* Wait, and say so to people. */
static void wait_for(double seconds)
{
	if (!isatty(STDERR_FILENO) || as_json) {
		screen_wait(seconds);
		return;
	}
	for (double left = seconds; left > 0 && !stopped(); left--) {
		fprintf(stderr, "\rwatching, %.0f s left ", left);
		screen_wait(left < 1 ? left : 1);
	}
	fputs("\r                        \r", stderr);
}

/* Take both readings, or load them, and examine the difference; with only one, the totals. */
static void examine_all(struct exam *exam)
{
	struct snap before __cleanup(snap_free) = { 0 }, now __cleanup(snap_free) = { 0 };
	bool watch = !(total || from || to);

	if (watch ? !snap_take(&before, exam->place) : from && !snap_load(&before, from))
		return;
	nobody = "only known while doctor watches";
	exam->live = !to;
	if (watch) {
		ask(exam->place);
		wait_for(interval ? interval : INTERVAL);
	}
	if (stopped()) {
		report_final(STATUS_SIGNAL);
	} else if (to ? snap_load(&now, to) : snap_take(&now, exam->place)) {
		exam->snap = &now;
		if (watch)
			read_answers(exam->place);
		if (!(watch || from) ||
		    snap_between(&now, &before, from, to, watch ? "; try again" : ""))
			examine(exam);
	}
	instance_close();
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	struct exam exam = { .place = place, .live = true };

	(void)argc, (void)argv, (void)command;
	if ((total || from || to) && interval)
		report(STATUS_USAGE, "--interval cannot be used with --total, --from or --to");
	else if (total && from)
		report(STATUS_USAGE, "--total cannot be used with --from");
	else
		examine_all(&exam);
	findings_free(findings);
	names_forget();
}

#define TABLE_COMMAND_doctor
#include "tables.inc"
