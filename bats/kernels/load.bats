#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Loads the module on one kernel of bats/check-kernels and prints which probes it has, for the
# table there: "# load LOADED|GROUPS|PROBES", "# functions NAME..." and "# kprobes PROBES" in the TAP. Only this shows
# that all groups can be armed on a kernel.

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

# Prints the number of probes of each kind.
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
	echo "# functions $(awk '!/^#/ && $4 != "-" { sub(/[+].*/, "", $2); print $2 }' "$DEBUG/probes" | sort -u | paste -sd ' ')" >&3
	grep -H '' "$TREE"/*/status
	cat "$DEBUG/probes"
	((groups >= 4))
	assert_equal "$armed of $groups" "$groups of $groups"
}

@test "by kprobes" {
	local i
	insmod "$TCPLAT_KO" attach=kprobe
	# Wait up to 10 s: the kernel optimizes breakpoints to jumps in a delayed work.
	for ((i = 0; i < 50; i++)); do
		[[ $(kinds) == *breakpoint* ]] || break
		sleep 0.2
	done
	echo "# kprobes $(kinds)" >&3
	cat "$DEBUG/probes"
	# All must be armed, of whatever kind, except one function that kernels before 6.1 do not
	# have.
	assert_equal "$(awk '!/^#/ && $5 != "armed" && $2 != "inet_bind2_bucket_find"' "$DEBUG/probes")" ""
	awk '!/^#/ && $3 == "entry"' "$DEBUG/probes" | grep -q ' kprobe:jump '
}
