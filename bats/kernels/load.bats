#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The module on one kernel of bats/check-kernels, and what it says of its probes, for
# that one's table: "# load LOADED|GROUPS|PROBES" and "# kprobes PROBES" in the TAP.

bats_require_minimum_version 1.5.0
load ../helpers

setup() {
	untraced
	! loaded || unload_module
}

teardown() {
	! loaded || unload_module
	assert_no_splat
}

# How many probes of each kind there are.
kinds() {
	awk '!/^#/ { n[$4]++ }
		END { for (k in n) print n[k], k }' "$DEBUG/probes" | sort -rn | paste -sd, | sed 's/,/, /g'
}

@test "loads, and arms every group" {
	local f groups=0 armed=0
	load_module
	for f in "$TREE"/*/status; do
		((++groups))
		[[ $(<"$f") != armed ]] || ((++armed))
	done
	echo "# load yes|$armed/$groups|$(kinds)" >&3
	grep -H '' "$TREE"/*/status
	cat "$DEBUG/probes"
	((groups >= 4))
	assert_equal "$armed of $groups" "$groups of $groups"
}

@test "by kprobes" {
	local i
	insmod "$TCPLAT_KO" attach=kprobe
	# The kernel turns breakpoints into jumps a little later.
	for ((i = 0; i < 50; i++)); do
		[[ $(kinds) == *breakpoint* ]] || break
		sleep 0.2
	done
	echo "# kprobes $(kinds)" >&3
	cat "$DEBUG/probes"
	# Whatever they became, they are there, but for one that kernels before 6.1 do not have.
	assert_equal "$(awk '!/^#/ && $5 != "armed" && $2 != "inet_bind2_bucket_find"' "$DEBUG/probes")" ""
	awk '!/^#/ && $3 == "entry"' "$DEBUG/probes" | grep -q ' kprobe:jump '
}
