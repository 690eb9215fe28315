#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The runners of guests, vm/run and vm/bare, on which all other tests in guests depend. Only
# tests from outside can see that a run fails when it must.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr

# bats file_tags=all

load ../libraries

setup() {
	untraced
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	cd "$BATS_TEST_TMPDIR" || return
}

# Prints a guest's last lines if a test fails: "run -99" shows only the status.
teardown() {
	[[ ! ${output-} ]] || tail -n 30 <<<"$output"
}

# guest [OPTION...] COMMAND...: runs COMMAND in a guest of the default kernel.
guest() {
	local options=()
	while [[ $1 == --* ]]; do
		options+=("$1" "$2")
		shift 2
	done
	"$SOURCE/vm/run" "${options[@]}" -- "$@"
}

# ---- wrong usage changes nothing and prints how to do it ----

@test "run, kernel, build, bats/run, check, lint: usage errors end with 2 and one line" {
	local words results=$SOURCE/build/results/check
	mkdir -p "$results"
	touch "$results/kept"
	for words in vm/run{,' --',' --cpus',' true'} \
		vm/run\ --{cpus\ {0,x},timeout\ 0,nonsense,kernel\ nope}' -- true' \
		vm/kernel{,' nope',' 6.1 6.12',' --what 6.1'} \
		vm/build{' --kernel',' 6.1',' --kernel nope',' --kernel ../../linux'} \
		bats/run{' --kernel',' nothing.bats',' --what'," $BASH"} bats/check\ {--what,--only,debug} \
		'vm/lint --what'; do
		# shellcheck disable=SC2086 # words
		run -2 "$SOURCE/"$words
		assert_equal "${#lines[@]}" 1
	done
	rm "$results/kept"
}

# The run that this test is part of holds the lock, or else the test does.
@test "two runs of check in one checkout: the second is refused and leaves the first's results" {
	local results=$SOURCE/build/results/check lock
	mkdir -p "$results"
	touch "$results/kept"
	exec {lock}<"$results"
	flock --nonblock "$lock" || true
	run -1 "$SOURCE/bats/check" --only nothing
	exec {lock}<&-
	assert_output "check: another run of bats/check uses $results; wait for its end"
	rm "$results/kept"
}

@test "the results of a TAP: passed, failed, skipped, and missing as failed" {
	. "$SOURCE/vm/lib.sh"
	printf '%s\n' 1..5 'ok 1 a' 'not ok 2 ok' '# ok 7' 'ok 3 b # skip c' 'okay' >tap
	prints '5 1 3 1' tap_totals tap
	: >tap
	prints '0 0 0 0' tap_totals tap
}

# ---- the guest ----

@test "run: status, stdout, stderr, dmesg, files and environment of a command" {
	local out=$SOURCE/build/run-bats.$$
	run -42 --separate-stderr guest --dmesg dmesg --cpus 1 --append tcplat.word=1 bash -c "
		id -u; pwd; uname -r; nproc; cat /sys/class/net/lo/flags
		ls -d /sys/kernel/debug/kprobes /sys/kernel/tracing/events
		grep -o tcplat.word=1 /proc/cmdline
		echo again >/dev/stdout; echo other >/dev/stderr; echo \"two  words\"
		echo kept >'$out'; echo lost >/usr/lost-file; echo '<6>seen' >/dev/kmsg
		seq 20000; (sleep 1000 &); exit 42"
	assert_equal "$(<"$out")" kept
	rm -f "$out"
	assert [ ! -e /usr/lost-file ]
	assert_equal "$(head -n 10 <<<"$output")" "0
$SOURCE
$("$SOURCE/vm/kernel" --release 6.1)
1
0x9
/sys/kernel/debug/kprobes
/sys/kernel/tracing/events
tcplat.word=1
again
two  words"
	assert_equal "$(tail -n +11 <<<"$output")" "$(seq 20000)"
	grep -qx other <<<"$stderr"
	grep -q '\] seen$' dmesg
	grep -q 'Linux version' dmesg
}

# bare LINE...: runs a script of these lines in a guest of vm/bare.
bare() {
	printf '%s\n' '#!/bin/sh' "$@" >script
	"$SOURCE/vm/bare" --kernel 6.1 --live script
}

@test "run, bare: a splat, a panic or a reboot fails the run, whatever the command says" {
	local panic='echo c >/proc/sysrq-trigger; sleep 60'
	run -97 guest bash -c 'echo "<4>WARNING: CPU: 0 PID: 1 at here" >/dev/kmsg'
	assert_output --partial 'splat'
	assert_output --partial 'PID: 1 at here'
	prints -97 --partial 'Kernel panic' guest --dmesg dmesg bash -c "$panic"
	grep -q 'sysrq triggered crash' dmesg
	# Not "o": while the devices are shut down, init may still need its files, and panics.
	prints -99 --partial 'booted in' guest bash -c 'echo b >/proc/sysrq-trigger; sleep 60'
	run -97 bare 'echo "<4>INFO: rcu_sched self-detected stall on CPU" >/dev/kmsg'
	assert_output --partial 'self-detected stall'
	prints -97 --partial 'sysrq triggered crash' bare "$panic"
	# What a script prints is no splat, and its status is the guest's.
	prints -42 --partial 'WARNING: mine' bare 'echo WARNING: mine; exit 42'
	# It may end without a newline; a status that was lost is none.
	prints -42 x bare 'printf x; exit 42'
	# shellcheck disable=SC2016 # for the guest
	run -99 bare 'kill -KILL $PPID; sleep 1'
}

# ---- nothing is left behind ----

@test "run: out of time, ended or killed, it takes the guest with it" {
	local mark=tcplat.mark=$RANDOM$RANDOM signal pid status
	prints -98 --partial 'time limit of 8 s' guest --timeout 8 --append "$mark" sleep 1000
	run -1 pgrep -f "$mark"
	for signal in TERM KILL; do
		"$SOURCE/vm/run" --append "$mark" -- sleep 1000 3>&- &
		pid=$!
		# Wait until QEMU runs: vm/run prepares the guest first.
		timeout 300 bash -c "until pgrep -f '^[^ ]*qemu.*$mark' >/dev/null; do sleep 0.2; done"
		kill -"$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		assert_equal "$status" "$((128 + $(kill -l "$signal")))"
		# QEMU needs a moment to handle the signal.
		timeout 60 bash -c "while pgrep -f '^[^ ]*qemu.*$mark' >/dev/null; do sleep 0.2; done"
	done
}
