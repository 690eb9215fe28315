#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# userspace/fleet: the rules, the units, and all of it together: exports of two hosts,
# node_exporter, Prometheus and the dashboard, on loopback. The two trees were read from
# kernels of HZ=100 and HZ=1000 after a keep-alive workload and some connect() calls. What
# their modules did not count the dashboard is asked about on a third one, which is made up.
#
# shellcheck disable=SC2154 # run sets output

bats_require_minimum_version 1.5.0
load reader_helpers

setup_file() {
	build_reader
	need_prometheus
	FLEET=$(cd "$SOURCE/userspace/fleet" && pwd -P)
	export FLEET
}

teardown_file() {
	rm -rf "$READER_DIR"
}

setup() {
	untraced
	enter_work_dir
}

@test "fleet: the rules, by promtool" {
	run -0 promtool check rules "$FLEET/tcplat.rules.yml"
	cd "$FLEET"
	run -0 promtool test rules tcplat.rules.test.yml
	# Every alert is one that the tests know.
	local alert
	while read -r alert; do
		run -0 grep -q "alertname: $alert\$" tcplat.rules.test.yml
	done < <(sed -n 's/^ *- alert: //p' tcplat.rules.yml)
}

@test "fleet: the units, by systemd" {
	install -D -m 755 "$READER_DIR/tcplat" bin/tcplat
	cp "$FLEET"/tcplat-textfile.{service,timer} .
	# Where it would be once it is installed.
	sed -i "s|^ExecStart=tcplat|ExecStart=$PWD/bin/tcplat|" tcplat-textfile.service
	run -0 systemd-analyze verify --man=no ./tcplat-textfile.service ./tcplat-textfile.timer
	assert_output ''
}

@test "fleet: what the service runs writes the file" {
	make_tree hz100
	local command
	command=$(sed -n 's/^ExecStart=//p' "$FLEET/tcplat-textfile.service")
	assert_equal "$command" 'tcplat openmetrics --prometheus --output=/var/lib/prometheus/node-exporter/tcplat.prom'
	command=${command/\/var\/lib\/prometheus\/node-exporter/.}
	# shellcheck disable=SC2086 # words
	SYSFS_PATH=sys PATH=$READER_DIR:$PATH run -0 $command
	run -0 promtool check metrics <tcplat.prom
}

@test "fleet: two hosts of different HZ in one Prometheus, and every expression of the dashboard" {
	local host
	for host in hz100 hz1000 groups; do
		rm -rf sys
		make_tree $host
		if [[ $host == groups ]]; then
			set_to delack/status armed
			set_to delack/enabled 1
			set_to delack/timeouts 3
			set_to delack/delay_us 120000
			set_to delack/delay_hist '0 0 0 0 0 0 0 3 0 0 0 0 0 0 0 0'
			set_to delack/stalls 2
			set_to delack/stall_us 80000
			add_sndhold
			set_to sndhold/peer_delays 2
			set_to sndhold/peer_delay_ns 80000000
			set_to sndhold/cork_time_ns 30000000
			cp "$T"/sndhold/nagle_hist "$T/sndhold/cork_hist"
			cp "$T"/sndhold/nagle_hist_le_ns "$T/sndhold/cork_hist_le_ns"
			set_to sndwait/again_time_ns 50000000
			cp "$T"/sndwait/time_hist "$T/sndwait/again_hist"
			cp "$T"/sndwait/time_hist_le_ns "$T/sndwait/again_hist_le_ns"
			echo armed >"$T/bindsearch/status"
			cp "$T"/portsearch/{time_ns,time_hist,time_hist_le_ns,searches,exhausted,missed} "$T/bindsearch"
		fi
		mv sys $host.sys
		# Afresh, as after a reset: what comes then is the growth.
		cp -r $host.sys $host.zero
		find $host.zero/kernel/tcplat -type f ! -path '*/clock/*' ! -name '*_le*' \
			! -name status ! -name abi ! -name version -exec sed -i 's/[0-9][0-9]*/0/g' {} +
	done
	run -0 python3 "$BATS_TEST_DIRNAME/fleet.py" "$READER_DIR/tcplat" "$FLEET" groups hz100 hz1000
	echo "$output"
	assert_line 'fleet p99 as computed from the files: ok'
	assert_line 'fleet iterations per connect as computed from the files: ok'
	assert_line --regexp '^[0-9]+ expressions of the dashboard: ok$'
}
