# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # name and work are those of who loads this
#
# What a story may use, in the guest; and its comparison of several guests, here.

TREE=/sys/kernel/tcplat
# The kernel's texts and ab's, and points in numbers; bars of blocks if it can be.
export LC_ALL=C.UTF-8
server=''
# What the server is started by, and the client: ip netns exec NAME, strace.
server_by=() client_by=()
# shellcheck source=SCRIPTDIR/../netns.bash
. "${BASH_SOURCE[0]%/*}/../netns.bash"

# Says why the story was not told, and ends.
untold() {
	printf 'demo: %s: %s\n' "$name" "$*" >&2
	exit 1
}

title() { printf '\n=== %s\n\n' "$*"; }
# paragraph TEXT: as a paragraph.
paragraph() { fmt -w 78 <<<"$*"; }
indented() { sed 's/^/    /'; }

counter() {
	local line
	read -r line <"$TREE/$1"
	echo "$line"
}

# mean_ms CAUSE: how long a hold of sndhold lasted on average, or -.
mean_ms() {
	awk -v ns="$(counter "sndhold/$1_time_ns")" -v n="$(counter "sndhold/$1")" \
		'BEGIN { if (n) printf "%.1f\n", ns / n / 1e6; else print "-" }'
}

# Until no delayed-ACK timer can be left: they run for 0.2 s at most.
timers_done() { sleep 0.5; }

# start_server WORKLOAD [OPTION...]: the server of traffic, in the background; sets
# port when it listens.
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

# client WORKLOAD [OPTION...]: the client of traffic, to its end; sets said[KEY] to what
# its last line says.
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

# What the client measured, by powers of two, as tcplat hist draws its own.
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

# With decimals: A * B; whether A < B.
times() { awk -v a="$1" -v b="$2" 'BEGIN { print a * b }'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }
