#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Unloading while the module is in use in every way there is: its files are read, its
# tracepoints fire, and functions that it has a return probe on are asleep, on one CPU and
# on both, for minutes. What is about one of these at a time and once is in bats/vm.

# shellcheck disable=SC2154 # readers.bash sets reads and vanished, ports.bash got and did
# shellcheck disable=SC2034 # helpers.bash wants before, readers.bash readers

bats_require_minimum_version 1.5.0
load ../helpers
load ../ports
load readers

INSTANCE=$TRACING/instances/tcplat_test

setup() {
	untraced
	! loaded || unload_module
	before=$(traces)
	readers=()
}

teardown() {
	exec 6<&-
	kill_readers
	[[ ! ${background:-} ]] || kill "$background" 2>/dev/null || :
	stop_ports
	events_off
	! loaded || unload_module
	[[ ! -d $INSTANCE ]] || rmdir "$INSTANCE"
	echo "32768 60999" >"$RANGE"
	assert_no_splat
}

# The readers hold the module now and then: until they do not. Sets held: how often.
unload_at_last() {
	local i
	for ((i = 0; i < 3000; i++)); do
		run unload_module
		((status)) || return 0
		[[ $output == *"in use"* || $output == *unavailable* ]] || fail "rmmod: $output"
		((++held))
	done
	fail "it is in use for ever: $output"
}

@test "every file is read on and on while the module comes and goes" {
	local i n held=0
	n=$(many 6 500)
	start_readers 2 comes-and-goes
	for ((i = 0; i < n; i++)); do
		progress "$i"
		load_module
		# For some of the times long enough to be read from one end to the other.
		((i % 4)) || sleep 0.5
		unload_at_last
		assert_no_splat
	done
	stop_readers
	assert_no_trace
	((reads > n)) || fail "hardly anything was read: $reads files"
	((vanished > 0)) || fail "no file ever vanished from under a reader"
	echo "# $n times, $reads reads, $vanished of what was going, $held times in use" >&3
}

# The kernel keeps the module while a file of debugfs is open; the rest comes as if
# nothing had been tried.
@test "a file of debugfs is read in part" {
	local f part
	load_module
	for f in "$DEBUG"/*; do
		exec 6<"$f"
		part=$(dd bs=10 count=1 status=none <&6)
		[[ $part ]] || fail "$f is empty"
		run unload_module
		assert_failure
		assert_output --partial "in use"
		same "$f" "$part$(cat <&6)" "$(<"$f")"
		exec 6<&-
	done
	unload_module
	assert_no_trace
}

# What the kernel has copied already may still come; the module's own has gone, and what
# is loaded then is another.
@test "a file of sysfs is read in part" {
	local f part rest n=0
	load_module
	for f in "$TREE"/*/*_hist_le*; do
		loaded || load_module
		exec 6<"$f"
		part=$(dd bs=3 count=1 status=none <&6)
		unload_module
		assert_no_trace
		load_module
		rest=$(cat <&6 2>&1) || :
		[[ $part$rest == "$(<"$f")" || $rest == *"No such device" ]] || fail "$f: $part, then $rest"
		run dd bs=1 count=1 skip=1 <&6
		[[ $output == *"No such device"* ]] || fail "$f, further on: $output"
		exec 6<&-
		((++n))
	done
	((n >= 4)) || fail "there are $n such files"
}

# A trigger that is still set when the module goes is more than the kernel is prepared for
# (it warns: the tracepoint is still registered), whoever's the module is.
@test "tracepoints fire, and their trace is read" {
	local i n events=$INSTANCE/events/tcplat
	n=$(many 3 200)
	mkdir "$INSTANCE"
	"$TRAFFIC" parallel -c 6 -n 1000000 --interval 1 --timeout 86400 >/dev/null 2>&1 3>&- &
	background=$!
	for ((i = 0; i < n; i++)); do
		progress "$i"
		load_module
		echo 1 >"$events/enable"
		until_traced ack_mode
		if ((i % 3 == 0)); then
			echo traceon >"$events/ack_mode/trigger"
			echo '!traceon' >"$events/ack_mode/trigger"
		elif ((i % 3 == 1)); then
			# Who reads on meanwhile.
			cat "$INSTANCE/trace_pipe" >/dev/null 3>&- &
			pipe=$!
		fi
		unload_module
		[[ ! -e $events ]] || fail "the events are still there"
		# What was written is read by what is gone.
		cat "$INSTANCE/trace" >/dev/null
		if ((i % 3 == 1)); then
			kill "$pipe"
			wait "$pipe" || :
		fi
		echo >"$INSTANCE/trace"
		assert_no_splat
	done
	kill -0 "$background" || fail "the traffic ended before the module was tried"
	kill "$background"
	wait "$background" || :
	background=''
	rmdir "$INSTANCE"
	assert_no_trace
}

# until_traced EVENT: it has fired, since the trace was empty.
until_traced() {
	local i
	for ((i = 0; i < 300; i++)); do
		! grep -q " $1: " "$INSTANCE/trace" || return 0
		sleep 0.1
	done
	fail "$1 never fires"
}

# Every search walks over most of a thousand ports, and gives way in between.
@test "connects on both CPUs are in the middle of their search" {
	local i n
	n=$(many 3 150)
	echo "20000 20999" >"$RANGE"
	load_module
	start_ports
	ask connect 960 hold
	assert_equal "${got[connected]}" 960
	unload_module
	for ((i = 0; i < n; )); do
		# Until the answer is there.
		echo "race 20 50" >&8
		while ! read -r -t 0 -u 9; do
			load_module
			unload_module
			((++i))
		done
		answered 1000
		assert_no_splat
	done
	load_module
	watch_checks
	# The first may not be one that it can verify: it has seen none yet.
	ask connect 1 reset
	reset_counters
	exactly connect 20 reset
	assert_iterations $((did[checks] + got[connected]))
	assert_portsearch_adds_up
	events_off
	unload_module
	stop_ports
	assert_no_trace
	echo "# $i times" >&3
}

# answered N: each of the N connects has found a port or been told that there is none.
answered() {
	hear race
	same connects $((got[connected] + got[exhausted])) "$1"
}

# How many senders sleep, by events: a stack cannot be seen through a return probe.
asleep() {
	local hits begun
	event_hits enter
	begun=$hits
	event_hits leave
	echo $((begun - hits))
}

# A return probe has changed where these calls return to. By then the module has gone, and
# others have been where it was.
@test "senders sleep for minutes, and the module that watches them comes and goes" {
	local i n minutes=''
	# Where waiting costs nothing, or there is time, until they give up by themselves.
	[[ ! ${TCPLAT_HARD-} ]] || minutes=10
	[[ ! ${TCPLAT_ICOUNT-} ]] || minutes=3
	n=$(many 3 100)
	load_module
	event_on enter sk_stream_wait_memory
	event_on leave sk_stream_wait_memory r4096
	# The reader begins after the second hold in which nothing came: not so late that the
	# kernel gives up what the senders, who have gone then, had sent.
	"$TRAFFIC" full -c 20 -n 1 --sndbuf 4096 --interval $((${minutes:-30} * 60000)) \
		--hold $((${minutes:-30} * 30000 + 10000)) --timeout 3600 >"$BATS_TEST_TMPDIR/sender" 3>&- &
	background=$!
	for ((i = 0; i < 600; i++)); do
		(($(asleep) < 20)) || break
		sleep 0.1
	done
	for ((i = 0; i < n; i++)); do
		progress "$i"
		unload_module
		insmod "$TCPLAT_MODULES/fail.ko"
		rmmod fail
		load_module
	done
	assert_no_splat
	same "senders asleep" "$(asleep)" 20
	if [[ $minutes ]]; then
		wait "$background" || fail "the senders failed: $(<"$BATS_TEST_TMPDIR/sender")"
		grep -q "samples=20 connections=20" "$BATS_TEST_TMPDIR/sender" ||
			fail "not all have given up: $(<"$BATS_TEST_TMPDIR/sender")"
	else
		kill "$background"
		wait "$background" || :
	fi
	background=''
	same "senders asleep" "$(asleep)" 0
	events_off
	# What had begun before it came is not its own.
	same "waits, missed" "$(counter sndwait/waits) $(counter sndwait/missed)" "0 0"
	"$TRAFFIC" full -n 2 -c 3 --interval 150 --hold 600 --settle
	same "timeouts, missed" "$(counter sndwait/timeouts) $(counter sndwait/missed)" "6 0"
	unload_module
	assert_no_trace
	echo "# ${minutes:-no} minutes, $n times" >&3
}
