#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A program writes a little, and the kernel holds it back: Nagle's algorithm until an ACK comes, a
# cork until it is removed. Each hold is one that a BPF program has seen, which looks at what each
# tcp_push() leaves unsent (bats/oracle/sndhold.bpf.c), and takes as long. Only this finds holds
# that are missed, invented or given a wrong cause or time.

# shellcheck disable=SC2154 # keys of associative arrays

load ../oracle
load ../oracle_setup

# shellcheck disable=SC2034 # for oracle_setup.bash
ORACLE=sndhold

COUNTS=(nagle cork cork_timeouts peer_delays)
TIMES=(nagle_time_ns cork_time_ns peer_delay_ns)

# Sets M from the module's files, and D from its debugfs file.
declare -gA M=() D=()
module_read() {
	local name line found
	for name in "${COUNTS[@]}" "${TIMES[@]}" nagle_time_max_ns cork_time_max_ns autocork overflows missed; do
		counter_into "M[$name]" "sndhold/$name"
	done
	debug_lines holds
	for line in "${found[@]}"; do
		D[${line% *}]=${line##* }
	done
}

# watch COMMAND...: runs COMMAND; module and oracle must agree on all counts, and on times within a
# tick per hold. Repeated, up to five times in all, if the oracle missed hits: a BPF program misses
# a hit while it is interrupted.
watch() {
	local try name difference tick holds
	counter_into tick clock/tick_ns
	for try in {1..5}; do
		reset_counters
		oracle_reset
		"$@"
		soon no_holds
		oracle_read
		same "BPF's own errors" "${O[errors]}" 0
		((O[missed])) || break
		echo "# try $try: BPF missed ${O[missed]}" >&3
	done
	((!O[missed])) || fail "BPF missed hits in each of $try tries"
	module_read
	echo "# $*: module $(declare -p M); BPF $(declare -p O)"
	for name in "${COUNTS[@]}"; do
		same "$name" "${M[$name]}" "${O[$name]}"
	done
	same purged "${D[purged]}" "${O[purged]}"
	same missed "${M[missed]}" 0
	same overflows "${M[overflows]}" 0
	same stale "${D[stale]}" 0
	same begun "${D[begun]}" $((D[nagle] + D[cork] + D[purged] + D[blocked] + D[forgotten] + D[live]))
	holds=$((M[nagle] + M[cork]))
	for name in "${TIMES[@]}"; do
		difference=$((M["$name"] - O["$name"]))
		((${difference#-} <= holds * tick)) || fail "$name: ${M[$name]}, BPF ${O[$name]}"
	done
	for name in nagle cork; do
		difference=$((M[${name}_time_max_ns] - O[${name}_time_max_ns]))
		# Elsewhere the machine may stand still between the two.
		! on_icount || ((${difference#-} <= tick)) ||
			fail "${name}_time_max_ns: ${M[${name}_time_max_ns]}, BPF ${O[${name}_time_max_ns]}"
		hist_sum "sndhold/${name}_hist"
		same "${name}_hist" "$sum" "${M[$name]}"
	done
}

# No hold is live: the last one ends when its data is acknowledged, or with its socket.
no_holds() {
	module_read
	((!D[live]))
}

# within FROM TO NAME: the oracle's count is within this range.
within() { ((O[$3] >= $1 && O[$3] <= $2)) || fail "$3 is ${O[$3]}, expected $1 to $2"; }

# mean LEAST MOST CAUSE: the mean time of a hold in ms is within this range.
mean() {
	local ms=$((O[$3_time_ns] / O[$3] / 1000000))
	((ms >= $1 && ms <= $2)) || fail "the holds took $ms ms on average, expected $1 to $2"
}

holds() { python3 "$ORACLE_SRC/holds.py" "$@"; }

# ---- Nagle's algorithm ----

wwr() {
	watch traffic wwr "-$1" -n 40
	within 38 40 nagle
	mean 35 50 nagle
	within 38 40 peer_delays
	within 0 0 cork
	# The first hold is acknowledged at once; a stall with a long RTT of the reply is not
	# counted.
	local stalls
	counter_into stalls delack/stalls
	((stalls >= O[nagle] - 2 && stalls <= O[nagle] + 2)) ||
		fail "$stalls stalls of the receiver, ${O[nagle]} holds of the sender"
}

@test "write-write-read: as many holds as the receiver has stalls" { each_family wwr; }

# Kprobes get their arguments in another way.
@test "attached by kprobes: write-write-read, and a cork" {
	unload_module
	load_module attach=kprobe
	run awk '$1 == "sndhold" { print $4 }' "$DEBUG/probes"
	refute_line ftrace
	wwr 4
	watch holds -6 corked 10
	within 10 10 cork
	unload_module
}

@test "many small writes and a read" {
	watch_both 'within 18 20 nagle' traffic wwr @ -n 20 -s 500 --writes 10
}

@test "nothing is held: TCP_NODELAY, request/response, one-way messages" {
	watch_both 'within 0 0 nagle' traffic wwr @ -n 40 --nodelay
	watch_both 'within 0 0 nagle' traffic rr @ -n 500
	watch traffic oneway -4 -n 10
	within 0 0 nagle
	watch traffic crr -4 -n 100
	within 0 0 nagle
}

@test "a peer that acknowledges at once delays nothing" {
	watch traffic wwr -4 -n 40 --quickack 1
	within 0 0 peer_delays
}

@test "bulk in writes that are no multiple of a segment" {
	watch_both '' holds @ odd 100
	watch traffic bulk -4 -n 64 --direction both
	watch traffic bulk -6 -n 64 -s 30001
}

@test "a held segment that later writes fill" {
	watch_both 'within 10 40 nagle' holds @ grown 10
}

@test "segments that the kernel puts off are not held by Nagle's algorithm" {
	veth_pair
	tc -n tcplat-a qdisc replace dev lo root netem delay 2ms
	ip -n tcplat-a link set lo up
	watch ip netns exec tcplat-a python3 "$ORACLE_SRC/holds.py" deferred 10
	((O[left])) || fail "nothing was deferred"
	# A slow kernel defers fewer of the ten; the rest of such a write is held.
	local most=5
	! on_debug || most=$((15 - O[left]))
	within 0 "$most" nagle
	watch ip netns exec tcplat-a python3 "$ORACLE_SRC/holds.py" -6 deferred 10
	((O[left])) || fail "nothing was deferred"
}

@test "urgent data is not held" {
	watch holds urgent 10
	within 0 0 nagle
}

@test "the peer's window holds data, and not Nagle's algorithm" {
	watch holds shut 3
	watch traffic slowreader -4 -n 40
}

# ---- cork ----

@test "TCP_CORK on, 30 ms, off" {
	watch_both 'within 10 10 cork; within 0 0 cork_timeouts; mean 30 40 cork' holds @ corked 10
}

@test "MSG_MORE that nothing follows ends by the kernel's timer" {
	watch_both 'within 5 5 cork; within 5 5 cork_timeouts; mean 200 240 cork' holds @ more 5
}

# An ACK stops the pending timer before it sends: as little is in flight and as little is pending
# as when the timer sends.
@test "MSG_MORE that an ACK ends" {
	local checks='within 12 12 cork; within 0 0 cork_timeouts; mean 20 60 cork'
	watch_both "$checks" holds @ released 6
	watch_both "$checks" holds @ overtaken 4
}

@test "MSG_MORE that the rest follows" {
	watch holds followed 10
	within 10 10 cork
	within 0 0 cork_timeouts
	mean 20 30 cork
}

@test "a FIN takes along what is corked" {
	watch holds fin 5
	within 5 5 cork
}

# ---- other ways to write ----

@test "sendfile and splice" {
	watch holds sendfile 10
	((O[cork] + O[nagle])) || fail "nothing was held"
	watch holds splice 10
}

@test "MPTCP" {
	sysctl -q net.mptcp.enabled=1 2>/dev/null || skip "this kernel has no MPTCP"
	watch holds mptcp 10
	within 1 20 nagle
	watch holds mixed_mptcp 40
}

@test "kTLS" {
	needs_tls
	watch holds ktls 10
	within 1 20 nagle
}

# ---- what is never sent ----

@test "random writes, ends of records, options and pauses" {
	watch holds -4 mixed 30
	watch holds -6 mixed 10
}

@test "held data that a reset throws away is no hold" {
	# ackmode would have a look at each socket that is destroyed.
	set_meanwhile "$TREE/ackmode/enabled" 0
	watch holds purge 5
	within 5 5 purged
	within 0 0 cork
}

@test "a socket that is disconnected while it holds data" {
	watch holds again 5
	within 5 5 purged
}

# ---- over a network ----

netem() {
	veth_pair delay "$1"
	local rtt=$((2 * ${1%ms}))
	watch between wwr 10.9.0.2 -n 20
	within 18 20 nagle
	mean $((rtt + 35)) $((rtt + 50)) nagle
	within 18 20 peer_delays
	watch between wwr fd09::2 -n 10 --quickack 1
	within 0 0 peer_delays
}

@test "write-write-read over 1 ms" { netem 1ms; }
@test "write-write-read over 20 ms" { netem 20ms; }
@test "write-write-read over 50 ms" { netem 50ms; }

@test "loss of 2%: a retransmission is no delay of the peer's" {
	veth_pair delay 10ms loss 2%
	watch between wwr 10.9.0.2 -n 60
	watch between bulk 10.9.0.2 -n 30 -s 10001 --direction both
}

# The first small segment is lost, and the probe after 200 ms sends the one that it holds back.
probed() {
	python "
l = listener(4)
s = client(4)
connect(s, 4)
c, _ = l.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
for _ in range(5):
    s.send(b'x')
    c.recv(1)
    c.send(b'x')
    s.recv(1)
netem('a', 'loss', '100%')
s.send(b'x' * 100)
s.send(b'y' * 100)
time.sleep(0.05)
netem('a', 'delay', '1ms')
c.recv(200, socket.MSG_WAITALL)"
}

@test "a lost segment, and a probe that sends what it holds: no delay of the peer's" {
	veth_pair delay 1ms
	know_each_other
	watch probed
	same "holds, delays" "${M[nagle]} ${M[peer_delays]}" "1 0"
	((M[nagle_time_ns] > 150000000)) || fail "no probe"
}

# The segments in flight are not lost: the probe timer has expired, but waits for the write.
@test "a write that sends what it holds before a probe does: a delay of the peer's" {
	watch holds long_write 5
	((M[peer_delays] == 5)) || fail "the ACKs were late ${M[peer_delays]} times"
	watch holds -6 long_write 5
}

# ---- autocork ----

# The last test, since the BPF program ends first. It runs after the module has made the kernel's
# test and before the kernel does: an interrupt in between, in which the device has sent a packet,
# makes the two differ.
@test "autocork" {
	local before after
	oracle_stop
	veth_pair delay 1ms
	# Unlike netem this keeps the packets charged to their socket. Slower than the debug kernel
	# writes.
	tc -n tcplat-a qdisc replace dev veth-a root tbf rate 4mbit burst 10kb limit 1mb
	before=$(tcp_ext TCPAutoCorking)
	reset_counters
	between bulk 10.9.0.2 -n 400 -s 701
	after=$(tcp_ext TCPAutoCorking)
	((after > before)) || fail "nothing was autocorked"
	((after = $(counter sndhold/autocork) - (after - before), -1 <= after && after <= 1)) ||
		fail "$after more writes than the kernel counts"

	unload_module
	load_module attach=kprobe
	before=$(tcp_ext TCPAutoCorking)
	set_meanwhile "$ARMED" 0
	between bulk 10.9.0.2 -n 100 -s 701
	echo 1 >"$ARMED"
	after=$(tcp_ext TCPAutoCorking)
	((after > before)) || fail "nothing was autocorked"
	same "not seen" "$(counter sndhold/autocork) $(counter sndhold/autocork_unseen)" "0 $((after - before))"
	reset_counters
}
