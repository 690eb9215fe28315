#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The module's clock, compared with the kernel's configuration and with its own clock. Only this
# finds a wrong tick, which all times in us and all times in jiffies depend on.

load ../loaded
load ../tree

# The model that trees for tests of the reader are made of, too.
@test "clock/ is what the kernel's HZ gives" {
	cd "$BATS_TEST_TMPDIR" || return
	make_module '' "$(config_hz)"
	run -0 diff -r "$T/clock" "$TREE/clock"
}

@test "a tick is as long as the kernel's own clock says" {
	# /proc/timer_list has each CPU's jiffies next to the time in ns.
	local jiffies ns jiffies2 ns2 tick hz
	timer_list() { awk '/^now at/ { ns = $3 } /^jiffies:/ { print $2, ns; exit }' /proc/timer_list; }
	read -r jiffies ns < <(timer_list)
	sleep 3
	read -r jiffies2 ns2 < <(timer_list)
	counter_into tick clock/tick_ns
	counter_into hz clock/hz
	local ticks=$((jiffies2 - jiffies)) elapsed=$((ns2 - ns))
	((ticks > hz)) || fail "$ticks ticks in 3 s"
	# The nearest other HZ that kernels are built with differs by 20%.
	((ticks * tick * 20 > elapsed * 19 && ticks * tick * 20 < elapsed * 21)) ||
		fail "$ticks ticks in $elapsed ns, tick_ns is $tick"
}
