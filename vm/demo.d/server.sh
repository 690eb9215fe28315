# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port and said are lib.bash's
# demo: the same server seen from its own host alone, its client 10 ms away
#
# The client is in another network namespace behind 10 ms of netem each way, like a host
# without tcplat. The figures are the server's half: data that its kernel held back.
# TCP_NODELAY avoids that, and so does TCP_CORK around the two writes.

requests=50

# doctor: prints the output of tcplat doctor while the server answers.
doctor() {
	start_server http --bind 10.9.0.2
	"${client_by[@]}" "$TRAFFIC" http -n "$requests" --connect 10.9.0.2 --port "$port" \
		>"$work/client" &
	"$TCPLAT" doctor -i 4 >"$work/doctor" || untold "tcplat doctor failed"
	wait "$!" || untold "the client failed"
	stop_server
	cat "$work/doctor"
}

# drive OPTION...: sends keep-alive requests to a server with these options; sets the results.
drive() {
	echo 1 >"$TREE/reset"
	start_server http "$@" --bind 10.9.0.2
	client http -n "$requests" --connect 10.9.0.2 --port "$port"
	timers_done
	stop_server
	median=${said[median_ms]}
	nagle=$(counter sndhold/nagle)
	nagle_ms=$(mean_ms nagle)
	delays=$(counter sndhold/peer_delays)
	cork=$(counter sndhold/cork)
	cork_ms=$(mean_ms cork)
	shows show sndhold
}

story() {
	local median nagle nagle_ms delays cork cork_ms
	local -a slow nodelay corked

	far_apart delay 10ms

	title "$requests requests to a server that writes header, then body"
	drive
	slow=("$median" "$nagle" "$nagle_ms" "$delays" "$cork" "$cork_ms")
	echo
	shows show -b sndhold/nagle_hist
	echo
	echo "tcplat doctor, on this host alone:"
	doctor | indented

	title "the same, but the server has set TCP_NODELAY"
	drive --nodelay
	nodelay=("$median" "$nagle" "$nagle_ms" "$delays" "$cork" "$cork_ms")

	title "the same, but the server sets TCP_CORK before the header and clears it after the body"
	drive --cork
	corked=("$median" "$nagle" "$nagle_ms" "$delays" "$cork" "$cork_ms")

	title "side by side, $requests requests each, round trip 20 ms"
	printf '%-36s %12s %12s %12s\n' \
		'' 'two writes' 'TCP_NODELAY' 'TCP_CORK' \
		'client: median of a request, ms' "${slow[0]}" "${nodelay[0]}" "${corked[0]}" \
		'tcplat: sndhold/nagle' "${slow[1]}" "${nodelay[1]}" "${corked[1]}" \
		'tcplat: mean of these, ms' "${slow[2]}" "${nodelay[2]}" "${corked[2]}" \
		'tcplat: sndhold/peer_delays' "${slow[3]}" "${nodelay[3]}" "${corked[3]}" \
		'tcplat: sndhold/cork' "${slow[4]}" "${nodelay[4]}" "${corked[4]}" \
		'tcplat: mean of these, ms' "${slow[5]}" "${nodelay[5]}" "${corked[5]}"
	echo

	((slow[1] * 10 >= requests * 8)) ||
		untold "only ${slow[1]} bodies of $requests were held back"
	((slow[3] * 10 >= requests * 8)) || untold "only ${slow[3]} ACKs of the peer were late"
	if below "${slow[2]}" 55 || below 75 "${slow[2]}"; then
		untold "the bodies were held back for ${slow[2]} ms, not near 60"
	fi
	((nodelay[1] == 0 && nodelay[3] == 0)) ||
		untold "${nodelay[1]} bodies were held back despite TCP_NODELAY"
	((corked[1] == 0 && corked[3] == 0)) || untold "${corked[1]} bodies were held back despite TCP_CORK"
	below 70 "${slow[0]}" || untold "the median of the slow server is ${slow[0]} ms"
	if below 30 "${nodelay[0]}" || below 30 "${corked[0]}"; then
		untold "the medians of the fixed servers are ${nodelay[0]} and ${corked[0]} ms"
	fi

	paragraph "${slow[1]} of $requests bodies waited in the server's kernel for ${slow[2]}" \
		"ms on average: a round trip of 20 ms, and 40 ms by which the client delayed" \
		"its ACK. The client needs no tcplat. With TCP_NODELAY the body is sent at" \
		"once, in its own packet; with TCP_CORK header and body are sent in one" \
		"packet, as with one write or writev."
}
