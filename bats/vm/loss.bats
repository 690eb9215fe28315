#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# netem loses segments, and TCP finds out: by a timer (rto), by a probe (tlp), by duplicate ACKs
# (fast), or in the handshake (syn, synack). Each loss is counted once, as the kernel does, and
# takes as long as the program that waits for the data says. Only this finds losses that are
# missed, counted twice or given a wrong time.

# shellcheck disable=SC2154 # helpers.bash sets hits and sum

load ../pair

setup() {
	untraced
	veth_pair delay 5ms
	know_each_other
	# From 6.5 on, the first SYNs are sent each second.
	ip netns exec tcplat-a sysctl -qe net.ipv4.tcp_syn_linear_timeouts=0
	event_on timeouts tcp_syn_ack_timeout
	! on_el8 || event_on losses tcp_enter_loss
	from_zero
}

# ---- the kernel's counts ----

KERNEL=(TCPTimeouts TCPLossProbes TCPSackRecovery TCPRenoRecovery TCPSynRetrans TCPAbortOnTimeout)

# Sets kernel[...] to the growth of these counters since from_zero.
declare -gA kernel=() start=()
read_kernel() {
	local values i
	read -ra values <<<"$(tcp_ext "${KERNEL[@]}")"
	for i in "${!KERNEL[@]}"; do
		kernel[${KERNEL[i]}]=$((values[i] - ${start[${KERNEL[i]}]:-0}))
	done
	event_hits timeouts
	kernel[requests]=$((hits - ${start[requests]:-0}))
	# Before 5.1, TCPTimeouts lacks timeouts after the first, and those that other counters have.
	on_el8 || return 0
	event_hits losses
	kernel[losses]=$((hits - ${start[losses]:-0}))
	kernel[TCPTimeouts]=$((kernel[losses] + kernel[requests]))
}

from_zero() {
	local name
	start=()
	read_kernel
	for name in "${!kernel[@]}"; do
		start[$name]=${kernel[$name]}
	done
	reset_counters
}

declare -gA counted=()
read_group() {
	local name
	for name in rto tlp fast syn synack; do
		counter_into "counted[$name]" "loss/$name"
		counter_into "counted[${name}_ns]" "loss/${name}_time_ns"
		hist_sum "loss/${name}_hist"
		same "$name in the histogram" "$sum" "${counted[$name]}"
	done
	counter_into "counted[late]" loss/rto_late_jiffies
	same missed "$(counter loss/missed)" 0
	echo "# counted: $(declare -p counted)"
}

# agree [GAVE_UP]: all counts are the kernel's; of the timeouts of SYNs, GAVE_UP sent none.
agree() {
	local gave_up=${1:-0}
	no_sockets
	read_group
	read_kernel
	echo "# kernel: $(declare -p kernel)"
	same timeouts $((counted[rto] + counted[syn] + kernel[requests])) "${kernel[TCPTimeouts]}"
	same probes "${counted[tlp]}" "${kernel[TCPLossProbes]}"
	same recoveries "${counted[fast]}" $((kernel[TCPSackRecovery] + kernel[TCPRenoRecovery]))
	same "SYNs and SYN-ACKs" $((counted[syn] - gave_up + counted[synack])) "${kernel[TCPSynRetrans]}"
}

# netem SIDE WHAT...: what the end of this side does with the packets that it sends.
netem() { tc -n "tcplat-$1" qdisc change dev "veth-$1" root netem "${@:2}"; }

# ---- counts ----

# lossy FAMILY KINDS NETEM...: bulk data and small requests, losses at both ends; repeated until each
# of KINDS was counted, since chance decides which segments are lost.
lossy() {
	local i kind none
	netem a "${@:3}"
	netem b "${@:3}"
	for ((i = 0; i < 10; i++)); do
		between bulk "${SERVER[$1]}" -n 12 --direction both --timeout 600
		between rr "${SERVER[$1]}" -n 40 -c 2 --timeout 600
		agree
		none=''
		for kind in $2; do
			((counted[$kind])) || none+=" $kind"
		done
		[[ $none ]] || return 0
	done
	fail "none of$none"
}

@test "10% of all segments" { each_family lossy 'rto tlp fast' delay 5ms loss 10%; }

@test "10% of the segments of short connections: SYNs and SYN-ACKs, IPv4 and IPv6" {
	local address
	for address in 10.9.0.2 fd09::2; do
		netem a delay 1ms loss 10%
		netem b delay 1ms loss 10%
		between crr "$address" -n 60 --timeout 600
	done
	agree
	((counted[syn] && counted[synack])) || fail "hardly any SYN was lost"
}

@test "bursts" { lossy 4 'rto fast' delay 5ms loss gemodel 1% 30% 70% 0%; }
@test "reordering" { lossy 6 fast delay 10ms reorder 75% 50%; }

@test "lost ACKs" {
	netem b delay 5ms loss 20%
	between bulk 10.9.0.2 -n 40 --timeout 600
	between rr fd09::2 -n 60 --timeout 600
	agree
	((counted[rto] + counted[tlp])) || fail "no reply was lost"
}

@test "without SACK" {
	without_sack
	lossy 4 fast delay 5ms loss 3%
	same recoveries "${counted[fast]}" "${kernel[TCPRenoRecovery]}"
}

@test "SYN cookies, where no SYN-ACK is sent again" {
	ip netns exec tcplat-b sysctl -q net.ipv4.tcp_syncookies=2
	# Of six, none may get through.
	ip netns exec tcplat-a sysctl -q net.ipv4.tcp_syn_retries=10
	netem a delay 1ms loss 10%
	netem b delay 1ms loss 10%
	between crr 10.9.0.2 -n 60 --timeout 600
	agree
	same "SYN-ACKs" "${counted[synack]}" 0
	((counted[syn] > 0)) || fail "no SYN was lost"
}

@test "no loss: nothing is counted" {
	between bulk 10.9.0.2 -n 20 --direction both
	between rr fd09::2 -n 50
	between crr 10.9.0.2 -n 20
	agree
	same hits "$(awk '$1 == "loss" { n += $6 } END { print n + 0 }' "$DEBUG/probes")" 0
}

# ---- times ----

# near WHAT NS EXPECTED TICKS: these times differ by at most 3 ms and so many ticks.
near() {
	local tick difference=$(($2 - $3))
	counter_into tick clock/tick_ns
	((${difference#-} <= 3000000 + tick * $4)) || fail "$1: $2 ns, expected $3"
}

# connects_late FAMILY SIDE SECONDS: nothing that this side sends arrives for so long.
connects_late() {
	python "
l = listener($1)
s = client($1)
netem('$2', 'loss', '100%')
timer = later($3, netem, '$2', 'delay', '1us')
print(f'took={connect(s, $1)}')
timer.join()"
	agree
}

# The first SYN and the one after 1 s are lost, the one after 3 s arrives.
lost_syn() {
	connects_late "$1" a 2
	same SYNs "${counted[syn]} ${counted[synack]}" "2 0"
	near "SYNs" "${counted[syn_ns]}" "${said[took]}" 2
	same time $(((said[took] + 200000000) / 1000000000)) 3
}

@test "lost SYNs take as long as connect()" { each_family lost_syn; }

# stuck STOP END [CUT]: from STOP on nothing can leave. The timers add up to the time until END is
# over. If the last one is CUT short, that is by the lateness of the others, too, which is unknown.
stuck() {
	local slack=0
	python "
l = listener(4)
s = client(4)
connect(s, 4)
c, _ = l.accept()
s.send(b'x')
c.recv(1)
netem('a', 'loss', '100%')
time.sleep(0.1)
since = time.monotonic_ns()
s.send(b'x')
time.sleep(0.1)
$1
$2
print(f'took={time.monotonic_ns() - since - 5000000}')"
	agree
	((counted[rto] >= 3)) || fail "${counted[rto]} timeouts"
	[[ ! ${3-} ]] || slack=${counted[late]}
	# A tail loss probe comes before, whose time is part of the first timer's.
	near "timeouts" $((counted[rto_ns] + counted[tlp_ns])) "${said[took]}" \
		$((2 * counted[rto] + slack))
}

@test "what cannot be sent again, as the link is down: no time counts twice" {
	stuck "link('a', 'down')" "
time.sleep(2)
netem('a', 'delay', '5ms')
link('a', 'up')
c.recv(1)"
}

# The peer's address is asked for twice, so long each time. The answer that it is unreachable comes
# early or late in the time of a timer at which nothing could be sent.
@test "what cannot be sent again, as the neighbour is gone: ICMP, no timer, ends that, and no time counts twice" {
	local ms n=0
	for ms in 1000 1300; do
		from_zero
		ip netns exec tcplat-a sysctl -q net.ipv4.neigh.veth-a.{mcast_solicit=2,retrans_time_ms="$ms"}
		stuck "run('ip', '-n', 'tcplat-a', 'neigh', 'del', '10.9.0.2', 'dev', 'veth-a')" "
# A tail loss probe, and one after each of two errors.
while struct.unpack('I', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:])[0] < 3:
    time.sleep(0.001)
    assert time.monotonic_ns() - since < 8000000000
sent = time.monotonic_ns()
netem('a', 'delay', '5ms')
c.recv(1)
since += time.monotonic_ns() - sent - 5000000"
		same "ICMP errors" "$(ip netns exec tcplat-a nstat -asz IcmpOutDestUnreachs | awk 'NR > 1 { print $2 }')" $((2 * ++n))
	done
}

@test "what cannot be sent again until TCP_USER_TIMEOUT is over: the last timer is shorter" {
	# The other end sends no FIN, which nobody would acknowledge.
	stuck "
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.setsockopt(socket.IPPROTO_TCP, 18, 2500)
link('a', 'down')" "
try:
    s.recv(1)
except OSError:
    time.sleep(0.005)" cut
	same aborted "${kernel[TCPAbortOnTimeout]}" 1
}

@test "a SYN that cannot be sent again until TCP_USER_TIMEOUT is over, in even steps or not" {
	local linear more
	for linear in 0 4; do
		from_zero
		ip netns exec tcplat-a sysctl -qe net.ipv4.tcp_syn_linear_timeouts="$linear"
		python "
netem('a', 'loss', '100%')
s = client(4)
s.setsockopt(socket.IPPROTO_TCP, 18, 2500)
timer = later(0.1, link, 'a', 'down')
since = time.monotonic_ns()
try:
    connect(s, 4)
except OSError:
    print(f'took={time.monotonic_ns() - since}')
timer.join()
link('a', 'up')"
		read_group
		read_kernel
		same timeouts "${counted[syn]}" "${kernel[TCPTimeouts]}"
		# Each timer but the last may be late by an eighth, which makes the last one shorter.
		((more = counted[syn_ns] - said[took],
		  more > -12000000 && more < 12000000 + 125000000 * (counted[syn] - 1))) ||
			fail "steps $linear: $more ns more than ${said[took]}"
	done
}

# The kernel then tries again twice a second. Not from the tail loss probe on: one that is dropped
# counts as none, but the segment as sent.
@test "what a queue of this host drops when it is sent again: all of the time counts" {
	stuck "
time.sleep(0.2)
netem('a', 'limit', '0')" "
time.sleep(2)
netem('a', 'delay', '5ms')
c.recv(1)"
}

@test "a client of TCP_DEFER_ACCEPT that sends nothing: one SYN-ACK again, which nobody waited for" {
	python "
l = listener(4)
l.setsockopt(socket.IPPROTO_TCP, 9, 3)
s = client(4)
connect(s, 4)
time.sleep(5)
s.send(b'x')
l.accept()"
	agree
	same "SYN-ACKs and their time" "${counted[synack]} ${counted[synack_ns]}" "1 0"
}

@test "a connect() that fails: its last wait is counted, too" {
	python "
s = client(4)
s.setsockopt(socket.IPPROTO_TCP, 7, 1)
netem('a', 'loss', '100%')
print(f'took={connect(s, 4)}')"
	agree 1
	same SYNs "${counted[syn]} ${kernel[TCPAbortOnTimeout]}" "2 1"
	near "SYNs" "${counted[syn_ns]}" "${said[took]}" 2
}

# SYN-ACKs are lost for 2.5 seconds. The server sends them again when its timer expires, and when
# the client's SYN comes again; all times between them add up to that of connect().
lost_synack() {
	# From 6.15 on, the longest RTO bounds the timers.
	[[ $1 == 4 || ! -e /proc/sys/net/ipv4/tcp_rto_max_ms ]] ||
		ip netns exec tcplat-b sysctl -q net.ipv4.tcp_rto_max_ms=1000
	connects_late "$1" b 2.5
	((counted[synack] >= 2)) || fail "no SYN-ACK was lost"
	near "SYN-ACKs" "${counted[synack_ns]}" "${said[took]}" $((counted[synack] + 2))
}

@test "lost SYN-ACKs take as long as connect()" { each_family lost_synack; }

# TCP Fast Open: the SYN-ACK is sent again when the client's SYN comes again, after 0.9 s, and by the
# timer of the child, whose cookie the event has, 0.1 s later.
lost_fastopen() {
	trace_event loss
	python "
netem('a', 'delay', '100ms')
netem('b', 'loss', '100%')
timers = [later(0.5, netem, 'a', 'delay', '1us'), later(2.5, netem, 'b', 'delay', '1us')]
since = time.monotonic_ns()
l, s = fast_open($1, b'x' * 100)
print(f'took={time.monotonic_ns() - since - 100 * 1000 * 1000}')
c, _ = l.accept()
assert len(c.recv(1000)) == 100
for timer in timers:
    timer.join()
time.sleep(2)
print('cookie=%x' % struct.unpack('Q', c.getsockopt(socket.SOL_SOCKET, 57, 8)))"
	agree
	same "events of the connection" "$(grep -c "cookie=${said[cookie]} .*kind=synack" "$TRACING/trace")" \
		"${counted[synack]}"
	same "timeouts and SYN-ACKs" "${counted[rto]} ${counted[synack]}" "0 3"
	near "SYN-ACKs" "${counted[synack_ns]}" "${said[took]}" $((counted[synack] + 2))
}

@test "a lost SYN-ACK with TCP Fast Open" { each_family lost_fastopen; }

# requests FAMILY N SECONDS: N requests whose first segments are lost, and those sent again, for
# SECONDS.
requests() {
	python "
l = listener($1)
s = client($1)
connect(s, $1)
c, _ = l.accept()
echo(c)
ask(s)
base = min(ask(s) for i in range(5))
took = 0
for i in range($2):
    time.sleep(0.3)    # until the ACK of the last answer has been sent
    netem('a', 'loss', '100%')
    timer = later($3, netem, 'a', 'delay', '5ms')
    took += ask(s) - base
    timer.join()
print(f'took={took}')
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
if len(info) >= 248:
    n, _, ms = struct.unpack('HHI', info[240:248])
    print(f'timeouts={n}\nafter_first_ms={ms}')"
	agree
}

# lost_request FAMILY SECONDS LOST: three requests, of which LOST segments are lost.
lost_request() {
	requests "$1" 3 "$2"
	same "probes and timeouts" $((counted[tlp] + counted[rto])) "$3"
	((counted[tlp] > 0)) || fail "no probes"
	same "lost elsewhere" "${counted[syn]} ${counted[synack]} ${counted[fast]}" "0 0 0"
	near "all waits" $((counted[rto_ns] + counted[tlp_ns])) "${said[took]}" \
		$((2 * (counted[rto] + counted[tlp])))
}

@test "probes take as long as the answers are late" { each_family lost_request 0.1 3; }
@test "probes and timeouts take as long as the answers are late" { each_family lost_request 0.3 6; }

# The timer is set to the RTO, here to its minimum of 200 ms and a little: what is beyond the RTO
# is late.
late() {
	local hz us jiffies
	ip netns exec tcplat-a sysctl -q net.ipv4.tcp_early_retrans=0
	requests "$1" 5 0.1
	same "probes, timeouts" "${counted[tlp]} ${counted[rto]}" "0 5"
	counter_into hz clock/hz
	counter_into us loss/rto_late_us
	same us "$us" $((counted[late] * 1000000 / hz))
	# The variance of the round-trip times is small, so the RTO is their mean and 200 ms.
	jiffies=$((counted[rto_ns] / (1000000000 / hz) - 5 * (200 + 10) * hz / 1000))
	((counted[late] >= jiffies - 10 - 15 * hz / 1000 && counted[late] <= jiffies + 10)) ||
		fail "${counted[late]} jiffies late, not $jiffies"
}

@test "the lateness of the timer is what the wait has beyond the RTO" { each_family late; }

# The kernel counts from the first timeout until the answer to what was sent again, 10 ms later.
@test "timeouts, and those after the first take as long as tcpi_total_rto_time" {
	local first rest ms
	ip netns exec tcplat-a sysctl -q net.ipv4.tcp_early_retrans=0
	trace_event loss
	requests 4 1 1.5
	[[ ${said[timeouts]-} ]] || skip "this kernel has no tcpi_total_rto_time"
	same "timeouts" "${counted[rto]}" "${said[timeouts]}"
	((counted[rto] >= 3)) || fail "${counted[rto]} timeouts"
	first=$(sed -nE 's/.* kind=rto .*time_ns=([0-9]+).*/\1/p' "$TRACING/trace" | head -n 1)
	rest=$(((counted[rto_ns] - first) / 1000000 + 10))
	ms=${said[after_first_ms]}
	((ms >= rest - 8 && ms <= rest + 8)) || fail "$rest ms, the kernel says $ms"
}

@test "recoveries begin a round trip after the missing segment, or a little later" {
	netem a delay 20ms loss 3%
	netem b delay 20ms
	between bulk 10.9.0.2 -n 300 --timeout 600
	agree
	((counted[fast] > 0)) || fail "no recovery"
	((counted[fast_ns] >= counted[fast] * 40000000)) || fail "before a round trip"
	((counted[fast_ns] <= counted[fast] * 200000000)) || fail "after an RTO"
}

# ---- events ----

@test "each loss is an event with its connection, that of a SYN-ACK with the client's address" {
	local kind total i
	trace_event loss
	ip netns exec tcplat-a sysctl -q net.ipv4.tcp_syn_retries=10
	netem a delay 1ms loss 20%
	netem b delay 1ms loss 20%
	for ((i = 0; i < 10; i++)); do
		# Ten losses in a row take some minutes, which the guest skips.
		between crr 10.9.0.2 -n 30 --timeout 6000
		between bulk fd09::2 -n 4 --timeout 6000
		no_sockets
		read_group
		! ((counted[rto] && counted[tlp] && counted[fast] && counted[syn] && counted[synack])) || break
	done
	echo 0 >"$TRACING/events/tcplat/loss/enable"
	read_group
	for kind in rto tlp fast syn synack; do
		((counted[$kind] > 0)) || fail "no $kind"
		same "$kind" "$(traced_times loss " kind=$kind ")" "${counted[$kind]} ${counted[${kind}_ns]}"
	done
	# Addresses of the server's SYN-ACKs.
	total=$(grep -c 'kind=synack' "$TRACING/trace")
	run grep -cE 'saddr=(10\.9\.0\.2|\[fd09::2\]):7000 daddr=(10\.9\.0\.1|\[fd09::1\]):[1-9][0-9]* .* kind=synack' \
		"$TRACING/trace"
	same "with both addresses" "$output" "$total"
}
