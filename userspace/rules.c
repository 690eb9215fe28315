// SPDX-License-Identifier: GPL-2.0
/* The rules of tcplat doctor: what the counters mean, and what helps. */
#include <stdlib.h>
#include <string.h>

#include "rules.h"

#define MS	1000000ULL

/* Fewer events are found, too, if they lose this much per second. */
#define LONG_NS		(100 * MS)
/* ports: averages of a connect(). */
#define PORTS_MEAN	100
#define PORTS_MEAN_NS	200000
/* idlerestart: packets that a restart cuts, and a new connection's window. */
#define CWND_MEAN	10
#define CWND_INIT	10ULL
/* late: beyond the ticks that a timer is always late. */
#define LATE_TICKS	2
#define LATE_NS		(10 * MS)
/* The timer wheel lets a timer expire late by up to this share of its time. */
#define WHEEL_SHARE	8
/* answer: how long a cork's timer waits at least. */
#define CORK_NS		(200 * MS)
/* loss: the kernel delays an ACK for less than this. */
#define DELACK_MAX_NS	(200 * MS)
/* missed: counters of all groups; but overflows of listen are events. */
#define MISSES	"missed|untracked_events|again_untracked|overflows|stall_evictions"

/* Get a counter, or the sum of a histogram, 0 if unknown, and add it to those of @f unless NULL. */
static uint64_t get(const struct exam *exam, struct finding *f, const char *group, const char *file)
{
	const struct row *row = snap_row(exam->snap, group, file);
	size_t i = 0;

	if (!row || !row_values(exam->snap, row))
		return 0;
	while (f && i < f->nr_counters && f->counters[i] != row)
		i++;
	if (f && i == f->nr_counters) {
		f->counters = xreallocarray(f->counters, i + 1, sizeof(*f->counters));
		f->counters[f->nr_counters++] = row;
	}
	return row_sum(exam->snap, row);
}

/* The same for a time, in ns, whose file has any of these ends. */
static uint64_t get_ns(const struct exam *exam, struct finding *f, const char *group,
		       const char *stem)
{
	static const char *const ends[] = { "_ns", "_us", "_time_ns", "_time_us" };
	uint64_t ns = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		char *file __free = xasprintf("%s%s", stem, ends[i]);
		const struct row *row = snap_row(exam->snap, group, file);

		if (row)
			ns = get(exam, f, group, file) * row->ns;
	}
	return ns;
}

/* Whether any of these times has a bucket, not empty, that ends above @low and up to @high. */
static bool has_times(const struct exam *exam, const char *group, const char *list, uint64_t low,
		      uint64_t high)
{
	char *copy __free = xstrdup(list), *save = NULL;
	bool any = false;

	for (char *stem = strtok_r(copy, ",", &save); stem; stem = strtok_r(NULL, ",", &save)) {
		char *name __free = xasprintf("%s_hist", stem);
		const struct row *hist = snap_row(exam->snap, group, name);
		const uint64_t *counts = hist ? row_values(exam->snap, hist) : NULL;
		uint64_t to;

		for (size_t i = 0; counts && i < hist->nr; i++) {
			to = i + 1 < hist->nr ? hist->bounds[i] * hist->ns : UINT64_MAX;
			any |= counts[i] && to > low && to <= high;
		}
	}
	return any;
}

/* The sum of counters or times of the rule's group, or of others if the names say so. */
static uint64_t sum_of(const struct exam *exam, struct finding *f, const char *list, bool times)
{
	char *copy __free = xstrdup(list), *save = NULL;
	uint64_t sum = 0;

	for (char *file = strtok_r(copy, ",", &save); file; file = strtok_r(NULL, ",", &save)) {
		char *slash = strchr(file, '/');

		if (slash)
			*slash = '\0';
		sum += (times ? get_ns : get)(exam, f, slash ? file : f->rule->group,
					      slash ? slash + 1 : file);
	}
	return sum;
}

/* Whether a time grows by so much per second; totals are judged as one second. */
static bool grows(const struct exam *exam, uint64_t ns, uint64_t rate_ns)
{
	return ns >= rate_ns * (exam->snap->seconds > 1 ? exam->snap->seconds : 1);
}

/* Whether these events reach the rule's minima. */
static bool costs(const struct exam *exam, const struct rule *rule, uint64_t count, uint64_t ns)
{
	return count && ns / count >= rule->mean_ns &&
	       ((count >= rule->events && grows(exam, ns, rule->rate_ns)) ||
		(rule->time && grows(exam, ns, LONG_NS)));
}

/*
 * The value of a sysctl in the worst one's network namespace, or in the caller's if that is
 * unknown. To be freed; NULL if unknown.
 */
char *exam_sysctl(const struct exam *exam, const struct finding *f, const char *name)
{
	uint64_t netns = f->whose.nr ? f->whose.list[0].who.netns : 0;

	return exam->live ? netns_sysctl(exam->place, netns, name) : NULL;
}

/* The value that @name stands for, see struct rule. To be freed. */
static char *value_text(const struct exam *exam, struct finding *f, const char *name)
{
	char *time __free = draw_time(f->ns);
	char *during __free = draw_time(exam->snap->seconds * 1e9L);

	if (!strcmp(name, "n"))
		return xasprintf("%" PRIu64, f->count);
	if (!strcmp(name, "x"))
		return draw_number(f->extra);
	if (!strcmp(name, "mean"))
		return draw_time(f->count ? (long double)f->ns / f->count : 0);
	if (*name == 't')
		return draw_time(sum_of(exam, f, name + 2, true));
	if (*name == 's')
		return f->whose.nr ? exam_sysctl(exam, f, name + 2) : NULL;
	if (strcmp(name, "cost"))
		return xasprintf("%" PRIu64, sum_of(exam, f, name + 2, false));
	return xasprintf("%s of waiting%s%s, all connections together", time,
			 exam->snap->seconds ? " within " : "", exam->snap->seconds ? during : "");
}

/* Whether a condition holds, see struct rule. */
static bool holds(const struct exam *exam, struct finding *f, const char *condition)
{
	char *name __free = NULL, *value __free = NULL;
	const char *equals = strchr(condition, '=');
	bool same;

	if (!strcmp(condition, "x"))
		return f->extra;
	if (*condition != '?' && *condition != '!')
		return sum_of(exam, f, condition, false);
	name = xasprintf("%.*s", (int)strcspn(condition + 1, "="), condition + 1);
	/* Namespaces differ in values, not in what there is. */
	value = f->whose.nr || !equals ? exam_sysctl(exam, f, name) : NULL;
	same = value && (!equals || !strcmp(equals, "=*") || !strcmp(equals + 1, value));
	return same == (*condition == '?');
}

/* Fill in the values in @text, and leave out what does not hold. To be freed. */
static char *fill_in(const struct exam *exam, struct finding *f, const char *text)
{
	char *copy __free = xstrdup(text ? text : ""), *all = xstrdup(""), *at = copy, *end;
	bool one = false;

	while (*at) {
		size_t len = strcspn(at, "{[]~");

		all = xappend(all, "%.*s", (int)len, at);
		at += len;
		if (*at == '{') {
			char *part __free = value_text(exam, f, strsep(&at, "}") + 1);

			all = xappend(all, "%s", part ? part : "?");
			one = part && !strcmp(part, "1");
		} else if (*at == '[') {
			end = strstr(at, ": ");
			*end = '\0';
			at = holds(exam, f, at + 1) ? end + 2 : strchr(end + 1, ']') + 1;
		} else if (*at) {
			at += *at == '~' && one ? 2 : 1;
		}
	}
	return all;
}

static void finding_free(struct finding *f)
{
	free(f->counters);
	rows_free(&f->whose);
	free(f->what);
	free(f->remedy);
	free(f->caveat);
}

/* The number of files in a list. */
static size_t words(const char *list)
{
	size_t n = !!list;

	while (list && (list = strchr(list, ',')))
		n += !!list++;
	return n;
}

/* Why group @name was not examined; NULL if it was. */
const char *exam_lacks(const struct exam *exam, const char *name)
{
	const struct group *group = snap_group(exam->snap, name);

	if (!group)
		return "not in this module";
	if (group->state == STATE_UNAVAILABLE || (group->state == STATE_OFF && exam->snap->seconds))
		return group->status;
	if (group->was_off)
		return "was off";
	return group->state == STATE_UNKNOWN ? "status unknown" : NULL;
}

/*
 * Whether @row counts events that the module missed. A value below 0 is of events that are being
 * handled; that of autocorking may stay where it is small beside the count.
 */
static bool misses(const struct exam *exam, const struct row *row)
{
	const uint64_t *value = row_values(exam->snap, row);
	int64_t most = strcmp(row->name, "autocork_unseen") ? 0 :
		       1 + get(exam, NULL, "sndhold", "autocork") / 100;

	return value && *value &&
	       (row->kind == KIND_SIGNED ? (int64_t)*value > most && (int64_t)*row->values > 0 :
		has_word(MISSES, row->name) && strcmp(row->path, "listen/overflows"));
}

/* Whether events of @group may be missing: those that it missed, and in totals those while off. */
static bool group_misses(const struct exam *exam, const struct group *group)
{
	bool any = group->state == STATE_OFF;

	for (size_t i = 0; i < exam->snap->nr_rows; i++)
		any |= exam->snap->rows[i].group == group && misses(exam, &exam->snap->rows[i]);
	return any;
}

/* Set the number of events of the rule, and the time that they lost. */
static void measure(const struct exam *exam, struct finding *f)
{
	const struct rule *r = f->rule;

	f->count = r->count ? sum_of(exam, f, r->count, false) : 0;
	f->ns = r->time ? sum_of(exam, f, r->time, true) : 0;
	f->known = f->nr_counters == words(r->count) + words(r->time);
	for (size_t i = 0; i < f->nr_counters; i++)
		f->known &= !exam_lacks(exam, f->counters[i]->group->name);
}

/* Whether the rule @name, which has no check, finds something. */
static bool finds(const struct exam *exam, const char *name)
{
	struct finding f = { .rule = rules };
	bool found;

	while (strcmp(f.rule->name, name))
		f.rule++;
	measure(exam, &f);
	found = !exam_lacks(exam, f.rule->group) && costs(exam, f.rule, f.count, f.ns);
	finding_free(&f);
	return found;
}

/* Senders that wait for the peer to read have no use for a larger buffer. */
static enum verdict check_sndwait(const struct exam *exam, struct finding *f)
{
	if (!costs(exam, f->rule, f->count, f->ns))
		return RULED_OUT;
	return finds(exam, "peerwnd") && 2 * get_ns(exam, NULL, "peerwnd", "wait") >=
	       sum_of(exam, NULL, "sndwait/time,sndwait/again", true) ? SEEN : FOUND;
}

/* A peer that does not read acknowledges late, too, and probes follow though nothing was lost. */
static enum verdict check_loss(const struct exam *exam, struct finding *f)
{
	uint64_t probes = get(exam, NULL, "loss", "tlp"), ns = get_ns(exam, NULL, "loss", "tlp");
	uint64_t rtos = get(exam, NULL, "loss", "rto"), rto_ns = get_ns(exam, NULL, "loss", "rto");

	if (!costs(exam, f->rule, f->count, f->ns))
		return RULED_OUT;
	/* Delayed ACKs, which are not lost, would have come before these timers expired. */
	f->extra = (!rtos || rto_ns / rtos >= DELACK_MAX_NS) &&
		   (!probes || ns / probes >= DELACK_MAX_NS) &&
		   !has_times(exam, "loss", "rto,tlp", 0, DELACK_MAX_NS);
	return probes && !costs(exam, f->rule, f->count - probes, f->ns - ns) &&
	       finds(exam, "peerwnd") &&
	       get(exam, NULL, "peerwnd", "wait") >= probes &&
	       get_ns(exam, NULL, "peerwnd", "wait") >= ns ? SEEN : FOUND;
}

/* The events are of others than those whose wait is the finding. */
static void blame_nobody(struct finding *f)
{
	rows_free(&f->whose);
	f->asked = false;
	f->more = 0;
}

/* If both ends are on this host, the same wait may have counted at each. */
static enum verdict check_syn(const struct exam *exam, struct finding *f)
{
	uint64_t syn = get_ns(exam, NULL, "loss", "syn"), synack = f->ns - syn;
	enum verdict verdict;

	f->ns = syn > synack ? syn : synack;
	verdict = costs(exam, f->rule, f->count, f->ns) ? FOUND : RULED_OUT;
	f->count = get(exam, NULL, "loss", syn > synack ? "syn" : "synack");
	/* The events are of this host's SYNs. */
	if (synack > syn)
		blame_nobody(f);
	return verdict;
}

/*
 * Late answers of programs. What a lost segment or a cork's timer held back is no late answer of a
 * peer; if the peer is this host, the same answer counts as its own.
 */
static enum verdict check_answer(const struct exam *exam, struct finding *f)
{
	char *text __free = NULL;
	uint64_t own = get(exam, f, "answer", "own"), own_ns = get_ns(exam, f, "answer", "own");
	uint64_t peer = get(exam, f, "answer", "peer"), peer_ns = get_ns(exam, f, "answer", "peer");
	uint64_t corks = get(exam, f, "sndhold", "cork_timeouts");
	uint64_t held = own + corks + sum_of(exam, f, "loss/rto,loss/tlp", false);
	uint64_t held_ns = own_ns + corks * CORK_NS + sum_of(exam, f, "loss/rto,loss/tlp", true);
	uint64_t rest = peer > held ? peer - held : 0;
	uint64_t rest_ns = peer_ns > held_ns ? peer_ns - held_ns : 0;
	bool here = costs(exam, f->rule, own, own_ns), there;
	bool too = costs(exam, f->rule, peer, peer_ns);

	/* As many short waits are no reason for long ones. */
	if (!costs(exam, f->rule, rest, rest_ns) && rest_ns > peer_ns / 2)
		rest = peer;
	/* However long a wait was, it explains one answer. */
	if (rest_ns < rest * LATE_NS) {
		rest_ns = rest * LATE_NS;
		f->extra = 1;
	}
	there = costs(exam, f->rule, rest, rest_ns);
	if (!here && !there) {
		f->count = peer_ns > own_ns ? peer : own;
		f->ns = peer_ns > own_ns ? peer_ns : own_ns;
		return too ? SEEN : RULED_OUT;
	}
	/* The events are of this host's programs. */
	if (!here) {
		f->remedy = xstrdup("Look at what the peers' programs wait for, and at the path: a queue or a slow link makes ping take as long.");
		blame_nobody(f);
	}
	f->count = own;
	f->ns = own_ns;
	if (here)
		f->what = fill_in(exam, f, "Programs on this host took 10 ms or more for {n} answer~s, {mean} on average: {cost}.");
	if (here && f->beside)
		f->what = xappend(f->what, " They may have waited for other connections: see the other findings.");
	if (here && !there && too) {
		text = fill_in(exam, f, " Peers' answers were late {n:peer} time~s, too, {t:peer}: the same answers if the peers are on this host, else perhaps what these programs waited for.");
		f->what = xappend(f->what, "%s", text);
	}
	if (here && !there && !f->doubt)
		f->what = xappend(f->what, too ? " If not, it was not TCP." : " It was not TCP.");
	if (there) {
		f->count = rest;
		f->ns = rest_ns;
		text = fill_in(exam, f, "Peers took 10 ms or more beyond the round trip for {n} answer~s, [x: at least ]{mean} on average: [x: at least ]{cost}. This host cannot tell whether the network, their programs or their TCP held these back; run doctor there.");
		f->what = xappend(f->what, "%s%s", here ? " " : "", text);
		f->count += here ? own : 0;
		f->ns += here ? own_ns : 0;
	}
	return FOUND;
}

/* Corks that the kernel's timer ended are long, however many others are short. */
static enum verdict check_cork(const struct exam *exam, struct finding *f)
{
	uint64_t timeouts = get(exam, NULL, "sndhold", "cork_timeouts");

	return costs(exam, f->rule, f->count, f->ns) ||
	       costs(exam, f->rule, timeouts, timeouts * CORK_NS) ? FOUND : RULED_OUT;
}

/* A wait counts when it ends; probes show those that go on. */
static enum verdict check_peerwnd(const struct exam *exam, struct finding *f)
{
	uint64_t probes = get(exam, f, "peerwnd", "probes");

	if (costs(exam, f->rule, f->count, f->ns))
		return FOUND;
	if (f->count < probes)
		f->count = probes;
	return probes ? SEEN : RULED_OUT;
}

static enum verdict check_ports(const struct exam *exam, struct finding *f)
{
	uint64_t unverified = get(exam, f, "portsearch", "unverified");
	uint64_t verified = f->count - (unverified < f->count ? unverified : f->count);

	f->extra = verified ? (double)get(exam, f, "portsearch", "iterations") / verified : 0;
	return (verified >= f->rule->events && f->extra >= PORTS_MEAN) ||
	       (costs(exam, f->rule, f->count, f->ns) && f->ns / f->count >= PORTS_MEAN_NS) ?
	       FOUND : RULED_OUT;
}

static enum verdict check_idle(const struct exam *exam, struct finding *f)
{
	uint64_t lost = get(exam, f, "idlerestart", "cwnd_lost");
	uint64_t mean = f->count ? lost / f->count : 0;

	/* Slow start doubles the window in each round trip. */
	while (f->extra < 32 && CWND_INIT << (int)f->extra < CWND_INIT + mean)
		f->extra++;
	/* Most restarts of a busy host cut nothing, and their number hides those that cut much. */
	return mean >= CWND_MEAN && f->count >= f->rule->events ? FOUND :
	       mean >= CWND_MEAN || lost >= CWND_MEAN * f->rule->events ? SEEN : RULED_OUT;
}

/* The mean from which on timers are late: an idle timer is late by a tick. */
static uint64_t late_least(const struct exam *exam)
{
	uint64_t least = LATE_TICKS * exam->snap->tick_ns;

	return least < LATE_NS ? LATE_NS : least;
}

static enum verdict check_late(const struct exam *exam, struct finding *f)
{
	uint64_t wheel = get_ns(exam, NULL, "loss", "rto") / WHEEL_SHARE;

	f->ns -= wheel < f->ns ? wheel : f->ns;
	if (!get_ns(exam, NULL, "delack", "late"))
		f->event = "loss";
	if (costs(exam, f->rule, f->count, f->ns) && f->ns / f->count >= late_least(exam))
		return FOUND;
	/* Many that are late by a tick hide those that are late by more. */
	return f->ns >= f->count * exam->snap->tick_ns + f->rule->events * late_least(exam) ?
	       SEEN : RULED_OUT;
}

static enum verdict check_missed(const struct exam *exam, struct finding *f)
{
	for (size_t i = 0; i < exam->snap->nr_rows; i++) {
		const struct row *row = &exam->snap->rows[i];

		if (!misses(exam, row))
			continue;
		get(exam, f, row->group->name, row->name);
		f->what = xappend(f->what, "%s%s %" PRIu64, f->what ? ", " :
				  "Some events were not counted, so other findings may be too small: ",
				  row->path, *row_values(exam->snap, row));
	}
	return f->what ? FOUND : RULED_OUT;
}

const struct rule rules[] = {
#define TABLE_RULES
#include "tables.inc"
};

const size_t nr_rules = ARRAY_SIZE(rules);
_Static_assert(ARRAY_SIZE(rules) <= RULES_MAX, "RULES_MAX");

/* Whether two numbers of events are the same events, seen from both ends. */
static bool alike(uint64_t a, uint64_t b)
{
	return a && b && (a > b ? a - b : b - a) <= (a > b ? a : b) / 10 + 1;
}

/*
 * Whether events that are no finding may have cost somebody time: a few long waits, or many short
 * ones, which may include long ones.
 */
static bool matters(const struct exam *exam, const struct finding *f)
{
	const struct rule *r = f->rule;

	if (!r->cause || !f->count)
		return false;
	if (!r->time)
		return !r->check && f->count < r->events;
	return has_times(exam, r->group, r->time, LATE_NS, UINT64_MAX) ||
	       f->ns / f->count >= (r->within ? late_least(exam) : LATE_NS) ||
	       (!r->within && grows(exam, f->ns, LONG_NS));
}

static enum verdict check(const struct exam *exam, struct finding *f)
{
	const struct rule *r = f->rule;
	enum verdict verdict = RULED_OUT;

	f->event = r->whose.event;
	measure(exam, f);
	for (size_t i = 0; i < f->nr_counters; i++)
		f->missed |= group_misses(exam, f->counters[i]->group);
	if (r->check)
		verdict = r->check(exam, f);
	else if (r->with_stalls)
		verdict = f->count && get(exam, f, "delack", "timeouts_pingpong") >= r->events &&
			  get(exam, f, "delack", "stalls") >= r->events ? FOUND : RULED_OUT;
	else if (costs(exam, r, f->count, f->ns))
		verdict = FOUND;
	if (verdict == RULED_OUT && matters(exam, f))
		verdict = SEEN;
	if (verdict != FOUND)
		return verdict;
	f->what = f->what ? f->what : fill_in(exam, f, r->what);
	f->remedy = f->remedy ? f->remedy : fill_in(exam, f, r->remedy);
	f->caveat = fill_in(exam, f, r->caveat);
	return FOUND;
}

/*
 * Set the events and the lost time of @rule, before its minima and its check. Return false if TCP
 * lost no time by this rule, the times of other rules include it, or its counters are not there.
 */
bool exam_lost(const struct exam *exam, const struct rule *rule, uint64_t *count, uint64_t *ns)
{
	struct finding f = { .rule = rule };
	bool there;

	if (!rule->time || rule->note || rule->within || exam_lacks(exam, rule->group))
		return false;
	measure(exam, &f);
	*count = f.count;
	*ns = f.ns;
	there = f.nr_counters;
	finding_free(&f);
	return there;
}

/* Whether @rule is about calls that failed, or connections that were dropped. */
static bool fails(const struct rule *rule)
{
	return !rule->time && rule->events == 1;
}

/* What failed comes first, then what lost most time, then notes. */
static int compare_findings(const void *a, const void *b)
{
	const struct finding *x = *(struct finding *const *)a, *y = *(struct finding *const *)b;

	return compare_u64(x->rule->note, y->rule->note) ?:
	       compare_u64(fails(y->rule), fails(x->rule)) ?: compare_u64(y->ns, x->ns) ?:
	       compare_u64(x->rule - rules, y->rule - rules);
}

/*
 * One wait is one finding: peers that waited for this host's ACKs may be the senders of this host.
 * That is certain if all of them are connected by loopback.
 */
static void fold_stalls(const struct exam *exam, struct finding *nagle, struct finding *stalls)
{
	char *text __free = NULL;
	uint64_t delays = get_ns(exam, NULL, "sndhold", "peer_delay");

	if (nagle->verdict == RULED_OUT) {
		if (nagle->known && !nagle->missed)
			stalls->caveat = xappend(stalls->caveat, " Nagle's algorithm held back hardly any data of this host.");
	} else if (nagle->verdict == FOUND &&
		   alike(get(exam, nagle, "sndhold", "peer_delays"), stalls->count) &&
		   delays <= 2 * stalls->ns && stalls->ns <= 2 * delays) {
		text = fill_in(exam, nagle, stalls->local ? " The receiver is on this host, too." :
			       " Peers waited as often for late ACKs of this host, {t:delack/stall} in total: these are the same waits if the receiver is on this host, too.");
		nagle->what = xappend(nagle->what, "%s", text);
		get(exam, nagle, "delack", "stalls");
		get_ns(exam, nagle, "delack", "stall");
		stalls->verdict = SEEN;
	}
}

static void apply(const struct exam *exam, struct finding *f, const struct rule *rule)
{
	f->rule = rule;
	f->verdict = exam_lacks(exam, rule->group) && rule->check != check_missed ?
		     RULED_OUT : check(exam, f);
}

/*
 * Apply all rules: fill in a finding for each, and @order with those that were found, the worst
 * first. Return how many.
 */
size_t exam_all(const struct exam *exam, struct finding *f, const struct finding **order)
{
	struct finding *nagle = NULL;
	bool beside = false, doubt = false;
	size_t nr = 0;

	for (size_t i = 0; i < nr_rules; i++) {
		if (rules[i].note)
			continue;
		apply(exam, &f[i], &rules[i]);
		beside |= f[i].verdict == FOUND;
		doubt |= f[i].verdict != RULED_OUT || f[i].missed || !f[i].known;
		if (!strcmp(rules[i].name, "nagle"))
			nagle = &f[i];
		if (!strcmp(rules[i].name, "stalls") && f[i].verdict == FOUND &&
		    !exam_lacks(exam, "sndhold"))
			fold_stalls(exam, nagle, &f[i]);
	}
	/* Notes depend on what else was found. */
	for (size_t i = 0; i < nr_rules; i++) {
		if (!rules[i].note)
			continue;
		f[i].beside = beside;
		f[i].doubt = doubt;
		apply(exam, &f[i], &rules[i]);
	}
	for (size_t i = 0; i < nr_rules; i++)
		if (f[i].verdict == FOUND)
			order[nr++] = &f[i];
	if (nr)
		qsort(order, nr, sizeof(*order), compare_findings);
	return nr;
}

void findings_free(struct finding *findings)
{
	for (size_t i = 0; i < nr_rules; i++)
		finding_free(&findings[i]);
}
