#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A kernel lacks a function that a group probes; here hide= makes the module believe so. That group
# says which, and shows no count; the others are armed, and those that this traffic reaches count. Only
# this runs with unavailable groups.

load ../unloaded

# what_is_left LOST[=SYMBOL]...: these groups are unavailable because SYMBOL is missing, and show
# nothing that looks like a count; the other groups are armed, and count.
what_is_left() {
	local group lost symbol before
	for group in "${GROUPS_ALL[@]}"; do
		symbol=''
		for lost; do
			[[ $lost != "$group="* ]] || symbol=${lost#*=}
		done
		if [[ ! $symbol ]]; then
			assert_equal "$group: $(counter "$group/status")" "$group: armed"
			continue
		fi
		assert_equal "$(counter "$group/status")" "unavailable: $symbol"
		assert_equal "$(cd "$TREE/$group" && echo *)" "enabled status"
		assert_equal "$(counter "$group/enabled")" 0
		run dd of="$TREE/$group/enabled" bs=1 count=1 status=none <<<1
		assert_failure
		assert_output --partial "No such device"
		assert_equal "$(counter "$group/status")" "unavailable: $symbol"
		run "$TCPLAT" show "$group"
		assert_output --partial "unavailable: $symbol"
		finds_nothing -E "^$group ${symbol}[ +].*(armed|off)" "$DEBUG/probes"
	done

	quiet
	before=$(tcp_ext DelayedACKs)
	"$TRAFFIC" wwr -n 10 --settle
	quiet
	if [[ $(counter delack/status) == armed ]]; then
		assert_equal "$(counter delack/timeouts)" $(($(tcp_ext DelayedACKs) - before))
		(($(counter delack/timeouts) >= 5))
	fi
	[[ $(counter ackmode/status) != armed ]] || (($(counter ackmode/pingpong_enters) > 0))
	# traffic's client connects and its server listens.
	[[ $(counter sndhold/status) != armed ]] || (($(counter sndhold/nagle) >= 5))
	for group in portsearch bindsearch; do
		[[ $(counter "$group/status") != armed ]] || same "$group" "$(counter "$group/searches")" 1
	done
	echo 1 >"$TREE/reset"
}

# Stalls are counted only if delack sees incoming data.
no_stalls() {
	refute [ -e "$TREE/delack/stalls" ]
	refute [ -e "$TREE/delack/stall_us" ]
	[[ $(counter delack/status) != armed ]] || [ -e "$TREE/delack/timeouts" ]
}

hide() { insmod "$TCPLAT_KO" "hide=$1"; }

@test "without tcp_delack_timer_handler: no delack, no ackmode; all else works" {
	hide tcp_delack_timer_handler
	what_is_left {delack,ackmode}=tcp_delack_timer_handler
}

@test "without tcp_event_data_recv: its caller is used, but not by answer; without both, no ackmode, no delack" {
	hide tcp_event_data_recv
	what_is_left answer=tcp_event_data_recv
	run cat "$DEBUG/probes"
	assert_output --regexp 'ackmode tcp_rcv_established\+0x[^ ]* entry .* armed'
	assert_output --regexp 'delack tcp_rcv_established\+0x[^ ]* entry .* armed'
	no_stalls
	unload_module
	hide tcp_event_data_recv,tcp_rcv_established
	what_is_left {delack,ackmode,answer}=tcp_event_data_recv
	no_stalls
}

@test "without __inet_hash_connect and inet_csk_get_port: neither portsearch nor bindsearch" {
	hide __inet_hash_connect,inet_csk_get_port
	what_is_left portsearch=__inet_hash_connect bindsearch=inet_csk_get_port
}

@test "without sk_stream_wait_memory and tcp_cwnd_restart: neither sndwait nor idlerestart" {
	hide sk_stream_wait_memory,tcp_cwnd_restart
	what_is_left sndwait=sk_stream_wait_memory idlerestart=tcp_cwnd_restart
}

@test "without tcp_push: neither sndhold nor answer" {
	hide tcp_push
	what_is_left {sndhold,answer}=tcp_push
}

# no_again SYMBOL [GROUP=SYMBOL...]: without one of the functions where waits of senders that do not
# block end, such waits are not counted, and GROUPs that need it are unavailable.
no_again() {
	hide "$1"
	what_is_left "${@:2}"
	assert_equal "$(cd "$TREE/sndwait" && echo *)" \
		"enabled missed status time_hist time_hist_le_ns time_max_ns time_ns timeouts waits"
	"$TRAFFIC" again --sndbuf 8192
	"$TRAFFIC" full -n 1 --settle
	assert_equal "$(counter sndwait/timeouts)" 1
	unload_module
}

@test "without the functions that report room again: no waits of senders that do not block" {
	no_again sk_stream_write_space
	no_again tcp_disconnect sndhold=tcp_disconnect
}

@test "without security_sock_graft: overflows are counted, waits for accept() are not" {
	hide security_sock_graft
	what_is_left
	assert_equal "$(cd "$TREE/listen" && echo *)" "enabled missed overflows overflows_unseen status"
}

@test "without table_perturb: port searches are counted, their iterations are not guessed" {
	hide table_perturb
	what_is_left
	"$TRAFFIC" wwr -n 10 --settle
	assert_equal "$(counter portsearch/searches) $(counter portsearch/unverified)" "1 1"
	assert_equal "$(counter portsearch/iterations)" 0
	dmesg | tail -n 20 | grep -q 'tcplat: portsearch: .*table_perturb was not found'
}

@test "with nothing left it does not load, and says why" {
	local pair
	dmesg -C
	run hide "$ONE_OF_EACH_GROUP"
	assert_failure
	refute [ -e "$TREE" ]
	run loaded
	assert_failure
	run dmesg
	for pair in {delack,ackmode}=tcp_delack_timer_handler portsearch=__inet_hash_connect \
		bindsearch=inet_csk_get_port sndwait=sk_stream_wait_memory {sndhold,answer}=tcp_push \
		idlerestart=tcp_cwnd_restart loss=tcp_retransmit_timer listen=tcp_conn_request \
		peerwnd=tcp_send_probe0; do
		assert_output --partial "tcplat: ${pair%=*} is unavailable: this kernel has no ${pair#*=}"
	done
	assert_output --partial "tcplat: none of the groups can be armed on this kernel, not loading"
}

# Like kernels before 6.1: searches one after another can still be verified.
@test "without inet_bind2_bucket_find: searches one by one are verified" {
	hide inet_bind2_bucket_find
	what_is_left
	"$TRAFFIC" wwr -n 10 --settle
	assert_equal "$(counter portsearch/searches) $(counter portsearch/unverified)" "1 0"
}
