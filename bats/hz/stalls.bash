# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the tests of stalls: setup and teardown, traffic, and reading the counters.

# shellcheck disable=SC2034,SC2154 # used by files that load this; set by counter_into

load ../loaded

setup() {
	untraced
	quiet
	reset_counters
	# The longest delay of an ACK that the timer sends, rounded up.
	counter_into hz clock/hz
	late_ms=$((((hz / 25 + 1) * 1000 + hz - 1) / hz))
}

teardown() {
	set_net tcp_timestamps 1
	set_net tcp_syncookies 1
	set_net tcp_early_retrans 3
	echo 1 >"$TREE/ackmode/enabled"
	echo 1 >"$TREE/delack/enabled"
	tidy
}

# set_net NAME VALUE: sets net.ipv4.NAME in all of the test's namespaces.
set_net() {
	local ns
	echo "$2" >"/proc/sys/net/ipv4/$1"
	for ns in ${NAMESPACES[@]+"${NAMESPACES[@]}"}; do
		ip netns exec "$ns" bash -c "echo $2 >/proc/sys/net/ipv4/$1"
	done
}

# run_on FAMILY WORKLOAD OPTION...: runs WORKLOAD between the namespaces, or over loopback if there
# are none; sets slow, slower and samples from the client's output.
run_on() {
	if ((${#NAMESPACES[@]})); then
		told_by between "$2" "${SERVER[$1]}" "${@:3}"
	else
		told_by traffic "$2" "-$1" "${@:3}"
	fi
	slow=${said[slow]} slower=${said[slower]} samples=${said[samples]}
}

look() {
	counter_into timeouts delack/timeouts
	counter_into stalls delack/stalls
	counter_into us delack/stall_us
	counter_into delay delack/delay_us
	echo "# $samples transactions, $slow slow, $slower very slow;" \
		"$timeouts timeouts, $stalls stalls of $us us"
	((stalls <= timeouts && us <= delay)) || fail "more stalls than timeouts, of $delay us"
}
