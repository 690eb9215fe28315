#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A receiver delays its ACK, since its program may answer soon, until a timer sends it. After each
# workload the group has as many of these as the kernel. bats/hz compares each delay with an
# oracle's, and ackmode.bats those in pingpong mode. Only this compares the numbers for each
# workload.

# shellcheck disable=SC2154 # told_by sets said, hist_sum sum

load ../helpers
load ../loaded

# A switch of all kprobes.
ARMED=/sys/kernel/debug/kprobes/enabled

setup_file() {
	! loaded || unload_module
	load_module
	HZ=$(config_hz)
	export HZ
}

setup() {
	untraced
	quiet
	reset_counters
}

teardown() {
	probing 3
	events_off
	echo 1 >"$ARMED"
	remove_namespaces
	assert_all_seen
}

# measure COMMAND...: runs COMMAND; when all timers have fired, sets the growth of the kernel's
# counts (k_timeouts, k_deferred) and of the module's (timeouts, pingpong, deferred, jiffies), and
# checks what must hold for any traffic. There must be no traffic when it begins.
measure() {
	local k0 k1 k2 k3 t0 d0 p0 j0
	read -r k0 k1 < <(tcp_ext DelayedACKs DelayedACKLocked)
	counter_into t0 delack/timeouts
	counter_into p0 delack/timeouts_pingpong
	counter_into d0 delack/deferred
	counter_into j0 delack/delay_jiffies
	"$@" || fail "failed: $*"
	quiet
	read -r k2 k3 < <(tcp_ext DelayedACKs DelayedACKLocked)
	counter_into timeouts delack/timeouts
	counter_into pingpong delack/timeouts_pingpong
	counter_into deferred delack/deferred
	counter_into jiffies delack/delay_jiffies
	((k_timeouts = k2 - k0, k_deferred = k3 - k1)) || :
	((timeouts -= t0, pingpong -= p0, deferred -= d0, jiffies -= j0)) || :
	echo "# kernel: $k_timeouts timeouts, $k_deferred deferred;" \
		"tcplat: $timeouts timeouts ($pingpong pingpong), $deferred deferred, $jiffies jiffies," \
		"$(counter delack/missed) missed"

	assert_equal "timeouts $timeouts" "timeouts $k_timeouts"
	assert_equal "deferred $deferred" "deferred $k_deferred"
	((pingpong <= timeouts)) || fail "more timeouts in pingpong mode than timeouts"
	assert_consistent
}

# Checks that the group's files are consistent since the last reset. debugfs counts delays by
# their jiffies; the sum and the maximum follow from that, as long as no delay lies beyond its last
# line ('>'), which has no exact value.
assert_consistent() {
	awk -v hz="$HZ" -v tree="$TREE/delack" '
		function is(name, should,  line, file) {
			file = tree "/" name
			getline line <file
			close(file)
			if (line != should) {
				printf "%s is %s, should be %s\n", name, line, should
				bad = 1
			}
		}
		/^#/ { next }
		/^>/ { beyond = $2; next }
		{ n += $2; sum += $1 * $2; if ($2) most = $1 }
		END {
			is("timeouts", n + beyond)
			if (!beyond) {
				is("delay_jiffies", sum + 0)
				# Converted as a whole and rounded down once.
				is("delay_us", int(sum * 1000000 / hz))
				is("delay_max_jiffies", most + 0)
			}
			exit bad
		}' "$DEBUG/delay_jiffies" || fail "the files of delack disagree"
	hist_sum delack/delay_hist
	same "in the histogram" "$sum" "$(counter delack/timeouts)"
}

# delays_in FROM_US TO_US: prints how many delays lie in the buckets of (FROM_US, TO_US].
delays_in() {
	local i below=0 n=0
	local -a bounds counts
	read -ra bounds <"$TREE/delack/delay_hist_le_us"
	read -ra counts <"$TREE/delack/delay_hist"
	for i in "${!bounds[@]}"; do
		if [[ ${bounds[i]} != +Inf ]] && ((below >= $1 && bounds[i] <= $2)); then
			((n += counts[i])) || :
		fi
		below=${bounds[i]}
	done
	echo "$n"
}

# The timer is set HZ/25 jiffies ahead and fires with the tick after it is due: after 40 ms and at
# most a tick. No delay may be shorter. Some are longer: an emulated machine stands still while the
# emulator waits for a processor, but its clock continues. So only the most frequent delay must be
# the right one.
assert_delays_of_40_ms() {
	local good count most=0
	assert_equal "$(delays_in 0 30000) earlier" "0 earlier"
	good=$(delays_in 30000 50000)
	for count in $(counter delack/delay_hist); do
		((count <= most)) || most=$count
	done
	((good > 0 && good >= most)) ||
		fail "the most frequent delay is not in (30, 50] ms: $(counter delack/delay_hist)"
}

# ---- the kernel's counts, for one workload after another ----

# The first ACKs of a connection are quick ACKs.
wwr() {
	measure traffic wwr "$1" -n 40 "${PACED[@]}"
	((timeouts >= 20)) || fail "only $timeouts timeouts for 40 write-write-reads"
	((pingpong > 0)) || fail "none in pingpong mode, though each has a reply"
	# bats/hz/stalls.bats is exact about these. Here the machine sometimes stands still.
	stalls=$(counter delack/stalls)
	((stalls * 2 > timeouts && stalls <= timeouts)) ||
		fail "$stalls stalls in $timeouts timeouts, all of which the client waits for"
	assert_delays_of_40_ms
}

@test "write-write-read, IPv4" { wwr -4; }
@test "write-write-read, IPv6" { wwr -6; }

# No ACK waits for a timer here, although with a pause after each reply the timer fires: the ACK
# went with the reply.
request_response() {
	measure traffic rr "$1" -n 20 --interval 70
	same "late and deferred ACKs" "$k_timeouts $k_deferred" "0 0"
	measure traffic rr "$1" -n 500
	same "late and deferred ACKs" "$k_timeouts $k_deferred" "0 0"
}

@test "request/response, IPv4: both stay still" { request_response -4; }
@test "request/response, IPv6: both stay still" { request_response -6; }

# Reading a small message makes the kernel acknowledge it at once, so the counts of the first run
# mostly do not change. A message left unread for 65 ms waits for the timer, except at the beginning
# and after each pause longer than the retransmission timeout.
oneway() {
	measure traffic oneway "$1" -n 20 --interval 100
	measure traffic oneway "$1" -n 50 --interval 90 --hold 65
	((timeouts > 0)) || fail "no timeouts for messages left unread"
	assert_equal "$pingpong in pingpong mode" "0 in pingpong mode"
	assert_delays_of_40_ms
}

@test "one-way messages every 100 ms, IPv4" { oneway -4; }
@test "one-way messages every 100 ms, IPv6" { oneway -6; }

bulk() {
	local direction
	for direction in up down both; do
		measure traffic bulk "$1" -n 32 --direction "$direction"
	done
}

@test "bulk transfer up, down and both ways, IPv4" { bulk -4; }
@test "bulk transfer up, down and both ways, IPv6" { bulk -6; }

@test "slow reader, IPv4" { measure traffic slowreader -4 -n 60; }
@test "slow reader, IPv6" { measure traffic slowreader -6 -n 60; }

crowd() {
	measure traffic parallel "$1" -c 200 -n 6
	((timeouts > 0)) || fail "no timeouts: half of these are write-write-read"
}

@test "200 concurrent connections, IPv4" { crowd -4; }
@test "200 concurrent connections, IPv6" { crowd -6; }

# The module counts over all namespaces, the kernel per namespace.
namespaces() {
	veth_pair delay 10ms
	measure between wwr "$1" -n 40
	((timeouts >= 20)) || fail "only $timeouts timeouts for 40 write-write-reads"
	assert_delays_of_40_ms
	measure between rr "$1" -n 20
	measure between oneway "$1" -n 20 --hold 70
}

@test "two network namespaces over veth with netem delay, IPv4" { namespaces 10.9.0.2; }
@test "two network namespaces over veth with netem delay, IPv6" { namespaces fd09::2; }

# ---- deferred expiries ----

# recv() owns the socket for 100 ms each time, and the timer fires meanwhile. The ACK is sent when
# the socket is released, 100 ms late and in pingpong mode, which the workload sets. Duplicate data
# ends that mode, and the kernel counts it.
owned() {
	local lost0 lost
	lost0=$(tcp_ext DelayedACKLost)
	measure traffic owned "$1" -n 15 --hold 100
	lost=$(($(tcp_ext DelayedACKLost) - lost0))
	((deferred >= 10)) || fail "only $deferred of 15 deferred"
	((pingpong >= timeouts - lost)) ||
		fail "$pingpong of $timeouts in pingpong mode, $lost left it by duplicate data"
	# On Enterprise Linux 8, recv() sends an ACK that the timer could not send.
	on_el8 || ((timeouts - $(delays_in 0 80000) >= deferred)) ||
		fail "less than the 100 ms that the socket was owned: $(counter delack/delay_hist)"
}

@test "the socket owned by its user when the timer fires, IPv4" { owned -4; }
@test "the socket owned by its user when the timer fires, IPv6" { owned -6; }

# The kernel's count is deleted with its namespace; the module's must stay.
@test "deferred keeps what was counted in a network namespace that is gone" {
	local before now i
	veth_pair delay 10ms
	measure between owned 10.9.0.2 -n 8 --hold 100
	((deferred > 0)) || fail "nothing was deferred"
	counter_into before delack/deferred
	remove_namespaces
	# The kernel removes the namespaces later, in a work item.
	for ((i = 0; i < 40; i++)); do
		counter_into now delack/deferred
		same "deferred, while the namespaces go" "$now" "$before"
		sleep 0.1
	done
	measure traffic owned -4 -n 8 --hold 100
	same "deferred in all" "$(counter delack/deferred)" $((before + k_deferred))
}

@test "deferred stands still while the group is off, and goes on from there" {
	local before kernel
	measure traffic owned -4 -n 5 --hold 100
	counter_into before delack/deferred
	echo 0 >"$TREE/delack/enabled"
	kernel=$(tcp_ext DelayedACKLocked)
	traffic owned -4 -n 8 --hold 100
	quiet
	(($(tcp_ext DelayedACKLocked) > kernel)) || fail "the kernel counted nothing either"
	same "deferred while off" "$(counter delack/deferred)" "$before"
	echo 1 >"$TREE/delack/enabled"
	same "deferred, on again" "$(counter delack/deferred)" "$before"
	measure traffic owned -4 -n 5 --hold 100
	same "deferred in all" "$(counter delack/deferred)" $((before + k_deferred))
	reset_counters
	same "deferred after reset" "$(counter delack/deferred)" 0
}

# ---- timeouts that no probe saw ----

# The kernel calls no kprobe while all are disarmed, and reports nothing as missed.
@test "timeouts_unseen is what the kernel counted and a disarmed probe did not see" {
	local unseen
	unload_module
	load_with attach=kprobe
	veth_pair
	measure between wwr 10.9.0.2 -n 10
	same "timeouts_unseen at first" "$(counter delack/timeouts_unseen)" 0
	unseen=$(tcp_ext DelayedACKs)
	echo 0 >"$ARMED"
	between wwr 10.9.0.2 -n 10
	quiet
	((unseen = $(tcp_ext DelayedACKs) - unseen)) || fail "the kernel counted nothing either"
	same "timeouts_unseen" "$(counter delack/timeouts_unseen)" "$unseen"
	same "missed" "$(counter delack/missed)" 0
	echo 1 >"$ARMED"

	# Neither traffic that is seen nor the end of the namespaces changes it.
	measure between wwr 10.9.0.2 -n 10
	remove_namespaces
	echo 0 >"$TREE/delack/enabled"
	traffic wwr -n 10
	quiet
	echo 1 >"$TREE/delack/enabled"
	measure traffic wwr -n 10
	same "timeouts_unseen" "$(counter delack/timeouts_unseen)" "$unseen"
	reset_counters
	same "timeouts_unseen after a reset" "$(counter delack/timeouts_unseen)" 0
	unload_module
	load_module
}

# ---- the delay of an ACK counts from the oldest data that it acknowledges ----

# slow_uploads OPTION...: sets slow to the number of messages for which the sender waited 39 ms or
# longer for the ACK, and slow_us to the sum of these times.
slow_uploads() {
	told_by traffic upload --slow 39 "$@"
	slow=${said[slow]} slow_us=$((said[slow_ns] / 1000))
}

# probing N: sets tcp_early_retrans. A tail loss probe would come before the late ACK and cause an
# earlier one.
probing() { echo "$1" >/proc/sys/net/ipv4/tcp_early_retrans; }

# Two pieces, sent 20 ms apart, are left unread until the timer acknowledges both, 40 ms and at most
# a tick after the first arrived. Each delay in jiffies is off by up to a tick, and the sender looks
# a little later. Counted from the second piece the sum would be nearly half too small.
oldest() {
	local tick us
	counter_into tick clock/tick_ns
	((tick /= 1000))
	reset_counters
	probing 0
	measure slow_uploads "$1" -n 40 --nodelay --hold 20 --interval 70
	((slow >= 20)) || fail "only $slow of 40 messages were acknowledged late"
	counter_into us delack/delay_us
	echo "# $slow messages waited for $slow_us us, $timeouts timeouts of $us us"
	assert_equal "$timeouts timeouts" "$slow timeouts"
	((us - slow_us <= timeouts * tick && slow_us - us <= timeouts * 2 * tick)) ||
		fail "delays of $us us, but the sender waited for $slow_us us"
	assert_equal "$(delays_in 0 30000) earlier" "0 earlier"
	assert_equal "$(counter delack/delay_evictions)" 0
}

@test "two pieces acknowledged by one late ACK: the delay is that of the first, IPv4" { oldest -4; }
@test "two pieces acknowledged by one late ACK: the delay is that of the first, IPv6" { oldest -6; }

@test "the delay of the first piece does not depend on ackmode" {
	echo 0 >"$TREE/ackmode/enabled"
	oldest -4
	echo 1 >"$TREE/ackmode/enabled"
	oldest -6
}

@test "the delay of the first piece with kprobes, and by tcp_rcv_established" {
	unload_module
	load_with attach=kprobe
	oldest -4
	unload_module
	load_with hide=tcp_event_data_recv
	oldest -4
	echo 0 >"$TREE/ackmode/enabled"
	oldest -6
	unload_module
	load_module
}

# ---- the delay of an ACK without data ----

# The connection was idle for 3 s when its peer closes its half. The FIN waits 40 ms for its ACK;
# the last data is 3 s old and must not count.
halfclose() {
	local max
	measure traffic halfclose "$1" --interval 3000 --hold 1000
	((timeouts > 0)) || fail "the FIN was not acknowledged by the timer"
	counter_into max delack/delay_max_jiffies
	((max < HZ / 5)) || fail "a FIN was delayed by $max jiffies"
}

@test "a FIN after an idle time is delayed by its own time, IPv4" { halfclose -4; }
@test "a FIN after an idle time is delayed by its own time, IPv6" { halfclose -6; }
