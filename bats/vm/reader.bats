#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader on the live module, and reset, which zeroes every file. Only this has all of the
# module's files.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr

load ../loaded

setup_file() {
	load_afresh
	# Count a bit of everything, with IPv4 and IPv6.
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	"$TRAFFIC" wwr -6 -n 5 --settle >/dev/null
}

setup() {
	untraced
	cd "$BATS_TEST_TMPDIR" || return
	quiet
}

# Prints GROUP/FILE=VALUE for the live files, without a process per file.
live_values() {
	(
		cd "$TREE" || exit
		for f in */*; do
			case $f in */enabled) continue ;; esac
			read -r value <"$f"
			echo "$f=$value"
		done
	) | sort
}

@test "reset zeroes every counter, maximum and histogram of every group, and nothing else" {
	local before no_counter='^clock/|_le(_[a-z]+)?=|/status='
	traffic full -n 1 --interval 20 --hold 50 --sndbuf 4096
	before=$(live_values | grep -E "$no_counter")
	(($(live_values | grep -vE "$no_counter" | grep -c '=.*[1-9]') > 30)) || fail "hardly any counter"
	reset_counters
	finds_nothing '=.*[1-9]' <(live_values | grep -vE "$no_counter")
	same "what is no counter" "$(live_values | grep -E "$no_counter")" "$before"
	traffic wwr -n 5
	quiet
	(($(counter delack/timeouts) && $(counter delack/delay_max_jiffies)))
}

@test "show -- COMMAND: as many timeouts as the kernel counts, and the command's status" {
	local before after
	before=$(tcp_ext DelayedACKs)
	run -3 --separate-stderr "$TCPLAT" show -- bash -c \
		"'$TRAFFIC' wwr -n 8 --settle >/dev/null; sleep 0.3; exit 3"
	after=$(tcp_ext DelayedACKs)
	assert_output ''
	((after > before)) || fail 'nothing was delayed'
	assert_regex "$stderr" $'\n'"  timeouts +$((after - before)) +"
}
