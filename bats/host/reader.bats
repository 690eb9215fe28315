#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat show and status on trees of files, where all figures are known, and what all commands have
# in common: usage errors, permissions, malformed files, the man pages, completion. Only this checks
# exact output and trees that no module would make.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines
# shellcheck disable=SC2030,SC2031 # each test has its own output
# shellcheck disable=SC2317,SC2034 # steps are called by name; tcplat() uses BARE

load reader_helpers

COMMANDS=(doctor record show status top trace)
READER_VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$SOURCE/dkms.conf")

setup() {
	untraced
	enter_work_dir
	make_tree delack
}

# ---- text ----

@test "show: many groups, off, unavailable and unknown ones, exactly" {
	make_tree groups
	run_tcplat 0 show --all
	assert_equal "$stderr" ''
	assert_output - <"$FIXTURES/groups.all"
	LC_ALL=C.UTF-8 run_tcplat 0 show --all
	assert_output - < <(sed 's/<=/≤/g; s/ us\b/ µs/g' "$FIXTURES/groups.all")
	# Without what is 0, jiffies and constants, in columns as wide as the rest.
	run_tcplat 0 show
	assert_line '  deferred  7  ACK timers that found the socket in use'
	assert_line '  idle_us    3000000  3 s  idle time before slow-start restarts'
	run -0 diff <(tr -s ' ' <<<"$output") <(tr -s ' ' <"$FIXTURES/groups.all" |
		sed -E '/^(bind|clock)/,/^$/d; /^ \w+ 0 |_jiffies|: empty$/d; $a \
\nNothing counted: bindsearch (unavailable: inet_csk_get_port)')
}

@test "show PATTERN: groups, counters and both; what matches nothing is an error" {
	make_tree groups
	run_tcplat 0 show 'time_*ns' zeta
	assert_equal "$(grep -oE '^[a-z]+|^  [a-z_]+' <<<"$output" | xargs)" \
		'sndwait time_ns time_max_ns portsearch time_ns time_max_ns zeta things size_hist'
	run_tcplat 0 show clock
	assert_line --regexp '^  delack_min_us +40000  40 ms +minimum delay of an ACK$'
	run_tcplat 0 show 'portsearch/iter*'
	assert_equal "$(grep -c iterations <<<"$output")" 3
	usage "no group and no counter matches 'nope'" show delack nope
	# A group without any count is shown if it is named.
	run_tcplat 0 show bindsearch
	assert_output "\
bindsearch: bind() and listen() looking for a free port [unavailable: inet_csk_get_port]
  this kernel lacks what the group needs: nothing is counted"
}

@test "show: what newer modules have, and numbers below 0 where they may be" {
	mkdir "$T"/newer "$T"/nogroup
	echo armed: through x >"$T"/newer/status
	echo 5 >"$T"/newer/whatever_ns
	echo -3 >"$T"/delack/timeouts_unseen
	install -m 200 /dev/null "$T"/delack/control
	run_tcplat 0 show -a
	assert_line 'newer [armed: through x]'
	assert_line '  whatever_ns  5  5 ns'
	assert_line --regexp '^  timeouts_unseen +-3 +late ACKs that only the kernel counted$'
	refute_output --partial nogroup
	echo -3 >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: '-3' is not a number from 0 to 2^64-1"
}

# each_shows [OPTION]: reads FILE=VALUE,...|REGEXP: once the files have the values, or before if there
# are none, show of delack has a matching line; after "no" none has this text.
each_shows() {
	local files want pairs
	while IFS='|' read -r files want; do
		if [[ $files ]]; then
			IFS=, read -ra pairs <<<"$files"
			set_all "${pairs[@]/#/delack/}"
			run_tcplat 0 show "$@" delack
		fi
		case $want in
		no\ *) refute_line --partial "${want#no }" ;;
		*) assert_line --regexp "^ +$want$" ;;
		esac
	done
}

@test "show: shares, means, percentiles and maxima at their limits, and numbers up to 2^64-1" {
	local max=18446744073709551615
	each_shows <<-END
		timeouts=0|no mean wait
		timeouts=48|mean wait: 41.83 ms \(delay_us / timeouts\)
		|no in pingpong mode:
		timeouts=100000,timeouts_pingpong=1|in pingpong mode: <0.1%.*
		timeouts_pingpong=99999|in pingpong mode: >99.9%.*
		delay_hist_le_us=1 2 4 +Inf,delay_hist=50 40 9 1|delay_hist: p50 <= 1 us, p90 <= 2 us, p99 <= 4 us, max 48 ms
		delay_hist=49 40 9 2|delay_hist: p50 <= 2 us, p90 <= 4 us, p99 <= 48 ms, max 48 ms
		timeouts=$max,delay_us=$max|timeouts +$max .*
		|delay_us +$max  213503982 d .*
		|mean wait: 1 us .*
		delay_max_jiffies=$max|delay_max_jiffies +$max  854015929338 d .*
		../clock/tick_ns=3333333,delay_max_jiffies=300|delay_max_jiffies +300  1 s +longest wait of a delayed ACK
	END
	rm "$T"/delack/delay_max_jiffies
	LC_ALL=C.UTF-8 each_shows <<<'timeouts=1|delay_hist: p50 ≤ 2 µs, p90 ≤ 4 µs, p99 > 4 µs'
	make_tree delack
	each_shows <<-'END'
		delay_max_jiffies=9,delay_hist=0 0 0 0 0 0 0 50 0 0 0 0 0 0 0 0|delay_hist: p50 <= 36 ms, p90 <= 36 ms, p99 <= 36 ms, max 36 ms
	END
	set_all delack/delay_hist="$max $max 1 0" delack/delay_hist_le_us="1 1500 $max +Inf"
	COLUMNS=75 each_shows -b <<-END
		timeouts=1|1 us  $max    50.0%  #{29}
		|1.5 ms  $max    50.0%  #{29}
		|213503982 d +1    <0.1%  #
		|more +0     0.0%
	END
	set_all delack/delay_hist=5 delack/delay_hist_le_us=+Inf
	run_tcplat 1 show delack
}

@test "every file is read once" {
	make_tree groups
	local cmd
	for cmd in 'show -a' 'show -j' 'show -p' 'doctor --total' status; do
		rm -f log
		# shellcheck disable=SC2086 # words
		strace_tcplat openat $cmd >all
		# Directories of files are opened one after the other, so only names can be compared.
		find "$T" -type f ! -name enabled ! -name reset -printf '%f\n' | sort >names
		sed -E 's|^[^"]*"([^"]*/)?||; s/".*//' log | grep -xFf names | sort >opened
		run -0 diff names opened
	done
}

# ---- histograms ----

@test "bars: ASCII and UTF-8, exactly, empty ends left out" {
	make_tree groups
	LC_ALL=C.UTF-8 run_tcplat 0 show -b 'portsearch/*hist'
	assert_output - <"$FIXTURES/portsearch.bars"
	# In ASCII bars are rounded.
	run_tcplat 0 show -b 'portsearch/*hist'
	assert_output - < <(LC_ALL=C.UTF-8 sed 's/≤/<=/g; s/µs/us/g; s/█[▏▎▍]$/█/; s/[█▌▋▊▉▏]/#/g' \
		"$FIXTURES/portsearch.bars")
	run_tcplat 0 show -b 'delack/*hist'
	assert_line '  delay_hist: empty'
}

@test "bars fill the width that COLUMNS or the terminal says" {
	longest() { tr -d '\r' | awk 'length > n { n = length } END { print n }'; }
	run_tcplat 0 show -b 'delay_hist'
	assert_equal "$(longest <<<"$output")" 80
	for COLUMNS in 0 x -5 '' 99999999999999999999; do
		export COLUMNS
		BARE=1 run_tcplat 0 show -b 'delay_hist'
		assert_equal "$(longest <<<"$output")" 80
	done
	COLUMNS=4000000000 run_tcplat 0 show -b 'delay_hist'
	assert_equal "$(longest <<<"$output")" 1000
	unset COLUMNS
	run -0 script -qec "stty cols 101; $READER_DIR/tcplat show -b --root sys delay_hist" /dev/null </dev/null
	assert_equal "$(longest <<<"$output")" 101
}

# ---- JSON and Prometheus ----

@test "json: every value is its file's, the schema holds, and it can be read back from a pipe" {
	make_tree groups
	on_kernel
	run_tcplat 0 show --json
	assert_equal "${#lines[@]}" 1
	echo "$output" >json
	"$PYTHON" - "$SOURCE/userspace/tcplat.schema.json" json >values <<'END'
import json, jsonschema, sys
schema, doc = (json.load(open(f)) for f in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.validate(doc, schema)
assert doc["kernel"] == "6.1.0-x" and doc["version"] == "0.9.0" and doc["schema"] == doc["abi"] == 2
for g, files in doc["groups"].items():
    for f, v in files.items():
        if g != "bindsearch":
            print(f"{g}/{f}=" + (" ".join(map(str, v)) if isinstance(v, list) else str(v)))
END
	run -0 diff <(sort values) \
		<(cd "$T" && grep -r --exclude=enabled . [!b]*/ | sed 's/:/=/' | sort)
	run -0 grep -q 18446744073709551615 json
	"$PYTHON" -m json.tool json >pretty.json
	run -0 bash -c "$READER_DIR/tcplat show -j --to <(cat pretty.json) | cmp - json"
	# The time does not grow with the square of the length.
	{ printf '{"more":[' && printf '"x%d",' {1..200000} && sed 's/^{/0],/' json; } >long.json
	run -0 bash -c "ulimit -t 3 && $READER_DIR/tcplat show -j --to long.json | cmp - json"
	# Whether a group is enabled on this host says nothing of a file.
	set_to delack/enabled 1
	run_tcplat 0 show delack
	assert_line "  counts are incomplete: the kernel's kprobes are disarmed"
	run_tcplat 0 show --to json delack
	assert_line --index 0 'delack: delayed ACKs [off]'
	refute_output --partial enable
	refute_output --partial kprobes
	run_tcplat 0 show -j zeta
	assert_output --partial '"groups":{"zeta":{"status":"armed"'
	refute_output --partial delack
}

@test "json: null for what cannot be read, and the status says so" {
	echo x >"$T"/delack/timeouts
	echo 1 2 >"$T"/delack/delay_hist
	rm "$T"/version
	run_tcplat 1 show -j
	run -0 json '[d["version"]] + [d["groups"]["delack"][f] for f in ("timeouts", "deferred", "delay_hist")]'
	assert_output '[None, None, 0, None]'
	assert_equal "${#stderr_lines[@]}" 3
}

@test "--to: what 'tcplat show --json' did not write" {
	usage 'nowhere.json: No such file or directory' show --to nowhere.json
	"$READER_DIR/tcplat" show -j --root sys >a.json
	local change
	for change in 's/"schema":2/"schema":1/' 's/"timeouts":50/"timeouts":-1/' \
		's/"timeouts":50/"timeouts":"50x"/' 's/"groups"/"froups"/' 's/^{/[/' 's/:50,/:[50,/' \
		's/"delay_hist":\[0/"delay_hist":["x"/' 's/"timeouts"/"time\\u001bouts"/' 's/}$/},/' \
		's/"delack"/"..\/delack"/'; do
		sed "$change" a.json >b.json
		run ! cmp -s a.json b.json
		BARE=1 usage "b.json: not the output of 'tcplat show --json'" show --to b.json
	done
	# A longer name than any.
	printf '{"%05000d":1}' 0 >c.json
	BARE=1 usage "c.json: not the output of 'tcplat show --json'" show --to c.json
}

# down STATUS REASON [VERSION]: show writes a whole file that has the reason and the version of the
# module, and exits with STATUS.
down() {
	echo old >out.prom
	run_tcplat "$1" show -p delack -o out.prom
	[[ $1 != 0 ]] || assert_equal "$stderr" ''
	prints '' promtool check metrics <out.prom
	run -0 grep -v '^#' out.prom
	assert_output --regexp "^tcplat_up 0
tcplat_down_reason\\{reason=\"$2\"\\} 1
tcplat_info\\{version=\"${3-}\",reader=\"$READER_VERSION\",[^ ]*kernel=\"6.1.0-x\"\\} 1$"
	output=$stderr
}

@test "prometheus: by the parsers of others, and each value is its file's" {
	make_tree groups
	on_kernel
	# Waits of senders that do not block.
	set_all sndwait/again{=7,_gave_up=1,_untracked=0,_time_ns=90000000,_time_max_ns=30000000} \
		sndwait/again_hist{='1 2 3 0',_le_ns='8388608 16777216 33554432 +Inf'}
	# Counts that a module left in a group that is not available by mistake.
	set_all bindsearch/{searches,missed}=5 sndwait/missed=4
	run_tcplat 0 show --prometheus
	assert_equal "$stderr" ''
	echo "$output" >text
	prints '' promtool check metrics <text
	run -0 "$PYTHON" "$BATS_TEST_DIRNAME/exposition.py" text sys/kernel/tcplat "$READER_VERSION"
	assert_output --regexp '^5[0-9] values of files found$'
	# Every group, with values that are all different.
	make_every_file
	set_to bindsearch/status armed
	local f n=0
	for f in "$T"/*/*; do
		[[ $f == */clock/* || $(<"$f") != 2 ]] || echo $((RANDOM + 100000 * ++n)) >"$f"
	done
	run_tcplat 0 show --prometheus
	echo "$output" >text
	run -0 "$PYTHON" "$BATS_TEST_DIRNAME/exposition.py" text sys/kernel/tcplat "$READER_VERSION"
	assert_equal "$(grep -c '^tcplat_lost_seconds_total' text)" 11
	# Without buckets, nothing else is missing.
	run_tcplat 0 show --prometheus --no-buckets -o short
	prints '' promtool check metrics <short
	run -0 diff <(sed 's/ summary$/ histogram/' short) <(grep -v '^[a-z_]*_bucket{' text)
	(($(grep -c '^[a-z_]*_bucket{' text) > 80))
}

@test "prometheus: the lost time is what doctor finds, and no time is in two causes" {
	make_tree groups
	make_every_file
	set_to bindsearch/status armed
	# Each rule that is about lost time finds it, and no check takes any of it away.
	local f n=0
	for f in "$T"/*/*_{ns,us}; do
		[[ $f == */clock/* || $f == *_le_* || $f == *_max_* ]] ||
			echo "$((++n))00000000000" >"$f"
	done
	for f in delack/stalls sndhold/{nagle,cork} loss/{rto,tlp,fast,syn,synack} listen/accept \
		peerwnd/wait sndwait/{waits,again_hist} {port,bind}search/searches; do
		set_all "$f=2000"
	done
	set_all peerwnd/wait=20 peerwnd/wait_time_ns=1000000000 loss/synack_time_ns=0 \
		portsearch/unverified=0
	run_tcplat 0 show -p -o text
	run_tcplat 0 doctor --total --json
	run -0 "$PYTHON" -c '
import json, re, sys
lost = dict(re.findall(r"^tcplat_lost_seconds_total{cause=\"(\w+)\"} ([0-9.]+)$",
                       open("text").read(), re.M))
found = {f["rule"]: f for f in json.loads(sys.argv[1])["findings"]}
del found["late"]       # part of the others
files = set()
for rule, seconds in lost.items():
    assert round(float(seconds) * 1e9) == found[rule]["lost_ns"] > 0, (rule, seconds, found[rule])
    times = {n for n in found[rule]["counters"] if re.search("_[nu]s$", n)}
    assert not times & files, (rule, times)
    files |= times
rest = {r for r, f in found.items() if f.get("lost_ns") and r not in lost}
print(len(lost), *sorted(rest))' "$output"
	assert_output '11 answer'
	# Of a part of the counters there is no sum.
	run_tcplat 0 show -p 'loss/rto*'
	refute_output --partial 'cause='
	assert_output --partial tcplat_loss_rto_total
}

@test "prometheus: why there is no module, in a file that is current all the same" {
	rm -r sys
	on_kernel
	mkdir -p lib/modules/6.1.0-x
	down 0 'no module for this kernel'
	echo 'kernel/net/ipv4/tcp_bbr.ko.xz:' >lib/modules/6.1.0-x/modules.dep
	down 0 'no module for this kernel'
	echo 'updates/dkms/tcplat.ko.xz:' >>lib/modules/6.1.0-x/modules.dep
	down 0 'not loaded'
	make_tree groups
	run_tcplat 0 show -p -o out.prom
	run -0 grep -x 'tcplat_up 1' out.prom
	run -1 grep tcplat_down_reason out.prom
	# Errors are still reported, and say more.
	echo x >"$T"/delack/timeouts
	down 1 unreadable 0.9.0
	assert_output --partial "'x' is not a number"
	make_tree groups
	set_to ../tcplat/abi 1
	down 1 unreadable 0.9.0
	assert_output --partial 'the module has ABI 1'
}

@test "prometheus: 2^64-1 in every unit is written exactly, and what is below 0" {
	local max=18446744073709551615
	make_tree groups
	set_all sndwait/{waits,time_ns}=$max sndwait/time_hist="$max $max 0 0" \
		delack/{stall_us,delay_max_jiffies}=$max delack/timeouts_unseen=-2
	run_tcplat 0 show -p
	assert_line "tcplat_sndwait_waits_total $max"
	assert_line 'tcplat_sndwait_time_seconds_sum 18446744073.709551615'
	assert_line 'tcplat_sndwait_time_seconds_count 36893488147419103230'
	assert_line 'tcplat_delack_stall_seconds_total 18446744073709.551615'
	# (2^64-1) / 300, rounded down to a nanosecond
	assert_line 'tcplat_delack_delay_max_seconds 61489146912365172.05'
	assert_line 'tcplat_delack_timeouts_unseen -2'
	# Bounds in jiffies, which need HZ.
	sed 's/"delack":{/&"x_hist":[1,2],"x_hist_le_jiffies":[1,"+Inf"],/' <("$READER_DIR/tcplat" show -j --root sys) >a.json
	run_tcplat 0 show -p --to a.json
	assert_line 'tcplat_delack_x_seconds_bucket{le="0.003333333"} 1'
	run_tcplat 0 show -j --to a.json
	assert_output --partial '"x_hist_le_jiffies"'
	sed 's/"hz":300/"hz":null/' a.json >b.json
	run_tcplat 0 show -p --to b.json
	refute_output --partial tcplat_delack_x_
}

@test "each HELP can be read alone, and show has the same words in 80 columns" {
	make_tree groups
	make_every_file
	rm -r "$T"/zeta "$T"/alpha "$T"/portsearch/{zz_new,unverified_*}
	run_tcplat 0 show -p
	sed -n 's/^# HELP \(\S*\) /\1 /p' <<<"$output" >helps
	(($(wc -l <helps) > 70))
	# Each file's has the text of the group.
	run -0 grep -c '(delack: delayed ACKs)[.]$' helps
	((output > 10))
	run -0 grep 'delack_timeouts_total ACKs that the delayed-ACK timer sent (delack: ' helps
	# Each is a sentence, unique, and does not refer to another one.
	run -1 grep -vE '^\S+ [A-Z].*\.$' helps
	assert_equal "$(cut -d ' ' -f 2- helps | sort | uniq -d)" ''
	run -1 grep -iwE 'it|its|they|them|those|these|such|same' helps
	run_tcplat 0 show -a
	run -1 grep -E '^  [a-z_]+ +[0-9].{78}' <<<"$output"
}

@test "--output: one rename, the mode of the umask, nothing left over; an error leaves the file" {
	prints -1 "$DISK_FULL" bash -c "$READER_DIR/tcplat show --root sys >/dev/full"
	(umask 027 && run_tcplat 0 show -p --output out.prom)
	assert_equal "$(stat -c %a out.prom)" 640
	assert_equal "$(find . -maxdepth 1 -name '.out*')" ''
	run -0 strace_tcplat rename,renameat,renameat2,openat show -p -o out.prom
	assert_equal "$(grep -c rename log)" 1
	# The file itself is never opened, so readers see the old or the new contents.
	run -1 grep -E 'openat\(.*"(\./)?out\.prom"' log
	echo old >out.prom
	echo x >"$T"/delack/timeouts
	run_tcplat 1 show -j -o out.prom
	assert_equal "${stderr_lines[1]}" 'tcplat: out.prom: left unchanged'
	assert_equal "$(<out.prom)" old
	make_tree delack
	refused 1 'nowhere/out.prom: No such file or directory' show -p -o nowhere/out.prom
	mkdir -m 755 closed
	run -3 --separate-stderr tcplat_as_user show --root sys -j -o closed/out.json
	assert_error "closed/out.json: Permission denied"
	# What is no regular file is left alone.
	mkfifo fifo
	ln -s out.prom link
	local f
	for f in fifo link closed; do
		refused 1 "$f: not a regular file" show -p -o $f
	done
	[[ -p fifo && -L link ]]
	assert_equal "$(<out.prom)" old
	assert_equal "$(find . -maxdepth 1 -name '.*' ! -name .)" ''
}

# ---- differences ----

@test "-- COMMAND: what was counted, on standard error, and COMMAND's output and status" {
	run_tcplat 0 show -- bash -c "
		echo hello
		echo 60 >$T/delack/timeouts
		echo 2408000 >$T/delack/delay_us
		echo 0 0 0 0 0 0 0 59 1 0 0 0 0 0 0 0 >$T/delack/delay_hist"
	assert_output hello
	assert_equal "$(sed -E 's/[0-9.e+]+\/s/R\/s/; s/ +/ /g' <<<"$stderr" | sed -E '1s/[0-9.]+ m?s/T/')" "\
counted in T, on the whole host:
delack: delayed ACKs [armed]
 timeouts 10 R/s ACKs that the delayed-ACK timer sent
 delay_us 400000 R/s 400 ms time that delayed ACKs waited
 mean wait: 40 ms (delay_us / timeouts)
 in pingpong mode: 0.0% (timeouts_pingpong / timeouts)
 delay_hist: p50 <= 40 ms, p90 <= 40 ms, p99 <= 40 ms"
	# Of ^C, only COMMAND dies.
	# shellcheck disable=SC2016 # for the other shell
	run_tcplat 7 show -- sh -c 'kill -INT $PPID; exit 7'
	assert_output ''
	assert_equal "${stderr_lines[1]}" 'Nothing counted: delack'
	run -130 env --default-signal=INT "$READER_DIR/tcplat" show --root sys -- sh -c 'kill -INT $$'
	run -127 --separate-stderr "$READER_DIR/tcplat" show --root sys -- ./nowhere
	assert_equal "${stderr_lines[0]}" 'tcplat: ./nowhere: No such file or directory'
	run -126 --separate-stderr "$READER_DIR/tcplat" show --root sys -- ./sys
	usage "no group and no counter matches 'nope'" show nope delack -- touch ran
	[[ ! -e ran ]]
	# COMMAND's options are its own, and patterns come before it.
	run_tcplat 0 show delack -- echo --help -- -o x --version
	assert_output -- '--help -- -o x --version'
	run_tcplat 0 show -j -o gains.json -- bash -c "echo 77 >$T/delack/timeouts"
	assert_equal "$(json 'd["groups"]["delack"]["timeouts"]' "$(<gains.json)")" 17
}

@test "-- COMMAND: a reset or an unload meanwhile, and 2^64-1" {
	refused 1 "$RESTARTED" show -- bash -c "echo 1 >$T/delack/timeouts"
	# Also where another counter shows it.
	set_to delack/timeouts 10
	refused 1 "$RESTARTED" show deferred -- bash -c "echo 1 >$T/delack/timeouts"
	set_to delack/timeouts 0
	run_tcplat 0 show -- bash -c "echo 18446744073709551615 >$T/delack/timeouts"
	assert_regex "$stderr" $'\n  timeouts  18446744073709551615  '
	# Whoever ignores SIGCHLD gets no status.
	# shellcheck disable=SC2016 # for Perl
	run -1 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' "$READER_DIR/tcplat" show --root sys -- false
	run_tcplat 5 show -- bash -c "rm -r $T; exit 5"
	assert_output ''
}

@test "--new: what was counted since the last time, and where that is kept" {
	export XDG_STATE_HOME=$PWD/state
	run_tcplat 0 show --new timeouts
	assert_line --index 0 'since the counters started:'
	assert_line --regexp '^  timeouts +50  '
	assert_equal "$(stat -c %a state/tcplat)" 700
	set_to delack/timeouts 90
	run_tcplat 0 show --new --keep timeouts
	assert_line --index 0 --regexp '^since the last run, [0-9.]+ m?s ago:$'
	assert_line --regexp '^  timeouts  40  '
	# What could not be written is shown again.
	prints -1 "$DISK_FULL" bash -c "$READER_DIR/tcplat show --new --root sys >/dev/full"
	run_tcplat 0 show -n 'delack/t*'
	assert_line --regexp '^  timeouts  40  '
	run_tcplat 0 show -n
	assert_line --index 1 'Nothing counted: delack'
	# What it prints is what it keeps: one reading.
	strace_tcplat openat show -n >/dev/null
	assert_equal "$(grep -c '"timeouts"' log)" 1
	set_to delack/timeouts 20
	run_tcplat 0 show -n
	assert_line --index 0 'since the counters restarted:'
	assert_line --regexp '^  timeouts +20  '
	echo other >state/tcplat/new.json
	run_tcplat 2 show -n
	assert_error "$PWD/state/tcplat/new.json: not the output of 'tcplat show --json'
tcplat: to start again: rm $PWD/state/tcplat/new.json"
	assert_equal "$(<state/tcplat/new.json)" other
	# Only an absolute path counts.
	XDG_STATE_HOME=state HOME=$PWD/home run_tcplat 0 show -n
	[[ -s home/.local/state/tcplat/new.json ]]
	unset XDG_STATE_HOME
	HOME='' usage '--new needs HOME or XDG_STATE_HOME, where it keeps the last run' show -n
}

@test "--from, --to: another time, another boot, another load" {
	local change
	set_to delack/timeouts_unseen 3
	saved 1000000000 >a.json
	set_all delack/timeouts=80 delack/timeouts_unseen=1
	saved 3000000000 >b.json
	mv sys elsewhere
	run_tcplat 0 show --from a.json --to b.json
	assert_line --index 0 'counted in 2 s, on the whole host:'
	assert_line --regexp '^  timeouts +30  15/s  '
	assert_line --regexp '^  timeouts_unseen  -2  -1/s  '
	usage 'b.json is not earlier than b.json' show --from b.json --to b.json
	for change in 's/"boot_id":null/"boot_id":"x"/' 's/"tree":[0-9]*/"tree":1/' \
		's/"delay_max_jiffies":12/"delay_max_jiffies":13/'; do
		sed "$change" a.json >x.json
		sed 's/"boot_id":null/"boot_id":"y"/' b.json >y.json
		refused 1 "$RESTARTED" show --from x.json --to y.json
	done
	# Fewer buckets than now.
	sed 's/\("delay_hist[a-z_]*":\[\)[0-9]*,/\1/g' a.json >x.json
	run_tcplat 0 show --from x.json --to b.json
	assert_line '  delay_hist: ?'
}

@test "--interval: rates of the last interval, a reset, an unload; in a pipe each page at once" {
	step_1() { set_all delack/timeouts=80 delack/delay_us=3208000; }
	step_2() { :; }
	step_3() { set_to delack/timeouts 81; }
	step_4() { set_to delack/timeouts 2; }
	step_5() { set_to delack/timeouts 60; }
	# More than when it began, and less than a moment ago.
	step_6() { set_to delack/timeouts 55; }
	step_7() { set_to delack/timeouts 57; }
	run -0 --separate-stderr with_steps show -c 7 -i 2
	assert_equal "$stderr" ''
	assert_equal "$(sed -nE 's/^  (timeouts|delay_us) +([0-9]+) +([0-9.]+)\/s.*/\1 \2 \3/p' <<<"$output")" "\
timeouts 30 15
delay_us 1200000 600000
timeouts 30 0
delay_us 1200000 0
timeouts 31 0.5
delay_us 1200000 0
timeouts 58 29
timeouts 2 1"
	assert_equal "$(grep -c 'the counters restarted' <<<"$output")" 2
	make_tree delack
	step_1() { set_to delack/timeouts 53; }
	step_2() { set_to delack/timeouts 57; }
	run -0 with_steps show -j -c 2 -i 2
	assert_equal "$(for line in "${lines[@]}"; do
		json 'd["seconds"], d["groups"]["delack"]["timeouts"]' "$line"
	done)" $'2 3\n2 4'
	# A restart that only another counter tells.
	step_1() { set_all delack/deferred=1 delack/timeouts=2; }
	run -0 with_steps show -c 1 -i 2 deferred
	assert_output --partial 'the counters restarted'
	make_tree delack
	step_1() { rm -r sys/kernel/tcplat; }
	run -1 --separate-stderr with_steps show -i 1 -c 1
	assert_error 'the module is no longer loaded'
	make_tree delack
	run -0 timeout 20 bash -c "$READER_DIR/tcplat show -i 0.1 --root sys | head -n 9 | grep -c tcplat"
	prints -1 "$DISK_FULL" \
		timeout 20 bash -c "$READER_DIR/tcplat show -i 0.1 --root sys >/dev/full"
	run_tcplat 0 show -i 0.1 -c 2
	assert_line --regexp ', what changed$'
}

# ---- status ----

@test "status: what is loaded, what cost time, what to type next, on 24 lines of 80" {
	make_tree groups
	make_every_file
	on_kernel
	set_all delack/{status=armed,stalls=50,stall_us=2200000,timeouts_unseen=0} sndhold/status=off \
		sndwait/{waits=1000,time_ns=9000000000} bindsearch/status='unavailable: inet_csk_get_port' \
		answer/{own=30,own_time_ns=900000000}
	run_tcplat 0 --root sys//
	assert_line --index 0 'tcplat 0.9.0: loaded on 6.1.0-x; HZ 300'
	assert_line "This reader is version $READER_VERSION"
	assert_line 'Off: sndhold'
	assert_line --partial 'inet_csk_get_port'
	assert_line --regexp '^  send buffers +1000 times +9 s$'
	assert_line --regexp '^  delayed ACKs +50 times +2.2 s$'
	assert_line --regexp '^  slow answers .* \(note\)$'
	assert_line --partial 'Next: tcplat doctor'
	((${#lines[@]} <= 24))
	run -1 grep -E '.{81}' <<<"$output"
	# More causes than lines.
	zero "$T"
	set_all sndhold/{status=armed,nagle=20,nagle_time_ns=900000000,cork=20,cork_time_ns=900000000} \
		loss/{rto=20,rto_time_ns=900000000,syn=20,syn_time_ns=900000000} \
		listen/{accept=20,accept_time_ns=900000000} peerwnd/{wait=20,wait_time_ns=900000000} \
		sndwait/{waits=20,time_ns=900000000} delack/{stalls=20,stall_us=900000} portsearch/{exhausted=1,bound_in_use=1} \
		idlerestart/{restarts=20,cwnd_lost=900} delack/timeouts_unread=20
	run_tcplat 0 status
	assert_line '  and 1 more: tcplat doctor --total'
	refute_output --partial 'slow readers'
	((${#lines[@]} <= 24))
	# What is not known costs no time, and is not complete.
	zero "$T"
	echo x >"$T/delack/stalls"
	run_tcplat 1 status
	assert_line 'Counts: some could not be read'
	assert_line 'Nothing that could be read has cost time.'
	# Nothing at all.
	zero "$T"
	set_all delack/stalls=0 bindsearch/status=armed
	run_tcplat 0 status
	assert_line 'Nothing has cost time since the counters started.'
	assert_line 'Counts: complete, and the kernel'"'"'s own agree'
	# Events may be missing, or a file.
	set_to sndwait/again_untracked 5
	run_tcplat 0 status
	assert_line 'Nothing that was counted has cost time since the counters started.'
	set_to sndwait/again_untracked 0
	rm "$T"/listen/accept*
	run_tcplat 0 status
	assert_line 'Nothing that was counted has cost time since the counters started.'
	rm -r sys
	make_tree delack
	run_tcplat 0 status
	assert_line 'Nothing that was counted has cost time since the counters started.'
	assert_line 'Counts: complete for the groups that count, and the kernel'"'"'s own agree'
	set_all delack/{stalls=3,stall_us=60000}
	run_tcplat 0 status
	assert_line 'Nothing has cost much since the counters started: tcplat doctor --total'
	set_to delack/timeouts_unseen 7
	run_tcplat 0 status
	words 'other findings may be too small: delack/timeouts_unseen 7'
}

# ---- the command line ----

@test "version is that of dkms.conf; help lists every command, and each has its own" {
	local BARE=1 cmd
	for cmd in --version 'show -V'; do
		# shellcheck disable=SC2086 # words
		run_tcplat 0 $cmd
		assert_output "tcplat $READER_VERSION"
	done
	run_tcplat 0 --help
	((${#lines[@]} <= 24))
	assert_equal "$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$output" | sort | xargs)" \
		"${COMMANDS[*]}"
	for cmd in "${COMMANDS[@]}"; do
		run_tcplat 0 "$cmd" --help
		assert_equal "$stderr" ''
		assert_line --index 0 --regexp "^usage: tcplat $cmd \\[OPTION\\.\\.\\.\\]"
		refute_line --regexp '.{81}'
	done
}

@test "usage errors: one line with a hint, exit 2" {
	local BARE=1 n
	usage "--bogus: no such option, an ambiguous one, or one without an argument (see 'tcplat status --help')" --bogus
	usage "--bogus: no such option, an ambiguous one, or one without an argument (see 'tcplat show --help')" show --bogus
	usage "--p: no such option, an ambiguous one, or one without an argument (see 'tcplat top --help')" top --p 1
	usage "--json=1: no such option, an ambiguous one, or one without an argument (see 'tcplat top --help')" top --json=1
	usage "-x: invalid option (see 'tcplat show --help')" show -x
	usage "-z: invalid option (see 'tcplat show --help')" show -zb
	usage "-z: invalid option (see 'tcplat show --help')" show --all -zb
	usage "-bf: missing argument (see 'tcplat show --help')" show -bf
	usage "--from: missing argument (see 'tcplat doctor --help')" doctor --from
	usage "unknown command 'nope' (see 'tcplat --help')" nope
	usage "doctor: unexpected argument 'b' (see 'tcplat doctor --help')" doctor b
	usage "'show': a command comes first, before options (see 'tcplat --help')" --root sys show
	usage "doctor: unexpected argument '--' (see 'tcplat doctor --help')" doctor -- true
	usage "show: missing command after -- (see 'tcplat show --help')" show --
	for n in x 'peer|port'; do
		usage "--key '$n': not one of peer|port|socket|netns|cgroup|comm|cause|owner|pod" top -k "$n"
	done
	for n in x mode; do
		usage "--sort '$n': no such column; see the members of --json" top -s $n
	done
	usage "--output '': not a name" show -p -o ''
	for n in 0 0.09 86401 -1 x 1s nan 1e1 inf; do
		usage "--interval '$n': not a number of seconds from 0.1 to 86400" doctor -i "$n"
	done
	for n in 0 -1 x 1.5 18446744073709551616; do
		usage "--count '$n': not a number from 1 to 2^64-1" show -i 1 -c "$n"
	done
	usage 'only one of --json and --prometheus can be used' show -j -p
	usage '--count needs --interval' show -c 1
	usage '--no-buckets needs --prometheus' show -j -B
	usage '--keep needs --new' show -k
	for n in -a -b; do
		usage '--all and --bars cannot be used with --json or --prometheus' show $n -j
		usage '--all and --bars cannot be used with --json or --prometheus' show $n -p
	done
	usage '--output needs --json or --prometheus, and takes no interval' show -o x
	usage '--prometheus prints totals: it takes no interval and no COMMAND' show -p -n
	usage 'only one of --new, --interval, --from and --to, and -- COMMAND can be used' show -n -- true
	usage '--interval cannot be used with --total, --from or --to' doctor -i 1 --to x
	usage '--total cannot be used with --from' doctor -a --from x
	usage "--peer '1.2.3': not an address, or a pattern such as 10.9.*" trace -p 1.2.3
	usage '--port 65536: not a port' top -P 65536
	usage '--min-ms 18446744073710: too long' trace -m 18446744073710
	usage "--comm 'a\"b': not the name of a process, of up to 15 bytes" top -C 'a"b'
	mkdir -p run/netns
	touch run/x
	for name in ../x . 99; do
		usage "no network namespace '$name'; give a name from 'ip netns', or the ID of a process in it" trace -N "$name"
	done
	usage "no cgroup 'x' below /sys/fs/cgroup" trace -G x
	mkdir -p sys/fs/cgroup/x/{1..64}
	usage "cgroup 'x' and those below it are more than 64; name one below it" trace -G x
}

@test "an argument cannot steer the terminal" {
	usage "unknown command '\\x1b[31mred\\x0a\\x7f' (see 'tcplat --help')" $'\e[31mred\n\x7f'
	usage "unknown command '\\x9b31mred\\xc3\\xa9' (see 'tcplat --help')" $'\x9b31mred\xc3\xa9'
	# In UTF-8 U+009B is a control character, U+202E reverses text; an accented letter is fine.
	LC_ALL=C.UTF-8 usage "unknown command '\\xc2\\x9b\\xe2\\x80\\xaemr"$'\xc3\xa9'"d\\xff' (see 'tcplat --help')" \
		$'\xc2\x9b\xe2\x80\xaemr\xc3\xa9d\xff'
	# A slash in two bytes, U+FEFF, which is invisible, U+2066, which reverses text, and a surrogate.
	local hidden='\xc0\xaf\xef\xbb\xbf\xe2\x81\xa6\xed\xa0\x80'
	LC_ALL=C.UTF-8 usage "unknown command '$hidden' (see 'tcplat --help')" "$(printf %b "$hidden")"
	ln -s sys $'\e[31msys'
	set_all delack/status=off delack/enabled=0
	run -0 tcplat show --root $'\e[31msys' -a delack
	assert_output --partial 'echo 1 > \x1b[31msys/kernel/tcplat/delack/enabled'
}

@test "not loaded: one line that says how to load, exit 1; nothing is mounted" {
	local BARE=1 cmd
	local not_loaded='not loaded; run modprobe tcplat as root, or make load in the source tree'
	rm -r "$T"
	for cmd in '' status show 'show delack' 'show -i 1' 'show -n' 'show -- touch ran' 'show -j' doctor \
		'doctor --total' top trace; do
		# shellcheck disable=SC2086 # words
		HOME=$PWD refused 1 "$not_loaded (no $T)" $cmd
	done
	[[ ! -e ran ]]
	make_tree delack
	for cmd in status show 'doctor --total' 'top -c 1 -i 0.1' 'trace -t 0.1'; do
		# shellcheck disable=SC2086 # words
		strace_tcplat mount,fsmount,move_mount,fsopen,umount2 $cmd >/dev/null 2>&1 || :
		run -1 grep -E 'mount|fsopen' log
	done
}

# ---- permissions, and trees that cannot be trusted ----

@test "what the user may not read is named, exit 3, the rest is shown; the highest status counts" {
	chmod 600 "$T"/delack/timeouts
	echo x >"$T"/delack/missed
	run -3 --separate-stderr tcplat_as_user show -a --root sys
	assert_equal "${#stderr_lines[@]}" 2
	assert_equal "${stderr_lines[1]}" "tcplat: $T/delack/timeouts: Permission denied"
	assert_line --regexp '^  timeouts +\? '
	assert_line --regexp '^  deferred +0 '
	chmod 0 "$T"
	run -3 --separate-stderr tcplat_as_user show --root sys
	chmod 755 "$T"
	assert_error "$T: Permission denied"
}

@test "what is no number from 0 to 2^64-1, no status or no clock is refused, and steers no terminal" {
	local bad file bytes error not='is not a number from 0 to 2^64-1'
	for bad in twelve -1 +1 0x10 1.5 12a 18446744073709551616 99999999999999999999999999; do
		echo "$bad" >"$T"/delack/timeouts
		BARE=1 refuse "$T/delack/timeouts: '$bad' $not"
		assert_line --regexp '^  timeouts +\? '
		refute_line --partial 'mean wait'
	done
	while IFS='|' read -r file bytes error; do
		make_tree delack
		printf '%b' "$bytes" >"$T/$file"
		refuse "$T/$file: $error"
	done <<-END
		delack/timeouts|1\n2\n|'1\x0a2' $not
		delack/timeouts|\e[31m\x9b\n|'\x1b[31m\x9b' $not
		delack/timeouts||empty
		delack/timeouts|1\0\n|not a text file
		clock/hz|fast\n|'fast' $not
		delack/status|nonsense \e[1m\n|'nonsense \x1b[1m' is not one of armed, off, unavailable
		delack/status|armedish\n|'armedish' is not one of armed, off, unavailable
	END
	assert_line 'delack: delayed ACKs [?]'
	printf 'armed \e[31m\xff\n' >"$T"/delack/status
	truncate -s 1T "$T"/delack/timeouts
	refuse "$T/delack/timeouts: File too large"
	assert_line 'delack: delayed ACKs [armed \x1b[31m\xff]'
	ln -sf nowhere "$T"/delack/timeouts
	refuse "$T/delack/timeouts: $MISSING"
	rm "$T"/delack/timeouts
	mkfifo "$T"/delack/timeouts
	refuse "$T/delack/timeouts: not a text file"
}

@test "abi: another version, missing; a missing clock" {
	echo 1 >"$T"/abi
	refused 1 "$T/abi: the module has ABI 1, $THIS_ABI" show
	echo 2x >"$T"/abi
	refused 1 "$T/abi: the module has ABI 2x, $THIS_ABI" doctor --total
	rm "$T"/abi
	refused 1 "$T/abi: $MISSING" doctor --total
	make_tree delack
	rm -r "$T"/clock
	run_tcplat 0 show delack
	assert_line --regexp '^  delay_max_jiffies +12 +longest'
}

@test "histograms that are no line of numbers, or whose bounds do not fit" {
	local BARE=1 bad bounds=$T/delack/delay_hist_le_us
	for bad in x '1 x' '1 -1' '1  2' '1 2 ' ' 1' '1,2'; do
		echo "$bad" >"$T"/delack/delay_hist
		run_tcplat 1 show delack
		assert_regex "${stderr_lines[0]}" "^tcplat: $T/delack/delay_hist: '.*' is not a number from 0 to 2\\^64-1$"
		assert_line '  delay_hist: ?'
	done
	echo 1 2 3 >"$T"/delack/delay_hist
	for bad in '1 2 3' '1 +Inf 2' 'x y +Inf' '+Inf +Inf' '1 2 +inf' '2 1 +Inf' '1 1 +Inf' '1 2 4 +Inf' ''; do
		echo "$bad" >"$bounds"
		run_tcplat 1 show delack
		assert_line '  delay_hist: ?'
		assert_equal "${stderr_lines[-1]}" 'tcplat: delack/delay_hist: no bounds that fit the counts'
	done
	# Bounds of two units; the sanitizer finds what is not freed.
	echo 1 2 +Inf | tee "$bounds" >"$T"/delack/delay_hist_le_jiffies
	run_tcplat 0 show delack
}

@test "what vanishes while it is read, a read that fails, and names that no module gives" {
	run -1 --separate-stderr with_fault "FAULT_VANISH=deferred:$T/delack" show -a
	assert_line --regexp '^  deferred +\? '
	make_tree delack
	run -1 --separate-stderr with_fault "FAULT_VANISH=tick_ns:sys/kernel" show
	local cmd
	for cmd in status 'show -j' 'doctor -a'; do
		make_tree delack
		# shellcheck disable=SC2086 # words
		run -1 --separate-stderr with_fault FAULT_VANISH=./proc/sys/kernel/random/boot_id:"$T" $cmd
		assert_error "$T: $MISSING"
		assert_output ''
	done
	make_tree delack
	run -1 with_fault FAULT_VANISH=./proc/sys/kernel/random/boot_id:"$T" show -p
	assert_line 'tcplat_up 0'
	assert_line 'tcplat_down_reason{reason="unreadable"} 1'
	make_tree delack
	echo 1 >"$T/delack/"$'a\e[31mb'
	run_tcplat 0 show -a
	refute_output --partial '[31m'
	# Nothing is at address 0.
	ln -sf /proc/self/mem "$T"/delack/timeouts
	refuse "$T/delack/timeouts: Input/output error"
}

# bats test_tags=all
@test "any file of the tree in any state, with any command: an error message, and no crash" {
	make_tree groups
	python3 - "$READER_DIR/tcplat" <<-'END'
		import os, subprocess, sys
		tcplat = sys.argv[1]
		def write(path, text):
		    open(path, "wb").write(text)
		def loop(path):
		    os.symlink(os.path.basename(path), path)
		commands = [c.split() for c in ("status", "show", "show -a -b", "show -j", "show -p", "show -p -o out",
		                                "doctor -a", "doctor -a -j", "show -i 0.1 -c 1", "show -- true")]
		rubbish = [b"", b"\n", b"x\n", b"-1\n", b"1\0\n", b"\xff\x1b[31m\n", b"18446744073709551615\n",
		           b"18446744073709551616\n", b"+Inf\n", b" ".join([b"18446744073709551615"] * 16) + b"\n",
		           b"1 " * 40000, b"unavailable: \x1b[m\n", None, os.mkdir, os.mkfifo, loop]
		files = [os.path.join(d, f) for d, _, fs in os.walk("sys/kernel") for f in fs]
		runs = failed = 0
		for n, path in enumerate(sorted(files)):
		    text = open(path, "rb").read()
		    for k, what in enumerate(rubbish):
		        os.unlink(path)
		        if what is not None:
		            what(path) if callable(what) else write(path, what)
		        # Each state of each file is tried with one command, in turn.
		        command = commands[(n + k) % len(commands)]
		        r = subprocess.run([tcplat, command[0], "--root", "sys", *command[1:]], timeout=30,
		                           stdin=subprocess.DEVNULL, capture_output=True)
		        errors = [e for e in r.stderr.decode("ascii").splitlines() if e.startswith("tcplat: ")]
		        assert r.returncode in (0, 1, 2), (path, what, command, r)
		        assert bool(r.returncode) == bool(errors), (path, what, command, r)
		        assert all(c == 10 or 32 <= c < 127 for c in r.stdout + r.stderr), (path, what, command, r)
		        runs += 1
		        failed += bool(errors)
		        if what is not None:
		            (os.rmdir if what == os.mkdir else os.unlink)(path)
		        write(path, text)
		print(runs, "runs,", failed, "of them failed")
		assert runs > 1000 and failed > runs / 10
	END
}

# ---- documentation and installation ----

# trace_events: prints EVENT FIELD for each field of the module's tracepoints.
trace_events() {
	awk '
		/^#define TCPLAT_SOCK_FIELDS/ { last = "" }
		/^TCPLAT_EVENT\(/ { split($0, part, /[(,] */); list[part[2]] = part[3] }
		/^#define .*_FIELDS\(A, D, C\)/ { split($2, part, "("); last = part[1] }
		/^(#define .*_FIELDS\(A, D, C\)|\t+)/ {
			while (match($0, /(__field|__array|[ \t][ADC])\([^)]*/)) {
				n = split(substr($0, RSTART, RLENGTH), part, /[(,] */)
				fields[last] = fields[last] " " part[n > 2 ? 3 : 2]
				$0 = substr($0, RSTART + RLENGTH)
			}
		}
		END {
			for (event in list) {
				n = split(fields[""] fields[list[event]], part, " ")
				for (i = 1; i <= n; i++)
					print event, part[i]
			}
		}' "$SOURCE/module/trace.h"
}

@test "the man pages have no fault that mandoc knows, and every option, file and tracepoint" {
	local cmd page file name
	mandoc -Tlint -W style "$SOURCE"/userspace/tcplat.[48] >said 2>&1 || :
	# Ignore whether referenced pages are installed.
	run -1 grep -vE 'referenced manual not found|outdated mandoc.db' said
	page=$(mandoc -T ascii -O width=1000 "$SOURCE/userspace/tcplat.8" | col -bx)
	for cmd in "${COMMANDS[@]}"; do
		while read -r name; do
			assert_regex "$page" "[ ,]$name"
		done < <("$READER_DIR/tcplat" "$cmd" --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+')
	done
	page=$(mandoc -T ascii "$SOURCE/userspace/tcplat.4" | col -bx)
	while IFS=/ read -r file name; do
		run -0 sed -n "/^   $file: /,/^\$/p" <<<"$page"
		assert_line --regexp "^     $name +[A-Za-z]"
	done < <(documented_counters | grep -v ^clock/)
	# Each tracepoint with its fields, and the fields that all have.
	while read -r file name; do
		run -0 sed -n "/^     tcplat:$file\$/,/^\$/p; /^     All have these fields/,/^\$/p" <<<"$page"
		assert_output --regexp "[ ,(]${name}[^a-z_]"
	done < <(trace_events)
}

@test "the tables name all files and events of the module, and no others" {
	local tables=$SOURCE/userspace/tables
	documented_counters >documented
	(($(wc -l <documented) > 100))
	run -0 diff documented <(awk -F '\t' '$1 == "file" { print $2 "/" $3 }' "$tables" | sort)
	# Events and fields that columns and rules use; common_pid belongs to the kernel.
	trace_events | sort >events
	awk -F '\t' '
		function uses(event, fields, n, part, i) {
			n = split("netns " fields, part, /[^a-z_.]+/)
			for (i = 1; i <= n; i++)
				if (part[i] != "" && part[i] !~ /^common_pid/)
					print event, part[i]
		}
		$1 == "column" { uses($5, $6 " " $7 ($8 == "OWNER_FIELDS" ? " comm pid" : "")) }
		/^\twhose/ { uses($3, $4 " " $5 " " $6) }
	' "$tables" | sort -u >used
	prints '' comm -23 used events
	# Every event is in a column, and the groups are those of the module.
	run -0 diff <(cut -d ' ' -f 1 used | sort -u) <(cut -d ' ' -f 1 events | sort -u)
	run -0 diff <(awk -F '\t' '$1 == "group" && $2 != "clock" { print $2 }' "$tables" | sort) \
		<(sed -n 's/^TCPLAT_GROUP(\(.*\))$/\1/p' "$SOURCE/module/groups.h" | sort)
}

@test "the tables: a record that is none, and a page that lacks a command, are errors" {
	local awk=$SOURCE/userspace/tables.awk tables=$SOURCE/userspace/tables
	sed 's/^file\tdelack\ttimeouts\t/file\ttimeouts\t/' "$tables" >t
	prints -1 --regexp 't:[0-9]+: not a record of 3 fields: file$' awk -f "$awk" t
	sed '/^@command top@$/d' "$SOURCE/userspace/tcplat.8.in" >p.in
	prints -1 --partial 'the command top is missing' awk -f "$awk" "$tables" p.in
}

@test "install and uninstall honour DESTDIR and PREFIX" {
	make -s -C "$SOURCE/userspace" install DESTDIR="$PWD/dest" PREFIX=/opt/x
	assert_equal "$(find dest -type f | sort)" "$(printf 'dest/opt/x/%s\n' bin/tcplat \
		lib/systemd/system/tcplat-{record.service,textfile.{service,timer}} \
		share/{bash-completion/completions/tcplat,fish/vendor_completions.d/tcplat.fish} \
		share/man/man{4/tcplat.4,8/tcplat.8} share/zsh/site-functions/_tcplat \
		share/tcplat/tcplat.{dashboard.json,rules.yml,schema.json} | sort)"
	run -0 dest/opt/x/bin/tcplat show --root sys
	make -s -C "$SOURCE/userspace" uninstall DESTDIR="$PWD/dest" PREFIX=/opt/x
	assert_equal "$(find dest -type f)" ''
}

# ---- completion, tested with the shells themselves, which ask the reader ----

# offers_right OFFERS: OFFERS LINE prints the completions of the last word of LINE. Options are those
# that COMMAND --help has.
offers_right() {
	local line want cmd
	make_tree groups
	mkdir home
	touch a.json
	while IFS='|' read -r line want; do
		assert_equal "$line: $("$1" "tcplat $line")" "$line: $want"
	done <<-'END'
		sh|show
		show --root sys a|ackmode alpha
		trace --root sys a|ackmode alpha
		doctor --tot|--total
		top -k p|peer pod port
		doctor --from a|a.json
	END
	for cmd in "${COMMANDS[@]}"; do
		assert_equal "$cmd: $("$1" "tcplat $cmd --")" \
			"$cmd: $("$READER_DIR/tcplat" "$cmd" --help | grep -oE '^ +(-., )?--[a-z-]+' |
				grep -oE -- '--[a-z-]+' | sort | xargs)"
	done
}

@test "completion: bash" {
	bash_offers() {
		local words
		read -ra words <<<"$1"
		[[ $1 != *' ' ]] || words+=('')
		# shellcheck disable=SC2016 # for the other shell
		PATH=$READER_DIR:$PATH bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tcplat; printf "%s\n" "${COMPREPLY[@]}"' \
			"$SOURCE/userspace/completion/tcplat.bash" "${words[@]}" | sort -u | xargs
	}
	offers_right bash_offers
	assert_equal "$(bash_offers 'tcplat ')" "${COMMANDS[*]}"
	assert_equal "$(bash_offers 'tcplat --root sys ')" ''
	assert_equal "$(bash_offers 'tcplat trace --root = sys snd')" sndwait
	assert_equal "$(bash_offers 'tcplat show -- valgrind-l')" valgrind-listener
	assert_equal "$(bash_offers 'tcplat show --root sy')" sys
	assert_equal "$(bash_offers 'tcplat show --root = sy')" sys
	assert_equal "$(bash_offers 'tcplat top --key =')" "$(bash_offers 'tcplat top -k ')"
	assert_equal "$(bash_offers 'tcplat top -k ')" 'cause cgroup comm netns owner peer pod port socket'
	assert_equal "$(bash_offers 'tcplat trace --count ')" ''
	assert_equal "$(bash_offers 'tcplat show -')" "$(bash_offers 'tcplat show --')"
	# Names of directories are not run.
	mkdir "$T/\$(touch\${IFS}ran)"
	touch "$T/\$(touch\${IFS}ran)/status"
	assert_equal "$(bash_offers 'tcplat show --root sys al')" alpha
	[[ ! -e ran ]]
}

@test "completion: fish" {
	fish_offers() {
		HOME=$PWD/home PATH=$READER_DIR:$PATH fish --no-config -c "source $SOURCE/userspace/completion/tcplat.fish; complete -C '$1'" |
			cut -f 1 | sort | xargs
	}
	offers_right fish_offers
	assert_equal "$(fish_offers 'tcplat show --root sys -- cat a')" a.json
}

@test "completion: zsh" {
	make_tree groups
	mkdir home functions
	cp "$SOURCE/userspace/completion/_tcplat" functions/
	cat >home/.zshrc <<-'END'
		fpath=($PWD/functions $fpath)
		autoload -Uz compinit && compinit -u -D
		zstyle ':completion:*' list-prompt ''
		unsetopt beep
		LISTMAX=1000
		PS1='%% '
	END
	zsh_line() {
		screen new-session -d -x 100 -y 30 "env HOME=$PWD/home ZDOTDIR=$PWD/home PATH=$READER_DIR:$PATH zsh -d -i"
		captured '^% *$'
		screen send-keys -l "$1"
		screen send-keys Tab
		captured "$2"
		screen kill-server
	}
	zsh_line 'tcplat sh' '^% tcplat show *$'
	zsh_line 'tcplat doctor --tot' '^% tcplat doctor --total *$'
	zsh_line 'tcplat show -- valgrind-l' '^% tcplat show -- valgrind-listener *$'
	zsh_line 'tcplat top -k so' '^% tcplat top -k socket *$'
	zsh_line 'tcplat trace --root sys al' '^% tcplat trace --root sys alpha *$'
	touch a.json
	# What stands for a command is not run; the q comes after the tab.
	zsh_line $'tcplat $(touch ran) --he\tq' '^% tcplat .*--he.*q'
	[[ ! -e ran ]]
	zsh_line 'tcplat doctor --from a' '^% tcplat doctor --from a.json *$'
}

# ---- cost, and fuzzing ----

@test "show takes less than 10 ms of CPU" {
	local TIMEFORMAT='%U %S'
	make_tree groups
	# The minimum of many runs, since other processes on this machine slow down some.
	for _ in {1..20}; do
		{ time "$READER_DIR/tcplat" show --root sys >all; } 2>>used
	done
	# Sanitizers need more time.
	awk -v most="${CPU_MS:-10}" '{ ms = ($1 + $2) * 1000 } NR == 1 || ms < best { best = ms }
		END { print best " ms"; exit best >= most }' used
}

@test "fuzzing for 20 s finds nothing" {
	run -0 "$SOURCE/bats/fuzz/run" 20
	assert_line --regexp '^stat::number_of_executed_units: [0-9]{3}'
}
