# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153 # what is in capitals comes from bench/rr
#
# The guest's part of bench/rr.

set -euo pipefail
export LC_ALL=C.UTF-8

TREE=/sys/kernel/tcplat

work=$(mktemp -d)
bpf=''
cleanup() {
	[[ ! $bpf ]] || kill "$bpf" 2>/dev/null || :
	rm -rf "$work"
}
trap cleanup EXIT

# The median of a run's transactions: a timer's interrupt, and what the guest does
# besides, is in few of them. While the guest is idle its clock leaps ahead, by
# minutes: no limit of time is of any use here.
rr() {
	local line
	line=$("$TRAFFIC" rr -n "$TRANSACTIONS" --timeout 86400 | tail -n 1)
	[[ $line =~ median_ns=([0-9]+) ]]
	echo "${BASH_REMATCH[1]}"
}

middle() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# measure NAME: the repetitions, and sets cost to the middle of what each takes more
# than its like did without the module.
base=()
measure() {
	local i more=() all=()
	for ((i = 0; i < REPETITIONS; i++)); do
		all[i]=$(rr)
		[[ $1 != nothing ]] || base[i]=${all[i]}
		more[i]=$((all[i] - base[i]))
	done
	cost=$(middle "${more[@]}")
	printf '%-16s %8d %8d   each: %s\n' "$1" "$(middle "${all[@]}")" "$cost" "${more[*]}"
}

# only GROUP...: these are on.
only() {
	local file group
	for file in "$TREE"/*/enabled; do
		group=$(basename "$(dirname "$file")")
		[[ " $* " == *" $group "* || " $* " == " all " ]] && echo 1 >"$file" || echo 0 >"$file"
	done
	# Optimising a probe takes the kernel a moment.
	sleep 1
}

# Modules are loaded and caches filled.
rr >/dev/null
rr >/dev/null

echo "what is on          total    added   (instructions a transaction)"
measure nothing
# shellcheck disable=SC2086 # words
insmod "$TCPLAT_KO" $PARAMETERS
for group in "$TREE"/*/enabled; do
	groups+=" $(basename "$(dirname "$group")")"
done
only
measure "all off"
for group in $groups; do
	only "$group"
	measure "$group"
	[[ $group != ackmode ]] || ackmode=$cost
	grep "^$group " /sys/kernel/debug/tcplat/probes | sed 's/^/  /' >>"$work/probes"
done
only all
measure "all groups"
rmmod tcplat
measure "nothing again"

mkfifo "$work/in" "$work/out"
"$ORACLE/ackmode" "$ORACLE/ackmode.bpf.o" <"$work/in" >"$work/out" &
bpf=$!
exec 8>"$work/in" 9<"$work/out"
read -r -u 9 line
[[ $line == ready ]]
measure "the BPF program"
echo show >&8
events=0
while read -r -u 9 line && [[ $line != . ]]; do
	[[ $line != events* ]] || events=$((events + ${line##* }))
done

cat "$work/probes"
awk -v events="$events" -v runs=$((TRANSACTIONS * REPETITIONS)) -v cost="$ackmode" -v limit="$LIMIT" 'BEGIN {
	events /= runs
	printf "ackmode: %d instructions for %.2f events: %.1f an event, limit %d\n",
		cost, events, cost / events, limit
	exit cost / events > limit
}'
