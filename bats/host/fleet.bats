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
# shellcheck disable=SC2034 # replaced() uses version

load reader_helpers

FLEET=$SOURCE/userspace/fleet

setup() {
	untraced
	enter_work_dir
}

@test "fleet: the rules, by promtool" {
	run -0 promtool check rules "$FLEET/tcplat.rules.yml"
	cp "$FLEET/tcplat.rules.yml" .
	# A job without any host that is above the thresholds.
	sed "/series: 'tcplat_.*instance=\"[cde]\"/ { p; s/job=\"node\"/job=\"quiet\"/ }" \
		"$FLEET/tcplat.rules.test.yml" >quiet.yml
	(($(grep -c quiet quiet.yml) > 60))
	run -0 promtool test rules quiet.yml
	# Debian's labels are in the file. These are kube-prometheus', and a cluster.
	sed 's/job="\([a-z]*\)",instance="\([a-z]*\)"/job="\1-exporter",cluster="prod",namespace="monitoring",service="node-exporter",endpoint="https",container="node-exporter",pod="node-exporter-\2",instance="\2"/
		/cluster:/!s/job: \([a-z]*\)/job: \1-exporter, cluster: prod/; s/ of node:/ of node-exporter:/
		s/job='\''\([a-z]*\)'\''/job='\''\1-exporter'\'',cluster='\''prod'\''/' quiet.yml >kube.yml
	(($(grep -c 'pod="node-exporter-a"' kube.yml) > 30))
	run -0 promtool test rules kube.yml
}

@test "fleet: every alert has tests that fire and that do not, and a section of the runbook" {
	local alerts
	alerts=$(sed -n 's/^ *- alert: //p' "$FLEET/tcplat.rules.yml" | uniq)
	assert_equal "$(sed -n 's/^## //p' "$SOURCE/Documentation/guide/runbook.md")" "$alerts"
	# Each section says these things, in this order.
	run sed -n 's/^[*][*]\([A-Z][a-z]*\):[*][*].*/\1/p' "$SOURCE/Documentation/guide/runbook.md"
	assert_equal "$(uniq -c <<<"$output" | sort -u)" "$(printf '      1 %s\n' Change Means Run)"
	assert_equal "${#lines[@]}" $(($(wc -l <<<"$alerts") * 3))
	run sed -n 's|^ *runbook_url: file:///usr/share/doc/tcplat/Documentation/guide/runbook.md#||p' \
		"$FLEET/tcplat.rules.yml"
	assert_output "${alerts,,}"
	run sed -n 's/^.* alertname: \([A-Za-z]*\), exp_alerts: \[\] }$/\1/p' "$FLEET/tcplat.rules.test.yml"
	assert_equal "$(sort <<<"$output")" "$(sort <<<"$alerts")"
	run awk '$1 == "alertname:" { name = $2 } $1 == "-" && $2 == "exp_labels:" && name { print name; name = "" }' \
		"$FLEET/tcplat.rules.test.yml"
	assert_equal "$(sort <<<"$output")" "$(sort <<<"$alerts")"
	# fleet.md names no alert that is none.
	run grep -oE 'Tcplat[A-Z][A-Za-z]+' "$SOURCE/Documentation/guide/fleet.md"
	run ! grep -vxF "$alerts" <<<"$output"
}

@test "fleet: the units, by systemd" {
	install -D -m 755 "$READER_DIR/tcplat" bin/tcplat
	cp "$FLEET"/*.{service,timer} .
	# Its path once installed.
	sed -i "s|^ExecStart=tcplat|ExecStart=$PWD/bin/tcplat|" ./*.service
	prints '' systemd-analyze verify --man=no ./*.service ./*.timer
	run -0 systemd-analyze security --offline=yes --threshold=20 ./tcplat-textfile.service
	# Every 15 s on the dot.
	run -0 systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' tcplat-textfile.timer)" \
		--base-time='2026-01-01 00:00:01 UTC' --iterations=5
	assert_equal "$(grep -oE '00:0[0-9]:[0-9]{2}' <<<"$output" | sort -u | tr '\n' ' ')" \
		'00:00:15 00:00:30 00:00:45 00:01:00 00:01:15 '
	run -0 grep -x 'AccuracySec=100ms' tcplat-textfile.timer
}

# with_units: starts a systemd as first process of a namespace, with only the units, which run every
# second on ./sys, and a journal. ./lib is its /var/lib, ./default its /etc/default. Sets outside to
# its process and cgroup to its cgroup.
with_units() {
	local target path
	path=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
	[[ $path ]] || skip 'needs cgroups of version 2'
	path+=$(sed -n 's/^0:://p' /proc/self/cgroup)/tcplat-$$
	mkdir "$path" 2>/dev/null || skip 'needs a cgroup that it can divide'
	cgroup=$path
	mkdir -p units bin lib default
	install -m 755 "$READER_DIR/tcplat" bin/tcplat
	cp "$FLEET"/tcplat-textfile.{service,timer} /lib/systemd/system/systemd-journald{.service,{,-dev-log}.socket} units
	sed -i 's|/15$|/1|' units/tcplat-textfile.timer
	sed -i '/^.Unit/a StartLimitIntervalSec=0' units/tcplat-textfile.service
	# A sanitizer cannot look for leaks in the sandbox.
	sed -i 's/^Environment=/&LSAN_OPTIONS=detect_leaks=0 /' units/tcplat-textfile.service
	for target in basic sysinit shutdown; do
		printf '[Unit]\nDefaultDependencies=no\n' >"units/$target.target"
	done
	printf '[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service tcplat-textfile.timer\nAfter=systemd-journald.service\n' >units/test.target
	cat >init <<-END
		set -e
		# Only the second version, which begins at this cgroup.
		umount -R /sys/fs/cgroup || mkdir -p /sys/fs/cgroup
		mount -t cgroup2 none /sys/fs/cgroup
		mount -t tmpfs none /run
		mkdir -p /run/systemd/journald.conf.d
		printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n' \
			>/run/systemd/journald.conf.d/test.conf
		mount --bind lib /var/lib
		mkdir -p /etc/default
		mount --bind default /etc/default
		mount --bind sys/kernel /sys/kernel
		mount --bind bin /usr/local/sbin
		exec env container=test SYSTEMD_UNIT_PATH="$PWD/units" /lib/systemd/systemd \\
			--system --unit=test.target --show-status=no --log-target=journal
	END
	# shellcheck disable=SC2016 # for the other shell
	bash -c 'echo $$ >"$1/cgroup.procs"
		exec unshare --fork --kill-child --pid --mount --cgroup --mount-proc bash init' \
		- "$cgroup" >said 2>&1 3>&- &
	outside=$!
}

teardown() {
	# For a test that failed.
	[[ ! ${outside:-} ]] || { cat said; journal || :; }
	# Not at the end, where bash would report the killed job.
	[[ ! ${outside:-} ]] || { kill -KILL "$outside" && wait "$outside"; } 2>/dev/null || :
	[[ ! ${cgroup:-} ]] || soon find "$cgroup" -depth -type d -exec rmdir {} + || :
}

# Prints what the journal has about the service.
journal() {
	journalctl -q -o cat -D "/proc/$(pgrep -P "$outside")/root/run/log/journal" |
		grep -E '^tcplat-textfile[.]service|^tcplat: |tcplat-textfile[.]service - '
}

# says TEXT: the journal has it.
says() { journal 2>/dev/null | grep -qF "$1"; }

@test "fleet: the service in its sandbox: no directory, the default one, another, and no noise" {
	((EUID == 0)) || skip 'needs root'
	local file=lib/prometheus/node-exporter/tcplat.prom version=''
	make_tree hz100
	with_units
	# Without node_exporter, the reader says which directory is missing.
	soon says 'tcplat: /var/lib/prometheus/node-exporter/tcplat.prom: No such file or directory'
	run -1 says NAMESPACE
	mkdir -p "${file%/*}"
	soon test -e $file
	soon replaced $file
	soon replaced $file
	# The journal has the failed runs before.
	journal >before
	soon replaced $file
	run -0 promtool check metrics <$file
	run -0 grep -x 'tcplat_up 1' $file
	run -0 grep -c _bucket $file
	assert_equal "$(stat -c '%a %U' $file) $(ls -A "${file%/*}")" '644 root tcplat.prom'
	# An exporter of another name, and an option, without a change to the unit.
	mkdir -p lib/node_exporter/text
	printf '%s\n' 'TCPLAT_TEXTFILE="/var/lib/node_exporter/text/tcplat.prom"' \
		TCPLAT_OPTIONS=--no-buckets >default/tcplat
	soon test -e lib/node_exporter/text/tcplat.prom
	run -1 grep _bucket lib/node_exporter/text/tcplat.prom
	version=''
	soon replaced lib/node_exporter/text/tcplat.prom
	soon replaced lib/node_exporter/text/tcplat.prom
	# Runs that succeed leave nothing in the journal.
	run journal
	assert_output "$(<before)"
}

@test "fleet: when the package is removed, so is the file, wherever it is" {
	((EUID == 0)) || skip 'needs root'
	local script i
	sed '/^#DEBHELPER#$/d' "$SOURCE/debian/tcplat.postrm" >deb
	sed -n '/^%postun$/,/^%post /p' "$SOURCE/packaging/rpm/tcplat.spec" | sed '/^%/d' >rpm
	cat >remove <<-'END'
		set -e
		mount -t tmpfs none /var/lib
		mount --bind default /etc/default
		mkdir -p /var/lib/prometheus/node-exporter /var/lib/x
		touch /var/lib/prometheus/node-exporter/tcplat.prom /var/lib/x/tcplat.prom
		sh "$@"
		find /var/lib -type f | sort
	END
	mkdir default
	for script in 'deb remove' 'deb purge' 'rpm 0' 'deb upgrade' 'rpm 1'; do
		rm -f default/tcplat
		for i in prometheus/node-exporter x; do
			# shellcheck disable=SC2086 # words
			run -0 unshare --mount bash remove $script
			case $script in
			*upgrade | *1) assert_equal "${#lines[@]}" 2 ;;
			*) refute_line "/var/lib/$i/tcplat.prom"; assert_equal "${#lines[@]}" 1 ;;
			esac
			printf '%s\n' 'TCPLAT_OPTIONS=--no-buckets x' 'TCPLAT_TEXTFILE="/var/lib/x/tcplat.prom"' \
				>default/tcplat
		done
	done
}

# To draw Documentation/guide/board.svg: pip install matplotlib, and this command with its path at
# the end.
@test "fleet: the picture's sample data in Prometheus, as the open panels show it" {
	run -0 python3 -B "$BATS_TEST_DIRNAME/board.py" "$FLEET"
	assert_line --regexp '^8 panels: [0-9]+ series$'
}

@test "fleet: two hosts of different HZ in one Prometheus, and every expression of the dashboard" {
	local host
	for host in hz100 hz1000 groups; do
		rm -rf sys
		make_tree $host
		if [[ $host == groups ]]; then
			make_every_file
			set_all delack/{timeouts=3,stalls=2,late_us=12000} \
				delack/delay_hist='0 0 0 0 0 0 0 3 0 0 0 0 0 0 0 0'
		fi
		mv sys $host.sys
		# A host's state after a reset; the values then grow from 0.
		cp -r $host.sys $host.zero
		zero "$host.zero/kernel/tcplat"
	done
	run -0 python3 -B "$BATS_TEST_DIRNAME/fleet.py" "$READER_DIR/tcplat" "$FLEET" \
		groups hz100 hz1000
	assert_line --regexp '^[0-9]+ expressions of the dashboard: ok$'
}
