#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Counters under load, compared with the kernel's (/proc/net/netstat), BPF's (ackmode.bash) and
# kprobe events: many sockets, many pending connects, SYN floods, listeners, namespaces and
# processors that come and go. Only this fills ackmode's table and takes processors offline.

# shellcheck disable=SC2154 # ports.bash sets got, did and now; keys of M

load ../ackmode
load ../oracle_setup
load ../ports

SYNFLOOD=$BATS_TEST_DIRNAME/synflood.py
COOKIES=/proc/sys/net/ipv4/tcp_syncookies
BACKLOG=/proc/sys/net/core/somaxconn

# The number of sockets in a crowd, which then fills the table.
SLOTS=$(many 4096 65536)

# Unlike those of oracle_setup.bash, with a table of that size.
setup_file() {
	! loaded || unload_module
	no_sockets
	load_module "sockets=$SLOTS"
	oracle_start
}

setup() {
	untraced
	oracle_open
	! loaded || [[ $(</sys/module/tcplat/parameters/sockets) == "$SLOTS" ]] || unload_module
	loaded || load_module "sockets=$SLOTS"
}

teardown() {
	local cpu
	unwatch_acks
	tc qdisc del dev lo root 2>/dev/null || :
	ip link del flooded 2>/dev/null || :
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		[[ ! -e $cpu || $(<"$cpu") == 1 ]] || echo 1 >"$cpu"
	done
	oracle_close
	tidy
}

# ---- what the kernel counts ----

# both COMMAND...: runs COMMAND, whose sockets must all be closed in the end; then ackmode's
# counts must equal BPF's, and delack's, loss' and listen's the kernel's.
both() { watch counted "$@"; }

# The kernel's counts, and what adds up to the growth of each.
SUMS=(DelayedACKs DelayedACKLocked TCPLossProbes TCPSynRetrans ListenOverflows)
PARTS=(delack/timeouts delack/deferred loss/tlp 'loss/syn loss/synack' listen/overflows)

# counted COMMAND...: runs it; each sum of the module's counts has grown as the kernel's count.
counted() {
	local i part n sum line=''
	local -a before after
	read -ra before < <(tcp_ext "${SUMS[@]}")
	"$@"
	quiet
	read -ra after < <(tcp_ext "${SUMS[@]}")
	for i in "${!SUMS[@]}"; do
		sum=0
		for part in ${PARTS[i]}; do
			counter_into n "$part"
			((sum += n)) || :
		done
		if [[ ${PARTS[i]} == loss/tlp ]]; then
			probes_agree "$sum" $((after[i] - before[i]))
		else
			same "${PARTS[i]}" "$sum" $((after[i] - before[i]))
		fi
		line+=", $sum ${SUMS[i]}"
	done
	echo "# ${line#, }" >&3
	assert_no_absurd_delay
}

# No delay may exceed the kernel's longest plus the time that a busy machine may stand still, and
# no time may be negative.
assert_no_absurd_delay() {
	local hz most sum timeouts file
	counter_into hz clock/hz
	counter_into most delack/delay_max_jiffies
	counter_into sum delack/delay_jiffies
	counter_into timeouts delack/timeouts
	((most <= 30 * hz && sum <= timeouts * most)) ||
		fail "$timeouts delays, $sum jiffies in total, $most at most"
	for file in portsearch bindsearch sndwait; do
		counter_into most "$file/time_max_ns"
		((most <= 600 * 1000000000)) || fail "$file: a time of $most ns"
	done
}

# Counts ACKs by their caller in all namespaces, including those that are deleted.
watch_acks() {
	# shellcheck disable=SC2016 # for the kernel
	echo 'p:tcplat_acks/ack tcp_send_ack by=$stack0:u64' >>"$TRACING/kprobe_events"
	echo 'hist:keys=by.sym' >"$TRACING/events/tcplat_acks/ack/trigger"
}

unwatch_acks() {
	[[ -d $TRACING/events/tcplat_acks ]] || return 0
	echo '!hist:keys=by.sym' >"$TRACING/events/tcplat_acks/ack/trigger"
	echo '-:tcplat_acks/ack' >>"$TRACING/kprobe_events"
}

# Sets acks to the number of ACKs that the delayed-ACK timer sent, and acks_missed.
count_acks() {
	acks=$(sed -n 's/.*tcp_delack_timer_handler.*hitcount: *\([0-9]*\).*/\1/p' \
		"$TRACING/events/tcplat_acks/ack/hist" | awk '{ sum += $1 } END { print sum + 0 }')
	acks_missed=$(awk '$1 == "ack" { print $3 }' "$TRACING/kprobe_profile")
}

# ---- many sockets ----

# grow CONNECTIONS: opens connections, up to 6,250 per server port. Sets listeners.
grow() {
	local left=$1 step port=7000
	start_ports
	while ((left)); do
		step=$((left < 6250 ? left : 6250))
		ask to "$port"
		ask connect "$step" hold
		same connected "${got[connected]}" "$step"
		((++port, left -= step)) || :
	done
	listeners=$((port - 7000))
}

# crowd CONNECTIONS: opens them; twice, both ends of each send, then only the connecting ends.
crowd() {
	local inuse others round mode
	others=$(sed -n 's/^TCP: inuse \([0-9]*\).*/\1/p' /proc/net/sockstat)
	grow "$1"
	inuse=$(sed -n 's/^TCP: inuse \([0-9]*\).*/\1/p' /proc/net/sockstat)
	same "sockets by the kernel" "$((inuse - others - listeners))" "$((2 * $1))"
	same tracked "$(counter ackmode/tracked)" "$((2 * $1))"
	for ((round = 0; round < 2; round++)); do
		ask touch
		ask touch connecting
		quiet
	done
	same tracked "$(counter ackmode/tracked)" "$((2 * $1))"
	module_read
	assert_conserved
	oracle_read
	if ((!O[missed])); then
		for mode in delayed quickack pingpong; do
			same "live $mode" "${M[live $mode]}" "${O[live $mode]}"
		done
	fi
	# Sockets that received last did not answer, so their ACKs were delayed.
	(($(counter delack/timeouts) >= $1)) || fail "only $(counter delack/timeouts) timeouts"
	ask close
	stop_ports
}

@test "a crowd that fills the table: every socket, change and delay is counted" {
	local n
	both crowd "$((SLOTS / 2))"
	same born "${M[born delayed]}" "$SLOTS"
	same untracked "$(counter ackmode/untracked)" 0
	# Each end has changed its mode, and BPF has seen the same changes.
	of M "delayed $ANY +([a-z])"
	((n >= SLOTS)) || fail "only $n changes of $SLOTS sockets"
}

@test "a crowd in a table too small for it: what is left out is counted, and the rest holds" {
	local connections slots tracked untracked n before after words
	connections=$(many 1500 50000)
	slots=$(many 1024 32768)
	unload_module
	load_module "sockets=$slots"
	before=$(tcp_ext DelayedACKs)
	oracle_reset
	grow "$connections"
	ask touch
	ask touch connecting
	quiet
	tracked=$(counter ackmode/tracked)
	# There is room for some more, but for twice as many only if no set stays half empty.
	((tracked >= slots && tracked <= 2 * slots)) || fail "$tracked tracked in a table for $slots"
	module_read
	assert_conserved
	untracked=$(counter ackmode/untracked)
	same "sockets without room" "$untracked" $((2 * connections - tracked))
	# The untracked sockets sent as well, and evicted none.
	(($(counter ackmode/untracked_events) > untracked)) ||
		fail "no event of an untracked socket was counted"
	ask close
	stop_ports
	all_dead
	assert_conserved
	same born "${M[born delayed]}" "$((2 * connections))"
	after=$(tcp_ext DelayedACKs)
	same timeouts "$(counter delack/timeouts)" "$((after - before))"
	oracle_read
	of M "$CHANGE"
	((n > 100)) || fail "only $n changes were counted"
	for words in "${M_some[@]}"; do
		! is_change "$words" || ((${M[$words]} <= ${O[$words]} + O[missed])) ||
			fail "$words: ${M[$words]}, more than BPF's ${O[$words]}"
	done
	unload_module
}

# ---- connects in flight ----

# No answers: 2,000 searches, one after the other, each of which finds its port. Then the peer
# becomes reachable, and all connections are established by retransmitted SYNs.
in_flight() {
	local n
	watch_checks
	start_ports
	tc qdisc add dev lo root netem loss 100% limit 100000
	exactly launch 2000
	assert_iterations $((did[checks] + 2000))
	n=$(ss -Htn state syn-sent | wc -l)
	same "in flight" "$n" 2000
	same tracked "$(counter ackmode/tracked)" 0
	tc qdisc del dev lo root
	ask land
	same landed "${got[landed]}" 2000
	same tracked "$(counter ackmode/tracked)" 4000
	ask touch
	ask touch connecting
	quiet
	ask close
	stop_ports
	events_off
}

@test "2,000 connects in flight" {
	both in_flight
	same born "${M[born delayed]}" 4000
}

# ---- a SYN flood ----

# A link without hosts, behind which the addresses are that synflood.py uses.
nowhere() {
	ip link add flooded type veth peer name nowhere
	sysctl -q net.ipv4.conf.flooded.route_localnet=1
	ip link set flooded arp off up
	ip link set nowhere up
	ip route add 198.18.0.0/15 dev flooded
}

# flooded COOKIES
flooded() {
	local syns
	nowhere
	set_meanwhile "$COOKIES" "$1"
	# The kernel uses the smaller of this and the server's own backlog.
	set_meanwhile "$BACKLOG" 64
	start_ports
	ask to 7000
	echo "${as_it_was[$BACKLOG]}" >"$BACKLOG"
	python3 "$SYNFLOOD" 7000 "$(many 1600 24000)" >"$BATS_TEST_TMPDIR/flood" 3>&- &
	background=$!
	# Without cookies the flooded port accepts no more connections.
	(($1)) || ask to 7001
	while kill -0 "$background" 2>/dev/null; do
		ask connect 20 hold
		same connected "${got[connected]}" 20
		ask touch
		ask touch connecting
		ask close
		((connected += 20))
	done
	wait "$background"
	background=''
	# Late segments may have made more connections from cookies.
	quiet
	ask close
	syns=$(sed -n 's/^syns=//p' "$BATS_TEST_TMPDIR/flood")
	((syns == $(many 1400 21000))) || fail "$syns SYNs were sent"
	same tracked "$(counter ackmode/tracked)" 0
	stop_ports
	ip link del flooded
}

# flood COOKIES COUNTER AT_LEAST: the kernel's COUNTER must show that there was a flood.
flood() {
	local before connected=0
	before=$(tcp_ext "$2")
	both flooded "$1"
	echo "# $2 $(($(tcp_ext "$2") - before)), $connected connections in the meantime" >&3
	(($(tcp_ext "$2") - before >= $3)) || fail "there was no flood"
	((connected >= 20))
	of M 'live *'
	same live "$n" 0
}

@test "a SYN flood, without cookies" { flood 0 TCPReqQFullDrop 1000; }
@test "a SYN flood, with cookies when the queue is full" { flood 1 SyncookiesSent 1000; }
@test "a SYN flood, with cookies for everybody" {
	flood 2 SyncookiesSent 1400
	(($(tcp_ext SyncookiesRecv) >= 20)) || fail "no connection was made with a cookie"
	(($(tcp_ext SyncookiesFailed) >= 100)) || fail "no cookie was guessed"
}

# accept_nobody PORT BACKLOG: listens, and accepts no connection, until it is killed.
accept_nobody() {
	python3 -c "
import socket, time
s = socket.create_server(('', $1), backlog=$2)
print('listens', flush=True)
time.sleep(86400)" >"$BATS_TEST_TMPDIR/listener" 3>&- &
	background=("$!")
	soon grep -qs listens "$BATS_TEST_TMPDIR/listener"
}

embryos() { ss -Htn state syn-recv | wc -l; }

# embryonic N TIMES: N clients never end their handshakes. Each SYN-ACK is sent TIMES again, after 1,
# 2, 4 s and so on, up to 120 s.
embryonic() {
	local syns since sum i took n each=0
	for ((i = 0; i < $2; i++)); do
		((each += i < 7 ? 1 << i : 120))
	done
	nowhere
	set_meanwhile "$COOKIES" 0
	set_meanwhile /proc/sys/net/ipv4/tcp_synack_retries "$2"
	set_meanwhile "$BACKLOG" $((8 * $1))
	set_meanwhile /proc/sys/net/ipv4/tcp_max_syn_backlog $((8 * $1))
	# All timers expire at about the same time, and the kernel drops a request whose SYN-ACK it
	# cannot send.
	set_meanwhile /proc/sys/net/core/netdev_max_backlog $((8 * $1))
	accept_nobody 7000 $((8 * $1))
	since=$SECONDS
	python3 "$SYNFLOOD" 7000 $(($1 * 8 / 7)) >"$BATS_TEST_TMPDIR/flood"
	syns=$(sed -n 's/^syns=//p' "$BATS_TEST_TMPDIR/flood")
	n=$(embryos)
	echo "# $syns SYNs, $n handshakes that have not ended" >&3
	[[ ! ${TCPLAT_HARD-} ]] || same "handshakes at once" "$n" "$syns"
	for ((i = 0; i < 900 && $(embryos); i++)); do
		sleep 1
	done
	took=$((SECONDS - since + 1))
	kill "${background[@]}"
	background=()
	ip link del flooded
	same SYN-ACKs "$(counter loss/synack)" $(($2 * syns))
	counter_into sum loss/synack_time_ns
	# Timers are late on a busy machine, but none expires early.
	((sum >= syns * (each * 1000 - 10) * 1000000 && sum <= syns * took * 1000000000)) ||
		fail "$sum ns for $syns requests in $took s"
}

@test "handshakes that never end" { both embryonic "$(often 4000 100000)" "$(often 2 8)"; }

# Connections are in the queue of requests, in that of accept(), or in flight to either.
closing() {
	python3 - "$(many 5 200)" <<-'END'
		import random, socket, sys, time
		for i in range(int(sys.argv[1])):
		    clients = []
		    l = socket.create_server(("127.0.0.1", 7003), backlog=4)
		    for j in range(40):
		        s = socket.socket()
		        s.setblocking(False)
		        s.connect_ex(("127.0.0.1", 7003))
		        clients.append(s)
		    time.sleep(random.random())
		    accepted = [l.accept() for j in range(2)]
		    l.close()
		    time.sleep(random.random())
		    for s, _ in accepted:
		        s.close()
		    for s in clients:
		        s.close()
	END
	no_sockets
}

@test "listeners that close while connections wait for accept() and for a place in its queue" {
	both closing
	(($(counter listen/overflows) > 10)) || fail "hardly any queue was full"
}

# ---- namespaces that come and go ----

# until_timeouts N: waits until N more timeouts are counted, which the traffic causes at its own
# pace: a busy machine may need a while.
until_timeouts() {
	local from
	counter_into from delack/timeouts
	soon timed_out $((from + $1))
}

timed_out() { (($(counter delack/timeouts) >= $1)); }

# Prints the sum of a count of the kernel over all namespaces, read from their open netstat files.
namespaces_counted() {
	local fd line sum=0
	for fd in "${open[@]}"; do
		line=$(awk -v want="$1" '$1 != "TcpExt:" { next } !n { n = split($0, name); next }
			{ for (i = 2; i <= n; i++) if (name[i] == want) print $i }' "/proc/self/fd/$fd")
		((sum += line)) || :
	done
	echo "$sum"
}

# Each namespace is deleted while it has traffic, and its processes are killed a little later. An
# open file of a namespace keeps its counters.
come_and_go() {
	local i j ns fd n probes
	local -a open=()
	count_acks
	local acks_before=$acks missed_before=$acks_missed
	for ((i = 0; i < $(many 2 30); i++)); do
		background=()
		for ((j = 0; j < 2; j++)); do
			ns=tcplat-$i-$j
			NAMESPACES+=("$ns")
			ip netns add "$ns"
			ip -n "$ns" link set lo up
			tc -n "$ns" qdisc add dev lo root netem loss 3%
			ip netns exec "$ns" "$TRAFFIC" wwr -c 3 -n 100000 --timeout 300 >/dev/null 2>&1 3>&- &
			background+=("$!")
		done
		until_timeouts 10
		for ((j = 0; j < 2; j++)); do
			exec {fd}<"/proc/${background[j]}/net/netstat"
			open+=("$fd")
			ip netns del "tcplat-$i-$j"
		done
		NAMESPACES=()
		until_timeouts 10
		kill -KILL "${background[@]}"
		wait "${background[@]}" || :
	done
	background=()
	quiet
	all_dead
	counter_into n delack/timeouts
	same "timeouts in namespaces that are gone" "$n" "$(namespaces_counted DelayedACKs)"
	counter_into probes loss/tlp
	probes_agree "$probes" "$(namespaces_counted TCPLossProbes)"
	((probes > 0)) || fail "nothing was lost"
	# This count covers existing and deleted namespaces alike.
	count_acks
	((acks -= acks_before, acks_missed -= missed_before)) || :
	((acks <= n && n <= acks + acks_missed)) || fail "$n timeouts, $acks ACKs, and $acks_missed that a kprobe missed"
	echo "# $n timeouts, $probes tail loss probes in ${#open[@]} namespaces" >&3
	for fd in "${open[@]}"; do
		exec {fd}<&-
	done
}

@test "namespaces created and destroyed with live traffic" {
	watch_acks
	watch come_and_go
	unwatch_acks
}

# ---- processors that come and go ----

declare -gA sums
# No sum may be smaller than at the last call.
assert_grows() {
	local file value
	for file in delack/{timeouts,deferred,delay_jiffies} portsearch/{searches,iterations,time_ns} \
		bindsearch/searches sndwait/{waits,time_ns} ackmode/{pingpong_enters,quickack_enters}; do
		counter_into value "$file"
		((value >= ${sums[$file]:-0})) || fail "$file: $value, but ${sums[$file]} before"
		sums[$file]=$value
	done
}

off_and_on() {
	local cpu round group sum_before
	sums=()
	# A processor's counts remain while it is offline.
	taskset -c 1 "$TRAFFIC" wwr -n 20 --settle >/dev/null
	quiet
	counter_into sum_before delack/timeouts
	((sum_before > 0)) || fail "processor 1 has counted nothing"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	same "timeouts without processor 1" "$(counter delack/timeouts)" "$sum_before"
	echo 1 >/sys/devices/system/cpu/cpu1/online
	same "timeouts with it again" "$(counter delack/timeouts)" "$sum_before"

	"$TRAFFIC" wwr -c 4 -n 100000 --timeout 900 >/dev/null 2>&1 3>&- &
	background=("$!")
	"$TRAFFIC" slowreader -c 2 -n 100000 --sndbuf 8192 --timeout 900 >/dev/null 2>&1 3>&- &
	background+=("$!")
	start_ports
	for ((round = 0; round < $(many 2 40); round++)); do
		for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
			echo 0 >"$cpu/online"
			assert_grows
			for group in sndwait idlerestart bindsearch; do
				echo $((round % 2)) >"$TREE/$group/enabled"
			done
			ask connect 5 reset
			until_timeouts 3
		done
		assert_grows
		for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
			echo 1 >"$cpu/online"
			until_timeouts 1
			assert_grows
		done
	done
	for group in sndwait idlerestart bindsearch; do
		echo 1 >"$TREE/$group/enabled"
	done
	stop_ports
	kill "${background[@]}"
	wait "${background[@]}" || :
	background=()
	all_dead
}

@test "processors taken offline and online under traffic: no count is lost" {
	[[ -e /sys/devices/system/cpu/cpu1/online ]] || fail "this needs two processors"
	both off_and_on
}
