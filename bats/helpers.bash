# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# shellcheck disable=SC2034,SC2119,SC2120 # used by files that load this, which pass parameters
#
# Shared by the bats files that run as root in a guest of bats/run, which sets TCPLAT_KO
# (the module), TCPLAT (the reader), TRAFFIC (the workloads), TCPLAT_KERNEL (the kernel's
# name), TCPLAT_CONFIG (its configuration), TCPLAT_MODULES (those of bats/kernel) and
# TCPLAT_HARD (set if tests may take hours).

load ../libraries
load ../../vm/netns

# Tests compare error messages.
export LC_ALL=C

TREE=/sys/kernel/tcplat
DEBUG=/sys/kernel/debug/tcplat
KPROBES=/sys/kernel/debug/kprobes/list
TRACING=/sys/kernel/tracing
TRACED=$TRACING/enabled_functions
# Of the test itself.
INSTANCE=$TRACING/instances/tcplat_test

# often SHORT LONG: prints the number of repetitions, or seconds: SHORT in make check, LONG in
# make check-hard.
often() { if [[ ${TCPLAT_HARD-} ]]; then echo "$2"; else echo "$1"; fi; }

# For what depends on a slow kernel's pace.
on_debug() { [[ ${TCPLAT_KERNEL-} == debug ]]; }

# Where times are exact: the clock counts instructions, and stands still while the emulator waits.
on_icount() { [[ ${TCPLAT_ICOUNT-} ]]; }

# Enterprise Linux 8 has the only kernel before 5 that the module can be built for.
on_el8() { [[ $(uname -r) == 4.* ]]; }

# Enterprise Linux 9.0 wants three replies for pingpong mode, each to a request that comes in a later
# jiffy than the reply before. A late ACK ends the mode, so every fourth write-write-read is late.
wants_three_replies() {
	[[ $(uname -r) == 5.14.* ]] && python3 - <<-'END'
		import socket, sys
		def one_is_enough():
		    listener = socket.create_server(("127.0.0.1", 0))
		    client = socket.create_connection(listener.getsockname())
		    server = listener.accept()[0]
		    client.send(b"x")
		    server.send(server.recv(1))
		    return not server.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
		sys.exit(any(one_is_enough() for _ in range(5)))
	END
}

# Options of workloads whose replies must begin pingpong mode; none on other kernels.
PACED=()
! wants_three_replies || PACED=(-n 120 --interval 8)

# many SHORT LONG: the same for repetitions that take a second or more, and for numbers of sockets;
# on the debug kernel, where they take ten times longer, an eighth of LONG, so that a power of two
# stays one.
many() {
	if on_debug; then often "$1" $(($2 / 8)); else often "$@"; fi
}

# slower SECONDS: prints SECONDS; eight times as many on the debug kernel, where all takes longer.
slower() { if on_debug; then echo $(($1 * 8)); else echo "$1"; fi; }

# progress TIMES: reports the progress of tests that take hours.
progress() { [[ ! ${TCPLAT_HARD-} ]] || (($1 % 50)) || echo "# $1 times so far" >&3; }

# Without these, for hide=, no group can be armed.
ONE_OF_EACH_GROUP=tcp_delack_timer_handler,__inet_hash_connect,inet_csk_get_port,sk_stream_wait_memory
ONE_OF_EACH_GROUP+=,tcp_cwnd_restart,tcp_push,tcp_retransmit_timer,tcp_conn_request,tcp_send_probe0
GROUPS_ALL=(delack ackmode portsearch bindsearch sndwait sndhold idlerestart loss listen peerwnd answer)

# cgroups: mounts the cgroups of version 2, unless they are.
cgroups() {
	mkdir -p /sys/fs/cgroup
	grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts || mount -t cgroup2 cgroup2 /sys/fs/cgroup
}

# in_cgroup NAME COMMAND...: runs COMMAND in this cgroup.
in_cgroup() {
	(
		echo "$BASHPID" >"/sys/fs/cgroup/$1/cgroup.procs"
		"${@:2}"
	)
}

# ---- the module ----

loaded() { [[ -d /sys/module/tcplat ]]; }

stays_loaded() {
	run rmmod tcplat
	assert_failure
	assert_output --partial 'in use'
}

# load_module [PARAMETER...]
load_module() { insmod "$TCPLAT_KO" "$@"; }

unload_module() { rmmod tcplat; }

# For setup_file: loads the module afresh, whatever the previous file left.
load_afresh() {
	! loaded || unload_module
	load_module
}

# ---- the module's counts ----

# counter GROUP/FILE: prints the counter.
counter() {
	local line
	read -r line <"$TREE/$1"
	echo "$line"
}

# counter_into VARIABLE GROUP/FILE: sets VARIABLE, without starting a process.
counter_into() { read -r "$1" <"$TREE/$2"; }

# debug_lines FILE: sets found to the lines of a file of tcplat in debugfs, without comments. The
# file is read at once: it would be generated again for each line that `read` takes from it.
debug_lines() {
	local line
	mapfile -t <"$DEBUG/$1"
	found=()
	for line in "${MAPFILE[@]}"; do
		[[ $line == '#'* ]] || found+=("$line")
	done
}

# hist_sum GROUP/HIST: sets sum to the sum of its counts.
hist_sum() {
	local counts n
	read -ra counts <"$TREE/$1"
	sum=0
	for n in "${counts[@]}"; do
		((sum += n)) || :
	done
}

reset_counters() { echo 1 >"$TREE/reset"; }

# Prints every readable file with its contents.
tree_contents() {
	local f
	find "$TREE" -type f -perm /444 | sort | while read -r f; do
		printf '%s: %s\n' "$f" "$(<"$f")"
	done
}

# same WHAT GOT WANTED: fails unless GOT equals WANTED.
same() { [[ $2 == "$3" ]] || fail "$1: $2, expected $3"; }

# finds_nothing ARGUMENT...: fails, and shows what it found, if grep finds something or cannot read
# its files.
finds_nothing() {
	run grep "$@"
	assert_failure 1
}

# needs_tls: loads kernel TLS, which is not a module everywhere, with what its cipher needs, or skips
# the test. bats/run takes the modules into the guest for files that call it.
needs_tls() {
	local module
	for module in tls aes_generic ctr ghash_generic gcm; do
		modprobe "$module" 2>/dev/null || :
	done
	grep -qw tls /proc/sys/net/ipv4/tcp_available_ulp || skip "this kernel has no TLS"
}

# ---- the kernel's counts ----

# tcp_ext NAME..., tcp_mib NAME...: print the sums of these counters of /proc/net/netstat and
# /proc/net/snmp over the test's namespaces, and the first one unless FIRST_NETNS is empty; fail if
# the kernel does not have a name. Start few processes, since an emulated machine starts few per
# second.
tcp_ext() { kernel_counts netstat TcpExt "$@"; }
tcp_mib() { kernel_counts snmp Tcp "$@"; }

# kernel_counts FILE GROUP NAME...: prints the sums.
kernel_counts() {
	local file=$1 group=$2 ns name i lines names values want out=''
	local -A sum=()
	shift 2
	for ns in ${FIRST_NETNS-.} ${NAMESPACES[@]+"${NAMESPACES[@]}"}; do
		if [[ $ns == . ]]; then
			mapfile -t lines <"/proc/net/$file"
		else
			mapfile -t lines < <(ip netns exec "$ns" cat "/proc/net/$file")
		fi
		names=() values=()
		for name in "${lines[@]}"; do
			[[ $name == "$group":* ]] || continue
			names=("${values[@]}")
			read -ra values <<<"$name"
		done
		for i in "${!names[@]}"; do
			((i == 0)) || ((sum[${names[i]}] += values[i])) || :
		done
	done
	for want; do
		if [[ ! ${sum[$want]+known} ]]; then
			echo "/proc/net/$file has no $group$want" >&2
			return 1
		fi
		out+=" ${sum[$want]}"
	done
	echo "${out# }"
}

# Waits until neither the kernel's nor the module's counts of delayed ACKs have changed for
# half a second. A delayed-ACK timer runs for at most HZ/5, 0.2 s, so none is pending then.
quiet() {
	local before after i
	after=$(both_counts) || return
	for ((i = 0; i < 60; i++)); do
		before=$after
		sleep 0.5
		after=$(both_counts) || return
		[[ $before != "$after" ]] || return 0
	done
	fail "the counters of delayed ACKs still change after 30 s"
}

# Waits until no namespace has a TCP socket, except in TIME_WAIT. Closed sockets live on without
# a process until their last segments are acknowledged.
no_sockets() { soon none_allocated; }

# Unlike inuse, alloc counts all namespaces.
none_allocated() { [[ $(</proc/net/sockstat) =~ TCP:.*\ alloc\ 0\  ]]; }

# probes_agree OURS KERNEL: so many of the kernel's tail loss probes are in loss/tlp, but for the hits
# that its return probe missed.
probes_agree() {
	local missed
	counter_into missed loss/missed
	(($2 - missed <= $1 && $1 <= $2)) || fail "$1 tail loss probes, the kernel has $2, $missed missed"
}

both_counts() {
	tcp_ext DelayedACKs DelayedACKLocked || return
	[[ ! -e $TREE/delack/timeouts ]] || {
		counter delack/timeouts
		counter delack/deferred
	}
}

# ---- kprobe events of tracefs, which count calls independently of the module ----

# event_on NAME FUNCTION [KIND]: counts the calls of FUNCTION from now on; with KIND r4096 its
# returns, of up to 4096 concurrent calls.
event_on() {
	# Hits are counted without recording them, which costs much less.
	echo 0 >"$TRACING/tracing_on"
	echo "${3:-p}:tcplat_test/$1 $2" >>"$TRACING/kprobe_events"
	echo 1 >"$TRACING/events/tcplat_test/$1/enable"
}

# arg N: what kprobe events call a function's argument N; before Linux 4.20 they know only registers.
arg() {
	local registers=('' di si dx)
	if grep -qF "\$arg<N>" "$TRACING/README"; then
		echo "\$arg$1"
	else
		echo "%${registers[$1]}"
	fi
}

# trace_event EVENT: from now on the trace has this event of the module.
trace_event() {
	echo 1 >"$TRACING/events/tcplat/$1/enable"
	echo >"$TRACING/trace"
	echo 1 >"$TRACING/tracing_on"
}

# traced_times EVENT [WORDS]: prints how many such events with WORDS the trace has, and the sum of
# their time_ns.
traced_times() {
	awk -v event=" $1: " -v words="${2-}" '
		index($0, event) && index($0 " ", words) { n++; sub(/.*time_ns=/, ""); sum += $1 }
		END { printf "%d %.0f\n", n, sum }' "$TRACING/trace"
}

# The module's own too, which a test that failed leaves on: they would keep the module loaded.
events_off() {
	local event
	! loaded || echo 0 >"$TRACING/events/tcplat/enable"
	[[ -d $TRACING/events/tcplat_test ]] || return 0
	for event in "$TRACING"/events/tcplat_test/*/; do
		event=${event%/}
		echo 0 >"$event/enable"
		echo "-:tcplat_test/${event##*/}" >>"$TRACING/kprobe_events"
	done
	echo 1 >"$TRACING/tracing_on"
}

# event_hits NAME: sets hits to the number of hits since event_on; fails if any was missed.
event_hits() {
	local name count missed
	hits=''
	while read -r name count missed; do
		[[ $name == "$1" ]] || continue
		((missed == 0)) || fail "$missed hits of $name were missed by the oracle"
		hits=$count
	done <"$TRACING/kprobe_profile"
	[[ $hits ]] || fail "no event '$1'"
}

# Sets missed to the number of hits that the existing events have missed.
events_missed() {
	local n
	missed=0
	while read -r _ _ n; do
		((missed += n)) || :
	done <"$TRACING/kprobe_profile"
}

# all_seen COMMAND...: runs COMMAND, and again if events missed a hit meanwhile, up to five times.
# A CPU that runs the handler of one kprobe runs no other's. If an interrupt comes during a handler
# in a process, softirqs are next, and the events miss all that these do: of timers that expire
# with that tick, every one. COMMAND must clear what it collects.
all_seen() {
	local try before missed
	events_missed
	for try in {1..5}; do
		before=$missed
		"$@"
		events_missed
		((missed > before)) || return 0
		echo "# try $try: events missed $((missed - before)) hits" >&3
	done
	fail "events missed hits in each of $try tries"
}

# Prints HZ from the kernel's configuration, which bats/run provides: not every kernel has
# /proc/config.gz.
config_hz() { sed -n 's/^CONFIG_HZ=//p' "$TCPLAT_CONFIG"; }

# Prints everything that is attached to kernel functions, from the kernel's lists: kprobes
# (optimized ones lie a few bytes behind the entry) and callbacks of ftrace. Sorted, without
# addresses, and without what the kernel changes later by itself.
attachments() {
	awk -v kprobes="$KPROBES" '
		FILENAME == kprobes { print "kprobe", $2, $3; next }
		/^[^ \t]/ { print "ftrace", $1, $2 }' "$KPROBES" "$TRACED" | sort
}

# Prints everything that a module can leave behind: files, kprobes, events, symbols.
traces() {
	ls -d "$TREE" "$DEBUG" /sys/module/tcplat 2>&1 || :
	attachments
	ls -d "$TRACING"/events/tcplat 2>&1 || :
	grep -c '\[tcplat\]' /proc/kallsyms || :
	grep tcplat /proc/modules || :
}

# Fails unless the module has counted each event that the kernel has counted, since the reset; but for
# writes whose last packet leaves the host between the module's look and the kernel's, on one of them.
assert_all_seen() {
	local file unseen most
	for file in "$TREE"/*/*_unseen; do
		[[ -e $file ]] || continue
		read -r unseen <"$file"
		most=0
		[[ $file != */autocork_unseen ]] || most=$((1 + $(counter sndhold/autocork) / 100))
		((${unseen#-} <= most)) || fail "${file#"$TREE"/}: $unseen, expected 0"
	done
}

# Compares traces() with $before, which was set without the module.
assert_no_trace() {
	local now
	now=$(traces)
	same traces "$now" "$before"
	[[ ! $now =~ (^|$'\n')/sys ]] || fail "left behind: $now"
	assert_no_splat
}

# Fails if the kernel is tainted by a warning, oops, soft lockup or bad page.
assert_no_splat() {
	local tainted
	tainted=$(</proc/sys/kernel/tainted)
	((!(tainted & (1 << 9 | 1 << 7 | 1 << 14 | 1 << 5)))) || {
		dmesg | tail -n 80
		fail "the kernel complained: tainted is $tainted"
	}
}

# A switch of all kprobes.
ARMED=/sys/kernel/debug/kprobes/enabled

# set_meanwhile FILE VALUE: writes VALUE to FILE, until the end of the test.
declare -gA as_it_was=()
set_meanwhile() {
	[[ ${as_it_was[$1]+known} ]] || as_it_was[$1]=$(<"$1")
	echo "$2" >"$1"
}

set_back() {
	local file
	for file in "${!as_it_was[@]}"; do
		echo "${as_it_was[$file]}" >"$file"
	done
}

# tidy: for teardown(): ends what a failed test has left running, and removes what a test has made.
# Fails if the module missed an event, or if the kernel complained.
tidy() {
	[[ ! ${background[*]:-} ]] || kill "${background[@]}" 2>/dev/null || :
	[[ ! ${server:-} ]] || kill "$server" 2>/dev/null || :
	[[ ! ${ports_pid:-} ]] || stop_ports
	remove_namespaces
	[[ ! -d $INSTANCE ]] || rmdir "$INSTANCE"
	events_off
	set_back
	assert_all_seen
	assert_no_splat
}

# bpftrace_ready PID LOG: waits until bpftrace prints "ready" to LOG, after it has compiled and
# attached its programs.
bpftrace_ready() {
	local i status='still runs'
	for ((i = 0; i < 600; i++)); do
		! grep -qs ready "$2" || return 0
		kill -0 "$1" 2>/dev/null || { status=0; wait "$1" || status=$?; break; }
		sleep 0.2
	done
	fail "bpftrace did not start ($status): $(<"$2")"
}

# interrupt PID: sends SIGINT until bpftrace has ended: it loses a signal that arrives while it is
# not sleeping.
interrupt() {
	local i
	while kill -INT "$1" 2>/dev/null; do
		for ((i = 0; i < 25; i++)); do
			kill -0 "$1" 2>/dev/null || break 2
			sleep 0.2
		done
	done
	wait "$1" || :
}

# ---- writing ----

# write_once FILE: writes stdin to FILE with a single write(2), as sysfs requires; the shell's
# printf may split it. Prints the error message.
write_once() {
	dd of="$1" bs=1M conv=notrunc iflag=fullblock status=none 2>&1
}

# ---- traffic ----

# traffic WORKLOAD [OPTION...]: runs a workload over loopback, until its sockets are gone.
traffic() { "$TRAFFIC" "$@" --settle; }

# every_event: causes each kind of event over loopback, with both families, and its counters.
every_event() {
	local family late
	# Late ACKs that nobody waits for.
	"$TRAFFIC" oneway -n 40 --interval 90 --hold 65 --settle >/dev/null 3>&- &
	late=$!
	for family in -4 -6; do
		"$TRAFFIC" wwr "$family" -n 10 "${PACED[@]}" --settle >/dev/null
		"$TRAFFIC" http "$family" -n 4 --cork --settle >/dev/null
		"$TRAFFIC" full "$family" -n 2 --interval 50 --hold 400 --settle >/dev/null
		"$TRAFFIC" again "$family" --again level --sndbuf 16384 -c 2 --settle >/dev/null
		"$TRAFFIC" idle "$family" -s 300000 --interval 500 --settle >/dev/null
		crowded "$family"
	done
	"${TRAFFIC%/*}/ports" "connect 5 reset" >/dev/null
	wait "$late"
}

# crowded FAMILY: of two clients, the second finds the accept queue full; the first gets a late
# answer, and then closes its window for a while.
crowded() {
	python3 - "$1" <<-'END'
		import select, socket, sys, time
		family, host = (socket.AF_INET, "127.0.0.1") if sys.argv[1] == "-4" else (socket.AF_INET6, "::1")
		listener = socket.create_server((host, 0), family=family, backlog=0)
		first, second = socket.socket(family), socket.socket(family)
		first.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
		first.connect(listener.getsockname())
		second.setblocking(False)
		second.connect_ex(listener.getsockname())
		time.sleep(0.05)
		server = listener.accept()[0]
		first.send(b"x")
		server.recv(1)
		time.sleep(0.038)
		server.send(b"x")
		first.recv(1)
		server.setblocking(False)
		sent = server.send(bytes(100000))
		time.sleep(0.2)
		first.recv(sent, socket.MSG_WAITALL)
		assert select.select([], [second], [], 60)[1], "the SYN was not sent again"
	END
}

# each_family COMMAND [WORD...]: runs COMMAND 4 WORD..., then COMMAND 6 WORD..., each with the
# module's counts at zero, or after the file's from_zero().
each_family() {
	local family zero=reset_counters
	! declare -F from_zero >/dev/null || zero=from_zero
	for family in 4 6; do
		echo "# IPv$family"
		"$zero"
		"$1" "$family" "${@:2}"
		assert_all_seen
	done
}

# added COUNTER[+COUNTER...]: prints the sum of these counters.
added() {
	local file value n=0
	for file in ${1//+/ }; do
		counter_into value "$file"
		((n += value)) || :
	done
	echo "$n"
}

# listening PID LOG: waits until this server of traffic prints to LOG that it listens.
listening() {
	until grep -q '^port=' "$2"; do
		kill -0 "$1" 2>/dev/null || return 1
		sleep 0.1
	done
}

# set_pairs ARRAY TEXT: sets ARRAY[KEY] to VALUE for each KEY=VALUE of TEXT.
set_pairs() {
	local -n to=$1
	local pair
	for pair in $2; do
		to[${pair%%=*}]=${pair#*=}
	done
}

# told_by COMMAND...: runs a workload, and sets said[KEY] from the KEY=VALUE pairs of its last line.
declare -gA said
told_by() {
	local line
	"$@" >"$BATS_TEST_TMPDIR/told" || { fail "failed: $*"; return; }
	line=$(tail -n 1 "$BATS_TEST_TMPDIR/told")
	[[ $line == workload=* ]] || { fail "no result: $*"; return; }
	set_pairs said "$line"
}

# The addresses of tcplat-b.
declare -gA SERVER=([4]=10.9.0.2 [6]=fd09::2)

# between WORKLOAD ADDRESS [OPTION...]: the same, with the server, whose process is $server
# meanwhile, in tcplat-b and the client in tcplat-a; client_in is what runs the client.
client_in=()
between() {
	local workload=$1 address=$2 status=0
	shift 2
	: >"$BATS_TEST_TMPDIR/server.log"
	ip netns exec tcplat-b "$TRAFFIC" "$workload" "$@" --server --bind "$address" \
		--port 7000 --settle >"$BATS_TEST_TMPDIR/server.log" 3>&- &
	server=$!
	listening "$server" "$BATS_TEST_TMPDIR/server.log" || return
	"${client_in[@]}" ip netns exec tcplat-a "$TRAFFIC" "$workload" "$@" --connect "$address" \
		--port 7000 --settle || status=$?
	wait "$server" || status=$?
	server=''
	return "$status"
}

PAIR=${BASH_SOURCE[0]%/*}

# python CODE: runs Python with the functions of pair.py and of the file's PRELUDE; sets said[...]
# from the lines NAME=VALUE that it prints.
python() {
	local out
	# A program that fails at one end leaves the other one waiting. Only the first one of a guest
	# compiles its modules, which takes 400 million instructions.
	out=$(PYTHONPATH=$PAIR PYTHONPYCACHEPREFIX=/tmp/pycache \
		timeout 600 python3 -Sc "from pair import *
${PRELUDE-}
$1") || fail "$out"
	set_pairs said "$out"
	echo "# said: $(declare -p said)"
}
