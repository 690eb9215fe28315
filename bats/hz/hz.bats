#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# What depends on HZ: the module's clock, and delays as their users see them, exactly. For
# bats/run --icount, where the guest's clock counts instructions: it stands still while the
# emulator waits for a processor, so each timer fires in its own tick, and it skips idle time, so
# minutes of waiting cost nothing. Only this can expect exact delays.

load ../helpers
load ../loaded

setup_file() {
	on_icount || fail "these tests are for bats/run --icount"
	load_afresh
	HZ=$(config_hz)
	export HZ
}

setup() {
	untraced
	reset_counters
}

teardown() {
	trace_off
	tc qdisc del dev lo root 2>/dev/null || :
	assert_all_seen
}

# measure COMMAND...: runs COMMAND and sets timeouts to the number of delayed-ACK timeouts, sum to
# their delays in jiffies, delays[JIFFIES] to the number with this delay, and us to the module's
# sum in microseconds.
measure() {
	local before j n found
	quiet
	reset_counters
	before=$(tcp_ext DelayedACKs)
	"$@" || fail "failed: $*"
	quiet
	timeouts=$(counter delack/timeouts)
	sum=$(counter delack/delay_jiffies)
	us=$(counter delack/delay_us)
	delays=()
	debug_lines delay_jiffies
	for j in "${found[@]}"; do
		n=${j#* } j=${j% *}
		((!n)) || delays[${j#>}]=$n
	done
	echo "# $timeouts timeouts, $sum jiffies, $us us; each: $(declare -p delays)"
	assert_equal "$timeouts" "$(($(tcp_ext DelayedACKs) - before))"
}

# assert_all_delays JIFFIES: every timeout was delayed by this many jiffies. A timer fires in the
# tick after the one it is set to, since it may have been set at that tick's very end. If a tick
# comes in the microseconds between the data and the setting of its timer, the delay is correctly
# a jiffy longer: this may happen to three, and to one delay in a hundred more.
assert_all_delays() {
	local late=${delays[$1 + 1]:-0}
	assert_equal "$((${delays[$1]:-0} + late)) of $1 or $(($1 + 1))" "$timeouts of $1 or $(($1 + 1))"
	((late <= 3 + timeouts / 100)) || fail "$late of $timeouts delays were of $(($1 + 1)) jiffies"
	assert_equal "$sum" "$(($1 * timeouts + late))"
	assert_equal "$(counter delack/delay_max_jiffies)" "$(($1 + (late > 0)))"
}

# ---- the clock ----

# bats/hz/constants has written TCPLAT_CONSTANTS from the headers, evaluated by the compiler.
@test "clock/ is what the kernel's configuration and headers give" {
	local from_module f
	from_module=$(for f in "$TREE"/clock/*; do echo "${f##*/} $(<"$f")"; done)
	assert_equal "$(sort <<<"$from_module")" "$(sort "$TCPLAT_CONSTANTS")"
	assert_equal "$(wc -l <"$TCPLAT_CONSTANTS")" 12
	echo "# $(paste -sd ' ' <<<"$from_module")"
}

@test "a tick is as long as the kernel's own clock says" {
	# /proc/timer_list has each CPU's jiffies next to the time in ns.
	local jiffies ns jiffies2 ns2 tick
	timer_list() { awk '/^now at/ { ns = $3 } /^jiffies:/ { print $2, ns; exit }' /proc/timer_list; }
	read -r jiffies ns < <(timer_list)
	sleep 3
	read -r jiffies2 ns2 < <(timer_list)
	counter_into tick clock/tick_ns
	local ticks=$((jiffies2 - jiffies)) elapsed=$((ns2 - ns))
	((ticks > HZ)) || fail "$ticks ticks in 3 s"
	# The nearest other HZ that kernels are built with differs by 20%.
	((ticks * tick * 20 > elapsed * 19 && ticks * tick * 20 < elapsed * 21)) ||
		fail "$ticks ticks in $elapsed ns, tick_ns is $tick"
}

# ---- the delay of a write-write-read ----

@test "write-write-read: its user waits for 40 ms and no more than a tick besides" {
	local tick_us=$((1000000 / HZ))
	# With varying round trips; otherwise each write would come right after the tick that ended
	# the previous delay.
	tc qdisc add dev lo root netem delay 4ms 4ms
	trace_on
	all_seen watched "$TRAFFIC" wwr -n 100 --settle
	assert_all_delays $((HZ / 25 + 1))
	traced
	echo "# traced: $traced_timeouts timeouts, $traced_ns ns, from $traced_min to $traced_max ns"
	assert_equal "$traced_timeouts" "$timeouts"
	# Add a microsecond, since the trace truncates to microseconds, and a fifth of a
	# millisecond for the path from the tick to the timer's handler, which includes this test's
	# probes and other work of that tick.
	((traced_min >= 39999000 && traced_max < (40000 + tick_us + 200) * 1000)) ||
		fail "delays from $traced_min to $traced_max ns"
	# The delays must be spread over the tick, or the next check is meaningless.
	((traced_max - traced_min > tick_us * 500)) || fail "delays from $traced_min to $traced_max ns"

	# The jiffy that has begun counts as a whole one, since the timer fires with the tick: a
	# delay is up to a tick too long, half a tick on average. The conversion adds nothing.
	((us >= traced_ns / 1000 - 50 * timeouts && us <= traced_ns / 1000 + tick_us * timeouts)) ||
		fail "$us us, traced $traced_ns ns"
	local excess=$(((us - traced_ns / 1000) * 100 / timeouts / tick_us))
	echo "# on average $excess% of a tick too long"
	((excess >= 25 && excess <= 75)) || fail "on average $excess% of a tick too long"
}

# Traces when data arrived and when the timer sent its ACK, with kprobes and the kernel's own
# clock, in ns.
trace_on() {
	echo mono >"$TRACING/trace_clock"
	{
		echo "p:hz/data tcp_event_data_recv sk=%di"
		echo "p:hz/timer tcp_delack_timer_handler sk=%di"
		echo "p:hz/ack tcp_send_ack sk=%di"
	} >"$TRACING/kprobe_events"
	echo 1 >"$TRACING/events/hz/enable"
}

# As measure, with an empty trace.
watched() {
	: >"$TRACING/trace"
	measure "$@"
}

trace_off() {
	[[ -d $TRACING/events/hz ]] || return 0
	echo 0 >"$TRACING/events/hz/enable"
	: >"$TRACING/kprobe_events"
}

# Uses calls of the handler that are followed by an ACK on the same socket.
traced() {
	read -r traced_timeouts traced_ns traced_min traced_max < <(
		sed -nE 's/.* ([0-9]+)\.([0-9]{6}): ([a-z]+): .*sk=(0x[0-9a-f]+).*/\1\2 \3 \4/p' \
			"$TRACING/trace" | awk '
			$2 == "data" { data[$3] = $1 }
			$2 == "timer" { timer[$3] = $1; next }
			$2 == "ack" && timer[$3] {
				d = timer[$3] - data[$3]
				n++
				sum += d
				if (!min || d < min) min = d
				if (d > max) max = d
			}
			{ timer[$3] = 0 }
			END { printf "%d %.0f %.0f %.0f\n", n, sum * 1000, min * 1000, max * 1000 }')
}
