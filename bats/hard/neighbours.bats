#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Other users of the same functions at the same time: tracers, bpftrace, livepatches.
# Whoever is attached first or leaves first, all must count correctly. The reference are the
# kernel's counters of delayed ACKs sent by its timer and of connections opened, each of which
# needed a port. Only this finds conflicts with other users.

load ../helpers

FUNCTIONS=(tcp_delack_timer_handler __inet_hash_connect sk_stream_wait_memory)
EVENTS=$TRACING/kprobe_events

setup() {
	untraced
	! loaded || unload_module
	neighbour=''
	log=$BATS_TEST_TMPDIR/neighbour
}

teardown() {
	# Clean up after a failed test.
	[[ ! $neighbour ]] || "${neighbour}_stop" || :
	! loaded || unload_module
	sysctl -q debug.kprobes-optimization=1
	assert_no_splat
}

# ---- the neighbours: each has NAME_start, NAME_stop and NAME_counts, which prints functions
# with the number of calls since the start ----

# The function tracer, in its own instance.
function_start() {
	mkdir "$INSTANCE"
	printf '%s\n' "${FUNCTIONS[@]}" >"$INSTANCE/set_ftrace_filter"
	echo function >"$INSTANCE/current_tracer"
}

function_counts() {
	local function
	for function in "${FUNCTIONS[@]}"; do
		echo "$function $(grep -c ": $function <-" "$INSTANCE/trace")"
	done
}

function_stop() {
	echo nop >"$INSTANCE/current_tracer"
	rmdir "$INSTANCE"
}

# The function graph tracer, which hooks returns like kretprobes.
graph_start() {
	printf '%s\n' "${FUNCTIONS[@]}" >"$TRACING/set_ftrace_filter"
	echo function_graph >"$TRACING/current_tracer"
	echo >"$TRACING/trace"
}

# A call without nested calls is one line, others are two.
graph_counts() {
	local function
	for function in "${FUNCTIONS[@]}"; do
		echo "$function $(grep -cE "\| +$function\(\)( \{|;)" "$TRACING/trace")"
	done
}

graph_stop() {
	echo nop >"$TRACING/current_tracer"
	echo >"$TRACING/set_ftrace_filter"
}

# Kprobe events at the entries and returns.
events_start() {
	local function
	for function in "${FUNCTIONS[@]}"; do
		echo "p:tcplat_test/enter_$function $function"
		echo "r4096:tcplat_test/leave_$function $function"
	done >"$EVENTS"
	echo 1 >"$TRACING/events/tcplat_test/enable"
	awk '{ print $1, $2 }' "$TRACING/kprobe_profile" >"$BATS_TEST_TMPDIR/profile"
}

events_counts() { sed -nE 's/^ *(enter|leave)_([a-z_]+) +([0-9]+) +0 *$/\2 \3/p' "$TRACING/kprobe_profile"; }

events_stop() { events_off; }

# Kprobes behind the entries, which are breakpoints or jumps and not callbacks of ftrace.
inside_start() {
	local function offset
	for function in "${FUNCTIONS[@]}"; do
		# The first instruction behind ftrace's that accepts a kprobe.
		for ((offset = 5; offset < 20; offset++)); do
			! echo "p:tcplat_test/enter_$function $function+$offset" >>"$EVENTS" || break
		done 2>/dev/null
	done
	echo 1 >"$TRACING/events/tcplat_test/enable"
}

inside_counts() { events_counts; }
inside_stop() { events_off; }

# bpftrace, with kprobes, kretprobes and BPF trampolines.
bpftrace_start() {
	local function
	for function in "${FUNCTIONS[@]}"; do
		echo "kprobe:$function { @enter[\"$function\"] = count(); }"
		echo "kretprobe:$function { @leave[\"$function\"] = count(); }"
		echo "kfunc:$function { @trampoline[\"$function\"] = count(); }"
	done >"$BATS_TEST_TMPDIR/bt"
	# shellcheck disable=SC2028 # bpftrace expands them
	echo 'BEGIN { printf("ready\n"); }
		interval:ms:300 { print(@enter); print(@leave); print(@trampoline); printf("round\n"); }' \
		>>"$BATS_TEST_TMPDIR/bt"
	# An earlier bpftrace was ready, too.
	rm -f "$log"
	bpftrace -B line "$BATS_TEST_TMPDIR/bt" >"$log" 2>&1 3>&- &
	bpftrace=$!
	bpftrace_ready "$bpftrace" "$log"
}

# rounds N: so many rounds of output have ended.
rounds() { (($(grep -c '^round' "$log") >= $1)); }

# Waits for the end of the first round of output that began after this call.
bpftrace_counts() {
	soon rounds $(($(grep -c '^round' "$log" || :) + 2))
	# bpftrace prints nothing for functions that were not called.
	awk -F '[][ :]+' -v names="${FUNCTIONS[*]}" '
		/^round/ { split("", last); for (key in this) last[key] = this[key] }
		/^@/ { this[$1, $2] = $3 }
		END {
			n = split(names, name, " ")
			split("@enter @leave @trampoline", map, " ")
			for (m = 1; m <= 3; m++)
				for (i = 1; i <= n; i++)
					print name[i], last[map[m], name[i]] + 0
		}' "$log"
}

bpftrace_stop() { interrupt "$bpftrace"; }

# bats/kernel/hook.c replaces the functions like a livepatch.
hook_start() { insmod "$TCPLAT_MODULES/hook.ko" "$@" functions="$(IFS=, && echo "${FUNCTIONS[*]}")"; }
hook_counts() { cat /sys/module/hook/parameters/hits; }
hook_stop() { rmmod hook; }

# ---- counting ----

start() {
	"${1}_start"
	neighbour=$1
}

stop() {
	neighbour=''
	"${1}_stop"
}

# Prints the groups that must not miss a hit: with kprobes only those whose counts are compared
# with others. A tick that interrupts a kprobe's handler may run TCP, and the hits in there are
# lost; on a busy machine that happens to ackmode and sndhold in nearly every test.
sure() {
	case $(</sys/module/tcplat/parameters/attach) in
	ftrace) echo "${GROUPS_ALL[@]}" ;;
	kprobe) echo delack portsearch sndwait ;;
	esac
}

# Prints everything that counts, as lines of a name and a number.
counts() {
	local group
	awk '/^Tcp: [0-9]/ { print "opened", $6 }' /proc/net/snmp
	echo "delayed $(tcp_ext DelayedACKs)"
	if loaded; then
		echo "timeouts $(counter delack/timeouts)"
		echo "searches $(counter portsearch/searches)"
		echo "waits $(counter sndwait/waits)"
		for group in $(sure); do
			echo "missed $(counter "$group/missed")"
		done
		awk '$3 == "entry" && /tcp_delack_timer_handler/ && $1 == "delack" { print "hits", $6 }' "$DEBUG/probes"
	fi
	[[ ! $neighbour ]] || "${neighbour}_counts" | sed "s/^/$neighbour /"
}

work() {
	"${TRAFFIC%/*}/ports" "connect 9 reset" >/dev/null
	traffic wwr -n 5 >/dev/null
	traffic full -n 1 -c 2 --interval 50 --hold 200 >/dev/null
	quiet
}

# grown NAME: prints by how much these numbers have grown; neighbours that count calls in several
# ways have several.
grown() {
	paste -d ' ' "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after" | awk -v name="$1" '
		{ n = NF / 2; key = $1; for (i = 2; i < n; i++) key = key " " $i }
		key == name { print $NF - $n }'
}

# all_grown NAME WANTED: all of these numbers have grown by WANTED.
all_grown() {
	local by any=''
	for by in $(grown "$1"); do
		any=1
		((by == $2)) ||
			fail "$1: $by, expected $2: $(paste "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after")"
	done
	[[ $any ]] || fail "nothing has counted $1: $(<"$BATS_TEST_TMPDIR/after")"
}

# both_count: all who are present count the same calls. Repeated once if a kprobe of one of the
# compared groups missed a hit; see sure().
both_count() {
	local opened delayed status
	counts >"$BATS_TEST_TMPDIR/before"
	work
	counts >"$BATS_TEST_TMPDIR/after"
	if [[ ! ${1-} ]] && loaded && [[ $(</sys/module/tcplat/parameters/attach) == kprobe && $(grown missed) == *[1-9]* ]]; then
		echo "# missed: $(grown missed | paste -sd ' ')" >&3
		both_count again
		return
	fi
	opened=$(grown opened) delayed=$(grown delayed)
	((opened == 9 + 1 + 2)) || fail "$opened connections were opened"
	((delayed > 2)) || fail "$delayed delayed ACKs"
	if loaded; then
		all_grown missed 0
		all_grown timeouts "$delayed"
		all_grown searches "$opened"
		all_grown waits 2
		for status in "$TREE"/*/status; do
			same "$status" "$(<"$status")" armed
		done
	fi
	[[ $neighbour ]] || return 0
	all_grown "$neighbour __inet_hash_connect" "$opened"
	all_grown "$neighbour sk_stream_wait_memory" 2
	! loaded || all_grown "$neighbour tcp_delack_timer_handler" "$(grown hits)"
}

kinds() { awk '$3 == "entry" { print $4 }' "$DEBUG/probes" | sort -u; }

# load_attached ftrace|kprobe
load_attached() {
	insmod "$TCPLAT_KO" attach="$1"
	case $1 in
	ftrace) same 'attached by' "$(kinds)" ftrace ;;
	kprobe) [[ $(kinds) == kprobe:* ]] || fail "attached by $(kinds)" ;;
	esac
}

# comes_first NEIGHBOUR ATTACH
comes_first() {
	start "$1"
	load_attached "$2"
	both_count
	unload_module
	both_count
	load_attached "$2"
	stop "$1"
	both_count
	unload_module
}

# comes_second NEIGHBOUR ATTACH
comes_second() {
	load_attached "$2"
	start "$1"
	both_count
	stop "$1"
	both_count
	start "$1"
	unload_module
	both_count
	stop "$1"
}

# beside NEIGHBOUR [ATTACH]: tests both orders; make check tests one order per way to attach, and
# without ATTACH only one way.
beside() {
	local attach
	(($# == 2)) || {
		for attach in $(often ftrace "ftrace kprobe"); do
			beside "$1" "$attach"
		done
		return
	}
	case $(often "$2" both) in
	ftrace) comes_first "$@" ;;
	kprobe) comes_second "$@" ;;
	both)
		comes_first "$@"
		comes_second "$@"
		;;
	esac
}

@test "the function tracer and tcplat by ftrace" { beside function ftrace; }
@test "the function tracer and tcplat by kprobe" { beside function kprobe; }
@test "the function graph tracer and tcplat by ftrace" { beside graph ftrace; }
@test "the function graph tracer and tcplat by kprobe" { beside graph kprobe; }
@test "kprobe events and tcplat by ftrace" { beside events ftrace; }
@test "kprobe events and tcplat by kprobe" { beside events kprobe; }
# It takes long to start.
@test "bpftrace and tcplat" { beside bpftrace; }
@test "replaced functions and tcplat by ftrace" { beside hook ftrace; }
@test "replaced functions and tcplat by kprobe" { beside hook kprobe; }

# jumps 0|1: disables or enables jump optimization of kprobes, and waits for its effect: the
# kernel optimizes kprobes in a delayed work. With 0 no kprobe may be a jump, with 1 some are.
jumps() {
	sysctl -q "debug.kprobes-optimization=$1"
	some_jump() { grep -q '\[OPTIMIZED\]' "$KPROBES"; }
	none_jumps() { ! some_jump; }
	if (($1)); then soon some_jump; else soon none_jumps; fi
	both_count
}

# switched_beside ATTACH: with jumps when they attach and when they do not.
switched_beside() {
	sysctl -q debug.kprobes-optimization=0
	load_attached "$1"
	start inside
	jumps 0
	jumps 1
	unload_module
	load_attached "$1"
	both_count
	jumps 0
	unload_module
	stop inside
}

@test "optimized and unoptimized kprobes and tcplat" {
	local attach
	for attach in $(often kprobe "ftrace kprobe"); do
		switched_beside "$attach"
	done
}

# ---- what livepatches do ----

# A function is replaced and not called any more. A probe at its entry by ftrace still sees the
# call; a kprobe behind the entry does not, as documented in tcplat(4).
stood_in_for() {
	neighbour=hook
	insmod "$TCPLAT_MODULES/hook.ko" rest=0 functions=tcp_cwnd_restart
	load_attached "$1"
	traffic idle -n 2 --interval 1500 >/dev/null
	quiet
	replaced=$(hook_counts | sed -n 's/.* //p;q')
	((replaced > 0)) || fail "nothing was replaced"
}

@test "a function that is replaced and not called, and tcplat by ftrace" {
	stood_in_for ftrace
	same restarts "$(counter idlerestart/restarts)" "$replaced"
	same status "$(counter idlerestart/status)" armed
}

@test "a function that is replaced and not called, and tcplat by kprobe" {
	stood_in_for kprobe
	case $(awk '$1 == "idlerestart" { print $4 }' "$DEBUG/probes") in
	kprobe:ftrace) same restarts "$(counter idlerestart/restarts)" "$replaced" ;;
	*) same restarts "$(counter idlerestart/restarts)" 0 ;;
	esac
	unload_module
	stop hook
	# It is not lost permanently.
	load_attached kprobe
	traffic idle -n 2 --interval 1500 >/dev/null
	quiet
	(($(counter idlerestart/restarts) > 0)) || fail "nothing is counted any more"
}
