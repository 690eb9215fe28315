#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What bench/run has measured in the guest, of vm/bare. Prints "value WHAT IS LOADED,
# WORKLOAD, REPETITION, INSTRUCTIONS", tabs between them, and "say WHAT HAPPENS".
# Parameters by name: repetitions, transactions, parts.
# shellcheck disable=SC2154 # bench/run sets them

T=/sys/kernel/tcplat

say() { echo "say $*"; }

give_up() {
	echo "bench: $*" >&2
	exit 1
}

value() { printf 'value\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"; }

# ---- workloads: each prints instructions a transaction ----

# field NAME: of the last line that traffic prints; milliseconds as microseconds.
field() { sed -n "\$s/.* $1=\([0-9]*\)\.\{0,1\}\([0-9]*\) .*/\1\2/p"; }

# The median: a timer's interrupt is in few transactions, and they differ by little else.
rr() { /traffic rr "$1" -n "$transactions" | field median_ns; }
# A write of 64 kB, and what follows of it at both ends: us of 1,000 are ns of one.
stream() { /traffic bulk "$1" -n 1000 | field elapsed_ms; }
# Each run finds no connection in TIME_WAIT; the clock leaps over the wait.
crr() {
	sleep 61
	echo $(($(/traffic crr "$1" -n 1000 | field sum_ns) / 1000))
}

# repeat WHAT WORKLOAD COMMAND...: what COMMAND prints, as often as it is to be measured.
repeat() {
	what=$1 load=$2
	shift 2
	i=0
	while [ $i -lt "$repetitions" ]; do
		value "$what" "$load" $i "$("$@")"
		i=$((i + 1))
	done
}

# measure WHAT [WORKLOADS]: all of them, or these, with what is loaded now.
measure() {
	say "measures with $1"
	for workload in ${2:-rr stream crr}; do
		for family in 4 6; do
			repeat "$1" "$workload$family" "$workload" -$family
		done
	done
}

# calls WHAT: each of the program's, with what is loaded now.
calls() {
	say "measures calls with $1"
	/calls >/tmp/calls || give_up "calls has failed"
	while read -r name cost; do
		value "$1" "call-$name" 0 "$cost"
	done </tmp/calls
}

# ---- what is loaded ----

# only GROUP...: these are on.
only() {
	for each in $(groups); do
		case " $* " in
		*" $each "*) echo 1 >"$T/$each/enabled" ;;
		*) echo 0 >"$T/$each/enabled" ;;
		esac
	done
	settle
}

# Optimising a probe takes the kernel a moment, and so does a grace period.
settle() { sleep 1; }

# with_module MODULE COMMAND...
with_module() {
	module=$1
	shift
	insmod "/$module.ko" || exit
	settle
	"$@"
	rmmod "$module"
	settle
}

# with_program PROGRAM FILE -- COMMAND...: beside a program that says "ready". Not where
# there is none: BPF's are not brought to arm64.
with_program() {
	[ -e "$2" ] || return 0
	rm -f /tmp/commands /tmp/answers
	mkfifo /tmp/commands
	"$1" "$2" </tmp/commands >/tmp/answers 2>&1 &
	listener=$!
	exec 7>/tmp/commands
	until grep -q ready /tmp/answers; do
		[ -d /proc/$listener ] || give_up "$1: $(cat /tmp/answers)"
		sleep 1
	done
	settle
	shift 3
	"$@"
	exec 7>&-
	kill -INT "$listener" 2>/dev/null
	wait "$listener"
	settle
}

groups() {
	for file in "$T"/*/enabled; do
		basename "${file%/enabled}"
	done
}

# ---- the parts ----

probes() { sed 's/^/probe /' /sys/kernel/debug/tcplat/probes; }

part_workloads() {
	# The first few thousand connections are dearer than all after them.
	say 'warms up'
	for workload in rr stream crr crr; do
		$workload -4 >/dev/null
		$workload -6 >/dev/null
	done
	measure 'nothing loaded'
	insmod /tcplat.ko || exit
	settle
	measure 'tcplat'
	probes
	echo 1 >/sys/kernel/tracing/events/tcplat/enable
	settle
	measure 'tcplat, tracepoints on'
	echo 0 >/sys/kernel/tracing/events/tcplat/enable
	echo >/sys/kernel/tracing/trace
	for group in $(groups); do
		only "$group"
		measure "tcplat, $group alone"
	done
	only
	measure 'tcplat, all groups off'
	rmmod tcplat
	insmod /tcplat.ko attach=kprobe || exit
	settle
	measure 'tcplat attach=kprobe'
	rmmod tcplat
	settle
	with_program /rival /rival.bpf.o -- measure 'BPF'
	with_module kretprobes measure 'kretprobes'
	with_program bpftrace /user.bt -- measure 'bpftrace'
	with_program bpftrace /pairs.bt -- measure 'bpftrace, pairs'
	measure 'nothing again'
}

part_calls() {
	say 'warms up'
	/calls >/dev/null
	calls 'nothing loaded'
	insmod /tcplat.ko || exit
	settle
	calls 'tcplat'
	for group in $(groups); do
		only "$group"
		calls "tcplat, $group alone"
	done
	probes
	rmmod tcplat
	insmod /tcplat.ko attach=kprobe || exit
	settle
	calls 'tcplat attach=kprobe'
	probes
	rmmod tcplat
}

# ports_open PORT: the program that connects. ask COMMAND...: sets answer.
ports_open() {
	mkfifo /tmp/ask /tmp/answer
	/ports -p "$1" </tmp/ask >/tmp/answer &
	ports=$!
	exec 8>/tmp/ask 9</tmp/answer
}

ports_close() {
	exec 8>&- 9<&-
	wait "$ports"
	rm /tmp/ask /tmp/answer
}

ask() {
	echo "$*" >&8
	read -r answer <&9 || give_up "ports has ended"
}

# connects WHAT [TRIED]: so many that some have no timer's interrupt in them, or of the
# longest, which take longer than a tick, as few as can be.
connects() {
	say "measures connect() with $1"
	for tried in ${2:-1 101 20001}; do
		case $tried in
		1) echo "20000 59999" >"$range"; ask to 7001 ;;
		101) echo "20000 20199" >"$range"; ask to 7000 ;;
		20001) echo "20000 59999" >"$range"; ask to 7000 ;;
		esac
		i=0
		while [ $i -lt 60 ]; do
			ask connect 1 reset
			cost=${answer#*min_ns=}
			value "$1" "connect$tried" $i "${cost%% *}"
			i=$((i + 1))
		done
	done
}

# 20,000 ports, all of one parity, are in use towards one destination. A search that
# begins among them passes them all before it takes one of the other parity. Towards
# another destination the first of the 20,000 will do.
connects_with_tcplat() { # [TRIED]
	range=/proc/sys/net/ipv4/ip_local_port_range
	say "fills 20,000 ports"
	echo "20000 59999" >$range
	ports_open 7000
	ask fill 20000 59998 2
	connects 'nothing loaded' "${1-}"
	insmod /tcplat.ko || exit
	settle
	connects 'tcplat' "${1-}"
}

part_connect() {
	connects_with_tcplat
	only portsearch
	connects 'tcplat, portsearch alone'
	rmmod tcplat
	settle
	with_module every_port connects 'a kprobe on each port'
	with_program /rival /rival.bpf.o -- connects 'BPF'
	with_program bpftrace /ports.bt -- connects 'bpftrace on each port'
	ports_close
}

# What is held against bench/recorded.
part_short() {
	rr -4 >/dev/null
	rr -6 >/dev/null
	measure 'nothing loaded' rr
	with_module tcplat measure 'tcplat' rr
	connects_with_tcplat '1 101'
	ports_close
}

# How many this machine has sent.
segments() { awk '$1 == "Tcp:" && $2 ~ /^[0-9]/ { print $12 }' /proc/net/snmp; }

# Each other socket sends a byte after the module has been loaded, so that its table has all
# of them: as on a host that has so many, and not as this small guest would have it.
part_others() {
	echo "9000 60999" >/proc/sys/net/ipv4/ip_local_port_range
	ports_open 7000
	have=0
	for want in 10 1000 20000 100000; do
		say "connects $want others"
		while [ $have -lt $want ]; do
			first=$((10000 + have % 50000))
			more=$((want - have))
			[ $more -le $((60000 - first)) ] || more=$((60000 - first))
			# Two sockets a connection, and as many ports for each destination.
			[ $((have % 50000)) != 0 ] || ask to $((7000 + have / 50000))
			ask fill $first $((first + more - 1)) 1
			have=$((have + more))
		done
		ask touch
		# The ACKs are delayed, and their timers are not what is measured.
		settle
		before=$(segments)
		repeat 'nothing loaded' others$want rr -4
		value 'nothing loaded' "segments$want" 0 \
			$((($(segments) - before) * 100 / (repetitions * transactions)))
		insmod /tcplat.ko sockets=524288 || exit
		ask touch
		settle
		repeat 'tcplat' others$want rr -4
		value 'tcplat' "tracked$want" 0 "$(cat $T/ackmode/tracked)"
		rmmod tcplat
	done
	ports_close
}

# now: nanoseconds, of which each instruction takes one.
now() { sed -n 's/^now at \([0-9]*\) nsecs$/\1/p' /proc/timer_list; }

# took COMMAND...: its time, in ns; with that of asking what time it is.
took() {
	before=$(now)
	"$@" >/dev/null
	echo $(($(now) - before))
}

fact() { printf 'fact\t%s\t%s\n' "$1" "$2"; }

# With read(): busybox's cat has the kernel splice, which clears pages for each file.
everything() { wc -c "$T"/* "$T"/*/* 2>/dev/null; }
load() { insmod /tcplat.ko "$@"; }
unload() { rmmod tcplat; }

part_module() {
	possible=$(cat /sys/devices/system/cpu/possible)
	say "measures the module, CPUs $possible"
	load
	unload
	idle=$(took true)
	for sockets in 1024 65536 1048576; do
		load sockets=$sockets
		fact "bytes of its tables, sockets=$sockets" \
			"$(awk '/\[tcplat\]/ { n += $2 } END { print n + 0 }' /proc/vmallocinfo)"
		unload
	done
	load
	fact "bytes of the module, code and data" "$(awk '$1 == "tcplat" { print $2 }' /proc/modules)"
	empty=$(took cat /dev/null)
	fact "us to read all files, CPUs $possible" $((($(took everything) - empty) / 1000))
	unload
	fact "us of insmod, idle, CPUs $possible" $((($(took load) - idle) / 1000))
	fact "us of rmmod, idle, CPUs $possible" $((($(took unload) - idle) / 1000))
	/traffic rr -n 1000000 --timeout 86400 >/dev/null &
	busy=$!
	sleep 1
	fact "us of insmod beside RR, CPUs $possible" $((($(took load) - idle) / 1000))
	sleep 1
	fact "us of rmmod beside RR, CPUs $possible" $((($(took unload) - idle) / 1000))
	kill $busy
}

for part in $parts; do
	"part_$part"
done
