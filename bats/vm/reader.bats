#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader on the live module: what it prints is what the files hold.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr

bats_require_minimum_version 1.5.0
load ../helpers

setup_file() {
	load_afresh
	# A bit of everything to be counted, on both families.
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	"$TRAFFIC" wwr -6 -n 5 --settle >/dev/null
}

teardown_file() {
	! loaded || unload_module
}

setup() {
	untraced
	cd "$BATS_TEST_TMPDIR" || return
	quiet
}

# The values of the live files: GROUP/FILE=VALUE.
live_values() {
	(
		cd "$TREE" || exit
		for f in */*; do
			case $f in */status | */enabled | *_hist_le*) continue ;; esac
			echo "$f=$(<"$f")"
		done
	) | sort
}

@test "json: every value is its file's, and no file is left out" {
	live_values >before
	run -0 --separate-stderr "$TCPLAT" json
	assert_equal "$stderr" ''
	echo "$output" >json
	live_values >after
	# Nothing moves while nobody sends.
	run -0 diff before after
	python3 - <<-'END' >values
		import json
		doc = json.load(open("json"))
		assert doc["kernel"] == open("/proc/sys/kernel/osrelease").read().strip()
		for k, v in doc["clock"].items():
		    print(f"clock/{k}={v}")
		for g, group in doc["groups"].items():
		    assert group["status"] == open(f"/sys/kernel/tcplat/{g}/status").read().strip()
		    for kind in ("counters", "gauges", "maxima"):
		        for k, v in group.get(kind, {}).items():
		            print(f"{g}/{k}={v}")
		    for k, h in group.get("histograms", {}).items():
		        print(f"{g}/{k}=" + " ".join(map(str, h["counts"])))
	END
	run -0 diff <(sort values) before
	assert_equal "$(grep -c delack/ values)" "$(grep -c delack/ before)"
}

@test "openmetrics: the sums of what was counted are the files'" {
	run -0 --separate-stderr "$TCPLAT" openmetrics
	assert_equal "$stderr" ''
	assert_line "tcplat_delack_delay_seconds_count $(counter delack/timeouts)"
	assert_line "tcplat_portsearch_searches_total $(counter portsearch/searches)"
	assert_line "tcplat_portsearch_time_seconds_count $(counter portsearch/searches)"
	assert_line "tcplat_portsearch_iterations_sum $(counter portsearch/iterations)"
	assert_line "tcplat_ackmode_tracked $(counter ackmode/tracked)"
	assert_line "tcplat_info{version=\"$(counter version)\",hz=\"$(config_hz)\",kernel=\"$(uname -r)\"} 1"
	assert_line 'tcplat_group_enabled{group="delack"} 1'
	local sum
	sum=$(sed -n 's/^tcplat_delack_delay_seconds_sum //p' <<<"$output")
	assert_equal "$(awk -v s="$sum" 'BEGIN { printf "%.0f", s * 1000000 }')" "$(counter delack/delay_us)"
}

@test "delta: as many timeouts as the kernel counts, and the command's status" {
	local before after
	before=$(tcp_ext DelayedACKs)
	run -3 --separate-stderr "$TCPLAT" delta bash -c \
		"'$TRAFFIC' wwr -n 8 --settle >/dev/null; sleep 0.3; exit 3"
	after=$(tcp_ext DelayedACKs)
	assert_equal "$stderr" ''
	((after > before)) || fail 'nothing was delayed'
	assert_line --regexp "^  timeouts +$((after - before)) +ACKs"
	run -0 "$TCPLAT" delta true
	refute_line --regexp '^  timeouts '
}

@test "watch: a reset and a reload of the module make no rate" {
	"$TCPLAT" watch -i 0.5 portsearch >lines 2>errors &
	local watch=$! i
	for ((i = 0; i < 100; i++)); do
		(($(wc -l <lines) < 3)) || break
		sleep 0.1
	done
	"$TRAFFIC" rr -n 1 >/dev/null
	sleep 0.6
	reset_counters
	sleep 0.6
	unload_module
	sleep 0.6
	load_module
	"$TRAFFIC" rr -n 1 >/dev/null
	sleep 1.2
	kill "$watch"
	wait "$watch" || :
	cat lines
	[[ ! -s errors ]]
	run -0 grep -E '^ +-( +-)+$' lines
	# No rate of one connect() each is more than a few per second.
	awk '!/\// && $1 != "-" && $1 > 100 { exit 1 }' lines
}

@test "enable, disable, reset and probes" {
	run -0 "$TCPLAT" disable delack
	assert_equal "$(counter delack/status)" off
	run -0 "$TCPLAT" enable delack
	assert_equal "$(counter delack/status)" armed
	run -0 "$TCPLAT" reset
	assert_equal "$(counter delack/timeouts)" 0
	run -0 --separate-stderr "$TCPLAT" probes
	assert_equal "$stderr" ''
	assert_equal "$((${#lines[@]} - 1))" "$(grep -vc '^#' "$DEBUG/probes")"
	run -3 setpriv --reuid 65534 --regid 65534 --clear-groups "$TCPLAT" disable delack
	assert_output "tcplat: $TREE/delack/enabled: no permission to write it: run 'tcplat disable' as root"
	run -3 --separate-stderr setpriv --reuid 65534 --regid 65534 --clear-groups "$TCPLAT" probes
}

@test "doctor: delayed ACKs that were provoked are found, and none without" {
	run -0 "$TCPLAT" doctor -i 0.5 --json
	assert_output --partial '"findings":[]'
	reset_counters
	"$TRAFFIC" wwr -n 20 --settle >/dev/null
	(($(counter delack/timeouts) >= 10))
	run -0 "$TCPLAT" doctor --total --json
	if [[ -e $TREE/delack/stalls ]]; then
		assert_output --partial '"rule":"stalls"'
	else
		assert_output --partial '"rule":"delays"'
	fi
}

@test "not loaded" {
	unload_module
	run -1 "$TCPLAT" show
	assert_output --partial 'the module is not loaded'
	load_module
}
