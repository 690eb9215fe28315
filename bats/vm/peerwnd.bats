#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A sender has data, but its peer has no room for it: the peer reads slowly, or its buffer is
# small. The waits must add up to what the sender's TCP_INFO says (tcpi_rwnd_limited), and the
# probes of a closed window are TcpExtTCPWinProbe. Only this finds such waits that are missed or
# invented.

# shellcheck disable=SC2154 # helpers.bash sets sum, pair.bash said

load ../pair

setup() {
	untraced
	veth_pair delay 25ms
	from_zero
}

# The kernel's count of probes cannot be reset.
from_zero() {
	reset_counters
	earlier=$(tcp_ext TCPWinProbe)
}

# shellcheck disable=SC2034 # python() uses it
PRELUDE="
def limited(s):
    '''tcpi_rwnd_limited, in us; its offset never changes.'''
    return struct.unpack('Q', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[176:184])[0]
def upload(family, size, rcvbuf=None, each=None, pause=0):
    '''Sends size bytes to a reader that pauses after each so many.'''
    l = listener(family)
    if rcvbuf:
        l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    s = client(family)
    s.connect((ADDRESS[family], 7000))
    c, _ = l.accept()
    def read():
        left = size
        while left:
            if pause:
                time.sleep(pause)
            left -= len(c.recv(min(left, each or 65536)))
    reader = threading.Thread(target=read)
    reader.start()
    s.sendall(b'x' * size)
    reader.join()
    time.sleep(0.2)
    print(f'limited={limited(s)}')"

# agree: the waits add up to the sender's figure, within a tick per wait.
agree() {
	local ns waits tick difference
	counter_into tick clock/tick_ns
	counter_into waits peerwnd/wait
	counter_into ns peerwnd/wait_time_ns
	echo "# $waits waits, $ns ns, $(counter peerwnd/probes) probes"
	difference=$((ns - said[limited] * 1000))
	((${difference#-} <= waits * tick)) || fail "$ns ns, the sender says ${said[limited]} us"
	hist_sum peerwnd/wait_hist
	same "in the histogram" "$sum" "$waits"
	same "probes" "$(counter peerwnd/probes)" $(($(tcp_ext TCPWinProbe) - earlier))
	same "missed" "$(counter peerwnd/missed)" 0
}

# limits ARGUMENTS: an upload with these is limited by the window for half a second or more.
limits() {
	python "upload($1)"
	agree
	((said[limited] > 500000)) || fail "the window was no limit"
}

small_window() { limits "$1, 500000, rcvbuf=8192"; }
slow_reader() {
	# ackmode would have a look at most segments.
	set_meanwhile "$TREE/ackmode/enabled" 0
	limits "$1, 300000, rcvbuf=16384, each=16384, pause=0.05"
}

@test "a small SO_RCVBUF over 50 ms" { each_family small_window; }
@test "a slow reader" { each_family slow_reader; }

# The reader does not read for seconds, and the kernel probes the closed window.
closed() {
	python "upload($1, 200000, rcvbuf=8192, each=1000000, pause=1.5)"
	agree
	(($(counter peerwnd/probes) > 0)) || fail "no probe"
	(($(counter peerwnd/wait_time_max_ns) > 1000000000)) || fail "no wait of a second"
}

@test "a closed window and probes" { each_family closed; }

@test "a window of less than one segment of 9000 bytes" {
	ip -n tcplat-a link set veth-a mtu 9000
	ip -n tcplat-b link set veth-b mtu 9000
	python "upload(4, 60000, rcvbuf=6000)"
	agree
	((said[limited] > 100000)) || fail "the window was no limit"
}

# The probe timer also sends data that a cork held back, which is no probe of the window.
@test "corked data that the probe timer sends is no probe" {
	python "
l = listener(4)
s = client(4)
s.connect((ADDRESS[4], 7000))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
for i in range(3):
    s.send(b'x')
    time.sleep(0.5)
print(f'limited={limited(s)}')"
	agree
	same "probes" "$(counter peerwnd/probes)" 0
}

@test "without a limit nothing is counted" {
	between bulk 10.9.0.2 -n 1 -s 40000 --direction both
	between rr fd09::2 -n 50
	same "waits, probes" "$(counter peerwnd/wait) $(counter peerwnd/probes)" "0 0"
}

@test "a wait is an event of the sender" {
	trace_event window_wait
	small_window 6
	echo 0 >"$TRACING/events/tcplat/window_wait/enable"
	same events "$(grep -cE ' window_wait: .* saddr=\[fd09::1\]:[1-9][0-9]* daddr=\[fd09::2\]:7000 .* time_ns=' "$TRACING/trace")" \
		"$(counter peerwnd/wait)"
	same "events, time" "$(traced_times window_wait)" "$(counter peerwnd/wait) $(counter peerwnd/wait_time_ns)"
}
