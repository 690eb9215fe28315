#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The units of userspace/fleet, run by systemd on the live module, and all the way to a real
# Prometheus. Only this runs the units.

load ../live

FILE=/var/lib/prometheus/node-exporter/tcplat.prom
OWNERS=${FILE%/*}/tcplat-owners.prom

teardown() {
	cat "$BATS_TEST_TMPDIR"/{said,served} 2>/dev/null || :
	[[ ! ${outside:-} ]] || kill -KILL "$outside" || :
	# Not at the end, where bash would report the killed job.
	wait 2>/dev/null || :
}

setup() {
	untraced
	units=$BATS_TEST_TMPDIR/units default=$BATS_TEST_TMPDIR/default
	mkdir "$units" "$default"
	cp "$BATS_TEST_DIRNAME"/../../userspace/fleet/*.{service,timer} "$units"
	sed -i -e 's/^ExecStart=tcplat record/& --interval 2/' \
		-e "s|^\[Service\]$|&\nStandardOutput=append:$BATS_TEST_TMPDIR/lines|" "$units/tcplat-record.service"
	echo "TCPLAT_RECORD_OPTIONS=--prometheus $OWNERS" >"$default/tcplat"
}

# start_systemd UNIT...: starts a systemd as first process of a namespace, with only the units in
# $units, and starts these; $default is its /etc/default. Record's interval is 2 s instead of 60, to
# a file. Waits for its process, and sets inside to it and root to its files.
start_systemd() {
	local target
	for target in basic sysinit shutdown; do
		printf '[Unit]\nDefaultDependencies=no\n' >"$units/$target.target"
	done
	printf '[Unit]\nDefaultDependencies=no\nWants=%s\n' "$*" >"$units/test.target"
	cat >"$BATS_TEST_TMPDIR/init" <<-END
		set -e
		mount -t tmpfs none /run
		mount -t tmpfs none /var/lib
		mkdir -p "${FILE%/*}"
		install -d -o nobody /var/lib/another /var/lib/prometheus/metrics2
		mount --bind "$default" /etc/default
		mount --bind "$TCPLAT_PROMETHEUS/usr/bin" /usr/local/bin
		# systemd also looks for commands there.
		mount --bind "${TCPLAT%/*}" /usr/local/sbin
		exec env container=test SYSTEMD_UNIT_PATH="$units" \\
			/lib/systemd/systemd --system --unit=test.target --show-status=no
	END
	unshare --fork --kill-child --pid --mount --cgroup --mount-proc \
		bash "$BATS_TEST_TMPDIR/init" >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
	outside=$!
	soon pgrep -P "$outside" >"$BATS_TEST_TMPDIR/inside"
	read -r inside <"$BATS_TEST_TMPDIR/inside"
	root=/proc/$inside/root
}

# owners_have GROUP/FILE: all owners together have lost this time to Nagle's algorithm, in ns.
owners_have() {
	[[ $(awk '/cause="nagle"/ { sum += $NF } END { printf "%.0f", sum * 1e9 }' "$root$OWNERS") == $(counter "$1") ]]
}

@test "record has what it needs in its sandbox, also in another's directory, and leaves nothing behind in tracefs" {
	local records=$BATS_TEST_TMPDIR/lines holds
	: >"$records"
	# As fleet.md says.
	OWNERS=/var/lib/another/owners.prom
	echo "TCPLAT_RECORD_OPTIONS=--prometheus $OWNERS" >"$default/tcplat"
	mkdir "$units/tcplat-record.service.d"
	sed -n '/drop-in for `tcplat-record/,/^Do not/s/^    //p' "$BATS_TEST_DIRNAME/../../Documentation/guide/fleet.md" |
		sed "s,/srv/textfile,${OWNERS%/*}," >"$units/tcplat-record.service.d/local.conf"
	quiet
	start_systemd tcplat-record.service
	soon grep -q '"module":"loaded"' "$records"
	reset_counters
	"$TRAFFIC" wwr -n 10 --settle
	quiet
	holds=$(counter sndhold/nagle)
	((holds >= 5))
	soon owners_have sndhold/nagle_time_ns
	assert_equal "$(stat -c '%a %U' "$root$OWNERS")" '644 root'
	# The service ends with the interval so far.
	kill "$(pgrep -f 'tcplat record')"
	soon no_instances
	soon test ! -e "$root$OWNERS"
	run -0 python3 -c 'import json, sys
print(sum(x["nagle"]["count"] for line in open(sys.argv[1]) for x in json.loads(line)["owners"] if "nagle" in x))' "$records"
	assert_output "$holds"
}

# known EXPR VALUE...: waits until Prometheus has these values of EXPR, each with its label reason.
known() {
	python3 - "$@" <<-'END' || fail "$*"
		import json, sys, time, urllib.parse, urllib.request
		url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": sys.argv[1]})
		got, deadline = None, time.monotonic() + 300
		while got != sys.argv[2:]:
		    if time.monotonic() > deadline:
		        sys.exit(f"Prometheus has {got}")
		    time.sleep(0.2)
		    try:
		        result = json.load(urllib.request.urlopen(url, timeout=10))["data"]["result"]
		    except OSError as e:
		        got = e
		    else:
		        got = [" ".join([x["value"][1], *([x["metric"]["reason"]] if "reason" in x["metric"] else [])]) for x in result]
	END
}

@test "the timer, node_exporter and Prometheus, as Debian starts them: counters, owners, and no module" {
	! on_debug || skip 'Prometheus takes too long on this kernel'
	local seconds
	cp "$TCPLAT_PROMETHEUS"/lib/systemd/system/prometheus{,-node-exporter}.service "$units"
	# Both are unpacked, not installed, and there is no user prometheus.
	sed -i -e 's|=/usr/bin/|=/usr/local/bin/|; s/^User=.*/User=nobody/' \
		-e "s|^\[Service\]$|&\nStandardOutput=append:$BATS_TEST_TMPDIR/served\nStandardError=inherit|" "$units"/prometheus*.service
	echo 'ARGS=--collector.disable-defaults --collector.textfile --web.listen-address=127.0.0.1:9100' \
		>"$default/prometheus-node-exporter"
	echo 'ARGS=--config.file=/etc/default/prometheus.yml --storage.tsdb.path=/var/lib/prometheus/metrics2 --web.listen-address=127.0.0.1:9090' \
		>"$default/prometheus"
	echo '{"global": {"scrape_interval": "3s"}, "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": ["127.0.0.1:9100"]}]}]}' \
		>"$default/prometheus.yml"
	start_systemd tcplat-textfile.timer tcplat-record.service prometheus-node-exporter.service prometheus.service
	soon grep -qs '"module":"loaded"' "$BATS_TEST_TMPDIR/lines"
	reset_counters
	known tcplat_up 1
	"$TRAFFIC" wwr -n 10 --settle
	quiet
	# Exporters and their clients send at once: only the workload waits for ACKs.
	(($(counter sndhold/nagle) >= 5))
	seconds=$(awk '{ printf "%.9f", $1 / 1e9 }' "$TREE/sndhold/nagle_time_ns" | sed 's/0*$//')
	known 'tcplat_delays_total{cause="nagle"}' "$(counter sndhold/nagle)"
	known 'tcplat_lost_seconds_total{cause="nagle"}' "$seconds"
	# The same by owner; node_exporter took both files.
	known 'abs(sum(tcplat_owner_lost_seconds_total{cause="nagle"}) - scalar(tcplat_lost_seconds_total{cause="nagle"})) < bool 1e-9' 1
	known node_textfile_scrape_error 0
	# On the dot, every 15 seconds.
	run -0 nsenter -t "$inside" -m -p systemctl show -P NextElapseUSecRealtime tcplat-textfile.timer
	(($(date -d "$output" +%-S) % 15 == 0)) || fail "triggers at $output"

	# record keeps the module.
	run -1 rmmod tcplat
	kill "$(pgrep -f 'tcplat record')"
	soon no_instances
	unload_module
	known tcplat_up 0
	known tcplat_down_reason '1 no module for this kernel'
	known '{__name__=~"tcplat_(owner_)?lost_seconds_total"}'
	load_module
	known tcplat_up 1
}
