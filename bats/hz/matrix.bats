#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# delack/stalls at round trips of 0 to 300 ms, with and without timestamps and SYN cookies, and
# with data that nobody waits for; the results are in Documentation/proof/stalls.md. Only this
# finds false and overlooked stalls at long round trips. Takes an hour of the guest's time,
# mostly idle; one HZ is enough.

# shellcheck disable=SC2154 # run_on and look set timeouts, stalls, slow and samples

load stalls

# waits FAMILY RTT WORKLOAD OPTION...: transactions for which the client had to wait 40 ms longer
# than the round trips take must be stalls. Adds the results to row.
waits() {
	reset_counters
	run_on "$1" "$3" -n 101 "${@:4}" --slow $((39 + 2 * $2))
	quiet
	look
	((slow >= 80)) || fail "only $slow of $samples had to wait"
	row+=" | $slow, $stalls"
	((stalls <= slow)) || fail "$((stalls - slow)) false stalls"
	(((slow - stalls) * 100 <= 2 * slow)) || fail "$((slow - stalls)) stalls were overlooked"
}

# held FAMILY RTT: sends a message every 7 ms to a program that asked with SO_RCVLOWAT to be woken
# up for all of them only: an ACK that is due to reading would not be late. Nagle's algorithm holds
# messages until the previous one is acknowledged, so each late ACK releases some, except the ACK of
# the last data and that of the FIN.
held() {
	local n=$(($2 < 100 ? 300 : 9 * $2))
	reset_counters
	run_on "$1" oneway -n $n -s 10 --interval 7 --rcvlowat $((10 * n))
	quiet
	look
	((timeouts >= 5)) || fail "only $timeouts late ACKs"
	row+=" | $timeouts, $stalls"
	(((timeouts - 2 - stalls) * 100 <= 2 * timeouts)) || fail "$((timeouts - stalls)) stalls were overlooked"
}

# beside FAMILY N LEAST [unknown]: sends a message every 51 ms, without Nagle's algorithm, so nobody
# waits for the late ACKs, of which there must be at least LEAST. If the kernel has not measured the
# round trip (unknown), they may be taken for stalls.
beside() {
	reset_counters
	run_on "$1" oneway -n "$2" -s 10 --nodelay --interval 51 --rcvlowat $((10 * $2))
	quiet
	look
	((timeouts >= $3)) || fail "only $timeouts late ACKs that could be taken for stalls"
	row+=" | $timeouts, $stalls"
	[[ ${4-} ]] || ((stalls == 0 || stalls * 100 < timeouts)) || fail "$stalls false stalls"
}

# matrix FAMILY RTT: runs with and without timestamps, each with and without SYN cookies, and all
# that again without ackmode in the form of --hard.
matrix() {
	local timestamps cookies ackmode before after row
	# A tail loss probe would be sent before the late ACK.
	set_net tcp_early_retrans 0
	for timestamps in 1 0; do
		for cookies in 1 2; do
			set_net tcp_timestamps $timestamps
			set_net tcp_syncookies $cookies
			for ackmode in $(often 1 '1 0'); do
				echo "$ackmode" >"$TREE/ackmode/enabled"
				before=$(tcp_ext SyncookiesRecv)
				row="row | $2 ms | IPv$1 | $timestamps | $((cookies - 1))"
				waits "$1" "$2" wwr
				waits "$1" "$2" upload --rcvlowat 200
				held "$1" "$2"
				# Data arrives 7 to 11 ms after the late ACK of the previous data. After a
				# SYN cookie the kernel's round trip is unknown, or up to 64 ms too long.
				# Few ACKs are late if a round trip is longer than the kernel's longest
				# delay.
				beside "$1" $(($2 < 300 ? 130 : 400)) \
					$((cookies == 2 ? 1 : $2 < 100 ? 100 : 3)) "${cookies#1}"
				after=$(tcp_ext SyncookiesRecv)
				assert_equal "$((after - before)) cookies" "$((4 * (cookies - 1))) cookies"
				echo "# $row |$( ((ackmode)) || echo ' without ackmode')" >&3
			done
		done
	done
}

# far_matrix DELAY RTT: a window of ten segments would be full before the first ACK
# arrives, and the waits would be stalls.
far_matrix() {
	veth_pair delay "$1"
	ip -n tcplat-a route add 10.9.0.2/32 dev veth-a initcwnd 100
	ip -n tcplat-a route add fd09::2/128 dev veth-a initcwnd 100
	each_family matrix "$2"
}

@test "matrix: 0 ms" { each_family matrix 0; }
@test "matrix: 1 ms" { far_matrix 500us 1; }
@test "matrix: 20 ms" { far_matrix 10ms 20; }
@test "matrix: 100 ms" { far_matrix 50ms 100; }
@test "matrix: 300 ms" { far_matrix 150ms 300; }
