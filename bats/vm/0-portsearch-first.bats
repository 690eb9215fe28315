#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The first connect() since boot, and therefore the first file of all: the kernel
# fills its table of random numbers in the middle of it, so that what was read from
# the table at its beginning says nothing.

# shellcheck disable=SC2154 # ports.bash sets got, did, now and sum

load ../helpers
load ../ports

teardown() {
	stop_ports
	events_off
	! loaded || unload_module
}

@test "the first connect() since boot is unverified, and its iterations are left out" {
	local active
	active=$(nstat -asz TcpActiveOpens | awk '$1 == "TcpActiveOpens" { print $2 }')
	((active == 0)) || fail "$active connections since boot: this file must run first"
	load_afresh
	watch_checks
	start_ports
	measure connect 1 reset
	assert_equal "${did[searches]} search, ${did[unverified]} unverified" "1 search, 1 unverified"
	assert_iterations 0
	assert_equal "$(counter portsearch/iterations_max)" 0

	# Whatever it found in the table before, it does no more.
	exactly connect 50 hold
	assert_iterations $((did[checks] + 50))
	assert_portsearch_adds_up
}
