/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_RULES_H
#define TCPLAT_RULES_H

#include "events.h"
#include "snap.h"

/* What is examined. */
struct exam {
	const struct place *place;
	bool live;		/* this host, so that its sysctls apply */
	const struct snap *snap;
};

enum verdict {
	RULED_OUT,
	SEEN,			/* too little for a finding, or part of another one */
	FOUND,
};

struct rule;

struct finding {
	const struct rule *rule;
	enum verdict verdict;
	uint64_t count, ns;	/* events, and the time lost */
	bool known;		/* all counters that the rule needs are known */
	bool missed;		/* they may be too small */
	bool beside;		/* of a note: there are findings that are none */
	bool doubt;		/* of a note: other causes are not ruled out */
	double extra;
	char *what, *remedy, *caveat;	/* set if the verdict is FOUND */
	const struct row **counters;	/* that it is based on */
	size_t nr_counters;
	const char *event;	/* that shows each */
	bool asked;
	struct rows whose;	/* worst first, in column 0 */
	size_t more;		/* not in whose */
	bool local;		/* there are some, and all peers are connected by loopback */
};

/*
 * A rule of the file tables. Counters and times may be several, separated by commas, which are
 * added up; those of other groups have their name before a slash. Times are named without _ns, _us
 * or _time_ns. Of a histogram the sum counts.
 *
 * In texts {n}, {mean} and {cost} are the number of events, their mean and total time, {x} is what
 * the check computed, {n:FILE} a counter, {t:FILE} a time and {s:NAME} a sysctl. [FILE: TEXT] is
 * left out if the counter is 0, [x: TEXT] if {x} is, [?NAME=VALUE: TEXT] unless the sysctl is known
 * to have the value, and [!NAME=VALUE: TEXT] if it is. The value * is any; [?NAME: TEXT] asks only
 * whether the sysctl exists. ~ and the letter after it are left out if the last value was 1.
 */
struct rule {
	const char *name;
	const char *cause;	/* in the list of what was ruled out */
	const char *group;
	const char *count, *time;
	/* It is found from this many events on, of this mean, that lose this time per second. */
	uint64_t events, mean_ns, rate_ns;
	bool note;		/* it was not TCP, or it is about the counts */
	bool with_stalls;	/* only if peers waited for late ACKs */
	bool within;		/* the times of other rules include this time */
	const char *what, *remedy, *caveat;
	const char *sysctls[3];	/* of the worst one's network namespace */
	struct trigger whose;	/* no keys: whose it is remains unknown */
	enum verdict (*check)(const struct exam *exam, struct finding *f);
};

extern const struct rule rules[];
extern const size_t nr_rules;
#define RULES_MAX	32

const char *exam_lacks(const struct exam *exam, const char *name);
char *exam_sysctl(const struct exam *exam, const struct finding *f, const char *name);
bool exam_lost(const struct exam *exam, const struct rule *rule, uint64_t *count, uint64_t *ns);
size_t exam_all(const struct exam *exam, struct finding *findings, const struct finding **order);
void findings_free(struct finding *findings);

#endif
