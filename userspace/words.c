// SPDX-License-Identifier: GPL-2.0
/*
 * What tcplat can say about the names it knows: an order and an explanation.
 * What is shown comes from the tree alone; a name that is not here is shown
 * after the others and without a word.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "words.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	const char *text;
} groups[] = {
	{ "delack", "delayed ACKs" },
	{ "ackmode", "changes between delayed, quickack, pingpong and route mode" },
	{ "portsearch", "connect() looking for a free port" },
	{ "bindsearch", "bind() and listen() looking for a free port" },
	{ "sndwait", "send() waiting for room in the send buffer" },
	{ "sndhold", "data held back by Nagle's rule, TCP_CORK or MSG_MORE" },
	{ "idlerestart", "slow start again after an idle time" },
};

static const struct {
	const char *group;
	const char *name;
	const char *text;
} files[] = {
	{ "delack", "timeouts", "ACKs sent because the delay ran out" },
	{ "delack", "timeouts_pingpong", "those on a socket in pingpong mode" },
	{ "delack", "deferred", "expiries put off: the socket was in use" },
	{ "delack", "delay_jiffies", "how long those ACKs waited, summed" },
	{ "delack", "delay_us", "the same in microseconds" },
	{ "delack", "delay_max_jiffies", "the longest wait" },
	{ "delack", "late_jiffies", "of that after the timer was due, summed" },
	{ "delack", "late_us", "the same in microseconds" },
	{ "delack", "late_max_jiffies", "the most that the timer was late" },
	{ "delack", "delay_evictions", "waits that may have been longer" },
	{ "delack", "stalls", "timeouts the peer held data back for" },
	{ "delack", "stall_us", "the delay those cost, summed" },
	{ "delack", "delay_hist", "how long delayed ACKs waited" },

	{ "ackmode", "quickack_enters", "into quickack mode" },
	{ "ackmode", "quickack_exits", "out of it" },
	{ "ackmode", "pingpong_enters", "into pingpong mode" },
	{ "ackmode", "pingpong_exits", "out of it" },
	{ "ackmode", "pingpong_exits_timeout", "by a delayed-ACK timeout" },
	{ "ackmode", "pingpong_exits_setsockopt", "by TCP_QUICKACK" },
	{ "ackmode", "quickack_enters_setsockopt", "by TCP_QUICKACK" },
	{ "ackmode", "pingpong_enters_setsockopt", "by TCP_QUICKACK" },
	{ "ackmode", "route_enters", "onto a route with quickack 1" },
	{ "ackmode", "route_exits", "off such a route" },
	{ "ackmode", "cause_timeout", "changes by a delayed-ACK timeout" },
	{ "ackmode", "cause_setsockopt", "changes by TCP_QUICKACK" },
	{ "ackmode", "cause_first", "changes by the connection's first data" },
	{ "ackmode", "cause_gap", "changes by data after a gap longer than the RTO" },
	{ "ackmode", "cause_duplicate", "changes by data that was old or outside the window" },
	{ "ackmode", "cause_ecn", "changes by the ECN bits of a packet" },
	{ "ackmode", "cause_handshake", "changes by a handshake whose ACK waits for data" },
	{ "ackmode", "cause_budget", "changes by the last of the quick ACKs" },
	{ "ackmode", "cause_answer", "changes by data sent in answer" },
	{ "ackmode", "cause_fin", "changes by a FIN" },
	{ "ackmode", "cause_window", "changes by the receive window or buffer" },
	{ "ackmode", "cause_route", "changes by a route with quickack 1" },
	{ "ackmode", "cause_disconnect", "changes by disconnect or reset" },
	{ "ackmode", "unexplained", "changes whose cause was not seen" },
	{ "ackmode", "setsockopt", "TCP_QUICKACK calls" },
	{ "ackmode", "tracked", "sockets in the table now" },
	{ "ackmode", "untracked", "new sockets that found the table full" },
	{ "ackmode", "untracked_events", "events of sockets not in the table" },
	{ "ackmode", "evictions", "always 0: nothing is evicted" },

	{ "portsearch", "searches", "connect() calls that had to find a port" },
	{ "portsearch", "iterations", "ports tried, summed" },
	{ "portsearch", "iterations_max", "the most ports tried by one call" },
	{ "portsearch", "exhausted", "searches that found none" },
	{ "portsearch", "unverified", "searches not counted in iterations" },
	{ "portsearch", "unverified_time_ns", "time spent in unverified searches" },
	{ "portsearch", "unverified_iterations_lower", "ports they tried at least, summed" },
	{ "portsearch", "unverified_iterations_upper", "ports they tried at most, summed" },
	{ "portsearch", "time_ns", "time spent searching, summed" },
	{ "portsearch", "time_max_ns", "the longest search" },
	{ "portsearch", "iterations_hist", "ports tried by a connect()" },
	{ "portsearch", "time_hist", "time a connect() searched" },

	{ "bindsearch", "searches", "calls that had to find a port" },
	{ "bindsearch", "exhausted", "searches that found none" },
	{ "bindsearch", "time_ns", "time spent searching, summed" },
	{ "bindsearch", "time_max_ns", "the longest search" },
	{ "bindsearch", "time_hist", "time a call searched" },

	{ "sndwait", "waits", "calls that found the buffer full" },
	{ "sndwait", "timeouts", "waits that ran out of time" },
	{ "sndwait", "time_ns", "time spent waiting, summed" },
	{ "sndwait", "time_max_ns", "the longest wait" },
	{ "sndwait", "time_hist", "time a send() waited" },
	{ "sndwait", "again", "waits of senders that do not block" },
	{ "sndwait", "again_gave_up", "those that ended without room" },
	{ "sndwait", "again_untracked", "refusals that could not be followed" },
	{ "sndwait", "again_time_ns", "time until there was room, summed" },
	{ "sndwait", "again_time_max_ns", "the longest such wait" },
	{ "sndwait", "again_hist", "time until there was room" },

	{ "sndhold", "nagle", "times that Nagle's rule held data back" },
	{ "sndhold", "nagle_time_ns", "how long, summed" },
	{ "sndhold", "nagle_time_max_ns", "the longest" },
	{ "sndhold", "nagle_hist", "how long Nagle's rule held data back" },
	{ "sndhold", "peer_delays", "those longer than a round trip by 10 ms" },
	{ "sndhold", "peer_delay_ns", "by how much, summed" },
	{ "sndhold", "cork", "times that TCP_CORK or MSG_MORE did" },
	{ "sndhold", "cork_time_ns", "how long, summed" },
	{ "sndhold", "cork_time_max_ns", "the longest" },
	{ "sndhold", "cork_hist", "how long TCP_CORK or MSG_MORE held data back" },
	{ "sndhold", "cork_timeouts", "those that the kernel's timer ended" },
	{ "sndhold", "autocork", "writes that autocorking put off" },
	{ "sndhold", "overflows", "holds that the table had no room for" },

	{ "idlerestart", "restarts", "connections that fell back to slow start" },
	{ "idlerestart", "cwnd_lost", "packets their cwnd lost, summed" },
	{ "idlerestart", "idle_jiffies", "how long they had been idle, summed" },
	{ "idlerestart", "idle_us", "the same in microseconds" },

	{ "clock", "delack_min", NULL },
	{ "clock", "delack_max", NULL },
	{ "clock", "ato_min", NULL },
	{ "clock", "rto_min", NULL },
	{ "clock", "timewait_len", NULL },
};

/* What is a state and not a count, which its name does not say. */
static const struct {
	const char *group;
	const char *name;
} gauges[] = {
	{ "ackmode", "tracked" },
};

const char *const words_clock[] = {
	"hz", "tick_ns",
	"delack_min", "delack_min_us",
	"delack_max", "delack_max_us",
	"ato_min", "ato_min_us",
	"rto_min", "rto_min_us",
	"timewait_len", "timewait_len_us",
	NULL,
};

const struct figure words_figures[] = {
	{ "delack", "mean wait", "delay_us", "timeouts", NULL, FIGURE_MEAN_US },
	{ "delack", "of that the timer was late by", "late_us", "timeouts", NULL,
	  FIGURE_MEAN_US },
	{ "delack", "in pingpong mode", "timeouts_pingpong", "timeouts", NULL,
	  FIGURE_SHARE },
	{ "delack", "mean stall", "stall_us", "stalls", NULL, FIGURE_MEAN_US },
	{ "portsearch", "ports tried per search", "iterations", "searches",
	  "unverified", FIGURE_MEAN },
	{ "portsearch", "mean time", "time_ns", "searches", NULL,
	  FIGURE_MEAN_NS },
	{ "bindsearch", "mean time", "time_ns", "searches", NULL,
	  FIGURE_MEAN_NS },
	{ "sndwait", "mean wait", "time_ns", "waits", NULL, FIGURE_MEAN_NS },
	{ "sndwait", "mean wait after EAGAIN", "again_time_ns", "again",
	  "again_gave_up", FIGURE_MEAN_NS },
	{ "sndhold", "mean hold by Nagle's rule", "nagle_time_ns", "nagle", NULL,
	  FIGURE_MEAN_NS },
	{ "sndhold", "mean delay by the peer", "peer_delay_ns", "peer_delays", NULL,
	  FIGURE_MEAN_NS },
	{ "sndhold", "mean hold by a cork", "cork_time_ns", "cork", NULL,
	  FIGURE_MEAN_NS },
	{ "idlerestart", "mean idle time", "idle_us", "restarts", NULL,
	  FIGURE_MEAN_US },
	{ "idlerestart", "mean loss of cwnd", "cwnd_lost", "restarts", NULL,
	  FIGURE_MEAN },
};

const size_t words_nr_figures = ARRAY_SIZE(words_figures);

/* Where @group stands among the groups; unknown ones come last. */
unsigned int words_group_rank(const char *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!strcmp(groups[i].name, group))
			return i;
	return UINT_MAX;
}

static size_t find_file(const char *group, const char *file)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].group, group) &&
		    !strcmp(files[i].name, file))
			return i;
	return SIZE_MAX;
}

static const struct {
	const char *suffix;
	enum unit unit;
} units[] = {
	{ "_ns", UNIT_NS },
	{ "_us", UNIT_US },
	{ "_jiffies", UNIT_JIFFIES },
};

/* The index in units of what @file ends in, or ARRAY_SIZE(units). */
static size_t find_unit(const char *file)
{
	size_t len = strlen(file);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++) {
		size_t suffix = strlen(units[i].suffix);

		if (len > suffix &&
		    !strcmp(file + len - suffix, units[i].suffix))
			break;
	}
	return i;
}

enum unit words_unit(const char *file)
{
	size_t i = find_unit(file);

	return i == ARRAY_SIZE(units) ? UNIT_NONE : units[i].unit;
}

/* The length of @file's name without its unit. */
size_t words_stem(const char *file)
{
	size_t i = find_unit(file);

	return strlen(file) - (i == ARRAY_SIZE(units) ? 0 :
						  strlen(units[i].suffix));
}

/* Whether @stem, of @len characters, ends in @end and is more than that. */
static bool stem_ends(const char *stem, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !strncmp(stem + len - n, end, n);
}

/*
 * The name says it, for groups to come, too: _hist, _hist_le, _max. A gauge
 * needs its line in gauges[]; clock has nothing else.
 */
enum kind words_kind(const char *group, const char *file)
{
	size_t stem = words_stem(file);

	if (!strcmp(file, "status") || !strcmp(file, "enabled"))
		return KIND_CONTROL;
	if (!strcmp(group, "clock"))
		return KIND_GAUGE;
	if (stem_ends(file, strlen(file), "_hist"))
		return KIND_HIST;
	if (stem_ends(file, stem, "_hist_le"))
		return KIND_BOUNDS;
	if (stem_ends(file, stem, "_max"))
		return KIND_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++)
		if (!strcmp(gauges[i].group, group) &&
		    !strcmp(gauges[i].name, file))
			return KIND_GAUGE;
	return KIND_COUNTER;
}

/* Where @file stands in its group: unknown ones late, the probes' own last. */
unsigned int words_file_rank(const char *group, const char *file)
{
	size_t i = find_file(group, file);

	if (i != SIZE_MAX)
		return i;
	return strcmp(file, "missed") ? UINT_MAX - 1 : UINT_MAX;
}

const char *words_group(const char *group)
{
	unsigned int rank = words_group_rank(group);

	return rank == UINT_MAX ? NULL : groups[rank].text;
}

const char *words_file(const char *group, const char *file)
{
	size_t i = find_file(group, file);

	if (i != SIZE_MAX)
		return files[i].text;
	return strcmp(file, "missed") ? NULL : "probe hits the kernel could not deliver";
}
