#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# What the reader says about time: watch and delta; and json. The clock and the
# sleeps of watch are made up (fixtures/faults.c), so that rates are exact.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines
# shellcheck disable=SC2317 # steps are called by name

bats_require_minimum_version 1.5.0
load reader_helpers

setup_file() {
	build_reader
	need_python
}

teardown_file() {
	rm -rf "$READER_DIR"
}

setup() {
	untraced
	enter_work_dir
	make_tree delack
}

# cells NAME: the column NAME of the lines in $output.
cells() {
	awk -v name="$1" '
		/\// { for (i = 1; i <= NF; i++) if ($i == name) c = i; next }
		{ printf "%s%s", sep, $c; sep = " " }' <<<"$output"
}

# ---- watch ----

@test "watch: rates per second, exactly, for whole and broken intervals" {
	step_1() { set_to delack/timeouts 80; set_to delack/delay_us 3208000; }
	step_2() { :; }
	step_3() { set_to delack/timeouts 81; }
	run -0 --separate-stderr with_steps watch -n 3 -i 2
	assert_equal "$stderr" ''
	assert_equal "${#lines[@]}" 4
	assert_equal "$(cells delack/timeouts)" '15 0 0.5'
	assert_equal "$(cells delack/delay_us)" '600000 0 0'
}

@test "watch: the heading is printed once, and no maximum is a rate" {
	step_1() { :; }
	step_2() { :; }
	run -0 with_steps watch -n 2
	assert_line --index 0 'delack/timeouts delack/timeouts_pingpong delack/deferred delack/delay_jiffies delack/delay_us delack/missed'
	assert_equal "${#lines[@]}" 3
}

@test "watch: a reset makes no rate, and the next interval has one again" {
	step_1() { set_to delack/timeouts 2; set_to delack/delay_us 9000000; }
	step_2() { set_to delack/timeouts 5; }
	run -0 --separate-stderr with_steps watch -n 2
	assert_equal "$stderr" ''
	# One counter fell: those that did not are not to be trusted either.
	assert_equal "$(cells delack/timeouts)" '- 3'
	assert_equal "$(cells delack/delay_us)" '- 0'
}

@test "watch: a reset that only a maximum or a histogram shows" {
	step_1() { set_to delack/delay_max_jiffies 3; set_to delack/timeouts 60; }
	step_2() { set_to delack/delay_hist '0 0 0 0 0 0 0 50 0 0 0 0 0 0 0 0'; set_to delack/timeouts 70; }
	step_3() { set_to delack/timeouts 71; }
	run -0 with_steps watch -n 3
	assert_equal "$(cells delack/timeouts)" '- - 1'
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
	assert_equal "${#lines[@]}" 6
	assert_equal "$(cells delack/timeouts)" '- - - 1'
	assert_line --index 3 --partial newer/things
	assert_equal "$(tail -n 2 <<<"$output" | awk '{ print $7 }' | xargs)" '- 2'
}

@test "watch: a module that is gone at the end, exit 1" {
	step_1() { rm -r sys/kernel/tcplat; }
	run -1 --separate-stderr with_steps watch -n 1
	assert_error 'the module is not loaded any more'
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
	assert_equal "$(cells delack/timeouts)" -
}

@test "watch: a group that is off, one that is unavailable, a gauge" {
	make_tree groups
	step_1() { set_to ackmode/tracked 5; set_to portsearch/zz_new 18446744073709551615; set_to sndwait/waits 18446744073709551615; }
	run -0 --separate-stderr with_steps watch -n 1
	assert_equal "$stderr" ''
	assert_equal "$(cells delack/timeouts)" -
	assert_equal "$(cells ackmode/tracked)" 5
	assert_equal "$(cells portsearch/zz_new)" 0
	assert_equal "$(cells sndwait/waits)" 18446744073709551611
	refute_output --partial bindsearch
	run -0 with_steps watch -n 1 idlerestart
	assert_line --index 0 'idlerestart/restarts idlerestart/cwnd_lost idlerestart/idle_jiffies idlerestart/idle_us idlerestart/missed'
}

@test "watch: what cannot be read is said once and stays -" {
	step_1() { :; }
	step_2() { :; }
	set_to delack/timeouts x
	run -1 --separate-stderr with_steps watch -n 2
	assert_error "$T/delack/timeouts: 'x' is not a number from 0 to 2^64-1"
	assert_equal "$(cells delack/timeouts)" '- -'
	assert_equal "$(cells delack/deferred)" '0 0'
}

@test "watch in a pipe: each line comes at once, and a closed pipe ends it" {
	run -0 timeout 20 bash -c "$READER_DIR/tcplat --root sys watch -i 0.1 | head -n 3"
	assert_equal "${#lines[@]}" 3
}

@test "watch without a leak" {
	run_tcplat 0 watch -n 2 -i 0.1
}

# captured FILE PATTERN: the screen as it is when PATTERN is on it.
captured() {
	local i
	for ((i = 0; i < 300; i++)); do
		screen capture-pane -p >"$1"
		! grep -q "$2" "$1" || return 0
		sleep 0.1
	done
	screen kill-server
	fail "no '$2' on the screen: $(<"$1")"
}

@test "watch redraws a terminal: one heading, the window's height, what is left out" {
	make_tree groups
	screen new-session -d -x 90 -y 20 "$READER_DIR/tcplat --root sys watch -i 0.2 2>err"
	captured shot '^tcplat: per second, over'
	set_to delack/timeouts 4711
	captured shot 'delack/timeouts *- *4711'
	screen kill-server
	cat shot
	[[ ! -s err ]]
	assert_equal "$(grep -c 'per second  ' shot)" 1
	run -0 grep -E '^  delack/deferred +- +7$' shot
	run -0 grep -E '^  [0-9]+ more: make the window larger, or name groups$' shot
	assert_equal "$(wc -l <shot)" 20
}

@test "watch on a small window: lines are cut, and the first ones stay" {
	local i
	make_tree groups
	screen new-session -d -x 41 -y 12 "$READER_DIR/tcplat --root sys watch -i 0.2 2>err"
	captured shot '^tcplat: per second, over'
	mv sys/kernel/tcplat gone
	captured shot2 'not loaded'
	screen kill-server
	cat shot shot2
	[[ ! -s err ]]
	assert_equal "$(head -n 1 shot | cut -c 1-24)" 'tcplat: per second, over'
	assert_equal "$(head -n 1 shot2)" 'tcplat: the module is not loaded now'
	for i in shot shot2; do
		assert_equal "$(sed -n 2p $i)" "$(printf %41s 'per second  i')"
		assert_equal "$(sed -n 3p $i | xargs)" 'delack/timeouts -'
		assert_equal "$(sed -n 11p $i)" '  51 more: make the window larger, or nam'
		assert_equal "$(wc -l <$i)" 12
	done
}

# ---- delta ----

@test "delta: what was counted, and COMMAND's output before it" {
	run_tcplat 0 delta -- bash -c "
		echo hello
		echo 60 >$T/delack/timeouts
		echo 2408000 >$T/delack/delay_us
		echo 0 0 0 0 0 0 0 59 1 0 0 0 0 0 0 0 >$T/delack/delay_hist"
	assert_equal "$stderr" ''
	assert_line --index 1 --regexp '^counted in [0-9.]+ m?s, system-wide:$'
	assert_equal "$(sed 2d <<<"$output")" "\
hello

delack: delayed ACKs [armed]
  timeouts      10          ACKs that the delayed-ACK timer sent
  delay_us  400000  400 ms  time that delayed ACKs waited
  mean wait: 40 ms (delay_us / timeouts)
  in pingpong mode: 0.0% (timeouts_pingpong / timeouts)
  delay_hist: 10 of 10 over 30 ms up to 40 ms"
}

@test "delta: the status is COMMAND's, whatever it is" {
	run_tcplat 0 delta true
	assert_line '  nothing'
	run_tcplat 7 delta sh -c 'exit 7'
	run -143 --separate-stderr tcplat --root sys delta sh -c 'kill $$'
	run -127 --separate-stderr "$READER_DIR/tcplat" --root sys delta ./nowhere
	assert_equal "${stderr_lines[0]}" 'tcplat: ./nowhere: No such file or directory'
	run -126 --separate-stderr "$READER_DIR/tcplat" --root sys delta ./sys
	assert_equal "${stderr_lines[0]}" 'tcplat: ./sys: Permission denied'
}

@test "delta: COMMAND's options are its own" {
	run_tcplat 0 delta echo --help -o x --version
	assert_line --index 0 -- '--help -o x --version'
	run_tcplat 0 delta -o gains -- echo -- -x
	assert_output -- '-- -x'
	assert_equal "$(tail -n 1 gains)" '  nothing'
	run_tcplat 1 delta -o nowhere/gains touch ran
	assert_error 'nowhere/gains: No such file or directory'
	[[ ! -e ran ]]
}

@test "delta: a reset or an unload meanwhile, and COMMAND's status counts" {
	run_tcplat 1 delta bash -c "echo 1 >$T/delack/timeouts"
	assert_error 'the counters began anew meanwhile (a reset, or another module): what they gained is not known'
	assert_output ''
	run_tcplat 5 delta bash -c "rm -r $T; exit 5"
	assert_output ''
}

@test "delta: 2^64-1" {
	set_to delack/timeouts 0
	run_tcplat 0 delta bash -c "echo 18446744073709551615 >$T/delack/timeouts"
	assert_line --regexp '^  timeouts  18446744073709551615  ACKs'
}

# ---- json ----

# The values of ./sys, as the files have them: GROUP/FILE=VALUE.
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
