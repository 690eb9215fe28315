#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest's part of bench/rivals/agree.

set -euo pipefail

TREE=/sys/kernel/tcplat

# One observer's measurement of a call contains the other's work, so each call may differ by
# this many ns, which are instructions: enough for an interrupt in between.
SLACK=20000

# Exit status if counts differ, but the BPF program has missed events.
RIVAL_MISSED=3

traffic() { /traffic "$@" --timeout 86400 >/tmp/traffic || { echo "traffic $*: failed" >&2; exit 1; }; }

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
		[[ $name != missed/* ]] || ((missed += rival[$name])) || :
		continue
	fi
	ours=$(<"$TREE/$name") theirs=${rival[$name]} verdict=''
	case $name in
	*/time_hist | */nagle_hist | */cork_hist) [[ $ours == "$theirs" ]] || verdict='times, see above' ;;
	*_ns)
		group=${name%/*} calls=1
		case $name in
		*_max_ns) ;;
		*/nagle_time_ns) calls=${rival[$group/nagle]} ;;
		*/peer_delay_ns) calls=${rival[$group/peer_delays]} ;;
		*/cork_time_ns) calls=${rival[$group/cork]} ;;
		*) calls=${rival[$group/searches]-${rival[$group/waits]-}} ;;
		esac
		off=$((ours - theirs))
		((${off#-} <= SLACK * calls || processors > 1)) || verdict=differs
		;;
	*) [[ $ours == "$theirs" ]] || verdict=differs ;;
	esac
	# On several processors a segment may come between the two observations of a call that sets
	# TCP_QUICKACK: for one observer the call caused what follows, for the other not. And tcplat
	# verifies some concurrent searches that the rival does not. A tick, or the end of the time
	# in which data must arrive for a stall, may come between two observations, too, but only of
	# a few of them.
	case $((processors > 1)),$name in
	1,ackmode/*_setsockopt | 1,portsearch/iterations* | 1,portsearch/unverified | 1,delack/delay_hist)
		verdict=${verdict/differs/may differ}
		;;
	1,delack/delay_* | 1,delack/late_* | 1,delack/stall*)
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
