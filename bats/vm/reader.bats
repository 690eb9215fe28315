#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader on the live module: its output equals the files. Only this has all of the module's
# files.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr

# shellcheck disable=SC2030,SC2031 # each test has its own output

bats_require_minimum_version 1.5.0
load ../helpers
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

@test "json: every value is its file's, and no file is left out" {
	live_values >before
	run -0 --separate-stderr "$TCPLAT" show --json
	assert_equal "$stderr" ''
	echo "$output" >json
	live_values >after
	# Without traffic nothing changes.
	run -0 diff before after
	python3 - <<-'END' >values
		import json
		doc = json.load(open("json"))
		assert doc["kernel"] == open("/proc/sys/kernel/osrelease").read().strip()
		for g, files in doc["groups"].items():
		    for f, v in files.items():
		        print(f"{g}/{f}=" + (" ".join(map(str, v)) if isinstance(v, list) else str(v)))
	END
	run -0 diff <(sort values) before
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
