#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Each cause of a change of mode in isolation; ackmode.bats has them mixed by traffic. Each cause
# must be recognized when no other is present, all together must leave nothing unexplained, and
# `unexplained` must grow if the cause is unknown. The BPF program (bats/oracle/ackmode.bpf.c) sees
# the kernel's functions change the mode. Only this finds a cause that is taken for another.

# shellcheck disable=SC2154 # keys of associative arrays
# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

load ../ackmode
load ../oracle_setup

# only CAUSE... [or CAUSE...]: the oracle has seen each of these causes; those after "or" may occur
# on a slow machine; there are no others.
only() {
	local words cause n
	for words in "${O_some[@]}"; do
		is_change "$words" || continue
		[[ " $* " == *" ${words##* } "* ]] || fail "$words ${O[$words]}: unexpected cause"
	done
	for cause; do
		[[ $cause != or ]] || return 0
		of O "$ANY $ANY $cause"
		((n)) || fail "nothing changed by $cause"
	done
}

# pairs FAMILY PYTHON [N [BEFORE]]: runs BEFORE with the sockets listener and c, which is the
# client's, opens a connection, and runs PYTHON with the server's socket s, too; N (20) times.
pairs() {
	python3 - "$1" "$2" "${3:-20}" "${4-}" <<-'END'
		import socket, struct, sys, time
		family, address = ((socket.AF_INET6, "::1") if sys.argv[1] == "-6"
		                   else (socket.AF_INET, "127.0.0.1"))
		# Requests and replies until the server is in pingpong mode.
		def answers():
		    for _ in range(4):
		        c.send(b"x"); s.recv(1); s.send(b"x"); c.recv(1)
		        if not s.getsockopt(6, 12):
		            return
		        time.sleep(0.008)
		    sys.exit("no pingpong mode")
		for _ in range(int(sys.argv[3])):
		    listener = socket.create_server((address, 0), family=family)
		    c = socket.socket(family)
		    exec(sys.argv[4])
		    c.connect(listener.getsockname())
		    s = listener.accept()[0]
		    exec(sys.argv[2])
	END
}

@test "first: the connection's first data" {
	watch_both 'seen delayed quickack first 20; only first fin or timeout' pairs @ \
		's.setsockopt(6, 12, 1); c.send(b"x"); s.recv(1); s.close(); c.close()'
}

@test "gap and budget: quick ACKs are spent, and come back after a silence" {
	exactly() {
		local n
		of O "$2 $3 $4"
		same "$4" "$n" "$1"
	}
	spent() {
		exactly 6 delayed quickack gap
		exactly 9 quickack delayed budget
		only first gap budget fin or timeout
	}
	# 16 quick ACKs at a time; the first of them is for the first data. So there are six
	# silences, and nine rounds of 16.
	watch_both spent pairs @ '
for _ in range(3):
    for _ in range(20):
        c.send(b"x"); s.recv(1); time.sleep(0.06)
    time.sleep(0.5)
s.close(); c.close()' 3
}

@test "duplicate: everything comes twice" {
	veth_pair delay 1ms
	on_veth delay 1ms duplicate 100%
	local checks='seen pingpong quickack duplicate 50; only first answer duplicate'
	# Each duplicate takes back what one reply has done for pingpong mode.
	((!${#PACED[@]})) || checks='only first'
	watch_both "$checks" between rr @ -n 50
}

@test "ecn: packets are marked" {
	veth_pair delay 1ms
	with_ecn
	# Packets are marked instead of lost, but only after the handshake: losing it would disable
	# ECN.
	marked() {
		local marking
		on_veth delay 1ms
		{
			sleep 1
			on_veth delay 1ms loss 30% ecn
		} &
		marking=$!
		between rr "$1" -n 60 --interval 50
		wait "$marking"
	}
	watch_both 'seen pingpong quickack ecn 3' marked @
	(($(FIRST_NETNS='' kernel_counts netstat IpExt InCEPkts) > 0)) || fail "no packet was marked"
}

@test "handshake: its ACK waits for data" {
	watch_both 'seen delayed quickack handshake 20' traffic crr @ -n 20 --defer-accept
}

@test "fin: the peer closes" {
	fins() {
		local n
		of O "$ANY $ANY fin"
		same "changes by a FIN" "$n" 20
	}
	watch_both 'seen delayed pingpong fin 20; only fin or timeout; fins' pairs @ \
		'c.shutdown(1); s.recv(1); s.close(); c.close()'
}

@test "window: a buffer that is half full, and a window that is raised" {
	local family n tries
	# Within 16 quick ACKs.
	watch_both 'seen quickack delayed window 20' pairs @ '
for size in (1, 15000, 15000, 15000, 13000): c.send(b"x" * size); time.sleep(0.02)
s.recv(50000); s.close(); c.close()' 20 'listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)'
	# A window is raised only if more data comes at once than before, which a reader that keeps up
	# with the sender prevents.
	for family in -4 -6; do
		for ((tries = 0, n = 0; !n && tries < 10; tries++)); do
			watch traffic bulk "$family" -n 64
			of O "delayed quickack window"
		done
		seen delayed quickack window
	done
}

@test "setsockopt: TCP_QUICKACK 0, on a socket, before connect() and on the listener" {
	watch_both 'seen delayed pingpong setsockopt 20; only setsockopt fin or timeout' pairs @ \
		's.setsockopt(6, 12, 0); s.close(); c.close()'
	# The client sends quick ACKs after the handshake for this.
	watch_both 'seen delayed quickack handshake 20' pairs @ \
		'time.sleep(0.3); c.close(); s.close()' 20 'c.setsockopt(6, 12, 0)'
	watch_both 'seen delayed pingpong setsockopt 20' pairs @ \
		's.close(); c.close()' 20 'listener.setsockopt(6, 12, 0)'
}

@test "disconnect: reset by close()" {
	watch_both 'seen pingpong delayed disconnect 20; only first answer disconnect' pairs @ \
		'answers()
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close(); c.close()'
}

@test "all at once, with loss, reordering, duplicates and marks: nothing is unexplained" {
	veth_pair delay 1ms
	with_ecn
	mixed() {
		local to=$1
		on_veth delay 5ms 2ms loss 2% reorder 80% 25% duplicate 5%
		between bulk "$to" -n 40 --direction both
		between wwr "$to" -n 20
		between crr "$to" -n 40
		on_veth delay 2ms 1ms loss 5% ecn duplicate 2%
		between bulk "$to" -n 20 --direction both
		between rr "$to" -n 100 -s 300 --reply 3000
		between crr "$to" -n 40
		between oneway "$to" -n 20
		between halfclose "$to"
		between slowreader "$to" -n 20
	}
	enough() {
		local n cause
		of O "$CHANGE"
		echo "# $n changes" >&3
		((n >= 300)) || fail "only $n changes"
		for cause in first answer budget duplicate ecn window fin timeout; do
			seen "$ANY" "$ANY" "$cause"
		done
	}
	watch_both enough mixed @
}

@test "unexplained: tcp_pingpong_thresh changes while sockets live" {
	local thresh=/proc/sys/net/ipv4/tcp_pingpong_thresh value
	[[ -e $thresh ]] || skip "this kernel has no tcp_pingpong_thresh"
	all_dead
	reset_counters
	oracle_reset
	{
		sleep 1
		echo 200 >"$thresh"
		sleep 2
		echo 1 >"$thresh"
	} &
	traffic rr -n 40 --interval 100
	wait $!
	all_dead
	oracle_read
	of O "$ANY $ANY none"
	counter_into value ackmode/unexplained
	((n >= 2)) || fail "only $n changes that nothing explains"
	same unexplained "$value" "$n"
	assert_agree
}
