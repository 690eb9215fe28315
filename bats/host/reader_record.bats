#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat record, and top --from, on a tracefs of files. record.py has a model of what the lines must
# be; the fixture's clocks advance by the length of each sleep. Only this has modules that go,
# outputs that fail, and clocks that are set while record runs.
#
# shellcheck disable=SC2153,SC2154 # run --separate-stderr sets stderr; EVIL is a helper's
# shellcheck disable=SC2030,SC2031 # each test has its own output
# shellcheck disable=SC2317 # steps are called by name

load reader_helpers

EVENTS=(ack_stall delack_timeout ack_mode port_search snd_wait snd_hold idle_restart)

setup() {
	untraced
	enter_work_dir
	make_live_tree "${EVENTS[@]}"
	# 2026-11-26 03:10:00 UTC; steps advance it.
	echo 1795662600 >wall
	export FAULT_WALL=wall FAULT_CGROUPS=$PWD/cgroups TZ=CET-1 MODEL=$BATS_TEST_DIRNAME/record.py
}

# later SECONDS: advances the wall clock.
later() { echo $(($(<wall) + $1)) >wall; }

# model ARGUMENT...: runs record.py.
model() { "$PYTHON" "$MODEL" "$@"; }

# Steps of a scenario of the model, two seconds each: play SCENARIO, in step_N.
play() {
	later 2
	model step "$1" "$(<step)"
}

# steps FROM TO COMMAND...: this is what happens in these intervals.
steps() {
	local n
	for ((n = $1; n <= $2; n++)); do
		eval "step_$n() { ${*:3}; }"
	done
}

# member LINE NAME...: prints members of the JSON in the line LINE of the file lines.
member() { json "$(printf 'd["%s"],' "${@:2}")" "$(sed -n "$1p" lines)"; }

# records COUNT [OPTION...]: runs tcplat record for COUNT intervals of 2 s, without any error, and
# leaves its lines in the file lines.
records() { records_and 0 '' "$@"; }

# records_and STATUS ERRORS COUNT [OPTION...]: the same, with these errors.
records_and() {
	run "-$1" --separate-stderr with_steps record -i 2 -c "$3" "${@:4}"
	assert_equal "$stderr" "$2"
	echo "$output" >lines
}

# start_record [OPTION...]: runs tcplat record, and sets pid to its process once it waits.
start_record() {
	LD_PRELOAD=$READER_DIR/faults.so "$READER_DIR/tcplat" record --root sys "$@" \
		>lines 2>/dev/null 3>&- &
	pid=$!
	asleep $pid
}

# to_cgroup PATH: gives this cgroup the next ID, from 1 on.
to_cgroup() {
	mkdir -p cgroups "sys/fs/cgroup/$1"
	ln -s "$PWD/sys/fs/cgroup/$1" cgroups/$((++cgroups))
}
cgroups=0

# stalls ID...: in the first interval, cgroups lose time, the first one the most.
stalls() {
	local n=$#
	hist ack_stall cgroup,netns,peer stall_us '' "$(for id; do
		entry 2 stall_us=$((10 ** n--)) cgroup="$id" netns=1 peer=10.0.0.1
	done)"
}

instances() { ls sys/kernel/tracing/instances; }

@test "record: exact sums of each interval, the worst and the rest; top --from adds them up" {
	local key
	steps 1 5 play sums
	records 5
	prints '5 lines' model check sums 20 <lines
	run -0 with_steps record -i 2 -c 5 -n 3
	run -0 model check sums 3 <<<"$output"
	assert_equal "$(member 1 schema start end seconds module unseen_seconds)" \
		'2 2026-11-26T03:10:00Z 2026-11-26T03:10:02Z 2 loaded 0'
	assert_equal "$(member 5 start end)" '2026-11-26T03:10:08Z 2026-11-26T03:10:10Z'
	assert_equal "$(instances)" ''

	for key in peer cause pod; do
		run -0 tcplat top --from lines --json --key "$key"
		prints --regexp ' rows 10 s$' model top sums "$key" 1 5 <<<"$output"
	done
	# Collectors sort members.
	"$PYTHON" -c 'import json, sys
for line in sys.stdin: print(json.dumps(json.loads(line), sort_keys=True))' <lines >sorted
	run -0 tcplat top --from sorted --json --key cause
	prints --regexp ' rows 10 s$' model top sums cause 1 5 <<<"$output"
	# Between two times: the lines that overlap them.
	run -0 tcplat top --from lines -j -S 2026-11-26T03:10:02Z -U 2026-11-26T05:10:06+02:00
	run -0 model top sums peer 2 3 <<<"$output"
	run -0 tcplat top --from - -j -S 2026-11-26T03:10:03Z -U 2026-11-26T03:10:05Z <lines
	prints --regexp ' rows 4 s$' model top sums peer 2 3 <<<"$output"
	# By owner, as the line has it.
	run -0 tcplat top --from lines -j -k owner -U 2026-11-26T03:10:02Z
	assert_equal "$(json 'sorted(x["name"] for x in d["losses"])')" \
		"$(json 'sorted([x["name"] for x in d["owners"]] + ["(others)"])' "$(head -n 1 lines)")"
	run -0 tcplat top --from lines -k cause
	assert_line --index 0 'tcplat top: 2026-11-26 04:10:00 to 2026-11-26 04:10:10, ms lost in each second, over 10.0 s, by cause: 8; table full, 12 events left out'
	assert_line --index 1 --regexp '^ +SUM +IDLE/s +CAUSE$'
	assert_equal "${#lines[@]}" 10
}

@test "record --prometheus: exact sums by pod and cause, counters that only grow, and a limit" {
	local case scenario worst
	model cgroups
	for case in 'sums 20' 'sums 2' 'turns 20' 'turns 2' 'turns 1' 'full 2'; do
		read -r scenario worst <<<"$case"
		# The file is kept as it is by the end of the interval before.
		# shellcheck disable=SC2016 # for later
		steps 1 8 'cp owners.prom "prom.$(($(<step) - 1))"; play' "$scenario"
		records 8 -n "$worst" -p owners.prom
		run -0 model metrics "$scenario" "$worst" <lines
		echo "$case: $output" >>results
		run -0 promtool check metrics <prom.7
		# The counters of what no longer runs are not exported.
		assert_equal "$(ls -A owners.prom .owners.prom* 2>/dev/null)" ''
	done
	run cat results
	assert_output --regexp '^sums 20: 8 files, [1-9][0-9]+ new, 0 gone, 0 back, [1-9][0-9]+ exact
sums 2: 8 files, [1-9][0-9]* new, [0-9]+ gone, [0-9]+ back, [1-9][0-9]+ exact
turns 20: 8 files, 12 new, 0 gone, 0 back, 8 exact
turns 2: 8 files, 14 new, 6 gone, 4 back, 4 exact
turns 1: 8 files, 10 new, 6 gone, 2 back, 4 exact
full 2: 8 files, 2 new, 0 gone, 0 back, 6 exact$'
}

@test "record --prometheus: names that attack, and several that look the same" {
	local name uid=0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0
	mkdir -p $'var/log/pods/a"b\n_c\n\x01}_'$uid/$'d\t"'
	mkdir var/log/containers
	touch var/log/containers/$'c_a_d\t"-7.log'
	# Two have the same text once the bytes that are no text are escaped. The last is longer than the
	# one file that it would match as a pattern.
	for name in $'x"} 1\n# TYPE y\n' $'\xff\\' $'\\xff\\' $'\xc3\xa9' "$(printf 'long%.0s' {1..60})" \
		"kubepods/pod$uid/7" "kubepods/pod$uid/$(printf '*%.0s' {1..200})"; do
		to_cgroup "$name"
	done
	# No cgroup has the ID 0.
	step_1() { stalls {7..0}; }
	step_2() { :; }
	step_3() { cp owners.prom prom; }
	records 3 --prometheus owners.prom
	run -0 promtool check metrics <prom
	"$PYTHON" - <<-'END'
		from prometheus_client.parser import text_string_to_metric_families as parse
		(family,) = parse(open("prom").read())
		got = {tuple(sorted(s.labels.items())): round(s.value * 10**6) for s in family.samples if s.value}
		name = lambda text: (("cause", "stall"), ("cgroup", text))
		assert got == {name("other"): 10, name('/x"} 1\\x0a# TYPE y\\x0a'): 100, name("/\\xff\\"): 11000,
		               name("/\u00e9"): 100000, name("/" + "long" * 60): 1000000,
		               (("cause", "stall"), ("container", 'd\\x09"'), ("namespace", 'a"b\\x0a'),
		                ("pod", "c\\x0a\\x01}")): 110000000}, got
	END
}

@test "record --prometheus: only if asked, only where it can, and not for ever" {
	there() { find . -maxdepth 1 | sort; }
	step_1() { there >"$READER_DIR/there"; }
	step_2() { there | diff "$READER_DIR/there" -; }
	records 2
	# A directory that goes, and comes back: an error each time, and the counters go on.
	mkdir text
	steps 1 1 'play sums; rm -r text'
	steps 2 2 play sums
	steps 3 3 'play sums; mkdir text'
	steps 4 4 'play sums; cp text/a.prom prom'
	records_and 1 'tcplat: text/a.prom: No such file or directory
tcplat: text/a.prom: No such file or directory' 4 -p text/a.prom
	# Nobody has a name here.
	assert_equal "$(sed -n 's/^.*cause="stall",cgroup="other"} //p' prom)" "$("$PYTHON" -c 'import json, sys
ns = sum(x["stall"]["time_ns"] for line in sys.argv[1].splitlines()[:3] for d in [json.loads(line)]
         for x in [*d["owners"], d["other"]] if "stall" in x)
print("%.9f" % (ns / 10**9))' "$output" | sed 's/0*$//')"
	# At once, and without a line, if it can never be written; what is there stays.
	mkfifo fifo
	run -1 --separate-stderr with_fault A=b record -i 0.1 -p fifo
	assert_error 'fifo: not a regular file'
	assert_output ''
	[[ -p fifo ]]
	run -1 --separate-stderr with_fault A=b record -i 0.1 -p nowhere/x
	assert_error 'nowhere/x: No such file or directory'
	assert_equal "$(instances)" ''
	# An interval whose line could not be written is still to come.
	step_1() { play sums; }
	step_2() { cp owners.prom prom; }
	run -1 --separate-stderr bash -c "$(declare -f); with_steps record -i 2 -c 2 -p owners.prom >/dev/full"
	assert_equal "$(grep -c '^tcplat_owner_lost_seconds_total{.* 0$' prom) $(grep -c '^[^#]' prom)" '10 10'
	# However it ends.
	run bash -c "LD_PRELOAD=$READER_DIR/faults.so $READER_DIR/tcplat record --root sys -i 0.1 -p owners.prom 2>errors | head -n 2"
	[[ ! -e owners.prom ]]
	start_record -p owners.prom
	assert_equal "$(stat -c %a owners.prom)" 644
	kill -TERM $pid
	wait $pid
	[[ ! -e owners.prom ]]
}

@test "record: a crowded histogram is replaced; what did not fit is counted" {
	steps 1 3 play full
	run -0 --separate-stderr strace -f -o log -e trace=write -s 100 -E LSAN_OPTIONS=detect_leaks=0 \
		bash -c "$(declare -f); with_steps record -i 2 -c 3"
	prints '3 lines' model check full 20 <<<"$output"
	# At the beginning, after the interval with many keys, and after that with too many.
	assert_equal "$(grep -c 'write(.*"hist:keys=cgroup,netns,peer:vals=stall_us' log)" 3
}

@test "record: names that attack: processes and cgroups, in the line and in top's table" {
	to_cgroup $'a\e[2J\n\t\xff"x\\'
	step_1() {
		local n=0
		later 2
		hist snd_hold comm,cgroup,peer time_ns '(cause == 1)' "$(for x in "${EVIL[@]}"; do
			entry 5 time_ns=$((5000000 + n++)) comm="$x" cgroup=1 peer=10.9.0.1
		done)"
	}
	records 1
	is_whole
	assert_equal "${#lines[@]}" 1
	"$PYTHON" - <<-'END'
		import json
		owners = json.load(open("lines"))["owners"]
		assert [x["nagle"] for x in owners] == [{"count": 5, "time_ns": 5000004 - i} for i in range(5)], owners
		assert {x["cgroup"] for x in owners} == {"/a\\x1b[2J\\x0a\\x09\\xff\"x\\"}, owners
		assert "\\x1b]0;own\\x07" in [x["comm"] for x in owners], owners
	END
	run -0 tcplat top --from lines -k owner
	is_whole
	assert_equal "$(grep -c ' in cgroup /a\\x1b\[2J\\x0a\\x09\\xff"x\\$' <<<"$output")" 5
	# A file of others' making does not reach the terminal either.
	sed -i 's/10\.9\.0\.1/\xc2\x9b2J\xff/g' lines
	run -0 tcplat top --from lines -k peer
	is_whole
	assert_line --regexp '  \\xc2\\x9b2J\\xff$'
}

@test "record: names in other scripts, and what collectors make of them" {
	local cgroup
	for cgroup in $'caf\xc3\xa9' $'caf\xc3\xa8' $'\xf0\x9f\x98\x80<&>' plain; do
		to_cgroup "$cgroup"
	done
	steps 1 1 'later 2; stalls 1 2 3 4'
	records 1
	"$PYTHON" - <<-'END' >escaped
		import json
		line = json.load(open("lines"))
		assert [x["cgroup"] for x in line["owners"]] == ["/caf\u00e9", "/caf\u00e8", "/\U0001f600<&>", "/plain"], line
		assert all(x["name"].endswith(x["cgroup"]) for x in line["owners"]), line
		print(json.dumps(line).replace("<", "\\u003C").replace("&", "\\u0026"))
	END
	grep -qF '/\ud83d\ude00\u003C\u0026>' escaped
	run -0 tcplat top --from lines -j -k pod
	assert_equal "$(json 'len(d["losses"])')" 4
	prints "$output" tcplat top --from escaped -j -k pod
	# Half a pair is no character, nor is the end of a text.
	sed -i 's/\\ud83d//g; s/u00e8/u0000/g' escaped
	run -0 tcplat top --from escaped -j -k pod
	assert_equal "$(json '*sorted(x["name"] for x in d["losses"])')" '/?<&> /caf? /café /plain'
}

@test "record: 2,000 cgroups; a line stays below what the journal splits, whatever the names are" {
	local long
	long=$(printf 'x%.0s' {1..250})
	mkdir -p cgroups "sys/fs/cgroup/$long/$long/$long/$long"
	for n in {1000..2999}; do
		echo "$n"
	done | xargs -I{} ln -s "$PWD/sys/fs/cgroup/$long/$long/$long/$long" cgroups/{}
	steps 1 2 play many
	records 2 -n 100
	# Of 100 owners with 2 KB of names each, a quarter and then an eighth are tried.
	prints '2 lines' model check many 12 <lines
}

@test "record: the pod is gone at the end of the interval; drivers systemd and cgroupfs" {
	local uid=0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0 other=11111111-2222-3333-4444-555555555555
	local static=0123456789abcdef0123456789abcdef id path
	id=$(printf '%064d' 7)
	mkdir -p var/log/containers
	mkdir -p var/log/pods/shop_cart-1_$uid/{web,proxy} var/log/pods/kube-system_dns-2_$other/coredns \
		var/log/pods/kube-system_etcd-node_$static/etcd
	ln -s x "var/log/containers/cart-1_shop_proxy-$id.log"
	for path in \
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid//-/_}.slice/cri-containerd-$id.scope" \
		"kubepods/besteffort/pod$other/$(printf '%064d' 8)" \
		"kubepods/pod$static/$(printf '%064d' 9)" \
		"kubepods/pod$uid/$(printf '%064d' 6)" \
		system.slice/sshd.service \
		"user.slice/user-7.slice/user@7.service/kubepods/pod$uid/$id"; do
		to_cgroup "$path"
	done
	step_1() { stalls {1..7}; }
	# Nothing of them is left.
	step_2() { rm -r cgroups sys/fs/cgroup var; }
	step_3() { :; }
	records 1 -i 6
	assert_equal "$(json '*((x["cgroup_id"], x.get("pod"), x.get("cgroup", "")[:9]) for x in d["owners"]), sep="\n"')" "\
(1, 'shop/cart-1/proxy', '/kubepods')
(2, 'kube-system/dns-2/coredns', '/kubepods')
(3, 'kube-system/etcd-node/etcd', '/kubepods')
(4, 'shop/cart-1', '/kubepods')
(5, None, '/system.s')
(6, None, '/user.sli')
(7, None, '')"
	run -0 tcplat top --from lines -k pod
	assert_equal "$(sed -n '3,$s/^.* //p' <<<"$output" | xargs)" \
		'shop/cart-1/proxy kube-system/dns-2/coredns kube-system/etcd-node/etcd shop/cart-1 /system.slice/sshd.service '"/user.slice/user-7.slice/user@7.service/kubepods/pod$uid/$id ?"
}

@test "record: the module goes, is off, comes back and is another; the instance does not keep it" {
	held() {
		later 2
		hist snd_hold comm,cgroup,peer time_ns '(cause == 1)' "$(entry "$1" time_ns="$2" comm=a cgroup=0 peer=10.0.0.1)"
	}
	# Off: the instance is dropped, so that rmmod can be.
	step_1() {
		held 1 1000
		cp -r sys/kernel/tcplat kept
		for f in sys/kernel/tcplat/*/status; do echo off >"$f"; done
		# A group without events.
		set_to zeta/status armed
	}
	steps 2 2 'later 2; instances >left; mv sys/kernel/tcplat gone'
	steps 3 8 later 2
	steps 4 4 'later 2; mv kept sys/kernel/tcplat'
	step_5() { held 2 5000; }
	step_7() { held 3 9000; }
	records_and 0 'tcplat: nothing to record until a group is armed' 8
	assert_equal "$(<left)" ''
	assert_equal "$(for n in {1..8}; do member "$n" seconds module unseen_seconds; done)" '2 off 0
2 absent 2
2 absent 2
2 reloaded 2
2 loaded 0
2 loaded 0
2 loaded 0
2 loaded 0'
	assert_equal "$("$PYTHON" -c 'import json
print(*(x["nagle"] for line in open("lines") for x in json.loads(line)["owners"]))')" \
		"{'count': 1, 'time_ns': 1000} {'count': 2, 'time_ns': 5000} {'count': 3, 'time_ns': 9000}"
	run -0 --separate-stderr tcplat top --from lines
	assert_error 'nothing is known of 6.0 s, in which no group was watched'
	assert_line --index 0 --partial ' over 10.0 s, '
	run -0 --separate-stderr tcplat top --from lines --json
	assert_equal "$(json 'd["seconds"], d["unseen_seconds"]')" '10 6'
	run -1 --separate-stderr tcplat top --from - < <(sed -n 2p lines)
	assert_equal "$output" ''
	assert_equal "$(member 5 not_counted)" "['loss', 'peerwnd', 'answer', 'listen', 'bindsearch']"
	assert_equal "$(member 1 not_counted)" "$(member 2 not_counted)"
	assert_equal "$(member 2 not_counted)" \
		"['delack', 'sndhold', 'loss', 'peerwnd', 'answer', 'listen', 'portsearch', 'bindsearch', 'sndwait', 'idlerestart', 'ackmode']"
	# It starts without the module, too.
	mv sys/kernel/tcplat kept
	steps 1 1 later 2
	steps 2 2 'later 2; mv kept sys/kernel/tcplat'
	records_and 0 'tcplat: nothing to record until the module is loaded' 2
	assert_equal "$(member 2 module unseen_seconds)" 'absent 2'
	assert_equal "$(instances)" ''
	# Another takes its place that this reader does not know.
	step_1() {
		later 2
		for f in sys/kernel/tcplat/*/status; do echo off >"$f"; done
	}
	step_2() {
		later 2
		mv sys/kernel/tcplat kept
		cp -r kept sys/kernel/tcplat
		set_to abi 3
	}
	steps 3 3 later 2
	records_and 1 "tcplat: nothing to record until a group is armed
tcplat: $T/abi: the module has ABI 3, $THIS_ABI" 3
	assert_equal "$(member 3 module unseen_seconds)" 'absent 2'
}

@test "record: groups that are off for a time, all of them or one" {
	cp -r "$T" kept
	steps 1 9 later 2
	step_1() {
		later 2
		for f in "$T"/*/status; do echo off >"$f"; done
	}
	# shellcheck disable=SC2016 # for later
	{
		steps 2 2 'later 2; cp kept/sndwait/status "$T"/sndwait'
		steps 3 3 'later 2; cp kept/sndhold/status "$T"/sndhold'
		steps 4 4 'later 2; cp -r kept/* "$T"'
		steps 7 7 'later 2; echo off >"$T"/sndhold/status'
		steps 8 8 'later 2; cp -r kept/* "$T"'
	}
	run -0 --separate-stderr with_steps record -i 8 -c 2
	echo "$output" >lines
	assert_equal "$(for n in {1..2}; do member "$n" seconds module unseen_seconds not_counted; done)" \
		"8 off 2 ['delack', 'sndhold', 'loss', 'peerwnd', 'answer', 'listen', 'portsearch', 'bindsearch', 'sndwait', 'idlerestart', 'ackmode']
8 loaded 0 ['sndhold', 'loss', 'peerwnd', 'answer', 'listen', 'bindsearch']"
}

@test "record: groups that are armed later count, too" {
	echo off >"$T"/sndhold/status
	# As many as before, but others.
	step_1() {
		echo armed >"$T"/sndhold/status
		echo off >"$T"/sndwait/status
	}
	step_2() {
		hist snd_hold comm,cgroup,peer time_ns '(cause == 2)' "$(entry 4 time_ns=1000 comm=a cgroup=0 peer=10.0.0.1)"
	}
	run -0 with_steps record -i 2 -c 2
	assert_line --partial '"comm":"a","peer":"10.0.0.1","time_ns":1000,"cork":{"count":4,"time_ns":1000}}'
}

@test "record: a full disk: one error each time, and the next line has all that was lost" {
	steps 1 2 later 2
	run -1 --separate-stderr bash -c "$(declare -f); with_steps record -i 2 -c 2 >/dev/full"
	assert_equal "$stderr" "$DISK_FULL"$'\n'"$DISK_FULL"
	assert_equal "$(instances)" ''
	# limited LIMIT: records three intervals to a file that may have LIMIT bytes, until the third ends.
	limited() {
		run -1 --separate-stderr bash -c "$(declare -f); trap '' XFSZ
			with_fault() { env \"\$1\" LD_PRELOAD=$READER_DIR/faults.so \
				prlimit --fsize=$1:unlimited $READER_DIR/tcplat \"\$2\" --root sys \"\${@:3}\"; }
			with_steps record -i 2 -c 3 2> >(cat >&2) >limited"
		assert_equal "$(grep cannot <<<"$stderr")" 'tcplat: cannot write the output: File too large
tcplat: cannot write the output: File too large'
	}
	echo 1795662600 >wall
	steps 1 2 'prlimit --pid $$ --fsize=unlimited; play plain'
	unlimited() {
		local instance
		instance=$(echo sys/kernel/tracing/instances/*)
		prlimit --pid "${instance##*-}" --fsize=unlimited
	}
	steps 3 3 'unlimited; step_1'
	limited 1000
	"$PYTHON" - <<-'END'
		lines = open("limited").read().splitlines()
		assert len(lines) == 2 and len(lines[0]) == 1000 and lines[1].startswith('{"schema":2'), lines
		open("lines", "w").write(lines[1] + "\n")
	END
	assert_equal "$(member 1 start end seconds)" '2026-11-26T03:10:00Z 2026-11-26T03:10:06Z 6'
	run -0 tcplat top --from limited -j -k cause
	assert_output --partial 'tcplat: limited: skipped 1 lines that are not of tcplat record'
	run -0 model top plain cause 1 3 <<<"${lines[-1]}"
	# A histogram that cannot be read once.
	steps 1 3 play plain
	step_2() {
		play plain
		rm sys/kernel/tracing/instances/*/events/tcplat/ack_stall/hist
	}
	run -1 --separate-stderr with_steps record -i 2 -c 3
	assert_regex "$stderr" '^tcplat: sys/[^ ]*/ack_stall/hist: No such file or directory$'
	echo "$output" >lines
	assert_equal "$(member 1 seconds) $(member 2 seconds)" '2 4'
	run -0 tcplat top --from lines -j -k cause
	run -0 model top plain cause 1 3 <<<"$output"
	# Others are watched from the second interval on, and again others in the third.
	swap() {
		echo "$1" >"$T"/sndhold/status
		echo "$2" >"$T"/sndwait/status
	}
	swap off armed
	steps 1 1 'later 2; swap armed off'
	steps 2 2 'later 2; swap off armed'
	steps 3 3 'unlimited; later 2'
	limited 100
	tail -n 1 limited >lines
	assert_equal "$(member 1 seconds unseen_seconds)" '6 4'
}

@test "record: a reader that has gone ends it; kill -9, and the next start removes what it left" {
	run bash -c "LD_PRELOAD=$READER_DIR/faults.so $READER_DIR/tcplat record --root sys -i 0.1 2>errors | head -n 2 | wc -l; exit \${PIPESTATUS[0]}"
	assert_equal "$status $output" '1 2'
	prints 1 grep -c 'cannot write the output: Broken pipe' errors
	assert_equal "$(instances)" ''
	start_record
	kill -KILL $pid
	wait $pid || :
	assert_equal "$(instances)" "tcplat-record-$pid"
	start_record
	assert_equal "$(instances)" "tcplat-record-$pid"
	# A signal: the interval so far is written.
	kill -TERM $pid
	wait $pid
	assert_equal "$(wc -l <lines) $(member 1 module)" '1 loaded'
	assert_equal "$(instances)" ''
	# The next process may have the same PID, as each time in a container.
	# shellcheck disable=SC2016 # for the other shell
	run -0 sh -c 'cp -r instance "sys/kernel/tracing/instances/tcplat-top-$$"
		exec env LD_PRELOAD="$READER_DIR/faults.so" "$READER_DIR/tcplat" top --root sys -i 0.1 -c 1 -b'
	assert_equal "$(instances)" ''
}

@test "record: the clock is set back and forth, or the host suspended: lengths stay right" {
	steps 1 3 later 2
	steps 2 2 'later -3600; model step sums 2'
	steps 4 4 later 7202
	records 4
	assert_equal "$(for n in {1..4}; do member "$n" start end seconds; done)" '2026-11-26T03:10:00Z 2026-11-26T03:10:02Z 2
2026-11-26T03:10:02Z 2026-11-26T02:10:02Z 2
2026-11-26T02:10:02Z 2026-11-26T02:10:04Z 2
2026-11-26T02:10:04Z 2026-11-26T04:10:06Z 2'
	# What was counted meanwhile is found by any time of it.
	run -0 tcplat top --from lines -U 2026-11-26T02:10:03Z --key cause
	assert_line --index 0 --partial 'over 4.0 s, by cause: 8'
	refused 1 'lines: no lines of this time; it has 2026-11-26 03:10:02 to 2026-11-26 05:10:06' top --from lines -S 2026-11-26T04:10:06Z
}

@test "top --from: lines that are none, the journal's, and errors" {
	local at
	step_1() { play sums; }
	run -0 --separate-stderr with_steps record -i 2 -c 1
	{
		echo '-- Boot 0123 --'
		echo "Nov 26 03:10:02 host tcplat[5]: $output"
		echo "${output:0:500}"
		echo '{"schema":2,"owners":[]}'
		echo '{"owners":{"-2":{"time_ns":1}}}'
		echo "${output/\"schema\":2/\"schema\":3}"
		echo "${output/\"count\":/\"count\":-}"
		echo "${output/\"seconds\":2/\"seconds\":inf}"
		echo "${output/\"unseen_seconds\":0/\"unseen_seconds\":1e999}"
		echo "${output/\"end\":/\"end\":99999999999999999,\"was\":}"
		echo
		head -c 300 /dev/urandom | tr '\n' x
	} >lines
	run -0 --separate-stderr tcplat top --from lines --json
	assert_error 'lines: skipped 11 lines that are not of tcplat record'
	run -0 model top sums peer 1 1 <<<"$output"
	# Times.
	sed -n 2p lines >one
	at=$(date -ud '-30 minutes' +%Y-%m-%dT%H:%M:%SZ)
	sed -i -E "s/\"(start|end)\":\"[^\"]*\"/\"\\1\":\"$at\"/g; s/\"end\":\"[^\"]*\"/\"end\":\"$(date -ud '-29 minutes' +%Y-%m-%dT%H:%M:%SZ)\"/" one
	run -0 tcplat top --from one -S -1h
	run -0 tcplat top --from one -S -40m -U -1s
	run -1 tcplat top --from one -S -20m
	run -1 tcplat top --from one -U -1d
	sed 's/"seconds":[0-9.]*/"seconds":0/' one >none
	prints -1 'tcplat: none: no lines of tcplat record' tcplat top --from none
	run -0 tcplat top --from one -S -30000d
	run -0 tcplat top --from one -S 1969-12-31T00:00:00Z
	if [[ $(date +%H) != 00 && $(date +%H) != 23 ]]; then
		run -0 tcplat top --from one -S "$(date -d '-40 minutes' +%H:%M)" -U "$(date +%H:%M)"
		run -1 tcplat top --from one -U "$(date -d '-40 minutes' +%H:%M)"
	fi
	# At 03:00 of this day, the clock was set back: 01:30 was 23:30 UTC.
	date -ud 2026-10-25T11:00Z +%s >wall
	sed -E 's/"(start|end)":"[^"]*"/"\1":"2026-10-25T00:10:00Z"/g' one >night
	TZ=CET-1CEST,M3.5.0,M10.5.0/3 run -0 with_fault A=b top --from night -S 01:30
	for at in x 25:00 --1h -1y -1hx 03:10x 2026-11-26 2026-11-26T03:10:00 2026-11-31T00:00:00Z 26-11-26T03:10:00Z -h ''; do
		run -2 tcplat top --from one --since "$at"
		run -2 tcplat top --from one --until "$at"
	done
	assert_output "tcplat: --until '': not a name"
	usage '--key port: not with --from' top --from one --key port
	usage '--key pod: not without --from' top --key pod
	run -2 tcplat top --from one --peer 10.0.0.1
	for at in -i1 -c1 -b; do
		usage '--interval, --count and --batch: not with --from' top --from one $at
	done
	usage '--since and --until: only with --from' top --since -1h
	for at in show top; do
		usage 'nothing: No such file or directory' $at --from nothing
		usage 'sys: Is a directory' $at --from sys
		chmod 0 one
		prints -3 'tcplat: one: Permission denied' tcplat_as_user $at --from one --root sys
	done
}
