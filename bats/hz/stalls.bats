#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# delack/stalls and stall_us, compared with what the clients measured: a write-write-read that
# took 40 ms longer than its round trips waited for a late ACK; late ACKs that nobody waited for
# are no stalls. In a guest whose clock counts instructions each of the former must be counted,
# and none of the latter. Only this is exact about stalls.

# shellcheck disable=SC2154 # counter_into sets timeouts, stalls, us and delay

load stalls

# stalled FAMILY N RTT: N write-write-reads. The first meets quick ACKs; each of the others waits
# for a late ACK (40 ms and the rest of a tick) and for its round trips.
stalled() {
	local n=$(($2 - 1))
	run_on "$1" wwr -n "$2" --slow $((39 + 2 * $3)) --slower $((late_ms + 2 + 2 * $3))
	quiet
	look
	assert_equal "$slow slow, $slower slower" "$n slow, 0 slower"
	assert_equal "$timeouts timeouts, $stalls stalls" "$n timeouts, $n stalls"
	assert_equal "stalls of $us us" "stalls of $delay us"
}

# not_stalled FAMILY N WORKLOAD...: nobody waits for late ACKs, if there are any.
not_stalled() {
	reset_counters
	run_on "$1" "$3" -n "$2" "${@:4}"
	quiet
	look
	assert_equal "$stalls stalls" "0 stalls"
}

# ---- clients that wait ----

@test "write-write-read over loopback, 20 ms and 100 ms" {
	each_family stalled 100 0
	veth_pair delay 10ms
	each_family stalled 60 20
	remove_namespaces
	veth_pair delay 50ms
	each_family stalled 50 100
}

# ---- clients that do not wait ----

# With this SO_RCVLOWAT messages are left unread, so that the timer must acknowledge them.
messages() {
	not_stalled "$1" 50 oneway -s 10 --interval 100 --rcvlowat 500 "${@:2}"
	((timeouts > 0)) || fail "no late ACK that could be taken for a stall"
}

@test "one-way messages every 100 ms over loopback" { each_family messages; }

# Nagle's algorithm would hold these, since a round trip is as long as the pause.
@test "one-way messages every 100 ms over 100 ms, TCP_NODELAY" {
	veth_pair delay 50ms
	messages 4 --nodelay
}

@test "a client that thinks for 5 ms, and one that thinks until 5 ms after the late ACK" {
	not_stalled 4 100 rr --interval 5
	not_stalled 4 100 wwr --nodelay --interval 5
	not_stalled 6 100 wwr --nodelay --hold 5
	not_stalled 4 100 wwr --nodelay --hold $((late_ms + 5))
	((timeouts > 50)) || fail "only $timeouts late ACKs that could be taken for stalls"
}

# The reader is behind its sender, which the late ACKs tell that the window has not moved. It misses
# no data, since it has not read what there is.
slow_reader() {
	local unread
	run_on "$1" slowreader -n 192 -s 16384 --interval 50
	quiet
	look
	counter_into unread delack/timeouts_unread
	((timeouts > 20)) || fail "only $timeouts late ACKs that could be taken for stalls"
	assert_equal "$unread with unread data" "$timeouts with unread data"
	((stalls <= 2)) || fail "$stalls stalls, but nobody waited"
}

@test "3 MB read in pieces of 16 KB every 50 ms" {
	veth_pair delay 0
	each_family slow_reader
}

@test "TCP_NODELAY over loopback and over 20 ms" {
	each_family not_stalled 100 wwr --nodelay
	veth_pair delay 10ms
	not_stalled 4 100 wwr --nodelay
}

# ---- dependencies on other groups ----

@test "without ackmode the same is counted, without delack nothing" {
	echo 0 >"$TREE/ackmode/enabled"
	stalled 4 100 0
	not_stalled 6 100 wwr --nodelay --interval 5
	reset_counters
	veth_pair delay 10ms
	stalled 6 60 20
	messages 6 --nodelay
	echo 1 >"$TREE/ackmode/enabled"

	echo 0 >"$TREE/delack/enabled"
	reset_counters
	run_on 4 wwr -n 30
	look
	assert_equal "$timeouts $stalls $us" "0 0 0"
	echo 1 >"$TREE/delack/enabled"

	stalled 4 50 20
}

# With DCTCP the kernel also sends ACKs when marked segments begin or end.
@test "write-write-read with DCTCP, a fifth of all segments marked" {
	local marked
	modprobe tcp_dctcp 2>/dev/null || :
	[[ $(</proc/sys/net/ipv4/tcp_available_congestion_control) == *dctcp* ]] ||
		skip "this kernel has no DCTCP"
	veth_pair delay 10ms
	# ARP packets cannot be marked and would be lost. Without an ARP reply the server sends no
	# SYN-ACK, and a SYN that is sent again does not ask for ECN.
	know_each_other
	tc -n tcplat-a qdisc change dev veth-a root netem delay 10ms loss 20% ecn
	set_net tcp_congestion_control dctcp
	set_net tcp_ecn 1
	run_on 4 wwr -n 200 --slow 79 --slower 1000
	quiet
	look
	set_net tcp_congestion_control cubic
	set_net tcp_ecn 2
	marked=$(ip netns exec tcplat-b nstat -asz IpExtInCEPkts | awk '/InCEPkts/ { print $2 }')
	echo "# $marked marked"
	((marked > 20)) || fail "only $marked segments were marked"
	((slow >= 10)) || fail "only $slow of $samples had to wait"
	assert_equal "$stalls stalls" "$slow stalls"
}
