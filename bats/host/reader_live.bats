#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader's commands over time: watch and delta; and json. fixtures/faults.c simulates the
# clock and the sleeps of watch, so that rates are exact. Only this runs watch on terminals.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines
# shellcheck disable=SC2317 # steps are called by name

bats_require_minimum_version 1.5.0
load reader_helpers

setup_file() {
	build_reader
	need_python
}

# Fails if a reader still runs.
teardown_file() {
	local i left
	for ((i = 0; i < 100; i++)); do
		left=$(pgrep -f "^$READER_DIR/tcplat") || break
		sleep 0.1
	done
	rm -rf "$READER_DIR"
	# shellcheck disable=SC2086 # process IDs
	[[ ! $left ]] || { kill -KILL $left && false; }
}

setup() {
	untraced
	enter_work_dir
	make_tree delack
}

# ---- watch ----

# rates [NAME]: prints the lines in $output without times, or only NAME's rates.
rates() { awk -v name="${1-}" '!name || $2 == name { printf "%s%s", sep, name ? $3 : $2 " " $3; sep = name ? " " : "\n" }' <<<"$output"; }

@test "watch: a line for each counter that changed, its rate exact, for whole and broken intervals" {
	step_1() { set_to delack/timeouts 80; set_to delack/delay_us 3208000; }
	step_2() { :; }
	step_3() { set_to delack/timeouts 81; }
	run -0 --separate-stderr with_steps watch -n 3 -i 2
	assert_equal "$stderr" ''
	assert_equal "$(rates)" "\
delack/timeouts 15
delack/delay_us 600000
all 0
delack/timeouts 0.5"
}

@test "watch: a rate is over the time that has passed, not the time that was asked for" {
	step_1() { set_to delack/timeouts 80; }
	FAULT_LATE=1 run -0 with_steps watch -n 1 -i 2
	assert_equal "$(rates)" 'delack/timeouts 10'
}

@test "watch: each line begins with the time, and its parts are as wide as those above" {
	step_1() { set_to delack/timeouts 51; set_to delack/deferred 1000000; }
	step_2() { :; }
	local line before after times
	before=$(date +%s%3N)
	TZ=XXX-5:30 run -0 with_steps watch -n 2
	after=$(date +%s%3N)
	assert_equal "${#lines[@]}" 3
	for line in "${lines[@]}"; do
		assert_regex "$line" '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}\+05:30  [a-z/]+ +[0-9]+$'
		times+=" $(date -d "${line%% *}" +%s%3N)"
	done
	assert_equal "$(xargs -n 1 <<<"$before $times $after" | sort -nc && echo sorted)" sorted
	run -0 cut -c 32- <<<"$output"
	assert_output "\
delack/timeouts                         1
delack/deferred                         1000000
all                                     0"
}

@test "watch: maxima have no rate, jiffies are not shown twice; --zeros shows all but maxima" {
	step_1() {
		set_to delack/delay_max_jiffies 30
		set_to delack/delay_jiffies 510
		set_to delack/delay_us 2040000
	}
	run -0 with_steps watch -n 1
	assert_equal "$(rates)" 'delack/delay_us 32000'
	make_tree delack
	run -0 with_steps watch -n 1 --zeros
	assert_equal "$(rates)" "\
delack/timeouts 0
delack/timeouts_pingpong 0
delack/deferred 0
delack/delay_jiffies 8
delack/delay_us 32000
delack/missed 0"
	# A time without a file in microseconds is shown in jiffies.
	make_tree delack
	rm "$T/delack/delay_us"
	step_1() { set_to delack/delay_jiffies 510; }
	run -0 with_steps watch -n 1
	assert_equal "$(rates)" 'delack/delay_jiffies 8'
}

@test "watch SECONDS COUNT, as vmstat takes them, after the groups" {
	local arguments
	step_1() { set_to idlerestart/restarts 5; }
	step_2() { set_to idlerestart/restarts 6; }
	step_3() { :; }
	make_tree groups
	for arguments in '2 3' '-n 3 2' '-i 2 -n 3' '-i 1 -n 9 2 3' 'delack idlerestart 2 3'; do
		set_to idlerestart/restarts 3
		# shellcheck disable=SC2086 # words
		run -0 --separate-stderr with_steps watch $arguments
		assert_equal "$stderr" ''
		assert_equal "$(rates)" $'idlerestart/restarts 1\nidlerestart/restarts 0.5\nall 0'
	done
	run -0 with_steps watch delack 2 3
	assert_equal "$(rates all)" '- - -'
}

@test "watch: a reset makes no rate, and the next interval has one again" {
	step_1() { set_to delack/timeouts 2; set_to delack/delay_us 9000000; }
	step_2() { set_to delack/timeouts 5; }
	run -0 --separate-stderr with_steps watch -n 2
	assert_equal "$stderr" ''
	# If one counter fell, the others cannot be trusted either.
	assert_equal "$(rates)" $'all -\ndelack/timeouts 3'
	make_tree delack
	run -0 with_steps watch -n 2 -z
	assert_equal "$(rates delack/timeouts) $(rates delack/delay_us) $(rates all)" '- 3 - 0 '
}

@test "watch: a reset that only a maximum or a histogram shows" {
	step_1() { set_to delack/delay_max_jiffies 3; set_to delack/timeouts 60; }
	step_2() { set_to delack/delay_hist '0 0 0 0 0 0 0 50 0 0 0 0 0 0 0 0'; set_to delack/timeouts 70; }
	step_3() { set_to delack/timeouts 71; }
	run -0 with_steps watch -n 3
	assert_equal "$(rates)" $'all -\nall -\ndelack/timeouts 1'
}

@test "watch: unload and reload, another module with other groups" {
	step_1() { mv sys/kernel/tcplat gone; }
	step_2() { :; }
	step_3() {
		cp -r gone sys/kernel/tcplat
		set_to delack/timeouts 900
		mkdir sys/kernel/tcplat/newer
		set_to newer/status armed
		set_to newer/missed 0
		set_to newer/things 7
	}
	step_4() { set_to delack/timeouts 901; set_to newer/things 9; }
	run -0 --separate-stderr with_steps watch -n 4
	assert_equal "$stderr" ''
	assert_equal "$(rates)" $'all -\nall -\nall -\ndelack/timeouts 1\nnewer/things 2'
}

@test "watch: a module that is gone at the end, exit 1" {
	step_1() { rm -r sys/kernel/tcplat; }
	run -1 --separate-stderr with_steps watch -n 1
	assert_error 'the module is no longer loaded'
	assert_equal "$(rates)" 'all -'
}

@test "watch: a reload without a pause is seen though no counter fell" {
	step_1() {
		cp -r sys/kernel/tcplat new
		rm -r sys/kernel/tcplat
		mkdir keeps_the_inode
		mv new sys/kernel/tcplat
		set_to delack/timeouts 60
	}
	run -0 with_steps watch -n 1
	assert_equal "$(rates)" 'all -'
}

@test "watch: a group that is off, one that is unavailable, a gauge" {
	make_tree groups
	step_1() { set_to ackmode/tracked 5; set_to portsearch/zz_new 18446744073709551615; set_to sndwait/waits 18446744073709551615; }
	run -0 --separate-stderr with_steps watch -n 1 -z
	assert_equal "$stderr" ''
	assert_equal "$(rates delack/timeouts)" -
	assert_equal "$(rates ackmode/tracked)" 5
	assert_equal "$(rates portsearch/zz_new)" 0
	assert_equal "$(rates sndwait/waits)" 18446744073709551611
	refute_output --partial bindsearch
	make_tree groups
	run -0 with_steps watch -n 1
	assert_equal "$(rates)" $'ackmode/tracked 5\nsndwait/waits 18446744073709551611'
	run -0 with_steps watch -n 1 -z idlerestart
	assert_equal "$(rates | cut -d ' ' -f 1 | xargs)" 'idlerestart/restarts idlerestart/cwnd_lost idlerestart/idle_jiffies idlerestart/idle_us idlerestart/missed'
}

@test "watch: what cannot be read is said once and stays -" {
	step_1() { :; }
	step_2() { :; }
	set_to delack/timeouts x
	run -1 --separate-stderr with_steps watch -n 2 -z
	assert_error "$T/delack/timeouts: 'x' is not a number from 0 to 2^64-1"
	assert_equal "$(rates delack/timeouts)" '- -'
	assert_equal "$(rates delack/deferred)" '0 0'
}

@test "watch in a pipe: each line comes at once, and a closed pipe or a full disk ends it" {
	run -0 timeout 20 bash -c "$READER_DIR/tcplat --root sys watch -i 0.1 | head -n 3"
	assert_equal "${#lines[@]}" 3
	run -1 timeout 20 bash -c "$READER_DIR/tcplat --root sys watch 0.1 >/dev/full"
	assert_output 'tcplat: cannot write the output: No space left on device'
}

@test "watch where there is no screen: lines, whatever the terminal is" {
	local term
	for term in dumb '' tcplat-no-such-terminal; do
		# ncurses does not free what it allocated for an unknown terminal.
		run -0 env TERM="$term" LSAN_OPTIONS=detect_leaks=0 script -qec "$READER_DIR/tcplat --root sys watch 0.1 2" /dev/null </dev/null
		assert_equal "${#lines[@]}" 2
		assert_line --index 1 --regexp $'^[0-9T:.+-]+  all +0\r$'
	done
}

@test "watch without a leak" {
	run_tcplat 0 watch -n 2 -i 0.1
	run_tcplat 0 watch -n 2 -i 0.1 -z
}

# watch_on WIDTH HEIGHT ARGUMENT...: runs watch on its own terminal, and then prints its status. The
# leak sanitizer would keep a processor busy forever when the terminal goes (SIGHUP).
watch_on() {
	# The signals that end watch must not end the shell around it.
	screen new-session -d -x "$1" -y "$2" "trap : INT QUIT; echo begun
		sh -c 'echo \$\$ >pid; exec env LSAN_OPTIONS=detect_leaks=0 \
			$READER_DIR/tcplat --root sys watch ${*:3} 2>err'
		echo status \$?; exec sleep 1000"
}

# captured FILE PATTERN [LINES]: waits until PATTERN is on the screen, in LINES if given; saves the
# screen in FILE. It takes up to watch's interval until a change is shown.
captured() {
	local i
	for ((i = 0; i < 300; i++)); do
		screen capture-pane -p >"$1"
		! sed -n "${3:-1,\$}p" "$1" | grep -qE -- "$2" || return 0
		sleep 0.1
	done
	screen kill-server
	fail "no '$2' on the screen: $(<"$1")"
}

# put GROUP/FILE VALUE: replaces the file atomically, since watch reads it meanwhile.
put() {
	echo "$2" >new
	mv new "$T/$1"
}

@test "watch on 80x24: what has changed, the longest time first; no 0 s, nothing twice" {
	make_tree groups
	watch_on 80 24 0.2
	captured shot 'nothing has changed; -z shows all'
	put portsearch/searches 1003
	captured shot '^  portsearch/searches +0 +1003$'
	put ackmode/tracked 12
	captured shot '^  ackmode/tracked +12$'
	put sndwait/time_ns 1080000000
	captured shot '^  sndwait/time_ns +0 +1\.08 s$'
	put idlerestart/idle_jiffies 1800
	put idlerestart/idle_us 6000000
	captured shot '^  idlerestart/idle_us +0 +6 s$'
	cp shot still
	touch going
	while [[ -e going ]]; do
		put sndwait/time_ns "$((1080000000 + ++n * 100000))"
		sleep 0.02
	done 3>&- &
	captured shot '^  sndwait/time_ns +[0-9.]+ [mu]s +1\.[0-9]+ s$'
	rm going
	screen kill-server
	cat still shot
	assert_equal "$(sed -n '3,$s/^ *\([^ ]*\).*/\1/p' still | xargs)" \
		'idlerestart/idle_us sndwait/time_ns ackmode/tracked portsearch/searches'
	run -0 sed -n 1p shot
	assert_output --regexp '^tcplat watch: [0-9]{2}:[0-9]{2}:[0-9]{2}, per second over [0-9]\.[0-9] s; q quits$'
	run -0 sed -n 2p shot
	assert_output --regexp '^ +per second +total$'
	[[ ! -s err ]]
}

@test "watch: what does not fit is scrolled to, in a window of any size" {
	local names n
	make_tree groups
	mapfile -t names < <("$READER_DIR/tcplat" --root sys watch -z 0.1 1 | awk '{ print $2 }')
	n=${#names[@]}
	((n > 50))
	at() { captured shot "^  ${names[$2]}( |\$)" "$1"; }
	# Keys and new sizes take effect at once, not after the interval.
	watch_on 80 24 -z 3600
	captured shot "^$((n - 21)) more: the arrow keys and Page Up, Page Down scroll\$" 24
	at 3 0
	at 23 20
	screen send-keys Down Down Up
	at 3 1
	screen send-keys NPage
	at 3 22
	screen send-keys PPage PPage Up
	at 3 0
	screen send-keys NPage NPage NPage NPage NPage Down
	at 23 $((n - 1))
	captured shot "^$((n - 21)) more" 24
	screen resize-window -x 50 -y 10
	captured shot "^$((n - 7)) more: the arrow keys and Page Up, Page Down scr\$" 10
	at 3 $((n - 21))
	screen resize-window -x 80 -y $((n + 2))
	at 3 0
	at $((n + 2)) $((n - 1))
	run -1 grep more shot
	screen resize-window -x 20 -y 4
	captured shot "^$((n - 1)) more" 4
	at 3 0
	screen kill-server
	[[ ! -s err ]]
}

@test "watch leaves the screen as it found it, on every way out" {
	local how
	for how in q Q C-c "C-\\" INT TERM HUP QUIT; do
		watch_on 80 24 3600
		captured shot 'waiting for the first interval; q quits'
		run -1 grep begun shot
		case $how in
		INT | TERM | HUP | QUIT) kill "-$how" "$(<pid)" ;;
		*) screen send-keys "$how" ;;
		esac
		captured shot '^status 0$'
		assert_equal "$(screen display -p '#{alternate_on} #{cursor_flag}')" '0 1'
		screen kill-server
		assert_equal "$(sed 's/\^.//' shot | xargs)" 'begun status 0'
	done
	watch_on 80 24 0.1 2
	captured shot '^status 0$'
	screen kill-server
	assert_equal "$(xargs <shot)" 'begun status 0'
}

@test "watch ends with its terminal, with SIGHUP and without" {
	watch_on 80 24 3600
	captured shot 'waiting for the first interval'
	screen kill-server
	# A zombie counts as gone: nobody may wait for it. Poll, since watch must first see the
	# hangup.
	gone() { [[ $(ps -o stat= -p "$(<pid)") != [!Z]* ]]; }
	local i
	for ((i = 0; i < 300; i++)); do
		! gone || break
		sleep 0.1
	done
	gone
	run -0 python3 - "$READER_DIR/tcplat" <<-'END'
		import os, pty, subprocess, sys
		master, slave = pty.openpty()
		# Not the controlling terminal of its session, so that no SIGHUP is sent.
		watch = subprocess.Popen([sys.argv[1], "--root", "sys", "watch", "3600"], stdin=slave, stdout=slave,
		                         env=os.environ | {"TERM": "xterm"}, start_new_session=True)
		os.close(slave)
		seen = b""
		while b"waiting for the first interval" not in seen:
		    seen += os.read(master, 4096)
		os.close(master)
		print("status", watch.wait(60))
	END
	assert_output 'status 0'
}

@test "watch on a terminal: a module that goes, comes, and is gone at the end" {
	watch_on 80 24 -z 0.2
	captured shot '^tcplat watch: [0-9:]*, per second over'
	mv sys/kernel/tcplat gone
	captured shot '^tcplat watch: [0-9:]*, the module is not loaded; q quits$'
	run -1 grep delack shot
	mv gone sys/kernel/tcplat
	captured shot '^  delack/timeouts +0 +50$'
	rm -r sys/kernel/tcplat
	captured shot 'the module is not loaded'
	screen send-keys q
	captured shot '^status 1$'
	screen kill-server
	assert_equal "$(<err)" 'tcplat: the module is no longer loaded'
}

# ---- delta ----

@test "delta: what was counted, on standard error, and COMMAND's output" {
	run_tcplat 0 delta -- bash -c "
		echo hello
		echo 60 >$T/delack/timeouts
		echo 2408000 >$T/delack/delay_us
		echo 0 0 0 0 0 0 0 59 1 0 0 0 0 0 0 0 >$T/delack/delay_hist"
	assert_output hello
	assert_regex "$stderr" $'^counted in [0-9.]+ m?s, system-wide:\n'
	assert_equal "$(sed 1d <<<"$stderr")" "\

delack: delayed ACKs [armed]
  timeouts      10          ACKs that the delayed-ACK timer sent
  delay_us  400000  400 ms  time that delayed ACKs waited
  mean wait: 40 ms (delay_us / timeouts)
  in pingpong mode: 0.0% (timeouts_pingpong / timeouts)
  delay_hist: 10 of 10 over 30 ms up to 40 ms"
}

@test "delta: the status is COMMAND's, whatever it is" {
	run_tcplat 0 delta true
	assert_output ''
	assert_equal "${stderr_lines[1]}" '  nothing'
	run_tcplat 7 delta sh -c 'exit 7'
	run -143 --separate-stderr tcplat --root sys delta sh -c 'kill $$'
	run -127 --separate-stderr "$READER_DIR/tcplat" --root sys delta ./nowhere
	assert_equal "${stderr_lines[0]}" 'tcplat: ./nowhere: No such file or directory'
	run -126 --separate-stderr "$READER_DIR/tcplat" --root sys delta ./sys
	assert_equal "${stderr_lines[0]}" 'tcplat: ./sys: Permission denied'
}

@test "delta: COMMAND's options are its own" {
	run_tcplat 0 delta echo --help -o x --version
	assert_output -- '--help -o x --version'
	run_tcplat 0 delta -o gains -- echo -- -x
	assert_output -- '-- -x'
	assert_equal "$stderr" ''
	assert_equal "$(tail -n 1 gains)" '  nothing'
	run_tcplat 1 delta -o nowhere/gains touch ran
	assert_error 'nowhere/gains: No such file or directory'
	[[ ! -e ran ]]
}

@test "delta: a reset or an unload meanwhile, and COMMAND's status counts" {
	run_tcplat 1 delta bash -c "echo 1 >$T/delack/timeouts"
	assert_error 'the counters restarted between the two readings (reset or module reload); the difference is unknown'
	assert_output ''
	run_tcplat 5 delta bash -c "rm -r $T; exit 5"
	assert_output ''
}

@test "delta: 2^64-1" {
	set_to delack/timeouts 0
	run_tcplat 0 delta bash -c "echo 18446744073709551615 >$T/delack/timeouts"
	assert_regex "$stderr" $'\n  timeouts  18446744073709551615  ACKs'
}

# ---- json ----

# Prints GROUP/FILE=VALUE for the files in ./sys.
values_of_files() {
	(cd "$T" && for f in */*; do
		case $f in */status | */enabled | *_hist | *_hist_le* | bindsearch/*) continue ;; esac
		echo "$f=$(<"$f")"
	done) | sort
}

@test "json: every value is its file's, and the schema holds" {
	make_tree groups
	mkdir -p proc/sys/kernel
	echo 6.1.0-x >proc/sys/kernel/osrelease
	run_tcplat 0 --proc proc json
	assert_equal "${#lines[@]}" 1
	echo "$output" >compact
	run_tcplat 0 json --pretty
	echo "$output" >pretty
	"$PYTHON" - "$SOURCE/userspace/tcplat.schema.json" compact pretty >values <<'END'
import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
docs = [json.load(open(f)) for f in sys.argv[2:]]
for doc in docs:
    jsonschema.validate(doc, schema)
a, b = docs
assert a["kernel"] == "6.1.0-x" and b["kernel"] is None
assert a["version"] == "0.9.0" and a["schema"] == 1 and a["abi"] == 1
assert a["groups"] == b["groups"] and a["clock"] == b["clock"]
assert list(a["groups"]["bindsearch"]) == ["status", "available", "enabled"]
assert a["groups"]["bindsearch"]["available"] is False
assert a["groups"]["delack"]["enabled"] is False
for k, v in a["clock"].items():
    print(f"clock/{k}={v}")
for g, group in a["groups"].items():
    for kind in ("counters", "gauges", "maxima"):
        for k, v in group.get(kind, {}).items():
            print(f"{g}/{k}={v}")
    for k, h in group.get("histograms", {}).items():
        unit = "_" + h["unit"] if h["unit"] else ""
        d = f"sys/kernel/tcplat/{g}/"
        assert open(d + k).read().split() == [str(c) for c in h["counts"]]
        le = open(d + k + "_le" + unit).read().split()
        assert le == ["+Inf" if v is None else str(v) for v in h["le"]]
END
	assert_equal "$(sort values)" "$(values_of_files)"
	run -0 grep -q 18446744073709551615 compact
}

@test "json: null for what cannot be read, and the status says so" {
	echo x >"$T"/delack/timeouts
	echo 1 2 >"$T"/delack/delay_hist
	rm "$T"/version
	run_tcplat 1 json
	"$PYTHON" -c '
import json, sys
doc = json.loads(sys.argv[1])
d = doc["groups"]["delack"]
assert d["counters"]["timeouts"] is None and d["counters"]["deferred"] == 0
assert d["histograms"]["delay_hist"] is None and doc["version"] is None' "$output"
	assert_equal "${#stderr_lines[@]}" 3
}

@test "json GROUP: that one alone" {
	make_tree groups
	run_tcplat 0 json zeta
	assert_output --partial '"groups":{"zeta":{"status":"armed"'
	refute_output --partial delack/
}
