#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The units of userspace/fleet, run by systemd on the live module. Only this runs the units.

load ../helpers

FILE=/var/lib/prometheus/node-exporter/tcplat.prom

setup_file() {
	load_afresh
}

teardown_file() {
	! loaded || unload_module
}

teardown() {
	[[ ! ${outside:-} ]] || kill -KILL "$outside" || :
	# Not at the end, where bash would report the killed job.
	wait 2>/dev/null || :
}

# start_systemd: starts a systemd as first process of a namespace, with only these units; the
# timer's interval is 2 s instead of 15. Waits for its process, and sets root to its files.
start_systemd() {
	local units=$BATS_TEST_TMPDIR/units target i inside
	mkdir "$units"
	cp "$BATS_TEST_DIRNAME"/../../userspace/fleet/*.{service,timer} "$units"
	sed -i 's/^OnUnitActiveSec=15s$/OnUnitActiveSec=2s/' "$units/tcplat-textfile.timer"
	for target in basic sysinit shutdown; do
		printf '[Unit]\nDefaultDependencies=no\n' >"$units/$target.target"
	done
	printf '[Unit]\nDefaultDependencies=no\nWants=tcplat-textfile.timer\n' >"$units/test.target"
	cat >"$BATS_TEST_TMPDIR/init" <<-END
		set -e
		mount -t tmpfs none /run
		mount -t tmpfs none /var/lib
		mkdir -p "${FILE%/*}"
		# systemd also looks for commands there.
		mount --bind "${TCPLAT%/*}" /usr/local/sbin
		exec env container=test SYSTEMD_UNIT_PATH="$units" \\
			/lib/systemd/systemd --system --unit=test.target --show-status=no
	END
	unshare --fork --kill-child --pid --mount --cgroup --mount-proc \
		bash "$BATS_TEST_TMPDIR/init" >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
	outside=$!
	for ((i = 0; i < 300; i++)); do
		! inside=$(pgrep -P "$outside") || break
		sleep 0.1
	done
	root=/proc/$inside/root
}

# written: waits until the file has been replaced: the timer elapses every 2 s. Sets version to its
# inode.
written() {
	local i was=${version:-}
	for ((i = 0; i < 300; i++)); do
		version=$(stat -c %i "$root$FILE" 2>/dev/null) || version=''
		[[ ! $version || $version == "$was" ]] || return 0
		sleep 0.2
	done
	cat "$BATS_TEST_TMPDIR/said"
	fail "$FILE is not written${was:+ again}"
}

# Prints the number of delayed ACKs in the file.
exported() { sed -n 's/^tcplat_delack_delay_seconds_count //p' "$root$FILE"; }

@test "the timer has the service write the file, and again after the module was away" {
	local version='' stood
	"$TRAFFIC" wwr -n 3 --settle
	quiet
	start_systemd
	written
	assert_equal "$(exported)" "$(counter delack/timeouts)"
	(($(exported) > 0))
	assert_equal "$(stat -c %a "$root$FILE") $(ls -A "$root${FILE%/*}")" '644 tcplat.prom'
	written

	# Without the module the file does not change, however often the timer elapses.
	unload_module
	sleep 2
	stood=$(stat -c %i "$root$FILE")
	sleep 5
	assert_equal "$(stat -c %i "$root$FILE")" "$stood"
	load_module
	version=$stood
	written
	assert_equal "$(exported)" 0
}
