#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# clock/, compared with the running kernel's configuration. The expected values are computed here
# from CONFIG_HZ and the definitions in include/net/tcp.h and include/linux/jiffies.h. getconf
# CLK_TCK is not usable: it is 100 on every kernel. Only this compares the tick with the time that
# passes.

load ../helpers

setup_file() {
	load_afresh
	HZ=$(config_hz)
	export HZ
}

teardown_file() {
	unload_module
}

# constant NAME JIFFIES: checks the value in jiffies, and in microseconds rounded down.
constant() {
	assert_equal "$1 $(counter "clock/$1")" "$1 $2"
	assert_equal "$1_us $(counter "clock/$1_us")" "$1_us $(($2 * 1000000 / HZ))"
}

@test "hz is the configuration's and tick_ns the nearest to a second's part of it" {
	assert_regex "$HZ" '^[0-9]+$'
	assert_equal "$(counter clock/hz)" "$HZ"
	assert_equal "$(counter clock/tick_ns)" "$(((1000000000 + HZ / 2) / HZ))"
}

@test "a tick is as long as the kernel's own clock says" {
	# /proc/timer_list has each CPU's jiffies next to the time in ns.
	local jiffies ns jiffies2 ns2 tick
	read -r jiffies ns < <(timer_list)
	sleep 3
	read -r jiffies2 ns2 < <(timer_list)
	counter_into tick clock/tick_ns
	local ticks=$((jiffies2 - jiffies)) elapsed=$((ns2 - ns))
	((ticks > HZ)) || fail "$ticks ticks in 3 s"
	# Allow 5%, since the machine's processors may have to take turns; the nearest other HZ that
	# kernels are built with differs by 20%.
	((ticks * tick * 20 > elapsed * 19 && ticks * tick * 20 < elapsed * 21)) ||
		fail "$ticks ticks in $elapsed ns, tick_ns is $tick"
}

timer_list() {
	awk '/^now at/ { ns = $3 } /^jiffies:/ { print $2, ns; exit }' /proc/timer_list
}

@test "the delayed ACK's bounds" {
	# #define TCP_DELACK_MAX ((unsigned)(HZ/5)); from HZ=100 on, else 4
	constant delack_max $((HZ / 5))
	constant delack_min $((HZ >= 100 ? HZ / 25 : 4))
	constant ato_min $((HZ >= 100 ? HZ / 25 : 4))
}

@test "the shortest retransmission timeout, and TIME_WAIT's 60 s" {
	constant rto_min $((HZ / 5))
	constant timewait_len $((60 * HZ))
}

@test "clock/ has these files and no other, all read-only" {
	run find "$TREE/clock" -type f -printf '%f %m\n'
	assert_success
	assert_equal "$(sort <<<"$output")" "$(sort <<'END'
hz 444
tick_ns 444
delack_min 444
delack_min_us 444
delack_max 444
delack_max_us 444
ato_min 444
ato_min_us 444
rto_min 444
rto_min_us 444
timewait_len 444
timewait_len_us 444
END
)"
}

@test "reset does not touch the clock" {
	local before
	before=$(grep -H '' "$TREE"/clock/*)
	reset_counters
	assert_equal "$(grep -H '' "$TREE"/clock/*)" "$before"
}
