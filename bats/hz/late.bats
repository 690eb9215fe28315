#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Where the time of a delayed ACK goes: the delay that the kernel requested, and by how much the
# timer was late, event by event; and how late retransmission timers are. For bats/run --icount,
# where timers are late only because of the kernel's own timer wheel. Only this checks asked_jiffies
# and late_jiffies of each event.
#
# The oracle are kprobe events that read jiffies and the expiry that the kernel keeps in the
# socket, in the same buffer as the tracepoint.

load ../loaded

INSTANCE=$TRACING/instances/late

setup_file() {
	on_icount || fail "these tests are for bats/run --icount"
	load_afresh
	HZ=$(config_hz)
	# A thousand timeouts of each kind in check-hard, which takes ten minutes; else two hundred.
	MANY=$(often 1 5)
	export MANY
	insmod "$TCPLAT_MODULES/offsets.ko"
	EXPIRY=$(</sys/module/offsets/parameters/expiry)
	RTO_EXPIRY=$(</sys/module/offsets/parameters/rto_expiry)
	rmmod offsets
	export HZ EXPIRY RTO_EXPIRY
}

setup() {
	untraced
	quiet
	# A sender's tail loss probe would be sent before a late ACK.
	set_meanwhile /proc/sys/net/ipv4/tcp_early_retrans 0
	watch
}

teardown() {
	unwatch
	[[ ! -d /sys/module/holdup ]] || rmmod holdup
	tc qdisc del dev lo root 2>/dev/null || :
	tidy
}

watch() {
	{
		echo "p:late/data tcp_event_data_recv sk=%di now=@jiffies:u64"
		echo "p:late/sent __tcp_transmit_skb sk=%di"
		echo "p:late/expiry tcp_delack_timer_handler sk=%di expiry=+$EXPIRY(%di):u64 now=@jiffies:u64"
		echo "p:late/ack tcp_send_ack sk=%di"
		echo "p:late/rto tcp_retransmit_timer expiry=+$RTO_EXPIRY(%di):u64 now=@jiffies:u64"
	} >"$TRACING/kprobe_events"
	mkdir "$INSTANCE"
	echo 16384 >"$INSTANCE/buffer_size_kb"
	echo 1 >"$INSTANCE/events/late/enable"
	echo 1 >"$INSTANCE/events/tcplat/delack_timeout/enable"
	echo 1 >"$INSTANCE/events/tcplat/loss/enable"
}

unwatch() {
	[[ -d $INSTANCE ]] || return 0
	echo 0 >"$INSTANCE/events/late/enable"
	echo 0 >"$INSTANCE/events/tcplat/delack_timeout/enable"
	echo 0 >"$INSTANCE/events/tcplat/loss/enable"
	rmdir "$INSTANCE"
	: >"$TRACING/kprobe_events"
}

# watched COMMAND...: runs COMMAND with an empty trace, and sets counted to the number of timeouts.
watched() {
	local before
	: >"$INSTANCE/trace"
	reset_counters
	before=$(tcp_ext DelayedACKs)
	"$@" || fail "failed: $*"
	quiet
	counter_into counted delack/timeouts
	assert_equal "$counted" "$(($(tcp_ext DelayedACKs) - before))"
}

# measure COMMAND...: runs COMMAND and compares each event of the tracepoint with the oracle's of
# the same call of the timer's handler. According to the oracle, sets timeouts, asked and lates
# (JIFFIES:TIMES...), late (the sum of lates), most, delay, and steps: the number of timers that
# were late exactly by the rest of the timer wheel's step.
measure() {
	local counted
	all_seen watched "$@"
	grep -q 'entries-in-buffer/entries-written: \([0-9]*\)/\1 ' "$INSTANCE/trace" ||
		fail "the trace has lost events"
	judge >"$BATS_TEST_TMPDIR/judged" || fail "$(tail -n 20 "$BATS_TEST_TMPDIR/judged")"
	IFS=';' read -r timeouts asked lates late most delay steps ticks <"$BATS_TEST_TMPDIR/judged"
	echo "# $timeouts timeouts; asked for $asked; late by $lates jiffies"
	same timeouts "$timeouts" "$counted"
	# A tick may come between two readings of the clock.
	((ticks <= 3 + timeouts / 50)) || fail "$ticks events are a jiffy off"
	same "late_jiffies" "$(counter delack/late_jiffies)" "$late"
	same "late_max_jiffies" "$(counter delack/late_max_jiffies)" "$most"
	same "late_us" "$(counter delack/late_us)" $((late * 1000000 / HZ))
	same "delay_jiffies" "$(counter delack/delay_jiffies)" "$delay"
}

# Prints measure's results. late, most and delay are sums of the tracepoint's values, which
# measure compares with the module's files.
judge() {
	sed -nE 's/.* ([0-9.]+): (data|sent|expiry|ack|delack_timeout): (\(.*\) )?/\2 /p' "$INSTANCE/trace" |
		awk -v hz="$HZ" '
		function list(counts, jiffies,  text) {
			for (jiffies = 0; jiffies < 100 * hz; jiffies++)
				if (counts[jiffies])
					text = text (text ? " " : "") jiffies ":" counts[jiffies]
			return text
		}
		function wrong(what) {
			printf "event %d: %s: %s\n", n, what, event
			bad = 1
		}
		{
			split("", value)
			for (i = 2; i <= NF; i++)
				if (split($i, pair, "=") == 2)
					value[pair[1]] = pair[2]
			sk = value["sk"]
		}
		$1 == "data" && !(sk in first) { first[sk] = value["now"] }
		$1 == "delack_timeout" {
			event = $0
			has = 1
			d = value["delay_jiffies"]
			a = value["asked_jiffies"]
			l = value["late_jiffies"]
		}
		$1 == "expiry" {
			timer = sk
			now = value["now"]
			due = value["expiry"]
			next
		}
		# The handler has sent this ACK.
		$1 == "ack" && timer == sk {
			n++
			if (!has) {
				wrong("no tracepoint")
				next
			}
			if (d != a + l)
				wrong("delay is not asked + late")
			# A FIN without data has no time of its own.
			begun = sk in first ? first[sk] : now - d
			should = due - begun
			is = now - due
			if (should < 0) {
				should = 0
				is = now - begun
			}
			if ((l == is + 1 && a == should) || (l == is && a + 1 == should))
				ticks++
			else if (l != is || a != should)
				wrong("should be " should " asked for, and " is " late")
			asked[a]++
			lates[l]++
			late += l
			delay += d
			if (l > most)
				most = l
			# Steps of 8 jiffies from 63 jiffies ahead, of 64 from 504.
			step = due - begun < 63 ? 1 : due - begun < 504 ? 8 : 64
			if (is == step - due % step)
				steps++
			has = 0
		}
		$1 == "sent" { delete first[sk] }
		$1 != "delack_timeout" { timer = "" }
		END {
			printf "%d;%s;%s;%d;%d;%d;%d;%d\n", n, list(asked), list(lates), late, most,
				delay, steps, ticks
			exit bad
		}'
}

# those LIST JIFFIES: prints how many of LIST have this number of jiffies.
those() { tr ' ' '\n' <<<"$1" | sed -n "s/^$2://p" | grep . || echo 0; }

@test "late: write-write-reads ask for 40 ms, and the timer is late by one jiffy" {
	both() {
		"$TRAFFIC" wwr -n $((30 * MANY)) -c 4 --settle &&
			"$TRAFFIC" wwr -6 -n $((30 * MANY)) -c 4 --settle
	}
	measure both
	((timeouts >= 200 * MANY)) || fail "only $timeouts timeouts"
	# If a tick came between the data and the setting of its timer, a jiffy more was requested.
	((timeouts - $(those "$asked" $((HZ / 25))) <= 1 + timeouts / 100)) || fail "asked for $asked"
	assert_equal "$lates" "1:$timeouts"
	assert_equal "$steps of $timeouts" "$timeouts of $timeouts"
}

# The estimated delay doubles with each timeout outside of pingpong mode, up to the round trip and
# up to 200 ms; on newer kernels a jiffy less, below the shortest retransmission timeout. All of
# these lie in the wheel's coarser steps. TCP_NODELAY, since with Nagle's algorithm each message
# would follow the previous ACK, and all expiries would lie at the same place in a step.
far() {
	local jiffies
	measure between oneway "${SERVER[$1]}" -n $((20 + 70 * MANY)) -c 4 --nodelay --interval 351 --hold 260 --timeout 2000 --settle
	((timeouts >= 200 * MANY)) || fail "only $timeouts timeouts"
	assert_equal "$steps of $timeouts" "$timeouts of $timeouts"
	((HZ < 1000)) || for jiffies in {1..8}; do
		(($(those "$lates" "$jiffies") > 0)) || fail "late by $lates, never by $jiffies"
	done
	for jiffies in $((HZ / 25)) $((HZ * 2 / 25)) $((HZ * 4 / 25)); do
		(($(those "$asked" "$jiffies") > 0)) || fail "asked for $asked, never for $jiffies"
	done
	most=$(($(those "$asked" $((HZ / 5))) + $(those "$asked" $((HZ / 5 - 1)))))
	((most * 2 > timeouts)) || fail "asked for $asked, not mostly for 200 ms"
}

@test "late: ACKs asked for after 40 to 200 ms, by the steps of the timer wheel" {
	veth_pair delay 120ms
	each_family far
}

@test "late: softirqs held up" {
	insmod "$TCPLAT_MODULES/holdup.ko"
	measure "$TRAFFIC" wwr -n $((1 + 10 * MANY)) -c 20 --interval 23 --settle
	rmmod holdup
	((timeouts >= 180 * MANY)) || fail "only $timeouts timeouts"
	# The requested delay is still 40 ms.
	((timeouts - $(those "$asked" $((HZ / 25))) <= timeouts / 10)) || fail "asked for $asked"
	((most * 1000 > 15 * HZ && most * 1000 <= 26 * HZ + 1000)) || fail "late by $most at most"
	((late > timeouts + timeouts / 5)) || fail "late by $late in total"
}

@test "late: the socket held by its user" {
	measure "$TRAFFIC" owned -n $((25 * MANY)) -c 8 --hold 100 --timeout 1000 --settle
	((timeouts >= 180 * MANY)) || fail "only $timeouts timeouts"
	(($(counter delack/deferred) >= 180 * MANY)) ||
		fail "only $(counter delack/deferred) deferred"
	# From the expiry after 40 ms to the release of the socket after 100 ms.
	((late * 1000 >= timeouts * 55 * HZ && most * 1000 <= 70 * HZ)) ||
		fail "late by $late in total, $most at most"
}

# Compares each event of a retransmission timeout with the oracle's of the same call, which comes
# before it. Prints their number, the sum of the lateness, and how many a tick made differ.
judge_timeouts() {
	sed -nE -e 's/.*: rto: .* expiry=([0-9]+) now=([0-9]+).*/call \1 \2/p' \
		-e 's/.*: loss: .*kind=rto .*late_jiffies=([0-9]+).*/event \1/p' "$INSTANCE/trace" | awk '
		$1 == "call" { is = $3 > $2 ? $3 - $2 : 0; has = 1; next }
		!has { print "an event without a call" }
		{
			n++
			late += $2
			if ($2 != is)
				ticks++
			if ($2 - is > 1 || is - $2 > 1)
				print $2 " jiffies late, not " is
			has = 0
		}
		END { print n + 0, late + 0, ticks + 0 }'
}

# The round trip and the timeouts that follow the first one give many lengths.
@test "late: retransmission timeouts, those of one segment doubling" {
	local n late ticks
	tc qdisc add dev lo root netem delay 3ms loss 25%
	# Of the usual seven SYNs, none may arrive.
	set_meanwhile /proc/sys/net/ipv4/tcp_syn_retries 20
	requests() {
		"$TRAFFIC" rr -n $((20 * MANY)) -c 4 --timeout 3000 --settle &&
			"$TRAFFIC" rr -6 -n $((20 * MANY)) -c 4 --timeout 3000 --settle
	}
	all_seen watched requests
	no_sockets
	tc qdisc del dev lo root
	judge_timeouts >"$BATS_TEST_TMPDIR/judged"
	read -r n late ticks <"$BATS_TEST_TMPDIR/judged"
	same "lines of the oracle" "$(wc -l <"$BATS_TEST_TMPDIR/judged")" 1
	echo "# $n timeouts, $late jiffies late, $ticks a jiffy off"
	((n >= 40 * MANY)) || fail "only $n timeouts"
	((ticks <= 1 + n / 200)) || fail "$ticks events are a jiffy off"
	same timeouts "$(counter loss/rto)" "$n"
	same late_jiffies "$(counter loss/rto_late_jiffies)" "$late"
	same late_us "$(counter loss/rto_late_us)" $((late * 1000000 / HZ))
}
