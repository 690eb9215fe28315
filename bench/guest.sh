#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The guest's part of bench/run, in a guest of vm/bare. Prints "value", what is loaded, the
# workload, the repetition and the instructions, separated by tabs, and "say" and progress.
# bench/run sets repetitions, transactions and parts.
# shellcheck disable=SC2154 # bench/run sets them

T=/sys/kernel/tcplat

say() { echo "say $*"; }

give_up() {
	echo "bench: $*" >&2
	exit 1
}

value() { printf 'value\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"; }

# ---- workloads: each prints instructions per transaction ----

# field NAME: prints this field of traffic's last line; milliseconds as microseconds.
field() { sed -n "\$s/.* $1=\([0-9]*\)\.\{0,1\}\([0-9]*\) .*/\1\2/p"; }

# The median: few transactions contain a timer interrupt, and the others differ little.
rr() { /traffic rr "$1" -n "$transactions" | field median_ns; }
# A write of 64 kB and its effects at both ends. us of 1,000 writes are ns of one.
stream() { /traffic bulk "$1" -n 1000 | field elapsed_ms; }
# Waits so that no connection is in TIME_WAIT at the start; the clock skips the wait.
crr() {
	sleep 61
	echo $(($(/traffic crr "$1" -n 1000 | field sum_ns) / 1000))
}

# Two writes, of which Nagle's algorithm holds the second, and a read. The other end acknowledges
# the first at once, so that no time is idle.
held() { /traffic wwr "$1" -n "$transactions" --quickack 1 | field median_ns; }
# The same as rr, which is a column of another table.
unheld() { rr "$1"; }

# The mean of 16 connections: a socket may be outside of its home slot in ackmode's table. ports
# keeps one more socket each time, so that the next connection's sockets have other addresses.
rr_of_16() {
	{
		{
			sum=0
			for i in $(seq 16); do
				sum=$((sum + $(rr "$1")))
				echo "bind $((9000 + i)) $((9000 + i)) 1"
			done
			echo $((sum / 16)) >&3
		} | /ports -p 6999 >/dev/null
	} 3>&1
}

# repeat WHAT WORKLOAD COMMAND...: measures COMMAND for all repetitions.
repeat() {
	what=$1 load=$2
	shift 2
	i=0
	while [ $i -lt "$repetitions" ]; do
		value "$what" "$load" $i "$("$@")"
		i=$((i + 1))
	done
}

# warm_up WORKLOAD...: the first few thousand connections cost more than all later ones.
warm_up() {
	say 'warming up'
	for workload; do
		$workload -4 >/dev/null
		$workload -6 >/dev/null
	done
}

# measure WHAT [WORKLOADS]: measures these or all workloads with the current modules.
measure() {
	say "measuring with $1"
	for workload in ${2:-rr stream crr}; do
		for family in 4 6; do
			repeat "$1" "$workload$family" "$workload" -$family
		done
	done
}

# calls WHAT: measures each call of the program with the current modules.
calls() {
	say "measuring calls with $1"
	/calls >/tmp/calls || give_up "calls has failed"
	while read -r name cost; do
		value "$1" "call-$name" 0 "$cost"
	done </tmp/calls
}

# ---- what is loaded ----

# all_but_ackmode: enables all groups but ackmode.
all_but_ackmode() {
	# shellcheck disable=SC2046 # words
	only $(groups | grep -vx ackmode)
}

# only GROUP...: enables only these groups.
only() {
	for each in $(groups); do
		case " $* " in
		*" $each "*) echo 1 >"$T/$each/enabled" ;;
		*) echo 0 >"$T/$each/enabled" ;;
		esac
	done
	settle
}

# The kernel needs a moment to optimize a probe, and for a grace period.
settle() { sleep 1; }

# insert [PARAMETER...]: loads the module.
insert() {
	insmod /tcplat.ko "$@" || exit
	settle
}

# with_module COMMAND...: runs COMMAND with the module loaded.
with_module() {
	insert
	"$@"
	rmmod tcplat
	settle
}

# with_script FILE COMMAND...: runs COMMAND while bpftrace runs FILE, once that prints "ready". Does
# nothing if FILE does not exist: arm64 guests have no bpftrace.
with_script() {
	[ -e "$1" ] || return 0
	bpftrace "$1" >/tmp/script 2>&1 &
	script=$!
	# Compiling and attaching it takes seconds.
	until grep -q ready /tmp/script; do
		[ -d /proc/$script ] || give_up "$1: $(cat /tmp/script)"
		sleep 1
	done
	settle
	shift
	"$@"
	kill -INT "$script"
	wait "$script"
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
	warm_up rr stream crr crr
	measure 'nothing loaded'
	insert
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
	all_but_ackmode
	measure 'tcplat, ackmode off'
	only
	measure 'tcplat, all groups off'
	rmmod tcplat
	insert attach=kprobe
	measure 'tcplat attach=kprobe'
	rmmod tcplat
	settle
	with_script /acks.bt measure 'bpftrace'
	measure 'nothing again'
}

# shellcheck disable=SC2086 # words
part_limits() {
	warm_up rr crr crr
	measure 'nothing loaded' 'rr crr'
	insert
	measure 'tcplat' 'rr crr'
	all_but_ackmode
	measure 'tcplat, ackmode off' 'rr crr'
	only
	measure 'tcplat, all groups off' 'rr crr'
	rmmod tcplat
}

part_calls() {
	say 'warming up'
	/calls >/dev/null
	calls 'nothing loaded'
	insert
	calls 'tcplat'
	for group in $(groups); do
		only "$group"
		calls "tcplat, $group alone"
	done
	probes
	rmmod tcplat
	insert attach=kprobe
	calls 'tcplat attach=kprobe'
	probes
	rmmod tcplat
}

# ports_open PORT: starts the program that connects. ask COMMAND...: runs a command; sets answer.
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

# connects WHAT [TRIED]: measures single connect() calls, so many that some contain no timer
# interrupt. The longest take longer than a tick and contain one at least.
connects() {
	say "measuring connect() with $1"
	for tried in ${2:-1 101 20001}; do
		case $tried in
		1) echo "20000 59999" >"$range"; ask to 7001 ;;
		101) echo "20000 20199" >"$range"; ask to 7000 ;;
		20001) echo "20000 59999" >"$range"; ask to 7000 ;;
		esac
		i=0
		while [ $i -lt 60 ]; do
			ask connect 1 reset
			value "$1" "connect$tried" $i "${answer#*ns=}"
			i=$((i + 1))
		done
	done
}

# 20,000 ports, all of one parity, are in use to one destination. A search that begins among them
# tries them all before it takes a port of the other parity. To another destination the first of
# them is usable.
connects_with_tcplat() { # [TRIED]
	range=/proc/sys/net/ipv4/ip_local_port_range
	say "filling 20,000 ports"
	echo "20000 59999" >$range
	ports_open 7000
	ask fill 20000 59998 2
	connects 'nothing loaded' "${1-}"
	insert
	connects 'tcplat' "${1-}"
}

part_connect() {
	connects_with_tcplat
	only portsearch
	connects 'tcplat, portsearch alone'
	rmmod tcplat
	settle
	with_script /ports.bt connects 'bpftrace on each port'
	ports_close
}

# The figures that are compared with bench/recorded.
part_short() {
	rr -4 >/dev/null
	rr -6 >/dev/null
	measure 'nothing loaded' rr
	with_module measure 'tcplat' rr
	connects_with_tcplat '1 101'
	ports_close
}

# Prints the number of segments that this machine has sent.
segments() { awk '$1 == "Tcp:" && $2 ~ /^[0-9]/ { print $12 }' /proc/net/snmp; }

# Each other socket sends a byte after the module has been loaded, so that ackmode's table
# contains all of them. The table has the size of a host with so many sockets, not the default
# of this small guest.
part_others() {
	echo "9100 60999" >/proc/sys/net/ipv4/ip_local_port_range
	# So many sockets with unread data take more than the default allows TCP, in pages.
	echo "500000 500000 500000" >/proc/sys/net/ipv4/tcp_mem
	ports_open 7000
	have=0
	for want in 10 1000 50000 100000; do
		say "opening $want other connections"
		while [ $have -lt $want ]; do
			first=$((10000 + have % 50000))
			more=$((want - have))
			[ $more -le $((60000 - first)) ] || more=$((60000 - first))
			# Each connection has two sockets; each destination allows as many
			# connections as ports.
			[ $((have % 50000)) != 0 ] || ask to $((7000 + have / 50000))
			ask fill $first $((first + more - 1)) 1
			have=$((have + more))
		done
		ask touch
		# Wait for delayed ACKs: their timers must not be measured.
		settle
		before=$(segments)
		repeat 'nothing loaded' others$want rr_of_16 -4
		value 'nothing loaded' "segments$want" 0 \
			$((($(segments) - before) * 100 / (repetitions * 16 * transactions)))
		insmod /tcplat.ko sockets=524288 || exit
		ask touch
		settle
		repeat 'tcplat' others$want rr_of_16 -4
		rmmod tcplat
	done
	ports_close
}

# now: prints the time in nanoseconds; each instruction takes one.
now() { sed -n 's/^now at \([0-9]*\) nsecs$/\1/p' /proc/timer_list; }

# took COMMAND...: prints the time that COMMAND takes, in ns, including that of reading the clock.
took() {
	before=$(now)
	"$@" >/dev/null
	echo $(($(now) - before))
}

fact() { printf 'fact\t%s\t%s\n' "$1" "$2"; }

# Uses read(): for busybox's cat the kernel splices, which clears pages for each file.
everything() { wc -c "$T"/* "$T"/*/* 2>/dev/null; }
load() { insmod /tcplat.ko "$@"; }
unload() { rmmod tcplat; }

part_module() {
	possible=$(cat /sys/devices/system/cpu/possible)
	say "measuring the module, CPUs $possible"
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

# beside COMMAND...: measures while this command of the reader watches.
beside() {
	/tcplat "$@" >/dev/null &
	reader=$!
	sleep 5
	measure "tcplat, $1" 'unheld held'
	kill -TERM $reader
	wait $reader
	settle
}

# ran PID: prints how long a process ran, in instructions.
ran() { read -r ns rest <"/proc/$1/schedstat" && echo "$ns"; }
free() { awk '$1 == "MemFree:" { print $2 }' /proc/meminfo; }

beside_all() {
	measure 'tcplat' 'unheld held'
	beside record
	beside top
	beside doctor --interval 36000
	beside trace
}

part_readers() {
	[ -e /tcplat ] || return 0
	warm_up unheld held
	measure 'nothing loaded' 'unheld held'
	with_module beside_all
}

# An hour in which a connection in each of 20 cgroups has a hold, a delayed ACK and late answers
# every second.
hour() {
	say 'an hour of record'
	mkdir -p /tmp/cgroup
	mount -t cgroup2 none /tmp/cgroup
	memory=$(free)
	/tcplat record >/tmp/lines &
	reader=$!
	sleep 5
	fact 'kB of memory that record takes, with the kernel' $((memory - $(free)))
	before=$(ran $reader)
	for i in $(seq 20); do
		mkdir "/tmp/cgroup/tcplat-$i"
		(
			echo 0 >"/tmp/cgroup/tcplat-$i/cgroup.procs"
			exec /traffic wwr -n 3600 --interval 1000 --timeout 7200
		) >/dev/null &
	done
	holds=$(cat $T/sndhold/nagle)
	sleep 3600
	lines=$(wc -l </tmp/lines)
	fact 'holds in an hour' $(($(cat $T/sndhold/nagle) - holds))
	fact 'lines of record in an hour' "$lines"
	fact 'bytes of them' "$(wc -c </tmp/lines)"
	fact 'instructions of record for a line' $((($(ran $reader) - before) / lines))
	fact 'kB of record itself at most' "$(awk '$1 == "VmHWM:" { print $2 }' /proc/$reader/status)"
	kill -TERM $reader
	wait
}

part_hour() {
	[ ! -e /tcplat ] || with_module hour
}

for part in $parts; do
	"part_$part"
done
