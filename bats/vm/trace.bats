#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The tracepoints, compared with the groups' counters, which other tests compare with the kernel's,
# and with what the kernel reports about the sockets. Only this checks every field of the
# tracepoints.

load ../loaded
load ../ports

EVENTS=$TRACING/events/tcplat

setup() {
	untraced
	loaded || load_module
	mkdir "$INSTANCE"
	quiet
	inode=$(stat -L -c %i /proc/self/ns/net)
}

teardown() {
	ip route change local 127.0.0.1 dev lo table local
	tidy
}

# ---- reading ----

# traced EVENT COMMAND...: resets the counters, runs COMMAND, and saves the event's lines as
# key=value pairs in a file with the event's name.
traced() {
	local event=$1
	shift
	echo >"$INSTANCE/trace"
	reset_counters
	echo 1 >"$INSTANCE/events/tcplat/$event/enable"
	"$@"
	quiet
	echo 0 >"$INSTANCE/events/tcplat/$event/enable"
	sed -n "s/.* $event: //p" "$INSTANCE/trace" >"$BATS_TEST_TMPDIR/$event"
	head -n 2 "$BATS_TEST_TMPDIR/$event"
}

# total EVENT KEY: prints the sum of KEY over the event's lines.
total() {
	awk -v key="$2" '
		{ for (i = 1; i <= NF; i++) if (index($i, key "=") == 1) sum += substr($i, length(key) + 2) }
		END { printf "%d\n", sum }' "$BATS_TEST_TMPDIR/$1"
}

# lines EVENT [PAIR]: prints the number of lines, or of those with PAIR.
lines() { awk -v pair="${2-}" '!pair || index(" " $0 " ", " " pair " ")' "$BATS_TEST_TMPDIR/$1" | wc -l; }

# us EVENT KEY: prints the sum of KEY, in jiffies, over the event's lines, each converted to us.
us() {
	local hz
	counter_into hz clock/hz
	awk -v hz="$hz" -v key=".* $2=" '
		{ sub(key, ""); sum += int($1 * 1000000 / hz) }
		END { print sum + 0 }' "$BATS_TEST_TMPDIR/$1"
}

# assert_sockets EVENT FAMILY ADDRESS NETNS: all lines are of such sockets, between two ports of
# ADDRESS.
assert_sockets() {
	finds_nothing -vE "^netns=$4 family=$2 saddr=$3:[1-9][0-9]* daddr=$3:[1-9][0-9]* cookie=[0-9a-f]+ cgroup=[0-9]+ " \
		"$BATS_TEST_TMPDIR/$1"
}

# ---- each event ----

# family 4|6: sets family and address to what events show.
family() {
	family=inet address='127\.0\.0\.1'
	[[ $1 == 4 ]] || { family=inet6 address='\[::1\]'; }
}

delack_timeout() {
	family "$1"
	echo 1 >"$INSTANCE/events/timer/timer_start/enable"
	traced delack_timeout traffic wwr "-$1" -n 20 "${PACED[@]}"
	echo 0 >"$INSTANCE/events/timer/timer_start/enable"
	same timeouts "$(lines delack_timeout)" "$(counter delack/timeouts)"
	(($(lines delack_timeout) >= 15)) || fail "hardly any"
	same pingpong "$(lines delack_timeout mode=pingpong)" "$(counter delack/timeouts_pingpong)"
	same jiffies "$(total delack_timeout delay_jiffies)" "$(counter delack/delay_jiffies)"
	same us "$(total delack_timeout delay_us)" "$(us delack_timeout delay_jiffies)"
	same late "$(total delack_timeout late_jiffies)" "$(counter delack/late_jiffies)"
	# The kernel has set the timer as far ahead as the event says was asked for, or, if a tick came
	# between the data and the timer, a jiffy less. The rest is lateness.
	sed -nE 's/.* (delack_timeout): //p
		s/.* timer_start: .*function=tcp_delack_timer .*timeout=([0-9]+)[] ].*/set \1/p' \
		"$INSTANCE/trace" | awk '
		/^set / { set[$2]++; next }
		{ for (i = 1; i <= NF; i++) if (split($i, pair, "=") == 2) value[pair[1]] = pair[2] }
		{ asked = value["asked_jiffies"]; n++ }
		!set[asked] && !set[asked - 1] || !value["late_jiffies"] ||
		value["delay_jiffies"] != asked + value["late_jiffies"] { print; bad = 1 }
		{ if (set[asked]) set[asked]--; else set[asked - 1]-- }
		END { print n + 0, "timers"; exit bad || !n }'
	assert_sockets delack_timeout "$family" "$address" "$inode"
}

@test "delack_timeout" { each_family delack_timeout; }

# Sockets with stalls are the server's, and each stall is also a timeout.
ack_stall() {
	local hz port=7123
	family "$1"
	counter_into hz clock/hz
	echo 1 >"$INSTANCE/events/tcplat/delack_timeout/enable"
	traced ack_stall traffic wwr "-$1" -n 20 "${PACED[@]}" --port "$port"
	echo 0 >"$INSTANCE/events/tcplat/delack_timeout/enable"
	sed -n "s/.* delack_timeout: //p" "$INSTANCE/trace" >"$BATS_TEST_TMPDIR/delack_timeout"
	same stalls "$(lines ack_stall)" "$(counter delack/stalls)"
	(($(lines ack_stall) >= 10)) || fail "hardly any"
	same us "$(($(total ack_stall stall_jiffies) * 1000000 / hz))" "$(counter delack/stall_us)"
	same us "$(total ack_stall stall_us)" "$(us ack_stall stall_jiffies)"
	assert_sockets ack_stall "$family" "$address" "$inode"
	same "the server's" "$(grep -c "saddr=$address:$port daddr=" "$BATS_TEST_TMPDIR/ack_stall")" \
		"$(lines ack_stall)"
	# A stall follows its timeout, on the same socket, and is as long, give or take a tick.
	sed -nE 's/.* (delack_timeout|ack_stall): (.*cgroup=[0-9]+) .*(delay|stall)_jiffies=([0-9]+) .*/\1 \4 \2/p' \
		"$INSTANCE/trace" | awk '
		{ jiffies = $2; event = $1; $1 = $2 = "" }
		event == "delack_timeout" { late[$0] = jiffies; next }
		!($0 in late) || jiffies - late[$0] > 1 || late[$0] - jiffies > 1 { print "stall", jiffies, $0; bad = 1 }
		{ n++; delete late[$0] }
		END { print n, "stalls"; exit bad || n < 10 }' ||
			fail "a stall has no matching timeout"
}

@test "ack_stall" { each_family ack_stall; }

# pieces US: sends ten requests in two pieces; the receiver sets TCP_DELACK_MAX_US to US, unless
# that is 0. Returns 3 if this kernel does not have the option.
pieces() {
	python3 - "$1" "${PACED[@]}" <<-'END'
		import socket, sys, time
		listener = socket.create_server(("127.0.0.1", 0))
		c = socket.create_connection(listener.getsockname())
		s = listener.accept()[0]
		if int(sys.argv[1]):
		    try:
		        s.setsockopt(socket.IPPROTO_TCP, 46, int(sys.argv[1]))
		    except OSError:
		        sys.exit(3)
		for _ in range(60 if sys.argv[2:] else 10):
		    if sys.argv[2:]:
		        time.sleep(0.008)
		    c.send(b"x")
		    c.send(b"y")
		    for _ in range(2):
		        s.recv(1)
		    s.send(b"z")
		    c.recv(1)
	END
}

# asked_for JIFFIES WHAT COMMAND...: nearly all of ten timeouts have this delay, an upper bound of
# what the kernel asks for; a tick may come in between.
asked_for() {
	traced delack_timeout "${@:3}"
	(($(lines delack_timeout) >= 8 && $(lines delack_timeout "asked_jiffies=$1") >= 7)) ||
		fail "$2: the delay is not $1 jiffies"
	echo "# $2: $1 jiffies" >&3
}

@test "delack_timeout of data that nobody has read" {
	traced delack_timeout traffic oneway -n 30 --interval 100 --hold 65
	same unread "$(lines delack_timeout unread=1)" "$(counter delack/timeouts_unread)"
	(($(counter delack/timeouts_unread) >= 8)) || fail "hardly any"
}

# Documentation/guide/hz.md
@test "delack_timeout: what shortens the delay that is asked for" {
	local hz sysctl=/proc/sys/net/ipv4/tcp_rto_min_us tried=''
	counter_into hz clock/hz
	# With nothing set, HZ/25 is a lower bound: data that comes late raises the ACK timeout.
	traced delack_timeout pieces 0
	(($(lines delack_timeout) >= 8)) || fail "hardly any"
	sed 's/.*asked_jiffies=//' "$BATS_TEST_TMPDIR/delack_timeout" |
		awk -v least=$((hz / 25)) '$1 < least { bad = 1 } END { exit bad }' ||
		fail "less than $((hz / 25)) jiffies although nothing is set"
	if pieces 20000; then
		asked_for $((hz / 50)) "TCP_DELACK_MAX_US" pieces 20000
		tried=1
	fi
	# Kernels with the sysctl also use the route's rto_min.
	if [[ -e $sysctl ]]; then
		set_meanwhile "$sysctl" 20000
		asked_for $((hz / 50 - 1)) "tcp_rto_min_us" pieces 0
		echo 200000 >"$sysctl"
		ip route change local 127.0.0.1 dev lo table local rto_min 20ms
		asked_for $((hz / 50 - 1)) "a route with rto_min" pieces 0
		ip route change local 127.0.0.1 dev lo table local
		tried=1
	fi
	[[ $tried ]] || skip "this kernel has no setting that shortens it"
}

quickacks_and_timeouts() {
	traffic rr "-$1" -n 20 --quickack 1
	traffic wwr "-$1" -n 5 "${PACED[@]}"
}

# Each line of transitions with a count has as many events.
ack_mode() {
	family "$1"
	traced ack_mode quickacks_and_timeouts "$1"
	awk '{
		for (i = 1; i <= NF; i++) {
			split($i, word, "=")
			value[word[1]] = word[2]
		}
		n[value["from"] " " value["mode"] " " value["cause"]]++
	}
	END { for (change in n) print change, n[change] }' "$BATS_TEST_TMPDIR/ack_mode" |
		sort >"$BATS_TEST_TMPDIR/events"
	awk '!/^#/ && NF == 4 && $4' "$DEBUG/transitions" | sort | diff - "$BATS_TEST_TMPDIR/events"
	(($(lines ack_mode) > 20)) || fail "hardly any"
	assert_sockets ack_mode "$family" "$address" "$inode"
}

@test "ack_mode" { each_family ack_mode; }

# search_of FAMILY EVENT COMMAND...: traces a command of the program, for which there are 40 ports.
search_of() {
	stop_ports
	quiet
	set_meanwhile "$RANGE" "20000 20039"
	start_ports "-$1"
	traced "$2" ask "${@:3}"
	set_back
}

port_search() {
	search_of "$1" port_search connect 60 hold
	same searches "$(lines port_search)" 60
	same searches "$(lines port_search)" "$(counter portsearch/searches)"
	same exhausted "$(lines port_search error=-99)" 20
	same exhausted "$(lines port_search error=-99)" "$(counter portsearch/exhausted)"
	same unverified "$(lines port_search iterations=0)" "$(counter portsearch/unverified)"
	same iterations "$(total port_search iterations)" "$(counter portsearch/iterations)"
	same time "$(total port_search time_ns)" "$(counter portsearch/time_ns)"
	# Port and cookie equal what the kernel reports for the connections.
	ss -Htne state established "sport >= 20000 and sport <= 20039" |
		sed -nE 's/^.*:(200[0-3][0-9]) .* sk:([0-9a-f]+).*/\1 \2/p' | sort >"$BATS_TEST_TMPDIR/ss"
	sed -nE 's/.* saddr=[^ ]*:([0-9]+) .* cookie=([0-9a-f]+) .* error=0 bound=0$/\1 \2/p' \
		"$BATS_TEST_TMPDIR/port_search" | sort >"$BATS_TEST_TMPDIR/ports"
	same connections "$(wc -l <"$BATS_TEST_TMPDIR/ports")" 40
	diff "$BATS_TEST_TMPDIR/ss" "$BATS_TEST_TMPDIR/ports"
}

bind_search() {
	family "$1"
	search_of "$1" bind_search bind0 60
	same searches "$(lines bind_search)" "$(counter bindsearch/searches)"
	same exhausted "$(lines bind_search error=-98)" "$(counter bindsearch/exhausted)"
	same "bound, exhausted" "$(lines bind_search error=0) $(lines bind_search error=-98)" "40 20"
	same time "$(total bind_search time_ns)" "$(counter bindsearch/time_ns)"
	same ports "$(sed -nE "s/.* family=$family saddr=[^ ]*:(200[0-3][0-9]) .* error=0\$/\1/p" \
		"$BATS_TEST_TMPDIR/bind_search" | sort -u | wc -l)" 40
}

@test "bind_search" { each_family bind_search; }
@test "port_search" { each_family port_search; }

snd_wait() {
	family "$1"
	traced snd_wait traffic full "-$1" -n 2 -c 3 --interval 150 --hold 600
	same waits "$(lines snd_wait)" "$(counter sndwait/waits)"
	same slept "$(lines snd_wait kind=slept)" "$(lines snd_wait)"
	same timeouts "$(lines snd_wait error=-11)" 6
	same timeouts "$(lines snd_wait error=-11)" "$(counter sndwait/timeouts)"
	same time "$(total snd_wait time_ns)" "$(counter sndwait/time_ns)"
	assert_sockets snd_wait "$family" "$address" "$inode"
}

@test "snd_wait" { each_family snd_wait; }

# The held data's writer is the client, whose name is traffic.
snd_hold() {
	family "$1"
	traced snd_hold traffic wwr "-$1" -n 20 "${PACED[@]}" -s 300
	same holds "$(lines snd_hold)" "$(counter sndhold/nagle)"
	(($(lines snd_hold) >= 18)) || fail "hardly any"
	same nagle "$(lines snd_hold cause=nagle)" "$(counter sndhold/nagle)"
	same time "$(total snd_hold time_ns)" "$(counter sndhold/nagle_time_ns)"
	same bytes "$(total snd_hold bytes)" $((150 * $(lines snd_hold)))
	same writers "$(lines snd_hold comm=traffic)" "$(lines snd_hold)"
	same processes "$(sed 's/.* pid=//; s/ .*//' "$BATS_TEST_TMPDIR/snd_hold" | sort -u | wc -l)" 1
	assert_sockets snd_hold "$family" "$address" "$inode"
}

# A program's name is the name of its file.
@test "snd_hold: bytes of the writer's name that are not printable are shown as '?'" {
	local TRAFFIC=$TRAFFIC name=$'t\e[7m\n\t\xff\xc3\xa9\x7f"\\' event=$INSTANCE/events/tcplat/snd_hold
	cp "$TRAFFIC" "$BATS_TEST_TMPDIR/$name"
	TRAFFIC=$BATS_TEST_TMPDIR/$name
	echo 'hist:keys=comm' >"$event/trigger"
	traced snd_hold traffic wwr -4 -n 5
	same writers "$(lines snd_hold $'comm=t?[7m??????"\\')" "$(lines snd_hold)"
	(($(lines snd_hold) >= 3)) || fail "hardly any"
	run cat "$event/hist"
	echo '!hist:keys=comm' >"$event/trigger"
	assert_line --regexp '^\{ comm: t\?\[7m\?\?\?\?\?\?"\\ +\} hitcount: +[1-9]'
}

@test "snd_hold" { each_family snd_hold; }

snd_wait_again() {
	family "$1"
	traced snd_wait traffic again "-$1" --again leave -c 5 --sndbuf 16384 --hold 200 --interval 1000
	same "given up" "$(lines snd_wait kind=gave_up)" 5
	same "given up" "$(counter sndwait/again_gave_up)" 5
	traced snd_wait traffic again "-$1" --sndbuf 16384
	(($(lines snd_wait) > 20)) || fail "hardly any"
	same waits "$(lines snd_wait kind=again)" "$(lines snd_wait)"
	same waits "$(lines snd_wait error=-11)" "$(lines snd_wait)"
	same waits "$(lines snd_wait)" "$(counter sndwait/again)"
	same time "$(total snd_wait time_ns)" "$(counter sndwait/again_time_ns)"
	assert_sockets snd_wait "$family" "$address" "$inode"
}

@test "snd_wait of a sender that does not block" { each_family snd_wait_again; }

# In another namespace, whose inode the events show.
idle_restart() {
	local lost family=inet client='10\.9\.0\.1' address='10\.9\.0\.2'
	[[ $1 == 4 ]] || family=inet6 client='\[fd09::1\]' address='\[fd09::2\]'
	traced idle_restart between idle "${SERVER[$1]}" -n 2 --interval 1500
	same restarts "$(lines idle_restart)" "$(counter idlerestart/restarts)"
	((lost = $(total idle_restart cwnd_before) - $(total idle_restart cwnd)))
	same lost "$lost" "$(counter idlerestart/cwnd_lost)"
	same jiffies "$(total idle_restart idle_jiffies)" "$(counter idlerestart/idle_jiffies)"
	same us "$(total idle_restart idle_us)" "$(counter idlerestart/idle_us)"
	inode=$(stat -L -c %i /run/netns/tcplat-a)
	# One event per idle time, perhaps one more if the machine stood still.
	(($(grep -cE "^netns=$inode family=$family saddr=$client:[0-9]+ daddr=$address:7000 " \
		"$BATS_TEST_TMPDIR/idle_restart") >= 2)) || fail "no events of the client's socket"
}

@test "idle_restart" {
	veth_pair delay 20ms
	each_family idle_restart
}

# Events have no pointers as fields, and print none.
@test "no event shows an address of the kernel's" {
	finds_nothing -E 'field:.*\*' "$EVENTS"/*/format
	finds_nothing -E '%[0-9]*p([^I]|$)' "$EVENTS"/*/format
	assert_equal "$(printf '%s\n' "$EVENTS"/*/format | xargs -n 1 dirname | xargs -n 1 basename | xargs)" \
		'accept_wait ack_mode ack_stall bind_search delack_timeout idle_restart late_answer listen_overflow loss port_search snd_hold snd_wait window_wait'
}

# ---- unloading ----

@test "the module cannot be unloaded while a tracepoint is enabled or has a trigger" {
	local event events=("$INSTANCE"/events/tcplat/*/)
	for event in "${events[@]}"; do
		echo 1 >"$event/enable"
		stays_loaded
		echo 0 >"$event/enable"
	done
	((${#events[@]} == 13))
	echo 'hist:keys=netns' >"$INSTANCE/events/tcplat/snd_wait/trigger"
	stays_loaded
	# Removing the instance removes what is set in it, by whomever.
	echo 1 >"$INSTANCE/events/tcplat/enable"
	rmdir "$INSTANCE"
	unload_module
	[[ ! -d $EVENTS ]]
	assert_no_splat
	load_module
	mkdir "$INSTANCE"
	assert_equal "$(cat "$INSTANCE"/events/tcplat/*/enable | sort -u)" 0
}
