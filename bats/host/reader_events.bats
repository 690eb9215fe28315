#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# top, trace and doctor's whose on a tracefs of files, where events have any names, and the screen.
# Only this has processes, cgroups, pods and namespaces with names that attack, and runs show on
# terminals.
#
# shellcheck disable=SC2153,SC2154 # run --separate-stderr sets stderr, stderr_lines; EVIL is a helper's
# shellcheck disable=SC2030,SC2031 # each test has its own output
# shellcheck disable=SC2317 # steps are called by name

load reader_helpers

# A module whose groups all count, and what an instance of tracefs is made of.
setup() {
	untraced
	enter_work_dir
	make_live_tree ack_stall delack_timeout ack_mode port_search snd_wait snd_hold idle_restart new_event
}

# plus GROUP/FILE N: adds N to the counter.
plus() { set_to "$1" $(($(<"$T/$1") + $2)); }

# fails NETNS: connect() fails 20 times there, by the process 4242.
fails() {
	plus portsearch/exhausted 20
	hist port_search common_pid.execname,netns,peer '' 'error != 0 && bound == 0' \
		"$(entry 20 '' common_pid=curl/4242 netns="$1" peer=10.9.0.1)"
}

# traced [ARGUMENT...]: runs tcplat trace, and leaves its calls of open() and write() in the file log.
traced() { strace_tcplat openat,write trace -t 0.1 "$@" >/dev/null 2>&1 || :; }

# trace_here [ARGUMENT...]: runs tcplat trace on the instance's file.
trace_here() { with_fault A=b trace "$@"; }

# event_line COMM PID TIME TEXT: the kernel's text of an event.
# With TGID=1, as the option record-tgid has it.
event_line() {
	local tgid=''
	[[ ! ${TGID-} ]] || printf -v tgid '(%7d) ' "$2"
	printf '%16s-%-7d %s[001] d.h2. %s: %s\n' "$1" "$2" "$tgid" "$3" "$4"
}

HOLD='snd_hold: netns=4026531840 family=inet saddr=10.9.0.1:80 daddr=10.9.0.2:5555 cookie=1f cgroup=1 cause=nagle time_ns=43000000 bytes=10 pid=77 comm='

@test "names that attack: top, for the terminal and as JSON" {
	step_1() {
		hist snd_hold comm,pid time_ns '(cause == 1)' "$(for name in "${EVIL[@]}"; do
			entry 5 time_ns=5000000 comm="$name" pid=77
		done)"
	}
	run -0 with_steps top -k comm -c 1 --batch
	is_whole
	assert_equal "$(grep -c ' (77)$' <<<"$output")" 5
	assert_line --regexp '^ +2.5 +2.5  \\x1b\]0;own\\x07 \(77\)$'
	assert_line --regexp '  a\\x0a\} hitcount: 9 \(77\)$'
	assert_line --regexp '  b\\x09c, pid: 1 \} \(77\)$'
	assert_line --regexp '  d\\xff\\xfe\\xc2\\x9b31m \(77\)$'
	run -0 with_steps top -k comm -c 1 --json
	assert_equal "${#lines[@]}" 1
	run -0 json '{(x["pid"], *x["nagle"].values()) for x in d["losses"]}, *(x["comm"] for x in d["losses"])'
	assert_output --partial '{(77, 5, 5000000)} '
	assert_output --partial ' \x1b]0;own\x07 '
	assert_equal "$(ls sys/kernel/tracing/instances)" ''
}

@test "names that attack: trace, in a line and as JSON; no line can be forged" {
	local name n=0
	for name in "${EVIL[@]}"; do
		event_line "$name" 9 12.00000$((n++)) "$HOLD$name" >>instance/trace_pipe
	done
	# A name that looks like an event of another process, as long as a name can be.
	TGID=1 event_line $'x\n a-1 [000] d' 5 13.000000 "${HOLD}ok" >>instance/trace_pipe
	run -0 --separate-stderr trace_here -t 0.1
	assert_equal "$stderr" ''
	is_whole
	run -0 trace_here -t 0.1 --json
	((${#lines[@]} >= 5))
	refute_output --partial '"pid":1,'
	for name in "${lines[@]}"; do
		assert_equal "$(json 'd["event"], d["who"]["pid"], d["time_ns"]' "$name")" 'snd_hold 77 43000000'
	done
}

@test "trace: events are in order of time, however long reading the clocks takes" {
	local n
	for ((n = 0; n < 40; n++)); do
		event_line bash 42 "12.0000$((n + 10))" "${HOLD}ok" >>instance/trace_pipe
	done
	run -0 env FAULT_SLOW_CLOCK=1 LD_PRELOAD="$READER_DIR/faults.so" "$READER_DIR/tcplat" trace -t 0.1 --json --root sys
	run -0 sed 's/.*"time_unix_ns":\([0-9]*\).*/\1/' <<<"$output"
	assert_equal "${#lines[@]}" 40
	sort -nc <<<"$output"
}

@test "names that attack: network namespaces, in top's keys, trace and doctor" {
	local evil=$'a\e[2J\n\t\xff"x'
	mkdir -p proc/50/ns proc/sys/net/ipv4
	touch proc/50/ns/net
	ln proc/50/ns/net "run/netns/$evil"
	stat -c %i proc/50/ns/net >ns
	step_1() {
		hist snd_hold netns time_ns '(cause == 1)' "$(entry 5 time_ns=5000000 netns="$(<ns)")"
		fails "$(<ns)"
	}
	run -0 with_steps top -k netns -c 1 --batch
	is_whole
	assert_line --regexp '  a\\x1b\[2J\\x0a\\x09\\xff"x$'
	run -0 with_steps top -k netns -c 1 --json
	assert_equal "$(json '*[x["netns"] for x in d["losses"]]')" 'a\x1b[2J\x0a\x09\xff"x'
	run -0 with_steps doctor
	is_whole
	words 'curl (4242) 10.9.0.1 in netns a\x1b[2J\x0a\x09\xff"x: 20 times'
	event_line bash 42 12.345678 "${HOLD/4026531840/$(<ns)}ok" >instance/trace_pipe
	run -0 trace_here -t 0.1
	is_whole
	assert_output --partial 'in netns a\x1b[2J\x0a\x09\xff"x'
}

@test "trace: the fields of an event, who, which, filters for the kernel, and what was lost" {
	local n by
	{
		TGID=1 event_line bash 42 12.345678 'port_search: netns=4026531840 family=inet6 saddr=[::1]:5 daddr=[::1]:6 cookie=aa cgroup=1 iterations=3 time_ns=1500 error=-99'
		event_line '<...>' 43 12.345679 'snd_wait: netns=1 family=inet saddr=1.2.3.4:5 daddr=1.2.3.5:6 cookie=ab cgroup=1 time_ns=2000000 error=0 kind=slept'
		event_line '<idle>' 0 12.345680 'snd_wait: netns=1 family=inet saddr=1.2.3.4:5 daddr=1.2.3.5:6 cookie=ab cgroup=1 time_ns=2000000 error=0 kind=again'
		event_line '<idle>' 0 12.345681 'new_event: netns=1 family=inet saddr=1.2.3.4:5 daddr=1.2.3.5:6 cookie=ab cgroup=1 wait_us=7 things=3'
		event_line '<idle>' 0 12.345681 'late_answer: netns=1 family=inet saddr=1.2.3.4:5 daddr=1.2.3.5:6 cookie=ab cgroup=1 time_ns=2000000 kind=peer'
		echo "${HOLD/#/    a b-1     [000] d..1. 12.345682: }a b"
		printf 'CPU:%s EVENTS]\n' '0 [LOST 12' '1 [LOST'
	} >instance/trace_pipe
	mkdir -p proc/43
	echo sleeper >proc/43/comm
	run -1 --separate-stderr trace_here -t 0.1
	assert_error '12 or more events were lost because they came too fast; name events or use a filter'
	assert_equal "$(cut -d ' ' -f 2- <<<"$output" | tr -s ' ')" "\
port_search [::1]:5 > [::1]:6 1.5 us iterations=3 error=-99 bash (42) in netns 4026531840
snd_wait 1.2.3.4:5 > 1.2.3.5:6 2 ms error=0 kind=slept sleeper (43) in netns 1
snd_wait 1.2.3.4:5 > 1.2.3.5:6 2 ms error=0 kind=again in netns 1
new_event 1.2.3.4:5 > 1.2.3.5:6 7 us things=3 in netns 1
late_answer 1.2.3.4:5 > 1.2.3.5:6 2 ms kind=peer in netns 1
snd_hold 10.9.0.1:80 > 10.9.0.2:5555 43 ms cause=nagle bytes=10 a b (77) in netns 4026531840"
	run -1 --separate-stderr trace_here -t 0.1 -j -c 1
	assert_equal "${#lines[@]}" 1
	assert_line --partial '"event":"port_search","saddr":"[::1]:5","daddr":"[::1]:6","time_ns":1500,"iterations":3,"error":-99,"cookie":170,"who":{"name":"bash (42) in netns 4026531840","comm":"bash","pid":42'
	# What a process whose name has a newline may add.
	printf '%s\n' 'CPU:1 [LOST 99-42      [000] d..1. 12.345683: x: y' 'CPU:1 [LOST EVENTS]-42 ' \
		>instance/trace_pipe
	prints '' trace_here -t 0.1
	# What comes after the last event that was asked for is not read, as events may never pause.
	{
		for n in {1..40}; do event_line bash 42 12.345678 "${HOLD}ok"; done
		echo 'CPU:0 [LOST 12 EVENTS]'
	} >instance/trace_pipe
	run -0 --separate-stderr trace_here -c 3
	assert_equal "${#lines[@]}" 3
	# Each event is enabled by itself, and never all of the kernel's.
	traced
	assert_equal "$(sed -nE 's|.*/events/(.*)/enable", O_WRONLY.O_CLOEXEC.*|\1|p' log | sort | xargs)" \
		'tcplat/ack_stall tcplat/delack_timeout tcplat/idle_restart tcplat/new_event tcplat/port_search tcplat/snd_hold tcplat/snd_wait'
	# The filters that the kernel gets.
	kernel_gets() {
		traced "$@"
		sed -nE 's/.*write\([0-9]+, "(.*)", [0-9]+\).*/\1/p' log | grep -vE '^(1|[a-z-]+|tcplat: .*)$' | sort -u | tr -d \\\\
	}
	assert_equal "$(kernel_gets delack -p 10.9.0.2 -P 80)" '(peer == "10.9.0.2" || peer == "::ffff:10.9.0.2") && (sport == 80 || dport == 80)'
	assert_equal "$(kernel_gets snd_hold -C 'a b' -T 7)" '(comm == "a b") && (pid == 7)'
	assert_equal "$(kernel_gets snd_wait -m 5 -T 7)" '(kind == 0) && (common_pid == 7) && (time_ns >= 5000000)'
	# Searches that fail take little time.
	mkdir instance/events/tcplat/bind_search
	touch instance/events/tcplat/bind_search/{enable,filter}
	echo armed >"$T/bindsearch/status"
	assert_equal "$(kernel_gets bind_search -C nginx)" '(comm == "nginx")'
	assert_equal "$(kernel_gets idle_restart -p FE80:0::1)" '(peer == "fe80::1")'
	mkdir -p sys/fs/cgroup/x/y
	assert_regex "$(kernel_gets idle_restart -G x)" '^\(cgroup == [0-9]+ \|\| cgroup == [0-9]+\)$'
	assert_equal "$(kernel_gets delack_timeout -m 5 -p '0:0::*' -N 4026531999)" '(peer ~ "0:0::*") && (netns == 4026531999) && (delay_us >= 5000)'
	# Names may be numbers, also those of a process or a namespace.
	mkdir -p run/netns proc/{42,43}/ns
	touch run/netns/{42,20261101} proc/{42,43}/ns/net
	for by in run/netns/42 run/netns/20261101 proc/43/ns/net; do
		assert_equal "$(kernel_gets delack_timeout -N "$(tr -cd 0-9 <<<"$by")")" "(netns == $(stat -c %i $by))"
	done
	prints -2 'tcplat: ack_stall: its events have no process' trace_here ack_stall -C x
	prints -2 'tcplat: idle_restart: its events have no duration' trace_here idle_restart -m 5
	prints -2 "tcplat: no tracepoint matches 'nothing'" trace_here nothing
	# A counter that cannot be read keeps nothing from being followed.
	event_line bash 42 12.345678 "${HOLD}ok" >instance/trace_pipe
	echo x >"$T/delack/timeouts"
	run -1 trace_here snd_hold -t 0.1
	assert_line --partial 'cause=nagle'
	echo 0 >"$T/delack/timeouts"
	echo off >"$T/delack/status"
	run -1 trace_here delack
	assert_line 'tcplat: delack is not armed: no events of ack_stall'
	assert_line --index 2 'tcplat: no events to read'
	rm instance/trace_pipe
	mkdir sys/kernel/debug
	mv sys/kernel/tracing sys/kernel/debug
	prints -1 'tcplat: cannot open trace_pipe: No such file or directory' trace_here snd_hold
	assert_equal "$(ls sys/kernel/debug/tracing/instances)" ''
}

@test "top: columns that are empty are left out, sums, sorting, a limit; loopback counts once" {
	step_1() {
		hist ack_stall peer stall_us '' "$(entry 3 stall_us=120000 peer=::ffff:127.0.0.1)" "$(entry 2 stall_us=80000 peer=10.9.0.2)" "$(entry 1 stall_us=100000 peer='(einval)')"
		hist delack_timeout peer delay_us '' "$(entry 9 delay_us=360000 peer=127.0.0.1)" "$(entry 12 delay_us=80 peer=10.9.0.4)"
		hist snd_hold peer time_ns '(cause == 1)' "$(entry 3 time_ns=130000000 peer=127.0.0.1)"
		hist idle_restart peer '' '' "$(entry 4 '' peer=10.9.0.3)"
	}
	run -0 with_steps top -c 1 --batch
	assert_line --index 0 --regexp '^tcplat top: [0-9:]+, ms lost in each second, over 2.0 s, by peer: 5$'
	assert_equal "$(sed -n '2,$p' <<<"$output" | tr -s ' ')" "\
 SUM STALL ACK NAGLE IDLE/s PEER
 65.0 60.0 180.0 65.0 - 127.0.0.1
 50.0 50.0 - - - (einval)
 40.0 40.0 - - - 10.9.0.2
 - - <0.1 - - 10.9.0.4
 - - - - 2.0 10.9.0.3"
	run -0 with_steps top -c 1 --batch --sort idle --limit 1
	assert_line --index 2 --regexp '10.9.0.3$'
	assert_equal "${#lines[@]}" 3
	# By time, not by how many.
	run -0 with_steps top -c 1 --json --sort ack --limit 1
	assert_equal "$(json '*(x["peer"] for x in d["losses"])')" 127.0.0.1
	# A histogram that cannot be read once: the next table has both intervals, and nothing twice.
	step_2() { mv sys/kernel/tracing/instances/*/events/tcplat/ack_stall/hist .; }
	step_3() {
		mv hist sys/kernel/tracing/instances/*/events/tcplat/ack_stall
		hist idle_restart peer '' '' "$(entry 5 '' peer=10.9.0.5)"
	}
	run -1 --separate-stderr with_steps top -c 3 --json
	assert_regex "$stderr" '^tcplat: sys/[^ ]*/ack_stall/hist: No such file or directory$'
	assert_equal "${#lines[@]}" 2
	assert_equal "$(json 'd["seconds"], *(x["peer"] for x in d["losses"])' "${lines[1]}")" '4 10.9.0.5'
	echo off >"$T"/sndhold/status
	run -0 --separate-stderr with_steps top -c 1 --json
	assert_regex "$stderr" 'tcplat: sndhold is not armed: NAGLE stays empty'
	assert_equal "$(json '*(x["peer"] for x in d["losses"]), "nagle" in d["losses"][0], "mode" in d["losses"][0]')" \
		'127.0.0.1 (einval) 10.9.0.2 10.9.0.4 10.9.0.3 False False'
	step_1() { mv sys/kernel/tcplat gone; }
	prints -1 --partial 'tcplat: the module is no longer loaded' with_steps top
	mv gone sys/kernel/tcplat
	touch instance/trace_pipe
	prints -1 'tcplat: the module is no longer loaded' with_steps trace snd_wait
}

# tcp_lines ADDRESS:PORT STATE INODE...: lines of /proc/net/tcp; all but INODE in hexadecimal.
tcp_lines() {
	printf '  sl\n'
	printf '  0: %s 00000000:1234 %s 00000000:00000000 00:00000000 00000000 0 0 %s 1\n' "$@"
}

@test "doctor: whose it is: processes, namespaces, and who owns a port" {
	# Another namespace, named after its first process; its process's name attacks.
	mkdir -p proc/{50,60}/{ns,fd,net} proc/sys/net/ipv4
	touch proc/50/ns/net
	ln proc/50/ns/net proc/60/ns/net
	printf 'sh\e[2Jx\n' >proc/50/comm
	echo python3 >proc/60/comm
	ln -s 'socket:[777]' proc/60/fd/3
	ln -s 'socket:[776]' proc/50/fd/3
	# Another process has connections on the listener's port, whose lines are before and after it.
	tcp_lines 00000000:2328 01 776 00000000:2328 0A 777 00000000:2328 01 776 >proc/50/net/tcp
	stat -c %i proc/50/ns/net >ns
	# A namespace that is gone, and a listener of this one on the same port.
	mkdir -p proc/70/fd
	echo nginx >proc/70/comm
	ln -s 'socket:[778]' proc/70/fd/3
	tcp_lines 00000000:0050 0A 778 >proc/self/net/tcp
	step_1() {
		plus portsearch/searches 20
		plus listen/overflows 30
		fails "$(<ns)"
		hist listen_overflow sport,netns,cgroup '' '' "$(entry 30 '' sport=9000 netns="$(<ns)" cgroup=1)" \
			"$(entry 20 '' sport=80 netns=4026539999 cgroup=1)"
	}
	mkdir "$T"/listen instance/events/tcplat/listen_overflow
	touch instance/events/tcplat/listen_overflow/{enable,trigger,hist}
	set_all listen/status=armed listen/overflows=0
	run -0 --separate-stderr with_steps doctor
	words 'Whose: curl (4242) 10.9.0.1 in netns of sh\x1b[2Jx (50): 20 times'
	words 'Whose: python3 (60) :9000 in netns of sh\x1b[2Jx (50) cgroup 1: 30 times; :80 in netns 4026539999 cgroup 1: 20 times'
	is_whole
	# Two programs listen on a port, at different addresses; PID 1 has opened a socket for another.
	mkdir -p proc/1/fd
	echo systemd >proc/1/comm
	ln -s 'socket:[779]' proc/1/fd/3
	ln -s 'socket:[779]' proc/60/fd/4
	tcp_lines 0100007F:2329 0A 776 00000000:2329 0A 777 00000000:232A 0A 779 >>proc/50/net/tcp
	step_1() {
		plus listen/overflows 30
		hist listen_overflow sport,netns,cgroup '' '' "$(entry 30 '' sport=9001 netns="$(<ns)" cgroup=1)" \
			"$(entry 20 '' sport=9002 netns="$(<ns)" cgroup=1)"
	}
	run -0 --separate-stderr with_steps doctor
	words 'Whose: :9001 in netns of sh\x1b[2Jx (50) cgroup 1: 30 times; python3 (60) :9002 in netns of sh\x1b[2Jx (50) cgroup 1: 20 times'
	step_1() {
		plus portsearch/searches 20
		fails "$(<ns)"
	}
	# Its settings cannot be read here, so none are given, and nothing of this host is advised.
	refute_output --partial 'Settings: net.ipv4.ip_local'
	run -0 with_steps doctor --json
	assert_equal "$(json 'd["findings"][0]["rule"]')" exhausted
	assert_output --partial '"whose":[{"name":"curl (4242) 10.9.0.1 in netns of sh\\x1b[2Jx (50)","comm":"curl","pid":4242,"peer":"10.9.0.1","netns":"of sh\\x1b[2Jx (50)","netns_inode":'"$(<ns)"',"count":20}]'
	assert_equal "$(ls sys/kernel/tracing/instances)" ''
}

@test "doctor: whose it is: not who did something else, and whether both ends are here" {
	local event
	for event in ack_stall late_answer loss accept_wait; do
		mkdir -p "instance/events/tcplat/$event"
		touch "instance/events/tcplat/$event"/{enable,filter,trigger,hist}
	done
	mkdir "$T"/{answer,loss}
	step_1() {
		set_all answer/own=3 answer/own_time_ns=9000000 answer/peer=30 answer/peer_time_ns=90000000000 \
			sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=30 sndhold/peer_delay_ns=1200000000 \
			delack/stalls=30 delack/stall_us=1290000 loss/rto=6 loss/rto_time_ns=1200000000 \
			loss/syn=5 loss/syn_time_ns=15000000000
		hist late_answer common_pid.execname,netns,cgroup time_ns 'kind == 0' \
			"$(entry 3 time_ns=9000000 common_pid=nginx/77 netns=1 cgroup=1)"
		hist ack_stall peer,cgroup,netns stall_us '' \
			"$(entry 20 stall_us=860000 peer=127.0.0.1 cgroup=1 netns=1)" "$(entry 10 stall_us=430000 peer="$(<peer)" cgroup=1 netns=1)"
		hist loss peer,cgroup,netns time_ns 'kind < 3' "$(entry 6 time_ns=1200000000 peer=10.0.0.1 cgroup=1 netns=1)"
		hist loss peer,dport,netns time_ns 'kind == 3' "$(entry 5 time_ns=15000000000 peer=10.9.9.9 dport=9 netns=1)"
	}
	nothing() {
		set_all {answer,loss,sndhold,delack}/status=armed answer/{own,peer}{,_time_ns}=0 loss/{rto,tlp,fast,syn,synack}{,_time_ns}=0 \
			sndhold/{nagle,nagle_time_ns,peer_delays,peer_delay_ns,cork_timeouts}=0 delack/{stalls,stall_us}=0
	}
	nothing
	echo ::1 >peer
	run -0 with_steps doctor
	words 'Whose: 10.9.9.9:9 in netns 1: 15 s, 5 times Remedy'
	words 'Whose: 10.0.0.1 in netns 1 cgroup 1: 1.2 s, 6 times Remedy'
	words 'The receiver is on this host, too. Remedy'
	words "Peers took 10 ms or more beyond the round trip for 21 answers"
	refute_output --partial nginx
	refute_output --partial 'It was not TCP.'
	nothing
	echo 10.9.0.7 >peer
	run -0 with_steps doctor
	words 'Peers waited as often for late ACKs of this host, 1.29 s in total: these are the same waits if the receiver is on this host, too.'
	nothing
	# Nobody asks for those who sent SYN-ACKs again.
	step_1() {
		set_all loss/synack=5 loss/synack_time_ns=15000000000 loss/syn=1 loss/syn_time_ns=1000000000 listen/accept=20 listen/accept_time_ns=800000000
		hist loss peer,dport,netns time_ns 'kind == 3' "$(entry 1 time_ns=1000000000 peer=10.9.9.9 dport=443 netns=1)"
		hist accept_wait common_pid.execname,netns,cgroup time_ns '' \
			"$(entry 20 time_ns=800000000 common_pid=httpd/77 netns=1 cgroup=1)"
	}
	mkdir "$T/listen"
	set_all listen/status=armed {listen/accept,loss/synack,loss/syn}{,_time_ns}=0 listen/overflows=0
	run -0 with_steps doctor --json
	assert_equal "$(json '*((f["rule"], f.get("whose") and f["whose"][0]["comm"]) for f in d["findings"])')" "('syn', None) ('accept', 'httpd')"
}

@test "doctor: whose it is: the worst three by time, and how many more" {
	step_1() {
		set_all sndhold/nagle=18 sndhold/nagle_time_ns=1000000000
		hist snd_hold comm,pid,netns time_ns 'cause == 1' "$(entry 9 time_ns=10000000 comm=a pid=1 netns=0)" \
			"$(entry 2 time_ns=200000000 comm=b pid=2 netns=0)" "$(entry 1 time_ns=400000000 comm=c pid=3 netns=0)" \
			"$(entry 3 time_ns=300000000 comm=d pid=4 netns=0)"
		sed -i 's/Dropped: 0/Dropped: 7/' sys/kernel/tracing/instances/*/events/tcplat/snd_hold/hist
	}
	run -0 with_steps doctor
	words 'Whose: c (3): 400 ms, 1 time; d (4): 300 ms, 3 times; b (2): 200 ms, 2 times; and 1 more; others, for which there was no room: 7'
	# IPv4 and IPv6 sockets with the same peer.
	step_1() {
		set_all delack/stalls=80 delack/stall_us=3250000
		hist ack_stall peer,cgroup,netns stall_us '' "$(entry 20 stall_us=900000 peer=10.0.0.9 cgroup=0 netns=0)" \
			"$(entry 20 stall_us=850000 peer=10.0.0.8 cgroup=0 netns=0)" "$(entry 20 stall_us=800000 peer=::ffff:10.0.0.1 cgroup=0 netns=0)" \
			"$(entry 20 stall_us=700000 peer=10.0.0.1 cgroup=0 netns=0)"
	}
	set_all delack/{stalls,stall_us}=0
	run -0 with_steps doctor
	words 'Whose: 10.0.0.1: 1.5 s, 40 times; 10.0.0.9: 900 ms, 20 times; 10.0.0.8: 850 ms, 20 times'
	refute_output --partial 'and 1 more'
}

# with_sighup DEFAULT | IGNORE: starts doctor in the background, and waits until it waits.
with_sighup() {
	LD_PRELOAD=$READER_DIR/faults.so perl -e '$SIG{INT} = "DEFAULT"; $SIG{HUP} = shift; exec @ARGV' \
		"$1" "$READER_DIR/tcplat" doctor -i 600 --root sys 3>&- &
	# While the instance is being copied, SIGINT is ignored.
	asleep $!
}

@test "doctor: an ordinary user is told what it takes; a signal leaves nothing behind" {
	local command signal status event
	chmod 700 sys/kernel/tracing
	run -0 tcplat_as_user doctor -i 0.1 --root sys
	words 'whose it is (without root)'
	chmod 755 sys/kernel/tracing
	mv instance/events/tcplat none
	run -0 with_fault A=b doctor -i 0.1
	words 'whose it is (without tracepoints)'
	mv none instance/events/tcplat
	for event in instance/events/tcplat/*/trigger; do
		mv "$event" "$event.none"
	done
	run -0 with_fault A=b doctor -i 0.1
	words 'whose it is (the kernel takes no hist triggers)'
	for event in instance/events/tcplat/*/trigger.none; do
		mv "$event" "${event%.none}"
	done
	for command in top trace record; do
		run -3 tcplat_as_user $command --root sys
		assert_output "tcplat: $command needs root for tracefs; run sudo tcplat $command"
	done
	((EUID)) || {
		chmod 500 sys/kernel/tracing/instances
		run -3 setpriv --bounding-set=-all --inh-caps=-all "$READER_DIR/tcplat" top --root sys
		assert_output 'tcplat: top may not use tracefs here: a container or a security policy forbids it'
		chmod 755 sys/kernel/tracing/instances
	}
	for signal in INT TERM HUP; do
		with_sighup DEFAULT
		kill "-$signal" $!
		status=0
		wait $! || status=$?
		assert_equal $status 130
		assert_equal "$(ls sys/kernel/tracing/instances)" ''
	done
	# nohup.
	with_sighup IGNORE
	run sed -n 's/^SigIgn:\t//p' "/proc/$!/status"
	((0x$output & 1)) || fail "SIGHUP is not ignored: $output"
	kill $!
	wait $! || :
}

# ---- the screen ----

# show_on WIDTH HEIGHT ARGUMENT...: runs show on its own terminal, and then prints its status. The
# leak sanitizer would keep a processor busy forever when the terminal goes (SIGHUP).
show_on() {
	# The signals that end it must not end the shell around it.
	screen new-session -d -x "$1" -y "$2" "trap : INT QUIT; echo begun
		sh -c 'echo \$\$ >pid; exec env LSAN_OPTIONS=detect_leaks=0 LC_ALL=C.UTF-8 \
			$READER_DIR/tcplat show --root sys ${*:3} 2>err'
		echo status \$?; exec sleep 1000"
}

# put GROUP/FILE VALUE: replaces the file atomically, since show reads it meanwhile.
put() {
	echo "$2" >new
	mv new "$T/$1"
}

@test "the screen: what changed on 80x24; scrolling; a module that goes; every way out" {
	local how
	show_on 80 24 -i 0.2
	captured 'Nothing counted:'
	put portsearch/searches 1003
	captured '^  searches +1  '
	prints --regexp '^tcplat show: [0-9-]+ [0-9:]+, what changed; q quits$' sed -n 1p shot
	mv sys/kernel/tcplat gone
	captured 'the module is not loaded; q quits'
	mv gone sys/kernel/tcplat
	captured 'what changed'
	screen send-keys q
	captured '^status 0$'
	screen kill-server
	# The last error of top is not on the screen that it leaves.
	make_live_tree ack_stall
	screen new-session -d -x 80 -y 24 "env LD_PRELOAD=$READER_DIR/faults.so $READER_DIR/tcplat top --root sys -i 0.2; echo status \$?; exec sleep 1000"
	captured 'by peer: 0'
	mv sys/kernel/tcplat gone
	captured '^tcplat: the module is no longer loaded'
	captured '^status 1$'
	mv gone sys/kernel/tcplat
	screen kill-server
	# All of it does not fit.
	show_on 80 24 -a -i 0.2
	captured '^[0-9]+ more: the arrow keys and Page Up, Page Down scroll$' 24
	# At the same time.
	prints --regexp '^delack' sed -n 3p shot
	screen send-keys Down Down
	captured '^  timeouts_pingpong ' 3
	screen send-keys Up NPage NPage NPage NPage NPage NPage NPage
	captured 'time_hist|timewait|keepalive|size_hist' 20,23
	screen send-keys PPage PPage PPage PPage PPage PPage PPage
	captured '^delack' 3
	screen resize-window -x 50 -y 10
	captured '^[0-9]+ more: the arrow keys' 10
	screen kill-server
	for how in C-c "C-\\" TERM HUP; do
		show_on 80 24 -i 3600
		captured 'waiting for the first interval'
		case $how in
		TERM | HUP) kill "-$how" "$(<pid)" ;;
		*) screen send-keys "$how" ;;
		esac
		captured '^status 0$'
		assert_equal "$(screen display -p '#{alternate_on} #{cursor_flag}')" '0 1'
		screen kill-server
		assert_equal "$(sed 's/\^.//' shot | xargs)" 'begun status 0'
	done
}

@test "the screen: ^Z gives the terminal back, and fg goes on" {
	# A shell with job control.
	screen new-session -d -x 80 -y 24 "env PS1='% ' bash --norc -i"
	screen send-keys "LC_ALL=C.UTF-8 $READER_DIR/tcplat show --root sys -i 0.2" Enter
	captured 'Nothing counted:'
	screen send-keys C-z
	captured '^\[1\]\+ +Stopped'
	assert_equal "$(screen display -p '#{alternate_on} #{cursor_flag}')" '0 1'
	screen send-keys fg Enter
	captured 'what changed; q quits' 1
	assert_equal "$(screen display -p '#{alternate_on} #{cursor_flag}')" '1 0'
	put portsearch/searches 1003
	captured '^  searches +1  '
	screen send-keys C-z
	captured '^\[1\]\+ +Stopped'
	screen send-keys fg Enter
	captured 'what changed; q quits' 1
	screen send-keys q
	captured '^%$'
	screen kill-server
}

@test "the screen ends with its terminal; and where there is none, pages follow each other" {
	local term
	TERM=xterm python3 - "$READER_DIR/tcplat" <<-'END'
		import os, pty, subprocess, sys
		master, slave = pty.openpty()
		# Not the controlling terminal of its session, so that no SIGHUP is sent.
		p = subprocess.Popen([sys.argv[1], "show", "--root", "sys", "-i", "3600"],
		                     stdin=slave, stdout=slave, start_new_session=True)
		os.close(slave)
		seen = b""
		while b"waiting for the first interval" not in seen:
		    seen += os.read(master, 4096)
		os.close(master)
		sys.exit(p.wait(60) >= 2)
	END
	# A terminal that does not know its size.
	run -0 timeout 20 script -qec "stty rows 0 cols 0; $READER_DIR/tcplat show -a --root sys -i 0.1 -c 1" /dev/null \
		</dev/null
	assert_line --partial timeouts_pingpong
	for term in dumb ''; do
		run -0 env TERM="$term" script -qec "$READER_DIR/tcplat show --root sys -i 0.1 -c 2" /dev/null </dev/null
		assert_equal "$(grep -c 'tcplat show:' <<<"$output")" 2
		refute_output --partial $'\e'
	done
}
