#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader's output for Prometheus, its conclusions in doctor, and new. Only this checks every
# threshold of doctor and the export formats with other programs' parsers.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines
# shellcheck disable=SC2030,SC2031 # each test has its own output
# shellcheck disable=SC2317 # steps are called by name

bats_require_minimum_version 1.5.0
load reader_helpers

setup_file() {
	build_reader
	need_python
	need_prometheus
}

teardown_file() {
	rm -rf "$READER_DIR"
}

setup() {
	untraced
	enter_work_dir
	make_tree groups
	mkdir -p proc/sys/kernel proc/sys/net/ipv4
	echo 6.1.0-x >proc/sys/kernel/osrelease
}

# ---- openmetrics ----

@test "openmetrics: both formats, by the parsers of others, and each value is its file's" {
	run_tcplat 0 --proc proc openmetrics
	assert_equal "$stderr" ''
	echo "$output" >open
	run_tcplat 0 --proc proc openmetrics --prometheus
	echo "$output" >text
	run -0 promtool check metrics <text
	assert_output ''
	run -0 "$PYTHON" "$BATS_TEST_DIRNAME/openmetrics.py" open text sys/kernel/tcplat
	assert_output "72 values of files found"
}

# again_with COUNT GAVE_UP TIME_NS: a module that counts waits of senders that do not block.
again_with() {
	set_to sndwait/again "$1"
	set_to sndwait/again_gave_up "$2"
	set_to sndwait/again_untracked 0
	set_to sndwait/again_time_ns "$3"
	set_to sndwait/again_time_max_ns 30000000
	set_to sndwait/again_hist '1 2 3 0'
	set_to sndwait/again_hist_le_ns '8388608 16777216 33554432 +Inf'
}

# A counter next to a histogram of times whose sum has another name.
@test "openmetrics: waits of senders that do not block" {
	again_with 7 1 90000000
	run_tcplat 0 --proc proc openmetrics
	echo "$output" >open
	run_tcplat 0 --proc proc openmetrics --prometheus
	echo "$output" >text
	run -0 promtool check metrics <text
	run -0 "$PYTHON" "$BATS_TEST_DIRNAME/openmetrics.py" open text sys/kernel/tcplat
	assert_output "78 values of files found"
	run -0 grep 'sndwait_again' open
	assert_line 'tcplat_sndwait_again_total 7'
	assert_line 'tcplat_sndwait_again_gave_up_total 1'
	assert_line 'tcplat_sndwait_again_seconds_sum 0.09'
	assert_line 'tcplat_sndwait_again_seconds_count 6'
	refute_line --partial 'again_time_seconds_total'
	run_tcplat 0 hist sndwait/again_hist
	assert_output --partial '30 ms'
	run_tcplat 0 show sndwait
	assert_line --regexp '^  again +7 +waits after EAGAIN for send buffer room$'
	assert_line '  mean wait after EAGAIN: 15 ms (again_time_ns / (again - again_gave_up))'
}

@test "openmetrics: an exact group" {
	run_tcplat 0 openmetrics sndwait
	sed -n '/sndwait_/p' <<<"$output" >lines
	run -0 cat lines
	assert_output '# HELP tcplat_sndwait_waits Waits for room in the send buffer.
# TYPE tcplat_sndwait_waits counter
tcplat_sndwait_waits_total 4
# HELP tcplat_sndwait_timeouts Waits for the send buffer that timed out.
# TYPE tcplat_sndwait_timeouts counter
tcplat_sndwait_timeouts_total 1
# HELP tcplat_sndwait_time_max_seconds Longest wait for room in the send buffer.
# TYPE tcplat_sndwait_time_max_seconds gauge
# UNIT tcplat_sndwait_time_max_seconds seconds
tcplat_sndwait_time_max_seconds 0.0205
# HELP tcplat_sndwait_time_seconds Time a send() waited for send buffer room.
# TYPE tcplat_sndwait_time_seconds histogram
# UNIT tcplat_sndwait_time_seconds seconds
tcplat_sndwait_time_seconds_bucket{le="0.008388608"} 1
tcplat_sndwait_time_seconds_bucket{le="0.016777216"} 2
tcplat_sndwait_time_seconds_bucket{le="0.033554432"} 3
tcplat_sndwait_time_seconds_bucket{le="+Inf"} 4
tcplat_sndwait_time_seconds_sum 0.08
tcplat_sndwait_time_seconds_count 4'
}

@test "openmetrics: a count, a sum and a maximum beside a histogram of the same name" {
	add_sndhold
	run_tcplat 0 openmetrics sndhold
	sed -n '/sndhold_/p' <<<"$output" >lines
	run cat lines
	assert_output '# HELP tcplat_sndhold_nagle Times Nagle'"'"'s algorithm held data back.
# TYPE tcplat_sndhold_nagle counter
tcplat_sndhold_nagle_total 3
# HELP tcplat_sndhold_nagle_time_max_seconds Longest hold by Nagle'"'"'s algorithm.
# TYPE tcplat_sndhold_nagle_time_max_seconds gauge
# UNIT tcplat_sndhold_nagle_time_max_seconds seconds
tcplat_sndhold_nagle_time_max_seconds 0.044
# HELP tcplat_sndhold_nagle_seconds How long Nagle'"'"'s algorithm held data back.
# TYPE tcplat_sndhold_nagle_seconds histogram
# UNIT tcplat_sndhold_nagle_seconds seconds
tcplat_sndhold_nagle_seconds_bucket{le="0.008388608"} 0
tcplat_sndhold_nagle_seconds_bucket{le="0.016777216"} 0
tcplat_sndhold_nagle_seconds_bucket{le="0.033554432"} 1
tcplat_sndhold_nagle_seconds_bucket{le="+Inf"} 3
tcplat_sndhold_nagle_seconds_sum 0.12
tcplat_sndhold_nagle_seconds_count 3'
	# And the reader draws the histogram with its maximum.
	run_tcplat 0 hist sndhold
	assert_output --partial 'max 44 ms'
}

@test "openmetrics: 2^64-1 in every unit is written exactly" {
	local max=18446744073709551615
	set_to sndwait/waits $max
	set_to sndwait/time_ns $max
	set_to sndwait/time_hist "$max $max 0 0"
	set_to delack/stall_us $max
	set_to delack/delay_max_jiffies $max
	run_tcplat 0 openmetrics
	assert_line "tcplat_sndwait_waits_total $max"
	assert_line 'tcplat_sndwait_time_seconds_sum 18446744073.709551615'
	assert_line 'tcplat_sndwait_time_seconds_count 36893488147419103230'
	assert_line 'tcplat_delack_stall_seconds_total 18446744073709.551615'
	# (2^64-1) / 300, rounded down to a nanosecond
	assert_line 'tcplat_delack_delay_max_seconds 61489146912365172.05'
}

@test "openmetrics: groups that are off or unavailable say so" {
	# Counts that a module left there by mistake are ignored.
	set_to bindsearch/searches 5
	run_tcplat 0 openmetrics
	assert_line 'tcplat_group_available{group="bindsearch"} 0'
	assert_line 'tcplat_group_enabled{group="bindsearch"} 0'
	assert_line 'tcplat_group_available{group="delack"} 1'
	assert_line 'tcplat_group_enabled{group="delack"} 0'
	assert_line 'tcplat_group_enabled{group="portsearch"} 1'
	refute_output --partial tcplat_bindsearch
}

@test "openmetrics: missed of all available groups is one family" {
	set_to sndwait/missed 4
	run_tcplat 0 openmetrics
	sed -n '/tcplat_missed/p' <<<"$output" >lines
	run -0 cat lines
	assert_output '# HELP tcplat_missed Probe hits the kernel could not deliver.
# TYPE tcplat_missed counter
tcplat_missed_total{group="delack"} 0
tcplat_missed_total{group="ackmode"} 0
tcplat_missed_total{group="portsearch"} 0
tcplat_missed_total{group="sndwait"} 4
tcplat_missed_total{group="idlerestart"} 0
tcplat_missed_total{group="alpha"} 2
tcplat_missed_total{group="zeta"} 0'
}

@test "openmetrics: each HELP can be read alone, and show has the same words in 80 columns" {
	make_every_file
	set_to portsearch/zz_new 7
	run_tcplat 0 --proc proc openmetrics
	sed -n 's/^# HELP \(\S*\) /\1 /p' <<<"$output" | grep -v '_zz_new \|_zeta_' >helps
	(($(wc -l <helps) > 80))
	# Each is a sentence, unique, and does not refer to another one.
	run -1 grep -vE '^\S+ [A-Z].*\.$' helps
	assert_output ''
	run -0 uniq -d <(cut -d ' ' -f 2- helps | sort)
	assert_output ''
	run -1 grep -iwE 'it|its|they|them|those|these|such|same' helps
	assert_output ''
	# Names of 27 letters leave too little room.
	rm "$T"/portsearch/unverified_*
	run_tcplat 0 show
	grep -E '^  [a-z_]+ +[0-9]' <<<"$output" >rows
	(($(wc -l <rows) > 80))
	run -1 grep -E '.{81}' rows
	assert_output ''
}

@test "openmetrics --output: one rename, the mode of the umask, nothing left over" {
	(umask 027 && run_tcplat 0 openmetrics --output out.prom)
	assert_equal "$(stat -c %a out.prom)" 640
	assert_equal "$(tail -n 1 out.prom)" '# EOF'
	assert_equal "$(find . -maxdepth 1 -name '.out*')" ''
	run -0 strace_tcplat -f -o log -e trace=rename,renameat,renameat2,openat \
		--root sys openmetrics -o out.prom
	assert_equal "$(grep -c rename log)" 1
	# The file itself is never opened, so readers see the old or the new contents.
	run -1 grep -E 'openat\(.*"(\./)?out\.prom"' log
	assert_equal "$(grep -cE 'O_CREAT' log)" 1
}

@test "openmetrics --output: an error leaves the file as it is" {
	echo old >out.prom
	echo x >"$T"/sndwait/waits
	run_tcplat 1 openmetrics -o out.prom
	assert_equal "${stderr_lines[1]}" 'tcplat: out.prom: left unchanged'
	assert_equal "$(<out.prom)" old
	assert_equal "$(find . -maxdepth 1 -name '.out*')" ''
	rm -r "$T"
	run_tcplat 1 openmetrics -o out.prom
	assert_equal "$(<out.prom)" old
	make_tree delack
	run_tcplat 1 openmetrics -o nowhere/out.prom
	assert_error "nowhere/out.prom: No such file or directory"
	mkdir closed
	chmod 755 closed
	run -3 --separate-stderr tcplat_as_user --root sys openmetrics -o closed/out.prom
	assert_error "closed/out.prom: Permission denied"
	run_tcplat 2 openmetrics --output=
}

@test "openmetrics --output: a target that is no regular file is left alone" {
	mkfifo fifo
	mkdir directory
	echo old >target
	ln -s target link
	ln -s /dev/null null
	local f
	for f in fifo directory link null; do
		run_tcplat 1 openmetrics -o $f
		assert_error "$f: not a regular file"
		assert_output ''
	done
	[[ -p fifo && -d directory && -L link && -L null ]]
	assert_equal "$(<target)" old
	assert_equal "$(find . -maxdepth 1 -name '.*' ! -name .)" ''
}

# ---- doctor ----

# rules_of: prints the rules in $output, which is JSON.
rules_of() {
	"$PYTHON" -c 'import json, sys; print(*(f["rule"] for f in json.loads(sys.argv[1])["findings"]))' "$output"
}

# examine RULES: doctor finds RULES in an interval of 10 s in which step_1 runs.
examine() {
	run -0 --separate-stderr with_steps doctor --json
	assert_equal "$stderr" ''
	assert_equal "$(rules_of)" "$1"
}

# sick RULES: doctor finds RULES in the totals.
sick() {
	run -0 "$READER_DIR/tcplat" --root sys --proc proc doctor --total --json
	assert_equal "$(rules_of)" "$1"
}

# held_by_nagle COUNT TIME_NS DELAYS DELAY_NS: sets the counters of sndhold.
held_by_nagle() {
	set_to sndhold/nagle "$1"
	set_to sndhold/nagle_time_ns "$2"
	set_to sndhold/peer_delays "$3"
	set_to sndhold/peer_delay_ns "$4"
}

# healthy: a tree without findings in which all groups count.
healthy() {
	local f
	rm -r "$T"/alpha "$T"/zeta
	for f in delack bindsearch; do
		set_to $f/status armed
	done
	for f in missed searches exhausted time_ns; do
		set_to bindsearch/$f 0
	done
	mkdir -p "$T/sndhold"
	set_to sndhold/status armed
	held_by_nagle 0 0 0 0
	sick ''
}

@test "doctor: nothing to say" {
	healthy
	run_tcplat 0 doctor --total
	assert_output 'No findings since the counters started.'
	step_1() { :; }
	run -0 with_steps doctor
	assert_output 'No findings in 10 s.'
	run -0 with_steps doctor -i 2.5
	assert_output 'No findings in 2.5 s.'
}

@test "doctor stalls: ten of them, and 1 ms per second" {
	healthy
	set_to delack/stalls 9
	set_to delack/stall_us 360000
	sick ''
	set_to delack/stalls 10
	sick stalls
	step_1() { set_to delack/stalls 20; set_to delack/stall_us 369999; }
	examine ''
	make_tree groups && healthy
	step_1() { set_to delack/stalls 10; set_to delack/stall_us 10000; }
	examine stalls
	assert_output --partial '"what":"Peers held data back 10 times until a delayed ACK from this host arrived: 10 ms in total (1 ms/s)."'
}

# words TEXT: $output contains TEXT, ignoring line breaks.
words() { [[ $(tr -s '\n ' ' ' <<<"$output") == *"$1"* ]] || fail "no '$1' in: $output"; }

@test "doctor stalls: what makes ACKs wait for less, where the kernel can do it" {
	local proc=proc/sys/net/ipv4
	healthy
	set_to delack/stalls 10
	set_to delack/stall_us 400000
	mkdir -p "$proc"
	run -0 --separate-stderr tcplat --root sys --proc proc doctor --total
	words "set before each recv()."
	refute_output --partial rto_min
	echo 200000 >"$proc/tcp_rto_min_us"
	run -0 --separate-stderr tcplat --root sys --proc proc doctor --total
	words "On this kernel, a route with rto_min, for example 20ms, makes the receiver delay ACKs for less than that."
	assert_line 'net.ipv4.tcp_rto_min_us = 200000'
}

@test "doctor nagle: ten holds, and 1 ms per second; the sender is this host" {
	healthy
	held_by_nagle 9 400000000 9 350000000
	sick ''
	held_by_nagle 10 400000000 8 350000000
	sick nagle
	step_1() { held_by_nagle 20 409999999 9 359999999; }
	examine ''
	held_by_nagle 10 400000000 8 350000000
	step_1() { held_by_nagle 50 2160000000 47 1750000000; }
	examine nagle
	held_by_nagle 10 400000000 8 350000000
	run -0 with_steps doctor
	words "1. nagle: Nagle's algorithm held data back 40 times while a peer's ACK was outstanding: 1.76 s in total (176 ms/s)."
	words 'TCP_NODELAY, which was not set on these sockets. '
	words '39 of these holds were much longer, by 1.4 s in total, '
	refute_output --partial process
	[[ $(grep -v 'Where to look' <<<"$output" | awk 'length > 100') == '' ]] || fail "long lines: $output"
	assert_output --partial 'Where to look: ss -tin shows notsent on these sockets.'
	rm "$T"/sndhold/peer_delay*
	sick nagle
	assert_output --partial "A hold of one round trip is by design.\""
}

@test "doctor stalls: what is known of the senders of this host is said" {
	healthy
	set_to delack/stalls 10
	set_to delack/stall_us 400000
	sick stalls
	assert_output --partial "Nagle's algorithm held back no data of this host."
	held_by_nagle 7 280000000 7 250000000
	sick stalls
	assert_output --partial "Nagle's algorithm held back data of this host 7 times; if both ends are on this host, that is the cause."
	refute_output --partial 'small congestion window'
	rm -r "$T/sndhold"
	sick stalls
	assert_output --partial "This host cannot tell whether the sender waited because of Nagle's algorithm or because of a small congestion window."
}

# Without the tracepoint nobody is named, and nothing is left in tracefs.
@test "doctor nagle: a tracefs without the tracepoint stays as it is" {
	healthy
	mkdir -p sys/kernel/tracing/instances sys/kernel/debug/tracing/instances
	step_1() { held_by_nagle 50 2160000000 47 1750000000; }
	examine nagle
	refute_output --partial process
	run find sys/kernel/tracing sys/kernel/debug/tracing -mindepth 2
	assert_output ''
}

@test "doctor delays: only where stalls are not counted" {
	healthy
	set_to delack/timeouts 10
	set_to delack/delay_us 400000
	sick ''
	rm "$T"/delack/stall_us
	sick ''
	rm "$T"/delack/stalls
	sick delays
	set_to delack/timeouts 9
	sick ''
	step_1() { set_to delack/timeouts 19; set_to delack/delay_us 409999; }
	examine ''
	set_to delack/timeouts 9
	set_to delack/delay_us 400000
	step_1() { set_to delack/timeouts 19; set_to delack/delay_us 410000; }
	examine delays
}

@test "doctor quickack: ten exits by TCP_QUICKACK, ten late ACKs in pingpong mode" {
	healthy
	set_to ackmode/pingpong_exits_setsockopt 10
	set_to delack/timeouts_pingpong 9
	sick ''
	set_to delack/timeouts_pingpong 10
	sick quickack
	set_to ackmode/pingpong_exits_setsockopt 9
	sick ''
}

@test "doctor ports: ten searches of a hundred ports on average" {
	healthy
	set_to portsearch/searches 12
	set_to portsearch/unverified 1
	set_to portsearch/iterations 1099
	sick ''
	set_to portsearch/iterations 1100
	sick ports
	assert_output --partial 'connect() tried 100 ports on average before it found one (11 calls) and searched for 4.175 ms per call: 50.1 ms in total."'
	set_to portsearch/searches 10
	sick unverified
	set_to portsearch/searches 11
	sick ports
}

@test "doctor exhausted and bind: one is enough" {
	healthy
	set_to portsearch/exhausted 1
	sick exhausted
	assert_output --partial '1 of 1002 connect() calls (0.1%) found no free port'
	set_to bindsearch/searches 1
	set_to bindsearch/exhausted 1
	sick 'exhausted bind'
}

@test "doctor sndwait: ten waits of 1 ms, and 10 ms per second" {
	healthy
	set_to sndwait/waits 10
	set_to sndwait/time_ns 9999999
	sick ''
	set_to sndwait/time_ns 10000000
	sick sndwait
	step_1() { set_to sndwait/waits 20; set_to sndwait/time_ns 109999999; }
	examine ''
	make_tree groups && healthy
	step_1() { set_to sndwait/waits 14; set_to sndwait/time_ns 180000000; }
	examine sndwait
	set_to sndwait/waits 4
	set_to sndwait/time_ns 80000000
	step_1() { set_to sndwait/waits 13; set_to sndwait/time_ns 280000000; }
	examine ''
}

@test "doctor again: ten waits after EAGAIN of 1 ms, and 10 ms per second" {
	healthy
	again_with 12 3 1000000000
	sick ''
	again_with 12 2 9999999
	sick ''
	again_with 12 2 10000000
	sick again
	again_with 2 1 0
	step_1() { again_with 13 2 100000000; }
	examine again
	assert_output --partial '"what":"After EAGAIN, non-blocking senders waited 10 times for room in the send buffer, 10 ms on average: 100 ms in total (10 ms/s)."'
	again_with 2 1 0
	step_1() { again_with 13 2 99999999; }
	examine ''
}

@test "doctor idlerestart: ten restarts that lose ten packets each" {
	healthy
	set_to idlerestart/restarts 10
	set_to idlerestart/cwnd_lost 99
	sick ''
	set_to idlerestart/cwnd_lost 100
	sick idlerestart
	set_to idlerestart/restarts 9
	sick ''
}

@test "doctor missed, untracked, unverified: what the counts are worth" {
	healthy
	set_to sndwait/missed 1
	sick missed
	set_to ackmode/untracked_events 1
	sick 'missed untracked'
	set_to portsearch/unverified 100
	sick 'missed untracked'
	set_to portsearch/unverified 101
	sick 'missed unverified untracked'
	set_to portsearch/searches 9
	set_to portsearch/unverified 9
	sick 'missed untracked'
	set_to portsearch/searches 10
	sick 'missed unverified untracked'
}

@test "doctor --json: the members, their types, and the manual names them all" {
	healthy
	set_to portsearch/exhausted 2
	set_to sndwait/missed 3
	echo 32768 60999 >proc/sys/net/ipv4/ip_local_port_range
	run_tcplat 0 --proc proc doctor --total --json
	assert_equal "$stderr" ''
	"$PYTHON" - "$output" "$(<"$T/portsearch/searches")" >members <<-'END'
		import json, sys
		doc = json.loads(sys.argv[1])
		assert doc["schema"] == 1 and doc["seconds"] is None and doc["not_examined"] == {}
		assert doc["sysctls"] == {"net.ipv4.ip_local_port_range": "32768 60999"}
		assert [f["rule"] for f in doc["findings"]] == ["exhausted", "missed"]
		for f in doc["findings"]:
		    assert all(isinstance(v, str) and v for k, v in f.items()
		               if k not in ("event", "numbers", "whose", "whose_dropped")), f
		    assert f["event"] is f["whose"] is f["whose_dropped"] is None
		assert doc["findings"][0]["numbers"] == {"portsearch/searches": int(sys.argv[2]), "portsearch/exhausted": 2}
		assert doc["findings"][1]["numbers"] == {"sndwait/missed": 3}
		print(*doc, *doc["findings"][0], sep="\n")
	END
	assert_equal "$(wc -l <members)" 14
	local page member
	page=$(mandoc -T ascii "$SOURCE/userspace/tcplat.8" | col -bx)
	while read -r member; do
		assert_regex "$page" "[‘'\`]$member'"
	done <members
	step_1() { :; }
	run -0 with_steps doctor -i 2.5 --json
	assert_output --regexp '"seconds":2.5[,0]'
}

@test "doctor over a real interval, without a leak" {
	healthy
	set_to portsearch/exhausted 2
	run_tcplat 0 --proc proc doctor -i 0.2
	assert_line --regexp '^No findings in [0-9.]+ m?s\.$'
	run_tcplat 0 --proc proc doctor -i 0.2 --json
	"$PYTHON" -c 'import json, sys; assert json.loads(sys.argv[1])["seconds"] >= 0.2' "$output"
}

@test "doctor: --total, --from and --to do not watch" {
	run_tcplat 2 doctor --total -i 5
	assert_error "-i cannot be used with --total (see 'tcplat doctor --help')"
	assert_output ''
	run_tcplat 2 doctor --from a -i 5
	assert_error "-i cannot be used with --from (see 'tcplat doctor --help')"
	run_tcplat 2 doctor --to a -i 5
	assert_error "-i cannot be used with --to (see 'tcplat doctor --help')"
	run_tcplat 2 doctor --total --from a
	assert_error "--from cannot be used with --total (see 'tcplat doctor --help')"
}

# saved FILE SECONDS: saves the output of tcplat json, with its clocks SECONDS later.
saved() {
	"$READER_DIR/tcplat" --root sys --proc proc json |
		"$PYTHON" -c 'import json, sys
doc = json.load(sys.stdin)
doc["monotonic_ns"] = 10**12 + int(sys.argv[1]) * 10**9
doc["time"] = 1700000000 + int(sys.argv[1])
json.dump(doc, sys.stdout)' "$2" >"$1"
}

@test "doctor --from, --to: what was counted between two files, or up to now" {
	healthy
	echo 32768 60999 >proc/sys/net/ipv4/ip_local_port_range
	held_by_nagle 10 400000000 8 350000000
	saved a.json 0
	held_by_nagle 50 2160000000 47 1750000000
	saved b.json 10
	# Only the files are used.
	mv sys elsewhere
	run_tcplat 0 --proc proc doctor --from a.json --to b.json
	assert_equal "$stderr" ''
	words "1. nagle: Nagle's algorithm held data back 40 times while a peer's ACK was outstanding: 1.76 s in total (176 ms/s)."
	assert_line 'No other findings in 10 s.'
	refute_output --partial ip_local_port_range
	run_tcplat 0 doctor --from a.json --to b.json --json
	assert_equal "$(rules_of)" nagle
	assert_output --partial '"numbers":{"sndhold/nagle":40,"sndhold/nagle_time_ns":1760000000,"sndhold/peer_delays":39,"sndhold/peer_delay_ns":1400000000}'
	run_tcplat 0 doctor --to b.json --json
	assert_output --partial '"sndhold/nagle":50'
	run_tcplat 2 doctor --from b.json --to b.json
	assert_error 'b.json is not earlier than b.json'
	mv elsewhere sys
	# The current time is from the real clock, so the file must be, too.
	"$READER_DIR/tcplat" --root sys json >c.json
	held_by_nagle 90 4160000000 47 1750000000
	run_tcplat 0 --proc proc doctor --from c.json --json
	assert_output --partial '"sndhold/nagle":40'
	run_tcplat 1 doctor --from b.json --to a.json
	assert_error 'the counters restarted between the two readings (reset, module reload or reboot)'
	# Another boot, another load of the module.
	sed 's/"boot_id": *null/"boot_id": "x"/' a.json >x.json
	sed 's/"boot_id": *null/"boot_id": "y"/' b.json >y.json
	run_tcplat 1 doctor --from x.json --to y.json
	sed 's/"tree": *[0-9]*/"tree": 1/' a.json >x.json
	run_tcplat 1 doctor --from x.json --to b.json
}

@test "doctor --from: a file that tcplat json did not write" {
	healthy
	run_tcplat 2 doctor --from nowhere.json
	assert_error 'nowhere.json: No such file or directory'
	saved a.json 0
	local change
	echo '{}' >b.json
	for change in 's/"schema": *1/"schema": 2/' 's/"nagle": *0/"nagle": -1/' \
		's/"nagle": *0/"nagle": "0"/' 's/"groups"/"froups"/' 's/^{/[/' 's/"counts": *\[[0-9]*/"counts": [{}/'; do
		sed "$change" a.json >b.json
		run ! cmp -s a.json b.json
		run_tcplat 2 doctor --from b.json
		assert_error "b.json: not in the format of 'tcplat json'"
		assert_output ''
	done
	# null: the counter could not be read.
	sed 's/"nagle": *0/"nagle": null/' a.json >b.json
	run_tcplat 0 doctor --to b.json
}

@test "doctor recommends nothing that is set already" {
	healthy
	local ipv4=proc/sys/net/ipv4
	set_to portsearch/exhausted 2
	set_to bindsearch/exhausted 1
	set_to idlerestart/restarts 10
	set_to idlerestart/cwnd_lost 100
	echo 1024 61022 >"$ipv4/ip_local_port_range"
	echo 0 >"$ipv4/tcp_tw_reuse"
	echo 1 >"$ipv4/tcp_slow_start_after_idle"
	run -0 tcplat --root sys --proc proc doctor --total
	assert_output --partial 'Widen net.ipv4.ip_local_port_range; keep'
	words 'net.ipv4.tcp_tw_reuse=1 lets'
	words 'tcp_slow_start_after_idle=0 to keep the window'
	echo 1024 61023 >"$ipv4/ip_local_port_range"
	echo 1 >"$ipv4/tcp_tw_reuse"
	echo 0 >"$ipv4/tcp_slow_start_after_idle"
	run -0 tcplat --root sys --proc proc doctor --total
	refute_output --partial Widen
	assert_output --partial 'Remedy: Keep connections open'
	refute_output --partial 'tcp_tw_reuse=1 lets'
	words 'net.ipv4.tcp_slow_start_after_idle is 0 here'
}

@test "doctor: groups that are absent, off or unavailable are named, never judged" {
	rm -r "$T"/sndwait "$T"/idlerestart "$T"/alpha
	step_1() { set_to delack/timeouts 1000; set_to delack/delay_us 40000000; }
	rm "$T"/delack/stall*
	run -0 with_steps doctor --json
	assert_output --partial '"not_examined":{"delack":"off","bindsearch":"unavailable: inet_csk_get_port","sndwait":"not in this module","sndhold":"not in this module","idlerestart":"not in this module"}'
	run -0 with_steps doctor
	assert_line 'Not examined: sndwait (not in this module).'
}

@test "doctor: sysctls that exist, and tracepoints that exist" {
	healthy
	set_to portsearch/exhausted 2
	printf '32768\t60999\n' >proc/sys/net/ipv4/ip_local_port_range
	run -0 --separate-stderr tcplat --root sys --proc proc doctor --total
	assert_line 'net.ipv4.ip_local_port_range = 32768 60999'
	refute_line --partial "tcp_tw_reuse ="
	refute_output --partial 'as root'
	mkdir -p sys/kernel/tracing/events/tcplat/port_search
	run -0 --separate-stderr tcplat --root sys --proc proc doctor --total
	assert_line '   Each event, as root: tcplat trace portsearch'
}

# event_of RULE: prints the tracepoint that doctor names for the rule, or None.
event_of() {
	tcplat --root sys doctor --total --json | "$PYTHON" -c 'import json, sys
(f,) = [f for f in json.load(sys.stdin)["findings"] if f["rule"] == sys.argv[1]]
print(f["event"])' "$1"
}

@test "doctor: stalls name ack_stall where the module has it, not delack_timeout" {
	healthy
	set_to delack/stalls 10
	set_to delack/stall_us 440000
	mkdir -p sys/kernel/tracing/events/tcplat/delack_timeout
	run -0 event_of stalls
	assert_output None
	mkdir sys/kernel/tracing/events/tcplat/ack_stall
	run -0 event_of stalls
	assert_output ack_stall
	rm "$T"/delack/stall*
	set_to delack/timeouts 10
	set_to delack/delay_us 440000
	run -0 event_of delays
	assert_output delack_timeout
}

@test "doctor: a reset meanwhile, an unload meanwhile: no finding is made of it" {
	step_1() { set_to portsearch/searches 5; }
	run -1 --separate-stderr with_steps doctor
	assert_error 'the counters restarted between the two readings (reset, module reload or reboot); try again'
	assert_output ''
	step_1() { rm -r sys/kernel/tcplat; }
	run -1 with_steps doctor
	assert_line --partial 'not loaded; run modprobe tcplat as root'
}

@test "doctor: every threshold is in the man page" {
	local page number rule
	page=$(mandoc -T ascii "$SOURCE/userspace/tcplat.8" | col -bx)
	for number in LOST_NS_MIN:1000000 SNDWAIT_NS_MIN:10000000 SNDWAIT_MEAN_NS:1000000 \
		EVENTS_MIN:10 PORTS_MEAN_MIN:100 CWND_MEAN_MIN:10 UNVERIFIED_PART:10; do
		run -0 grep -E "^#define ${number%:*}\s+${number#*:}\>" "$SOURCE/userspace/cmd_doctor.c"
	done
	sed -n 's/^\t{ "\([a-z]*\)", check_.*/\1/p' "$SOURCE/userspace/cmd_doctor.c" >rules
	assert_equal "$(wc -l <rules)" 13
	while read -r rule; do
		assert_regex "$page" $'\n +'"$rule"$'[ \n]'
	done <rules
}

# ---- new ----

@test "new: what was counted since the last run with the same file" {
	healthy
	export TCPLAT_HISTORY=$PWD/state/mine.json
	held_by_nagle 10 400000000 8 350000000
	# The first run has nothing to compare with, and the directory does not exist yet.
	run_tcplat 0 new 'sndhold/nagle*'
	assert_line --index 0 'since the counters started'
	assert_line --index 1 --regexp '^  sndhold/nagle +10$'
	assert_line --index 2 --regexp '^  sndhold/nagle_time_ns +400000000 +400 ms$'
	assert_equal "${#lines[@]}" 3
	held_by_nagle 50 2160000000 8 350000000
	run_tcplat 0 new --keep sndhold
	assert_line --index 0 --regexp '^since the last run, [0-9.]+ m?s ago; per second$'
	assert_line --index 1 --regexp '^  sndhold/nagle +40 +[0-9.]+$'
	assert_line --index 2 --regexp '^  sndhold/nagle_time_ns +1760000000 +[0-9.]+ +1.76 s$'
	assert_equal "${#lines[@]}" 3
	# The last run was kept. Each file has its own last run.
	run_tcplat 0 new nagle
	assert_line --index 1 --regexp '^  sndhold/nagle +40 +[0-9.]+$'
	TCPLAT_HISTORY=$PWD/other.json run_tcplat 0 new nagle
	assert_line --index 1 --regexp '^  sndhold/nagle +50$'
	run_tcplat 0 new nagle
	assert_equal "${#lines[@]}" 1
	run_tcplat 0 new -z nagle 'nagle_t*'
	assert_line --index 1 --regexp '^  sndhold/nagle +0 +0$'
	assert_equal "${#lines[@]}" 3
	# A reset, or another load of the module.
	held_by_nagle 20 800000000 8 350000000
	run_tcplat 0 new nagle
	assert_line --index 0 'since the counters restarted, which was after the last run'
	assert_line --index 1 --regexp '^  sndhold/nagle +20$'
}

# The simulated clock stands at 1,000 s.
@test "new: the rate is over the time since the last run" {
	healthy
	export TCPLAT_HISTORY=$PWD/mine.json
	held_by_nagle 10 400000000 8 350000000
	"$READER_DIR/tcplat" --root sys json |
		sed 's/"monotonic_ns": *[0-9]*/"monotonic_ns": 996000000000/' >mine.json
	held_by_nagle 50 2160000000 8 350000000
	run -0 with_fault FAULT_SLEEP=: new 'nagle*'
	assert_line --index 0 'since the last run, 4 s ago; per second'
	assert_line --index 1 --regexp '^  sndhold/nagle +40 +10$'
	assert_line --index 2 --regexp '^  sndhold/nagle_time_ns +1760000000 +440000000 +1.76 s$'
	# One more since 100,000 s ago, by the wall clock.
	"$READER_DIR/tcplat" --root sys json |
		sed "s/\"monotonic_ns\": *[0-9]*/\"monotonic_ns\": 0/; s/\"time\": *[0-9]*/\"time\": $(($(date +%s) - 100000))/" >mine.json
	set_to sndhold/nagle 51
	run_tcplat 0 new nagle
	assert_line --index 1 --regexp '^  sndhold/nagle +1 +0\.00001000$'
}

@test "new: where the last run is kept, and files that are not one" {
	healthy
	unset TCPLAT_HISTORY XDG_STATE_HOME
	HOME=$PWD/home run_tcplat 0 new
	[[ -s home/.local/state/tcplat/new.json ]]
	assert_equal "$(stat -c %a home/.local/state/tcplat)" 700
	XDG_STATE_HOME=$PWD/state HOME=$PWD/home run_tcplat 0 new
	[[ -s state/tcplat/new.json ]]
	HOME='' run_tcplat 2 new
	assert_error 'HOME is not set; set TCPLAT_HISTORY to the file that keeps the last run'
	export TCPLAT_HISTORY=$PWD/mine.json
	run_tcplat 2 new 'x*' delack
	assert_error "no counter matches 'x*'"
	[[ ! -e mine.json ]]
	echo other >mine.json
	run_tcplat 2 new
	assert_error "$PWD/mine.json: not in the format of 'tcplat json'"
	assert_equal "$(<mine.json)" other
	ln -sf home mine.json
	run_tcplat 1 new
	assert_error "$PWD/mine.json: not a regular file"
	TCPLAT_HISTORY=/proc/nowhere/x run_tcplat 1 new
	assert_line --index 0 'since the counters started'
	assert_equal "$stderr" 'tcplat: /proc/nowhere/x: No such file or directory'
}
