#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Loads the module on one kernel of bats/check-kernels and prints which probes it has, for the
# table there: "# load LOADED|GROUPS|PROBES", "# functions NAME..." and "# kprobes PROBES" in the
# TAP. Only this shows that all groups can be armed on a kernel.

load ../unloaded

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
	assert_equal "$armed of $groups" "${#GROUPS_ALL[@]} of ${#GROUPS_ALL[@]}"
}

# The kernel optimizes breakpoints to jumps in a delayed work.
export SOON=100

no_breakpoints() { [[ $(kinds) != *breakpoint* ]]; }

# Whether the kernel makes a jump of a kprobe behind the ftrace site of tcp_push(), with or without
# endbr64. Enterprise Linux 8 and 9.2 do not: they take a jump to the return thunk for one that may
# lead anywhere.
optimizes() {
	local at status=0
	for at in 5 9; do
		! echo "p:tcplat_at tcp_push+$at" >"$TRACING/kprobe_events" || break
	done 2>/dev/null
	echo 1 >"$TRACING/events/kprobes/tcplat_at/enable"
	soon grep -q 'tcp_push+.*OPTIMIZED' /sys/kernel/debug/kprobes/list || status=1
	echo 0 >"$TRACING/events/kprobes/tcplat_at/enable"
	echo >"$TRACING/kprobe_events"
	return "$status"
}

@test "by kprobes" {
	local f
	insmod "$TCPLAT_KO" attach=kprobe
	soon no_breakpoints || :
	echo "# kprobes $(kinds)" >&3
	cat "$DEBUG/probes"
	# All functions that this kernel has must be armed, by whatever kind.
	while read -r f; do
		! grep -q " $f\$" /proc/kallsyms || fail "$f is not armed"
	done < <(awk '!/^#/ && $5 != "armed" { sub(/[+].*/, "", $2); print $2 }' "$DEBUG/probes")
	# Debian's kernels all do.
	if optimizes || [[ $(uname -r) != *-tcplat ]]; then
		awk '!/^#/ && $3 == "entry"' "$DEBUG/probes" | grep -q ' kprobe:jump '
	fi
}
