#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The ackmode group, compared with a BPF program that watches the same traffic
# (bats/oracle/ackmode.bpf.c) and with what the kernel reports about its sockets. Each count in
# each cell must equal the oracle's. Only this finds changes of mode that ordinary traffic causes
# and that are missed or invented.

# shellcheck disable=SC2154 # keys of associative arrays

load ../ackmode
load ../oracle_setup

PARAMETERS=/sys/module/tcplat/parameters

teardown() {
	sysctl -q debug.kprobes-optimization=1
	oracle_close
	tidy
}

# ---- the same traffic, counted by module and oracle ----

@test "request/response" {
	# With a pause, the client's next request is no reply to what it has read.
	watch_both "seen delayed quickack first 2; seen quickack pingpong answer $((${#PACED[@]} ? 1 : 2))" \
		traffic rr @ -n 200 "${PACED[@]}"
}

# Each delayed ACK in pingpong mode ends that mode.
late_pingpong() {
	local n
	of O "pingpong $ANY timeout"
	same "late ACKs in pingpong mode" "$(counter delack/timeouts_pingpong)" "$n"
	(($(counter delack/timeouts) >= n && n >= $1)) || fail "only $n"
}

@test "write-write-read: the delayed-ACK timer ends pingpong" {
	watch_both 'seen pingpong delayed timeout 5; late_pingpong 10' traffic wwr @ -n 30 "${PACED[@]}"
}

@test "one-way messages" {
	watch_both 'seen delayed quickack first; seen quickack delayed budget; late_pingpong 0' traffic oneway @ -n 20
}

@test "bulk transfer, up, down and both ways" {
	watch_both 'seen delayed quickack first' traffic bulk @ -n 32 --direction up
	watch_both 'seen delayed quickack first' traffic bulk @ -n 32 --direction down
	watch_both '' traffic bulk @ -n 32 --direction both
}

@test "slow reader: windows shut and open" { watch_both '' traffic slowreader @ -n 40; }

@test "half-close: the ACK of a FIN is late" {
	watch_both "seen pingpong $ANY timeout" traffic halfclose @ --interval 500 --hold 500
}

# On one processor: TCP_QUICKACK is set without the socket's lock, and a segment that another CPU
# processes meanwhile may come between the observations of module and oracle. A real-time priority
# keeps the other end, and on PREEMPT_RT the thread that processes segments, from preempting the call.
# quickack VALUE FROM TO: the last workload has such changes.
quickack() {
	pinned() { taskset -c 0 chrt -f 50 "$TRAFFIC" "$@" --settle; }
	watch pinned rr -4 -n 100 --quickack "$1"
	# BPF may have missed hits, so look at the module's count.
	((M[setsockopt] >= 200))
	watch pinned rr -6 -n 100 --quickack "$1"
	# A call with 1 or 2 takes back what one reply has done for pingpong mode.
	[[ $1 == 0 ]] || ((!${#PACED[@]})) || set -- "$1" delayed quickack first
	watch_both "seen $2 $3 ${4:-setsockopt}" pinned wwr @ -n 20 --quickack "$1"
}

@test "TCP_QUICKACK 1 before every recv" { quickack 1 pingpong "$ANY"; }
@test "TCP_QUICKACK 0 before every recv" { quickack 0 "$ANY" pingpong; }
@test "TCP_QUICKACK 2 before every recv" { quickack 2 pingpong "$ANY"; }

@test "short connections: a recycled address inherits nothing" {
	local times
	times=$(often 400 20000)
	watch traffic crr -4 -n "$times" --timeout 1000
	same born "${O[born delayed]}" $((2 * times))
	watch traffic crr -6 -n 400
	same born "${O[born delayed]}" 800
}

@test "200 connections at once" {
	born() { same born "${M[born delayed]}" "$1"; }
	watch_both "born 400; seen pingpong $ANY timeout; late_pingpong 10" traffic parallel @ -c 200 -n 4
}

@test "a socket that is never connected is never born" {
	refused() {
		! "$TRAFFIC" rr -4 -n 1 --connect 127.0.0.1 --port 9 2>/dev/null &&
			! "$TRAFFIC" rr -6 -n 1 --connect ::1 --port 9 --quickack 1 2>/dev/null
	}
	watch refused
	[[ ${O[events transmit]} -ge 2 ]] || fail "no SYN was sent"
	same born "${O[born delayed]}" 0
}

# ---- step by step, compared with what the kernel reports ----

@test "TCP_QUICKACK does not last, step by step" {
	watch_both 'seen pingpong quickack setsockopt' steps @ story
}

@test "a late reply ends pingpong, step by step" { watch_both '' steps @ timeout; }
@test "a FIN begins pingpong, step by step" { watch_both '' steps @ halfclose; }
@test "TCP_QUICKACK 0, 1 and 2 in each mode, step by step" { watch_both '' steps @ values; }
@test "a socket that connects twice does not inherit its mode" { watch_both '' steps @ again; }

# ---- enabling and disabling ----

# reaches FILE VALUE: the counter is at least VALUE. The program answers before all segments are
# processed.
reaches() { (($(counter "ackmode/$1") >= $2)); }

# hold WORD: sends WORD to the script, which acts accordingly and answers with the same word.
hold() {
	local line=''
	[[ $1 == ready ]] || echo "$1" >&"${STEPS[1]}"
	read -t 120 -r -u "${STEPS[0]}" line || :
	same "answer" "${line:-none}" "$1"
}

@test "enabled while 100 pingpong sockets live: nothing counts until one changes" {
	local n
	all_dead
	echo 0 >"$TREE/ackmode/enabled"
	reset_counters
	coproc STEPS { exec python3 "$ORACLE_SRC/steps.py" hold 2>&1 3>&-; }
	background=$STEPS_PID
	hold ready
	echo 1 >"$TREE/ackmode/enabled"
	same tracked "$(counter ackmode/tracked)" 0
	hold touch
	soon reaches tracked 100
	module_read
	same adopted "${M[adopted pingpong]}" 100
	same live "${M[live pingpong]}" 100
	of M "$CHANGE"
	same changes "$n" 0

	hold change
	soon reaches pingpong_exits 1
	module_read
	of M "pingpong $ANY setsockopt"
	same "changes by TCP_QUICKACK" "$n" 1
	of M "$CHANGE"
	same changes "$n" 1
	same "live" "${M[live pingpong]}" 99
	assert_conserved
	local input=${STEPS[1]}
	exec {input}>&-
	wait "$background"
	background=''
	all_dead
	assert_conserved
}

@test "disabled and enabled again: the table is empty, and nothing is made up" {
	local n words
	local -A before=()
	all_dead
	reset_counters
	"$TRAFFIC" rr -n 2 -c 30 --interval 10000 --settle >/dev/null 3>&- &
	background=$!
	soon reaches tracked 60
	sleep 1
	echo 0 >"$TREE/ackmode/enabled"
	module_read
	same tracked "$(counter ackmode/tracked)" 0
	of M 'live *'
	same live "$n" 0
	of M 'forgotten *'
	same forgotten "$n" 60
	assert_conserved
	for words in "${!M[@]}"; do
		before[$words]=${M[$words]}
	done
	echo 1 >"$TREE/ackmode/enabled"
	same tracked "$(counter ackmode/tracked)" 0
	module_read
	for words in "${!M[@]}"; do
		same "$words" "${M[$words]}" "${before[$words]}"
	done
	wait "$background"
	background=''
	all_dead
	assert_conserved
	of M 'adopted *'
	((n > 0)) || fail "no socket was seen again"
}

# ---- routes with quickack 1 ----

# route [quickack 1]: replaces the server's route to the client.
route() {
	ip -n tcplat-b route replace 10.9.0.0/24 dev veth-b "$@"
	ip -n tcplat-b -6 route replace fd09::/64 dev veth-b metric 256 "$@"
}

@test "a route with quickack 1 is a mode of its own" {
	veth_pair delay 1ms
	route quickack 1
	watch between wwr 10.9.0.2 -n 20
	seen "$ANY" route route
	# The server's socket enters this mode and stays in it: its ACKs are never late.
	same "enters" "$(counter ackmode/route_enters)" 1
	same "timeouts" "$(counter delack/timeouts)" 0
	watch between wwr fd09::2 -n 20
	same "enters" "$(counter ackmode/route_enters)" 1
	route
	watch between wwr 10.9.0.2 -n 20
	same "enters" "$(counter ackmode/route_enters)" 0
	(($(counter delack/timeouts) >= 15)) || fail "no ACK is late without quickack 1 either"
}

@test "a route that gets and loses quickack 1 under a connection" {
	local to
	veth_pair delay 1ms
	for to in 10.9.0.2 fd09::2; do
		changes() {
			local n
			(
				sleep 1
				for n in 1 2 3; do
					route quickack 1
					sleep 1
					route
					sleep 1
				done
			) &
			background=$!
			between rr "$to" -n 80 --interval 100
			wait "$background"
			background=''
		}
		watch changes
		same enters "$(counter ackmode/route_enters)" 3
		same exits "$(counter ackmode/route_exits)" 3
		route
	done
}

# ---- the table's size ----

@test "sockets is rounded up to a power of two; check-hard has the largest table" {
	local given
	for given in 1024:1024 1025:2048 65536:65536 100000:131072 0x800:2048 \
		"$(often 1048576:1048576 16777216:16777216)"; do
		unload_module
		load_module "sockets=${given%:*}"
		same "sockets=${given%:*}" "$(<"$PARAMETERS/sockets")" "${given#*:}"
	done
	traffic rr -n 100
	(($(counter ackmode/pingpong_enters) >= 2))
	all_dead
	assert_conserved
	unload_module
	load_module
	# The minimum, which such a small machine gets by default.
	assert_equal "$(<"$PARAMETERS/sockets")" 65536
	assert_no_splat
}

@test "sockets out of range, or no number: not loaded, and the limits are named" {
	local given
	unload_module
	for given in 1023 0 1 -1 16777217 4294968320 99999999999999999999 1e6 64k many '' 1024x; do
		dmesg --clear
		run load_module "sockets=$given"
		assert_failure
		assert_output --partial "Invalid parameters"
		run dmesg
		assert_output --partial "sockets=$given: expected a number from 1024 to 16777216"
		! loaded || fail "sockets='$given' was accepted"
	done
	assert_no_splat
}

# ---- how it is attached ----

# Prints the kinds of the group's probes, each once, except for functions in $never.
kinds() {
	awk -v never=" ${never-} " '
		$1 == "ackmode" { name = $2; sub(/\+.*/, "", name) }
		$1 == "ackmode" && !index(never, " " name " ") { print $4 }' "$DEBUG/probes" | sort -u | paste -sd ' '
}

# Sets never to functions without a jump with attach=kprobe, because the kernel does not optimize
# any kprobe there. Adds an event to each and waits until the kernel would have optimized it.
find_never() {
	local at
	never=''
	while read -r at; do
		event_on behind "${at%+*}+$((${at#*+} + 5))"
		sleep 2
		! grep " ${at%+*}+.*OPTIMIZED" "$KPROBES" ||
			fail "the kernel can optimize a kprobe in ${at%+*}"
		events_off
		never+=" ${at%+*}"
	done < <(sed -nE 's/^ackmode ([^ ]+)\/.* kprobe:ftrace .*/\1/p' "$DEBUG/probes")
}

# The kernel optimizes kprobes in a delayed work.
are_jumps() { [[ $(kinds) == kprobe:jump ]]; }

assert_probed() {
	local symbol
	echo "$(<"$DEBUG/probes")"
	for symbol in __tcp_transmit_skb tcp_event_data_recv tcp_delack_timer_handler \
		'(do_)?tcp_setsockopt' tcp_sock_set_quickack tcp_init_transfer tcp_v4_destroy_sock; do
		run grep -cE "^ackmode $symbol\+0x[0-9a-f]+/0x[0-9a-f]+ entry [a-z:]+ armed" "$DEBUG/probes"
		assert_output 1
	done
}

@test "attached by ftrace" {
	assert_probed
	assert_equal "$(kinds)" ftrace
}

@test "attached by kprobes: jumps, or breakpoints where these are not wanted; the counts are right" {
	unload_module
	load_module attach=kprobe
	assert_probed
	find_never
	local most=1
	# KASAN leaves no room for a jump in one more.
	! on_debug || most=2
	(($(wc -w <<<"$never") <= most)) || fail "these are not jumps: $never"
	soon are_jumps
	watch traffic wwr -n 20
	seen pingpong delayed timeout 5

	sysctl -q debug.kprobes-optimization=0
	assert_equal "$(kinds)" kprobe:breakpoint
	watch traffic wwr -6 -n 20
	seen pingpong delayed timeout 5
	watch traffic crr -n 100

	sysctl -q debug.kprobes-optimization=1
	soon are_jumps
	unload_module
	assert_no_splat
}

# Prints functions of ackmode and delack with more users than in the file "before", where BPF is
# the only one: attachments shows the number of users of each.
watched() {
	attachments | sort | comm -13 "$BATS_TEST_TMPDIR/before" - |
		sed -nE 's/^ftrace (__tcp_transmit_skb|tcp_event_data_recv|tcp_delack_timer_handler|tcp_init_transfer) .*/\1/p' |
		paste -sd ' '
}

@test "delack and ackmode have functions in common, and each is switched by itself" {
	local before group k0 k1
	unload_module
	attachments | sort >"$BATS_TEST_TMPDIR/before"
	load_module
	# These use some of these functions, too.
	for group in sndhold peerwnd answer; do
		echo 0 >"$TREE/$group/enabled"
	done
	assert_equal "$(watched)" \
		"__tcp_transmit_skb tcp_delack_timer_handler tcp_event_data_recv tcp_init_transfer"

	echo 0 >"$TREE/ackmode/enabled"
	assert_equal "$(watched)" "tcp_delack_timer_handler tcp_event_data_recv"
	before=$(<"$DEBUG/transitions")
	k0=$(tcp_ext DelayedACKs)
	traffic wwr -n 20
	quiet
	k1=$(tcp_ext DelayedACKs)
	((k1 > k0))
	assert_equal "$(counter delack/timeouts)" "$((k1 - k0))"
	assert_equal "$(<"$DEBUG/transitions")" "$before"

	echo 1 >"$TREE/ackmode/enabled"
	echo 0 >"$TREE/delack/enabled"
	# watch resets the counters before the traffic.
	watch traffic wwr -n 20
	seen pingpong delayed timeout 5
	assert_equal "$(counter delack/timeouts)" 0

	echo 0 >"$TREE/ackmode/enabled"
	assert_equal "$(watched)" ''
	echo 1 >"$TREE/delack/enabled"
	assert_equal "$(watched)" "tcp_delack_timer_handler tcp_event_data_recv"
	unload_module
	assert_equal "$(watched)" ''
	assert_no_splat
}
