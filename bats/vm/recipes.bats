#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The recipes in Documentation/guide/tracepoints.md, run as written there: their output, compared with
# the groups' counters. Only this finds recipes that no longer work.

# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

load ../loaded
load ../ports

setup() {
	untraced
	quiet
	inode=$(stat -L -c %i /proc/self/ns/net)
}

# recipe HEADING: resets the counters and runs the commands below HEADING as written. The sleep in
# them is replaced by one that makes traffic, so that everything happens while they listen. Sets
# output.
recipe() {
	local script=$BATS_TEST_TMPDIR/recipe bin=$BATS_TEST_TMPDIR/bin
	awk -v heading="### $1" '
		$0 == heading { here = 1; next }
		/^#/ { here = 0 }
		here && /^    / { print substr($0, 5) }
		here && /^```/ { exit }' "$BATS_TEST_DIRNAME/../../Documentation/guide/tracepoints.md" >"$script"
	grep -q 'sleep 5' "$script" || fail "no recipe '$1'"
	# The only sleep in PATH. bpftrace does not accept a script, so it is bash, which takes the
	# number of seconds for the name of a script.
	mkdir "$bin"
	ln -s "$(type -P bash)" "$bin/sleep"
	ln -s "$(type -P bash)" "$(type -P bpftrace)" "$(type -P cat)" "$(type -P perf)" \
		"$(type -P trace-cmd)" "$bin"
	cat >"$bin/5" <<-END
		{
			"$TRAFFIC" wwr -4 -n 9 --settle
			"$TRAFFIC" wwr -6 -n 4 --settle
			"$TRAFFIC" full -n 1 -c 2 --interval 150 --hold 600
			"$PORTS" "connect 30 reset"
			exec /bin/sleep 0.5
		} >/dev/null
	END
	cd "$BATS_TEST_TMPDIR" || return
	reset_counters
	# To a file: perf would write its data to a pipe.
	PATH=$bin bash -euo pipefail "$script" >out 2>&1 </dev/null || fail "$(tail -n 20 out)"
	output=$(<out)
	mapfile -t lines <out
	head -n 40 out
}

# sum KEY: prints the sum of all KEY: NUMBER in a histogram's lines.
sum() { grep -oE " $1: *[0-9]+" <<<"$output" | awk '{ n += $NF } END { print n + 0 }'; }

@test "recipe: which peer stalls me" {
	recipe 'Which peer stalls me'
	assert_line --regexp '^\{ peer: 127\.0\.0\.1 +\} hitcount: '
	assert_line --regexp '^\{ peer: ::1 +\} hitcount: '
	same stalls "$(sum hitcount)" "$(counter delack/stalls)"
	same us "$(sum stall_us)" "$(counter delack/stall_us)"
}

@test "recipe: who searches longest" {
	recipe 'Who searches longest'
	assert_line --regexp '^\{ common_pid: ports +\[ *[0-9]+\] +\} hitcount: +30 '
	same searches "$(sum hitcount)" "$(counter portsearch/searches)"
	same iterations "$(sum iterations)" "$(counter portsearch/iterations)"
	same time "$(sum time_ns)" "$(counter portsearch/time_ns)"
}

# all_events: the output has each event as often as it was counted.
# readable: it shows addresses.
all_events() {
	same timeouts "$(grep -c 'delack_timeout[:(]' <<<"$output")" "$(counter delack/timeouts)"
	same searches "$(grep -c 'port_search[:(]' <<<"$output")" "$(counter portsearch/searches)"
	same waits "$(grep -c 'snd_wait[:(]' <<<"$output")" "$(counter sndwait/waits)"
	(($(counter delack/timeouts) >= 8 && $(counter sndwait/waits) >= 2))
}

readable() {
	assert_output --regexp "delack_timeout: .*netns=$inode family=inet saddr=127\.0\.0\.1:[0-9]+ daddr=127\.0\.0\.1:[0-9]+ .* mode=(delayed|pingpong) delay_jiffies=1[0-9] "
	assert_output --regexp "delack_timeout: .*netns=$inode family=inet6 saddr=\[?::1\]?.[0-9]+ daddr="
}

@test "recipe: trace-cmd" { recipe 'Everything, with trace-cmd'; all_events; readable; }
@test "recipe: perf" { recipe 'Everything, with perf'; all_events; readable; }
@test "recipe: perf trace" { recipe 'As it happens, with perf trace'; all_events; }

# counts: prints the sum of the counts of a histogram of bpftrace.
counts() {
	sed -nE 's/^\[.*\) +([0-9]+) \|.*/\1/p' <<<"$output" | awk '{ n += $1 } END { print n + 0 }'
}

@test "recipe: bpftrace" {
	recipe 'Whose send() waits, with bpftrace'
	assert_line --regexp '^@ns\[traffic, 127\.0\.0\.1\]:'
	same waits "$(counts)" "$(counter sndwait/waits)"
}

@test "recipe: bpftrace, Nagle's algorithm" {
	recipe "Whose writes Nagle's algorithm holds back, with bpftrace"
	assert_line --regexp '^@ns\[traffic, [0-9]+, 127\.0\.0\.1\]:'
	same holds "$(counts)" "$(counter sndhold/nagle)"
	(($(counter sndhold/nagle) >= 10)) || fail "hardly any"
}
