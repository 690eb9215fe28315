#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat top: each column, summed over all rows, equals the group's counters, for each key; the
# rows name those who lost the time; and it leaves nothing behind in tracefs. Only this runs tcplat
# top on live events.

# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

load ../live
load ../ports

setup() {
	untraced
	live
}

teardown() {
	[[ ! ${topper:-} ]] || kill -KILL "$topper" 2>/dev/null || :
	tidy
}

# above [OPTION...]: starts tcplat top in the background, for one interval, and waits until it has
# read its histograms for the first time.
above() {
	"$TCPLAT" top --count 1 "$@" >rows 2>errors &
	topper=$!
	asleep "$topper"
	grep -q '^hist:' "$TRACING/instances/tcplat-top-$topper/events/tcplat/snd_wait/trigger" ||
		fail "top does not listen: $(<errors)"
	reset_counters
}

ended() {
	wait "$topper" || fail "status $?: $(<errors)"
	topper=''
	same instances "$(instances)" ''
}

# read_rows: sets SUM[COLUMN.MEMBER] to sums over all rows, and NAMES to the rows' names. Checks
# that the worst row is first, and that no time is counted twice: stalls are late ACKs. A single
# program for all checks, since python takes a guest as long as everything else.
declare -gA SUM
read_rows() {
	local key value
	run -0 python3 -c 'import json
from collections import Counter
rows = json.load(open("rows"))["losses"]
sums = Counter()
for row in rows:
    columns = {c: row[c] for c in row if isinstance(row[c], dict)}
    sum_ns = sum(columns[c].get("time_ns", 0) for c in columns if c not in ("ack", "answer", "peer_answer"))
    # Over loopback a stall and a hold are one wait, if both ends are in a row.
    if row.get("peer") in ("127.0.0.1", "::1") and "peer_port" not in row:
        sum_ns -= min(columns["stall"]["time_ns"], columns["nagle"]["time_ns"])
    assert row["time_ns"] == sum_ns, row
    for c in columns:
        for member in ("count", "time_ns"):
            sums[c + "." + member] += columns[c].get(member, 0)
    print("name", row["name"])
order = [row["time_ns"] for row in rows]
assert order == sorted(order, reverse=True), order
for key in sums:
    print(key, sums[key])'
	SUM=()
	NAMES=$(sed -n 's/^name //p' <<<"$output")
	while read -r key value; do
		[[ $key == name ]] || SUM[$key]=$value
	done <<<"$output"
}

# agree COLUMN COUNTERS [TIMES [FACTOR]]: the sums of a column are those of the group's files.
agree() {
	same "$1" "${SUM[$1.count]}" "$(added "$2")"
	[[ ! ${3-} ]] || same "the time of $1" "${SUM[$1.time_ns]}" $(($(added "$3") * ${4:-1}))
}

# at_least COLUMN N...
at_least() {
	while (($#)); do
		((${SUM[$1.count]} >= $2)) || fail "hardly any: $1 ${SUM[$1.count]}"
		shift 2
	done
}

# by KEY: what this key's program found is what was counted.
by() {
	mv "$1/rows" rows
	read_rows
	agree nagle sndhold/nagle sndhold/nagle_time_ns
	agree cork sndhold/cork sndhold/cork_time_ns
	agree port portsearch/searches portsearch/time_ns
	agree send sndwait/waits sndwait/time_ns
	agree answer answer/own answer/own_time_ns
	agree listen listen/accept listen/accept_time_ns
	at_least nagle 10 cork 8 send 4 port 4 answer 2 listen 2
	# Only what runs in its own context, or has its name.
	if [[ $1 == comm ]]; then
		assert_equal "$(printf '%s\n' "$NAMES" | sed 's/ ([0-9]*)$//' | sort -u | xargs)" 'ports python3 traffic'
		assert_equal "${SUM[stall.count]-}${SUM[ack.count]-}${SUM[again.count]-}${SUM[idle.count]-}" ''
		return
	fi
	agree stall delack/stalls delack/stall_us 1000
	agree ack delack/timeouts delack/delay_us 1000
	agree again sndwait/again sndwait/again_time_ns
	agree idle idlerestart/restarts
	agree loss loss/rto+loss/tlp+loss/fast+loss/syn+loss/synack \
		loss/rto_time_ns+loss/tlp_time_ns+loss/fast_time_ns+loss/syn_time_ns+loss/synack_time_ns
	agree peerwnd peerwnd/wait peerwnd/wait_time_ns
	agree peer_answer answer/peer answer/peer_time_ns
	agree overflow listen/overflows
	at_least stall 8 idle 2 again 2 loss 2 peerwnd 2 peer_answer 2 overflow 2 ack $((${SUM[stall.count]} + 10))
}

# part_of KEY NAME DIRECTORY: the rows there are those of KEY whose name begins with NAME.
part_of() {
	run -0 python3 -c 'import json, sys
key, name, part = sys.argv[1:]
rows = lambda where: json.load(open(where + "/rows"))["losses"]
wanted = [row for row in rows(key) if row["name"].startswith(name)]
assert wanted and rows(part) == wanted, f"{rows(part)}\nexpected: {wanted}"' "$@"
}

@test "by peer, by connection and by process, all and some: five programs watch the same traffic" {
	local key tops=()
	for key in peer socket comm 'peer --peer ::1' 'comm --comm python3'; do
		mkdir "$key"
		cd "$key" || return
		# shellcheck disable=SC2086 # options
		above --json --interval "$(slower 40)" --key $key
		tops+=("$topper")
		cd .. || return
	done
	every_event
	wait "${tops[@]}"
	topper=''
	same instances "$(instances)" ''
	part_of peer ::1 'peer --peer ::1'
	part_of comm python3 'comm --comm python3'
	by peer
	assert_equal "$(sort <<<"$NAMES" | xargs)" '0.0.0.0 127.0.0.1 :: ::1'
	by socket
	# A listener has no peer.
	run -0 grep -vE '^[0-9]+ > (0\.0\.0\.0|::|(127\.0\.0\.1|\[::1\]):[0-9]+)$' <(echo x; echo "$NAMES")
	assert_output x
	by comm
}

@test "by local port; a server's is the one it was given" {
	above --json --interval "$(slower 10)" --key port
	"$TRAFFIC" http -n 10 --port 7777 --settle >/dev/null
	ended
	run -0 python3 -c 'import json
print([row["nagle"]["count"] for row in json.load(open("rows"))["losses"] if row["local_port"] == 7777])'
	assert_output "[$(counter sndhold/nagle)]"
}

@test "more connections than a histogram has room for: dropped is how many were left out" {
	local found dropped
	above --json --interval "$(slower 20)" --key socket
	# Held, so that each has a port of its own.
	"$PORTS" "connect 9000 hold" >/dev/null
	ended
	run -0 python3 -c 'import json
top = json.load(open("rows"))
print(sum(row["port"]["count"] for row in top["losses"]), top["dropped"])'
	read -r found dropped <<<"$output"
	same "found and dropped" $((found + dropped)) "$(counter portsearch/searches)"
	same "found" "$found" 8192
}

@test "by network namespace and by cgroup" {
	local inner=$'tcplat-test/in\e[2J\t\xffner'
	veth_pair delay 1ms
	above --json --interval "$(slower 10)" --key netns
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	between wwr 10.9.0.2 -n 5
	ended
	read_rows
	assert_equal "$(sort <<<"$NAMES" | xargs)" '(own) in netns tcplat-a in netns tcplat-b'

	cgroups
	mkdir -p "/sys/fs/cgroup/$inner"
	above --json --interval "$(slower 10)" --key cgroup
	in_cgroup "$inner" "$TRAFFIC" wwr -n 5 --settle >/dev/null
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	ended
	rmdir "/sys/fs/cgroup/$inner" /sys/fs/cgroup/tcplat-test
	read_rows
	assert_equal "$(sort <<<"$NAMES")" $'?\nin cgroup /tcplat-test/in\\x1b[2J\\x09\\xffner'
}

# Starts a connection that always waits.
# shellcheck disable=SC2034 # tidy uses it
stalling() {
	"$TRAFFIC" wwr -n 100000 --timeout 86400 >/dev/null 2>&1 3>&- &
	background=$!
}

@test "tables, one after the other" {
	local before seconds=1
	# Reading the histograms takes seconds there.
	! on_debug || seconds='([89]|1[0-9])'
	stalling
	# Its connection is older than top's first interval.
	before=$(counter sndhold/nagle)
	holding() { (($(counter sndhold/nagle) > before)); }
	soon holding
	run -0 "$TCPLAT" top --batch --count 3 --interval "$(slower 1)"
	assert_equal "$(grep -cE "^tcplat top: [0-9:]*, ms lost in each second, over $seconds\.[0-9] s, by peer: 1\$" <<<"$output")" 3
	assert_equal "$(grep -cE '^ +SUM +STALL +ACK +NAGLE +PEER$' <<<"$output")" 3
	# It loses nearly a second per second, seen from both ends.
	assert_equal "$(grep -cE '^ +(9|10)[0-9]{2}\.[0-9] +(9|10)[0-9]{2}\.[0-9] +(9|10)[0-9]{2}\.[0-9] +(9|10)[0-9]{2}\.[0-9]  127\.0\.0\.1$' <<<"$output")" 3
}

@test "on a terminal of 80x24: a table, and q ends it" {
	[[ -e /dev/pts/ptmx ]] || { mkdir -p /dev/pts && mount -t devpts devpts /dev/pts; }
	stalling
	run python3 - "$TCPLAT" <<-'END'
		import fcntl, os, pty, re, select, signal, struct, sys, termios, time
		pid, fd = pty.fork()
		if not pid:
		    os.environ["TERM"] = "xterm"
		    os.execv(sys.argv[1], ["tcplat", "top", "-i", "1"])
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
		seen, quit = b"", False
		end = time.time() + 300
		while time.time() < end:
		    if select.select([fd], [], [], 0.2)[0]:
		        try:
		            seen += os.read(fd, 65536)
		        except OSError:
		            break
		    if b"127.0.0.1" in seen and not quit:
		        os.write(fd, b"q")
		        quit = True
		if not quit:
		    os.kill(pid, signal.SIGKILL)
		print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
		print("cleared", b"\x1b[?1049h" in seen and b"\x1b[?1049l" in seen)
		print(re.sub(rb"\x1b[\[(][0-9;?]*[A-Za-z]", b" ", seen).decode("utf-8", "replace"))
	END
	assert_success
	assert_line 'status 0'
	assert_line 'cleared True'
	assert_output --partial 'tcplat top:'
	assert_output --partial 'PEER'
	same instances "$(instances)" ''
}

@test "nothing is left: SIGINT, SIGTERM, a reader that has gone, SIGKILL and the next start" {
	local signal
	for signal in INT TERM HUP; do
		above --batch --interval 60
		kill -"$signal" "$topper"
		ended
	done
	"$TCPLAT" top --batch --interval 0.2 2>errors | head -n 1 >first
	same instances "$(instances)" ''
	above --batch --interval 60
	stays_loaded
	killed "$topper" top
	run -0 "$TCPLAT" top --batch --interval 0.1 --count 1
	same instances "$(instances)" ''
	rmmod tcplat
}
