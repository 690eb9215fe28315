#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A receiver delays its ACK, since its program may answer soon, until a timer sends it. After each
# workload the group has as many of these as the kernel. bats/hz compares each delay with an
# oracle's, and ackmode.bats those in pingpong mode. Only this compares the numbers for each
# workload.

# shellcheck disable=SC2154 # told_by sets said, hist_sum sum

load ../loaded

setup_file() {
	load_afresh
	HZ=$(config_hz)
	export HZ
}

setup() {
	untraced
	quiet
}

# measure COMMAND...: runs COMMAND from zero; when all timers have fired, sets the kernel's counts
# (k_timeouts, k_deferred) and the module's (timeouts, pingpong, deferred, jiffies), and checks what
# must hold for any traffic. There must be no traffic when it begins.
measure() {
	local earlier
	read -ra earlier < <(tcp_ext DelayedACKs DelayedACKLocked)
	reset_counters
	"$@" || fail "failed: $*"
	quiet
	read -r k_timeouts k_deferred < <(tcp_ext DelayedACKs DelayedACKLocked)
	((k_timeouts -= earlier[0], k_deferred -= earlier[1])) || :
	counter_into timeouts delack/timeouts
	counter_into pingpong delack/timeouts_pingpong
	counter_into deferred delack/deferred
	counter_into jiffies delack/delay_jiffies
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

inexact() { ! on_icount || on_debug; }

# The first ACKs of a connection are quick ACKs.
wwr() {
	measure traffic wwr "-$1" -n 40 "${PACED[@]}"
	((timeouts >= 20)) || fail "only $timeouts timeouts for 40 write-write-reads"
	((pingpong > 0)) || fail "none in pingpong mode, though each has a reply"
	# The client waits for each. On the host's clock, the data that follows may be late itself.
	stalls=$(counter delack/stalls)
	((stalls == timeouts)) || { inexact && ((stalls * 2 > timeouts && stalls < timeouts)); } ||
		fail "$stalls stalls in $timeouts timeouts"
	assert_delays_of_40_ms
}

@test "write-write-read" { each_family wwr; }

# No ACK waits for a timer here, although with a pause after each reply the timer fires: the ACK
# went with the reply.
request_response() {
	measure traffic rr "-$1" -n 20 --interval 70
	same "late and deferred ACKs" "$k_timeouts $k_deferred" "0 0"
	measure traffic rr "-$1" -n 500
	same "late and deferred ACKs" "$k_timeouts $k_deferred" "0 0"
}

@test "request/response: both stay still" { each_family request_response; }

bulk() {
	local direction
	for direction in up down both; do
		measure traffic bulk "-$1" -n 32 --direction "$direction"
	done
}

@test "bulk transfer up, down and both ways" { each_family bulk; }

slow_reader() { measure traffic slowreader "-$1" -n 60; }

@test "slow reader" { each_family slow_reader; }

crowd() {
	measure traffic parallel "-$1" -c 200 -n 6
	((timeouts > 0)) || fail "no timeouts: half of these are write-write-read"
}

@test "200 concurrent connections" { each_family crowd; }

# ---- deferred expiries ----

# recv() owns the socket for 100 ms each time, and the timer fires meanwhile. The ACK is sent when
# the socket is released, 100 ms late and in pingpong mode, which the workload sets. Duplicate data
# ends that mode, and the kernel counts it.
owned() {
	local lost0 lost
	lost0=$(tcp_ext DelayedACKLost)
	measure traffic owned "-$1" -n 15 --hold 100
	lost=$(($(tcp_ext DelayedACKLost) - lost0))
	((deferred >= 10)) || fail "only $deferred of 15 deferred"
	((pingpong >= timeouts - lost)) ||
		fail "$pingpong of $timeouts in pingpong mode, $lost left it by duplicate data"
	# On Enterprise Linux 8, recv() sends an ACK that the timer could not send.
	on_el8 || ((timeouts - $(delays_in 0 80000) >= deferred)) ||
		fail "less than the 100 ms that the socket was owned: $(counter delack/delay_hist)"
}

@test "the socket owned by its user when the timer fires" { each_family owned; }

# The kernel's count is deleted with its namespace; the module's must stay.
@test "deferred keeps what was counted in a network namespace that is gone" {
	local before now kernel i
	# The counts of namespaces that are still there must not hide one another.
	traffic owned -4 -n 8 --hold 100
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
	kernel=$(tcp_ext DelayedACKLocked)
	traffic owned -4 -n 8 --hold 100
	quiet
	((kernel = $(tcp_ext DelayedACKLocked) - kernel)) || fail "nothing was deferred"
	same "deferred in all" "$(counter delack/deferred)" $((before + kernel))
}

# ---- timeouts that no probe saw ----

# The kernel calls no kprobe while all are disarmed, and reports nothing as missed.
@test "timeouts_unseen is what the kernel counted and a disarmed probe did not see" {
	local unseen
	unload_module
	load_module attach=kprobe
	veth_pair
	measure between wwr 10.9.0.2 -n 10
	same "timeouts_unseen at first" "$(counter delack/timeouts_unseen)" 0
	unseen=$(tcp_ext DelayedACKs)
	set_meanwhile "$ARMED" 0
	between wwr 10.9.0.2 -n 10
	quiet
	((unseen = $(tcp_ext DelayedACKs) - unseen)) || fail "the kernel counted nothing either"
	same "timeouts_unseen" "$(counter delack/timeouts_unseen)" "$unseen"
	same "missed" "$(counter delack/missed)" 0
	echo 1 >"$ARMED"

	# Neither traffic that is seen nor the end of the namespaces changes it.
	between wwr 10.9.0.2 -n 10
	quiet
	remove_namespaces
	echo 0 >"$TREE/delack/enabled"
	traffic wwr -n 10
	quiet
	echo 1 >"$TREE/delack/enabled"
	traffic wwr -n 10
	quiet
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
	told_by traffic upload --slow 39 "$@" || return
	slow=${said[slow]} slow_us=$((said[slow_ns] / 1000))
}

# Two pieces, sent 20 ms apart, are left unread until the timer acknowledges both, 40 ms and at most
# a tick after the first arrived. Each delay in jiffies is off by up to a tick, and the sender looks
# a little later. Counted from the second piece the sum would be nearly half too small.
oldest() {
	local tick us
	counter_into tick clock/tick_ns
	((tick /= 1000))
	# A tail loss probe would come before the late ACK and cause an earlier one.
	set_meanwhile /proc/sys/net/ipv4/tcp_early_retrans 0
	measure slow_uploads "-$1" -n 40 --nodelay --hold 20 --interval 70
	((slow >= 20)) || fail "only $slow of 40 messages were acknowledged late"
	counter_into us delack/delay_us
	echo "# $slow messages waited for $slow_us us, $timeouts timeouts of $us us"
	assert_equal "$timeouts timeouts" "$slow timeouts"
	((us - slow_us <= timeouts * tick && slow_us - us <= timeouts * 2 * tick)) ||
		fail "delays of $us us, but the sender waited for $slow_us us"
	assert_equal "$(delays_in 0 30000) earlier" "0 earlier"
	assert_equal "$(counter delack/delay_evictions)" 0
}

@test "two pieces acknowledged by one late ACK: the delay is that of the first" {
	each_family oldest
	set_meanwhile "$TREE/ackmode/enabled" 0
	oldest 4
}

@test "the delay of the first piece with kprobes, and by tcp_rcv_established" {
	unload_module
	load_module attach=kprobe
	oldest 4
	unload_module
	load_module hide=tcp_event_data_recv
	oldest 4
	echo 0 >"$TREE/ackmode/enabled"
	oldest 6
	unload_module
	load_module
}

# ---- the delay of an ACK without data ----

@test "the ACK of a SYN-ACK that TCP_QUICKACK 0 delays counts from the SYN-ACK" {
	local us late tick
	counter_into tick clock/tick_ns
	measure python "
l = socket.create_server(('127.0.0.1', 7000))
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
s.connect(('127.0.0.1', 7000))
time.sleep(0.5)"
	same timeouts "$timeouts" 1
	counter_into us delack/delay_us
	counter_into late delack/late_us
	# The kernel asks for 200 ms.
	((us -= late, us >= 200000 - tick / 1000 && us <= 200000 + tick / 1000)) ||
		fail "a delay of $us us, and $late us too late"
}

# The connection was idle for 3 s when its peer closes its half. The FIN waits 40 ms for its ACK;
# the last data is 3 s old and must not count.
halfclose() {
	local max
	measure traffic halfclose "-$1" --interval 3000 --hold 1000
	((timeouts > 0)) || fail "the FIN was not acknowledged by the timer"
	counter_into max delack/delay_max_jiffies
	((max < HZ / 5)) || fail "a FIN was delayed by $max jiffies"
}

@test "a FIN after an idle time is delayed by its own time" { each_family halfclose; }
