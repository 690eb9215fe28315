#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Makes each allocation fail, one after the other, that any kernel function makes while a group is
# enabled, and each third while the module is loaded, which makes nearly two thousand, most of
# them alike, with /proc/self/fail-nth, on a kernel that has it.
# bats/hard/faults.bats only makes whole functions fail, but on all kernels.

# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell
# shellcheck disable=SC2034,SC2154 # shared with helpers.bash and faults.bash

load ../helpers
load faults

FAILNTH=${TRAFFIC%/*}/failnth
FAULTS=(/sys/kernel/debug/failslab /sys/kernel/debug/fail_page_alloc)

setup() {
	local f
	untraced
	! loaded || unload_module
	before=$(traces)
	for f in "${FAULTS[@]}"; do
		echo 0 >"$f/verbose"
		echo N >"$f/ignore-gfp-wait"
	done
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
	echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
	# For the pool of a return probe, the kernel prints a stack trace if vmalloc() fails. The
	# return probe can still fail in the same way, in the allocation of its rethook.
	within_function reject objpool_init
}

teardown() {
	within require 0 ffffffffffffffff
	within reject 0 0
	! loaded || unload_module
	assert_no_splat
}

# within require|reject FROM TO: makes only allocations fail that have, or that do not have, a
# caller in this address range.
within() {
	local f
	for f in "${FAULTS[@]}"; do
		echo "0x$2" >"$f/$1-start"
		echo "0x$3" >"$f/$1-end"
	done
}

# within_function require|reject NAME: the same with callers in this function.
within_function() {
	local range
	range=$(awk -v name="$2" '
		from && $1 != from { print from, $1; exit }
		$3 == name { from = $1 }' /proc/kallsyms)
	[[ $range ]] || fail "this kernel has no $2"
	# shellcheck disable=SC2086 # two words
	within "$1" $range
}

# failing N WHAT...: makes the Nth allocation fail; sets failed, status and output.
failing() {
	log_begins
	output=$("$FAILNTH" "$@") || fail "failnth $*: $output"
	read -r failed status output <<<"$output"
}

@test "each third allocation of loading fails" {
	local n
	# Only failures in the module's own init: the kernel's code for loading a module warns about
	# some failures.
	within_function require do_one_initcall
	each_load 3 "loading, allocation"
	assert_no_trace
	echo "# loading: $((n - 1)) allocations, $refused refused, $came loaded" >&3
	same "refused with" "$texts" "Cannot allocate memory;"
	((refused > 20)) || fail "hardly any allocation failed"
}

fails() { failing "$1" load "$TCPLAT_KO"; }

# enable_failing ATTACH
enable_failing() {
	each_enable "$1" allocation
	echo "# $1: $refused refused, $came enabled" >&3
	((refused > 5)) || fail "hardly any allocation failed"
}

enable_fails() { failing "$1" write "$TREE/$2/enabled" 1; }

says_why() { same "$1: refused with" "$output" "Cannot allocate memory"; }

@test "each allocation of enabling a group fails, by ftrace" { enable_failing ftrace; }
@test "each allocation of enabling a group fails, by kprobes" { enable_failing kprobe; }
