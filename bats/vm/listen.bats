#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A program does not call accept() for a while. If its queue is full, clients are turned away:
# these overflows are as many as the kernel counts. If it has room, clients wait in it, as long as
# the programs' clocks say. Only this finds overflows that are missed and waits that are missed,
# invented or given a wrong time.

# shellcheck disable=SC2154 # helpers.bash sets sum, pair.bash said

load ../pair

setup() {
	untraced
	veth_pair delay 2ms
	from_zero
}

# The kernel's count of overflows cannot be reset.
from_zero() {
	reset_counters
	earlier=$(tcp_ext ListenOverflows)
}

# ---- overflows ----

# As many as the kernel counted, of which some were SYNs and some final ACKs.
overflows_agree() {
	local kernel
	kernel=$(($(tcp_ext ListenOverflows) - earlier))
	((kernel > 0)) || fail "no overflow"
	same overflows "$(counter listen/overflows)" "$kernel"
	same missed "$(counter listen/missed)" 0
}

# shellcheck disable=SC2034 # python() uses it
PRELUDE="
clients = []
def connects(n, family):
    for i in range(n):
        s = client(family)
        s.setblocking(False)
        s.connect_ex((ADDRESS[family], 7000))
        clients.append(s)"

# overfull FAMILY [COOKIES]: eight clients connect at once to a listener with a backlog of 1
# that accepts nobody: their SYNs find the queue empty, most of their ACKs find it full; eight more
# find it full with their SYNs. Each tries again, some times.
overfull() {
	ip netns exec tcplat-b sysctl -q net.ipv4.tcp_syncookies="${2:-1}"
	python "
l = listener($1, 1)
connects(8, $1)
time.sleep(0.1)
connects(8, $1)
time.sleep(8)"
	overflows_agree
}

# hits FUNCTION: sets hits to those of the group's probe.
hits() {
	hits=$(awk -v f="$1+" '$1 == "listen" && index($2, f) == 1 { print $6 }' "$DEBUG/probes")
}

both_places() {
	local syns acks
	overfull "$@"
	hits tcp_conn_request
	syns=$hits
	hits "tcp_v$1_syn_recv_sock"
	acks=$hits
	((syns >= 16 && acks > 2)) || fail "$syns SYNs, $acks ACKs"
}

@test "overflows" { each_family both_places; }
@test "overflows with SYN cookies for all" { each_family both_places 2; }

# With a backlog of 1, the queue of requests is full too, and without cookies the kernel counts a
# dropped SYN in TCPReqQFullDrop.
@test "overflows without SYN cookies: SYNs that find both queues full are no overflows" {
	local dropped
	overfull 4 0
	dropped=$(tcp_ext TCPReqQFullDrop)
	((dropped > 0)) || fail "the queue of requests was never full"
}

@test "overflows_unseen is what the kernel counted and disarmed probes did not see" {
	unload_module
	load_module attach=kprobe
	set_meanwhile "$ARMED" 0
	python "
l = listener(4, 1)
connects(8, 4)
time.sleep(4)"
	echo 1 >"$ARMED"
	(($(tcp_ext ListenOverflows) > 0)) || fail "no overflow"
	same "seen, unseen" "$(counter listen/overflows) $(counter listen/overflows_unseen)" \
		"0 $(tcp_ext ListenOverflows)"
	unload_module
	load_module
}

@test "overflows of a listener of IPv6 with clients of IPv4" {
	python "
enter('b')
l = socket.socket(socket.AF_INET6)
l.bind(('::', 7000))
l.listen(1)
connects(8, 4)
time.sleep(4)"
	overflows_agree
}

@test "an overflow is an event with the listener's port, backlog and cgroup" {
	local id n
	cgroups
	mkdir /sys/fs/cgroup/tcplat-listen
	id=$(stat -c %i /sys/fs/cgroup/tcplat-listen)
	trace_event listen_overflow
	in_cgroup tcplat-listen overfull 6
	echo 0 >"$TRACING/events/tcplat/listen_overflow/enable"
	no_sockets
	rmdir /sys/fs/cgroup/tcplat-listen
	run grep -c "listen_overflow: netns=[0-9]* family=inet6 saddr=\[fd09::2\]:7000 daddr=\[::\]:0 cookie=[0-9a-f]* cgroup=$id backlog=1\$" \
		"$TRACING/trace"
	n=$output
	same events "$n" "$(counter listen/overflows)"
	((n > 0)) || fail "no event"
}

@test "a listener that accepts has no overflows" {
	between crr 10.9.0.2 -n 30
	between crr fd09::2 -n 30
	same "overflows" "$(counter listen/overflows) $(tcp_ext ListenOverflows)" "0 0"
	needs_accept
	hits security_sock_graft
	((hits >= 60)) || fail "$hits connections were accepted"
	same "late" "$(counter listen/accept)" 0
}

# ---- waits ----

# The kernels that are built for tests of HZ have no CONFIG_SECURITY_NETWORK.
needs_accept() {
	[[ -e $TREE/listen/accept ]] || {
		finds_nothing -x CONFIG_SECURITY_NETWORK=y "$TCPLAT_CONFIG"
		skip "this kernel has no security_sock_graft()"
	}
}

# late LATE: the programs saw LATE connections that waited 10 ms or more, for said[waited] ns.
late() {
	local ns difference
	same "late" "$(counter listen/accept)" "$1"
	counter_into ns listen/accept_time_ns
	difference=$((ns - said[waited]))
	((${difference#-} <= $1 * 5000000)) || fail "$ns ns, ${said[waited]} by the programs' clock"
	hist_sum listen/accept_hist
	same "in the histogram" "$sum" "$1"
	same "missed" "$(counter listen/missed)" 0
}

# What the programs measure: from when connect() returned, a one-way delay before the connection is
# in the queue, until accept() returns. The others are accepted in 1 ms or less.
WAITS="
import select
def waits(how, family, each, count=6):
    l = listener(family)
    l.setblocking(how == 'blocking')
    waited = 0
    for i in range(count):
        s = client(family)
        s.connect((ADDRESS[family], 7000))
        since = time.monotonic_ns()
        time.sleep(each if i % 2 else 0.004)
        if how != 'blocking':
            select.select([l], [], [])
        c, _ = l.accept()
        if i % 2:
            waited += time.monotonic_ns() - since - 2000000
        c.close()
        s.close()
    print(f'waited={waited}')
"

# waits FAMILY HOW SECONDS
waits() {
	needs_accept
	python "$WAITS
waits('$2', $1, $3)"
	late 3
}

@test "accept() that blocks, 30 ms late" { each_family waits blocking 0.03; }
@test "accept() that does not block, 16 ms late" { each_family waits not 0.016; }

# It has entered inet_csk_accept() before there is a connection, and does not run for 50 ms.
@test "accept() that is woken up and does not get to run" {
	needs_accept
	python "
import signal
l = listener(4)
child = os.fork()
if not child:
    l.accept()
    time.sleep(100)
time.sleep(0.2)
os.kill(child, signal.SIGSTOP)
time.sleep(0.1)
s = client(4)
s.connect((ADDRESS[4], 7000))
since = time.monotonic_ns()
time.sleep(0.05)
os.kill(child, signal.SIGCONT)
print(f'waited={time.monotonic_ns() - since - 2000000}')
time.sleep(0.1)
os.kill(child, signal.SIGKILL)
os.wait()"
	late 1
}

# threads FAMILY LISTENERS: eight threads, each with one of LISTENERS sockets, work 50 ms on each
# connection. 32 connections come at once; each thread tells which it got, and when.
threads() {
	needs_accept
	python "
import struct
l = []
for i in range($2):
    enter('b')
    s = socket.socket(FAMILY[$1])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((ADDRESS[$1], 7000))
    s.listen(64)
    l.append(s)
begun = {}
waited = []
def serve(s):
    while True:
        c, peer = s.accept()
        waited.append((peer[1], time.monotonic_ns()))
        time.sleep(0.05)
        c.close()
clients = [client($1) for i in range(32)]
for s in clients:
    s.connect((ADDRESS[$1], 7000))
    begun[s.getsockname()[1]] = time.monotonic_ns()
time.sleep(0.03)
for i in range(8):
    threading.Thread(target=serve, args=(l[i % $2],), daemon=True).start()
while len(waited) < 32:
    time.sleep(0.01)
print(f'waited={sum(at - begun[port] - 2000000 for port, at in waited)}')"
	late 32
}

@test "eight threads" { each_family threads 1; }
@test "eight threads and SO_REUSEPORT" { each_family threads 2; }

@test "a wait is an event of the process that accepts" {
	needs_accept
	trace_event accept_wait
	waits 6 blocking 0.03
	echo 0 >"$TRACING/events/tcplat/accept_wait/enable"
	run grep -cE '^ *python3-[0-9]+ .* accept_wait: .* saddr=\[fd09::2\]:7000 daddr=\[fd09::1\]:[1-9][0-9]* .* time_ns=' \
		"$TRACING/trace"
	assert_output 3
	same "events, time" "$(traced_times accept_wait)" "3 $(counter listen/accept_time_ns)"
}

@test "other sockets that are accepted count nowhere" {
	local before
	needs_accept
	hits security_sock_graft
	before=$hits
	python "
l = socket.socket(socket.AF_UNIX)
l.bind('\0tcplat')
l.listen()
s = socket.socket(socket.AF_UNIX)
s.connect('\0tcplat')
time.sleep(0.05)
l.accept()
print('waited=0')"
	hits security_sock_graft
	same "accepted" "$((hits - before))" 1
	late 0
}
