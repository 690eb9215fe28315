#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat doctor on the live module: what it says of traffic that people have reported, with the
# numbers of the traffic itself; on a host that has both ends, and on one that has only this or that.
# Only this finds causes that no rule names, or that a wrong rule names.
#
# shellcheck disable=SC2154 # pair.bash sets said

load ../pair

setup() {
	untraced
	cd "$BATS_TEST_TMPDIR" || return
	veth_pair delay 1ms
	know_each_other
}

# shellcheck disable=SC2034 # python() uses it
PRELUDE="
from cases import *
MS = 1000000
snapshot()"

@test "an answer in two writes: Nagle's algorithm and delayed ACKs are one wait" {
	python "
took = asks(30, 100, two_writes, nagle=True)
snapshot()
each = {'took': took - 30 * 2 * MS, 'slack': 30 * 6 * MS}
finds('nagle', sndhold_nagle=30, says='if the receiver is on this host, too', **each)
finds('nagle', 'delack', sndhold_nagle=30, **each)
finds('stalls', 'sndhold', **each)"
}

@test "TCP_QUICKACK set once" {
	python "
asks(40, 100, two_writes, nagle=True, then=quick)
snapshot()
finds('nagle quickack', sndhold_nagle=40, ackmode_setsockopt=1)
finds('stalls quickack', 'sndhold', ackmode_setsockopt=1)
finds('nagle', 'delack ackmode', sndhold_nagle=40)"
}

@test "a cork that stays" {
	python "
took = asks(20, 100, left_corked)
snapshot()
each = {'took': took - 20 * 2 * MS, 'slack': 20 * 8 * MS}
finds('cork', sndhold_cork=20, sndhold_cork_timeouts=20, **each)
finds('cork', 'delack', sndhold_cork_timeouts=20, says=\"The kernel's timer, not the program, ended 20\", **each)
finds('answer', 'sndhold answer/own*', answer_peer=20, says='run doctor there', **each)"
}

slow_program() {
	python "
took = asks(30, 100, slowly($1, prompt), $2)
snapshot()
each = {'took': took - 30 * 2 * MS, 'slack': 30 * 6 * MS}
finds('answer', answer_own=30, answer_peer=30, says='Programs on this host took 10 ms or more for 30', **each)
finds('answer', 'answer/peer*', answer_own=30, **each)
finds('answer', 'answer/own*', answer_peer=30, says='Peers took 10 ms or more beyond the round trip for 30', **each)"
}

@test "a program that takes 38 ms" { slow_program 0.038 ''; }
@test "a program that takes 60 ms, with TCP_QUICKACK before each recv()" { slow_program 0.06 quickack=True; }

@test "nothing wrong: every rule is ruled out" {
	python "
asks(100, 100, prompt)
snapshot()
found = finds('')
assert len(found['ruled_out']) == 19 and [*found['not_examined']] == ['whose'], found"
}

@test "16 requests in flight: what Nagle's algorithm cost" {
	python "
took = pipelined(10, 16)
snapshot()
# The client waits for nothing else.
found = finds('nagle', took=took, slack=took // 5)
assert found['findings'][0]['severity'] == 'hurts', found"
}

@test "frames that wait until the zero-copy of the last is complete" {
	python "
zero_copies(30)
snapshot()
finds('')"
}

@test "a full accept queue: the listener here, and connect() there" {
	python "
took = crowd(8, 0.5)
snapshot()
each = {'took': took, 'slack': 8 * 10 * MS}
full, syn, _ = finds('listen syn accept', says='A full accept queue dropped')['findings']
syns = syn['counters']['loss/syn']
print('syns=%d' % syns, 'overflows=%d' % full['counters']['listen/overflows'])
finds('listen accept', 'loss')
finds('syn', 'listen loss/synack*', loss_syn=syns, **each)"
	same overflows "${said[overflows]}" "$(tcp_ext ListenOverflows)"
	# The server accepts when the SYNs come again; whether all fit then is up to chance.
	((said[syns] >= 6)) || fail "${said[syns]} SYNs were sent again"
	# shellcheck disable=SC2034 # tcp_ext uses it
	local -a NAMESPACES=(tcplat-a)
	same SYNs "${said[syns]}" "$(tcp_ext TCPSynRetrans)"
}

# Lost SYN-ACKs make both ends wait, which is one wait.
lost_handshakes() {
	python "
took = lost_syns(3, '$1')
snapshot()
each = {'took': took, 'slack': 3 * 15 * MS}
finds('syn', loss_syn=3, **each)
finds('syn', 'loss/synack* listen', loss_syn=3, **each)"
}

@test "SYNs that are lost" { lost_handshakes a; }
@test "SYN-ACKs that are lost" { lost_handshakes b; }

@test "segments that are lost" {
	python "
# A lost SYN would be another finding.
def losing(*loss):
    for side in 'ab':
        netem(side, 'delay', '1ms', *loss)
# Nor may a FIN be lost: the kernel's counts are read later than the module's.
took = asks(200, 100, prompt, then=lambda c: losing('loss', '3%'), last=losing)
snapshot()
# A lost answer may make both ends wait, each with a timer of its own.
found = finds('loss', took=took * 5 // 4, slack=took * 3 // 4, says=\"neither Nagle's algorithm nor delayed ACKs\")
counters = found['findings'][0]['counters']
print('timers=%d' % (counters['loss/rto'] + counters['loss/tlp']))"
	read -ra kernel <<<"$(tcp_ext TCPTimeouts TCPLossProbes)"
	same timers "${said[timers]}" $((kernel[0] + kernel[1]))
}

@test "a small receive window over a long path" {
	python "
netem('a', 'delay', '25ms')
netem('b', 'delay', '25ms')
took = reads(300000, 8192)
snapshot()
finds('peerwnd', took=took, slack=200 * MS)
finds('peerwnd', 'delack')
# Nothing counts this at the receiver.
finds('', 'peerwnd sndwait')"
}

@test "a reader that reads slowly: not Nagle's algorithm, not delayed ACKs, not the send buffer" {
	python "
took = reads(400000, 16384, pause=0.05)
snapshot()
# Less the time in which there is room.
each = {'took': took, 'slack': took // 2}
finds('peerwnd unread', **each)
finds('peerwnd', 'delack', **each)
finds('unread', 'peerwnd sndwait loss')"
}

# With timestamps, the kernel replaces a connection in TIME_WAIT.
@test "connect() on a bound socket whose connection is in TIME_WAIT" {
	python "
assert bound_connects(3, 30000) == 0"
	ip netns exec tcplat-a sysctl -q net.ipv4.tcp_timestamps=0
	python "
failed = bound_connects(10, 30001)
snapshot()
assert failed == 9, failed
finds('bound', portsearch_bound_in_use=9)"
}

# no_port BIND RULE GROUP: five of fifteen connections find no port. BIND (True, False): they call
# bind() to port 0 first.
no_port() {
	python "
failed = without_ports(15, $1)
snapshot()
assert failed == 5, failed
finds('$2', ${3}_exhausted=5)"
}

@test "bind() to port 0 before connect(), and no port left" { no_port True bind bindsearch; }
@test "connect() and no port left" { no_port False exhausted portsearch; }

@test "two causes at once" {
	python "
asks(30, 100, slowly(0.038, two_writes), nagle=True)
asks(12, 100, left_corked)
snapshot()
finds('cork nagle answer', answer_own=30, sndhold_nagle=30, sndhold_cork_timeouts=12)"
}

# Both ends restart. A client that pauses looks like a program that answers late.
@test "slow start after each pause" {
	python "
netem('a', 'delay', '25ms')
netem('b', 'delay', '25ms')
asks(12, 60000, large, gap=1)
snapshot()
finds('idlerestart answer', idlerestart_restarts=22)
finds('idlerestart', 'answer', says='began with slow start again 22 times')"
}

# ---- while doctor watches: whose it is ----

@test "whose: the process that wrote, and the stalls of its peer" {
	python "
(f,) = watch('nagle', lambda: asks(30, 100, two_writes, nagle=True))
(share,) = whose(f, 'sndhold/nagle')
assert (share['comm'], share['pid'], share['netns']) == ('python3', os.getpid(), 'tcplat-b'), share"
	set_meanwhile "$TREE/sndhold/enabled" 0
	python "
(f,) = watch('stalls', lambda: asks(30, 100, two_writes, nagle=True))
(share,) = whose(f, 'delack/stalls')
assert (share['peer'], share['netns']) == ('10.9.0.2', 'tcplat-a'), share"
}

@test "whose: the slow program, who accepts late, and the listener whose queue is full" {
	python "
(f,) = watch('answer', lambda: asks(30, 100, slowly(0.038, prompt)))
(share,) = whose(f, 'answer/own')
assert (share['comm'], share['netns']) == ('python3', 'tcplat-b'), share"
	python "
listen, syn, accept = watch('listen syn accept', lambda: (crowd(8, 0.5), enter('b')))
(share,) = whose(syn, 'loss/syn')
assert (share['peer'], share['peer_port'], share['netns']) == ('10.9.0.2', 7000, 'tcplat-a'), share
(share,) = whose(accept, 'listen/accept')
assert (share['comm'], share['netns']) == ('python3', 'tcplat-b'), share
(share,) = whose(listen, 'listen/overflows')
assert (share['comm'], share['pid'], share['local_port']) == ('python3', os.getpid(), 7000), share"
}

@test "whose: the peer that does not read; without peerwnd, who waits for the send buffer" {
	set_meanwhile "$TREE/peerwnd/enabled" 1
	python "
def slow(workload='slowreader'):
    subprocess.run([os.environ['TRAFFIC'], workload, '-n', '60', '--sndbuf', '8192', '--settle'], check=True, stdout=sys.stderr)
f, _ = watch('peerwnd unread', slow)
(share,) = whose(f, 'peerwnd/wait')
assert share['peer'] == '127.0.0.1', share
with open('$TREE/peerwnd/enabled', 'w') as enabled:
    enabled.write('0')
f, _ = watch('sndwait unread', slow)
(share,) = whose(f, 'sndwait/waits')
assert (share['comm'], share['peer']) == ('traffic', '127.0.0.1'), share
(f,) = watch('again', slow, 'again')
whose(f, 'sndwait/again_hist')"
}

@test "whose: a namespace that runs out of ports, with its own settings" {
	python "
(f,) = watch('exhausted', without_ports, 15, False)
(share,) = whose(f, 'portsearch/exhausted')
assert (share['comm'], share['netns'], share['count']) == ('python3', 'tcplat-a', 5), share
assert 'ip_local_port_range, which is 30000 30009 there' in f['remedy'], f
assert f['settings']['net.ipv4.ip_local_port_range'] == '30000 30009', f"
}
