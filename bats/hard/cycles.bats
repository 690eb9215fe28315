#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Loads and unloads the module, and switches each group, a thousand times during traffic of all
# kinds; resets counters while others read them; loads and unloads concurrently. Only this finds
# leaks and lost hits that need many rounds or the right moment.

# shellcheck disable=SC2154 # readers.bash sets reads

load ../ackmode
load ../unloaded
load readers

busy=()

teardown() {
	kill_readers
	stop_traffic
	tidy
	! loaded || unload_module
}

# ---- traffic ----

# busily COMMAND...: runs COMMAND in the background until stop_traffic.
busily() {
	"$@" >>"$BATS_TEST_TMPDIR/traffic" 2>&1 3>&- &
	busy+=("$!")
}

# Request/response, short connections, senders that wait for a slow reader, delayed ACKs, and
# bulk over a link that loses packets. Each is throttled: otherwise nothing else would run on two
# emulated processors.
start_traffic() {
	local log=$BATS_TEST_TMPDIR/server
	veth_pair delay 1ms loss 3% rate 20mbit
	busily "$TRAFFIC" rr -4 -n 1000000 --interval 2 --timeout 86400
	busily "$TRAFFIC" crr -6 -n 1000000 --interval 5 --timeout 86400
	busily "$TRAFFIC" wwr -4 -n 1000000 -c 3 --timeout 86400
	busily "$TRAFFIC" slowreader -6 -n 1000000 --sndbuf 8192 --timeout 86400
	: >"$log"
	ip netns exec tcplat-b "$TRAFFIC" bulk -n 1000000 --server --bind 10.9.0.2 \
		--port 7000 --timeout 86400 >"$log" 2>&1 3>&- &
	busy+=("$!")
	listening "${busy[-1]}" "$log" || fail "no server: $(<"$log")"
	busily ip netns exec tcplat-a "$TRAFFIC" bulk -n 1000000 --connect 10.9.0.2 \
		--port 7000 --timeout 86400
}

stop_traffic() {
	((${#busy[@]})) || return 0
	kill "${busy[@]}" 2>/dev/null || :
	wait "${busy[@]}" 2>/dev/null || :
	busy=()
}

# Prints the kernel's counters that the kinds of traffic increase: segments, connections,
# retransmissions, delayed ACKs.
movement() { echo "$(tcp_mib InSegs ActiveOpens RetransSegs) $(tcp_ext DelayedACKs)"; }

# traffic_went_on MOVEMENT: fails if a process has ended, or if a counter has not grown since.
# Waits for it: the rarer kinds, such as retransmissions, may need time.
traffic_went_on() {
	local pid was
	for pid in "${busy[@]}"; do
		kill -0 "$pid" 2>/dev/null || fail "traffic has ended: $(<"$BATS_TEST_TMPDIR/traffic")"
	done
	read -ra was <<<"$1"
	echo "# counts were ${was[*]}"
	soon all_moved
}

all_moved() {
	local now kind
	read -ra now <<<"$(movement)"
	for kind in "${!was[@]}"; do
		((now[kind] > was[kind])) || return 1
	done
}

# ---- counting ----

# Sets kernel[...] to the kernel's counters.
declare -gA kernel began
kernel_reads() {
	read -r "kernel[timeouts]" "kernel[deferred]" <<<"$(tcp_ext DelayedACKs DelayedACKLocked)"
	read -r "kernel[connects]" <<<"$(tcp_mib ActiveOpens)"
}

# Zeroes the module's counters and remembers the kernel's. There must be no traffic.
counting_begins() {
	quiet
	reset_counters
	kernel_reads
	local k
	for k in "${!kernel[@]}"; do began[$k]=${kernel[$k]}; done
}

# exact WHAT [GROUP...]: compares the counts since then, except for GROUPs. There must be no
# traffic.
exact() {
	local but=" ${*:2} "
	assert_all_seen
	kernel_reads
	[[ $but == *" delack "* ]] || {
		same "$1: timeouts" "$(counter delack/timeouts)" $((kernel[timeouts] - began[timeouts]))
		same "$1: deferred" "$(counter delack/deferred)" $((kernel[deferred] - began[deferred]))
	}
	[[ $but == *" portsearch "* ]] || {
		same "$1: searches" "$(counter portsearch/searches)" $((kernel[connects] - began[connects]))
		same "$1: exhausted, missed" "$(counter portsearch/exhausted) $(counter portsearch/missed)" "0 0"
	}
	module_read
	assert_conserved
}

# all_count WHAT: checks that each group of the loaded module counts correctly.
all_count() {
	local hits
	counting_begins
	event_on restart tcp_cwnd_restart
	"$TRAFFIC" wwr -n 10 --settle
	"$TRAFFIC" crr -n 50 --settle
	"$TRAFFIC" full -n 2 -c 3 --interval 150 --hold 600 --settle
	"$TRAFFIC" idle -n 1 --settle
	quiet
	exact "$1"
	(($(counter delack/timeouts) >= 8)) || fail "$1: hardly any timeouts"
	(($(counter ackmode/pingpong_enters) >= 50)) || fail "$1: hardly any pingpong"
	same "$1: sends that gave up" "$(counter sndwait/timeouts)" 6
	# The servers' ports: one per run. bind() is not used for clients.
	same "$1: ports for servers" "$(counter bindsearch/searches)" 4
	event_hits restart
	same "$1: windows restarted" "$(counter idlerestart/restarts)" "$hits"
	((hits)) || fail "$1: no window was restarted"
	events_off
}

# ---- the tests ----

@test "loading and unloading again and again beside traffic" {
	local i n moved
	n=$(many 8 1000)
	start_traffic
	sleep 1
	moved=$(movement)
	for ((i = 0; i < n; i++)); do
		progress "$i"
		load_module
		# Some instances stay long enough for timers to fire, some hardly any time.
		((i % 5)) || sleep 0.2
		unload_module
		((i % 50)) || assert_no_splat
	done
	traffic_went_on "$moved"
	load_module
	sleep 1
	stop_traffic
	quiet
	(($(counter delack/timeouts) > 0)) || fail "nothing was counted"
	module_read
	assert_conserved
	remove_namespaces
	all_count "after $n times"
	unload_module
	assert_no_trace
	echo "# $n times" >&3
}

# switching TIMES GROUP...: switches GROUPs off and on. Groups that stay on share functions, and
# one ftrace_ops, with them, and must not miss a hit.
switching() {
	local n=$1 i group moved
	shift
	# Before the first connection, and before the namespaces exist.
	counting_begins
	start_traffic
	moved=$(movement)
	for group; do
		for ((i = 0; i < n; i++)); do
			progress "$i"
			echo 0 >"$TREE/$group/enabled"
			((i % 5)) || sleep 0.1
			echo 1 >"$TREE/$group/enabled"
			((i % 5)) || sleep 0.1
			((i % 50)) || assert_no_splat
		done
	done
	traffic_went_on "$moved"
	stop_traffic
	quiet
	exact "$* off and on" "$@"
	echo "# $* $n times, with $(counter portsearch/searches) searches" \
		"and $(counter delack/timeouts) timeouts" >&3
	remove_namespaces
}

@test "each group off and on again and again beside traffic" {
	local n
	n=$(many 4 200)
	load_module
	switching "$n" ackmode bindsearch sndwait sndhold idlerestart loss listen peerwnd answer
	switching "$n" portsearch
	switching "$n" delack
	all_count "after $n times"
	unload_module
	assert_no_trace
}

# No reader may ever see more than the kernel counted in total, whenever and however often the
# counters are reset.
@test "reset again and again beside readers and traffic" {
	local i n f sum moved
	n=$(many 40 5000)
	load_module
	counting_begins
	start_traffic
	moved=$(movement)
	start_readers 2
	sleep 2
	for ((i = 0; i < n; i++)); do
		progress "$i"
		reset_counters
		# Half of the resets follow at once, the others after some counting.
		((i % 2)) || sleep 0.02
	done
	traffic_went_on "$moved"
	stop_readers
	stop_traffic
	quiet
	assert_all_seen
	kernel_reads
	for f in timeouts delay_hist deferred; do
		sum=timeouts
		[[ $f != deferred ]] || sum=deferred
		(($(most "delack/$f") <= kernel[$sum] - began[$sum])) ||
			fail "a reader saw $(most "delack/$f") in delack/$f"
	done
	for f in searches iterations_hist time_hist exhausted unverified; do
		(($(most "portsearch/$f") <= kernel[connects] - began[connects])) ||
			fail "a reader saw $(most "portsearch/$f") in portsearch/$f"
	done
	(($(most delack/timeouts) > 0 && $(most portsearch/searches) > 0)) || fail "no reader read"
	same "the most searches that were missed" "$(most portsearch/missed)" 0
	remove_namespaces
	reset_counters
	for f in delack/{timeouts,deferred,delay_jiffies,delay_max_jiffies,stalls} \
		portsearch/{searches,iterations,iterations_max,time_ns,time_max_ns} sndwait/waits; do
		same "$f after reset" "$(counter "$f")" 0
	done
	all_count "after $n resets"
	echo "# $n resets, $reads reads" >&3
}

# ---- loaders ----

# What rmmod says if another one is faster. It reads the module's files in sysfs first, and the
# module may go at each of them: ENODEV, or "unloading is not supported" where the file of its
# reference count does not exist.
LOST='not currently loaded|in use|busy|unavailable|No such (file|device)|unloading is not supported'

# on_and_on N COMMAND: repeats COMMAND until one of the racing processes has succeeded N times;
# prints its messages with their counts, "done" for successes.
on_and_on() {
	local n=$1 end=$BATS_TEST_TMPDIR/end
	while [[ ! -e $end ]]; do
		eval "$2" || continue
		echo "done"
		((--n)) || : >"$end"
	done 2>&1 3>&- | sort | uniq -c
}

@test "loads and unloads race each other" {
	local i n pids=() loads unloads other=$BATS_TEST_TMPDIR/tcplat.ko
	n=$(many 8 500)
	cp "$TCPLAT_KO" "$other"
	on_and_on 100000 "insmod $TCPLAT_KO" >"$BATS_TEST_TMPDIR/load.0" 3>&- &
	pids+=("$!")
	on_and_on 100000 "insmod $other" >"$BATS_TEST_TMPDIR/load.1" 3>&- &
	pids+=("$!")
	on_and_on "$n" "rmmod tcplat" >"$BATS_TEST_TMPDIR/unload.0" 3>&- &
	pids+=("$!")
	wait "${pids[@]}"
	finds_nothing -vhE ' done$|File exists|Device or resource busy' "$BATS_TEST_TMPDIR"/load.*
	finds_nothing -vhE " done\$|$LOST" "$BATS_TEST_TMPDIR/unload.0"
	loads=$(awk '$2 == "done" { n += $1 } END { print n + 0 }' "$BATS_TEST_TMPDIR"/load.*)
	unloads=$(awk '$2 == "done" { n += $1 } END { print n + 0 }' "$BATS_TEST_TMPDIR/unload.0")
	i=0
	! loaded || i=1
	same "loads that are not unloaded" $((loads - unloads)) "$i"
	same unloads "$unloads" "$n"
	echo "# $loads loads, $unloads unloads: $(cat "$BATS_TEST_TMPDIR"/{load,unload}.* | xargs -d '\n')" >&3
	loaded || load_module
	all_count "after the race"
	unload_module
	assert_no_trace
}
