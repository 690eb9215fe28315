# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the tests of ackmode: the BPF program that watches the same traffic
# (bats/oracle/ackmode.bpf.c), and comparisons of its counts with the module's. Files
# that load this call oracle_start in setup_file, oracle_open in setup, and the other two
# functions in their teardowns.

# shellcheck disable=SC2154 # keys of associative arrays

load ../oracle

# ---- the module's counts and the oracle's ----

# Counts are in arrays M (module) and O (oracle). The key is all words of a line except the
# last: "delayed quickack none", "born delayed", "live pingpong". Most counts are 0; M_some and
# O_some have the keys of the others. All code that processes them is bash, since an emulated
# machine starts few processes per second.
declare -gA M=()

module_read() {
	local line found
	M=() M_some=()
	debug_lines transitions
	for line in "${found[@]}"; do
		M[${line% *}]=${line##* }
		[[ $line == *' 0' ]] || M_some+=("${line% *}")
	done
	counter_into "M[setsockopt]" ackmode/setsockopt
}

# of M|O PATTERN[|PATTERN]: sets n to the sum of counts whose key matches one of these patterns of
# the shell. Regular expressions would take five times as long: bash compiles one for each match.
of() {
	local -n counts=$1 some=$1_some
	local words
	n=0
	for words in "${some[@]}"; do
		[[ $words != @($2) ]] || n=$((n + ${counts[$words]}))
	done
}

ANY='@(delayed|quickack|pingpong|route)'
CAUSES=(timeout setsockopt first gap duplicate ecn handshake budget answer fin window route disconnect)
CAUSE="@(none|$(IFS='|'; echo "${CAUSES[*]}"))"
CHANGE="$ANY $ANY $CAUSE"

# shellcheck disable=SC2053 # a pattern
is_change() { [[ $1 == $CHANGE ]]; }

# assert_file NAME PATTERN: the module's file has the sum of the oracle's counts.
assert_file() {
	local value n
	counter_into value "ackmode/$1"
	of O "$2"
	same "$1" "$value" "$n"
}

# Fails unless the module's files agree with the oracle's matrix.
assert_files() {
	local mode cause
	for mode in quickack pingpong route; do
		assert_file "${mode}_enters" "$ANY $mode +([a-z])"
		assert_file "${mode}_exits" "$mode $ANY +([a-z])"
	done
	for cause in "${CAUSES[@]}"; do
		assert_file "cause_$cause" "$ANY $ANY $cause"
	done
	assert_file unexplained "$ANY $ANY none"
	assert_file setsockopt setsockopt
}

# Fails unless module and oracle agree on every cell and on the number of sockets. The module
# shows no cell for a cause that cannot have such an effect.
assert_agree() {
	local words text=''
	for words in "${!O[@]}"; do
		[[ ${O[$words]} != "${M[$words]-0}" && $words != @(events|errors|missed|raced)* ]] || continue
		text+="$words: ${M[$words]-nothing}, BPF ${O[$words]}"$'\n'
	done
	[[ ! $text ]] || fail "$text"
	((${#O[@]} > 30 && ${#M[@]} > 30)) || fail "BPF shows only: ${!O[*]}"
}

# Sets difference to the sum of differences over all cells, changes to the same with causes
# ignored, and differing to the cells that differ.
compare() {
	local words change apart
	local -A by=()
	difference=0 changes=0 differing=''
	for words in "${!O[@]}"; do
		[[ ${O[$words]} != "${M[$words]-0}" && $words != @(events|errors|missed|raced)* ]] || continue
		apart=$((${O[$words]} - ${M[$words]-0}))
		differing+="; $words: ${M[$words]-0}, BPF ${O[$words]}"
		((difference += apart < 0 ? -apart : apart)) || :
		change=$words
		! is_change "$words" || change=${words% *}
		by[$change]=$((${by[$change]-0} + apart))
	done
	for apart in "${by[@]}"; do
		((changes += apart < 0 ? -apart : apart)) || :
	done
}

# For runs in which BPF missed hits. Each missed hit changes how BPF classifies the next one:
# up to two changes become others, or one has another cause. In addition, up to two calls may
# have taken effect late (assert_late_calls).
assert_near() {
	local n late
	of M "$ANY $ANY none"
	late=$((n < 2 ? n : 2))
	of O 'events *'
	echo "# the counts differ by $difference; BPF missed ${O[missed]} of $n hits" >&3
	((O[missed] * 100 <= n)) || fail "BPF missed too many to be compared with"
	((difference <= 4 * O[missed] + 2 * late)) ||
		fail "the counts differ by more than missed hits and $late late calls explain"
}

# assert_late_calls SLACK CALLS [CAUSES SHARE]: accepts late calls. A call that waits for the socket
# while another CPU processes a segment takes effect later than the module expects, so its change
# has no known cause. BPF sees such a call return. All differences beyond SLACK must be such causes,
# in no more than a SHARE-th (25th) of the changes with these CAUSES (setsockopt) and CALLS more.
assert_late_calls() {
	local by_call unexplained n causes=${3-setsockopt} share=${4-25}
	of O "$ANY $ANY $causes"
	by_call=$n
	of M "$ANY $ANY none"
	unexplained=$n
	((unexplained * share <= by_call + share * $2)) ||
		fail "$unexplained changes have no cause, of $by_call by $causes"
	((difference <= 2 * unexplained + $1)) ||
		fail "the counts differ by $difference, but only $unexplained changes have no cause"
}

# assert_apart [CAUSES SHARE]: all changes of mode are BPF's, and their causes except for late
# calls, up to the hits that BPF missed and the calls that found the socket in use between the
# module's observation and BPF's: one of the two may see a mode begin and end, the other not.
assert_apart() {
	local slack=$((4 * (O[raced] + O[missed])))
	((changes <= slack)) ||
		fail "the changes differ by $changes, but only ${O[raced]} calls raced and ${O[missed]} hits were missed"
	assert_late_calls "$slack" 0 "$@"
}

# For each mode: born + adopted + enters = exits + died + forgotten + live. Sockets that were
# born but did not fit are in `untracked`; `tracked` is the sum of the live lines.
assert_conserved() {
	local mode came value n untracked
	counter_into untracked ackmode/untracked
	for mode in delayed quickack pingpong route; do
		of M "@(born|adopted) $mode|$ANY $mode +([a-z])"
		came=$n
		[[ $mode != delayed ]] || ((came -= untracked)) || :
		of M "@(died|forgotten|live) $mode|$mode $ANY +([a-z])"
		same "into $mode" "$came" "$n"
	done
	of M 'live *'
	counter_into value ackmode/tracked
	same tracked "$value" "$n"
}

# Waits until all sockets of a scenario have died; closed ones live on until the last segments
# are exchanged. Leaves M read.
all_dead() {
	soon none_tracked
	module_read
}

none_tracked() {
	local n
	counter_into n ackmode/tracked
	((!n))
}

# watch COMMAND...: runs COMMAND; then module and oracle must agree on every cell. It is run
# again, up to five times, in two cases:
# - One of them missed hits. Kprobes and BPF programs miss hits if the kernel interrupts a
#   running one, or switches tasks in it. If BPF misses some in the last try too, that try is
#   compared within bounds.
# - Only causes differ. The module sees setsockopt() before the call locks its socket; a segment
#   that arrives between the two observations comes before the call for one observer and after
#   it for the other. On a slow machine this happens in each try.
watch() {
	local try missed n words text difference changes differing late
	for try in {1..5}; do
		all_dead
		reset_counters
		oracle_reset
		"$@"
		all_dead
		oracle_read
		same "BPF's own errors" "${O[errors]}" 0
		counter_into missed ackmode/missed
		late=''
		compare
		if ((missed || (difference && O[missed]))); then
			echo "# try $try: $missed hits missed, ${O[missed]} by BPF" >&3
			((try == 5 && !missed)) || continue
			assert_near
		elif ((difference && !changes)); then
			echo "# try $try: causes differ by $difference$differing" >&3
			((try == 5)) || continue
			late=1
			assert_late_calls 0 2
		else
			assert_agree
			assert_files
		fi
		assert_conserved
		# In the simple form too: nothing was adopted or forgotten.
		of M '@(adopted|forgotten) *'
		same "adopted or forgotten" "$n" 0
		same untracked_events "$(counter ackmode/untracked_events)" 0
		# Exact unless hits were missed.
		counter_into n ackmode/unexplained
		[[ $late ]] || ((missed || O[missed])) || same unexplained "$n" 0
		text=''
		for words in "${O_some[@]}"; do
			text+="; $words ${O[$words]}"
		done
		echo "# ${text#; }"
		return 0
	done
	fail "hits were missed in each of $try tries"
}

# seen FROM TO CAUSE [LEAST]: fails unless the oracle has seen such changes.
seen() {
	local n
	of O "$1 $2 $3"
	((n >= ${4:-1})) || fail "only $n changes from $1 to $2 by $3: the scenario did not work"
}

# ---- traffic ----

# Both ends of the veth use ECN, also if the SYN is lost.
with_ecn() {
	local ns
	for ns in tcplat-a tcplat-b; do
		ip netns exec "$ns" sysctl -q net.ipv4.tcp_ecn=1 net.ipv4.tcp_ecn_fallback=0
	done
}

# on_veth NETEM...: sets netem on both ends of the veth.
on_veth() {
	local side
	for side in a b; do
		tc -n "tcplat-$side" qdisc replace dev "veth-$side" root netem "$@"
	done
}

# Runs steps.py on one processor, where its timers run too. It has its own network namespace:
# it must read /proc/net/tcp within 40 ms, and earlier tests leave thousands of connections in
# TIME_WAIT.
steps() {
	[[ $1 != -4 ]] || shift
	unshare --net sh -c 'ip link set lo up && exec taskset -c 0 python3 "$@"' sh \
		"$ORACLE_SRC/steps.py" "$@"
}
