// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat doctor: what the counters mean. A rule is a function that fills in a
 * finding, and a line in rules[]; tcplat(8) documents the thresholds.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draw.h"
#include "json.h"
#include "nodelay.h"
#include "report.h"
#include "saved.h"
#include "snap.h"
#include "text.h"
#include "who.h"
#include "whose.h"

/* Fewer events than this are no pattern. */
#define EVENTS_MIN	10
/* Lost per second of the interval; in a total there is no telling. */
#define LOST_NS_MIN	1000000		/* 1 ms: 0.1% */
#define SNDWAIT_NS_MIN	10000000	/* 10 ms: 1% */
/* Means, of each event. */
#define SNDWAIT_MEAN_NS	1000000
#define PORTS_MEAN_MIN	100
#define CWND_MEAN_MIN	10
/* One in so many. */
#define UNVERIFIED_PART	10

#define INTERVAL	10
#define WIDTH		100

/* A range of fewer ports than this can be made wider. */
#define PORTS_WIDE	60000

#ifdef HAVE_TRACEFS
#define TRACE_CMD	"tcplat trace %.*s"
#define TRACE_WHAT(f)	(int)strcspn((f)->numbers[0].name, "/"), (f)->numbers[0].name
#else
#define TRACE_CMD	"trace-cmd record -e tcplat:%s"
#define TRACE_WHAT(f)	(f)->event
#endif

/* How many are named of those whose events they were. */
#define WORST		3

/* The sockets of one process that are looked at. */
#define COOKIES_MAX	64

static double interval;		/* 0: the option was not given */
static bool total;
static bool as_json;
static const char *from, *to;	/* NULL: the option was not given */

/* A counter that a rule went by. */
struct number {
	char *name;		/* GROUP/FILE */
	uint64_t value;
};

struct finding {
	const char *rule;
	char *what;		/* what happens, how often, what it costs */
	char *help;
	char *doubt;		/* what does not follow from it */
	const char *look;	/* what shows the connections */
	const char *event;	/* a tracepoint that does, or NULL */
	struct number *numbers;
	size_t nr_numbers;
	const struct whose *whose;	/* NULL: the rule does not ask */
};

/* The patient. */
struct exam {
	struct snap *snap;
	struct place place;	/* without what stands for /proc if that is another host's */
	double seconds;		/* 0: since the last reset, however long ago */
	struct whose *whose;	/* by enum asked */
};

/* Whose events they were, as far as the tracepoint knows. */
enum asked {
	ASK_HOLDS,
	ASK_STALLS,
	ASK_LATE_ACKS,
	ASK_QUICKACK,
	ASK_NO_PORT,
	ASK_PORTS,
	ASK_WAITS,
	ASK_AGAIN,
	ASK_RESTARTS,
	NR_ASKED,
	ASK_NOBODY = NR_ASKED,
};

/* Numbers in filters: Documentation/tracepoints.md. */
static const struct trigger triggers[] = {
	[ASK_HOLDS] = { "snd_hold", "comm,pid,cookie", "time_ns", "cause == 1" },
	[ASK_STALLS] = { "ack_stall", "peer,cgroup,netns", "stall_us", NULL },
	[ASK_LATE_ACKS] = { "delack_timeout", "peer,cgroup,netns", "delay_us", NULL },
	[ASK_QUICKACK] = { "ack_mode", "peer,cgroup,netns", NULL, "cause == 2" },
	[ASK_NO_PORT] = { "port_search", "common_pid.execname,peer,dport", NULL, "error != 0" },
	[ASK_PORTS] = { "port_search", "common_pid.execname,peer,dport", "time_ns", NULL },
	[ASK_WAITS] = { "snd_wait", "common_pid.execname,peer,dport", "time_ns", "kind == 0" },
	[ASK_AGAIN] = { "snd_wait", "peer,dport,cgroup", "time_ns", "kind != 0" },
	[ASK_RESTARTS] = { "idle_restart", "peer,cgroup,netns", NULL, NULL },
};

struct rule {
	const char *name;
	bool (*check)(const struct exam *exam, struct finding *finding);
	enum asked asked;
};

/* Kernels that have it delay no ACK for longer than the shortest retransmission timeout. */
#define RTO_MIN		"net.ipv4.tcp_rto_min_us"

static const char *const sysctls[] = {
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_port_step_width",
	"net.ipv4.tcp_tw_reuse",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_pingpong_thresh",
	"net.ipv4.tcp_no_delay_ack_on_quickack",
	RTO_MIN,
	"net.ipv4.tcp_wmem",
};

static void note(struct finding *f, const char *group, const char *file, uint64_t value)
{
	f->numbers = xreallocarray(f->numbers, f->nr_numbers + 1, sizeof(*f->numbers));
	f->numbers[f->nr_numbers++] = (struct number){
		.name = xasprintf("%s/%s", group, file),
		.value = value,
	};
}

/* Whether a counter is there; what is wrong with it has been reported. */
static bool get(const struct exam *exam, struct finding *f, const char *group,
		const char *file, uint64_t *value)
{
	struct group *g = tree_group(&exam->snap->tree, group);

	if (!g || !group_number(g, file, value))
		return false;
	note(f, group, file, *value);
	return true;
}

/* Whether a sysctl is known to be @text. */
static bool sysctl_is(const struct exam *exam, const char *name, const char *text)
{
	char *value = place_sysctl(&exam->place, name);
	bool same = value && !strcmp(value, text);

	free(value);
	return same;
}

static bool costs(const struct exam *exam, long double ns, long double min)
{
	return !exam->seconds || ns >= min * exam->seconds;
}

/* How much time, and per second where that is known. To be freed. */
static char *cost(const struct exam *exam, long double ns)
{
	char *all = draw_time(ns);
	char *each, *s;

	if (!exam->seconds)
		return all;
	each = draw_time(ns / exam->seconds);
	s = xasprintf("%s, %s per second", all, each);
	free(all);
	free(each);
	return s;
}

#define SENDER_OR_QUICKACK							\
	"Where data is sent in several small writes: one write (or writev) "	\
	"for a message, or TCP_NODELAY at the sender. TCP_QUICKACK at the "	\
	"receiver helps until the next answer, when the kernel delays ACKs "	\
	"again: it would have to be set before each recv()."

/* What is done about late ACKs. To be freed. */
static char *less_delay(const struct exam *exam)
{
	char *rto_min = place_sysctl(&exam->place, RTO_MIN);
	bool shortens = rto_min;

	free(rto_min);
	return xstrdup(shortens ?
			SENDER_OR_QUICKACK " On this kernel a route with rto_min, say 20ms, makes "
			"the receiver's ACKs wait for less than that." :
			SENDER_OR_QUICKACK);
}

/* What is set on the sockets of the process that wrote most, whose name is @who. To be freed. */
static enum nodelay worst_writer(const struct exam *exam, char **who)
{
	const struct share *worst;
	const char *pid;
	uint64_t number;

	*who = NULL;
	if (!exam->whose || !exam->whose[ASK_HOLDS].nr)
		return NODELAY_UNKNOWN;
	worst = &exam->whose[ASK_HOLDS].shares[0];
	pid = strrchr(worst->key, '\t');
	if (!pid || !parse_number(pid + 1, &number) || !number)
		return NODELAY_UNKNOWN;
	*who = xasprintf("%.*s (%" PRIu64 ")", (int)(pid - worst->key), worst->key, number);
	return process_nodelay(number, worst->cookies, worst->nr_cookies < COOKIES_MAX ?
			       worst->nr_cookies : COOKIES_MAX);
}

static bool check_nagle(const struct exam *exam, struct finding *f)
{
	static const char *const help[] = {
		[NODELAY_SET] = "TCP_NODELAY has been set on its sockets since: watch again.",
		[NODELAY_UNSET] = "One write (or writev) for a message; or TCP_NODELAY, which is "
				  "not set on its sockets.",
		[NODELAY_UNKNOWN] = "One write (or writev) for a message; or TCP_NODELAY, which "
				    "was not set on these sockets.",
	};
	uint64_t held, ns, delays, delay_ns;
	char *time, *each, *delay, *who;

	if (!get(exam, f, "sndhold", "nagle", &held) ||
	    !get(exam, f, "sndhold", "nagle_time_ns", &ns) || held < EVENTS_MIN ||
	    !costs(exam, ns, LOST_NS_MIN))
		return false;
	f->help = xstrdup(help[worst_writer(exam, &who)]);
	time = draw_time(ns);
	each = exam->seconds ? draw_time(ns / exam->seconds) : NULL;
	f->what = xasprintf("%" PRIu64 " times data of this host waited for a peer's ACK "
			    "because of Nagle's algorithm, %s in all%s%s%s%s%s%s.",
			    held, time, each ? " (" : "", each ? each : "",
			    each ? " per second)" : "", who ? "; process " : "",
			    who ? who : "", who ? " wrote most of it" : "");
	if (get(exam, f, "sndhold", "peer_delays", &delays) &&
	    get(exam, f, "sndhold", "peer_delay_ns", &delay_ns)) {
		delay = draw_time(delay_ns);
		f->doubt =
			xasprintf("A hold of one round trip is what the algorithm is for; "
				  "%" PRIu64 " of these were much longer, by %s, as where "
				  "the peer delays its ACKs.",
				  delays, delay);
		free(delay);
	} else {
		f->doubt = xstrdup("A hold of one round trip is what the algorithm is for.");
	}
	f->look = "ss -tin shows notsent on such sockets";
	f->event = "snd_hold";
	free(time);
	free(each);
	free(who);
	return true;
}

static bool check_stalls(const struct exam *exam, struct finding *f)
{
	uint64_t stalls, us, held;
	char *time;

	if (!get(exam, f, "delack", "stalls", &stalls) ||
	    !get(exam, f, "delack", "stall_us", &us) || stalls < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("%" PRIu64 " times a peer held data back until a "
			    "delayed ACK of this host came; that took %s.",
			    stalls, time);
	free(time);
	f->help = less_delay(exam);
	if (!get(exam, f, "sndhold", "nagle", &held)) {
		f->doubt = xstrdup("Whether the sender waited because of Nagle's algorithm or of "
				   "a small congestion window cannot be told from here.");
	} else if (held) {
		f->doubt =
			xasprintf("Nagle's algorithm held back data of this host "
				  "%" PRIu64 " times: where both ends are here, that "
				  "is the cause. Of peers elsewhere it cannot be told "
				  "from here.",
				  held);
	} else {
		f->doubt = xstrdup("No data of this host was held back by Nagle's algorithm. "
				   "Of peers elsewhere it cannot be told from here whether it "
				   "was that or a small congestion window.");
	}
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "ack_stall";
	return true;
}

static bool check_delays(const struct exam *exam, struct finding *f)
{
	uint64_t stalls, timeouts, us;
	char *time;

	/* A module that counts stalls knows better. */
	if (get(exam, f, "delack", "stalls", &stalls) ||
	    !get(exam, f, "delack", "timeouts", &timeouts) ||
	    !get(exam, f, "delack", "delay_us", &us) || timeouts < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("The delayed-ACK timer sent %" PRIu64 " ACKs; the "
			    "oldest data that they acknowledged waited for %s.",
			    timeouts, time);
	free(time);
	f->help = less_delay(exam);
	f->doubt = xstrdup("Whether anybody waited for these ACKs is not known: this "
			   "module does not count stalls, and an ACK that is late on an "
			   "idle connection hurts nobody.");
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "delack_timeout";
	return true;
}

static bool check_quickack(const struct exam *exam, struct finding *f)
{
	uint64_t left, late;

	if (!get(exam, f, "ackmode", "pingpong_exits_setsockopt", &left) ||
	    !get(exam, f, "delack", "timeouts_pingpong", &late) ||
	    left < EVENTS_MIN || late < EVENTS_MIN)
		return false;
	f->what = xasprintf("TCP_QUICKACK took sockets out of pingpong mode %" PRIu64 " "
			    "times, and still %" PRIu64 " ACKs were late on "
			    "sockets in pingpong mode.",
			    left, late);
	f->help = xstrdup("TCP_QUICKACK does not last: with the next answer the kernel "
			  "enters pingpong mode again. Set it before each recv(), or "
			  "better let the sender not wait: one write for a message, or "
			  "TCP_NODELAY.");
	f->doubt = xstrdup("Whether these are the same sockets is not known.");
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "ack_mode";
	return true;
}

/* What is done about a want of ports, but for what is set already. To be freed. */
static char *more_ports(const struct exam *exam)
{
	char *range = place_sysctl(&exam->place, "net.ipv4.ip_local_port_range");
	unsigned int low, high;
	bool wide = range && sscanf(range, "%u %u", &low, &high) == 2 &&
		    high >= low + PORTS_WIDE - 1;

	free(range);
	return xasprintf("%s connections open and use them again.%s",
			 wide ? "Keep" : "Widen net.ipv4.ip_local_port_range; keep",
			 sysctl_is(exam, "net.ipv4.tcp_tw_reuse", "1") ? "" :
			 " Where the peer has timestamps, net.ipv4.tcp_tw_reuse=1 lets "
			 "connect() take ports in TIME_WAIT.");
}

static bool check_ports(const struct exam *exam, struct finding *f)
{
	uint64_t searches, unverified = 0, iterations, ns;
	char *tried, *mean, *time;

	if (!get(exam, f, "portsearch", "searches", &searches) ||
	    !get(exam, f, "portsearch", "iterations", &iterations) ||
	    !get(exam, f, "portsearch", "time_ns", &ns))
		return false;
	get(exam, f, "portsearch", "unverified", &unverified);
	if (searches < unverified || searches - unverified < EVENTS_MIN ||
	    iterations / (searches - unverified) < PORTS_MEAN_MIN)
		return false;
	tried = draw_number((long double)iterations / (searches - unverified));
	mean = draw_time((long double)ns / searches);
	time = cost(exam, ns);
	f->what = xasprintf("connect() tried %s ports before it found one "
			    "(mean of %" PRIu64 " calls) and searched for %s "
			    "each: %s.",
			    tried, searches - unverified, mean, time);
	free(tried);
	free(mean);
	free(time);
	f->help = more_ports(exam);
	f->doubt = xstrdup("Which destination has used up its ports is not known: they "
			   "are counted for each one apart.");
	f->look =
		"ss -Htan state time-wait | awk '{ print $4 }' | sort | uniq "
		"-c | sort -n shows the destinations";
	f->event = "port_search";
	return true;
}

static bool check_exhausted(const struct exam *exam, struct finding *f)
{
	uint64_t searches, exhausted;
	char *share;

	if (!get(exam, f, "portsearch", "searches", &searches) ||
	    !get(exam, f, "portsearch", "exhausted", &exhausted) || !exhausted)
		return false;
	share = draw_percent(exhausted, searches);
	f->what = xasprintf("%" PRIu64 " of %" PRIu64 " connect() calls (%s) "
			    "found no free port and failed with EADDRNOTAVAIL.",
			    exhausted, searches, share);
	free(share);
	f->help = more_ports(exam);
	f->doubt = xstrdup("Which program failed is not known, nor whether it tried "
			   "again.");
	f->look =
		"ss -Htan | awk '{ print $5 }' | sort | uniq -c | sort -n "
		"shows the destinations";
	f->event = "port_search";
	return true;
}

static bool check_bind(const struct exam *exam, struct finding *f)
{
	uint64_t searches, exhausted;
	char *share, *ports;

	if (!get(exam, f, "bindsearch", "searches", &searches) ||
	    !get(exam, f, "bindsearch", "exhausted", &exhausted) || !exhausted)
		return false;
	share = draw_percent(exhausted, searches);
	f->what = xasprintf("%" PRIu64 " of %" PRIu64 " calls of bind() to "
			    "port 0 or listen() (%s) found no free port: "
			    "EADDRINUSE.",
			    exhausted, searches, share);
	free(share);
	ports = more_ports(exam);
	f->help = xasprintf("Before connect(), do not bind() to port 0, or set "
			    "IP_BIND_ADDRESS_NO_PORT: then a port need be free for this "
			    "destination only. %s",
			    ports);
	free(ports);
	f->doubt = xstrdup("The kernel says the same when it has no memory left.");
	f->look =
		"ss -Htan | awk '{ print $4 }' | sort | uniq -c | sort -n "
		"shows the ports in use";
	return true;
}

/* @ns of @waits for room in the send buffer, each of which @says what. */
static bool room_wanted(const struct exam *exam, struct finding *f, const char *says,
			uint64_t waits, uint64_t ns)
{
	char *time, *mean;

	if (waits < EVENTS_MIN || ns / waits < SNDWAIT_MEAN_NS ||
	    !costs(exam, ns, SNDWAIT_NS_MIN))
		return false;
	time = cost(exam, ns);
	mean = draw_time((long double)ns / waits);
	f->what = xasprintf("%s %" PRIu64 " times for room in the "
			    "send buffer, %s each: %s.",
			    says, waits, mean, time);
	free(time);
	free(mean);
	f->help = xstrdup("If the path has a large delay: a larger maximum in "
			  "net.ipv4.tcp_wmem, and no SO_SNDBUF, which switches the "
			  "kernel's own tuning off. If the peer is slow in reading, "
			  "only the peer can help.");
	f->doubt = xstrdup("A sender of bulk data is meant to wait here: that alone is "
			   "no fault. Network and peer cannot be told apart.");
	f->look =
		"ss -tinm shows full buffers (skmem: t near tb), rwnd_limited "
		"and sndbuf_limited";
	f->event = "snd_wait";
	return true;
}

static bool check_sndwait(const struct exam *exam, struct finding *f)
{
	uint64_t waits, ns;

	return get(exam, f, "sndwait", "waits", &waits) &&
	       get(exam, f, "sndwait", "time_ns", &ns) &&
	       room_wanted(exam, f, "send() waited", waits, ns);
}

static bool check_again(const struct exam *exam, struct finding *f)
{
	uint64_t waits, gave_up, ns;

	return get(exam, f, "sndwait", "again", &waits) &&
	       get(exam, f, "sndwait", "again_gave_up", &gave_up) &&
	       get(exam, f, "sndwait", "again_time_ns", &ns) && waits >= gave_up &&
	       room_wanted(exam, f, "Senders that do not block waited (EAGAIN)",
			   waits - gave_up, ns);
}

static bool check_idle(const struct exam *exam, struct finding *f)
{
	uint64_t restarts, lost;
	char *mean;

	if (!get(exam, f, "idlerestart", "restarts", &restarts) ||
	    !get(exam, f, "idlerestart", "cwnd_lost", &lost) ||
	    restarts < EVENTS_MIN || lost / restarts < CWND_MEAN_MIN)
		return false;
	mean = draw_number((long double)lost / restarts);
	f->what = xasprintf("%" PRIu64 " times a connection began again with "
			    "slow start after it had been idle, and lost %s "
			    "packets of its congestion window in the mean.",
			    restarts, mean);
	free(mean);
	f->help = xstrdup(sysctl_is(exam, "net.ipv4.tcp_slow_start_after_idle", "0") ?
			  "net.ipv4.tcp_slow_start_after_idle is 0 here, which keeps the window: "
			  "these connections are of before it was set, or of another network "
			  "namespace." :
			  "net.ipv4.tcp_slow_start_after_idle=0 keeps the window.");
	f->doubt = xstrdup("How much later the data arrived is not known: it takes more "
			   "round trips only if there was more to send than the small "
			   "window holds. On paths whose capacity changes the restart is "
			   "a protection.");
	f->look =
		"ss -ti shows cwnd, and lastsnd: milliseconds since the last "
		"data";
	f->event = "idle_restart";
	return true;
}

static bool check_unverified(const struct exam *exam, struct finding *f)
{
	uint64_t searches, unverified;

	if (!get(exam, f, "portsearch", "searches", &searches) ||
	    !get(exam, f, "portsearch", "unverified", &unverified) ||
	    searches < EVENTS_MIN ||
	    unverified < searches / UNVERIFIED_PART +
			 !!(searches % UNVERIFIED_PART))
		return false;
	f->what = xasprintf("Of %" PRIu64 " of %" PRIu64 " searches for a "
			    "port the tried ports could not be counted.",
			    unverified, searches);
	f->help = xstrdup("None is needed. portsearch/time_ns is complete: go by that.");
	f->doubt = xstrdup("The mean of ports tried may not hold for these.");
	f->look =
		"ss -Htan state syn-sent shows connections to one destination "
		"that begin at once";
	return true;
}

static bool check_untracked(const struct exam *exam, struct finding *f)
{
	uint64_t events;

	if (!get(exam, f, "ackmode", "untracked_events", &events) || !events)
		return false;
	f->what = xasprintf("ackmode did not see %" PRIu64 " events of sockets that "
			    "found its table full.",
			    events);
	f->help = xstrdup("Load the module with a larger table: modprobe tcplat "
			  "sockets=N.");
	f->doubt = xstrdup("The other groups do not depend on the table, but for "
			   "delack/stalls.");
	f->look = "ss -s shows how many sockets there are";
	return true;
}

static bool check_missed(const struct exam *exam, struct finding *f)
{
	char *groups = NULL;

	for (size_t i = 0; i < exam->snap->tree.nr_groups; i++) {
		struct group *group = &exam->snap->tree.groups[i];
		uint64_t missed;

		if (!group_number(group, "missed", &missed) || !missed)
			continue;
		note(f, group->name, "missed", missed);
		groups = xappend(groups, "%s%s %" PRIu64, groups ? ", " : "",
				 group->name, missed);
	}
	if (!groups)
		return false;
	f->what = xasprintf("The kernel could not deliver some events: the "
			    "counts of these groups are too low by as much: "
			    "%s.",
			    groups);
	free(groups);
	f->help = xstrdup("Load the module without attach=kprobe; look for other users "
			  "of kprobes.");
	f->doubt = xstrdup("What the missed events were is not known.");
	f->look = "tcplat probes shows which function it is";
	return true;
}

static const struct rule rules[] = {
	{ "nagle", check_nagle, ASK_HOLDS },
	{ "stalls", check_stalls, ASK_STALLS },
	{ "delays", check_delays, ASK_LATE_ACKS },
	{ "quickack", check_quickack, ASK_QUICKACK },
	{ "exhausted", check_exhausted, ASK_NO_PORT },
	{ "ports", check_ports, ASK_PORTS },
	{ "bind", check_bind, ASK_NOBODY },
	{ "sndwait", check_sndwait, ASK_WAITS },
	{ "again", check_again, ASK_AGAIN },
	{ "idlerestart", check_idle, ASK_RESTARTS },
	{ "missed", check_missed, ASK_NOBODY },
	{ "unverified", check_unverified, ASK_NOBODY },
	{ "untracked", check_untracked, ASK_NOBODY },
};

/* The groups that the rules go by. */
static const char *const needed[] = {
	"delack", "ackmode", "portsearch", "bindsearch", "sndwait",
	"sndhold", "idlerestart",
};

/* The tracepoint if this kernel is known to have it. */
static const char *trace_event(const struct exam *exam, const char *event)
{
	static const char *const dirs[] = {
		"kernel/tracing", "kernel/debug/tracing",
	};

	for (size_t i = 0; event && i < ARRAY_SIZE(dirs); i++) {
		char *path = xasprintf("%s/events/tcplat/%s", dirs[i], event);
		bool there = !faccessat(exam->snap->tree.root_fd, path, F_OK, 0);

		free(path);
		if (there)
			return event;
	}
	return NULL;
}

/* Why @group was not looked at; NULL if it was. */
static const char *not_examined(const struct exam *exam, const char *name)
{
	struct group *group = tree_group(&exam->snap->tree, name);

	if (!group)
		return "the module does not have it";
	switch (group->state) {
	case STATE_OFF:
		return exam->seconds ? "it is off" : NULL;
	case STATE_UNAVAILABLE:
		return group->status;
	case STATE_UNKNOWN:
		return "its status is not known";
	case STATE_ARMED:
	default:
		return NULL;
	}
}

/* @text after @head, in lines of up to WIDTH characters. */
static void print_wrapped(const char *head, const char *text)
{
	size_t column = strlen(head);

	fputs(head, stdout);
	while (*text) {
		size_t word = strcspn(text, " ");

		if (column + 1 + word > WIDTH) {
			printf("\n  ");
			column = 2;
		}
		printf(" %.*s", (int)word, text);
		column += 1 + word;
		text += word;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void finding_free(struct finding *f)
{
	for (size_t i = 0; i < f->nr_numbers; i++)
		free(f->numbers[i].name);
	free(f->numbers);
	free(f->what);
	free(f->help);
	free(f->doubt);
}

/* What the rules find, in their order. */
static size_t find_all(const struct exam *exam, struct finding *findings)
{
	size_t nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct finding f = { .rule = rules[i].name };

		if (exam->whose && rules[i].asked != ASK_NOBODY)
			f.whose = &exam->whose[rules[i].asked];
		if (rules[i].check(exam, &f)) {
			f.event = trace_event(exam, f.event);
			findings[nr++] = f;
			continue;
		}
		finding_free(&f);
	}
	return nr;
}

/* What a share of the events took. To be freed. */
static char *share_text(const struct exam *exam, const struct whose *whose,
			const struct share *share)
{
	char *who = who_key(&exam->place, whose->trigger->keys, share->key);
	char *time = share->ns ? draw_time(share->ns) : NULL;
	char *s = time ? xasprintf("%s %s in %" PRIu64, who, time, share->count) :
			 xasprintf("%s %" PRIu64, who, share->count);

	free(who);
	free(time);
	return s;
}

static void print_whose(const struct exam *exam, const struct whose *whose)
{
	char *all = NULL;

	for (size_t i = 0; i < whose->nr && i < WORST; i++) {
		char *one = share_text(exam, whose, &whose->shares[i]);

		all = xappend(all, "%s%s", all ? "; " : "", one);
		free(one);
	}
	if (whose->nr > WORST)
		all = xappend(all, "; and %zu more", whose->nr - WORST);
	if (all)
		print_wrapped("   Whose:", all);
	free(all);
}

static void print_finding(const struct exam *exam, const struct finding *f, size_t number)
{
	char *head = xasprintf("%zu. %s:", number, f->rule);

	print_wrapped(head, f->what);
	if (f->whose && f->whose->looked)
		print_whose(exam, f->whose);
	print_wrapped("   What helps:", f->help);
	print_wrapped("   What does not follow:", f->doubt);
	/* Commands are to be copied. */
	printf("   Which connections: %s.\n", f->look);
	if (f->event)
		printf("   Each of them, as root: " TRACE_CMD "\n", TRACE_WHAT(f));
	putchar('\n');
	free(head);
}

static void print_text(const struct exam *exam, const struct finding *findings, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		print_finding(exam, &findings[i], i + 1);
	if (exam->seconds) {
		char *time = draw_time(exam->seconds * 1e9L);

		printf("%s in %s.\n", nr ? "That is all" : "No finding", time);
		free(time);
	} else {
		printf("%s since the counters began.\n",
		       nr ? "That is all" : "No finding");
	}
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *why = not_examined(exam, needed[i]);

		if (why)
			printf("Not looked at: %s (%s).\n", needed[i], why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		char *value = place_sysctl(&exam->place, sysctls[i]);

		if (value)
			printf("%s = %s\n", sysctls[i], value);
		free(value);
	}
}

/* null: it could not be looked at. */
static struct json_object *whose_object(const struct exam *exam, const struct whose *whose)
{
	struct json_object *list;

	if (!whose || !whose->looked)
		return NULL;
	list = json_object_new_array();
	for (size_t i = 0; i < whose->nr && i < WORST; i++) {
		const struct share *share = &whose->shares[i];
		struct json_object *one = json_object_new_object();
		char *who = who_key(&exam->place, whose->trigger->keys, share->key);

		json_object_object_add(one, "name", json_text(who));
		json_object_object_add(one, "count", json_object_new_uint64(share->count));
		json_object_object_add(one, "time_ns", whose->trigger->value ?
				       json_object_new_uint64(share->ns) : NULL);
		json_object_array_add(list, one);
		free(who);
	}
	return list;
}

static struct json_object *finding_object(const struct exam *exam, const struct finding *f)
{
	struct json_object *object = json_object_new_object();
	struct json_object *numbers = json_object_new_object();

	for (size_t i = 0; i < f->nr_numbers; i++)
		json_object_object_add(numbers, f->numbers[i].name,
				       json_object_new_uint64(f->numbers[i].value));
	json_object_object_add(object, "rule", json_text(f->rule));
	json_object_object_add(object, "what", json_text(f->what));
	json_object_object_add(object, "numbers", numbers);
	json_object_object_add(object, "whose", whose_object(exam, f->whose));
	json_object_object_add(object, "help", json_text(f->help));
	json_object_object_add(object, "doubt", json_text(f->doubt));
	json_object_object_add(object, "look", json_text(f->look));
	json_object_object_add(object, "event", json_text(f->event));
	return object;
}

static void print_json(const struct exam *exam, const struct finding *findings, size_t nr)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();
	struct json_object *skipped = json_object_new_object();
	struct json_object *values = json_object_new_object();

	for (size_t i = 0; i < nr; i++)
		json_object_array_add(list, finding_object(exam, &findings[i]));
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *why = not_examined(exam, needed[i]);

		if (why)
			json_object_object_add(skipped, needed[i],
					       json_text(why));
	}
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		char *value = place_sysctl(&exam->place, sysctls[i]);

		if (value)
			json_object_object_add(values, sysctls[i], json_text(value));
		free(value);
	}
	json_object_object_add(object, "schema", json_object_new_int(1));
	json_object_object_add(object, "seconds", exam->seconds ?
			       json_object_new_double(exam->seconds) : NULL);
	json_object_object_add(object, "findings", list);
	json_object_object_add(object, "not_examined", skipped);
	json_object_object_add(object, "sysctls", values);
	json_print(object, false);
}

/* What is the matter with @exam->snap. */
static void examine(const struct exam *exam)
{
	struct finding findings[ARRAY_SIZE(rules)];
	size_t nr = find_all(exam, findings);

	if (as_json)
		print_json(exam, findings, nr);
	else
		print_text(exam, findings, nr);
	for (size_t i = 0; i < nr; i++)
		finding_free(&findings[i]);
}

/* Examine what was counted between two snapshots. */
static void examine_between(struct exam *exam, struct snap *before, struct snap *now)
{
	if (snap_restarted(now, before)) {
		report(STATUS_FAULT, "the counters began anew meanwhile (a reset, or another module): try again");
		return;
	}
	exam->seconds = snap_seconds(now, before);
	if (exam->seconds <= 0) {
		report(STATUS_USAGE, "%s is not earlier than %s", from, to ? to : "now");
		return;
	}
	snap_subtract(now, before);
	exam->snap = now;
	examine(exam);
}

static void watch(struct exam *exam)
{
	struct whose whose[NR_ASKED] = { 0 };
	struct snap before, now;

	for (size_t i = 0; i < NR_ASKED; i++)
		whose[i].trigger = &triggers[i];
	if (!snap_take(&before, &exam->place, 0, NULL))
		return;
	whose_watch(before.tree.root_fd, "doctor", whose, NR_ASKED);
	snap_sleep(interval ? interval : INTERVAL);
	whose_end(whose, NR_ASKED);
	exam->whose = whose;
	if (snap_take(&now, &exam->place, 0, NULL)) {
		examine_between(exam, &before, &now);
		snap_free(&now);
	}
	snap_free(&before);
	whose_free(whose, NR_ASKED);
}

/* What is looked at: a file, of which this host's /proc says nothing, or what is counted now. */
static bool take_end(struct exam *exam, struct snap *snap)
{
	if (!to)
		return snap_take(snap, &exam->place, 0, NULL);
	exam->place.proc = NULL;
	return saved_load(snap, to);
}

static void compare(struct exam *exam)
{
	struct snap before, now;

	if (!saved_load(&before, from))
		return;
	if (take_end(exam, &now)) {
		examine_between(exam, &before, &now);
		snap_free(&now);
	}
	snap_free(&before);
}

static void look_at_total(struct exam *exam)
{
	struct snap snap;

	if (!take_end(exam, &snap))
		return;
	exam->snap = &snap;
	examine(exam);
	snap_free(&snap);
}

static void run(const struct place *place, int argc, char **argv)
{
	struct exam exam = { .place = *place };

	(void)argc;
	(void)argv;
	if ((total || from || to) && interval)
		report(STATUS_USAGE, "--%s does not watch: it takes no -i (see 'tcplat doctor --help')",
		       total ? "total" : from ? "from" : "to");
	else if (total && from)
		report(STATUS_USAGE, "--total begins with the counters: it takes no --from (see 'tcplat doctor --help')");
	else if (from)
		compare(&exam);
	else if (total || to)
		look_at_total(&exam);
	else
		watch(&exam);
}

#define KEY_TOTAL	300
#define KEY_JSON	301
#define KEY_FROM	302
#define KEY_TO		303

static const struct argp_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "How long to watch (10)", 0 },
	{ "total", KEY_TOTAL, NULL, 0,
	  "Do not watch: go by all that was counted so far", 0 },
	{ "from", KEY_FROM, "FILE", 0,
	  "Do not watch: go by what was counted since FILE, which 'tcplat json' wrote", 0 },
	{ "to", KEY_TO, "FILE", 0,
	  "Up to FILE and not to now; without --from, by its total", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'i', .seconds = &interval },
	{ KEY_TOTAL, .flag = &total },
	{ KEY_FROM, .text = &from },
	{ KEY_TO, .text = &to },
	{ KEY_JSON, .flag = &as_json },
	{ 0 },
};

const struct cmd cmd_doctor = {
	.name = "doctor",
	.brief = "Say what hurts, how much, and what helps",
	.doc =
		"Watches for a while, then goes by rules whose thresholds are "
		"in tcplat(8).",
	.options = options,
	.settings = settings,
	.run = run,
};
