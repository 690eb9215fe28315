#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The bindsearch group: every bind() to port 0 and every listen() without bind() is one search, as
# many searches fail as calls, and searches take no longer than the calls that contain them. Only
# this checks the times of these searches.

# shellcheck disable=SC2154 # ports.bash sets got, did, now and sum

load ../loaded
load ../ports

setup() {
	untraced
	set_meanwhile "$RANGE" "20000 20099"
	reset_counters
}

# searched N EXHAUSTED NS: checks the counts since the last reset, of calls that took NS.
searched() {
	local ns most sum
	assert_equal "$(counter bindsearch/searches) searches" "$1 searches"
	assert_equal "$(counter bindsearch/exhausted) exhausted" "$2 exhausted"
	ns=$(counter bindsearch/time_ns)
	most=$(counter bindsearch/time_max_ns)
	((ns > $1 * 200 && ns < $3)) || fail "$ns ns of searches in $3 ns of calls"
	((most <= ns && most * $1 >= ns)) || fail "a maximum of $most ns in $ns ns"
	hist_sum bindsearch/time_hist
	assert_equal "$sum timed" "$1 timed"
	assert_equal "$(counter bindsearch/missed) missed" "0 missed"
}

search() {
	stop_ports
	start_ports "-$1"
	reset_counters
	ask "$2" 60
	assert_equal "${got[bound]} bound" "60 bound"
	searched 60 0 "${got[ns]}"
	reset_counters
	ask "$2" 60
	assert_equal "${got[bound]} bound, ${got[exhausted]} not" "40 bound, 20 not"
	searched 60 20 "${got[ns]}"
	reset_counters
	ask "$2" 1
	searched 1 1 "${got[ns]}"
	assert_equal "$(counter bindsearch/time_max_ns)" "$(counter bindsearch/time_ns)"
	assert_equal "$(counter portsearch/searches)" 0
}

@test "bind() to port 0" { each_family search bind0; }
@test "listen() without bind()" { each_family search listen0; }

@test "bind() to a port, listen() after it and connect() are no searches" {
	start_ports
	ask bind 20000 20050 1
	ask connect 10 reset
	ask from 21000
	assert_equal "$(counter bindsearch/searches)" 0
	hist_sum bindsearch/time_hist
	assert_equal "$sum" 0
	ask bind0 2
	assert_equal "$(counter bindsearch/searches)" 2
}
