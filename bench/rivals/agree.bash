#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest's part of bench/rivals/agree.

set -euo pipefail

TREE=/sys/kernel/tcplat

# One observer's measurement of a call contains the other's work, so each call may differ by
# this many ns, which are instructions: enough for an interrupt in between.
SLACK=20000

# Nanoseconds of a jiffy.
TICK=4000000

# Exit status if counts differ, but the BPF program has missed events.
RIVAL_MISSED=3

traffic() {
	/traffic "$@" --timeout 86400 >/tmp/traffic && return
	echo "traffic $*: failed" >&2
	exit 1
}

# within CALLS: sets verdict if ours and theirs differ by more than as many calls may.
within() {
	local off=$((ours - theirs))
	((${off#-} <= SLACK * $1 || processors > 1)) || verdict=differs
}

processors=$(grep -c ^processor /proc/cpuinfo)
# The first connect() after boot seeds the kernel's table, which the rival does not follow.
traffic rr -n 1
mkfifo /tmp/in /tmp/out
insmod /tcplat.ko
/rival /rival.bpf.o </tmp/in >/tmp/out &
exec 8>/tmp/in 9</tmp/out
read -r -u 9 line
[[ $line == ready ]]
# The kernel needs a moment to optimize a probe.
sleep 1

for family in -4 -6; do
	traffic rr $family -n 200
	traffic rr $family -n 20 --quickack 1
	traffic rr $family -n 20 --quickack 0
	traffic wwr $family -n 20
	traffic wwr $family -n 10 --quickack 1
	traffic crr $family -n 100
	traffic oneway $family -n 10 --hold 70
	for direction in up down both; do
		traffic bulk $family -n 32 --direction $direction
	done
	traffic slowreader $family -n 50 --sndbuf 16384
	traffic stream $family -n 2000 --sndbuf 16384
	traffic full $family
	traffic idle $family
	traffic halfclose $family
	traffic owned $family -n 5
done
traffic parallel -c 20 -n 3
# Answers that are late, and connections that wait for accept() or find its queue full: there, the
# kernel resets some that have a SYN cookie.
echo 0 >/proc/sys/net/ipv4/tcp_syncookies
for family in -4 -6; do
	traffic http $family -n 10 --hold 50
	traffic http $family -n 5 --hold 30 --cork
	traffic rr $family -n 5 --interval 100
	traffic parallel $family -c 200 -n 2 --backlog 4
done
# Lost data, SYNs, SYN-ACKs and ACKs.
tc qdisc add dev lo root netem delay 2ms loss 8%
for family in -4 -6; do
	traffic bulk $family -n 40 --direction both
	traffic rr $family -n 100
	traffic crr $family -n 40
done
tc qdisc del dev lo root
# More connections than ports: long searches, and some that find none.
echo 40000 40030 >/proc/sys/net/ipv4/ip_local_port_range
echo 0 >/proc/sys/net/ipv4/tcp_tw_reuse
/traffic crr -n 40 --timeout 86400 >/tmp/traffic 2>&1 || :
# The remaining sockets may still change their mode.
sleep 3

declare -A rival
names=()
echo show >&8
while read -r -u 9 name value && [[ $name != . ]]; do
	names+=("$name")
	rival[$name]=$value
done

status=0 missed=0
printf '%-38s %14s %14s\n' '' tcplat rival
for name in "${names[@]}"; do
	# tcplat does not have these: missed events, and sockets that were not followed for lack of
	# memory.
	if [[ ! -e $TREE/$name ]]; then
		((!rival[$name])) || printf '%-38s %14s %14s\n' "$name" - "${rival[$name]}"
		[[ $name != missed ]] || ((missed += rival[$name])) || :
		continue
	fi
	ours=$(<"$TREE/$name") theirs=${rival[$name]} verdict=''
	case $name in
	*/peer_delay_ns) within "${rival[sndhold/peer_delays]}" ;;
	# An interrupt in between, with what it does for the network.
	*_max_ns) within 5 ;;
	*/time_ns) within "${rival[${name%time_ns}searches]-${rival[${name%time_ns}waits]-}}" ;;
	*_time_ns) within "${rival[${name%_time_ns}]}" ;;
	*/*_hist)
		[[ $ours == "$theirs" ]] || verdict=differs
		[[ ! ${rival[${name%hist}time_ns]-${rival[${name%_hist}_ns]-}} ]] ||
			verdict=${verdict:+times, see above}
		;;
	*) [[ $ours == "$theirs" ]] || verdict=differs ;;
	esac
	# Times in jiffies, which a tick may come between.
	case $name in
	peerwnd/wait) ((ours - theirs > 1 || theirs - ours > 1)) || verdict='' ;;
	peerwnd/wait_time_ns) ((ours - theirs > TICK || theirs - ours > TICK)) || verdict='' ;;
	peerwnd/wait_hist) verdict=${verdict:+may differ by one} ;;
	esac
	# On several processors, tcplat verifies some concurrent searches that the rival does not.
	# A tick, or the end of the time in which data must arrive for a stall, may come between two
	# observations, too, but only of a few of them.
	case $((processors > 1)),$name in
	1,portsearch/iterations* | 1,portsearch/unverified | 1,delack/delay_hist)
		verdict=${verdict/differs/may differ}
		;;
	1,delack/delay_* | 1,delack/stall*)
		off=$((ours - theirs))
		((${off#-} > 2 + theirs / 50)) || verdict=${verdict/differs/may differ}
		;;
	esac
	[[ $verdict != differs ]] || status=1
	if [[ $ours == *' '* ]]; then
		printf '%-38s %s\n' "$name, tcplat" "$ours" "$name, rival" "$theirs  $verdict"
	else
		printf '%-38s %14s %14s  %s\n' "$name" "$ours" "$theirs" "$verdict"
	fi
done
cat "$TREE"/*/missed | { total=0; while read -r n; do total=$((total + n)); done; echo "missed by tcplat's probes: $total"; }
exec 8>&-
wait
((!status || !missed)) || status=$RIVAL_MISSED
exit "$status"
