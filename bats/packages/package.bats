#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Installs, uses and purges the Debian packages. They need dkms 3.0; bullseye's is older. Only
# this checks what the packages contain and what they leave behind.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	DEBS=$TOP/build/debs
	export DEBS
	lay_over
	# One kernel is enough to build for.
	find "$COPY"/lib/modules/*/build -not -path "*/$KERNEL/*" -delete
}

teardown_file() { lay_off; }

@test "$RELEASE: lintian finds no error in the packages" {
	run lintian --allow-root --fail-on error "$DEBS"/tcplat_*.changes
	assert_success
	refute_output --regexp '^E:'
}

@test "$RELEASE: the packages install and build the module for the kernels that are there" {
	cp "$DEBS"/tcplat{,-dkms}_*.deb "$COPY/packages/"
	local debs=("$COPY"/packages/*.deb)
	run apt_install "${debs[@]#"$COPY"}"
	assert_success
	installed_for "$KERNEL"
	# Not loaded at boot until the administrator enables that.
	run grep -vE '^#|^$' "$COPY"/etc/modules-load.d/tcplat.conf "$COPY"/etc/modprobe.d/tcplat.conf
	assert_output ""
}

@test "$RELEASE: the reader comes with the rules, the dashboard, the documents and a timer that is off" {
	local f
	for f in /lib/systemd/system/tcplat-textfile.{service,timer} \
		/usr/share/tcplat/tcplat.{rules.yml,dashboard.json,schema.json} \
		/usr/share/doc/tcplat/README.md; do
		run inside dpkg-query -S "$f"
		assert_output "tcplat: $f"
	done
	# Everything that the documents link to is present under the linked name. Taken from the
	# package, since the root file system leaves out documents.
	dpkg -x "$DEBS"/tcplat_*.deb "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR/usr/share/doc/tcplat"
	grep -oP '\]\(\K[^):#]+' README.md >links
	run xargs ls -d <links
	assert_success
	assert_line Documentation/install.rst
	assert_line userspace/fleet/README.md
	assert_line SECURITY.md
	run find "$COPY"/etc/systemd -iname '*tcplat*'
	assert_output ""
}

@test "$RELEASE: modules-load.d loads it at boot, not with tcplat.off=1 on the kernel's command line" {
	sed -i 's/^#tcplat/tcplat/' "$COPY/etc/modules-load.d/tcplat.conf"
	run apt_install systemd
	assert_success
	run inside systemctl is-enabled tcplat-textfile.timer
	assert_output disabled
	# An administrator may have enabled the timer before purging.
	run inside systemctl enable tcplat-textfile.timer
	assert_success
	[[ -L $COPY/etc/systemd/system/timers.target.wants/tcplat-textfile.timer ]]
	# shellcheck disable=SC2016 # for the guest
	run --separate-stderr boot --append tcplat.off=1 -- bash -c '
		at_boot() { /usr/lib/systemd/systemd-modules-load; echo "at boot: $?"; }
		at_boot
		modprobe tcplat 2>&1 && exit 1
		[ ! -e /sys/module/tcplat ] || exit 2
		dmesg | grep -o "tcplat: not loading.*"
		modprobe tcplat off=0 && rmmod tcplat || exit 3

		sed "s/tcplat.off=1//" /proc/cmdline >/tmp/cmdline
		mount --bind /tmp/cmdline /proc/cmdline
		at_boot
		tcplat show delack
		rmmod tcplat'
	assert_success
	assert_equal "$(grep -c "tcplat: not loading: off=1 was given" <<<"$output")" 2
	assert_line --partial "No such device"
	assert_line --partial "[armed]"
	assert_line --regexp '^ *timeouts '
	# Nothing that a boot would report as failed.
	assert_equal "$(grep -c "^at boot: 0\$" <<<"$output")" 2
}

@test "$RELEASE: purging them leaves nothing" {
	rm -r "$COPY/packages"
	run inside dpkg --purge tcplat tcplat-dkms
	assert_success
	run left_behind
	assert_output ""
	run inside dkms status
	assert_output ""
}
