# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # port, said and work are lib.bash's
# demo: one client, five causes: why did this take so long?
#
# The same client fetches the same page, or sends the same data, five times. Each time something
# else is late. The client's program can only say how late; tcplat says why.

# examine TITLE COMMAND: runs COMMAND, which sets took to what the client saw, and shows what tcplat's
# doctor says.
examine() {
	title "$1"
	echo 1 >"$TREE/reset"
	"$2"
	timers_done
	echo "the client: $took"
	echo
	shows doctor --total
}

# slow TITLE RULE WHAT COMMAND: the same; doctor's first finding must be RULE. Adds a row to the
# summary: WHAT.
slow() {
	local rule=$2 what=$3 found
	examine "$1" "$4"
	"$TCPLAT" doctor --total --json >"$work/json"
	found=$(grep -om 1 '"rule": *"[a-z]*"' "$work/json" | head -n 1)
	found=${found%\"} found=${found##*\"}
	[[ $found == "$rule" ]] || untold "doctor's first finding is '$found', not '$rule'"
	printf -v row '%-34s %-26s %s' "$took" "$rule" "$what"
	rows+=("$row")
}

# fetch REQUESTS OPTION...: ab's client at one end, a web server with these options at the other.
fetch() {
	local n=$1
	shift
	start_server http --bind 10.9.0.2 "$@"
	"${client_by[@]}" ab -q -k -c 1 -n "$n" -s 60 "http://10.9.0.2:$port/" >"$work/ab" 2>&1 ||
		untold "ab failed: $(tail -n 1 "$work/ab")"
	stop_server
	took=$(totals)
}

totals() { awk '$1 == "Total:" { print "ab: median " $5 " ms, longest " $6 " ms" }' "$work/ab"; }

prompt() { fetch 30 --nodelay; }
program() { fetch 30 --nodelay --hold 38; }
nagle() { fetch 30; }

# One segment in twenty does not arrive.
lost() {
	tc -n tcplat-b qdisc change dev veth-b root netem delay 1ms loss 5%
	fetch 400 --nodelay --cork
	tc -n tcplat-b qdisc change dev veth-b root netem delay 1ms
}

# Four clients at once; the server accepts one at a time, and two can wait.
crowd() {
	start_server http --bind 10.9.0.2 --nodelay --hold 100 --backlog 1
	"${client_by[@]}" ab -q -c 4 -n 12 -s 60 "http://10.9.0.2:$port/" >"$work/ab" 2>&1 ||
		untold "ab failed: $(tail -n 1 "$work/ab")"
	stop_server
	took=$(totals)
}

# The other end reads 16 KB each 50 ms.
reader() {
	start_server slowreader -n 60 -s 16384 --interval 50 --rcvbuf 65536 --bind 10.9.0.2
	"${client_by[@]}" "$TRAFFIC" slowreader -n 60 -s 16384 --connect 10.9.0.2 --port "$port" \
		>"$work/client" || untold "the client failed"
	client_said <"$work/client"
	stop_server
	took="a send() took up to $(awk -v ns="${said[max_ns]}" 'BEGIN { printf "%.0f", ns / 1e6 }') ms"
}

story() {
	local took row
	local -a rows=()

	far_apart delay 1ms

	examine "nothing is wrong" prompt
	slow "1. the program is slow" answer "the program thinks; not TCP" program
	slow "2. an answer in two pieces" nagle "one end holds, the other delays its ACK" nagle
	slow "3. packets get lost" loss "segments had to be sent again" lost
	slow "4. nobody picks up" listen "the queue for accept() was full" crowd
	slow "5. the other end does not read" peerwnd "the receiver's buffer was full" reader

	title "side by side"
	printf '%-34s %-26s %s\n' "what the client's program says" "tcplat's finding" "in other words"
	printf '%s\n' "${rows[@]}"
}
