#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# userspace/fleet: rules, units, and everything together: exports of two hosts, node_exporter,
# Prometheus and the dashboard, on loopback. Two trees were read from kernels with HZ=100 and
# HZ=1000 after a keep-alive workload and some connect() calls. They do not have all groups; a
# third, artificial tree has every file of the ABI, so that every expression of the dashboard has a
# result. Only this runs the rules and the dashboard in Prometheus.
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
	# The tests and the README cover every alert.
	local alert
	while read -r alert; do
		run -0 grep -q "alertname: $alert\$" tcplat.rules.test.yml
		run -0 grep -q "\`$alert\`" README.md
	done < <(sed -n 's/^ *- alert: //p' tcplat.rules.yml)
}

@test "fleet: the units, by systemd" {
	install -D -m 755 "$READER_DIR/tcplat" bin/tcplat
	cp "$FLEET"/tcplat-textfile.{service,timer} .
	# Its path once installed.
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
			make_every_file
			set_to delack/timeouts 3
			set_to delack/stalls 2
			set_to delack/late_us 12000
			set_to delack/delay_hist '0 0 0 0 0 0 0 3 0 0 0 0 0 0 0 0'
		fi
		mv sys $host.sys
		# A host's state after a reset; the values then grow from 0.
		cp -r $host.sys $host.zero
		find $host.zero/kernel/tcplat -type f ! -path '*/clock/*' ! -name '*_le*' \
			! -name status ! -name abi ! -name version -exec sed -i 's/[0-9][0-9]*/0/g' {} +
	done
	run python3 "$BATS_TEST_DIRNAME/fleet.py" "$READER_DIR/tcplat" "$FLEET" groups hz100 hz1000
	assert_success
	assert_line 'fleet p99 as computed from the files: ok'
	assert_line 'fleet iterations per connect as computed from the files: ok'
	assert_line 'a host without a file: ok'
	assert_line --regexp '^[0-9]+ expressions of the dashboard: ok$'
	# evictions is always 0.
	assert_line 'not on the dashboard: tcplat_ackmode_evictions_total'
}
