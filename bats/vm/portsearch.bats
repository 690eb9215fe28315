#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The portsearch group, compared with a count of the kernel's own steps. Only this finds wrong
# numbers of ports tried.
#
# In a separate range all ports that a search tries are known: ports in use by connect(), for which
# the kernel calls a function that a kprobe event counts, and ports without such a call: reserved
# ones, bound ones, and the free one that it takes.

# shellcheck disable=SC2154 # ports.bash sets got, did, now and sum

load ../loaded
load ../ports

setup() {
	untraced
	watch_checks
	set_meanwhile /proc/sys/net/ipv4/tcp_tw_reuse 0
	set_meanwhile "$RANGE" "20000 20999"
	soon all_free
	reset_counters
}

# No port is in use. The ends of the last test's connections reset each other, which takes a busy
# machine time, and if a reset was lost, until it is retransmitted.
all_free() { [[ ! $(ss -Htan 'sport >= :20000 and sport <= :20999') ]]; }

# start_afresh [OPTION...]: starts the program again, when all ports are free.
start_afresh() {
	stop_ports
	soon all_free
	start_ports "$@"
}

teardown() {
	[[ ! -d /sys/module/mute ]] || rmmod mute
	tidy
}

# fill_up STEP PASSED: opens STEP connections at a time and keeps them, until none finds a port.
# Each search passes PASSED ports without a call of the kernel's check, and takes a free one if it
# finds any.
fill_up() {
	local total=0
	while :; do
		exactly connect "$1" hold
		assert_iterations $((did[checks] + $2 * did[searches] + got[connected]))
		((total += got[connected])) || :
		((got[connected])) || break
	done
	filled=$total
}

# Twenty searches all find a port and are counted exactly.
finds_ports() {
	exactly connect 20 reset
	((got[connected] == 20)) || fail "${got[exhausted]} found no port: $(ss -tan)"
	assert_iterations $((did[checks] + 20))
	assert_portsearch_adds_up
}

# ---- filling a range ----

full() {
	start_afresh "-$1"
	fill_up 110 0
	assert_equal "$filled ports" "1000 ports"
	assert_equal "$(counter portsearch/iterations_max)" 1000
	# The last step only had searches of all 1,000 ports.
	assert_iterations $((110 * 1000))
	assert_portsearch_adds_up

	# One port becomes free again, and all searches end there.
	ask close
	finds_ports
}

@test "1,000 ports from empty to full and past full" { each_family full; }

# A bound port is passed without a check. All ports of the first pass are bound, so each search
# passes 500 of them, wherever it begins.
bound() {
	start_afresh "-$1"
	ask bind 20000 20998 2
	assert_equal "${got[bound]}" 500
	fill_up 90 500
	assert_equal "$filled ports" "500 ports"
	assert_iterations $((90 * 1000))
	assert_portsearch_adds_up
}

# Ten connections of bound sockets to one port; the same again while these are open, and once more
# while they are in TIME_WAIT, in which the kernel refuses only those without timestamps; then one to
# another port.
bound_in_use() {
	local before denied address=127.0.0.1
	[[ $1 == 4 ]] || address=::1
	before=$(counter portsearch/searches)
	set_meanwhile /proc/sys/net/ipv4/tcp_timestamps 0
	echo >"$TRACING/trace"
	echo 1 >"$TRACING/events/tcplat/port_search/enable"
	echo 1 >"$TRACING/tracing_on"
	denied=$(python3 - "$address" <<-'END'
		import errno, socket, sys
		family = socket.AF_INET6 if sys.argv[1] == '::1' else socket.AF_INET
		listeners = [socket.socket(family) for _ in range(2)]
		for port, s in enumerate(listeners, 31600):
		    s.bind((sys.argv[1], port))
		    s.listen(20)
		def connect(port, listener):
		    s = socket.socket(family)
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		    s.bind((sys.argv[1], port))
		    try:
		        s.connect(listener.getsockname())
		    except OSError as e:
		        assert e.errno == errno.EADDRNOTAVAIL
		        return None
		    return s, listener.accept()[0]
		def connects():
		    return [connect(port, listeners[0]) for port in range(31500, 31510)]
		pairs = connects()
		denied = connects().count(None)
		for pair in pairs:
		    for s in pair:
		        s.close()
		denied += connects().count(None)
		assert connect(31500, listeners[1])
		print(denied)
	END
	)
	assert_equal "$denied denied" "20 denied"
	assert_equal "$(counter portsearch/bound_in_use) in use" "$denied in use"
	assert_equal "$(counter portsearch/exhausted) $(counter portsearch/searches)" "0 $before"
	echo 0 >"$TRACING/tracing_on"
	run grep -c ' port_search: .* iterations=1 time_ns=[0-9]* error=-99 bound=1' "$TRACING/trace"
	assert_output "$denied"
}

@test "bound sockets whose connection exists" { each_family bound_in_use; }

@test "with half of the ports bound" { each_family bound; }

# The kernel takes a lock for each port that is not reserved, so its calls within a search count all
# but the reserved ports. The reserved ports all lie in the first pass, where no search ends.
@test "with ports bound and reserved all over the range, by another count" {
	local port list='' log=$BATS_TEST_TMPDIR/bpftrace.log locks
	start_ports
	for ((port = 20000; port < 21000; port += 10)); do
		list+=$port,$((port + 4)),
	done
	set_meanwhile "$RESERVED" ''
	write_once "$RESERVED" <<<"${list%,}"
	ask bind 20002 20992 10
	ask bind 20006 20996 10
	ask bind 20008 20998 10
	ask bind 20001 20999 14
	bpftrace -e '
		BEGIN { printf("ready\n"); }
		kprobe:__inet_hash_connect { @in[tid] = 1; }
		kretprobe:__inet_hash_connect { delete(@in[tid]); }
		kprobe:_raw_spin_lock_bh /@in[tid]/ { @locks = count(); }
		END { print(@locks); clear(@locks); clear(@in); }' >"$log" 2>&1 3>&- 8>&- 9>&- &
	background=$!
	bpftrace_ready "$background" "$log"
	exactly connect 480 hold
	interrupt "$background"
	background=''
	locks=$(sed -n '/^@locks: /{s///p;q}' "$log")
	assert_equal "${got[connected]} connected" "428 connected"
	((locks > 0)) || fail "bpftrace counted nothing: $(<"$log")"
	assert_iterations $((locks + 200 * 480))
	assert_portsearch_adds_up
}

# Every port has been used and is in TIME_WAIT. A search ends at the first port that has waited for
# a second, which the kernel checks, unlike a free port. Ports wait for a minute, so the range is
# one that no other test uses. tcp_max_tw_buckets is raised: with those of earlier tests there may
# be so many that the kernel frees a port at once. tcp_rfc1337 is set: if the machine stands still, a
# probe sends a FIN again, the ACK of that finds only the listener, and its RST would free the port.
@test "ports in TIME_WAIT, passed over without tcp_tw_reuse and taken with it" {
	local times=1
	echo "30000 30399" >"$RANGE"
	set_meanwhile /proc/sys/net/ipv4/tcp_max_tw_buckets 100000
	set_meanwhile /proc/sys/net/ipv4/tcp_rfc1337 1
	start_ports
	# Newer kernels check each of them once without a lock, and once more with it.
	[[ ! -e /proc/sys/net/ipv4/ip_local_port_step_width ]] || times=2
	exactly connect 400 timewait
	assert_equal "${got[connected]} connected" "400 connected"
	assert_iterations $((did[checks] / times + 400))
	exactly connect 3 timewait
	assert_equal "${got[exhausted]} exhausted" "3 exhausted"
	assert_iterations 1200

	sleep 2
	echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse
	exactly connect 300 timewait
	assert_equal "${got[connected]} connected" "300 connected"
	assert_iterations $((did[checks] / times))
	assert_portsearch_adds_up
}

# ---- small and odd ranges ----

# small LOW HIGH USABLE: two passes leave out the last port of an odd number.
small() {
	echo "$1 $2" >"$RANGE"
	exactly connect 5 reset
	assert_equal "${got[connected]} connected" "5 connected"
	assert_iterations $((did[checks] + 5))
	exactly connect $(($3 + 7)) hold
	assert_equal "$1-$2: ${got[connected]} connected" "$1-$2: $3 connected"
	assert_iterations $((did[checks] + $3))
	exactly connect 4 hold
	assert_iterations $((4 * $3))
	ask close
}

@test "ranges of one, of two and of an odd number of ports" {
	local low n
	start_ports
	for low in 20000 20001 65535; do small "$low" "$low" 1; done
	for low in 20000 20001 65534; do small "$low" $((low + 1)) 2; done
	# An even number of ports is usable; which one is left over depends on the start.
	for n in 3 5 11 99; do
		for low in 20000 20001; do
			echo "$low $((low + n - 1))" >"$RANGE"
			exactly connect 130 hold
			assert_iterations $((did[checks] + got[connected]))
			ask close
		done
	done
	assert_portsearch_adds_up
}

# Kernels with this option, including Debian's 6.1, search such a range in two passes, or (since
# 6.9) in one.
own_range() {
	local beyond
	start_afresh "-$1"
	ask range 20100 20199
	fill_up 45 0
	assert_equal "$filled ports" "100 ports"
	assert_iterations $((45 * 100))

	# A range beyond the namespace's at one or both ends is cut to it, or ignored.
	for beyond in "20950 25000" "0 20049"; do
		ask close
		ask range "$beyond"
		fill_up 30 0
		assert_equal "$beyond: $filled ports" "$beyond: 50 ports"
	done
	ask close
	ask range 25000 25010
	exactly connect 30 hold
	assert_iterations $((did[checks] + 30))
	ask close

	ask range 20500 20500
	exactly connect 4 hold
	assert_equal "${got[exhausted]} exhausted" "3 exhausted"
	assert_iterations 4
	ask close
	ask range 20501 20503
	exactly connect 6 hold
	assert_iterations $((did[checks] + got[connected]))
	assert_portsearch_adds_up
}

@test "a socket's own range" {
	[[ $(uname -r) != [45].* ]] || skip "this kernel has no IP_LOCAL_PORT_RANGE"
	each_family own_range
}

# ---- one search at a time ----

@test "the maximum, the histograms and the time of single searches" {
	local i b tried ns counts bounds
	start_ports
	ask connect 900 hold
	for ((i = 0; i < 12; i++)); do
		ask range $((20000 + 80 * i)) $((20010 + 80 * i))
		((i % 3)) || ask range 0 0
		reset_counters
		exactly connect 1 reset
		tried=$((did[checks] + got[connected]))
		assert_iterations "$tried"
		assert_equal "$(counter portsearch/iterations_max)" "$tried"
		read -ra counts <"$TREE/portsearch/iterations_hist"
		# The first power of two that is not less.
		for ((b = 0; (1 << b) < tried; b++)); do :; done
		assert_equal "$tried tried: ${counts[b]}" "$tried tried: 1"

		# connect() takes longer than its search; an emulated search takes at least 1 us.
		ns=$(counter portsearch/time_ns)
		((ns > 1000 && ns < got[ns])) || fail "$ns ns in a connect() of ${got[ns]} ns"
		assert_equal "$(counter portsearch/time_max_ns)" "$ns"
		read -ra counts <"$TREE/portsearch/time_hist"
		read -ra bounds <"$TREE/portsearch/time_hist_le_ns"
		for ((b = 0; ns > ${bounds[b]/+Inf/ns}; b++)); do :; done
		assert_equal "$ns ns: ${counts[b]}" "$ns ns: 1"
	done
	assert_portsearch_adds_up
}

# ---- concurrent searches ----

# The sum of the kernel's checks cannot be used: it also checks a port whose last user is about to
# go, and then takes it. The kprobe event makes searches many times longer, so the range is short.
# two_cpus LEAST: at least LEAST of 320 searches are verified, each of them exactly.
two_cpus() {
	local round
	echo "20000 20099" >"$RANGE"
	start_ports
	# A search begins behind the last port that was found, so it is long.
	ask connect 97 hold
	reset_counters
	follow
	for ((round = 0; round < 40; round++)); do
		ask race 2 4
		assert_equal "${got[connected]} connected" "8 connected"
	done
	followed
	look
	echo "# ${now[unverified]} of ${now[searches]} searches unverified" >&3
	same "searches seen" "$ends ${now[searches]}" "320 320"
	same "verified ones seen" "$verified" $((320 - now[unverified]))
	((verified >= $1)) || fail "only $verified searches were verified"
	assert_portsearch_adds_up
}

@test "connects to one destination from two CPUs at once" { two_cpus 160; }

# On `vm/kernel inlined` no search calls the function, so most that overlap are unverified.
on_inlined() { [[ ${TCPLAT_KERNEL-} == inlined ]]; }

# bats/kernel/mute.c keeps the handler of the module's kprobe from being called, as a compiler does that
# inlines the function into the search.
@test "a silent probe on writes: searches are verified without it, and the log says so" {
	local lines offset calls
	grep -qw inet_bind2_bucket_find /proc/kallsyms || skip "this kernel has no such function"
	unload_module
	load_module attach=kprobe
	offset=$(sed -n 's/^portsearch inet_bind2_bucket_find+\(0x[0-9a-f]*\).*/\1/p' "$DEBUG/probes")
	insmod "$TCPLAT_MODULES/mute.ko" function=inet_bind2_bucket_find offset="$offset"
	lines=$(dmesg | grep -c 'portsearch: .* may be inlined' || :)
	# The searches in flight when the module notices must be unverified, and not wrong.
	two_cpus 1
	echo "20000 20999" >"$RANGE"
	start_afresh
	finds_ports
	# What was found out holds when the group is armed again.
	echo 0 >"$TREE/portsearch/enabled"
	echo 1 >"$TREE/portsearch/enabled"
	finds_ports
	same "lines in the log" "$(dmesg | grep -c 'portsearch: .* may be inlined')" $((lines + 1))
	calls=$(</sys/module/mute/parameters/calls)
	# Where it is inlined, only bind() calls it.
	if on_inlined; then ((calls < 20)); else ((calls > 340)); fi ||
		fail "the function was called $calls times"
	rmmod mute
	unload_module
	load_module
}

# At most 30% may be. That is far more than on a real machine: an emulator that runs its CPUs in
# turn stops one in the middle of a search while the other continues.
@test "how many of the searches from two CPUs at once are unverified, with all ports free" {
	! on_inlined || skip "on this kernel most are"
	events_off
	echo "32768 60999" >"$RANGE"
	start_ports
	ask race 2 1000
	assert_portsearch_adds_up
	same searches "${now[searches]}" 2000
	echo "# ${now[unverified]} of 2000 searches unverified" >&3
	((now[unverified] <= 600)) || fail "too many"
}

# crowd FIRST SIZE: uses every port except one of each 20, of either parity.
crowd() {
	local first=$1 free
	for ((; first < $1 + $2; first += 20)); do
		free=$((first + (first / 20) * 7 % 20))
		((free == first)) || ask fill "$first" $((free - 1)) 1
		((free == first + 19)) || ask fill $((free + 1)) $((first + 19)) 1
	done
}

# Starts tracing searches.
follow() {
	echo 40000 >"$TRACING/buffer_size_kb"
	echo mono >"$TRACING/trace_clock"
	echo >"$TRACING/trace"
	event_on begin __inet_hash_connect
	echo 1 >"$TRACING/events/tcplat/port_search/enable"
	echo 1 >"$TRACING/tracing_on"
}

# Sets steps, ends and verified to the ports tried by all searches that were traced from beginning
# to end, the number of these searches, and how many were verified. The number of a verified search
# must equal the kernel's own steps: the ports it checked, some twice, and the chosen port, which it
# checks only if the last user is about to go.
followed() {
	local log=$BATS_TEST_TMPDIR/searches
	echo 0 >"$TRACING/tracing_on"
	echo 0 >"$TRACING/events/tcplat/port_search/enable"
	cat "$TRACING/trace" >"$log.trace"
	echo 0 >"$TRACING/events/tcplat_test/begin/enable"
	# This empties the trace, which has been saved.
	echo -:tcplat_test/begin >>"$TRACING/kprobe_events"
	echo local >"$TRACING/trace_clock"
	! grep LOST "$log.trace" || fail "events were lost"
	awk '
		/ begin: / { known[$1] = 1; tried[$1] = last[$1] = 0 }
		/ __inet6?_check_established: / {
			sub(/.*port=/, "", $NF)
			tried[$1] += $NF != last[$1]
			last[$1] = $NF
		}
		/ port_search: / && known[$1] {
			known[$1] = 0
			match($0, / iterations=[0-9]+/)
			number = substr($0, RSTART + 12, RLENGTH - 12) + 0
			match($0, / saddr=[^ ]*/)
			port = substr($0, RSTART, RLENGTH)
			sub(/.*:/, "", port)
			tried[$1] += $0 ~ / error=0/ && port != last[$1]
			steps += tried[$1]
			ends++
			if (!number)
				next
			verified++
			if (number != tried[$1])
				print "wrong:", $0, "after", tried[$1]
		}
		END { print steps + 0, ends + 0, verified + 0 }' "$log.trace" >"$log"
	! grep -m 3 wrong "$log" || fail "of $(tail -n 1 "$log")"
	read -r steps ends verified < <(tail -n 1 "$log")
}

# 64 threads with 19 of 20 ports in use: the verified searches have the same mean as all searches,
# within 2%. A thread that the scheduler stops as its search begins reads an old start, may go
# through half of the range, and is unverified: such a search alone is 3% of all steps here, so the
# difference may be that many ports larger. assert_bounds is exact.
scarce() {
	# Many more ports are free than the 64 threads use temporarily.
	echo "20000 23999" >"$RANGE"
	start_afresh "-$1"
	crowd 20000 4000
	reset_counters
	follow
	measure race 64 20
	followed
	echo "# ${did[unverified]} of ${did[searches]} searches unverified;" \
		"${did[iterations]} ports tried by $verified, $steps by all $ends" >&3
	same "searches seen" "$ends" "${did[searches]}"
	same "verified ones seen" "$verified" $((did[searches] - did[unverified]))
	assert_bounds "$steps"
	local of_verified=$((did[iterations] * ends)) of_all=$((steps * verified)) half=2000
	# Short searches are unverified more often than long ones.
	(((of_verified - of_all) * 50 <= of_all + 50 * of_all * did[unverified] / ends &&
		(of_all - of_verified) * 50 <= of_all + 50 * half * verified)) ||
		fail "${did[iterations]} in $verified verified searches, but $steps in $ends"
	assert_portsearch_adds_up
}

@test "64 connects at once with 95% of the ports in use" {
	! on_inlined || skip "on this kernel most are unverified"
	each_family scarce
}

# The kernel reads the range at the beginning of a search, the module just before that. Whatever is
# changed in between and later, no wrong number may be counted. Both processes run on one CPU, where
# the one that changes the range preempts the other whenever it wakes up. With a single free port
# each search begins behind it and tries all ports.
@test "the range changed while searching" {
	local i open=0 exact=0
	start_ports
	ask connect 999 hold
	taskset -pc 0 "$ports_pid" >/dev/null
	mkfifo "$BATS_TEST_TMPDIR/never"
	while :; do
		for i in "20000 20999" "20001 20970" "19999 20998"; do
			echo "$i" >"$RANGE"
			read -r -t "0.0$((RANDOM % 3 + 1))" || :
		done
	done <>"$BATS_TEST_TMPDIR/never" 3>&- 8>&- 9<&- &
	background=$!
	taskset -pc 0 "$background" >/dev/null
	chrt -f -p 50 "$background"
	# Until there were both kinds of searches: when the range changes is random.
	for ((i = 0; i < 500 && (open < 2 || exact < 10); i++)); do
		measure connect 1 reset
		if ((did[unverified])); then
			assert_iterations 0
			((++open))
		else
			assert_iterations $((did[checks] + got[connected]))
			((++exact))
		fi
	done
	kill "$background"
	background=''
	echo "# $open unverified, $exact exact" >&3
	((open >= 2)) || fail "the range changed during only $open searches of $i"
	((exact >= 10)) || fail "only $exact of $i searches were verified"
	assert_portsearch_adds_up
}

# verifies N: so many searches were verified in all. If the threads have ended, they begin once more.
verifies() {
	! read -rt 0 -u 9 || { hear race && echo "race 8 250" >&8; }
	look
	((now[searches] - now[unverified] >= $1))
}

# While threads connect continuously: searches that began before the group was enabled are not
# counted, but disturb others. Each time the group stays enabled until 20 searches were verified.
switched() {
	local i
	follow
	echo "race 8 250" >&8
	for ((i = 0; i < 10; i++)); do
		echo 0 >"$TREE/portsearch/enabled"
		look
		echo 1 >"$TREE/portsearch/enabled"
		soon verifies $((now[searches] - now[unverified] + 20))
	done
	hear race
	followed
	echo "# $verified of $ends searches verified" >&3
	((verified >= 200)) || fail "only $verified"
}

@test "switched on and off under load, each verified search is exact" {
	local pass
	# More ports are free than the threads use, so few searches try them all.
	echo "20000 20399" >"$RANGE"
	start_ports
	crowd 20000 400
	for ((pass = 0; pass < $(often 1 50); pass++)); do switched; done
	assert_portsearch_adds_up
}
