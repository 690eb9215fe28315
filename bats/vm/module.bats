#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Loading and unloading the module leaves no trace, whatever uses it. This is the quick test of
# loading; bats/hard repeats it under load.

# shellcheck disable=SC2154 # unloaded.bash sets before

load ../unloaded

@test "loading it twice: the second is refused, the first goes on; the next begins at zero" {
	load_module
	run load_module
	assert_failure
	assert_output --partial "File exists"
	"$TRAFFIC" wwr -n 20 --settle
	quiet
	(($(counter delack/timeouts) > 0))
	assert_equal "$(counter version)" "$(</sys/module/tcplat/version)"
	[[ $(traces) != "$before" ]]
	unload_module
	assert_no_trace
	load_module
	assert_equal "$(counter delack/timeouts)" 0
	assert_equal "$(counter delack/delay_hist | tr -d '0 ')" ""
	assert_equal "$(counter delack/missed)" 0
}

@test "a counter held open does not keep it from unloading, and then reads ENODEV" {
	load_module
	exec 9<"$TREE/delack/timeouts"
	exec 8>"$TREE/delack/enabled"
	unload_module
	run cat <&9
	assert_failure
	assert_output --partial "No such device"
	run dd of=/dev/fd/8 bs=1 count=1 <<<1
	assert_failure
	exec 8<&- 9<&-
	assert_no_trace
}
