#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A connection grows its congestion window, is silent for a while, and sends again: the kernel cuts
# the window, as if the connection were new. Each cut must be counted, with the packets that the
# sender's TCP_INFO lost (as shown by ss -i) and the time that it was silent by its clock; a kprobe
# event sees the same calls. Only this compares the packets lost with the real window.

load ../loaded

# The round trip is 40 ms; only the client's end falls back to slow start.
setup() {
	untraced
	veth_pair delay 20ms
	restarting tcplat-a 1
	restarting tcplat-b 0
	event_on restart "tcp_cwnd_restart idle=$(arg 2):s32"
	echo 1 >"$TRACING/tracing_on"
	reset_counters
}

# restarting NAMESPACE 0|1: sets tcp_slow_start_after_idle.
restarting() {
	ip netns exec "$1" sysctl -q "net.ipv4.tcp_slow_start_after_idle=$2"
}

# idle FAMILY N MS: N times grows a window and stays idle for MS. Sets lost, least and most (idle
# time in us) to the sums of the client's figures, and sure to how often its window is certain.
idle() {
	local line
	local -A said
	echo >"$TRACING/trace"
	between idle "${SERVER[$1]}" -n "$2" --interval "$3" >"$BATS_TEST_TMPDIR/client"
	cat "$BATS_TEST_TMPDIR/client"
	lost=0 least=0 most=0 sure=0
	while read -r line; do
		[[ $line == 'idle cwnd'* ]] || continue
		set_pairs said "${line#idle }"
		((lost += said[cwnd_before] - said[cwnd_after])) || :
		((sure += said[sure], least += said[idle_min_us], most += said[idle_max_us])) || :
	done <"$BATS_TEST_TMPDIR/client"
}

# Compares the files with the trace's count and sum.
agree() {
	local hz restarts idle
	counter_into hz clock/hz
	read -r restarts idle < <(awk '
		/ restart: / { sub(/.*idle=/, ""); n++; sum += $0 }
		END { print n + 0, sum + 0 }' "$TRACING/trace")
	assert_equal "$(counter idlerestart/restarts) restarts" "$restarts restarts"
	assert_equal "$(counter idlerestart/idle_jiffies) jiffies" "$idle jiffies"
	assert_equal "$(counter idlerestart/idle_us) us" "$((idle * 1000000 / hz)) us"
	assert_equal "$(counter idlerestart/missed) missed" "0 missed"
}

# restarts FAMILY N MS: the loss of the window equals TCP_INFO's.
restarts() {
	local tick us
	counter_into tick clock/tick_ns
	idle "$@"
	agree
	same restarts "$(counter idlerestart/restarts)" "$2"
	counter_into us idlerestart/idle_us
	((us >= least - $2 * tick / 1000 && us <= most + $2 * tick / 1000)) ||
		fail "$us us idle, from $least to $most by the client's clock"
	same "times that the client is certain of its window" "$sure" "$2"
	((lost > 0)) || fail "the window was not cut"
	assert_equal "$(counter idlerestart/cwnd_lost) packets" "$lost packets"
}

@test "what the window loses by a long silence" { each_family restarts 2 2000; }
@test "what the window loses by a short silence" { each_family restarts 2 1000; }

stays_still() {
	restarting tcplat-a 0
	idle "$1" 2 1000
	agree
	assert_equal "$lost packets lost" "0 packets lost"
	assert_equal "$(counter idlerestart/restarts) restarts" "0 restarts"
	assert_equal "$(counter idlerestart/cwnd_lost) packets" "0 packets"
}

@test "without slow start after idle it stays still" { each_family stays_still; }

@test "a silence shorter than the retransmission timeout is none" {
	idle 4 2 50
	agree
	assert_equal "$(counter idlerestart/restarts) restarts" "0 restarts"
}
