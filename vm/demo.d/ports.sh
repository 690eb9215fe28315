# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # work is lib.bash's
# demo: a connect() that takes long because nearly all ports are in use
#
# A client has 28,000 connections to one destination, of the 28,232 that the default port
# range allows. For the next one the kernel tries port after port: all the even ones first,
# then the odd ones. With a wider range it finds a free port at once.

connects=200

# ask COMMAND...: sends COMMAND to the program that connects and reads its answer.
ask() {
	echo "$*" >&8
	read -r -u 9 answer || untold "the program that connects has ended"
}

# drive: opens $connects connections, one after the other, resetting each so that its port is
# free again; sets the results: mean ports tried, and mean time of a search and of a
# connect() in us.
drive() {
	local searches unverified ns
	echo 1 >"$TREE/reset"
	ask connect "$connects" reset
	[[ $answer == "connected=$connects exhausted=0 ns="* ]] || untold "only: $answer"
	ns=${answer#*ns=}
	connect_us=$(mean "${ns%% *}" $((connects * 1000)))
	searches=$(counter portsearch/searches)
	unverified=$(counter portsearch/unverified)
	((searches == connects)) || untold "$searches searches for $connects connections"
	((unverified * 20 <= searches)) || untold "$unverified of $searches searches unverified"
	tried=$(mean "$(counter portsearch/iterations)" $((searches - unverified)))
	search_us=$(mean "$(counter portsearch/time_ns)" $((searches * 1000)))
	shows show portsearch
	echo
	shows show -b portsearch
}

story() {
	local range=/proc/sys/net/ipv4/ip_local_port_range
	local tried search_us connect_us
	local free_tried free_search_us free_connect_us
	local full_tried full_search_us full_connect_us

	mkfifo "$work/commands" "$work/answers"
	"${TRAFFIC%/*}/ports" <"$work/commands" >"$work/answers" &
	exec 8>"$work/commands" 9<"$work/answers"
	echo "32768 60999" >"$range"
	# tcplat cannot verify the first connect() since boot.
	ask connect 1 reset

	title "$connects connections, all 28,232 ports free"
	drive
	free_tried=$tried free_search_us=$search_us free_connect_us=$connect_us

	title "$connects connections, 28,000 of 28,232 ports in use to that destination"
	# In the kernel's order: the even ports first, then the odd ones.
	ask fill 32768 60998 2
	[[ $answer == "connected=14116 "* ]] || untold "$answer"
	ask fill 32769 60535 2
	[[ $answer == "connected=13884 "* ]] || untold "$answer"
	drive
	full_tried=$tried full_search_us=$search_us full_connect_us=$connect_us

	title "the same, after: sysctl net.ipv4.ip_local_port_range='1025 65535'"
	echo "1025 65535" >"$range"
	drive
	echo "32768 60999" >"$range"

	title "side by side, the means of $connects connections each"
	printf '%-32s %13s %13s %13s\n' \
		'' 'ports free' 'nearly full' 'wider range' \
		'tcplat: ports tried' "$free_tried" "$full_tried" "$tried" \
		'tcplat: time of a search, us' "$free_search_us" "$full_search_us" "$search_us" \
		'clock_gettime: connect(), us' "$free_connect_us" "$full_connect_us" "$connect_us"
	echo

	grown "ports tried" "$free_tried" "$full_tried" "$tried" 100
	grown "time of a search" "$free_search_us" "$full_search_us" "$search_us" 50
	below "$full_search_us" "$full_connect_us" ||
		untold "searches took longer than the connect() calls that contain them"
	below "$(times "$full_connect_us" 0.5)" "$full_search_us" ||
		untold "connect() did not spend its time in the search"

	paragraph "With 28,000 of 28,232 ports in use connect() took $full_connect_us us on" \
		"average, $full_search_us us of it to try $full_tried ports. Ports in" \
		"TIME_WAIT count as in use: a client that opens and closes 470 connections a" \
		"second to one destination gets into this state. A wider range (or, better," \
		"kept connections) brings it back to $connect_us us."
}

# grown WHAT BEFORE FULL AFTER FACTOR: fails unless FULL is at least FACTOR times both others.
grown() {
	below "$(times "$2" "$5")" "$3" ||
		untold "$1: $3 with the ports nearly used up is not $5 times $2"
	below "$(times "$4" "$5")" "$3" ||
		untold "$1: $3 with the ports nearly used up is not $5 times $4, with a wider range"
}
