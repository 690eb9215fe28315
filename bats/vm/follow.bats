#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat trace: its output, compared with the kernel's text of the same events in another instance,
# and with the counters; its filters leave out what they should and nothing else; and it leaves
# nothing behind in tracefs, however it ends. Only this runs tcplat trace on live events.
#
# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

load ../live

INSTANCE=$TRACING/instances/oracle

setup() {
	untraced
	live
	mkdir "$INSTANCE"
}

teardown() {
	[[ ! ${follower:-} ]] || kill -KILL "$follower" 2>/dev/null || :
	tidy
}

# tracing PID: this tcplat trace, or any if PID is *, has enabled its events.
tracing() {
	# shellcheck disable=SC2086 # a pattern
	grep -qs '[1X]' "$TRACING"/instances/tcplat-trace-$1/events/tcplat/enable
}

# follow [OPTION...]: starts tcplat trace in the background and waits until it has enabled all of
# its events; loading symbols and setting up the instance takes time.
follow() {
	"$TCPLAT" trace "$@" >events 2>errors &
	follower=$!
	begun() { tracing "$follower" || ! kill -0 "$follower"; }
	soon begun
	kill -0 "$follower" || fail "trace has ended: $(<errors)"
	asleep "$follower"
}

# Ends it as a user does; it still prints earlier events.
end() {
	sleep 0.5
	kill -INT "$follower"
	wait "$follower" || fail "status $?: $(<errors)"
	follower=''
	same instances "$(instances)" oracle
}

# same_events BEGIN END: trace's events are those of the kernel's text, field by field, in order of
# time, and happened between these times of day. Prints each event with its number. Only task IDs are
# compared, since a task that has ended has no name.
same_events() {
	python3 - "$INSTANCE/trace" "$@" <<-'END'
		import collections, json, re, sys
		GROUPS = {"delack_timeout": "delack", "ack_stall": "delack", "ack_mode": "ackmode", "port_search": "portsearch",
		          "bind_search": "bindsearch", "snd_wait": "sndwait", "snd_hold": "sndhold", "idle_restart": "idlerestart", "loss": "loss",
		          "listen_overflow": "listen", "accept_wait": "listen", "window_wait": "peerwnd", "late_answer": "answer"}
		TIMES = {"delay_us": 1000, "stall_us": 1000, "time_ns": 1, "idle_us": 1000}
		REST = ("mode", "asked_jiffies", "late_jiffies", "stall_jiffies", "from", "cause", "iterations", "error", "bound",
		        "unread", "kind", "bytes", "cwnd_before", "cwnd", "backlog")
		KNOWN = ("time_unix_ns", "group", "event", "saddr", "daddr", "time_ns", "who", "cookie", "delay_jiffies", "idle_jiffies")
		kernel, trace, times = collections.Counter(), collections.Counter(), []
		for line in open(sys.argv[1]):
		    found = re.match(r"\s*.*-(\d+)\s+\[.*?\d+\.\d+: (\w+): (netns=.*)", line)
		    if not found or found[2] not in GROUPS:
		        continue
		    task, event, v = found[1], found[2], dict(p.split("=", 1) for p in found[3].split(" ") if "=" in p)
		    if event == "snd_hold":
		        task = f"{v['comm']} {v['pid']}"
		    elif event not in ("port_search", "bind_search", "accept_wait") and v.get("kind") not in ("slept", "own"):
		        task = None
		    kernel[GROUPS[event], event, v["saddr"], v["daddr"], sum(int(v[k]) * TIMES[k] for k in TIMES if k in v),
		           tuple(v.get(k) for k in REST), int(v["cookie"], 16), task] += 1
		for line in open("events"):
		    e = json.loads(line)
		    assert {*e} <= {*KNOWN, *REST}, line
		    task = str(e["who"]["pid"]) if "pid" in e["who"] else None
		    if e["group"] == "sndhold":
		        task = f"{e['who']['comm']} {task}"
		    trace[e["group"], e["event"], e["saddr"], e["daddr"], e.get("time_ns", 0),
		          tuple(str(e[k]) if k in e else None for k in REST), e["cookie"], task] += 1
		    times.append(e["time_unix_ns"])
		assert kernel == trace, f"the kernel's only: {kernel - trace}\ntrace's only: {trace - kernel}"
		assert times == sorted(times), "out of order"
		assert int(sys.argv[2]) <= times[0] and times[-1] <= int(sys.argv[3]), "not when it happened"
		for event in GROUPS:
		    print(event, sum(n for key, n in trace.items() if key[1] == event))
	END
}

@test "every event is the kernel's own, field by field, and each is counted" {
	local before pair n option
	local -A of
	# What a new instance inherits.
	for option in {record-tgid,latency-format,raw}=1 {context,irq}-info=0; do
		set_meanwhile "$TRACING/options/${option%=*}" "${option#*=}"
	done
	before=$(date +%s%N)
	follow --json '*'
	reset_counters
	echo 1 >"$INSTANCE/events/tcplat/enable"
	every_event
	echo 0 >"$INSTANCE/events/tcplat/enable"
	end
	run -0 same_events "$before" "$(date +%s%N)"
	while read -r pair n; do of[$pair]=$n; done <<<"$output"
	for pair in delack_timeout:delack/timeouts ack_stall:delack/stalls port_search:portsearch/searches \
		bind_search:bindsearch/searches snd_wait:sndwait/waits+sndwait/again snd_hold:sndhold/nagle+sndhold/cork \
		idle_restart:idlerestart/restarts loss:loss/rto+loss/tlp+loss/fast+loss/syn+loss/synack \
		listen_overflow:listen/overflows accept_wait:listen/accept window_wait:peerwnd/wait \
		late_answer:answer/own+answer/peer; do
		n=${of[${pair%%:*}]}
		same "${pair#*:}" "$n" "$(added "${pair#*:}")"
		((n > 0)) || fail "no event of ${pair%%:*}"
	done
	((of[ack_mode] > 10)) || fail "hardly any change of mode"
}

# filtered PATTERN OPTION...: with these, all events of wwr_both are of PATTERN, and there are some.
filtered() {
	follow --json "${@:2}"
	"${talk:-wwr_both}"
	end
	assert_equal "$(grep -c "$1" events)" "$(wc -l <events)"
	(($(wc -l <events) >= 4)) || fail "hardly any: $(<events)"
}

wwr_both() { traffic wwr -n 5 --port 7123 && traffic wwr -6 -n 5 --port 7124; } >/dev/null

# An IPv6 socket with an IPv4 peer; the peer's own socket is IPv4.
wwr_mapped() {
	"$TRAFFIC" wwr -n 5 --server --port 7125 >server 3>&- &
	listening "$!" server || fail "no server: $(<server)"
	traffic wwr -n 5 --connect ::ffff:127.0.0.1 --port 7125 >/dev/null
}

@test "filters: a peer, a pattern, a port, and how long at least" {
	local peer talk
	filtered '"daddr":"127.0.0.1:' --peer 127.0.0.1 delack
	for peer in '::*' 0:0::0001; do
		filtered '"daddr":"\[::1\]:' --peer "$peer" delack
	done
	talk=wwr_mapped
	for peer in 127.0.0.1 '127.*'; do
		filtered '"daddr":"\[::ffff:127\.0\.0\.1\]:' --peer "$peer" sndhold
	done
	talk=wwr_both
	filtered ':7123"' --port 7123
	(($(grep -c snd_hold events) >= 4 && $(grep -c delack events) >= 4)) || fail "$(<events)"
	# Delays are 44 ms at most here, waits for buffer space 80 ms.
	follow --json --min-ms 60 delack sndhold sndwait
	echo 1 >"$INSTANCE/events/tcplat/snd_wait/enable"
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	"$TRAFFIC" full -n 2 --interval 80 --hold 400 --settle >/dev/null
	echo 0 >"$INSTANCE/events/tcplat/snd_wait/enable"
	end
	assert_equal "$(cut -d , -f 2 events | sort -u)" '"group":"sndwait"'
	same waits "$(wc -l <events)" "$(sed -n 's/.* time_ns=\([0-9]*\) .*/\1/p' "$INSTANCE/trace" |
		awk '$1 >= 60000000' | wc -l)"
}

@test "filters: a network namespace, by its name and by a process in it" {
	local by sleeper
	veth_pair delay 1ms
	ip netns exec tcplat-b sleep 600 &
	sleeper=$!
	for by in tcplat-b "$sleeper"; do
		# Wait until the sleeper has entered the namespace.
		[[ $by == tcplat-b ]] || until [[ $(readlink "/proc/$by/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do sleep 0.1; done
		follow --netns "$by" delack
		"$TRAFFIC" wwr -n 5 --settle >/dev/null
		between wwr 10.9.0.2 -n 5
		end
		(($(wc -l <events) >= 4)) || fail "hardly any"
		assert_equal "$(grep -c ' in netns tcplat-b' events)" "$(wc -l <events)"
	done
	kill "$sleeper"
	# Shell completion appends a slash.
	follow --root /sys/ delack
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	between wwr 10.9.0.2 -n 5
	end
	(($(grep -c ' in netns ' events) >= 4 && $(grep -vc ' in netns ' events) >= 4)) || fail "$(<events)"
}

@test "it ends after --count events or --time, and writes all events" {
	follow --count 3 delack
	"$TRAFFIC" wwr -n 10 --settle >/dev/null
	wait "$follower"
	assert_equal "$(wc -l <events)" 3
	run -0 timeout 20 "$TCPLAT" trace --time 0.5
	assert_output ''
	follower=''
	same instances "$(instances)" oracle
}

@test "nothing is left: SIGTERM, a reader that has gone, SIGKILL and the next start" {
	follow
	stays_loaded
	kill -TERM "$follower"
	wait "$follower" || fail "status $?"
	same instances "$(instances)" oracle

	"$TCPLAT" trace delack 2>errors | head -n 1 >first &
	soon tracing '*'
	"$TRAFFIC" wwr -n 20 --settle >/dev/null
	wait $!
	assert_equal "$(wc -l <first)" 1
	# It notices the closed pipe only when it prints the next event.
	only_mine() { [[ $(instances) == oracle ]]; }
	soon only_mine

	follow
	killed "$follower" trace
	follower=''
	run -0 "$TCPLAT" trace --time 0.1
	same instances "$(instances)" oracle
	rmmod tcplat
}

@test "two at a time do not disturb each other" {
	local first
	follow --json delack
	first=$follower
	mv events first
	follow --json --min-ms 1000 delack
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	sleep 0.5
	kill -INT "$follower" && wait "$follower"
	assert_equal "$(wc -c <events)" 0
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	follower=$first
	end
	(($(wc -l <first) >= 8)) || fail "$(<first)"
}

@test "events that come too fast are lost, and that is said" {
	local status=0
	follow --json ackmode
	# Stopped, so that it cannot empty the buffer.
	kill -STOP "$follower"
	echo 8 >"$TRACING/instances/tcplat-trace-$follower/buffer_size_kb"
	"$TRAFFIC" crr -n 2000 --settle >/dev/null
	kill -CONT "$follower"
	sleep 0.5
	kill -INT "$follower"
	wait "$follower" || status=$?
	follower=''
	same status "$status" 1
	run grep -cE '^tcplat: [1-9][0-9]* events were lost because they came too fast; name events or use a filter$' errors
	assert_output 1
}
