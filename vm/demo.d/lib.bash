# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Plays the scenarios it is given, in the guest. What a story may use is below.

set -euo pipefail

TREE=/sys/kernel/tcplat
# The kernel's texts and ab's, and points in numbers; bars of blocks if it can be.
export LC_ALL=C.UTF-8
work=$(mktemp -d)
server=''

cleanup() {
	stop_server
	rm -rf "$work"
}

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

# Until no delayed-ACK timer can be left: they run for 0.2 s at most.
timers_done() { sleep 0.5; }

# start_server WORKLOAD [OPTION...]: the server of traffic, in the background; sets
# port when it listens.
start_server() {
	"$TRAFFIC" "$@" --server >"$work/server" &
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

# below A B: whether A < B, with decimals.
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }

trap cleanup EXIT
for name; do
	insmod "$TCPLAT_KO"
	[[ $(counter delack/status) == armed ]] || untold "the module cannot count on this kernel"
	# In a shell of its own: stories do not see each other's functions.
	(
		trap stop_server EXIT
		# shellcheck disable=SC1090 # named at run time
		. "${BASH_SOURCE[0]%/*}/$name.sh"
		story
	)
	rmmod tcplat
done
