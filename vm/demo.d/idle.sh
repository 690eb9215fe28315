# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port, said and work are lib.bash's
# demo: 4 MB over a connection that was idle, no faster than over a new one
#
# A connection's congestion window grows as it sends. By default the kernel cuts the window
# if nothing was sent for longer than a retransmission timeout, so a kept connection starts
# as slowly as a new one.

reads=5
size=4194304
pause_ms=3000

# drive WORKLOAD: reads 4 MB, pauses, and repeats, with connections of this kind; sets the
# results.
drive() {
	echo 1 >"$TREE/reset"
	start_server "$1" -n "$reads" -s 100 --reply "$size" --bind 10.9.0.2
	client "$1" -n "$reads" -s 100 --reply "$size" --interval "$pause_ms" --connect 10.9.0.2 \
		--port "$port"
	stop_server
	median=${said[median_ms]}
	restarts=$(counter idlerestart/restarts)
	lost=$(counter idlerestart/cwnd_lost)
	idle_ms=$(($(counter idlerestart/idle_us) / 1000))
	echo "each read, as the client measures it:"
	client_hist | indented
	echo
	shows show idlerestart
}

story() {
	local median restarts lost idle_ms
	local -a new kept

	far_apart delay 4ms rate 1gbit limit 10000

	title "$reads reads of 4 MB, round trip 8 ms, 1 Gbit/s, a new connection for each"
	drive crr
	new=("$median" "$restarts" "$lost" "$idle_ms")

	title "the same over one connection, idle for $((pause_ms / 1000)) s before each"
	drive rr
	kept=("$median" "$restarts" "$lost" "$idle_ms")

	title "the same, after: sysctl net.ipv4.tcp_slow_start_after_idle=0"
	ip netns exec tcplat-b sysctl -q net.ipv4.tcp_slow_start_after_idle=0
	drive rr

	title "side by side, $reads reads of 4 MB each"
	printf '%-34s %12s %12s %12s\n' \
		'connection' 'new' 'kept' 'sysctl off' \
		'client: median of a read, ms' "${new[0]}" "${kept[0]}" "$median" \
		'tcplat: idlerestart/restarts' "${new[1]}" "${kept[1]}" "$restarts" \
		'tcplat: idlerestart/cwnd_lost' "${new[2]}" "${kept[2]}" "$lost" \
		'tcplat: idlerestart/idle_us, ms' "${new[3]}" "${kept[3]}" "$idle_ms"
	echo

	((new[1] == 0)) || untold "${new[1]} restarts of new connections"
	# The reader's side sends little but was idle as well; its window has not grown.
	((kept[1] >= reads - 1 && kept[2] > 100 * (reads - 1))) ||
		untold "${kept[1]} restarts that cost ${kept[2]} packets"
	((lost == 0)) || untold "$lost packets lost with the sysctl off"
	below "$(times "$median" 1.3)" "${kept[0]}" ||
		untold "a read took ${kept[0]} ms, and $median with the sysctl off"

	paragraph "The kept connection's window was cut ${kept[1]} times and lost ${kept[2]}" \
		"packets, so a read took ${kept[0]} ms, not much less than the ${new[0]} ms of" \
		"a new connection. With net.ipv4.tcp_slow_start_after_idle=0 at the sender a" \
		"read took $median ms."
}
