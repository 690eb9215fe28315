# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port, said and work are lib.bash's
# shellcheck disable=SC2034 # server_by and client_by are for lib.bash
# demo: TCP_QUICKACK set once, which does not last, and before every recv()
#
# The client writes each request in two pieces and waits for the first one's ACK before it
# sends the second. The server can make its kernel acknowledge at once, but each answer that it
# sends puts the connection back into pingpong mode, where ACKs are delayed.

requests=50

# drive OPTION...: sends 50 requests to a server with these options; sets the results.
drive() {
	echo 1 >"$TREE/reset"
	server_by=(strace -f -qq -e trace=setsockopt -o "$work/strace")
	start_server wwr -n "$requests" "$@"
	client wwr -n "$requests" --connect 127.0.0.1 --port "$port"
	timers_done
	stop_server
	median=${said[median_ms]}
	calls=$(grep -c 'TCP_QUICKACK, \[1\]' "$work/strace" || :)
	setsockopt=$(counter ackmode/setsockopt)
	timeouts=$(counter delack/timeouts)
	enters=$(counter ackmode/pingpong_enters)
	exits_timeout=$(counter ackmode/cause_timeout)
	exits_setsockopt=$(counter ackmode/cause_setsockopt)
	((setsockopt == calls)) ||
		untold "tcplat saw TCP_QUICKACK set $setsockopt times, strace $calls times"
	shows show -b delack
}

# slow: checks the figures of a run in which TCP_QUICKACK does not help.
slow() {
	if below "$median" 36 || below 60 "$median"; then
		untold "the median is $median ms, not near 40"
	fi
	((timeouts * 10 >= requests * 8)) ||
		untold "only $timeouts delayed-ACK timeouts for $requests slow requests"
}

story() {
	local median calls setsockopt timeouts enters exits_timeout exits_setsockopt
	local -a never once

	title "$requests requests in two pieces; the server never sets TCP_QUICKACK"
	drive
	slow
	((calls == 0)) || untold "TCP_QUICKACK was set $calls times"
	never=("$median" "$timeouts" "$enters" "$exits_timeout")

	title "the same, but the server sets TCP_QUICKACK once, before its first recv()"
	drive --quickack 1 --quickack-once
	slow
	((calls == 1)) || untold "TCP_QUICKACK was set $calls times, not once"
	once=("$median" "$timeouts" "$enters" "$exits_timeout" "$exits_setsockopt")

	title "the same, but the server sets TCP_QUICKACK before every recv()"
	drive --quickack 1
	below "$median" 10 || untold "the median is $median ms, not below 10"
	((calls >= requests)) || untold "TCP_QUICKACK was set only $calls times"
	((timeouts * 10 <= requests)) ||
		untold "$timeouts delayed-ACK timeouts although TCP_QUICKACK was set each time"
	((exits_setsockopt * 10 >= requests * 8)) ||
		untold "setting TCP_QUICKACK changed the mode only $exits_setsockopt times"

	title "side by side, $requests requests each"
	printf '%-38s %9s %9s %11s\n' \
		'TCP_QUICKACK set:' never once 'every recv' \
		'client: median of a request, ms' "${never[0]}" "${once[0]}" "$median" \
		'strace: setsockopt(TCP_QUICKACK)' 0 1 "$calls" \
		'tcplat: ackmode/setsockopt' 0 1 "$setsockopt" \
		'tcplat: ackmode/pingpong_enters' "${never[2]}" "${once[2]}" "$enters" \
		'tcplat: ackmode/cause_setsockopt' 0 "${once[4]}" "$exits_setsockopt" \
		'tcplat: ackmode/cause_timeout' "${never[3]}" "${once[3]}" "$exits_timeout" \
		'tcplat: delack/timeouts' "${never[1]}" "${once[1]}" "$timeouts"
	echo

	paragraph "Set once, TCP_QUICKACK changed nothing: the first answer put the connection" \
		"back into pingpong mode, and ${once[1]} of $requests requests waited for a" \
		"delayed ACK. Set before every recv() it ended pingpong mode $exits_setsockopt" \
		"times and the median went from ${once[0]} to $median ms. A sender that writes" \
		"each request at once does not need this."
}
