#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A client asks, and a program takes its time to answer. If it takes 10 ms or more, by the clocks
# of both programs, the answer is late: at the server (own) and at the client (peer), by as much as
# the clocks say. Nothing else that is sent is late. Only this finds late answers that are missed,
# invented or given a wrong time.

# shellcheck disable=SC2154 # helpers.bash sets sum, pair.bash said
# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

load ../pair

setup() {
	untraced
	veth_pair delay 1ms
	reset_counters
}

# exchange(): N requests of SIZE bytes, each answered PAUSE seconds after its last byte was read, in
# PARTS of REPLY bytes with GAP seconds between them, held back by HOLD (cork, more) until the last
# one; the client asks again after THINK seconds. A QUICK server sets TCP_QUICKACK before each recv();
# a LAZY one pauses before it reads. The function MADE makes the connection, and the server sends with
# the function SEND. Says how long the server took (own) and how long the client waited (peer), in ns.
# shellcheck disable=SC2034 # python() uses it
PRELUDE="
import mmap
def plain(c, data, flags):
    c.sendall(data, flags)
def sendfile(c, data, flags):
    with open('answer', 'wb+', 0) as f:
        f.write(data)
        os.sendfile(c.fileno(), f.fileno(), 0, len(data))
def splice(c, data, flags):
    r, w = os.pipe()
    os.write(w, data)
    os.splice(r, c.fileno(), len(data))
    os.close(r)
    os.close(w)
# A ring for one IORING_OP_SEND.
def uring(c, data, flags):
    params = ctypes.create_string_buffer(120)
    fd = libc.syscall(425, 1, params)
    tail, array = struct.unpack_from('I', params, 44)[0], struct.unpack_from('I', params, 64)[0]
    ring, sqes = mmap.mmap(fd, array + 4), mmap.mmap(fd, 64, offset=0x10000000)
    text = ctypes.create_string_buffer(data, len(data))
    struct.pack_into('BBHiQQII', sqes, 0, 26, 0, 0, c.fileno(), 0, ctypes.addressof(text), len(data), flags)
    struct.pack_into('I', ring, array, 0)
    struct.pack_into('I', ring, tail, 1)
    assert libc.syscall(426, fd, 1, 1, 1, None, 0) == 1
    os.close(fd)
# The server encrypts, and the client decrypts, with a key of zeros.
def ktls(family):
    s, c = connected(family)
    for end, way in ((c, 1), (s, 2)):
        end.setsockopt(socket.IPPROTO_TCP, 31, b'tls')
        end.setsockopt(282, way, struct.pack('HH36x', 0x303, 51))
    return s, c
def mptcp(family):
    return connected(family, 262)
def connected(family, protocol=0):
    l = listener(family, protocol=protocol)
    s = client(family, protocol)
    s.connect((ADDRESS[family], 7000))
    c, _ = l.accept()
    for end in (s, c):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s, c
def paced(family):
    ends = connected(family)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, 47, 1000000)  # SO_MAX_PACING_RATE
    return ends
def read(s, size, quick=False):
    while size:
        if quick:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        size -= len(s.recv(size))
def exchange(family, n, pause, size=100, parts=1, reply=50, hold='', gap=0, think=0,
             quick=False, lazy=False, send=plain, made=connected):
    s, c = made(family)
    took = []
    def serve():
        for i in range(n):
            if lazy:
                c.recv(size, socket.MSG_PEEK)
            else:
                read(c, size, quick)
            since = time.monotonic_ns()
            if pause:
                time.sleep(pause)
            if lazy:
                read(c, size)
            if hold == 'cork':
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            for part in range(parts):
                if part and gap:
                    time.sleep(gap)
                if not part:
                    took.append(time.monotonic_ns() - since)
                send(c, b'x' * reply, socket.MSG_MORE if hold == 'more' and part < parts - 1 else 0)
            if hold == 'cork':
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    server = threading.Thread(target=serve)
    server.start()
    waited = 0
    for i in range(n):
        since = time.monotonic_ns()
        s.sendall(b'x' * size)
        read(s, 50)
        waited += time.monotonic_ns() - since
        read(s, reply * parts - 50)
        if think and i < n - 1:
            time.sleep(think)
    server.join()
    print(f'own={sum(took)}\npeer={waited}')
    return s, c"

# answers CODE: runs it, and checks what holds for all figures.
answers() {
	local kind
	python "$1"
	for kind in own peer; do
		echo "# $kind: $(counter answer/$kind), $(counter answer/${kind}_time_ns) ns"
		hist_sum "answer/${kind}_hist"
		same "in the histogram" "$sum" "$(counter answer/$kind)"
	done
	same missed "$(counter answer/missed)" 0
}

# near KIND N: this time is that of the programs, within a tick and 2 ms for each of N.
near() {
	local tick ns difference
	counter_into tick clock/tick_ns
	counter_into ns "answer/${1}_time_ns"
	difference=$((ns - said[$1]))
	((${difference#-} <= $2 * (tick + 2000000))) || fail "$1: $ns ns, the programs took ${said[$1]}"
}

# counts OWN PEER: how many.
counts() { same "own, peer" "$(counter answer/own) $(counter answer/peer)" "$1 $2"; }

# late FAMILY MS [ARGUMENT...]: ten answers that are late by MS are all counted, at both ends.
late() {
	answers "exchange($1, 10, $2 / 1000${3:+, $3})"
	counts 10 10
	near own 10
	said[peer]=$((said[peer] - 10 * 2000000))
	near peer 10
}

@test "a program that takes 12 ms" { each_family late 12; }
@test "a program that takes 38 ms" { each_family late 38; }
@test "a program that takes 60 ms, longer than an ACK is delayed" { late 4 60; }
@test "a program that takes 500 ms" { late 6 500; }
@test "a program that reads only after 38 ms" { late 4 38 'lazy=True'; }
@test "38 ms and TCP_QUICKACK before each recv()" { late 4 38 'quick=True'; }
@test "60 ms and TCP_QUICKACK before each recv()" { late 6 60 'quick=True'; }
@test "38 ms after requests of many segments" { late 4 38 'size=20000'; }
@test "answers in three writes at once are one answer" { late 4 38 'parts=3'; }
@test "answers in two writes 38 ms apart are one answer" { late 6 38 'parts=2, gap=0.038'; }
@test "answers of 200,000 bytes in one write" { late 4 38 'reply=200000'; }
@test "answers of three writes that a cork holds back are one answer" { late 6 38 "parts=3, hold='cork'"; }
@test "answers of three writes with MSG_MORE are one answer" { late 4 38 "parts=3, hold='more'"; }

@test "38 ms, by sendfile()" { late 4 38 'send=sendfile'; }
@test "38 ms, by splice()" { late 6 38 'send=splice'; }

@test "38 ms, by io_uring" {
	python "
libc.syscall(425, 0, None)
print('errno=%d' % ctypes.get_errno())"
	((said[errno] != 38)) || skip "this kernel has no io_uring"
	late 4 38 'send=uring'
}

@test "38 ms, with kTLS" {
	needs_tls
	late 6 38 'made=ktls'
}

@test "38 ms, with MPTCP" {
	[[ -e /proc/sys/net/mptcp/enabled ]] || skip "this kernel has no MPTCP"
	late 4 38 'made=mptcp'
}

# The program answers at once; the ACK that opens the peer's window lets MPTCP send it.
@test "what MPTCP sends after an ACK is no answer of a program" {
	[[ -e /proc/sys/net/mptcp/enabled ]] || skip "this kernel has no MPTCP"
	python "
l = listener(4, protocol=262)
s = client(4, 262)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
s.connect((ADDRESS[4], 7000))
c, _ = l.accept()
c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400000)
for data, seconds in (b'x' * 300000, 0.006), (b'answer', 0.05):
    s.sendall(b'request')
    read(c, 7)
    c.sendall(data)
    time.sleep(seconds)
read(s, 300006)"
	same own "$(counter answer/own)" 0
}

@test "prompt answers are not late, and what follows them 38 ms later is no answer" {
	local tries
	answers "exchange(4, 10, 0)"
	counts 0 0
	answers "exchange(6, 10, 0, parts=2, gap=0.038)"
	counts 0 0
	answers "exchange(4, 10, 0.004, quick=True)"
	counts 0 0
	for tries in -4 -6; do
		"$TRAFFIC" rr "$tries" -n 100 --settle
		"$TRAFFIC" wwr "$tries" -n 10 --settle
	done
	counts 0 0
}

@test "what follows an answer later is none, after keepalive probes of either end, or a FIN" {
	answers "
def keep_alive(end):
    for option in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL:
        end.setsockopt(socket.IPPROTO_TCP, option, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
for probes in 0, 1, None:
    s, c = ends = connected(4)
    if probes is not None:
        keep_alive(ends[probes])
    for i in range(3):
        s.sendall(b'request')
        read(c, 7)
        c.sendall(b'answer')
        read(s, 6, True)
        if probes is not None:
            time.sleep(1.5)
        elif i == 2:
            s.shutdown(socket.SHUT_WR)
            time.sleep(0.3)
        c.sendall(b'more')
        read(s, 4, True)
    s.close()
    c.close()
print('own=0')"
	counts 0 0
}

@test "the same without SACK, where late answers of programs are" {
	without_sack
	answers "exchange(6, 10, 0, parts=2, gap=0.038)"
	counts 0 0
	python "exchange(4, 10, 0.06)"
	same own "$(counter answer/own)" 10
}

# With pacing, the kernel's time of the last segment is when the next one may be sent.
@test "the same with pacing, and quick ACKs" {
	answers "
s, c = paced(4)
for i in range(30):
    s.sendall(b'request')
    read(c, 7)
    c.sendall(b'answer')
    read(s, 6, True)
    time.sleep(0.038)
    c.sendall(b'more')
    read(s, 4, True)
print('own=0')"
	counts 0 0
	python "exchange(4, 30, 0.038, made=paced)"
	same own "$(counter answer/own)" 30
}

# The first data of a connection is no answer if it is a request or a greeting.
@test "the first write of a connection, 38 ms late, is no answer" {
	answers "
s, c = connected(4)
time.sleep(0.038)
s.sendall(b'request')
read(c, 7)
c.sendall(b'answer')
read(s, 6)
print('own=0')"
	counts 0 0
	answers "
s, c = connected(6)
time.sleep(0.038)
c.sendall(b'greeting')
read(s, 8)
print('own=0')"
	counts 0 0
}

@test "a FIN is no request, and data with a FIN is one" {
	answers "
s, c = connected(4)
s.sendall(b'request')
read(c, 7)
c.sendall(b'answer')
read(s, 6)
time.sleep(0.1)
s.shutdown(socket.SHUT_WR)
assert not c.recv(1)
c.sendall(b'bye')
read(s, 3)"
	counts 0 0
	answers "
s, c = connected(6)
time.sleep(0.1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
s.sendall(b'request')
s.shutdown(socket.SHUT_WR)
read(c, 7)
since = time.monotonic_ns()
time.sleep(0.038)
c.sendall(b'answer')
print(f'own={time.monotonic_ns() - since}')
read(s, 6)"
	counts 1 1
	near own 1
}

@test "keepalive probes between a request and its answer do not shorten the answer" {
	answers "
s, c = connected(4)
time.sleep(0.1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
since = time.monotonic_ns()
s.sendall(b'request')
read(c, 7)
began = time.monotonic_ns()
time.sleep(2.5)
c.sendall(b'answer')
print(f'own={time.monotonic_ns() - began}')
read(s, 6)
print(f'peer={time.monotonic_ns() - since}')"
	counts 1 1
	near own 1
	said[peer]=$((said[peer] - 2000000))
	near peer 1
}

# A client that thinks looks like a program that answers: each request but the first comes 38 ms
# after the data before it. The ABI says so.
@test "a client that thinks 38 ms between requests counts as own, and at the server as peer" {
	answers "exchange(4, 10, 0, think=0.038)"
	counts 9 9
}

# Only the first answer has all requests before it.
@test "16 requests in flight: one answer is late, at each end" {
	answers "
s, c = connected(4)
for i in range(16):
    s.sendall(b'x' * 100)
read(c, 1600)
since = time.monotonic_ns()
time.sleep(0.038)
print(f'own={time.monotonic_ns() - since}')
for i in range(16):
    c.sendall(b'x' * 50)
read(s, 800)"
	counts 1 1
	near own 1
}

@test "a server that sends on its own every 38 ms is no answer, but for the first" {
	answers "
s, c = connected(4)
s.sendall(b'subscribe')
read(c, 9)
for i in range(10):
    time.sleep(0.038)
    c.sendall(b'x' * 50)
    read(s, 50)
print('own=0')"
	counts 1 1
}

# The request comes with the SYN, jiffies before the ACK of the handshake.
fastopen() {
	answers "
netem('a', 'delay', '15ms')
l, s = fast_open($1, b'request')
c, _ = l.accept()
assert c.recv(10, socket.MSG_DONTWAIT) == b'request'
since = time.monotonic_ns()
time.sleep(0.038)
print(f'own={time.monotonic_ns() - since}')
for part in b'answer', b'more':
    c.sendall(part)
    read(s, len(part))
    time.sleep(0.038)"
	# The client's last segment was an ACK, that of the handshake.
	counts 1 0
	near own 1
}

@test "38 ms for a request with TCP Fast Open" { each_family fastopen; }

# away RTT: a peer that is RTT ms away is late only if its program is.
away() {
	answers "
for side in 'ab':
    netem(side, 'delay', '$(($1 * 500))us')
exchange(4, 6, 0)"
	counts 0 0
	answers "exchange(6, 6, 0.038)"
	counts 6 6
	said[peer]=$((said[peer] - 6 * $1 * 1000000))
	near peer 6
}

@test "a peer that is as near as can be" { away 0; }
@test "a peer that is 20 ms away" { away 20; }
@test "a peer that is 100 ms away" { away 100; }

# The program was prompt: the answer was lost, or a cork held it back.
@test "an answer that is lost, and one that a cork holds back, are late at the client only" {
	answers "
s, c = connected(4)
for end in (s, c):
    end.settimeout(20)
since = time.monotonic_ns()
s.sendall(b'request')
read(c, 7)
own = time.monotonic_ns()
netem('b', 'loss', '100%')
# A slow tc makes the program late, too.
print(f'own={int(time.monotonic_ns() - own >= 9900000)}')
c.sendall(b'answer')
# The answer is sent again after 200 ms.
netem('b', 'delay', '1ms')
read(s, 6)
peer = time.monotonic_ns() - since
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
since = time.monotonic_ns()
s.sendall(b'request')
read(c, 7)
c.sendall(b'answer')
read(s, 6)
peer += time.monotonic_ns() - since
print(f'peer={peer - 2 * 2000000}')"
	counts "${said[own]}" 2
	near peer 2
	((said[peer] > 300000000)) || fail "nothing was late"
}

@test "a late answer is an event; its own process answers" {
	local kind
	trace_event late_answer
	late 6 38
	echo 0 >"$TRACING/events/tcplat/late_answer/enable"
	for kind in own peer; do
		same "$kind" "$(traced_times late_answer " kind=$kind ")" \
			"$(counter answer/$kind) $(counter "answer/${kind}_time_ns")"
	done
	run grep -cE '^ *python3-[0-9]+ .* late_answer: .* saddr=\[fd09::2\]:7000 .* kind=own' "$TRACING/trace"
	assert_output 10
}
