# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153 # PORTS comes from bench/connect
#
# The guest's part of bench/connect.
#
# 20,000 ports, all of one parity, are in use towards one destination. A search that
# begins among them passes them all before it takes one of the other parity: 20,001
# ports. Towards another destination the first of the 20,000 will do: one port, and
# the kernel looks at it as it does at the others.

set -euo pipefail
export LC_ALL=C.UTF-8

TREE=/sys/kernel/tcplat
ROUNDS=15

work=$(mktemp -d)
mkfifo "$work/commands" "$work/answers"
"$PORTS" -p 7000 <"$work/commands" >"$work/answers" &
ports=$!
exec 8>"$work/commands" 9<"$work/answers"
bpf=''
cleanup() {
	exec 8>&- 9<&-
	[[ ! $bpf ]] || kill "$bpf" 2>/dev/null || :
	kill "$ports" 2>/dev/null || :
	rm -rf "$work"
}
trap cleanup EXIT

# ask COMMAND...: sets answer.
ask() {
	echo "$*" >&8
	read -r -u 9 answer || { echo "ports ended" >&2; exit 1; }
}

# measure: sets cost to the median over ROUNDS connects of what each took, in
# instructions. A timer's interrupt takes some thousand, and comes every few million:
# it is in less than half of the short ones, and in nearly all of the long ones.
measure() {
	local i costs=()
	ask connect 2 reset
	for ((i = 0; i < ROUNDS; i++)); do
		ask connect 1 reset
		[[ $answer =~ min_ns=([0-9]+) ]]
		costs+=("${BASH_REMATCH[1]}")
	done
	mapfile -t costs < <(printf '%s\n' "${costs[@]}" | sort -n)
	cost=${costs[ROUNDS / 2]}
}

# tried: ports tried by a search, by tcplat's own count.
tried() {
	local searches iterations
	read -r iterations <"$TREE/portsearch/iterations"
	read -r searches <"$TREE/portsearch/searches"
	echo $((iterations / searches))
}

nothing_on() { :; }
nothing_off() { :; }

tcplat_on() {
	local group
	insmod "$TCPLAT_KO"
	for group in "$TREE"/*/enabled; do
		[[ $group == */portsearch/* ]] || echo 0 >"$group"
	done
}
tcplat_off() { rmmod tcplat; }

every_on() { insmod "$EVERY_PORT_KO"; }
every_off() { rmmod every_port; }

bpftrace_on() {
	bpftrace -e 'BEGIN { printf("ready\n"); }
		kprobe:__inet_check_established { @tried = count(); }' >"$work/bpftrace" 2>&1 &
	bpf=$!
	until grep -q ready "$work/bpftrace"; do
		kill -0 "$bpf" || { cat "$work/bpftrace" >&2; exit 1; }
		sleep 1
	done
	sleep 2
}
bpftrace_off() {
	kill -INT "$bpf"
	wait "$bpf" || :
	bpf=''
}

echo "20000 59999" >/proc/sys/net/ipv4/ip_local_port_range
ask fill 20000 59998 2

declare -A short long
for what in nothing tcplat every bpftrace; do
	"${what}_on"
	# Optimising a probe takes the kernel a moment.
	sleep 1
	ask to 7000
	[[ $what != tcplat ]] || echo 1 >"$TREE/reset"
	measure
	long[$what]=$cost
	[[ $what != tcplat ]] || ports_long=$(tried)
	ask to 7001
	[[ $what != tcplat ]] || echo 1 >"$TREE/reset"
	measure
	short[$what]=$cost
	[[ $what != tcplat ]] || ports_short=$(tried)
	"${what}_off"
done

# row NAME KEY: what it adds to both.
row() {
	local s=$((short[$2] - short[nothing])) l=$((long[$2] - long[nothing]))
	printf '%-34s %12d %7.2f%% %14d %8.2f%%\n' "$1" \
		"$s" "$(ratio "$s" "${short[nothing]}")" \
		"$l" "$(ratio "$l" "${long[nothing]}")"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print 100 * a / b }'; }

printf '\ninstructions added to a connect(), %s\n\n' "$(uname -r)"
printf '%-34s %21s %24s\n' '' "$ports_short port tried" "$ports_long ports tried"
printf '%-34s %12d %8s %14d\n' 'nothing loaded (in all)' \
	"${short[nothing]}" '' "${long[nothing]}"
row "tcplat's portsearch" tcplat
row 'a kprobe on every port' every
row 'bpftrace on every port' bpftrace

added_short=$((short[tcplat] - short[nothing]))
added_long=$((long[tcplat] - long[nothing]))
every_long=$((long[every] - long[nothing]))
printf '\nFor %d ports a kprobe on every port costs %d times what tcplat does.\n' \
	"$ports_long" $((every_long / (added_long > 0 ? added_long : 1)))

((ports_short == 1 && ports_long == 20001)) ||
	{ echo "bench: the searches tried $ports_short and $ports_long ports" >&2; exit 1; }
# An interrupt more or less is the noise of 20,001 ports.
((added_long - added_short < 10000)) ||
	{ echo "bench: the cost of tcplat grows with the number of ports" >&2; exit 1; }
