# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port, said and work are lib.bash's
# demo: a send() of microseconds that takes 50 ms now and then
#
# A program sends small messages; their reader pauses ten times for 50 ms. When the send
# buffer is full send() waits, and the sending program seems slow.

messages=10000

# drive BYTES: sends all messages with a send buffer of BYTES; sets the results.
drive() {
	echo 1 >"$TREE/reset"
	start_server stream -n "$messages"
	client stream -n "$messages" --sndbuf "$1" --connect 127.0.0.1 --port "$port"
	timers_done
	stop_server
	mean_us=$(mean "${said[sum_ns]}" $((messages * 1000)))
	max_ms=$(milliseconds "${said[max_ns]}")
	waits=$(counter sndwait/waits)
	wait_max_ms=$(milliseconds "$(counter sndwait/time_max_ns)")
	sends_ms=$(milliseconds "${said[sum_ns]}")
	wait_ms=$(milliseconds "$(counter sndwait/time_ns)")
	echo "each send(), as the program measures it:"
	client_hist | indented
	echo
	shows show -b sndwait
}

milliseconds() { awk -v ns="$1" 'BEGIN { printf "%.3f", ns / 1000000 }'; }

story() {
	local mean_us max_ms waits wait_max_ms sends_ms wait_ms
	local -a small

	title "$messages messages of 256 bytes, SO_SNDBUF of 32 kB"
	drive 32768
	small=("$mean_us" "$max_ms" "$sends_ms" "$waits" "$wait_max_ms" "$wait_ms")

	title "the same, after: sysctl net.core.wmem_max=4194304, and SO_SNDBUF of 4 MB"
	sysctl -q net.core.wmem_max=4194304
	drive 4194304

	title "side by side, $messages messages each"
	printf '%-36s %12s %12s\n' \
		'SO_SNDBUF' '32 kB' '4 MB' \
		'program: mean of send(), us' "${small[0]}" "$mean_us" \
		'program: the longest send(), ms' "${small[1]}" "$max_ms" \
		'program: all send(), ms' "${small[2]}" "$sends_ms" \
		'tcplat: sndwait/waits' "${small[3]}" "$waits" \
		'tcplat: the longest wait, ms' "${small[4]}" "$wait_max_ms" \
		'tcplat: sndwait/time_ns, ms' "${small[5]}" "$wait_ms"
	echo

	((small[3] >= 5)) || untold "only ${small[3]} waits"
	below 30 "${small[1]}" || untold "the longest send() took ${small[1]} ms, not 50"
	below "${small[0]}" 1000 || untold "a mean send() took ${small[0]} us"
	below "${small[5]}" "${small[2]}" || untold "the waits were longer than the calls that waited"
	below "${small[4]}" "${small[1]}" || untold "the longest wait was longer than the longest call"
	below "$(times "${small[2]}" 0.5)" "${small[5]}" || untold "most of the time was not waiting"
	((waits == 0)) || untold "$waits waits although there was room"
	below "$max_ms" "$(times "${small[1]}" 0.5)" || untold "the longest send() still took $max_ms ms"

	paragraph "${small[3]} of $messages calls waited for room, for ${small[5]} of the" \
		"${small[2]} ms that all calls took: these are the reader's pauses, as the" \
		"sender sees them. A buffer large enough for the data sent during a pause" \
		"hides it; the remedy is a reader that does not pause."
}
