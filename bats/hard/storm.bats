#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Finds changes of mode that did not happen, counted because two CPUs observe a socket at the
# same time; only this has enough of them. Threads set TCP_QUICKACK continuously, which takes no
# lock before the module has seen it, on connections that send in both directions.

load ../ackmode
load ../oracle_setup

# All counts equal BPF's, except for calls that found the socket in use between the module's
# observation and BPF's: one of the two may see a mode begin and end, the other not. BPF counts
# such calls.
assert_apart_by_races() {
	local difference changes differing missed
	counter_into missed ackmode/missed
	same missed "$missed" 0
	same "BPF's own errors" "${O[errors]}" 0
	compare
	echo "# ${O[setsockopt]} calls, ${O[raced]} raced, BPF missed ${O[missed]}; counts differ by $difference, without causes by $changes$differing" >&3
	same setsockopt "${M[setsockopt]}" "${O[setsockopt]}"
	assert_apart
	# With more races the bound would be meaningless.
	((O[raced] * 20 <= O[setsockopt])) || fail "${O[raced]} of ${O[setsockopt]} calls raced"
}

# storm FAMILY: repeats the workload until there were enough calls. Module and BPF see the same
# calls; what is conserved does not depend on which of them saw what.
storm() {
	local calls=0 events=0 wanted n
	wanted=$(many 20000 1000000)
	while ((calls < wanted)); do
		all_dead
		reset_counters
		oracle_reset
		"$TRAFFIC" storm "-$1" -c 4 -n "$(often 300 3000)" --settle --timeout 900 >/dev/null
		all_dead
		oracle_read
		assert_apart_by_races
		assert_conserved
		((calls += M[setsockopt])) || :
		of O 'events *'
		((events += n)) || :
	done
	echo "# $calls calls, $events events" >&3
	of O "$ANY pingpong setsockopt"
	((n > 10)) || fail "TCP_QUICKACK started pingpong only $n times"
	of O "pingpong $ANY setsockopt"
	((n > 10)) || fail "TCP_QUICKACK ended pingpong only $n times"
}

@test "TCP_QUICKACK without pause beside traffic" { each_family storm; }
