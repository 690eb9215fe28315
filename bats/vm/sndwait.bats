#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A sender is faster than its peer reads, and its buffer is full: send() sleeps, or fails and the
# program waits for room. Each wait is one that kprobe events, with their own readings of the
# clock, or the program have seen, and takes as long. Only this finds waits that are missed,
# invented or given a wrong time.

# shellcheck disable=SC2016 # Perl's variables
# shellcheck disable=SC2154 # told_by sets said

load ../loaded

WAITING=sk_stream_wait_memory

setup() {
	untraced
	loaded || load_module
	trace_waits
	reset_counters
}

teardown() {
	nvme_stop
	echo local >"$TRACING/trace_clock"
	tidy
}

# ---- the oracle ----

trace_waits() {
	echo 0 >"$TRACING/tracing_on"
	echo mono >"$TRACING/trace_clock"
	echo "p:tcplat_test/enter $WAITING time=+0($(arg 2)):s64" >>"$TRACING/kprobe_events"
	echo "r4096:tcplat_test/leave $WAITING error=\$retval:s32" >>"$TRACING/kprobe_events"
	echo 1 >"$TRACING/events/tcplat_test/enable"
	echo >"$TRACING/trace"
	echo 1 >"$TRACING/tracing_on"
}

# Sets traced[...] from the trace: calls that may wait (calls), those that have returned (waits),
# those that timed out, their total and longest time in ns, and calls that may not wait (refused).
declare -gA traced
read_trace() {
	local name value
	while IFS='=' read -r name value; do
		traced[$name]=$value
	done < <(sed 's/^ *[^ ].*-\([0-9][0-9]*\) *\[[0-9]*\]/\1/' "$TRACING/trace" | awk '
		/^#/ { next }
		{ at = $3; sub(/:/, "", at); split(at, part, "."); at = part[1] * 1000000 + part[2] }
		/ enter: / { blocks = $0 !~ /time=0$/; since[$1] = blocks ? at : 0; refused += !blocks; calls += blocks }
		/ leave: / && since[$1] {
			took = at - since[$1]
			since[$1] = 0
			waits++
			timeouts += /error=-11$/
			sum += took
			if (took > max) max = took
		}
		END {
			printf "calls=%d\nwaits=%d\ntimeouts=%d\n", calls, waits, timeouts
			printf "sum=%d\nmax=%d\nrefused=%d\n", sum * 1000, max * 1000, refused
		}')
}

# Sets counted[...] from the group's files; long counts waits longer than 16.8 ms.
declare -gA counted
read_group() {
	local i bounds counts
	counter_into "counted[waits]" sndwait/waits
	counter_into "counted[timeouts]" sndwait/timeouts
	counter_into "counted[sum]" sndwait/time_ns
	counter_into "counted[max]" sndwait/time_max_ns
	read -ra counts <"$TREE/sndwait/time_hist"
	read -ra bounds <"$TREE/sndwait/time_hist_le_ns"
	counted[all]=0 counted[long]=0
	for i in "${!counts[@]}"; do
		((counted[all] += counts[i])) || :
		[[ ${bounds[i]} != +Inf ]] && ((bounds[i] <= 16777216)) ||
			((counted[long] += counts[i])) || :
	done
}

# timely WHAT NS FROM TO: a time is in this range, at most TO only where the machine cannot stand still
# between two readings of the clock while its emulator waits for a processor.
timely() {
	local most=$4
	on_icount || most=$2
	(($2 >= $3 && $2 <= most)) || fail "$1: $2 ns, expected $3 to $4"
}

# agree WORKLOAD...: module and trace have the same calls, and times within a tick per call.
agree() {
	local tick
	counter_into tick clock/tick_ns
	echo >"$TRACING/trace"
	reset_counters
	told_by "$TRAFFIC" "$@"
	read_trace
	read_group
	echo "# traced: $(declare -p traced)"
	echo "# counted: $(declare -p counted)"
	assert_equal "${counted[waits]} waits" "${traced[waits]} waits"
	assert_equal "${counted[timeouts]} timeouts" "${traced[timeouts]} timeouts"
	assert_equal "${counted[all]} in the histogram" "${counted[waits]} in the histogram"
	assert_equal "$(counter sndwait/missed) missed" "0 missed"
	on_icount || return 0
	timely sum "${counted[sum]}" $((traced[sum] - traced[waits] * tick)) $((traced[sum] + traced[waits] * tick))
	timely max "${counted[max]}" $((traced[max] - tick)) $((traced[max] + tick))
}

# ---- slow calls of a fast sender ----

# The mean send() takes microseconds, the slowest tens of milliseconds: those that waited. No send()
# is shorter than its wait. On a machine that stands still sometimes, others are as long.
slow_sends() {
	local i hist long=0
	agree stream "-$1" --sndbuf 32768
	IFS=, read -ra hist <<<"${said[hist_ns]}"
	for ((i = 15; i < ${#hist[@]}; i++)); do
		((long += hist[i])) || :
	done
	echo "# send(): mean $((said[sum_ns] / said[samples])) ns, max ${said[max_ns]} ns, $long above 16.8 ms"
	((counted[sum] <= said[sum_ns] && counted[max] <= said[max_ns] && counted[long] <= long)) ||
		fail "waits that were longer than the calls that waited"
	on_icount || return 0
	((counted[long] > 5 && counted[long] > long / 2)) || fail "the slow send() did not wait"
	((said[sum_ns] / said[samples] < 1000000 && said[max_ns] > 30000000)) || fail "no slow send(), or only such"
	# Waits are most of the time in excess of sends that do not wait, except on a debug kernel, where
	# passing data on to the receiver takes long.
	on_debug || ((counted[sum] > (said[sum_ns] - said[samples] * said[median_ns]) / 2)) ||
		fail "the waits are not what was slow"
}

@test "the slow send() of a quick sender are those that waited" { each_family slow_sends; }

slow_reader() { agree slowreader "-$1" -n 40 --sndbuf 8192; ((counted[waits] > 0)); }

@test "slow reader" { each_family slow_reader; }

# ---- timeouts ----

timeouts() {
	agree full "-$1" -n 2 -c 3 --interval 150 --hold 600 --sndbuf 16384
	assert_equal "${counted[timeouts]} timeouts" "6 timeouts"
	((counted[sum] >= 6 * 140000000)) || fail "6 waits of 150 ms took ${counted[sum]} ns"
}

@test "waits that run out of time" { each_family timeouts; }

@test "a sender that does not block never waits" {
	agree bulk -n 40 --sndbuf 8192 --rcvbuf 8192
	((traced[refused] > 0)) || fail "the buffer was never full"
	assert_equal "${counted[waits]} waits" "0 waits"
}

# ---- senders that do not block ----

# again_run OPTION...: sets seen[...] to what the senders of one run saw, and counted[...] from the
# group's files.
declare -gA seen
again_run() {
	local line pair
	seen=([waits]=0 [refused]=0 [gave_up]=0 [unsure]=0 [sum]=0 [max]=0)
	reset_counters
	"$TRAFFIC" again "$@" --settle >"$BATS_TEST_TMPDIR/again"
	while read -r line; do
		[[ $line == again\ * ]] || continue
		for pair in ${line#again }; do
			[[ ${pair#*=} =~ ^[0-9]+$ ]] || fail "cannot parse '$line'"
			case $pair in
			max_ns=*) ((${pair#*=} <= seen[max])) || seen[max]=${pair#*=} ;;
			sum_ns=*) ((seen[sum] += ${pair#*=})) || : ;;
			*) ((seen[${pair%%=*}] += ${pair#*=})) || : ;;
			esac
		done
	done <"$BATS_TEST_TMPDIR/again"
	counter_into "counted[again]" sndwait/again
	counter_into "counted[gave_up]" sndwait/again_gave_up
	counter_into "counted[untracked]" sndwait/again_untracked
	counter_into "counted[sum]" sndwait/again_time_ns
	counter_into "counted[max]" sndwait/again_time_max_ns
	hist_sum sndwait/again_hist
	echo "# seen: $(declare -p seen)"
	echo "# counted: $(declare -p counted)"
	same "in the histogram, and given up" "$((sum + counted[gave_up]))" "${counted[again]}"
	same "no room, missed" "${counted[untracked]} $(counter sndwait/missed)" "0 0"
	same "sleeping" "$(counter sndwait/waits)" 0
}

# again FAMILY HOW: the group counts each wait that the senders saw, and no other. A wait lies
# within the sender's measurement, from before the send() until epoll_wait() returned, which is at
# most a tick longer. A sender cannot tell one wait from two if there was room just before it tried
# again.
again() {
	local tick more
	counter_into tick clock/tick_ns
	again_run "-$1" --again "$2" --sndbuf 16384 -c 2
	more=$((counted[again] - seen[waits] - seen[gave_up]))
	((${more#-} <= seen[unsure])) || fail "$more more waits than the senders saw"
	same "given up" "${counted[gave_up]}" "${seen[gave_up]}"
	((seen[waits] > 20)) || fail "hardly any"
	if ((seen[unsure])); then
		! on_icount || fail "${seen[unsure]} ambiguous waits"
		return
	fi
	timely "seen in all beyond the sum" $((seen[sum] - counted[sum])) 0 $((seen[waits] * tick))
	timely "seen at most beyond the longest" $((seen[max] - counted[max])) 0 "$tick"
}

# Each wait has several refused calls, and begins with the first.
too_early() {
	again "$1" twice
	((seen[refused] > 2 * seen[waits])) || fail "hardly any was refused twice"
}

@test "again: epoll, level-triggered" { each_family again level; }
@test "again: epoll, edge-triggered" { each_family again edge; }
@test "again: a sender that tries again too early" { each_family too_early; }
# It retries when the kernel's own poll reports room.
@test "again: io_uring" { each_family again uring; }

again_gives_up() {
	again_run "-$1" --again leave --sndbuf 16384 -c 5 --hold 200 --interval 3000
	same "given up" "${seen[gave_up]} ${counted[gave_up]}" "5 5"
	same waits "${counted[again]}" $((seen[waits] + 5))
	# Waits that were given up have no time.
	! on_icount || ((counted[max] < 200000000)) || fail "a wait of ${counted[max]} ns"
}

@test "again: a sender that gives up" { each_family again_gives_up; }

CONNECT='$address = pack("S n C4 x8", 2, 0, 127, 0, 0, 1);
	socket($l, 2, 1, 0) and bind($l, $address) and listen($l, 1) and socket($s, 2, 1, 0) and
		connect($s, getsockname($l)) and accept($p, $l) or die "$!\n";'

# fill_and CODE [BEFORE]: Perl that, after BEFORE, fills a socket $s, whose peer $p does not read, and
# then runs CODE. The guest's Perl has no modules: 2 and 1 are AF_INET and SOCK_STREAM, 4 and 2048 F_SETFL and
# O_NONBLOCK, 11 EAGAIN, and in SOL_SOCKET (1) 7, 13 and 32 are SO_SNDBUF, SO_LINGER and
# SO_SNDBUFFORCE.
fill_and() {
	perl -e "$CONNECT"'
		fcntl($s, 4, 2048) or die "$!\n";
		'"${2-}"'
		for (1 .. 3) {
			1 while defined(syswrite($s, "x" x 65536));
			$! == 11 or die "$!\n";
			select(undef, undef, undef, 0.2);
		}
		'"$1"
}

# all_given_up: no wait ended with room after the buffer was full for good.
all_given_up() {
	same "given up" "$(counter sndwait/again_gave_up)" 1
	counter_into "counted[max]" sndwait/again_time_max_ns
	((counted[max] < 100000000)) || fail "a wait of ${counted[max]} ns"
}

# The peer reads before it exits, so there is room once more.
@test "again: a sender that shuts down, disconnects or is reset has given up" {
	fill_and 'shutdown($s, 1); 1 while sysread($p, $_, 1 << 20);'
	all_given_up
	reset_counters
	# connect() to no address, then a new connection, which did not wait.
	fill_and '
		connect($s, pack("S x14", 0)) or die "$!\n";
		select(undef, undef, undef, 0.3);
		fcntl($s, 4, 0);
		connect($s, getsockname($l)) and accept($q, $l) or die "$!\n";
		setsockopt($s, 1, 7, pack("i", 1 << 20)) or die "$!\n";'
	all_given_up
	reset_counters
	# ackmode would have a look at each socket that is destroyed.
	set_meanwhile "$TREE/ackmode/enabled" 0
	fill_and 'setsockopt($p, 1, 13, pack("ii", 1, 0)) or die "$!\n"; close($p);
		select(undef, undef, undef, 0.3);'
	all_given_up
}

# Where threads sleep on a socket, some kernels do not disconnect it.
@test "again: a disconnect that fails while another process reads ends no wait" {
	fill_and '
		fcntl($s, 4, 0);
		$reader = fork or sysread($s, $_, 1), exit;
		select(undef, undef, undef, 0.3);
		connect($s, pack("S x14", 0)) or $! == 16 or die "$!\n";
		print "refused\n" if $! == 16;
		fcntl($p, 4, 2048);
		for (1 .. 20) { 1 while sysread($p, $_, 1 << 20); select(undef, undef, undef, 0.05); }
		kill(9, $reader);' >out
	no_sockets
	same "waits, given up" "$(counter sndwait/again) $(counter sndwait/again_gave_up)" \
		"1 $(($(grep -c refused out) == 0))"
}

@test "again: more room by SO_SNDBUFFORCE ends a wait" {
	fill_and '
		system("echo 1 >'"$TREE"'/reset");
		setsockopt($s, 1, 32, pack("i", 1 << 23)) or die "$!\n";
		open($f, "<", "'"$TREE"'/sndwait/again") and <$f> == 1 or die "not over\n";
		open($f, "<", "'"$TREE"'/sndwait/again_gave_up") and <$f> == 0 or die "given up\n";'
}

@test "again: a wait that the group is switched off in is not counted" {
	local switch='
		system("cd '"$TREE"' && echo 0 >sndwait/enabled && echo 1 >sndwait/enabled && echo 1 >reset");'
	fill_and "$switch"' close($s); 1 while sysread($p, $_, 1 << 20);'
	no_sockets
	same "waits" "$(counter sndwait/again)" 0
	# It is followed again from its next refused call on.
	fill_and "$switch"' syswrite($s, "x"); close($s); close($p);'
	no_sockets
	same "waits, given up" "$(counter sndwait/again) $(counter sndwait/again_gave_up)" "1 1"
}

# ---- sockets that belong to a part of the kernel ----

# Its own sk_write_space is called instead of sk_stream_write_space(), where a wait would end.
NVMET=/sys/kernel/config/nvmet

# nvme_stop: removes what nvme_start made, as far as it exists.
nvme_stop() {
	local file
	for file in /sys/class/nvme/*/delete_controller; do
		[[ ! -e $file ]] || echo 1 >"$file"
	done
	[[ -d $NVMET ]] || return 0
	rm -f "$NVMET/ports/1/subsystems/tcplat"
	for file in ports/1 subsystems/tcplat/namespaces/1 subsystems/tcplat; do
		[[ ! -d $NVMET/$file ]] || rmdir "$NVMET/$file"
	done
}

# nvme_start FAMILY: exports a device that keeps nothing, and connects to it over loopback.
nvme_start() {
	local subsystem=$NVMET/subsystems/tcplat port=$NVMET/ports/1 module address=127.0.0.1
	[[ $1 == 4 ]] || address=::1
	for module in null_blk nvmet_tcp nvme_tcp; do
		modprobe "$module" 2>/dev/null || skip "this kernel has no $module"
	done
	[[ -d $NVMET ]] || mount -t configfs configfs "${NVMET%/*}"
	mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
	echo 1 >"$subsystem/attr_allow_any_host"
	echo /dev/nullb0 >"$subsystem/namespaces/1/device_path"
	echo 1 >"$subsystem/namespaces/1/enable"
	echo "ipv$1" >"$port/addr_adrfam"
	echo tcp >"$port/addr_trtype"
	echo "$address" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$subsystem" "$port/subsystems/tcplat"
	echo "transport=tcp,traddr=$address,trsvcid=4420,nqn=tcplat,nr_io_queues=1" >/dev/nvme-fabrics
	soon test -b /dev/nvme0n1
}

# no_waits: senders were refused, and none of them counts, or is left in the table.
no_waits() {
	read_trace
	((traced[refused] > 0)) || fail "the buffer was never full"
	same "again, given up, untracked" "$(counter sndwait/again) $(counter sndwait/again_gave_up) $(
		counter sndwait/again_untracked)" "0 0 0"
}

nvme() {
	echo >"$TRACING/trace"
	# The buffer would have room for all requests in flight.
	set_meanwhile /proc/sys/net/ipv4/tcp_wmem "4096 131072 131072"
	nvme_start "$1"
	dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=64 oflag=direct status=none
	dd if=/dev/nvme0n1 of=/dev/null bs=1M count=64 iflag=direct status=none
	no_waits
	nvme_stop
	no_sockets
	no_waits
}

@test "again: NVMe/TCP moves 64 MB each way" { each_family nvme; }

# bpf(), which is 321, makes a map of the type 15 (0), and puts the socket into it (2). The map refers
# to it in the field where a part of the kernel would refer to its own data.
@test "again: a socket in a sockmap is a program's" {
	[[ $(uname -m) == x86_64 ]] || skip "bpf() has another number here"
	fill_and 'fcntl($p, 4, 2048);
		for (1 .. 20) { 1 while sysread($p, $_, 1 << 20); select(undef, undef, undef, 0.05); }' '
		$attributes = pack("L4 x112", 15, 4, 4, 1);
		($map = syscall(321, 0, $attributes, length($attributes))) >= 0 or die "map: $!\n";
		$attributes = pack("L x4 P4 P4 x104", $map, $key = pack("L", 0), $value = pack("L", fileno($s)));
		syscall(321, 2, $attributes, length($attributes)) == 0 or die "update: $!\n";'
	counter_into "counted[again]" sndwait/again
	((counted[again] > 0)) || fail "no wait"
	same "given up" "$(counter sndwait/again_gave_up)" 0
	counter_into "counted[max]" sndwait/again_time_max_ns
	((counted[max] > 200000000)) || fail "at most ${counted[max]} ns"
}

# In Perl: 41 is AF_KCM, 35296 SIOCKCMATTACH, 64 MSG_DONTWAIT, 321 bpf(), which loads a program for
# sockets that returns 1000, the size of all messages.
@test "again: a KCM socket sends over a TCP connection" {
	modprobe kcm 2>/dev/null || skip "this kernel has no kcm"
	[[ $(uname -m) == x86_64 ]] || skip "bpf() has another number here"
	perl -e "$CONNECT"'
		$code = pack("CCslCCsl", 0xb7, 0, 0, 1000, 0x95, 0, 0, 0);
		$attributes = pack("LLPp x104", 1, 2, $code, "GPL");
		($program = syscall(321, 5, $attributes, length($attributes))) >= 0 or die "bpf: $!\n";
		socket($k, 41, 2, 0) or die "kcm: $!\n";
		ioctl($k, 35296, pack("ii", fileno($s), $program)) or die "attach: $!\n";
		$n++ while defined(send($k, "x" x 1000, 64));
		$! == 11 or die "send: $!\n";
		for ($left = 1000 * $n; $left > 0; $left -= $got) {
			$got = sysread($p, $_, 1 << 20) or die "$left bytes did not come\n";
		}'
	no_sockets
	no_waits
}
