// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat doctor: interpret the counters. A rule is a function that fills in a
 * finding, and an entry in rules[]; tcplat(8) documents the thresholds.
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

/* Fewer events than this do not make a finding. */
#define EVENTS_MIN	10
/* Time lost per second. Not applied to totals, whose interval is unknown. */
#define LOST_NS_MIN	1000000		/* 1 ms: 0.1% */
#define SNDWAIT_NS_MIN	10000000	/* 10 ms: 1% */
/* Averages per event. */
#define SNDWAIT_MEAN_NS	1000000
#define PORTS_MEAN_MIN	100
#define CWND_MEAN_MIN	10
/* One search in this many. */
#define UNVERIFIED_PART	10

#define INTERVAL	10	/* seconds */
#define WIDTH		100

/* doctor suggests widening a port range smaller than this. */
#define PORTS_WIDE	60000

#ifdef HAVE_TRACEFS
#define TRACE_CMD	"tcplat trace %.*s"
#define TRACE_WHAT(f)	(int)strcspn((f)->numbers[0].name, "/"), (f)->numbers[0].name
#else
#define TRACE_CMD	"trace-cmd record -e tcplat:%s"
#define TRACE_WHAT(f)	(f)->event
#endif

/* Number of shares that a finding lists. */
#define WORST		3

/* Upper bound of the sockets per process whose options are read. */
#define COOKIES_MAX	64

static double interval;		/* 0: option not given */
static bool total;
static bool as_json;
static const char *from, *to;	/* NULL: option not given */

/* A counter that a rule used. */
struct number {
	char *name;		/* GROUP/FILE */
	uint64_t value;
};

struct finding {
	const char *rule;
	char *what;		/* what happens, how often, what it costs */
	char *remedy;
	char *caveat;
	const char *look;	/* command that shows the connections */
	const char *event;	/* tracepoint that shows them, or NULL */
	struct number *numbers;
	size_t nr_numbers;
	const struct whose *whose;	/* NULL: the rule has no trigger */
};

/* What is examined. */
struct exam {
	struct snap *snap;
	struct place place;	/* proc is NULL if the snapshot comes from a file */
	double seconds;		/* 0: totals since the last reset */
	struct whose *whose;	/* indexed by enum asked */
};

/* The trigger that tells who caused the events of a rule. */
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

/* Documentation/tracepoints.md defines the numbers in filters. */
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

/* Kernels with this sysctl never delay an ACK for longer than the minimum RTO. */
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

static void add_number(struct finding *f, const char *group, const char *file, uint64_t value)
{
	f->numbers = xreallocarray(f->numbers, f->nr_numbers + 1, sizeof(*f->numbers));
	f->numbers[f->nr_numbers++] = (struct number){
		.name = xasprintf("%s/%s", group, file),
		.value = value,
	};
}

/* Return whether the counter is readable. Errors have been reported. */
static bool get(const struct exam *exam, struct finding *f, const char *group,
		const char *file, uint64_t *value)
{
	struct group *g = tree_group(&exam->snap->tree, group);

	if (!g || !group_number(g, file, value))
		return false;
	add_number(f, group, file, *value);
	return true;
}

/* Return whether a sysctl is known to have the value @text. */
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

/* A total time, and the time per second if the interval is known. To be freed. */
static char *cost(const struct exam *exam, long double ns)
{
	char *total_time = draw_time(ns);
	char *rate = exam->seconds ? draw_time(ns / exam->seconds) : NULL;
	char *s = rate ? xasprintf("%s in total (%s/s)", total_time, rate) :
			 xasprintf("%s in total", total_time);

	free(total_time);
	free(rate);
	return s;
}

#define SENDER_OR_QUICKACK							\
	"If the sender writes a message in several small pieces, it should "	\
	"use one write() or writev() per message, or TCP_NODELAY. "		\
	"TCP_QUICKACK at the receiver lasts only until the next answer, after "	\
	"which the kernel delays ACKs again; it must be set before each recv()."

/* The remedy for late ACKs. To be freed. */
static char *late_ack_remedy(const struct exam *exam)
{
	char *rto_min = place_sysctl(&exam->place, RTO_MIN);
	bool has_rto_min = rto_min;

	free(rto_min);
	return xstrdup(has_rto_min ?
			SENDER_OR_QUICKACK " On this kernel, a route with rto_min, for example "
			"20ms, makes the receiver delay ACKs for less than that." :
			SENDER_OR_QUICKACK);
}

/*
 * Look up TCP_NODELAY on the sockets of the process that wrote the largest part of the held data.
 * @who is set to its name, to be freed, or to NULL.
 */
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
	static const char *const remedies[] = {
		[NODELAY_SET] = "TCP_NODELAY has been set on its sockets since; watch again.",
		[NODELAY_UNSET] = "Use one write() or writev() per message, or TCP_NODELAY, "
				  "which is not set on its sockets.",
		[NODELAY_UNKNOWN] = "Use one write() or writev() per message, or TCP_NODELAY, "
				    "which was not set on these sockets.",
	};
	uint64_t held, ns, delays, delay_ns;
	char *time, *delay, *who;

	if (!get(exam, f, "sndhold", "nagle", &held) ||
	    !get(exam, f, "sndhold", "nagle_time_ns", &ns) || held < EVENTS_MIN ||
	    !costs(exam, ns, LOST_NS_MIN))
		return false;
	f->remedy = xstrdup(remedies[worst_writer(exam, &who)]);
	time = cost(exam, ns);
	f->what = xasprintf("Nagle's algorithm held data back %" PRIu64 " times while a "
			    "peer's ACK was outstanding: %s%s%s%s.",
			    held, time, who ? "; process " : "", who ? who : "",
			    who ? " wrote the largest part of it" : "");
	if (get(exam, f, "sndhold", "peer_delays", &delays) &&
	    get(exam, f, "sndhold", "peer_delay_ns", &delay_ns)) {
		delay = draw_time(delay_ns);
		f->caveat =
			xasprintf("A hold of one round trip is by design; %" PRIu64 " of "
				  "these holds were much longer, by %s in total, as happens "
				  "when the peer delays its ACKs.",
				  delays, delay);
		free(delay);
	} else {
		f->caveat = xstrdup("A hold of one round trip is by design.");
	}
	f->look = "ss -tin shows notsent on these sockets";
	f->event = "snd_hold";
	free(time);
	free(who);
	return true;
}

#define ATO_LOOK	"ss -tin shows ato:40 or more on these sockets"

static bool check_stalls(const struct exam *exam, struct finding *f)
{
	uint64_t stalls, us, held;
	char *time;

	if (!get(exam, f, "delack", "stalls", &stalls) ||
	    !get(exam, f, "delack", "stall_us", &us) || stalls < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("Peers held data back %" PRIu64 " times until a delayed ACK "
			    "from this host arrived: %s.",
			    stalls, time);
	free(time);
	f->remedy = late_ack_remedy(exam);
	if (!get(exam, f, "sndhold", "nagle", &held)) {
		f->caveat = xstrdup("This host cannot tell whether the sender waited because of "
				    "Nagle's algorithm or because of a small congestion window.");
	} else if (held) {
		f->caveat =
			xasprintf("Nagle's algorithm held back data of this host %" PRIu64 " "
				  "times; if both ends are on this host, that is the "
				  "cause. For remote peers, this host cannot tell.",
				  held);
	} else {
		f->caveat = xstrdup("Nagle's algorithm held back no data of this host. For "
				    "remote peers, this host cannot tell Nagle's algorithm "
				    "from a small congestion window.");
	}
	f->look = ATO_LOOK;
	f->event = "ack_stall";
	return true;
}

static bool check_delays(const struct exam *exam, struct finding *f)
{
	uint64_t stalls, timeouts, us;
	char *time;

	/* check_stalls() is more precise if the module counts stalls. */
	if (get(exam, f, "delack", "stalls", &stalls) ||
	    !get(exam, f, "delack", "timeouts", &timeouts) ||
	    !get(exam, f, "delack", "delay_us", &us) || timeouts < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("The delayed-ACK timer sent %" PRIu64 " ACKs; the oldest data "
			    "that they acknowledged waited %s.",
			    timeouts, time);
	free(time);
	f->remedy = late_ack_remedy(exam);
	f->caveat = xstrdup("This module does not count stalls, so it is unknown whether "
			    "anybody waited for these ACKs; a late ACK on an idle "
			    "connection hurts nobody.");
	f->look = ATO_LOOK;
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
			    "times, but %" PRIu64 " ACKs were still late on sockets in "
			    "pingpong mode.",
			    left, late);
	f->remedy = xstrdup("TCP_QUICKACK does not last: the kernel re-enters pingpong mode "
			    "with the next answer. Set it before each recv(), or better, "
			    "keep the sender from waiting: it should use one write per "
			    "message, or TCP_NODELAY.");
	f->caveat = xstrdup("It is unknown whether these are the same sockets.");
	f->look = ATO_LOOK;
	f->event = "ack_mode";
	return true;
}

/* The remedy for a lack of ports, without what is set already. To be freed. */
static char *more_ports(const struct exam *exam)
{
	char *range = place_sysctl(&exam->place, "net.ipv4.ip_local_port_range");
	unsigned int low, high;
	bool wide = range && sscanf(range, "%u %u", &low, &high) == 2 &&
		    high >= low + PORTS_WIDE - 1;

	free(range);
	return xasprintf("%s connections open and reuse them.%s",
			 wide ? "Keep" : "Widen net.ipv4.ip_local_port_range; keep",
			 sysctl_is(exam, "net.ipv4.tcp_tw_reuse", "1") ? "" :
			 " If the peer uses TCP timestamps, net.ipv4.tcp_tw_reuse=1 lets "
			 "connect() reuse ports in TIME_WAIT.");
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
	f->what = xasprintf("connect() tried %s ports on average before it found one "
			    "(%" PRIu64 " calls) and searched for %s per call: %s.",
			    tried, searches - unverified, mean, time);
	free(tried);
	free(mean);
	free(time);
	f->remedy = more_ports(exam);
	f->caveat = xstrdup("It is unknown which destination has used up its ports; each "
			    "destination has its own.");
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
	f->remedy = more_ports(exam);
	f->caveat = xstrdup("It is unknown which program failed, and whether it retried.");
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
	f->what = xasprintf("%" PRIu64 " of %" PRIu64 " calls to bind() with "
			    "port 0 or to listen() (%s) found no free port and failed "
			    "with EADDRINUSE.",
			    exhausted, searches, share);
	free(share);
	ports = more_ports(exam);
	f->remedy = xasprintf("Do not bind() to port 0 before connect(), or set "
			      "IP_BIND_ADDRESS_NO_PORT; the port then only has to be free "
			      "for this destination. %s",
			      ports);
	free(ports);
	f->caveat = xstrdup("The kernel returns the same error when it is out of memory.");
	f->look =
		"ss -Htan | awk '{ print $4 }' | sort | uniq -c | sort -n "
		"shows the ports in use";
	return true;
}

/* @waits for room in the send buffer that took @ns. @who begins the sentence. */
static bool check_waits(const struct exam *exam, struct finding *f, const char *who,
			uint64_t waits, uint64_t ns)
{
	char *time, *mean;

	if (waits < EVENTS_MIN || ns / waits < SNDWAIT_MEAN_NS ||
	    !costs(exam, ns, SNDWAIT_NS_MIN))
		return false;
	time = cost(exam, ns);
	mean = draw_time((long double)ns / waits);
	f->what = xasprintf("%s waited %" PRIu64 " times for room in the send buffer, %s "
			    "on average: %s.",
			    who, waits, mean, time);
	free(time);
	free(mean);
	f->remedy = xstrdup("If the path has a long delay, raise the maximum in "
			    "net.ipv4.tcp_wmem and do not set SO_SNDBUF, which disables the "
			    "kernel's autotuning. If the peer reads slowly, only the peer "
			    "can fix it.");
	f->caveat = xstrdup("A bulk sender is expected to wait here; that alone is not a "
			    "problem. The counters cannot tell a slow network from a slow "
			    "peer.");
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
	       check_waits(exam, f, "send()", waits, ns);
}

static bool check_again(const struct exam *exam, struct finding *f)
{
	uint64_t waits, gave_up, ns;

	return get(exam, f, "sndwait", "again", &waits) &&
	       get(exam, f, "sndwait", "again_gave_up", &gave_up) &&
	       get(exam, f, "sndwait", "again_time_ns", &ns) && waits >= gave_up &&
	       check_waits(exam, f, "After EAGAIN, non-blocking senders", waits - gave_up, ns);
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
	f->what = xasprintf("Connections restarted in slow start %" PRIu64 " times after "
			    "being idle; this shrank their congestion window by %s packets "
			    "on average.",
			    restarts, mean);
	free(mean);
	f->remedy = xstrdup(sysctl_is(exam, "net.ipv4.tcp_slow_start_after_idle", "0") ?
			    "net.ipv4.tcp_slow_start_after_idle is 0 here, which keeps the "
			    "window; these connections predate the setting or are in another "
			    "network namespace." :
			    "Set net.ipv4.tcp_slow_start_after_idle=0 to keep the window.");
	f->caveat = xstrdup("It is unknown how much later the data arrived: sending takes more "
			    "round trips only if there was more to send than fits the smaller "
			    "window. On paths whose capacity changes, the restart is a "
			    "safeguard.");
	f->look =
		"ss -ti shows cwnd, and lastsnd, the milliseconds since the last "
		"data was sent";
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
	f->what = xasprintf("The ports tried could not be counted in %" PRIu64 " of "
			    "%" PRIu64 " port searches.",
			    unverified, searches);
	f->remedy = xstrdup("None needed; portsearch/time_ns is complete, use that instead.");
	f->caveat = xstrdup("The average number of ports tried may not hold for these searches.");
	f->look =
		"ss -Htan state syn-sent shows connections to one destination "
		"that start at the same time";
	return true;
}

static bool check_untracked(const struct exam *exam, struct finding *f)
{
	uint64_t events;

	if (!get(exam, f, "ackmode", "untracked_events", &events) || !events)
		return false;
	f->what = xasprintf("ackmode did not see %" PRIu64 " events of sockets that did "
			    "not fit in its table.",
			    events);
	f->remedy = xstrdup("Load the module again with a larger table: rmmod tcplat, then "
			    "modprobe tcplat sockets=N.");
	f->caveat = xstrdup("In the other groups, only delack/stalls depends on the table.");
	f->look = "ss -s shows how many sockets there are";
	return true;
}

static bool uses_kprobes(const struct exam *exam)
{
	char *text = NULL;
	bool kprobes;

	if (read_text(exam->snap->tree.root_fd, "module/tcplat/parameters/attach", &text))
		return false;
	kprobes = !strcmp(text, "kprobe");
	free(text);
	return kprobes;
}

static bool check_missed(const struct exam *exam, struct finding *f)
{
	char *groups = NULL;

	for (size_t i = 0; i < exam->snap->tree.nr_groups; i++) {
		struct group *group = &exam->snap->tree.groups[i];
		uint64_t missed;

		if (!group_number(group, "missed", &missed) || !missed)
			continue;
		add_number(f, group->name, "missed", missed);
		groups = xappend(groups, "%s%s %" PRIu64, groups ? ", " : "",
				 group->name, missed);
	}
	if (!groups)
		return false;
	f->what = xasprintf("The kernel could not deliver some events, so the counts of "
			    "these groups are too low by that many: %s.",
			    groups);
	free(groups);
	f->remedy = xstrdup(uses_kprobes(exam) ?
			    "Load the module without attach=kprobe." :
			    "Remove other users of kprobes. Port searches beyond 1,023, and "
			    "waiting senders beyond 4,095, at the same time are missed, too.");
	f->caveat = xstrdup("It is unknown what the missed events were.");
	f->look = "tcplat probes shows the function";
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

/* The groups that the rules use. */
static const char *const needed[] = {
	"delack", "ackmode", "portsearch", "bindsearch", "sndwait",
	"sndhold", "idlerestart",
};

/* Return @event if this kernel is known to have that tracepoint. */
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

/* Why group @name was not examined; NULL if it was. */
static const char *not_examined(const struct exam *exam, const char *name)
{
	struct group *group = tree_group(&exam->snap->tree, name);

	if (!group)
		return "not in this module";
	switch (group->state) {
	case STATE_OFF:
		return exam->seconds ? "off" : NULL;
	case STATE_UNAVAILABLE:
		return group->status;
	case STATE_UNKNOWN:
		return "status unknown";
	case STATE_ARMED:
	default:
		return NULL;
	}
}

/* Print @head and @text, wrapped at WIDTH characters. */
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
	free(f->remedy);
	free(f->caveat);
}

/* Run all rules, in their order. Return the number of findings. */
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

/* Who caused a share of the events, how often, and the time it took. To be freed. */
static char *share_text(const struct exam *exam, const struct whose *whose,
			const struct share *share)
{
	char *who = who_key(&exam->place, whose->trigger->keys, share->key);
	char *time = share->ns ? draw_time(share->ns) : NULL;
	char *s = time ? xasprintf("%s %s (%" PRIu64 " times)", who, time, share->count) :
			 xasprintf("%s (%" PRIu64 " times)", who, share->count);

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
	if (whose->dropped)
		all = xappend(all, "%sand %" PRIu64 " times others, for which there was no room",
			      all ? "; " : "", whose->dropped);
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
	print_wrapped("   Remedy:", f->remedy);
	print_wrapped("   Caveat:", f->caveat);
	/* Not wrapped, so that commands can be copied. */
	printf("   Where to look: %s.\n", f->look);
	if (f->event)
		printf("   Each event, as root: " TRACE_CMD "\n", TRACE_WHAT(f));
	putchar('\n');
	free(head);
}

static void print_text(const struct exam *exam, const struct finding *findings, size_t nr)
{
	const char *summary = nr ? "No other findings" : "No findings";

	for (size_t i = 0; i < nr; i++)
		print_finding(exam, &findings[i], i + 1);
	if (exam->seconds) {
		char *time = draw_time(exam->seconds * 1e9L);

		printf("%s in %s.\n", summary, time);
		free(time);
	} else {
		printf("%s since the counters started.\n", summary);
	}
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *why = not_examined(exam, needed[i]);

		if (why)
			printf("Not examined: %s (%s).\n", needed[i], why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		char *value = place_sysctl(&exam->place, sysctls[i]);

		if (value)
			printf("%s = %s\n", sysctls[i], value);
		free(value);
	}
}

/* null: unknown who caused the events. */
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
	json_object_object_add(object, "whose_dropped", f->whose && f->whose->looked ?
			       json_object_new_uint64(f->whose->dropped) : NULL);
	json_object_object_add(object, "help", json_text(f->remedy));
	json_object_object_add(object, "doubt", json_text(f->caveat));
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

/* Print the findings in @exam->snap. */
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

/* Examine the difference between two snapshots. */
static void examine_between(struct exam *exam, struct snap *before, struct snap *now)
{
	if (snap_restarted(now, before)) {
		report(STATUS_FAULT, "the counters restarted between the two readings (reset, module reload or reboot)%s",
		       from ? "" : "; try again");
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

/* Take the later snapshot: from the file @to, for which this host's /proc is not used, or now. */
static bool take_later(struct exam *exam, struct snap *snap)
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
	if (take_later(exam, &now)) {
		examine_between(exam, &before, &now);
		snap_free(&now);
	}
	snap_free(&before);
}

static void examine_total(struct exam *exam)
{
	struct snap snap;

	if (!take_later(exam, &snap))
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
		report(STATUS_USAGE, "-i cannot be used with --%s (see 'tcplat doctor --help')",
		       total ? "total" : from ? "from" : "to");
	else if (total && from)
		report(STATUS_USAGE, "--from cannot be used with --total (see 'tcplat doctor --help')");
	else if (from)
		compare(&exam);
	else if (total || to)
		examine_total(&exam);
	else
		watch(&exam);
}

#define KEY_TOTAL	300
#define KEY_JSON	301
#define KEY_FROM	302
#define KEY_TO		303

static const struct argp_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "Watch for this long (default: 10)", 0 },
	{ "total", KEY_TOTAL, NULL, 0,
	  "Do not watch; examine everything counted so far", 0 },
	{ "from", KEY_FROM, "FILE", 0,
	  "Do not watch; examine what was counted since FILE, written by 'tcplat json'", 0 },
	{ "to", KEY_TO, "FILE", 0,
	  "End at FILE instead of now; without --from, examine the totals in FILE", 0 },
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
	.brief = "Report latency causes, costs and remedies",
	.doc =
		"Watches the counters for a while, then applies rules whose "
		"thresholds are in tcplat(8).",
	.options = options,
	.settings = settings,
	.run = run,
};
