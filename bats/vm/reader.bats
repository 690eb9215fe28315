#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader on the live module: its output equals the files, and doctor finds what the traffic
# causes. Only this has the reader use live tracepoints.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr

bats_require_minimum_version 1.5.0
load ../helpers

setup_file() {
	load_afresh
	# Count a bit of everything, with IPv4 and IPv6.
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	"$TRAFFIC" wwr -6 -n 5 --settle >/dev/null
}

teardown_file() {
	! loaded || unload_module
}

setup() {
	untraced
	cd "$BATS_TEST_TMPDIR" || return
	quiet
}

teardown() {
	[[ ! ${server:-} ]] || kill "$server" 2>/dev/null || :
	remove_namespaces
}

# Prints GROUP/FILE=VALUE for the live files, without a process per file.
live_values() {
	(
		cd "$TREE" || exit
		for f in */*; do
			case $f in */status | */enabled | *_hist_le*) continue ;; esac
			read -r value <"$f"
			echo "$f=$value"
		done
	) | sort
}

@test "json: every value is its file's, and no file is left out" {
	live_values >before
	run -0 --separate-stderr "$TCPLAT" json
	assert_equal "$stderr" ''
	echo "$output" >json
	live_values >after
	# Without traffic nothing changes.
	run -0 diff before after
	python3 - <<-'END' >values
		import json
		doc = json.load(open("json"))
		assert doc["kernel"] == open("/proc/sys/kernel/osrelease").read().strip()
		for k, v in doc["clock"].items():
		    print(f"clock/{k}={v}")
		for g, group in doc["groups"].items():
		    assert group["status"] == open(f"/sys/kernel/tcplat/{g}/status").read().strip()
		    for kind in ("counters", "gauges", "maxima"):
		        for k, v in group.get(kind, {}).items():
		            print(f"{g}/{k}={v}")
		    for k, h in group.get("histograms", {}).items():
		        print(f"{g}/{k}=" + " ".join(map(str, h["counts"])))
	END
	run -0 diff <(sort values) before
	assert_equal "$(grep -c delack/ values)" "$(grep -c delack/ before)"
}

@test "openmetrics: the sums of what was counted are the files'" {
	run -0 --separate-stderr "$TCPLAT" openmetrics
	assert_equal "$stderr" ''
	assert_line "tcplat_delack_delay_seconds_count $(counter delack/timeouts)"
	assert_line "tcplat_portsearch_searches_total $(counter portsearch/searches)"
	assert_line "tcplat_portsearch_time_seconds_count $(counter portsearch/searches)"
	assert_line "tcplat_portsearch_iterations_sum $(counter portsearch/iterations)"
	assert_line "tcplat_ackmode_tracked $(counter ackmode/tracked)"
	assert_line "tcplat_info{version=\"$(counter version)\",hz=\"$(config_hz)\",kernel=\"$(uname -r)\"} 1"
	assert_line 'tcplat_group_enabled{group="delack"} 1'
	local sum
	sum=$(sed -n 's/^tcplat_delack_delay_seconds_sum //p' <<<"$output")
	assert_equal "$(awk -v s="$sum" 'BEGIN { printf "%.0f", s * 1000000 }')" "$(counter delack/delay_us)"
}

@test "delta: as many timeouts as the kernel counts, and the command's status" {
	local before after
	before=$(tcp_ext DelayedACKs)
	run -3 --separate-stderr "$TCPLAT" delta bash -c \
		"'$TRAFFIC' wwr -n 8 --settle >/dev/null; sleep 0.3; exit 3"
	after=$(tcp_ext DelayedACKs)
	assert_output ''
	((after > before)) || fail 'nothing was delayed'
	assert_regex "$stderr" $'\n'"  timeouts +$((after - before)) +ACKs"
	run -0 "$TCPLAT" delta true
	refute_line --regexp '^  timeouts '
}

@test "watch: a reset and a reload of the module make no rate" {
	"$TCPLAT" watch -i 0.5 portsearch >lines 2>errors &
	local watch=$! i
	# Wait until watch has printed its first interval, and below, one with the search.
	for ((i = 0; i < 100; i++)); do
		[[ ! -s lines ]] || break
		sleep 0.1
	done
	"$TRAFFIC" rr -n 1 >/dev/null
	for ((i = 0; i < 100; i++)); do
		! grep -q '  portsearch/searches ' lines || break
		sleep 0.1
	done
	reset_counters
	sleep 0.6
	unload_module
	sleep 0.6
	load_module
	"$TRAFFIC" rr -n 1 >/dev/null
	sleep 1.2
	kill "$watch"
	wait "$watch" || :
	cat lines
	[[ ! -s errors ]]
	run -0 grep -E '^[^ ]+  all +-$' lines
	run -0 grep -E '^[^ ]+  portsearch/searches +[0-9.]+$' lines
	# The rate of a single connect() is at most a few per second.
	awk '$2 == "portsearch/searches" && $3 > 100 { exit 1 }' lines
}

@test "enable, disable, reset and probes" {
	run -0 "$TCPLAT" disable delack
	assert_equal "$(counter delack/status)" off
	run -0 "$TCPLAT" enable delack
	assert_equal "$(counter delack/status)" armed
	run -0 "$TCPLAT" reset
	assert_equal "$(counter delack/timeouts)" 0
	run -0 --separate-stderr "$TCPLAT" probes
	assert_equal "$stderr" ''
	assert_equal "$((${#lines[@]} - 1))" "$(grep -vc '^#' "$DEBUG/probes")"
	run -3 setpriv --reuid 65534 --regid 65534 --clear-groups "$TCPLAT" disable delack
	assert_output "tcplat: $TREE/delack/enabled: permission denied; run 'tcplat disable' as root"
	run -3 --separate-stderr setpriv --reuid 65534 --regid 65534 --clear-groups "$TCPLAT" probes
}

# ---- doctor ----

# doctor_while COMMAND...: runs doctor while COMMAND runs; saves its JSON in found and the files'
# contents before and after. Repeated with longer intervals if COMMAND does not end within doctor's.
doctor_while() {
	local seconds doctor
	for seconds in 4 8 16 32; do
		live_values >before
		"$TCPLAT" doctor -i "$seconds" --json >found 2>errors 3>&- &
		doctor=$!
		asleep "$doctor"
		"$@"
		# COMMAND took too long: repeat with a longer interval.
		kill -0 "$doctor" || continue
		live_values >after
		wait "$doctor"
		assert_equal "$(<errors)" ''
		return 0
	done
	fail "$* takes longer than $seconds s"
}

# assert_whose RULE COUNT TIME: the finding's shares add up to the growth of these counters.
assert_whose() {
	local sums of want
	sums=$(python3 - "$@" <<-'END'
		import json, sys
		rule, count, time = sys.argv[1:]
		f = next(f for f in json.load(open("found"))["findings"] if f["rule"] == rule)
		for name, of in ((count, "count"), (time, "time_ns")):
		    unit = 1000 if name.endswith("_us") else 1
		    print(sum(s[of] for s in f["whose"]), f["numbers"][name] * unit)
	END
	)
	echo "whose: $sums"
	while read -r of want; do
		same "$1" "$of" "$want"
	done <<<"$sums"
}

# doctor_total: the same for everything since the last reset.
doctor_total() {
	live_values | sed 's/=.*/=0/' >before
	live_values >after
	"$TCPLAT" doctor --total --json >found
}

# assert_rules RULE...: exactly these are found.
assert_rules() {
	assert_equal "$(grep -o '"rule":"[a-z]*"' found | cut -d '"' -f 4 | xargs)" "$*"
}

# assert_finding RULE GROUP SENTENCE FIGURE...: RULE's finding is SENTENCE, in which N is a number
# and T a time. Each equals its FIGURE, an expression of the growth of GROUP's files and of
# seconds. Numbers of events are exact, others have four digits.
assert_finding() {
	python3 - "$@" <<-'END'
		import json, re, sys
		rule, group, sentence, *figures = sys.argv[1:]
		doc = json.load(open("found"))
		(what,) = [f["what"] for f in doc["findings"] if f["rule"] == rule]
		print(what)
		def values(name):
		    lines = (line.strip().split("=") for line in open(name))
		    return {k.split("/")[1]: int(v) for k, v in lines if k.startswith(group + "/") and v.isdigit()}
		before = values("before")
		gained = {k: v - before[k] for k, v in values("after").items()}
		gained["seconds"] = doc["seconds"]
		pattern = re.sub(r"\bN\b", "([0-9.]+)", re.escape(sentence))
		pattern = re.sub(r"\bT\b", "([0-9.]+ [a-z]+)", pattern)
		match = re.fullmatch(pattern, what)
		assert match, sentence
		ns = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
		for text, figure in zip(match.groups(), figures, strict=True):
		    number, _, unit = text.partition(" ")
		    have = float(number) * ns[unit]
		    want = eval(figure, gained)
		    print(text, "is", figure, "=", want)
		    assert have == want if figure.isidentifier() and not unit else abs(have - want) <= want / 2000
	END
}

@test "doctor: delayed ACKs that were provoked are found, and none without" {
	run -0 "$TCPLAT" doctor -i 0.5 --json
	assert_output --partial '"findings":[]'
	reset_counters
	"$TRAFFIC" wwr -n 20 --settle >/dev/null
	(($(counter delack/timeouts) >= 10))
	doctor_total
	if [[ -e $TREE/delack/stalls ]]; then
		if [[ -e $TREE/sndhold/nagle ]]; then
			assert_rules nagle stalls
			assert_finding nagle sndhold "Nagle's algorithm held data back N times while a peer's ACK was outstanding: T in total." \
				nagle nagle_time_ns
		else
			assert_rules stalls
		fi
		assert_finding stalls delack 'Peers held data back N times until a delayed ACK from this host arrived: T in total.' \
			stalls 'stall_us * 1000'
	else
		assert_rules delays
		assert_finding delays delack 'The delayed-ACK timer sent N ACKs; the oldest data that they acknowledged waited T in total.' \
			timeouts 'delay_us * 1000'
	fi
}

# wwr's peer waits for ACKs. Nobody waits for oneway's, whose first ACKs are quick ACKs.
stalls_and_late_acks() {
	"$TRAFFIC" wwr -n 30 --settle >/dev/null
	"$TRAFFIC" oneway -6 -n 40 --interval 90 --hold 65 --settle >/dev/null
}

@test "doctor: whose stalls they are, and not whose ACKs were late" {
	[[ -e $TREE/delack/stalls ]] || skip "no stalls"
	doctor_while stalls_and_late_acks
	assert_whose stalls delack/stalls delack/stall_us
	run -0 python3 - <<-'END'
		import json
		(f,) = [f for f in json.load(open("found"))["findings"] if f["rule"] == "stalls"]
		print(f["event"], f["numbers"]["delack/stalls"] >= 20, *(s["name"] for s in f["whose"]))
	END
	assert_output --regexp '^ack_stall True 127\.0\.0\.1( cgroup [0-9]+| /[^ ]*)?$'
	((late = $(sed -n 's|^delack/timeouts=||p' after) - $(sed -n 's|^delack/timeouts=||p' before)))
	((late >= $(grep -oE '"delack/stalls":[0-9]+' found | cut -d : -f 2 | sort -n | head -n 1) + 5)) ||
		fail "hardly any late ACK that nobody waited for"
}

# held_back CODE: Perl that writes requests in two pieces, 30 times on each of two connections, and
# then runs CODE. Perl's modules are not available: 2, 1 are AF_INET, SOCK_STREAM; 6, 1 are
# IPPROTO_TCP, TCP_NODELAY.
held_back() {
	exec perl -e '
		$address = pack("S n C4 x8", 2, 0, 127, 0, 0, 1);
		socket($l, 2, 1, 0) and bind($l, $address) and listen($l, 1) or die "$!\n";
		for $i (0, 1) {
			socket($s[$i], 2, 1, 0) and connect($s[$i], getsockname($l)) and
				accept($p[$i], $l) or die "$!\n";
		}
		for $i ((0, 1) x 30) {
			syswrite($s[$i], "a");
			syswrite($s[$i], "b");
			for ($n = 0; $n < 2; $n += sysread($p[$i], $_, 10)) {}
			syswrite($p[$i], "c");
			sysread($s[$i], $_, 10);
		}
		'"$1"
}

# while_held CODE: runs doctor while such a process runs; its output is in $output.
while_held() {
	local n pid doctor
	n=$(counter sndhold/nagle)
	"$TCPLAT" doctor -i 6 >"$BATS_TEST_TMPDIR/out" 3>&- &
	doctor=$!
	asleep "$doctor"
	held_back "$1"' sleep 600' 3>&- &
	pid=$!
	wait "$doctor"
	kill "$pid" 2>/dev/null || :
	wait "$pid" || :
	(($(counter sndhold/nagle) - n > 40)) || fail "hardly any hold"
	output=$(<"$BATS_TEST_TMPDIR/out")
	echo "$output"
	[[ $(tr -s '\n ' ' ' <<<"$output") == *"; process perl ($pid) wrote the largest part of it."* ]] ||
		fail "not process $pid"
	same instances "$(ls "$TRACING/instances")" ''
	# All holds are this process's.
	assert_regex "$output" "   Whose: perl\($pid\) [0-9.]+ m?s \($(($(counter sndhold/nagle) - n)) times\)"$'\n'
}

@test "doctor: who writes what Nagle's algorithm holds back, and what is set there" {
	[[ -e $TREE/sndhold/nagle ]] || skip "no sndhold"
	while_held ''
	assert_output --partial 'TCP_NODELAY, which is not set on its sockets.'
	# shellcheck disable=SC2016 # Perl has variables, too
	while_held 'setsockopt($_, 6, 1, pack("i", 1)) or die for @s;'
	assert_output --partial 'TCP_NODELAY has been set on its sockets since; watch again.'
	# The process has ended, so its sockets cannot be checked.
	while_held 'exit;'
	assert_output --partial 'TCP_NODELAY, which was not'
}

@test "doctor leaves nothing in tracefs when a signal ends it" {
	[[ -e $TREE/sndhold/nagle ]] || skip "no sndhold"
	local signal doctor
	for signal in INT TERM HUP; do
		# Not as a background job of this shell, which would make it ignore SIGINT.
		perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$TCPLAT" doctor -i 600 3>&- &
		doctor=$!
		asleep "$doctor"
		kill "-$signal" "$doctor"
		status=0
		wait "$doctor" || status=$?
		((status > 128)) || fail "status $status"
		same instances "$(ls "$TRACING/instances")" ''
	done
}

@test "doctor: a sender that waits for a slow reader is found, as the files have it" {
	doctor_while "$TRAFFIC" slowreader -n 60 --sndbuf 8192
	# Some of the ACKs that it waits for are also delayed.
	assert_finding sndwait sndwait 'send() waited N times for room in the send buffer, T on average: T in total (T/s).' \
		waits 'time_ns / waits' time_ns 'time_ns / seconds'
	assert_whose sndwait sndwait/waits sndwait/time_ns
	run -0 grep -o '"name":"traffic([0-9]*) 127.0.0.1:[0-9]*"' found
}

@test "doctor: a sender that does not block and waits is found, as the files have it" {
	doctor_while "$TRAFFIC" again -n 60 --sndbuf 8192
	assert_finding again sndwait 'After EAGAIN, non-blocking senders waited N times for room in the send buffer, T on average: T in total (T/s).' \
		'again - again_gave_up' 'again_time_ns / again' again_time_ns 'again_time_ns / seconds'
	assert_whose again sndwait/again sndwait/again_time_ns
}

@test "doctor: windows that fall after a silence are found, as the files have it" {
	veth_pair delay 5ms
	reset_counters
	between idle 10.9.0.2 -c 12 -n 1 -s 200000 --interval 600
	doctor_total
	# The senders may have waited, too.
	assert_finding idlerestart idlerestart "Connections restarted in slow start N times after being idle; this shrank their congestion window by N packets on average." \
		restarts 'cwnd_lost / restarts'
}

quiet_traffic() {
	"$TRAFFIC" rr -n 20
	# A few waits and a few restarts are no finding.
	"$TRAFFIC" full -c 3 -n 2 --interval 50 --hold 500
	between idle 10.9.0.2 -n 1 -s 30000 --interval 400
}

@test "doctor: of quiet traffic there is nothing to say" {
	veth_pair delay 5ms
	doctor_while quiet_traffic
	assert_rules
	# But they were counted.
	run diff before after
	assert_line --regexp '^> sndwait/waits='
	assert_line --regexp '^> idlerestart/restarts='
	assert_line --regexp '^> portsearch/searches='
}

@test "a group that this kernel lacks: every command says so, and goes on with the rest" {
	unload_module
	insmod "$TCPLAT_KO" hide=sk_stream_wait_memory
	run -1 "$TCPLAT" enable delack sndwait
	assert_output "tcplat: this kernel does not support group 'sndwait': unavailable: sk_stream_wait_memory"
	run -0 "$TCPLAT" disable sndwait delack
	assert_equal "$(counter delack/status)" off
	run -0 "$TCPLAT" enable delack
	run -0 "$TCPLAT" doctor --total
	assert_line 'Not examined: sndwait (unavailable: sk_stream_wait_memory).'
	run -0 "$TCPLAT" openmetrics
	assert_line 'tcplat_group_available{group="sndwait"} 0'
	assert_line 'tcplat_group_available{group="delack"} 1'
	refute_output --partial tcplat_sndwait
	unload_module
	load_module
}

@test "not loaded" {
	unload_module
	run -1 "$TCPLAT" show
	assert_output --partial 'not loaded; run modprobe tcplat as root'
	load_module
}
