#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Loading and unloading the module leaves no trace, the interface is as documented, and the reader
# agrees with the files. This is the quick test of loading; bats/hard repeats it under load.

# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines

bats_require_minimum_version 1.5.0
load ../helpers

setup() {
	untraced
	! loaded || unload_module
	before=$(traces)
}

teardown() {
	# Clean up after a failed test.
	[[ ! ${background:-} ]] || kill "$background" 2>/dev/null || :
	exec 8<&- 9<&-
	! mountpoint -q /proc/cmdline || umount /proc/cmdline
	! loaded || unload_module
}

@test "loading makes the tree and arms every group, unloading leaves nothing" {
	assert_no_trace
	load_module
	[[ -d $TREE && -d $DEBUG ]]
	local f
	for f in "$TREE"/*/status; do
		assert_equal "$f: $(<"$f")" "$f: armed"
	done
	attached_to tcp_delack_timer_handler
	[[ $(traces) != "$before" ]]
	unload_module
	assert_no_trace
}

@test "loading it twice: the second is refused and the first goes on" {
	load_module
	run load_module
	assert_failure
	assert_output --partial "File exists"
	"$TRAFFIC" wwr -n 20 --settle
	quiet
	(($(counter delack/timeouts) > 0))
	unload_module
	assert_no_trace
}

@test "counters begin at zero each time" {
	load_module
	"$TRAFFIC" wwr -n 20 --settle
	quiet
	(($(counter delack/timeouts) > 0))
	unload_module
	load_module
	assert_equal "$(counter delack/timeouts)" 0
	assert_equal "$(counter delack/delay_hist | tr -d '0 ')" ""
	assert_equal "$(counter delack/missed)" 0
}

@test "loading and unloading 6 times while traffic runs" {
	local i
	"$TRAFFIC" parallel -c 6 -n 100000 --timeout 3600 >/dev/null 2>&1 3>&- &
	background=$!
	for ((i = 0; i < 6; i++)); do
		load_module
		# Every third time long enough for timers to fire in between.
		((i % 3)) || sleep 0.3
		if ((i % 3 == 1)); then
			echo 0 >"$TREE/delack/enabled"
			echo 1 >"$TREE/delack/enabled"
		fi
		unload_module
	done
	load_module
	sleep 1
	(($(counter delack/timeouts) > 0)) || fail "no traffic was counted"
	unload_module
	end_background
	assert_no_trace
}

@test "unloading while calls of its return probe are under way" {
	# recv() holds the socket while the timer fires, so its expiry is deferred.
	"$TRAFFIC" owned -n 100000 -c 3 --hold 60 --timeout 3600 >/dev/null 2>&1 3>&- &
	background=$!
	local i
	for ((i = 0; i < 4; i++)); do
		load_module
		sleep 0.2
		unload_module
	done
	end_background
	assert_no_trace
}

# modules_tree: a separate tree for modprobe; an emulated depmod of the guest's /lib/modules takes
# half a minute.
modules_tree() {
	local dir
	dir=$BATS_TEST_TMPDIR/lib/modules/$(uname -r)
	mkdir -p "$dir"
	cp "$TCPLAT_KO" "$dir/"
	depmod -b "$BATS_TEST_TMPDIR"
}

@test "a counter held open does not keep it from unloading, and then reads ENODEV" {
	load_module
	exec 9<"$TREE/delack/timeouts"
	exec 8>"$TREE/delack/enabled"
	unload_module
	run cat <&9
	assert_failure
	assert_output --partial "No such device"
	run dd of=/dev/fd/8 bs=1 count=1 <<<1
	assert_failure
	exec 8<&- 9<&-
	assert_no_trace
}

@test "a file of debugfs held open keeps it from unloading until it is closed" {
	load_module
	exec 9<"$DEBUG/probes"
	run unload_module
	assert_failure
	assert_output --partial "in use"
	assert_equal "$(counter delack/status)" armed
	exec 9<&-
	unload_module
	assert_no_trace
}

@test "each tracepoint in use keeps it from unloading" {
	local event
	load_module
	for event in "$TRACING"/events/tcplat/*/enable; do
		echo 1 >"$event"
		run unload_module
		assert_failure
		assert_output --partial "in use"
		echo 0 >"$event"
	done
	unload_module
	assert_no_trace
}

@test "every file has the mode of the interface" {
	load_module
	run find "$TREE" -type f -printf '%P %m\n'
	assert_success
	local line
	for line in "${lines[@]}"; do
		case $line in
		reset\ *) assert_equal "$line" "reset 200" ;;
		*/enabled\ *) assert_equal "${line##* }" 644 ;;
		*) assert_equal "$line" "${line% *} 444" ;;
		esac
	done
	run find "$DEBUG" -type f -not -perm 444
	assert_output ""
	run find "$TREE" "$DEBUG" -not -user root
	assert_output ""
}

# Each file ends with its only newline.
one_line_each() {
	run grep -c '' "${files[@]}"
	refute_line --regexp ':([^1]|1.)'
	run wc -l "${files[@]}"
	assert_line --regexp "^ *${#files[@]} total\$"
}

@test "every value is one line, and every file can be read again and again" {
	load_module
	local files f
	mapfile -t files < <(find "$TREE" -type f -perm /444)
	((${#files[@]} > 20))
	one_line_each
	one_line_each
	while read -r f; do
		[[ $(wc -c <"$f") -gt 0 ]] || fail "$f is empty"
	done < <(find "$DEBUG" -type f)
}

@test "abi is 2 and version is the one of dkms.conf" {
	load_module
	assert_equal "$(counter abi)" 2
	assert_equal "$(counter version)" \
		"$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$BATS_TEST_DIRNAME/../../dkms.conf")"
	assert_equal "$(counter version)" "$(</sys/module/tcplat/version)"
}

# ---- the reader ----

@test "the reader without the module: one line that says how to load it, exit 1" {
	run --separate-stderr "$TCPLAT" show
	assert_failure 1
	assert_output ""
	assert_equal "${#stderr_lines[@]}" 1
	assert_regex "$stderr" 'make load|modprobe'
}

@test "the reader shows what the files hold" {
	load_module
	"$TRAFFIC" wwr -n 20 --settle
	quiet
	run "$TCPLAT" show --all
	assert_success
	local name value
	for name in timeouts timeouts_pingpong deferred delay_us delay_max_jiffies; do
		value=$(counter "delack/$name")
		assert_line --regexp "(^|[[:space:]])${name}[[:space:]]+${value}([[:space:]]|\$)"
	done
	assert_output --partial "$(counter clock/hz)"
	assert_output --partial armed

	echo 0 >"$TREE/delack/enabled"
	run "$TCPLAT" show delack
	assert_success
	assert_output --partial off
}

@test "the reader draws the delay histogram" {
	load_module
	"$TRAFFIC" wwr -n 30 --settle
	quiet
	run "$TCPLAT" show --bars delack
	assert_success
	# Each count of the file that is not zero must be on a line.
	local count
	for count in $(counter delack/delay_hist); do
		((count == 0)) || assert_line --regexp "(^|[^0-9.])$count([^0-9.]|\$)"
	done
	assert_output --partial '#'
}

@test "the reader works for every user" {
	load_module
	run setpriv --reuid=65534 --regid=65534 --clear-groups "$TCPLAT" show --all
	assert_success
	assert_output --partial timeouts
}
