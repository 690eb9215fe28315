#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat doctor on trees of files: every rule at its minima and below, what is ruled out and what
# cannot be examined, both ends on one host, and that no time of the ABI is without a rule. Only this
# checks every threshold.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines
# shellcheck disable=SC2030,SC2031 # each test has its own output
# shellcheck disable=SC2317 # steps are called by name

load reader_helpers

# A host on which nothing is wrong: all groups count, and all counters are 0.
setup() {
	untraced
	enter_work_dir
	make_tree groups
	rm -r "$T"/{alpha,zeta}
	make_every_file
	zero "$T"
	mkdir -p proc/sys/net/ipv4
}

# rules_are RULES: $output is JSON with these findings.
rules_are() { assert_equal "$(json '" ".join(f["rule"] for f in d["findings"])')" "$1"; }

# totals RULES: these are the findings since the counters started.
totals() {
	run_tcplat 0 doctor --total --json
	rules_are "$1"
}

# While doctor watches, the counters become what the file gains says.
step_1() {
	local pairs
	mapfile -t pairs <gains
	set_all "${pairs[@]}"
}

# examine [OPTION]: doctor watches once, without an error; afterwards the counters are 0 again.
examine() {
	local pairs
	run -0 --separate-stderr with_steps doctor "$@"
	assert_equal "$stderr" ''
	mapfile -t pairs <gains
	set_all "${pairs[@]/=*/=0}"
}

# sick RULES GROUP/FILE=VALUE...: doctor finds exactly RULES in 10 s in which the counters become these.
sick() {
	printf '%s\n' "${@:2}" >gains
	examine --json
	rules_are "$1"
}

# says TEXT [GROUP/FILE=VALUE...]: the text output of these gains, or of the same ones, has TEXT.
says() {
	(($# == 1)) || printf '%s\n' "${@:2}" >gains
	examine
	words "$1"
}

@test "nothing wrong: all is ruled out" {
	sick '' delack/timeouts=0
	assert_output --partial '"not_examined":{"whose":"without tracefs"}'
	says 'Nothing found in 10 s. Ruled out: lack of ports, bound addresses in use, bind(), slow bind(), searches for a port, Nagle'"'"'s algorithm, delayed ACKs, corks, slow answers, slow readers, lost segments, lost SYNs, full accept queues, slow accept(), peers'"'"' windows, send buffers, waits after EAGAIN, slow start after idle, late timers Not examined: whose it is (without tracefs), losses and windows on the way here (run doctor at the sender)'
	run_tcplat 0 doctor --total
	assert_line --index 0 'Nothing found since the counters started.'
}

@test "each rule at its minima, and below" {
	local s=000000000
	# minima: finds the rule at the first of two values, and nothing at the second.
	minima() {
		local pairs below
		while read -ra pairs; do
			sick "${pairs[@]/%:*}"
			below=("${pairs[@]/=*:/=}")
			[[ ${pairs[*]} != *:* ]] || sick '' "${below[@]:1}"
		done
	}
	minima <<-'END'
		stalls delack/stalls=10:9 delack/stall_us=10000:990000
		stalls delack/stalls=10 delack/stall_us=10000:9999
		nagle sndhold/nagle=10 sndhold/nagle_time_ns=10000000:9999999
		nagle sndhold/nagle=10:9 sndhold/nagle_time_ns=10000000
		cork sndhold/cork=20:9 sndhold/cork_time_ns=4160000000:90000000 sndhold/cork_timeouts=20:0
		cork sndhold/cork=10:20 sndhold/cork_time_ns=10000000
		cork sndhold/cork=100020 sndhold/cork_time_ns=4200000000 sndhold/cork_timeouts=20:0
		loss loss/rto=1 loss/tlp=3 loss/fast=1:0 loss/rto_time_ns=300000000
		loss loss/fast=5 loss/fast_time_ns=10000000:9999999
		syn loss/syn=3:2 loss/syn_time_ns=3000000000:900000000
		syn loss/syn=3 loss/syn_time_ns=10000000:9999999
		listen listen/overflows=1
		accept listen/accept=10:9 listen/accept_time_ns=100000000:90000000
		accept listen/accept=10 listen/accept_time_ns=10000000:9999999
		peerwnd peerwnd/wait=10 peerwnd/wait_time_ns=100000000:99999999
		peerwnd peerwnd/wait=10:9 peerwnd/wait_time_ns=100000000
		sndwait sndwait/waits=10:200 sndwait/time_ns=100000000:199999999
		sndwait sndwait/waits=10 sndwait/time_ns=100000000:99999999
		sndwait sndwait/waits=10:9 sndwait/time_ns=100000000
		again sndwait/again_hist=10:9 sndwait/again_time_ns=100000000
		again sndwait/again_hist=10:200 sndwait/again_time_ns=100000000:199999999
		again sndwait/again_hist=10 sndwait/again_time_ns=100000000:99999999
		exhausted portsearch/searches=520 portsearch/exhausted=1
		bound portsearch/bound_in_use=1
		bind bindsearch/searches=150 bindsearch/exhausted=1
		slowbind bindsearch/searches=10:9 bindsearch/time_ns=10000000
		slowbind bindsearch/searches=10:20 bindsearch/time_ns=10000000
		ports portsearch/searches=12 portsearch/unverified=1 portsearch/iterations=1100:1099
		ports portsearch/searches=10:9 portsearch/iterations=1000
		ports portsearch/searches=50 portsearch/unverified=50 portsearch/time_ns=10000000
		idlerestart idlerestart/restarts=10 idlerestart/cwnd_lost=100:99
		idlerestart idlerestart/restarts=10:9 idlerestart/cwnd_lost=100
		late delack/timeouts=10 delack/late_us=100000:99999
		late delack/timeouts=10:9 delack/late_us=100000
		answer answer/own=10:9 answer/own_time_ns=400000000:900000000
		unread delack/timeouts_unread=10:9
		missed sndwait/missed=1
		missed listen/missed=1
		missed ackmode/untracked_events=1
	END
	sick '' portsearch/searches=1000 portsearch/iterations=1000 portsearch/time_ns=50000000
	# Two ticks, if these are longer.
	echo 10000000 >"$T"/clock/tick_ns
	minima <<<'late delack/timeouts=10 delack/late_us=200000:199999'
	# An idle timer is late by one.
	sick '' delack/timeouts=5 delack/late_us=50000
	assert_output --partial '"seen":[],'
	# These cost no time.
	sick '' idlerestart/restarts=5 idlerestart/cwnd_lost=49 ackmode/setsockopt=1
	assert_output --partial '"seen":[],'
	echo 3333333 >"$T"/clock/tick_ns
	# The timer wheel rounds long timers; that is no busy CPU.
	sick loss loss/rto=31 loss/rto_time_ns=29700${s:0:6} loss/rto_late_us=1136000
	sick 'loss late' loss/rto=10 loss/rto_time_ns=2000${s:0:6} loss/rto_late_us=400000
	# A count below 0 misses nothing.
	set_to delack/timeouts_unseen 0
	sick missed delack/timeouts_unseen=3
	sick '' delack/timeouts_unseen=-3
	# Only what was missed meanwhile counts, and autocork_unseen may be small beside autocork.
	set_all sndhold/autocork=0 sndhold/autocork_unseen=0 delack/timeouts_unseen=3
	sick '' delack/timeouts_unseen=3
	set_to delack/timeouts_unseen 3
	sick '' delack/timeouts_unseen=2
	set_to delack/timeouts_unseen 3
	sick missed delack/timeouts_unseen=5
	assert_output --partial '"counters":{"delack/timeouts_unseen":2}'
	set_to delack/timeouts_unseen -1
	sick '' delack/timeouts_unseen=0
	sick '' sndhold/autocork=200 sndhold/autocork_unseen=3
	sick missed sndhold/autocork=200 sndhold/autocork_unseen=4
	# A few long waits are found, too; many short ones that add up to as much are not ruled out.
	sick nagle sndhold/nagle=1 sndhold/nagle_time_ns=1${s}
	sick '' sndwait/waits=2000 sndwait/time_ns=1${s} bindsearch/searches=2000 bindsearch/time_ns=999999999
	assert_output --partial '"seen":[{"rule":"sndwait","count":2000,"lost_ns":1000000000}]'
	assert_output --partial '"slowbind"'
	# Nor are a few long ones, or a few events that have no time.
	sick '' delack/stalls=5 delack/stall_us=220000 idlerestart/restarts=9 idlerestart/cwnd_lost=90 \
		sndhold/nagle=5 sndhold/nagle_time_ns=49999999
	assert_output --partial '"seen":[{"rule":"stalls","count":5,"lost_ns":220000000},{"rule":"idlerestart","count":9}]'
	assert_output --partial '"slowbind","ports","nagle","cork"'
	says "Nothing found in 10 s. Seen, but too little for a finding: Nagle's algorithm (5 times, 220 ms) Ruled out:" \
		sndhold/nagle=5 sndhold/nagle_time_ns=220000000
	# What was missed may have been these.
	sick missed sndwait/again_untracked=5000
	refute_output --regexp '"ruled_out":[^]]*"(sndwait|again)"'
	assert_output --partial '"not_examined":{"sndwait":"not all was counted","again":"not all was counted",'
	says 'Not examined: sndwait, again (not all was counted), whose it is' sndwait/again_untracked=5000
	# Calls that failed come first, then what lost most, then notes.
	sick 'exhausted cork stalls answer missed' delack/stalls=50 delack/stall_us=2000000 sndhold/cork=20 \
		sndhold/cork_time_ns=4${s} portsearch/searches=9 portsearch/exhausted=2 answer/own=30 \
		answer/own_time_ns=9${s} sndwait/missed=1
	# In totals, the minima of one second.
	set_all sndhold/nagle=10 sndhold/nagle_time_ns=999999
	totals ''
	set_to sndhold/nagle_time_ns 1000000
	totals nagle
}

@test "what it says of each case" {
	says "1. nagle: Nagle's algorithm held data of this host back 30 times, 43 ms on average, while an ACK of the peer was outstanding: 1.29 s of waiting within 10 s, all connections together." \
		sndhold/nagle=30 sndhold/nagle_time_ns=1290000000
	refute_output --partial 'the receiver delayed'
	says "The kernel's timer, not the program, ended 20 of them, after 200 ms or more each: the last write of a message had MSG_MORE, or TCP_CORK was not removed. Remedy:" \
		sndhold/cork=20 sndhold/cork_time_ns=4160000000 sndhold/cork_timeouts=20
	words 'TCP_NODELAY does not help.'
	says "again because their ACKs did not come: 610 ms of waiting within 10 s, all connections together. 1 retransmission timeout took 210 ms. 22 tail loss probes took 400 ms. Remedy:" \
		loss/rto=1 loss/tlp=22 loss/rto_time_ns=210000000 loss/tlp_time_ns=400000000
	says '22 tail loss probes took 4.39 s. Remedy:' loss/tlp=22 loss/tlp_time_ns=4390000000
	says '22 tail loss probes took 4.4 s. It was neither' loss/tlp=22 loss/tlp_time_ns=4400000000
	says '22 tail loss probes took 4.4 s. Remedy:' loss/tlp=22 loss/tlp_time_ns=4400000000 loss/tlp_hist='0 0 1 21'
	says '101 retransmission timeouts took 1.042 min. Remedy:' loss/rto=101 loss/rto_time_ns=62500000000 \
		loss/rto_hist='0 0 100 1'
	says 'took 4.39 s. Remedy:' loss/rto=5 loss/tlp=22 loss/rto_time_ns=1050000000 loss/tlp_time_ns=4390000000
	# With rto_min 20ms.
	says '100 retransmission timeouts took 2.5 s. Remedy:' loss/rto=100 loss/rto_time_ns=2500000000
	says 'connect() searched for a free port for 400 us on average, 50 times: 20 ms of waiting within 10 s, all connections together. Remedy:' \
		portsearch/{searches=50,unverified=50,time_ns=20000000}
	says 'for 3 SYN-ACKs that had to be sent again. In all, at least 3 s of waiting within 10 s' \
		loss/{syn=3,syn_time_ns=3000000000,synack=3,synack_time_ns=3000000000}
	says 'include this time. 20 ACK timers found the socket in use: then the reason was a process that held it. Each event, as root: tcplat trace delack_timeout' \
		delack/{timeouts=20,late_us=4000000,deferred=20}
	says 'include this time. Each event, as root: tcplat trace loss' loss/{rto=10,rto_late_us=400000}
	says "Peers' answers were late 300 times, too, 15 s: the same answers if the peers are on this host, else perhaps what these programs waited for. If not, it was not TCP. Remedy:" \
		answer/{own=300,own_time_ns=15300000000,peer=300,peer_time_ns=15000000000}
	says 'Each event, as root: tcplat trace accept_wait' listen/accept=20 listen/accept_time_ns=800000000
	says '1. listen: A full accept queue dropped 14 SYNs or final ACKs of handshakes; clients send a SYN again after 1 s or more, and what follows a final ACK after 200 ms or more.' \
		listen/overflows=14
	words 'Each event, as root: tcplat trace listen_overflow'
	says 'takes about 1 more round trip.' idlerestart/restarts=10 idlerestart/cwnd_lost=100
	says 'A wider port range does not help.' portsearch/bound_in_use=19
	says 'cut their congestion window by 300 packets in total. A message that fills the old window takes about 2 more round trips.' \
		idlerestart/restarts=10 idlerestart/cwnd_lost=300
	says "The window was closed, and this host probed it 40 times: the peer's program did not read." \
		delack/timeouts_unread=133 peerwnd/{wait=133,wait_time_ns=6948000000,probes=40}
	words 'A larger send buffer on this host does not help.'
	says 'searched for a free port for 2.5 ms on average, 20 times: 50 ms of waiting within 10 s, all connections together. It tried 20000 ports on average.' \
		portsearch/{searches=20,iterations=400000,time_ns=50000000}
}

@test "it was not TCP, unless something else was seen, was not examined, or peers were late" {
	local more own=(answer/own=30 answer/own_time_ns=6210000000)
	says '6.21 s of waiting within 10 s, all connections together. It was not TCP. Remedy:' "${own[@]}"
	for more in 'loss/rto=4 loss/rto_time_ns=880000000' sndhold/overflows=4 sndhold/missed=1 \
		'answer/peer=90 answer/peer_time_ns=20000000000' \
		'answer/peer=30 answer/peer_time_ns=6200000000 loss/rto=4 loss/rto_time_ns=880000000'; do
		# shellcheck disable=SC2086 # words
		says 'all connections together.' "${own[@]}" $more
		refute_output --partial 'not TCP.'
	done
	echo off >"$T"/loss/status
	says 'all connections together. Remedy:' "${own[@]}"
}

# hides RULE GROUP/FILE=VALUE...: nothing is found, but RULE was seen, and is not ruled out.
hides() {
	sick '' "${@:2}"
	assert_output --partial "\"seen\":[{\"rule\":\"$1\","
	refute_output --regexp "\"ruled_out\":\\[[^]]*\"$1\""
}

@test "a mean rules out nothing that took long, nor what still goes on" {
	# Those of 8.4 to 16.8 ms.
	hides cork sndhold/cork=10020 sndhold/cork_time_ns=900000000 sndhold/cork_hist='10000 20 0 0'
	sick '' sndhold/cork=10020 sndhold/cork_time_ns=900000000 sndhold/cork_hist='10020 0 0 0'
	assert_output --partial '"seen":[]'
	hides sndwait sndwait/waits=1020 sndwait/time_ns=810000000 sndwait/time_hist='1000 0 0 20'
	hides slowbind bindsearch/searches=5000 bindsearch/time_ns=900000000 bindsearch/time_hist='4999 0 0 1'
	# Each is late by a tick of 4 ms, some by more.
	set_to clock/tick_ns 4000000
	hides late delack/timeouts=1020 delack/late_us=4180000
	sick '' delack/timeouts=1020 delack/late_us=4179999
	assert_output --partial '"seen":[]'
	hides idlerestart idlerestart/restarts=220 idlerestart/cwnd_lost=100
	sick '' idlerestart/restarts=220 idlerestart/cwnd_lost=99
	assert_output --partial '"seen":[]'
	# A wait for the peer's window counts when it ends.
	hides peerwnd peerwnd/probes=6
	assert_output --partial '"count":6'
}

@test "one wait is one finding where both ends are on this host" {
	# Nagle and a delayed ACK: as many long holds as stalls.
	sick nagle sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=30 \
		sndhold/peer_delay_ns=1200000000 delack/stalls=30 delack/stall_us=1290000
	assert_output --partial 'late ACKs of this host, 1.29 s in total: these are the same waits if the receiver is on this host, too.'
	assert_output --partial '"delack/stalls":30'
	refute_output --partial 'delayed ACKs'
	# A hold may be just below 10 ms longer than the round trip.
	sick nagle sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=28 \
		sndhold/peer_delay_ns=1200000000 delack/stalls=30 delack/stall_us=1290000
	sick nagle sndhold/nagle=10 sndhold/nagle_time_ns=430000000 sndhold/peer_delays=8 \
		sndhold/peer_delay_ns=320000000 delack/stalls=10 delack/stall_us=430000
	# As many, but much longer or shorter.
	sick 'stalls nagle' sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=30 \
		sndhold/peer_delay_ns=1200000000 delack/stalls=31 delack/stall_us=6200000
	sick 'nagle stalls' sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=30 \
		sndhold/peer_delay_ns=1200000000 delack/stalls=30 delack/stall_us=599000
	# Other peers, too: two findings.
	sick 'stalls nagle' sndhold/nagle=30 sndhold/nagle_time_ns=1290000000 sndhold/peer_delays=30 \
		delack/stalls=90 delack/stall_us=3870000
	# A sender that waits for the peer to read needs no larger buffer.
	sick peerwnd peerwnd/wait=47 peerwnd/wait_time_ns=4696000000 sndwait/waits=20 sndwait/time_ns=4800000000
	sick peerwnd peerwnd/wait=40 peerwnd/wait_time_ns=2000000000 sndwait/waits=20 sndwait/time_ns=2000000000 \
		sndwait/again_hist=20 sndwait/again_time_ns=2000000000
	sick 'sndwait again peerwnd' peerwnd/wait=40 peerwnd/wait_time_ns=1900000000 sndwait/waits=20 \
		sndwait/time_ns=2000000000 sndwait/again_hist=20 sndwait/again_time_ns=2000000000
	# Nor are its probes lost segments.
	sick peerwnd peerwnd/wait=31 peerwnd/wait_time_ns=2292000000 loss/tlp=20 loss/tlp_time_ns=644299000
	sick 'peerwnd loss' peerwnd/wait=31 peerwnd/wait_time_ns=2292000000 loss/tlp=20 loss/tlp_time_ns=644299000 \
		loss/rto=5 loss/rto_time_ns=1000000000
	assert_output --partial '"lost_ns":1644299000'
	# But those that took longer, or if windows cost too little to be found.
	sick 'loss peerwnd' peerwnd/wait=31 peerwnd/wait_time_ns=600000000 loss/tlp=20 loss/tlp_time_ns=644299000
	sick loss peerwnd/wait=5 peerwnd/wait_time_ns=900000000 loss/tlp=5 loss/tlp_time_ns=800000000
	sick sndwait peerwnd/wait=5 peerwnd/wait_time_ns=900000000 sndwait/waits=20 sndwait/time_ns=3600000000
	sick peerwnd peerwnd/wait=20 peerwnd/wait_time_ns=2292000000 loss/tlp=20 loss/tlp_time_ns=644299000
	# A lost SYN-ACK counts at both ends.
	sick syn loss/syn=3 loss/syn_time_ns=3046000000 loss/synack=4 loss/synack_time_ns=2033000000
	assert_output --partial '"lost_ns":3046000000'
	sick 'sndwait peerwnd' peerwnd/wait=20 peerwnd/wait_time_ns=200000000 sndwait/waits=20 sndwait/time_ns=4800000000
	# A cork at the server is no slow answer for the client on the same host; nor is a lost segment.
	sick cork sndhold/cork=20 sndhold/cork_time_ns=4160000000 sndhold/cork_timeouts=20 answer/peer=20 \
		answer/peer_time_ns=4140000000
	assert_output --partial '"seen":[{"rule":"answer","count":20,"lost_ns":4140000000}]'
	sick loss loss/rto=20 loss/rto_time_ns=4160000000 answer/peer=20 answer/peer_time_ns=4140000000
	# A connection whose SYN was lost has no answer that could be late.
	sick 'syn answer' loss/syn=36 loss/syn_time_ns=84000000000 answer/peer=20 answer/peer_time_ns=760000000
	# What a cork held back is no part of the other answers' time.
	sick 'cork answer' sndhold/cork=20 sndhold/cork_time_ns=4140000000 sndhold/cork_timeouts=20 \
		answer/peer=30 answer/peer_time_ns=4340000000
	assert_output --partial 'for 10 answers, 34 ms on average: 340 ms'
	# Many short waits explain no long ones, nor few.
	sick answer answer/peer=400 answer/peer_time_ns=15200000000 loss/tlp=400 loss/tlp_time_ns=8000000
	sick 'cork answer' answer/peer=12 answer/peer_time_ns=36000000000 sndhold/cork=12 \
		sndhold/cork_time_ns=2400000000 sndhold/cork_timeouts=12
	assert_output --partial 'for 12 answers, 2.8 s on average'
	refute_output --partial 'It was not TCP.'
	sick answer answer/own=400 answer/own_time_ns=4400000000 answer/peer=400 answer/peer_time_ns=400000000000
	assert_output --partial 'Peers took 10 ms or more beyond the round trip for 400 answers'
	refute_output --partial 'not TCP.'
	# A program may have waited for another connection.
	sick 'nagle answer' answer/own=30 answer/own_time_ns=1350000000 sndhold/nagle=30 sndhold/nagle_time_ns=1290000000
	refute_output --partial 'not TCP.'
	assert_output --partial 'They may have waited for other connections: see the other findings.'
	sick 'exhausted answer' portsearch/searches=9 portsearch/exhausted=2 answer/own=30 answer/own_time_ns=9000000000
	refute_output --partial 'not TCP.'
	# Neither of two halves is enough.
	sick '' answer/own=9 answer/own_time_ns=180000000 answer/peer=18 answer/peer_time_ns=360000000
	assert_output --partial '"seen":[{"rule":"answer","count":18,"lost_ns":360000000}]'
	sick '' loss/syn=1 loss/syn_time_ns=900000000 loss/synack=1 loss/synack_time_ns=800000000
	assert_output --partial '"seen":[{"rule":"syn","count":1,"lost_ns":900000000}]'
	# Nor do few very long ones explain many.
	sick 'loss answer' loss/rto=1 loss/rto_time_ns=61000000000 answer/peer=30 answer/peer_time_ns=15000000000
	assert_output --partial 'for 29 answers, at least 10 ms on average: at least 290 ms of waiting'
	sick 'loss answer' loss/tlp=10 loss/tlp_time_ns=300000000 answer/peer=30 answer/peer_time_ns=330000000
	assert_output --partial 'for 20 answers, at least 10 ms on average: at least 200 ms of waiting'
	# Three probes of 30 ms explain no twelve answers of 70 ms.
	sick answer answer/peer=15 answer/peer_time_ns=930000000 loss/tlp=3 loss/tlp_time_ns=90000000
	sick answer answer/own=30 answer/own_time_ns=1161000000 answer/peer=30 answer/peer_time_ns=1100000000
	assert_output --partial '"what":"Programs on this host took 10 ms or more for 30 answers, 38.7 ms on average: 1.161 s of waiting within 10 s, all connections together. Peers'
	assert_output --partial '"remedy":"Look at the program: what it waits for before it answers."'
	sick answer answer/peer=30 answer/peer_time_ns=1100000000
	assert_output --partial 'Peers took 10 ms or more beyond the round trip for 30 answers'
	assert_output --partial '"remedy":"Look at what the peers'"'"' programs wait for, and at the path'
	sick answer answer/own=10 answer/own_time_ns=400000000 answer/peer=30 answer/peer_time_ns=1000000000
	assert_output --partial 'for 20 answers, 30 ms on average: 600 ms'
	sick answer answer/own=10 answer/own_time_ns=2000000000 answer/peer=30 answer/peer_time_ns=1500000000
	assert_output --partial 'for 20 answers, at least 10 ms on average: at least 200 ms of waiting'
}

@test "TCP_QUICKACK set once; why only the first, only from the 16th on" {
	sick 'nagle quickack' sndhold/nagle=40 sndhold/nagle_time_ns=1760000000 sndhold/peer_delay{s=40,_ns=1600000000} \
		delack/stalls=40 delack/stall_us=1760000 ackmode/setsockopt=1 delack/timeouts_pingpong=40
	assert_output --partial 'TCP_QUICKACK was set 1 time, and 40 ACKs of connections in pingpong mode came late all the same.'
	sick stalls delack/stalls=40 delack/stall_us=1760000 ackmode/setsockopt=1 delack/timeouts_pingpong=9
	sick '' delack/stalls=9 delack/stall_us=440000 ackmode/setsockopt=1 delack/timeouts_pingpong=40
	sick stalls delack/stalls=40 delack/stall_us=1760000 ackmode/cause_answer=3 ackmode/cause_budget=2
	refute_output --partial sndhold
	says 'Connections began to delay their ACKs 3 times when they sent an answer, so the first requests of a connection are fast. 2 times they had used up the quick ACKs of a new connection, about 16'
	# That is of this host, and of Nagle's algorithm the peer is the one that delays.
	sick nagle sndhold/nagle=40 sndhold/nagle_time_ns=1760000000 ackmode/cause_answer=3
	refute_output --partial 'Connections began'
}

@test "what the rules say of the settings of this host, and nothing that is set already" {
	local ipv4=proc/sys/net/ipv4
	printf '32768\t33267\n' >$ipv4/ip_local_port_range
	echo 2 >$ipv4/tcp_tw_reuse
	echo 1 >$ipv4/tcp_slow_start_after_idle
	sick 'exhausted idlerestart' portsearch/searches=520 portsearch/exhausted=20 idlerestart/restarts=10 idlerestart/cwnd_lost=100
	# It is not known in which namespace that was.
	says 'widen net.ipv4.ip_local_port_range. If the peer uses TCP timestamps, net.ipv4.tcp_tw_reuse=1 lets'
	words 'Settings: net.ipv4.ip_local_port_range = 32768 33267; net.ipv4.tcp_tw_reuse = 2 (in the network namespace of this command)'
	words "Set net.ipv4.tcp_slow_start_after_idle=0 in the connections' network namespace"
	echo 1 >$ipv4/tcp_tw_reuse
	echo 0 >$ipv4/tcp_slow_start_after_idle
	says "Set net.ipv4.tcp_slow_start_after_idle=0 in the connections' network namespace"
	refute_output --partial 'is 0 there'
	assert_output --partial 'tcp_tw_reuse=1 lets'
	# Nothing is said of this host where the counts are another's.
	run_tcplat 0 show --json -o from
	set_all idlerestart/restarts=10 idlerestart/cwnd_lost=100
	run_tcplat 0 show --json -o to
	run_tcplat 0 doctor --from from --to to
	words '1. idlerestart: '
	refute_output --partial 'is 0 there'
	set_all idlerestart/restarts=0 idlerestart/cwnd_lost=0
	sick stalls delack/stalls=10 delack/stall_us=440000
	says 'set before each recv(). Caveat'
	words "Nagle's algorithm held back hardly any data of this host."
	says 'so other findings may be too small: sndhold/overflows 4000' delack/stalls=10 delack/stall_us=440000 \
		sndhold/overflows=4000
	refute_output --partial 'held back hardly any data'
	says "Also seen, too little for a finding or part of another: Nagle's algorithm (9 times, 360 ms)" \
		delack/stalls=10 delack/stall_us=400000 sndhold/nagle=9 sndhold/nagle_time_ns=360000000
	refute_output --partial 'held back hardly any data'
	printf '%s\n' delack/stalls=10 delack/stall_us=440000 >gains
	echo 200000 >$ipv4/tcp_rto_min_us
	says 'a route with rto_min, for example 20ms'
	rm "$T"/sndhold/nagle
	examine
	refute_output --partial 'held back hardly any data'
}

@test "groups that are off, unavailable or absent, and all of them" {
	local g
	echo off >"$T"/delack/status
	echo 'unavailable: sk_stream_wait_memory' >"$T"/sndwait/status
	rm -r "$T"/listen
	sick '' delack/stalls=100 delack/stall_us=4400000
	assert_output --partial '"not_examined":{"delack":"off","listen":"not in this module","sndwait":"unavailable: sk_stream_wait_memory","whose":"without tracefs"}'
	says 'Not examined: delack (off), listen (not in this module), sndwait (unavailable: sk_stream_wait_memory), whose it is (without tracefs)'
	refute_output --partial 'send buffers,'
	# Off at the start, or with a file that cannot be read.
	echo armed >"$T"/delack/status
	echo off >"$T"/loss/status
	set_all delack/stalls=0
	rm "$T"/peerwnd/wait
	step_1() { echo armed >"$T"/loss/status; }
	run -0 with_steps doctor
	words 'Not examined: loss (was off), listen (not in this module), sndwait (unavailable: sk_stream_wait_memory), peerwnd, late (counters not known), whose'
	refute_output --partial 'lost segments'
	refute_output --partial "peers' windows"
	# In totals, one rule of a group that is off has something seen, another has no file.
	echo off >"$T"/loss/status
	rm "$T"/loss/fast
	set_all loss/rto=2 loss/rto_time_ns=60000000 loss/{syn,syn_time_ns}=0
	run_tcplat 0 doctor --total
	words 'Not examined: loss (off), listen (not in this module), sndwait'
	run_tcplat 0 doctor --total --json
	assert_equal "$(json 'd["not_examined"]["loss"], "syn" in d["not_examined"]')" 'off False'
	refute_output --partial 'late timers'
	for g in "$T"/*/status; do echo off >"$g"; done
	step_1() { :; }
	run -0 with_steps doctor
	refute_output --partial 'Ruled out'
	# What was counted before is in the totals.
	set_all delack/stalls=100 delack/stall_us=4400000
	totals stalls
	assert_output --partial '"delack":"off"'
	# That nothing was counted rules out nothing.
	set_all delack/stalls=0 delack/stall_us=0
	run_tcplat 0 doctor --total
	words 'Nothing found since the counters started. Not examined: portsearch (off), bindsearch (off), sndhold (off), delack (off), answer (off), loss (off),'
	refute_output --partial 'Ruled out'
	# Nor is it said in a finding.
	for g in {delack,answer}/status; do echo armed >"$T/$g"; done
	set_all answer/own=30 answer/own_time_ns=1142000000 delack/stalls=30 delack/stall_us=1200000
	totals 'stalls answer'
	refute_output --partial 'was not TCP.'
	refute_output --partial 'held back hardly any data'
	refute_output --regexp '"ruled_out":[^]]*"late"'
}

@test "every time of the ABI belongs to a rule, or to the list of what is not judged" {
	# doctor finds each of them if it grows enough: 40 s in 10 s.
	run -0 "$PYTHON" - "$READER_DIR/tcplat" "$SOURCE/userspace/tables" <<-'END'
		import glob, re, subprocess, sys, json
		tcplat, tables = sys.argv[1:]
		doctor = [tcplat, "doctor", "--root", "sys", "--total", "--json"]
		unjudged = {line.split("\t")[1] for line in open(tables) if line.startswith("unjudged")}
		n = 0
		for path in sorted(glob.glob("sys/kernel/tcplat/*/*_[nu]s")):
		    folder, group, stem, unit = re.fullmatch("(.*/(.*))/(.*)_(..)", path).groups()
		    if re.search("clock/|_max|_hist_le", path) or f"{group}/{stem}" in unjudged:
		        continue
		    searches = "waits" if group == "sndwait" else "searches"
		    name = {"time": searches, "late": "timeouts", "rto_late": "rto",
		            "stall": "stalls", "again_time": "again_hist"}.get(stem, stem.removesuffix("_time"))
		    def write(time, count):
		        if name.endswith("_hist"):
		            count = f"{count} 0 0 0"
		        for where, value in (path, time), (f"{folder}/{name}", count):
		            open(where, "w").write(f"{value}\n")
		    write(40 * 10**(9 if unit == "ns" else 6), 1000)
		    found = json.loads(subprocess.check_output(doctor))["findings"]
		    assert any(f"{group}/{stem}_{unit}" in x["counters"] for x in found), path
		    n += 1
		    write(0, 0)
		assert n >= 18, n
	END
}

@test "--json: the members and their types, and the manual names them all" {
	set_all portsearch/searches=9 portsearch/exhausted=2 sndwait/missed=3
	echo 32768 60999 >proc/sys/net/ipv4/ip_local_port_range
	totals 'exhausted missed'
	run -0 "$PYTHON" - "$output" <<-'END'
		import json, sys
		doc = json.loads(sys.argv[1])
		assert doc["schema"] == 2 and "seconds" not in doc
		a, b = doc["findings"]
		assert (a["severity"], b["severity"]) == ("hurts", "note")
		assert a["counters"] == {"portsearch/exhausted": 2, "portsearch/searches": 9}
		assert b["counters"] == {"sndwait/missed": 3}
		assert a["settings"] == {"net.ipv4.ip_local_port_range": "32768 60999"}
		assert "stalls" in doc["ruled_out"] and "exhausted" not in doc["ruled_out"]
		for f in doc["findings"]:
		    assert all(isinstance(f[k], str) and f[k] for k in ("what", "remedy", "caveat"))
		print(*doc, *a, sep="\n")
	END
	local page member
	page=$(mandoc -T ascii "$SOURCE/userspace/tcplat.8" | col -bx)
	for member in "${lines[@]}"; do
		assert_regex "$page" "[‘'\`]$member'"
	done
	while read -r member; do
		assert_regex "$page" $'\n +'"$member"$'[ \n]'
	done < <(sed -n 's/^rule\t//p' "$SOURCE/userspace/tables")
}

@test "what is not in both readings was not examined" {
	run_tcplat 0 show --json -o some delack
	set_all loss/rto=500 loss/rto_time_ns=100000000000
	run_tcplat 0 show --json -o all
	run_tcplat 0 doctor --from some --to all
	words 'Ruled out: delayed ACKs, slow readers Not examined: exhausted, bound, bind, slowbind, ports, nagle, cork, answer, loss, syn, listen, accept, peerwnd, sndwait, again, idlerestart, late (counters not known), whose'
	# An interval is no reading.
	run_tcplat 0 show --from some --to all --json -o gains delack
	refused 2 'gains: the counts of an interval; totals are needed' doctor --to gains
}

@test "an exit status that tells whether anything hurts" {
	run_tcplat 0 doctor --total --exit-code
	set_all answer/own=100 answer/own_time_ns=40000000000
	run_tcplat 0 doctor --total -e
	set_all delack/stalls=100 delack/stall_us=4400000
	run_tcplat 0 doctor --total
	run_tcplat 4 doctor --total -e
}

@test "--from, --to: what was counted between two files or pipes, or up to now" {
	echo 32768 60999 >proc/sys/net/ipv4/ip_local_port_range
	set_all portsearch/searches=9 portsearch/exhausted=2
	saved 1000000000 >a.json
	set_all portsearch/searches=19 portsearch/exhausted=5
	saved 11000000000 >b.json
	# Only the files are used.
	mv sys elsewhere
	run_tcplat 0 doctor --from a.json --to b.json
	words '1. exhausted: 3 of 10 calls of connect() found no free port'
	words 'whose it is (only known while doctor watches)'
	refute_output --partial '= 32768'
	run -0 bash -c "$READER_DIR/tcplat doctor --from <(cat a.json) --to <(cat b.json) --json"
	rules_are exhausted
	run_tcplat 0 doctor --to b.json
	words '5 of 19 calls'
	usage 'b.json is not earlier than a.json' doctor --from b.json --to a.json
	sed 's/"boot_id":null/"boot_id":"x"/' b.json >x.json
	sed 's/"boot_id":null/"boot_id":"y"/' a.json >y.json
	refused 1 "$RESTARTED" doctor --from x.json --to y.json
	mv elsewhere sys
	run_tcplat 0 doctor --from a.json
	words '3 of 10 calls'
}

@test "a reset or an unload meanwhile makes no finding; people see that it watches" {
	set_to portsearch/searches 9
	step_1() { set_to portsearch/searches 5; }
	run -1 --separate-stderr with_steps doctor
	assert_error "$RESTARTED; try again"
	step_1() { rm -r sys/kernel/tcplat; }
	run -1 with_steps doctor
	assert_line --partial 'not loaded; run modprobe tcplat as root'
	make_tree groups
	run -0 script -qec "$READER_DIR/tcplat doctor -i 1.5 --root sys" /dev/null </dev/null
	assert_output --partial 'watching, 2 s left'
	run_tcplat 0 doctor -i 0.2
}
