// SPDX-License-Identifier: GPL-2.0
/*
 * Order and descriptions of known names. Output depends on the tree alone:
 * names that are missing here are shown last and without a description.
 *
 * man.awk reads groups[] and files[], too.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tcplat.h"
#include "words.h"

static const struct {
	const char *name;
	const char *text;
} groups[] = {
	{ "delack", "delayed ACKs" },
	{ "ackmode", "changes between delayed, quickack, pingpong and route mode" },
	{ "portsearch", "connect() looking for a free port" },
	{ "bindsearch", "bind() and listen() looking for a free port" },
	{ "sndwait", "send() waiting for room in the send buffer" },
	{ "sndhold", "data held back by Nagle's algorithm, TCP_CORK or MSG_MORE" },
	{ "idlerestart", "slow start again after an idle time" },
};

/*
 * A text must be clear without its group: with a capital and a full stop it is
 * the HELP of a metric. Names have no unit: delay is delay_jiffies and delay_us.
 */
static const struct {
	const char *group;
	const char *name;
	const char *text;
} files[] = {
	{ "delack", "timeouts", "ACKs that the delayed-ACK timer sent" },
	{ "delack", "timeouts_pingpong", "ACKs that the timer sent in pingpong mode" },
	{ "delack", "deferred", "ACK timers that found the socket in use" },
	{ "delack", "delay", "time that delayed ACKs waited" },
	{ "delack", "delay_max", "longest wait of a delayed ACK" },
	{ "delack", "late", "delay of ACKs after the timer was due" },
	{ "delack", "late_max", "longest delay after an ACK timer was due" },
	{ "delack", "delay_evictions", "delays that may be recorded too short" },
	{ "delack", "stalls", "delayed ACKs that the peer waited for" },
	{ "delack", "stall", "delay of the ACKs that peers waited for" },
	{ "delack", "delay_hist", "how long delayed ACKs waited" },

	{ "ackmode", "quickack_enters", "times a socket entered quickack mode" },
	{ "ackmode", "quickack_exits", "times a socket left quickack mode" },
	{ "ackmode", "pingpong_enters", "times a socket entered pingpong mode" },
	{ "ackmode", "pingpong_exits", "times a socket left pingpong mode" },
	{ "ackmode", "pingpong_exits_timeout", "exits from pingpong mode by the ACK timer" },
	{ "ackmode", "pingpong_exits_setsockopt", "exits from pingpong mode by TCP_QUICKACK" },
	{ "ackmode", "quickack_enters_setsockopt", "entries to quickack mode by TCP_QUICKACK" },
	{ "ackmode", "pingpong_enters_setsockopt", "entries to pingpong mode by TCP_QUICKACK" },
	{ "ackmode", "route_enters", "times a socket got a route with quickack" },
	{ "ackmode", "route_exits", "times a socket lost a route with quickack" },
	{ "ackmode", "cause_timeout", "mode changes by the delayed-ACK timer" },
	{ "ackmode", "cause_setsockopt", "mode changes by TCP_QUICKACK" },
	{ "ackmode", "cause_first", "mode changes by a connection's first data" },
	{ "ackmode", "cause_gap", "mode changes by a gap longer than the RTO" },
	{ "ackmode", "cause_duplicate", "mode changes by old or out-of-window data" },
	{ "ackmode", "cause_ecn", "mode changes by a packet's ECN bits" },
	{ "ackmode", "cause_handshake", "mode changes by a handshake's delayed ACK" },
	{ "ackmode", "cause_budget", "mode changes by the last quick ACK" },
	{ "ackmode", "cause_answer", "mode changes by data sent in answer" },
	{ "ackmode", "cause_fin", "mode changes by a FIN" },
	{ "ackmode", "cause_window", "mode changes by a receive window or buffer" },
	{ "ackmode", "cause_route", "mode changes by a route's quickack" },
	{ "ackmode", "cause_disconnect", "mode changes by disconnect or reset" },
	{ "ackmode", "unexplained", "mode changes whose cause was not seen" },
	{ "ackmode", "setsockopt", "calls that set TCP_QUICKACK" },
	{ "ackmode", "tracked", "sockets whose mode is tracked now" },
	{ "ackmode", "untracked", "new sockets that did not fit in the table" },
	{ "ackmode", "untracked_events", "events of untracked sockets" },
	{ "ackmode", "evictions", "always 0: no tracked socket is evicted" },

	{ "portsearch", "searches", "port searches by connect()" },
	{ "portsearch", "iterations", "ports that connect() tried" },
	{ "portsearch", "iterations_max", "most ports tried by one connect()" },
	{ "portsearch", "exhausted", "failed port searches by connect()" },
	{ "portsearch", "unverified", "unverified port searches by connect()" },
	{ "portsearch", "unverified_time", "time of unverified port searches" },
	{ "portsearch", "unverified_iterations_lower", "lower bound of unverified tries" },
	{ "portsearch", "unverified_iterations_upper", "upper bound of unverified tries" },
	{ "portsearch", "time", "time of port searches by connect()" },
	{ "portsearch", "time_max", "longest port search by connect()" },
	{ "portsearch", "iterations_hist", "ports tried by a connect()" },
	{ "portsearch", "time_hist", "time a connect() searched for a port" },

	{ "bindsearch", "searches", "port searches by bind() or listen()" },
	{ "bindsearch", "exhausted", "failed port searches by bind() or listen()" },
	{ "bindsearch", "time", "time of port searches by bind() or listen()" },
	{ "bindsearch", "time_max", "longest port search by bind() or listen()" },
	{ "bindsearch", "time_hist", "time a bind() or listen() searched for a port" },

	{ "sndwait", "waits", "waits for room in the send buffer" },
	{ "sndwait", "timeouts", "waits for the send buffer that timed out" },
	{ "sndwait", "time", "time waited for room in the send buffer" },
	{ "sndwait", "time_max", "longest wait for room in the send buffer" },
	{ "sndwait", "time_hist", "time a send() waited for send buffer room" },
	{ "sndwait", "again", "waits after EAGAIN for send buffer room" },
	{ "sndwait", "again_gave_up", "waits after EAGAIN that never got room" },
	{ "sndwait", "again_untracked", "EAGAINs whose wait was not tracked" },
	{ "sndwait", "again_time", "time from EAGAIN until there was room" },
	{ "sndwait", "again_time_max", "longest time from EAGAIN until room" },
	{ "sndwait", "again_hist", "time from EAGAIN until there was room" },

	{ "sndhold", "nagle", "times Nagle's algorithm held data back" },
	{ "sndhold", "nagle_time", "time that Nagle's algorithm held data back" },
	{ "sndhold", "nagle_time_max", "longest hold by Nagle's algorithm" },
	{ "sndhold", "nagle_hist", "how long Nagle's algorithm held data back" },
	{ "sndhold", "peer_delays", "Nagle holds 10 ms longer than the RTT" },
	{ "sndhold", "peer_delay", "time senders waited for delayed ACKs" },
	{ "sndhold", "cork", "times TCP_CORK or MSG_MORE held data" },
	{ "sndhold", "cork_time", "time TCP_CORK or MSG_MORE held data" },
	{ "sndhold", "cork_time_max", "longest hold by TCP_CORK or MSG_MORE" },
	{ "sndhold", "cork_hist", "how long TCP_CORK or MSG_MORE held data back" },
	{ "sndhold", "cork_timeouts", "corks ended by the kernel's timer" },
	{ "sndhold", "autocork", "writes delayed by autocorking" },
	{ "sndhold", "overflows", "holds that did not fit in the table" },

	{ "idlerestart", "restarts", "slow-start restarts after an idle time" },
	{ "idlerestart", "cwnd_lost", "packets cut from cwnd after an idle time" },
	{ "idlerestart", "idle", "idle time before slow-start restarts" },

	{ "clock", "tick", "length of a jiffy" },
	{ "clock", "delack_min", "minimum delay of an ACK" },
	{ "clock", "delack_max", "maximum delay of an ACK" },
	{ "clock", "ato_min", "minimum estimate of the ACK timeout" },
	{ "clock", "rto_min", "minimum retransmission timeout" },
	{ "clock", "timewait_len", "duration of TIME_WAIT" },
};

/* Gauges whose names do not say so. */
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
	{ "delack", "mean wait", "delay_us", "timeouts", NULL, false },
	{ "delack", "mean lateness of the timer", "late_us", "timeouts", NULL, false },
	{ "delack", "in pingpong mode", "timeouts_pingpong", "timeouts", NULL, true },
	{ "delack", "mean stall", "stall_us", "stalls", NULL, false },
	{ "portsearch", "ports tried per search", "iterations", "searches",
	  "unverified", false },
	{ "portsearch", "mean time", "time_ns", "searches", NULL, false },
	{ "bindsearch", "mean time", "time_ns", "searches", NULL, false },
	{ "sndwait", "mean wait", "time_ns", "waits", NULL, false },
	{ "sndwait", "mean wait after EAGAIN", "again_time_ns", "again",
	  "again_gave_up", false },
	{ "sndhold", "mean hold by Nagle's algorithm", "nagle_time_ns", "nagle", NULL, false },
	{ "sndhold", "mean delay by the peer", "peer_delay_ns", "peer_delays", NULL, false },
	{ "sndhold", "mean hold by a cork", "cork_time_ns", "cork", NULL, false },
	{ "idlerestart", "mean idle time", "idle_us", "restarts", NULL, false },
	{ "idlerestart", "mean loss of cwnd", "cwnd_lost", "restarts", NULL, false },
};

const size_t words_nr_figures = ARRAY_SIZE(words_figures);

/* The position of @group; unknown groups come last. */
unsigned int words_group_rank(const char *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!strcmp(groups[i].name, group))
			return i;
	return UINT_MAX;
}

static const char *const units[] = {
	[UNIT_NONE] = "",
	[UNIT_NS] = "_ns",
	[UNIT_US] = "_us",
	[UNIT_JIFFIES] = "_jiffies",
};

/* Test if @stem, of @len characters, ends in @end and is longer than @end. */
static bool stem_ends(const char *stem, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !strncmp(stem + len - n, end, n);
}

enum unit words_unit(const char *file)
{
	enum unit unit = UNIT_JIFFIES;

	while (unit != UNIT_NONE && !stem_ends(file, strlen(file), units[unit]))
		unit--;
	return unit;
}

/* The length of the name @file without its unit. */
size_t words_stem(const char *file)
{
	return strlen(file) - strlen(units[words_unit(file)]);
}

static size_t find_file(const char *group, const char *file)
{
	size_t stem = words_stem(file);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].group, group) &&
		    strlen(files[i].name) == stem &&
		    !strncmp(files[i].name, file, stem))
			return i;
	return SIZE_MAX;
}

/*
 * The kind follows from the name, so that new groups need no entry here: _hist,
 * _hist_le, _max. Gauges are listed in gauges[]; all files of clock are gauges.
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

/* The position of @file in its group: unknown files come late, missed last. */
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
