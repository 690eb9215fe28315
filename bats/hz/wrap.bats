#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Delayed ACKs across the wrap of the 32-bit jiffies that TCP uses, five minutes after boot. For
# bats/run --icount, in a guest of its own, since the wrap comes once. Only this crosses it.

load ../loaded

jiffies() { awk '/^jiffies:/ { print $2; exit }' /proc/timer_list; }

@test "across the wrap of jiffies: as many timeouts as the kernel has, each in its tick" {
	local hz left before between kernel halfclose oneway n pingpong delay late sum j found
	local -A delays=()
	counter_into hz clock/hz
	left=$(((4294967296 - $(jiffies)) / hz))
	((left > 20)) || fail "$left s before the wrap it is too late to begin"
	sleep $((left - 20))
	before=$(jiffies)
	kernel=$(tcp_ext DelayedACKs)
	reset_counters
	# Silent across the wrap: sends its data before and its FIN after it.
	"$TRAFFIC" halfclose --interval 40000 --hold 1000 3>&- &
	halfclose=$!
	# One message every 0.1 s, left unread until the timer has acknowledged it; never in
	# pingpong mode.
	"$TRAFFIC" oneway -n 400 --interval 100 --hold 70 3>&- &
	oneway=$!
	"$TRAFFIC" wwr -n 1000
	between=$(jiffies)
	wait "$halfclose"
	wait "$oneway"
	quiet
	counter_into n delack/timeouts
	counter_into pingpong delack/timeouts_pingpong
	echo "# jiffies $before to $between, $n timeouts, $pingpong in pingpong mode"
	((before < 4294967296 && between > 4294967296)) || fail "the clock did not wrap meanwhile"
	((pingpong >= 500 && n - pingpong >= 100)) || fail "not enough timeouts"
	same timeouts "$n" $(($(tcp_ext DelayedACKs) - kernel))
	same missed "$(counter delack/missed)" 0

	# A timer fires in the tick after HZ/25 jiffies, or one tick later for data that arrived a
	# few microseconds before a tick and whose timer was set after it.
	delay=$((hz / 25 + 1))
	debug_lines delay_jiffies
	for j in "${found[@]}"; do
		delays[${j% *}]=${j#* }
	done
	late=${delays[$((delay + 1))]}
	echo "# $late one tick later: $(declare -p delays)"
	same "delays of $delay and $((delay + 1))" $((delays[$delay] + late)) "$n"
	((late <= 1 + n / 100)) || fail "too many"
	sum=$((n * delay + late))
	same "their sum" "$(counter delack/delay_jiffies)" "$sum"
	same "their sum in us" "$(counter delack/delay_us)" $((sum * 1000000 / hz))
}
