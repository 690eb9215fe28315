# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # said is lib.bash's
# demo: 40 ms at HZ=100, 250, 300 and 1000: the delay requested, and how late it ends
# kernels: hz100 6.12 hz300 hz1000
#
# Four kernels of one source that differ only in HZ. The kernel sets the timer of a delayed ACK
# 40 ms ahead, in jiffies; the rest of the delay is due to the tick.

requests=200

# Prints one line of counters for compare().
story() {
	local name figures
	echo 1 >"$TREE/reset"
	client wwr -n "$requests"
	timers_done
	figures="hz=$(counter clock/hz) median_ms=${said[median_ms]}"
	for name in timeouts delay_jiffies delay_us late_jiffies late_us late_max_jiffies; do
		figures+=" $name=$(counter "delack/$name")"
	done
	echo "$figures"
}

compare() {
	local file pair
	title "$requests write-write-reads on each of four kernels"
	printf '%8s %9s | %17s | %17s | %15s\n' \
		'' 'delayed' 'asked for' 'late by' 'a write-write-' \
		HZ ACKs 'jiffies       ms' 'jiffies       ms' 'read took, ms'
	for file; do
		local -A got=()
		for pair in $(<"$file"); do
			got[${pair%%=*}]=${pair#*=}
		done
		((got[timeouts] * 10 >= requests * 9)) ||
			untold "only ${got[timeouts]} delayed ACKs for $requests requests at HZ=${got[hz]}"
		awk -v hz="${got[hz]}" -v n="${got[timeouts]}" -v delay="${got[delay_jiffies]}" \
			-v late="${got[late_jiffies]}" -v median="${got[median_ms]}" 'BEGIN {
			ms = 1000 / hz / n
			printf "%8d %9d | %7.2f %9.2f | %7.2f %9.2f | %15.2f\n", hz, n,
				(delay - late) / n, (delay - late) * ms, late / n, late * ms, median
			# If a tick came in between, an ACK was requested a jiffy later.
			off = (delay - late) / n - hz / 25
			exit !(off >= 0 && off < 0.05 && late == n)
		}' || untold "not 40 ms and a tick at HZ=${got[hz]}: $(<"$file")"
	done
	echo
	paragraph "Each kernel requested 40 ms. A timer fires in the tick after the one that it" \
		"is set to, so the ACK is late by one jiffy: 10 ms of the user's time at" \
		"HZ=100, 1 ms at HZ=1000. Longer delays are kept in coarser steps, at HZ=1000" \
		"of 8 jiffies from 63 jiffies on; see Documentation/guide/hz.md."
}
