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
#include "report.h"
#include "snap.h"
#include "text.h"
#include "writers.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

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

static double interval;		/* 0: the option was not given */
static bool total;
static bool as_json;

/* The patient. */
struct exam {
	struct snap *snap;
	const struct place *place;
	double seconds;		/* 0: since the last reset, however long ago */
	struct writer writer;
};

struct finding {
	char *what;		/* what happens, how often, what it costs */
	const char *help;
	const char *doubt;	/* what does not follow from it */
	char *made;		/* text that one of these points to, or NULL; to be freed */
	const char *look;	/* what shows the connections */
	const char *event;	/* a tracepoint that does, or NULL */
};

struct rule {
	const char *name;
	bool (*check)(const struct exam *exam, struct finding *finding);
};

/* Kernels that have it delay no ACK for longer than the shortest retransmission timeout. */
#define RTO_MIN		"net/ipv4/tcp_rto_min_us"

static const char *const sysctls[] = {
	"net/ipv4/ip_local_port_range",
	"net/ipv4/ip_local_port_step_width",
	"net/ipv4/tcp_tw_reuse",
	"net/ipv4/tcp_slow_start_after_idle",
	"net/ipv4/tcp_pingpong_thresh",
	"net/ipv4/tcp_no_delay_ack_on_quickack",
	RTO_MIN,
	"net/ipv4/tcp_wmem",
};

/* Whether a counter is there; what is wrong with it has been reported. */
static bool get(const struct exam *exam, const char *group, const char *file,
		uint64_t *value)
{
	struct group *g = tree_group(&exam->snap->tree, group);

	return g && group_number(g, file, value);
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

/* What is done about late ACKs. */
static const char *less_delay(const struct exam *exam)
{
	char *rto_min = place_sysctl(exam->place, RTO_MIN);
	bool shortens = rto_min;

	free(rto_min);
	return shortens ?
	       SENDER_OR_QUICKACK " On this kernel a route with rto_min, say 20ms, makes the "
	       "receiver's ACKs wait for less than that." :
	       SENDER_OR_QUICKACK;
}

static bool check_nagle(const struct exam *exam, struct finding *f)
{
	uint64_t held, ns, delays, delay_ns;
	char *time, *each, *delay, *who;

	if (!get(exam, "sndhold", "nagle", &held) ||
	    !get(exam, "sndhold", "nagle_time_ns", &ns) || held < EVENTS_MIN ||
	    !costs(exam, ns, LOST_NS_MIN))
		return false;
	time = draw_time(ns);
	each = exam->seconds ? draw_time(ns / exam->seconds) : NULL;
	who = exam->writer.comm[0] ?
		xasprintf("; process %s (%" PRIu64 ") wrote most of it",
			  exam->writer.comm, exam->writer.pid) :
		xasprintf("%s", "");
	f->what = xasprintf("%" PRIu64 " times data of this host waited for a peer's ACK "
			    "because of Nagle's algorithm, %s in all%s%s%s%s.",
			    held, time, each ? " (" : "", each ? each : "",
			    each ? " per second)" : "", who);
	switch (exam->writer.nodelay) {
	case NODELAY_SET:
		f->help = "TCP_NODELAY has been set on its sockets since: watch again.";
		break;
	case NODELAY_UNSET:
		f->help =
			"One write (or writev) for a message; or TCP_NODELAY, which is "
			"not set on its sockets.";
		break;
	case NODELAY_UNKNOWN:
	default:
		f->help =
			"One write (or writev) for a message; or TCP_NODELAY, which was "
			"not set on these sockets.";
	}
	f->doubt = "A hold of one round trip is what the algorithm is for.";
	if (get(exam, "sndhold", "peer_delays", &delays) &&
	    get(exam, "sndhold", "peer_delay_ns", &delay_ns)) {
		delay = draw_time(delay_ns);
		f->made =
			xasprintf("A hold of one round trip is what the algorithm is for; "
				  "%" PRIu64 " of these were much longer, by %s, as where "
				  "the peer delays its ACKs.",
				  delays, delay);
		f->doubt = f->made;
		free(delay);
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

	if (!get(exam, "delack", "stalls", &stalls) ||
	    !get(exam, "delack", "stall_us", &us) || stalls < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("%" PRIu64 " times a peer held data back until a "
			    "delayed ACK of this host came; that took %s.",
			    stalls, time);
	free(time);
	f->help = less_delay(exam);
	if (!get(exam, "sndhold", "nagle", &held)) {
		f->doubt =
			"Whether the sender waited because of Nagle's algorithm or of "
			"a small congestion window cannot be told from here.";
	} else if (held) {
		f->made =
			xasprintf("Nagle's algorithm held back data of this host "
				  "%" PRIu64 " times: where both ends are here, that "
				  "is the cause. Of peers elsewhere it cannot be told "
				  "from here.",
				  held);
		f->doubt = f->made;
	} else {
		f->doubt =
			"No data of this host was held back by Nagle's algorithm. "
			"Of peers elsewhere it cannot be told from here whether it "
			"was that or a small congestion window.";
	}
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "delack_timeout";
	return true;
}

static bool check_delays(const struct exam *exam, struct finding *f)
{
	uint64_t stalls, timeouts, us;
	char *time;

	/* A module that counts stalls knows better. */
	if (get(exam, "delack", "stalls", &stalls) ||
	    !get(exam, "delack", "timeouts", &timeouts) ||
	    !get(exam, "delack", "delay_us", &us) || timeouts < EVENTS_MIN ||
	    !costs(exam, us * 1000.0L, LOST_NS_MIN))
		return false;
	time = cost(exam, us * 1000.0L);
	f->what = xasprintf("The delayed-ACK timer sent %" PRIu64 " ACKs; the "
			    "oldest data that they acknowledged waited for %s.",
			    timeouts, time);
	free(time);
	f->help = less_delay(exam);
	f->doubt =
		"Whether anybody waited for these ACKs is not known: this "
		"module does not count stalls, and an ACK that is late on an "
		"idle connection hurts nobody.";
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "delack_timeout";
	return true;
}

static bool check_quickack(const struct exam *exam, struct finding *f)
{
	uint64_t left, late;

	if (!get(exam, "ackmode", "pingpong_exits_setsockopt", &left) ||
	    !get(exam, "delack", "timeouts_pingpong", &late) ||
	    left < EVENTS_MIN || late < EVENTS_MIN)
		return false;
	f->what = xasprintf("TCP_QUICKACK took sockets out of pingpong mode %" PRIu64 " "
			    "times, and still %" PRIu64 " ACKs were late on "
			    "sockets in pingpong mode.",
			    left, late);
	f->help =
		"TCP_QUICKACK does not last: with the next answer the kernel "
		"enters pingpong mode again. Set it before each recv(), or "
		"better let the sender not wait: one write for a message, or "
		"TCP_NODELAY.";
	f->doubt = "Whether these are the same sockets is not known.";
	f->look = "ss -tin shows ato:40 and more on such sockets";
	f->event = "ack_mode";
	return true;
}

static const char ports[] =
	"Widen net.ipv4.ip_local_port_range; keep connections open and use "
	"them again; where the peer has timestamps, net.ipv4.tcp_tw_reuse=1 "
	"lets connect() take ports in TIME_WAIT.";

static bool check_ports(const struct exam *exam, struct finding *f)
{
	uint64_t searches, unverified = 0, iterations, ns;
	char *tried, *mean, *time;

	if (!get(exam, "portsearch", "searches", &searches) ||
	    !get(exam, "portsearch", "iterations", &iterations) ||
	    !get(exam, "portsearch", "time_ns", &ns))
		return false;
	get(exam, "portsearch", "unverified", &unverified);
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
	f->help = ports;
	f->doubt =
		"Which destination has used up its ports is not known: they "
		"are counted for each one apart.";
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

	if (!get(exam, "portsearch", "searches", &searches) ||
	    !get(exam, "portsearch", "exhausted", &exhausted) || !exhausted)
		return false;
	share = draw_percent(exhausted, searches);
	f->what = xasprintf("%" PRIu64 " of %" PRIu64 " connect() calls (%s) "
			    "found no free port and failed with EADDRNOTAVAIL.",
			    exhausted, searches, share);
	free(share);
	f->help = ports;
	f->doubt =
		"Which program failed is not known, nor whether it tried "
		"again.";
	f->look =
		"ss -Htan | awk '{ print $5 }' | sort | uniq -c | sort -n "
		"shows the destinations";
	f->event = "port_search";
	return true;
}

static bool check_bind(const struct exam *exam, struct finding *f)
{
	uint64_t searches, exhausted;
	char *share;

	if (!get(exam, "bindsearch", "searches", &searches) ||
	    !get(exam, "bindsearch", "exhausted", &exhausted) || !exhausted)
		return false;
	share = draw_percent(exhausted, searches);
	f->what = xasprintf("%" PRIu64 " of %" PRIu64 " calls of bind() to "
			    "port 0 or listen() (%s) found no free port: "
			    "EADDRINUSE.",
			    exhausted, searches, share);
	free(share);
	f->help =
		"Before connect(), do not bind() to port 0, or set "
		"IP_BIND_ADDRESS_NO_PORT: then a port need be free for this "
		"destination only. Widen net.ipv4.ip_local_port_range.";
	f->doubt = "The kernel says the same when it has no memory left.";
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
	f->help =
		"If the path has a large delay: a larger maximum in "
		"net.ipv4.tcp_wmem, and no SO_SNDBUF, which switches the "
		"kernel's own tuning off. If the peer is slow in reading, "
		"only the peer can help.";
	f->doubt =
		"A sender of bulk data is meant to wait here: that alone is "
		"no fault. Network and peer cannot be told apart.";
	f->look =
		"ss -tinm shows full buffers (skmem: t near tb), rwnd_limited "
		"and sndbuf_limited";
	f->event = "snd_wait";
	return true;
}

static bool check_sndwait(const struct exam *exam, struct finding *f)
{
	uint64_t waits, ns;

	return get(exam, "sndwait", "waits", &waits) &&
	       get(exam, "sndwait", "time_ns", &ns) &&
	       room_wanted(exam, f, "send() waited", waits, ns);
}

static bool check_again(const struct exam *exam, struct finding *f)
{
	uint64_t waits, gave_up, ns;

	return get(exam, "sndwait", "again", &waits) &&
	       get(exam, "sndwait", "again_gave_up", &gave_up) &&
	       get(exam, "sndwait", "again_time_ns", &ns) && waits >= gave_up &&
	       room_wanted(exam, f, "Senders that do not block waited (EAGAIN)",
			   waits - gave_up, ns);
}

static bool check_idle(const struct exam *exam, struct finding *f)
{
	uint64_t restarts, lost;
	char *mean;

	if (!get(exam, "idlerestart", "restarts", &restarts) ||
	    !get(exam, "idlerestart", "cwnd_lost", &lost) ||
	    restarts < EVENTS_MIN || lost / restarts < CWND_MEAN_MIN)
		return false;
	mean = draw_number((long double)lost / restarts);
	f->what = xasprintf("%" PRIu64 " times a connection began again with "
			    "slow start after it had been idle, and lost %s "
			    "packets of its congestion window in the mean.",
			    restarts, mean);
	free(mean);
	f->help = "net.ipv4.tcp_slow_start_after_idle=0 keeps the window.";
	f->doubt =
		"How much later the data arrived is not known: it takes more "
		"round trips only if there was more to send than the small "
		"window holds. On paths whose capacity changes the restart is "
		"a protection.";
	f->look =
		"ss -ti shows cwnd, and lastsnd: milliseconds since the last "
		"data";
	f->event = "idle_restart";
	return true;
}

static bool check_unverified(const struct exam *exam, struct finding *f)
{
	uint64_t searches, unverified;

	if (!get(exam, "portsearch", "searches", &searches) ||
	    !get(exam, "portsearch", "unverified", &unverified) ||
	    searches < EVENTS_MIN ||
	    unverified < searches / UNVERIFIED_PART +
			 !!(searches % UNVERIFIED_PART))
		return false;
	f->what = xasprintf("Of %" PRIu64 " of %" PRIu64 " searches for a "
			    "port the tried ports could not be counted.",
			    unverified, searches);
	f->help = "None is needed. portsearch/time_ns is complete: go by that.";
	f->doubt = "The mean of ports tried may not hold for these.";
	f->look =
		"ss -Htan state syn-sent shows connections to one destination "
		"that begin at once";
	return true;
}

static bool check_untracked(const struct exam *exam, struct finding *f)
{
	uint64_t events;

	if (!get(exam, "ackmode", "untracked_events", &events) || !events)
		return false;
	f->what = xasprintf("ackmode did not see %" PRIu64 " events of sockets that "
			    "found its table full.",
			    events);
	f->help =
		"Load the module with a larger table: modprobe tcplat "
		"sockets=N.";
	f->doubt = "The other groups do not depend on the table, but for "
		   "delack/stalls.";
	f->look = "ss -s shows how many sockets there are";
	return true;
}

static bool check_missed(const struct exam *exam, struct finding *f)
{
	char *groups = NULL;

	for (size_t i = 0; i < exam->snap->tree.nr_groups; i++) {
		struct group *group = &exam->snap->tree.groups[i];
		uint64_t missed;
		char *longer;

		if (!group_number(group, "missed", &missed) || !missed)
			continue;
		longer = xasprintf("%s%s%s %" PRIu64, groups ? groups : "",
				   groups ? ", " : "", group->name, missed);
		free(groups);
		groups = longer;
	}
	if (!groups)
		return false;
	f->what = xasprintf("The kernel could not deliver some events: the "
			    "counts of these groups are too low by as much: "
			    "%s.",
			    groups);
	free(groups);
	f->help =
		"Load the module without attach=kprobe; look for other users "
		"of kprobes.";
	f->doubt = "What the missed events were is not known.";
	f->look = "tcplat probes shows which function it is";
	return true;
}

static const struct rule rules[] = {
	{ "nagle", check_nagle },
	{ "stalls", check_stalls },
	{ "delays", check_delays },
	{ "quickack", check_quickack },
	{ "exhausted", check_exhausted },
	{ "ports", check_ports },
	{ "bind", check_bind },
	{ "sndwait", check_sndwait },
	{ "again", check_again },
	{ "idlerestart", check_idle },
	{ "missed", check_missed },
	{ "unverified", check_unverified },
	{ "untracked", check_untracked },
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

/* The name of a sysctl as sysctl(8) has it. To be freed. */
static char *sysctl_name(const char *path)
{
	char *name = xasprintf("%s", path);

	for (char *p = name; *p; p++)
		if (*p == '/')
			*p = '.';
	return name;
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

static void print_text(const struct exam *exam)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct finding f = { 0 };
		const char *event;
		char *head;

		if (!rules[i].check(exam, &f))
			continue;
		event = trace_event(exam, f.event);
		head = xasprintf("%u. %s:", ++nr, rules[i].name);
		print_wrapped(head, f.what);
		print_wrapped("   What helps:", f.help);
		print_wrapped("   What does not follow:", f.doubt);
		/* Commands are to be copied. */
		printf("   Which connections: %s", f.look);
		free(head);
		if (event)
			printf("; as root, trace-cmd record -e tcplat:%s shows each", event);
		puts(".\n");
		free(f.made);
		free(f.what);
	}
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
		char *value = place_sysctl(exam->place, sysctls[i]);
		char *name = sysctl_name(sysctls[i]);

		if (value)
			printf("%s = %s\n", name, value);
		free(name);
		free(value);
	}
}

static void print_json(const struct exam *exam)
{
	struct json_object *object = json_object_new_object();
	struct json_object *findings = json_object_new_array();
	struct json_object *skipped = json_object_new_object();
	struct json_object *values = json_object_new_object();

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct json_object *one;
		struct finding f = { 0 };

		if (!rules[i].check(exam, &f))
			continue;
		one = json_object_new_object();
		json_object_object_add(one, "rule", json_text(rules[i].name));
		json_object_object_add(one, "what", json_text(f.what));
		json_object_object_add(one, "help", json_text(f.help));
		json_object_object_add(one, "doubt", json_text(f.doubt));
		json_object_object_add(one, "look", json_text(f.look));
		json_object_object_add(one, "event",
				       json_text(trace_event(exam, f.event)));
		json_object_array_add(findings, one);
		free(f.made);
		free(f.what);
	}
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *why = not_examined(exam, needed[i]);

		if (why)
			json_object_object_add(skipped, needed[i],
					       json_text(why));
	}
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		char *value = place_sysctl(exam->place, sysctls[i]);
		char *name = sysctl_name(sysctls[i]);

		if (value)
			json_object_object_add(values, name, json_text(value));
		free(name);
		free(value);
	}
	json_object_object_add(object, "schema", json_object_new_int(1));
	json_object_object_add(object, "seconds", exam->seconds ?
			       json_object_new_double(exam->seconds) : NULL);
	json_object_object_add(object, "findings", findings);
	json_object_object_add(object, "not_examined", skipped);
	json_object_object_add(object, "sysctls", values);
	json_print(object, false);
}

static void run(const struct place *place, int argc, char **argv)
{
	struct exam exam = { .place = place };
	struct snap before, now;

	(void)argc;
	(void)argv;
	if (total && interval) {
		report(STATUS_USAGE, "--total does not watch: it takes no -i (see 'tcplat doctor --help')");
		return;
	}
	if (!snap_take(&before, place, 0, NULL))
		return;
	exam.snap = &before;
	if (!total) {
		writers_watch(before.tree.root_fd);
		snap_sleep(interval ? interval : INTERVAL);
		writers_end(&exam.writer);
		if (!snap_take(&now, place, 0, NULL))
			goto out;
		if (snap_restarted(&now, &before)) {
			report(STATUS_FAULT, "the counters began anew meanwhile (a reset, or another module): try again");
			snap_free(&now);
			goto out;
		}
		exam.seconds = (now.time_ns - before.time_ns) / 1e9;
		snap_subtract(&now, &before);
		snap_free(&before);
		before = now;
	}
	if (as_json)
		print_json(&exam);
	else
		print_text(&exam);
out:
	snap_free(&before);
}

#define KEY_TOTAL	300
#define KEY_JSON	301

static const struct argp_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "How long to watch (10)", 0 },
	{ "total", KEY_TOTAL, NULL, 0,
	  "Do not watch: go by all that was counted so far", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static int option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'i':
		if (parse_seconds(arg, 0.1, 86400, &interval))
			return 0;
		argp_error(state, "-i '%s' is not a number of seconds from 0.1 to 86400",
			   arg);
		return EINVAL;
	case KEY_TOTAL:
		total = true;
		return 0;
	case KEY_JSON:
		as_json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.brief = "Say what hurts, how much, and what helps",
	.doc =
		"Watches for a while, then goes by rules whose thresholds are "
		"in tcplat(8).",
	.options = options,
	.option = option,
	.run = run,
};
