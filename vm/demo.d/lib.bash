# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # the sourcing script sets name and work
#
# Helpers for scenarios.

TREE=/sys/kernel/tcplat
# Fixes the language of messages and the decimal point; UTF-8 for the bars of histograms.
export LC_ALL=C.UTF-8
server=''
# Command prefixes for the server and the client: ip netns exec NAME, strace.
server_by=() client_by=()
# shellcheck source=SCRIPTDIR/../netns.bash
. "${BASH_SOURCE[0]%/*}/../netns.bash"

# untold TEXT: prints why the figures are not as expected, and ends the scenario.
untold() {
	printf 'demo: %s: %s\n' "$name" "$*" >&2
	exit 1
}

title() { printf '\n=== %s\n\n' "$*"; }
# paragraph TEXT: prints TEXT, wrapped.
paragraph() { fmt -w 78 <<<"$*"; }
# shows COMMAND [ARGUMENT...]: shows what this command of tcplat prints.
shows() {
	echo "tcplat $*:"
	"$TCPLAT" "$@" | indented
}

# far_apart NETEM...: the server and the client are in two network namespaces, as in veth_pair.
far_apart() {
	veth_pair "$@"
	server_by=(ip netns exec tcplat-b)
	client_by=(ip netns exec tcplat-a)
}

indented() { sed 's/^/    /'; }

counter() {
	local line
	read -r line <"$TREE/$1"
	echo "$line"
}

# mean SUM N: prints the quotient, or - if N is 0.
mean() { awk -v sum="$1" -v n="$2" 'BEGIN { if (n) printf "%.1f\n", sum / n; else print "-" }'; }

# Waits until no delayed-ACK timer is pending: they run for 0.2 s at most.
timers_done() { sleep 0.5; }

# start_server WORKLOAD [OPTION...]: starts traffic's server in the background, waits until it
# prints the port that it listens on, and sets port.
start_server() {
	"${server_by[@]}" "$TRAFFIC" "$@" --server >"$work/server" &
	server=$!
	port=''
	until [[ $port ]]; do
		kill -0 "$server" 2>/dev/null || untold "the server did not start"
		sleep 0.1
		port=$(sed -n 's/^port=//p' "$work/server")
	done
}

stop_server() {
	[[ $server ]] || return 0
	kill "$server" 2>/dev/null || :
	wait "$server" 2>/dev/null || :
	server=''
}

# client WORKLOAD [OPTION...]: runs traffic's client to its end; sets said[KEY] from the
# key=value pairs in its last line.
declare -A said
client() {
	"${client_by[@]}" "$TRAFFIC" "$@" >"$work/client" || untold "the client failed: $*"
	client_said <"$work/client"
}

client_said() {
	local line pair
	line=$(tail -n 1)
	[[ $line == workload=* ]] || untold "the client failed: $line"
	for pair in $line; do
		said[${pair%%=*}]=${pair#*=}
	done
}

# Prints the client's own measurements in powers of two, like tcplat show --bars.
client_hist() {
	awk -v counts="${said[hist_ns]}" '
		BEGIN {
			n = split(counts, count, ",")
			for (i = 1; i <= n; i++) {
				sum += count[i]
				if (count[i]) last = i
				if (count[i] && !first) first = i
			}
			print "     up to  count  percent"
			for (i = first; i <= last; i++) {
				ns = 2 ^ (i + 9)
				le = i == n ? "+Inf" : ns < 1e6 ? sprintf("%.3g us", ns / 1e3) : sprintf("%.3g ms", ns / 1e6)
				bar = ""
				for (j = 0.5; j < 40 * count[i] / sum; j++) bar = bar "█"
				printf "%10s %6d %7.1f%%  %s\n", le, count[i], 100 * count[i] / sum, bar
			}
		}'
}

# Arithmetic with decimals: prints A * B; succeeds if A < B.
times() { awk -v a="$1" -v b="$2" 'BEGIN { print a * b }'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }
