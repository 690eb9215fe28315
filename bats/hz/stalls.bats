#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# delack/stalls and stall_us against what the clients of these connections saw: a
# write-write-read that took 40 ms longer than its round trips had to wait for a late
# ACK, and what comes late by itself had not. In a guest whose clock counts
# instructions each of the former is counted, and none of the latter.

# shellcheck disable=SC2154 # counter_into sets timeouts, stalls, us and delay

load ../helpers

setup_file() {
	load_afresh
}

teardown_file() {
	unload_module
}

setup() {
	untraced
	quiet
	reset_counters
	# How late an ACK is that the timer sends, rounded up.
	counter_into hz clock/hz
	late_ms=$((((hz / 25 + 1) * 1000 + hz - 1) / hz))
}

teardown() {
	remove_namespaces
	set_net tcp_timestamps 1
	set_net tcp_syncookies 1
	set_net tcp_early_retrans 3
	echo 1 >"$TREE/ackmode/enabled"
	echo 1 >"$TREE/delack/enabled"
	assert_no_splat
}

# set_net NAME VALUE: net.ipv4.NAME in all of the test's namespaces.
set_net() {
	local ns
	echo "$2" >"/proc/sys/net/ipv4/$1"
	for ns in ${NAMESPACES[@]+"${NAMESPACES[@]}"}; do
		ip netns exec "$ns" bash -c "echo $2 >/proc/sys/net/ipv4/$1"
	done
}

# run_on ADDRESS WORKLOAD OPTION...: over loopback, or from one namespace to the other;
# sets slow, slower and samples to what the client says.
run_on() {
	local address=$1 workload=$2 line pair
	shift 2
	case $address in
	127.*) line=$(traffic "$workload" "$@" | tail -n 1) ;;
	::1) line=$(traffic "$workload" -6 "$@" | tail -n 1) ;;
	*) line=$(between "$workload" "$address" "$@" | tail -n 1) ;;
	esac
	[[ $line == workload=* ]] || fail "failed: $workload $*"
	for pair in $line; do
		case $pair in
		samples=*) samples=${pair#*=} ;;
		slower=*) slower=${pair#*=} ;;
		slow=*) slow=${pair#*=} ;;
		esac
	done
}

look() {
	counter_into timeouts delack/timeouts
	counter_into stalls delack/stalls
	counter_into us delack/stall_us
	counter_into delay delack/delay_us
	echo "# $samples transactions, $slow slow, $slower of them very; $timeouts timeouts, $stalls stalls of $us us"
	((stalls <= timeouts && us <= delay)) || fail "more stalls than timeouts, of $delay us"
}

# stalled ADDRESS N RTT: N write-write-reads, of which the first finds quick ACKs. Each
# of the others waits for a late ACK, 40 ms and the next tick, and for the round trips.
stalled() {
	local n=$(($2 - 1))
	run_on "$1" wwr -n "$2" --slow $((39 + 2 * $3)) --slower $((late_ms + 2 + 2 * $3))
	quiet
	look
	assert_equal "$slow slow, $slower slower" "$n slow, 0 slower"
	assert_equal "$timeouts timeouts, $stalls stalls" "$n timeouts, $n stalls"
	assert_equal "stalls of $us us" "stalls of $delay us"
}

# not_stalled ADDRESS N WORKLOAD...: late ACKs or none, nobody waits for them.
not_stalled() {
	reset_counters
	run_on "$1" "$3" -n "$2" "${@:4}"
	quiet
	look
	assert_equal "$stalls stalls" "0 stalls"
}

# ---- those that wait ----

@test "write-write-read over loopback, IPv4" { stalled 127.0.0.1 100 0; }
@test "write-write-read over loopback, IPv6" { stalled ::1 100 0; }

far() {
	veth_pair delay "$2"
	stalled "$1" "$3" "$4"
}

@test "write-write-read over 20 ms, IPv4" { far 10.9.0.2 10ms 60 20; }
@test "write-write-read over 20 ms, IPv6" { far fd09::2 10ms 60 20; }
@test "write-write-read over 100 ms, IPv4" { far 10.9.0.2 50ms 50 100; }
@test "write-write-read over 100 ms, IPv6" { far fd09::2 50ms 50 100; }

# ---- those that do not ----

# The messages lie unread so that the timer has to acknowledge them.
messages() {
	not_stalled "$1" 50 oneway --interval 100 --hold 65 "${@:2}"
	((timeouts > 0)) || fail "no late ACK that could be taken for a stall"
}

@test "one-way messages every 100 ms over loopback, IPv4" { messages 127.0.0.1; }
@test "one-way messages every 100 ms over loopback, IPv6" { messages ::1; }

# Nagle's algorithm would hold these back, one round trip being as long as the pause.
@test "one-way messages every 100 ms over 100 ms, TCP_NODELAY" {
	veth_pair delay 50ms
	messages 10.9.0.2 --nodelay
}

@test "a client that thinks for 5 ms, and one that thinks until 5 ms after the late ACK" {
	not_stalled 127.0.0.1 100 rr --interval 5
	not_stalled 127.0.0.1 100 wwr --nodelay --interval 5
	not_stalled ::1 100 wwr --nodelay --hold 5
	not_stalled 127.0.0.1 100 wwr --nodelay --hold $((late_ms + 5))
	((timeouts > 50)) || fail "only $timeouts late ACKs that could be taken for a stall"
}

@test "TCP_NODELAY over loopback and over 20 ms" {
	not_stalled 127.0.0.1 100 wwr --nodelay
	not_stalled ::1 100 wwr --nodelay
	veth_pair delay 10ms
	not_stalled 10.9.0.2 100 wwr --nodelay
}

# ---- what they depend on ----

@test "without ackmode, or without delack, nothing is counted" {
	echo 0 >"$TREE/ackmode/enabled"
	run_on 127.0.0.1 wwr -n 30
	quiet
	look
	((timeouts > 15)) || fail "only $timeouts timeouts"
	assert_equal "$stalls $us" "0 0"
	echo 1 >"$TREE/ackmode/enabled"

	echo 0 >"$TREE/delack/enabled"
	reset_counters
	run_on 127.0.0.1 wwr -n 30
	look
	assert_equal "$timeouts $stalls $us" "0 0 0"
	echo 1 >"$TREE/delack/enabled"

	stalled 127.0.0.1 50 0
}

# With DCTCP the kernel sends ACKs of its own when marked segments begin or end.
@test "write-write-read with DCTCP, a fifth of all segments marked" {
	local marked
	modprobe tcp_dctcp 2>/dev/null || :
	[[ $(</proc/sys/net/ipv4/tcp_available_congestion_control) == *dctcp* ]] ||
		skip "this kernel has no DCTCP"
	veth_pair delay 10ms
	# Nothing that cannot be marked goes this way, or it would be lost.
	ip -n tcplat-a neigh replace 10.9.0.2 dev veth-a nud permanent \
		lladdr "$(ip netns exec tcplat-b cat /sys/class/net/veth-b/address)"
	tc -n tcplat-a qdisc change dev veth-a root netem delay 10ms loss 20% ecn
	set_net tcp_congestion_control dctcp
	set_net tcp_ecn 1
	run_on 10.9.0.2 wwr -n 200 --slow 79 --slower 1000
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

# ---- round trips, timestamps and SYN cookies: Documentation/stalls.md ----

# waits ADDRESS RTT WORKLOAD OPTION...: those that the client had to wait 40 ms longer for
# than round trips take are stalls. Adds to the row.
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

# held ADDRESS RTT: a message every 7 ms. Nagle's algorithm holds back those that come before
# the ACK of the one before, so that each late ACK releases some, but that of the last data
# and that of the FIN.
held() {
	reset_counters
	run_on "$1" oneway -n $(($2 < 100 ? 300 : 900)) -s 10 --interval 7 --hold 20
	quiet
	look
	((timeouts >= 10)) || fail "only $timeouts late ACKs"
	row+=" | $timeouts, $stalls"
	(((timeouts - 2 - stalls) * 100 <= 2 * timeouts)) || fail "$((timeouts - stalls)) stalls were overlooked"
}

# beside ADDRESS INTERVAL N LEAST [unknown]: the same without Nagle's algorithm: nobody waits for the
# late ACKs, of which there are at least so many. Where the kernel has not measured the round
# trip these may be taken for stalls.
beside() {
	reset_counters
	run_on "$1" oneway -n "$3" -s 10 --nodelay --interval "$2" --hold 65
	quiet
	look
	((timeouts >= $4)) || fail "only $timeouts late ACKs that could be taken for a stall"
	row+=" | $timeouts, $stalls"
	[[ ${5-} ]] || ((stalls == 0 || stalls * 100 < timeouts)) || fail "$stalls false stalls"
}

# matrix ADDRESS RTT: with and without timestamps, and both after a SYN cookie.
matrix() {
	local timestamps cookies before after row
	# A tail loss probe would come before the late ACK.
	set_net tcp_early_retrans 0
	for timestamps in 1 0; do
		for cookies in 1 2; do
			set_net tcp_timestamps $timestamps
			set_net tcp_syncookies $cookies
			before=$(tcp_ext SyncookiesRecv)
			row="row | $2 ms | $1 | $timestamps | $((cookies - 1))"
			waits "$1" "$2" wwr
			waits "$1" "$2" upload --rcvlowat 200
			held "$1" "$2"
			# The kernel acknowledges early if data comes shortly before the timer expires.
			beside "$1" 7 100 0
			# Data that comes 7 to 11 ms after the late ACK of the data before. After a
			# SYN cookie the kernel's round trip is unknown, or up to 64 ms too long.
			beside "$1" 51 130 $((cookies == 2 ? 1 : $2 < 100 ? 100 : 10)) "${cookies#1}"
			after=$(tcp_ext SyncookiesRecv)
			assert_equal "$((after - before)) cookies" "$((5 * (cookies - 1))) cookies"
			echo "# $row |" >&3
		done
	done
}

# A window of ten segments would be full before the first ACK is there, and these are stalls.
far_matrix() {
	veth_pair delay "$1"
	ip -n tcplat-a route add 10.9.0.2/32 dev veth-a initcwnd 100
	ip -n tcplat-a route add fd09::2/128 dev veth-a initcwnd 100
	matrix "$2" "$3"
}

@test "matrix: 0 ms, IPv4" { matrix 127.0.0.1 0; }
@test "matrix: 0 ms, IPv6" { matrix ::1 0; }
@test "matrix: 1 ms, IPv4" { far_matrix 500us 10.9.0.2 1; }
@test "matrix: 1 ms, IPv6" { far_matrix 500us fd09::2 1; }
@test "matrix: 20 ms, IPv4" { far_matrix 10ms 10.9.0.2 20; }
@test "matrix: 20 ms, IPv6" { far_matrix 10ms fd09::2 20; }
@test "matrix: 100 ms, IPv4" { far_matrix 50ms 10.9.0.2 100; }
@test "matrix: 100 ms, IPv6" { far_matrix 50ms fd09::2 100; }
@test "matrix: 300 ms, IPv4" { far_matrix 150ms 10.9.0.2 300; }
@test "matrix: 300 ms, IPv6" { far_matrix 150ms fd09::2 300; }
