# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port, said and work are lib.bash's
# demo: a request in four writes that waits for an ACK despite TCP_NODELAY
#
# With TCP_NODELAY each write is sent at once while the congestion window has room. After a
# pause the window is back at its initial size, here three packets; the fourth write waits until
# the first three are acknowledged. The server sets SO_RCVLOWAT to wake up only for whole
# requests, so nobody reads the data, which would make the kernel acknowledge it, and the ACK
# is late. (With a short round trip the sender's tail loss probe, sent after two round trips,
# is earlier than the late ACK; with a long one the ACK is earlier.)

requests=10
pause_ms=700

# drive PACKETS OPTION...: sends requests over a round trip of 80 ms with an initial window of
# PACKETS; sets the results, and state to what ss shows while a request waits.
drive() {
	local i pid
	ip -n tcplat-a route change 10.9.0.0/24 dev veth-a proto kernel scope link src 10.9.0.1 \
		initcwnd "$1"
	shift
	echo 1 >"$TREE/reset"
	start_server wwr -n "$requests" -s 400 --rcvlowat 400 --bind 10.9.0.2
	"${client_by[@]}" "$TRAFFIC" wwr -n "$requests" -s 400 --interval "$pause_ms" "$@" \
		--connect 10.9.0.2 --port "$port" >"$work/client" &
	pid=$!
	# Poll, since ss shows notsent (data in the socket that may not be sent) only while a
	# request waits; at most 3 s, since with a large window nothing waits.
	state=''
	for ((i = 0; i < 60; i++)); do
		sleep 0.05
		ip netns exec tcplat-a ss -Htin dport = ":$port" >"$work/ss"
		if grep -q notsent: "$work/ss"; then
			state=$(grep -oE '\b(cwnd|unacked|notsent):[0-9]+' "$work/ss" | xargs)
			break
		fi
	done
	wait "$pid" || untold "the client failed"
	client_said <"$work/client"
	timers_done
	stop_server
	median=${said[median_ms]}
	timeouts=$(counter delack/timeouts)
	stalls=$(counter delack/stalls)
	restarts=$(counter idlerestart/restarts)
	shows show -b delack
}

story() {
	local median timeouts stalls restarts state
	local -a small large nagle

	far_apart delay 40ms

	title "$requests requests in four writes, TCP_NODELAY, initial window of 3 packets"
	drive 3 --writes 4 --nodelay
	small=("$median" "$timeouts" "$stalls" "$restarts" "$state")

	title "the same with an initial window of 10 packets"
	drive 10 --writes 4 --nodelay
	large=("$median" "$timeouts" "$stalls" "$restarts" "${state:-nothing waits}")

	title "for comparison, Nagle: two writes, no TCP_NODELAY, 10 packets"
	drive 10 --writes 2
	nagle=("$median" "$timeouts" "$stalls" "$restarts" "$state")

	title "side by side, $requests requests each, round trip 80 ms"
	printf '%-30s %18s %18s %18s\n' \
		'' '4 writes, cwnd 3' '4 writes, cwnd 10' 'Nagle' \
		'client: median, ms' "${small[0]}" "${large[0]}" "${nagle[0]}" \
		'tcplat: delack/timeouts' "${small[1]}" "${large[1]}" "${nagle[1]}" \
		'tcplat: delack/stalls' "${small[2]}" "${large[2]}" "${nagle[2]}" \
		'tcplat: idlerestart/restarts' "${small[3]}" "${large[3]}" "${nagle[3]}"
	echo
	echo "ss -ti at the sender while a request waits:"
	printf '  %-20s %s\n' \
		'4 writes, cwnd 3:' "${small[4]}" \
		'4 writes, cwnd 10:' "${large[4]}" \
		'Nagle:' "${nagle[4]}"
	echo

	# The first request still meets the initial window and quick ACKs.
	((small[2] == requests - 1 && small[1] == small[2])) ||
		untold "${small[2]} stalls and ${small[1]} timeouts with a window of 3, not $((requests - 1))"
	((large[2] == 0)) || untold "${large[2]} stalls with a window of 10"
	((nagle[2] >= requests - 1)) || untold "only ${nagle[2]} stalls by Nagle's algorithm"
	((small[3] >= requests - 1)) || untold "only ${small[3]} restarts of windows"
	below "$(sum "${large[0]}" 100)" "${small[0]}" ||
		untold "a median of ${small[0]} ms with the small window, ${large[0]} with the larger one"
	[[ ${small[4]} == 'cwnd:3 unacked:3 notsent:100' ]] || untold "ss says: ${small[4]}"
	[[ ${nagle[4]} == 'cwnd:10 unacked:1 notsent:200' ]] || untold "ss says: ${nagle[4]}"

	paragraph "With a window of three packets ${small[2]} of $requests requests waited for a" \
		"late ACK although TCP_NODELAY was set. A larger window, or one write instead" \
		"of four, avoids the wait. The receiver, and delack/stalls, cannot tell this" \
		"from Nagle's algorithm; ss -ti at the sender can: here the window is full" \
		"(unacked equals cwnd); with Nagle one small packet is unacked and the window" \
		"has room."
}

sum() { awk -v a="$1" -v b="$2" 'BEGIN { print a + b }'; }
