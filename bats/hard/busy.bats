#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Unloads the module while it is in use in every possible way: files are read, tracepoints
# fire, and functions with a return probe sleep for minutes, on one CPU and on both. Only this
# finds races of unloading with users. Single cases are in bats/vm/module.bats.

# shellcheck disable=SC2154 # readers.bash sets reads and vanished, ports.bash got

load ../unloaded
load ../ports
load readers

teardown() {
	kill_readers
	tidy
	! loaded || unload_module
}

# Retries rmmod while it fails because a reader holds the module, which it does only for
# moments. Adds the number of failures to held.
unload_at_last() {
	local i
	for ((i = 0; i < 3000; i++)); do
		run unload_module
		((status)) || return 0
		[[ $output == *"in use"* || $output == *unavailable* ]] || fail "rmmod: $output"
		((++held))
	done
	fail "the module stays in use: $output"
}

@test "every file is read on and on while the module comes and goes" {
	local i n held=0
	n=$(many 6 500)
	start_readers 2 comes-and-goes
	for ((i = 0; i < n; i++)); do
		progress "$i"
		load_module
		# In every fourth round, long enough for a file to be read from start to end.
		((i % 4)) || sleep 0.5
		unload_at_last
		assert_no_splat
	done
	stop_readers
	assert_no_trace
	((reads > n)) || fail "hardly anything was read: $reads files"
	((vanished > 0)) || fail "no file vanished while it was read"
	echo "# $n times, $reads reads, $vanished of vanishing files, $held times in use" >&3
}

# While an event is enabled, or has a trigger, the module cannot be unloaded.
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
		soon grep -q ' ack_mode: ' "$INSTANCE/trace"
		if ((i % 3 == 0)); then
			echo traceon >"$events/ack_mode/trigger"
			echo '!traceon' >"$events/ack_mode/trigger"
		elif ((i % 3 == 1)); then
			# A reader that continues meanwhile.
			cat "$INSTANCE/trace_pipe" >/dev/null 3>&- &
			pipe=$!
		fi
		echo 'hist:keys=netns' >"$events/ack_mode/trigger"
		((i % 2)) || echo 0 >"$events/enable"
		stays_loaded
		echo '!hist:keys=netns' >"$events/ack_mode/trigger"
		echo 0 >"$events/enable"
		unload_module
		[[ ! -e $events ]] || fail "the events are still there"
		# Records of events that no longer exist are read.
		cat "$INSTANCE/trace" >/dev/null
		if ((i % 3 == 1)); then
			kill "$pipe"
			wait "$pipe" || :
		fi
		echo >"$INSTANCE/trace"
		assert_no_splat
	done
	kill "$background" || fail "the traffic ended before the module was tried"
	wait "$background" || :
	background=''
	rmdir "$INSTANCE"
	assert_no_trace
}

# Every search tries most of a thousand ports, and reschedules in between.
@test "connects on both CPUs are in the middle of their search" {
	local i n
	n=$(many 3 150)
	set_meanwhile "$RANGE" "20000 20999"
	load_module
	start_ports
	ask connect 960 hold
	assert_equal "${got[connected]}" 960
	unload_module
	for ((i = 0; i < n; )); do
		# Load and unload until the race has answered.
		echo "race 20 50" >&8
		while ! read -r -t 0 -u 9; do
			load_module
			unload_module
			((++i))
		done
		hear race
		# Each connect() got a port or EADDRNOTAVAIL.
		same connects $((got[connected] + got[exhausted])) 1000
		assert_no_splat
	done
	stop_ports
	assert_no_trace
	echo "# $i times" >&3
}

# Prints the number of sleeping senders, from events: stacks do not show callers through a
# return probe.
sleeping() {
	local hits begun
	event_hits enter
	begun=$hits
	event_hits leave
	echo $((begun - hits))
}

# The return probe has replaced the return address of these calls. When they return, the module
# has been unloaded, and others have been loaded in its place.
@test "senders sleep for minutes, and the module that watches them comes and goes" {
	local i n minutes=''
	# Let the senders time out if that costs nothing (icount) or there is time (hard).
	[[ ! ${TCPLAT_HARD-} ]] || minutes=10
	! on_icount || minutes=3
	n=$(many 3 100)
	load_module
	event_on enter sk_stream_wait_memory
	event_on leave sk_stream_wait_memory r4096
	# The reader starts after the second hold without data, before the kernel gives up sending
	# what the senders, which have exited by then, had queued.
	"$TRAFFIC" full -c 20 -n 1 --sndbuf 4096 --interval $((${minutes:-30} * 60000)) \
		--hold $((${minutes:-30} * 30000 + 10000)) --timeout 3600 >"$BATS_TEST_TMPDIR/sender" 3>&- &
	background=$!
	# Wait until all 20 senders sleep: they first fill their send buffers.
	all_asleep() { (($(sleeping) >= 20)); }
	soon all_asleep
	for ((i = 0; i < n; i++)); do
		progress "$i"
		unload_module
		insmod "$TCPLAT_MODULES/fail.ko"
		rmmod fail
		load_module
	done
	assert_no_splat
	same "senders asleep" "$(sleeping)" 20
	if [[ $minutes ]]; then
		wait "$background" || fail "the senders failed: $(<"$BATS_TEST_TMPDIR/sender")"
		grep -q "samples=20 " "$BATS_TEST_TMPDIR/sender" ||
			fail "not all senders timed out: $(<"$BATS_TEST_TMPDIR/sender")"
	else
		kill "$background"
		wait "$background" || :
	fi
	background=''
	same "senders asleep" "$(sleeping)" 0
	events_off
	# Waits that began before the module was loaded are not counted.
	same "waits, missed" "$(counter sndwait/waits) $(counter sndwait/missed)" "0 0"
	"$TRAFFIC" full -n 2 -c 3 --interval 150 --hold 600 --settle
	same "timeouts, missed" "$(counter sndwait/timeouts) $(counter sndwait/missed)" "6 0"
	unload_module
	assert_no_trace
	echo "# ${minutes:-no} minutes, $n times" >&3
}
