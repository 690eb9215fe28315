#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The first connect() since boot, so this must be the first file of all: the kernel fills its table
# of random numbers in the middle of that call. The value read at the beginning contradicts the
# chosen port; the value read right before the kernel writes to the table does not. Only this has a
# search that begins before the table is filled.

# shellcheck disable=SC2154 # ports.bash sets got, did, now and sum

load ../unloaded
load ../ports

@test "the first connect() since boot is counted by what the table was filled with" {
	local active
	active=$(nstat -asz TcpActiveOpens | awk '$1 == "TcpActiveOpens" { print $2 }')
	((active == 0)) || fail "$active connections since boot: this file must run first"
	load_module
	watch_checks
	start_ports
	exactly connect 1 reset
	assert_equal "${did[searches]} search, ${did[unverified]} unverified" "1 search, 0 unverified"
	assert_iterations $((did[checks] + 1))

	exactly connect 50 hold
	assert_iterations $((did[checks] + 50))
	assert_portsearch_adds_up
}
