#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# `missed` counts exactly the hits that a probe could not follow: calls beyond the number that a
# return probe can follow at the same time, and hits within another kprobe's handler. The oracle
# are kprobe events at the same functions' entries, which need not follow anything: each of their
# hits was counted, is followed and still running, or was missed. Only this finds hits that are
# neither counted nor reported as missed.

# shellcheck disable=SC2154 # ports.bash sets got

load ../unloaded
load ../ports

teardown() {
	# Clean up after a failed test.
	stop_ports
	events_off
	set_back
	! loaded || unload_module
	assert_no_splat
}

# ---- the module's counts ----

# missed GROUP WANTED: compares sysfs, and the sum over the group's probes in debugfs.
missed() {
	local value sum
	counter_into value "$1/missed"
	sum=$(awk -v group="$1" '$1 == group { sum += $NF } END { print sum + 0 }' "$DEBUG/probes")
	same "$1/missed" "$value" "$2"
	same "$1 missed by debugfs" "$sum" "$2"
}

# missed_stays GROUP N: the count survives switching the group off and on.
missed_stays() {
	echo 0 >"$TREE/$1/enabled"
	missed "$1" "$2"
	echo 1 >"$TREE/$1/enabled"
	missed "$1" "$2"
}

# ---- senders that wait ----

# send N: starts N more senders on the socket that is full and that nobody reads: each calls the
# function once, and blocks there. Waits until all have done so.
send() {
	local want
	event_hits wait
	want=$((hits + $1))
	ask send "$1"
	have_called() { event_hits wait && ((hits >= want)); }
	soon have_called
	same "calls" "$hits" "$want"
	# The module's own handler may run after the oracle's.
	sleep 0.5
}

more_senders_than_are_followed() {
	load_module "attach=$1"
	event_on wait sk_stream_wait_memory
	start_ports
	ask stuff
	missed sndwait 0
	send 4095
	missed sndwait 0
	send 105
	missed sndwait 105
	reset_counters
	missed sndwait 0
	send 5
	missed sndwait 5
	missed_stays sndwait 5

	# After being switched on again it follows as many as at first, in addition to earlier ones.
	send 30
	missed sndwait 5
	ask unstuff
	same "ended" "${got[ended]}" 4235
	# The earlier calls are not followed any more.
	same "waits" "$(counter sndwait/waits)" 30
	missed sndwait 5
	stop_ports
	unload_module
	events_off
}

@test "more senders that wait than are followed" {
	local attach
	for attach in $(often kprobe "ftrace kprobe"); do
		more_senders_than_are_followed "$attach"
	done
}

# ---- searches for a port ----

# shortest_search COMMAND: sets shortest to the time of COMMAND, whose search finds no port. Takes
# the minimum of a few, since the emulator may have to wait for a processor.
shortest_search() {
	local i
	shortest=''
	for ((i = 0; i < 4; i++)); do
		ask "$1"
		same "exhausted" "${got[exhausted]}" 1
		[[ $shortest ]] && ((got[ns] >= shortest)) || shortest=${got[ns]}
	done
}

# slow_down TICKS COMMAND FUNCTION: adds events at FUNCTION, which a search calls for each port,
# until a search takes TICKS ticks.
slow_down() {
	for ((; slowed < 100; slowed++)); do
		shortest_search "$2"
		((shortest < $1 * tick)) || return 0
		event_on "slower$slowed" "$3"
	done
	fail "a search takes only $shortest ns"
}

# A search may reschedule between two ports. Here all run on one CPU in turn, a tick each, and
# the shortest search takes several ticks, so nearly all have begun before the first has ended;
# if not, they are slowed down further, up to 24 ticks. All ports are in use, so that each search
# tries all of them.
#
# many_searches GROUP FUNCTION CHECK FIRST PORTS COMMAND RACE: CHECK is called for each of PORTS
# ports from FIRST on. No other test may have used them: ports in TIME_WAIT become free a minute
# later. N in COMMAND and RACE is replaced by a number.
many_searches() {
	local group=$1 tick threads=1200 slowed=0 ticks lost before
	local first=$4 ports=$5 some=$6 race=$7
	event_on search "$2"
	set_meanwhile /proc/sys/kernel/sched_rr_timeslice_ms 1
	set_meanwhile "$RANGE" "$first $((first + ports - 1))"
	counter_into tick clock/tick_ns
	start_ports
	chrt --rr --pid 1 "$ports_pid"
	taskset -pc 0 "$ports_pid" >/dev/null
	ask "${some/N/$((ports + 100))}"
	same "ports taken" "$((got[connected] + got[bound]))" "$ports"
	for ticks in 3 6 12 24; do
		slow_down "$ticks" "${some/N/1}" "$3"
		reset_counters
		event_hits search
		before=$hits
		ask "${race/N/$threads}"
		same "exhausted" "${got[exhausted]}" "$threads"
		event_hits search
		same "calls" "$((hits - before))" "$threads"
		lost=$((threads - $(counter "$group/searches")))
		same "exhausted counted" "$(counter "$group/exhausted")" "$((threads - lost))"
		echo "# $lost of $threads concurrent searches of $ticks ticks were missed" >&3
		((!lost)) || break
	done
	# If a followed search ends before the last one begins, another one can be followed.
	((lost > 0 && lost <= threads - 1023)) || fail "$lost of $threads were missed"
	missed "$group" "$lost"
	missed_stays "$group" "$lost"
	ask "${some/N/3}"
	missed "$group" "$lost"
	same "searches" "$(counter "$group/searches")" "$((threads - lost + 3))"
	reset_counters
	missed "$group" 0
	ask "${some/N/2}"
	same "searches" "$(counter "$group/searches")" 2
	missed "$group" 0
}

@test "more connect() that search than are followed" {
	load_module
	many_searches portsearch __inet_hash_connect __inet_check_established 21000 1000 "connect N hold" "race N 1"
}

@test "more bind() that search than are followed, with kprobes" {
	load_module attach=kprobe
	many_searches bindsearch inet_csk_get_port _raw_spin_lock_bh 22000 1000 "bind0 N" "race0 N 1"
}

# ---- within a kprobe ----

# nested N: calls sk_stream_wait_memory, tcp_cwnd_restart and do_tcp_setsockopt N times within a
# kprobe's handler. Afterwards the module's init fails with EAGAIN, so that it can be loaded again.
nested() {
	run insmod "$TCPLAT_MODULES/nested.ko" "calls=$1"
	assert_failure
	assert_output --partial "Resource temporarily unavailable"
}

in_a_kprobe() {
	local n before total=0
	load_module "attach=$1"
	for n in 1 7 1000; do
		nested "$n"
		((total += n))
		missed sndwait "$total"
	done
	missed_stays sndwait "$total"
	same waits "$(counter sndwait/waits)" 0
	if [[ $1 == kprobe ]]; then
		missed_stays idlerestart "$total"
		missed_stays ackmode "$total"
		same seen "$(counter idlerestart/restarts) $(counter ackmode/setsockopt)" "0 0"
	else
		missed idlerestart 0
		missed ackmode 0
		same seen "$(counter idlerestart/restarts) $(counter ackmode/setsockopt)" "$total $total"
	fi
	reset_counters
	missed sndwait 0
	missed ackmode 0
	nested 3
	missed sndwait 3
	echo 0 >"$TREE/sndwait/enabled"
	nested 5
	missed sndwait 3
}

@test "hits within a kprobe's handler are missed by return probes, and not by ftrace" { in_a_kprobe ftrace; }
@test "hits within a kprobe's handler are missed by kprobes" { in_a_kprobe kprobe; }
