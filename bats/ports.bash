# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the tests of port searches: the program that connects, and counts that do not depend
# on the module.

# shellcheck disable=SC2034 # used by files that load this
# shellcheck disable=SC2154 # keys of associative arrays

PORTS=${TRAFFIC%/*}/ports
RANGE=/proc/sys/net/ipv4/ip_local_port_range
RESERVED=/proc/sys/net/ipv4/ip_local_reserved_ports

# ---- connecting ----

# start_ports [OPTION...]: starts the program, which keeps its sockets until stop_ports. FIFOs,
# since a process substitution or a coprocess is not available in run's subshell.
start_ports() {
	mkfifo "$BATS_TEST_TMPDIR/commands" "$BATS_TEST_TMPDIR/answers"
	"$PORTS" "$@" <"$BATS_TEST_TMPDIR/commands" >"$BATS_TEST_TMPDIR/answers" 3>&- &
	ports_pid=$!
	exec 8>"$BATS_TEST_TMPDIR/commands" 9<"$BATS_TEST_TMPDIR/answers"
}

stop_ports() {
	[[ ${ports_pid:-} ]] || return 0
	exec 8>&- 9<&-
	wait "$ports_pid" || :
	ports_pid=''
	rm -f "$BATS_TEST_TMPDIR"/{commands,answers}
}

# ask COMMAND...: runs COMMAND and sets got[KEY] from its answer.
ask() {
	echo "$*" >&8
	hear "$*"
}

# hear COMMAND...: reads the answer to an earlier command.
declare -gA got
hear() {
	local answer
	read -r -t 300 -u 9 answer || fail "ports gave no answer to '$*'"
	got=([connected]=0 [bound]=0 [exhausted]=0)
	set_pairs got "$answer"
}

# ---- counting ----

# The kernel calls one of these for each port that is in use only by connect(), to check whether
# it can be used for one more connection. Free, bound and reserved ports are handled before. Newer
# kernels call it twice for a usable port.
CHECKS=(__inet_check_established __inet6_check_established)

watch_checks() {
	local f
	for f in "${CHECKS[@]}"; do
		event_on "$f" "$f port=$(arg 3):u16"
	done
}

# Sets now[FILE] from the group's files.
declare -gA now
look() {
	local f
	for f in searches iterations unverified exhausted unverified_iterations_{lower,upper}; do
		counter_into "now[$f]" "portsearch/$f"
	done
}

# look, and sets now[checks] to the number of these calls since watch_checks.
look_at_all() {
	local f hits
	look
	now[checks]=0
	for f in "${CHECKS[@]}"; do
		event_hits "$f"
		((now[checks] += hits)) || :
	done
}

# measure COMMAND...: runs COMMAND and sets did[...] to the growth of the counters. Checks what must
# hold for every command: each connect() has made one search, and as many searches were exhausted
# as the program has seen.
declare -gA did was
measure() {
	local k
	look_at_all
	for k in "${!now[@]}"; do was[$k]=${now[$k]}; done
	ask "$@"
	look_at_all
	for k in "${!now[@]}"; do did[$k]=$((now[$k] - was[$k])); done
	assert_equal "$*: ${did[searches]} searches" \
		"$*: $((got[connected] + got[exhausted])) searches"
	assert_equal "$*: ${did[exhausted]} exhausted" "$*: ${got[exhausted]} exhausted"
}

# exactly COMMAND...: the same, and every search must be verified.
exactly() {
	measure "$@"
	assert_equal "$*: ${did[unverified]} unverified" "$*: 0 unverified"
}

assert_iterations() {
	assert_equal "${did[iterations]} iterations" "$1 iterations"
}

# assert_bounds NUMBER: NUMBER ports were tried by all searches, including unverified ones.
assert_bounds() {
	((did[iterations] + did[unverified_iterations_lower] <= $1 &&
		$1 <= did[iterations] + did[unverified_iterations_upper])) ||
		fail "$1 ports tried, expected ${did[iterations]} and" \
			"${did[unverified_iterations_lower]} to ${did[unverified_iterations_upper]} more"
}

# Checks that the group's files are consistent.
assert_portsearch_adds_up() {
	look
	hist_sum portsearch/time_hist
	assert_equal "$sum timed" "${now[searches]} timed"
	hist_sum portsearch/iterations_hist
	assert_equal "$sum counted" "$((now[searches] - now[unverified])) counted"
	assert_equal "$(counter portsearch/missed) missed" "0 missed"
	counter_into sum portsearch/unverified_time_ns
	((now[unverified] ? sum > 0 && sum <= $(counter portsearch/time_ns) : sum == 0)) ||
		fail "${now[unverified]} unverified searches took $sum ns"
	((now[unverified_iterations_lower] >= now[unverified] &&
		now[unverified_iterations_upper] >= now[unverified_iterations_lower])) ||
		fail "${now[unverified]} unverified searches tried" \
			"${now[unverified_iterations_lower]} to ${now[unverified_iterations_upper]} ports"
}
