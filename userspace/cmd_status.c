// SPDX-License-Identifier: GPL-2.0
/* tcplat status: what is loaded, what has cost time so far, and what to type next. */
#include <stdlib.h>
#include <string.h>

#include "rules.h"

/* So many fit on a terminal of 24 lines, with the rest. */
#define CAUSES	10

static void print_state(const struct snap *snap, const char *label, enum state state)
{
	char *all __free = NULL;

	for (size_t i = 0; i < snap->nr_groups; i++) {
		const struct group *group = snap->groups[i];

		if (group->state != state)
			continue;
		all = xappend(all, "%s%s", all ? ", " : "", group->name);
		if (state == STATE_UNAVAILABLE && group->status)
			all = xappend(all, " (%s)", group->status + strcspn(group->status, " ") +
				      !!strchr(group->status, ' '));
	}
	if (all)
		print_wrapped(stdout, label, all, 2);
}

/* Print the causes that the rules find in the totals, worst first. */
static void print_losses(const struct place *place, const struct snap *snap)
{
	struct exam exam = { .place = place, .snap = snap };
	struct table table = { .columns = 4, .right = "lrrl" };
	struct finding findings[RULES_MAX] = { { 0 } };
	const struct finding *order[RULES_MAX];
	size_t nr = exam_all(&exam, findings, order), missed = 0, causes = 0;
	bool seen = false, all = true;

	for (size_t i = 0; i < snap->nr_groups; i++)
		all &= snap->groups[i]->state != STATE_OFF &&
		       snap->groups[i]->state != STATE_UNAVAILABLE;

	for (size_t i = 0; i < nr_rules; i++) {
		seen |= findings[i].verdict == SEEN;
		all &= !rules[i].cause || (findings[i].known && !findings[i].missed);
		if (strcmp(rules[i].name, "missed"))
			continue;
		missed = findings[i].verdict == FOUND;
		print_wrapped(stdout, "Counts:", missed ? findings[i].what : report_status() ?
			      "some could not be read" : all ?
			      "complete, and the kernel's own agree" :
			      "complete for the groups that count, and the kernel's own agree", 2);
	}
	puts(nr > missed ? "\nSince the counters started, all connections together:" :
	     report_status() ? "\nNothing that could be read has cost time." :
	     seen ? "\nNothing has cost much since the counters started: tcplat doctor --total" :
	     all ? "\nNothing has cost time since the counters started." :
	     "\nNothing that was counted has cost time since the counters started.");
	for (size_t i = 0; i < nr; i++) {
		const struct finding *f = order[i];

		if (!f->rule->cause || ++causes > CAUSES)
			continue;
		table_cell(&table, xstrdup(f->rule->cause));
		table_cell(&table, xasprintf("%" PRIu64 " time%s", f->count,
					     f->count == 1 ? "" : "s"));
		table_cell(&table, f->ns ? draw_time(f->ns) : NULL);
		table_cell(&table, f->rule->note ? xstrdup("(note)") : NULL);
	}
	table_print(&table);
	if (causes > CAUSES)
		printf("  and %zu more: tcplat doctor --total\n", causes - CAUSES);
	findings_free(findings);
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	struct snap snap __cleanup(snap_free) = { 0 };

	(void)argc, (void)argv, (void)command;
	if (!snap_take(&snap, place))
		return;
	printf("tcplat %s: loaded%s%s; HZ %" PRIu64 "\n", snap.version ? snap.version : "?",
	       snap.kernel ? " on " : "", snap.kernel ? snap.kernel : "", snap.hz);
	if (snap.version && strcmp(snap.version, TCPLAT_VERSION))
		printf("This reader is version %s\n", TCPLAT_VERSION);
	print_state(&snap, "Counting:", STATE_ARMED);
	print_state(&snap, "Off:", STATE_OFF);
	print_state(&snap, "This kernel lacks what these need:", STATE_UNAVAILABLE);
	print_losses(place, &snap);
	puts("\nNext: tcplat doctor    watch for 10 s: what hurts now, and what helps\n"
	     "      tcplat top       who loses time, and why\n"
	     "      tcplat trace     each event, with its connection\n"
	     "      tcplat show      the counters; tcplat --help has the rest");
}

#define TABLE_COMMAND_status
#include "tables.inc"
