# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the tests of ackmode share: the BPF program that watches the same traffic
# (bats/oracle/ackmode.bpf.c), and what both counts have to say of each other. Those
# who load this call oracle_start in setup_file, oracle_open in setup, and the other two
# when they tear down.

# shellcheck disable=SC2034 # used by those that load this
# shellcheck disable=SC2154 # keys of arrays are no variables

load ../oracle

# ---- both counts ----

# What both say is in two arrays, by all words of a line but the last: "delayed
# quickack none", "born delayed", "live pingpong". Bash alone works on them, for an
# emulated machine starts few processes a second.
declare -gA M=()

module_read() {
	local line
	M=()
	while read -r line; do
		[[ $line == '#'* ]] || M[${line% *}]=${line##* }
	done <"$DEBUG/transitions"
	counter_into "M[setsockopt]" ackmode/setsockopt
}

# of M|O PATTERN: sets n to the sum of those whose words match. Most are 0, and bash compiles
# the pattern each time that it looks.
of() {
	local -n counts=$1
	local words
	n=0
	for words in "${!counts[@]}"; do
		[[ ${counts[$words]} == 0 || ! $words =~ ^($2)$ ]] || n=$((n + ${counts[$words]}))
	done
}

ANY='(delayed|quickack|pingpong|route)'
CAUSE='(none|timeout|setsockopt|first|gap|duplicate|ecn|handshake|budget|answer|fin|window|route|disconnect)'
CHANGE="$ANY $ANY $CAUSE"

# The module's files have to say what the oracle's matrix says.
assert_files() {
	local name pattern value n
	while read -r name pattern; do
		counter_into value "ackmode/$name"
		of O "$pattern"
		same "$name" "$value" "$n"
	done <<-END
		quickack_enters $ANY quickack [a-z]+
		quickack_exits quickack $ANY [a-z]+
		pingpong_enters $ANY pingpong [a-z]+
		pingpong_exits pingpong $ANY [a-z]+
		pingpong_exits_timeout pingpong $ANY timeout
		pingpong_exits_setsockopt pingpong $ANY setsockopt
		quickack_enters_setsockopt $ANY quickack setsockopt
		pingpong_enters_setsockopt $ANY pingpong setsockopt
		route_enters $ANY route [a-z]+
		route_exits route $ANY [a-z]+
		unexplained $ANY $ANY none
		cause_timeout $ANY $ANY timeout
		cause_setsockopt $ANY $ANY setsockopt
		cause_first $ANY $ANY first
		cause_gap $ANY $ANY gap
		cause_duplicate $ANY $ANY duplicate
		cause_ecn $ANY $ANY ecn
		cause_handshake $ANY $ANY handshake
		cause_budget $ANY $ANY budget
		cause_answer $ANY $ANY answer
		cause_fin $ANY $ANY fin
		cause_window $ANY $ANY window
		cause_route $ANY $ANY route
		cause_disconnect $ANY $ANY disconnect
		setsockopt setsockopt
	END
}

# Every cell, and what became of the sockets. The module shows no cell of a cause that cannot
# have such an effect.
assert_agree() {
	local words text=''
	for words in "${!O[@]}"; do
		[[ ${O[$words]} != "${M[$words]-0}" && $words != @(events|errors|missed|raced)* ]] || continue
		text+="$words: ${M[$words]-nothing}, BPF ${O[$words]}"$'\n'
	done
	[[ ! $text ]] || fail "$text"
	((${#O[@]} > 30 && ${#M[@]} > 30)) || fail "BPF says only: ${!O[*]}"
}

# Sets difference to how far the two are apart, over all cells, changes to how far where causes
# are left out, and differing to the cells.
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
		[[ ! $words =~ ^$CHANGE$ ]] || change=${words% *}
		by[$change]=$((${by[$change]-0} + apart))
	done
	for apart in "${by[@]}"; do
		((changes += apart < 0 ? -apart : apart)) || :
	done
}

# Where BPF has missed hits. One that it did not see changes what it takes the next for:
# up to two changes become another, or one has another cause. Beside them up to two calls may
# have taken effect late (assert_late_calls).
assert_near() {
	local n late
	of M "$ANY $ANY none"
	late=$((n < 2 ? n : 2))
	of O 'events .*'
	echo "# the counts differ by $difference; BPF missed ${O[missed]} of $n hits" >&3
	((O[missed] * 100 <= n)) || fail "BPF missed too many to be compared with"
	((difference <= 4 * O[missed] + 2 * late)) ||
		fail "the counts differ by more than that explains, and $late calls that came late"
}

# A call that waits for the socket while another processes a segment takes effect later than the
# module expects: what it changes has no known cause then. BPF sees such a call return. All that
# differs by more than $1 are such causes, and no more than a hundredth of the calls' changes,
# and $2.
assert_late_calls() {
	local by_call unexplained n
	of O "$ANY $ANY setsockopt"
	by_call=$n
	of M "$ANY $ANY none"
	unexplained=$n
	((unexplained * 100 <= by_call + 100 * $2)) ||
		fail "$unexplained changes have no cause, of $by_call by calls"
	((difference <= 2 * unexplained + $1)) ||
		fail "the counts differ by $difference, and only $unexplained have no cause"
}

# For each mode: born + adopted + enters = exits + died + forgotten + live, but for those
# born that found no room; and `tracked` is the sum of its lines.
assert_conserved() {
	local mode came value n untracked
	counter_into untracked ackmode/untracked
	for mode in delayed quickack pingpong route; do
		of M "(born|adopted) $mode|$ANY $mode [a-z]+"
		came=$n
		[[ $mode != delayed ]] || ((came -= untracked)) || :
		of M "(died|forgotten|live) $mode|$mode $ANY [a-z]+"
		same "into $mode" "$came" "$n"
	done
	of M 'live .*'
	counter_into value ackmode/tracked
	same tracked "$value" "$n"
	same evictions "$(counter ackmode/evictions)" 0
}

# All sockets of a scenario have died. Leaves M read.
all_dead() {
	local i n
	for ((i = 0; i < 300; i++)); do
		module_read
		of M 'live .*'
		((n)) || return 0
		sleep 0.1
	done
	fail "there are still $n sockets"
}

# watch COMMAND...: runs it; then module and oracle agree on every cell. If not, and one
# of them says that it missed hits, it is run again: kprobes miss some, and so do BPF
# programs, where the kernel interrupts one that is running, or runs another task. If
# BPF misses some each time, for there is too much at once, the last is compared within
# bounds. If nothing but a cause differs it is run again, too: setsockopt() comes by before
# its socket is locked, and a segment that arrives when one of the two has seen it, and the
# other has not, is before it for one and behind it for the other. On a slow machine some
# do in each try.
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
		# In the simple form too: nothing was adopted and nothing was lost.
		of M '(adopted|forgotten) .*'
		same "adopted or forgotten" "$n" 0
		same untracked_events "$(counter ackmode/untracked_events)" 0
		# Unless hits were missed.
		counter_into n ackmode/unexplained
		[[ $late ]] || ((missed || O[missed])) || same unexplained "$n" 0
		text=''
		for words in "${!O[@]}"; do
			[[ ${O[$words]} == 0 ]] || text+="; $words ${O[$words]}"
		done
		echo "# ${text#; }"
		return 0
	done
	fail "hits were missed in each of $try tries"
}

# seen FROM TO CAUSE [LEAST]: the oracle has seen this.
seen() {
	local n
	of O "$1 $2 $3"
	((n >= ${4:-1})) || fail "only $n changes from $1 to $2 by $3: this scenario is not what it should be"
}

# ---- traffic ----

# on_veth NETEM...: what each end of the veth does with what it sends.
on_veth() {
	local side
	for side in a b; do
		tc -n "tcplat-$side" qdisc replace dev "veth-$side" root netem "$@"
	done
}

# ip_ext NAME: of /proc/net/netstat, in the client's namespace and the server's.
ip_ext() {
	local ns
	for ns in tcplat-a tcplat-b; do
		ip netns exec "$ns" cat /proc/net/netstat
	done | awk -v name="$1" '
		$1 == "IpExt:" && !($2 ~ /^[0-9]/) { for (i = 2; i <= NF; i++) if ($i == name) n = i; next }
		$1 == "IpExt:" { sum += $n }
		END { print sum + 0 }'
}

# On one processor too, with the timers that it starts.
# In a network namespace of its own: it reads /proc/net/tcp within 40 ms, and the tests
# before have left thousands of connections in TIME_WAIT there.
steps() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare --net sh -c 'ip link set lo up && exec taskset -c 0 python3 "$@"' sh \
		"$ORACLE_SRC/steps.py" "$@"
}
