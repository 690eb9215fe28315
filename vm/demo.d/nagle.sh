# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port and work are lib.bash's
# demo: a keep-alive HTTP server that takes 40 ms to answer, and TCP_NODELAY
#
# The server writes each answer in two small pieces, header and body. Nagle's algorithm holds
# the body until the header is acknowledged; the client, which cannot use a header alone,
# delays that ACK.

requests=50

# drive OPTION...: sends 50 keep-alive requests with ab to a server with these options; sets
# median (ms), timeouts, stalls and mean (ms) for the client's half, held and held_ms (mean)
# for the server's.
drive() {
	echo 1 >"$TREE/reset"
	start_server http "$@"
	ab -q -k -c 1 -n "$requests" -e "$work/percentiles" \
		"http://127.0.0.1:$port/" >"$work/ab" 2>&1 ||
		untold "ab failed: $(tail -n 1 "$work/ab")"
	timers_done
	stop_server
	sed -n 's/^Failed requests: *//p' "$work/ab" | grep -qx 0 ||
		untold "ab counts failed requests"
	sed -n 's/^Keep-Alive requests: *//p' "$work/ab" | grep -qx "$requests" ||
		untold "ab did not keep its connection alive"
	median=$(awk -F, '$1 == 50 { print $2 }' "$work/percentiles")
	[[ $median ]] || untold "ab printed no median"
	timeouts=$(counter delack/timeouts)
	stalls=$(counter delack/stalls)
	mean=$(mean "$(counter delack/delay_us)" $((timeouts * 1000)))
	held=$(counter sndhold/nagle)
	held_ms=$(mean "$(counter sndhold/nagle_time_ns)" $((held * 1000000)))
	grep -E '^(Keep-Alive requests|Requests per second|Time per request).*' "$work/ab" |
		grep -v 'across all' | indented
	echo
	grep -E '^  (50|90|99|100)%' "$work/ab" | sed 's/$/ ms/' | indented
}

story() {
	local median timeouts stalls mean held held_ms
	local slow_median slow_timeouts slow_stalls slow_mean slow_held slow_held_ms

	title "ab -k -c 1 -n $requests, to a server that writes header, then body"
	drive
	slow_median=$median slow_timeouts=$timeouts slow_stalls=$stalls slow_mean=$mean
	slow_held=$held slow_held_ms=$held_ms
	echo
	echo "the client's half, tcplat show delack:"
	"$TCPLAT" show delack | indented
	echo
	echo "the server's half, tcplat show sndhold:"
	"$TCPLAT" show sndhold | indented
	echo
	shows show -b delack

	title "the same, but the server has set TCP_NODELAY"
	drive --nodelay
	echo
	shows show delack sndhold

	title "side by side, $requests requests each"
	printf '%-36s %14s %14s\n' \
		'' 'two writes' 'TCP_NODELAY' \
		'ab: median of a request, ms' "$slow_median" "$median" \
		'tcplat: delayed-ACK timeouts' "$slow_timeouts" "$timeouts" \
		'tcplat: stalls, the server waited' "$slow_stalls" "$stalls" \
		'tcplat: mean delay of those ACKs, ms' "$slow_mean" "$mean" \
		'tcplat: bodies Nagle held back' "$slow_held" "$held" \
		'tcplat: mean time of that, ms' "$slow_held_ms" "$held_ms"
	echo

	if below "$slow_median" 36 || below 60 "$slow_median"; then
		untold "the median of the slow server is $slow_median ms, not near 40"
	fi
	((slow_timeouts * 10 >= requests * 8)) ||
		untold "only $slow_timeouts delayed-ACK timeouts for $requests slow requests"
	((slow_stalls * 50 >= slow_timeouts * 49)) ||
		untold "only $slow_stalls stalls of $slow_timeouts late ACKs that each held up an answer"
	# The first answer may meet a quick ACK.
	((slow_held <= slow_stalls + 2 && slow_held >= slow_stalls - 2)) ||
		untold "Nagle's algorithm held back $slow_held bodies, for $slow_stalls stalls"
	((held == 0)) || untold "Nagle's algorithm held back $held bodies despite TCP_NODELAY"
	below "$median" 10 ||
		untold "the median with TCP_NODELAY is $median ms, not below 10"
	((timeouts == 0)) ||
		untold "$timeouts delayed-ACK timeouts with TCP_NODELAY, not none"

	paragraph "$slow_timeouts of $requests answers waited for a delayed ACK: the kernel held" \
		"back the body (Nagle's algorithm) until the header was acknowledged, and the" \
		"client's kernel delayed that ACK by $slow_mean ms on average. The server's" \
		"host counts the same: $slow_held bodies held back, for $slow_held_ms ms each" \
		"on average. With TCP_NODELAY the body does not wait. Writing header and body" \
		"at once (one write, or writev) also avoids the wait."
}
